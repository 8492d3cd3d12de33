"""Running products of likelihoods at the nodes of a grid over (relevant interest, polarization).

For pool i the factor of a report at the node (g, u) is  L0 (1-g) + g (Lbar (1-u) + Li u): all terms are non-negative,
so that nothing cancels. A row of the grid holds all pools and all u, and LANE reports are processed in one pass.

`recurrence` computes the polynomials that are orthogonal for a discrete measure, `marginals` the posterior of relevant
interest and of polarization after all reports.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.compilation import fma, inner, inner_counted, inner_unchecked

# Reports per pass over the nodes, and rows of nodes per step of it.
LANE, ROWS = 4, 4

# Rows are padded to a multiple of this many columns, so that vector registers are full.
_COLUMNS = 8

# Each pool's largest product starts at 2^_TOP_EXPONENT, and none may fall below _MIN_PRODUCT. A smallest product below
# _MIN_RANGE after rescaling makes the range wide.
_TOP_EXPONENT, _MIN_RANGE, _MIN_PRODUCT = 900, 2.0**-400, 2.0**-960


class NodeWorkspace(NamedTuple):
    """Scratch for one user with n reports and k pools."""

    scaled: NDArray[np.float64]  # (n + LANE, k + 2): neutral, mean over pools, pools; the largest is one
    spread: NDArray[np.float64]  # (n + LANE, 2): 1 - min / max of a report's factor along g and along u
    curvature_bound: NDArray[
        np.float64
    ]  # (n + LANE, 2): bound on the sharpness that a report adds without tilting the integrand
    min_ratio: NDArray[np.float64]  # (n + LANE,): smallest over largest likelihood of a report
    running_likelihood: NDArray[np.float64]  # (k + 2,) products of `scaled` over some reports
    exponent: NDArray[np.int64]  # (k,) power of two factored out of each pool's products
    scale: NDArray[np.float64]  # (k,) pool prior times 2^(exponent - largest exponent)


class NodeGrid(NamedTuple):
    """A tensor rule and the running products at its nodes: rows are nodes of g, columns the pools' nodes of u."""

    rule_g: NDArray[np.float64]
    rule_u: NDArray[np.float64]
    product: NDArray[np.float64]  # (rows, columns) running products times node weights
    mantissa: NDArray[np.float64]  # (rows, columns) the same for a wide range ...
    exponent: NDArray[np.int64]  # (rows, columns) ... with their powers of two
    lane: NDArray[np.float64]  # (LANE, columns) a lane's likelihoods at g = 1
    sums: NDArray[np.float64]  # (LANE, columns)
    u_lines: NDArray[np.float64]  # (4, k * rows / ROWS)
    min_ratio: float  # no factor is a smaller share of its report's largest likelihood


def node_workspace(n: int, k: int) -> NodeWorkspace:
    """Allocate scratch for one user."""
    t = n + LANE
    exponent, by_report = np.empty(k, dtype=np.int64), (np.empty((t, k + 2)), np.empty((t, 2)), np.empty((t, 2)))
    return NodeWorkspace(*by_report, np.empty(t), np.empty(k + 2), exponent, np.empty(k))


@njit(inline="always")
def _curvature_bound(spread):
    """Return the largest curvature of log(1 - b x) in the angle arccos(1 - 2x), at most that of log x."""
    return min(0.25 * spread * spread / (1.0 - spread), 1.0)


@inner_unchecked
def scale_reports(likelihood, begin, steps, n, likelihood_offset, likelihood_scale, workspace):
    """Scale the likelihoods of one user's reports to a maximum of one; return the number of reports before an
    impossible one.

    likelihood (any,) holds the user's from `begin` on, and steps (3,) are the strides of user, report and column. The
    LANE reports after the last one are uninformative padding.
    """
    scaled, spread, k = workspace.scaled, workspace.spread, workspace.exponent.shape[0]
    step = np.uint64(steps[2])
    possible = n
    for t in range(n):
        at = np.uint64(begin + t * steps[1])
        neutral = likelihood_offset + likelihood_scale * likelihood[at]
        total, low, high = 0.0, np.inf, 0.0
        for i in range(k):
            at += step
            value = likelihood_offset + likelihood_scale * likelihood[at]
            scaled[t, i + 2] = value
            total += value
            low = min(low, value)
            high = max(high, value)
        top, mean = max(high, neutral), total / k
        if top == 0.0:
            possible = t
            break
        # 1 - min / max over the ends of the axis, maximized over pools
        spread[t, 0] = max(
            1.0 - low / neutral if low < neutral else 0.0, 1.0 - neutral / high if high > neutral else 0.0
        )
        spread[t, 1] = max(1.0 - low / mean, 1.0 - mean / high) if low < high else 0.0
        workspace.curvature_bound[t, 0], workspace.curvature_bound[t, 1] = (
            _curvature_bound(spread[t, 0]),
            _curvature_bound(spread[t, 1]),
        )
        workspace.min_ratio[t] = min(low, neutral) / top
        scaled[t, 0] = neutral
        scaled[t, 1] = mean
        inverse = 1.0 / top
        for c in range(k + 2):
            # the inverse of a subnormal number overflows
            scaled[t, c] = scaled[t, c] * inverse if inverse < np.inf else scaled[t, c] / top
    for t in range(possible, possible + LANE):
        spread[t, :], workspace.curvature_bound[t, :], workspace.min_ratio[t] = 0.0, 0.0, 1.0
        for c in range(k + 2):
            scaled[t, c] = 1.0
    return possible


@inner_counted
def init_grid(rule_g, rule_u, pool_prior, workspace):
    """Return a grid before any report, its products being the node weights, and the smallest of these."""
    size_g, size_u, k = rule_g.shape[1], rule_u.shape[1], pool_prior.shape[0]
    width = (k * size_u + _COLUMNS - 1) // _COLUMNS * _COLUMNS
    # new arrays: cheap beside the reports, while views of other shapes take seconds to compile
    grid = NodeGrid(
        rule_g.copy(),  # contiguous rows, which loop faster; and one type of grid, for which kernels are compiled once
        rule_u.copy(),
        np.empty((size_g, width)),
        np.empty((size_g, width)),
        np.empty((size_g, width), dtype=np.int64),
        np.zeros((LANE, width)),
        np.empty((LANE, width)),
        np.empty((4, k * size_g // 4)),
        _end(rule_g) * _end(rule_u) / k,
    )
    row = grid.sums[0]
    for q in range(width):
        row[q] = rule_u[2, q % size_u] if q < k * size_u else 0.0
    for i in range(k):
        workspace.exponent[i], workspace.scale[i] = -_TOP_EXPONENT, pool_prior[i]
    smallest_g, smallest_u = np.inf, np.inf
    for e in range(size_g):
        weight = rule_g[2, e] * 2.0**_TOP_EXPONENT
        smallest_g = min(smallest_g, weight) if weight > 0.0 else smallest_g
        for q in range(width):
            grid.product[e, q] = weight * row[q]
    for b in range(size_u):
        smallest_u = min(smallest_u, rule_u[2, b]) if rule_u[2, b] > 0.0 else smallest_u
    return grid, smallest_g * smallest_u


@inner
def _end(rule):
    """Return the smallest distance between the nodes and the ends of their axis."""
    end = 1.0
    for b in range(rule.shape[1]):
        end = min(end, rule[0, b], rule[1, b] if rule[1, 0] > 0.0 else 1.0)
    return end


@inner
def rescale(use_exponents, grid, pool_prior, workspace):
    """Scale each pool's largest product to 2^_TOP_EXPONENT; return the smallest product, and whether the range is wide.

    A wide range exceeds that of doubles: mantissas and exponents are then carried separately, and a product that is far
    too small is zero until the next rescaling.
    """
    mantissa, exponent, size_u = grid.mantissa, grid.exponent, grid.rule_u.shape[1]
    smallest = np.inf
    for i in range(pool_prior.shape[0]):
        begin, end = i * size_u, (i + 1) * size_u
        top = np.int64(-(2**62))
        for e in range(mantissa.shape[0]):
            for q in range(begin, end):
                if not use_exponents:
                    mantissa[e, q], exponent[e, q] = grid.product[e, q], workspace.exponent[i]
                if mantissa[e, q] > 0.0:
                    mantissa[e, q], power = math.frexp(mantissa[e, q])
                    exponent[e, q] += power
                    top = max(top, exponent[e, q])
        workspace.exponent[i] = top - _TOP_EXPONENT
        for e in range(mantissa.shape[0]):
            for q in range(begin, end):
                power = exponent[e, q] - workspace.exponent[i]
                grid.product[e, q] = math.ldexp(mantissa[e, q], power) if power > -_TOP_EXPONENT else 0.0
                if mantissa[e, q] > 0.0:
                    smallest = min(smallest, grid.product[e, q])
    # pools with prior zero do not count: all others may be far below them
    top = np.int64(-(2**62))
    for i in range(pool_prior.shape[0]):
        if pool_prior[i] > 0.0:
            top = max(top, workspace.exponent[i])
    for i in range(pool_prior.shape[0]):
        workspace.scale[i] = (
            pool_prior[i] * 2.0 ** max(workspace.exponent[i] - top, -2000) if pool_prior[i] > 0.0 else 0.0
        )
    use_exponents = use_exponents or smallest < _MIN_RANGE
    return (0.5 if use_exponents else smallest), use_exponents


@inner_unchecked
def multiply_reports(begin, end, smallest, use_exponents, grid, pool_prior, workspace, out, log_mean):
    """Multiply reports into the products, LANE at a time; out (n + 1, k), unless empty, gets the posteriors.

    log_mean (n + 1,), unless empty, gets the log of the mean over pools and nodes of the scaled products. Returns a
    lower bound of the products, and whether their range is wide. A factor is a weighted mean of its report's
    likelihoods, of which the largest is one: that bounds it from below.
    """
    for t in range(begin, end, LANE):
        ratio = 1.0
        for r in range(LANE):
            ratio *= max(workspace.min_ratio[t + r], grid.min_ratio)
        if smallest * ratio < _MIN_PRODUCT:
            smallest, use_exponents = rescale(use_exponents, grid, pool_prior, workspace)
        smallest *= ratio
        _lane_likelihoods(t, workspace.scaled, grid.rule_u, grid.lane)
        if use_exponents:
            _multiply(t, workspace.scaled, grid.rule_g, grid.lane, grid.mantissa)
        if out.shape[0] == 0:
            _multiply(t, workspace.scaled, grid.rule_g, grid.lane, grid.product)
        else:
            _multiply_and_sum(t, workspace.scaled, grid.rule_g, grid.lane, grid.product, grid.sums)
            _write(t, grid.rule_u.shape[1], grid.sums, workspace, out, log_mean)
    return smallest, use_exponents


@njit(inline="always")
def _lane_likelihoods(t, scaled, rule_u, lane):
    """Compute the likelihoods of a lane's reports at g = 1: mean and pool, mixed by u."""
    # unsigned: signed indices cost a check of their sign
    u, rest, size_u, q = rule_u[0], rule_u[1], np.uint64(rule_u.shape[1]), np.uint64(0)
    l0, l1, l2, l3 = lane[0], lane[1], lane[2], lane[3]
    m0, m1, m2, m3 = scaled[t, 1], scaled[t + 1, 1], scaled[t + 2, 1], scaled[t + 3, 1]
    for c in range(2, scaled.shape[1]):
        p0, p1, p2, p3 = scaled[t, c], scaled[t + 1, c], scaled[t + 2, c], scaled[t + 3, c]
        for b in range(size_u):
            x, y = u[b], rest[b]
            l0[q + b], l1[q + b] = fma(p0, x, m0 * y), fma(p1, x, m1 * y)
            l2[q + b], l3[q + b] = fma(p2, x, m2 * y), fma(p3, x, m3 * y)
        q += size_u


@inner
def _multiply(t, scaled, rule_g, lane, product):
    """Multiply a lane's reports into the products (nodes of g, columns)."""
    l0, l1, l2, l3 = lane[0], lane[1], lane[2], lane[3]
    for e in range(product.shape[0]):
        g, rest, row = rule_g[0, e], rule_g[1, e], product[e]
        n0, n1, n2, n3 = scaled[t, 0] * rest, scaled[t + 1, 0] * rest, scaled[t + 2, 0] * rest, scaled[t + 3, 0] * rest
        for q in range(product.shape[1]):
            row[q] *= (fma(g, l0[q], n0) * fma(g, l1[q], n1)) * (fma(g, l2[q], n2) * fma(g, l3[q], n3))


@njit(inline="always")
def _multiply_and_sum(t, scaled, rule_g, lane, product, sums):
    """Multiply as `_multiply` does, ROWS rows at a time; sums (LANE, columns) are those over g after each report."""
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
            a, b = pa[q] * fma(ga, x, n0 * ra), pb[q] * fma(gb, x, n0 * rb)
            c, d = pc[q] * fma(gc, x, n0 * rc), pd[q] * fma(gd, x, n0 * rd)
            s0[q] += (a + b) + (c + d)
            x = l1[q]
            a *= fma(ga, x, n1 * ra)
            b *= fma(gb, x, n1 * rb)
            c *= fma(gc, x, n1 * rc)
            d *= fma(gd, x, n1 * rd)
            s1[q] += (a + b) + (c + d)
            x = l2[q]
            a *= fma(ga, x, n2 * ra)
            b *= fma(gb, x, n2 * rb)
            c *= fma(gc, x, n2 * rc)
            d *= fma(gd, x, n2 * rd)
            s2[q] += (a + b) + (c + d)
            x = l3[q]
            a *= fma(ga, x, n3 * ra)
            b *= fma(gb, x, n3 * rb)
            c *= fma(gc, x, n3 * rc)
            d *= fma(gd, x, n3 * rd)
            s3[q] += (a + b) + (c + d)
            pa[q], pb[q], pc[q], pd[q] = a, b, c, d


@njit(inline="always")
def _write(t, size_u, sums, workspace, out, log_mean):
    """Write the posteriors of a lane from the sums over g: out (n + 1, k), NaN where all sums are zero."""
    scale = workspace.scale
    k = scale.shape[0]
    s0, s1, s2, s3 = sums[0], sums[1], sums[2], sums[3]
    t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
    for i in range(k):
        x0, x1, x2, x3 = 0.0, 0.0, 0.0, 0.0
        for q in range(i * size_u, (i + 1) * size_u):
            x0 += s0[q]
            x1 += s1[q]
            x2 += s2[q]
            x3 += s3[q]
        s0[i], s1[i], s2[i], s3[i] = scale[i] * x0, scale[i] * x1, scale[i] * x2, scale[i] * x3
        t0 += s0[i]
        t1 += s1[i]
        t2 += s2[i]
        t3 += s3[i]
    totals = (t0, t1, t2, t3)
    top = workspace.exponent[0]
    for i in range(1, k):
        top = max(top, workspace.exponent[i])
    for r in range(min(LANE, out.shape[0] - 1 - t)):
        inverse = 1.0 / totals[r]
        for i in range(k):
            out[t + r + 1, i] = inverse * sums[r, i]
        if log_mean.shape[0] > 0:
            log_mean[t + r + 1] = np.log(totals[r]) + top * np.log(2.0)


@njit(nogil=True, cache=True)
def recurrence(x, mass, alpha, beta):
    """Compute alpha and beta (nodes,): p_{i+1} = (x - alpha_i) p_i - beta_i p_{i-1}; beta_0 is the measure's mass.

    Points are added one after another by plane rotations (W. B. Gragg, W. J. Harwood. Numerische Mathematik 44, 1984),
    which is stable and takes O(points * nodes) steps. There are at least as many points as nodes.
    """
    nodes = alpha.shape[0]
    alpha[:] = 0.0
    beta[:] = 0.0
    alpha[0], beta[0] = x[0], mass[0]
    for point in range(1, x.shape[0]):
        left, cosine, sine, carried = mass[point], 1.0, 0.0, 0.0
        if point < nodes:
            alpha[point] = x[point]
        for i in range(min(point + 1, nodes)):
            before = sine
            total = beta[i] + left
            updated = cosine * total
            if total <= 0.0:
                cosine, sine = 1.0, 0.0
            else:
                cosine, sine = beta[i] / total, left / total
            moved = sine * (alpha[i] - x[point]) - cosine * carried
            alpha[i] -= moved - carried
            left = before * beta[i] if sine <= 0.0 else moved * moved / sine
            carried = moved
            beta[i] = updated


@njit(nogil=True, cache=True, error_model="numpy")
def marginals(
    likelihood, steps, reports, likelihood_offset, likelihood_scale, pool_prior, rule_g, rule_u, workspace, out_g, out_u
):
    """Compute the posterior mass at the nodes of each axis after all reports of one user: out_g, out_u (nodes of the
    axis).

    likelihood and steps as in `scale_reports`. Returns whether the reports are possible; if not, both are NaN.
    """
    out_g[:] = np.nan
    out_u[:] = np.nan
    n = scale_reports(likelihood, 0, steps, reports, likelihood_offset, likelihood_scale, workspace)
    if n < reports:
        return False
    grid, smallest = init_grid(rule_g, rule_u, pool_prior, workspace)
    _, wide = multiply_reports(
        np.int64(0), n, smallest, np.bool_(False), grid, pool_prior, workspace, np.empty((0, 1)), np.empty(0)
    )
    rescale(wide, grid, pool_prior, workspace)
    out_g[:] = 0.0
    out_u[:] = 0.0
    for e in range(out_g.shape[0]):
        for i in range(pool_prior.shape[0]):
            for b in range(out_u.shape[0]):
                mass = workspace.scale[i] * grid.product[e, i * out_u.shape[0] + b]
                out_g[e] += mass
                out_u[b] += mass
    out_g /= out_g.sum()
    out_u /= out_u.sum()
    return True
