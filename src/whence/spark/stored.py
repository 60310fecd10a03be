"""Stored tables: a source of a stored run, or its results, as a DataFrame with exactly the columns asked for.

Read are the pinned files by their paths, under the pinned schema, whatever else is in their folders by now. Row ids
are computed from the file's number and the place in the file; numbers come to the rows by one broadcast join of file
names, so that thousands of files are one scan and filters on data still reach it. Nothing is decided about questions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from whence.errors import BrokenRun, UnknownSource
from whence.plan import hidden
from whence.plan.expressions import Call, Column, Expression, Literal, conjuncts
from whence.plan.nodes import Filter, Node, Project, Source, walk
from whence.plan.types import BIGINT, STRING, ArrayType, DataType, Field, Schema, parse_type
from whence.spark.arrow import frame_of_rows
from whence.spark.handles import Handles
from whence.spark.jvm import JavaObject, Jvm, analyzed, items
from whence.spark.literals import Literals
from whence.spark.lower_expressions import ExpressionLowerer, Scope
from whence.spark.types import schema_json
from whence.store import LANDED_ID, NumberedFile, StoredRun, local_path, partition_values, unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

METADATA = "__file_source_metadata_col"
"""The key by which Spark marks a scan's hidden column; its name may be taken by the user's own."""
_FILE, _ROW, _NUMBER, _LATE = (hidden.PREFIX + word for word in ("file", "row", "number", "late_ms"))


def stored_table(
    spark: SparkSession, run: StoredRun, name: str, fields: Schema, *, numbers: Collection[int] | None = None
) -> DataFrame:
    """The rows of a source of the run, or of `hidden.RESULTS`, with the columns of ``fields`` in their order.

    ``numbers`` are the files whose rows can matter, by number; None for all. They alone are checked and read.
    """
    known = _types(run, name)
    for field in fields:
        if field.name not in known and field.name not in (hidden.ROW_ID, hidden.LATE):
            raise UnknownSource(
                f"{_called(name)} has no column {field.name!r}",
                detail="its columns: " + ", ".join(known),
                hint="name one of them",
            )
    if name == hidden.RESULTS:
        run.check_results(numbers)
        files: Sequence[NumberedFile] = run.result_files()
    else:
        run.check_source(name, numbers)
        files = run.source_files(name)
    if numbers is not None:
        asked = set(numbers)
        files = [file for file in files if file.number in asked]
    jvm = Jvm(spark)
    if not files:
        return frame_of_rows(jvm, fields, ()).toDF(*(f.name for f in fields))
    return _Scan(jvm, run, name, known).table(files, fields)


def _called(name: str) -> str:
    return "the results of the run" if name == hidden.RESULTS else f"source {name!r}"


def _types(run: StoredRun, name: str) -> dict[str, DataType]:
    """The columns in the files, or given by their folders, and their types."""
    if name != hidden.RESULTS:
        return {c.name: parse_type(c.type) for c in run.source(name).columns}
    found = {c.name: parse_type(c.type) for c in run.manifest.columns}
    for annotation in run.manifest.annotations:
        found[annotation.column] = ArrayType(BIGINT) if annotation.many else BIGINT
    return found


class _Scan:
    """One reading of a source's files."""

    def __init__(self, jvm: Jvm, run: StoredRun, name: str, known: dict[str, DataType]) -> None:
        self.jvm = jvm
        self.run = run
        self.name = name
        self.known = known
        self.literals = Literals(jvm)
        record = None if name == hidden.RESULTS else run.source(name)
        self.landed_id = record is not None and record.id == "column"
        self.folders = () if record is None else record.partition_columns

    def table(self, files: Sequence[NumberedFile], fields: Schema) -> DataFrame:
        wanted = [f.name for f in fields]
        in_files = [n for n in wanted if n in self.known and n not in self.folders]
        if self.landed_id and hidden.ROW_ID in wanted:
            in_files.append(LANDED_ID)
        scan = self.scan(files, in_files)
        paths = self.paths(scan, files)
        packed = hidden.ROW_ID in wanted and not self.landed_id
        constants = self.constants(files, wanted)
        plan, columns = self.with_place(scan, packed)
        if packed or constants:
            plan, more = self.with_file(plan, columns[_FILE], files, paths, constants)
            columns.update(more)
        return self.jvm.frame(self.jvm.project(self.results(fields, columns), plan))

    def scan(self, files: Sequence[NumberedFile], columns: list[str]) -> JavaObject:
        """The Catalyst leaf that reads the files."""
        from pyspark.sql.types import StructType as SparkStruct

        types = {**self.known, LANDED_ID: BIGINT} if self.landed_id else self.known
        schema = tuple(Field(n, types[n]) for n in columns)
        reader = self.jvm.spark.read.schema(SparkStruct.fromJson(json.loads(json.dumps(schema_json(schema)))))
        # The session may be told to pass over files that are gone or broken; rows must not go missing unsaid.
        for option in ("ignoreMissingFiles", "ignoreCorruptFiles"):
            reader = reader.option(option, "false")
        return analyzed(reader.parquet(*("file://" + _literally(str(file.path)) for file in files)))

    def paths(self, scan: JavaObject, files: Sequence[NumberedFile]) -> dict[int, str]:
        """For each file by number how Spark spells it beside its rows."""
        numbers = {local_path(file.path): file.number for file in files}
        found: dict[int, str] = {}
        addresses = [str(address) for address in scan.relation().location().inputFiles()]
        for address in addresses:
            number = numbers.get(local_path(address))
            if number is not None:
                # Listed with three slashes, beside the rows with one.
                found[number] = "file:/" + address.removeprefix("file:///") if address[:8] == "file:///" else address
        missing = [str(file.path) for file in files if file.number not in found]
        if missing:
            raise BrokenRun(
                f"Spark overlooks files of {_called(self.name)}",
                detail=f"{len(missing)} of {len(files)}, the first is {missing[0]}",
                hint="Spark takes files whose names start with a dot or an underscore for its own",
            )
        if len(addresses) != len(files):
            raise BrokenRun(
                f"Spark lists {len(addresses)} files of {_called(self.name)}, not {len(files)}",
                detail=f"the first is {addresses[0]}",
                hint="this is a fault of whence, please report it",
            )
        return found

    def constants(self, files: Sequence[NumberedFile], wanted: list[str]) -> list[str]:
        """The columns that a file has the same value in, all its rows."""
        found = [n for n in wanted if n in self.folders]
        return [*found, hidden.LATE] if hidden.LATE in wanted else found

    def with_place(self, scan: JavaObject, with_row: bool) -> tuple[JavaObject, dict[str, JavaObject]]:
        """The scan with its rows' file name and place in the file."""
        wide = scan.withMetadataColumns()
        columns = {str(a.name()): a for a in items(scan.output())}
        metadata = next(a for a in items(wide.output()) if a.metadata().contains(METADATA))
        members = list(metadata.dataType().fieldNames())
        for label, member in ((_FILE, "file_path"), (_ROW, "row_index")):
            columns[label] = self.jvm.expression(
                "GetStructField", metadata, members.index(member), self.jvm.some(member)
            )
        kept = [(_FILE, columns[_FILE])] + ([(_ROW, columns[_ROW])] if with_row else [])
        aliases = [(label, self.jvm.alias(java, label)) for label, java in kept]
        plan = self.jvm.project([*items(scan.output()), *(alias for _, alias in aliases)], wide)
        for label, alias in aliases:
            columns[label] = alias.toAttribute()
        return plan, columns

    def with_file(
        self,
        plan: JavaObject,
        path: JavaObject,
        files: Sequence[NumberedFile],
        paths: dict[int, str],
        constants: list[str],
    ) -> tuple[JavaObject, dict[str, JavaObject]]:
        """With what is known about each row's file: its number, and the values all its rows share."""
        late = self.run.late_before(self.name) if hidden.LATE in constants else {}
        folders = [n for n in constants if n != hidden.LATE]
        shape = (
            Field(_FILE, STRING),
            Field(_NUMBER, BIGINT),
            Field(_LATE, BIGINT),
            *(Field(n, STRING) for n in folders),
        )
        rows = []
        for file in files:
            values = partition_values(file.path, tuple(folders))
            for folder in folders:
                if folder not in values:
                    raise BrokenRun(
                        f"a file of {_called(self.name)} is in no folder of {folder!r}",
                        detail=str(file.path),
                        hint="trace the query again over what is there now",
                    )
            rows.append((paths[file.number], file.number, late.get(file.number), *(values[n] for n in folders)))
        if len(rows) == 1:
            only = {f.name: self.literals.of(Literal(v, f.type)) for f, v in zip(shape[1:], rows[0][1:], strict=True)}
            return plan, only
        table = analyzed(frame_of_rows(self.jvm, shape, rows))
        found = dict(zip((f.name for f in shape), items(table.output()), strict=True))
        kind = self.jvm.type("org.apache.spark.sql.catalyst.plans.JoinType").apply("inner")
        condition = self.jvm.some(self.jvm.expression("EqualTo", path, found.pop(_FILE)))
        from pyspark.sql import functions as F

        broadcast = analyzed(F.broadcast(self.jvm.frame(table)))
        hint = self.jvm.type("org.apache.spark.sql.catalyst.plans.logical.JoinHint").NONE()
        return self.jvm.logical("Join", plan, broadcast, kind, condition, hint), found

    def results(self, fields: Schema, columns: dict[str, JavaObject]) -> list[JavaObject]:
        lowerer = ExpressionLowerer(self.jvm, Handles(), self.literals)
        made = []
        for field in fields:
            if field.name == hidden.ROW_ID:
                java = columns[LANDED_ID] if self.landed_id else self.packed(columns)
            elif field.name == hidden.LATE:
                scope = Scope((Field(_LATE, BIGINT),), columns)
                micros: Expression = Call("*", (Column(_LATE), Literal(1000, BIGINT)))
                java = lowerer.lower(Call("timestamp_micros", (micros,)), scope)
            elif field.name in self.folders:
                java = columns[field.name]
                if field.type != STRING:
                    java = lowerer.to_utc(java, field.type)
            else:
                java = columns[field.name]
            made.append(self.jvm.alias(java, field.name))
        return made

    def packed(self, columns: dict[str, JavaObject]) -> JavaObject:
        """The id as `store.pack` makes it: the file's number above, the place in the file in the lower 32 bits."""
        bits = self.literals.of(Literal(32, parse_type("int")))
        high = self.jvm.expression("ShiftLeft", columns[_NUMBER], bits)
        return self.jvm.expression("BitwiseOr", high, columns[_ROW])


def _literally(path: str) -> str:
    """A path in which Spark finds no pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def needed_files(plan: Node, name: str) -> set[int] | None:
    """The files, by number, that hold every row of a source that the plan can use; None where any may be needed.

    Known where each place that reads the source is filtered by row ids at once, as questions do.
    """
    found: set[int] = set()
    filtered: set[Node] = set()
    for node in walk(plan):
        if isinstance(node, Filter):
            below = node.child
            while isinstance(below, Project) and all(
                isinstance(c.expression, Column) and c.expression.name == c.name for c in below.columns
            ):
                below = below.child
            if isinstance(below, Source) and below.name == name:
                numbers = _numbers(node.condition)
                if numbers is None:
                    return None
                found |= numbers
                filtered.add(below)
    # A source is one node wherever it is used: each use must be one of those seen.
    uses = _uses(plan, name)
    return found if uses and uses == len(filtered) and _single_uses(plan, filtered) else None


def _uses(plan: Node, name: str) -> int:
    return sum(isinstance(node, Source) and node.name == name for node in walk(plan))


def _single_uses(plan: Node, filtered: set[Node]) -> bool:
    """Whether nothing but the filters seen reads these sources."""
    from whence.plan.nodes import children

    readers: dict[Node, int] = {}
    for node in walk(plan):
        for child in children(node):
            if child in filtered:
                readers[child] = readers.get(child, 0) + 1
    return all(count == 1 for count in readers.values())


def _numbers(condition: Expression) -> set[int] | None:
    for part in conjuncts(condition):
        match part:
            case Literal(False | None):
                return set()
            case Call("=" | "<=>", (Column(hidden.ROW_ID), Literal(int() as one))):
                return _files_of([one])
            case Call("=" | "<=>", (Literal(int() as one), Column(hidden.ROW_ID))):
                return _files_of([one])
            case Call("in", (Column(hidden.ROW_ID), *others)) if all(isinstance(o, Literal) for o in others):
                return _files_of([o.value for o in others if isinstance(o, Literal) and isinstance(o.value, int)])
            case _:
                continue
    return None


def _files_of(ids: Sequence[int]) -> set[int]:
    return {unpack(row_id)[0] for row_id in ids if 0 <= row_id < 1 << 63}
