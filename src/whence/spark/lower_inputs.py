"""Lower inputs: the nodes whose rows Catalyst does not compute from expressions.

Sources, values written into the plan, watermarks, and opaque steps, which are the user's own Catalyst nodes. What is
computed from their rows is in `lower`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.errors import NotTraceable, UnknownSource
from whence.plan.hidden import PREFIX
from whence.plan.nodes import OpaqueStep, Source, Values, Watermark, label, names
from whence.spark.arrow import frame_of_rows
from whence.spark.jvm import ANALYSIS, LOGICAL, JavaObject, analyzed, items
from whence.spark.lower_columns import Lowered
from whence.spark.lower_expressions import unknown_part
from whence.spark.types import data_type

if TYPE_CHECKING:
    from whence.spark.lower import Lowerer


def lower_source(lowerer: Lowerer, node: Source) -> Lowered:
    df = lowerer.tables.get(node.name)
    if df is None:
        raise UnknownSource(
            f"no table for source {node.name!r}",
            detail="tables given: " + (", ".join(sorted(lowerer.tables)) or "none"),
            hint="give one DataFrame for each source of the plan",
        )
    known = lowerer.leaves.get(node.name)
    if known is None:
        plan = analyzed(df)
        given = {str(a.name()): a for a in items(plan.output())}
    else:
        # A second use has expression ids of its own.
        plan, given = _copy(lowerer, known[0])
    lowerer.leaves[node.name] = (plan, given)
    columns = {}
    for wanted in node.fields:
        attribute = given.get(wanted.name)
        if attribute is None:
            raise UnknownSource(
                f"the table of source {node.name!r} has no column {wanted.name!r}",
                detail="its columns: " + ", ".join(given),
                hint="give the columns that the plan's source declares",
            )
        if known is None and (type := data_type(attribute.dataType())) != wanted.type:
            raise NotTraceable(
                f"column {wanted.name!r} of source {node.name!r} has another type than the plan says",
                detail=f"the plan says {wanted.type}, the table has {type}",
                hint="give the table that the query read",
            )
        columns[wanted.name] = attribute
    tidy = list(columns) == list(given)
    return Lowered(plan, columns, {name: name for name in columns}, tidy)


def _copy(lowerer: Lowerer, plan: JavaObject) -> tuple[JavaObject, dict[str, JavaObject]]:
    """The same plan with fresh expression ids: what Spark does to the right side of a lowerer-join."""
    rule = lowerer.jvm.module(ANALYSIS + "DeduplicateRelations")
    both = lowerer.jvm.logical("Join", plan, plan, lowerer.join_type("cross"), lowerer.jvm.none(), lowerer.no_hint())
    fresh = rule.apply(both).right()
    return fresh, {str(a.name()): a for a in items(fresh.output())}


def lower_values(lowerer: Lowerer, node: Values) -> Lowered:
    if not node.rows or not node.fields:
        return _empty(lowerer, node)
    plan = analyzed(frame_of_rows(lowerer.jvm, node.fields, node.rows))
    columns = dict(zip(names(node), items(plan.output()), strict=True))
    labels = {name: f"c{place}" for place, name in enumerate(columns)}
    return Lowered(plan, columns, labels, labels == {n: n for n in columns})


def _empty(lowerer: Lowerer, node: Values) -> Lowered:
    if node.rows:
        # Rows without columns: only their number counts.
        plan = analyzed(lowerer.jvm.spark.range(len(node.rows)))
        return Lowered(plan, {}, {}, False)
    columns = {f.name: lowerer.attribute(f.name, f.type) for f in node.fields}
    plan = lowerer.jvm.construct(
        LOGICAL + "LocalRelation", lowerer.jvm.seq(columns.values()), lowerer.jvm.seq(()), False, lowerer.jvm.none()
    )
    return Lowered(plan, columns, {name: name for name in columns}, True)


def lower_watermark(lowerer: Lowerer, node: Watermark) -> Lowered:
    below = lowerer.lower(node.child)
    if not below.plan.isStreaming():
        return below
    # Only under a name of its own: withWatermark looks for names whatever their case.
    place = list(below.columns).index(node.column)
    labels = [f"c{n}" for n in range(len(below.columns))]
    parts = [lowerer.jvm.alias(a, n) for a, n in zip(below.columns.values(), labels, strict=True)]
    marked = lowerer.jvm.frame(lowerer.jvm.project(parts, below.plan)).withWatermark(
        labels[place], f"{node.delay} microseconds"
    )
    plan = analyzed(marked)
    return Lowered(
        plan,
        dict(zip(below.columns, items(plan.output()), strict=True)),
        dict(zip(below.columns, labels, strict=True)),
        False,
    )


def lower_opaque_step(lowerer: Lowerer, node: OpaqueStep) -> Lowered:
    handle = lowerer.handles.steps.get(node.key)
    if handle is None:
        raise unknown_part(node.key)
    below = lowerer.lower(node.child)
    given = [
        lowerer.jvm.alias(below.columns[name], attribute.name(), attribute.exprId())
        for attribute, name in handle.inputs
    ]
    extra = {
        name: lowerer.jvm.alias(below.columns[name], f"{PREFIX}carried_{i}") for i, name in enumerate(node.carried)
    }
    plan = lowerer.jvm.project([*given, *extra.values()], below.plan)
    for layer in reversed(handle.layout):
        plan = lowerer.jvm.with_children(layer, [plan])
    plan = lowerer.jvm.analyze(lowerer.jvm.with_children(handle.node, [plan]))
    found = {a.exprId().id(): a for a in items(plan.output())}
    for name, alias in extra.items():
        if alias.exprId().id() not in found:
            raise NotTraceable(
                f"{label(node)} does not pass its input's columns on",
                detail=f"{name!r} was to stand beside its results; the function's columns are fixed",
                hint='use capture="lazy", or compute this step with ordinary columns and functions',
            )
    # Used twice, the step needs fresh expression ids like any other leaf.
    outputs = [(name, found[attribute.exprId().id()]) for attribute, name in handle.outputs]
    outputs += [(name, found[alias.exprId().id()]) for name, alias in extra.items()]
    order = [f.name for f in node.fields] + [f.name for f in node.child.schema if f.name in node.carried]
    made = dict(outputs)
    aliases = [lowerer.jvm.alias(made[name], name) for name in order]
    top = lowerer.jvm.analyze(lowerer.jvm.project(aliases, plan))
    columns = dict(zip(order, items(top.output()), strict=True))
    return Lowered(top, columns, {name: name for name in order}, True)
