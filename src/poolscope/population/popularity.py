"""Popularity: how often each object is picked, by a population or in an adversary's belief.

A popularity is a (size,) float64 array that sums to one. The *sections* of a universe are its pools of
interest and, where it is not empty, the neutral pool.
"""

from os import PathLike
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, rel_entr

from poolscope.core.arguments import as_floats, checked
from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError, format_value, located
from poolscope.core.tables import read_table
from poolscope.population.universe import MAX_OBJECTS, Universe, check_once, objects_of

__all__ = [
    "entropy",
    "given",
    "jensen_shannon",
    "project_to_simplex",
    "random",
    "read_popularity",
    "uniform",
    "within_pools",
    "zipf",
]


def __dir__() -> list[str]:
    return __all__


@checked
def uniform(universe: Universe) -> Floats:
    """Return the uniform popularity, (size,): the belief of an adversary without further knowledge.

    Examples
    --------
    >>> ps.popularity.uniform(universe)[:2].round(3)
    array([0.033, 0.033])
    """
    return np.full(universe.size, 1 / universe.size)


@checked
def zipf(universe: Universe, exponent: float) -> Floats:
    r"""Return Zipf popularities within each section; sections have equal mass (eq. zipfs_law, zipfs_laws_mixture).

    .. math:: p(x^i_j) = \frac{1}{\#\text{sections}} \; \frac{j^{-s}}{\sum_{c=1}^{|P_i|} c^{-s}}

    Parameters
    ----------
    universe
        The rank j of an object is its position among the objects of its section.
    exponent
        s >= 0; with 0 the popularity is uniform within sections.

    Returns
    -------
    (size,) float64

    Examples
    --------
    >>> ps.popularity.zipf(universe, 1.0)[:5].round(3)
    array([0.109, 0.055, 0.036, 0.027, 0.022])
    """
    if not 0 <= exponent < np.inf:
        raise InputError("must be a finite number, at least 0", value=exponent, place="exponent")
    section = _section_of(universe)
    by_section = np.argsort(section, kind="stable")
    sizes = np.bincount(section, minlength=universe.k + 1)
    first = np.cumsum(sizes) - sizes
    rank = np.empty(universe.size)
    rank[by_section] = np.arange(1, universe.size + 1) - first[section[by_section]]
    return _equal_mass(universe, rank**-exponent)


@checked
def random(universe: Universe, rng: np.random.Generator) -> Floats:
    """Return random popularities, (size,): uniform weights within each section; sections have equal mass.

    The paper's text draws one uniform weight for every object and normalizes over all of them. Its published utility
    (MAPE 14.41% at ε = 8 and 10^9 reports) requires sections of equal mass instead: these give 14.5%, the text's
    form 0.9%. The attack depends only on the popularity within pools, and is the same.

    Examples
    --------
    >>> float(ps.popularity.random(universe, rng)[:5].sum().round(3))
    0.25
    """
    # 1 - [0, 1) is (0, 1]: no section can have zero mass.
    return _equal_mass(universe, 1 - rng.random(universe.size))


@checked
def given(universe: Universe, weights: ArrayLike) -> Floats:
    """Return given weights, checked and normalized.

    Parameters
    ----------
    universe
        Every section must have positive mass, as user behavior is defined within sections.
    weights : (size,)
        Finite and non-negative, on any scale. Zeros are allowed.

    Returns
    -------
    (size,) float64

    Examples
    --------
    >>> ps.popularity.given(universe, np.arange(1, 31))[:3].round(4)
    array([0.0022, 0.0043, 0.0065])
    """
    checked = _checked(universe, weights)
    # divided by the maximum first, so that sums do not overflow
    scaled = checked / (checked.max() or 1)
    _check_masses(universe, scaled)
    popularity: Floats = scaled / scaled.sum()
    return popularity


@checked
def read_popularity(path: str | PathLike[str], universe: Universe) -> Floats:
    """Read a popularity from a table ``object,popularity``, CSV or Parquet, in any order of rows.

    Returns
    -------
    (size,) float64
        As :func:`given` returns it. Every object of the universe must have one row.

    Examples
    --------
    >>> lines = [f"{z},{z + 1}" for z in range(30)]
    >>> _ = open("popularity.csv", "w").write("\\n".join(["object,popularity", *lines]))
    >>> ps.popularity.read_popularity("popularity.csv", universe)[-2:].round(4)
    array([0.0624, 0.0645])
    """
    table = read_table(path, ("object", "popularity"), max_rows=MAX_OBJECTS)
    index = objects_of(table, "object", universe).to_numpy()
    check_once(table)
    weights = np.full(universe.size, np.nan)
    weights[index] = table.numbers("popularity")
    with located(file=path):
        if len(index) < universe.size:
            missing = _name(universe, int(np.isnan(weights).argmax()))
            raise InputError(f"must list every object of the universe, {missing} is missing")
        return given(universe, weights)


@checked
def within_pools(universe: Universe, popularity: ArrayLike, *, empty: Literal["error", "uniform"] = "error") -> Floats:
    """Return the popularity of each object given its section.

    Parameters
    ----------
    universe
        k pools and the neutral pool.
    popularity : (size,)
        Finite and non-negative, on any scale.
    empty
        How to treat a section without mass: raise an error, or make it uniform, as where an estimate is 0 for all of
        its objects.

    Returns
    -------
    (size,) float64
        Sums to one over each section.

    Examples
    --------
    >>> ps.popularity.within_pools(universe, popularity)[:5].round(3)
    array([0.491, 0.214, 0.131, 0.093, 0.071])
    """
    weights = _checked(universe, popularity)
    if empty == "error":
        _check_masses(universe, weights)
    else:
        section = _section_of(universe)
        weights = np.where(_largest(universe, weights)[section] > 0, weights, 1.0)
    return _normalized(universe, weights)


@checked
def entropy(universe: Universe, popularity: ArrayLike) -> Floats:
    r"""Return (k,) the Shannon entropy in bits of the popularity within each pool of interest.

    .. math:: H_i = - \sum_{z \in P_i} p(z \mid P_i) \log_2 p(z \mid P_i)

    Examples
    --------
    >>> ps.popularity.entropy(universe, ps.popularity.uniform(universe)).round(3)
    array([2.322, 2.322, 2.322])
    """
    nats = entr(within_pools(universe, popularity, empty="uniform"))
    bits: Floats = _section_sums(universe, nats)[1:] / np.log(2)
    return bits


def project_to_simplex(v: ArrayLike) -> Floats:
    r"""Return the Euclidean projection of ``v`` onto the probability simplex.

    .. math:: x_i = \max(v_i - \theta, 0), \quad \sum_i x_i = 1

    The support are the j largest entries, for the largest j with :math:`v_{(j)} > \theta_j = (\sum_{i \le j} v_{(i)} -
    1) / j` (Held, Wolfe and Crowder 1974; Duchi et al. 2008). The paper's alternating projections onto the hyperplane
    and the orthant converge to the same vector: after the first step every shift is downward, so that entries at 0 stay
    at 0, and all others have been shifted by the same amount.

    Parameters
    ----------
    v : (d,)
        Finite. O(d log d).

    Returns
    -------
    (d,) float64

    Examples
    --------
    >>> ps.popularity.project_to_simplex([0.5, 0.75, -0.5])
    array([0.375, 0.625, 0.   ])
    """
    values: Floats = np.asarray(v, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise InputError("must be a one-dimensional array", value=values.shape, place="v")
    if not np.isfinite(values).all():
        raise InputError("must be finite", value=values[~np.isfinite(values)][0], place="v")
    # A common shift does not change the projection; with the maximum at 0 there is no cancellation. Entries more than 1
    # below the maximum are outside the support.
    with np.errstate(over="ignore"):
        values = np.maximum(values - values.max(), -1)
    descending = np.sort(values)[::-1]
    counts = np.arange(1, values.size + 1)
    support = int(np.flatnonzero(descending * counts > np.cumsum(descending) - 1)[-1]) + 1
    # np.sum is pairwise and more accurate than the running sum
    theta = (descending[:support].sum() - 1) / support
    projected: Floats = np.maximum(values - theta, 0)
    return projected


def jensen_shannon(p: ArrayLike, q: ArrayLike) -> float:
    r"""Return the Jensen-Shannon divergence of two popularities in bits, from 0 (equal) to 1 (disjoint).

    .. math:: \tfrac12 D(p \,\|\, m) + \tfrac12 D(q \,\|\, m), \quad m = \tfrac12 (p + q)

    Examples
    --------
    >>> ps.popularity.jensen_shannon([1.0, 0.0], [0.0, 1.0])
    1.0
    """
    p, q = as_floats("p", p), as_floats("q", q)
    # both arguments doubled, so that half of a subnormal number does not underflow
    nats = (rel_entr(2 * p, p + q) + rel_entr(2 * q, p + q)).sum() / 4
    return float(np.clip(nats / np.log(2), 0, 1))


def _section_of(universe: Universe) -> Integers:
    """Return (size,) the section of each object: 0 is neutral, i + 1 is pool i."""
    return universe.pool_of + 1


def _section_sums(universe: Universe, values: Floats) -> Floats:
    """Return (k + 1,) the sums over sections."""
    sums = np.bincount(_section_of(universe), weights=values, minlength=universe.k + 1)
    return sums.astype(np.float64, copy=False)


def _largest(universe: Universe, weights: Floats) -> Floats:
    """Return (k + 1,) the largest weight in each section; 0 where the neutral pool is empty."""
    largest = np.zeros(universe.k + 1)
    np.maximum.at(largest, _section_of(universe), weights)
    return largest


def _normalized(universe: Universe, weights: Floats) -> Floats:
    """Return weights normalized over each section; every section has mass."""
    section = _section_of(universe)
    # divided by the maximum first, so that sums neither overflow nor are subnormal
    scaled = weights / _largest(universe, weights)[section]
    within: Floats = scaled / _section_sums(universe, scaled)[section]
    return within


def _equal_mass(universe: Universe, weights: Floats) -> Floats:
    sections = universe.k + (universe.neutral_size > 0)
    return _normalized(universe, weights) / sections


def _checked(universe: Universe, weights: ArrayLike) -> Floats:
    checked: Floats = np.asarray(weights, dtype=np.float64)
    if checked.shape != (universe.size,):
        raise InputError(
            f"must have one entry for each of {universe.size} objects",
            value=checked.shape,
            place="popularity",
        )
    wrong = ~((checked >= 0) & (checked < np.inf))
    if wrong.any():
        i = int(wrong.argmax())
        raise InputError(
            f"must be a finite number, at least 0, for object {_name(universe, i)}",
            value=checked[i],
            place="popularity",
        )
    return checked


def _check_masses(universe: Universe, weights: Floats) -> None:
    """Raise an `InputError` on the first section that has objects but no mass."""
    largest = _largest(universe, weights)
    for i, name in enumerate(universe.pool_names, start=1):
        if largest[i] == 0:
            _raise_no_mass(f"pool {format_value(name)}")
    if universe.neutral_size > 0 and largest[0] == 0:
        _raise_no_mass("the neutral pool")


def _raise_no_mass(section: str) -> None:
    raise InputError(
        f"must have positive total popularity in {section}",
        value=0,
        place="popularity",
        remedy="give one of its objects a popularity above 0",
    )


def _name(universe: Universe, index: int) -> str:
    return format_value(index if universe.objects is None else universe.objects[index])
