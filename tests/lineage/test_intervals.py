"""Intervals: what stands beside a row is what the oracle says of its lineage, summed up."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping

from hypothesis import assume, given

from whence.errors import NotTraceable
from whence.lineage import carry, carry_intervals, check_of
from whence.plan.builder import Flow
from whence.plan.expressions import Opaque
from whence.plan.nodes import (
    Filter,
    Node,
    Source,
    children,
    names,
    transform,
)
from whence.plan.types import BOOLEAN
from whence.semantics import LINEAGE, MULTISETS, Table, annotate, evaluate
from whence.semantics.values import group_key
from whence.testing.strategies import PlanCase, cases

Found = tuple[object, ...]
"""A source, a role, smallest, largest, how many, check."""


def found_beside_rows(plan: Node, tables: Mapping[str, Table]) -> tuple[Counter, set[tuple[str, str]]]:
    """Each row with its intervals, and what is certified."""
    ranged = carry_intervals(plan)
    assert names(ranged.plan)[: len(names(plan))] == names(plan)
    place = {n: i for i, n in enumerate(names(ranged.plan))}
    form = group_key([f.type for f in plan.schema])
    found: Counter = Counter()
    for row in evaluate(ranged.plan, tables):
        beside = set()
        for i in ranged.intervals:
            low, high, count, check = (None if c is None else row[place[c]] for c in dataclasses.astuple(i)[2:])
            if low is None:
                assert high is None and not count and not check
            else:
                beside.add((i.source, i.role, low, high, count, check))
        found[form(row[: len(names(plan))]), frozenset(beside)] += 1
    return found, {(i.source, i.role) for i in ranged.intervals if i.count is not None}


def said_by_the_oracle(plan: Node, tables: Mapping[str, Table], certified: set[tuple[str, str]]) -> Counter:
    form = group_key([f.type for f in plan.schema])
    found: Counter = Counter()
    rows = zip(annotate(plan, tables, LINEAGE), annotate(plan, tables, MULTISETS), strict=True)
    for item, again in rows:
        beside = set()
        for key in {(name, role) for name, _, role in item.annotation}:
            ids = [id for name, id, role in item.annotation if (name, role) == key]
            counts = {id: n for (name, id, role), n in again.annotation.items() if (name, role) == key}
            sums = (sum(counts.values()), check_of(counts)) if key in certified else (None, None)
            beside.add((*key, min(ids), max(ids), *sums))
        found[form(item.row), frozenset(beside)] += 1
    return found


def check(plan: Node | Flow, tables: Mapping[str, Table], *uncertified: tuple[str, str]) -> None:
    """What is beside the rows is what the oracle says, and certified is all but what is named."""
    node = plan if not isinstance(plan, Flow) else plan.plan
    found, certified = found_beside_rows(node, tables)
    assert found == said_by_the_oracle(node, tables, certified)
    everything = {(i.source, i.role) for i in carry_intervals(node).intervals}
    assert certified == everything - set(uncertified)


def tables_of(case: PlanCase) -> dict[str, Table]:
    # Ids as packed ones are, some of them beyond what fits twice into a bigint.
    return {
        name: Table(tuple(f.name for f in case.schemas[name]), rows, [(i % 3 << 61) + 7 * i for i in range(len(rows))])
        for name, rows in case.rows.items()
    }


@given(cases())
def test_intervals_are_the_oracles(case: PlanCase) -> None:
    tables = tables_of(case)
    try:
        found, certified = found_beside_rows(case.plan, tables)
    except NotTraceable:
        assume(False)
    assert found == said_by_the_oracle(case.plan, tables, certified)


@given(cases())
def test_all_values_are_certified_where_frames_are_simple(case: PlanCase) -> None:
    try:
        ranged = carry_intervals(case.plan)
    except NotTraceable:
        assume(False)
    # All analytic nodes of the strategies have one frame each, whose rows are known to hold the row itself or not.
    assert {i.role for i in ranged.intervals if i.count is None} <= {"condition"}


INPUTS = ("child", "children", "left", "right")


def occurrences(node: Node) -> Iterator[Node]:
    """Every node as often as it would run: one that is shared, once for each way to it."""
    yield node
    for child in children(node):
        yield from occurrences(child)


def opaque_in(value: object) -> Iterator[Opaque]:
    """Every opaque expression in a node's own fields."""
    if isinstance(value, Opaque):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from opaque_in(part)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from opaque_in(getattr(value, field.name))


def cost(plan: Node) -> tuple[Counter[str], int]:
    """How often each source is read, and how many non-deterministic expressions there are."""
    nodes = list(occurrences(plan))
    own = [getattr(n, f.name) for n in nodes for f in dataclasses.fields(n) if f.name not in INPUTS]
    chances = sum(not e.deterministic for value in own for e in opaque_in(value))
    return Counter(n.name for n in nodes if isinstance(n, Source)), chances


def with_chance(plan: Node) -> Node:
    """A coin above each node."""
    count = iter(range(1_000))
    return transform(plan, lambda n: Filter(n, Opaque(f"coin{next(count)}", (), BOOLEAN, deterministic=False)))


@given(cases())
def test_nothing_is_read_or_drawn_twice(case: PlanCase) -> None:
    plan = with_chance(case.plan)
    before = cost(plan)
    assert before[1] >= sum(before[0].values()) > 0
    try:
        assert cost(carry(plan).plan) == before
        assert cost(carry_intervals(plan).plan) == before
    except NotTraceable:
        assume(False)
