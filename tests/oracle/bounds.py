"""What bounds are compared with, from definitions alone: all is enumerated, in mpmath and with no regard to speed."""

from collections import defaultdict
from itertools import combinations_with_replacement, product

from mpmath import MPContext

mp = MPContext()
mp.dps = 50
binomial, exp, mpf = mp.binomial, mp.exp, mp.mpf


def randomized_response(k, epsilon):
    """[pool][report]"""
    e = exp(mpf(epsilon))
    return [[(e if i == y else 1) / (e + k - 1) for y in range(k)] for i in range(k)]


def right(channels, prior):
    """How often the best guess is right that sees one report through each channel: of all who can be, the best."""
    reports = product(*(range(len(channel[0])) for channel in channels))
    return sum(
        max(p * mp.fprod(c[i][y] for c, y in zip(channels, seen, strict=True)) for i, p in enumerate(prior))
        for seen in reports
    )


def hockey_stick(one, other, epsilon):
    """delta of two laws, each a probability by outcome, at epsilon."""
    return sum(max(mpf(0), p - exp(epsilon) * other.get(x, 0)) for x, p in one.items())


def composed_delta(epsilon, n, s):
    """delta at s of n randomized responses about one of two things, by the number of lies."""
    distribution = [binomial(n, j) * exp(-j * mpf(epsilon)) / (1 + exp(-mpf(epsilon))) ** n for j in range(n + 1)]
    return hockey_stick(dict(enumerate(distribution)), dict(enumerate(reversed(distribution))), s)


def trade_off(epsilon, n, alpha):
    """f(alpha), the least error of the second kind at an error of the first: the upper envelope of its tangents."""
    tangents = (1 - composed_delta(epsilon, n, s) - exp(s) * alpha for s in likelihood_scales(epsilon, n))
    return max(mpf(0), *tangents)


def likelihood_scales(epsilon, n):
    return [(n - 2 * j) * mpf(epsilon) for j in range(n + 1)]


def group_response(groups, epsilon):
    """[pool][report] Randomized response about which group of pools the pool is in."""
    k, e = sum(map(len, groups)), exp(mpf(epsilon))
    return [[(e if pool in group else 1) / (e + len(groups) - 1) for group in groups] for pool in range(k)]


def extremal_channels_of_three(epsilon):
    """All extremal channels from three pools: the sets of pools that reports name cover every pool equally."""
    e, pools = exp(mpf(epsilon)), range(3)
    yield group_response([{pool} for pool in pools], epsilon)
    yield [[(1 if pool == left_out else e) / (2 * e + 1) for left_out in pools] for pool in pools]
    for alone in pools:
        yield group_response([{alone}, {*pools} - {alone}], epsilon)


def max_right_of_three(epsilon, n):
    """The largest probability of a right guess of one of three pools by n reports without feedback."""
    channels = list(extremal_channels_of_three(epsilon))
    return max(right(chosen, [mpf(1) / 3] * 3) for chosen in combinations_with_replacement(channels, n))


def power(epsilon, rates, size):
    """Largest probability that a test of this size rejects, where report t names the pool with probability rates[t].

    Under the alternative the odds of being named are e^epsilon times as large.
    """
    null, other = {0: mpf(1)}, {0: mpf(1)}
    for rate in map(mpf, rates):
        odds = exp(mpf(epsilon)) * rate
        null, other = named(null, rate), named(other, odds / (odds + 1 - rate))
    left, found = mpf(size), mpf(0)
    # the likelihood ratio grows with the number of reports that name the pool
    for count in sorted(null, reverse=True):
        share = min(mpf(1), left / null[count]) if null[count] else mpf(1)
        left, found = left - share * null[count], found + share * other[count]
    return found


def named(distribution, rate):
    """Law of a count after one more trial."""
    after = defaultdict(mpf)
    for count, p in distribution.items():
        after[count + 1] += p * rate
        after[count] += p * (1 - rate)
    return after


def blanket(kinds, devices):
    """The two laws of shuffled reports of which all but one come from a blanket or are known.

    kinds : of reports, (P_0, P_1, blanket) each; the blanket's mass is that of reports that come from it.
    """
    mass = sum(omega for *_, omega in kinds)
    distributions = defaultdict(mpf), defaultdict(mpf)
    for hidden in range(devices):
        there = binomial(devices - 1, hidden) * (1 - mass) ** (devices - 1 - hidden)
        for counts in splits(hidden, len(kinds)):
            ways = mp.factorial(hidden)
            for count, (*_, omega) in zip(counts, kinds, strict=True):
                ways *= omega**count / mp.factorial(count)
            for distribution, side in zip(distributions, (0, 1), strict=True):
                for place, kind in enumerate(kinds):
                    seen = tuple(count + (place == at) for at, count in enumerate(counts))
                    distribution[seen] += there * ways * kind[side]
    return distributions


def splits(total, parts):
    """All ways to write a number as a sum of so many numbers, in order."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        yield from ((first, *rest) for rest in splits(total - first, parts - 1))


def any_blanket(epsilon):
    """The worst blanket of an epsilon-LDP mechanism: two reports, each e^epsilon times as likely for one object."""
    e = exp(mpf(epsilon))
    return [(e / (e + 1), 1 / (e + 1), 1 / (e + 1)), (1 / (e + 1), e / (e + 1), 1 / (e + 1))]


def histograms(rows):
    """Law of the histogram of one report from each of several devices, each a distribution over reports."""
    distribution = {(0,) * len(rows[0]): mpf(1)}
    for row in rows:
        after = defaultdict(mpf)
        for seen, p in distribution.items():
            for report, likely in enumerate(row):
                after[tuple(count + (at == report) for at, count in enumerate(seen))] += p * likely
        distribution = after
    return distribution


def twice(distribution):
    """Law of two independent draws."""
    return {(first, second): p * q for first, p in distribution.items() for second, q in distribution.items()}


def shuffled_bits(epsilon, devices, ones):
    """Law of how many ones arrive from devices that answer by randomized response, so many of which have a one."""
    flip_probability = 1 / (1 + exp(mpf(epsilon)))
    distribution = {0: mpf(1)}
    for device in range(devices):
        distribution = named(distribution, 1 - flip_probability if device < ones else flip_probability)
    return distribution
