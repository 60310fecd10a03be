"""What a worked example is judged by: the oracle, and every rewriting of the plan evaluated by it."""

from collections.abc import Iterable, Mapping

from whence.lineage import (
    Fresh,
    ask_values,
    carry,
    identify,
    reach_values,
    replay_plan,
    trace_back,
    trace_forward,
)
from whence.plan.builder import Flow
from whence.plan.nodes import Node, names
from whence.semantics import Table, annotate, evaluate

Edge = tuple[str, int]


def results(flow: Flow, tables: Mapping[str, Table]) -> dict[tuple, frozenset[Edge]]:
    """Each result row with its lineage; roles aside. All ways to it must agree, and examples have no equal rows."""
    plan = flow.plan
    found = {i.row: frozenset((s, id) for s, id, _ in i.annotation) for i in annotate(plan, tables)}
    assert len(found) == len(evaluate(plan, tables))
    assert _back(plan, tables) == found, "back"
    assert _forward(plan, tables) == {(edge, row) for row, edges in found.items() for edge in edges}, "forward"
    assert _carried(plan, tables) == found, "carry"
    for row, edges in found.items():
        assert row in evaluate(replay_plan(plan, _by_source(edges)), tables), "replay"
    return found


def lineage(flow: Flow, tables: Mapping[str, Table], row: tuple) -> set[int]:
    """The ids of the one source's rows behind a result row."""
    edges = results(flow, tables)[row]
    assert len({source for source, _ in edges}) <= 1
    return {id for _, id in edges}


def _by_source(edges: Iterable[Edge]) -> dict[str, tuple[int, ...]]:
    witness: dict[str, tuple[int, ...]] = {}
    for source, id in sorted(edges):
        witness[source] = (*witness.get(source, ()), id)
    return witness


def _back(plan: Node, tables: Mapping[str, Table]) -> dict[tuple, frozenset[Edge]]:
    top = identify(plan, Fresh())
    place = {n: i for i, n in enumerate(names(top.plan))}
    rows = evaluate(top.plan, tables)
    found: list[set[Edge]] = [set() for _ in rows]
    keys = [tuple(row[place[k]] for k in top.keys) for row in rows]
    for edges in trace_back(plan, ask_values(list(range(len(rows))), keys, plan)):
        for tag, id in evaluate(edges.plan, tables):
            found[tag].add((edges.source, id))
    return {tuple(row[place[n]] for n in names(plan)): frozenset(edges) for row, edges in zip(rows, found, strict=True)}


def _forward(plan: Node, tables: Mapping[str, Table]) -> set[tuple[Edge, tuple]]:
    found: set[tuple[Edge, tuple]] = set()
    for source, table in tables.items():
        for made in trace_forward(plan, source, reach_values(table.row_ids)):
            place = {n: i for i, n in enumerate(names(made.plan))}
            for row in evaluate(made.plan, tables):
                found.add(((source, row[place[made.id]]), tuple(row[place[n]] for n in names(plan))))
    return found


def _carried(plan: Node, tables: Mapping[str, Table]) -> dict[tuple, frozenset[Edge]]:
    carried = carry(plan)
    place = {n: i for i, n in enumerate(names(carried.plan))}
    found: dict[tuple, frozenset[Edge]] = {}
    for row in evaluate(carried.plan, tables):
        edges = set()
        for c in carried.columns:
            value = row[place[c.column]]
            edges |= {(c.source, id) for id in ((value or ()) if c.many else (value,)) if id is not None}
        found[row[: len(names(plan))]] = frozenset(edges)
    return found
