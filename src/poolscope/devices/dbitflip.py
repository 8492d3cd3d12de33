"""dBitFlip: a few bits of a histogram at fixed positions, each flipped independently."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Objects
from poolscope.core.errors import InputError
from poolscope.core.randomness import children
from poolscope.kernels import unary as kernels
from poolscope.mechanisms.protocols import (
    ReportColumn,
    Reports,
    SupportProbabilities,
    check_finite_epsilon,
    check_objects,
    derived_field,
    flip_probability,
    set_frozen,
)
from poolscope.mechanisms.pure import Likelihood, ScoreOracle
from poolscope.mechanisms.unary import as_bytes, as_fixed_point, check_bits, words_of

#: Resolution of the score of a bit that is not among the positions.
GRID = 1 << 20

#: Largest number of reports that `all_reports` lists.
MAX_LISTED = 1 << 16


@dataclass(frozen=True, kw_only=True)
class DBitFlip(ScoreOracle, Likelihood):
    r"""dBitFlip and, with memoization, dBitFlipPM: d bits of b buckets.

    The objects are sorted into b buckets in order, z into floor(z b / universe). A report of z is (J, v): d different
    buckets J, uniform, and for each of them a bit, which is one with probability 1 - xi in the bucket of z and xi in
    others, xi = 1 / (1 + e^(epsilon/2)). As published, a device draws J once and memoizes its bits for each bucket.
    (Without memoization both are drawn for each report.) Of the likelihood of (J, v) only this depends on z:

    .. math:: \Pr[J, v | z] \propto e^{\epsilon/2} \text{ if } v = 1 \text{ in the bucket of } z, \quad
              e^{-\epsilon/2} \text{ if } v = 0, \quad 1 \text{ if the bucket is not in } J

    Two buckets of J differ by e^ε; with d = 1 there are no two, and a report reveals ε/2 only. The count of
    a bucket, with its variance where nobody is in it, is

    .. math:: \hat c = \frac bd \sum_{t: z \in J_t} \frac{v_t(z) (e^{\epsilon/2} + 1) - 1}{e^{\epsilon/2} - 1}, \qquad
              \mathrm{Var}_0 = N \frac bd \frac{e^{\epsilon/2}}{(e^{\epsilon/2} - 1)^2}

    A bit scores itself, and one outside J scores xi (to 20 binary places, so that sums are exact). The curator cannot
    distinguish objects of one bucket, and assumes each to have its share of the universe.

    Parameters
    ----------
    buckets : b; one for each object by default.
    d : bits of a report.

    References
    ----------
    B. Ding, J. Kulkarni, S. Yekhanin. Collecting telemetry data privately. NIPS 2017.

    Examples
    --------
    >>> made = ps.mechanisms.DBitFlip(universe=30, epsilon=1.0, buckets=10, d=4)
    >>> sorted(made.obfuscate(np.array([3, 4]), rng))
    ['bits', 'positions']
    """

    universe: int
    epsilon: float
    buckets: int = derived_field()
    d: int = 1

    #: Devices memoize responses of this mechanism unless `memoize` is false.
    memoize_by_default: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_finite_epsilon(self.epsilon)
        if self.buckets is None:
            set_frozen(self, buckets=self.universe)
        if not 2 <= self.buckets <= self.universe:
            raise InputError(f"must be 2 to {self.universe}, the objects", value=self.buckets, place="buckets")
        if not 1 <= self.d <= self.buckets:
            raise InputError(f"must be 1 to {self.buckets}, the buckets", value=self.d, place="d")

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"positions": ReportColumn("bits", self.buckets), "bits": ReportColumn("bits", self.buckets)}

    @cached_property
    def bucket_of(self) -> Integers:
        """(universe,) the bucket of each object."""
        return np.arange(self.universe) * self.buckets // self.universe

    @property
    def flip(self) -> float:
        """xi, the probability that a bit is flipped."""
        return flip_probability(self.epsilon / 2.0)

    @property
    def permanent_epsilon(self) -> float:
        """ε of a memoized response."""
        return self.epsilon

    @property
    def max_memoized_responses(self) -> int:
        r"""Number of responses with different distributions: one for each bucket of J, and one for all other buckets.

        A bucket outside J sets none of the d bits, so that the responses of two such buckets have one distribution and
        do not distinguish them. There are d further distributions, and no more than there are buckets. Swapping the
        buckets behind a device's responses changes the likelihood by at most :math:`e^{\epsilon/2}` for each bucket of
        J before and after, 2d in all. All that a device ever sends thus reveals d ε, but for which reports share
        a bucket. ε times this number bounds it.
        """
        return min(self.d + 1, self.buckets)

    # Reports

    def positions(self, keys: Keys) -> NDArray[np.uint64]:
        """Return (reports, words) d buckets for each key, uniform."""
        out = np.empty((len(keys), words_of(self.buckets)), dtype=np.uint64)
        share = self.d / self.buckets
        first = np.zeros(len(keys), dtype=np.int64)
        kernels.choose_subsets(first, keys, self.buckets, self.d, share, as_fixed_point(min(share, 0.5)), out)
        return out

    def responses(self, buckets: Integers, keys: Keys) -> NDArray[np.uint64]:
        """Return (reports, words) the bits of all buckets, for each key and the bucket of its object."""
        out = np.empty((len(keys), words_of(self.buckets)), dtype=np.uint64)
        kernels.flip_bits(buckets, keys, self.buckets, as_fixed_point(self.flip), as_fixed_point(self.flip), out)
        return out

    def pack_report(self, positions: NDArray[np.uint64], responses: NDArray[np.uint64]) -> Reports:
        """Return the reports with these bits at these positions."""
        at, bits = as_bytes(positions, self.buckets), as_bytes(responses & positions, self.buckets)
        return {"positions": at, "bits": bits}

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        responses = self.responses(self.bucket_of[objects], children(keys, 1))
        return self.pack_report(self.positions(children(keys, 0)), responses)

    def checked(self, reports: Reports) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return positions and bits as bytes; check that there are d positions, and no bit elsewhere."""
        positions, bits = (np.asarray(reports[name]) for name in ("positions", "bits"))
        for column in (positions, bits):
            check_bits(column, self.buckets)
        count = np.bitwise_count(positions).sum(axis=1, dtype=np.int64)
        if np.any(count != self.d):
            raise InputError(
                f"positions must be {self.d}, the d of the mechanism", value=int(count[count != self.d][0])
            )
        if np.any(bits & ~positions):
            raise InputError("no bit may be set that is not among the positions")
        return positions, bits

    def all_reports(self) -> Reports | None:
        """Return every report, or None if there are too many.

        The columns of bits alone would have more values than there are reports.
        """
        if math.comb(self.buckets, self.d) << self.d > MAX_LISTED:
            return None
        rows = [
            (sum(1 << place for place in at), sum(1 << place for place, bit in zip(at, bits, strict=True) if bit))
            for at in combinations(range(self.buckets), self.d)
            for bits in product((0, 1), repeat=self.d)
        ]
        size = -(-self.buckets // 8)
        packed = np.array([[list(word.to_bytes(size, "little")) for word in row] for row in rows], dtype=np.uint8)
        return {"positions": packed[:, 0], "bits": packed[:, 1]}

    def log_response_prob(self, reports: Reports) -> Floats:
        """Return (reports, buckets) log Pr[bits | positions, bucket]."""
        positions, bits = (self._unpacked(column) for column in self.checked(reports))
        ones = bits.sum(axis=1, dtype=np.int64)[:, None]
        base = ones * math.log(self.flip) + (self.d - ones) * math.log1p(-self.flip)
        distribution: Floats = base + 0.5 * self.epsilon * (2.0 * bits - positions)
        return distribution

    def log_likelihood(self, reports: Reports) -> Floats:
        """Return (reports, universe) the log likelihood, without the probability of the positions."""
        return self.log_response_prob(reports)[:, self.bucket_of]

    def log_base_measure(self, reports: Reports) -> Floats:
        """Return (reports,) the log probability of the positions, which is uniform."""
        return np.full(len(reports["bits"]), -math.log(math.comb(self.buckets, self.d)))

    # Counts

    @property
    def unsampled_score(self) -> float:
        """Score of a bit that is not among the positions: xi, rounded to the grid."""
        return round(self.flip * GRID) / GRID

    def moments(self, one: float) -> tuple[float, float]:
        """Return mean and variance of the score of a bucket whose bit is one with this probability."""
        share = self.d / self.buckets
        mean = share * one + (1.0 - share) * self.unsampled_score
        return mean, share * one + (1.0 - share) * self.unsampled_score**2 - mean**2

    @property
    def own_mean(self) -> float:
        return self.moments(1.0 - self.flip)[0]

    @property
    def other_mean(self) -> float:
        return float(np.mean(self.rates.q_star))

    @property
    def rates(self) -> SupportProbabilities:
        """Support probabilities by object: other objects of its bucket always support it."""
        own, support_prob_no_collision = self.own_mean, self.moments(self.flip)[0]
        others = np.bincount(self.bucket_of)[self.bucket_of] - 1.0
        share = others / max(1, self.universe - 1)
        return SupportProbabilities(
            own,
            support_prob_no_collision + (own - support_prob_no_collision) * share,
            (own - support_prob_no_collision) ** 2 * share * (1.0 - share),
        )

    def score_sum_variance(self, counts: Floats, reports: float) -> Floats:
        inside = np.bincount(self.bucket_of, weights=counts)[self.bucket_of]
        own, other = self.moments(1.0 - self.flip)[1], self.moments(self.flip)[1]
        out: Floats = inside * own + (reports - inside) * other
        return out

    def scores(self, reports: Reports) -> Floats:
        positions, bits = (self._unpacked(column) for column in self.checked(reports))
        return np.where(positions, bits, self.unsampled_score)[:, self.bucket_of]

    def score_sums(self, reports: Reports) -> Floats:
        included, ones = (self._counted(column) for column in self.checked(reports))
        return (ones + self.unsampled_score * (len(reports["bits"]) - included))[self.bucket_of]

    def _counted(self, column: NDArray[np.uint8]) -> Integers:
        out = np.zeros(self.buckets, dtype=np.int64)
        kernels.count_bits(column, kernels.SPREAD, np.empty(column.shape[1], dtype=np.uint64), out)
        return out

    def _unpacked(self, column: NDArray[np.uint8]) -> NDArray[np.int64]:
        return np.unpackbits(column, axis=1, bitorder="little", count=self.buckets).astype(np.int64)
