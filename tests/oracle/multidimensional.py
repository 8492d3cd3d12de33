"""Multidimensional reports in exact fractions, written from their definitions alone.

A report is a tuple with an entry for each attribute, or (attribute, entry) of SMP. An entry is a value (GRR) or a tuple
of bits (SUE, OUE). Odds are e^epsilon of one randomizer, the square of an integer, so that every probability is a
fraction.
"""

from fractions import Fraction
from itertools import product
from math import isqrt


def entries(randomizer, size):
    """Every entry of an attribute."""
    return list(range(size)) if randomizer == "grr" else list(product((0, 1), repeat=size))


def bit_probabilities(randomizer, odds):
    if randomizer == "oue":
        return Fraction(1, 2), Fraction(1, odds + 1)
    root = isqrt(odds)
    assert root * root == odds
    return Fraction(root, root + 1), Fraction(1, root + 1)


def randomized(randomizer, size, odds, value):
    """Entry -> its probability from a value; from the zero vector where the value is None."""
    if randomizer == "grr":
        return {y: Fraction(odds if y == value else 1, odds + size - 1) for y in range(size)}
    p, q = bit_probabilities(randomizer, odds)
    found = {}
    for bits in entries(randomizer, size):
        probability = Fraction(1)
        for z, bit in enumerate(bits):
            one = p if z == value else q
            probability *= one if bit else 1 - one
        found[bits] = probability
    return found


def faked(randomizer, size, odds, fake, prior=None):
    """Entry -> its probability as fake data: "uniform", "zero", "random" or "prior"."""
    if fake == "zero":
        return randomized(randomizer, size, odds, None)
    drawn = prior if fake == "prior" else [Fraction(1, size)] * size
    if randomizer == "grr":
        return dict(enumerate(drawn))
    found = dict.fromkeys(entries(randomizer, size), Fraction(0))
    for value, weight in enumerate(drawn):
        for entry, probability in randomized(randomizer, size, odds, value).items():
            found[entry] += weight * probability
    return found


def joint(kind, randomizers, sizes, odds, x, fake=None, priors=None):
    """(sampled attribute, report) -> probability, for a tuple x; the attribute is None for SPL."""
    d = len(sizes)
    own = [randomized(r, k, odds, value) for r, k, value in zip(randomizers, sizes, x, strict=True)]
    found = {}
    if kind == "spl":
        for report in product(*own):
            found[None, report] = _times(own[j][entry] for j, entry in enumerate(report))
        return found
    if kind == "smp":
        return {(j, (j, entry)): p / d for j in range(d) for entry, p in own[j].items()}
    fakes = [
        faked(r, k, odds, "prior" if priors else "uniform" if r == "grr" else fake, priors and priors[j])
        for j, (r, k) in enumerate(zip(randomizers, sizes, strict=True))
    ]
    for j in range(d):
        for report in product(*own):
            columns = (own[m][entry] if m == j else fakes[m][entry] for m, entry in enumerate(report))
            found[j, report] = _times(columns) / d
    return found


def distribution(*arguments, **options):
    """Report -> probability, for a tuple x."""
    found = {}
    for (_, report), probability in joint(*arguments, **options).items():
        found[report] = found.get(report, Fraction(0)) + probability
    return found


def largest_ratio(distributions, neighbors):
    """The largest Pr[y | x] / Pr[y | x'], for the pairs of tuples that are neighbors."""
    best = Fraction(1)
    for x, other in product(distributions, repeat=2):
        if neighbors(x, other):
            for report, probability in distributions[x].items():
                if distributions[other][report]:
                    best = max(best, probability / distributions[other][report])
                else:
                    assert probability == 0
    return best


def _times(factors):
    found = Fraction(1)
    for factor in factors:
        found *= factor
    return found
