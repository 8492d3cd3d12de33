"""Equal reports of a user: what devices with and without memoization send is told apart, and nothing else."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from cases.synthetic import SEED
from scipy import stats

from poolscope.core.randomness import user_keys
from poolscope.mechanisms import Channel, device_of, make, reports_of
from poolscope.reports.repeats import RepeatCheck, _rarefied, grouped, hashed, min_collision

SIZE, USERS, EACH = 30, 100, 20
NAMES = np.repeat(np.arange(USERS), EACH)
KINDS = {
    "grr": {"epsilon": 1.0},
    "hr": {"epsilon": 1.0},
    "sue": {"epsilon": 2.0},
    "oue": {"epsilon": 2.0},
    "ss": {"epsilon": 1.0},
    "olh": {"epsilon": 1.0},
    "blh": {"epsilon": 1.0},
    "cms": {"epsilon": 2.0, "m": 16, "hashes": 4},
    "hcms": {"epsilon": 2.0, "m": 16, "hashes": 4},
    "dbitflip": {"epsilon": 2.0, "d": 3},
    "she": {"epsilon": 2.0},
}
#: Mechanisms with few values, of which a user who picks one object sends some again and again.
PEAKED = {"grr": {"epsilon": 5.0}, "hr": {"epsilon": 5.0}, "dbitflip": {"epsilon": 9.0, "d": 1}, "identity": {}}


def looked(device, traces, seed, sent=None, error=1e-4):
    users = user_keys(seed, np.arange(len(traces)))
    repeats = RepeatCheck(device, 0.0, error)
    repeats.add(reports_of(sent or device, traces, users))
    return repeats.violation(np.repeat(np.arange(len(traces)), traces.shape[1]))


def traces_of(seed, concentration=0.3):
    """Users who have their own favorites."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.choice(SIZE, EACH, p=rng.dirichlet(np.full(SIZE, concentration))) for _ in range(USERS)])


@pytest.mark.default_cases("grr", "sue", "cms", "hr", "olh", "dbitflip")
@pytest.mark.parametrize("kind", KINDS)
def test_memoized_and_fresh_reports_are_told_apart(kind):
    mechanism = make(kind, SIZE, KINDS[kind])
    fresh, memoized = (device_of(mechanism, memoize=memoize) for memoize in (False, True))
    traces = traces_of(SEED, 0.05)
    assert "set memoize = true" in looked(fresh, traces, SEED, memoized)
    assert looked(fresh, traces, SEED) is None
    assert looked(memoized, traces, SEED) is None
    spread = np.random.default_rng(SEED).integers(SIZE, size=(4 * USERS, EACH))
    if kind not in ("grr", "hr"):
        assert "set memoize = false" in looked(memoized, spread, SEED, fresh)
    assert looked(memoized, spread, SEED) is None


@pytest.mark.default_cases("peaked hr", "peaked grr", "peaked identity", "cms", "sue", "ss", "olh")
@pytest.mark.parametrize("kind", [*KINDS, *(f"peaked {kind}" for kind in PEAKED)])
def test_users_who_always_pick_one_object_raise_no_alarm(kind):
    """No other behavior makes more equal fresh reports."""
    name = kind.removeprefix("peaked ")
    mechanism = make(name, SIZE, PEAKED[name] if kind.startswith("peaked") else KINDS[name])
    traces = np.full((2000, EACH), 7)
    assert looked(device_of(mechanism, memoize=False), traces, SEED) is None


def test_users_of_the_object_that_a_channel_hides_least_raise_no_alarm():
    matrix = np.full((SIZE, 40), 1.0 / 40)
    matrix[5] = np.where(np.arange(40) == 3, 0.9, 0.1 / 39)
    device = device_of(Channel(universe=SIZE, matrix=matrix), memoize=False)
    assert looked(device, np.full((500, EACH), 5), SEED) is None
    assert "set memoize = true" in looked(
        device, np.full((500, EACH), 6), SEED, device_of(device.mechanism, memoize=True)
    )


def test_few_values_that_fresh_devices_would_not_repeat_are_noticed():
    """Users of many objects repeat less than one who picks one object, but fresh devices send more values."""
    mechanism = make("grr", 12, {"epsilon": 3.0})
    fresh, memoized = (device_of(mechanism, memoize=memoize) for memoize in (False, True))
    rng = np.random.default_rng(SEED)
    traces = rng.integers(4, size=(400, 200)) + 4 * rng.integers(3, size=(400, 1))
    assert looked(fresh, traces, SEED) is None
    assert "set memoize = true" in looked(fresh, traces, SEED, memoized)


@pytest.mark.default_cases("cms-True", "sue-False", "grr-True")
@pytest.mark.parametrize("memoize", [False, True])
@pytest.mark.parametrize("kind", ["grr", "cms", "sue"])
def test_false_alarms_are_rarer_than_stated(kind, memoize):
    """The bounds hold without approximation; one pair of equal reports is as likely as can be."""
    files, error = 40, 0.2
    device = device_of(make(kind, SIZE, KINDS[kind]), memoize=memoize)
    rng = np.random.default_rng(SEED)
    alarms = 0
    for seed in range(files):
        picked = rng.integers(SIZE, size=(USERS, EACH)) if memoize else np.full((USERS, EACH), rng.integers(SIZE))
        alarms += looked(device, picked, SEED + seed, error=error) is not None
    assert alarms <= stats.binom.isf(1e-4, files, error)


def test_noise_on_a_memoized_response_hides_its_repeats():
    device = device_of(make("l-osue", SIZE, {"epsilon": 3.0}))
    assert looked(device, traces_of(SEED), SEED) is None


def test_a_user_with_equal_reports_is_no_copy():
    """Users who pick one or two objects as often as others copy rows are not called copies."""
    memoized = device_of(make("sue", SIZE, KINDS["sue"]), memoize=True)
    traces = np.random.default_rng(SEED).integers(SIZE, size=(USERS, 2)).repeat(EACH // 2, axis=1)
    assert looked(memoized, traces, SEED) is None


def test_groups_are_those_of_pairs():
    rng = np.random.default_rng(SEED)
    users, values = rng.integers(6, size=300), rng.integers(5, size=300)
    equal = grouped(users, hashed({"value": values}))
    counted = Counter(zip(users.tolist(), values.tolist(), strict=True))
    assert sorted(equal.sizes.tolist()) == sorted(counted.values())
    assert equal.consecutive == sum((users[1:] == users[:-1]) & (values[1:] == values[:-1]))
    for user in range(6):
        own = values[users == user]
        share = np.mean([a == b for a, b in combinations(own.tolist(), 2)])
        assert equal.equal_pair_shares[user] == pytest.approx(share)


def test_rarefied_repeats_are_the_mean_of_samples():
    sizes, rng = np.array([5, 3, 1, 1]), np.random.default_rng(SEED)
    reports = np.repeat(np.arange(4), sizes)
    for count in (2, 4, 9):
        drawn = [count - len(set(rng.choice(reports, count, replace=False).tolist())) for _ in range(4000)]
        error = np.std(drawn) / np.sqrt(len(drawn))
        assert abs(np.mean(drawn) - _rarefied(sizes, np.array([count]))[0]) <= 4 * error + 1e-12


def test_no_preference_of_pools_makes_fewer_equal_picks():
    rng = np.random.default_rng(SEED)
    sections, within = np.repeat([0, 1, 2], [2, 3, 5]), np.empty(10)
    for section in range(3):
        own = sections == section
        within[own] = rng.dirichlet(np.ones(own.sum()))
    least = min_collision(within, sections)
    preferred = rng.dirichlet(np.ones(3), 2000)
    picked = np.sum((preferred[:, sections] * within) ** 2, axis=1)
    assert least <= picked.min()
    squares = np.bincount(sections, weights=within**2)
    assert np.sum(((1 / squares / np.sum(1 / squares))[sections] * within) ** 2) == pytest.approx(least)


def test_no_report_has_no_group():
    found = grouped(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint64))
    assert len(found.sizes) == 0
