"""Devices that memoize, by enumeration in exact fractions: all objects behind the reports, and all responses.

Written from the definitions alone, and slow: for a handful of objects, responses and reports. A *slot* is what a device
memoizes one response for: the object itself, or its hash value or bucket. Per-device values (cohort, seed, positions)
do not depend on the objects, so that a device here is that of one user, with these given.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product

from cases.memoized import pool_integral

ONE = Fraction(1)


@dataclass(frozen=True)
class MemoizedDevice:
    """One user's device.

    slots : the slot of each object.
    responses : all possible responses; reports : all possible reports.
    permanent : Pr[response | slot]; instantaneous : Pr[report | response].
    """

    slots: tuple[int, ...]
    responses: tuple[Hashable, ...]
    reports: tuple[Hashable, ...]
    permanent: Callable[[Hashable, int], Fraction]
    instantaneous: Callable[[Hashable, Hashable], Fraction]


def identical(distribution: Sequence[Sequence[Fraction]], slots: Sequence[int] | None = None) -> MemoizedDevice:
    """Return a device that sends its response 0, 1, 2 ... unchanged; distribution[slot][response]."""
    responses = tuple(range(len(distribution[0])))
    return MemoizedDevice(
        slots=tuple(range(len(distribution)) if slots is None else slots),
        responses=responses,
        reports=responses,
        permanent=lambda response, slot: Fraction(distribution[slot][response]),
        instantaneous=lambda report, response: Fraction(int(report == response)),
    )


def values(g: int, truth: Fraction, instantaneous: Fraction, slots: Sequence[int] | None = None) -> MemoizedDevice:
    """Return randomized response among g values, twice: the true value, and the memoized one, with these probabilities.

    L-GRR where the slot is the object; LOLOHA where it is the object's hash value.
    """

    def randomized(given: int, value: int, p: Fraction) -> Fraction:
        return p if given == value else (1 - p) / (g - 1)

    return MemoizedDevice(
        slots=tuple(range(g) if slots is None else slots),
        responses=tuple(range(g)),
        reports=tuple(range(g)),
        permanent=lambda response, slot: randomized(response, slot, truth),
        instantaneous=lambda report, response: randomized(report, response, instantaneous),
    )


def bits(
    m: int,
    ones: Sequence[set[int]],
    permanent: tuple[Fraction, Fraction],
    instantaneous: tuple[Fraction, Fraction] = (ONE, Fraction(0)),
    slots: Sequence[int] | None = None,
) -> MemoizedDevice:
    """Return vectors of m independent bits: ones[slot] are those that are set.

    permanent, instantaneous : the probability that a one becomes one, and that a zero does.

    Unary encodings where a slot has a bit of its own, RAPPOR with those of its Bloom filter, and dBitFlip without
    `instantaneous`, where m are the positions of the user and the slots are buckets, most of which have no bit there.
    """
    vectors = tuple(product((0, 1), repeat=m))

    def probability(
        vector: tuple[int, ...], before: Sequence[int], distribution: tuple[Fraction, Fraction]
    ) -> Fraction:
        out = ONE
        for bit, was in zip(vector, before, strict=True):
            one = distribution[0] if was else distribution[1]
            out *= one if bit else 1 - one
        return out

    return MemoizedDevice(
        slots=tuple(range(len(ones)) if slots is None else slots),
        responses=vectors,
        reports=vectors,
        permanent=lambda response, slot: probability(response, [int(i in ones[slot]) for i in range(m)], permanent),
        instantaneous=lambda report, response: probability(report, response, instantaneous),
    )


def of_one_response(device: MemoizedDevice, reports: Sequence[Hashable], slot: int) -> Fraction:
    """Return Pr[reports | one memoized response of the slot], with the response summed out."""
    total = Fraction(0)
    for response in device.responses:
        probability = device.permanent(response, slot)
        for report in reports:
            if not probability:
                break
            probability *= device.instantaneous(report, response)
        total += probability
    return total


def of_trace(device: MemoizedDevice, reports: Sequence[Hashable], trace: Sequence[int]) -> Fraction:
    """Return Pr[reports | the objects behind them], with all memoized responses summed out."""
    return _of_slots(_memo(device, tuple(reports)), [device.slots[z] for z in trace])


def pool_scores(
    device: MemoizedDevice, reports: Sequence[Hashable], within: Sequence[Fraction], pool_of: Sequence[int], k: int
) -> list[Fraction]:
    """Pr[reports | each pool is the preferred one], for gamma and delta uniform; their shares are the posterior.

    within : the popularity of each object in its pool; pool_of : its pool, -1 for the neutral one.
    """
    likelihood, n = _memo(device, tuple(reports)), len(reports)
    scores = [Fraction(0)] * k
    for trace in product(range(len(device.slots)), repeat=n):
        probability = _of_slots(likelihood, [device.slots[z] for z in trace])
        if not probability:
            continue
        for z in trace:
            probability *= within[z]
        pools = [pool_of[z] for z in trace]
        for i in range(k):
            scores[i] += probability * pool_integral(pools.count(-1), pools.count(i), n, k)
    return scores


def table_scores(
    device: MemoizedDevice, reports: Sequence[Hashable], within: Sequence[Fraction], pool_of: Sequence[int], k: int
) -> list[Fraction]:
    """The same as `pool_scores` by another route: the sum over all tables of permanent responses, one for each slot.

    Given the table, reports are independent: the probability of one is linear in the weights of the sections. The
    product over reports is a polynomial in these weights, and each of its monomials has a closed integral.
    """
    slots, n = sorted(set(device.slots)), len(reports)
    scores = [Fraction(0)] * k
    for responses in product(device.responses, repeat=len(slots)):
        table = dict(zip(slots, responses, strict=True))
        drawn = ONE
        for slot, response in table.items():
            drawn *= device.permanent(response, slot)
        monomials = {(0,) * (k + 1): drawn} if drawn else {}
        for report in reports:
            linear = [Fraction(0)] * (k + 1)
            for z, slot in enumerate(device.slots):
                linear[pool_of[z] + 1] += within[z] * device.instantaneous(report, table[slot])
            monomials = _times(monomials, linear)
        for powers, coefficient in monomials.items():
            for i in range(k):
                scores[i] += coefficient * pool_integral(powers[0], powers[i + 1], n, k)
    return scores


def _times(polynomial: dict[tuple[int, ...], Fraction], linear: Sequence[Fraction]) -> dict[tuple[int, ...], Fraction]:
    """A polynomial in the sections' weights, by powers, times a linear form in them."""
    out: dict[tuple[int, ...], Fraction] = {}
    for powers, coefficient in polynomial.items():
        for j, factor in enumerate(linear):
            if factor:
                more = (*powers[:j], powers[j] + 1, *powers[j + 1 :])
                out[more] = out.get(more, Fraction(0)) + coefficient * factor
    return out


def posterior(
    device: MemoizedDevice, reports: Sequence[Hashable], within: Sequence[Fraction], pool_of: Sequence[int], k: int
) -> list[Fraction]:
    """The posterior of the preferred pool, every pool being as likely before; exact."""
    scores = pool_scores(device, reports, within, pool_of, k)
    return [score / sum(scores) for score in scores]


def _memo(device: MemoizedDevice, reports: tuple[Hashable, ...]) -> Callable[[tuple[int, ...], int], Fraction]:
    """Likelihood of the reports at some places, given one response to a slot: each is worked out once."""

    @cache
    def likelihood(event_index: tuple[int, ...], slot: int) -> Fraction:
        return of_one_response(device, [reports[t] for t in event_index], slot)

    return likelihood


def _of_slots(likelihood: Callable[[tuple[int, ...], int], Fraction], slots: Sequence[int]) -> Fraction:
    probability = ONE
    for slot in set(slots):
        probability *= likelihood(tuple(t for t, s in enumerate(slots) if s == slot), slot)
        if not probability:
            break
    return probability
