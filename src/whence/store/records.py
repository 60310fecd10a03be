"""What a run records about itself: the manifest, and one epoch after the other.

Plain values with strict JSON in and out. Plans are text and fingerprints here, types are Spark's short names
(`bigint`, `struct<start:timestamp,end:timestamp>`): what they mean is the business of other rooms. Nothing here
touches a disk. Times are milliseconds since 1970 in UTC, as Spark's logs have them.

A change of any of these shapes is a change of the format: it bumps `FORMAT` and keeps reading the older ones.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeVar

from whence.errors import BrokenRun
from whence.store.documents import Entry, broken_file, format_document, parse_versioned
from whence.store.layout import recorded_path_problem

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FORMAT = 1

RunKind = Literal["batch", "stream"]
Capture = Literal["lazy", "interval", "eager"]
OutputMode = Literal["append", "update", "complete"]
SourceKind = Literal["parquet", "landed"]
RowIdKind = Literal["file_row", "column"]
Role = Literal["value", "condition"]

RUN_KINDS: tuple[RunKind, ...] = ("batch", "stream")
CAPTURES: tuple[Capture, ...] = ("lazy", "interval", "eager")
OUTPUT_MODES: tuple[OutputMode, ...] = ("append", "update", "complete")
SOURCE_KINDS: tuple[SourceKind, ...] = ("parquet", "landed")
ROW_ID_KINDS: tuple[RowIdKind, ...] = ("file_row", "column")
ROLES: tuple[Role, ...] = ("value", "condition")

_BUG_HINT = "this is a fault of the caller, not of the run: please report it"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    nullable: bool

    @classmethod
    def read(cls, entry: Entry) -> "Column":
        entry.only("name", "type", "nullable")
        return cls(entry.text("name"), entry.text("type"), entry.flag("nullable"))


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file as a run read or wrote it; the path is relative to the run when the file lies inside it."""

    path: str
    size: int
    modified_ms: int
    rows: int | None

    @classmethod
    def read(cls, entry: Entry) -> "FileRecord":
        entry.only("path", "size", "modified_ms", "rows")
        path = entry.text("path")
        if problem := recorded_path_problem(path):
            raise entry.broken("path", f"{problem}: {path!r}")
        return cls(
            path,
            entry.integer("size", least=0),
            entry.integer("modified_ms"),
            entry.optional_integer("rows", least=0),
        )


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A source and how its rows are read again.

    `parquet` is pinned where it lies, `landed` was written under the run. A row's id is its file's number and its
    place in the file (`file_row`, see `pack`), or the landed column `LANDED_ID` (`column`). Hive partition columns
    are in no file, their values come from the path. `locations` are what the user's read named.
    """

    name: str
    kind: SourceKind
    columns: tuple[Column, ...]
    id: RowIdKind
    partition_columns: tuple[str, ...]
    locations: tuple[str, ...]

    @classmethod
    def read(cls, entry: Entry) -> "SourceRecord":
        entry.only("name", "kind", "columns", "id", "partition_columns", "locations")
        found = cls(
            entry.text("name"),
            entry.choice("kind", SOURCE_KINDS),
            tuple(Column.read(item) for item in entry.entries("columns")),
            entry.choice("id", ROW_ID_KINDS),
            entry.texts("partition_columns"),
            entry.texts("locations"),
        )
        if not found.name:
            raise entry.broken("name", "is empty")
        _all_different(entry, "columns", (column.name for column in found.columns))
        for name in found.partition_columns:
            if all(name != column.name for column in found.columns):
                raise entry.broken("partition_columns", f"names {name!r}, which is no column of the source")
        return found


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """One version of the user's plan. Where `portable` is false, `opaque` says what a later process cannot read."""

    version: int
    text: str
    fingerprint: str
    steps: tuple[str, ...]
    portable: bool
    opaque: tuple[str, ...] = ()

    @classmethod
    def read(cls, entry: Entry) -> "PlanRecord":
        entry.only("version", "text", "fingerprint", "steps", "portable", "opaque")
        return cls(
            entry.integer("version", least=1),
            entry.text("text"),
            entry.text("fingerprint"),
            entry.texts("steps"),
            entry.flag("portable"),
            entry.texts("opaque"),
        )


@dataclass(frozen=True, slots=True)
class Annotation:
    """A column of the result files, beside the user's, that carries row ids of a source (eager capture).

    `many`: the column is a list of ids; otherwise it is one id, or null.
    """

    column: str
    source: str
    role: Role
    many: bool

    @classmethod
    def read(cls, entry: Entry) -> "Annotation":
        entry.only("column", "source", "role", "many")
        return cls(entry.text("column"), entry.text("source"), entry.choice("role", ROLES), entry.flag("many"))


@dataclass(frozen=True, slots=True)
class SparkRecord:
    """The Spark that ran, and those of its settings that the meaning of the query depends on."""

    version: str
    conf: Mapping[str, str]

    @classmethod
    def read(cls, entry: Entry) -> "SparkRecord":
        entry.only("version", "conf")
        return cls(entry.text("version"), entry.text_mapping("conf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a run recorded about itself. `plans` has every version, `created` is ISO 8601 with its time zone."""

    format: int = FORMAT
    whence: str
    created: str
    kind: RunKind
    capture: Capture
    capture_reason: str
    output_mode: OutputMode | None
    plans: tuple[PlanRecord, ...]
    sources: tuple[SourceRecord, ...]
    columns: tuple[Column, ...]
    annotations: tuple[Annotation, ...]
    spark: SparkRecord
    query: str | None = None

    @property
    def plan(self) -> PlanRecord:
        """The newest version of the plan."""
        return self.plans[-1]

    @property
    def steps(self) -> tuple[str, ...]:
        """The step names of the newest version of the plan."""
        return self.plan.steps

    def to_text(self) -> str:
        return format_document(_plain(self))

    @classmethod
    def from_text(cls, text: str, file: str) -> "Manifest":
        """The manifest that `text` holds; `file` is what error messages call it."""
        entry = parse_versioned(text, file, FORMAT)
        entry.only(*(field.name for field in fields(cls)))
        mode = entry.optional_text("output_mode")
        found = cls(
            format=entry.integer("format"),
            whence=entry.text("whence"),
            created=entry.text("created"),
            kind=entry.choice("kind", RUN_KINDS),
            capture=entry.choice("capture", CAPTURES),
            capture_reason=entry.text("capture_reason"),
            output_mode=mode if mode is None else entry.choice("output_mode", OUTPUT_MODES),
            plans=tuple(PlanRecord.read(item) for item in entry.entries("plans")),
            sources=tuple(SourceRecord.read(item) for item in entry.entries("sources")),
            columns=tuple(Column.read(item) for item in entry.entries("columns")),
            annotations=tuple(Annotation.read(item) for item in entry.entries("annotations")),
            spark=SparkRecord.read(entry.entry("spark")),
            query=entry.optional_text("query"),
        )
        found._check(entry)
        return found

    def _check(self, entry: Entry) -> None:
        try:
            aware = datetime.fromisoformat(self.created).tzinfo is not None
        except ValueError:
            aware = False
        if not aware:
            raise entry.broken("created", f"is {self.created!r}, expected a date and time with its zone (ISO 8601)")
        if [plan.version for plan in self.plans] != list(range(1, len(self.plans) + 1)) or not self.plans:
            raise entry.broken("plans", "must be the versions 1, 2, 3 and so on of the plan, at least one")
        _all_different(entry, "sources", (source.name for source in self.sources))
        _all_different(entry, "annotations", (annotation.column for annotation in self.annotations))
        for annotation in self.annotations:
            if all(annotation.source != source.name for source in self.sources):
                raise entry.broken("annotations", f"name the source {annotation.source!r}, which the run does not have")


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One committed epoch: what it read, what it wrote and the clocks it ran by. A batch run has one, number 0.

    `watermark_ms` is what evicts and emits, `late_before_ms` what drops: of a row that a stateful step judges by a
    time, times up to and including `late_before_ms` are late. Both are None where nothing can be late (a batch).
    `clock_ms` is what `current_timestamp()` was, None where it is not known.
    """

    format: int = FORMAT
    number: int
    plan: int
    inputs: Mapping[str, tuple[FileRecord, ...]]
    watermark_ms: int | None
    late_before_ms: int | None
    clock_ms: int | None
    results: tuple[FileRecord, ...]
    counts: Mapping[str, int]

    def to_text(self) -> str:
        return format_document(_plain(self))

    @classmethod
    def from_text(cls, text: str, file: str) -> "Epoch":
        """The epoch that `text` holds; `file` is what error messages call it."""
        entry = parse_versioned(text, file, FORMAT)
        entry.only(*(field.name for field in fields(cls)))
        return cls(
            format=entry.integer("format"),
            number=entry.integer("number", least=0),
            plan=entry.integer("plan", least=1),
            inputs={
                source: tuple(FileRecord.read(item) for item in files)
                for source, files in entry.groups("inputs").items()
            },
            watermark_ms=entry.optional_integer("watermark_ms"),
            late_before_ms=entry.optional_integer("late_before_ms"),
            clock_ms=entry.optional_integer("clock_ms"),
            results=tuple(FileRecord.read(item) for item in entry.entries("results")),
            counts=entry.integer_mapping("counts"),
        )

    def fitting(self, manifest: Manifest, file: str) -> "Epoch":
        """This epoch, when it can belong to a run of that manifest."""
        if self.plan > len(manifest.plans):
            raise broken_file(file, f"key plan is {self.plan}, the manifest has {len(manifest.plans)} versions")
        names = [source.name for source in manifest.sources]
        for source in self.inputs:
            if source not in names:
                raise broken_file(file, f"key inputs.{source} is no source of the run; it has {', '.join(names)}")
        return self


_Record = TypeVar("_Record", Manifest, Epoch)


def checked_text(record: _Record, read: Callable[[str, str], _Record], file: str) -> str:
    """The text of a record, once it is proven that it can be read back: what is kept must stay readable."""
    text = record.to_text()
    problem = "it would not read back the same"
    try:
        if read(text, file) == record:
            return text
    except BrokenRun as error:
        problem = error.detail
    raise BrokenRun("nothing was written: the record does not fit the format", detail=problem, hint=_BUG_HINT)


def _plain(record: "DataclassInstance") -> dict[str, object]:
    return {field.name: _plain_value(getattr(record, field.name)) for field in fields(record)}


def _plain_value(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain_value(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain_value(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(value)
    return value


def _all_different(entry: Entry, key: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise entry.broken(key, f"has {name!r} twice")
        seen.add(name)
