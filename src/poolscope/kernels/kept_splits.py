"""One set of reports made two, and two made one."""

import numpy as np
from numba import njit

from poolscope.kernels.kept_draws import coin, drawn_slot, log_sum, mixed, table
from poolscope.kernels.kept_sets import IDENTICAL, add, claim, empty, log_join, refresh, release


@njit(nogil=True, cache=True)
def _log_mass(units, sets, place, room, g):
    """Log of the sum over slots of set g's law."""
    log_total = table(units, sets, room, g)[1]
    mixed(place, sets.total[g], log_total, room.mix)
    return log_sum(room.mix, room.mix.shape[0])


@njit(nogil=True, cache=True)
def split_or_merge(units, sets, place, room):
    """Two units at random: what is one set is split between them, what are two is merged.

    The others are dealt one after the other, each by what the two sets say of it so far at no slot in particular; slots
    are drawn from the laws of the sets that result, so that of the odds only the sums of these laws are left.
    """
    n, order = units.count.shape[0], room.order
    t = int(coin(place) * n)
    u = int(coin(place) * (n - 1))
    u += u >= t
    g, h = sets.set_of[t], sets.set_of[u]
    if units.kind == IDENTICAL and units.row[t] != units.row[u]:
        return
    left, right, both = n, n + 1, n + 2
    for some in (left, right, both):
        empty(sets, some)
    add(units, sets, t, left, 1)
    add(units, sets, u, right, 1)
    refresh(units, sets, left)
    refresh(units, sets, right)
    others = 0
    for v in range(n):
        if (sets.set_of[v] == g or sets.set_of[v] == h) and v != t and v != u:
            order[others] = v
            others += 1
    log_deal = 0.0
    for i in range(others):
        j = i + int(coin(place) * (others - i))
        order[i], order[j] = order[j], order[i]
        v = order[i]
        odds = log_join(units, sets, right, v) - log_join(units, sets, left, v)
        chance = 1.0 / (1.0 + np.exp(odds))
        to_left = coin(place) < chance if g == h else sets.set_of[v] == g
        log_deal += -np.log1p(np.exp(odds)) if to_left else -np.log1p(np.exp(-odds))
        some = left if to_left else right
        add(units, sets, v, some, 1)
        refresh(units, sets, some)
        room.side[v] = some
    room.side[t], room.side[u] = left, right
    # what is there has its table already
    one, two, whole = left, right, g
    if g != h:
        one, two, whole = g, h, both
        for v in range(n):
            if sets.set_of[v] == g or sets.set_of[v] == h:
                add(units, sets, v, both, 1)
        refresh(units, sets, both)
    odds = _log_mass(units, sets, place, room, one) + _log_mass(units, sets, place, room, two)
    odds -= _log_mass(units, sets, place, room, whole) + log_deal
    if g != h:
        odds = -odds
    if coin(place) >= np.exp(odds):
        return
    if g == h:
        a = drawn_slot(units, place, sets.total[left], *table(units, sets, room, left), room.mix)
        b = drawn_slot(units, place, sets.total[right], *table(units, sets, room, right), room.mix)
        if a == b or (sets.holder[a] >= 0 and sets.holder[a] != g) or (sets.holder[b] >= 0 and sets.holder[b] != g):
            return
        order[others], order[others + 1] = t, u
        release(sets, g)
        g, h = claim(sets, a), claim(sets, b)
        for i in range(others + 2):
            v = order[i]
            to = g if room.side[v] == left else h
            sets.set_of[v] = to
            add(units, sets, v, to, 1)
        refresh(units, sets, h)
    else:
        a = drawn_slot(units, place, sets.total[both], *table(units, sets, room, both), room.mix)
        if sets.holder[a] >= 0 and sets.holder[a] != g and sets.holder[a] != h:
            return
        release(sets, g)
        release(sets, h)
        g = claim(sets, a)
        order[others], order[others + 1] = t, u
        for i in range(others + 2):
            sets.set_of[order[i]] = g
            add(units, sets, order[i], g, 1)
    refresh(units, sets, g)
