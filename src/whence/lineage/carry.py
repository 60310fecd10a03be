"""Carry: the user's plan with every row's source ids beside it, for eager capture.

Each source that reaches a row has one annotation column: its id while that is a single one, an
array of ids once rows were merged or a source met itself. Arrays may hold an id twice and null
(readers deduplicate); they are never unnested in the running query. The carried plan has as many
sources and non-deterministic expressions as the user's. What cannot be carried says so by name.
Where annotations go is in ``annotations``; here is only what lists of ids do on the way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from whence.lineage.annotations import Annotator, Framed, Gathered
from whence.lineage.back import Role
from whence.lineage.frames import frames_of
from whence.lineage.fresh import Fresh, pick
from whence.plan.expressions import AggregateCall, Call, Cast, Column, Expression, Literal
from whence.plan.hidden import PREFIX
from whence.plan.nodes import Analytic, Named, NamedAggregate, NamedAnalytic, Node, names
from whence.plan.types import BIGINT, ArrayType

IDS = ArrayType(BIGINT)
EMPTY_IDS = Cast(Call("array", ()), IDS)


@dataclass(frozen=True, slots=True)
class Carry:
    """An annotation column: which source's ids it holds, in which role, one or many."""

    column: str
    source: str
    role: Role
    many: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)


@dataclass(frozen=True, slots=True)
class Carried:
    """A plan that gives the user's columns and then annotation columns."""

    plan: Node
    columns: tuple[Carry, ...]


def carry(plan: Node) -> Carried:
    """The plan with its rows' source ids; the user's columns first, in their order."""
    fresh = Fresh()
    carried = Annotator(Lists(fresh), fresh).annotate(plan)
    final = tuple(replace(c, column=f"{PREFIX}c{i}") for i, c in enumerate(carried.annotations))
    old = (*names(plan), *carried.columns)
    new = (*names(plan), *(c.column for c in final))
    return Carried(pick(carried.plan, old, new), final)


@dataclass(frozen=True, slots=True)
class Lists:
    """The form of annotations that are ids and lists of ids."""

    fresh: Fresh
    refusal: str = "captured eagerly"

    def source(self, name: str, column: str) -> Carry:
        return Carry(column, name, "value", False)

    def condition(self, annotation: Carry) -> Carry:
        return replace(annotation, role="condition")

    def gather(self, annotation: Carry) -> Gathered[Carry]:
        name = self.fresh.name("c")
        collected = NamedAggregate(name, AggregateCall("collect_list", (Column(annotation.column),)))
        # What was collected may be arrays already.
        flat = (Named(name, Call("flatten", (Column(name),))),) if annotation.many else ()
        return Gathered(replace(annotation, column=name, many=True), (collected,), flat)

    def together(self, parts: list[Carry]) -> tuple[Carry, tuple[Named, ...]]:
        name = self.fresh.name("c")
        lists = tuple(
            Call("coalesce", (Column(p.column), EMPTY_IDS)) if p.many else Call("array", (Column(p.column),))
            for p in parts
        )
        return replace(parts[0], column=name, many=True), (Named(name, Call("array_concat", lists)),)

    def line_up(self, parts: list[Carry | None]) -> tuple[Carry, list[tuple[Named, ...]]]:
        present = [p for p in parts if p is not None]
        made = replace(present[0], column=self.fresh.name("c"), many=any(p.many for p in present))
        return made, [(Named(made.column, self.as_shape(p, made.many)),) for p in parts]

    def as_shape(self, part: Carry | None, many: bool) -> Expression:
        if part is None:
            return Literal(None, IDS if many else BIGINT)
        value = Column(part.column)
        return Call("array", (value,)) if many and not part.many else value

    def frames(self, node: Analytic, annotation: Carry) -> Framed[Carry]:
        collect = AggregateCall("collect_list", (Column(annotation.column),))
        made = tuple(NamedAnalytic(self.fresh.name("c"), collect, frame) for frame in frames_of(node))
        own: Expression = Column(annotation.column)
        own = Call("coalesce", (own, EMPTY_IDS)) if annotation.many else Call("array", (own,))
        lists = [Call("flatten", (Column(m.name),)) if annotation.many else Column(m.name) for m in made]
        name = self.fresh.name("c")
        whole = Named(name, Call("array_concat", (own, *lists)))
        return Framed(replace(annotation, column=name, many=True), made, (whole,))
