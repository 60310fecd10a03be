"""Questions about runs, judged by the oracle: generated plans, lazy and eager, with the oracle as the engine."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from whence import Run
from whence.ask.engines import Engines
from whence.errors import NotTraceable
from whence.store import open_run
from whence.testing import assert_lineage
from whence.testing.runs import OracleEngine, write_run
from whence.testing.strategies import PlanCase, cases

_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def oracle_run(path: Path) -> Run:
    run = Run(path)
    stored = open_run(path)
    engines = Engines(stored)
    engines._made["duckdb"] = OracleEngine(stored)
    run._seen.append((stored, engines))
    return run


@given(cases())
def test_a_lazy_run_answers_as_the_definition_says(folder: Path, case: PlanCase) -> None:
    path = folder / str(next(_numbers))
    write_run(path, case.plan, case.rows)
    assert_lineage(oracle_run(path))


@given(cases())
def test_an_eager_run_answers_as_the_definition_says(folder: Path, case: PlanCase) -> None:
    path = folder / str(next(_numbers))
    try:
        write_run(path, case.plan, case.rows, capture="eager")
    except NotTraceable:
        assume(False)
    assert_lineage(oracle_run(path))


@given(cases(), st.data())
def test_one_row_has_the_edges_it_has_among_all(folder: Path, case: PlanCase, data: st.DataObject) -> None:
    path = folder / str(next(_numbers))
    write_run(path, case.plan, case.rows)
    run = oracle_run(path)
    rows = list(run.rows())
    assume(rows)
    row = data.draw(st.sampled_from(rows))
    everything = [e for e in run.back() if e["result"] == row.id]
    assert list(run.back(row)) == everything


@given(cases(), st.data())
def test_a_row_replays_from_its_witness(folder: Path, case: PlanCase, data: st.DataObject) -> None:
    path = folder / str(next(_numbers))
    write_run(path, case.plan, case.rows)
    run = oracle_run(path)
    rows = list(run.rows())
    assume(rows)
    assert run.replay(data.draw(st.sampled_from(rows)))
