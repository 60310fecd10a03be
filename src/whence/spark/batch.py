"""Running a traced batch query and keeping it: sources pinned or landed, results written, the run committed.

Lazy adds nothing to the query: the user's own DataFrame is written. Eager writes the plan that carries the ids of
source rows. Which capture a query gets is decided elsewhere (`ask.choose`), and nothing is answered here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from whence.errors import NotTraceable, RunExists
from whence.lineage import Carried, carry
from whence.spark.jvm import analyzed
from whence.spark.leaf_ids import leaf_table
from whence.spark.recorded import manifest
from whence.spark.sources import Kept, Watch, keep, land, landed_frame, pin, release, repoint
from whence.spark.written import check_columns, write_parquet
from whence.store import Annotation, Capture, Epoch, FileRecord, RunWriter, local_path, stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from whence.spark.lift import Lifted


def write_batch(
    df: DataFrame,
    lifted: Lifted,
    path: str | Path,
    *,
    capture: Capture,
    reason: str,
    overwrite: bool = False,
    whence_version: str,
) -> None:
    """Run a batch query and keep its results and lineage at a path; what fails leaves no run there."""
    if capture == "interval":
        raise NotTraceable("intervals are not captured yet", hint='use capture="lazy" or capture="eager"')
    check_columns(lifted.jvm, df, "the result")
    kept = tuple(keep(lifted.jvm, leaf) for leaf in lifted.leaves)
    _refuse_own_files(Path(local_path(path)), kept)
    carried = carry(lifted.plan) if capture == "eager" else None
    record = manifest(
        df,
        lifted,
        kind="batch",
        capture=capture,
        reason=reason,
        sources=tuple(source.record for source in kept),
        annotations=() if carried is None else _annotations(carried),
        whence_version=whence_version,
    )
    # Staged: a query that fails leaves nothing, and a run that it was to replace stays as it was.
    with stage(path, record, overwrite=overwrite) as writer:
        try:
            _run(df, lifted, writer, kept, carried)
            writer.publish()
        except BaseException:
            writer.discard()
            raise


def _annotations(carried: Carried) -> tuple[Annotation, ...]:
    return tuple(Annotation(c.column, c.source, c.role, c.many) for c in carried.columns)


def _refuse_own_files(run: Path, kept: tuple[Kept, ...]) -> None:
    for source in kept:
        for file in source.leaf.files():
            if Path(local_path(file)).is_relative_to(run):
                raise RunExists(
                    f"the query reads from the run at {run}, which it would replace",
                    detail=f"source {source.leaf.name!r} reads {local_path(file)}",
                    hint="write to another path",
                )


def _run(df: DataFrame, lifted: Lifted, writer: RunWriter, kept: tuple[Kept, ...], carried: Carried | None) -> None:
    writer.begin_epoch(0)
    watch = Watch()
    inputs: dict[str, tuple[FileRecord, ...]] = {}
    instead: dict[str, DataFrame] = {}
    held: list[DataFrame] = []
    try:
        for source in kept:
            name = source.leaf.name
            if source.is_pinned:
                inputs[name] = pin(writer, source)
                watch.pinned(name, inputs[name])
            else:
                watch.landed(source)
                inputs[name], frame = land(lifted.jvm, writer, source, again=carried is None)
                if frame is not None:
                    instead[name] = frame
                    if source.instead == "held":
                        held.append(frame)
        frame = _repointed(df, lifted, instead) if carried is None else _carrying(lifted, writer, kept, carried, inputs)
        ids = () if carried is None else tuple(column.column for column in carried.columns)
        write_parquet(frame, writer.results_directory(0), ids)
    finally:
        for rows in held:
            release(rows)
    watch.check(writer.path)
    results = writer.record_results(0)
    counts = {name: sum(file.rows or 0 for file in files) for name, files in inputs.items()}
    writer.commit(
        Epoch(
            number=0,
            plan=1,
            inputs=inputs,
            watermark_ms=None,
            late_before_ms=None,
            clock_ms=None,
            results=results,
            counts={"results": sum(file.rows or 0 for file in results)} | counts,
        )
    )


def _repointed(df: DataFrame, lifted: Lifted, instead: Mapping[str, DataFrame]) -> DataFrame:
    """The user's own DataFrame, reading what was landed where a source could give other rows a second time."""
    if not instead:
        return df
    return lifted.jvm.frame(repoint(lifted.jvm, analyzed(df), instead, lifted.leaves))


def _carrying(
    lifted: Lifted,
    writer: RunWriter,
    kept: tuple[Kept, ...],
    carried: Carried,
    inputs: Mapping[str, tuple[FileRecord, ...]],
) -> DataFrame:
    """The query with the ids of source rows beside its columns."""
    from whence.spark.lower import lower

    jvm = lifted.jvm
    tables = {}
    for source in kept:
        leaf = source.leaf
        read = leaf.frame(jvm)
        if not source.is_pinned:
            read = landed_frame(jvm, leaf, writer.landed_directory(leaf.name, 0))
        order = {str(writer.path / record.path): number for number, record in enumerate(inputs[leaf.name])}
        addresses = sorted(read.inputFiles(), key=lambda address: order[local_path(address)])
        tables[leaf.name] = leaf_table(jvm, read, addresses)
    return lower(jvm, carried.plan, tables, lifted.handles)
