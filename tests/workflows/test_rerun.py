"""What is asked again of a finished folder is what was asked before, and a folder does not say which code is run."""

import json
import shutil
from pathlib import Path

import pytest
from cases.command_line import SMALL

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.core.progress import SILENT
from poolscope.metrics.provenance import provenance_of
from poolscope.paper import rerun as paper
from poolscope.scenario.attacks import attack_name
from poolscope.scenario.scenario import load_scenario, parse
from poolscope.workflows import rerun

ENGINE = Local(threads=1)

ADVICE = {
    "max_exposed": 0.4,
    "threshold": 0.7,
    "days": 2.0,
    "max_error": 0.2,
    "devices": 7000,
    "mechanisms": ("grr",),
    "adversary": "weak",
    "epsilon": (0.5, 4.0),
    "users": 12,
    "tolerance": 0.25,
    "prefer": "least-exposure",
    "consider": ("cap",),
    "mitigations": True,
    "seed": 3,
}

MITIGATION = {"mitigation": "a", "mechanism": "grr", "epsilon": 1, "devices": 1, "users": 12, "cost": "none"}
MITIGATION |= {f"{name}{end}": 0.5 for name in ("exposed", "confident") for end in ("", "_low", "_high")}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder of each command, as if it had been given all of its options."""
    place = tmp_path_factory.mktemp("finished")
    scenario = parse(SMALL, name="small", file=place / "mine.toml")
    ps.compare(scenario, ["grr"], [1.0, 2.5], users=6, seed=3, estimate_from=100, out=place / "compare", html=False)
    edited(place / "compare" / "comparison.json", attacks=["averaging"])
    ps.sweep(scenario, {"mechanism.epsilon": [1, 2]}, users=6, seeds=[3], out=place / "sweep")
    edited(place / "sweep" / "sweep.json", attacks=["averaging"])
    quick = {"max_exposed": 0.4, "horizon": 4, "users": 12, "mechanisms": ["grr"], "adversary": "weak", "seed": 3}
    ps.advise(scenario, **quick, tolerance=0.5, out=place / "advise", html=False)
    lowest, highest = ADVICE["epsilon"]
    question = {key: value for key, value in ADVICE.items() if key not in ("epsilon", "mitigations", "seed")}
    question |= {"horizon": 4, "lowest": lowest, "highest": highest}
    edited(place / "advise" / "advice.json", question=question, mitigations=[MITIGATION])
    return place


def edited(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture
def folder(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "finished")


def asked_again(monkeypatch, name, again, place, result, inputs=None):
    """Return what a folder asks of a command, in whose place its result is returned."""
    asked = {}

    def recorded(scenario, *arguments, **options):
        asked.update(options, scenario=scenario, arguments=arguments)
        return result

    monkeypatch.setattr(rerun, name, recorded)
    assert again(place, inputs, ENGINE, SILENT).agrees
    assert (asked.pop("engine"), asked.pop("progress")) == (ENGINE, SILENT)
    return asked


def test_a_comparison_is_asked_for_with_all_options(folder, monkeypatch):
    done = rerun.read_comparison(folder / "compare")
    asked = asked_again(monkeypatch, "compare", rerun.rerun_comparison, folder / "compare", done)
    assert asked.pop("scenario").text == done.scenario.text
    assert asked == {
        "arguments": (("grr",), (1.0, 2.5)),
        "users": 6,
        "seed": 3,
        "estimate_from": 100,
        "attacks": ("averaging",),
    }


def test_a_sweep_is_asked_for_with_all_options(folder, monkeypatch):
    done = rerun.read_sweep(folder / "sweep")
    asked = asked_again(monkeypatch, "sweep", rerun.rerun_sweep, folder / "sweep", done)
    assert asked.pop("scenario").text == done.plan.scenario.text
    assert not asked.pop("out").is_relative_to(folder)
    vary = ({"mechanism.epsilon": [1, 2]},)
    assert asked == {"arguments": vary, "seeds": (3,), "users": 6, "attacks": ("averaging",)}


def test_an_advice_is_asked_for_with_all_options(folder, monkeypatch):
    place, other = folder / "advise", folder / "other"
    done = rerun.read_advice(place)
    asked = asked_again(monkeypatch, "advise", rerun.rerun_advice, place, done)
    assert asked.pop("scenario").file == str(place / "mine.toml"), "the copies in the folder"
    assert asked == {**ADVICE, "arguments": (), "horizon": None, "budgets": {}}
    found = asked_again(monkeypatch, "advise", rerun.rerun_advice, place, done, other)
    assert found["scenario"].file == str(other / "mine.toml")


def test_a_horizon_in_events_is_asked_for_in_events(folder, monkeypatch):
    place = folder / "advise"
    done = rerun.read_advice(place)
    edited(place / "advice.json", question=done.question.as_json() | {"days": None}, asked_users=None)
    done = rerun.read_advice(place)
    asked = asked_again(monkeypatch, "advise", rerun.rerun_advice, place, done)
    assert (asked["days"], asked["horizon"], asked["users"]) == (None, 4, None)


@pytest.mark.slow
def test_an_advice_on_collections_is_asked_for_with_all_options(tmp_path, monkeypatch):
    asked = {"max_exposed": 0.2, "threshold": 0.6, "adversary": "weak", "users": 60, "epsilon": (1.0, 4.0), "seed": 2}
    asked |= {"max_error": {"emojis": 0.1}, "devices": 5000, "tolerance": 0.3, "prefer": "utility"}
    ps.advise(load_scenario("apple-collections"), horizon=2, out=tmp_path / "advise", html=False, **asked)
    done = rerun.read_advice(tmp_path / "advise")
    found = asked_again(monkeypatch, "advise_collections", rerun.rerun_advice, tmp_path / "advise", done)
    found.pop("scenario")
    assert found == {**asked, "arguments": (), "horizon": 2, "days": None}


OWN = ["os:system"]


@pytest.mark.parametrize(
    ("again", "file", "change", "message"),
    [
        ("rerun_sweep", "sweep/sweep.json", {"attacks": OWN}, "must have built-in mechanisms and attacks alone, got"),
        ("rerun_sweep", "sweep/sweep.json", {"metrics": OWN}, "must have built-in metrics alone, got 'os:system'"),
        ("rerun_comparison", "compare/comparison.json", {"attacks": OWN}, "must have built-in mechanisms and attacks"),
        ("rerun_comparison", "compare/comparison.json", {"mechanisms": OWN}, "must have built-in mechanisms and"),
    ],
)
def test_a_folder_does_not_say_which_code_is_run(folder, monkeypatch, again, file, change, message):
    for name in ("sweep", "compare"):
        monkeypatch.setattr(rerun, name, lambda *arguments, **options: pytest.fail("played"))
    path = folder / file
    edited(path, **change)
    with pytest.raises(InputError, match=message):
        getattr(rerun, again)(path.parent, None, ENGINE, SILENT)


def test_an_attack_that_was_an_object_is_refused_as_one():
    """Its parameters are known from the folder by their text alone."""
    with pytest.raises(InputError, match=r"got .*:Forgetting\(window=5, .*; .*: an object or module:Class is code"):
        rerun.check_builtin([attack_name(ps.attacks.Forgetting(window=5))], Path("manifest.json"))
    rerun.check_builtin([attack_name(ps.attacks.Averaging())], Path("manifest.json"))


@pytest.mark.parametrize(("recorded", "found"), [(0.5, 0.25), (0.25, 0.5)])
def test_a_difference_has_no_sign(recorded, found):
    made = provenance_of(seed=1, users=2, outcomes="0" * 64)
    one, other = ({"n": 2, "auc_pn": value, "text": str(value)} for value in (recorded, found))
    done = rerun.compared("summary.json", one, other, made, made)
    assert (done.max_difference, done.place, done.n_different) == (0.25, "auc_pn", 2)


def test_a_block_of_a_reproduction_that_was_changed_is_noticed(tmp_path):
    ps.reproduce("no-hash", tmp_path, users=2, html=False)
    next((tmp_path / "plays").rglob("part-*.parquet")).write_bytes(b"PAR1")
    with pytest.raises(InputError, match="a finished block is missing or has been changed"):
        paper.rerun_reproduction(tmp_path, None, ENGINE, SILENT)


def test_recorded_traces_must_be_those_that_were_played(tmp_path):
    (tmp_path / "traces.csv").write_text("user,object\n")
    played = {"traces.csv": paper.checksum(tmp_path / "traces.csv")}
    assert paper._traces(played, tmp_path, tmp_path) == tmp_path / "traces.csv"
    for checksums in ({"traces.csv": "0" * 64}, {"others.csv": played["traces.csv"]}):
        with pytest.raises(InputError, match=r"s\.csv: must be the file that was played"):
            paper._traces(checksums, tmp_path, tmp_path)
    with pytest.raises(InputError, match="was played with recorded traces; say with `inputs`"):
        paper._traces(played, None, tmp_path)
