"""Devices that keep their answers, by enumeration in fractions: all objects behind the reports, and all answers.

Written from the definitions alone, and slow: for a handful of objects, answers and reports. A *slot* is what a device
keeps one answer for: the object itself, or what it is hashed or sorted into. What is the same in all of a user's
reports (cohort, seed, positions) does not depend on the objects, so that a device here is that of one user, with it
given.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product

from cases.memoized import pool_integral

ONE = Fraction(1)


@dataclass(frozen=True)
class Kept:
    """One user's device.

    slots : the slot of each object.
    answers : all answers there are; reports : all reports.
    permanent : Pr[answer | slot]; instantaneous : Pr[report | answer].
    """

    slots: tuple[int, ...]
    answers: tuple[Hashable, ...]
    reports: tuple[Hashable, ...]
    permanent: Callable[[Hashable, int], Fraction]
    instantaneous: Callable[[Hashable, Hashable], Fraction]


def identical(distribution: Sequence[Sequence[Fraction]], slots: Sequence[int] | None = None) -> Kept:
    """An answer 0, 1, 2 ... that is sent as it is; law[slot][answer]."""
    answers = tuple(range(len(distribution[0])))
    return Kept(
        slots=tuple(range(len(distribution)) if slots is None else slots),
        answers=answers,
        reports=answers,
        permanent=lambda answer, slot: Fraction(distribution[slot][answer]),
        instantaneous=lambda report, answer: Fraction(int(report == answer)),
    )


def values(g: int, truth: Fraction, instantaneous: Fraction, slots: Sequence[int] | None = None) -> Kept:
    """Randomized response among g values, twice: the true value, and the kept one, with these probabilities.

    L-GRR where the slot is the object; LOLOHA where it is the object's hash.
    """

    def response(given: int, value: int, kept: Fraction) -> Fraction:
        return kept if given == value else (1 - kept) / (g - 1)

    return Kept(
        slots=tuple(range(g) if slots is None else slots),
        answers=tuple(range(g)),
        reports=tuple(range(g)),
        permanent=lambda answer, slot: response(answer, slot, truth),
        instantaneous=lambda report, answer: response(report, answer, instantaneous),
    )


def bits(
    m: int,
    ones: Sequence[set[int]],
    permanent: tuple[Fraction, Fraction],
    instantaneous: tuple[Fraction, Fraction] = (ONE, Fraction(0)),
    slots: Sequence[int] | None = None,
) -> Kept:
    """Vectors of m independent bits: ones[slot] are those that are set.

    permanent, instantaneous : the probability that a one becomes one, and that a zero does. Unary encodings where a
    slot has a bit of its own, RAPPOR with those of its Bloom filter, and dBitFlip without `instantaneous`, where m are
    the kept positions and the slots are buckets, most of which have no bit there.
    """
    vectors = tuple(product((0, 1), repeat=m))

    def chance(vector: tuple[int, ...], before: Sequence[int], distribution: tuple[Fraction, Fraction]) -> Fraction:
        out = ONE
        for bit, was in zip(vector, before, strict=True):
            one = distribution[0] if was else distribution[1]
            out *= one if bit else 1 - one
        return out

    return Kept(
        slots=tuple(range(len(ones)) if slots is None else slots),
        answers=vectors,
        reports=vectors,
        permanent=lambda answer, slot: chance(answer, [int(i in ones[slot]) for i in range(m)], permanent),
        instantaneous=lambda report, answer: chance(report, answer, instantaneous),
    )


def of_one_answer(device: Kept, reports: Sequence[Hashable], slot: int) -> Fraction:
    """Pr[reports | one kept answer to the slot], the answer summed out."""
    total = Fraction(0)
    for answer in device.answers:
        chance = device.permanent(answer, slot)
        for report in reports:
            if not chance:
                break
            chance *= device.instantaneous(report, answer)
        total += chance
    return total


def of_trace(device: Kept, reports: Sequence[Hashable], trace: Sequence[int]) -> Fraction:
    """Pr[reports | the objects behind them], all kept answers summed out."""
    return _of_slots(_memo(device, tuple(reports)), [device.slots[z] for z in trace])


def pool_scores(
    device: Kept, reports: Sequence[Hashable], within: Sequence[Fraction], pool_of: Sequence[int], k: int
) -> list[Fraction]:
    """Pr[reports | each pool is the preferred one], for gamma and delta uniform; their shares are the posterior.

    within : the popularity of each object in its pool; pool_of : its pool, -1 for the neutral one.
    """
    likelihood, n = _memo(device, tuple(reports)), len(reports)
    scores = [Fraction(0)] * k
    for trace in product(range(len(device.slots)), repeat=n):
        chance = _of_slots(likelihood, [device.slots[z] for z in trace])
        if not chance:
            continue
        for z in trace:
            chance *= within[z]
        pools = [pool_of[z] for z in trace]
        for i in range(k):
            scores[i] += chance * pool_integral(pools.count(-1), pools.count(i), n, k)
    return scores


def table_scores(
    device: Kept, reports: Sequence[Hashable], within: Sequence[Fraction], pool_of: Sequence[int], k: int
) -> list[Fraction]:
    """The same as `pool_scores` by another route: the sum over all tables of permanent responses, one for each slot.

    Given the table, reports are independent: the probability of one is linear in the weights of the sections. The
    product over reports is a polynomial in these weights, and each of its monomials has a closed integral.
    """
    slots, n = sorted(set(device.slots)), len(reports)
    scores = [Fraction(0)] * k
    for responses in product(device.answers, repeat=len(slots)):
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
    device: Kept, reports: Sequence[Hashable], within: Sequence[Fraction], pool_of: Sequence[int], k: int
) -> list[Fraction]:
    """The posterior of the preferred pool, every pool being as likely before; exact."""
    scores = pool_scores(device, reports, within, pool_of, k)
    return [score / sum(scores) for score in scores]


def _memo(device: Kept, reports: tuple[Hashable, ...]) -> Callable[[tuple[int, ...], int], Fraction]:
    """Likelihood of the reports at some places, given one answer to a slot: each is worked out once."""

    @cache
    def likelihood(event_index: tuple[int, ...], slot: int) -> Fraction:
        return of_one_answer(device, [reports[t] for t in event_index], slot)

    return likelihood


def _of_slots(likelihood: Callable[[tuple[int, ...], int], Fraction], slots: Sequence[int]) -> Fraction:
    chance = ONE
    for slot in set(slots):
        chance *= likelihood(tuple(t for t, s in enumerate(slots) if s == slot), slot)
        if not chance:
            break
    return chance
