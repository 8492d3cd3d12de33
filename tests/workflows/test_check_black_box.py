"""A check that knows no law: columns are joined, numbers are taken apart, generators are tried."""

import numpy as np
import pytest
from cases.devices import (
    CoarseNoise,
    Geometric,
    Laplace,
    NeverUnset,
    OneDraw,
    OwnGenerator,
    Response,
    SignOfZero,
    Silent,
    Snapped,
    clock,
    constant,
    nanoseconds,
)
from cases.selection import mostly, slow
from cases.synthetic import SEED

from poolscope.cli.check import rows, sentence
from poolscope.mechanisms import adapt, make
from poolscope.workflows.check.candidates import learn
from poolscope.workflows.check.check import check
from poolscope.workflows.check.distribution import ReportSample
from poolscope.workflows.check.sampling import NO_BIT, bit_identical, last_bit

SAMPLES = 20_000


# Columns that must be joined


JOINED = {
    "cms, few hashes": ("cms", {"epsilon": 1.0, "m": 64, "hashes": 16}),
    "cms": ("cms", {"epsilon": 1.0, "m": 1024, "hashes": 64}),
    "cms, many hashes": ("cms", {"epsilon": 4.0, "m": 256, "hashes": 1024}),
    "rappor": ("rappor", {"epsilon": 2.0, "cohorts": 64}),
}


@pytest.mark.default_cases("cms*")
@pytest.mark.parametrize("name", mostly(slow, JOINED, "cms, few hashes", "rappor"))
def test_a_bit_that_is_never_unset_is_caught_without_a_law(name):
    kind, parameters = JOINED[name]
    honest = make(kind, 130, parameters)
    samples = 100_000 if "many" in name else SAMPLES
    verdict = check(NeverUnset(stated=honest), samples=samples, seed=SEED, confidence=0.999)
    assert (verdict.exact, verdict.fit, verdict.shares) == (None, None, ())
    assert not verdict.passed
    key = "hash" if kind == "cms" else "cohort"
    assert f"sets most often under this {key} is" in verdict.lower_bound.event
    assert verdict.lower_bound.epsilon > 1.2 * honest.epsilon
    kept = check(Silent(stated=honest), samples=samples, seed=SEED, confidence=0.999)
    assert kept.passed, kept.violations


@pytest.mark.slow
def test_joined_columns_show_an_honest_epsilon_too():
    verdict = check(
        Silent(stated=make("cms", 130, {"epsilon": 4.0, "m": 64, "hashes": 16})), samples=SAMPLES, seed=SEED
    )
    assert 3.5 < verdict.lower_bound.epsilon < 4
    assert "under this hash" in verdict.lower_bound.event


@pytest.mark.slow
def test_a_value_that_hangs_from_two_columns_is_found():
    """Of three columns no two tell anything of the object."""

    class Sums:
        universe, epsilon = 8, 1.0

        def obfuscate(self, objects, rng):
            a, b = rng.integers(0, 40, size=(2, len(objects)))
            return {"a": a, "b": b, "c": (a + b + objects) % 8}

    verdict = check(Sums(), samples=400_000, seed=SEED)
    assert verdict.lower_bound.epsilon > 5
    assert "sends most often under this a and b" in verdict.lower_bound.event


def test_joined_families_agree_with_their_events():
    mechanism = make("rappor", 6, {"epsilon": 2.0, "cohorts": 4})
    rng = np.random.default_rng(SEED)
    looks = [ReportSample(mechanism=mechanism, reports=mechanism.obfuscate(np.full(400, z), rng)) for z in range(4)]
    joined = [f for f in learn(looks, range(4), {}) if "under this" in f.describe(0) or "first sample" in f.describe(0)]
    assert len(joined) > 2
    for family in joined:
        together = family.holds(looks[1])
        for event in range(len(family)):
            np.testing.assert_array_equal(family.only(event).holds(looks[1])[:, 0], together[:, event])
            assert family.only(event).describe(0) == family.describe(event)


# Numbers


def test_the_last_bits_of_laplace_noise_are_caught():
    verdict = check(adapt(Laplace(), 2), samples=SAMPLES, seed=SEED, confidence=0.999)
    assert verdict.lower_bound.epsilon > 3
    assert verdict.lower_bound.event.startswith("report is no multiple of 2^-5")
    assert verdict.fit.passed, "the density is as stated; what lies below it is not"
    assert "exceeds the declared ε" in sentence(verdict)


@pytest.mark.default_cases("Snapped")
@pytest.mark.parametrize("device", [Snapped, Geometric])
def test_noise_on_a_grid_is_kept(device):
    verdict = check(adapt(device(), 2), samples=SAMPLES, seed=SEED, confidence=0.999)
    assert verdict.passed, verdict.violations
    assert verdict.lower_bound.epsilon > 0.7


def test_values_that_an_object_never_sends_are_caught():
    verdict = check(CoarseNoise(), samples=SAMPLES, seed=SEED, confidence=0.999)
    assert verdict.lower_bound.epsilon > 2
    assert "in the first sample" in verdict.lower_bound.event or "multiple of" in verdict.lower_bound.event


def test_the_sign_of_zero_is_seen():
    verdict = check(SignOfZero(), samples=SAMPLES, seed=SEED)
    assert verdict.lower_bound.epsilon > 5
    assert verdict.lower_bound.event in ("report is 0.0", "report is -0.0")


def test_last_bits():
    values = np.array([1.0, 0.75, 3.0, 1 + 2.0**-52, 2.0**-60, -6.0, 0.0, np.inf])
    exponent, zeros = last_bit(values)
    assert exponent.tolist() == [0, -2, 0, -52, -60, 1, NO_BIT, NO_BIT]
    assert zeros.tolist() == [52, 51, 51, 0, 52, 51, NO_BIT, NO_BIT]
    assert len(set(bit_identical(np.array([0.0, -0.0, np.nan])).tolist())) == 3


# Generators


@pytest.mark.slow
def test_a_generator_that_is_used_as_given_is_silent():
    verdict = check(Response(), samples=40_000, seed=SEED, confidence=0.999)
    assert verdict.passed, verdict.violations
    assert verdict.warnings == ()
    assert dict(rows(verdict))["generator"].startswith("no repeats and no dependence detected; fewer than 92,518")


@pytest.mark.default_cases("clock")
@pytest.mark.parametrize("seeds", [constant, lambda: clock(40)], ids=["constant", "clock"])
def test_calls_that_repeat_each_other_are_caught(seeds):
    verdict = check(OwnGenerator(seeds()), samples=SAMPLES, seed=SEED, confidence=0.999)
    assert not verdict.passed
    assert "repeat each other's report" in sentence(verdict)
    assert "\n" not in sentence(verdict)


@pytest.mark.slow
def test_a_clock_that_ticks_between_calls_is_seen_in_single_reports():
    verdict = check(OwnGenerator(clock(4)), samples=SAMPLES, seed=SEED, confidence=0.999)
    assert any(reason.startswith("successive calls") for reason in verdict.violations)


def test_randomness_from_elsewhere_is_a_warning():
    verdict = check(OwnGenerator(nanoseconds()), samples=SAMPLES, seed=SEED, confidence=0.9999)
    assert verdict.repeats.found == ()
    assert "reports depend on more than the generator" in verdict.warnings[0]
    assert dict(rows(verdict))["generator"].startswith("reports differ for the same generator state")


def test_one_draw_for_a_whole_call_is_caught():
    verdict = check(OneDraw(), samples=SAMPLES, seed=SEED)
    assert any(reason.startswith("neighbors in a call repeat each other") for reason in verdict.violations)


def test_what_sends_the_same_always_repeats_nothing():
    verdict = check(make("identity", 4, {}), samples=SAMPLES, seed=SEED)
    assert verdict.repeats.found == ()
    assert verdict.warnings == ()
