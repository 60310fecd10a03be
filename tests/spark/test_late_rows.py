"""Late rows: which rows a stream used, epoch by epoch, is what the oracle says, down to the microsecond."""

import datetime as dt
import os
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import functions as F

from whence.lineage import settle
from whence.semantics import Table, annotate, run_stream
from whence.semantics.values import freeze, micros
from whence.spark.lift import lift
from whence.spark.stream import start_stream
from whence.store import StoredRun, open_run, pack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECOND = 1_000_000
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def epochs_of_times() -> list[list[int | None]]:
    """For each epoch the event times of its rows, in microseconds.

    The largest of them settle the watermarks (100.0005 s gives 90 s, less a microsecond 89.999 s); after each come
    times at, and just beside, the moments that are then on the edge.
    """
    draw = random.Random(7)
    tops = [100_000_500, 109_999_999, 110_000_000, 110_001_000, 131_000_000, 140_000_000, 140_000_001, 175_000_000]
    epochs: list[list[int | None]] = []
    for number, top in enumerate(tops):
        edges = [(tops[max(number - back, 0)] // 1000 * 1000) - 10 * SECOND for back in (1, 2)]
        beside = [edge + step for edge in edges for step in (-1000, -1, 0, 1, 1000)]
        starts = [edge // SECOND * SECOND - back * 10 * SECOND - 1 for edge in edges for back in (1, 2)]
        spread = [draw.randrange(top - 40 * SECOND, top) for _ in range(6)]
        epochs.append([top, *beside, *starts, *spread, *([None] if number % 3 == 0 else [])])
    return epochs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    for number, times in enumerate(epochs_of_times()):
        rows = {"car": [i % 3 for i in range(len(times))], "at": pa.array(times, pa.timestamp("us", "UTC"))}
        file = folder / f"{number}.parquet"
        parquet.write_table(pa.table(rows), file)
        # Spark reads files in the order of their times.
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


def sliding(reports: "DataFrame") -> "DataFrame":
    windows = F.window("at", "20 seconds", "10 seconds")
    return (
        reports.withWatermark("at", "10 seconds")
        .groupBy(windows, "car")
        .agg(F.count("*").alias("n"), F.min("at").alias("first"))
    )


def by_the_time_itself(reports: "DataFrame") -> "DataFrame":
    marked = reports.where("car < 2").withWatermark("at", "10 seconds").withColumnRenamed("at", "moment")
    return marked.groupBy("moment").agg(F.count("*").alias("n"), F.max("car").alias("car")).where("n > 0")


def tumbling_union(reports: "DataFrame") -> "DataFrame":
    marked = reports.withWatermark("at", "10 seconds")
    both = marked.where("car = 1").unionByName(marked.where("car <> 1"))
    return both.groupBy(F.window("at", "5 seconds", "5 seconds", "1 second")).agg(F.sum("car").alias("cars"))


def table_of(run: StoredRun, epoch: int | None = None) -> Table:
    """The rows that an epoch read, or all, with their ids and what was late for them."""
    late_before = run.late_before("reports")
    ids, rows, late = [], [], []
    for file in run.source_files("reports"):
        if epoch is None or file.epoch == epoch:
            for place, row in enumerate(parquet.read_table(file.path).to_pylist()):
                ids.append(pack(file.number, place))
                rows.append((row["car"], row["at"]))
                bound = late_before[file.number]
                late.append(None if bound is None else EPOCH + dt.timedelta(milliseconds=bound))
    return Table(("car", "at"), rows, ids, late)


@pytest.mark.parametrize("query", [sliding, by_the_time_itself, tumbling_union])
def test_a_stream_used_the_rows_that_the_oracle_says(
    spark: "SparkSession", folder: Path, tmp_path: Path, query: Any
) -> None:
    read = spark.readStream.schema("car long, at timestamp").option("maxFilesPerTrigger", 1)
    reports = read.parquet(f"file:{folder}")
    df = query(reports)
    lifted = lift(df, {"reports": reports})
    plan = lifted.plan
    live = start_stream(df, lifted, tmp_path / "run", reason="", trigger={"availableNow": True}, whence_version="0")
    assert live.awaitTermination()
    run = open_run(tmp_path / "run")
    assert run.state() == "stopped"
    oracle = run_stream(plan, [{"reports": table_of(run, epoch.number)} for epoch in run.epochs])
    assert [[file.path for file in epoch.inputs["reports"]] for epoch in run.epochs] == [
        *([str(folder / f"{number}.parquet")] for number in range(8)),
        [],
    ]
    assert [epoch.watermark_ms for epoch in run.epochs] == [emitted.watermark for emitted in oracle]
    assert [epoch.late_before_ms for epoch in run.epochs] == [emitted.late_until for emitted in oracle]
    assert sum(len(rows) for emitted in oracle for rows in emitted.late.values()) > 20
    names = [f.name for f in plan.schema]
    stored = []
    for epoch, emitted in zip(run.epochs, oracle, strict=True):
        rows = [row for file in epoch.results for row in parquet.read_table(run.path / file.path).to_pylist()]
        stored += rows
        found = Counter(tuple(freeze(row[f.name], f.type) for f in plan.schema) for row in rows)
        assert found == Counter(item.row for item in emitted.rows), epoch.number
        assert epoch.counts == {
            "results": len(rows),
            "reports": sum(file.rows or 0 for file in epoch.inputs["reports"]),
        }
    assert len(stored) > 10
    # What questions recompute: the settled plan over all that was read, as far as its groups were given out.
    end = EPOCH + dt.timedelta(milliseconds=run.epochs[-1].watermark_ms or 0)
    settled = Counter(
        (item.row, item.annotation)
        for item in annotate(settle(plan), {"reports": table_of(run)})
        if _ended(dict(zip(names, item.row, strict=True)), end)
    )
    assert settled == Counter((item.row, item.annotation) for emitted in oracle for item in emitted.rows)


def _ended(row: dict[str, Any], end: dt.datetime) -> bool:
    """Whether the group of a result row waited for no more rows at the end."""
    moment = row["window"][1] if "window" in row else row["moment"]
    return moment is not None and micros(moment) <= micros(end)
