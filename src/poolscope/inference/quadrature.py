r"""The number of nodes for the integral over (gamma, delta).

Each factor of eq. (score_estimate) is bilinear and non-negative on the unit square of g = gamma and
u = (k delta - 1)/(k - 1). Along one axis it is a non-negative combination of x and 1 - x, so the product of n factors
is a non-negative combination of Bernstein polynomials x^j (1-x)^(n-j), and the relative error of a rule with N nodes is
at most

.. math:: e_n(N) = \max_j |Q_N[x^j (1-x)^{n-j}] / \int x^j (1-x)^{n-j} dx - 1| .

An error bound on every line gives the bound for the tensor rule, for any reports. A factor that varies little, with
b = 1 - min/max along the axis, is a mixture of a constant and of x (or 1 - x). Weighted by their integrals, terms
contain the latter with probability at most b. So n can be replaced by the *spread*, the sum of b, and the bound by its
mean over Poisson degrees: E[e_K(N)] <= 5e-11 for K Poisson(`max_spread`)
(`tests/inference/test_quadrature.py` computes it). When n <= 2N - 1 the rule is exact whatever the spread.

Noisy reports need fewer nodes, because the information of one report is partly canceled by others. A rule is exact for
the orthogonal polynomials p_0 .. p_(2N-1) of its density: its error comes from the integrand's coefficients of p_2N and
beyond. The rule itself estimates coefficients well below p_N (near p_N there is aliasing). An integrand of sharpness s,
such as x^j (1-x)^(s-j) with an interior peak, is bell-shaped in the angle arccos(1 - 2x), in which nodes are evenly
spaced, and its coefficient of p_m is exp(-m^2 / 2s). So the error is the sixth power of the coefficient at
m = N sqrt(2/3), or the eighth of that at N sqrt(1/2), and s follows. The attack measures both, and the one before the
first, as one may vanish, on every line along g and on some along u, of every pool, each line weighted by its mass.

Until the next measurement s is bounded by its growth. It grows by at most the reports' bends and half their tilt: a
factor that is e^r times as large at one end as at the other bends an integrand by at most sinh^2(r/2), the curvature of
its logarithm in the angle, and a tilt can be canceled by another. It also grows by at most twice a report's spread, as
s doubles when a peak leaves an end of the axis, and never exceeds the spread of all reports.
`tests/inference/test_posterior.py` compares this choice with the exact rule, on adversarial reports.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError
from poolscope.kernels.adaptive_quadrature import FIRST_STAGE, MARGIN, MISSED, next_stage
from poolscope.kernels.quadrature_grid import ROWS
from poolscope.population.priors import Density

#: Sizes of rules: steps of 4 up to 64, of 8 up to 128, and so on, so that a grid is hardly larger than necessary.
RUNGS = (*range(8, 64, 4), *range(64, 128, 8), *range(128, 256, 16), *range(256, 512, 32), *range(512, 1025, 64))

#: Log of the largest relative error of a grid on an integrand of known sharpness.
TOLERANCE = -25.0


def max_spread(nodes: int) -> float:
    """Return the largest spread of all reports that a Gauss rule of this many nodes resolves, for any reports."""
    return 0.08 * nodes * (nodes - 4)


def max_sharpness(nodes: int) -> float:
    """Return the largest sharpness that it resolves: where exp(-(2 nodes)^2 / 2s) is the tolerance."""
    return -2.0 * nodes**2 / TOLERANCE


class GaussRules(NamedTuple):
    """A ladder of Gauss rules for one density, concatenated for the kernels.

    offsets (rungs + 1,) and degrees (rungs,) integers; resolutions (rungs,); rules (6, sum of sizes): nodes x,
    complements 1 - x, weights, `high_polynomials`.
    """

    offsets: NDArray[np.int64]
    degrees: NDArray[np.int64]
    resolutions: NDArray[np.float64]
    rules: NDArray[np.float64]


@lru_cache(maxsize=64)
def axis(density: Density, reports: int) -> GaussRules:
    """Return the rungs that up to `reports` reports can need; ladders for more reports start with the same rungs."""
    stage = FIRST_STAGE
    while stage < reports:
        stage = next_stage(stage)
    # twice, as coefficients with respect to a sharp density decay more slowly
    sharpness = 2.0 * density.sharpness
    sizes = _rule_sizes(lambda nodes: min(max_spread(nodes), max_sharpness(nodes)) - sharpness, stage + MARGIN + MISSED)
    return _concatenate_rules(density, sizes, [max_sharpness(nodes) - sharpness for nodes in sizes])


def fixed_rule(density: Density, reports: int, fine: int = 1) -> Floats:
    """Return (6, nodes) one rule that resolves any `reports` reports, with `fine` times the nodes."""
    nodes = _rule_sizes(lambda nodes: max_spread(nodes) - density.sharpness, reports)[-1]
    return _concatenate_rules(density, [fine * nodes], [np.inf]).rules


def gauss_rule(density: Density, nodes: int) -> tuple[Floats, Floats]:
    """Return nodes x and weights of the rule of this many nodes, or of as many in each piece of a density."""
    x, _, weight = _checked_rule(density, nodes)
    return x, weight


def _rule_sizes(held: Callable[[int], float], reports: float) -> list[int]:
    """Return the sizes up to the first that resolves any `reports` reports, or is exact for them."""
    enough = next((i for i, nodes in enumerate(RUNGS) if max(held(nodes), 2 * nodes - 1) >= reports), len(RUNGS))
    return list(RUNGS[: enough + 1])


def point_axis() -> GaussRules:
    """Return the density concentrated at one, for likelihoods in which the axis cancels."""
    rule = _table(1, np.ones(1), np.zeros(1), np.ones(1))
    return GaussRules(np.array([0, rule.shape[1]]), np.array([1]), np.array([np.inf]), rule)


def high_polynomials(x: Floats, weight: Floats) -> Floats:
    """Return (3, nodes) orthonormal polynomials, of two degrees near nodes sqrt(2/3) and one near nodes sqrt(1/2)."""
    found: Floats = np.zeros((3, len(x)))
    some = weight > 0  # polynomials have no values at nodes without weight
    x, weight, nodes = x[some], weight[some], np.count_nonzero(some)
    if nodes < 4 or x.min() == x.max():
        return found
    root = np.sqrt(weight / weight.sum())[:, None]
    middle, half = (x.min() + x.max()) / 2.0, (x.max() - x.min()) / 2.0
    basis = np.linalg.qr(root * np.polynomial.legendre.legvander((x - middle) / half, nodes - 1))[0] / root
    high = int(nodes * np.sqrt(2.0 / 3.0))
    found[:, some] = basis.T[[high, high - 1, int(nodes * np.sqrt(0.5)) - 1]]
    return found


def _concatenate_rules(density: Density, sizes: list[int], resolutions: list[float]) -> GaussRules:
    """Return an axis of the rules of these sizes."""
    tables = [_table(nodes, *_checked_rule(density, nodes)) for nodes in sizes]
    return GaussRules(
        offsets=np.concatenate([[0], np.cumsum([table.shape[1] for table in tables])]).astype(np.int64),
        degrees=np.array([2 * nodes - 1 for nodes in sizes], dtype=np.int64),
        resolutions=np.array(resolutions),
        rules=np.hstack(tables),
    )


def _checked_rule(density: Density, nodes: int) -> tuple[Floats, Floats, Floats]:
    """Return a density's rule, validated, as it may be custom: a node that is not a number would make every posterior
    NaN.
    """
    x, complement, weight = (np.asarray(part, dtype=np.float64) for part in density.rule(nodes))
    alike = x.ndim == 1 and x.shape == complement.shape == weight.shape
    inside = alike and np.all((x >= 0) & (x <= 1) & (complement >= 0) & (complement <= 1) & (weight >= 0))
    if not (inside and 0 < weight.sum() < np.inf):
        rule = "the rule of a density must have nodes and complements in [0, 1] and weights of at least 0"
        raise InputError(rule, value=density)
    return x, complement, weight


def _table(nodes: int, x: Floats, complement: Floats, weight: Floats) -> Floats:
    """Return one rule (6, size), of one or more pieces with this many nodes each; fewer where the density has no more
    points.

    The last node is repeated up to a multiple of ROWS, and the copies share its weight.
    """
    chunks, spare = max(len(x) // nodes, 1), -len(x) % ROWS
    parts = zip(np.split(x, chunks), np.split(weight, chunks), strict=True)
    table = np.vstack([x, complement, weight, np.hstack([high_polynomials(*part) for part in parts])])
    table[2, -1] /= 1 + spare
    return np.hstack([table, np.repeat(table[:, -1:], spare, axis=1)])
