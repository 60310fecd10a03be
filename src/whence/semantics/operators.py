"""What each node does to annotated rows: one function a node, in the order of ``plan.nodes``.

The one implementation of every node; ``annotate`` walks a plan with it, ``evaluate`` is the same with
nothing carried, and ``streams`` uses it inside epochs. Rows are bags, but their order is kept where
something above may look at it (limit, deduplicate, ties of a sort): input order throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

from whence.errors import EvaluationError
from whence.plan.expressions import Call, Expression, Literal, Opaque, columns_of, conjuncts, type_of
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
    OpaqueStep,
    Project,
    SetOperation,
    Sort,
    Source,
    Values,
    label,
    names,
)
from whence.plan.types import BOOLEAN, DataType, MapType, Schema
from whence.semantics.aggregates import compile_aggregate
from whence.semantics.algebras import A, Algebra
from whence.semantics.frames import compile_column
from whence.semantics.scalars import Functions, compile_expression, opaque_function
from whence.semantics.tables import Table, read
from whence.semantics.values import Row, Value, freeze, from_micros, group_key, micros, sort_positions


@dataclass(frozen=True, slots=True)
class Annotated(Generic[A]):
    """A row and what it carries."""

    row: Row
    annotation: A


Rows = list[Annotated[A]]


def _types(schema: Schema) -> list[DataType]:
    return [f.type for f in schema]


def _expressions(
    expressions: Sequence[Expression], schema: Schema, functions: Functions | None
) -> Callable[[Row], Row]:
    """The function from a row to the values of several expressions."""
    compiled = [compile_expression(e, schema, functions) for e in expressions]
    return lambda row: tuple(part(row) for part in compiled)


def gather(rows: Rows[A], key_of: Callable[[Row], Row], types: Sequence[DataType]) -> dict[Hashable, Rows[A]]:
    """The rows by equal keys, groups in the order they are met."""
    key = group_key(types)
    groups: dict[Hashable, Rows[A]] = {}
    for item in rows:
        groups.setdefault(key(key_of(item.row)), []).append(item)
    return groups


def _gather_whole(rows: Rows[A], schema: Schema) -> dict[Hashable, Rows[A]]:
    return gather(rows, lambda row: row, _types(schema))


def together(rows: Sequence[Annotated[A]], algebra: Algebra[A]) -> A:
    """What rows carry together; nothing where there are none."""
    return algebra.plus([item.annotation for item in rows]) if rows else algebra.nothing


def source(node: Source, table: Table, algebra: Algebra[A]) -> Rows[A]:
    return [Annotated(row, algebra.source(node.name, id)) for id, row in read(node, table)]


def values(node: Values, algebra: Algebra[A]) -> Rows[A]:
    return [
        Annotated(tuple(freeze(v, f.type) for v, f in zip(row, node.fields, strict=True)), algebra.nothing)
        for row in node.rows
    ]


def project(node: Project, rows: Rows[A], functions: Functions | None) -> Rows[A]:
    compute = _expressions([c.expression for c in node.columns], node.child.schema, functions)
    return [Annotated(compute(item.row), item.annotation) for item in rows]


def filter(node: Filter, rows: Rows[A], functions: Functions | None) -> Rows[A]:
    holds = compile_expression(node.condition, node.child.schema, functions)
    return [item for item in rows if holds(item.row) is True]


def generate(node: Generate, rows: Rows[A], functions: Functions | None) -> Rows[A]:
    elements = compile_expression(node.expression, node.child.schema, functions)
    is_map = isinstance(type_of(node.expression, node.child.schema), MapType)
    makes_rows = node.inline or is_map or isinstance(node.expression, Opaque)
    width = len(node.columns)

    def pieces(value: Row) -> Iterator[Row]:
        for position, element in enumerate(value):
            made = (element if element is not None else (None,) * width) if makes_rows else (element,)
            yield (*(() if node.position is None else (position,)), *made)

    absent = ((None,) * (width + (node.position is not None)),)
    result: Rows[A] = []
    for item in rows:
        made = tuple(pieces(elements(item.row) or ()))
        result += [Annotated(item.row + m, item.annotation) for m in made or (absent if node.outer else ())]
    return result


def union(inputs: Sequence[Rows[A]]) -> Rows[A]:
    return [item for rows in inputs for item in rows]


def equal_parts(node: Join) -> list[tuple[Expression, Expression, bool]]:
    """The conjuncts that equate the left side with the right: both sides, and whether nulls match."""
    left, right = set(names(node.left)), set(names(node.right))
    found = []
    for part in conjuncts(node.condition) if node.condition is not None else []:
        if isinstance(part, Call) and part.function in ("=", "<=>"):
            first, second = part.arguments
            null_safe = part.function == "<=>"
            if columns_of(first) <= left and columns_of(second) <= right:
                found.append((first, second, null_safe))
            elif columns_of(first) <= right and columns_of(second) <= left:
                found.append((second, first, null_safe))
    return found


def matches(node: Join, left: Rows[A], right: Rows[A], functions: Functions | None) -> list[list[int]]:
    """For each left row the positions of the right rows for which the condition is true.

    Equated values only narrow down which pairs are tried; the whole condition decides.
    """
    parts = equal_parts(node)
    of_left = _expressions([first for first, _, _ in parts], node.left.schema, functions)
    of_right = _expressions([second for _, second, _ in parts], node.right.schema, functions)
    # The type of either side will do: they are the same unless one is the untyped null.
    key = group_key([type_of(first, node.left.schema) for first, _, _ in parts])
    by_key: dict[Hashable, list[int]] = {}
    for position, item in enumerate(right):
        by_key.setdefault(key(of_right(item.row)), []).append(position)
    condition = node.condition if node.condition is not None else Literal(True, BOOLEAN)
    holds = compile_expression(condition, node.left.schema + node.right.schema, functions)
    return [
        [p for p in by_key.get(key(of_left(item.row)), ()) if holds(item.row + right[p].row) is True] for item in left
    ]


def join(node: Join, left: Rows[A], right: Rows[A], algebra: Algebra[A], functions: Functions | None) -> Rows[A]:
    matching = matches(node, left, right, functions)
    if node.kind == "anti":
        return [item for item, found in zip(left, matching, strict=True) if not found]
    if node.kind == "semi":
        return [semi_row(item, [right[p] for p in found], algebra)
                for item, found in zip(left, matching, strict=True) if found]  # fmt: skip
    result: Rows[A] = []
    for item, found in zip(left, matching, strict=True):
        result += [paired(item, right[p], algebra) for p in found]
        if not found and node.kind in ("left", "full"):
            result.append(without_right(node, item))
    if node.kind in ("right", "full"):
        met = {p for found in matching for p in found}
        result += [without_left(node, item) for p, item in enumerate(right) if p not in met]
    return result


def paired(left: Annotated[A], right: Annotated[A], algebra: Algebra[A]) -> Annotated[A]:
    """A join's row from two that match."""
    return Annotated(left.row + right.row, algebra.times(left.annotation, right.annotation))


def semi_row(left: Annotated[A], found: Rows[A], algebra: Algebra[A]) -> Annotated[A]:
    """A semi join's row: the left one, because of all that match it."""
    condition = algebra.condition(together(found, algebra))
    return Annotated(left.row, algebra.times(left.annotation, condition))


def without_right(node: Join, left: Annotated[A]) -> Annotated[A]:
    """An outer join's row from a left one that nothing matches."""
    return Annotated(left.row + (None,) * len(node.right.schema), left.annotation)


def without_left(node: Join, right: Annotated[A]) -> Annotated[A]:
    """An outer join's row from a right one that nothing matches."""
    return Annotated((None,) * len(node.left.schema) + right.row, right.annotation)


def window_starts(node: EventWindow, time: int) -> list[int]:
    """The starts of the windows a time falls into, earliest first, in microseconds."""
    # The last window that starts at or before the time, and all before it that still reach it.
    start = time - (time - node.offset) % node.slide
    found = []
    while time <= start + node.size:
        after_start = start < time or node.closed != "right"
        before_end = time < start + node.size or node.closed != "left"
        if after_start and before_end:
            found.append(start)
        start -= node.slide
    return found[::-1]


def window(node: EventWindow, rows: Rows[A], functions: Functions | None) -> Rows[A]:
    time_of = compile_expression(node.time, node.child.schema, functions)
    type = type_of(node.time, node.child.schema)
    result: Rows[A] = []
    for item in rows:
        time = time_of(item.row)
        for start in () if time is None else window_starts(node, micros(time)):
            ends = (from_micros(start, type), from_micros(start + node.size, type))
            stamp: Value = {"window": ends, "start": ends[0], "end": ends[1]}[node.stamp]
            result.append(Annotated((*item.row, stamp), item.annotation))
    return result


def group(node: Group, rows: Rows[A], algebra: Algebra[A], functions: Functions | None) -> Rows[A]:
    return [made for _, made in groups(node, rows, algebra, functions)]


def groups(
    node: Group, rows: Rows[A], algebra: Algebra[A], functions: Functions | None
) -> list[tuple[Hashable, Annotated[A]]]:
    """The key and the result of each group, in the order the groups are met."""
    below = node.child.schema
    key_of = _expressions([k.expression for k in node.keys], below, functions)
    compute = [compile_aggregate(a.aggregate, below, functions) for a in node.aggregates]
    gathered = gather(rows, key_of, _types(node.schema[: len(node.keys)]))
    if not node.keys and not gathered:
        gathered[()] = []
    result = []
    for key, members in gathered.items():
        plain = [item.row for item in members]
        row = (key_of(plain[0]) if node.keys else ()) + tuple(c(plain) for c in compute)
        result.append((key, Annotated(row, together(members, algebra))))
    return result


def distinct(node: Distinct, rows: Rows[A], algebra: Algebra[A]) -> Rows[A]:
    return [
        Annotated(members[0].row, together(members, algebra)) for members in _gather_whole(rows, node.schema).values()
    ]


def key_columns(node: Deduplicate) -> tuple[Callable[[Row], Row], list[DataType]]:
    """The function from a row to the values that must differ, and their types."""
    places = [names(node.child).index(k) for k in node.keys]
    return lambda row: tuple(row[p] for p in places), [node.schema[p].type for p in places]


def deduplicate(node: Deduplicate, rows: Rows[A]) -> Rows[A]:
    if node.within_watermark:
        raise EvaluationError(
            f"{label(node)} within a watermark means nothing in a batch",
            detail="it forgets keys as the watermark passes",
            hint="use run_stream",
        )
    return [members[0] for members in gather(rows, *key_columns(node)).values()]


def set_operation(node: SetOperation, left: Rows[A], right: Rows[A], algebra: Algebra[A]) -> Rows[A]:
    others = _gather_whole(right, node.schema)
    result: Rows[A] = []
    for key, members in _gather_whole(left, node.schema).items():
        equals = others.get(key, [])
        carried = together(members, algebra)
        if node.kind == "intersect":
            copies = min(len(members), len(equals)) if node.all else bool(equals)
            carried = algebra.times(carried, together(equals, algebra))
        else:
            copies = max(len(members) - len(equals), 0) if node.all else not equals
        result += [Annotated(item.row, carried) for item in members[: int(copies)]]
    return result


def sort(node: Sort, rows: Rows[A], functions: Functions | None) -> Rows[A]:
    expressions = [o.expression for o in node.orders]
    keys_of = _expressions(expressions, node.child.schema, functions)
    types = [type_of(e, node.child.schema) for e in expressions]
    return [rows[p] for p in sort_positions([keys_of(r.row) for r in rows], node.orders, types)]


def limit(node: Limit, rows: Rows[A]) -> Rows[A]:
    return rows[node.offset :] if node.count is None else rows[node.offset : node.offset + node.count]


def analytic(node: Analytic, rows: Rows[A], algebra: Algebra[A], functions: Functions | None) -> Rows[A]:
    below = node.child.schema
    partition_of = _expressions(node.partition, below, functions)
    expressions = [o.expression for o in node.orders]
    orders_of = _expressions(expressions, below, functions)
    order_types = [type_of(e, below) for e in expressions]
    columns = [compile_column(c, node.orders, order_types, below, functions) for c in node.columns]
    numbered = [Annotated(item.row, position) for position, item in enumerate(rows)]
    made: dict[int, Annotated[A]] = {}
    for members in gather(numbered, partition_of, [type_of(e, below) for e in node.partition]).values():
        keys = [orders_of(member.row) for member in members]
        order = sort_positions(keys, node.orders, order_types)
        partition = [members[p] for p in order]
        computed = [c([m.row for m in partition], [keys[p] for p in order]) for c in columns]
        for p, member in enumerate(partition):
            cells = [column(p) for column in computed]
            looked_at = sorted({p}.union(*(cell.looked_at for cell in cells)))
            carried = algebra.plus([rows[partition[q].annotation].annotation for q in looked_at])
            row = member.row + tuple(cell.value for cell in cells)
            made[member.annotation] = Annotated(row, carried)
    return [made[position] for position in range(len(rows))]


def opaque_step(node: OpaqueStep, rows: Rows[A], algebra: Algebra[A], functions: Functions | None) -> Rows[A]:
    """A per-row function gets a row, the others a list of rows; each answers with rows."""
    outside = opaque_function(node.key, functions)

    def shaped(given: Sequence[object]) -> Row:
        if len(given) != len(node.fields):
            raise EvaluationError(
                f"{label(node)} made a row of {len(given)} values for {len(node.fields)} columns",
                detail=f"the row: {given!r}",
                hint="declare the columns its function makes",
            )
        return tuple(freeze(v, f.type) for v, f in zip(given, node.fields, strict=True))

    below = names(node.child)
    if node.kind == "per_row":
        carried = [p for p, name in enumerate(below) if name in node.carried]
        return [
            Annotated(shaped(made) + tuple(item.row[p] for p in carried), item.annotation)
            for item in rows
            for made in outside(item.row)
        ]
    parts = [rows]
    if node.kind == "per_group":
        places = [below.index(k) for k in node.keys]
        types = [node.child.schema[p].type for p in places]
        parts = list(gather(rows, lambda row: tuple(row[p] for p in places), types).values())
    return [
        Annotated(shaped(made), together(part, algebra))
        for part in parts
        for made in outside([item.row for item in part])
    ]
