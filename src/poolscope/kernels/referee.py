"""When an adversary was sure for the first time."""

from numba import njit


@njit(nogil=True, cache=True)
def first_sure(posterior, thresholds, out):
    """out (users, thresholds): the first report after which the largest posterior reached it, -1 for never.

    posterior (users, n + 1, k), thresholds increasing. Rows that are NaN reach nothing.
    """
    users, rows, k = posterior.shape
    for user in range(users):
        for h in range(thresholds.shape[0]):
            out[user, h] = -1
        least = 0
        for t in range(rows):
            if least == thresholds.shape[0]:
                break
            top = posterior[user, t, 0]
            for i in range(1, k):
                top = max(top, posterior[user, t, i])
            while least < thresholds.shape[0] and top >= thresholds[least]:
                out[user, least] = t
                least += 1
