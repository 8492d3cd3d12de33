"""News outlets: the universe ``news-2021``, and the outlet or site of a link.

The 60 outlets and their orientation are those of the AllSides Media Bias Chart, version 4.1 of 2021; ``news_2021.csv``
has them.

The chart lists no neutral sites, although most links lead to such sites, and a device would report each by name. The
built-in universe therefore contains the outlets only. Extracting traces from recorded links extends it by every other
site that occurs (:func:`widened`); these sites form the neutral pool. Merging them into one object "elsewhere" would
make the neutral pool far easier to distinguish than real sites are.
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
    """Return 60 outlets in the pools left, lean-left, center, lean-right and right, in file order; none is neutral."""
    rows = _rows()
    return Universe.named([row["domain"] for row in rows], [row["pool"] for row in rows])


def widened(universe: Universe, names: Iterable[str]) -> Universe:
    """Return the universe extended by those of ``names`` that it lacks, as neutral objects in sorted order.

    Sorting makes the universe independent of the order in which the names occur.
    """
    own = universe.objects or tuple(map(str, range(universe.size)))
    pools = [universe.pool_names[i] if i >= 0 else None for i in universe.pool_of]
    more = sorted(set(names).difference(own))
    return Universe.named([*own, *more], [*pools, *[None] * len(more)])


def registered_host(link: str) -> str | None:
    """Return the registered domain of a link or host name; for pages of an outlet, the outlet; None without a host.

    ``https://edition.cnn.com:443/x`` gives ``cnn.com`` and ``www.smith.house.gov`` gives ``house.gov``. Two outlets are
    subdomains of larger sites, ``abcnews.go.com`` and ``news.yahoo.com``: only their own pages count.
    """
    host = host_of(link)
    return None if host is None else registered(host, _outlets())


def outlet_or_site(link: str) -> str | None:
    """Return the object of a link: its registered domain, with aliases of an outlet (``nyti.ms``) resolved."""
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
