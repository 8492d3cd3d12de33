"""What the pictures of a run show, from one look at its outcomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from poolscope.base.errors import InputError
from poolscope.game.columns import CORRECT, EXPOSED, NON_PRIVATE
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.metrics.calibration import calibration
from poolscope.metrics.exposure import exposure_counts, exposure_shares
from poolscope.metrics.precision import behaviour_counts, behaviour_shares, precision_curve

HELD = ("confidence", CORRECT)
"""Columns of the outcomes that are held of one attack."""

CURVE_POINTS = 100
"""Points of a precision curve: more cannot be seen."""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Tables of an attack each (adversary, n, ...) one below the other."""

    curves: pl.DataFrame
    exposure: pl.DataFrame
    maps: pl.DataFrame
    calibration: pl.DataFrame


def tables(outcomes: OutcomeFiles, k: int, seed: int, horizon: int) -> Tables:
    """One attack is looked at at a time: all of them together may not fit into memory."""
    found: dict[str, list[pl.DataFrame]] = {"curves": [], "exposure": [], "maps": [], "calibration": []}
    attacks = outcomes.attacks()
    private = any(adversary != NON_PRIVATE for adversary, _ in attacks)
    exposed: set[str] = set()
    for adversary, n in attacks:
        attack = adversary, n
        rows = outcomes.of(attack, HELD)
        label = [pl.lit(adversary).alias("adversary"), pl.lit(n).alias("n"), pl.all()]
        found["curves"].append(precision_curve(rows, seed, CURVE_POINTS).select(label))
        found["calibration"].append(calibration(rows).select(label))
        if adversary != NON_PRIVATE or not private:
            behaviours = outcomes.parts(attack, ("gamma", "delta", "guess", "pool"))
            counts = sum(behaviour_counts(part, k) for part in behaviours)
            found["maps"].append(behaviour_shares(np.asarray(counts), k).select(label))
        if adversary not in exposed:
            # what exposed a user is on every row of the user, so one n is enough
            exposed.add(adversary)
            firsts = outcomes.parts(attack, outcomes.with_errors(tuple(EXPOSED.values())))
            counts = sum(exposure_counts(part, horizon) for part in firsts)
            found["exposure"].append(exposure_shares(np.asarray(counts), rows.height).with_columns(label[0]))
    if not attacks:
        raise InputError("must have at least one row", file=outcomes.files[0].parent)
    return Tables(**{name: pl.concat(parts) for name, parts in found.items()})
