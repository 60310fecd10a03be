"""Answers: what a question found, how sure it is, which engine said so and how long it took.

An answer holds edges; rows are read from the run when they are looked at. It asks nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Literal

from whence.ask.edges import ids_of, of_source
from whence.ask.rows import Row
from whence.errors import UnknownSource
from whence.plan.hidden import RESULTS, ROW_ID

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame

Exactness = Literal["exact", "superset", "mismatch"]
"""``superset``: every contributing row is there, and others may be. ``mismatch``: what was recomputed is not what the
run stored, so some of the rows that were asked about have no edges."""

Direction = Literal["back", "forward"]

# What a person sees of an answer at a prompt or in a notebook.
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Answer:
    """The edges between result rows and source rows that a question found.

    ``exactness`` is "exact", "superset" or "mismatch", and ``reason`` says why where it is not exact. ``sources`` are
    those that were asked about. Iterating gives the edges as mappings.
    """

    direction: Direction
    sources: tuple[str, ...]
    exactness: Exactness
    reason: str
    engine: str
    seconds: float
    _edges: pa.Table = field(repr=False)
    _fetch: Callable[[str, list[int]], pa.Table] = field(repr=False)

    def edges(self) -> pa.Table:
        """All edges as an Arrow table: result (its id), source (its name), source_id, role."""
        return self._edges

    def ids(self, source: str) -> list[int]:
        """The ids of the source rows, in order."""
        found: list[int] = self._ids(source).to_pylist()
        return found

    def result_ids(self) -> list[int]:
        """The ids of the result rows, in order."""
        found: list[int] = ids_of(self._edges.column("result")).to_pylist()
        return found

    def table(self, source: str, *, ids: bool = False, first: int | None = None) -> pa.Table:
        """The rows of a source, with the source's own columns, each once, in the order of the source.

        ``ids`` puts the row's id before them; ``first`` takes so many rows only.
        """
        table = self._fetch(source, self.ids(source)[:first])
        return table if ids else table.drop_columns([ROW_ID])

    def results(self, *, ids: bool = False, first: int | None = None) -> pa.Table:
        """The result rows, with the result's own columns, each once, in the order of the run; as ``table``."""
        table = self._fetch(RESULTS, self.result_ids()[:first])
        return table if ids else table.drop_columns([ROW_ID])

    def rows(self) -> list[Row]:
        """The result rows, as ``run.rows`` gives them."""
        found = self._fetch(RESULTS, self.result_ids()).to_pylist()
        return [Row(values.pop(ROW_ID), values) for values in found]

    def to_pandas(self, source: str | None = None) -> pd.DataFrame:
        """The rows of a source as a pandas DataFrame; the edges where no source is named."""
        frame: pd.DataFrame = (self._edges if source is None else self.table(source)).to_pandas()
        return frame

    def to_spark(self, source: str | None = None) -> DataFrame:
        """The rows of a source as a Spark DataFrame; the edges where no source is named."""
        from whence.spark.session import session

        table = self._edges if source is None else self.table(source)
        # Dictionaries are how edges are kept small; Spark has no such type.
        return session().createDataFrame(table.cast(plain_schema(table.schema)))

    def __iter__(self) -> Iterator[dict[str, object]]:
        return iter(self._edges.to_pylist())

    def __len__(self) -> int:
        return int(self._edges.num_rows)

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(self._ids(s))} of {s}" for s in self.sources)
        results = len(ids_of(self._edges.column("result")))
        lines = [
            f"{self.direction}: {_count(results, 'result row')} and {counts or 'no source rows'}",
            f"{self.exactness}, by {self.engine} in {self.seconds:.3f} s",
        ]
        return "\n".join([*lines, self.reason] if self.reason else lines)

    def _repr_html_(self) -> str:
        """What notebooks show: a line about the answer, then the first rows of each source."""
        parts = [f"<p>{escape(line)}</p>" for line in repr(self).splitlines()]
        for source in self.sources:
            ids = self.ids(source)
            if ids:
                shown = self._fetch(source, ids[:SHOWN]).drop_columns([ROW_ID])
                more = f" (the first {SHOWN} of {len(ids)})" if len(ids) > SHOWN else ""
                parts.append(f"<b>{escape(source)}</b>{more}{shown.to_pandas().to_html(index=False)}")
        return "".join(parts)

    def _ids(self, source: str) -> pa.Array:
        if source not in self.sources:
            raise UnknownSource(
                f"the answer has no source {source!r}",
                detail="sources: " + (", ".join(self.sources) or "none"),
                hint="name one of them",
            )
        return ids_of(of_source(self._edges, source).column("source_id"))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with dictionaries replaced by what they hold."""
    import pyarrow as pa

    return pa.schema(
        [pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of recomputing a result row from its witness alone.

    ``matches``: the row is among the recomputed ``rows``. ``whole_inputs`` names the steps whose meaning needs all of
    their input, and so got it.
    """

    row: Row
    rows: tuple[Row, ...]
    matches: bool
    witness: Answer
    whole_inputs: tuple[str, ...]
    engine: str
    seconds: float

    def __bool__(self) -> bool:
        return self.matches
