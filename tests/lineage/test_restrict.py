"""Restrictions that must not be pushed, case by case. That what is pushed is right is a law in test_laws."""

import pytest

from whence.lineage import restrict, wanted_values
from whence.plan.builder import Flow, source
from whence.plan.expressions import Column
from whence.plan.nodes import Filter, walk
from whence.plan.types import BIGINT
from whence.semantics import Table, evaluate

A = source("a", x="bigint", y="bigint")
TABLES = {"a": Table(("x", "y"), [(1, 10), (2, 20), (3, 30)])}


def cut(flow: Flow, column: str, *values: int | None) -> Flow:
    wanted = wanted_values(Column(column), BIGINT, set(values))
    assert wanted is not None
    return Flow(restrict(flow.plan, [wanted]))


def test_nothing_is_pushed_below_a_limit() -> None:
    """The second row must not become the first because the first was cut."""
    flow = A.sort("x").limit(1)
    assert evaluate(cut(flow, "x", 2).where("x = 2").plan, TABLES) == []


@pytest.mark.parametrize(
    ("flow", "column"),
    [
        (A.analyse(order=("x",), n="row_number()"), "x"),
        (A.analyse(partition=("y",), order=("x",), n="row_number()"), "x"),
        (A.deduplicate("y"), "x"),
        (A.group(n="count(*)"), "n"),
        (A.group("y", x="max(x)"), "x"),
    ],
    ids=["analytic", "order key", "deduplicate", "global group", "aggregate"],
)
def test_what_other_rows_decide_is_not_pushed(flow: Flow, column: str) -> None:
    assert not any(isinstance(n, Filter) for n in walk(cut(flow, column, 1).plan))


@pytest.mark.parametrize(
    ("flow", "column"),
    [
        (A.where("y > 0").sort("y"), "x"),
        (A.analyse(partition=("x",), order=("y",), n="row_number()"), "x"),
        (A.group("x", n="count(*)"), "x"),
        (A.deduplicate("x"), "x"),
        (A.union(A), "x"),
        (A.distinct(), "x"),
    ],
    ids=["sort", "partition", "group key", "deduplication key", "union", "distinct"],
)
def test_what_a_row_alone_decides_reaches_the_sources(flow: Flow, column: str) -> None:
    """With proof that it fired: the sources are filtered by the wanted value."""
    made = cut(flow, column, 2).plan
    assert sum(isinstance(n, Filter) and n.child is A.plan for n in walk(made)) >= 1
    assert evaluate(Flow(made).where("x = 2").plan, TABLES) == evaluate(flow.where("x = 2").plan, TABLES)
