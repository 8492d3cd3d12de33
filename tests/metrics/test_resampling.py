"""Bootstrap intervals and paired differences: values, coverage, and the gain of pairing."""

import numpy as np
import polars as pl
import pytest
from cases.selection import statistical
from scipy import stats

import poolscope as ps
from poolscope.metrics.resampling import METRICS


def attack(correct, confidence=None, name="one", estimate=None):
    correct = np.asarray(correct, dtype=bool)
    table = {
        "user": np.arange(correct.size),
        "adversary": [name] * correct.size,
        "n": [10] * correct.size,
        "pool": ["a"] * correct.size,
        "guess": np.where(correct, "a", "b"),
        "confidence": np.full(correct.size, 0.5) if confidence is None else confidence,
        "exposed_at_50": [3] * correct.size,
        "exposed_at_90": [None] * correct.size,
        "exposed_at_95": [None] * correct.size,
    }
    frame = pl.DataFrame(table, schema_overrides={f"exposed_at_{level}": pl.Int64 for level in (50, 90, 95)})
    return frame if estimate is None else frame.with_columns(estimate=pl.Series(estimate, dtype=pl.Int16))


def two_attacks(rng, users, gain=0.2):
    """Attacks that are right about nearly the same users; the first is right about `gain` more."""
    easy = rng.random(users)
    return attack(easy < 0.4 + gain, easy), attack(easy < 0.4, easy, "two")


def test_the_difference_is_that_of_the_records():
    universe = ps.Universe.sized(40, {"a": 8, "b": 8, "c": 8})
    popularity = ps.popularity.zipf(universe, 1.0)
    game = ps.Game(
        universe=universe,
        popularity=popularity,
        device=ps.mechanisms.Fresh(ps.mechanisms.GRR(universe=40, epsilon=3.0)),
        adversaries=[ps.Adversary(name="strong", universe=universe, popularity=popularity)],
        observations=[7, 30],
    )
    outcomes = ps.play(game, 60, 1)
    early, late = (ps.metrics.select(outcomes, "strong", n) for n in (7, 30))
    records = ps.summarize(outcomes, game).filter(adversary="strong")
    for name in ("auc_pn", "precision", "precision_top10", "brier", "ece", "confident_90", "exposed_90"):
        want = getattr(records[1], name).value - getattr(records[0], name).value
        found = ps.metrics.difference(late, early, name, resamples=9)
        assert found.value == pytest.approx(want, abs=1e-12)
        assert found.low <= found.value <= found.high


def coverage(found, want):
    """How many intervals contain a value."""
    return sum(one.low <= want <= one.high for one in found)


@pytest.mark.parametrize("trials", [12, pytest.param(200, marks=statistical)])
def test_paired_intervals_hold_the_truth(trials):
    rng = np.random.default_rng(5)
    found = [ps.metrics.difference(*two_attacks(rng, 100), "precision", resamples=199) for _ in range(trials)]
    too_narrow = [
        ps.metrics.Estimate(one.value, one.value - (one.value - one.low) / 3, one.value + (one.high - one.value) / 3)
        for one in found
    ]
    # the smallest number of hits that a coverage of 93 % has in all but 1 of 1,000 runs
    least = stats.binom.ppf(0.001, trials, 0.93)
    assert coverage(found, 0.2) >= least
    assert coverage(too_narrow, 0.2) < least, "the negative control"


def test_pairing_narrows_the_interval():
    rng = np.random.default_rng(3)
    a, b = two_attacks(rng, 400, gain=0.02)
    paired = ps.metrics.difference(a, b, "precision", resamples=299)
    strangers = b.with_columns(pl.col("guess").shuffle(seed=1))
    apart = ps.metrics.difference(a, strangers, "precision", resamples=299)
    assert paired.value == pytest.approx(apart.value)
    assert paired.high - paired.low < 0.5 * (apart.high - apart.low)


def test_users_who_share_an_estimate_are_resampled_together():
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(8), 50)
    # the users of a group succeed or fail together
    correct = rng.random(8)[groups] < 0.5
    together = ps.metrics.bootstrap(attack(correct, estimate=groups), "precision")
    apart = ps.metrics.bootstrap(attack(correct), "precision")
    assert together.high - together.low > 4 * (apart.high - apart.low)


def test_a_single_user_has_an_interval_without_width():
    found = ps.metrics.bootstrap(attack([True], np.array([0.7])), "precision")
    assert found == (1.0, 1.0, 1.0)


def test_what_never_differed_may_still_differ():
    rows = attack([True, False] * 50)
    found = ps.metrics.difference(rows, rows, resamples=99)
    assert found.value == 0
    # 100 users who all agree exclude a share that would have shown itself with probability 97.5 %
    assert (1 - found.high) ** 100 == pytest.approx(0.025)
    assert found.low == -found.high
    assert ps.metrics.difference(rows, rows, lambda some: 1.0, resamples=99) == (0.0, 0.0, 0.0)


def test_every_named_metric_is_a_field_of_a_record():
    assert METRICS.keys() <= set(ps.metrics.Record.__dataclass_fields__)


def test_any_function_is_a_metric_and_seeds_decide():
    rows = attack(np.arange(50) % 3 == 0, np.linspace(0.2, 0.9, 50))
    one, two, three = (
        ps.metrics.bootstrap(rows, lambda some: some["confidence"].median(), seed=seed) for seed in (1, 1, 2)
    )
    assert one == two != three
    assert one.value == rows["confidence"].median()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: rows.filter(pl.col("user") > 0), "must be of the same users"),
        (lambda rows: rows.clear(), "must have at least one user"),
        (lambda rows: rows.drop("confidence"), "must have a column 'confidence'"),
        (lambda rows: rows.with_columns(n=pl.Series([1, 2] * 5)), "must be of one adversary at one n"),
    ],
)
def test_other_tables_are_refused(change, says):
    rows = attack([True] * 10)
    with pytest.raises(ps.InputError, match=says):
        ps.metrics.difference(rows, change(rows))


def test_unknown_metrics_are_refused():
    rows = attack([True] * 10)
    with pytest.raises(ps.InputError, match="did you mean 'auc_pn'"):
        ps.metrics.difference(rows, rows, "auc_pm")
    with pytest.raises(ps.InputError, match="a metric must return a number"):
        ps.metrics.bootstrap(rows, lambda some: "much")


def test_users_are_paired_by_name_and_groups_have_the_quantiles_of_student():
    a, b = two_attacks(np.random.default_rng(3), 300, gain=0.02)
    assert ps.metrics.difference(a, b.sample(fraction=1.0, shuffle=True, seed=1), "precision", resamples=99) == (
        ps.metrics.difference(a, b, "precision", resamples=99)
    )
    # of three groups, the interval is 4.3 standard errors wide on each side, not 1.96
    groups = np.repeat(np.arange(3), 20)
    found = ps.metrics.bootstrap(attack(groups == 0, estimate=groups), "precision")
    error = np.sqrt(2 / 9 / 2)
    assert (found.high - found.low) / 2 == pytest.approx(stats.t.ppf(0.975, 2) * error, rel=0.1)
