"""A chain over the slots behind a user's reports, with memoized responses summed out: a collapsed Gibbs sampler.

Given the behavior, a cluster g of c reports at slot s has the weight Pr[reports | s] Phi(s)^c. Phi(s) is the weight of
the slot's class times the slot's share within it. No two clusters have one slot. Every move leaves this distribution
invariant, and so does drawing the behavior given the number of reports in each section.
"""

from __future__ import annotations

import numpy as np

from poolscope.kernels.compilation import njit_no_refcount
from poolscope.kernels.memoized_moves import (
    class_log_weights,
    log_sum_exp,
    next_uniform,
    propose_pool,
    sample_in_class,
    sample_index,
    sample_node,
    sample_slot,
    section_weights,
    slot_log_weight,
    split_or_merge,
    table_probability,
    update_class_weights,
)
from poolscope.kernels.memoized_state import (
    add_log_joins,
    claim,
    empty,
    log_leave,
    log_response_prob,
    move,
    put,
    table_row,
    take,
)

#: Draws until a taken slot is given up, and log odds against the likeliest slot beyond which none is drawn: less than
#: once in 10^13 times.
MAX_TRIES, LOG_CUTOFF = 4, 30.0


@njit_no_refcount
def relocate(items, clusters, state, workspace, g):
    """Sample a slot for cluster g from its own distribution; if another cluster has it, propose to swap the two.

    The likelihood of g cancels, so that only the other cluster decides on the swap.
    """
    a = clusters.slot[g]
    b = sample_slot(items, state, clusters.n_reports[g], table_row(items, clusters, g), workspace.mix)
    if b == a:
        return
    h = clusters.cluster_at[b]
    if h >= 0:
        change = log_response_prob(items, clusters, h, a) - log_response_prob(items, clusters, h, b)
        change += clusters.n_reports[h] * (slot_log_weight(items, state, a) - slot_log_weight(items, state, b))
        if next_uniform(state) >= np.exp(change):
            return
        move(items, clusters, h, a)
    clusters.cluster_at[a] = h
    clusters.cluster_at[b] = g
    move(items, clusters, g, b)


@njit_no_refcount
def reassign(items, clusters, state, workspace, u):
    """Resample the cluster of item u, a single report: an existing cluster or a slot of its own.

    A single item that proposes another slot of its own stays: moves between slots are left to `relocate`, and every
    move to a cluster has an equally likely reverse.
    """
    g = clusters.cluster_of[u]
    s = _propose_slot(items, clusters, state, workspace, u)
    if s < 0 or s == clusters.slot[g] or (clusters.size[g] == 1 and clusters.cluster_at[s] < 0):
        return
    take(items, clusters, u)
    if clusters.size[g] == 0:
        workspace.phi[g] = -np.inf
    _assign(items, clusters, state, workspace, u, s)


@njit_no_refcount
def _assign(items, clusters, state, workspace, u, s):
    """Assign item u, which is in no cluster, to slot s."""
    g = clusters.cluster_at[s]
    if g < 0:
        g = claim(clusters, s)
        workspace.phi[g] = slot_log_weight(items, state, s)
    put(items, clusters, u, g)


@njit_no_refcount
def _propose_slot(items, clusters, state, workspace, u):
    """Sample a slot for item u as if it were in no cluster; -1 if it only drew slots of clusters that it cannot join.

    workspace.phi holds the log weight of every cluster's slot, and -inf where there is no cluster.
    """
    n, mix, mine = clusters.end[0], workspace.mix, clusters.cluster_of[u]
    cumulative, shares = workspace.cumulative[:n], mine >= 0 and clusters.size[mine] > 1
    class_log_weights(items, state, items.n_reports[u], items.table[u], mix)
    top = -np.inf
    for k in range(mix.shape[0]):
        top = max(top, mix[k])
    for g in range(n):
        cumulative[g] = workspace.phi[g]
    add_log_joins(items, clusters, u, cumulative)
    if mine >= 0:
        cumulative[mine] = workspace.phi[mine] + log_leave(items, clusters, u) if shares else -np.inf
    for value in cumulative:
        top = max(top, value)
    total = 0.0
    for g in range(n):
        if cumulative[g] > top - LOG_CUTOFF:
            total += np.exp(cumulative[g] - top)
        cumulative[g] = total
    joined = total
    for k in range(mix.shape[0]):
        total += np.exp(mix[k] - top)
        mix[k] = total
    for _ in range(MAX_TRIES):
        want = next_uniform(state) * total
        if want < joined:
            g = 0
            while want >= cumulative[g]:
                g += 1
            return clusters.slot[g]
        k = 0
        while k < mix.shape[0] - 1 and want >= mix[k]:
            k += 1
        s = sample_in_class(items, items.table[u], k, next_uniform(state))
        if clusters.cluster_at[s] < 0 or (clusters.cluster_at[s] == mine and not shares):
            return s
    return -1


@njit_no_refcount
def _free_slot(items, clusters, state, c, row):
    """Sample a free slot from a table, however little mass the free ones have; the table of a cluster is scratch."""
    logs, top = items.cumulative[items.n_tables], -np.inf
    for s in range(logs.shape[0]):
        k, share = items.class_of[s], table_probability(items, row, s)
        logs[s] = -np.inf
        if clusters.cluster_at[s] < 0 and share > 0.0:
            logs[s] = items.log_total[row, k] + c * state.log_weight[k] + np.log(share)
        top = max(top, logs[s])
    if top == -np.inf:
        for s in range(logs.shape[0]):
            if clusters.cluster_at[s] < 0:
                return s
    return sample_index(logs, logs.shape[0], next_uniform(state))


@njit_no_refcount
def init_chain(items, clusters, state, workspace, favor):
    """Assign items one after the other, in workspace.order, each given those before it.

    `favor` is added to the log weight of existing clusters.
    """
    items.chain[0] = 0
    clusters.cluster_at[:] = -1
    clusters.cluster_of[:] = -1
    n = items.n_reports.shape[0]
    for g in range(n):
        # from the last, so that clusters in use are contiguous from the start
        clusters.free_list[g] = n - 1 - g
        empty(clusters, g)
    clusters.free_list[n] = n
    clusters.end[0] = 0
    workspace.phi[:] = -np.inf
    for i in range(n):
        u = workspace.order[i]
        s = _propose_slot(items, clusters, state, workspace, u)
        if s < 0:
            s = _free_slot(items, clusters, state, items.n_reports[u], items.table[u])
        _assign(items, clusters, state, workspace, u, s)
        workspace.phi[clusters.cluster_at[s]] = favor + slot_log_weight(items, state, s)


@njit_no_refcount
def gibbs_behavior(items, clusters, belief, state, workspace):
    """Sample the sections of the reports, then the behavior.

    state.posterior becomes the posterior of the pools given the sections.
    """
    counts, weight, k = state.counts, state.weight, state.posterior.shape[0]
    counts[:] = 0
    for u in range(items.n_reports.shape[0]):
        c = items.class_of[clusters.slot[clusters.cluster_of[u]]]
        if belief.only_section[c] >= 0:
            counts[belief.only_section[c]] += items.n_reports[u]
        else:
            total = np.exp(state.log_weight[c])
            for _ in range(items.n_reports[u]):
                want, j = next_uniform(state) * total, 0
                while j < k and want >= belief.class_mix[c, j] * weight[j]:
                    want -= belief.class_mix[c, j] * weight[j]
                    j += 1
                counts[j] += 1
    inside = counts.sum() - counts[0]
    nodes, posterior = workspace.nodes, state.posterior
    for i in range(k):
        nodes[i] = belief.log_prior[i] + belief.integral[counts[i + 1], inside - counts[i + 1]]
    norm = log_sum_exp(nodes, k)
    for i in range(k):
        posterior[i] = np.exp(nodes[i] - norm)
    iota = sample_index(nodes, k, next_uniform(state))
    own = counts[iota + 1]
    gamma = sample_node(belief.interest, inside, counts[0], nodes, next_uniform(state))
    delta = sample_node(belief.polarization, own, inside - own, nodes, next_uniform(state))
    state.indices[1], state.indices[2], state.indices[3] = iota, gamma, delta
    section_weights(belief, iota, gamma, delta, weight)
    update_class_weights(belief, weight, state.log_weight)


@njit_no_refcount
def sweep(items, belief, clusters, state, workspace, sweeps, pairs, jumps, out):
    """Run `sweeps` sweeps of all moves, and add the pools' posterior of each sweep to out (k,)."""
    n = items.n_reports.shape[0]
    if items.chain[0] != state.key:
        clusters.tabulated[:] = 0
        items.chain[0] = state.key
    for _ in range(sweeps):
        if items.can_share:
            for g in range(n):
                workspace.phi[g] = slot_log_weight(items, state, clusters.slot[g]) if clusters.size[g] > 0 else -np.inf
            for u in range(n):
                reassign(items, clusters, state, workspace, u)
            for _ in range(pairs):
                split_or_merge(items, clusters, state, workspace)
        for g in range(n):
            if clusters.size[g] > 0:
                relocate(items, clusters, state, workspace, g)
        gibbs_behavior(items, clusters, belief, state, workspace)
        for _ in range(jumps if belief.class_of_section[1] >= 0 else 0):
            propose_pool(items, clusters, belief, state, workspace)
        for i in range(out.shape[0]):
            out[i] += state.posterior[i]
