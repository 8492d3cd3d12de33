"""Test that reports are independent, and drawn from the generator or key that the mechanism is given.

Two reports of an object may be equal or similar by chance, and how often depends on the mechanism. It must not depend
on where they were made. Neighbors in a call, reports of its two halves, reports at the same position of two calls and
those of successive calls must be as similar as reports of different calls at different positions. Many short calls must
repeat each other no more often than as many parts of one long call. A mechanism fails here if it seeds a generator of
its own, by a constant, by the clock or by one of thousands of values. So does one whose noise is balanced over pairs of
reports, follows a schedule, or is omitted at the beginning of a call.

A *feature* is a binary property of a report: it supports its object, many of its bits are set, its value is the most
common one. Features of independent reports are independent: of two neighbors, of the same position in two calls, of two
reports at any lag. Each comparison is a table of two by two, for which Fisher's test is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from poolscope.core.arrays import Floats, Keys
from poolscope.core.randomness import fresh_keys
from poolscope.mechanisms.protocols import Reports, report_count
from poolscope.workflows.check.distribution import (
    ReportSample,
    states_distribution,
)
from poolscope.workflows.check.events import (
    EventFamily,
    Mask,
    difference,
)
from poolscope.workflows.check.sampling import (
    BYTES_AT_ONCE,
    Sampler,
    Stage,
    bit_column,
    bytes_of,
    concatenated,
    fingerprints,
    obfuscates_by_report,
)

#: Standard errors below which no test is computed: far fewer than any rejection takes.
MIN_DEVIATION = 4.0
#: Log likelihood ratios are clipped here.
MAX_LOG_RATIO = 1e3
#: Lags of each sequence that are tested exactly: those with the largest correlations.
MAX_LAGS = 4


@dataclass(frozen=True, kw_only=True)
class IndependenceTest:
    """The result of one test, or the most significant of several.

    kind : what was compared; of all tests of a kind the most significant is reported.
    tests : among how many it was chosen.
    description : what a rejection means.
    """

    kind: str
    pvalue: float
    description: str
    tests: int = 1


def report_features(
    seen: ReportSample, position: int, objects: tuple[int, ...], event: EventFamily | None
) -> dict[str, Mask]:
    """Return binary features of reports of the object at a position; medians are of all these reports together."""
    found: dict[str, Mask] = {}
    if event is not None:
        found["the most distinguishing event"] = event.holds(seen)[:, 0]
    if states_distribution(seen.mechanism):
        own = seen.log_likelihood(objects)
        others = np.delete(own, position, axis=1)
        ratio = difference(own[:, position], others.max(axis=1)) if others.shape[1] else own[:, position]
        found["a report that favors its object"] = _above_median(np.clip(ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO))
        found["a report that supports its object"] = own[:, position] >= own.max(axis=1)
    for name, column in seen.reports.items():
        found |= _column_features(name, column)
    return {description: feature for description, feature in found.items() if 0 < feature.sum() < len(feature)}


def _column_features(name: str, column: NDArray[Any]) -> dict[str, Mask]:
    """Return the features of one column."""
    if column.ndim == 2:
        bits = bit_column(name, [column], None)
        if bits is not None:
            return {f"many set bits of {name}": _above_median(bits.ones(column))}
        if column.dtype.kind in "iuf":
            return {f"a large sum of {name}": _above_median(np.nan_to_num(column.astype(np.float64).sum(axis=1)))}
        return {}
    if column.ndim != 1:
        return {}
    values, which, counts = np.unique(column, return_inverse=True, return_counts=True)
    found = {f"the commonest {name}": which == counts.argmax()} if len(values) < len(column) // 2 else {}
    return found | {f"a large {name}": _above_median(which)}


def _above_median(values: NDArray[Any]) -> Mask:
    """Return whether each value is above the median, or at it where none would be."""
    cut = np.median(values)
    above: Mask = values > cut
    return above if above.any() else values >= cut


def dependence_pvalue(one: Mask, other: Mask) -> float:
    """Return Fisher's p-value that a feature of one report depends on that of the other, in disjoint pairs."""
    both, n = int((one & other).sum()), len(one)
    table = [[both, int(one.sum()) - both], [int(other.sum()) - both, n - int(one.sum() + other.sum()) + both]]
    return _fisher(table)


def rate_pvalue(some: Mask, others: Mask) -> float:
    """Return Fisher's p-value that a feature has different rates in two groups of reports."""
    hits = int(some.sum()), int(others.sum())
    return _fisher([[hits[0], len(some) - hits[0]], [hits[1], len(others) - hits[1]]])


def _fisher(table: list[list[int]]) -> float:
    """Return the two-sided p-value; 1 where the deviation is too small to matter."""
    (a, b), (c, d) = table
    n, margins = a + b + c + d, (a + b) * (c + d) * (a + c) * (b + d)
    if not margins or abs(a * d - b * c) * np.sqrt(n / margins) < MIN_DEVIATION:
        return 1.0
    return float(stats.fisher_exact(table).pvalue)


def lag_tests(description: str, features: dict[str, Mask]) -> Iterator[IndependenceTest]:
    """Test whether a feature of a sequence depends on the same feature at any lag up to half of its length.

    The correlations of all lags are computed at once. The largest few are tested on disjoint pairs, twice for each lag.
    """
    for name, feature in features.items():
        n = len(feature)
        most = n // 2
        if most < 2:
            continue
        centered = feature - feature.mean()
        spectrum = np.abs(np.fft.rfft(centered, 2 * n)) ** 2
        products = np.fft.irfft(spectrum)[1 : most + 1] / np.sqrt(n - np.arange(1, most + 1))
        best = 1.0, 0, 0.0
        for lag in 1 + np.argsort(-np.abs(products), kind="stable")[:MAX_LAGS]:
            first = np.arange(n - lag)
            for offset in (0, 1):
                rows = first[(first // lag) % 2 == offset]
                pvalue = dependence_pvalue(feature[rows], feature[rows + lag])
                if pvalue < best[0]:
                    best = pvalue, int(lag), float((feature[rows] & feature[rows + lag]).mean())
        apart = f"{best[1]} report{'s' if best[1] != 1 else ''} apart"
        expected = float(feature.mean()) ** 2
        seen = f"{name} occurs twice, {apart}, in {best[2]:.3g} of the pairs, expected {expected:.3g}"
        yield IndependenceTest(
            kind=description, pvalue=best[0], description=f"{description} depend on each other: {seen}", tests=2 * most
        )


#: Pairs of calls, and reports in each of them.
PAIRS, LENGTH = 16, 256
#: Short calls: at least, at most, and samples for each.
MIN_CALLS, MAX_CALLS, SAMPLES_EACH = 256, 4096, 16
#: Reports of all short calls together, at least.
MIN_REPORTS = 8192
#: Reports of a sequence whose features are tested.
MAX_FEATURE_REPORTS = 4096
#: Keys that are changed bit by bit, and their bits.
KEYS, KEY_BITS = 256, 64
#: Distances are clipped here.
MAX_DISTANCE = 1e100
#: Expected pairs of equal parts from which nine in ten checks find enough of them.
MIN_EXPECTED_PAIRS = 15


@dataclass(frozen=True, kw_only=True)
class Independence:
    """The result of the tests of independence.

    found : the violations, as text. foreign : whether the same generator, or key, gave different reports.
    blocks : whether the report of a key changed with the other reports of the call.
    keys : whether each bit of the keys was flipped by itself.
    seeds : number of seeds, one for each call, that nine in ten checks would have detected; 0 where reports are too
        similar to show any.
    """

    found: tuple[str, ...]
    foreign: bool
    blocks: bool
    keys: bool
    seeds: int


@dataclass(frozen=True, kw_only=True)
class CallReports:
    """Reports of one object, by call.

    one, other : (PAIRS * LENGTH) of pairs of calls; short : of many calls of `length` reports; long : as many reports
    of a single call.
    """

    one: Reports
    other: Reports
    short: Reports
    long: Reports
    length: int

    @property
    def count(self) -> int:
        """Number of short calls."""
        return report_count(self.short) // self.length


def check_independence(
    sampler: Sampler, position: int, event: EventFamily | None, samples: int, error: float
) -> Independence:
    """Compare calls of the mechanism on the object at a position; all tests share the error evenly."""
    calls = _make_calls(sampler, position, samples)
    findings = [*_distance_tests(calls), *_feature_tests(sampler, position, calls, event), _equal_call_test(calls)]
    foreign, blocks = not _equal(_paired_call(sampler, position, 0), _rows(calls.one, slice(0, LENGTH))), False
    by_keys = sampler.method == "report" or obfuscates_by_report(sampler.mechanism)
    if by_keys:
        keys = fresh_keys(sampler.generator(Stage.REPEAT, 0), LENGTH)
        again = sampler.from_keys(np.full(LENGTH // 2, sampler.objects[position]), keys[::2])
        blocks = not foreign and not _equal(again, _rows(calls.one, slice(0, LENGTH, 2)))
        findings += _key_tests(sampler, position, calls)
    tests = sum(finding.tests for finding in findings)
    clearest: dict[str, IndependenceTest] = {}
    for finding in sorted(findings, key=lambda finding: finding.pvalue):
        clearest.setdefault(finding.kind, finding)
    return Independence(
        found=tuple(finding.description for finding in clearest.values() if finding.pvalue * tests < error),
        foreign=foreign,
        blocks=blocks,
        keys=by_keys,
        seeds=_detectable_seeds(calls),
    )


def _make_calls(sampler: Sampler, position: int, samples: int) -> CallReports:
    """Make the reports that are compared."""
    pairs = [_paired_call(sampler, position, number) for number in range(2 * PAIRS)]
    one, other = concatenated(pairs[0::2]), concatenated(pairs[1::2])
    size, held = bytes_of(one), concatenated([one, other])
    prints = fingerprints(held)
    # how likely two reports are to be equal, from all pairs of those that there are
    _, counts = np.unique(prints, return_counts=True)
    equal = (float((counts * (counts - 1)).sum()) / 2 + 1.0) / (len(prints) * (len(prints) - 1) / 2 + 1.0)
    # where `obfuscate` is inherited, randomness does not depend on the call
    most = MIN_CALLS if obfuscates_by_report(sampler.mechanism) else MAX_CALLS
    count = int(np.clip(samples // SAMPLES_EACH, MIN_CALLS, most))
    most = min(max(samples // 2, MIN_REPORTS), max(MIN_CALLS, BYTES_AT_ONCE // max(1, size)))
    # so long that two calls are equal by chance in about one check at most
    length = max(1, math.ceil(2 * math.log(count) / -math.log(min(equal, 1 - 1e-12))))
    if length * count > most:
        length = min(length, max(1, most // MIN_CALLS))
        count = max(2, most // length)
    z = sampler.objects[position]
    short = [
        sampler.make(np.full(length, z, dtype=np.int64), sampler.generator(Stage.REPEAT, 2 * PAIRS + 1 + number))
        for number in range(count)
    ]
    long = sampler.make(np.full(count * length, z, dtype=np.int64), sampler.generator(Stage.REPEAT, 2 * PAIRS))
    return CallReports(one=one, other=other, short=concatenated(short), long=long, length=length)


def _paired_call(sampler: Sampler, position: int, number: int) -> Reports:
    """Make one of the calls that are compared in pairs."""
    objects = np.full(LENGTH, sampler.objects[position], dtype=np.int64)
    return sampler.make(objects, sampler.generator(Stage.REPEAT, number))


def _paired_reports(calls: CallReports) -> Iterator[tuple[str, Reports, Reports]]:
    """Yield pairs of reports that must be as independent as any: their description, the first and the second."""
    place = np.arange(PAIRS * LENGTH).reshape(PAIRS, LENGTH)
    half = LENGTH // 2
    layouts = {
        "neighbors in a call": (place[:, 0::2], place[:, 1::2]),
        "reports of the two halves of a call": (place[:, :half], place[:, half:]),
        "reports at mirrored positions of a call": (place[:, :half], place[:, :half:-1]),
    }
    for description, (some, others) in layouts.items():
        some = some[:, : others.shape[1]]
        yield (
            description,
            concatenated([_rows(calls.one, some.ravel()), _rows(calls.other, some.ravel())]),
            concatenated([_rows(calls.one, others.ravel()), _rows(calls.other, others.ravel())]),
        )
    yield "calls with different generators", calls.one, calls.other
    first = np.arange(0, calls.count - 1, 2) * calls.length
    yield "successive calls", _rows(calls.short, first), _rows(calls.short, first + calls.length)


def _distance_tests(calls: CallReports) -> Iterator[IndependenceTest]:
    """Test the distances of pairs of reports against pairs of different calls at different positions."""
    fresh = {name: _distances(column, calls.long[name][::-1]) for name, column in calls.short.items()}
    for description, some, others in _paired_reports(calls):
        for name, usual in fresh.items():
            apart = _distances(some[name], others[name])
            yield _equality_test(description, description, apart == 0, usual == 0, name if len(some) > 1 else None)
            if len(np.unique(usual)) > 2:
                pvalue = float(stats.mannwhitneyu(apart, usual, method="asymptotic").pvalue)
                more = "less" if np.median(apart) > np.median(usual) else "more"
                seen = f"the mean difference in {name} is {apart.mean():.4g}, of independent ones {usual.mean():.4g}"
                yield IndependenceTest(
                    kind=description,
                    pvalue=pvalue,
                    description=f"{description} are {more} similar than independent ones: {seen}",
                )


def _equality_test(kind: str, description: str, equal: Mask, fresh: Mask, name: str | None) -> IndependenceTest:
    """Test whether pairs of reports are equal at another rate than independent ones."""
    what = "reports" if name is None else name
    seen = f"{equal.mean():.3g} of them are equal, of independent ones {fresh.mean():.3g}"
    verb = "repeat" if equal.mean() > fresh.mean() else "avoid"
    return IndependenceTest(
        kind=kind, pvalue=rate_pvalue(equal, fresh), description=f"{description} {verb} each other's {what}: {seen}"
    )


def _distances(some: NDArray[Any], others: NDArray[Any]) -> Floats:
    """Return the distance of two columns, (pairs,): in bits, entries or size."""
    if some.dtype == np.uint8 and some.ndim == 2:
        each = np.bitwise_count(some ^ others)
    elif some.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            each = np.minimum(np.nan_to_num(np.abs(some - others)), MAX_DISTANCE)
    else:
        each = some != others
    apart: Floats = each.reshape(len(each), -1).sum(axis=1, dtype=np.float64)
    return apart


def _feature_tests(
    sampler: Sampler, position: int, calls: CallReports, event: EventFamily | None
) -> Iterator[IndependenceTest]:
    """Test that features are independent, and as common at the beginning of a call as later."""
    first = _rows(calls.short, np.arange(min(calls.count, MAX_FEATURE_REPORTS)) * calls.length)
    long = _rows(calls.long, slice(0, MAX_FEATURE_REPORTS))
    everything = concatenated([calls.one, calls.other, first, long])
    seen = ReportSample(mechanism=sampler.mechanism, reports=everything)
    features = report_features(seen, position, sampler.objects, event)
    edges = np.cumsum([0, *(report_count(part) for part in (calls.one, calls.other, first, long))])
    one, other, firsts, longs = ({name: feature[a:b] for name, feature in features.items()} for a, b in pairwise(edges))
    yield from lag_tests("reports of one call", longs)
    yield from lag_tests("reports of successive calls", firsts)
    for name in features:
        pvalue, later = rate_pvalue(firsts[name], longs[name][1:]), longs[name][1:]
        rates = f"{name} occurs in {firsts[name].mean():.3g} of them and in {later.mean():.3g} of later ones"
        first_text = f"first reports of calls differ from later ones: {rates}"
        yield IndependenceTest(kind="first reports", pvalue=pvalue, description=first_text)
        for description, some, others in _paired_features(one[name], other[name]):
            both, expected = (some & others).mean(), some.mean() * others.mean()
            rates_text = f"{name} occurs in both in {both:.3g} of the pairs, expected {expected:.3g}"
            dependence = f"{description} depend on each other: {rates_text}"
            yield IndependenceTest(kind=description, pvalue=dependence_pvalue(some, others), description=dependence)


def _paired_features(one: Mask, other: Mask) -> Iterator[tuple[str, Mask, Mask]]:
    """Yield the features of the pairs that are compared within and between calls."""
    place = np.arange(len(one)).reshape(-1, LENGTH)
    half = LENGTH // 2
    both = np.concatenate([one, other])
    place = np.concatenate([place, place + len(one)])
    yield "neighbors in a call", both[place[:, 0::2].ravel()], both[place[:, 1::2].ravel()]
    yield "reports of the two halves of a call", both[place[:, :half].ravel()], both[place[:, half:].ravel()]
    yield "calls with different generators", one, other


def _equal_call_test(calls: CallReports) -> IndependenceTest:
    """Test whether short calls equal each other more often than parts of one long call.

    If all reports are independent, equal ones are as likely in the long call as in short ones: of disjoint pairs of
    equal parts, both are short calls in a quarter.
    """
    count = calls.count
    whole = np.concatenate(
        [_call_fingerprints(calls.short, calls.length), _call_fingerprints(calls.long, calls.length)]
    )
    shuffled = np.random.default_rng(count).permutation(len(whole))
    order = shuffled[np.argsort(whole[shuffled], kind="stable")]
    equal = whole[order[1:]] == whole[order[:-1]]
    # within a run of equal parts, every second neighbor
    place = np.arange(len(equal)) - np.maximum.accumulate(np.where(~equal, np.arange(len(equal)), -1)) - 1
    chosen = np.flatnonzero(equal & (place % 2 == 0))
    both = int(((order[chosen] < count) & (order[chosen + 1] < count)).sum())
    chance = (count - 1) / (2 * (2 * count - 1))
    pvalue = float(stats.binom.sf(both - 1, len(chosen), chance)) if both else 1.0
    seen = f"{both:,} pairs of {count:,} calls are equal, and {len(chosen) - both:,} of as many parts of one call"
    return IndependenceTest(kind="calls", pvalue=pvalue, description=f"calls repeat each other: {seen}")


def _call_fingerprints(reports: Reports, length: int) -> NDArray[np.uint64]:
    """Return fingerprints of all reports of a call together, (calls,)."""
    prints = fingerprints(reports).reshape(-1, length)
    return fingerprints({str(place): column.view(np.int64) for place, column in enumerate(prints.T)})


def _detectable_seeds(calls: CallReports) -> int:
    """Return the number of seeds that nine in ten checks would detect, if equal calls are never coincidences."""
    coincident = len(np.unique(_call_fingerprints(calls.long, calls.length))) < 0.99 * calls.count
    return 0 if coincident else calls.count**2 // (2 * MIN_EXPECTED_PAIRS)


def _key_tests(sampler: Sampler, position: int, calls: CallReports) -> Iterator[IndependenceTest]:
    """Test that reports of keys that differ in one bit are as different as any."""
    keys = fresh_keys(sampler.generator(Stage.REPEAT, 1), KEYS)
    objects = np.full(KEYS, sampler.objects[position], dtype=np.int64)
    plain = _keyed_fingerprints(sampler, objects, keys)
    count = report_count(calls.short)
    fresh = fingerprints(calls.short) == fingerprints(calls.long)[np.arange(count)[::-1]]
    for bit in range(KEY_BITS):
        equal = plain == _keyed_fingerprints(sampler, objects, keys ^ np.uint64(1 << bit))
        yield _equality_test("keys", f"keys that differ in bit {bit} only", equal, fresh, None)


def _keyed_fingerprints(sampler: Sampler, objects: NDArray[np.int64], keys: Keys) -> NDArray[np.uint64]:
    """Return the fingerprints of the reports of some keys."""
    return fingerprints(sampler.from_keys(objects, keys))


def _rows(reports: Reports, rows: NDArray[np.integer] | slice | Sequence[int]) -> Reports:
    """Return some of the reports."""
    return {name: column[rows] for name, column in reports.items()}


def _equal(some: Reports, others: Reports) -> bool:
    """Return whether two sets of reports are equal."""
    return np.array_equal(fingerprints(some), fingerprints(others))
