"""Usefulness of an estimate: objects above the error, top lists and time, against simulated estimates."""

import math

import numpy as np
import pytest
from cases.synthetic import SEED

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.mechanisms import make
from poolscope.metrics.usefulness import describe_usefulness, standard_errors, top_recall, usefulness
from poolscope.population.universe import Universe
from poolscope.reports.frequencies import closed_estimator

UNIVERSE = Universe.sized(60, {"sport": 10, "dating": 5, "religion": 5})

#: Zipf, sorted so that the last pools and the neutral pool hold what is rare and what is common.
FREQUENCY = (1 / np.arange(1, 61)) / (1 / np.arange(1, 61)).sum()


def simulated(mechanism, reports, draws, frequency=FREQUENCY):
    """Estimates from reports on objects that are drawn from the frequencies, (draws, objects)."""
    estimator = closed_estimator(mechanism)
    keys = np.random.default_rng(SEED).integers(1 << 63, size=draws).astype(np.uint64)
    return np.stack(
        [estimator.estimate(estimator.simulate(frequency, reports, key, map), reports).counts / reports for key in keys]
    )


@pytest.mark.parametrize(
    "kind", ["oue", *(pytest.param(kind, marks=pytest.mark.statistical) for kind in ("grr", "olh", "hr"))]
)
def test_the_recall_of_a_top_list_against_simulation(kind):
    """Within the standard error of the simulation and 0.02 for the normal approximation; half the error is rejected."""
    mechanism, reports, draws = make(kind, 60, {"epsilon": 2.0 if kind == "grr" else 1.0}), 6000, 150
    errors, estimates = standard_errors(mechanism, FREQUENCY, reports), simulated(mechanism, reports, draws)
    for k in (5, 10, 20):
        found = [len(set(range(k)) & set(np.argsort(-one, kind="stable")[:k])) / k for one in estimates]
        bound = 4 * np.std(found) / math.sqrt(draws) + 0.02
        assert abs(top_recall(FREQUENCY, errors, k) - np.mean(found)) < bound
        assert abs(top_recall(FREQUENCY, errors / 2, k) - np.mean(found)) > bound, "a negative control"


def test_recall_at_the_ends():
    """Without error everything is recalled; with infinite error, as many as by a random choice."""
    assert top_recall(FREQUENCY, np.full(60, 1e-12), 10) == pytest.approx(1.0)
    assert top_recall(FREQUENCY, np.full(60, 1e6), 10) == pytest.approx(10 / 60)
    assert top_recall(np.full(60, 1 / 60), np.full(60, 0.1), 12) == pytest.approx(12 / 60)
    assert top_recall(FREQUENCY, np.full(60, 1e6), 60) == 1.0
    with pytest.raises(InputError, match="k must be at least 1, got 0"):
        top_recall(FREQUENCY, np.full(60, 0.1), 0)


def test_objects_above_the_error_are_counted_by_hand():
    """Twice the standard error of GRR at each frequency, from its variance written out."""
    epsilon, reports = 2.0, 20_000
    p, q = math.exp(epsilon) / (math.exp(epsilon) + 59), 1 / (math.exp(epsilon) + 59)
    seen = [f > 2 * math.sqrt((q + f * (p - q)) * (1 - q - f * (p - q)) / reports) / (p - q) for f in FREQUENCY]
    found = usefulness(make("grr", 60, {"epsilon": epsilon}), UNIVERSE, FREQUENCY, reports)
    assert 0 < found.n_above == sum(seen) < 60
    assert {one.pool: one.n_above for one in found.by_pool} == {
        name: sum(seen[z] for z in np.flatnonzero(UNIVERSE.pool_of == index))
        for index, name in ((0, "sport"), (1, "dating"), (2, "religion"), (-1, "neutral"))
    }
    assert sum(one.objects for one in found.by_pool) == found.objects == 60


def test_the_sentence_names_pools_of_which_nothing_is_seen():
    popularity = np.where(np.isin(UNIVERSE.pool_of, [1, 2]), 1e-6, 1.0)
    found = usefulness(make("oue", 60, {"epsilon": 2.0}), UNIVERSE, popularity, 50_000)
    text = describe_usefulness(found)
    assert f"{found.n_above} of 60 objects are above twice their standard error, none of dating or religion." in text
    assert "holds " in text
    sure = usefulness(make("oue", 60, {"epsilon": 4.0}), UNIVERSE, np.ones(60), 10**7)
    assert "60 of 60 objects" in describe_usefulness(sure)
    assert "none of" not in describe_usefulness(sure)
    faint = usefulness(make("oue", 60, {"epsilon": 0.1}), UNIVERSE, np.ones(60), 100)
    assert "0 of 60 objects are above twice their standard error. " in describe_usefulness(faint)


@pytest.mark.parametrize("alike", [False, True])
def test_the_error_of_several_reports_of_a_device_is_never_too_small(alike):
    """Users who always report the same object reach the stated error; users who draw each time have a smaller one."""
    devices, each, draws = 400, 8, 400
    mechanism = make("grr", 60, {"epsilon": 3.0})
    rng, squares = np.random.default_rng(SEED), []
    estimator = closed_estimator(mechanism)
    for _ in range(draws):
        shape = (devices, 1) if alike else (devices, each)
        objects = np.broadcast_to(rng.choice(60, size=shape, p=FREQUENCY), (devices, each)).ravel()
        counted = estimator.count(mechanism.obfuscate(objects, rng))
        squares.append((estimator.estimate(counted, devices * each).counts / (devices * each) - FREQUENCY) ** 2)
    stated = standard_errors(mechanism, FREQUENCY, devices, each) ** 2
    mean, error = np.mean(squares), np.std([one.mean() for one in squares]) / math.sqrt(draws)
    if alike:
        assert abs(mean - stated.mean()) < 4 * error
    else:
        assert mean < stated.mean() - 4 * error


def test_time_and_caps_and_memoization():
    mechanism, policy = make("oue", 60, {"epsilon": 1.0}), ps.mechanisms.ReportingPolicy(reports_per_day=2.0, cap=30)
    asked = {"policy": policy, "devices": 1000.0, "horizon": 100}
    found = usefulness(mechanism, UNIVERSE, FREQUENCY, 1000, **asked)
    rows = {one.events: one for one in found.over_time}
    assert list(rows) == [2, 14, 60, 100, 180, 730]
    assert [rows[n].days for n in rows] == [1, 7, 30, 50, 90, 365]
    assert [rows[n].reports for n in rows] == [2, 14, 30, 30, 30, 30]
    assert rows[14].rmse == rows[14].rmse_uncapped
    assert rows[730].rmse == rows[60].rmse > rows[730].rmse_uncapped
    expected = standard_errors(mechanism, FREQUENCY, 1000, 14)
    assert rows[14].rmse == pytest.approx(math.sqrt(np.mean(expected**2)))
    kept = usefulness(mechanism, UNIVERSE, FREQUENCY, 1000, memoizes=True, **asked)
    assert {one.rmse for one in kept.over_time} == {kept.rmse}, "noise that repeats does not average out"
