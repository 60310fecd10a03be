"""Streams: an epoch is kept once, whatever stops the query, and what cannot be kept is refused before it starts."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import functions as F

import whence.spark.stream
from whence.errors import BrokenRun, NotTraceable, RunExists, SourceChanged, UnknownRun
from whence.spark.lift import lift
from whence.spark.stream import LiveStream, start_stream
from whence.store import RunWriter, StoredRun, open_run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "car long, at timestamp"
ONCE = {"availableNow": True}


def put(folder: Path, number: int, rows: list[tuple[int, int]]) -> None:
    """A file of the stream: cars and their times in seconds."""
    folder.mkdir(exist_ok=True)
    cars, seconds = zip(*rows, strict=True)
    times = pa.array([s * 1_000_000 for s in seconds], pa.timestamp("us", "UTC"))
    # Spark never looks at a hidden file, so it never sees half of one.
    hidden = folder / f".{number}"
    parquet.write_table(pa.table({"car": list(cars), "at": times}), hidden)
    os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
    hidden.rename(folder / f"{number}.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    for number in range(4):
        put(folder, number, [(car, 100 + number * 20 + car) for car in range(3)])
    return folder


@pytest.fixture
def start(spark: "SparkSession") -> Iterator[Callable[..., LiveStream]]:
    """Starts a stream and sees to it that it is stopped."""
    started: list[LiveStream] = []

    def starting(df: "DataFrame", path: Path, **options: Any) -> LiveStream:
        options = {"trigger": ONCE, "reason": "asked for", "whence_version": "0"} | options
        started.append(start_stream(df, lift(df), path, **options))
        return started[-1]

    yield starting
    for live in started:
        live.stop()


def reports(spark: "SparkSession", folder: Path, **options: object) -> "DataFrame":
    read = spark.readStream.schema(SCHEMA).options(**({"maxFilesPerTrigger": 1} | options))
    return read.parquet(f"file:{folder}")


def counted(reports: "DataFrame") -> "DataFrame":
    windows = F.window("at", "20 seconds", "10 seconds").alias("window")
    return reports.withWatermark("at", "5 seconds").groupBy(windows, "car").agg(F.count("*").alias("n"))


def rows_of(run: StoredRun) -> list[str]:
    """All results as text, in no order."""
    return sorted(str(row) for file in run.result_files() for row in parquet.read_table(file.path).to_pylist())


def files_of(run: StoredRun) -> list[list[str]]:
    return [[Path(file.path).stem for file in epoch.inputs["reports"]] for epoch in run.epochs]


def test_a_restart_goes_on_and_another_query_is_refused(
    spark: "SparkSession", folder: Path, tmp_path: Path, start: Callable[..., LiveStream]
) -> None:
    df = reports(spark, folder).where("car > 0")
    both = df.where("car = 1").unionByName(df.where("car = 2"))
    assert start(both, tmp_path / "run").awaitTermination()
    run = open_run(tmp_path / "run")
    assert files_of(run) == [["0"], ["1"], ["2"], ["3"]]
    assert (run.manifest.kind, run.manifest.output_mode, run.manifest.capture) == ("stream", "append", "lazy")
    assert [(e.watermark_ms, e.late_before_ms) for e in run.epochs] == [(None, None)] * 4
    assert all(epoch.clock_ms and abs(epoch.clock_ms / 1000 - time.time()) < 600 for epoch in run.epochs)
    (source,) = run.manifest.sources
    assert (source.name, source.kind, source.locations) == ("reports", "parquet", (str(folder),))
    put(folder, 4, [(1, 500), (2, 501)])
    put(folder, 5, [(0, 510)])
    again = start(both, tmp_path / "run")
    assert again.awaitTermination()
    again.stop()
    run = open_run(tmp_path / "run")
    assert files_of(run) == [["0"], ["1"], ["2"], ["3"], ["4"], ["5"]]
    assert run.state() == "stopped"
    assert [epoch.counts for epoch in run.epochs] == [{"results": 2, "reports": 3}] * 4 + [
        {"results": 2, "reports": 2},
        {"results": 0, "reports": 1},
    ]
    assert rows_of(run) == sorted(
        str(row)
        for number in range(6)
        for row in parquet.read_table(folder / f"{number}.parquet").to_pylist()
        if row["car"] > 0
    )
    with pytest.raises(RunExists, match="another query"):
        start(df.where("car = 1"), tmp_path / "run")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(RunExists, match=r"spark\.sql\.ansi\.enabled was true and is false"):
            start(both, tmp_path / "run")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert open_run(tmp_path / "run") == run


def test_a_crash_before_or_after_the_marker_doubles_and_loses_nothing(
    spark: "SparkSession",
    folder: Path,
    tmp_path: Path,
    start: Callable[..., LiveStream],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    df = counted(reports(spark, folder))
    assert start(df, tmp_path / "undisturbed").awaitTermination()
    undisturbed = open_run(tmp_path / "undisturbed")
    assert len(rows_of(undisturbed)) > 5
    commit = RunWriter.commit

    def crashing(number: int, after: bool) -> Any:
        def crash(writer: RunWriter, epoch: Any) -> None:
            if epoch.number != number or after:
                commit(writer, epoch)
            if epoch.number == number:
                raise BrokenRun("the lights went out")

        return crash

    for number, after, kept in ((1, False, 1), (2, True, 3), (4, True, 5)):
        with monkeypatch.context() as patch:
            patch.setattr(RunWriter, "commit", crashing(number, after))
            live = start(df, tmp_path / "run")
            with pytest.raises(BrokenRun, match="the lights went out"):
                live.awaitTermination()
            # Spark's own exception has the words too.
            assert "the lights went out" in str(live.query.exception())
        assert len(open_run(tmp_path / "run").epochs) == kept
    assert start(df, tmp_path / "run").awaitTermination()
    run = open_run(tmp_path / "run")
    assert rows_of(run) == rows_of(undisturbed)
    assert files_of(run) == files_of(undisturbed) == [["0"], ["1"], ["2"], ["3"], []]
    assert [(e.number, e.watermark_ms, e.late_before_ms, e.counts) for e in run.epochs] == [
        (e.number, e.watermark_ms, e.late_before_ms, e.counts) for e in undisturbed.epochs
    ]


def test_a_file_that_changes_ends_the_stream_with_our_words(
    spark: "SparkSession",
    folder: Path,
    tmp_path: Path,
    start: Callable[..., LiveStream],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = whence.spark.stream.write_parquet

    def meanwhile(batch: "DataFrame", directory: Path) -> None:
        write(batch, directory)
        if directory.name == "epoch=000001":
            os.utime(folder / "1.parquet", (1, 1))

    monkeypatch.setattr(whence.spark.stream, "write_parquet", meanwhile)
    with pytest.raises(SourceChanged, match="source 'reports' changed while the query read it"):
        start(reports(spark, folder), tmp_path / "run").awaitTermination()
    assert len(open_run(tmp_path / "run").epochs) == 1
    # Once more: now it is seen before anything of it is written.
    with pytest.raises(SourceChanged, match="source 'reports' changed before it was read"):
        start(reports(spark, folder), tmp_path / "run").awaitTermination()
    assert len(open_run(tmp_path / "run").epochs) == 1


def test_a_live_stream_holds_its_run_until_it_is_stopped(
    spark: "SparkSession", folder: Path, tmp_path: Path, start: Callable[..., LiveStream]
) -> None:
    before = {name: spark.conf.get(name) for name in ("spark.sql.parquet.outputTimestampType",)}
    df = reports(spark, folder)
    live = start(df, tmp_path / "run", trigger={"processingTime": "200 milliseconds"}, query_name="mine")
    assert live.query.name == "mine" and live.path == tmp_path / "run"
    deadline = time.monotonic() + 60
    while len(open_run(live.path).epochs) < 4 and time.monotonic() < deadline:
        assert live.query.isActive
        time.sleep(0.1)
    assert not live.awaitTermination(1)
    assert open_run(live.path).state() == "running"
    with pytest.raises(RunExists, match="is being written"):
        start(df, tmp_path / "run")
    live.stop()
    assert open_run(live.path).state() == "stopped"
    assert not live.query.isActive and live.failure is None
    run = open_run(live.path)
    # All times are in a column with statistics, and nothing was set in the user's session.
    (first, *_) = run.result_files()
    assert parquet.ParquetFile(first.path).schema.column(1).physical_type == "INT64"
    assert {name: spark.conf.get(name) for name in before} == before


def test_what_cannot_be_kept_is_refused_before_it_starts(
    spark: "SparkSession", folder: Path, tmp_path: Path, start: Callable[..., LiveStream]
) -> None:
    source = reports(spark, folder)
    twice = source.unionByName(reports(spark, folder))
    times = source.withWatermark("at", "5 seconds")
    elsewhere = spark.readStream.schema(SCHEMA)
    for df, words in (
        (spark.readStream.format("rate").load(), "rate"),
        (elsewhere.json(f"file:{folder}"), "json"),
        (elsewhere.option("cleanSource", "delete").parquet(f"file:{folder}"), "cleanSource"),
        (elsewhere.option("datetimeRebaseMode", "LEGACY").parquet(f"file:{folder}"), "datetimerebasemode"),
        (source.select("car", "_metadata.file_name"), "_metadata"),
        (twice, "read twice"),
        (times.dropDuplicates(["car", "at"]), "state over a stream"),
        (times.groupBy(F.window("at", "5 seconds"), "at").count(), "2 of its keys"),
        (source.selectExpr("car", "make_interval(0, 0, 0, 1) as wait"), "'wait'"),
    ):
        with pytest.raises(NotTraceable) as refused:
            start(df, tmp_path / "run")
        assert words.lower() in str(refused.value).lower()
        assert refused.value.hint
    with pytest.raises(NotTraceable, match="it would read what it writes"):
        start(source, folder / "run")
    # What Spark itself refuses when it starts leaves nothing either.
    with pytest.raises(Exception, match="(?i)trigger|interval"):
        start(source, tmp_path / "run", trigger={"processingTime": "soon"})
    for path in (tmp_path / "run", folder / "run"):
        with pytest.raises(UnknownRun):
            open_run(path)
    assert sorted(path.name for path in folder.iterdir()) == [f"{number}.parquet" for number in range(4)]


CHILD = """
import sys, time
from pathlib import Path
import whence.spark.stream as stream
from whence.spark.session import session
sys.path.insert(0, sys.argv[1])
from test_stream import counted, lift, reports, start_stream
folder, run, crash = Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
spark = session()
write = stream.write_parquet
def slowly(batch, directory):
    write(batch, directory)
    if directory.name == crash:
        Path(run.parent / "now").touch()
        time.sleep(600)
stream.write_parquet = slowly
df = counted(reports(spark, folder))
start_stream(df, lift(df), run, reason="", trigger={"availableNow": True}, whence_version="0").awaitTermination()
"""


@pytest.mark.slow
def test_a_killed_process_doubles_and_loses_nothing(
    spark: "SparkSession", folder: Path, tmp_path: Path, start: Callable[..., LiveStream]
) -> None:
    df = counted(reports(spark, folder))
    assert start(df, tmp_path / "undisturbed").awaitTermination()
    here = str(Path(__file__).parent)
    for crash in ("epoch=000001", "epoch=000004"):
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CHILD), here, str(folder), str(tmp_path / "run"), crash],
            start_new_session=True,
        )
        deadline = time.monotonic() + 240
        while not (tmp_path / "now").exists() and time.monotonic() < deadline and child.poll() is None:
            time.sleep(0.1)
        # Its own session: Python and its JVM together, and nothing else.
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        (tmp_path / "now").unlink()
    assert start(df, tmp_path / "run").awaitTermination()
    run, undisturbed = open_run(tmp_path / "run"), open_run(tmp_path / "undisturbed")
    assert rows_of(run) == rows_of(undisturbed)
    assert files_of(run) == files_of(undisturbed)
    assert [epoch.watermark_ms for epoch in run.epochs] == [epoch.watermark_ms for epoch in undisturbed.epochs]
