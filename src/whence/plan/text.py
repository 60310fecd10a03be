"""The text form of a plan: one line a node, children before parents. Printing and parsing.

    whence plan 1
    reports = source reports (car int, at timestamp, speed double, pos int)
    stopped = filter reports where (speed = 0.0D)
    result stopped

A line's name is the node's step name, made unique. ``parse_plan(print_plan(p))`` is the same
plan: the same operators, sharing and step names. ``fingerprint`` is blind to step names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import TypeVar, assert_never, cast

from whence.errors import NewerFormat
from whence.plan.expression_text import (
    print_aggregate,
    print_expression,
    print_name,
    read_aggregate,
    read_expression,
    read_type,
)
from whence.plan.expressions import Expression, Literal
from whence.plan.literals import print_literal
from whence.plan.nodes import (
    Analytic,
    Closed,
    Deduplicate,
    Distinct,
    EventWindow,
    Filter,
    Frame,
    Generate,
    Group,
    Join,
    JoinKind,
    Limit,
    Named,
    NamedAggregate,
    NamedAnalytic,
    Node,
    OpaqueKind,
    OpaqueStep,
    Order,
    Project,
    SetOperation,
    Sort,
    Source,
    Stamp,
    Union,
    Values,
    Watermark,
    kind_of,
    walk,
)
from whence.plan.tokens import Cursor
from whence.plan.types import STRING, Field, Schema

TEXT_VERSION = 1
_NUMBERED = re.compile(r"(.*)~\d+", re.DOTALL)
"""A step's name and the number that makes its line's name unique."""
_T = TypeVar("_T")


def print_plan(plan: Node) -> str:
    """The text of a plan."""
    return _print(plan, _line_names(plan))


def fingerprint(plan: Node) -> str:
    """A short digest of what a plan computes, the same for plans that differ in step names only."""
    numbered = {node: f"n{i}" for i, node in enumerate(walk(plan))}
    text = _print(plan, numbered, with_steps=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _line_names(plan: Node) -> dict[Node, str]:
    taken: set[str] = set()
    names: dict[Node, str] = {}
    for node in walk(plan):
        base = node.step or kind_of(node)
        # A step that itself looks numbered gets a number, so that taking one off gives it back.
        name, count = (f"{base}~1" if _NUMBERED.fullmatch(base) else base), 1
        while name in taken:
            count += 1
            name = f"{base}~{count}"
        taken.add(name)
        names[node] = name
    return names


def _print(plan: Node, names: dict[Node, str], with_steps: bool = True) -> str:
    lines = [f"whence plan {TEXT_VERSION}"]
    for node in walk(plan):
        unnamed = " unnamed" if with_steps and not node.step else ""
        lines.append(f"{print_name(names[node])} ={unnamed} {_print_node(node, names)}")
    lines.append(f"result {print_name(names[plan])}")
    return "\n".join(lines) + "\n"


def _schema(fields: Schema) -> str:
    return "(" + ", ".join(f"{print_name(f.name)} {f.type}" for f in fields) + ")"


def _list(names: tuple[str, ...]) -> str:
    return "(" + ", ".join(print_name(n) for n in names) + ")"


def _orders(orders: tuple[Order, ...]) -> str:
    return ", ".join(
        f"{print_expression(o.expression)} {'desc' if o.descending else 'asc'} "
        f"nulls {'first' if o.nulls_first else 'last'}"
        for o in orders
    )


def _bound(bound: int | None) -> str:
    return "*" if bound is None else str(bound)


def _print_node(node: Node, names: dict[Node, str]) -> str:
    def of(child: Node) -> str:
        return print_name(names[child])

    match node:
        case Source():
            return f"source {print_name(node.name)} {_schema(node.fields)}"
        case Values():
            rows = ", ".join(
                "(" + ", ".join(print_literal(Literal(v, f.type)) for v, f in zip(row, node.fields, strict=True)) + ")"
                for row in node.rows
            )
            return f"values {_schema(node.fields)} rows ({rows})"
        case Project():
            items = ", ".join(f"{print_expression(c.expression)} as {print_name(c.name)}" for c in node.columns)
            return f"project {of(node.child)} ({items})"
        case Filter():
            return f"filter {of(node.child)} where {print_expression(node.condition)}"
        case Generate():
            words = ("outer " if node.outer else "") + ("inline " if node.inline else "")
            position = f" position {print_name(node.position)}" if node.position else ""
            return (
                f"generate {of(node.child)} {words}from {print_expression(node.expression)} "
                f"as {_schema(node.columns)}{position}"
            )
        case Union():
            return "union (" + ", ".join(of(c) for c in node.children) + ")"
        case Join():
            on = "" if node.condition is None else f" on {print_expression(node.condition)}"
            return f"join {node.kind} ({of(node.left)}, {of(node.right)}){on}"
        case EventWindow():
            return (
                f"window {of(node.child)} as {print_name(node.name)} "
                f"over {print_expression(node.time)} size {node.size} slide {node.slide} "
                f"offset {node.offset} closed {node.closed} stamp {node.stamp}"
            )
        case Group():
            keys = ", ".join(f"{print_expression(k.expression)} as {print_name(k.name)}" for k in node.keys)
            made = ", ".join(f"{print_aggregate(a.aggregate)} as {print_name(a.name)}" for a in node.aggregates)
            return f"group {of(node.child)} by ({keys}) aggregate ({made})"
        case Distinct():
            return f"distinct {of(node.child)}"
        case Deduplicate():
            within = " within watermark" if node.within_watermark else ""
            return f"deduplicate {of(node.child)} by {_list(node.keys)}{within}"
        case SetOperation():
            every = " all" if node.all else ""
            return f"{node.kind}{every} ({of(node.left)}, {of(node.right)})"
        case Sort():
            return f"sort {of(node.child)} by ({_orders(node.orders)})"
        case Limit():
            count = "all" if node.count is None else str(node.count)
            return f"limit {of(node.child)} to {count} offset {node.offset}"
        case Analytic():
            partition = ", ".join(print_expression(e) for e in node.partition)
            columns = ", ".join(
                f"{print_aggregate(c.function)} {c.frame.unit} {_bound(c.frame.start)} to "
                f"{_bound(c.frame.end)} as {print_name(c.name)}"
                for c in node.columns
            )
            return (
                f"analytic {of(node.child)} partition ({partition}) order ({_orders(node.orders)}) compute ({columns})"
            )
        case Watermark():
            return f"watermark {of(node.child)} on {print_name(node.column)} delay {node.delay}"
        case OpaqueStep():
            sure = "" if node.deterministic else " random"
            return (
                f"opaque {of(node.child)} {node.kind}{sure} key "
                f"{print_literal(Literal(node.key, STRING))} as {_schema(node.fields)} "
                f"keys {_list(node.keys)} carried {_list(node.carried)}"
            )
        case _:
            assert_never(node)


def parse_plan(text: str) -> Node:
    """The plan a text writes; a ParseError or PlanError says what does not fit, and where."""
    return _PlanReader(Cursor(text)).plan()


class _PlanReader:
    """Reads the lines of a plan; nodes are known by the names of their lines."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.nodes: dict[str, Node] = {}

    def plan(self) -> Node:
        cursor = self.cursor
        cursor.need_word("whence")
        cursor.need_word("plan")
        version = cursor.need_integer("the version of the text form")
        if version != TEXT_VERSION:
            raise NewerFormat(
                f"plan text of version {version} cannot be read",
                detail=f"this whence reads version {TEXT_VERSION}",
                hint="upgrade whence: pip install -U whence",
            )
        # A line named result is told from the last line by the "=" after its name.
        while not (cursor.at_word("result") and cursor.look().text != "="):
            name = cursor.need_name("a line: name = node")
            if name in self.nodes:
                cursor.fail(f"a name that is not taken (line {name!r} exists)")
            cursor.need_symbol("=")
            unnamed = cursor.take_word("unnamed") is not None
            numbered = _NUMBERED.fullmatch(name)
            step = "" if unnamed else numbered.group(1) if numbered else name
            self.nodes[name] = self.node(step)
        cursor.advance()
        result = self.child()
        cursor.need_end()
        return result

    def child(self) -> Node:
        cursor = self.cursor
        if cursor.token.kind not in ("word", "name") or cursor.token.text not in self.nodes:
            cursor.fail("the name of a line above: " + (", ".join(self.nodes) or "there is none"))
        return self.nodes[cursor.advance().text]

    def parenthesized(self, read: Callable[[], _T]) -> tuple[_T, ...]:
        cursor = self.cursor
        cursor.need_symbol("(")
        items: list[_T] = []
        while not cursor.take_symbol(")"):
            if items:
                cursor.need_symbol(",")
            items.append(read())
        return tuple(items)

    def expression(self) -> Expression:
        return read_expression(self.cursor, opaque=True)

    def name(self) -> str:
        return self.cursor.need_name("a column's name")

    def field(self) -> Field:
        return Field(self.name(), read_type(self.cursor))

    def named(self) -> Named:
        expression = self.expression()
        self.cursor.need_word("as")
        return Named(self.name(), expression)

    def named_aggregate(self) -> NamedAggregate:
        aggregate = read_aggregate(self.cursor, opaque=True)
        self.cursor.need_word("as")
        return NamedAggregate(self.name(), aggregate)

    def named_analytic(self) -> NamedAnalytic:
        cursor = self.cursor
        function = read_aggregate(cursor, opaque=True)
        unit = cursor.need_word("rows", "range")
        start = self.bound()
        cursor.need_word("to")
        end = self.bound()
        cursor.need_word("as")
        frame = Frame("rows" if unit == "rows" else "range", start, end)
        return NamedAnalytic(self.name(), function, frame)

    def bound(self) -> int | None:
        return None if self.cursor.take_symbol("*") else self.cursor.need_integer("a bound")

    def order(self) -> Order:
        cursor = self.cursor
        expression = self.expression()
        descending = cursor.need_word("asc", "desc") == "desc"
        cursor.need_word("nulls")
        return Order(expression, descending, cursor.need_word("first", "last") == "first")

    def value(self) -> object:
        literal = self.expression()
        if not isinstance(literal, Literal):
            self.cursor.fail("a constant")
        return literal.value

    def node(self, step: str) -> Node:
        cursor = self.cursor
        kinds = (
            "source", "values", "project", "filter", "generate", "union", "join", "window",
            "group", "distinct", "deduplicate", "intersect", "except", "sort", "limit",
            "analytic", "watermark", "opaque",
        )  # fmt: skip
        match cursor.need_word(*kinds):
            case "source":
                name = cursor.need_name("the source's name")
                return Source(name, self.parenthesized(self.field), step=step)
            case "values":
                fields = self.parenthesized(self.field)
                cursor.need_word("rows")
                rows = self.parenthesized(lambda: self.parenthesized(self.value))
                return Values(fields, rows, step=step)
            case "project":
                return Project(self.child(), self.parenthesized(self.named), step=step)
            case "filter":
                child = self.child()
                cursor.need_word("where")
                return Filter(child, self.expression(), step=step)
            case "generate":
                return self.generate(step)
            case "union":
                return Union(self.parenthesized(self.child), step=step)
            case "join":
                kind = cast(JoinKind, cursor.need_name("a kind of join"))
                left, right = self.pair()
                on = self.expression() if cursor.take_word("on") else None
                return Join(left, right, kind, on, step=step)
            case "window":
                return self.window(step)
            case "group":
                child = self.child()
                cursor.need_word("by")
                keys = self.parenthesized(self.named)
                cursor.need_word("aggregate")
                return Group(child, keys, self.parenthesized(self.named_aggregate), step=step)
            case "distinct":
                return Distinct(self.child(), step=step)
            case "deduplicate":
                child = self.child()
                cursor.need_word("by")
                keys_by_name = self.parenthesized(self.name)
                within = cursor.take_word("within") is not None
                if within:
                    cursor.need_word("watermark")
                return Deduplicate(child, keys_by_name, within, step=step)
            case "intersect":
                every = cursor.take_word("all") is not None
                left, right = self.pair()
                return SetOperation(left, right, "intersect", every, step=step)
            case "except":
                every = cursor.take_word("all") is not None
                left, right = self.pair()
                return SetOperation(left, right, "except", every, step=step)
            case "sort":
                child = self.child()
                cursor.need_word("by")
                return Sort(child, self.parenthesized(self.order), step=step)
            case "limit":
                child = self.child()
                cursor.need_word("to")
                count = None if cursor.take_word("all") else cursor.need_integer("a count")
                cursor.need_word("offset")
                return Limit(child, count, cursor.need_integer("an offset"), step=step)
            case "analytic":
                child = self.child()
                cursor.need_word("partition")
                partition = self.parenthesized(self.expression)
                cursor.need_word("order")
                orders = self.parenthesized(self.order)
                cursor.need_word("compute")
                columns = self.parenthesized(self.named_analytic)
                return Analytic(child, partition, orders, columns, step=step)
            case "watermark":
                child = self.child()
                cursor.need_word("on")
                column = self.name()
                cursor.need_word("delay")
                return Watermark(child, column, cursor.need_integer("a delay"), step=step)
            case _:
                return self.opaque_step(step)

    def pair(self) -> tuple[Node, Node]:
        both = self.parenthesized(self.child)
        if len(both) != 2:
            self.cursor.fail(f"two inputs, not {len(both)}, before")
        return both[0], both[1]

    def generate(self, step: str) -> Node:
        cursor = self.cursor
        child = self.child()
        outer = cursor.take_word("outer") is not None
        inline = cursor.take_word("inline") is not None
        cursor.need_word("from")
        expression = self.expression()
        cursor.need_word("as")
        columns = self.parenthesized(self.field)
        position = self.name() if cursor.take_word("position") else None
        return Generate(child, expression, columns, position, outer, inline, step=step)

    def window(self, step: str) -> Node:
        cursor = self.cursor
        child = self.child()
        cursor.need_word("as")
        name = self.name()
        cursor.need_word("over")
        time = self.expression()
        numbers = []
        for word in ("size", "slide", "offset"):
            cursor.need_word(word)
            numbers.append(cursor.need_integer("microseconds"))
        cursor.need_word("closed")
        closed = cast(Closed, cursor.need_name("left, right or both"))
        cursor.need_word("stamp")
        stamp = cast(Stamp, cursor.need_name("window, start or end"))
        size, slide, offset = numbers
        return EventWindow(child, name, time, size, slide, offset, closed, stamp, step=step)

    def opaque_step(self, step: str) -> Node:
        cursor = self.cursor
        child = self.child()
        kind = cast(OpaqueKind, cursor.need_name("a kind"))
        deterministic = cursor.take_word("random") is None
        cursor.need_word("key")
        key = cursor.need_string()
        cursor.need_word("as")
        fields = self.parenthesized(self.field)
        cursor.need_word("keys")
        keys = self.parenthesized(self.name)
        cursor.need_word("carried")
        carried = self.parenthesized(self.name)
        return OpaqueStep(child, kind, key, fields, keys, carried, deterministic, step=step)
