"""From posteriors after every report to a guess, its confidence, and when the confidence was reached."""

from numba import njit

from poolscope.kernels.random import uniform

# Scores this close to the largest, relatively, are the same up to rounding.
TIE = 1e-12


@njit(nogil=True, cache=True)
def decide(posterior, lengths, observations, truth, thresholds, keys, guess, confidence, of_truth, reached):
    """guess, confidence, of_truth (users, observations); reached (users, thresholds), -1 for never.

    posterior (users, n + 1, k), truth (users). The largest posterior is guessed, ties at random by the user's key. A
    user with fewer reports than observed is scored on those there are.
    """
    users, _, k = posterior.shape
    for user in range(users):
        n = lengths[user]
        for o in range(observations.shape[0]):
            row = posterior[user, min(observations[o], n)]
            top = row[0]
            for i in range(1, k):
                top = max(top, row[i])
            tied = 0
            for i in range(k):
                if row[i] >= top * (1.0 - TIE):
                    tied += 1
            pick = int(uniform(keys[user], o) * tied)
            for i in range(k):
                if row[i] >= top * (1.0 - TIE):
                    if pick == 0:
                        guess[user, o] = i
                        break
                    pick -= 1
            confidence[user, o] = top
            of_truth[user, o] = row[truth[user]]
        for h in range(thresholds.shape[0]):
            reached[user, h] = -1
        least = 0
        for t in range(n + 1):
            if least == thresholds.shape[0]:
                break
            top = posterior[user, t, 0]
            for i in range(1, k):
                top = max(top, posterior[user, t, i])
            while least < thresholds.shape[0] and top >= thresholds[least]:
                reached[user, least] = t
                least += 1
