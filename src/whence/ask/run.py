"""A run, and what can be asked of it: rows, back, forward, replay, explain.

Opening a run reads small JSON files and executes nothing that came with it. DuckDB answers what is portable, from the
files and without Spark; Spark answers the rest. A run that `trace` just started also has its Spark query.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from whence.ask.answers import Answer, Direction, Replay
from whence.ask.edges import edge_table
from whence.ask.engines import Engine, EngineName, Engines
from whence.ask.explain import Explanation, explain_plan
from whence.ask.questions import Eager, Found, Lazy, replayed
from whence.ask.rows import Row, Rows, results_source
from whence.ask.values import near
from whence.errors import UnknownRow, UnknownSource, UnknownStep
from whence.lineage import settle, whole_inputs
from whence.plan.builder import Flow
from whence.plan.hidden import ROW_ID
from whence.plan.literals import UTC_ZONES
from whence.plan.nodes import Node, Source, sources
from whence.plan.text import parse_plan
from whence.plan.types import BIGINT, Field, Schema
from whence.store import RunState, StoredRun, open_run

if TYPE_CHECKING:
    import pyarrow as pa

Asked = Row | int | str | Iterable[Row | int] | None
"""Result rows to ask about: one or several, by themselves or their ids; a predicate; None for all."""


class Live(Protocol):
    """A stream that runs in this process."""

    @property
    def query(self) -> Any: ...

    def awaitTermination(self, timeout: int | None = None) -> bool: ...  # noqa: N802

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a traced query: see ``whence.open``. What it stored so far is seen anew by each question."""

    path: Path
    _handles: object = field(default=None, repr=False, compare=False)
    _live: Live | None = field(default=None, repr=False, compare=False)
    _seen: list[tuple[StoredRun, Engines]] = field(default_factory=list, repr=False, compare=False)

    # what a run is

    @property
    def stored(self) -> StoredRun:
        """What is on disk: manifest and epochs. A stream's newest epochs are read when it is looked at."""
        return self._now()[0]

    @property
    def capture(self) -> str:
        """How lineage is available: "lazy" or "eager"."""
        return self.stored.manifest.capture

    @property
    def state(self) -> RunState:
        """ "complete", "running", "stopped" or "half-written"."""
        return self.stored.state()

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources."""
        return tuple(source.name for source in self.stored.manifest.sources)

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the query's steps, sources first."""
        return self.stored.manifest.steps

    @property
    def schema(self) -> Schema:
        """The columns of the results, each with its name and type."""
        return self._plan().schema

    # what can be asked of it

    def rows(self, where: str | None = None) -> Rows:
        """The result rows, or those for which a predicate is true; read when they are looked at.

        ``where`` is a condition as in SQL, over the columns of the results: ``run.rows("car = 17")``.
        """
        flow = Flow(results_source(self.schema))
        return Rows(self.schema, (flow if where is None else flow.where(where)).plan, self._runner())

    def row(self, id: int) -> Row:
        """The result row with an id."""
        return self._fetched([id])[0]

    def back(
        self, rows: Asked = None, *, sources: str | Sequence[str] | None = None, engine: EngineName | None = None
    ) -> Answer:
        """The source rows that made result rows.

        ``rows`` is one row or its id, several, a predicate, or nothing for all rows of the run. ``sources`` asks about
        some sources only. ``engine`` is "duckdb" or "spark"; by default the fastest that can answer.
        """
        stored, engines = self._now()
        names = self._source_names(sources)
        ids = self._asked_ids(rows)
        asker = self._asker(stored)
        wanted = None if sources is None else frozenset(names)
        return self._answer("back", names, lambda e: asker.back(e, ids, wanted), engines, engine)

    def forward(self, source: str, where: str | None = None, *, engine: EngineName | None = None) -> Answer:
        """The result rows that source rows made: those for which a predicate over the source's columns is true.

        Of a stream, results that its watermark has not settled yet are not there.
        """
        stored, engines = self._now()
        (name,) = self._source_names(source)
        found = self._source(name)
        flow = Flow(Source(name, (*found.fields, Field(ROW_ID, BIGINT)), step=name))
        chosen = (flow if where is None else flow.where(where)).select(ROW_ID).plan
        asker = self._asker(stored)

        def question(e: Engine) -> Found:
            ids: list[int] = sorted(e.run(chosen).column(0).to_pylist())
            return asker.forward(e, name, ids)

        return self._answer("forward", (name,), question, engines, engine)

    def replay(self, row: Row | int, *, engine: EngineName | None = None) -> Replay:
        """Recompute a result row from its witness alone, and compare."""
        begin = time.perf_counter()
        (id,) = cast(list[int], self._asked_ids(row))
        _, engines = self._now()
        expected = self._fetched([id])[0]
        witness = self.back(id, engine=engine)
        ids = {source: tuple(witness.ids(source)) for source in witness.sources}
        plan = self._question_plan()
        made, by = engines.ask(lambda e: replayed(e, plan, ids), engine)
        rows = tuple(Row(number, values) for number, values in enumerate(made))
        matches = any(near(dict(expected), dict(again)) for again in rows)
        return Replay(expected, rows, matches, witness, whole_inputs(plan), by, time.perf_counter() - begin)

    def explain(self) -> Explanation:
        """What was chosen about lineage and why, what each capture costs, and what is to know of each step."""
        stored, _ = self._now()
        manifest = stored.manifest
        counted = {s.name: _total([f.record.rows for f in stored.source_files(s.name)]) for s in manifest.sources}
        utc = manifest.spark.conf.get("spark.sql.session.timeZone", "") in UTC_ZONES
        return explain_plan(
            self._plan(),
            capture=manifest.capture,
            reason=manifest.capture_reason,
            source_rows=counted,
            carried_bytes=carried_bytes(stored) if manifest.capture == "eager" else None,
            utc=utc,
            is_stream=manifest.kind == "stream",
        )

    # a stream that runs here

    @property
    def query(self) -> Any:
        """Spark's own StreamingQuery, for a stream that this process started."""
        return self._alive().query

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Whether the stream that this process started still runs."""
        return self._live is not None and bool(self._live.query.isActive)

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        """Spark's progress of the last epoch."""
        return self._alive().query.lastProgress

    def awaitTermination(self, timeout: int | None = None) -> bool:  # noqa: N802
        """Wait until the stream ends, or so many seconds: whether it has ended. What ended it is raised here."""
        return self._alive().awaitTermination(timeout)

    def stop(self) -> None:
        """Stop the stream; what it committed stays, and starting it again on the same path goes on from there."""
        self._alive().stop()

    # within

    def _alive(self) -> Live:
        if self._live is None:
            raise UnknownStep(
                "no stream of this run was started here",
                detail=f"{self.path} was opened, or is a batch",
                hint="only the process that called start() holds the Spark query",
            )
        return self._live

    def _now(self) -> tuple[StoredRun, Engines]:
        """The run as it lies on disk, read anew only when that changed: a run may have thousands of epochs."""
        if self._seen and self._seen[0][0].is_current():
            return self._seen[0]
        fresh = open_run(self.path)
        self._seen[:] = [(fresh, Engines(fresh, self._handles))]
        return self._seen[0]

    def _plan(self) -> Node:
        return _parsed(self.stored.manifest.plan.text)

    def _question_plan(self) -> Node:
        """The batch plan that means what the run did."""
        manifest = self.stored.manifest
        return _settled(manifest.plan.text) if manifest.kind == "stream" else _parsed(manifest.plan.text)

    def _asker(self, stored: StoredRun) -> Lazy | Eager:
        kind = Eager if stored.manifest.capture == "eager" else Lazy
        return kind(stored, self._question_plan())

    def _answer(
        self,
        direction: Direction,
        names: tuple[str, ...],
        question: Callable[[Engine], Found],
        engines: Engines,
        wanted: EngineName | None,
    ) -> Answer:
        begin = time.perf_counter()
        found, by = engines.ask(question, wanted)
        edges = edge_table(found.parts)
        seconds = time.perf_counter() - begin
        return Answer(direction, names, found.exactness, found.reason, by, seconds, edges, self._fetch)

    def _runner(self) -> Callable[[Node], pa.Table]:
        _, engines = self._now()
        return lambda plan: engines.ask(lambda e: e.run(plan))[0]

    def _fetch(self, name: str, ids: list[int]) -> pa.Table:
        _, engines = self._now()
        return engines.ask(lambda e: e.fetch(name, ids, None if name in self.sources else self._columns()))[0]

    def _columns(self) -> list[str]:
        return [column.name for column in self.schema]

    def _fetched(self, ids: list[int]) -> list[Row]:
        stored, _ = self._now()
        for id in ids:
            stored.locate_result(id)
        table = self._fetch(results_source(()).name, ids)
        return [Row(values.pop(ROW_ID), values) for values in table.to_pylist()]

    def _asked_ids(self, rows: Asked) -> list[int] | None:
        stored, _ = self._now()
        match rows:
            case None:
                return None
            case str():
                return self.rows(rows).ids()
            case Rows():
                return rows.ids()
            case Row():
                ids = [rows.id]
            case int() if not isinstance(rows, bool):
                ids = [rows]
            case Iterable():
                ids = [row.id if isinstance(row, Row) else row for row in rows]
            case _:
                raise UnknownRow(
                    f"{rows!r} is no result row",
                    hint="give a row of run.rows(...), its id, several of them, or a predicate",
                )
        for id in ids:
            if not isinstance(id, int) or isinstance(id, bool):
                raise UnknownRow(f"{id!r} is no result row", hint="give rows of run.rows(...), or their ids")
            stored.locate_result(id)
        return list(dict.fromkeys(ids))

    def _source_names(self, asked: str | Sequence[str] | None) -> tuple[str, ...]:
        if asked is None:
            return self.sources
        names = (asked,) if isinstance(asked, str) else tuple(asked)
        for name in names:
            if name not in self.sources:
                raise UnknownSource(
                    f"the run has no source {name!r}",
                    detail="its sources are " + ", ".join(self.sources),
                    hint="name one of them",
                )
        return names

    def _source(self, name: str) -> Source:
        return sources(self._plan())[name]


# Each question needs the plan several times, and a plan never changes.
@lru_cache(maxsize=32)
def _parsed(text: str) -> Node:
    return parse_plan(text)


@lru_cache(maxsize=32)
def _settled(text: str) -> Node:
    return settle(parse_plan(text))


def carried_bytes(stored: StoredRun) -> int:
    """How many bytes the annotation columns take in the result files."""
    from pyarrow import parquet

    columns = {a.column for a in stored.manifest.annotations}
    total = 0
    for file in stored.result_files():
        metadata = parquet.read_metadata(file.path)
        for group in range(metadata.num_row_groups):
            for number in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(number)
                if chunk.path_in_schema.split(".")[0] in columns:
                    total += chunk.total_compressed_size
    return total


def _total(counts: list[int | None]) -> int | None:
    return None if None in counts else sum(cast(list[int], counts))


def open(path: str | Path) -> Run:
    """Open the run at a path, in any process: live or done, as far as it is committed. Starts no Spark.

    Nothing that came with the run is executed.
    """
    run = Run(Path(path))
    run.stored.manifest  # noqa: B018 - a path that holds no run is an error here, not at the first question
    return run
