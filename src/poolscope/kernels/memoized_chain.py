"""A chain over the objects behind a user's reports, the kept answers summed out: a collapsed Gibbs sampler.

Given the behavior, a set g of c reports at slot s weighs Pr[reports | s] Phi(s)^c, Phi(s) being the weight of the
slot's class times its share within the class, and no two sets have one slot. Every move leaves that law as it is, and
so does drawing the behavior given how many reports lie in each section.
"""

from __future__ import annotations

import numpy as np

from poolscope.kernels.compilation import njit_no_refcount
from poolscope.kernels.memoized_moves import (
    coin,
    drawn_slot,
    in_class,
    log_phi,
    log_sum,
    mixed,
    node,
    pick,
    propose_pool,
    share_at,
    split_or_merge,
    weigh,
    weights,
)
from poolscope.kernels.memoized_state import (
    claim,
    empty,
    log_joins,
    log_response_prob,
    log_stay,
    move,
    put,
    table,
    take,
)

#: Times that a slot is drawn again if it is taken, and what is below the likeliest by so much is never drawn: that is
#: once in 10^13 times.
TRIES, FAR = 4, 30.0


@njit_no_refcount
def relocate(units, sets, place, workspace, g):
    """A slot for the whole set from its own law: a free one it takes, for one that is taken the two may change places.

    The law of the set itself cancels, so that only the other's decides on the change.
    """
    a = sets.slot[g]
    b = drawn_slot(units, place, sets.total[g], table(units, sets, g), workspace.mix)
    if b == a:
        return
    h = sets.holder[b]
    if h >= 0:
        change = log_response_prob(units, sets, h, a) - log_response_prob(units, sets, h, b)
        change += sets.total[h] * (log_phi(units, place, a) - log_phi(units, place, b))
        if coin(place) >= np.exp(change):
            return
        move(units, sets, h, a)
    sets.holder[a] = h
    sets.holder[b] = g
    move(units, sets, g, b)


@njit_no_refcount
def reassign(units, sets, place, workspace, u):
    """Unit u, of one report, to a set that is there or to a slot of its own; it stays if that is taken.

    One that is by itself and shall be so stays as well: slots of sets are for `relocate`, and to every way from here to
    a set there is as likely a way back.
    """
    g = sets.set_of[u]
    s = _chosen(units, sets, place, workspace, u)
    if s < 0 or s == sets.slot[g] or (sets.size[g] == 1 and sets.holder[s] < 0):
        return
    take(units, sets, u)
    if sets.size[g] == 0:
        workspace.phi[g] = -np.inf
    _settle(units, sets, place, workspace, u, s)


@njit_no_refcount
def _settle(units, sets, place, workspace, u, s):
    """Unit u, which is in no set, to slot s."""
    g = sets.holder[s]
    if g < 0:
        g = claim(sets, s)
        workspace.phi[g] = log_phi(units, place, s)
    put(units, sets, u, g)


@njit_no_refcount
def _chosen(units, sets, place, workspace, u):
    """A slot for unit u as if it were in no set; -1 if it drew those of sets that it cannot join.

    room.phi has of every set what its slot weighs, as a logarithm, and -inf where there is none.
    """
    n, mix, mine = sets.top[0], workspace.mix, sets.set_of[u]
    chances, there = workspace.chances[:n], mine >= 0 and sets.size[mine] > 1
    mixed(units, place, units.count[u], units.table[u], mix)
    top = -np.inf
    for k in range(mix.shape[0]):
        top = max(top, mix[k])
    for g in range(n):
        chances[g] = workspace.phi[g]
    log_joins(units, sets, u, chances)
    if mine >= 0:
        chances[mine] = workspace.phi[mine] + log_stay(units, sets, u) if there else -np.inf
    for chance in chances:
        top = max(top, chance)
    total = 0.0
    for g in range(n):
        if chances[g] > top - FAR:
            total += np.exp(chances[g] - top)
        chances[g] = total
    joined = total
    for k in range(mix.shape[0]):
        total += np.exp(mix[k] - top)
        mix[k] = total
    for _ in range(TRIES):
        want = coin(place) * total
        if want < joined:
            g = 0
            while want >= chances[g]:
                g += 1
            return sets.slot[g]
        k = 0
        while k < mix.shape[0] - 1 and want >= mix[k]:
            k += 1
        s = in_class(units, units.table[u], k, coin(place))
        if sets.holder[s] < 0 or (sets.holder[s] == mine and not there):
            return s
    return -1


@njit_no_refcount
def _free_slot(units, sets, place, c, row):
    """A free slot from a table, however little the free ones have of it; where a set's table may be is scratch."""
    table, top = units.cumulative[units.tables], -np.inf
    for s in range(table.shape[0]):
        k, share = units.class_of[s], share_at(units, row, s)
        table[s] = -np.inf
        if sets.holder[s] < 0 and share > 0.0:
            table[s] = units.log_total[row, k] + c * place.log_weight[k] + np.log(share)
        top = max(top, table[s])
    if top == -np.inf:
        for s in range(table.shape[0]):
            if sets.holder[s] < 0:
                return s
    return pick(table, table.shape[0], coin(place))


@njit_no_refcount
def start(units, sets, place, workspace, favor):
    """Units one after the other, as they stand in room.order, each given those before it; sets that are there weigh
    more by `favor`, a logarithm.
    """
    units.chain[0] = 0
    sets.holder[:] = -1
    sets.set_of[:] = -1
    n = units.count.shape[0]
    for g in range(n):
        # from the last: those in use then stand together at the beginning
        sets.spare[g] = n - 1 - g
        empty(sets, g)
    sets.spare[n] = n
    sets.top[0] = 0
    workspace.phi[:] = -np.inf
    for i in range(n):
        u = workspace.order[i]
        s = _chosen(units, sets, place, workspace, u)
        if s < 0:
            s = _free_slot(units, sets, place, units.count[u], units.table[u])
        _settle(units, sets, place, workspace, u, s)
        workspace.phi[sets.holder[s]] = favor + log_phi(units, place, s)


@njit_no_refcount
def gibbs_behavior(units, sets, belief, place, workspace):
    """Sections of the reports, the pools' posterior given these, and a behavior from its own."""
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
    nodes, posterior = workspace.nodes, place.posterior
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


@njit_no_refcount
def sweep(units, belief, sets, place, workspace, sweeps, pairs, jumps, out):
    """So many rounds of all moves; out (pools,) has the pools' posteriors added, one a round."""
    n = units.count.shape[0]
    if units.chain[0] != place.key:
        sets.made[:] = 0
        units.chain[0] = place.key
    for _ in range(sweeps):
        if units.joins:
            for g in range(n):
                workspace.phi[g] = log_phi(units, place, sets.slot[g]) if sets.size[g] > 0 else -np.inf
            for u in range(n):
                reassign(units, sets, place, workspace, u)
            for _ in range(pairs):
                split_or_merge(units, sets, place, workspace)
        for g in range(n):
            if sets.size[g] > 0:
                relocate(units, sets, place, workspace, g)
        gibbs_behavior(units, sets, belief, place, workspace)
        for _ in range(jumps if belief.class_at[1] >= 0 else 0):
            propose_pool(units, sets, belief, place, workspace)
        for i in range(out.shape[0]):
            out[i] += place.posterior[i]
