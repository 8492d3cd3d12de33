"""Chains over tables of permanent responses: parallel tempering of a Gibbs sampler.

Given the behavior, a table has the weight prod_s Pr[response | s] * prod_y rate(y)^power(y), over slots s and reported
responses y. At inverse temperature one the power is the number of reports of y. A hotter level has a smaller power, but
at least one: a response that was reported without noise belongs to some slot at any temperature.

A step redraws the responses of two slots from their joint distribution, so that two slots can swap. Then relevant
interest is drawn given the rest, and polarization and preferred pool jointly. The posterior of the pools in this last
step is averaged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.compilation import inner_unchecked, unchecked
from poolscope.kernels.elementary import exp_all, log_all
from poolscope.kernels.random import uniform


class TableProblem(NamedTuple):
    """The posterior over tables and behavior that the chains sample."""

    mass: NDArray[np.float64]  # (slots, k + 1) popularity of a slot within each section
    log_response_prob: NDArray[np.float64]  # (slots, responses + 1), "any other response" last
    counts: NDArray[np.float64]  # (responses,) reports of each
    forced_mass: NDArray[np.float64]  # (responses, k + 1) mass of slots that can have no other response
    is_forced: NDArray[np.bool_]  # (responses,) whether there is any such slot
    offset_scale: NDArray[np.float64]  # (2,) a report has probability offset + scale * weight of its response
    interest: NDArray[np.float64]  # (3, nodes) gamma, 1 - gamma, log weight
    polarization: NDArray[np.float64]  # (3, nodes) delta, (1 - delta)/(k - 1), log weight
    log_prior: NDArray[np.float64]  # (k,)
    cumulative: NDArray[np.float64]  # (slots,) cumulative frequencies at which slots are redrawn
    levels: NDArray[np.float64]  # (levels,) inverse temperatures; the first is one


class TemperedChain(NamedTuple):
    """One chain with a row for each temperature level."""

    table: NDArray[np.int64]  # (levels, slots) response of each slot
    behavior: NDArray[np.int64]  # (levels, 3) preferred pool, nodes of interest and of polarization
    share: NDArray[np.float64]  # (levels, responses, k + 1) mass of the slots that have a response
    holders: NDArray[np.int64]  # (levels, responses) number of these slots
    phi: NDArray[np.float64]  # (levels, slots) weight of each slot at that behavior
    weight: NDArray[np.float64]  # (levels, responses) weight of each response at that behavior
    power: NDArray[np.float64]  # (levels, responses) exponent of each response
    score: NDArray[np.float64]  # (levels,) derivative of the log density by the inverse temperature


class TableWorkspace(NamedTuple):
    """Scratch arrays; x_words and y_words are x and y viewed as integers."""

    x: NDArray[np.float64]
    x_words: NDArray[np.int64]
    y: NDArray[np.float64]
    y_words: NDArray[np.int64]
    line: NDArray[np.float64]  # (nodes,)
    section: NDArray[np.float64]  # (k + 1,)
    posterior: NDArray[np.float64]  # (k,)


#: Smallest rate whose logarithm is taken; probabilities at or below it are zero.
_TINY_RATE = 1e-300


@njit(inline="always")
def _sample(weights, start, count, want):
    """Return the index, counted from start, at which the cumulative weight exceeds `want`.

    Rounding may leave none: then it is the last index with weight.
    """
    last = count - 1
    for i in range(count):
        if weights[start + i] > _TINY_RATE:
            last = i
            if want < weights[start + i]:
                return i
            want -= weights[start + i]
    return last


@unchecked
def refresh(problem, chain, t, workspace):
    """Recompute what follows from the table and the behavior of level t."""
    mass, share, holders, table = problem.mass, chain.share[t], chain.holders[t], chain.table[t]
    responses, sections = share.shape
    for y in range(responses):
        holders[y] = 1 if problem.is_forced[y] else 0
        for j in range(sections):
            share[y, j] = problem.forced_mass[y, j]
    for s in range(table.shape[0]):
        y = table[s]
        if y < responses:
            holders[y] += 1
            for j in range(sections):
                share[y, j] += mass[s, j]
    _update_weights(problem, chain, t, workspace)


@inner_unchecked
def _update_weights(problem, chain, t, workspace):
    """Compute the weights of slots and responses at the behavior of level t."""
    mass, share, section = problem.mass, chain.share[t], workspace.section
    iota, gamma, delta = chain.behavior[t, 0], chain.behavior[t, 1], chain.behavior[t, 2]
    section[0] = problem.interest[1, gamma]
    for j in range(1, section.shape[0]):
        section[j] = problem.interest[0, gamma] * problem.polarization[0 if j == iota + 1 else 1, delta]
    for s in range(mass.shape[0]):
        total = 0.0
        for j in range(section.shape[0]):
            total += section[j] * mass[s, j]
        chain.phi[t, s] = total
    for y in range(share.shape[0]):
        total = 0.0
        for j in range(section.shape[0]):
            total += section[j] * share[y, j]
        chain.weight[t, y] = total


@njit(inline="always")
def _put(chain, t, s, y):
    """Assign response y to slot s, which has none."""
    chain.table[t, s] = y
    if y < chain.weight.shape[1]:
        chain.holders[t, y] += 1
        chain.weight[t, y] += chain.phi[t, s]


@njit(inline="always")
def _take(chain, t, s):
    """Remove the response of slot s; a response without slots has weight zero, whatever rounding left."""
    y = chain.table[t, s]
    if y < chain.weight.shape[1]:
        chain.holders[t, y] -= 1
        chain.weight[t, y] = chain.weight[t, y] - chain.phi[t, s] if chain.holders[t, y] > 0 else 0.0


@unchecked
def gibbs_slot_pair(problem, chain, level, slot, other_slot, workspace, u1, u2):
    """Redraw the responses of two slots jointly, given all others, by the uniform numbers u1 and u2.

    The joint distribution is a product but for the responses that both slots may have: these are separate terms.
    """
    _take(chain, level, slot)
    _take(chain, level, other_slot)
    log_response_prob, power, x, y = problem.log_response_prob, chain.power[level], workspace.x, workspace.y
    offset, scale = problem.offset_scale[0], problem.offset_scale[1]
    responses = power.shape[0]
    wide = responses + 1
    small, large = scale * chain.phi[level, slot], scale * chain.phi[level, other_slot]
    # reported responses that no other slot has: at most two
    needed, other = -1, -1
    for a in range(responses):
        rate = offset + scale * chain.weight[level, a]
        if rate <= 0.0:
            needed, other, rate = a, needed, 1.0
        x[a], x[wide + a], x[2 * wide + a], x[3 * wide + a] = rate, rate + small, rate + large, rate + small + large
    if other >= 0:
        change = (
            log_response_prob[slot, other]
            + log_response_prob[other_slot, needed]
            - log_response_prob[slot, needed]
            - log_response_prob[other_slot, other]
        )
        change += (power[other] - power[needed]) * (np.log(small) - np.log(large))
        swap = u1 >= 1.0 / (1.0 + np.exp(change))
        _put(chain, level, slot, other if swap else needed)
        _put(chain, level, other_slot, needed if swap else other)
        return
    for row in range(4):
        x[row * wide + responses] = 1.0
    log_all(x, workspace.x_words, y, workspace.y_words, 4 * wide)
    for a in range(wide):
        times = power[a] if a < responses else 0.0
        x[a] = log_response_prob[slot, a] + times * (y[wide + a] - y[a])
        x[wide + a] = log_response_prob[other_slot, a] + times * (y[2 * wide + a] - y[a])
        x[2 * wide + a] = (
            log_response_prob[slot, a] + log_response_prob[other_slot, a] + times * (y[3 * wide + a] - y[a])
        )
    if needed >= 0:
        _redraw_needed(problem, chain, level, slot, other_slot, workspace, needed, u1, u2)
        return
    top, peak = -np.inf, -np.inf
    for a in range(wide):
        top, peak = max(top, x[a]), max(peak, x[wide + a])
    for a in range(wide):
        x[a] -= top
        x[wide + a] -= peak
        x[2 * wide + a] -= top + peak
    exp_all(x, y, workspace.y_words, 3 * wide)
    # y: weight of `slot` with `other_slot` elsewhere, and with it anywhere
    total, whole = 0.0, 0.0
    for a in range(wide):
        whole += x[wide + a]
    for a in range(wide):
        rest = whole - x[wide + a]
        if rest < 1e-6 * whole:
            rest = 0.0
            for b in range(wide):
                if b != a:
                    rest += x[wide + b]
        y[a] = x[a] * rest
        y[wide + a] = y[a] + x[2 * wide + a]
        total += y[wide + a]
    first = _sample(y, wide, wide, u1 * total)
    second = first
    p_apart = y[first] / y[wide + first]
    if u2 < p_apart:
        x[wide + first] = 0.0
        rest = 0.0
        for b in range(wide):
            rest += x[wide + b]
        second = _sample(x, wide, wide, u2 / p_apart * rest)
    _put(chain, level, slot, first)
    _put(chain, level, other_slot, second)


@inner_unchecked
def _redraw_needed(problem, chain, level, slot, other_slot, workspace, needed, u1, u2):
    """Redraw two slots where a reported response has no other slot: one of them has it, or both."""
    x, y, power, log_response_prob = workspace.x, workspace.y, chain.power[level], problem.log_response_prob
    wide = power.shape[0] + 1
    small, large = (
        problem.offset_scale[1] * chain.phi[level, slot],
        problem.offset_scale[1] * chain.phi[level, other_slot],
    )
    of_s = log_response_prob[slot, needed] + power[needed] * np.log(small)
    of_r = log_response_prob[other_slot, needed] + power[needed] * np.log(large)
    both = (
        log_response_prob[slot, needed] + log_response_prob[other_slot, needed] + power[needed] * np.log(small + large)
    )
    x[needed], x[wide + needed] = -np.inf, -np.inf
    top, peak = -np.inf, -np.inf
    for a in range(wide):
        top, peak = max(top, x[a]), max(peak, x[wide + a])
    for a in range(wide):
        x[a] = x[a] - top if top > -np.inf else -np.inf
        x[wide + a] = x[wide + a] - peak if peak > -np.inf else -np.inf
    exp_all(x, y, workspace.y_words, 2 * wide)
    x[needed], x[wide + needed] = 0.0, 0.0
    sum_s, sum_r = 0.0, 0.0
    for a in range(wide):
        sum_s += x[a]
        sum_r += x[wide + a]
    of_s += peak + np.log(sum_r) if peak > -np.inf else -np.inf
    of_r += top + np.log(sum_s) if top > -np.inf else -np.inf
    largest = max(of_s, of_r, both)
    of_s, of_r, both = np.exp(of_s - largest), np.exp(of_r - largest), np.exp(both - largest)
    want, first, second = u1 * (of_s + of_r + both), needed, needed
    if want < of_s:
        second = _sample(x, wide, wide, u2 * sum_r)
    elif want < of_s + of_r:
        first = _sample(x, 0, wide, u2 * sum_s)
    _put(chain, level, slot, first)
    _put(chain, level, other_slot, second)


@inner_unchecked
def _sample_log_weights(line, count, workspace, u):
    """Sample an index with probability proportional to exp(line); line becomes cumulative."""
    top, total, i = -np.inf, 0.0, 0
    for q in range(count):
        top = max(top, line[q])
    for q in range(count):
        line[q] -= top
    exp_all(line, workspace.x, workspace.x_words, count)
    for q in range(count):
        total += line[q]
        line[q] = total
    while i < count - 1 and u * total >= line[i]:
        i += 1
    return i


@unchecked
def draw_behavior(problem, chain, t, workspace, one, two):
    """Draw the relevant interest given the rest, then preferred pool and polarization jointly.

    workspace.posterior becomes the posterior of the pools.
    """
    share, power, line, x, y = chain.share[t], chain.power[t], workspace.line, workspace.x, workspace.y
    interest, polarization, k = problem.interest, problem.polarization, problem.log_prior.shape[0]
    offset, scale, count = problem.offset_scale[0], problem.offset_scale[1], problem.interest.shape[1]
    iota, delta = chain.behavior[t, 0], chain.behavior[t, 2]
    for q in range(count):
        line[q] = interest[2, q]
    for a in range(share.shape[0]):
        inside, neutral = 0.0, scale * share[a, 0]
        for j in range(k):
            inside += share[a, j + 1] * polarization[0 if j == iota else 1, delta]
        inside *= scale
        for q in range(count):
            x[q] = max(offset + (interest[1, q] * neutral + interest[0, q] * inside), _TINY_RATE)
        log_all(x, workspace.x_words, y, workspace.y_words, count)
        for q in range(count):
            line[q] += power[a] * y[q]
    gamma = _sample_log_weights(line, count, workspace, one)
    i = draw_pool(problem, share, power, gamma, workspace, two)
    nodes = problem.polarization.shape[1]
    chain.behavior[t, 0], chain.behavior[t, 1], chain.behavior[t, 2] = i // nodes, gamma, i % nodes
    _update_weights(problem, chain, t, workspace)


@inner_unchecked
def draw_pool(problem, share, power, gamma, workspace, u):
    """Draw preferred pool and polarization, as one index, given the relevant interest.

    share (responses, k + 1) and power (responses,): mass and reports of each response. workspace.posterior becomes the
    posterior of the pools.
    """
    interest, polarization, log_prior = problem.interest, problem.polarization, problem.log_prior
    offset, scale, line, x, y = (
        problem.offset_scale[0],
        problem.offset_scale[1],
        workspace.line,
        workspace.x,
        workspace.y,
    )
    k, nodes = log_prior.shape[0], polarization.shape[1]
    for j in range(k):
        for q in range(nodes):
            line[j * nodes + q] = log_prior[j] + polarization[2, q]
    for a in range(share.shape[0]):
        inside, neutral = 0.0, offset + scale * interest[1, gamma] * share[a, 0]
        for j in range(k):
            inside += share[a, j + 1]
        for j in range(k):
            own = scale * interest[0, gamma] * share[a, j + 1]
            rest = scale * interest[0, gamma] * max(inside - share[a, j + 1], 0.0)
            for q in range(nodes):
                x[j * nodes + q] = max(neutral + (polarization[0, q] * own + polarization[1, q] * rest), _TINY_RATE)
        log_all(x, workspace.x_words, y, workspace.y_words, k * nodes)
        for q in range(k * nodes):
            line[q] += power[a] * y[q]
    i = _sample_log_weights(line, k * nodes, workspace, u)
    before, total = 0.0, line[k * nodes - 1]
    for j in range(k):
        workspace.posterior[j] = (line[(j + 1) * nodes - 1] - before) / total
        before = line[(j + 1) * nodes - 1]
    return i


@inner_unchecked
def _score(problem, chain, t):
    """Return the derivative of the log density of level t by its inverse temperature."""
    total = 0.0
    for a in range(problem.counts.shape[0]):
        rate = problem.offset_scale[0] + problem.offset_scale[1] * chain.weight[t, a]
        total += (problem.counts[a] - 1.0) * np.log(rate)
    return total


@inner_unchecked
def _exchange(chain, t):
    """Exchange the tables and behaviors of levels t and t + 1; the caller runs `refresh`."""
    for s in range(chain.table.shape[1]):
        chain.table[t, s], chain.table[t + 1, s] = chain.table[t + 1, s], chain.table[t, s]
    for i in range(3):
        chain.behavior[t, i], chain.behavior[t + 1, i] = chain.behavior[t + 1, i], chain.behavior[t, i]
    chain.score[t], chain.score[t + 1] = chain.score[t + 1], chain.score[t]


@njit(inline="always")
def _sample_slot(cumulative, u):
    """Sample a slot with the frequencies of `cumulative`."""
    low, high = 0, cumulative.shape[0] - 1
    want = u * cumulative[high]
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] <= want:
            low = middle + 1
        else:
            high = middle
    return low


@unchecked
def run(problem, chain, workspace, key, at, sweeps, pairs, out):
    """Run sweeps of all levels, and add the posteriors of the coldest one to out (k,). Return the next word of `key`.

    A sweep redraws pairs of slots and the behavior of each level; then neighboring levels propose to exchange.
    """
    levels = chain.table.shape[0]
    for t in range(levels):
        for a in range(chain.power.shape[1]):
            chain.power[t, a] = 1.0 + problem.levels[t] * (problem.counts[a] - 1.0)
    for _ in range(sweeps):
        for t in range(levels):
            refresh(problem, chain, t, workspace)
            for _ in range(pairs):
                s = _sample_slot(problem.cumulative, uniform(key, at))
                r = s
                while r == s:
                    at += 1
                    r = _sample_slot(problem.cumulative, uniform(key, at))
                gibbs_slot_pair(problem, chain, t, s, r, workspace, uniform(key, at + 1), uniform(key, at + 2))
                at += 3
            refresh(problem, chain, t, workspace)
            draw_behavior(problem, chain, t, workspace, uniform(key, at), uniform(key, at + 1))
            at += 2
            chain.score[t] = _score(problem, chain, t)
            if t == 0:
                for i in range(out.shape[0]):
                    out[i] += workspace.posterior[i]
        for t in range(levels - 2, -1, -1):
            gain = (problem.levels[t] - problem.levels[t + 1]) * (chain.score[t + 1] - chain.score[t])
            if uniform(key, at) < np.exp(min(gain, 0.0)):
                _exchange(chain, t)
            at += 1
    return at
