"""Which pictures the page of a run has, and the sentence that says how to read each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl
from matplotlib.figure import Figure

from poolscope.pages import figures
from poolscope.pages.html import slug
from poolscope.pages.style import to_svg
from poolscope.verbs.audit.folder import Run


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One figure, its panels side by side for a page and stacked for a column or a telephone."""

    name: str
    title: str
    caption: str
    wide: str
    narrow: str


def pictures(run: Run) -> Iterator[Picture]:
    """All pictures of a page, in the order in which they are read."""
    k, found = len(run.summary.pools), run.tables
    yield _precision(found.curves, k)
    yield _exposure(found.exposure)
    for number, rows in enumerate(found.maps.partition_by("adversary", maintain_order=True), start=1):
        yield _map(rows, number, k)
    yield _calibration(found.calibration)


def _precision(curves: pl.DataFrame, k: int) -> Picture:
    return _picture(
        "precision",
        "How often is the guess right?",
        "To the right the adversary guesses for fewer users, the ones it is surest about: a curve "
        "above the dashed line beats a random guess, the area under it is the AUC, its shade is "
        "the 95 % interval, grey is the same game without privacy, and a curve ends where fewer "
        f"than {figures.FEWEST} users are left.",
        lambda columns: figures.precision_null_rate(curves, k, columns=columns),
    )


def _exposure(table: pl.DataFrame) -> Picture:
    return _picture(
        "exposure",
        "How many reports does it take?",
        "The height of a line is the share of users exposed by that number of reports: the adversary has, at some "
        "time up to it, been sure of them, with a confidence of 50, 90 or 95 %.",
        lambda columns: figures.exposure_curves(table, columns=columns),
    )


def _map(table: pl.DataFrame, number: int, k: int) -> Picture:
    adversary = table["adversary"][0]
    return _picture(
        f"behaviour-{number}-{slug(adversary)[:40]}".rstrip("-"),
        f"Who is most at risk? The {adversary} adversary",
        "A cell holds users of like behaviour, from left to right those who pick from the pools "
        "more often, upwards those who keep more to one pool: its colour says how many of them "
        "the adversary guesses rightly, and the mark on the scale is a random guess.",
        # The panels are small and square: two fit into a column, four onto a page.
        lambda columns: figures.behaviour_maps(table, k, columns=2 if columns == 1 else 4),
    )


def _calibration(table: pl.DataFrame) -> Picture:
    return _picture(
        "calibration",
        "Does the adversary know when it is right?",
        "Points on the dashed line mean that of the guesses made with, say, 80 % confidence "
        "80 % are right; bars are 95 % intervals, and points with fewer than "
        f"{figures.FEWEST} users are left out.",
        lambda columns: figures.calibration_plot(table, columns=columns),
    )


def _picture(name: str, title: str, caption: str, figure: Callable[[int], Figure]) -> Picture:
    wide, narrow = (to_svg(figure(columns)) for columns in (3, 1))
    return Picture(name=name, title=title, caption=caption, wide=wide, narrow=narrow)
