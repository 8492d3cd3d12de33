"""Readers of files: values of JSON, types that change, standard input, and streams of Arrow."""

import gzip
import io
import sys
from types import SimpleNamespace

import polars as pl
import pytest
from cases.data_sources import NAMES, ROWS, content, rows_of

from poolscope.core.errors import InputError
from poolscope.core.tables import SourceOptions, opened, readers


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('["a", 1]', r"line 3: must be a JSON object, got \['a', 1\]"),
        ("[" * 100_000, "line 3: must not be nested that deeply"),
        ('{"user": "a", "value": {"b": 1}}', r"row 3: value must be text, a number or a list, got {'b': 1}"),
        ('{"user": "a", "value": 9223372036854775808}', "column 'value' must hold Int64, got 9223372036854775808"),
        ('{"user": "\\ud800", "value": 1}', r"row 3: column 'user' must hold String, got '\\ud800'"),
        ('{"user": "a", "value": 1, "list": ' + "[" * 500 + "]" * 500 + "}", "rows 1 to 3: column 'list' must"),
        ('{"user": "a' + 2000 * "a" + '"}', "line 3: a line must have at most 2000 bytes"),
    ],
)
def test_values_of_json_that_are_none(tmp_path, monkeypatch, line, message):
    if "bytes" in message:
        monkeypatch.setattr(readers, "MAX_ROW_BYTES", 2000)
    (tmp_path / "r.jsonl").write_text('{"user": "a", "value": 1, "list": []}\n' * 2 + line)
    with pytest.raises(InputError, match=message):
        rows_of(tmp_path / "r.jsonl", names=[*NAMES, *[("list",)] * ("list" in message)])


def test_a_row_of_csv_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("poolscope.core.tables.csv.MAX_ROW_BYTES", 2000)
    monkeypatch.setattr(readers, "BATCH_BYTES", 1)
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(b'user,value\n"' + 200_000 * b"a"))
    with pytest.raises(InputError, match=r"r\.csv\.gz: a row must have at most 2000 bytes"):
        rows_of(tmp_path / "r.csv.gz")


def test_lines_of_json_are_read_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "BATCH_BYTES", 0)
    blank = "\n" * 600
    (tmp_path / "r.jsonl").write_text(blank + ROWS[:300].write_ndjson() + blank + ROWS[300:].write_ndjson())
    assert rows_of(tmp_path / "r.jsonl").equals(ROWS.cast(pl.String))


def test_lists_of_one_type(tmp_path):
    """An empty list is of any type, and decides nothing for the files after it."""
    lists = {"empty": [], "texts": ["x"], "integers": [1], "numbers": [1.5]}
    for name, values in lists.items():
        pl.DataFrame({"user": ["a"], "value": [values]}).write_ndjson(tmp_path / f"{name}.jsonl")
    for names in (["empty", "integers", "numbers"], ["texts", "empty", "texts"]):
        with opened([tmp_path / f"{name}.jsonl" for name in names], NAMES) as source:
            found = [batch.frame["value"][0].to_list() for batch in source.batches(["value"])]
        assert found == [lists[name] for name in names]
    files = [tmp_path / f"{name}.jsonl" for name in ("empty", "texts", "integers")]
    with pytest.raises(InputError, match=r"row 1: column 'value' must hold List\(String\) as in the rows before"):
        rows_of(files)


def test_categories_of_two_files_in_order_of_time(tmp_path):
    users = pl.Enum(["a", "b"]), pl.Enum(["c", "b"]), pl.Categorical, pl.String
    files = [tmp_path / f"{number}.arrow" for number in range(len(users))]
    for number, (file, dtype) in enumerate(zip(files, users, strict=True)):
        frame = pl.DataFrame({"user": "b", "value": number, "at": -number}, schema_overrides={"user": dtype})
        frame.write_ipc(file)
    found = rows_of(files, SourceOptions.of(time="at"))
    assert found.rows() == [("b", str(number)) for number in (3, 2, 1, 0)]


def test_kinds_of_time_that_are_none(tmp_path):
    for name, at in (("integers", 1), ("texts", "2026-01-01"), ("flags", True)):
        pl.DataFrame({"user": ["a"], "value": [1], "at": [at]}).write_ndjson(tmp_path / f"{name}.jsonl")
    asked = SourceOptions.of(time="at")
    with pytest.raises(InputError, match=r"texts\.jsonl: row 1: column 'at' must hold Int64 as in"):
        rows_of([tmp_path / "integers.jsonl", tmp_path / "texts.jsonl"], asked)
    with pytest.raises(InputError, match=r"flags\.jsonl: column 'at' must hold times: dates, .*, got 'Boolean'"):
        rows_of(tmp_path / "flags.jsonl", asked)


def test_standard_input_that_is_none(monkeypatch):
    terminal = SimpleNamespace(isatty=lambda: True)
    thrice = gzip.compress(gzip.compress(gzip.compress(content("csv"))))
    packed = SimpleNamespace(isatty=lambda: False, buffer=io.BytesIO(thrice))
    refused = (terminal, "must be piped in, is a terminal"), (packed, "must not be compressed more than twice")
    for stream, rule in refused:
        monkeypatch.setattr("sys.stdin", stream)
        with pytest.raises(InputError, match=f"standard input: {rule}"):
            rows_of("-")


def test_a_stream_of_arrow_needs_no_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "r.arrows").write_bytes(content("arrows"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.ipc", None)
    assert rows_of(tmp_path / "r.arrows").equals(ROWS.cast(pl.String))
    monkeypatch.setattr("poolscope.core.machine.available_memory", lambda: 1)
    with pytest.raises(InputError, match=r"an Arrow stream .*install pyarrow, which reads it in batches"):
        rows_of(tmp_path / "r.arrows")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrow", "arrows", "parquet"])
def test_a_table_without_rows_is_refused(tmp_path, kind):
    (tmp_path / f"r.{kind}").write_bytes(content(kind, ROWS.clear()))
    with pytest.raises(InputError, match=f"r.{kind}: must have at least one row"):
        rows_of(tmp_path / f"r.{kind}")
