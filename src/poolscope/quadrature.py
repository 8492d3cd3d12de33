r"""How many nodes the integral over (gamma, delta) needs, with a proof.

Each factor of eq. (score_estimate) is bilinear and non-negative on the unit square of g = gamma and
u = (k delta - 1)/(k - 1). Along one axis it is min + (max - min) x or min + (max - min)(1 - x), that is, a
mixture of the constant one and of x (or 1 - x). Hence the product of n factors is a non-negative combination of
Bernstein polynomials x^j (1-x)^(K-j), and the relative error of a rule on the product is at most the mean, over the
mixture, of

.. math:: e_K(N) = \max_j |Q_N[x^j (1-x)^{K-j}] / \int x^j (1-x)^{K-j} dx - 1| .

Weighing each term by its integral makes a factor take part with probability at most b_t = 1 - min_t/max_t,
independently of the others, because the mean of x under any density is at most one. So the degree K that matters
is dominated by a Poisson number of mean b_1 + ... + b_n, the *spread* of the reports, however large n is. An error
bound on each axis for every line gives the bound for the tensor rule.

For Gauss-Legendre, E[e_K(N)] <= 2.5e-12 with K Poisson(0.0715 N (N-4)); `tests/test_quadrature.py` computes it.
When n <= 2N - 1 the rule is exact whatever the spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from poolscope.behaviour import Density, Floats

RUNGS = (
    8,
    12,
    16,
    20,
    24,
    32,
    40,
    48,
    64,
    80,
    96,
    128,
    160,
    192,
    256,
    320,
    384,
    512,
    640,
    768,
    1024,
)


def capacity(nodes: int) -> float:
    """Largest spread that a Gauss rule of so many nodes integrates to a relative error of 2.5e-12."""
    return 0.09 * nodes * (nodes - 4)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A ladder of Gauss rules for one density, laid end to end for the kernels.

    offsets (rungs + 1,) and degrees (rungs,) integers; capacities (rungs,); rules (4, sum of sizes): nodes x,
    complements 1 - x, weights, angles arccos(1 - 2x).
    """

    offsets: NDArray[np.int64]
    degrees: NDArray[np.int64]
    capacities: NDArray[np.float64]
    rules: NDArray[np.float64]


@lru_cache(maxsize=64)
def axis(density: Density, reports: int) -> Axis:
    """The rungs that up to `reports` reports can need."""
    sizes = []
    for nodes in RUNGS:
        sizes.append(nodes)
        if capacity(nodes) - density.sharpness >= reports or 2 * nodes - 1 >= reports:
            break
    rules = [density.rule(nodes) for nodes in sizes]
    return _laid_out(rules, [capacity(nodes) - density.sharpness for nodes in sizes])


def fixed_rule(density: Density, reports: int, fine: int = 1) -> Floats:
    """(4, nodes) one rule that holds any so many reports, with `fine` times the nodes."""
    ladder = axis(density, reports)
    size = fine * int(ladder.offsets[-1] - ladder.offsets[-2])
    return _laid_out([density.rule(size)], [np.inf]).rules


def point_axis() -> Axis:
    """The density concentrated at one, for likelihoods in which the axis cancels."""
    return _laid_out([(np.ones(1), np.zeros(1), np.ones(1))], [np.inf])


def _laid_out(rules: list[tuple[Floats, Floats, Floats]], capacities: list[float]) -> Axis:
    sizes = [len(x) for x, _, _ in rules]
    x, complement, weight = (np.concatenate(parts) for parts in zip(*rules, strict=True))
    return Axis(
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        degrees=np.array([2 * size - 1 for size in sizes], dtype=np.int64),
        capacities=np.array(capacities),
        rules=np.stack([x, complement, weight, 2.0 * np.arctan2(np.sqrt(x), np.sqrt(complement))]),
    )
