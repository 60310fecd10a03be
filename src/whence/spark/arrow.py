"""Arrow tables for Spark: plan rows as DataFrames, and DataFrames as tables of exactly a plan's types.

Arrow carries every type of the algebra without loss; times cross in UTC. Nothing is computed here.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

import pyarrow as pa

from whence.plan.types import ArrayType, AtomicType, DataType, DecimalType, MapType, OtherType, Schema, StructType
from whence.spark.jvm import Jvm
from whence.spark.types import is_known, schema_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ATOMIC = {
    "void": pa.null(),
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
    "interval day to second": pa.duration("us"),
}


def arrow_type(type: DataType) -> pa.DataType | None:
    """The Arrow type of a plan type; None where plans do not know its structure."""
    if not is_known(type):
        return None
    match type:
        case AtomicType(name):
            return _ATOMIC[name]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element):
            return pa.list_(arrow_type(element))
        case MapType(key, value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case StructType(fields):
            return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in fields])
        case OtherType():
            return None
        case _:
            assert_never(type)


def frame_of_rows(jvm: Jvm, fields: Schema, rows: Sequence[Sequence[object]]) -> DataFrame:
    """A DataFrame of rows of plan values. Its columns are called c0, c1 and so on: names may differ by case only."""
    from pyspark.sql.types import StructType as SparkStruct

    columns = [
        pa.array([_plain(row[place], field.type) for row in rows], arrow_type(field.type))
        for place, field in enumerate(fields)
    ]
    labels = [f"c{place}" for place in range(len(fields))]
    wanted = SparkStruct.fromJson(
        json.loads(json.dumps(schema_json(tuple(type(f)(n, f.type) for n, f in zip(labels, fields, strict=True)))))
    )
    return jvm.spark.createDataFrame(pa.table(columns, names=labels), wanted)


def _plain(value: object, type: DataType) -> object:
    """The value in the form Arrow takes."""
    if value is None:
        return None
    match type:
        case StructType(fields):
            members = value.values() if isinstance(value, dict) else value
            assert isinstance(members, Sequence) or isinstance(value, dict)
            return {f.name: _plain(v, f.type) for f, v in zip(fields, members, strict=True)}  # type: ignore[call-overload]
        case ArrayType(element):
            assert isinstance(value, Sequence)
            return [_plain(v, element) for v in value]
        case MapType(key, item):
            pairs = value.items() if isinstance(value, dict) else value
            return [(_plain(k, key), _plain(v, item)) for k, v in pairs]  # type: ignore[attr-defined]
        case _:
            return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo else value


def table_of(df: DataFrame, fields: Schema) -> pa.Table:
    """The rows of a DataFrame, its columns of exactly the plan's types and names."""
    found = _nullable(df, fields).toArrow()
    columns = []
    for place, field in enumerate(fields):
        column = found.column(place)
        wanted = arrow_type(field.type)
        columns.append(column if wanted is None or column.type == wanted else column.cast(wanted))
    if not columns:
        return pa.table({})
    return pa.Table.from_arrays(
        columns, schema=pa.schema([(f.name, c.type) for f, c in zip(fields, columns, strict=True)])
    )


def _nullable(df: DataFrame, fields: Schema) -> DataFrame:
    """With members of structs that may be null: Arrow takes no null struct whose members may not be."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType as SparkStruct

    if not any(_has_parts(f.type) for f in fields):
        return df
    plain = df.toDF(*(f"c{place}" for place in range(len(fields))))
    columns = []
    for place, (field, given) in enumerate(zip(fields, plain.schema, strict=True)):
        column = F.col(f"c{place}")
        if _has_parts(field.type) and is_known(field.type):
            wanted = SparkStruct.fromJson(schema_json((field,))).fields[0].dataType
            column = column if given.dataType == wanted else column.cast(wanted)
        columns.append(column)
    return plain.select(*columns)


def _has_parts(type: DataType) -> bool:
    return isinstance(type, ArrayType | MapType | StructType)
