"""From posteriors to a guess and its confidence."""

from numba import njit

from poolscope.kernels.random import uniform

# Scores this close to the largest, relatively, are the same up to rounding.
TIE = 1e-12


@njit(nogil=True, cache=True)
def guesses(posterior, keys, counts, guess, confidence):
    """guess, confidence (users, observations), from posterior (users, observations, k).

    The largest posterior is guessed, ties at random by the user's key and by how many reports it is of: `counts`
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
