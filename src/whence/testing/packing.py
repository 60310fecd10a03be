"""Many generated cases as one plan, so that one Spark job judges them all; and one failing case made small.

``pack`` puts cases side by side: a union in which each case has columns of its own and null elsewhere. Every row of the
packed plan has the values and the lineage it has in its case. ``shrink`` looks for a smaller case that still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from whence.plan.expressions import Column, Literal
from whence.plan.nodes import Named, Node, Project, Source, Union, children, names, sources, transform, walk
from whence.plan.types import INT
from whence.testing.strategies import PlanCase

CASE = "case_number"


def pack(cases: Sequence[PlanCase]) -> PlanCase:
    """One case that holds all of them; its first column says which case a row belongs to."""
    parts = [_apart(case, number) for number, case in enumerate(cases)]
    inputs = []
    for number, part in enumerate(parts):
        columns = [Named(CASE, Literal(number, INT))]
        for other_number, other in enumerate(parts):
            for field in other.plan.schema:
                value = Column(field.name) if other_number == number else Literal(None, field.type)
                columns.append(Named(f"c{other_number}_{field.name}", value))
        inputs.append(Project(part.plan, tuple(columns)))
    plan = inputs[0] if len(inputs) == 1 else Union(tuple(inputs))
    return PlanCase(plan, {name: rows for part in parts for name, rows in part.rows.items()})


def _apart(case: PlanCase, number: int) -> PlanCase:
    """The case with sources of its own name."""

    def renamed(node: Node) -> Node:
        return replace(node, name=f"{node.name}_{number}", step="") if isinstance(node, Source) else node

    return PlanCase(transform(case.plan, renamed), {f"{name}_{number}": rows for name, rows in case.rows.items()})


def shrink(case: PlanCase, fails: Callable[[PlanCase], bool], *, tries: int = 60) -> PlanCase:
    """A smaller case that fails too: parts of the plan, then fewer rows, until nothing smaller fails or tries end."""
    smaller: PlanCase | None = case
    while smaller is not None:
        case, smaller = smaller, None
        for candidate in _smaller(case):
            if tries == 0:
                return case
            tries -= 1
            if fails(candidate):
                smaller = candidate
                break
    return case


def _smaller(case: PlanCase) -> Iterator[PlanCase]:
    for node in walk(case.plan):
        if node is not case.plan and not isinstance(node, Source):
            yield _of(node, case)
    for node in walk(case.plan):
        for child in children(node):
            if names(child) == names(node) and child.schema == node.schema and node is not case.plan:
                yield _of(_without(case.plan, node, child), case)
    for name, rows in case.rows.items():
        for gone in range(len(rows)):
            yield PlanCase(case.plan, {**case.rows, name: rows[:gone] + rows[gone + 1 :]})


def _without(plan: Node, node: Node, child: Node) -> Node:
    """The plan with a node's place taken by its input."""
    target = node

    def change(candidate: Node) -> Node:
        return child if candidate is target else candidate

    return transform(plan, change)


def _of(plan: Node, case: PlanCase) -> PlanCase:
    return PlanCase(plan, {name: case.rows[name] for name in sources(plan)})
