"""Lifted plans mean what Spark computes: each query here is lifted, and the oracle's rows are those Spark collects.

All queries are built, lifted, lowered again and collected once for the module, in one job a query; then there is a
test a query. What an opaque part computes is given to the oracle as a Python function. Streams are in
test_lift_streams, refusals and texts in test_lift_refusals.

Over 500 lines: the queries are one table, and what is said of them needs the results that one fixture makes.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import statistics
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from whence.plan.expressions import AggregateCall, Column, Opaque
from whence.plan.nodes import (
    Deduplicate,
    Distinct,
    EventWindow,
    Group,
    Join,
    Node,
    OpaqueStep,
    Project,
    SetOperation,
    Source,
    sources,
    walk,
)
from whence.plan.text import fingerprint, parse_plan, print_plan
from whence.semantics import Table, evaluate
from whence.semantics.values import Row, freeze
from whence.spark.session import spark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from whence.spark.lift import Lifted

MINUTE = 60_000_000


@dataclass(frozen=True, slots=True)
class Case:
    """A query over the module's tables, and what its opaque parts compute, by key."""

    build: Callable[[Tables], DataFrame]
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    judged: bool = True
    """Whether the oracle can compute it: not where an opaque function asks for its place in the window."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The DataFrames that queries read; SQL knows them as `reports`, `cars` and `pairs`."""

    spark: SparkSession
    reports: DataFrame
    cars: DataFrame
    pairs: DataFrame


@dataclass(frozen=True, slots=True)
class Outcome:
    """A lifted query, the rows of its sources, and what Spark says its result is."""

    lifted: Lifted
    tables: dict[str, Table]
    columns: list[tuple[str, str]]
    rows: list[Row]
    lowered: dict[str, list[Row] | Exception]
    """What the lifted plan gives when it is lowered with its handles, and without where its text says it all."""


def sql(text: str, **functions: Callable[..., Any]) -> Case:
    return Case(lambda t: t.spark.sql(text), functions)


def frame(build: Callable[[Tables], DataFrame], **functions: Callable[..., Any]) -> Case:
    return Case(build, functions)


def _windowed(t: Tables, *size: str) -> DataFrame:
    from pyspark.sql import functions as F

    return t.reports.groupBy(F.window("at", *size), "car").agg(F.count("*").alias("n"), F.min("pos").alias("lo"))


def _udf(t: Tables) -> DataFrame:
    from pyspark.sql import functions as F

    twice = F.udf(lambda x: None if x is None else 2 * x, "int")
    return t.reports.select("car", twice("pos").alias("p2")).where("p2 > 4")


def _grouped_pandas(t: Tables) -> DataFrame:
    def span(group: Any) -> Any:
        import pandas as pd

        return pd.DataFrame({"car": [group.car.iloc[0]], "span": [int(group.pos.max() - group.pos.min())]})

    return (
        t.reports.where("pos is not null and car is not null").groupBy("car").applyInPandas(span, "car int, span int")
    )


def _mapped_pandas(t: Tables) -> DataFrame:
    def shift(parts: Any) -> Any:
        for part in parts:
            yield part[["pos"]] + 1

    return t.reports.where("pos > 2").repartition(2).select("pos", "car").mapInPandas(shift, "pos int")


def _pandas_mean(t: Tables) -> DataFrame:
    from pyspark.sql import functions as F

    def middle(x: Any) -> Any:
        return float(x.median())

    middle.__annotations__ = {"x": _series(), "return": float}
    return t.reports.where("pos is not null").groupBy("car").agg(F.pandas_udf(middle, "double")("pos").alias("m"))


def _series() -> Any:
    import pandas as pd

    return pd.Series


def _deep(t: Tables) -> DataFrame:
    df = t.reports.select("pos")
    for number in range(60):
        df = df.where(f"pos != {100 + number}").alias(f"level_{number}")
    return df


def fn() -> Any:
    from pyspark.sql import functions

    return functions


CASES: dict[str, Case] = {
    # rows
    "filter_project": frame(lambda t: t.reports.where("speed = 0").select("car", (fn().col("pos") + 1).alias("p"))),
    "with_columns": frame(
        lambda t: t.reports.withColumn("pos", fn().col("pos") * 2).withColumn("q", fn().col("pos") - 1)
    ),
    "star_twice": sql("select r.*, pos as again from reports r"),
    "case_of_names": sql("select CAR, Pos from reports"),
    "lateral_alias": sql("select car + 1 as a, a * 2 as b from reports"),
    "no_table": sql("select 1 as a, 'x' as b, null as c"),
    "range": frame(lambda t: t.spark.range(5).toDF("i").where("i > 2")),
    "expressions": sql(
        "select car between 1 and 2 as b, coalesce(speed, -1D) as c,"
        " case pos when 1 then 'one' when 2 then 'two' end as w,"
        " if(pos > 3, 'far', 'near') as i, upper(concat('a', cast(car as string))) as u, nvl(pos, 0) as v,"
        " cast(at as date) as d, hour(at) as h, at + interval 90 seconds as later, car in (1, 3) as m, -pos as n,"
        " not speed = 1 as ne, speed / 2 as half, pos % 3 as r, isnan(speed) as nan, speed <=> null as nn from reports"
    ),
    "arrays": sql("select id, size(xs) as n, array(id, 7) as ys, s.u as u, flatten(array(xs, xs)) as f from cars"),
    "udf": frame(_udf, **{"<lambda>_1": lambda p: None if p is None else 2 * p}),
    "decimals": sql(
        "select cast(pos as decimal(10,2)) * 2 as d, sum(cast(pos as decimal(10,2))) over () as s from reports",
        multiply_1=lambda p: None if p is None else _decimal(p * 2),
    ),
    "higher_order": sql(
        "select id, transform(xs, x -> x + id) as y from cars",
        transform_1=lambda xs, id: None if xs is None else [None if id is None else x + id for x in xs],
    ),
    "metadata": frame(lambda t: t.reports.select("car", "_metadata.row_index")),
    "pass_through": frame(
        lambda t: (
            t.reports.repartition(3)
            .hint("broadcast")
            .sortWithinPartitions("pos")
            .observe("seen", fn().count(fn().lit(1)))
            .coalesce(1)
            .select("pos")
        )
    ),
    "deep": frame(_deep),
    # groups
    "group": frame(
        lambda t: t.reports.groupBy("car").agg(fn().max("speed").alias("speed"), fn().count("*").alias("n"))
    ),
    "group_expressions": sql(
        "select car, sum(pos) / count(speed) + 1 as x from reports group by car having max(pos) > 2"
    ),
    "group_by_expression": sql(
        "select car + 1 as c1, car + 1 + count(*) as n from reports group by car + 1 order by c1"
    ),
    "group_without_keys": frame(lambda t: t.reports.agg(fn().sum("pos").alias("s"), fn().count("*").alias("n"))),
    "group_of_nothing": sql("select count(*) as n, max(pos) as m from reports where car = 99"),
    "group_key_hidden": sql("select count(*) as car from reports group by car"),
    "group_keys_only": sql("select car from reports group by car, pos"),
    "group_literal": sql("select 'all' as k, count(*) as n from reports group by 'all'"),
    "group_same_twice": sql("select car, car as again, sum(pos) as s, sum(pos) as s2 from reports group by car"),
    "group_filters": sql(
        "select car, count(distinct speed) as d, count(*) filter (where pos > 2) as f, bool_and(pos > 0) as b,"
        " avg(pos) as a, min(at) as m from reports group by car"
    ),
    "group_opaque": sql(
        "select car, stddev_pop(pos) as sd, count(distinct car, pos) as n from reports"
        " where pos is not null group by car",
        stddev_pop_1=lambda xs: statistics.pstdev(xs),
        count_1=lambda cars, poss: len({(c, p) for c, p in zip(cars, poss, strict=True) if c is not None}),
    ),
    "group_pandas": frame(_pandas_mean, middle_1=lambda xs: float(statistics.median(xs))),
    "rollup": sql("select car, speed, count(*) as n, grouping_id() as g from reports group by rollup(car, speed)"),
    "cube_having": sql(
        "select car, pos % 2 as odd, sum(pos) as s from reports group by cube(car, pos % 2) having s > 2"
    ),
    "grouping_sets": sql("select car, speed, max(pos) as m from reports group by grouping sets ((car), (speed), ())"),
    "unpivot": sql(
        "select * from (select id, name, cast(day as string) as d from cars) unpivot (v for k in (name, d))"
    ),
    # event-time windows
    "tumbling": frame(lambda t: _windowed(t, "2 minutes")),
    "sliding": frame(lambda t: _windowed(t, "2 minutes", "30 seconds")),
    "window_offset": frame(lambda t: _windowed(t, "2 minutes", "1 minute", "7 seconds").select("window.start", "n")),
    "window_filtered": frame(lambda t: _windowed(t, "120 seconds", "30 seconds").where("n > 2 and lo = 1")),
    "window_time": frame(
        lambda t: (
            t.reports.groupBy(fn().window("at", "1 minute"))
            .agg(fn().count("*").alias("n"))
            .groupBy(fn().window(fn().window_time("window"), "2 minutes"))
            .agg(fn().sum("n").alias("n"))
        )
    ),
    "window_alone": frame(lambda t: t.reports.select(fn().window("at", "1 minute").alias("w"), "car")),
    # joins
    "join_using": sql("select * from reports full join (select id as car, name from cars) c using (car)"),
    "join_self": frame(
        lambda t: (
            t.reports.alias("a")
            .join(t.reports.alias("b"), fn().expr("a.car = b.car and a.pos < b.pos"), "left")
            .select("a.car", fn().col("b.pos").alias("q"), fn().col("b.at"))
        )
    ),
    "join_null_safe": sql("select car, name from reports join cars on car <=> id"),
    "join_right_non_equi": sql("select pos, name from reports right join cars on pos > id + 2 and speed = 0"),
    "join_cross": sql("select id, one from cars cross join (select 1 as one union all select 2)"),
    "join_semi": frame(lambda t: t.reports.join(t.cars, fn().expr("car = id"), "left_semi")),
    "join_anti": frame(lambda t: t.cars.join(t.reports, fn().expr("car = id"), "left_anti").select("id")),
    "join_same_names": frame(
        lambda t: t.cars.join(t.cars.select("id", fn().col("name").alias("other")), "id").select("id", "other")
    ),
    "in_subquery": sql("select car, pos from reports where car in (select id from cars where name is not null)"),
    "not_in": sql("select id from cars where id not in (select car from reports where car is not null)"),
    "not_in_null": sql("select id from cars where id not in (select car from reports)"),
    "exists": sql("select id from cars c where exists (select 1 from reports r where r.car = c.id and r.pos > 3)"),
    "not_exists": sql("select id from cars c where not exists (select 1 from reports r where r.car = c.id)"),
    "exists_or": sql("select id from cars c where id = 3 or exists (select 1 from reports r where r.car = c.id)"),
    "correlated": sql(
        "select id, (select max(pos) from reports r where r.car = c.id) as m,"
        " (select count(*) from reports r where r.car = c.id) as n from cars c"
    ),
    "scalar": sql("select car, pos from reports where pos > (select avg(pos) from reports)"),
    "scalar_nested": sql(
        "select id, (select max(pos) from reports) as m from cars"
        " where id < (select max(pos) from reports where pos < (select count(*) from cars))"
    ),
    "lateral": sql(
        "select id, total from cars c, lateral (select sum(pos) as total from reports r where r.car = c.id)"
    ),
    "cte_twice": sql(
        "with t as (select car, count(*) as n from reports group by car)"
        " select x.car, y.n from t x join t y on x.n = y.n"
    ),
    # by position
    "union_all": sql("select car + 1 as a, car + 1 as b from reports union all select id, id from cars"),
    "union_three": sql("select car, pos from reports union all select id, id from cars union all select 1, 2"),
    "union_names": frame(
        lambda t: t.reports.select("car", "pos").unionByName(t.reports.select("pos", "speed"), allowMissingColumns=True)
    ),
    "union_self": frame(lambda t: t.reports.select("car").union(t.reports.select("car"))),
    "union_distinct": sql("select car from reports union select id from cars"),
    "intersect": sql("select car from reports intersect select id from cars"),
    "intersect_all": sql("select car, speed from reports intersect all select car, speed from reports where pos < 3"),
    "except": sql("select id from cars except select car from reports"),
    "except_all": sql("select car from reports except all select id from cars"),
    # rows once, in order, some of them
    "distinct": frame(lambda t: t.reports.select("car", "speed").distinct()),
    "drop_duplicates": frame(
        lambda t: t.reports.orderBy("pos").select("car", "car").toDF("a", "b").dropDuplicates(["a"])
    ),
    "sort_limit_offset": frame(
        lambda t: t.reports.orderBy(fn().desc("car"), fn().asc_nulls_last("pos"), "at").offset(2).limit(5)
    ),
    "sort_by_expression": sql("select car from reports order by pos % 2 desc nulls last, pos, car limit 4"),
    "offset_of_limit": frame(lambda t: t.reports.orderBy("pos", "car").limit(6).offset(4)),
    # analytic
    "rankings": sql(
        "select car, pos, row_number() over w as rn, rank() over (partition by car order by speed) as rk,"
        " dense_rank() over (partition by car order by speed desc) as dr,"
        " lag(pos) over w as l1, lead(pos, 2) over w as l2, lag(pos, -1) over w as l3"
        " from reports window w as (partition by car order by pos, at)"
    ),
    "frames": sql(
        "select car, pos, sum(pos) over (partition by car order by pos rows between 1 preceding and 1 following) as s,"
        " avg(pos) over (partition by car) as a, max(pos) over (partition by car order by speed) as m,"
        " count(*) over (order by pos range between 2 preceding and current row) as r from reports"
    ),
    "opaque_frames": sql(
        "select car, pos, first_value(pos) over (partition by car order by pos) as f from reports where pos > 0",
        first_value_1=lambda xs: xs[0],
    ),
    "opaque_places": Case(
        lambda t: t.spark.sql(
            "select car, pos, ntile(2) over w as t, lag(pos, 1, 0) over w as g, nth_value(pos, 2) over w as v,"
            " percent_rank() over (order by pos) as p, cume_dist() over (order by pos) as d from reports"
            " window w as (partition by car order by pos, at)"
        ),
        judged=False,
    ),
    "shared_arguments": sql(
        "select md5(cast(pos between 2 and 3 as string)) as m, nullif(pos, 2) as n from reports",
        md5_1=lambda p: None if p is None else hashlib.md5(str(2 <= p <= 3).lower().encode()).hexdigest(),
    ),
    "ratio": sql("select pos / sum(pos) over (partition by car) as share from reports where pos > 0"),
    # rows from arrays and maps
    "explode": sql("select id, x from cars lateral view explode(xs) t as x"),
    "posexplode_outer": sql("select id, p, x from cars lateral view outer posexplode(xs) t as p, x"),
    "explode_map": sql("select id, key, value from cars lateral view explode(m) t"),
    "inline": sql("select id, u, v from cars lateral view inline(array(s, s)) t as u, v"),
    "stack": sql(
        "select id, a, b from cars lateral view stack(2, id, name, id + 1, 'q') t as a, b",
        stack_1=lambda id, name: [(id, name), (None if id is None else id + 1, "q")],
    ),
    # users' functions over whole rows
    "by_group": frame(
        _grouped_pandas,
        span_step_1=lambda rows: [(rows[0][0], max(r[-1] for r in rows) - min(r[-1] for r in rows))],
    ),
    "by_table": frame(_mapped_pandas, shift_step_1=lambda rows: [(r[0] + 1,) for r in rows]),
}
if spark_version() >= (4, 3):  # PySpark 4.0 has no such clause
    CASES["qualify"] = sql(
        "select car, pos from reports qualify row_number() over (partition by car order by pos, at) = 1"
    )


def _decimal(value: int) -> Any:
    from decimal import Decimal

    return Decimal(value).quantize(Decimal("0.01"))


def moment(minute: int, second: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1, 8, minute, second)


REPORTS = [
    *((1, moment(0, s), float(s % 3), s) for s in range(6)),
    *((2, moment(1, 10 * s), float(s % 2), s) for s in range(5)),
    (2, moment(2, 0), float("nan"), 1),
    (3, moment(2, 30), -0.0, None),
    (None, None, None, 7),
    (None, moment(3, 0), 0.0, 7),
]
CARS = [
    (1, "a", dt.date(2020, 1, 1), [1, 2], (5, "x"), {"k": 1}),
    (2, "b", None, [], (6, None), {}),
    (4, None, dt.date(2020, 3, 1), None, None, None),
    (None, "z", None, [5], (7, "y"), {"p": 3, "q": None}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lift")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, folder: Path) -> Tables:
    return make_tables(spark, folder)


def make_tables(spark: SparkSession, folder: Path) -> Tables:
    """The tables as files, so that their sources are called by their folders."""
    reports = spark.createDataFrame(REPORTS, "car int, at timestamp, speed double, pos int")
    reports.write.parquet(str(folder / "reports"))
    schema = "id int, name string, day date, xs array<int>, s struct<u int, v string>, m map<string, int>"
    spark.createDataFrame(CARS, schema).coalesce(1).write.parquet(str(folder / "cars"))
    read = spark.read.parquet
    pairs = spark.createDataFrame([(1, "p"), (2, "q")], "k int, v string")
    made = Tables(spark, read(str(folder / "reports")), read(str(folder / "cars")), pairs)
    register(made)
    return made


def register(tables: Tables) -> None:
    """Make the tables known to SQL; tests drop views after themselves."""
    for name in ("reports", "cars", "pairs"):
        getattr(tables, name).createOrReplaceTempView(name)


def rows_of(df: DataFrame) -> list[tuple[object, ...]]:
    table = df.toArrow()
    if not table.num_columns:
        return [()] * table.num_rows
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def typed_rows(rows: list[tuple[object, ...]], plan: Node) -> list[Row]:
    return [tuple(freeze(v, f.type) for v, f in zip(r, plan.schema, strict=True)) for r in rows]


def bag(rows: list[Row]) -> list[str]:
    """Rows to compare as a bag. Spark says 0.0 for -0.0 where it compares values, so either will do."""
    return sorted(repr(tuple(v + 0.0 if isinstance(v, float) else v for v in row)) for row in rows)


def outcome(build: Callable[[], DataFrame], known: dict[tuple[str, ...], Table]) -> Outcome | Exception:
    from pyspark.sql import functions as F

    from whence.spark.lift import lift
    from whence.spark.lower import lower

    try:
        df = build()
        lifted = lift(df)
        tables = {}
        for leaf in lifted.leaves:
            columns = tuple(f.name for f in leaf.fields)
            if (*leaf.roots, *columns) not in known or not leaf.roots:
                known[(*leaf.roots, *columns)] = Table(columns, rows_of(leaf.frame(lifted.jvm)))
            tables[leaf.name] = known[(*leaf.roots, *columns)]
        frames = {leaf.name: leaf.frame(lifted.jvm) for leaf in lifted.leaves}
        ways: dict[str, Any] = {"with handles": lifted.handles}
        if not lifted.opaque:
            ways["without"] = None
        made: dict[str, DataFrame | Exception] = {"original": df}
        for way, handles in ways.items():
            try:
                made[way] = lower(lifted.jvm, lifted.plan, frames, handles)
                assert made[way].dtypes == df.dtypes
            except Exception as failed:  # the test of lowering fails with it
                made[way] = failed
        job: DataFrame | None = None
        for way, part in made.items():
            if not isinstance(part, Exception):
                tagged = part.withColumn("way", F.lit(way))
                job = tagged if job is None else job.unionAll(tagged)
        found = rows_of(job)
        results: dict[str, Any] = {
            way: part
            if isinstance(part, Exception)
            else typed_rows([row[:-1] for row in found if row[-1] == way], lifted.plan)
            for way, part in made.items()
        }
        original = results.pop("original")
        return Outcome(lifted, tables, df.dtypes, original, results)
    except Exception as failed:  # the test of this query fails with it, not those of the others
        return failed


@pytest.fixture(scope="module")
def quickly(spark: SparkSession) -> Iterator[None]:
    """Compiling code for a dozen rows, and planning again between stages, is most of what these queries cost."""
    settings = ("spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled")
    before = {name: spark.conf.get(name) for name in settings}
    for name in settings:
        spark.conf.set(name, "false")
    yield
    for name, value in before.items():
        spark.conf.set(name, str(value))


@pytest.fixture(scope="module")
def outcomes(quickly: None, tables: Tables) -> dict[str, Outcome | Exception]:
    known: dict[tuple[str, ...], Table] = {}
    # Small queries are all waiting; three at a time use both cores.
    with ThreadPoolExecutor(3) as pool:
        started = {name: pool.submit(outcome, lambda c=case: c.build(tables), known) for name, case in CASES.items()}
        return {name: one.result() for name, one in started.items()}


def of(outcomes: dict[str, Outcome | Exception], name: str) -> Outcome:
    found = outcomes[name]
    if isinstance(found, Exception):
        raise found
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_lifted_plan_means_what_spark_computes(name: str, outcomes: dict[str, Outcome | Exception]) -> None:
    found = of(outcomes, name)
    plan = found.lifted.plan
    assert [f.name for f in plan.schema] == [n for n, _ in found.columns]
    assert [str(f.type) for f in plan.schema] == [t for _, t in found.columns]
    if CASES[name].judged:
        assert bag(evaluate(plan, found.tables, CASES[name].functions)) == bag(found.rows)
    assert len(found.rows) > 0 or name == "not_in_null"


@pytest.mark.parametrize("name", CASES)
def test_the_lifted_plan_lowered_again_gives_the_same(name: str, outcomes: dict[str, Outcome | Exception]) -> None:
    found = of(outcomes, name)
    for way, rows in found.lowered.items():
        if isinstance(rows, Exception):
            raise rows
        assert bag(rows) == bag(found.rows), way


def test_lifted_plans_survive_their_text(outcomes: dict[str, Outcome | Exception]) -> None:
    for name in CASES:
        plan = of(outcomes, name).lifted.plan
        read = parse_plan(print_plan(plan))
        assert fingerprint(read) == fingerprint(plan), name
        assert print_plan(read) == print_plan(plan), name


def test_every_step_has_a_name_of_its_own(outcomes: dict[str, Outcome | Exception]) -> None:
    for name in CASES:
        steps = [node.step for node in walk(of(outcomes, name).lifted.plan)]
        assert all(steps), name
        assert len(set(steps)) == len(steps), name


def kinds(found: Outcome) -> list[type]:
    return [type(node) for node in walk(found.lifted.plan)]


def test_sets_stay_sets_and_groups_stay_groups(outcomes: dict[str, Outcome | Exception]) -> None:
    assert kinds(of(outcomes, "intersect"))[-1] is SetOperation
    assert kinds(of(outcomes, "except_all"))[-1] is SetOperation
    assert kinds(of(outcomes, "distinct"))[-1] is Distinct
    assert kinds(of(outcomes, "drop_duplicates"))[-1] is Deduplicate
    assert kinds(of(outcomes, "group")) == [Source, Group]
    assert kinds(of(outcomes, "group_by_expression"))[:3] == [Source, Group, Project]
    assert kinds(of(outcomes, "tumbling")) == [Source, EventWindow, Group]


def test_windows_have_their_parameters(outcomes: dict[str, Outcome | Exception]) -> None:
    def window(name: str) -> EventWindow:
        return next(n for n in walk(of(outcomes, name).lifted.plan) if isinstance(n, EventWindow))

    assert (window("tumbling").size, window("tumbling").slide) == (2 * MINUTE, 2 * MINUTE)
    assert (window("sliding").size, window("sliding").slide) == (2 * MINUTE, MINUTE // 2)
    assert window("window_offset").offset == 7_000_000
    assert (window("sliding").closed, window("sliding").stamp) == ("left", "window")


def test_names_differ_only_where_columns_stand_side_by_side(outcomes: dict[str, Outcome | Exception]) -> None:
    group = of(outcomes, "group").lifted.plan
    assert isinstance(group, Group)
    # The result's speed is another column than the source's, but they never meet.
    assert group.aggregates[0].aggregate == AggregateCall("max", (Column("speed"),))
    assert [f.name for f in group.child.schema] == ["car", "at", "speed", "pos"]
    join = next(n for n in walk(of(outcomes, "join_self").lifted.plan) if isinstance(n, Join))
    # `at` is the right side's in the result.
    assert [f.name for f in join.left.schema] == ["car", "at_2", "speed", "pos"]
    assert [f.name for f in join.right.schema] == ["car_2", "at", "speed_2", "pos_2"]


def test_a_table_read_twice_is_one_source(outcomes: dict[str, Outcome | Exception]) -> None:
    found = of(outcomes, "join_self")
    assert [leaf.name for leaf in found.lifted.leaves] == ["reports"]
    assert list(sources(found.lifted.plan)) == ["reports"]
    (leaf,) = found.lifted.leaves
    assert leaf.kind == "parquet"
    assert leaf.format == "parquet"
    assert not leaf.is_streaming
    assert leaf.roots[0].endswith("/reports")
    assert len(leaf.files()) > 0


def test_opaque_parts_are_named_where_later_processes_cannot_know_them(
    outcomes: dict[str, Outcome | Exception],
) -> None:
    def opaque(name: str) -> tuple[str, ...]:
        return of(outcomes, name).lifted.opaque

    assert opaque("udf") == ("project: <lambda>_1",)
    assert opaque("group_pandas") == ("group: middle_1",)
    assert opaque("by_group") == ("opaque: span_step_1",)
    assert opaque("by_table") == ("opaque: shift_step_1",)
    for name in ("decimals", "higher_order", "group_opaque", "opaque_frames", "stack", "group"):
        assert opaque(name) == (), name


def test_opaque_expressions_know_what_they_read(outcomes: dict[str, Outcome | Exception]) -> None:
    lifted = of(outcomes, "udf").lifted
    project = next(n for n in walk(lifted.plan) if isinstance(n, Project))
    (udf,) = (c.expression for c in project.columns if isinstance(c.expression, Opaque))
    assert udf.inputs == (Column("pos"),)
    assert udf.deterministic
    assert udf.key in lifted.handles.opaque


def test_functions_over_rows_keep_their_node_and_names(outcomes: dict[str, Outcome | Exception]) -> None:
    lifted = of(outcomes, "by_group").lifted
    step = next(n for n in walk(lifted.plan) if isinstance(n, OpaqueStep))
    assert (step.kind, step.keys) == ("per_group", ("car",))
    handle = lifted.handles.steps[step.key]
    # Spark puts the keys before all columns; so the key is there twice.
    assert [name for _, name in handle.inputs] == ["car", "car", "at", "speed", "pos"]
    assert [name for _, name in handle.outputs] == ["car", "span"]
    lifted = of(outcomes, "by_table").lifted
    step = next(n for n in walk(lifted.plan) if isinstance(n, OpaqueStep))
    assert step.kind == "black_box"


def test_lifting_twice_gives_the_same_plan(tables: Tables, outcomes: dict[str, Outcome | Exception]) -> None:
    from whence.spark.lift import lift

    register(tables)
    for name in ("scalar_nested", "rollup", "join_self", "cte_twice"):
        again = lift(CASES[name].build(tables)).plan
        assert print_plan(again) == print_plan(of(outcomes, name).lifted.plan), name
