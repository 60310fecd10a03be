"""Hypothesis strategies for plans and tables: small, valid, and rich in nulls, ties and empties.

``cases()`` draws a plan and tables it can be evaluated over. Plans nest every kind of node over
one to three sources of at most a handful of rows, with few different values so that keys meet.
``Menu`` says which kinds may be drawn, so that a test can leave out what its subject does not do.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from whence.plan.expressions import AggregateCall, Call, Case, Cast, Column, Expression, Literal
from whence.plan.nodes import (
    UP_TO_CURRENT,
    WHOLE_PARTITION,
    Analytic,
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
    Order,
    Project,
    SetOperation,
    Sort,
    Source,
    Union,
    Watermark,
    names,
    sources,
)
from whence.plan.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    ArrayType,
    DataType,
    Field,
    Schema,
)

BASE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NUMBERS = ArrayType(BIGINT)

VALUES: dict[DataType, SearchStrategy[object]] = {
    BIGINT: st.integers(-1, 3),
    INT: st.integers(0, 2),
    STRING: st.sampled_from(["", "a", "b", "ä'"]),
    BOOLEAN: st.booleans(),
    DOUBLE: st.sampled_from([0.0, -0.0, 1.5, -2.0, float("nan")]),
    TIMESTAMP: st.integers(0, 12).map(lambda n: BASE + dt.timedelta(seconds=10 * n)),
    NUMBERS: st.lists(st.integers(0, 2), max_size=3).map(tuple),
}
"""The values drawn for each type; null is added by ``value_of``."""


def value_of(type: DataType) -> SearchStrategy[object]:
    """Values of a type, sometimes null."""
    return st.one_of(VALUES[type], VALUES[type], VALUES[type], st.none())


@dataclass(frozen=True, slots=True)
class Menu:
    """What may be drawn."""

    kinds: tuple[str, ...] = (
        "project", "filter", "generate", "union", "join", "semi", "anti", "outer", "window",
        "group", "distinct", "deduplicate", "intersect", "except", "sort", "limit", "analytic",
        "watermark",
    )  # fmt: skip
    depth: int = 4
    most_rows: int = 5
    types: tuple[DataType, ...] = (BIGINT, INT, STRING, BOOLEAN, DOUBLE, TIMESTAMP, NUMBERS)
    # Size and slide in seconds; Spark itself has no windows with gaps between them.
    windows: tuple[tuple[int, int], ...] = ((20, 20), (30, 10), (40, 20), (10, 20))

    def without(self, *kinds: str) -> Menu:
        """The menu less some kinds."""
        return replace(self, kinds=tuple(k for k in self.kinds if k not in kinds))


EVERYTHING = Menu()


@dataclass(frozen=True, slots=True)
class PlanCase:
    """A plan and the rows of its sources."""

    plan: Node
    rows: Mapping[str, tuple[tuple[object, ...], ...]]

    @property
    def schemas(self) -> dict[str, Schema]:
        """The columns of each source."""
        return {name: source.fields for name, source in sources(self.plan).items()}


@st.composite
def cases(draw: DrawFn, menu: Menu = EVERYTHING) -> PlanCase:
    """A plan over tables, both drawn."""
    count = draw(st.integers(1, 3))
    tables: list[Source] = []
    rows: dict[str, tuple[tuple[object, ...], ...]] = {}
    for index in range(count):
        types = draw(st.lists(st.sampled_from(menu.types), min_size=1, max_size=4))
        if index == 0 and BIGINT not in types:
            types[0] = BIGINT
        fields = tuple(Field(f"{'abc'[index]}{i}", type) for i, type in enumerate(types))
        name = f"table_{'abc'[index]}"
        tables.append(Source(name, fields, step=name))
        row = st.tuples(*(value_of(t) for t in types))
        # Hypothesis likes short lists, and over empty tables every law holds.
        least = draw(st.sampled_from([menu.most_rows, menu.most_rows - 2, 1, 0]))
        rows[name] = tuple(draw(st.lists(row, min_size=max(least, 0), max_size=menu.most_rows)))
    plan = _Drawer(draw, menu, tables).plan(draw(st.sampled_from([*range(menu.depth, 0, -1)])))
    used = sources(plan)
    return PlanCase(plan, {name: rows[name] for name in used})


class _Drawer:
    """Draws nodes top-down; every column it makes has a name of its own."""

    def __init__(self, draw: DrawFn, menu: Menu, tables: list[Source]) -> None:
        self.draw = draw
        self.menu = menu
        self.tables = tables
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"x{self.count}"

    def source(self) -> Node:
        """A source under column names of this occurrence."""
        table = self.draw(st.sampled_from(self.tables))
        return Project(table, tuple(Named(self.name(), Column(f.name)) for f in table.fields))

    def plan(self, depth: int) -> Node:
        if depth == 0:
            return self.source()
        kind = self.draw(st.sampled_from(self.menu.kinds))
        makers: dict[str, Callable[[int], Node]] = {
            "project": self.project,
            "filter": lambda d: self.filter(self.plan(d)),
            "generate": self.generate,
            "union": self.union,
            "join": lambda d: self.join(d, "inner"),
            "semi": lambda d: self.join(d, "semi"),
            "anti": lambda d: self.join(d, "anti"),
            "outer": lambda d: self.join(d, self.draw(st.sampled_from(["left", "right", "full"]))),
            "window": self.window,
            "group": self.group,
            "distinct": lambda d: Distinct(self.plan(d)),
            "deduplicate": self.deduplicate,
            "intersect": lambda d: self.set_operation(d, "intersect"),
            "except": lambda d: self.set_operation(d, "except"),
            "sort": lambda d: self.sort(self.plan(d)),
            "limit": self.limit,
            "analytic": self.analytic,
            "watermark": self.watermark,
        }
        return makers[kind](depth - 1)

    def columns(self, node: Node, *types: DataType) -> list[str]:
        return [f.name for f in node.schema if not types or f.type in types]

    # expressions

    def value(self, node: Node, type: DataType, depth: int = 2) -> Expression:
        """An expression of a type over a node's columns."""
        options: list[str] = ["literal"]
        if self.columns(node, type):
            options += ["column"] * 3
        if depth > 0:
            options.append("coalesce")
            if type in (BIGINT, BOOLEAN, STRING):
                options.append("case")
            if type == BIGINT:
                options += ["arithmetic", "length", "widen"]
            if type == BOOLEAN:
                options += ["condition"] * 2
            if type == STRING:
                options.append("text")
        match self.draw(st.sampled_from(options)):
            case "column":
                return Column(self.draw(st.sampled_from(self.columns(node, type))))
            case "coalesce":
                pair = (self.value(node, type, depth - 1), self.value(node, type, depth - 1))
                return Call("coalesce", pair)
            case "case":
                when = self.condition(node, depth - 1)
                then = self.value(node, type, depth - 1)
                return Case(((when, then),), self.value(node, type, depth - 1))
            case "arithmetic":
                operator = self.draw(st.sampled_from(["+", "-", "*"]))
                # A small factor keeps nested products far from overflow.
                small = Literal(self.draw(st.integers(-2, 3)), BIGINT)
                return Call(operator, (self.value(node, BIGINT, depth - 1), small))
            case "length":
                return Cast(Call("length", (self.value(node, STRING, depth - 1),)), BIGINT)
            case "widen":
                return Cast(self.value(node, INT, depth - 1), BIGINT)
            case "condition":
                return self.condition(node, depth - 1)
            case "text":
                function = self.draw(st.sampled_from(["upper", "concat"]))
                one = self.value(node, STRING, depth - 1)
                two = Literal("b", STRING)
                return Call(function, (one,) if function == "upper" else (one, two))
            case _:
                return Literal(self.draw(value_of(type)), type) if type != NUMBERS else Cast(Call("array", ()), NUMBERS)

    def condition(self, node: Node, depth: int = 2) -> Expression:
        """A boolean expression over a node's columns."""
        kind = self.draw(st.sampled_from(["compare", "compare", "null", "in", "and", "or", "not"]))
        if kind in ("and", "or", "not") and depth > 0:
            one = self.condition(node, depth - 1)
            return Call(kind, (one,) if kind == "not" else (one, self.condition(node, depth - 1)))
        type = self.draw(st.sampled_from([f.type for f in node.schema if f.type in VALUES] or [INT]))
        if type == NUMBERS:
            return Call("isnull", (self.value(node, type, 0),))
        left = self.value(node, type, min(depth, 1))
        if kind == "null":
            return Call(self.draw(st.sampled_from(["isnull", "isnotnull"])), (left,))
        if kind == "in":
            return Call("in", (left, *(Literal(self.draw(value_of(type)), type) for _ in range(2))))
        operator = self.draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"]))
        return Call(operator, (left, self.value(node, type, 0)))

    # nodes

    def project(self, depth: int) -> Node:
        child = self.plan(depth)
        kept = self.draw(st.lists(st.sampled_from(names(child)), max_size=3, unique=True))
        made = [Named(self.name(), Column(c)) for c in kept]
        for _ in range(self.draw(st.integers(0 if made else 1, 2))):
            type = self.draw(st.sampled_from([BIGINT, STRING, BOOLEAN]))
            made.append(Named(self.name(), self.value(child, type)))
        return Project(child, tuple(made))

    def filter(self, child: Node) -> Node:
        return Filter(child, self.condition(child))

    def generate(self, depth: int) -> Node:
        child = self.plan(depth)
        position = self.name() if self.draw(st.booleans()) else None
        array: Expression
        if self.draw(st.booleans()) and self.columns(child, NUMBERS):
            array = Column(self.draw(st.sampled_from(self.columns(child, NUMBERS))))
        else:
            array = Call("array", (self.value(child, BIGINT, 1), self.value(child, BIGINT, 1)))
        made = (Field(self.name(), BIGINT),)
        return Generate(child, array, made, position, self.draw(st.booleans()))

    def like(self, node: Node, depth: int) -> Node:
        """Another plan with the types of a node's columns."""
        other = self.plan(depth)
        columns = tuple(Named(self.name(), self.value(other, f.type, 0)) for f in node.schema)
        return Project(other, columns)

    def simple(self, node: Node) -> Node:
        """The node without columns of types that no value can be drawn for."""
        kept = [f for f in node.schema if f.type in VALUES]
        if len(kept) == len(node.schema):
            return node
        if not kept:
            return Project(node, (Named(self.name(), Literal(1, BIGINT)),))
        return Project(node, tuple(Named(f.name, Column(f.name)) for f in kept))

    def union(self, depth: int) -> Node:
        first = self.simple(self.plan(depth))
        return Union((first, *(self.like(first, depth) for _ in range(self.draw(st.integers(1, 2))))))

    def join(self, depth: int, kind: JoinKind) -> Node:
        left, right = self.plan(depth), self.plan(min(depth, 1))
        both = Join(left, right, "inner")
        tests: list[Expression] = []
        for type in (BIGINT, STRING, INT, TIMESTAMP):
            mine, theirs = self.columns(left, type), self.columns(right, type)
            if mine and theirs and (not tests or self.draw(st.booleans())):
                pair = (
                    Column(self.draw(st.sampled_from(mine))),
                    Column(self.draw(st.sampled_from(theirs))),
                )
                tests.append(Call(self.draw(st.sampled_from(["=", "=", "<=>"])), pair))
        if self.draw(st.integers(0, 3)) == 0:
            tests.append(self.condition(both, 1))
        condition: Expression | None = None
        for test in tests:
            condition = test if condition is None else Call("and", (condition, test))
        return Join(left, right, kind, condition)

    def window(self, depth: int) -> Node:
        child = self.with_time(self.plan(depth))
        size, slide = self.draw(st.sampled_from(self.menu.windows))
        time = Column(self.draw(st.sampled_from(self.columns(child, TIMESTAMP))))
        return EventWindow(child, self.name(), time, size * 1_000_000, slide * 1_000_000)

    def with_time(self, child: Node) -> Node:
        if self.columns(child, TIMESTAMP):
            return child
        kept = tuple(Named(n, Column(n)) for n in names(child))
        time = Literal(self.draw(VALUES[TIMESTAMP]), TIMESTAMP)
        return Project(child, (*kept, Named(self.name(), time)))

    def keys(self, child: Node) -> list[str]:
        return self.draw(st.lists(st.sampled_from(names(child)), max_size=2, unique=True))

    def group(self, depth: int) -> Node:
        child = self.plan(depth)
        keys = [Named(self.name(), Column(k)) for k in self.keys(child)]
        if self.draw(st.integers(0, 4)) == 0:
            keys.append(Named(self.name(), self.value(child, BIGINT, 1)))
        made = [NamedAggregate(self.name(), AggregateCall("count"))]
        for _ in range(self.draw(st.integers(0, 2))):
            made.append(NamedAggregate(self.name(), self.aggregate(child)))
        return Group(child, tuple(keys), tuple(made))

    def aggregate(self, child: Node) -> AggregateCall:
        function = self.draw(st.sampled_from(["count", "sum", "min", "max", "sum"]))
        type = BIGINT if function == "sum" else self.draw(st.sampled_from([BIGINT, STRING, INT]))
        value = self.value(child, type, 1)
        filter = self.condition(child, 0) if self.draw(st.integers(0, 4)) == 0 else None
        distinct = self.draw(st.integers(0, 4)) == 0
        return AggregateCall(function, (value,), distinct, filter)

    def deduplicate(self, depth: int) -> Node:
        child = self.plan(depth)
        keys = self.draw(st.lists(st.sampled_from(names(child)), min_size=1, unique=True))
        return Deduplicate(child, tuple(keys))

    def set_operation(self, depth: int, kind: str) -> Node:
        left = self.simple(self.plan(depth))
        right = self.like(left, depth)
        every = self.draw(st.booleans())
        return SetOperation(left, right, "intersect" if kind == "intersect" else "except", every)

    def orders(self, child: Node) -> tuple[Order, ...]:
        """An order in which only equal rows tie."""
        columns = self.draw(st.permutations(names(child)))
        return tuple(Order(Column(c), self.draw(st.booleans()), self.draw(st.booleans())) for c in columns)

    def sort(self, child: Node) -> Node:
        return Sort(child, self.orders(child))

    def limit(self, depth: int) -> Node:
        return Limit(self.sort(self.plan(depth)), self.draw(st.integers(0, 4)), self.draw(st.integers(0, 1)))

    def analytic(self, depth: int) -> Node:
        """Frames by rank anywhere; frames by place only where equal rows are met in id order."""
        by_place = self.draw(st.booleans())
        child = self.filter(self.source()) if by_place else self.plan(depth)
        partition = tuple(Column(c) for c in self.keys(child))
        if by_place:
            function = self.draw(st.sampled_from(["row_number", "lag", "count", "sum"]))
            orders = self.orders(child)
        else:
            function = self.draw(st.sampled_from(["rank", "dense_rank", "count", "sum"]))
            some = self.draw(st.sampled_from(names(child)))
            orders = (Order(Column(some), self.draw(st.booleans()), self.draw(st.booleans())),)
        frame = UP_TO_CURRENT
        if function in ("count", "sum"):
            ends = st.sampled_from([(-1, 0), (0, 1), (None, 0), (0, None), (-2, -1), (-1, 1)])
            frame = (
                Frame("rows", *self.draw(ends))
                if by_place
                else self.draw(st.sampled_from([UP_TO_CURRENT, WHOLE_PARTITION, Frame("range", 0, None)]))
            )
        call = AggregateCall(function)
        if function == "sum":
            call = AggregateCall("sum", (self.value(child, BIGINT, 1),))
        if function == "lag":
            offset = Literal(self.draw(st.integers(-1, 2)), INT)
            call = AggregateCall("lag", (self.value(child, BIGINT, 0), offset))
        return Analytic(child, partition, orders, (NamedAnalytic(self.name(), call, frame),))

    def watermark(self, depth: int) -> Node:
        child = self.with_time(self.plan(depth))
        return Watermark(child, self.columns(child, TIMESTAMP)[0], 10_000_000)
