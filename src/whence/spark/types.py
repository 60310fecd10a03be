"""Types: from Spark's to those of plans and back. What plans do not know by structure is kept by a word of its own."""

from __future__ import annotations

import json
from typing import Any, assert_never

from whence.errors import NotTraceable, ParseError
from whence.plan.types import (
    INT,
    ArrayType,
    AtomicType,
    DataType,
    DecimalType,
    Field,
    MapType,
    OtherType,
    Schema,
    StructType,
    parse_type,
)
from whence.spark.jvm import JavaObject

COLLATIONS = "__COLLATIONS"
"""Where Spark's JSON keeps the collations of the strings inside a struct's member; the type itself says `string`."""


def data_type(java_type: JavaObject) -> DataType:
    """The plan type of a Catalyst type."""
    text: str = java_type.catalogString()
    if "<" in text:
        # The catalog's text does not quote the names of members.
        return from_json(json.loads(java_type.json()))
    return _plain(text)


def from_json(value: Any) -> DataType:
    """The plan type of a Spark type written in Spark's JSON.

    >>> str(from_json({"type": "array", "elementType": "long", "containsNull": True}))
    'array<bigint>'
    """
    match value:
        case str():
            return _plain(value)
        case {"type": "array", "elementType": element}:
            return ArrayType(from_json(element))
        case {"type": "map", "keyType": key, "valueType": values}:
            return MapType(from_json(key), from_json(values))
        case {"type": "struct", "fields": list(fields)}:
            return StructType(tuple(Field(f["name"], _member(f)) for f in fields))
        case {"type": "udt"}:
            return _other(f"udt {value.get('pyClass') or value.get('class')}")
        case _:
            return _other(json.dumps(value, sort_keys=True))


def _plain(text: str) -> DataType:
    # The word for Spark's old type of months, days and microseconds, which plans use for the new one of microseconds.
    if text in ("interval", "calendar_interval"):
        return _other("calendar interval")
    try:
        return parse_type(text)
    except ParseError:
        return _other(text)


def to_json(type: DataType) -> Any:
    """The Spark type of a plan type, in Spark's JSON; everything may be null.

    >>> to_json(parse_type("array<int>"))
    {'type': 'array', 'elementType': 'integer', 'containsNull': True}
    """
    match type:
        case ArrayType(element):
            return {"type": "array", "elementType": to_json(element), "containsNull": True}
        case MapType(key, value):
            return {
                "type": "map",
                "keyType": to_json(key),
                "valueType": to_json(value),
                "valueContainsNull": True,
            }
        case StructType(fields):
            return schema_json(fields)
        case DecimalType() | AtomicType():
            return _JSON_WORDS.get(str(type), str(type))
        case OtherType():
            raise NotTraceable(
                f"values of type {type} cannot be made",
                detail="whence knows this type by its name only, so such values can just pass through",
                hint="cast the column to a plainer type before",
            )
        case _:
            assert_never(type)


def schema_json(fields: Schema) -> dict[str, Any]:
    """The Spark struct of a plan's columns, in Spark's JSON."""
    return {
        "type": "struct",
        "fields": [{"name": f.name, "type": to_json(f.type), "nullable": True, "metadata": {}} for f in fields],
    }


def is_known(type: DataType) -> bool:
    """Whether plans know a type and all its parts by structure."""
    match type:
        case ArrayType(element):
            return is_known(element)
        case MapType(key, value):
            return is_known(key) and is_known(value)
        case StructType(fields):
            return all(is_known(f.type) for f in fields)
        case _:
            return not isinstance(type, OtherType)


_JSON_WORDS = {"tinyint": "byte", "smallint": "short", str(INT): "integer", "bigint": "long"}


def _member(field: dict[str, Any]) -> DataType:
    collations = field.get("metadata", {}).get(COLLATIONS)
    if collations:
        return _other(f"collated {json.dumps([field['type'], collations], sort_keys=True)}")
    return from_json(field["type"])


def _other(text: str) -> OtherType:
    """A type nothing is known about, in a form that the plan's text form reads back."""
    return OtherType("other(" + text.replace("(", "[").replace(")", "]") + ")")
