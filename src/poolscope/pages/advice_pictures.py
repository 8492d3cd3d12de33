"""The pictures of an advice: which epsilon and cap fit, and by when users are exposed."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt
import polars as pl

from poolscope.pages import style
from poolscope.pages.charts import Shown
from poolscope.pages.style import Picture, answer, between, percent
from poolscope.verbs.advise.advice import Advice
from poolscope.verbs.advise.words import events, share

CAP, ERROR, ASKED, CHOSEN = "largest cap", "smallest epsilon by the error", "asked for", "recommended"

REGION = "#56bfc0"
"""What meets the targets."""


def pictures(advice: Advice) -> Iterator[Shown]:
    """All pictures of a page, in the order in which they are read."""
    what, question = events(advice.scenario), advice.question
    error = (
        "the shade begins at the smallest epsilon whose error is small enough"
        if question.error is not None
        else "without an error asked for, nothing bounds epsilon from below"
    )
    yield Shown(
        name="map",
        title="Which epsilon and which cap fit?",
        caption=f"The line is the largest number of {what} that exposes at most {share(question.exposed)} of the "
        f"users, its thin bars are 95 % intervals; below it fewer are exposed, and {error}. Where the shade reaches "
        "the dashed line of what was asked for, the mechanism fits. No play went beyond the top. The diamond is the "
        "recommendation.",
        chart=fitting_map(advice),
    )
    yield Shown(
        name="exposure",
        title=f"By when are users exposed? {advice.recommendation.mechanism} at ε {advice.recommendation.epsilon:g}",
        caption=f"Of {advice.recommendation.users:,} users who did not choose it; the shade is the 95 % interval, the "
        "dashed line what was asked for.",
        chart=exposure_curve(advice),
    )


def fitting_map(advice: Advice) -> Picture:
    """Epsilon against the largest cap: a panel for each mechanism, with the region that serves."""
    question, chosen = advice.question, advice.recommendation
    table = pl.DataFrame(
        [
            {
                "mechanism": finding.mechanism,
                "line": CAP,
                "epsilon": trial.epsilon,
                "cap": trial.cap.value,
                "low": trial.cap.low,
                "high": trial.cap.high,
                "exposed": trial.exposed.value,
                "users": trial.users,
                "serves": question.error is None
                or (trial.error is not None and trial.error <= question.error * 1.0001),
            }
            for finding in advice.findings
            for trial in finding.trials
        ]
    )
    marks = pl.DataFrame(
        [
            {"mechanism": finding.mechanism, "line": ERROR, "epsilon": finding.smallest}
            for finding in advice.findings
            if finding.smallest is not None
        ],
        schema={"mechanism": pl.String, "line": pl.String, "epsilon": pl.Float64},
    )
    recommended = {
        "mechanism": [chosen.mechanism],
        "line": [CHOSEN],
        "epsilon": [chosen.epsilon],
        "cap": [float(chosen.cap)],
    }
    colours = {CAP: style.POOL_COLOURS[0], ASKED: style.MUTED}
    colours |= {} if marks.is_empty() else {ERROR: style.EXPOSURE_COLOURS[1]}
    look = style.keys(colours, dashed=[ASKED, ERROR])
    epsilons = [trial.epsilon for finding in advice.findings for trial in finding.trials]
    x = alt.X(
        "epsilon:Q",
        scale=alt.Scale(type="log", domain=[min(epsilons), max(epsilons)], nice=False),
        axis=alt.Axis(title="ε of a report", tickCount=5, format="~g"),
    )
    top = [0, advice.horizon]
    y = alt.Y(
        "cap:Q", scale=alt.Scale(domain=top, nice=False), axis=alt.Axis(title=events(advice.scenario).capitalize())
    )
    said = answer(
        {
            "ε": "format(datum.epsilon, '.3~g')",
            "Largest cap": "format(datum.cap, ',')",
            "95\u202f% interval": "format(datum.low, ',') + ' to ' + format(datum.high, ',')",
            "Exposed by then": percent("datum.exposed"),
            "Users": "format(datum.users, ',')",
        },
        title="datum.mechanism",
    )
    asked = style.rows(pl.DataFrame({"cap": [question.reports], "line": [ASKED]}))
    layers = [
        alt.Chart().mark_area(color=REGION, opacity=0.3, clip=True).encode(x=x, y=y).transform_filter("datum.serves"),
        alt.Chart(asked).mark_rule(strokeWidth=1.2).encode(y=y, **look),
        alt.Chart()
        .mark_rule(strokeWidth=1, opacity=0.6)
        .encode(x=x, y=alt.Y("low:Q"), y2="high:Q", stroke=look["stroke"])
        .transform_filter("isValid(datum.low)"),
        alt.Chart().mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, **look).transform_filter("isValid(datum.low)"),
        alt.Chart()
        .mark_rule(strokeWidth=1.2)
        .encode(x=x, **look)
        .transform_filter(alt.FieldEqualPredicate(field="line", equal=ERROR)),
        alt.Chart()
        .mark_point(shape="diamond", filled=True, size=110, color=style.INK, tooltip="recommended")
        .encode(x=x, y=y)
        .transform_filter(alt.FieldEqualPredicate(field="line", equal=CHOSEN)),
        style.pointer("epsilon:Q", "cap:Q", colours, said).transform_filter("isValid(datum.low)"),
    ]
    shown = pl.concat([table, marks, pl.DataFrame(recommended)], how="diagonal")
    order = [finding.mechanism for finding in advice.findings]
    return style.panels(layers, shown, "mechanism", order, least=160, legend=list(colours))


def exposure_curve(advice: Advice) -> Picture:
    """Share of the verifying users exposed by each number of events, beside what was asked for."""
    question, line = advice.question, "exposed"
    table = pl.DataFrame(
        [
            {"n": n, "share": found.value, "low": found.low, "high": found.high, "line": line}
            for n, found in enumerate(advice.curve)
        ]
    )
    colours = {line: style.EXPOSURE_COLOURS[1], ASKED: style.MUTED}
    look = style.keys(colours, dashed=[ASKED])
    top = max(1.3 * question.exposed, 1.05 * float(table["high"].max()))  # type: ignore[arg-type]
    x = alt.X(
        "n:Q", scale=alt.Scale(nice=False), axis=alt.Axis(title=events(advice.scenario).capitalize(), tickCount=6)
    )
    y = alt.Y(
        "share:Q",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(title="Users exposed", tickCount=5, labelExpr=percent("datum.value", ".3~g")),
    )
    asked = style.rows(pl.DataFrame({"share": [question.exposed], "line": [ASKED]}))
    said = answer(
        {"Exposed": percent("datum.share"), "95\u202f% interval": between()}, title="'by ' + format(datum.n, ',')"
    )
    layers = [
        alt.Chart()
        .mark_area(opacity=0.18, clip=True)
        .encode(x=x, y=alt.Y("low:Q"), y2="high:Q", fill=style.fills(colours)),
        alt.Chart(asked).mark_rule(strokeWidth=1.2).encode(y=y, **look),
        alt.Chart().mark_line(strokeWidth=2, interpolate="step-after", clip=True).encode(x=x, y=y, **look),
        style.pointer("n:Q", "share:Q", colours, said),
    ]
    return style.single(layers, table, height=style.PANEL, legend=list(colours))
