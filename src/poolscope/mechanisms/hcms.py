"""Hadamard Count Mean Sketch: one bit of the transformed one-hot vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.core.errors import InputError
from poolscope.kernels import hadamard as kernels
from poolscope.kernels.grouping import empty_table
from poolscope.kernels.hadamard import TOGETHER, sketch_rows
from poolscope.mechanisms.grouping import check_range
from poolscope.mechanisms.hashed import Cells, Sketch
from poolscope.mechanisms.hashing import Buckets
from poolscope.mechanisms.layout import plain
from poolscope.mechanisms.pure import even_measure
from poolscope.mechanisms.role import ReportColumn, Reports, check_objects, lie
from poolscope.mechanisms.sketch_law import function_totals, over_functions
from poolscope.mechanisms.views import Views


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
    m, hashes, hash_table, seed : the hash functions (`Hashed`); m is a power of two.

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
        return lie(self.epsilon)

    @property
    def elsewhere(self) -> float:
        return 0.5

    @property
    def cells(self) -> Cells:
        """A cell counts agreements with its bucket's column, which is orthogonal to the others."""
        return Cells(0.5, self.p_star - 0.5, 0.25, own=0.0, hit=0.0)

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        buckets = self.family.buckets(np.asarray(reports["hash"], dtype=np.int64))
        shared = np.asarray(reports["coordinate"], dtype=np.int64)[:, None] & buckets
        entry = 1 - 2 * (np.bitwise_count(shared).astype(np.int64) & 1)
        supported: NDArray[np.bool_] = entry == np.asarray(reports["bit"])[:, None]
        return supported

    def log_base_measure(self, reports: Reports) -> Floats:
        return even_measure(reports, self.p_star, self.family.size * self.m)

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        function = self.shared_by(keys)
        coordinate = np.empty(len(objects), dtype=np.int32)
        bit = np.empty(len(objects), dtype=np.int8)
        bucket = self.family.bucket_of(function, np.asarray(objects))
        kernels.obfuscate(bucket, keys, self.m, self.flip, coordinate, bit)
        return {"hash": function.astype(np.int32), "coordinate": coordinate, "bit": bit}

    def mass(self, reports: Reports, views: Views) -> Floats:
        check_range("coordinate", reports["coordinate"], self.m)
        out = np.zeros((len(reports["hash"]), views.width))
        layout = plain(views)
        seen = layout.runs, layout.weights, empty_table(self.m, views.width)
        for buckets, starts, order in self.grouped(reports["hash"]):
            kernels.support_mass(starts, order, buckets, reports["coordinate"], reports["bit"], *seen, out)
        return out

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        """Agreements: (reports + bits in the object's direction) / 2, from one transform for each function."""
        check_range("coordinate", reports["coordinate"], self.m)
        out = np.zeros(self.universe, dtype=np.int64)
        for buckets, starts, order in self.grouped(reports["hash"]):
            for f in range(len(buckets)):
                total = np.zeros((self.m, 1), dtype=np.int64)
                kernels.sketch(starts[f : f + 2], order, reports["coordinate"], reports["bit"], total)
                kernels.transform(total)
                out += (starts[f + 1] - starts[f] + total[buckets[f], 0]) // 2
        return out

    def simulate_counts(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> NDArray[np.int64]:
        """By the closed law: given how many reports a function has, its coordinates' bits are sums of equal coins."""
        totals = function_totals(self.family, count, key)
        shares = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)

        def rows(buckets: Buckets, totals: Integers, keys: Keys, out: Integers) -> None:
            room = np.empty((self.m, TOGETHER)), np.empty((self.m, TOGETHER), dtype=np.int64)
            sketch_rows(buckets, totals, keys, self.flip, shares, *room, out)

        return over_functions(self.family, totals, key, rows, (self.universe,), threads)
