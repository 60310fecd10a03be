"""The fluent builder, and the checks that nodes make of themselves, reached through it or directly."""

from collections.abc import Callable

import pytest

from whence.errors import ParseError, PlanError, WhenceError
from whence.plan.builder import Flow, source
from whence.plan.expressions import AggregateCall, Call, Column
from whence.plan.nodes import (
    Analytic,
    EventWindow,
    Filter,
    Frame,
    Generate,
    Group,
    Join,
    Limit,
    Named,
    NamedAnalytic,
    OpaqueStep,
    Order,
    Project,
    SetOperation,
    Source,
    Union,
    Values,
    Watermark,
    children,
    kind_of,
    label,
    names,
    sources,
    transform,
    walk,
    with_children,
)
from whence.plan.text import print_plan
from whence.plan.types import BIGINT, INT, STRING, TIMESTAMP, ArrayType, Field, MapType

REPORTS = source("reports", car="int", at="timestamp", speed="double", pos="int")
LISTS = source(
    "lists",
    l="array<bigint>",
    m="map<string,int>",
    s="array<struct<a:int,b:string>>",
    w="struct<start:timestamp,end:timestamp>",
)


def types(flow: Flow) -> dict[str, str]:
    return {f.name: str(f.type) for f in flow.plan.schema}


def test_the_example_of_the_design() -> None:
    alerts = (
        REPORTS.where("speed = 0")
        .with_watermark("at", "30 seconds")
        .window("at", "120 seconds", "30 seconds")
        .group("window", "car", n="count(*)", lo="min(pos)", hi="max(pos)")
        .where("n = 4 and lo = hi").named("alerts")
    )  # fmt: skip
    assert types(alerts) == {
        "window": "struct<start:timestamp,end:timestamp>", "car": "int", "n": "bigint", "lo": "int", "hi": "int",
    }  # fmt: skip
    assert [kind_of(n) for n in walk(alerts.plan)] == ["source", "filter", "watermark", "window", "group", "filter"]
    assert label(alerts.plan) == "filter 'alerts'" and label(alerts.plan.child) == "group"  # type: ignore[union-attr]
    assert "where (speed = 0.0D)" in print_plan(alerts.plan) and "where ((n = 4L) and (lo = hi))" in print_plan(
        alerts.plan
    )


@pytest.mark.parametrize(
    ("flow", "columns"),
    [
        (REPORTS.select("CAR", twice="2 * speed"), {"car": "int", "twice": "double"}),
        (REPORTS.with_columns(pos="pos + 1", fast="speed > 9"),
         {"car": "int", "at": "timestamp", "speed": "double", "pos": "int", "fast": "boolean"}),
        (REPORTS.select("car", "at").rename(car="auto"), {"auto": "int", "at": "timestamp"}),
        (REPORTS.select("car").prefixed("o_"), {"o_car": "int"}),
        (LISTS.select("l").explode("l", "e", position="i"), {"l": "array<bigint>", "i": "int", "e": "bigint"}),
        (LISTS.select("m").explode("m", "k", "v", outer=True), {"m": "map<string,int>", "k": "string", "v": "int"}),
        (LISTS.explode("s", "a", "b").select("a", "b"), {"a": "int", "b": "string"}),
        (LISTS.select(t="w.end"), {"t": "timestamp"}),
        (REPORTS.select("car").union(REPORTS.select("pos")), {"car": "int"}),
        (REPORTS.join(LISTS, kind="semi"), types(REPORTS)),
        (REPORTS.window("at", "1 hour", name="w", stamp="end").select("w"), {"w": "timestamp"}),
        (REPORTS.group(s="sum(pos)", a="avg(pos)", l="collect_list(car)"), {"s": "bigint", "a": "double",
        "l": "array<int>"}),
        (REPORTS.analyse(partition=("car",), order=("at desc nulls last",), n="rank()").select("n"), {"n": "int"}),
        (REPORTS.opaque("f", "per_group", keys=("CAR",), car="int", y="string"), {"car": "int", "y": "string"}),
    ],
)  # fmt: skip
def test_columns_and_types(flow: Flow, columns: dict[str, str]) -> None:
    assert types(flow) == columns and flow.columns == tuple(columns)


def test_sort_orders_have_sqls_defaults() -> None:
    plan = REPORTS.sort("car", "pos desc", "speed desc nulls first", "2 * pos asc nulls last").plan
    assert [(o.descending, o.nulls_first) for o in plan.orders] == [  # type: ignore[union-attr]
        (False, True), (True, False), (True, True), (False, False)
    ]  # fmt: skip


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: REPORTS.select("cra"), "unknown column 'cra'.*columns here: car, at, speed, pos"),
    (lambda: REPORTS.where("sped > 1"), "unknown column 'sped'"),
    (lambda: REPORTS.where("speed + 1"), "must be true or false, this gives double"),
    (lambda: REPORTS.where("speed >"), "expected a value, found the end"),
    (lambda: REPORTS.group("car", n="frob(*)"), "an aggregate: count"),
    (lambda: REPORTS.group("car", n="sum(at)"), "sum does not take"),
    (lambda: REPORTS.explode("car", "x"), "cannot explode 'car' of type int"),
    (lambda: LISTS.explode("m", "k"), "makes 2 columns, not 1"),
    (lambda: REPORTS.join(REPORTS), "both sides have at, car, pos, speed; rename one"),
    (lambda: REPORTS.union(LISTS), "inputs differ in types"),
    (lambda: REPORTS.window("car", "1 hour"), "windows need a timestamp, not int"),
    (lambda: REPORTS.window("at", "soon"), "malformed duration 'soon'.*units"),
    (lambda: REPORTS.with_watermark("car", "1 hour"), "a watermark needs a timestamp"),
    (lambda: REPORTS.with_columns(x="1").group("x", x="count(*)"), "column 'x' is there twice"),
    (lambda: REPORTS.analyse(n="rank()"), "rank needs an order"),
    (lambda: REPORTS.limit(-1), "must not be negative"),
    (lambda: LISTS.group("m"), "cannot group by m of type map"),
    (lambda: LISTS.sort("m"), "cannot order by a value of type map"),
    (lambda: REPORTS.opaque("f", "per_group", x="int"), "keys belong to a per-group step"),
    (lambda: REPORTS.opaque("f", "sideways", x="int"), "unknown kind 'sideways'; known: per_row"),  # type: ignore[arg-type]
    (lambda: source("s", a="array<"), "malformed type"),
]


@pytest.mark.parametrize(("build", "message"), REFUSED, ids=[m[:40] for _, m in REFUSED])
def test_mistakes_are_refused_where_they_are_made(build: Callable[[], object], message: str) -> None:
    with pytest.raises((PlanError, ParseError), match=f"(?s){message}") as refused:
        build()
    assert refused.value.hint


S = Source(
    "s", (Field("x", BIGINT), Field("at", TIMESTAMP), Field("l", ArrayType(BIGINT)), Field("m", MapType(STRING, INT)))
)
X = Column("x")
SUM = NamedAnalytic("s", AggregateCall("sum", (X,)), Frame("rows", 2, 1))
BAD_NODES: list[tuple[Callable[[], object], str]] = [
    (lambda: Values((Field("a", INT),), ((1, 2),)), "a row has 2 values for 1 columns"),
    (lambda: Project(S, (Named("a", X), Named("a", X)), step="mine"),
    "malformed project 'mine'.*column 'a' is there twice"),
    (lambda: Filter(S, X), "the condition must be boolean, not bigint"),
    (lambda: Generate(S, X, (Field("e", BIGINT),)), "cannot generate rows from bigint"),
    (lambda: Generate(S, Column("l"), (Field("e", INT),)), "array<bigint> makes columns of bigint"),
    (lambda: Union((S,)), "two inputs or more"),
    (lambda: Join(S, Source("t", ()), "outer"), "unknown join 'outer'; known: inner, left"),  # type: ignore[arg-type]
    (lambda: EventWindow(S, "w", Column("at"), 0, 1), "size and slide must be above zero"),
    (lambda: EventWindow(S, "w", Column("at"), 1, 1, closed="none"), "unknown closed 'none'"),  # type: ignore[arg-type]
    (lambda: EventWindow(S, "w", Column("at"), 1, 1, stamp="middle"), "unknown stamp 'middle'"),  # type: ignore[arg-type]
    (lambda: SetOperation(S, S, "minus"), "unknown set operation 'minus'"),  # type: ignore[arg-type]
    (lambda: Limit(S, 1, -1), "must not be negative"),
    (lambda: Analytic(S, (), (Order(X),), (SUM,)), "the frame of s ends before it starts"),
    (lambda: Analytic(S, (), (), (NamedAnalytic("s", SUM.function, Frame("range", -1, 0)),)), "needs one order key"),
    (lambda: Analytic(S, (Column("m"),), (), ()), "cannot partition by a value of type map"),
    (lambda: Analytic(S, (), (Order(X),), (NamedAnalytic("l", AggregateCall("lag", (X, X)), Frame("rows", None, 0)),)),
     "lag takes a value and an int literal"),
    (lambda: Watermark(S, "at", -1), "the delay must not be negative"),
    (lambda: OpaqueStep(S, "black_box", "k", (), carried=("x",)), "only a per-row step can carry"),
    (lambda: Group(S, (Named("k", Call("array", (Column("m"),))),), ()), "cannot group by k"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), BAD_NODES, ids=[m[:40] for _, m in BAD_NODES])
def test_nodes_check_themselves(make: Callable[[], object], message: str) -> None:
    with pytest.raises(PlanError, match=f"(?s){message}") as refused:
        make()
    assert refused.value.hint


def test_two_sources_of_one_name_must_agree_but_for_hidden_columns() -> None:
    one, other = Source("s", (Field("x", INT),)), Source("s", (Field("y", INT),))
    with pytest.raises(PlanError, match="(?s)two sources are called 's'.*sources="):
        sources(Union((one, other)))
    hidden = Project(Source("s", (Field("x", INT), Field("__whence_id", BIGINT))), (Named("x", Column("x")),))
    assert names(sources(Union((one, hidden)))["s"]) == ("x", "__whence_id")


def test_walking_and_transforming_keep_sharing() -> None:
    shared = Filter(S, Call("isnull", (X,)))
    plan = Union((shared, shared))
    assert list(walk(plan)) == [S, shared, plan] and children(plan) == (shared, shared)
    assert with_children(plan, (shared, shared)) is plan
    assert transform(plan, lambda n: n) is plan
    cut = transform(plan, lambda n: Limit(n, 1) if isinstance(n, Source) else n)
    assert len(list(walk(cut))) == 4 and children(cut)[0] is children(cut)[1]


def test_errors_are_values_a_user_can_catch() -> None:
    with pytest.raises(ValueError):
        REPORTS.where("nobody = 1")
    with pytest.raises(WhenceError):
        REPORTS.where("(")
