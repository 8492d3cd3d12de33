"""The JSON Schema of a scenario's tables, with the parameters of every mechanism."""

from __future__ import annotations

import inspect
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from poolscope.core.validation import NUMBER
from poolscope.devices.registry import MECHANISMS
from poolscope.scenario.collection_tables import RANDOMIZERS
from poolscope.scenario.scenario import Scenario
from poolscope.scenario.tables import FILE_PARAMETERS

#: Declared type of a parameter -> its values in TOML; infinity is a number there, and "inf" in JSON.
TYPES: dict[str, dict[str, Any]] = {
    "float": NUMBER,
    "int": {"type": "integer"},
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
}


class _Schema(GenerateJsonSchema):
    """Without the titles that pydantic makes of names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


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
    declared = str(parameter.annotation).removesuffix(" | None")
    known = TYPES.get(getattr(parameter.annotation, "__name__", declared)) or TYPES.get(declared, {})
    if parameter.default in (None, inspect.Parameter.empty):
        return known
    return {**known, "default": parameter.default}


def _shortened(table: dict[str, Any]) -> dict[str, Any]:
    """Keep the first paragraph of a description, which is the docstring of a table."""
    if "description" not in table:
        return table
    return {**table, "description": table["description"].partition("\n\n")[0].replace("\n", " ")}
