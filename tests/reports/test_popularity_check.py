"""The exponent of the popularity that reports follow, whatever users prefer and whether devices memoize."""

import numpy as np
import pytest
from cases.synthetic import SEED
from scipy import stats

from poolscope.core.randomness import user_keys
from poolscope.mechanisms import device_of, make, reports_of
from poolscope.population.behavior import Behavior, draw_traces, draw_users
from poolscope.population.priors import Beta
from poolscope.population.universe import Universe
from poolscope.reports import checks
from poolscope.reports.checks import AssumedPopularity, PopularityCheck, exponents, pool_weights
from poolscope.reports.ibu import max_likely

SIZE, USERS, EACH = 40, 80, 15
UNIVERSE = Universe.sized(SIZE, {"a": 8, "b": 12, "c": 6})
#: Some users have one interest alone, some have many.
BEHAVIOR = Behavior(interest=Beta(a=0.7, b=0.7), polarization=Beta(a=0.7, b=0.7), pools=(3.0, 1.0, 1.0))
KINDS = {
    "grr": {"epsilon": 3.0},
    "oue": {"epsilon": 2.0},
    "olh": {"epsilon": 2.0},
    "cms": {"epsilon": 4.0, "m": 16, "hashes": 16},
    "hcms": {"epsilon": 4.0, "m": 16, "hashes": 16},
    "dbitflip": {"epsilon": 3.0, "d": 5},
    "identity": {},
}


def popularity_of(seed):
    weights = np.random.default_rng(seed).permutation(1.0 / np.arange(1, SIZE + 1))
    return weights / weights.sum()


def file_of(kind, seed, *, memoize=False, stated=None):
    """A check that has looked at the reports of some users, and the user of each."""
    popularity, mechanism = popularity_of(seed), make(kind, SIZE, KINDS[kind])
    people = draw_users(UNIVERSE, BEHAVIOR, user_keys(seed, np.arange(USERS)))
    traces = draw_traces(UNIVERSE, popularity, people, EACH)
    reports = reports_of(device_of(mechanism, memoize=memoize), traces, user_keys(seed, np.arange(USERS)))
    given = AssumedPopularity(
        adversary="strong", universe=UNIVERSE, popularity=popularity if stated is None else stated
    )
    check = PopularityCheck(mechanism, given, 0.2, 1 << 17)
    half = USERS * EACH // 2
    check.add({name: column[:half] for name, column in reports.items()})
    check.add({name: column[half:] for name, column in reports.items()})
    return check, np.repeat(np.arange(USERS), EACH)


@pytest.mark.default_cases("cms-False", "oue-True")
@pytest.mark.parametrize("memoize", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_are_as_rare_as_stated(kind, memoize, monkeypatch):
    monkeypatch.setattr(checks, "MARGIN", 0.0)
    files = 40
    alarms = 0
    for seed in range(files):
        check, users = file_of(kind, SEED + seed, memoize=memoize)
        alarms += check.violation(users) is not None
    assert alarms <= stats.binom.isf(1e-4, files, 0.2)


def test_reports_of_a_user_are_not_taken_for_independent(monkeypatch):
    """The negative control: with every memoized report as a user of its own, the variance is too small."""
    monkeypatch.setattr(checks, "MARGIN", 0.0)
    files = 60
    alarms = 0
    for seed in range(files):
        check, users = file_of("oue", SEED + seed, memoize=True)
        alarms += check.violation(np.arange(len(users))) is not None
    assert alarms > stats.binom.isf(1e-4, files, 0.2)


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 1.0, 1.5])
def test_the_exponent_is_found(exponent, monkeypatch):
    """Within four standard errors near the stated one, and on its side far away, where one step does not reach."""
    seen = []

    def spy(*arguments):
        seen.append(exponents(*arguments))
        return seen[-1]

    monkeypatch.setattr(checks, "exponents", spy)
    stated = popularity_of(SEED) ** (1.0 / exponent) if exponent else np.ones(SIZE)
    if exponent == 0:
        # a uniform popularity has no contrast to look for, so the users' is uniform instead
        check, users = file_of("oue", SEED, stated=stated)
        assert check.violation(users) is None
        assert not seen
        return
    check, users = file_of("oue", SEED, stated=stated)
    message = check.violation(users)
    found, error = seen[0][0][0], seen[0][1][0]
    if abs(exponent - 1) <= 0.5:
        assert abs(found - exponent) < 4 * error + (exponent - 1.0) ** 2
    else:
        assert found < checks.REORDERED_EXPONENT
        assert "another order of objects" in message


def test_few_users_say_nothing():
    check, users = file_of("identity", SEED, stated=popularity_of(SEED)[::-1])
    assert check.violation(users) is not None
    assert check.violation(users % (checks.MIN_USERS - 1)) is None


def test_objects_without_popularity_are_no_error():
    stated = popularity_of(SEED)
    stated[::3] = 0.0
    for kind in KINDS:
        check, users = file_of(kind, SEED, stated=stated)
        check.violation(users)


def test_the_weights_are_the_most_likely_ones():
    rng = np.random.default_rng(SEED)
    pools = rng.dirichlet(np.full(12, 0.5), 3)
    sent = rng.choice(12, size=5000, p=np.array([0.2, 0.3, 0.5]) @ pools)
    likelihood = pools[:, sent].T
    weights, derivatives = pool_weights(likelihood)
    np.testing.assert_allclose(weights, max_likely(likelihood, np.ones(len(sent)), gap=1e-9), atol=1e-4)
    np.testing.assert_allclose(derivatives.sum(axis=0), 0.0, atol=1.0)
