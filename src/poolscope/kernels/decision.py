"""From posteriors to decisions: guess and confidence, the first report that exposes, and the non-private posterior."""

from __future__ import annotations

import numpy as np
from numba import njit

from poolscope.kernels.random import uniform

# Relative difference from the largest posterior up to which another counts as tied.
TIE = 1e-12


@njit(nogil=True, cache=True)
def guesses(posterior, keys, counts, guess, confidence):
    """Compute guess and confidence (users, observations) from posterior (users, observations, k).

    The guess is the largest posterior. Ties are broken at random, by the user's key and the number of reports: `counts`
    (users, observations).
    """
    users, observations, k = posterior.shape
    for user in range(users):
        for o in range(observations):
            row = posterior[user, o]
            top = row[0]
            for i in range(1, k):
                top = max(top, row[i])
            tied = 0
            for i in range(k):
                if row[i] >= top * (1.0 - TIE):
                    tied += 1
            pick = int(uniform(keys[user], counts[user, o]) * tied)
            for i in range(k):
                if row[i] >= top * (1.0 - TIE):
                    if pick == 0:
                        guess[user, o] = i
                        break
                    pick -= 1
            confidence[user, o] = top


@njit(nogil=True, cache=True)
def first_confident(posterior, thresholds, out):
    """Compute out (users, thresholds): the first report after which the largest posterior reached it, -1 for never.

    posterior (users, n + 1, k), thresholds increasing. Rows that are NaN reach no threshold.
    """
    users, rows, k = posterior.shape
    for user in range(users):
        for h in range(thresholds.shape[0]):
            out[user, h] = -1
        reached = 0
        for t in range(rows):
            if reached == thresholds.shape[0]:
                break
            top = posterior[user, t, 0]
            for i in range(1, k):
                top = max(top, posterior[user, t, i])
            while reached < thresholds.shape[0] and top >= thresholds[reached]:
                out[user, reached] = t
                reached += 1


# Unit of the stored exponents.
_UNIT = 2.0**256


@njit(nogil=True, cache=True)
def polarization_integrals(first, k, mantissa, exponent):
    """Compute the integral for every number c of own objects among s = first + row: (rows, longest + 1).

    a_c = integral of delta^c ((1-delta)/(k-1))^(s-c) over delta from 1/k to 1, up to a factor of the row. Integration
    by parts gives a_c = (1 + c (k-1) a_(c-1)) / (s-c+1), without cancellation. An integral is mantissa *
    _UNIT^exponent.
    """
    for row in range(mantissa.shape[0]):
        s, a, one, unit = first + row, 0.0, 1.0, 0
        for c in range(s + 1):
            a = (one + c * (k - 1.0) * a) / (s - c + 1.0)
            if a > _UNIT:
                a /= _UNIT
                one /= _UNIT
                unit += 1
            mantissa[row, c] = a
            exponent[row, c] = unit


@njit(nogil=True, cache=True)
def non_private_posteriors(objects, pool_of, first, mantissa, exponent, n_processed, counts, out):
    """Compute posteriors out (users, n + 1, k) of all users, as far as the rows of the table reach.

    n_processed (users,) is the number of objects processed. counts (users, k + 1) is the number of these in each pool
    and in any.
    """
    k = out.shape[2]
    for user in range(objects.shape[0]):
        own = counts[user]
        t = n_processed[user]
        while t < objects.shape[1]:
            pool = pool_of[objects[user, t]]
            if pool < 0:
                for i in range(k):
                    out[user, t + 1, i] = out[user, t, i]
                t += 1
                continue
            row = own[k] + 1 - first
            if row == mantissa.shape[0]:
                break
            own[pool] += 1
            own[k] += 1
            t += 1
            top = np.int64(0)
            for i in range(k):
                top = max(top, exponent[row, own[i]])
            total = 0.0
            for i in range(k):
                below = top - exponent[row, own[i]]
                score = mantissa[row, own[i]] * (1.0 if below == 0 else _UNIT ** -min(below, 8))
                out[user, t, i] = score
                total += score
            for i in range(k):
                out[user, t, i] /= total
        n_processed[user] = t
