"""The JSON Schema of a scenario's tables, with the parameters of every mechanism."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from poolscope.core.validation import INFINITIES, NUMBER
from poolscope.devices.registry import MECHANISMS
from poolscope.scenario.collection_tables import RANDOMIZERS
from poolscope.scenario.scenario import Scenario
from poolscope.scenario.tables import FILE_PARAMETERS, Count, Epsilon


class _Schema(GenerateJsonSchema):
    """Infinity is a number in TOML, and "inf" in JSON; names have no titles, which pydantic makes of them."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def float_schema(self, schema: Any) -> dict[str, Any]:
        found: dict[str, Any] = super().float_schema(schema)
        if {"maximum", "exclusiveMaximum"} & set(found):
            return found
        if not schema.get("allow_inf_nan", True):
            return {**found, "maximum": sys.float_info.max}
        bounded = {"minimum", "exclusiveMinimum"} & set(found)
        return {"anyOf": [found, {"enum": ["inf"] if bounded else list(INFINITIES)}]}


#: Declared type of a parameter -> its values in TOML.
TYPES: dict[str, dict[str, Any]] = {
    "float": NUMBER,
    "int": TypeAdapter(Count).json_schema(),
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
}

EPSILON = TypeAdapter(Epsilon).json_schema(schema_generator=_Schema)


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of a scenario, as `Scenario.to_dict` nests its tables."""
    found = Scenario.model_json_schema(by_alias=True, schema_generator=_Schema)
    definitions = {name: _shortened(table) for name, table in found["$defs"].items()}
    definitions["MechanismTable"] = {
        "description": "``[mechanism]``: a kind and its parameters.",
        "oneOf": [mechanism_schema(kind) for kind in sorted(MECHANISMS)],
    }
    # a scenario of one collection has these tables, one of several has them in each or in [multidimensional]
    found["properties"]["mechanism"] = {"$ref": "#/$defs/MechanismTable"}
    own = {"items": {"required": ["mechanism"]}}
    found["anyOf"] = [
        {"required": ["universe", "mechanism"]},
        {"required": ["attribute", "collection"], "properties": {"collection": own}},
        {"required": ["attribute", "collection", "multidimensional"]},
    ]
    definitions["CollectionTable"]["properties"]["mechanism"] = {
        "anyOf": [
            {"$ref": "#/$defs/MechanismTable"},
            {
                "description": "With [multidimensional], the randomizer of this collection.",
                "type": "object",
                "properties": {"kind": {"enum": list(RANDOMIZERS)}},
                "required": ["kind"],
                "additionalProperties": False,
            },
        ]
    }
    return {"$schema": GenerateJsonSchema.schema_dialect, **_shortened(found), "$defs": definitions}


def mechanism_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of ``[mechanism]`` for one kind, from the signature of its class."""
    parameters = {name: p for name, p in inspect.signature(MECHANISMS[kind]).parameters.items() if name != "universe"}
    needed = [name for name, parameter in parameters.items() if parameter.default is inspect.Parameter.empty]
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}, **{name: _values(name, p) for name, p in parameters.items()}},
        "required": ["kind", *needed],
        "additionalProperties": False,
    }


def _values(name: str, parameter: inspect.Parameter) -> dict[str, Any]:
    if name in FILE_PARAMETERS:
        return {"type": "string", "description": "A file, relative to the scenario's folder."}
    if name == "seed":  # the only integer that is no count
        return {"type": "integer", "default": parameter.default}
    declared = str(parameter.annotation).removesuffix(" | None")
    known = TYPES.get(getattr(parameter.annotation, "__name__", declared)) or TYPES.get(declared, {})
    if name.partition("_")[0] == "epsilon":
        known = EPSILON
    if parameter.default in (None, inspect.Parameter.empty):
        return known
    return {**known, "default": parameter.default}


def _shortened(table: dict[str, Any]) -> dict[str, Any]:
    """Keep the first paragraph of a description, which is the docstring of a table."""
    if "description" not in table:
        return table
    return {**table, "description": table["description"].partition("\n\n")[0].replace("\n", " ")}
