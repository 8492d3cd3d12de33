"""The samplers of memoized responses against the enumeration of all objects and responses."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from cases.memoized import ORACLE
from cases.selection import statistical
from cases.synthetic import SEED
from oracle.memoized_sums import enumerated
from scipy import stats

from poolscope.core.randomness import user_keys
from poolscope.devices.protocols import IdenticalReports, NoisyBits, NoisyValues, ReportLikelihood
from poolscope.inference.memoized import chains
from poolscope.inference.memoized.chains import N_CHAINS, belief_of, estimate_by_chains, init_chains, memoized_posterior
from poolscope.inference.memoized.response_map_samplers import tempered_posterior
from poolscope.inference.memoized.state import items_of, slots_of
from poolscope.inference.memoized.tables import response_counts
from poolscope.population.behavior import Behavior

KEYS = user_keys(SEED, np.arange(200))
APART, MIXED = [0, 1, 2, 3, 4], [0, 1, 0, 1, 2]


def channel(slots):
    """A few answers, which slots often share."""
    rows = np.random.default_rng(1).integers(1, 20, size=(5, 3))
    distribution = [[Fraction(int(x), int(row.sum())) for x in row] for row in rows]
    reports = (0, 0, 2, 0)
    exact = enumerated(
        ORACLE, slots, range(3), lambda a, s: distribution[s][a], lambda r, a: Fraction(int(r == a)), reports
    )
    logs = np.log(np.array(distribution, dtype=np.float64).T[:, : max(slots) + 1])
    seen, answer = np.unique(reports, return_inverse=True)
    return exact, ReportLikelihood(np.array(slots), IdenticalReports(answer, logs[seen]))


def bits(slots, p=Fraction(1, 10)):
    """Three bits, of which each slot sets one or two."""
    f, q = Fraction(1, 5), 1 - p
    bits_of_slots = [(0, 3), (1, 3), (2, 3), (1, 2), (0, 2)]
    reports = ((1, 0, 0), (1, 0, 1), (1, 0, 0), (0, 1, 0))

    def permanent(answer, slot):
        out = Fraction(1)
        for j, x in enumerate(answer):
            one = 1 - f if j in bits_of_slots[slot] else f
            out *= one if x else 1 - one
        return out

    def instantaneous(report, answer):
        out = Fraction(1)
        for x, y in zip(answer, report, strict=True):
            one = q if x else p
            out *= one if y else 1 - one
        return out

    exact = enumerated(ORACLE, slots, list(product((0, 1), repeat=3)), permanent, instantaneous, reports)
    positions = np.array(bits_of_slots).T[:, : max(slots) + 1]
    distribution = NoisyBits(
        np.array(reports, dtype=np.uint8), positions, (float(1 - f), float(f)), (float(q), float(p))
    )
    return exact, ReportLikelihood(np.array(slots), distribution)


def values(slots):
    """Randomized response twice."""
    g, (p, q), (p_again, q_again) = 5, (Fraction(3, 5), Fraction(1, 10)), (Fraction(4, 5), Fraction(1, 20))
    reports = (0, 0, 3, 0)
    exact = enumerated(
        ORACLE,
        slots,
        range(g),
        lambda a, s: p if a == s else q,
        lambda r, a: p_again if r == a else q_again,
        reports,
    )
    distribution = NoisyValues(
        np.array(reports), np.arange(max(slots) + 1), g, (float(p), float(q)), (float(p_again), float(q_again))
    )
    return exact, ReportLikelihood(np.array(slots), distribution)


LAWS = [(distribution, slots) for distribution in (channel, bits, values) for slots in (APART, MIXED)]


# errors are larger, and must say so
pytestmark = pytest.mark.usefixtures("short_chains")


def found(evidence, adversary=ORACLE, keys=KEYS):
    if isinstance(evidence.distribution, NoisyBits):
        both = [memoized_posterior(evidence, adversary, key) for key in keys]
    else:
        tables = response_counts(evidence, adversary)
        both = [tempered_posterior(tables, adversary, key) for key in keys[:60]]
    return np.array([x.posterior[0] for x in both]), np.array([x.error[0] for x in both])


def off(posterior, exact):
    """How many standard errors the mean over all seeds is off."""
    return abs(posterior.mean() - exact) / (posterior.std(ddof=1) / np.sqrt(len(posterior)))


@pytest.mark.default_cases("*-bits-slots2", "*-channel-slots1", "*-values-slots5")
@pytest.mark.parametrize(("distribution", "slots"), LAWS)
@pytest.mark.parametrize("seeds", [15, pytest.param(len(KEYS), marks=statistical)])
def test_the_sampler_is_the_enumeration(distribution, slots, seeds):
    """In the mean over seeds, and each within the error that it states as often as a t between chains should be."""
    exact, evidence = distribution(slots)
    posterior, error = found(evidence, keys=KEYS[:seeds])
    assert off(posterior, exact[0]) < 4
    for within in (0.95, 0.99):
        inside = np.abs(posterior - exact[0]) < stats.t.ppf((1 + within) / 2, N_CHAINS - 1) * error
        assert inside.mean() > within - 4 * np.sqrt(within * (1 - within) / len(posterior))


@pytest.mark.default_cases("bits-slots2", "channel-slots1", "values-slots5")
@pytest.mark.parametrize(("distribution", "slots"), LAWS)
def test_a_wrong_prior_is_caught(distribution, slots):
    exact, evidence = distribution(slots)
    wrong = replace(ORACLE, belief=Behavior(pools=(1.0, 1.3)))
    assert off(found(evidence, wrong, KEYS[:8])[0], exact[0]) > 6


def test_chains_that_say_how_long_to_go_on_do_not_count(monkeypatch):
    """A pilot that happens to agree would stop early, and its own mean would be what it agrees on."""
    keys, given = [], chains.init_chains
    monkeypatch.setattr(chains, "init_chains", lambda *asked: keys.append(int(asked[2])) or given(*asked))
    _, evidence = bits(APART)
    slots = slots_of(evidence.slots, ORACLE)
    belief = belief_of(ORACLE, slots, 4)
    estimate_by_chains(items_of(evidence.distribution, slots), belief, KEYS[0])
    pilot, own = keys
    assert pilot != own


def test_a_chain_that_joins_no_reports_is_caught():
    """Every report a slot of its own: what a chain without splits and merges that starts so would be."""
    exact, evidence = bits(APART)
    slots = slots_of(evidence.slots, ORACLE)
    items = items_of(evidence.distribution, slots)._replace(can_share=False)
    belief = belief_of(ORACLE, slots, 4)
    apart = np.array([estimate_by_chains(items, belief, key).posterior[0] for key in KEYS[:40]])
    assert off(apart, exact[0]) > 6


@pytest.mark.parametrize(("instantaneous", "same"), [((0.9, 0.1), True), ((1.0, 0.0), True), ((1.0, 0.0), False)])
def test_long_reports_are_told_apart_at_the_start(instantaneous, same):
    """A report of many bits is less likely than any bit that cannot be; without noise anew others are another's."""
    ones = np.random.default_rng(SEED).integers(0, 2, size=(3, 20_000), dtype=np.uint8)
    if same:
        ones[1:] = ones[0]
    slots = slots_of(np.arange(5), ORACLE)
    items = items_of(NoisyBits(ones, np.arange(5)[None], (0.9, 0.1), instantaneous), slots)
    for chain in init_chains(items, belief_of(ORACLE, slots, 3), KEYS[0], 2):
        assert len(chain.active) == (1 if same else 3)
