"""Attacks on multidimensional reports: exact in fractions, calibrated under their own model, and not under another."""

from fractions import Fraction

import numpy as np
import pytest
from cases.calibrated import calibration_p
from cases.multidimensional import CASES
from cases.selection import mostly, statistical
from cases.synthetic import SEED

from poolscope.core.errors import InputError
from poolscope.inference.adversary import Adversary
from poolscope.inference.posterior import posterior_of_likelihood
from poolscope.mechanisms import (
    GRR,
    RSFD,
    RSRFD,
    SMP,
    SPL,
    attribute_posterior,
    reports_from_tuples,
    sampled_attribute_posterior,
)
from poolscope.population.behavior import Behavior
from poolscope.population.popularity import zipf
from poolscope.population.universe import Universe

SAMPLING = [name for name, case in CASES.items() if case.kind != "spl"]
CALIBRATED = 1e-3


# Which attribute was sampled


@pytest.mark.parametrize("name", SAMPLING)
def test_the_sampled_attribute_is_known_exactly(name):
    """Against the enumeration over dependent tuples, of which the posterior knows the marginals only."""
    case, mechanism = CASES[name], CASES[name].mechanism
    weights = np.random.default_rng(SEED).integers(1, 9, size=len(case.tuples)).tolist()
    beliefs = {
        f"a{j}": [
            sum(w for w, x in zip(weights, case.tuples, strict=True) if x[j] == z) / sum(weights) for z in range(size)
        ]
        for j, size in enumerate(case.sizes)
    }
    joint = {}
    for x, weight in zip(case.tuples, weights, strict=True):
        for (j, report), probability in case.joint(x).items():
            row = joint.setdefault(report, [Fraction(0)] * len(case.sizes))
            row[j] += Fraction(weight, sum(weights)) * probability
    possible = {report: row for report, row in joint.items() if sum(row)}
    expected = [[float(p / sum(row)) for p in row] for row in possible.values()]
    columns = reports_from_tuples(mechanism, list(possible))
    found = sampled_attribute_posterior(mechanism, columns, beliefs=beliefs)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def sampled_and_reports(mechanism, people, rng):
    """Reports of people, and which attribute of each was sampled."""
    keys = rng.integers(2**64, size=len(people), dtype=np.uint64)
    return mechanism.sampled(keys), mechanism.report(people, keys)


def drawn_people(mechanism, beliefs, count, rng):
    return np.stack([rng.choice(len(belief), size=count, p=belief) for belief in beliefs.values()], axis=1)


RS_KINDS = {
    "grr": RSFD({"a": 8, "b": 5, "c": 4}, epsilon=3.0),
    "sue zero": RSFD({"a": 8, "b": 5, "c": 4}, epsilon=3.0, randomizer="sue", fake="zero"),
    "oue random": RSFD({"a": 8, "b": 5, "c": 4}, epsilon=3.0, randomizer="oue", fake="random"),
    "priors": RSRFD(
        {"a": 3, "b": 2}, epsilon=3.0, randomizer=["grr", "oue"], priors={"a": [0.6, 0.3, 0.1], "b": [0.8, 0.2]}
    ),
}


def beliefs_of(mechanism):
    return {name: np.arange(1.0, k + 1) / np.arange(1.0, k + 1).sum() for name, k in mechanism.attributes.items()}


@pytest.mark.parametrize("name", mostly(statistical, RS_KINDS, "sue zero"))
def test_the_posterior_of_the_sampled_attribute_is_calibrated(name):
    mechanism, rng = RS_KINDS[name], np.random.default_rng(SEED)
    beliefs = beliefs_of(mechanism)
    truth, reports = sampled_and_reports(mechanism, drawn_people(mechanism, beliefs, 20_000, rng), rng)
    found = sampled_attribute_posterior(mechanism, reports, beliefs=beliefs)
    assert calibration_p(truth, found, SEED) > CALIBRATED
    assert np.mean(found.argmax(axis=1) == truth) > 1 / mechanism.d + 0.05


def test_beliefs_about_other_people_are_not_calibrated():
    """The negative control: an adversary who believes in the reverse frequencies."""
    mechanism, rng = RS_KINDS["sue zero"], np.random.default_rng(SEED)
    beliefs = {name: np.array([0.97] + [0.03 / (k - 1)] * (k - 1)) for name, k in mechanism.attributes.items()}
    truth, reports = sampled_and_reports(mechanism, drawn_people(mechanism, beliefs, 20_000, rng), rng)
    wrong = {name: belief[::-1] for name, belief in beliefs.items()}
    assert calibration_p(truth, sampled_attribute_posterior(mechanism, reports, beliefs=wrong), SEED) < 1e-4


def test_smp_says_which_attribute_it_sampled():
    mechanism, rng = SMP({"a": 3, "b": 2}, epsilon=1.0, randomizer="sue"), np.random.default_rng(SEED)
    truth, reports = sampled_and_reports(mechanism, rng.integers(2, size=(100, 2)), rng)
    assert np.array_equal(sampled_attribute_posterior(mechanism, reports), np.eye(2)[truth])


# The pool of an attribute

UNIVERSE = Universe.sized(12, {"left": 4, "right": 4})
STRONG = Adversary(name="strong", universe=UNIVERSE, popularity=zipf(UNIVERSE, exponent=0.7))


def people_with_pools(users, n, other, rng):
    """Traces of a first attribute by the paper's model, and of a second one that is drawn for each report."""
    pools = rng.integers(2, size=users)
    gamma, delta = 1 - rng.random(users), 1 - 0.5 * rng.random(users)
    popularity = np.stack([np.where(UNIVERSE.pool_of == i, STRONG.popularity, 0.0) for i in (-1, 0, 1)])
    popularity /= popularity.sum(axis=1, keepdims=True)
    own, interested = rng.random((users, n)) < delta[:, None], rng.random((users, n)) < gamma[:, None]
    section = np.where(interested, 1 + np.where(own, pools[:, None], 1 - pools[:, None]), 0)
    cumulative = np.cumsum(popularity, axis=1)
    first = (rng.random((users, n, 1)) > cumulative[section]).sum(axis=2).clip(max=UNIVERSE.size - 1)
    second = rng.choice(len(other), size=(users, n), p=other)
    return pools, np.stack([first, second], axis=2).reshape(users * n, 2)


OTHER = np.array([0.85, 0.1, 0.05])
FIRST_KINDS = {
    "spl grr": SPL({"first": 12, "second": 3}, epsilon=8.0),
    "smp oue": SMP({"first": 12, "second": 3}, epsilon=4.0, randomizer="oue"),
    "rs+fd grr": RSFD({"first": 12, "second": 3}, epsilon=5.0),
    "rs+fd oue zero": RSFD({"first": 12, "second": 3}, epsilon=5.0, randomizer="oue"),
    "rs+fd sue random": RSFD({"first": 12, "second": 3}, epsilon=5.0, randomizer="sue", fake="random"),
    "rs+rfd grr": RSRFD(
        {"first": 12, "second": 3}, epsilon=5.0, priors={"first": np.full(12, 1 / 12), "second": OTHER[::-1]}
    ),
}


@pytest.mark.parametrize("name", mostly(statistical, FIRST_KINDS, "rs+fd oue zero"))
def test_the_posterior_of_a_pool_is_calibrated(name):
    mechanism, rng = FIRST_KINDS[name], np.random.default_rng(SEED)
    pools, people = people_with_pools(6000, 20, OTHER, rng)
    reports = mechanism.obfuscate(people, rng)
    found = attribute_posterior(
        mechanism, reports, STRONG, attribute="first", beliefs={"second": OTHER}, lengths=np.full(6000, 20)
    )
    assert found.shape == (6000, 21, 2)
    assert calibration_p(pools, found[:, -1], SEED) > CALIBRATED
    assert np.mean(found[:, -1].argmax(axis=1) == pools) > 0.6


def test_an_attack_that_takes_fakes_for_reports_is_overconfident():
    """The negative control: fake data is read as the attribute's own reports."""
    mechanism, rng = FIRST_KINDS["rs+fd grr"], np.random.default_rng(SEED)
    pools, people = people_with_pools(6000, 20, OTHER, rng)
    reports = mechanism.obfuscate(people, rng)
    as_spl = SPL(mechanism.attributes, epsilon=2 * mechanism.epsilon)
    found = attribute_posterior(as_spl, reports, STRONG, attribute="first", lengths=np.full(6000, 20))
    assert calibration_p(pools, found[:, -1], SEED) < 1e-4


@pytest.mark.parametrize("name", FIRST_KINDS)
def test_the_posterior_is_that_of_the_enumerated_likelihood(name):
    """From the likelihoods of whole tuples, summed over the second attribute and over the pools by hand."""
    mechanism, rng = FIRST_KINDS[name], np.random.default_rng(SEED)
    _, people = people_with_pools(1, 8, OTHER, rng)
    reports = mechanism.obfuscate(people, rng)
    whole = np.exp(mechanism.log_likelihood(reports)).reshape(8, 12, 3) @ OTHER
    shares = np.stack([np.where(UNIVERSE.pool_of == i, STRONG.popularity, 0.0) for i in (-1, 0, 1)], axis=1)
    likelihood = whole @ (shares / shares.sum(axis=0))
    expected = posterior_of_likelihood(likelihood / likelihood.max(axis=1, keepdims=True))
    found = attribute_posterior(mechanism, reports, STRONG, attribute="first", beliefs={"second": OTHER})
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_lengths_split_users_and_priors_are_used():
    mechanism, rng = FIRST_KINDS["rs+fd grr"], np.random.default_rng(SEED)
    belief = Behavior(pools=(0.9, 0.1))
    adversary = Adversary(name="sure", universe=UNIVERSE, popularity=STRONG.popularity, belief=belief)
    reports = mechanism.obfuscate(people_with_pools(1, 5, OTHER, rng)[1], rng)
    both = attribute_posterior(mechanism, reports, adversary, attribute="first", lengths=np.array([2, 3]))
    for user, rows in enumerate((slice(0, 2), slice(2, 5))):
        some = {name: column[rows] for name, column in reports.items()}
        alone = attribute_posterior(mechanism, some, adversary, attribute="first")
        np.testing.assert_allclose(both[user, : len(alone)], alone, rtol=0, atol=1e-12)
        np.testing.assert_allclose(alone[0], [0.9, 0.1], rtol=0, atol=1e-12)


def test_errors_are_one_line():
    mechanism = RSFD({"first": 12, "second": 3}, epsilon=1.0)
    reports = mechanism.obfuscate([[0, 0]], np.random.default_rng(SEED))
    with pytest.raises(InputError, match="must sample an attribute: SPL sends all of them, got 'SPL'"):
        sampled_attribute_posterior(FIRST_KINDS["spl grr"], reports)
    with pytest.raises(InputError, match="universe must have the 3 values of 'second', got 12"):
        attribute_posterior(mechanism, reports, STRONG, attribute="second")
    with pytest.raises(InputError, match="must be a mechanism for several attributes"):
        attribute_posterior(GRR(universe=12, epsilon=1.0), reports, STRONG, attribute="first")
    with pytest.raises(InputError, match="reports must have a column 'second'"):
        sampled_attribute_posterior(mechanism, {"first": reports["first"]})
    with pytest.raises(InputError, match="second: must sum to 1, got 2"):
        sampled_attribute_posterior(mechanism, reports, beliefs={"second": [1.0, 1.0, 0.0]})
