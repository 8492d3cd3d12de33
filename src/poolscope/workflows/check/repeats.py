"""Are reports of one object independent of each other, and alike wherever in a call they are?

A *mark* is something that a report has or has not: it supports its object, many of its bits are set, its value is the
usual one. Marks of reports that are independent are too: of two neighbors, of the same place in two calls, of two
reports any number of places apart. Each is a table of two by two, for which Fisher's test is exact.

Is every report drawn independently, and from the generator or the key that it is given?

Two reports of an object may be equal, or alike, by chance, and how often depends on the mechanism. But it must not
depend on where they were made. Neighbors in a call, reports of its two halves, reports at the same place of two calls
and those of calls one after another must be as alike as reports of different calls at different places. Many short
calls must repeat each other no more often than as many parts of one long call. A mechanism that seeds a generator of
its own, by a constant, by the clock or by one of thousands of values, fails here, and so does one whose noise
is balanced over pairs of reports, follows a schedule, or is left out at the beginning of a call.
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
from poolscope.workflows.check.distribution import states_law
from poolscope.workflows.check.events import Family, Seen, Truths, bit_column, difference, fingerprints
from poolscope.workflows.check.sampling import BYTES_AT_ONCE, Sampler, Stage, bytes_of, joined, obfuscates_by_report

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


#: Pairs of calls, and reports in each of them.
PAIRS, LENGTH = 16, 256
#: Short calls: at least, at most, and one for so many samples.
FEWEST_CALLS, MAX_CALLS, SAMPLES_EACH = 256, 4096, 16
#: Reports of all short calls together that are made however few samples there are.
FEWEST_REPORTS = 8192
#: Reports of a sequence whose marks are looked at.
MAX_MARKED = 4096
#: Keys that are changed in each of their bits.
KEYS, KEY_BITS = 256, 64
#: Distances beyond it are as good as infinite.
LARGEST = 1e100
#: Of pairs of equal parts: how many are needed on average so that nine in ten checks find enough of them.
PAIRS_NEEDED = 15


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """What calls of the mechanism show.

    found : what is wrong, in words. foreign : whether the same generator, or key, gave different reports.
    blocks : whether the report of a key changed with the other reports of the call.
    keys : whether each bit of the keys was changed by itself.
    seeds : how many seeds, one of them for each call, nine in ten checks would have found; 0 where reports are too much
        alike to show any.
    """

    found: tuple[str, ...]
    foreign: bool
    blocks: bool
    keys: bool
    seeds: int


@dataclass(frozen=True, kw_only=True)
class Calls:
    """Reports of one object.

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
        """How many short calls there are."""
        return report_count(self.short) // self.length


def repeats(sampler: Sampler, position: int, event: Family | None, samples: int, error: float) -> Repeats:
    """Compare calls of the mechanism on the object at a position; all tests share the error evenly."""
    calls = _made(sampler, position, samples)
    findings = [*_alike(calls), *_marked(sampler, position, calls, event), _equal_calls(calls)]
    foreign, blocks = not _same(_pair(sampler, position, 0), _part(calls.one, slice(0, LENGTH))), False
    by_keys = sampler.method == "report" or obfuscates_by_report(sampler.mechanism)
    if by_keys:
        keys = fresh_keys(sampler.generator(Stage.REPEAT, 0), LENGTH)
        again = sampler.keyed(np.full(LENGTH // 2, sampler.objects[position]), keys[::2])
        blocks = not foreign and not _same(again, _part(calls.one, slice(0, LENGTH, 2)))
        findings += _keys(sampler, position, calls)
    tests = sum(finding.tests for finding in findings)
    clearest: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda finding: finding.pvalue):
        clearest.setdefault(finding.kind, finding)
    return Repeats(
        found=tuple(finding.words for finding in clearest.values() if finding.pvalue * tests < error),
        foreign=foreign,
        blocks=blocks,
        keys=by_keys,
        seeds=_seeds(calls),
    )


def _made(sampler: Sampler, position: int, samples: int) -> Calls:
    pairs = [_pair(sampler, position, number) for number in range(2 * PAIRS)]
    one, other = joined(pairs[0::2]), joined(pairs[1::2])
    size, held = bytes_of(one), joined([one, other])
    prints = fingerprints(held)
    # how likely two reports are to be equal, from all pairs of those that there are
    _, counts = np.unique(prints, return_counts=True)
    equal = (float((counts * (counts - 1)).sum()) / 2 + 1.0) / (len(prints) * (len(prints) - 1) / 2 + 1.0)
    # where `obfuscate` is our own a call is no unit of randomness
    most = FEWEST_CALLS if obfuscates_by_report(sampler.mechanism) else MAX_CALLS
    count = int(np.clip(samples // SAMPLES_EACH, FEWEST_CALLS, most))
    most = min(max(samples // 2, FEWEST_REPORTS), max(FEWEST_CALLS, BYTES_AT_ONCE // max(1, size)))
    # as many reports to a call that two calls are equal by chance in one check at most
    length = max(1, math.ceil(2 * math.log(count) / -math.log(min(equal, 1 - 1e-12))))
    if length * count > most:
        length = min(length, max(1, most // FEWEST_CALLS))
        count = max(2, most // length)
    z = sampler.objects[position]
    short = [
        sampler.make(np.full(length, z, dtype=np.int64), sampler.generator(Stage.REPEAT, 2 * PAIRS + 1 + number))
        for number in range(count)
    ]
    long = sampler.make(np.full(count * length, z, dtype=np.int64), sampler.generator(Stage.REPEAT, 2 * PAIRS))
    return Calls(one=one, other=other, short=joined(short), long=long, length=length)


def _pair(sampler: Sampler, position: int, number: int) -> Reports:
    """One of the calls that are compared in pairs."""
    objects = np.full(LENGTH, sampler.objects[position], dtype=np.int64)
    return sampler.make(objects, sampler.generator(Stage.REPEAT, number))


def _compared(calls: Calls) -> Iterator[tuple[str, Reports, Reports]]:
    """Pairs of reports that must be as fresh as any: what they are, the ones and the others."""
    place = np.arange(PAIRS * LENGTH).reshape(PAIRS, LENGTH)
    half = LENGTH // 2
    layouts = {
        "neighbors in a call": (place[:, 0::2], place[:, 1::2]),
        "reports of the two halves of a call": (place[:, :half], place[:, half:]),
        "reports as far from the beginning as from the end of a call": (place[:, :half], place[:, :half:-1]),
    }
    for words, (some, others) in layouts.items():
        some = some[:, : others.shape[1]]
        yield (
            words,
            joined([_part(calls.one, some.ravel()), _part(calls.other, some.ravel())]),
            joined([_part(calls.one, others.ravel()), _part(calls.other, others.ravel())]),
        )
    yield "calls with different generators", calls.one, calls.other
    first = np.arange(0, calls.count - 1, 2) * calls.length
    yield "calls one after another", _part(calls.short, first), _part(calls.short, first + calls.length)


def _alike(calls: Calls) -> Iterator[Finding]:
    """How far pairs of reports are apart, beside pairs of different calls at different places."""
    fresh = {name: _apart(column, calls.long[name][::-1]) for name, column in calls.short.items()}
    for words, some, others in _compared(calls):
        for name, usual in fresh.items():
            apart = _apart(some[name], others[name])
            yield _repeating(words, words, apart == 0, usual == 0, name if len(some) > 1 else None)
            if len(np.unique(usual)) > 2:
                pvalue = float(stats.mannwhitneyu(apart, usual, method="asymptotic").pvalue)
                more = "less" if np.median(apart) > np.median(usual) else "more"
                seen = f"they differ by {apart.mean():.4g} in {name}, fresh ones by {usual.mean():.4g}"
                yield Finding(kind=words, pvalue=pvalue, words=f"{words} are {more} alike than fresh ones: {seen}")


def _repeating(kind: str, words: str, equal: Truths, fresh: Truths, name: str | None) -> Finding:
    what = "reports" if name is None else name
    seen = f"{equal.mean():.3g} of them are equal, of fresh ones {fresh.mean():.3g}"
    verb = "repeat" if equal.mean() > fresh.mean() else "avoid"
    return Finding(kind=kind, pvalue=different(equal, fresh), words=f"{words} {verb} each other's {what}: {seen}")


def _apart(some: NDArray[Any], others: NDArray[Any]) -> Floats:
    """(pairs,) how far two columns are apart: in bits, entries or size."""
    if some.dtype == np.uint8 and some.ndim == 2:
        each = np.bitwise_count(some ^ others)
    elif some.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            each = np.minimum(np.nan_to_num(np.abs(some - others)), LARGEST)
    else:
        each = some != others
    apart: Floats = each.reshape(len(each), -1).sum(axis=1, dtype=np.float64)
    return apart


def _marked(sampler: Sampler, position: int, calls: Calls, event: Family | None) -> Iterator[Finding]:
    """Marks of reports: independent of each other, and as common at the beginning of a call as later."""
    first = _part(calls.short, np.arange(min(calls.count, MAX_MARKED)) * calls.length)
    long = _part(calls.long, slice(0, MAX_MARKED))
    everything = joined([calls.one, calls.other, first, long])
    seen = Seen(mechanism=sampler.mechanism, reports=everything)
    marks = marks_of(seen, position, sampler.objects, event)
    edges = np.cumsum([0, *(report_count(part) for part in (calls.one, calls.other, first, long))])
    one, other, firsts, longs = ({name: mark[a:b] for name, mark in marks.items()} for a, b in pairwise(edges))
    yield from lagged("reports of one call", longs)
    yield from lagged("reports of calls one after another", firsts)
    for name in marks:
        pvalue, later = different(firsts[name], longs[name][1:]), longs[name][1:]
        rates = f"{name} is in {firsts[name].mean():.3g} of them, in {later.mean():.3g} of later ones"
        first_words = f"first reports of calls differ from later ones: {rates}"
        yield Finding(kind="first reports", pvalue=pvalue, words=first_words)
        for words, some, others in _places(one[name], other[name]):
            seen_words = f"{name} is in {(some & others).mean():.3g} of both, not in {some.mean() * others.mean():.3g}"
            dependence = f"{words} depend on each other: {seen_words}"
            yield Finding(kind=words, pvalue=dependent(some, others), words=dependence)


def _places(one: Truths, other: Truths) -> Iterator[tuple[str, Truths, Truths]]:
    """Marks of the pairs that are compared within and between calls."""
    place = np.arange(len(one)).reshape(-1, LENGTH)
    half = LENGTH // 2
    both = np.concatenate([one, other])
    place = np.concatenate([place, place + len(one)])
    yield "neighbors in a call", both[place[:, 0::2].ravel()], both[place[:, 1::2].ravel()]
    yield "reports of the two halves of a call", both[place[:, :half].ravel()], both[place[:, half:].ravel()]
    yield "calls with different generators", one, other


def _equal_calls(calls: Calls) -> Finding:
    """Equal calls beside equal parts of one long call.

    If all reports are independent, equal ones are as likely in the long call as in short ones: of disjoint pairs of
    equal parts, both are short calls in a quarter.
    """
    count = calls.count
    whole = np.concatenate([_blocks(calls.short, calls.length), _blocks(calls.long, calls.length)])
    shuffled = np.random.default_rng(count).permutation(len(whole))
    order = shuffled[np.argsort(whole[shuffled], kind="stable")]
    equal = whole[order[1:]] == whole[order[:-1]]
    # within a run of equal parts every other neighbor
    place = np.arange(len(equal)) - np.maximum.accumulate(np.where(~equal, np.arange(len(equal)), -1)) - 1
    chosen = np.flatnonzero(equal & (place % 2 == 0))
    both = int(((order[chosen] < count) & (order[chosen + 1] < count)).sum())
    chance = (count - 1) / (2 * (2 * count - 1))
    pvalue = float(stats.binom.sf(both - 1, len(chosen), chance)) if both else 1.0
    seen = f"{both:,} pairs of {count:,} calls are equal, and {len(chosen) - both:,} of as many parts of one call"
    return Finding(kind="calls", pvalue=pvalue, words=f"calls repeat each other: {seen}")


def _blocks(reports: Reports, length: int) -> NDArray[np.uint64]:
    """(calls,) fingerprints of all reports of a call together."""
    prints = fingerprints(reports).reshape(-1, length)
    return fingerprints({str(place): column.view(np.int64) for place, column in enumerate(prints.T)})


def _seeds(calls: Calls) -> int:
    """How many seeds nine in ten checks would find, if equal calls are equal by no accident."""
    by_chance = len(np.unique(_blocks(calls.long, calls.length))) < 0.99 * calls.count
    return 0 if by_chance else calls.count**2 // (2 * PAIRS_NEEDED)


def _keys(sampler: Sampler, position: int, calls: Calls) -> Iterator[Finding]:
    """Reports of keys that differ in one bit must be as fresh as any."""
    keys = fresh_keys(sampler.generator(Stage.REPEAT, 1), KEYS)
    objects = np.full(KEYS, sampler.objects[position], dtype=np.int64)
    plain = _prints(sampler, objects, keys)
    count = report_count(calls.short)
    fresh = fingerprints(calls.short) == fingerprints(calls.long)[np.arange(count)[::-1]]
    for bit in range(KEY_BITS):
        equal = plain == _prints(sampler, objects, keys ^ np.uint64(1 << bit))
        yield _repeating("keys", f"keys that differ in bit {bit} alone", equal, fresh, None)


def _prints(sampler: Sampler, objects: NDArray[np.int64], keys: Keys) -> NDArray[np.uint64]:
    return fingerprints(sampler.keyed(objects, keys))


def _part(reports: Reports, rows: NDArray[np.integer] | slice | Sequence[int]) -> Reports:
    return {name: column[rows] for name, column in reports.items()}


def _same(some: Reports, others: Reports) -> bool:
    return np.array_equal(fingerprints(some), fingerprints(others))
