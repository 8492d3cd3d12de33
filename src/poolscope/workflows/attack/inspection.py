"""Inspect a file of reports: does it fit the scenario? One table of checks, which `attack` runs too."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from poolscope import __version__
from poolscope.core.arguments import checked
from poolscope.core.arrays import Tick
from poolscope.core.counting import counted
from poolscope.core.errors import located
from poolscope.core.executors import EngineLike, Local, as_engine
from poolscope.core.progress import SILENT, Progress
from poolscope.core.tables import Data, Source, SourceOptions, label_of
from poolscope.devices.protocols import Device
from poolscope.metrics.models import FORMAT, Count, Format, Result, result
from poolscope.metrics.text import percent
from poolscope.reports.checks import ReportChecks
from poolscope.reports.digest import FileDigest, Limits
from poolscope.reports.files import MEMORY_BYTES, USER
from poolscope.reports.findings import DUPLICATES, Check
from poolscope.reports.misfit import ERROR, MIN_REPORTS
from poolscope.reports.readings import MIN_USERS
from poolscope.reports.repeats import copies_found, equal_pair_bound
from poolscope.scenario.build import build_device
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.partitioning import Chunk, ReportReader, row_hashes
from poolscope.workflows.attack.preparation import OpenReports, run_tasks, split_reports, stated_popularities

#: The column of times, where a file has one.
TIME = "time"

#: Order of the table.
ORDER = (
    *("rows", "users", "reports per user", "time", "duplicates", "memoization"),
    *("epsilon", "bit order", "hash table", "popularity"),
)

WORDS = {"pass": "passed", "warn": "with a warning", "fail": "failed", "skip": "not tested"}


@result
class Inspection(Result):
    """Whether a file of reports fits a scenario: a table of checks.

    Parameters
    ----------
    file : the reports; scenario : its name; version : of poolscope.
    reports, users : how many there are in the file; users are estimated beyond four million.
    checks : what was compared, with a status, what was found, and what to do.

    Examples
    --------
    >>> _ = open("traces.csv", "w").write("user,object\\n" + "ann,3\\n" * 30 + "bob,300\\n" * 30)
    >>> scenario = ps.load_scenario("apple-emojis")
    >>> _ = ps.obfuscate("traces.csv", scenario, "reports.parquet", seed=1)
    >>> found = ps.inspect("reports.parquet", scenario)
    >>> found.passed, found.reports
    (True, 60)
    """

    format: Format = FORMAT
    file: str
    scenario: str
    version: str
    reports: Count
    users: Count
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed; one that was not tested did not fail."""
        return all(check.status != "fail" for check in self.checks)

    @property
    def violations(self) -> list[str]:
        """What contradicts the scenario, one line each."""
        return [f"{self.file}: {check.line}" for check in self.checks if check.status == "fail"]

    @property
    def sentence(self) -> str:
        """How many checks have each status, in one sentence."""
        counts = {status: sum(check.status == status for check in self.checks) for status in WORDS}
        said = ", ".join(f"{count} {WORDS[status]}" for status, count in counts.items() if count)
        verdict = "Nothing contradicts the scenario" if self.passed else "The reports contradict the scenario"
        return f"{verdict}: {counted(len(self.checks), 'check')}, {said}."


@checked
def inspect(
    reports: Data,
    scenario: Scenario,
    *,
    columns: Mapping[str, str] | None = None,
    time: str | None = None,
    allow_network: bool = False,
    query: str | None = None,
    pools: str | PathLike[str] | None = None,
    max_bytes: int = MEMORY_BYTES,
    engine: EngineLike | None = None,
    progress: Progress = SILENT,
) -> Inspection:
    """Compare a file of reports with a scenario, without inferring anything about a user.

    Each statistical check raises a false alarm in at most one of 10,000 files.

    Parameters
    ----------
    reports, columns, time, allow_network, query : the table of reports and how it is read, as of `attack`.
    pools : a table ``object,pool`` whose pools replace the scenario's, as of `attack`.
    max_bytes : bytes that may be held, see `MEMORY_BYTES`.
    engine, progress : as of `attack`; progress receives the number of reports, and reports.

    Examples
    --------
    >>> _ = open("traces.csv", "w").write("user,object\\n" + "ann,3\\n" * 30 + "bob,300\\n" * 30)
    >>> scenario = ps.load_scenario("apple-emojis")
    >>> _ = ps.obfuscate("traces.csv", scenario, "reports.parquet", seed=1)
    >>> found = ps.inspect("reports.parquet", scenario)
    >>> [check.check for check in found.checks if check.status == "fail"]
    []
    """
    path, engine = label_of(reports), as_engine(engine)
    options = SourceOptions.of(columns, time, allow_network, query)
    with split_reports(reports, options, scenario, pools, max_bytes, Path(tempfile.gettempdir())) as opened:
        progress.begin(opened.reports)
        device = build_device(scenario, opened.reading.mechanism)
        first = first_checks(opened, scenario, device)
        digest = FileDigest()
        reading = replace(opened.reading, limits=Limits.within(max_bytes))
        with located(file=path):
            for part in run_tasks(engine, digest_chunk, reading, opened.chunks, progress.tick):
                digest += part
        times = time_range(opened.source)
        opened.check_unchanged()
    return inspection_of(path, scenario, device, digest, first, times)


def digest_chunk(reading: ReportReader, chunk: Chunk, engine: Local, tick: Tick) -> FileDigest:
    """Return the digest of a chunk (a task)."""
    users, reports = reading.read(chunk)
    tick(chunk.count)
    return FileDigest.of(row_hashes(users), reports, chunk.number, reading.limits)


def first_checks(opened: OpenReports, scenario: Scenario, device: Device) -> list[Check]:
    """Return the statistical checks of the first reports; none where pseudonyms share memoized responses."""
    if not scenario.tells_users_apart:
        value = "not tested: pseudonyms of one device share its memoized responses"
        return [Check(check=name, status="skip", value=value) for name in ORDER[4:]]
    assumed = stated_popularities(scenario, opened.reading.universe, opened.other, opened.reading.mechanism)
    checks = ReportChecks(device, assumed)
    for chunk in opened.chunks:
        if not checks.enough:
            checks.add(*opened.reading.read(chunk))
    found = checks.checks()
    if not assumed:
        value = "not tested: no adversary is given a popularity"
        found.append(Check(check="popularity", status="skip", value=value))
    return found


@dataclass(frozen=True, kw_only=True)
class TimeRange:
    """The times of a file: the first and the last, and how many rows are earlier than the row of their user before."""

    first: Any
    last: Any
    missing: int
    disordered: int


def time_range(source: Source, column: str = TIME) -> TimeRange | None:
    """Return the range of a column of times, text or numbers; None where the file has none."""
    found: list[tuple[Any, Any, int]] = []
    latest = pl.DataFrame(schema={USER: pl.String, "latest": pl.Null})
    disordered = 0
    for batch in source.batches((USER,), optional=(column,)):
        if column not in batch.frame.columns:
            return None
        rows = batch.frame.select(pl.col(USER).cast(pl.String), pl.col(column))
        missing, rows = rows[column].null_count(), rows.drop_nulls(column)
        found.append((rows[column].min(), rows[column].max(), missing))
        before = rows.with_columns(pl.col(column).cum_max().shift().over(USER).alias("before"))
        if latest.height:
            before = before.join(latest, on=USER, how="left", maintain_order="left")
            before = before.with_columns(pl.max_horizontal("before", "latest").alias("before"))
            rows = pl.concat([rows, latest.rename({"latest": column})])
        disordered += before.filter(pl.col(column) < pl.col("before")).height
        if len(latest) < MAX_TIMED_USERS:
            latest = rows.group_by(USER).agg(pl.col(column).max().alias("latest"))
    known = [(low, high) for low, high, _ in found if low is not None]
    return TimeRange(
        first=min((low for low, _ in known), default=None),
        last=max((high for _, high in known), default=None),
        missing=sum(count for _, _, count in found),
        disordered=disordered,
    )


#: Users whose latest time is held.
MAX_TIMED_USERS = 1 << 20


def inspection_of(
    path: Path | str,
    scenario: Scenario,
    device: Device,
    digest: FileDigest,
    first: Sequence[Check],
    times: TimeRange | None,
    users: int | None = None,
) -> Inspection:
    """Return the table of checks from the digest of the file and the checks of its first reports.

    `users` is their number where it is known exactly.
    """
    found = [*_counts(scenario, digest, users), _time(times)]
    duplicates = next((check for check in first if check.check == DUPLICATES), None)
    rest = [check for check in first if check.check != DUPLICATES]
    if duplicates is None or duplicates.status == "pass":
        duplicates = _duplicates(device, digest)
    found = sorted([*found, duplicates, *rest], key=lambda check: ORDER.index(check.check))
    return Inspection(
        file=str(path),
        scenario=scenario.name,
        version=__version__,
        reports=digest.rows,
        users=users or digest.n_users,
        checks=tuple(found),
    )


def _counts(scenario: Scenario, digest: FileDigest, users: int | None) -> Iterator[Check]:
    """Yield the checks of rows, users and reports per user."""
    few = digest.rows < MIN_REPORTS
    remedy = f"statistical checks need {MIN_REPORTS} reports" if few else ""
    yield Check(check="rows", status="warn" if few else "pass", value=counted(digest.rows, "report"), remedy=remedy)
    count = users or digest.n_users
    few = count < MIN_USERS
    about = "about " if digest.is_sampled and users is None else ""
    remedy = f"checks of the popularity need {MIN_USERS} users" if few else ""
    value = f"{about}{counted(count, 'user')}"
    yield Check(check="users", status="warn" if few else "pass", value=value, remedy=remedy)
    yield _reports_per_user(scenario, digest.users.counts)


def _reports_per_user(scenario: Scenario, counts: np.ndarray) -> Check:
    low, median, high = int(counts.min()), float(np.median(counts)), int(counts.max())
    value = f"{low:,} to {high:,}, median {median:,.0f}"
    cap, rotate = scenario.devices.cap, scenario.devices.rotate_after
    if cap is not None and high > cap:
        over = int(np.count_nonzero(counts > cap))
        value += f"; {counted(over, 'user')} beyond the cap of {cap:,}"
        remedy = "likely a wrong cap in [devices], duplicate rows, or one name for several devices"
        return Check(check="reports per user", status="fail", value=value, remedy=remedy)
    if rotate is not None and high > rotate:
        value += f"; pseudonyms change after {counted(rotate, 'report')}"
        remedy = "likely users that are linked already, or a wrong rotate_after in [devices]"
        return Check(check="reports per user", status="warn", value=value, remedy=remedy)
    asked = max(scenario.attack.observations) if scenario.attack and scenario.attack.observations else None
    if asked is not None and high < asked:
        value += f"; no user has the {counted(asked, 'report')} of the largest observation count"
        remedy = "set smaller observations in [attack]"
        return Check(check="reports per user", status="warn", value=value, remedy=remedy)
    if asked is not None:
        value += f"; {percent(float(np.mean(counts >= asked)))} of users have at least {asked:,}"
    return Check(check="reports per user", status="pass", value=value)


def _time(times: TimeRange | None) -> Check:
    if times is None:
        value = f"not tested: the file has no column {TIME!r}"
        return Check(check="time", status="skip", value=value)
    value = f"{times.first} to {times.last}"
    if times.missing:
        value += f"; {counted(times.missing, 'row')} without a time"
    if times.disordered:
        value += f"; {counted(times.disordered, 'row')} earlier than one before of the same user"
        return Check(
            check="time", status="warn", value=value, remedy="sort the rows by time: `attack` takes their order"
        )
    return Check(check="time", status="warn" if times.missing else "pass", value=value)


def _duplicates(device: Device, digest: FileDigest) -> Check:
    """Return the check of rows that were delivered twice, and of users with the same reports."""
    copies = copies_found(digest.equal_reports())
    if copies is not None:
        return Check.failed(copies)
    among = "" if digest.compares_all else " among a sample of users"
    if device.memoizes:
        # what a device keeps, such as its positions, makes equal reports of two users likelier
        return Check(check=DUPLICATES, status="pass", value=f"no rows delivered twice{among}")
    mechanism = device.mechanism
    column = mechanism.shared_column
    # users may keep one hash function: given that two share it, equal reports are as much likelier
    bound = equal_pair_bound(mechanism) * (1 if column is None else mechanism.report_columns[column].size)
    if same := digest.identical_users(bound, ERROR):
        value = f"{counted(same, 'user')}{among} have exactly the reports of another user"
        remedy = "likely one device under several names; keep one of them"
        return Check(check=DUPLICATES, status="warn", value=value, remedy=remedy)
    return Check(check=DUPLICATES, status="pass", value=f"no rows delivered twice, no identical users{among}")
