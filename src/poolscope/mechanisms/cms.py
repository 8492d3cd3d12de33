"""Count Mean Sketch, a hashed one-hot vector with flipped bits, and its Hadamard variant, one bit of the transform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.core.errors import InputError
from poolscope.kernels import cms as kernels
from poolscope.kernels import hadamard as hadamard_kernels
from poolscope.kernels.grouping import empty_table, positions_buffer
from poolscope.kernels.hadamard import TOGETHER, sketch_rows
from poolscope.mechanisms.hashing import Bijection, Buckets, HashFamily, check_range
from poolscope.mechanisms.protocols import (
    PoolWeights,
    ReportColumn,
    Reports,
    check_objects,
    flip_probability,
    set_frozen,
    with_epsilon,
)
from poolscope.mechanisms.pure import uniform_base_measure
from poolscope.mechanisms.sketch import (
    CellMoments,
    Sketch,
    function_totals,
    over_functions,
    packed_layout,
    plain_layout,
    sketch_counts,
)
from poolscope.mechanisms.unary import as_bytes, as_fixed_point, as_words, log_bit_measure, words_of


@dataclass(frozen=True, kw_only=True)
class CMS(Sketch):
    r"""Count Mean Sketch (procedure CMS of the paper).

    A report of z is (j, v): j uniform over the hash functions; v the one-hot vector of h_j(z) in {0,1}^m, of which each
    bit is flipped with probability xi = 1 / (1 + e^(epsilon/2)). It supports the objects with v[h_j(z)] = 1: two
    one-hot vectors differ in two bits, so the likelihood ratio is ((1-xi)/xi)^2 = e^epsilon.

    .. math:: p^* = 1 - \xi, \qquad q^* = (1 - \xi) s + \xi (1 - s)

    where s is the share of the functions under which two objects meet: 1/m, or that of a given table.

    Parameters
    ----------
    m, hashes, hash_table, seed : the hash functions (`HashedMechanism`).

    References
    ----------
    Apple Differential Privacy Team. Learning with privacy at scale. 2017.

    Examples
    --------
    >>> cms = ps.mechanisms.CMS(universe=2600, epsilon=4.0, m=1024, hashes=65536)
    >>> reports = cms.obfuscate(np.array([3, 3, 7]), rng)
    >>> {name: column.shape for name, column in reports.items()}
    {'hash': (3,), 'bits': (3, 128)}
    >>> round(cms.p_star, 3), round(cms.q_star, 3)
    (0.881, 0.12)
    """

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"hash": self.shared, "bits": ReportColumn("bits", self.m)}

    @property
    def flip(self) -> float:
        """xi, the probability that a bit is flipped."""
        return flip_probability(self.epsilon / 2.0)

    @property
    def support_prob_no_collision(self) -> float:
        return self.flip

    @property
    def cells(self) -> CellMoments:
        """Moments of a cell, which counts set bits."""
        gain = 1.0 - 2.0 * self.flip
        return CellMoments(self.flip, gain, self.flip * (1.0 - self.flip), var_gain=0.0, joint_gain=gain**2)

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        bits = np.unpackbits(reports["bits"], axis=1, bitorder="little", count=self.m)
        buckets = self.family.buckets(np.asarray(reports["hash"], dtype=np.int64))
        return np.take_along_axis(bits, buckets.astype(np.int64), axis=1).astype(bool)

    def log_base_measure(self, reports: Reports) -> Floats:
        bits = log_bit_measure(np.asarray(reports["bits"]), self.m, 1.0 - self.flip, self.flip)
        return bits - math.log(self.family.size)

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        function = self.shared_by(keys)
        words = np.empty((len(objects), words_of(self.m)), dtype=np.uint64)
        bucket = self.family.bucket_of(function, np.asarray(objects))
        kernels.obfuscate(bucket, keys, self.m, as_fixed_point(self.flip), words)
        return {"hash": function.astype(np.int32), "bits": as_bytes(words, self.m)}

    def mass(self, reports: Reports, pool_weights: PoolWeights) -> Floats:
        words = as_words(reports["bits"], self.m)
        out = np.empty((len(words), pool_weights.width))
        inputs = self._kernel_inputs(pool_weights)
        for buckets, starts, order in self.grouped(reports["hash"]):
            kernels.support_mass(starts, order, buckets, words, *inputs, out)
        return out

    def sent_masses(self, objects: Objects, keys: Keys, pool_weights: PoolWeights, rows: Integers, out: Floats) -> None:
        check_objects(objects, self.universe)
        inputs = self._kernel_inputs(pool_weights)
        made = objects, keys, self.m, as_fixed_point(self.flip)
        for buckets, starts, order in self.grouped(self.shared_by(keys)):
            kernels.sent_masses(starts, order, buckets, *made, *inputs, rows, out)

    def _kernel_inputs(self, pool_weights: PoolWeights) -> tuple[Integers, Floats, kernels.MassWorkspace]:
        """Return the pool weights as the kernels take them, and their scratch arrays."""
        layout = packed_layout(pool_weights)
        return layout.runs, layout.weights, kernels.mass_workspace(self.m, layout.empty(self.m), pool_weights.width)

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        words = as_words(reports["bits"], self.m)
        workspace = positions_buffer(self.m), np.empty(self.m, dtype=np.int64)
        out = np.zeros(self.universe, dtype=np.int64)
        for buckets, starts, order in self.grouped(reports["hash"]):
            kernels.supports(starts, order, buckets, words, *workspace, out)
        return out

    def simulate_counts(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> NDArray[np.int64]:
        counts: NDArray[np.int64] = self.simulate_at([self.epsilon], popularity, count, key, threads)[0]
        return counts

    def simulate_at(
        self, epsilons: Sequence[float], popularity: Floats, count: int, key: np.uint64, threads: Map = map
    ) -> NDArray[np.int64]:
        """Draw from the closed form of the sketch, which has the same distribution as single reports."""
        flips = [with_epsilon(self, epsilon).flip for epsilon in epsilons]
        return sketch_counts(self.family, flips, popularity, count, key, threads)


@dataclass(frozen=True, kw_only=True)
class NoHashCMS(CMS):
    """Count Mean Sketch without hashing: one bijective function, so that m is the size of the universe.

    Two objects never share a bucket, so q* is xi itself.

    Examples
    --------
    >>> ps.mechanisms.NoHashCMS(universe=30, epsilon=4.0).m
    30
    """

    m: int = field(init=False)
    hashes: int = field(init=False, default=1)
    hash_table: None = field(init=False, default=None, repr=False)
    seed: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        set_frozen(self, m=self.universe)
        super().__post_init__()

    def make_family(self) -> HashFamily:
        return Bijection(universe=self.universe)


@dataclass(frozen=True, kw_only=True)
class HCMS(Sketch):
    r"""Hadamard Count Mean Sketch (procedure HCMS of the paper, with the flip applied to the transformed entry).

    A report of z is (j, l, b): j uniform over the hash functions, l uniform over 0..m-1, b = H[l, h_j(z)] with H the
    +1/-1 Hadamard matrix of order m, flipped with probability xi' = 1 / (1 + e^epsilon). It supports the objects with
    H[l, h_j(z)] = b; agreeing and disagreeing objects have the likelihood ratio e^epsilon.

    Another object in the same bucket (under a share s of the functions: 1/m, or that of a given table) agrees with the
    unflipped bit always; in another bucket the rows' orthogonality makes it agree for half of the coordinates. Hence

    .. math:: p^* = e^\epsilon/(1+e^\epsilon), \qquad q^* = p^* s + \frac12 (1 - s)

    Parameters
    ----------
    m, hashes, hash_table, seed : the hash functions (`HashedMechanism`); m is a power of two.

    References
    ----------
    Apple Differential Privacy Team. Learning with privacy at scale. 2017.

    Examples
    --------
    >>> hcms = ps.mechanisms.HCMS(universe=100, epsilon=4.0, m=64, hashes=128)
    >>> sorted(hcms.obfuscate(np.array([3, 4]), rng))
    ['bit', 'coordinate', 'hash']
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.m & (self.m - 1):
            raise InputError("m must be a power of two for hcms", value=self.m, place="m")

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"hash": self.shared, "coordinate": ReportColumn("integer", self.m), "bit": ReportColumn("sign")}

    @property
    def flip(self) -> float:
        """xi', the probability that the bit is flipped."""
        return flip_probability(self.epsilon)

    @property
    def support_prob_no_collision(self) -> float:
        return 0.5

    @property
    def cells(self) -> CellMoments:
        """Moments of a cell, which counts agreements with its bucket's column; columns are orthogonal."""
        return CellMoments(0.5, self.p_star - 0.5, 0.25, var_gain=0.0, joint_gain=0.0)

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        buckets = self.family.buckets(np.asarray(reports["hash"], dtype=np.int64))
        shared = np.asarray(reports["coordinate"], dtype=np.int64)[:, None] & buckets
        entry = 1 - 2 * (np.bitwise_count(shared).astype(np.int64) & 1)
        supported: NDArray[np.bool_] = entry == np.asarray(reports["bit"])[:, None]
        return supported

    def log_base_measure(self, reports: Reports) -> Floats:
        return uniform_base_measure(reports, self.p_star, self.family.size * self.m)

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        function = self.shared_by(keys)
        coordinate = np.empty(len(objects), dtype=np.int32)
        bit = np.empty(len(objects), dtype=np.int8)
        bucket = self.family.bucket_of(function, np.asarray(objects))
        hadamard_kernels.obfuscate(bucket, keys, self.m, self.flip, coordinate, bit)
        return {"hash": function.astype(np.int32), "coordinate": coordinate, "bit": bit}

    def mass(self, reports: Reports, pool_weights: PoolWeights) -> Floats:
        check_range("coordinate", reports["coordinate"], self.m)
        out = np.zeros((len(reports["hash"]), pool_weights.width))
        layout = plain_layout(pool_weights)
        inputs = layout.runs, layout.weights, empty_table(self.m, pool_weights.width)
        for buckets, starts, order in self.grouped(reports["hash"]):
            hadamard_kernels.support_mass(starts, order, buckets, reports["coordinate"], reports["bit"], *inputs, out)
        return out

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        """Return (reports + sum of agreeing minus disagreeing bits) / 2, from one transform per hash function."""
        check_range("coordinate", reports["coordinate"], self.m)
        out = np.zeros(self.universe, dtype=np.int64)
        for buckets, starts, order in self.grouped(reports["hash"]):
            for f in range(len(buckets)):
                total = np.zeros((self.m, 1), dtype=np.int64)
                hadamard_kernels.sketch(starts[f : f + 2], order, reports["coordinate"], reports["bit"], total)
                hadamard_kernels.transform(total)
                out += (starts[f + 1] - starts[f] + total[buckets[f], 0]) // 2
        return out

    def simulate_counts(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> NDArray[np.int64]:
        """Draw from the closed form: given the reports of a function, the sums of its coordinates are binomial."""
        totals = function_totals(self.family, count, key)
        shares = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)

        def rows(buckets: Buckets, totals: Integers, keys: Keys, out: Integers) -> None:
            workspace = np.empty((self.m, TOGETHER)), np.empty((self.m, TOGETHER), dtype=np.int64)
            sketch_rows(buckets, totals, keys, self.flip, shares, *workspace, out)

        return over_functions(self.family, totals, key, rows, (self.universe,), threads)
