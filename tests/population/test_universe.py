import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolscope.core.errors import InputError
from poolscope.population.universe import MAX_OBJECTS, Universe, read_objects


def test_sized_pools_take_the_first_objects():
    universe = Universe.sized(7, {"light": 2, "dark": 3})
    assert universe.pool_of.tolist() == [0, 0, 1, 1, 1, -1, -1]
    assert universe.pool_of.dtype == np.int32
    assert (universe.k, universe.pool_names) == (2, ("light", "dark"))
    assert universe.pool_sizes.tolist() == [2, 3]
    assert universe.neutral_size == 2
    assert universe.objects is None


def test_neutral_pool_may_be_empty():
    assert Universe.sized(5, {"a": 2, "b": 3}).neutral_size == 0


def test_named_pools_are_in_order_of_appearance():
    universe = Universe.named(["x", "y", "z", "w"], ["b", "", "a", None])
    assert universe.pool_names == ("b", "a")
    assert universe.pool_of.tolist() == [0, -1, 1, -1]


def test_from_pools_by_number_and_by_name():
    by_number = Universe.from_pools(5, {"a": [4, 0], "b": [2]})
    by_name = Universe.from_pools(list("vwxyz"), {"a": ["z", "v"], "b": ["x"]})
    assert by_number.pool_of.tolist() == by_name.pool_of.tolist() == [0, -1, 1, -1, 0]
    assert by_name.objects == tuple("vwxyz")


def test_pool_of_is_a_read_only_copy():
    pool_of = np.array([0, 1, -1])
    universe = Universe(size=3, pool_names=("a", "b"), pool_of=pool_of)
    pool_of[0] = 1
    assert universe.pool_of.tolist() == [0, 1, -1]
    with pytest.raises(ValueError, match="read-only"):
        universe.pool_of[0] = 1


@settings(max_examples=30)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=6), st.integers(0, 9))
def test_constructors_agree(sizes, neutral):
    pools = {f"p{i}": size for i, size in enumerate(sizes)}
    size = sum(sizes) + neutral
    sized = Universe.sized(size, pools)
    assert sized.pool_sizes.tolist() == sizes
    assert sized.neutral_size == neutral
    labels = [None if i < 0 else f"p{i}" for i in sized.pool_of]
    named = Universe.named([str(i) for i in range(size)], labels)
    members = {name: np.flatnonzero(sized.pool_of == i) for i, name in enumerate(pools)}
    listed = Universe.from_pools(size, members)
    for other in (named, listed):
        assert other.pool_names == sized.pool_names
        np.testing.assert_array_equal(other.pool_of, sized.pool_of)


def test_named_and_numbered_objects_are_found():
    named = Universe.named(["x", "y", "7"], ["a", "b", ""])
    assert named.find(pl.Series(["7", "x", "7", "z", None, "X", " x"])).to_list() == [2, 0, 2, None, None, None, None]
    assert named.find(pl.Series([7, 0])).to_list() == [2, None]
    assert named.find(pl.Series([], dtype=pl.String)).dtype == pl.Int64
    numbered = Universe.sized(3, {"a": 1, "b": 1})
    assert numbered.find(pl.Series(["2", "0", "3", "-1", None, "", "x"])).to_list() == [2, 0, *[None] * 5]
    assert numbered.find(pl.Series(["02", "+2", " 2", "2.0", "1e0", "True"])).to_list() == [None] * 6
    assert numbered.find(pl.Series([2, 3, -1, None], dtype=pl.Int8)).to_list() == [2, None, None, None]
    assert numbered.find(pl.Series([2**64 - 1, 1], dtype=pl.UInt64)).to_list() == [None, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Universe.sized(0, {"a": 1, "b": 1}),
            f"size: must be an integer from 1 to {MAX_OBJECTS}, got 0",
        ),
        (lambda: Universe.sized(True, {"a": 1, "b": 1}), "size: must be an integer"),
        (lambda: Universe.sized(2.0, {"a": 1, "b": 1}), "size: must be an integer"),
        (lambda: Universe.sized(10**12, {"a": 1, "b": 1}), "size: must be an integer"),
        (lambda: Universe.sized(5, {}), "pools: must be at least two, got []"),
        (
            lambda: Universe.sized(5, {"a": 1}),
            "pools: must be at least two, got ['a']; with one pool",
        ),
        (
            lambda: Universe.sized(5, {"a": 1, "b": 0}),
            "pools.b: must have at least one object, got 0",
        ),
        (
            lambda: Universe.sized(5, {"a": 1, "b": -2}),
            "pools.b: must have at least one object, got -2",
        ),
        (
            lambda: Universe.sized(5, {"a": 1.5, "b": 2}),
            "pools.a: must have at least one object, got 1.5",
        ),
        (
            lambda: Universe.sized(5, {"a": 3, "b": 3}),
            "pools: must fit into the universe of 5 objects, got 6",
        ),
        (lambda: Universe.sized(5, {"": 3, "b": 1}), "pools: must have names, got ''"),
        (lambda: Universe.named([], []), "size: must be an integer"),
        (
            lambda: Universe.named(["x", "y"], ["a"]),
            "pools: must have one entry for each of 2 objects, got 1",
        ),
        (lambda: Universe.named(["x", "y"], ["a", None]), "pools: must be at least two, got ['a']"),
        (
            lambda: Universe.named(["x", "x"], ["a", "b"]),
            "objects: must list each object once, got 'x'",
        ),
        (lambda: Universe.named(["x", ""], ["a", "b"]), "objects: must have names, got ''"),
        (
            lambda: Universe.from_pools(5, {"a": [0, 1], "b": [1]}),
            "pools.b: must not overlap with pool 'a': both contain the object, got 1",
        ),
        (
            lambda: Universe.from_pools(5, {"a": [0, 0], "b": [1]}),
            "pools.a: must list each object once, got 0",
        ),
        (
            lambda: Universe.from_pools(5, {"a": [0], "b": [5]}),
            "pools.b: must be an object of the universe, a number from 0 to 4, got 5",
        ),
        (
            lambda: Universe.from_pools(5, {"a": [0], "b": []}),
            "pools.b: must have at least one object, got 0",
        ),
        (
            lambda: Universe.from_pools(["cnn.com", "x"], {"a": ["cnn.con"], "b": ["x"]}),
            "pools.a: must be an object of the universe, got 'cnn.con'; did you mean 'cnn.com'?",
        ),
        (
            lambda: Universe.from_pools(["x", "x"], {"a": ["x"]}),
            "objects: must list each object once",
        ),
        (
            lambda: Universe(size=3, pool_names=("a", "b"), pool_of=np.array([0, 1])),
            "pool_of: must have one entry for each of 3 objects, got (2,)",
        ),
        (
            lambda: Universe(size=2, pool_names=("a", "b"), pool_of=np.array([0, 2])),
            "pool_of: must hold integers from -1 to 1",
        ),
        (
            lambda: Universe(size=2, pool_names=("a", "b"), pool_of=np.array([0.0, 1.0])),
            "pool_of: must hold integers from -1 to 1",
        ),
        (
            lambda: Universe(size=2, pool_names=("a", "a"), pool_of=np.array([0, 1])),
            "pools: must have different names, got ['a', 'a']",
        ),
        (
            lambda: Universe(size=2, pool_names=("a", "b"), pool_of=np.array([0, 1]), objects=("x",)),
            "objects: must be 2 names, got 1",
        ),
        (
            lambda: Universe.from_pools(3, {"a": [True], "b": [2]}),
            "pools.a: must be an object of the universe, a number from 0 to 2, got True",
        ),
        (
            lambda: Universe.named(["x", " y"], ["a", "b"]),
            "objects: must not begin or end with white space, got ' y'",
        ),
        (
            lambda: Universe.sized(3, {"a": 1, "b ": 1}),
            "pools: must not begin or end with white space, got 'b '",
        ),
    ],
)
def test_what_is_wrong_is_said(make, message):
    with pytest.raises(InputError, match="^" + re.escape(message)):
        make()


OBJECTS = "object,pool,popularity\nx,a,2\ny,b,0.5\nz,,0\n"


def write(tmp_path, content, name="objects.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        OBJECTS,
        "\ufeff" + OBJECTS,
        OBJECTS.replace("\n", "\r\n") + "\r\n",
        "popularity,note, object,pool\n2,n,x,a\n.5,,y,b\n\n0,,z,\n",
        '"object","pool","popularity"\n"x","a","2"\n"y","b","5e-1"\n"z","","0"\n',
    ],
)
def test_reads_csv(tmp_path, content):
    universe, popularity = read_objects(write(tmp_path, content))
    assert universe.objects == ("x", "y", "z")
    assert universe.pool_of.tolist() == [0, 1, -1]
    assert popularity.tolist() == [2, 0.5, 0]


def test_reads_parquet(tmp_path):
    path = tmp_path / "objects.parquet"
    frame = pl.DataFrame({"object": [7, 8, 9], "pool": ["a", "b", None], "popularity": [2, 1, 0]})
    frame.write_parquet(path)
    universe, popularity = read_objects(path)
    assert universe.objects == ("7", "8", "9")
    assert universe.pool_of.tolist() == [0, 1, -1]
    assert popularity.tolist() == [2, 1, 0]


def test_popularity_is_optional(tmp_path):
    _, popularity = read_objects(write(tmp_path, "object,pool\nx,a\ny,b\n"))
    assert popularity is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must not be empty"),
        ("object,pool\n", "must have at least one row"),
        ("object,pol\nx,a\n", "must have a column 'pool', got ['object', 'pol']"),
        ("object,pool,pool\nx,a,b\n", "must not have two columns of one name"),
        ("object,pool\nx,a\ny,b,c\n", "row 2: must have 2 fields, got 3"),
        ("object,pool\nx\n", "row 1: must have 2 fields, got 1"),
        (
            "object,pool\nx,a\ny,b\nx,a\n",
            "row 3: an object must be listed once, row 1 has it too, got 'x'",
        ),
        (
            "object,pool\nx,a\ny,b\n\nx,b\n",
            "row 3: an object must be in one pool, row 1 and this one say 'a' and 'b', got 'x'",
        ),
        (
            "object,pool\nx,a\ny,b\nx,\n",
            "row 3: an object must be in one pool, row 1 and this one say 'a' and 'neutral'",
        ),
        ("object,pool\nx,a\n,b\n", "row 2: object must have a name, got ''"),
        ("object,pool\nx,a\ny,a \n", "row 2: pool must not begin or end with white space, got 'a '"),
        ("object,pool\nx,a\n y,b\n", "row 2: object must not begin or end with white space, got ' y'"),
        (
            "object,pool,popularity\nx,a,1\ny,b,nan\n",
            "row 2: popularity must be a finite number, at least 0, got 'nan'",
        ),
        (
            "object,pool,popularity\nx,a,-1\ny,b,1\n",
            "row 1: popularity must be a finite number, at least 0, got '-1'",
        ),
        (
            "object,pool,popularity\nx,a,\ny,b,1\n",
            "row 1: popularity must be a finite number, at least 0, got ''",
        ),
        ("object,pool,popularity\nx,a,inf\ny,b,1\n", "row 1: popularity must be a finite number"),
        ("object,pool\nx,a\ny,\n", "pools: must be at least two, got ['a']"),
        ('object,pool\n"x"y,a\n', "line 2: must be CSV: ',' expected after '\"'"),
        ('object,pool\n"x,a\n', "line 2: must be CSV: unexpected end of data"),
        (b"object,pool\nx,a\n\xe9,b\n", r"line 3: must be UTF-8 text, got b'\xe9'"),
    ],
)
def test_a_wrong_file_is_named_with_its_row(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_objects(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert len(str(caught.value).splitlines()) == 1


def test_a_wrong_parquet_file_is_named(tmp_path):
    path = write(tmp_path, "object,pool\n", "objects.parquet")
    with pytest.raises(InputError, match=r"objects\.parquet: must be a Parquet file: "):
        read_objects(path)
    frame = pl.DataFrame({"object": ["x", "y"], "pool": ["a", "b"], "popularity": [1.0, None]})
    frame.write_parquet(path)
    with pytest.raises(InputError, match=r"row 2: popularity must be a finite number, .* got None"):
        read_objects(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for name, rule in [
        ("gone.csv", "there is no such file"),
        ("folder.csv", "must be a file, is a folder"),
        ("objects.txt", r"must end in \.csv or \.parquet"),
    ]:
        with pytest.raises(InputError, match=f"{name}: {rule}$"):
            read_objects(tmp_path / name)
