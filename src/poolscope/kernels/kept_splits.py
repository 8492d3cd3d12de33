"""One set of reports made two, and two made one."""

import numpy as np

from poolscope.kernels.kept_draws import coin, drawn_slot, log_sum, mixed
from poolscope.kernels.kept_sets import add, claim, empty, log_join, refresh, release
from poolscope.kernels.kept_tables import table
from poolscope.kernels.uncounted import uncounted


@uncounted
def _log_mass(units, sets, place, room, g):
    """Log of the sum over slots of set g's law."""
    mixed(units, place, sets.total[g], table(units, sets, g), room.mix)
    return log_sum(room.mix, room.mix.shape[0])


@uncounted
def _at_most(units, sets, place, room, g):
    """A bound of `_log_mass` that needs no table: the best slot's law, the best slot's share for all reports but one,
    and the shares of all slots, which are one together, for that.
    """
    if sets.size[g] == 1 or sets.made[g] == sets.mark[g]:
        return _log_mass(units, sets, place, room, g)
    best, phi, part = -np.inf, -np.inf, sets.part[g]
    for j in range(part.shape[0]):
        best = max(best, part[j])
    for k in range(units.top_share.shape[0]):
        phi = max(phi, place.log_weight[k] + units.top_share[k])
    return sets.level[g] + units.positions.shape[0] * best + (sets.total[g] - 1) * phi + 1e-6


@uncounted
def _unite(sets, g, h, both):
    """Set `both` as what g and h are together, without a slot; `refresh` is left to do."""
    sets.slot[both] = -1
    sets.size[both] = sets.size[g] + sets.size[h]
    sets.names[both] = sets.names[g] + sets.names[h]
    sets.total[both] = sets.total[g] + sets.total[h]
    sets.mark[both] = sets.mark[g] + sets.mark[h]
    for j in range(sets.ones.shape[1]):
        sets.ones[both, j] = sets.ones[g, j] + sets.ones[h, j]


@uncounted
def split_or_merge(units, sets, place, room):
    """Two units at random: what is one set is split between them, what are two is merged.

    The others are dealt one after the other, each by what the two sets say of it so far at no slot in particular; slots
    are drawn from the laws of the sets that result, so that of the odds only the sums of these laws are left. Two sets
    at random are hardly ever one: the coin is drawn first, and where bounds of the sums tell that it decides against
    the move, nothing is dealt and no table made.
    """
    n, order = units.count.shape[0], room.order
    t = int(coin(place) * n)
    u = int(coin(place) * (n - 1))
    u += u >= t
    g, h = sets.set_of[t], sets.set_of[u]
    left, right, both, want = n, n + 1, n + 2, np.log(coin(place))
    there = _log_mass(units, sets, place, room, g)
    if g != h:
        there += _log_mass(units, sets, place, room, h)
        _unite(sets, g, h, both)
        refresh(units, sets, both)
        if want >= _at_most(units, sets, place, room, both) - there:
            return
    for some in (left, right):
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
    if g == h:
        most = _at_most(units, sets, place, room, left) + _at_most(units, sets, place, room, right)
        if want >= most - there - log_deal:
            return
        odds = _log_mass(units, sets, place, room, left) + _log_mass(units, sets, place, room, right)
        odds -= there + log_deal
    else:
        odds = _log_mass(units, sets, place, room, both) - there + log_deal
    if want >= odds:
        return
    if g == h:
        a = drawn_slot(units, place, sets.total[left], table(units, sets, left), room.mix)
        b = drawn_slot(units, place, sets.total[right], table(units, sets, right), room.mix)
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
        a = drawn_slot(units, place, sets.total[both], table(units, sets, both), room.mix)
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
