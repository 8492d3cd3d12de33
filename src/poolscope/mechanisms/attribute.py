"""One attribute of a multidimensional report: its randomizer, its column, and the fake data that may replace it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlog1py, xlogy

from poolscope.core.arguments import as_floats, is_integer
from poolscope.core.arrays import Floats, Integers, Keys
from poolscope.core.errors import InputError
from poolscope.core.keyed_random import child_keys
from poolscope.mechanisms.grr import GRR
from poolscope.mechanisms.protocols import MAX_INTEGER, PoolWeights, ReportColumn, Reports
from poolscope.mechanisms.pure import TOLERANCE
from poolscope.mechanisms.unary import OUE, SUE, Unary
from poolscope.population.behavior import draw_objects

#: The randomizers of attributes, by name.
RANDOMIZERS: dict[str, type[GRR | Unary]] = {"grr": GRR, "sue": SUE, "oue": OUE}

#: What fake vectors of unary encodings are made from, by name.
FAKES = ("zero", "random")


def make_randomizer(name: str, size: int, epsilon: float) -> GRR | Unary:
    """Return the randomizer of an attribute, by name."""
    if name not in RANDOMIZERS:
        raise InputError(f"must be {', '.join(RANDOMIZERS)}", value=name, place="randomizer")
    return RANDOMIZERS[name](universe=size, epsilon=epsilon)


@dataclass(frozen=True, eq=False)
class Attribute:
    """An attribute: its column in reports has its name, and holds a value (GRR) or bits (SUE, OUE)."""

    name: str
    randomizer: GRR | Unary

    @property
    def column(self) -> ReportColumn:
        size = self.randomizer.universe
        return ReportColumn("bits" if isinstance(self.randomizer, Unary) else "integer", size)

    def empty(self, count: int) -> NDArray[Any]:
        """Return a column of zeros."""
        dtype = np.uint8 if isinstance(self.randomizer, Unary) else np.int64
        return np.zeros((count, *self.column.row), dtype=dtype)

    def report(self, values: Integers, keys: Keys) -> NDArray[Any]:
        """Draw the column of the attribute for these values."""
        (column,) = self.randomizer.report(np.ascontiguousarray(values), keys).values()
        return column

    def own(self, reports: Reports) -> Reports:
        """Return the column as a report of the randomizer."""
        (name,) = self.randomizer.report_columns
        return {name: np.asarray(reports[self.name])}

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        """Return (reports, values) whether each report supports each value."""
        return self.randomizer.support(self.own(reports))

    def supports(self, reports: Reports, values: Integers) -> NDArray[np.bool_]:
        """Return (reports,) whether each report supports its own value."""
        column = np.asarray(reports[self.name])
        if isinstance(self.randomizer, Unary):
            bits = np.take_along_axis(column, values[:, None] >> 3, axis=1)[:, 0]
            return (bits >> (values & 7).astype(np.uint8) & 1).astype(bool)
        return np.asarray(column == values)

    def log_base(self, reports: Reports) -> Floats:
        """Return (reports,) log Pr[column | a value that it supports]."""
        return self.randomizer.log_base_measure(self.own(reports))

    def log_terms(self, reports: Reports, supported: NDArray[np.bool_]) -> Floats:
        """Return log Pr[column | value], given whether the report supports the value, (reports, ...)."""
        base = self.log_base(reports).reshape(-1, *[1] * (supported.ndim - 1))
        return base + np.where(supported, 0.0, -self.randomizer.epsilon)

    def mean_support(self, reports: Reports, belief: Floats) -> Floats:
        """Return (reports,) the believed probability of the values that each report supports."""
        single = PoolWeights(np.zeros((1, len(belief)), dtype=np.uint32), belief[None], 1)
        return self.randomizer.mass(self.own(reports), single)[:, 0]


@dataclass(frozen=True, eq=False)
class FakedAttribute(Attribute):
    """An attribute with fake data.

    fake : (values,) the distribution of fake values; None is the zero vector of unary encodings. GRR sends a fake value
        as it is, unary encodings perturb its one-hot vector.
    """

    fake: Floats | None

    def fake_report(self, keys: Keys) -> NDArray[Any]:
        """Draw a fake column."""
        size = self.randomizer.universe
        if self.fake is None:
            # the one-hot vector of a further value is zero at all others
            wider = replace(self.randomizer, universe=size + 1)
            bits = replace(self, randomizer=wider).report(np.full(len(keys), size), keys)
            bits = bits[:, : -(-size // 8)].copy()
            if size % 8:
                bits[:, -1] &= np.uint8((1 << size % 8) - 1)
            return bits
        values = draw_objects(self.fake, child_keys(keys, 0))
        return self.report(values, child_keys(keys, 1)) if isinstance(self.randomizer, Unary) else values

    def log_fake(self, reports: Reports) -> Floats:
        """Return (reports,) log f(column), the probability of the column as fake data."""
        column, own = np.asarray(reports[self.name]), self.randomizer
        found: Floats
        if self.fake is None:
            ones, q = np.bitwise_count(column).sum(axis=1, dtype=np.int64), own.q_star
            found = xlogy(ones, q) + xlog1py(own.universe - ones, -q)
            return found
        with np.errstate(divide="ignore"):
            if not isinstance(own, Unary):
                found = np.log(self.fake)[column]
                return found
            mean = own.likelihood_offset + own.likelihood_scale * self.mean_support(reports, self.fake)
            return self.log_base(reports) + np.log(mean)

    @cached_property
    def fake_support(self) -> Floats:
        """(values,) the probability that fake data supports each value."""
        own = self.randomizer
        if self.fake is None:
            return np.full(own.universe, own.q_star)
        return self.fake * (own.p_star - own.q_star) + own.q_star if isinstance(own, Unary) else self.fake

    @property
    def ratio_range(self) -> tuple[float, float]:
        """Smallest and largest P(y | x) / f(y) over all columns y, each for a value x that y does not support.

        Columns that support no value, or all of them, do not distinguish values and have no part in the largest.
        """
        own, p, q = self.randomizer, self.randomizer.p_star, self.randomizer.q_star
        if self.fake is None:
            ratio = (1.0 - p) / (1.0 - q)
            return ratio, ratio
        if not isinstance(own, Unary):
            with np.errstate(divide="ignore"):
                return float(q / self.fake.max()), float(np.divide(q, self.fake.min()))
        # by the believed mass of the supported values: the rarest value alone, or all but the rarest
        rarest = float(self.fake.min())
        o, s = own.likelihood_offset, own.likelihood_scale
        return o / (o + s * (1.0 - rarest)), o / (o + s * rarest)


def checked_distribution(given: ArrayLike, size: int, place: str) -> Floats:
    """Return probabilities of `size` values as an array that sums to 1, or raise an `InputError`."""
    found = as_floats("probabilities", given)
    if found.shape != (size,):
        raise InputError(f"must have a probability for each of {size} values", value=found.shape, place=place)
    if not np.all(np.isfinite(found)) or np.any(found < 0):
        raise InputError("must be probabilities, finite and not negative", value=given, place=place)
    total = float(found.sum())
    if abs(total - 1.0) > TOLERANCE:
        raise InputError("must sum to 1", value=total, place=place, remedy="divide by the sum")
    return found / total


def check_attributes(attributes: Any) -> None:
    """Check that there are two attributes or more, with names and two values or more."""
    if not isinstance(attributes, Mapping) or len(attributes) < 2:
        rule = "must be a mapping from two or more names to numbers of values"
        raise InputError(rule, value=attributes, place="attributes")
    for name, size in attributes.items():
        if not isinstance(name, str) or not name:
            raise InputError("must be named by strings", value=name, place="attributes")
        if not is_integer(size) or not 2 <= size <= MAX_INTEGER:
            raise InputError("must have two values or more", value=size, place=f"attributes.{name}")
