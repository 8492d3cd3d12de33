"""Reports of two-round devices and of dBitFlip, against the enumeration of their responses, and their likelihoods."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from cases.synthetic import SEED
from oracle import memoized
from oracle.kinds import rows
from scipy import stats

from poolscope.core.randomness import user_keys
from poolscope.devices.protocols import IdenticalReports, MemoizingDevice, NoisyBits, NoisyValues
from poolscope.mechanisms import Device, Fresh, device_of, make, reports_of

SIZE, USERS = 3, 12_000
#: Name -> the mechanism of three objects. Two of LOLOHA's meet under every second seed; two of dBitFlip's in a bucket.
MECHANISMS = {
    "l-grr": make("l-grr", SIZE, {"epsilon": 1.0, "epsilon_perm": 2.5}),
    "l-sue": make("l-sue", SIZE, {"epsilon": 1.5}),
    "l-osue": make("l-osue", SIZE, {"epsilon": 1.5}),
    "l-oue": make("l-oue", SIZE, {"epsilon": 1.5}),
    "l-soue": make("l-soue", SIZE, {"epsilon": 1.5}),
    "loloha": make("loloha", SIZE, {"epsilon": 1.0, "g": 2, "seed_bits": 3}),
    "dbitflip": make("dbitflip", SIZE, {"epsilon": 2.0, "buckets": 2, "d": 2}),
}
every_device = pytest.mark.parametrize("name", MECHANISMS)


def fractions(pair):
    return tuple(map(Fraction, pair))


def oracle(mechanism, report):
    """The device of one user, with what its reports share given, written down from the two steps."""
    name = next(name for name, made in MECHANISMS.items() if made is mechanism)
    if name == "dbitflip":
        flip = Fraction(mechanism.flip)
        return memoized.bits(2, [{0}, {1}], (1 - flip, flip), slots=(0, 0, 1))
    if name == "loloha":
        values = mechanism.functions.values(np.full(SIZE, int(report["seed"])), np.arange(SIZE))
        return memoized.values(
            2, Fraction(mechanism.permanent[0]), Fraction(mechanism.instantaneous[0]), values.tolist()
        )
    if name == "l-grr":
        return memoized.values(SIZE, Fraction(mechanism.permanent[0]), Fraction(mechanism.instantaneous[0]))
    steps = fractions(mechanism.permanent), fractions(mechanism.instantaneous)
    return memoized.bits(SIZE, [{z} for z in range(SIZE)], *steps)


def said(mechanism, report):
    """The report as the enumeration has it."""
    if "value" in report:
        return int(report["value"])
    return tuple(np.unpackbits(report["bits"], bitorder="little", count=mechanism.report_columns["bits"].size).tolist())


def fit(device, trace):
    """How well two reports of a trace, over many users, fit the enumeration: the p-value of a chi-square test.

    Users that share a seed are counted together, each seed by itself.
    """
    mechanism, keys = device.mechanism, user_keys(SEED, np.arange(USERS))
    reports = reports_of(device, np.tile(trace, (USERS, 1)), keys)
    seen, users, distributions = {}, {}, {}
    # users with the same two reports are counted at once
    both = np.hstack([np.asarray(column).reshape(USERS, -1) for column in reports.values()])
    _, where, counts = np.unique(both, axis=0, return_index=True, return_counts=True)
    for user, count in zip(where.tolist(), counts.tolist(), strict=True):
        first, second = rows({name: column[2 * user : 2 * user + 2] for name, column in reports.items()})
        shared = int(first["seed"]) if "seed" in first else 0
        cell = (shared, said(mechanism, first), said(mechanism, second))
        seen[cell] = seen.get(cell, 0) + count
        users[shared] = users.get(shared, 0) + count
        distributions.setdefault(shared, oracle(mechanism, first))
    found, expected = [], []
    for shared, distribution in distributions.items():
        for pair in product(distribution.reports, repeat=2):
            chance = float(memoized.of_trace(distribution, pair, trace))
            assert chance > 0 or (shared, *pair) not in seen
            if chance > 0:
                found.append(seen.get((shared, *pair), 0))
                expected.append(users[shared] * chance)
    assert sum(found) == USERS
    return stats.chisquare(found, expected).pvalue


@pytest.mark.default_cases("dbitflip", "l-grr", "l-osue", "loloha")
@every_device
def test_what_is_sent_has_the_enumerated_law(name):
    """Two reports of one object, and of two objects, which may share an answer."""
    device = device_of(MECHANISMS[name])
    for trace in ([0, 0], [0, 1], [2, 1]):
        assert fit(device, trace) > 1e-4, trace


@pytest.mark.default_cases("l-osue", "l-grr", "loloha", "dbitflip")
@every_device
def test_fresh_reports_have_another_law(name):
    """A negative control; reports that dBitFlip keeps cannot differ at all."""
    fresh = Fresh(MECHANISMS[name])
    if name in ("dbitflip", "loloha"):
        reports = rows(reports_of(fresh, np.zeros((50, 2), dtype=np.int64), user_keys(SEED, np.arange(50))))
        assert any(str(a) != str(b) for a, b in zip(reports[::2], reports[1::2], strict=True))
    else:
        assert fit(fresh, [0, 0]) < 1e-6


@every_device
def test_memory_is_the_default_and_can_be_left_out(name):
    device = device_of(MECHANISMS[name])
    assert isinstance(device, MemoizingDevice)
    assert isinstance(device, Device)
    assert type(device_of(MECHANISMS[name], memoize=True)) is type(device)
    assert isinstance(device_of(MECHANISMS[name], memoize=False), Fresh)


@every_device
def test_a_report_depends_on_its_object_user_and_place_alone(name):
    device, rng = device_of(MECHANISMS[name]), np.random.default_rng(0)
    keys, traces = user_keys(SEED, np.arange(20)), rng.integers(SIZE, size=(20, 30))
    whole, some = reports_of(device, traces, keys), rng.permutation(600)[:100]
    part = device.send(traces.ravel()[some], np.repeat(keys, 30)[some], np.tile(np.arange(30), 20)[some])
    assert tuple(part) == tuple(device.mechanism.report_columns)
    for column, values in part.items():
        np.testing.assert_array_equal(values, whole[column][some])


@every_device
def test_evidence_is_the_law_of_sets_of_reports(name):
    """Slots and steps, put together as the kinds of evidence define it, are the enumeration's likelihoods."""
    mechanism = MECHANISMS[name]
    device, objects = device_of(mechanism), np.array([0, 2, 1, 0, 0])
    for user in range(5):
        reports = reports_of(device, objects[None], user_keys(SEED + user, np.arange(1)))
        found, distribution = device.likelihood(reports), oracle(mechanism, rows(reports)[0])
        words = [said(mechanism, report) for report in rows(reports)]
        for event_index in ([0], [0, 3], [0, 3, 4], [1, 2]):
            for z in range(SIZE):
                expected = float(
                    memoized.of_one_response(distribution, [words[t] for t in event_index], distribution.slots[z])
                )
                assert likelihood(found.distribution, event_index, found.slots[z]) == pytest.approx(expected, rel=1e-10)
        same = np.asarray(distribution.slots)
        np.testing.assert_array_equal(found.slots[:, None] == found.slots, same[:, None] == same)


def likelihood(distribution, event_index, slot):
    """Pr[the reports at these places | one answer to the slot]."""
    if isinstance(distribution, IdenticalReports):
        answer = distribution.response[event_index]
        return np.exp(distribution.log_response_prob[answer[0], slot]) if len(set(answer.tolist())) == 1 else 0.0
    (p1, q1), (p2, q2) = distribution.permanent, distribution.instantaneous
    if isinstance(distribution, NoisyValues):
        total = 0.0
        for answer in range(distribution.n_values):
            chance = p1 if answer == distribution.slot_value[slot] else q1
            total += chance * np.prod([p2 if distribution.value[t] == answer else q2 for t in event_index])
        return total
    assert isinstance(distribution, NoisyBits)
    out = 1.0
    for i, ones in enumerate(distribution.ones[event_index].sum(axis=0)):
        one = p1 if i in distribution.positions[:, slot] else q1
        zeros = len(event_index) - ones
        out *= one * p2**ones * (1 - p2) ** zeros + (1 - one) * q2**ones * (1 - q2) ** zeros
    return out


def test_no_reports_have_evidence_too():
    for mechanism in MECHANISMS.values():
        device = device_of(mechanism)
        none = device.send(*(np.empty(0, dtype=kind) for kind in (np.int64, np.uint64, np.int64)))
        assert len(device.likelihood(none).slots) == SIZE
