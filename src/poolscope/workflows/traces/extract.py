"""Extract traces from recorded data: the objects of each row that the universe has, by user and in order.

A finder maps a cell to names: objects of the universe, or others, which are counted as outside it. Which finder applies
depends on the universe and the kind of the column.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import Literal

from poolscope.core.arguments import checked
from poolscope.core.counting import counted
from poolscope.core.errors import InputError, did_you_mean, format_value, located
from poolscope.core.tables import (
    Destination,
    SourceOptions,
    check_output,
    delivered,
    destination_of,
    label_of,
    local_paths,
)
from poolscope.core.tables.atomic import replacing
from poolscope.core.tables.csv import escape
from poolscope.population.builtin import UNIVERSES, builtin_universe
from poolscope.population.builtin.emojis import emojis_in, qualified
from poolscope.population.builtin.hosts import host_of, links_in, registered
from poolscope.population.builtin.news import outlet_or_site, widened
from poolscope.population.recorded import write_rows
from poolscope.population.universe import Universe, read_objects
from poolscope.workflows.traces import sources
from poolscope.workflows.traces.sources import SourceColumns, Tables, is_archive, ordered, own_words, read_rows

MAX_FREQUENT = 5
"""Objects outside the universe that are named at most."""

ColumnKind = Literal["text", "object", "domain"]
Finder = Callable[[str], list[str]]


@dataclass(frozen=True, kw_only=True, eq=False)
class TraceUniverse:
    """The universe of the traces.

    Parameters
    ----------
    name
        As the user gave it.
    universe
        Its objects, which have names.
    is_open
        Whether other objects that occur become neutral ones, instead of being counted as outside.
    """

    name: str
    universe: Universe
    is_open: bool

    @property
    def objects(self) -> tuple[str, ...]:
        """The names of the objects."""
        assert self.universe.objects is not None
        return self.universe.objects

    def accepts(self, name: str) -> bool:
        """Return whether a name is an object, or can become one."""
        return name in self._known or (self.is_open and host_of(name) == name)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.objects)


def target_of(name_or_path: str | PathLike[str]) -> TraceUniverse:
    """Return the target of a built-in name or a file of objects."""
    name = fspath(name_or_path)
    if name in UNIVERSES:
        return TraceUniverse(name=name, universe=builtin_universe(name), is_open=name == "news-2021")
    if not name.lower().endswith((".csv", ".parquet")):
        rule = "unknown universe, neither built in nor a file of objects (.csv, .parquet)"
        raise InputError(rule, value=name, remedy=did_you_mean(name, UNIVERSES))
    return TraceUniverse(name=name, universe=read_objects(name)[0], is_open=False)


def finder(target: TraceUniverse, kind: ColumnKind) -> Finder:
    """Return the finder of the target's objects in a column of this kind."""
    holds = _holds(target)
    with located(place=kind):
        if kind == "object" and target.is_open:
            rule = f"does not go with {target.name}, where any other name would become a neutral object"
            raise InputError(rule, remedy="name a column of links or hosts as domain")
        if kind == "domain" and holds != "domains":
            raise InputError("requires a universe of domains", value=target.name)
        if kind == "text" and holds is None:
            rule = "requires a universe of emojis or one of domains"
            raise InputError(rule, value=target.name, remedy="name a column of objects")
    if holds == "emojis":
        return _emoji_finder(target, kind)
    if kind == "object":
        return _object_finder(target)
    return _site_finder(target, kind)


def _holds(target: TraceUniverse) -> Literal["emojis", "domains"] | None:
    """Return what the universe consists of."""
    if all(emojis_in(name) == [qualified(name)] for name in target.objects):
        return "emojis"
    return "domains" if all(host_of(name) == name for name in target.objects) else None


def _emoji_finder(target: TraceUniverse, kind: ColumnKind) -> Finder:
    # A file of objects may list an emoji in a shorter form than the fully qualified one: its own name counts.
    own = {qualified(name): name for name in target.objects}
    if kind == "text":
        return lambda cell: [own.get(emoji, emoji) for emoji in emojis_in(cell)]
    return lambda cell: [own.get(emoji, emoji) for emoji in map(qualified, cell.split())]


def _object_finder(target: TraceUniverse) -> Finder:
    # Names may contain blanks.
    return lambda cell: [cell] if target.accepts(cell) else cell.split()


def _site_finder(target: TraceUniverse, kind: ColumnKind) -> Finder:
    known = frozenset(target.objects)

    # A few sites account for most links.
    @lru_cache(maxsize=1 << 16)
    def site(link: str) -> str:
        host = host_of(link)
        if host is None:
            return link
        return outlet_or_site(host) or host if target.is_open else registered(host, known)

    split = links_in if kind == "text" else str.split
    return lambda cell: [site(link) for link in split(cell)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Extracted:
    """The result of :func:`make_traces`.

    Parameters
    ----------
    traces, objects
        The files written; ``traces`` is text for an address, and ``objects`` is None unless the universe was extended
        by objects that occur.
    universe
        The universe of the traces.
    rows, rows_without
        Rows read, and rows without any object, inside the universe or outside.
    users, users_without
        Users with a trace, and users without one, as none of their objects is in the universe.
    kept, in_pools
        Objects in the traces, and those of them in a pool of interest.
    outside
        Omitted objects that the universe lacks, by name, most frequent first.

    Examples
    --------
    >>> _ = open("posts.csv", "w").write("who,what\\nann,👍🏽 hello\\nbob,👋🏿👋🏿\\ncid,hi\\n")
    >>> made = ps.make_traces(["posts.csv"], "traces.csv", universe="emoji-11", user="who", text="what")
    >>> made.users, made.users_without, made.kept
    (2, 1, 3)
    """

    traces: Path | str
    objects: Path | None
    universe: Universe
    rows: int
    rows_without: int
    users: int
    users_without: int
    kept: int
    in_pools: int
    outside: tuple[tuple[str, int], ...]


@checked
def make_traces(
    sources: Sequence[str | PathLike[str]],
    out: str | PathLike[str],
    *,
    universe: str | PathLike[str],
    user: str | None = None,
    text: str | None = None,
    object: str | None = None,
    domain: str | None = None,
    time: str | None = None,
    allow_network: bool = False,
    query: str | None = None,
    out_table: str | None = None,
    overwrite: bool = False,
    raw: bool = False,
) -> Extracted:
    """Write the traces in recorded data.

    Parameters
    ----------
    sources
        Files, patterns, folders or addresses as in :mod:`poolscope.workflows.traces.sources`.
    out
        The traces, CSV or Parquet by the ending. With ``news-2021`` a second file is written beside it, of the same
        name with the ending ``.objects.csv``: the outlets, and as neutral objects all other sites that occur. Or an
        address, as of :func:`attack`, except with ``news-2021``.
    universe
        ``emoji-11``, ``news-2021`` or a file of objects.
    user
        The column of users.
    text, object, domain
        The column of objects, one of the three. A text is searched for emojis or for links, whichever the universe
        consists of; a cell of objects or domains has one or several, separated by blanks. A domain may be a link and
        is mapped to the object that its host belongs to, else to its registered name.
    time, allow_network, query
        As of :func:`attack`. A column of time orders the rows of all sources; without one, they are in their order.
    out_table
        The table of the database, where ``out`` is the address of one.
    overwrite
        Whether existing files may be replaced; a source never is.
    raw
        Whether CSV cells that a spreadsheet would execute are left as they are; otherwise they are escaped.

    Notes
    -----
    Days of the archive have default columns; only the account's own words in their texts are searched.

    Examples
    --------
    >>> _ = open("posts.csv", "w").write("who,what\\nann,👍🏽 hello\\nbob,👋🏿👋🏿\\n")
    >>> made = ps.make_traces(["posts.csv"], "traces.csv", universe="emoji-11", user="who", text="what")
    >>> print(open("traces.csv").read())
    user,object
    ann,👍🏽
    bob,👋🏿
    bob,👋🏿
    """
    options = SourceOptions.of(None, time, allow_network, query)
    paths = ordered(sources, options)
    who, kind, what = _columns(paths, user, {"text": text, "object": object, "domain": domain})
    target = target_of(universe)
    find = finder(target, kind)
    inputs = [*(path for path in paths if isinstance(path, Path)), *local_paths(sources), Path(universe)]
    place = destination_of(out, out_table, options, data=sources, overwrite=overwrite, inputs=inputs)
    objects = _objects_beside(place, target)
    if objects is not None:
        check_output(objects, overwrite=overwrite, inputs=inputs)

    gathered = _TraceBuilder(target=target)
    for source in paths:
        own = kind == "text" and isinstance(source, Path) and is_archive(source)
        gathered.add(source, SourceColumns(who, what), find, own=own)
    if not gathered.objects:
        most = gathered.outside.most_common(1)
        remedy = f"outside it, the most frequent is {format_value(most[0][0])}" if most else None
        raise InputError(f"{what} must have an object of {target.name}", file=label_of(sources), remedy=remedy)

    final = widened(target.universe, gathered.objects) if target.is_open else target.universe
    # Both are complete before either is moved into place.
    with delivered(place) as traces, replacing(traces) as beside:
        write_rows(beside, traces.suffix.lower(), gathered.users, gathered.objects, raw=raw)
        if objects is not None:
            with replacing(objects) as beside_objects:
                _write_objects(beside_objects, final, raw=raw)
    return gathered.result(place.path or place.label, objects, final)


def _objects_beside(place: Destination, target: TraceUniverse) -> Path | None:
    """Return the file of the objects that occur, beside the traces; None where the universe is fixed."""
    if not target.is_open:
        return None
    if place.path is None:
        rule = f"traces of {target.name} must be a file on this machine: their objects are written beside it"
        raise InputError(rule, file=place.label)
    return place.path.with_suffix(".objects.csv")


def describe(made: Extracted) -> list[str]:
    """Describe what was written and what was omitted, one sentence a line."""
    lines = [
        f"Read {counted(made.rows, 'row')}; {made.rows_without:,} of them without an object.",
        f"Wrote {counted(made.kept, 'object')} of {counted(made.users, 'user')} to {made.traces}; "
        f"{made.in_pools:,} of them in the {counted(made.universe.k, 'pool')}.",
    ]
    if made.objects is not None:
        lines.append(f"Wrote their universe of {made.universe.size:,} objects to {made.objects}.")
    if made.outside:
        left_out = sum(count for _, count in made.outside)
        most = ", ".join(f"{format_value(name)} ({count:,})" for name, count in made.outside[:MAX_FREQUENT])
        lines.append(
            f"Omitted {counted(left_out, 'object')} outside the universe, {len(made.outside):,} distinct; "
            f"most frequent: {most}."
        )
    if made.users_without:
        more = f"{made.users_without:,} more {'user has' if made.users_without == 1 else 'users have'}"
        lines.append(f"{more} no object of the universe, and no trace.")
    return lines


@dataclass(kw_only=True)
class _TraceBuilder:
    """Rows of traces as they are found."""

    target: TraceUniverse
    users: list[str] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    outside: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    rows_without: int = 0
    _names: dict[str, str] = field(default_factory=dict)
    _accepted: dict[str, str | None] = field(default_factory=dict)

    def add(self, path: Path | Tables, columns: SourceColumns, find: Finder, *, own: bool) -> None:
        """Add the rows of one file; ``own`` for texts of the archive, which are not all the account's."""
        for _, who, cell in read_rows(path, columns):
            self.rows += 1
            user = self._names.setdefault(who, who)
            cells = [cell] if isinstance(cell, str) else cell
            found = [name for part in cells for name in find(own_words(part) if own else part)]
            self.rows_without += not found
            for name in found:
                # One string for all rows of an object: a row costs a pointer.
                if name not in self._accepted:
                    self._accepted[name] = name if self.target.accepts(name) else None
                accepted = self._accepted[name]
                if accepted is None:
                    self.outside[name] += 1
                else:
                    self.users.append(user)
                    self.objects.append(accepted)

    def result(self, traces: Path | str, objects: Path | None, universe: Universe) -> Extracted:
        """Return the result of the extraction."""
        neutral = {name for name, pool in zip(universe.objects or (), universe.pool_of, strict=True) if pool < 0}
        with_trace = len(set(self.users))
        return Extracted(
            traces=traces,
            objects=objects,
            universe=universe,
            rows=self.rows,
            rows_without=self.rows_without,
            users=with_trace,
            users_without=len(self._names) - with_trace,
            kept=len(self.objects),
            in_pools=sum(name not in neutral for name in self.objects),
            outside=tuple(sorted(self.outside.items(), key=lambda entry: (-entry[1], entry[0]))),
        )


def _columns(
    paths: Sequence[Path | Tables], user: str | None, given: Mapping[ColumnKind, str | None]
) -> tuple[str, ColumnKind, str]:
    """Return the column of users, the kind of the other column, and that column; the archive has defaults."""
    named: dict[ColumnKind, str] = {kind: column for kind, column in given.items() if column is not None}
    if all(isinstance(path, Path) and is_archive(path) for path in paths):
        user = user or sources.USER
        named = named or {"text": sources.TEXT}
    if user is None:
        raise InputError("must name a column", place="user")
    if len(named) != 1:
        rule = "exactly one of them must name a column"
        raise InputError(rule, value=list(named), place=", ".join(given))
    ((kind, column),) = named.items()
    return user, kind, column


def _write_objects(path: Path, universe: Universe, *, raw: bool) -> None:
    names = (*universe.pool_names, "")  # the neutral pool's index is -1
    written = str if raw else escape
    with path.open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(["object", "pool"])
        objects = zip(universe.objects or (), universe.pool_of, strict=True)
        rows.writerows((written(name), written(names[pool])) for name, pool in objects)
