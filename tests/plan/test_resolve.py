"""Fitting what people write to a schema: names, widening, constants, times as text; and what is refused."""

import pytest

from whence.errors import PlanError, WhenceError
from whence.plan.expression_text import parse_aggregate, parse_expression, print_aggregate, print_expression
from whence.plan.resolve import common_type, resolve, resolve_aggregate, resolve_condition
from whence.plan.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    DataType,
    DecimalType,
    Field,
    parse_type,
)

SCHEMA = tuple(
    Field(name, parse_type(type))
    for name, type in {
        "i": "int", "l": "bigint", "d": "double", "f": "float", "s": "string", "b": "boolean", "at": "timestamp",
        "day": "date",
        "m": "decimal(10,2)", "Mixed": "int", "a": "array<bigint>", "w": "struct<start:timestamp,end:timestamp>",
    }.items()
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("d = 0", "(d = 0.0D)"), ("i = l", "(cast(i as bigint) = l)"), ("l = 5", "(l = 5L)"), ("i + 1", "(i + 1)"),
        ("i + l", "(cast(i as bigint) + l)"), ("i / 2", "(cast(i as double) / 2.0D)"),
        ("f = d", "(cast(f as double) = d)"),
        ("at > '2026-01-01'", "(at > timestamp '2026-01-01 00:00:00')"),
        ("day = '2026-01-01'", "(day = date '2026-01-01')"),
        ("mixed = 1", "(Mixed = 1)"), ("i in (1, 2)", "(i in (1, 2))"), ("m > 1", "(m > decimal(10,2) '1.00')"),
        ("i = 3000000000", "(cast(i as bigint) = 3000000000L)"), ("coalesce(l, 0)", "coalesce(l, 0L)"),
        ("case when b then 1 else l end", "case when b then 1L else l end"), ("w.start < at", "(w.start < at)"),
        ("day < at", "(cast(day as timestamp) < at)"), ("i = null", "(i = cast(null as int))"),
        ("d > 0.5", "(d > 0.5D)"), ("i < 0.5", None),
    ],
)  # fmt: skip
def test_casts_as_sql_inserts_them(text: str, printed: str | None) -> None:
    made = print_expression(resolve(parse_expression(text), SCHEMA))
    if printed is not None:
        assert made == printed
    again = resolve(parse_expression(made), SCHEMA)
    assert print_expression(again) == made  # what is resolved stays as it is


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nobody = 1", "unknown column 'nobody'.*columns here: i, l"),
        ("s = 1", "= does not take .string, int.*comparable type"),
        ("at = 'soon'", "'soon' is no timestamp"),
        ("w.middle", "unknown member 'middle'.*start, end"),
        ("i.x", "only structs have members"),
        ("upper(i)", "upper does not take .int"),
        ("substring(s)", "substring takes 3 to 3 arguments, not 1"),
        ("cast(a as int)", "cannot cast array"),
        ("case when i then 1 else 2 end", "case condition must be boolean"),
        ("case when b then 1 else s end", "different types.*int, string|cannot|no int"),
        ("m * m", "no decimals"),
    ],
)
def test_what_does_not_fit_says_what_would(text: str, message: str) -> None:
    with pytest.raises(WhenceError, match=f"(?s){message}") as refused:
        resolve(parse_expression(text), SCHEMA)
    assert refused.value.hint or refused.value.detail


def test_conditions_are_boolean() -> None:
    with pytest.raises(PlanError, match="(?s)this gives int.*compare"):
        resolve_condition(parse_expression("i + 1"), SCHEMA)
    assert print_expression(resolve_condition(parse_expression("b"), SCHEMA)) == "b"


def test_aggregates() -> None:
    made = resolve_aggregate(parse_aggregate("sum(distinct MIXED) filter (where d > 1)"), SCHEMA)
    assert print_aggregate(made) == "sum(distinct Mixed) filter (where (d > 1.0D))"
    with pytest.raises(PlanError, match="sum does not take"):
        resolve_aggregate(parse_aggregate("sum(s)"), SCHEMA)


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ([], None), ([INT], INT), ([INT, BIGINT], BIGINT), ([SMALLINT, DOUBLE], DOUBLE), ([INT, FLOAT], DOUBLE),
        ([DATE, TIMESTAMP], TIMESTAMP), ([INT, STRING], None), ([BOOLEAN, INT], None),
        ([DecimalType(5, 2), INT], DecimalType(12, 2)), ([DecimalType(5, 2), DecimalType(6, 4)], DecimalType(7, 4)),
        ([DecimalType(38, 0), DecimalType(38, 10)], None), ([BIGINT, DecimalType(3, 1)], DecimalType(21, 1)),
    ],
    ids=str,
)  # fmt: skip
def test_common_types(types: list[DataType], common: DataType | None) -> None:
    assert common_type(types) == common
    assert common_type(types[::-1]) == common
