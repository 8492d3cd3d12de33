"""Reports in files: every mechanism comes back as it was, and whatever is wrong is said with file and row."""

import inspect

import numpy as np
import polars as pl
import pytest
from cases.report_files import write_reports

from poolscope.core.errors import InputError
from poolscope.core.randomness import children
from poolscope.core.tables import open_table
from poolscope.mechanisms import MECHANISMS, make
from poolscope.population.universe import Universe
from poolscope.reports.files import blocks, read_reports

LARGE = 130
NUMBERED = Universe.sized(LARGE, {"a": 30, "b": 40})
NAMED = Universe.named([f"object {i}é" for i in range(LARGE)], ["a"] * 30 + ["b"] * 40 + [None] * (LARGE - 70))
FORMATS = ("parquet", "csv")


NEEDED = {
    "epsilon": 2.0,
    "m": 128,
    "hashes": 16,
    "matrix": np.full((LARGE, 9), 1 / 9),
    "samples": np.stack([np.arange(LARGE), np.arange(LARGE) % 9], axis=1),
}


def mechanism(kind):
    """Any mechanism, with the parameters that it cannot do without."""
    known = inspect.signature(MECHANISMS[kind]).parameters.values()
    return make(kind, LARGE, {p.name: NEEDED[p.name] for p in known if p.name in NEEDED})


def some_reports(kind, count=50):
    objects = np.arange(count) * 7 % LARGE
    return mechanism(kind).report(objects, children(np.uint64(3), np.arange(count)))


SMALL = Universe.named([f"thing {i}" for i in range(6)], ["a", "a", "b", "b", None, None])
CMS = make("cms", 6, {"epsilon": 2.0, "m": 12, "hashes": 8})
HCMS = make("hcms", 6, {"epsilon": 2.0, "m": 16, "hashes": 8})
IDENTITY = make("identity", 6, {})


@pytest.mark.parametrize("kind", MECHANISMS)
def test_a_mechanism_says_what_its_columns_hold(kind):
    about = mechanism(kind)
    assert tuple(some_reports(kind)) == tuple(about.report_columns)


@pytest.mark.default_cases(
    "*-csv-named",
    "cms-parquet-numbered",
    "grr-parquet-numbered",
    "she-parquet-numbered",
    "pi-rappor-parquet-numbered",
    "hcms-parquet-numbered",
)
@pytest.mark.parametrize("universe", [NUMBERED, NAMED], ids=["numbered", "named"])
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_reports_come_back_as_they_were(tmp_path, kind, ending, universe):
    about, reports = mechanism(kind), some_reports(kind)
    users = pl.Series([f"user {i % 7}" for i in range(50)])
    path = tmp_path / f"reports.{ending}"
    write_reports(path, users, reports, about, universe)
    who, found = read_reports(path, about, universe)
    assert who.to_list() == users.to_list()
    assert set(found) == set(reports)
    for name, column in reports.items():
        np.testing.assert_array_equal(found[name], column)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    with pytest.raises(InputError, match=r"the output is there already"):
        write_reports(path, users, reports, about, universe)


def test_objects_are_called_by_their_names(tmp_path):
    for universe, expected in ((SMALL, ["thing 0", "thing 5"]), (Universe.sized(6, {"a": 2, "b": 2}), ["0", "5"])):
        path = tmp_path / f"{expected[0]}.csv"
        write_reports(path, pl.Series(["u", "u"]), {"value": np.array([0, 5])}, IDENTITY, universe)
        assert pl.read_csv(path, infer_schema=False)["value"].to_list() == expected


@pytest.mark.parametrize("dtype", [pl.Int64, pl.UInt16, pl.String])
def test_the_type_of_users_is_kept(tmp_path, dtype):
    users = pl.Series([3, 1, 3]).cast(dtype)
    path = tmp_path / "reports.parquet"
    pl.DataFrame({"user": users, "value": ["thing 1"] * 3, "other": [0.5] * 3}).write_parquet(path)
    assert read_reports(path, IDENTITY, SMALL)[0].equals(users)


def test_categories_are_texts_and_numbers_may_be_names(tmp_path):
    path = tmp_path / "reports.parquet"
    years = Universe.named(["2019", "2020", "2021"], ["a", "b", None])
    frame = pl.DataFrame({"user": ["u", "v"], "value": [2021, 2019]})
    frame.with_columns(pl.col("user").cast(pl.Categorical)).write_parquet(path)
    users, reports = read_reports(path, make("identity", 3, {}), years)
    assert users.dtype == pl.String
    assert reports["value"].tolist() == [2, 0]


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path):
    folder = tmp_path / "reports"
    folder.mkdir()
    for name, user in (("2", "b"), ("10", "a"), ("3[x]*", "c"), (".hidden", "h"), ("_log", "l")):
        pl.DataFrame({"user": [user], "value": ["thing 3"]}).write_parquet(folder / f"{name}.parquet")
    (folder / "notes.txt").write_text("no report")
    with pytest.warns(UserWarning, match=r"ignored 'notes.txt'"):
        assert read_reports(folder, IDENTITY, SMALL)[0].to_list() == ["a", "b", "c", "l"]
    (folder / "notes.txt").unlink()
    pl.DataFrame({"user": [4], "value": ["thing 3"]}).write_parquet(folder / "4.parquet")
    with pytest.raises(
        InputError, match=r"4\.parquet: column 'user' must hold String as in the earlier files, got 'Int64'"
    ):
        read_reports(folder, IDENTITY, SMALL)
    with pytest.raises(InputError, match="must have Parquet files"):
        open_table(tmp_path)


@pytest.mark.parametrize("ending", FORMATS)
def test_batches_and_blocks_change_nothing(tmp_path, ending):
    kind, count = "cms", 300
    about, reports = mechanism(kind), some_reports(kind, count)
    path = tmp_path / f"reports.{ending}"
    users = pl.Series(np.arange(count) % 13).cast(pl.String)
    write_reports(path, users, reports, about, NUMBERED)
    for rows, most in ((1, 1), (100, 1), (5000, 1 << 30)):
        found = list(blocks(open_table(path), about.report_columns, NUMBERED, rows=rows, max_bytes=most, reuse=False))
        assert all(len(who) == rows for who, _ in found[:-1])
        assert pl.concat([who for who, _ in found]).equals(users)
        for name, column in reports.items():
            np.testing.assert_array_equal(np.concatenate([part[name] for _, part in found]), column)


@pytest.mark.parametrize("ending", FORMATS)
def test_a_report_without_ones_is_one(tmp_path, ending):
    """In CSV its row is a user and nothing."""
    path, about = tmp_path / f"reports.{ending}", make("sue", 6, {"epsilon": 2.0})
    bits = np.array([[3], [0], [32]], dtype=np.uint8)
    write_reports(path, pl.Series(["a", "b", "a"]), {"bits": bits}, about, SMALL)
    users, reports = read_reports(path, about, SMALL)
    assert users.to_list() == ["a", "b", "a"]
    np.testing.assert_array_equal(reports["bits"], bits)


CSV = "user,hash,ones\n"


@pytest.mark.parametrize(
    "text",
    [
        CSV + "a,1,0 3\nb,2,\n",
        CSV + "a,1,0 3\nb,2,",
        "\ufeff" + CSV + "a,1,0 3\r\nb,2,\r\n",
        CSV + "\na,1,0 3\n\n\nb,2,\n\n",
        CSV + 'a,1,"0 3"\n"b","2",""\n',
        CSV + "a,1, 0  3 \nb,2,  \n",
        "when, ones ,user,hash\n9,0 3,a,1\n8,,b,2\n",
        'when,ones,user,hash\n"9\n""x"",\n",0 3,a,1\n8,,b,2\n',
    ],
)
def test_csv_in_any_dress(tmp_path, text):
    path = tmp_path / "reports.csv"
    path.write_bytes(text.encode())
    users, reports = read_reports(path, CMS, SMALL)
    assert users.to_list() == ["a", "b"]
    assert reports["hash"].tolist() == [1, 2]
    assert reports["bits"].tolist() == [[9, 0], [0, 0]]


def test_quotes_over_the_edge_of_a_batch(tmp_path):
    path = tmp_path / "reports.csv"
    names = [f"{'x' * (i % 50)},\n{i}" for i in range(2000)]
    pl.DataFrame({"user": names, "value": ["thing 1"] * 2000}).write_csv(path)
    found = [who for who, _ in blocks(open_table(path), IDENTITY.report_columns, SMALL, rows=100, max_bytes=1)]
    assert pl.concat(found).to_list() == names


# What is wrong with a CSV file of CMS, HCMS or identity, and what is said of it.
WRONG_CSV = [
    (CMS, b"", "must not be empty"),
    (CMS, CSV.encode(), "must have at least one row"),
    (CMS, b"user,hash,bit\na,1,3\n", "must have a column 'ones', got ['user', 'hash', 'bit']"),
    (
        CMS,
        b"user,hash,bits\na,1,3\n",
        "row 1: bits must be 12 characters 0 and 1, or 4 hexadecimal digits (m = 12), got '3'",
    ),
    (CMS, b"user,hash,hash,ones\n", "must not have two columns of one name"),
    (CMS, CSV.encode() + b"a,8,3\n", "row 1: hash must be an integer from 0 to 7, got '8'"),
    (CMS, CSV.encode() + b"a,1,3\na,-1,3\n", "row 2: hash must be an integer from 0 to 7, got '-1'"),
    (CMS, CSV.encode() + b"a,1.0,3\n", "row 1: hash must be an integer from 0 to 7, got '1.0'"),
    (CMS, CSV.encode() + b"a,nan,3\n", "row 1: hash must be an integer from 0 to 7, got 'nan'"),
    (CMS, CSV.encode() + b"a,1,3\na,x,3\n", "row 2: hash must be an integer from 0 to 7, got 'x'"),
    (CMS, CSV.encode() + b"a,,3\n", "row 1: hash must be an integer from 0 to 7, got ''"),
    (CMS, CSV.encode() + b"a,1,3\n,1,3\n", "row 2: user must have a name, got ''"),
    (CMS, CSV.encode() + b'a,1,3\n"",1,3\n', "row 2: user must have a name"),
    (CMS, CSV.encode() + b"a,1,3\nb,,\n", "row 2: hash must be an integer from 0 to 7, got ''"),
    (
        CMS,
        CSV.encode() + b"a,1,3 12\n",
        "row 1: ones must be positions from 0 to 11, each once, separated by spaces, got '12'",
    ),
    (CMS, CSV.encode() + b"a,1,3\na,1,x\n", "row 2: ones must be positions from 0 to 11"),
    (
        CMS,
        CSV.encode() + b"a,1,3 4 3\n",
        "row 1: ones must be positions from 0 to 11, each once, separated by spaces, got '3 4 3'",
    ),
    (CMS, CSV.encode() + b"a,1,3\na,1\n", "row 2: must have 3 fields, got 2"),
    (CMS, CSV.encode() + b"a,1,3\na,1,3,4\n", "row 2: must have 3 fields, got 4"),
    (CMS, CSV.encode() + b"a,1\na,1,3,4\n", "row 1: must have 3 fields, got 2"),
    (CMS, CSV.encode() + b'a,1,3\na,1,"3', "line 3: must be CSV: unexpected end of data"),
    (CMS, CSV.encode() + "a,1,3\nbé,1,3\n".encode("latin-1"), "line 3: must be UTF-8 text, got b'\\xe9'"),
    (CMS, CSV.encode("utf-16"), "line 1: must be UTF-8 text, got b'\\xff'"),
    (HCMS, b"user,hash,coordinate,bit\na,1,16,1\n", "row 1: coordinate must be an integer from 0 to 15, got '16'"),
    (HCMS, b"user,hash,coordinate,bit\na,1,3,0\n", "row 1: bit must be 1 or -1, got '0'"),
    (HCMS, b"user,hash,coordinate\na,1,3\n", "must have a column 'bit'"),
    (
        IDENTITY,
        b"user,value\na,thing 1\na,thin 2\n",
        "row 2: value must be an object of the universe, got 'thin 2'; did you mean 'thing 2'?",
    ),
    (IDENTITY, b"user,value\na,\n", "row 1: value must have a name, got ''"),
]


@pytest.mark.parametrize(("about", "content", "message"), WRONG_CSV, ids=[m[:60] for _, _, m in WRONG_CSV])
def test_wrong_csv_is_one_line(tmp_path, about, content, message):
    path = tmp_path / "reports.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_reports(path, about, SMALL)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert str(caught.value).isprintable()


FINE = {"user": ["a", "a", "b"], "hash": [0, 1, 2], "bits": [b"\x00\x01", b"\x01\x08", b"\xff\x0f"]}
WRONG_PARQUET = [
    (CMS, {"hash": None}, "must have a column 'hash', got ['user', 'bits']"),
    (CMS, {"user": None}, "must have a column 'user', got ['hash', 'bits']"),
    (CMS, {"hash": [0, 8, 9]}, "row 2: hash must be an integer from 0 to 7, got 8"),
    (CMS, {"hash": [0, 1, -1]}, "row 3: hash must be an integer from 0 to 7, got -1"),
    (CMS, {"hash": [0, None, 1]}, "row 2: hash must be an integer from 0 to 7, got None"),
    (CMS, {"hash": pl.Series([0, 2**64 - 1, 1], dtype=pl.UInt64)}, "row 2: hash must be an integer from 0 to 7"),
    (CMS, {"hash": [0.0, float("nan"), 1.0]}, "column 'hash' must hold integers, got 'Float64'"),
    (CMS, {"hash": ["0", "1", "2"]}, "column 'hash' must hold integers, got 'String'"),
    (CMS, {"hash": [True, False, True]}, "column 'hash' must hold integers, got 'Boolean'"),
    (CMS, {"bits": ["ab", "cd", "ef"]}, "row 1: bits must be 12 characters 0 and 1, or 4 hexadecimal digits (m = 12)"),
    (CMS, {"bits": [1, 2, 3]}, "column 'bits' must hold bytes, got 'Int64'"),
    (CMS, {"bits": [b"ab", b"a", b"ab"]}, "row 2: bits must have 2 bytes (m = 12), got 1"),
    (CMS, {"bits": [b"\x00\x00", b"\x00\x00", b"\x00\x00\x00"]}, "row 3: bits must have 2 bytes (m = 12), got 3"),
    (CMS, {"bits": [None, b"\x00\x00", b"\x00\x00"]}, "row 1: bits must have 2 bytes (m = 12), got None"),
    (CMS, {"bits": [b"\x00\x0f", b"\x00\x20", b"\x00\x10"]}, "row 2: bits must have no bit set beyond m = 12, got 13"),
    (CMS, {"bits": ["10" * 6, "1x" * 6, "10" * 6]}, "row 2: bits must be 12 characters 0 and 1, got '1x1x1x1x1x1x'"),
    (CMS, {"bits": [[1.0, 0.0] * 6] * 3}, "column 'bits' must hold bytes, lists of 12 booleans, or text, got 'List("),
    (CMS, {"bits": [[1, 0] * 6, [1, 0], [1]]}, "row 2: bits must be 12 booleans (m = 12), got 2"),
    (CMS, {"bits": [[1, 0] * 6, None, [1]]}, "row 2: bits must be 12 booleans (m = 12), got None"),
    (CMS, {"bits": [[1, 0] * 6, [1, 2] * 6, [1, 0] * 6]}, "row 2: bits must be 12 booleans, or 12 0 and 1, got 2"),
    (
        CMS,
        {"bits": [[True] * 12, [None] * 12, [True] * 12]},
        "row 2: bits must be 12 booleans, or 12 0 and 1, got None",
    ),
    (
        CMS,
        {"bits": None, "ones": [[1.0]] * 3},
        "column 'ones' must hold lists or texts of positions, got 'List(Float64)'",
    ),
    (CMS, {"bits": None, "ones": [[1], None, [2]]}, "row 2: ones must be positions from 0 to 11, each once, got None"),
    (
        CMS,
        {"bits": None, "ones": [[1], [2, None], [2]]},
        "row 2: ones must be positions from 0 to 11, each once",
    ),
    (CMS, {"bits": None, "ones": [1, 2, 3]}, "column 'ones' must hold lists or texts of positions, got 'Int64'"),
    (CMS, {"user": ["a", None, "b"]}, "row 2: user must have a name, got None"),
    (CMS, {"user": [1, None, 2]}, "row 2: user must have a name, got None"),
    (CMS, {"user": ["a", "", "b"]}, "row 2: user must have a name, got ''"),
    (CMS, {"user": [1.0, float("nan"), 2.0]}, "column 'user' must hold texts or integers, got 'Float64'"),
    (CMS, {"hash": [0, None, 1], "bits": [b"ab", None, b"ab"]}, "row 2: hash must be an integer from 0 to 7, got None"),
    (IDENTITY, {"value": [0.5] * 3}, "column 'value' must hold texts or integers, got 'Float64'"),
    (IDENTITY, {"value": ["thing 1", "x", "y"]}, "row 2: value must be an object of the universe, got 'x'; known: "),
]


@pytest.mark.parametrize(("about", "change", "message"), WRONG_PARQUET, ids=[m[:60] for _, _, m in WRONG_PARQUET])
def test_wrong_parquet_is_one_line(tmp_path, about, change, message):
    path = tmp_path / "reports.parquet"
    columns = {name: column for name, column in {**FINE, **change}.items() if column is not None}
    pl.DataFrame(columns).write_parquet(path)
    with pytest.raises(InputError) as caught:
        read_reports(path, about, SMALL)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert str(caught.value).isprintable()


def test_numbered_objects(tmp_path):
    path = tmp_path / "reports.parquet"
    universe = Universe.sized(6, {"a": 2, "b": 2})
    for values in ([5, 0], ["5", "0"]):
        pl.DataFrame({"user": [1, 2], "value": values}).write_parquet(path)
        assert read_reports(path, IDENTITY, universe)[1]["value"].tolist() == [5, 0]
    pl.DataFrame({"user": [1, 2], "value": [5, 6]}).write_parquet(path)
    with pytest.raises(
        InputError, match=r"row 2: value must be an object of the universe, a number from 0 to 5, got 6"
    ):
        read_reports(path, IDENTITY, universe)


def test_rows_are_counted_over_batches(tmp_path):
    path = tmp_path / "reports.parquet"
    hashes = np.zeros(1000, dtype=np.int64)
    hashes[777] = 8
    pl.DataFrame({"user": ["a"] * 1000, "hash": hashes, "bits": [b"\x00\x00"] * 1000}).write_parquet(path)
    with pytest.raises(InputError, match="row 778: hash"):
        list(blocks(open_table(path), CMS.report_columns, SMALL, rows=64, max_bytes=1))
    path = tmp_path / "reports.csv"
    path.write_text(CSV + "".join(f"a,{h},3\n" for h in hashes))
    with pytest.raises(InputError, match="row 778: hash"):
        list(blocks(open_table(path), CMS.report_columns, SMALL, rows=64, max_bytes=1))


def test_files_that_are_none(tmp_path):
    path = tmp_path / "reports.parquet"
    with pytest.raises(InputError, match=r"reports\.parquet: there is no such file"):
        read_reports(path, CMS, SMALL)
    with pytest.raises(InputError, match=r"must end in \.parquet, \.csv, \.tsv, \.jsonl or \.arrow, also with \.gz"):
        read_reports(tmp_path / "reports.xlsx", CMS, SMALL)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="must be a Parquet file"):
        read_reports(path, CMS, SMALL)
    pl.DataFrame(FINE).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"reports\.parquet: must be a Parquet file: "):
        read_reports(path, CMS, SMALL)
    pl.DataFrame(FINE).clear().write_parquet(path)
    with pytest.raises(InputError, match=r"reports\.parquet: must have at least one row"):
        read_reports(path, CMS, SMALL)


def test_outputs_that_cannot_be(tmp_path):
    args = pl.Series(["a"]), {"value": np.array([1])}, IDENTITY, SMALL
    for name, message in (
        ("reports.txt", "an output must end in .csv or .parquet"),
        ("gone/reports.csv", "the output's folder must exist"),
        (".", "an output must end in .csv or .parquet"),
    ):
        with pytest.raises(InputError, match=message):
            write_reports(tmp_path / name, *args)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="an output must be a file, is a folder"):
        write_reports(tmp_path / "folder.csv", *args)
    assert [p.name for p in tmp_path.iterdir()] == ["folder.csv"]
