"""Propose events worth testing, from a first sample of reports of each object.

Nothing here has to be right: proposed events are chosen among and tested on other reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats
from poolscope.mechanisms.protocols import ReportColumn, Reports, report_count
from poolscope.workflows.check.distribution import (
    ReportSample,
    states_distribution,
)
from poolscope.workflows.check.events import (
    NONE,
    SLACK,
    BitEvents,
    EventFamily,
    KeyedSignature,
    LikelihoodRatioEvents,
    Mask,
    ReportSetEvents,
    SentBefore,
    SignatureColumn,
    SignatureEvents,
    ThresholdEvents,
    ValueEvents,
    _fingerprints_of,
    difference,
    integers,
    signature_events,
)
from poolscope.workflows.check.sampling import (
    BitColumn,
    ColumnFeature,
    bit_column,
    bit_identical,
    fingerprints,
)

#: Bits, thresholds and entries of wide columns that are proposed at most: those whose rates differ most.
MAX_BITS = 32
#: Numbers of bits that must be set, and as many that must not be, in events of several bits.
BITS_JOINED = (1, 2, 4)
#: Thresholds of a column with many values.
N_CUTS = 15
#: Quantiles of the stated likelihood ratio that become thresholds.
RATIO_QUANTILES = (0.0, 0.5, 0.9, 1.0)
#: Combinations of columns at most.
MAX_JOINS = 8
#: Distinct keys as a share of the reports, at most: a key must repeat to be learned.
MAX_DISTINCT_KEYS = 0.9
#: Reports of an object under each key that show its signature, and fewer than which show nothing.
ENOUGH_HITS, MIN_HITS = 16, 1
#: Distinct values of a column whose events are single values.
MAX_VALUES = 1024
#: Bits of reports that are unpacked at once.
CELLS_AT_ONCE = 1 << 22
#: Pseudo-reports of the average rate under a key, beside the reports of other objects.
PRIOR_REPORTS = 8.0
#: Shares of the keys, strongest signatures first, that become events.
CLEAREST = (0.5, 0.125)


def learn(
    samples: Sequence[ReportSample], objects: Sequence[int], columns: Mapping[str, ReportColumn]
) -> Iterator[EventFamily]:
    """Yield families of events worth testing, from reports of each tested object."""
    pairs = np.array([(a, b) for a in range(len(objects)) for b in range(len(objects)) if a != b]).reshape(-1, 2)
    if states_distribution(samples[0].mechanism) and len(pairs):
        yield _ratio_events(samples, tuple(objects), pairs)
    for name in samples[0].reports:
        declared = columns.get(name)
        yield from _column_events(name, declared, [sample.reports[name] for sample in samples], objects, pairs)
    yield from _report_set_events(samples, objects, pairs)
    yield from learn_joint(samples, objects, columns)


def learn_joint(
    samples: Sequence[ReportSample], objects: Sequence[int], columns: Mapping[str, ReportColumn]
) -> Iterator[EventFamily]:
    """Yield events that combine a hash, a cohort or the like with another column, where each key has enough reports."""
    reports = [sample.reports for sample in samples]
    for keys, target, count in _key_columns(samples, columns):
        if count * MIN_HITS * len(samples) <= sum(map(report_count, reports)):
            yield from learn_keyed(reports, objects, keys, target)


def needs_more_reports(samples: Sequence[ReportSample], columns: Mapping[str, ReportColumn]) -> bool:
    """Return whether some columns could be combined if the sample were larger."""
    reports = sum(report_count(sample.reports) for sample in samples)
    return any(count * ENOUGH_HITS * len(samples) > reports for _, _, count in _key_columns(samples, columns))


def _key_columns(
    samples: Sequence[ReportSample], columns: Mapping[str, ReportColumn]
) -> list[tuple[tuple[str, ...], SignatureColumn, int]]:
    """Return columns that may form a key, the column that may depend on it, and the number of distinct keys."""
    first = samples[0].reports
    whole = [name for name, column in first.items() if column.ndim == 1 and column.dtype.kind in "iub"]
    targets = [t for name in first if (t := _signature_column(name, samples, columns.get(name))) is not None]
    # bits first: a column that is itself a key rarely depends on another
    targets.sort(key=lambda target: target.bits is None)
    joins: list[tuple[tuple[str, ...], SignatureColumn, int]] = []
    for target in targets:
        others = tuple(name for name in whole if name != target.column)
        for keys in dict.fromkeys([others, *((name,) for name in others)] if others else []):
            found = np.concatenate([fingerprints({name: sample.reports[name] for name in keys}) for sample in samples])
            count = len(np.unique(found))
            if 1 < count < MAX_DISTINCT_KEYS * len(found) and len(joins) < MAX_JOINS:
                joins.append((keys, target, count))
    return joins


def _signature_column(
    name: str, samples: Sequence[ReportSample], declared: ReportColumn | None
) -> SignatureColumn | None:
    """Return a column that may depend on a key: bits, or few values."""
    columns = [sample.reports[name] for sample in samples]
    bits = bit_column(name, columns, _declared_bits(declared))
    if bits is not None:
        return SignatureColumn(column=name, bits=bits)
    if columns[0].ndim != 1 or columns[0].dtype.kind not in "iub":
        return None
    values = np.unique(np.concatenate(columns))
    return SignatureColumn(column=name, values=values) if 1 < len(values) <= MAX_VALUES else None


def _declared_bits(declared: ReportColumn | None) -> int | None:
    """Return the number of bits that a column declares."""
    return declared.size if declared is not None and declared.kind == "bits" else None


def _ratio_events(
    samples: Sequence[ReportSample], objects: tuple[int, ...], pairs: NDArray[np.int64]
) -> LikelihoodRatioEvents:
    """Cut the stated likelihood ratio of each pair at quantiles."""
    one, other, cut = [], [], []
    logs = [sample.log_likelihood(objects) for sample in samples]
    for a, b in pairs:
        ratio = difference(logs[a][:, a], logs[a][:, b])
        favoring = np.sort(ratio[ratio > SLACK])
        if len(favoring):
            levels = [favoring[int(level * (len(favoring) - 1))] for level in RATIO_QUANTILES]
            for value in dict.fromkeys(round(float(level), 9) for level in levels):
                one.append(a)
                other.append(b)
                cut.append(value)
    return LikelihoodRatioEvents(
        objects=objects, one=integers(one), other=integers(other), cut=np.array(cut, dtype=np.float64)
    )


def _column_events(
    name: str,
    declared: ReportColumn | None,
    samples: Sequence[NDArray[Any]],
    objects: Sequence[int],
    pairs: NDArray[np.int64],
) -> Iterator[EventFamily]:
    """Yield events of one column: of its bits, of its entries where it is wide, of its values."""
    bits = bit_column(name, samples, _declared_bits(declared))
    if bits is not None:
        yield _bit_events(bits, samples, pairs)
    elif samples[0].ndim == 2:
        means = np.array([sample.mean(axis=0) for sample in samples])
        for part in np.argsort(np.ptp(means, axis=0))[::-1][:MAX_BITS]:
            yield from _value_events(
                ColumnFeature(column=name, part=int(part)), [sample[:, part] for sample in samples]
            )
    elif samples[0].ndim == 1:
        yield from _value_events(
            ColumnFeature(column=name), samples, declared is not None and declared.kind == "object"
        )
        if len(np.unique(bit_identical(np.concatenate(samples)))) > MAX_VALUES and len(pairs):
            yield from learn_sent_before([{name: sample} for sample in samples], objects, name)


def _value_events(
    feature: ColumnFeature, samples: Sequence[NDArray[Any]], objects: bool = False
) -> Iterator[EventFamily]:
    """Yield each value where there are few, else repeated values and thresholds."""
    pooled = np.concatenate(samples)
    _, first, counts = np.unique(bit_identical(pooled), return_index=True, return_counts=True)
    values = pooled[first]
    if len(values) <= MAX_VALUES:
        yield ValueEvents(feature=feature, values=values, objects=objects)
        return
    repeated = np.flatnonzero(counts > 1)
    if len(repeated):
        often = values[repeated[np.argsort(-counts[repeated], kind="stable")][:MAX_BITS]]
        yield ValueEvents(feature=feature, values=often, objects=objects)
    if np.issubdtype(values.dtype, np.number):
        ordered = np.sort(pooled)
        yield _threshold_events(
            feature, np.unique(ordered[np.linspace(0, len(ordered) - 1, N_CUTS + 2).astype(int)[1:-1]])
        )
    if values.dtype.kind == "f":
        yield from _float_events(feature, samples)


def _float_events(feature: ColumnFeature, samples: Sequence[NDArray[Any]]) -> Iterator[ThresholdEvents]:
    """Yield events of the binary representation: the grid of a number, and its trailing zero bits."""
    for of in (replace(feature, kind="grid"), replace(feature, kind="zeros")):
        read = [of.read(sample) for sample in samples]
        cuts = np.unique(np.concatenate(read))[1:]
        if len(cuts):
            rates = np.array([[(values >= cut).mean() for cut in cuts] for values in read])
            yield _threshold_events(of, cuts[np.argsort(np.ptp(rates, axis=0), kind="stable")[::-1][:MAX_BITS]])


def _threshold_events(feature: ColumnFeature, cuts: NDArray[Any]) -> ThresholdEvents:
    """Return both sides of each threshold."""
    return ThresholdEvents(feature=feature, cuts=np.tile(cuts, 2), above=np.repeat([True, False], len(cuts)))


def _bit_events(column: BitColumn, samples: Sequence[NDArray[Any]], pairs: NDArray[np.int64]) -> BitEvents:
    """Return the bits whose rates differ most, and for each pair of objects bits that one sets and the other does not.

    With unary encoding no single bit spends ε, and two do; a Bloom filter takes more.
    """
    rates = np.array([bit_rates(sample, column) for sample in samples])
    most = np.argsort(np.ptp(rates, axis=0))[::-1][:MAX_BITS]
    together = [count for count in BITS_JOINED if 2 * count <= column.size]
    single, width = len(most), max([1, *together])
    events = 2 * single + len(together) * len(pairs)
    ones, zeros = np.full((2, events, width), NONE)
    ones[:single, 0], zeros[single : 2 * single, 0] = most, most
    if len(pairs) and together:
        order = np.argsort(rates[pairs[:, 0]] - rates[pairs[:, 1]], axis=1, kind="stable")
        for start, count in zip(range(2 * single, events, len(pairs)), together, strict=True):
            ones[start : start + len(pairs), :count] = order[:, ::-1][:, :count]
            zeros[start : start + len(pairs), :count] = order[:, :count]
    return BitEvents(column=column, ones=ones, zeros=zeros)


def _report_set_events(
    samples: Sequence[ReportSample], objects: Sequence[int], pairs: NDArray[np.int64]
) -> Iterator[EventFamily]:
    """Yield sets of whole reports, by likelihood ratio where reports are few, else reports that were sent before."""
    found = [fingerprints(sample.reports) for sample in samples]
    prints, first = np.unique(np.concatenate(found), return_index=True)
    if not len(pairs):
        return
    if len(prints) > MAX_VALUES:
        yield from learn_sent_before([sample.reports for sample in samples], objects, None)
        return
    counts = np.array([np.bincount(np.searchsorted(prints, f), minlength=len(prints)) for f in found])
    rates = (counts + 0.5) / (counts.sum(axis=1, keepdims=True) + 1.0)
    sizes = np.unique(np.geomspace(1, len(prints), 8).astype(int))[:-1]
    chosen = np.zeros((len(pairs) * len(sizes), len(prints)), dtype=bool)
    for row, (a, b) in enumerate(pairs):
        order = np.argsort(rates[b] / rates[a], kind="stable")
        for column, size in enumerate(sizes):
            chosen[row * len(sizes) + column, order[:size]] = True
    starts = np.cumsum([0, *(report_count(sample.reports) for sample in samples)])
    written = []
    for i in first:
        sample = int(np.searchsorted(starts, i, side="right")) - 1
        columns = samples[sample].reports.items()
        written.append(", ".join(f"{name} {_written(column[i - starts[sample]])}" for name, column in columns))
    if len(chosen):
        yield ReportSetEvents(prints=prints, chosen=chosen, written=tuple(written))


def bit_rates(column: NDArray[Any], bits: BitColumn) -> Floats:
    """Return the share of reports in which each bit is set, (size,)."""
    ones = np.zeros(bits.size, dtype=np.int64)
    at_once = max(1, (1 << 24) // bits.size)
    for start in range(0, len(column), at_once):
        ones += bits.matrix(column[start : start + at_once]).sum(axis=0, dtype=np.int64)
    return ones / max(1, len(column))


def _written(value: NDArray[Any] | np.generic) -> str:
    """Write the value of a column."""
    return " ".join(map(str, np.atleast_1d(value)))


def learn_sent_before(
    samples: Sequence[Reports], objects: Sequence[int], column: str | None
) -> Iterator[SignatureEvents]:
    """Yield events of repeated reports, where anything is ever sent twice."""
    prints = tuple(np.unique(_fingerprints_of(sample, column)) for sample in samples)
    if len(np.unique(np.concatenate(prints))) < sum(report_count(sample) for sample in samples):
        yield signature_events(SentBefore(column=column, prints=prints), objects, with_single_objects=False)


def learn_keyed(
    samples: Sequence[Reports], objects: Sequence[int], keys: tuple[str, ...], target: SignatureColumn
) -> Iterator[SignatureEvents]:
    """Yield events of the signatures under each key: under all keys, and under those where they are strongest."""
    found = [fingerprints({name: sample[name] for name in keys}) for sample in samples]
    prints = np.unique(np.concatenate(found))
    bit_index, *is_clear = _strongest_entries(samples, [np.searchsorted(prints, f) for f in found], len(prints), target)
    for known in [is_clear[0] > 0, *(_top_share(values, share) for values in is_clear for share in CLEAREST)]:
        signature = KeyedSignature(keys=keys, target=target, prints=prints, bit_index=np.where(known, bit_index, -1))
        yield signature_events(signature, objects, with_single_objects=True)


def _top_share(values: Floats, share: float) -> Mask:
    """Return whether a value is positive and among this share of the largest of its row, (objects, keys)."""
    rank = np.argsort(np.argsort(-values, axis=1, kind="stable"), axis=1, kind="stable")
    top: Mask = (rank < share * values.shape[1]) & (values > 0)
    return top


def _strongest_entries(
    samples: Sequence[Reports], at: Sequence[NDArray[np.int64]], keys: int, target: SignatureColumn
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Find the entry of each object and key whose rate exceeds that of the other objects most.

    Returns
    -------
    index, excess, margin : (objects, keys) the entry, its excess, and how far the second-best entry is behind.
    """
    orders = [np.argsort(a, kind="stable") for a in at]
    ends = [np.searchsorted(a[order], np.arange(keys + 1)) for a, order in zip(at, orders, strict=True)]
    bit_index = np.zeros((len(samples), keys), dtype=np.int64)
    gaps, margins = np.zeros((2, len(samples), keys))
    reports = sum(map(len, at))
    step = max(1, int(CELLS_AT_ONCE * keys / (target.size * (reports + keys * len(samples)))))
    for start in range(0, keys, step):
        stop = min(start + step, keys)
        counts = np.zeros((len(samples), stop - start, target.size))
        trials = np.zeros((len(samples), stop - start))
        for p, sample in enumerate(samples):
            rows = orders[p][ends[p][start] : ends[p][stop]]
            bits = target.matrix(sample[target.column][rows])
            edges = ends[p][start : stop + 1] - ends[p][start]
            trials[p] = np.diff(edges)
            sums = np.concatenate([np.zeros((1, target.size)), np.cumsum(bits, axis=0, dtype=np.float64)])
            counts[p] = np.diff(sums[edges], axis=0)
        mean = counts.sum() / max(1.0, trials.sum()) / target.size
        others = (counts.sum(axis=0) - counts + PRIOR_REPORTS * mean) / (trials.sum(axis=0) - trials + PRIOR_REPORTS)[
            :, :, None
        ]
        rates = (counts + PRIOR_REPORTS * others) / (trials + PRIOR_REPORTS)[:, :, None]
        excess = rates - others
        second, best = np.moveaxis(np.partition(excess, target.size - 2, axis=2)[:, :, -2:], 2, 0)
        bit_index[:, start:stop] = excess.argmax(axis=2)
        gaps[:, start:stop], margins[:, start:stop] = best, best - second
    return bit_index, gaps, margins
