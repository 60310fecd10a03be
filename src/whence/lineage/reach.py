"""Reach: how long a row can still matter to a step.

A reach is a stretch of event time in microseconds, or unbounded. Reaches add up along a path; a
source's reach is the longest over all its paths. A row is final once the watermark has passed
its time plus its reach; below something unbounded it never is, and ``blame`` names that step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from whence.lineage.settle import event_times
from whence.plan.expressions import Column
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
)


@dataclass(frozen=True, slots=True)
class Reach:
    """So many microseconds, or unbounded (None) because of the step in ``blame``."""

    micros: int | None
    blame: str = ""

    def plus(self, other: Reach) -> Reach:
        """One after the other."""
        if self.micros is None:
            return self
        if other.micros is None:
            return other
        return Reach(self.micros + other.micros)

    def longest(self, other: Reach) -> Reach:
        """Whichever is longer."""
        if self.micros is None:
            return self
        if other.micros is None:
            return other
        return Reach(max(self.micros, other.micros))


NOTHING = Reach(0)


def reach_of(node: Node) -> Reach:
    """How long one of its input rows can still matter to a node on a stream."""
    match node:
        case (
            Source() | Values() | Project() | Filter() | Generate() | Union() | Watermark() | Sort()
        ):  # fmt: skip
            return NOTHING
        case EventWindow():
            return Reach(node.size)
        case Group():
            times = event_times(node.child)
            keyed = any(isinstance(k.expression, Column) and k.expression.name in times for k in node.keys)
            return NOTHING if keyed else Reach(None, label(node))
        case Deduplicate():
            timed = node.within_watermark or any(k in event_times(node.child) for k in node.keys)
            if node.within_watermark:
                return Reach(max(_delays(node.child), default=0))
            return NOTHING if timed else Reach(None, label(node))
        case Distinct():
            return NOTHING if event_times(node.child) else Reach(None, label(node))
        case OpaqueStep():
            return NOTHING if node.kind == "per_row" else Reach(None, label(node))
        case Join() | SetOperation() | Limit() | Analytic():
            return Reach(None, label(node))
        case _:
            assert_never(node)


def _delays(node: Node) -> list[int]:
    own = [node.delay] if isinstance(node, Watermark) else []
    return own + [d for child in children(node) for d in _delays(child)]


def source_reaches(plan: Node) -> dict[str, Reach]:
    """The reach of each source: the longest over all its paths to the result."""
    found: dict[str, Reach] = {}

    def visit(node: Node, above: Reach) -> None:
        here = above.plus(reach_of(node))
        if isinstance(node, Source):
            found[node.name] = found.get(node.name, NOTHING).longest(here)
        for child in children(node):
            visit(child, here)

    visit(plan, NOTHING)
    return found
