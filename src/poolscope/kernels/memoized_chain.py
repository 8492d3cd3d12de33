"""A chain over the slots behind a user's reports, with memoized responses summed out: a collapsed Gibbs sampler.

Given the behavior, a cluster g of c reports at slot s has the weight Pr[reports | s] Phi(s)^c. Phi(s) is the weight of
the slot's class times the slot's share within it. No two clusters have one slot. Every move leaves this distribution
invariant, and so does drawing the behavior given the number of reports in each section.
"""

from __future__ import annotations

import numpy as np

from poolscope.kernels.compilation import inner, njit_no_refcount
from poolscope.kernels.memoized_moves import (
    assign,
    gibbs_behavior,
    next_uniform,
    propose_pool,
    propose_slot,
    reassign,
    relocate,
    sample_index,
    slot_log_weight,
    table_probability,
)
from poolscope.kernels.memoized_split_merge import split_or_merge
from poolscope.kernels.memoized_state import clear_cluster


@inner
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
        clear_cluster(clusters, g)
    clusters.free_list[n] = n
    clusters.end[0] = 0
    workspace.phi[:] = -np.inf
    for i in range(n):
        u = workspace.order[i]
        s = propose_slot(items, clusters, state, workspace, u)
        if s < 0:
            s = _free_slot(items, clusters, state, items.n_reports[u], items.table[u])
        assign(items, clusters, state, workspace, u, s)
        workspace.phi[clusters.cluster_at[s]] = favor + slot_log_weight(items, state, s)


@njit_no_refcount
def sweep(items, belief, clusters, state, workspace, sweeps, n_split_merge, n_pool_proposals, out):
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
            for _ in range(n_split_merge):
                split_or_merge(items, clusters, state, workspace)
        for g in range(n):
            if clusters.size[g] > 0:
                relocate(items, clusters, state, workspace, g)
        gibbs_behavior(items, clusters, belief, state, workspace)
        for _ in range(n_pool_proposals if belief.class_of_section[1] >= 0 else 0):
            propose_pool(items, clusters, belief, state, workspace)
        for i in range(out.shape[0]):
            out[i] += state.posterior[i]
