"""What columns files really have, compared with what the run says its source has.

DuckDB converts what it finds to the wanted type, rounding and parsing on its way, and takes a
column it does not find for null; Spark refuses the one and looks harder for the other. So files
are looked at once before they are read, and refused by name where the two might differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whence.duck.tables import file_list
from whence.duck.text import refusal
from whence.errors import NotPortable
from whence.plan.types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    ArrayType,
    AtomicType,
    DataType,
    DecimalType,
    Field,
    MapType,
    Schema,
    StructType,
)
from whence.store import NumberedFile


@dataclass(frozen=True, slots=True)
class Stored:
    """A column as files have it: its name, DuckDB's type for it, and whether times in it are INT96."""

    name: str
    type: str
    int96: bool


Layout = tuple[Stored, ...]
"""The columns of a file, in order."""

_TINY = ("TINYINT",)
_SMALL = (*_TINY, "SMALLINT", "UTINYINT")
_INT = (*_SMALL, "INTEGER", "USMALLINT")
_LOSSLESS: dict[DataType, tuple[str, ...]] = {
    TINYINT: _TINY,
    SMALLINT: _SMALL,
    INT: _INT,
    BIGINT: (*_INT, "BIGINT", "UINTEGER"),
    FLOAT: ("FLOAT",),
    DOUBLE: ("FLOAT", "DOUBLE"),
    TIMESTAMP_NTZ: ("TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_S"),
    INTERVAL: ("BIGINT",),
}
_EXACT: dict[DataType, str] = {SMALLINT: "SMALLINT", INT: "INTEGER", BIGINT: "BIGINT", TIMESTAMP_NTZ: "TIMESTAMP"}
_NAMES = {"boolean": "BOOLEAN", "string": "VARCHAR", "binary": "BLOB", "date": "DATE"}


def layouts_query(files: Sequence[NumberedFile]) -> str:
    """The query for the different layouts of files: lists of name, depth-first, with what is needed of each."""
    return (
        "SELECT DISTINCT columns FROM (SELECT list({'name': name, 'type': duckdb_type, 'inside': num_children, "
        "'physical': type} ORDER BY column_id) AS columns "
        f"FROM parquet_schema([{file_list(files)}]) GROUP BY file_name)"
    )


def layout_of(columns: Sequence[dict[str, object]]) -> Layout:
    """The columns of a file from what DuckDB lists of it, the root first."""
    found: list[Stored] = []
    place = 1
    while place < len(columns):
        column, last = columns[place], _end(columns, place)
        int96 = any(part["physical"] == "INT96" for part in columns[place:last])
        found.append(Stored(str(column["name"]), str(column["type"]), int96))
        place = last
    return tuple(found)


def _end(columns: Sequence[dict[str, object]], place: int) -> int:
    """The place after a column and all inside it."""
    after = place + 1
    inside = columns[place]["inside"]
    for _ in range(inside if isinstance(inside, int) else 0):
        after = _end(columns, after)
    return after


def check_layout(source: str, fields: Schema, layout: Layout) -> None:
    """Raise NotPortable unless DuckDB reads the fields of such a file as Spark does."""
    for field in fields:
        found = [c for c in layout if c.name.lower() == field.name.lower()]
        if not found:
            continue  # null, in both engines
        if len(found) > 1:
            raise _different(source, field, "files have it twice, in two spellings")
        if _ascii_lower(found[0].name) != _ascii_lower(field.name):
            raise _different(source, field, f"files call it {found[0].name!r}, the same only by Unicode's rules")
        if not _is_lossless(found[0], field.type):
            raise _different(
                source, field, f"files have it as {found[0].type}, which DuckDB would convert by its own rules"
            )


def _ascii_lower(name: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in name)


def _different(source: str, field: Field, why: str) -> NotPortable:
    return refusal(f"column {field.name!r} ({field.type}) of source {source!r} is not portable", why)


def _is_lossless(stored: Stored, type: DataType) -> bool:
    if type in _LOSSLESS:
        return stored.type in _LOSSLESS[type] and not stored.int96
    match type:
        case DecimalType(precision, scale) if stored.type.startswith("DECIMAL("):
            digits, places = (int(n) for n in stored.type[8:-1].split(","))
            return digits - places <= precision - scale and places <= scale
        case _:
            # DuckDB quotes the names of members where they need it.
            return stored.type.replace('"', "").lower() == _written(type, stored.int96).replace('"', "").lower()


def _written(type: DataType, int96: bool) -> str:
    """A type as DuckDB prints it."""
    match type:
        case ArrayType(element):
            return f"{_written(element, int96)}[]"
        case MapType(key, value):
            return f"MAP({_written(key, int96)}, {_written(value, int96)})"
        case StructType(fields):
            return f"STRUCT({', '.join(f'{f.name} {_written(f.type, int96)}' for f in fields)})"
        case AtomicType() if type == TIMESTAMP:
            return "TIMESTAMP" if int96 else "TIMESTAMP WITH TIME ZONE"
        case AtomicType() if type in _LOSSLESS:
            return _EXACT.get(type, _LOSSLESS[type][-1])
        case AtomicType(name):
            return _NAMES.get(name, name)
        case _:
            return str(type).upper()
