"""Values of rows as JSON and as text for people. Every value has both, odd ones too; nothing is written here.

JSON keeps what it can say: integers, finite floats, strings, booleans, null; structs are objects, arrays and maps
(as pairs) are arrays. The rest are strings: times in ISO 8601 with their offset, decimals with all digits, binary in
hexadecimal, and "NaN", "Infinity", "-Infinity", which JSON has no numbers for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def to_json(value: object) -> object:
    """A value as what `json.dumps` takes.

    >>> to_json({"at": datetime(2026, 1, 1, 8, tzinfo=UTC), "sum": Decimal("1.50"), "x": [float("nan"), b"\\x01"]})
    {'at': '2026-01-01T08:00:00+00:00', 'sum': '1.50', 'x': ['NaN', '01']}
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _no_number(value)
        case Decimal():
            return format(value, "f")
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return _duration(value)
        case bytes():
            return value.hex()
        case Mapping():
            return {str(name): to_json(inner) for name, inner in value.items()}
        case Sequence():
            return [to_json(inner) for inner in value]
        case _:
            return str(value)


def to_text(value: object) -> str:
    """A value as a person reads it; times are in UTC. It has no line breaks and nothing a terminal would obey.

    >>> to_text({"start": datetime(2026, 1, 1, 8, tzinfo=UTC), "end": datetime(2026, 1, 1, 8, 2, tzinfo=UTC)})
    '2026-01-01 08:00:00 to 08:02:00'
    >>> to_text([1, None, "a\\x1b[2J"])
    '[1, null, a\\\\x1b[2J]'
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _printable(value)
        case float():
            return repr(value) if math.isfinite(value) else _no_number(value)
        case datetime():
            return str(value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value)
        case {"start": datetime() as start, "end": datetime() as end, **others} if not others:
            return _window(start, end)
        case Mapping():
            return "{" + ", ".join(f"{_printable(str(n))}: {to_text(v)}" for n, v in value.items()) + "}"
        case bytes():
            return value.hex()
        case tuple() if len(value) == 2:
            # Pairs come from maps only.
            return f"{to_text(value[0])}: {to_text(value[1])}"
        case Sequence():
            return "[" + ", ".join(to_text(inner) for inner in value) + "]"
        case _:
            return _printable(str(to_json(value)))


def rows_of(table: pa.Table) -> Iterator[tuple[object, ...]]:
    """The rows of an Arrow table as tuples of Python values."""
    for batch in table.to_batches(max_chunksize=10_000):
        columns = [_values(column) for column in batch.columns]
        yield from zip(*columns, strict=True) if columns else [()] * batch.num_rows


def _values(column: pa.Array) -> list[object]:
    try:
        found: list[object] = column.to_pylist()
        return found
    except (OverflowError, ValueError):
        # Times outside the years 1 to 9999, which Spark computes and Python has no value for.
        return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> object:
    import pyarrow as pa

    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        pass
    try:
        return scalar.cast(pa.string()).as_py()
    except pa.ArrowException:
        return "a time outside the years 1 to 9999"


def _no_number(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _duration(value: timedelta) -> str:
    """ISO 8601, in seconds: they are exact, and the same whatever the length."""
    micros = value // timedelta(microseconds=1)
    seconds, rest = divmod(abs(micros), 1_000_000)
    return f"{'-' if micros < 0 else ''}PT{seconds}" + (f".{rest:06}".rstrip("0") if rest else "") + "S"


def _window(start: datetime, end: datetime) -> str:
    first, last = to_text(start), to_text(end)
    day = len("2026-01-01 ")
    return f"{first} to {last[day:] if first[:day] == last[:day] else last}"


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
