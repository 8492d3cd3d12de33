"""A run that dies is not lost: killed at any moment and resumed, it has the bytes of an undisturbed one."""

import json
import os
import random
import shutil
import signal
import time

import jsonschema
import numba
import polars as pl
import pytest
from cases.engines import outcome_bytes, scenario_text, small_blocks, start
from cases.platforms import posix_only
from cases.report_files import command
from cases.synthetic import SEED
from hypothesis import given, settings
from hypothesis import strategies as st

from poolscope.cli.schemas import schema_of
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.core.tables import atomic as files
from poolscope.scenario.scenario import Scenario, load_scenario, parse
from poolscope.workflows.audit import run_folder
from poolscope.workflows.audit.audit import audit
from poolscope.workflows.audit.run_folder import Manifest, read_manifest

USERS = 480


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(scenario_text(users=USERS, observations=(5, 60)))
    return path


@pytest.fixture
def undisturbed(scenario, tmp_path, monkeypatch):
    small_blocks(monkeypatch)
    audit(load_scenario(scenario), tmp_path / "undisturbed", seed=5)
    return outcome_bytes(tmp_path / "undisturbed")


def some_blocks(out, process, count):
    """Wait until so many blocks are there, or the process has ended."""
    while len(list(out.glob("outcomes/part-*"))) < count and process.poll() is None:
        time.sleep(0.005)


def soon_gone(group):
    """Whether no process of the group is left."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@posix_only
@pytest.mark.slow
def test_killed_at_random_times_and_resumed(scenario, undisturbed, tmp_path):
    """Between any two lines: while starting, playing, writing, renaming, summing up."""
    rng, out = random.Random(SEED), tmp_path / "run"
    arguments = ("audit", scenario, "--seed", 5, "--out", out)
    kills = 0
    for attempt in range(5):
        process = start(*arguments, *(["--resume"] if attempt else []), cwd=tmp_path)
        # some of them early, most of them once blocks are being written
        if attempt != 1:
            some_blocks(out, process, len(list(out.glob("outcomes/part-*"))) + rng.randrange(1, 8))
        time.sleep(rng.random() * 0.05)
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
        for name, data in outcome_bytes(out).items() if (out / "outcomes").exists() else ():
            assert name.startswith(".") or undisturbed[name] == data
    assert kills >= 3
    last = start(*arguments, "--resume", cwd=tmp_path)
    _, said = last.communicate()
    assert (last.returncode, said) == (0, "")
    assert outcome_bytes(out) == undisturbed
    assert not list(out.rglob(".*"))
    assert set(read_manifest(out).parts) == set(undisturbed)


@posix_only
@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(scenario, undisturbed, tmp_path):
    out = tmp_path / "a run"
    process = start("audit", scenario, "--seed", "5", "--out", "a run", cwd=tmp_path)
    some_blocks(out, process, 3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    how = f"poolscope audit {scenario} --seed 5 --out 'a run' --resume"
    kept = sum(len(pl.read_parquet(out / "outcomes" / part)["user"].unique()) for part in read_manifest(out).parts)
    assert said == f"poolscope: stopped; {kept} of {read_manifest(out).users} users are saved, resume with: {how}\n"
    assert 1 <= len(read_manifest(out).parts) < len(undisturbed)
    again = start("audit", scenario, "--seed", "5", "--out", "a run", "--resume", cwd=tmp_path)
    assert again.communicate()[1] == ""
    assert outcome_bytes(out) == undisturbed


@posix_only
@pytest.mark.cluster
@pytest.mark.slow
def test_ctrl_c_stops_the_workers_too(scenario, undisturbed, tmp_path):
    """As a terminal sends it, to all processes at once; what Dask began is finished here."""
    out = tmp_path / "poolscope-small"
    process = start("audit", scenario, "--seed", "5", "--engine", "dask", cwd=tmp_path, start_new_session=True)
    some_blocks(out, process, 2)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.endswith(f"--engine dask --out {out.name} --resume\n")
    assert said.count("\n") == 1
    assert soon_gone(process.pid)
    audit(load_scenario(scenario), out, seed=5, resume=True)
    assert outcome_bytes(out).keys() == read_manifest(out).parts.keys()


@posix_only
@pytest.mark.cluster
@pytest.mark.slow
def test_a_killed_client_takes_its_workers_along(scenario, tmp_path):
    process = start("audit", scenario, "--engine", "dask", "--out", "run", cwd=tmp_path, start_new_session=True)
    some_blocks(tmp_path / "run", process, 2)
    process.kill()
    process.communicate()
    assert soon_gone(process.pid)


def test_a_stopped_reproduction_goes_on(tmp_path, monkeypatch, capsys):
    from poolscope.paper import runner

    def stopping(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "audit", stopping)
    # this process goes on: it must not ignore signals from here on
    monkeypatch.setattr("poolscope.cli.exit.ENDING", [])
    out = tmp_path / "paper"
    assert command("reproduce", "--users", 10, "--out", out) == 130
    said = capsys.readouterr().err
    assert said == (
        "poolscope: stopped; 0 finished runs are saved, and the finished part of the next, "
        f"resume with: poolscope reproduce --users 10 --out {out}\n"
    )


# What must be the same


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A small finished run of a scenario that names a file."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "objects.csv").write_text("object,pool\na,p\nb,p\nc,q\nd,q\ne,\n")
    text = scenario_text(users=40).replace("size = 30\npools = { a = 5, b = 5, c = 6 }", 'objects = "objects.csv"')
    (folder / "small.toml").write_text(text + "estimates = 3\n")
    with pytest.MonkeyPatch.context() as patched:
        small_blocks(patched)
        audit(load_scenario(folder / "small.toml"), folder / "run", seed=1)
    return folder


@pytest.fixture
def finished(original, tmp_path, monkeypatch):
    """A copy of the finished run."""
    small_blocks(monkeypatch)
    return shutil.copytree(original, tmp_path, dirs_exist_ok=True)


def differently(folder, *, text=None, change=(), **options):
    path = folder / "small.toml"
    if change:
        path.write_text(path.read_text().replace(*change))
    audit(load_scenario(path), folder / "run", **{"seed": 1, "resume": True, **options})


def test_another_run_is_refused_and_says_which(finished):
    differently(finished)
    with pytest.raises(InputError, match=r"run: the seed differs from that of the run to resume, got 2"):
        differently(finished, seed=2)
    with pytest.raises(InputError, match=r"the number of users differs from that of the run to resume, got 41"):
        differently(finished, users=41)
    (finished / "objects.csv").write_text("object,pool\na,p\nb,p\nc,q\nd,q\ne,p\n")
    with pytest.raises(InputError, match=r"a file that the scenario names differs"):
        differently(finished)
    with pytest.raises(InputError, match=r"the scenario differs"):
        differently(finished, change=("epsilon = 4", "epsilon = 5"))


def recorded_as(folder, text):
    """The manifest of the run, as if it had recorded its scenario by this text."""
    path = folder / "run" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"scenario": text}))


@pytest.mark.slow
def test_comments_are_no_part_of_what_is_the_same(finished):
    """A text that says the same was recorded otherwise: with other comments, or by another writer of TOML."""
    differently(finished, change=("epsilon = 4", "epsilon = 4.0  # four\n"))
    tables = load_scenario(finished / "small.toml").to_dict()
    recorded_as(finished, Scenario.from_dict(tables).text)
    differently(finished)
    for wrong in (
        "",
        "epsilon = [",
        "[" * 10_000,
        Scenario.from_dict(tables).text.replace("epsilon = 4", "epsilon = 5"),
    ):
        recorded_as(finished, wrong)
        with pytest.raises(InputError, match=r"the scenario differs"):
            differently(finished)


def test_the_order_of_pools_must_be_the_same(tmp_path):
    tables = parse(scenario_text(users=5, adversaries=["weak"]), name="drawn").to_dict()
    audit(Scenario.from_dict(tables), tmp_path / "run", seed=1)
    tables["universe"]["pools"] = dict(reversed(tables["universe"]["pools"].items()))
    with pytest.raises(InputError, match=r"the scenario differs"):
        audit(Scenario.from_dict(tables), tmp_path / "run", seed=1, resume=True)


ASKED = """
[universe]
size = 30
pools = { a = 5, b = 5, c = 6 }

[popularity]
kind = "zipf"
exponent = 1.2

[mechanism]
kind = "grr"
epsilon = 2.0

[users]
count = 5
sigma = 0.0

[[adversary]]
name = "weak"
popularity = "uniform"

[[adversary]]
name = "strong"
popularity = "estimated"
estimate_from = 500

[attack]
observations = [3, 10]
estimates = 2
threshold = 0.5
"""


def test_a_run_that_was_recorded_without_comments_goes_on(tmp_path):
    """As it was before texts kept their comments."""
    scenario = parse("# mine\n" + scenario_text(users=5) + "estimates = 2\n", name="drawn")
    asked = {"epsilon": 2, "mechanism": "grr", "threshold": 0.5}
    audit(scenario, tmp_path / "run", **asked)
    assert "# mine" in read_manifest(tmp_path / "run").scenario
    recorded_as(tmp_path, ASKED)
    audit(scenario, tmp_path / "run", **asked, resume=True)
    with pytest.raises(InputError, match=r"the scenario differs"):
        audit(scenario, tmp_path / "run", **asked | {"epsilon": 3}, resume=True)


def test_another_version_is_refused(finished):
    path = finished / "run" / "manifest.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(kept | {"version": "0.0.9"}))
    with pytest.raises(InputError, match=r"the run to resume was made by version 0\.0\.9, got '0\.1\.0'"):
        differently(finished)
    path.write_text(json.dumps(kept | {"version": "0.1.99"}))
    differently(finished)


def test_a_run_that_is_resumed_elsewhere_says_so(finished):
    """In its files too, once for each machine."""
    path = finished / "run" / "manifest.json"
    kept = json.loads(path.read_text())
    kept["provenance"]["numba"] = "0.1.0"
    path.write_text(json.dumps(kept))
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"run: the finished part .*: now numba .* instead of 0\.1\.0$") as warned:
            differently(finished)
        assert len(warned) == 1
    for name in ("manifest.json", "summary.json"):
        written = json.loads((finished / "run" / name).read_text())
        jsonschema.validate(written, schema_of(name.removesuffix(".json"), strict=True))
        found = written["provenance"]
        assert found["numba"] == "0.1.0"
        assert [one["numba"] for one in found["resumed_with"]] == [numba.__version__]


def test_what_does_not_count_is_taken_away(finished):
    out = finished / "run"
    before = outcome_bytes(out)
    (out / ".manifest.json.0123.part").write_text("half")
    (out / "outcomes" / ".part-000001.parquet.0123.part").write_text("half")
    kept = json.loads((out / "manifest.json").read_text())
    del kept["parts"]["part-000002.parquet"]
    (out / "manifest.json").write_text(json.dumps(kept))
    (out / "outcomes" / "part-000002.parquet").write_text("a block that was not yet finished")
    (out / "outcomes" / "part-000007.parquet").write_text("a block of another run")
    differently(finished)
    assert outcome_bytes(out) == before
    assert not list(out.rglob(".*"))


# Manifests of strangers

GOOD = {"scenario": "", "seed": 0, "users": 3, "version": "0.1.0", "block": 2, "inputs": {}, "parts": {}, "format": 1}


def manifest_of(folder, content):
    (folder / "manifest.json").write_text(content)
    return read_manifest(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"block": 0},
        {"block": 10**9},
        {"users": -1},
        {"seed": True},
        {"seed": 1.5},
        {"parts": []},
        {"parts": {"../../../etc/passwd": ""}},
        {"parts": {"part-000000.parquet": 3}},
        {"inputs": None},
        {"scenario": None},
        {"provenance": {"numba": "0.61"}},
    ],
    ids=str,
)
def test_a_manifest_is_checked(tmp_path, change):
    for good in (GOOD, GOOD | {"more": 1}):
        assert manifest_of(tmp_path, json.dumps(good)) == Manifest(**GOOD)
    with pytest.raises(InputError, match=r"manifest\.json: must be the manifest of a run"):
        manifest_of(tmp_path, json.dumps(GOOD | change))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100)
@given(
    content=st.text()
    | json_values.map(json.dumps)
    | st.fixed_dictionaries({}, optional=dict.fromkeys(GOOD, json_values)).map(lambda some: json.dumps(GOOD | some))
    | st.integers(1, 100_000).map(lambda depth: "[" * depth)
)
def test_any_manifest_is_read_or_refused(tmp_path_factory, content):
    folder = tmp_path_factory.getbasetemp()
    try:
        found = manifest_of(folder, content)
    except InputError:
        return
    assert isinstance(found, Manifest)


def test_a_long_manifest_is_not_written_for_every_block(tmp_path, monkeypatch):
    """Each write is as long as all blocks together: with every block, it would be quadratic."""
    clock, written = iter(range(0, 10**6, 1)), []
    monkeypatch.setattr(run_folder.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(run_folder, "write_text", lambda path, text: written.append(json.loads(text)))
    kept = Manifest(**{**GOOD, "parts": {}})
    with run_folder.ManifestWriter(kept, tmp_path) as keeper:
        for number in range(100):
            keeper.add(run_folder.PlayedBlock(f"part-{number:06d}.parquet", "0"))
    assert len(written) < 10
    assert len(written[-1]["parts"]) == 100


@posix_only
def test_a_file_and_its_name_are_flushed(tmp_path, monkeypatch):
    flushed, fsync = [], os.fsync

    def noted(number):
        flushed.append(os.readlink(f"/proc/self/fd/{number}") if os.path.exists("/proc/self/fd") else "")
        fsync(number)

    monkeypatch.setattr(files.os, "fsync", noted)
    files.write_text(tmp_path / "a.txt", "a")
    assert len(flushed) == 2
    if flushed[0]:
        assert flushed[0].endswith(".part")
        assert flushed[1] == str(tmp_path)


def test_a_run_without_a_folder_can_be_resumed(tmp_path):
    """Ctrl-C may come before the first block: the command that was told to go on begins."""
    scenario = parse(scenario_text(users=5, adversaries=["weak"]), name="drawn")
    assert audit(scenario, tmp_path / "run", resume=True, engine=Local(threads=1)).users == 5
