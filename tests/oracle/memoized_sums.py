"""Devices that memoize, by enumeration: every sequence of objects, every memoized response, in exact fractions."""

from fractions import Fraction
from itertools import product

from cases.memoized import pool_integral


def enumerated(adversary, slots, answers, permanent, again, reports):
    """Posterior of the pools, uniform priors: the sum over all sequences of objects and all answers of their slots.

    slots : of each object; answers : all there are.
    permanent(answer, slot), again(report, answer) : their probabilities.
    """
    universe, k, n = adversary.universe, adversary.k, len(reports)
    within = [Fraction(float(x)) for x in adversary.popularity]
    sums = {i: sum(x for x, pool in zip(within, universe.pool_of, strict=True) if pool == i) for i in range(-1, k)}
    within = [x / sums[int(pool)] for x, pool in zip(within, universe.pool_of, strict=True)]
    distribution = {
        (members, slot): sum(
            permanent(answer, slot) * _product(again(reports[t], answer) for t in members) for answer in answers
        )
        for size in range(1, 1 << n)
        for members in [tuple(t for t in range(n) if size >> t & 1)]
        for slot in set(slots)
    }
    scores = [Fraction(0)] * k
    for sequence in product(range(universe.size), repeat=n):
        chance = _product(within[z] for z in sequence)
        for slot in {slots[z] for z in sequence}:
            chance *= distribution[tuple(t for t in range(n) if slots[sequence[t]] == slot), slot]
        pools = [int(universe.pool_of[z]) for z in sequence]
        for i in range(k):
            scores[i] += chance * pool_integral(pools.count(-1), pools.count(i), n, k)
    return [float(score / sum(scores)) for score in scores]


def _product(factors):
    out = Fraction(1)
    for factor in factors:
        out *= factor
    return out
