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
    moved,
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
Belief = namedtuple("Belief", "log_prior interest polarization integral blend only class_at")

#: Where a chain is beyond its sets: weight (k + 1,) of the sections, log_weight (classes,), at (4,): random words
#: used, preferred pool, nodes of interest and polarization.
Place = namedtuple("Place", "key at weight log_weight counts posterior")

#: Scratch: chances (units + 1,), order and side (units,), among (3,), taken (slots,), tables (sets, slots), totals (sets, classes),
#: nodes (most,), mix (classes,), weight (k + 1,), log_weight (classes,).
Room = namedtuple("Room", "chances order side among taken tables totals nodes mix weight log_weight")


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


@njit(inline="always")
def _mixed(place, c, log_total, mix):
    """mix: log weight of each class for c reports of that table."""
    for k in range(mix.shape[0]):
        mix[k] = log_total[k] + c * place.log_weight[k]


@njit(inline="always")
def _in_class(units, cumulative, k, coin):
    """A slot of class k from a table."""
    low, high = units.first[k], units.first[k + 1] - 1
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] <= coin:
            low = middle + 1
        else:
            high = middle
    return low


@njit(inline="always")
def _share_at(units, cumulative, s):
    """What a table gives to slot s of its class."""
    before = cumulative[s - 1] if s > units.first[units.class_of[s]] else 0.0
    return cumulative[s] - before


@njit(nogil=True, cache=True)
def _drawn_slot(units, place, c, cumulative, log_total, mix):
    """A slot from a table, whether it is free or not; -1 where no slot is possible."""
    _mixed(place, c, log_total, mix)
    k = _pick(mix, mix.shape[0], _coin(place))
    if k < 0:
        return -1
    return _in_class(units, cumulative, k, _coin(place))


@njit(inline="always")
def _log_phi(units, place, s):
    return place.log_weight[units.class_of[s]] + units.log_share[s]


@njit(nogil=True, cache=True)
def relocate(units, sets, place, room, g):
    """A slot for the whole set from its own law: a free one it takes, for one that is taken the two may change places.

    The law of the set itself cancels, so that only the other's decides on the change.
    """
    a = sets.slot[g]
    cumulative, log_total = _table(units, sets, room, g)
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
    moved(units, sets, g)
    if h >= 0:
        moved(units, sets, h)


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
        if units.joins and sets.size[g] > 0:
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
def _free_slot(units, sets, place, room, c, cumulative, log_total):
    """A free slot from a table, however little the free ones have of it."""
    table, top = room.tables[0], -np.inf
    for s in range(table.shape[0]):
        k, share = units.class_of[s], _share_at(units, cumulative, s)
        table[s] = -np.inf
        if sets.holder[s] < 0 and share > 0.0:
            table[s] = log_total[k] + c * place.log_weight[k] + np.log(share)
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
        if s < 0:
            own = units.table[u]
            s = _free_slot(units, sets, place, room, units.count[u], units.cumulative[own], units.log_total[own])
        _settle(units, sets, u, s)


@njit(inline="always")
def _table(units, sets, room, g):
    """The table of set g: of one unit its own, of more the one that is kept as long as the set stays as it is."""
    if sets.size[g] == 1:
        own = units.table[sets.names[g]]
        return units.cumulative[own], units.log_total[own]
    if not sets.fresh[g]:
        tabulate(units, sets, g, room.tables[g], room.totals[g])
        sets.fresh[g] = True
    return room.tables[g], room.totals[g]


@njit(nogil=True, cache=True)
def _dealt(units, sets, place, room, count, among, log_weight, draw):
    """Sets room.order[:count] to slots of the classes `among` one after the other, each by its law among free slots.

    Slots go to room.side; with `draw` they are drawn, else they are those there. Returns the log of the product of what
    the free slots have of each law: -inf where a set finds next to none.
    """
    total, mix, placed = 0.0, room.mix, 0
    for i in range(count):
        g = room.order[i]
        c = sets.total[g]
        cumulative, log_total = _table(units, sets, room, g)
        top = -np.inf
        for b in among:
            mix[b] = log_total[b] + c * log_weight[b]
            top = max(top, mix[b])
        whole = 0.0
        for b in among:
            mix[b] = np.exp(mix[b] - top)
            whole += mix[b]
        free = whole
        for j in range(i):
            s = room.side[j]
            free -= mix[units.class_of[s]] * _share_at(units, cumulative, s)
        if not free > 1e-9 * whole:
            total = -np.inf
            break
        total += top + np.log(free)
        s = sets.slot[g]
        if draw:
            s = _among(units, place, room, among, cumulative, whole, free)
        room.side[i] = s
        room.taken[s] = True
        placed += 1
    for i in range(placed):
        room.taken[room.side[i]] = False
    return total


@njit(nogil=True, cache=True)
def _among(units, place, room, among, cumulative, whole, free):
    """A slot of these classes that is not taken, from a table: by trial, or where little is left by going through all."""
    mix = room.mix
    if free > 0.2 * whole:
        while True:
            want, at = _coin(place) * whole, 0
            while at < among.shape[0] - 1 and want >= mix[among[at]]:
                want -= mix[among[at]]
                at += 1
            s = _in_class(units, cumulative, among[at], _coin(place))
            if not room.taken[s]:
                return s
    want, last = _coin(place) * free, -1
    for b in among:
        before = 0.0
        for s in range(units.first[b], units.first[b + 1]):
            share = cumulative[s] - before
            before = cumulative[s]
            if share > 0.0 and not room.taken[s]:
                last = s
                want -= mix[b] * share
                if want < 0.0:
                    return s
    return last


@njit(nogil=True, cache=True)
def _weights(belief, iota, gamma, delta, weight):
    """weight (k + 1,) of the sections, from a preferred pool and nodes of relevant interest and polarization."""
    interest, polarization = belief.interest, belief.polarization
    weight[0] = np.exp(interest[1, gamma])
    for i in range(weight.shape[0] - 1):
        weight[i + 1] = np.exp(interest[0, gamma] + polarization[0 if i == iota else 1, delta])


@njit(nogil=True, cache=True)
def weigh(belief, weight, log_weight):
    """The log weights of the classes from the weights of the sections."""
    for c in range(log_weight.shape[0]):
        total = 0.0
        for j in range(weight.shape[0]):
            total += belief.blend[c, j] * weight[j]
        log_weight[c] = np.log(total) if total > 0.0 else NEVER


@njit(nogil=True, cache=True)
def prefer(units, sets, belief, place, room):
    """Another preferred pool, or another relevant interest as well: the sets of both pools, and then the neutral ones,
    are dealt anew at once; the sets elsewhere stay, at the weight that they then have.

    What is new comes from the prior, which is no part of the odds then.
    """
    k, n, order = belief.log_prior.shape[0], units.count.shape[0], room.order
    iota, gamma, delta = place.at[1], place.at[2], place.at[3]
    other, node, most = int(_coin(place) * k), gamma, 0
    if belief.class_at[0] >= 0 and _coin(place) < 0.5:
        node = _node(belief.interest, 0, 0, room.nodes, _coin(place))
        room.among[0] = belief.class_at[0]
        most = 1
    elif other == iota:
        return
    room.among[most] = belief.class_at[iota + 1]
    most += 1
    if other != iota:
        room.among[most] = belief.class_at[other + 1]
        most += 1
    among = room.among[:most]
    _weights(belief, other, node, delta, room.weight)
    weigh(belief, room.weight, room.log_weight)
    count, odds = 0, belief.log_prior[other] - belief.log_prior[iota]
    for g in range(n):
        if sets.size[g] > 0:
            c = units.class_of[sets.slot[g]]
            inside = False
            for b in among:
                inside |= b == c
            if not inside:
                odds += sets.total[g] * (room.log_weight[c] - place.log_weight[c])
                continue
            at = count
            while at > 0 and sets.total[order[at - 1]] < sets.total[g]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = g
            count += 1
    odds -= _dealt(units, sets, place, room, count, among, place.log_weight, False)
    if odds == np.inf:
        return
    odds += _dealt(units, sets, place, room, count, among, room.log_weight, True)
    if _coin(place) >= np.exp(odds):
        return
    for m in range(count):
        sets.holder[sets.slot[order[m]]] = -1
    for m in range(count):
        g = order[m]
        sets.slot[g] = room.side[m]
        sets.holder[room.side[m]] = g
        moved(units, sets, g)
    place.at[1], place.at[2] = other, node
    place.weight[:] = room.weight
    place.log_weight[:] = room.log_weight


@njit(nogil=True, cache=True)
def _log_mass(units, sets, place, room, g):
    """Log of the sum over slots of set g's law."""
    log_total = _table(units, sets, room, g)[1]
    _mixed(place, sets.total[g], log_total, room.mix)
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
    odds = _log_mass(units, sets, place, room, left) + _log_mass(units, sets, place, room, right)
    odds -= _log_mass(units, sets, place, room, both) + log_deal
    if g != h:
        odds = -odds
    if _coin(place) >= np.exp(odds):
        return
    if g == h:
        a = _drawn_slot(units, place, sets.total[left], *_table(units, sets, room, left), room.mix)
        b = _drawn_slot(units, place, sets.total[right], *_table(units, sets, room, right), room.mix)
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
        a = _drawn_slot(units, place, sets.total[both], *_table(units, sets, room, both), room.mix)
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
    place.at[1], place.at[2], place.at[3] = iota, gamma, delta
    _weights(belief, iota, gamma, delta, weight)
    weigh(belief, weight, place.log_weight)


@njit(nogil=True, cache=True)
def _node(axis, one, other, nodes, coin):
    """A node of an axis with probability proportional to x^one y^other times its weight."""
    for i in range(axis.shape[1]):
        nodes[i] = one * axis[0, i] + other * axis[1, i] + axis[2, i]
    return _pick(nodes, axis.shape[1], coin)


@njit(nogil=True, cache=True)
def sweep(units, sets, belief, place, room, sweeps, pairs, jumps, out):
    """So many rounds of all moves; out (pools,) has the pools' posteriors added, one a round."""
    n = units.count.shape[0]
    sets.fresh[:] = False  # the tables may be another chain's
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
        for _ in range(jumps if belief.class_at[1] >= 0 else 0):
            prefer(units, sets, belief, place, room)
        for i in range(out.shape[0]):
            out[i] += place.posterior[i]
