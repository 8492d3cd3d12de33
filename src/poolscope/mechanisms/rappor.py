"""RAPPOR: a Bloom filter with permanent and instantaneous randomized response; each cohort has its hash functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from poolscope.core.arrays import Floats, Keys, Map, Objects
from poolscope.core.errors import InputError
from poolscope.kernels import bloom as kernels
from poolscope.kernels.grouping import positions_buffer
from poolscope.mechanisms.hashing import BUCKETS_PER_CHUNK, MAX_COMPARISONS, Buckets, HashFamily
from poolscope.mechanisms.protocols import (
    PoolWeights,
    ReportColumn,
    Reports,
    SupportProbabilities,
    check_epsilon,
    check_objects,
    derived_field,
    flip_probability,
    set_frozen,
)
from poolscope.mechanisms.pure import Likelihood, SupportOracle, simulate_reports, sum_arrays
from poolscope.mechanisms.sketch import CellMoments, HashedMechanism
from poolscope.mechanisms.unary import as_bytes, as_fixed_point, as_words, words_of


@dataclass(frozen=True, kw_only=True)
class BloomFilters:
    """The Bloom filter bits of every object in each cohort; cohort c uses functions c * hashes to (c + 1) * hashes - 1.

    As a family it has one function per cohort, with buckets (cohorts, hashes, universe). Each bit of an object is
    listed once; m marks a hash value that repeats an earlier one.
    """

    functions: HashFamily
    hashes: int

    def __post_init__(self) -> None:
        if self.hashes < 1 or self.functions.size % self.hashes:
            rule = f"must divide the {self.functions.size} hash functions into cohorts"
            raise InputError(rule, value=self.hashes, place="hashes")

    @property
    def size(self) -> int:
        return self.functions.size // self.hashes

    @property
    def m(self) -> int:
        return self.functions.m

    @property
    def universe(self) -> int:
        return self.functions.universe

    def buckets(self, functions: NDArray[np.int64]) -> Buckets:
        rows = (functions[:, None] * self.hashes + np.arange(self.hashes)).ravel()
        found = self.functions.buckets(rows).reshape(len(functions), self.hashes, self.universe)
        for i in range(self.hashes - 1, 0, -1):
            repeated = (found[:, :i] == found[:, i : i + 1]).any(axis=1)
            found[:, i][repeated] = self.m
        return found

    def distinct(self) -> list[float]:
        """Return the distribution of the number of distinct values among h uniform draws from m."""
        shares = [1.0]
        for _ in range(self.hashes):
            old, new = [*shares, 0.0], [0.0, *shares]
            shares = [
                a * d / self.m + b * (self.m - d + 1) / self.m for d, (a, b) in enumerate(zip(old, new, strict=True))
            ]
        return shares

    def other_support_prob(self, d: int, shared: float, alone: float) -> float:
        """Return the mean of shared^J alone^(d - J), where J of an object's d bits are bits of a random object."""
        m = self.m
        return sum(
            share * math.comb(d, j) * math.comb(m - d, e - j) / math.comb(m, e) * shared**j * alone ** (d - j)
            for e, share in enumerate(self.distinct())
            for j in range(min(d, e) + 1)
            if share
        )

    def bit_shares(self) -> Floats:
        """Return (hashes + 1, universe) the share of the cohorts in which each object has 0, 1, ... distinct bits."""
        out = np.zeros((self.hashes + 1, self.universe))
        for found in self._in_chunks():
            for d in range(self.hashes + 1):
                out[d] += ((found < self.m).sum(axis=1) == d).sum(axis=0)
        return out / self.size

    def other_support_moments(self, shared: float, alone: float) -> tuple[Floats, Floats]:
        """Return (universe,) mean and variance over other objects of shared^J alone^(D - J) for the given functions.

        The variance treats cohorts as independent. In a large universe, a sample of objects stands for all.
        """
        sample_size = max(2, int(MAX_COMPARISONS * self.m / (self.size * self.universe * self.hashes**2)))
        sample = np.linspace(0, self.universe - 1, min(self.universe, sample_size)).astype(int)
        mean, variance = np.zeros(len(sample)), np.zeros(len(sample))
        powers = shared ** np.arange(self.hashes + 1.0), alone ** np.arange(self.hashes + 1.0)
        for positions in itertools.chain.from_iterable(self._in_chunks()):
            bits = bit_matrix(positions[None], self.m)
            held = np.asarray(bits.sum(axis=1)).ravel().astype(int)[sample]
            common = (bits[sample] @ bits.T).tocoo()
            apart = common.col != sample[common.row]
            row, j = common.row[apart], common.data[apart].astype(int)
            own = powers[1][held]
            value = powers[0][j] * powers[1][held[row] - j]
            others = max(1, self.universe - 1)
            first = own + np.bincount(row, value - own[row], len(sample)) / others
            second = own**2 + np.bincount(row, value**2 - own[row] ** 2, len(sample)) / others
            mean += first
            variance += np.maximum(second - first**2, 0.0)
        mean, variance = mean / self.size, variance / self.size**2
        if len(sample) < self.universe:
            return np.full(self.universe, mean.mean()), np.full(self.universe, variance.mean() + mean.var())
        return mean, variance

    def _in_chunks(self) -> Iterator[Buckets]:
        """Yield the buckets of all cohorts in chunks."""
        at_once = max(1, BUCKETS_PER_CHUNK // (self.universe * self.hashes))
        for begin in range(0, self.size, at_once):
            yield self.buckets(np.arange(begin, min(begin + at_once, self.size)))


def bit_matrix(positions: Buckets, m: int) -> sparse.csr_array:
    """Return the sparse matrix (functions * universe, functions * m) of the cells of each object under each function.

    `positions` is (functions, cells, universe), with m where there is no cell.
    """
    functions, _, universe = positions.shape
    f, _, z = np.nonzero(positions < m)
    column = f * m + positions[positions < m]
    shape = functions * universe, functions * m
    return sparse.csr_array((np.ones(len(z)), (f * universe + z, column)), shape=shape)


#: From this epsilon on, likelihood ratios come near overflow, and masses are computed from logarithms.
LOG_SPACE_EPSILON = 600.0


@dataclass(frozen=True, kw_only=True)
class Rappor(HashedMechanism, SupportOracle, Likelihood):
    r"""RAPPOR, each report with fresh noise.

    A report of z is (c, s): c uniform over the cohorts; s in {0,1}^m from the Bloom filter b of z, which is one at the
    positions of the cohort's h hash functions. The permanent randomized response (PRR) b' sets each bit to 1 with
    probability f/2, to 0 with f/2, and leaves it with 1-f. The instantaneous randomized response (IRR) s has a 1 with
    probability q where b' is 1, and with p where it is 0. A memoizing device stores b' for each object. Here b' is
    drawn for each report, so that reports are independent and a bit of s is 1 with probability

    .. math:: q' = \tfrac f2 (p + q) + (1-f) q \text{ if } b = 1, \qquad
              p' = \tfrac f2 (p + q) + (1-f) p \text{ if } b = 0

    The mechanism is not pure, as an object has several bits. With D bits, k of them set in s, and T bits set in total,

    .. math:: \Pr[c, s | z] = \frac{1}{\text{cohorts}} q'^{\,k} (1-q')^{D-k} p'^{\,T-k} (1-p')^{m-D-T+k}

    Two objects differ in at most h bits each way. Hence ε of one report, and of all reports of a device together:

    .. math:: \epsilon = h \log \frac{q' (1-p')}{p' (1-q')}, \qquad
              \epsilon_\infty = 2 h \log \frac{1 - f/2}{f/2}

    A report supports the objects whose bits are all set. With uniform hash functions, D is the number of distinct
    values among h draws from m, and the overlap J of two objects with D and D' bits is hypergeometric:

    .. math:: p^* = \mathrm E\, q'^{D}, \qquad q^* = \mathrm E\, q'^{J} p'^{\,D - J}

    For a given table these are means over its objects, pairs of objects and cohorts. Objects with fewer bits are
    supported more often, which the estimate accounts for (`rates`). With few cohorts, objects that share bits are
    confounded; a regression on the bits separates them, as in the authors' analysis (`reports.estimators`).

    Parameters
    ----------
    epsilon : ε of one report. The noise is then symmetric, with the given f or f = 2 / (1 + e^(epsilon/h)), for
        which all reports of a device together have at most 2 ε. Alternatively give
    f, p, q : the noise of PRR and IRR, from which ε follows.
    m, hashes, cohorts : bits of a filter, hash functions per cohort, and number of cohorts.
    hash_table, seed : the hash functions (`HashedMechanism`); the table has a row for each function, cohort by cohort.

    References
    ----------
    U. Erlingsson, V. Pihur, A. Korolova. RAPPOR: randomized aggregatable privacy-preserving ordinal response. CCS 2014.

    Examples
    --------
    >>> rappor = ps.mechanisms.Rappor(universe=100, m=128, hashes=2, cohorts=8, f=0.5, p=0.5, q=0.75)
    >>> sorted(rappor.obfuscate(np.array([3]), rng)), round(rappor.epsilon, 2)
    (['bits', 'cohort'], 1.07)
    """

    epsilon: float = derived_field()
    m: int = 128
    hashes: int = 2
    cohorts: int = 64
    f: float = derived_field()
    p: float = derived_field()
    q: float = derived_field()
    family: BloomFilters = field(init=False, repr=False)

    shared_column = "cohort"

    def __post_init__(self) -> None:
        super().__post_init__()
        noise_given = None not in (self.f, self.p, self.q)
        if not noise_given:
            f, p = noise_for(self.epsilon, self.hashes, self.f, self.p, self.q)
            set_frozen(self, f=f, p=p, q=1.0 - p)
        if not (0.0 <= self.f < 1.0 and 0.0 <= self.p < self.q <= 1.0):
            raise InputError("must be 0 <= f < 1 and 0 <= p < q <= 1", value=(self.f, self.p, self.q), place="f, p, q")
        lost, gained = self.prob_1_to_0, self.prob_0_to_1
        odds = lost * gained / ((1.0 - lost) * (1.0 - gained))
        spent = -self.hashes * math.log(odds) if odds else math.inf
        if noise_given and self.epsilon not in (None, spent):
            raise _given_twice()
        set_frozen(self, epsilon=spent)

    def make_family(self) -> BloomFilters:
        return BloomFilters(functions=self.functions(self.cohorts * self.hashes), hashes=self.hashes)

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"cohort": self.shared, "bits": ReportColumn("bits", self.m)}

    @property
    def prob_0_to_1(self) -> float:
        """p', the probability that a 0 of the filter is reported as 1."""
        return 0.5 * self.f * (self.p + self.q) + (1.0 - self.f) * self.p

    @property
    def prob_1_to_0(self) -> float:
        """1 - q', the probability that a 1 of the filter is reported as 0."""
        return 0.5 * self.f * (2.0 - self.p - self.q) + (1.0 - self.f) * (1.0 - self.q)

    @property
    def permanent_epsilon(self) -> float:
        """ε of a memoized response: that of the permanent randomized response."""
        return 2.0 * self.hashes * math.log((2.0 - self.f) / self.f) if self.f else math.inf

    @property
    def p_star(self) -> float:
        if self.hash_table is not None:
            return float(np.mean(self.rates.p_star))
        return sum(share * (1.0 - self.prob_1_to_0) ** d for d, share in enumerate(self.family.distinct()))

    @property
    def q_star(self) -> float:
        if self.hash_table is not None:
            return float(np.mean(self.rates.q_star))
        return sum(
            share * mean
            for share, (mean, _) in zip(self.family.distinct(), self._other_support_moments(), strict=True)
            if share
        )

    @cached_property
    def rates(self) -> SupportProbabilities:
        """Support probabilities of each object, given its number of distinct bits in each cohort."""
        own = (1.0 - self.prob_1_to_0) ** np.arange(self.hashes + 1.0) @ self.family.bit_shares()
        if self.hash_table is not None:
            return SupportProbabilities(
                own, *self.family.other_support_moments(1.0 - self.prob_1_to_0, self.prob_0_to_1)
            )
        mean, square = np.transpose(self._other_support_moments())
        shares = self.family.bit_shares()
        return SupportProbabilities(own, mean @ shares, (square - mean**2) @ shares / self.family.size)

    @property
    def cells(self) -> CellMoments:
        """Moments of a cell, which counts set bits."""
        p, q = self.prob_0_to_1, 1.0 - self.prob_1_to_0
        return CellMoments(p, q - p, p * (1.0 - p), var_gain=q * (1.0 - q) - p * (1.0 - p), joint_gain=(q - p) ** 2)

    def _other_support_moments(self) -> list[tuple[float, float]]:
        """Return the mean of q'^J p'^(D - J) and of its square, for each number D of bits."""
        q, p = 1.0 - self.prob_1_to_0, self.prob_0_to_1
        return [
            (self.family.other_support_prob(d, q, p), self.family.other_support_prob(d, q * q, p * p))
            for d in range(self.hashes + 1)
        ]

    def tally(self, reports: Reports) -> NDArray[np.int64]:
        """Return (3, universe) support counts, set bits of each object, and its bits in the reports' cohorts."""
        words, positions_set = as_words(reports["bits"], self.m), positions_buffer(self.m)
        out = np.zeros((2, self.universe), dtype=np.int64)
        for positions, starts, order in self.grouped(reports["cohort"]):
            sketch = np.zeros((len(positions), self.m + 1), dtype=np.int64)
            kernels.sketch(starts, order, words, positions_set, sketch)
            for f, count in enumerate(np.diff(starts)):
                out[0] += sketch[f][positions[f]].sum(axis=0)
                out[1] += count * (positions[f] < self.m).sum(axis=0)
        return np.vstack([self.support_counts(reports), out])

    def simulate_tally(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> NDArray[np.int64]:
        """Simulate single reports: the joint distribution of supports and set bits has no closed form."""
        return simulate_reports(self, self.tally, sum_arrays, popularity, count, key, threads)

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        cohort = self.shared_by(keys)
        words = np.zeros((len(objects), words_of(self.m)), dtype=np.uint64)
        noise = as_fixed_point(self.prob_0_to_1), as_fixed_point(self.prob_1_to_0)
        for positions, starts, order in self.grouped(cohort):
            kernels.obfuscate(starts, order, positions, objects, keys, self.m, *noise, words)
        return {"cohort": cohort.astype(np.int32), "bits": as_bytes(words, self.m)}

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        held, found = self._held(reports)
        supported: NDArray[np.bool_] = held == found
        return supported

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        words, out = as_words(reports["bits"], self.m), np.zeros(self.universe, dtype=np.int64)
        for positions, starts, order in self.grouped(reports["cohort"]):
            kernels.full_counts(starts, order, positions, words, self.m, *self._scratch(), out)
        return out

    def log_base_measure(self, reports: Reports) -> Floats:
        """Return (reports,) zeros: `log_likelihood` omits nothing."""
        return np.zeros(len(reports["cohort"]))

    def log_likelihood(self, reports: Reports) -> Floats:
        """Return (reports, universe) the exact log-probabilities."""
        held, found = self._held(reports)
        total = np.bitwise_count(reports["bits"]).sum(axis=1, dtype=np.int64)
        logs: Floats = self._logs()[total[:, None], (self.hashes + 1) * held + found]
        return logs

    def mass(self, reports: Reports, pool_weights: PoolWeights) -> Floats:
        words, out = as_words(reports["bits"], self.m), np.zeros((len(reports["bits"]), pool_weights.width))
        table, by_cohort = pool_weights.matrix(), self.grouped(reports["cohort"])
        if self.epsilon < LOG_SPACE_EPSILON:
            # likelihood ratios of a bit that is set, and of one that is not
            if_set, if_unset = (1.0 - self.prob_1_to_0) / self.prob_0_to_1, self.prob_1_to_0 / (1.0 - self.prob_0_to_1)
            bits = np.arange(self.hashes + 1.0)
            inputs = table, if_unset**bits, (if_set / if_unset) ** bits
            scratch = kernels.cohort_masses(self.universe, self.hashes, self.m, pool_weights.width)
            for positions, starts, order in by_cohort:
                kernels.mass_by_bits(starts, order, positions, words, *inputs, scratch, out)
            return out
        logs = self._logs()
        workspace = *self._scratch(), np.empty(logs.shape[1]), np.empty(pool_weights.width)
        for positions, starts, order in by_cohort:
            kernels.likelihood_mass(starts, order, positions, words, self.m, logs, table, *workspace, out)
        return out

    def _held(self, reports: Reports) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (reports, universe) the bits of each object in the report's cohort, and how many of them are set."""
        positions = self.family.buckets(np.asarray(reports["cohort"], dtype=np.int64)).astype(np.int64)
        bits = np.unpackbits(reports["bits"], axis=1, bitorder="little", count=self.m)
        bits = np.pad(bits, ((0, 0), (0, 1)))[:, None, :]
        return (positions < self.m).sum(axis=1), np.take_along_axis(bits, positions, axis=2).sum(axis=1, dtype=np.int64)

    def _logs(self) -> Floats:
        """Return (m + 1, codes) the log-likelihood by number of set bits and code (`kernels.bloom`)."""
        h, m = self.hashes, self.m
        total = np.arange(m + 1)[:, None]
        held, found = np.divmod(np.arange((h + 1) ** 2), h + 1)
        parts = (
            (found, 1.0 - self.prob_1_to_0),
            (held - found, self.prob_1_to_0),
            (total - found, self.prob_0_to_1),
            (m - held - total + found, 1.0 - self.prob_0_to_1),
        )
        out = np.full((m + 1, len(held)), -math.log(self.family.size))
        for count, probability in parts:
            log = math.log(probability) if probability else -math.inf
            out += np.where(count > 0, np.maximum(count, 1) * log, np.where(count < 0, -math.inf, 0.0))
        return out

    def _scratch(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.empty(self.m + 1, dtype=np.int64), np.empty(self.universe, dtype=np.int64)


def noise_for(
    epsilon: float | None, hashes: int, f: float | None, p: float | None, q: float | None
) -> tuple[float, float]:
    """Return f and p of the symmetric noise (q = 1 - p) with this ε."""
    if epsilon is None:
        raise InputError("is missing", place="epsilon", remedy="or give f, p and q")
    if p is not None or q is not None:
        raise _given_twice()
    check_epsilon(epsilon)
    flipped = flip_probability(epsilon / (2.0 * hashes))
    permanent = flip_probability(epsilon / hashes) if f is None else f / 2.0
    if not 0.0 <= permanent <= flipped:
        raise InputError(f"must be 0 to {2.0 * flipped:.6g} for this epsilon", value=f, place="f")
    return 2.0 * permanent, (flipped - permanent) / (1.0 - 2.0 * permanent)


def _given_twice() -> InputError:
    return InputError("cannot be given with epsilon", place="p, q", remedy="give epsilon, or f, p and q")
