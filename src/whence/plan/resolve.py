"""Fit expressions as people write them to a schema: names, and the casts SQL inserts.

``speed = 0`` over a double column becomes ``speed = 0.0D``. Numbers widen, constants take the
type of what they stand beside, text beside a time is read as a time. What SQL would convert with
loss is refused. Plans lifted from Spark are resolved already and do not come through here.
"""

from __future__ import annotations

from typing import assert_never

from whence.errors import PlanError
from whence.plan import functions
from whence.plan.expressions import (
    Aggregate,
    AggregateCall,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    Member,
    Opaque,
    aggregate_type,
    type_of,
    unknown_column,
)
from whence.plan.literals import convert
from whence.plan.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGERS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    DataType,
    DecimalType,
    Schema,
    is_numeric,
)

_COMPARED = {"=", "!=", "<", "<=", ">", ">=", "<=>", "in", "coalesce", "nullif", "greatest", "least"}
_ARITHMETIC = {"+", "-", "*", "%"}
_TO_DOUBLE = {"/", "sqrt", "floor", "ceil"}


def resolve(expression: Expression, schema: Schema) -> Expression:
    """The expression over a schema, with exact column names and casts; checked.

    >>> from whence.plan.expression_text import parse_expression, print_expression
    >>> from whence.plan.types import Field
    >>> print_expression(resolve(parse_expression("Speed = 0"), (Field("speed", DOUBLE),)))
    '(speed = 0.0D)'
    """
    resolved = _resolve(expression, schema)
    type_of(resolved, schema)
    return resolved


def resolve_condition(expression: Expression, schema: Schema) -> Expression:
    """The same for a condition, which must be boolean."""
    resolved = resolve(expression, schema)
    given = type_of(resolved, schema)
    if given not in (BOOLEAN, VOID):
        raise PlanError(
            f"a condition must be true or false, this gives {given}",
            hint="compare the value with something",
        )
    return resolved


def resolve_aggregate(aggregate: Aggregate, schema: Schema) -> Aggregate:
    """The same for an aggregate."""
    if isinstance(aggregate, Opaque):
        return aggregate
    filter = aggregate.filter
    resolved = AggregateCall(
        aggregate.function,
        tuple(_resolve(a, schema) for a in aggregate.arguments),
        aggregate.distinct,
        None if filter is None else resolve_condition(filter, schema),
    )
    if aggregate.function not in functions.ANALYTIC:
        aggregate_type(resolved, schema)
    return resolved


def find_column(name: str, schema: Schema) -> str:
    """The column of that name, exactly or else whatever the case; a PlanError where none is."""
    for field in schema:
        if field.name == name:
            return name
    near = [f.name for f in schema if f.name.lower() == name.lower()]
    if len(near) == 1:
        return near[0]
    raise unknown_column(name, schema)


def _resolve(expression: Expression, schema: Schema) -> Expression:
    match expression:
        case Column(name):
            return Column(find_column(name, schema))
        case Literal() | Opaque():
            return expression
        case Cast(child, type):
            return Cast(_resolve(child, schema), type)
        case Member(child, name):
            return Member(_resolve(child, schema), name)
        case Case(branches, otherwise):
            whens = [_resolve(w, schema) for w, _ in branches]
            values = [_resolve(t, schema) for _, t in branches] + [_resolve(otherwise, schema)]
            *thens, last = _unify(values, schema)
            return Case(tuple(zip(whens, thens, strict=True)), last)
        case Call(function, arguments):
            resolved = [_resolve(a, schema) for a in arguments]
            return Call(function, tuple(_fit(function, resolved, schema)))
        case _:
            assert_never(expression)


def _fit(function: str, arguments: list[Expression], schema: Schema) -> list[Expression]:
    types = [type_of(a, schema) for a in arguments]
    if function in _COMPARED:
        return _unify(arguments, schema)
    if function in _ARITHMETIC and all(is_numeric(t) or t == VOID for t in types):
        return _unify(arguments, schema)
    if function in _TO_DOUBLE:
        return [_as(a, t, DOUBLE) for a, t in zip(arguments, types, strict=True)]
    if function == "div":
        return [_as(a, t, BIGINT) for a, t in zip(arguments, types, strict=True)]
    if function == "concat":
        return [_as(a, t, STRING) for a, t in zip(arguments, types, strict=True)]
    return arguments


def _unify(expressions: list[Expression], schema: Schema) -> list[Expression]:
    types = [type_of(e, schema) for e in expressions]
    firm = [t for e, t in zip(expressions, types, strict=True) if t != VOID and not isinstance(e, Literal)]
    wanted = common_type(firm or [t for t in types if t != VOID])
    if wanted is None:
        return expressions
    if firm:
        # Constants take the others' type where that is exact; otherwise all widen together.
        tried = [_as(e, t, wanted) for e, t in zip(expressions, types, strict=True)]
        if all(type_of(e, schema) in (wanted, VOID) for e in tried):
            return tried
        wider = common_type([t for t in types if t != VOID])
        if wider is None:
            return expressions
        wanted = wider
    return [_as(e, t, wanted) for e, t in zip(expressions, types, strict=True)]


def _as(expression: Expression, given: DataType, wanted: DataType) -> Expression:
    if given == wanted:
        return expression
    if isinstance(expression, Literal):
        return convert(expression, wanted) or expression
    if given == VOID or _widens(given, wanted):
        return Cast(expression, wanted)
    return expression


def _widens(given: DataType, wanted: DataType) -> bool:
    if given in INTEGERS and wanted in INTEGERS:
        return INTEGERS.index(given) < INTEGERS.index(wanted)
    if wanted == DOUBLE:
        return given in INTEGERS or given == FLOAT or isinstance(given, DecimalType)
    if isinstance(wanted, DecimalType):
        if isinstance(given, DecimalType):
            return given.scale <= wanted.scale and given.precision - given.scale <= wanted.precision - wanted.scale
        return given in INTEGERS and _digits(given) <= wanted.precision - wanted.scale
    return given == DATE and wanted in (TIMESTAMP, TIMESTAMP_NTZ)


def _digits(integer: DataType) -> int:
    return {1: 3, 2: 5, 3: 10, 4: 20}[1 + INTEGERS.index(integer)]


def common_type(types: list[DataType]) -> DataType | None:
    """The narrowest type that all types widen to, or None."""
    if not types:
        return None
    result = types[0]
    for other in types[1:]:
        if result == other or _widens(other, result):
            continue
        if _widens(result, other):
            result = other
        elif isinstance(result, DecimalType) or isinstance(other, DecimalType):
            left, right = _as_decimal(result), _as_decimal(other)
            if left is None or right is None:
                return None
            scale = max(left.scale, right.scale)
            whole = max(left.precision - left.scale, right.precision - right.scale)
            if scale + whole > 38:
                return None
            result = DecimalType(scale + whole, scale)
        elif {result, other} <= {*INTEGERS, FLOAT, DOUBLE}:
            result = DOUBLE
        else:
            return None
    return result


def _as_decimal(type: DataType) -> DecimalType | None:
    if isinstance(type, DecimalType):
        return type
    return (
        DecimalType(_digits(type), 0)
        if type in INTEGERS and type != BIGINT
        else (DecimalType(20, 0) if type == BIGINT else None)
    )
