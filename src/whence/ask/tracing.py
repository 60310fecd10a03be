"""Trace: from a DataFrame to a run. It lifts the query, chooses the capture, and hands over to Spark.

Nothing runs before ``write`` or ``start``. The user's DataFrame is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from whence.ask.choose import choose_batch, choose_stream
from whence.ask.explain import Explanation, explain_plan
from whence.ask.run import Run
from whence.errors import NotTraceable
from whence.plan.nodes import Node, walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from whence.spark.lift import Lifted


def trace(df: DataFrame, *, sources: Mapping[str, DataFrame] | None = None, capture: str = "auto") -> Trace:
    """A query that will keep its lineage: ``whence.trace(df).write(path)``, or ``.start(path)`` for a stream.

    ``sources`` names the tables the query reads, by the DataFrames that read them; others are called as in the catalog
    or as their folder. ``capture`` is "auto", "lazy" (nothing is added to the query) or "eager" (the ids of source rows
    are carried along).
    """
    from whence.spark.lift import lift

    return Trace(df, lift(df, sources or {}), capture)


@dataclass(frozen=True, slots=True)
class Trace:
    """A query and its plan, before it runs."""

    df: DataFrame
    _lifted: Lifted = field(repr=False)
    _wish: str = "auto"

    @property
    def plan(self) -> Node:
        """What was understood of the query."""
        return self._lifted.plan

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the tables it reads."""
        return tuple(leaf.name for leaf in self._lifted.leaves)

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of its steps, sources first."""
        return tuple(node.step for node in walk(self.plan))

    def explain(self) -> Explanation:
        """Which capture would be chosen and why, what each would cost, and what is to know of each step."""
        choose = choose_stream if self.df.isStreaming else choose_batch
        choice = choose(self.plan, self._lifted.opaque, self._wish)
        nothing_counted = {leaf.name: None for leaf in self._lifted.leaves}
        return explain_plan(
            self.plan,
            capture=choice.capture,
            reason=choice.reason,
            source_rows=nothing_counted,
            utc=self._lifted.utc,
            is_stream=self.df.isStreaming,
        )

    def write(self, path: str | Path, *, overwrite: bool = False) -> Run:
        """Run a batch, keep its results and lineage at a path, and return the run.

        A run that is there already is replaced only with ``overwrite=True``.
        """
        from whence.spark.batch import write_batch

        if self.df.isStreaming:
            raise NotTraceable("this is a stream", hint="start it: whence.trace(df).start(path)")
        choice = choose_batch(self.plan, self._lifted.opaque, self._wish)
        write_batch(
            self.df,
            self._lifted,
            path,
            capture=choice.capture,
            reason=choice.reason,
            overwrite=overwrite,
            whence_version=version("whence"),
        )
        return Run(Path(path), self._lifted.handles)

    def start(self, path: str | Path, *, trigger: str | Mapping[str, object] | None = None) -> Run:
        """Start a stream that keeps its results and lineage at a path, and return the run; it goes on where it stopped.

        ``trigger`` is a time between epochs ("5 seconds"), "availableNow", or what Spark's own trigger() takes as a
        mapping: ``{"availableNow": True}``.
        """
        from whence.spark.stream import start_stream

        if not self.df.isStreaming:
            raise NotTraceable("this is a batch", hint="write it: whence.trace(df).write(path)")
        choice = choose_stream(self.plan, self._lifted.opaque, self._wish)
        live = start_stream(
            self.df,
            self._lifted,
            path,
            reason=choice.reason,
            trigger=_trigger(trigger),
            whence_version=version("whence"),
        )
        return Run(Path(path), self._lifted.handles, live)


def _trigger(given: str | Mapping[str, object] | None) -> Mapping[str, object] | None:
    if isinstance(given, str):
        return {"availableNow": True} if given == "availableNow" else {"processingTime": given}
    return given
