"""News outlets: the universe ``news-2021``, and which outlet a link leads to.

The 60 outlets and their orientation are those of the AllSides Media Bias Chart, version 4.1 of 2021; ``news_2021.csv``
has them.

What of the other sites? The chart lists no neutral ones, but people link to them most of the time, and a device would
report each by its own name. So the built-in universe has the outlets alone, and whoever makes traces from recorded
links widens it by every other site that occurs (:func:`widened`): those sites are the neutral pool, none is lost, and
none is merged with others into one object "elsewhere", which would be far easier to tell from the pools than real sites
are.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from functools import cache
from importlib import resources

from poolscope.population.builtin.hosts import host_of, registered
from poolscope.population.universe import Universe


@cache
def news_2021() -> Universe:
    """60 outlets in the pools left, lean-left, center, lean-right and right, in the order of the file; none neutral."""
    rows = _rows()
    return Universe.named([row["domain"] for row in rows], [row["pool"] for row in rows])


def widened(universe: Universe, names: Iterable[str]) -> Universe:
    """The universe with more objects, all neutral, behind its own: those of ``names`` that it lacks, sorted.

    Sorted, so that the same sites make the same universe in whatever order they occur.
    """
    own = universe.objects or tuple(map(str, range(universe.size)))
    pools = [universe.pool_names[i] if i >= 0 else None for i in universe.pool_of]
    more = sorted(set(names).difference(own))
    return Universe.named([*own, *more], [*pools, *[None] * len(more)])


def registered_host(link: str) -> str | None:
    """The registered name of a link's or a host name's site; of an outlet's pages the outlet; None without a host.

    ``https://edition.cnn.com:443/x`` gives ``cnn.com`` and ``www.smith.house.gov`` gives ``house.gov``. Two outlets are
    parts of larger sites, ``abcnews.go.com`` and ``news.yahoo.com``: only their own pages are theirs.
    """
    host = host_of(link)
    return None if host is None else registered(host, _outlets())


def outlet_or_site(link: str) -> str | None:
    """The object of a link: its registered name, where an outlet's other names (``nyti.ms``) are the outlet's."""
    name = registered_host(link)
    return None if name is None else _other_names().get(name, name)


@cache
def _rows() -> list[dict[str, str]]:
    text = (resources.files("poolscope.population.builtin") / "news_2021.csv").read_text("utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@cache
def _outlets() -> frozenset[str]:
    return frozenset(row["domain"] for row in _rows())


@cache
def _other_names() -> dict[str, str]:
    return {name: row["domain"] for row in _rows() for name in row["also"].split()}
