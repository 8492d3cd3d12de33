"""The attack on every mechanism: its posterior against enumeration, and its calibration."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from cases.calibrated import calibration_p
from cases.synthetic import SEED
from mpmath import mp, mpf
from oracle import reference
from oracle.distributions import LARGE, TINY
from oracle.kinds import KINDS, large, rows, tiny

from poolscope.core.randomness import report_keys, user_keys
from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import posterior
from poolscope.mechanisms import THE
from poolscope.population.behavior import Behavior, draw_traces, draw_users
from poolscope.population.popularity import zipf
from poolscope.population.universe import Universe

every_mechanism = pytest.mark.parametrize("name", list(KINDS))

# Against enumeration

SCENARIOS = {
    "a neutral object": (Universe.sized(TINY, {"a": 1, "b": 2}), np.full(TINY, 0.25), [0, 3, 1, 2, 0]),
    "no neutral object": (Universe.sized(TINY, {"a": 2, "b": 2}), np.array([0.5, 0.1, 0.15, 0.25]), [1, 0, 3, 1, 1]),
}


@mp.workdps(reference.DIGITS)
def enumerated(likelihood, popularity, pool_of, k):
    """Posterior of the pools from all sequences of objects that may be behind the reports.

    A sequence has the probability of its reports, times that of its objects within their pools, times the mean of its
    pools' weights over the behavior: integrals of powers, exact.
    """
    within = [mpf(float(p)) / mp.fsum(map(float, popularity[pool_of == pool_of[z]])) for z, p in enumerate(popularity)]
    scores, integrals = [mpf(0)] * k, {}
    for sequence in product(range(len(popularity)), repeat=len(likelihood)):
        chance = mp.fprod(row[z] * within[z] for row, z in zip(likelihood, sequence, strict=True))
        pools = [int(pool_of[z]) for z in sequence]
        neutral = pools.count(-1)
        for i in range(k):
            own = pools.count(i)
            rest = len(sequence) - neutral - own
            if (own, rest) not in integrals:
                relevant = reference._gamma_integral(own + rest, neutral, None)
                integrals[own, rest] = relevant * reference._delta_integral(own, rest, k, None) / (k - 1) ** rest
            scores[i] += chance * integrals[own, rest]
    return [float(score / mp.fsum(scores)) for score in scores]


@pytest.mark.default_cases(
    "3.0-a neutral object-*",
    "3.0-no neutral object-cms",
    "3.0-no neutral object-she",
)
@every_mechanism
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_posterior_is_that_of_all_sequences_of_objects(name, scenario, epsilon):
    """With the oracle's probability of every report."""
    universe, popularity, trace = SCENARIOS[scenario]
    mechanism = tiny(name, epsilon)
    reports = mechanism.obfuscate(np.array(trace), np.random.default_rng(SEED))
    found = posterior(mechanism, reports, Adversary(name="oracle", universe=universe, popularity=popularity))
    likelihood = [[KINDS[name].probability(report, z, epsilon) for z in range(TINY)] for report in rows(reports)]
    for n in (1, 3, len(trace)):
        expected = enumerated(likelihood[:n], popularity, universe.pool_of, universe.k)
        np.testing.assert_allclose(found[n], expected, rtol=1e-10)


# Does it know its odds

CROWD = Universe.sized(LARGE, {"a": 15, "b": 3, "c": 30})
POPULARITY = zipf(CROWD, 1.0)
ORACLE = Adversary(name="oracle", universe=CROWD, popularity=POPULARITY)
USERS, N = 4000, 20

#: Error of the whole family of tests, of which each has an equal share: one run in twenty fails somewhere by chance.
LEVEL = 0.05 / len(KINDS)

KEYS = user_keys(SEED, np.arange(USERS))
TRUTH = draw_users(CROWD, Behavior(), KEYS)


def sent(mechanism):
    """The crowd's reports, user after user."""
    traces = draw_traces(CROWD, POPULARITY, TRUTH, N)
    return mechanism.report(traces.ravel(), report_keys(KEYS, 0, N).ravel())


@cache
def of_name(name):
    """A mechanism at epsilon 4, and the crowd's reports."""
    mechanism = large(name, 4.0)
    return mechanism, sent(mechanism)


def p_value(mechanism, reports, times=1):
    """`calibration_p` of an adversary who sees every report so many times."""
    seen = {name: np.repeat(column, times, axis=0) for name, column in reports.items()}
    found = posterior(mechanism, seen, ORACLE, lengths=np.full(USERS, times * N))[:, -1]
    return calibration_p(TRUTH.iota, found, SEED)


@pytest.mark.default_cases("cms", "grr", "hcms", "l-osue")
@every_mechanism
def test_attack_is_calibrated(name):
    p = p_value(*of_name(name))
    assert p > LEVEL, f"expected calibration error has p = {p:.2g}, allowed {LEVEL:.2g}"


@pytest.mark.default_cases("grr")
@every_mechanism
def test_an_overconfident_attack_is_not(name):
    """The control: who takes every report for two is too sure."""
    p = p_value(*of_name(name), times=2)
    assert p <= LEVEL, f"p = {p:.2g} is not below {LEVEL:.2g}: the test sees nothing"


@pytest.mark.default_cases("4.0")
@pytest.mark.parametrize("claimed", [4.0, 6.0])
def test_a_wrong_epsilon_is_not_calibrated(claimed):
    """A set of positions tells less than the noisy vector it is made of, whose epsilon it claims."""

    class HasLikelihood(THE):
        likelihood_offset, likelihood_scale = np.exp(-claimed), -np.expm1(-claimed)

    mechanism = HasLikelihood(universe=LARGE, epsilon=4.0)
    assert p_value(mechanism, sent(mechanism)) <= LEVEL
