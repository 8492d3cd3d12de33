"""Attack the reports of several collections of the same people: users are matched by name.

Each file is attacked as that of a single collection, with evenly preferred pools. The posterior of the attribute is the
product of what each collection says about it (`inference.joint`). A user who is missing in one file is scored on the
others. No process holds all users: the tables of all collections are in order of the same hashes (`collection_join`).
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from poolscope.core.arguments import checked
from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.executors import Engine, EngineLike, Local, as_engine
from poolscope.core.files import scratch_folder
from poolscope.core.progress import SILENT, Progress
from poolscope.core.tables import Data, SourceOptions, check_output, writing
from poolscope.core.tables.sources import DEFAULT
from poolscope.game.collections import events_by
from poolscope.reports.files import MEMORY_BYTES
from poolscope.scenario.build import with_overrides
from poolscope.scenario.collections import report_rate
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.attack import MAX_TOP, PREVIEW_ROWS, CollectionReports, Inferred, score_reports
from poolscope.workflows.attack.collection_join import CollectionPart, JoinedUsers, matched
from poolscope.workflows.attack.explanation import check_explained
from poolscope.workflows.attack.inspection import first_checks, inspection_of, time_range
from poolscope.workflows.attack.linking import linking_warning
from poolscope.workflows.attack.preparation import prepare_attack
from poolscope.workflows.attack.summary import check_pools, evaluate, read_truth
from poolscope.workflows.attack.tuples import attack_tuples

ALL = np.iinfo(np.int64).max
"""All reports of a user."""


@checked
def attack_collections(
    reports: Mapping[str, str | PathLike[str]] | Data,
    scenario: Scenario,
    *,
    observations: Sequence[int] | None = None,
    threshold: float | None = None,
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    raw: bool = False,
    top: int = 0,
    why: bool = False,
    ground_truth: str | PathLike[str] | None = None,
    columns: Mapping[str, str] | None = None,
    time: str | None = None,
    allow_network: bool = False,
    query: str | None = None,
    seed: int = 0,
    max_bytes: int = MEMORY_BYTES,
    engine: EngineLike | None = None,
    progress: Progress = SILENT,
) -> Inferred:
    """Compute the posterior of the attribute for every user of several collections.

    Users are matched by name. A user without reports in a collection is scored on the others. Collections without a
    file are left out.

    Parameters
    ----------
    reports : the file of each collection, as ``{"emojis": "a.parquet", "domains": "b.parquet"}``. With
        ``[multidimensional]``, one table of tuple reports instead, held in memory: ``user``, a column for each
        collection, and ``sampled`` of SMP.
    observations : days after which to guess, in place of the scenario's; all reports where neither has any. The reports
        of a day are those of ``reports_per_day``, one by default.
    out : the table of posteriors: ``user``, ``adversary``, ``n`` (reports of all collections), ``guess``,
        ``confidence``, ``posterior.<value>``, ``n.<collection>``, and ``confidence_mcse`` where posteriors are sampled.
        Of tuple reports also ``posterior.<collection>.<pool>``, and ``sampled.<collection>`` where they hide the
        sampled collection: the expected share of the user's reports that sampled it. ``n.<collection>`` is of SMP.
    why : whether the rows of ``top`` have ``log_odds_added.<collection>``: the log-odds of the guess from all
        collections, minus those without this one.
    ground_truth : a table ``user,pool``, whose pools are values of the attribute.
    columns, time, allow_network, query : of a table of tuple reports, as of `attack`.

    The other parameters are those of `attack`.

    Examples
    --------
    >>> weak = {"name": "weak", "popularity": "uniform"}
    >>> scenario = ps.load_scenario("apple-collections").replace({"adversary": [weak]})
    >>> for seed, part in enumerate(scenario.parts):
    ...     _ = open(f"{part.name}.csv", "w").write("user,object\\n" + "ann,3\\n" * 30 + "bob,5\\n" * 30)
    ...     _ = ps.obfuscate(f"{part.name}.csv", part, f"{part.name}.parquet", seed=seed)
    >>> found = ps.attack_collections({"emojis": "emojis.parquet", "domains": "domains.parquet"}, scenario)
    >>> found.users, found.reports, found.pools[0]
    (2, 120, 'left')
    """
    options = SourceOptions.of(columns, time, allow_network, query)
    if scenario.multidimensional:
        if isinstance(reports, Mapping):
            raise _one_report_for_all(scenario)
        if why:
            raise InputError("cannot be combined with [multidimensional]", value=why, place="why")
        local = as_engine(engine)
        if not isinstance(local, Local):
            raise InputError("tuple reports need the engine Local", value=type(engine).__name__, place="engine")
        return attack_tuples(
            reports,
            scenario,
            observations=observations,
            threshold=threshold,
            out=out,
            overwrite=overwrite,
            raw=raw,
            top=top,
            ground_truth=ground_truth,
            options=options,
            seed=seed,
            engine=local,
            progress=progress,
        )
    if options != DEFAULT:
        raise InputError("cannot be combined with files of single collections", value=str(options), place="reports")
    files, target = collection_files(reports, scenario), None if out is None else Path(out)
    inputs = scenario.input_paths(*files.values(), ground_truth)
    if target is not None:
        check_output(target, overwrite=overwrite, inputs=inputs)
    if not 0 <= top <= MAX_TOP:
        raise InputError(f"must be from 0 to {MAX_TOP:,}", value=top, place="top")
    check_explained(top, why)
    if ground_truth is not None and target is None:
        raise InputError("must have `out`, the table that it evaluates", value=str(ground_truth), place="ground_truth")
    assert scenario.attribute is not None
    values = scenario.attribute.values
    truth = None if ground_truth is None else read_truth(ground_truth)
    if truth is not None and ground_truth is not None:
        check_pools(truth, values, ground_truth)
    if threshold is None and scenario.attack is not None:
        threshold = scenario.attack.threshold
    days = _days(scenario, observations)
    engine = as_engine(engine)
    with ExitStack() as stack:
        written = None if target is None else stack.enter_context(writing(target, raw=raw))
        folder = stack.enter_context(scratch_folder(target.parent if target else Path(tempfile.gettempdir())))
        parts, found = [], []
        for index, part in enumerate(scenario.parts):
            if part.name in files:
                parts.append(CollectionPart(name=part.name, index=index, scenario=part, counts=_counts(part, days)))
                progress.stage(f"Attacking {part.name}")
                own = files[part.name], folder / f"{index}.parquet"
                found.append(_scored(parts[-1], *own, bool(days), seed, max_bytes, engine, progress))
        progress.stage("Joining the collections")
        joined = JoinedUsers(scenario, parts, days, threshold, seed, head=PREVIEW_ROWS, top=top, why=why)
        for number, tables in enumerate(matched([one.table for one in found])):
            rows = joined.add(tables)
            if written is not None:
                written.write(number, rows)
        scanned = None if written is None or truth is None else written.scan(("user", "adversary", "guess"))
        evaluation = [] if scanned is None or truth is None else evaluate(scanned, truth, seed)
    miscalibrated = [one.violation for one in evaluation if one.calibrated is False]
    for line in miscalibrated:
        warnings.warn(line, stacklevel=2)
    return Inferred(
        users=joined.tally.users,
        reports=sum(one.about.reports for one in found),
        pools=list(values),
        threshold=threshold,
        results=joined.tally.results(),
        preview=joined.head,
        top=joined.top,
        evaluation=evaluation,
        estimated=[entry.name for entry in scenario.adversaries if entry.popularity == "estimated"],
        attribute=scenario.attribute.name,
        collections=[one.about for one in found],
        exposure=joined.tally.exposure(),
        violations=[*(line for one in found for line in one.about.inspection.violations), *miscalibrated],
    )


class _Scored(NamedTuple):
    """A collection whose posteriors have been written to a table."""

    about: CollectionReports
    table: Path


def _scored(
    part: CollectionPart,
    file: Path,
    table: Path,
    dated: bool,
    seed: int,
    max_bytes: int,
    engine: Engine,
    progress: Progress,
) -> _Scored:
    """Attack one collection and write its posteriors, with their Monte Carlo errors."""
    asked = sorted({count for count in part.counts if count}) or [1]
    scenario = with_overrides(part.scenario, observations=asked if dated else None)
    with (
        writing(table) as written,
        prepare_attack(file, DEFAULT, scenario, None, None, seed, max_bytes, engine, table.parent) as opened,
    ):
        ready = replace(opened, scorer=replace(opened.scorer, pool_errors=True))
        first = first_checks(ready, scenario, ready.scorer.device)
        if scenario.devices.rotate_after is not None:
            warnings.warn(linking_warning(ready.scorer), stacklevel=4)
        scored = score_reports(ready, str(file), written, engine, progress, max_bytes)
        users, times = scored.tally.users, time_range(ready.source)
        inspection = inspection_of(str(file), scenario, ready.scorer.device, scored.digest, first, times, users)
        for line in inspection.violations:
            warnings.warn(line, stacklevel=4)
        about = CollectionReports(name=part.name, users=users, reports=ready.reports, inspection=inspection)
    return _Scored(about, table)


def collection_files(reports: Mapping[str, str | PathLike[str]] | Data, scenario: Scenario) -> dict[str, Path]:
    """Return the file of each collection; refuse names of others."""
    if not scenario.collections:
        remedy = "give a single file of reports, or write [attribute] and [[collection]]"
        raise InputError("must have [[collection]]", file=scenario.file, remedy=remedy)
    if not isinstance(reports, Mapping) or not reports:
        raise InputError("reports must be a file for each collection", value=reports)
    if scenario.multidimensional:
        raise _one_report_for_all(scenario)
    names = [own.name for own in scenario.collections]
    for name in reports:
        if name not in names:
            raise InputError("unknown collection", value=name, place="reports", remedy=did_you_mean(str(name), names))
        if not isinstance(reports[name], str | PathLike):
            raise InputError("must be a path", value=reports[name], place=f"reports[{name!r}]")
    return {name: Path(reports[name]) for name in names if name in reports}


def _one_report_for_all(scenario: Scenario) -> InputError:
    """Return the error about a file for each collection, where a report has all of them."""
    remedy = "give one table of tuple reports"
    return InputError("has one report for all collections", file=scenario.file, remedy=remedy)


def _days(scenario: Scenario, observations: Sequence[int] | None) -> list[int] | None:
    """Return the days of guesses, increasing; None for all reports."""
    if observations is None:
        return list(scenario.attack.observations) if scenario.attack else None
    return list(scenario.replace({"attack.observations": list(observations)}).attack.observations)  # type: ignore[union-attr]


def _counts(part: Scenario, days: list[int] | None) -> list[int]:
    """Return how many reports of a user count on each day: those of the rate, up to the cap."""
    if days is None:
        return [ALL]
    counts = events_by(np.asarray(days), report_rate(part))
    return [min(int(count), part.devices.cap or ALL) for count in counts]
