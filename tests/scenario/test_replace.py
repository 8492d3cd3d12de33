"""Scenarios from Python: from tables, and from another one with some keys replaced. The text is what is played."""

import copy
import json
import pickle
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.scenario.scenario import (
    Scenario,
    builtin_names,
    builtin_text,
    load_scenario,
    parse,
    same_tables,
    scenario_from_record,
)
from poolscope.scenario.toml import merged_toml

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
    assert parse(scenario.text, name="mine").to_dict() == scenario.to_dict() == TABLES
    assert "\n[[adversary]]\n" in scenario.text


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
        ({1: {}}, "keys must be strings, got 1"),
        (TABLES | {"mechanism": {"kind": "grr", "epsilon": -1}}, "mine: mechanism.epsilon: must be positive, got -1"),
        (TABLES | {"universe": {"size": object()}}, "universe.size: must be a TOML type"),
        (TABLES | {"odd key": {"x": 1}}, "mine: odd key: unknown key"),
        (TABLES | {"adversary": [{"name": "x", "popularity": "true"}, 5]}, r"mine: adversary\[1\]: must be a table"),
        ({}, "mine: universe: is missing"),
        ({"self": 1}, "mine: self: unknown key"),
        (TABLES | {"title": "\ud800"}, "mine: title: must be a TOML type"),
        (TABLES | {"title": 1 << 20_000}, "mine: title: must have at most 1024 bits"),
        (TABLES | {"attack": {"observations": [None]}}, r"mine: attack.observations\[0\]: must be a TOML type"),
    ],
)
def test_tables_that_are_wrong(tables, message):
    with pytest.raises(InputError, match=message):
        Scenario.from_dict(tables, name="mine")


@pytest.mark.parametrize("wrong", [{"name": 5}, {"name": ""}, {"folder": 5}])
def test_names_and_folders_that_are_wrong(wrong):
    (argument,) = wrong
    with pytest.raises(InputError, match=f"{argument} must be a"):
        Scenario.from_dict(TABLES, **wrong)


def test_tables_without_end():
    endless = {}
    endless["universe"] = endless
    with pytest.raises(InputError, match="must not be nested that deeply"):
        Scenario.from_dict(endless)
    with pytest.raises(InputError, match=r"mechanism\.m: must not be nested that deeply"):
        Scenario.from_dict(TABLES).replace({"mechanism.m": endless})


def test_none_is_a_key_that_is_not_there():
    tables = TABLES | {"users": None, "attack": {"observations": [3, 7], "threshold": None}}
    assert Scenario.from_dict(tables).to_dict() == TABLES
    assert Scenario(**tables).to_dict() == TABLES


@pytest.mark.parametrize("name", builtin_names())
def test_tables_and_back(name):
    scenario = load_scenario(name)
    again = Scenario.from_dict(scenario.to_dict(), name=name)
    assert again.to_dict() == scenario.to_dict() == tomllib.loads(builtin_text(name))
    assert parse(again.text, name=name).to_dict() == scenario.to_dict()
    assert scenario.text == scenario.replace({}).text == builtin_text(name)


def test_from_dict_names_files_of_its_folder(tmp_path, monkeypatch):
    (tmp_path / "objects.csv").write_text("object,pool\nx,a\ny,b\nz,\n")
    tables = TABLES | {"universe": {"objects": "objects.csv"}}
    scenario = Scenario.from_dict(tables, folder=str(tmp_path))
    assert scenario.universe().objects == ("x", "y", "z")
    assert scenario.replace({"mechanism.epsilon": 3}).universe().size == 3
    with pytest.raises(InputError, match=r"^objects\.csv: there is no such file"):
        Scenario.from_dict(tables).universe()
    monkeypatch.chdir(tmp_path)
    for here in (Scenario.from_dict(tables), Scenario(**tables)):
        assert here.universe().objects == ("x", "y", "z")
    with pytest.raises(InputError, match=r"must be a path inside the scenario's folder"):
        Scenario.from_dict(TABLES | {"universe": {"objects": "../objects.csv"}})
    with pytest.raises(InputError, match="a scenario without a folder cannot name files"):
        load_scenario("apple-emojis").replace({"users": {"traces": "mine.parquet"}}).game(1)


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
    assert scenario_from_record(other.about()).mechanism.epsilon == 4.0
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
        ({"mechanism.epsilon": {1, 2}}, "mechanism.epsilon: must be a TOML type"),
        ({"mechanisms.epsilon": 1}, "mine: mechanisms: unknown key; did you mean 'mechanism'"),
        ({"devices.capp": 3}, "mine: devices.capp: unknown key; did you mean 'cap'"),
        ({"devices.capp": None}, "mine: devices.capp: unknown key; did you mean 'cap'"),
        ({"device": None}, "mine: device: unknown key; did you mean 'devices'"),
        ({"mechanism.epsilonn": None}, "mine: mechanism.epsilonn: unknown key; did you mean 'epsilon'"),
        ({"universe.pools.aa": None}, "mine: universe.pools.aa: unknown key; did you mean 'a'"),
        ({"users.behavior.interest.bta": [1, 2]}, "users.behavior.interest.bta: unknown key; did you mean 'beta'"),
        ({"mechanism": None}, "mine: mechanism: is missing"),
        (["mechanism.epsilon"], "changes must be a mapping"),
    ],
)
def test_changes_that_are_wrong(changes, message):
    with pytest.raises(InputError, match=message):
        Scenario.from_dict(TABLES, name="mine").replace(changes)


def test_model_copy_never_plays_one_thing_and_records_another():
    scenario = ps.load_scenario("apple-emojis")
    mechanism = scenario.mechanism.model_copy(update={"epsilon": 1.0})
    with pytest.raises(InputError, match=r"cannot be updated by model_copy, got \['mechanism'\]; use scenario.replace"):
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


def test_removing_what_is_not_there_changes_nothing():
    scenario = Scenario.from_dict(TABLES)
    for key in ("devices", "devices.cap", "users.behavior.interest", "mechanism.epsilon"):
        assert key.startswith("mechanism") or scenario.replace({key: None}).to_dict() == TABLES
    assert scenario.replace({"devices": {"cap": 3}}).replace({"devices": None}).to_dict() == TABLES


def test_a_name_of_its_own():
    scenario = load_scenario("apple-emojis").replace({"mechanism.epsilon": 1}, name="one")
    assert (scenario.name, scenario.file) == ("one", "one")


COMMENTED = """# first
title = "Mine"  # the title
[universe]
size = 30
[universe.pools]  # two
a = 10  # one
b = 10
[popularity]
kind = "uniform"
[mechanism]  # what a device does
kind = "grr"
epsilon = 1  # per report
# adversaries
[[adversary]]
name = "oracle"  # knows all
popularity = "true"
prior = { interest = { beta = [2, 1] } }
[[adversary]]
name = "weak"  # knows nothing
popularity = "uniform"
[attack]
observations = [3, 7] # last"""


def test_comments_are_kept():
    scenario = parse(COMMENTED, name="mine")
    changes = {"mechanism.epsilon": 2, "universe.pools.b": 9, "devices.cap": 5, "attack.threshold": 0.5, "title": None}
    expected = COMMENTED.replace("epsilon = 1 ", "epsilon = 2.0 ").replace("b = 10", "b = 9")
    expected = expected.replace('title = "Mine"  # the title\n', "") + "\nthreshold = 0.5\n\n[devices]\ncap = 5\n"
    assert scenario.replace(changes).text == expected
    back = scenario.replace(changes).replace({"mechanism.epsilon": 1, "universe.pools.b": 10, "title": "Mine"})
    assert back.replace({"devices": None, "attack.threshold": None}).text == COMMENTED


def test_a_comment_stays_with_its_adversary():
    scenario = parse(COMMENTED, name="mine")
    weak, new = {"name": "weak", "popularity": "uniform"}, {"name": "new", "popularity": "true"}
    text = scenario.replace({"adversary": [weak, new]}).text
    assert "# knows nothing" in text
    assert "# knows all" not in text
    assert [entry["name"] for entry in tomllib.loads(text)["adversary"]] == ["weak", "new"]
    turned = scenario.replace({"adversary": [*scenario.to_dict()["adversary"]][::-1]})
    assert [adversary.name for adversary in parse(turned.text, name="x").adversaries] == ["weak", "oracle"]
    assert tomllib.loads(scenario.replace({"adversary": []}).text)["adversary"] == []


def test_the_order_of_pools_is_part_of_what_is_played():
    scenario = parse(COMMENTED, name="mine")
    turned = scenario.replace({"universe.pools": {"b": 10, "a": 10}})
    assert not same_tables(turned.text, scenario.text)
    assert parse(turned.text, name="x").universe().pool_names == turned.universe().pool_names == ("b", "a")
    assert "# per report" in turned.text


WORDS = st.text(
    st.sampled_from("ab.\"'\\ \n\t#=[]{}\x00\x7f\u2028é😀") | st.characters(exclude_categories=["Cs"]), max_size=6
)
CHANGES = {
    "title": st.none() | WORDS,
    "historical": st.none() | st.booleans(),
    "universe.pools": st.dictionaries(WORDS, st.integers(1, 5), min_size=2, max_size=4),
    "mechanism": st.fixed_dictionaries(
        {"kind": st.just("cms"), "epsilon": st.floats(1e-300)}, optional={"m": st.floats()}
    ),
    "mechanism.epsilon": st.floats(1e-300, allow_infinity=True),
    "mechanism.note": st.none() | WORDS | st.integers() | st.floats(allow_nan=False),
    "devices": st.none() | st.fixed_dictionaries({}, optional={"cap": st.integers(1, 99), "memoize": st.just(False)}),
    "users": st.none() | st.fixed_dictionaries({}, optional={"sigma": st.floats(0, 9), "count": st.integers(1, 2**60)}),
    "adversary": st.lists(
        st.fixed_dictionaries({"name": WORDS.filter(bool), "popularity": st.sampled_from(["true", "uniform"])}),
        max_size=3,
        unique_by=lambda entry: entry["name"],
    ),
    "attack": st.none()
    | st.fixed_dictionaries({"observations": st.just((1, 2))}, optional={"threshold": st.floats(0, 1)}),
}
TEXTS = [*map(builtin_text, builtin_names()), COMMENTED, COMMENTED.replace("\n", "\r\n"), ""]


@settings(max_examples=75)
@given(
    text=st.sampled_from(TEXTS), changes=st.lists(st.fixed_dictionaries({}, optional=CHANGES), min_size=1, max_size=3)
)
def test_any_text_says_what_is_played(text, changes):
    scenario = parse(text, name="mine") if text else Scenario.from_dict(TABLES, name="mine")
    for some in changes:
        try:
            scenario = scenario.replace(some)
        except InputError:
            continue
    assert same_tables(scenario.text, scenario.to_dict())
    assert "\n" not in str(scenario.to_dict().keys())


WAYS = {
    "file": lambda path: load_scenario(path),
    "tables": lambda path: Scenario.from_dict(TABLES | {"mechanism": {"kind": "grr", "epsilon": 2}}),
    "replaced file": lambda path: (
        load_scenario(path).replace({"mechanism.epsilon": 1}).replace({"mechanism.epsilon": 2})
    ),
    "replaced tables": lambda path: Scenario.from_dict(TABLES).replace({"mechanism.epsilon": 2}),
    "constructor": lambda path: Scenario(**TABLES | {"mechanism": {"kind": "grr", "epsilon": 2}}),
    "constructor of models": lambda path: Scenario(
        **TABLES | {"mechanism": Scenario.from_dict(TABLES).mechanism.model_copy(update={"epsilon": 2.0})}
    ),
    "model_validate": lambda path: Scenario.model_validate(load_scenario(path).to_dict()),
    "model_copy": lambda path: load_scenario(path).model_copy(deep=True),
    "copy": lambda path: copy.copy(Scenario.from_dict(TABLES).replace({"mechanism.epsilon": 2})),
    "pickle": lambda path: pickle.loads(pickle.dumps(Scenario.from_dict(TABLES).replace({"mechanism.epsilon": 2}))),
}


@pytest.mark.default_cases("constructor", "copy", "file", "model_copy", "tables")
@pytest.mark.parametrize("way", WAYS)
def test_what_is_recorded_is_what_was_played(way, tmp_path):
    """However a scenario is made: the outcomes are those of its recorded text, and of epsilon 2."""
    path = tmp_path / "mine.toml"
    path.write_text(Scenario.from_dict(TABLES).text.replace("epsilon = 1.0", "epsilon = 2"))
    scenario, outcomes = WAYS[way](path), {}
    ps.audit(scenario, tmp_path / "run", users=30, seed=1, html=False)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    recorded = json.loads((tmp_path / "run" / "manifest.json").read_text())["scenario"]
    assert recorded == summary["scenario"]["text"] == scenario.text
    assert summary["scenario"]["mechanism"] == {"kind": "grr", "epsilon": 2.0}
    played = parse(recorded, name="recorded"), Scenario.from_dict(TABLES), scenario
    for name, each in zip(("recorded", "one", "same"), played, strict=True):
        outcomes[name] = ps.play(each.game(seed=1), users=30, seed=1)
    written = pl.read_parquet(tmp_path / "run" / "outcomes" / "*.parquet")
    assert outcomes["recorded"].equals(outcomes["same"])
    assert outcomes["recorded"]["confidence"].sort().equals(written["confidence"].sort())
    assert not outcomes["recorded"].equals(outcomes["one"])


def test_toml_of_odd_tables():
    tables = {"a b": 1, "t": {"x y": {"z": [1.5, float("inf")]}, "e": []}, "l": [{"a": 1}, {"b": {"c": "é\n"}}]}
    assert tomllib.loads(merged_toml("", tables)) == tables
