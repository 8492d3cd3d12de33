"""The digest of a file: against plain counting, in any order of its parts, and what it calls identical users."""

from itertools import pairwise

import numpy as np
import pytest
from cases.synthetic import SEED

from poolscope.mechanisms import make
from poolscope.reports.digest import SMALL, FileDigest, Limits
from poolscope.reports.repeats import equal_pair_bound

RNG = np.random.default_rng(SEED)


def file_of(users, seed=SEED):
    """Hashes of users with 1 to 9 reports each, in any order, and a report for each row."""
    rng = np.random.default_rng(seed)
    names = rng.integers(1 << 63, size=users, dtype=np.uint64) * np.uint64(2)
    hashes = rng.permutation(np.repeat(names, rng.integers(1, 10, size=users)))
    return hashes, {"value": rng.integers(1 << 40, size=len(hashes))}


def digest_of(hashes, reports, cuts=(), limits=SMALL):
    edges = [0, *cuts, len(hashes)]
    parts = [
        FileDigest.of(hashes[a:b], {name: column[a:b] for name, column in reports.items()}, number, limits)
        for number, (a, b) in enumerate(pairwise(edges))
    ]
    return parts


def total(parts):
    out = FileDigest()
    for part in parts:
        out += part
    return out


def test_users_and_reports_are_counted():
    hashes, reports = file_of(500)
    found = total(digest_of(hashes, reports, (100, 700)))
    names, counts = np.unique(hashes, return_counts=True)
    assert (found.rows, found.n_users, found.is_sampled, found.compares_all) == (len(hashes), 500, False, True)
    assert dict(zip(found.users.hashes, found.users.counts, strict=True)) == dict(zip(names, counts, strict=True))


@pytest.mark.parametrize("limits", [Limits(1 << 10, 1 << 10), Limits(100, 80)])
def test_a_digest_depends_neither_on_the_parts_nor_on_their_order(limits):
    hashes, reports = file_of(800)
    whole = total(digest_of(hashes, reports, (), limits))
    parts = digest_of(hashes, reports, (10, 900, 2000), limits)
    for some in (parts, parts[::-1]):
        found = total(some)
        assert found.rows == whole.rows
        assert np.array_equal(found.users.counts, whole.users.counts)
        for one, other in zip(found.sample.in_order(), whole.sample.in_order(), strict=True):
            assert np.array_equal(one, other)
        assert len(found.users.hashes) <= limits.users
        assert len(found.sample.users) <= limits.rows
    # all rows of a sampled user are there
    counts = dict(zip(*np.unique(hashes, return_counts=True), strict=True))
    for name, count in zip(*np.unique(whole.sample.users, return_counts=True), strict=True):
        assert counts[name] == count


def test_the_number_of_sampled_users_estimates_that_of_all():
    hashes, reports = file_of(20_000)
    found = total(digest_of(hashes, reports, (5000,), Limits(2000, 100)))
    kept = len(found.users.hashes)
    error = np.sqrt(kept * (1 - 2.0**-found.users.halvings)) * 2**found.users.halvings
    assert found.is_sampled
    assert abs(found.n_users - 20_000) < 4 * error


def test_a_digest_survives_a_file():
    hashes, reports = file_of(300)
    found = total(digest_of(hashes, reports, (50,), Limits(100, 80)))
    again = FileDigest.from_arrays(found.arrays())
    for name, array in found.arrays().items():
        assert np.array_equal(array, again.arrays()[name])


def test_identical_users_are_found_beyond_coincidence():
    mechanism = make("cms", 30, {"epsilon": 2.0, "m": 32, "hashes": 64})
    bound = equal_pair_bound(mechanism) * 64
    hashes = np.repeat(RNG.integers(1 << 62, size=40, dtype=np.uint64), 12)
    reports = mechanism.obfuscate(RNG.integers(30, size=len(hashes)), RNG)
    assert total(digest_of(hashes, reports)).identical_users(bound, 1e-4) == 0
    copy = np.concatenate([hashes, np.full(12, 7, dtype=np.uint64)])
    rows = np.concatenate([np.arange(len(hashes)), np.arange(12)])
    twice = {name: column[rows] for name, column in reports.items()}
    assert total(digest_of(copy, twice, (100, 485))).identical_users(bound, 1e-4) == 2
    # the same reports in another order are other reports
    rows[-12:] = rows[-12:][::-1]
    other = {name: column[rows] for name, column in reports.items()}
    assert total(digest_of(copy, other)).identical_users(bound, 1e-4) == 0


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_short_users_with_few_values_coincide_without_an_alarm(epsilon):
    mechanism = make("grr", 4, {"epsilon": epsilon})
    bound = equal_pair_bound(mechanism)
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        hashes = np.repeat(rng.integers(1 << 62, size=2000, dtype=np.uint64), 3)
        reports = mechanism.obfuscate(np.zeros(len(hashes), dtype=np.int64), rng)
        found = total(digest_of(hashes, reports))
        alarms += found.identical_users(bound, 1e-4) > 0
        sequences = np.unique(np.asarray(reports["value"]).reshape(-1, 3), axis=0)
        assert len(sequences) < 2000, "they do coincide"
    assert alarms == 0
