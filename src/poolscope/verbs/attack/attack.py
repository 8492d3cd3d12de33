"""The attack on reports in a file: a posterior for each user, however large the file.

Two looks at the file. The first counts each user's reports and, if an adversary wants to learn the popularity from
them, counts what that takes. The second turns each report into the popularity masses of its support, a few numbers,
which are gathered user by user (`gathering`) and integrated to posteriors (`posteriors`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from poolscope.attack.adversary import Adversary
from poolscope.base.arrays import Floats, Integers, Tick
from poolscope.base.engines import Engine, Local
from poolscope.base.errors import InputError, located
from poolscope.base.tables import Source, check_output, open_table, writing
from poolscope.mechanisms.role import Mechanism
from poolscope.reports.files import MEMORY_BYTES, blocks, row_bytes, rows_within, user_batches
from poolscope.reports.shares import Counting, masses
from poolscope.scenario.build import adversary_of, build_adversary, build_mechanism, other_pools
from poolscope.scenario.scenario import Scenario
from poolscope.verbs.attack.crowds import Bucket, Gathering
from poolscope.verbs.attack.pieces import (
    Piece,
    Reading,
    ScoredCrowd,
    Scoring,
    changed,
    counted_of,
    crowds,
    cut,
    score_crowd,
    scored_crowd,
    sort_masses,
    warmed,
)
from poolscope.verbs.attack.scorer import Scorer, Tally
from poolscope.verbs.attack.users import Arrivals, Places
from poolscope.world.objects_file import read_pools
from poolscope.world.universe import Universe

#: Rows of the table that a summary shows.
HEAD = 12


class Shares:
    """How the memory is divided: reading, a block of reports, a bucket of users, and as much for all that waits."""

    reading = 1 / 16
    block = 3 / 8
    gathering = 1 / 8


def attack(
    reports_path: str | PathLike[str],
    scenario: Scenario,
    *,
    pools: str | PathLike[str] | None = None,
    threshold: float | None = None,
    out: str | PathLike[str] | None = None,
    seed: int = 0,
    memory: int = MEMORY_BYTES,
    engine: Engine | None = None,
    begin: Callable[[int], None] | None = None,
    tick: Tick | None = None,
) -> dict[str, Any]:
    """The posterior of every user of a file of reports, for every adversary of the scenario.

    Parameters
    ----------
    pools : a table ``object,pool`` whose pools take the place of the scenario's; objects that it lacks are neutral.
    threshold : confidence below which there is no guess; the scenario's where absent.
    out : the table of posteriors, Parquet or CSV by its ending; where absent the summary's ``head`` has its first rows.
    seed : of the draws of other people's reports, and of ties between pools, as in the game.
    memory : bytes that the attack may hold, see `MEMORY_BYTES`; a single user's reports have to fit.
    begin : told the number of users, tick : told users as they are attacked.

    Returns
    -------
    ``users``, ``reports``, ``pools``, ``threshold``, ``results`` (how confident each adversary is at each observation
    count and how its guesses spread) and ``head``.
    """
    path, target = Path(reports_path), None if out is None else Path(out)
    if target is not None:
        check_output(target, overwrite=True, inputs=(path,))
    threshold = _threshold(threshold, scenario)
    if not scenario.adversaries:
        raise scenario.missing("[adversary]")
    _check_memory(scenario)
    engine = engine or Local()
    universe = scenario.universe()
    mechanism = build_mechanism(scenario, universe)
    other = None if pools is None else read_pools(pools, universe)
    source = open_table(path)

    with ExitStack() as stack:
        parts = None if target is None else stack.enter_context(writing(target))
        beside = tempfile.TemporaryDirectory(prefix=".poolscope.", dir=target and target.parent)
        folder = Path(stack.enter_context(beside)).absolute()
        pieces: list[Piece] = []
        if engine.workers == 1:
            look = _first_look(source, scenario, mechanism, universe, memory, engine)
        else:
            look, pieces = _cut(source, scenario, mechanism, universe, memory, engine, folder)
        scorer = Scorer(
            mechanism=mechanism,
            adversaries=list(_adversaries(scenario, mechanism, universe, other, look.learnt, seed, engine)),
            observations=scenario.attack.observations if scenario.attack else None,
            threshold=threshold,
            seed=seed,
        )
        if begin:
            begin(len(look.counts))
        scoring = Scoring(scorer=scorer, folder=folder, parts=parts, head=HEAD)
        tally, head = Tally(scorer), list[dict[str, Any]]()
        if engine.workers == 1:
            done = _score_here(scoring, source, look, universe, memory, engine, tick)
        else:
            reading = Reading(mechanism=mechanism, universe=universe, folder=folder, scorer=scorer)
            done = _score_there(scoring, reading, pieces, look, memory, engine, tick)
        for crowd in done:
            tally.add(crowd.number, crowd.counts)
            head = crowd.head or head
    return {
        "users": tally.users,
        "reports": int(look.counts.sum()),
        "pools": scorer.pool_names,
        "threshold": threshold,
        "results": tally.results(),
        "head": head,
    }


def _check_memory(scenario: Scenario) -> None:
    """Files are attacked report by report: grouping those of one answer needs all of a user's at once."""
    for index, entry in enumerate(scenario.adversaries):
        if scenario.mechanism.memory and entry.knows_memory:
            place, remedy = f"adversary[{index}].knows_memory", "audit and, in Python, posterior group them"
            rule = "must be false: attack takes every report of a file by itself"
            raise InputError(rule, file=scenario.file, place=place, remedy=remedy)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Look:
    """What the first look at a file finds; the popularity as each method that an adversary has learns it."""

    arrivals: Arrivals
    counts: Integers
    learnt: Mapping[str | None, Floats]


def _threshold(threshold: float | None, scenario: Scenario) -> float | None:
    if threshold is None:
        return scenario.attack.threshold if scenario.attack else None
    if not 0 <= threshold <= 1:
        raise InputError("must be from 0 to 1", value=threshold, place="threshold")
    return threshold


def _first_look(
    source: Source, scenario: Scenario, mechanism: Mechanism, universe: Universe, memory: int, engine: Engine
) -> _Look:
    """Count each user's reports, and what an adversary needs of them who learns the popularity from them."""
    arrivals, places = Arrivals(), Places()
    reading = int(memory * Shares.reading)
    if not _methods(scenario):
        for users in user_batches(source, reading):
            places.of(arrivals.number(users))
        return _Look(arrivals=arrivals, counts=places.counts[: len(arrivals)], learnt={})
    columns = mechanism.report_columns
    counting = {method: Counting(mechanism, engine, method) for method in _methods(scenario)}
    rows = rows_within(memory * Shares.block, 2 * row_bytes(columns))
    for users, reports in blocks(source, columns, universe, rows=rows, memory=reading):
        places.of(arrivals.number(users))
        for one in counting.values():
            one.add(reports)
    return _Look(arrivals=arrivals, counts=places.counts[: len(arrivals)], learnt=_learnt(counting))


def _adversaries(
    scenario: Scenario,
    mechanism: Mechanism,
    universe: Universe,
    other: Universe | None,
    learnt: Mapping[str | None, Floats],
    seed: int,
    engine: Engine,
) -> Iterator[Adversary]:
    """The scenario's adversaries, with other pools if there are some."""
    popularity = scenario.true_popularity(universe) if scenario.popularity_table else None
    for index, entry in enumerate(scenario.adversaries):
        if entry.popularity == "estimated" and entry.reports is None:
            with located(file=scenario.file, place=f"adversary[{index}]"):
                adversary = adversary_of(entry, other_pools(entry, universe), learnt[entry.method])
        else:
            adversary = build_adversary(scenario, index, universe, popularity, mechanism, seed, engine.map)
        if other is not None:
            with located(file=scenario.file, place=f"adversary[{index}]"):
                adversary = adversary_of(entry, other, adversary.popularity)
        yield adversary


def _cut(
    source: Source,
    scenario: Scenario,
    mechanism: Mechanism,
    universe: Universe,
    memory: int,
    engine: Engine,
    folder: Path,
) -> tuple[_Look, list[Piece]]:
    """The first look, for workers: who sent which rows, and the rows in pieces."""
    arrivals, places, columns = Arrivals(), Places(), mechanism.report_columns
    width = len(scenario.adversaries) * (universe.k + 1)
    size = rows_within(memory * Shares.block, 2 * row_bytes(columns) + 16 * width)
    bounds = {"size": size, "horizon": _horizon(scenario), "memory": int(memory * Shares.reading)}
    pieces = list(cut(source, columns, arrivals, places, folder, **bounds))
    counts = places.counts[: len(arrivals)]
    methods = _methods(scenario)
    if not methods:
        return _Look(arrivals=arrivals, counts=counts, learnt={}), pieces
    counting = {method: Counting(mechanism, engine, method) for method in methods}
    reading = Reading(mechanism=mechanism, universe=universe, folder=folder, methods=methods)
    for found in warmed(engine, counted_of, reading, pieces):
        for one, (counted, reports) in zip(counting.values(), found, strict=True):
            one.join(counted, reports)
    return _Look(arrivals=arrivals, counts=counts, learnt=_learnt(counting)), pieces


def _horizon(scenario: Scenario) -> int:
    """Reports of a user that are looked at."""
    return max(scenario.attack.observations) if scenario.attack else np.iinfo(np.int64).max


def _methods(scenario: Scenario) -> tuple[str | None, ...]:
    """How adversaries estimate the popularity from the reports that they attack; none if nobody does."""
    learning = (entry for entry in scenario.adversaries if entry.popularity == "estimated" and entry.reports is None)
    return tuple(dict.fromkeys(entry.method for entry in learning))


def _learnt(counting: Mapping[str | None, Counting]) -> dict[str | None, Floats]:
    return {method: one.estimate().popularity for method, one in counting.items()}


def _score_there(
    scoring: Scoring,
    reading: Reading,
    pieces: list[Piece],
    look: _Look,
    memory: int,
    engine: Engine,
    tick: Tick | None,
) -> Iterator[ScoredCrowd]:
    """Both rounds of tasks: pieces of rows, then buckets of users."""
    done = list(warmed(engine, sort_masses, reading, pieces))
    observations = scoring.scorer.observations
    lengths = look.counts if observations is None else np.minimum(look.counts, max(observations))
    width, size = scoring.scorer.view.width, int(memory * Shares.gathering)
    yield from warmed(engine, score_crowd, scoring, crowds(done, lengths, look.arrivals.users, width, size), tick)


def _score_here(
    scoring: Scoring, source: Source, look: _Look, universe: Universe, memory: int, engine: Engine, tick: Tick | None
) -> Iterator[ScoredCrowd]:
    """The same by the threads of this process: buckets are gathered in memory as long as they fit."""
    scorer, users = scoring.scorer, look.arrivals.users
    for bucket in _buckets(source, look, scorer, universe, memory, engine, scoring.folder):
        names = users[bucket.users.start : bucket.users.stop]
        yield scored_crowd(scoring, bucket, names, engine, tick or (lambda _: None))


def _buckets(
    source: Source, look: _Look, scorer: Scorer, universe: Universe, memory: int, engine: Engine, folder: Path
) -> Iterator[Bucket]:
    """Users with the masses of all their reports, up to the largest observation count."""
    columns = scorer.mechanism.report_columns
    horizon = np.iinfo(np.int64).max if scorer.observations is None else max(scorer.observations)
    width = scorer.view.width
    gathering = Gathering(np.minimum(look.counts, horizon), width, int(memory * Shares.gathering), folder)
    rows = rows_within(memory * Shares.block, 2 * row_bytes(columns) + 16 * width)
    places = Places()
    for users, reports in blocks(source, columns, universe, rows=rows, memory=int(memory * Shares.reading)):
        numbers = look.arrivals.number(users)
        place = places.of(numbers)
        if len(look.arrivals) > len(look.counts) or np.any(place >= look.counts[numbers]):
            raise changed(source.path)
        early = place < horizon
        if not early.all():
            reports = {name: column[early] for name, column in reports.items()}
        yield from gathering.add(numbers[early], masses(scorer.mechanism, reports, scorer.view, engine))
    if gathering.unfinished:
        raise changed(source.path)
