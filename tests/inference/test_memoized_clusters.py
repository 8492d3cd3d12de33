"""Users with many clusters of reports: chains sample the clustering, the occupancy model sums out the rest."""

from functools import cache

import numpy as np
import pytest
from cases.memoized import STRONG, traces_of

from poolscope.inference.memoized import chains
from poolscope.inference.memoized.attack import occupancy_scores
from poolscope.inference.memoized.chains import (
    LARGE_CLUSTER,
    MANY_CLUSTERS,
    SOME_CLUSTERS,
    TOLERANCE,
    belief_of,
    estimate_by_chains,
    estimate_by_clusterings,
    has_many_clusters,
    init_chains,
    memoized_posterior,
)
from poolscope.inference.memoized.occupancy import normalized
from poolscope.inference.memoized.state import items_of, slots_of
from poolscope.mechanisms import Memoized, Rappor, device_of, reports_of

N, USERS = 120, 8
KEYS, _, TRACES = traces_of(USERS, N)
#: Those who have sent many objects.
BUSY = [user for user in range(USERS) if len(set(TRACES[user].tolist())) > MANY_CLUSTERS]


def rappor(p):
    return device_of(Rappor(universe=60, m=64, hashes=2, cohorts=8, f=0.25, p=p, q=1 - p), memoize=True)


def parts(device, user, n=N):
    """What an attack starts from."""
    evidence = device.likelihood(reports_of(device, TRACES[[user], :n], KEYS[[user]]))
    slots = slots_of(evidence.slots, STRONG)
    return evidence, slots, items_of(evidence.distribution, slots), belief_of(STRONG, slots, n)


@cache
def grouped(p, user, key):
    _, slots, items, belief = parts(rappor(p), user)
    return estimate_by_clusterings(items, belief, slots.order, STRONG, np.uint64(key), TOLERANCE)


def facts(p, user):
    """The posterior of whoever is told which reports belong together."""
    device = rappor(p)
    reports = reports_of(device, TRACES[[user]], KEYS[[user]])
    objects, which, counts = np.unique(TRACES[user], return_inverse=True, return_counts=True)
    bits, distribution = device.bits(reports), device.likelihood(reports).distribution
    ones = np.stack([bits[which == g].sum(axis=0) for g in range(len(objects))])[:, :, None]
    q, p = distribution.instantaneous
    logs = []
    for one in distribution.permanent:
        of = [
            np.log(x) + ones * np.log(r) + (counts[:, None, None] - ones) * np.log1p(-r)
            for x, r in ((one, q), (1 - one, p))
        ]
        logs.append(np.logaddexp(*of))
    filters = device.pattern(int(reports["cohort"][0])).T[None]
    likelihood = np.where(filters, *logs).sum(axis=1)
    return normalized(occupancy_scores(likelihood, counts, STRONG), STRONG)


def test_few_sets_are_many_if_they_are_large():
    assert [has_many_clusters(clusters, 1) for clusters in (SOME_CLUSTERS + 1, MANY_CLUSTERS, MANY_CLUSTERS + 1)] == [
        False,
        False,
        True,
    ]
    assert [has_many_clusters(SOME_CLUSTERS + 1, LARGE_CLUSTER * (SOME_CLUSTERS + 1) - less) for less in (1, 0)] == [
        False,
        True,
    ]
    assert not has_many_clusters(SOME_CLUSTERS, 1000)


def test_groups_that_are_no_longer_kept_are_worked_out_again(monkeypatch):
    """To the bit the same, with room for the factors of one grouping only."""
    expected = grouped(0.3, BUSY[0], 1)
    monkeypatch.setattr(chains, "MAX_CACHED", 0)
    _, slots, items, belief = parts(rappor(0.3), BUSY[0])
    found = estimate_by_clusterings(items, belief, slots.order, STRONG, np.uint64(1), TOLERANCE)
    np.testing.assert_array_equal(found, expected)


def test_there_are_users_with_many_objects():
    assert len(BUSY) >= 5


def test_without_noise_anew_the_groups_are_known():
    """The occupancy of identical reports, and no chance."""
    device = rappor(0.0)
    for user in BUSY[:2]:
        reports = reports_of(device, TRACES[[user]], KEYS[[user]])
        distribution = Memoized(device.mechanism).likelihood(reports).distribution
        expected = normalized(
            occupancy_scores(distribution.log_response_prob, np.bincount(distribution.response), STRONG), STRONG
        )
        found, error = grouped(0.0, user, 1)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert error.max() < 1e-9


@pytest.mark.slow
def test_little_noise_leaves_little_to_find_out():
    """Near what whoever is told the groups thinks, which chains over the pools as well are not."""
    near, far = [], []
    for user in BUSY:
        expected = facts(0.05, user)
        _, _, items, belief = parts(rappor(0.05), user)
        near.append(np.abs(grouped(0.05, user, 1)[0] - expected).sum() / 2)
        far.append(np.abs(estimate_by_chains(items, belief, KEYS[user]).posterior - expected).sum() / 2)
    assert np.mean(near) < 0.03, near
    assert np.mean(far) > 2 * np.mean(near), (near, far)


@pytest.mark.statistical
@pytest.mark.parametrize("p", [0.1, 0.3])
def test_the_stated_error_is_what_other_draws_differ_by(p):
    """Over users and pools; a third of it would be caught."""
    pairs = [(grouped(p, user, key), grouped(p, user, key + 1)) for user in BUSY for key in (1, 3, 5)]
    gaps = sum(float(((a - b) ** 2).sum()) for (a, _), (b, _) in pairs)
    stated = sum(float((x**2 + y**2).sum()) for (_, x), (_, y) in pairs)
    assert 0.2 < gaps / stated < 4


def test_chains_start_with_too_many_sets_and_with_too_few():
    _, _, items, belief = parts(rappor(0.1), BUSY[0])
    apart, together = init_chains(items, belief, KEYS[0], 2)
    assert len(apart.active) > MANY_CLUSTERS
    assert len(together.active) < MANY_CLUSTERS / 2
    for chain in (apart, together):
        chain.run(40)
        assert chain.clusters.n_reports[chain.active].sum() == N
    assert abs(len(apart.active) - len(together.active)) < 8


def test_few_sets_are_left_to_the_chains():
    """Many are not; which it is the first chain says at its start."""
    for n in (12, N):
        evidence, slots, items, belief = parts(rappor(0.05), BUSY[0], n)
        found = memoized_posterior(evidence, STRONG, KEYS[0])
        many = has_many_clusters(len(init_chains(items, belief, np.uint64(0), 1)[0].active), n)
        assert many == (n == N)
        expected = estimate_by_clusterings(items, belief, slots.order, STRONG, KEYS[0], TOLERANCE) if many else None
        np.testing.assert_array_equal(found, expected or estimate_by_chains(items, belief, KEYS[0]))
