"""What values are: their Python form, their order, and when two of them are equal.

One Python form a type: bool, int, float, ``Decimal``, str, bytes, ``date``; an aware ``datetime``
in UTC for timestamp, a naive one for timestamp_ntz, ``timedelta`` for an interval; a tuple for a
struct and for an array, a tuple of (key, value) pairs for a map; ``None`` for null. ``freeze``
brings what users write (lists, dicts, other time zones) into this form or refuses it.

Comparison, grouping and sorting all go through one key: NaN equals itself and is larger than any
number, -0.0 equals 0.0, strings go by code point (which is their order as UTF-8 bytes), inside
structs and arrays null equals null and comes first. What functions compute is in ``scalars``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from whence.errors import EvaluationError
from whence.plan.nodes import Order
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
    DataType,
    DecimalType,
    MapType,
    StructType,
)

Value = Any
"""A value in the form the module's docstring gives; its type is in the schema beside it."""
Row = tuple[Value, ...]

BITS = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_NTZ = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
DECIMALS = Context(prec=100, rounding=ROUND_HALF_UP)
"""Wide enough that nothing is rounded before it is brought to a column's own scale."""


def fits(value: int, type: DataType) -> bool:
    """Whether a whole number lies in the range of an integer type."""
    limit = 1 << (BITS[type] - 1)  # type: ignore[index]
    return -limit <= value < limit


def single(value: float) -> float:
    """A number rounded to single precision, as columns of type float hold it."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def micros(value: datetime) -> int:
    """A time as whole microseconds since 1970."""
    return (value - (EPOCH if value.tzinfo else EPOCH_NTZ)) // MICROSECOND


def from_micros(value: int, type: DataType = TIMESTAMP) -> datetime:
    """The time so many microseconds after 1970."""
    try:
        return (EPOCH_NTZ if type == TIMESTAMP_NTZ else EPOCH) + timedelta(microseconds=value)
    except OverflowError:
        raise out_of_calendar(f"{value} microseconds after 1970") from None


def out_of_calendar(what: str) -> EvaluationError:
    """The error for a date or time that Python cannot write."""
    return EvaluationError(
        f"no such time: {what}",
        detail="the reference semantics knows the years 1 to 9999 only",
        hint="keep dates and times within these years",
    )


def as_decimal(value: Decimal, type: DecimalType) -> Decimal | None:
    """The number rounded half up to the type's scale, or None where it has too many digits."""
    if not value.is_finite():
        return None
    try:
        rounded = value.quantize(Decimal(1).scaleb(-type.scale), context=DECIMALS)
    except InvalidOperation:
        return None
    return rounded if rounded == 0 or rounded.adjusted() < type.precision - type.scale else None


def freeze(value: object, type: DataType) -> Value:
    """A user's value in the one form its type has; an EvaluationError where it is of another type."""
    if value is None:
        return None
    frozen = _freeze(value, type)
    if frozen is None:
        raise EvaluationError(
            f"{value!r} is not a value of type {type}",
            detail=f"it is a {value.__class__.__name__}",
            hint="times of type timestamp need a time zone, those of timestamp_ntz must have none"
            if isinstance(value, datetime)
            else "give values of the type the plan's source declares",
        )
    return frozen


def _freeze(value: object, type: DataType) -> Value:
    match type:
        case t if t == BOOLEAN:
            return value if isinstance(value, bool) else None
        case t if t in BITS:
            whole = isinstance(value, int) and not isinstance(value, bool)
            return value if whole and fits(value, t) else None  # type: ignore[arg-type]
        case t if t in (FLOAT, DOUBLE):
            if isinstance(value, bool) or not isinstance(value, int | float):
                return None
            return single(value) if t == FLOAT else float(value)
        case DecimalType():
            if isinstance(value, bool) or not isinstance(value, int | Decimal):
                return None
            exact = as_decimal(Decimal(value), type)
            return exact if exact is not None and exact == value else None
        case t if t == STRING:
            return str(value) if isinstance(value, str) else None
        case t if t == BINARY:
            return bytes(value) if isinstance(value, bytes | bytearray) else None
        case t if t == DATE:
            return value if isinstance(value, date) and not isinstance(value, datetime) else None
        case t if t == TIMESTAMP:
            aware = isinstance(value, datetime) and value.tzinfo is not None
            return value.astimezone(UTC) if aware else None  # type: ignore[attr-defined]
        case t if t == TIMESTAMP_NTZ:
            return value if isinstance(value, datetime) and value.tzinfo is None else None
        case t if t == INTERVAL:
            return value if isinstance(value, timedelta) else None
        case ArrayType(element):
            if isinstance(value, str | bytes) or not isinstance(value, Sequence | frozenset | set):
                return None
            return tuple(freeze(v, element) for v in value)
        case StructType(fields):
            if isinstance(value, Mapping):
                if set(value) != {f.name for f in fields}:
                    return None
                return tuple(freeze(value[f.name], f.type) for f in fields)
            if not isinstance(value, tuple | list) or len(value) != len(fields):
                return None
            return tuple(freeze(v, f.type) for v, f in zip(value, fields, strict=True))
        case MapType(key, item):
            pairs = value.items() if isinstance(value, Mapping) else value
            if not isinstance(pairs, Sequence) and not isinstance(value, Mapping):
                return None
            return tuple((freeze(k, key), freeze(v, item)) for k, v in pairs)  # type: ignore[attr-defined]
        case t if t == VOID:
            return None
        case _:
            return value


def key_function(type: DataType) -> Callable[[Value], Any]:
    """The function from values of a type (not null) to keys that Python compares as SQL does."""
    match type:
        case t if t in (FLOAT, DOUBLE):
            return _float_key
        case ArrayType(element):
            of_element = _nested_key(element)
            return lambda value: tuple(of_element(v) for v in value)
        case StructType(fields):
            members = [_nested_key(f.type) for f in fields]
            return lambda value: tuple(f(v) for f, v in zip(members, value, strict=True))
        case _:
            return lambda value: value


def _float_key(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def _nested_key(type: DataType) -> Callable[[Value], Any]:
    of_value = key_function(type)
    return lambda value: (False, None) if value is None else (True, of_value(value))


def group_key(types: Sequence[DataType]) -> Callable[[Sequence[Value]], tuple[Any, ...]]:
    """The function from rows to hashable keys that are equal where SQL groups the rows together."""
    of_values = [key_function(t) for t in types]

    def key(row: Sequence[Value]) -> tuple[Any, ...]:
        return tuple(None if v is None else f(v) for f, v in zip(of_values, row, strict=True))

    return key


def first_of_each(values: Iterable[Value], key: Callable[[Value], Hashable]) -> list[Value]:
    """Of values with equal keys the first one met, in the order they were met."""
    first: dict[Hashable, Value] = {}
    for value in values:
        first.setdefault(key(value), value)
    return list(first.values())


def sort_positions(keys: Sequence[Row], orders: Sequence[Order], types: Sequence[DataType]) -> list[int]:
    """The positions of rows, given by their order keys, in order; equal ones stay as they are."""
    positions = list(range(len(keys)))
    # Least important first: each pass is stable, so the passes before decide among its equals.
    for n in reversed(range(len(orders))):
        of_value = key_function(types[n])
        present = [p for p in positions if keys[p][n] is not None]
        absent = [p for p in positions if keys[p][n] is None]
        present.sort(key=lambda p, n=n, f=of_value: f(keys[p][n]), reverse=orders[n].descending)  # type: ignore[misc]
        positions = absent + present if orders[n].nulls_first else present + absent
    return positions
