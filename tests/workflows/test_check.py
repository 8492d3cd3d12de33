"""The check keeps honest mechanisms and catches broken ones."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from cases.synthetic import SEED
from oracle.kinds import KINDS, distribution, large, tiny
from scipy import stats
from typer.testing import CliRunner

from poolscope.cli.check import rows, sentence
from poolscope.cli.commands import app
from poolscope.core.errors import InputError
from poolscope.mechanisms import MECHANISMS, make
from poolscope.mechanisms.pure import all_reports
from poolscope.metrics.intervals import clopper_pearson
from poolscope.workflows.check.bounds import best_event
from poolscope.workflows.check.candidates import learn
from poolscope.workflows.check.check import check
from poolscope.workflows.check.distribution import ReportSample, exact, normalizes, support_shares
from poolscope.workflows.check.sampling import fingerprints

SAMPLES = 10_000


# Mechanisms that keep their promise


@pytest.mark.default_cases("large-grr", "large-oue", "large-channel")
@pytest.mark.parametrize("name", list(KINDS))
@pytest.mark.parametrize("size", [pytest.param(tiny, marks=pytest.mark.statistical), large])
def test_every_mechanism_keeps_its_promise(name, size):
    verdict = check(size(name), samples=2 * SAMPLES, seed=SEED, confidence=0.999)
    assert verdict.passed, verdict.violations
    assert verdict.lower_bound.epsilon <= verdict.declared
    assert verdict.lower_bound.epsilon > 0.3 * verdict.declared or np.isinf(verdict.declared), (
        "the bound is worth something"
    )
    assert {share.name for share in verdict.shares} == ({"p*", "q*"} if hasattr(size(name), "p_star") else set())


@pytest.mark.parametrize("name", list(KINDS))
def test_the_stated_epsilon_is_that_of_the_law(name):
    if not KINDS[name].listed:
        assert exact(tiny(name)) is None, "there is no end of its reports"
        return
    probability = distribution(name, 1.0)
    with np.errstate(divide="ignore"):
        ratio = np.log(probability.max(axis=1)) - np.log(probability.min(axis=1))
    found = exact(tiny(name))
    assert found.epsilon == pytest.approx(ratio.max(), rel=1e-9)
    assert found.consistent
    assert found.reports >= len(probability), "impossible reports may be gone through as well"


@pytest.mark.statistical
def test_the_lower_bound_is_one():
    """A tight mechanism is called broken no more often than the confidence allows."""
    mechanism, runs = make("grr", 3, {"epsilon": 1.0}), 150
    bounds = np.array(
        [check(mechanism, samples=2000, seed=SEED + i, confidence=0.9).lower_bound.epsilon for i in range(runs)]
    )
    wrong = int((bounds > 1).sum())
    assert wrong <= stats.binom.ppf(1 - 1e-4, runs, 0.1), wrong
    assert np.median(bounds) > 0.75


def test_same_seed_same_verdict():
    one, same, other = (check(tiny("oue"), samples=2000, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.lower_bound != other.lower_bound


@pytest.mark.slow
def test_large_universes_are_tried_in_part():
    verdict = check(make("grr", 5000, {"epsilon": 8.0}), samples=SAMPLES, seed=1)
    assert (verdict.objects[0], verdict.objects[-1], len(set(verdict.objects))) == (0, 4999, 12)
    assert verdict.exact is None
    assert check(make("grr", 5000, {"epsilon": 8.0}), samples=SAMPLES, seed=1, objects=[3, 9]).objects == (3, 9)


def test_one_object_has_nothing_to_tell():
    verdict = check(make("cms", 1, {"epsilon": 1.0, "m": 4, "hashes": 3}), samples=SAMPLES, seed=1)
    assert verdict.passed
    assert verdict.lower_bound is None
    assert sentence(verdict).startswith("PASS: ")


# Broken ones


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A mechanism whose devices do something else than it states."""

    stated: object

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "stated"), name)


class NeverFlips(Changed):
    """Unary encoding that leaves the object's own bit alone: its absence rules the object out."""

    def obfuscate(self, objects, rng):
        bits = self.stated.obfuscate(objects, rng)["bits"].copy()
        bits[np.arange(len(objects)), objects >> 3] |= (1 << (objects & 7)).astype(np.uint8)
        return {"bits": bits}


class OneSidedRappor(Changed):
    """RAPPOR that never flips a one to zero, as a published client does: an absent bit rules the object out."""

    def obfuscate(self, objects, rng):
        reports, filters = self.stated.obfuscate(objects, rng), self.stated.family
        bits = np.unpackbits(reports["bits"], axis=1, bitorder="little", count=filters.m + 8)
        positions = filters.buckets(np.asarray(reports["cohort"], dtype=np.int64))[np.arange(len(objects)), :, objects]
        np.put_along_axis(bits, positions.astype(np.int64), 1, axis=1)
        return {**reports, "bits": np.packbits(bits[:, : filters.m], axis=1, bitorder="little")}


class TooLittleNoise(Changed):
    """Flips a fifth less than it should."""

    def obfuscate(self, objects, rng):
        flip = 0.8 / (1 + np.exp(self.stated.epsilon / 2))
        return replace(self.stated, epsilon=float(2 * np.log((1 - flip) / flip))).obfuscate(objects, rng)


class Leaks(Changed):
    """Has a column that it does not declare, in which the object shows through now and then."""

    def obfuscate(self, objects, rng):
        seen = rng.random(len(objects)) < 0.3
        return {**self.stated.obfuscate(objects, rng), "spare": np.where(seen, objects, -1)}


@pytest.mark.default_cases("6")
@pytest.mark.parametrize("universe", [6, 130])
def test_a_mechanism_that_never_flips_a_one_is_caught(universe):
    verdict = check(NeverFlips(stated=make("sue", universe, {"epsilon": 1.0})), samples=SAMPLES, seed=SEED)
    assert not verdict.passed
    assert verdict.lower_bound.epsilon > 4, "there is no finite epsilon"
    assert "exceeds the declared ε" in sentence(verdict)
    assert not verdict.shares[0].passed


@pytest.mark.slow
@pytest.mark.parametrize("cohorts", [1, 64])
def test_a_rappor_that_never_flips_a_one_is_caught(cohorts):
    honest = make("rappor", 130, {"epsilon": 2.0, "cohorts": cohorts})
    assert check(honest, samples=SAMPLES, seed=SEED).passed
    verdict = check(OneSidedRappor(stated=honest), samples=SAMPLES, seed=SEED)
    assert not verdict.passed
    assert verdict.lower_bound.epsilon > 3, "there is no finite epsilon"


@pytest.mark.slow
@pytest.mark.parametrize("universe", [6, 130])
def test_a_flip_probability_too_small_by_a_fifth_is_caught(universe):
    verdict = check(TooLittleNoise(stated=make("sue", universe, {"epsilon": 1.0})), samples=2 * SAMPLES, seed=SEED)
    assert verdict.lower_bound.epsilon > 1.3
    assert not verdict.passed
    assert not verdict.shares[0].passed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grr", "cms", "olh"])
def test_a_leak_in_a_column_that_is_not_declared_is_caught(name):
    verdict = check(Leaks(stated=large(name, 1.0)), samples=SAMPLES, seed=SEED)
    assert not verdict.passed
    assert verdict.lower_bound.event == f"spare is {verdict.lower_bound.one}"
    assert all(share.passed for share in verdict.shares), "the declared columns are as stated"


def test_sampling_alone_is_enough_to_check():
    """Neither columns nor a law are stated, and reports are one array."""

    class Own:
        universe, epsilon = 5, 0.5

        def obfuscate(self, objects, rng):
            return np.where(rng.random(len(objects)) < 0.5, objects, rng.integers(5, size=len(objects)))

    verdict = check(Own(), samples=SAMPLES, seed=SEED)
    assert (verdict.exact, verdict.shares) == (None, ())
    assert 1.2 < verdict.lower_bound.epsilon < np.log(0.6 / 0.1)
    assert not verdict.passed
    Own.epsilon = np.nan
    assert sentence(check(Own(), samples=SAMPLES, seed=SEED)).startswith(
        "PASS: no ε is declared. Empirical lower bound ε ≥ "
    )


def test_real_numbers_and_wide_columns_are_looked_at():
    class Noisy:
        universe, epsilon = 3, 0.1

        def obfuscate(self, objects, rng):
            return {"x": rng.laplace(np.eye(3)[objects], 0.5)}

    verdict = check(Noisy(), samples=SAMPLES, seed=SEED)
    assert not verdict.passed
    assert verdict.lower_bound.event.startswith("x[")


def test_a_law_that_no_probabilities_fit_is_caught_without_samples():
    """GRR with the support and epsilon of one law and the p* of another."""
    honest = tiny("grr")
    reports = all_reports(honest, 100)
    likelihood = np.where(honest.support(reports), 1.0, np.exp(-1.0))
    assert normalizes(likelihood, honest.support(reports), honest.p_star)
    assert not normalizes(likelihood, honest.support(reports), honest.p_star + 0.01)
    assert normalizes(likelihood, None, None)


def test_a_stated_law_beyond_the_claim_is_caught():
    class Modest(Changed):
        epsilon = 0.5

    verdict = check(Modest(stated=tiny("rappor", 2.0)), samples=1000, seed=SEED)
    assert verdict.exact.epsilon == pytest.approx(2.0)
    assert "the stated distribution has ε" in sentence(verdict)


# Parts


def test_clopper_pearson_is_exact():
    for hits, trials in ((0, 9), (3, 9), (9, 9), (250, 1000)):
        low, high = clopper_pearson(hits, trials, 0.01)
        expected = stats.binomtest(hits, trials).proportion_ci(0.98, "exact")
        assert (float(low), float(high)) == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_the_most_telling_event_is_chosen():
    counts = np.array([[500, 90, 1, 0], [500, 9, 0, 0], [500, 50, 0, 0]])
    assert best_event(counts, np.array([1000, 1000, 1000])) == (0, 1, 1)


@pytest.mark.parametrize("name", list(KINDS))
def test_families_agree_with_their_events(name):
    """An event alone is the same as among the others; words say which."""
    mechanism = tiny(name)
    rng = np.random.default_rng(SEED)
    looks = [ReportSample(mechanism=mechanism, reports=mechanism.obfuscate(np.full(400, z), rng)) for z in range(4)]
    for family in learn(looks, range(4), mechanism.report_columns):
        together = family.holds(looks[1])
        assert together.shape == (400, len(family))
        for event in rng.integers(len(family), size=min(5, len(family))):
            np.testing.assert_array_equal(family.only(event).holds(looks[1])[:, 0], together[:, event])
            assert family.describe(event)


def test_fingerprints_are_equal_for_equal_reports_only():
    reports = {"a": np.array([1, 1, 2, 1]), "b": np.array([[1, 0], [1, 0], [1, 0], [0, 1]], dtype=np.uint8)}
    one, same, *others = fingerprints(reports)
    assert one == same
    assert len({one, *others}) == 3


def test_all_reports_are_those_of_the_columns():
    every = all_reports(tiny("hcms"), 1000)
    assert len(set(zip(*(every[c].tolist() for c in ("hash", "coordinate", "bit")), strict=True))) == 2 * 4 * 2
    assert all_reports(tiny("hcms"), 15) is None
    assert all_reports(large("cms"), 1 << 20) is None


def test_a_mechanism_may_offer_its_reports():
    class Offering(Changed):
        def all_reports(self):
            return {"value": np.array([0, 1])}

    assert len(all_reports(Offering(stated=tiny("grr")), 10)["value"]) == 2


def test_shares_of_the_support():
    mechanism = tiny("grr")
    trials = [10_000] * 4
    counts = np.full((4, 4), 10_000 * mechanism.q_star).astype(int)
    counts[range(4), range(4)] = 10_000 * mechanism.p_star
    p, q = support_shares(mechanism, range(4), trials, counts)
    assert (p.passed, q.passed) == (True, None)
    assert p.low < mechanism.p_star < p.high
    counts[2, 2] += 400
    assert not support_shares(mechanism, range(4), trials, counts)[0].passed, "one object alone can break it"


@pytest.mark.parametrize(
    ("options", "message"), [({"samples": 999}, "at least 1,000"), ({"confidence": 1.0}, "between")]
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        check(tiny("grr"), **{"samples": SAMPLES, "seed": 1, **options})


# The command


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text('[universe]\nsize = 6\npools = { a = 2, b = 2 }\n[mechanism]\nkind = "sue"\nepsilon = 1\n')
    return str(path)


def test_the_command_says_kept_or_broken(scenario, monkeypatch):
    options = ["check", scenario, "--samples", "2000", "--seed", "1"]
    kept = CliRunner().invoke(app, options)
    assert kept.exit_code == 0, kept.output
    assert "PASS: no violation of ε = 1 detected." in " ".join(kept.output.split())

    def broken(*, universe, epsilon):
        return NeverFlips(stated=make("oue", universe, {"epsilon": epsilon}))

    monkeypatch.setitem(MECHANISMS, "sue", broken)
    caught = CliRunner().invoke(app, options)
    assert caught.exit_code == 1, caught.output
    assert "FAIL: ε ≥ " in " ".join(caught.output.split())


def test_the_table_has_what_was_found():
    found = dict(rows(check(tiny("grr"), samples=1000, seed=1)))
    assert found["declared ε"] == "1"
    assert found["ε of the stated likelihoods"] == "1 over all 4 possible reports"
    assert "too few objects to decide" in found["q* declared, empirical"]
