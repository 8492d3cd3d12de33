"""Moves of a chain over clusters of reports: slots, clusters of single reports, preferred pool and behavior.

Gibbs moves draw from a conditional distribution. A proposal is accepted by the Metropolis-Hastings rule. Either way,
the move leaves the posterior invariant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.compilation import inner, njit_no_refcount
from poolscope.kernels.memoized_state import (
    LOG_ZERO,
    add_log_joins,
    insert_report,
    log_leave,
    log_response_prob,
    move,
    new_cluster,
    remove_report,
    table_row,
)
from poolscope.kernels.random import uniform

#: Draws until a taken slot is given up, and log odds against the likeliest slot beyond which none is drawn: less than
#: once in 10^13 times.
MAX_TRIES, LOG_CUTOFF = 4, 30.0


class BehaviorPrior(NamedTuple):
    """An adversary's priors of behavior, on the nodes of Gauss rules."""

    log_prior: NDArray[np.float64]  # (k,) of the preferred pool
    interest: NDArray[np.float64]  # (3, nodes) log gamma, log(1 - gamma), log weight
    polarization: NDArray[np.float64]  # (3, nodes) log delta, log((1 - delta)/(k - 1)), log weight
    integral: NDArray[np.float64]  # (n + 1, n + 1) log E[delta^own ((1 - delta)/(k - 1))^rest], index [own, rest]
    class_mix: NDArray[np.float64]  # (classes, k + 1) weight of a class = class_mix @ weights of the sections
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
    phi: NDArray[np.float64]  # (n,) log weight of each cluster's slot, -inf where there is no cluster
    order: NDArray[np.int64]  # (n,)
    target: NDArray[np.int64]  # (n,) proposed slots, or proposed clusters
    classes: NDArray[np.int64]  # (3,)
    taken: NDArray[np.bool_]  # (slots,)
    nodes: NDArray[np.float64]  # (largest number of nodes or sections,)
    mix: NDArray[np.float64]  # (classes,)
    weight: NDArray[np.float64]  # (k + 1,) proposed weights of the sections
    log_weight: NDArray[np.float64]  # (classes,) proposed


@njit(inline="always")
def next_uniform(state):
    """Return the next uniform number of the chain's stream."""
    i = state.indices[0]
    state.indices[0] = i + 1
    return uniform(state.key, i)


@inner
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


@inner
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


@inner
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


@inner
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


@inner
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


@inner
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


@inner
def sample_node(axis, one, other, nodes, u):
    """Sample a node of an axis, proportionally to x^one y^other times its weight, by the uniform number u."""
    for i in range(axis.shape[1]):
        nodes[i] = one * axis[0, i] + other * axis[1, i] + axis[2, i]
    return sample_index(nodes, axis.shape[1], u)


@inner
def _clusters_in(items, clusters, state, workspace, classes, odds):
    """Write the clusters at slots of these classes to workspace.order, those of most reports first.

    Returns how many there are, and the log odds plus the change of the log weight of all other clusters.
    """
    order, count = workspace.order, 0
    for g in range(items.n_reports.shape[0]):
        if clusters.size[g] > 0:
            c, inside = items.class_of[clusters.slot[g]], False
            for b in classes:
                inside |= b == c
            if inside:
                at = count
                while at > 0 and clusters.n_reports[order[at - 1]] < clusters.n_reports[g]:
                    order[at] = order[at - 1]
                    at -= 1
                order[at] = g
                count += 1
            else:
                odds += clusters.n_reports[g] * (workspace.log_weight[c] - state.log_weight[c])
    return count, odds


@inner
def propose_pool(items, clusters, belief, state, workspace):
    """Propose another preferred pool, or another relevant interest too.

    The clusters of both pools, and with another interest the neutral ones, are reallocated at once. Clusters elsewhere
    keep their slots and change their weight. The interest is proposed from its prior, which cancels.
    """
    k, order = belief.log_prior.shape[0], workspace.order
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
    odds = belief.log_prior[other] - belief.log_prior[iota]
    count, odds = _clusters_in(items, clusters, state, workspace, classes, odds)
    for proposed in range(2):  # one call: constants as arguments would compile the function once for each
        log_weight = workspace.log_weight if proposed else state.log_weight
        free = sequential_allocation(items, clusters, state, workspace, count, classes, log_weight, proposed == 1)
        odds += free if proposed else -free
        if odds == np.inf:
            return
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


@inner
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


@inner
def reassign(items, clusters, state, workspace, u):
    """Resample the cluster of item u, a single report: an existing cluster or a slot of its own.

    A single item that proposes another slot of its own stays: moves between slots are left to `relocate`, and every
    move to a cluster has an equally likely reverse.
    """
    g = clusters.cluster_of[u]
    s = propose_slot(items, clusters, state, workspace, u)
    if s < 0 or s == clusters.slot[g] or (clusters.size[g] == 1 and clusters.cluster_at[s] < 0):
        return
    remove_report(items, clusters, u)
    if clusters.size[g] == 0:
        workspace.phi[g] = -np.inf
    assign(items, clusters, state, workspace, u, s)


@inner
def assign(items, clusters, state, workspace, u, s):
    """Assign item u, which is in no cluster, to slot s."""
    g = clusters.cluster_at[s]
    if g < 0:
        g = new_cluster(clusters, s)
        workspace.phi[g] = slot_log_weight(items, state, s)
    insert_report(items, clusters, u, g)


@inner
def propose_slot(items, clusters, state, workspace, u):
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
