"""Build plans by hand, fluently. Every call returns a new flow; a flow wraps one node.

    reports = source("reports", car="int", at="timestamp", speed="double", pos="int")
    alerts = (
        reports.where("speed = 0")
        .with_watermark("at", "30 seconds")
        .window("at", "120 seconds", "30 seconds")
        .group("window", "car", n="count(*)", lo="min(pos)", hi="max(pos)")
        .where("n = 4 and lo = hi").named("alerts")
    )

Texts are parsed and fitted to the schema (``resolve``); errors come where the mistake is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from whence.errors import PlanError
from whence.plan import functions
from whence.plan.expression_text import parse_aggregate, parse_expression
from whence.plan.expressions import Column, Expression, type_of
from whence.plan.literals import parse_duration
from whence.plan.nodes import (
    UP_TO_CURRENT,
    WHOLE_PARTITION,
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
    Watermark,
    names,
)
from whence.plan.resolve import find_column, resolve, resolve_aggregate, resolve_condition
from whence.plan.types import ArrayType, Field, MapType, Schema, StructType, parse_type


def source(name: str, /, **columns: str) -> Flow:
    """The rows of a named table; columns are given as ``name="type"``.

    >>> source("cars", car="int", maker="string").columns
    ('car', 'maker')
    """
    return Flow(Source(name, _fields(columns), step=name))


def _fields(columns: dict[str, str]) -> Schema:
    return tuple(Field(name, parse_type(type)) for name, type in columns.items())


@dataclass(frozen=True, slots=True)
class Flow:
    """A plan under construction: a node and the calls that put another on top of it."""

    plan: Node

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns here."""
        return names(self.plan)

    def named(self, step: str) -> Flow:
        """The same, the last step under a name of its own."""
        return Flow(replace(self.plan, step=step))

    def select(self, *columns: str, **computed: str) -> Flow:
        """Keep columns by name and compute others: ``.select("car", double="2 * speed")``."""
        schema = self.plan.schema
        kept = [Named(c, Column(c)) for c in (find_column(n, schema) for n in columns)]
        made = [Named(n, self._expression(text)) for n, text in computed.items()]
        return Flow(Project(self.plan, (*kept, *made)))

    def with_columns(self, **computed: str) -> Flow:
        """All columns, and computed ones beside or in place of them."""
        made = {n: self._expression(text) for n, text in computed.items()}
        kept = [Named(n, made.pop(n, Column(n))) for n in self.columns]
        return Flow(Project(self.plan, (*kept, *(Named(n, e) for n, e in made.items()))))

    def rename(self, **new: str) -> Flow:
        """All columns, some under new names: ``.rename(car="other_car")``."""
        old = {find_column(n, self.plan.schema): to for n, to in new.items()}
        return Flow(Project(self.plan, tuple(Named(old.get(n, n), Column(n)) for n in self.columns)))

    def prefixed(self, prefix: str) -> Flow:
        """All columns under names with a prefix, so that both sides of a join differ."""
        return Flow(Project(self.plan, tuple(Named(prefix + n, Column(n)) for n in self.columns)))

    def where(self, condition: str) -> Flow:
        """The rows for which a condition is true."""
        parsed = parse_expression(condition)
        return Flow(Filter(self.plan, resolve_condition(parsed, self.plan.schema)))

    def explode(self, array: str, into: str, *more: str, position: str | None = None, outer: bool = False) -> Flow:
        """A row for each element of an array (or entry of a map: give two names)."""
        expression = self._expression(array)
        given = type_of(expression, self.plan.schema)
        inline = len(more) > 0 and isinstance(given, ArrayType)
        match given:
            case ArrayType(StructType(members)) if inline:
                types = [m.type for m in members]
            case ArrayType(element):
                types = [element]
            case MapType(key, value):
                types = [key, value]
            case _:
                raise PlanError(f"cannot explode {array!r} of type {given}", hint="give an array or a map")
        if len(types) != 1 + len(more):
            raise PlanError(
                f"{array!r} makes {len(types)} columns, not {1 + len(more)}",
                hint="name each of them",
            )
        columns = tuple(Field(n, t) for n, t in zip((into, *more), types, strict=True))
        return Flow(Generate(self.plan, expression, columns, position, outer, inline))

    def union(self, *others: Flow) -> Flow:
        """All rows of this and others, by position."""
        return Flow(Union((self.plan, *(o.plan for o in others))))

    def join(self, other: Flow, on: str | None = None, *, kind: JoinKind = "inner") -> Flow:
        """Pairs of rows for which a condition is true; the sides must not share column names."""
        both = self.plan.schema + other.plan.schema
        condition = None if on is None else resolve_condition(parse_expression(on), both)
        return Flow(Join(self.plan, other.plan, kind, condition))

    def window(
        self,
        time: str,
        size: str,
        slide: str | None = None,
        *,
        offset: str = "0 seconds",
        name: str = "window",
        closed: Closed = "left",
        stamp: Stamp = "window",
    ) -> Flow:
        """A row for each event-time window a row falls into (without a slide: just one)."""
        length = parse_duration(size)
        step = length if slide is None else parse_duration(slide)
        start = parse_duration(offset)
        return Flow(EventWindow(self.plan, name, self._expression(time), length, step, start, closed, stamp))

    def group(self, *keys: str, **aggregates: str) -> Flow:
        """A row for each combination of key columns: ``.group("car", n="count(*)")``."""
        schema = self.plan.schema
        by = tuple(Named(c, Column(c)) for c in (find_column(k, schema) for k in keys))
        made = tuple(
            NamedAggregate(n, resolve_aggregate(parse_aggregate(text), schema)) for n, text in aggregates.items()
        )
        return Flow(Group(self.plan, by, made))

    def distinct(self) -> Flow:
        """Each different row once."""
        return Flow(Distinct(self.plan))

    def deduplicate(self, *keys: str, within_watermark: bool = False) -> Flow:
        """The first row for each combination of key columns."""
        found = tuple(find_column(k, self.plan.schema) for k in keys)
        return Flow(Deduplicate(self.plan, found, within_watermark))

    def intersect(self, other: Flow, *, all: bool = False) -> Flow:
        """The rows that are also in another."""
        return Flow(SetOperation(self.plan, other.plan, "intersect", all))

    def subtract(self, other: Flow, *, all: bool = False) -> Flow:
        """The rows that are not in another (``except`` in SQL)."""
        return Flow(SetOperation(self.plan, other.plan, "except", all))

    def sort(self, *orders: str) -> Flow:
        """The rows in order: ``.sort("car", "at desc", "pos asc nulls last")``."""
        return Flow(Sort(self.plan, self._orders(orders)))

    def limit(self, count: int | None, *, offset: int = 0) -> Flow:
        """The first rows after an offset."""
        return Flow(Limit(self.plan, count, offset))

    def analyse(
        self,
        *,
        partition: tuple[str, ...] = (),
        order: tuple[str, ...] = (),
        rows: tuple[int | None, int | None] | None = None,
        **columns: str,
    ) -> Flow:
        """All columns and analytic functions over each row's partition.

        The frame is ``rows=(start, end)``; without it all rows up to the current one and its
        peers where there is an order, else the whole partition.
        """
        schema = self.plan.schema
        usual = UP_TO_CURRENT if order else WHOLE_PARTITION
        frame = usual if rows is None else Frame("rows", *rows)
        made = []
        for name, text in columns.items():
            function = resolve_aggregate(parse_aggregate(text), schema)
            ranking = getattr(function, "function", "") in functions.ANALYTIC
            made.append(NamedAnalytic(name, function, usual if ranking else frame))
        keys = tuple(self._expression(p) for p in partition)
        return Flow(Analytic(self.plan, keys, self._orders(order), tuple(made)))

    def with_watermark(self, column: str, delay: str) -> Flow:
        """Promise that times are at most a delay out of order."""
        found = find_column(column, self.plan.schema)
        return Flow(Watermark(self.plan, found, parse_duration(delay)))

    def opaque(
        self,
        key: str,
        kind: OpaqueKind,
        *,
        keys: tuple[str, ...] = (),
        deterministic: bool = True,
        **columns: str,
    ) -> Flow:
        """A function the algebra does not understand; see ``OpaqueStep``."""
        found = tuple(find_column(k, self.plan.schema) for k in keys)
        return Flow(OpaqueStep(self.plan, kind, key, _fields(columns), found, (), deterministic))

    def _expression(self, text: str) -> Expression:
        return resolve(parse_expression(text), self.plan.schema)

    def _orders(self, orders: tuple[str, ...]) -> tuple[Order, ...]:
        return tuple(self._order(text) for text in orders)

    def _order(self, text: str) -> Order:
        words = text.split()
        nulls = None
        if len(words) > 2 and words[-2].lower() == "nulls":
            nulls = words[-1].lower() == "first"
            words = words[:-2]
        descending = words[-1].lower() == "desc"
        if words[-1].lower() in ("asc", "desc"):
            words = words[:-1]
        first = (not descending) if nulls is None else nulls
        return Order(self._expression(" ".join(words)), descending, first)
