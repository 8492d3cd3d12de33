"""Draw the figures of an advice: the feasible region, and the exposure of the held-out users."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from poolscope.figures import style
from poolscope.figures.grammar import Layer, field, mark
from poolscope.figures.saving import Figure
from poolscope.figures.style import Picture, between, percent, tooltip
from poolscope.workflows.advise.collection_records import CollectionsAdvice
from poolscope.workflows.advise.records import Advice
from poolscope.workflows.advise.text import events

CAP, ERROR, TARGET, CHOSEN = "max cap", "ε min (utility)", "target", "recommended"

REGION = "#56bfc0"
"""Color of the feasible region."""


def pictures(advice: Advice | CollectionsAdvice) -> Iterator[Figure]:
    """Yield the figures of a report, in reading order."""
    if isinstance(advice, CollectionsAdvice):
        yield from _collection_pictures(advice)
        return
    what, question = events(advice.scenario), advice.question
    error = (
        "it starts at the smallest ε that meets the accuracy target"
        if question.max_error is not None
        else "without an accuracy target, nothing bounds ε from below"
    )
    yield Figure(
        name="map",
        title="Feasible ε and cap",
        caption=f"The line is the largest number of {what} that exposes at most {100 * question.max_exposed:g}% of the "
        f"users, with 95% CIs. The shaded region below it is feasible; {error}. A mechanism meets the targets where "
        "the shade reaches the dashed line. The top of the axis is the horizon. The diamond is the recommendation.",
        chart=feasible_region(advice),
    )
    yield Figure(
        name="exposure",
        title=f"Exposure of held-out users, {advice.recommendation.name} at ε = {advice.recommendation.epsilon:g}",
        caption=f"Share of {advice.recommendation.users:,} held-out users exposed; 95% CI shaded, target dashed.",
        chart=exposure_curve(advice),
    )


def _collection_pictures(advice: CollectionsAdvice) -> Iterator[Figure]:
    """Yield the figures of an advice on several collections."""
    users, last = advice.recommendation.users, advice.recommendation.last_day
    yield Figure(
        name="costs",
        title="Cost of each collection",
        caption=f"Share of {users:,} held-out users exposed by all collections together, minus that without the "
        f"collection, by {last:,} days. Bars are 95% CIs.",
        chart=cost_plot(advice),
    )
    yield Figure(
        name="exposure",
        title="Exposure of held-out users, all collections together",
        caption=f"Share of {users:,} held-out users exposed; 95% CI shaded, target dashed.",
        chart=exposure_curve(advice),
    )


def cost_plot(advice: CollectionsAdvice) -> Picture:
    """Return the cost of each collection in exposure: a row for each, with its 95% CI."""
    rows = [
        {
            "collection": one.collection,
            **dict(zip(("cost", "low", "high"), one.cost, strict=True)),
            "epsilon": one.epsilon,
            "cap": one.cap,
        }
        for one in advice.collections
    ]
    order, color = [one.collection for one in advice.collections], style.EXPOSURE_COLORS[1]
    title = "Users exposed because of the collection"
    x = field("cost:Q", axis={"title": title, "tickCount": 5, "labelExpr": percent("datum.value", ".3~g")})
    y = field("collection:N", sort=order, axis={"title": None})
    hint = tooltip(
        {
            "Cost": percent("datum.cost"),
            "95% CI": between(),
            "ε per report": "format(datum.epsilon, '.4~g')",
            "Cap, reports": "format(datum.cap, ',')",
        },
        title="datum.collection",
    )
    layers = [
        mark("rule", strokeWidth=2, color=color).encode(x=field("low:Q"), x2=field("high"), y=y),
        mark("point", filled=True, size=80, color=color, opacity=1, tooltip={"expr": hint}).encode(x=x, y=y),
    ]
    return style.single(layers, pl.DataFrame(rows), height=48 * len(rows), legend=[])


def feasible_region(advice: Advice) -> Picture:
    """Return ε against the largest cap: a panel for each mechanism, with the feasible region."""
    question, what = advice.question, events(advice.scenario).capitalize()
    colors = {CAP: style.POOL_COLORS[0], TARGET: style.MUTED}
    colors |= {} if question.max_error is None else {ERROR: style.EXPOSURE_COLORS[1]}
    look = style.line_legend(colors, dashed=[TARGET, ERROR])
    epsilons = [trial.epsilon for finding in advice.findings for trial in finding.trials]
    x = field(
        "epsilon:Q",
        scale={"type": "log", "domain": [min(epsilons) / 1.05, max(epsilons) * 1.05], "nice": False},
        axis={"title": "ε per report", "tickCount": 4, "format": "~g"},
    )
    y = field("cap:Q", scale={"domain": [0, advice.horizon], "nice": False}, axis={"title": what, "tickCount": 5})
    hint = tooltip(
        {
            "Max cap": "format(datum.cap, ',')",
            "95% CI": "format(datum.low, ',') + ' to ' + format(datum.high, ',')",
            f"Exposed at n = {question.horizon:,}": percent("datum.exposed"),
            "Users": "format(datum.users, ',')",
        },
        title="datum.mechanism + ' at ε = ' + format(datum.epsilon, '.3~g')",
    )
    layers = [
        mark("area", color=REGION, opacity=0.3, clip=True).encode(x=x, y=y).where("datum.feasible"),
        mark("rule", data="asked", strokeWidth=1.2).encode(y=field("cap:Q"), **look),
        _only(CAP, mark("rule", strokeWidth=1, opacity=0.6, clip=True)).encode(
            x=x, y=field("low:Q"), y2=field("high"), stroke=look["stroke"]
        ),
        _only(CAP, mark("line", strokeWidth=2, clip=True)).encode(x=x, y=y, **look),
        _only(ERROR, mark("rule", strokeWidth=1.2)).encode(x=x, **look),
        _only(CHOSEN, mark("point", shape="diamond", filled=True, size=110, color=style.INK)).encode(x=x, y=y),
        style.pointer(x, y, colors, hint).where(f"datum.line == '{CAP}'"),
    ]
    tables = {"rows": _map_rows(advice), "asked": pl.DataFrame({"cap": [question.horizon], "line": [TARGET]})}
    order = [finding.name for finding in advice.findings if finding.trials]
    return style.panels(layers, tables, "mechanism", order, least=160, legend=list(colors))


def _only(line: str, layer: Layer) -> Layer:
    """Return a layer of the rows of one line; its name is not user input."""
    return layer.where(f"datum.line == '{line}'")


def _map_rows(advice: Advice) -> pl.DataFrame:
    """Return the trials of each mechanism, its smallest useful ε, and the recommendation."""
    error, chosen = advice.question.max_error, advice.recommendation
    rows: list[dict[str, object]] = []
    for finding in advice.findings:
        own = {"mechanism": finding.name}
        rows += [
            {
                **own,
                "line": CAP,
                "epsilon": trial.epsilon,
                "cap": trial.cap.value,
                "low": trial.cap.low,
                "high": trial.cap.high,
                "exposed": trial.exposed.value,
                "users": trial.users,
                # at the smallest epsilon the error equals the target up to rounding
                "feasible": error is None or (trial.error is not None and trial.error <= 1.0001 * error),
            }
            for trial in finding.trials
        ]
        if finding.epsilon_min is not None:
            rows.append({**own, "line": ERROR, "epsilon": finding.epsilon_min})
        if finding.name == chosen.name:
            rows.append({**own, "line": CHOSEN, "epsilon": chosen.epsilon, "cap": float(chosen.cap)})
    return pl.DataFrame(rows, infer_schema_length=None)


def exposure_curve(advice: Advice | CollectionsAdvice) -> Picture:
    """Return the share of held-out users exposed by each number of events, with the target."""
    question, line = advice.question, "exposed"
    table = pl.DataFrame(
        [
            {"n": n, "share": found.value, "low": found.low, "high": found.high, "line": line}
            for n, found in enumerate(advice.curve)
        ]
    )
    colors = {line: style.EXPOSURE_COLORS[1], TARGET: style.MUTED}
    look = style.line_legend(colors, dashed=[TARGET])
    last, top = len(advice.curve) - 1, max(1.3 * question.max_exposed, *(1.05 * found.high for found in advice.curve))
    x = field(
        "n:Q",
        scale={"domain": [0, last], "nice": False},
        axis={"title": events(advice.scenario).capitalize(), "tickMinStep": 1},
    )
    y = field(
        "share:Q",
        scale={"domain": [0, min(1.0, top)], "nice": False},
        axis={"title": "Users exposed", "tickCount": 5, "labelExpr": percent("datum.value", ".3~g")},
    )
    hint = tooltip(
        {"Users exposed": percent("datum.share"), "95% CI": between()}, title="'n = ' + format(datum.n, ',')"
    )
    target = pl.DataFrame({"n": [0, last], "share": [question.max_exposed] * 2, "line": [TARGET] * 2})
    layers = [
        _only(line, mark("area", opacity=0.18, clip=True)).encode(
            x=x, y=field("low:Q"), y2=field("high"), fill=style.fills(colors)
        ),
        _only(TARGET, mark("line", strokeWidth=1.2)).encode(x=x, y=y, **look),
        _only(line, mark("line", strokeWidth=2, interpolate="step-after", clip=True)).encode(x=x, y=y, **look),
        style.pointer(x, y, colors, hint).where(f"datum.line == '{line}'"),
    ]
    return style.single(layers, pl.concat([table, target], how="diagonal"), height=style.PANEL, legend=list(colors))
