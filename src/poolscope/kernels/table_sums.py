"""The sum over all tables of permanent responses, factored by the sets of slots that have each response.

A table splits the slots into one set for each response that was reported and one for all others. A response only asks
for the weight of its own set, so that the sum over tables is a chain of convolutions over sets: 3^slots products for
each response, instead of (responses + 1)^slots tables. Slots of one class (equal mass and law) are only counted: a set
is then a *point*, the number of slots of each class, and points form a lattice of mixed radix in which v - u is the
rest of v without u.
"""

from numba import njit

#: Nodes that are worked on together: the values of a set at so many stay in a cache.
TILE = 128


@njit(inline="always")
def _power(base, exponent, count, out):
    """out = base^exponent by squaring; base is spent."""
    out[:count] = 1.0
    while exponent > 0:
        if exponent & 1:
            for q in range(count):
                out[q] *= base[q]
        exponent >>= 1
        if exponent > 0:
            for q in range(count):
                base[q] *= base[q]


@njit(nogil=True, cache=True)
def sum_tables(first, lower, mass, law, counts, inverse, base, rate, weights, prior, room, out):
    """Adds the likelihood of the reports to out (k,), each pool by its prior.

    first (points + 1,), lower (pairs,) : the points u <= v of each point v.
    mass (points, sections) : weights of sets; law (responses + 1, points) : Pr[all of a set have the response], over
        the factorials of its counts, "any other" last.
    counts, inverse (responses,) : reports, and over what they are scaled; base (responses, sections) : mass of slots
        that can have no other response.
    rate (2,) : a report has probability rate[0] + rate[1] * weight.
    weights (k, sections, nodes), prior (k, nodes).
    room (4, points, TILE) : scratch.
    """
    points, sections = mass.shape
    k, nodes, responses = prior.shape[0], prior.shape[1], counts.shape[0]
    x = room[3, 0]
    for i in range(k):
        for at in range(0, nodes, TILE):
            count = min(TILE, nodes - at)
            value, factor, total = room[0], room[1], room[2]
            for v in range(points):
                value[v, :count] = law[responses, v]
            for y in range(responses):
                for v in range(points):
                    f, share = factor[v], law[y, v]
                    if share == 0.0:
                        f[:count] = 0.0
                        continue
                    x[:count] = rate[0] * inverse[y]
                    for j in range(sections):
                        part, w = rate[1] * inverse[y] * (mass[v, j] + base[y, j]), weights[i, j]
                        if part != 0.0:
                            for q in range(count):
                                x[q] += part * w[at + q]
                    _power(x, counts[y], count, f)
                    for q in range(count):
                        f[q] *= share
                # of the last response only the set of all slots that are left is asked for
                for v in range(points - 1 if y == responses - 1 else 0, points):
                    t = total[v]
                    t[:count] = 0.0
                    for pair in range(first[v], first[v + 1]):
                        u = lower[pair]
                        a, f = value[u], factor[v - u]
                        for q in range(count):
                            t[q] += a[q] * f[q]
                value, total = total, value
            for q in range(count):
                out[i] += prior[i, at + q] * value[points - 1, q]
