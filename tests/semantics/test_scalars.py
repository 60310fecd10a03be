"""Scalar expressions: a table of cases, and what no table can show."""

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import EvaluationError, PlanError
from whence.plan.expressions import Call, Case, Cast, Column, Expression, Literal, Member, Opaque
from whence.plan.functions import FUNCTIONS
from whence.plan.nodes import Order
from whence.plan.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    StructType,
)
from whence.semantics.scalars import compile_expression
from whence.semantics.values import freeze, group_key, key_function, sort_positions

from .cases import CASES, ERROR, LOGIC
from .cases import Case as Example

X = Field("x", BIGINT)


def value_of(expression: Expression, **columns: tuple[object, DataType]) -> object:
    schema = tuple(Field(name, type) for name, (_, type) in columns.items())
    return compile_expression(expression, schema)(tuple(value for value, _ in columns.values()))


def same(first: object, second: object) -> bool:
    """Equal with type, sign of zero and NaN."""
    return repr(first) == repr(second)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Example) -> None:
    if case.expected is ERROR:
        with pytest.raises(EvaluationError):
            value_of(case.expression)
    else:
        found = value_of(case.expression)
        assert same(found, case.expected), f"{found!r}, not {case.expected!r}"


def test_every_function_has_a_case() -> None:
    met = {case.expression.function for case in CASES if isinstance(case.expression, Call)}
    assert met == set(FUNCTIONS)


def test_truth_tables_are_whole() -> None:
    assert len(LOGIC) == 9 + 9 + 3


@pytest.mark.parametrize("function", ["+", "/", "div", "abs", "like"])
def test_errors_name_the_function(function: str) -> None:
    big = Literal(-(2**63), BIGINT)
    arguments = {
        "+": (big, big),
        "/": (Literal(1.0, DOUBLE), Literal(0.0, DOUBLE)),
        "div": (big, Literal(0, BIGINT)),
        "abs": (big,),
        "like": (Literal("a", STRING), Literal("\\a", STRING)),
    }
    with pytest.raises(EvaluationError, match=f"^{function.replace('+', '[+]')}: "):
        value_of(Call(function, arguments[function]))


def test_a_decided_and_does_not_look_further() -> None:
    failing = Call("=", (Call("/", (Column("x"), Literal(0.0, DOUBLE))), Column("x")))
    guarded = Call("and", (Call("!=", (Column("x"), Literal(1.0, DOUBLE))), failing))
    assert value_of(guarded, x=(1.0, DOUBLE)) is False
    with pytest.raises(EvaluationError):
        value_of(guarded, x=(2.0, DOUBLE))


@given(st.booleans() | st.none(), st.booleans() | st.none())
def test_de_morgan(a: bool | None, b: bool | None) -> None:
    p, q = Literal(a, BOOLEAN), Literal(b, BOOLEAN)
    left = Call("not", (Call("and", (p, q)),))
    right = Call("or", (Call("not", (p,)), Call("not", (q,))))
    assert value_of(left) is value_of(right)


@given(st.integers(-100, 100), st.integers(-10, 10).filter(bool))
def test_quotient_and_remainder_make_the_dividend(a: int, b: int) -> None:
    p, q = Literal(a, BIGINT), Literal(b, BIGINT)
    quotient, rest = value_of(Call("div", (p, q))), value_of(Call("%", (p, q)))
    assert isinstance(quotient, int) and isinstance(rest, int)
    assert quotient * b + rest == a and abs(rest) < abs(b) and rest * a >= 0


@given(st.floats(width=64))
def test_double_text_reads_back(value: float) -> None:
    text = Cast(Literal(value, DOUBLE), STRING)
    assert same(value_of(Cast(text, DOUBLE)), value)


@given(st.floats(width=32))
def test_float_text_reads_back(value: float) -> None:
    text = Cast(Literal(value, FLOAT), STRING)
    assert same(value_of(Cast(text, FLOAT)), value)


@given(st.datetimes(timezones=st.just(UTC)))
def test_timestamp_text_reads_back(value: datetime) -> None:
    text = Cast(Literal(value, TIMESTAMP), STRING)
    assert value_of(Cast(text, TIMESTAMP)) == value


def test_case_takes_the_first_true_branch() -> None:
    x = Column("x")
    zero = Literal(0, BIGINT)
    named = Case(
        ((Call("<", (x, zero)), Literal("below", STRING)), (Call("<=", (x, zero)), Literal("zero", STRING))),
        Literal("else", STRING),
    )
    assert [value_of(named, x=(v, BIGINT)) for v in (-1, 0, 1, None)] == ["below", "zero", "else", "else"]


def test_member_of_a_struct() -> None:
    pair = StructType((Field("a", BIGINT), Field("b", STRING)))
    assert value_of(Member(Column("p"), "b"), p=((1, "x"), pair)) == "x"
    assert value_of(Member(Column("p"), "b"), p=(None, pair)) is None


def test_opaque_expression_uses_the_callers_function() -> None:
    opaque = Opaque("twice", (Column("x"),), BIGINT)
    assert compile_expression(opaque, (X,), {"twice": lambda v: v * 2})((21,)) == 42
    with pytest.raises(EvaluationError, match="'twice'"):
        compile_expression(opaque, (X,))
    with pytest.raises(EvaluationError, match="not a value of type bigint"):
        compile_expression(opaque, (X,), {"twice": str})((21,))


def test_unknown_column_lists_those_there() -> None:
    with pytest.raises(PlanError, match="columns here: x"):
        compile_expression(Column("y"), (X,))


@pytest.mark.parametrize(
    ("value", "type", "frozen"),
    [
        ([1, None], ArrayType(BIGINT), (1, None)),
        ({"a": 1, "b": [2]}, StructType((Field("a", INT), Field("b", ArrayType(INT)))), (1, (2,))),
        ({"k": 1}, MapType(STRING, INT), (("k", 1),)),
        (1, DOUBLE, 1.0),
        (0.1, FLOAT, 0.10000000149011612),
        (Decimal("1.5"), DecimalType(4, 2), Decimal("1.50")),
        (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), TIMESTAMP, datetime(2026, 1, 1, tzinfo=UTC)),
        (None, DATE, None),
    ],
)
def test_freeze(value: object, type: DataType, frozen: object) -> None:
    assert same(freeze(value, type), frozen)


@pytest.mark.parametrize(
    ("value", "type"),
    [
        (True, BIGINT), (2**31, INT), (1, BOOLEAN), ("1", BIGINT), (1, STRING), (1.5, BIGINT), (True, DOUBLE),
        (datetime(2026, 1, 1), TIMESTAMP), (datetime(2026, 1, 1, tzinfo=UTC), TIMESTAMP_NTZ),
        (datetime(2026, 1, 1), DATE), (Decimal("1.005"), DecimalType(5, 2)), ("ab", ArrayType(STRING)),
        ((1,), StructType((Field("a", INT), Field("b", INT)))), ([1, "x"], ArrayType(INT)),
    ],
)  # fmt: skip
def test_freeze_refuses(value: object, type: DataType) -> None:
    with pytest.raises(EvaluationError, match="is not a value of type"):
        freeze(value, type)


def test_group_keys() -> None:
    key = group_key([DOUBLE, STRING])
    assert key((math.nan, None)) == key((float("nan"), None))
    assert key((-0.0, "a")) == key((0.0, "a"))
    assert key((None, "a")) != key((0.0, "a"))
    nested = group_key([ArrayType(DOUBLE)])
    assert nested(((math.nan, None),)) == nested(((math.nan, None),))


def test_nested_values_put_nulls_first_and_shorter_ones_before() -> None:
    key = key_function(ArrayType(DOUBLE))
    arrays: list[tuple[float | None, ...]] = [(), (None,), (None, 1.0), (1.0,), (1.0, None), (math.nan,)]
    backwards = arrays[::-1]
    assert sorted(backwards, key=key) == arrays


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (Order(Column("x")), [None, 1.0, 2.0, math.nan]),
        (Order(Column("x"), nulls_first=False), [1.0, 2.0, math.nan, None]),
        (Order(Column("x"), descending=True, nulls_first=False), [math.nan, 2.0, 1.0, None]),
        (Order(Column("x"), descending=True), [None, math.nan, 2.0, 1.0]),
    ],
)
def test_sort_orders(order: Order, expected: list[float | None]) -> None:
    keys = [(2.0,), (None,), (math.nan,), (1.0,)]
    assert same([keys[p][0] for p in sort_positions(keys, [order], [DOUBLE])], expected)


def test_sort_is_stable_in_both_directions() -> None:
    keys = [(1, "b"), (2, "a"), (1, "a"), (2, "b")]
    first, second = Order(Column("x"), descending=True), Order(Column("y"))
    assert sort_positions(keys, [first], [BIGINT, STRING][:1]) == [1, 3, 0, 2]
    assert sort_positions(keys, [first, second], [BIGINT, STRING]) == [1, 3, 2, 0]
