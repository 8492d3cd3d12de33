"""A mechanism of one's own, made to play."""

from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest
from cases.synthetic import SEED
from polars.testing import assert_frame_equal
from scipy import stats

from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.core.randomness import children
from poolscope.game.game import Game, play
from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import posterior
from poolscope.mechanisms import GRR, Channel, Fresh, Memoized, adapt, reports_of
from poolscope.mechanisms.protocols import ReportColumn
from poolscope.population.popularity import zipf
from poolscope.population.universe import Universe
from poolscope.reports.frequencies import estimator, frequencies
from poolscope.reports.utility import measure_utility

UNIVERSE = Universe.sized(12, {"a": 3, "b": 4})
POPULARITY = zipf(UNIVERSE, 1.0)
ORACLE = Adversary(name="oracle", universe=UNIVERSE, popularity=POPULARITY)
EPSILON = 2.0


class Own:
    """Randomized response among twelve, as somebody might write it: several draws, all objects at once."""

    keep = np.exp(EPSILON) / (np.exp(EPSILON) + 11)

    def obfuscate(self, objects, rng):
        kept = rng.random(len(objects)) < self.keep
        return np.where(kept, objects, (objects + rng.integers(1, 12, size=len(objects))) % 12)

    def log_likelihood(self, reports):
        return np.log(np.where(reports[:, None] == np.arange(12), self.keep, (1 - self.keep) / 11))


class Factor(Own):
    """The same with likelihoods that leave out a factor, so that nothing says which reports there are."""

    def log_likelihood(self, reports):
        return super().log_likelihood(reports) + 1.0


class Columns(Own):
    """The same with reports of two columns, one of them a vector."""

    epsilon = EPSILON
    report_columns = {"low": ReportColumn("integer", 4), "high": ReportColumn("integer", 3)}  # noqa: RUF012

    def obfuscate(self, objects, rng):
        value = super().obfuscate(objects, rng)
        return {"low": value % 4, "high": np.eye(3, dtype=int)[value // 4]}

    def log_likelihood(self, reports):
        return super().log_likelihood(reports["low"] + 4 * reports["high"].argmax(axis=1))


class Fast(Own):
    """The same with a method that draws from keys."""

    def report(self, objects, keys):
        return GRR(universe=12, epsilon=EPSILON).report(objects, keys)["value"]


def game(mechanism, **changed):
    base = Game(
        universe=UNIVERSE,
        popularity=POPULARITY,
        device=Fresh(mechanism),
        adversaries=[Adversary.weak(UNIVERSE)],
        observations=[3, 9],
    )
    return replace(base, **changed)


@pytest.mark.parametrize("own", [Own(), Columns(), Fast()], ids=lambda own: type(own).__name__)
def test_it_attacks_like_the_mechanism_it_is(own):
    mechanism, value = adapt(own, UNIVERSE), np.array([3, 3, 0, 11, 5, 3])
    reports = {"low": value % 4, "high": np.eye(3, dtype=int)[value // 4]} if isinstance(own, Columns) else value
    expected = posterior(GRR(universe=12, epsilon=EPSILON), {"value": value}, ORACLE)
    np.testing.assert_allclose(posterior(mechanism, reports, ORACLE), expected, rtol=1e-12)


@pytest.mark.parametrize("own", [Own(), Columns(), Fast()], ids=lambda own: type(own).__name__)
def test_reports_depend_on_their_key_alone(own):
    mechanism = adapt(own, 12)
    objects, keys = np.arange(200) % 12, children(np.uint64(SEED), np.arange(200))
    reports = mechanism.report(objects, keys)
    part = np.random.default_rng(1).permutation(200)[:50]
    for name, column in mechanism.report(objects[part], keys[part]).items():
        np.testing.assert_array_equal(column, reports[name][part])
    for name, column in mechanism.report(objects[:0], keys[:0]).items():
        assert column.shape == (0, *reports[name].shape[1:])


def test_reports_follow_the_law():
    """Those of keys, and those of a generator."""
    mechanism, count = adapt(Own(), 12), 6000
    expected = np.full(12, count * (1 - Own.keep) / 11)
    expected[4] = count * Own.keep
    objects = np.full(count, 4)
    by_key = mechanism.report(objects, children(np.uint64(SEED), np.arange(count)))
    by_generator = mechanism.obfuscate(objects, np.random.default_rng(SEED))
    for reports in (by_key, by_generator):
        assert stats.chisquare(np.bincount(reports["report"], minlength=12), expected).pvalue > 1e-4


def test_outcomes_do_not_depend_on_blocks(monkeypatch):
    whole = play(game(adapt(Own(), UNIVERSE)), 60, SEED, engine=Local(threads=1))
    monkeypatch.setattr("poolscope.game.game.Game.block_users", 16)
    assert_frame_equal(play(game(adapt(Own(), UNIVERSE)), 60, SEED, engine=Local(threads=2)), whole, check_exact=True)
    longer = play(game(adapt(Own(), UNIVERSE), observations=[3, 20]), 60, SEED).filter(pl.col("n") == 3)
    columns = ["user", "adversary", "confidence", "posterior_true"]
    assert_frame_equal(longer.select(columns), whole.filter(pl.col("n") == 3).select(columns), check_exact=True)


def test_what_it_states_is_used():
    silent, telling = adapt(Own(), 12), adapt(Columns(), 12)
    assert np.isnan(silent.epsilon)
    assert telling.epsilon == EPSILON
    assert telling.report_columns["low"].size == 4
    with pytest.raises(InputError, match=r"does not declare the columns of its reports.*report_columns"):
        _ = silent.report_columns
    assert frequencies(silent, {"report": np.array([1])}).method == "regression", "its likelihoods sum to 1"
    unlisted = adapt(Factor(), 12)
    assert frequencies(unlisted, {"report": np.array([1])}).method == "ibu", "its likelihoods are all that it states"
    with pytest.raises(InputError, match="has no frequency estimate, got 'Adapted'"):
        frequencies(unlisted, {"report": np.array([1])}, "linear")


class Supporting(Own):
    """It says which object a report speaks for, and how often."""

    p_star, q_star = Own.keep, (1 - Own.keep) / 11

    def support(self, reports):
        return reports[:, None] == np.arange(12)


class Numbered(Own):
    """It says which reports there are."""

    report_columns = {"report": ReportColumn("integer", 12)}  # noqa: RUF012


class Listing(Own):
    """The same by a list."""

    def all_reports(self):
        return np.arange(12)[::-1]


@pytest.mark.parametrize(
    ("own", "method"), [(Supporting(), "linear"), (Numbered(), "regression"), (Listing(), "regression")]
)
def test_its_estimate_is_that_of_the_mechanism_it_is(own, method):
    """From p* and q*, and through the channel that it is: randomized response has but one unbiased linear estimate."""
    values = GRR(universe=12, epsilon=EPSILON).obfuscate(np.arange(900) % 5, np.random.default_rng(1))["value"]
    found, expected = (
        frequencies(adapt(own, 12), {"report": values}),
        frequencies(GRR(universe=12, epsilon=EPSILON), {"value": values}),
    )
    assert found.method == method
    np.testing.assert_allclose(found.counts, expected.counts, rtol=1e-9)
    if method == "linear":
        np.testing.assert_allclose(found.errors, expected.errors, rtol=1e-12)
    assert measure_utility(adapt(own, 12), POPULARITY, 2000, np.uint64(1)).mse_analytical == pytest.approx(
        measure_utility(GRR(universe=12, epsilon=EPSILON), POPULARITY, 2000, np.uint64(1)).mse_analytical, rel=1e-3
    )


class Three:
    """Keeps 0.6, or sends one of the others, not each as often."""

    distribution = np.array([[0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]])
    report_columns = {"report": ReportColumn("integer", 3)}  # noqa: RUF012

    def obfuscate(self, objects, rng):
        return (self.distribution.cumsum(axis=1)[objects, :-1] <= rng.random((len(objects), 1))).sum(axis=1)

    def log_likelihood(self, reports):
        return np.log(self.distribution[:, reports]).T


def test_its_error_is_exact():
    """Every set of four reports there can be, of two users with one object and two with others."""
    mechanism, counts = adapt(Three(), 3), np.array([2, 1, 1])
    learning, mean, square = estimator(mechanism), np.zeros(3), np.zeros(3)
    for sent in product(range(3), repeat=4):
        chance = np.prod(Three.distribution[np.repeat(np.arange(3), counts), list(sent)])
        found = learning.estimate(learning.count({"report": np.array(sent)}), 4).counts
        mean, square = mean + chance * found, square + chance * found**2
    np.testing.assert_allclose(mean, counts, rtol=1e-12)
    np.testing.assert_allclose(square - mean**2, learning.variance(counts.astype(float)), rtol=1e-9)


def test_without_all_probabilities_there_is_the_likelihood_alone():
    class Relative(Three):
        def log_likelihood(self, reports):
            return super().log_likelihood(reports) + reports[:, None]

    class Elsewhere(Three):
        report_columns = {"another": ReportColumn("integer", 3)}  # noqa: RUF012

    reports = {"report": np.array([0, 1, 1])}
    assert frequencies(adapt(Three(), 3), reports).method == "regression"
    for own in (Relative(), Elsewhere()):
        assert frequencies(adapt(own, 3), reports).method == "ibu"
    with pytest.raises(InputError, match="reports: must be among all reports that the mechanism lists"):
        estimator(adapt(Three(), 3)).count({"report": np.array([3])})
    with pytest.raises(InputError, match="report, report 0: must be 0 to 2, got 3"):
        frequencies(adapt(Three(), 3), {"report": np.array([3])})


def test_it_can_have_memory():
    class Whole(Own):
        def log_base_measure(self, reports):
            return np.zeros(len(reports))

    memory = Memoized(adapt(Whole(), UNIVERSE))
    reports = reports_of(memory, np.array([[3, 5, 3, 3]]), np.array([7], dtype=np.uint64))
    assert len(set(reports["report"][[0, 2, 3]].tolist())) == 1
    assert posterior(memory, reports, ORACLE)[-1].sum() == pytest.approx(1)
    with pytest.raises(InputError, match="must have a method `log_base_measure` where devices memoize"):
        posterior(Memoized(adapt(Factor(), UNIVERSE)), reports, ORACLE)
    exact = posterior(Memoized(adapt(Own(), UNIVERSE)), reports, ORACLE)
    np.testing.assert_allclose(exact, posterior(memory, reports, ORACLE), atol=1e-12)


def test_impossible_reports_are_impossible():
    class Silent(Own):
        def log_likelihood(self, reports):
            return np.where(reports[:, None] == np.arange(12), 0.0, -np.inf)

    reports = np.array([0, 0])
    same = Channel(universe=12, matrix=np.eye(12))
    expected = posterior(same, {"report": reports}, ORACLE)
    np.testing.assert_allclose(posterior(adapt(Silent(), 12), reports, ORACLE), expected, rtol=1e-12)


def changed(**methods):
    return type("Changed", (Own,), methods)()


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (object(), "a mechanism must have a method obfuscate, got 'object'"),
        (changed(log_likelihood=None), "must have a method log_likelihood"),
        (changed(obfuscate=lambda self, objects, rng: 7), "a row for each object, 1, got ()"),
        (changed(obfuscate=lambda self, objects, rng: np.zeros(3)), "a row for each object, 1, got (3,)"),
        (changed(obfuscate=lambda self, objects, rng: {}), "reports must have a column"),
        (changed(obfuscate=lambda self, objects, rng: {"a": [1], "b": [1, 2]}), "b: reports must have a row"),
        (changed(log_likelihood=lambda self, reports: np.zeros((1, 5))), "(reports, universe), (1, 12), got (1, 5)"),
        (changed(log_likelihood=lambda self, reports: np.full((1, 12), np.nan)), "numbers or -inf, got nan"),
        (changed(log_likelihood=lambda self, reports: np.full((1, 12), np.inf)), "numbers or -inf, got inf"),
        (
            changed(support=lambda self, r: np.ones((1, 12)), p_star=0.5, q_star=0.1),
            "true or false for (reports, universe)",
        ),
        (changed(support=Supporting.support, p_star=0.1, q_star=0.5), "must be probabilities, with q_star < p_star"),
    ],
)
def test_bad_mechanisms(own, words):
    with pytest.raises(InputError) as caught:
        adapt(own, UNIVERSE)
    assert words in str(caught.value)


def test_objects_outside_the_universe():
    with pytest.raises(InputError, match=r"objects must be 0\.\.11, got 12"):
        adapt(Own(), 12).obfuscate([0, 12], np.random.default_rng(0))
