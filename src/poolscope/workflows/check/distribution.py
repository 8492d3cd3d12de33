"""The law that a mechanism states: all its reports, their likelihoods, p* and q*, and whether these agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from poolscope.core.arrays import Floats
from poolscope.mechanisms.channel import exact_epsilon
from poolscope.mechanisms.protocols import Mechanism, PoolWeights, Reports
from poolscope.mechanisms.pure import CELLS_LISTED, Pure, all_reports, in_chunks
from poolscope.mechanisms.sketch import Sketch
from poolscope.metrics.intervals import clopper_pearson

#: Reports times objects for which the factor of each report is sought as well.
CELLS_SOLVED = 1 << 19

#: Largest universe of which supports are held as a matrix.
DENSE_UNIVERSE = 1 << 14

#: Objects and pairs of them below which all may differ from a mean by the luck of the hash functions.
FEWEST_OBJECTS, FEWEST_PAIRS = 10, 40

#: Confidence of all comparisons with the stated distribution and of all tests of independence, together: a correct
#: mechanism fails one of them once in a thousand checks. The two kinds share the error evenly.
LAW_CONFIDENCE = 0.999
INDEPENDENCE_ERROR = (1.0 - LAW_CONFIDENCE) / 2.0
#: Both sides of p* (twice), of q* and of the likelihoods, each of `obfuscate` and of `report`.
LAW_ERROR = (1.0 - LAW_CONFIDENCE) / 2.0 / 16.0


@dataclass(frozen=True, kw_only=True)
class Exact:
    """What the stated law promises, from every report that there is.

    epsilon : log of the largest Pr[report | z] / Pr[report | z'].
    reports : how many there are.
    consistent : whether probabilities exist that fit the stated likelihoods and p*; None where not sought.
    """

    epsilon: float
    reports: int
    consistent: bool | None


@dataclass(frozen=True, kw_only=True)
class Share:
    """A stated probability beside the bounds that samples give it; `kept` is None where they cannot judge it."""

    name: str
    stated: float
    low: float
    high: float
    passed: bool | None


def likelihoods(mechanism: Mechanism, reports: Reports, objects: Sequence[int]) -> Floats:
    """(reports, objects) Pr[report | z] of some objects by the stated law, up to a factor of the report.

    Through the masses of single objects: a mechanism of one's own may state these alone.
    """
    return mechanism.likelihood_offset + mechanism.likelihood_scale * _masses(mechanism, reports, objects)


def _masses(mechanism: Mechanism, reports: Reports, objects: Sequence[int]) -> Floats:
    """(reports, objects) the mass of pools of one object each."""
    if isinstance(mechanism, Sketch):
        return mechanism.restricted(objects).support(reports).astype(np.float64)
    if is_pure(mechanism) and mechanism.universe <= DENSE_UNIVERSE:
        # the fast path of a sketch pays off with many reports to a hash function only
        support = mechanism.support  # type: ignore[attr-defined]
        parts = in_chunks(reports, mechanism.universe, CELLS_LISTED)
        return np.concatenate([support(part)[:, list(objects)] for part in parts]).astype(np.float64)
    columns = np.zeros((1, mechanism.universe), dtype=np.uint32)
    weights = np.zeros((1, mechanism.universe))
    columns[0, list(objects)] = np.arange(1, len(objects) + 1)
    weights[0, list(objects)] = 1.0
    return mechanism.mass(reports, PoolWeights(columns, weights, len(objects) + 1))[:, 1:]


def is_pure(mechanism: Any) -> bool:
    """Whether a report is known by its support: one likelihood inside, another outside."""
    if isinstance(mechanism, Pure):
        return True
    # of one's own: supports, and no likelihood that says otherwise
    return hasattr(mechanism, "support") and (mechanism.likelihood_offset > 0 if states_law(mechanism) else True)


def states_law(mechanism: Mechanism) -> bool:
    """Whether the mechanism says anything of its law; one that only samples can be checked as well."""
    return all(hasattr(mechanism, name) for name in ("mass", "likelihood_offset", "likelihood_scale"))


def exact(mechanism: Mechanism) -> Exact | None:
    """The stated law's worst-case ratio by enumeration; None where there are too many reports or no law is stated."""
    if not states_law(mechanism):
        return None
    reports = all_reports(mechanism, CELLS_LISTED // mechanism.universe)
    if reports is None:
        return None
    distribution = likelihoods(mechanism, reports, range(mechanism.universe))
    consistent = None
    if distribution.size <= CELLS_SOLVED:
        support = mechanism.support(reports) if is_pure(mechanism) else None  # type: ignore[attr-defined]
        consistent = normalizes(distribution, support, stated(mechanism, "p_star"))
    return Exact(epsilon=exact_epsilon(distribution.T), reports=len(distribution), consistent=consistent)


def normalizes(distribution: Floats, support: NDArray[np.bool_] | None, p_star: float | None) -> bool:
    """Whether the likelihoods can be probabilities: sum to one for every object, and to p* over its support.

    The likelihood of a report is stated up to a factor of its own; sought are factors that are not negative (a linear
    programme).
    """
    ones = np.ones(distribution.shape[1])
    equations, values = distribution.T, ones
    if support is not None and p_star is not None:
        equations = np.vstack([equations, (distribution * support).T])
        values = np.concatenate([ones, p_star * ones])
    found = optimize.linprog(np.zeros(len(distribution)), A_eq=equations, b_eq=values, bounds=(0, None), method="highs")
    return int(found.status) != 2


def stated(mechanism: Any, name: str) -> float | None:
    """A probability of the mechanism, where it states one."""
    value = getattr(mechanism, name, None)
    return None if value is None else float(value)


def support_shares(
    mechanism: Mechanism, objects: Sequence[int], trials: Sequence[int], counts: NDArray[np.int64]
) -> tuple[Share, ...]:
    """p* and q* beside what reports of some objects show.

    Parameters
    ----------
    objects, trials : which objects, and how many reports of each.
    counts : (objects, universe) how many of the reports of each support every object of the universe.

    Notes
    -----
    p* of a pure mechanism holds for each object and for all of them together. Other probabilities are means over the
    mechanism's public randomness (hash functions), around which objects and pairs of objects scatter: a mean must lie
    between the lowest and the highest that they allow. A few may all lie on one side by luck; they judge nothing.
    """
    p, q = stated(mechanism, "p_star"), stated(mechanism, "q_star")
    if p is None or q is None:
        return ()
    n = np.asarray(trials, dtype=np.int64)
    own = counts[np.arange(len(objects)), list(objects)]
    pure = is_pure(mechanism)
    shares = [_exactly("p*", p, own, n) if pure else _between("p*", p, own, own, n, len(own), FEWEST_OBJECTS)]
    if mechanism.universe > 1:
        others = counts.copy()
        others[np.arange(len(objects)), list(objects)] = others[np.arange(len(objects)), np.array(objects) - 1]
        few, many = others.min(axis=1), others.max(axis=1)
        shares.append(_between("q*", q, few, many, n, others.size - len(objects), FEWEST_PAIRS))
    return tuple(shares)


def _exactly(name: str, value: float, hits: NDArray[np.int64], trials: NDArray[np.int64]) -> Share:
    """A probability that is the same in all samples."""
    each = clopper_pearson(hits, trials, LAW_ERROR / len(hits))
    low, high = (float(bound) for bound in clopper_pearson(int(hits.sum()), int(trials.sum()), LAW_ERROR))
    kept = bool(low <= value <= high and np.all(each[0] <= value) and np.all(value <= each[1]))
    return Share(name=name, stated=value, low=low, high=high, passed=kept)


def _between(
    name: str,
    value: float,
    few: NDArray[np.int64],
    many: NDArray[np.int64],
    trials: NDArray[np.int64],
    shares: int,
    fewest: int,
) -> Share:
    """A probability that is the mean of many shares, of which each object's smallest and largest count are given."""
    low = float(clopper_pearson(few, trials, LAW_ERROR / shares)[0].min())
    high = float(clopper_pearson(many, trials, LAW_ERROR / shares)[1].max())
    return Share(name=name, stated=value, low=low, high=high, passed=low <= value <= high if shares >= fewest else None)
