r"""Reports on several attributes of one person: SPL, SMP, RS+FD and RS+RFD.

A person has a value of each of d attributes: a tuple x. Each attribute has a pure randomizer P_j (GRR, SUE or OUE).

- SPL splits the budget: it sends every attribute, each with ε / d.
- SMP samples one attribute, and sends it and its name.
- RS+FD samples one attribute too, and sends fake data f_l for all others, so that a report hides which one it was.
- RS+RFD draws the fake data from priors.

The last three are mixtures over the sampled attribute, with the weights W_j of a report y:

.. math:: \Pr[y | x] = \sum_j W_j \, (o + (1-o) [x_j \in \text{support}(y_j)]), \qquad
          W_j = \frac1d B_j(y_j) \prod_{l \ne j} f_l(y_l), \qquad o = e^{-\epsilon}

with B_j the probability of y_j from a value that it supports. For one attribute, the values of the others averaged over
what an adversary believes, that is a constant plus a slope times the indicator of the support.

A mechanism of this module is a mechanism for whole tuples: its objects are their indices, the last attribute fastest.
Its ε holds for whole tuples. In RS+FD and RS+RFD it is the ε of the sampled attribute, as two people may
differ in all of their values. The papers claim log(1 + (e^epsilon - 1) / d), `claimed_epsilon`, by amplification.

References
----------
H. H. Arcolezi, J.-F. Couchot, B. Al Bouna, X. Xiao. Random sampling plus fake data: multidimensional frequency
estimates with local differential privacy. CIKM 2021.
H. H. Arcolezi, S. Gambs, J.-F. Couchot, C. Palamidessi. On the risks of collecting multidimensional data under local
differential privacy. PVLDB 16(5), 2023.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from poolscope.core.arguments import as_integers
from poolscope.core.arrays import Floats, Integers, Keys, Objects
from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.keyed_random import child_keys, integers
from poolscope.core.randomness import fresh_keys
from poolscope.mechanisms.attribute import Attribute, check_attributes, checked_distribution, make_randomizer
from poolscope.mechanisms.protocols import (
    MAX_INTEGER,
    PoolWeights,
    ReportColumn,
    Reports,
    SupportProbabilities,
    check_finite_epsilon,
    check_objects,
    report_count,
    set_frozen,
)
from poolscope.mechanisms.pure import Likelihood, in_chunks

#: Name of the column of SMP that says which attribute was sampled, by its position.
SAMPLED = "sampled"

#: Values of one attribute's column that SMP lists.
MAX_LISTED = 1 << 20

#: Attribute -> (values,) what an adversary believes.
Beliefs = Mapping[str, ArrayLike]


class AttributeLikelihood(NamedTuple):
    """Likelihood of one attribute's value: offset + slope * [the report supports the value], up to a common factor.

    Parameters
    ----------
    offset, slope : (reports,) of each report; their sum is at most 1, and 1 where a report supports some value.

    Examples
    --------
    >>> smp = ps.mechanisms.SMP({"emoji": 4, "word": 3}, epsilon=1.0)
    >>> reports = {"sampled": np.array([0, 1]), "emoji": np.array([2, 0]), "word": np.array([0, 1])}
    >>> smp.attribute_likelihood(reports, "emoji").slope.round(3)
    array([0.632, 0.   ])
    """

    offset: Floats
    slope: Floats


@dataclass(frozen=True, eq=False)
class Multidimensional(Likelihood):
    """Base class of mechanisms for whole tuples; a subclass draws reports and combines the attributes' likelihoods.

    Examples
    --------
    >>> smp = ps.mechanisms.SMP({"emoji": 4, "word": 3}, epsilon=1.0)
    >>> isinstance(smp, ps.mechanisms.Multidimensional), smp.universe, smp.tuples([5]).tolist()
    (True, 12, [[1, 2]])
    """

    attributes: Mapping[str, int]
    _: KW_ONLY
    epsilon: float
    randomizer: Sequence[str] | str = "grr"
    universe: int = field(init=False)

    def __post_init__(self) -> None:
        check_attributes(self.attributes)
        check_finite_epsilon(self.epsilon)
        names = [self.randomizer] * self.d if isinstance(self.randomizer, str) else list(self.randomizer)
        if len(names) != self.d:
            raise InputError(f"must be one, or one for each of {self.d} attributes", value=names, place="randomizer")
        set_frozen(self, attributes=dict(self.attributes), universe=math.prod(self.sizes))
        # built now, so that an unknown name is an error of the constructor
        set_frozen(self, parts=tuple(self._parts(names)))

    parts: tuple[Attribute, ...] = field(init=False, repr=False)

    @abstractmethod
    def _parts(self, randomizers: Sequence[str]) -> Iterator[Attribute]:
        """Yield the attributes with their randomizers."""

    @property
    def d(self) -> int:
        """Number of attributes."""
        return len(self.attributes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each attribute."""
        return tuple(self.attributes.values())

    @property
    def claimed_epsilon(self) -> float:
        """The ε that the literature states for this mechanism; for tuples, `epsilon` holds."""
        return self.epsilon

    @property
    @abstractmethod
    def single_attribute_epsilon(self) -> float:
        """The exact ε for two tuples that differ in one attribute only, the worst of all attributes."""

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {part.name: part.column for part in self.parts}

    def part(self, attribute: str) -> Attribute:
        """Return an attribute with its randomizer, by name."""
        if attribute not in self.attributes:
            remedy = did_you_mean(attribute, list(self.attributes)) if isinstance(attribute, str) else None
            raise InputError("must be the name of an attribute", value=attribute, place="attribute", remedy=remedy)
        return self.parts[list(self.attributes).index(attribute)]

    # tuples and their indices

    def tuples(self, objects: ArrayLike) -> Integers:
        """Return (n, d) the values of tuples given by index, or the values themselves, checked."""
        given = as_integers("objects", objects)
        if given.ndim == 2 and given.shape[1] == self.d:
            for part, values in zip(self.parts, given.T, strict=True):
                try:
                    check_objects(values, part.randomizer.universe)
                except InputError as error:
                    raise error.at(place=part.name) from None
            return given
        if given.ndim != 1:
            rule = f"objects must be indices of tuples, or rows of {self.d} values"
            raise InputError(rule, value=given.shape)
        check_objects(given, self.universe)
        return np.stack(np.unravel_index(given, self.sizes), axis=1).astype(np.int64).reshape(-1, self.d)

    def index(self, values: ArrayLike) -> Objects:
        """Return (n,) the indices of tuples given by values (n, d)."""
        if self.universe > MAX_INTEGER:
            raise InputError("there are too many tuples for an index", value=self.universe)
        found: Objects = np.ravel_multi_index(tuple(self.tuples(values).T), self.sizes).astype(np.int64)
        return found

    # the client

    def obfuscate(self, objects: ArrayLike, rng: np.random.Generator) -> Reports:
        """Draw one report for each tuple: (n,) indices, or (n, d) values."""
        if not isinstance(rng, np.random.Generator):
            raise InputError("rng must be a generator", value=rng, remedy="numpy.random.default_rng(seed)")
        values = self.tuples(objects)
        return self.report(values, fresh_keys(rng, len(values)))

    @abstractmethod
    def report(self, objects: ArrayLike, keys: Keys) -> Reports:
        """Draw one report for each tuple, (n,) indices or (n, d) values, from the random stream of its key."""

    # likelihoods

    def log_probability(self, reports: Reports, objects: ArrayLike) -> Floats:
        """Return (reports,) the exact log Pr[report | tuple], of each report given its own tuple."""
        values = self.tuples(objects)
        supported = [part.supports(reports, own) for part, own in zip(self.parts, values.T, strict=True)]
        return self._combine(reports, supported)

    def log_likelihood(self, reports: Reports) -> Floats:
        """Return (reports, tuples) the exact log Pr[report | tuple]; nothing is omitted."""
        supported = []
        for j, part in enumerate(self.parts):
            shape = [report_count(reports)] + [1] * self.d
            shape[1 + j] = part.randomizer.universe
            supported.append(part.support(reports).reshape(shape))
        return self._combine(reports, supported).reshape(report_count(reports), self.universe)

    def log_base_measure(self, reports: Reports) -> Floats:
        return np.zeros(report_count(reports))

    @cached_property
    def is_normalized(self) -> bool:
        return True

    def mass(self, reports: Reports, pool_weights: PoolWeights) -> Floats:
        """Return (reports, width) Pr[report | pool] / max_z Pr[report | z], from tuples with a positive weight."""
        (used,) = np.nonzero(np.any(pool_weights.weights > 0, axis=0))
        some = PoolWeights(pool_weights.columns[:, used], pool_weights.weights[:, used], pool_weights.width)
        matrix, values = some.matrix(), self.tuples(used)
        masses = [self._scaled(chunk, values) @ matrix for chunk in in_chunks(reports, max(1, len(used)))]
        return np.concatenate(masses) if masses else np.empty((0, pool_weights.width))

    def _scaled(self, reports: Reports, values: Integers) -> Floats:
        """Return (reports, tuples) the likelihoods of some tuples, divided by the largest of all tuples."""
        supports = [part.support(reports) for part in self.parts]
        some = [support[:, own] for support, own in zip(supports, values.T, strict=True)]
        largest = self._combine(reports, [np.asarray(support.any(axis=1)) for support in supports])[:, None]
        return np.exp(self._combine(reports, some) - np.where(np.isfinite(largest), largest, 0.0))

    @abstractmethod
    def _combine(self, reports: Reports, supported: Sequence[NDArray[np.bool_]]) -> Floats:
        """Return log Pr[report | tuple], given whether the report supports the value of each attribute.

        supported : for each attribute (reports, ...), broadcast against each other.
        """

    @abstractmethod
    def attribute_likelihood(
        self, reports: Reports, attribute: str, beliefs: Beliefs | None = None
    ) -> AttributeLikelihood:
        """Return the likelihood of one attribute's value, with the values of all others averaged over beliefs.

        Parameters
        ----------
        attribute : name of the attribute.
        beliefs : attribute -> (values,) the probability of each value, as the adversary believes; uniform where absent.
        """

    @abstractmethod
    def attribute_rates(self, attribute: str) -> SupportProbabilities:
        """Return the probabilities that a report on this attribute supports a value, for frequency estimates."""

    def belief(self, attribute: str, beliefs: Beliefs | None) -> Floats:
        """Return (values,) what an adversary believes of an attribute, checked; uniform where absent."""
        for name in beliefs or {}:
            self.part(name)
        size = self.part(attribute).randomizer.universe
        given = (beliefs or {}).get(attribute)
        return np.full(size, 1.0 / size) if given is None else checked_distribution(given, size, attribute)


@dataclass(frozen=True, eq=False)
class SPL(Multidimensional):
    """Split the budget: every attribute is sent, each with ε / d.

    Parameters
    ----------
    attributes : name -> number of values.
    epsilon : of the whole report.
    randomizer : "grr", "sue" or "oue", for all attributes or one for each.

    Examples
    --------
    >>> spl = ps.mechanisms.SPL({"emoji": 4, "word": 3}, epsilon=2.0)
    >>> reports = spl.obfuscate([[0, 1], [3, 2]], rng)
    >>> list(reports), spl.log_probability(reports, [[0, 1], [3, 2]]).shape
    (['emoji', 'word'], (2,))
    """

    def _parts(self, randomizers: Sequence[str]) -> Iterator[Attribute]:
        for (name, size), kind in zip(self.attributes.items(), randomizers, strict=True):
            yield Attribute(name, make_randomizer(kind, size, self.epsilon / self.d))

    @property
    def single_attribute_epsilon(self) -> float:
        return self.epsilon / self.d

    def report(self, objects: ArrayLike, keys: Keys) -> Reports:
        values = self.tuples(objects)
        return {part.name: part.report(values[:, j], child_keys(keys, 1 + j)) for j, part in enumerate(self.parts)}

    def _combine(self, reports: Reports, supported: Sequence[NDArray[np.bool_]]) -> Floats:
        terms = [part.log_terms(reports, one) for part, one in zip(self.parts, supported, strict=True)]
        return sum(terms[1:], terms[0])

    def attribute_likelihood(
        self, reports: Reports, attribute: str, beliefs: Beliefs | None = None
    ) -> AttributeLikelihood:
        """Return the likelihood of one attribute's value; the others are independent of it, whatever is believed."""
        self.belief(attribute, beliefs)
        own, count = self.part(attribute).randomizer, report_count(reports)
        return AttributeLikelihood(np.full(count, own.likelihood_offset), np.full(count, own.likelihood_scale))

    def attribute_rates(self, attribute: str) -> SupportProbabilities:
        own = self.part(attribute).randomizer
        return SupportProbabilities(own.p_star, own.q_star, 0.0)


@dataclass(frozen=True, eq=False)
class Sampled(Multidimensional):
    """Base class of mechanisms that sample one attribute: mixtures with weights that a subclass defines."""

    @abstractmethod
    def log_weights(self, reports: Reports) -> Floats:
        """Return (reports, d) log W_j: that j is sampled and the report is made from a value that it supports."""

    def sampled(self, keys: Keys) -> Integers:
        """Return (n,) the position of the attribute that is sampled for the report of each key."""
        return integers(keys, 0, self.d)

    def _combine(self, reports: Reports, supported: Sequence[NDArray[np.bool_]]) -> Floats:
        weights = self.log_weights(reports)
        largest = weights.max(axis=1)
        scale = np.where(np.isfinite(largest), largest, 0.0)
        total: Any = 0.0
        for j, (part, one) in enumerate(zip(self.parts, supported, strict=True)):
            own = part.randomizer
            factor = np.exp(weights[:, j] - scale).reshape(-1, *[1] * (one.ndim - 1))
            total = total + factor * (own.likelihood_offset + own.likelihood_scale * one)
        with np.errstate(divide="ignore"):
            found: Floats = np.log(total) + scale.reshape(-1, *[1] * (total.ndim - 1))
        return found

    def log_sampled(self, reports: Reports, beliefs: Beliefs | None = None) -> Floats:
        """Return (reports, d) log Pr[attribute j is sampled, report], its value averaged over beliefs."""
        out = self.log_weights(reports)
        for j, part in enumerate(self.parts):
            mass = part.mean_support(reports, self.belief(part.name, beliefs))
            with np.errstate(divide="ignore"):
                out[:, j] += np.log(part.randomizer.likelihood_offset + part.randomizer.likelihood_scale * mass)
        return out

    def attribute_likelihood(
        self, reports: Reports, attribute: str, beliefs: Beliefs | None = None
    ) -> AttributeLikelihood:
        part = self.part(attribute)
        j, own = self.parts.index(part), part.randomizer
        self.belief(attribute, beliefs)
        weights, others = self.log_weights(reports)[:, j], np.delete(self.log_sampled(reports, beliefs), j, axis=1)
        constant = logsumexp(others, axis=1) if self.d > 1 else np.full(len(weights), -np.inf)
        largest = np.logaddexp(weights, constant)
        scale = np.where(np.isfinite(largest), largest, 0.0)
        relative = np.exp(weights - scale)
        offset = np.exp(constant - scale) + own.likelihood_offset * relative
        return AttributeLikelihood(offset, own.likelihood_scale * relative)


@dataclass(frozen=True, eq=False)
class SMP(Sampled):
    """Sample one attribute, and send it with ε; the column ``sampled`` says which it is.

    Columns of attributes that were not sampled are 0.

    Parameters
    ----------
    attributes : name -> number of values.
    epsilon : of the sampled attribute, and so of the report.
    randomizer : "grr", "sue" or "oue", for all attributes or one for each.

    Examples
    --------
    >>> smp = ps.mechanisms.SMP({"emoji": 4, "word": 3}, epsilon=2.0, randomizer="oue")
    >>> list(smp.obfuscate([[0, 1], [3, 2]], rng))
    ['sampled', 'emoji', 'word']
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if SAMPLED in self.attributes:
            raise InputError("no attribute may have the name of SMP's own column", value=SAMPLED, place="attributes")

    def _parts(self, randomizers: Sequence[str]) -> Iterator[Attribute]:
        for (name, size), kind in zip(self.attributes.items(), randomizers, strict=True):
            yield Attribute(name, make_randomizer(kind, size, self.epsilon))

    @property
    def single_attribute_epsilon(self) -> float:
        return self.epsilon

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {SAMPLED: ReportColumn("integer", self.d), **super().report_columns}

    def all_reports(self) -> Reports | None:
        """Return every report; None where an attribute has too many."""
        counts = [part.column.count for part in self.parts]
        if any(count is None or count > MAX_LISTED for count in counts):
            return None
        known = [count for count in counts if count is not None]
        sampled = np.repeat(np.arange(self.d), known)
        columns: dict[str, NDArray[Any]] = {SAMPLED: sampled}
        for j, (part, count) in enumerate(zip(self.parts, known, strict=True)):
            index = np.zeros(len(sampled), dtype=np.intp)
            index[sampled == j] = np.arange(count)
            columns[part.name] = part.column.values(index)
        return columns

    def report(self, objects: ArrayLike, keys: Keys) -> Reports:
        values, which = self.tuples(objects), self.sampled(keys)
        columns: dict[str, NDArray[Any]] = {SAMPLED: which}
        for j, part in enumerate(self.parts):
            column, rows = part.empty(len(values)), which == j
            column[rows] = part.report(values[rows, j], child_keys(keys[rows], 1 + j))
            columns[part.name] = column
        return columns

    def log_weights(self, reports: Reports) -> Floats:
        out = np.full((report_count(reports), self.d), -np.inf)
        for j, part in enumerate(self.parts):
            rows = reports[SAMPLED] == j
            if np.any(reports[part.name][~rows]):
                raise InputError("must be 0 where another attribute was sampled", place=part.name)
            some = {part.name: reports[part.name][rows]}
            out[rows, j] = part.log_base(some) - math.log(self.d)
        return out

    def attribute_rates(self, attribute: str) -> SupportProbabilities:
        """Return the probabilities among the reports for which the attribute was sampled."""
        own = self.part(attribute).randomizer
        return SupportProbabilities(own.p_star, own.q_star, 0.0)
