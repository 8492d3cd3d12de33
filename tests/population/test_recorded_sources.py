"""Recorded users in several files, and in compressed ones."""

import gzip

import polars as pl
import pytest

from poolscope.core.errors import InputError
from poolscope.core.tables.locations import table_checksum
from poolscope.population.recorded import read_traces
from poolscope.population.universe import Universe

UNIVERSE = Universe.sized(30, {"a": 5, "b": 5})
ROWS = pl.DataFrame({"user": [f"u{i % 7}" for i in range(300)], "object": [i * i % 30 for i in range(300)]})


def test_traces_of_every_kind_of_file_are_the_same(tmp_path):
    ROWS.write_csv(tmp_path / "one.csv")
    (tmp_path / "one.csv.gz").write_bytes(gzip.compress((tmp_path / "one.csv").read_bytes()))
    (tmp_path / "many").mkdir()
    for part in range(3):
        ROWS[part * 100 : (part + 1) * 100].write_parquet(tmp_path / f"many/{part}.parquet")
    expected = read_traces(tmp_path / "one.csv", UNIVERSE)
    for name in ("one.csv.gz", "many", "many/*.parquet", "m*/[0-9].parquet"):
        found = read_traces(tmp_path / name, UNIVERSE)
        assert found.users == expected.users
        assert (found.user == expected.user).all()
        assert (found.object == expected.object).all()
    with pytest.raises(InputError, match="matches no file"):
        read_traces(tmp_path / "many/*.csv", UNIVERSE)


def test_the_checksum_of_many_files_depends_on_names_and_contents_but_not_on_their_place(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder / "t").mkdir(parents=True)
        for part in range(2):
            ROWS.write_parquet(tmp_path / folder / "t" / f"{part}.parquet")
    for name in ("t", "t/*.parquet", "*/0.parquet"):
        assert table_checksum(tmp_path / "a" / name) == table_checksum(tmp_path / "b" / name)
    before = table_checksum(tmp_path / "a/t")
    (tmp_path / "a/t/1.parquet").rename(tmp_path / "a/t/2.parquet")
    assert table_checksum(tmp_path / "a/t") != before
    before = table_checksum(tmp_path / "a/t")
    ROWS[1:].write_parquet(tmp_path / "a/t/2.parquet")
    assert table_checksum(tmp_path / "a/t") != before
