"""Weaknesses: what makes recomputing a plan later uncertain, by step; and what does not."""

import pytest

from whence.lineage import weaknesses
from whence.plan.builder import Flow, source
from whence.plan.expressions import AggregateCall, Column, Opaque
from whence.plan.nodes import (
    Filter,
    Frame,
    Generate,
    Group,
    Join,
    Named,
    NamedAggregate,
    Node,
    Order,
    Project,
    Sort,
)
from whence.plan.types import BIGINT, BOOLEAN, ArrayType, Field

A = source("a", x="bigint", y="bigint")
RANDOM = Opaque("rand", (), BIGINT, deterministic=False, text="rand()")
COIN = Opaque("coin", (), BOOLEAN, deterministic=False)
LIST = Opaque("list", (), ArrayType(BIGINT), deterministic=False)

SOUND = [
    A.where("x > 1").group("y", n="count(*)", s="sum(x)"),
    A.distinct(),
    A.deduplicate("x", "y"),
    A.sort("x").where("x > 0"),
    A.sort("x", "y").limit(3),
    A.sort("x", "y desc").where("x > 0").limit(3),
    A.limit(0),
    A.limit(None),
    A.analyse(partition=("x",), order=("y",), n="row_number()"),
    A.analyse(order=("x",), n="rank()"),
    A.analyse(order=("x",), s="sum(y)"),
    A.join(source("b", z="bigint"), "x = z", kind="anti"),
    A.opaque("f", "per_row", z="int"),
]


@pytest.mark.parametrize("flow", SOUND, ids=[str(i) for i in range(len(SOUND))])
def test_sound(flow: Flow) -> None:
    assert weaknesses(flow.plan) == ()


WEAK = [
    (A.limit(3), "limit", "order they are met"),
    (A.sort("x").limit(3), "limit", "order they are met"),
    (A.limit(None, offset=2), "limit", "order they are met"),
    (A.sort("x", "y").select("x", "y").limit(3), "limit", "order they are met"),
    (A.deduplicate("x"), "deduplicate", "which of the equal rows"),
    (A.group("x", l="collect_list(y)"), "group", "collect_list depends"),
    (A.group("x", l="collect_set(y)"), "group", "collect_set depends"),
    (A.analyse(order=("x",), n="row_number()"), "analytic", "come first is left open"),
    (A.analyse(order=("x",), rows=(-1, 0), s="sum(y)"), "analytic", "come first is left open"),
    (A.analyse(order=("x",), n="lag(y, 1)"), "analytic", "come first is left open"),
    (A.analyse(order=("x", "y"), n="collect_list(y)"), "analytic", "collect_list depends"),
    (A.opaque("f", "per_row", deterministic=False, z="int"), "opaque", "other rows each time"),
]


@pytest.mark.parametrize(("flow", "kind", "reason"), WEAK, ids=[f"{k}-{i}" for i, (_, k, _) in enumerate(WEAK)])
def test_weak(flow: Flow, kind: str, reason: str) -> None:
    [found] = weaknesses(flow.plan)
    assert found.step == kind and reason in found.reason
    [named] = weaknesses(flow.named("mine").plan)
    assert named.step == "mine" and "'mine'" in named.reason


CHANCE: list[Node] = [
    Project(A.plan, (Named("r", RANDOM),)),
    Filter(A.plan, COIN),
    Generate(A.plan, LIST, (Field("e", BIGINT),)),
    Join(A.plan, source("b", z="bigint").plan, "inner", COIN),
    Group(A.plan, (Named("r", RANDOM),), ()),
    Group(A.plan, (), (NamedAggregate("s", AggregateCall("sum", (RANDOM,))),)),
    Group(A.plan, (), (NamedAggregate("s", AggregateCall("sum", (Column("x"),), filter=COIN)),)),
    Sort(A.plan, (Order(RANDOM),)),
]


@pytest.mark.parametrize("plan", CHANCE, ids=[type(p).__name__ + str(i) for i, p in enumerate(CHANCE)])
def test_chance_is_found_wherever_an_expression_may_stand(plan: Node) -> None:
    [found] = weaknesses(plan)
    assert "another value each time" in found.reason


def test_all_are_told_in_the_order_of_the_plan() -> None:
    plan = A.deduplicate("x").named("one").limit(1).named("two").plan
    assert [w.step for w in weaknesses(plan)] == ["one", "two"]


def test_frames_of_places_matter_only_where_they_cut() -> None:
    whole = A.analyse(order=("x",), rows=(None, None), s="sum(y)")
    assert weaknesses(whole.plan) == () and whole.plan.columns[0].frame == Frame("rows", None, None)  # type: ignore[union-attr]
