"""Sets of reports that come from one kept answer: what a set says of every slot, and what one more report would change.

Three kinds of answers: IDENTICAL (a report is its answer), BITS (independent bits, noise anew on each) and VALUES (one
of g values, randomized response anew). A set of noisy reports says of slot s `level` + the sum of `part` at the
positions of s; one more report changes that by `base` + the sum of `gain` at its features.
"""

from collections import namedtuple

import numpy as np
from numba import njit

IDENTICAL, BITS, VALUES = 0, 1, 2

#: What stands for the logarithm of nothing in sums and differences.
NEVER = -1.0e4

#: A user's reports: units of them that are never parted, and what they say by themselves.
#:
#: kind; joins: whether units can share a slot; width: positions there are; count (units,) reports of each;
#: mark (units,) random words, whose sum tells sets apart;
#: row (units,) its answer among the different ones (IDENTICAL);
#: features (units, most) and features_of (units,): the positions where a report has a one, or its value;
#: law (answers, slots) log Pr[answer | slot] (IDENTICAL);
#: positions (any, slots) where each slot differs from others, that of padding being the last (BITS, VALUES);
#: plain, marked (n + 2, n + 2) log Pr[o ones of c reports] at a position that is not the slot's, or is (BITS);
#: steps (5,) p and q of the permanent step, log q and log p/q of the one anew, values there are; decay (n + 2,) powers
#: of q/p (VALUES);
#: class_of (slots,), first (classes + 1,): slots stand together by class; log_share (slots,) of a slot in its class;
#: table (units,) the own table of each: cumulative (tables, slots) of its law within each class, log_total
#: (tables, classes).
Units = namedtuple(
    "Units",
    "kind joins count mark row features features_of law positions plain marked steps decay class_of first log_share "
    "table cumulative log_total width",
)

#: Sets of units in one chain. For each set: slot, size (units), names (their sum: of one unit, its own), total
#: (reports), answer (IDENTICAL), ones (sets, positions), level, part (sets, positions + 1), base, gain (sets,
#: positions), mark (the sum of its units') and made: the mark of the set that its table was made for. set_of (units,);
#: holder (slots,): which set has the slot, or -1; spare (units + 1,): sets that are free, their number last. There are
#: three sets more than units, to work with.
Sets = namedtuple("Sets", "slot size names total answer ones level part base gain mark made set_of holder spare")


@njit(nogil=True, cache=True)
def refresh(units, sets, g):
    """What set g says and would say, after its reports or its slot have changed; slot -1 is one without positions."""
    if units.kind == BITS:
        _refresh_bits(units, sets, g)
    elif units.kind == VALUES:
        _refresh_values(units, sets, g)


@njit(nogil=True, cache=True)
def _refresh_bits(units, sets, g):
    c, s, ones, part, gain = sets.total[g], sets.slot[g], sets.ones[g], sets.part[g], sets.gain[g]
    plain, marked, last = units.plain, units.marked, sets.ones.shape[1]
    level, base = 0.0, 0.0
    for j in range(last):
        o = ones[j]
        now, zero = plain[c, o], plain[c + 1, o]
        level += now
        base += zero - now
        part[j] = marked[c, o] - now
        gain[j] = plain[c + 1, o + 1] - zero
    part[last] = 0.0
    if s >= 0:
        for h in range(units.positions.shape[0]):
            j = units.positions[h, s]
            if j < last:
                o = ones[j]
                base += marked[c + 1, o] - marked[c, o] - plain[c + 1, o] + plain[c, o]
                gain[j] = marked[c + 1, o + 1] - marked[c + 1, o]
    sets.level[g] = level
    sets.base[g] = base


@njit(nogil=True, cache=True)
def _refresh_values(units, sets, g):
    c, s, ones, part, gain = sets.total[g], sets.slot[g], sets.ones[g], sets.part[g], sets.gain[g]
    decay, last = units.decay, sets.ones.shape[1]
    p, q, log_q, log_ratio, values = units.steps[0], units.steps[1], units.steps[2], units.steps[3], units.steps[4]
    top = 1
    for j in range(last):
        top = max(top, ones[j] + 1)
    # the sum over answers of ratio^(reports that have it), over ratio^top
    spread = (values - last) * decay[top]
    for j in range(last):
        spread += decay[top - ones[j]]
    scale = c * log_q + top * log_ratio
    for j in range(last):
        part[j] = _log(q * spread + (p - q) * decay[top - ones[j]])
    part[last] = _log(q * spread + (p - q) * decay[top])
    own = units.positions[0, s] if s >= 0 else last
    mine = decay[top] if own == last else decay[top - ones[own]]
    now = part[own]
    for j in range(last):
        more = decay[top - ones[j] - 1] - decay[top - ones[j]]
        there = mine + more if j == own else mine
        gain[j] = log_q + _log(q * (spread + more) + (p - q) * there) - now
    sets.level[g] = scale
    sets.base[g] = 0.0


@njit(inline="always")
def _log(x):
    return np.log(x) if x > 0.0 else NEVER


@njit(nogil=True, cache=True)
def log_law(units, sets, g, s):
    """Log Pr[the reports of set g | slot s]."""
    if units.kind == IDENTICAL:
        return units.law[sets.answer[g], s]
    total = sets.level[g]
    for h in range(units.positions.shape[0]):
        total += sets.part[g, units.positions[h, s]]
    return total


@njit(nogil=True, cache=True)
def laws(units, sets, which, out):
    """out (some, slots): `log_law` of some sets at every slot."""
    hashes = units.positions.shape[0]
    for i in range(which.shape[0]):
        g = which[i]
        level, part = sets.level[g], sets.part[g]
        for s in range(out.shape[1]):
            total = level
            if units.kind == IDENTICAL:
                total = units.law[sets.answer[g], s]
            else:
                for h in range(hashes):
                    total += part[units.positions[h, s]]
            out[i, s] = total


@njit(nogil=True, cache=True)
def log_join(units, sets, g, u):
    """What unit u, which is one report, would change in the logarithm of set g's law."""
    if units.kind == IDENTICAL:
        return 0.0 if sets.answer[g] == units.row[u] else -np.inf
    total, gain = sets.base[g], sets.gain[g]
    for i in range(units.features_of[u]):
        total += gain[units.features[u, i]]
    return total


@njit(nogil=True, cache=True)
def log_joins(units, sets, u, out):
    """`log_join` of unit u with every set: out (units,), -inf where there is none.

    All at once, as a call with all these arrays takes longer than the sum itself.
    """
    features, count = units.features[u], units.features_of[u]
    for g in range(out.shape[0]):
        out[g] = -np.inf
        if sets.size[g] == 0:
            continue
        if units.kind == IDENTICAL:
            out[g] = 0.0 if sets.answer[g] == units.row[u] else -np.inf
            continue
        total, gain = sets.base[g], sets.gain[g]
        for i in range(count):
            total += gain[features[i]]
        out[g] = total


@njit(nogil=True, cache=True)
def empty(sets, g):
    """Set g without reports and slot."""
    sets.slot[g] = -1
    sets.size[g] = 0
    sets.names[g] = 0
    sets.total[g] = 0
    sets.mark[g] = 0
    sets.ones[g, :] = 0


@njit(nogil=True, cache=True)
def add(units, sets, u, g, sign):
    """Unit u to set g, or from it; `refresh` is left to do."""
    sets.size[g] += sign
    sets.names[g] += sign * u
    sets.total[g] += sign * units.count[u]
    sets.answer[g] = units.row[u]
    sets.mark[g] += units.mark[u] if sign > 0 else -units.mark[u]
    if units.kind != IDENTICAL:
        for i in range(units.features_of[u]):
            sets.ones[g, units.features[u, i]] += sign


@njit(nogil=True, cache=True)
def take(units, sets, u):
    """Unit u out of its set, which is freed if nothing is left of it."""
    g = sets.set_of[u]
    sets.set_of[u] = -1
    add(units, sets, u, g, -1)
    if sets.size[g] == 0:
        release(sets, g)
    else:
        refresh(units, sets, g)


@njit(nogil=True, cache=True)
def put(units, sets, u, g):
    """Unit u into set g."""
    sets.set_of[u] = g
    add(units, sets, u, g, 1)
    refresh(units, sets, g)


@njit(nogil=True, cache=True)
def release(sets, g):
    """The slot and the number of set g are free."""
    sets.holder[sets.slot[g]] = -1
    empty(sets, g)
    free = sets.spare[-1]
    sets.spare[free] = g
    sets.spare[-1] = free + 1


@njit(nogil=True, cache=True)
def claim(sets, s):
    """A free number for a set at slot s, without reports."""
    free = sets.spare[-1] - 1
    g = sets.spare[free]
    sets.spare[-1] = free
    sets.slot[g] = s
    sets.holder[s] = g
    return g


@njit(nogil=True, cache=True)
def tabulate(units, sets, g, cumulative, log_total):
    """The law of set g, its popularity included: cumulated within each class to one, and log_total of each class."""
    c = np.float64(sets.total[g])
    hashes = units.positions.shape[0]
    for k in range(log_total.shape[0]):
        low, high, top = units.first[k], units.first[k + 1], -np.inf
        for s in range(low, high):
            if units.kind == IDENTICAL:
                value = units.law[sets.answer[g], s]
            else:
                value = sets.level[g]
                for h in range(hashes):
                    value += sets.part[g, units.positions[h, s]]
            value += c * units.log_share[s]
            cumulative[s] = value
            top = max(top, value)
        total = 0.0
        for s in range(low, high):
            total += np.exp(cumulative[s] - top)
            cumulative[s] = total
        for s in range(low, high):
            cumulative[s] /= total
        log_total[k] = top + np.log(total)


@njit(nogil=True, cache=True)
def tabulate_units(units, sets):
    """The tables of all units, each by itself; `sets` is scratch."""
    g = units.count.shape[0]
    for u in range(units.count.shape[0]):
        own = units.table[u]
        empty(sets, g)
        add(units, sets, u, g, 1)
        refresh(units, sets, g)
        tabulate(units, sets, g, units.cumulative[own], units.log_total[own])
