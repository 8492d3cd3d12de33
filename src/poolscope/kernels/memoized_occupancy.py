"""Kernels of the occupancy approximation and of exact sums over injective maps from groups of reports to objects."""

from __future__ import annotations

import numpy as np
from numba import njit

# A running product below this is moved into the logarithm, before it underflows.
_SMALL = 1e-100

# Nodes per tile: its basis stays in the second-level cache for all groups.
TILE = 64


@njit(nogil=True, cache=True)
def injective_sums(weights, out):
    """Compute, for every set of groups, the sum over injective maps to the objects of the product of their weights.

    weights (groups, objects), out (2^groups,), indexed by the set's bit mask. Objects are added one by one, each for at
    most one group; from the largest set down, so that no object is used twice. All terms are non-negative.
    """
    groups, objects = weights.shape
    out[:] = 0.0
    out[0] = 1.0
    for z in range(objects):
        for some in range(out.shape[0] - 1, 0, -1):
            total = out[some]
            for g in range(groups):
                if some >> g & 1:
                    total += weights[g, z] * out[some ^ (1 << g)]
            out[some] = total


@njit(nogil=True, cache=True)
def bin_moments(weights, order, first, gap, single, out):
    """Compute out (groups, columns): the sums of weight, weight gap and weight gap^2 / 2 over the objects of each bin.

    weights (groups, objects); order (objects,): the objects by bin; first (bins + 1,): first entry of each bin; gap
    (objects,): mean rate of the bin minus the rate of the object. A `single` bin has only the first sum.
    """
    for g in range(weights.shape[0]):
        row, column = weights[g], 0
        for b in range(single.shape[0]):
            none, once, twice = 0.0, 0.0, 0.0
            for i in range(first[b], first[b + 1]):
                weight, x = row[order[i]], gap[i]
                none += weight
                once += weight * x
                twice += weight * x * x
            out[g, column] = none
            column += 1
            if not single[b]:
                out[g, column] = once
                out[g, column + 1] = 0.5 * twice
                column += 2


@njit(inline="always")
def _mass(moments, basis, low, high, at, count, out):
    """Compute out[:count], the product of moments low to high with the basis, at `count` nodes from `at` on."""
    out[:] = 0.0
    for c in range(low, high - 3, 4):
        a, b, d, e = moments[c], moments[c + 1], moments[c + 2], moments[c + 3]
        one, two = basis[c, at : at + count], basis[c + 1, at : at + count]
        three, four = basis[c + 2, at : at + count], basis[c + 3, at : at + count]
        for q in range(count):
            out[q] += (a * one[q] + b * two[q]) + (d * three[q] + e * four[q])
    for c in range(high - (high - low) % 4, high):
        a, one = moments[c], basis[c, at : at + count]
        for q in range(count):
            out[q] += a * one[q]


@njit(nogil=True, cache=True)
def group_factors(moments, basis, sections, kind, powers, workspace, out):
    """Compute the likelihood factor of each group by preferred pool: out (groups, k, nodes).

    The mass of a section at a node is the sum over its objects of their weight times e^(-rate node). The objects of a
    bin are combined: with y = (mean - rate) node, e^y is approximated by 1 + y + y^2 / 2. A tile of the basis stays in
    cache for all groups.

    Parameters
    ----------
    moments : (groups, columns).
    basis : (2, columns, nodes) of preferred and other pools.
    sections : (k + 2,) first column of each section.
    kind, powers : (groups,) and (3, kinds, nodes) kind[group] is the index of its count, and powers are the weights of
        neutral, preferred and other pools to the power of that count.
    workspace : (4, TILE) scratch.
    """
    groups, k, nodes = out.shape
    for at in range(0, nodes, TILE):
        count = min(TILE, nodes - at)
        base, others, own, other = (
            workspace[0, :count],
            workspace[1, :count],
            workspace[2, :count],
            workspace[3, :count],
        )
        for g in range(groups):
            row, of = moments[g], kind[g]
            p1, p2 = powers[1, of, at : at + count], powers[2, of, at : at + count]
            _mass(row, basis[0], sections[0], sections[1], at, count, base)
            p0 = powers[0, of, at : at + count]
            for q in range(count):
                base[q] *= p0[q]
            others[:] = 0.0
            for i in range(k):
                _mass(row, basis[0], sections[i + 1], sections[i + 2], at, count, own)
                _mass(row, basis[1], sections[i + 1], sections[i + 2], at, count, other)
                factor = out[g, i, at : at + count]
                # the pool itself and the other pools before it; those after it are added later
                for q in range(count):
                    factor[q] = base[q] + own[q] * p1[q] + others[q]
                for q in range(count):
                    other[q] *= p2[q]
                    others[q] += other[q]
                for j in range(i):
                    before = out[g, j, at : at + count]
                    for q in range(count):
                        before[q] += other[q]


@njit(nogil=True, cache=True)
def log_product(factors, rows, workspace, out):
    """Add the log of the product of some rows of factors (groups, nodes) to out (nodes,); workspace (nodes,) is
    scratch.
    """
    workspace[:] = 1.0
    for r in rows:
        row, small = factors[r], 0
        for q in range(out.shape[0]):
            workspace[q] *= row[q]
            small += workspace[q] < _SMALL
        if small > 0:
            for q in range(out.shape[0]):
                if workspace[q] < _SMALL:
                    out[q] += np.log(workspace[q])
                    workspace[q] = 1.0
    for q in range(out.shape[0]):
        out[q] += np.log(workspace[q])
