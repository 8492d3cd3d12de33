"""Pure mechanisms, and all that follows from one.

A *pure* mechanism has Pr[report | z] = c(report) * (1 + (e^epsilon - 1) [z in support(report)]): a report either
supports an object or it does not. It states its support and its two probabilities; attack, frequency estimate and
audit follow from here for all of them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from poolscope.core.arrays import Floats
from poolscope.mechanisms.defaults import Counting, Reporting, in_parts
from poolscope.mechanisms.role import Reports, check_epsilon, report_count
from poolscope.mechanisms.views import Views


class Pure(Reporting, Counting):
    """All that follows from `support`, `p_star` and `q_star`; fast paths override the general methods.

    Examples
    --------
    >>> isinstance(mechanism, ps.mechanisms.Pure)
    True
    >>> mechanism.support({"value": np.array([4])}).nonzero()[1]
    array([4])
    """

    epsilon: float

    @property
    def floor(self) -> float:
        """Likelihood of an object outside the support, where one inside has likelihood one: e^-epsilon."""
        return float(np.exp(-self.epsilon))

    @property
    def slope(self) -> float:
        return float(-np.expm1(-self.epsilon))

    @property
    def support_prob_no_collision(self) -> float:
        """Probability that a report supports an object that never collides with the reported one.

        Where a mechanism does not say, it is the least there can be: supports are disjoint, or one of them holds.
        """
        return max(self.floor * self.p_star, 1.0 - (1.0 - self.p_star) / self.floor) if self.floor else 0.0

    def likelihood(self, reports: Reports) -> Floats:
        """(reports, universe) one inside the support of a report, `floor` outside."""
        out: Floats = np.multiply(self.support(reports), self.slope, dtype=np.float64)
        out += self.floor
        return out

    def log_likelihood(self, reports: Reports) -> Floats:
        """(reports, universe) its natural logarithm; -inf outside the support where epsilon is infinite."""
        with np.errstate(divide="ignore"):
            return np.log(self.likelihood(reports))

    @abstractmethod
    def log_base_measure(self, reports: Reports) -> Floats:
        """(reports,) log Pr[report | an object that it supports]."""

    def mass(self, reports: Reports, views: Views) -> Floats:
        """Popularity mass of each report's support in each column."""
        matrix = views.matrix()
        parts = [self.support(part) @ matrix for part in in_parts(reports, self.universe)]
        return np.concatenate(parts) if parts else np.empty((0, views.width))


def even_measure(reports: Reports, inside: float, supporting: int) -> Floats:
    """The base measure where `supporting` reports support an object, all as likely, and one is sent with `inside`."""
    return np.full(report_count(reports), math.log(inside) - math.log(supporting))


@dataclass(frozen=True, kw_only=True)
class Sized(Pure):
    """A pure mechanism that needs to know no more of the universe than its size."""

    universe: int
    epsilon: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
