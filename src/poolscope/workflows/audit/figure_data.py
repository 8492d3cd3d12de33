"""Aggregate the outcomes of a run into the tables behind its figures, in one pass."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.errors import InputError
from poolscope.game.columns import CORRECT, NON_PRIVATE
from poolscope.game.outcome_files import AttackKey, AttackRows, OutcomeFiles, attack_rows, needed
from poolscope.metrics.calibration import calibration
from poolscope.metrics.exposure import exposure_columns, exposure_counts, exposure_shares
from poolscope.metrics.precision import behavior_counts, behavior_shares, precision_curve

HELD = ("confidence", CORRECT)
"""Columns of the outcomes that are held for one attack."""

CellCounts = NDArray[np.int64] | int
"""Counts of parts of a table add up; 0 where nothing is counted."""

CURVE_POINTS = 100
"""Points of a precision curve."""


@dataclass(frozen=True, kw_only=True)
class FigureTables:
    """Tables of all attacks (adversary, n, ...), concatenated."""

    curves: pl.DataFrame
    exposure: pl.DataFrame
    maps: pl.DataFrame
    calibration: pl.DataFrame


def figure_tables(outcomes: OutcomeFiles, k: int, seed: int, horizon: int, threshold: float | None) -> FigureTables:
    """Aggregate the outcomes, a few attacks at a time: all of them together may not fit into memory."""
    attacks = outcomes.attacks()
    if not attacks:
        raise InputError("must have at least one row", file=outcomes.files[0].parent)
    private = any(adversary != NON_PRIVATE for adversary, _ in attacks)
    mapped = {attack for attack in attacks if attack[0] != NON_PRIVATE or not private}
    # every row of a user has its exposure, so that one n is enough
    first = {adversary: (adversary, n) for adversary, n in reversed(attacks)}
    exposing = outcomes.with_mcse_columns(tuple(exposure_columns(threshold).values()))
    held, groups = outcomes.with_estimate_column(HELD), outcomes.estimates()

    def reduced(attack: AttackKey, rows: pl.DataFrame) -> tuple[AttackRows, CellCounts, CellCounts]:
        own = groups.get(attack[0], 1)
        by_behavior = behavior_counts(rows, k, groups=own) if attack in mapped else 0
        exposed = exposure_counts(rows, horizon, threshold, own) if first[attack[0]] == attack else 0
        return attack_rows(rows, held), by_behavior, exposed

    def tables_of_attack(
        attack: AttackKey, parts: list[tuple[AttackRows, CellCounts, CellCounts]]
    ) -> dict[str, pl.DataFrame]:
        some, by_behavior, exposed = zip(*parts, strict=True)
        rows = outcomes.joined(attack, held, some)
        label = [pl.lit(attack[0]).alias("adversary"), pl.lit(attack[1]).alias("n"), pl.all()]
        found = {
            "curves": precision_curve(rows, seed, CURVE_POINTS).select(label),
            "calibration": calibration(rows).select(label),
        }
        if attack in mapped:
            found["maps"] = behavior_shares(np.asarray(sum(by_behavior)), k).select(label)
        if first[attack[0]] == attack:
            shares = exposure_shares(np.asarray(sum(exposed)), threshold)
            found["exposure"] = shares.with_columns(label[0])
        return found

    columns = tuple(dict.fromkeys(("user", *needed(held), "gamma", "delta", *exposing)))
    every = list(outcomes.map_reduce(attacks, columns, reduced, tables_of_attack))
    return FigureTables(
        **{f.name: pl.concat(one[f.name] for one in every if f.name in one) for f in fields(FigureTables)}
    )
