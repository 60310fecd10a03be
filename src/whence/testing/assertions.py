"""Assertions for tests: is what a run says about its lineage what the executable definition says?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from whence.ask.values import frozen
from whence.lineage import settle
from whence.plan.hidden import LATE, ROW_ID
from whence.plan.nodes import Node, Source, names, sources
from whence.plan.text import parse_plan
from whence.plan.types import BIGINT, TIMESTAMP, Field
from whence.semantics import LINEAGE, Table, annotate
from whence.semantics.values import group_key

if TYPE_CHECKING:
    from whence.ask.run import Run

Functions = Mapping[str, Callable[..., Any]]
Judged = tuple[Hashable, frozenset[tuple[str, int, str]]]


def assert_lineage(
    run: Run, *, functions: Functions | None = None, plan: Node | None = None, engine: Any = None
) -> None:
    """Fail unless every result row of a run has exactly the lineage that the definition gives it, back and forward.

    The definition is evaluated in plain Python over the rows the run read, so this is for small runs in tests.
    ``functions`` says what opaque parts of the query compute, by their keys (``run.explain().plan`` shows them). It is
    judged by ``plan`` where one is given, and otherwise by what the run recorded of the query.

    A stream is judged on what it has emitted so far.
    """
    stored = run.stored
    plan = plan or parse_plan(stored.manifest.plan.text)
    batch = settle(plan) if stored.manifest.kind == "stream" else plan
    tables = {name: _table(run, source) for name, source in sources(batch).items()}
    expected: Counter[Judged] = Counter(
        (_form(item.row, batch), item.annotation) for item in annotate(batch, tables, LINEAGE, functions)
    )
    answer = run.back(engine=engine)
    assert answer.exactness == "exact", f"the answer is {answer.exactness}: {answer.reason}"
    lineages: dict[int, set[tuple[str, int, str]]] = {row.id: set() for row in run.rows()}
    for edge in answer:
        lineages[int(str(edge["result"]))].add((str(edge["source"]), int(str(edge["source_id"])), str(edge["role"])))
    found: Counter[Judged] = Counter(
        (_form(tuple(row.values()), batch), frozenset(lineages[row.id])) for row in run.rows()
    )
    wrong = found - expected
    assert not wrong, f"{sum(wrong.values())} result rows have other lineage than the definition says: {_some(wrong)}"
    if stored.manifest.kind == "batch":
        lacking = expected - found
        assert not lacking, f"{sum(lacking.values())} rows of the definition are no result rows: {_some(lacking)}"
    edges = {(e["result"], e["source"], e["source_id"], e["role"]) for e in answer}
    forward = {
        (e["result"], e["source"], e["source_id"], e["role"])
        for name in run.sources
        for e in run.forward(name, engine=engine)
    }
    assert forward == edges, f"back and forward differ in {len(forward ^ edges)} edges: {list(forward ^ edges)[:3]}"


def _table(run: Run, source: Source) -> Table:
    hidden = [Field(ROW_ID, BIGINT)]
    late = any(f.name == LATE for f in source.fields)
    if late:
        hidden.append(Field(LATE, TIMESTAMP))
    visible = tuple(f for f in source.fields if f.name not in (ROW_ID, LATE))
    asked = Source(source.name, (*visible, *hidden))
    read = run._runner()(asked)
    columns = [read.column(n).to_pylist() for n in names(asked)]
    rows = list(zip(*columns[: len(visible)], strict=True)) if visible else [()] * read.num_rows
    return Table(
        tuple(f.name for f in visible), rows, columns[len(visible)], columns[len(visible) + 1] if late else None
    )


def _form(row: tuple[object, ...], plan: Node) -> Hashable:
    """A row in a form that is equal for equal rows, floats rounded to what engines agree on."""
    from whence.semantics.values import freeze

    values = tuple(freeze(v, f.type) for v, f in zip(row, plan.schema, strict=True))
    return _rounded(group_key([f.type for f in plan.schema])(values))


def _rounded(value: object) -> Hashable:
    match value:
        case float():
            return frozen(float(f"{value:.9g}"))
        case tuple():
            return tuple(_rounded(v) for v in value)
        case _:
            return frozen(value)


def _some(rows: Counter[Judged]) -> str:
    return "; ".join(f"{row} <- {sorted(lineage)}" for row, lineage in list(rows)[:3])
