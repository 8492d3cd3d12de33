"""The posterior of an attribute from several collections, against enumeration and against its definition."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from oracle.collections import attribute_posterior, fresh_scores
from oracle.memoized import identical, pool_scores

from poolscope.core.errors import InputError
from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import posterior
from poolscope.inference.joint import (
    MAX_LOG_ODDS,
    joint_mcse,
    joint_pool_posteriors,
    joint_posterior,
    joint_scores,
    linked,
    log_odds,
)
from poolscope.kernels.joint import first_confident_jointly, link_evidence
from poolscope.mechanisms import GRR, Memoized
from poolscope.population.popularity import within_pools
from poolscope.population.universe import Universe

FOUR = Universe.sized(4, {"a": 1, "b": 2})
FIVE = Universe.sized(5, {"a": 1, "b": 2, "c": 1})
#: e^epsilon = 3, so that all probabilities are fractions.
EPSILON = float(np.log(3.0))

LINK_TWO = [[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 5), Fraction(4, 5)]]
LINK_THREE = [[Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)], [Fraction(0), Fraction(1, 4), Fraction(3, 4)]]
PRIOR = [Fraction(2, 3), Fraction(1, 3)]


def adversary_of(universe):
    popularity = np.arange(1.0, universe.size + 1)
    exact = [Fraction(1, 1)] * universe.size
    for pool in range(-1, universe.k):
        own = [z for z in range(universe.size) if universe.pool_of[z] == pool]
        for z in own:
            exact[z] = Fraction(z + 1, sum(y + 1 for y in own))
    adversary = Adversary(name="oracle", universe=universe, popularity=popularity)
    np.testing.assert_allclose([float(x) for x in exact], within_pools(universe, popularity), rtol=1e-14)
    return adversary, exact


def channel_of(universe):
    size = universe.size
    return [[Fraction(3 if z == y else 1, size + 2) for y in range(size)] for z in range(size)]


def exact_scores(universe, reports, memoized):
    within, pools = adversary_of(universe)[1], [int(pool) for pool in universe.pool_of]
    if memoized:
        return pool_scores(identical(channel_of(universe)), reports, within, pools, universe.k)
    return fresh_scores(channel_of(universe), reports, within, pools, universe.k)


def inferred(universe, reports, memoized):
    mechanism = GRR(universe=universe.size, epsilon=EPSILON)
    device = Memoized(mechanism) if memoized else mechanism
    sent = {"value": np.array(reports)}
    return posterior(device, sent, adversary_of(universe)[0], observations=[len(reports)])[0]


CASES = [((0, 1), (2, 2, 4)), ((3,), (0, 1, 1)), ((1, 1, 2), (4,)), ((0, 0, 1), (3, 3, 1))]


@pytest.mark.parametrize(("first", "second"), CASES)
@pytest.mark.parametrize("memoized", [(False, False), (True, False), (False, True), (True, True)])
def test_two_tiny_collections_are_enumerated(first, second, memoized):
    sent = ((FOUR, first, memoized[0]), (FIVE, second, memoized[1]))
    exact = attribute_posterior(PRIOR, [LINK_TWO, LINK_THREE], [exact_scores(*one) for one in sent])
    links = [np.array(link, dtype=float) for link in (LINK_TWO, LINK_THREE)]
    found = joint_posterior([inferred(*one) for one in sent], links, [float(share) for share in PRIOR])
    np.testing.assert_allclose(found, [float(share) for share in exact], rtol=1e-9)


def test_by_name_it_is_the_normalized_product():
    rng = np.random.default_rng(1)
    for c, k in product((1, 2, 3, 5), (2, 6)):
        singles = [rng.dirichlet(np.full(k, 0.3), size=40) for _ in range(c)]
        expected = np.prod(singles, axis=0)
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(joint_posterior(singles, [np.eye(k)] * c), expected, rtol=0, atol=1e-12)


def test_a_link_of_chance_says_nothing():
    rng = np.random.default_rng(2)
    one, other = rng.dirichlet(np.ones(3), size=50), rng.dirichlet(np.ones(3), size=50)
    chance, known = np.full((3, 3), 1 / 3), np.eye(3)
    np.testing.assert_allclose(joint_posterior([one, other], [known, chance]), one, rtol=0, atol=1e-14)
    # the control: another link does say something
    some = np.full((3, 3), 0.3) + 0.1 * np.eye(3)
    assert np.abs(joint_posterior([one, other], [known, some]) - one).max() > 0.01


def test_excluded_reports_are_no_evidence():
    one, nothing = np.array([0.9, 0.1]), np.array([np.nan, np.nan])
    np.testing.assert_allclose(joint_posterior([one, nothing], [np.eye(2)] * 2), one)
    # certain of different values: the prior is left
    np.testing.assert_allclose(joint_posterior([[1.0, 0.0], [0.0, 1.0]], [np.eye(2)] * 2, [0.7, 0.3]), [0.7, 0.3])


def test_log_odds_keep_their_digits():
    sure = np.array([[1 - 1e-14, 1e-14]])
    scores = joint_scores(np.stack([sure] * 3, axis=-2), np.full(2, 0.5))
    odds = np.log(sure[0, 0] / sure[0, 1])
    np.testing.assert_allclose(log_odds(scores, np.array([0])), [3 * odds], rtol=1e-12)
    never = joint_scores(np.array([[[1.0, 0.0]]]), np.full(2, 0.5))
    assert log_odds(never, np.array([1])).tolist() == [-MAX_LOG_ODDS]


def test_errors_spread_as_by_simulation():
    rng = np.random.default_rng(3)
    own, error, link = np.array([0.55, 0.45]), np.array([0.01, 0.01]), np.array([[0.9, 0.1], [0.3, 0.7]])
    other, known = np.array([0.4, 0.6]), np.eye(2)
    joint = joint_posterior([own, other], [link, known])
    noise = rng.normal(0, 0.01, size=20_000)
    moved = joint_posterior(
        [np.stack([own[0] + noise, own[1] - noise], axis=1), np.tile(other, (20_000, 1))], [link, known]
    )
    found = joint_mcse(joint, [(own, error)], [link])
    np.testing.assert_allclose(found, moved.std(axis=0), rtol=0.03)


def test_the_first_confident_day_is_that_of_the_posteriors():
    rng = np.random.default_rng(4)
    users, days, k, values, thresholds = 30, 20, 4, 3, np.array([0.5, 0.9, 0.95])
    links = [rng.dirichlet(np.ones(k), size=values) for _ in range(2)]
    posteriors = [rng.dirichlet(np.full(k, 0.1), size=(users, days)) for _ in range(2)]
    posteriors[0][3, 5:9] = np.nan
    rows = np.sort(rng.integers(days, size=(2, users, days)), axis=2)
    prior = np.array([0.5, 0.3, 0.2])
    evidence = np.empty((users, days, 2, values))
    for c in range(2):
        link_evidence(posteriors[c], rows[c], links[c], evidence[:, :, c])
    out = np.empty((users, 3), dtype=np.int32)
    first_confident_jointly(evidence, np.array([True, True]), prior, thresholds, out)
    dated = [np.take_along_axis(posteriors[c], rows[c][:, :, None], axis=1) for c in range(2)]
    top = joint_posterior(dated, links, prior).max(axis=2)
    expected = [[next((d for d in range(days) if top[u, d] >= t), -1) for t in thresholds] for u in range(users)]
    assert out.tolist() == expected
    assert (out >= 0).any()
    assert (out < 0).any()


def test_products_of_many_collections_do_not_underflow():
    evidence = np.full((1, 1, 60, 2), 1.0)
    evidence[0, 0, :30, 0], evidence[0, 0, 30:, 1] = 1e-20, 1e-20
    out = np.empty((1, 1), dtype=np.int32)
    used = np.ones(60, dtype=bool)
    first_confident_jointly(evidence, used, np.full(2, 0.5), np.array([0.6]), out)
    assert out[0, 0] == -1
    used[0] = False
    first_confident_jointly(evidence, used, np.full(2, 0.5), np.array([0.6]), out)
    assert out[0, 0] == 0


@pytest.mark.parametrize(
    ("posteriors", "links", "prior", "message"),
    [
        ([[0.5, 0.5]], [], None, "a link for each collection"),
        ([[0.5, 0.5]], [[[0.5, 0.4], [0.5, 0.5]]], None, "rows of a link must sum to 1"),
        ([[0.5, 0.5]], [[[0.5, 0.5], [-0.5, 1.5]]], None, "at least 0"),
        ([[0.5, 0.3, 0.2]], [np.eye(2)], None, r"a link must be \(2, 3\)"),
        ([[0.5, 0.5]], [np.eye(2)], [1.0], "prior must be"),
        ([[0.5, 0.5]], [np.eye(2)], [0.0, 0.0], "prior must be"),
    ],
)
def test_what_does_not_fit_is_one_line(posteriors, links, prior, message):
    with pytest.raises(InputError, match=message):
        joint_posterior(posteriors, links, prior)


def test_linked_is_the_sum_over_pools():
    np.testing.assert_allclose(linked(np.array([0.2, 0.8]), np.array([[1.0, 0.0], [0.5, 0.5]])), [0.2, 0.5])


def test_a_confidence_at_the_threshold_reaches_it():
    """Without evidence the posterior is the prior."""
    first, none = np.empty((1, 2), dtype=np.int32), np.ones((1, 3, 2, 2))
    first_confident_jointly(none, np.array([True, True]), np.array([0.5, 0.5]), np.array([0.5, 0.75]), first)
    assert first.tolist() == [[0, -1]]


def test_pools_are_those_of_all_combinations():
    """Three collections, one of three pools: the joint distribution of value and pools, summed one by one."""
    rng, prior = np.random.default_rng(3), np.array([0.7, 0.3])
    links = [rng.dirichlet(np.ones(k), size=2) for k in (2, 3, 2)]
    own = [rng.dirichlet(np.ones(k), size=4) for k in (2, 3, 2)]
    joint = np.einsum("a,ai,aj,al,ni,nj,nl->nijl", prior, *links, *own)
    found = joint_pool_posteriors(own, links, prior)
    for c, axes in enumerate([(2, 3), (1, 3), (1, 2)]):
        expected = joint.sum(axis=axes)
        np.testing.assert_allclose(found[c], expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)


def test_pools_without_evidence_are_those_believed():
    links, prior = [np.array([[0.9, 0.1], [0.2, 0.8]]), np.eye(2)], np.array([0.6, 0.4])
    silent = joint_pool_posteriors([np.full((1, 2), np.nan)] * 2, links, prior)
    np.testing.assert_allclose(silent[0], [prior @ links[0]])
    # the second names the value, and so the probabilities of the first's pools
    found = joint_pool_posteriors([np.full((1, 2), np.nan), np.array([[0.0, 1.0]])], links, prior)
    np.testing.assert_allclose(found[0], [[0.2, 0.8]])
    # far apart: products would underflow
    far = joint_pool_posteriors([np.array([[1e-300, 1.0]]), np.array([[1.0, 1e-300]])], [np.eye(2)] * 2, prior)
    np.testing.assert_allclose(far[0], [prior])
