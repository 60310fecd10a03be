"""Constants: every type's text comes back as the same constant, and conversions lose nothing."""

import datetime as dt
import math
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whence.errors import ParseError, PlanError
from whence.plan.expression_text import parse_expression
from whence.plan.expressions import Literal
from whence.plan.literals import convert, micros_of, micros_since_epoch, moment_of, parse_duration, print_literal
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
    Field,
    MapType,
    StructType,
)

TYPES: dict[DataType, st.SearchStrategy[object]] = {
    BOOLEAN: st.booleans(),
    TINYINT: st.integers(-(2**7), 2**7 - 1),
    SMALLINT: st.integers(-(2**15), 2**15 - 1),
    INT: st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.integers(-(2**63), 2**63 - 1),
    FLOAT: st.floats(width=32),
    DOUBLE: st.floats(),
    STRING: st.text(),
    BINARY: st.binary(max_size=8),
    DATE: st.dates(),
    TIMESTAMP: st.datetimes(timezones=st.just(dt.UTC)).map(lambda t: t.replace(fold=0)),
    TIMESTAMP_NTZ: st.datetimes().map(lambda t: t.replace(fold=0)),
    INTERVAL: st.timedeltas(dt.timedelta(days=-(10**6)), dt.timedelta(days=10**6)),
    DecimalType(38, 10): st.decimals(
        places=10, allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20
    ),
    DecimalType(5, 5): st.decimals(
        places=5, allow_nan=False, allow_infinity=False, min_value="-0.99999", max_value="0.99999"
    ),
    DecimalType(38, 0): st.integers(-(10**37), 10**37).map(Decimal),
}


@pytest.mark.parametrize("type", TYPES, ids=str)
@given(data=st.data())
def test_every_constant_comes_back(type: DataType, data: st.DataObject) -> None:
    literal = Literal(data.draw(TYPES[type]), type)
    assert parse_expression(print_literal(literal)) == literal


@pytest.mark.parametrize(
    "value", [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1], ids=repr
)
@pytest.mark.parametrize("type", [DOUBLE, FLOAT], ids=str)
def test_special_floats_come_back(value: float, type: DataType) -> None:
    again = parse_expression(print_literal(Literal(value, type)))
    assert again == Literal(value, type) and math.copysign(1, again.value) == math.copysign(1, value)  # type: ignore[union-attr]


NESTED = [ArrayType(BIGINT), MapType(STRING, INT), StructType((Field("a b", INT), Field("`", STRING)))]


@pytest.mark.parametrize("type", [VOID, *TYPES, *NESTED], ids=str)
def test_null_of_every_type_comes_back(type: DataType) -> None:
    assert parse_expression(print_literal(Literal(None, type))) == Literal(None, type)


@pytest.mark.parametrize("type", NESTED, ids=str)
def test_nested_constants_have_no_text_and_say_so(type: DataType) -> None:
    with pytest.raises(PlanError, match="no text form") as refused:
        print_literal(Literal((), type))
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "value", "type"),
    [
        ("7", 7, INT), ("2147483648", 2**31, BIGINT), ("-2147483648", -(2**31), INT), ("7L", 7, BIGINT),
        ("-7S", -7, SMALLINT),
        ("7y", 7, TINYINT), ("1.50", Decimal("1.50"), DecimalType(3, 2)), ("1e3", 1000.0, DOUBLE),
        ("1.5D", 1.5, DOUBLE),
        ("2f", 2.0, FLOAT), ("10BD", Decimal(10), DecimalType(2, 0)), (".5", Decimal("0.5"), DecimalType(1, 1)),
        ("'it''s'", "it's", STRING), ("''", "", STRING), ("TRUE", True, BOOLEAN), ("null", None, VOID),
        ("date '2026-02-28'", dt.date(2026, 2, 28), DATE),
        ("timestamp '2026-02-28 10:00:00+02:00'", dt.datetime(2026, 2, 28, 8, tzinfo=dt.UTC), TIMESTAMP),
        ("timestamp '2026-02-28'", dt.datetime(2026, 2, 28, tzinfo=dt.UTC), TIMESTAMP),
        ("interval '1 hour 30 minutes'", dt.timedelta(minutes=90), INTERVAL),
        ("interval 3 days", dt.timedelta(3), INTERVAL),
        ("binary '00ff'", b"\x00\xff", BINARY), ("decimal(5,2) '1.5'", Decimal("1.50"), DecimalType(5, 2)),
    ],
)  # fmt: skip
def test_what_people_write(text: str, value: object, type: DataType) -> None:
    assert parse_expression(text) == Literal(value, type)


@pytest.mark.parametrize(
    "text",
    ["200Y", "9223372036854775808", "date '2026-02-30'", "timestamp 'soon'", "decimal(3,2) '12.345'", "binary 'xyz'",
     "interval 'a while'", "timestamp_ntz '2026-01-01 00:00:00Z'", "int '1.5'", "boolean 'perhaps'"],
)  # fmt: skip
def test_what_is_no_constant(text: str) -> None:
    with pytest.raises(ParseError) as failed:
        parse_expression(text)
    assert failed.value.hint


@pytest.mark.parametrize(
    ("text", "micros"),
    [("30 seconds", 30_000_000), ("1 hour 30 minutes", 5_400_000_000), ("INTERVAL 2 Weeks", 1_209_600_000_000),
     ("-5 ms", None), ("1 microsecond", 1), ("250 milliseconds", 250_000), ("-1 day", -86_400_000_000),
     ("", None), ("5", None), ("1 month", None), ("1.5 hours", None), ("2 hours ago", None)],
)  # fmt: skip
def test_durations(text: str, micros: int | None) -> None:
    if micros is not None:
        assert parse_duration(text) == micros
        return
    with pytest.raises(ParseError, match="(?s)malformed duration.*units: microsecond"):
        parse_duration(text)


@given(st.datetimes(timezones=st.just(dt.UTC)))
@example(dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC))
@example(dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC))
def test_microseconds_are_exact(moment: dt.datetime) -> None:
    assert moment_of(micros_since_epoch(moment)) == moment
    gap = moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert dt.timedelta(microseconds=micros_of(gap)) == gap


@pytest.mark.parametrize(
    ("literal", "type", "value"),
    [
        (Literal(5, INT), BIGINT, 5), (Literal(5, INT), DOUBLE, 5.0), (Literal(300, INT), TINYINT, None),
        (Literal(2**24, INT), DOUBLE, None), (Literal(Decimal("0.5"), DecimalType(2, 1)), DOUBLE, 0.5),
        (Literal(True, BOOLEAN), INT, None), (Literal("2026-01-01", STRING), DATE, dt.date(2026, 1, 1)),
        (Literal(5, INT), DecimalType(5, 2), Decimal("5.00")), (Literal(5000, INT), DecimalType(5, 2), None),
        (Literal(dt.date(2026, 1, 1), DATE), TIMESTAMP, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        (Literal("x", STRING), BINARY, None),
    ],
)  # fmt: skip
def test_conversions_lose_nothing_or_do_not_happen(literal: Literal, type: DataType, value: object) -> None:
    made = convert(literal, type)
    assert made == (None if value is None else Literal(value, type))


def test_constants_of_different_types_differ() -> None:
    assert len({Literal(1, INT), Literal(1, BIGINT), Literal(True, BOOLEAN), Literal(1.0, DOUBLE)}) == 4
    assert Literal(0.0, DOUBLE) != Literal(-0.0, DOUBLE) and Literal(math.nan, DOUBLE) == Literal(math.nan, DOUBLE)
