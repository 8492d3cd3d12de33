"""Which pictures the page of a run has, and the sentence that says how to read each."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from poolscope.core.counting import MIN_USERS
from poolscope.figures import charts as figures
from poolscope.figures.saving import Figure, slug
from poolscope.metrics.bounds import trade_off
from poolscope.workflows.audit.run_folder import Run, Summary

DECIDED = 0.999
"""Advantage from which on a trade-off curve cannot be told from the axes, and is left out."""


def pictures(run: Run) -> Iterator[Figure]:
    """All pictures of a page, in the order in which they are read."""
    k, found = len(run.summary.pools), run.tables
    yield _precision(found.curves, k)
    yield _exposure(found.exposure)
    for number, rows in enumerate(found.maps.partition_by("adversary", maintain_order=True), start=1):
        yield _map(rows, number, k)
    yield _calibration(found.calibration)
    yield from _trade_off(run.summary)


def _precision(curves: pl.DataFrame, k: int) -> Figure:
    return Figure(
        name="precision",
        title="How often is the guess right?",
        caption="To the right the adversary guesses for fewer users, the ones it is surest about: a curve above the "
        "dashed line beats a random guess, the area under it is the AUC, its shade is the 95 % interval, grey is the "
        f"same game without privacy, and a curve ends where fewer than {MIN_USERS} users are left.",
        chart=figures.precision_null_rate(curves, k),
    )


def _exposure(table: pl.DataFrame) -> Figure:
    return Figure(
        name="exposure",
        title="How many reports does it take?",
        caption="The height of a line is the share of users exposed by that number of reports: the adversary has, at "
        f"some time up to it, been sure of them, with a confidence of {figures.levels(table)}. The axis is stretched "
        f"near 0, where caps on reports are decided. {figures.ZOOM}",
        chart=figures.exposure_curves(table),
    )


def _map(table: pl.DataFrame, number: int, k: int) -> Figure:
    adversary = table["adversary"][0]
    return Figure(
        name=f"behavior-{number}-{slug(adversary)[:40]}".rstrip("-"),
        title=f"Who is most at risk? The {adversary} adversary",
        caption="A cell holds users of like behavior, from left to right those who pick from the pools more often, "
        "upwards those who keep more to one pool: its color says how many of them the adversary guesses rightly. "
        "Grey cells have no users.",
        chart=figures.behavior_maps(table, k),
    )


def _calibration(table: pl.DataFrame) -> Figure:
    return Figure(
        name="calibration",
        title="Does the adversary know when it is right?",
        caption="Points on the dashed line mean that of the guesses made with, say, 80 % confidence 80 % are right; "
        f"bars are 95 % intervals, and points with fewer than {MIN_USERS} users are left out.",
        chart=figures.calibration_plot(table),
    )


def _trade_off(summary: Summary) -> Iterator[Figure]:
    """What epsilon alone leaves any adversary to decide; nothing where it bounds nobody."""
    spent = summary.epsilon
    if spent is None or spent.answer is not None:
        return
    counts = sorted({record.n for record in summary.results})
    found = {n: trade_off(spent.report, n) for n in counts}
    curves = [curve.table().with_columns(n=pl.lit(n)) for n, curve in found.items() if curve.advantage < DECIDED]
    if not curves:
        return
    yield Figure(
        name="trade-off",
        title="What can any adversary decide?",
        caption="The adversary must say which of two pools a user prefers, from n reports. It names the second pool "
        "wrongly at the rate to the right, and the first wrongly at the rate upwards. No test has errors below a line, "
        "whatever it knows. Where fewer than n reports are linked, errors are larger; a line without visible errors is "
        "left out.",
        chart=figures.trade_off_curves(pl.concat(curves)),
    )
