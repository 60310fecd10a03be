"""Replay: the plan over witness rows alone, or over as much more as its meaning needs.

Steps whose result only grows with their input get nothing but the witness. The side of a step
that can take results away (the right of an anti join or except) and what counts or orders rows
(limit, analytic windows, deduplicate) get their whole input.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from whence.lineage.fresh import pick, with_row_id
from whence.plan.expressions import Call, Column, Expression, Literal
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
    walk,
)
from whence.plan.types import BIGINT, BOOLEAN


def replay_plan(plan: Node, witness: dict[str, tuple[int, ...]]) -> Node:
    """The plan with each source cut down to its witness rows where that is enough."""
    return _replay(plan, witness)


def whole_inputs(plan: Node) -> tuple[str, ...]:
    """The steps that need their whole input on replay, by label."""
    found: list[str] = []
    _needs_whole(plan, found)
    return tuple(found)


def _needs_whole(node: Node, found: list[str]) -> None:
    for inner in walk(node):
        match inner:
            case Limit() | Analytic() | Deduplicate():
                found.append(label(inner))
            case Join(kind="anti") | SetOperation(kind="except"):
                found.append(label(inner))
            case _:
                pass


def _replay(node: Node, witness: dict[str, tuple[int, ...]]) -> Node:
    match node:
        case Source():
            return _witness_rows(node, witness.get(node.name, ()))
        case Values() | Limit() | Analytic() | Deduplicate():
            return node
        case Union():
            return replace(node, children=tuple(_replay(c, witness) for c in node.children))
        case Join(kind="anti") | SetOperation(kind="except"):
            return replace(node, left=_replay(node.left, witness))
        case Join() | SetOperation():
            return replace(node, left=_replay(node.left, witness), right=_replay(node.right, witness))
        case (
            Project() | Filter() | Generate() | EventWindow() | Group() | Distinct() | Sort()
            | Watermark() | OpaqueStep()
        ):  # fmt: skip
            return replace(node, child=_replay(node.child, witness))
        case _:
            assert_never(node)


def _witness_rows(source: Source, ids: tuple[int, ...]) -> Node:
    condition: Expression
    if not ids:
        condition = Literal(False, BOOLEAN)
    elif len(ids) == 1:
        condition = Call("=", (Column(ROW_ID), Literal(ids[0], BIGINT)))
    else:
        condition = Call("in", (Column(ROW_ID), *(Literal(i, BIGINT) for i in ids)))
    return pick(Filter(with_row_id(source), condition), names(source), names(source))
