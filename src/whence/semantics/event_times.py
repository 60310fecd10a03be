"""Which columns of a streaming plan are event times, and what a watermark says about each step.

An event time is a column that a watermark was put on and that came through unchanged: renamed, grouped
by, or turned into windows. Nothing is executed here; ``stateful`` drops and lets go of rows by it.

A step's watermark is the smallest of those that arrive at it. Only a join of two streams passes on another
one: rows that wait in it for a partner come out later than their time, so it takes off how long they wait.
How long that is, ``bounds`` reads from the join's condition, in the way Spark does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from whence.errors import PlanError
from whence.plan.expressions import (
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    Member,
    columns_of,
    conjuncts,
    is_deterministic,
)
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
    children,
    label,
    names,
    walk,
)
from whence.plan.types import INTEGERS, TIMESTAMP, TIMESTAMP_NTZ, StructType, is_numeric
from whence.semantics.operators import equal_parts
from whence.semantics.values import MICROSECOND, Row, micros


@dataclass(frozen=True, slots=True)
class EventTime:
    """The delay of the watermark, and what lies between a value and the moment it counts for.

    The moment of a window is its end: where a column holds only its start, ``after`` is the window's size.
    Both in microseconds.
    """

    delay: int
    after: int = 0


Times = dict[str, EventTime]


def event_times(plan: Node, streaming: Collection[Node]) -> dict[Node, Times]:
    """For each node the columns that are event times."""
    found: dict[Node, Times] = {}
    for node in walk(plan):
        below = [found[child] for child in children(node)]
        found[node] = _times(node, below) if node in streaming else {}
    return found


def _times(node: Node, below: list[Times]) -> Times:
    match node:
        case Source() | Values():
            return {}
        case Watermark():
            return below[0] | {node.column: EventTime(node.delay)}
        case Project():
            made = {c.name: _through(c.expression, below[0]) for c in node.columns}
            return {name: time for name, time in made.items() if time is not None}
        case Filter() | Generate() | Sort() | Limit() | Analytic() | Deduplicate() | Distinct():
            return below[0]
        case EventWindow():
            used = columns_of(node.time)
            if not used or not used <= set(below[0]):
                return below[0]
            delay = max(below[0][name].delay for name in used)
            return below[0] | {node.name: EventTime(delay, node.size if node.stamp == "start" else 0)}
        case Group():
            return {k.name: time for k, time in time_keys(node, below[0])}
        case Union():
            return below[0]
        case Join():
            return below[0] if node.kind in ("semi", "anti") else below[0] | below[1]
        case SetOperation():
            return below[0]
        case OpaqueStep():
            return {name: time for name, time in below[0].items() if name in node.carried}
        case _:
            assert_never(node)


def _through(expression: Expression, below: Times) -> EventTime | None:
    """The event time that an expression passes on: a column's own, or a window's as ``window_time`` gives it."""
    match expression:
        case Column(name):
            return below.get(name)
        case Call("-", (Member(Column(name), "end"), Literal(timedelta() as gap))) if gap == MICROSECOND:
            return EventTime(below[name].delay) if name in below else None
        case _:
            return None


def time_keys(node: Group, below: Times) -> list[tuple[Named, EventTime]]:
    """The keys of a group that are event times."""
    return [
        (k, below[k.expression.name])
        for k in node.keys
        if isinstance(k.expression, Column) and k.expression.name in below
    ]


def moment_in(node: Node, column: str, time: EventTime) -> Callable[[Row], int | None]:
    """The function from a node's rows to the moment a column counts for, in microseconds; None for null."""
    place = names(node).index(column)
    window = isinstance(node.schema[place].type, StructType)

    def moment(row: Row) -> int | None:
        value = row[place]
        if value is None:
            return None
        return micros(value[1] if window else value) + time.after

    return moment


def the_time(node: Node, child: Node, times: Times, keys: Collection[str]) -> str | None:
    """The event time by which a step's input is late: the one among its keys, else the only one."""
    candidates = [name for name in times if name in keys] or list(times)
    if len(candidates) > 1:
        raise PlanError(
            f"{label(node)} has more than one event time to go by",
            detail=f"its input {label(child)} has {', '.join(candidates)}",
            hint="keep one of them before this step",
        )
    return candidates[0] if candidates else None


@dataclass(frozen=True, slots=True)
class Bound:
    """When a join lets go of the rows of one side: once ``column`` has come as far as the limits allow.

    Each limit is what to add to the watermark, in microseconds, and whether a row at it still waits.
    """

    column: str
    time: EventTime
    limits: tuple[tuple[int, bool], ...]

    def at(self, watermark: int) -> int:
        """The time in milliseconds up to which rows are let go of."""
        return min(_whole_millis(watermark * 1000 + more) - waits for more, waits in self.limits)


def _whole_millis(microseconds: int) -> int:
    return abs(microseconds) // 1000 * (1 if microseconds >= 0 else -1)


def bounds(node: Join, left: Times, right: Times) -> tuple[Bound | None, Bound | None]:
    """When a join of two streams lets go of its left and its right rows; None where it never does.

    Where it equates an event time, both sides go by that; else by the inequalities between event times.
    """
    parts = conjuncts(node.condition) if node.condition is not None else []
    for part in parts:
        match part:
            case Call("=", (Column(a), Column(b))):
                one, two = (a, b) if a in names(node.left) else (b, a)
                if one in names(node.left) and two in names(node.right) and (one in left or two in right):
                    time = left[one] if one in left else right[two]
                    return Bound(one, time, ((0, False),)), Bound(two, time, ((0, False),))
    return (
        _value_bound(parts, node.left, left, node.right, right),
        _value_bound(parts, node.right, right, node.left, left),
    )


def _value_bound(parts: list[Expression], side: Node, own: Times, other: Node, theirs: Times) -> Bound | None:
    limits = [found for part in parts if (found := _limit(part, set(names(side)), set(names(other)), theirs))]
    if not own or not limits:
        return None
    column = next(iter(own))
    return Bound(column, own[column], tuple(limits))


def _limit(part: Expression, side: set[str], other: set[str], theirs: Times) -> tuple[int, bool] | None:
    """From ``their time + c < own time``: rows whose own time is at most watermark + c match nothing to come."""
    match part:
        case Call("<" | "<=" as operator, (small, large)) | Call(">" | ">=" as operator, (large, small)):
            pass
        case _:
            return None
    below, above = _terms(small), _terms(large)
    if below is None or above is None:
        return None
    columns = {name: below[0].get(name, 0) - above[0].get(name, 0) for name in {*below[0], *above[0]}}
    mine = [name for name in columns if name in side]
    others = [name for name in columns if name in other]
    if len(mine) != 1 or len(others) != 1 or columns[mine[0]] != -1 or columns[others[0]] != 1:
        return None
    if others[0] not in theirs:
        return None
    return below[1] - above[1], operator in ("<=", ">=")


def _terms(expression: Expression) -> tuple[dict[str, int], int] | None:
    """A sum of columns and constants: how often each column is in it, and the constants in microseconds."""
    match expression:
        case Column(name):
            return {name: 1}, 0
        case Literal(timedelta() as gap):
            return {}, gap // MICROSECOND
        case Literal(int() | float() as seconds) if not isinstance(seconds, bool):
            return {}, round(seconds * 1_000_000)
        case Cast(child, type) if is_numeric(type) or type in (TIMESTAMP, TIMESTAMP_NTZ, *INTEGERS):
            return _terms(child)
        case Call("+" | "-" as operator, (one, two)):
            first, second = _terms(one), _terms(two)
            if first is None or second is None:
                return None
            sign = 1 if operator == "+" else -1
            columns = dict(first[0])
            for name, count in second[0].items():
                columns[name] = columns.get(name, 0) + sign * count
            return columns, first[1] + sign * second[1]
        case _:
            return None


def one_sided(node: Join, side: Node) -> list[Expression]:
    """The parts of a join's condition that one side decides alone."""
    own = set(names(side))
    parts = conjuncts(node.condition) if node.condition is not None else []
    return [part for part in parts if columns_of(part) <= own and is_deterministic(part)]


def equated(node: Join) -> set[str]:
    """The columns that a join's condition equates with one of the other side."""
    pairs = equal_parts(node)
    return {e.name for first, second, _ in pairs for e in (first, second) if isinstance(e, Column)}


def passed_on(
    plan: Node, times: dict[Node, Times], streaming: Collection[Node], watermark: int
) -> dict[Node, int | None]:
    """For each node the watermark of its results, in milliseconds; None where it has none."""
    found: dict[Node, int | None] = {}
    for node in walk(plan):
        arriving = arriving_at(node, found)
        found[node] = arriving
        if isinstance(node, Watermark) and node in streaming:
            found[node] = watermark
        elif isinstance(node, Join) and node.left in streaming and node.right in streaming and arriving:
            waiting = [b.at(arriving) for b in bounds(node, times[node.left], times[node.right]) if b is not None]
            found[node] = min(arriving, *waiting) if waiting else arriving
    return found


def arriving_at(node: Node, found: dict[Node, int | None]) -> int | None:
    """The smallest of the watermarks of a node's inputs."""
    return min((mark for child in children(node) if (mark := found[child]) is not None), default=None)
