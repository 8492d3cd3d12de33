"""Mechanisms that are not pure: they state the likelihood of a report itself."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from poolscope.core.arrays import Floats
from poolscope.mechanisms.defaults import Reporting, in_parts
from poolscope.mechanisms.role import Reports
from poolscope.mechanisms.views import Views


class Likelihood(Reporting, ABC):
    """All that follows from `log_likelihood`: masses are likelihoods, each report's largest over objects being one.

    The largest is one, so that nothing over- or underflows; what is common to a report cancels in the posterior.
    There is no frequency estimate unless a mechanism states supports, p* and q* as well (`Counting`).

    Examples
    --------
    >>> issubclass(ps.mechanisms.Channel, ps.mechanisms.Likelihood)
    True
    """

    @property
    def floor(self) -> float:
        return 0.0

    @property
    def slope(self) -> float:
        return 1.0

    @abstractmethod
    def log_likelihood(self, reports: Reports) -> Floats:
        """(reports, universe) natural logarithm of Pr[report | z], up to a constant of the report; -inf: impossible."""

    @abstractmethod
    def log_base_measure(self, reports: Reports) -> Floats:
        """(reports,) that constant: what `log_likelihood` leaves out of the logarithm of the probability."""

    def likelihood(self, reports: Reports) -> Floats:
        """(reports, universe) Pr[report | z] over the largest of the report; zeros where no object can send it."""
        return scaled(self.log_likelihood(reports))

    def mass(self, reports: Reports, views: Views) -> Floats:
        """Pr[report | pool] in each column, over the largest Pr[report | z]; zeros where no object can send it."""
        matrix = views.matrix()
        parts = [self.likelihood(part) @ matrix for part in in_parts(reports, self.universe)]
        return np.concatenate(parts) if parts else np.empty((0, views.width))


def scaled(log_likelihood: Floats) -> Floats:
    """exp(log_likelihood) with every row's largest entry scaled to one; a row of -inf becomes zeros."""
    largest = log_likelihood.max(axis=1, keepdims=True)
    return np.exp(log_likelihood - np.where(np.isfinite(largest), largest, 0.0))
