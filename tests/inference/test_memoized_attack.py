"""Devices that memoize: what they send, and what the attack infers."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cases.memoized import CROWD, ORACLE, STRONG, traces_of
from cases.synthetic import SEED
from scipy import stats

from poolscope.core.errors import InputError
from poolscope.core.randomness import user_keys
from poolscope.inference.attack import posterior
from poolscope.inference.memoized.attack import user_posterior
from poolscope.mechanisms import CMS, GRR, OUE, Channel, Identity, Memoized, NoHashCMS, reports_of
from poolscope.metrics.calibration import ece, ece_null_p95
from poolscope.population.behavior import Behavior

# What is sent


@pytest.mark.parametrize("mechanism", [OUE(universe=60, epsilon=1.0), CMS(universe=60, epsilon=1.0, m=32, hashes=100)])
def test_the_same_object_has_the_same_answer(mechanism):
    keys, _, traces = traces_of(20, 30)
    reports = reports_of(Memoized(mechanism), traces, keys)
    flat = np.hstack([np.asarray(column).reshape(600, -1).astype(np.int64) for column in reports.values()])
    answers = {}
    for user, z, row in zip(np.repeat(np.arange(20), 30), traces.ravel(), flat.tolist(), strict=True):
        assert answers.setdefault((user, z), row) == row
    assert len({str(row) for row in answers.values()}) > 0.99 * len(answers), "others have others"


def test_answers_do_not_depend_on_what_else_is_sent():
    keys, _, traces = traces_of(20, 30)
    memory = Memoized(OUE(universe=60, epsilon=1.0))
    whole = reports_of(memory, traces, keys)["bits"].reshape(20, 30, -1)
    np.testing.assert_array_equal(
        reports_of(memory, traces[5:8, ::-1], keys[5:8])["bits"].reshape(3, 30, -1), whole[5:8, ::-1]
    )


def test_answers_follow_the_law():
    """Over users, an answer has the law of the mechanism."""
    count, mechanism = 6000, GRR(universe=5, epsilon=1.0)
    keys = user_keys(SEED, np.arange(count))
    answers = reports_of(Memoized(mechanism), np.full((count, 1), 2), keys)["value"]
    expected = np.where(np.arange(5) == 2, np.exp(1.0), 1.0) / (np.exp(1.0) + 4)
    assert stats.chisquare(np.bincount(answers, minlength=5), count * expected).pvalue > 1e-4


def test_the_same_reports_are_one_answer():
    """In order of arrival, not of their bytes."""
    matrix = np.array([[0.5, 0.3, 0.2]] * 2 + [[0.1, 0.6, 0.3]] * 3)
    slots, distribution = Memoized(Channel(universe=5, matrix=matrix)).likelihood({"report": np.array([2, 0, 2, 2])})
    np.testing.assert_array_equal(slots, np.arange(5))
    np.testing.assert_array_equal(distribution.response, [0, 1, 0, 0])
    np.testing.assert_array_equal(distribution.log_response_prob, np.log(matrix[:, [2, 0]].T))


def test_randomized_response_states_its_probabilities():
    """So that two objects may turn out to share an answer."""
    mechanism = GRR(universe=5, epsilon=1.0)
    distribution = Memoized(mechanism).likelihood({"value": np.array([3, 1])}).distribution
    np.testing.assert_allclose(
        np.exp(distribution.log_response_prob[0]), np.where(np.arange(5) == 3, np.e, 1.0) / (np.e + 4)
    )


# The attack


def test_without_noise_nothing_is_left_to_chance():
    """The identity has one object to a report: memory changes nothing, and the sampler has no error."""
    keys, _, traces = traces_of(6, 25)
    memory = Memoized(Identity(universe=60))
    reports, lengths = reports_of(memory, traces, keys), np.full(6, 25)
    expected = posterior(memory.mechanism, reports, STRONG, lengths=lengths)[:, -1]
    found = posterior(memory, reports, STRONG, lengths=lengths, observations=[25])[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert user_posterior(memory, {"value": traces[0]}, STRONG).error.max() < 1e-12


def test_impossible_reports_leave_the_prior():
    adversary = replace(ORACLE, belief=Behavior(pools=(1.0, 3.0)))
    matrix = np.column_stack([np.ones(5), np.zeros(5)])
    memory = Memoized(Channel(universe=5, matrix=matrix))
    found = posterior(memory, {"report": np.array([1, 1])}, adversary, observations=[2])
    np.testing.assert_allclose(found, [[0.25, 0.75]])


def test_more_answers_than_objects_are_impossible():
    memory = Memoized(Channel(universe=5, matrix=np.full((5, 6), 1 / 6)))
    found = posterior(memory, {"report": np.arange(6)}, ORACLE, observations=[6])
    np.testing.assert_allclose(found, [[0.5, 0.5]])


def test_a_long_time_does_not_underflow():
    memory = Memoized(NoHashCMS(universe=5, epsilon=2.0))
    traces = np.repeat([0, 1, 3], [400, 250, 4])[None]
    reports = reports_of(memory, traces, user_keys(SEED, np.arange(1)))
    assert np.all(np.isfinite(posterior(memory, reports, ORACLE, observations=[654])))


# Does it know its odds


@pytest.fixture(scope="module")
def attacked():
    """400 users with memory, what taking each report by itself makes of them, and the attack of the first 150."""
    keys, users, traces = traces_of(400, 20)
    memory = Memoized(NoHashCMS(universe=60, epsilon=3.0))
    reports, first = reports_of(memory, traces, keys), reports_of(memory, traces[:150], keys[:150])
    found = {
        "kept": posterior(memory, first, STRONG, lengths=np.full(150, 20), observations=[20])[:, 0],
        "each": posterior(memory.mechanism, reports, STRONG, lengths=np.full(400, 20))[:, -1],
    }
    return users.iota, found


def outcomes(truth, posterior):
    names = np.array(CROWD.pool_names)
    guess = names[posterior.argmax(axis=1)]
    return pl.DataFrame({"pool": names[truth], "guess": guess, "confidence": posterior.max(axis=1)})


@pytest.mark.statistical
def test_the_attack_is_calibrated(attacked):
    truth, found = attacked
    rows = outcomes(truth[:150], found["kept"])
    assert ece(rows, 1).value <= ece_null_p95(rows, 1)


@pytest.mark.statistical
def test_counting_an_answer_each_time_is_not_calibrated(attacked):
    truth, found = attacked
    rows = outcomes(truth, found["each"])
    assert ece(rows, 1).value > 1.2 * ece_null_p95(rows, 1)
    at = np.arange(150), truth[:150]
    gain = np.log(found["kept"][at]) - np.log(found["each"][at])
    assert gain.mean() > -2 * gain.std(ddof=1) / np.sqrt(150)


def test_users_are_attacked_one_by_one():
    """The random numbers of a user's chains depend on the user's reports alone."""
    keys, _, traces = traces_of(2, 12)
    memory = Memoized(NoHashCMS(universe=60, epsilon=3.0))
    reports = reports_of(memory, traces, keys)
    together = posterior(memory, reports, STRONG, lengths=np.full(2, 12), observations=[12])
    for user in range(2):
        alone = posterior(memory, reports_of(memory, traces[[user]], keys[[user]]), STRONG, observations=[12])
        np.testing.assert_array_equal(alone, together[user])


# Bad input


MEMORY = Memoized(Channel(universe=5, matrix=np.eye(5)))


def test_bad_lengths_and_mechanisms():
    with pytest.raises(InputError, match="lengths must add up to the 2 reports, got 3"):
        posterior(MEMORY, {"report": np.array([1, 2])}, ORACLE, lengths=np.array([3]))
    with pytest.raises(InputError, match=r"must be a mechanism, which has .* got 'object'"):
        Memoized(object()).likelihood({"report": np.array([1])})


def test_no_reports_leave_the_prior():
    np.testing.assert_allclose(posterior(MEMORY, {"report": np.empty(0, dtype=int)}, ORACLE), [[0.5, 0.5]])


# The page


@pytest.mark.slow
def test_the_page_runs():
    """With a few users, and fewer reports."""
    page = (Path(__file__).parents[2] / "docs" / "results" / "memoization-study.md").read_text()
    _, *blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    printed = []
    names = {"print": printed.append}
    small = {
        r"users, seed = 100, 1": "users, seed = 3, 1",
        r"\(7, 30, 90, 180\)": "(7, 12)",
        r"\d+, users=\d+": "8, users=2",
    }
    for old in small:
        assert any(re.search(old, block) for block in blocks), old
    for block in blocks:
        for old, new in small.items():
            block = re.sub(old, new, block)
        exec(compile(block, "memoization-study.md", "exec"), names)
    assert len(printed) == 2 * 3 + 4 + 4 + 2


def test_two_objects_share_an_answer_as_often_as_the_page_says():
    xi = 1 / (1 + np.exp(0.5))
    vectors = np.array(list(product((0, 1), repeat=4)))
    unary = np.where(vectors[:, None, :] == np.eye(4), 1 - xi, xi).prod(axis=2).T
    np.testing.assert_allclose((unary @ unary.T)[0, 1], (2 * xi * (1 - xi)) ** 2 * ((1 - xi) ** 2 + xi**2) ** 2)
    p, q = np.array([np.e, 1]) / (np.e + 3)
    response = np.full((4, 4), q) + (p - q) * np.eye(4)
    np.testing.assert_allclose((response @ response.T)[0, 1], 2 * p * q + 2 * q**2)
