"""Protocols that mechanisms satisfy, the description of report columns, and checks that all mechanisms share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arguments import is_integer
from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.core.errors import InputError


@dataclass(frozen=True)
class PoolWeights:
    """Weights of the objects within their pools, for several adversaries at once.

    An adversary is one view: its pools and its popularity within them. All views are evaluated in one pass over the
    reports.

    Parameters
    ----------
    columns : (views, universe) uint32, the output column of each object's pool; column v is the neutral pool of view v.
    weights : (views, universe) float64, the popularity of each object within its pool.
    width : number of output columns of all views together.

    Examples
    --------
    >>> columns = universe.pool_of[None].astype(np.uint32) + 1
    >>> pool_weights = ps.mechanisms.PoolWeights(columns, ps.popularity.within_pools(universe, popularity)[None], 4)
    >>> mechanism.mass({"value": np.array([0, 1])}, pool_weights).round(3)
    array([[0.   , 0.491, 0.   , 0.   ],
           [0.   , 0.214, 0.   , 0.   ]])
    """

    columns: NDArray[np.uint32]
    weights: Floats
    width: int

    def matrix(self) -> Floats:
        """Return the weights as a dense matrix (universe, width)."""
        out = np.zeros((self.columns.shape[1], self.width))
        for columns, weights in zip(self.columns, self.weights, strict=True):
            out[np.arange(len(columns)), columns] += weights
        return out


Reports = Mapping[str, NDArray[Any]]

#: Above this epsilon, e^-epsilon is subnormal.
MAX_EPSILON = 700.0


@dataclass(frozen=True)
class ReportColumn:
    """Describe the values of one report column, for readers and writers.

    Parameters
    ----------
    kind : "integer" 0..size-1; "bits", (reports, ceil(size / 8)) bytes of `size` bits, least significant first; "sign",
        1 or -1; "object", an index into the universe; "reals", (reports, size) finite numbers.
    size : number of values, bits or numbers.

    Examples
    --------
    >>> mechanism.report_columns["value"]
    ReportColumn(kind='object', size=30)
    """

    kind: Literal["integer", "bits", "sign", "object", "reals"]
    size: int = 2

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of one report's value."""
        return {"bits": (-(-self.size // 8),), "reals": (self.size,)}.get(self.kind, ())

    @property
    def count(self) -> int | None:
        """Number of possible values; None where they cannot be enumerated."""
        if self.kind == "bits":
            # with more bits, the output space is too large to enumerate
            return 1 << self.size if self.size <= 24 else None
        return {"integer": self.size, "object": self.size, "sign": 2}.get(self.kind)

    def values(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """Return the values with these indices, 0 to `count` - 1."""
        if self.kind == "sign":
            return (1 - 2 * index).astype(np.int8)
        if self.kind == "bits":
            bits = (index[:, None] >> np.arange(self.size)) & 1
            return np.packbits(bits.astype(np.uint8), axis=1, bitorder="little")
        return index.astype(np.int64)


class Mechanism(Protocol):
    """The interface that the game, the attacks and report files use.

    Examples
    --------
    >>> mechanism.universe, mechanism.epsilon, list(mechanism.report_columns)
    (30, 3.0, ['value'])
    """

    @property
    def epsilon(self) -> float: ...

    @property
    def universe(self) -> int:
        """Number of objects."""
        ...

    @property
    def report_columns(self) -> Mapping[str, ReportColumn]:
        """Description of each report column, in order."""
        ...

    @property
    def shared_column(self) -> str | None:
        """The column that names the public hash function or cohort of a report; None where there is none."""
        ...

    @property
    def likelihood_offset(self) -> float: ...

    @property
    def likelihood_scale(self) -> float: ...

    def obfuscate(self, objects: Objects, rng: np.random.Generator) -> Reports:
        """Draw one report for each object."""
        ...

    def report(self, objects: Objects, keys: Keys) -> Reports:
        """Draw one report for each object from the random stream of the report's key."""
        ...

    def mass(self, reports: Reports, pool_weights: PoolWeights) -> Floats:
        """Return (reports, width) masses m of the supports: Pr[report | pool] is proportional to offset + scale * m.

        Offset and scale are `likelihood_offset` and `likelihood_scale`.
        """
        ...

    def sent_masses(self, objects: Objects, keys: Keys, pool_weights: PoolWeights, rows: Integers, out: Floats) -> None:
        """Fill out[rows] with mass(report(objects, keys), pool_weights), without storing the reports."""
        ...

    def shared_by(self, keys: Keys) -> NDArray[np.integer] | None:
        """Return the value of the shared column for the report of each key; None without a shared column."""
        ...


class FrequencyOracle(Mechanism, Protocol):
    """A mechanism with an unbiased frequency estimate: each report assigns a score to each object.

    Sums of scores estimate how many reports were made from each object. Pure mechanisms score 1 for the objects that a
    report supports and 0 for the others. Other mechanisms use real-valued scores.

    Examples
    --------
    >>> mechanism.own_mean == mechanism.p_star, mechanism.binary_scores
    (True, True)
    >>> int(mechanism.score_sums(mechanism.obfuscate(np.zeros(100, dtype=np.int64), rng)).sum())
    100
    """

    @property
    def own_mean(self) -> float:
        """Mean score of the object that a report was made from; p* for binary scores."""
        ...

    @property
    def other_mean(self) -> float:
        """Mean score of any other object, also over the public randomness; q* for binary scores."""
        ...

    @property
    def binary_scores(self) -> bool:
        """Whether scores are 0 or 1, so that sums of scores are binomial."""
        ...

    @property
    def rates(self) -> SupportProbabilities:
        """Mean scores of each object, and the variance that collisions add."""
        ...

    def score_sum_variance(self, counts: Floats, reports: float) -> Floats:
        """Return (universe,) the variance of the score sums, given the true count of each object."""
        ...

    def scores(self, reports: Reports) -> NDArray[Any]:
        """Return (reports, universe) the score of each object by each report."""
        ...

    def score_sums(self, reports: Reports) -> NDArray[Any]:
        """Return (universe,) the sum of scores of each object; exact, hence independent of the order."""
        ...

    def tally(self, reports: Reports) -> NDArray[Any]:
        """Return (rows, universe) the score sums, and further rows that the regression needs."""
        ...

    def simulate_counts(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> NDArray[Any]:
        """Simulate the score sums of `count` reports on objects drawn from the popularity."""
        ...

    def simulate_tally(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> NDArray[Any]:
        """Simulate the tally of `count` reports on objects drawn from the popularity."""
        ...

    def simulate_at(
        self, epsilons: Sequence[float], popularity: Floats, count: int, key: np.uint64, threads: Map = map
    ) -> NDArray[Any]:
        """Return (epsilons, universe) `simulate_counts` of the mechanism at each of these values of ε."""
        ...


class HasLikelihood(Mechanism, Protocol):
    """A mechanism whose likelihood is known; the IBU estimate and the attack on memoized reports need it."""

    def likelihood(self, reports: Reports) -> Floats:
        """Return (reports, universe) Pr[report | z], up to a factor of each report."""
        ...

    def log_likelihood(self, reports: Reports) -> Floats:
        """Return (reports, universe) log Pr[report | z], up to a constant of each report; -inf is impossible."""
        ...

    def log_base_measure(self, reports: Reports) -> Floats:
        """Return (reports,) the constant that `log_likelihood` omits.

        It cancels in the posterior of fresh reports. For memoized responses it does not: it determines how likely two
        objects, or two devices, have equal responses.
        """
        ...


class SupportProbabilities(NamedTuple):
    """Probability that a report supports z: one number for all objects, or (universe,) by object.

    Parameters
    ----------
    p_star : the probability for reports made from z.
    q_star : the mean probability for reports made from other objects.
    collision_variance : variance of that probability over the other objects, due to fixed hash collisions.

    Examples
    --------
    >>> mechanism.rates.p_star == mechanism.p_star, mechanism.rates.q_star == mechanism.q_star
    (True, True)
    """

    p_star: float | Floats
    q_star: float | Floats
    collision_variance: float | Floats


def is_frequency_oracle(mechanism: object) -> TypeGuard[FrequencyOracle]:
    """Return whether the mechanism has a frequency estimate. By attribute, so that wrappers count too."""
    return all(hasattr(mechanism, name) for name in ("score_sum_variance", "tally", "simulate_tally"))


def require_frequency_oracle(mechanism: object) -> FrequencyOracle:
    """Return the mechanism as a `FrequencyOracle`, or raise an `InputError`."""
    if not is_frequency_oracle(mechanism):
        name, remedy = type(mechanism).__name__, "use the method ibu"
        raise InputError("this mechanism has no frequency estimate", value=name, remedy=remedy)
    return mechanism


def has_likelihood(mechanism: object) -> TypeGuard[HasLikelihood]:
    """Return whether the mechanism has likelihoods."""
    return all(hasattr(mechanism, name) for name in ("likelihood", "log_likelihood"))


def require_likelihood(mechanism: object) -> HasLikelihood:
    """Return the mechanism as a `HasLikelihood`, or raise an `InputError`."""
    if not has_likelihood(mechanism):
        raise InputError("this mechanism has no likelihoods", value=type(mechanism).__name__)
    return mechanism


def with_epsilon(mechanism: Any, epsilon: float) -> Any:
    """Return the mechanism with another ε."""
    return replace(mechanism, epsilon=epsilon)


def derived_field() -> Any:
    """Declare a parameter that is derived from the others where it is omitted (None)."""
    return field(default=None)


def set_frozen(mechanism: object, **values: object) -> None:
    """Set derived fields in `__post_init__` of a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(mechanism, name, value)


def report_count(reports: Reports) -> int:
    """Return the number of reports."""
    return len(next(iter(reports.values())))


def distinct(reports: Reports) -> tuple[Integers, Integers]:
    """Return the first row of each distinct report, ordered by its bytes, and (reports,) the index of each report."""
    rows = report_count(reports)
    if rows == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    columns = [np.ascontiguousarray(column).reshape(rows, -1).view(np.uint8) for column in reports.values()]
    flat = np.hstack(columns)
    whole = flat.view(np.dtype((np.void, flat.shape[1]))).ravel()
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    return first, which


def check_epsilon(epsilon: float) -> None:
    """Check that ε is positive; infinity means no noise."""
    if not epsilon > 0:
        raise InputError("epsilon must be positive", value=epsilon, place="epsilon")


def check_finite_epsilon(epsilon: float) -> None:
    """Check that ε is positive and finite in double precision, for mechanisms without a noiseless limit."""
    check_epsilon(epsilon)
    if epsilon > MAX_EPSILON:
        raise InputError(f"epsilon must be at most {MAX_EPSILON:g} for this mechanism", value=epsilon, place="epsilon")


def flip_probability(epsilon: float) -> float:
    """Return 1 / (1 + e^epsilon), the flip probability of a bit with the likelihood ratio e^epsilon."""
    return float(1.0 / (1.0 + np.exp(epsilon)) if epsilon < MAX_EPSILON else np.exp(-epsilon))


def check_objects(objects: Objects, universe: int) -> None:
    """Check that objects are indices into the universe."""
    if len(objects) and (objects.min() < 0 or objects.max() >= universe):
        bad = objects[(objects < 0) | (objects >= universe)][0]
        raise InputError(f"objects must be 0..{universe - 1}", value=int(bad))


#: Largest integer parameter: the kernels compute with signed 64-bit integers.
MAX_INTEGER = 1 << 62

#: Declared type -> predicate, and the name of the type in messages.
TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (is_integer, "a whole number"),
    "float": (lambda value: is_integer(value) or isinstance(value, float | np.floating), "a number"),
    "str": (lambda value: isinstance(value, str), "a string"),
}


def check_parameters(maker: Any, parameters: Mapping[str, Any]) -> None:
    """Check parameters against their declared types, before `__post_init__` computes with them."""
    known = inspect.signature(maker).parameters
    for name, value in parameters.items():
        if name in known and not (value is None and known[name].default is None):
            _check(name, value, str(known[name].annotation).partition(" ")[0])
    if is_integer(parameters.get("universe")) and parameters["universe"] < 1:
        raise InputError("must have at least one object", value=parameters["universe"], place="universe")


def _check(name: str, value: Any, declared: str) -> None:
    if declared not in TYPES:
        return
    matches, type_name = TYPES[declared]
    if not matches(value):
        remedy = "pass its size" if name == "universe" and hasattr(value, "size") else None
        raise InputError(f"must be {type_name}", value=value, place=name, remedy=remedy)
    if is_integer(value) and abs(int(value)) > MAX_INTEGER:
        raise InputError(f"must be at most {MAX_INTEGER}", value=value, place=name)
