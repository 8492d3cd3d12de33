"""The trade-off curve of n reports, against its definition and attacks."""

import math

import numpy as np
import pytest
from oracle import bounds as oracle
from oracle.bounds import mpf
from scipy import special

from poolscope.core.errors import InputError
from poolscope.metrics.bounds import success_bound, trade_off

ROUNDING = 1e-12


@pytest.mark.default_cases("[012]-*", "7-1")
@pytest.mark.parametrize("epsilon", [0.05, 1, 4])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_the_curve_is_the_envelope_of_its_tangents(epsilon, n):
    curve = trade_off(epsilon, n)
    for fpr in (*curve.fpr, 0.003, 0.2, 0.77):
        assert float(curve.fnr_at(fpr)) == pytest.approx(float(oracle.trade_off(epsilon, n, mpf(fpr))), abs=ROUNDING)


@pytest.mark.parametrize("epsilon", [0.5, 3])
def test_randomized_response_attains_every_corner_and_a_larger_epsilon_is_below(epsilon):
    n = 4
    flip_probability = special.expit(-epsilon)
    distribution = [math.comb(n, j) * flip_probability**j * (1 - flip_probability) ** (n - j) for j in range(n + 1)]
    curve = trade_off(epsilon, n)
    for at, least in enumerate(range(n + 1, -1, -1)):
        # the second candidate is named after at least so many reports in favor of it
        assert curve.fpr[at] == pytest.approx(sum(distribution[least:]), abs=ROUNDING)
        assert curve.fnr[at] == pytest.approx(sum(distribution[n + 1 - least :]), abs=ROUNDING)
    assert trade_off(1.1 * epsilon, n).fnr_at(0.001) < curve.fnr_at(0.001) - 1e-3


@pytest.mark.parametrize(("epsilon", "n"), [(1, 30), (0.02, 10_000), (4, 3)])
def test_the_advantage_is_what_guesses_about_two_even_candidates_gain(epsilon, n):
    curve = trade_off(epsilon, n)
    assert (1 + curve.advantage) / 2 == pytest.approx(success_bound(epsilon, n, 0.5), rel=1e-10)
    assert (np.diff(curve.fpr) >= 0).all()
    assert (np.diff(curve.fnr) <= 0).all()
    assert curve.table().height == n + 2


def test_limits():
    for nothing in (trade_off(0, 5), trade_off(3, 0)):
        assert nothing.fnr_at(np.array([0, 0.25, 1])) == pytest.approx([1, 0.75, 0], abs=ROUNDING)
        assert nothing.advantage == pytest.approx(0, abs=ROUNDING)
    assert trade_off(math.inf, 1).fnr_at(0.0) == 0
    assert trade_off(math.inf, 1).advantage == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: trade_off(-1, 7), "epsilon must be at least 0"),
        (lambda: trade_off(math.nan, 7), "epsilon must be at least 0"),
        (lambda: trade_off(1, -7), "n must be at least 0"),
        (lambda: trade_off(1, 7).fnr_at(1.5), "fpr must be between 0 and 1"),
        (lambda: trade_off(1, 7).fnr_at(np.array([0.5, math.nan])), "fpr must be between 0 and 1"),
    ],
)
def test_messages(call, words):
    with pytest.raises(InputError, match=words):
        call()
