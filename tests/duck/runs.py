"""Runs on disk for tests of DuckDB: tables of Python values as the Parquet files of a run's sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    """A source of a run to be made: its columns and, for each file, its rows (or any Arrow table).

    ``names`` are paths of the files, ``landed`` says that the files have ids in a column of their own.
    """

    fields: Schema
    files: Sequence[Rows | pa.Table]
    partitions: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    landed: bool = False
    options: Mapping[str, object] = field(default_factory=dict)

    def write(self, folder: Path, place: int) -> Path:
        """One of the files, written."""
        path = folder / (self.names[place] if self.names else f"{place:05d}.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        content = self.files[place]
        table = content if isinstance(content, pa.Table) else arrow_rows(self.fields, content)
        parquet.write_table(table, path, row_group_size=2, **self.options)
        return path

    def record(self, name: str) -> SourceRecord:
        if self.landed:
            return SourceRecord(name, "landed", columns_of(self.fields), "column", (), (f"sources/{name}",))
        return SourceRecord(name, "parquet", columns_of(self.fields), "file_row", self.partitions, ("/data",))

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
    usual: dict[str, object] = {
        "whence": "0.1.0",
        "created": "2026-01-01T08:00:00+00:00",
        "kind": "stream",
        "capture": "lazy",
        "capture_reason": "a test",
        "output_mode": "append",
        "plans": (PlanRecord(1, "source", "f", (), True),),
        "sources": tuple(given.record(name) for name, given in sources.items()),
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
                folder = path / "data" / str(list(sources).index(name))
                paths = [given.write(folder, place) for place in range(taken[name], end)]
                taken[name] = end
                inputs[name] = writer.pin(name, paths)
            writer.begin_epoch(number)
            if results is not None and number == 0:
                for place in range(len(results.files)):
                    results.write(writer.results_directory(0), place)
            writer.commit(
                Epoch(
                    number=number, plan=1, inputs=inputs, watermark_ms=bound, late_before_ms=bound, clock_ms=0,
                    results=writer.record_results(number), counts={"results": 0},
                )
            )  # fmt: skip
    return open_run(path / "run")
