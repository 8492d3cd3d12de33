"""The double integral of eq. (score_estimate) after every report, on grids that grow with the integrand's sharpness."""

import numpy as np
from numba import njit

from poolscope.kernels.nodes import SPAN, lay_grid, multiply, renormalise, scale_reports, start

# How far below the peak, in nats, the shape of the integrand counts.
DEPTH = 12.0

# Lines along each axis, besides the one through the peak, on which the shape is looked at.
LINES = 3

_LOG2 = np.log(2.0)


@njit(inline="always")
def _log_mantissa(x):
    """log x for 1 <= x < 2 to 2e-4, by the area tangent: a shape needs no more."""
    s = (x - 1.0) / (x + 1.0)
    return 2.0 * s * (1.0 + s * s * (1.0 / 3.0 + s * s / 5.0))


@njit(nogil=True, cache=True, error_model="numpy")
def _line_curvature(product, exponent, reference, begin, stride, size, angles):
    """Largest curvature of the log products on the line begin, begin + stride, ..., where there is mass.

    Minus the second difference in the angle arccos(1 - 2x), in which Gauss nodes are evenly spaced, over the nodes
    whose product is within e^-DEPTH of 2^reference. The integrand is even in the angle at both ends of the axis, so the
    neighbour of an end is its mirror image. At an end the curvature counts twice: it doubles when the peak leaves it.
    """
    worst = 0.0
    left, here, right = 0.0, -np.inf, -np.inf
    for j in range(-1, size):
        left, here = here, right
        if j + 1 < size:
            q = begin + (j + 1) * stride
            right = _log_mantissa(product[q]) + _LOG2 * (np.float64(exponent[q]) - reference)
        if j < 0 or here < -DEPTH:
            continue
        at_end = j == 0 or j + 1 == size
        before = angles[j - 1] if j > 0 else -angles[0]
        after = angles[j + 1] if j + 1 < size else 2.0 * np.pi - angles[j]
        rise = (right - here) / (after - angles[j]) if j + 1 < size else 0.0
        fall = (here - left) / (angles[j] - before) if j > 0 else 0.0
        curvature = 2.0 * (fall - rise) / (after - before)
        worst = max(worst, 2.0 * curvature if at_end else curvature)
    return worst


@njit(nogil=True, cache=True)
def _peak(product, weight, nodes):
    best, at = -1.0, 0
    for q in range(nodes):
        mass = product[q] * weight[q]
        if mass > best:
            best, at = mass, q
    return at


@njit(nogil=True, cache=True)
def _curvatures(rule_g, rule_u, room):
    """Largest curvature of any pool's integrand along g and along u, on the lines through its peak and some others.

    The others matter where the mass lies along an edge or a hyperbola: there the lines through the peak are flat.
    """
    size_g, size_u = rule_g.shape[1], rule_u.shape[1]
    along_g, along_u = 0.0, 0.0
    for i in range(room.tops.shape[0]):
        product, exponent = room.product[i], room.exponent[i]
        q = _peak(product, room.weight[i], size_g * size_u)
        reference = np.float64(room.tops[i])
        for line in range(-1, LINES):
            row = q // size_u if line < 0 else line * (size_g - 1) // (LINES - 1)
            column = q % size_u if line < 0 else line * (size_u - 1) // (LINES - 1)
            if size_g > 1:
                value = _line_curvature(product, exponent, reference, column, size_u, size_g, rule_g[3])
                along_g = max(along_g, value)
            value = _line_curvature(product, exponent, reference, row * size_u, 1, size_u, rule_u[3])
            along_u = max(along_u, value)
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
        g = _climb(g, need_g, t + 1, axis_g)
        u = _climb(u, need_u, t + 1, axis_u)
        rungs[t - begin, 0] = g
        rungs[t - begin, 1] = u


@njit(inline="always")
def _climb(rung, need, reports, axis):
    """The first rung from here on that holds the curvature, or is exact for so many reports."""
    while rung + 1 < axis.capacities.shape[0] and axis.capacities[rung] < need and axis.degrees[rung] < reports:
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
    for begin in range(0, n, SPAN):
        end = min(begin + SPAN, n)
        _choose_rungs(room.scaled, begin, end, curvatures, axis_g, axis_u, room.spread, rungs)
        first = begin
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
                for replay in range(0, begin, SPAN):
                    multiply(replay, replay + SPAN, n, n, nodes, room)
                    renormalise(nodes, room)
            multiply(begin, last, first, last, nodes, room)
            first = last
        rungs[0, 0] = g
        rungs[0, 1] = u
        if end < n:
            renormalise(nodes, room)
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
