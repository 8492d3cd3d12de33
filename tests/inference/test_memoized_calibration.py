"""The attack on every device that memoizes is calibrated: one family of tests."""

from functools import cache

import numpy as np
import pytest
from cases.calibrated import calibration_p
from cases.selection import mostly, statistical
from cases.synthetic import SEED

from poolscope.core.randomness import user_keys
from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import posterior
from poolscope.mechanisms import (
    CMS,
    GRR,
    LGRR,
    LOLOHA,
    LOSUE,
    LOUE,
    LSOUE,
    LSUE,
    OLH,
    OUE,
    SUE,
    DBitFlip,
    Rappor,
    device_of,
    reports_of,
    with_instantaneous_round,
)
from poolscope.population.behavior import Behavior, draw_traces, draw_users
from poolscope.population.popularity import zipf
from poolscope.population.universe import Universe

SIZE, USERS, N = 12, 80, 6
CROWD = Universe.sized(SIZE, {"a": 4, "b": 4, "c": 2})
POPULARITY = zipf(CROWD, 1.0)
ORACLE = Adversary(name="oracle", universe=CROWD, popularity=POPULARITY)
KEYS = user_keys(SEED, np.arange(USERS))
TRUTH = draw_users(CROWD, Behavior(), KEYS)
TRACES = draw_traces(CROWD, POPULARITY, TRUTH, N)
TWO = {"universe": SIZE, "epsilon_perm": 4.0, "epsilon_1": 3.0}

DEVICES = {
    "l-grr": LGRR(**TWO),
    "l-sue": LSUE(**TWO),
    "l-osue": LOSUE(**TWO),
    "l-oue": LOUE(universe=SIZE, epsilon_perm=4.0, epsilon_1=2.0),
    "l-soue": LSOUE(universe=SIZE, epsilon_perm=4.0, epsilon_1=2.0),
    "loloha": LOLOHA(**TWO),
    "loloha, two values": LOLOHA(**TWO, g=2),
    "dbitflip": DBitFlip(universe=SIZE, epsilon=4.0, buckets=6, d=4),
    "rappor": Rappor(universe=SIZE, m=16, hashes=2, cohorts=4, f=0.25, p=0.15, q=0.85),
    "cms": CMS(universe=SIZE, epsilon=4.0, m=16, hashes=64),
    "grr": GRR(universe=SIZE, epsilon=3.0),
    "sue": SUE(universe=SIZE, epsilon=4.0),
    "grr, again": with_instantaneous_round(GRR(universe=SIZE, epsilon=4.0), "grr", epsilon=3.0),
    "olh, again": with_instantaneous_round(OLH(universe=SIZE, epsilon=3.0, g=4), "grr", epsilon=3.0),
    "oue, again": with_instantaneous_round(OUE(universe=SIZE, epsilon=4.0), "sue", epsilon=3.0),
}
every_device = pytest.mark.parametrize("name", DEVICES)
some_devices = pytest.mark.parametrize("name", mostly(statistical, DEVICES, "l-osue", "dbitflip", "rappor"))

#: Error of the whole family of tests, of which each has an equal share: one run in twenty fails somewhere by chance.
LEVEL = 0.05 / len(DEVICES)


@cache
def found(name):
    device = device_of(DEVICES[name], memoize=True)
    reports = reports_of(device, TRACES, KEYS)
    return posterior(device, reports, ORACLE, lengths=np.full(USERS, N), observations=[N])[:, 0]


@pytest.mark.default_cases("dbitflip")
@some_devices
def test_the_attack_is_calibrated(name):
    p = calibration_p(TRUTH.iota, found(name), SEED)
    assert p > LEVEL, f"expected calibration error has p = {p:.2g}, allowed {LEVEL:.2g}"


@pytest.mark.default_cases("dbitflip")
@some_devices
def test_an_overconfident_attack_is_not(name):
    """The control: the same posteriors, as sure as if all had been seen eight times."""
    sure = found(name) ** 8
    p = calibration_p(TRUTH.iota, sure / sure.sum(axis=1, keepdims=True), SEED)
    assert p <= LEVEL, f"p = {p:.2g} is not below {LEVEL:.2g}: the test sees nothing"


@every_device
@pytest.mark.parametrize("count", [1, 4])
def test_what_the_first_reports_say_does_not_hang_on_the_rest(name, count):
    """So that evidence is made once for all observation counts: to the bit that of the first reports alone."""
    device = device_of(DEVICES[name], memoize=True)
    for user in range(3):
        reports = reports_of(device, TRACES[[user]], KEYS[[user]])
        whole = device.likelihood(reports).first(count)
        alone = device.likelihood({column: np.asarray(x)[:count] for column, x in reports.items()})
        np.testing.assert_array_equal(whole.slots, alone.slots)
        for found, expected in zip(whole.distribution, alone.distribution, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.default_cases("rappor", "loloha")
@pytest.mark.parametrize("name", ["cms", "rappor", "loloha"])
def test_a_posterior_does_not_hang_on_other_observation_counts(name):
    device = device_of(DEVICES[name], memoize=True)
    reports, lengths = reports_of(device, TRACES[:2], KEYS[:2]), np.full(2, N)
    several = posterior(device, reports, ORACLE, lengths=lengths, observations=[0, 2, N])
    for row, count in enumerate((0, 2, N)):
        alone = posterior(device, reports, ORACLE, lengths=lengths, observations=[count])
        np.testing.assert_array_equal(several[:, row], alone[:, 0])
