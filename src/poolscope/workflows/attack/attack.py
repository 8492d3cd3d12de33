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
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from poolscope.core.arguments import checked
from poolscope.core.counting import counted
from poolscope.core.errors import InputError, located
from poolscope.core.executors import Engine, EngineLike, as_engine
from poolscope.core.progress import SILENT, Progress
from poolscope.core.tables import Data, SourceOptions, delivered, destination_of, label_of, local_paths, writing
from poolscope.core.tables.writing import Parts
from poolscope.game.columns import CONFIDENCE_MCSE
from poolscope.inference.thresholds import DEFAULT_THRESHOLD
from poolscope.metrics.text import mcse_text, percent
from poolscope.reports.digest import FileDigest
from poolscope.reports.files import MEMORY_BYTES
from poolscope.scenario.attacks import AttackSpec
from poolscope.scenario.build import with_overrides
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack import partitioning
from poolscope.workflows.attack.explanation import Explanations, check_explained, explain
from poolscope.workflows.attack.inspection import Inspection, first_checks, inspection_of, time_range
from poolscope.workflows.attack.linking import (
    LinkedPseudonyms,
    check_link_fdr,
    join_pseudonyms,
    linking_warning,
    with_devices,
)
from poolscope.workflows.attack.pool_sets import check_pool_sets, correction_note, other_pools_beside
from poolscope.workflows.attack.preparation import PreparedAttack, prepare_attack
from poolscope.workflows.attack.resuming import Records, check_resumable, identity, unfinished_folder
from poolscope.workflows.attack.summary import Evaluation, GuessSummary, Tally, check_pools, evaluate, read_truth
from poolscope.workflows.attack.tasks import AttackTask, chunk_summaries, scored_partitions, total_of

#: Rows of the preview, and users of the top list at most.
PREVIEW_ROWS, MAX_TOP = 12, 1_000_000


@dataclass(frozen=True, kw_only=True)
class CollectionReports:
    """The reports of one of several collections, and whether they fit the scenario."""

    name: str
    users: int
    reports: int
    inspection: Inspection


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
    inspection : whether the reports fit the scenario: the table of checks of `inspect`.
    explanations : why the top users are guessed, and which reports of all users revealed most, where asked for.
    attribute : the name of the attribute that `attack_collections` guesses; pools are then its values, and n of results
        counts days. exposure : the share of users exposed by each day, of these.
    collections : the reports of each of several collections, with a file each.
    pool_sets : how many sets of pools were tried; beyond 1, summaries use the corrected confidence.
    cautions : what to keep in mind when these results are used, one sentence each.
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
    inspection: Inspection | None = None
    explanations: Explanations = field(default_factory=Explanations)
    attribute: str | None = None
    collections: Sequence[CollectionReports] = ()
    exposure: pl.DataFrame | None = None
    pool_sets: int = 1
    cautions: Sequence[str] = ()
    violations: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts the scenario."""
        return not self.violations


def check_one_collection(scenario: Scenario) -> None:
    """Refuse a scenario with several collections, each of which has a file of its own."""
    if scenario.collections:
        remedy = f"give the file of each, `reports` {scenario.collections[0].name}=FILE; in Python, attack_collections"
        raise InputError("has several collections", file=scenario.file, remedy=remedy)


#: Share of the memory for a partition of users; the rest is for reading (`prepared`).
PARTITION_SHARE = 1 / 8


@checked
def attack(
    reports: Data,
    scenario: Scenario,
    *,
    columns: Mapping[str, str] | None = None,
    time: str | None = None,
    allow_network: bool = False,
    query: str | None = None,
    pools: str | PathLike[str] | None = None,
    observations: Sequence[int] | None = None,
    threshold: float | None = None,
    out: str | PathLike[str] | None = None,
    out_table: str | None = None,
    overwrite: bool = False,
    raw: bool = False,
    top: int = 0,
    ground_truth: str | PathLike[str] | None = None,
    why: bool = False,
    pool_sets: int = 1,
    link_fdr: float | None = None,
    attacks: Sequence[AttackSpec] = (),
    seed: int = 0,
    max_bytes: int = MEMORY_BYTES,
    engine: EngineLike | None = None,
    resume: bool = False,
    progress: Progress = SILENT,
) -> Inferred:
    """Compute the posterior of every user of a file of reports, for every adversary of the scenario.

    Where devices memoize, an adversary who knows it groups the reports of a user by response, for each observation
    count; its posteriors are those of `posterior` on the same reports.

    Parameters
    ----------
    reports : the table of reports: a file, several, a pattern, a folder, ``"-"`` for standard input, an address, or any
        object with the Arrow C stream interface, as a frame of polars or pandas. See the guide on sources.
    columns : columns of the source by the names that poolscope reads: ``{"user": "device_id", "bits": "payload"}``.
    time : the column that orders the reports; otherwise they are in the order of the source.
    allow_network : whether to connect to other machines; without it an address on the network is refused.
    query : SQL that returns the reports, where the source is the address of a database.
    pools : a table ``object,pool`` whose pools replace the scenario's; objects that it lacks are neutral.
    observations : observation counts in place of the scenario's; all reports where neither has any.
    threshold : confidence below which there is no guess; the scenario's by default.
    out : the table of posteriors, Parquet or CSV by its ending; its first rows are the ``preview`` of the result. Or an
        address: ``s3://bucket/key.parquet``, ``postgresql://``, ``sqlite:///`` or ``duckdb:///``, written as a whole.
    out_table : the table of the database, where ``out`` is the address of one.
    overwrite : whether an existing ``out`` may be replaced; an input file never is.
    raw : whether CSV cells that a spreadsheet would execute are left as they are; otherwise they are escaped.
    top : how many of the users that each adversary is most confident about are in the ``top`` of the result.
    ground_truth : a table ``user,pool`` of the pools that users prefer, by which the guesses after all reports are
        evaluated; a pool that no adversary has is refused.
    why : whether to explain the guesses about the ``top`` users, and find the reports of all users that revealed most.
    pool_sets : how many sets of pools were tried on these reports, this one included. Beyond 1, the table has a column
        ``confidence_corrected``, and threshold and summaries use it.
    link_fdr : link pseudonyms by memoized responses before the attack, for all adversaries, at this expected false
        discovery rate (0.001: one link in 1,000). A linked user is named by its first pseudonym in the file.
    attacks : further attacks, as of `audit`, which see one user at a time. Scores are calibrated on simulated users.
    seed : of simulated reports for the popularity estimate, as in the game, and of ties between pools.
    max_bytes : bytes that the attack may hold, see `MEMORY_BYTES`; a single user's reports have to fit.
    resume : whether to keep finished work in the folder ``OUT.unfinished`` if the attack is stopped, and to continue
        what such a folder has. The table is the same to the byte. The folder is removed in the end.
    progress : receives the number of reports, and reports, half of each when it is read and half when it is scored.

    Examples
    --------
    >>> _ = open("traces.csv", "w").write("user,object\\n" + "ann,3\\n" * 30 + "bob,300\\n" * 30)
    >>> weak = {"name": "weak", "popularity": "uniform"}
    >>> scenario = ps.load_scenario("apple-emojis").replace({"adversary": [weak]})
    >>> _ = ps.obfuscate("traces.csv", scenario, "reports.parquet", seed=1)
    >>> found = ps.attack("reports.parquet", scenario, out="posteriors.parquet")
    >>> pl.read_parquet("posteriors.parquet").columns[:5]
    ['user', 'adversary', 'n', 'guess', 'confidence']
    """
    check_one_collection(scenario)
    path, options = label_of(reports), SourceOptions.of(columns, time, allow_network, query)
    inputs = scenario.input_paths(*local_paths(reports), pools, ground_truth)
    place = destination_of(out, out_table, options, data=reports, overwrite=overwrite, inputs=inputs)
    if not 0 <= top <= MAX_TOP:
        raise InputError(f"must be from 0 to {MAX_TOP:,}", value=top, place="top")
    if ground_truth is not None and place is None:
        raise InputError("must have `out`, the table that it evaluates", value=str(ground_truth), place="ground_truth")
    if resume and place is None:
        raise InputError("must have `out`, the table that is resumed", value=resume, place="resume")
    if resume and place is not None:
        check_resumable(place, reports, options)
    check_pool_sets(pool_sets)
    check_explained(top, why)
    check_link_fdr(link_fdr)
    known = None if ground_truth is None else read_truth(ground_truth)
    engine, scenario = as_engine(engine), with_overrides(scenario, observations=observations)
    with ExitStack() as stack:
        target, folder = None if place is None else stack.enter_context(delivered(place)), None
        if resume and target is not None:
            asked = {"threshold": threshold, "top": top, "why": why, "pool_sets": pool_sets, "link_fdr": link_fdr}
            asked |= {"seed": seed, "max_bytes": max_bytes, "raw": raw}
            folder = stack.enter_context(unfinished_folder(target, identity(reports, options, scenario, pools, asked)))
        parts = None if target is None else stack.enter_context(writing(target, raw=raw, folder=folder))
        scratch_parent = target.parent if target else Path(tempfile.gettempdir())
        ready = stack.enter_context(
            prepare_attack(
                reports,
                options,
                scenario,
                pools,
                threshold,
                seed,
                max_bytes,
                engine,
                scratch_parent,
                folder,
                pool_sets,
                attacks,
            )
        )
        scorer = ready.scorer
        check_pool_sets(pool_sets, scorer)
        if known is not None and ground_truth is not None:
            check_pools(known, scorer.pool_names, ground_truth)
        first = first_checks(ready, scenario, scorer.device)
        early = [f"{path}: {check.line}" for check in first if check.status == "fail"]
        _warn(early)
        joined = None
        if link_fdr is not None:
            progress.stage("Linking pseudonyms")
            joined = join_pseudonyms(ready, link_fdr, path, scenario, max_bytes)
            ready, known = with_devices(ready, joined), None if known is None else joined.of_devices(known)
        elif scenario.devices.rotate_after is not None:
            warnings.warn(linking_warning(scorer), stacklevel=2)
        scored = score_reports(
            ready, path, parts, engine, progress, max_bytes, top=top, joined=joined, why=why, folder=folder
        )
        tally = scored.tally
        # linked users are devices, not the names that the file has
        users = tally.users if joined is None else None
        times = time_range(ready.source)
        inspection = inspection_of(path, scenario, scorer.device, scored.digest, first, times, users)
        _warn([line for line in inspection.violations if line not in early])
        explanations = Explanations()
        if why:
            progress.stage("Explaining")
            explanations = explain(ready, scorer, tally.top, tally.strongest, scored.max_reports)
        # before the table is moved into place: a wrong ground truth leaves nothing written
        scanned = None if parts is None or known is None else parts.scan(("user", "adversary", "guess"))
        evaluations = [] if scanned is None or known is None else evaluate(scanned, known, seed)
        cautions = [] if target is None else other_pools_beside(target, scorer.pool_names, tally.head, pool_sets)
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
        inspection=inspection,
        explanations=explanations,
        pool_sets=pool_sets,
        cautions=[*correction_note(pool_sets), *cautions],
        violations=[*inspection.violations, *miscalibrated],
    )


class ScoredReports(NamedTuple):
    """The users of a file, whose posteriors have been written: sums, digest of the reports, and reports of a user."""

    tally: Tally
    digest: FileDigest
    max_reports: int


def score_reports(
    ready: PreparedAttack,
    path: Path | str,
    parts: Parts | None,
    engine: Engine,
    progress: Progress,
    max_bytes: int = MEMORY_BYTES,
    *,
    top: int = 0,
    joined: LinkedPseudonyms | None = None,
    why: bool = False,
    folder: Path | None = None,
) -> ScoredReports:
    """Compute the posteriors of all users, partition by partition, and write them; a folder keeps finished work."""
    scorer = ready.scorer
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
        why=why,
        records=None if folder is None else Records(folder=folder.absolute() / "records"),
    )
    with located(file=path):
        total = total_of(chunk_summaries(task, ready.chunks, engine, progress), max_reports, scorer.horizon)
    ready.check_unchanged()
    tally = Tally(scorer, PREVIEW_ROWS, top)
    budget = int(max_bytes * PARTITION_SHARE)
    found = partitioning.partitions(total.users, total.rows, total.name_bytes, scorer.feature_bytes, budget)
    with located(file=path):
        for scored in scored_partitions(task, found, engine, progress):
            tally.add(*scored)
    return ScoredReports(tally, total.digest, max_reports)


def _warn(violations: Sequence[str]) -> None:
    """Warn of each violation."""
    for line in violations:
        warnings.warn(line, stacklevel=3)


def mcse_note(found: Inferred) -> str:
    """Return the Monte Carlo error of sampled posteriors in one sentence; an empty text where none is sampled."""
    return mcse_text(found.results, f"The column `{CONFIDENCE_MCSE}` has that of each user.")


def expected_note(found: Inferred) -> str:
    """Return how many of the most confident guesses of each adversary are expected to be correct, in sentences."""
    said = []
    for row in {row.adversary: row for row in found.results}.values():
        reached = [one for one in row.expected if one.users]
        if reached and reached[-1].level >= DEFAULT_THRESHOLD:
            said.append(f"{reached[-1].sentence} ({row.adversary} adversary)")
    joined = "; ".join(said).replace("; Of ", "; of ")
    return f"{joined}, if the scenario's assumptions hold." if said else ""


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
