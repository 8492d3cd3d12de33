r"""Frequencies of each attribute from multidimensional reports, with the published variances.

A report supports a value z of one attribute with probability a where z is the true value, else b. Of N reports, C
support z. Then

.. math:: \hat f(z) = \frac{C / N - b}{a - b}, \qquad
          \mathrm{Var} \hat f(z) = \frac{\gamma (1 - \gamma)}{N (a - b)^2}, \qquad \gamma = f a + (1 - f) b

For RS+FD and RS+RFD, a = (p + (d-1) s) / d and b = (q + (d-1) s) / d, with s the probability that fake data supports z:
1/k for GRR, q for zero vectors, q + (p-q)/k for random ones, and with the prior in place of 1/k for RS+RFD. SMP has p
and q, and its reports on the attribute, N/d on average. SPL has p and q of ε / d.

References
----------
H. H. Arcolezi, J.-F. Couchot, B. Al Bouna, X. Xiao. Random sampling plus fake data. CIKM 2021.
H. H. Arcolezi, S. Gambs, J.-F. Couchot, C. Palamidessi. On the risks of collecting multidimensional data under local
differential privacy. PVLDB 16(5), 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolscope.core.arguments import check_integer
from poolscope.core.arrays import Floats, Integers, Map
from poolscope.core.errors import InputError
from poolscope.core.randomness import children, generator
from poolscope.mechanisms.attribute import Attribute, FakedAttribute, checked_distribution
from poolscope.mechanisms.checking import checked_reports
from poolscope.mechanisms.multidimensional import (
    SAMPLED,
    SMP,
    Multidimensional,
)
from poolscope.mechanisms.protocols import FrequencyOracle, ReportColumn, Reports, SupportProbabilities, report_count
from poolscope.mechanisms.pure import binomial_noise
from poolscope.mechanisms.unary import Unary
from poolscope.reports.estimators import Frequencies, unbiased


@dataclass(frozen=True, eq=False)
class AttributeOracle:
    """The reports on one attribute as those of a frequency oracle; of SMP, those for which it was sampled."""

    mechanism: Multidimensional
    attribute: str

    @property
    def part(self) -> Attribute:
        return self.mechanism.part(self.attribute)

    @cached_property
    def rates(self) -> SupportProbabilities:
        return self.mechanism.attribute_rates(self.attribute)

    def score_sum_variance(self, counts: Floats, reports: float) -> Floats:
        return binomial_noise(counts, reports, self.rates.p_star, self.rates.q_star)

    def tally(self, reports: Reports) -> Integers:
        """Return (1, values) how many reports support each value."""
        return self.part.randomizer.support_counts(self.part.own(reports))[None]

    def simulate_tally(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> Integers:
        """Simulate the tally of `count` reports on tuples with values drawn from the popularity."""
        part, own = self.part, self.part.randomizer
        if not isinstance(part, FakedAttribute):
            return own.simulate_counts(popularity, count, key, threads)[None]
        rng, keys = generator(key), children(key, np.arange(1, 3))
        true = int(rng.binomial(count, 1.0 / self.mechanism.d))
        fakes: Integers
        if part.fake is None:
            fakes = rng.binomial(count - true, own.q_star, size=own.universe)
        elif isinstance(own, Unary):
            fakes = own.simulate_counts(part.fake, count - true, keys[1], threads)
        else:
            fakes = rng.multinomial(count - true, part.fake)
        found: Integers = own.simulate_counts(popularity, true, keys[0], threads)
        return np.add(found, fakes)[None]


def attribute_frequencies(mechanism: Multidimensional, reports: Reports) -> dict[str, Frequencies]:
    """Return the estimated frequencies of each attribute's values, by its name.

    Of SMP, each attribute has the reports for which it was sampled.

    Examples
    --------
    >>> rsfd = ps.mechanisms.RSFD({"emoji": 4, "word": 3}, epsilon=3.0)
    >>> found = ps.mechanisms.attribute_frequencies(rsfd, rsfd.obfuscate(np.zeros((1000, 2), dtype=np.int64), rng))
    >>> bool(abs(found["word"].counts[0] - 1000) < 4 * found["word"].errors[0])
    True
    """
    check_multidimensional(mechanism)
    counter = AttributeCounter(mechanism)
    counter.add(checked_reports(mechanism, reports))
    return counter.estimate()


class AttributeCounter:
    """Count the reports that support each value of each attribute, block by block."""

    def __init__(self, mechanism: Multidimensional) -> None:
        self._mechanism = mechanism
        self._oracles = [AttributeOracle(mechanism, part.name) for part in mechanism.parts]
        self._tallies: list[Any] = [0] * len(self._oracles)
        self._counts = [0] * len(self._oracles)
        self.reports = 0

    def add(self, columns: Reports) -> None:
        """Add a block of checked reports."""
        sampled = columns[SAMPLED] if isinstance(self._mechanism, SMP) else None
        if isinstance(self._mechanism, SMP):
            # it checks that other columns are empty
            self._mechanism.log_weights(columns)
        for j, oracle in enumerate(self._oracles):
            own = columns[oracle.attribute]
            some = {oracle.attribute: own if sampled is None else own[sampled == j]}
            self._tallies[j] = self._tallies[j] + oracle.tally(some)[0]
            self._counts[j] += report_count(some)
        self.reports += report_count(columns)

    def estimate(self) -> dict[str, Frequencies]:
        """Return the estimate of each attribute from all reports so far."""
        out = {}
        for oracle, tally, count in zip(self._oracles, self._tallies, self._counts, strict=True):
            if count == 0:
                raise InputError("an estimate needs at least one report", value=0, place=oracle.attribute)
            out[oracle.attribute] = unbiased(cast(FrequencyOracle, oracle), tally, count)
        return out


def attribute_variance(mechanism: Multidimensional, attribute: str, frequencies: ArrayLike, reports: int) -> Floats:
    """Return (values,) the published variance of the estimated frequencies, for people drawn from given ones.

    Parameters
    ----------
    attribute : its name.
    frequencies : (values,) the true frequencies.
    reports : number of reports of all attributes; SMP has `reports` / d of each on average.

    Examples
    --------
    >>> rsfd = ps.mechanisms.RSFD({"emoji": 4, "word": 3}, epsilon=3.0)
    >>> ps.mechanisms.attribute_variance(rsfd, "word", [0.5, 0.3, 0.2], 1000).round(5)
    array([0.00129, 0.00116, 0.00107])
    """
    check_multidimensional(mechanism)
    check_integer("reports", reports, 1)
    size = mechanism.part(attribute).randomizer.universe
    f, rates = checked_distribution(frequencies, size, "frequencies"), mechanism.attribute_rates(attribute)
    mean = f * rates.p_star + (1.0 - f) * rates.q_star
    count = reports / mechanism.d if isinstance(mechanism, SMP) else reports
    variance: Floats = mean * (1.0 - mean) / (count * (rates.p_star - rates.q_star) ** 2)
    return variance


def reports_from_tuples(mechanism: Multidimensional, tuples: Sequence[Any]) -> Reports:
    """Return reports as columns from a list of tuples, as multi-freq-ldpy makes them.

    Parameters
    ----------
    tuples : a report each: d entries in the order of the attributes, or (position of the attribute, entry) of SMP. An
        entry is a value (GRR) or a vector of 0 and 1 (SUE, OUE).

    Examples
    --------
    >>> rsfd = ps.mechanisms.RSFD({"emoji": 4, "word": 3}, epsilon=3.0, randomizer=["grr", "oue"])
    >>> ps.mechanisms.reports_from_tuples(rsfd, [[2, [1, 0, 1]], [0, [0, 0, 1]]])
    {'emoji': array([2, 0]), 'word': array([[5],
           [4]], dtype=uint8)}
    """
    check_multidimensional(mechanism)
    expected = 2 if isinstance(mechanism, SMP) else mechanism.d
    for number, one in enumerate(tuples):
        if len(one) != expected:
            raise InputError(f"must have {expected} entries", value=len(one), place=f"report {number}")
    columns: dict[str, NDArray[Any]] = {}
    if isinstance(mechanism, SMP):
        columns[SAMPLED] = np.array([one[0] for one in tuples], dtype=np.int64)
    for j, part in enumerate(mechanism.parts):
        column = part.empty(len(tuples))
        rows = np.flatnonzero(columns[SAMPLED] == j) if isinstance(mechanism, SMP) else np.arange(len(tuples))
        if len(rows):
            entries = [tuples[row][-1 if isinstance(mechanism, SMP) else j] for row in rows.tolist()]
            column[rows] = _packed(entries, part.name, part.column)
        columns[part.name] = column
    return checked_reports(mechanism, columns)


def _packed(entries: Sequence[Any], name: str, column: ReportColumn) -> NDArray[Any]:
    """Return values as integers, or vectors as packed bits."""
    try:
        given = np.asarray(entries)
    except ValueError:  # vectors of different lengths
        raise InputError(f"must be vectors of {column.size} bits", place=name) from None
    if column.kind == "bits":
        if given.shape != (len(entries), column.size) or not np.all((given == 0) | (given == 1)):
            raise InputError(f"must be vectors of {column.size} bits, 0 or 1", value=given.shape[1:], place=name)
        return np.packbits(given.astype(np.uint8), axis=1, bitorder="little")
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InputError("must be integers, one for each report", value=str(given.dtype), place=name)
    return given


def check_multidimensional(mechanism: object) -> None:
    """Reject anything but a mechanism for several attributes."""
    if not isinstance(mechanism, Multidimensional):
        remedy = "SPL, SMP, RSFD or RSRFD of poolscope.mechanisms"
        raise InputError("must be a mechanism for several attributes", value=type(mechanism).__name__, remedy=remedy)
