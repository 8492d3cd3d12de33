r"""How many nodes the integral over (gamma, delta) needs.

Each factor of eq. (score_estimate) is bilinear and non-negative on the unit square of g = gamma and
u = (k delta - 1)/(k - 1). Along one axis it is a non-negative combination of x and 1 - x, so the product of n factors
is a non-negative combination of Bernstein polynomials x^j (1-x)^(n-j), and the relative error of a rule with N nodes is
at most

.. math:: e_n(N) = \max_j |Q_N[x^j (1-x)^{n-j}] / \int x^j (1-x)^{n-j} dx - 1| .

An error bound on every line gives the bound for the tensor rule. That is a proof for any reports. A factor that varies
little, with b = 1 - min/max along the axis, is a mixture of a constant and of x (or 1 - x), in which the latter takes
part with probability at most b once terms are weighed by their integrals: so n can be replaced by the *spread*, the sum
of b, and the bound by its mean over Poisson degrees: E[e_K(N)] <= 5e-11 for K Poisson(0.08 N (N - 4))
(`tests/test_quadrature.py` computes it). When n <= 2N - 1 the rule is exact whatever the spread.

Noisy reports need fewer nodes still, because what one report says another takes back. With x = (1 - cos theta)/2 the
nodes are evenly spaced in theta, and x^j (1-x)^(n-j) has curvature n at its peak in theta: it is the curvature that a
rule must resolve, and n stands for it in the bound. The attack measures the curvature of each pool's running product
every SPAN reports, on lines through its peak and elsewhere; within a span it adds each report's spread, and it never
asks for more than the spread of all. `tests/test_posterior.py` holds this choice against the exact rule, on reports
made to defeat it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

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
    """Largest curvature in theta that a Gauss rule of so many nodes resolves."""
    return 0.08 * nodes * (nodes - 4)


class Axis(NamedTuple):
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
