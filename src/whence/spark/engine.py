"""The Spark engine: runs plans over the files of a stored run, in a session of its own beside the user's.

It uses the user's active session where there is one, else a small local one, and only when a plan is run. Settings
that the run recorded, and on which texts and functions of its query depend, hold in a copy of that session: the
user's own is not touched. What plans themselves mean depends on no setting. Questions are asked in other rooms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from whence.errors import EvaluationError, UnknownRow, WhenceError
from whence.plan import hidden
from whence.plan.expressions import Call, Column, Literal
from whence.plan.hidden import ROW_ID
from whence.plan.nodes import Filter, Join, Node, Source, Values, sources
from whence.plan.types import BIGINT, ArrayType, DataType, Field, parse_type
from whence.spark.arrow import table_of
from whence.spark.handles import Handles
from whence.spark.jvm import Jvm
from whence.spark.lower import lower
from whence.spark.quiet import quiet
from whence.spark.stored import needed_files, stored_table
from whence.store import StoredRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LISTED = 1000
"""Up to so many ids stand in the condition itself, where they prune; beyond, they are a table."""


@dataclass(slots=True)
class SparkEngine:
    """Runs plans over one run; ``handles`` are those of the session that captured it, where it still lives."""

    stored: StoredRun
    handles: Handles | None = None
    name: str = "spark"
    _jvm: Jvm | None = field(default=None, repr=False)

    def run(self, plan: Node) -> pa.Table:
        """The rows of a plan over the run's sources and `hidden.RESULTS`, its columns in order."""
        jvm = self._session()
        with evaluating():
            tables = {name: self._table(jvm, plan, source) for name, source in sources(plan).items()}
            return table_of(lower(jvm, plan, tables, self.handles), plan.schema)

    def fetch(self, name: str, ids: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a source, or of `hidden.RESULTS`, by row id, in the order of the ids; `ROW_ID` comes first."""
        types = self._types(name)
        wanted = list(types) if columns is None else list(columns)
        fields = (Field(ROW_ID, BIGINT), *(Field(n, types[n]) for n in wanted if n in types))
        unknown = [n for n in wanted if n not in types]
        if unknown:
            # Refused where all sources are: it knows how they are called.
            stored_table(self._session().spark, self.stored, name, (Field(unknown[0], BIGINT),))
        once = list(dict.fromkeys(ids))
        if self._packs(name):
            for row_id in once:
                self._locate(name, row_id)
        rows = Source(name, fields)
        found = self.run(_chosen(rows, once))
        places = {row_id: place for place, row_id in enumerate(found.column(0).to_pylist())}
        missing = [row_id for row_id in once if row_id not in places]
        if missing:
            raise UnknownRow(
                f"there is no row {missing[0]} of {name!r}",
                detail=f"{len(missing)} of {len(once)} ids were not found",
                hint="ids come from answers and from run.rows()",
            )
        return found.take(pa.array([places[row_id] for row_id in ids], pa.int64()))

    def _locate(self, name: str, row_id: int) -> None:
        if name == hidden.RESULTS:
            self.stored.locate_result(row_id)
        else:
            self.stored.locate_source(name, row_id)

    def _packs(self, name: str) -> bool:
        return name == hidden.RESULTS or self.stored.source(name).id == "file_row"

    def _types(self, name: str) -> dict[str, DataType]:
        if name != hidden.RESULTS:
            return {c.name: parse_type(c.type) for c in self.stored.source(name).columns}
        found: dict[str, DataType] = {c.name: parse_type(c.type) for c in self.stored.manifest.columns}
        for annotation in self.stored.manifest.annotations:
            found[annotation.column] = ArrayType(BIGINT) if annotation.many else BIGINT
        return found

    def _table(self, jvm: Jvm, plan: Node, source: Source) -> DataFrame:
        numbers = needed_files(plan, source.name) if self._packs(source.name) else None
        return stored_table(jvm.spark, self.stored, source.name, source.fields, numbers=numbers)

    def _session(self) -> Jvm:
        from whence.spark.session import session

        if self._jvm is None or getattr(self._jvm.spark.sparkContext, "_jsc", None) is None:
            self._jvm = Jvm(beside(session(), self.stored.manifest.spark.conf))
        return self._jvm


def beside(spark: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    """A copy of a session, with its functions and views, in which the settings that a run recorded hold."""
    from pyspark.sql import SparkSession as ClassicSession

    made = ClassicSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name, value in conf.items():
        if made.conf.isModifiable(name):
            made.conf.set(name, value)
    return made


def _chosen(rows: Source, ids: list[int]) -> Node:
    if len(ids) == 1:
        return Filter(rows, Call("=", (Column(ROW_ID), Literal(ids[0], BIGINT))))
    if 0 < len(ids) <= LISTED:
        return Filter(rows, Call("in", (Column(ROW_ID), *(Literal(i, BIGINT) for i in ids))))
    asked = Values((Field("id", BIGINT),), tuple((i,) for i in ids))
    return Join(rows, asked, "semi", Call("=", (Column(ROW_ID), Column("id"))))


@contextmanager
def evaluating() -> Iterator[None]:
    """Errors of Spark as errors of whence, with the line that says what it was."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with quiet():
            yield
    except WhenceError:
        raise
    except PySparkException as failed:
        raise EvaluationError(
            "Spark found no value for a row",
            detail=_first_line(failed),
            hint="the same question over fewer rows, or of an earlier step, may have an answer",
        ) from None
    except Py4JError as failed:
        raise EvaluationError("Spark failed", detail=_first_line(failed), hint="see the log of Spark") from None


def _first_line(failed: BaseException) -> str:
    lines = [line.strip() for line in str(failed).splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("[")), lines[0] if lines else type(failed).__name__)[:500]
