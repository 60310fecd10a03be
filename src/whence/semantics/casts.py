"""Casts between types, as Spark 4 defines them in ANSI mode with the session time zone UTC.

What does not convert is an EvaluationError. Narrower than Spark in one place: times are read from
text only as a date with or without a clock time and an offset; the zone names and times without a
date that Spark also reads depend on the machine and the day.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation

from whence.errors import EvaluationError
from whence.plan.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
)
from whence.semantics.values import (
    BITS,
    Value,
    as_decimal,
    fits,
    from_micros,
    micros,
    single,
)

TRUE_WORDS = ("t", "true", "y", "yes", "1")
FALSE_WORDS = ("f", "false", "n", "no", "0")
# Spark trims what Java calls whitespace or control characters, on both sides.
BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
WHOLE = re.compile(r"[+-]?[0-9]+\Z")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?\Z")
DAY = r"(?P<year>[0-9]{4,})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
DATE_TEXT = re.compile(DAY + r"(?:[ T].*)?)?)?\Z", re.DOTALL)
TIME_TEXT = re.compile(
    DAY + r"(?:[ T](?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})"
    r"(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?)?"
    r"(?P<zone>Z|UTC|[+-][0-9]{1,2}(?::[0-9]{1,2})?)?)?)?)?\Z"
)


def cast_function(source: DataType, target: DataType) -> Callable[[Value], Value]:
    """The function that converts values (not null) of one type to another."""
    if source in (target, VOID):
        return lambda value: value
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        of_element = cast_function(source.element, target.element)
        return lambda value: tuple(None if v is None else of_element(v) for v in value)
    convert = _conversion(source, target)
    to_decimal = isinstance(target, DecimalType)

    def cast(value: Value) -> Value:
        # The one thing Spark turns into null and not into an error, also in ANSI mode.
        if to_decimal and isinstance(value, float) and not math.isfinite(value):
            return None
        result = convert(value)
        if result is None:
            raise EvaluationError(
                f"cast: {value!r} has no value of type {target}",
                detail=f"it is a {source}",
                hint="filter such rows out before the cast",
            )
        return result

    return cast


def _conversion(source: DataType, target: DataType) -> Callable[[Value], Value]:
    """A function that gives None for what does not convert."""
    match target:
        case t if t == STRING:
            return _to_string(source)
        case t if t == BOOLEAN:
            return _text_to_boolean if source == STRING else lambda value: value != 0
        case t if t in BITS:
            return lambda value: _in_range(_to_whole(value, source), target)
        case t if t in (FLOAT, DOUBLE):
            shape = single if target == FLOAT else float
            return lambda value: _shaped(_to_double(value, source), shape)
        case DecimalType():
            return lambda value: _to_decimal(value, source, target)
        case t if t == BINARY:
            return lambda value: value.encode()
        case t if t == DATE:
            return _text_to_date if source == STRING else lambda value: value.date()
        case _:
            return lambda value: _to_time(value, source, target)


def _in_range(value: int | None, type: DataType) -> int | None:
    return value if value is not None and fits(value, type) else None


def _shaped(value: float | None, shape: Callable[[float], float]) -> float | None:
    return None if value is None else shape(value)


def _to_whole(value: Value, source: DataType) -> int | None:
    if source == STRING:
        text = value.strip(BLANKS)
        return int(text) if WHOLE.match(text) else None
    if source == TIMESTAMP:
        return micros(value) // 1_000_000
    if source in (FLOAT, DOUBLE) and not math.isfinite(value):
        return None
    return int(value)


def _to_double(value: Value, source: DataType) -> float | None:
    if source == TIMESTAMP:
        # Two roundings, as in Spark: before the year 1684 the microseconds are no exact double.
        return float(micros(value)) / 1_000_000
    if source != STRING:
        return float(value)
    text = value.strip(BLANKS)
    if NUMBER.match(text):
        return float(text.rstrip("dDfF"))
    match text.lower():
        case "inf" | "+inf" | "infinity" | "+infinity":
            return math.inf
        case "-inf" | "-infinity":
            return -math.inf
        case "nan":
            return math.nan
        case _:
            return None


def _to_decimal(value: Value, source: DataType, target: DecimalType) -> Decimal | None:
    if source == STRING:
        text = value.strip(BLANKS)
        try:
            return as_decimal(Decimal(text), target) if "_" not in text else None
        except InvalidOperation:
            return None
    # A double counts as the shortest decimal that reads back as it, not as its binary expansion.
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return as_decimal(exact, target)


def _to_time(value: Value, source: DataType, target: DataType) -> datetime | None:
    zone = None if target == TIMESTAMP_NTZ else UTC
    match source:
        case t if t == STRING:
            return _text_to_time(value, target)
        case t if t == DATE:
            return datetime(value.year, value.month, value.day, tzinfo=zone)
        case t if t in (TIMESTAMP, TIMESTAMP_NTZ):
            return value.replace(tzinfo=zone)  # type: ignore[no-any-return]
        case t if t in (FLOAT, DOUBLE):
            return from_micros(int(value * 1_000_000)) if math.isfinite(value) else None
        case _:
            return from_micros(int(value) * 1_000_000)


def _text_to_boolean(text: str) -> bool | None:
    word = text.strip(BLANKS).lower()
    return True if word in TRUE_WORDS else (False if word in FALSE_WORDS else None)


def _text_to_date(text: str) -> date | None:
    found = DATE_TEXT.match(text.strip(BLANKS))
    if found is None:
        return None
    try:
        return date(int(found["year"]), int(found["month"] or 1), int(found["day"] or 1))
    except (ValueError, OverflowError):
        return None


def _text_to_time(text: str, target: DataType) -> datetime | None:
    found = TIME_TEXT.match(text.strip(BLANKS))
    if found is None:
        return None
    fraction = int((found["fraction"] or "").ljust(6, "0")[:6])
    clock = [int(found[part] or 0) for part in ("hour", "minute", "second")]
    try:
        day = datetime(int(found["year"]), int(found["month"] or 1), int(found["day"] or 1))
        time = day.replace(hour=clock[0], minute=clock[1], second=clock[2], microsecond=fraction)
        if target == TIMESTAMP_NTZ:
            return time
        return time.replace(tzinfo=UTC) - _offset(found["zone"])
    except (ValueError, OverflowError):
        return None


def _offset(zone: str | None) -> timedelta:
    if zone in (None, "Z", "UTC"):
        return timedelta(0)
    hours, _, minutes = str(zone)[1:].partition(":")
    length = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return -length if str(zone).startswith("-") else length


def _to_string(source: DataType) -> Callable[[Value], str | None]:
    match source:
        case t if t == BOOLEAN:
            return lambda value: "true" if value else "false"
        case t if t == DOUBLE:
            return lambda value: _double_text(value, repr)
        case t if t == FLOAT:
            return lambda value: _double_text(value, _shortest_single)
        case DecimalType():
            return lambda value: format(value, "f")
        case t if t == BINARY:
            return _decode
        case t if t in (TIMESTAMP, TIMESTAMP_NTZ):
            return _time_text
        case _:
            return str


def _decode(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _time_text(value: datetime) -> str:
    seconds = value.replace(tzinfo=None).isoformat(sep=" ", timespec="seconds")
    return seconds + (f".{value.microsecond:06d}".rstrip("0") if value.microsecond else "")


def _shortest_single(value: float) -> str:
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if single(float(text)) == value:
            return text
    return repr(value)


def _double_text(value: float, shortest: Callable[[float], str]) -> str:
    """The number as Java writes it: plain between 0.001 and 10 million, else as 1.0E7."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return sign + "0.0"
    number = Decimal(shortest(abs(value)))
    if Decimal("0.001") <= number < Decimal(10_000_000):
        text = format(number.normalize(), "f")
        return sign + (text if "." in text else text + ".0")
    digits = "".join(map(str, number.normalize().as_tuple().digits))
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{number.adjusted()}"
