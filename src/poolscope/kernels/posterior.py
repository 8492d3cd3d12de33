"""The double integral of eq. (score_estimate) after every report, on grids that grow with what they must resolve.

For pool i a report's factor at the node (g, u) is  L0 (1-g) + g (Lbar (1-u) + Li u): every term is non-negative, so
nothing cancels. A row of a grid holds all pools and all u side by side, and LANE reports go through it in one pass.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Reports to one pass over the nodes, and rows of nodes to a step of it.
LANE, ROWS = 4, 4

# Rows have a multiple of this many columns: no vector of processor registers is left half full.
COLUMNS = 16

# Reports for which a grid should hold before it is looked at again; what an integrand's sharpness may grow by, beyond
# all foresight and as a multiple of a report's spread; and the reports for which the first grid is laid.
LAST, MARGIN, GROWTH, FIRST_STAGE = 6, 1.0, 2.0, 12

# Products lie between these: each pool's largest begins at the upper one.
_MOST, _FEW, _LEAST = 900, 2.0**-400, 2.0**-960

_FAST = {"reassoc", "contract", "nsz"}


class Scratch(NamedTuple):
    """Room for one user of n reports and k pools, on grids of so many nodes and columns."""

    scaled: NDArray[np.float64]  # (n + LANE, k + 2): neutral, mean over pools, pools; the largest is one
    spread: NDArray[np.float64]  # (n + LANE, 3): how much a report varies at most along g and u; its smallest value
    product: NDArray[np.float64]  # (nodes,)
    mantissa: NDArray[np.float64]  # (nodes,)
    exponent: NDArray[np.int64]  # (nodes,)
    lane: NDArray[np.float64]  # (LANE * columns,)
    sums: NDArray[np.float64]  # (LANE * columns,)
    lines: NDArray[np.float64]  # (4 * rows,)
    tops: NDArray[np.int64]  # (k,) power of two that is taken out of each pool's products
    scale: NDArray[np.float64]  # (k,) pool prior times 2^(top - largest top)


class Grid(NamedTuple):
    """A tensor rule, and what is known at its nodes: rows are the nodes of g, columns the pools' nodes of u."""

    rule_g: NDArray[np.float64]
    rule_u: NDArray[np.float64]
    product: NDArray[np.float64]  # (rows, columns) running products times node weights
    mantissa: NDArray[np.float64]  # (rows, columns) the same where doubles cannot hold them all ...
    exponent: NDArray[np.int64]  # (rows, columns) ... with their powers of two
    lane: NDArray[np.float64]  # (LANE, columns) a lane's likelihoods at g = 1
    sums: NDArray[np.float64]  # (LANE, columns)
    lines: NDArray[np.float64]  # (4, rows)
    least: float  # no factor is less than that share of its report's largest value


def scratch(n: int, k: int, size_g: int, size_u: int) -> Scratch:
    """Fresh room for grids up to these sizes."""
    width = _width(k, size_u)
    return Scratch(
        scaled=np.empty((n + LANE, k + 2)),
        spread=np.empty((n + LANE, 3)),
        product=np.empty(size_g * width),
        mantissa=np.empty(size_g * width),
        exponent=np.empty(size_g * width, dtype=np.int64),
        lane=np.empty(LANE * width),
        sums=np.empty(LANE * width),
        lines=np.empty(4 * size_g),
        tops=np.empty(k, dtype=np.int64),
        scale=np.empty(k),
    )


@njit(nogil=True, cache=True)
def _width(k, size_u):
    return (k * size_u + COLUMNS - 1) // COLUMNS * COLUMNS


@njit(nogil=True, cache=True, error_model="numpy")
def scale_reports(likelihood, floor, slope, room):
    """Likelihoods of one user's reports, scaled to a maximum of one; returns how many come before an impossible one.

    The LANE reports behind the last say nothing.
    """
    scaled, spread = room.scaled, room.spread
    n, k = likelihood.shape[0], likelihood.shape[1] - 1
    possible = n
    for t in range(n):
        neutral = floor + slope * likelihood[t, 0]
        total, low, high = 0.0, np.inf, 0.0
        for i in range(k):
            value = floor + slope * likelihood[t, i + 1]
            scaled[t, i + 2] = value
            total += value
            low = min(low, value)
            high = max(high, value)
        top, mean = max(high, neutral), total / k
        if top == 0.0:
            possible = t
            break
        # 1 - min / max of a factor's two ends, for whichever pool it is largest
        spread[t, 0] = max(
            1.0 - low / neutral if low < neutral else 0.0, 1.0 - neutral / high if high > neutral else 0.0
        )
        spread[t, 1] = max(1.0 - low / mean, 1.0 - mean / high) if low < high else 0.0
        spread[t, 2] = min(low, neutral) / top
        scaled[t, 0] = neutral
        scaled[t, 1] = mean
        inverse = 1.0 / top
        for c in range(k + 2):
            scaled[t, c] *= inverse
    scaled[possible : possible + LANE] = 1.0
    spread[possible : possible + LANE] = 0.0
    spread[possible : possible + LANE, 2] = 1.0
    return possible


@njit(nogil=True, cache=True, fastmath=_FAST)
def _lay_lane(t, scaled, rule_u, lane):
    """What a lane's reports say at g = 1: the mean and the pool, mixed by u."""
    size_u = rule_u.shape[1]
    l0, l1, l2, l3 = lane[0], lane[1], lane[2], lane[3]
    m0, m1, m2, m3 = scaled[t, 1], scaled[t + 1, 1], scaled[t + 2, 1], scaled[t + 3, 1]
    for i in range(scaled.shape[1] - 2):
        p0, p1, p2, p3 = scaled[t, i + 2], scaled[t + 1, i + 2], scaled[t + 2, i + 2], scaled[t + 3, i + 2]
        for b in range(size_u):
            u, rest = rule_u[0, b], rule_u[1, b]
            q = i * size_u + b
            l0[q] = m0 * rest + p0 * u
            l1[q] = m1 * rest + p1 * u
            l2[q] = m2 * rest + p2 * u
            l3[q] = m3 * rest + p3 * u


@njit(nogil=True, cache=True, fastmath=_FAST)
def _multiply(t, scaled, rule_g, lane, product):
    """Multiply a lane's reports into the products (nodes of g, columns)."""
    l0, l1, l2, l3 = lane[0], lane[1], lane[2], lane[3]
    n0, n1, n2, n3 = scaled[t, 0], scaled[t + 1, 0], scaled[t + 2, 0], scaled[t + 3, 0]
    for e in range(0, product.shape[0], 2):
        ga, gb, ra, rb, pa, pb = (
            rule_g[0, e],
            rule_g[0, e + 1],
            rule_g[1, e],
            rule_g[1, e + 1],
            product[e],
            product[e + 1],
        )
        for q in range(product.shape[1]):
            w, x, y, z = l0[q], l1[q], l2[q], l3[q]
            a, b = (n0 * ra + ga * w) * (n1 * ra + ga * x), (n0 * rb + gb * w) * (n1 * rb + gb * x)
            pa[q] *= a * ((n2 * ra + ga * y) * (n3 * ra + ga * z))
            pb[q] *= b * ((n2 * rb + gb * y) * (n3 * rb + gb * z))


@njit(nogil=True, cache=True, fastmath=_FAST)
def _multiply_and_sum(t, scaled, rule_g, lane, product, sums):
    """As `_multiply`, ROWS rows at a time; sums (LANE, columns) are those over g after each report."""
    l0, l1, l2, l3 = lane[0], lane[1], lane[2], lane[3]
    s0, s1, s2, s3 = sums[0], sums[1], sums[2], sums[3]
    n0, n1, n2, n3 = scaled[t, 0], scaled[t + 1, 0], scaled[t + 2, 0], scaled[t + 3, 0]
    sums[:] = 0.0
    for e in range(0, product.shape[0], ROWS):
        ga, gb, gc, gd = rule_g[0, e], rule_g[0, e + 1], rule_g[0, e + 2], rule_g[0, e + 3]
        ra, rb, rc, rd = rule_g[1, e], rule_g[1, e + 1], rule_g[1, e + 2], rule_g[1, e + 3]
        pa, pb, pc, pd = product[e], product[e + 1], product[e + 2], product[e + 3]
        for q in range(product.shape[1]):
            x = l0[q]
            a, b = pa[q] * (n0 * ra + ga * x), pb[q] * (n0 * rb + gb * x)
            c, d = pc[q] * (n0 * rc + gc * x), pd[q] * (n0 * rd + gd * x)
            s0[q] += (a + b) + (c + d)
            x = l1[q]
            a *= n1 * ra + ga * x
            b *= n1 * rb + gb * x
            c *= n1 * rc + gc * x
            d *= n1 * rd + gd * x
            s1[q] += (a + b) + (c + d)
            x = l2[q]
            a *= n2 * ra + ga * x
            b *= n2 * rb + gb * x
            c *= n2 * rc + gc * x
            d *= n2 * rd + gd * x
            s2[q] += (a + b) + (c + d)
            x = l3[q]
            a *= n3 * ra + ga * x
            b *= n3 * rb + gb * x
            c *= n3 * rc + gc * x
            d *= n3 * rd + gd * x
            s3[q] += (a + b) + (c + d)
            pa[q], pb[q], pc[q], pd[q] = a, b, c, d


@njit(nogil=True, cache=True, fastmath=_FAST)
def _write(t, size_u, sums, scale, out):
    """Posteriors of a lane from the sums over g: out (n + 1, k)."""
    k = scale.shape[0]
    s0, s1, s2, s3 = sums[0], sums[1], sums[2], sums[3]
    for i in range(k):
        x0, x1, x2, x3 = 0.0, 0.0, 0.0, 0.0
        for q in range(i * size_u, (i + 1) * size_u):
            x0 += s0[q]
            x1 += s1[q]
            x2 += s2[q]
            x3 += s3[q]
        s0[i], s1[i], s2[i], s3[i] = scale[i] * x0, scale[i] * x1, scale[i] * x2, scale[i] * x3
    for r in range(min(LANE, out.shape[0] - 1 - t)):
        total = 0.0
        for i in range(k):
            total += sums[r, i]
        inverse = 1.0 / total
        for i in range(k):
            out[t + r + 1, i] = inverse * sums[r, i]


# What a grid resolves


@njit(nogil=True, cache=True, fastmath=_FAST)
def _along_g(rule_g, product, sums):
    """sums (4, columns): mass of every column, and its coefficients along g."""
    s0, s1, s2, s3 = sums[0], sums[1], sums[2], sums[3]
    sums[:] = 0.0
    for e in range(product.shape[0]):
        v1, v2, v3, row = rule_g[3, e], rule_g[4, e], rule_g[5, e], product[e]
        for q in range(product.shape[1]):
            x = row[q]
            s0[q] += x
            s1[q] += v1 * x
            s2[q] += v2 * x
            s3[q] += v3 * x


@njit(nogil=True, cache=True, fastmath=_FAST)
def _along_u(rule_u, product, begin, lines):
    """lines (4, rows / ROWS): mass and coefficients along u of every ROWSth row of the pool that begins there."""
    u1, u2, u3 = rule_u[3], rule_u[4], rule_u[5]
    l0, l1, l2, l3 = lines[0], lines[1], lines[2], lines[3]
    for e in range(product.shape[0] // ROWS):
        s0, s1, s2, s3, row = 0.0, 0.0, 0.0, 0.0, product[ROWS * e + ROWS // 2, begin : begin + rule_u.shape[1]]
        for b in range(row.shape[0]):
            x = row[b]
            s0 += x
            s1 += u1[b] * x
            s2 += u2[b] * x
            s3 += u3[b] * x
        l0[e], l1[e], l2[e], l3[e] = s0, s1, s2, s3


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def _error(lines, begin, end):
    """Relative error of a rule on lines of known masses and coefficients (`quadrature`)."""
    m, c1, c2, c3 = lines[0], lines[1], lines[2], lines[3]
    mass, error = 0.0, 0.0
    for q in range(begin, end):
        inverse = 1.0 / m[q] if m[q] > 0.0 else 0.0
        x, y, z = c1[q] * inverse, c2[q] * inverse, c3[q] * inverse
        sixth, eighth = x * x + y * y, (z * z) * (z * z)
        mass += m[q]
        error += m[q] * (sixth * sixth * sixth + eighth * eighth)
    return error / mass


@njit(nogil=True, cache=True)
def _needs(grid, k, nodes_g, nodes_u):
    """How sharp the integrand of any pool is along g and along u, in units of `resolution`."""
    size_g, size_u = grid.rule_g.shape[1], grid.rule_u.shape[1]
    _along_g(grid.rule_g, grid.product, grid.sums)
    worst_g, worst_u = 0.0, 0.0
    for i in range(k):
        begin = i * size_u
        worst_g = max(worst_g, _error(grid.sums, begin, begin + size_u))
        _along_u(grid.rule_u, grid.product, begin, grid.lines)
        worst_u = max(worst_u, _error(grid.lines, np.int64(0), size_g // ROWS))
    return _sharpness(worst_g, nodes_g), _sharpness(worst_u, nodes_u)


@njit(inline="always")
def _sharpness(error, nodes):
    """Of an integrand on which a rule of so many nodes has that error."""
    if error == 0.0:
        return 0.0
    return 2.0 * nodes * nodes / -np.log(error) if error < 1.0 else np.inf


@njit(inline="always")
def _holds(rung, need, reports, axis):
    """Whether a rung resolves that much, is exact for so many reports, or is the last."""
    return rung + 1 == axis.resolutions.shape[0] or axis.resolutions[rung] >= need or axis.degrees[rung] >= reports


@njit(inline="always")
def _climb(rung, need, reports, axis):
    """The first rung from here on that holds."""
    while not _holds(rung, need, reports, axis):
        rung += 1
    return rung


@njit(inline="always")
def _rule(axis, rung):
    return axis.rules[:, axis.offsets[rung] : axis.offsets[rung + 1]]


# Products that doubles cannot hold


@njit(nogil=True, cache=True)
def _rescale(grid, pool_prior, room):
    """Bring each pool's largest product to 2^MOST; returns the smallest of all."""
    product, size_u = grid.product, grid.rule_u.shape[1]
    smallest = np.inf
    for i in range(pool_prior.shape[0]):
        own = product[:, i * size_u : (i + 1) * size_u]
        up = _MOST - math.frexp(own.max())[1]
        factor = 2.0**up
        for e in range(own.shape[0]):
            for b in range(size_u):
                own[e, b] *= factor
                smallest = min(smallest, own[e, b] if own[e, b] > 0.0 else smallest)
        room.tops[i] -= up
    _rescore(pool_prior, room)
    return smallest


@njit(nogil=True, cache=True)
def _rescore(pool_prior, room):
    top = room.tops.max()
    for i in range(pool_prior.shape[0]):
        room.scale[i] = pool_prior[i] * 2.0 ** max(room.tops[i] - top, -2000)


@njit(nogil=True, cache=True)
def _widen(grid, room):
    """Keep the products as mantissas and exponents besides."""
    size_u = grid.rule_u.shape[1]
    for e in range(grid.product.shape[0]):
        for q in range(grid.product.shape[1]):
            grid.mantissa[e, q] = grid.product[e, q]
            grid.exponent[e, q] = room.tops[min(q // size_u, room.tops.shape[0] - 1)]


@njit(nogil=True, cache=True)
def _rescale_wide(grid, pool_prior, room):
    """As `_rescale`, from mantissas and exponents: products that are much too small are zero, but only for now."""
    mantissa, exponent, size_u = grid.mantissa, grid.exponent, grid.rule_u.shape[1]
    for i in range(pool_prior.shape[0]):
        top = np.int64(-(2**62))
        for e in range(mantissa.shape[0]):
            for q in range(i * size_u, (i + 1) * size_u):
                if mantissa[e, q] > 0.0:
                    mantissa[e, q], power = math.frexp(mantissa[e, q])
                    exponent[e, q] += power
                    top = max(top, exponent[e, q])
        room.tops[i] = top - _MOST
        for e in range(mantissa.shape[0]):
            for q in range(i * size_u, (i + 1) * size_u):
                power = exponent[e, q] - room.tops[i]
                grid.product[e, q] = math.ldexp(mantissa[e, q], power) if power > 0 else 0.0
    _rescore(pool_prior, room)


# The attack


@njit(nogil=True, cache=True)
def _lay_grid(rule_g, rule_u, pool_prior, room):
    """The node weights, before any report; returns the smallest besides."""
    size_g, size_u, k = rule_g.shape[1], rule_u.shape[1], pool_prior.shape[0]
    width = _width(k, size_u)
    shape, nodes = (size_g, width), size_g * width
    grid = Grid(
        rule_g,
        rule_u,
        room.product[:nodes].reshape(shape),
        room.mantissa[:nodes].reshape(shape),
        room.exponent[:nodes].reshape(shape),
        room.lane[: LANE * width].reshape((LANE, width)),
        room.sums[: LANE * width].reshape((LANE, width)),
        room.lines[: 4 * size_g].reshape((4, size_g)),
        _end(rule_g) * _end(rule_u) / k,
    )
    room.tops[:] = -_MOST
    room.scale[:] = pool_prior
    grid.lane[:] = 0.0
    return grid, _weigh(rule_g, rule_u, k, grid.product)


@njit(nogil=True, cache=True)
def _end(rule):
    """Distance between the nodes and the ends of their axis."""
    return min(rule[0].min(), rule[1].min() if rule[1, 0] > 0.0 else 1.0)


@njit(nogil=True, cache=True)
def _weigh(rule_g, rule_u, k, product):
    size_u, smallest = rule_u.shape[1], np.inf
    product[:] = 0.0
    for e in range(rule_g.shape[1]):
        for b in range(size_u):
            weight = rule_g[2, e] * rule_u[2, b] * 2.0**_MOST
            smallest = min(smallest, weight) if weight > 0.0 else smallest
            for i in range(k):
                product[e, i * size_u + b] = weight
    return smallest


@njit(nogil=True, cache=True)
def _carry(begin, end, smallest, wide, grid, pool_prior, room, out):
    """Multiply the reports of some lanes into the products; out (n + 1, k), unless it has no rows, gets the posteriors.

    Returns how small a product may be after them, and whether the products are wide. A factor is a mean of its
    report's values, of which one is one: that bounds it from below.
    """
    t = begin
    while t < end:
        stop = t
        while stop < end:
            least = 1.0
            for r in range(LANE):
                least *= max(room.spread[stop + r, 2], grid.least)
            if smallest * least < _LEAST:
                break
            smallest *= least
            stop += LANE
        if stop == t:
            if not wide:
                smallest = _rescale(grid, pool_prior, room)
                if smallest < _FEW:
                    wide = True
                    _widen(grid, room)
            if wide:
                _rescale_wide(grid, pool_prior, room)
                smallest = 0.5
            continue
        if wide:
            _multiply_lanes(t, stop, room.scaled, grid.rule_g, grid.rule_u, grid.lane, grid.mantissa)
        if out.shape[0] == 0:
            _multiply_lanes(t, stop, room.scaled, grid.rule_g, grid.rule_u, grid.lane, grid.product)
        else:
            _sum_lanes(
                t, stop, room.scaled, grid.rule_g, grid.rule_u, grid.lane, grid.product, grid.sums, room.scale, out
            )
        t = stop
    return smallest, wide


@njit(nogil=True, cache=True)
def _multiply_lanes(begin, end, scaled, rule_g, rule_u, lane, product):
    for t in range(begin, end, LANE):
        _lay_lane(t, scaled, rule_u, lane)
        _multiply(t, scaled, rule_g, lane, product)


@njit(nogil=True, cache=True)
def _sum_lanes(begin, end, scaled, rule_g, rule_u, lane, product, sums, scale, out):
    for t in range(begin, end, LANE):
        _lay_lane(t, scaled, rule_u, lane)
        _multiply_and_sum(t, scaled, rule_g, lane, product, sums)
        _write(t, rule_u.shape[1], sums, scale, out)


@njit(nogil=True, cache=True)
def next_stage(stage):
    """A grid is laid for the reports of a stage: 12, 48, 192, 384, 768, ..."""
    return stage * 4 if stage < 192 else stage * 2


@njit(nogil=True, cache=True, error_model="numpy")
def _ahead(need, t, end, need_before, before):
    """What will be needed at the end of a stage, if it grows as since the last one began."""
    power = 0.8
    if before > 0 and need_before > 0.0 and t > before:
        power = min(max(np.log(need / need_before) / np.log(t / before), 0.3), 1.0)
    return 1.1 * need * (end / t) ** power


@njit(nogil=True, cache=True)
def _attack(n, pool_prior, axis_g, axis_u, room, out):
    """Posterior of one user after every report: out (n + 1, k).

    What the grid is like after t reports depends on those alone, so that a prefix has the same bits in any run.
    """
    g, u, t, stage, wide = np.int64(0), np.int64(0), np.int64(0), np.int64(FIRST_STAGE), np.bool_(False)
    grid, smallest = _lay_grid(_rule(axis_g, g), _rule(axis_u, u), pool_prior, room)
    need_g, need_u, sum_g, sum_u = 0.0, 0.0, 0.0, 0.0
    before_g, before_u, before = 0.0, 0.0, np.int64(0)
    out[0] = pool_prior
    while t < n:
        begin = t
        while t < n and t < stage:
            if not (_holds(g, need_g + MARGIN, t + LANE, axis_g) and _holds(u, need_u + MARGIN, t + LANE, axis_u)):
                break
            for r in range(LANE):
                along_g, along_u = room.spread[t + r, 0], room.spread[t + r, 1]
                sum_g += along_g
                sum_u += along_u
                need_g = min(need_g + GROWTH * along_g, sum_g)
                need_u = min(need_u + GROWTH * along_u, sum_u)
            t += LANE
        smallest, wide = _carry(begin, t, smallest, wide, grid, pool_prior, room, out)
        if t >= n:
            break
        begins = t == stage
        stage = next_stage(stage) if begins else stage
        now_g, now_u = _needs(grid, pool_prior.shape[0], (axis_g.degrees[g] + 1) // 2, (axis_u.degrees[u] + 1) // 2)
        need_g, need_u = min(need_g, now_g), min(need_u, now_u)
        more_g, more_u = MARGIN + LAST * sum_g / t, MARGIN + LAST * sum_u / t
        holds = _holds(g, need_g + more_g, t + LANE, axis_g) and _holds(u, need_u + more_u, t + LANE, axis_u)
        then_g, then_u = _ahead(need_g, t, stage, before_g, before), _ahead(need_u, t, stage, before_u, before)
        if begins:
            before_g, before_u, before = need_g, need_u, t
            holds = _holds(g, then_g + more_g, stage, axis_g) and _holds(u, then_u + more_u, stage, axis_u)
        if not holds:
            g = _climb(g, then_g + more_g, stage, axis_g)
            u = _climb(u, then_u + more_u, stage, axis_u)
            grid, smallest = _lay_grid(_rule(axis_g, g), _rule(axis_u, u), pool_prior, room)
            smallest, wide = _carry(np.int64(0), t, smallest, np.bool_(False), grid, pool_prior, room, out[:0])


@njit(nogil=True, cache=True)
def posteriors(likelihood, lengths, floor, slope, pool_prior, axis_g, axis_u, room, out):
    """Posterior of every user after every report: out (users, n + 1, k), rows beyond a user's length untouched.

    likelihood (users, n, k + 1); the axes are ladders of rules (`quadrature.Axis`). After an impossible report: NaN.
    """
    for user in range(likelihood.shape[0]):
        n = scale_reports(likelihood[user, : lengths[user]], floor, slope, room)
        _attack(n, pool_prior, axis_g, axis_u, room, out[user, : n + 1])
        out[user, n + 1 : lengths[user] + 1] = np.nan


@njit(nogil=True, cache=True, error_model="numpy")
def marginals(likelihood, floor, slope, pool_prior, rule_g, rule_u, room, out_g, out_u):
    """Posterior mass at the nodes of each axis after all reports of one user: out_g, out_u (nodes of the axis)."""
    out_g[:] = np.nan
    out_u[:] = np.nan
    n = scale_reports(likelihood, floor, slope, room)
    if n < likelihood.shape[0]:
        return
    grid, smallest = _lay_grid(rule_g, rule_u, pool_prior, room)
    _, wide = _carry(np.int64(0), n, smallest, np.bool_(False), grid, pool_prior, room, np.empty((0, 1)))
    if wide:
        _rescale_wide(grid, pool_prior, room)
    else:
        _rescale(grid, pool_prior, room)
    out_g[:] = 0.0
    out_u[:] = 0.0
    for e in range(out_g.shape[0]):
        for i in range(pool_prior.shape[0]):
            for b in range(out_u.shape[0]):
                mass = room.scale[i] * grid.product[e, i * out_u.shape[0] + b]
                out_g[e] += mass
                out_u[b] += mass
    out_g /= out_g.sum()
    out_u /= out_u.sum()
