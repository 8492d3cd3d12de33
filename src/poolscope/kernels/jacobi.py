"""The recurrence of the polynomials that are orthogonal for a discrete measure."""

from numba import njit


@njit(nogil=True, cache=True)
def recurrence(x, mass, alpha, beta):
    """alpha and beta (nodes,): p_{i+1} = (x - alpha_i) p_i - beta_i p_{i-1}; beta_0 is the measure's mass.

    Points are added one after another by plane rotations (W. B. Gragg, W. J. Harwood. Numerische Mathematik 44, 1984),
    which is stable and takes as many steps as there are points times nodes. There are no fewer points than nodes.
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
            kept = cosine * total
            if total <= 0.0:
                cosine, sine = 1.0, 0.0
            else:
                cosine, sine = beta[i] / total, left / total
            moved = sine * (alpha[i] - x[point]) - cosine * carried
            alpha[i] -= moved - carried
            left = before * beta[i] if sine <= 0.0 else moved * moved / sine
            carried = moved
            beta[i] = kept
