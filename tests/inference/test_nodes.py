"""Products at the nodes of a grid that no double holds, and reports that make them so at once."""

import numpy as np
import pytest
from cases.compiled import entry
from scipy import special

from poolscope.inference.posterior import posterior_of_likelihood
from poolscope.inference.quadrature import fixed_rule
from poolscope.kernels import quadrature_grid
from poolscope.population.priors import UNIFORM

scale_reports, init_grid = entry(quadrature_grid.scale_reports), entry(quadrature_grid.init_grid)
multiply_reports, rescale = entry(quadrature_grid.multiply_reports), entry(quadrature_grid.rescale)


def logarithms(scaled, rule_g, rule_u, k):
    """Logarithm of every product times its weight, (k, nodes of g, nodes of u)."""
    g, u = rule_g[:, :, None], rule_u[:, None, :]
    found = np.tile(np.log(g[2] * u[2]), (k, 1, 1))
    for row in scaled:
        for i in range(k):
            found[i] += np.log(row[0] * g[1] + g[0] * (row[1] * u[1] + row[i + 2] * u[0]))
    return found


@pytest.mark.default_cases("8-*", "256-0.0")
@pytest.mark.parametrize("least", [1e-300, 0.0])
@pytest.mark.parametrize("size", [8, 256])
def test_products_however_far_apart(size, least):
    """Some hundred reports for one pool, then for another: what was lost by thousands of powers of two comes back.

    A grid of 256 nodes has factors of 1e-11, and with a smallest value of zero nothing else bounds them.
    """
    k, rule = 2, fixed_rule(UNIFORM, 1)
    if size == 256:
        rule = fixed_rule(UNIFORM, 1, size // rule.shape[1])
    likelihood = np.repeat([[least, 1.0, least], [1.0, least, least], [least, least, 1.0]], (300, 0, 298), axis=0)
    prior, workspace = np.full(k, 0.5), quadrature_grid.node_workspace(len(likelihood), k)
    n = scale_reports(likelihood.ravel(), 0, np.array([0, k + 1, 1]), len(likelihood), 0.0, 1.0, workspace)
    grid, smallest = init_grid(rule, rule, prior, workspace)
    out = np.empty((n + 1, k))
    _, use_exponents = multiply_reports(0, n, smallest, False, grid, prior, workspace, out, np.empty(0))
    assert use_exponents
    rescale(use_exponents, grid, prior, workspace)
    logs = logarithms(workspace.scaled[:n], rule, rule, k)
    expected = special.softmax(special.logsumexp(logs, axis=(1, 2)))
    np.testing.assert_allclose(out[n], expected, rtol=1e-10)
    ours = (
        grid.product[:, : k * rule.shape[1]].reshape(rule.shape[1], k, -1).transpose(1, 0, 2)
        * workspace.scale[:, None, None]
    )
    np.testing.assert_allclose(ours / ours.sum(), np.exp(logs - special.logsumexp(logs)), rtol=1e-9, atol=1e-30)


def test_factors_below_every_double_end_too():
    """Nodes at the very end of an axis: each lane is rescaled, and comes to its end."""
    k, rule = 2, fixed_rule(UNIFORM, 1)
    rule[0, 0], rule[1, 0] = 1e-300, 1.0
    prior, workspace = np.full(k, 0.5), quadrature_grid.node_workspace(40, k)
    n = scale_reports(np.tile([0.0, 1.0, 0.0], 40), 0, np.array([0, 3, 1]), 40, 0.0, 1.0, workspace)
    grid, smallest = init_grid(rule, rule, prior, workspace)
    assert grid.min_ratio**quadrature_grid.LANE == 0
    out = np.empty((n + 1, k))
    multiply_reports(0, n, smallest, False, grid, prior, workspace, out, np.empty(0))
    assert np.isfinite(out[1:]).all()
    assert out[n, 0] > 1 - 1e-9


@pytest.mark.parametrize("seed", [3000, 3043])
def test_grids_of_a_stage_do_not_depend_on_what_follows_it(seed):
    """Reports almost without noise, of which the needs foreseen are beyond what any reports of the stage can need."""
    rng = np.random.default_rng(seed)
    k, ratio, n = int(rng.integers(2, 4)), np.exp(rng.uniform(4, 8)), 196
    rng.uniform(0.5, 0.97), rng.uniform(0.3, 0.9)
    turn, neutral = int(rng.integers(60, 160)), rng.random(n) < rng.uniform(0.4, 0.6)
    likelihood = np.ones((n, k + 1))
    likelihood[neutral, 0] = ratio
    before, after, share = np.exp(rng.uniform(0.05, 2)), np.exp(rng.uniform(0.05, 2)), rng.uniform(0.5, 0.8)
    for i in np.flatnonzero(~neutral):
        likelihood[i, 1:] = ratio
        pool = 1 if rng.random() < share else rng.integers(2, k + 1)
        likelihood[i, pool] *= before if i < turn else after
    stage = posterior_of_likelihood(likelihood[:192])
    np.testing.assert_array_equal(stage, posterior_of_likelihood(likelihood)[:193])
