"""Plans as text and by fingerprint: nothing is lost, sharing and step names stay, differences show."""

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import NewerFormat, ParseError, PlanError
from whence.plan.builder import source
from whence.plan.expressions import AggregateCall, Call, Column, Literal, Opaque
from whence.plan.nodes import (
    Analytic,
    Deduplicate,
    Distinct,
    EventWindow,
    Filter,
    Frame,
    Generate,
    Group,
    Join,
    Limit,
    Named,
    NamedAggregate,
    NamedAnalytic,
    Node,
    OpaqueStep,
    Order,
    Project,
    SetOperation,
    Sort,
    Source,
    Union,
    Values,
    Watermark,
    children,
    walk,
)
from whence.plan.text import fingerprint, parse_plan, print_plan
from whence.plan.types import (
    BIGINT,
    BOOLEAN,
    INT,
    STRING,
    TIMESTAMP,
    ArrayType,
    Field,
    MapType,
    OtherType,
    StructType,
)
from whence.testing.strategies import PlanCase, cases

S = Source("s", (Field("x", BIGINT), Field("y b", INT), Field("at", TIMESTAMP), Field("list", ArrayType(BIGINT))))
T = Source("t", (Field("z", BIGINT),))
X, Y = Column("x"), Column("y b")
POSITIVE = Call(">", (X, Literal(0, BIGINT)))
COIN = Opaque("k'1", (X,), BOOLEAN, False, "coin(x) -- it's")
COUNT = NamedAggregate("n", AggregateCall("count"))
RUNNING = NamedAnalytic("n", AggregateCall("sum", (X,)), Frame("rows", -2, 1))


def same(one: Node, other: Node) -> bool:
    """Equal in every field, and shared where the other is shared: nodes themselves compare by identity."""
    pairs = list(zip(walk(one), walk(other), strict=False))
    if len(list(walk(one))) != len(list(walk(other))):
        return False
    number = ({n: i for i, (n, _) in enumerate(pairs)}, {n: i for i, (_, n) in enumerate(pairs)})

    def plain(node: Node, numbers: dict[Node, int]) -> list[object]:
        kept = [f.name for f in dataclasses.fields(node) if f.name not in ("child", "children", "left", "right")]
        return [type(node), [numbers[c] for c in children(node)], *(getattr(node, name) for name in kept)]

    return all(plain(a, number[0]) == plain(b, number[1]) for a, b in pairs)


NODES: list[Node] = [
    S,
    Source("odd name `s`", (), step="step"),
    Source("u", (Field("m", MapType(STRING, StructType((Field("a:b", INT),)))), Field("v", OtherType("varchar(10)")))),
    Values((Field("a", INT), Field("b", STRING)), ((1, "it's"), (None, None))),
    Values((), ((), ())),
    Project(S, (Named("x", X), Named("select", POSITIVE))),
    Project(S, ()),
    Filter(S, POSITIVE),
    Filter(S, COIN),
    Generate(S, Column("list"), (Field("e", BIGINT),)),
    Generate(S, Column("list"), (Field("e", BIGINT),), "at what", True),
    Generate(S, Opaque("g", (X,), INT), (Field("e", BIGINT), Field("f", STRING)), None, True, True),
    Union((S, S, S)),
    Join(S, T, "inner"),
    Join(S, T, "full", Call("<=>", (X, Column("z")))),
    EventWindow(S, "w", Column("at"), 10, 5, -3, "right", "start"),
    EventWindow(S, "w", Column("at"), 10, 5, 0, "both", "end"),
    Group(S, (Named("k", X),), (COUNT,)),
    Group(S, (), (NamedAggregate("s", AggregateCall("sum", (X,), True, POSITIVE)),)),
    Group(S, (), (NamedAggregate("o", Opaque("agg", (X, Y), BIGINT)),)),
    Distinct(S),
    Deduplicate(S, ("x", "y b")),
    Deduplicate(S, (), within_watermark=True),
    SetOperation(T, T, "except"),
    SetOperation(T, T, "intersect", all=True),
    Sort(S, (Order(X), Order(Y, True, False), Order(Y, False, False))),
    Limit(S, 3),
    Limit(S, None, 2),
    Analytic(S, (X,), (Order(Y),), (RUNNING, NamedAnalytic("r", AggregateCall("rank"), Frame("range", None, 0)))),
    Analytic(S, (), (), (NamedAnalytic("all", AggregateCall("count"), Frame("rows", None, None)),)),
    Watermark(S, "at", 7),
    OpaqueStep(S, "per_row", "key 'q'", (Field("o", INT),), carried=("x", "y b"), deterministic=False),
    OpaqueStep(S, "per_group", "k", (Field("x", BIGINT),), keys=("x",)),
    OpaqueStep(S, "black_box", "k", (), step="model"),
]  # fmt: skip


@pytest.mark.parametrize("plan", NODES, ids=[f"{i}-{type(n).__name__}" for i, n in enumerate(NODES)])
def test_every_field_of_every_node_comes_back(plan: Node) -> None:
    text = print_plan(plan)
    again = parse_plan(text)
    assert same(again, plan) and print_plan(again) == text and fingerprint(again) == fingerprint(plan)


def test_the_nodes_above_are_all_there_are_and_differ() -> None:
    assert {type(n) for n in NODES} == set(Node.__args__)  # type: ignore[attr-defined]
    assert len({fingerprint(n) for n in NODES}) == len(NODES)


@given(cases())
def test_generated_plans_come_back_whole(case: PlanCase) -> None:
    assert same(parse_plan(print_plan(case.plan)), case.plan)


NAMES = st.one_of(
    st.sampled_from(
        [
            "",
            "a",
            "a~2",
            "a~2~3",
            "~1",
            "~",
            "a~b",
            "filter",
            "result",
            "unnamed",
            "whence",
            "order by",
            "`",
            "ü",
            "select",
            "end",
        ]
    ),
    st.text(max_size=4),
)


@given(st.lists(NAMES, min_size=3, max_size=3))
def test_step_names_come_back_and_are_not_in_the_fingerprint(steps: list[str]) -> None:
    one, two, three = steps
    below = dataclasses.replace(S, step=one)
    plan = Limit(Filter(below, POSITIVE, step=two), 1, step=three)
    again = parse_plan(print_plan(plan))
    assert [n.step for n in walk(again)] == steps
    assert fingerprint(plan) == fingerprint(Limit(Filter(S, POSITIVE), 1))


@given(st.text(min_size=1, max_size=6), st.text(min_size=1, max_size=6))
def test_column_and_source_names_come_back(table: str, column: str) -> None:
    plan = Project(Source(table, (Field(column, INT),)), (Named(column, Column(column)),))
    assert same(parse_plan(print_plan(plan)), plan)


def test_sharing_is_kept_and_told_apart() -> None:
    shared, twice = Filter(S, POSITIVE), [Filter(S, POSITIVE), Filter(S, POSITIVE)]
    one, other = Union((shared, shared)), Union(tuple(twice))
    assert len(list(walk(parse_plan(print_plan(one))))) == 3 and len(list(walk(parse_plan(print_plan(other))))) == 4
    assert fingerprint(one) != fingerprint(other)


CHANGES: list[Callable[[], tuple[Node, Node]]] = [
    lambda: (Join(S, T, "left", POSITIVE), Join(S, T, "right", POSITIVE)),
    lambda: (Filter(S, POSITIVE), Filter(S, Call(">=", POSITIVE.arguments))),
    lambda: (Limit(S, 1), Limit(S, 2)),
    lambda: (SetOperation(T, T, "except"), SetOperation(T, T, "except", True)),
    lambda: (Filter(S, Call("=", (Y, Literal(1, INT)))), Filter(S, Call("=", (Y, Literal(2, INT))))),
    lambda: (Project(S, (Named("a", X),)), Project(S, (Named("b", X),))),
    lambda: (Union((S, Filter(S, POSITIVE))), Union((Filter(S, POSITIVE), S))),
    lambda: (Filter(S, COIN), Filter(S, dataclasses.replace(COIN, key="k2"))),
    lambda: (Watermark(S, "at", 1), Watermark(S, "at", 2)),
]


@pytest.mark.parametrize("change", CHANGES, ids=[str(i) for i in range(len(CHANGES))])
def test_different_plans_have_different_fingerprints(change: Callable[[], tuple[Node, Node]]) -> None:
    one, other = change()
    assert fingerprint(one) != fingerprint(other)


def test_a_fingerprint_stays_what_it_was() -> None:
    """Kept runs are found by it: a new text version is needed before this may change."""
    plan = source("cars", car="int", speed="double").where("speed = 0").group("car", n="count(*)").plan
    assert fingerprint(plan) == "65fa63f66693c34a"


HEAD = "whence plan 1\ns = source s (x int)\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected whence, found the end"),
        ("whence plan one", "the version of the text form"),
        (HEAD, "a line: name = node"),
        (
            HEAD + "f = filtre s where x > 1\nresult f",
            "source or values or project or filter .*found 'filtre' at line 3",
        ),
        (HEAD + "f = filter t where x > 1\nresult f", "the name of a line above: s"),
        (HEAD + "s = distinct s\nresult s", "name that is not taken"),
        (HEAD + "f = filter s where", "expected a value, found the end at line 3"),
        (HEAD + "j = join inner (s)\nresult j", "two inputs, not 1"),
        (HEAD + "l = limit s to three offset 0\nresult l", "a count"),
        (HEAD + "result s s", "expected the end"),
        (HEAD + "d = distinct s\nresult e", "the name of a line above: s, d"),
        (HEAD + "v = values (a int) rows ((x))\nresult v", "a constant"),
        (HEAD + "o = sort s by (x up nulls first)\nresult o", "asc or desc"),
    ],
)
def test_malformed_text_says_what_and_where(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=f"(?s){message}") as failed:
        parse_plan(text)
    assert failed.value.hint


def test_a_newer_version_is_named() -> None:
    with pytest.raises(NewerFormat, match="(?s)version 2.*reads version 1.*upgrade"):
        parse_plan("whence plan 2\nresult x")


def test_plans_that_mean_nothing_are_refused_like_built_ones() -> None:
    with pytest.raises(PlanError, match="(?s)unknown column 'y'.*columns here: x"):
        parse_plan(HEAD + "f = filter s where y > 1\nresult f")
    with pytest.raises(PlanError, match="unknown join 'outer'"):
        parse_plan(HEAD + "t = source t (z int)\nj = join outer (s, t)\nresult j")
