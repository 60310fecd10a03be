"""How a source's rows are read again: pinned where they lie, or landed as Parquet under the run.

Parquet files that Spark reads as they are need no copy: their paths, sizes and times are recorded. Everything else is
written once, before the query runs, and `docs/design/0003-landing.md` says why the query then sees just those rows.
Reading a stored run's sources back is `stored_table`'s work, not done here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whence.errors import SourceChanged
from whence.spark.jvm import JavaObject, Jvm, items, simple_name
from whence.spark.leaves import FILE_RELATION, Leaf, same_table
from whence.spark.written import check_columns, spark_errors, write_parquet
from whence.store import Column, FileRecord, RunWriter, SourceRecord, local_path, partition_values
from whence.store.files import file_problem
from whence.store.layout import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METADATA = "_metadata"
PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
"""Spark's own reader by its class: by its name, a session may read through another that has no row index."""
PLAIN_OPTIONS = frozenset({
    "path", "paths", "basepath", "serialization.format",
    "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "mergeschema",
    "__globpaths__",
})  # fmt: skip
"""Options of a read that choose files and columns; the record has both. Any other may change values or rows."""
STREAM_OPTIONS = frozenset({
    "maxfilespertrigger", "maxbytespertrigger", "maxcachedfiles", "discardcachedinputratio", "maxfileage",
    "latestfirst", "filenameonly", "cleansource", "sourcearchivedir", "schema",
})  # fmt: skip
"""Options of a stream's read that only say when which file is read; `cleanSource` is judged by its value."""
SHIFTED_TYPES = ("date", "timestamp")
_CHANGING_SETTINGS: Mapping[str, tuple[str, ...]] = {
    # By setting, the values under which Spark reads a file as what every other reader sees in it.
    "spark.sql.files.ignoreCorruptFiles": ("false",),
    "spark.sql.files.ignoreMissingFiles": ("false",),
    "spark.sql.parquet.fieldId.read.enabled": ("false",),
    "spark.sql.parquet.datetimeRebaseModeInRead": ("CORRECTED", "EXCEPTION"),
    "spark.sql.parquet.int96RebaseModeInRead": ("CORRECTED", "EXCEPTION"),
}
_OLD_CALENDAR = ("org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96")
_LISTED_ONCE = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"


@dataclass(frozen=True, slots=True)
class Kept:
    """A source of a batch query that will be read again.

    ``reason`` says why it must be landed; empty, it is pinned. ``instead`` is set where the query must not read the
    source itself once more but the rows that were landed: "landed", the landed files, or "held", rows in memory.
    """

    leaf: Leaf
    record: SourceRecord
    reason: str
    instead: str = ""

    @property
    def is_pinned(self) -> bool:
        return not self.reason


def keep(jvm: Jvm, leaf: Leaf) -> Kept:
    """How a source of a batch query will be kept."""
    reason = reason_to_land(jvm, leaf)
    if reason:
        return Kept(leaf, source_record(leaf, "landed"), reason, _instead(jvm, leaf))
    return Kept(leaf, source_record(leaf, "parquet", partition_columns(leaf)), "")


def source_record(leaf: Leaf, kind: str, partitions: tuple[str, ...] = ()) -> SourceRecord:
    """What the manifest says about a source."""
    nullable = [bool(attribute.nullable()) for attribute in items(leaf.node.output())]
    columns = tuple(Column(f.name, str(f.type), n) for f, n in zip(leaf.fields, nullable, strict=True))
    locations = tuple(_location(root) for root in leaf.roots) or ((leaf.table,) if leaf.table else ())
    return SourceRecord(
        leaf.name, "parquet" if kind == "parquet" else "landed", columns, "file_row", partitions, locations
    )


def _location(root: str) -> str:
    """A path that a read named, as the user knows it: these are plain text and not percent-encoded."""
    return local_path(root.removeprefix("file:")) if root.startswith("file:") else root


def partition_columns(leaf: Leaf) -> tuple[str, ...]:
    """The columns of a file source whose values are in the paths and in no file."""
    if leaf.is_streaming:
        return tuple(str(name) for name in items(leaf.node.dataSource().sourceInfo().partitionColumns()))
    return tuple(str(name) for name in leaf.node.relation().partitionSchema().fieldNames())


def reason_to_land(jvm: Jvm, leaf: Leaf) -> str:
    """Why the rows of a batch source cannot be read again from where they lie, or nothing."""
    if leaf.kind != "parquet":
        return f"rows of {leaf.format or leaf.table or leaf.kind} have no lasting identity of their own"
    changed = changed_reading(jvm, leaf, PLAIN_OPTIONS)
    if changed:
        return changed
    paths = [local_path(file) for file in leaf.files()]
    partitions = partition_columns(leaf)
    for path in paths:
        if not is_local(path):
            return f"{path} is not on this machine's file system"
        if len(partition_values(path, partitions)) < len(partitions):
            return f"the values of {', '.join(partitions)} are in the catalog and not in the path {path}"
    if any(any(word in str(f.type) for word in SHIFTED_TYPES) for f in leaf.fields):
        for path in paths:
            if _is_shifted(path):
                return f"{path} has its dates in the old calendar, which Spark shifts when it reads them"
    return ""


def changed_reading(jvm: Jvm, leaf: Leaf, plain: frozenset[str]) -> str:
    """Which option, setting or column makes Spark's rows differ from what the files say, or nothing."""
    if any(f.name.lower() == METADATA for f in leaf.fields):
        return f"the query reads {METADATA}, which is in no file"
    for name, value in leaf.options.items():
        if name.lower() not in plain:
            return f"the option {name}={value!r} may change what is read"
    for name, same in _CHANGING_SETTINGS.items():
        value = str(jvm.session.conf().get(name))
        if value.upper() not in {s.upper() for s in same}:
            return f"the setting {name}={value} changes what is read"
    return ""


def _is_shifted(path: str) -> bool:
    """Whether Spark reads the dates of a file by the calendar that was used before 1582."""
    from pyarrow import ArrowException, parquet

    try:
        metadata = parquet.read_metadata(path).metadata or {}
    except (ArrowException, OSError):
        # Pinning it will say what is wrong with it.
        return False
    version = metadata.get(b"org.apache.spark.version", b"").decode("ascii", "replace")
    return version[:2] in ("1.", "2.") or any(key.encode() in metadata for key in _OLD_CALENDAR)


def _instead(jvm: Jvm, leaf: Leaf) -> str:
    """What the query must read in place of a source that is landed; nothing where the source cannot change."""
    kind = simple_name(leaf.node)
    if kind in ("LocalRelation", "Range"):
        # Constants of the plan.
        return ""
    if kind == "LogicalRelation" and simple_name(leaf.node.relation()) == FILE_RELATION:
        fixed = simple_name(leaf.node.relation().location()) == _LISTED_ONCE.rsplit(".", 1)[-1]
        # The list of files is fixed and the files are watched.
        return "" if fixed and all(is_local(local_path(file)) for file in _listed(leaf)) else "landed"
    # Rows in memory have an order and partitions that files would lose; what made them may draw again each time.
    return "held" if leaf.kind == "memory" else "landed"


def _listed(leaf: Leaf) -> tuple[str, ...]:
    return tuple(str(uri) for uri in leaf.node.relation().location().inputFiles())


def pin(writer: RunWriter, kept: Kept) -> tuple[FileRecord, ...]:
    """The records of a pinned source's files, by path; what changed since the DataFrame was made is refused."""
    leaf = kept.leaf
    records = writer.pin(leaf.name, sorted(local_path(file) for file in leaf.files()))
    # Spark goes by sizes and times of when the DataFrame was made.
    seen = _as_listed(leaf)
    for record in records:
        found = seen.get(str(writer.path / record.path))
        if found is not None and found != (record.size, record.modified_ms):
            raise SourceChanged(
                f"source {leaf.name!r} changed after the DataFrame was made",
                detail=f"{record.path} had {found[0]} bytes then and has {record.size} bytes now"
                if found[0] != record.size
                else f"{record.path} was written again since",
                hint="make the DataFrame again (spark.read...), then trace it",
            )
    return records


def _as_listed(leaf: Leaf) -> dict[str, tuple[int, int]]:
    """Size and time of each file as the DataFrame knows them; nothing where it does not list files itself."""
    location = leaf.node.relation().location()
    if simple_name(location) != _LISTED_ONCE.rsplit(".", 1)[-1]:
        return {}
    return {
        local_path(f"file:{status.getPath().toUri().getRawPath()}"): (
            int(status.getLen()),
            int(status.getModificationTime()),
        )
        for status in items(location.allFiles())
        if status.getPath().toUri().getScheme() in (None, "file")
    }


def land(jvm: Jvm, writer: RunWriter, kept: Kept, *, again: bool) -> tuple[tuple[FileRecord, ...], DataFrame | None]:
    """Write a source's rows into the run: their files, and what the query must read instead, if anything.

    ``again``: the user's own plan runs next, and would read the source again.
    """
    leaf, directory = kept.leaf, writer.landed_directory(kept.leaf.name, 0)
    frame = leaf.frame(jvm)
    check_columns(jvm, frame, f"source {leaf.name!r}, which must be copied into the run,")
    held = None
    if again and kept.instead == "held":
        # Drawn once: partitions that were lost are not drawn again, the query fails instead. The writing fills it.
        frame = held = frame.localCheckpoint(eager=False)
    write_parquet(frame, directory)
    records = writer.record_landed(leaf.name, 0)
    if held is not None:
        return records, held
    return records, landed_frame(jvm, leaf, directory) if again and kept.instead == "landed" else None


def release(held: DataFrame) -> None:
    """Let go of rows that `land` held in memory."""
    plan = held._jdf.queryExecution().analyzed()
    if simple_name(plan) == "LogicalRDD":
        plan.rdd().unpersist(False)


def landed_frame(jvm: Jvm, leaf: Leaf, directory: Path) -> DataFrame:
    """A DataFrame over the landed rows of a source, with its columns as the source has them."""
    schema = leaf.frame(jvm).schema
    # No globs: a directory's name may hold brackets.
    reader = jvm.spark.read.format(PARQUET).schema(schema).option("__globPaths__", "false")
    with spark_errors():
        return reader.load(f"file:{directory}").select(*(f"`{name.replace('`', '``')}`" for name in schema.names))


def repoint(jvm: Jvm, plan: JavaObject, frames: Mapping[str, DataFrame], leaves: Iterable[Leaf]) -> JavaObject:
    """A user's analyzed plan that reads the given frames in place of those sources, and is the same otherwise."""
    return _Repointing(jvm, [(leaf, frames[leaf.name]) for leaf in leaves if leaf.name in frames]).plan(plan)


@dataclass(frozen=True, slots=True)
class _Repointing:
    jvm: Jvm
    pairs: list[tuple[Leaf, DataFrame]]

    def plan(self, node: JavaObject) -> JavaObject:
        below = items(node.children())
        if not below:
            return self.leaf(node)
        new = [self.plan(child) for child in below]
        if any(a is not b for a, b in zip(below, new, strict=True)):
            node = self.jvm.with_children(node, new)
        return self.inside(node) if items(node.subqueries()) else node

    def leaf(self, node: JavaObject) -> JavaObject:
        for leaf, frame in self.pairs:
            # References to common table expressions are leaves too, and may share attributes with the table itself.
            if simple_name(node) == simple_name(leaf.node) and same_table(self.jvm, leaf.node, node):
                return self.renamed(node, leaf, frame)
        return node

    def renamed(self, node: JavaObject, leaf: Leaf, frame: DataFrame) -> JavaObject:
        """The frame's rows under the expression ids of one leaf, so that all above it stays valid."""
        fresh = frame.select("*")._jdf.queryExecution().analyzed()
        by_name = dict(zip((f.name for f in leaf.fields), items(fresh.output()), strict=True))
        seq = self.jvm.seq
        columns = [
            self.jvm.expression(
                "Alias", by_name[a.name()], a.name(), a.exprId(), a.qualifier(), self.jvm.some(a.metadata()), seq([])
            )
            for a in items(node.output())
        ]
        return self.jvm.logical("Project", seq(columns), fresh)

    def inside(self, node: JavaObject) -> JavaObject:
        """The node with the plans repointed that stand inside its expressions (subqueries)."""
        before = [node.productElement(index) for index in range(node.productArity())]
        after = [self.element(value) for value in before]
        if all(a is b for a, b in zip(before, after, strict=True)):
            return node
        return self.jvm.copy(node, after)

    def element(self, value: JavaObject) -> JavaObject:
        if self.jvm.is_a(value, "org.apache.spark.sql.catalyst.expressions.Expression"):
            return self.expression(value)
        if self.jvm.is_a(value, "scala.collection.immutable.Seq"):
            before = items(value)
            after = [self.element(part) for part in before]
            return value if all(a is b for a, b in zip(before, after, strict=True)) else self.jvm.seq(after)
        if self.jvm.is_a(value, "scala.Some"):
            inner = value.get()
            new = self.element(inner)
            return value if new is inner else self.jvm.some(new)
        return value

    def expression(self, value: JavaObject) -> JavaObject:
        before = items(value.children())
        after = [self.expression(child) for child in before]
        if any(a is not b for a, b in zip(before, after, strict=True)):
            value = self.jvm.with_children(value, after)
        if self.jvm.is_a(value, "org.apache.spark.sql.catalyst.expressions.SubqueryExpression"):
            plan = value.plan()
            new = self.plan(plan)
            return value if new is plan else value.withNewPlan(new)
        return value


class Watch:
    """The files that a run reads, and whether they stay what they were while it runs."""

    def __init__(self) -> None:
        self._pinned: list[tuple[str, tuple[FileRecord, ...]]] = []
        self._others: list[tuple[str, dict[str, tuple[int, int] | None]]] = []

    def pinned(self, name: str, records: tuple[FileRecord, ...]) -> None:
        """Watch the files of a pinned source."""
        self._pinned.append((name, records))

    def landed(self, kept: Kept) -> None:
        """Watch the files of a source that is landed and read once more by the query; from before it is landed."""
        if kept.leaf.kind in ("files", "parquet") and not kept.instead:
            self._others.append((kept.leaf.name, {path: _state(path) for path in map(local_path, _listed(kept.leaf))}))

    def check(self, run: Path) -> None:
        """Raise unless every file is what it was."""
        for name, records in self._pinned:
            for record in records:
                if problem := file_problem(record, run):
                    raise _changed(name, problem)
        for name, files in self._others:
            for path, state in files.items():
                if _state(path) != state:
                    raise _changed(name, f"file {path} was changed or removed")


def _state(path: str) -> tuple[int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _changed(name: str, problem: str) -> SourceChanged:
    return SourceChanged(
        f"source {name!r} changed while the query read it",
        detail=problem,
        hint="nothing was kept; trace the query again when nobody writes to the source",
    )
