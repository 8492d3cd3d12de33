"""Are reports of one object independent of each other, and alike wherever in a call they are?

A *mark* is something that a report has or has not: it supports its object, many of its bits are set, its value is the
usual one. Marks of reports that are independent are too: of two neighbors, of the same place in two calls, of two
reports any number of places apart. Each is a table of two by two, for which Fisher's test is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from poolscope.workflows.check.events import Family, Seen, Truths, difference
from poolscope.workflows.check.law import states_law
from poolscope.workflows.check.readings import bit_column

#: Standard errors below which a table is not looked at more closely: far fewer than any test here allows.
UNREMARKABLE = 4.0
#: Logarithms of likelihood ratios beyond it are as good as infinite.
LARGEST_RATIO = 1e3
#: Places apart that are looked at more closely, of each sequence: those that differ most.
CLOSEST = 4


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one test, or of the most conspicuous of some.

    kind : what was looked at; of all findings of a kind the clearest is shown. tests : among how many it was chosen.
    words : what it would mean.
    """

    kind: str
    pvalue: float
    words: str
    tests: int = 1


def marks_of(seen: Seen, position: int, objects: tuple[int, ...], event: Family | None) -> dict[str, Truths]:
    """Marks of some reports of the object at a position; cuts are those of all these reports together."""
    found: dict[str, Truths] = {}
    if event is not None:
        found["the most telling event"] = event.holds(seen)[:, 0]
    if states_law(seen.mechanism):
        own = seen.log_likelihood(objects)
        others = np.delete(own, position, axis=1)
        ratio = difference(own[:, position], others.max(axis=1)) if others.shape[1] else own[:, position]
        found["a report that favors its object"] = _halved(np.clip(ratio, -LARGEST_RATIO, LARGEST_RATIO))
        found["a report that supports its object"] = own[:, position] >= own.max(axis=1)
    for name, column in seen.reports.items():
        found |= _of_column(name, column)
    return {words: mark for words, mark in found.items() if 0 < mark.sum() < len(mark)}


def _of_column(name: str, column: NDArray[Any]) -> dict[str, Truths]:
    if column.ndim == 2:
        bits = bit_column(name, [column], None)
        if bits is not None:
            return {f"many set bits of {name}": _halved(bits.ones(column))}
        if column.dtype.kind in "iuf":
            return {f"a large sum of {name}": _halved(np.nan_to_num(column.astype(np.float64).sum(axis=1)))}
        return {}
    if column.ndim != 1:
        return {}
    values, which, counts = np.unique(column, return_inverse=True, return_counts=True)
    found = {f"the commonest {name}": which == counts.argmax()} if len(values) < len(column) // 2 else {}
    return found | {f"a large {name}": _halved(which)}


def _halved(values: NDArray[Any]) -> Truths:
    """Whether each is above the median, or at it where none would be."""
    cut = np.median(values)
    above: Truths = values > cut
    return above if above.any() else values >= cut


def dependent(one: Truths, other: Truths) -> float:
    """Fisher's p-value that a mark of one report depends on that of the other, in pairs without a common report."""
    both, n = int((one & other).sum()), len(one)
    table = [[both, int(one.sum()) - both], [int(other.sum()) - both, n - int(one.sum() + other.sum()) + both]]
    return _fisher(table)


def different(some: Truths, others: Truths) -> float:
    """Fisher's p-value that a mark has not the same rate in some reports as in others."""
    hits = int(some.sum()), int(others.sum())
    return _fisher([[hits[0], len(some) - hits[0]], [hits[1], len(others) - hits[1]]])


def _fisher(table: list[list[int]]) -> float:
    """Two-sided; 1 where the table is unremarkable."""
    (a, b), (c, d) = table
    n, margins = a + b + c + d, (a + b) * (c + d) * (a + c) * (b + d)
    if not margins or abs(a * d - b * c) * np.sqrt(n / margins) < UNREMARKABLE:
        return 1.0
    return float(stats.fisher_exact(table).pvalue)


def lagged(words: str, marks: dict[str, Truths]) -> Iterator[Finding]:
    """Marks of a sequence beside those any number of places later, up to half of its length.

    The correlations of all distances are found at once, and the largest few are tested on pairs without a common
    report: two sets of them for each distance.
    """
    for name, mark in marks.items():
        n = len(mark)
        most = n // 2
        if most < 2:
            continue
        centered = mark - mark.mean()
        spectrum = np.abs(np.fft.rfft(centered, 2 * n)) ** 2
        products = np.fft.irfft(spectrum)[1 : most + 1] / np.sqrt(n - np.arange(1, most + 1))
        best = 1.0, 0, 0.0
        for lag in 1 + np.argsort(-np.abs(products), kind="stable")[:CLOSEST]:
            first = np.arange(n - lag)
            for offset in (0, 1):
                rows = first[(first // lag) % 2 == offset]
                pvalue = dependent(mark[rows], mark[rows + lag])
                if pvalue < best[0]:
                    best = pvalue, int(lag), float((mark[rows] & mark[rows + lag]).mean())
        apart = f"{best[1]} report{'s' if best[1] != 1 else ''} apart"
        expected = float(mark.mean()) ** 2
        seen = f"{name} comes twice, {apart}, in {best[2]:.3g} of the pairs instead of {expected:.3g}"
        yield Finding(kind=words, pvalue=best[0], words=f"{words} depend on each other: {seen}", tests=2 * most)
