"""Attack the reports in a file: compute a posterior for each user, however large the file.

There are two rounds of tasks, on any executor. The first reduces each report to the popularity masses of its support,
chunk by chunk; where an adversary knows that devices memoize, the report itself is stored too. The second gathers one
partition of users at a time (`partitioning`), computes posteriors (`scoring`), and writes the partition's part of the
table. Partitions, and the users within, are ordered by the hash of the user's name: the table does not depend on the
number of partitions. No process holds all users. Where an adversary estimates the popularity from the reports, they are
counted before.
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
from poolscope.scenario.attacks import AttackSpec
from poolscope.scenario.build import with_overrides
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack import partitioning
from poolscope.workflows.attack.estimation import run_tasks
from poolscope.workflows.attack.linking import (
    LinkedPseudonyms,
    check_link_fdr,
    join_pseudonyms,
    linking_warning,
    with_devices,
)
from poolscope.workflows.attack.partitioning import Chunk, Partition, ReportReader
from poolscope.workflows.attack.scoring import Scorer, prepare_attack
from poolscope.workflows.attack.summary import (
    Evaluation,
    GuessSummary,
    Tally,
    UserCounts,
    check_pools,
    count,
    evaluate,
    read_truth,
    top_users,
)

#: Rows of the preview, and users of the top list at most.
PREVIEW_ROWS, MAX_TOP = 12, 1_000_000


@dataclass(frozen=True, kw_only=True)
class Inferred:
    """The result of `attack`.

    Parameters
    ----------
    users, reports : how many there are in the file; pools : those of all adversaries.
    threshold : confidence below which there is no guess, if any.
    results : a record for each adversary and observation count.
    preview : the first rows of the table of posteriors.
    top : the users that each adversary is most confident about, after all reports.
    evaluation : how often each adversary is correct, where the ground truth is given.
    estimated : the adversaries who estimated the popularity, once: results are conditional on that estimate.
    joined : which pseudonyms were linked to which device, if they were; users are then devices.
    violations : what contradicts the scenario, one line each: reports that do not match it, see `ReportChecks`, and
        adversaries who are not calibrated, by the ground truth. Guesses are then unreliable.

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
    results: Sequence[GuessSummary]
    preview: Sequence[Mapping[str, Any]]
    top: Sequence[Mapping[str, Any]]
    evaluation: Sequence[Evaluation] = ()
    estimated: Sequence[str] = ()
    joined: LinkedPseudonyms | None = None
    violations: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts the scenario."""
        return not self.violations


#: Share of the memory for a partition of users; the rest is for reading (`prepared`).
PARTITION_SHARE = 1 / 8


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
    attacks: Sequence[AttackSpec] = (),
    seed: int = 0,
    max_bytes: int = MEMORY_BYTES,
    engine: EngineLike | None = None,
    progress: Progress = SILENT,
) -> Inferred:
    """Compute the posterior of every user of a file of reports, for every adversary of the scenario.

    Where devices memoize, an adversary who knows it groups the reports of a user by response, for each observation
    count; its posteriors are those of `posterior` on the same reports.

    Parameters
    ----------
    pools : a table ``object,pool`` whose pools replace the scenario's; objects that it lacks are neutral.
    observations : observation counts in place of the scenario's; all reports where neither has any.
    threshold : confidence below which there is no guess; the scenario's by default.
    out : the table of posteriors, Parquet or CSV by its ending; its first rows are the ``preview`` of the result.
    overwrite : whether an existing ``out`` may be replaced; an input file never is.
    raw : whether CSV cells that a spreadsheet would execute are left as they are; otherwise they are escaped.
    top : how many of the users that each adversary is most confident about are in the ``top`` of the result.
    ground_truth : a table ``user,pool`` of the pools that users prefer, by which the guesses after all reports are
        evaluated; a pool that no adversary has is refused.
    link_fdr : link pseudonyms by memoized responses before the attack, for all adversaries, at this expected false
        discovery rate (0.001: one link in 1,000). A linked user is named by its first pseudonym in the file.
    attacks : further attacks, as of `audit`, which see one user at a time. Scores are calibrated on simulated users.
    seed : of simulated reports for the popularity estimate, as in the game, and of ties between pools.
    max_bytes : bytes that the attack may hold, see `MEMORY_BYTES`; a single user's reports have to fit.
    progress : receives the number of reports, and reports, half of each when it is read and half when it is scored.

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
        raise InputError("must have `out`, the table that it evaluates", value=str(ground_truth), place="ground_truth")
    check_link_fdr(link_fdr)
    known = None if ground_truth is None else read_truth(ground_truth)
    engine, scenario = as_engine(engine), with_overrides(scenario, observations=observations)
    with ExitStack() as stack:
        parts = None if target is None else stack.enter_context(writing(target, raw=raw))
        scratch_parent = target.parent if target else Path(tempfile.gettempdir())
        ready = stack.enter_context(
            prepare_attack(path, scenario, pools, threshold, seed, max_bytes, engine, scratch_parent, attacks)
        )
        scorer = ready.scorer
        if known is not None and ground_truth is not None:
            check_pools(known, scorer.pool_names, ground_truth)
        violations = ready.violations(scenario)
        _warn(violations)
        joined = None
        if link_fdr is not None:
            progress.stage("Linking pseudonyms")
            joined = join_pseudonyms(ready, link_fdr, path, scenario, max_bytes)
            ready, known = with_devices(ready, joined), None if known is None else joined.of_devices(known)
        elif scenario.devices.rotate_after is not None:
            warnings.warn(linking_warning(scorer), stacklevel=2)
        progress.begin(ready.reports)
        max_reports = partitioning.max_reports_of_user(scorer.feature_bytes, max_bytes)
        task = AttackTask(
            scorer=scorer,
            reading=ready.reading,
            chunks=len(ready.chunks),
            max_reports=max_reports,
            dtype=ready.dtype,
            parts=parts,
            head=PREVIEW_ROWS,
            top=top,
            joined=joined,
        )
        with located(file=path):
            chunk_summaries = run_tasks(engine, score_chunk, task, ready.chunks, progress.tick)
            users, rows, name_bytes = _total(chunk_summaries, max_reports, scorer.horizon)
        ready.check_unchanged()
        tally = Tally(scorer, PREVIEW_ROWS, top)
        found = partitioning.partitions(users, rows, name_bytes, scorer.feature_bytes, int(max_bytes * PARTITION_SHARE))
        with located(file=path):
            for scored in run_tasks(engine, score_partition, task, found, progress.tick):
                if scored is not None:
                    tally.add(*scored)
        # before the table is moved into place: a wrong ground truth leaves nothing written
        scanned = None if parts is None or known is None else parts.scan(("user", "adversary", "guess"))
        evaluations = [] if scanned is None or known is None else evaluate(scanned, known, seed)
    miscalibrated = [evaluation.violation for evaluation in evaluations if evaluation.calibrated is False]
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
class AttackTask:
    """What the tasks of both rounds share.

    Parameters
    ----------
    chunks : how many there are.
    max_reports : reports of a user that fit into memory.
    dtype : of the users' names in the table.
    parts : where the table is written, if it is.
    head : rows of the preview; top : users of each adversary in the top list.
    joined : how pseudonyms are linked to users, if they are.
    """

    scorer: Scorer
    reading: ReportReader
    chunks: int
    max_reports: int
    dtype: pl.DataType
    parts: Parts | None
    head: int
    top: int
    joined: LinkedPseudonyms | None = None


class ChunkSummary(NamedTuple):
    """A scored chunk: its users, rows that count, bytes of names.

    busy : rows of users with so many that all chunks together may exceed memory.
    """

    users: int
    rows: int
    name_bytes: int
    busy: dict[str, int]


def score_chunk(task: AttackTask, chunk: Chunk, engine: Local, tick: Tick) -> ChunkSummary:
    """Write the features of each report of a chunk to a file, ordered by the users' hashes (a task).

    A user's reports beyond the horizon are omitted; reports in earlier chunks count too, but are unknown here.
    """
    users, reports = task.reading.block(chunk)
    # rows of a user are often adjacent
    runs = users.rle().struct.unnest()
    hashes = np.repeat(partitioning.name_hashes(runs["value"]), runs["len"].to_numpy())
    names = users.cast(pl.String)
    rows, first, lengths = partitioning.first_rows(names, hashes, task.scorer.horizon)
    positions = rows
    if len(rows) < len(users):
        early = np.zeros(len(users), dtype=bool)
        early[rows] = True
        reports = {name: column[early] for name, column in reports.items()}
        positions = (np.cumsum(early) - 1)[rows]
    features = {name: column[positions] for name, column in task.scorer.features(reports, engine).items()}
    partitioning.write_chunk(task.reading.folder, chunk.number, names.gather(rows), hashes[rows], features)
    # the reports that count are scored later
    tick(chunk.count - len(rows) / 2)
    own, busy = names.gather(first), np.flatnonzero(lengths > task.max_reports // task.chunks)
    busy_users = dict(zip(own.gather(busy).to_list(), lengths[busy].tolist(), strict=True))
    return ChunkSummary(len(first), len(rows), int(own.str.len_bytes().sum()), busy_users)


def _total(done: Iterable[ChunkSummary], max_reports: int, horizon: int) -> tuple[int, int, int]:
    """Sum users, rows and bytes of names over all chunks; refuse a user whose reports do not fit into memory."""
    reports, sums = Counter[str](), np.zeros(3, dtype=np.int64)
    for chunk in done:
        reports.update(chunk.busy)
        for user in chunk.busy:
            partitioning.check_reports(user, min(reports[user], horizon), max_reports)
        sums += chunk[:3]
    users, rows, name_bytes = sums.tolist()
    return users, rows, name_bytes


class ScoredPartition(NamedTuple):
    """A scored partition: its part is written; its counts, preview rows and top users."""

    number: int
    counts: UserCounts
    head: list[dict[str, Any]]
    top: pl.DataFrame


def score_partition(task: AttackTask, partition: Partition, engine: Local, tick: Tick) -> ScoredPartition | None:
    """Compute the posteriors of a partition's users and write them to the table (a task); None without users."""
    scorer, rows = task.scorer, partitioning.read_partition(task.reading.folder, task.chunks, partition)
    if not rows.height:
        return None
    gathered = partitioning.gather(rows, scorer.horizon, scorer.columns, task.max_reports)
    # reports beyond the horizon of their users are done
    tick((rows.height - int(gathered.lengths.sum())) / 2)
    del rows
    scorer.check(gathered.names, gathered.lengths, gathered.features)
    scored = scorer.score(gathered, engine, lambda reports: tick(reports / 2))
    frame = scorer.frame(scored, gathered.names.cast(task.dtype))
    if task.joined is not None:
        frame = task.joined.counted(frame)
    if task.parts is not None:
        task.parts.write(partition.number, frame)
    head = frame.head(task.head).rows(named=True)
    return ScoredPartition(partition.number, count(scorer, scored), head, top_users(frame, task.top))


def _warn(violations: Sequence[str]) -> None:
    """Warn of each violation."""
    for line in violations:
        warnings.warn(line, stacklevel=3)


def mcse_note(found: Inferred) -> str:
    """Return the Monte Carlo error of sampled posteriors in one sentence; an empty text where none is sampled."""
    return mcse_text(found.results, f"The column `{CONFIDENCE_MCSE}` has that of each user.")


def popularity_estimate_note(found: Inferred) -> str:
    """Return one sentence on the adversaries who estimated the popularity, or nothing."""
    if not found.estimated:
        return ""
    names = " and ".join(found.estimated)
    return (
        f"Results of {names} are conditional on one estimate of the popularity; another sample of reports changes them."
    )


def joined_in_words(joined: LinkedPseudonyms) -> str:
    """Describe how many devices the pseudonyms of a file were linked to, and which stay apart."""
    names, devices = joined.pseudonyms, joined.devices
    said = f"{counted(names, 'pseudonym')} linked to {counted(devices, 'user')} by memoized responses"
    said += f": {counted(joined.links, 'link')}, expected false discovery rate at most {percent(joined.rate)}."
    if joined.refused:
        said += (
            f" {counted(joined.refused, 'linked pseudonym')} not merged, as two pseudonyms of one device would overlap "
            "in time: some links are wrong, or the file is not in order of time."
        )
    return said
