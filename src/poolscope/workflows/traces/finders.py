"""Find the objects in a cell of recorded data, by the universe and the kind of the column.

A finder maps a cell to names: objects of the universe, or others, which are counted as outside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from os import PathLike, fspath
from typing import Literal

from poolscope.core.errors import InputError, did_you_mean, located
from poolscope.population.builtin import UNIVERSES, builtin_universe
from poolscope.population.builtin.emojis import emojis_in, qualified
from poolscope.population.builtin.hosts import host_of, links_in, registered
from poolscope.population.builtin.news import outlet_or_site
from poolscope.population.universe import Universe, read_objects

ColumnKind = Literal["text", "object", "domain"]
Finder = Callable[[str], list[str]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
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


def target_of(name_or_path: str | PathLike[str]) -> Target:
    """Return the target of a built-in name or a file of objects."""
    name = fspath(name_or_path)
    if name in UNIVERSES:
        return Target(name=name, universe=builtin_universe(name), is_open=name == "news-2021")
    if not name.lower().endswith((".csv", ".parquet")):
        rule = "unknown universe, neither built in nor a file of objects (.csv, .parquet)"
        raise InputError(rule, value=name, remedy=did_you_mean(name, UNIVERSES))
    return Target(name=name, universe=read_objects(name)[0], is_open=False)


def finder(target: Target, kind: ColumnKind) -> Finder:
    """Return the finder of the target's objects in a column of this kind."""
    holds = _holds(target)
    with located(place=kind):
        if kind == "object" and target.is_open:
            rule = f"does not go with {target.name}, where any other name would become a neutral object"
            raise InputError(rule, remedy="name a column of links or hosts as domain")
        if kind == "domain" and holds != "domains":
            raise InputError("goes only with a universe of domains", value=target.name)
        if kind == "text" and holds is None:
            rule = "goes only with a universe of emojis or one of domains"
            raise InputError(rule, value=target.name, remedy="name a column of objects")
    if holds == "emojis":
        return _emoji_finder(target, kind)
    if kind == "object":
        return _object_finder(target)
    return _site_finder(target, kind)


def _holds(target: Target) -> Literal["emojis", "domains"] | None:
    """Return what the universe consists of."""
    if all(emojis_in(name) == [qualified(name)] for name in target.objects):
        return "emojis"
    return "domains" if all(host_of(name) == name for name in target.objects) else None


def _emoji_finder(target: Target, kind: ColumnKind) -> Finder:
    # A file of objects may list an emoji in a shorter form than the fully qualified one: its own name counts.
    own = {qualified(name): name for name in target.objects}
    if kind == "text":
        return lambda cell: [own.get(emoji, emoji) for emoji in emojis_in(cell)]
    return lambda cell: [own.get(emoji, emoji) for emoji in map(qualified, cell.split())]


def _object_finder(target: Target) -> Finder:
    # Names may contain blanks.
    return lambda cell: [cell] if target.accepts(cell) else cell.split()


def _site_finder(target: Target, kind: ColumnKind) -> Finder:
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
