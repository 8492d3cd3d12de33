"""The attack on reports in a file: a posterior for each user, however large the file.

Two rounds, by whatever engine. The first turns each report into the popularity masses of its support, a few numbers,
piece of rows by piece of rows (`pieces`); where an adversary knows that devices keep their answers, the report itself
goes with them. The second brings them together user by user, crowd of users by crowd of
users, and makes posteriors of them (`crowds`). No process knows all users: a user is the hash of its name
(`users`), and a crowd an interval of hashes. An adversary who wants to learn the popularity from the reports themselves
has them counted before.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from poolscope.attack.adversary import Adversary
from poolscope.base.arrays import Floats
from poolscope.base.engines import Engine, Local
from poolscope.base.errors import InputError, located
from poolscope.base.machine import check_memory
from poolscope.base.progress import SILENT, Progress
from poolscope.base.scratch import scratch_folder
from poolscope.base.tables import Source, check_output, open_table, writing
from poolscope.mechanisms.role import Mechanism
from poolscope.reports.curator import Counting
from poolscope.reports.files import LEAST_ROWS, MEMORY_BYTES, row_bytes, rows_within
from poolscope.scenario.asked import as_asked
from poolscope.scenario.build import adversary_of, build_adversary, build_device, build_mechanism, other_pools
from poolscope.scenario.scenario import Scenario
from poolscope.verbs.attack.crowds import Scoring, crowds, score_crowd
from poolscope.verbs.attack.pieces import (
    Piece,
    Reading,
    Weighing,
    changed,
    counted_of,
    cut,
    misfit_of,
    warmed,
    weigh,
)
from poolscope.verbs.attack.scorer import Scorer
from poolscope.verbs.attack.tally import Guessed, Tally
from poolscope.verbs.attack.truth import Judged, judged, read_truth
from poolscope.world.objects_file import read_pools
from poolscope.world.universe import Universe

#: How often what is made of a block of reports is held while it is worked on.
COPIES = 3

#: Rows of the table that a summary shows.
HEAD = 12

NAMES = "reports are linked by the users that the file names, whatever [devices] has as window"
"""What is said where devices change their pseudonyms."""


@dataclass(frozen=True, kw_only=True)
class Inferred:
    """What `attack` found, summed up.

    Parameters
    ----------
    users, reports : how many there are in the file; pools : those of all adversaries.
    threshold : confidence below which there is no guess, if there is one.
    results : a record for each adversary and observation count.
    head : the first rows of the table of posteriors; top : of each adversary the surest ones, after all reports.
    judged : how right each adversary is, where the truth is known.
    """

    users: int
    reports: int
    pools: Sequence[str]
    threshold: float | None
    results: Sequence[Guessed]
    head: Sequence[Mapping[str, Any]]
    top: Sequence[Mapping[str, Any]]
    judged: Sequence[Judged] = ()


#: How the memory is divided: reading, a piece of reports and what is made of it, a crowd of users.
READING, PIECE, CROWD = 1 / 16, 3 / 8, 1 / 8


def attack(
    reports_path: str | PathLike[str],
    scenario: Scenario,
    *,
    pools: str | PathLike[str] | None = None,
    observations: Sequence[int] | None = None,
    threshold: float | None = None,
    out: str | PathLike[str] | None = None,
    top: int = 0,
    truth: str | PathLike[str] | None = None,
    seed: int = 0,
    most_bytes: int = MEMORY_BYTES,
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> Inferred:
    """The posterior of every user of a file of reports, for every adversary of the scenario.

    Where devices keep their answers, an adversary who knows of it groups the reports of a user, and attacks anew for
    each observation count; its posteriors are those of `posterior` on the same reports.

    Parameters
    ----------
    pools : a table ``object,pool`` whose pools take the place of the scenario's; objects that it lacks are neutral.
    observations : after how many reports, in place of the scenario's counts; after all where nobody says.
    threshold : confidence below which there is no guess; the scenario's where absent.
    out : the table of posteriors, Parquet or CSV by its ending; its first rows are in the ``head`` of what is returned.
    top : how many of the users that each adversary is surest of are in the ``top`` of what is returned.
    truth : a table ``user,pool`` of what users really prefer, against which the guesses after all reports are held.
    seed : of the draws of other people's reports, as in the game, and of ties between pools.
    most_bytes : bytes that the attack may hold, see `MEMORY_BYTES`; a single user's reports have to fit.
    progress : told the number of reports, and reports, half of each when it is read and half when it is used.

    Examples
    --------
    >>> _ = open("traces.csv", "w").write("user,object\\n" + "ann,3\\n" * 30 + "bob,300\\n" * 30)
    >>> scenario = ps.load_scenario("apple-emojis")
    >>> _ = ps.obfuscate("traces.csv", scenario, "reports.parquet", seed=1)
    >>> found = ps.attack("reports.parquet", scenario, out="posteriors.parquet")
    >>> pl.read_parquet("posteriors.parquet").columns[:5]
    ['user', 'adversary', 'n', 'guess', 'confidence']
    """
    path, target = Path(reports_path), None if out is None else Path(out)
    if target is not None:
        check_output(target, overwrite=True, inputs=(path,))
    if top < 0:
        raise InputError("must not be negative", value=top, place="top")
    if truth is not None and target is None:
        raise InputError("must have `out`, the table that it is held against", value=str(truth), place="truth")
    known = None if truth is None else read_truth(truth)
    engine, scenario = engine or Local(), as_asked(scenario, observations=observations)
    with ExitStack() as stack:
        parts = None if target is None else stack.enter_context(writing(target))
        beside = target.parent if target else Path(tempfile.gettempdir())
        ready = stack.enter_context(prepared(path, scenario, pools, threshold, seed, most_bytes, engine, beside))
        scorer, folder = ready.scorer, ready.reading.folder
        progress.begin(ready.reports)
        weighing = Weighing(reading=ready.reading, scorer=scorer)
        done = list(warmed(engine, weigh, weighing, ready.pieces, progress.tick))
        ready.check_unchanged()
        scoring = Scoring(
            scorer=scorer, folder=folder, pieces=len(ready.pieces), dtype=ready.dtype, parts=parts, head=HEAD, top=top
        )
        tally = Tally(scorer, HEAD, top)
        found = crowds(done, scorer.told_bytes, int(most_bytes * CROWD))
        with located(file=path):
            for scored in warmed(engine, score_crowd, scoring, found, progress.tick):
                if scored is not None:
                    tally.add(*scored)
    return Inferred(
        users=tally.users,
        reports=ready.reports,
        pools=scorer.pool_names,
        threshold=scorer.threshold,
        results=tally.results(),
        head=tally.head,
        top=tally.top,
        judged=[] if target is None or known is None else judged(target, known, seed),
    )


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
    most_bytes: int,
    engine: Engine,
    beside: Path,
) -> Iterator[Prepared]:
    """Cut a file into pieces and see what the adversaries learn of it; temporary files lie beside for as long."""
    threshold = _threshold(threshold, scenario)
    if not scenario.adversaries:
        raise scenario.missing("[adversary]")
    if scenario.devices.window is not None:
        warnings.warn(NAMES, stacklevel=5)
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
        size = rows_within(most_bytes * PIECE, 2 * row_bytes(mechanism.report_columns) + 16 * width)
        pieces, dtype = cut(source, reading, size=size, most_bytes=int(most_bytes * READING))
        if scenario.tells_users_apart and (odd := misfit_of(reading, pieces, kept=scenario.keeps_answers)):
            warnings.warn(f"{path}: {odd}", stacklevel=5)
        learnt = _learnt(reading, pieces, engine)
        scorer = Scorer(
            device=build_device(scenario, mechanism),
            adversaries=list(_adversaries(scenario, mechanism, universe, other, learnt, seed, engine)),
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


def _methods(scenario: Scenario) -> tuple[str | None, ...]:
    """How adversaries estimate the popularity from the reports that they attack; none if nobody does."""
    learning = (entry for entry in scenario.adversaries if entry.popularity == "estimated" and entry.reports is None)
    return tuple(dict.fromkeys(entry.method for entry in learning))


def _learnt(reading: Reading, pieces: list[Piece], engine: Engine) -> dict[str | None, Floats]:
    """The popularity that the reports tell, by each method that an adversary has."""
    counting = {method: Counting(reading.mechanism, engine, method) for method in reading.methods}
    if counting:
        for found in warmed(engine, counted_of, reading, pieces):
            for one, (counted, reports) in zip(counting.values(), found, strict=True):
                one.join(counted, reports)
    return {method: one.estimate().popularity for method, one in counting.items()}
