"""Scalar cases: a function, typed arguments, the value Spark 4 gives in ANSI mode (or ERROR).

Data only, so that the oracle and, where one likes, an engine can be asked the same.
"""

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from whence.plan.expressions import Call, Cast, Expression, Literal
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
)

NAN, INF = math.nan, math.inf
T, F, N = True, False, None


class Error:
    """The outcome of a case that has none."""

    def __repr__(self) -> str:
        return "ERROR"


ERROR = Error()


@dataclass(frozen=True)
class Case:
    expression: Expression
    expected: object

    def __str__(self) -> str:
        match self.expression:
            case Call(name, arguments):
                return f"{name}({', '.join(repr(a.value) for a in arguments if isinstance(a, Literal))})"
            case Cast(Literal(value), type):
                return f"cast({value!r} as {type})"
        return repr(self.expression)


def calls(name: str, types: tuple[DataType, ...] | DataType, *rows: tuple[object, ...]) -> list[Case]:
    """A case a row: the arguments, then what comes out. One type stands for all arguments."""
    made = []
    for *arguments, expected in rows:
        of = types if isinstance(types, tuple) else (types,) * len(arguments)
        parts = tuple(Literal(a, t) for a, t in zip(arguments, of, strict=True))
        made.append(Case(Call(name, parts), expected))
    return made


def casts(source: DataType, target: DataType, *rows: tuple[object, object]) -> list[Case]:
    return [Case(Cast(Literal(value, source), target), expected) for value, expected in rows]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


LONG = 2**63 - 1
BIGINTS = ArrayType(BIGINT)
DOUBLES = ArrayType(DOUBLE)
STRINGS = ArrayType(STRING)

LOGIC = [
    *calls("and", BOOLEAN, (T, T, T), (T, F, F), (T, N, N), (F, T, F), (F, F, F), (F, N, F), (N, T, N), (N, F, F),
           (N, N, N)),
    *calls("or", BOOLEAN, (T, T, T), (T, F, T), (T, N, T), (F, T, T), (F, F, F), (F, N, N), (N, T, T), (N, F, N),
           (N, N, N)),
    *calls("not", BOOLEAN, (T, F), (F, T), (N, N)),
]  # fmt: skip

COMPARISONS = [
    *calls("=", BIGINT, (1, 1, T), (1, 2, F), (1, N, N), (N, N, N)),
    *calls("!=", BIGINT, (1, 1, F), (1, 2, T), (N, 1, N)),
    *calls("<", BIGINT, (1, 2, T), (2, 2, F), (N, 2, N)),
    *calls("<=", BIGINT, (2, 2, T), (3, 2, F)),
    *calls(">", BIGINT, (3, 2, T), (2, 2, F)),
    *calls(">=", BIGINT, (2, 2, T), (1, 2, F)),
    *calls("<=>", BIGINT, (1, 1, T), (1, 2, F), (1, N, F), (N, 1, F), (N, N, T)),
    *calls("=", DOUBLE, (NAN, NAN, T), (NAN, 1.0, F), (-0.0, 0.0, T), (INF, INF, T)),
    *calls("<", DOUBLE, (INF, NAN, T), (NAN, INF, F), (NAN, NAN, F), (-0.0, 0.0, F)),
    *calls(">", DOUBLE, (NAN, INF, T), (NAN, NAN, F)),
    *calls(">=", DOUBLE, (NAN, NAN, T)),
    *calls("<=>", DOUBLE, (NAN, NAN, T), (NAN, N, F)),
    *calls("<", STRING, ("B", "a", T), ("a", "ä", T), ("\uffff", "\U00010000", T), ("", "a", T)),
    *calls("=", STRING, ("a", "A", F), ("ä", "ä", T)),
    *calls("<", BINARY, (b"\x7f", b"\x80", T), (b"a", b"ab", T)),
    *calls("<", BOOLEAN, (F, T, T)),
    *calls("<", DATE, (date(2025, 12, 31), date(2026, 1, 1), T)),
    *calls("=", DecimalType(5, 2), (Decimal("1.50"), Decimal("1.5"), T)),
    *calls("in", BIGINT, (1, 1, 2, T), (3, 1, 2, F), (1, 1, N, T), (3, 1, N, N), (N, 1, 2, N)),
    *calls("in", DOUBLE, (NAN, NAN, T), (0.0, -0.0, T)),
    *calls("isnull", BIGINT, (1, F), (N, T)),
    *calls("isnotnull", BIGINT, (1, T), (N, F)),
    *calls("isnan", DOUBLE, (NAN, T), (1.0, F), (N, F)),
    *calls("coalesce", BIGINT, (N, 2, 3, 2), (N, N, N)),
    *calls("nullif", BIGINT, (1, 1, N), (1, 2, 1), (N, 1, N), (1, N, 1)),
    *calls("greatest", DOUBLE, (1.0, NAN, NAN), (1.0, N, 1.0), (N, N, N), (1.0, 2.0, 2.0)),
    *calls("least", DOUBLE, (1.0, NAN, 1.0), (N, 2.0, 2.0), (NAN, NAN, NAN)),
    *calls("least", STRING, ("b", "a", "a")),
]

ARITHMETIC = [
    *calls("+", BIGINT, (2, 3, 5), (2, N, N), (LONG, 0, LONG), (LONG, 1, ERROR)),
    *calls("+", TINYINT, (100, 27, 127), (100, 28, ERROR)),
    *calls("-", SMALLINT, (-32768, 1, ERROR), (-32767, 1, -32768)),
    *calls("*", INT, (46341, 46341, ERROR), (46340, 46340, 2147395600)),
    *calls("+", DOUBLE, (0.1, 0.2, 0.1 + 0.2), (INF, -INF, NAN), (1e308, 1e308, INF), (-0.0, -0.0, -0.0)),
    *calls("*", FLOAT, (0.1, 0.1, 0.010000000707805157), (3e38, 10.0, INF)),
    *calls("/", DOUBLE, (1.0, 4.0, 0.25), (-1.0, 0.0, ERROR), (0.0, 0.0, ERROR), (1.0, -0.0, ERROR), (N, 0.0, N),
           (1.0, INF, 0.0), (NAN, 2.0, NAN)),
    *calls("%", BIGINT, (7, 3, 1), (-7, 3, -1), (7, -3, 1), (-7, -3, -1), (7, 0, ERROR), (N, 0, N),
           (-LONG - 1, -1, 0)),
    *calls("%", DOUBLE, (7.5, 2.0, 1.5), (-7.5, 2.0, -1.5), (7.5, -2.0, 1.5), (INF, 2.0, NAN), (2.0, INF, 2.0),
           (1.0, 0.0, ERROR)),
    *calls("div", BIGINT, (7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (1, 0, ERROR), (-LONG - 1, -1, ERROR)),
    *calls("negative", BIGINT, (5, -5), (-LONG - 1, ERROR)),
    *calls("negative", DOUBLE, (0.0, -0.0)),
    *calls("abs", INT, (-5, 5), (-(2**31), ERROR), (N, N)),
    *calls("abs", DOUBLE, (-0.5, 0.5)),
    *calls("floor", DOUBLE, (1.5, 1), (-1.5, -2), (-0.0, 0), (NAN, 0), (INF, ERROR), (-1e300, ERROR)),
    *calls("ceil", DOUBLE, (1.5, 2), (-1.5, -1), (1e19, ERROR)),
    *calls("sqrt", DOUBLE, (4.0, 2.0), (-1.0, NAN), (NAN, NAN), (-0.0, -0.0), (INF, INF)),
]  # fmt: skip

TEXT = [
    *calls("upper", STRING, ("aß", "ASS"), (N, N)),
    *calls("lower", STRING, ("ÄB", "äb")),
    *calls("length", STRING, ("äb ", 3), ("", 0), ("😀", 1), (N, N)),
    *calls("trim", STRING, ("  a b ", "a b"), ("\ta\n", "\ta\n")),
    *calls("ltrim", STRING, ("  a ", "a ")),
    *calls("rtrim", STRING, ("  a ", "  a")),
    *calls("concat", STRING, ("a", "b", "c", "abc"), ("a", N, N)),
    *calls("substring", (STRING, INT, INT), ("hello", 2, 3, "ell"), ("hello", 0, 2, "he"), ("hello", 1, 2, "he"),
           ("hello", -3, 2, "ll"), ("hello", -7, 3, "h"), ("hello", 9, 2, ""), ("hello", 2, 0, ""),
           ("hello", 2, -1, ""),
           ("hello", 4, 100, "lo"), ("😀ab", 2, 1, "a"), ("hello", N, 1, N), ("hello", 2, 2147483647, "ello"),
           ("hello", -7, 1, "")),
    *calls("replace", STRING, ("abab", "b", "", "aa"), ("ab", "", "x", "ab"), ("ab", N, "x", N),
           ("aaa", "aa", "b", "ba")),
    *calls("like", STRING, ("abc", "a%", T), ("abc", "a_c", T), ("abc", "a_", F), ("a%c", "a\\%c", T),
           ("abc", "a\\%c", F), ("a_c", "a\\_c", T), ("a\nc", "a%", T), ("a.c", "a.c", T), ("abc", "a.c", F),
           ("", "%", T),
           ("a\\c", "a\\\\c", T), ("abc", "a\\bc", ERROR), ("a", "a\\", ERROR), ("a", N, N), ("ABC", "abc", F)),
    *calls("startswith", STRING, ("abc", "ab", T), ("abc", "b", F), ("abc", "", T), (N, "a", N)),
    *calls("endswith", STRING, ("abc", "bc", T), ("abc", "b", F)),
    *calls("contains", STRING, ("abc", "b", T), ("abc", "", T), ("abc", "d", F)),
]  # fmt: skip

AT = utc(2026, 2, 28, 23, 59, 58, 999_999)
TIMES = [
    *calls("year", TIMESTAMP, (AT, 2026), (N, N)),
    *calls("month", DATE, (date(2026, 2, 28), 2)),
    *calls("day", TIMESTAMP, (AT, 28)),
    *calls("hour", TIMESTAMP, (AT, 23)),
    *calls("minute", TIMESTAMP_NTZ, (datetime(2026, 1, 1, 5, 7), 7)),
    *calls("second", TIMESTAMP, (AT, 58), (utc(1969, 12, 31, 23, 59, 59, 999_999), 59)),
    *calls("date_add", (DATE, INT), (date(2026, 2, 28), 1, date(2026, 3, 1)),
           (date(2026, 1, 1), -1, date(2025, 12, 31)),
           (date(2026, 1, 1), N, N)),
    *calls("datediff", DATE, (date(2026, 3, 1), date(2026, 2, 28), 1), (date(2026, 2, 28), date(2026, 3, 1), -1)),
    *calls("unix_micros", TIMESTAMP, (utc(1970, 1, 1, 0, 0, 1, 5), 1_000_005),
           (utc(1969, 12, 31, 23, 59, 59), -1_000_000)),
    *calls("timestamp_micros", BIGINT, (1_000_005, utc(1970, 1, 1, 0, 0, 1, 5)),
           (-1, utc(1969, 12, 31, 23, 59, 59, 999_999))),
    *calls("+", (TIMESTAMP, INTERVAL), (AT, timedelta(microseconds=1), utc(2026, 2, 28, 23, 59, 59)),
           (AT, N, N)),
    *calls("-", (TIMESTAMP, INTERVAL), (utc(2026, 3, 1), timedelta(days=1), utc(2026, 2, 28))),
    *calls("+", INTERVAL, (timedelta(1), timedelta(seconds=2), timedelta(1, 2))),
    *calls("<", TIMESTAMP, (utc(2026, 1, 1), utc(2026, 1, 1, 0, 0, 0, 1), T)),
]  # fmt: skip

ARRAYS = [
    *calls("array", BIGINT, (1, N, (1, N))),
    *calls("array_compact", BIGINTS, ((1, N, 2), (1, 2)), (N, N), ((N,), ())),
    *calls("array_distinct", BIGINTS, ((1, 2, 1, N, N), (1, 2, N)), (N, N)),
    *calls("array_distinct", DOUBLES, ((NAN, NAN, 1.0), (NAN, 1.0))),
    *calls("array_concat", BIGINTS, ((1,), (1, N), (1, 1, N)), ((1,), N, N)),
    *calls("array_sort", BIGINTS, ((3, N, 1), (1, 3, N)), (N, N)),
    *calls("array_sort", DOUBLES, ((NAN, 1.0, INF), (1.0, INF, NAN))),
    *calls("flatten", ArrayType(BIGINTS), (((1,), (2, N)), (1, 2, N)), (((1,), N), N)),
    *calls("sequence", BIGINT, (2, 4, (2, 3, 4)), (2, 2, (2,)), (3, 2, ()), (N, 2, N)),
    *calls("size", STRINGS, (("a", N), 2), ((), 0), (N, N)),
]

CASTS = [
    *casts(BOOLEAN, STRING, (T, "true"), (N, N)),
    *casts(BOOLEAN, INT, (T, 1), (F, 0)),
    *casts(BOOLEAN, DOUBLE, (T, 1.0)),
    *casts(BIGINT, BOOLEAN, (0, F), (7, T)),
    *casts(BIGINT, STRING, (-12, "-12")),
    *casts(BIGINT, INT, (2**31 - 1, 2**31 - 1), (2**31, ERROR)),
    *casts(INT, TINYINT, (127, 127), (-129, ERROR)),
    *casts(BIGINT, FLOAT, (16777217, 16777216.0)),
    *casts(BIGINT, DOUBLE, (2**53 + 1, float(2**53))),
    *casts(BIGINT, TIMESTAMP, (1, utc(1970, 1, 1, 0, 0, 1)), (-1, utc(1969, 12, 31, 23, 59, 59))),
    *casts(DOUBLE, BIGINT, (1.9, 1), (-1.9, -1), (NAN, ERROR), (1e19, ERROR)),
    *casts(DOUBLE, INT, (2147483647.9, 2147483647), (2147483648.0, ERROR)),
    *casts(DOUBLE, BOOLEAN, (0.0, F), (-0.0, F), (0.5, T)),
    *casts(DOUBLE, FLOAT, (0.1, 0.10000000149011612), (1e300, INF)),
    *casts(DOUBLE, STRING, (1.0, "1.0"), (0.1, "0.1"), (1e7, "1.0E7"), (12345678.9, "1.23456789E7"),
           (9999999.0, "9999999.0"),
           (0.001, "0.001"), (0.00012, "1.2E-4"), (NAN, "NaN"), (-INF, "-Infinity"), (-0.0, "-0.0"),
           (123.456, "123.456"),
           (1e22, "1.0E22")),
    *casts(FLOAT, STRING, (0.1, "0.1"), (16777216.0, "1.6777216E7"), (3.4028234663852886e38, "3.4028235E38")),
    *casts(DOUBLE, TIMESTAMP, (1.5, utc(1970, 1, 1, 0, 0, 1, 500_000)), (NAN, ERROR)),
    *casts(STRING, BOOLEAN, (" Yes ", T), ("0", F), ("maybe", ERROR), ("t", T)),
    *casts(STRING, INT, (" 12 ", 12), ("+7", 7), ("1.5", ERROR), ("", ERROR), ("2147483648", ERROR), ("1e3", ERROR)),
    *casts(STRING, BIGINT, (str(LONG), LONG)),
    *casts(STRING, DOUBLE, (" 1.5 ", 1.5), ("1e3", 1000.0), ("-Infinity", -INF), ("nan", NAN), (".5", 0.5), ("5.", 5.0),
           ("x", ERROR), ("1_0", ERROR), ("1d", 1.0), ("inf", INF)),
    *casts(STRING, DATE, ("2026-02-28", date(2026, 2, 28)), ("2026-2", date(2026, 2, 1)), ("2026", date(2026, 1, 1)),
           ("2026-02-30", ERROR), ("26-01-01", ERROR), ("2026-02-28T10", date(2026, 2, 28)), ("x", ERROR)),
    *casts(STRING, TIMESTAMP, ("2026-02-28 10:11:12.5", utc(2026, 2, 28, 10, 11, 12, 500_000)),
           ("2026-02-28T10:11:12Z", utc(2026, 2, 28, 10, 11, 12)),
           ("2026-02-28 10:11:12+02:00", utc(2026, 2, 28, 8, 11, 12)),
           ("2026-02-28", utc(2026, 2, 28)), ("2026-02-28 10:11", utc(2026, 2, 28, 10, 11)),
           ("2026-02-28 25:00:00", ERROR),
           ("2026-02-28 10:11:12.1234567", utc(2026, 2, 28, 10, 11, 12, 123_456))),
    *casts(STRING, TIMESTAMP_NTZ, ("2026-02-28 10:11:12", datetime(2026, 2, 28, 10, 11, 12))),
    *casts(STRING, BINARY, ("ä", b"\xc3\xa4")),
    *casts(BINARY, STRING, (b"\xc3\xa4", "ä")),
    *casts(DATE, STRING, (date(2026, 2, 8), "2026-02-08")),
    *casts(DATE, TIMESTAMP, (date(2026, 2, 8), utc(2026, 2, 8))),
    *casts(TIMESTAMP, STRING, (utc(2026, 2, 8, 1, 2, 3), "2026-02-08 01:02:03"),
           (utc(2026, 2, 8, 1, 2, 3, 120_000), "2026-02-08 01:02:03.12")),
    *casts(TIMESTAMP, DATE, (utc(1969, 12, 31, 23, 59), date(1969, 12, 31))),
    *casts(TIMESTAMP, BIGINT, (utc(1969, 12, 31, 23, 59, 59, 500_000), -1), (utc(1970, 1, 1, 0, 0, 1, 999_999), 1)),
    *casts(TIMESTAMP, DOUBLE, (utc(1970, 1, 1, 0, 0, 1, 500_000), 1.5)),
    *casts(TIMESTAMP, TIMESTAMP_NTZ, (utc(2026, 1, 1, 5), datetime(2026, 1, 1, 5))),
    *casts(TIMESTAMP_NTZ, TIMESTAMP, (datetime(2026, 1, 1, 5), utc(2026, 1, 1, 5))),
    *casts(INT, DecimalType(5, 2), (12, Decimal("12.00")), (1000, ERROR)),
    *casts(DOUBLE, DecimalType(5, 2), (0.125, Decimal("0.13")), (-0.125, Decimal("-0.13")), (1000.0, ERROR),
           (NAN, N), (INF, N)),
    *casts(STRING, DecimalType(5, 2), (" 1.005 ", Decimal("1.01")), ("x", ERROR), ("1E2", Decimal("100.00"))),
    *casts(DecimalType(5, 2), DecimalType(4, 1), (Decimal("1.25"), Decimal("1.3")), (Decimal("999.99"), ERROR)),
    *casts(DecimalType(5, 2), INT, (Decimal("-1.99"), -1)),
    *casts(DecimalType(5, 2), TINYINT, (Decimal("200.00"), ERROR)),
    *casts(DecimalType(5, 2), STRING, (Decimal("1.50"), "1.50")),
    *casts(DecimalType(5, 2), DOUBLE, (Decimal("1.50"), 1.5)),
    *casts(DecimalType(5, 2), BOOLEAN, (Decimal("0.00"), F)),
    *casts(BIGINTS, ArrayType(STRING), ((1, N), ("1", N))),
]  # fmt: skip

CASES = [*LOGIC, *COMPARISONS, *ARITHMETIC, *TEXT, *TIMES, *ARRAYS, *CASTS]
