"""All reports of a mechanism with a small output space, its channel, and the two-round mechanism of a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Integers
from poolscope.core.errors import InputError
from poolscope.mechanisms.channel import TOLERANCE, Channel
from poolscope.mechanisms.grr import GRR
from poolscope.mechanisms.l_mechanisms import LGRR, LOSUE, LOUE, LSOUE, LSUE
from poolscope.mechanisms.local_hashing import BLH, OLH
from poolscope.mechanisms.loloha import LOLOHA
from poolscope.mechanisms.protocols import Mechanism, ReportColumn, Reports, Stated, distinct, report_count
from poolscope.mechanisms.unary import OUE, SUE

#: Reports times objects that are listed.
CELLS_LISTED = 1 << 22


def all_reports(mechanism: Mechanism, most: int) -> Reports | None:
    """Every report of a mechanism, if they are few: what its `all_reports` offers, else all values of its columns."""
    offered = getattr(mechanism, "all_reports", None)
    if offered is None:
        return of_columns(declared_columns(mechanism), most)
    reports = offered()
    return reports if reports is not None and report_count(reports) <= most else None


def of_columns(columns: Mapping[str, ReportColumn], most: int) -> Reports | None:
    """Every report that columns can hold; None where there are more than so many, or no columns."""
    sizes = [_values(column) for column in columns.values()]
    if not sizes or any(size is None for size in sizes):
        return None
    counts = [size for size in sizes if size is not None]
    total = 1
    for size in counts:
        total *= size
        if total > most:
            return None
    index = np.unravel_index(np.arange(total), counts)
    return {name: _column(column, i) for (name, column), i in zip(columns.items(), index, strict=True)}


def declared_columns(mechanism: Any) -> Mapping[str, ReportColumn]:
    """What the mechanism says of its report columns; nothing where it is silent."""
    try:
        return getattr(mechanism, "report_columns", {})
    except InputError:
        return {}


def _values(column: ReportColumn) -> int | None:
    """How many values a column can have; None for a kind that cannot be listed."""
    if column.kind in ("integer", "object"):
        return column.size
    if column.kind == "sign":
        return 2
    # more bits than these are too many reports anyway
    return 1 << column.size if column.kind == "bits" and column.size <= 24 else None


def _column(column: ReportColumn, index: NDArray[np.intp]) -> NDArray[Any]:
    if column.kind == "sign":
        return (1 - 2 * index).astype(np.int8)
    if column.kind == "bits":
        bits = (index[:, None] >> np.arange(column.size)) & 1
        return np.packbits(bits.astype(np.uint8), axis=1, bitorder="little")
    return index.astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Listed(Channel):
    """A channel whose reports are those of another mechanism, numbered as they are listed."""

    listed: Reports = field(repr=False)

    def tally(self, reports: Reports) -> Integers:
        return super().tally({"report": self.numbers(reports)})

    def numbers(self, reports: Reports) -> Integers:
        """(reports,) which of the listed ones each is."""
        known = report_count(self.listed)
        together = {
            name: np.concatenate([column, np.asarray(reports[name], dtype=column.dtype)])
            for name, column in self.listed.items()
        }
        first, which = distinct(together)
        numbers: Integers = first[which[known:]]
        if np.any(numbers >= known):
            raise InputError("must be among all reports that the mechanism lists", place="reports")
        return numbers


def as_channel(mechanism: Stated) -> Listed | None:
    """The mechanism as a channel, where its reports are few and known and it states their probabilities.

    Likelihoods may lack a factor of each report; those that sum to one for every object lack none.
    """
    listed = all_reports(mechanism, CELLS_LISTED // mechanism.universe)
    if listed is None:
        return None
    with np.errstate(over="ignore"):
        matrix = np.exp(mechanism.log_likelihood(listed)).T
    if not np.all(np.abs(matrix.sum(axis=1) - 1.0) < TOLERANCE):
        return None
    return Listed(universe=mechanism.universe, matrix=matrix, listed=listed)


#: Kind of the permanent step, name of the instantaneous one -> both together, and what it takes over of the first.
TOGETHER: dict[tuple[type, str], tuple[Callable[..., Mechanism], tuple[str, ...]]] = {
    (GRR, "grr"): (LGRR, ()),
    (SUE, "sue"): (LSUE, ()),
    (OUE, "sue"): (LOSUE, ()),
    (OUE, "oue"): (LOUE, ()),
    (SUE, "oue"): (LSOUE, ()),
    (BLH, "grr"): (LOLOHA, ("g", "seed_bits", "hash")),
    (OLH, "grr"): (LOLOHA, ("g", "seed_bits", "hash")),
}


def composed(
    mechanism: Mechanism, kind: str, *, epsilon: float | None = None, epsilon_first: float | None = None
) -> Mechanism:
    """The mechanism of two steps that keeps the answers of this one, and adds noise of this kind to what is sent.

    Parameters
    ----------
    kind : "grr" on `grr` and local hashing, "sue" or "oue" on `sue` and `oue`.
    epsilon : of the noise by itself; or
    epsilon_first : of one report, as the papers reckon it, from which the noise is solved for.

    Examples
    --------
    >>> twice = ps.mechanisms.composed(mechanism, "grr", epsilon_first=2.0)
    >>> type(twice).__name__, round(twice.epsilon, 3)
    ('LGRR', 1.48)
    """
    if (type(mechanism), kind) not in TOGETHER:
        known = dict.fromkeys(name for first, name in TOGETHER if first is type(mechanism))
        remedy = f"one of {', '.join(known)}" if known else "only grr, sue, oue, blh and olh have noise again"
        rule = f"must be noise that goes on kept answers of {type(mechanism).__name__}"
        raise InputError(rule, value=kind, place="kind", remedy=remedy)
    maker, taken = TOGETHER[type(mechanism), kind]
    return maker(
        universe=mechanism.universe,
        epsilon_infinity=mechanism.epsilon,
        epsilon_again=epsilon,
        epsilon_first=epsilon_first,
        **{name: getattr(mechanism, name) for name in taken},
    )
