"""Users by the hash of their names: stable, without a list of all users, and right where two names have one hash."""

import tracemalloc

import numpy as np
import polars as pl
import pytest
from cases.platforms import posix_only
from cases.report_files import ATTACK, WEAK, scenario_of, small_attack
from cases.synthetic import SEED
from polars.testing import assert_frame_equal

from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.reports import checks, misfit
from poolscope.workflows.attack import partitioning
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.attack.partitioning import (
    Partition,
    first_rows,
    gather,
    group_by_user,
    name_hashes,
    partitions,
    read_partition,
    write_chunk,
)


def plain_hash(name):
    """FNV-1a and one step of SplitMix64, in Python's integers."""
    found = 0xCBF29CE484222325
    for byte in name.encode():
        found = (found ^ byte) * 0x100000001B3 % 2**64
    found = (found + 0x9E3779B97F4A7C15) % 2**64
    found = (found ^ found >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    found = (found ^ found >> 27) * 0x94D049BB133111EB % 2**64
    return found ^ found >> 31


STABLE = {
    "a": 0x5F29C2AADD9B8527,
    "ann": 0xB4090A0BA3F8393C,
    "user 17": 0x4C7652E61E790438,
    "Žofie \U0001f469🏽": 0x4E8CCA0F12A7BD75,
    "0": 0x2FF7BE6590EEAEB0,
    "-5": 0x32E54CB56747B9D2,
    "18446744073709551615": 0xD31226629DCFA915,
}


def test_the_hash_is_stable():
    """These numbers are in the order of everybody's output: they may not change."""
    assert dict(zip(STABLE, name_hashes(pl.Series(list(STABLE))).tolist(), strict=True)) == STABLE
    assert {name: plain_hash(name) for name in STABLE} == STABLE


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int32, pl.Int64, pl.UInt16, pl.UInt64])
def test_an_integer_is_called_by_its_digits(dtype):
    numbers = [0, 7, 100] + ([-5] if dtype.is_signed_integer() else [2**16 - 1])
    found = name_hashes(pl.Series(numbers, dtype=dtype))
    assert found.tolist() == [plain_hash(str(number)) for number in numbers]
    if dtype == pl.UInt64:
        assert name_hashes(pl.Series([2**64 - 1], dtype=dtype)).tolist() == [STABLE[str(2**64 - 1)]]


def test_hashes_spread():
    """Crowds are equal intervals: neighboring names fill them alike, to four standard errors each."""
    counts = np.bincount((name_hashes(pl.Series(range(64_000))) >> np.uint64(58)).astype(np.int64), minlength=64)
    assert np.abs(counts - 1000).max() < 4 * np.sqrt(1000 * 63 / 64)
    assert len(np.unique(name_hashes(pl.Series(range(64_000))))) == 64_000


def test_crowds_cover_all_hashes():
    found = list(partitions(100, 1000, 0, row=72, max_bytes=64_000))
    assert len(found) == -(-(3 * 120 * 1000 + 128 * 100) // 64_000) == 6
    assert [partition.number for partition in found] == list(range(6))
    assert [partition.low for partition in found] == [0, *(partition.high for partition in found[:-1])]
    assert found[-1].high == 2**64
    assert len({(partition.high - partition.low) // 8 for partition in found}) == 1
    assert len(list(partitions(3, 500, 0, row=72, max_bytes=0))) == 3
    assert len(list(partitions(100, 1000, 100 * 4096, row=72, max_bytes=64_000))) == 26


@pytest.mark.parametrize("horizon", [2**62, 4])
@pytest.mark.parametrize("values", [2**64, 5], ids=["distinct", "colliding"])
def test_every_row_comes_to_its_user(tmp_path, horizon, values):
    """Rows of 40 users in five pieces, through files and in three crowds, against a dictionary."""
    rng = np.random.default_rng(SEED)
    hash_of = dict(enumerate(rng.integers(values, size=40, dtype=np.uint64, endpoint=values == 5).tolist()))
    hash_of[0], hash_of[1] = 0, 2**64 - 1
    expected = {user: [] for user in hash_of}
    for chunk in range(5):
        users = rng.integers(40, size=60)
        rows, bits = rng.random((60, 3)), rng.integers(256, size=(60, 5), dtype=np.uint8)
        names = pl.Series([f"u{user:02d}" for user in users])
        hashes = np.array([hash_of[user] for user in users], dtype=np.uint64)
        order, starts = group_by_user(names, hashes)
        assert [(hash_of[u], u) for u in users[order]] == sorted((hash_of[u], u) for u in users)
        rows_of, first, lengths = first_rows(names, hashes, 2**62)
        assert (rows_of.tolist(), first.tolist()) == (order.tolist(), order[starts].tolist())
        assert lengths.tolist() == np.diff(np.append(starts, 60)).tolist()
        facts = {"mass": rows[order], "bits": bits[order]}
        write_chunk(tmp_path, chunk, names.gather(order), hashes[order], facts)
        for user, row, more in zip(users.tolist(), rows.tolist(), bits.tolist(), strict=True):
            expected[user].append([*row, *more])
    found, columns = [], {"mass": np.empty((0, 3)), "bits": np.empty((0, 5), dtype=np.uint8)}
    for partition in (Partition(0, 0, 3), Partition(1, 3, 2**63), Partition(2, 2**63, 2**64)):
        own = read_partition(tmp_path, 5, partition)
        if own.height:
            gathered = gather(own, horizon, columns, 1 << 16)
            names, ends = gathered.names, np.cumsum(gathered.lengths)
            assert gathered.hashes.tolist() == [hash_of[int(name[1:])] for name in names]
            assert {name: column.dtype for name, column in gathered.features.items()} == {
                "mass": float,
                "bits": np.uint8,
            }
            found += zip(names, np.split(np.hstack(list(gathered.features.values())), ends[:-1]), strict=True)
    order = sorted((user for user in expected if expected[user]), key=lambda user: (hash_of[user], user))
    assert [name for name, _ in found] == [f"u{user:02d}" for user in order]
    for (_, facts), user in zip(found, order, strict=True):
        np.testing.assert_array_equal(facts, np.array(expected[user])[:horizon])


@pytest.mark.parametrize("memory", [1 << 30, 1 << 14])
def test_two_names_of_one_hash_are_two_users(tmp_path, monkeypatch, memory):
    scenario, path = small_attack(tmp_path)
    expected, found = tmp_path / "expected.parquet", tmp_path / "found.parquet"
    summary = attack(path, scenario, out=expected)
    monkeypatch.setattr(partitioning, "name_hashes", lambda names: name_hashes(names) & np.uint64(3 << 62))
    assert attack(path, scenario, out=found, max_bytes=memory).users == summary.users == 25
    one, two = (pl.read_parquet(table) for table in (expected, found))
    names = two["user"].unique(maintain_order=True)
    assert names.to_list() == sorted(names, key=lambda name: (plain_hash(name) >> 62, name))
    assert_frame_equal(one.sort("user", maintain_order=True), two.sort("user", maintain_order=True), check_exact=True)


@posix_only
def test_a_crowd_is_read_without_the_rest(tmp_path):
    """Row groups of other hashes are skipped by their statistics, and folders may be called as they like."""
    folder = tmp_path / "hive=1 [*]?"
    folder.mkdir()
    hashes = np.arange(64_000, dtype=np.uint64) << np.uint64(48)
    names = pl.Series([f"user {i}" for i in range(64_000)])
    write_chunk(folder, 0, names, hashes, {"mass": np.arange(64_000.0)[:, None]})
    data = pl.scan_parquet(folder / "0.parquet", glob=False, hive_partitioning=False)
    assert data.select(pl.len()).collect().item() == 64_000
    raw = bytearray((folder / "0.parquet").read_bytes())
    broken = raw.index(np.float64(63_999).tobytes())
    raw[len(raw) // 2 : broken + 8] = bytes(broken + 8 - len(raw) // 2)
    (folder / "0.parquet").write_bytes(raw)
    assert read_partition(folder, 1, Partition(0, 0, 1000 << 48))["user"].to_list() == names[:1000].to_list()


def test_a_user_with_too_many_reports_is_refused(tmp_path):
    write_chunk(tmp_path, 0, pl.Series(["ann"] * 5), np.zeros(5, dtype=np.uint64), {"mass": np.zeros((5, 2))})
    rows, columns = read_partition(tmp_path, 1, Partition(0, 0, 2**64)), {"mass": np.empty((0, 2))}
    assert gather(rows, 2**62, columns, 5).lengths.tolist() == gather(rows, 5, columns, 5).lengths.tolist() == [5]
    assert gather(rows, 4, columns, 4).lengths.tolist() == [4]
    with pytest.raises(InputError, match="user ann: must have at most 4 reports, got 5; use fewer of them"):
        gather(rows, 2**62, columns, 4)


USERS, BOUND = 44_000, 4 << 20


def many(tmp_path, count, interleaved):
    """A scenario, and a file of two reports of each of `count` users."""
    scenario = scenario_of(tmp_path, mechanism="identity", adversaries=WEAK, attack=ATTACK.replace("[3, 10]", "[2]"))
    rng = np.random.default_rng(SEED)
    users = np.tile(np.arange(count), 2) if interleaved else np.repeat(np.arange(count), 2)
    frame = pl.DataFrame({"user": [f"user {user}" for user in users], "value": rng.integers(30, size=len(users))})
    frame.write_parquet(tmp_path / "reports.parquet", row_group_size=1 << 13)
    return scenario, tmp_path / "reports.parquet"


@pytest.fixture
def seen(monkeypatch):
    """How many names each step has grouped."""
    found = []

    def spy(names, hashes):
        found.append(len(names))
        return group_by_user(names, hashes)

    monkeypatch.setattr(partitioning, "group_by_user", spy)
    return found


@pytest.mark.default_cases("interleaved")
@pytest.mark.parametrize("interleaved", [False, True], ids=["sorted", "interleaved"])
def test_no_step_sees_all_users(tmp_path, seen, interleaved):
    scenario, path = many(tmp_path, 3000, interleaved)
    expected = attack(path, scenario, out=tmp_path / "expected.parquet")
    assert max(seen) > 3000, "a negative control: there is memory for all"
    seen.clear()
    asked = {"max_bytes": BOUND >> 4, "engine": Local(threads=1)}
    assert attack(path, scenario, out=tmp_path / "posteriors.parquet", **asked) == expected
    assert max(seen) < 750, f"{max(seen)} names at once"
    assert pl.read_parquet(tmp_path / "posteriors.parquet").equals(pl.read_parquet(tmp_path / "expected.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("interleaved", [False, True], ids=["sorted", "interleaved"])
def test_nobody_holds_all_users(tmp_path, monkeypatch, seen, interleaved):
    """A hundred bytes of each would be more than the bound, and no step sees more than a few of them."""
    (scenario, path), out = many(tmp_path, USERS, interleaved), tmp_path / "posteriors.parquet"
    # the checks of the reports hold a window of them, whatever the bound
    monkeypatch.setattr(misfit, "MAX_REPORTS", 1 << 10)
    monkeypatch.setattr(checks, "MAX_REPORTS", 1 << 10)
    expected = attack(path, scenario, out=tmp_path / "expected.parquet")
    # what is loaded or compiled once is not held for users
    pl.read_parquet(path)[:5000].write_parquet(tmp_path / "some.parquet")
    attack(tmp_path / "some.parquet", scenario, out=out, max_bytes=BOUND >> 2, engine=Local(threads=1))
    seen.clear()
    peaks = []
    for _ in range(2):
        # the interpreter's own table of interned names may grow by megabytes, but not twice in a row
        tracemalloc.start()
        summary = attack(path, scenario, out=out, overwrite=True, max_bytes=BOUND, engine=Local(threads=1))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    peak = min(peaks)
    assert USERS * 100 > BOUND > peak, f"{peak / 2**20:.1f} MiB held of a bound of {BOUND >> 20} MiB"
    assert max(seen) < USERS / 4, f"{max(seen)} names at once"
    assert summary == expected
    assert pl.read_parquet(out).equals(pl.read_parquet(tmp_path / "expected.parquet"))
