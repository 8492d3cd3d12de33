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

from poolscope.base.arrays import Floats
from poolscope.kernels.posterior import AHEAD
from poolscope.world.densities import Density

#: Sizes of rules: steps of 4 up to 64, of 8 up to 128, and so on, so that a grid is hardly larger than it must be.
RUNGS = (*range(8, 64, 4), *range(64, 128, 8), *range(128, 256, 16), *range(256, 512, 32), *range(512, 1025, 64))


def capacity(nodes: int) -> float:
    """Largest curvature in theta that a Gauss rule of so many nodes resolves."""
    return 0.08 * nodes * (nodes - 4)


class Axis(NamedTuple):
    """A ladder of Gauss rules for one density, laid end to end for the kernels.

    offsets (rungs + 1,) and degrees (rungs,) integers; capacities (rungs,); rules (5, sum of sizes): nodes x,
    complements 1 - x, weights, `bends`.
    """

    offsets: NDArray[np.int64]
    degrees: NDArray[np.int64]
    capacities: NDArray[np.float64]
    rules: NDArray[np.float64]


@lru_cache(maxsize=64)
def axis(density: Density, reports: int) -> Axis:
    """The rungs that up to `reports` reports can ask for, climbing AHEAD: more reports begin with the same."""
    sizes = _rungs(density, AHEAD * reports)
    rules = [density.rule(nodes) for nodes in sizes]
    return _laid_out(rules, [capacity(nodes) - density.sharpness for nodes in sizes])


def fixed_rule(density: Density, reports: int, fine: int = 1) -> Floats:
    """(5, nodes) one rule that holds any so many reports, with `fine` times the nodes."""
    return _laid_out([density.rule(fine * _rungs(density, reports)[-1])], [np.inf]).rules


def _rungs(density: Density, reports: float) -> list[int]:
    """Sizes up to the first that holds any so many reports."""
    sizes = []
    for nodes in RUNGS:
        sizes.append(nodes)
        if max(capacity(nodes) - density.sharpness, 2 * nodes - 1) >= reports:
            break
    return sizes


def point_axis() -> Axis:
    """The density concentrated at one, for likelihoods in which the axis cancels."""
    return _laid_out([(np.ones(1), np.zeros(1), np.ones(1))], [np.inf])


def bends(x: Floats, complement: Floats) -> Floats:
    """(2, nodes) coefficients of the curvature in the angle theta = arccos(1 - 2x) at each node.

    The curvature, minus the second difference, is bends[0] (here - left) + bends[1] (here - right). The integrand is
    even in the angle at both ends of the axis, so the neighbour of an end is its mirror image, from which nothing rises
    or falls. At an end the curvature counts twice: it doubles when the peak leaves it.
    """
    angle = 2.0 * np.arctan2(np.sqrt(x), np.sqrt(complement))
    before = np.diff(angle, prepend=-angle[0])
    after = np.diff(angle, append=2.0 * np.pi - angle[-1])
    if len(angle) == 1:
        return np.zeros((2, 1))
    twice = np.ones_like(angle)
    twice[[0, -1]] = 2.0
    found = twice * 2.0 / (np.stack([before, after]) * (before + after))
    found[0, 0] = found[1, -1] = 0.0
    return found


def _laid_out(rules: list[tuple[Floats, Floats, Floats]], capacities: list[float]) -> Axis:
    sizes = [len(x) for x, _, _ in rules]
    x, complement, weight = (np.concatenate(parts) for parts in zip(*rules, strict=True))
    return Axis(
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        degrees=np.array([2 * size - 1 for size in sizes], dtype=np.int64),
        capacities=np.array(capacities),
        rules=np.vstack([x, complement, weight, np.hstack([bends(x, complement) for x, complement, _ in rules])]),
    )
