"""Several collections of one person, by enumeration in exact fractions: every value, every pool, every trace.

Written from the definitions alone, and slow: for a handful of objects and reports.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

from cases.memoized import pool_integral


def fresh_scores(
    channel: Sequence[Sequence[Fraction]],
    reports: Sequence[int],
    within: Sequence[Fraction],
    pool_of: Sequence[int],
    k: int,
) -> list[Fraction]:
    """Return Pr[reports | each pool is the preferred one] of independent reports, for gamma and delta uniform.

    channel : Pr[report | object], a row for each object.
    """
    n, scores = len(reports), [Fraction(0)] * k
    for trace in product(range(len(channel)), repeat=n):
        probability = Fraction(1)
        for z, report in zip(trace, reports, strict=True):
            probability *= channel[z][report] * within[z]
        pools = [pool_of[z] for z in trace]
        for i in range(k):
            scores[i] += probability * pool_integral(pools.count(-1), pools.count(i), n, k)
    return scores


def attribute_posterior(
    prior: Sequence[Fraction], links: Sequence[Sequence[Sequence[Fraction]]], scores: Sequence[Sequence[Fraction]]
) -> list[Fraction]:
    """Return the posterior of the attribute: all combinations of preferred pools are summed one by one."""
    joint = []
    for value, share in enumerate(prior):
        total = Fraction(0)
        for pools in product(*(range(len(own)) for own in scores)):
            probability = Fraction(share)
            for link, own, pool in zip(links, scores, pools, strict=True):
                probability *= Fraction(link[value][pool]) * own[pool]
            total += probability
        joint.append(total)
    return [score / sum(joint) for score in joint]
