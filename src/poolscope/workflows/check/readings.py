"""What can be read off a column of reports: its values, and how a floating-point number is built.

Noise that is added to a number in floating point leaves traces in the number's last bits: 1 + noise is a multiple of
2^-53 where noise alone is not, so the last bits may tell 0 from 1 however large the noise is.

References
----------
I. Mironov. On significance of the least significant bits for differential privacy. CCS 2012.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from poolscope.mechanisms.protocols import Reports

#: What stands for the last bit of a number that has none: zero, infinity, not a number.
NO_BIT = 4096


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A number of each report: a column, or a part of a wide one, and what is read off it.

    kind : "value", the number itself; "grid", the largest power of two that it is a multiple of, as an exponent;
        "zeros", how many of its mantissa's last bits are 0.
    """

    column: str
    part: int | None = None
    kind: Literal["value", "grid", "zeros"] = "value"

    def __str__(self) -> str:
        return self.column if self.part is None else f"{self.column}[{self.part}]"

    def of(self, reports: Reports) -> NDArray[Any]:
        """(reports,) what is read."""
        column = reports[self.column]
        return self.read(column if self.part is None else column[:, self.part])

    def read(self, values: NDArray[Any]) -> NDArray[Any]:
        """(reports,) what is read, from the values of the column or part."""
        if self.kind == "value":
            return values
        exponent, zeros = last_bit(values)
        return exponent if self.kind == "grid" else zeros

    def words(self, cut: float, above: bool) -> str:
        """That what is read is at least the cut, or below it."""
        if self.kind == "grid":
            return f"{self} is {'a' if above else 'no'} multiple of 2^{cut:.0f}"
        if self.kind == "zeros":
            return f"the last {cut:.0f} bits of {self} are {'' if above else 'not '}all 0"
        return f"{self} is {'at least' if above else 'below'} {cut:g}"


@dataclass(frozen=True, kw_only=True)
class BitColumn:
    """A column of bits, packed into bytes (least significant first) or an entry each.

    one : the entry that stands for a set bit; None where bits are packed.
    """

    column: str
    size: int
    one: Any = None

    def at(self, column: NDArray[Any], bits: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(reports, bits) whether some of the bits are set."""
        if self.one is not None:
            chosen: NDArray[np.bool_] = column[:, bits] == self.one
            return chosen
        return (column[:, bits >> 3] >> (bits & 7).astype(np.uint8) & 1).astype(bool)

    def matrix(self, column: NDArray[Any]) -> NDArray[np.uint8]:
        """(reports, size) the bits as numbers."""
        if self.one is not None:
            bits: NDArray[np.uint8] = (column == self.one).astype(np.uint8)
            return bits
        return np.unpackbits(column, axis=1, bitorder="little", count=self.size)

    def ones(self, column: NDArray[Any]) -> NDArray[np.int64]:
        """(reports,) how many bits are set."""
        set_bits = np.bitwise_count(column) if self.one is None else column == self.one
        count: NDArray[np.int64] = set_bits.sum(axis=1, dtype=np.int64)
        return count


def bit_column(name: str, looks: Sequence[NDArray[Any]], declared: int | None) -> BitColumn | None:
    """The column as bits, where it is one of bits: declared ones, bytes, or entries of which there are two kinds."""
    if looks[0].ndim != 2:
        return None
    if declared is not None:
        return BitColumn(column=name, size=declared)
    if looks[0].dtype == np.uint8 and any(np.any(look > 1) for look in looks):
        return BitColumn(column=name, size=8 * looks[0].shape[1])
    values = np.unique(np.concatenate([np.unique(look) for look in looks]))
    return BitColumn(column=name, size=looks[0].shape[1], one=values[1]) if len(values) == 2 else None


def last_bit(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Exponent of each number's last bit that is 1, and how many bits of its mantissa come after it."""
    numbers = np.asarray(values, dtype=np.float64)
    has = np.isfinite(numbers) & (numbers != 0)
    mantissa, exponent = np.frexp(np.where(has, numbers, 1.0))
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    zeros = np.frexp((whole & -whole).astype(np.float64))[1].astype(np.int64) - 1
    return np.where(has, exponent - 53 + zeros, NO_BIT), np.where(has, zeros, NO_BIT)


def exactly(values: NDArray[Any]) -> NDArray[Any]:
    """Something that is equal for equal values alone: of floating-point numbers their bits, as -0.0 is not 0.0."""
    return np.asarray(values, dtype=np.float64).view(np.int64) if values.dtype.kind == "f" else values
