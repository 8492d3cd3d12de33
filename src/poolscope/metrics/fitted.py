"""What a fit of the users has found: distributions with intervals, and populations at the edge of the data."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import Field

from poolscope.metrics.intervals import Estimate
from poolscope.metrics.models import FORMAT, Count, Format, Real, Result, Whole, result


@result
class BetaRecord(Result):
    """A fitted Beta(a, b), with its mean and its concentration a + b.

    Examples
    --------
    >>> mean, concentration = ps.metrics.Estimate(0.2, 0.1, 0.3), ps.metrics.Estimate(5.0, 2.0, 20.0)
    >>> ps.metrics.BetaRecord(a=1.0, b=4.0, mean=mean, concentration=concentration).mean.low
    0.1
    """

    a: Real
    b: Real
    mean: Estimate
    concentration: Estimate


@result
class EdgePopulation(Result):
    """A population at the edge of what the data allow; `behavior` is a table of ``[users]``.

    Examples
    --------
    >>> ps.metrics.EdgePopulation(name="less interest", behavior={"interest": {"beta": [1.0, 9.0]}}).name
    'less interest'
    """

    name: str
    behavior: dict[str, Any]


@result
class Fitted(Result):
    """The result of `fit`.

    Parameters
    ----------
    data : the kind of data; users, events : how many there are; users is None for aggregate counts of unknown devices.
    interest : share of a user's events in pools; None where aggregate counts identify its mean only.
    polarization : rescaled share of the preferred pool in them, (k delta - 1) / (k - 1); None where nothing is known.
    mean_interest : the mean of the interest; pools : weights of the preferred pools.
    popularity_in_pools : share of the scenario's popularity in pools; None without one.
    behavior : the fitted table ``[users] behavior``; edges : others at the edge of what the data allow.
    log_likelihood : of the fit; None where there is none. notes : what the data do not say.

    Examples
    --------
    >>> rows = [f"u{u},{pool},{count}" for u in range(30) for pool, count in (("", 20), ("light", 2 + u % 3))]
    >>> _ = open("counts.csv", "w").write("\\n".join(["user,pool,count", *rows]))
    >>> found = ps.fit(ps.load_scenario("apple-emojis"), "counts.csv")
    >>> found.users, found.events, round(found.mean_interest.value, 2)
    (30, 690, 0.13)
    """

    format: Format = FORMAT
    data: str
    users: Count | None
    events: Whole
    interest: BetaRecord | None
    polarization: BetaRecord | None
    mean_interest: Estimate
    pools: dict[str, Real] = Field(default_factory=dict)
    popularity_in_pools: Real | None
    behavior: dict[str, Any]
    edges: tuple[EdgePopulation, ...]
    log_likelihood: Real | None
    notes: tuple[str, ...]

    @property
    def toml(self) -> str:
        """The table of a scenario: the fitted users, and those at the edge of what the data allow."""
        edges = {edge.name: edge.behavior for edge in self.edges}
        lines = ["[users]", f"behavior = {_inline(self.behavior)}", *([f"edges = {_inline(edges)}"] if edges else [])]
        return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    """Return a table of numbers, lists and tables as an inline table of TOML."""
    if isinstance(value, dict):
        # a JSON string is a TOML string
        return f"{{ {', '.join(f'{_key(name)} = {_inline(entry)}' for name, entry in value.items())} }}"
    return f"[{', '.join(map(_inline, value))}]" if isinstance(value, list) else repr(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
