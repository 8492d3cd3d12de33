"""Custom mechanisms: any object with `obfuscate` and `log_likelihood`, adapted to the package's interface."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from poolscope.core.arguments import is_integer
from poolscope.core.arrays import Floats, Keys, Objects
from poolscope.core.errors import InputError
from poolscope.core.keyed_random import uniforms
from poolscope.mechanisms.protocols import (
    HasLikelihood,
    PoolWeights,
    ReportColumn,
    Reports,
    check_objects,
    distinct,
    report_count,
)
from poolscope.mechanisms.pure import (
    CELLS_LISTED,
    TOLERANCE,
    Likelihood,
    SupportOracle,
    all_probabilities,
    declared_columns,
    enumerate_reports,
    missing_base_measure,
)
from poolscope.population.universe import Universe

#: Reports that are drawn to test a table against the mechanism.
SAMPLES = 20_000

#: Name of the column of a mechanism whose reports are one array.
REPORT = "report"

#: Attributes that together give a mechanism the linear estimate.
SUPPORTING = ("support", "p_star", "q_star")


class CustomMechanism(Protocol):
    """The required methods of a custom mechanism; `adapt` lists optional ones.

    Reports are one array, or a mapping of arrays, with a row per report.
    """

    def obfuscate(self, objects: Objects, rng: np.random.Generator) -> ArrayLike | Mapping[str, ArrayLike]:
        """Draw one report for each object, independently."""
        ...

    def log_likelihood(self, reports: Any) -> ArrayLike:
        """Return (reports, universe) log Pr[report | z], up to a constant of each report; -inf is impossible."""
        ...


class _Table(NamedTuple):
    """All reports of a mechanism, and (objects, reports) their cumulative probabilities."""

    reports: Reports
    cumulative: Floats

    def report(self, objects: Objects, keys: Keys) -> Reports:
        """Draw a report for each object from its key."""
        draws, which = uniforms(np.asarray(keys, dtype=np.uint64)), np.empty(len(objects), dtype=np.int64)
        for z in np.unique(objects):
            rows = objects == z
            cumulative = self.cumulative[z] / self.cumulative[z, -1]
            which[rows] = np.searchsorted(cumulative, draws[rows], side="right")
        return {name: column[which] for name, column in self.reports.items()}

    def fits(self, objects: Objects, sampled: Reports, probabilities: Floats) -> bool:
        """Return whether samples follow the table; a true mechanism fails once in a million times."""
        both = {name: np.concatenate([column, sampled[name]]) for name, column in self.reports.items()}
        size = report_count(self.reports)
        _, which = distinct({name: np.ascontiguousarray(column) for name, column in both.items()})
        place = np.full(which.max() + 1, -1)
        place[which[:size]] = np.arange(size)
        found = place[which[size:]]
        if np.any(found < 0) or np.any(probabilities[found, objects] <= 0):
            return False
        # how often each report was sent, and how often each object's likeliest one, against what the table expects
        counts = np.bincount(objects, minlength=probabilities.shape[1])
        expected, spread = probabilities @ counts, (probabilities * (1 - probabilities)) @ counts
        seen = np.bincount(found, minlength=size)
        chance = probabilities.max(axis=0)[objects]
        hits = float(np.sum(found == probabilities.argmax(axis=0)[objects]))
        limit = -float(special.ndtri(5e-7 / (size + 1)))
        close = np.abs(seen - expected) <= limit * np.sqrt(spread) + limit**2 + 1
        near = abs(hits - chance.sum()) <= limit * np.sqrt(float(np.sum(chance * (1 - chance)))) + limit**2 + 1
        return bool(np.all(close) and near)


@dataclass(frozen=True, kw_only=True, eq=False)
class Adapted(Likelihood):
    """A custom mechanism with the interface of the built-in ones (see `adapt`).

    Every report is drawn by a separate call, with a generator seeded by the report's key. A report therefore depends
    neither on the user's other reports nor on blocks and threads. Where the output space is small and the likelihoods
    sum to 1 over it, they are tabulated, and reports are drawn from the table; samples of the mechanism that contradict
    the table are a warning, and the mechanism is called.

    Examples
    --------
    >>> class Shy:
    ...     epsilon = float(np.log(31))
    ...     def obfuscate(self, objects, rng):
    ...         return np.where(rng.random(len(objects)) < 0.5, objects, rng.integers(30, size=len(objects)))
    ...     def log_likelihood(self, reports):
    ...         return np.log(0.5 * (reports[:, None] == np.arange(30)) + 0.5 / 30)
    ...
    >>> shy = ps.mechanisms.adapt(Shy(), universe)
    >>> isinstance(shy, ps.mechanisms.Adapted), shy.universe
    (True, 30)
    """

    mechanism: CustomMechanism
    universe: int
    template: Reports = field(repr=False)
    bare: bool = field(repr=False)

    @property
    def epsilon(self) -> float:
        """The declared ε; NaN where the mechanism declares none."""
        return float(getattr(self.mechanism, "epsilon", math.nan))

    @property
    def report_columns(self) -> Mapping[str, ReportColumn]:
        columns: Mapping[str, ReportColumn] | None = getattr(self.mechanism, "report_columns", None)
        if columns is None:
            remedy = "add an attribute report_columns"
            raise InputError("this mechanism does not declare the columns of its reports", remedy=remedy)
        return columns

    def obfuscate(self, objects: Objects, rng: np.random.Generator) -> Reports:
        """Draw all reports in one call of the mechanism."""
        objects = np.asarray(objects, dtype=np.int64)
        check_objects(objects, self.universe)
        return as_columns(self.mechanism.obfuscate(objects, rng), len(objects))[0] if len(objects) else self.template

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        fast = getattr(self.mechanism, "report", None)
        if fast is not None and not _is_bypassed(type(self.mechanism), "report", "obfuscate"):
            return as_columns(fast(objects, keys), len(objects))[0]
        if self._table is not None:
            return self._table.report(objects, keys)
        seek = _streams()
        made = [as_columns(self.mechanism.obfuscate(objects[i : i + 1], seek(key)), 1)[0] for i, key in enumerate(keys)]
        if not made:
            return self.template
        return {name: np.concatenate([one[name] for one in made]) for name in self.template}

    def log_likelihood(self, reports: Reports) -> Floats:
        values = self.mechanism.log_likelihood(self._native(reports))
        return checked_likelihood(values, report_count(reports), self.universe)

    def log_base_measure(self, reports: Reports) -> Floats:
        """Return the mechanism's own base measure, or zeros where its probabilities sum to 1."""
        own = getattr(self.mechanism, "log_base_measure", None)
        if own is None and not self.is_normalized:
            raise missing_base_measure(self.mechanism)
        if own is None:
            return np.zeros(report_count(reports))
        count, values = report_count(reports), np.asarray(own(self._native(reports)), dtype=np.float64)
        if values.shape != (count,) or np.isnan(values).any() or np.any(values == np.inf):
            raise InputError(f"log_base_measure must give a number for each report, {(count,)}", value=values.shape)
        return values

    def _native(self, reports: Reports) -> Any:
        """Return the reports in the form that the mechanism returns."""
        return reports[REPORT] if self.bare else reports

    def mass(self, reports: Reports | NDArray[Any], pool_weights: PoolWeights) -> Floats:
        """Compute the masses of the distinct reports once each."""
        columns = as_columns(reports)[0]
        first, which = distinct(columns)
        return super().mass({name: column[first] for name, column in columns.items()}, pool_weights)[which]

    @cached_property
    def _table(self) -> _Table | None:
        """All reports and their probabilities; None where the output space is large, or samples contradict them."""
        found = all_probabilities(cast(HasLikelihood, self))
        if found is None:
            return None
        table = _Table(found[0], np.cumsum(found[1].T / found[1].sum(axis=0)[:, None], axis=1))
        objects = np.arange(SAMPLES) % self.universe
        sampled = as_columns(self.mechanism.obfuscate(objects, np.random.default_rng(0)), SAMPLES)[0]
        if self._as_template(sampled) is not None and table.fits(objects, sampled, found[1]):
            return table
        name = type(self.mechanism).__name__
        warnings.warn(
            f"{name}: samples of obfuscate do not fit log_likelihood; each report is drawn by obfuscate, which is "
            "slower; poolscope check tests the two against each other",
            stacklevel=2,
        )
        return None

    def all_reports(self) -> Reports | None:
        """Return every report, from the mechanism's own list or its columns; None where the output space is large."""
        offered = getattr(self.mechanism, "all_reports", None)
        if offered is not None:
            listed = offered()
            return None if listed is None else self._as_template(as_columns(listed)[0])
        if getattr(self.mechanism, "report_columns", None) is None:
            return self._guessed_reports()
        found = enumerate_reports(declared_columns(self), CELLS_LISTED // self.universe)
        return None if found is None else self._as_template(found)

    def _guessed_reports(self) -> Reports | None:
        """Return the object numbers if they are all reports: probabilities that sum to 1 leave room for no other."""
        column = self.template.get(REPORT)
        if not self.bare or column is None or column.ndim > 1 or not np.issubdtype(column.dtype, np.integer):
            return None
        numbers = np.arange(self.universe).astype(column.dtype)
        try:
            with np.errstate(all="ignore"):
                sums = np.exp(self.log_likelihood({REPORT: numbers})).sum(axis=0)
        except Exception:  # a mechanism with other reports may raise anything
            return None
        return {REPORT: numbers} if np.all(np.abs(sums - 1.0) < TOLERANCE) else None

    def _as_template(self, reports: Reports) -> Reports | None:
        """Return the reports with the types of the template; None where columns or shapes differ."""
        if set(reports) != set(self.template):
            return None
        if any(reports[name].shape[1:] != column.shape[1:] for name, column in self.template.items()):
            return None
        return {name: reports[name].astype(column.dtype) for name, column in self.template.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class SupportingAdapted(Adapted, SupportOracle):
    """A custom mechanism with support, p* and q*, which give it the linear estimate."""

    @property
    def p_star(self) -> float:
        return float(self.mechanism.p_star)  # type: ignore[attr-defined]

    @property
    def q_star(self) -> float:
        return float(self.mechanism.q_star)  # type: ignore[attr-defined]

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        found = np.asarray(self.mechanism.support(self._native(reports)))  # type: ignore[attr-defined]
        shape = report_count(reports), self.universe
        if found.shape != shape or found.dtype != np.bool_:
            value = f"{found.dtype} {found.shape}"
            raise InputError(f"support must give true or false for (reports, universe), {shape}", value=value)
        return found


def adapt(mechanism: CustomMechanism, universe: int | Universe) -> Adapted:
    """Adapt a custom mechanism for `Game`, `attack` and the other functions that take a mechanism.

    Parameters
    ----------
    mechanism : any object with ``obfuscate(objects, rng)`` and ``log_likelihood(reports)`` (`CustomMechanism`).
        Optional attributes: ``epsilon``, the declared ε; ``report(objects, keys)``, reports from one 64-bit key
        each, faster than one call per report; ``report_columns``, the columns of its files (`ReportColumn`);
        ``all_reports()``, all possible reports; ``log_base_measure(reports)``, (reports,) the constant that
        ``log_likelihood`` omits, needed for memoization unless the likelihoods sum to 1. With ``support(reports)``,
        ``p_star`` and ``q_star`` it has the linear frequency estimate.
    universe : the universe, or its size.

    Examples
    --------
    >>> class Honest:
    ...     epsilon = np.inf
    ...     def obfuscate(self, objects, rng):
    ...         return np.asarray(objects)
    ...     def log_likelihood(self, reports):
    ...         return np.where(reports[:, None] == np.arange(30), 0.0, -np.inf)
    ...
    >>> honest = ps.mechanisms.adapt(Honest(), universe)
    >>> honest.obfuscate(np.array([3, 4]), rng)
    {'report': array([3, 4])}
    """
    size = universe.size if isinstance(universe, Universe) else universe
    if not is_integer(size) or size < 1:
        raise InputError("universe must be a Universe or the number of objects", value=universe)
    if isinstance(mechanism, type):
        remedy = "create an instance first"
        raise InputError("must be a mechanism, not a class", value=mechanism.__name__, remedy=remedy)
    for name in ("obfuscate", "log_likelihood"):
        if not callable(getattr(mechanism, name, None)):
            raise InputError(f"a mechanism must have a method {name}", value=type(mechanism).__name__)
    # one report of the first object shows the columns and their types
    first = mechanism.obfuscate(np.zeros(1, dtype=np.int64), _streams()(np.uint64(0)))
    columns, bare = as_columns(first, 1)
    supporting = all(hasattr(mechanism, name) for name in SUPPORTING) and not _inherits_supports(type(mechanism))
    adapted = (SupportingAdapted if supporting else Adapted)(
        mechanism=mechanism,
        universe=int(size),
        template={name: column[:0] for name, column in columns.items()},
        bare=bare,
    )
    adapted.log_likelihood(columns)
    if isinstance(adapted, SupportingAdapted):
        adapted.support(columns)
        if not 0 <= adapted.q_star < adapted.p_star <= 1:
            rule = "p_star and q_star must be probabilities, with q_star < p_star"
            raise InputError(rule, value=(adapted.p_star, adapted.q_star))
    return adapted


def as_mechanism(given: Any, universe: int | Universe) -> Any:
    """Return a mechanism as it is, and what has only the methods of a custom one adapted to the universe."""
    if isinstance(given, type) or hasattr(given, "mass") or not hasattr(given, "log_likelihood"):
        return given
    return adapt(given, universe)


def owner(kind: type, name: str) -> type | None:
    """Return the class in the method resolution order that defines an attribute."""
    return next((own for own in kind.__mro__ if name in vars(own)), None)


def is_builtin_class(kind: type | None) -> bool:
    """Return whether a class belongs to this package; None counts as ours."""
    return kind is None or kind.__module__.partition(".")[0] == __name__.partition(".")[0]


def _is_bypassed(kind: type, method: str, other: str) -> bool:
    """Return whether `method` is inherited from a base of the class that overrides `other`, so that it ignores it."""
    of_one, of_other = owner(kind, method), owner(kind, other)
    return of_one is not of_other and of_one is not None and of_other is not None and issubclass(of_other, of_one)


def _inherits_supports(kind: type) -> bool:
    """Return whether supports are inherited from a built-in class while sampling or likelihood are overridden."""
    own = [
        name
        for name in ("obfuscate", "report", "likelihood", "log_likelihood")
        if not is_builtin_class(owner(kind, name))
    ]
    return bool(own) and any(
        owner(kind, name) is not None and is_builtin_class(owner(kind, name)) for name in SUPPORTING
    )


def as_columns(reports: ArrayLike | Mapping[str, ArrayLike], count: int | None = None) -> tuple[Reports, bool]:
    """Return reports as a mapping of arrays, and whether they were a single array."""
    bare = not isinstance(reports, Mapping)
    given = {REPORT: reports} if bare else reports
    assert isinstance(given, Mapping)
    try:
        columns = {name: np.asarray(column) for name, column in given.items()}
    except ValueError:  # rows of different lengths make no array
        raise InputError("reports must be arrays with a row for each report") from None
    if not columns:
        raise InputError("reports must have a column", value={})
    for name, column in columns.items():
        rows = report_count(columns) if count is None else count
        if column.ndim < 1 or len(column) != rows:
            rule = f"reports must have a row for each object, {rows}"
            raise InputError(rule, value=column.shape, place=None if bare else name)
    return columns, bare


def checked_likelihood(values: ArrayLike, reports: int, universe: int) -> Floats:
    """Return log-likelihoods as an array, checked for shape, NaN and +inf."""
    table = np.asarray(values, dtype=np.float64)
    if table.shape != (reports, universe):
        raise InputError(f"log_likelihood must give (reports, universe), {(reports, universe)}", value=table.shape)
    if np.any(np.isnan(table)) or np.any(table == np.inf):
        bad = table[np.isnan(table) | (table == np.inf)][0]
        raise InputError("log_likelihood must give numbers or -inf", value=bad)
    return table


def _streams() -> Callable[[np.uint64], np.random.Generator]:
    """Return a function that resets one generator to the start of a key's stream.

    Creating a generator per key takes ten times as long. Philox is counter-based: key and counter are its whole state.
    """
    bits = np.random.Philox(key=0)
    rng, state = np.random.Generator(bits), bits.state

    def seek(key: np.uint64) -> np.random.Generator:
        state["state"]["key"][0] = key
        bits.state = state
        return rng

    return seek
