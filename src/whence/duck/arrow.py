"""Arrow tables in and out: the values a plan holds handed to DuckDB, its answers brought to exact types.

DuckDB holds intervals as bigints of microseconds and has no type for columns of nulls only; here
they become Arrow's own. What values mean is not here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import assert_never, cast

import pyarrow as pa

from whence.duck.text import refusal
from whence.plan.nodes import Values
from whence.plan.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    VOID,
    ArrayType,
    AtomicType,
    DataType,
    DecimalType,
    MapType,
    OtherType,
    Schema,
    StructType,
)

_ATOMIC: dict[DataType, pa.DataType] = {
    VOID: pa.null(),
    BOOLEAN: pa.bool_(),
    TINYINT: pa.int8(),
    SMALLINT: pa.int16(),
    INT: pa.int32(),
    BIGINT: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    STRING: pa.string(),
    BINARY: pa.binary(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
    INTERVAL: pa.duration("us"),
}
_MICROSECOND = dt.timedelta(microseconds=1)


def arrow_type(type: DataType) -> pa.DataType:
    """The Arrow type that answers hold values of a type in.

    >>> from whence.plan.types import parse_type
    >>> str(arrow_type(parse_type("array<timestamp>")))
    'list<item: timestamp[us, tz=UTC]>'
    """
    match type:
        case AtomicType():
            return _ATOMIC[type]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element):
            return pa.list_(arrow_type(element))
        case MapType(key, value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case StructType(fields):
            return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in fields])
        case OtherType():
            raise refusal(f"values of type {type} are not understood")
        case _:
            assert_never(type)


def typed(found: pa.Table, schema: Schema) -> pa.Table:
    """DuckDB's columns under the names and in the types of a plan's schema."""
    columns = [_typed(found.column(place), arrow_type(field.type)) for place, field in enumerate(schema)]
    named = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in schema])
    if not schema:
        return found.select([])
    return pa.Table.from_arrays(columns, schema=named)


def _typed(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    if column.type == type:
        return column
    if pa.types.is_null(type):
        return pa.chunked_array([pa.nulls(len(column))])
    try:
        return column.cast(type)
    except pa.ArrowException:
        # Nulls of no type inside arrays and the like; Arrow casts them only one by one.
        return pa.chunked_array([pa.array([_without_micros(v, type) for v in column.to_pylist()], type)])


def _without_micros(value: object, type: pa.DataType) -> object:
    """A value of DuckDB in Arrow's form: bigints for intervals become intervals."""
    if value is None:
        return None
    if pa.types.is_duration(type):
        return cast(int, value) * _MICROSECOND
    if pa.types.is_map(type):
        pairs = cast(Sequence[tuple[object, object]], value)
        return [(_without_micros(k, type.key_type), _without_micros(v, type.item_type)) for k, v in pairs]
    if pa.types.is_list(type):
        return [_without_micros(v, type.value_type) for v in cast(Sequence[object], value)]
    if pa.types.is_struct(type):
        members = cast(Mapping[str, object], value)
        return {f.name: _without_micros(members[f.name], f.type) for f in type}
    return value


def arrow_table(values: Values) -> pa.Table:
    """Constant rows as DuckDB reads them, in columns ``v0``, ``v1`` and so on."""
    columns = []
    for place, field in enumerate(values.fields):
        stored = _stored_type(field.type)
        try:
            columns.append(pa.array([_stored(row[place], field.type) for row in values.rows], stored))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise refusal(
                f"the values of column {field.name!r} are not of type {field.type}",
                str(error).splitlines()[0],
                "give the constants as values of their type",
            ) from None
    return pa.table(columns, names=[f"v{n}" for n in range(len(columns))])


def _stored_type(type: DataType) -> pa.DataType:
    """The Arrow type that DuckDB reads as its own type for it."""
    match type:
        case ArrayType(element):
            return pa.list_(_stored_type(element))
        case MapType(key, value):
            return pa.map_(_stored_type(key), _stored_type(value))
        case StructType(fields):
            return pa.struct([pa.field(f.name, _stored_type(f.type)) for f in fields])
        case _:
            return pa.int64() if type == INTERVAL else (pa.int32() if type == VOID else arrow_type(type))


def _stored(value: object, type: DataType) -> object:
    if value is None or type == VOID:
        return None
    match type:
        case ArrayType(element):
            return [_stored(v, element) for v in cast(Sequence[object], value)]
        case MapType(key, item):
            pairs = value.items() if isinstance(value, Mapping) else cast(Sequence[tuple[object, object]], value)
            return [(_stored(k, key), _stored(v, item)) for k, v in pairs]
        case StructType(fields):
            values = [value[f.name] for f in fields] if isinstance(value, Mapping) else cast(Sequence[object], value)
            return {f.name: _stored(v, f.type) for f, v in zip(fields, values, strict=True)}
        case _:
            return value // _MICROSECOND if isinstance(value, dt.timedelta) else value
