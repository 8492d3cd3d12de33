"""Scores of groups of identical reports against enumeration, and the choice between exact and approximate scores."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from cases.memoized import ORACLE, STRONG, TINY, pool_integral
from cases.synthetic import SEED
from scipy.special import logsumexp

from poolscope.core.randomness import user_keys
from poolscope.inference.adversary import Adversary
from poolscope.inference.memoized import attack
from poolscope.inference.memoized.attack import (
    CELLS,
    EXACT,
    NEGLIGIBLE,
    SHARED,
    exact_scores,
    occupancy_scores,
    user_posterior,
)
from poolscope.inference.memoized.occupancy import normalized
from poolscope.inference.memoized.response_map_samplers import allocated_posterior, tempered_posterior
from poolscope.inference.memoized.tables import response_counts
from poolscope.mechanisms import GRR, LGRR, DBitFlip, Memoized, NoHashCMS, device_of, reports_of
from poolscope.population.behavior import Behavior, draw_traces, draw_users
from poolscope.population.popularity import within_pools, zipf
from poolscope.population.priors import Beta
from poolscope.population.universe import Universe

# The sum over all objects and answers


def enumerated(matrix, reports, adversary):
    """Exact scores from every sequence of objects: without and with objects that share an answer.

    Fractions: the likelihood of a sequence is a power of the pools' weights, whose integral over uniform priors is one
    of factorials, and the permanent answer of each object that occurs must be the report sent with it.
    """
    universe, k, n = adversary.universe, adversary.k, len(reports)
    within = [Fraction(x) for x in within_pools(universe, adversary.popularity)]
    distribution = [[Fraction(x) for x in row] for row in matrix]
    scores = {name: [Fraction(0)] * k for name in ("apart", "all")}
    for sequence in product(range(universe.size), repeat=n):
        objects = Fraction(1)
        for z in sequence:
            objects *= within[z]
        pools = [int(universe.pool_of[z]) for z in sequence]
        weights = [objects * pool_integral(pools.count(-1), pools.count(i), n, k) for i in range(k)]
        answers = Fraction(1)
        kept = dict(zip(sequence, reports, strict=True))
        consistent = all(kept[z] == r for z, r in zip(sequence, reports, strict=True))
        for z, r in kept.items():
            answers *= distribution[z][r]
        for i in range(k):
            if consistent:
                scores["all"][i] += answers * weights[i]
                if len(set(kept.values())) == len(kept):
                    scores["apart"][i] += answers * weights[i]
    return scores


def shares(scores):
    return np.array([float(score / sum(scores)) for score in scores])


def random_channel(reports, seed):
    rows = np.random.default_rng(seed).integers(1, 20, size=(5, reports))
    return np.array([[Fraction(int(x), int(row.sum())) for x in row] for row in rows])


def groups_of(memory, trace, key):
    distribution = memory.likelihood(reports_of(memory, trace[None], key[None])).distribution
    return distribution.log_response_prob, np.bincount(distribution.response)


SENT = [(0,), (1, 1), (0, 1), (2, 2, 2, 2), (0, 1, 2, 3), (3, 3, 0, 1), (1, 1, 0, 0, 0)]


def grouped(matrix, reports):
    values, counts = np.unique(reports, return_counts=True)
    return np.log(matrix.astype(np.float64)[:, values].T), counts


@pytest.mark.parametrize("reports", SENT)
def test_exact_scores_are_the_sum_over_all_objects(reports):
    """But for objects that share an answer; those add what they add."""
    matrix = random_channel(4, 1)
    scores = enumerated(matrix, reports, ORACLE)
    likelihood, counts = grouped(matrix, reports)
    found = exact_scores(likelihood, counts, ORACLE)
    expected = [float(score) / ORACLE.k for score in scores["apart"]]
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-12)
    shared = 1 - float(sum(scores["apart"]) / sum(scores["all"]))
    gap = np.abs(shares(scores["apart"]) - shares(scores["all"])).max()
    assert gap <= shared, "no further off than a shared answer is likely, given the reports"
    if len(set(reports)) == len(reports):
        assert shared == 0, "reports that all differ have no two objects behind one"


@pytest.mark.default_cases("reports[1-5]")
@pytest.mark.parametrize("reports", SENT)
def test_shared_answers_vanish_with_their_probability(reports):
    """An answer of many parts, most of which tell nothing, is hardly ever shared: then the sum is all there is."""
    matrix = random_channel(4, 1)
    rare = np.array([[x / 10**6 for x in row] + [Fraction(1) - Fraction(1, 10**6)] for row in matrix])
    scores = enumerated(rare, reports, ORACLE)
    likelihood, counts = grouped(matrix, reports)
    found = normalized(exact_scores(likelihood, counts, ORACLE), ORACLE)
    np.testing.assert_allclose(found, shares(scores["all"]), atol=3e-5)


def test_priors_enter_the_exact_scores():
    """One group, under other priors: a sum over objects, integrated on a fine grid."""
    belief = Behavior(interest=Beta(a=2.0, b=3.0), polarization=Beta(a=1.5, b=1.0), pools=(1.0, 3.0))
    adversary = replace(ORACLE, belief=belief)
    likelihood, counts = grouped(random_channel(4, 2), (3, 3, 3))
    within, prior = within_pools(TINY, ORACLE.popularity), (0.25, 0.75)
    g, u = (density.rule(40) for density in (belief.interest, belief.polarization))
    expected = np.zeros(2)
    for (gamma, _, a), (x, _, b) in product(zip(*g, strict=True), zip(*u, strict=True)):
        delta = 0.5 + 0.5 * x
        for i in range(2):
            section = np.where(TINY.pool_of < 0, 0, np.where(TINY.pool_of == i, 1, 2))
            weight = np.choose(section, [1 - gamma, gamma * delta, gamma * (1 - delta)])
            expected[i] += prior[i] * a * b * (np.exp(likelihood[0]) * (weight * within) ** 3).sum()
    np.testing.assert_allclose(np.exp(exact_scores(likelihood, counts, adversary)), expected, rtol=1e-11)


def test_impossible_reports_leave_the_prior():
    adversary = replace(ORACLE, belief=Behavior(pools=(1.0, 3.0)))
    likelihood = np.full((1, 5), -np.inf)
    for scores in (exact_scores, occupancy_scores):
        np.testing.assert_allclose(normalized(scores(likelihood, np.array([2]), adversary), adversary), [0.25, 0.75])


def test_more_groups_than_objects_are_impossible():
    """Six different answers, five objects."""
    likelihood, counts = np.zeros((6, 5)), np.ones(6, dtype=np.int64)
    assert np.all(np.isneginf(exact_scores(likelihood, counts, ORACLE)))


@pytest.mark.default_cases("39")
@pytest.mark.parametrize("neutral", [0, 39])
def test_occupancy_is_near_the_exact_sum(neutral):
    """And nearer than the prior by half at least, on users with eight groups."""
    universe = Universe.sized(21 + neutral, {"a": 8, "b": 1, "c": 12})
    popularity = zipf(universe, 1.0)
    adversary = Adversary(name="strong", universe=universe, popularity=popularity)
    keys = user_keys(SEED, np.arange(150))
    traces = draw_traces(universe, popularity, draw_users(universe, Behavior(), keys), 14)
    memory = Memoized(NoHashCMS(universe=universe.size, epsilon=2.0))
    gaps = []
    for key, trace in zip(keys, traces, strict=True):
        likelihood, counts = groups_of(memory, trace, key)
        if len(counts) == 8:
            exact, near = (
                normalized(scores(likelihood, counts, adversary), adversary)
                for scores in (exact_scores, occupancy_scores)
            )
            gaps.append([np.abs(near - exact).sum() / 2, np.abs(1 / 3 - exact).sum() / 2])
    near, far = np.mean(gaps, axis=0)
    assert len(gaps) >= 10
    assert near < 0.08, gaps
    assert near < far / 2, (near, far)


def occupancy(likelihood, counts, adversary, nodes):
    """The posterior of the occupancy object by object, on a fine grid: as its formula says."""
    k, n, section = adversary.k, counts.sum(), adversary.universe.pool_of + 1
    within = within_pools(adversary.universe, adversary.popularity)
    (g, not_g, a), (u, not_u, b) = (
        density.rule(nodes) for density in (adversary.belief.interest, adversary.belief.polarization)
    )
    logs = np.empty((k, nodes, nodes))
    for i, x, y in np.ndindex(logs.shape):
        weight = np.full(k + 1, g[x] * (1 - 1 / k) * not_u[y] / (k - 1))
        weight[0], weight[i + 1] = not_g[x], g[x] * (1 / k + (1 - 1 / k) * u[y])
        phi = weight[section] * within
        terms = likelihood + counts[:, None] * np.log(phi) - n * phi
        logs[i, x, y] = logsumexp(terms, axis=1).sum() + np.expm1(-n * phi).sum() + np.log(a[x] * b[y])
    scores = logsumexp(logs, axis=(1, 2)) + np.log(adversary.belief.pool_prior(k))
    return np.exp(scores - logsumexp(scores))


@pytest.mark.default_cases("28-60-1.0-1")
@pytest.mark.parametrize(
    ("size", "n", "exponent", "users"), [(60, 90, 1.0, 2), (400, 120, 1.2, 2), (400, 120, 0.0, 2), (28, 60, 1.0, 1)]
)
def test_the_occupancy_is_its_formula(size, n, exponent, users):
    """On a grid that is fine enough, and with objects of nearly the same popularity summed together."""
    universe = Universe.sized(size, {"a": 8, "b": 8, "c": size // 2 - 2})
    popularity = zipf(universe, exponent)
    adversary = Adversary(name="strong", universe=universe, popularity=popularity)
    keys = user_keys(SEED, np.arange(users))
    traces = draw_traces(universe, popularity, draw_users(universe, Behavior(), keys), n)
    memory = Memoized(NoHashCMS(universe=size, epsilon=4.0))
    for key, trace in zip(keys, traces, strict=True):
        likelihood, counts = groups_of(memory, trace, key)
        found = normalized(occupancy_scores(likelihood, counts, adversary), adversary)
        np.testing.assert_allclose(found, occupancy(likelihood, counts, adversary, 28), atol=1e-3)


def test_huge_counts_do_not_underflow():
    likelihood = np.log(random_channel(4, 4).astype(np.float64)[:, :3].T)
    counts = np.array([3000, 2500, 40])
    for scores in (exact_scores, occupancy_scores):
        assert np.all(np.isfinite(normalized(scores(likelihood, counts, ORACLE), ORACLE)))


# Which method


KEYS = user_keys(SEED, np.arange(1))
BITS = Memoized(NoHashCMS(universe=60, epsilon=3.0))


@pytest.mark.default_cases("10-*", "11-*", "31-1800-*")
@pytest.mark.parametrize(
    ("groups", "cells", "scores"),
    [(EXACT, CELLS, exact_scores), (EXACT + 1, CELLS, None), (31, CELLS, None), (31, 30 * 60, occupancy_scores)],
)
def test_groups_of_bits_are_summed_sampled_or_an_occupancy(monkeypatch, groups, cells, scores):
    monkeypatch.setattr(attack, "CELLS", cells)
    trace, key = np.repeat(np.arange(groups), 2), user_keys(SEED, np.arange(1))[0]
    found = user_posterior(BITS, reports_of(BITS, trace[None], key[None]), STRONG)
    if scores is None:
        assert 0 < found.error.max() < 0.03
    else:
        assert found.error.max() == 0
        expected = normalized(scores(*groups_of(BITS, trace, key), STRONG), STRONG)
        np.testing.assert_array_equal(found.posterior, expected)


SHARING = {
    "few tables": (device_of(DBitFlip(universe=60, epsilon=1.0, buckets=10, d=4)), None),
    "many tables": (Memoized(GRR(universe=60, epsilon=1.0)), tempered_posterior),
    "two rounds of noise": (device_of(LGRR(universe=60, epsilon_perm=2.0, epsilon_1=1.0)), tempered_posterior),
    "rarely shared": (Memoized(NoHashCMS(universe=60, epsilon=0.5)), allocated_posterior),
}


@pytest.mark.usefixtures("short_chains")
@pytest.mark.parametrize("name", SHARING)
def test_responses_that_slots_share_are_tables(monkeypatch, name):
    """All of them where they are few; else chains, or maps to slots where two slots hardly ever share a response."""
    device, method = SHARING[name]
    called = []
    for other in (tempered_posterior, allocated_posterior):
        monkeypatch.setattr(attack, other.__name__, lambda *of, by=other: called.append(by) or by(*of))
    trace = np.array([[7, 3, 7, 50, 7, 21, 8, 33, 14, 59, 1, 2, 40, 28]])
    found = user_posterior(device, reports_of(device, trace, user_keys(SEED, np.arange(1))), STRONG)
    assert called == ([] if method is None else [method])
    assert (found.error.max() > 0) == (method is not None)


def test_an_error_says_how_often_a_response_may_be_shared(monkeypatch):
    """Few groups are summed without chance; that no further slot has sent a response is the only thing left."""
    device = Memoized(NoHashCMS(universe=60, epsilon=6.0))
    tables = response_counts(device.likelihood(reports_of(device, np.array([[7, 3]]), KEYS)), STRONG)
    assert NEGLIGIBLE < tables.expected_collisions < SHARED
    monkeypatch.setattr(attack, "exact_response_sum", lambda *of: None)
    found = user_posterior(device, reports_of(device, np.array([[7, 3]]), KEYS), STRONG)
    np.testing.assert_allclose(found.error, tables.expected_collisions)
