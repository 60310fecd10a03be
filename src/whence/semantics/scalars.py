"""What scalar expressions mean: three-valued logic and every function of ``plan.functions``.

``compile_expression`` turns an expression over a schema into a Python function of a row. Overflow,
division by zero and the like are errors, as in Spark 4 in ANSI mode. A function of the table is
either *strict* (null as soon as one argument is null; most are) or decides about nulls itself.
Times are read in UTC. Opaque expressions are computed by functions the caller gives.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, assert_never

from whence.errors import EvaluationError
from whence.plan.expressions import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    Member,
    Opaque,
    type_of,
    unknown_column,
)
from whence.plan.nodes import Order
from whence.plan.types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    ArrayType,
    DataType,
    Schema,
    StructType,
)
from whence.semantics.casts import cast_function
from whence.semantics.values import (
    BITS,
    Row,
    Value,
    first_of_each,
    fits,
    freeze,
    from_micros,
    group_key,
    key_function,
    micros,
    out_of_calendar,
    single,
    sort_positions,
)

Functions = Mapping[str, Callable[..., Any]]
"""What opaque expressions and steps compute, by their key."""
Compiled = Callable[[Row], Value]


def compile_expression(expression: Expression, schema: Schema, functions: Functions | None = None) -> Compiled:
    """The function from rows of the schema to the expression's value.

    >>> from whence.plan.types import BIGINT, Field
    >>> double = compile_expression(
    ...     Call("*", (Column("x"), Literal(2, BIGINT))), (Field("x", BIGINT),))
    >>> double((21,)), double((None,))
    (42, None)
    """
    match expression:
        case Column(name):
            position = next((i for i, f in enumerate(schema) if f.name == name), None)
            if position is None:
                raise unknown_column(name, schema)
            return lambda row: row[position]
        case Literal(value, type):
            constant = freeze(value, type)
            return lambda row: constant
        case Call(function, arguments):
            types = [type_of(a, schema) for a in arguments]
            parts = [compile_expression(a, schema, functions) for a in arguments]
            return _call(function, parts, types, type_of(expression, schema))
        case Cast(child, type):
            convert = cast_function(type_of(child, schema), type)
            inner = compile_expression(child, schema, functions)
            return _strict(convert, [inner])
        case Case(branches, otherwise):
            compiled = [
                (compile_expression(when, schema, functions), compile_expression(then, schema, functions))
                for when, then in branches
            ]
            last = compile_expression(otherwise, schema, functions)
            return lambda row: next((then for when, then in compiled if when(row) is True), last)(row)
        case Member(child, name):
            struct = type_of(child, schema)
            assert isinstance(struct, StructType)
            index = [f.name for f in struct.fields].index(name)
            return _strict(lambda value: value[index], [compile_expression(child, schema, functions)])
        case Opaque(key, inputs, type):
            outside = opaque_function(key, functions)
            given = [compile_expression(part, schema, functions) for part in inputs]
            return lambda row: freeze(outside(*(part(row) for part in given)), type)
        case _:
            assert_never(expression)


def opaque_function(key: str, functions: Functions | None) -> Callable[..., Any]:
    """The caller's function for an opaque part of the plan."""
    function = (functions or {}).get(key)
    if function is None:
        raise EvaluationError(
            f"nothing is known about the opaque function {key!r}",
            detail="known: " + (", ".join(sorted(functions or {})) or "none"),
            hint="give it in functions=",
        )
    return function


def _strict(function: Callable[..., Value], parts: Sequence[Compiled]) -> Compiled:
    """The function applied where no argument is null; else null."""
    match parts:
        case [first]:
            return lambda row: None if (a := first(row)) is None else function(a)
        case [first, second]:

            def of_two(row: Row) -> Value:
                a, b = first(row), second(row)
                return None if a is None or b is None else function(a, b)

            return of_two
        case _:

            def of_many(row: Row) -> Value:
                values = [part(row) for part in parts]
                return None if None in values else function(*values)

            return of_many


def _call(name: str, parts: list[Compiled], types: list[DataType], result: DataType) -> Compiled:
    first = parts[0] if parts else None
    match name:
        case "and" | "or":
            return _and_or(parts[0], parts[1], decisive=name == "or")
        case "isnull":
            return lambda row: parts[0](row) is None
        case "isnotnull":
            return lambda row: parts[0](row) is not None
        case "isnan":
            return lambda row: (value := parts[0](row)) is not None and math.isnan(value)
        case "coalesce":
            return lambda row: next((v for part in parts if (v := part(row)) is not None), None)
        case "array":
            return lambda row: tuple(part(row) for part in parts)
        case "<=>":
            key = group_key([_known(types)])
            return lambda row: key((parts[0](row),)) == key((parts[1](row),))
        case "in":
            return _in(parts, key_function(_known(types)))
        case "nullif":
            return _nullif(parts, key_function(_known(types)))
        case "greatest" | "least":
            return _extreme(parts, key_function(_known(types)), largest=name == "greatest")
        case _:
            assert first is not None
            return _strict(_strict_function(name, types, result), parts)


def _known(types: list[DataType]) -> DataType:
    """The common type of arguments, of which some may be the untyped null."""
    return next((t for t in types if str(t) != "void"), types[0])


def _and_or(first: Compiled, second: Compiled, *, decisive: bool) -> Compiled:
    """``or`` is decided by true, ``and`` by false; undecided with a null it is null."""

    def decide(row: Row) -> Value:
        a = first(row)
        if a is decisive:
            return decisive
        b = second(row)
        if b is decisive:
            return decisive
        return None if a is None or b is None else not decisive

    return decide


def _in(parts: list[Compiled], key: Callable[[Value], Any]) -> Compiled:
    def among(row: Row) -> Value:
        value = parts[0](row)
        if value is None:
            return None
        others = [part(row) for part in parts[1:]]
        if any(other is not None and key(other) == key(value) for other in others):
            return True
        return None if None in others else False

    return among


def _nullif(parts: list[Compiled], key: Callable[[Value], Any]) -> Compiled:
    def unless_equal(row: Row) -> Value:
        a, b = parts[0](row), parts[1](row)
        return None if a is not None and b is not None and key(a) == key(b) else a

    return unless_equal


def _extreme(parts: list[Compiled], key: Callable[[Value], Any], *, largest: bool) -> Compiled:
    choose = max if largest else min
    return lambda row: choose((v for p in parts if (v := p(row)) is not None), key=key, default=None)


def _strict_function(name: str, types: list[DataType], result: DataType) -> Callable[..., Value]:
    """The function of the table that is null for a null argument and need not look at nulls."""
    if name in ("=", "!=", "<", "<=", ">", ">="):
        return _comparison(name, key_function(_known(types)))
    if name in ARITHMETIC:
        return _arithmetic(name, result)
    if name in ("array_distinct", "array_sort"):
        assert isinstance(result, ArrayType)
        return _array_function(name, result.element)
    return PLAIN[name]


def _comparison(name: str, key: Callable[[Value], Any]) -> Callable[..., Value]:
    match name:
        case "=":
            return lambda a, b: key(a) == key(b)
        case "!=":
            return lambda a, b: key(a) != key(b)
        case "<":
            return lambda a, b: key(a) < key(b)
        case "<=":
            return lambda a, b: key(a) <= key(b)
        case ">":
            return lambda a, b: key(a) > key(b)
        case _:
            return lambda a, b: key(a) >= key(b)


def _remainder(a: Value, b: Value) -> Value:
    """What division towards zero leaves: it has the sign of the dividend."""
    if isinstance(a, int):
        return a - b * _quotient(a, b)
    if b == 0:
        raise ZeroDivisionError
    return math.nan if math.isinf(a) else math.fmod(a, b)


def _quotient(a: int, b: int) -> int:
    whole = abs(a) // abs(b)
    return whole if (a < 0) == (b < 0) else -whole


ARITHMETIC: dict[str, Callable[..., Value]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": _remainder,
    "div": _quotient,
    "negative": lambda a: -a,
    "abs": abs,
}


def _arithmetic(name: str, result: DataType) -> Callable[..., Value]:
    """The operation, checked against the range of its result type."""
    operation = ARITHMETIC[name]

    def checked(*arguments: Value) -> Value:
        try:
            value = operation(*arguments)
        except ZeroDivisionError:
            raise EvaluationError(
                f"{name}: division by zero",
                detail=f"the arguments are {arguments}",
                hint="guard it with nullif(divisor, 0)",
            ) from None
        except OverflowError:
            raise out_of_calendar(f"{arguments[0]} {name} {arguments[-1]}") from None
        if result in BITS and not fits(value, result):
            raise EvaluationError(
                f"{name}: {value} is out of the range of {result}",
                detail=f"the arguments are {arguments}",
                hint="cast the arguments to a wider type",
            )
        return single(value) if result == FLOAT else value

    return checked


def _array_function(name: str, element: DataType) -> Callable[[Row], Value]:
    key = group_key([element])
    if name == "array_sort":
        order = Order(Column("element"), nulls_first=False)

        def ordered(array: Row) -> Value:
            return tuple(array[p] for p in sort_positions([(v,) for v in array], [order], [element]))

        return ordered

    # Spark makes 0.0 of -0.0 here; adding 0.0 does so and changes nothing else.
    of_floats = element in (FLOAT, DOUBLE)

    def distinct(array: Row) -> Value:
        values = [v + 0.0 if of_floats and v is not None else v for v in array]
        return tuple(first_of_each(values, lambda v: key((v,))))

    return distinct


def _whole(name: str, function: Callable[[float], int]) -> Callable[[float], int]:
    """A double rounded to a bigint; NaN gives 0, as Java has it."""

    def rounded(value: float) -> int:
        if math.isnan(value):
            return 0
        if math.isinf(value) or not fits(function(value), BIGINT):
            raise EvaluationError(
                f"{name}: {value} is out of the range of bigint",
                hint="filter such rows out, or cast to a decimal",
            )
        return function(value)

    return rounded


def _substring(text: str, position: int, length: int) -> str:
    """Counted from 1; 0 counts as 1, and a negative position from the end."""
    start = position - 1 if position > 0 else (len(text) + position if position < 0 else 0)
    return text[max(start, 0) : max(start + length, 0)] if length > 0 else ""


def _like(text: str, pattern: str) -> bool:
    """% is any text, _ any character, a backslash takes away the meaning of the next one."""
    regular = ""
    symbols = iter(pattern)
    for symbol in symbols:
        if symbol == "\\":
            escaped = next(symbols, "")
            if escaped not in ("\\", "%", "_"):
                raise EvaluationError(
                    f"like: malformed pattern {pattern!r}",
                    detail="a backslash stands before %, _ or another backslash only",
                    hint="double the backslash",
                )
            regular += re.escape(escaped)
        else:
            regular += {"%": ".*", "_": "."}.get(symbol, re.escape(symbol))
    return re.fullmatch(regular, text, re.DOTALL) is not None


def _date_add(day: date, days: int) -> date:
    try:
        return day + timedelta(days=days)
    except OverflowError:
        raise out_of_calendar(f"{day} and {days} days") from None


def _flatten(arrays: Row) -> Value:
    return None if None in arrays else tuple(v for array in arrays for v in array)


def _sqrt(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def _field(name: str) -> Callable[[date | datetime], int]:
    return lambda value: int(getattr(value, name))


PLAIN: dict[str, Callable[..., Value]] = {
    "not": lambda a: not a,
    "floor": _whole("floor", math.floor),
    "ceil": _whole("ceil", math.ceil),
    "sqrt": _sqrt,
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "concat": lambda *texts: "".join(texts),
    "substring": _substring,
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "like": _like,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": lambda text, part: part in text,
    "year": _field("year"),
    "month": _field("month"),
    "day": _field("day"),
    "hour": _field("hour"),
    "minute": _field("minute"),
    "second": _field("second"),
    "date_add": _date_add,
    "datediff": lambda end, start: (end - start).days,
    "unix_micros": micros,
    "timestamp_micros": from_micros,
    "array_compact": lambda array: tuple(v for v in array if v is not None),
    "array_concat": lambda *arrays: tuple(v for array in arrays for v in array),
    "flatten": _flatten,
    "size": len,
    "sequence": lambda first, last: tuple(range(first, last + 1)),
}
