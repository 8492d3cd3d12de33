"""The double integral of eq. (score_estimate) after every report, on grids that grow with the sharpness of the
integrand.
"""

import numpy as np
from numba import njit

from poolscope.kernels.compilation import fma, inner, inner_unchecked, njit_no_refcount
from poolscope.kernels.quadrature_grid import LANE, ROWS, init_grid, multiply_reports, scale_reports

# Reports for which the first grid is exact. Error of a measured sharpness: a constant, plus the spread of some reports.
# Largest growth of the sharpness until the next measurement, as a multiple of the spread.
FIRST_STAGE, MARGIN, MISSED, GROWTH = 20, 1.0, 5.0, 2.0


@njit(inline="always")
def _along_g(rule_g, product, sums):
    """Compute sums (4, columns): mass of every column, and its coefficients along g."""
    s0, s1, s2, s3 = sums[0], sums[1], sums[2], sums[3]
    sums[:] = 0.0
    for e in range(0, product.shape[0], ROWS):
        pa, pb, pc, pd = product[e], product[e + 1], product[e + 2], product[e + 3]
        va, vb, vc, vd = rule_g[3, e], rule_g[3, e + 1], rule_g[3, e + 2], rule_g[3, e + 3]
        wa, wb, wc, wd = rule_g[4, e], rule_g[4, e + 1], rule_g[4, e + 2], rule_g[4, e + 3]
        xa, xb, xc, xd = rule_g[5, e], rule_g[5, e + 1], rule_g[5, e + 2], rule_g[5, e + 3]
        for q in range(product.shape[1]):
            a, b, c, d = pa[q], pb[q], pc[q], pd[q]
            s0[q] += (a + b) + (c + d)
            s1[q] += fma(va, a, vb * b) + fma(vc, c, vd * d)
            s2[q] += fma(wa, a, wb * b) + fma(wc, c, wd * d)
            s3[q] += fma(xa, a, xb * b) + fma(xc, c, xd * d)


@njit(inline="always")
def _along_u(rule_u, product, k, lines):
    """Compute lines (4, k * rows / ROWS): mass and coefficients along u of every ROWSth row of each pool."""
    size_u, count = np.uint64(rule_u.shape[1]), product.shape[0] // ROWS
    u1, u2, u3 = rule_u[3], rule_u[4], rule_u[5]
    for e in range(count):
        row, q = product[ROWS * e + ROWS // 2], np.uint64(0)
        for i in range(k):
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for b in range(size_u):
                x = row[q + b]
                s0, s1, s2, s3 = s0 + x, fma(u1[b], x, s1), fma(u2[b], x, s2), fma(u3[b], x, s3)
            q += size_u
            line = i * count + e
            lines[0, line], lines[1, line], lines[2, line], lines[3, line] = s0, s1, s2, s3


@inner_unchecked
def _max_error(lines, k, count):
    """Return the largest relative error of a rule on a pool's lines, `count` of them, from masses and coefficients.

    The error is the sixth power of the first two coefficients, or the eighth of the third (`quadrature`).
    """
    m, c1, c2, c3 = lines[0], lines[1], lines[2], lines[3]
    for q in range(k * count):
        inverse = 1.0 / max(m[q], 1e-300)
        x, y, z = c1[q] * inverse, c2[q] * inverse, c3[q] * inverse
        sixth, eighth = fma(x, x, y * y), (z * z) * (z * z)
        c1[q] = m[q] * fma(sixth * sixth, sixth, eighth * eighth)
    worst = 0.0
    for i in range(k):
        mass, error = 0.0, 0.0
        for q in range(i * count, (i + 1) * count):
            mass += m[q]
            error += c1[q]
        worst = max(worst, error / mass)
    return worst


@inner
def _required_sharpness(grid, k, degree_g, degree_u):
    """Return the sharpness of the integrand along g and along u, the largest over pools; rules of these degrees."""
    _along_g(grid.rule_g, grid.product, grid.sums)
    _along_u(grid.rule_u, grid.product, k, grid.u_lines)
    worst_g, worst_u = (
        _max_error(grid.sums, k, grid.rule_u.shape[1]),
        _max_error(grid.u_lines, k, grid.rule_g.shape[1] // ROWS),
    )
    return _sharpness(worst_g, degree_g), _sharpness(worst_u, degree_u)


@inner_unchecked
def _sharpness(error, degree):
    """Return the sharpness of an integrand on which a rule that is exact to that degree has that error."""
    if error == 0.0:
        return 0.0
    return 0.5 * (degree + 1) ** 2 / -np.log(error) if error < 1.0 else np.inf


@inner
def _is_sufficient(level, required_sharpness, reports, axis):
    """Return whether a level resolves that sharpness, is exact for that many reports, or is the last."""
    return (
        level + 1 == axis.resolutions.shape[0]
        or axis.resolutions[level] >= required_sharpness
        or axis.degrees[level] >= reports
    )


@inner
def _next_sufficient_level(level, required_sharpness, reports, axis):
    """Return the first level from here on that resolves the integrand."""
    while not _is_sufficient(level, required_sharpness, reports, axis):
        level += 1
    return level


@njit(inline="always")
def _rule(axis, level):
    """Return the rule of a level."""
    return axis.rules[:, axis.offsets[level] : axis.offsets[level + 1]]


@njit_no_refcount
def next_stage(stage):
    """Return the end of the next stage: a grid is chosen for the reports of one, which end at 20, 192, 384, 768, ..."""
    return max(192, 2 * stage)


@inner_unchecked
def _extrapolate(required_sharpness, t, end, required_before, before):
    """Return the sharpness expected at the end of a stage, if it grows as in the stage before."""
    power = 0.55
    if before > 0 and required_before > 0.0 and t > before:
        power = min(max(np.log(required_sharpness / required_before) / np.log(t / before), 0.3), 1.0)
    return required_sharpness * (end / t) ** power


@inner_unchecked
def _resolved_until(t, end, required_g, required_u, max_g, max_u, g, u, axis_g, axis_u, workspace):
    """Return the report up to which a grid is certain to resolve the integrand, at most `end`.

    For a lane, the decision depends on the reports before it only.
    """
    running_likelihood, spread, curvature_bound = (
        workspace.running_likelihood,
        workspace.spread,
        workspace.curvature_bound,
    )
    running_likelihood[:] = 1.0
    spread_g, spread_u, curvature_g, curvature_u = 0.0, 0.0, 0.0, 0.0
    then_g, then_u = required_g, required_u
    while t < end and _is_sufficient(g, then_g, t + LANE, axis_g) and _is_sufficient(u, then_u, t + LANE, axis_u):
        for r in range(t, t + LANE):
            spread_g, spread_u = spread_g + spread[r, 0], spread_u + spread[r, 1]
            curvature_g, curvature_u = curvature_g + curvature_bound[r, 0], curvature_u + curvature_bound[r, 1]
            for c in range(running_likelihood.shape[0]):
                running_likelihood[c] *= workspace.scaled[r, c]
        low, high = running_likelihood[1], running_likelihood[1]
        for c in range(2, running_likelihood.shape[0]):
            low, high = min(low, running_likelihood[c]), max(high, running_likelihood[c])
        tilt_g, tilt_u = (
            max(high / running_likelihood[0], running_likelihood[0] / low),
            max(high / running_likelihood[1], running_likelihood[1] / low),
        )
        then_g = min(required_g + min(GROWTH * spread_g, curvature_g + 0.5 * np.log(tilt_g)), max_g + spread_g)
        then_u = min(required_u + min(GROWTH * spread_u, curvature_u + 0.5 * np.log(tilt_u)), max_u + spread_u)
        t += LANE
    return t


@inner
def _column_sum(column, rows):
    """Return the sum of the first numbers of a column."""
    total = 0.0
    for row in range(rows):
        total += column[row]
    return total


@njit(inline="always")
def _user_posterior(n, pool_prior, axis_g, axis_u, workspace, out, log_bayes):
    """Compute the posterior of one user after every report: out (n + 1, k); log_bayes (n + 1,) as in `posteriors`, or
    empty.

    The grid after t reports depends on these reports alone, so that a prefix has the same bits in any run. Inlined, as
    a function of its own would be compiled twice: with its caller again.
    """
    t, stage, use_exponents = np.int64(0), np.int64(FIRST_STAGE), np.bool_(False)
    g, u = (
        _next_sufficient_level(np.int64(0), np.inf, stage, axis_g),
        _next_sufficient_level(np.int64(0), np.inf, stage, axis_u),
    )
    grid, smallest = init_grid(_rule(axis_g, g), _rule(axis_u, u), pool_prior, workspace)
    required_g, required_u, more_g, more_u, sum_g, sum_u = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    before_g, before_u, before = 0.0, 0.0, np.int64(0)
    for i in range(pool_prior.shape[0]):
        out[0, i] = pool_prior[i]
    while t < n:
        begin = t
        foreseen = required_g + more_g, required_u + more_u, sum_g + more_g, sum_u + more_u
        t = _resolved_until(t, min(n, stage), *foreseen, g, u, axis_g, axis_u, workspace)
        smallest, use_exponents = multiply_reports(
            begin, t, smallest, use_exponents, grid, pool_prior, workspace, out, log_bayes
        )
        if t >= n:
            break
        if t > begin:
            sum_g, sum_u = _column_sum(workspace.spread[:, 0], t), _column_sum(workspace.spread[:, 1], t)
            more_g, more_u = MARGIN + MISSED * sum_g / t, MARGIN + MISSED * sum_u / t
            required_g, required_u = _required_sharpness(
                grid, pool_prior.shape[0], axis_g.degrees[g], axis_u.degrees[u]
            )
            required_g, required_u = min(required_g, sum_g), min(required_u, sum_u)
            if t < stage:
                continue
        begins = t == stage
        stage = next_stage(stage) if begins else stage
        then_g = _extrapolate(required_g, t, stage, before_g, before) + more_g
        then_u = _extrapolate(required_u, t, stage, before_u, before) + more_u
        if begins:
            before_g, before_u, before = required_g, required_u, t
        if not (_is_sufficient(g, then_g, stage, axis_g) and _is_sufficient(u, then_u, stage, axis_u)):
            g, u = _next_sufficient_level(g, then_g, stage, axis_g), _next_sufficient_level(u, then_u, stage, axis_u)
            grid, smallest = init_grid(_rule(axis_g, g), _rule(axis_u, u), pool_prior, workspace)
            smallest, use_exponents = multiply_reports(
                np.int64(0), t, smallest, np.bool_(False), grid, pool_prior, workspace, out[:0], log_bayes
            )


@njit(nogil=True, cache=True, error_model="numpy")
def posteriors(
    likelihood,
    steps,
    lengths,
    likelihood_offset,
    likelihood_scale,
    pool_prior,
    axis_g,
    axis_u,
    workspace,
    out,
    log_bayes,
):
    """Compute the posterior of every user after every report: out (users, n + 1, k), rows beyond a user's length
    untouched.

    likelihood and steps as in `scale_reports`; the axes are ladders of rules (`quadrature.Axis`). Rows from an
    impossible report on are NaN. log_bayes (users, n + 1), or without rows: the log Bayes factor of some pool being
    preferred against none. Returns the first user and report count whose posterior is otherwise not a number, or -1,
    -1.
    """
    lost = (-1, -1)
    for user in range(out.shape[0]):
        n = scale_reports(
            likelihood, user * steps[0], steps, lengths[user], likelihood_offset, likelihood_scale, workspace
        )
        own = log_bayes[user, : n + 1] if log_bayes.shape[0] > 0 else workspace.min_ratio[:0]
        _user_posterior(n, pool_prior, axis_g, axis_u, workspace, out[user, : n + 1], own)
        if own.shape[0] > 0:
            neutral = 0.0
            own[0] = 0.0
            for t in range(n):
                neutral += np.log(workspace.scaled[t, 0])
                own[t + 1] -= neutral
        for t in range(n, 0, -1):
            if not out[user, t, 0] >= 0.0 and (lost[0] < 0 or lost[0] == user):
                lost = (user, t)
        for t in range(n + 1, lengths[user] + 1):
            for i in range(out.shape[2]):
                out[user, t, i] = np.nan
            if own.shape[0] > 0:
                log_bayes[user, t] = np.nan
    return lost
