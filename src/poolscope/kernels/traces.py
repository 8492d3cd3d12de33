"""Synthetic users: for each event, draw a pool and then an object of it."""

import math

from numba import njit

from poolscope.kernels.random import uniform


@njit(inline="always")
def _search(cumulative, begin, end, target):
    """Return the first index in begin..end-1 whose cumulative weight exceeds the target."""
    last = end - 1
    while begin < last:
        middle = (begin + last) >> 1
        if cumulative[middle] > target:
            last = middle
        else:
            begin = middle + 1
    return begin


@njit(nogil=True, cache=True)
def draw_objects(cumulative, keys, out):
    """Draw one object for each key, from cumulative weights over the universe."""
    size = cumulative.shape[0]
    for i in range(keys.shape[0]):
        out[i] = _search(cumulative, 0, size, uniform(keys[i], 0) * cumulative[size - 1])


@njit(inline="always")
def _draw_section(u, gamma, delta, iota, k):
    """Return the section of an event by eq. (user_behavior): 0 is the neutral pool, i is the pool i - 1."""
    if u >= gamma:
        return 0
    if u < gamma * delta:
        return iota + 1
    # the remainder of u is uniform over the k - 1 alternative pools
    other = min(k - 2, int((u - gamma * delta) / (gamma - gamma * delta) * (k - 1)))
    return other + 1 if other < iota else other + 2


@njit(inline="always")
def _draw_trace(key, gamma, delta, iota, k, order, starts, cumulative, out):
    """Draw a trace; sections are runs of `order`."""
    for t in range(out.shape[0]):
        section = _draw_section(uniform(key, 2 * t), gamma, delta, iota, k)
        begin, end = starts[section], starts[section + 1]
        target = uniform(key, 2 * t + 1) * cumulative[end - 1]
        out[t] = order[_search(cumulative, begin, end, target)]


@njit(nogil=True, cache=True)
def draw_traces(keys, gamma, delta, iota, k, order, starts, cumulative, out):
    """Draw traces of users who share one popularity; cumulative (universe) restarts with each section of `order`."""
    for user in range(keys.shape[0]):
        _draw_trace(
            keys[user],
            gamma[user],
            delta[user],
            iota[user],
            k,
            order,
            starts,
            cumulative,
            out[user],
        )


@njit(nogil=True, cache=True)
def perturb(key, popularity, sigma, out):
    """Perturb a user's popularity: Gaussian noise on each object, shifted by the smallest value, normalized."""
    size = popularity.shape[0]
    lowest = math.inf
    for z in range(0, size, 2):
        radius = sigma * math.sqrt(-2.0 * math.log(1.0 - uniform(key, z)))
        angle = 2.0 * math.pi * uniform(key, z + 1)
        out[z] = popularity[z] + radius * math.cos(angle)
        lowest = min(lowest, out[z])
        if z + 1 < size:
            out[z + 1] = popularity[z + 1] + radius * math.sin(angle)
            lowest = min(lowest, out[z + 1])
    total = 0.0
    for z in range(size):
        out[z] += abs(lowest)
        total += out[z]
    for z in range(size):
        out[z] /= total


@njit(nogil=True, cache=True)
def draw_own_traces(
    keys, perturbation_keys, gamma, delta, iota, k, order, starts, popularity, sigma, user_popularity, cumulative, out
):
    """Draw traces of users who each perturb the popularity; user_popularity and cumulative (universe) are scratch."""
    for user in range(keys.shape[0]):
        perturb(perturbation_keys[user], popularity, sigma, user_popularity)
        for section in range(starts.shape[0] - 1):
            total = 0.0
            for i in range(starts[section], starts[section + 1]):
                # rounding can leave an object slightly below zero
                total += max(user_popularity[order[i]], 0.0)
                cumulative[i] = total
        _draw_trace(
            keys[user],
            gamma[user],
            delta[user],
            iota[user],
            k,
            order,
            starts,
            cumulative,
            out[user],
        )


@njit(nogil=True, cache=True)
def draw_habitual_traces(
    keys, gamma, delta, iota, later, after, k, order, starts, cumulative, concentration, n_drawn, drawn, out
):
    """Draw traces of users who each have a popularity from a Dirichlet distribution, and may change their pool.

    Events from index `after` on prefer the pool `later` (users,). Within section s, the popularity is Dirichlet with
    mean `cumulative` and `concentration[s]`. It is integrated out: the next object of a section is an earlier one of
    it, or a new draw, as in the urn of Blackwell and MacQueen (1973). n_drawn (sections,) and drawn (sections, events)
    are scratch.
    """
    for user in range(keys.shape[0]):
        n_drawn[:] = 0
        for t in range(out.shape[1]):
            pool = iota[user] if t < after else later[user]
            section = _draw_section(uniform(keys[user], 2 * t), gamma[user], delta[user], pool, k)
            begin, end, before = starts[section], starts[section + 1], n_drawn[section]
            urn = uniform(keys[user], 2 * t + 1) * (concentration[section] + before)
            if urn < before:
                z = drawn[section, int(urn)]
            else:
                target = (urn - before) / concentration[section] * cumulative[end - 1]
                z = order[_search(cumulative, begin, end, target)]
            drawn[section, before] = z
            n_drawn[section] += 1
            out[user, t] = z
