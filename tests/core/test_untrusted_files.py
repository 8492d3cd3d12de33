"""Files come from strangers: whatever they hold is read or refused in one line, and never obeyed."""

import ast
import base64
import io
import json
import re
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cases.engines import MECHANISMS, scenario_text
from cases.platforms import posix_only
from cases.report_files import command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import poolscope
from poolscope.core.errors import InputError
from poolscope.core.tables.parquet_check import check
from poolscope.mechanisms import make
from poolscope.population.popularity import read_popularity
from poolscope.population.recorded import read_traces
from poolscope.population.universe import Universe, read_objects, read_pools
from poolscope.reports.files import read_reports
from poolscope.scenario.build import build_mechanism, read_array, read_matrix, read_samples
from poolscope.scenario.scenario import load_scenario, parse
from poolscope.workflows.audit.audit import audit
from poolscope.workflows.audit.run_folder import read_run

UNIVERSE = Universe.sized(30, {"a": 5, "b": 5, "c": 6})
CMS = make("cms", 30, {"epsilon": 2.0, "m": 16, "hashes": 8})
SCRIPT = "<script>alert(1)</script>"

#: What reads a table, and the columns that it wants.
TABLES = {
    "objects": (("object", "pool", "popularity"), read_objects),
    "pools": (("object", "pool"), lambda path: read_pools(path, UNIVERSE)),
    "popularity": (("object", "popularity"), lambda path: read_popularity(path, UNIVERSE)),
    "traces": (("user", "object"), lambda path: read_traces(path, UNIVERSE)),
    "matrix": (("object", "report", "probability"), lambda path: read_matrix(path, UNIVERSE)),
    "samples": (("object", "report"), lambda path: read_samples(path, UNIVERSE)),
    "bits": (("user", "hash", "bits"), lambda path: read_reports(path, CMS, UNIVERSE)),
    "ones": (("user", "hash", "ones"), lambda path: read_reports(path, CMS, UNIVERSE)),
    "values": (("user", "value"), lambda path: read_reports(path, make("grr", 30, {"epsilon": 1.0}), UNIVERSE)),
}


def read_or_refused(function, *arguments):
    """Whether it was read; a refusal is one line."""
    said = ""
    try:
        function(*arguments)
    except InputError as error:
        said = str(error)
    assert "\n" not in said
    return not said


@st.composite
def damaged(draw, content):
    """Bytes with some of them changed, taken out or put in."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 2)):
            case 0:
                data[place : place + 1] = draw(st.binary(min_size=1, max_size=1))
            case 1:
                del data[place : place + draw(st.integers(1, 40))]
            case _:
                data[place:place] = draw(st.binary(max_size=6))
    return bytes(data)


SERIES = [
    [1, 2, 3],
    ["a", "b", "a"],
    [1.5, None, float("nan")],
    [[1], [2, 3], []],
    [[[1]], [[2]], None],
    [{"a": 1}, {"a": 2}, {"a": None}],
    [b"\x00", b"\xff\x01", b""],
    [None, None, None],
    [True, False, None],
]


def parquet(columns):
    stream = io.BytesIO()
    pl.DataFrame(columns).write_parquet(stream)
    return stream.getvalue()


cells = st.sampled_from(["", "a", "0", "29", "30", "-1", "1e9", "nan", '"x', "é", "\x00", "0 1", "9" * 30, " a"])
SETTINGS = settings(max_examples=25, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", TABLES)
@SETTINGS
@given(data=st.data())
def test_any_csv_is_read_or_refused(tmp_path, name, data):
    columns, read = TABLES[name]
    rows = data.draw(st.lists(st.lists(cells, min_size=len(columns) - 1, max_size=len(columns) + 1), max_size=5))
    text = "\n".join(",".join(row) for row in [columns, *rows]).encode()
    path = tmp_path / "table.csv"
    path.write_bytes(data.draw(st.just(text) | damaged(text)))
    read_or_refused(read, path)


@pytest.mark.parametrize("name", TABLES)
@SETTINGS
@given(data=st.data())
def test_any_parquet_is_read_or_refused(tmp_path, name, data):
    columns, read = TABLES[name]
    content = parquet({column: data.draw(st.sampled_from(SERIES)) for column in columns})
    path = tmp_path / "table.parquet"
    path.write_bytes(data.draw(st.just(content) | damaged(content)))
    read_or_refused(read, path)


@SETTINGS
@given(data=st.data())
def test_any_array_is_read_or_refused(tmp_path, data):
    stream = io.BytesIO()
    np.save(stream, np.zeros((4, 30), dtype=np.int64))
    path = tmp_path / "table.npy"
    path.write_bytes(data.draw(damaged(stream.getvalue())))
    read_or_refused(lambda: make("cms", 30, {"epsilon": 2.0, "m": 16, "hash_table": read_array(path, UNIVERSE)}))


VALUES = ["0", "-1", "nan", "inf", "1e400", "9" * 30, "true", '""', "[]", "{}", "[[1]]", "1979-05-27", "'../x'", "'x'"]


@settings(max_examples=150)
@given(data=st.data())
def test_any_scenario_is_read_or_refused(data):
    lines = scenario_text(data.draw(st.sampled_from(MECHANISMS))).splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(lines) - 1))
        key = lines[place].partition("=")[0]
        lines[place : place + data.draw(st.integers(0, 1))] = [f"{key} = {data.draw(st.sampled_from(VALUES))}"]

    def read():
        scenario = parse("\n".join(lines), name="drawn", file="drawn.toml")
        build_mechanism(scenario, scenario.universe())

    read_or_refused(read)


@settings(max_examples=60)
@given(text=st.text(alphabet=st.sampled_from("[]{}=.\"'\n #ab1,") | st.characters(), max_size=80))
def test_any_text_is_a_scenario_or_refused(text):
    assert not read_or_refused(lambda: parse(text, name="drawn"))


# What broke


ENDED_THE_PROCESS = {
    "values of a page of -64": (
        "eNqNUs1u00AQ3rWjJaAIFZRZ2ZIPFiKWK6ImMYTEqBy2TYFACHFUtbQHJDu200KoIU5TOPEKnDnyCEhceA4OnHviwIEHAIlZ2wVuMNLu/H0z"
        "36zHIzFuAYGLYNaBocGAGTcVm1KNEhT7Y+Onec4lREFHVSkQvUaYrpWO02gOFc54j+9Y5fU/JVCCKlgDVGflFzxCZMaXV4Acl+FqHd7ASk5G"
        "bBpo1D9Dn+/nZIxSVYGK3iZsRddYEjyNJouMccnfUeuUWu/pX8X6JUVHfjxyRq4UAR9PIAOIMHgZdtCQ1imFfWmCoq/fK82TZAElAqSm5C8j"
        "UEGzIK2RgYFQznRDr1tPjH9/A/5ZhSp/q8IVYv1QjP9/Bf+qAucfZCH/RDmzyvw7rcqJtYoYjx/t3konB9FzX/tCG1LazwTKlry6S/RfeYWf"
        "hR4IkYrNTHvi2gjzJycy3hdiWuD6UmfBDXk93EZQd+930xy3cUcUkufvSjNw7r/c3x02heilcpSBDG5mqKxeeHtZ060ptpLay8l6RatGNo+X"
        "paQfPh7OJlNxm2jDUTLz56lpv3i9OEiOVs1lNE8PkyPTWWutNU07OD6chWYndptOEF6P49DpxHHXCVs3nE7Xb7q+47bj2Ik7fhS6zqpex+3J"
        "BX7D1Yzwd/8F59+WlA=="
    ),
    "values of a page of -1": (
        "eNqdVEtv00AQXjuWFVAkCsqubMlCUdVaqRK1jktJjArS5kEwNM1DjSncHCdukyZ1lYSmvfaEEAd+BkfUM+f+kh448Qs4sLO2CULiACPN7Mzs"
        "N4/Pst2inQKWsIE397CMEUKKJKA7wq6IQklEJ0Y4jZU8w6wwlbXHKJuM75SkgH7J3TUolQUxsYawpO4geUVV5KA3GnhzLBKZfBHItaC39ORf"
        "e7B9HuLVaJ97JbhwwfTAePEmwnITwVME98/ZqXj2dHAWTMPZVwL5IOi3ov5Z/K1OvS+qy/nMXZJWSXQtuEy9KKGRFh4RxL1bEe+Di0V194U0"
        "DYI5lhiDdTEmPf74QMuH7VKQDddZR3saSxFZ1dS8fiVq//msyDcJp8l7CT9D+veE9g+syQ8JE3Ij4VVErhlMT5KvYho4KSna6TRfP5l5x4OJ"
        "q3xKbIFcNsqU0hpTWjpn8UWbhjFPvaJ0Riv8bNNci90vFpC3KT2KcMylFQMCaESbPQbKeeCegKkDrszBdcpLurUj6kI/Fr+FPlUIym2wNDRV"
        "A1azOT6et4D+dtT1omnWmNpMG3ERPSyUG4eG03S6Bd85ed5wus5Bg08OxeL8aLRqQCvRvAqtmjCvEuHYtjbktzjfNoD56t7EWfS2XzKu1Rng"
        "+eSw6A237YB3Zvxq/GzzhwP8uORg/sKG/nVOGXarW0N34oz6lD5Fyn4rGLvTWSZ7djk/Dk43MueD6WwYnGbMzcKmkcn23g3H/UzRtwyz19/2"
        "/b5Z9P2S2S88Mosl17Bc09rxfdMvuoO+ZW6oefYywvt4wz6gFvsl/ASVYMwn"
    ),
}


@pytest.mark.parametrize("message", ENDED_THE_PROCESS)
def test_files_that_ended_the_process(tmp_path, message):
    """The decoder asked for 2^61 bytes, and no exception says that there are none."""
    path = tmp_path / "table.parquet"
    path.write_bytes(zlib.decompress(base64.b64decode(ENDED_THE_PROCESS[message])))
    for read in (lambda: read_traces(path, UNIVERSE), lambda: read_samples(path, UNIVERSE)):
        with pytest.raises(InputError, match=f"must be a Parquet file: {message}"):
            read()


@pytest.mark.default_cases("snappy", "zstd")
@pytest.mark.parametrize("compression", ["uncompressed", "zstd", "snappy", "gzip"])
def test_what_is_checked_of_parquet_is_true_of_good_files(compression):
    rows = 7_000
    frame = pl.DataFrame(
        {
            "number": np.arange(rows),
            "text": ["x", None] * (rows // 2),
            "list": [[1, 2], []] * (rows // 2),
            "struct": [{"a": 1, "b": ["q"]}] * rows,
            "null": [None] * rows,
            "enum": pl.Series(["u", "v"] * (rows // 2), dtype=pl.Enum(["u", "v"])),
        }
    )
    for some in (frame, frame.clear(), frame[:1]):
        stream = io.BytesIO()
        some.write_parquet(stream, compression=compression, row_group_size=3_000)
        check(stream)


@pytest.mark.parametrize(
    "header",
    [
        b"(" * 5000,
        b"{" * 200,
        b"-" * 9000 + b"1",
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (999999999999, 999999999999)}\n",
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (0, 3)}\n",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (3,)}\n",
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (-3,)}\n",
    ],
)
def test_headers_of_arrays(tmp_path, header):
    path = tmp_path / "table.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(24))
    assert not read_or_refused(
        lambda: make("cms", 30, {"epsilon": 2.0, "m": 16, "hash_table": read_array(path, UNIVERSE)})
    )


def test_a_header_of_csv_with_a_stray_return(tmp_path):
    (tmp_path / "table.csv").write_bytes(b'user,hash\ra,"ones"\n')
    with pytest.raises(InputError, match="line 1: must be CSV"):
        read_reports(tmp_path / "table.csv", CMS, UNIVERSE)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('hashes = "\\u0000"', "mechanism.hashes: must be a whole number"),
        ("m = nan", "mechanism.m: must be a whole number, got nan"),
        ("m = 32.0", "mechanism.m: must be a whole number, got 32.0"),
        ("epsilon = true", "mechanism.epsilon: must be a number, got True"),
        ("seed = 99999999999999999999", "mechanism.seed: must be at most"),
    ],
)
def test_parameters_of_the_wrong_type(line, message):
    table = {"epsilon": "epsilon = 4", "m": "m = 32", "hashes": "hashes = 64"}
    table[line.partition(" ")[0]] = line
    text = scenario_text('kind = "cms"\n' + "\n".join(table.values()))
    with pytest.raises(InputError, match=re.escape(message)):
        build_mechanism(parse(text, name="drawn"), UNIVERSE)


@pytest.mark.slow
def test_nesting(tmp_path):
    for text in ("a = " + "[" * 100_000, "a = " + "{a=" * 50_000, "[" + "a." * 50_000 + "a]"):
        assert not read_or_refused(lambda text=text: parse(text, name="deep"))
    (tmp_path / "summary.json").write_text("[" * 100_000)
    (tmp_path / "outcomes").mkdir()
    with pytest.raises(InputError, match="nested that deeply"):
        read_run(tmp_path)


def test_huge_tables_are_refused_before_they_are_read(tmp_path):
    """A column of one value takes a few bytes, however many rows it says to have."""
    path = tmp_path / "objects.parquet"
    content = parquet({"object": ["a"] * 3, "pool": ["p"] * 3})
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") :]
    # the number of all rows: field 3 of the footer, an integer of 64 bits
    huge = footer.replace(b"\x16\x06\x19", b"\x16\xfe\xff\xff\xff\xff\xff\xff\xff\x1f\x19", 1)
    assert huge != footer
    path.write_bytes(content[: -len(footer)] + huge[:-8] + (len(huge) - 8).to_bytes(4, "little") + b"PAR1")
    for read in (lambda: read_objects(path), lambda: read_traces(path, UNIVERSE)):
        with pytest.raises(InputError, match=r"must have at most \d+ rows"):
            read()


# Nothing is obeyed


def called(function):
    """What a call names: `eval`, or `np.load` with its module."""
    if isinstance(function, ast.Attribute):
        return f"{getattr(function.value, 'id', None)}.{function.attr}"
    return getattr(function, "id", None)


def test_nothing_is_unpickled_or_evaluated():
    refused = re.compile(r"pickle|marshal|shelve|dill|joblib|\beval\b|\bexec\b|\b(np|numpy)\.load\b")
    for path in Path(poolscope.__file__).parent.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if refused.search(text) else ():
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {getattr(node, "module", None), *(alias.name for alias in node.names)}
                assert not names & {"pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib"}, path
            if isinstance(node, ast.Call) and called(node.func) in ("eval", "exec", "np.load", "numpy.load"):
                assert ast.unparse(node.func).endswith("load"), path
                assert "allow_pickle=False" in ast.unparse(node), path


@posix_only
@pytest.mark.parametrize(
    "path", ["../objects.csv", "/etc/passwd", "a/../../objects.csv", "link.csv", "inside/link.csv"]
)
def test_a_scenario_does_not_leave_its_folder(tmp_path, path):
    (tmp_path / "objects.csv").write_text("object,pool\na,p\nb,q\n")
    folder = tmp_path / "strange"
    (folder / "inside").mkdir(parents=True)
    (folder / "link.csv").symlink_to(tmp_path / "objects.csv")
    (folder / "inside" / "link.csv").symlink_to("../../objects.csv")
    (folder / "own.csv").write_text("object,pool\na,p\nb,q\n")
    (folder / "inside" / "own.csv").symlink_to("../own.csv")
    text = '[universe]\nobjects = "{}"\n[mechanism]\nkind = "identity"\n'
    (folder / "mine.toml").write_text(text.format("inside/own.csv"))
    assert load_scenario(folder / "mine.toml").universe().size == 2
    (folder / "mine.toml").write_text(text.format(path))
    with pytest.raises(InputError, match=r"must be inside|must not be a link out of|relative"):
        load_scenario(folder / "mine.toml").universe()


def test_names_are_shown_and_never_obeyed(tmp_path, capsys):
    """In the report, the comparison, their pictures and on the terminal, where brackets and escapes are orders."""
    name = f"{SCRIPT}[/b]\\u001b[2J"
    text = scenario_text(users=30).replace('name = "weak"', f'name = "{name}"').replace("a = 5", f'"{name}" = 5')
    (tmp_path / "hostile.toml").write_text(f'title = "{name}"\n{text}')
    assert command("audit", tmp_path / "hostile.toml", "--out", tmp_path / "run") == 0
    choices = ("--mechanism", "grr", "--epsilon", "1", "--users", "30")
    assert command("compare", tmp_path / "hostile.toml", *choices, "--out", tmp_path / "compared") == 0
    said = capsys.readouterr()
    assert "\x1b[2J" not in said.out + said.err
    assert f"{SCRIPT}[/b][U+001B][2J" in said.out
    assert command("figures", tmp_path / "run") == 0
    pages = [*tmp_path.rglob("*.html"), *tmp_path.rglob("*.svg")]
    assert len(pages) > 5
    shown = 0
    for page in pages:
        content = page.read_text("utf-8")
        assert SCRIPT not in content, page
        shown += "&lt;script&gt;alert(1)&lt;/script&gt;" in content
    assert shown > 3


def test_a_reproduction_escapes_too(tmp_path):
    from poolscope.paper import report as page
    from poolscope.paper.runner import Compared, Reproduction

    name = next(iter(page.experiments()))
    cells = dict.fromkeys(("low", "high"), 0.1)
    hostile = Compared(experiment=name, row=SCRIPT, column=SCRIPT, published=SCRIPT, ours=0.1, agrees=True, **cells)
    done = Reproduction(cells=[hostile], played={}, seconds={name: 1.0})
    content = page.write_page(done, tmp_path).read_text("utf-8")
    assert SCRIPT not in content
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in content


def test_a_folder_of_a_stranger(tmp_path):
    """A finished run whose files were changed: refused in one line, wherever."""
    out = tmp_path / "run"
    audit(parse(scenario_text(users=5), name="drawn"), out)
    part = next((out / "outcomes").iterdir())
    content = part.read_bytes()
    part.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"part-000000\.parquet: must be a Parquet file"):
        read_run(out)
    part.write_bytes(content)
    summary = json.loads((out / "summary.json").read_text())
    (out / "summary.json").write_text(json.dumps(summary | {"results": [{"adversary": ["x"]}]}))
    with pytest.raises(InputError, match=r"results\.0\.adversary: must be a string"):
        read_run(out)


def test_a_footer_without_a_schema_is_refused(tmp_path):
    """Version, no schema, no rows, no row groups."""
    footer = bytes([0x15, 0x02, 0x19, 0x0C, 0x16, 0x00, 0x19, 0x0C, 0x00])
    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    for _, read in TABLES.values():
        with pytest.raises(InputError):
            read(path)
