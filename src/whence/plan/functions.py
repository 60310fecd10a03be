"""The table of functions the algebra understands: names, arities and result types.

What a function means is in ``semantics``; how engines write it is in ``duck`` and ``spark``.
A function that is not here can still pass through a plan, as an opaque expression. Arguments
must already have the types the table asks for: ``resolve`` inserts the casts SQL would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from whence.errors import PlanError
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
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    OtherType,
    is_numeric,
    is_orderable,
)

Rule = Callable[[Sequence[DataType]], DataType | None]
"""The result type for argument types, or None where they do not fit."""


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function: how many arguments it takes, what it gives, and what it wants."""

    name: str
    least: int
    most: int | None
    rule: Rule
    wants: str


def _one_type(types: Sequence[DataType]) -> DataType | None:
    """The single type of all arguments (nulls of no type aside), or None."""
    known = {t for t in types if t != VOID}
    return None if len(known) > 1 else (known.pop() if known else VOID)


def _all(*allowed: DataType, gives: DataType | None = None) -> Rule:
    def rule(types: Sequence[DataType]) -> DataType | None:
        common = _one_type(types)
        if common is None or not (common == VOID or common in allowed):
            return None
        return gives if gives is not None else common

    return rule


def _exactly(wanted: Sequence[DataType], gives: DataType) -> Rule:
    def rule(types: Sequence[DataType]) -> DataType | None:
        return gives if all(t in (w, VOID) for t, w in zip(types, wanted, strict=False)) else None

    return rule


def _comparison(types: Sequence[DataType]) -> DataType | None:
    common = _one_type(types)
    return BOOLEAN if common is not None and is_orderable(common) else None


def _sum(types: Sequence[DataType]) -> DataType | None:
    first, second = types
    if first in (TIMESTAMP, TIMESTAMP_NTZ) and second == INTERVAL:
        return first
    if first == second == INTERVAL:
        return INTERVAL
    return _number(types)


def _number(types: Sequence[DataType]) -> DataType | None:
    common = _one_type(types)
    if common is None or isinstance(common, DecimalType):
        return None  # decimal arithmetic changes precision: left to the engine, as opaque
    return common if common == VOID or is_numeric(common) else None


def _any(gives: DataType) -> Rule:
    return lambda types: gives


def _same(types: Sequence[DataType]) -> DataType | None:
    return _one_type(types)


def _array(types: Sequence[DataType]) -> DataType | None:
    common = _one_type(types)
    return None if common is None else ArrayType(common)


def _same_array(types: Sequence[DataType]) -> DataType | None:
    common = _one_type(types)
    return common if isinstance(common, ArrayType) else None


def _flatten(types: Sequence[DataType]) -> DataType | None:
    match types[0]:
        case ArrayType(ArrayType() as inner):
            return inner
        case _:
            return None


TIMES = (TIMESTAMP, TIMESTAMP_NTZ)
TIME_OR_DATE = (DATE, *TIMES)

FUNCTIONS: dict[str, Function] = {
    f.name: f
    for f in (
        Function("and", 2, 2, _all(BOOLEAN), "booleans"),
        Function("or", 2, 2, _all(BOOLEAN), "booleans"),
        Function("not", 1, 1, _all(BOOLEAN), "a boolean"),
        Function("=", 2, 2, _comparison, "two values of one comparable type"),
        Function("!=", 2, 2, _comparison, "two values of one comparable type"),
        Function("<", 2, 2, _comparison, "two values of one comparable type"),
        Function("<=", 2, 2, _comparison, "two values of one comparable type"),
        Function(">", 2, 2, _comparison, "two values of one comparable type"),
        Function(">=", 2, 2, _comparison, "two values of one comparable type"),
        Function("<=>", 2, 2, _comparison, "two values of one comparable type"),
        Function("in", 2, None, _comparison, "values of one comparable type"),
        Function("isnull", 1, 1, _any(BOOLEAN), "any value"),
        Function("isnotnull", 1, 1, _any(BOOLEAN), "any value"),
        Function("isnan", 1, 1, _all(FLOAT, DOUBLE, gives=BOOLEAN), "a float or double"),
        Function("coalesce", 1, None, _same, "values of one type"),
        Function("nullif", 2, 2, _same, "two values of one type"),
        Function("+", 2, 2, _sum, "two numbers of one type, or a time and an interval"),
        Function("-", 2, 2, _sum, "two numbers of one type, or a time and an interval"),
        Function("*", 2, 2, _number, "two numbers of one type (no decimals)"),
        Function("/", 2, 2, _all(DOUBLE), "two doubles"),
        Function("%", 2, 2, _number, "two numbers of one type (no decimals)"),
        Function("div", 2, 2, _all(BIGINT), "two bigints"),
        Function("negative", 1, 1, _number, "a number (no decimal)"),
        Function("abs", 1, 1, _number, "a number (no decimal)"),
        Function("floor", 1, 1, _all(DOUBLE, gives=BIGINT), "a double"),
        Function("ceil", 1, 1, _all(DOUBLE, gives=BIGINT), "a double"),
        Function("sqrt", 1, 1, _all(DOUBLE), "a double"),
        Function("greatest", 2, None, _same, "values of one type"),
        Function("least", 2, None, _same, "values of one type"),
        Function("upper", 1, 1, _all(STRING), "a string"),
        Function("lower", 1, 1, _all(STRING), "a string"),
        Function("length", 1, 1, _all(STRING, gives=INT), "a string"),
        Function("trim", 1, 1, _all(STRING), "a string"),
        Function("ltrim", 1, 1, _all(STRING), "a string"),
        Function("rtrim", 1, 1, _all(STRING), "a string"),
        Function("concat", 1, None, _all(STRING), "strings"),
        Function("substring", 3, 3, _exactly((STRING, INT, INT), STRING), "a string and two ints"),
        Function("replace", 3, 3, _all(STRING), "three strings"),
        Function("like", 2, 2, _all(STRING, gives=BOOLEAN), "two strings"),
        Function("startswith", 2, 2, _all(STRING, gives=BOOLEAN), "two strings"),
        Function("endswith", 2, 2, _all(STRING, gives=BOOLEAN), "two strings"),
        Function("contains", 2, 2, _all(STRING, gives=BOOLEAN), "two strings"),
        Function("year", 1, 1, _all(*TIME_OR_DATE, gives=INT), "a date or timestamp"),
        Function("month", 1, 1, _all(*TIME_OR_DATE, gives=INT), "a date or timestamp"),
        Function("day", 1, 1, _all(*TIME_OR_DATE, gives=INT), "a date or timestamp"),
        Function("hour", 1, 1, _all(*TIMES, gives=INT), "a timestamp"),
        Function("minute", 1, 1, _all(*TIMES, gives=INT), "a timestamp"),
        Function("second", 1, 1, _all(*TIMES, gives=INT), "a timestamp"),
        Function("date_add", 2, 2, _exactly((DATE, INT), DATE), "a date and an int"),
        Function("datediff", 2, 2, _all(DATE, gives=INT), "two dates"),
        Function("unix_micros", 1, 1, _all(TIMESTAMP, gives=BIGINT), "a timestamp"),
        Function("timestamp_micros", 1, 1, _all(BIGINT, gives=TIMESTAMP), "a bigint"),
        Function("array", 0, None, _array, "values of one type"),
        Function("array_compact", 1, 1, _same_array, "an array"),
        Function("array_distinct", 1, 1, _same_array, "an array"),
        Function("array_concat", 1, None, _same_array, "arrays of one type"),
        Function("array_sort", 1, 1, _same_array, "an array"),
        Function("flatten", 1, 1, _flatten, "an array of arrays"),
        Function("size", 1, 1, _any(INT), "an array"),
        # From the first to the second, both included; empty where the first is larger.
        Function("sequence", 2, 2, _all(BIGINT, gives=ArrayType(BIGINT)), "two bigints"),
    )
}


def _numeric_sum(types: Sequence[DataType]) -> DataType | None:
    match types[0]:
        case DecimalType(precision, scale):
            return DecimalType(min(38, precision + 10), scale)
        case t if t in INTEGERS:
            return BIGINT
        case t if t in (FLOAT, DOUBLE):
            return DOUBLE
        case _:
            return None


def _average(types: Sequence[DataType]) -> DataType | None:
    match types[0]:
        case DecimalType(precision, scale):
            return DecimalType(min(38, precision + 4), min(37, scale + 4))
        case t if is_numeric(t):
            return DOUBLE
        case _:
            return None


def _extreme(types: Sequence[DataType]) -> DataType | None:
    return types[0] if is_orderable(types[0]) else None


AGGREGATES: dict[str, Function] = {
    f.name: f
    for f in (
        Function("count", 0, 1, _any(BIGINT), "any value"),
        Function("sum", 1, 1, _numeric_sum, "a number"),
        Function("avg", 1, 1, _average, "a number"),
        Function("min", 1, 1, _extreme, "a comparable value"),
        Function("max", 1, 1, _extreme, "a comparable value"),
        Function("bool_and", 1, 1, _all(BOOLEAN), "a boolean"),
        Function("bool_or", 1, 1, _all(BOOLEAN), "a boolean"),
        Function("collect_list", 1, 1, _array, "any value"),
        Function("collect_set", 1, 1, _array, "any value"),
    )
}

ANALYTIC: dict[str, Function] = {
    f.name: f
    for f in (
        Function("row_number", 0, 0, _any(INT), "nothing"),
        Function("rank", 0, 0, _any(INT), "nothing"),
        Function("dense_rank", 0, 0, _any(INT), "nothing"),
        Function("lag", 2, 2, lambda types: types[0], "a value and an int literal"),
        Function("lead", 2, 2, lambda types: types[0], "a value and an int literal"),
    )
}
"""Functions that only make sense over an ordered partition; aggregates work there too."""

ORDER_DEPENDENT_AGGREGATES = frozenset({"collect_list", "collect_set"})
"""Aggregates whose value depends on the order in which rows are met."""


def _look_up(table: dict[str, Function], what: str, name: str, types: Sequence[DataType]) -> DataType:
    function = table.get(name)
    if function is None:
        raise PlanError(
            f"unknown {what} {name!r}",
            detail="known: " + ", ".join(sorted(table)),
            hint="use one of these, or an opaque expression",
        )
    if len(types) < function.least or (function.most is not None and len(types) > function.most):
        most = "or more" if function.most is None else f"to {function.most}"
        raise PlanError(
            f"{name} takes {function.least} {most} arguments, not {len(types)}",
            hint=f"give it {function.wants}",
        )
    result = function.rule(types)
    if result is None:
        raise PlanError(
            f"{name} does not take ({', '.join(map(str, types))})",
            detail=f"it takes {function.wants}",
            hint="cast the arguments",
        )
    return result


def result_type(name: str, types: Sequence[DataType]) -> DataType:
    """The type of a scalar function's result for argument types."""
    return _look_up(FUNCTIONS, "function", name, types)


def aggregate_result_type(name: str, types: Sequence[DataType]) -> DataType:
    """The type of an aggregate's result for argument types."""
    return _look_up(AGGREGATES, "aggregate", name, types)


def analytic_result_type(name: str, types: Sequence[DataType]) -> DataType:
    """The type of an analytic function's result for argument types."""
    return _look_up(ANALYTIC, "analytic function", name, types)


_CASTS: dict[DataType, tuple[DataType, ...]] = {
    BOOLEAN: (STRING, *INTEGERS, FLOAT, DOUBLE),
    **{t: (BOOLEAN, STRING, *INTEGERS, FLOAT, DOUBLE, TIMESTAMP) for t in INTEGERS},
    **{t: (BOOLEAN, STRING, *INTEGERS, FLOAT, DOUBLE, TIMESTAMP) for t in (FLOAT, DOUBLE)},
    STRING: (BOOLEAN, *INTEGERS, FLOAT, DOUBLE, DATE, TIMESTAMP, TIMESTAMP_NTZ, BINARY),
    BINARY: (STRING,),
    DATE: (STRING, TIMESTAMP, TIMESTAMP_NTZ),
    TIMESTAMP: (STRING, DATE, TIMESTAMP_NTZ, BIGINT, DOUBLE),
    TIMESTAMP_NTZ: (STRING, DATE, TIMESTAMP),
}


def check_cast(source: DataType, target: DataType) -> None:
    """A PlanError unless values of one type can be converted to the other."""
    if source in (target, VOID) or target in _CASTS.get(source, ()):
        return
    if isinstance(source, DecimalType) and (is_numeric(target) or target in (STRING, BOOLEAN)):
        return
    if isinstance(target, DecimalType) and (is_numeric(source) or source == STRING):
        return
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return check_cast(source.element, target.element)
    if isinstance(source, OtherType) or isinstance(target, OtherType):
        raise PlanError(
            f"a cast from {source} to {target} is not understood",
            hint="use an opaque expression",
        )
    raise PlanError(
        f"cannot cast {source} to {target}",
        detail="possible targets: " + ", ".join(map(str, _CASTS.get(source, ()))),
        hint="cast to one of these first",
    )
