"""Attack a table of tuple reports: one report has a value of every collection of a person.

The posterior of the attribute is that of the game (`inference.tuples`). SPL and SMP send reports of single collections,
whose posteriors multiply (`inference.joint`). All reports are held in memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.core.progress import Progress
from poolscope.core.randomness import user_keys
from poolscope.core.tables import Data, SourceOptions, check_output, local_paths, writing
from poolscope.game.collections import events_by
from poolscope.inference.independent import guesses
from poolscope.mechanisms.multidimensional import SMP, Multidimensional
from poolscope.scenario.build import with_overrides
from poolscope.scenario.collections import report_rate
from poolscope.scenario.multidimensional import build_multidimensional
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.attack import MAX_TOP, PREVIEW_ROWS, Inferred
from poolscope.workflows.attack.attribute_tally import AttributeTally, DayGuesses
from poolscope.workflows.attack.summary import check_pools, evaluate, read_truth, top_users
from poolscope.workflows.attack.tuple_beliefs import TupleBeliefs, TupleReader, sampled_counts
from poolscope.workflows.attack.tuple_table import TupleTable, read_tuple_table, tuple_adversaries

ALL = np.iinfo(np.int64).max
"""All reports of a user."""

SAMPLED_SHARE = "sampled."
"""Start of the columns of the expected share of reports that sampled each collection."""


def attack_tuples(
    reports: Data,
    scenario: Scenario,
    *,
    observations: Sequence[int] | None,
    threshold: float | None,
    out: str | PathLike[str] | None,
    overwrite: bool,
    raw: bool,
    top: int,
    ground_truth: str | PathLike[str] | None,
    options: SourceOptions,
    seed: int,
    engine: Local,
    progress: Progress,
) -> Inferred:
    """Attack a table of tuple reports; parameters are those of `attack_collections`."""
    assert scenario.attribute is not None
    target = checked_target(scenario, out, overwrite, reports, ground_truth)
    if not 0 <= top <= MAX_TOP:
        raise InputError(f"must be from 0 to {MAX_TOP:,}", value=top, place="top")
    if ground_truth is not None and target is None:
        raise InputError("must have `out`, the table that it evaluates", value=str(ground_truth), place="ground_truth")
    attribute, truth = scenario.attribute, None if ground_truth is None else read_truth(ground_truth)
    values = attribute.values
    if truth is not None and ground_truth is not None:
        check_pools(truth, values, ground_truth)
    if threshold is None and scenario.attack is not None:
        threshold = scenario.attack.threshold
    if observations is not None:
        scenario = with_overrides(scenario, observations=observations)
    days = list(scenario.attack.observations) if scenario.attack else None
    mechanism = build_multidimensional(scenario)
    tally = AttributeTally([entry.name for entry in scenario.adversaries], values, days, threshold)
    with ExitStack() as stack:
        written = None if target is None else stack.enter_context(writing(target, raw=raw))
        table = read_tuple_table(reports, scenario, mechanism, options, progress)
        frame = _attacked(scenario, mechanism, table, days, threshold, tally, seed, engine)
        if written is not None:
            written.write(0, frame)
        evaluation = [] if truth is None else evaluate(frame.lazy(), truth, seed)
    miscalibrated = [one.violation for one in evaluation if one.calibrated is False]
    for line in miscalibrated:
        warnings.warn(line, stacklevel=3)
    # log-odds are those of the attribute
    ranked = frame.drop(list(pool_columns(scenario)))
    return Inferred(
        users=tally.users,
        reports=int(table.lengths.sum()),
        pools=list(values),
        threshold=threshold,
        results=tally.results(),
        preview=frame.head(PREVIEW_ROWS).rows(named=True),
        top=top_users(ranked, top).rows(named=True),
        evaluation=evaluation,
        estimated=[entry.name for entry in scenario.adversaries if entry.popularity == "estimated"],
        attribute=attribute.name,
        exposure=tally.exposure(),
        violations=miscalibrated,
    )


def checked_target(
    scenario: Scenario, out: str | PathLike[str] | None, overwrite: bool, reports: Data, *others: Any
) -> Path | None:
    """Return the file of the table to write, if any; refuse what cannot be attacked or written."""
    if not scenario.adversaries:
        raise scenario.missing("[adversary]")
    target = None if out is None else Path(out)
    if target is not None:
        check_output(target, overwrite=overwrite, inputs=scenario.input_paths(*local_paths(reports), *others))
    assert scenario.attribute is not None
    names = [*pool_columns(scenario), *(f"posterior.{value}" for value in scenario.attribute.values)]
    for name in names:
        if names.count(name) > 1:
            rule = "columns of values and of pools must have different names"
            raise InputError(rule, file=scenario.file, value=name, remedy="rename a collection, a pool or a value")
    return target


def pool_columns(scenario: Scenario) -> list[str]:
    """Return the columns of the posteriors of pools, collection after collection."""
    return [f"posterior.{part.name}.{pool}" for part in scenario.parts for pool in part.universe().pool_names]


def pool_values(scenario: Scenario, pools: Sequence[Floats]) -> dict[str, Floats]:
    """Return these columns, from posteriors (..., pools) of each collection."""
    every = (own[..., i] for own in pools for i in range(own.shape[-1]))
    return dict(zip(pool_columns(scenario), every, strict=True))


def _attacked(
    scenario: Scenario,
    mechanism: Multidimensional,
    table: TupleTable,
    days: list[int] | None,
    threshold: float | None,
    tally: AttributeTally,
    seed: int,
    engine: Local,
) -> pl.DataFrame:
    """Return the table of posteriors by user, adversary and day; add the guesses to the tally."""
    assert scenario.attribute is not None
    values, keys = scenario.attribute.values, user_keys(seed, table.hashes)
    devices, limits = scenario.devices, [ALL]
    if days is not None:
        rate = report_rate(scenario)
        limits = [min(int(count), devices.cap or ALL) for count in events_by(np.asarray(days), rate)]
    counts = np.minimum(np.array(limits)[None], table.lengths[:, None])
    tally.users += len(keys)
    # an answer without noise, of which no adversary is in doubt
    known = sampled_counts(table, counts, mechanism.d) if isinstance(mechanism, SMP) else []
    names, frames = pl.Series([*values, None], dtype=pl.String), []
    for a, adversaries in enumerate(tuple_adversaries(scenario, mechanism, table, seed)):
        found = TupleReader.of(scenario, a, mechanism, adversaries).beliefs(table, counts, engine)
        guess, confidence = guesses(found.attribute, keys, counts)
        chosen = np.full(guess.shape, True) if threshold is None else confidence >= threshold
        surest = np.maximum.accumulate(confidence, axis=1)
        for o in range(len(limits)):
            at = DayGuesses(counts[:, o], guess[:, o], confidence[:, o], chosen[:, o])
            tally.add(a, o, at, surest[:, o])
            frame = pl.DataFrame(
                {
                    "user": table.users,
                    "adversary": pl.repeat(scenario.adversaries[a].name, len(keys), eager=True),
                    "n": counts[:, o].astype(np.int32),
                    "guess": names.gather(np.where(chosen[:, o], guess[:, o], len(values))),
                    "confidence": confidence[:, o],
                    **{f"posterior.{name}": found.attribute[:, o, i] for i, name in enumerate(values)},
                    **_about_collections(scenario, found, known, o),
                    "order": np.arange(len(keys)),
                    "place": np.full(len(keys), a),
                }
            )
            # a day without further reports repeats the one before
            more = np.full(len(keys), True) if o == 0 else counts[:, o] > counts[:, o - 1]
            frames.append(frame.filter(pl.Series(more)))
    return pl.concat(frames).sort("order", "place", "n").drop("order", "place")


def _about_collections(
    scenario: Scenario, found: TupleBeliefs, known: Sequence[Integers], o: int
) -> dict[str, Floats | Integers | pl.Series]:
    """Return the columns about each collection on one day: its pools, and how many reports sampled it."""
    columns: dict[str, Any] = pool_values(scenario, [own[:, o] for own in found.pools])
    for c, part in enumerate(scenario.parts):
        if found.sampled is not None:
            columns[SAMPLED_SHARE + part.name] = pl.Series(found.sampled[:, o, c]).fill_nan(None)
        if known:
            columns[f"n.{part.name}"] = known[c][:, o].astype(np.int32)
    return columns
