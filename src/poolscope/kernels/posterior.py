"""The double integral of eq. (score_estimate) after every report, on grids that grow with the integrand's sharpness."""

import numpy as np
from numba import njit
from numpy.polynomial import Chebyshev, Polynomial

from poolscope.kernels.nodes import (
    FRACTION,
    MANTISSA,
    SPAN,
    UNIT,
    lay_grid,
    make_room,
    multiply,
    renormalise,
    scale_reports,
    start,
)

# How far below the peak, in nats, the shape of the integrand counts.
DEPTH = 12.0

# Lines along each axis, besides the one through the peak, on which the shape is looked at.
LINES = 3

# A larger grid is laid for so many times the curvature that asks for it: all earlier reports are multiplied again.
AHEAD = 1.75

_LOG2 = np.log(2.0)

# The logarithm between 1 and 2 as a polynomial.
_C0, _C1, _C2, _C3, _C4, _C5 = Chebyshev.interpolate(np.log, 5, domain=[1.0, 2.0]).convert(kind=Polynomial).coef


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def _peak(product, weight, rows, size):
    """The node with the largest mass, of a grid of rows."""
    best, begin = -1.0, 0
    for row in range(rows):
        top = 0.0
        for j in range(size):
            top = max(top, product[row * size + j] * weight[row * size + j])
        if top > best:
            best, begin = top, row * size
    at = begin
    while at + 1 < begin + size and product[at] * weight[at] != best:
        at += 1
    return at


@njit(inline="always")
def _copy_line(bits, exponent, reference, begin, stride, size, at, mantissa, shift):
    """The products on the line begin, begin + stride, ..., as mantissas and as exponents from `reference`."""
    for j in range(size):
        q = begin + j * stride
        mantissa[at + j] = (bits[q] & MANTISSA) | UNIT
        shift[at + j] = np.float64(np.int64((bits[q] >> FRACTION) + exponent[q] - reference))


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _logarithms(size, line, shift):
    """line = log(line) + shift log 2, for 1 <= line < 2, to 1e-5: a shape needs no more."""
    for j in range(size):
        x = line[j]
        line[j] = _C0 + x * (_C1 + x * (_C2 + x * (_C3 + x * (_C4 + x * _C5)))) + _LOG2 * shift[j]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz", "nnan"})
def _line_curvature(line, bend_left, bend_right):
    """Largest curvature of the log products on a line where there is mass: within e^-DEPTH of the peak.

    Minus the second difference in the angle arccos(1 - 2x), in which Gauss nodes are evenly spaced; the axis has its
    coefficients (`quadrature.bends`).
    """
    size = line.shape[0]
    last = size - 1
    first_end = bend_right[0] * (line[0] - line[1])
    last_end = bend_left[last] * (line[last] - line[last - 1])
    worst = max(first_end if line[0] >= -DEPTH else 0.0, last_end if line[last] >= -DEPTH else 0.0)
    for j in range(size - 2):
        here = line[j + 1]
        curvature = bend_left[j + 1] * (here - line[j]) + bend_right[j + 1] * (here - line[j + 2])
        worst = max(worst, curvature if here >= -DEPTH else 0.0)
    return max(worst, 0.0)


@njit(nogil=True, cache=True)
def _curvatures(rule_g, rule_u, room):
    """Largest curvature of any pool's integrand along g and along u, on the lines through its peak and some others.

    The others matter where the mass lies along an edge or a hyperbola: there the lines through the peak are flat.
    """
    size_g, size_u = rule_g.shape[1], rule_u.shape[1]
    lines = LINES + 1 if size_g > 1 else 1
    along_g, along_u = 0.0, 0.0
    mantissa = room.line.view(np.uint64)
    for i in range(room.tops.shape[0]):
        bits, exponent = room.product[i].view(np.uint64), room.exponent[i]
        peak = _peak(room.product[i], room.weight[i], size_g, size_u)
        reference = (bits[peak] >> FRACTION) + exponent[peak]
        at = 0
        for line in range(lines):
            row = line * (size_g - 1) // (LINES - 1) if line < LINES and lines > 1 else peak // size_u
            _copy_line(bits, exponent, reference, row * size_u, 1, size_u, at, mantissa, room.shift)
            at += size_u
        for line in range(lines if size_g > 1 else 0):
            column = line * (size_u - 1) // (LINES - 1) if line < LINES else peak % size_u
            _copy_line(bits, exponent, reference, column, size_u, size_g, at, mantissa, room.shift)
            at += size_g
        _logarithms(at, room.line, room.shift)
        for begin in range(0, lines * size_u, size_u):
            along_u = max(along_u, _line_curvature(room.line[begin : begin + size_u], rule_u[3], rule_u[4]))
        for begin in range(lines * size_u, at, size_g):
            along_g = max(along_g, _line_curvature(room.line[begin : begin + size_g], rule_g[3], rule_g[4]))
    return along_g, along_u


@njit(inline="always")
def _spread(x, y):
    """1 - min / max: the share of a factor that varies along an axis."""
    return 1.0 - min(x, y) / max(x, y) if x != y else 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _choose_rungs(scaled, begin, end, curvatures, axis_g, axis_u, spread, rungs):
    """The rungs for the posterior after each report of a span, from the curvatures at its begin.

    A report adds to the curvature at most about its spread, and no curvature that matters exceeds the sum of spreads
    (`quadrature`). The choice depends on the reports up to t alone, so that a prefix of the reports has the same bits
    in any run. spread (k + 1, 2) are the sums so far: of pool i along g and u, and of the mean along g.
    """
    k = scaled.shape[1] - 2
    need_g, need_u = curvatures
    g, u = rungs[0, 0], rungs[0, 1]
    for t in range(begin, end):
        neutral, mean = scaled[t, 0], scaled[t, 1]
        grow_g, grow_u = _spread(neutral, mean), 0.0
        spread[k, 0] += grow_g
        most_g, most_u = spread[k, 0], 0.0
        for i in range(k):
            pool = scaled[t, i + 2]
            along_g, along_u = _spread(neutral, pool), _spread(mean, pool)
            spread[i, 0] += along_g
            spread[i, 1] += along_u
            grow_g = max(grow_g, along_g)
            grow_u = max(grow_u, along_u)
            most_g = max(most_g, spread[i, 0])
            most_u = max(most_u, spread[i, 1])
        need_g = min(need_g + grow_g, most_g)
        need_u = min(need_u + grow_u, most_u)
        if not (_holds(g, need_g, t + 1, axis_g) and _holds(u, need_u, t + 1, axis_u)):
            g = _climb(g, AHEAD * need_g, AHEAD * (t + 1), axis_g)
            u = _climb(u, AHEAD * need_u, AHEAD * (t + 1), axis_u)
        rungs[t - begin, 0] = g
        rungs[t - begin, 1] = u


@njit(inline="always")
def _holds(rung, need, reports, axis):
    """Whether a rung holds the curvature, is exact for so many reports, or is the last."""
    return rung + 1 == axis.capacities.shape[0] or axis.capacities[rung] >= need or axis.degrees[rung] >= reports


@njit(inline="always")
def _climb(rung, need, reports, axis):
    """The first rung from here on that holds."""
    while not _holds(rung, need, reports, axis):
        rung += 1
    return rung


@njit(nogil=True, cache=True)
def _scores(n, axis_g, axis_u, room):
    """Scores of one user after every report, as mantissa and exponent of two."""
    rungs = room.rungs
    g, u, nodes = np.int64(-1), np.int64(-1), 0
    rule_g, rule_u = axis_g.rules, axis_u.rules
    curvatures = (0.0, 0.0)
    rungs[0, 0] = 0
    rungs[0, 1] = 0
    room.spread[:] = 0.0
    smallest, corners = 1.0, (0, 0, 0, 0)
    for begin in range(0, n, SPAN):
        end = min(begin + SPAN, n)
        _choose_rungs(room.scaled, begin, end, curvatures, axis_g, axis_u, room.spread, rungs)
        first, ready = begin, False
        while first < end:
            next_g, next_u = rungs[first - begin, 0], rungs[first - begin, 1]
            last = first + 1
            while last < end and rungs[last - begin, 0] == next_g and rungs[last - begin, 1] == next_u:
                last += 1
            if next_g != g or next_u != u:
                # a larger grid: what went before is multiplied again, silently
                g, u = next_g, next_u
                rule_g = axis_g.rules[:, axis_g.offsets[g] : axis_g.offsets[g + 1]]
                rule_u = axis_u.rules[:, axis_u.offsets[u] : axis_u.offsets[u + 1]]
                nodes = rule_g.shape[1] * rule_u.shape[1]
                lay_grid(rule_g, rule_u, room.grid)
                start(nodes, room)
                smallest, corners = 1.0, (0, rule_u.shape[1] - 1, nodes - rule_u.shape[1], nodes - 1)
                for replay in range(0, begin, SPAN):
                    smallest = make_room(replay, replay + SPAN, smallest, corners, nodes, room)
                    multiply(replay, replay + SPAN, n, n, nodes, room)
                ready = False
            if not ready:
                smallest = make_room(begin, end, smallest, corners, nodes, room)
                ready = True
            multiply(begin, last, first, last, nodes, room)
            first = last
        rungs[0, 0] = g
        rungs[0, 1] = u
        if end < n:
            curvatures = _curvatures(rule_g, rule_u, room)


@njit(nogil=True, cache=True, error_model="numpy")
def _normalise(score, score_exponent, pool_prior, n, out):
    """Posterior after every report: out (n + 1, k); row 0 is the prior."""
    k = pool_prior.shape[0]
    for i in range(k):
        out[0, i] = pool_prior[i]
    for t in range(n):
        top = score_exponent[t, 0]
        for i in range(1, k):
            top = max(top, score_exponent[t, i])
        total = 0.0
        for i in range(k):
            value = pool_prior[i] * score[t, i]
            if score_exponent[t, i] != top:
                value *= 2.0 ** -min(np.int64(top - score_exponent[t, i]), 2000)
            out[t + 1, i] = value
            total += value
        for i in range(k):
            out[t + 1, i] /= total


@njit(nogil=True, cache=True)
def posteriors(likelihood, lengths, floor, slope, pool_prior, axis_g, axis_u, room, out):
    """Posterior of every user after every report: out (users, n + 1, k), rows beyond a user's length untouched.

    likelihood (users, n, k + 1); the axes are ladders of rules (`quadrature.Axis`). After an impossible report: NaN.
    """
    for user in range(likelihood.shape[0]):
        n = scale_reports(likelihood[user, : lengths[user]], floor, slope, room.scaled)
        _scores(n, axis_g, axis_u, room)
        _normalise(room.score, room.score_exponent, pool_prior, n, out[user])
        out[user, n + 1 : lengths[user] + 1] = np.nan


@njit(nogil=True, cache=True, error_model="numpy")
def marginals(likelihood, floor, slope, pool_prior, rule_g, rule_u, room, out_g, out_u):
    """Posterior mass at the nodes of each axis after all reports of one user: out_g, out_u (nodes of the axis)."""
    size_u = rule_u.shape[1]
    nodes = rule_g.shape[1] * size_u
    n = scale_reports(likelihood, floor, slope, room.scaled)
    if n < likelihood.shape[0]:
        out_g[:] = np.nan
        out_u[:] = np.nan
        return
    lay_grid(rule_g, rule_u, room.grid)
    start(nodes, room)
    for begin in range(0, n, SPAN):
        multiply(begin, min(begin + SPAN, n), n, n, nodes, room)
        renormalise(nodes, room)
    top = room.tops.max()
    out_g[:] = 0.0
    out_u[:] = 0.0
    total = 0.0
    for i in range(pool_prior.shape[0]):
        share = pool_prior[i] * 2.0 ** -min(np.int64(top - room.tops[i]), 2000)
        for q in range(nodes):
            mass = share * room.product[i, q] * room.weight[i, q]
            out_g[q // size_u] += mass
            out_u[q % size_u] += mass
            total += mass
    out_g /= total
    out_u /= total
