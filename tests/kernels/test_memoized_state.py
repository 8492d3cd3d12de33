"""Incremental updates of the likelihood terms of clusters, against recomputation."""

import numpy as np
import pytest
from cases.memoized import ORACLE
from cases.synthetic import SEED

from poolscope.devices.protocols import NoisyBits
from poolscope.inference.memoized.chains import belief_of, init_chains
from poolscope.inference.memoized.state import items_of, slots_of
from poolscope.kernels.memoized_state import (
    add_log_joins,
    insert_report,
    log_join,
    log_leave,
    log_response_prob,
    move,
    remove_report,
    table_row,
    update_likelihood,
)

N, RNG = 24, np.random.default_rng(SEED)
POSITIONS = np.array([[0, 1, 2, 1, 0], [3, 4, 5, 2, 6]])  # the last position is padding
LAWS = {
    "bits": NoisyBits(RNG.integers(0, 2, size=(N, 6), dtype=np.uint8), POSITIONS, (0.8, 0.2), (0.75, 0.3)),
    "without noise anew": NoisyBits(RNG.integers(0, 2, size=(N, 6), dtype=np.uint8), POSITIONS, (0.8, 0.2), (1.0, 0.0)),
}


@pytest.fixture(params=LAWS, ids=list(LAWS))
def chain(request):
    """One that has gone a while, so that clusters have all sizes."""
    slots = slots_of(np.arange(5), ORACLE)
    items = items_of(LAWS[request.param], slots)
    first = init_chains(items, belief_of(ORACLE, slots, N), np.uint64(1), 1)[0]
    first.run(5)
    return first


def test_a_report_stays_as_it_would_join_the_others(chain):
    """And nothing is changed by asking."""
    items, clusters = chain.items, chain.clusters
    before = clusters.ones.copy()
    checked = 0
    for u in range(N):
        g = clusters.cluster_of[u]
        if clusters.size[g] > 1:
            stay = log_leave(items, clusters, u)
            np.testing.assert_array_equal(clusters.ones, before)
            whole = log_response_prob(items, clusters, g, clusters.slot[g])
            remove_report(items, clusters, u)
            rest = log_response_prob(items, clusters, g, clusters.slot[g])
            assert stay == pytest.approx(whole - rest, abs=1e-9)
            assert stay == pytest.approx(log_join(items, clusters, g, u), abs=1e-9)
            insert_report(items, clusters, u, g)
            checked += 1
    assert checked > 5


def test_a_set_that_moves_says_what_one_made_there_would(chain):
    items, clusters = chain.items, chain.clusters
    for g in chain.active:
        for s in range(5):
            move(items, clusters, g, s)
            assert clusters.slot[g] == s
            said = [
                x.copy()
                for x in (clusters.log_prob[g], clusters.base[g], clusters.bit_gain[g], clusters.join_bit[:, g])
            ]
            update_likelihood(items, clusters, g)
            for now, anew in zip(
                said,
                (clusters.log_prob[g], clusters.base[g], clusters.bit_gain[g], clusters.join_bit[:, g]),
                strict=True,
            ):
                np.testing.assert_array_equal(now, anew)


def test_all_sets_at_once_are_each_by_itself(chain):
    items, clusters = chain.items, chain.clusters
    top = int(clusters.end[0])
    for u in range(N):
        out = np.linspace(-1.0, 1.0, top)
        expected = [x + log_join(items, clusters, g, u) for g, x in enumerate(out)]
        add_log_joins(items, clusters, u, out)
        there = clusters.size[:top] > 0
        np.testing.assert_allclose(out[there], np.array(expected)[there], rtol=1e-12)


def test_tables_cumulate_the_law_of_each_set(chain):
    items, clusters = chain.items, chain.clusters
    for g in chain.active:
        row = table_row(items, clusters, g)
        distribution = (
            np.array([log_response_prob(items, clusters, g, s) for s in range(5)])
            + clusters.n_reports[g] * items.log_share
        )
        for k in range(len(items.first) - 1):
            own = slice(items.first[k], items.first[k + 1])
            weight = np.exp(distribution[own] - distribution[own].max())
            np.testing.assert_allclose(items.cumulative[row, own], np.cumsum(weight) / weight.sum(), rtol=1e-9)
            assert items.log_total[row, k] == pytest.approx(distribution[own].max() + np.log(weight.sum()), abs=1e-9)
