"""Edge values of each type, and every function and cast of the portable subset over them. Data only."""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from whence.duck.aggregates import AGGREGATES
from whence.duck.casts import CASTS
from whence.duck.functions import FUNCTIONS, kind_of_type
from whence.errors import PlanError
from whence.plan.expressions import AggregateCall, Call, Cast, Column, Expression, aggregate_type, type_of
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
    ArrayType,
    DataType,
    DecimalType,
    Field,
    Schema,
    StructType,
)

PAIR = StructType((Field("a", INT), Field("b", STRING)))
NAN, INF = math.nan, math.inf
LARGEST_FLOAT = 3.4028234663852886e38

WORDS = (
    "", " ", "a", "A", "ab", "aB c", "ß", "ä", "Ä", "ŉ", "İ", "ı", "ς", "Σ", "ΑΣ", "ﬁ", "ǅ", "😀", "a\u0301", "\0",
    "a\0b", "日本", "я", "Ѐ", "\uffff", "\U00010000", "\x7f", "aaa", "%", "_", "\\", "a\\%c", "a%c", "\\\\", "a_",
    "é\nx", "'", '"; drop table x --', "1", " 12 ", "+7", "-0", "-0.0", "007", "1.5", "1e3", "1E-3", ".5", "5.", "1d",
    "1f", "1e400", "0x1F", "1_000", "１", "nan", "NaN", "Infinity", "-inf", "+inf", "true", " Yes ", "T", "n", "0",
    "maybe", "\t1\n", "\u00a01", "2147483648", "-9223372036854775809", "9223372036854775807", "999.995", "-999.994",
    "0.005", "2026-02-28", "2026-2-8", "2026", "2026-02", "2026-02-30", "0000-01-01", "0001-01-01", "9999-12-31",
    "10000-01-01", "1582-10-10", "26-01-01", "-2026-01-01", "2026-02-28T10", "2026-02-28 10:11", "2026-02-28 10:11:12",
    "2026-02-28T10:11:12.5Z", "2026-02-28 10:11:12.1234567", "2026-02-28 10:11:12+02:00", "2026-02-28 24:00:00",
    "2026-02-28 10:11:12 UTC", "2026-02-28 1:2:3", "1969-12-31 23:59:59.999999", "12:30:00", " 2026-02-28 ",
)  # fmt: skip
DAYS = ((1, 1, 1), (1582, 10, 4), (1582, 10, 15), (1900, 1, 1), (1969, 12, 31), (1970, 1, 1), (2000, 2, 29),
        (2026, 2, 28), (2026, 12, 31), (9999, 12, 31))  # fmt: skip
CLOCKS = ((0, 0, 0, 0), (12, 34, 56, 789_000), (23, 59, 59, 999_999))
TIMES = tuple(datetime(*day, *clock) for day in DAYS for clock in CLOCKS)
STEPS = (timedelta(0), timedelta(microseconds=1), timedelta(microseconds=-1), timedelta(days=1),
         timedelta(days=-400_000), timedelta(days=3, seconds=7, microseconds=13))  # fmt: skip

EDGES: dict[DataType, tuple[object, ...]] = {
    BOOLEAN: (True, False),
    TINYINT: (-128, -1, 0, 1, 2, 127),
    SMALLINT: (-32768, -1, 0, 7, 32767),
    INT: (-(2**31), -7, -1, 0, 1, 2, 3, 100, 2**31 - 1),
    BIGINT: (-(2**63), -(2**62), -7, -1, 0, 1, 2, 3, 10, 2**53 + 1, 253402300800, 2**62, 2**63 - 1),
    FLOAT: (0.0, -0.0, 0.5, -1.5, 2.5, 0.10000000149011612, 1e-45, 16777216.0, LARGEST_FLOAT,
            -LARGEST_FLOAT, INF, -INF, NAN),
    DOUBLE: (0.0, -0.0, 0.1, 0.5, -0.5, 1.5, -1.5, 2.5, 3.0, -7.25, 127.9, 1e-3, 5e-324, 1e15 + 0.3, 2.0**53 + 2,
             2.0**63, -(2.0**63), 9.2e18, 1e19, 3.4028235677973366e38, 1e300, -1e300, INF, -INF, NAN),
    DecimalType(5, 2): tuple(map(Decimal, ("0.00", "-0.01", "1.50", "0.05", "-1.99", "127.49", "128.00", "999.99",
                                           "-999.99"))),
    DecimalType(18, 0): tuple(map(Decimal, ("0", "-1", "5", "2147483648", "999999999999999999"))),
    DecimalType(38, 10): tuple(map(Decimal, ("0E-10", "-1.0000000001", "12345.6789012345",
                                             "9999999999999999999999999999.9999999999"))),
    STRING: WORDS,
    BINARY: (b"", b"a", b"ab", b"\xff", b"\xc3\xa4", b"\0", b"\x7f", b"\x80"),
    DATE: tuple(date(*day) for day in DAYS),
    TIMESTAMP: tuple(t.replace(tzinfo=UTC) for t in TIMES),
    TIMESTAMP_NTZ: TIMES,
    INTERVAL: STEPS,
    ArrayType(BIGINT): ((), (1,), (None,), (1, None), (None, 1), (3, None, 1), (1, 1, 2, None, None),
                        (-(2**63), 2**63 - 1)),
    ArrayType(DOUBLE): ((), (0.0,), (-0.0,), (NAN, 1.0, INF), (NAN, NAN, 1.0, None), (0.0, -0.0)),
    ArrayType(STRING): ((), ("a", None), ("b", "a", "", "ä"), ("a",)),
    ArrayType(ArrayType(BIGINT)): ((), ((1,), (2, None)), ((1,), None), ((), ())),
    PAIR: ((1, "x"), (1, None), (None, None), (2, "x"), (None, "x")),
    ArrayType(PAIR): ((), ((1, "x"), None), ((1, None), (1, None), (1, "x"))),
}  # fmt: skip
SMALL: dict[str, dict[DataType, tuple[object, ...]]] = {"sequence": {BIGINT: (-2, 0, 1, 3)}}
"""Where all edge values would make rows too large for anybody."""
NIGHTLY = os.environ.get("WHENCE_NIGHTLY") == "1"
MOST_ROWS = 1_000 if NIGHTLY else 80


@dataclass(frozen=True)
class Cell:
    """An expression over columns ``a``, ``b``, ``c`` and rows to compute it for."""

    name: str
    expression: Expression
    schema: Schema
    rows: tuple[tuple[object, ...], ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(str(f.type) for f in self.schema)})"


def _rows(name: str, types: tuple[DataType, ...]) -> tuple[tuple[object, ...], ...]:
    """Every combination of edge values and null, or a fair draw where there are too many."""
    edges = EDGES | SMALL.get(name, {})
    every = [(*edges[t], None) for t in types]
    size = math.prod(map(len, every))
    if size <= max(MOST_ROWS, 100):
        return tuple(itertools.product(*every))
    draw = random.Random(name + repr(types))
    return tuple({repr(row): row for row in (tuple(map(draw.choice, every)) for _ in range(MOST_ROWS))}.values())


_THREE = {"replace": (STRING, STRING, STRING), "substring": (STRING, INT, INT)}
_LISTS = ("in", "coalesce", "greatest", "least", "concat", "array", "array_concat")


def _argument_types(name: str) -> Iterator[tuple[DataType, ...]]:
    if name in _THREE:
        yield _THREE[name]
        return
    for first in EDGES:
        if name in _LISTS:
            yield (first, first, first)
            if not NIGHTLY:
                continue
        yield (first,)
        for second in (first, INTERVAL, INT):
            yield (first, second)


def function_cells() -> Iterator[Cell]:
    """Each function of the table, for each of its argument types that have edge values."""
    for name, entry in FUNCTIONS.items():
        seen = set()
        for types in _argument_types(name):
            schema = tuple(Field("abc"[i], t) for i, t in enumerate(types))
            call = Call(name, tuple(Column(f.name) for f in schema))
            if types in seen or not all(kind_of_type(t) in entry.takes or len(entry.takes) > 10 for t in types):
                continue
            seen.add(types)
            try:
                type_of(call, schema)
            except PlanError:
                continue
            yield Cell(name, call, schema, _rows(name, types))


def cast_cells() -> Iterator[Cell]:
    """Each conversion of the table, between all types of its two kinds."""
    for entry in CASTS:
        for source, target in itertools.product(EDGES, EDGES):
            if (kind_of_type(source), kind_of_type(target)) != (entry.source, entry.target) or source == target:
                continue
            schema = (Field("a", source),)
            cast = Cast(Column("a"), target)
            try:
                type_of(cast, schema)
            except PlanError:
                continue
            yield Cell(f"cast to {target}", cast, schema, _rows("cast", (source,)))


@dataclass(frozen=True)
class Folding:
    """An aggregate over the values of one column."""

    aggregate: AggregateCall
    type: DataType
    values: tuple[object, ...]

    def __str__(self) -> str:
        distinct = "distinct " if self.aggregate.distinct else ""
        return f"{self.aggregate.function}({distinct}{self.type}) of {len(self.values)}"


def aggregate_cells() -> Iterator[Folding]:
    """Each aggregate of the table over all, some, one and none of each type's edge values."""
    for name, type in itertools.product(AGGREGATES, EDGES):
        call = AggregateCall(name, (Column("a"),))
        try:
            aggregate_type(call, (Field("a", type),))
        except PlanError:
            continue
        # Spark adds as it goes, and may overflow on the way to a total that fits.
        edges = (2**53 + 1, -7, 10, 2**62, 0) if (name, type) == ("sum", BIGINT) else EDGES[type]
        for values in ((*edges, None, *edges[:3]), (*edges[1:5], None), edges[:1], (None,), ()):
            for distinct in (False, True):
                yield Folding(AggregateCall(name, (Column("a"),), distinct), type, values)


CELLS = (*function_cells(), *cast_cells())
CELLS_BY_NAME: dict[str, list[Cell]] = {}
for _cell in CELLS:
    CELLS_BY_NAME.setdefault(_cell.name, []).append(_cell)
