"""Replay plans: what they cut to the witness, what they leave whole, and that a row comes back from them."""

import pytest

from whence.lineage import replay_plan, whole_inputs
from whence.plan.builder import Flow, source
from whence.plan.nodes import Source, sources, walk
from whence.plan.text import print_plan
from whence.semantics import Table, annotate, evaluate

A = source("a", x="bigint", y="bigint")
B = source("b", z="bigint")
TABLES = {
    "a": Table(("x", "y"), [(1, 10), (2, 20), (2, 21), (None, 30)], ids=[100, 101, 102, 103]),
    "b": Table(("z",), [(2,), (3,), (None,)], ids=[200, 201, 202]),
}


def witness_of(annotation: frozenset[tuple[str, int, str]]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name, id, _ in sorted(annotation):
        found[name] = (*found.get(name, ()), id)
    return found


# What an anti join or except took away must not come back because its right side was cut: here it would be counted.
TAKEN_AWAY = {
    "anti": A.union(A.join(B, "x = z", kind="anti")).group("x", n="count(*)"),
    "except": A.select("x").union(A.select("x").subtract(B)).group("x", n="count(*)"),
}


@pytest.mark.parametrize("flow", TAKEN_AWAY.values(), ids=TAKEN_AWAY.keys())
def test_what_an_anti_join_or_except_took_away_stays_away(flow: Flow) -> None:
    for item in annotate(flow.plan, TABLES):
        assert item.row in evaluate(replay_plan(flow.plan, witness_of(item.annotation)), TABLES)


WHOLE = [
    (A.where("x > 1"), ()),
    (A.join(B, "x = z").group("x", n="count(*)"), ()),
    (A.join(B, "x = z", kind="semi").distinct(), ()),
    (A.join(B, "x = z", kind="anti").named("others"), ("join 'others'",)),
    (A.select("x").subtract(B), ("except",)),
    (A.sort("x").limit(1).named("top"), ("limit 'top'",)),
    (A.analyse(order=("x",), n="row_number()"), ("analytic",)),
    (A.deduplicate("x"), ("deduplicate",)),
    (A.select("x").intersect(B), ()),
]


@pytest.mark.parametrize(("flow", "steps"), WHOLE, ids=[str(s or i) for i, (_, s) in enumerate(WHOLE)])
def test_steps_that_need_their_whole_input_are_named(flow: Flow, steps: tuple[str, ...]) -> None:
    assert whole_inputs(flow.plan) == steps


def test_sources_are_cut_to_the_witness() -> None:
    plan = replay_plan(A.join(B, "x = z").plan, {"a": (101, 102), "b": (200,)})
    assert evaluate(plan, TABLES) == [(2, 20, 2), (2, 21, 2)]
    assert evaluate(replay_plan(A.plan, {"a": (103,)}), TABLES) == [(None, 30)]
    assert evaluate(replay_plan(A.plan, {}), TABLES) == []


def test_what_needs_everything_keeps_its_sources_as_they_are() -> None:
    flow = A.sort("y desc").limit(1)
    plan = replay_plan(flow.plan, {"a": (100,)})
    assert print_plan(plan) == print_plan(flow.plan)
    assert [n for n in walk(plan) if isinstance(n, Source)] == [sources(flow.plan)["a"]]


@pytest.mark.parametrize("kind", ["left", "right", "full"])
def test_outer_rows_come_back(kind: str) -> None:
    flow = A.join(B, "x = z", kind=kind)  # type: ignore[arg-type]
    for item in annotate(flow.plan, TABLES):
        assert item.row in evaluate(replay_plan(flow.plan, witness_of(item.annotation)), TABLES)
