"""Moves of a chain over memoized responses: behavior, preferred pool, splits and merges of sets of reports."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

from poolscope.kernels.compilation import njit_no_refcount
from poolscope.kernels.memoized_state import NEVER, add, claim, empty, log_join, move, refresh, release, table
from poolscope.kernels.random import uniform

#: Behavior as an adversary believes it. log_prior (pools,); interest (3, nodes) log gamma, log 1 - gamma, log weight;
#: polarization (3, nodes) log delta, log (1 - delta)/(k - 1), log weight; integral (n + 1, n + 1): log of the mean of
#: delta^own ((1 - delta)/(k - 1))^rest; blend (classes, k + 1) what the weight of each section adds to that of a class.
#: only (classes,) the section of a class that has but one, or -1.
Belief = namedtuple("Belief", "log_prior interest polarization integral blend only class_at")

#: Where a chain is beyond its sets: weight (k + 1,) of the sections, log_weight (classes,), at (4,): random words
#: used, preferred pool, nodes of interest and polarization.
ChainState = namedtuple("ChainState", "key at weight log_weight counts posterior")

#: Scratch: chances and phi (units,), order and side (units,), among (3,), taken (slots,),
#: nodes (most,), mix (classes,), weight (k + 1,), log_weight (classes,).
Workspace = namedtuple("Workspace", "chances phi order side among taken nodes mix weight log_weight")


@njit(inline="always")
def coin(place):
    i = place.at[0]
    place.at[0] = i + 1
    return uniform(place.key, i)


@njit_no_refcount
def pick(logs, count, coin):
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


@njit_no_refcount
def log_sum(logs, count):
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
def mixed(units, place, c, row, mix):
    """mix: log weight of each class for c reports of that table."""
    for k in range(mix.shape[0]):
        mix[k] = units.log_total[row, k] + c * place.log_weight[k]


@njit(inline="always")
def in_class(units, row, k, coin):
    """A slot of class k from a table."""
    low, high = units.first[k], units.first[k + 1] - 1
    while low < high:
        middle = (low + high) >> 1
        if units.cumulative[row, middle] <= coin:
            low = middle + 1
        else:
            high = middle
    return low


@njit(inline="always")
def share_at(units, row, s):
    """What a table gives to slot s of its class."""
    before = units.cumulative[row, s - 1] if s > units.first[units.class_of[s]] else 0.0
    return units.cumulative[row, s] - before


@njit_no_refcount
def drawn_slot(units, place, c, row, mix):
    """A slot from a table, whether it is free or not; -1 where no slot is possible."""
    mixed(units, place, c, row, mix)
    k = pick(mix, mix.shape[0], coin(place))
    if k < 0:
        return -1
    return in_class(units, row, k, coin(place))


@njit(inline="always")
def log_phi(units, place, s):
    return place.log_weight[units.class_of[s]] + units.log_share[s]


@njit_no_refcount
def sequential_allocation(units, sets, place, workspace, count, among, log_weight, draw):
    """Sets room.order[:count] to slots of the classes `among` one after the other, each by its law among free slots.

    Slots go to room.side; with `draw` they are drawn, else they are those there. Returns the log of the product of what
    the free slots have of each law: -inf where a set finds next to none.
    """
    total, mix, placed = 0.0, workspace.mix, 0
    for i in range(count):
        g = workspace.order[i]
        c = sets.total[g]
        row = table(units, sets, g)
        top = -np.inf
        for b in among:
            mix[b] = units.log_total[row, b] + c * log_weight[b]
            top = max(top, mix[b])
        whole = 0.0
        for b in among:
            mix[b] = np.exp(mix[b] - top)
            whole += mix[b]
        free = whole
        for j in range(i):
            s = workspace.side[j]
            free -= mix[units.class_of[s]] * share_at(units, row, s)
        if not free > 1e-9 * whole:
            total = -np.inf
            break
        total += top + np.log(free)
        s = sets.slot[g]
        if draw:
            s = _among(units, place, workspace, among, row, whole, free)
        workspace.side[i] = s
        workspace.taken[s] = True
        placed += 1
    for i in range(placed):
        workspace.taken[workspace.side[i]] = False
    return total


@njit_no_refcount
def _among(units, place, workspace, among, row, whole, free):
    """A slot of these classes that is not taken, from a table: by trial, or by going through all if little is left."""
    mix = workspace.mix
    if free > 0.2 * whole:
        while True:
            want, at = coin(place) * whole, 0
            while at < among.shape[0] - 1 and want >= mix[among[at]]:
                want -= mix[among[at]]
                at += 1
            s = in_class(units, row, among[at], coin(place))
            if not workspace.taken[s]:
                return s
    want, last = coin(place) * free, -1
    for b in among:
        before = 0.0
        for s in range(units.first[b], units.first[b + 1]):
            share = units.cumulative[row, s] - before
            before = units.cumulative[row, s]
            if share > 0.0 and not workspace.taken[s]:
                last = s
                want -= mix[b] * share
                if want < 0.0:
                    return s
    return last


@njit_no_refcount
def weights(belief, iota, gamma, delta, weight):
    """weight (k + 1,) of the sections, from a preferred pool and nodes of relevant interest and polarization."""
    interest, polarization = belief.interest, belief.polarization
    weight[0] = np.exp(interest[1, gamma])
    for i in range(weight.shape[0] - 1):
        weight[i + 1] = np.exp(interest[0, gamma] + polarization[0 if i == iota else 1, delta])


@njit_no_refcount
def weigh(belief, weight, log_weight):
    """The log weights of the classes from the weights of the sections."""
    for c in range(log_weight.shape[0]):
        total = 0.0
        for j in range(weight.shape[0]):
            total += belief.blend[c, j] * weight[j]
        log_weight[c] = np.log(total) if total > 0.0 else NEVER


@njit_no_refcount
def node(axis, one, other, nodes, coin):
    """A node of an axis with probability proportional to x^one y^other times its weight."""
    for i in range(axis.shape[1]):
        nodes[i] = one * axis[0, i] + other * axis[1, i] + axis[2, i]
    return pick(nodes, axis.shape[1], coin)


@njit_no_refcount
def propose_pool(units, sets, belief, place, workspace):
    """Another preferred pool, or another relevant interest as well: the sets of both pools, and then the neutral ones,
    are dealt anew at once; the sets elsewhere stay, at the weight that they then have.

    What is new comes from the prior, which is no part of the odds then.
    """
    k, n, order = belief.log_prior.shape[0], units.count.shape[0], workspace.order
    iota, gamma, delta = place.at[1], place.at[2], place.at[3]
    other, interest, most = int(coin(place) * k), gamma, 0
    if belief.class_at[0] >= 0 and coin(place) < 0.5:
        interest = node(belief.interest, 0, 0, workspace.nodes, coin(place))
        workspace.among[0] = belief.class_at[0]
        most = 1
    elif other == iota:
        return
    workspace.among[most] = belief.class_at[iota + 1]
    most += 1
    if other != iota:
        workspace.among[most] = belief.class_at[other + 1]
        most += 1
    among = workspace.among[:most]
    weights(belief, other, interest, delta, workspace.weight)
    weigh(belief, workspace.weight, workspace.log_weight)
    count, odds = 0, belief.log_prior[other] - belief.log_prior[iota]
    for g in range(n):
        if sets.size[g] > 0:
            c = units.class_of[sets.slot[g]]
            inside = False
            for b in among:
                inside |= b == c
            if not inside:
                odds += sets.total[g] * (workspace.log_weight[c] - place.log_weight[c])
                continue
            at = count
            while at > 0 and sets.total[order[at - 1]] < sets.total[g]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = g
            count += 1
    odds -= sequential_allocation(units, sets, place, workspace, count, among, place.log_weight, False)
    if odds == np.inf:
        return
    odds += sequential_allocation(units, sets, place, workspace, count, among, workspace.log_weight, True)
    if coin(place) >= np.exp(odds):
        return
    for m in range(count):
        sets.holder[sets.slot[order[m]]] = -1
    for m in range(count):
        g = order[m]
        sets.holder[workspace.side[m]] = g
        move(units, sets, g, workspace.side[m])
    place.at[1], place.at[2] = other, interest
    for i in range(place.weight.shape[0]):
        place.weight[i] = workspace.weight[i]
    for c in range(place.log_weight.shape[0]):
        place.log_weight[c] = workspace.log_weight[c]


@njit_no_refcount
def _log_mass(units, sets, place, workspace, g):
    """Log of the sum over slots of set g's law."""
    mixed(units, place, sets.total[g], table(units, sets, g), workspace.mix)
    return log_sum(workspace.mix, workspace.mix.shape[0])


@njit_no_refcount
def _at_most(units, sets, place, workspace, g):
    """A bound of `_log_mass` that needs no table: the best slot's law, the best slot's share for all reports but one,
    and the shares of all slots, which are one together, for that.
    """
    if sets.size[g] == 1 or sets.made[g] == sets.mark[g]:
        return _log_mass(units, sets, place, workspace, g)
    best, phi, part = -np.inf, -np.inf, sets.part[g]
    for j in range(part.shape[0]):
        best = max(best, part[j])
    for k in range(units.top_share.shape[0]):
        phi = max(phi, place.log_weight[k] + units.top_share[k])
    return sets.level[g] + units.positions.shape[0] * best + (sets.total[g] - 1) * phi + 1e-6


@njit_no_refcount
def _unite(sets, g, h, both):
    """Set `both` as what g and h are together, without a slot; `refresh` is left to do."""
    sets.slot[both] = -1
    sets.size[both] = sets.size[g] + sets.size[h]
    sets.names[both] = sets.names[g] + sets.names[h]
    sets.total[both] = sets.total[g] + sets.total[h]
    sets.mark[both] = sets.mark[g] + sets.mark[h]
    for j in range(sets.ones.shape[1]):
        sets.ones[both, j] = sets.ones[g, j] + sets.ones[h, j]


@njit_no_refcount
def split_or_merge(units, sets, place, workspace):
    """Two units at random: what is one set is split between them, what are two is merged.

    The others are dealt one after the other, each by what the two sets say of it so far at no slot in particular; slots
    are drawn from the laws of the sets that result, so that of the odds only the sums of these laws are left. Two sets
    at random are hardly ever one: the coin is drawn first, and where bounds of the sums tell that it decides against
    the move, nothing is dealt and no table made.
    """
    n, order = units.count.shape[0], workspace.order
    t = int(coin(place) * n)
    u = int(coin(place) * (n - 1))
    u += u >= t
    g, h = sets.set_of[t], sets.set_of[u]
    left, right, both, want = n, n + 1, n + 2, np.log(coin(place))
    there = _log_mass(units, sets, place, workspace, g)
    if g != h:
        there += _log_mass(units, sets, place, workspace, h)
        _unite(sets, g, h, both)
        refresh(units, sets, both)
        if want >= _at_most(units, sets, place, workspace, both) - there:
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
        workspace.side[v] = some
    workspace.side[t], workspace.side[u] = left, right
    if g == h:
        most = _at_most(units, sets, place, workspace, left) + _at_most(units, sets, place, workspace, right)
        if want >= most - there - log_deal:
            return
        odds = _log_mass(units, sets, place, workspace, left) + _log_mass(units, sets, place, workspace, right)
        odds -= there + log_deal
    else:
        odds = _log_mass(units, sets, place, workspace, both) - there + log_deal
    if want >= odds:
        return
    if g == h:
        a = drawn_slot(units, place, sets.total[left], table(units, sets, left), workspace.mix)
        b = drawn_slot(units, place, sets.total[right], table(units, sets, right), workspace.mix)
        if a == b or (sets.holder[a] >= 0 and sets.holder[a] != g) or (sets.holder[b] >= 0 and sets.holder[b] != g):
            return
        order[others], order[others + 1] = t, u
        release(sets, g)
        g, h = claim(sets, a), claim(sets, b)
        for i in range(others + 2):
            v = order[i]
            to = g if workspace.side[v] == left else h
            sets.set_of[v] = to
            add(units, sets, v, to, 1)
        refresh(units, sets, h)
    else:
        a = drawn_slot(units, place, sets.total[both], table(units, sets, both), workspace.mix)
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
