"""Splits and merges of clusters of reports: Metropolis-Hastings moves that leave the posterior invariant."""

from __future__ import annotations

import numpy as np

from poolscope.kernels.compilation import inner
from poolscope.kernels.memoized_moves import class_log_weights, log_sum_exp, next_uniform, sample_slot
from poolscope.kernels.memoized_state import (
    change_membership,
    clear_cluster,
    free_cluster,
    log_join,
    new_cluster,
    table_row,
    update_likelihood,
)


@inner
def _log_marginal(items, clusters, state, workspace, g):
    """Return the log likelihood of cluster g, summed over slots."""
    class_log_weights(items, state, clusters.n_reports[g], table_row(items, clusters, g), workspace.mix)
    return log_sum_exp(workspace.mix, workspace.mix.shape[0])


@inner
def _log_marginal_bound(items, clusters, state, workspace, g):
    """Return an upper bound of `_log_marginal` that needs no table.

    It combines the largest likelihood of any slot, the largest weight of any slot for all reports but one, and the
    weights of all slots, which sum to one, for that report.
    """
    if clusters.size[g] == 1 or clusters.tabulated[g] == clusters.fingerprint[g]:
        return _log_marginal(items, clusters, state, workspace, g)
    best, phi, bit_gain = -np.inf, -np.inf, clusters.bit_gain[g]
    for j in range(bit_gain.shape[0]):
        best = max(best, bit_gain[j])
    for k in range(items.max_log_share.shape[0]):
        phi = max(phi, state.log_weight[k] + items.max_log_share[k])
    return clusters.log_prob[g] + items.positions.shape[0] * best + (clusters.n_reports[g] - 1) * phi + 1e-6


@inner
def _merge_counts(clusters, g, h, both):
    """Set cluster `both` to the union of g and h, without a slot; the caller runs `update_likelihood`."""
    clusters.slot[both] = -1
    clusters.size[both] = clusters.size[g] + clusters.size[h]
    clusters.index_sum[both] = clusters.index_sum[g] + clusters.index_sum[h]
    clusters.n_reports[both] = clusters.n_reports[g] + clusters.n_reports[h]
    clusters.fingerprint[both] = clusters.fingerprint[g] + clusters.fingerprint[h]
    for j in range(clusters.ones.shape[1]):
        clusters.ones[both, j] = clusters.ones[g, j] + clusters.ones[h, j]


@inner
def split_or_merge(items, clusters, state, workspace):
    """Choose two items at random: split their cluster if it is one, merge their clusters if they are two.

    A split allocates the other items sequentially, each by its likelihood in the two new clusters with the slots summed
    out (Dahl). Slots are then sampled from the clusters' posteriors, so that only the marginal likelihoods of clusters
    remain in the acceptance ratio. Two random clusters rarely merge: the uniform number of the acceptance test is drawn
    first, and where bounds of the marginals show that it rejects, no table is computed.
    """
    n, order = items.n_reports.shape[0], workspace.order
    t = int(next_uniform(state) * n)
    u = int(next_uniform(state) * (n - 1))
    u += u >= t
    g, h = clusters.cluster_of[t], clusters.cluster_of[u]
    left, right, both, log_u = n, n + 1, n + 2, np.log(next_uniform(state))
    current = _log_marginal(items, clusters, state, workspace, g)
    if g != h:
        current += _log_marginal(items, clusters, state, workspace, h)
        _merge_counts(clusters, g, h, both)
        update_likelihood(items, clusters, both)
        if log_u >= _log_marginal_bound(items, clusters, state, workspace, both) - current:
            return
    for some in (left, right):
        clear_cluster(clusters, some)
    change_membership(items, clusters, t, left, 1)
    change_membership(items, clusters, u, right, 1)
    update_likelihood(items, clusters, left)
    update_likelihood(items, clusters, right)
    others = 0
    for v in range(n):
        if (clusters.cluster_of[v] == g or clusters.cluster_of[v] == h) and v != t and v != u:
            order[others] = v
            others += 1
    log_proposal = 0.0
    for i in range(others):
        j = i + int(next_uniform(state) * (others - i))
        order[i], order[j] = order[j], order[i]
        v = order[i]
        odds = log_join(items, clusters, right, v) - log_join(items, clusters, left, v)
        p_left = 1.0 / (1.0 + np.exp(odds))
        to_left = next_uniform(state) < p_left if g == h else clusters.cluster_of[v] == g
        log_proposal += -np.log1p(np.exp(odds)) if to_left else -np.log1p(np.exp(-odds))
        some = left if to_left else right
        change_membership(items, clusters, v, some, 1)
        update_likelihood(items, clusters, some)
        workspace.target[v] = some
    workspace.target[t], workspace.target[u] = left, right
    if g == h:
        bound = _log_marginal_bound(items, clusters, state, workspace, left) + _log_marginal_bound(
            items, clusters, state, workspace, right
        )
        if log_u >= bound - current - log_proposal:
            return
        odds = _log_marginal(items, clusters, state, workspace, left) + _log_marginal(
            items, clusters, state, workspace, right
        )
        odds -= current + log_proposal
    else:
        odds = _log_marginal(items, clusters, state, workspace, both) - current + log_proposal
    if log_u >= odds:
        return
    if g == h:
        a = sample_slot(items, state, clusters.n_reports[left], table_row(items, clusters, left), workspace.mix)
        b = sample_slot(items, state, clusters.n_reports[right], table_row(items, clusters, right), workspace.mix)
        if (
            a == b
            or (clusters.cluster_at[a] >= 0 and clusters.cluster_at[a] != g)
            or (clusters.cluster_at[b] >= 0 and clusters.cluster_at[b] != g)
        ):
            return
        order[others], order[others + 1] = t, u
        free_cluster(clusters, g)
        g, h = new_cluster(clusters, a), new_cluster(clusters, b)
        for i in range(others + 2):
            v = order[i]
            to = g if workspace.target[v] == left else h
            clusters.cluster_of[v] = to
            change_membership(items, clusters, v, to, 1)
        update_likelihood(items, clusters, h)
    else:
        a = sample_slot(items, state, clusters.n_reports[both], table_row(items, clusters, both), workspace.mix)
        if clusters.cluster_at[a] >= 0 and clusters.cluster_at[a] != g and clusters.cluster_at[a] != h:
            return
        free_cluster(clusters, g)
        free_cluster(clusters, h)
        g = new_cluster(clusters, a)
        order[others], order[others + 1] = t, u
        for i in range(others + 2):
            clusters.cluster_of[order[i]] = g
            change_membership(items, clusters, order[i], g, 1)
    update_likelihood(items, clusters, g)
