"""Provenance: the checksum of outcomes holds for their values and nothing else."""

import re
import shutil
import struct
import subprocess
from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace

import numba
import numpy as np
import polars as pl
import pytest
import scipy
from cases.synthetic import game

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.kernels import host
from poolscope.metrics import provenance as module
from poolscope.metrics.provenance import checksum, combined, commit, files_checksum, provenance_of, values_checksum

OUTCOMES = game(20)


def test_neither_order_nor_layout_of_outcomes_counts(tmp_path):
    expected = checksum([OUTCOMES])
    assert re.fullmatch("[0-9a-f]{64}", expected)
    assert checksum([OUTCOMES.reverse()]) == expected
    assert checksum([OUTCOMES.select(sorted(OUTCOMES.columns))]) == expected
    named = OUTCOMES.with_columns(pl.col("adversary", "pool", "guess").cast(pl.String).cast(pl.Categorical))
    assert checksum([named.with_columns(pl.col("n").cast(pl.Int64))]) == expected
    for size in (1, 7, 20):
        parts = [OUTCOMES.filter(pl.col("user").is_between(i, i + size - 1)) for i in range(0, 20, size)]
        assert checksum(parts) == expected
        folder = tmp_path / str(size)
        folder.mkdir()
        for index, part in enumerate(parts):
            part.write_parquet(folder / f"part-{index:06d}.parquet", compression="zstd" if size == 7 else "snappy")
        assert files_checksum(OutcomeFiles.within(folder)) == expected


CHANGES = {
    "one bit of a number": pl.when(pl.int_range(pl.len()) == 5)
    .then(pl.col("confidence") * (1 + 2**-52))
    .otherwise("confidence")
    .alias("confidence"),
    "a guess": pl.when(pl.int_range(pl.len()) == 5)
    .then(pl.lit("z"))
    .otherwise(pl.col("guess").cast(pl.String))
    .alias("guess"),
    "a null": pl.when(pl.int_range(pl.len()) == 5).then(None).otherwise("confidence").alias("confidence"),
    "a user": (pl.col("user") + 1).alias("user"),
    "an adversary": (pl.col("adversary").cast(pl.String) + "x").alias("adversary"),
    "a column": pl.lit(1).alias("more"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_every_value_counts(what):
    changed = OUTCOMES.with_columns(CHANGES[what])
    assert checksum([changed]) != checksum([OUTCOMES])


def test_an_unknown_number_is_not_a_missing_one():
    null, nan = (OUTCOMES.with_columns(pl.lit(x, dtype=pl.Float64).alias("confidence")) for x in (None, float("nan")))
    assert checksum([null]) != checksum([nan])
    assert checksum([null]) == checksum([null.reverse()])


def test_the_bits_of_numbers_count_as_they_are():
    numbers = [0.5, -0.0, float("inf"), float("nan")]
    rows = pl.DataFrame({"user": range(4), "adversary": "x", "n": 1, "confidence": numbers})
    own = sha256(struct.pack("<4d", *numbers)).hexdigest()
    users = sha256(struct.pack("<4q", *range(4))).hexdigest()
    keys = {'["x", 1, "confidence"]': own, '["x", 1, "user"]': users}
    assert checksum([rows]) == combined(keys)


def test_users_who_swap_their_outcomes_count():
    swapped = OUTCOMES.with_columns(pl.col("user").replace({0: 1, 1: 0}))
    assert checksum([swapped]) != checksum([OUTCOMES])
    assert combined({"a": "1", "b": "2"}) != combined({"a": "2", "b": "1"})


def test_a_table_has_the_checksum_of_its_values():
    table = pl.DataFrame({"epsilon": [1, 2], "auc_pn": [0.5, None], "adversary": ["weak", None], "n": [None, None]})
    expected = values_checksum(table)
    assert values_checksum(table.select(sorted(table.columns)).cast({"epsilon": pl.Int32})) == expected
    for changed in (
        table.reverse(),
        table.fill_null(0),
        table.with_columns(auc_pn=pl.col("auc_pn") * (1 + 2**-52)),
        table.rename({"auc_pn": "precision"}),
        table.drop("n"),
    ):
        assert values_checksum(changed) != expected


def test_provenance_of_outcomes_in_memory():
    found = ps.provenance(OUTCOMES, seed=3)
    assert (found.seed, found.users, found.version) == (3, 20, ps.__version__)
    versions = (found.numpy, found.scipy, found.polars, found.numba)
    assert versions == tuple(package.__version__ for package in (np, scipy, pl, numba))
    assert found.outcomes == checksum([OUTCOMES])
    assert found.cpu
    assert set(found.cpu_features) <= set(host.FEATURES)
    assert type(found).from_json(found.as_json()) == found
    assert ps.provenance(OUTCOMES).seed is None


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (OUTCOMES.drop("n"), "outcomes must have a column 'n'"),
        (OUTCOMES.clear(), "outcomes must have at least one row"),
        (3, "must be a result with a provenance, or a table of outcomes, got 'int'"),
    ],
    ids=["column", "rows", "kind"],
)
def test_what_has_no_provenance_is_refused(what, message):
    with pytest.raises(InputError, match=re.escape(message)):
        ps.provenance(what)


def test_a_result_has_the_seed_that_it_was_made_with():
    result = SimpleNamespace(provenance=provenance_of(seed=1, users=2))
    assert ps.provenance(result, seed=1) is ps.provenance(result) is result.provenance
    with pytest.raises(InputError, match="seed must be that of the result, got 5; leave it out: it is 1"):
        ps.provenance(result, seed=5)


def test_differences_are_named_with_both_values():
    mine = provenance_of(seed=1, users=2)
    assert mine.differences(mine) == []
    other = replace(mine, numba="0.1", python="2.7", seed=5, commit=None)
    assert mine.differences(other) == [f"numba {mine.numba} instead of 0.1"]
    for name in ("scipy", "polars"):
        assert mine.differences(replace(mine, **{name: "0.1"})) == [f"{name} {getattr(mine, name)} instead of 0.1"]
    assert mine.differences(replace(mine, cpu="abacus")) == [f"CPU {mine.cpu} instead of abacus"]
    (features,) = mine.differences(replace(mine, cpu_features=("sve",)))
    assert features.endswith("instead of sve")


def test_the_cpu_is_the_one_that_kernels_are_compiled_for(monkeypatch):
    monkeypatch.setattr(host.config, "CPU_NAME", "generic")
    monkeypatch.setattr(host.config, "CPU_FEATURES", "+sse2,+fma,-avx2")
    assert (host.cpu_name(), host.cpu_features()) == ("generic", ["fma"])


def test_the_commit_is_that_of_our_own_checkout(tmp_path, monkeypatch):
    """A package inside another project's repository is not of that commit, and no path is recorded."""
    root = module.Path(module.__file__).parents[3]
    found = commit.__wrapped__()
    if (root / ".git").exists() and root.name != "site-packages":
        assert found is None or re.fullmatch(r"[0-9a-f]{40}(-dirty)?", found)
    (tmp_path / ".git").mkdir()
    inside = tmp_path / "lib" / "poolscope" / "metrics" / "provenance.py"
    monkeypatch.setattr(module, "__file__", str(inside))
    monkeypatch.setattr(module.metadata, "distribution", lambda name: Installed(None))
    assert commit.__wrapped__() is None
    monkeypatch.setattr(module.metadata, "distribution", lambda name: Installed('{"vcs_info": {"commit_id": "abc"}}'))
    assert commit.__wrapped__() == "abc"
    monkeypatch.setattr(module.metadata, "distribution", lambda name: Installed('{"url": "file:///x"}'))
    assert commit.__wrapped__() is None


class Installed:
    """A distribution with this record of where it came from."""

    def __init__(self, text):
        self.text = text

    def read_text(self, name):
        return self.text


def test_an_unknown_commit_is_no_difference():
    """A known one is, where it differs."""
    mine = replace(provenance_of(seed=1, users=2), commit="a" * 40)
    assert mine.differences(replace(mine, commit=None)) == []
    assert replace(mine, commit=None).differences(mine) == []
    assert len(mine.differences(replace(mine, commit="b" * 40))) == 1


def test_texts_of_one_length_have_checksums_of_their_own():
    one, other = (pl.DataFrame({"user": [0], "adversary": ["x"], "n": [1], "guess": [guess]}) for guess in "ab")
    assert checksum([one]) != checksum([other])


def test_the_tenth_part_comes_after_the_second(tmp_path):
    """Users of all parts are in order, whatever the number of digits of their files."""
    for index, known in ((2, pl.col("user") < 10), (10, pl.col("user") >= 10)):
        OUTCOMES.filter(known).write_parquet(tmp_path / f"part-{index}.parquet")
    assert files_checksum(OutcomeFiles.within(tmp_path)) == checksum([OUTCOMES])


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_of_changed_files_says_so(tmp_path):
    def git(*arguments):
        own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", tmp_path, *own, *arguments], check=True, stdout=subprocess.DEVNULL)

    git("init", "-q")
    (tmp_path / "a.py").write_text("a = 1\n")
    git("add", "a.py")
    git("commit", "-q", "-m", "Begin")
    git("tag", "v1")
    found = module._described(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", found)
    (tmp_path / "a.py").write_text("a = 2\n")
    assert module._described(tmp_path) == f"{found}-dirty"
