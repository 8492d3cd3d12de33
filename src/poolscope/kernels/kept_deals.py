"""Another preferred pool in one move: all sets of the pools concerned are dealt anew."""

import numpy as np

from poolscope.kernels.kept_draws import coin, in_class, pick, share_at
from poolscope.kernels.kept_sets import NEVER, move
from poolscope.kernels.kept_tables import table
from poolscope.kernels.uncounted import uncounted


@uncounted
def _dealt(units, sets, place, room, count, among, log_weight, draw):
    """Sets room.order[:count] to slots of the classes `among` one after the other, each by its law among free slots.

    Slots go to room.side; with `draw` they are drawn, else they are those there. Returns the log of the product of what
    the free slots have of each law: -inf where a set finds next to none.
    """
    total, mix, placed = 0.0, room.mix, 0
    for i in range(count):
        g = room.order[i]
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
            s = room.side[j]
            free -= mix[units.class_of[s]] * share_at(units, row, s)
        if not free > 1e-9 * whole:
            total = -np.inf
            break
        total += top + np.log(free)
        s = sets.slot[g]
        if draw:
            s = _among(units, place, room, among, row, whole, free)
        room.side[i] = s
        room.taken[s] = True
        placed += 1
    for i in range(placed):
        room.taken[room.side[i]] = False
    return total


@uncounted
def _among(units, place, room, among, row, whole, free):
    """A slot of these classes that is not taken, from a table: by trial, or by going through all if little is left."""
    mix = room.mix
    if free > 0.2 * whole:
        while True:
            want, at = coin(place) * whole, 0
            while at < among.shape[0] - 1 and want >= mix[among[at]]:
                want -= mix[among[at]]
                at += 1
            s = in_class(units, row, among[at], coin(place))
            if not room.taken[s]:
                return s
    want, last = coin(place) * free, -1
    for b in among:
        before = 0.0
        for s in range(units.first[b], units.first[b + 1]):
            share = units.cumulative[row, s] - before
            before = units.cumulative[row, s]
            if share > 0.0 and not room.taken[s]:
                last = s
                want -= mix[b] * share
                if want < 0.0:
                    return s
    return last


@uncounted
def weights(belief, iota, gamma, delta, weight):
    """weight (k + 1,) of the sections, from a preferred pool and nodes of relevant interest and polarization."""
    interest, polarization = belief.interest, belief.polarization
    weight[0] = np.exp(interest[1, gamma])
    for i in range(weight.shape[0] - 1):
        weight[i + 1] = np.exp(interest[0, gamma] + polarization[0 if i == iota else 1, delta])


@uncounted
def weigh(belief, weight, log_weight):
    """The log weights of the classes from the weights of the sections."""
    for c in range(log_weight.shape[0]):
        total = 0.0
        for j in range(weight.shape[0]):
            total += belief.blend[c, j] * weight[j]
        log_weight[c] = np.log(total) if total > 0.0 else NEVER


@uncounted
def node(axis, one, other, nodes, coin):
    """A node of an axis with probability proportional to x^one y^other times its weight."""
    for i in range(axis.shape[1]):
        nodes[i] = one * axis[0, i] + other * axis[1, i] + axis[2, i]
    return pick(nodes, axis.shape[1], coin)


@uncounted
def prefer(units, sets, belief, place, room):
    """Another preferred pool, or another relevant interest as well: the sets of both pools, and then the neutral ones,
    are dealt anew at once; the sets elsewhere stay, at the weight that they then have.

    What is new comes from the prior, which is no part of the odds then.
    """
    k, n, order = belief.log_prior.shape[0], units.count.shape[0], room.order
    iota, gamma, delta = place.at[1], place.at[2], place.at[3]
    other, interest, most = int(coin(place) * k), gamma, 0
    if belief.class_at[0] >= 0 and coin(place) < 0.5:
        interest = node(belief.interest, 0, 0, room.nodes, coin(place))
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
    weights(belief, other, interest, delta, room.weight)
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
    if coin(place) >= np.exp(odds):
        return
    for m in range(count):
        sets.holder[sets.slot[order[m]]] = -1
    for m in range(count):
        g = order[m]
        sets.holder[room.side[m]] = g
        move(units, sets, g, room.side[m])
    place.at[1], place.at[2] = other, interest
    for i in range(place.weight.shape[0]):
        place.weight[i] = room.weight[i]
    for c in range(place.log_weight.shape[0]):
        place.log_weight[c] = room.log_weight[c]
