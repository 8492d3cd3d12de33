"""Open a file of reports, split it into chunks, and build the scenario's adversaries for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from poolscope.core.arrays import Floats, Tick
from poolscope.core.errors import InputError, located
from poolscope.core.executors import Engine, Local
from poolscope.core.files import scratch_folder
from poolscope.core.machine import check_memory
from poolscope.core.tables import Data, Source, SourceOptions, opened
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms.protocols import Mechanism
from poolscope.population.universe import Universe, read_pools
from poolscope.reports.checks import AssumedPopularity
from poolscope.reports.files import MIN_ROWS, report_names, row_bytes, rows_within
from poolscope.reports.frequencies import FrequencyCounter
from poolscope.scenario.attacks import AttackSpec, calibrated_attacks
from poolscope.scenario.build import adversary_of, build_adversary, build_device, build_mechanism, other_pools
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.partitioning import Chunk, ReportReader, changed_error, split_chunks
from poolscope.workflows.attack.resuming import Records
from poolscope.workflows.attack.scoring import Scorer

#: Copies of the features of a block that are held while it is processed.
N_COPIES = 3

#: Shares of the memory: for reading, and for a chunk of reports with its features.
READING_SHARE, CHUNK_SHARE = 1 / 16, 3 / 8


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenReports:
    """A file that is split into chunks.

    Parameters
    ----------
    reading : what every task that reads needs; chunks : of the file; dtype : of users' names.
    source, before : the file, and its state when it was split.
    other : the universe with other pools, where these are given.
    """

    reading: ReportReader
    chunks: list[Chunk]
    dtype: pl.DataType
    source: Source
    before: Mapping[Path, tuple[int, int]]
    other: Universe | None

    @property
    def reports(self) -> int:
        return sum(chunk.count for chunk in self.chunks)

    def check_unchanged(self) -> None:
        """Refuse a file that has changed since."""
        for file, state in self.source.state().items():
            if state != self.before[file]:
                raise changed_error(file)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedAttack(OpenReports):
    """A file that is split into chunks, and adversaries with their estimates of the popularity: the scorer."""

    scorer: Scorer


@contextmanager
def split_reports(
    reports: Data,
    options: SourceOptions,
    scenario: Scenario,
    pools: str | PathLike[str] | None,
    max_bytes: int,
    scratch_parent: Path,
    folder: Path | None = None,
) -> Iterator[OpenReports]:
    """Open reports and split them into chunks: the one place where `attack` and `inspect` read them.

    Temporary files exist as long, in a new folder in `scratch_parent`; or in `folder`, which the caller removes.
    """
    universe = scenario.universe()
    mechanism = build_mechanism(scenario, universe)
    other = None if pools is None else read_pools(pools, universe)
    width = max(1, len(scenario.adversaries)) * ((other or universe).k + 1)
    with located(file=scenario.file):
        least = N_COPIES * MIN_ROWS * 16 * width
        check_memory("the smallest block of reports", least, "use fewer pools or adversaries")
    with (
        opened(reports, report_names(mechanism.report_columns), options, beside=scratch_parent) as source,
        nullcontext(folder) if folder is not None else scratch_folder(scratch_parent) as place,
    ):
        reading = ReportReader(
            mechanism=mechanism,
            universe=universe,
            folder=place.absolute(),
            methods=_estimation_methods(scenario),
        )
        before = source.state()
        size = rows_within(max_bytes * CHUNK_SHARE, 2 * row_bytes(mechanism.report_columns) + 16 * width)
        name_bytes = int(max_bytes * CHUNK_SHARE / N_COPIES)
        chunks, dtype = split_chunks(
            source, reading, size=size, name_bytes=name_bytes, max_bytes=int(max_bytes * READING_SHARE)
        )
        yield OpenReports(reading=reading, chunks=chunks, dtype=dtype, source=source, before=before, other=other)


@contextmanager
def prepare_attack(
    reports: Data,
    options: SourceOptions,
    scenario: Scenario,
    pools: str | PathLike[str] | None,
    threshold: float | None,
    seed: int,
    max_bytes: int,
    engine: Engine,
    scratch_parent: Path,
    folder: Path | None = None,
    pool_sets: int = 1,
    attacks: Sequence[AttackSpec] = (),
) -> Iterator[PreparedAttack]:
    """Open reports (`split_reports`) and build the adversaries; a given folder keeps their estimates."""
    threshold = _threshold(threshold, scenario)
    if not scenario.adversaries and not attacks:
        raise scenario.missing("[adversary]")
    with split_reports(reports, options, scenario, pools, max_bytes, scratch_parent, folder) as found:
        reading, other = found.reading, found.other
        mechanism, universe = reading.mechanism, reading.universe
        records = None if folder is None else Records(folder=folder / "records")
        estimated = _estimated_popularity(reading, found.chunks, engine, records)
        device = build_device(scenario, mechanism)
        adversaries = list(_adversaries(scenario, mechanism, universe, other, estimated, seed, engine))
        scorer = Scorer(
            device=device,
            adversaries=adversaries + calibrated_attacks(attacks, scenario, adversaries, universe, device, seed),
            observations=scenario.attack.observations if scenario.attack else None,
            threshold=threshold,
            seed=seed,
            pool_sets=pool_sets,
        )
        yield PreparedAttack(**vars(found), scorer=scorer)


def _threshold(threshold: float | None, scenario: Scenario) -> float | None:
    if threshold is None:
        return scenario.attack.threshold if scenario.attack else None
    if not 0 <= threshold <= 1:
        raise InputError("must be from 0 to 1", value=threshold, place="threshold")
    return threshold


def _adversaries(
    scenario: Scenario,
    mechanism: Mechanism,
    universe: Universe,
    other: Universe | None,
    estimated: Mapping[str | None, Floats],
    seed: int,
    engine: Engine,
) -> Iterator[Adversary]:
    """Yield the scenario's adversaries, with other pools if given."""
    popularity = scenario.true_popularity(universe) if scenario.popularity_table else None
    for index, entry in enumerate(scenario.adversaries):
        if entry.popularity == "estimated" and entry.estimate_from is None:
            with located(file=scenario.file, place=f"adversary[{index}]"):
                adversary = adversary_of(entry, other_pools(entry, universe), [estimated[entry.method]])
        else:
            adversary = build_adversary(scenario, index, universe, popularity, mechanism, seed, engine.map)
        if other is not None:
            with located(file=scenario.file, place=f"adversary[{index}]"):
                adversary = adversary_of(entry, other, [adversary.popularity])
        yield adversary


def stated_popularities(
    scenario: Scenario, universe: Universe, other: Universe | None, mechanism: Mechanism
) -> list[AssumedPopularity]:
    """Return the distinct popularities that adversaries assume; those estimated from the same reports are none."""
    found: list[AssumedPopularity] = []
    truth = scenario.true_popularity(universe) if scenario.popularity_table else None
    for index, entry in enumerate(scenario.adversaries):
        if entry.popularity == "uniform" or (entry.popularity == "estimated" and entry.estimate_from is None):
            continue
        if entry.popularity == "estimated":
            # the popularity of the simulated reports that it is estimated from is known
            popularity, own = scenario.true_popularity(universe), other_pools(entry, universe)
        else:
            adversary = build_adversary(scenario, index, universe, truth, mechanism, 0, map)
            popularity, own = adversary.popularity, adversary.universe
        stated = AssumedPopularity(adversary=entry.name, universe=other or own, popularity=popularity)
        if not any(stated.equals(one) for one in found):
            found.append(stated)
    return found


def _estimation_methods(scenario: Scenario) -> tuple[str | None, ...]:
    """Return the methods by which adversaries estimate the popularity from the attacked reports."""
    learning = (
        entry for entry in scenario.adversaries if entry.popularity == "estimated" and entry.estimate_from is None
    )
    return tuple(dict.fromkeys(entry.method for entry in learning))


def _estimated_popularity(
    reading: ReportReader, chunks: list[Chunk], engine: Engine, records: Records | None
) -> dict[str | None, Floats]:
    """Estimate the popularity from the reports, by each method; `records` keep the estimates."""
    kept = {method: None if records is None else records.popularity(str(method)) for method in reading.methods}
    if all(found is not None for found in kept.values()):
        return {method: found for method, found in kept.items() if found is not None}
    counting = {method: FrequencyCounter(reading.mechanism, engine, method) for method in reading.methods}
    for found in run_tasks(engine, count_chunk, reading, chunks):
        for one, (counted, reports) in zip(counting.values(), found, strict=True):
            one.join(counted, reports)
    estimates = {method: one.estimate().popularity for method, one in counting.items()}
    for method, popularity in estimates.items() if records else ():
        assert records is not None
        records.keep_popularity(str(method), popularity)
    return estimates


def count_chunk(reading: ReportReader, chunk: Chunk, engine: Local, tick: Tick) -> list[tuple[Any, int]]:
    """Count the reports of a chunk for each method of estimation (a task)."""
    reports, out = reading.block(chunk)[1], list[tuple[Any, int]]()
    for method in reading.methods:
        counting = FrequencyCounter(reading.mechanism, engine, method)
        counting.add(reports)
        out.append((counting.counted, counting.reports))
    return out


def run_tasks(
    engine: Engine, function: Callable[..., Any], shared: Any, items: Iterable[Any], tick: Tick | None = None
) -> Iterator[Any]:
    """Run the tasks of a round, the first one alone: it compiles for all."""
    waiting = iter(items)
    yield from engine.tasks(function, shared, islice(waiting, 1), tick)
    yield from engine.tasks(function, shared, waiting, tick)
