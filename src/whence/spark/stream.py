"""Running a traced streaming query and keeping it: each epoch's results, and what Spark's log says it read.

Nothing is added to the query: it runs as the user wrote it, into `foreachBatch`. Each epoch is committed once, also
when Spark retries it. Streams over Parquet files in append mode, stateless or with one group by event time; others
are refused before anything starts. What questions recompute from the epochs is `lineage.settle`'s business.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from whence.errors import BrokenRun, NotTraceable, RunExists, SourceChanged, WhenceError
from whence.lineage import settle
from whence.plan.nodes import Group, Watermark, walk
from whence.spark.jvm import JavaObject, Jvm, analyzed, items, simple_name
from whence.spark.leaves import STREAMS, Leaf, collect, find
from whence.spark.recorded import manifest, same_meaning
from whence.spark.sources import (
    PLAIN_OPTIONS,
    STREAM_OPTIONS,
    Watch,
    changed_reading,
    partition_columns,
    source_record,
)
from whence.spark.written import check_columns, write_parquet
from whence.store import Epoch, FileRecord, Manifest, RunWriter, create, local_path, open_run, resume
from whence.store.checkpoint import CheckpointEpoch, read_epoch
from whence.store.layout import is_local
from whence.store.reader import is_run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from whence.spark.lift import Lifted

_DELAY = "spark.watermarkDelayMs"
"""The metadata by which Spark knows an event time with a watermark."""
_MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"
_NAMED = "spark.sql.streaming.queryEvolution.enableSourceEvolution"

# Runs that this process writes, by path: one whose query has ended gives way to its next start.
_live: dict[Path, LiveStream] = {}


class LiveStream:
    """A stream that is being written: Spark's own ``query`` and the ``path`` of its run.

    The run is let go when the query ends, however that happens.
    """

    __slots__ = ("_epochs", "path", "query")

    def __init__(self, query: StreamingQuery, epochs: _Epochs) -> None:
        self.query = query
        self.path = epochs.writer.path
        self._epochs = epochs
        threading.Thread(target=self._let_go_at_end, name=f"whence {self.path.name}", daemon=True).start()

    @property
    def failure(self) -> BaseException | None:
        """What whence refused or met while it wrote an epoch; None where it was nothing, or Spark's own."""
        return self._epochs.failure

    def awaitTermination(self, timeout: int | None = None) -> bool:  # noqa: N802 (Spark's own name)
        """Wait until the query ends, or so many seconds: whether it has ended. What ended it is raised."""
        try:
            ended = self.query.awaitTermination(timeout)
        except Exception:
            if self.query.isActive:
                # It goes on: this was about the timeout.
                raise
            self._epochs.close()
            if isinstance(self.failure, WhenceError):
                raise self.failure from None
            raise
        # Without a timeout Spark returns nothing.
        if timeout is None or ended:
            self._epochs.close()
            return True
        return False

    def stop(self) -> None:
        """Stop the query and let the run go; it goes on from there when it is started again."""
        self.query.stop()
        self._epochs.close()

    def _let_go_at_end(self) -> None:
        # Its failure is for whoever asks for it.
        with contextlib.suppress(Exception):
            self.query.awaitTermination()
        self._epochs.close()


def start_stream(
    df: DataFrame,
    lifted: Lifted,
    path: str | Path,
    *,
    reason: str,
    trigger: Mapping[str, object] | None = None,
    query_name: str | None = None,
    overwrite: bool = False,
    whence_version: str,
) -> LiveStream:
    """Start a streaming query whose results and lineage are kept at a path, or go on with it where it stopped.

    ``trigger`` is what Spark's `DataStreamWriter.trigger` takes by name: ``{"availableNow": True}``.
    """
    root = Path(local_path(path))
    settle(lifted.plan)
    check_columns(lifted.jvm, df, "the result")
    _check_late_rule(lifted, analyzed(df))
    for leaf in lifted.leaves:
        _check_source(lifted.jvm, leaf, root)
    reads = _reads(lifted, analyzed(df))
    record = manifest(
        df,
        lifted,
        kind="stream",
        capture="lazy",
        reason=reason,
        sources=tuple(source_record(leaf, "parquet", partition_columns(leaf)) for leaf in lifted.leaves),
        whence_version=whence_version,
    )
    ended = _live.get(root.resolve())
    if ended is not None and not ended.query.isActive:
        ended._epochs.close()
    goes_on = is_run(root) and not overwrite
    writer = _resumed(root, record) if goes_on else create(root, record, overwrite=overwrite)
    epochs = _Epochs(writer, lifted, reads)
    try:
        stream = df.writeStream.outputMode("append").foreachBatch(epochs)
        stream = stream.option("checkpointLocation", f"file:{writer.checkpoint_directory}")
        if query_name is not None:
            stream = stream.queryName(query_name)
        if trigger:
            # Which of them go together is Spark's to say.
            stream = stream.trigger(**cast(Any, trigger))
        query = stream.start()
    except BaseException:
        if not goes_on:
            # It has no epoch; left there, the next start would be refused for it.
            shutil.rmtree(writer.path, ignore_errors=True)
        epochs.close()
        raise
    _live[root.resolve()] = live = LiveStream(query, epochs)
    return live


def _resumed(root: Path, record: Manifest) -> RunWriter:
    """The writer of a run that is there already, when it is the same query's."""
    found = open_run(root).manifest
    problem = ""
    if found.kind != "stream":
        problem = "it is a batch run"
    elif found.plan.fingerprint != record.plan.fingerprint:
        problem = "it was written by another query: its plan is a different one"
    elif found.sources != record.sources:
        problem = "it reads other sources, or the same ones with other columns"
    elif settings := same_meaning(found.spark, record.spark):
        problem = "; ".join(settings)
    if problem:
        raise RunExists(
            f"the run at {root} cannot go on with this query",
            detail=problem,
            hint="start it as it was to go on, or start this query into a new run",
        )
    return resume(root)


def _check_source(jvm: Jvm, leaf: Leaf, run: Path) -> None:
    problem, hint = "", "land the source as Parquet files (writeStream.format('parquet')) and trace the query over them"
    if leaf.kind != "stream-parquet":
        named = str(leaf.node.sourceName()) if simple_name(leaf.node) in STREAMS else leaf.kind
        what = leaf.format or leaf.table or named
        problem = f"its rows ({what}) have no lasting identity; only streams of Parquet files have one"
    elif changed := changed_reading(jvm, leaf, PLAIN_OPTIONS | STREAM_OPTIONS):
        problem = changed
    elif leaf.options and (clean := _option(leaf, "cleanSource")).lower() not in ("", "off"):
        problem = f"cleanSource={clean!r} takes away files that its lineage points to"
        hint = "read it without cleanSource, and remove old files when no run needs them"
    for location in leaf.roots if not problem else ():
        folder = local_path(location.removeprefix("file:")) if location.startswith("file:") else local_path(location)
        if not is_local(folder):
            problem = f"{folder} is not on this machine's file system"
        elif Path(folder).is_relative_to(run) or run.is_relative_to(Path(folder)):
            problem = f"it reads {folder}, and the run is written to {run}: it would read what it writes"
            hint = "start it into a folder beside the source"
    if problem:
        raise NotTraceable(f"source {leaf.name!r} cannot be traced on a stream", detail=problem, hint=hint)


def _option(leaf: Leaf, wanted: str) -> str:
    return next((value for name, value in leaf.options.items() if name.lower() == wanted.lower()), "")


@dataclass(frozen=True, slots=True)
class _Reads:
    """How Spark's log counts a plan's streaming reads, from the left.

    ``offsets``: by source, the first line of the offsets that is its; ``logs``: by line, the folder of its log.
    """

    offsets: dict[str, str] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)


def _reads(lifted: Lifted, plan: JavaObject) -> _Reads:
    """How the log will count the sources; one that Spark itself would read twice is refused."""
    if str(lifted.jvm.session.conf().get(_NAMED, "false")).lower() == "true":
        raise NotTraceable(
            "a stream with named sources cannot be traced",
            detail=f"{_NAMED} is true, and Spark's log then goes by names that the plan does not have",
            hint=f"spark.conf.set({_NAMED!r}, 'false')",
        )
    reads = _Reads()
    different: list[JavaObject] = []
    for line, node in enumerate(collect(plan)):
        # The same DataFrame twice in a plan is one read, with a line for each place.
        place = next((i for i, other in enumerate(different) if node.equals(other)), len(different))
        reads.logs[str(line)] = str(place)
        if place < len(different):
            continue
        different.append(node)
        leaf = find(lifted.jvm, lifted.leaves, node)
        if leaf.name in reads.offsets:
            raise NotTraceable(
                f"source {leaf.name!r} is read twice by this stream",
                detail="Spark would list its files twice, and one epoch could read different files of them",
                hint="read it once (one spark.readStream) and build both parts of the query on that DataFrame",
            )
        reads.offsets[leaf.name] = str(line)
    return reads


def _check_late_rule(lifted: Lifted, plan: JavaObject) -> None:
    """Raise unless Spark judges late rows by the one key that our rule goes by."""
    stack = [plan]
    while stack:
        node = stack.pop()
        stack.extend(items(node.children()))
        if simple_name(node) != "Aggregate":
            continue
        keys = items(node.groupingExpressions())
        times = [k for k in keys if hasattr(k, "metadata") and k.metadata().contains(_DELAY)]
        if len(times) != 1:
            raise NotTraceable(
                "a group on this stream cannot be traced",
                detail=f"{len(times)} of its keys are event times with a watermark; which of them makes a row late "
                "is known where it is one",
                hint="group by one window or time of the column that withWatermark names",
            )


class _Epochs:
    """What `foreachBatch` calls: writes an epoch, reads Spark's log about it, commits it."""

    def __init__(self, writer: RunWriter, lifted: Lifted, reads: _Reads) -> None:
        self.writer = writer
        self.failure: BaseException | None = None
        nodes = list(walk(lifted.plan))
        self._reads = reads
        self._has_watermark = any(isinstance(node, Watermark) for node in nodes)
        self._drops_late = any(isinstance(node, Group) for node in nodes)
        conf = lifted.jvm.spark.conf
        # Only the old rule of Spark 3 drops by the epoch's own watermark.
        self._drops_by_own = str(conf.get(_MULTIPLE)).lower() == "false"
        self._closed = False
        self._busy = threading.Lock()

    def __call__(self, batch: DataFrame, number: int) -> None:
        with self._busy:
            try:
                self._write(batch, number)
            except BaseException as error:
                self.failure = error
                raise

    def close(self) -> None:
        """Let the run go, once no epoch is being written."""
        with self._busy:
            self.writer.close()
        path = self.writer.path.resolve()
        live = _live.get(path)
        if live is not None and live._epochs is self:
            del _live[path]

    def _write(self, batch: DataFrame, number: int) -> None:
        writer = self.writer
        writer.begin_epoch(number)
        logged = read_epoch(writer.checkpoint_directory, number, logs=self._reads.logs)
        watch = Watch()
        inputs: dict[str, tuple[FileRecord, ...]] = {}
        for name, line in self._reads.offsets.items():
            inputs[name] = self._pinned(name, line, logged)
            watch.pinned(name, inputs[name])
        write_parquet(batch, writer.results_directory(number))
        watch.check(writer.path)
        results = writer.record_results(number)
        counts = {name: sum(file.rows or 0 for file in files) for name, files in inputs.items()}
        late = logged.watermark_ms if self._drops_by_own else logged.late_before_ms
        writer.commit(
            Epoch(
                number=number,
                plan=1,
                inputs=inputs,
                watermark_ms=logged.watermark_ms if self._has_watermark else None,
                late_before_ms=late if self._drops_late else None,
                clock_ms=logged.clock_ms,
                results=results,
                counts={"results": sum(file.rows or 0 for file in results)} | counts,
            )
        )

    def _pinned(self, name: str, line: str, logged: CheckpointEpoch) -> tuple[FileRecord, ...]:
        if line not in logged.files:
            if line in logged.offsets and logged.offsets[line] is None:
                return ()
            raise BrokenRun(
                f"Spark's log does not tell what epoch {logged.number} read of source {name!r}",
                detail=f"the log has the sources {', '.join(logged.offsets) or 'none'}, expected {line}",
                hint="this is a fault of whence, please report it",
            )
        files = logged.files[line]
        records = self.writer.pin(name, [file.path for file in files])
        for file, record in zip(files, records, strict=True):
            if file.modified_ms != record.modified_ms:
                raise SourceChanged(
                    f"source {name!r} changed before it was read",
                    detail=f"{file.path} was written again after Spark had listed it",
                    hint="files of a stream must not change: put it back, or start the query into a new run",
                )
        return records
