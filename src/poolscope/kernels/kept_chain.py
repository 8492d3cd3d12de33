"""A chain over the objects behind a user's reports, the kept answers summed out: a collapsed Gibbs sampler.

Given the behaviour, a set g of c reports at slot s weighs Pr[reports | s] Phi(s)^c, Phi(s) being the weight of the
slot's class times its share within the class, and no two sets have one slot. Every move leaves that law as it is, and so
does drawing the behaviour given how many reports lie in each section.
"""

from collections import namedtuple

import numpy as np
from numba import njit

from poolscope.kernels.kept_sets import (
    IDENTICAL,
    NEVER,
    add,
    claim,
    empty,
    log_join,
    log_law,
    put,
    refresh,
    release,
    tabulate,
    take,
)
from poolscope.kernels.random import uniform

#: Times that a slot is drawn again if it is taken.
TRIES = 4

#: Behaviour as an adversary believes it. log_prior (pools,); interest (3, nodes) log gamma, log 1 - gamma, log weight;
#: polarization (3, nodes) log delta, log (1 - delta)/(k - 1), log weight; integral (n + 1, n + 1): log of the mean of
#: delta^own ((1 - delta)/(k - 1))^rest; blend (classes, k + 1) what the weight of each section adds to that of a class.
#: only (classes,) the section of a class that has but one, or -1.
Belief = namedtuple("Belief", "log_prior interest polarization integral blend only")

#: Where a chain is beyond its sets: weight (k + 1,) of the sections, log_weight (classes,), at (1,): random words used.
Place = namedtuple("Place", "key at weight log_weight counts posterior")

#: Scratch: chances (units + 1,), order and side (units,), tables (3, slots), totals (3, classes), nodes (most,), mix
#: (classes,).
Room = namedtuple("Room", "chances order side tables totals nodes mix")


@njit(inline="always")
def _coin(place):
    i = place.at[0]
    place.at[0] = i + 1
    return uniform(place.key, i)


@njit(nogil=True, cache=True)
def _pick(logs, count, coin):
    """An index with probability proportional to exp(logs); logs become cumulated."""
    top = -np.inf
    for i in range(count):
        top = max(top, logs[i])
    if top == -np.inf:
        return -1
    total = 0.0
    for i in range(count):
        total += np.exp(logs[i] - top)
        logs[i] = total
    want = coin * total
    for i in range(count):
        if want < logs[i]:
            return i
    return count - 1


@njit(nogil=True, cache=True)
def _log_sum(logs, count):
    top = -np.inf
    for i in range(count):
        top = max(top, logs[i])
    if top == -np.inf:
        return top
    total = 0.0
    for i in range(count):
        total += np.exp(logs[i] - top)
    return top + np.log(total)


@njit(nogil=True, cache=True)
def _mixed(place, c, log_total, mix):
    """mix: log weight of each class for c reports of that table."""
    for k in range(mix.shape[0]):
        mix[k] = log_total[k] + c * place.log_weight[k]


@njit(nogil=True, cache=True)
def _drawn_slot(units, place, c, cumulative, log_total, mix):
    """A slot from a table, whether it is free or not; -1 where no slot is possible."""
    _mixed(place, c, log_total, mix)
    k = _pick(mix, mix.shape[0], _coin(place))
    if k < 0:
        return -1
    low, high = units.first[k], units.first[k + 1]
    want = _coin(place) * cumulative[high - 1]
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] <= want:
            low = middle + 1
        else:
            high = middle
    return min(low, units.first[k + 1] - 1)


@njit(nogil=True, cache=True)
def _log_phi(units, place, s):
    return place.log_weight[units.class_of[s]] + units.log_share[s]


@njit(nogil=True, cache=True)
def relocate(units, sets, place, room, g):
    """A slot for the whole set from its own law: a free one it takes, for one that is taken the two may change places.

    The law of the set itself cancels, so that only the other's decides on the change.
    """
    a = sets.slot[g]
    if sets.size[g] == 1:
        own = units.table[sets.names[g]]
        cumulative, log_total = units.cumulative[own], units.log_total[own]
    else:
        cumulative, log_total = room.tables[0], room.totals[0]
        tabulate(units, sets, g, cumulative, log_total)
    b = _drawn_slot(units, place, sets.total[g], cumulative, log_total, room.mix)
    if b == a:
        return
    h = sets.holder[b]
    if h >= 0:
        change = log_law(units, sets, h, a) - log_law(units, sets, h, b)
        change += sets.total[h] * (_log_phi(units, place, a) - _log_phi(units, place, b))
        if _coin(place) >= np.exp(change):
            return
        sets.slot[h] = a
    sets.holder[a] = h
    sets.holder[b] = g
    sets.slot[g] = b
    refresh(units, sets, g)
    if h >= 0:
        refresh(units, sets, h)


@njit(nogil=True, cache=True)
def reassign(units, sets, place, room, u):
    """Unit u, of one report, to a set that is there or to a slot of its own; back to where it was if that is taken."""
    before = sets.slot[sets.set_of[u]]
    take(units, sets, u)
    s = _chosen(units, sets, place, room, u, TRIES)
    _settle(units, sets, u, before if s < 0 else s)


@njit(nogil=True, cache=True)
def _settle(units, sets, u, s):
    g = sets.holder[s]
    put(units, sets, u, claim(sets, s) if g < 0 else g)


@njit(nogil=True, cache=True)
def _chosen(units, sets, place, room, u, tries):
    """A slot for unit u, which is in no set; -1 if it drew those of sets that it cannot join."""
    n, chances, own = units.count.shape[0], room.chances, units.table[u]
    for g in range(n):
        chances[g] = -np.inf
        if sets.size[g] > 0:
            chances[g] = log_join(units, sets, g, u) + _log_phi(units, place, sets.slot[g])
    _mixed(place, units.count[u], units.log_total[own], room.mix)
    chances[n] = _log_sum(room.mix, room.mix.shape[0])
    top = -np.inf
    for g in range(n + 1):
        top = max(top, chances[g])
    total = 0.0
    for g in range(n + 1):
        if chances[g] > top - 50.0:
            total += np.exp(chances[g] - top)
        chances[g] = total
    for _ in range(tries):
        want = _coin(place) * total
        g = 0
        while g < n and want >= chances[g]:
            g += 1
        if g < n:
            return sets.slot[g]
        s = _drawn_slot(units, place, units.count[u], units.cumulative[own], units.log_total[own], room.mix)
        if sets.holder[s] < 0:
            return s
    return -1


@njit(nogil=True, cache=True)
def _free_slot(units, sets, place, room, u):
    """A free slot from the law of unit u alone, however little the free ones have of it."""
    table, c, own, top = room.tables[0], units.count[u], units.table[u], -np.inf
    cumulative, log_total = units.cumulative[own], units.log_total[own]
    for s in range(table.shape[0]):
        k = units.class_of[s]
        low, high = units.first[k], units.first[k + 1]
        share = cumulative[s] - (cumulative[s - 1] if s > low else 0.0)
        table[s] = -np.inf
        if sets.holder[s] < 0 and share > 0.0:
            table[s] = log_total[k] + c * place.log_weight[k] + np.log(share / cumulative[high - 1])
        top = max(top, table[s])
    if top == -np.inf:
        for s in range(table.shape[0]):
            if sets.holder[s] < 0:
                return s
    return _pick(table, table.shape[0], _coin(place))


@njit(nogil=True, cache=True)
def start(units, sets, place, room):
    """Units one after the other, as they stand in room.order, each given those before it."""
    sets.holder[:] = -1
    sets.set_of[:] = -1
    n = units.count.shape[0]
    for g in range(n):
        sets.spare[g] = g
        empty(sets, g)
    sets.spare[n] = n
    for i in range(n):
        u = room.order[i]
        s = _chosen(units, sets, place, room, u, TRIES)
        _settle(units, sets, u, _free_slot(units, sets, place, room, u) if s < 0 else s)


@njit(nogil=True, cache=True)
def _log_mass(units, sets, place, room, g, i):
    """Log of the sum over slots of set g's law, tabulated as the i-th table."""
    tabulate(units, sets, g, room.tables[i], room.totals[i])
    _mixed(place, sets.total[g], room.totals[i], room.mix)
    return _log_sum(room.mix, room.mix.shape[0])


@njit(nogil=True, cache=True)
def split_or_merge(units, sets, place, room):
    """Two units at random: what is one set is split between them, what are two is merged.

    The others are dealt one after the other, each by what the two sets say of it so far at no slot in particular; slots
    are drawn from the laws of the sets that result, so that of the odds only the sums of these laws are left.
    """
    n, order = units.count.shape[0], room.order
    t = int(_coin(place) * n)
    u = int(_coin(place) * (n - 1))
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
        j = i + int(_coin(place) * (others - i))
        order[i], order[j] = order[j], order[i]
        v = order[i]
        odds = log_join(units, sets, right, v) - log_join(units, sets, left, v)
        chance = 1.0 / (1.0 + np.exp(odds))
        to_left = _coin(place) < chance if g == h else sets.set_of[v] == g
        log_deal += -np.log1p(np.exp(odds)) if to_left else -np.log1p(np.exp(-odds))
        some = left if to_left else right
        add(units, sets, v, some, 1)
        refresh(units, sets, some)
        room.side[v] = some
    room.side[t], room.side[u] = left, right
    for v in range(n):
        if sets.set_of[v] == g or sets.set_of[v] == h:
            add(units, sets, v, both, 1)
    refresh(units, sets, both)
    odds = _log_mass(units, sets, place, room, left, 0) + _log_mass(units, sets, place, room, right, 1)
    odds -= _log_mass(units, sets, place, room, both, 2) + log_deal
    if g != h:
        odds = -odds
    if _coin(place) >= np.exp(odds):
        return
    if g == h:
        a = _drawn_slot(units, place, sets.total[left], room.tables[0], room.totals[0], room.mix)
        b = _drawn_slot(units, place, sets.total[right], room.tables[1], room.totals[1], room.mix)
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
        a = _drawn_slot(units, place, sets.total[both], room.tables[2], room.totals[2], room.mix)
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


@njit(nogil=True, cache=True)
def behave(units, sets, belief, place, room):
    """Sections of the reports, the pools' posterior given these, and a behaviour from its own."""
    counts, weight, k = place.counts, place.weight, place.posterior.shape[0]
    counts[:] = 0
    for u in range(units.count.shape[0]):
        c = units.class_of[sets.slot[sets.set_of[u]]]
        if belief.only[c] >= 0:
            counts[belief.only[c]] += units.count[u]
        else:
            total = np.exp(place.log_weight[c])
            for _ in range(units.count[u]):
                want, j = _coin(place) * total, 0
                while j < k and want >= belief.blend[c, j] * weight[j]:
                    want -= belief.blend[c, j] * weight[j]
                    j += 1
                counts[j] += 1
    inside = counts.sum() - counts[0]
    nodes, posterior = room.nodes, place.posterior
    for i in range(k):
        nodes[i] = belief.log_prior[i] + belief.integral[counts[i + 1], inside - counts[i + 1]]
    norm = _log_sum(nodes, k)
    for i in range(k):
        posterior[i] = np.exp(nodes[i] - norm)
    iota = _pick(nodes, k, _coin(place))
    own = counts[iota + 1]
    gamma = _node(belief.interest, inside, counts[0], nodes, _coin(place))
    delta = _node(belief.polarization, own, inside - own, nodes, _coin(place))
    interest, polarization = belief.interest, belief.polarization
    weight[0] = np.exp(interest[1, gamma])
    for i in range(k):
        weight[i + 1] = np.exp(interest[0, gamma] + polarization[0 if i == iota else 1, delta])
    weigh(belief, place)


@njit(nogil=True, cache=True)
def weigh(belief, place):
    """The weights of the classes from those of the sections."""
    for c in range(place.log_weight.shape[0]):
        total = 0.0
        for j in range(place.weight.shape[0]):
            total += belief.blend[c, j] * place.weight[j]
        place.log_weight[c] = np.log(total) if total > 0.0 else NEVER


@njit(nogil=True, cache=True)
def _node(axis, one, other, nodes, coin):
    """A node of an axis with probability proportional to x^one y^other times its weight."""
    for i in range(axis.shape[1]):
        nodes[i] = one * axis[0, i] + other * axis[1, i] + axis[2, i]
    return _pick(nodes, axis.shape[1], coin)


@njit(nogil=True, cache=True)
def sweep(units, sets, belief, place, room, sweeps, pairs, out):
    """So many rounds of all moves; out (pools,) has the pools' posteriors added, one a round."""
    n = units.count.shape[0]
    for _ in range(sweeps):
        if units.joins:
            for u in range(n):
                reassign(units, sets, place, room, u)
            for _ in range(pairs):
                split_or_merge(units, sets, place, room)
        for g in range(n):
            if sets.size[g] > 0:
                relocate(units, sets, place, room, g)
        behave(units, sets, belief, place, room)
        for i in range(out.shape[0]):
            out[i] += place.posterior[i]
