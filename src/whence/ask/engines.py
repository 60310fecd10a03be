"""Which engine answers: DuckDB where the whole question is portable, else Spark.

An engine turns one plan into one Arrow table (docs/design/0001); a question asks it as often as it needs. What is
asked is not known here. Spark is loaded only when a question needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from whence.errors import NotPortable, SparkMissing, WhenceError
from whence.plan.hidden import RESULTS
from whence.plan.nodes import sources

if TYPE_CHECKING:
    import pyarrow as pa

    from whence.plan.nodes import Node
    from whence.store import StoredRun

T = TypeVar("T")

EngineName = Literal["duckdb", "spark"]
ENGINES: tuple[EngineName, ...] = ("duckdb", "spark")


class Engine(Protocol):
    """Runs plans over the sources and results of one run."""

    @property
    def name(self) -> str: ...

    def run(self, plan: Node) -> pa.Table:
        """The columns of the plan, in its order."""

    def fetch(self, name: str, ids: list[int], columns: list[str] | None = None) -> pa.Table:
        """Rows of a source (or of the results) by their ids, in the order of the ids; the id comes first."""


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of one run, each made when it is first needed and then kept."""

    run: StoredRun
    handles: object = None
    _made: dict[str, Engine] = field(default_factory=dict, repr=False, compare=False)

    def engine(self, name: EngineName) -> Engine:
        """The engine of that name."""
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._make(name)
        return found

    def _make(self, name: EngineName) -> Engine:
        if name == "duckdb":
            from whence.duck.engine import DuckEngine

            return DuckEngine(self.run)
        from whence.spark.engine import SparkEngine
        from whence.spark.handles import Handles

        handles = self.handles
        assert handles is None or isinstance(handles, Handles)
        return SparkEngine(self.run, handles)

    def ask(self, question: Callable[[Engine], T], wanted: EngineName | None = None) -> tuple[T, str]:
        """The question's answer and the engine that gave it: DuckDB, or Spark where it is not portable."""
        if wanted is not None:
            if wanted not in ENGINES:
                raise NotPortable(
                    f"there is no engine {wanted!r}",
                    detail="engines: " + ", ".join(ENGINES),
                    hint="leave engine= out, and the fastest that can answer does",
                )
            return question(self.engine(wanted)), wanted
        try:
            return question(self.engine("duckdb")), "duckdb"
        except NotPortable as reason:
            return self._on_spark(question, reason), "spark"

    def _on_spark(self, question: Callable[[Engine], T], reason: NotPortable) -> T:
        try:
            spark = self.engine("spark")
        except SparkMissing as missing:
            raise _needs_spark(missing, reason) from None
        return question(_SparkBesideFiles(spark, self.engine("duckdb")))


@dataclass(frozen=True, slots=True)
class _SparkBesideFiles:
    """Spark for what is not portable; what only looks at stored results, DuckDB reads from their files.

    Of the five plans of a question to a lazy run three do, and each would be a job of Spark.
    """

    spark: Engine
    files: Engine

    @property
    def name(self) -> str:
        return self.spark.name

    def run(self, plan: Node) -> pa.Table:
        if sources(plan).keys() <= {RESULTS}:
            with suppress(NotPortable):
                return self.files.run(plan)
        return self.spark.run(plan)

    def fetch(self, name: str, ids: list[int], columns: list[str] | None = None) -> pa.Table:
        with suppress(NotPortable):
            return self.files.fetch(name, ids, columns)
        return self.spark.fetch(name, ids, columns)


def _needs_spark(missing: WhenceError, reason: NotPortable) -> SparkMissing:
    return SparkMissing(
        missing.statement,
        detail=f"DuckDB cannot answer this ({reason.statement}); {missing.detail}",
        hint=missing.hint,
    )
