"""Runs written by the store's writer, as if Spark had run the query: for benches of questions that need no Spark.

The stream run says of generated traffic what a stream over it would have recorded: a file an epoch, watermarks by
Spark's rule, the alerts that the generator planted as results. Making it takes seconds where the stream over 50 M rows
would take minutes; that its answers are those of a real stream is judged by `tests/`, and each bench checks that they
are exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whence import __version__
from whence.demo.traffic import SLIDE, WATERMARK_DELAY, WINDOW
from whence.plan.builder import source
from whence.plan.nodes import Node, walk
from whence.plan.text import fingerprint, print_plan
from whence.plan.types import Schema
from whence.store import Column, Epoch, Manifest, PlanRecord, RunWriter, SourceRecord, SparkRecord, create

if TYPE_CHECKING:
    import pyarrow as pa


def broken_down_plan() -> Node:
    """GeneaLog's first query, as lifting `broken_down_cars` gives it."""
    reports = source("reports", at="timestamp", car="int", speed="double", pos="int")
    return (
        reports.where("speed = 0")
        .with_watermark("at", f"{WATERMARK_DELAY} seconds")
        .window("at", f"{WINDOW} seconds", f"{SLIDE} seconds")
        .group("window", "car", n="count(*)", lo="min(pos)", hi="max(pos)")
        .where("n = 4 and lo = hi")
        .plan
    )


def write_stream_run(path: Path, data: Path) -> int:
    """The run of that query over the data set of `data.traffic`, at a path; how many results it has."""
    import pyarrow.parquet as pq

    plan = broken_down_plan()
    files = sorted((data / "reports").glob("*.parquet"))
    alerts = pq.read_table(data / "alerts.parquet")
    with create(path, _manifest(plan, data)) as writer:
        for epoch in _epochs(files):
            _write_epoch(writer, epoch, _due(alerts, epoch))
    return int(alerts.num_rows)


@dataclass(frozen=True, slots=True)
class _Clock:
    """An epoch, the files it read and its two clocks in milliseconds."""

    number: int
    files: tuple[Path, ...]
    watermark: int
    late_before: int


def _epochs(files: list[Path]) -> Iterator[_Clock]:
    """A file an epoch and one epoch more without rows, whose watermark closes the last windows."""
    watermark = late_before = 0
    for number, file in enumerate([*files, None]):
        yield _Clock(number, () if file is None else (file,), watermark, late_before)
        late_before = watermark
        if file is not None:
            watermark = max(watermark, _newest_stop(file) - WATERMARK_DELAY * 1000)


def _newest_stop(file: Path) -> int:
    """The largest time that came to the watermark, which stands above the filter; 0 where none did."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    stops = pq.read_table(file, columns=["at"], filters=[("speed", "=", 0.0)])
    newest = pc.max(stops.column("at")).as_py()
    return 0 if newest is None else round(newest.timestamp() * 1000)


def _due(alerts: "pa.Table", epoch: _Clock) -> "pa.Table":
    """The alerts whose windows the watermark of an epoch closes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    end = pc.divide(alerts.column("end").cast(pa.int64()), 1000)
    # The watermark of the epoch before is what is late now.
    due = pc.and_(pc.less_equal(end, epoch.watermark), pc.greater(end, epoch.late_before))
    mine = alerts.filter(due)
    times = [mine.column(name).combine_chunks() for name in ("start", "end")]
    return pa.table(
        {
            "window": pa.StructArray.from_arrays(times, ["start", "end"]),
            "car": mine.column("car"),
            "n": mine.column("n"),
            "lo": mine.column("pos"),
            "hi": mine.column("pos"),
        }
    )


def _write_epoch(writer: RunWriter, epoch: _Clock, results: "pa.Table") -> None:
    import pyarrow.parquet as pq

    writer.begin_epoch(epoch.number)
    folder = writer.results_directory(epoch.number)
    folder.mkdir(parents=True)
    pq.write_table(results, folder / "part-00000.parquet")
    writer.commit(
        Epoch(
            number=epoch.number,
            plan=1,
            inputs={"reports": writer.pin("reports", epoch.files)},
            watermark_ms=epoch.watermark,
            late_before_ms=epoch.late_before,
            clock_ms=None,
            results=writer.record_results(epoch.number),
            counts={"results": results.num_rows},
        )
    )


def _manifest(plan: Node, data: Path) -> Manifest:
    reports = next(node for node in walk(plan) if node.step == "reports")
    return Manifest(
        whence=__version__,
        created="2026-01-01T08:00:00+00:00",
        kind="stream",
        capture="lazy",
        capture_reason="written by a bench",
        output_mode="append",
        plans=(PlanRecord(1, print_plan(plan), fingerprint(plan), tuple(node.step for node in walk(plan)), True),),
        sources=(
            SourceRecord("reports", "parquet", _columns(reports.schema), "file_row", (), (str(data / "reports"),)),
        ),
        columns=_columns(plan.schema),
        annotations=(),
        spark=SparkRecord("4.3.0", {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}),
    )


def _columns(schema: Schema) -> tuple[Column, ...]:
    return tuple(Column(field.name, str(field.type), True) for field in schema)
