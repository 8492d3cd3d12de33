"""Mechanisms with one defect each are called broken, and the correct ones that they are made from are not."""

import numpy as np
import pytest
from cases.broken import (
    CORRECT,
    DEFECTS,
    KINDS,
    ClearReport,
    HasLikelihood,
    KeyedReport,
    Noise,
    Response,
    Silent,
    Sketch,
    Unary,
    few_vectors,
)
from cases.selection import mostly, statistical
from cases.synthetic import SEED

from poolscope.cli.check import rows, sentence
from poolscope.mechanisms import make
from poolscope.workflows.check.check import check

SAMPLES = 10_000


@pytest.mark.parametrize("name", mostly(statistical, CORRECT, *list(CORRECT)[::6]))
def test_correct_mechanisms_are_kept(name):
    verdict = check(CORRECT[name](), samples=SAMPLES, seed=SEED, confidence=0.999)
    assert verdict.passed, verdict.violations
    assert verdict.warnings == ()


# Calls and reports that depend on each other


@pytest.mark.default_cases("65,536-response")
@pytest.mark.parametrize("kind", ["response", "number"])
@pytest.mark.parametrize("seeds", ["256", "4,096", "65,536"])
def test_calls_that_are_seeded_with_one_of_few_values_are_caught(kind, seeds):
    mechanism = Silent(KINDS[kind](**DEFECTS[f"one of {seeds} seeds for each call"]()))
    verdict = check(mechanism, samples=40_000, seed=SEED, confidence=0.999)
    assert any(reason.startswith("calls repeat each other") for reason in verdict.violations), verdict.violations
    assert verdict.repeats.seeds > 65_536, "and the check says that it would find as many in nine of ten checks"


@pytest.mark.default_cases("number-noise of neighbors*", "unary-noise of half*")
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("noise of neighbors mirrored", "neighbors in a call"),
        ("noise of half a call mirrored", "reports of the two halves of a call"),
    ],
)
@pytest.mark.parametrize("name", list(KINDS))
def test_noise_that_is_balanced_over_two_reports_is_caught(name, kind, words):
    mechanism = Silent(KINDS[name](**DEFECTS[kind]()))
    verdict = check(mechanism, samples=SAMPLES, seed=SEED, confidence=0.999)
    assert any(reason.startswith(words) for reason in verdict.violations), verdict.violations


@pytest.mark.parametrize(
    "schedule",
    mostly(statistical, ["truths by an even schedule", "500 truths that repeat"], "500 truths that repeat"),
)
@pytest.mark.parametrize(
    ("name", "of"),
    mostly(statistical, [("response", Silent), ("number", Silent), ("sketch", HasLikelihood)], ("response", Silent)),
)
def test_a_schedule_of_truths_is_caught(name, of, schedule):
    mechanism = of(KINDS[name](**DEFECTS[schedule]()))
    verdict = check(mechanism, samples=2 * SAMPLES, seed=SEED, confidence=0.999)
    found = [reason for reason in verdict.violations if "depend on each other" in reason]
    assert any(reason.startswith("reports of one call") for reason in found), verdict.violations
    assert any(reason.startswith("reports of successive calls") for reason in found), verdict.violations


@pytest.mark.default_cases("response")
@pytest.mark.parametrize("name", list(KINDS))
def test_a_first_report_in_the_clear_is_caught(name):
    mechanism = Silent(KINDS[name](clear="first"))
    verdict = check(mechanism, samples=SAMPLES, seed=SEED, confidence=0.999)
    assert any(reason.startswith("first reports of calls differ") for reason in verdict.violations), verdict.violations


# Rare reports


@pytest.mark.default_cases("unary", "number*")
@pytest.mark.parametrize(
    ("mechanism", "rule"),
    [
        (
            Silent(Unary(universe=64, source=few_vectors(65536))),
            "reports whose bits differ from an earlier",
        ),
        (
            HasLikelihood(Unary(universe=64, packed=True, source=few_vectors(65536))),
            "reports whose bits differ from an earlier",
        ),
        (
            HasLikelihood(Sketch(universe=100, source=few_vectors(65536))),
            "reports whose bits differ from an earlier",
        ),
        (Silent(Noise(source=few_vectors(65536))), "reports that only one object has sent before"),
    ],
    ids=["unary, silent", "unary", "sketch", "number, silent"],
)
def test_noise_vectors_that_come_again_are_caught(mechanism, rule):
    verdict = check(mechanism, samples=SAMPLES, seed=SEED, confidence=0.999)
    assert verdict.guessed.epsilon > 1
    assert verdict.guessed.rule.startswith(rule)
    assert f"ε ≥ {verdict.guessed.epsilon:.3g} (99.9% confidence) by guesses exceeds" in sentence(verdict)
    assert f"among {verdict.guessed.objects:,}" in dict(rows(verdict))["lower bound by guessing"]


@pytest.mark.slow
@pytest.mark.parametrize(("of", "rate", "samples"), [(HasLikelihood, 1000, 20_000), (Silent, 5000, 100_000)])
def test_a_few_reports_in_the_clear_are_caught(of, rate, samples):
    verdict = check(of(KINDS["unary"](clear=1 / rate)), samples=samples, seed=SEED)
    assert verdict.guessed.epsilon > 1
    assert verdict.guessed.rule == "the reports with the fewest set bits of bits"
    assert verdict.lower_bound.epsilon <= 1, "no two objects show it"


def test_reports_that_stand_apart_are_a_warning_where_nothing_is_proven():
    """Without likelihoods nothing says which bit is whose under a hash function."""
    verdict = check(Silent(KINDS["sketch"](clear=1 / 1000)), samples=SAMPLES, seed=SEED, confidence=0.999)
    assert verdict.passed
    assert "reports have 1 set bits of bits, all others at least" in verdict.warnings[0]


@pytest.mark.slow
def test_one_bit_of_many_that_is_never_flipped_is_caught():
    """Screening finds the object, which is not among those that are tried otherwise."""
    odd, samples = 333, 16_000
    verdict = check(Silent(Unary(universe=800, unflipped=odd)), samples=samples, seed=SEED, confidence=0.999)
    assert not verdict.passed
    assert odd in verdict.objects
    assert odd in (verdict.lower_bound.one, verdict.lower_bound.other)
    assert f"bit {odd} of bits" in verdict.lower_bound.event
    assert (verdict.screened, verdict.universe) == (800, 800)
    correct = check(Silent(Unary(universe=800)), samples=samples, seed=SEED, confidence=0.999)
    assert correct.passed, correct.violations
    assert odd not in correct.objects


# Events of several bits


@pytest.mark.default_cases("float32")
@pytest.mark.parametrize("dtype", [bool, np.int64, np.float32, np.uint8])
def test_two_bits_spend_the_epsilon_of_unary_encoding(dtype):
    """p = 0.6 at a claimed epsilon of 1 is one of 1.405; a single bit shows 0.80 of it."""

    class Entries(Silent):
        def obfuscate(self, objects, rng):
            return super().obfuscate(objects, rng)["bits"].astype(dtype)

    verdict = check(Entries(Unary(universe=20, p=0.6)), samples=SAMPLES, seed=SEED)
    assert verdict.lower_bound.epsilon > 1.25
    assert verdict.lower_bound.event.count("bit") == 2
    assert not verdict.passed


@pytest.mark.slow
def test_several_bits_spend_the_epsilon_of_a_bloom_filter():
    mechanism = make("rappor", 40, {"epsilon": 4.0, "cohorts": 1, "m": 64, "hashes": 2})

    class Blind(Silent):
        def __init__(self):
            self.plain, self.universe, self.epsilon = mechanism, 40, 4.0

    verdict = check(Blind(), samples=SAMPLES, seed=SEED, confidence=0.999)
    assert verdict.passed, verdict.violations
    assert "bits " in verdict.lower_bound.event
    assert verdict.lower_bound.epsilon > 3, "two bits alone would show less than half"


# `report`, which games play


@pytest.mark.default_cases("unary")
@pytest.mark.parametrize("plain", [Response, lambda: Unary(universe=20)], ids=["response", "unary"])
def test_a_report_that_sends_the_object_is_caught(plain):
    verdict = check(ClearReport(plain()), samples=SAMPLES, seed=SEED, confidence=0.999)
    assert verdict.lower_bound.epsilon <= 1, "`obfuscate` is right"
    assert verdict.played.lower_bound.epsilon > 3
    assert all(reason.startswith("`report`, which games use: ") for reason in verdict.violations)
    assert f"ε ≥ {verdict.played.lower_bound.epsilon:.4g}" in dict(rows(verdict))["  empirical lower bound"]


@pytest.mark.default_cases("40")
@pytest.mark.parametrize("bits", [8, 16, 40])
def test_a_report_that_ignores_bits_of_its_key_is_caught(bits):
    verdict = check(KeyedReport(Response(), bits), samples=SAMPLES, seed=SEED, confidence=0.999)
    assert any(f"keys that differ in bit {bits} only repeat" in reason for reason in verdict.violations), (
        verdict.violations
    )


def test_a_report_that_depends_on_its_place_is_a_warning():
    class Placed(KeyedReport):
        def report(self, objects, keys):
            return super().report(objects, np.asarray(keys) + np.arange(len(keys), dtype=np.uint64))

    verdict = check(Placed(Response()), samples=SAMPLES, seed=SEED, confidence=0.999)
    assert verdict.passed, verdict.violations
    assert "depend on how its users are split into blocks" in verdict.warnings[0]


def test_the_report_of_our_mechanisms_is_tested_once():
    """`obfuscate` draws a key for each report and calls `report`."""
    verdict = check(make("grr", 4, {"epsilon": 1.0}), samples=SAMPLES, seed=SEED)
    assert verdict.played is None
    assert verdict.repeats.keys
