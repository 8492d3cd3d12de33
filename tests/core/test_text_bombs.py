"""Texts that a Parquet file says once and repeats in every row: no reader copies them, and none holds gigabytes."""

import subprocess
import sys

import polars as pl
import pytest
from cases.bombs import write_bomb, write_wide_nulls
from cases.platforms import linux_only
from cases.report_files import small_attack

from poolscope.core import machine
from poolscope.core.errors import InputError
from poolscope.core.tables import open_table, read_table
from poolscope.core.tables.columns import MAX_NAME_BYTES
from poolscope.core.tables.parquet_check import LeafColumn, ParquetMetadata, RowRunSizes
from poolscope.core.tables.reading import FREE
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.attack.one_user import attack_user

#: Bytes that a process may have in all; what the files below decode to needs more.
MEMORY = 2 << 30

#: Every reader of Parquet, in a process of limited memory; what each says of a file.
READERS = """
import resource, sys
from pathlib import Path
from poolscope.core.errors import InputError
from poolscope.core.tables import open_table
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.mechanisms import make
from poolscope.reports.files import read_reports
from poolscope.workflows.attack.summary import read_truth
from poolscope.workflows.attack.partitioning import name_hashes
from poolscope.explore.user_table import users_of_posteriors
from poolscope.population.universe import read_objects
from poolscope.population.recorded import read_traces
from poolscope.population.universe import Universe

path, universe = Path(sys.argv[2]), Universe.sized(30, {"a": 5, "b": 5})
readers = {
    "reports": lambda: read_reports(path, make("grr", 30, {"epsilon": 1.0}), universe),
    "blocks": lambda: [name_hashes(batch.names("user")) for batch in open_table(path).batches(["user"])],
    "rows": lambda: [r.read(["user"]).names("user") for r in open_table(path).rows(
        ["user"], max_bytes=1 << 26, row_bytes=64, folder=path.parent)],
    "traces": lambda: read_traces(path, universe),
    "truth": lambda: read_truth(path),
    "posteriors": lambda: users_of_posteriors(path),
    "objects": lambda: read_objects(path),
    "outcomes": lambda: OutcomeFiles((path,)).check(["user"]),
}
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
for name in sys.argv[3].split(","):
    try:
        readers[name]()
        print(f"{name}: read")
    except InputError as error:
        print(f"{name}: {error}")
"""
STREAMED = ("reports", "blocks", "rows", "traces", "posteriors", "outcomes")


def said(path, readers):
    """What readers say of a file in a process that may have `MEMORY` bytes, by their names."""
    command = [sys.executable, "-c", READERS, str(MEMORY), path, ",".join(readers)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=path.parent, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def table(name, value, rows, others=("value", "object", "pool", "adversary", "n", "guess", "confidence")):
    """A frame of equal rows, one column of categories."""
    long = pl.Series(name, [value]).new_from_index(0, rows).cast(pl.Categorical)
    return pl.DataFrame([long, *(pl.Series(other, [1]).new_from_index(0, rows) for other in others)])


@linux_only
@pytest.mark.slow
def test_a_category_is_not_copied_for_each_row(tmp_path):
    """Gigabytes of a name in three kilobytes: refused by every reader, in one line."""
    path = tmp_path / "bomb.parquet"
    table("user", "x" * 5_000_000, 2000).write_parquet(path)
    assert path.stat().st_size < 6000
    found = said(path, [*STREAMED, "truth"])
    rule = "row 1: user must have at most 4,096 bytes, got 5000000"
    assert found.pop("truth").startswith(f"{path}: its texts would take about 10 GB of memory, ")
    assert found == dict.fromkeys(STREAMED, f"{path}: {rule}")
    table("object", "x" * 5_000_000, 2000, ["pool"]).write_parquet(path)
    assert said(path, ["objects"])["objects"].startswith(f"{path}: its texts would take about 10 GB of memory, ")


@linux_only
def test_row_groups_that_share_a_dictionary_are_decoded_one_by_one(tmp_path):
    path = write_bomb(tmp_path / "bomb.parquet", 150, {"user": "x" * 20_000_000, "value": 3}, groups=150)
    found = said(path, ["reports", "rows"])
    assert found == dict.fromkeys(
        ("reports", "rows"), f"{path}: row 1: user must have at most 4,096 bytes, got 20000000"
    )


@linux_only
@pytest.mark.slow
def test_long_names_that_alternate_are_read(tmp_path):
    """A million names of 4 kB, all of them legal: in bounded memory, whatever is made of them."""
    names = ["x" * MAX_NAME_BYTES, "y" * MAX_NAME_BYTES]
    path = write_bomb(tmp_path / "bomb.parquet", 1 << 19, {"user": names, "value": 3})
    assert said(path, ["blocks", "rows"]) == {"blocks": "read", "rows": "read"}
    assert next(open_table(path).batches(["user"])).names("user").unique(maintain_order=True).to_list() == names


@linux_only
def test_values_of_a_fixed_length_are_decoded_some_at_a_time(tmp_path):
    path = write_bomb(tmp_path / "bomb.parquet", 3000, {"user": 1, "value": b"x" * 1_000_000})
    rule = "row 1: value must be text, or a UUID of 16 bytes, got '1000000 bytes'"
    assert said(path, ["reports"]) == {"reports": f"{path}: {rule}"}


def test_arrays_take_what_their_type_says_even_where_they_are_null(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 1 << 50)
    path = write_wide_nulls(tmp_path / "bomb.parquet", 20, 1 << 28)
    with pytest.raises(InputError, match=r"decoding a few of its rows would take about 43 GB of memory, a file of"):
        next(open_table(path).batches(["user", "value"]))
    assert next(open_table(path).batches(["user"])).frame.height == 20


def test_a_table_that_is_held_is_worth_its_size(tmp_path, monkeypatch):
    """However much memory there is."""
    monkeypatch.setattr(machine, "available_memory", lambda: 1 << 50)
    path = write_bomb(tmp_path / "rows.parquet", 1 << 27, {"user": 7, "pool": 3})
    rule = r"rows.parquet: 134,217,728 rows would take about 13 GB of memory, a file of \d+ bytes may take 1.1 GB"
    with pytest.raises(InputError, match=rule):
        read_table(path, ("user", "pool"))
    assert 400_000 * MAX_NAME_BYTES > FREE
    path = write_bomb(tmp_path / "texts.parquet", 400_000, {"user": 7, "pool": "x" * MAX_NAME_BYTES})
    with pytest.raises(InputError, match=r"texts.parquet: its texts would take about .* write shorter names"):
        read_table(path, ("user", "pool"))
    path = write_bomb(tmp_path / "few.parquet", 1000, {"user": 7, "pool": "x" * MAX_NAME_BYTES})
    assert read_table(path, ("user", "pool")).frame.height == 1000


def test_a_user_with_more_reports_than_fit_is_refused_before_they_are_kept(tmp_path):
    scenario, _ = small_attack(tmp_path, mechanism="identity", attack="")
    path = write_bomb(tmp_path / "bomb.parquet", 100_000_000, {"user": "ann", "value": 3})
    before = sorted(tmp_path.iterdir())
    for run in (lambda: attack(path, scenario, max_bytes=1 << 24), lambda: attack_user(path, scenario, "ann")):
        with pytest.raises(InputError, match=r"bomb.parquet: user ann: must have at most [\d,]+ reports, got \d+;"):
            run()
    assert sorted(tmp_path.iterdir()) == before


def test_extents_count_the_runs_that_rows_touch():
    extents = RowRunSizes()
    for rows, size in ((10, 100), (0, 5), (20, 1000), (1, 7)):
        extents.add(rows, size)
    whole = [100] * 10 + [1000] * 20 + [7]
    runs = [0] * 10 + [1] * 20 + [2]
    for first in range(31):
        for end in range(first + 1, 32):
            touched = {runs[row]: whole[row] for row in range(first, end)}
            # the run without rows counts where rows on both of its sides do
            assert extents.decoded_bytes(first, end) == sum(touched.values()) + 5 * (first < 10 < end)


def test_cuts_hold_what_they_may_and_every_row_once():
    pages, groups = RowRunSizes(), RowRunSizes()
    for size in (10, 10, 900, 10, 500, 500):
        pages.add(100, size)
    groups.add(300, 50)
    groups.add(300, 0)
    metadata = ParquetMetadata(600, 1000, 300, {("user",): LeafColumn(pages, groups, 900)})
    cuts = list(metadata.row_slices(["user"], 250, 600))
    assert [first for first, _ in cuts] == [sum(count for _, count in cuts[:i]) for i in range(len(cuts))]
    assert sum(count for _, count in cuts) == 600
    assert max(count for _, count in cuts) == 250
    for first, count in cuts:
        alone = metadata.decoded_bytes(["user"], first, first + 1)
        assert metadata.decoded_bytes(["user"], first, first + count) <= 600 + alone
    assert list(metadata.row_slices(["other"], 250, 1)) == [(0, 250), (250, 250), (500, 100)]
