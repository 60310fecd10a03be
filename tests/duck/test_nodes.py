"""What generated plans do not draw: every kind of window, frame, generator and order, against the oracle."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path

import pytest

from tests.duck.runs import Given, write_run
from tests.duck.test_against_oracle import answered, bag
from whence.duck.engine import DuckEngine
from whence.errors import NotPortable
from whence.plan.builder import Flow, source
from whence.plan.expressions import AggregateCall, Column
from whence.plan.nodes import (
    Analytic,
    Deduplicate,
    EventWindow,
    Frame,
    Generate,
    Group,
    Named,
    NamedAnalytic,
    Node,
    Order,
)
from whence.plan.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    Field,
    MapType,
    StructType,
)
from whence.semantics import evaluate

PAIR = StructType((Field("p", INT), Field("q", STRING)))
FIELDS = (
    Field("n", BIGINT), Field("k", INT), Field("at", TIMESTAMP), Field("plain", TIMESTAMP_NTZ), Field("day", DATE),
    Field("x", DOUBLE), Field("pairs", ArrayType(PAIR)), Field("map", MapType(STRING, INT)),
)  # fmt: skip
STARTS = (-(2**40), -61, -60, -1, 0, 1, 29, 30, 59, 60, 61, 2**50, None)


def row(n: int, seconds: int | None) -> tuple[object, ...]:
    plain = None if seconds is None else dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=seconds)
    at = None if plain is None else plain.replace(tzinfo=dt.UTC)
    day = None if n % 4 == 0 else dt.date(2026, 1, 1) + dt.timedelta(days=n % 5)
    k = None if n % 6 == 0 else (2**31 - 1 if n % 6 == 5 else n % 3)
    x = (0.0, -0.0, float("nan"), None)[n % 4]
    pairs = (None, (), ((1, "a"), None), ((None, "b"),))[n % 4]
    return (n, k, at, plain, day, x, pairs, (None, (), (("a", 1), ("b", None)))[n % 3])


ROWS = [row(n, s) for n, s in enumerate(STARTS)]
TABLE = Given(FIELDS, [ROWS[:5], ROWS[5:]])
T: Flow = source("t", **{f.name: str(f.type) for f in FIELDS})


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> DuckEngine:
    folder: Path = tmp_path_factory.mktemp("nodes")
    return DuckEngine(write_run(folder, {"t": TABLE}))


def same(engine: DuckEngine, plan: Node) -> None:
    assert answered(engine, plan, {"t": TABLE.table})


@pytest.mark.parametrize("closed", ["left", "right", "both"])
@pytest.mark.parametrize(
    ("size", "slide", "offset"), [(60, 60, 0), (60, 30, 7), (30, 60, -100), (59, 30, 0), (61, 20, 3)]
)
def test_windows(engine: DuckEngine, closed: str, size: int, slide: int, offset: int) -> None:
    for stamp, time in itertools.product(("window", "start", "end"), ("at", "plain")):
        same(engine, EventWindow(T.plan, "w", Column(time), size, slide, offset, closed, stamp))  # type: ignore[arg-type]


ENDS = [(None, 0), (-1, 0), (-2, -1), (0, 1), (1, 2), (-1, None), (None, None), (-1, 1)]


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("unit", ["rows", "range"])
def test_frames(engine: DuckEngine, unit: str, ends: tuple[int | None, int | None]) -> None:
    for key, descending, first in itertools.product(("k", "day", "n"), (False, True), (False, True)):
        orders = [Order(Column(key), descending, first)]
        if unit == "rows":
            orders.append(Order(Column("n")))
        frame = Frame(unit, *ends)  # type: ignore[arg-type]
        calls = (AggregateCall("sum", (Column("n"),)), AggregateCall("count"), AggregateCall("max", (Column("at"),)))
        columns = tuple(NamedAnalytic(f"f{i}", call, frame) for i, call in enumerate(calls))
        partition = (Column("x"),) if descending else ()
        same(engine, Analytic(T.plan, partition, tuple(orders), columns))


@pytest.mark.parametrize(
    "function", ["row_number()", "rank()", "dense_rank()", "lag(at, 2)", "lead(n, 1)", "lag(n, -1)"]
)
def test_rankings(engine: DuckEngine, function: str) -> None:
    same(engine, T.analyse(partition=("k",), order=("day desc", "n"), f=function).plan)
    tied = T.analyse(order=("day",), f=function).plan
    if "rank" in function:
        same(engine, tied)
    else:
        with pytest.raises(NotPortable, match="tie"):
            engine.run(tied)


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("position", [None, "place"])
def test_generate(engine: DuckEngine, outer: bool, position: str | None) -> None:
    two = (Field("key", STRING), Field("value", INT))
    same(engine, Generate(T.plan, Column("map"), two, position, outer))
    members = (Field("p", INT), Field("q", STRING))
    same(engine, Generate(T.plan, Column("pairs"), members, position, outer, inline=True))
    same(engine, Generate(T.plan, Column("pairs"), (Field("pair", PAIR),), position, outer))


ORDERED: dict[str, Flow] = {
    "source": T,
    "filter": T.where("n > 2"),
    "project": T.select("k", "x", m="n + 1"),
    "union": T.where("n > 5").union(T.where("n <= 5")),
    "window": T.window("at", "2 seconds", "1 second"),
    "explode": T.explode("pairs", "pair"),
    "sort": T.sort("day desc"),
    "inner": T.join(T.prefixed("o_"), "k = o_k"),
    "left": T.join(T.prefixed("o_"), "k = o_k and o_n > 7", kind="left"),
    "right": T.where("n > 7").join(T.prefixed("o_"), "k = o_k", kind="right"),
    "full": T.where("n > 7").join(T.prefixed("o_").where("o_n < 9"), "k = o_k", kind="full"),
    "semi": T.join(T.prefixed("o_"), "k = o_k and n < o_n", kind="semi"),
    "again": T.deduplicate("x").union(T),
}


@pytest.mark.parametrize("name", ORDERED)
def test_the_first_of_each_is_the_first_by_row_id(engine: DuckEngine, name: str) -> None:
    same(engine, Deduplicate(ORDERED[name].plan, ("k",)))
    same(engine, Deduplicate(ORDERED[name].plan, ("x", "k")))


def test_the_first_of_groups_is_not_guessed(engine: DuckEngine) -> None:
    grouped = T.group("k", "day", n="count(*)")
    with pytest.raises(NotPortable, match="order cannot be told"):
        engine.run(grouped.deduplicate("k").plan)
    same(engine, grouped.deduplicate("k", "day").plan)


LIMITED: dict[str, Flow] = {
    "sort": T.sort("n desc").limit(3, offset=2),
    "all after": T.sort("n").limit(None, offset=4),
    "none": T.limit(0),
    "below a project": T.sort("day", "n").select("k").limit(5),
    "below a filter": T.sort("n desc").where("k > 0").limit(3),
    "limit of limit": T.sort("n").limit(8, offset=1).limit(4, offset=2),
    "beyond the end": T.sort("n").limit(3, offset=50),
    "ties inside": T.sort("day").limit(13),
    "by an expression": T.sort("n % 100").limit(4),
}


@pytest.mark.parametrize("name", LIMITED)
def test_limits(engine: DuckEngine, name: str) -> None:
    same(engine, LIMITED[name].plan)


@pytest.mark.parametrize("text", ["day desc nulls last", "x", "k desc nulls first", "n"])
def test_sorted_rows_come_in_order(engine: DuckEngine, text: str) -> None:
    plan = T.sort(text, "n").where("n > 0").select("n").plan
    assert [(r["n"],) for r in engine.run(plan).to_pylist()] == evaluate(plan, {"t": TABLE.table})


def test_groups_without_keys_or_rows(engine: DuckEngine) -> None:
    same(engine, T.where("n < 0").group(n="count(*)", s="sum(n)", d="count(distinct k)").plan)
    same(engine, T.where("n < 0").group("k", n="count(*)").plan)
    same(engine, Group(T.plan, (Named("one", Column("x")), Named("two", Column("x"))), ()))


@pytest.mark.parametrize("kind", ["intersect", "subtract"])
@pytest.mark.parametrize("every", [False, True])
def test_sets(engine: DuckEngine, kind: str, every: bool) -> None:
    left, right = T.select("k", "x").union(T.select("k", "x")), T.where("n > 3").select("k", "x")
    same(engine, getattr(left, kind)(right, all=every).plan)


def test_types_of_answers(engine: DuckEngine) -> None:
    plan = T.select("n", nothing="null", many="array()", gap="at - interval '1 second'").plan
    types: list[DataType] = [f.type for f in plan.schema]
    found = engine.run(plan)
    assert len(types) == len(found.schema.types)
    assert bag(plan, [tuple(r.values()) for r in found.to_pylist()]) == bag(plan, evaluate(plan, {"t": TABLE.table}))
