"""The engine that answers plans of a stored run with DuckDB: no Spark, no extension, no network.

One connection in memory, made when first needed. Errors of DuckDB never reach the caller: what
Spark has no value for either is an EvaluationError, everything else that ends a query NotPortable.
What a question is, this module does not know.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from whence.duck.arrow import arrow_table, typed
from whence.duck.columns import Layout, check_layout, layout_of, layouts_query
from whence.duck.functions import FAULT, OUTSIDE
from whence.duck.lower import lower
from whence.duck.tables import Files
from whence.duck.text import SPARK_HINT
from whence.errors import BrokenRun, EvaluationError, NotPortable, UnknownRow, WhenceError
from whence.plan.expressions import unknown_column
from whence.plan.hidden import LATE, RESULTS, ROW_ID
from whence.plan.literals import UTC_ZONES
from whence.plan.nodes import Node, Source, Values, sources
from whence.plan.types import BIGINT, ArrayType, Field, Schema, parse_type
from whence.store import StoredRun

SETTINGS: Mapping[str, str] = {
    # A run is data: nothing is downloaded or loaded because of what stands in it.
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    # Nothing is kept in the home directory; what does not fit into memory goes where temporary files go.
    "allow_persistent_secrets": "false",
    "temp_directory": str(Path(tempfile.gettempdir()) / "whence-duckdb"),
    # A name that is no table must not become a variable of some Python function.
    "python_enable_replacements": "false",
}
# Numbers overflow in Spark where they do here; dates and times have other ends there.
_NUMBERS = re.compile(
    r"Overflow (in|on) |with value .* can't be cast because|Failed to cast decimal value"
    r"|Could not cast value .* to DECIMAL|to type DECIMAL\S* failed|Could not convert string .* to U?INT"
)
_DAMAGE = re.compile(r"magic bytes|[Cc]orrupt|Parquet file|footer|Snappy|ZSTD|TProtocolException|[Dd]ecompress")
LISTED = 2_000
"""Up to so many row ids stand in the condition itself, where they prune; more take longer to plan than to join."""


class DuckEngine:
    """Runs plans over the files of one stored run; threads may share it, and take turns."""

    name = "duckdb"

    def __init__(self, run: StoredRun) -> None:
        self.files = Files(run)
        self.utc = run.manifest.spark.conf.get("spark.sql.session.timeZone", "") in UTC_ZONES
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._lock = threading.Lock()
        self._layouts: dict[str, tuple[Layout, ...]] = {}

    def run(self, plan: Node) -> pa.Table:
        """The rows of a plan, its columns in the plan's order and types."""
        lowered = lower(plan, self.files.scan, utc=self.utc)
        for name, source in sources(plan).items():
            self.files.check(name)
            self._check_columns(name, source.fields)
        return typed(self._table(lowered.sql, lowered.tables), plan.schema)

    def fetch(self, name: str, ids: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a source (or of the results) by row id, in the order of the ids, their id first."""
        fields = self._fields(name, columns)
        wanted = list(ids)
        rows = self.files.locate(name, wanted)
        source, cells = Source(name, fields), [f"f{n}" for n in range(len(fields))]
        tables: dict[str, Values] = {}
        if len(wanted) <= LISTED:
            sql = self.files.scan_rows(source, cells, rows)
        else:
            sql = f"SELECT a.* FROM ({self.files.scan(source, cells)}) AS a SEMI JOIN asked ON a.f0 = asked.v0"
            tables["asked"] = Values((Field("id", BIGINT),), tuple((row_id,) for row_id in wanted))
        self.files.check(name, rows.numbers if len(wanted) <= LISTED else None)
        self._check_columns(name, fields)
        found = typed(self._table(sql, tables), fields)
        places = {row_id: place for place, row_id in enumerate(found.column(0).to_pylist())}
        for row_id in wanted:
            if row_id not in places:
                raise UnknownRow(f"there is no row {row_id} in {name!r}", hint=f"run: {self.files.run.path}")
        return found.take(pa.array([places[row_id] for row_id in wanted], pa.int64()))

    def _check_columns(self, name: str, fields: Schema) -> None:
        """Refuse columns of pinned files that DuckDB would read in another way than Spark."""
        if name == RESULTS or self.files.run.source(name).kind != "parquet":
            return
        if name not in self._layouts:
            files = self.files.files(name)
            found = self._table(layouts_query(files), {}).column(0).to_pylist() if files else []
            self._layouts[name] = tuple(layout_of(columns) for columns in found)
        partitioned = self.files.run.source(name).partition_columns
        stored = tuple(f for f in fields if f.name not in (ROW_ID, LATE, *partitioned))
        for layout in self._layouts[name]:
            check_layout(name, stored, layout)

    def explain(self, plan: Node, *, analyze: bool = False) -> str:
        """How DuckDB goes about a plan; with ``analyze`` it runs it and says what it read."""
        lowered = lower(plan, self.files.scan, utc=self.utc)
        words = "EXPLAIN ANALYZE" if analyze else "EXPLAIN"
        rows = self._table(f"{words} {lowered.sql}", lowered.tables).column(1)
        return "\n".join(str(text) for text in rows.to_pylist())

    def _fields(self, name: str, columns: Sequence[str] | None) -> Schema:
        """The row id and the asked columns, or all that the user knows."""
        manifest = self.files.run.manifest
        known = manifest.columns if name == RESULTS else self.files.run.source(name).columns
        schema = tuple(Field(c.name, parse_type(c.type)) for c in known)
        everything = schema
        if name == RESULTS:
            everything += tuple(Field(a.column, ArrayType(BIGINT) if a.many else BIGINT) for a in manifest.annotations)
        by_name = {f.name: f for f in everything}
        for column in columns or ():
            if column not in by_name and column != ROW_ID:
                raise unknown_column(column, everything)
        chosen = schema if columns is None else tuple(by_name[c] for c in columns if c != ROW_ID)
        return (Field(ROW_ID, BIGINT), *chosen)

    def _table(self, sql: str, values: Mapping[str, Values]) -> pa.Table:
        tables = {name: arrow_table(rows) for name, rows in values.items()}
        with self._lock:
            connection = self._connected()
            try:
                for name, table in tables.items():
                    connection.register(name, table)
                found: pa.Table = connection.sql(sql).to_arrow_table()
                return found
            except duckdb.Error as error:
                raise _judged(error) from None
            finally:
                for name in tables:
                    connection.unregister(name)

    def _connected(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._connection = duckdb.connect(":memory:", config=dict(SETTINGS))
            self._connection.execute("SET TimeZone = 'UTC'")
        return self._connection


def _judged(error: duckdb.Error) -> WhenceError:
    """What an error of DuckDB means to somebody who never asked for DuckDB."""
    said = re.sub(r"^[A-Za-z ]+ Error: ", "", str(error).split("\n")[0])
    for mark in (FAULT, OUTSIDE):
        if mark in said:
            where = said.partition(mark)[2].strip()
            if mark == FAULT:
                return EvaluationError(where, hint="filter such rows out, or guard the expression")
            return NotPortable(f"{where} is not portable", hint=SPARK_HINT)
    match error:
        case duckdb.OutOfRangeException() | duckdb.ConversionException():
            return EvaluationError(
                "a value is out of the range of its type", detail=said, hint="widen the type by a cast"
            )
        case duckdb.Error() if isinstance(error, duckdb.IOException) or _DAMAGE.search(said):
            return BrokenRun(
                "a file of the run cannot be read", detail=said, hint="restore it from a copy, or trace the query again"
            )
        case _:
            return NotPortable("DuckDB cannot run this plan", detail=said, hint=SPARK_HINT)
