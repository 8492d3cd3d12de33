"""Traces as files."""

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolscope.core.errors import InputError
from poolscope.population.recorded import read_traces, write_rows
from poolscope.population.universe import Universe

UNIVERSE = Universe.named(["x", "y", "z"], ["p", "q", ""])
USERS, OBJECTS = ["bob", "ann", "bob", "cat"], ["y", "x", "z", "y"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_written_is_read(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    write_rows(path, path.suffix, USERS, OBJECTS)
    traces = read_traces(path, UNIVERSE)
    assert traces.users == ("bob", "ann", "cat")
    assert traces.user.tolist() == [0, 1, 0, 2]
    assert traces.object.tolist() == [1, 0, 2, 1]
    assert traces.user.dtype == traces.object.dtype == np.int64


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1).filter(
    lambda name: name == name.strip()
)


@settings(max_examples=30)
@given(st.lists(st.tuples(names, st.sampled_from("xyz")), min_size=1, max_size=20))
def test_any_names_survive_both_formats(tmp_path_factory, rows):
    users, objects = zip(*rows, strict=True)
    for ending in ("csv", "parquet"):
        path = tmp_path_factory.getbasetemp() / f"t.{ending}"
        write_rows(path, path.suffix, users, objects)
        traces = read_traces(path, UNIVERSE)
        assert [traces.users[i] for i in traces.user] == list(users)
        assert ["xyz"[i] for i in traces.object] == list(objects)


def test_numbered_objects_and_integer_users(tmp_path):
    universe = Universe.sized(12, {"p": 5, "q": 5})
    path = tmp_path / "t.parquet"
    pl.DataFrame({"object": [11, 0], "user": [7, 8]}).write_parquet(path)
    traces = read_traces(path, universe)
    assert (traces.users, traces.object.tolist()) == (("7", "8"), [11, 0])


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["x", "y", "z"])])
def test_categories_are_texts(tmp_path, dtype):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"user": USERS, "object": pl.Series(OBJECTS, dtype=dtype)}).write_parquet(path)
    assert read_traces(path, UNIVERSE).object.tolist() == [1, 0, 2, 1]


def test_objects_outside_are_left_out(tmp_path):
    path = tmp_path / "t.csv"
    write_rows(path, path.suffix, ["eve", *USERS, "bob", "bob"], ["v", *OBJECTS, "w", "w"])
    traces = read_traces(path, UNIVERSE)
    assert traces.users == ("bob", "ann", "cat")
    assert traces.object.tolist() == [1, 0, 2, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must not be empty"),
        ("user,object\n", "must have at least one row"),
        ("user,thing\na,x\n", "must have a column 'object', got ['user', 'thing']; expected: user, object"),
        ("user,object\na,x\nb\n", "row 2: must have 2 fields, got 1"),
        ("user,object\na,x\n,y\n", "row 2: user must have a name, got ''"),
        ("user,object\na,x\na,\n", "row 2: object must have a name, got ''"),
        ("user,object\na,x\n b,y\n", "row 2: user must not begin or end with white space, got ' b'"),
        ("user,object\na,xx\na,NaN\n", "row 1: must have an object of the universe, got 'xx'"),
        ("user,object\nZo\xeb,x\n".encode("latin-1"), "line 2: must be UTF-8 text, got b'\\xeb'"),
    ],
)
def test_what_is_wrong_with_a_csv(tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=f"^{re.escape(f'{path}: {message}')}$"):
        read_traces(path, UNIVERSE)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": ["a"]}, "must have a column 'object', got ['user']; expected: user, object"),
        ({"user": [], "object": []}, "must have at least one row"),
        ({"user": ["a", None], "object": ["x", "x"]}, "row 2: user must have a name, got None"),
        ({"user": ["a"], "object": [float("nan")]}, "column 'object' must hold texts or integers, got 'Float64'"),
        ({"user": [True], "object": ["x"]}, "column 'user' must hold texts or integers, got 'Boolean'"),
        ({"user": ["a"], "object": [["x"]]}, "column 'object' must hold texts or integers, got 'List(String)'"),
        ({"user": ["a"], "object": [3]}, "row 1: must have an object of the universe, got '3'"),
    ],
)
def test_what_is_wrong_with_a_parquet(tmp_path, columns, message):
    path = tmp_path / "t.parquet"
    pl.DataFrame(columns).write_parquet(path)
    with pytest.raises(InputError, match=f"^{re.escape(f'{path}: {message}')}$"):
        read_traces(path, UNIVERSE)


def test_truncated_missing_and_foreign_files(tmp_path):
    path = tmp_path / "t.parquet"
    write_rows(path, path.suffix, USERS * 100, OBJECTS * 100)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"t\.parquet: must be a Parquet file: "):
        read_traces(path, UNIVERSE)
    with pytest.raises(InputError, match=r"none\.parquet: there is no such file"):
        read_traces(tmp_path / "none.parquet", UNIVERSE)
    with pytest.raises(InputError, match=r"t\.txt: must end in \.parquet, \.csv, "):
        read_traces(tmp_path / "t.txt", UNIVERSE)
