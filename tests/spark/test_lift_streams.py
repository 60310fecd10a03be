"""Streaming DataFrames are lifted as batches are; nothing is started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from whence.plan.nodes import Deduplicate, EventWindow, Group, Join, Union, Watermark, walk
from whence.plan.text import fingerprint, parse_plan, print_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "car int, at timestamp, speed double, pos int"


@pytest.fixture
def reports(spark: SparkSession, tmp_path: Path) -> DataFrame:
    (tmp_path / "reports").mkdir()
    return spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "reports"))


def test_the_alert_of_stopped_cars(reports: DataFrame) -> None:
    from pyspark.sql import functions as F

    from whence.spark.lift import lift

    alerts = (
        reports.where("speed = 0")
        .withWatermark("at", "30 seconds")
        .groupBy(F.window("at", "120 seconds", "30 seconds"), "car")
        .agg(F.count("*").alias("n"), F.min("pos").alias("lo"), F.max("pos").alias("hi"))
        .where("n = 4 and lo = hi")
    )
    lifted = lift(alerts, sources={"reports": reports})
    assert print_plan(lifted.plan) == (
        "whence plan 1\n"
        "reports = source reports (car int, at timestamp, speed double, pos int)\n"
        "`filter` = filter reports where (speed = cast(0 as double))\n"
        "watermark = watermark `filter` on at delay 30000000\n"
        "window = window watermark as window over at size 120000000 slide 30000000 offset 0 closed left stamp window\n"
        "group = group window by (window as window, car as car)"
        " aggregate (count(*) as n, min(pos) as lo, max(pos) as hi)\n"
        "filter_2 = filter group where ((n = cast(4 as bigint)) and (lo = hi))\n"
        "result filter_2\n"
    )
    assert lifted.opaque == ()
    (leaf,) = lifted.leaves
    assert (leaf.name, leaf.kind, leaf.format, leaf.is_streaming) == ("reports", "stream-parquet", "parquet", True)
    assert leaf.roots[0].endswith("/reports")
    assert leaf.files() == ()


def test_operators_of_streams(spark: SparkSession, reports: DataFrame) -> None:
    from pyspark.sql import functions as F

    from whence.spark.lift import lift

    marked = reports.withWatermark("at", "1 minute")
    cars = spark.createDataFrame([(1, "a")], "car int, name string")
    queries = {
        "once": marked.dropDuplicates(["car", "at"]),
        "all": reports.dropDuplicates(),
        "within": marked.dropDuplicatesWithinWatermark(["car"]),
        "static": marked.join(cars, "car").groupBy("name").count(),
        "self": marked.alias("a").join(
            marked.alias("b"), F.expr("a.car = b.car and b.at between a.at and a.at + interval 5 seconds")
        ).select("a.car", F.col("b.pos")),
        "union": reports.select("car").union(reports.where("pos > 3").select("pos")),
        "later": marked.groupBy(F.window("at", "1 minute")).count().groupBy(F.window("window", "5 minutes")).count(),
    }  # fmt: skip
    plans = {name: lift(query).plan for name, query in queries.items()}
    for name, plan in plans.items():
        assert [(f.name, str(f.type)) for f in plan.schema] == queries[name].dtypes, name
        assert fingerprint(parse_plan(print_plan(plan))) == fingerprint(plan), name
    once, within, all_columns = (
        next(n for n in walk(plans[k]) if isinstance(n, Deduplicate)) for k in ("once", "within", "all")
    )
    assert (once.keys, once.within_watermark) == (("car", "at"), False)
    assert (within.keys, within.within_watermark) == (("car",), True)
    # A stream keeps the first it meets, also where whole rows are compared.
    assert all_columns.keys == ("car", "at", "speed", "pos")
    assert [type(n) for n in walk(plans["self"]) if isinstance(n, Join | Watermark)] == [Watermark, Watermark, Join]
    assert isinstance(plans["union"], Union)
    assert [type(n) for n in walk(plans["later"]) if isinstance(n, EventWindow | Group)] == [EventWindow, Group] * 2


def test_streams_without_files(spark: SparkSession) -> None:
    from whence.spark.lift import lift

    (leaf,) = lift(spark.readStream.format("rate").load().where("value > 3")).leaves
    assert (leaf.name, leaf.kind, leaf.is_streaming) == ("source_1", "stream", True)


def test_a_watermark_means_nothing_in_a_batch(spark: SparkSession) -> None:
    from whence.spark.lift import lift

    df = spark.range(3).selectExpr("id", "timestamp_micros(id) as at")
    assert not any(isinstance(n, Watermark) for n in walk(lift(df.withWatermark("at", "1 minute")).plan))
