"""Plan types and oracle values as Arrow types and tables, for runs that tests write by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import pyarrow as pa

from whence.errors import PlanError
from whence.plan.types import (
    ArrayType,
    AtomicType,
    DataType,
    DecimalType,
    MapType,
    OtherType,
    Schema,
    StructType,
)

_ATOMIC = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    # Parquet has no such type; Spark writes these as microseconds too.
    "interval day to second": pa.int64(),
    "void": pa.int32(),
}


def arrow_type(type: DataType) -> pa.DataType:
    """The Arrow type that holds values of a plan type on disk.

    >>> from whence.plan.types import parse_type
    >>> str(arrow_type(parse_type("array<struct<a:int>>")))
    'list<element: struct<a: int32>>'
    """
    match type:
        case AtomicType(name):
            return _ATOMIC[name]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element):
            return pa.list_(pa.field("element", arrow_type(element)))
        case MapType(key, value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case StructType(fields):
            return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in fields])
        case OtherType(text):
            raise PlanError(f"no Arrow type holds values of type {text}", hint="leave the column out")
        case _:
            assert_never(type)


def arrow_table(schema: Schema, rows: Sequence[Sequence[object]]) -> pa.Table:
    """Rows of oracle values as an Arrow table."""
    columns = []
    for place, field in enumerate(schema):
        values = [_plain(row[place], field.type) for row in rows]
        columns.append(pa.array(values, arrow_type(field.type)))
    return pa.table(columns, names=[f.name for f in schema]) if columns else pa.table({})


def _plain(value: object, type: DataType) -> object:
    """The value in the form Arrow takes: structs as dicts, maps as pairs."""
    if value is None:
        return None
    match type:
        case StructType(fields):
            assert isinstance(value, Sequence)
            return {f.name: _plain(v, f.type) for f, v in zip(fields, value, strict=True)}
        case ArrayType(element):
            assert isinstance(value, Sequence)
            return [_plain(v, element) for v in value]
        case _:
            return value
