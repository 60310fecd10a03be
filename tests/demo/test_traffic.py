"""The generated traffic is what it says it is, and its query gives what the generator says it must."""

import itertools
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from whence.demo import traffic as module
from whence.demo.traffic import Planted, Traffic, broken_down_cars, write_traffic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return write_traffic(tmp_path_factory.mktemp("traffic"), Traffic())


@pytest.fixture(scope="module")
def reports(planted: Planted) -> list[dict[str, Any]]:
    """All reports, in order of arrival, each with the number of its file."""
    return [row | {"file": n} for n, file in enumerate(planted.files) for row in pq.read_table(file).to_pylist()]


def test_every_car_reports_every_30_seconds(planted: Planted, reports: list[dict[str, Any]]) -> None:
    assert len(reports) == planted.rows == 400 * 30 * 2
    times = defaultdict(list)
    for row in reports:
        times[row["car"]].append(row["at"])
    assert sorted(times) == list(range(1, 401))
    for of_car in times.values():
        ordered = sorted(of_car)
        assert {after - before for before, after in itertools.pairwise(ordered)} == {timedelta(seconds=30)}


def test_a_car_is_where_its_speed_took_it(reports: list[dict[str, Any]]) -> None:
    by_car = defaultdict(list)
    for row in sorted(reports, key=lambda row: row["at"]):
        by_car[row["car"]].append(row)
    moved = {
        (after["speed"] == 0, after["pos"] - before["pos"] == 30 * before["speed"])
        for rows in by_car.values()
        for before, after in itertools.pairwise(rows)
        if before["speed"] > 0
    }
    assert moved == {(False, True), (True, True)}


def test_rows_arrive_out_of_order_and_some_late(planted: Planted, reports: list[dict[str, Any]]) -> None:
    newest = reports[0]["at"]
    behind = []
    for row in reports:
        behind.append((newest - row["at"]).total_seconds())
        newest = max(newest, row["at"])
    slightly, late = [b for b in behind if 0 < b < 30], [b for b in behind if b >= 30]
    assert len(slightly) > len(reports) * 0.05
    assert 0 < len(late) < len(reports) * 0.01
    # The ones that no window takes are some of those; others are late for some of their windows only.
    assert 0 < len(planted.late) < len(late)


def test_the_same_seed_gives_the_same_files_and_another_does_not(planted: Planted, tmp_path: Path) -> None:
    again = write_traffic(tmp_path / "again", Traffic())
    other = write_traffic(tmp_path / "other", Traffic(seed=2))
    assert [(file.name, file.read_bytes(), file.stat().st_mtime) for file in again.files] == [
        (file.name, file.read_bytes(), file.stat().st_mtime) for file in planted.files
    ]
    assert (again.stream, again.batch, again.late) == (planted.stream, planted.batch, planted.late)
    assert other.stream != planted.stream
    assert len({file.stat().st_mtime for file in other.files}) == len(other.files)


def test_all_kinds_of_stops_are_planted(planted: Planted, reports: list[dict[str, Any]]) -> None:
    """Each part of the query has rows that only it keeps out."""
    stops = defaultdict(list)
    for row in reports:
        if row["speed"] == 0:
            stops[row["car"]].append(row["pos"])
    brief = [car for car, places in stops.items() if len(places) < 4]
    creeping = [car for car, places in stops.items() if len(places) >= 4 and len(set(places)) > 1]
    broken = {car for car, places in stops.items() if len(places) >= 4 and len(set(places)) == 1}
    assert brief
    assert creeping
    assert broken == planted.broken
    assert {alert.car for alert in planted.batch} == broken
    # A late report costs its car some of the alerts, in the stream only.
    assert set(planted.stream) < set(planted.batch)


def test_the_expected_alerts_are_those_of_the_definition(planted: Planted, reports: list[dict[str, Any]]) -> None:
    """Once more, by asking every window of every car: no sliding, no folding."""
    stops = defaultdict(list)
    for row in reports:
        if row["speed"] == 0:
            stops[row["car"]].append((row["at"], row["pos"]))
    begin = datetime(2026, 1, 1, 7, 58, tzinfo=UTC)
    found = []
    for car, of_car in sorted(stops.items()):
        for step in range(70):
            start = begin + timedelta(seconds=30 * step)
            inside = sorted((at, pos) for at, pos in of_car if start <= at < start + timedelta(seconds=120))
            if len(inside) == 4 and len({pos for _, pos in inside}) == 1:
                found.append((car, start, tuple(at for at, _ in inside)))
    assert [(alert.car, alert.start, alert.reports) for alert in planted.batch] == found


def test_alerts_of_the_worked_example() -> None:
    """GeneaLog figures 1 and 2: 08:00:01, :31, 08:01:01, :31 at one position give the window that begins at 08:00."""
    stops = [(1 + 30 * i, 7, 100) for i in range(4)]
    alerts, dropped = module._expected([stops, [(900, 8, 0)]], late=True)
    assert [(alert.car, alert.start, alert.end) for alert in alerts] == [
        (7, module.BEGIN, module.BEGIN + timedelta(seconds=120))
    ]
    assert not dropped


def test_more_minutes_in_a_file_change_when_rows_are_read_not_what_is_batch(tmp_path: Path) -> None:
    traffic = Traffic(cars=100, minutes=23, minutes_per_file=5)
    planted = write_traffic(tmp_path, traffic)
    assert len(planted.files) == 5
    assert pa.concat_tables([pq.read_table(file) for file in planted.files]).num_rows == planted.rows == traffic.rows


def test_nothing_is_planted_where_nothing_is_asked_for(tmp_path: Path) -> None:
    quiet = Traffic(cars=50, minutes=10, breakdown_every=0, stop_every=0, creep_every=0)
    planted = write_traffic(tmp_path, quiet)
    assert (planted.batch, planted.stream, planted.late, planted.broken) == ((), (), frozenset(), frozenset())


@pytest.mark.parametrize("name", ["cars", "minutes", "minutes_per_file"])
def test_impossible_traffic_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        Traffic(**{name: 0})


def _found(frame: "DataFrame") -> list[tuple[int, datetime, int, int, int]]:
    rows = frame.selectExpr("car", "window.start AS start", "n", "lo", "hi").collect()
    return sorted((row.car, row.start.replace(tzinfo=UTC), row.n, row.lo, row.hi) for row in rows)


def test_spark_finds_in_a_batch_what_was_planted(spark: "SparkSession", planted: Planted) -> None:
    from pyspark.sql import functions as F

    frame = spark.read.schema(module.SPARK_SCHEMA).parquet(str(planted.files[0].parent))
    found = _found(broken_down_cars(frame))
    assert found == [(alert.car, alert.start, 4, alert.pos, alert.pos) for alert in planted.batch]
    # The README's way of writing the same query.
    fluent = (
        frame.where("speed = 0")
        .withWatermark("at", "30 seconds")
        .groupBy(F.window("at", "120 seconds", "30 seconds"), "car")
        .agg(F.count("*").alias("n"), F.min("pos").alias("lo"), F.max("pos").alias("hi"))
        .where("n = 4 and lo = hi")
    )
    assert _found(fluent) == found
    assert fluent.columns == broken_down_cars(frame).columns


def test_spark_finds_in_a_stream_what_was_planted(spark: "SparkSession", planted: Planted, tmp_path: Path) -> None:
    """With Spark's own rule for late rows, an epoch a file."""
    reports = (
        spark.readStream.schema(module.SPARK_SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(planted.files[0].parent))
    )
    query = (
        broken_down_cars(reports)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "alerts"))
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    found = _found(spark.read.parquet(str(tmp_path / "alerts")))
    assert found == [(alert.car, alert.start, 4, alert.pos, alert.pos) for alert in planted.stream]
