"""What objects say of the pools when they are seen as they are."""

from numba import njit


@njit(nogil=True, cache=True)
def shown_pools(objects, pool_of, out):
    """Likelihoods of the non-private game, up to what all pools share: out (users, n, k + 1).

    An object of pool i says "pool i"; a neutral one says nothing about the pools.
    """
    out[:] = 0.0
    for user in range(objects.shape[0]):
        for t in range(objects.shape[1]):
            pool = pool_of[objects[user, t]]
            if pool < 0:
                out[user, t] = 1.0
            else:
                out[user, t, pool + 1] = 1.0
