"""What mechanisms share whose reports name a public hash function: the functions, and reports grouped by them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Integers, Keys
from poolscope.mechanisms import hashing
from poolscope.mechanisms.defaults import Reporting
from poolscope.mechanisms.grouping import by_function, choose_functions
from poolscope.mechanisms.hashing import Buckets, HashFamily, Restricted, TableFamily, Tabulated
from poolscope.mechanisms.pure import Pure
from poolscope.mechanisms.role import Rates, ReportColumn, check_epsilon, settle


class Cells(NamedTuple):
    r"""The law of what reports add to the cells (function, bucket) of a sketch, given the report's function.

    A report adds `base` to a cell in the mean, and `gain` more where the reported object y has the cell. Let t(z) be
    what it adds to the cells of z, each less `base`; then, with J the number of cells that objects have in common,

    .. math:: \mathrm E[t(z)] &= \text{gain} \, J(z, y) \\
              \mathrm E[t(z) t(w)] &= \text{variance} \, J(z, w) + \text{own} \, J(z, w, y)
                                     + \text{hit} \, J(z, y) J(w, y)
    """

    base: float
    gain: float
    variance: float
    own: float
    hit: float


@dataclass(frozen=True, kw_only=True)
class Hashed(Reporting):
    """Reports whose shared column is the number of a function of `family`, drawn uniformly.

    Parameters
    ----------
    m : buckets of a function.
    hashes : how many functions.
    hash_table : a deployment's own functions, integers 0..m-1 (functions, universe); three-wise independent functions
        are computed on demand where absent. It is kept as the `TableFamily` that has checked it.
    seed : of the computed functions.
    """

    universe: int
    epsilon: float
    m: int
    hashes: int | None = None
    hash_table: NDArray[np.integer] | TableFamily | None = field(default=None, repr=False, compare=False)
    seed: int = 0
    family: Tabulated = field(init=False, repr=False)

    shared_column: ClassVar[str]

    def __post_init__(self) -> None:
        settle(self, family=self.make_family())

    def make_family(self) -> Tabulated:
        """The functions by which reports are grouped."""
        return self.functions(self.hashes)

    def functions(self, count: int | None) -> HashFamily:
        """So many functions, or those of the table."""
        found = hashing.family(
            universe=self.universe, m=self.m, hashes=count, hash_table=self.hash_table, seed=self.seed
        )
        if self.hash_table is not None:
            # the same mechanism with another epsilon need not check it again
            settle(self, hash_table=found)
        return found

    @property
    def shared(self) -> ReportColumn:
        """What the shared column holds."""
        return ReportColumn("integer", self.family.size)

    def shared_by(self, keys: Keys) -> Integers:
        return choose_functions(self.family, keys)

    def grouped(self, function: NDArray[np.integer]) -> Iterator[tuple[Buckets, Integers, Integers]]:
        """Reports by their functions (`by_function`), which are those of the shared column."""
        return by_function(self.family, function, self.shared_column)

    def positions(self, functions: NDArray[np.int64]) -> Buckets:
        """(functions, cells, universe) the buckets of every object under each function; m where there is none."""
        found = self.family.buckets(functions)
        return found.reshape(len(functions), -1, self.universe)


@dataclass(frozen=True, kw_only=True)
class Sketch(Hashed, Pure):
    r"""A pure mechanism on the bucket of the object, whose bit is flipped with probability xi.

    .. math:: p^* = 1 - \xi, \qquad q^* = p^* s + e (1 - s)

    where s is the share of the functions under which two objects meet (1/m, or that of a given table), and e how often
    a report supports an object that it does not meet (`elsewhere`): a mechanism states xi and e.
    """

    family: HashFamily = field(init=False, repr=False)

    shared_column = "hash"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.epsilon)

    @property
    @abstractmethod
    def flip(self) -> float:
        """xi, the probability that a bit is flipped."""

    @property
    @abstractmethod
    def elsewhere(self) -> float:
        """Probability that a report supports an object of another bucket than the reported one's."""

    def restricted(self, objects: Sequence[int]) -> Self:
        """The sketch of some objects alone, numbered in this order: what supports them is found without the others."""
        part = copy(self)
        chosen = np.array(objects, dtype=np.int64)
        settle(part, universe=len(chosen), family=Restricted(family=self.family, objects=chosen))
        return part

    @property
    def p_star(self) -> float:
        return 1.0 - self.flip

    @property
    def q_star(self) -> float:
        share = self.family.collisions.share
        return self.p_star * share + self.elsewhere * (1.0 - share)

    @property
    def support_prob_no_collision(self) -> float:
        return self.elsewhere

    @property
    def rates(self) -> Rates:
        collisions = self.family.collisions
        return Rates(self.p_star, self.q_star, (self.p_star - self.elsewhere) ** 2 * collisions.variance)
