"""Devices with memory: what they send, and the attack on it against enumeration of all objects and answers."""

import re
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cases.memory import CROWD, ORACLE, STRONG, TINY, pool_integral, traces_of
from cases.synthetic import SEED
from scipy import stats

from poolscope.attack.adversary import Adversary
from poolscope.attack.devices import posterior
from poolscope.attack.memory.groups import groups
from poolscope.attack.memory.scores import (
    _grid_scores,
    exact_scores,
    group_posterior,
    normalised,
    occupancy_scores,
    product_scores,
)
from poolscope.base.errors import InputError
from poolscope.base.randomness import user_keys
from poolscope.mechanisms import CMS, GRR, OUE, Channel, Fresh, Identity, Memoised, NoHashCMS, reports_of
from poolscope.metrics.calibration import calibration_error, calibration_limit
from poolscope.world.behaviour import Behaviour
from poolscope.world.densities import Beta
from poolscope.world.popularity import within_pools, zipf
from poolscope.world.synthetic import draw_traces, draw_users
from poolscope.world.universe import Universe

# What is sent


@pytest.mark.parametrize("mechanism", [OUE(universe=60, epsilon=1.0), CMS(universe=60, epsilon=1.0, m=32, hashes=100)])
def test_the_same_object_has_the_same_answer(mechanism):
    keys, _, traces = traces_of(20, 30)
    reports = reports_of(Memoised(mechanism), traces, keys)
    flat = np.hstack([np.asarray(column).reshape(600, -1).astype(np.int64) for column in reports.values()])
    answers = {}
    for user, z, row in zip(np.repeat(np.arange(20), 30), traces.ravel(), flat.tolist(), strict=True):
        assert answers.setdefault((user, z), row) == row
    assert len({str(row) for row in answers.values()}) > 0.99 * len(answers), "others have others"


def test_answers_do_not_depend_on_what_else_is_sent():
    keys, _, traces = traces_of(20, 30)
    memory = Memoised(OUE(universe=60, epsilon=1.0))
    whole = reports_of(memory, traces, keys)["bits"].reshape(20, 30, -1)
    np.testing.assert_array_equal(
        reports_of(memory, traces[5:8, ::-1], keys[5:8])["bits"].reshape(3, 30, -1), whole[5:8, ::-1]
    )


def test_answers_follow_the_law():
    """Over users, an answer has the law of the mechanism."""
    count, mechanism = 6000, GRR(universe=5, epsilon=1.0)
    keys = user_keys(SEED, np.arange(count))
    answers = reports_of(Memoised(mechanism), np.full((count, 1), 2), keys)["value"]
    expected = np.where(np.arange(5) == 2, np.exp(1.0), 1.0) / (np.exp(1.0) + 4)
    assert stats.chisquare(np.bincount(answers, minlength=5), count * expected).pvalue > 1e-4


def test_the_same_reports_are_one_group():
    """In order of arrival, not of their bytes."""
    matrix = np.array([[0.5, 0.3, 0.2]] * 2 + [[0.1, 0.6, 0.3]] * 3)
    found, counts = groups(Memoised(Channel(universe=5, matrix=matrix)), {"report": np.array([2, 0, 2, 2])}, ORACLE)
    np.testing.assert_array_equal(counts, [3, 1])
    np.testing.assert_array_equal(found, np.log(matrix[:, [2, 0]].T))


# The sum over all objects and answers


def enumerated(matrix, reports, adversary):
    """Exact scores from every sequence of objects: without and with objects that share an answer, and without memory.

    Fractions: the likelihood of a sequence is a power of the pools' weights, whose integral over uniform priors is one
    of factorials, and the permanent answer of each object that occurs must be the report sent with it.
    """
    universe, k, n = adversary.universe, adversary.k, len(reports)
    within = [Fraction(x) for x in within_pools(universe, adversary.popularity)]
    law = [[Fraction(x) for x in row] for row in matrix]
    scores = {name: [Fraction(0)] * k for name in ("apart", "all", "no memory")}
    for sequence in product(range(universe.size), repeat=n):
        objects = Fraction(1)
        for z in sequence:
            objects *= within[z]
        pools = [int(universe.pool_of[z]) for z in sequence]
        weights = [objects * pool_integral(pools.count(-1), pools.count(i), n, k) for i in range(k)]
        fresh = answers = Fraction(1)
        for z, r in zip(sequence, reports, strict=True):
            fresh *= law[z][r]
        kept = dict(zip(sequence, reports, strict=True))
        consistent = all(kept[z] == r for z, r in zip(sequence, reports, strict=True))
        for z, r in kept.items():
            answers *= law[z][r]
        for i in range(k):
            scores["no memory"][i] += fresh * weights[i]
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


@pytest.mark.parametrize("reports", SENT)
def test_shared_answers_vanish_with_their_probability(reports):
    """An answer of many parts, most of which tell nothing, is hardly ever shared: then the sum is all there is."""
    matrix = random_channel(4, 1)
    rare = np.array([[x / 10**6 for x in row] + [Fraction(1) - Fraction(1, 10**6)] for row in matrix])
    scores = enumerated(rare, reports, ORACLE)
    likelihood, counts = grouped(matrix, reports)
    found = normalised(exact_scores(likelihood, counts, ORACLE), ORACLE)
    np.testing.assert_allclose(found, shares(scores["all"]), atol=3e-5)


def test_priors_enter_the_exact_scores():
    """Against the product formula, which is exact for one group, under other priors."""
    belief = Behaviour(interest=Beta(a=2.0, b=3.0), polarization=Beta(a=1.5, b=1.0), pools=(1.0, 3.0))
    adversary = replace(ORACLE, belief=belief)
    likelihood, counts = grouped(random_channel(4, 2), (3, 3, 3))
    exact, plain = (scores(likelihood, counts, adversary) for scores in (exact_scores, product_scores))
    np.testing.assert_allclose(exact, plain, rtol=1e-11)
    np.testing.assert_allclose(group_posterior(likelihood[:0], counts[:0], adversary), [0.25, 0.75], rtol=1e-12)


@pytest.mark.parametrize("reports", [*SENT, (0, 0, 1, 1, 2, 3)])
def test_product_scores_are_the_product(reports):
    """Every group by itself: sum over objects, integral over a fine grid."""
    matrix = random_channel(4, 3).astype(np.float64)
    likelihood, counts = grouped(matrix, reports)
    within = within_pools(TINY, ORACLE.popularity)
    x, w = np.polynomial.legendre.leggauss(20)
    x, w = (x + 1) / 2, w / 2
    scores = np.zeros(2)
    for (g, a), (u, b) in product(zip(x, w, strict=True), repeat=2):
        delta = 0.5 + 0.5 * u
        for i in range(2):
            weight = np.choose(
                np.where(TINY.pool_of < 0, 0, np.where(TINY.pool_of == i, 1, 2)), [1 - g, g * delta, g * (1 - delta)]
            )
            scores[i] += (
                a
                * b
                / 2
                * np.prod(
                    [(np.exp(row) * (weight * within) ** c).sum() for row, c in zip(likelihood, counts, strict=True)]
                )
            )
    np.testing.assert_allclose(np.exp(product_scores(likelihood, counts, ORACLE)), scores, rtol=1e-11)


def test_without_noise_all_ways_agree_with_the_objects_themselves():
    """The identity has one object to a report: the product is exact, and memory changes nothing."""
    keys, _, traces = traces_of(6, 25)
    memory = Memoised(Identity(universe=60))
    reports = reports_of(memory, traces, keys)
    expected = posterior(memory.mechanism, reports, STRONG, lengths=np.full(6, 25))[:, -1]
    for user in range(6):
        likelihood, counts = groups(memory, {"value": traces[user]}, STRONG)
        found = normalised(product_scores(likelihood, counts, STRONG), STRONG)
        np.testing.assert_allclose(found, expected[user], rtol=1e-9)
        some = likelihood[:8], counts[:8]
        exact = normalised(exact_scores(*some, STRONG), STRONG)
        np.testing.assert_allclose(normalised(product_scores(*some, STRONG), STRONG), exact, rtol=1e-9)


def test_impossible_reports_leave_the_prior():
    adversary = replace(ORACLE, belief=Behaviour(pools=(1.0, 3.0)))
    likelihood = np.full((1, 5), -np.inf)
    for scores in (exact_scores, occupancy_scores, product_scores):
        np.testing.assert_allclose(normalised(scores(likelihood, np.array([2]), adversary), adversary), [0.25, 0.75])


def test_more_groups_than_objects_are_impossible():
    """Six different answers, five objects."""
    likelihood, counts = np.zeros((6, 5)), np.ones(6, dtype=np.int64)
    assert np.all(np.isneginf(exact_scores(likelihood, counts, ORACLE)))


@pytest.mark.parametrize("neutral", [0, 39])
def test_occupancy_is_near_the_exact_sum(neutral):
    """Much nearer than the product, on users with eight groups."""
    universe = Universe.sized(21 + neutral, {"a": 8, "b": 1, "c": 12})
    popularity = zipf(universe, 1.0)
    adversary = Adversary(name="strong", universe=universe, popularity=popularity)
    keys = user_keys(SEED, np.arange(150))
    traces = draw_traces(universe, popularity, draw_users(universe, Behaviour(), keys), 14)
    memory = Memoised(NoHashCMS(universe=universe.size, epsilon=2.0))
    gaps = []
    for key, trace in zip(keys, traces, strict=True):
        likelihood, counts = groups(memory, reports_of(memory, trace[None], key[None]), adversary)
        if len(counts) == 8:
            exact, near, far = (
                normalised(scores(likelihood, counts, adversary), adversary)
                for scores in (exact_scores, occupancy_scores, product_scores)
            )
            gaps.append([np.abs(near - exact).sum() / 2, np.abs(far - exact).sum() / 2])
    near, far = np.mean(gaps, axis=0)
    assert len(gaps) >= 10
    assert near < 0.08, gaps
    assert near < far / 3, (near, far)


def test_the_grid_of_the_occupancy_is_fine_enough():
    keys, _, traces = traces_of(5, 90)
    memory = Memoised(NoHashCMS(universe=60, epsilon=4.0))
    for key, trace in zip(keys, traces, strict=True):
        likelihood, counts = groups(memory, reports_of(memory, trace[None], key[None]), STRONG)
        found = normalised(occupancy_scores(likelihood, counts, STRONG), STRONG)
        finest = normalised(_grid_scores(likelihood, counts, STRONG, 90.0, 96), STRONG)
        np.testing.assert_allclose(found, finest, atol=1e-3)


def test_huge_counts_do_not_underflow():
    likelihood = np.log(random_channel(4, 4).astype(np.float64)[:, :3].T)
    counts = np.array([3000, 2500, 40])
    for scores in (exact_scores, occupancy_scores, product_scores):
        assert np.all(np.isfinite(normalised(scores(likelihood, counts, ORACLE), ORACLE)))


# Does it know its odds


@pytest.fixture(scope="module")
def attacked():
    """400 users with memory, and what three adversaries make of them."""
    keys, users, traces = traces_of(400, 20)
    memory = Memoised(NoHashCMS(universe=60, epsilon=3.0))
    reports, lengths = reports_of(memory, traces, keys), np.full(400, 20)
    found = {
        "grouped": posterior(memory, reports, STRONG, lengths=lengths, observations=[20])[:, 0],
        "each": posterior(memory.mechanism, reports, STRONG, lengths=lengths)[:, -1],
    }
    products = []
    for user in range(400):
        part = {name: column[20 * user : 20 * user + 20] for name, column in reports.items()}
        products.append(normalised(product_scores(*groups(memory, part, STRONG), STRONG), STRONG))
    return users.iota, {**found, "product": np.array(products)}


def outcomes(truth, posterior):
    names = np.array(CROWD.pool_names)
    guess = names[posterior.argmax(axis=1)]
    return pl.DataFrame({"pool": names[truth], "guess": guess, "confidence": posterior.max(axis=1)})


def test_the_attack_is_calibrated(attacked):
    truth, found = attacked
    rows = outcomes(truth, found["grouped"])
    assert calibration_error(rows, 1).value <= calibration_limit(rows, 1)


@pytest.mark.parametrize("wrong", ["each", "product"])
def test_other_ways_are_not_calibrated(attacked, wrong):
    """Counting an answer again each time it is sent, or forgetting that different answers are different objects."""
    truth, found = attacked
    rows = outcomes(truth, found[wrong])
    assert calibration_error(rows, 1).value > 1.2 * calibration_limit(rows, 1)

    def loss(name):
        return -np.log(found[name][np.arange(len(truth)), truth]).mean()

    assert loss("grouped") < loss(wrong)


def test_users_are_attacked_one_by_one(attacked):
    keys, _, traces = traces_of(3, 20)
    memory = Memoised(NoHashCMS(universe=60, epsilon=3.0))
    for user in range(3):
        alone = posterior(memory, reports_of(memory, traces[[user]], keys[[user]]), STRONG, observations=[20])
        np.testing.assert_array_equal(alone[0], attacked[1]["grouped"][user])


# Bad input


MEMORY = Memoised(Channel(universe=5, matrix=np.eye(5)))


def test_bad_groups_and_lengths():
    likelihood = np.zeros((2, 5))
    with pytest.raises(InputError, match=r"log_likelihood must be \(groups, universe\).*got \(2, 5\)"):
        exact_scores(likelihood, np.array([1, 0]), ORACLE)
    with pytest.raises(InputError, match=r"must be \(groups, universe\)"):
        product_scores(likelihood[:, :4], np.array([1, 1]), ORACLE)
    with pytest.raises(InputError, match="at most 12 groups of reports, got 13"):
        exact_scores(np.zeros((13, 5)), np.ones(13, dtype=int), ORACLE)
    with pytest.raises(InputError, match="lengths must add up to the 2 reports, got 3"):
        posterior(
            Memoised(Channel(universe=5, matrix=np.eye(5))), {"report": np.array([1, 2])}, ORACLE, lengths=np.array([3])
        )
    with pytest.raises(InputError, match="this mechanism does not state its likelihoods, got 'object'"):
        groups(Memoised(object()), {"report": np.array([1])}, ORACLE)
    with pytest.raises(InputError, match="must be a device with memory, got 'Fresh'"):
        groups(Fresh(Channel(universe=5, matrix=np.eye(5))), {"report": np.array([1])}, ORACLE)


def test_no_reports_leave_the_prior():
    np.testing.assert_allclose(posterior(MEMORY, {"report": np.empty(0, dtype=int)}, ORACLE), [[0.5, 0.5]])


# The page


def test_the_page_runs():
    """With a few users, and fewer reports."""
    page = (Path(__file__).parents[2] / "docs" / "memory.md").read_text()
    _, *blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    printed = []
    names = {"print": printed.append}
    small = {
        "users, seed = 300, 1": "users, seed = 3, 1",
        "(7, 30, 90)": "(7, 12)",
        "users, n = 200, 30": "users, n = 3, 8",
    }
    for block in blocks:
        for old, new in small.items():
            block = block.replace(old, new)
        exec(compile(block, "memory.md", "exec"), names)
    assert len(printed) == 2 * 4 + 4 * 3


def test_two_objects_share_an_answer_as_often_as_the_page_says():
    xi = 1 / (1 + np.exp(0.5))
    vectors = np.array(list(product((0, 1), repeat=4)))
    unary = np.where(vectors[:, None, :] == np.eye(4), 1 - xi, xi).prod(axis=2).T
    np.testing.assert_allclose((unary @ unary.T)[0, 1], (2 * xi * (1 - xi)) ** 2 * ((1 - xi) ** 2 + xi**2) ** 2)
    p, q = np.array([np.e, 1]) / (np.e + 3)
    response = np.full((4, 4), q) + (p - q) * np.eye(4)
    np.testing.assert_allclose((response @ response.T)[0, 1], 2 * p * q + 2 * q**2)
