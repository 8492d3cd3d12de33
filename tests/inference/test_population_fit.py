"""Fitted populations: against slow integrals, at known truths, and the coverage of their intervals."""

import numpy as np
import pytest
from scipy import special, stats

from poolscope.inference.population_fit import (
    MarginalLikelihood,
    _masses,
    beta_parameters,
    cells,
    fit_counts,
    fit_reports,
)

K = 3


def counts_of(rng, users, events, interest, polarization, pools=None):
    """Counts of synthetic users, by the definition of the behavior."""
    gamma, rescaled = rng.beta(*interest, users), rng.beta(*polarization, users)
    delta = 1 / K + (1 - 1 / K) * rescaled
    preferred = rng.choice(K, users, p=pools)
    shares = np.empty((users, K + 1))
    shares[:, 0] = 1 - gamma
    shares[:, 1:] = (gamma * (1 - delta) / (K - 1))[:, None]
    shares[np.arange(users), preferred + 1] = gamma * delta
    return np.array([rng.multinomial(events, share) for share in shares])


def channel(epsilon):
    """Randomized response over the neutral pool and the pools, one object each."""
    matrix = np.full((K + 1, K + 1), 1.0) + np.diag(np.full(K + 1, np.exp(epsilon) - 1))
    return matrix / matrix.sum(axis=1, keepdims=True)


def reports_of(rng, counts, matrix):
    """Likelihoods of the reports of users with these counts, (reports, 1 + pools)."""
    found = []
    for row in counts:
        sent = np.concatenate([rng.choice(K + 1, count, p=matrix[z]) for z, count in enumerate(row)])
        found.append(matrix[:, sent].T)
    return np.concatenate(found)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (1, 12), (0.05, 0.4), (30, 70), (4, 0.2)])
def test_masses_are_those_of_the_beta_distribution(a, b):
    edges = cells(400)[1]
    found = _masses(edges, special.logit(a / (a + b)), np.log(a + b))
    assert found == pytest.approx(np.diff(stats.beta.cdf(edges, a, b)), abs=2e-4)
    assert found.sum() == pytest.approx(1)


def test_the_likelihood_is_the_double_integral():
    """One user's likelihood on the grid, beside an exact rule for interest and polarization."""
    rng = np.random.default_rng(3)
    matrix = channel(2.0)
    likelihood = reports_of(rng, np.array([[5, 4, 2, 1]]), matrix)
    a, b, c, d = 1.5, 3.0, 2.0, 2.0

    def product(g, u, i):
        delta = 1 / K + (1 - 1 / K) * u
        others = np.delete(likelihood[:, 1:], i, axis=1).mean(axis=1)
        return np.prod(g * delta * likelihood[:, i + 1] + g * (1 - delta) * others + (1 - g) * likelihood[:, 0])

    # Gauss-Jacobi rules integrate a polynomial against the two densities exactly
    rules = [special.roots_jacobi(10, second - 1, first - 1) for first, second in ((a, b), (c, d))]
    (x, v), (y, w) = (((1 + nodes) / 2, weights / weights.sum()) for nodes, weights in rules)
    cases = [
        (g, u, i, p * q / K) for g, p in zip(x, v, strict=True) for u, q in zip(y, w, strict=True) for i in range(K)
    ]
    exact = sum(weight * product(g, u, i) for g, u, i, weight in cases)
    grid = table_of(likelihood)
    parameters = np.array([special.logit(a / (a + b)), np.log(a + b), special.logit(c / (c + d)), np.log(c + d)])
    assert grid.value(parameters, np.full(K, 1 / K))[0] == pytest.approx(np.log(exact), abs=2e-3)


def table_of(likelihood):
    """The table that a fit of one user's reports is made of."""
    made = []
    original = MarginalLikelihood.maximum
    try:
        MarginalLikelihood.maximum = lambda self: made.append(self) or original(self)
        fit_reports(likelihood, np.array([len(likelihood)]))
    finally:
        MarginalLikelihood.maximum = original
    return made[0]


def test_the_gradient_is_that_of_the_likelihood():
    rng = np.random.default_rng(4)
    grid = table_of(reports_of(rng, np.array([[6, 3, 1, 0]]), channel(2.0)))
    at, pools = np.array([-0.5, 1.0, 0.3, 0.7]), np.array([0.5, 0.3, 0.2])
    for i in range(4):
        step = 1e-4 * np.eye(4)[i]
        numeric = (grid.value(at + step, pools)[0] - grid.value(at - step, pools)[0]) / 2e-4
        assert grid.value(at, pools)[1][i] == pytest.approx(numeric, abs=1e-5)


def test_counts_and_noiseless_reports_agree():
    """Reports without noise are the counts: both fits find the same distributions, on other grids."""
    counts = counts_of(np.random.default_rng(5), 30, 20, (2, 5), (3, 2))
    likelihood = np.concatenate([np.repeat(np.eye(K + 1), row, axis=0) for row in counts])
    one, other = fit_counts(counts), fit_reports(likelihood, counts.sum(axis=1))
    for name in ("interest", "polarization"):
        assert getattr(other, name).mean == pytest.approx(getattr(one, name).mean, abs=0.005)
    assert other.pools == pytest.approx(one.pools, abs=0.01)


def test_a_large_study_finds_the_truth():
    pools = np.array([0.6, 0.3, 0.1])
    found = fit_counts(counts_of(np.random.default_rng(6), 4000, 50, (1, 12), (4, 2), pools))
    assert found.interest.mean[0] == pytest.approx(1 / 13, rel=0.04)
    assert found.interest.concentration[0] == pytest.approx(13, rel=0.1)
    assert found.polarization.mean[0] == pytest.approx(4 / 6, abs=0.03)
    assert found.pools == pytest.approx(pools, abs=0.03)
    assert found.interest.mean[1] < 1 / 13 < found.interest.mean[2]


def test_counts_that_say_nothing_of_polarization():
    found = fit_counts(np.array([[7, 0, 0, 0], [9, 0, 0, 0]]))
    assert found.polarization is None
    # with all or nothing, two users with nothing have the likelihood (1 - m)^2, which falls by exp(-1.92)
    assert found.interest.mean[1] < 1e-3
    assert found.interest.mean[2] == pytest.approx(1 - np.exp(-1.92 / 2), abs=0.02)
    assert beta_parameters(0.25, 4.0) == (1.0, 3.0)


#: True interest and polarization of the simulated studies.
TRUTH = (2.0, 6.0), (3.0, 2.0)


def coverage(fits):
    """Intervals that contain the truth, by parameter."""
    inside = dict.fromkeys(("interest.mean", "interest.concentration", "polarization.mean"), 0)
    true = {name: (a / (a + b), a + b) for name, (a, b) in zip(("interest", "polarization"), TRUTH, strict=True)}
    for fit in fits:
        for name in inside:
            axis, what = name.split(".")
            _, low, high = getattr(getattr(fit, axis), what)
            inside[name] += low <= true[axis][what == "concentration"] <= high
    return inside


def assert_covers(inside, studies):
    """The number of covering intervals is one of a binomial distribution with 95%, each end at 0.1%."""
    low, high = stats.binom.ppf([0.001, 0.999], studies, 0.95)
    assert all(low <= count <= high for count in inside.values()), inside


@pytest.mark.slow
@pytest.mark.statistical
def test_the_intervals_of_100_studies_of_counts_cover_the_truth():
    studies = 100
    fits = [fit_counts(counts_of(np.random.default_rng(seed), 200, 30, *TRUTH)) for seed in range(studies)]
    assert_covers(coverage(fits), studies)
    # the negative control: intervals a third as wide do not
    narrow = sum(abs(fit.interest.mean[0] - 0.25) <= (fit.interest.mean[2] - fit.interest.mean[1]) / 6 for fit in fits)
    assert narrow < stats.binom.ppf(0.001, studies, 0.95)


@pytest.mark.slow
@pytest.mark.statistical
def test_the_intervals_of_100_studies_of_reports_cover_the_truth():
    matrix, fits = channel(2.5), []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        counts = counts_of(rng, 100, 30, *TRUTH)
        fits.append(fit_reports(reports_of(rng, counts, matrix), counts.sum(axis=1)))
    assert_covers(coverage(fits), 100)
