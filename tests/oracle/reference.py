"""A slow and independent answer to compare the package with.

Everything here is written from the paper's equations alone, in `mpmath` at `DIGITS` digits, with
no regard to speed; only `plain_numpy_attack` and `perturbed` are in double precision. Names in parentheses, as in
eq. (score_estimate), are the paper's own labels.

Conventions: objects, pools, hash functions and coordinates count from 0; `pool_of[z]` is the pool
of object `z`, or -1 if it is neutral; `hash_table[j][z]` is h_j(z), in 0 to m - 1; `epsilon` may be
infinite; `likelihood[t][z]` is Pr[report t | z].
"""

from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from math import comb, factorial

import numpy as np
from mpmath import inf, mp, mpf

DIGITS = 60


@mp.workdps(DIGITS)
def representation(iota, gamma, delta, popularity, pool_of):
    """User representation, eq. (phi_representation).

    Parameters
    ----------
    iota : int
        Preferred pool.
    gamma, delta : float or mpf
        Relevant interest and polarization.
    popularity : sequence of float
        Non-negative popularity of every object; it need not sum to one.
    pool_of : sequence of int
        Pool of every object, -1 for neutral. The pools are 0 to max(pool_of): at least two.

    Returns
    -------
    list of mpf
        Probability of every object. Without neutral popularity the mass 1 - gamma goes nowhere.
    """
    k = max(int(pool) for pool in pool_of) + 1
    gamma, delta = mpf(gamma), mpf(delta)
    mass = {pool: mpf(0) for pool in range(-1, k)}
    for share, pool in zip(popularity, pool_of, strict=True):
        mass[int(pool)] += mpf(share)
    if k < 2 or any(mass[pool] <= 0 for pool in range(k)):
        raise ValueError("eq. (phi_representation) needs two pools, each of positive popularity")
    probabilities = []
    for share, pool in zip(popularity, pool_of, strict=True):
        if pool == iota:
            weight = gamma * delta
        elif pool >= 0:
            weight = gamma * (1 - delta) / (k - 1)
        else:
            weight = 1 - gamma
        total = mass[int(pool)]
        probabilities.append(weight * mpf(share) / total if total > 0 else mpf(0))
    return probabilities


@mp.workdps(DIGITS)
def cms_probability(bits, j, z, hash_table, epsilon):
    """Pr[(bits, j) | z] under CMS: eq. (inverted_CMS) times 1/|H|."""
    m = len(bits)
    one_hot = [1 if i == hash_table[j][z] else 0 for i in range(m)]
    distance = sum(abs(one_hot[i] - int(bits[i])) for i in range(m))
    xi = 1 / (1 + mp.exp(mpf(epsilon) / 2))
    return xi**distance * (1 - xi) ** (m - distance) / len(hash_table)


def _hadamard(s, row, column):
    """Entry of H_s = [[H_{s-1}, H_{s-1}], [H_{s-1}, -H_{s-1}]], H_0 = 1 (appendix HCMS)."""
    if s == 0:
        return 1
    half = 2 ** (s - 1)
    sign = -1 if row >= half and column >= half else 1
    return sign * _hadamard(s - 1, row % half, column % half)


@mp.workdps(DIGITS)
def hcms_probability(hash, coordinate, bit, z, hash_table, m, epsilon):
    """Pr[(hash, coordinate, bit) | z] under HCMS (appendix HCMS), with the factor 1/(m |H|).

    `coordinate` is the sampled entry of w = H_s v; `bit` is 1 or -1; m is a power of two.
    """
    s = int(m).bit_length() - 1
    if 2**s != m:
        raise ValueError("m must be a power of two")
    xi = 1 / (1 + mp.exp(mpf(epsilon)))
    agrees = _hadamard(s, int(coordinate), int(hash_table[hash][z])) == bit
    return (1 - xi if agrees else xi) / (int(m) * len(hash_table))


def identity_probability(y, z):
    """Pr[y | z] without a mechanism: the non-private scenario."""
    return mpf(1) if y == z else mpf(0)


def enumerate_cms_reports(m, hashes):
    """Yield all reports `(bits, j)` of CMS."""
    yield from ((bits, j) for j in range(hashes) for bits in product((0, 1), repeat=m))


def enumerate_hcms_reports(m, hashes):
    """Yield all reports `(hash, coordinate, bit)` of HCMS."""
    yield from product(range(hashes), range(m), (1, -1))


def _factors(likelihood, popularity, pool_of, k, pool):
    """Pr[report | preferred], Pr[report | alternative], Pr[report | neutral] of every report.

    The sum over z in eq. (score_estimate) is gamma delta A + gamma (1 - delta) B + (1 - gamma) C;
    A, B and C are its values at (gamma, delta) = (1, 1), (1, 0) and (0, 0).
    """
    if k != max(int(p) for p in pool_of) + 1:
        raise ValueError("k does not match pool_of")
    corners = [representation(pool, g, d, popularity, pool_of) for g, d in ((1, 1), (1, 0), (0, 0))]
    return tuple(
        tuple(mp.fsum(mpf(a) * b for a, b in zip(row, corner, strict=True)) for corner in corners) for row in likelihood
    )


@lru_cache(maxsize=256)
def _coefficients(factors):
    """Expand the product over the reports of eq. (score_estimate).

    Returns `c` with product = sum_{s, r} c[s][r] gamma^s (1-gamma)^(n-s) delta^r (1-delta)^(s-r):
    s reports are of relevant objects, r of the preferred pool. No term is negative or cancels.
    """
    c = [[mpf(1)]]
    for preferred, alternative, neutral in factors:
        new = [[mpf(0)] * (s + 1) for s in range(len(c) + 1)]
        for s, row in enumerate(c):
            for r, value in enumerate(row):
                new[s][r] += neutral * value
                new[s + 1][r] += alternative * value
                new[s + 1][r + 1] += preferred * value
        c = new
    return c


@cache
def _gamma_integral(a, b, density):
    """Integral over (0, 1] of gamma^a (1-gamma)^b times the density (None: 1, exactly)."""
    if density is None:
        return mpf(factorial(a) * factorial(b)) / factorial(a + b + 1)
    return mp.quad(lambda x: x**a * (1 - x) ** b * density(x), [0, 1])


@cache
def _delta_integral(a, b, k, density):
    """Integral over (1/k, 1] of delta^a (1-delta)^b times the density (None: 1, exactly)."""
    if density is None:
        value = sum((-1) ** i * comb(b, i) * (1 - Fraction(1, k) ** (a + i + 1)) / (a + i + 1) for i in range(b + 1))
        return mpf(value.numerator) / value.denominator
    return mp.quad(lambda x: x**a * (1 - x) ** b * density(x), [mpf(1) / k, 1])


def _integral(factors, k, prior_gamma, prior_delta, power_gamma=0, power_delta=0):
    """Integral of gamma^power_gamma delta^power_delta times the product over the reports."""
    return mp.fsum(
        value
        * _gamma_integral(s + power_gamma, len(factors) - s, prior_gamma)
        * _delta_integral(r + power_delta, s - r, k, prior_delta)
        for s, row in enumerate(_coefficients(factors))
        for r, value in enumerate(row)
        if value
    )


def _pools(pool_prior, k):
    """Every pool with its factor."""
    return zip(range(k), [1] * k if pool_prior is None else map(mpf, pool_prior), strict=True)


def _normalise(scores):
    """The scores over their sum, as floats."""
    if not any(scores):
        raise ValueError("the reports are impossible under the model")
    return [float(score / mp.fsum(scores)) for score in scores]


@mp.workdps(DIGITS)
def log_scores(likelihood, popularity, pool_of, k, *, prior_gamma=None, prior_delta=None, pool_prior=None):
    """Natural logarithms of the k scores, the integrals of eq. (score_estimate).

    Parameters
    ----------
    likelihood : (n, universe) sequence of sequences of float or mpf
        Pr[report t | z]; n may be zero.
    popularity, pool_of, k
        What the adversary believes, as in `representation`, and the number of pools.
    prior_gamma, prior_delta : callable, optional
        Densities on (0, 1] and (1/k, 1], functions of an mpf. Default: 1 on both, as the equation
        is printed, so that no reports give log(1 - 1/k). With a density the basis is integrated by
        `mpmath.quad`; a density of delta takes (n+1)(n+2)/2 integrals, so keep n small.
    pool_prior : sequence of float, optional
        A factor for every pool, used as it is given; default: 1.

    Returns
    -------
    list of mpf
        -inf for a pool under which the reports are impossible.
    """
    scores = []
    for pool, weight in _pools(pool_prior, k):
        factors = _factors(likelihood, popularity, pool_of, k, pool)
        score = weight * _integral(factors, k, prior_gamma, prior_delta)
        scores.append(mp.log(score) if score else -inf)
    return scores


@mp.workdps(DIGITS)
def posterior(likelihood, popularity, pool_of, k, **priors):
    """Posterior of the preferred pool, eq. (posterior_prob), as k floats.

    Arguments as in `log_scores`. Without reports it is the pool prior (default: uniform).
    """
    return _normalise([mp.exp(x) for x in log_scores(likelihood, popularity, pool_of, k, **priors)])


@mp.workdps(DIGITS)
def moments(likelihood, popularity, pool_of, k, *, prior_gamma=None, prior_delta=None, pool_prior=None):
    """Posterior means (gamma, delta), averaged over the pools: arguments as in `log_scores`."""
    total = gamma = delta = mpf(0)
    for pool, weight in _pools(pool_prior, k):
        factors = _factors(likelihood, popularity, pool_of, k, pool)
        total += weight * _integral(factors, k, prior_gamma, prior_delta)
        gamma += weight * _integral(factors, k, prior_gamma, prior_delta, power_gamma=1)
        delta += weight * _integral(factors, k, prior_gamma, prior_delta, power_delta=1)
    if not total:
        raise ValueError("the reports are impossible under the model")
    return float(gamma / total), float(delta / total)


@mp.workdps(25)
def posterior_by_quadrature(likelihood, popularity, pool_of, k, *, prior_gamma=None, prior_delta=None, pool_prior=None):
    """Posterior with the double integral of eq. (score_estimate) taken literally, for small n.

    Nested Gauss-Legendre quadrature of the product of sums over the universe, with the density of
    the priors at every node: no expansion, nothing shared with `posterior` but the representation.
    The error that ends `mpmath.quad` is absolute: hence the rows are scaled to a maximum of one.
    """
    rows = [[mpf(value) / (max(row) or 1) for value in row] for row in likelihood]

    def integrand(pool, gamma, delta):
        behavior = representation(pool, gamma, delta, popularity, pool_of)
        value = prior_gamma(gamma) if prior_gamma else mpf(1)
        value *= prior_delta(delta) if prior_delta else mpf(1)
        for row in rows:
            value *= mp.fsum(a * b for a, b in zip(row, behavior, strict=True))
        return value

    scores = []
    box = [0, 1], [mpf(1) / k, 1]
    for pool, weight in _pools(pool_prior, k):
        score = mp.quad(lambda g, d, i=pool: integrand(i, g, d), *box, method="gauss-legendre")
        scores.append(weight * score)
    return _normalise(scores)


def plain_numpy_attack(bits, j, hash_table, popularity, pool_of, k, epsilon, nodes=64):
    """Attack one user of CMS in plain vectorized NumPy: the yardstick of the benchmarks.

    Eq. (score_estimate) with `nodes` x `nodes` Gauss-Legendre nodes in logarithms. The likelihood
    is that of eq. (inverted_CMS) divided by its value for an object whose bit is set: an unset bit
    adds two to the distance, which is a factor (xi / (1-xi))^2 = e^-epsilon. Takes arrays: bits
    (n, m), j (n), hash_table (|H|, universe); returns the posterior (k) after all n reports.
    """
    bits, part = np.asarray(bits, dtype=bool), np.asarray(pool_of) + 1
    popularity = np.asarray(popularity, dtype=float)
    mass = np.bincount(part, weights=popularity, minlength=k + 1)
    share = popularity / np.where(mass > 0, mass, 1.0)[part]
    x, w = np.polynomial.legendre.leggauss(nodes)
    gamma = ((x + 1) / 2)[:, None]
    delta = (1 / k + (x + 1) / 2 * (1 - 1 / k))[None, :]
    preferred, alternative, neutral = gamma * delta, gamma * (1 - delta) / (k - 1), 1 - gamma
    log_product = np.zeros((k, nodes, nodes))
    with np.errstate(divide="ignore"):
        for t, function in enumerate(j):
            likelihood = np.where(bits[t, hash_table[function]], 1.0, np.exp(-epsilon))
            pools = np.bincount(part, weights=share * likelihood, minlength=k + 1)
            own = pools[1:, None, None]
            others = pools[1:].sum() - own
            log_product += np.log(preferred * own + alternative * others + neutral * pools[0])
    scores = np.einsum("kgd,g,d->k", np.exp(log_product - log_product.max()), w, w)
    return scores / scores.sum()


def perturbed(popularity, sigma, rng):
    """One user's own popularity (appendix robustness): noise on every object, shifted so that the least is zero."""
    noisy = popularity + sigma * rng.standard_normal(len(popularity))
    shifted = noisy + abs(noisy.min())
    return shifted / shifted.sum()
