"""Steps of a chain over tables of permanent responses sample the stated distributions."""

from itertools import product

import numpy as np
import pytest
from cases.memoized import ORACLE

from poolscope.inference.memoized.response_map_samplers import TableSampler
from poolscope.inference.memoized.tables import ResponseCounts
from poolscope.kernels.memoized_table_chains import draw_behavior, gibbs_slot_pair, refresh

COUNTS = np.array([5, 2, 1])
LOG_LAW = np.log(np.random.default_rng(3).dirichlet(np.ones(4), size=4))
MASS = np.array([[0.0, 0.7, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
BASE, FIXED = np.zeros((3, 3)), np.array([[0.2, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.3]])

#: Uniform numbers on a grid: each outcome has its share of them, but for the cells that its edge crosses.
STEPS = 120

#: Where slots 0 and 1 are redrawn: neither is needed, one response needs one of them, two need both.
CASES = {
    "noise": (BASE, (0.1, 0.6), [0, 1, 2, 0]),
    "fixed": (FIXED, (0.0, 1.0), [0, 1, 2, 0]),
    "one is needed": (BASE, (0.0, 1.0), [0, 1, 2, 0]),
    "two are needed": (BASE, (0.0, 1.0), [0, 1, 2, 2]),
}


def chain_of(base, rate, table):
    tables = ResponseCounts(MASS, LOG_LAW, COUNTS, base, rate)
    sampler = TableSampler(tables, ORACLE)
    chain = sampler.start(np.uint64(1))
    chain.table[:] = table
    chain.power[0] = COUNTS
    refresh(sampler.problem, chain, 0, sampler.workspace)
    return sampler, chain


def likelihood(table, phi, base_weight, rate):
    """Of the whole table, at weights phi of the slots."""
    total = LOG_LAW[np.arange(4), table].sum()
    for y, count in enumerate(COUNTS):
        weight = base_weight[y] + phi[np.array(table) == y].sum()
        chance = rate[0] + rate[1] * weight
        total += count * np.log(chance) if chance > 0 else -np.inf
    return total


@pytest.mark.parametrize("name", CASES)
def test_two_slots_are_redrawn_from_their_joint_law(name):
    base, rate, table = CASES[name]
    sampler, chain = chain_of(base, rate, table)
    phi, base_weight = (
        chain.phi[0].copy(),
        chain.weight[0] - [chain.phi[0][chain.table[0] == y].sum() for y in range(3)],
    )
    logs = np.array([[likelihood([a, b, *table[2:]], phi, base_weight, rate) for b in range(4)] for a in range(4)])
    expected = np.exp(logs - logs.max())
    expected /= expected.sum()
    found, grid = np.zeros((4, 4)), (np.arange(STEPS) + 0.5) / STEPS
    for one, two in product(grid, grid):
        gibbs_slot_pair(sampler.problem, chain, 0, 0, 1, sampler.workspace, one, two)
        found[chain.table[0, 0], chain.table[0, 1]] += 1 / STEPS**2
    np.testing.assert_allclose(found, expected, atol=2 / STEPS)
    assert found[expected == 0].sum() == 0
    weight, holders = chain.weight[0].copy(), chain.holders[0].copy()
    refresh(sampler.problem, chain, 0, sampler.workspace)
    np.testing.assert_allclose(weight, chain.weight[0], atol=1e-9)
    np.testing.assert_array_equal(holders, chain.holders[0])


@pytest.mark.parametrize("name", CASES)
def test_the_posterior_of_the_pools_given_a_table_and_the_interest(name):
    base, rate, table = CASES[name]
    sampler, chain = chain_of(base, rate, table)
    draw_behavior(sampler.problem, chain, 0, sampler.workspace, 0.3, 0.6)
    problem, gamma = sampler.problem, sampler.problem.interest[0, chain.behavior[0, 1]]
    share = base.copy()
    np.add.at(share, [y for y in table if y < 3], MASS[[y < 3 for y in table]])
    expected = np.zeros(2)
    for pool, (delta, other, log_weight) in product(range(2), problem.polarization.T):
        section = np.array([1 - gamma, gamma * other, gamma * other])
        section[pool + 1] = gamma * delta
        expected[pool] += np.exp(log_weight) * np.prod((rate[0] + rate[1] * share @ section) ** COUNTS)
    np.testing.assert_allclose(sampler.workspace.posterior, expected / expected.sum(), rtol=1e-9)
