"""What a mechanism is to the rest of the package: protocols, report columns, parameters and shared checks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arguments import is_integer
from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.core.errors import InputError


@dataclass(frozen=True)
class PoolWeights:
    """For each adversary, the column that an object counts to and its weight there.

    columns (views, universe) uint32, weights (views, universe) float64. Column v is the neutral pool of
    view v. Several adversaries, or several sets of pools, are attacked in one pass over the reports.

    Examples
    --------
    >>> columns = universe.pool_of[None].astype(np.uint32) + 1
    >>> views = ps.mechanisms.PoolWeights(columns, ps.popularity.within_pools(universe, popularity)[None], 4)
    >>> mechanism.mass({"value": np.array([0, 1])}, views).round(3)
    array([[0.   , 0.491, 0.   , 0.   ],
           [0.   , 0.214, 0.   , 0.   ]])
    """

    columns: NDArray[np.uint32]
    weights: Floats
    width: int

    def matrix(self) -> Floats:
        """(universe, width) the same as a dense matrix."""
        out = np.zeros((self.columns.shape[1], self.width))
        for columns, weights in zip(self.columns, self.weights, strict=True):
            out[np.arange(len(columns)), columns] += weights
        return out


Reports = Mapping[str, NDArray[Any]]

#: Above it e^-epsilon is no normal number any more.
MAX_EPSILON = 700.0


@dataclass(frozen=True)
class ReportColumn:
    """What a column of reports holds, for whoever reads and writes them.

    Parameters
    ----------
    kind : "integer" 0..size-1; "bits", (reports, ceil(size / 8)) bytes of `size` bits, least significant first; "sign",
        1 or -1; "object", an index into the universe; "reals", (reports, size) finite numbers.
    size : how many values, bits or numbers there are.

    Examples
    --------
    >>> mechanism.report_columns["value"]
    ReportColumn(kind='object', size=30)
    """

    kind: Literal["integer", "bits", "sign", "object", "reals"]
    size: int = 2

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of a report's value."""
        return {"bits": (-(-self.size // 8),), "reals": (self.size,)}.get(self.kind, ())

    @property
    def count(self) -> int | None:
        """How many values there are; None where they cannot be listed."""
        if self.kind == "bits":
            # more bits than these are too many reports anyway
            return 1 << self.size if self.size <= 24 else None
        return {"integer": self.size, "object": self.size, "sign": 2}.get(self.kind)

    def values(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """The values with these numbers, from 0 to below `count`."""
        if self.kind == "sign":
            return (1 - 2 * index).astype(np.int8)
        if self.kind == "bits":
            bits = (index[:, None] >> np.arange(self.size)) & 1
            return np.packbits(bits.astype(np.uint8), axis=1, bitorder="little")
        return index.astype(np.int64)


class Mechanism(Protocol):
    """What the game, the attack and files of reports need of a mechanism.

    Examples
    --------
    >>> mechanism.universe, mechanism.epsilon, list(mechanism.report_columns)
    (30, 3.0, ['value'])
    """

    @property
    def epsilon(self) -> float: ...

    @property
    def universe(self) -> int:
        """How many objects there are."""
        ...

    @property
    def report_columns(self) -> Mapping[str, ReportColumn]:
        """What each column of its reports holds, in order."""
        ...

    @property
    def shared_column(self) -> str | None:
        """The column that names the table a report is looked up in; None where each report stands alone."""
        ...

    @property
    def likelihood_offset(self) -> float: ...

    @property
    def likelihood_scale(self) -> float: ...

    def obfuscate(self, objects: Objects, rng: np.random.Generator) -> Reports:
        """One report for each object."""
        ...

    def report(self, objects: Objects, keys: Keys) -> Reports:
        """One report for each object, drawn from the report's own key."""
        ...

    def mass(self, reports: Reports, views: PoolWeights) -> Floats:
        """(reports, width): floor + slope * mass is Pr[report | pool], up to a factor common to the report."""
        ...

    def sent_masses(self, objects: Objects, keys: Keys, views: PoolWeights, positions: Integers, out: Floats) -> None:
        """out[places] = mass(report(objects, keys), views), without keeping the reports; out (any, width)."""
        ...

    def shared_by(self, keys: Keys) -> NDArray[np.integer] | None:
        """What the shared column of the report of each key will be, where there is one."""
        ...


class FrequencyOracle(Mechanism, Protocol):
    """What the curator's estimate needs of a mechanism: reports score objects, and the sums of scores tell how often
    each object was sent.

    A report scores one for an object that it supports and nothing for others, where it supports or not; it may also
    score more finely, or a number.

    Examples
    --------
    >>> mechanism.own_mean == mechanism.p_star, mechanism.binary_scores
    (True, True)
    >>> int(mechanism.score_sums(mechanism.obfuscate(np.zeros(100, dtype=np.int64), rng)).sum())
    100
    """

    @property
    def own_mean(self) -> float:
        """Mean score of the object that a report was made from: p* of supports."""
        ...

    @property
    def other_mean(self) -> float:
        """Mean score of another object, over the mechanism's public randomness as well: q* of supports."""
        ...

    @property
    def binary_scores(self) -> bool:
        """Whether a score is one or nothing: a sum of scores is then a binomial number."""
        ...

    @property
    def rates(self) -> Rates:
        """The means by the object, and what collisions add to the variance."""
        ...

    def noise(self, counts: Floats, reports: float) -> Floats:
        """(universe,) variance of the sums of so many reports' scores, given how many are of each object."""
        ...

    def scores(self, reports: Reports) -> NDArray[Any]:
        """(reports, universe) the score of each object by each report."""
        ...

    def score_sums(self, reports: Reports) -> NDArray[Any]:
        """(universe,) the sum of the reports' scores of each object; exact, so that the order does not matter."""
        ...

    def tally(self, reports: Reports) -> NDArray[Any]:
        """(rows, universe) the score sums, and below them what else a regression counts."""
        ...

    def simulate_counts(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> NDArray[Any]:
        """The score sums of so many reports on objects drawn from the popularity."""
        ...

    def simulate_tally(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> NDArray[Any]:
        """The tally of so many reports on objects drawn from the popularity."""
        ...

    def simulate_at(
        self, epsilons: Sequence[float], popularity: Floats, count: int, key: np.uint64, threads: Map = map
    ) -> NDArray[Any]:
        """(epsilons, universe) `simulate_counts` of the mechanism at each of these epsilons."""
        ...


class HasLikelihood(Mechanism, Protocol):
    """What needs the law itself of a mechanism: the estimate of most likelihood, the attack on devices with memory."""

    def likelihood(self, reports: Reports) -> Floats:
        """(reports, universe) Pr[report | z], up to a factor of the report."""
        ...

    def log_likelihood(self, reports: Reports) -> Floats:
        """(reports, universe) its natural logarithm, up to a constant of the report; -inf: impossible."""
        ...

    def log_base_measure(self, reports: Reports) -> Floats:
        """(reports,) that constant: log Pr[report | z] is the sum of the two.

        It cancels in the posterior of fresh reports. Whether two objects, or two devices, have one response by chance
        depends on it.
        """
        ...


class Rates(NamedTuple):
    """How often a report supports z, each one number or (universe,) by z.

    Parameters
    ----------
    own : if it was made from z; other : if it was made from another object, in the mean over these.
    variance : how far other objects differ in it because they collide with z more or less often, for good.

    Examples
    --------
    >>> mechanism.rates.own == mechanism.p_star, mechanism.rates.other == mechanism.q_star
    (True, True)
    """

    own: float | Floats
    other: float | Floats
    variance: float | Floats


def is_frequency_oracle(mechanism: object) -> TypeGuard[FrequencyOracle]:
    """Whether there is a frequency estimate. The object itself is asked: what wraps a mechanism may answer for it."""
    return all(hasattr(mechanism, name) for name in ("noise", "tally", "simulate_tally"))


def require_frequency_oracle(mechanism: object) -> FrequencyOracle:
    """The mechanism, for whoever must have its frequency estimate."""
    if not is_frequency_oracle(mechanism):
        name, remedy = type(mechanism).__name__, "take the method ibu"
        raise InputError("this mechanism has no frequency estimate", value=name, remedy=remedy)
    return mechanism


def has_likelihood(mechanism: object) -> TypeGuard[HasLikelihood]:
    """Whether it states its law."""
    return all(hasattr(mechanism, name) for name in ("likelihood", "log_likelihood"))


def require_likelihood(mechanism: object) -> HasLikelihood:
    """The mechanism, for whoever must have its law."""
    if not has_likelihood(mechanism):
        raise InputError("this mechanism does not state its likelihoods", value=type(mechanism).__name__)
    return mechanism


def with_epsilon(mechanism: Any, epsilon: float) -> Any:
    """The mechanism with another epsilon."""
    return replace(mechanism, epsilon=epsilon)


def derived_field() -> Any:
    """A parameter that follows from the others where it is left out (None)."""
    return field(default=None)


def set_frozen(mechanism: object, **values: object) -> None:
    """Set what follows from the parameters; for `__post_init__` of a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(mechanism, name, value)


def report_count(reports: Reports) -> int:
    """Rows of a set of report columns."""
    return len(next(iter(reports.values())))


def distinct(reports: Reports) -> tuple[Integers, Integers]:
    """Where each different report stands first, in the order of its bytes, and (reports,) which of them each is."""
    rows = report_count(reports)
    if rows == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    columns = [np.ascontiguousarray(column).reshape(rows, -1).view(np.uint8) for column in reports.values()]
    flat = np.hstack(columns)
    whole = flat.view(np.dtype((np.void, flat.shape[1]))).ravel()
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    return first, which


def check_epsilon(epsilon: float) -> None:
    """Positive; infinity is legal and means no noise."""
    if not epsilon > 0:
        raise InputError("epsilon must be positive", value=epsilon, place="epsilon")


def check_finite_epsilon(epsilon: float) -> None:
    """Positive and below what a double can tell from infinity, where a mechanism has no limit without noise."""
    check_epsilon(epsilon)
    if epsilon > MAX_EPSILON:
        raise InputError(f"epsilon must be at most {MAX_EPSILON:g} here", value=epsilon, place="epsilon")


def flip_probability(epsilon: float) -> float:
    """1 / (1 + e^epsilon): how often a bit must be flipped to have the likelihood ratio e^epsilon."""
    return float(1.0 / (1.0 + np.exp(epsilon)) if epsilon < MAX_EPSILON else np.exp(-epsilon))


def check_objects(objects: Objects, universe: int) -> None:
    """Objects are indices into the universe."""
    if len(objects) and (objects.min() < 0 or objects.max() >= universe):
        bad = objects[(objects < 0) | (objects >= universe)][0]
        raise InputError(f"objects must be 0..{universe - 1}", value=int(bad))


#: Numbers that a parameter may have: what is beyond does not fit into the kernels' integers.
LARGEST = 1 << 62

#: Declared type -> whether a value has it, and its name.
TYPES = {
    "int": (is_integer, "a whole number"),
    "float": (lambda value: is_integer(value) or isinstance(value, float | np.floating), "a number"),
    "str": (lambda value: isinstance(value, str), "a text"),
}


def check_parameters(maker: Any, parameters: Mapping[str, Any]) -> None:
    """Refuse values that are not of the declared types, before anything is computed with them."""
    known = inspect.signature(maker).parameters
    for name, value in parameters.items():
        if name in known and not (value is None and known[name].default is None):
            _check(name, value, str(known[name].annotation).partition(" ")[0])
    if is_integer(parameters.get("universe")) and parameters["universe"] < 1:
        raise InputError("must have at least one object", value=parameters["universe"], place="universe")


def _check(name: str, value: Any, declared: str) -> None:
    if declared not in TYPES:
        return
    fits, words = TYPES[declared]
    if not fits(value):
        remedy = "give its size" if name == "universe" and hasattr(value, "size") else None
        raise InputError(f"must be {words}", value=value, place=name, remedy=remedy)
    if is_integer(value) and abs(int(value)) > LARGEST:
        raise InputError(f"must be at most {LARGEST}", value=value, place=name)
