"""What cannot be lifted is refused by its name, with why and what to do; and which opaque parts have a text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from whence.errors import ConnectSession, NotTraceable, UnknownSource
from whence.plan.expressions import Opaque
from whence.plan.expressions import walk as parts_of
from whence.plan.nodes import Analytic, Generate, Group, Node, Project, walk
from whence.plan.text import parse_plan, print_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def numbers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = str(tmp_path_factory.mktemp("refusals") / "numbers")
    spark.range(4).selectExpr(
        "id as k", "cast(id as double) as x", "timestamp_micros(id * 1000000) as at", "array(id, 2) as xs", "'a' as s"
    ).write.parquet(path)
    return spark.read.parquet(path)


def _cogrouped(df: DataFrame) -> DataFrame:
    grouped = df.groupBy("k")
    return grouped.cogroup(df.groupBy("k")).applyInPandas(lambda left, right: left[["k"]], "k bigint")


def _cogrouped_arrow(df: DataFrame) -> DataFrame:
    return df.groupBy("k").cogroup(df.groupBy("k")).applyInArrow(lambda left, right: left, "k bigint")


def _with_state(df: DataFrame) -> DataFrame:
    from pyspark.sql.streaming.state import GroupStateTimeout

    def count(key: Any, parts: Any, state: Any) -> Any:
        yield from parts

    return df.groupBy("k").applyInPandasWithState(count, "k bigint", "n bigint", "update", GroupStateTimeout.NoTimeout)


def _stateful(df: DataFrame) -> DataFrame:
    from pyspark.sql.streaming import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None: ...

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803 (Spark's names)
            yield from rows

        def close(self) -> None: ...

    return df.groupBy("k").transformWithStateInPandas(Count(), "k bigint", "Update", "none")


def sql(text: str) -> Callable[[DataFrame], DataFrame]:
    def build(df: DataFrame) -> DataFrame:
        df.createOrReplaceTempView("numbers")
        return df.sparkSession.sql(text)

    return build


def _session(df: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return df.groupBy(F.session_window("at", "5 seconds")).count()


def _asof(df: DataFrame) -> DataFrame:
    other = df.select(df["at"].alias("then"))
    return df._joinAsOf(other, df["at"], other["then"])  # type: ignore[operator]


REFUSALS: dict[str, tuple[Callable[[DataFrame], DataFrame], str, str, str]] = {
    "two_names": (lambda df: df.select("k", "x", df["x"]), "two columns called 'x'", "name its columns", "alias"),
    "two_cases": (lambda df: df.selectExpr("k as a", "x as A"), "two columns called 'A'", "", "rename one"),
    "hidden_name": (lambda df: df.selectExpr("k as __whence_id"), "'__whence_id'", "belong to whence", "rename"),
    "session": (_session, "session_window", "how far a session reaches", "window(...)"),
    "sample": (lambda df: df.sample(0.5, 7), "Sample", "partitions", "rand(7)"),
    "cogroup": (_cogrouped, "FlatMapCoGroupsInPandas", "two grouped inputs", "join the inputs"),
    "cogroup_arrow": (_cogrouped_arrow, "FlatMapCoGroupsInArrow", "two grouped inputs", "join the inputs"),
    "asof": (_asof, "AsOfJoin", "nearest match", "a join and a window"),
    "recursive": (
        sql("with recursive t(n) as (select 1 union all select n + 1 from t where n < 3) select * from t"),
        "UnionLoopRef",
        "reads itself",
        "table first",
    ),
    "transpose": (
        lambda df: df.select("s", "k").limit(1).transpose(),
        "Transpose",
        "the rows it came from",
        "table first",
    ),
    "pivot": (lambda df: df.groupBy("s").pivot("k", [1, 2]).sum("x"), "PivotFirst", "only in the query", "F.when"),
    "range_of_doubles": (
        sql("select sum(k) over (order by x range between 1 preceding and current row) as s from numbers"),
        "range frame",
        "ordered by double",
        "one integer or date",
    ),
    "scalar_many_rows": (
        sql("select k, (select first(x) from numbers group by k limit 1) as f from numbers"),
        "ScalarSubquery",
        "a value of its own",
        "cross join",
    ),
    "scalar_many_matches": (
        sql("select k, (select x from numbers m where m.k = n.k) as f from numbers n"),
        "LeftSingle",
        "more than one match",
        "one row a key",
    ),
    "year_month_key": (
        sql("select y from (select make_ym_interval(cast(k as int), 1) as y from numbers) group by y"),
        "Aggregate",
        "cannot group by y of type",
        "table first",
    ),
    "random_twice": (
        lambda df: df.selectExpr("md5(cast(rand() + k between 1 and 2 as string)) as m"),
        "a random value that is compared more than once",
        "drawn once",
        "column of its own",
    ),
    "exists_or_random": (
        sql(
            "select * from (select k, rand() as r from numbers) n"
            " where r > 1 or exists (select 1 from numbers m where m.k = n.k)"
        ),
        "IN or EXISTS under OR",
        "read twice",
        "union",
    ),
    "rollup_of_random": (
        sql("select k, r, count(*) as n from (select k, rand() as r from numbers) group by rollup(k, r)"),
        "grouping sets",
        "read it again",
        "table first",
    ),
}

STREAM_REFUSALS: dict[str, tuple[Callable[[DataFrame], DataFrame], str, str, str]] = {
    "with_state": (_with_state, "FlatMapGroupsInPandasWithState", "state that only the running query has", "window"),
    "stateful": (_stateful, "TransformWithState", "state that only the running query has", "window"),
    "session_stream": (lambda df: _session(df.withWatermark("at", "1 minute")), "session_window", "", "window(...)"),
}


def refused(df: DataFrame, names: tuple[str, str, str]) -> None:
    from whence.spark.lift import lift

    with pytest.raises(NotTraceable) as caught:
        lift(df)
    statement, detail, hint = names
    assert statement in caught.value.statement
    assert detail in caught.value.detail
    assert hint in caught.value.hint


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_say_what_why_and_what_to_do(name: str, numbers: DataFrame) -> None:
    build, *names = REFUSALS[name]
    refused(build(numbers), (names[0], names[1], names[2]))


@pytest.mark.parametrize("name", STREAM_REFUSALS)
def test_refusals_of_streams(name: str, spark: SparkSession, numbers: DataFrame) -> None:
    build, *names = STREAM_REFUSALS[name]
    path = str(Path(numbers.inputFiles()[0].removeprefix("file:")).parent)
    refused(build(spark.readStream.schema(numbers.schema).parquet(path)), (names[0], names[1], names[2]))


def test_only_classic_dataframes_are_lifted(spark: SparkSession) -> None:
    from pyspark.sql import DataFrame

    from whence.spark.lift import lift

    class Remote(DataFrame):
        """Like a DataFrame of Spark Connect: one, but without a JVM."""

        def __new__(cls) -> Any:
            return object.__new__(cls)

    with pytest.raises(ConnectSession, match="comes from Spark Connect") as remote:
        lift(Remote())  # type: ignore[call-arg]
    assert "classic session" in remote.value.hint
    with pytest.raises(NotTraceable, match="a Spark DataFrame is needed, not int"):
        lift(17)  # type: ignore[arg-type]


def test_sources_are_named_by_the_user(spark: SparkSession, numbers: DataFrame) -> None:
    from whence.spark.lift import lift

    other = spark.createDataFrame([(1, "a")], "k bigint, t string")
    query = numbers.join(other, "k")
    assert [leaf.name for leaf in lift(query).leaves] == ["numbers", "source_2"]
    other.createOrReplaceTempView("other")
    assert [leaf.name for leaf in lift(numbers.join(spark.table("other"), "k")).leaves] == ["numbers", "other"]
    lifted = lift(query, sources={"left": numbers, "right": other})
    assert [(leaf.name, leaf.kind) for leaf in lifted.leaves] == [("left", "parquet"), ("right", "memory")]
    # Another DataFrame of the same files names them too.
    again = spark.read.parquet(str(Path(numbers.inputFiles()[0].removeprefix("file:")).parent))
    assert [leaf.name for leaf in lift(query, sources={"n": again}).leaves] == ["n", "source_2"]
    with pytest.raises(UnknownSource, match="does not read the source 'more'"):
        lift(query, sources={"more": spark.range(3)})
    with pytest.raises(UnknownSource, match="the DataFrame for source 'both' is not one table"):
        lift(query, sources={"both": query})


def test_steps_are_named_by_aliases_and_views(numbers: DataFrame) -> None:
    from whence.spark.lift import lift

    slow = numbers.where("x < 2").alias("slow")
    slow.groupBy("k").count().createOrReplaceTempView("per_k")
    query = numbers.sparkSession.table("per_k").where("count > 0").where("k > 0").alias("filter").where("k > 1")
    assert [node.step for node in walk(lift(query).plan)] == [
        "numbers",
        "slow",
        "per_k",
        "filter_2",
        "filter",
        "filter_3",
    ]


def opaque_texts(plan: Node) -> list[str | None]:
    found: list[str | None] = []
    for node in walk(plan):
        match node:
            case Project():
                parts: list[Any] = [c.expression for c in node.columns]
            case Group():
                parts = [a.aggregate for a in node.aggregates]
            case Analytic():
                parts = [c.function for c in node.columns]
            case Generate():
                parts = [node.expression]
            case _:
                parts = []
        for part in parts:
            if not isinstance(part, Opaque) and type(part).__name__ == "AggregateCall":
                continue
            found += [p.text for p in parts_of(part) if isinstance(p, Opaque)]
    return found


TEXTS: dict[str, list[str | None]] = {
    # Catalyst prints these as they were.
    "select md5(s) as y from numbers": ["md5(CAST(s AS BINARY))"],
    "select date_format(at, 'yyyy') as y from numbers": ["date_format(at, 'yyyy')"],
    "select stddev(x) as y from numbers": ["stddev(x)"],
    "select k, stack(2, x, 1D) as y from numbers": ["stack(2, x, 1.0D)"],
    "select nth_value(k, 2) over (order by k) as y from numbers": ["nth_value(k, 2)"],
    "select ntile(2) over (order by k) as y from numbers": ["ntile(2)"],
    "select percent_rank() over (order by k) as y from numbers": ["PERCENT_RANK()"],
    "select lag(k, 1, 0L) over (order by k) as y from numbers": ["lag(k, 1, 0L)"],
    # And these so that they would not read back, or read back as something else; they are spelled out.
    "select transform(xs, (v, i) -> v + i + k) as y from numbers": [
        "transform(xs, (lambda_1, lambda_2) -> ((lambda_1 + CAST(lambda_2 AS BIGINT)) + k))"
    ],
    "select exists(xs, v -> v > 1) as y from numbers": ["exists(xs, lambda_1 -> (lambda_1 > CAST(1 AS BIGINT)))"],
    "select first(x, true) filter (where k > 1) as y from numbers": [
        "first(x, true) FILTER (WHERE (k > CAST(1 AS BIGINT)))"
    ],
    "select cast(map(s, xs) as map<string, array<int>>) as y from numbers": [
        "CAST(map(s, xs) AS MAP<STRING, ARRAY<INT>>)"
    ],
    "select named_struct('a', k, 'b', s) as y from numbers": ["named_struct('a', k, 'b', s)"],
    # No text gives these again: what they are is not in what they print.
    "select rand() as y from numbers": [None],
    "select from_json(s, 'a int') as y from numbers": [None],
    "select shout(s) as y from numbers": [None],
}


@pytest.mark.parametrize("query", TEXTS)
def test_texts_of_opaque_parts(query: str, spark: SparkSession, numbers: DataFrame) -> None:
    from whence.spark.lift import lift

    numbers.createOrReplaceTempView("numbers")
    spark.udf.register("shout", lambda s: s.upper())
    lifted = lift(spark.sql(query))
    assert opaque_texts(lifted.plan) == TEXTS[query]
    assert opaque_texts(parse_plan(print_plan(lifted.plan))) == TEXTS[query]
    assert bool(lifted.opaque) == (TEXTS[query] == [None])


def test_nothing_is_logged_where_a_text_does_not_read_back(
    numbers: DataFrame, capfd: pytest.CaptureFixture[str]
) -> None:
    from whence.spark.lift import lift

    lift(numbers.selectExpr("from_json(s, 'a int') as y"))
    assert capfd.readouterr().err == ""


def test_randomness_and_clocks_are_not_deterministic(numbers: DataFrame) -> None:
    from whence.spark.lift import lift

    plan = lift(numbers.selectExpr("rand(3) as r", "current_timestamp() as now", "md5(s) as m")).plan
    assert isinstance(plan, Project)
    found = [c.expression.deterministic for c in plan.columns if isinstance(c.expression, Opaque)]
    assert found == [False, False, True]


def test_clocks_of_other_places_are_opaque(spark: SparkSession, numbers: DataFrame) -> None:
    from whence.spark.lift import lift

    query = "select hour(at) as h, cast(at as string) as t, at + interval 1 day as d from numbers"
    numbers.createOrReplaceTempView("numbers")
    before = spark.conf.get("spark.sql.session.timeZone")
    assert len(opaque_texts(lift(spark.sql(query)).plan)) == 0
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        elsewhere = spark.sql(query)
        lifted = lift(elsewhere)
        assert not lifted.utc
        assert len(opaque_texts(lifted.plan)) == 3
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    # It was analyzed elsewhere, and Spark computes it so.
    assert len(opaque_texts(lift(elsewhere).plan)) == 3


def test_settings_that_change_arithmetic_make_it_opaque(spark: SparkSession, numbers: DataFrame) -> None:
    from whence.spark.lift import lift

    numbers.createOrReplaceTempView("numbers")
    query = (
        "select k + 1 as a, x + 1 as b, cast(s as int) as c, cast(k as string) as d, sum(k) over () as e from numbers"
    )
    assert opaque_texts(lift(spark.sql(query)).plan) == []
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert len(opaque_texts(lift(spark.sql(query)).plan)) == 3
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))
