"""Identify: the same rows, with columns that say which derivation each row is.

Two rows with equal identity have equal values and equal lineage; two derivations with different
lineage have different identities. A source row is known by its row id, a joined row by its
partners, a group by its keys, a generated row by its origin and position, a distinct row by its
values. Everything a question does, it does with identities: they are small, and they survive
filters and projections that drop the values. One rule a node kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from whence.lineage.fresh import Fresh, flatten, flatten_schema, keep, with_row_id
from whence.plan.expressions import Column, Expression, Literal, Member, Opaque
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
from whence.plan.types import BOOLEAN, INT, DataType, StructType


@dataclass(frozen=True, slots=True)
class Identified:
    """A plan that gives a node's columns and, beside them, the columns of the rows' identity."""

    plan: Node
    keys: tuple[str, ...]

    @property
    def types(self) -> tuple[DataType, ...]:
        """The types of the identity's columns."""
        found = {f.name: f.type for f in self.plan.schema}
        return tuple(found[k] for k in self.keys)


def identify(node: Node, fresh: Fresh) -> Identified:
    """The node with its rows' identity. Columns are kept by name; their order may change."""
    match node:
        case Source():
            key = fresh.name("k")
            columns = tuple(Named(n, Column(n)) for n in names(node))
            return Identified(Project(with_row_id(node), (*columns, Named(key, Column(ROW_ID)))), (key,))
        case Values() | Distinct() | SetOperation():
            return _by_values(node, flatten_schema(node.schema, label(node)), fresh)
        case Project():
            below = identify(node.child, fresh)
            kept = tuple(Named(k, Column(k)) for k in below.keys)
            return Identified(replace(node, child=below.plan, columns=node.columns + kept), below.keys)
        case Filter() | Sort() | Limit() | Watermark() | Deduplicate() | Analytic():
            below = identify(node.child, fresh)
            return Identified(replace(node, child=below.plan), below.keys)
        case Generate():
            return _identify_generate(node, fresh)
        case EventWindow():
            below = identify(node.child, fresh)
            start = window_start(node)
            key = fresh.name("k")
            plan = keep(replace(node, child=below.plan), Named(key, start))
            return Identified(plan, (*below.keys, key))
        case Union():
            return _identify_union(node, fresh)
        case Join():
            return _identify_join(node, fresh)
        case Group():
            parts = tuple(
                part
                for key in node.keys
                for part in flatten(
                    Column(key.name),
                    next(f.type for f in node.schema if f.name == key.name),
                    label(node),
                )
            )
            return _by_values(node, parts, fresh)
        case OpaqueStep(kind="per_row"):
            below = identify(node.child, fresh)
            carried = replace(node, child=below.plan, carried=(*node.carried, *below.keys))
            parts = flatten_schema(node.fields, label(node))
            own = fresh.names("k", len(parts))
            plan = keep(carried, *(Named(k, e) for k, e in zip(own, parts, strict=True)))
            return Identified(plan, (*below.keys, *own))
        case OpaqueStep():
            return _by_values(node, flatten_schema(node.schema, label(node)), fresh)
        case _:
            assert_never(node)


def window_start(node: EventWindow) -> Expression:
    """What tells a row's windows apart: the start, or whatever the window is stamped with."""
    column = Column(node.name)
    stamped = node.schema[-1].type
    return Member(column, "start") if isinstance(stamped, StructType) else column


def _by_values(node: Node, parts: tuple[Expression, ...], fresh: Fresh) -> Identified:
    keys = fresh.names("k", len(parts))
    return Identified(keep(node, *(Named(k, e) for k, e in zip(keys, parts, strict=True))), keys)


def _identify_generate(node: Generate, fresh: Fresh) -> Identified:
    below = identify(node.child, fresh)
    if isinstance(node.expression, Opaque):  # it may not count: its values tell rows apart
        made = replace(node, child=below.plan)
        parts = flatten_schema(node.columns, label(node))
        own = fresh.names("k", len(parts))
        plan = keep(made, *(Named(k, e) for k, e in zip(own, parts, strict=True)))
        return Identified(plan, (*below.keys, *own))
    key = fresh.name("k")
    position = node.position or fresh.name("p")
    counted = replace(node, child=below.plan, position=position)
    return Identified(keep(counted, Named(key, Column(position))), (*below.keys, key))


def _identify_union(node: Union, fresh: Fresh) -> Identified:
    branches = [identify(child, fresh) for child in node.children]
    branch_key = fresh.name("k")
    keys = [fresh.names("k", len(b.keys)) for b in branches]
    inputs: list[Node] = []
    for index, (child, branch) in enumerate(zip(node.children, branches, strict=True)):
        columns = [Named(out, Column(mine)) for out, mine in zip(names(node), names(child), strict=True)]
        columns.append(Named(branch_key, Literal(index, INT)))
        for other, (theirs, of) in enumerate(zip(keys, branches, strict=True)):
            for name, old, type in zip(theirs, of.keys, of.types, strict=True):
                own: Expression = Column(old) if other == index else Literal(None, type)
                columns.append(Named(name, own))
        inputs.append(Project(branch.plan, tuple(columns)))
    flat = tuple(name for theirs in keys for name in theirs)
    return Identified(replace(node, children=tuple(inputs)), (branch_key, *flat))


def _identify_join(node: Join, fresh: Fresh) -> Identified:
    left = identify(node.left, fresh)
    if node.kind in ("semi", "anti"):
        return Identified(replace(node, left=left.plan), left.keys)
    right = identify(node.right, fresh)
    if node.kind in ("right", "full"):
        left = _present(left, fresh)
    if node.kind in ("left", "full"):
        right = _present(right, fresh)
    return Identified(replace(node, left=left.plan, right=right.plan), (*left.keys, *right.keys))


def _present(side: Identified, fresh: Fresh) -> Identified:
    """With a first key that is true: an unmatched row has null there, whatever its other keys."""
    key = fresh.name("k")
    return Identified(keep(side.plan, Named(key, Literal(True, BOOLEAN))), (key, *side.keys))
