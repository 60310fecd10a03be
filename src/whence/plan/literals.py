"""Constants: their text form, and conversions between types that lose nothing."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Context, Decimal, InvalidOperation

from whence.errors import ParseError, PlanError
from whence.plan.expressions import Literal
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
    DataType,
    DecimalType,
)

RANGES: dict[DataType, int] = {TINYINT: 2**7, SMALLINT: 2**15, INT: 2**31, BIGINT: 2**63}
_SUFFIX: dict[DataType, str] = {TINYINT: "Y", SMALLINT: "S", INT: "", BIGINT: "L"}
_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
# Spark's decimals have 38 digits; Python's own context rounds at 28.
_DIGITS = Context(prec=100)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

UTC_ZONES = frozenset(
    {"UTC", "Etc/UTC", "UCT", "Etc/UCT", "GMT", "Etc/GMT", "Zulu", "Z", "+00:00", "UTC+0", "GMT+0", "UTC+00:00"}
)
"""What a session's time zone is called where its clock is that of UTC."""


def fits(value: int, type: DataType) -> bool:
    """Whether a whole number is in an integer type's range."""
    return -RANGES[type] <= value < RANGES[type]


def print_literal(literal: Literal) -> str:
    """The text of a constant; ``parse_expression`` gives the same constant back."""
    value, type = literal.value, literal.type
    if value is None:
        return "null" if type == VOID else f"cast(null as {type})"
    if type == BOOLEAN:
        return "true" if value else "false"
    if type in INTEGERS:
        return f"{value}{_SUFFIX[type]}"
    if type in (DOUBLE, FLOAT):
        assert isinstance(value, float)
        if math.isfinite(value):
            return f"{value!r}{'D' if type == DOUBLE else 'F'}"
        word = "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        return f"{type} '{word}'"
    if type == STRING:
        return "'" + str(value).replace("'", "''") + "'"
    return f"{_prefix(type)} '{_plain(value, type)}'"


def _prefix(type: DataType) -> str:
    if type in (DATE, TIMESTAMP, TIMESTAMP_NTZ, BINARY) or isinstance(type, DecimalType):
        return str(type)
    if type == INTERVAL:
        return "interval"
    raise PlanError(
        f"constants of type {type} have no text form",
        hint="build the value from plain constants, or make it an opaque expression",
    )


def _plain(value: object, type: DataType) -> str:
    match value:
        case bytes():
            return value.hex()
        case dt.datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ")
        case dt.timedelta():
            return f"{micros_of(value)} microseconds"
        case _:
            return str(value)


def micros_of(value: dt.timedelta) -> int:
    """The microseconds of an interval, exactly."""
    return (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds


def parse_duration(text: str) -> int:
    """The microseconds of a text such as ``30 seconds`` or ``1 hour 30 minutes``.

    >>> parse_duration("30 seconds")
    30000000
    """
    rest = text.strip().lower().removeprefix("interval").strip()
    found = re.findall(r"(-?\d+)\s*([a-z]+)", rest)
    if not found or re.sub(r"(-?\d+)\s*([a-z]+)", "", rest).strip(" ,"):
        raise _duration_error(text)
    total = 0
    for number, unit in found:
        unit = unit if unit in _UNITS else unit.removesuffix("s")
        if unit not in _UNITS:
            raise _duration_error(text)
        total += int(number) * _UNITS[unit]
    return total


def _duration_error(text: str) -> ParseError:
    return ParseError(
        f"malformed duration {text!r}",
        detail="units: " + ", ".join(_UNITS),
        hint="write for example '30 seconds' or '1 hour 30 minutes'",
    )


def parse_typed(type: DataType, text: str) -> Literal:
    """The constant that a type's name followed by a string writes, such as ``date '...'``."""
    try:
        return Literal(_typed_value(type, text), type)
    except (ValueError, InvalidOperation) as error:
        if isinstance(error, ParseError):
            raise
        raise ParseError(
            f"{text!r} is no {type}",
            detail="" if isinstance(error, InvalidOperation) else str(error),
            hint="write times as 2026-01-31 08:00:00, and numbers with as many digits as their type has",
        ) from error


def _typed_value(type: DataType, text: str) -> object:
    if type == DATE:
        return dt.date.fromisoformat(text.strip())
    if type in (TIMESTAMP, TIMESTAMP_NTZ):
        moment = dt.datetime.fromisoformat(text.strip())
        if type == TIMESTAMP_NTZ:
            if moment.tzinfo is not None:
                raise ValueError("a timestamp_ntz has no time zone")
            return moment
        # A run's sessions are read in UTC, so a text without a zone means UTC.
        return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    if type == BINARY:
        return bytes.fromhex(text)
    if type == INTERVAL:
        return dt.timedelta(microseconds=parse_duration(text))
    if isinstance(type, DecimalType):
        return decimal_value(Decimal(text.strip()), type)
    if type in (DOUBLE, FLOAT):
        return float(text)
    if type in INTEGERS:
        number = int(text.strip())
        if not fits(number, type):
            raise ValueError("out of range")
        return number
    if type == BOOLEAN:
        word = text.strip().lower()
        if word not in ("true", "false", "t", "f", "yes", "no", "y", "n", "1", "0"):
            raise ValueError("not true or false")
        return word in ("true", "t", "yes", "y", "1")
    if type == STRING:
        return text
    raise ValueError("this type has no constants")


def decimal_value(value: Decimal, type: DecimalType) -> Decimal:
    """The value with exactly the type's scale; ValueError where digits would be lost."""
    exact = value.quantize(Decimal(1).scaleb(-type.scale), context=_DIGITS)
    if exact != value or len(exact.as_tuple().digits) > max(type.precision, type.scale):
        raise ValueError(f"does not fit {type}")
    return exact


def parse_number(text: str, negative: bool = False) -> Literal:
    """The constant a number token writes, by its suffix as in Spark SQL."""
    sign = "-" if negative else ""
    upper = text.upper()
    if upper.endswith("BD"):
        return _decimal(sign + upper[:-2])
    if upper[-1] in "DF":
        type = DOUBLE if upper[-1] == "D" else FLOAT
        return Literal(float(sign + upper[:-1]), type)
    if upper[-1] in "LSY":
        type = {"L": BIGINT, "S": SMALLINT, "Y": TINYINT}[upper[-1]]
        return _integer(int(sign + upper[:-1]), type, text)
    if "E" in upper:
        return Literal(float(sign + upper), DOUBLE)
    if "." in upper:
        return _decimal(sign + upper)
    number = int(sign + upper)
    return _integer(number, INT if fits(number, INT) else BIGINT, text)


def _integer(number: int, type: DataType, text: str) -> Literal:
    if not fits(number, type):
        raise ParseError(f"{text} is out of range for {type}", hint="write it as a decimal: 1.0BD")
    return Literal(number, type)


def _decimal(text: str) -> Literal:
    value = Decimal(text)
    digits, exponent = value.as_tuple().digits, value.as_tuple().exponent
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    return Literal(value, DecimalType(precision, scale))


def convert(literal: Literal, type: DataType) -> Literal | None:
    """The constant in another type where that loses nothing, else None."""
    value = literal.value
    if value is None or literal.type == type:
        return Literal(value, type)
    match value:
        case bool():
            return None
        case int() if type in INTEGERS:
            return Literal(value, type) if fits(value, type) else None
        case int() if type in (DOUBLE, FLOAT):
            return Literal(float(value), type) if abs(value) < 2**24 else None
        case Decimal() if type in (DOUBLE, FLOAT):
            return Literal(float(value), type)
        case int() | Decimal() if isinstance(type, DecimalType):
            try:
                return Literal(decimal_value(Decimal(value), type), type)
            except (ValueError, InvalidOperation):
                return None
        case str() if type not in (BINARY, STRING, BOOLEAN):
            return parse_typed(type, value)
        case dt.datetime():
            return None
        case dt.date() if type == TIMESTAMP:
            return Literal(dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC), type)
        case _:
            return None


def micros_since_epoch(moment: dt.datetime) -> int:
    """The microseconds from 1970 to a moment, exactly (naive moments as if in UTC)."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return micros_of(aware - _EPOCH)


def moment_of(micros: int) -> dt.datetime:
    """The moment in UTC that many microseconds after 1970."""
    return _EPOCH + dt.timedelta(microseconds=micros)
