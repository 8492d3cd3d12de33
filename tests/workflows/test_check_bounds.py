"""The bounds of a check hold, samples are spent where they prove most, and stated likelihoods are held against them."""

import numpy as np
import pytest
from cases.devices import Response
from cases.selection import mostly, statistical
from cases.synthetic import SEED
from oracle.kinds import KINDS, large, tiny
from scipy import stats

from poolscope.cli.check import rows, sentence
from poolscope.mechanisms import adapt, make
from poolscope.metrics.intervals import clopper_pearson
from poolscope.workflows.check.bounds import BoundPlan, is_significant, plan
from poolscope.workflows.check.check import check
from poolscope.workflows.check.distribution import FitCounter, ReportSample, posterior

SAMPLES = 10_000


# Bounds


@pytest.mark.default_cases("0.3-rates1", "None-rates2")
@pytest.mark.parametrize("rates", [(0.1, 0.04), (0.95, 0.05), (0.02, 0.004), (0.5, 0.5)])
@pytest.mark.parametrize("part", [None, 0.3])
def test_a_bound_is_wrong_no_more_often_than_allowed(rates, part):
    """Both ways, at the truth: log(p / p')."""
    rng, runs, error = np.random.default_rng(SEED), 4000, 0.1
    planned = BoundPlan(trials=3000, share=0.4, error=error, part=part)
    ones = rng.binomial(planned.trials, planned.share, size=runs)
    others = planned.trials - ones
    hits, other_hits = rng.binomial(ones, rates[0]), rng.binomial(others, rates[1])
    counts = np.stack([hits, other_hits, ones, others], axis=1).tolist()
    bounds = np.array([planned.bound((a, b), (n, m)) for a, b, n, m in counts])
    wrong = int((bounds > np.log(rates[0] / rates[1])).sum())
    assert wrong <= stats.binom.ppf(1 - 1e-4, runs, error), wrong
    assert wrong > 0, "the bound is no looser than it must be"


def test_most_is_spent_on_what_is_rare():
    often = plan((0.95, 0.35), 10_000, 0.05)
    assert often.share < 0.4
    assert often.part is not None, "a rate near one is bounded apart"
    rare = plan((0.01, 0.004), 10_000, 0.05)
    assert rare.part is None, "rare ones are bounded together"
    halves = BoundPlan(trials=10_000, share=0.5, error=0.05, part=0.5)
    for rates, planned in (((0.95, 0.35), often), ((0.01, 0.004), rare)):
        trials = round(planned.share * 10_000), 10_000 - round(planned.share * 10_000)
        expected = planned.bound((round(rates[0] * trials[0]), round(rates[1] * trials[1])), trials)
        even = halves.bound((round(rates[0] * 5000), round(rates[1] * 5000)), (5000, 5000))
        assert expected > even


def test_a_choice_is_clear_when_counts_prove_half_of_what_they_suggest():
    assert is_significant(np.array([500, 50]), np.array([1000, 1000]))
    assert not is_significant(np.array([11, 2]), np.array([200, 200]))
    assert not is_significant(np.array([0, 0]), np.array([200, 200]))


@pytest.mark.default_cases("grr")
@pytest.mark.parametrize("kind", ["grr", "ss"])
def test_as_tight_as_an_auditor_who_chooses_nothing(kind):
    """At epsilon 4 a report supports one object. What is proven by counts as expected, of as many reports."""
    mechanism, samples, error = make(kind, 25, {"epsilon": 4.0}), 100_000, 0.01
    rates = mechanism.p_star, mechanism.q_star
    verdict = check(mechanism, samples=samples, seed=SEED, confidence=1 - error)
    tested = sum(verdict.lower_bound.trials)
    assert tested == 0.75 * samples, "symmetric mechanisms need few to choose"
    planned = plan(rates, tested, error)
    assert verdict.lower_bound.trials[0] < tested / 3, "and most of the others go to the rarer rate"
    trials = round(planned.share * tested), tested - round(planned.share * tested)
    ours = planned.bound((round(rates[0] * trials[0]), round(rates[1] * trials[1])), trials)
    half = samples // 2
    hits = [round(rate * half) for rate in rates]
    low = stats.beta.ppf(error / 2, hits[0], half - hits[0] + 1)
    theirs = np.log(low / stats.beta.ppf(1 - error / 2, hits[1] + 1, half - hits[1]))
    assert ours > theirs + 0.01, (ours, theirs)


# Stated likelihoods


@pytest.mark.default_cases("own")
@pytest.mark.parametrize("given", [lambda own: own, lambda own: adapt(own, 5)], ids=["own", "adapted"])
def test_a_sampler_that_does_not_fit_its_likelihood_is_caught(given):
    verdict = check(given(Response(0.3)), samples=SAMPLES, seed=SEED)
    assert verdict.lower_bound.epsilon < 1, "what is sampled is private enough"
    assert not verdict.passed
    assert "samples do not match the stated likelihoods" in sentence(verdict)
    assert dict(rows(verdict))["likelihood declared, empirical"].endswith("differs")


def test_a_sampler_that_fits_is_kept():
    verdict = check(Response(), samples=SAMPLES, seed=SEED, confidence=0.999)
    assert verdict.passed, verdict.violations
    assert verdict.fit.low <= verdict.fit.stated <= verdict.fit.high
    assert not dict(rows(verdict))["likelihood declared, empirical"].endswith("differs")


@pytest.mark.parametrize("name", list(KINDS))
@pytest.mark.parametrize("size", [tiny, large])
def test_every_mechanism_fits_its_likelihood(name, size):
    mechanism = size(name)
    fitting = FitCounter(mechanism, (0, 1, 2, 3))
    rng = np.random.default_rng(SEED)
    for position, count in enumerate(rng.multinomial(20_000, [0.25] * 4)):
        fitting.add(
            position, ReportSample(mechanism=mechanism, reports=mechanism.obfuscate(np.full(count, position), rng))
        )
    assert fitting.fit().passed, fitting.fit()


@pytest.mark.parametrize("checks", mostly(statistical, [15, 100], 15))
def test_false_alarms_are_rarer_than_stated(checks):
    """Of a law that is kept, over many seeds: neither likelihood, nor p* and q*, nor generator."""
    mechanism = make("grr", 3, {"epsilon": 1.0})
    verdicts = [check(mechanism, samples=1000, seed=SEED + i) for i in range(checks)]
    alarms = sum(
        not v.fit.passed or bool(v.repeats.found) or any(s.passed is False for s in v.shares) for v in verdicts
    )
    assert alarms <= stats.binom.ppf(1 - 1e-4, len(verdicts), 0.001), alarms


def test_a_report_that_no_object_can_send_does_not_fit():
    class Stray(Response):
        def obfuscate(self, objects, rng):
            return np.where(rng.random(len(objects)) < 0.01, 5, super().obfuscate(objects, rng))

        def log_likelihood(self, reports):
            table = super().log_likelihood(reports)
            table[np.asarray(reports) == 5] = -np.inf
            return table

    verdict = check(Stray(), samples=SAMPLES, seed=SEED)
    assert not verdict.fit.passed
    assert verdict.fit.stated == 0


def test_the_posterior_of_equally_likely_objects():
    found = posterior(np.log([[1.0, 3.0], [2.0, 2.0]]))
    np.testing.assert_allclose(found, [[0.25, 0.75], [0.5, 0.5]])
    assert posterior(np.array([[-np.inf, -np.inf], [0.0, -np.inf]])).tolist() == [[0, 0], [1, 0]]


@pytest.mark.parametrize("truth", [1.0, 0.3])
def test_supports_of_a_mechanism_of_ones_own_are_held_against_samples(truth):
    """It states which objects a report supports, p* and q*, and no likelihood."""

    class HasLikelihood:
        universe, epsilon = 5, 1.0
        p_star, q_star = np.e / (np.e + 4), 1 / (np.e + 4)
        obfuscate = Response(truth).obfuscate

        def support(self, reports):
            return np.asarray(reports["report"])[:, None] == np.arange(5)

    verdict = check(HasLikelihood(), samples=SAMPLES, seed=SEED, confidence=0.999)
    assert (verdict.fit, {share.name for share in verdict.shares}) == (None, {"p*", "q*"})
    assert verdict.violations == (() if truth == 1.0 else ("samples do not match the stated p*",))


def test_the_two_bounds_of_a_test_share_its_error():
    planned = BoundPlan(trials=200, share=0.5, error=0.05, part=0.3)
    low, high = clopper_pearson(60, 100, 0.015)[0], clopper_pearson(10, 100, 0.035)[1]
    assert planned.bound((60, 10), (100, 100)) == pytest.approx(float(np.log(low / high)))
