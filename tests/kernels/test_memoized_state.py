"""What sets of reports say is kept up to date bit by bit; here it is made anew each time."""

import numpy as np
import pytest
from cases.memoized import ORACLE
from cases.synthetic import SEED

from poolscope.devices.protocols import Bits
from poolscope.inference.memoized.chains import belief_of, init_chains
from poolscope.inference.memoized.state import slots_of, units_of
from poolscope.kernels.memoized_state import (
    log_join,
    log_joins,
    log_response_prob,
    log_stay,
    move,
    put,
    refresh,
    table,
    take,
)

N, RNG = 24, np.random.default_rng(SEED)
POSITIONS = np.array([[0, 1, 2, 1, 0], [3, 4, 5, 2, 6]])  # the last position is padding
LAWS = {
    "bits": Bits(RNG.integers(0, 2, size=(N, 6), dtype=np.uint8), POSITIONS, (0.8, 0.2), (0.75, 0.3)),
    "without noise anew": Bits(RNG.integers(0, 2, size=(N, 6), dtype=np.uint8), POSITIONS, (0.8, 0.2), (1.0, 0.0)),
}


@pytest.fixture(params=LAWS, ids=list(LAWS))
def chain(request):
    """One that has gone a while, so that sets have all sizes."""
    slots = slots_of(np.arange(5), ORACLE)
    units = units_of(LAWS[request.param], slots)
    first = init_chains(units, belief_of(ORACLE, slots, N), np.uint64(1), 1)[0]
    first.go(5)
    return first


def test_a_report_stays_as_it_would_join_the_others(chain):
    """And nothing is changed by asking."""
    units, sets = chain.units, chain.sets
    before = sets.ones.copy()
    checked = 0
    for u in range(N):
        g = sets.set_of[u]
        if sets.size[g] > 1:
            stay = log_stay(units, sets, u)
            np.testing.assert_array_equal(sets.ones, before)
            whole = log_response_prob(units, sets, g, sets.slot[g])
            take(units, sets, u)
            rest = log_response_prob(units, sets, g, sets.slot[g])
            assert stay == pytest.approx(whole - rest, abs=1e-9)
            assert stay == pytest.approx(log_join(units, sets, g, u), abs=1e-9)
            put(units, sets, u, g)
            checked += 1
    assert checked > 5


def test_a_set_that_moves_says_what_one_made_there_would(chain):
    units, sets = chain.units, chain.sets
    for g in chain.groups:
        for s in range(5):
            move(units, sets, g, s)
            assert sets.slot[g] == s
            said = [x.copy() for x in (sets.level[g], sets.base[g], sets.part[g], sets.gain[:, g])]
            refresh(units, sets, g)
            for now, anew in zip(said, (sets.level[g], sets.base[g], sets.part[g], sets.gain[:, g]), strict=True):
                np.testing.assert_array_equal(now, anew)


def test_all_sets_at_once_are_each_by_itself(chain):
    units, sets = chain.units, chain.sets
    top = int(sets.top[0])
    for u in range(N):
        out = np.linspace(-1.0, 1.0, top)
        expected = [x + log_join(units, sets, g, u) for g, x in enumerate(out)]
        log_joins(units, sets, u, out)
        there = sets.size[:top] > 0
        np.testing.assert_allclose(out[there], np.array(expected)[there], rtol=1e-12)


def test_tables_cumulate_the_law_of_each_set(chain):
    units, sets = chain.units, chain.sets
    for g in chain.groups:
        row = table(units, sets, g)
        distribution = (
            np.array([log_response_prob(units, sets, g, s) for s in range(5)]) + sets.total[g] * units.log_share
        )
        for k in range(len(units.first) - 1):
            own = slice(units.first[k], units.first[k + 1])
            weight = np.exp(distribution[own] - distribution[own].max())
            np.testing.assert_allclose(units.cumulative[row, own], np.cumsum(weight) / weight.sum(), rtol=1e-9)
            assert units.log_total[row, k] == pytest.approx(distribution[own].max() + np.log(weight.sum()), abs=1e-9)
