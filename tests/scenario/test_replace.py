"""Scenarios from Python: from tables, and from another one with some keys replaced. The text is what is played."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.scenario.scenario import Scenario, as_kept, builtin_names, load_scenario, parse
from poolscope.scenario.toml import as_toml

TABLES = {
    "universe": {"size": 30, "pools": {"a": 10, "b": 10}},
    "popularity": {"kind": "uniform"},
    "mechanism": {"kind": "grr", "epsilon": 1},
    "adversary": [{"name": "oracle", "popularity": "true", "prior": {"interest": {"beta": [2, 1]}}}],
    "attack": {"observations": [3, 7]},
}


def test_from_dict():
    scenario = Scenario.from_dict(TABLES, name="mine")
    assert (scenario.name, scenario.file, scenario.mechanism.epsilon) == ("mine", "mine", 1.0)
    assert tomllib.loads(scenario.text) == TABLES
    assert scenario.game(seed=1).observations == (3, 7)
    assert parse(scenario.text, name="mine") == scenario


def test_from_dict_takes_what_python_has():
    """Tuples and numbers of NumPy are lists and numbers; names may be any text."""
    universe = {"size": np.int64(30), "pools": {"ü \x7f\n'\"": np.int32(10), "😀": 10}}
    tables = TABLES | {"universe": universe, "attack": {"observations": (3, np.int64(7))}}
    scenario = Scenario.from_dict(tables)
    assert scenario.universe().pool_names == ("ü \x7f\n'\"", "😀")
    assert scenario.attack.observations == (3, 7)
    assert parse(scenario.text, name="same").universe().pool_names == scenario.universe().pool_names


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (5, "tables must be a mapping"),
        ({1: {}}, "keys must be texts, got 1"),
        (TABLES | {"mechanism": {"kind": "grr", "epsilon": -1}}, "mine: mechanism.epsilon: must be positive, got -1"),
        (TABLES | {"universe": {"size": object()}}, "universe.size: must be what TOML can say"),
        (TABLES | {"odd key": {"x": 1}}, "mine: odd key: unknown key"),
        (TABLES | {"adversary": [{"name": "x", "popularity": "true"}, 5]}, r"mine: adversary\[1\]: must be a table"),
        ({}, "mine: universe: is missing"),
    ],
)
def test_tables_that_are_wrong(tables, message):
    with pytest.raises(InputError, match=message):
        Scenario.from_dict(tables, name="mine")


def test_from_dict_names_files_of_its_folder(tmp_path):
    (tmp_path / "objects.csv").write_text("object,pool\nx,a\ny,b\nz,\n")
    tables = TABLES | {"universe": {"objects": "objects.csv"}}
    scenario = Scenario.from_dict(tables, folder=str(tmp_path))
    assert scenario.universe().objects == ("x", "y", "z")
    assert scenario.replace({"mechanism.epsilon": 3}).universe().size == 3
    with pytest.raises(InputError, match="a scenario without a folder cannot name files"):
        Scenario.from_dict(tables).universe()


@pytest.mark.parametrize("name", builtin_names())
def test_a_model_alone_has_a_text_that_says_the_same(name):
    """`Scenario(...)` itself: what is recorded of it reads as what it is."""
    scenario = load_scenario(name)
    made = Scenario(**tomllib.loads(scenario.text))
    assert parse(made.text, name=name).dump() == scenario.dump()
    assert Scenario(**scenario.model_dump(by_alias=True, exclude_unset=True)).dump() == scenario.dump()


def test_a_wrong_model_is_an_input_error():
    with pytest.raises(InputError, match="mechanism: must be a table, got 5"):
        Scenario(universe={"size": 3, "pools": {"a": 1, "b": 1}}, mechanism=5)
    with pytest.raises(InputError, match="universe: is missing"):
        Scenario()


def test_replace_is_played_and_recorded():
    scenario = Scenario.from_dict(TABLES, name="mine")
    other = scenario.replace({"mechanism.epsilon": np.float64(4), "devices.cap": 5, "attack.observations": (2, 5)})
    assert other.game(seed=1).mechanism.epsilon == 4.0
    assert as_kept(other.about()).mechanism.epsilon == 4.0
    assert (other.name, other.devices.cap, other.attack.observations) == ("mine", 5, (2, 5))
    assert other.replace({"devices.cap": None}).devices.cap is None
    assert scenario.mechanism.epsilon == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mechanism.epsilon": -1}, "mine: mechanism.epsilon: must be positive, got -1"),
        ({"mechanism.kind.x": 1}, "mechanism.kind: must be a table to have keys, got 'grr'; set mechanism.kind as a"),
        ({"adversary.0.name": "x"}, "adversary: must be a table to have keys"),
        ({"": 1}, "keys must be names with dots between them"),
        ({"mechanism.": 1}, "keys must be names with dots between them"),
        ({3: 1}, "keys must be names with dots between them"),
        ({"mechanism.epsilon": {1, 2}}, "mechanism.epsilon: must be what TOML can say"),
        ({"mechanisms.epsilon": 1}, "mechanisms: unknown key; did you mean 'mechanism'"),
        (["mechanism.epsilon"], "changes must be a mapping"),
    ],
)
def test_changes_that_are_wrong(changes, message):
    with pytest.raises(InputError, match=message):
        Scenario.from_dict(TABLES, name="mine").replace(changes)


def test_model_copy_never_plays_one_thing_and_records_another():
    scenario = ps.load_scenario("apple-emojis")
    mechanism = scenario.mechanism.model_copy(update={"epsilon": 1.0})
    with pytest.raises(InputError, match=r"not updated by model_copy, got \['mechanism'\]; take scenario.replace"):
        scenario.model_copy(update={"mechanism": mechanism})
    for same in (scenario.model_copy(), scenario.model_copy(deep=True)):
        assert (same.text, same.mechanism) == (scenario.text, scenario.mechanism)


def test_an_audit_of_replaced_keys_keeps_them(tmp_path):
    scenario = Scenario.from_dict(TABLES, name="mine").replace({"mechanism.epsilon": 2})
    ps.audit(scenario, str(tmp_path / "run"), users=20, seed=1)
    written = (tmp_path / "run" / "summary.json").read_text()
    assert "epsilon = 2" in written
    assert "epsilon = 1\\n" not in written
    assert Path(tmp_path / "run" / "report.html").exists()


def test_toml_of_odd_tables():
    tables = {"a b": 1, "t": {"x y": {"z": [1.5, float("inf")]}, "e": []}, "l": [{"a": 1}, {"b": {"c": "é\n"}}]}
    assert tomllib.loads(as_toml(tables)) == tables
