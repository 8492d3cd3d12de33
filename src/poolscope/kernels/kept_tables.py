"""What sets of reports say of all slots at once: laws, and tables to draw a slot from."""

import numpy as np

from poolscope.kernels.kept_sets import NEVER, add, empty, refresh
from poolscope.kernels.uncounted import uncounted

#: Where what a set says of its slots spreads by less, as a logarithm, products of factors stay far from the ends of
#: what a number can be.
NARROW = 400.0


@uncounted
def _raise(units, c):
    """Shares to the power of c, `units.power[c]`: made when they are first asked for, and kept."""
    power = units.power
    if not units.powered[c]:
        for s in range(power.shape[1]):
            power[c, s] = np.exp(c * (units.log_share[s] - units.top_share[units.class_of[s]]))
        units.powered[c] = True


@uncounted
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


@uncounted
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


@uncounted
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


@uncounted
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


@uncounted
def tabulate_units(units, sets):
    """The tables of all units, each by itself; `sets` is scratch."""
    g = units.count.shape[0]
    for u in range(units.count.shape[0]):
        empty(sets, g)
        add(units, sets, u, g, 1)
        refresh(units, sets, g)
        tabulate(units, sets, g, units.table[u])


@uncounted
def table(units, sets, g):
    """The row of set g: of one unit its own, of more the one that was made when its units came together."""
    if sets.size[g] == 1:
        return units.table[sets.names[g]]
    row = units.tables + g
    if sets.made[g] != sets.mark[g]:
        tabulate(units, sets, g, row)
        sets.made[g] = sets.mark[g]
    return row
