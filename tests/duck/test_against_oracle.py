"""Generated plans over stored runs: what DuckDB answers is what the oracle says, and it answers most."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from conftest import Given, write_run
from hypothesis import given
from hypothesis import strategies as st

from whence.duck.engine import DuckEngine
from whence.errors import NotPortable
from whence.plan.nodes import Node
from whence.semantics import Table, evaluate
from whence.semantics.values import freeze, group_key
from whence.testing.strategies import PlanCase, cases

LEAST_ANSWERED = 0.7


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


ANSWERS: list[bool] = []


@given(cases(), st.data())
def test_plans(case: PlanCase, data: st.DataObject) -> None:
    given_ = given_of(case, data)
    with tempfile.TemporaryDirectory() as folder:
        engine = DuckEngine(write_run(Path(folder), given_))
        ANSWERS.append(answered(engine, case.plan, {n: g.table for n, g in given_.items()}))


def test_most_are_answered() -> None:
    assert sum(ANSWERS) >= LEAST_ANSWERED * len(ANSWERS), (sum(ANSWERS), len(ANSWERS))
