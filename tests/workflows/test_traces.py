"""Reading recorded data, and making traces of it."""

import gzip
import json
import re
from pathlib import Path

import polars as pl
import pytest

from poolscope.core.errors import InputError
from poolscope.population.universe import read_objects
from poolscope.workflows.traces.extract import describe, make_traces
from poolscope.workflows.traces.sources import SourceColumns, ordered, own_words, read_rows

WHO_WHAT = SourceColumns("who", "what")
ROWS = [(1, "ann", "👍 x"), (2, "bob", ""), (3, "ann", "🙏🏽\n👍")]


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def as_csv(rows):
    return "day,who,what\r\n" + "".join(f'1,{who},"{what}"\r\n' for _, who, what in rows)


def as_lines(rows):
    return "\n".join(json.dumps({"who": who, "what": what}) for _, who, what in rows)


@pytest.mark.parametrize("name", ["t.csv", "t.v2.CSV", "t.csv.gz", "t.jsonl", "t.jsonl.gz", "t.ndjson", "t.parquet"])
def test_every_format_gives_the_same_rows(tmp_path, name):
    path = tmp_path / name
    if name.endswith("parquet"):
        pl.DataFrame({"what": [r[2] for r in ROWS], "who": [r[1] for r in ROWS]}).write_parquet(path)
    else:
        write(path, as_csv(ROWS) if "csv" in name.lower() else as_lines(ROWS))
    assert list(read_rows(path, WHO_WHAT)) == ROWS


def test_integers_lists_and_nulls_are_cells_too(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"who": [7, 8], "what": [["a b", "c"], None]}).write_parquet(path)
    assert list(read_rows(path, WHO_WHAT)) == [(1, "7", ["a b", "c"]), (2, "8", "")]


def test_a_byte_order_mark_and_blank_lines_do_not_matter(tmp_path):
    table = write(tmp_path / "t.csv", b"\xef\xbb\xbfwho,what\n\nann,x\n\n")
    lines = write(tmp_path / "t.jsonl", b'\xef\xbb\xbf{"who": "ann", "what": "x"}\n\n')
    assert list(read_rows(table, WHO_WHAT)) == list(read_rows(lines, WHO_WHAT)) == [(1, "ann", "x")]


def post(name, text, time=None):
    return {"screen_name": name, "user_id": "1", "text": text, "link": "l"} | ({"time": time} if time else {})


def test_days_of_the_archive_are_read_by_name_and_time(tmp_path):
    late, early = "2020-01-02T10:00:00-05:00", "2020-01-02T14:00:00+00:00"
    write(tmp_path / "2020-01-02.json", json.dumps([post("a", "2", late), post("b", "1", early), post("c", "0")]))
    write(tmp_path / "2020-01-01.json", json.dumps([post("a", "x")]))
    write(tmp_path / "2019-12-31.json", "[]")
    write(tmp_path / "README.md", "")
    with pytest.warns(UserWarning, match=r"ignored 'README.md', which are not .json files of the archive"):
        by_folder = ordered([tmp_path])
    assert [path.name for path in by_folder] == ["2019-12-31.json", "2020-01-01.json", "2020-01-02.json"]
    assert ordered(reversed(by_folder)) == by_folder
    rows = [row for path in by_folder for row in read_rows(path, SourceColumns("screen_name", "text"))]
    assert rows == [(1, "a", "x"), (3, "c", "0"), (2, "b", "1"), (1, "a", "2")]


def test_tables_are_read_in_the_order_given(tmp_path):
    paths = [tmp_path / "b.csv", tmp_path / "a.json"]
    assert ordered(paths) == paths


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("RT @cnn 👍", ""),
        ("so true 🙏 QT @cnn 👍", "so true 🙏"),
        ("see https://x.org/a http://pbs.twimg.com/m.jpg", "see https://x.org/a  "),
        ("https://t.co/abc https://www.twitter.com/a/1 https://nott.co/x", "    https://nott.co/x"),
        ("ART @cnn", "ART @cnn"),
    ],
)
def test_own_words(text, own):
    assert own_words(text).replace(" ", "") == own.replace(" ", "")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "must not be empty"),
        ("t.csv", "who,what\n", "must have at least one row"),
        ("t.jsonl", "\n\n", "must have at least one row"),
        ("t.csv", "wh0,what\na,b\n", "must have a column 'who', got ['wh0', 'what']; did you mean 'wh0'?"),
        ("t.csv", "who,text\na,b\n", "must have a column 'what', got ['who', 'text']; expected: who, what"),
        ("t.csv", "who,who,what\na,b,c\n", "must not have two columns of one name, got ['who', 'who', 'what']"),
        ("t.csv", "who,what\na,b\na\n", "row 2: must have 2 fields, got 1"),
        ("t.csv", 'who,what\na,"b\n', "line 2: must be CSV: unexpected end of data"),
        ("t.csv", "who,what\n,b\n", "row 1: who must not be empty, got ''"),
        ("t.csv", "who,what\na,b\n a,b\n", "row 2: who must not begin or end with white space, got ' a'"),
        ("t.csv", "who,what\na,b\nZo\xeb,c\n".encode("latin-1"), "line 3: must be UTF-8 text, got b'\\xeb'"),
        ("t.csv", "who,what\na,b\n".encode("utf-16"), "line 1: must be UTF-8 text, got b'\\xff'"),
        ("t.jsonl", '{"who": "a", "what": "b"}\n{"who"', "line 2: must be JSON: Expecting ':' delimiter"),
        ("t.jsonl", "[1]", "row 1: must be a JSON object, got [1]"),
        ("t.jsonl", '{"who": "a"}', "row 1: must have a column 'what', got ['who']; expected: who, what"),
        ("t.jsonl", '{"who": null, "what": "b"}', "row 1: who must not be missing, got None"),
        ("t.jsonl", '{"who": NaN, "what": "b"}', "row 1: who must not be missing, got nan"),
        ("t.jsonl", '{"who": 1.5, "what": "b"}', "row 1: who must be a text or an integer, got 1.5"),
        ("t.jsonl", '{"who": true, "what": "b"}', "row 1: who must be a text or an integer, got True"),
        ("t.jsonl", '{"who": "a", "what": 1}', "row 1: what must be a text or a list of texts, got 1"),
        ("t.jsonl", '{"who": "a", "what": ["b", 1]}', "row 1: what must be a text or a list of texts, got ['b', 1]"),
        (
            "t.jsonl",
            '{"who": "1", "what": "b"}\n{"who": 1, "what": "b"}',
            "row 2: who must be a text as in the rows before, got 1",
        ),
        (
            "t.jsonl",
            '{"who": 1, "what": "b"}\n{"who": "1", "what": "b"}',
            "row 2: who must be an integer as in the rows before, got '1'",
        ),
        (
            "t.jsonl",
            '{"who": "\\ud83d", "what": "b"}',
            "row 1: who must be Unicode text, without halves of characters, got '\\ud83d'",
        ),
        ("t.jsonl", "[" * 100_000, "line 1: must not be nested that deeply"),
        ("t.json", "{}", "must be a list of JSON objects, got {}"),
        ("t.json", "[\n{]", "line 2: must be JSON: Expecting property name enclosed in double quotes"),
        ("t.json", "[1]", "row 1: must be a JSON object, got 1"),
        ("t.json", '[{"who": "a", "what": "b", "time": 3}]', "row 1: time must be a date and time, got 3"),
        ("t.json", '[{"who": "a", "what": "b", "time": "now"}]', "row 1: time must be a date and time, got 'now'"),
        ("t.parquet", b"PAR1 and then nothing", "must be a Parquet file: "),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path, name, content, message):
    path = write(tmp_path / name, content)
    with pytest.raises(InputError, match=f"^{re.escape(f'{path}: {message}')}"):
        list(read_rows(path, WHO_WHAT))


def test_a_truncated_or_false_gzip_file(tmp_path):
    whole = gzip.compress(as_csv(ROWS * 1000).encode())
    for content in (whole[:-20], b"who,what\na,b\n", whole[:20] + b"\xff" * 60):
        path = tmp_path / "t.csv.gz"
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"t\.csv\.gz: must be a whole gzip file: "):
            list(read_rows(path, WHO_WHAT))


def test_a_truncated_parquet_file_and_a_parquet_file_with_other_columns(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"who": ["a"] * 500, "text": ["b"] * 500}).write_parquet(path)
    with pytest.raises(InputError, match=r"must have a column 'what', got \['who', 'text'\]"):
        list(read_rows(path, WHO_WHAT))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match="must be a Parquet file: "):
        list(read_rows(path, WHO_WHAT))


def test_files_that_are_no_sources(tmp_path):
    for name in ("t.xlsx", "t.gz", "t", "t.pickle"):
        with pytest.raises(InputError, match=rf"{name}: must end in one of \.csv, \.csv\.gz, "):
            ordered([tmp_path / name])
    with pytest.raises(InputError, match=r"a folder must have \.json files of the archive"):
        ordered([tmp_path])
    with pytest.raises(InputError, match="there must be at least one source"):
        ordered([])
    for name in ("t.csv", "t.parquet", "t.jsonl.gz"):
        with pytest.raises(InputError, match=f"{name}: there is no such file"):
            list(read_rows(tmp_path / name, WHO_WHAT))


# Making traces


def traces_of(path):
    table = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
    return table.rows()


def test_emojis_of_texts(tmp_path):
    source = write(tmp_path / "t.csv", "who,what\nann,🙏🏽 ok 🎙\nbob,🫠\ncat,no\nann,1⃣🫠🫠🩹\n")
    made = make_traces([source], tmp_path / "o.csv", universe="emoji-11", user="who", text="what")
    assert traces_of(made.traces) == [("ann", "🙏🏽"), ("ann", "🎙\ufe0f"), ("ann", "1\ufe0f\u20e3")]
    assert (made.rows, made.rows_without, made.users, made.users_without) == (4, 1, 1, 2)
    assert (made.kept, made.in_pools, made.objects) == (3, 1, None)
    assert made.outside == (("🫠", 3), ("🩹", 1))
    assert describe(made) == [
        "Read 4 rows; 1 of them without an object.",
        f"Wrote 3 objects of 1 user to {tmp_path / 'o.csv'}; 1 of them in the 6 pools.",
        "Omitted 4 objects outside the universe, 2 distinct; most frequent: '🫠' (3), '🩹' (1).",
        "2 more users have no object of the universe, and no trace.",
    ]


def test_emojis_named_as_objects(tmp_path):
    source = write(tmp_path / "t.csv", "who,what\nann,🎙 👍\nbob,x\n")
    made = make_traces([source], tmp_path / "o.parquet", universe="emoji-11", user="who", object="what")
    assert traces_of(made.traces) == [("ann", "🎙\ufe0f"), ("ann", "👍")]
    assert made.outside == (("x", 1),)


def test_domains_widen_the_universe_of_news(tmp_path):
    source = write(
        tmp_path / "t.csv", "who,what\nann,nyti.ms www.zoo.org\nbob,http://a.org/x googl\nann,edition.cnn.com\n"
    )
    made = make_traces([source], tmp_path / "o.parquet", universe="news-2021", user="who", domain="what")
    names = ["nytimes.com", "zoo.org", "a.org", "cnn.com"]
    assert traces_of(made.traces) == list(zip(["ann", "ann", "bob", "ann"], names, strict=True))
    assert made.objects == tmp_path / "o.objects.csv"
    universe, _ = read_objects(made.objects)
    assert universe.objects == made.universe.objects
    assert (universe.size, universe.objects[60:]) == (62, ("a.org", "zoo.org"))
    assert universe.pool_of.tolist() == made.universe.pool_of.tolist()
    assert (made.kept, made.in_pools, made.outside) == (4, 2, (("googl", 1),))
    assert f"Wrote their universe of 62 objects to {made.objects}." in describe(made)


def test_the_archive_needs_no_columns(tmp_path):
    day = [post("a", "https://cnn.com/x https://t.co/y"), post("b", "RT @a https://cnn.com/x"), post("a", "👍")]
    days = tmp_path / "days"
    days.mkdir()
    write(days / "2020-01-01.json", json.dumps(day))
    links = make_traces([days], tmp_path / "links.csv", universe="news-2021")
    assert traces_of(links.traces) == [("a", "cnn.com")]
    emojis = make_traces([days], tmp_path / "emojis.csv", universe="emoji-11")
    assert traces_of(emojis.traces) == [("a", "👍")]


def test_a_universe_from_a_file(tmp_path):
    source = write(
        tmp_path / "t.jsonl", as_lines([(1, "a", "New York x.a.org🎙"), (2, "a", "New York"), (3, "b", "y z")])
    )
    options = {"user": "who", "overwrite": True}
    positions = write(tmp_path / "places.csv", "object,pool\nNew York,east\nx,west\ny,west\n")
    made = make_traces([source], tmp_path / "o.csv", universe=positions, object="what", **options)
    assert traces_of(made.traces) == [("a", "New York"), ("b", "y")]
    assert dict(made.outside) == {"New": 1, "York": 1, "x.a.org🎙": 1, "z": 1}
    # its own, shorter name for an emoji
    emojis = write(tmp_path / "emojis.csv", "object,pool\n🎙,a\n👍,b\n")
    made = make_traces([source], tmp_path / "o.csv", universe=emojis, text="what", **options)
    assert traces_of(made.traces) == [("a", "🎙")]
    # a host belongs to the longest name that the universe has
    hosts = write(tmp_path / "hosts.csv", "object,pool\na.org,a\nx.a.org,b\n")
    made = make_traces([source], tmp_path / "o.csv", universe=hosts, domain="what", **options)
    assert traces_of(made.traces) == [("a", "x.a.org")]
    text = write(tmp_path / "u.jsonl", as_lines([(1, "a", "https://b.org http://q.x.a.org/ http://c.a.org")]))
    made = make_traces([text], tmp_path / "o.csv", universe=hosts, text="what", **options)
    assert traces_of(made.traces) == [("a", "x.a.org"), ("a", "a.org")]
    assert made.outside == (("b.org", 1),)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user": None}, "user: must name a column"),
        ({"text": None}, "text, object, domain: exactly one of them must name a column, got []"),
        ({"object": "what"}, "text, object, domain: exactly one of them must name a column, got ['text', 'object']"),
        (
            {"universe": "emoji11"},
            "unknown universe, neither built in nor a file of objects (.csv, .parquet), got 'emoji11'; "
            "did you mean 'emoji-11'?",
        ),
        ({"universe": "none.csv"}, "none.csv: there is no such file"),
        ({"text": None, "domain": "what"}, "domain: requires a universe of domains, got 'emoji-11'"),
        (
            {"text": None, "object": "what", "universe": "news-2021"},
            "object: does not go with news-2021, where any other name would become a neutral object; "
            "name a column of links or hosts as domain",
        ),
        ({"universe": "words.csv"}, "text: requires a universe of emojis or one of domains, got 'words.csv'"),
        ({"out": "o.xlsx"}, "o.xlsx: an output must end in .csv or .parquet"),
        ({"out": "no/o.csv"}, "no/o.csv: the output's folder must exist"),
        ({"out": "t.csv"}, "t.csv: the output must not be a file that is read"),
        ({"out": "t.csv", "overwrite": True}, "t.csv: the output must not be a file that is read"),
        (
            {"universe": "news-2021", "out": "words.csv", "overwrite": False},
            "words.csv: the output is there already",
        ),
        (
            {"universe": "news-2021", "out": "old.parquet"},
            "old.objects.csv: the output is there already",
        ),
        (
            {"text": None, "object": "who"},
            "t.csv: who must have an object of emoji-11; outside it, the most frequent is 'ann'",
        ),
        ({"text": "who"}, "t.csv: who must have an object of emoji-11"),
    ],
)
def test_wrong_options_write_nothing(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    write(Path("t.csv"), "who,what\nann,👍\n")
    write(Path("words.csv"), "object,pool\nx,a\ny,b\n")
    write(Path("old.objects.csv"), "")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    given = {"out": "o.csv", "universe": "emoji-11", "user": "who", "text": "what"} | options
    with pytest.raises(InputError) as caught:
        make_traces(["t.csv"], given.pop("out"), **given)
    assert str(caught.value).startswith(message)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_bad_row_far_down_leaves_what_is_there(tmp_path):
    source = write(tmp_path / "t.csv", "who,what\n" + "ann,👍\n" * 100 + ",👍\n")
    out = write(tmp_path / "o.csv", "before")
    with pytest.raises(InputError, match="row 101: who must not be empty"):
        make_traces([source], out, universe="emoji-11", user="who", text="what", overwrite=True)
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "t.csv"]
