"""Frames: which rows of its partition an analytic row was computed from, as a join condition.

Rows are numbered within their partition, by the user's order and then by identity, so that ties
fall as the oracle lets them fall; peers are told by rank, offsets of range frames by value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from whence.errors import NotTraceable
from whence.lineage.fresh import Fresh, keep
from whence.lineage.identify import identify
from whence.plan import functions
from whence.plan.expressions import (
    AggregateCall,
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    conjunction,
    type_of,
)
from whence.plan.nodes import (
    UP_TO_CURRENT,
    Analytic,
    Frame,
    Named,
    NamedAnalytic,
    Node,
    Order,
    Project,
    label,
)
from whence.plan.types import BIGINT, DATE, INT


def frames_of(node: Analytic) -> tuple[Frame, ...]:
    """The different frames of a node's columns, each once, as rankings and offsets define them."""
    found: dict[Frame, None] = {}
    for column in node.columns:
        found[frame_of(column)] = None
    return tuple(found)


def frame_of(column: NamedAnalytic) -> Frame:
    """The frame of one column."""
    function = column.function
    if isinstance(function, AggregateCall) and function.function in functions.ANALYTIC:
        if function.function in ("lag", "lead"):
            offset = cast(int, cast(Literal, function.arguments[1]).value)
            offset = -offset if function.function == "lag" else offset
            return Frame("rows", offset, offset)
        return UP_TO_CURRENT
    return column.frame


@dataclass(frozen=True, slots=True)
class Ranked:
    """An analytic node's input with identity, partition, place and rank, under hidden names."""

    plan: Node
    keys: tuple[str, ...]
    partition: tuple[str, ...]
    row: str
    rank: str
    order: str | None


def rank_rows(node: Analytic, fresh: Fresh, keep_columns: bool = False) -> Ranked:
    """The rows below an analytic node, numbered; without their own columns unless kept."""
    below = identify(node.child, fresh)
    partition = fresh.names("g", len(node.partition))
    row, rank = fresh.name("n"), fresh.name("r")
    by_identity = tuple(Order(Column(k)) for k in below.keys)
    numbered: Node = Analytic(
        below.plan,
        node.partition,
        (*node.orders, *by_identity),
        (NamedAnalytic(row, AggregateCall("row_number"), UP_TO_CURRENT),),
    )
    if node.orders:
        numbered = Analytic(
            numbered,
            node.partition,
            node.orders,
            (NamedAnalytic(rank, AggregateCall("rank"), UP_TO_CURRENT),),
        )
    else:  # without an order all rows are peers
        numbered = keep(numbered, Named(rank, Literal(1, INT)))
    hidden = [Named(name, e) for name, e in zip(partition, node.partition, strict=True)]
    order = None
    if any(f.unit == "range" and ({f.start, f.end} - {None, 0}) for f in frames_of(node)):
        order = fresh.name("o")
        hidden.append(Named(order, node.orders[0].expression))
    if keep_columns:
        return Ranked(keep(numbered, *hidden), below.keys, partition, row, rank, order)
    own = (*below.keys, row, rank)
    plan = Project(numbered, (*(Named(n, Column(n)) for n in own), *hidden))
    return Ranked(plan, below.keys, partition, row, rank, order)


def in_frame(node: Analytic, row: Ranked, other: Ranked, frame: Frame) -> Expression:
    """True where ``other`` is in the frame of ``row``; both sides' columns are in scope."""
    tests: list[Expression] = [
        Call("<=>", (Column(a), Column(b))) for a, b in zip(row.partition, other.partition, strict=True)
    ]
    if frame.unit == "rows":
        here, there = Column(row.row), Column(other.row)
        if frame.start is not None:
            tests.append(Call(">=", (there, _plus(here, frame.start))))
        if frame.end is not None:
            tests.append(Call("<=", (there, _plus(here, frame.end))))
        return conjunction(tests)
    for bound, operator in ((frame.start, ">="), (frame.end, "<=")):
        if bound == 0:
            tests.append(Call(operator, (Column(other.rank), Column(row.rank))))
        elif bound is not None:
            tests.append(_within(node, row, other, operator, bound))
    return conjunction(tests)


def _within(node: Analytic, row: Ranked, other: Ranked, operator: str, bound: int) -> Expression:
    """A bound of a range frame: the order key at most so far away; nulls are only peers."""
    order = node.orders[0]
    given = type_of(order.expression, node.child.schema)
    if row.order is None or other.order is None:
        raise NotTraceable(
            f"the frame of {label(node)} cannot be traced",
            detail="a range frame with an offset needs its order key",
            hint="use a rows frame",
        )
    here: Expression = Column(row.order)
    there: Expression = Column(other.order)
    peers = Call("=", (Column(row.rank), Column(other.rank)))
    if given == DATE:
        distance: Expression = Cast(Call("datediff", (there, here)), BIGINT)
    else:
        distance = Call("-", (Cast(there, BIGINT), Cast(here, BIGINT)))
        if given == BIGINT:
            distance = Call("-", (there, here))
    if order.descending:
        distance = Call("negative", (distance,))
    near = Call(operator, (distance, Literal(bound, BIGINT)))
    null = Call("isnull", (here,))
    return Call("or", (Call("and", (null, peers)), Call("and", (Call("isnotnull", (there,)), near))))


def _plus(expression: Expression, offset: int) -> Expression:
    return expression if offset == 0 else Call("+", (expression, Literal(offset, INT)))
