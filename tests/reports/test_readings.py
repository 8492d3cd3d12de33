"""Other readings of reports: the correct one is never rejected, and a wrong one is where reports can tell."""

import numpy as np
import pytest
from cases.selection import statistical
from cases.synthetic import SEED
from scipy import stats

from poolscope.core.randomness import user_keys
from poolscope.mechanisms import device_of, make, reports_of
from poolscope.mechanisms.protocols import PoolWeights
from poolscope.population.behavior import Behavior, draw_traces, draw_users
from poolscope.population.popularity import within_pools
from poolscope.population.universe import Universe
from poolscope.reports.readings import REVERSED, ReadingCheck

SIZE, USERS, EACH = 64, 300, 20
UNIVERSE = Universe.sized(SIZE, {"a": 12, "b": 12, "c": 12})
POPULARITY = np.random.default_rng(SEED).permutation(1.0 / np.arange(1, SIZE + 1))
WEIGHTS = PoolWeights(
    (UNIVERSE.pool_of + 1).astype(np.uint32)[None], within_pools(UNIVERSE, POPULARITY)[None], UNIVERSE.k + 1
)
FLAT = PoolWeights(np.zeros((1, SIZE), dtype=np.uint32), np.full((1, SIZE), 1 / SIZE), 1)
KINDS = {
    "cms": {"epsilon": 3.0, "m": 64, "hashes": 64},
    "hcms": {"epsilon": 3.0, "m": 64, "hashes": 64},
    "oue": {"epsilon": 3.0},
    "olh": {"epsilon": 3.0},
}


def sent(kind, seed=SEED, *, memoize=False):
    people = draw_users(UNIVERSE, Behavior(), user_keys(seed, np.arange(USERS)))
    traces = draw_traces(UNIVERSE, POPULARITY, people, EACH)
    device = device_of(make(kind, SIZE, KINDS[kind]), memoize=memoize)
    return reports_of(device, traces, user_keys(seed, np.arange(USERS)))


def checked(kind, reports, weights=WEIGHTS, rate=1e-4):
    check = ReadingCheck(make(kind, SIZE, KINDS[kind]), weights, rate)
    half = USERS * EACH // 2
    check.add({name: column[:half] for name, column in reports.items()})
    check.add({name: column[half:] for name, column in reports.items()})
    return {one.check: one for one in check.checks(np.repeat(np.arange(USERS), EACH))}


def reversed_bits(reports):
    """Of each byte written out, bit by bit."""
    bits = np.unpackbits(reports["bits"], axis=1, bitorder="big")
    return dict(reports) | {"bits": np.packbits(bits, axis=1, bitorder="little")}


def test_bits_are_reversed_within_bytes():
    assert [REVERSED[0b1], REVERSED[0b10010000], REVERSED[255]] == [0b10000000, 0b1001, 255]


@pytest.mark.parametrize("kind", KINDS)
def test_the_correct_reading_passes(kind):
    found = checked(kind, sent(kind))
    assert found
    assert {one.status for one in found.values()} == {"pass"}


@pytest.mark.parametrize(("kind", "weights"), [("cms", WEIGHTS), ("cms", FLAT), ("oue", WEIGHTS)])
def test_bits_in_another_order_are_noticed(kind, weights):
    found = checked(kind, reversed_bits(sent(kind)), weights)["bit order"]
    assert found.status == "fail"
    assert "least significant" in found.remedy


def test_where_reports_cannot_tell_nothing_is_said():
    """Of a uniform popularity, the order of the bits of a unary encoding says nothing."""
    found = checked("oue", sent("oue"), FLAT)["bit order"]
    assert (found.status, found.value) == (
        "skip",
        "not tested: these reports cannot tell it from reversed bits within bytes",
    )


@pytest.mark.parametrize("kind", ["cms", "hcms", "olh"])
def test_the_functions_of_another_table_do_not_pass(kind):
    reports, column = sent(kind), "seed" if kind == "olh" else "hash"
    other = np.random.default_rng(SEED).permutation(reports[column])
    found = checked(kind, dict(reports) | {column: other})["hash table"]
    assert found.status == "fail"
    assert "use the table and seed of the deployment" in found.remedy


@statistical
@pytest.mark.parametrize("memoize", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_are_as_rare_as_stated(kind, memoize):
    """At a rate of 20%, with the popularity of the users and with a flat one, whether devices memoize."""
    files, rate = 30, 0.2
    for weights in (WEIGHTS, FLAT):
        found = [checked(kind, sent(kind, SEED + i, memoize=memoize), weights, rate) for i in range(files)]
        alarms = sum(one.status == "fail" for checks in found for one in checks.values())
        assert alarms <= stats.binom.isf(1e-4, files * len(found[0]), rate)
