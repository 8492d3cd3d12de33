"""A chain over the objects behind a user's reports, the kept answers summed out: a collapsed Gibbs sampler.

Given the behaviour, a set g of c reports at slot s weighs Pr[reports | s] Phi(s)^c, Phi(s) being the weight of the
slot's class times its share within the class, and no two sets have one slot. Every move leaves that law as it is, and
so does drawing the behaviour given how many reports lie in each section.
"""

import numpy as np
from numba import njit

from poolscope.kernels.kept_deals import node, prefer, weigh, weights
from poolscope.kernels.kept_draws import coin, drawn_slot, log_phi, log_sum, mixed, pick, share_at, table
from poolscope.kernels.kept_sets import (
    add,
    can_join,
    claim,
    copy_said,
    empty,
    log_joins,
    log_law,
    put,
    refresh,
    take,
)
from poolscope.kernels.kept_splits import split_or_merge

#: Times that a slot is drawn again if it is taken, and what is below the likeliest by so much is never drawn: that is
#: once in 10^13 times.
TRIES, FAR = 4, 30.0


@njit(nogil=True, cache=True)
def relocate(units, sets, place, room, g):
    """A slot for the whole set from its own law: a free one it takes, for one that is taken the two may change places.

    The law of the set itself cancels, so that only the other's decides on the change.
    """
    a = sets.slot[g]
    cumulative, log_total = table(units, sets, room, g)
    b = drawn_slot(units, place, sets.total[g], cumulative, log_total, room.mix)
    if b == a:
        return
    h = sets.holder[b]
    if h >= 0:
        change = log_law(units, sets, h, a) - log_law(units, sets, h, b)
        change += sets.total[h] * (log_phi(units, place, a) - log_phi(units, place, b))
        if coin(place) >= np.exp(change):
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
    g, spare = sets.set_of[u], units.count.shape[0]
    before, alone = sets.slot[g], sets.size[g] == 1
    if not alone:
        copy_said(sets, g, spare)
    take(units, sets, u)
    s = _chosen(units, sets, place, room, u, TRIES)
    if s >= 0 and s != before:
        _settle(units, sets, u, s)
        return
    # mostly it goes back, and what its set said before is known: alone in the set that was freed last
    sets.set_of[u] = claim(sets, before) if alone else g
    add(units, sets, u, g, 1)
    if not alone:
        copy_said(sets, spare, g)


@njit(nogil=True, cache=True)
def _settle(units, sets, u, s):
    g = sets.holder[s]
    put(units, sets, u, claim(sets, s) if g < 0 else g)


@njit(nogil=True, cache=True)
def _chosen(units, sets, place, room, u, tries):
    """A slot for unit u, which is in no set; -1 if it drew those of sets that it cannot join."""
    n, chances, own = sets.top[0], room.chances, units.table[u]
    mixed(place, units.count[u], units.log_total[own], room.mix)
    alone = log_sum(room.mix, room.mix.shape[0])
    top = alone
    if units.joins:
        log_joins(units, sets, u, chances[:n])
        for g in range(n):
            if sets.size[g] > 0:
                chances[g] += log_phi(units, place, sets.slot[g])
                top = max(top, chances[g])
    else:
        chances[:n] = -np.inf
    total = 0.0
    for g in range(n):
        if chances[g] > top - FAR:
            total += np.exp(chances[g] - top)
        chances[g] = total
    total += np.exp(alone - top)
    for _ in range(tries):
        want = coin(place) * total
        g = 0
        while g < n and want >= chances[g]:
            g += 1
        if g < n:
            return sets.slot[g]
        s = drawn_slot(units, place, units.count[u], units.cumulative[own], units.log_total[own], room.mix)
        if sets.holder[s] < 0:
            return s
    return -1


@njit(nogil=True, cache=True)
def _free_slot(units, sets, place, room, c, cumulative, log_total):
    """A free slot from a table, however little the free ones have of it."""
    table, top = room.tables[0], -np.inf
    for s in range(table.shape[0]):
        k, share = units.class_of[s], share_at(units, cumulative, s)
        table[s] = -np.inf
        if sets.holder[s] < 0 and share > 0.0:
            table[s] = log_total[k] + c * place.log_weight[k] + np.log(share)
        top = max(top, table[s])
    if top == -np.inf:
        for s in range(table.shape[0]):
            if sets.holder[s] < 0:
                return s
    return pick(table, table.shape[0], coin(place))


@njit(nogil=True, cache=True)
def start(units, sets, place, room, together):
    """Units one after the other, as they stand in room.order, each given those before it; or `together`, each with the
    first that it can share an answer with.
    """
    sets.holder[:] = -1
    sets.set_of[:] = -1
    n = units.count.shape[0]
    for g in range(n):
        # from the last: those in use then stand together at the beginning
        sets.spare[g] = n - 1 - g
        empty(sets, g)
    sets.spare[n] = n
    sets.top[0] = 0
    for i in range(n):
        u, s = room.order[i], -1
        for j in range(i if together and units.joins else 0):
            g = sets.set_of[room.order[j]]
            if can_join(units, sets, g, u):
                s = sets.slot[g]
                break
        if s < 0:
            s = _chosen(units, sets, place, room, u, TRIES)
        if s < 0:
            own = units.table[u]
            s = _free_slot(units, sets, place, room, units.count[u], units.cumulative[own], units.log_total[own])
        _settle(units, sets, u, s)


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
                want, j = coin(place) * total, 0
                while j < k and want >= belief.blend[c, j] * weight[j]:
                    want -= belief.blend[c, j] * weight[j]
                    j += 1
                counts[j] += 1
    inside = counts.sum() - counts[0]
    nodes, posterior = room.nodes, place.posterior
    for i in range(k):
        nodes[i] = belief.log_prior[i] + belief.integral[counts[i + 1], inside - counts[i + 1]]
    norm = log_sum(nodes, k)
    for i in range(k):
        posterior[i] = np.exp(nodes[i] - norm)
    iota = pick(nodes, k, coin(place))
    own = counts[iota + 1]
    gamma = node(belief.interest, inside, counts[0], nodes, coin(place))
    delta = node(belief.polarization, own, inside - own, nodes, coin(place))
    place.at[1], place.at[2], place.at[3] = iota, gamma, delta
    weights(belief, iota, gamma, delta, weight)
    weigh(belief, weight, place.log_weight)


@njit(nogil=True, cache=True)
def sweep(units, belief, sets, place, room, sweeps, pairs, jumps, out):
    """So many rounds of all moves; out (pools,) has the pools' posteriors added, one a round."""
    n = units.count.shape[0]
    sets.made[:] = 0  # the tables may be another chain's
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
