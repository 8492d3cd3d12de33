"""Devices whose next report depends on earlier ones: against enumeration of all objects, and in a game."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from cases.synthetic import SEED

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.inference.attack import attack_for
from poolscope.inference.sequential import SequentialReportsAttack
from poolscope.metrics.calibration import ece, ece_null_p95


class Sticky:
    """Repeats its last report with probability s."""

    memoizes = False

    def __init__(self, mechanism, s):
        self.mechanism, self.s = mechanism, s

    def send(self, objects, users, event_index):
        keys = ps.random.report_keys(users, event_index)
        value = self.mechanism.report(objects, ps.random.child_keys(keys, 0))["value"]
        first = np.append(True, users[1:] != users[:-1])
        fresh = first | (ps.random.uniforms(keys) >= self.s)
        return {"value": value[np.maximum.accumulate(np.where(fresh, np.arange(len(value)), 0))]}

    def log_likelihood(self, reports, candidate_objects):
        value, (p, q) = reports["value"], self.probabilities
        chance = np.where(value[:, None] == candidate_objects, p, q)
        same = np.append(False, value[1:] == value[:-1])[:, None]
        return np.log(np.where(np.arange(len(value))[:, None] == 0, chance, (1 - self.s) * chance + self.s * same))

    @property
    def probabilities(self):
        e, d = np.exp(self.mechanism.epsilon), self.mechanism.universe
        return e / (e + d - 1), 1 / (e + d - 1)


def exact(values, device, universe, popularity, nodes=40):
    """The posterior from the definition: a sum over all sequences of objects, and a fine integral."""
    k, n, (p, q) = universe.k, len(values), device.probabilities
    x, w = np.polynomial.legendre.leggauss(nodes)
    within = [popularity[z] / popularity[universe.pool_of == universe.pool_of[z]].sum() for z in range(universe.size)]
    out = np.zeros(k)
    for i in range(k):
        for gamma, w_g in zip((x + 1) / 2, w, strict=True):
            for delta, w_d in zip(1 / k + (1 - 1 / k) * (x + 1) / 2, w, strict=True):
                share = [1 - gamma] + [gamma * delta if j == i else gamma * (1 - delta) / (k - 1) for j in range(k)]
                for objects in product(range(universe.size), repeat=n):
                    chance = w_g * w_d
                    for t, z in enumerate(objects):
                        fresh = p if values[t] == z else q
                        sent = fresh if t == 0 else (1 - device.s) * fresh + device.s * (values[t] == values[t - 1])
                        chance *= share[universe.pool_of[z] + 1] * within[z] * sent
                    out[i] += chance
    return out / out.sum()


def test_the_posterior_is_that_of_the_enumeration():
    universe = ps.Universe.sized(4, {"a": 2, "b": 1})
    popularity = np.array([0.4, 0.2, 0.3, 0.1])
    device = Sticky(ps.mechanisms.GRR(universe=4, epsilon=1.5), 0.6)
    adversary = ps.Adversary(name="x", universe=universe, popularity=popularity)
    for values in ([0, 0, 2], [2, 3], [1, 1, 1]):
        found = ps.posterior(device, {"value": np.array(values)}, adversary)[-1]
        np.testing.assert_allclose(found, exact(values, device, universe, popularity, 6), atol=1e-10)
        fresh = ps.posterior(device.mechanism, {"value": np.array(values)}, adversary)[-1]
        if len(set(values)) < len(values):
            assert np.abs(found - fresh).max() > 0.01


UNIVERSE = ps.Universe.sized(40, {"a": 8, "b": 8, "c": 8})
POPULARITY = ps.popularity.zipf(UNIVERSE, 1.0)
STICKY = Sticky(ps.mechanisms.GRR(universe=40, epsilon=4.0), 0.7)
GAME = ps.Game(
    universe=UNIVERSE,
    popularity=POPULARITY,
    device=STICKY,
    adversaries=[ps.Adversary(name="strong", universe=UNIVERSE, popularity=POPULARITY), ps.attacks.Bayesian()],
    observations=[40],
    non_private=False,
)


def test_the_attack_on_a_sticky_device_is_calibrated_and_the_naive_one_is_not():
    assert isinstance(attack_for(STICKY), SequentialReportsAttack)
    outcomes = ps.play(GAME, 800, SEED)
    strong, own = (outcomes.filter(outcomes["adversary"] == name) for name in ("strong", "bayesian"))
    assert ece(strong, SEED).value < ece_null_p95(strong, SEED) * 1.2
    np.testing.assert_allclose(strong["confidence"], own["confidence"], atol=1e-12)
    naive = ps.play(replace(GAME, device=Naive(STICKY)), 800, SEED)
    naive = naive.filter(naive["adversary"] == "strong")
    assert ece(naive, SEED).value > 2 * ece_null_p95(naive, SEED)


class Naive:
    """A device without its likelihood."""

    memoizes = False

    def __init__(self, device):
        self.mechanism, self.send = device.mechanism, device.send


def test_users_and_lengths_are_kept_apart():
    drawn = ps.simulate(replace(GAME, policy=ps.mechanisms.ReportingPolicy(sampling_rate=0.5)), 5, SEED)
    adversary = GAME.adversaries[0]
    all_at_once = ps.posterior(STICKY, drawn.reports, adversary, lengths=drawn.lengths)
    ends = np.cumsum(drawn.lengths)
    for user, (stop, length) in enumerate(zip(ends, drawn.lengths, strict=True)):
        alone = ps.posterior(STICKY, {"value": drawn.reports["value"][stop - length : stop]}, adversary)
        np.testing.assert_allclose(all_at_once[user, length], alone[-1], atol=1e-10)


def test_a_pseudonym_is_a_sequence_of_its_own():
    game = replace(GAME, policy=ps.mechanisms.ReportingPolicy(rotate_after=10), observations=[10, 20])
    outcomes, drawn = ps.play(game, 12, SEED), ps.simulate(game, 12, SEED)
    found = outcomes.filter((outcomes["adversary"] == "strong") & (outcomes["n"] == 20))["confidence"]
    for user in range(12):
        second = {"value": drawn.reports["value"][20 * user + 10 : 20 * user + 20]}
        assert found[user] == pytest.approx(ps.posterior(STICKY, second, GAME.adversaries[0])[-1].max(), abs=1e-10)


@pytest.mark.parametrize(
    ("value", "rule"),
    [(lambda n: np.zeros((n, 3)), r"must be \(reports, objects\)"), (lambda n: np.full((n, 40), np.nan), "numbers")],
)
def test_wrong_likelihoods_are_refused(value, rule, monkeypatch):
    monkeypatch.setattr(Sticky, "log_likelihood", lambda self, reports, objects: value(len(reports["value"])))
    with pytest.raises(InputError, match=rule):
        ps.posterior(STICKY, {"value": np.array([1, 2])}, GAME.adversaries[0])
