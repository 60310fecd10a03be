"""Restrict: cut a plan's sources to what can matter for rows with asked values.

``restrict(plan, wanted)`` may drop and change any row that does not have the wanted values, and
keeps all that do: filtering both by them gives the same. Catalyst and DuckDB push such filters
themselves through much of a plan; through null-safe joins, set operations and event-time windows
they do not, so it is done here, for both. A restriction that cannot be pushed further is dropped.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, replace
from typing import assert_never

from whence.plan.expressions import (
    Call,
    Column,
    Expression,
    Literal,
    Member,
    columns_of,
    conjunction,
    conjuncts,
    is_deterministic,
    is_understood,
    transform,
    type_of,
)
from whence.plan.literals import micros_since_epoch, moment_of
from whence.plan.nodes import (
    Analytic,
    Deduplicate,
    Distinct,
    EventWindow,
    Filter,
    Generate,
    Group,
    Join,
    Limit,
    Node,
    OpaqueStep,
    Project,
    SetOperation,
    Sort,
    Source,
    Union,
    Values,
    Watermark,
    names,
)
from whence.plan.types import TIMESTAMP, TIMESTAMP_NTZ, AtomicType, DataType, DecimalType

FEW = 64
"""Up to so many values are listed; beyond, their smallest and largest bound a range."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An expression of a node's columns and the values that matter, perhaps null among them.

    ``low`` and ``high`` (both included) bound a range instead where ``values`` is None.
    """

    expression: Expression
    values: tuple[object, ...] | None
    null: bool
    low: object = None
    high: object = None


def wanted_values(expression: Expression, type: DataType, values: set[object]) -> Wanted | None:
    """What to want of an expression so that it has one of the values; None where it cannot help."""
    plain = isinstance(type, DecimalType) or (
        isinstance(type, AtomicType) and type.name not in ("void", "binary", "interval day to second")
    )
    present = [v for v in values if v is not None]
    if not plain or any(isinstance(v, float) and math.isnan(v) for v in present):
        return None
    ordered = sorted(present)  # type: ignore[type-var]
    null = None in values
    if len(ordered) <= FEW:
        return Wanted(expression, tuple(ordered), null)
    return Wanted(expression, None, null, ordered[0], ordered[-1])


def restrict(node: Node, wanted: list[Wanted]) -> Node:
    """The plan, its sources filtered by what is wanted of its result."""
    known = set(names(node))
    wanted = [w for w in wanted if _pushable(w) and columns_of(w.expression) <= known]
    if not wanted:
        return node
    match node:
        case Source():
            return Filter(node, conjunction([wanted_condition(w, node) for w in wanted]))
        case Values() | Limit():
            return node
        case Project():
            computed = {c.name: c.expression for c in node.columns}
            return replace(node, child=restrict(node.child, _substituted(wanted, computed)))
        case Filter() | Sort() | Watermark() | Distinct() | Generate():
            return replace(node, child=restrict(node.child, wanted))
        case EventWindow():
            return replace(node, child=restrict(node.child, _through_window(node, wanted)))
        case Union():
            return replace(
                node,
                children=tuple(restrict(child, _renamed(wanted, names(node), names(child))) for child in node.children),
            )
        case SetOperation():
            right = _renamed(wanted, names(node.left), names(node.right))
            return replace(node, left=restrict(node.left, wanted), right=restrict(node.right, right))
        case Join():
            return _restrict_join(node, wanted)
        case Group():
            keys = {k.name: k.expression for k in node.keys}
            if not keys:
                return node
            inside = [w for w in wanted if columns_of(w.expression) <= set(keys)]
            return replace(node, child=restrict(node.child, _substituted(inside, keys)))
        case Deduplicate():
            inside = [w for w in wanted if columns_of(w.expression) <= set(node.keys)]
            return replace(node, child=restrict(node.child, inside))
        case Analytic():
            fixed = [_exactly(w, node.partition) for w in wanted]
            return replace(node, child=restrict(node.child, [w for w in fixed if w]))
        case OpaqueStep():
            passed = set(node.carried) if node.kind == "per_row" else set(node.keys)
            if node.kind == "per_row":
                passed -= {f.name for f in node.fields}
            inside = [w for w in wanted if columns_of(w.expression) <= passed]
            return replace(node, child=restrict(node.child, inside))
        case _:
            assert_never(node)


def _pushable(wanted: Wanted) -> bool:
    e = wanted.expression
    return bool(columns_of(e)) and is_understood(e) and is_deterministic(e)


def wanted_condition(wanted: Wanted, node: Node) -> Expression:
    """The test that a row of a node has what is wanted."""
    expression = wanted.expression
    type = type_of(expression, node.schema)
    test: Expression | None
    if wanted.values is None:
        low, high = Literal(wanted.low, type), Literal(wanted.high, type)
        test = Call("and", (Call(">=", (expression, low)), Call("<=", (expression, high))))
    elif len(wanted.values) == 1:
        test = Call("=", (expression, Literal(wanted.values[0], type)))
    elif wanted.values:
        test = Call("in", (expression, *(Literal(v, type) for v in wanted.values)))
    else:
        test = None
    if not wanted.null:
        return test if test is not None else Call("isnotnull", (expression,))
    null = Call("isnull", (expression,))
    return null if test is None else Call("or", (test, null))


def _substituted(wanted: list[Wanted], by: dict[str, Expression]) -> list[Wanted]:
    def change(e: Expression) -> Expression | None:
        return by.get(e.name) if isinstance(e, Column) else None

    return [replace(w, expression=transform(w.expression, change)) for w in wanted]


def _renamed(wanted: list[Wanted], old: tuple[str, ...], new: tuple[str, ...]) -> list[Wanted]:
    return _substituted(wanted, {a: Column(b) for a, b in zip(old, new, strict=True)})


def _exactly(wanted: Wanted, keys: tuple[Expression, ...]) -> Wanted | None:
    """What is wanted, where it is a function of the keys alone."""
    by_key = {key.name for key in keys if isinstance(key, Column)}
    return wanted if wanted.expression in keys or columns_of(wanted.expression) <= by_key else None


def _through_window(node: EventWindow, wanted: list[Wanted]) -> list[Wanted]:
    """Turn wanted windows into a range of times; the rest passes by."""
    inside: list[Wanted] = []
    column = Column(node.name)
    for w in wanted:
        if node.name not in columns_of(w.expression):
            inside.append(w)
            continue
        if w.null:
            continue
        ends: tuple[int, int] | None = None  # from and to what distance of the value times lie
        if w.expression == Member(column, "start") or (w.expression == column and node.stamp == "start"):
            ends = (0, node.size)
        elif w.expression == Member(column, "end") or (w.expression == column and node.stamp == "end"):
            ends = (-node.size, 0)
        bounds = (w.low, w.high) if w.values is None else (w.values[:1] + w.values[-1:])
        if ends is None or len(bounds) != 2:
            continue
        low, high = (_shift(b, e) for b, e in zip(bounds, ends, strict=True))
        if type_of(node.time, node.child.schema) in (TIMESTAMP, TIMESTAMP_NTZ):
            inside.append(Wanted(node.time, None, False, low, high))
    return inside


def _shift(moment: object, micros: int) -> object:
    assert isinstance(moment, dt.datetime)
    shifted = moment_of(micros_since_epoch(moment) + micros)
    return shifted if moment.tzinfo else shifted.replace(tzinfo=None)


def _restrict_join(node: Join, wanted: list[Wanted]) -> Node:
    left_names, right_names = set(names(node.left)), set(names(node.right))
    left: list[Wanted] = []
    right: list[Wanted] = []
    for w in wanted:
        used = columns_of(w.expression)
        # A row made null by an outer join has none of the wanted values unless null is wanted,
        # so cutting either side only changes rows that are not wanted.
        if used <= left_names and not (w.null and node.kind in ("right", "full")):
            left.append(w)
            right.extend(_equal_side(node, w, right_names))
        elif used <= right_names and not (w.null and node.kind in ("left", "full")):
            right.append(w)
            left.extend(_equal_side(node, w, left_names))
    return replace(node, left=restrict(node.left, left), right=restrict(node.right, right))


def _equal_side(node: Join, wanted: Wanted, other: set[str]) -> list[Wanted]:
    """The same wanted of what the condition says is equal on the other side."""
    found: list[Wanted] = []
    for part in conjuncts(node.condition) if node.condition is not None else []:
        match part:
            case Call("=" | "<=>" as operator, (a, b)):
                for mine, theirs in ((a, b), (b, a)):
                    if mine == wanted.expression and columns_of(theirs) <= other:
                        null = wanted.null and operator == "<=>"
                        found.append(replace(wanted, expression=theirs, null=null))
    return found
