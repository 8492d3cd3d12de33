"""Clusters of reports that come from one memoized response: their likelihood at every slot, kept up to date.

A permanent response is a vector of independent bits, and every report adds noise of its own to each bit. The log
likelihood of a cluster at slot s is `log_prob` plus the sum of `bit_gain` over the bits that s sets. One more report
changes it by `base` plus the sum of `join_bit` over the report's ones.

Tables hold the distribution of a cluster over all slots, from which a slot is sampled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poolscope.kernels.compilation import inner, njit_no_refcount

#: The logarithm of zero, as a finite number: it takes part in sums and differences.
LOG_ZERO = -1.0e4


class Items(NamedTuple):
    """The reports of one user, each an item to cluster, and the slots as an adversary weights them.

    n is the number of items, m the number of bits, and o counts the ones among c reports at one bit.
    """

    can_share: bool  # whether two items may have one slot
    width: int  # m
    n_reports: NDArray[np.int64]  # (n,) reports of each item: one
    fingerprint: NDArray[np.uint64]  # (n,) random words; their sum over a cluster identifies it
    set_bits: NDArray[np.int64]  # (n, largest n_set_bits) bits at which a report has a one
    n_set_bits: NDArray[np.int64]  # (n,)
    positions: NDArray[np.int64]  # (hashes, slots) bits that a slot sets; m is padding
    #: (n + 1, n + 1, 4), index [c, o], where the slot does not set the bit: log Pr[o ones]; its change with one more
    #: zero; log ratio of set to unset; difference between one more one and one more zero
    unset_terms: NDArray[np.float64]
    set_terms: NDArray[np.float64]  # (n + 1, n + 1, 2) where the slot sets the bit: the same second and fourth term
    class_of: NDArray[np.int64]  # (slots,) class of each slot; slots are ordered by class
    first: NDArray[np.int64]  # (classes + 1,) first slot of each class
    log_share: NDArray[np.float64]  # (slots,) log share of a slot within its class
    max_log_share: NDArray[np.float64]  # (classes,)
    power: NDArray[np.float64]  # (n + 1, slots) cache: (share / largest share of the class)^c
    power_ready: NDArray[np.bool_]  # (n + 1,) which rows of `power` are computed
    table: NDArray[np.int64]  # (n,) row of each item's own table
    n_tables: int  # rows that belong to items; those of a chain's clusters follow
    cumulative: NDArray[np.float64]  # (rows, slots) cumulative distribution over the slots of each class
    log_total: NDArray[np.float64]  # (rows, classes) log of the normalizing constants
    chain: NDArray[np.uint64]  # (1,) key of the chain that the clusters' tables belong to


class ReportClusters(NamedTuple):
    """The clusters of one chain: reports that come from one memoized response, and the slot of that response.

    There are three clusters more than items: scratch for splits and merges.
    """

    slot: NDArray[np.int64]  # (clusters,) or -1
    size: NDArray[np.int64]  # (clusters,) items
    index_sum: NDArray[np.int64]  # (clusters,) sum of the items' indices: of a single item, its index
    n_reports: NDArray[np.int64]  # (clusters,)
    ones: NDArray[np.int64]  # (clusters, m) ones at each bit
    log_prob: NDArray[np.float64]  # (clusters,) log Pr[reports] at a slot that sets no bit
    bit_gain: NDArray[np.float64]  # (clusters, m + 1) what each set bit of the slot adds to it; 0 for padding
    base: NDArray[np.float64]  # (clusters,) change of the log likelihood with one more report of zeros
    join_bit: NDArray[np.float64]  # (m, clusters) what each one of that report adds to the change
    join_unset: NDArray[np.float64]  # (clusters,) `base` at a slot that sets no bit
    fingerprint: NDArray[np.uint64]  # (clusters,) sum over the items
    tabulated: NDArray[np.uint64]  # (clusters,) fingerprint for which the table was computed
    cluster_of: NDArray[np.int64]  # (n,)
    cluster_at: NDArray[np.int64]  # (slots,) or -1
    free_list: NDArray[np.int64]  # (n + 1,) unused clusters; the last entry is how many there are
    end: NDArray[np.int64]  # (1,) all clusters from here on are unused
    bit_factor: NDArray[np.float64]  # (m + 1,) scratch


@njit_no_refcount
def update_likelihood(items, clusters, g):
    """Recompute the likelihood terms of cluster g after its reports or slot have changed; slot -1 sets no bit."""
    ones, bit_gain, join_bit, unset_terms = clusters.ones, clusters.bit_gain, clusters.join_bit, items.unset_terms
    c, last = clusters.n_reports[g], ones.shape[1]
    log_prob, base = 0.0, 0.0
    for j in range(last):
        o = ones[g, j]
        log_prob += unset_terms[c, o, 0]
        base += unset_terms[c, o, 1]
        bit_gain[g, j] = unset_terms[c, o, 2]
        join_bit[j, g] = unset_terms[c, o, 3]
    bit_gain[g, last] = 0.0
    clusters.log_prob[g] = log_prob
    clusters.join_unset[g] = base
    _update_join(items, clusters, g)


@inner
def _update_join(items, clusters, g):
    """Correct the terms of one more report at the bits that the slot sets."""
    c, s, last, base = clusters.n_reports[g], clusters.slot[g], clusters.ones.shape[1], clusters.join_unset[g]
    for h in range(items.positions.shape[0] if s >= 0 else 0):
        j = items.positions[h, s]
        if j < last:
            o = clusters.ones[g, j]
            base += items.set_terms[c, o, 0] - items.unset_terms[c, o, 1]
            clusters.join_bit[j, g] = items.set_terms[c, o, 1]
    clusters.base[g] = base


@njit_no_refcount
def move(items, clusters, g, s):
    """Move cluster g, with its reports, to slot s; the caller updates `cluster_at`."""
    before = clusters.slot[g]
    clusters.slot[g] = s
    for h in range(items.positions.shape[0]):
        j = items.positions[h, before]
        if j < clusters.ones.shape[1]:
            clusters.join_bit[j, g] = items.unset_terms[clusters.n_reports[g], clusters.ones[g, j], 3]
    _update_join(items, clusters, g)


@njit_no_refcount
def log_response_prob(items, clusters, g, s):
    """Return log Pr[the reports of cluster g | slot s]."""
    total = clusters.log_prob[g]
    for h in range(items.positions.shape[0]):
        total += clusters.bit_gain[g, items.positions[h, s]]
    return total


@njit_no_refcount
def log_join(items, clusters, g, u):
    """Return the change of the log likelihood of cluster g if item u, a single report, joined it."""
    total = clusters.base[g]
    for i in range(items.n_set_bits[u]):
        total += clusters.join_bit[items.set_bits[u, i], g]
    return total


@njit_no_refcount
def log_leave(items, clusters, u):
    """Return what item u, a single report, contributes to the log likelihood of its cluster, which has other items.

    The cluster is left as it is: most proposals keep the report, and recomputing all terms would cost more.
    """
    g = clusters.cluster_of[u]
    set_bits, ones, count = items.set_bits, clusters.ones, items.n_set_bits[u]
    for i in range(count):
        ones[g, set_bits[u, i]] -= 1
    rest = _log_prob_without_one(items, clusters, g)
    for i in range(count):
        ones[g, set_bits[u, i]] += 1
    return log_response_prob(items, clusters, g, clusters.slot[g]) - rest


@inner
def _log_prob_without_one(items, clusters, g):
    """Return log Pr[reports of cluster g | its slot] without one report.

    `ones` already lacks that report, and `n_reports` still counts it.
    """
    ones, unset_terms, s, c, total = clusters.ones, items.unset_terms, clusters.slot[g], clusters.n_reports[g] - 1, 0.0
    last = ones.shape[1]
    for j in range(last):
        total += unset_terms[c, ones[g, j], 0]
    for h in range(items.positions.shape[0]):
        j = items.positions[h, s]
        if j < last:
            total += unset_terms[c, ones[g, j], 2]
    return total


@njit_no_refcount
def add_log_joins(items, clusters, u, out):
    """Add `log_join` of item u with each of the first clusters to out (clusters,).

    The loop runs bit by bit over clusters that are contiguous in memory, so that it vectorizes.
    """
    n = out.shape[0]
    set_bits, base, join_bit, count = items.set_bits, clusters.base, clusters.join_bit, items.n_set_bits[u]
    for g in range(n):
        out[g] += base[g]
    for i in range(0, count - 3, 4):
        one, two, three, four = set_bits[u, i], set_bits[u, i + 1], set_bits[u, i + 2], set_bits[u, i + 3]
        for g in range(n):
            out[g] += (join_bit[one, g] + join_bit[two, g]) + (join_bit[three, g] + join_bit[four, g])
    for i in range(count - count % 4, count):
        one = set_bits[u, i]
        for g in range(n):
            out[g] += join_bit[one, g]


@inner
def clear_cluster(clusters, g):
    """Clear cluster g: no reports and no slot."""
    clusters.slot[g] = -1
    clusters.size[g] = 0
    clusters.index_sum[g] = 0
    clusters.n_reports[g] = 0
    clusters.fingerprint[g] = 0
    clusters.ones[g, :] = 0


@inner
def change_membership(items, clusters, u, g, sign):
    """Add item u to cluster g (sign 1) or remove it (sign -1); the caller runs `update_likelihood`."""
    clusters.size[g] += sign
    clusters.index_sum[g] += sign * u
    clusters.n_reports[g] += sign * items.n_reports[u]
    clusters.fingerprint[g] += items.fingerprint[u] if sign > 0 else -items.fingerprint[u]
    for i in range(items.n_set_bits[u]):
        clusters.ones[g, items.set_bits[u, i]] += sign


@njit_no_refcount
def remove_report(items, clusters, u):
    """Remove item u from its cluster, and free the cluster if it is then empty."""
    g = clusters.cluster_of[u]
    clusters.cluster_of[u] = -1
    change_membership(items, clusters, u, g, -1)
    if clusters.size[g] == 0:
        free_cluster(clusters, g)
    else:
        update_likelihood(items, clusters, g)


@njit_no_refcount
def insert_report(items, clusters, u, g):
    """Put item u into cluster g."""
    clusters.cluster_of[u] = g
    change_membership(items, clusters, u, g, 1)
    update_likelihood(items, clusters, g)


@inner
def free_cluster(clusters, g):
    """Free the slot and the index of cluster g."""
    clusters.cluster_at[clusters.slot[g]] = -1
    clear_cluster(clusters, g)
    free = clusters.free_list[-1]
    clusters.free_list[free] = g
    clusters.free_list[-1] = free + 1
    while clusters.end[0] > 0 and clusters.size[clusters.end[0] - 1] == 0:
        clusters.end[0] -= 1


@inner
def new_cluster(clusters, s):
    """Return the index of a new, empty cluster at slot s."""
    free = clusters.free_list[-1] - 1
    g = clusters.free_list[free]
    clusters.free_list[-1] = free
    clusters.end[0] = max(clusters.end[0], g + 1)
    clusters.slot[g] = s
    clusters.cluster_at[s] = g
    return g


#: Largest spread of log factors at which their products neither overflow nor underflow.
MAX_LOG_SPREAD = 400.0


@inner
def _cache_power(items, c):
    """Compute `items.power[c]`, the shares to the power c, at first use."""
    power = items.power
    if not items.power_ready[c]:
        for s in range(power.shape[1]):
            power[c, s] = np.exp(c * (items.log_share[s] - items.max_log_share[items.class_of[s]]))
        items.power_ready[c] = True


@inner
def slot_weights(items, clusters, g, out, log_scale):
    """Compute the posterior weights of all slots for cluster g: out (slots,), over e^log_scale (classes,).

    The likelihood of a slot is a product with one factor for each bit that it sets. Bits are far fewer than slots, so
    hardly any exponential is computed. Where the factors spread so widely that products could overflow or underflow,
    logarithms are summed instead.
    """
    c, hashes, bit_gain, factor = (
        clusters.n_reports[g],
        items.positions.shape[0],
        clusters.bit_gain[g],
        clusters.bit_factor,
    )
    low, high = np.inf, -np.inf
    for j in range(bit_gain.shape[0]):
        low, high = min(low, bit_gain[j]), max(high, bit_gain[j])
    if hashes * (high - low) > MAX_LOG_SPREAD:
        _slot_weights_by_logs(items, clusters, g, out, log_scale)
        return
    for j in range(bit_gain.shape[0]):
        factor[j] = np.exp(bit_gain[j] - high)
    _cache_power(items, c)
    power, one = items.power[c], items.positions[0]
    if hashes == 2:
        two = items.positions[1]
        for s in range(out.shape[0]):
            out[s] = power[s] * (factor[one[s]] * factor[two[s]])
    else:
        for s in range(out.shape[0]):
            out[s] = power[s] * factor[one[s]]
        for h in range(1, hashes):
            more = items.positions[h]
            for s in range(out.shape[0]):
                out[s] *= factor[more[s]]
    for k in range(log_scale.shape[0]):
        log_scale[k] = clusters.log_prob[g] + hashes * high + c * items.max_log_share[k]


@inner
def _slot_weights_by_logs(items, clusters, g, out, log_scale):
    """Compute `slot_weights` from sums of logarithms."""
    c, hashes = np.float64(clusters.n_reports[g]), items.positions.shape[0]
    for k in range(log_scale.shape[0]):
        low, high, top = items.first[k], items.first[k + 1], -np.inf
        for s in range(low, high):
            value = clusters.log_prob[g]
            for h in range(hashes):
                value += clusters.bit_gain[g, items.positions[h, s]]
            value += c * items.log_share[s]
            out[s] = value
            top = max(top, value)
        for s in range(low, high):
            out[s] = np.exp(out[s] - top)
        log_scale[k] = top


@njit_no_refcount
def cluster_weights(items, clusters, which, log_scale, out):
    """Compute the posterior weights of all slots for some clusters: out (which, slots).

    Each row is scaled by its largest class; log_scale (classes,) is scratch.
    """
    for i in range(which.shape[0]):
        slot_weights(items, clusters, which[i], out[i], log_scale)
        top = -np.inf
        for k in range(log_scale.shape[0]):
            top = max(top, log_scale[k])
        for k in range(log_scale.shape[0]):
            scale = np.exp(log_scale[k] - top)
            for s in range(items.first[k], items.first[k + 1]):
                out[i, s] *= scale


@inner
def tabulate(items, clusters, g, row):
    """Write the posterior of cluster g over the slots to a row of the tables.

    Within each class the row is a cumulative distribution; `log_total` holds the normalizing constant of the class.
    """
    cumulative, log_total = items.cumulative[row], items.log_total[row]
    slot_weights(items, clusters, g, cumulative, log_total)
    for k in range(log_total.shape[0]):
        low, high, total = items.first[k], items.first[k + 1], 0.0
        # four at a time: each sum depends on the one before it
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
        log_total[k] += np.log(total) if total > 0.0 else LOG_ZERO


@njit_no_refcount
def tabulate_items(items, clusters):
    """Compute the tables of all items, each by itself; `clusters` is scratch."""
    g = items.n_reports.shape[0]
    for u in range(items.n_reports.shape[0]):
        clear_cluster(clusters, g)
        change_membership(items, clusters, u, g, 1)
        update_likelihood(items, clusters, g)
        tabulate(items, clusters, g, items.table[u])


@njit_no_refcount
def table_row(items, clusters, g):
    """Return the table row of cluster g: a single item's own, else the cluster's, computed at first use."""
    if clusters.size[g] == 1:
        return items.table[clusters.index_sum[g]]
    row = items.n_tables + g
    if clusters.tabulated[g] != clusters.fingerprint[g]:
        tabulate(items, clusters, g, row)
        clusters.tabulated[g] = clusters.fingerprint[g]
    return row
