"""Lift: from a user's DataFrame to a plan of the algebra, with handles to what only Catalyst knows.

The analyzed plan is read, prepared (see `lift_prepare`) and walked once, inputs before the nodes over them. Nothing
runs, nothing of the DataFrame is changed, and every part either becomes plan nodes that mean the same or is refused
by name. What a lowered plan looks like in Spark is `lower`'s business, rows of sources are `sources`'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from whence.errors import NotTraceable, PlanError
from whence.plan.expressions import Aggregate, AggregateCall, Expression, Opaque
from whence.plan.expressions import walk as parts_of
from whence.plan.literals import UTC_ZONES
from whence.plan.nodes import (
    Analytic,
    EventWindow,
    Filter,
    Generate,
    Group,
    Join,
    Node,
    OpaqueStep,
    Project,
    Sort,
    Source,
    kind_of,
    transform,
    walk,
)
from whence.spark.handles import Handles
from whence.spark.jvm import JavaObject, Jvm, analyzed, simple_name
from whence.spark.leaves import Leaf, name_leaves
from whence.spark.lift_expressions import ExpressionLifter
from whence.spark.lift_operators import OperatorLifter, Recipe
from whence.spark.lift_prepare import every, prepare, view_names
from whence.spark.names import Names, outline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Lifted:
    """A lifted query: its plan, and beside it what only the living session knows.

    ``leaves`` are the sources, each once; ``opaque`` says which parts a later process cannot know, as
    "step: key"; ``utc`` whether the session's times are in UTC.
    """

    plan: Node
    handles: Handles
    leaves: tuple[Leaf, ...]
    jvm: Jvm
    utc: bool
    opaque: tuple[str, ...] = ()


def lift(df: DataFrame, sources: Mapping[str, DataFrame] | None = None) -> Lifted:
    """The plan of a DataFrame, batch or streaming. ``sources`` names its tables by DataFrames that read them."""
    read = analyzed(df)
    jvm = Jvm(df.sparkSession)
    result = outline(read.output())
    _refuse_twins(result)
    java = prepare(jvm, read)
    leaves = tuple(name_leaves(jvm, java, sources or {}, view_names(java)))
    names = Names()
    names.settle([result, *_scopes(java)])
    utc = str(jvm.session.sessionState().conf().sessionLocalTimeZone()) in UTC_ZONES
    expressions = ExpressionLifter(jvm, names, utc)
    operators = OperatorLifter(expressions, leaves)
    plan = operators.positional(_walk(operators, java), result)
    plan = _name_steps(plan, operators.aliases)
    return Lifted(plan, expressions.handles, leaves, jvm, utc, _opaque_parts(plan))


def _refuse_twins(result: list[tuple[int, str]]) -> None:
    seen: set[str] = set()
    for _, name in result:
        if name.lower() in seen:
            raise NotTraceable(
                f"the result has two columns called {name!r}",
                detail="questions about a row name its columns",
                hint="rename one: df.toDF('id', 'other_id'), or select(col('b.id').alias('b_id'))",
            )
        seen.add(name.lower())


def _scopes(plan: JavaObject) -> list[list[tuple[int, str]]]:
    """The attributes that stand side by side somewhere in the plan, outermost node first."""
    found = []
    for node in every(plan):
        scope = outline(node.output())
        match simple_name(node):
            case "Join":
                scope = outline(node.left().output()) + outline(node.right().output()) + scope
            case "Generate":
                scope = scope + outline(node.child().output()) + outline(node.generatorOutput())
            case _:
                pass
        found.append(scope)
    return found


def _walk(operators: OperatorLifter, root: JavaObject) -> Node:
    """Lift inputs before the nodes over them; a loop, because queries made in loops are deeper than Python's stack."""
    done: list[Node] = []
    todo: list[tuple[JavaObject, Recipe | None]] = [(root, None)]
    while todo:
        java, recipe = todo.pop()
        if recipe is None:
            recipe = operators.recipe(java)
            todo.append((java, recipe))
            todo.extend((child, None) for child in reversed(recipe.inputs))
            continue
        first = len(done) - len(recipe.inputs)
        inputs = done[first:]
        del done[first:]
        try:
            done.append(recipe.make(*inputs))
        except PlanError as misfit:
            raise NotTraceable(
                f"{simple_name(java)} cannot be traced",
                detail=f"{misfit.statement}: {misfit.detail}" if misfit.detail else misfit.statement,
                hint="write this part to a table first and read it from there",
            ) from None
    return done[0]


def _name_steps(plan: Node, aliases: Mapping[Node, str]) -> Node:
    """The plan with every step named: by its alias, a source by its own name, others by their kind."""
    taken: set[str] = set()
    steps: dict[Node, str] = {}
    nodes = list(walk(plan))
    for node in (*(n for n in nodes if n in aliases), *(n for n in nodes if n not in aliases)):
        base = aliases.get(node) or (node.name if isinstance(node, Source) else kind_of(node))
        name, number = base, 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name)
        steps[node] = name
    order = iter(nodes)
    # `transform` meets the nodes in the order of `walk`.
    return transform(plan, lambda node: replace(node, step=steps[next(order)]))


def _opaque_parts(plan: Node) -> tuple[str, ...]:
    """The opaque expressions and steps without text, by the step they are in."""
    found: dict[str, None] = {}
    for node in walk(plan):
        if isinstance(node, OpaqueStep):
            found[f"{node.step}: {node.key}"] = None
        for expression in _expressions(node):
            for part in parts_of(expression):
                if isinstance(part, Opaque) and part.text is None:
                    found[f"{node.step}: {part.key}"] = None
    return tuple(found)


def _expressions(node: Node) -> list[Expression]:
    """The expressions that stand on a node, aggregates by their arguments."""
    stands: list[Expression | Aggregate | None]
    match node:
        case Project():
            stands = [c.expression for c in node.columns]
        case Filter() | Join():
            stands = [node.condition]
        case Generate():
            stands = [node.expression]
        case EventWindow():
            stands = [node.time]
        case Group():
            stands = [*(k.expression for k in node.keys), *(a.aggregate for a in node.aggregates)]
        case Sort():
            stands = [o.expression for o in node.orders]
        case Analytic():
            stands = [*node.partition, *(o.expression for o in node.orders), *(c.function for c in node.columns)]
        case _:
            stands = []
    found: list[Expression] = []
    for one in stands:
        if isinstance(one, AggregateCall):
            found += [*one.arguments, *(() if one.filter is None else (one.filter,))]
        elif one is not None:
            found.append(one)
    return found
