"""Names, types and constants as DuckDB SQL text.

Everything a user chose (names, strings, numbers) becomes SQL text here and nowhere else, so that
quoting has one place. Intervals are bigints of microseconds in DuckDB, because that is how Spark
writes them to Parquet and because DuckDB's own intervals know months. What expressions and nodes
mean is not here.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

from whence.errors import NotPortable
from whence.plan.literals import micros_since_epoch
from whence.plan.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGERS,
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
    StructType,
)

SPARK_HINT = "ask with Spark, which runs every plan"

_TYPES: dict[DataType, str] = {
    VOID: "INTEGER",  # DuckDB has no type for columns that hold only nulls
    BOOLEAN: "BOOLEAN",
    TINYINT: "TINYINT",
    SMALLINT: "SMALLINT",
    INT: "INTEGER",
    BIGINT: "BIGINT",
    FLOAT: "FLOAT",
    DOUBLE: "DOUBLE",
    STRING: "VARCHAR",
    BINARY: "BLOB",
    DATE: "DATE",
    TIMESTAMP: "TIMESTAMPTZ",
    TIMESTAMP_NTZ: "TIMESTAMP",
    INTERVAL: "BIGINT",
}


def refusal(statement: str, detail: str = "", hint: str = SPARK_HINT) -> NotPortable:
    """The error for what DuckDB cannot do just as Spark does."""
    return NotPortable(statement, detail=detail, hint=hint)


def quoted(name: str) -> str:
    """A name as DuckDB reads it back letter by letter.

    >>> print(quoted('say "hi" now'))
    "say ""hi"" now"
    """
    if not name or "\0" in name or not _is_unicode(name):
        raise refusal(f"DuckDB has no name {name!r}", "names are neither empty nor hold a null character")
    return '"' + name.replace('"', '""') + '"'


def string(value: str) -> str:
    """A string constant.

    >>> string("it's")
    "'it''s'"
    """
    if not _is_unicode(value):
        raise refusal(f"the string {value!r} is not Unicode", "it holds half of a surrogate pair")
    # The parser ends its input at a null character, so it cannot stand in a constant itself.
    parts = ["'" + part.replace("'", "''") + "'" for part in value.split("\0")]
    return parts[0] if len(parts) == 1 else "(" + " || chr(0) || ".join(parts) + ")"


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def duck_type(type: DataType) -> str:
    """The DuckDB type that holds values of a type.

    >>> from whence.plan.types import WINDOW
    >>> duck_type(WINDOW)
    'STRUCT("start" TIMESTAMPTZ, "end" TIMESTAMPTZ)'
    """
    match type:
        case AtomicType():
            return _TYPES[type]
        case DecimalType(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case ArrayType(element):
            return f"{duck_type(element)}[]"
        case MapType(key, value):
            return f"MAP({duck_type(key)}, {duck_type(value)})"
        case StructType(fields):
            folded = {f.name.casefold() for f in fields}
            if not fields or len(folded) < len(fields):
                raise refusal(
                    f"DuckDB has no type for {type}",
                    "a struct needs members there, and names that differ not only in case",
                )
            return "STRUCT(" + ", ".join(f"{quoted(f.name)} {duck_type(f.type)}" for f in fields) + ")"
        case OtherType():
            raise refusal(f"values of type {type} are not understood")


def literal(value: object, type: DataType) -> str:
    """A constant of a type, as an expression of exactly the DuckDB type that holds it.

    >>> from whence.plan.types import SMALLINT, DOUBLE
    >>> literal(5, SMALLINT), literal(0.1, DOUBLE)
    ('CAST(5 AS SMALLINT)', "CAST('0.1' AS DOUBLE)")
    """
    if type == VOID:
        return "NULL"
    if value is None:
        return f"CAST(NULL AS {duck_type(type)})"
    match type:
        case ArrayType(element) if isinstance(value, Sequence):
            return f"CAST([{', '.join(literal(v, element) for v in value)}] AS {duck_type(type)})"
        case MapType(key, item):
            pairs = list(value.items() if isinstance(value, Mapping) else value)  # type: ignore[call-overload]
            keys = literal(tuple(k for k, _ in pairs), ArrayType(key))
            return f"map({keys}, {literal(tuple(v for _, v in pairs), ArrayType(item))})"
        case StructType(fields):
            duck_type(type)
            values = [value[f.name] for f in fields] if isinstance(value, Mapping) else value
            members = zip(fields, values, strict=True)  # type: ignore[call-overload]
            return "{" + ", ".join(f"{string(f.name)}: {literal(v, f.type)}" for f, v in members) + "}"
        case _:
            return from_cell(cell(value, type), type)


def cell(value: object, type: DataType) -> str:
    """A constant of an atomic type in the short form that ``from_cell`` makes a value of.

    Tables of constants write many cells and convert once a column.
    """
    if value is None or type == VOID:
        return "NULL"
    match value:
        case bool() if type == BOOLEAN:
            return "TRUE" if value else "FALSE"
        case int() if type in INTEGERS:
            return str(int(value))
        case int() | float() if type in (DOUBLE, FLOAT):
            return string(_float_text(float(value)))
        case Decimal() | int() if isinstance(type, DecimalType):
            return string(format(Decimal(value), "f"))
        case str() if type == STRING:
            return string(value)
        case bytes() | bytearray() if type == BINARY:
            return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'"
        case dt.datetime() if type in (TIMESTAMP, TIMESTAMP_NTZ):
            return str(micros_since_epoch(value))
        case dt.timedelta() if type == INTERVAL:
            return str(value // dt.timedelta(microseconds=1))
        case dt.date() if type == DATE:
            return string(value.isoformat())
        case _:
            raise refusal(
                f"{value!r} is not a constant of type {type}",
                f"it is a {value.__class__.__name__}",
                "give the constant as a value of its type",
            )


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(value) if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def from_cell(sql: str, type: DataType) -> str:
    """The value of a cell, or of a column of cells."""
    match type:
        case t if t == VOID:
            return "NULL"
        case t if t == TIMESTAMP:
            return f"make_timestamptz(CAST({sql} AS BIGINT))"
        case t if t == TIMESTAMP_NTZ:
            return f"make_timestamp(CAST({sql} AS BIGINT))"
        case t if t == STRING and sql.startswith("'"):
            return sql
        case _:
            return f"CAST({sql} AS {duck_type(type)})"


class Names:
    """The SQL name of each column name of a plan.

    DuckDB does not tell names apart by case, plans do: a name that meets another of its kind gets
    a number, as do names DuckDB cannot write at all.
    """

    def __init__(self, reserved: Sequence[str] = ()) -> None:
        self._taken = {name.casefold() for name in reserved}
        self._given: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        """The quoted SQL name for a column's name."""
        if name not in self._given:
            self._given[name] = quoted(self.unique(name))
        return self._given[name]

    def unique(self, wish: str) -> str:
        """The wished name, or one like it that nothing else has."""
        plain = "".join(c if c.isprintable() and _is_unicode(c) else "_" for c in wish) or "_"
        candidate, number = plain, 1
        while candidate.casefold() in self._taken:
            number += 1
            candidate = f"{plain} {number}"
        self._taken.add(candidate.casefold())
        return candidate
