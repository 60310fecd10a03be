"""A stream all the way, as a user has it: started, waited for, asked while the process lives, then opened anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import whence
from whence.demo.traffic import SPARK_SCHEMA, Traffic, broken_down_cars, write_traffic
from whence.errors import SourceChanged
from whence.testing import assert_lineage


def test_its_lineage_is_what_the_definition_says(spark: Any, tmp_path: Path) -> None:
    planted = write_traffic(tmp_path / "reports", Traffic(cars=60, minutes=12, minutes_per_file=3))
    reports = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"file:{tmp_path}/reports")
    trace = whence.trace(broken_down_cars(reports), sources={"reports": reports})
    assert trace.explain().capture == "lazy"
    run = trace.start(tmp_path / "run", trigger="availableNow")
    assert run.awaitTermination() and not run.isActive
    found = sorted((row["car"], row["window"]["start"]) for row in run.rows())  # type: ignore[index]
    assert found == sorted((alert.car, alert.start) for alert in planted.stream)
    answer = run.back(run.rows().first())
    assert answer.to_spark("reports").count() == 4
    assert answer.to_spark().columns == ["result", "source", "source_id", "role"]
    assert_lineage(whence.open(tmp_path / "run"))


def test_what_ended_it_is_raised_in_our_words(spark: Any, tmp_path: Path) -> None:
    """A file that changes after Spark has listed it: the epoch that would read it ends the stream."""
    from pyspark.sql import functions as F

    folder = tmp_path / "reports"
    write_traffic(folder, Traffic(cars=5, minutes=2))
    first = sorted(folder.iterdir())[0]
    reports = spark.readStream.schema(SPARK_SCHEMA).parquet(f"file:{folder}")

    @F.udf(returnType="int")
    def spoil(car):  # type: ignore[no-untyped-def]
        parquet.write_table(pa.table({"at": pa.array([], pa.timestamp("us", "UTC"))}), str(first))
        return car

    traced = whence.trace(reports.select(spoil("car").alias("car")), sources={"reports": reports})
    run = traced.start(tmp_path / "run", trigger="availableNow")
    with pytest.raises(SourceChanged, match="source 'reports' changed while the query read it"):
        run.awaitTermination()
