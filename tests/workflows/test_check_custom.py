"""The check of one's own mechanism: what it states is held against what it samples."""

import re

import numpy as np
import pytest
from cases.report_files import WEAK, command, scenario_of
from cases.synthetic import SEED

from poolscope.mechanisms import GRR
from poolscope.workflows.check.check import check

SIZE, EPSILON = 8, 2.0


class Signs:
    """Optimized unary encoding whose entries are 1 and -1, of another epsilon than it states."""

    universe = SIZE

    def __init__(self, epsilon):
        self.epsilon = epsilon

    def obfuscate(self, objects, rng):
        own = np.where(objects[:, None] == np.arange(SIZE), 1, -1)
        return np.where(rng.random(own.shape) < 1 / (np.e + 1), -own, own)


@pytest.mark.parametrize(("epsilon", "passes"), [(2.0, True), (1.0, False)])
def test_entries_of_two_values_are_bits(epsilon, passes):
    verdict = check(Signs(epsilon), samples=20_000, seed=SEED)
    assert verdict.passed == passes
    assert re.match("bit . of report is 1 and bit . is 0", verdict.lower_bound.event)


def test_an_infinite_epsilon_promises_nothing():
    verdict = check(GRR(universe=SIZE, epsilon=np.inf), samples=1000, seed=SEED)
    assert verdict.text == "PASS: the declared ε is infinite, which promises nothing (1,000 reports; 8 of 8 objects)."


class Response:
    """Randomized response that keeps the object `kept` times as often as it states."""

    universe, epsilon = SIZE, EPSILON

    def __init__(self, kept):
        self.p = kept * np.exp(EPSILON) / (np.exp(EPSILON) + SIZE - 1)

    def obfuscate(self, objects, rng):
        others = (objects + rng.integers(1, SIZE, len(objects))) % SIZE
        return np.where(rng.random(len(objects)) < self.p, objects, others)

    def log_likelihood(self, reports):
        return EPSILON * (np.arange(SIZE) == np.asarray(reports)[:, None])


@pytest.mark.slow
@pytest.mark.parametrize(("kept", "fits"), [(1.0, True), (0.3, False), (0.8, False)])
def test_a_sampler_that_keeps_less_than_it_states_is_found(kept, fits):
    verdict = check(Response(kept), samples=20_000, seed=SEED)
    assert verdict.passed == fits
    assert verdict.mechanism == "Response"
    assert any("samples do not match the stated likelihoods" in reason for reason in verdict.violations) != fits


def test_the_command_ends_with_one_where_epsilon_is_not_kept(tmp_path, monkeypatch, capsys):
    scenario_of(tmp_path, mechanism="kind = 'grr'\nepsilon = 1\n", adversaries=WEAK)
    asked = "check", tmp_path / "small.toml", "--samples", 5000
    assert command(*asked) == 0
    assert "PASS" in capsys.readouterr().out
    monkeypatch.setattr(GRR, "report", lambda self, objects, keys: {"value": np.array(objects, dtype=np.int32)})
    assert command(*asked) == 1
    assert "FAIL" in capsys.readouterr().out
