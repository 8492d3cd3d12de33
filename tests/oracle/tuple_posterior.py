"""Likelihoods of tuple reports given pools, in exact fractions, by enumeration of all tuples and all monomials.

A person's values of attribute c are drawn from (1 - g) neutral + g (u own pool + (1 - u) any pool), with g and u
uniform on (0, 1). Where no value is neutral, g is one. A polynomial in all g and u is a dictionary from exponents to
coefficients.
"""

from fractions import Fraction
from itertools import product
from math import prod


def times(one, other):
    found = {}
    for (a, x), (b, y) in product(one.items(), other.items()):
        key = tuple(i + j for i, j in zip(a, b, strict=True))
        found[key] = found.get(key, Fraction(0)) + x * y
    return found


def plus(one, other):
    return {key: one.get(key, Fraction(0)) + other.get(key, Fraction(0)) for key in {*one, *other}}


def integral(polynomial):
    return sum(value * prod(Fraction(1, 1 + power) for power in powers) for powers, value in polynomial.items())


def value_polynomial(z, attribute, d, pool, pool_of, weights):
    """Probability of one value as a polynomial; `pool_of` is -1 for neutral values, weights sum to one in a pool."""
    k, constant = max(pool_of) + 1, [0] * (2 * d)
    g, gu = list(constant), list(constant)
    g[2 * attribute] = gu[2 * attribute] = int(-1 in pool_of)
    gu[2 * attribute + 1] = 1
    own = weights[z]
    if pool_of[z] < 0:
        return {tuple(constant): own, tuple(g): -own}
    rest = Fraction(own, k)
    return {tuple(g): rest, tuple(gu): (own if pool_of[z] == pool else 0) - rest}


def likelihood(reports, probability, pools, pool_of, weights):
    """Pr[reports | preferred pools]: probability(y, x) is that of one report y from a tuple x."""
    d = len(pools)
    values = [
        [value_polynomial(z, c, d, pools[c], pool_of[c], weights[c]) for z in range(len(weights[c]))] for c in range(d)
    ]
    everything = {(0,) * (2 * d): Fraction(1)}
    for y in reports:
        one = {}
        for x in product(*(range(len(own)) for own in weights)):
            chance = probability(y, x)
            if chance:
                term = {(0,) * (2 * d): chance}
                for c, z in enumerate(x):
                    term = times(term, values[c][z])
                one = plus(one, term)
        everything = times(everything, one)
    return integral(everything)


def posterior(evidence, prior, links, used):
    """Pr[value | reports] from the likelihood of each combination of pools, with the links of the used attributes."""
    believed = [
        [sum(p * row[i] for p, row in zip(prior, link, strict=True)) for i in range(len(link[0]))] for link in links
    ]
    scores = []
    for a, p in enumerate(prior):
        total = Fraction(0)
        for pools, value in evidence.items():
            weight = Fraction(1)
            for c, i in enumerate(pools):
                weight *= links[c][a][i] if used[c] else believed[c][i]
            total += weight * value
        scores.append(p * total)
    return [score / sum(scores) for score in scores]


def pool_posterior(evidence, prior, links, attribute):
    """Pr[pool of one attribute | reports]: every value and every combination of pools is summed one by one."""
    scores = [Fraction(0)] * len(links[attribute][0])
    for a, p in enumerate(prior):
        for pools, value in evidence.items():
            scores[pools[attribute]] += p * value * prod(links[c][a][i] for c, i in enumerate(pools))
    return [score / sum(scores) for score in scores]
