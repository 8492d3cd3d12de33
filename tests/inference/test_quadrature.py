"""Rules and their capacities: the bound that quadrature.py states, computed."""

import numpy as np
import pytest
from scipy import special, stats

from poolscope.core.errors import InputError
from poolscope.inference.quadrature import (
    RUNGS,
    TOLERANCE,
    axis,
    fixed_rule,
    high_polynomials,
    max_sharpness,
    max_spread,
    point_axis,
)
from poolscope.population.behavior import Behavior
from poolscope.population.priors import Beta, FunctionDensity

DENSITIES = {
    "uniform": Beta(),
    "arcsine": Beta(a=0.5, b=0.5),
    "as published": Beta(a=2.0, b=1.0),
    "sharp": Beta(a=20.0, b=20.0),
    "function": FunctionDensity(lambda x: 12 * x**2 * (1 - x), resolution=256),
}
# (a, b) of the same priors, for their moments.
PARAMETERS = {
    "uniform": (1, 1),
    "arcsine": (0.5, 0.5),
    "as published": (2, 1),
    "sharp": (20, 20),
    "function": (3, 2),
}


def bernstein_error(degree, nodes):
    r"""e_K(N): the largest relative error of the rule on x^j (1-x)^(K-j), j = 0..K."""
    if degree < 2 * nodes:
        return 0.0
    x, w = special.roots_legendre(nodes)
    j = np.arange(degree // 2 + 1)[:, None]
    logs = j * np.log((1 + x) / 2) + (degree - j) * np.log((1 - x) / 2)
    ratio = np.exp(logs - special.betaln(j + 1, degree - j + 1)) @ (w / 2)
    return np.abs(ratio - 1).max()


@pytest.mark.parametrize("nodes", [n for n in RUNGS if n <= 96])
def test_capacity_keeps_the_bernstein_bound(nodes):
    mean = max_spread(nodes)
    degrees = np.arange(2 * nodes, int(mean + 12 * np.sqrt(mean) + 30))
    # log e_K is smooth in K, so some of them will do
    some = np.unique(np.linspace(degrees[0], degrees[-1], 60).astype(int))
    logs = np.log([bernstein_error(int(degree), nodes) for degree in some])
    weight, error = stats.poisson.pmf(degrees, mean), np.exp(np.interp(degrees, some, logs))
    expected = float(weight @ error)
    assert expected < 5e-11, f"E[e_K({nodes})] = {expected:.1e} for K Poisson({mean:.1f})"


def test_bound_is_not_idle():
    """A spread half as large again is seen to fail."""
    assert bernstein_error(int(1.5 * max_spread(32)), 32) > 1e-10


def test_capacities_rise():
    assert np.all(np.diff(RUNGS) > 0)
    assert np.all(np.diff([max_spread(nodes) for nodes in RUNGS]) > 0)
    assert max_spread(RUNGS[0]) > 0
    # 10,000 reports, the most that is promised, fit
    assert max_spread(RUNGS[-1]) > 10_000


@pytest.mark.parametrize("name", DENSITIES)
@pytest.mark.parametrize("nodes", [2, 8, 20, 64])
def test_rules_integrate_polynomials_exactly(name, nodes):
    """Moments E[x^j (1-x)^(K-j)] up to degree 2 nodes - 1, relative: all terms are positive."""
    x, complement, weight = DENSITIES[name].rule(nodes)
    a, b = PARAMETERS[name]
    assert np.all((x > 0) & (x < 1) & (weight > 0))
    np.testing.assert_allclose(x + complement, 1, atol=1e-15)
    for degree in (0, 1, nodes, 2 * nodes - 1):
        for j in {0, degree // 3, degree}:
            moment = np.exp(special.betaln(a + j, b + degree - j) - special.betaln(a, b))
            got = weight @ (x**j * complement ** (degree - j))
            assert got == pytest.approx(moment, rel=1e-11), (degree, j)


@pytest.mark.parametrize("a", [0.5, 1.0, 20.0])
def test_quantiles_invert_the_distribution(a):
    density, p = Beta(a=a, b=2.0), np.linspace(0.001, 0.999, 50)
    np.testing.assert_allclose(stats.beta.cdf(density.quantile(p), a, 2), p, atol=1e-12)
    np.testing.assert_array_equal(Beta().quantile(p), p)


def test_quantiles_of_a_function():
    p = np.linspace(0.01, 0.99, 50)
    got = DENSITIES["function"].quantile(p)
    np.testing.assert_allclose(got, stats.beta.ppf(p, 3, 2), atol=1e-4)
    assert np.all(np.diff(got) > 0)


def test_function_densities_need_no_scale_and_may_vanish():
    step = FunctionDensity(lambda x: 1000.0 * (x > 0.5), resolution=512)
    x, _, weight = step.rule(6)
    assert np.all(x > 0.5)
    # uniform on (1/2, 1), as well as 512 points can tell
    legendre, w = np.polynomial.legendre.leggauss(6)
    np.testing.assert_allclose(x, 0.75 + legendre / 4, atol=2e-3)
    np.testing.assert_allclose(weight, w / 2, atol=2e-3)


def test_rules_of_a_function_with_few_points():
    """No more nodes than points where the density is positive."""
    spike = FunctionDensity(lambda x: (abs(x - 0.3) < 0.02).astype(float), resolution=128)
    x, _, weight = spike.rule(40)
    assert len(x) < 10
    assert weight.sum() == pytest.approx(1)
    assert np.all(abs(x - 0.3) < 0.02)


def test_sharpness_of_a_function_is_that_of_its_beta():
    for a, b in ((1, 1), (3, 2), (20, 20), (2, 1)):
        function = FunctionDensity(lambda x, a=a, b=b: stats.beta.pdf(x, a, b), resolution=512)
        beta = Beta(a=float(a), b=float(b))
        assert function.sharpness == pytest.approx(beta.sharpness, abs=1e-6)


@pytest.mark.default_cases("*-0", "*-1", "*-15", "*-180")
@pytest.mark.parametrize("reports", [0, 1, 15, 180, 10_000])
@pytest.mark.parametrize("name", ["uniform", "sharp"])
def test_ladders_end_where_the_reports_fit(name, reports):
    ladder, density = axis(DENSITIES[name], reports), DENSITIES[name]
    sizes = np.diff(ladder.offsets)
    np.testing.assert_array_equal(sizes, RUNGS[: len(sizes)])
    np.testing.assert_array_equal(ladder.degrees, 2 * sizes - 1)
    np.testing.assert_allclose(ladder.resolutions, [max_sharpness(size) - 2 * density.sharpness for size in sizes])
    enough = [max(max_spread(size) - 2 * density.sharpness, 2 * size - 1) >= reports for size in sizes]
    assert enough[-1]
    more = axis(density, reports + 200)
    np.testing.assert_array_equal(more.rules[:, : ladder.offsets[-1]], ladder.rules)
    for i, size in enumerate(sizes):
        rule = ladder.rules[:, ladder.offsets[i] : ladder.offsets[i + 1]]
        np.testing.assert_array_equal(rule[:3], density.rule(size))
        np.testing.assert_array_equal(rule[3:], high_polynomials(rule[0], rule[2]))


@pytest.mark.parametrize("name", DENSITIES)
@pytest.mark.parametrize("size", [8, 13, 64])
def test_high_polynomials_are_orthonormal(name, size):
    """To each other, and to all of lower degree: of x^j (1-x)^(m-j) they see nothing."""
    x, complement, weight = DENSITIES[name].rule(size)
    last = high_polynomials(x, weight)
    np.testing.assert_allclose(last @ (weight[:, None] * last.T), np.eye(3), atol=1e-10)
    degree = int(size / np.sqrt(2)) - 2
    for j in {0, degree // 2, degree}:
        lower = x**j * complement ** (degree - j)
        np.testing.assert_allclose(last @ (weight * lower), 0, atol=1e-10)


def test_high_polynomials_of_the_uniform_density_are_legendres():
    x, _, weight = Beta().rule(20)
    for degree, found in zip((16, 15, 13), high_polynomials(x, weight), strict=True):
        expected = np.sqrt(2 * degree + 1) * special.eval_legendre(degree, 2 * x - 1)
        np.testing.assert_allclose(abs(found), abs(expected), atol=1e-10)


@pytest.mark.parametrize("nodes", [20, 48, 96, 160])
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_coefficients_tell_the_sharpness(nodes, share):
    """Of bells x^j (1-x)^(s-j), which the rule integrates to the tolerance as long as it resolves them."""
    x, complement, weight = Beta().rule(nodes)
    high = high_polynomials(x, weight)
    for s in (np.linspace(0.4, 1.2, 9) * max_sharpness(nodes)).astype(int):
        j = int(share * s)
        bell = np.exp(j * np.log(x) + (s - j) * np.log(complement) - special.betaln(j + 1, s - j + 1))
        c = high @ (weight * bell)
        found = -2 * nodes**2 / np.log((c[0] ** 2 + c[1] ** 2) ** 3 + c[2] ** 8)
        if s >= 2 * nodes:
            assert 0.9 * s < found < 1.5 * s
        if s <= max_sharpness(nodes):
            assert abs(weight @ bell - 1) < 20 * np.exp(TOLERANCE)


def test_one_rule_for_all_reports():
    rule = fixed_rule(Beta(), 180, 4)
    held = rule.shape[1] // 4
    assert rule.shape[1] == 4 * held
    assert max_spread(held) >= 180 > max_spread(RUNGS[RUNGS.index(held) - 1])
    assert rule[2].sum() == pytest.approx(1)


def test_point_axis_is_the_point_one():
    x, complement, weight = point_axis().rules[:3]
    assert np.all(x == 1)
    assert np.all(complement == 0)
    assert weight.sum() == 1


@pytest.mark.parametrize("a", [0.0, -1.0, np.nan, np.inf])
def test_bad_beta(a):
    with pytest.raises(InputError, match="Beta parameter b must be a number from"):
        Beta(b=a)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x - 0.5, "non-negative"),
        (lambda x: x * 0, "not zero everywhere"),
        (lambda x: x * np.nan, "finite"),
        (lambda x: np.float64(1), "one value for each point"),
    ],
)
def test_bad_functions(function, words):
    with pytest.raises(InputError, match=words):
        FunctionDensity(function, resolution=16)


@pytest.mark.parametrize("pools", [(1.0, -1.0), (0.0, 0.0), (1.0, np.nan), (np.inf, 1.0)])
def test_bad_pool_weights(pools):
    with pytest.raises(InputError, match="pool weights must"):
        Behavior(pools=pools)
