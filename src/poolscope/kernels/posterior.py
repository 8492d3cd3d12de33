"""The double integral of eq. (score_estimate) after every report, by running products on a grid of nodes.

For pool i the integrand is a product over reports of  L0 (1-g) + Lbar g (1-u) + Li g u,  where g is the
relevant interest and u = (k delta - 1) / (k - 1) the rescaled polarization: every term is non-negative, so
nothing cancels. Each report is scaled by its largest likelihood; products are kept as mantissa and exponent
per node (`_renormalise`), so that no node is lost for good however unlikely it once seemed.
"""

import numpy as np
from numba import njit

# Reports to one pass over the nodes, and to one renormalisation. With likelihoods scaled to a maximum of one, no
# factor is below (smallest node)^2 / k > 2^-45, so 16 of them stay far from the smallest normal double.
LANE = 4
SPAN = 16
# How far below the peak, in nats, the shape of the integrand counts.
DEPTH = 12.0

_FRACTION, _BIAS = np.uint64(52), np.uint64(1023)
_MANTISSA, _UNIT = np.uint64((1 << 52) - 1), np.uint64(1023 << 52)
_ORIGIN = np.uint64(1 << 20)
_LOG2 = np.log(2.0)


@njit(nogil=True, cache=True, error_model="numpy")
def _scale_reports(likelihood, floor, slope, scaled):
    """Likelihoods of one user's reports, scaled to a maximum of one; an impossible report gives a row of NaN.

    scaled (n + LANE or more, k + 2): neutral, mean over pools, pools; rows beyond n are ones.
    """
    n, columns = likelihood.shape
    k = columns - 1
    for t in range(n):
        top = 0.0
        total = 0.0
        for c in range(columns):
            value = floor + slope * likelihood[t, c]
            top = max(top, value)
            if c == 0:
                scaled[t, 0] = value
            else:
                scaled[t, c + 1] = value
                total += value
        scaled[t, 1] = total / k
        unit = 1.0 / top if top > 0.0 else np.nan
        for c in range(k + 2):
            scaled[t, c] *= unit
    for t in range(n, n + LANE):
        for c in range(k + 2):
            scaled[t, c] = 1.0


@njit(nogil=True, cache=True, error_model="numpy")
def _base(scaled, start, c0, c1, nodes, base):
    """What the pools share: the neutral and the mean term of LANE reports at every node."""
    for r in range(LANE):
        neutral, mean = scaled[start + r, 0], scaled[start + r, 1]
        for q in range(nodes):
            base[r, q] = neutral * c0[q] + mean * c1[q]


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _multiply(a0, a1, a2, a3, base0, base1, base2, base3, c2, nodes, product):
    for q in range(nodes):
        x, y = product[q], c2[q]
        product[q] = x * (base0[q] + a0 * y) * (base1[q] + a1 * y) * ((base2[q] + a2 * y) * (base3[q] + a3 * y))


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _multiply_and_sum(a0, a1, a2, a3, base0, base1, base2, base3, c2, nodes, product, weight, sums):
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for q in range(nodes):
        y, w = c2[q], weight[q]
        x = product[q] * (base0[q] + a0 * y)
        s0 += w * x
        x *= base1[q] + a1 * y
        s1 += w * x
        x *= base2[q] + a2 * y
        s2 += w * x
        x *= base3[q] + a3 * y
        s3 += w * x
        product[q] = x
    sums[0] = s0
    sums[1] = s1
    sums[2] = s2
    sums[3] = s3


@njit(nogil=True, cache=True, error_model="numpy")
def _renormalise(product, exponent, node_weight, nodes, weight):
    """Move the exponents out of the products and into `exponent`; weight = node weight * 2^(exponent - top).

    Exponents are kept biased by 2^20 and unsigned, which vectorises. Returns top, the largest.
    """
    bits = product.view(np.uint64)
    top = np.uint64(0)
    for q in range(nodes):
        e = bits[q] >> _FRACTION
        bits[q] = (bits[q] & _MANTISSA) | _UNIT
        exponent[q] += e - _BIAS
        top = max(top, exponent[q])
    scale = weight.view(np.uint64)
    for q in range(nodes):
        # 2^max(exponent - top, -1023) as bits: an exponent field of 0 is exactly zero
        drop = top - exponent[q]
        scale[q] = (_BIAS - min(drop, _BIAS)) << _FRACTION
    for q in range(nodes):
        weight[q] *= node_weight[q]
    return top


@njit(nogil=True, cache=True, error_model="numpy")
def _start(node_weight, nodes, product, exponent, weight, tops):
    for i in range(tops.shape[0]):
        tops[i] = _ORIGIN
        for q in range(nodes):
            product[i, q] = 1.0
            exponent[i, q] = _ORIGIN
            weight[i, q] = node_weight[q]


@njit(nogil=True, cache=True, error_model="numpy")
def _pass(
    scaled,
    begin,
    end,
    first,
    last,
    grid,
    nodes,
    base,
    product,
    weight,
    sums,
    tops,
    score,
    score_exponent,
):
    """Multiply reports begin..end-1 into the products; scores of those among first..last-1 are written."""
    for start in range(begin, end, LANE):
        _base(scaled, start, grid[0], grid[1], nodes, base)
        silent = start + LANE <= first
        for i in range(tops.shape[0]):
            a0, a1 = scaled[start, i + 2], scaled[start + 1, i + 2]
            a2, a3 = scaled[start + 2, i + 2], scaled[start + 3, i + 2]
            if silent:
                _multiply(a0, a1, a2, a3, base[0], base[1], base[2], base[3], grid[2], nodes, product[i])
                continue
            _multiply_and_sum(
                a0,
                a1,
                a2,
                a3,
                base[0],
                base[1],
                base[2],
                base[3],
                grid[2],
                nodes,
                product[i],
                weight[i],
                sums,
            )
            for r in range(LANE):
                if first <= start + r < last:
                    score[start + r, i] = sums[r]
                    score_exponent[start + r, i] = tops[i]


@njit(inline="always")
def _log_mantissa(x):
    """log x for 1 <= x < 2 to 2e-4, by the area tangent: a shape needs no more."""
    s = (x - 1.0) / (x + 1.0)
    return 2.0 * s * (1.0 + s * s * (1.0 / 3.0 + s * s / 5.0))


@njit(nogil=True, cache=True, error_model="numpy")
def _curvature(product, exponent, begin, stride, size, peak, angles):
    """Largest curvature of the log products on the line begin, begin + stride, ..., where there is mass.

    Minus the second difference in the angle arccos(1 - 2x), in which Gauss nodes are evenly spaced, over the nodes
    whose product is within e^-DEPTH of the one at `peak`. The integrand is even in the angle at both ends of the
    axis, so the neighbour of an end is its mirror image.
    """
    worst = 0.0
    if size == 1:
        return worst
    reference = exponent[begin + peak * stride]
    left, here, right = 0.0, 0.0, 0.0
    for j in range(-1, size):
        left, here = here, right
        if j + 1 < size:
            q = begin + (j + 1) * stride
            right = _log_mantissa(product[q]) + _LOG2 * (np.float64(exponent[q]) - np.float64(reference))
        if j < 0:
            continue
        if j == 0:
            left = here
        if j + 1 == size:
            right = here
        if here < -DEPTH:
            continue
        before = angles[j - 1] if j > 0 else -angles[0]
        after = angles[j + 1] if j + 1 < size else 2.0 * np.pi - angles[j]
        rise = (right - here) / (after - angles[j])
        fall = (here - left) / (angles[j] - before)
        worst = max(worst, 2.0 * (fall - rise) / (after - before))
    return worst


@njit(nogil=True, cache=True, error_model="numpy")
def _peak(product, weight, nodes):
    best, at = -1.0, 0
    for q in range(nodes):
        mass = product[q] * weight[q]
        if mass > best:
            best, at = mass, q
    return at


@njit(inline="always")
def _slope(x, y):
    return abs(y - x) / (y + x) if x + y > 0.0 else 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _choose_rungs(scaled, begin, end, curvature, capacity_g, degree_g, capacity_u, degree_u, rungs):
    """The rungs for the posterior after each report of a span, from the curvature at its begin.

    A report adds to the curvature at most about its relative slope along the axis. The choice depends on the
    reports up to t alone, so that a prefix of the reports has the same bits in any run.
    """
    k = scaled.shape[1] - 2
    need_g, need_u = curvature
    g, u = rungs[0, 0], rungs[0, 1]
    for t in range(begin, end):
        neutral, mean = scaled[t, 0], scaled[t, 1]
        grow_g, grow_u = _slope(neutral, mean), 0.0
        for i in range(k):
            pool = scaled[t, i + 2]
            grow_g = max(grow_g, _slope(neutral, pool))
            grow_u = max(grow_u, _slope(mean, pool))
        need_g += grow_g
        need_u += grow_u
        while g + 1 < capacity_g.shape[0] and capacity_g[g] < need_g and degree_g[g] < t + 1:
            g += 1
        while u + 1 < capacity_u.shape[0] and capacity_u[u] < need_u and degree_u[u] < t + 1:
            u += 1
        rungs[t - begin, 0] = g
        rungs[t - begin, 1] = u


@njit(nogil=True, cache=True, error_model="numpy")
def _grid(rule_g, rule_u, grid):
    """Tensor product of two rules (4, size): nodes, complements, weights, angles."""
    q = 0
    for a in range(rule_g.shape[1]):
        for b in range(rule_u.shape[1]):
            grid[0, q] = rule_g[1, a]
            grid[1, q] = rule_g[0, a] * rule_u[1, b]
            grid[2, q] = rule_g[0, a] * rule_u[0, b]
            grid[3, q] = rule_g[2, a] * rule_u[2, b]
            q += 1


@njit(nogil=True, cache=True, error_model="numpy")
def _scores(
    scaled,
    n,
    capacity_g,
    degree_g,
    offset_g,
    rules_g,
    capacity_u,
    degree_u,
    offset_u,
    rules_u,
    rungs,
    grid,
    base,
    product,
    exponent,
    weight,
    sums,
    tops,
    score,
    score_exponent,
):
    """Scores of one user after every report, as mantissa and exponent of two."""
    k = scaled.shape[1] - 2
    g, u = np.int64(-1), np.int64(-1)
    nodes, size_u = 0, 0
    curvature = (0.0, 0.0)
    rule_g, rule_u = rules_g, rules_u
    rungs[0, 0] = 0
    rungs[0, 1] = 0
    for begin in range(0, n, SPAN):
        end = min(begin + SPAN, n)
        _choose_rungs(scaled, begin, end, curvature, capacity_g, degree_g, capacity_u, degree_u, rungs)
        first = begin
        while first < end:
            last = first + 1
            r = first - begin
            while last < end and rungs[last - begin, 0] == rungs[r, 0] and rungs[last - begin, 1] == rungs[r, 1]:
                last += 1
            if rungs[r, 0] != g or rungs[r, 1] != u:
                # a larger grid: what went before is multiplied again, silently
                g, u = rungs[r, 0], rungs[r, 1]
                rule_g = rules_g[:, offset_g[g] : offset_g[g + 1]]
                rule_u = rules_u[:, offset_u[u] : offset_u[u + 1]]
                size_u = rule_u.shape[1]
                nodes = rule_g.shape[1] * size_u
                _grid(rule_g, rule_u, grid)
                _start(grid[3], nodes, product, exponent, weight, tops)
                for replay in range(0, begin, SPAN):
                    _pass(
                        scaled,
                        replay,
                        replay + SPAN,
                        n,
                        n,
                        grid,
                        nodes,
                        base,
                        product,
                        weight,
                        sums,
                        tops,
                        score,
                        score_exponent,
                    )
                    for i in range(k):
                        tops[i] = _renormalise(product[i], exponent[i], grid[3], nodes, weight[i])
            _pass(
                scaled,
                begin,
                last,
                first,
                last,
                grid,
                nodes,
                base,
                product,
                weight,
                sums,
                tops,
                score,
                score_exponent,
            )
            first = last
        rungs[0, 0] = g
        rungs[0, 1] = u
        if end < n:
            need_g, need_u = 0.0, 0.0
            for i in range(k):
                tops[i] = _renormalise(product[i], exponent[i], grid[3], nodes, weight[i])
                q = _peak(product[i], weight[i], nodes)
                row, column = q // size_u, q % size_u
                need_g = max(
                    need_g,
                    _curvature(product[i], exponent[i], column, size_u, rule_g.shape[1], row, rule_g[3]),
                )
                need_u = max(
                    need_u,
                    _curvature(product[i], exponent[i], q - column, 1, size_u, column, rule_u[3]),
                )
            curvature = (need_g, need_u)


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


@njit(nogil=True, cache=True, error_model="numpy")
def posteriors(
    likelihood,
    lengths,
    floor,
    slope,
    pool_prior,
    capacity_g,
    degree_g,
    offset_g,
    rules_g,
    capacity_u,
    degree_u,
    offset_u,
    rules_u,
    rungs,
    scaled,
    grid,
    base,
    product,
    exponent,
    weight,
    sums,
    tops,
    score,
    score_exponent,
    out,
):
    """Posterior of every user after every report: out (users, n + 1, k), rows beyond a user's length untouched.

    rules_* (4, sum of sizes): nodes, complements, weights and angles of all rungs; rung r is offset[r]:offset[r+1].
    From `rungs` to `score_exponent` all is scratch, `grid` and its kin as long as the largest tensor rule.
    """
    for user in range(likelihood.shape[0]):
        n = lengths[user]
        _scale_reports(likelihood[user, :n], floor, slope, scaled)
        _scores(
            scaled,
            n,
            capacity_g,
            degree_g,
            offset_g,
            rules_g,
            capacity_u,
            degree_u,
            offset_u,
            rules_u,
            rungs,
            grid,
            base,
            product,
            exponent,
            weight,
            sums,
            tops,
            score,
            score_exponent,
        )
        _normalise(score, score_exponent, pool_prior, n, out[user])


@njit(nogil=True, cache=True, error_model="numpy")
def marginals(
    likelihood,
    floor,
    slope,
    pool_prior,
    rule_g,
    rule_u,
    scaled,
    grid,
    base,
    product,
    exponent,
    weight,
    sums,
    tops,
    score,
    score_exponent,
    out_g,
    out_u,
):
    """Posterior mass at the nodes of each axis after all reports of one user: out_g, out_u (nodes of the axis)."""
    n = likelihood.shape[0]
    k = pool_prior.shape[0]
    size_u = rule_u.shape[1]
    nodes = rule_g.shape[1] * size_u
    _scale_reports(likelihood, floor, slope, scaled)
    _grid(rule_g, rule_u, grid)
    _start(grid[3], nodes, product, exponent, weight, tops)
    for begin in range(0, n, SPAN):
        end = min(begin + SPAN, n)
        _pass(
            scaled,
            begin,
            end,
            n,
            n,
            grid,
            nodes,
            base,
            product,
            weight,
            sums,
            tops,
            score,
            score_exponent,
        )
        for i in range(k):
            tops[i] = _renormalise(product[i], exponent[i], grid[3], nodes, weight[i])
    top = tops.max()
    out_g[:] = 0.0
    out_u[:] = 0.0
    total = 0.0
    for i in range(k):
        share = pool_prior[i] * 2.0 ** -min(np.int64(top - tops[i]), 2000)
        for q in range(nodes):
            mass = share * product[i, q] * weight[i, q]
            out_g[q // size_u] += mass
            out_u[q % size_u] += mass
            total += mass
    out_g /= total
    out_u /= total
