"""Custom mechanisms with few reports are tabulated, and drawn from keys unless samples contradict the table."""

import warnings
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

import poolscope as ps
from poolscope.core.randomness import fresh_keys
from poolscope.mechanisms import adapt

SIZE = 12


class Nearby:
    """Sends an object near the true one; says nothing of its columns."""

    epsilon = 2.2

    def __init__(self, size=SIZE, rate=0.2, skew=0.0):
        weight = np.exp(-rate * np.abs(np.subtract.outer(np.arange(size), np.arange(size))))
        self.distribution = weight / weight.sum(axis=1, keepdims=True)
        # what is sent in truth
        self.sent = (1 - skew) * self.distribution + skew * np.eye(size)
        self.calls = 0

    def obfuscate(self, objects, rng):
        self.calls += 1
        return (self.sent.cumsum(axis=1)[objects, :-1] <= rng.random((len(objects), 1))).sum(axis=1)

    def log_likelihood(self, reports):
        return np.log(self.distribution[:, reports]).T


class Pairs(Nearby):
    """Two columns, of which one is a fair coin."""

    report_columns: ClassVar = {
        "near": ps.mechanisms.ReportColumn("integer", SIZE),
        "coin": ps.mechanisms.ReportColumn("integer", 2),
    }

    def obfuscate(self, objects, rng):
        return {"near": super().obfuscate(objects, rng), "coin": rng.integers(2, size=len(objects))}

    def log_likelihood(self, reports):
        return super().log_likelihood(reports["near"]) - np.log(2)


def drawn(mechanism, z, count=20_000):
    keys = fresh_keys(np.random.default_rng(1), count)
    return mechanism.report(np.full(count, z), keys)


@pytest.mark.parametrize("kind", [Nearby, Pairs])
def test_reports_follow_the_law_without_a_call_for_each(kind):
    own = kind()
    mechanism = adapt(own, SIZE)
    found = drawn(mechanism, 3)
    assert own.calls < 5
    values = found["near"] if kind is Pairs else found["report"]
    seen, wanted = np.bincount(values, minlength=SIZE), own.distribution[3] * values.size
    assert stats.chisquare(seen, wanted).pvalue > 1e-4
    assert stats.chisquare(seen, own.distribution[4] * values.size).pvalue < 1e-9, "the negative control"
    if kind is Pairs:
        assert abs(found["coin"].mean() - 0.5) < 4 * 0.5 / values.size**0.5


def test_a_report_depends_on_its_key_alone():
    mechanism, keys = adapt(Nearby(), SIZE), fresh_keys(np.random.default_rng(2), 50)
    objects = np.arange(50) % SIZE
    whole = mechanism.report(objects, keys)["report"]
    order = np.random.default_rng(3).permutation(50)
    assert np.array_equal(mechanism.report(objects[order], keys[order])["report"], whole[order])


@pytest.mark.parametrize("skew", [0.05, 0.3])
def test_samples_that_contradict_the_likelihood_are_noticed(skew):
    own = Nearby(skew=skew)
    with pytest.warns(UserWarning, match="Nearby: samples of obfuscate do not fit log_likelihood; each report"):
        found = drawn(adapt(own, SIZE), 3, 2000)["report"]
    assert own.calls > 2000, "what the mechanism sends is what it sends"
    assert abs((found == 3).mean() - own.sent[3, 3]) < 4 * (own.sent[3, 3] / 2000) ** 0.5


def test_true_mechanisms_raise_no_alarm():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (2, 5, 40):
            for rate in (0.01, 0.5, 4.0):
                own = Nearby(size, rate)
                drawn(adapt(own, size), 1, 10)
                assert own.calls < 5


class Free(Nearby):
    """Probabilities up to a factor: reports cannot be listed by their sum."""

    def log_likelihood(self, reports):
        return super().log_likelihood(reports) + 1.0


class Elsewhere(Nearby):
    """Reports are other numbers than the objects'."""

    def obfuscate(self, objects, rng):
        return super().obfuscate(objects, rng) + 100

    def log_likelihood(self, reports):
        return super().log_likelihood(np.asarray(reports) - 100)


@pytest.mark.parametrize("kind", [Free, Elsewhere])
def test_other_mechanisms_are_called_for_each_report(kind):
    own = kind()
    drawn(adapt(own, SIZE), 3, 30)
    assert own.calls > 30


def test_masses_are_those_of_every_report_by_itself():
    mechanism = adapt(Nearby(), SIZE)
    universe = ps.Universe.sized(SIZE, {"a": 4, "b": 4})
    adversary = ps.Adversary(name="one", universe=universe, popularity=np.full(SIZE, 1 / SIZE))
    reports = {"report": np.array([3, 3, 7, 0, 3])}
    found = ps.posterior(mechanism, reports, adversary, lengths=[1, 1, 1, 1, 1])
    alone = [
        ps.posterior(mechanism, {"report": reports["report"][i : i + 1]}, adversary, lengths=[1]) for i in range(5)
    ]
    assert np.allclose(np.concatenate(alone), found, rtol=0, atol=1e-14)


def test_draws_of_a_key():
    keys = fresh_keys(np.random.default_rng(1), 40_000)
    uniform = ps.random.uniforms(keys, 3)
    assert stats.kstest(uniform, "uniform").pvalue > 1e-4
    assert stats.kstest(ps.random.normals(keys, 2), "norm").pvalue > 1e-4
    dice = ps.random.integers(keys, 1, 6)
    assert stats.chisquare(np.bincount(dice, minlength=6)).pvalue > 1e-4
    assert abs(np.corrcoef(uniform, ps.random.uniforms(keys, 4))[0, 1]) < 4 / 200
    assert np.isfinite(ps.random.normals(np.zeros(1, dtype=np.uint64))).all()
    assert np.array_equal(ps.random.uniforms(keys.reshape(2, -1), 3).ravel(), uniform)
