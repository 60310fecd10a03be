"""A plan as one DuckDB SELECT: a common table expression a node, shared nodes once.

``lower`` refuses by name what DuckDB does not do as Spark does; values that turn out to be outside
end the query with ``functions.OUTSIDE``. The order of rows is never guessed: what depends on it is
refused, at the latest when rows turn out to tie. Files and connections are not known here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from whence.duck.analytic import analytic_sql
from whence.duck.arrange import arrange
from whence.duck.expressions import Scope, aggregate_sql, as_key, expression_sql, order_sql
from whence.duck.functions import outside, timestamp_of
from whence.duck.tables import Scan, no_files
from whence.duck.text import SPARK_HINT, Names, cell, duck_type, from_cell, literal, refusal, string
from whence.plan.expressions import Call, Column, Expression, Literal, conjuncts, type_of
from whence.plan.hidden import ROW_ID
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
    children,
    label,
    names,
    walk,
)
from whence.plan.types import (
    DOUBLE,
    FLOAT,
    STRING,
    VOID,
    ArrayType,
    AtomicType,
    DataType,
    DecimalType,
    MapType,
    StructType,
    is_orderable,
)

MOST_WRITTEN = 100
"""Values of more rows are handed over as tables: parsing text is slow."""
MOST_REPEATED = 40
"""A shared part of at most so many nodes is computed wherever it is used, so that filters reach its scans."""

MOST_IDS = 20_000
"""More row ids than that are compared with every row: written out, they would take longer."""


# What SELECTs inside a node call their own columns and relations.
_OWN = ("a", "b", "v", "pieces", "element", "place", "peer", "peers", "nearest", "slides", "ties", "nothing")


@dataclass(frozen=True, slots=True)
class Lowered:
    """The query, its columns under the plan's names, and the values it reads as tables."""

    sql: str
    tables: dict[str, Values]


def lower(plan: Node, scan: Scan, *, utc: bool = True) -> Lowered:
    """The plan as SQL over what ``scan`` says of its sources; NotPortable where there is none."""
    return _Lowering(arrange(plan), scan, utc).lowered()


def portable(plan: Node, utc: bool = True) -> None:
    """Raise NotPortable with the first reason, unless DuckDB can answer; no file is touched.

    >>> from whence.plan.builder import source
    >>> portable(source("cars", car="int").where("car > 3").plan)
    """
    lower(plan, no_files, utc=utc)


class _Lowering:
    """One plan on its way to SQL."""

    def __init__(self, plan: Node, scan: Scan, utc: bool) -> None:
        self.plan = plan
        self.scan = scan
        self.utc = utc
        nodes = list(walk(plan))
        self.relations = {node: f"n{i}" for i, node in enumerate(nodes)}
        self.names = Names((*self.relations.values(), *_OWN))
        self.tables: dict[str, Values] = {}
        self.read: set[str] = set()
        self.uses = Counter(child for node in nodes for child in children(node))
        self.sizes: dict[Node, int | None] = {}

    def lowered(self) -> Lowered:
        parts: dict[Node, str] = {}
        for node in walk(self.plan):
            sql = self.node(node)
            parts[node] = f"{self.relations[node]} AS {self.kept(node)} ({sql})"
        last = [f"{self.names[f.name]} AS c{i}" for i, f in enumerate(self.plan.schema)]
        for field in self.plan.schema:
            duck_type(field.type)
        select = self.select(last, self.over(self.plan))
        # A source of which only some ids are asked for stands in the filter that asks.
        read = [part for node, part in parts.items() if self.relations[node] in self.read]
        return Lowered(f"WITH {', '.join(read)} {select}", self.tables)

    def kept(self, node: Node) -> str:
        """Whether a node's rows are computed once, or wherever they are used."""
        below = [self.sizes[child] for child in children(node)]
        size = None if None in below else 1 + sum(s for s in below if s is not None)
        if isinstance(node, Project | Filter | Source | Values | Union | EventWindow | Generate):
            if self.uses[node] <= 1 or (size is not None and size <= MOST_REPEATED):
                self.sizes[node] = size
                return "NOT MATERIALIZED"
        elif self.uses[node] <= 1:
            self.sizes[node] = None
            return "NOT MATERIALIZED"
        self.sizes[node] = 1
        return "MATERIALIZED"

    # pieces

    def scope(self, node: Node, *inputs: Node) -> Scope:
        schema = tuple(f for given in inputs for f in given.schema)
        return Scope(schema, self.names, label(node), self.utc)

    def value(self, expression: Expression, scope: Scope) -> str:
        """An expression as a column: typed also where it is the null of no type."""
        sql = expression_sql(expression, scope)
        return f"CAST({sql} AS {duck_type(VOID)})" if type_of(expression, scope.schema) == VOID else sql

    def columns(self, node: Node) -> list[str]:
        return [self.names[n] for n in names(node)]

    def select(self, cells: Sequence[str], rest: str) -> str:
        return f"SELECT {', '.join(cells) or 'NULL AS nothing'} {rest}"

    # nodes

    def node(self, node: Node) -> str:
        match node:
            case Source():
                return self.scan(node, self.columns(node))
            case Values():
                return self.values(node)
            case Project():
                scope = self.scope(node, node.child)
                cells = [f"{self.value(c.expression, scope)} AS {self.names[c.name]}" for c in node.columns]
                return self.select(cells, self.over(node.child))
            case Filter():
                condition = expression_sql(node.condition, self.scope(node, node.child))
                return self.select(self.columns(node), f"{self.filtered(node)} WHERE {condition}")
            case Generate():
                return self.generate(node)
            case Union():
                return " UNION ALL ".join(self.select(self.columns(c), self.over(c)) for c in node.children)
            case Join():
                return self.join(node)
            case EventWindow():
                return self.window(node)
            case Group():
                return self.group(node)
            case Distinct():
                return self.distinct(node)
            case SetOperation():
                return self.set_operation(node)
            case Sort():
                return self.sort(node)
            case Limit():
                return self.limit(node)
            case Analytic():
                return analytic_sql(node, self.scope(node, node.child), self.columns(node.child), self.over(node.child))
            case Deduplicate():
                return self.deduplicate(node)
            case OpaqueStep():
                raise refusal(f"{label(node)} is not portable", "its function is known to Spark only")
            case Watermark():
                raise AssertionError("arrange leaves watermarks out")
            case _:
                assert_never(node)

    def over(self, child: Node) -> str:
        return f"FROM {self.relation(child)}"

    def relation(self, node: Node) -> str:
        self.read.add(self.relations[node])
        return self.relations[node]

    def filtered(self, node: Filter) -> str:
        """What a filter reads: of a source only the files and row groups that hold the ids it asks for."""
        ids = _asked_ids(node.condition) if isinstance(node.child, Source) else None
        if ids is None or not isinstance(node.child, Source):
            return self.over(node.child)
        return f"FROM ({self.scan(node.child, self.columns(node.child), ids)}) AS a"

    def values(self, node: Values) -> str:
        columns = self.columns(node)
        places = [f"v{i}" for i in range(len(columns))]
        for field in node.fields:
            duck_type(field.type)
        if not node.rows:
            return no_files(Source("values", node.fields), columns)
        if not node.fields:
            return f"SELECT NULL AS nothing FROM range({len(node.rows)})"
        if len(node.rows) > MOST_WRITTEN:
            table = f"values_{self.relations[node]}"
            self.tables[table] = node
            return self.select([f"{v} AS {c}" for v, c in zip(places, columns, strict=True)], f"FROM {table}")
        # Cells of atomic types are converted once a column; others say their type themselves.
        flat = [isinstance(f.type, AtomicType | DecimalType) for f in node.fields]
        rows = [
            [
                cell(v, f.type) if short else literal(v, f.type)
                for v, f, short in zip(row, node.fields, flat, strict=True)
            ]
            for row in node.rows
        ]
        written = ", ".join(f"({', '.join(row)})" for row in rows)
        cells = [
            f"{_of_cells(v, f.type) if short else v} AS {c}"
            for v, c, f, short in zip(places, columns, node.fields, flat, strict=True)
        ]
        return self.select(cells, f"FROM (VALUES {written}) AS v({', '.join(places)})")

    def generate(self, node: Generate) -> str:
        below = self.columns(node.child)
        given = type_of(node.expression, node.child.schema)
        pieces = expression_sql(node.expression, self.scope(node, node.child))
        if isinstance(given, MapType):
            pieces = f"map_entries({pieces})"
        inner = self.select([*below, f"{pieces} AS pieces"], self.over(node.child))
        elements, places = "pieces", "range(len(pieces))"
        if node.outer:
            empty = "pieces IS NULL OR len(pieces) = 0"
            elements, places = (f"CASE WHEN {empty} THEN [NULL] ELSE {part} END" for part in (elements, places))
        cells = [*below, f"unnest({elements}) AS element"]
        made = []
        if node.position is not None:
            cells.append(f"unnest({places}) AS place")
            made.append(f"CAST(place AS INTEGER) AS {self.names[node.position]}")
        parts = ["element"]
        match given:
            case ArrayType(StructType(members)) if node.inline:
                duck_type(given)
                parts = [f"struct_extract(element, {string(m.name)})" for m in members]
            case MapType():
                parts = ["struct_extract(element, 'key')", "struct_extract(element, 'value')"]
            case _:
                pass
        made += [
            f"CAST({part} AS {duck_type(c.type)}) AS {self.names[c.name]}"
            for part, c in zip(parts, node.columns, strict=True)
        ]
        unnested = self.select(cells, f"FROM ({inner}) AS a")
        return self.select([*below, *made], f"FROM ({unnested}) AS b")

    def join(self, node: Join) -> str:
        condition = "TRUE"
        if node.condition is not None:
            condition = expression_sql(node.condition, self.scope(node, node.left, node.right))
        left, right = self.relation(node.left), self.relation(node.right)
        return self.select(self.columns(node), f"FROM {left} {node.kind.upper()} JOIN {right} ON {condition}")

    def window(self, node: EventWindow) -> str:
        type = type_of(node.time, node.child.schema)
        below = self.columns(node.child)
        micros = f"epoch_us({expression_sql(node.time, self.scope(node, node.child))})"
        slide = node.slide
        # How far the time is into its slide; windows start at its beginning and whole slides before.
        into = f"((({micros} - {node.offset % slide}) % {slide} + {slide}) % {slide})"
        if node.size == slide and node.closed == "left":
            rest = f"{self.over(node.child)} WHERE {micros} IS NOT NULL"
            start = f"({micros} - {into})"
        else:
            reach = node.size - 1 if node.closed == "left" else node.size
            nearest = f"CASE WHEN {into} = 0 THEN 1 ELSE 0 END" if node.closed == "right" else "0"
            slides = f"unnest(range({nearest}, ({reach + slide} - {into}) // {slide}))"
            cells = [*below, f"{micros} - {into} AS nearest", f"{slides} AS slides"]
            rest = f"FROM ({self.select(cells, self.over(node.child))}) AS a"
            start = f"(nearest - slides * {slide})"
        starts, ends = timestamp_of(start, type), timestamp_of(f"({start} + {node.size})", type)
        stamp = {"window": f"{{'start': {starts}, 'end': {ends}}}", "start": starts, "end": ends}[node.stamp]
        return self.select([*below, f"{stamp} AS {self.names[node.name]}"], rest)

    def group(self, node: Group) -> str:
        scope = self.scope(node, node.child)
        cells = []
        for key, field in zip(node.keys, node.schema, strict=False):
            _need_comparable(field.type, label(node))
            cells.append(f"{as_key(self.value(key.expression, scope), field.type)} AS {self.names[key.name]}")
        by = f" GROUP BY {_places(cells)}" if cells else ""
        cells += [f"{aggregate_sql(a.aggregate, scope)} AS {self.names[a.name]}" for a in node.aggregates]
        if not cells:
            return "SELECT NULL AS nothing"
        return self.select(cells, self.over(node.child) + by)

    def distinct(self, node: Distinct) -> str:
        if not node.schema:
            return self.select([], f"{self.over(node.child)} LIMIT 1")
        cells = self.normal(node.child, node)
        return self.select(cells, f"{self.over(node.child)} GROUP BY {_places(cells)}")

    def normal(self, child: Node, node: Node) -> list[str]:
        """A child's columns as grouping gives them back."""
        for field in child.schema:
            _need_comparable(field.type, label(node))
        return [f"{as_key(self.names[f.name], f.type)} AS {self.names[f.name]}" for f in child.schema]

    def set_operation(self, node: SetOperation) -> str:
        if not node.schema:
            raise refusal(f"{label(node)} is not portable", "its rows have no columns")
        sides = [self.select(self.normal(side, node), self.over(side)) for side in (node.left, node.right)]
        return f" {node.kind.upper()}{' ALL' if node.all else ''} ".join(sides)

    def sort(self, node: Sort) -> str:
        return self.select(self.columns(node), f"{self.over(node.child)}{self.order_by(node)}")

    def order_by(self, node: Sort) -> str:
        scope = self.scope(node, node.child)
        return f" ORDER BY {', '.join(order_sql(o, scope) for o in node.orders)}" if node.orders else ""

    def limit(self, node: Limit) -> str:
        sort = node.child
        columns = self.columns(node)
        if node.count == 0:
            return self.select(columns, f"{self.over(sort)} LIMIT 0")
        if not isinstance(sort, Sort):
            raise refusal(
                f"{label(node)} is not portable",
                "which rows come first depends on how they are read",
                f"sort the rows below the limit, or {SPARK_HINT}",
            )
        first, last = node.offset, None if node.count is None else node.offset + node.count
        over, order = self.over(sort.child), self.order_by(sort)
        if _is_total(sort):
            cut = ("" if node.count is None else f" LIMIT {node.count}") + (f" OFFSET {first}" if first else "")
            return self.select(columns, f"{over}{order}{cut}")
        # One row more shows whether the last row that stays ties with the first that goes.
        cut = "" if last is None else f" LIMIT {last + 1}"
        ranks = (f"row_number() OVER ({order}) AS place", f"rank() OVER ({order}) AS peer")
        top = self.select([*columns, *ranks], f"FROM ({self.select(columns, over + order + cut)}) AS a")
        edges = ", ".join(str(edge + 1) for edge in (first, last) if edge)
        kept = f"place > {first}" + ("" if last is None else f" AND place <= {last}")
        tie = outside("a limit between rows that tie", label(node))
        if edges:
            kept = f"CASE WHEN place IN ({edges}) AND peer < place THEN {tie} ELSE {kept} END"
        return self.select(columns, f"FROM ({top}) AS b WHERE {kept} ORDER BY place")

    def deduplicate(self, node: Deduplicate) -> str:
        """Of rows whose order cannot be told: fine as long as no key has two."""
        if node.within_watermark:
            raise refusal(f"{label(node)} is not portable", "it forgets keys as the watermark passes")
        for field in node.schema:
            if field.name in node.keys:
                _need_comparable(field.type, label(node))
        by = f"PARTITION BY {', '.join(self.names[k] for k in node.keys)}" if node.keys else ""
        inner = self.select([*self.columns(node), f"count(*) OVER ({by}) AS peers"], self.over(node.child))
        several = outside("the first of several rows whose order cannot be told", label(node))
        return self.select(
            self.columns(node), f"FROM ({inner}) AS a WHERE CASE WHEN peers > 1 THEN {several} ELSE TRUE END"
        )


def _asked_ids(condition: Expression) -> list[int] | None:
    """The row ids outside of which the condition is not true, where it says so in plain numbers."""
    for part in conjuncts(condition):
        match part:
            case Call("in" | "=" | "<=>", (Column(name), *others)) if name == ROW_ID:
                values = [other.value for other in others if isinstance(other, Literal)]
                ids = [value for value in values if isinstance(value, int)]
                if len(ids) == len(others) <= MOST_IDS:
                    return ids
    return None


def _places(cells: Sequence[str]) -> str:
    return ", ".join(str(n + 1) for n in range(len(cells)))


def _of_cells(sql: str, type: DataType) -> str:
    """The value of a cell, typed also where it is the null of no type."""
    return f"CAST({sql} AS {duck_type(type)})" if type in (VOID, STRING) else from_cell(sql, type)


def _need_comparable(type: DataType, where: str) -> None:
    """Maps have no equality in Spark, and DuckDB's own differs from that of their pairs."""
    if not is_orderable(type):
        raise refusal(f"{where}: comparing values of type {type} is not portable")


def _is_total(sort: Sort) -> bool:
    """Whether only equal rows tie; zeros of two signs tie and are not the same."""
    keys = {o.expression.name for o in sort.orders if isinstance(o.expression, Column)}
    return all(f.name in keys and _ties_as_equal(f.type) for f in sort.schema)


def _ties_as_equal(type: DataType) -> bool:
    match type:
        case AtomicType() | DecimalType():
            return type not in (FLOAT, DOUBLE)
        case StructType(fields):
            return all(_ties_as_equal(f.type) for f in fields)
        case _:
            return False
