"""The commands on reports and traces: what they say, what they leave, and the independent answer through them."""

import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cases import tuples
from cases.report_files import command, scenario_of, small_attack, write_traces
from cases.synthetic import SEED

from poolscope.core.errors import InputError
from poolscope.core.tables import Parts
from poolscope.workflows.attack.attack import attack

ORACLE = Path(__file__).parents[2] / ".." / "shared" / "oracle" / "cms_example.npz"


@pytest.mark.skipif(not ORACLE.exists(), reason="the independent answer lies outside of the repository")
@pytest.mark.parametrize("n", [3, 12, 40])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_oracle_through_the_command_line(tmp_path, monkeypatch, n, ending):
    monkeypatch.chdir(tmp_path)
    with np.load(ORACLE, allow_pickle=False) as oracle:
        example = dict(oracle)
    pools = [f"pool {i}" if i >= 0 else "" for i in example["pool_of_object"]]
    names = [f"object {i}" for i in range(len(pools))]
    pl.DataFrame({"object": names, "pool": pools, "popularity": example["popularity"]}).write_csv("objects.csv")
    np.save("table.npy", example["hash_table"])
    Path("oracle.toml").write_text(
        f"[universe]\nobjects = 'objects.csv'\n[mechanism]\nkind = 'cms'\nepsilon = {float(example['eps'])}\n"
        f"m = {int(example['m'])}\nhash_table = 'table.npy'\n[[adversary]]\nname = 'weak'\npopularity = 'uniform'\n"
        "[[adversary]]\nname = 'strong'\npopularity = 'given'\n",
        encoding="utf-8",
    )
    bits = example[f"n{n}_bits"]
    users = np.repeat([f"user {u}" for u in range(len(bits))], n).tolist()
    frame = {"user": users, "hash": example[f"n{n}_j"].ravel()}
    vectors = bits.reshape(-1, bits.shape[2]).astype(np.uint8)
    if ending == "csv":
        ones = [" ".join(map(str, np.flatnonzero(v))) for v in vectors]
        pl.DataFrame({**frame, "ones": ones}).write_csv("reports.csv")
    else:
        packed = [v.tobytes() for v in np.packbits(vectors, axis=1, bitorder="little")]
        pl.DataFrame({**frame, "bits": packed}).write_parquet("reports.parquet")
    assert command("attack", f"reports.{ending}", "--scenario", "oracle.toml", "--out", f"out.{ending}") == 0
    found = pl.read_csv("out.csv") if ending == "csv" else pl.read_parquet("out.parquet")
    order = [f"posterior.pool {i}" for i in range(example["pool_of_object"].max() + 1)]
    found = found.sort(pl.col("user").str.slice(len("user ")).cast(pl.Int64), maintain_order=True)
    for adversary in ("weak", "strong"):
        mine = found.filter(adversary=adversary).select(order).to_numpy()
        np.testing.assert_allclose(mine, example[f"n{n}_posterior_{adversary}"], rtol=0, atol=1e-12)


def test_the_commands_say_what_they_did(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scenario_of(tmp_path)
    write_traces(tmp_path / "traces.csv", np.random.default_rng(SEED).integers(30, size=(50, 12)))
    assert command("obfuscate", "traces.csv", "--scenario", "small.toml", "--out", "reports.parquet", "--seed", 3) == 0
    assert "600 reports of 50 users" in capsys.readouterr().out
    assert command("attack", "reports.parquet", "--scenario", "small.toml", "--threshold", 0.99) == 0
    shown = capsys.readouterr()
    for words in (
        "50 users, 600 reports",
        "strong",
        "no guess",
        "without --ground-truth, correctness is unknown",
        "First rows",
        "conditional on one estimate",
    ):
        assert words in " ".join(shown.out.split())
    # no progress bar in a pipe, but that these users pick objects uniformly is noticed
    assert "do not follow the popularity" in shown.err
    assert shown.err.count("\n") == 1
    assert command("estimate", "reports.parquet", "--scenario", "small.toml") == 0
    shown = capsys.readouterr().out
    assert "600 reports, 30 objects" in shown
    assert "Method: " in shown
    for method in ("linear", "ibu"):
        assert command("estimate", "reports.parquet", "--scenario", "small.toml", "--method", method) == 0
        assert f"Method: {method}" in capsys.readouterr().out
    assert command("estimate", "reports.parquet", "--scenario", "small.toml", "--method", "best") == 2
    assert "method: must be one of linear, regression, ridge, ibu, got 'best'" in capsys.readouterr().err
    assert sorted(os.listdir()) == ["reports.parquet", "small.toml", "traces.csv"]
    again = ("obfuscate", "traces.csv", "--scenario", "small.toml", "--out", "reports.parquet")
    assert command(*again) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_examples_of_the_documentation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reference = Path(__file__).parents[2] / "docs" / "reference"
    page = "".join((reference / name).read_text() for name in ("scenario.md", "files.md"))
    examples = dict(re.findall(r"^`([\w.]+)`\n```\w+\n(.*?)```", page, flags=re.DOTALL | re.MULTILINE))
    assert set(examples) == {"scenario.toml", "objects.csv", "traces.csv", "tuples.csv", "reports.csv"}
    for name, text in examples.items():
        Path(name).write_text(text, encoding="utf-8")
    assert command("attack", "reports.csv", "--scenario", "scenario.toml", "--out", "posteriors.csv") == 0
    found = pl.read_csv("posteriors.csv")
    assert found["user"].to_list() == ["bob"] * 2 + ["ann"] * 4
    assert found["n"].to_list() == [1, 1, 1, 2, 1, 2]
    assert command("obfuscate", "traces.csv", "--scenario", "scenario.toml", "--out", "made.csv") == 0
    assert command("estimate", "made.csv", "--scenario", "scenario.toml", "--out", "popularity.csv") == 0
    # an estimate is a file of objects
    Path("again.toml").write_text(examples["scenario.toml"].replace("objects.csv", "popularity.csv"), encoding="utf-8")
    assert command("attack", "made.csv", "--scenario", "again.toml", "--pools", "popularity.csv") == 0
    # objects of two collections
    Path("tuples.toml").write_text(tuples.scenario("rs+fd").text, encoding="utf-8")
    assert command("obfuscate", "tuples.csv", "--scenario", "tuples.toml", "--out", "sent.csv") == 0
    assert command("attack", "sent.csv", "--scenario", "tuples.toml") == 0


def test_names_are_no_markup(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scenario_of(tmp_path, mechanism="identity")
    pl.DataFrame({"user": ["[red]x[/red]", "a\nb\x1b[31m"], "value": [1, 2]}).write_parquet("reports.parquet")
    assert command("attack", "reports.parquet", "--scenario", "small.toml") == 0
    shown = capsys.readouterr().out
    assert "[red]x[/red]" in shown
    assert "a[U+000A]b[U+001B][31m" in shown
    assert "\x1b[31m" not in shown


PICKLED = np.array([[{"a": 1}] * 30], dtype=object)
REPORTS, TRACES = Path("reports.parquet"), Path("traces.csv")


def pickled():
    np.save("table.npy", PICKLED, allow_pickle=True)
    replace("hashes = 64", "hash_table = 'table.npy'")


# The command, what is done to the files first, and what is said.
WRONG = [
    ("attack", lambda: REPORTS.write_bytes(b"PAR1 and no more"), "reports.parquet: must be a Parquet file"),
    ("attack", lambda: change(hash=pl.lit(64)), "reports.parquet: row 1: hash must be an integer from 0 to 63, got 64"),
    ("attack", lambda: change(bits=pl.lit(b"abc")), "reports.parquet: row 1: bits must have 4 bytes (m = 32), got 3"),
    ("attack", lambda: change(user=pl.lit(None, dtype=pl.String)), "reports.parquet: row 1: user must have a name"),
    ("attack", lambda: change(hash=pl.lit(0.5)), "reports.parquet: column 'hash' must hold integers, got 'Float64'"),
    ("attack", pickled, "table.npy: must be a NumPy array file (.npy) without pickled objects"),
    ("attack", lambda: replace("uniform", "unifrom"), "small.toml: adversary[0].popularity: must be 'uniform'"),
    ("estimate", lambda: rewrite(lambda frame: frame.drop("bits")), "reports.parquet: must have a column 'bits'"),
    ("estimate", lambda: rewrite(pl.DataFrame.clear), "reports.parquet: must have at least one row"),
    (
        "obfuscate",
        lambda: TRACES.write_text("user,object\na,3\nb,99\n", encoding="utf-8"),
        "traces.csv: row 2: object must be an object of the universe, a number from 0 to 29, got '99'",
    ),
    (
        "obfuscate",
        lambda: TRACES.write_bytes("user,object\né,3\n".encode("latin-1")),
        "traces.csv: line 2: must be UTF-8 text, got b'\\xe9'",
    ),
    (
        "obfuscate",
        lambda: TRACES.write_text("user,item\na,3\n", encoding="utf-8"),
        "traces.csv: must have a column 'object'",
    ),
]


def rewrite(function):
    function(pl.read_parquet(REPORTS)).write_parquet(REPORTS)


def change(**columns):
    rewrite(lambda frame: frame.with_columns(**columns))


def replace(old, new):
    text = Path("small.toml").read_text(encoding="utf-8")
    assert old in text
    Path("small.toml").write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(("verb", "spoil", "message"), WRONG, ids=[f"{v}-{m[:50]}" for v, _, m in WRONG])
def test_wrong_input_is_one_line_and_leaves_nothing(tmp_path, monkeypatch, capsys, verb, spoil, message):
    monkeypatch.chdir(tmp_path)
    small_attack(tmp_path)
    write_traces(tmp_path / "traces.csv", np.zeros((2, 3), dtype=np.int64))
    spoil()
    before = sorted(os.listdir())
    source = "traces.csv" if verb == "obfuscate" else "reports.parquet"
    assert command(verb, source, "--scenario", "small.toml", "--out", "out.parquet") == 2
    line = capsys.readouterr().err
    assert line.startswith(f"poolscope: {message}")
    assert line.count("\n") == 1
    assert sorted(os.listdir()) == before


def test_an_error_in_the_last_row_leaves_what_was_there(tmp_path):
    """Most pieces are done before the last row is read; nothing of them may be seen."""
    scenario, path = small_attack(tmp_path)
    out = tmp_path / "posteriors.csv"
    out.write_text("mine")
    frame = pl.read_parquet(path)
    last = pl.int_range(pl.len()) == pl.len() - 1
    frame.with_columns(pl.when(last).then(999).otherwise("hash").alias("hash")).write_parquet(path)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InputError, match=rf"row {len(frame)}: hash must be an integer from 0 to 63, got 999"):
        attack(path, scenario, out=out, overwrite=True, max_bytes=1)
    assert out.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == before
    with pytest.raises(InputError, match="the output must not be a file that is read"):
        attack(path, scenario, out=path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full to stand for a full disk")
def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    def full(*_):
        with open("/dev/full", "w", encoding="utf-8") as disk:
            disk.write("x")

    scenario, path = small_attack(tmp_path)
    before = sorted(os.listdir(tmp_path))
    monkeypatch.setattr(Parts, "write", full)
    with pytest.raises(InputError, match=r"posteriors\.csv: cannot write: No space left on device"):
        attack(path, scenario, out=tmp_path / "posteriors.csv")
    assert sorted(os.listdir(tmp_path)) == before
