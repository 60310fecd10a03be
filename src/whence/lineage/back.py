"""Back: from asked rows of a node to the source rows that made them, one rule a node kind.

A rule takes ``Asked``, a relation of (tag, identity of a row of the node), and gives the same
for one input: the identities of the input rows that contributed. Filters, sorts and projections
pass identities on unchanged and are never computed. Where rows are merged (group, distinct,
set operations, analytic windows) the asked rows are joined with the input, nulls equal; that input is
first restricted to the asked values where they are known. At a source, identity is the row id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal as OneOf
from typing import assert_never

from whence.errors import NotTraceable
from whence.lineage.frames import frames_of, in_frame, rank_rows
from whence.lineage.fresh import Fresh, flatten, flatten_schema, join_same, pick, types_of
from whence.lineage.identify import identify
from whence.lineage.restrict import Wanted, restrict, wanted_values
from whence.plan.expressions import Call, Column, Expression, Literal, type_of
from whence.plan.hidden import PREFIX
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
    names,
    walk,
)
from whence.plan.types import BIGINT, BOOLEAN, INT, Field

Role = OneOf["value", "condition"]

TAG = f"{PREFIX}tag"
EDGE_TAG = "tag"
EDGE_ID = "id"


@dataclass(frozen=True, slots=True)
class Asked:
    """A relation: the tag of a result row, and the identity of a row below that it depends on."""

    plan: Node
    tag: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edges:
    """A plan whose rows are (tag, source row id); a pair may come more than once."""

    source: str
    role: Role
    plan: Node


Settle = Callable[[Asked], Asked]
"""What may happen to the asked rows between two rules: nothing, or computing them into Values."""


def ask_values(tags: list[int], rows: list[tuple[object, ...]], plan: Node) -> Asked:
    """Asked rows given as tags and identities; ``plan`` is the node they are asked of."""
    fresh = Fresh()
    types = identify(plan, fresh).types
    keys = tuple(f"{PREFIX}asked{i}" for i in range(len(types)))
    fields = (
        Field(TAG, BIGINT),
        *(Field(k, t) for k, t in zip(keys, types, strict=True)),
    )
    values = tuple((tag, *row) for tag, row in zip(tags, rows, strict=True))
    return Asked(Values(fields, values), TAG, keys)


def trace_back(
    plan: Node,
    asked: Asked,
    *,
    sources: frozenset[str] | None = None,
    settle: Settle = lambda asked: asked,
) -> tuple[Edges, ...]:
    """The edges from asked rows of a plan to rows of its sources (or of some of them)."""
    return tuple(_Tracer(Fresh(), sources, settle).trace(plan, asked, "value"))


def reaches(node: Node, sources: frozenset[str] | None) -> bool:
    """Whether a wanted source is at or below a node."""
    return any(isinstance(n, Source) and (sources is None or n.name in sources) for n in walk(node))


class _Tracer:
    """One walk from a plan's result down to its sources."""

    def __init__(self, fresh: Fresh, sources: frozenset[str] | None, settle: Settle) -> None:
        self.fresh = fresh
        self.sources = sources
        self.settle = settle

    def trace(self, node: Node, asked: Asked, role: Role) -> list[Edges]:
        if not reaches(node, self.sources):
            return []
        match node:
            case Source():
                edges = pick(asked.plan, (asked.tag, asked.keys[0]), (EDGE_TAG, EDGE_ID))
                return [Edges(node.name, role, edges)]
            case Values():
                return []
            case Project() | Filter() | Sort() | Limit() | Watermark() | Deduplicate():
                return self.trace(node.child, asked, role)
            case Generate() | EventWindow():
                return self.trace(node.child, self.first(node.child, asked), role)
            case Union():
                return self.union(node, asked, role)
            case Join():
                return self.join(node, asked, role)
            case Group():
                parts = [
                    part
                    for key in node.keys
                    for part in flatten(key.expression, type_of(key.expression, node.child.schema), label(node))
                ]
                return self.merged(node.child, tuple(parts), asked, role)
            case Distinct():
                return self.merged(node.child, flatten_schema(node.schema, label(node)), asked, role)
            case SetOperation():
                inputs = (node.left,) if node.kind == "except" else (node.left, node.right)
                return [
                    edges
                    for child in inputs
                    for edges in self.merged(child, flatten_schema(child.schema, label(node)), asked, role)
                ]
            case Analytic():
                return self.analytic(node, asked, role)
            case OpaqueStep():
                return self.opaque(node, asked, role)
            case _:
                assert_never(node)

    def size(self, node: Node) -> int:
        return len(identify(node, Fresh()).keys)

    def slice(self, asked: Asked, keys: tuple[str, ...]) -> Asked:
        return Asked(pick(asked.plan, (asked.tag, *keys), (asked.tag, *keys)), asked.tag, keys)

    def first(self, child: Node, asked: Asked) -> Asked:
        """Only the input's own part of the identity."""
        return self.slice(asked, asked.keys[: self.size(child)])

    def where(self, asked: Asked, condition: Expression) -> Asked:
        return replace(asked, plan=Filter(asked.plan, condition))

    def union(self, node: Union, asked: Asked, role: Role) -> list[Edges]:
        found: list[Edges] = []
        start = 1
        for index, child in enumerate(node.children):
            count = self.size(child)
            mine = Call("=", (Column(asked.keys[0]), Literal(index, INT)))
            if reaches(child, self.sources):
                here = self.slice(self.where(asked, mine), asked.keys[start : start + count])
                found += self.trace(child, here, role)
            start += count
        return found

    def join(self, node: Join, asked: Asked, role: Role) -> list[Edges]:
        if node.kind == "anti":
            return self.trace(node.left, asked, role)
        if node.kind == "semi":
            found = self.trace(node.left, asked, role)
            if reaches(node.right, self.sources):
                found += self.trace(node.right, self.matches(node, asked), "condition")
            return found
        found = []
        start = 0
        for side, optional in (
            (node.left, node.kind in ("right", "full")),
            (node.right, node.kind in ("left", "full")),
        ):
            here = asked
            if optional:
                there = Call("<=>", (Column(asked.keys[start]), Literal(True, BOOLEAN)))
                here = self.where(asked, there)
                start += 1
            count = self.size(side)
            found += self.trace(side, self.slice(here, asked.keys[start : start + count]), role)
            start += count
        return found

    def matches(self, node: Join, asked: Asked) -> Asked:
        """For asked rows of a semi join, the right rows that let them pass."""
        left, right = identify(node.left, self.fresh), identify(node.right, self.fresh)
        wanted = self.wanted(asked, left.keys, left.plan)
        cut = restrict(left.plan, wanted)
        asked_left = join_same(asked.plan, cut, asked.keys, left.keys)
        pairs = Join(asked_left, right.plan, "inner", node.condition)
        return self.settle(self.slice(Asked(pairs, asked.tag, right.keys), right.keys))

    def merged(self, child: Node, parts: tuple[Expression, ...], asked: Asked, role: Role) -> list[Edges]:
        """Every input row whose parts equal the asked key."""
        if not reaches(child, self.sources):
            return []
        below = identify(child, self.fresh)
        own = self.fresh.names("m", len(parts))
        matched = Project(
            below.plan,
            (
                *(Named(k, Column(k)) for k in below.keys),
                *(Named(m, e) for m, e in zip(own, parts, strict=True)),
            ),
        )
        cut = restrict(matched, self.wanted(asked, own, matched))
        joined = join_same(asked.plan, cut, asked.keys, own)
        here = self.slice(Asked(joined, asked.tag, below.keys), below.keys)
        # Where all that follows is passing identities on to one source, values would cut nothing down.
        return self.trace(child, self.settle(here) if self.meets_more(child) else here, role)

    def meets_more(self, node: Node) -> bool:
        """Whether a rule at or below a node computes anything, or more than one source is there to be traced."""
        below = list(walk(node))
        wanted = [n for n in below if isinstance(n, Source) and (self.sources is None or n.name in self.sources)]
        computing = (Group, Distinct, SetOperation, Analytic)
        return len(wanted) != 1 or any(
            isinstance(n, computing)
            or (isinstance(n, Join) and n.kind == "semi")
            or (isinstance(n, OpaqueStep) and n.kind != "per_row")
            for n in below
        )

    def analytic(self, node: Analytic, asked: Asked, role: Role) -> list[Edges]:
        """The row itself and the rows of its frames."""
        found = self.trace(node.child, asked, role)
        row = rank_rows(node, self.fresh)
        row = replace(row, plan=restrict(row.plan, self.wanted(asked, row.keys, row.plan)))
        # A rank is only right among all rows of the partition: the restriction by identity
        # must not reach below it, and does not, because only partition keys pass through.
        here = join_same(asked.plan, row.plan, asked.keys, row.keys)
        for frame in frames_of(node):
            other = rank_rows(node, self.fresh)
            pairs = Join(here, other.plan, "inner", in_frame(node, row, other, frame))
            below = self.slice(Asked(pairs, asked.tag, other.keys), other.keys)
            found += self.trace(node.child, self.settle(below), role)
        return found

    def opaque(self, node: OpaqueStep, asked: Asked, role: Role) -> list[Edges]:
        match node.kind:
            case "per_row":
                return self.trace(node.child, self.first(node.child, asked), role)
            case "black_box":
                return self.merged(node.child, (), replace(asked, keys=()), role)
            case "per_group":
                places = key_places(node)
                keys = tuple(asked.keys[i] for i in places)
                parts = [
                    part
                    for key in node.keys
                    for part in flatten(Column(key), types_of(node.child, (key,))[0], label(node))
                ]
                return self.merged(node.child, tuple(parts), replace(asked, keys=keys), role)
            case _:
                assert_never(node.kind)

    def wanted(self, asked: Asked, columns: tuple[str, ...], plan: Node) -> list[Wanted]:
        """What the candidates' columns must be, where the asked values are at hand."""
        if not isinstance(asked.plan, Values):
            return []
        place = {name: i for i, name in enumerate(names(asked.plan))}
        types = types_of(plan, columns)
        found: list[Wanted] = []
        for key, column, type in zip(asked.keys, columns, types, strict=True):
            values = {row[place[key]] for row in asked.plan.rows}
            wanted = wanted_values(Column(column), type, values)
            if wanted is not None:
                found.append(wanted)
        return found


def key_places(node: OpaqueStep) -> list[int]:
    """Where in the identity of a per-group step's rows the group's keys stand."""
    places: list[int] = []
    position = 0
    spans: dict[str, range] = {}
    for field in node.fields:
        count = len(flatten(Column(field.name), field.type, label(node)))
        spans[field.name] = range(position, position + count)
        position += count
    for key in node.keys:
        if key not in spans:
            raise NotTraceable(
                f"{label(node)} cannot be traced",
                detail=f"its results do not keep the key {key!r}",
                hint="let the function return its key columns under their own names",
            )
        places.extend(spans[key])
    return places
