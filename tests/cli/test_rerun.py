"""Finished folders are played again, their files are as their schemas say, and DIR is never written."""

import functools
import json
import re
import shutil
import tomllib
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from cases.command_line import SMALL
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

import poolscope as ps
from poolscope.cli.commands import app
from poolscope.cli.rerun import SCHEMAS
from poolscope.cli.schemas import schema_of
from poolscope.core.errors import InputError
from poolscope.mechanisms import MECHANISMS
from poolscope.metrics.provenance import checksum, provenance_of
from poolscope.scenario.scenario import builtin_names, builtin_text, load_scenario, parse
from poolscope.workflows import rerun

OBJECTS = "object,pool\n" + "".join(f"o{i},{'abc'[i % 3] if i < 15 else ''}\n" for i in range(30))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder of each command; the audit's scenario names a file."""
    place = tmp_path_factory.mktemp("finished")
    (place / "objects.csv").write_text(OBJECTS)
    with_file = SMALL.replace("size = 30\npools = { a = 5, b = 5, c = 5 }", 'objects = "objects.csv"')
    (place / "mine.toml").write_text(with_file)
    scenario = load_scenario(place / "mine.toml")
    ps.audit(scenario, place / "audit", users=30, seed=1, threshold=0.8, html=False)
    ps.compare(scenario, ["identity", "grr"], [1.0], users=20, estimate_from=100, out=place / "compare", html=False)
    asked = {"horizon": 4, "max_error": 0.03, "devices": 5000, "users": 60, "mechanisms": ["grr"]}
    ps.advise(scenario, max_exposed=0.2, out=place / "advise", html=False, **asked)
    ps.sweep(scenario, {"mechanism.epsilon": [1, 2]}, users=20, seeds=[1], out=place / "sweep")
    ps.reproduce("no-hash", place / "reproduce", users=3, html=False)
    return place


@pytest.fixture
def copy(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "copy")


def called(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def content(folder):
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


FILES = {
    "audit": ("summary.json", "manifest.json"),
    "compare": ("comparison.json",),
    "advise": ("advice.json",),
    "reproduce": ("reproduction.json",),
    "sweep": ("sweep.json",),
}


@pytest.mark.default_cases("audit", "compare", "reproduce", "sweep")
@pytest.mark.parametrize("kind", FILES)
def test_the_bits_of_every_folder_agree_and_nothing_is_written(finished, kind):
    before = content(finished / kind)
    ran = called("rerun", finished / kind)
    assert ran.exit_code == 0, ran.output
    assert f"{finished / kind}: the bits agree: " in ran.output
    assert content(finished / kind) == before


@pytest.mark.default_cases("audit-*", "sweep-*")
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in FILES.items() for name in names])
def test_a_field_of_a_later_version_is_ignored(copy, kind, name):
    def later(found):
        found["more"] = {"nested": [1]}
        found["provenance"]["more"] = "text"

    edited(copy / kind / name, later)
    ran = called("rerun", copy / kind)
    assert (ran.exit_code, ran.exception) == (0, None), ran.output


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in FILES.items() for name in names])
def test_every_file_says_what_it_was_made_with(finished, kind, name):
    found = json.loads((finished / kind / name).read_text())
    origin = found["provenance"]
    assert (found["format"], found["version"], origin["version"]) == (1, ps.__version__, ps.__version__)
    assert len(origin["outcomes"]) == 64
    assert {"python", "numpy", "scipy", "numba", "cpu", "cpu_features", "commit"} <= set(origin)
    inputs = {} if kind == "reproduce" else {"objects.csv": sha256(OBJECTS.encode()).hexdigest()}
    assert origin["inputs"] == inputs
    assert str(finished) not in json.dumps(origin)


def test_the_checksum_is_that_of_the_outcomes(finished):
    game = load_scenario(finished / "mine.toml").replace({"attack.threshold": 0.8}).game(seed=1)
    played = ps.play(game, users=30, seed=1)
    summary = json.loads((finished / "audit" / "summary.json").read_text())
    assert summary["provenance"]["outcomes"] == checksum([played])


def edited(path, change):
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


def test_other_bits_are_told_with_how_far_and_why(copy):
    def made_elsewhere(found):
        found["provenance"] |= {"outcomes": "0" * 64, "numba": "0.1.0", "cpu": "abacus"}

    for name in FILES["audit"]:
        edited(copy / "audit" / name, made_elsewhere)
    edited(copy / "audit" / "summary.json", lambda found: found["results"][0].update(auc_pn=0.0))
    ran = called("rerun", copy / "audit", "--json")
    printed = json.loads(ran.stdout)
    check("rerun").validate(printed)
    assert not check("rerun").is_valid(printed | {"more": 1})
    assert (printed["agrees"], printed["n_different"], printed["n_users_different"]) == (False, 1, 0)
    assert (printed["file"], printed["place"]) == ("summary.json", "results.0.auc_pn")
    assert 0 < printed["max_difference"] <= 1
    assert printed["n_values"] > 100
    assert printed["before"]["numba"] == "0.1.0"
    assert printed["text"] in ran.stderr
    assert ran.exit_code == 1
    assert "the bits differ: the outcomes of 0 of 30 users and 1 of " in ran.output
    assert "(results.0.auc_pn); this may be due to numba " in ran.output
    assert "instead of 0.1.0, CPU " in ran.output
    assert "instead of abacus" in ran.output


@pytest.mark.slow
def test_a_number_that_was_changed_is_told(copy):
    edited(copy / "compare" / "comparison.json", lambda found: found["results"][1].update(mae=0.25))
    ran = called("rerun", copy / "compare")
    assert ran.exit_code == 1
    assert "(results.1.mae); the record was changed, or poolscope was" in ran.output
    edited(copy / "advise" / "advice.json", lambda found: found.update(sentence="All is well."))
    ran = called("rerun", copy / "advise")
    assert ran.exit_code == 1
    assert "the bits differ: 1 of " in ran.output


DAMAGES = {
    "the file has changed since it was played": lambda f: (f / "objects.csv").write_text(OBJECTS + "o30,\n"),
    "there is no such file; say with `inputs`": lambda f: (f / "objects.csv").unlink(),
    "the run is not finished; go on with": lambda f: (f / "audit" / "summary.json").unlink(),
    "must be the manifest of a run; name the folder of a finished audit": lambda f: (
        f / "audit" / "manifest.json"
    ).write_text("{}"),
    "a finished block is missing or has been changed": lambda f: next(f.glob("audit/outcomes/*")).write_bytes(b"PAR1"),
    "must be of one run": lambda f: edited(f / "audit" / "summary.json", lambda found: found.update(seed=2)),
    "must have a provenance": lambda f: edited(f / "audit" / "manifest.json", lambda found: found.pop("provenance")),
    "format: must be 1, got 2; read the file with": lambda f: edited(
        f / "audit" / "manifest.json", lambda found: found.update(format=2)
    ),
}


def test_a_folder_that_was_moved_is_played_again(copy):
    """The negative control of what cannot be played again."""
    for name in FILES["audit"]:
        edited(copy / "audit" / name, moved_to(copy))
    assert called("rerun", copy / "audit").exit_code == 0


@pytest.mark.parametrize("message", DAMAGES)
def test_what_cannot_be_played_again_is_one_line(copy, message):
    for name in FILES["audit"]:
        edited(copy / "audit" / name, moved_to(copy))
    DAMAGES[message](copy)
    ran = called("rerun", copy / "audit")
    assert isinstance(ran.exception, InputError)
    assert message in str(ran.exception)
    assert "\n" not in str(ran.exception)


def moved_to(place):
    """A scenario that lies beside the folder of its run."""

    def change(found):
        if isinstance(found["scenario"], dict):
            found["scenario"]["file"] = str(place / "mine.toml")

    return change


def test_files_may_be_elsewhere(copy, tmp_path):
    (copy / "objects.csv").rename(tmp_path / "objects.csv")
    edited(copy / "audit" / "summary.json", moved_to(copy))
    assert isinstance(called("rerun", copy / "audit").exception, InputError)
    assert called("rerun", copy / "audit", "--inputs", tmp_path).exit_code == 0


def test_recorded_traces_are_those_that_were_played(copy, tmp_path):
    def played_with(inputs):
        def change(found):
            found["cells"] = [cell | {"experiment": "recorded"} for cell in found["cells"]]
            found["provenance"]["inputs"] = inputs

        edited(copy / "reproduce" / "reproduction.json", change)

    played_with({"traces.csv": "0" * 64})
    asked = called("rerun", copy / "reproduce").exception
    assert str(asked).endswith("was played with recorded traces; say with `inputs` in which folder the traces are")
    for _ in range(2):
        wrong = called("rerun", copy / "reproduce", "--inputs", tmp_path).exception
        assert str(wrong) == f"{tmp_path}/traces.csv: must be the file that was played"
        (tmp_path / "traces.csv").write_text("user,object\n")
    played_with({})
    with pytest.raises(InputError, match=r"reproduction\.json: provenance\.inputs: must name the recorded traces"):
        raise called("rerun", copy / "reproduce", "--inputs", tmp_path).exception


def test_a_folder_does_not_say_which_code_is_run(copy):
    edited(copy / "compare" / "comparison.json", lambda found: found.update(mechanisms=["os:system"]))
    with pytest.raises(InputError, match="must have built-in mechanisms and attacks alone, got 'os:system'"):
        raise called("rerun", copy / "compare").exception


def test_other_folders_are_refused(tmp_path):
    for folder, message in ((tmp_path, "contains no finished run"), (tmp_path / "no", "no such folder")):
        assert message in str(called("rerun", folder).exception)
    (tmp_path / "plays").mkdir()
    assert "the reproduction is not finished" in str(called("rerun", tmp_path).exception)


# Schemas


@functools.cache
def check(name, strict=True):
    found = schema_of(name, strict=strict)
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in FILES.items() for name in names])
def test_every_file_is_as_its_schema_says(finished, kind, name):
    found = json.loads((finished / kind / name).read_text())
    schema = check(name.removesuffix(".json"))
    schema.validate(found)
    # two elements of each list are enough to check the keys beside it
    found = {key: value[:2] if isinstance(value, list) else value for key, value in found.items()}
    schema.validate(found)
    for key in found:
        assert not schema.is_valid({k: v for k, v in found.items() if k != key}), f"{key} may be missing"
    assert not schema.is_valid(found | {"more": 1})
    check(name.removesuffix(".json"), strict=False).validate(found | {"more": 1})
    assert not schema.is_valid(found | {"format": 2})
    assert not schema.is_valid(found | {"seed": "zero"})


def internal_files():
    """Return the patterns of the files that the policy declares internal."""
    page = (Path(__file__).parents[2] / "docs" / "stability.md").read_text()
    (sentence,) = re.findall(r"are internal: (.*?)\.\s", page, flags=re.DOTALL)
    return re.findall(r"`([^`]+\.json)`", sentence)


def faults_of_files(folder):
    """Return the files that are not as their schema says, or have neither a schema nor are internal."""
    for path in sorted(folder.rglob("*.json")):
        place = path.relative_to(folder)
        if place.stem in SCHEMAS:
            if not check(place.stem).is_valid(json.loads(path.read_text())):
                yield f"{place} is not as its schema says"
        elif not any(place.match(pattern) for pattern in internal_files()):
            yield f"{place} has no schema and is not internal"


def test_every_file_of_a_folder_has_a_schema_or_is_internal(copy):
    assert {path.name for path in copy.rglob("*.json")} > {name for names in FILES.values() for name in names}
    assert list(faults_of_files(copy)) == []
    for name in ("utility/a-1e+06.json", "other.json", "audit/more.json"):
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text("{}")
    edited(copy / "sweep" / "sweep.json", lambda found: found.pop("seeds"))
    assert list(faults_of_files(copy)) == [
        "audit/more.json has no schema and is not internal",
        "other.json has no schema and is not internal",
        "sweep/sweep.json is not as its schema says",
    ]


def test_a_printed_sweep_is_as_its_schema_says(finished, tmp_path):
    asked = ["--vary", "mechanism.kind=grr,identity", "--users", 10, "--out", tmp_path / "sweep", "--json"]
    found = json.loads(called("sweep", finished / "mine.toml", *asked).stdout)
    check("sweep-output").validate(found)
    assert found["plan"] == json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    assert len(found["results"]) == pl.read_parquet(tmp_path / "sweep" / "results.parquet").height
    assert not check("sweep-output").is_valid(found | {"results": [{"seed": 0}]})


def test_every_scenario_is_as_its_schema_says(finished):
    schema = check("scenario")
    for name in builtin_names():
        schema.validate(tomllib.loads(builtin_text(name)))
    schema.validate(tomllib.loads((finished / "advise" / "recommended.toml").read_text()))
    tables = tomllib.loads(SMALL)
    schema.validate(tables)
    for mechanism in (
        {"kind": "cms", "epsilon": 4, "m": 32},
        {"kind": "cms", "epsilon": 4, "m": 32, "hashes": 64, "g": 3},
        {"kind": "cms", "epsilon": "four", "m": 32, "hashes": 64},
        {"kind": "cmx", "epsilon": 4},
        {"epsilon": 4},
    ):
        assert schema.is_valid(tables | {"mechanism": mechanism}) == (
            mechanism == {"kind": "cms", "epsilon": 4, "m": 32}
        )
    assert not schema.is_valid(tables | {"attak": {}})
    assert not schema.is_valid(tables | {"attack": {"observations": []}})


def test_every_mechanism_has_its_parameters():
    kinds = {
        one["properties"]["kind"]["const"]: one for one in schema_of("scenario")["$defs"]["MechanismTable"]["oneOf"]
    }
    assert set(kinds) == set(MECHANISMS)
    assert kinds["cms"]["required"] == ["kind", "epsilon", "m"]
    assert all(value for one in kinds.values() for value in one["properties"].values()), "each has a type"


def test_schemas_are_listed_and_printed():
    assert [line.split()[0] for line in called("schema").stdout.splitlines()] == list(SCHEMAS)
    for name in SCHEMAS:
        assert json.loads(called("schema", name).stdout) == schema_of(name)
    with pytest.raises(InputError, match="did you mean 'summary'"):
        raise called("schema", "sumary").exception


def test_a_user_with_other_outcomes_counts_once(tmp_path):
    for folder, confidence in (("before", [0.1, 0.2, 0.3, 0.4]), ("now", [0.5, 0.6, 0.3, 0.4])):
        (tmp_path / folder).mkdir()
        rows = pl.DataFrame({"user": [0, 0, 1, 1], "n": [5, 9, 5, 9], "confidence": confidence})
        rows.write_parquet(tmp_path / folder / "part.parquet")
    manifest = SimpleNamespace(parts=["part.parquet"])
    assert rerun._users_different(manifest, tmp_path / "before", tmp_path / "now") == 1
    assert rerun._users_different(manifest, tmp_path / "now", tmp_path / "now") == 0


def test_a_record_that_was_changed_does_not_agree():
    made = provenance_of(seed=1, users=2, outcomes="0" * 64)
    same, other = (
        rerun.compared("summary.json", {"auc_pn": 0.5}, {"auc_pn": found}, made, made) for found in (0.5, 0.25)
    )
    assert (same.agrees, other.agrees) == (True, False)
    assert (other.same_outcomes, other.n_different, other.n_values) == (True, 1, 1)


def test_what_a_resumed_run_was_made_with_is_a_reason():
    made = provenance_of(seed=1, users=2, outcomes="0" * 64)
    mixed = replace(made, resumed_with=(replace(made, numba="0.1.0"),))
    found = rerun.compared("summary.json", {"auc_pn": 0.5}, {"auc_pn": 0.25}, mixed, made)
    assert found.text.endswith(f"; this may be due to a part made with numba 0.1.0 instead of {made.numba}")


def test_only_files_that_were_played_are_played_again(tmp_path):
    (tmp_path / "objects.csv").write_text(OBJECTS)
    text = SMALL.replace("size = 30\npools = { a = 5, b = 5, c = 5 }", 'objects = "objects.csv"')
    (tmp_path / "mine.toml").write_text(text)
    about = load_scenario(tmp_path / "mine.toml").about()
    played = {"objects.csv": sha256(OBJECTS.encode()).hexdigest()}
    assert rerun.scenario_of(about, None, played, tmp_path / "run").named_files == ["objects.csv"]
    with pytest.raises(InputError, match="the file has changed since it was played"):
        rerun.scenario_of(about, None, {"objects.csv": "0" * 64}, tmp_path / "run")


@pytest.mark.parametrize("given", ["mine.toml", "data/mine.toml", "../mine.toml"])
def test_files_are_found_from_another_directory(tmp_path, monkeypatch, given):
    """The path of the scenario is as it was given, in the directory of the command or in another one."""
    here, other = tmp_path / "here", tmp_path / "else" / "other"
    for folder in (here / "runs" / "run", here / "data", other):
        folder.mkdir(parents=True)
    text = SMALL.replace("size = 30\npools = { a = 5, b = 5, c = 5 }", 'objects = "objects.csv"')
    about = parse(text, name="mine", file=given).about()
    beside = (here / given).parent / "objects.csv"
    beside.write_text(OBJECTS)
    played = {"objects.csv": sha256(OBJECTS.encode()).hexdigest()}
    monkeypatch.chdir(other)
    run = Path("..", "..", "here", "runs", "run")
    found = rerun.scenario_of(about, None, played, run)
    assert found.resolve("objects.csv").resolve() == beside.resolve()
    # another file of this name is another file
    Path(given).parent.mkdir(exist_ok=True)
    (Path(given).parent / "objects.csv").write_text("object,pool\n")
    assert rerun.scenario_of(about, None, played, run).resolve("objects.csv").read_text() == OBJECTS
    with pytest.raises(InputError, match="the file has changed since it was played"):
        rerun.scenario_of(about, None, {"objects.csv": "0" * 64}, run)
    beside.unlink()
    with pytest.raises(InputError, match=r"objects\.csv: the file has changed since it was played"):
        rerun.scenario_of(about, None, played, run)
    (Path(given).parent / "objects.csv").unlink()
    with pytest.raises(InputError, match=r"objects\.csv: there is no such file; say with `inputs`"):
        rerun.scenario_of(about, None, played, run)
