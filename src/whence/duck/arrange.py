"""Plans whose steps look at the order of rows, rewritten so that the order stands in the plan.

SQL has no order to go by, so a limit moves down to the sort it means, and a deduplication becomes
the first row by row id within each key. Where the rows' order cannot be told the node stays as it
is, and ``lower`` refuses it. Plan to plan: no SQL here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from whence.lineage import Fresh
from whence.plan.expressions import AggregateCall, Call, Column, Expression, Literal, type_of
from whence.plan.hidden import PREFIX, ROW_ID
from whence.plan.nodes import (
    UP_TO_CURRENT,
    Analytic,
    Deduplicate,
    EventWindow,
    Filter,
    Generate,
    Join,
    Limit,
    Named,
    NamedAnalytic,
    Node,
    Order,
    Project,
    Sort,
    Source,
    Union,
    Values,
    Watermark,
    names,
    transform,
    walk,
)
from whence.plan.types import BIGINT, BOOLEAN, INT, DataType, Field


@dataclass(frozen=True, slots=True)
class Placed:
    """A plan with a node's columns and others beside them, and the order its rows are met in.

    No two rows are equal in the order.
    """

    plan: Node
    orders: tuple[Order, ...]


def arrange(plan: Node) -> Node:
    """The plan with its limits on sorts and its deduplications by row id, as far as that can be.

    Watermarks, which mean nothing in a batch, are left out.
    """
    fresh = Fresh()
    # Rewritten plans have hidden names already, and end them in numbers as well.
    hidden = (re.search(r"\d+\Z", n) for node in walk(plan) for n in names(node) if n.startswith(PREFIX))
    fresh.count = max((int(found[0]) for found in hidden if found), default=0)

    def change(node: Node) -> Node:
        match node:
            case Limit():
                return _limit_on_sort(node)
            case Deduplicate() if not node.within_watermark:
                return _first_of_each(node, fresh)
            case Watermark():  # promises nothing in a batch
                return node.child
            case _:
                return node

    return transform(plan, change)


def _limit_on_sort(node: Limit) -> Node:
    """The limit below what does not change which rows come first."""
    child = node.child
    match child:
        case Project():
            return replace(child, child=_limit_on_sort(replace(node, child=child.child)))
        case Limit():
            left = None if child.count is None else max(child.count - node.offset, 0)
            count = left if node.count is None else (node.count if left is None else min(left, node.count))
            return _limit_on_sort(replace(child, count=count, offset=child.offset + node.offset))
        case Filter(child=Sort() as sort):
            return replace(node, child=replace(sort, child=replace(child, child=sort.child)))
        case _:
            return node


def _first_of_each(node: Deduplicate, fresh: Fresh) -> Node:
    placed = _placed(node.child, fresh)
    if placed is None:
        return node
    number = fresh.name("n")
    first = NamedAnalytic(number, AggregateCall("row_number"), UP_TO_CURRENT)
    keys = tuple(Column(k) for k in node.keys)
    numbered = Analytic(placed.plan, keys, placed.orders, (first,), step=node.step)
    kept = Filter(numbered, Call("=", (Column(number), Literal(1, INT))), step=node.step)
    return Project(kept, tuple(Named(n, Column(n)) for n in names(node)), step=node.step)


def _placed(node: Node, fresh: Fresh) -> Placed | None:
    """The node with the order of its rows, where that follows from row ids and positions."""
    match node:
        case Source():
            return _placed_source(node, fresh)
        case Values():
            place = fresh.name("o")
            rows = tuple((*row, n) for n, row in enumerate(node.rows))
            return Placed(
                replace(node, fields=(*node.fields, Field(place, BIGINT)), rows=rows), (Order(Column(place)),)
            )
        case Project():
            below = _placed(node.child, fresh)
            if below is None:
                return None
            own = fresh.names("o", len(below.orders))
            more = tuple(Named(n, o.expression) for n, o in zip(own, below.orders, strict=True))
            orders = tuple(replace(o, expression=Column(n)) for n, o in zip(own, below.orders, strict=True))
            return Placed(replace(node, child=below.plan, columns=node.columns + more), orders)
        case Filter() | Analytic():
            below = _placed(node.child, fresh)
            return None if below is None else Placed(replace(node, child=below.plan), below.orders)
        case Sort():
            below = _placed(node.child, fresh)
            return None if below is None else Placed(replace(node, child=below.plan), node.orders + below.orders)
        case EventWindow():
            below = _placed(node.child, fresh)
            if below is None:
                return None
            return Placed(replace(node, child=below.plan), (*below.orders, Order(Column(node.name))))
        case Generate():
            below = _placed(node.child, fresh)
            if below is None:
                return None
            place = node.position or fresh.name("o")
            return Placed(replace(node, child=below.plan, position=place), (*below.orders, Order(Column(place))))
        case Union():
            return _placed_union(node, fresh)
        case Join():
            return _placed_join(node, fresh)
        case _:  # groups and sets have no order of their own
            return None


def _placed_source(node: Source, fresh: Fresh) -> Placed:
    key = fresh.name("o")
    has = any(f.name == ROW_ID for f in node.fields)
    whole = node if has else replace(node, fields=(*node.fields, Field(ROW_ID, BIGINT)))
    columns = (*(Named(n, Column(n)) for n in names(node)), Named(key, Column(ROW_ID)))
    return Placed(Project(whole, columns, step=node.step), (Order(Column(key)),))


def _placed_union(node: Union, fresh: Fresh) -> Placed | None:
    branches = []
    for child in node.children:
        below = _placed(child, fresh)
        if below is None:
            return None
        branches.append(below)
    branch = fresh.name("o")
    own = [fresh.names("o", len(b.orders)) for b in branches]
    orders = [Order(Column(branch))]
    inputs: list[Node] = []
    for keys, below in zip(own, branches, strict=True):
        orders += [replace(o, expression=Column(k)) for k, o in zip(keys, below.orders, strict=True)]
    for index, (child, below) in enumerate(zip(node.children, branches, strict=True)):
        columns = [Named(to, Column(n)) for to, n in zip(names(node), names(child), strict=True)]
        columns.append(Named(branch, Literal(index, INT)))
        for other, (keys, of) in enumerate(zip(own, branches, strict=True)):
            for key, order in zip(keys, of.orders, strict=True):
                mine: Expression = order.expression if other == index else Literal(None, _type(of.plan, order))
                columns.append(Named(key, mine))
        inputs.append(Project(below.plan, tuple(columns), step=node.step))
    return Placed(replace(node, children=tuple(inputs)), tuple(orders))


def _type(node: Node, order: Order) -> DataType:
    return type_of(order.expression, node.schema)


def _placed_join(node: Join, fresh: Fresh) -> Placed | None:
    left = _placed(node.left, fresh)
    if left is None:
        return None
    if node.kind in ("semi", "anti"):
        return Placed(replace(node, left=left.plan), left.orders)
    right = _placed(node.right, fresh)
    if right is None:
        return None
    orders = left.orders
    plan = left.plan
    if node.kind in ("right", "full"):
        # Right rows that nothing matches come last.
        present = fresh.name("o")
        kept = (*(Named(n, Column(n)) for n in names(plan)), Named(present, Literal(True, BOOLEAN)))
        plan = Project(plan, kept, step=node.step)
        orders = (Order(Column(present), nulls_first=False), *orders)
    return Placed(replace(node, left=plan, right=right.plan), (*orders, *right.orders))
