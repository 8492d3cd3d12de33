"""From a file of traces to what the devices would send.

What a device draws hangs on its user's place among the users, by their first rows, and on the row's place among the
user's: whoever makes reports knows all users, about 150 bytes each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arguments import checked
from poolscope.core.arrays import Integers
from poolscope.core.errors import located
from poolscope.core.executors import Local
from poolscope.core.machine import check_disk
from poolscope.core.progress import SILENT, Progress
from poolscope.core.randomness import user_keys
from poolscope.core.tables import Source, check_output, open_table, writing
from poolscope.devices.policy import ReportingPolicy
from poolscope.mechanisms.protocols import ReportColumn
from poolscope.population.universe import Universe
from poolscope.reports.files import MEMORY_BYTES, blocks, numeric_columns, report_frame, row_bytes, rows_within
from poolscope.scenario.build import build_device, build_mechanism, build_policy
from poolscope.scenario.scenario import Scenario

#: Reports of a part of the file, and those that a thread makes at once: as many as stay in its cache.
ROWS, PIECE = 1 << 19, 1 << 15

#: Bytes that a report takes while it is made, as a multiple of what it takes afterwards; as text it takes more.
MAKING = {False: 4, True: 32}


@dataclass(frozen=True, kw_only=True)
class Obfuscated:
    """What `obfuscate` wrote: how many reports, of how many users; some of them may have sent none.

    Examples
    --------
    >>> _ = open("traces.csv", "w").write("user,object\\nann,3\\nann,7\\nbob,300\\n")
    >>> ps.obfuscate("traces.csv", ps.load_scenario("apple-emojis"), "reports.parquet", seed=1)
    Obfuscated(users=2, reports=3)
    """

    users: int
    reports: int


class _Part(NamedTuple):
    number: int
    names: pl.Series
    users: NDArray[np.int64]
    event_index: NDArray[np.int64]
    objects: NDArray[np.int64]


@checked
def obfuscate(
    traces_path: str | PathLike[str],
    scenario: Scenario,
    out: str | PathLike[str],
    seed: int = 0,
    *,
    overwrite: bool = False,
    raw: bool = False,
    engine: Local | None = None,
    progress: Progress = SILENT,
) -> Obfuscated:
    """One report for each row of a file of traces that is reported, in its order.

    What a report draws depends on the seed, on its user's place among the users (by first row) and on its place among
    the user's rows, exactly as in the game; so does whether a row is reported, where devices sample. With a window the
    users of the reports are their pseudonyms, ``ann#1``, ``ann#2``.

    Parameters
    ----------
    traces_path : a table ``user``, ``object``, Parquet or CSV, of any size.
    out : the reports, Parquet or CSV by its ending.
    overwrite : whether an existing ``out`` may be replaced; a file that is read never is.
    raw : whether texts of CSV that a spreadsheet would run are left as they are; otherwise they are escaped.
    progress : told reports as they are made.

    Examples
    --------
    >>> _ = open("traces.csv", "w").write("user,object\\nann,3\\nann,7\\nbob,300\\n")
    >>> _ = ps.obfuscate("traces.csv", ps.load_scenario("apple-emojis"), "reports.parquet", seed=1)
    >>> reports = pl.read_parquet("reports.parquet")
    >>> reports.columns, reports["user"].to_list()
    (['user', 'hash', 'bits'], ['ann', 'ann', 'bob'])
    """
    path, target = Path(traces_path), Path(out)
    check_output(target, overwrite=overwrite, inputs=scenario.input_paths(path))
    universe = scenario.universe()
    mechanism = build_mechanism(scenario, universe)
    columns = mechanism.report_columns
    device, policy = build_device(scenario, mechanism), build_policy(scenario)
    engine, source = engine or Local(), open_table(path)
    arrivals = Arrivals(source.check_names)
    if rows_said := source.height():
        what = f"reports of {rows_said:,} rows"
        with located(file=path):
            check_disk(what, rows_said * row_bytes(columns), target.parent, "take fewer rows, or another disk")
    numeric = numeric_columns(columns)
    with writing(target, compression="uncompressed", raw=raw, numeric=numeric) as written:

        def part(some: _Part) -> int:
            frames = []
            for start in range(0, max(1, len(some.users)), PIECE):
                chunk = slice(start, start + PIECE)
                made = device.sent(some.objects[chunk], user_keys(seed, some.users[chunk]), some.event_index[chunk])
                frames.append(report_frame(some.names[chunk], made, columns, universe, text=written.text))
            written.write(some.number, pl.concat(frames))
            return len(some.users)

        rows = rows_within(MEMORY_BYTES / engine.threads, MAKING[written.text] * row_bytes(columns))
        reports = 0
        events = _parts(source, universe, arrivals, min(rows, ROWS))
        for count in engine.map(part, _sent(events, policy, seed)):
            reports += count
            progress.tick(count)
    return Obfuscated(users=len(arrivals), reports=reports)


def _parts(source: Source, universe: Universe, arrivals: Arrivals, rows: int) -> Iterator[_Part]:
    event_index = Places()
    columns = {"object": ReportColumn("object", universe.size)}
    # not reused: a thread works on a part while the next is read
    for number, (names, block) in enumerate(blocks(source, columns, universe, rows=rows, reuse=False)):
        users = arrivals.number(names)
        yield _Part(number, names, users, event_index.of(users), block["object"])


def _sent(parts: Iterator[_Part], policy: ReportingPolicy, seed: int) -> Iterator[_Part]:
    """What is sent of each part: the rows that are reported, up to the cap, under the pseudonym of each."""
    numbers = Places()
    for part in parts:
        if policy.sampling_rate < 1:
            part = _rows(part, policy.reported(user_keys(seed, part.users), part.event_index))
        if policy.cap is None and policy.rotate_after is None:
            yield part
            continue
        number = numbers.of(part.users)
        if policy.rotate_after is not None:
            pseudonym = part.names.cast(pl.String) + "#" + pl.Series(number // policy.rotate_after + 1).cast(pl.String)
            part = part._replace(names=pseudonym)
        yield part if policy.cap is None else _rows(part, number < policy.cap)


def _rows(part: _Part, which: NDArray[np.bool_]) -> _Part:
    names = part.names.filter(pl.Series(which))
    return _Part(part.number, names, part.users[which], part.event_index[which], part.objects[which])


class Arrivals:
    """Numbers users as they first appear, batch after batch; a dictionary, about 140 bytes a user.

    Parameters
    ----------
    check : called with the bytes of all names so far; refuses what is too much.
    """

    def __init__(self, check: Callable[[int], None] = lambda _: None) -> None:
        self._numbers: dict[str | int, int] = {}
        self._check, self._letters = check, 0

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, users: pl.Series) -> Integers:
        """The number of each row's user; new users get the next ones."""
        # Rows of a user often stand together, and a run costs what a row does.
        runs = users.rle().struct.unnest()
        different = runs["value"].unique(maintain_order=True)
        known = len(self._numbers)
        numbers = [self._numbers.setdefault(user, len(self._numbers)) for user in different.to_list()]
        if different.dtype == pl.String:
            self._letters += int(different.filter(pl.Series(numbers) >= known).str.len_bytes().sum())
            self._check(self._letters)
        of_run = runs["value"].replace_strict(different, numbers, return_dtype=pl.Int64)
        return np.repeat(of_run.to_numpy(), runs["len"].to_numpy())


class Places:
    """Counts each user's rows, batch after batch; 8 bytes a user, 16 while there is room for more."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, dtype=np.int64)

    def of(self, users: Integers) -> Integers:
        """How many rows of its user are before each row."""
        order = np.argsort(users, kind="stable")
        ordered = users[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        lengths = np.diff(np.append(starts, len(users)))
        out = np.empty(len(users), dtype=np.int64)
        if not len(users):
            return out
        before = self._before(ordered[starts], lengths)
        out[order] = np.arange(len(users)) - np.repeat(starts - before, lengths)
        return out

    def _before(self, users: Integers, more: Integers) -> Integers:
        """The rows of these users so far, to which there are now some more."""
        missing = int(users.max()) + 1 - len(self._counts)
        if missing > 0:
            self._counts = np.concatenate([self._counts, np.zeros(max(missing, len(self._counts)), dtype=np.int64)])
        before = self._counts[users]
        self._counts[users] += more
        return before
