"""The portable subset, casts: which conversions DuckDB makes as Spark does in ANSI mode.

DuckDB's own casts round where Spark cuts off, read more texts as numbers and write floats in
another way; so few of them stand here as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whence.duck.functions import clock, fault, kind_of_type, outside, timestamp_of, within
from whence.duck.text import duck_type, refusal, string
from whence.errors import NotPortable
from whence.plan.types import (
    BIGINT,
    DATE,
    DOUBLE,
    FLOAT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
)


@dataclass(frozen=True, slots=True)
class Conversion:
    """One cast at work: the value as SQL, its type, the wanted type, and the step it stands in."""

    sql: str
    source: DataType
    target: DataType
    where: str


@dataclass(frozen=True, slots=True)
class CastEntry:
    """How DuckDB writes casts from one kind of type to another; ``zoned`` reads the session's zone."""

    source: str
    target: str
    write: Callable[[Conversion], str]
    note: str = ""
    zoned: bool = False


# What Spark trims around numbers in text: blanks and control characters.
_BLANKS = r"[\x{0}-\x{20}\x{7F}]*"
_WHOLE = r"[+-]?[0-9]+"
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_FLOAT = rf"{_NUMBER}(?:[eE][+-]?[0-9]+)?|[+-]?(?i:inf|infinity)|(?i:nan)"
_YEAR = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_DATE = rf"{_YEAR}-(?:0?[1-9]|1[0-2])-(?:0?[1-9]|[12][0-9]|3[01])"
_CLOCK = r"[ T](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_ZONE = r"(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])?"


def _plain(c: Conversion) -> str:
    return f"CAST({c.sql} AS {duck_type(c.target)})"


def _read(c: Conversion, pattern: str, otherwise: str) -> str:
    """The text between blanks, where it has the form, converted by DuckDB."""
    text = f"regexp_extract({c.sql}, {string(f'^{_BLANKS}({pattern}){_BLANKS}$')}, 1)"
    return f"CASE WHEN {text} = '' THEN {otherwise} ELSE CAST({text} AS {duck_type(c.target)}) END"


def _unreadable(c: Conversion) -> str:
    return f"text that is no {c.target}"


def _text_to_whole(c: Conversion) -> str:
    return _read(c, _WHOLE, fault(_unreadable(c), c.where))


def _text_to_other(pattern: str) -> Callable[[Conversion], str]:
    # Spark reads more forms than these, so others are for Spark to judge.
    return lambda c: _read(c, pattern, outside(_unreadable(c) + " in its plain form", c.where))


def _text_to_boolean(c: Conversion) -> str:
    word = f"lower(regexp_extract({c.sql}, {string(f'^{_BLANKS}([A-Za-z01]*){_BLANKS}$')}, 1))"
    return (
        f"CASE WHEN {word} IN ('t', 'true', 'y', 'yes', '1') THEN TRUE "
        f"WHEN {word} IN ('f', 'false', 'n', 'no', '0') THEN FALSE "
        f"WHEN {c.sql} IS NOT NULL THEN {fault(_unreadable(c), c.where)} END"
    )


def _cut_off(c: Conversion) -> str:
    return f"CAST(trunc({c.sql}) AS {duck_type(c.target)})"


def _to_float(c: Conversion) -> str:
    if c.source != DOUBLE or c.target != FLOAT:
        return _plain(c)
    # Halfway between the largest float and the next power of two, doubles round to infinity.
    edge = "3.4028235677973366e38"
    return (
        f"CASE WHEN abs({c.sql}) < {edge} OR isnan({c.sql}) THEN CAST({c.sql} AS FLOAT) "
        f"WHEN {c.sql} > 0 THEN CAST('inf' AS FLOAT) WHEN {c.sql} < 0 THEN CAST('-inf' AS FLOAT) END"
    )


def _decimal_to_float(c: Conversion) -> str:
    if not isinstance(c.source, DecimalType) or c.source.precision > 15 or c.target != DOUBLE:
        raise refusal(
            f"{c.where}: a cast from {c.source} to {c.target} is not portable",
            "only decimals of up to 15 digits become the same double in both engines",
        )
    return _plain(c)


MOST_SECONDS = 9_223_372_022_400
"""From 1970 to the ends of DuckDB's calendar, about; Spark has times beyond, or the last one for all of them."""


def _whole_to_time(c: Conversion) -> str:
    made = timestamp_of(f"(CAST({c.sql} AS BIGINT) * 1000000)", c.target)
    return made if c.source != BIGINT else within(c.sql, -MOST_SECONDS, MOST_SECONDS, made, c.where)


def _float_to_time(c: Conversion) -> str:
    made = timestamp_of(f"CAST(trunc(CAST({c.sql} AS DOUBLE) * 1e6) AS BIGINT)", c.target)
    none = fault(f"{c.source} that is no time", c.where)
    number = within(c.sql, -MOST_SECONDS, MOST_SECONDS, made, c.where)
    return f"CASE WHEN isnan({c.sql}) OR isinf({c.sql}) THEN {none} ELSE {number} END"


def _time_to_whole(c: Conversion) -> str:
    micros = f"epoch_us({c.sql})"
    return f"(({micros} - ((({micros} % 1000000) + 1000000) % 1000000)) // 1000000)"


def _time_to_float(c: Conversion) -> str:
    return f"(CAST(epoch_us({c.sql}) AS DOUBLE) / 1e6)"


def _time_to_text(c: Conversion) -> str:
    shown = clock(c.sql, c.source)
    # Outside these years the two engines write the year, and Spark its sign, differently.
    low, high = ("'0001-01-01'", "'10000-01-01'")
    of_type = "DATE" if c.source == DATE else "TIMESTAMP"
    return (
        f"CASE WHEN {shown} >= {of_type} {low} AND {shown} < {of_type} {high} THEN CAST({shown} AS VARCHAR) "
        f"WHEN {c.sql} IS NOT NULL THEN {outside('a year beyond 1 to 9999 as text', c.where)} END"
    )


def _to_date(c: Conversion) -> str:
    return f"CAST({clock(c.sql, c.source)} AS DATE)"


def _to_timestamp(c: Conversion) -> str:
    if c.source == DATE:
        return timestamp_of(f"epoch_us(CAST({c.sql} AS TIMESTAMP))", c.target)
    return timestamp_of(f"epoch_us({c.sql})", c.target)


CASTS: tuple[CastEntry, ...] = (
    CastEntry("boolean", "integer", _plain),
    CastEntry("boolean", "float", _plain),
    CastEntry("boolean", "string", _plain),
    CastEntry("integer", "boolean", lambda c: f"({c.sql} <> 0)"),
    CastEntry("integer", "integer", _plain, "out of range is an error"),
    CastEntry("integer", "float", _plain),
    CastEntry("integer", "decimal", _plain, "out of range is an error"),
    CastEntry("integer", "string", _plain),
    CastEntry("integer", "timestamp", _whole_to_time, "seconds since 1970"),
    CastEntry("float", "boolean", lambda c: f"({c.sql} <> 0)", "NaN is true"),
    CastEntry("float", "integer", _cut_off, "cut off; NaN and out of range are errors"),
    CastEntry("float", "float", _to_float, "too large for a float becomes infinite"),
    CastEntry("float", "timestamp", _float_to_time, "seconds since 1970, cut off at microseconds"),
    CastEntry("decimal", "boolean", lambda c: f"({c.sql} <> 0)"),
    CastEntry("decimal", "integer", _cut_off, "cut off; out of range is an error"),
    CastEntry("decimal", "float", _decimal_to_float, "up to 15 digits, to double"),
    CastEntry("decimal", "decimal", _plain, "rounds half up; out of range is an error"),
    CastEntry("decimal", "string", _plain),
    CastEntry("string", "boolean", _text_to_boolean),
    CastEntry("string", "integer", _text_to_whole, "digits and a sign, blanks around them; no point"),
    CastEntry("string", "float", _text_to_other(_FLOAT), "plain, with an exponent, inf and nan"),
    CastEntry("string", "decimal", _text_to_other(_NUMBER), "plain, without exponent"),
    CastEntry("string", "date", _text_to_other(_DATE), "year-month-day"),
    CastEntry("string", "binary", lambda c: f"encode({c.sql})"),
    CastEntry("binary", "string", lambda c: f"decode({c.sql})", "what is not UTF-8 is an error"),
    CastEntry("date", "string", _time_to_text, "years 1 to 9999"),
    CastEntry("date", "timestamp", _to_timestamp, zoned=True),
    CastEntry("timestamp", "string", _time_to_text, "years 1 to 9999", zoned=True),
    CastEntry("timestamp", "date", _to_date, zoned=True),
    CastEntry("timestamp", "timestamp", _to_timestamp, zoned=True),
    CastEntry("timestamp", "integer", _time_to_whole, "whole seconds, downwards"),
    CastEntry("timestamp", "float", _time_to_float),
    CastEntry(
        "string",
        "timestamp",
        lambda c: _text_to_other(_DATE + f"(?:{_CLOCK}{'' if c.target == TIMESTAMP_NTZ else _ZONE})?")(c),
        "year-month-day, perhaps hours:minutes:seconds and an offset",
        zoned=True,
    ),
)
_BY_KINDS = {(e.source, e.target): e for e in CASTS}


def cast_sql(sql: str, source: DataType, target: DataType, where: str, *, utc: bool, depth: int = 0) -> str:
    """A cast as SQL; ``utc`` says whether the query ran in UTC, as DuckDB does."""
    if source == target:
        return sql
    if source == VOID:
        return f"CAST(NULL AS {duck_type(target)})"
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        name = f"x{depth}"
        inner = cast_sql(name, source.element, target.element, where, utc=utc, depth=depth + 1)
        return f"[{inner} FOR {name} IN {sql}]"
    entry = _BY_KINDS.get((kind_of_type(source), kind_of_type(target)))
    if entry is None:
        raise _not_portable(source, target, where, "DuckDB converts, writes or rounds such values in another way")
    if entry.zoned and not utc and TIMESTAMP in (source, target):
        raise _not_portable(source, target, where, "the query ran in a time zone other than UTC")
    return entry.write(Conversion(sql, source, target, where))


def _not_portable(source: DataType, target: DataType, where: str, why: str) -> NotPortable:
    return refusal(f"{where}: a cast from {source} to {target} is not portable", why)
