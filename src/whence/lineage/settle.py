"""Settle: a streaming plan as the batch plan that means the same, once all epochs are known.

A stream drops late rows where it keeps state by event time: a row-window pair counts unless the
window had ended at or before the watermark that held when its epoch began. Every source row
brings that moment along (``LATE``), so the batch plan filters by it, just below the group. Watermarks
then mean nothing and are dropped. Windows that were never emitted are in no result and so in no
question. One group by event time over one source (or a union of sources) is settled; other state
is refused by name.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import assert_never

from whence.errors import NotTraceable
from whence.plan.expressions import Call, Column, Expression, Literal, Member, columns_of
from whence.plan.hidden import LATE
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
    Named,
    Node,
    OpaqueStep,
    Project,
    SetOperation,
    Sort,
    Source,
    Union,
    Values,
    Watermark,
    label,
    walk,
)
from whence.plan.types import BOOLEAN, INTERVAL, TIMESTAMP, Field, StructType


def settle(plan: Node) -> Node:
    """The batch plan over sources that also have ``LATE``, or without where nothing is late."""
    stateful = [n for n in walk(plan) if isinstance(n, Group)]
    for node in walk(plan):
        if isinstance(node, Distinct | Deduplicate | Join | SetOperation | Sort | Limit | Analytic):
            raise _refuse(node, "its state over a stream is not reproduced yet")
        if isinstance(node, OpaqueStep) and node.kind != "per_row":
            raise _refuse(node, "its state over a stream is not reproduced yet")
    if len(stateful) > 1:
        raise _refuse(stateful[-1], "it stands on another group's results")
    if not stateful:
        return _without_watermarks(plan)
    return _settle(plan, stateful[0])


def _refuse(node: Node, why: str) -> NotTraceable:
    return NotTraceable(
        f"{label(node)} cannot be traced on a stream",
        detail=why,
        hint="trace the same query as a batch, or trace the part below this step",
    )


def _without_watermarks(node: Node) -> Node:
    match node:
        case Watermark():
            return _without_watermarks(node.child)
        case Source() | Values():
            return node
        case Union():
            return replace(node, children=tuple(_without_watermarks(c) for c in node.children))
        case Join() | SetOperation():
            return replace(node, left=_without_watermarks(node.left), right=_without_watermarks(node.right))
        case (
            Project() | Filter() | Generate() | EventWindow() | Group() | Distinct()
            | Deduplicate() | Sort() | Limit() | Analytic() | OpaqueStep()
        ):  # fmt: skip
            return replace(node, child=_without_watermarks(node.child))
        case _:
            assert_never(node)


def _settle(node: Node, group: Group) -> Node:
    if node is not group:
        match node:
            case Project() | Filter() | Watermark() | Generate() | EventWindow() | OpaqueStep():
                below = _settle(node.child, group)
                return below if isinstance(node, Watermark) else replace(node, child=below)
            case _:
                raise _refuse(node, "it stands on a group's results")
    times = event_times(group.child)
    ends = [time_of(key.expression, times, group.child) for key in group.keys]
    moments = [end for end in ends if end is not None]
    if not moments:
        raise _refuse(group, "none of its keys is an event time with a watermark")
    late = _carry_late(group.child)
    # A null time is never late, and neither is any row of an epoch in which nothing is (LATE is null there).
    in_time = Call("coalesce", (Call(">", (moments[0], Column(LATE))), Literal(True, BOOLEAN)))
    return replace(group, child=Filter(late, in_time))


def time_of(expression: Expression, times: frozenset[str], below: Node) -> Expression | None:
    """The moment by which a key of a group is late: a window's end, or the time itself."""
    if not isinstance(expression, Column) or expression.name not in times:
        return None
    given = next(f.type for f in below.schema if f.name == expression.name)
    if isinstance(given, StructType):
        return Member(expression, "end")
    size = _size_after(below, expression.name)
    return expression if not size else Call("+", (expression, Literal(timedelta(microseconds=size), INTERVAL)))


def _size_after(node: Node, column: str) -> int:
    """The size of the windows of which an event time holds the starts; 0 where it holds the moment itself."""
    match node:
        case EventWindow() if node.name == column:
            return node.size if node.stamp == "start" else 0
        case Project():
            made = next(c.expression for c in node.columns if c.name == column)
            return _size_after(node.child, made.name) if isinstance(made, Column) else 0
        case Union():
            place = [f.name for f in node.schema].index(column)
            return _size_after(node.children[0], node.children[0].schema[place].name)
        case Filter() | Generate() | EventWindow() | Watermark() | OpaqueStep():
            return _size_after(node.child, column)
        case _:
            return 0


def event_times(node: Node) -> frozenset[str]:
    """The columns of a node that carry a watermark."""
    match node:
        case Source() | Values():
            return frozenset()
        case Watermark():
            return event_times(node.child) | {node.column}
        case Project():
            below = event_times(node.child)
            return frozenset(
                c.name for c in node.columns if isinstance(c.expression, Column) and c.expression.name in below
            )
        case EventWindow():
            below = event_times(node.child)
            return below | ({node.name} if columns_of(node.time) <= below else frozenset())
        case Filter() | Generate() | Sort() | Limit() | Analytic() | Deduplicate() | Distinct():
            return event_times(node.child)
        case Group():
            below = event_times(node.child)
            return frozenset(
                k.name for k in node.keys if isinstance(k.expression, Column) and k.expression.name in below
            )
        case Union():
            return event_times(node.children[0])
        case Join() | SetOperation():
            left = event_times(node.left)
            whole = isinstance(node, Join) and node.kind not in ("semi", "anti")
            return left | event_times(node.right) if whole else left
        case OpaqueStep():
            return frozenset(node.carried) & event_times(node.child)
        case _:
            assert_never(node)


def _carry_late(node: Node) -> Node:
    """The node with ``LATE`` of the source row beside its columns."""
    match node:
        case Source():
            return replace(node, fields=(*node.fields, Field(LATE, TIMESTAMP)))
        case Watermark():
            return _carry_late(node.child)
        case Project():
            kept = (*node.columns, Named(LATE, Column(LATE)))
            return replace(node, child=_carry_late(node.child), columns=kept)
        case Filter() | Generate() | EventWindow():
            return replace(node, child=_carry_late(node.child))
        case OpaqueStep(kind="per_row"):
            return replace(node, child=_carry_late(node.child), carried=(*node.carried, LATE))
        case Union():
            inputs = tuple(
                Project(
                    _carry_late(child),
                    (*(Named(f.name, Column(f.name)) for f in child.schema), Named(LATE, Column(LATE))),
                )
                for child in node.children
            )
            return replace(node, children=inputs)
        case _:
            raise _refuse(node, "late rows cannot be followed through it")
