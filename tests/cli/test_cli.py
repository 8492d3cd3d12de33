"""The command line: what a person types, sees and gets, good input and bad."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cases.command_line import SMALL, poolscope
from cases.platforms import posix_only

from poolscope.core.errors import InputError
from poolscope.scenario.scenario import builtin_names, load_scenario
from poolscope.workflows.audit import audit, run_folder


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_audit_writes_the_contract(scenario, tmp_path):
    done = poolscope("audit", scenario, "--seed", 3, "--users", 40, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "strong" in done.stdout
    assert "After 10 reports" in done.stdout
    assert done.stderr == ""  # no progress bar in a pipe
    audit = tmp_path / "run"
    summary = json.loads((audit / "summary.json").read_text())
    assert summary["seed"] == 3
    assert summary["users"] == 40
    assert summary["version"]
    assert summary["scenario"]["title"] == "Small"
    rows = {(r["adversary"], r["n"]) for r in summary["results"]}
    assert rows == {(a, n) for a in ("weak", "strong", "non-private") for n in (3, 10)}
    for row in summary["results"]:
        for name in ("auc_pn", "auc_pn_low", "auc_pn_high", "precision", "precision_top10", "ece", "baseline"):
            assert isinstance(row[name], float)
        assert row["auc_pn_low"] <= row["auc_pn"] <= row["auc_pn_high"]
        assert row["baseline"] == pytest.approx(1 / 3)
    outcomes = pl.read_parquet(audit / "outcomes" / "*.parquet")
    assert outcomes.height == 40 * 3 * 2
    html = (audit / "report.html").read_text()
    assert '<div class="chart"' in html
    assert not re.search(r'(?:src|href)="(?:https?:)?//', html)
    assert {path.name for path in audit.iterdir()} == {"manifest.json", "outcomes", "report.html", "summary.json"}
    drawn = poolscope("figures", "run", "--format", "pdf", "--width", "column", cwd=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    files = sorted((audit / "figures").iterdir())
    assert sorted(drawn.stdout.split()) == [str(path.relative_to(tmp_path)) for path in files]
    assert all(path.read_bytes().startswith(b"%PDF") for path in files)
    wrong = poolscope("figures", "run", "--format", "gif", cwd=tmp_path)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "unknown format, got 'gif'" in wrong.stderr
    again = poolscope("render", "run", cwd=tmp_path)
    assert again.returncode == 0
    assert (audit / "report.html").read_text() == html


def test_same_seed_same_outcomes_and_resume(scenario, tmp_path):
    """From Python and from the command line."""
    scenario.write_text(SMALL.replace("count = 200", "count = 40"))
    audit.audit(load_scenario(scenario), tmp_path / "one")
    assert poolscope("audit", scenario, "--out", "two", cwd=tmp_path).returncode == 0
    one, two = (sorted((tmp_path / out / "outcomes").iterdir()) for out in ("one", "two"))
    assert [f.read_bytes() for f in one] == [f.read_bytes() for f in two]
    # a run that lost its last block goes on to the same bytes
    run_folder = json.loads((tmp_path / "two" / "manifest.json").read_text())
    lost = max(run_folder["parts"])
    del run_folder["parts"][lost]
    (tmp_path / "two" / "manifest.json").write_text(json.dumps(run_folder))
    (tmp_path / "two" / "outcomes" / lost).unlink()
    (tmp_path / "two" / "summary.json").unlink()
    assert poolscope("audit", scenario, "--out", "two", "--resume", cwd=tmp_path).returncode == 0
    assert [f.read_bytes() for f in one] == [f.read_bytes() for f in two]
    other = poolscope("audit", scenario, "--out", "two", "--resume", "--seed", 1, cwd=tmp_path)
    assert (other.returncode, "the seed differs" in other.stderr) == (2, True)
    (tmp_path / "two" / "outcomes" / lost).write_bytes(b"changed")
    changed = poolscope("audit", scenario, "--out", "two", "--resume", cwd=tmp_path)
    assert (changed.returncode, "has been changed" in changed.stderr) == (2, True)


def test_a_threshold_is_reported(scenario, tmp_path):
    scenario.write_text(SMALL + "threshold = 0.9\n")
    done = poolscope("audit", scenario, "--users", 50, "--out", "run", cwd=tmp_path)
    assert "confidence ≥ 90%" in done.stdout
    assert "at threshold" in done.stdout
    rows = json.loads((tmp_path / "run" / "summary.json").read_text())["results"]
    assert all(row["threshold"] == 0.9 and 0 <= row["confident_at_threshold"] <= 1 for row in rows)
    assert all((row["precision_at_threshold"] is None) == (row["confident_at_threshold"] == 0) for row in rows)


def test_scenarios_lists_and_prints(tmp_path):
    listed = poolscope("scenarios", cwd=tmp_path, COLUMNS="80").stdout
    assert all(len(line) <= 80 for line in listed.splitlines())
    epsilons = {line.split()[0]: line.split()[1:3] for line in listed.splitlines() if not line.startswith(" ")}
    assert sorted(epsilons) == [*builtin_names(), "scenario"]
    assert epsilons["apple-hcms"] == ["hcms", "4"]
    assert epsilons["chrome-rappor"] == ["rappor", "2.043"]  # which its f, p and q give
    assert listed.count("(historical)") == 5
    for name in builtin_names():
        assert set(load_scenario(name).source.split()) <= set(listed.split())
    for name in ("apple-emojis", "apple-web-domains", "apple-hcms"):
        text = poolscope("scenarios", name, cwd=tmp_path).stdout
        assert "[mechanism]" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("epsilon = 4", "epsilon = 0"), "mechanism.epsilon: must be positive, got 0"),
        (("epsilon = 4", "epsilon = nan"), "mechanism.epsilon: must be positive"),
        (("epsilon = 4", "epsilom = 4"), "did you mean 'epsilon'?"),
        (("hashes = 64", "hashes = 0"), "hashes must be at least 1"),
        (("m = 32", "m = 1"), "m must be at least 2"),
        (('kind = "cms"', 'kind = "cmz"'), "did you mean 'cms'?"),
        (("hashes = 64", 'hash_table = "table.npy"'), "table.npy"),
        (("[users]", "[user]"), "did you mean 'users'?"),
        (("count = 200", "count = 0"), "users.count: must be at least 1"),
        (("size = 30", "size = 10"), "universe"),
        (("a = 5, b = 5, c = 5", "a = 5"), "must be at least two"),
        (("b = 5", "b = 0"), "universe"),
        (("[3, 10]", "[10, 3]"), "attack.observations"),
        (("[3, 10]", "[0, 3]"), "attack.observations"),
        (('name = "strong"', 'name = "weak"'), "must be unique"),
    ],
)
def test_bad_scenarios_are_one_line_and_leave_nothing(scenario, tmp_path, change, message):
    assert change[0] in SMALL
    scenario.write_text(SMALL.replace(*change))
    done = poolscope("audit", scenario, "--out", "run", cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    assert "small.toml" in done.stderr or "table.npy" in done.stderr
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.zeros((4, 29), dtype=np.int64), "must have a column for each of 30 objects"),
        (np.full((4, 30), 32), "hash values must be 0..31"),
        (np.zeros(30, dtype=np.int64), "must have the shape (hashes, objects)"),
        (np.zeros((4, 30)), "must hold integers"),
    ],
)
def test_bad_hash_tables(scenario, tmp_path, table, message):
    np.save(tmp_path / "table.npy", table)
    scenario.write_text(SMALL.replace("hashes = 64", 'hash_table = "table.npy"'))
    done = poolscope("audit", scenario, "--out", "run", cwd=tmp_path)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "run").exists()


def test_a_pickled_hash_table_is_never_unpickled(scenario, tmp_path):
    np.save(tmp_path / "table.npy", np.array([[{"a": 1}] * 30], dtype=object), allow_pickle=True)
    scenario.write_text(SMALL.replace("hashes = 64", 'hash_table = "table.npy"'))
    done = poolscope("audit", scenario, "--out", "run", cwd=tmp_path)
    assert (done.returncode, "without pickled objects" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,p,1\nb,p,1\nc,q,0\nd,q,0\ne,,1\n", "q"),
        ("a,p,-1\nb,q,1\ne,,1\n", "row 1"),
        ("a,p,nan\nb,q,1\ne,,1\n", "row 1"),
        ("a,p,1\na,q,1\ne,,1\n", "a"),
        ("a,p,1\nb,p,1\n", "must be at least two"),
    ],
)
def test_bad_objects(tmp_path, rows, message):
    (tmp_path / "objects.csv").write_text("object,pool,popularity\n" + rows)
    text = SMALL.replace("size = 30\npools = { a = 5, b = 5, c = 5 }", 'objects = "objects.csv"')
    text = text.replace('kind = "zipf"\nexponent = 1.2', 'kind = "given"')
    (tmp_path / "small.toml").write_text(text)
    done = poolscope("audit", "small.toml", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert done.stderr.count("\n") == 1
    assert "objects.csv" in done.stderr
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_bad_calls(scenario, tmp_path):
    unknown = poolscope("audit", "apple-emoji", cwd=tmp_path)
    assert (unknown.returncode, "did you mean 'apple-emojis'?" in unknown.stderr) == (2, True)
    few = poolscope("audit", scenario, "--users", 0, "--out", "run", cwd=tmp_path)
    assert (few.returncode, "users must be at least 1, got 0" in few.stderr) == (2, True)
    assert not (tmp_path / "run").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    taken = poolscope("audit", scenario, "--out", "full", cwd=tmp_path)
    assert (taken.returncode, "is not empty" in taken.stderr) == (2, True)
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["letter.txt"]
    audit.audit(load_scenario(scenario), tmp_path / "run", users=5)
    again = poolscope("audit", scenario, "--out", "run", cwd=tmp_path)
    assert again.returncode == 2
    assert "holds another run" in again.stderr
    assert "--resume" in again.stderr
    missing = poolscope("render", "nowhere", cwd=tmp_path)
    assert (missing.returncode, "no such folder" in missing.stderr) == (2, True)


def write_to_a_full_disk(path, text):
    with open("/dev/full", "w", encoding="utf-8") as disk:
        disk.write(text)


needs_full_disk = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full to stand for a full disk")


@needs_full_disk
def test_a_full_disk_is_one_line_and_leaves_nothing(scenario, tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "write_text", write_to_a_full_disk)
    with pytest.raises(InputError, match=r"cannot write: No space left on device"):
        audit.audit(load_scenario(scenario), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@needs_full_disk
def test_a_disk_that_is_full_at_the_end_keeps_what_was_played(scenario, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(audit, "write_text", write_to_a_full_disk)
        with pytest.raises(InputError, match=r"cannot write: No space.*free disk space and continue with `resume`"):
            audit.audit(load_scenario(scenario), tmp_path / "run", users=5)
    assert audit.audit(load_scenario(scenario), tmp_path / "run", users=5, resume=True).users == 5


@needs_full_disk
def test_output_that_cannot_be_written_is_one_line(tmp_path):
    with open("/dev/full", "w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "poolscope", "schema"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("poolscope: ")
    assert done.stderr.endswith("No space left on device\n")
    assert done.stderr.count("\n") == 1


@posix_only
def test_nobody_reads_the_output(tmp_path):
    """A pipe that was closed is no error to speak of."""
    command = [sys.executable, "-m", "poolscope", "schema"]
    audit = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    audit.stdout.close()
    assert audit.stderr.read() == ""
    assert audit.wait() == 1


def test_the_library_speaks_of_arguments_and_the_command_of_options(scenario, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").touch()
    with pytest.raises(InputError, match=r"choose another with `out`"):
        audit.audit(load_scenario(scenario), tmp_path / "run")
    done = poolscope("audit", scenario, "--out", "run", cwd=tmp_path)
    assert "choose another with --out" in done.stderr
    assert done.returncode == 2
