"""Random sampling plus fake data: RS+FD and RS+RFD, whose reports hide which attribute was sampled.

The mathematics is in `multidimensional`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolscope.core.arrays import Floats, Keys
from poolscope.core.errors import InputError
from poolscope.core.keyed_random import child_keys
from poolscope.mechanisms.attribute import (
    FAKES,
    Attribute,
    FakedAttribute,
    check_attributes,
    checked_distribution,
    make_randomizer,
)
from poolscope.mechanisms.multidimensional import Sampled
from poolscope.mechanisms.protocols import Reports, SupportProbabilities, check_finite_epsilon


@dataclass(frozen=True, eq=False)
class SampledWithFakes(Sampled):
    """Base class of RS+FD and RS+RFD: the attributes that are not sampled carry fake data."""

    @property
    def claimed_epsilon(self) -> float:
        """log(1 + (e^epsilon - 1) / d), what the papers claim by amplification; for tuples, `epsilon` holds."""
        return math.log1p(math.expm1(self.epsilon) / self.d)

    @classmethod
    def claiming(cls, attributes: Mapping[str, int], *, claimed_epsilon: float, **parameters: Any) -> Self:
        """Return the mechanism that the papers and multi-freq-ldpy build for an ε that they claim.

        Its `epsilon`, which holds for whole tuples, is log(1 + d (e^claimed - 1)).
        """
        check_attributes(attributes)
        check_finite_epsilon(claimed_epsilon)
        epsilon = math.log1p(len(attributes) * math.expm1(claimed_epsilon))
        return cls(attributes, epsilon=epsilon, **parameters)

    @cached_property
    def faked(self) -> tuple[FakedAttribute, ...]:
        """The attributes, whose fake data is known."""
        return tuple(part for part in self.parts if isinstance(part, FakedAttribute))

    @property
    def single_attribute_epsilon(self) -> float:
        """The exact ε for two tuples that differ in one attribute only, the worst of all attributes.

        With r the ratio of P(y_j | x_j) to f_j(y_j), two values of attribute j have the likelihood ratio
        (e^epsilon r_j + C) / (r_j + C), with C the sum of r over the others: largest r_j and smallest C are the worst.
        """
        smallest, largest = np.array([part.ratio_range for part in self.faked]).T
        rest = smallest.sum() - smallest
        with np.errstate(divide="ignore"):
            # divided by the largest ratio, which is infinite where a value has no fakes
            share = 1.0 / (1.0 + rest / largest)
        return float(np.log1p(math.expm1(self.epsilon) * share.max()))

    def report(self, objects: ArrayLike, keys: Keys) -> Reports:
        values, which = self.tuples(objects), self.sampled(keys)
        columns: dict[str, NDArray[Any]] = {}
        for j, part in enumerate(self.faked):
            column, rows = part.empty(len(values)), which == j
            column[rows] = part.report(values[rows, j], child_keys(keys[rows], 1 + j))
            column[~rows] = part.fake_report(child_keys(keys[~rows], 1 + self.d + j))
            columns[part.name] = column
        return columns

    def log_weights(self, reports: Reports) -> Floats:
        fakes = np.stack([part.log_fake(reports) for part in self.faked], axis=1)
        own = np.stack([part.log_base(reports) for part in self.faked], axis=1)
        # sums of the others' fakes without a difference, as a fake may be impossible
        before, after = np.zeros_like(fakes), np.zeros_like(fakes)
        before[:, 1:] = np.cumsum(fakes, axis=1)[:, :-1]
        after[:, :-1] = np.cumsum(fakes[:, ::-1], axis=1)[:, ::-1][:, 1:]
        found: Floats = own + before + after - math.log(self.d)
        return found

    def attribute_rates(self, attribute: str) -> SupportProbabilities:
        """Return the probabilities by value: a report is the attribute's own in one case of d, else fake."""
        part = self.faked[self.parts.index(self.part(attribute))]
        own, fake = part.randomizer, (self.d - 1) * part.fake_support
        return SupportProbabilities((own.p_star + fake) / self.d, (own.q_star + fake) / self.d, 0.0)


@dataclass(frozen=True, eq=False)
class RSFD(SampledWithFakes):
    """Random sampling plus fake data (RS+FD).

    One attribute is sampled and sent with ε, all others are fake. Fake values of GRR are uniform. Fake vectors of
    SUE and OUE are made from a zero vector, or from a random one-hot vector, and perturbed as true ones are.

    Parameters
    ----------
    attributes : name -> number of values.
    epsilon : of the sampled attribute; the largest likelihood ratio of whole tuples is e^epsilon as well. What the
        paper claims is `claimed_epsilon`, and `RSFD.claiming` takes that one.
    randomizer : "grr", "sue" or "oue", for all attributes or one for each.
    fake : "zero" (the default) or "random", the fake vectors of unary encodings; GRR takes none.

    Examples
    --------
    >>> rsfd = ps.mechanisms.RSFD.claiming({"a": 8, "b": 5, "c": 4}, claimed_epsilon=2.0)
    >>> round(rsfd.epsilon, 3), round(rsfd.single_attribute_epsilon, 3), round(rsfd.claimed_epsilon, 3)
    (3.004, 2.238, 2.0)
    >>> round(ps.check(rsfd, samples=1000, seed=1).exact.epsilon, 3)
    3.004
    """

    _: KW_ONLY
    fake: str | None = None

    def _parts(self, randomizers: Sequence[str]) -> Iterator[Attribute]:
        if self.fake is not None and self.fake not in FAKES:
            raise InputError("must be zero or random", value=self.fake, place="fake")
        if self.fake is not None and all(kind == "grr" for kind in randomizers):
            raise InputError("is for unary encodings: fake values of GRR are uniform", value=self.fake, place="fake")
        for (name, size), kind in zip(self.attributes.items(), randomizers, strict=True):
            randomizer = make_randomizer(kind, size, self.epsilon)
            zero = kind != "grr" and self.fake != "random"
            yield FakedAttribute(name, randomizer, None if zero else np.full(size, 1.0 / size))


@dataclass(frozen=True, eq=False)
class RSRFD(SampledWithFakes):
    """Random sampling plus realistic fake data (RS+RFD): fake values are drawn from priors.

    Fake values of GRR are sent as drawn. Those of SUE and OUE are encoded and perturbed as true ones are.

    Parameters
    ----------
    attributes : name -> number of values.
    epsilon : of the sampled attribute; the largest likelihood ratio of whole tuples is e^epsilon as well. What the
        paper claims is `claimed_epsilon`, and `RSRFD.claiming` takes that one.
    randomizer : "grr", "sue" or "oue", for all attributes or one for each.
    priors : attribute -> (values,) the probability of each fake value.

    Examples
    --------
    >>> priors = {"emoji": [0.5, 0.3, 0.2], "word": [0.9, 0.1]}
    >>> rsrfd = ps.mechanisms.RSRFD({"emoji": 3, "word": 2}, epsilon=2.0, priors=priors)
    >>> round(rsrfd.single_attribute_epsilon, 3), round(rsrfd.claimed_epsilon, 3)
    (1.859, 1.434)
    """

    _: KW_ONLY
    priors: Mapping[str, ArrayLike] = field(repr=False)

    def _parts(self, randomizers: Sequence[str]) -> Iterator[Attribute]:
        if not isinstance(self.priors, Mapping):
            raise InputError("must be a mapping from attributes to probabilities", value=self.priors, place="priors")
        for name in self.priors:
            if name not in self.attributes:
                raise InputError("must be the name of an attribute", value=name, place="priors")
        for (name, size), kind in zip(self.attributes.items(), randomizers, strict=True):
            if name not in self.priors:
                raise InputError("is missing", place=f"priors.{name}", remedy="give each attribute a prior")
            prior = checked_distribution(self.priors[name], size, f"priors.{name}")
            yield FakedAttribute(name, make_randomizer(kind, size, self.epsilon), prior)
