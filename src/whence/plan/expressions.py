"""Scalar expressions and aggregate calls, with SQL's three-valued logic.

An expression is understood (columns, literals, calls of functions from the table in
``functions``, casts, cases, members) or ``Opaque``: known by its inputs, type and determinism,
and perhaps by a SQL text, but not by what it computes. Expressions name columns of the node they
stand on; ``type_of`` infers their type and checks them. Nothing is evaluated here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import assert_never

from whence.errors import PlanError
from whence.plan import functions
from whence.plan.hidden import PREFIX
from whence.plan.types import (
    BOOLEAN,
    VOID,
    DataType,
    Schema,
    StructType,
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the node's input, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. ``value`` is a Python value, ``None`` for null.

    Values: bool, int, float, ``decimal.Decimal``, str, bytes, ``datetime.date``, an aware
    ``datetime.datetime`` in UTC (timestamp), a naive one (timestamp_ntz), ``datetime.timedelta``.
    """

    value: object
    type: DataType

    # True == 1 == 1.0 in Python, and -0.0 == 0.0; as constants of a plan they differ.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self.type == other.type and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash((self.type, repr(self.value)))


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator of the table in ``functions``, applied to arguments."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A value converted to another type; what cannot be converted is an error, as in ANSI SQL."""

    child: Expression
    type: DataType


@dataclass(frozen=True, slots=True)
class Case:
    """``case when ... then ... else ... end``; without an else the last value is null."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Member:
    """A named member of a struct."""

    child: Expression
    name: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """An expression known only from outside.

    ``key`` tells it from others in the plan and finds its handle while the session lives;
    ``text`` is SQL over the names of the input columns that gives the same expression again, or
    None. An opaque expression may stand for an aggregate in a group's or analytic window's column.
    """

    key: str
    inputs: tuple[Expression, ...]
    type: DataType
    deterministic: bool = True
    text: str | None = None


Expression = Column | Literal | Call | Cast | Case | Member | Opaque


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate function over the rows of a group or frame; no arguments means ``count(*)``."""

    function: str
    arguments: tuple[Expression, ...] = ()
    distinct: bool = False
    filter: Expression | None = None


Aggregate = AggregateCall | Opaque


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside one."""
    match expression:
        case Column() | Literal():
            return ()
        case Call(_, arguments):
            return arguments
        case Cast(child, _) | Member(child, _):
            return (child,)
        case Case(branches, otherwise):
            return (*(e for branch in branches for e in branch), otherwise)
        case Opaque():
            return expression.inputs
        case _:
            assert_never(expression)


def walk(expression: Expression) -> Iterator[Expression]:
    """An expression and all inside it, outermost first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def transform(expression: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """The expression with the outermost parts for which ``change`` answers replaced.

    The inputs of an opaque expression are replaced only together with the whole of it, because
    its text and handle name them: change columns below opaque expressions by a project instead.
    """
    changed = change(expression)
    if changed is not None:
        return changed
    match expression:
        case Column() | Literal() | Opaque():
            return expression
        case Call(function, arguments):
            return Call(function, tuple(transform(a, change) for a in arguments))
        case Cast(child, type):
            return Cast(transform(child, change), type)
        case Member(child, name):
            return Member(transform(child, change), name)
        case Case(branches, otherwise):
            return Case(
                tuple((transform(w, change), transform(t, change)) for w, t in branches),
                transform(otherwise, change),
            )
        case _:
            assert_never(expression)


def columns_of(expression: Expression | Aggregate) -> frozenset[str]:
    """The names of the input columns an expression reads."""
    if isinstance(expression, AggregateCall):
        parts = expression.arguments + ((expression.filter,) if expression.filter else ())
        return frozenset(name for part in parts for name in columns_of(part))
    return frozenset(e.name for e in walk(expression) if isinstance(e, Column))


def is_deterministic(expression: Expression | Aggregate) -> bool:
    """Whether the same inputs always give the same value."""
    if isinstance(expression, AggregateCall):
        parts = expression.arguments + ((expression.filter,) if expression.filter else ())
        return all(is_deterministic(part) for part in parts)
    return all(e.deterministic for e in walk(expression) if isinstance(e, Opaque))


def is_understood(expression: Expression | Aggregate) -> bool:
    """Whether no part of the expression is opaque."""
    if isinstance(expression, AggregateCall):
        parts = expression.arguments + ((expression.filter,) if expression.filter else ())
        return all(is_understood(part) for part in parts)
    return not any(isinstance(e, Opaque) for e in walk(expression))


def type_of(expression: Expression, schema: Schema) -> DataType:
    """The type of an expression over a schema; a PlanError where it does not fit."""
    match expression:
        case Column(name):
            for field in schema:
                if field.name == name:
                    return field.type
            raise unknown_column(name, schema)
        case Literal(_, type):
            return type
        case Call(function, arguments):
            return functions.result_type(function, [type_of(a, schema) for a in arguments])
        case Cast(child, type):
            functions.check_cast(type_of(child, schema), type)
            return type
        case Member(child, name):
            struct = type_of(child, schema)
            if not isinstance(struct, StructType):
                raise PlanError(
                    f"cannot take member {name!r} of a value of type {struct}",
                    hint="only structs have members",
                )
            for field in struct.fields:
                if field.name == name:
                    return field.type
            raise PlanError(
                f"unknown member {name!r}",
                detail="members here: " + ", ".join(f.name for f in struct.fields),
                hint="name one of them",
            )
        case Case(branches, otherwise):
            return _case_type(branches, otherwise, schema)
        case Opaque(_, inputs, type):
            for part in inputs:
                type_of(part, schema)
            return type
        case _:
            assert_never(expression)


def _case_type(branches: tuple[tuple[Expression, Expression], ...], otherwise: Expression, schema: Schema) -> DataType:
    for when, _ in branches:
        condition = type_of(when, schema)
        if condition not in (BOOLEAN, VOID):
            raise PlanError(
                f"a case condition must be boolean, not {condition}",
                hint="compare the value with something",
            )
    types = {type_of(e, schema) for e in (*(then for _, then in branches), otherwise)} - {VOID}
    if len(types) > 1:
        raise PlanError(
            "the values of a case have different types",
            detail="found " + ", ".join(sorted(map(str, types))),
            hint="cast them to one type",
        )
    return types.pop() if types else VOID


def aggregate_type(aggregate: Aggregate, schema: Schema) -> DataType:
    """The type of an aggregate over a schema; a PlanError where it does not fit."""
    if isinstance(aggregate, Opaque):
        return type_of(aggregate, schema)
    if aggregate.filter is not None and type_of(aggregate.filter, schema) != BOOLEAN:
        raise PlanError(
            f"the filter of {aggregate.function} must be boolean",
            hint="compare the value with something",
        )
    return functions.aggregate_result_type(aggregate.function, [type_of(a, schema) for a in aggregate.arguments])


def unknown_column(name: str, schema: Schema) -> PlanError:
    """The error for a column that is not there; it lists those that are."""
    return PlanError(
        f"unknown column {name!r}",
        detail="columns here: " + (", ".join(f.name for f in schema if not f.name.startswith(PREFIX)) or "none"),
        hint="name one of them",
    )


def conjunction(parts: list[Expression]) -> Expression:
    """``and`` of all parts; true where there are none."""
    if not parts:
        return Literal(True, BOOLEAN)
    result = parts[0]
    for part in parts[1:]:
        result = Call("and", (result, part))
    return result


def conjuncts(expression: Expression) -> list[Expression]:
    """The parts of nested ``and``, from left to right."""
    if isinstance(expression, Call) and expression.function == "and":
        return [part for argument in expression.arguments for part in conjuncts(argument)]
    return [expression]
