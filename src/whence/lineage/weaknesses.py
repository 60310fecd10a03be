"""Weaknesses: why recomputing a plan later could give other rows or other lineage.

A plan without weaknesses may be captured lazily: the same sources give the same rows, and each
row the same lineage. What depends on the order in which rows are met, or on chance, does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from whence.lineage.frames import frames_of
from whence.plan import functions
from whence.plan.expressions import (
    Aggregate,
    AggregateCall,
    Column,
    Expression,
    is_deterministic,
)
from whence.plan.nodes import (
    Analytic,
    Deduplicate,
    Filter,
    Generate,
    Group,
    Join,
    Limit,
    Node,
    OpaqueStep,
    Order,
    Project,
    Sort,
    Watermark,
    kind_of,
    label,
    names,
    walk,
)


@dataclass(frozen=True, slots=True)
class Weakness:
    """A step whose result is not settled by its sources, and why."""

    step: str
    reason: str


def weaknesses(plan: Node) -> tuple[Weakness, ...]:
    """Every reason why a plan should not be captured lazily; none means it is sound."""
    found: list[Weakness] = []
    for node in walk(plan):
        for reason in _reasons(node):
            found.append(Weakness(node.step or kind_of(node), f"{label(node)}: {reason}"))
    return tuple(found)


def _reasons(node: Node) -> list[str]:
    reasons = ["an expression gives another value each time" for e in _expressions(node) if not is_deterministic(e)][:1]
    match node:
        case Limit():
            if node.count == 0 or (node.count is None and node.offset == 0):
                return reasons
            if not _total(_orders_below(node.child), names(node.child)):
                reasons.append("which rows it keeps depends on the order they are met in")
        case Deduplicate():
            if not set(names(node)) <= set(node.keys):
                reasons.append("which of the equal rows it keeps depends on the order they are met in")
        case Group():
            reasons += [r for a in node.aggregates for r in _order_dependent(a.aggregate)][:1]
        case Analytic():
            reasons += [r for c in node.columns for r in _order_dependent(c.function)][:1]
            by_place = any(f.unit == "rows" and (f.start, f.end) != (None, None) for f in frames_of(node))
            numbered = any(
                isinstance(c.function, AggregateCall) and c.function.function == "row_number" for c in node.columns
            )
            fixed = tuple(Order(e) for e in node.partition)
            if (by_place or numbered) and not _total((*node.orders, *fixed), names(node.child)):
                reasons.append("among rows of equal order, which come first is left open")
        case OpaqueStep():
            if not node.deterministic:
                reasons.append("the function may give other rows each time")
        case _:
            pass
    return reasons


def _order_dependent(aggregate: Aggregate) -> list[str]:
    if isinstance(aggregate, AggregateCall) and (aggregate.function in functions.ORDER_DEPENDENT_AGGREGATES):
        return [f"{aggregate.function} depends on the order rows are met in"]
    return []


def _total(orders: tuple[Order, ...], columns: tuple[str, ...]) -> bool:
    """Whether rows of equal order are equal in all columns."""
    by = {o.expression.name for o in orders if isinstance(o.expression, Column)}
    return set(columns) <= by


def _orders_below(node: Node) -> tuple[Order, ...]:
    """The order in which a limit meets its rows."""
    match node:
        case Sort():
            return node.orders
        case Filter() | Watermark():
            return _orders_below(node.child)
        case _:
            return ()


def _expressions(node: Node) -> list[Expression | Aggregate]:
    match node:
        case Project():
            return [c.expression for c in node.columns]
        case Filter():
            return [node.condition]
        case Generate():
            return [node.expression]
        case Join():
            return [] if node.condition is None else [node.condition]
        case Group():
            return [*(k.expression for k in node.keys), *(a.aggregate for a in node.aggregates)]
        case Sort():
            return [o.expression for o in node.orders]
        case Analytic():
            return [
                *node.partition,
                *(o.expression for o in node.orders),
                *(c.function for c in node.columns),
            ]
        case _:
            return []
