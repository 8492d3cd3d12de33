"""The JSON Schema of a scenario: what it refuses, the loader refuses too, and no built-in scenario is refused."""

import inspect
import math

import jsonschema
import pytest

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.devices.registry import MECHANISMS
from poolscope.mechanisms import make
from poolscope.scenario.json_schema import mechanism_schema, scenario_schema
from poolscope.scenario.scenario import builtin_names, load_scenario

TABLES = {
    "universe": {"size": 10, "pools": {"a": 2, "b": 3}},
    "mechanism": {"kind": "grr", "epsilon": 1},
    "devices": {"memoize": True, "instantaneous": {"kind": "grr", "epsilon": 1}, "reports_per_day": 3},
}

#: Parameters that are given beside the one that is too small.
BESIDE = {"epsilon": 1.0, "g": 4, "m": 4, "hashes": 4, "samples": [[0, 1]]}


@pytest.fixture(scope="module")
def schema():
    jsonschema.Draft202012Validator.check_schema(scenario_schema())
    return jsonschema.Draft202012Validator(scenario_schema())


def changed(table, key, value):
    return TABLES | {table: TABLES[table] | {key: value}}


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("mechanism", "epsilon", -1),
        ("mechanism", "epsilon", 0),
        ("universe", "size", 0),
        ("universe", "pools", {}),
        ("universe", "pools", {"a": 2}),
        ("universe", "pools", {"a": 2, "b": 0}),
        ("devices", "reports_per_day", math.inf),
        ("devices", "reports_per_day", 0),
        ("devices", "instantaneous", {"kind": "grr", "epsilon": 0}),
    ],
)
def test_schema_and_loader_refuse_the_same(schema, table, key, value):
    assert not schema.is_valid(changed(table, key, value))
    with pytest.raises(InputError, match=key):
        ps.Scenario.from_dict(changed(table, key, value))


def test_schema_and_loader_take_the_same(schema):
    endless = {"kind": "grr", "epsilon": math.inf}
    for tables in (TABLES, changed("mechanism", "epsilon", math.inf), changed("devices", "instantaneous", endless)):
        schema.validate(tables)
        schema.validate(ps.Scenario.from_dict(tables).dump())


@pytest.mark.parametrize("kind", sorted(MECHANISMS))
def test_bounds_of_parameters_are_those_of_the_mechanism(kind):
    """Zero is refused by both: no epsilon is 0, and neither is an integer, except a seed."""
    found = mechanism_schema(kind)
    declared = {name: str(p.annotation) for name, p in inspect.signature(MECHANISMS[kind]).parameters.items()}
    integers = {name for name, one in declared.items() if one.startswith("int")} - {"universe", "seed"}
    for name in integers | {name for name in declared if name.startswith("epsilon")}:
        parameters = {one: value for one, value in BESIDE.items() if one in declared} | {name: 0}
        assert not jsonschema.Draft202012Validator(found["properties"][name]).is_valid(0)
        with pytest.raises(InputError, match=r"must be|must have"):
            make(kind, 30, parameters)


@pytest.mark.parametrize("name", builtin_names())
def test_a_built_in_scenario_is_valid(schema, name):
    schema.validate(load_scenario(name).dump())
