"""Questions about a run, as plans that an engine runs: back, forward and replay.

A lazy run is asked by recomputing what the question is about (``match``, then the ask plans of ``lineage``); an eager
run by looking up the ids that were stored beside its results. Either way the answer is a set of edges. Which engine
runs the plans is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from whence.ask.answers import Exactness
from whence.ask.edges import Part, carried_part, part, restricted_part
from whence.ask.match import Derivation, Matcher, Stored, grouped, stored_rows, tuples
from whence.ask.rows import results_source
from whence.lineage import (
    Asked,
    Reached,
    ask_values,
    reach_values,
    replay_plan,
    trace_back,
    trace_forward,
)
from whence.plan.expressions import Call, Column, Expression, Literal
from whence.plan.hidden import ROW_ID
from whence.plan.nodes import (
    Distinct,
    Filter,
    Generate,
    Named,
    Node,
    OpaqueStep,
    Project,
    Values,
    label,
    names,
    walk,
)
from whence.plan.types import BIGINT, ArrayType, Field

if TYPE_CHECKING:
    from whence.ask.engines import Engine
    from whence.store import Annotation, StoredRun

# What so many asked rows reach is computed between two rules, so that its values cut down what comes next.
SETTLED = 256
# Going forward they are few for each row that was asked about, and without their values every source is read whole.
REACHED = 20_000
# More rows than these are slower to hand over as values than to compute again.
HANDED_OVER = 10_000
# Looking up so many rows by id, one row group after the other, is faster than reading a column whole.
LOOKED_UP = 1_000


@dataclass(frozen=True, slots=True)
class Found:
    """The edges a question found, in parts that may repeat each other, and how sure they are."""

    parts: list[Part]
    exactness: Exactness = "exact"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lazy:
    """Asks a run whose edges are recomputed. ``plan`` is the batch plan that means what the run did."""

    run: StoredRun
    plan: Node

    def back(self, engine: Engine, ids: Sequence[int] | None, sources: frozenset[str] | None) -> Found:
        """The edges of result rows, or of all of them."""
        matcher = Matcher(engine, self.plan)
        rows = self._results(engine, ids)
        matched = matcher.identities(rows, are_all=ids is None)
        tags = list(matched.identities)
        parts: list[Part] = []
        if tags:
            asked = ask_values(tags, list(matched.identities.values()), self.plan)
            for found in trace_back(self.plan, asked, sources=sources, settle=_settling(engine, len(tags))):
                pairs = engine.run(Distinct(found.plan))
                parts.append(part(pairs.column(0), found.source, pairs.column(1), found.role))
        if matched.missing:
            return Found(parts, "mismatch", _missing_reason(matched.missing))
        return self._judged(parts)

    def forward(self, engine: Engine, source: str, ids: list[int]) -> Found:
        """The edges of source rows."""
        width = len(names(self.plan))
        made: dict[Hashable, Derivation] = {}
        reached: list[tuple[Hashable, object, str]] = []
        for way in trace_forward(self.plan, source, reach_values(ids), settle=_settling_reached(engine, len(ids))):
            # Not made distinct by the engine: not every type can be compared there.
            for row in tuples(engine.run(way.plan)):
                derivation = Derivation(row[1 + width :], row[1 : 1 + width])
                made[derivation.key] = derivation
                reached.append((derivation.key, row[0], way.role))
        stored = Matcher(engine, self.plan).ids(made) if made else {}
        edges = ((role, (result, id)) for key, id, role in reached for result in stored.get(key, ()))
        parts = [
            part([result for result, _ in pairs], source, [id for _, id in pairs], role)
            for role, pairs in grouped(edges).items()
        ]
        if len(stored) < len(made) and self.run.manifest.kind == "batch":
            return Found(parts, "mismatch", _unstored_reason(len(made) - len(stored)))
        # A stream has not emitted yet what its watermark has not reached.
        return self._judged(parts)

    def _results(self, engine: Engine, ids: Sequence[int] | None) -> list[Stored]:
        source = results_source(self.plan.schema)
        if ids is None:
            return stored_rows(engine.run(source))
        table = engine.fetch(source.name, list(ids), [f.name for f in self.plan.schema])
        return [Stored(cast(int, row[0]), row[1:]) for row in tuples(table)]

    def _judged(self, parts: list[Part]) -> Found:
        reason = superset_reason(self.plan)
        return Found(parts, "superset", reason) if reason else Found(parts)


@dataclass(frozen=True, slots=True)
class Eager:
    """Asks a run whose source ids stand beside its results."""

    run: StoredRun
    plan: Node

    def back(self, engine: Engine, ids: Sequence[int] | None, sources: frozenset[str] | None) -> Found:
        """The edges of result rows, or of all of them."""
        wanted = [a for a in self.run.manifest.annotations if sources is None or a.source in sources]
        if not wanted:
            return Found([])
        if ids is not None and len(ids) <= LOOKED_UP:
            table = engine.fetch(results_source(()).name, list(ids), [a.column for a in wanted])
            results = table.column(0)
            return Found([carried_part(results, a.source, table.column(a.column), a.role) for a in wanted])
        return Found([restricted_part(self._part(engine, a), results=ids) for a in wanted])

    def forward(self, engine: Engine, source: str, ids: list[int]) -> Found:
        """The edges of source rows."""
        if not ids:
            return Found([])
        near = Call(
            "and",
            (
                Call(">=", (Column("id"), Literal(min(ids), BIGINT))),
                Call("<=", (Column("id"), Literal(max(ids), BIGINT))),
            ),
        )
        wanted = [a for a in self.run.manifest.annotations if a.source == source]
        return Found([restricted_part(self._part(engine, a, near), sources=ids) for a in wanted])

    def _part(self, engine: Engine, annotation: Annotation, condition: Expression | None = None) -> Part:
        pairs = self._pairs(annotation)
        table = engine.run(pairs if condition is None else Filter(pairs, condition))
        return part(table.column(0), annotation.source, table.column(1), annotation.role)

    def _pairs(self, annotation: Annotation) -> Node:
        """Result id and source id, for one annotation column."""
        type = ArrayType(BIGINT) if annotation.many else BIGINT
        results: Node = results_source((Field(annotation.column, type),))
        column = annotation.column
        if annotation.many:
            column = "element"
            results = Generate(results, Column(annotation.column), (Field(column, BIGINT),))
        pairs = Project(results, (Named("result", Column(ROW_ID)), Named("id", Column(column))))
        return Distinct(Filter(pairs, Call("isnotnull", (Column("id"),))))


def replayed(engine: Engine, plan: Node, witness: dict[str, tuple[int, ...]]) -> list[dict[str, object]]:
    """The rows that a plan gives over witness rows alone."""
    rows: list[dict[str, object]] = engine.run(replay_plan(plan, witness)).to_pylist()
    return rows


def superset_reason(plan: Node) -> str:
    """Why answers about a plan hold more rows than contributed; nothing where they do not."""
    boxes = [label(n) for n in walk(plan) if isinstance(n, OpaqueStep) and n.kind == "black_box"]
    if not boxes:
        return ""
    return f"{', '.join(boxes)}: which of its input rows make which of its results is not known, so all of them count"


def _missing_reason(ids: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, ids[:3])) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
    return (
        f"recomputing gives no row with the values of result {shown}: the query is not deterministic, or its "
        "results were changed"
    )


def _unstored_reason(count: int) -> str:
    return f"recomputing gives {count} rows that the run did not store: the query is not deterministic"


def _settling(engine: Engine, count: int) -> Callable[[Asked], Asked]:
    def settle(asked: Asked) -> Asked:
        if count > SETTLED or isinstance(asked.plan, Values):
            return asked
        return Asked(_computed(engine, asked.plan, (asked.tag, *asked.keys)), asked.tag, asked.keys)

    return settle


def _settling_reached(engine: Engine, count: int) -> Callable[[Reached], Reached]:
    def settle(reached: Reached) -> Reached:
        if count > REACHED or isinstance(reached.plan, Values):
            return reached
        return Reached(_computed(engine, reached.plan, (reached.id, *reached.keys)), reached.id, reached.keys)

    return settle


def _computed(engine: Engine, plan: Node, columns: tuple[str, ...]) -> Node:
    """The rows of a plan, each once, as values; the plan itself where they are too many for that."""
    found = Project(plan, tuple(Named(c, Column(c)) for c in columns))
    table = engine.run(Distinct(found))
    # Few asked rows may have very many rows below them: one group may hold the whole source.
    return plan if table.num_rows > HANDED_OVER else Values(found.schema, tuple(tuples(table)))
