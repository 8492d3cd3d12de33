"""RAPPOR with memoization and an instantaneous round: what is sent, and what the attack infers."""

from itertools import combinations

import numpy as np
import pytest
from cases.memoized import STRONG, traces_of
from cases.synthetic import SEED
from scipy import stats

from poolscope.core.errors import InputError
from poolscope.core.randomness import user_keys
from poolscope.inference.attack import posterior
from poolscope.mechanisms import Memoized, Rappor, device_of, reports_of


def small_rappor(p, q, f=0.25):
    return device_of(Rappor(universe=60, m=64, hashes=2, cohorts=8, f=f, p=p, q=q), memoize=True)


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


def test_evidence_is_the_users_own():
    """Cohort, bits and probabilities; one report has the law of the mechanism without memory."""
    keys, _, traces = traces_of(3, 4)
    memory = small_rappor(0.2, 0.7)
    reports = reports_of(memory, traces, keys)
    own = {name: column[4:8] for name, column in reports.items()}
    slots, distribution = memory.likelihood(own)
    np.testing.assert_array_equal(slots, np.arange(60))
    np.testing.assert_array_equal(distribution.positions, memory.positions(int(memory.cohorts(keys)[1])))
    assert (distribution.permanent, distribution.instantaneous) == ((0.875, 0.125), (0.7, 0.2))
    marked, plain = (one * 0.7 + (1 - one) * 0.2 for one in distribution.permanent)
    filters = memory.pattern(int(memory.cohorts(keys)[1]))
    ones = np.where(filters, marked, plain)[None]
    expected = np.log(np.where(distribution.ones[:, None] == 1, ones, 1 - ones)).sum(axis=2)
    np.testing.assert_allclose(memory.mechanism.log_likelihood(own), expected - np.log(8), rtol=1e-12)


def test_one_report_is_attacked_as_without_memory():
    keys, _, traces = traces_of(6, 1)
    memory, lengths = small_rappor(0.2, 0.8), np.ones(6, dtype=np.int64)
    reports = reports_of(memory, traces, keys)
    found = posterior(memory, reports, STRONG, lengths=lengths, observations=[1])[:, 0]
    expected = posterior(memory.mechanism, reports, STRONG, lengths=lengths)[:, -1]
    np.testing.assert_allclose(found, expected, atol=0.05)


@pytest.mark.slow
def test_without_instantaneous_noise_reports_are_answers():
    """Both attacks are then one and the same, also where zero likelihoods meet, but for what chance leaves."""
    keys, _, traces = traces_of(8, 12)
    memory = small_rappor(0.0, 1.0)
    reports, lengths = reports_of(memory, traces, keys), np.full(8, 12)
    found = posterior(memory, reports, STRONG, lengths=lengths, observations=[12])[:, 0]
    expected = posterior(Memoized(memory.mechanism), reports, STRONG, lengths=lengths, observations=[12])[:, 0]
    np.testing.assert_allclose(found, expected, atol=0.12)


@pytest.mark.default_cases("8-0.05")
@pytest.mark.parametrize("p", [0.05, 0.3])
@pytest.mark.parametrize("count", [8, 20])
def test_no_worse_than_each_report_by_itself(count, p):
    """In log loss, beyond the noise of the difference on these users; more in docs/results/memoization-study.md."""
    keys, users, traces = traces_of(count, 15)
    memory, lengths = small_rappor(p, 1 - p), np.full(count, 15)
    reports = reports_of(memory, traces, keys)
    kept = posterior(memory, reports, STRONG, lengths=lengths, observations=[15])[:, 0]
    each = posterior(memory.mechanism, reports, STRONG, lengths=lengths)[:, -1]
    at = np.arange(count), users.iota
    gain = np.log(kept[at]) - np.log(each[at])
    assert gain.mean() > -2 * gain.std(ddof=1) / np.sqrt(count)


def test_objects_outside_the_universe():
    with pytest.raises(InputError, match=r"objects must be 0\.\.59"):
        reports_of(small_rappor(0.1, 0.9), np.array([[60]]), np.array([1], dtype=np.uint64))
