"""Edges put together in Arrow are those that sets of Python tuples would be."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.ask.edges import carried_part, edge_table, ids_of, of_source, part, restricted_part

IDS = st.integers(0, 5) | st.integers(2**40, 2**40 + 3)
EDGES = st.lists(
    st.tuples(IDS, st.sampled_from(["trips", "cars", "zones"]), IDS, st.sampled_from(["value", "condition"]))
)


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


@given(st.lists(EDGES, max_size=4))
def test_each_edge_once_and_in_order(found: list[list[tuple[int, str, int, str]]]) -> None:
    parts = []
    for edges in found:
        for source, role in {(edge[1], edge[3]) for edge in edges}:
            mine = [edge for edge in edges if (edge[1], edge[3]) == (source, role)]
            parts.append(part([e[0] for e in mine], source, [e[2] for e in mine], role))
    table = edge_table(parts)
    everything = sorted({edge for edges in found for edge in edges})
    assert rows(table) == everything
    assert table.schema == edge_table().schema
    assert ids_of(table.column("result")).to_pylist() == sorted({edge[0] for edge in everything})
    for source in ("trips", "cars", "zones"):
        assert rows(of_source(table, source)) == [edge for edge in everything if edge[1] == source]


@given(st.lists(st.tuples(IDS, st.none() | st.lists(st.none() | IDS, max_size=3))))
def test_lists_that_results_carry(carried: list[tuple[int, list[int | None] | None]]) -> None:
    results = pa.chunked_array([pa.array([result for result, _ in carried], pa.int64())])
    ids = pa.array([ids for _, ids in carried], pa.list_(pa.int64()))
    # In two chunks, as files come.
    halves = pa.chunked_array([ids.slice(0, len(ids) // 2), ids.slice(len(ids) // 2)])
    found = edge_table([carried_part(results, "trips", halves, "value")])
    wanted = {(result, "trips", id, "value") for result, ids in carried for id in ids or () if id is not None}
    assert rows(found) == sorted(wanted)


def test_single_ids_that_results_carry() -> None:
    found = carried_part(pa.chunked_array([[7, 8, 9]]), "trips", pa.chunked_array([[1, None], [3]]), "condition")
    assert rows(edge_table([found])) == [(7, "trips", 1, "condition"), (9, "trips", 3, "condition")]


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ({"results": [1]}, [(1, 10), (1, 20)]),
        ({"sources": [10]}, [(1, 10), (2, 10)]),
        ({}, [(1, 10), (1, 20), (2, 10)]),
    ],
)
def test_only_some(chosen: dict[str, list[int]], left: list[tuple[int, int]]) -> None:
    table = edge_table([restricted_part(part([1, 1, 2], "trips", [10, 20, 10], "value"), **chosen)])
    assert [(edge[0], edge[2]) for edge in rows(table)] == left


def test_no_edges_have_the_same_columns() -> None:
    assert edge_table().schema == edge_table([part([1], "trips", [2], "value")]).schema
    assert rows(of_source(edge_table(), "trips")) == []
