"""A file of reports that is cut into pieces, and adversaries who know what they can know of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import polars as pl

from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError, located
from poolscope.core.executors import Engine
from poolscope.core.files import scratch_folder
from poolscope.core.machine import check_memory
from poolscope.core.tables import Source, open_table
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms.protocols import Mechanism
from poolscope.population.universe import Universe, read_pools
from poolscope.reports.checks import Checks, StatedPopularity
from poolscope.reports.files import LEAST_ROWS, row_bytes, rows_within
from poolscope.reports.frequencies import Counting
from poolscope.scenario.build import adversary_of, build_adversary, build_device, build_mechanism, other_pools
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.chunks import Piece, Reading, changed, counted_of, cut, violations_of, warmed
from poolscope.workflows.attack.scoring import Scorer

#: How often what is made of a block of reports is held while it is worked on.
COPIES = 3

#: How the memory is divided: reading, and a piece of reports with what is made of it.
READING, PIECE = 1 / 16, 3 / 8


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A file that is cut and adversaries who know what they can know of it.

    Parameters
    ----------
    reading : what every task that reads needs; pieces : of the file, with so many reports; dtype : of users' names.
    scorer : who attacks.
    source, before : the file, and its state when it was cut.
    """

    reading: Reading
    pieces: list[Piece]
    dtype: pl.DataType
    scorer: Scorer
    source: Source
    before: Mapping[Path, tuple[int, int]]

    @property
    def reports(self) -> int:
        return sum(piece.count for piece in self.pieces)

    def violations(self, scenario: Scenario) -> list[str]:
        """What of the scenario the reports contradict; pseudonyms that share memoized responses are not looked at."""
        if not scenario.tells_users_apart:
            return []
        checks = Checks(self.scorer.device, _stated(scenario, self.reading.universe, self.scorer.adversaries))
        return [f"{self.source.path}: {line}" for line in violations_of(self.reading, self.pieces, checks)]

    def check_unchanged(self) -> None:
        """The file is what it was."""
        for file, state in self.source.state().items():
            if state != self.before[file]:
                raise changed(file)


@contextmanager
def prepared(
    path: Path,
    scenario: Scenario,
    pools: str | PathLike[str] | None,
    threshold: float | None,
    seed: int,
    max_bytes: int,
    engine: Engine,
    beside: Path,
) -> Iterator[Prepared]:
    """Cut a file into pieces and see what the adversaries learn of it; temporary files lie beside for as long."""
    threshold = _threshold(threshold, scenario)
    if not scenario.adversaries:
        raise scenario.missing("[adversary]")
    universe = scenario.universe()
    mechanism = build_mechanism(scenario, universe)
    other = None if pools is None else read_pools(pools, universe)
    source = open_table(path)
    width = len(scenario.adversaries) * ((other or universe).k + 1)
    with located(file=scenario.file):
        least = COPIES * LEAST_ROWS * 16 * width
        check_memory("the smallest block of reports", least, "take fewer pools or adversaries")
    with scratch_folder(beside) as folder:
        reading = Reading(mechanism=mechanism, universe=universe, folder=folder.absolute(), methods=_methods(scenario))
        before = source.state()
        size = rows_within(max_bytes * PIECE, 2 * row_bytes(mechanism.report_columns) + 16 * width)
        letters = int(max_bytes * PIECE / COPIES)
        pieces, dtype = cut(source, reading, size=size, letters=letters, max_bytes=int(max_bytes * READING))
        learned = _learnt(reading, pieces, engine)
        scorer = Scorer(
            device=build_device(scenario, mechanism),
            adversaries=list(_adversaries(scenario, mechanism, universe, other, learned, seed, engine)),
            observations=scenario.attack.observations if scenario.attack else None,
            threshold=threshold,
            seed=seed,
        )
        yield Prepared(reading=reading, pieces=pieces, dtype=dtype, scorer=scorer, source=source, before=before)


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
    learned: Mapping[str | None, Floats],
    seed: int,
    engine: Engine,
) -> Iterator[Adversary]:
    """The scenario's adversaries, with other pools if there are some."""
    popularity = scenario.true_popularity(universe) if scenario.popularity_table else None
    for index, entry in enumerate(scenario.adversaries):
        if entry.popularity == "estimated" and entry.estimate_from is None:
            with located(file=scenario.file, place=f"adversary[{index}]"):
                adversary = adversary_of(entry, other_pools(entry, universe), [learned[entry.method]])
        else:
            adversary = build_adversary(scenario, index, universe, popularity, mechanism, seed, engine.map)
        if other is not None:
            with located(file=scenario.file, place=f"adversary[{index}]"):
                adversary = adversary_of(entry, other, [adversary.popularity])
        yield adversary


def _stated(scenario: Scenario, universe: Universe, adversaries: Sequence[Adversary]) -> list[StatedPopularity]:
    """The popularities that adversaries assume, each once; who estimates it from the same reports assumes none."""
    found: list[StatedPopularity] = []
    for entry, adversary in zip(scenario.adversaries, adversaries, strict=True):
        popularity = adversary.popularity
        if entry.popularity == "uniform" or (entry.popularity == "estimated" and entry.estimate_from is None):
            continue
        if entry.popularity == "estimated":
            # estimated from simulated reports, whose popularity is known without noise
            popularity = scenario.true_popularity(universe)
        stated = StatedPopularity(adversary=adversary.name, universe=adversary.universe, popularity=popularity)
        if not any(stated.equals(other) for other in found):
            found.append(stated)
    return found


def _methods(scenario: Scenario) -> tuple[str | None, ...]:
    """How adversaries estimate the popularity from the reports that they attack; none if nobody does."""
    learning = (
        entry for entry in scenario.adversaries if entry.popularity == "estimated" and entry.estimate_from is None
    )
    return tuple(dict.fromkeys(entry.method for entry in learning))


def _learnt(reading: Reading, pieces: list[Piece], engine: Engine) -> dict[str | None, Floats]:
    """The popularity that the reports tell, by each method that an adversary has."""
    counting = {method: Counting(reading.mechanism, engine, method) for method in reading.methods}
    if counting:
        for found in warmed(engine, counted_of, reading, pieces):
            for one, (counted, reports) in zip(counting.values(), found, strict=True):
                one.join(counted, reports)
    return {method: one.estimate().popularity for method, one in counting.items()}
