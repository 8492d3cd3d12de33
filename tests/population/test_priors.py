"""Gauss rules of priors: as many moments as they promise, also where thousands of nodes are needed."""

import numpy as np
import pytest

from poolscope.population.priors import StepDensity, gauss_rule


def moment(weights, power):
    """Of a step density, in closed form."""
    edges = np.linspace(0.0, 1.0, len(weights) + 1) ** (power + 1) / (power + 1)
    return np.diff(edges) @ weights * len(weights) / np.sum(weights)


@pytest.mark.default_cases("*-1", "*-2", "*-7", "*-60", "weights0-2501")
@pytest.mark.parametrize("nodes", [1, 2, 7, 60, 2501])
@pytest.mark.parametrize("weights", [(1.0, 0.0, 3.0), (0.0, 2.0, 1.0, 0.0, 0.0, 5.0)])
def test_the_rule_of_a_step_density_with_zeros_is_exact(weights, nodes):
    """2,501 nodes are what 5,000 reports need: minutes, were every polynomial held against all before it."""
    x, complement, weight = StepDensity(weights).rule(nodes)
    np.testing.assert_allclose(complement, 1.0 - x)
    assert weight.min() >= 0.0
    for power in {0, 1, min(2, 2 * nodes - 1), nodes, 2 * nodes - 1}:
        # a node is known to some units in the last place, and the power multiplies that
        assert weight @ x**power == pytest.approx(moment(weights, power), rel=1e-13 * (10 + power))


def test_a_rule_with_too_few_nodes_is_seen_to_fail():
    x, _, weight = StepDensity((1.0, 0.0, 3.0)).rule(3)
    assert abs(weight @ x**6 / moment((1.0, 0.0, 3.0), 6) - 1.0) > 1e-6


def test_a_discrete_measure_is_its_own_rule():
    x, mass = np.array([0.9, 0.1, 0.4]), np.array([0.2, 0.5, 0.3])
    points, _, weights = gauss_rule(x, mass, 8)
    order = np.argsort(x)
    np.testing.assert_allclose(points, x[order], rtol=1e-14)
    np.testing.assert_allclose(weights, mass[order], rtol=1e-13)
