"""What a chain over kept answers has beside its sets, and draws from the tables of laws."""

from collections import namedtuple

import numpy as np
from numba import njit

from poolscope.kernels.random import uniform
from poolscope.kernels.uncounted import uncounted

#: Behaviour as an adversary believes it. log_prior (pools,); interest (3, nodes) log gamma, log 1 - gamma, log weight;
#: polarization (3, nodes) log delta, log (1 - delta)/(k - 1), log weight; integral (n + 1, n + 1): log of the mean of
#: delta^own ((1 - delta)/(k - 1))^rest; blend (classes, k + 1) what the weight of each section adds to that of a class.
#: only (classes,) the section of a class that has but one, or -1.
Belief = namedtuple("Belief", "log_prior interest polarization integral blend only class_at")

#: Where a chain is beyond its sets: weight (k + 1,) of the sections, log_weight (classes,), at (4,): random words
#: used, preferred pool, nodes of interest and polarization.
Place = namedtuple("Place", "key at weight log_weight counts posterior")

#: Scratch: chances and phi (units,), order and side (units,), among (3,), taken (slots,),
#: nodes (most,), mix (classes,), weight (k + 1,), log_weight (classes,).
Room = namedtuple("Room", "chances phi order side among taken nodes mix weight log_weight")


@njit(inline="always")
def coin(place):
    i = place.at[0]
    place.at[0] = i + 1
    return uniform(place.key, i)


@uncounted
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


@uncounted
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


@uncounted
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
