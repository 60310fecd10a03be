"""What aggregates mean over the rows of a group or frame.

Nulls are left out by every aggregate except ``count(*)``; ``distinct`` leaves out equals of what
came before; ``filter`` lets only rows through for which it is true. Sums of doubles are added from
left to right, without compensation, as Spark does within a task; another order may round
differently, and judges allow for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from whence.errors import EvaluationError
from whence.plan.expressions import Aggregate, AggregateCall, Opaque, aggregate_type, type_of
from whence.plan.types import BIGINT, DataType, DecimalType, Schema
from whence.semantics.scalars import Functions, compile_expression, opaque_function
from whence.semantics.values import (
    DECIMALS,
    Row,
    Value,
    as_decimal,
    first_of_each,
    fits,
    freeze,
    group_key,
    key_function,
)


def compile_aggregate(
    aggregate: Aggregate, schema: Schema, functions: Functions | None = None
) -> Callable[[Sequence[Row]], Value]:
    """The function from rows of the schema to the aggregate's value.

    An opaque aggregate's function is called with one list for each of its inputs.
    """
    if isinstance(aggregate, Opaque):
        outside = opaque_function(aggregate.key, functions)
        inputs = [compile_expression(e, schema, functions) for e in aggregate.inputs]
        type = aggregate.type
        return lambda rows: freeze(outside(*([part(row) for row in rows] for part in inputs)), type)
    let_through = None
    if aggregate.filter is not None:
        let_through = compile_expression(aggregate.filter, schema, functions)

    def kept(rows: Sequence[Row]) -> Sequence[Row]:
        return rows if let_through is None else [r for r in rows if let_through(r) is True]

    if not aggregate.arguments:
        return lambda rows: len(kept(rows))
    argument = compile_expression(aggregate.arguments[0], schema, functions)
    of_type = type_of(aggregate.arguments[0], schema)
    compute = _function(aggregate, of_type, aggregate_type(aggregate, schema))
    key = group_key([of_type])

    def over(rows: Sequence[Row]) -> Value:
        values = [v for row in kept(rows) if (v := argument(row)) is not None]
        if aggregate.distinct:
            values = first_of_each(values, lambda v: key((v,)))
        return compute(values)

    return over


def _function(aggregate: AggregateCall, of_type: DataType, result: DataType) -> Callable[[list[Value]], Value]:
    match aggregate.function:
        case "count":
            return len
        case "sum":
            return lambda values: _sum(values, result)
        case "avg":
            return lambda values: _average(values, result)
        case "min":
            return lambda values: min(values, key=key_function(of_type), default=None)
        case "max":
            return lambda values: max(values, key=key_function(of_type), default=None)
        case "bool_and":
            return lambda values: all(values) if values else None
        case "bool_or":
            return lambda values: any(values) if values else None
        case "collect_list":
            return tuple
        case "collect_set":
            key = group_key([of_type])
            return lambda values: tuple(first_of_each(values, lambda v: key((v,))))
        case other:
            raise EvaluationError(
                f"{other} is no aggregate",
                hint="rankings and offsets belong into an analytic node",
            )


def _total(values: list[Value], zero: Value) -> Value:
    # Not the builtin sum: newer Pythons compensate rounding there.
    total = zero
    for value in values:
        total = DECIMALS.add(total, value) if isinstance(total, Decimal) else total + value
    return total


def _sum(values: list[Value], result: DataType) -> Value:
    if not values:
        return None
    if isinstance(result, DecimalType):
        total = as_decimal(_total(values, Decimal(0)), result)
        if total is not None:
            return total
    elif result == BIGINT:
        total = _total(values, 0)
        if fits(total, BIGINT):
            return total
    else:
        return _total(values, 0.0)
    raise EvaluationError(
        f"sum: the total is out of the range of {result}",
        detail=f"{len(values)} values were added",
        hint="cast the argument to a wider type",
    )


def _average(values: list[Value], result: DataType) -> Value:
    if not values:
        return None
    if isinstance(result, DecimalType):
        return as_decimal(DECIMALS.divide(_total(values, Decimal(0)), Decimal(len(values))), result)
    return _total([float(v) for v in values], 0.0) / len(values)
