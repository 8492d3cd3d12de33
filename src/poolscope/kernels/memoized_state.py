"""Sets of reports that come from one kept answer: what a set says of every slot, and what one more report would change.

A permanent response is a vector of independent bits, and each report has noise of its own on each. A set of reports
says of slot s `level` + the sum of `part` at the positions of s; one more report changes that by `base` + the sum of
`gain` at its features.

What sets of reports say of all slots at once: laws, and tables to draw a slot from.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from poolscope.kernels.compilation import njit_no_refcount

#: What stands for the logarithm of nothing in sums and differences.
NEVER = -1.0e4

#: A user's reports, each a unit, and what they say by themselves.
#:
#: joins: whether units can share a slot; width: positions there are; count (units,) reports of each, one;
#: mark (units,) random words, whose sum tells sets apart;
#: features (units, most) and features_of (units,): the positions where a report has a one;
#: positions (any, slots) where each slot differs from others, that of padding being the last;
#: plain (n + 1, n + 1, 4) of o ones of c reports at a position that is not the slot's: log Pr, what one more zero
#: changes in it, how much more it is where the slot has the position, and what a one more is over a zero more; marked
#: (n + 1, n + 1, 2) where it has: what one more zero changes, and a one more over that;
#: class_of (slots,), first (classes + 1,): slots stand together by class; log_share (slots,) of a slot in its class;
#: power (reports + 1, slots) the share over the largest of its class, to a power, as far as `powered` says;
#: table (units,) the own table of each, tables there are of units, after which those of a chain's sets come: cumulative
#: (rows, slots) of a law within each class, log_total (rows, classes); chain (1,) the key of the chain whose those are.
Units = namedtuple(
    "Units",
    "joins count mark features features_of positions plain marked class_of first log_share "
    "top_share power powered table tables cumulative log_total chain width",
)

#: Sets of units in one chain. For each set: slot, size (units), names (their sum: of one unit, its own), total
#: (reports), ones (sets, positions), level, part (sets, positions + 1), base, gain (positions,
#: sets), flat (the base of a set without a slot), mark (the sum of its units') and made: the mark of the set that its
#: table was made for. set_of (units,);
#: holder (slots,): which set has the slot, or -1; spare (units + 1,): sets that are free, their number last. There are
#: three sets more than units, to work with. top (1,): sets from there on are free; factor (positions + 1,) is scratch.
Sets = namedtuple(
    "Sets", "slot size names total ones level part base gain flat mark made set_of holder spare top factor"
)


@njit_no_refcount
def refresh(units, sets, g):
    """What set g says and would say, after its reports or its slot have changed; slot -1 is one without positions."""
    ones, part, gain, plain = sets.ones, sets.part, sets.gain, units.plain
    c, last = sets.total[g], ones.shape[1]
    level, base = 0.0, 0.0
    for j in range(last):
        o = ones[g, j]
        level += plain[c, o, 0]
        base += plain[c, o, 1]
        part[g, j] = plain[c, o, 2]
        gain[j, g] = plain[c, o, 3]
    part[g, last] = 0.0
    sets.level[g] = level
    sets.flat[g] = base
    _mark_bits(units, sets, g)


@njit_no_refcount
def _mark_bits(units, sets, g):
    """What one more report would change, at the positions of the slot."""
    c, s, last, base = sets.total[g], sets.slot[g], sets.ones.shape[1], sets.flat[g]
    for h in range(units.positions.shape[0] if s >= 0 else 0):
        j = units.positions[h, s]
        if j < last:
            o = sets.ones[g, j]
            base += units.marked[c, o, 0] - units.plain[c, o, 1]
            sets.gain[j, g] = units.marked[c, o, 1]
    sets.base[g] = base


@njit_no_refcount
def move(units, sets, g, s):
    """Set g, whose reports stay as they are, to slot s; `holder` is left to do."""
    before = sets.slot[g]
    sets.slot[g] = s
    for h in range(units.positions.shape[0]):
        j = units.positions[h, before]
        if j < sets.ones.shape[1]:
            sets.gain[j, g] = units.plain[sets.total[g], sets.ones[g, j], 3]
    _mark_bits(units, sets, g)


@njit_no_refcount
def log_response_prob(units, sets, g, s):
    """Log Pr[the reports of set g | slot s]."""
    total = sets.level[g]
    for h in range(units.positions.shape[0]):
        total += sets.part[g, units.positions[h, s]]
    return total


@njit_no_refcount
def log_join(units, sets, g, u):
    """What unit u, which is one report, would change in the logarithm of set g's law."""
    total = sets.base[g]
    for i in range(units.features_of[u]):
        total += sets.gain[units.features[u, i], g]
    return total


@njit_no_refcount
def log_stay(units, sets, u):
    """What unit u, one report, adds to the logarithm of the law of its set, which has others too.

    The set stays as it is: mostly the report does, and all that the set says would be made again for it.
    """
    g = sets.set_of[u]
    features, ones, count = units.features, sets.ones, units.features_of[u]
    for i in range(count):
        ones[g, features[u, i]] -= 1
    rest = _log_rest(units, sets, g)
    for i in range(count):
        ones[g, features[u, i]] += 1
    return log_response_prob(units, sets, g, sets.slot[g]) - rest


@njit_no_refcount
def _log_rest(units, sets, g):
    """Log Pr[the reports of set g | its slot], one report fewer being counted in `ones` but not yet in `total`."""
    ones, plain, s, c, total = sets.ones, units.plain, sets.slot[g], sets.total[g] - 1, 0.0
    last = ones.shape[1]
    for j in range(last):
        total += plain[c, ones[g, j], 0]
    for h in range(units.positions.shape[0]):
        j = units.positions[h, s]
        if j < last:
            total += plain[c, ones[g, j], 2]
    return total


@njit_no_refcount
def log_joins(units, sets, u, out):
    """`log_join` of unit u with the first sets, added to out (some,).

    Feature by feature for all sets, which lie side by side: so it goes through vector registers.
    """
    n = out.shape[0]
    features, base, gain, count = units.features, sets.base, sets.gain, units.features_of[u]
    for g in range(n):
        out[g] += base[g]
    for i in range(0, count - 3, 4):
        one, two, three, four = features[u, i], features[u, i + 1], features[u, i + 2], features[u, i + 3]
        for g in range(n):
            out[g] += (gain[one, g] + gain[two, g]) + (gain[three, g] + gain[four, g])
    for i in range(count - count % 4, count):
        one = features[u, i]
        for g in range(n):
            out[g] += gain[one, g]


@njit_no_refcount
def empty(sets, g):
    """Set g without reports and slot."""
    sets.slot[g] = -1
    sets.size[g] = 0
    sets.names[g] = 0
    sets.total[g] = 0
    sets.mark[g] = 0
    sets.ones[g, :] = 0


@njit_no_refcount
def add(units, sets, u, g, sign):
    """Unit u to set g, or from it; `refresh` is left to do."""
    sets.size[g] += sign
    sets.names[g] += sign * u
    sets.total[g] += sign * units.count[u]
    sets.mark[g] += units.mark[u] if sign > 0 else -units.mark[u]
    for i in range(units.features_of[u]):
        sets.ones[g, units.features[u, i]] += sign


@njit_no_refcount
def take(units, sets, u):
    """Unit u out of its set, which is freed if nothing is left of it."""
    g = sets.set_of[u]
    sets.set_of[u] = -1
    add(units, sets, u, g, -1)
    if sets.size[g] == 0:
        release(sets, g)
    else:
        refresh(units, sets, g)


@njit_no_refcount
def put(units, sets, u, g):
    """Unit u into set g."""
    sets.set_of[u] = g
    add(units, sets, u, g, 1)
    refresh(units, sets, g)


@njit_no_refcount
def release(sets, g):
    """The slot and the number of set g are free."""
    sets.holder[sets.slot[g]] = -1
    empty(sets, g)
    free = sets.spare[-1]
    sets.spare[free] = g
    sets.spare[-1] = free + 1
    while sets.top[0] > 0 and sets.size[sets.top[0] - 1] == 0:
        sets.top[0] -= 1


@njit_no_refcount
def claim(sets, s):
    """A free number for a set at slot s, without reports."""
    free = sets.spare[-1] - 1
    g = sets.spare[free]
    sets.spare[-1] = free
    sets.top[0] = max(sets.top[0], g + 1)
    sets.slot[g] = s
    sets.holder[s] = g
    return g


#: Where what a set says of its slots spreads by less, as a logarithm, products of factors stay far from the ends of
#: what a number can be.
NARROW = 400.0


@njit_no_refcount
def _raise(units, c):
    """Shares to the power of c, `units.power[c]`: made when they are first asked for, and kept."""
    power = units.power
    if not units.powered[c]:
        for s in range(power.shape[1]):
            power[c, s] = np.exp(c * (units.log_share[s] - units.top_share[units.class_of[s]]))
        units.powered[c] = True


@njit_no_refcount
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
    if hashes * (high - low) > NARROW:
        _weigh_logs(units, sets, g, out, log_scale)
        return
    for j in range(part.shape[0]):
        factor[j] = np.exp(part[j] - high)
    _raise(units, c)
    power, one = units.power[c], units.positions[0]
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


@njit_no_refcount
def _weigh_logs(units, sets, g, out, log_scale):
    c, hashes = np.float64(sets.total[g]), units.positions.shape[0]
    for k in range(log_scale.shape[0]):
        low, high, top = units.first[k], units.first[k + 1], -np.inf
        for s in range(low, high):
            value = sets.level[g]
            for h in range(hashes):
                value += sets.part[g, units.positions[h, s]]
            value += c * units.log_share[s]
            out[s] = value
            top = max(top, value)
        for s in range(low, high):
            out[s] = np.exp(out[s] - top)
        log_scale[k] = top


@njit_no_refcount
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


@njit_no_refcount
def tabulate(units, sets, g, row):
    """The law of set g, its popularity included, to a row of the tables: cumulated within each class to one, and the
    logarithm of its total in each class.
    """
    cumulative, log_total = units.cumulative[row], units.log_total[row]
    weigh_slots(units, sets, g, cumulative, log_total)
    for k in range(log_total.shape[0]):
        low, high, total = units.first[k], units.first[k + 1], 0.0
        # four at a time, as each sum waits for the one before it
        for s in range(low, high - 3, 4):
            one = cumulative[s]
            two = one + cumulative[s + 1]
            three = two + cumulative[s + 2]
            four = three + cumulative[s + 3]
            cumulative[s], cumulative[s + 1] = total + one, total + two
            cumulative[s + 2], cumulative[s + 3] = total + three, total + four
            total += four
        for s in range(high - (high - low) % 4, high):
            total += cumulative[s]
            cumulative[s] = total
        if total > 0.0:
            scale = 1.0 / total
            for s in range(low, high):
                cumulative[s] *= scale
        log_total[k] += np.log(total) if total > 0.0 else NEVER


@njit_no_refcount
def tabulate_units(units, sets):
    """The tables of all units, each by itself; `sets` is scratch."""
    g = units.count.shape[0]
    for u in range(units.count.shape[0]):
        empty(sets, g)
        add(units, sets, u, g, 1)
        refresh(units, sets, g)
        tabulate(units, sets, g, units.table[u])


@njit_no_refcount
def table(units, sets, g):
    """The row of set g: of one unit its own, of more the one that was made when its units came together."""
    if sets.size[g] == 1:
        return units.table[sets.names[g]]
    row = units.tables + g
    if sets.made[g] != sets.mark[g]:
        tabulate(units, sets, g, row)
        sets.made[g] = sets.mark[g]
    return row
