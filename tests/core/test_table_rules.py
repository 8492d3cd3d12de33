"""One set of rules: whichever command reads a table, a column of a kind holds the same."""

import polars as pl
import pytest

from poolscope.core.errors import InputError
from poolscope.core.tables import RowRange, open_table, read_table, reading
from poolscope.mechanisms import make
from poolscope.population.popularity import read_popularity
from poolscope.population.recorded import read_traces
from poolscope.population.universe import Universe, read_objects, read_pools
from poolscope.reports.files import read_reports
from poolscope.scenario.build import read_matrix, read_samples
from poolscope.scenario.scenario import parse
from poolscope.workflows.obfuscate import obfuscate

NUMBERED = Universe.sized(4, {"p": 2, "q": 1})
NAMED = Universe.named(["ann's", "7", "x y", "é"], ["p", "p", "q", None])
SCENARIO = "[universe]\nsize = 4\npools = { p = 2, q = 1 }\n[mechanism]\nkind = 'identity'\n"


def obfuscated(path, universe):
    """The devices' reports, whose one value is the object itself."""
    out = path.with_name("sent.csv")
    out.unlink(missing_ok=True)
    text = SCENARIO
    if universe is NAMED:
        path.with_name("objects.csv").write_text("object,pool\nann's,p\n7,p\nx y,q\né,\n")
        text = SCENARIO.replace("size = 4\npools = { p = 2, q = 1 }", "objects = 'objects.csv'")
    obfuscate(path, parse(text, name="rules", file=str(path.with_name("rules.toml"))), out)


USERS, REPORTS = {"user": ["a", "b", "a", "c"]}, {"report": [0, 1, 2, 3]}

#: What reads a table -> its other columns, the column of objects, and how it is read.
READERS = {
    "pools": ({"pool": ["p", "p", "q", None]}, "object", read_pools),
    "popularity": ({"popularity": [1.0, 2.0, 3.0, 4.0]}, "object", read_popularity),
    "traces": (USERS, "object", read_traces),
    "obfuscate": (USERS, "object", obfuscated),
    "reports": (USERS, "value", lambda path, universe: read_reports(path, make("identity", 4, {}), universe)),
    "matrix": (REPORTS | {"probability": [1.0] * 4}, "object", read_matrix),
    "samples": (REPORTS, "object", read_samples),
}


def write(folder, columns, ending):
    path = folder / f"table.{ending}"
    frame = pl.DataFrame(columns)
    if ending == "csv":
        frame.cast(pl.String).write_csv(path)
    else:
        frame.write_parquet(path)
    return path


@pytest.mark.default_cases("*-parquet", "reports-csv", "pools-csv")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("name", READERS)
def test_objects_are_called_alike_everywhere(tmp_path, name, ending):
    columns, column, read = READERS[name]
    named = pl.Series(NAMED.objects)
    for universe, objects in (
        (NAMED, named),
        (NAMED, named.cast(pl.Categorical)),
        (NAMED, named.cast(pl.Enum(named))),
        (NUMBERED, ["0", "1", "2", "3"]),
        (NUMBERED, pl.Series([0, 1, 2, 3], dtype=pl.UInt8)),
    ):
        read(write(tmp_path, columns | {column: objects}, ending), universe)


NAMES = [
    (NAMED, ["7", None, "x y", "é"], "row 2: {} must have a name"),
    (NAMED, ["7", "", "x y", "é"], "row 2: {} must have a name, got ''"),
    (NAMED, ["7", "ann's", " é", "é"], "row 3: {} must not begin or end with white space, got ' é'"),
    (NAMED, ["7", "ann's\u2003", "x y", "é"], "row 2: {} must not begin or end with white space, got "),
]
UNKNOWN = [
    (NAMED, ["7", "anns", "x y", "é"], "row 2: {} must be an object of the universe, got 'anns'; did you mean"),
    (NUMBERED, ["0", "1", "03", "2"], "row 3: {} must be an object of the universe, a number from 0 to 3, got '03'"),
    (NUMBERED, ["0", "1", "2", "+3"], "row 4: {} must be an object of the universe, a number from 0 to 3, got '+3'"),
    (NUMBERED, ["0", "1", "2", "4"], "row 4: {} must be an object of the universe, a number from 0 to 3, got '4'"),
]
MISTYPED = [
    (NAMED, [0.0, 1.0, 2.0, 3.0], "column '{}' must hold texts or integers, got 'Float64'"),
    (NUMBERED, [True, False, True, True], "column '{}' must hold texts or integers, got 'Boolean'"),
    (NAMED, [["7"], ["7"], ["é"], ["é"]], "column '{}' must hold texts or integers, got 'List(String)'"),
    (NAMED, [None] * 4, "column '{}' must hold texts or integers, got 'Null'"),
]


def refused(path, read, universe, message):
    with pytest.raises(InputError) as caught:
        read(path, universe)
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize("name", READERS)
def test_names_of_objects_follow_one_rule(tmp_path, name):
    columns, column, read = READERS[name]
    for universe, objects, message in NAMES + (UNKNOWN if name != "traces" else []):
        for ending in ("csv", "parquet"):
            refused(write(tmp_path, columns | {column: objects}, ending), read, universe, message.format(column))
    for universe, objects, message in MISTYPED:
        refused(write(tmp_path, columns | {column: objects}, "parquet"), read, universe, message.format(column))


@pytest.mark.parametrize("name", ["traces", "obfuscate", "reports"])
def test_names_of_users_follow_the_same(tmp_path, name):
    columns, column, read = READERS[name]
    columns = columns | {column: ["0", "1", "2", "3"]}
    for _, users, message in NAMES:
        for ending in ("csv", "parquet"):
            refused(write(tmp_path, columns | {"user": users}, ending), read, NUMBERED, message.format("user"))
    for _, users, message in MISTYPED:
        refused(write(tmp_path, columns | {"user": users}, "parquet"), read, NUMBERED, message.format("user"))


@pytest.mark.parametrize("read", [lambda path, _: read_objects(path), read_pools], ids=["objects", "pools"])
def test_names_of_pools_follow_them_too(tmp_path, read):
    columns = {"object": ["0", "1", "2", "3"]}
    for ending in ("csv", "parquet"):
        for pools in (["p", "q", None, ""], pl.Series(["p", "q", None, "p"], dtype=pl.Categorical), [0, 7, None, 0]):
            found = read(write(tmp_path, columns | {"pool": pools}, ending), NUMBERED)
            universe = found[0] if isinstance(found, tuple) else found
            assert universe.pool_names == tuple(str(pool) for pool in pools[:2])
            assert universe.pool_of.tolist()[:3] == [0, 1, -1]
        path = write(tmp_path, columns | {"pool": ["p", "q", "p ", None]}, ending)
        refused(path, read, NUMBERED, "row 3: pool must not begin or end with white space, got 'p '")
    for _, pools, message in MISTYPED:
        refused(write(tmp_path, columns | {"pool": pools}, "parquet"), read, NUMBERED, message.format("pool"))


@pytest.mark.parametrize(
    "read",
    [lambda path, _: read_objects(path), read_pools, read_popularity],
    ids=["objects", "pools", "popularity"],
)
def test_an_object_is_listed_once(tmp_path, read):
    columns = {"object": ["0", "2", "3", "2"], "pool": ["p", "q", None, "q"], "popularity": [1.0] * 4}
    for ending in ("csv", "parquet"):
        path = write(tmp_path, columns, ending)
        refused(path, read, NUMBERED, "row 4: an object must be listed once, row 2 has it too, got '2'")


@pytest.mark.parametrize("read", [lambda path, _: read_objects(path), read_popularity], ids=["objects", "popularity"])
def test_popularities_are_numbers(tmp_path, read):
    columns = {"object": ["0", "1", "2", "3"], "pool": ["p", "q", None, "q"]}
    for numbers in (["1", ".5", "5e-1", "+2"], [1, 2, 3, 4], [0.5, 1.0, 2.0, 1e300]):
        read(write(tmp_path, columns | {"popularity": numbers}, "csv"), NUMBERED)
    rule = "popularity must be a finite number, at least 0"
    for wrong in ("-1", "nan", "inf", "1e400", "1_0", " 2", "x", None):
        path = write(tmp_path, columns | {"popularity": ["1", wrong, "2", "3"]}, "csv")
        refused(path, read, NUMBERED, f"row 2: {rule}, got {wrong or ''!r}")
    path = write(tmp_path, columns | {"popularity": ["1", "2", "3", "4"]}, "parquet")
    refused(path, read, NUMBERED, "column 'popularity' must hold numbers, got 'String'")


def test_a_pair_is_listed_once_and_its_row_is_said(tmp_path):
    columns = {"object": [0, 1, 0, 2], "report": [1, 1, 1, 0], "probability": [0.5] * 4}
    path = write(tmp_path, columns, "parquet")
    refused(path, read_matrix, NUMBERED, "row 3: a pair must be listed once, got '0, 1'")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_small_table_may_take_several_batches(tmp_path, monkeypatch, ending):
    """Its rows are counted over them, and categories of one are those of all."""
    monkeypatch.setattr(reading, "MAX_ROWS", 64)
    monkeypatch.setattr(reading, "PARSING_FACTOR", 1 << 30)
    names = [f"{'name' * 40} {i}" for i in range(300)]
    objects = pl.Series(names, dtype=pl.Categorical)
    path = write(tmp_path, {"object": objects, "pool": ["p", "q"] * 150}, ending)
    assert read_objects(path)[0].objects == tuple(names)
    path = write(tmp_path, {"object": [*names, names[250]], "pool": ["p", "q"] * 150 + ["p"]}, ending)
    with pytest.raises(InputError, match="row 301: an object must be listed once, row 251 has it too"):
        read_objects(path)


def test_categories_are_texts_however_rows_are_read(tmp_path):
    """By whoever reads a folder whose files have different categories, and by whoever is only told of some rows."""
    for name, users in (("1", ["b", "a", "b"]), ("2", ["c", "a", "c"])):
        pl.DataFrame({"user": pl.Series(users, dtype=pl.Categorical)}).write_parquet(tmp_path / f"{name}.parquet")
    read = [batch.names("user") for batch in open_table(tmp_path).batches(("user",))]
    assert pl.concat(read).equals(pl.Series(["b", "a", "b", "c", "a", "c"]))
    file = tmp_path / "2.parquet"
    some = RowRange(file=file, first=2, count=2, size=0, place=file, start=1, text=False).read(("user",))
    assert some.names("user").equals(pl.Series(["a", "c"]))


@pytest.mark.parametrize("name", sorted(set(READERS) - {"obfuscate", "reports", "traces"}))
def test_what_a_scenario_names_is_one_file(tmp_path, name):
    folder = tmp_path / "folder.parquet"
    folder.mkdir()
    refused(folder, READERS[name][2], NUMBERED, "must be a file, is a folder")


def test_columns_that_may_be_missing(tmp_path):
    path = write(tmp_path, {"a": ["1"], "c": ["2"], "d": ["3"]}, "csv")
    assert read_table(path, ("c",), optional=("b", "a")).frame.columns == ["c", "a"]
    with pytest.raises(InputError, match=r"must have a column 'cc', got \['a', 'c', 'd'\]; did you mean 'c'\?"):
        read_table(path, ("cc",), optional=("a",))
