"""Select the figures of an audit, with titles and captions."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from poolscope.core.counting import MIN_USERS
from poolscope.figures import charts as figures
from poolscope.figures.collections import collection_pictures
from poolscope.figures.saving import Figure, slug
from poolscope.metrics.bounds import trade_off
from poolscope.workflows.audit.run_folder import Run, Summary

DECIDED = 0.999
"""Advantage above which a trade-off curve coincides with the axes and is omitted."""


def pictures(run: Run) -> Iterator[Figure]:
    """Yield the figures of a report, in reading order."""
    k, found = len(run.summary.pools), run.tables
    yield _precision(found.curves, k)
    yield _exposure(found.exposure, run.summary.unit)
    yield from collection_pictures(run)
    for number, rows in enumerate(found.maps.partition_by("adversary", maintain_order=True), start=1):
        yield _map(rows, number, k)
    yield _calibration(found.calibration)
    yield from _trade_off(run.summary)


def _precision(curves: pl.DataFrame, k: int) -> Figure:
    return Figure(
        name="precision",
        title="Precision against null rate",
        caption="Further right, the adversary guesses for fewer users, those with the highest confidence. A curve "
        "above the dashed line beats a random guess; the area under it is AUC-PN. 95% CI shaded; gray is the "
        f"non-private game. A curve ends where fewer than {MIN_USERS} users remain.",
        chart=figures.precision_null_rate(curves, k),
    )


def _exposure(table: pl.DataFrame, unit: str) -> Figure:
    return Figure(
        name="exposure",
        title=f"Exposure against {unit}s",
        caption=f"Share of users exposed by n {unit}s: confidence of at least {figures.levels(table)} at least once, "
        f"correct or not. Square-root axis, 95% CI shaded. {figures.ZOOM}",
        chart=figures.exposure_curves(table, unit=unit),
    )


def _map(table: pl.DataFrame, number: int, k: int) -> Figure:
    adversary = table["adversary"][0]
    return Figure(
        name=f"behavior-{number}-{slug(adversary)[:40]}".rstrip("-"),
        title=f"Precision by user behavior, {adversary} adversary",
        caption="Each cell groups users with similar behavior. Further right, they pick from the pools more often; "
        "further up, they pick more from one pool. Color is the share guessed correctly; gray cells have no users.",
        chart=figures.behavior_maps(table, k),
    )


def _calibration(table: pl.DataFrame) -> Figure:
    return Figure(
        name="calibration",
        title="Calibration",
        caption="On the dashed line, 80% of the guesses with 80% confidence are correct. Bars are 95% CIs; points with "
        f"fewer than {MIN_USERS} users are omitted.",
        chart=figures.calibration_plot(table),
    )


def _trade_off(summary: Summary) -> Iterator[Figure]:
    """Yield the trade-off curve that ε implies for every adversary; nothing where it gives no bound."""
    spent = summary.epsilon
    if spent is None or spent.response is not None:
        return
    counts = sorted({record.n for record in summary.results})
    found = {n: trade_off(spent.report, n) for n in counts}
    curves = [curve.table().with_columns(n=pl.lit(n)) for n, curve in found.items() if curve.advantage < DECIDED]
    if not curves:
        return
    yield Figure(
        name="trade-off",
        title="Trade-off bound for every adversary",
        caption="An adversary decides between two pools from n reports. No test has error rates below its line, "
        "whatever the adversary knows. Where fewer than n reports are linked, errors are larger. Lines that "
        "coincide with the axes are omitted.",
        chart=figures.trade_off_curves(pl.concat(curves)),
    )
