"""The lineage each node gives, by hand: one line of the design's table a test. And that dropping it leaves the rows."""

import pytest
from hypothesis import given

from whence.errors import EvaluationError
from whence.plan.builder import Flow, source
from whence.semantics import LINEAGE, Table, annotate, evaluate
from whence.semantics.values import group_key
from whence.testing.strategies import PlanCase, cases

A = source("a", x="bigint", y="bigint")
B = source("b", z="bigint")
TABLES = {
    "a": Table(("x", "y"), [(1, 10), (2, 20), (2, 21), (None, 30)], ids=[1, 2, 3, 4]),
    "b": Table(("z",), [(2,), (2,), (3,)], ids=[11, 12, 13]),
}


def lineage(flow: Flow) -> list[tuple[tuple, str]]:
    """Rows and their edges, written as ids, those that are conditions in brackets."""
    return [(item.row, text(item.annotation)) for item in annotate(flow.plan, TABLES)]


def text(edges: frozenset[tuple[str, int, str]]) -> str:
    return " ".join(str(id) if role == "value" else f"[{id}]" for _, id, role in sorted(edges, key=lambda e: e[1]))


def test_a_row_alone_passes_its_lineage_on() -> None:
    assert lineage(A.where("y > 15").select("y").sort("y desc").limit(2)) == [((30,), "4"), ((21,), "3")]


def test_generated_rows() -> None:
    assert lineage(A.where("x = 1").select(l="array(x, y)").explode("l", "e").select("e")) == [
        ((1,), "1"),
        ((10,), "1"),
    ]


def test_union_takes_whichever_side() -> None:
    assert lineage(A.select("x").where("x = 1").union(B.where("z = 3"))) == [((1,), "1"), ((3,), "13")]


def test_join() -> None:
    assert lineage(A.join(B, "x = z")) == [
        ((2, 20, 2), "2 11"), ((2, 20, 2), "2 12"), ((2, 21, 2), "3 11"), ((2, 21, 2), "3 12"),
    ]  # fmt: skip


def test_outer_rows_have_one_side() -> None:
    made = lineage(A.where("x = 1").join(B.where("z = 3"), "x = z", kind="full"))
    assert made == [((1, 10, None), "1"), ((None, None, 3), "13")]


def test_semi_join_has_every_match_as_a_condition() -> None:
    assert lineage(A.join(B, "x = z", kind="semi")) == [((2, 20), "2 [11] [12]"), ((2, 21), "3 [11] [12]")]


def test_anti_join_has_its_row() -> None:
    assert lineage(A.join(B, "x = z", kind="anti")) == [((1, 10), "1"), ((None, 30), "4")]


def test_a_row_can_be_value_and_condition() -> None:
    [edges] = [
        i.annotation for i in annotate(B.join(B.prefixed("o_").where("o_z = 3"), "z = o_z", kind="semi").plan, TABLES)
    ]
    assert edges == {("b", 13, "value"), ("b", 13, "condition")}


@pytest.mark.parametrize("aggregate", ["count(*)", "min(y)", "max(y)", "sum(y)", "count(y) filter (where y > 20)"])
def test_group_has_every_row_whatever_the_aggregate(aggregate: str) -> None:
    assert [edges for _, edges in lineage(A.group("x", n=aggregate))] == ["1", "2 3", "4"]


def test_groups_without_keys() -> None:
    assert lineage(A.group(n="count(*)")) == [((4,), "1 2 3 4")]
    assert lineage(A.where("false").group(n="count(*)")) == [((0,), "")]


def test_distinct_has_all_equal_rows() -> None:
    assert lineage(A.select("x").distinct()) == [((1,), "1"), ((2,), "2 3"), ((None,), "4")]


def test_deduplicate_has_the_kept_row() -> None:
    assert lineage(A.deduplicate("x").select("x")) == [((1,), "1"), ((2,), "2"), ((None,), "4")]


def test_intersect_has_both_sides_except_the_left() -> None:
    assert lineage(A.select("x").intersect(B)) == [((2,), "2 3 11 12")]
    assert lineage(A.select("x").intersect(B, all=True)) == [((2,), "2 3 11 12")] * 2
    assert lineage(A.select("x").subtract(B)) == [((1,), "1"), ((None,), "4")]
    assert lineage(B.subtract(A.select("x"), all=True)) == [((3,), "13")]


def test_a_frame_that_ends_before_the_partition_begins_is_empty() -> None:
    table = {"t": Table(("y",), [(i,) for i in range(5)])}
    counted = source("t", y="int").analyse(order=("y",), rows=(None, -3), n="count(*)").select("n")
    assert evaluate(counted.plan, table) == [(0,), (0,), (0,), (1,), (2,)]


def test_analytic_has_the_row_and_its_frame() -> None:
    running = A.analyse(order=("y",), s="sum(y)").select("s")
    assert [e for _, e in lineage(running)] == ["1", "1 2", "1 2 3", "1 2 3 4"]
    before = A.analyse(order=("y",), rows=(-1, -1), s="sum(y)").select("s")
    assert lineage(before) == [((None,), "1"), ((10,), "1 2"), ((20,), "2 3"), ((21,), "3 4")]
    lagged = A.analyse(partition=("x",), order=("y",), p="lag(y, 1)").select("p")
    assert [e for _, e in lineage(lagged)] == ["1", "2", "2 3", "4"]


def test_values_have_none() -> None:
    from whence.plan.nodes import Values
    from whence.plan.types import BIGINT, Field

    [item] = annotate(Values((Field("v", BIGINT),), ((7,),)), {})
    assert item.row == (7,) and item.annotation == frozenset()


def test_opaque_steps_by_their_kind() -> None:
    functions = {"twice": lambda row: [(row[0],), (row[0],)], "sizes": lambda rows: [(rows[0][0], len(rows))]}
    per_row = annotate(A.opaque("twice", "per_row", v="bigint").plan, TABLES, functions=functions)
    assert [text(i.annotation) for i in per_row] == ["1", "1", "2", "2", "3", "3", "4", "4"]
    per_group = annotate(
        A.opaque("sizes", "per_group", keys=("x",), x="bigint", n="bigint").plan, TABLES, functions=functions
    )
    assert [(i.row, text(i.annotation)) for i in per_group] == [((1, 1), "1"), ((2, 2), "2 3"), ((None, 1), "4")]
    box = annotate(A.opaque("sizes", "black_box", x="bigint", n="bigint").plan, TABLES, functions=functions)
    assert [text(i.annotation) for i in box] == ["1 2 3 4"]


def test_errors_name_the_node() -> None:
    with pytest.raises(EvaluationError, match="(?s)in filter 'fast'") as failed:
        annotate(A.where("x / 0 > 1").named("fast").plan, TABLES)
    assert failed.value.hint


def tables_of(case: PlanCase) -> dict[str, Table]:
    return {n: Table(tuple(f.name for f in case.schemas[n]), rows) for n, rows in case.rows.items()}


@given(cases())
def test_erasure(case: PlanCase) -> None:
    """Annotations dropped, what remains is plain evaluation, in the same order."""
    tables = tables_of(case)
    key = group_key([f.type for f in case.plan.schema])
    annotated = [key(item.row) for item in annotate(case.plan, tables, LINEAGE)]
    assert annotated == [key(row) for row in evaluate(case.plan, tables)]


@given(cases())
def test_lineage_holds_rows_that_are_there(case: PlanCase) -> None:
    tables = tables_of(case)
    there = {(name, id) for name, table in tables.items() for id in table.row_ids}
    for item in annotate(case.plan, tables):
        assert {(name, id) for name, id, _ in item.annotation} <= there
