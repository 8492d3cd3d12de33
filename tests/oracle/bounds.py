"""What bounds are held against, from definitions alone: all is enumerated, in mpmath and with no regard to speed."""

from collections import defaultdict
from itertools import product

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
    law = [binomial(n, j) * exp(-j * mpf(epsilon)) / (1 + exp(-mpf(epsilon))) ** n for j in range(n + 1)]
    return hockey_stick(dict(enumerate(law)), dict(enumerate(reversed(law))), s)


def trade_off(epsilon, n, alpha):
    """f(alpha), the least error of the second kind at an error of the first: the upper envelope of its tangents."""
    tangents = (1 - composed_delta(epsilon, n, s) - exp(s) * alpha for s in slopes(epsilon, n))
    return max(mpf(0), *tangents)


def slopes(epsilon, n):
    return [(n - 2 * j) * mpf(epsilon) for j in range(n + 1)]


def clones(epsilon, devices):
    """The two laws of the clones: all numbers of clones, all splits of them, both answers of the device."""
    share, true = exp(-mpf(epsilon)), exp(mpf(epsilon)) / (1 + exp(mpf(epsilon)))
    one, other = defaultdict(mpf), defaultdict(mpf)
    for c in range(devices):
        there = binomial(devices - 1, c) * share**c * (1 - share) ** (devices - 1 - c)
        for a in range(c + 1):
            weight = there * binomial(c, a) / mpf(2) ** c
            for law, first in ((one, true), (other, 1 - true)):
                law[a + 1, c - a] += weight * first
                law[a, c - a + 1] += weight * (1 - first)
    return one, other


def shuffled_bits(epsilon, devices, ones):
    """Law of how many ones arrive from devices that answer by randomized response, so many of which have a one."""
    lie = 1 / (1 + exp(mpf(epsilon)))
    law = {0: mpf(1)}
    for device in range(devices):
        says_one, after = 1 - lie if device < ones else lie, defaultdict(mpf)
        for x, p in law.items():
            after[x + 1] += p * says_one
            after[x] += p * (1 - says_one)
        law = after
    return law
