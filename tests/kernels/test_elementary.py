"""Logarithms and exponentials of many numbers at once."""

import numpy as np
from cases.compiled import entry

from poolscope.kernels import elementary
from poolscope.kernels.elementary import MIN_EXPONENT


def test_logarithms_are_those_of_numpy():
    x = np.exp(np.random.default_rng(1).uniform(-690, 690, size=1003))
    x[:3] = 1.0, np.nextafter(1.0, 2.0), np.nextafter(1.0, 0.0)
    expected, out = np.log(x), np.empty(len(x))
    entry(elementary.log_all)(x, x.view(np.int64), out, out.view(np.int64), 1000)
    np.testing.assert_allclose(out[:1000], expected[:1000], rtol=1e-14, atol=1e-16)


def test_exponentials_are_those_of_numpy():
    x = np.random.default_rng(1).uniform(-690, 690, size=1003)
    x[:3] = 0.0, -np.inf, -1e5
    expected, workspace = np.exp(np.maximum(x, MIN_EXPONENT)), np.empty(len(x))
    entry(elementary.exp_all)(x, workspace, workspace.view(np.int64), 1000)
    np.testing.assert_allclose(x[:1000], expected[:1000], rtol=1e-14)
