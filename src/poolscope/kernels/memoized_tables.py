"""Sums over tables of permanent responses: exact, or by importance samples of injective maps.

The exact sum factors by the sets of slots that have each response. A table splits the slots into one set for each
reported response and one for all others. A response depends on its own set only, so that the sum over tables is a chain
of convolutions over sets: 3^slots products for each response, instead of (responses + 1)^slots tables. Slots of one
class (equal mass and distribution) are only counted. A set is then a *point*, the number of slots of each class. Points
form a lattice of mixed radix, in which v - u is the rest of v without u.

The samples allocate groups of identical reports to slots, no slot to two groups. At a node of the behavior a group of c
reports at slot s has the weight Pr[response | s] Phi(s)^c, and the sum over injective maps of the product of these is a
permanent. Groups are allocated sequentially, the largest first, among the free slots. The proposal avoids slots that
later groups are likely to need, by a mean-field estimate of their demand. The importance weight of a sample is its
product over the probability of its choices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.compilation import inner_unchecked, unchecked
from poolscope.kernels.elementary import exp_all
from poolscope.kernels.memoized_table_chains import draw_pool
from poolscope.kernels.random import uniform

#: Nodes per tile: the values of a set at this many nodes stay in a cache.
TILE = 128


@njit(inline="always")
def _power(base, exponent, count, out):
    """Compute out = base^exponent by squaring; base is overwritten."""
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
def sum_tables(
    first, lower, mass, distribution, counts, inverse_scale, forced_mass, offset_scale, weights, prior, buffer, out
):
    """Add the likelihood of the reports to out (k,), for each pool times its prior.

    Parameters
    ----------
    first, lower : (points + 1,) and (pairs,) the points u <= v of each point v.
    mass : (points, sections) weights of sets.
    distribution : (responses + 1, points) Pr[all slots of a set have the response] over the factorials of its counts;
        "any other response" is last.
    counts, inverse_scale : (responses,) reports, and the scale of their rates.
    forced_mass : (responses, sections) mass of slots that can have no other response.
    offset_scale : (2,) a report has probability offset_scale[0] + offset_scale[1] * weight.
    weights, prior : (k, sections, nodes) and (k, nodes).
    buffer : (4, points, TILE) scratch.
    """
    points, sections = mass.shape
    k, nodes, responses = prior.shape[0], prior.shape[1], counts.shape[0]
    x = buffer[3, 0]
    for i in range(k):
        for at in range(0, nodes, TILE):
            count = min(TILE, nodes - at)
            value, factor, total = buffer[0], buffer[1], buffer[2]
            for v in range(points):
                value[v, :count] = distribution[responses, v]
            for y in range(responses):
                for v in range(points):
                    f, share = factor[v], distribution[y, v]
                    if share == 0.0:
                        f[:count] = 0.0
                        continue
                    x[:count] = offset_scale[0] * inverse_scale[y]
                    for j in range(sections):
                        part, w = offset_scale[1] * inverse_scale[y] * (mass[v, j] + forced_mass[y, j]), weights[i, j]
                        if part != 0.0:
                            for q in range(count):
                                x[q] += part * w[at + q]
                    _power(x, counts[y], count, f)
                    for q in range(count):
                        f[q] *= share
                # the last response only needs the set of all remaining slots
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


#: Passes of the mean-field iteration.
PASSES = 8


@inner_unchecked
def _group_weights(log_response_prob, counts, log_phi, buffer, words, out):
    """Compute out (groups, slots), each row over its largest weight; return the log product of the largest."""
    groups, slots = log_response_prob.shape
    total = 0.0
    for g in range(groups):
        top, row = -np.inf, out[g]
        for s in range(slots):
            row[s] = log_response_prob[g, s] + counts[g] * log_phi[s]
            top = max(top, row[s])
        # where no slot can have sent the group, its weights are negligible, and the log product is -inf
        for s in range(slots):
            row[s] = row[s] - top if top > -np.inf else -np.inf
        exp_all(row, buffer, words, slots)
        total += top
    return total


@inner_unchecked
def _dot(x, y, count):
    """Return the dot product, in four independent sums for instruction-level parallelism."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for s in range(0, count - 3, 4):
        a += x[s] * y[s]
        b += x[s + 1] * y[s + 1]
        c += x[s + 2] * y[s + 2]
        d += x[s + 3] * y[s + 3]
    for s in range(count - count % 4, count):
        a += x[s] * y[s]
    return (a + b) + (c + d)


@inner_unchecked
def _demand(weight, single, scale, spare, out):
    """Compute out (slots,), the expected number of groups at each slot; scale (groups,) normalizes each group."""
    groups, slots = weight.shape
    spare[:] = 1.0
    for _ in range(PASSES):
        out[:] = 0.0
        for g in range(groups):
            scale[g] = 1.0 / _dot(weight[g], spare, slots)
            for s in range(slots):
                out[s] += weight[g, s] * scale[g]
        for s in range(slots):
            spare[s] = 1.0 / (1.0 + single[s] * out[s])


@unchecked
def occupancy_log_likelihood(log_response_prob, counts, log_phi, load, single, buffer, words, weight, out):
    """Compute out (nodes,), the log likelihood at each node if slots were taken independently of each other.

    The result only guides the choice of nodes; `poolscope.inference.memoized.occupancy` describes the approximation.
    log_phi (nodes, slots): log weights of slots; load (nodes, slots): their expected reports. Scratch: buffer (2 *
    slots,), words: the same memory as integers, weight (groups, slots).
    """
    groups, slots = log_response_prob.shape
    for q in range(out.shape[0]):
        total = _group_weights(log_response_prob, counts, log_phi[q], buffer, words, weight)
        for s in range(slots):
            buffer[s] = -load[q, s] if single[s] else 0.0
            total += np.expm1(-load[q, s]) if single[s] else -load[q, s]
        seen = buffer[slots : 2 * slots]
        for s in range(slots):
            seen[s] = np.exp(buffer[s])
        for g in range(groups):
            total += np.log(_dot(weight[g], seen, slots))
        out[q] = total


class Particles(NamedTuple):
    """Partial maps at one node.

    free : (particles, slots) one where a slot is not yet taken.
    taken : (particles, groups) the slot of each group.
    log_lookahead_weight : (particles,) log weight that anticipates the demand of later groups.
    copies, words : scratch.
    """

    free: NDArray[np.float64]
    taken: NDArray[np.int64]
    log_lookahead_weight: NDArray[np.float64]
    copies: NDArray[np.int64]
    words: NDArray[np.int64]


#: Resample where the effective number of particles falls below this share of them.
MIN_ESS_SHARE = 0.5


@inner_unchecked
def _resample(log_lookahead_weight, log_weight, copies, taken, free, offset):
    """Resample particles systematically by exp(log_lookahead_weight) if their effective number is small.

    Particles with offspring stay in place. log_weight (particles,) is updated; copies (particles,) is scratch.
    """
    count, top = log_lookahead_weight.shape[0], -np.inf
    for p in range(count):
        top = max(top, log_lookahead_weight[p])
    total, squares = 0.0, 0.0
    for p in range(count):
        x = np.exp(log_lookahead_weight[p] - top)
        total += x
        squares += x * x
    if not total * total < MIN_ESS_SHARE * count * squares:
        return
    passed, placed = 0.0, 0
    for p in range(count):
        passed += np.exp(log_lookahead_weight[p] - top)
        upto = count if p == count - 1 else min(count, int(np.ceil(passed / total * count - offset)))
        copies[p] = max(upto - placed, 0)
        placed = max(upto, placed)
    mean, source = top + np.log(total / count), 0
    for p in range(count):
        # the weight does not yet include the demand of later groups for its slots
        log_weight[p] = log_weight[p] - log_lookahead_weight[p] + mean if copies[p] > 0 else 0.0
    for p in range(count):
        if copies[p] == 0:
            while copies[source] < 2:
                source += 1
            copies[source] -= 1
            log_weight[p] = log_weight[source]
            for g in range(taken.shape[1]):
                taken[p, g] = taken[source, g]
            for s in range(free.shape[1]):
                free[p, s] = free[source, s]


@unchecked
def allocate(
    problem, workspace, single, log_phi, gamma, key, weight, buffer, scale, share, particles, log_weight, posterior
):
    """Sample maps at nodes, and the posterior of the pools given each map.

    At each node, particles allocate the groups to slots sequentially. A slot that later groups are likely to need is
    proposed less often, and a particle that takes it has a lower weight until they are allocated. Particles are
    resampled where their effective number is small.

    Parameters
    ----------
    log_phi, gamma : (nodes, slots) and (nodes,) of each node.
    single : (slots,) one where a slot takes one group at most, zero where it stands for many slots of little weight.
    weight, buffer, scale, share, particles : scratch: (groups, slots), (5, slots), (groups,), (groups, k + 1), and
        `Particles`.
    log_weight, posterior : (nodes, particles) and (nodes, particles, k) results.
    """
    log_response_prob, counts, mass = problem.log_response_prob, problem.counts, problem.mass
    groups, slots = log_response_prob.shape
    proposal, spare, demand, left, log_spare = buffer[0], buffer[1], buffer[2], buffer[3], buffer[4]
    free, taken, log_lookahead_weight, copies = (
        particles.free,
        particles.taken,
        particles.log_lookahead_weight,
        particles.copies,
    )
    at, count = 0, free.shape[0]
    for q in range(gamma.shape[0]):
        top, total = (
            _group_weights(log_response_prob, counts, log_phi[q], buffer[0], particles.words, weight),
            log_weight[q],
        )
        _demand(weight, single, scale, spare, demand)
        for s in range(slots):
            left[s] = demand[s]
        for p in range(count):
            total[p] = top
            for s in range(slots):
                free[p, s] = 1.0
        for g in range(groups):
            row = weight[g]
            for s in range(slots):
                # rounding must leave no demand below zero
                left[s] = max(left[s] - row[s] * scale[g], 0.0)
                spare[s] = 1.0 / (1.0 + single[s] * left[s])
                log_spare[s] = np.log(spare[s])
                proposal[s] = row[s] * spare[s]
            for p in range(count):
                log_lookahead_weight[p] = total[p]
                if total[p] == -np.inf:
                    continue
                whole = _dot(proposal, free[p], slots)
                if not whole > 0.0:
                    total[p] = log_lookahead_weight[p] = -np.inf
                    continue
                want, s, last = uniform(key, at) * whole, 0, -1
                at += 1
                while s < slots:
                    here = proposal[s] * free[p, s]
                    if here > 0.0:
                        last = s
                        if want < here:
                            break
                        want -= here
                    s += 1
                total[p] += np.log(whole) - log_spare[last]
                taken[p, g] = last
                if single[last] > 0.0:
                    free[p, last] = 0.0
                log_lookahead_weight[p] = total[p]
                for h in range(g + 1):
                    log_lookahead_weight[p] += log_spare[taken[p, h]]
            if g < groups - 1:
                offset = uniform(key, at)
                at += 1
                _resample(log_lookahead_weight, total, copies, taken, free, offset)
        for p in range(count):
            if total[p] > -np.inf:
                for g in range(groups):
                    for j in range(share.shape[1]):
                        share[g, j] = mass[taken[p, g], j]
                draw_pool(problem, share, counts, gamma[q], workspace, 0.0)
            for j in range(posterior.shape[2]):
                posterior[q, p, j] = workspace.posterior[j]
