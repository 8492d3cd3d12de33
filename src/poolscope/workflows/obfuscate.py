"""Obfuscate a file of traces: write the reports that devices would send.

The randomness of a report depends on its user's position among the users, by first rows, and on the row's position
among the user's. All users are therefore held in memory, about 150 bytes each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arguments import checked
from poolscope.core.arrays import Integers, Keys, Objects
from poolscope.core.errors import located
from poolscope.core.executors import Local
from poolscope.core.machine import check_disk
from poolscope.core.progress import SILENT, Progress
from poolscope.core.randomness import user_keys
from poolscope.core.tables import (
    Data,
    Source,
    SourceOptions,
    delivered,
    destination_of,
    local_paths,
    opened,
    writing,
)
from poolscope.core.tables.sources import Alternatives
from poolscope.devices.policy import ReportingPolicy
from poolscope.devices.protocols import fresh_keys
from poolscope.mechanisms.protocols import ReportColumn, Reports
from poolscope.population.universe import Universe
from poolscope.reports.files import MEMORY_BYTES, blocks, numeric_columns, report_frame, row_bytes, rows_within
from poolscope.scenario.build import build_device, build_mechanism, build_policy
from poolscope.scenario.multidimensional import build_multidimensional, column_universes, tuple_columns
from poolscope.scenario.scenario import Scenario

#: Rows of a block of the file, and of a piece that a thread processes within its cache.
BLOCK_ROWS, PIECE_ROWS = 1 << 19, 1 << 15

#: Bytes of a report in the making, as a multiple of its size; more as text (True).
BYTES_FACTOR = {False: 4, True: 32}


@dataclass(frozen=True, kw_only=True)
class Obfuscated:
    """The result of `obfuscate`: the number of reports, and of users, some of whom may have sent none.

    Examples
    --------
    >>> _ = open("traces.csv", "w").write("user,object\\nann,3\\nann,7\\nbob,300\\n")
    >>> ps.obfuscate("traces.csv", ps.load_scenario("apple-emojis"), "reports.parquet", seed=1)
    Obfuscated(users=2, reports=3)
    """

    users: int
    reports: int


class _TraceBlock(NamedTuple):
    """Some rows of traces; objects are (rows,), or (rows, collections) of tuples."""

    number: int
    names: pl.Series
    users: NDArray[np.int64]
    event_index: NDArray[np.int64]
    objects: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Client:
    """What devices read and send.

    traces : the columns of objects; universes : of each column of traces and reports; columns : those of reports;
    send : draws the reports from objects, keys of users, and event indices.
    """

    traces: tuple[str, ...]
    universes: Mapping[str, Universe]
    columns: Mapping[str, ReportColumn]
    policy: ReportingPolicy
    send: Callable[[Objects, Keys, Objects], Reports]

    @property
    def trace_names(self) -> Alternatives:
        """The columns of a file of traces, each by its possible names."""
        return [("user",), *((name,) for name in self.traces)]


@checked
def obfuscate(
    traces: Data,
    scenario: Scenario,
    out: str | PathLike[str],
    seed: int = 0,
    *,
    columns: Mapping[str, str] | None = None,
    time: str | None = None,
    allow_network: bool = False,
    query: str | None = None,
    out_table: str | None = None,
    overwrite: bool = False,
    raw: bool = False,
    engine: Local | None = None,
    progress: Progress = SILENT,
) -> Obfuscated:
    """Write one report for each reported row of a file of traces, in its order.

    The randomness of a report depends on the seed, on its user's position among the users (by first row) and on its
    position among the user's rows, exactly as in the game; so does whether a row is reported, where devices sample.
    Where pseudonyms rotate, the users of the reports are pseudonyms, ``ann#1``, ``ann#2``.

    Parameters
    ----------
    traces : a table ``user``, ``object``, of any size, from any source of `attack`. With ``[multidimensional]``, a
        table ``user`` and an object of each collection, in a column of its name; reports are then tuples.
    columns, time, allow_network, query : as of `attack`.
    out : the reports, Parquet or CSV by its ending, or an address as of `attack`.
    out_table, overwrite : as of `attack`.
    raw : whether CSV cells that a spreadsheet would execute are left as they are; otherwise they are escaped.
    progress : receives reports as they are made.

    Examples
    --------
    >>> _ = open("traces.csv", "w").write("user,object\\nann,3\\nann,7\\nbob,300\\n")
    >>> _ = ps.obfuscate("traces.csv", ps.load_scenario("apple-emojis"), "reports.parquet", seed=1)
    >>> reports = pl.read_parquet("reports.parquet")
    >>> reports.columns, reports["user"].to_list()
    (['user', 'hash', 'bits'], ['ann', 'ann', 'bob'])
    """
    options = SourceOptions.of(columns, time, allow_network, query)
    inputs = scenario.input_paths(*local_paths(traces))
    place = destination_of(out, out_table, options, data=traces, overwrite=overwrite, inputs=inputs)
    client = _client_of(scenario)
    own = client.columns
    engine, numeric = engine or Local(), numeric_columns(own)
    with (
        delivered(place) as target,
        opened(traces, client.trace_names, options, beside=place.folder) as source,
        writing(target, compression="uncompressed", raw=raw, numeric=numeric) as written,
    ):
        user_numbers = UserNumbers(source.check_names)
        if height := source.height():
            what = f"reports of {height:,} rows"
            with located(file=source.path):
                check_disk(what, height * row_bytes(own), target.parent, "use fewer rows, or another disk")

        def part(some: _TraceBlock) -> int:
            frames = []
            for start in range(0, max(1, len(some.users)), PIECE_ROWS):
                chunk = slice(start, start + PIECE_ROWS)
                made = client.send(some.objects[chunk], user_keys(seed, some.users[chunk]), some.event_index[chunk])
                frames.append(report_frame(some.names[chunk], made, own, client.universes, text=written.text))
            written.write(some.number, pl.concat(frames))
            return len(some.users)

        rows = rows_within(MEMORY_BYTES / engine.threads, BYTES_FACTOR[written.text] * row_bytes(own))
        reports = 0
        events = _events(source, client, user_numbers, min(rows, BLOCK_ROWS))
        for count in engine.map(part, _reported(events, client.policy, seed)):
            reports += count
            progress.tick(count)
    return Obfuscated(users=len(user_numbers), reports=reports)


def _client_of(scenario: Scenario) -> _Client:
    """Return the client of a scenario: of one collection, or of tuples."""
    if scenario.multidimensional:
        tuples, universes = build_multidimensional(scenario), {part.name: part.universe() for part in scenario.parts}
        columns = tuple_columns(tuples, universes)
        return _Client(
            traces=tuple(universes),
            universes=column_universes(columns, universes),
            columns=columns,
            policy=build_policy(scenario.parts[0]),
            send=lambda objects, users, event_index: tuples.report(objects, fresh_keys(users, event_index)),
        )
    universe = scenario.universe()
    mechanism = build_mechanism(scenario, universe)
    return _Client(
        traces=("object",),
        universes=dict.fromkeys(("object", *mechanism.report_columns), universe),
        columns=mechanism.report_columns,
        policy=build_policy(scenario),
        send=build_device(scenario, mechanism).send,
    )


def _events(source: Source, client: _Client, user_numbers: UserNumbers, rows: int) -> Iterator[_TraceBlock]:
    """Read the traces in blocks, with the number of each user and event."""
    event_index = EventCounter()
    columns = {name: ReportColumn("object", client.universes[name].size) for name in client.traces}
    # no buffer is reused: a thread works on a block while the next is read
    for number, (names, block) in enumerate(blocks(source, columns, client.universes, rows=rows, reuse=False)):
        users = user_numbers.number(names)
        objects = block["object"] if len(columns) == 1 else np.stack([block[name] for name in columns], axis=1)
        yield _TraceBlock(number, names, users, event_index.of(users), objects)


def _reported(parts: Iterator[_TraceBlock], policy: ReportingPolicy, seed: int) -> Iterator[_TraceBlock]:
    """Yield what is sent of each block: the reported rows, up to the cap, under the current pseudonym."""
    numbers = EventCounter()
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


def _rows(part: _TraceBlock, which: NDArray[np.bool_]) -> _TraceBlock:
    """Select rows of a block."""
    names = part.names.filter(pl.Series(which))
    return _TraceBlock(part.number, names, part.users[which], part.event_index[which], part.objects[which])


class UserNumbers:
    """Numbers users by first appearance, batch after batch; a dictionary of about 140 bytes a user.

    Parameters
    ----------
    check : called with the bytes of all names so far; refuses too many.
    """

    def __init__(self, check: Callable[[int], None] = lambda _: None) -> None:
        self._numbers: dict[str | int, int] = {}
        self._check, self._letters = check, 0

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, users: pl.Series) -> Integers:
        """Return the number of each row's user; new users get the next ones."""
        # rows of a user are often adjacent, and a run costs as much as a row
        runs = users.rle().struct.unnest()
        different = runs["value"].unique(maintain_order=True)
        known = len(self._numbers)
        numbers = [self._numbers.setdefault(user, len(self._numbers)) for user in different.to_list()]
        if different.dtype == pl.String:
            self._letters += int(different.filter(pl.Series(numbers) >= known).str.len_bytes().sum())
            self._check(self._letters)
        of_run = runs["value"].replace_strict(different, numbers, return_dtype=pl.Int64)
        return np.repeat(of_run.to_numpy(), runs["len"].to_numpy())


class EventCounter:
    """Counts each user's rows, batch after batch; 8 bytes a user, 16 while there is spare capacity."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, dtype=np.int64)

    def of(self, users: Integers) -> Integers:
        """Return how many earlier rows of its user each row has."""
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
        """Return the earlier rows of these users, and add `more` of them."""
        missing = int(users.max()) + 1 - len(self._counts)
        if missing > 0:
            self._counts = np.concatenate([self._counts, np.zeros(max(missing, len(self._counts)), dtype=np.int64)])
        before = self._counts[users]
        self._counts[users] += more
        return before
