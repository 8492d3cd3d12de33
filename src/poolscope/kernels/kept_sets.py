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
#: plain (n + 1, n + 1, 4) of o ones of c reports at a position that is not the slot's: log Pr, what one more zero
#: changes in it, how much more it is where the slot has the position, and what a one more is over a zero more; marked
#: (n + 1, n + 1, 2) where it has: what one more zero changes, and a one more over that (BITS);
#: steps (5,) p and q of the permanent step, log q and log p/q of the one anew, values there are; decay (n + 2,) powers
#: of q/p (VALUES);
#: class_of (slots,), first (classes + 1,): slots stand together by class; log_share (slots,) of a slot in its class;
#: power (reports + 1, slots) the share over the largest of its class, to a power, as far as `powered` says;
#: table (units,) the own table of each: cumulative (tables, slots) of its law within each class, log_total
#: (tables, classes).
Units = namedtuple(
    "Units",
    "kind joins count mark row features features_of law positions plain marked steps decay class_of first log_share "
    "top_share power powered table cumulative log_total width",
)

#: Where what a set says of its slots spreads by less, as a logarithm, products of factors stay far from the ends of
#: what a number can be.
NARROW = 400.0

#: Sets of units in one chain. For each set: slot, size (units), names (their sum: of one unit, its own), total
#: (reports), answer (IDENTICAL), ones (sets, positions), level, part (sets, positions + 1), base, gain (positions,
#: sets), mark (the sum of its units') and made: the mark of the set that its table was made for. set_of (units,);
#: holder (slots,): which set has the slot, or -1; spare (units + 1,): sets that are free, their number last. There are
#: three sets more than units, to work with. top (1,): sets from there on are free; factor (positions + 1,) is scratch.
Sets = namedtuple(
    "Sets", "slot size names total answer ones level part base gain mark made set_of holder spare top factor"
)


@njit(nogil=True, cache=True)
def refresh(units, sets, g):
    """What set g says and would say, after its reports or its slot have changed; slot -1 is one without positions."""
    if units.kind == BITS:
        _refresh_bits(units, sets, g)
    elif units.kind == VALUES:
        _refresh_values(units, sets, g)


@njit(nogil=True, cache=True)
def copy_said(sets, g, h):
    """What set g says and would say, for set h to keep."""
    sets.level[h] = sets.level[g]
    sets.base[h] = sets.base[g]
    for j in range(sets.part.shape[1]):
        sets.part[h, j] = sets.part[g, j]
    for j in range(sets.gain.shape[0]):
        sets.gain[j, h] = sets.gain[j, g]


@njit(nogil=True, cache=True)
def _refresh_bits(units, sets, g):
    c, s, ones, part, gain = sets.total[g], sets.slot[g], sets.ones[g], sets.part[g], sets.gain[:, g]
    plain, last = units.plain[c], sets.ones.shape[1]
    level, base = 0.0, 0.0
    for j in range(last):
        of = plain[ones[j]]
        level += of[0]
        base += of[1]
        part[j] = of[2]
        gain[j] = of[3]
    part[last] = 0.0
    if s >= 0:
        for h in range(units.positions.shape[0]):
            j = units.positions[h, s]
            if j < last:
                of = units.marked[c, ones[j]]
                base += of[0] - plain[ones[j], 1]
                gain[j] = of[1]
    sets.level[g] = level
    sets.base[g] = base


@njit(nogil=True, cache=True)
def _refresh_values(units, sets, g):
    c, s, ones, part, gain = sets.total[g], sets.slot[g], sets.ones[g], sets.part[g], sets.gain[:, g]
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
def log_join(units, sets, g, u):
    """What unit u, which is one report, would change in the logarithm of set g's law."""
    if units.kind == IDENTICAL:
        return 0.0 if sets.answer[g] == units.row[u] else -np.inf
    total = sets.base[g]
    for i in range(units.features_of[u]):
        total += sets.gain[units.features[u, i], g]
    return total


@njit(nogil=True, cache=True)
def can_join(units, sets, g, u):
    """Whether set g could have unit u as well, at its slot.

    Bit by bit: the sum over many bits that are all possible is no larger than one that is not.
    """
    if units.kind != BITS:
        return log_join(units, sets, g, u) > NEVER / 2.0
    c, s, last = sets.total[g] + 1, sets.slot[g], sets.ones.shape[1]
    at = 0
    for j in range(last):
        o = sets.ones[g, j]
        # features are in order
        if at < units.features_of[u] and units.features[u, at] == j:
            o += 1
            at += 1
        law = units.plain[c, o, 0]
        for h in range(units.positions.shape[0]):
            if units.positions[h, s] == j:
                law = units.plain[c, o, 0] + units.plain[c, o, 2]
        if law <= NEVER + 1e-3:
            return False
    return True


@njit(nogil=True, cache=True)
def log_joins(units, sets, u, out):
    """`log_join` of unit u with the first sets: out (some,), -inf where there is none.

    Feature by feature for all sets, which lie side by side: so it goes through vector registers.
    """
    n = out.shape[0]
    if units.kind == IDENTICAL:
        for g in range(n):
            out[g] = 0.0 if sets.size[g] > 0 and sets.answer[g] == units.row[u] else -np.inf
        return
    features, count = units.features[u], units.features_of[u]
    for g in range(n):
        out[g] = sets.base[g]
    for i in range(0, count - 3, 4):
        one, two = sets.gain[features[i]], sets.gain[features[i + 1]]
        three, four = sets.gain[features[i + 2]], sets.gain[features[i + 3]]
        for g in range(n):
            out[g] += (one[g] + two[g]) + (three[g] + four[g])
    for i in range(count - count % 4, count):
        one = sets.gain[features[i]]
        for g in range(n):
            out[g] += one[g]
    for g in range(n):
        if sets.size[g] == 0:
            out[g] = -np.inf


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
    while sets.top[0] > 0 and sets.size[sets.top[0] - 1] == 0:
        sets.top[0] -= 1


@njit(nogil=True, cache=True)
def claim(sets, s):
    """A free number for a set at slot s, without reports."""
    free = sets.spare[-1] - 1
    g = sets.spare[free]
    sets.spare[-1] = free
    sets.top[0] = max(sets.top[0], g + 1)
    sets.slot[g] = s
    sets.holder[s] = g
    return g


@njit(nogil=True, cache=True)
def _powers(units, c):
    """(slots,) shares to the power of c: made when they are first asked for, and kept."""
    power = units.power[c]
    if not units.powered[c]:
        for s in range(power.shape[0]):
            power[s] = np.exp(c * (units.log_share[s] - units.top_share[units.class_of[s]]))
        units.powered[c] = True
    return power


@njit(nogil=True, cache=True)
def weigh_slots(units, sets, g, out, log_scale):
    """The law of set g times the shares of its reports: out (slots,), of each class over e^log_scale (classes,).

    What a set says of a slot is a product of factors, one for each position of the slot; there are far fewer positions
    than slots, so that next to no exponential is left to take. Where factors spread so much that a product may not be
    a number, logarithms are summed instead.
    """
    c, hashes, part, factor = sets.total[g], units.positions.shape[0], sets.part[g], sets.factor
    low, high = np.inf, -np.inf
    for j in range(part.shape[0]):
        low, high = min(low, part[j]), max(high, part[j])
    if units.kind == IDENTICAL or hashes * (high - low) > NARROW:
        _weigh_logs(units, sets, g, out, log_scale)
        return
    for j in range(part.shape[0]):
        factor[j] = np.exp(part[j] - high)
    power, one = _powers(units, c), units.positions[0]
    if hashes == 2:
        two = units.positions[1]
        for s in range(out.shape[0]):
            out[s] = power[s] * (factor[one[s]] * factor[two[s]])
    else:
        for s in range(out.shape[0]):
            out[s] = power[s] * factor[one[s]]
        for h in range(1, hashes):
            more = units.positions[h]
            for s in range(out.shape[0]):
                out[s] *= factor[more[s]]
    for k in range(log_scale.shape[0]):
        log_scale[k] = sets.level[g] + hashes * high + c * units.top_share[k]


@njit(nogil=True, cache=True)
def _weigh_logs(units, sets, g, out, log_scale):
    c, hashes = np.float64(sets.total[g]), units.positions.shape[0]
    for k in range(log_scale.shape[0]):
        low, high, top = units.first[k], units.first[k + 1], -np.inf
        for s in range(low, high):
            if units.kind == IDENTICAL:
                value = units.law[sets.answer[g], s]
            else:
                value = sets.level[g]
                for h in range(hashes):
                    value += sets.part[g, units.positions[h, s]]
            value += c * units.log_share[s]
            out[s] = value
            top = max(top, value)
        for s in range(low, high):
            out[s] = np.exp(out[s] - top)
        log_scale[k] = top


@njit(nogil=True, cache=True)
def weigh_sets(units, sets, which, log_scale, out):
    """out (some, slots): the law of some sets times the shares of their reports, of each over its largest class;
    log_scale (classes,) is scratch.
    """
    for i in range(which.shape[0]):
        weigh_slots(units, sets, which[i], out[i], log_scale)
        top = -np.inf
        for k in range(log_scale.shape[0]):
            top = max(top, log_scale[k])
        for k in range(log_scale.shape[0]):
            scale = np.exp(log_scale[k] - top)
            for s in range(units.first[k], units.first[k + 1]):
                out[i, s] *= scale


@njit(nogil=True, cache=True)
def tabulate(units, sets, g, cumulative, log_total):
    """The law of set g, its popularity included: cumulated within each class to one, and log_total of each class."""
    weigh_slots(units, sets, g, cumulative, log_total)
    for k in range(log_total.shape[0]):
        low, high, total = units.first[k], units.first[k + 1], 0.0
        for s in range(low, high):
            total += cumulative[s]
            cumulative[s] = total
        if total > 0.0:
            scale = 1.0 / total
            for s in range(low, high):
                cumulative[s] *= scale
        log_total[k] += np.log(total) if total > 0.0 else NEVER


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
