"""What the pictures of a run show, from one look at its outcomes."""

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
"""Columns of the outcomes that are held of one attack."""

Counts = NDArray[np.int64] | int
"""Those of parts of a table add up; 0 where nothing is counted."""

CURVE_POINTS = 100
"""Points of a precision curve: more cannot be seen."""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Tables of an attack each (adversary, n, ...) one below the other."""

    curves: pl.DataFrame
    exposure: pl.DataFrame
    maps: pl.DataFrame
    calibration: pl.DataFrame


def tables(outcomes: OutcomeFiles, k: int, seed: int, horizon: int, threshold: float | None) -> Tables:
    """Few attacks are looked at at a time: all of them together may not fit into memory."""
    attacks = outcomes.attacks()
    if not attacks:
        raise InputError("must have at least one row", file=outcomes.files[0].parent)
    private = any(adversary != NON_PRIVATE for adversary, _ in attacks)
    mapped = {attack for attack in attacks if attack[0] != NON_PRIVATE or not private}
    # what exposed a user is on every row of the user, so one n is enough
    first = {adversary: (adversary, n) for adversary, n in reversed(attacks)}
    exposing = outcomes.extended(tuple(exposure_columns(threshold).values()))
    held, groups = outcomes.grouped(HELD), outcomes.estimates()

    def kept(attack: AttackKey, rows: pl.DataFrame) -> tuple[AttackRows, Counts, Counts]:
        own = groups.get(attack[0], 1)
        behaved = behavior_counts(rows, k, groups=own) if attack in mapped else 0
        exposed = exposure_counts(rows, horizon, threshold, own) if first[attack[0]] == attack else 0
        return attack_rows(rows, held), behaved, exposed

    def facts(attack: AttackKey, parts: list[tuple[AttackRows, Counts, Counts]]) -> dict[str, pl.DataFrame]:
        some, behaved, exposed = zip(*parts, strict=True)
        rows = outcomes.joined(attack, held, some)
        label = [pl.lit(attack[0]).alias("adversary"), pl.lit(attack[1]).alias("n"), pl.all()]
        found = {
            "curves": precision_curve(rows, seed, CURVE_POINTS).select(label),
            "calibration": calibration(rows).select(label),
        }
        if attack in mapped:
            found["maps"] = behavior_shares(np.asarray(sum(behaved)), k).select(label)
        if first[attack[0]] == attack:
            shares = exposure_shares(np.asarray(sum(exposed)), threshold)
            found["exposure"] = shares.with_columns(label[0])
        return found

    columns = tuple(dict.fromkeys(("user", *needed(held), "gamma", "delta", *exposing)))
    every = list(outcomes.map_reduce(attacks, columns, kept, facts))
    return Tables(**{f.name: pl.concat(one[f.name] for one in every if f.name in one) for f in fields(Tables)})
