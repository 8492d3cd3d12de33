"""Moves of a chain over clusters of reports: preferred pool and behavior, splits and merges.

A proposal is accepted by the Metropolis-Hastings rule, so that every move leaves the posterior invariant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.compilation import njit_no_refcount
from poolscope.kernels.memoized_state import LOG_ZERO, add, claim, empty, log_join, move, refresh, release, table_row
from poolscope.kernels.random import uniform


class Belief(NamedTuple):
    """An adversary's priors of behavior, on the nodes of Gauss rules."""

    log_prior: NDArray[np.float64]  # (k,) of the preferred pool
    interest: NDArray[np.float64]  # (3, nodes) log gamma, log(1 - gamma), log weight
    polarization: NDArray[np.float64]  # (3, nodes) log delta, log((1 - delta)/(k - 1)), log weight
    integral: NDArray[np.float64]  # (n + 1, n + 1) log E[delta^own ((1 - delta)/(k - 1))^rest], index [own, rest]
    class_mix: NDArray[np.float64]  # (classes, k + 1) weight of a class = class_mix @ section_weights of the sections
    only_section: NDArray[np.int64]  # (classes,) the section that all slots of the class lie in, or -1
    class_of_section: NDArray[np.int64]  # (k + 1,) the class that equals the section, or -1


class ChainState(NamedTuple):
    """The state of a chain beyond its clusters."""

    key: np.uint64  # of the chain's random numbers
    indices: NDArray[np.int64]  # (4,) next random word, preferred pool, nodes of interest and of polarization
    weight: NDArray[np.float64]  # (k + 1,) of the sections
    log_weight: NDArray[np.float64]  # (classes,)
    counts: NDArray[np.int64]  # (k + 1,) reports in each section
    posterior: NDArray[np.float64]  # (k,) of the pools given `counts`


class Workspace(NamedTuple):
    """Scratch arrays that the chains of a user share."""

    cumulative: NDArray[np.float64]  # (n,)
    phi: NDArray[np.float64]  # (n,) log weight of each cluster's slot, -inf where current is no cluster
    order: NDArray[np.int64]  # (n,)
    target: NDArray[np.int64]  # (n,) proposed slots, or proposed clusters
    classes: NDArray[np.int64]  # (3,)
    taken: NDArray[np.bool_]  # (slots,)
    nodes: NDArray[np.float64]  # (largest number of nodes or sections,)
    mix: NDArray[np.float64]  # (classes,)
    weight: NDArray[np.float64]  # (k + 1,) proposed section_weights of the sections
    log_weight: NDArray[np.float64]  # (classes,) proposed


@njit(inline="always")
def next_uniform(state):
    """Return the next uniform number of the chain's stream."""
    i = state.indices[0]
    state.indices[0] = i + 1
    return uniform(state.key, i)


@njit_no_refcount
def sample_index(logs, count, u):
    """Sample an index with probability proportional to exp(logs), by the uniform number u.

    The logs become cumulative sums.
    """
    top = -np.inf
    for i in range(count):
        top = max(top, logs[i])
    if top == -np.inf:
        return -1
    total = 0.0
    for i in range(count):
        total += np.exp(logs[i] - top)
        logs[i] = total
    want = u * total
    for i in range(count):
        if want < logs[i]:
            return i
    return count - 1


@njit_no_refcount
def log_sum_exp(logs, count):
    """Return the log of the sum of exp(logs)."""
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
def class_log_weights(items, state, c, row, mix):
    """Write the log weight of each class for c reports with that table to mix (classes,)."""
    for k in range(mix.shape[0]):
        mix[k] = items.log_total[row, k] + c * state.log_weight[k]


@njit(inline="always")
def sample_in_class(items, row, k, u):
    """Sample a slot of class k from a table, by the uniform number u."""
    low, high = items.first[k], items.first[k + 1] - 1
    while low < high:
        middle = (low + high) >> 1
        if items.cumulative[row, middle] <= u:
            low = middle + 1
        else:
            high = middle
    return low


@njit(inline="always")
def table_probability(items, row, s):
    """Return the probability of slot s within its class, by a table."""
    before = items.cumulative[row, s - 1] if s > items.first[items.class_of[s]] else 0.0
    return items.cumulative[row, s] - before


@njit_no_refcount
def sample_slot(items, state, c, row, mix):
    """Sample a slot from a table, free or not; -1 where no slot is possible."""
    class_log_weights(items, state, c, row, mix)
    k = sample_index(mix, mix.shape[0], next_uniform(state))
    if k < 0:
        return -1
    return sample_in_class(items, row, k, next_uniform(state))


@njit(inline="always")
def slot_log_weight(items, state, s):
    """Return the log probability that an object of slot s is picked, under the behavior of the chain."""
    return state.log_weight[items.class_of[s]] + items.log_share[s]


@njit_no_refcount
def sequential_allocation(items, clusters, state, workspace, count, classes, log_weight, draw):
    """Allocate the clusters workspace.order[:count] to slots of some classes, one after the other.

    Each cluster draws from its distribution over the free slots. Slots go to workspace.target; with `draw` they are
    sampled, else they are the current ones. Returns the log of the product of the free mass of each cluster, which is
    -inf where a cluster finds next to none.
    """
    total, mix, placed = 0.0, workspace.mix, 0
    for i in range(count):
        g = workspace.order[i]
        c = clusters.n_reports[g]
        row = table_row(items, clusters, g)
        top = -np.inf
        for b in classes:
            mix[b] = items.log_total[row, b] + c * log_weight[b]
            top = max(top, mix[b])
        whole = 0.0
        for b in classes:
            mix[b] = np.exp(mix[b] - top)
            whole += mix[b]
        free = whole
        for j in range(i):
            s = workspace.target[j]
            free -= mix[items.class_of[s]] * table_probability(items, row, s)
        if not free > 1e-9 * whole:
            total = -np.inf
            break
        total += top + np.log(free)
        s = clusters.slot[g]
        if draw:
            s = _sample_free_slot(items, state, workspace, classes, row, whole, free)
        workspace.target[i] = s
        workspace.taken[s] = True
        placed += 1
    for i in range(placed):
        workspace.taken[workspace.target[i]] = False
    return total


@njit_no_refcount
def _sample_free_slot(items, state, workspace, classes, row, whole, free):
    """Sample a slot of these classes that is not taken: by rejection, or by enumeration if little mass is free."""
    mix = workspace.mix
    if free > 0.2 * whole:
        while True:
            want, at = next_uniform(state) * whole, 0
            while at < classes.shape[0] - 1 and want >= mix[classes[at]]:
                want -= mix[classes[at]]
                at += 1
            s = sample_in_class(items, row, classes[at], next_uniform(state))
            if not workspace.taken[s]:
                return s
    want, last = next_uniform(state) * free, -1
    for b in classes:
        before = 0.0
        for s in range(items.first[b], items.first[b + 1]):
            share = items.cumulative[row, s] - before
            before = items.cumulative[row, s]
            if share > 0.0 and not workspace.taken[s]:
                last = s
                want -= mix[b] * share
                if want < 0.0:
                    return s
    return last


@njit_no_refcount
def section_weights(belief, iota, gamma, delta, weight):
    """Compute weight (k + 1,) of the sections from the preferred pool and nodes of interest and polarization."""
    interest, polarization = belief.interest, belief.polarization
    weight[0] = np.exp(interest[1, gamma])
    for i in range(weight.shape[0] - 1):
        weight[i + 1] = np.exp(interest[0, gamma] + polarization[0 if i == iota else 1, delta])


@njit_no_refcount
def update_class_weights(belief, weight, log_weight):
    """Compute log_weight (classes,) from the weights of the sections."""
    for c in range(log_weight.shape[0]):
        total = 0.0
        for j in range(weight.shape[0]):
            total += belief.class_mix[c, j] * weight[j]
        log_weight[c] = np.log(total) if total > 0.0 else LOG_ZERO


@njit_no_refcount
def sample_node(axis, one, other, nodes, u):
    """Sample a node of an axis, proportionally to x^one y^other times its weight, by the uniform number u."""
    for i in range(axis.shape[1]):
        nodes[i] = one * axis[0, i] + other * axis[1, i] + axis[2, i]
    return sample_index(nodes, axis.shape[1], u)


@njit_no_refcount
def propose_pool(items, clusters, belief, state, workspace):
    """Propose another preferred pool, or another relevant interest too.

    The clusters of both pools, and with another interest the neutral ones, are reallocated at once. Clusters elsewhere
    keep their slots and change their weight. The interest is proposed from its prior, which cancels.
    """
    k, n, order = belief.log_prior.shape[0], items.n_reports.shape[0], workspace.order
    iota, gamma, delta = state.indices[1], state.indices[2], state.indices[3]
    other, interest, n_classes = int(next_uniform(state) * k), gamma, 0
    if belief.class_of_section[0] >= 0 and next_uniform(state) < 0.5:
        interest = sample_node(belief.interest, 0, 0, workspace.nodes, next_uniform(state))
        workspace.classes[0] = belief.class_of_section[0]
        n_classes = 1
    elif other == iota:
        return
    workspace.classes[n_classes] = belief.class_of_section[iota + 1]
    n_classes += 1
    if other != iota:
        workspace.classes[n_classes] = belief.class_of_section[other + 1]
        n_classes += 1
    classes = workspace.classes[:n_classes]
    section_weights(belief, other, interest, delta, workspace.weight)
    update_class_weights(belief, workspace.weight, workspace.log_weight)
    count, odds = 0, belief.log_prior[other] - belief.log_prior[iota]
    for g in range(n):
        if clusters.size[g] > 0:
            c = items.class_of[clusters.slot[g]]
            inside = False
            for b in classes:
                inside |= b == c
            if not inside:
                odds += clusters.n_reports[g] * (workspace.log_weight[c] - state.log_weight[c])
                continue
            at = count
            while at > 0 and clusters.n_reports[order[at - 1]] < clusters.n_reports[g]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = g
            count += 1
    odds -= sequential_allocation(items, clusters, state, workspace, count, classes, state.log_weight, False)
    if odds == np.inf:
        return
    odds += sequential_allocation(items, clusters, state, workspace, count, classes, workspace.log_weight, True)
    if next_uniform(state) >= np.exp(odds):
        return
    for m in range(count):
        clusters.cluster_at[clusters.slot[order[m]]] = -1
    for m in range(count):
        g = order[m]
        clusters.cluster_at[workspace.target[m]] = g
        move(items, clusters, g, workspace.target[m])
    state.indices[1], state.indices[2] = other, interest
    for i in range(state.weight.shape[0]):
        state.weight[i] = workspace.weight[i]
    for c in range(state.log_weight.shape[0]):
        state.log_weight[c] = workspace.log_weight[c]


@njit_no_refcount
def _log_marginal(items, clusters, state, workspace, g):
    """Return the log likelihood of cluster g, summed over slots."""
    class_log_weights(items, state, clusters.n_reports[g], table_row(items, clusters, g), workspace.mix)
    return log_sum_exp(workspace.mix, workspace.mix.shape[0])


@njit_no_refcount
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


@njit_no_refcount
def _merge_counts(clusters, g, h, both):
    """Set cluster `both` to the union of g and h, without a slot; the caller runs `refresh`."""
    clusters.slot[both] = -1
    clusters.size[both] = clusters.size[g] + clusters.size[h]
    clusters.index_sum[both] = clusters.index_sum[g] + clusters.index_sum[h]
    clusters.n_reports[both] = clusters.n_reports[g] + clusters.n_reports[h]
    clusters.fingerprint[both] = clusters.fingerprint[g] + clusters.fingerprint[h]
    for j in range(clusters.ones.shape[1]):
        clusters.ones[both, j] = clusters.ones[g, j] + clusters.ones[h, j]


@njit_no_refcount
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
        refresh(items, clusters, both)
        if log_u >= _log_marginal_bound(items, clusters, state, workspace, both) - current:
            return
    for some in (left, right):
        empty(clusters, some)
    add(items, clusters, t, left, 1)
    add(items, clusters, u, right, 1)
    refresh(items, clusters, left)
    refresh(items, clusters, right)
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
        add(items, clusters, v, some, 1)
        refresh(items, clusters, some)
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
        release(clusters, g)
        g, h = claim(clusters, a), claim(clusters, b)
        for i in range(others + 2):
            v = order[i]
            to = g if workspace.target[v] == left else h
            clusters.cluster_of[v] = to
            add(items, clusters, v, to, 1)
        refresh(items, clusters, h)
    else:
        a = sample_slot(items, state, clusters.n_reports[both], table_row(items, clusters, both), workspace.mix)
        if clusters.cluster_at[a] >= 0 and clusters.cluster_at[a] != g and clusters.cluster_at[a] != h:
            return
        release(clusters, g)
        release(clusters, h)
        g = claim(clusters, a)
        order[others], order[others + 1] = t, u
        for i in range(others + 2):
            clusters.cluster_of[order[i]] = g
            add(items, clusters, order[i], g, 1)
    refresh(items, clusters, g)
