"""A check that gates a pipeline: its false-alarm rate by computation and by simulation, and its power."""

import numpy as np
import pytest
from scipy import stats

from poolscope.core.errors import InputError
from poolscope.mechanisms.grr import GRR
from poolscope.workflows.check.bounds import plan
from poolscope.workflows.check.check import GATE_ERROR, GUESS_ERROR_SHARE, ErrorBudget, check
from poolscope.workflows.check.distribution import DISTRIBUTION_PARTS

#: Trials of the computed level: few enough to list every outcome.
TRIALS = 80


def test_the_budget_adds_up():
    """Lower bounds of both methods, comparisons on both sides and tests of independence: 1 in 10,000 together."""
    for methods in (1, 2):
        budget = ErrorBudget.of(GATE_ERROR / 2, GATE_ERROR / 2, methods)
        sides = DISTRIBUTION_PARTS * budget.distribution
        assert methods * (budget.bounds + budget.independence) + sides == pytest.approx(1e-4)


def exceeding(planned, hits, trials, epsilon):
    with np.errstate(invalid="ignore", divide="ignore"):
        return planned.unclipped(hits, trials) > epsilon


def chance_of_exceeding(planned, rates, epsilon):
    """The probability that the bound exceeds epsilon, summed over every outcome of both objects."""
    total = 0.0
    for ones in range(planned.trials + 1):
        others = planned.trials - ones
        allocated = stats.binom.pmf(ones, planned.trials, planned.share)
        if allocated < 1e-12:
            continue
        hits, other_hits = np.meshgrid(np.arange(ones + 1), np.arange(others + 1), indexing="ij")
        chance = stats.binom.pmf(hits, ones, rates[0]) * stats.binom.pmf(other_hits, others, rates[1])
        likely = chance > 1e-14
        outcomes = zip(hits[likely].tolist(), other_hits[likely].tolist(), strict=True)
        exceeds = [exceeding(planned, outcome, (ones, others), epsilon) for outcome in outcomes]
        total += allocated * chance[likely][exceeds].sum()
    return total


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "epsilon"), [(0.02, 2.0), (0.3, 1.0), (0.45, 0.5)])
def test_the_bound_exceeds_a_true_epsilon_as_rarely_as_the_gate_allows(rate, epsilon):
    """By computation, at the error that the gate gives to the bound; a plan with a hundred times the error does not."""
    alpha = (1.0 - GUESS_ERROR_SHARE) * ErrorBudget.of(GATE_ERROR / 2, GATE_ERROR / 2, 1).bounds
    rates = min(1.0, rate * np.exp(epsilon)), rate
    found = chance_of_exceeding(plan(rates, TRIALS, alpha), rates, np.log(rates[0] / rates[1]))
    assert found <= alpha
    assert chance_of_exceeding(plan(rates, TRIALS, 0.5), rates, np.log(rates[0] / rates[1])) > alpha


@pytest.mark.slow
@pytest.mark.statistical
def test_correct_mechanisms_pass_and_a_wrong_one_is_caught():
    """Of 150 correct runs the gate fails none, where the default fails some; half of epsilon more is always found.

    The default may fail 5.1%. With this rate, 150 runs without any failure have a probability of 0.0004.
    """
    correct = GRR(universe=4, epsilon=1.0)
    runs = 150
    gated = sum(not check(correct, samples=1000, seed=seed, gate=True).passed for seed in range(runs))
    usual = sum(not check(correct, samples=1000, seed=seed).passed for seed in range(runs))
    assert stats.binom.sf(gated - 1, runs, GATE_ERROR) > 0.01
    assert gated == 0
    assert usual > 0
    assert stats.binom.sf(usual - 1, runs, 0.051) > 1e-3
    wrong = Overspending(1.0, 1.5)
    for seed in range(10):
        verdict = check(wrong, samples=20_000, seed=seed, gate=True)
        assert not verdict.passed
        assert verdict.lower_bound.detectable < 1.5


class Overspending:
    """Randomized response that declares less epsilon than it spends, and states nothing else."""

    universe = 4

    def __init__(self, declared, spent):
        self.epsilon, self.own = declared, GRR(universe=4, epsilon=spent)

    def obfuscate(self, objects, rng):
        return self.own.obfuscate(objects, rng)


def test_the_gate_states_its_rate_and_its_power():
    mechanism = GRR(universe=4, epsilon=1.0)
    gated, usual = (check(mechanism, samples=20_000, seed=1, gate=gate) for gate in (True, False))
    assert gated.passed
    assert gated.false_alarm_rate == pytest.approx(1e-4)
    assert usual.false_alarm_rate == pytest.approx(0.051)
    assert gated.confidence == gated.distribution_confidence == 1 - 5e-5
    assert 1.0 < usual.lower_bound.detectable < gated.lower_bound.detectable < 1.5
    power = f"nine in ten detect ε ≥ {gated.lower_bound.detectable:.3g}"
    assert f"A correct mechanism fails at most 1 in 10,000 checks; {power}." in gated.text
    assert "nine in ten" not in usual.text


@pytest.mark.slow
@pytest.mark.statistical
def test_nine_in_ten_detect_what_the_gate_says():
    """The stated power is of the event's bound: at the detectable epsilon, about 90% of the checks fail."""
    gated = check(GRR(universe=4, epsilon=1.0), samples=8000, seed=1, gate=True)
    wrong, runs = Overspending(1.0, gated.lower_bound.detectable), 100
    bounds = [check(wrong, samples=8000, seed=seed, gate=True).lower_bound.epsilon for seed in range(runs)]
    caught = sum(bound > 1.0 for bound in bounds)
    # the choice of the event costs some of it
    assert stats.binom.ppf(1e-3, runs, 0.8) <= caught


def test_a_gate_has_its_own_confidence():
    with pytest.raises(InputError, match="must not be given with `gate`"):
        check(GRR(universe=4, epsilon=1.0), samples=1000, seed=1, confidence=0.95, gate=True)
