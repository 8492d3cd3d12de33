"""The page of an attack on a file of reports: what the table says, names shown and not run."""

import polars as pl
import pytest
from cases.command_line import SMALL, poolscope

from poolscope.scenario.scenario import load_scenario
from poolscope.workflows.obfuscate import obfuscate

HOSTILE = "<script>alert(1)</script>"
USERS = (HOSTILE, "ann", "bob")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "mine.toml").write_text(SMALL)
    rows = [(user, (3 * t + i) % 10) for i, user in enumerate(USERS) for t in range(12)]
    pl.DataFrame(rows, schema=["user", "object"], orient="row").write_parquet(folder / "traces.parquet")
    pl.DataFrame({"user": ["ann", "bob"], "pool": ["a", "b"]}).write_csv(folder / "truth.csv")
    obfuscate(folder / "traces.parquet", load_scenario(folder / "mine.toml"), folder / "reports.parquet", 1)
    return folder


def attack(folder, *more):
    return poolscope("attack", "reports.parquet", "--scenario", "mine.toml", *more, cwd=folder)


def test_a_page_tells_what_the_table_says(folder):
    options = ("--out", "found.parquet", "--html", "found.html", "--ground-truth", "truth.csv", "--pool-sets", "2")
    done = attack(folder, *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Report: found.html" in done.stdout
    html, table = (folder / "found.html").read_text(), pl.read_parquet(folder / "found.parquet")
    last = table.filter(pl.col("n") == pl.col("n").max().over("user", "adversary"))
    for row in last.iter_rows(named=True):
        assert f"<td>{row['confidence']:.3f}</td>" in html
    assert f"{len(USERS)} users" in html
    surest = max(
        last.partition_by("adversary"), key=lambda rows: ((rows["confidence"] >= 0.9).sum(), rows["confidence"].mean())
    )
    assert f"After all reports, the {surest['adversary'][0]} adversary is at least 90% confident about" in html
    assert "Evaluation against the ground truth" in html
    assert f"poolscope attack reports.parquet --scenario mine.toml {' '.join(options)}" in html
    assert "corrected" in html
    assert HOSTILE not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--html", "a.html"), "--html: must have --out, the table that it describes, got 'a.html'"),
        (("--html", "a.html", "--user", "ann"), "--user: must stand alone"),
        (("--user", "ann", "--pool-sets", "2"), "--user: must stand alone: --why, --pool-sets and --resume are about"),
        (("--column", "user"), "--column: must be NAME=COLUMN, as user=device_id, got 'user'"),
        (("--column", "user=a", "--column", "user=b"), "--column: must name a column once, got 'user'"),
        (("--out", "a.csv", "--html", "a.txt"), "a.txt: an output must end in .html"),
    ],
)
def test_what_cannot_be_is_one_line(folder, options, said):
    done = attack(folder, *options)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert not list(folder.glob("a.*"))
