"""Chains over tables of permanent responses: a Gibbs sampler at several temperatures, which exchange their tables.

Given the behavior, a table weighs the product over slots of Pr[response | slot], times the product over responses of
(rate of the response)^power. At the coldest level the power is the number of reports. A hotter level has fewer, but one
at least: a response that was reported without noise must be some slot's, at any temperature.

A step redraws the responses of two slots at once from their joint law, so that two slots can change places. Of the
behavior, relevant interest is drawn given the rest, and then polarization and preferred pool together; the posterior of
the pools in that last step is what is averaged.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

from poolscope.kernels.compilation import unchecked
from poolscope.kernels.elementary import exp_all, log_all
from poolscope.kernels.random import uniform

#: What is sampled. mass (slots, k + 1), log_law (slots, responses + 1) with "any other" last, counts (responses,),
#: base (responses, k + 1) mass that is always there, fixed (responses,) whether there is any; rate (2,) what a report
#: has without a slot and for each unit of weight; interest (3, nodes) gamma, 1 - gamma, log weight; polarization
#: (3, nodes) delta, (1 - delta)/(k - 1), log weight; log_prior (k,); cumulative (slots,) how often slots are redrawn;
#: levels (levels,) the inverse temperatures, one first.
Problem = namedtuple(
    "Problem", "mass log_response_prob counts base fixed rate interest polarization log_prior cumulative levels"
)

#: One chain, a row for each level. table (levels, slots); behavior (levels, 3): preferred pool and nodes; share
#: (levels, responses, k + 1) the mass of the slots of a response, holders (levels, responses) how many they are;
#: phi (levels, slots) and weight (levels, responses) at that behavior; power (levels, responses); score (levels,).
Chain = namedtuple("Chain", "table behavior share holders phi weight power score")

#: Scratch: x and y with the same arrays as integers, line (nodes of a line), section (k + 1), posterior (k,).
Scratch = namedtuple("Scratch", "x x_words y y_words line section posterior")

#: What stands for a rate of zero where its logarithm must be finite; a smaller chance is none.
_NOTHING = 1e-300


@njit(inline="always")
def _drawn(chances, start, count, want):
    """The index, from start on, at which the sum of chances exceeds `want`; the last possible one if none does."""
    last = count - 1
    for i in range(count):
        if chances[start + i] > _NOTHING:
            last = i
            if want < chances[start + i]:
                return i
            want -= chances[start + i]
    return last


@unchecked
def refresh(problem, chain, t, scratch):
    """What follows from the table and the behavior of level t."""
    mass, share, holders, table = problem.mass, chain.share[t], chain.holders[t], chain.table[t]
    responses, sections = share.shape
    for y in range(responses):
        holders[y] = 1 if problem.fixed[y] else 0
        for j in range(sections):
            share[y, j] = problem.base[y, j]
    for s in range(table.shape[0]):
        y = table[s]
        if y < responses:
            holders[y] += 1
            for j in range(sections):
                share[y, j] += mass[s, j]
    _weigh(problem, chain, t, scratch)


@unchecked
def _weigh(problem, chain, t, scratch):
    """Weights of slots and responses at the behavior of level t."""
    mass, share, section = problem.mass, chain.share[t], scratch.section
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
    """The response of slot s, which has none."""
    chain.table[t, s] = y
    if y < chain.weight.shape[1]:
        chain.holders[t, y] += 1
        chain.weight[t, y] += chain.phi[t, s]


@njit(inline="always")
def _take(chain, t, s):
    """The slot without its response; one that nobody has left weighs nothing, whatever rounding says."""
    y = chain.table[t, s]
    if y < chain.weight.shape[1]:
        chain.holders[t, y] -= 1
        chain.weight[t, y] = chain.weight[t, y] - chain.phi[t, s] if chain.holders[t, y] > 0 else 0.0


@unchecked
def redraw(problem, chain, t, s, r, scratch, one, two):
    """Responses of slots s and r from their joint law given all others; one and two are uniform numbers.

    Beside the sum over both there is a term for each response that both may have: the law of two is no product there.
    """
    _take(chain, t, s)
    _take(chain, t, r)
    log_response_prob, power, x, y = problem.log_response_prob, chain.power[t], scratch.x, scratch.y
    offset, scale = problem.rate[0], problem.rate[1]
    responses = power.shape[0]
    wide = responses + 1
    small, large = scale * chain.phi[t, s], scale * chain.phi[t, r]
    # responses that need one of the two: at most two
    bare, other = -1, -1
    for a in range(responses):
        rate = offset + scale * chain.weight[t, a]
        if rate <= 0.0:
            bare, other, rate = a, bare, 1.0
        x[a], x[wide + a], x[2 * wide + a], x[3 * wide + a] = rate, rate + small, rate + large, rate + small + large
    if other >= 0:
        change = (
            log_response_prob[s, other]
            + log_response_prob[r, bare]
            - log_response_prob[s, bare]
            - log_response_prob[r, other]
        )
        change += (power[other] - power[bare]) * (np.log(small) - np.log(large))
        swap = one >= 1.0 / (1.0 + np.exp(change))
        _put(chain, t, s, other if swap else bare)
        _put(chain, t, r, bare if swap else other)
        return
    for row in range(4):
        x[row * wide + responses] = 1.0
    log_all(x, scratch.x_words, y, scratch.y_words, 4 * wide)
    for a in range(wide):
        times = power[a] if a < responses else 0.0
        x[a] = log_response_prob[s, a] + times * (y[wide + a] - y[a])
        x[wide + a] = log_response_prob[r, a] + times * (y[2 * wide + a] - y[a])
        x[2 * wide + a] = log_response_prob[s, a] + log_response_prob[r, a] + times * (y[3 * wide + a] - y[a])
    if bare >= 0:
        _redraw_for(problem, chain, t, s, r, scratch, bare, one, two)
        return
    top, peak = -np.inf, -np.inf
    for a in range(wide):
        top, peak = max(top, x[a]), max(peak, x[wide + a])
    for a in range(wide):
        x[a] -= top
        x[wide + a] -= peak
        x[2 * wide + a] -= top + peak
    exp_all(x, y, scratch.y_words, 3 * wide)
    # y: what r has beside each response, and the law of s with r elsewhere
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
    first = _drawn(y, wide, wide, one * total)
    second = first
    apart = y[first] / y[wide + first]
    if two < apart:
        x[wide + first] = 0.0
        rest = 0.0
        for b in range(wide):
            rest += x[wide + b]
        second = _drawn(x, wide, wide, two / apart * rest)
    _put(chain, t, s, first)
    _put(chain, t, r, second)


@unchecked
def _redraw_for(problem, chain, t, s, r, scratch, bare, one, two):
    """`redraw` where a response would be nobody's: s has it, or r, or both."""
    x, y, power, log_response_prob = scratch.x, scratch.y, chain.power[t], problem.log_response_prob
    wide = power.shape[0] + 1
    small, large = problem.rate[1] * chain.phi[t, s], problem.rate[1] * chain.phi[t, r]
    of_s = log_response_prob[s, bare] + power[bare] * np.log(small)
    of_r = log_response_prob[r, bare] + power[bare] * np.log(large)
    both = log_response_prob[s, bare] + log_response_prob[r, bare] + power[bare] * np.log(small + large)
    x[bare], x[wide + bare] = -np.inf, -np.inf
    top, peak = -np.inf, -np.inf
    for a in range(wide):
        top, peak = max(top, x[a]), max(peak, x[wide + a])
    for a in range(wide):
        x[a] = x[a] - top if top > -np.inf else -np.inf
        x[wide + a] = x[wide + a] - peak if peak > -np.inf else -np.inf
    exp_all(x, y, scratch.y_words, 2 * wide)
    x[bare], x[wide + bare] = 0.0, 0.0
    sum_s, sum_r = 0.0, 0.0
    for a in range(wide):
        sum_s += x[a]
        sum_r += x[wide + a]
    of_s += peak + np.log(sum_r) if peak > -np.inf else -np.inf
    of_r += top + np.log(sum_s) if top > -np.inf else -np.inf
    most = max(of_s, of_r, both)
    of_s, of_r, both = np.exp(of_s - most), np.exp(of_r - most), np.exp(both - most)
    want, first, second = one * (of_s + of_r + both), bare, bare
    if want < of_s:
        second = _drawn(x, wide, wide, two * sum_r)
    elif want < of_s + of_r:
        first = _drawn(x, 0, wide, two * sum_s)
    _put(chain, t, s, first)
    _put(chain, t, r, second)


@unchecked
def _pick(line, count, scratch, u):
    """An index with probability proportional to exp(line); line becomes cumulative."""
    top, total, i = -np.inf, 0.0, 0
    for q in range(count):
        top = max(top, line[q])
    for q in range(count):
        line[q] -= top
    exp_all(line, scratch.x, scratch.x_words, count)
    for q in range(count):
        total += line[q]
        line[q] = total
    while i < count - 1 and u * total >= line[i]:
        i += 1
    return i


@unchecked
def draw_behavior(problem, chain, t, scratch, one, two):
    """Relevant interest given the rest, then preferred pool and polarization; scratch.posterior has the pools'."""
    share, power, line, x, y = chain.share[t], chain.power[t], scratch.line, scratch.x, scratch.y
    interest, polarization, k = problem.interest, problem.polarization, problem.log_prior.shape[0]
    offset, scale, count = problem.rate[0], problem.rate[1], problem.interest.shape[1]
    iota, delta = chain.behavior[t, 0], chain.behavior[t, 2]
    for q in range(count):
        line[q] = interest[2, q]
    for a in range(share.shape[0]):
        inside, neutral = 0.0, scale * share[a, 0]
        for j in range(k):
            inside += share[a, j + 1] * polarization[0 if j == iota else 1, delta]
        inside *= scale
        for q in range(count):
            x[q] = max(offset + (interest[1, q] * neutral + interest[0, q] * inside), _NOTHING)
        log_all(x, scratch.x_words, y, scratch.y_words, count)
        for q in range(count):
            line[q] += power[a] * y[q]
    gamma = _pick(line, count, scratch, one)
    i = draw_pool(problem, share, power, gamma, scratch, two)
    nodes = problem.polarization.shape[1]
    chain.behavior[t, 0], chain.behavior[t, 1], chain.behavior[t, 2] = i // nodes, gamma, i % nodes
    _weigh(problem, chain, t, scratch)


@unchecked
def draw_pool(problem, share, power, gamma, scratch, u):
    """Preferred pool and polarization, as one number, given the relevant interest; scratch.posterior has the pools'.

    share (responses, k + 1) and power (responses,): mass and reports of each response.
    """
    interest, polarization, log_prior = problem.interest, problem.polarization, problem.log_prior
    offset, scale, line, x, y = problem.rate[0], problem.rate[1], scratch.line, scratch.x, scratch.y
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
                x[j * nodes + q] = max(neutral + (polarization[0, q] * own + polarization[1, q] * rest), _NOTHING)
        log_all(x, scratch.x_words, y, scratch.y_words, k * nodes)
        for q in range(k * nodes):
            line[q] += power[a] * y[q]
    i = _pick(line, k * nodes, scratch, u)
    before, total = 0.0, line[k * nodes - 1]
    for j in range(k):
        scratch.posterior[j] = (line[(j + 1) * nodes - 1] - before) / total
        before = line[(j + 1) * nodes - 1]
    return i


@unchecked
def _score(problem, chain, t):
    """What a unit of inverse temperature adds to the logarithm of the law of level t."""
    total = 0.0
    for a in range(problem.counts.shape[0]):
        rate = problem.rate[0] + problem.rate[1] * chain.weight[t, a]
        total += (problem.counts[a] - 1.0) * np.log(rate)
    return total


@unchecked
def _exchange(chain, t):
    """Levels t and t + 1 with each other's table and behavior; what follows from these is left to `refresh`."""
    for s in range(chain.table.shape[1]):
        chain.table[t, s], chain.table[t + 1, s] = chain.table[t + 1, s], chain.table[t, s]
    for i in range(3):
        chain.behavior[t, i], chain.behavior[t + 1, i] = chain.behavior[t + 1, i], chain.behavior[t, i]
    chain.score[t], chain.score[t + 1] = chain.score[t + 1], chain.score[t]


@njit(inline="always")
def _slot(cumulative, u):
    """A slot, as often as `cumulative` says."""
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
def run(problem, chain, scratch, key, at, sweeps, pairs, out):
    """Sweeps of all levels; out (k,) has the posteriors of the coldest added. Returns how many words of `key` are used.

    A sweep redraws pairs of slots and the behavior of each level; then neighboring levels may exchange.
    """
    levels = chain.table.shape[0]
    for t in range(levels):
        for a in range(chain.power.shape[1]):
            chain.power[t, a] = 1.0 + problem.levels[t] * (problem.counts[a] - 1.0)
    for _ in range(sweeps):
        for t in range(levels):
            refresh(problem, chain, t, scratch)
            for _ in range(pairs):
                s = _slot(problem.cumulative, uniform(key, at))
                r = s
                while r == s:
                    at += 1
                    r = _slot(problem.cumulative, uniform(key, at))
                redraw(problem, chain, t, s, r, scratch, uniform(key, at + 1), uniform(key, at + 2))
                at += 3
            refresh(problem, chain, t, scratch)
            draw_behavior(problem, chain, t, scratch, uniform(key, at), uniform(key, at + 1))
            at += 2
            chain.score[t] = _score(problem, chain, t)
            if t == 0:
                for i in range(out.shape[0]):
                    out[i] += scratch.posterior[i]
        for t in range(levels - 2, -1, -1):
            gain = (problem.levels[t] - problem.levels[t + 1]) * (chain.score[t + 1] - chain.score[t])
            if uniform(key, at) < np.exp(min(gain, 0.0)):
                _exchange(chain, t)
            at += 1
    return at
