"""Forward: from source rows to the result rows they made, one rule a node kind.

A rule takes ``Reached``, a relation of (source row id, identity of a row of an input), and gives
the same for the node. Identities that only grow (joins, generated rows, windows) are completed
from the identified node; merged rows get the key of their group. Rows that a filter drops on the way are
lost where the identity is completed, at the latest at the top: ``trace_forward`` ends with the
identified plan itself, so what it gives are rows that exist, with all their columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from whence.lineage.back import Role, key_places
from whence.lineage.frames import frames_of, in_frame, rank_rows
from whence.lineage.fresh import Fresh, flatten, flatten_schema, join_same, pick, types_of
from whence.lineage.identify import Identified, identify
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
)
from whence.plan.types import BIGINT, BOOLEAN, INT, Field

SOURCE_ID = f"{PREFIX}source_id"


@dataclass(frozen=True, slots=True)
class Reached:
    """A relation: a source row's id, and the identity of a row that it contributed to."""

    plan: Node
    id: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """A plan whose rows are a source row's id and a result row it contributed to.

    The result's own columns stand under their names, its identity in ``keys``, the id in ``id``.
    A pair may come more than once.
    """

    source: str
    role: Role
    plan: Node
    id: str
    keys: tuple[str, ...]


Settle = Callable[[Reached], Reached]


def reach_values(ids: list[int]) -> Reached:
    """Source rows given by their ids."""
    key = f"{PREFIX}reached0"
    fields = (Field(SOURCE_ID, BIGINT), Field(key, BIGINT))
    return Reached(Values(fields, tuple((i, i) for i in ids)), SOURCE_ID, (key,))


def trace_forward(
    plan: Node, source: str, start: Reached, *, settle: Settle = lambda reached: reached
) -> tuple[Made, ...]:
    """The result rows that source rows contributed to, one plan for each way there."""
    tracer = _Tracer(Fresh(), source, start, settle)
    made: list[Made] = []
    for reached, role in tracer.reach(plan):
        top = identify(plan, tracer.fresh)
        cut = restrict(top.plan, tracer.wanted(reached, top.keys, top.plan))
        joined = join_same(reached.plan, cut, reached.keys, top.keys)
        columns = (reached.id, *names(plan), *top.keys)
        made.append(Made(source, role, pick(joined, columns, columns), reached.id, top.keys))
    return tuple(made)


Ways = list[tuple[Reached, Role]]


class _Tracer:
    """One walk from a source up to a plan's result."""

    def __init__(self, fresh: Fresh, source: str, start: Reached, settle: Settle) -> None:
        self.fresh = fresh
        self.source = source
        self.start = start
        self.settle = settle

    def reach(self, node: Node) -> Ways:
        """Every way from the source's rows to rows of the node."""
        match node:
            case Source():
                return [(self.start, "value")] if node.name == self.source else []
            case Values():
                return []
            case Project() | Filter() | Sort() | Limit() | Watermark() | Deduplicate():
                return self.reach(node.child)
            case Generate() | EventWindow():
                return [self.grown(node, 0, w) for w in self.reach(node.child)]
            case Union():
                return self.union(node)
            case Join():
                return self.join(node)
            case Group():
                parts = [
                    part
                    for key in node.keys
                    for part in flatten(key.expression, type_of(key.expression, node.child.schema), label(node))
                ]
                return [self.merged(node.child, tuple(parts), w) for w in self.reach(node.child)]
            case Distinct():
                parts_of_row = flatten_schema(node.schema, label(node))
                return [self.merged(node.child, parts_of_row, w) for w in self.reach(node.child)]
            case SetOperation():
                inputs = (node.left,) if node.kind == "except" else (node.left, node.right)
                return [
                    self.merged(child, flatten_schema(child.schema, label(node)), way)
                    for child in inputs
                    for way in self.reach(child)
                ]
            case Analytic():
                return self.analytic(node)
            case OpaqueStep():
                return self.opaque(node)
            case _:
                assert_never(node)

    def wanted(self, reached: Reached, columns: tuple[str, ...], plan: Node) -> list[Wanted]:
        """What the candidates' columns must be, where the reached identities are at hand."""
        if not isinstance(reached.plan, Values):
            return []
        place = {name: i for i, name in enumerate(names(reached.plan))}
        found: list[Wanted] = []
        types = types_of(plan, columns)
        for key, column, type in zip(reached.keys, columns, types, strict=True):
            values = {row[place[key]] for row in reached.plan.rows}
            wanted = wanted_values(Column(column), type, values)
            if wanted is not None:
                found.append(wanted)
        return found

    def taken(self, plan: Node, reached: Reached, keys: tuple[str, ...]) -> Reached:
        columns = (reached.id, *keys)
        return self.settle(Reached(pick(plan, columns, columns), reached.id, keys))

    def meet(self, reached: Reached, rows: Node, keys: tuple[str, ...]) -> Node:
        """The reached identities joined with rows that have them."""
        cut = restrict(rows, self.wanted(reached, keys, rows))
        return join_same(reached.plan, cut, reached.keys, keys)

    def grown(
        self, node: Node, start: int, way: tuple[Reached, Role], present: int | None = None
    ) -> tuple[Reached, Role]:
        """Complete an identity of which an input's part, from ``start`` on, is known.

        Where that input may be missing from a row, the key at ``present`` says if it is there: an unmatched row has
        null in all the input's keys, and so would look like a row whose keys are null.
        """
        reached, role = way
        whole = identify(node, self.fresh)
        rows = whole.plan
        if present is not None:
            rows = Filter(rows, Call("<=>", (Column(whole.keys[present]), Literal(True, BOOLEAN))))
        mine = whole.keys[start : start + len(reached.keys)]
        return self.taken(self.meet(reached, rows, mine), reached, whole.keys), role

    def union(self, node: Union) -> Ways:
        inputs = [identify(child, Fresh()) for child in node.children]
        ways: Ways = []
        for index, child in enumerate(node.children):
            for reached, role in self.reach(child):
                branch = self.fresh.name("k")
                columns = [Named(reached.id, Column(reached.id)), Named(branch, Literal(index, INT))]
                keys = [branch]
                for other, identified in enumerate(inputs):
                    own = iter(reached.keys)
                    for type in identified.types:
                        name = self.fresh.name("k")
                        value: Expression = Column(next(own)) if other == index else Literal(None, type)
                        columns.append(Named(name, value))
                        keys.append(name)
                plan = Project(reached.plan, tuple(columns))
                ways.append((self.settle(Reached(plan, reached.id, tuple(keys))), role))
        return ways

    def join(self, node: Join) -> Ways:
        if node.kind == "anti":
            return self.reach(node.left)
        if node.kind == "semi":
            ways = self.reach(node.left)
            ways += [(self.let_pass(node, r), "condition") for r, _ in self.reach(node.right)]
            return ways
        left_optional, right_optional = node.kind in ("right", "full"), node.kind in ("left", "full")
        left = 1 if left_optional else 0
        marker = left + len(identify(node.left, Fresh()).keys)
        right = marker + (1 if right_optional else 0)
        return [self.grown(node, left, w, 0 if left_optional else None) for w in self.reach(node.left)] + [
            self.grown(node, right, w, marker if right_optional else None) for w in self.reach(node.right)
        ]

    def let_pass(self, node: Join, reached: Reached) -> Reached:
        """The left rows of a semi join that reached right rows let pass."""
        left, right = identify(node.left, self.fresh), identify(node.right, self.fresh)
        here = self.meet(reached, right.plan, right.keys)
        # The condition names both sides; the reached columns are hidden and clash with neither.
        pairs = Join(left.plan, here, "inner", node.condition)
        return self.taken(pairs, reached, left.keys)

    def merged(self, child: Node, parts: tuple[Expression, ...], way: tuple[Reached, Role]) -> tuple[Reached, Role]:
        """The key of the group that reached rows fell into."""
        reached, role = way
        below = identify(child, self.fresh)
        own = self.fresh.names("m", len(parts))
        keyed = Project(
            below.plan,
            (
                *(Named(k, Column(k)) for k in below.keys),
                *(Named(m, e) for m, e in zip(own, parts, strict=True)),
            ),
        )
        return self.taken(self.meet(reached, keyed, below.keys), reached, own), role

    def analytic(self, node: Analytic) -> Ways:
        ways: Ways = []
        for reached, role in self.reach(node.child):
            ways.append((reached, role))
            for frame in frames_of(node):
                row, other = rank_rows(node, self.fresh), rank_rows(node, self.fresh)
                here = self.meet(reached, other.plan, other.keys)
                pairs = Join(row.plan, here, "inner", in_frame(node, row, other, frame))
                ways.append((self.taken(pairs, reached, row.keys), role))
        return ways

    def opaque(self, node: OpaqueStep) -> Ways:
        below = self.reach(node.child)
        match node.kind:
            case "per_row":
                return [self.grown(node, 0, way) for way in below]
            case "black_box":
                return [(self.complete(node, r, (), replace(r, keys=())), role) for r, role in below]
            case "per_group":
                ways: Ways = []
                for way in below:
                    parts = [
                        part
                        for key in node.keys
                        for part in flatten(Column(key), types_of(node.child, (key,))[0], label(node))
                    ]
                    keyed, role = self.merged(node.child, tuple(parts), way)
                    places = tuple(key_places(node))
                    ways.append((self.complete(node, way[0], places, keyed), role))
                return ways
            case _:
                assert_never(node.kind)

    def complete(self, node: Node, origin: Reached, places: tuple[int, ...], known: Reached) -> Reached:
        """The rows of a step whose identity holds the known keys at some places."""
        whole: Identified = identify(node, self.fresh)
        mine = tuple(whole.keys[i] for i in places)
        return self.taken(self.meet(known, whole.plan, mine), origin, whole.keys)
