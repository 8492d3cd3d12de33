"""The tests that a check is made of: each holds its error on correct reports, and finds what it is made for."""

import numpy as np
import pytest
from cases.broken import Noise, Silent, Unary
from cases.synthetic import SEED
from scipy import stats

from poolscope.cli.check import rows, sentence
from poolscope.mechanisms import make
from poolscope.workflows.check.bounds import (
    BoundPlan,
    best_event,
    guess_bound,
    isolated_rows,
    min_detectable_epsilon,
    plan,
)
from poolscope.workflows.check.check import check
from poolscope.workflows.check.independence import dependence_pvalue, lag_tests, rate_pvalue
from poolscope.workflows.check.sampling import (
    BitColumn,
    Sampler,
    Screening,
    bit_column,
    bit_counts,
    conspicuous_objects,
    draw_screening,
)

# What could have been found


@pytest.mark.default_cases("0.5-0.2", "2.0-0.01")
@pytest.mark.parametrize("rate", [0.2, 0.01])
@pytest.mark.parametrize("claimed", [0.5, 2.0])
def test_a_detectable_epsilon_is_found_in_nine_of_ten_tests(rate, claimed):
    rng, runs = np.random.default_rng(SEED), 4000
    planned = plan((min(0.9, rate * np.exp(claimed)), rate), 20_000, 0.05)
    epsilon = min_detectable_epsilon(planned, rate, claimed)
    other = min(rate, np.exp(-epsilon))
    ones = rng.binomial(planned.trials, planned.share, size=runs)
    hits = rng.binomial(ones, min(1.0, other * np.exp(epsilon)))
    other_hits = rng.binomial(planned.trials - ones, other)
    counts = np.stack([hits, other_hits, ones, planned.trials - ones], axis=1).tolist()
    found = np.mean([planned.bound((a, b), (n, m)) > claimed for a, b, n, m in counts])
    # an approximation by normal numbers: not far from nine in ten, on either side
    assert 0.85 < found < 0.96, (epsilon, found)


def test_what_is_detectable_has_ends():
    planned = BoundPlan(trials=1000, share=0.5, error=0.05, part=None)
    assert min_detectable_epsilon(planned, 1e-200, 1.0) == np.inf, "the event never happens"
    assert np.isnan(min_detectable_epsilon(planned, 0.1, np.nan))
    assert min_detectable_epsilon(planned, 0.1, np.inf) == np.inf
    more = BoundPlan(trials=100_000, share=0.5, error=0.05, part=None)
    assert 1 < min_detectable_epsilon(more, 0.1, 1.0) < min_detectable_epsilon(planned, 0.1, 1.0)


def test_a_check_says_what_could_have_been_found():
    """An event that spends half of epsilon leaves the other half untested."""
    verdict = check(Silent(Noise(universe=9, epsilon=2.0)), samples=4000, seed=SEED, objects=[3, 7])
    assert verdict.passed
    assert verdict.testable < 1.1, "the two objects are half of the range apart"
    assert f"The sample can test ε up to {verdict.testable:.3g} only" in sentence(verdict)
    found = dict(rows(verdict))["detectable"]
    assert found.startswith(f"ε ≥ {verdict.lower_bound.detectable:.4g} with 90% power")
    whole = check(make("grr", 4, {"epsilon": 1.0}), samples=20_000, seed=SEED)
    assert "can test" not in sentence(whole)
    assert 1 < whole.lower_bound.detectable < 1.3


# Guesses


def wide_of(mechanism, count, seed=SEED):
    return draw_screening(Sampler(mechanism=mechanism, objects=(0,), seed=seed), count)


@pytest.mark.parametrize("kind", ["grr", "oue", "the", "cms"])
def test_guesses_prove_too_much_no_more_often_than_allowed(kind):
    options = {"m": 64, "hashes": 16} if kind == "cms" else {}
    mechanism, runs, error = make(kind, 30, {"epsilon": 1.0, **options}), 60, 0.2
    found = [guess_bound(wide_of(mechanism, 1000, SEED + i), np.random.default_rng(i), error) for i in range(runs)]
    wrong = sum(guess.epsilon > 1 for guess in found)
    assert wrong <= stats.binom.ppf(1 - 1e-4, runs, error), wrong


def test_guesses_among_many_objects_need_few_reports():
    """Ten reports of two thousand are in the clear."""
    wide = wide_of(Silent(Unary(universe=40, clear=0.005)), 2000)
    found = guess_bound(wide, np.random.default_rng(SEED), 0.01)
    assert found.epsilon > 1
    assert found.rule == "the reports with the fewest set bits of bits"
    assert found.objects == 40
    assert len(wide_of(Silent(Unary(universe=200)), 1000).objects) == 125, "eight reports of each"


def test_reports_of_one_object_are_guessed_from_with_the_error_of_one_rule():
    """Every second report says its object, and the others say nothing."""
    drawn = np.tile(np.repeat(np.arange(4), 2), 50)
    marked = np.where(np.arange(400) % 2, 99.0, 10.0 + drawn)
    screening = Screening(mechanism=None, objects=np.arange(4), drawn=drawn, reports={"mark": marked})
    found = guess_bound(screening, np.random.default_rng(SEED), 0.03)
    assert (found.guesses, found.right, found.objects) == (100, 100, 4)
    # three rules: repeated reports, and the roundest and largest numbers; e^epsilon is the odds times three
    low = 0.01 ** (1 / 100)
    assert found.epsilon == pytest.approx(np.log(3 * low / (1 - low)))


def test_what_lies_beyond_a_gap():
    values = np.concatenate([[50, 1, 60, 2], np.arange(100, 200)])
    assert sorted(values[isolated_rows(values)]) == [1, 2], "up to the largest gap"
    assert len(isolated_rows(np.concatenate([np.zeros(20), np.arange(100, 200)]))) == 20, "equal values stay together"
    assert len(isolated_rows(np.zeros(50))) == 0, "all are equal"
    assert len(isolated_rows(np.arange(4))) == 0, "two of four are no small share"


def test_one_object_leaves_nothing_to_guess():
    wide = wide_of(make("grr", 1, {"epsilon": 1.0}), 100)
    assert guess_bound(wide, np.random.default_rng(SEED), 0.05) is None


# Objects that stand out


def test_an_object_without_noise_is_nominated():
    class Bare(Silent):
        def obfuscate(self, objects, rng):
            bits = super().obfuscate(objects, rng)["bits"]
            return {"bits": np.where((objects == 17)[:, None], np.arange(100) == 17, bits)}

    assert conspicuous_objects(wide_of(Bare(Unary(universe=100)), 2000))[0] == 17


def test_bits_are_counted_by_object():
    rng = np.random.default_rng(SEED)
    drawn, bits = rng.integers(3, size=50), rng.random((50, 12)) < 0.4
    packed = np.packbits(bits, axis=1, bitorder="little")
    for column, known in ((bits, BitColumn(column="b", size=12, one=True)), (packed, BitColumn(column="b", size=12))):
        wide = Screening(mechanism=None, objects=np.arange(4), drawn=drawn, reports={"b": column})
        for chosen in (None, rng.random(50) < 0.5):
            some = np.ones(50, dtype=bool) if chosen is None else chosen
            expected = [bits[some & (drawn == z)].sum(axis=0) for z in range(4)]
            np.testing.assert_array_equal(bit_counts(wide, known, chosen), expected)


def test_columns_of_bits_are_known_by_their_entries():
    bits = np.array([[0, 1, 1], [1, 0, 0]])
    packed = np.packbits(bits.astype(np.uint8), axis=1, bitorder="little")
    for column in (bits, bits.astype(bool), 2.0 * bits - 1, bits.astype(np.uint8)):
        found = bit_column("b", [column], None)
        np.testing.assert_array_equal(found.matrix(column), bits)
        np.testing.assert_array_equal(found.at(column, np.array([2, 0])), bits[:, [2, 0]])
        assert found.ones(column).tolist() == [2, 1]
    declared = bit_column("b", [packed], 3)
    np.testing.assert_array_equal(declared.matrix(packed), bits)
    assert declared.ones(packed).tolist() == [2, 1]
    assert bit_column("b", [np.array([[0, 1, 2]])], None) is None
    assert bit_column("b", [np.array([0, 1])], None) is None


# Tests of independence


def test_the_event_is_of_the_objects_that_it_is_about():
    counts = np.array([[900, 500], [100, 100], [100, 10]])
    trials = np.array([1000, 1000, 1000])
    assert best_event(counts, trials) == (0, 2, 1)
    assert best_event(counts, trials, np.array([[-1, -1], [1, 0]])) == (0, 1, 0)


def test_dependence_is_found_and_independence_is_not():
    rng = np.random.default_rng(SEED)
    fresh = rng.random((200, 2, 400)) < 0.3
    wrong = sum(dependence_pvalue(one, other) < 1e-3 for one, other in fresh)
    assert wrong <= stats.binom.ppf(1 - 1e-4, len(fresh), 1e-3), wrong
    one = rng.random(400) < 0.3
    assert dependence_pvalue(one, ~one & (rng.random(400) < 0.5)) < 1e-10
    assert rate_pvalue(one, rng.random(400) < 0.7) < 1e-10
    assert dependence_pvalue(one, np.zeros(400, dtype=bool)) == 1.0, "a mark that none has says nothing"


@pytest.mark.parametrize("lag", [1, 7, 300])
def test_a_mark_that_comes_again_later_is_found_at_its_distance(lag):
    rng = np.random.default_rng(SEED)
    mark = rng.random(2000) < 0.2
    for i in range(lag, 2000):
        mark[i] = mark[i - lag] if rng.random() < 0.6 else mark[i]
    (finding,) = lag_tests("reports", {"it": mark})
    assert finding.pvalue * finding.tests < 1e-4, finding
    apart = "1 report apart" if lag == 1 else f"{lag} reports apart"
    assert apart in finding.description


def test_a_sequence_of_fresh_marks_is_kept():
    """At most the allowed share of sequences is called dependent, over all distances together."""
    rng, runs = np.random.default_rng(SEED), 300
    findings = [next(iter(lag_tests("reports", {"it": rng.random(300) < 0.3}))) for _ in range(runs)]
    wrong = sum(finding.pvalue * finding.tests < 0.05 for finding in findings)
    assert wrong <= stats.binom.ppf(1 - 1e-4, runs, 0.05), wrong
