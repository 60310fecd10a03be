"""Generated plans over stored runs: what DuckDB answers is what the oracle says, and it answers most."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.duck.runs import Given, write_run
from whence.duck.engine import DuckEngine
from whence.errors import NotPortable, NotTraceable
from whence.lineage import (
    Fresh,
    ask_values,
    carry,
    identify,
    reach_values,
    replay_plan,
    restrict,
    trace_back,
    trace_forward,
    wanted_values,
)
from whence.plan.expressions import Column
from whence.plan.nodes import Node, names
from whence.semantics import Table, evaluate
from whence.semantics.values import freeze, group_key
from whence.testing.strategies import PlanCase, cases


def given_of(case: PlanCase, data: st.DataObject) -> dict[str, Given]:
    made = {}
    for name, rows in case.rows.items():
        cut = data.draw(st.integers(0, len(rows)))
        made[name] = Given(case.schemas[name], [rows[:cut], rows[cut:]])
    return made


def bag(plan: Node, rows) -> Counter:
    types = [f.type for f in plan.schema]
    key = group_key(types)
    return Counter(key(tuple(freeze(v, t) for v, t in zip(row, types, strict=True))) for row in rows)


def answered(engine: DuckEngine, plan: Node, tables: Mapping[str, Table]) -> bool:
    """Whether DuckDB answers; where it does, it agrees with the oracle."""
    try:
        found = engine.run(plan)
    except NotPortable:
        return False
    rows = [tuple(row.values()) for row in found.to_pylist()] if plan.schema else [()] * found.num_rows
    assert found.column_names == [f.name for f in plan.schema]
    assert bag(plan, rows) == bag(plan, evaluate(plan, tables))
    return True


class Tally:
    """How many plans of a kind were answered: a test that only meets refusals proves nothing."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()

    def note(self, kind: str, answer: bool) -> None:
        self.asked[kind] += 1
        self.answered[kind] += answer

    def share(self, kind: str) -> float:
        return self.answered[kind] / max(self.asked[kind], 1)


TALLY = Tally()


@contextmanager
def engine_of(case: PlanCase, data: st.DataObject, **options) -> Iterator[tuple[DuckEngine, dict[str, Table]]]:
    given_ = given_of(case, data)
    with tempfile.TemporaryDirectory() as folder:
        yield DuckEngine(write_run(Path(folder), given_, **options)), {n: g.table for n, g in given_.items()}


@pytest.mark.timeout(3_600)  # the nightly run has many cases
@given(cases(), st.data())
def test_plans_and_their_rewritten_forms(case: PlanCase, data: st.DataObject) -> None:
    plan = case.plan
    with engine_of(case, data) as (engine, tables):

        def ask(kind: str, asked: Node) -> None:
            TALLY.note(kind, answered(engine, asked, tables))

        ask("plan", plan)
        top = identify(plan, Fresh())
        ask("identify", top.plan)
        place = {n: i for i, n in enumerate(names(top.plan))}
        keys = [tuple(row[place[k]] for k in top.keys) for row in evaluate(top.plan, tables)]
        some = keys if data.draw(st.booleans()) else keys[:1]
        for edges in trace_back(plan, ask_values(list(range(len(some))), some, plan)):
            ask("back", edges.plan)
        source = data.draw(st.sampled_from(sorted(tables)))
        for made in trace_forward(plan, source, reach_values(tables[source].row_ids[:2])):
            ask("forward", made.plan)
        with suppress(NotTraceable):
            ask("carry", carry(plan).plan)
        witness = {name: tuple(table.row_ids[::2]) for name, table in tables.items()}
        ask("replay", replay_plan(plan, witness))
        column = data.draw(st.sampled_from(range(len(plan.schema))))
        field = plan.schema[column]
        found = {row[column] for row in evaluate(plan, tables)[:2]}
        wanted = wanted_values(Column(field.name), field.type, found) if found else None
        if wanted is not None:
            ask("restrict", restrict(plan, [wanted]))


SHARES = {"plan": 0.85, "identify": 0.8, "back": 0.8, "forward": 0.8, "replay": 0.8, "restrict": 0.8}


def test_most_are_answered() -> None:
    """Runs after the one above; ``carry`` collects ids into lists, which Spark alone does."""
    for kind, least in SHARES.items():
        assert TALLY.share(kind) >= least, (kind, TALLY.answered, TALLY.asked)
