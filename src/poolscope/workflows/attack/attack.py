"""Attack the reports in a file: a posterior for each user, however large the file, and sentences about it.

There are two rounds of tasks, on any engine. The first turns each report into the popularity masses of its support,
chunk of rows by chunk of rows; where an adversary knows that devices memoize, the report itself goes with them. The
second brings them together partition of users by partition of users (`shuffle`), computes posteriors (`scoring`), and
writes the partition's part of the table. Partitions follow each other as their hashes do, and so do the users in them:
the table does not depend on how many partitions there are. No process knows all users. Where an adversary estimates the
popularity from the reports themselves, they are counted before.
"""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from poolscope.core.arguments import checked
from poolscope.core.arrays import Tick
from poolscope.core.counting import counted
from poolscope.core.errors import InputError, located
from poolscope.core.executors import EngineLike, Local, as_engine
from poolscope.core.progress import SILENT, Progress
from poolscope.core.tables import Parts, check_output, writing
from poolscope.game.columns import CONFIDENCE_MCSE
from poolscope.metrics.text import mcse_text, percent
from poolscope.reports.files import MEMORY_BYTES
from poolscope.scenario.build import as_asked
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack import shuffle
from poolscope.workflows.attack.linking import Joined, check_rate, join_pseudonyms, names_of, with_devices
from poolscope.workflows.attack.scoring import Scorer, prepared, warmed
from poolscope.workflows.attack.shuffle import Chunk, Partition, Reading
from poolscope.workflows.attack.summary import (
    Counts,
    Evaluation,
    Guessed,
    Tally,
    check_pools,
    count,
    judged,
    read_truth,
    surest,
)

#: Rows of the table that a summary shows, and users whom it may be asked for.
HEAD, MAX_TOP = 12, 1_000_000


@dataclass(frozen=True, kw_only=True)
class Inferred:
    """What `attack` found, summed up.

    Parameters
    ----------
    users, reports : how many there are in the file; pools : those of all adversaries.
    threshold : confidence below which there is no guess, if there is one.
    results : a record for each adversary and observation count.
    preview : the first rows of the table of posteriors; top : of each adversary the surest ones, after all reports.
    evaluation : how right each adversary is, where the truth is known.
    estimated : the adversaries who estimated the popularity, once: what is found holds given that estimate.
    joined : which pseudonyms are whose, where they were joined; users are then devices.
    violations : what contradicts the scenario, each in one line: reports that do not fit it, see `Checks`, and
        adversaries who are not calibrated, where the truth is known. Guesses are then not to be relied on.

    Examples
    --------
    >>> _ = open("traces.csv", "w").write("user,object\\n" + "ann,3\\n" * 30 + "bob,300\\n" * 30)
    >>> scenario = ps.load_scenario("apple-emojis")
    >>> _ = ps.obfuscate("traces.csv", scenario, "reports.parquet", seed=1)
    >>> found = ps.attack("reports.parquet", scenario)
    >>> found.users, found.reports, found.passed
    (2, 60, True)
    """

    users: int
    reports: int
    pools: Sequence[str]
    threshold: float | None
    results: Sequence[Guessed]
    preview: Sequence[Mapping[str, Any]]
    top: Sequence[Mapping[str, Any]]
    evaluation: Sequence[Evaluation] = ()
    estimated: Sequence[str] = ()
    joined: Joined | None = None
    violations: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        """The verdict: whether nothing contradicts the scenario."""
        return not self.violations


#: The part of the memory that a partition of users may take; the rest is for reading (`prepared`).
CROWD = 1 / 8


@checked
def attack(
    reports_path: str | PathLike[str],
    scenario: Scenario,
    *,
    pools: str | PathLike[str] | None = None,
    observations: Sequence[int] | None = None,
    threshold: float | None = None,
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    raw: bool = False,
    top: int = 0,
    ground_truth: str | PathLike[str] | None = None,
    link_fdr: float | None = None,
    seed: int = 0,
    max_bytes: int = MEMORY_BYTES,
    engine: EngineLike | None = None,
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
    out : the table of posteriors, Parquet or CSV by its ending; its first rows are in the ``preview`` of what is
        returned.
    overwrite : whether an existing ``out`` may be replaced; a file that is read never is.
    raw : whether texts of CSV that a spreadsheet would run are left as they are; otherwise they are escaped.
    top : how many of the users that each adversary is surest of are in the ``top`` of what is returned.
    ground_truth : a table ``user,pool`` of what users really prefer, against which the guesses after all reports are
        held; a pool that no adversary has is refused.
    link_fdr : pseudonyms that kept answers show to be one device's are one user, called by the first of them in the
        file, for all adversaries; no more than this share of the links is wrong in the mean (0.001: one in 1,000).
    seed : of the draws of other people's reports, as in the game, and of ties between pools.
    max_bytes : bytes that the attack may hold, see `MEMORY_BYTES`; a single user's reports have to fit.
    progress : receives the number of reports, and reports, half of each when it is read and half when it is used.

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
        check_output(target, overwrite=overwrite, inputs=scenario.input_paths(path, pools, ground_truth))
    if not 0 <= top <= MAX_TOP:
        raise InputError(f"must be from 0 to {MAX_TOP:,}", value=top, place="top")
    if ground_truth is not None and target is None:
        raise InputError(
            "must have `out`, the table that it is held against", value=str(ground_truth), place="ground_truth"
        )
    check_rate(link_fdr)
    known = None if ground_truth is None else read_truth(ground_truth)
    engine, scenario = as_engine(engine), as_asked(scenario, observations=observations)
    with ExitStack() as stack:
        parts = None if target is None else stack.enter_context(writing(target, raw=raw))
        beside = target.parent if target else Path(tempfile.gettempdir())
        ready = stack.enter_context(prepared(path, scenario, pools, threshold, seed, max_bytes, engine, beside))
        scorer = ready.scorer
        if known is not None and ground_truth is not None:
            check_pools(known, scorer.pool_names, ground_truth)
        violations = ready.violations(scenario)
        _warn(violations)
        joined = None
        if link_fdr is not None:
            progress.stage("Joining pseudonyms")
            joined = join_pseudonyms(ready, link_fdr, path, scenario, max_bytes)
            ready, known = with_devices(ready, joined), None if known is None else joined.of_devices(known)
        elif scenario.devices.rotate_after is not None:
            warnings.warn(names_of(scorer), stacklevel=2)
        progress.begin(ready.reports)
        max_reports = shuffle.fitting_reports(scorer.feature_bytes, max_bytes)
        scoring = Scoring(
            scorer=scorer,
            reading=ready.reading,
            chunks=len(ready.chunks),
            max_reports=max_reports,
            dtype=ready.dtype,
            parts=parts,
            head=HEAD,
            top=top,
            joined=joined,
        )
        with located(file=path):
            weighed = warmed(engine, weigh, scoring, ready.chunks, progress.tick)
            users, rows, letters = _summed(weighed, max_reports, scorer.horizon)
        ready.check_unchanged()
        tally = Tally(scorer, HEAD, top)
        found = shuffle.partitions(users, rows, letters, scorer.feature_bytes, int(max_bytes * CROWD))
        with located(file=path):
            for scored in warmed(engine, score_partition, scoring, found, progress.tick):
                if scored is not None:
                    tally.add(*scored)
        # before the table takes its place: a wrong truth leaves nothing written
        scanned = None if parts is None or known is None else parts.scan(("user", "adversary", "guess"))
        evaluations = [] if scanned is None or known is None else judged(scanned, known, seed)
    miscalibrated = [judgment.violation for judgment in evaluations if judgment.calibrated is False]
    _warn(miscalibrated)
    return Inferred(
        users=tally.users,
        reports=ready.reports,
        pools=scorer.pool_names,
        threshold=scorer.threshold,
        results=tally.results(),
        preview=tally.head,
        top=tally.top,
        evaluation=evaluations,
        estimated=[entry.name for entry in scenario.adversaries if entry.popularity == "estimated"],
        joined=joined,
        violations=[*violations, *miscalibrated],
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Scoring:
    """What the tasks of both rounds need.

    Parameters
    ----------
    chunks : how many there are.
    max_reports : of a user that fit into memory.
    dtype : of the users' names in the table.
    parts : where the table goes, if anywhere.
    preview : rows of it that are handed back; top : of each adversary the surest users, as many.
    joined : how pseudonyms are joined to users, if they are.
    """

    scorer: Scorer
    reading: Reading
    chunks: int
    max_reports: int
    dtype: pl.DataType
    parts: Parts | None
    head: int
    top: int
    joined: Joined | None = None


class Features(NamedTuple):
    """A chunk that is done: its users, rows that count, bytes of names.

    busy : the rows of users with so many that those of all chunks together may not fit.
    """

    users: int
    rows: int
    letters: int
    busy: dict[str, int]


def weigh(scoring: Scoring, chunk: Chunk, engine: Local, tick: Tick) -> Features:
    """Task: what the adversaries learn from each report of a chunk, in the order of the users' hashes, in a file.

    A user's reports beyond the horizon are left out; those of earlier chunks count as well, but are not known here.
    """
    users, reports = scoring.reading.block(chunk)
    # rows of a user often stand together
    runs = users.rle().struct.unnest()
    hashes = np.repeat(shuffle.name_hashes(runs["value"]), runs["len"].to_numpy())
    names = users.cast(pl.String)
    rows, first, lengths = shuffle.first_rows(names, hashes, scoring.scorer.horizon)
    positions = rows
    if len(rows) < len(users):
        early = np.zeros(len(users), dtype=bool)
        early[rows] = True
        reports = {name: column[early] for name, column in reports.items()}
        positions = (np.cumsum(early) - 1)[rows]
    features = {name: column[positions] for name, column in scoring.scorer.features(reports, engine).items()}
    shuffle.write_chunk(scoring.reading.folder, chunk.number, names.gather(rows), hashes[rows], features)
    # the reports that count are only half done
    tick(chunk.count - len(rows) / 2)
    own, busy = names.gather(first), np.flatnonzero(lengths > scoring.max_reports // scoring.chunks)
    busy_users = dict(zip(own.gather(busy).to_list(), lengths[busy].tolist(), strict=True))
    return Features(len(first), len(rows), int(own.str.len_bytes().sum()), busy_users)


def _summed(done: Iterable[Features], max_reports: int, horizon: int) -> tuple[int, int, int]:
    """Users, rows and bytes of names of all chunks, as long as no user is seen to have more reports than fit."""
    reports, sums = Counter[str](), np.zeros(3, dtype=np.int64)
    for chunk in done:
        reports.update(chunk.busy)
        for user in chunk.busy:
            shuffle.check_reports(user, min(reports[user], horizon), max_reports)
        sums += chunk[:3]
    users, rows, letters = sums.tolist()
    return users, rows, letters


class ScoredPartition(NamedTuple):
    """A partition that is done: its part is written, its counts, its first and its surest rows are known."""

    number: int
    counts: Counts
    head: list[dict[str, Any]]
    top: pl.DataFrame


def score_partition(scoring: Scoring, partition: Partition, engine: Local, tick: Tick) -> ScoredPartition | None:
    """Task: the posteriors of a partition's users, written as a part of the table; None where there is nobody."""
    scorer, rows = scoring.scorer, shuffle.read_partition(scoring.reading.folder, scoring.chunks, partition)
    if not rows.height:
        return None
    gathered = shuffle.gather(rows, scorer.horizon, scorer.columns, scoring.max_reports)
    # each report is half done; those that come too late for their users are done with
    tick((rows.height - int(gathered.lengths.sum())) / 2)
    del rows
    scorer.check(gathered.names, gathered.lengths, gathered.features)
    scored = scorer.score(gathered, engine, lambda reports: tick(reports / 2))
    frame = scorer.frame(scored, gathered.names.cast(scoring.dtype))
    if scoring.joined is not None:
        frame = scoring.joined.counted(frame)
    if scoring.parts is not None:
        scoring.parts.write(partition.number, frame)
    head = frame.head(scoring.head).rows(named=True)
    return ScoredPartition(partition.number, count(scorer, scored), head, surest(frame, scoring.top))


def _warn(violations: Sequence[str]) -> None:
    for line in violations:
        warnings.warn(line, stacklevel=3)


def chance_of(found: Inferred) -> str:
    """One sentence on the adversaries whose posteriors are sampled; none where nobody samples."""
    return mcse_text(found.results, f"The column `{CONFIDENCE_MCSE}` has that of each user.")


def estimate_of(found: Inferred) -> str:
    """One sentence on the adversaries who estimated the popularity; none where nobody did."""
    if not found.estimated:
        return ""
    names = " and ".join(found.estimated)
    return f"Results of {names} are given this estimate of the popularity: another sample of reports gives others."


def joined_in_words(joined: Joined) -> str:
    """How many devices the pseudonyms of a file are, and which stay apart."""
    names, devices = joined.pseudonyms, joined.devices
    said = f"{counted(names, 'pseudonym')} joined to {counted(devices, 'user')} by kept answers"
    said += f": {counted(joined.links, 'link')}, at most {percent(joined.rate)} of them wrong in the mean."
    if joined.refused:
        said += (
            f" {counted(joined.refused, 'linked pseudonym')} left apart, as two of one device would be in use at once: "
            "there are wrong links, or the file is not in order of time."
        )
    return said
