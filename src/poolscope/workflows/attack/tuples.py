"""Attack a table of tuple reports: one report has a value of every collection of a person.

The posterior of the attribute is that of the game (`inference.tuples`). SPL and SMP send reports of single collections,
whose posteriors multiply (`inference.joint`). All reports are held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError, located
from poolscope.core.executors import Local
from poolscope.core.progress import Progress
from poolscope.core.randomness import collection_seed, user_keys
from poolscope.core.tables import Data, SourceOptions, check_output, label_of, local_paths, opened, writing
from poolscope.game.collections import events_by
from poolscope.inference.adversary import Adversary, posterior_block, stacked_pool_weights
from poolscope.inference.independent import guesses
from poolscope.inference.joint import linked, normalized
from poolscope.inference.thresholds import with_threshold
from poolscope.inference.tuples import TupleAttack, believed_pools, subset_evidence
from poolscope.mechanisms.fake_data import SampledWithFakes
from poolscope.mechanisms.multidimensional import SAMPLED, SMP, Multidimensional
from poolscope.mechanisms.protocols import Reports
from poolscope.reports.files import MEMORY_BYTES, blocks, report_names, row_bytes, rows_within
from poolscope.reports.multidimensional import attribute_frequencies
from poolscope.scenario.build import adversary_of, build_adversary, with_overrides
from poolscope.scenario.collections import assumed_link, attribute_prior
from poolscope.scenario.multidimensional import attribute_oracle, build_multidimensional, tuple_columns
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.attack import PREVIEW_ROWS, Inferred
from poolscope.workflows.attack.partitioning import name_hashes
from poolscope.workflows.attack.summary import GuessSummary, check_pools, evaluate, read_truth, top_users

ALL = np.iinfo(np.int64).max
"""All reports of a user."""

CHUNK_USERS = 16
"""Users whose posteriors a thread computes at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Table:
    """Reports in memory, user after user, each user's in order of the file."""

    users: pl.Series
    hashes: Any
    reports: Reports
    lengths: Integers

    def some(self, users: range) -> Reports:
        """Return the reports of users in sequence."""
        starts = np.cumsum(self.lengths) - self.lengths
        end = starts[users.stop - 1] + self.lengths[users.stop - 1]
        return {name: column[starts[users.start] : end] for name, column in self.reports.items()}


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
    if not scenario.adversaries:
        raise scenario.missing("[adversary]")
    target = None if out is None else Path(out)
    inputs = scenario.input_paths(*local_paths(reports), ground_truth)
    if target is not None:
        check_output(target, overwrite=overwrite, inputs=inputs)
    if ground_truth is not None and target is None:
        raise InputError("must have `out`, the table that it evaluates", value=str(ground_truth), place="ground_truth")
    values, truth = scenario.attribute.values, None if ground_truth is None else read_truth(ground_truth)
    if truth is not None and ground_truth is not None:
        check_pools(truth, values, ground_truth)
    if threshold is None and scenario.attack is not None:
        threshold = scenario.attack.threshold
    if observations is not None:
        scenario = with_overrides(scenario, observations=observations)
    days = list(scenario.attack.observations) if scenario.attack else None
    mechanism = build_multidimensional(scenario)
    with ExitStack() as stack:
        written = None if target is None else stack.enter_context(writing(target, raw=raw))
        table = _read(reports, scenario, mechanism, options, progress)
        frame, results = _attacked(scenario, mechanism, table, days, threshold, seed, engine)
        if written is not None:
            written.write(0, frame)
        evaluation = [] if truth is None else evaluate(frame.lazy(), truth, seed)
    return Inferred(
        users=len(table.users),
        reports=int(table.lengths.sum()),
        pools=list(values),
        threshold=threshold,
        results=results,
        preview=frame.head(PREVIEW_ROWS).rows(named=True),
        top=top_users(frame, top).rows(named=True),
        evaluation=evaluation,
        estimated=[entry.name for entry in scenario.adversaries if entry.popularity == "estimated"],
        violations=[one.violation for one in evaluation if one.calibrated is False],
    )


def _read(
    reports: Data, scenario: Scenario, mechanism: Multidimensional, options: SourceOptions, progress: Progress
) -> _Table:
    """Read all reports, and put those of a user together; users are in order of the hash of their names."""
    universes = {part.name: part.universe() for part in scenario.parts}
    own = tuple_columns(mechanism, universes)
    # the column of the sampled attribute has no objects
    known = {**dict.fromkeys(own, next(iter(universes.values()))), **universes}
    rows = rows_within(MEMORY_BYTES / 8, 2 * row_bytes(own))
    names: list[pl.Series] = []
    parts: dict[str, list[Any]] = {name: [] for name in own}
    with opened(reports, report_names(own), options) as source:
        for users, block in blocks(source, own, known, rows=rows):
            names.append(users.cast(pl.String))
            for name, column in block.items():
                parts[name].append(column.copy())
            progress.tick(len(users))
    with located(file=label_of(reports)):
        if not names:
            raise InputError("must have reports", value=0)
        everyone = pl.concat(names)
        distinct = everyone.unique().sort()
        hashes = name_hashes(distinct)
        order = np.argsort(hashes, kind="stable")
        distinct, hashes = distinct.gather(order), hashes[order]
        place = pl.DataFrame({"user": distinct, "place": np.arange(len(distinct))})
        index = pl.DataFrame({"user": everyone}).join(place, on="user", how="left", maintain_order="left")["place"]
        rows_of = np.argsort(index.to_numpy(), kind="stable")
        columns = {name: np.concatenate(some)[rows_of] for name, some in parts.items()}
        if isinstance(mechanism, SMP):
            # it checks that other columns are empty
            mechanism.log_weights(columns)
    lengths = np.bincount(index.to_numpy(), minlength=len(distinct)).astype(np.int64)
    return _Table(users=distinct, hashes=hashes, reports=columns, lengths=lengths)


def _attacked(
    scenario: Scenario,
    mechanism: Multidimensional,
    table: _Table,
    days: list[int] | None,
    threshold: float | None,
    seed: int,
    engine: Local,
) -> tuple[pl.DataFrame, list[GuessSummary]]:
    """Return the table of posteriors of the attribute, by user, adversary and day, and its summaries."""
    assert scenario.attribute is not None
    values, keys = scenario.attribute.values, user_keys(seed, table.hashes)
    devices, limits = scenario.devices, [ALL]
    if days is not None:
        rate = (devices.reports_per_day or 1.0) * devices.sampling_rate
        limits = [min(int(count), devices.cap or ALL) for count in events_by(np.asarray(days), rate)]
    counts = np.minimum(np.array(limits)[None], table.lengths[:, None])
    assumed = [list(_adversaries(scenario, part, c, mechanism, table, seed)) for c, part in enumerate(scenario.parts)]
    frames, results = [], []
    for a, entry in enumerate(scenario.adversaries):
        links = [assumed_link(scenario, c, a) for c in range(mechanism.d)]
        prior = attribute_prior(entry.prior, values)
        own = [adversaries[a] for adversaries in assumed]
        evidence = _evidence(mechanism, own, links, prior, table, counts, engine)
        with np.errstate(divide="ignore"):
            posterior = normalized(np.log(evidence) + np.log(prior), prior)
        guess, confidence = guesses(posterior, keys, counts)
        names = pl.Series([*values, None], dtype=pl.String)
        for o, day in enumerate(days or [None]):
            chosen = np.full(len(keys), True) if threshold is None else confidence[:, o] >= threshold
            tally = np.bincount(guess[chosen, o], minlength=len(values)).tolist()
            results.append(
                GuessSummary(
                    adversary=entry.name,
                    n=day,
                    reports=int(counts[:, o].sum()),
                    confidence=float(confidence[:, o].mean()),
                    confident_at_threshold={
                        level: int((confidence[:, o] >= level).sum()) for level in with_threshold(threshold)
                    },
                    guesses=dict(zip(values, tally, strict=True)),
                    no_guess=int((~chosen).sum()),
                    baseline=1 / len(values),
                )
            )
            frame = pl.DataFrame(
                {
                    "user": table.users,
                    "adversary": pl.repeat(entry.name, len(keys), eager=True),
                    "n": counts[:, o].astype(np.int32),
                    "guess": names.gather(np.where(chosen, guess[:, o], len(values))),
                    "confidence": confidence[:, o],
                    **{f"posterior.{name}": posterior[:, o, i] for i, name in enumerate(values)},
                    "order": np.arange(len(keys)),
                    "place": np.full(len(keys), a),
                }
            )
            # a day without further reports repeats the one before
            more = np.full(len(keys), True) if o == 0 else counts[:, o] > counts[:, o - 1]
            frames.append(frame.filter(pl.Series(more)))
    return pl.concat(frames).sort("order", "place", "n").drop("order", "place"), results


def _adversaries(
    scenario: Scenario, part: Scenario, index: int, mechanism: Multidimensional, table: _Table, seed: int
) -> Iterator[Adversary]:
    """Yield the adversaries of one collection."""
    universe = part.universe()
    popularity = part.true_popularity(universe) if part.popularity_table else None
    oracle, own = attribute_oracle(part, mechanism)
    estimated = None
    for i, entry in enumerate(own.adversaries):
        if entry.popularity == "estimated" and entry.estimate_from is None:
            if estimated is None:
                estimated = attribute_frequencies(mechanism, table.reports)[part.name].popularity
            yield adversary_of(entry, universe, [estimated])
        else:
            with located(file=scenario.file, place=f"collection[{index}]"):
                yield build_adversary(own, i, universe, popularity, oracle, collection_seed(seed, index), map)


def _evidence(
    mechanism: Multidimensional,
    adversaries: Sequence[Adversary],
    links: Sequence[Floats],
    prior: Floats,
    table: _Table,
    counts: Integers,
    engine: Local,
) -> Floats:
    """Return (users, observations, values) the evidence about the attribute after these numbers of reports."""
    size, every = len(table.users), np.ones(mechanism.d, dtype=bool)
    hidden = TupleAttack(mechanism, adversaries) if isinstance(mechanism, SampledWithFakes) else None
    believed, out = believed_pools(links, prior), np.empty((*counts.shape, len(prior)))

    def some(start: int) -> None:
        users = range(start, min(start + CHUNK_USERS, size))
        reports, lengths, at = table.some(users), table.lengths[start : users.stop], counts[start : users.stop]
        if hidden is None:
            out[start : users.stop] = _by_collection(mechanism, adversaries, links, reports, lengths, at)
            return
        terms, first = hidden.terms(reports), 0
        for user, length in zip(users, lengths.tolist(), strict=True):
            # later reports do not count
            last = first + int(counts[user].max())
            found = hidden.evidence([own[first:last] for own in terms])
            out[user] = subset_evidence(found[counts[user]], links, believed, every)
            first += length

    for _ in engine.map(some, range(0, size, CHUNK_USERS)):
        pass
    return out


def _by_collection(
    mechanism: Multidimensional,
    adversaries: Sequence[Adversary],
    links: Sequence[Floats],
    reports: Reports,
    lengths: Integers,
    counts: Integers,
) -> Floats:
    """Return the evidence of reports of single collections, SPL and SMP: the product over collections."""
    user = np.repeat(np.arange(len(lengths)), lengths)
    number = np.arange(len(user)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    found: Floats = np.ones((*counts.shape, len(links[0])))
    for c, (part, adversary, link) in enumerate(zip(mechanism.parts, adversaries, links, strict=True)):
        own = np.ones(len(user), dtype=bool) if not isinstance(mechanism, SMP) else reports[SAMPLED] == c
        sent = np.zeros((len(lengths), int(lengths.max()) + 1), dtype=np.int64)
        np.add.at(sent, (user[own], number[own] + 1), 1)
        sent = np.cumsum(sent, axis=1)
        sizes = sent[:, -1]
        weights, _ = stacked_pool_weights([adversary])
        mass = np.zeros((len(lengths), max(1, int(sizes.max())), weights.width))
        mass[user[own], sent[user[own], number[own]]] = part.randomizer.mass(
            part.own({part.name: reports[part.name][own]}), weights
        )
        posterior = posterior_block(part.randomizer, adversary, mass, sizes)
        rows = np.take_along_axis(sent, counts, axis=1)
        evidence = linked(np.take_along_axis(posterior, rows[:, :, None], axis=1), link)
        found = found * evidence
    return found
