"""Runs written by hand: a plan, tables and the oracle's results on disk, as if Spark had run the query.

For tests of what is asked of runs: engines, questions, commands. Sources are Parquet files that the run pins; results
are what the oracle says, annotated where the run is to be eager. ``OracleEngine`` answers from the same files with the
oracle, so that questions can be judged apart from the engines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pyarrow import parquet

from whence.errors import UnknownRow
from whence.lineage import carry
from whence.plan.hidden import LATE, RESULTS, ROW_ID
from whence.plan.nodes import Node, Source, names, sources, walk
from whence.plan.text import fingerprint, print_plan
from whence.plan.types import BIGINT, ArrayType, Field, Schema, parse_type
from whence.semantics import Table, evaluate
from whence.semantics.values import freeze
from whence.store import (
    Annotation,
    Column,
    Epoch,
    Manifest,
    NumberedFile,
    PlanRecord,
    SourceRecord,
    SparkRecord,
    StoredRun,
    create,
    pack,
)
from whence.testing.arrow import arrow_table

Rows = Sequence[Sequence[object]]


def write_run(
    path: Path,
    plan: Node,
    rows: Mapping[str, Rows],
    *,
    capture: Literal["lazy", "eager"] = "lazy",
    files: int = 2,
    results: Rows | None = None,
) -> dict[str, Table]:
    """Write a batch run of a plan over tables at a path, its sources beside it, each in so many files.

    The results are the oracle's, or the given ones where a test wants others. The tables come back with the ids that
    the run gives to their rows.
    """
    found = sources(plan)
    tables: dict[str, Table] = {}
    pinned: dict[str, list[Path]] = {}
    for name, source in found.items():
        given = list(rows[name])
        parts = _parts(given, files)
        pinned[name] = []
        ids: list[int] = []
        for number, part in enumerate(parts):
            file = path.parent / f"{path.name}-sources" / name / f"part-{number}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(arrow_table(source.fields, part), file)
            pinned[name].append(file)
            ids += [pack(number, row) for row in range(len(part))]
        tables[name] = Table(tuple(f.name for f in source.fields), given, ids)
    carried = carry(plan) if capture == "eager" else None
    running = plan if carried is None else carried.plan
    made = evaluate(running, tables) if results is None else list(results)
    annotations = (
        () if carried is None else tuple(Annotation(c.column, c.source, c.role, c.many) for c in carried.columns)
    )
    manifest = _manifest(plan, found, pinned, capture, annotations)
    with create(path, manifest) as writer:
        writer.begin_epoch(0)
        folder = writer.results_directory(0)
        folder.mkdir(parents=True)
        for number, part in enumerate(_parts(made, 2)):
            parquet.write_table(arrow_table(running.schema, part), folder / f"part-{number:05}.parquet")
        writer.commit(
            Epoch(
                number=0,
                plan=1,
                inputs={name: writer.pin(name, paths) for name, paths in pinned.items()},
                watermark_ms=None,
                late_before_ms=None,
                clock_ms=None,
                results=writer.record_results(0),
                counts={"results": len(made)},
            )
        )
    return tables


def _manifest(
    plan: Node,
    found: Mapping[str, Source],
    pinned: Mapping[str, list[Path]],
    capture: Literal["lazy", "eager"],
    annotations: tuple[Annotation, ...],
) -> Manifest:
    return Manifest(
        whence="0.1.0",
        created="2026-01-01T08:00:00+00:00",
        kind="batch",
        capture=capture,
        capture_reason="written by hand",
        output_mode=None,
        plans=(PlanRecord(1, print_plan(plan), fingerprint(plan), tuple(n.step for n in walk(plan)), True),),
        sources=tuple(
            SourceRecord(
                name, "parquet", _columns(source.fields), "file_row", (), tuple(str(p) for p in pinned[name][:1])
            )
            for name, source in found.items()
        ),
        columns=_columns(plan.schema),
        annotations=annotations,
        spark=SparkRecord("4.3.0", {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}),
    )


def _columns(schema: Schema) -> tuple[Column, ...]:
    return tuple(Column(f.name, str(f.type), True) for f in schema)


def _parts(rows: Rows, count: int) -> list[Rows]:
    step = max(-(-len(rows) // count), 1)
    return [rows[start : start + step] for start in range(0, max(len(rows), 1), step)]


@dataclass(frozen=True, slots=True)
class OracleEngine:
    """An engine that reads a run's files and evaluates plans by the oracle: slow, and right by definition."""

    stored: StoredRun
    name: str = "oracle"

    def run(self, plan: Node) -> pa.Table:
        """The columns of a plan."""
        tables = {name: self.table(source) for name, source in sources(plan).items()}
        rows = evaluate(plan, tables)
        table = arrow_table(plan.schema, rows)
        return table if plan.schema else pa.table({"": pa.nulls(len(rows))}).select([])

    def fetch(self, name: str, ids: list[int], columns: list[str] | None = None) -> pa.Table:
        """Rows by id."""
        stored = self._columns(name)
        wanted = [f for f in stored if columns is None or f.name in columns]
        if columns is not None:
            wanted = [next(f for f in stored if f.name == c) for c in columns]
        schema = (Field(ROW_ID, BIGINT), *wanted)
        table = self.table(Source(name, schema))
        by_id = {row[0]: row for row in table.rows}
        missing = [id for id in ids if id not in by_id]
        if missing:
            raise UnknownRow(f"there is no row {missing[0]} of {name}")
        return arrow_table(schema, [by_id[id] for id in ids])

    def table(self, source: Source) -> Table:
        """A source with the fields asked for."""
        self._check(source.name)
        late = self.stored.late_before(source.name) if source.name != RESULTS else {}
        rows: list[tuple[object, ...]] = []
        ids: list[int] = []
        for file in self._files(source.name):
            wanted = [f for f in source.fields if f.name not in (ROW_ID, LATE)]
            bound = late.get(file.number)
            moment = None if bound is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=bound)
            read = parquet.read_table(file.path, columns=[f.name for f in wanted], partitioning=None)
            columns = {f.name: [freeze(v, f.type) for v in read.column(f.name).to_pylist()] for f in wanted}
            for row in range(file.record.rows or 0):
                id = pack(file.number, row)
                hidden = {ROW_ID: id, LATE: moment}
                rows.append(tuple(hidden[f.name] if f.name in hidden else columns[f.name][row] for f in source.fields))
                ids.append(id)
        return Table(names(source), rows, ids)

    def _files(self, name: str) -> tuple[NumberedFile, ...]:
        return self.stored.result_files() if name == RESULTS else self.stored.source_files(name)

    def _check(self, name: str) -> None:
        if name == RESULTS:
            self.stored.check_results()
        else:
            self.stored.check_source(name)

    def _columns(self, name: str) -> Schema:
        if name != RESULTS:
            return tuple(Field(c.name, parse_type(c.type)) for c in self.stored.source(name).columns)
        manifest = self.stored.manifest
        annotations = (Field(a.column, ArrayType(BIGINT) if a.many else BIGINT) for a in manifest.annotations)
        return (*(Field(c.name, parse_type(c.type)) for c in manifest.columns), *annotations)
