"""The pictures of an advice: which epsilon and cap fit, and by when users are exposed."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt
import polars as pl

from poolscope.figures import style
from poolscope.figures.saving import Figure
from poolscope.figures.style import Picture, answer, between, percent
from poolscope.workflows.advise.records import Advice
from poolscope.workflows.advise.text import events, share

CAP, ERROR, ASKED, CHOSEN = "largest cap", "smallest epsilon by the error", "asked for", "recommended"

REGION = "#56bfc0"
"""What meets the targets."""


def pictures(advice: Advice) -> Iterator[Figure]:
    """All pictures of a page, in the order in which they are read."""
    what, question = events(advice.scenario), advice.question
    error = (
        "the shade begins at the smallest epsilon whose error is small enough"
        if question.max_error is not None
        else "without an error asked for, nothing bounds epsilon from below"
    )
    yield Figure(
        name="map",
        title="Which epsilon and which cap fit?",
        caption=f"The line is the largest number of {what} that exposes at most {share(question.max_exposed)} of the "
        f"users, its thin bars are 95 % intervals; below it fewer are exposed, and {error}. Where the shade reaches "
        "the dashed line of what was asked for, the mechanism fits. No play went beyond the top. The diamond is the "
        "recommendation.",
        chart=fitting_map(advice),
    )
    yield Figure(
        name="exposure",
        title=f"By when are users exposed? {advice.recommendation.mechanism} at ε {advice.recommendation.epsilon:g}",
        caption=f"Of {advice.recommendation.users:,} held-out users; the shade is the 95 % interval, the "
        "dashed line what was asked for.",
        chart=exposure_curve(advice),
    )


@style.quickly
def fitting_map(advice: Advice) -> Picture:
    """Epsilon against the largest cap: a panel for each mechanism, with the region that serves."""
    question, what = advice.question, events(advice.scenario).capitalize()
    colors = {CAP: style.POOL_COLOURS[0], ASKED: style.MUTED}
    colors |= {} if question.max_error is None else {ERROR: style.EXPOSURE_COLOURS[1]}
    look = style.keys(colors, dashed=[ASKED, ERROR])
    epsilons = [trial.epsilon for finding in advice.findings for trial in finding.trials]
    x = alt.X(
        "epsilon:Q",
        scale=alt.Scale(type="log", domain=[min(epsilons) / 1.05, max(epsilons) * 1.05], nice=False),
        axis=alt.Axis(title="ε of a report", tickCount=4, format="~g"),
    )
    y = alt.Y("cap:Q", scale=alt.Scale(domain=[0, advice.horizon], nice=False), axis=alt.Axis(title=what, tickCount=5))
    said = answer(
        {
            "Largest cap": "format(datum.cap, ',')",
            "95\u202f% interval": "format(datum.low, ',') + ' to ' + format(datum.high, ',')",
            f"Exposed by {question.horizon:,}": percent("datum.exposed"),
            "Users": "format(datum.users, ',')",
        },
        title="datum.mechanism + ' at ε ' + format(datum.epsilon, '.3~g')",
    )
    layers = [
        style.layer().mark_area(color=REGION, opacity=0.3, clip=True).encode(x=x, y=y).transform_filter("datum.serves"),
        style.layer("asked").mark_rule(strokeWidth=1.2).encode(y=alt.Y("cap:Q"), **look),
        _only(CAP, style.layer().mark_rule(strokeWidth=1, opacity=0.6, clip=True)).encode(
            x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), stroke=look["stroke"]
        ),
        _only(CAP, style.layer().mark_line(strokeWidth=2, clip=True)).encode(x=x, y=y, **look),
        _only(ERROR, style.layer().mark_rule(strokeWidth=1.2)).encode(x=x, **look),
        _only(CHOSEN, style.layer().mark_point(shape="diamond", filled=True, size=110, color=style.INK)).encode(
            x=x, y=y
        ),
        style.pointer(x, y, colors, said).transform_filter(f"datum.line == '{CAP}'"),
    ]
    tables = {"rows": _map_rows(advice), "asked": pl.DataFrame({"cap": [question.horizon], "line": [ASKED]})}
    order = [finding.mechanism for finding in advice.findings if finding.trials]
    return style.panels(layers, tables, "mechanism", order, least=160, legend=list(colors))


def _only(line: str, layer: Picture) -> Picture:
    """The rows of one kind; its name is ours."""
    return layer.transform_filter(f"datum.line == '{line}'")


def _map_rows(advice: Advice) -> pl.DataFrame:
    """Of each mechanism its trials and the smallest epsilon by the error, and of the chosen one the choice."""
    error, chosen = advice.question.max_error, advice.recommendation
    rows: list[dict[str, object]] = []
    for finding in advice.findings:
        own = {"mechanism": finding.mechanism}
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
                # the smallest epsilon that serves has the asked error but for rounding
                "serves": error is None or (trial.error is not None and trial.error <= 1.0001 * error),
            }
            for trial in finding.trials
        ]
        if finding.epsilon_min is not None:
            rows.append({**own, "line": ERROR, "epsilon": finding.epsilon_min})
        if finding.mechanism == chosen.mechanism:
            rows.append({**own, "line": CHOSEN, "epsilon": chosen.epsilon, "cap": float(chosen.cap)})
    return pl.DataFrame(rows, infer_schema_length=None)


@style.quickly
def exposure_curve(advice: Advice) -> Picture:
    """Share of the verifying users exposed by each number of events, beside what was asked for."""
    question, line = advice.question, "exposed"
    table = pl.DataFrame(
        [
            {"n": n, "share": found.value, "low": found.low, "high": found.high, "line": line}
            for n, found in enumerate(advice.curve)
        ]
    )
    colors = {line: style.EXPOSURE_COLOURS[1], ASKED: style.MUTED}
    look = style.keys(colors, dashed=[ASKED])
    last, top = len(advice.curve) - 1, max(1.3 * question.max_exposed, *(1.05 * found.high for found in advice.curve))
    x = alt.X(
        "n:Q",
        scale=alt.Scale(domain=[0, last], nice=False),
        axis=alt.Axis(title=events(advice.scenario).capitalize(), tickMinStep=1),
    )
    y = alt.Y(
        "share:Q",
        scale=alt.Scale(domain=[0, min(1.0, top)], nice=False),
        axis=alt.Axis(title="Users exposed", tickCount=5, labelExpr=percent("datum.value", ".3~g")),
    )
    said = answer(
        {"Users exposed": percent("datum.share"), "95\u202f% interval": between()}, title="'by ' + format(datum.n, ',')"
    )
    target = pl.DataFrame({"n": [0, last], "share": [question.max_exposed] * 2, "line": [ASKED] * 2})
    layers = [
        _only(line, style.layer().mark_area(opacity=0.18, clip=True)).encode(
            x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), fill=style.fills(colors)
        ),
        _only(ASKED, style.layer().mark_line(strokeWidth=1.2)).encode(x=x, y=y, **look),
        _only(line, style.layer().mark_line(strokeWidth=2, interpolate="step-after", clip=True)).encode(
            x=x, y=y, **look
        ),
        style.pointer(x, y, colors, said).transform_filter(f"datum.line == '{line}'"),
    ]
    return style.single(layers, pl.concat([table, target], how="diagonal"), height=style.PANEL, legend=list(colors))
