"""Evidence of several collections about one attribute: links, products, and the first day of confidence."""

from __future__ import annotations

import numpy as np
from numba import njit

from poolscope.kernels.compilation import inner_counted


@njit(nogil=True, cache=True)
def link_evidence(posterior, rows, link, out):
    """Compute out (users, days, values): sum over pools of link (values, k) times posterior (users, n + 1, k).

    `rows` (users, days) is the row of the posterior on each day. A row that is NaN, as the model excludes its reports,
    is no evidence. The largest value of each day is scaled to one.
    """
    users, days = rows.shape
    values, k = link.shape
    for user in range(users):
        for day in range(days):
            row = rows[user, day]
            if day > 0 and row == rows[user, day - 1]:
                for a in range(values):
                    out[user, day, a] = out[user, day - 1, a]
                continue
            top = 0.0
            for a in range(values):
                total = 0.0
                for i in range(k):
                    total += link[a, i] * posterior[user, row, i]
                out[user, day, a] = total
                top = max(top, total)
            if not top > 0.0 or np.isnan(out[user, day, 0]):
                for a in range(values):
                    out[user, day, a] = 1.0
            else:
                for a in range(values):
                    out[user, day, a] /= top


# A product below this has lost digits: it is computed again from logarithms.
_SMALL = 1e-280


@njit(nogil=True, cache=True)
def first_confident_jointly(evidence, used, prior, thresholds, out):
    """Compute out (users, thresholds): the first day on which the largest joint posterior reached each, -1 for never.

    evidence (users, days, collections, values), used (collections,) whether each counts, thresholds increasing.
    """
    users, days, collections, values = evidence.shape
    score = np.empty(values)
    for user in range(users):
        for h in range(thresholds.shape[0]):
            out[user, h] = -1
        reached = 0
        for day in range(days):
            if reached == thresholds.shape[0]:
                break
            top, total = 0.0, 0.0
            for a in range(values):
                score[a] = prior[a]
                for c in range(collections):
                    if used[c]:
                        score[a] *= evidence[user, day, c, a]
                top = max(top, score[a])
                total += score[a]
            if top < _SMALL:
                top, total = _by_logarithms(evidence[user, day], used, prior, score)
            while reached < thresholds.shape[0] and top >= thresholds[reached] * total:
                out[user, reached] = day
                reached += 1


@inner_counted
def _by_logarithms(evidence, used, prior, score):
    """Return the largest score and the sum of scores, relative to the largest; the prior where all are zero."""
    top = -np.inf
    for a in range(score.shape[0]):
        score[a] = np.log(prior[a])
        for c in range(evidence.shape[0]):
            if used[c]:
                score[a] += np.log(evidence[c, a])
        top = max(top, score[a])
    if top == -np.inf:
        return prior.max(), prior.sum()
    total = 0.0
    for a in range(score.shape[0]):
        total += np.exp(score[a] - top)
    return 1.0, total
