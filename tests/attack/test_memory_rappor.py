"""RAPPOR with memory and an instantaneous step: what is sent, what groups say, and how they are found."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from cases.memory import CROWD, ORACLE, STRONG, TINY, pool_integral, traces_of
from cases.synthetic import SEED
from scipy import stats
from scipy.special import logsumexp

from poolscope.attack.devices import posterior
from poolscope.attack.memory.groups import (
    gathered,
    group_by_agreement,
    mean_behaviour,
    same_group,
)
from poolscope.attack.memory.scores import exact_scores, group_posterior, normalised
from poolscope.base.errors import InputError
from poolscope.base.randomness import user_keys
from poolscope.mechanisms import Memoised, Rappor, RapporMemory, device_of, reports_of
from poolscope.world.behaviour import Behaviour
from poolscope.world.popularity import within_pools
from poolscope.world.synthetic import draw_traces, draw_users

TINY_RAPPOR = Rappor(universe=5, m=3, hashes=1, cohorts=1, f=0.4, p=0.2, q=0.9, hash_table=np.array([[0, 1, 2, 1, 0]]))


def noisy_likelihood(bits, members, pattern):
    """Pr[reports | object] of reports from one permanent answer: a sum over all answers."""
    f, p, q = (Fraction(x).limit_denominator(100) for x in (0.4, 0.2, 0.9))
    out = []
    for filter_ in pattern:
        total = Fraction(0)
        for answer in product((0, 1), repeat=3):
            chance = Fraction(1)
            for x, b in zip(answer, filter_, strict=True):
                chance *= 1 - f / 2 if x == b else f / 2
            for t in members:
                for x, s in zip(answer, bits[t], strict=True):
                    one = q if x else p
                    chance *= one if s else 1 - one
            total += chance
        out.append(total)
    return out


BITS = np.array([[1, 0, 0], [1, 0, 1], [0, 1, 0], [1, 0, 0]])


def test_likelihood_of_a_group_is_the_sum_over_answers():
    memory = RapporMemory(TINY_RAPPOR)
    pattern = memory.pattern(0)
    np.testing.assert_array_equal(pattern, np.eye(3, dtype=bool)[[0, 1, 2, 1, 0]])
    for members in ((0,), (0, 1), (0, 1, 2, 3)):
        ones, counts = BITS[list(members)].sum(axis=0, keepdims=True), np.array([len(members)])
        found = np.exp(memory.group_log_likelihood(ones, counts, 0))[0]
        expected = [float(x) for x in noisy_likelihood(BITS, members, pattern)]
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    alone = {"cohort": np.array([0]), "bits": np.packbits(BITS[:1].astype(np.uint8), axis=1, bitorder="little")}
    single = memory.group_log_likelihood(BITS[:1], np.array([1]), 0)
    np.testing.assert_allclose(single, TINY_RAPPOR.log_likelihood(alone), rtol=1e-12, err_msg="the marginal channel")


def partitions(items):
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for others in combinations(rest, size):
            left = [x for x in rest if x not in others]
            for more in partitions(left):
                yield [(first, *others), *more]


def test_all_groupings_together_are_the_enumeration():
    """Sum over sequences of objects and over all permanent answers = sum over groupings of the exact scores."""
    memory, k = RapporMemory(TINY_RAPPOR), 2
    pattern = memory.pattern(0)
    within = [Fraction(x) for x in within_pools(TINY, ORACLE.popularity)]
    groups = {}
    truth = [Fraction(0)] * k
    for sequence in product(range(5), repeat=4):
        chance = Fraction(1)
        for z in set(sequence):
            members = tuple(t for t in range(4) if sequence[t] == z)
            if members not in groups:
                groups[members] = noisy_likelihood(BITS, members, pattern)
            chance *= groups[members][z] * within[z] ** len(members)
        pools = [int(TINY.pool_of[z]) for z in sequence]
        for i in range(k):
            truth[i] += chance * pool_integral(pools.count(-1), pools.count(i), 4, k) / k
    found = []
    for partition in partitions(list(range(4))):
        ones = np.array([BITS[list(members)].sum(axis=0) for members in partition])
        counts = np.array([len(members) for members in partition])
        found.append(exact_scores(memory.group_log_likelihood(ones, counts, 0), counts, ORACLE))
    np.testing.assert_allclose(np.exp(logsumexp(found, axis=0)), [float(x) for x in truth], rtol=1e-11)


def distances(p, n, users=40):
    """Mean total variation from the posterior of all groupings: of the best one, and of each report by itself."""
    own_bit = {"m": 16, "hashes": 1, "cohorts": 1, "hash_table": np.arange(5)[None]}
    memory = device_of(Rappor(universe=5, f=0.4, p=p, q=1 - p, **own_bit), memory=True)
    keys, lengths = user_keys(SEED, np.arange(users)), np.full(users, n)
    traces = draw_traces(TINY, ORACLE.popularity, draw_users(TINY, Behaviour(), keys), n)
    reports = reports_of(memory, traces, keys)
    exact = []
    for bits in memory.bits(reports).astype(np.int64).reshape(users, n, 16):
        scores = []
        for partition in partitions(list(range(n))):
            ones = np.array([bits[list(members)].sum(axis=0) for members in partition])
            counts = np.array([len(members) for members in partition])
            scores.append(exact_scores(memory.group_log_likelihood(ones, counts, 0), counts, ORACLE))
        exact.append(normalised(logsumexp(scores, axis=0), ORACLE))
    grouped = posterior(memory, reports, ORACLE, lengths=lengths, observations=[n])[:, 0]
    each = posterior(memory.mechanism, reports, ORACLE, lengths=lengths)[:, -1]
    return [np.abs(posterior - exact).sum(axis=1).mean() / 2 for posterior in (grouped, each)]


def test_both_adversaries_against_the_enumeration():
    """Of one report both are exact; of more, grouping is the better one where copies agree, and the worse where not."""
    assert max(distances(0.1, 1)) < 1e-12
    grouped, each = distances(0.02, 4)
    assert grouped < 0.02 < 0.05 < each
    grouped, each = distances(0.3, 4)
    assert each < 0.02 < 0.03 < grouped


def small_rappor(p, q, f=0.25):
    return device_of(Rappor(universe=60, m=64, hashes=2, cohorts=8, f=f, p=p, q=q), memory=True)


def test_cohorts_and_answers_stay_and_reports_are_new():
    keys, _, traces = traces_of(200, 12)
    memory = small_rappor(0.2, 0.8)
    reports = reports_of(memory, traces, keys)
    assert np.all(reports["cohort"].reshape(200, 12) == memory.cohorts(keys)[:, None])
    assert stats.chisquare(np.bincount(memory.cohorts(user_keys(SEED, np.arange(4000))), minlength=8)).pvalue > 1e-4
    answers, bits = memory.permanent(traces.ravel(), np.repeat(keys, 12)), memory.bits(reports)
    answers, bits = answers.reshape(200, 12, 64), bits.reshape(200, 12, 64)
    for user in range(20):
        for t, s in combinations(range(12), 2):
            if traces[user, t] == traces[user, s]:
                np.testing.assert_array_equal(answers[user, t], answers[user, s])
                assert (bits[user, t] != bits[user, s]).any()
    for value, chance in ((True, 0.8), (False, 0.2)):
        sent = bits[answers == value]
        assert abs(sent.mean() - chance) < 4 * np.sqrt(chance * (1 - chance) / len(sent))
    filters = np.stack([memory.pattern(int(c))[trace] for c, trace in zip(memory.cohorts(keys), traces, strict=True)])
    first = np.zeros((200, 12), dtype=bool)
    for user in range(200):
        first[user, np.unique(traces[user], return_index=True)[1]] = True
    for value, chance in ((True, 0.875), (False, 0.125)):
        kept = answers[first[:, :, None] & (filters == value)]
        assert abs(kept.mean() - chance) < 4 * np.sqrt(chance * (1 - chance) / len(kept))


def test_without_instantaneous_noise_groups_are_identical_reports():
    """Both attacks are then one and the same, also where zero likelihoods meet."""
    keys, _, traces = traces_of(8, 20)
    memory = small_rappor(0.0, 1.0)
    reports, lengths = reports_of(memory, traces, keys), np.full(8, 20)
    bits = memory.bits(reports).reshape(8, 20, 64)
    for user in range(8):
        cohort = int(memory.cohorts(keys)[user])
        label = group_by_agreement(memory, bits[user], cohort, STRONG)
        same = (bits[user][:, None] == bits[user]).all(axis=2)
        np.testing.assert_array_equal(same_group(label), same)
    found = posterior(memory, reports, STRONG, lengths=lengths, observations=[20])[:, 0]
    expected = posterior(Memoised(memory.mechanism), reports, STRONG, lengths=lengths, observations=[20])[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_reports_with_little_noise_find_their_groups():
    keys, _, traces = traces_of(25, 20)
    memory = small_rappor(0.05, 0.95)
    reports, lengths = reports_of(memory, traces, keys), np.full(25, 20)
    bits = memory.bits(reports).reshape(25, 20, 64)
    found = posterior(memory, reports, STRONG, lengths=lengths, observations=[20])[:, 0]
    agreed, gaps = [], []
    for user in range(25):
        cohort = int(memory.cohorts(keys)[user])
        label = group_by_agreement(memory, bits[user], cohort, STRONG)
        told = np.unique(traces[user], return_inverse=True)[1]
        agreed.append((same_group(label) == same_group(told)).mean())
        ones, counts = gathered(bits[user], told)
        expected = group_posterior(memory.group_log_likelihood(ones, counts, cohort), counts, STRONG)
        gaps.append(np.abs(found[user] - expected).max())
    assert np.mean(agreed) > 0.99
    assert np.mean(gaps) < 0.05, "hardly anything is lost to somebody who is told the groups"


def test_groups_are_gathered():
    ones, counts = gathered(BITS.astype(np.uint8), np.array([4, 2, -1, 4]))
    np.testing.assert_array_equal(ones, [[1, 0, 1], [2, 0, 0]])
    np.testing.assert_array_equal(counts, [1, 2])


def test_mean_behaviour_is_a_mean():
    mean = mean_behaviour(STRONG)
    assert mean.sum() == pytest.approx(1)
    np.testing.assert_allclose(np.bincount(CROWD.pool_of + 1, weights=mean), [0.5, 1 / 6, 1 / 6, 1 / 6], rtol=1e-12)


def test_objects_outside_the_universe():
    with pytest.raises(InputError, match=r"objects must be 0\.\.59"):
        reports_of(small_rappor(0.1, 0.9), np.array([[60]]), np.array([1], dtype=np.uint64))
