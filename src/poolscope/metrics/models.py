"""Results as pydantic dataclasses: one writer, one reader and one JSON Schema for every record that is written.

In JSON an estimate is three numbers beside each other, ``auc_pn``, ``auc_pn_low`` and ``auc_pn_high``. Infinity is the
text "inf", and a value that is not known, such as a share of nobody, is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from math import nan
from operator import index
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    Self,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

from pydantic import (
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    Strict,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema

from poolscope.core.errors import InputError, located
from poolscope.core.files import json_safe, read_json
from poolscope.core.validation import NUMBER, json_input_error, real, rejection
from poolscope.metrics.intervals import Estimate

FORMAT = 1
"""The format of the files that this version writes and reads."""

ENDS = ("", "_low", "_high")
"""What the names of the three numbers of an estimate end in."""

Model = TypeVar("Model")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
def result(kind: type[Model]) -> type[Model]:
    """Make a frozen pydantic dataclass of a class, whose fields are given by name."""
    made: Any = pydantic_dataclass(frozen=True, kw_only=True)(kind)
    return cast("type[Model]", made)


def whole(value: Any) -> int:
    """Return a whole number; refuse anything else."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise rejection("must be a whole number", value=value)
    return index(value)


def count(value: Any) -> int:
    """Return a whole number of at least 1; refuse anything else."""
    if not isinstance(value, int | float) and not hasattr(value, "__index__"):
        raise rejection("must be a number", value=value)
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise rejection("must be a whole number of at least 1", value=value)
    return index(value)


def _is_version(value: Any) -> int:
    if value != FORMAT or isinstance(value, bool):
        remedy = "read the file with the version of poolscope that wrote it"
        raise rejection(f"must be {FORMAT}", value=value, remedy=remedy)
    return FORMAT


_AS_JSON = PlainSerializer(json_safe, when_used="json")

Real = Annotated[float, PlainValidator(lambda value: real(value)), _AS_JSON, WithJsonSchema(NUMBER)]
UnknownReal = Annotated[float, _AS_JSON, WithJsonSchema({"anyOf": [*NUMBER["anyOf"], {"type": "null"}]})]
Whole = Annotated[int, PlainValidator(whole), WithJsonSchema({"type": "integer"})]
Count = Annotated[int, PlainValidator(count), WithJsonSchema({"type": "integer", "minimum": 1})]
Flag = Annotated[bool, Strict()]
Seconds = Annotated[Real, PlainSerializer(lambda seconds: round(seconds, 3), when_used="json")]
Format = Annotated[int, PlainValidator(_is_version), WithJsonSchema({"const": FORMAT})]

NULLABLE = "null is NaN"
"""Marks an estimate whose value may be unknown."""

UnknownEstimate = Annotated[Estimate, NULLABLE]


#: What was made of each kind of record, which takes a while.
_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}
_INTERVALS: dict[Any, tuple[_Interval, ...]] = {}


class _Interval(NamedTuple):
    """A field that is an estimate: its names in Python and in JSON, and whether it or its value may be missing."""

    name: str
    key: str
    optional: bool
    nullable: bool


@result
class Result:
    """A record that a file keeps: an estimate is three entries of it.

    Keys that a reader does not know are ignored.
    """

    __pydantic_config__ = ConfigDict(arbitrary_types_allowed=True)

    omits_none: ClassVar[bool] = False
    """Whether fields that have no value, and None for a default, are left out."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, found: Any) -> Any:
        """Make an estimate of three entries of a file."""
        if not isinstance(found, dict):
            return found
        found = dict(found)
        for name, key, optional, nullable in intervals(cls):
            given = found.get(key)
            if isinstance(given, tuple | list) or (key not in found and f"{key}_low" not in found):
                continue
            if optional and given is None and f"{key}_low" not in found:
                continue
            found[name] = Estimate(*(_end(found.pop(part, None), part, nullable) for part in _keys(key)))
        return found

    @model_serializer(mode="wrap")
    def _spread(self, handler: Any) -> dict[str, Any]:
        """Make three entries of an estimate."""
        known = {interval.name: interval for interval in intervals(type(self))}
        omitted = {entry.name for entry in fields(self) if self.omits_none and entry.default is None}
        spread: dict[str, Any] = {}
        for name, value in handler(self).items():
            if name in known and value is not None:
                spread |= zip(_keys(known[name].key), value, strict=True)
            elif value is not None or name not in omitted:
                spread[name] = value
        return spread

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        entries, required = schema["properties"], set(schema.get("required", ()))
        if cls.omits_none:
            required -= {entry.name for entry in fields(cls) if entry.default is None}
        spread: dict[str, Any] = {}
        known = {interval.name: interval for interval in intervals(cls)}
        for name, entry in entries.items():
            if name not in known:
                spread[name] = entry
                continue
            (_, key, optional, nullable), needed = known[name], name in required
            required.discard(name)
            if needed and not optional:
                required |= set(_keys(key))
            alternatives = [*NUMBER["anyOf"], {"type": "null"}] if nullable or optional else NUMBER["anyOf"]
            spread |= {part: {"anyOf": alternatives} for part in _keys(key)}
        schema |= {"properties": spread, "required": [name for name in spread if name in required]}
        schema |= {"additionalProperties": False, "description": (cls.__doc__ or "").partition("\n")[0]}
        return reference

    def flat(self) -> dict[str, Any]:
        """Return the record as one row, with infinities and NaN as numbers."""
        row: dict[str, Any] = adapter(type(self)).dump_python(self)
        return row

    def as_json(self) -> dict[str, Any]:
        """Return the record for a file: infinity is the text "inf", and what is not known is null."""
        found: dict[str, Any] = adapter(type(self)).dump_python(self, mode="json")
        return found

    @classmethod
    def from_json(cls, found: Any) -> Self:
        """Return the record that ``as_json`` wrote; an ``InputError`` names a field that is missing or malformed."""
        return read_model(cls, found)


@result
class FlatRecord(Result):
    """A record of numbers and texts, a row of a table; a field without a value is left out."""

    omits_none: ClassVar[bool] = True


def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return what reads and writes a kind of record."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def intervals(kind: Any) -> tuple[_Interval, ...]:
    """Return the fields of a record that are estimates."""
    if kind not in _INTERVALS:
        _INTERVALS[kind] = tuple(_intervals(kind))
    return _INTERVALS[kind]


def _intervals(kind: Any) -> Iterator[_Interval]:
    found: dict[str, FieldInfo] = kind.__pydantic_fields__
    for name, field in found.items():
        either = (
            get_args(field.annotation) if get_origin(field.annotation) in (Union, UnionType) else (field.annotation,)
        )
        for one in either:
            own, *marks = get_args(one) if get_origin(one) is Annotated else (one,)
            if own is Estimate:
                key, nullable = field.serialization_alias or name, NULLABLE in (*field.metadata, *marks)
                yield _Interval(name, key, NoneType in either, nullable)


def _keys(key: str) -> list[str]:
    return [f"{key}{end}" for end in ENDS]


def _end(value: Any, key: str, nullable: bool) -> float:
    return nan if value is None and nullable else real(value, key)


def read_model(kind: type[Model], found: Any) -> Model:
    """Return the model of this kind that a file keeps; an ``InputError`` names what is missing or malformed."""
    if not isinstance(found, dict):
        raise InputError("must be an object", value=found)
    try:
        model: Model = adapter(kind).validate_python(found)
    except ValidationError as error:
        raise json_input_error(error) from None
    return model


def read_result(kind: type[Model], path: Path) -> Model:
    """Return the model of this kind that lies in a file of JSON."""
    found = read_json(path)
    with located(file=path):
        return read_model(kind, found)


def as_text(result: Any) -> str:
    """Return a result as the text of its file."""
    found = adapter(type(result)).dump_python(result, mode="json")
    return json.dumps(found, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


class _FileSchema(GenerateJsonSchema):
    """The schema of files: what spreads an estimate says itself which entries it makes of it."""

    def ser_schema(self, schema: Any) -> JsonSchemaValue | None:
        return None if schema["type"] == "function-wrap" else super().ser_schema(schema)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:
        return not field.get("serialization_exclude")  # what has a default is written too


def json_schema(kind: Any, *, strict: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of the files that hold a kind of result.

    A later version may add fields, so the schema allows them; with `strict`, only those that this version writes.
    """
    found = adapter(kind).json_schema(mode="serialization", by_alias=False, schema_generator=_FileSchema)
    schema = {"$schema": GenerateJsonSchema.schema_dialect, **found}
    return schema if strict else cast("dict[str, Any]", _open(schema))


def _open(schema: Any) -> Any:
    """Return a schema without the rule that objects have no further properties."""
    if isinstance(schema, list):
        return [_open(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: _open(v) for k, v in schema.items() if not (k == "additionalProperties" and v is False)}
