"""A small run that tests of the store change in one place each."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pytest
from pyarrow import parquet

from whence.store import (
    Annotation,
    Column,
    Epoch,
    FileRecord,
    Manifest,
    PlanRecord,
    RunWriter,
    SourceRecord,
    SparkRecord,
    create,
)

MANIFEST = Manifest(
    whence="0.1.0",
    created="2026-01-01T08:00:00+00:00",
    kind="stream",
    capture="lazy",
    capture_reason="the plan is deterministic and its sources can be read again",
    output_mode="append",
    plans=(PlanRecord(1, "source reports\nfilter speed = 0", "f1", ("reports", "stopped"), True),),
    sources=(
        SourceRecord(
            "reports",
            "parquet",
            (Column("car", "bigint", True), Column("day", "date", True)),
            "file_row",
            ("day",),
            ("/data/reports",),
        ),
        SourceRecord("cars", "landed", (Column("car", "bigint", False),), "column", (), ("sources/cars",)),
    ),
    columns=(Column("window", "struct<start:timestamp,end:timestamp>", False), Column("n", "bigint", False)),
    annotations=(Annotation("__reports", "reports", "value", True),),
    spark=SparkRecord("4.3.0", {"spark.sql.session.timeZone": "UTC"}),
)

EPOCH = Epoch(
    number=0,
    plan=1,
    inputs={},
    watermark_ms=0,
    late_before_ms=0,
    clock_ms=1_767_254_400_000,
    results=(),
    counts={"results": 0},
)


@pytest.fixture
def make_manifest() -> Callable[..., Manifest]:
    def make(**changes: Any) -> Manifest:
        return dataclasses.replace(MANIFEST, **changes)

    return make


@pytest.fixture
def make_epoch() -> Callable[..., Epoch]:
    def make(number: int = 0, **changes: Any) -> Epoch:
        return dataclasses.replace(EPOCH, number=number, **changes)

    return make


@pytest.fixture
def write_rows() -> Callable[[Path, int], Path]:
    """Writes a Parquet file of so many rows, its directory included."""

    def write(path: Path, rows: int) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(arrow.table({"n": list(range(rows))}), path)
        return path

    return write


@pytest.fixture
def commit_epoch(
    write_rows: Callable[[Path, int], Path], make_epoch: Callable[..., Epoch]
) -> Callable[..., tuple[FileRecord, ...]]:
    """Writes an epoch as a runner does: result files of so many rows, files of the source `reports`, the marker."""

    def commit(writer: RunWriter, number: int, *rows: int, reports: tuple[Path, ...] = (), **changes: Any) -> Any:
        writer.begin_epoch(number)
        for part, count in enumerate(rows):
            write_rows(writer.results_directory(number) / f"part-{part:05d}.parquet", count)
        results = writer.record_results(number)
        inputs = {"reports": writer.pin("reports", reports)} if reports else {}
        writer.commit(make_epoch(number, results=results, inputs=inputs, **changes))
        return results

    return commit


@pytest.fixture
def writer(tmp_path: Path, make_manifest: Callable[..., Manifest]) -> Any:
    with create(tmp_path / "run", make_manifest()) as made:
        yield made
