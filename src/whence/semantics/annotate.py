"""The bag a plan means, each row with what it carries.

Which rows come out never depends on the algebra: nodes combine annotations but cannot look at
them. What each node does is in ``operators``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, assert_never, overload

from whence.errors import EvaluationError
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
    sources,
    walk,
)
from whence.semantics import operators
from whence.semantics.algebras import LINEAGE, Algebra, Lineage
from whence.semantics.operators import Annotated, Rows
from whence.semantics.scalars import Functions
from whence.semantics.tables import Table, look_up

A = TypeVar("A")


@overload
def annotate(
    plan: Node, tables: Mapping[str, Table], *, functions: Functions | None = None
) -> list[Annotated[Lineage]]: ...
@overload
def annotate(
    plan: Node, tables: Mapping[str, Table], algebra: Algebra[A], functions: Functions | None = None
) -> list[Annotated[A]]: ...
def annotate(
    plan: Node,
    tables: Mapping[str, Table],
    algebra: Algebra[A] = LINEAGE,  # type: ignore[assignment]
    functions: Functions | None = None,
) -> list[Annotated[A]]:
    """The rows of the plan over tables, each with its annotation; by default its lineage.

    ``functions`` says what opaque parts of the plan compute, by their key.

    >>> from whence.plan.nodes import Source
    >>> from whence.plan.types import BIGINT, Field
    >>> [item] = annotate(Source("cars", (Field("car", BIGINT),)), {"cars": Table(("car",), [(17,)])})
    >>> item.row, item.annotation
    ((17,), frozenset({('cars', 0, 'value')}))
    """
    sources(plan)
    done: dict[Node, Rows[A]] = {}
    for node in walk(plan):
        inputs = [done[child] for child in children(node)]
        try:
            done[node] = apply(node, inputs, tables, algebra, functions)
        except EvaluationError as error:
            raise in_node(error, node) from error
    return done[plan]


def in_node(error: EvaluationError, node: Node) -> EvaluationError:
    """The error, saying in which node it arose."""
    place = f"in {label(node)}"
    return EvaluationError(
        error.statement, detail=f"{place}; {error.detail}" if error.detail else place, hint=error.hint
    )


def apply(
    node: Node,
    inputs: list[Rows[A]],
    tables: Mapping[str, Table],
    algebra: Algebra[A],
    functions: Functions | None,
) -> Rows[A]:
    """What one node makes of the rows of its inputs, all of them at once."""
    match node:
        case Source():
            return operators.source(node, look_up(node, tables), algebra)
        case Values():
            return operators.values(node, algebra)
        case Project():
            return operators.project(node, inputs[0], functions)
        case Filter():
            return operators.filter(node, inputs[0], functions)
        case Generate():
            return operators.generate(node, inputs[0], functions)
        case Union():
            return operators.union(inputs)
        case Join():
            return operators.join(node, inputs[0], inputs[1], algebra, functions)
        case EventWindow():
            return operators.window(node, inputs[0], functions)
        case Group():
            return operators.group(node, inputs[0], algebra, functions)
        case Distinct():
            return operators.distinct(node, inputs[0], algebra)
        case Deduplicate():
            return operators.deduplicate(node, inputs[0])
        case SetOperation():
            return operators.set_operation(node, inputs[0], inputs[1], algebra)
        case Sort():
            return operators.sort(node, inputs[0], functions)
        case Limit():
            return operators.limit(node, inputs[0])
        case Analytic():
            return operators.analytic(node, inputs[0], algebra, functions)
        case Watermark():
            return inputs[0]
        case OpaqueStep():
            return operators.opaque_step(node, inputs[0], algebra, functions)
        case _:
            assert_never(node)
