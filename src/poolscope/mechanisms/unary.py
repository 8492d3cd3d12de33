"""Unary encodings: a report has a bit for each object, and a set bit supports its object.

Symmetric (SUE) and optimized (OUE) unary encoding flip the bits of the one-hot vector. Thresholded histogram encoding
(THE) sends the positions at which a noisy one-hot vector exceeds a threshold. SpotMe sends the true bit or a random bit
for each location. Bit vectors are stored as bytes, and computed on as 64-bit words.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.core.errors import InputError
from poolscope.kernels import unary as kernels
from poolscope.mechanisms.protocols import (
    PoolWeights,
    ReportColumn,
    Reports,
    check_epsilon,
    check_finite_epsilon,
    check_objects,
    derived_field,
    flip_probability,
    set_frozen,
)
from poolscope.mechanisms.pure import BasicPureMechanism, draw_object_counts
from poolscope.mechanisms.sketch import packed_layout


def words_of(m: int) -> int:
    """Return the number of 64-bit words that hold m bits."""
    return -(-m // 64)


def as_fixed_point(probability: float) -> np.uint64:
    """Return a probability below 1 as a 64-bit fixed-point fraction."""
    return np.uint64(int(probability * 2.0**64))


def as_bytes(words: NDArray[np.uint64], m: int) -> NDArray[np.uint8]:
    """Return (reports, ceil(m / 8)) bytes: bit i is bit i mod 8 of byte i div 8, least significant first."""
    # no copy on little-endian machines, as there are many reports
    return np.ascontiguousarray(words.astype("<u8", copy=False).view(np.uint8)[:, : -(-m // 8)])


def check_bits(bits: NDArray[np.uint8], m: int) -> None:
    """Check that bits are (reports, ceil(m / 8)) bytes without set padding bits."""
    size = -(-m // 8)
    if bits.ndim != 2 or bits.shape[1] != size:
        raise InputError(f"bits must be {size} bytes (m = {m})", value=bits.shape[1:])
    if m % 8 and np.any(bits[:, -1] >> (m % 8)):
        raise InputError(f"no bit beyond m = {m} may be set")


def log_bit_measure(bits: NDArray[np.uint8], m: int, own: float, other: float) -> Floats:
    """Return (reports,) log Pr[bits | an object whose bit is set].

    The object's own bit is 1 with probability `own`, every other bit with probability `other`. The formula also
    defines the base measure of a report without a set bit, which supports no object.
    """
    check_bits(bits, m)
    ones = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    if not other:
        return np.where(ones == 1, math.log(own), -np.inf)
    found: Floats = math.log(own) + xlogy(ones - 1, other) + xlog1py(m - ones, -other)
    return found


def as_words(bits: NDArray[np.uint8], m: int) -> NDArray[np.uint64]:
    """Return (reports, words) from bytes; checks the shape."""
    check_bits(bits, m)
    size = bits.shape[1]
    if size % 8 == 0:
        return np.ascontiguousarray(bits).view("<u8").astype(np.uint64, copy=False)
    padded = np.zeros((len(bits), 8 * words_of(m)), dtype=np.uint8)
    padded[:, :size] = bits
    return padded.view("<u8").astype(np.uint64, copy=False)


Words = NDArray[np.uint64]

#: Words in one chunk of reports, which fits into the processor's cache.
WORDS_PER_CHUNK = 1 << 15


@dataclass(frozen=True, kw_only=True)
class ObjectBits(BasicPureMechanism):
    """Reports with one bit per object; a subclass defines `draw`, p* and q*."""

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"bits": ReportColumn("bits", self.universe)}

    @abstractmethod
    def draw(self, objects: Objects, keys: Keys, out: Words) -> None:
        """Fill out (reports, words) with the reports of the objects."""

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        words = np.empty((len(objects), words_of(self.universe)), dtype=np.uint64)
        self.draw(objects, keys, words)
        return {"bits": as_bytes(words, self.universe)}

    @property
    def support_prob_no_collision(self) -> float:
        return self.q_star

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        return np.unpackbits(reports["bits"], axis=1, bitorder="little", count=self.universe).astype(bool)

    def mass(self, reports: Reports, pool_weights: PoolWeights) -> Floats:
        table_rows, bits = packed_layout(pool_weights).rows(), reports["bits"]
        out = np.empty((len(bits), pool_weights.width))
        for part in self._chunks(len(bits)):
            positions = np.arange(part.start, part.stop)
            kernels.support_mass(as_words(bits[part], self.universe), table_rows, positions, out)
        return out

    def sent_masses(self, objects: Objects, keys: Keys, pool_weights: PoolWeights, rows: Integers, out: Floats) -> None:
        check_objects(objects, self.universe)
        table_rows = packed_layout(pool_weights).rows()
        for part in self._chunks(len(objects)):
            words = np.empty((len(rows[part]), words_of(self.universe)), dtype=np.uint64)
            self.draw(objects[part], keys[part], words)
            kernels.support_mass(words, table_rows, rows[part], out)

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        bits, out = reports["bits"], np.zeros(self.universe, dtype=np.int64)
        check_bits(bits, self.universe)
        kernels.count_bits(bits, kernels.SPREAD, np.empty(bits.shape[1], dtype=np.uint64), out)
        return out

    def _chunks(self, count: int) -> Iterator[slice]:
        at_once = max(1, WORDS_PER_CHUNK // words_of(self.universe))
        return (slice(start, min(start + at_once, count)) for start in range(0, count, at_once))


@dataclass(frozen=True, kw_only=True)
class Unary(ObjectBits):
    r"""The one-hot vector of the object with independent noise on every bit.

    The object's bit is reported as 1 with probability p*, every other bit with probability q*; a subclass defines both
    (`one_probabilities`). The likelihood ratio of an object whose bit is set to one whose bit is not is

    .. math:: \frac{p^* (1 - q^*)}{q^* (1 - p^*)}
    """

    @property
    @abstractmethod
    def one_probabilities(self) -> tuple[float, float]:
        """p* and q*."""

    @property
    def p_star(self) -> float:
        return self.one_probabilities[0]

    @property
    def q_star(self) -> float:
        return self.one_probabilities[1]

    def draw(self, objects: Objects, keys: Keys, out: Words) -> None:
        threshold_0_to_1, threshold_1_to_0 = as_fixed_point(self.q_star), as_fixed_point(1.0 - self.p_star)
        kernels.flip_bits(objects, keys, self.universe, threshold_0_to_1, threshold_1_to_0, out)

    def log_base_measure(self, reports: Reports) -> Floats:
        return log_bit_measure(np.asarray(reports["bits"]), self.universe, self.p_star, self.q_star)

    def simulate_counts(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> NDArray[np.int64]:
        """Draw from the closed form: Binomial(own, p*) + Binomial(others, q*) for each object, given its true count."""
        rng, own = draw_object_counts(popularity, count, key)
        return rng.binomial(own, self.p_star) + rng.binomial(count - own, self.q_star)


def symmetric(epsilon: float) -> tuple[float, float]:
    """Return p and q of symmetric bit flips."""
    flipped = flip_probability(epsilon / 2.0)
    return 1.0 - flipped, flipped


def optimized(epsilon: float) -> tuple[float, float]:
    """Return p and q that minimize the variance of a rare object's count."""
    return 0.5, flip_probability(epsilon)


@dataclass(frozen=True, kw_only=True)
class SUE(Unary):
    r"""Basic one-time RAPPOR, or symmetric unary encoding.

    A report of z is v, the one-hot vector of z in {0,1}^d with each bit flipped with probability xi = 1 / (1 +
    e^(epsilon/2)). It supports the objects with v[z] = 1: two one-hot vectors differ in two bits, so the likelihood
    ratio is ((1-xi)/xi)^2 = e^epsilon. It is Count Mean Sketch without hashing (`cms-no-hash`), without its column
    for the hash function.

    .. math:: p^* = 1 - \xi, \qquad q^* = \xi, \qquad
              \mathrm{Var}_0 = N \frac{e^{\epsilon/2}}{(e^{\epsilon/2} - 1)^2}

    with Var_0 the variance of the estimated count of an object that nobody has.

    References
    ----------
    U. Erlingsson, V. Pihur, A. Korolova. RAPPOR: randomized aggregatable privacy-preserving ordinal response. CCS 2014.

    Examples
    --------
    >>> sue = ps.mechanisms.SUE(universe=30, epsilon=2.0)
    >>> round(sue.p_star, 3), round(sue.q_star, 3)
    (0.731, 0.269)
    """

    @property
    def one_probabilities(self) -> tuple[float, float]:
        return symmetric(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class OUE(Unary):
    r"""Optimized unary encoding.

    A report of z is v in {0,1}^d: v[z] is one with probability 1/2, every other bit with probability 1 / (e^epsilon +
    1), all independent. It supports the objects with v[z] = 1; the odds of the two bits give the likelihood ratio
    p*(1-q*) / (q*(1-p*)) = e^epsilon. Of all p* and q* with these odds, p* = 1/2 makes the variance of the count of a
    rare object, N q*(1-q*) / (p*-q*)^2, the smallest.

    .. math:: p^* = \frac12, \qquad q^* = \frac{1}{e^\epsilon + 1}, \qquad
              \mathrm{Var}_0 = N \frac{4 e^\epsilon}{(e^\epsilon - 1)^2}

    As ε grows, half of the reports stay empty, so that there is no noiseless limit: ε must be finite.

    References
    ----------
    T. Wang, J. Blocki, N. Li, S. Jha. Locally differentially private protocols for frequency estimation. USENIX
    Security 2017.

    Examples
    --------
    >>> oue = ps.mechanisms.OUE(universe=30, epsilon=1.0)
    >>> oue.p_star, round(oue.q_star, 3)
    (0.5, 0.269)
    """

    def __post_init__(self) -> None:
        check_finite_epsilon(self.epsilon)

    @property
    def one_probabilities(self) -> tuple[float, float]:
        return optimized(self.epsilon)


#: Interval of the optimal threshold: at 1/2 both errors of a bit are equal, above 1 the true bit is mostly lost.
MIN_THRESHOLD, MAX_THRESHOLD = 0.5, 1.0


@dataclass(frozen=True, kw_only=True)
class THE(Unary):
    r"""Thresholded histogram encoding.

    To each entry of the one-hot vector of z in {0,1}^d Laplace noise of scale 2/epsilon is added, which alone is
    ε-private, as two one-hot vectors differ by two in all. The report is the set of positions above the threshold
    theta in [1/2, 1]; as bits, they are independent with

    .. math:: p^* = 1 - \tfrac12 e^{\epsilon(\theta - 1)/2}, \qquad q^* = \tfrac12 e^{-\epsilon\theta/2}

    It supports the objects whose position is in the set. Thresholding discards information: the likelihood ratio
    p*(1-q*) / (q*(1-p*)) is below e^epsilon, and the attack uses this actual ratio (`ratio`).

    The default threshold minimizes the variance of the count of a rare object, N q*(1-q*) / (p*-q*)^2, numerically. As
    ε grows it approaches 1, and p* approaches 2/3, not 1: ε must be finite.

    References
    ----------
    T. Wang, J. Blocki, N. Li, S. Jha. Locally differentially private protocols for frequency estimation. USENIX
    Security 2017.

    Examples
    --------
    >>> round(ps.mechanisms.THE(universe=30, epsilon=2.0).threshold, 3)
    0.71
    """

    threshold: float = derived_field()

    def __post_init__(self) -> None:
        check_finite_epsilon(self.epsilon)
        if self.threshold is None:
            set_frozen(self, threshold=best_threshold(self.epsilon))
        if not MIN_THRESHOLD <= self.threshold <= MAX_THRESHOLD:
            raise InputError(f"must be {MIN_THRESHOLD:g} to {MAX_THRESHOLD:g}", value=self.threshold, place="threshold")

    @property
    def one_probabilities(self) -> tuple[float, float]:
        dropped = 0.5 * math.exp(self.epsilon * (self.threshold - 1.0) / 2.0)
        return 1.0 - dropped, 0.5 * math.exp(-self.epsilon * self.threshold / 2.0)

    @property
    def ratio(self) -> float:
        """Likelihood ratio of an object in the support to one outside; at most e^epsilon."""
        p, q = self.one_probabilities
        return p * (1.0 - q) / (q * (1.0 - p))

    @property
    def likelihood_offset(self) -> float:
        return 1.0 / self.ratio

    @property
    def likelihood_scale(self) -> float:
        return 1.0 - self.likelihood_offset


def log_variance(threshold: float, epsilon: float) -> float:
    """Return log(q*(1-q*) / (p*-q*)^2), the log-variance of a rare object's count per report."""
    log_q = -epsilon * threshold / 2.0 - math.log(2.0)
    gap = 1.0 - 0.5 * math.exp(epsilon * (threshold - 1.0) / 2.0) - math.exp(log_q)
    return log_q + math.log1p(-math.exp(log_q)) - 2.0 * math.log(gap)


def best_threshold(epsilon: float) -> float:
    """Return the threshold that minimizes the variance, by golden-section search.

    Not `scipy.optimize`: its result differs in the last bits, and with it every report of `the`.
    """
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    low, high = MIN_THRESHOLD, MAX_THRESHOLD
    for _ in range(80):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if log_variance(left, epsilon) < log_variance(right, epsilon):
            high = right
        else:
            low = left
    return float(np.clip((low + high) / 2.0, MIN_THRESHOLD, MAX_THRESHOLD))


@dataclass(frozen=True, kw_only=True)
class SpotMe(Unary):
    r"""Independent randomized response for each location.

    A report of z has a bit for each location. With probability 1 - lambda a bit is true, 1 for z and 0 for the others.
    With probability lambda (`coin`) it is random, 1 with probability y (`yes`). Hence

    .. math:: p^* = 1 - \lambda (1 - y), \qquad q^* = \lambda y, \qquad
              e^\epsilon = \frac{p^* (1 - q^*)}{q^* (1 - p^*)}

    It supports the locations with a one. For a given ε, the odds are a quadratic equation for lambda,
    (e^epsilon - 1) y (1-y) lambda^2 + lambda - 1 = 0, with the root

    .. math:: \lambda = \frac{2}{1 + \sqrt{1 + 4 (e^\epsilon - 1) y (1-y)}}

    Give either ε or lambda. The default y = 1/2 is symmetric unary encoding (`sue`); a smaller y makes reports
    shorter.

    In the published mechanism a random bit is always 1 (y = 1). The true location is then always reported, and every
    location that is not reported is ruled out: p* = 1, q* = lambda, and ε is infinite, whatever lambda is.
    ``SpotMe(universe=..., coin=0.5, yes=1)`` is that mechanism. A finite ε requires y < 1.

    References
    ----------
    D. Quercia, I. Leontiadis, L. McNamara, C. Mascolo, J. Crowcroft. SpotME if you can: randomized responses for
    location obfuscation on mobile phones. ICDCS 2011, 363-372.

    Examples
    --------
    >>> round(ps.mechanisms.SpotMe(universe=30, epsilon=2.0).epsilon, 3)
    2.0
    """

    epsilon: float = derived_field()
    coin: float = derived_field()
    yes: float = 0.5

    def __post_init__(self) -> None:
        coin_given = self.coin is not None
        if not coin_given:
            set_frozen(self, coin=coin_for(self.epsilon, self.yes))
        if not 0.0 <= self.coin < 1.0:
            raise InputError("must be from 0 to below 1", value=self.coin, place="coin")
        if not 0.0 < self.yes <= 1.0:
            raise InputError("must be above 0, and at most 1", value=self.yes, place="yes")
        dropped = self.coin * (1.0 - self.yes)
        odds = dropped * self.q_star
        spent = math.log((1.0 - dropped) * (1.0 - self.q_star) / odds) if odds else math.inf
        if coin_given and self.epsilon not in (None, spent):
            raise InputError("cannot be given with epsilon", place="coin", remedy="give one of the two")
        set_frozen(self, epsilon=spent)

    @property
    def one_probabilities(self) -> tuple[float, float]:
        return 1.0 - self.coin * (1.0 - self.yes), self.coin * self.yes


def coin_for(epsilon: float | None, yes: float) -> float:
    """Return lambda, the probability of a random bit, for this ε."""
    if epsilon is None:
        raise InputError("is missing", place="epsilon", remedy="or give coin")
    check_epsilon(epsilon)
    if not 0.0 < yes < 1.0:
        rule = "must be between 0 and 1, both excluded, where epsilon is given"
        raise InputError(rule, value=yes, place="yes", remedy="give coin instead of epsilon")
    far = math.exp(-epsilon)
    root = math.sqrt(far - 4.0 * math.expm1(-epsilon) * yes * (1.0 - yes))
    return 2.0 * math.sqrt(far) / (math.sqrt(far) + root)
