"""Runs on disk for tests of DuckDB: tables of Python values as the Parquet files of a run's sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from whence.duck.arrow import arrow_table, typed
from whence.plan.nodes import Values
from whence.plan.types import Schema
from whence.semantics import Table
from whence.store import (
    Annotation,
    Column,
    Epoch,
    Manifest,
    PlanRecord,
    SourceRecord,
    SparkRecord,
    StoredRun,
    create,
    open_run,
    pack,
)

Rows = Sequence[Sequence[object]]


@dataclass(frozen=True)
class Given:
    """A source of a run to be made: its columns and, for each file, its rows."""

    fields: Schema
    files: Sequence[Rows]
    partitions: tuple[str, ...] = ()

    @property
    def table(self) -> Table:
        """The same for the oracle."""
        rows = [(pack(number, place), row) for number, file in enumerate(self.files) for place, row in enumerate(file)]
        return Table(tuple(f.name for f in self.fields), [r for _, r in rows], [i for i, _ in rows])


def arrow_rows(fields: Schema, rows: Rows) -> pa.Table:
    """Rows in the oracle's form as an Arrow table."""
    return typed(arrow_table(Values(fields, tuple(tuple(r) for r in rows))), fields)


def columns_of(fields: Schema) -> tuple[Column, ...]:
    return tuple(Column(f.name, str(f.type), True) for f in fields)


def manifest(sources: Mapping[str, Given], **changes: object) -> Manifest:
    records = tuple(
        SourceRecord(name, "parquet", columns_of(given.fields), "file_row", given.partitions, ("/data",))
        for name, given in sources.items()
    )
    usual: dict[str, object] = {
        "whence": "0.1.0",
        "created": "2026-01-01T08:00:00+00:00",
        "kind": "stream",
        "capture": "lazy",
        "capture_reason": "a test",
        "output_mode": "append",
        "plans": (PlanRecord(1, "source", "f", (), True),),
        "sources": records,
        "columns": (),
        "annotations": (),
        "spark": SparkRecord("4.3.0", {"spark.sql.session.timeZone": "UTC"}),
    }
    return Manifest(**{**usual, **changes})  # type: ignore[arg-type]


def write_run(
    path: Path,
    sources: Mapping[str, Given],
    *,
    late: Sequence[int | None] = (None,),
    results: Given | None = None,
    annotations: tuple[Annotation, ...] = (),
    conf: Mapping[str, str] | None = None,
) -> StoredRun:
    """A run of as many epochs as ``late`` has bounds; files are dealt out to the epochs in turn."""
    changes: dict[str, object] = {}
    if results is not None:
        hidden = {a.column for a in annotations}
        shown = tuple(c for c in columns_of(results.fields) if c.name not in hidden)
        changes = {"columns": shown, "annotations": annotations}
    if conf is not None:
        changes["spark"] = SparkRecord("4.3.0", conf)
    with create(path / "run", manifest(sources, **changes)) as writer:
        taken = dict.fromkeys(sources, 0)
        for number, bound in enumerate(late):
            inputs = {}
            for name, given in sources.items():
                files = given.files
                end = len(files) if number == len(late) - 1 else min(len(files), taken[name] + 1)
                paths = []
                for place in range(taken[name], end):
                    file = path / "data" / str(len(taken)) / f"{list(sources).index(name)}-{place:05d}.parquet"
                    file.parent.mkdir(parents=True, exist_ok=True)
                    parquet.write_table(arrow_rows(given.fields, files[place]), file, row_group_size=2)
                    paths.append(file)
                taken[name] = end
                inputs[name] = writer.pin(name, paths)
            writer.begin_epoch(number)
            if results is not None and number == 0:
                for place, rows in enumerate(results.files):
                    file = writer.results_directory(0) / f"part-{place:05d}.parquet"
                    file.parent.mkdir(parents=True, exist_ok=True)
                    parquet.write_table(arrow_rows(results.fields, rows), file)
            writer.commit(
                Epoch(
                    number=number, plan=1, inputs=inputs, watermark_ms=bound, late_before_ms=bound, clock_ms=0,
                    results=writer.record_results(number), counts={"results": 0},
                )
            )  # fmt: skip
    return open_run(path / "run")
