"""What all reports of a user say of relevant interest and of polarization, at the nodes of one grid."""

import numpy as np
from numba import njit

from poolscope.kernels.nodes import carry, lay_grid, rescale, scale_reports


@njit(nogil=True, cache=True, error_model="numpy")
def marginals(likelihood, steps, reports, floor, slope, pool_prior, rule_g, rule_u, room, out_g, out_u):
    """Posterior mass at the nodes of each axis after all reports of one user: out_g, out_u (nodes of the axis).

    likelihood and steps as `scale_reports` has them. Returns whether the reports are possible; if not, both are NaN.
    """
    out_g[:] = np.nan
    out_u[:] = np.nan
    n = scale_reports(likelihood, 0, steps, reports, floor, slope, room)
    if n < reports:
        return False
    grid, smallest = lay_grid(rule_g, rule_u, pool_prior, room)
    _, wide = carry(np.int64(0), n, smallest, np.bool_(False), grid, pool_prior, room, np.empty((0, 1)), np.empty(0))
    rescale(wide, grid, pool_prior, room)
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
    return True
