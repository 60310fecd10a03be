"""Expressions as DuckDB SQL: the entries of the tables put together, and refusals by name.

Every SQL expression made here has exactly the DuckDB type of the expression's own type. Columns
that can hold only null (``void``) are written as the constant, because DuckDB has no such type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from whence.duck.aggregates import AGGREGATES, ANALYTIC, MOST_SUMMED_DIGITS, AggregateEntry
from whence.duck.casts import cast_sql
from whence.duck.functions import FUNCTIONS, Operands, is_taken
from whence.duck.text import SPARK_HINT, Names, duck_type, literal, refusal, string
from whence.errors import NotPortable
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
    conjuncts,
    type_of,
)
from whence.plan.functions import result_type
from whence.plan.nodes import Order
from whence.plan.types import (
    DOUBLE,
    FLOAT,
    TIMESTAMP,
    VOID,
    DataType,
    DecimalType,
    Schema,
    StructType,
)

MOST_TEXT = 200_000
"""Some entries name an argument more than once; nested deeply, the SQL would outgrow any use."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression stands on: the columns, their SQL names, the step, the session's zone."""

    schema: Schema
    names: Names
    where: str
    utc: bool = True


def expression_sql(expression: Expression, scope: Scope) -> str:
    """An expression as SQL of its own type; NotPortable where DuckDB has none that means the same."""
    sql = _sql(expression, scope)
    if len(sql) > MOST_TEXT:
        raise refusal(f"{scope.where}: an expression is too long to be portable", f"{len(sql)} characters of SQL")
    return sql


def _sql(expression: Expression, scope: Scope) -> str:
    match expression:
        case Column(name):
            return "NULL" if type_of(expression, scope.schema) == VOID else scope.names[name]
        case Literal(value, type):
            return literal(value, type)
        case Call("and"):
            # Long conditions are nested deeper than DuckDB's parser goes.
            return "(" + " AND ".join(expression_sql(part, scope) for part in conjuncts(expression)) + ")"
        case Call():
            return _call(expression, scope)
        case Cast(child, type):
            source = type_of(child, scope.schema)
            return cast_sql(expression_sql(child, scope), source, type, scope.where, utc=scope.utc)
        case Case(branches, otherwise):
            last = expression_sql(otherwise, scope)
            if not branches or type_of(expression, scope.schema) == VOID:
                return last if not branches else "NULL"
            whens = " ".join(
                f"WHEN {expression_sql(when, scope)} THEN {expression_sql(then, scope)}" for when, then in branches
            )
            return f"CASE {whens} ELSE {last} END"
        case Member(child, name):
            duck_type(type_of(child, scope.schema))
            return f"struct_extract({expression_sql(child, scope)}, {string(name)})"
        case Opaque():
            raise _opaque(expression, scope.where)
        case _:
            assert_never(expression)


def _opaque(expression: Opaque, where: str) -> NotPortable:
    return refusal(
        f"{where}: {expression.text or expression.key} is not portable",
        "it is known to Spark only, by its inputs and type",
    )


def _call(call: Call, scope: Scope) -> str:
    entry = FUNCTIONS.get(call.function)
    types = tuple(type_of(a, scope.schema) for a in call.arguments)
    if entry is None:
        raise refusal(f"{scope.where}: {call.function} is not portable", "DuckDB has no function that means the same")
    for type in types:
        if not is_taken(type, entry.takes):
            raise refusal(
                f"{scope.where}: {call.function} of a value of type {type} is not portable",
                f"portable for: {', '.join(entry.takes)}" + (f" ({entry.note})" if entry.note else ""),
            )
    if entry.zoned and not scope.utc and TIMESTAMP in types:
        raise refusal(
            f"{scope.where}: {call.function} of a timestamp is not portable",
            "the query ran in a time zone other than UTC",
        )
    result = result_type(call.function, types)
    if result == VOID or (entry.strict and VOID in types):
        return literal(None, result)
    constants = tuple(a if isinstance(a, Literal) else None for a in call.arguments)
    sql = tuple(expression_sql(a, scope) for a in call.arguments)
    return entry.write(Operands(sql, types, constants, result, scope.where))


def aggregate_sql(aggregate: Aggregate, scope: Scope, over: str = "") -> str:
    """An aggregate or analytic function as SQL; ``over`` is the window it runs over."""
    if isinstance(aggregate, Opaque):
        raise _opaque(aggregate, scope.where)
    entry = _aggregate_entry(aggregate, scope)
    tail = ""
    if aggregate.filter is not None:
        tail = f" FILTER (WHERE {expression_sql(aggregate.filter, scope)})"
    if over:
        tail += f" OVER ({over})"
    if aggregate.function in ANALYTIC:
        arguments = ", ".join(expression_sql(a, scope) for a in aggregate.arguments)
        return str(entry.result).format(f"{entry.function}({arguments}){tail}")
    if not aggregate.arguments:
        return entry.write(None, None, distinct=False, tail=tail)
    type = type_of(aggregate.arguments[0], scope.schema)
    argument = expression_sql(aggregate.arguments[0], scope)
    return entry.write(argument, type, distinct=aggregate.distinct, tail=tail)


def _aggregate_entry(aggregate: AggregateCall, scope: Scope) -> AggregateEntry:
    name = aggregate.function
    if name in ANALYTIC:
        return ANALYTIC[name]
    if name not in AGGREGATES:
        raise refusal(
            f"{scope.where}: {name} is not portable",
            "its value depends on the order in which rows are met, which DuckDB cannot know",
        )
    types = [type_of(a, scope.schema) for a in aggregate.arguments]
    for entry in AGGREGATES[name]:
        if all(is_taken(t, entry.takes) for t in types):
            break
    else:
        raise refusal(
            f"{scope.where}: {name} of a value of type {types[0]} is not portable",
            "portable for: " + ", ".join(kind for e in AGGREGATES[name] for kind in e.takes),
        )
    if name == "sum" and isinstance(types[0], DecimalType) and types[0].precision > MOST_SUMMED_DIGITS:
        raise refusal(
            f"{scope.where}: sum of a value of type {types[0]} is not portable",
            f"DuckDB sees no overflow beyond {MOST_SUMMED_DIGITS} digits",
        )
    return entry


def order_sql(order: Order, scope: Scope) -> str:
    """One key of a sort order; structs by their members, nulls inside them first."""
    type = type_of(order.expression, scope.schema)
    sql = expression_sql(order.expression, scope)
    return ", ".join(_order_terms(sql, type, order.descending, order.nulls_first, scope.where))


def _order_terms(sql: str, type: DataType, descending: bool, nulls_first: bool, where: str) -> list[str]:
    direction = "DESC" if descending else "ASC"
    match type:
        case StructType(fields):
            duck_type(type)
            # In Spark a null inside a struct is its smallest value, whatever becomes of null structs.
            members = [
                term
                for f in fields
                for term in _order_terms(
                    f"struct_extract({sql}, {string(f.name)})", f.type, descending, not descending, where
                )
            ]
            return [f"({sql} IS NULL) {'DESC' if nulls_first else 'ASC'}", *members]
        case _ if is_taken(type, ("array", "map", "other")) and type != VOID:
            raise refusal(f"{where}: ordering by a value of type {type} is not portable", hint=SPARK_HINT)
        case _:
            return [f"{sql} {direction} NULLS {'FIRST' if nulls_first else 'LAST'}"]


def as_key(sql: str, type: DataType) -> str:
    """A value as grouping gives it back: Spark makes 0.0 of -0.0 there."""
    if type not in (FLOAT, DOUBLE):
        return sql
    return f"CASE WHEN {sql} = 0 THEN {literal(0.0, type)} ELSE {sql} END"
