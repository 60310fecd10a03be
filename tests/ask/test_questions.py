"""Questions about runs, judged by the oracle: generated plans, lazy and eager, with the oracle as the engine."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.ask.conftest import asked_of_the_oracle
from whence.ask import questions
from whence.errors import NotTraceable
from whence.testing import assert_lineage
from whence.testing.runs import write_run
from whence.testing.strategies import PlanCase, cases

_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@given(cases())
def test_a_lazy_run_answers_as_the_definition_says(folder: Path, case: PlanCase) -> None:
    path = folder / str(next(_numbers))
    write_run(path, case.plan, case.rows)
    assert_lineage(asked_of_the_oracle(path))


@given(cases())
def test_an_eager_run_answers_as_the_definition_says(folder: Path, case: PlanCase) -> None:
    path = folder / str(next(_numbers))
    try:
        write_run(path, case.plan, case.rows, capture="eager")
    except NotTraceable:
        assume(False)
    assert_lineage(asked_of_the_oracle(path))


@given(cases(), st.data())
def test_one_row_has_the_edges_it_has_among_all(folder: Path, case: PlanCase, data: st.DataObject) -> None:
    path = folder / str(next(_numbers))
    write_run(path, case.plan, case.rows)
    run = asked_of_the_oracle(path)
    rows = list(run.rows())
    assume(rows)
    row = data.draw(st.sampled_from(rows))
    everything = [e for e in run.back() if e["result"] == row.id]
    assert list(run.back(row)) == everything


@given(cases())
def test_what_is_too_much_to_hand_over_is_computed_again(folder: Path, case: PlanCase) -> None:
    path = folder / str(next(_numbers))
    write_run(path, case.plan, case.rows)
    with pytest.MonkeyPatch.context() as change:
        change.setattr(questions, "HANDED_OVER", 0)
        assert_lineage(asked_of_the_oracle(path))


@given(cases(), st.data())
def test_a_row_replays_from_its_witness(folder: Path, case: PlanCase, data: st.DataObject) -> None:
    path = folder / str(next(_numbers))
    write_run(path, case.plan, case.rows)
    run = asked_of_the_oracle(path)
    rows = list(run.rows())
    assume(rows)
    assert run.replay(data.draw(st.sampled_from(rows)))
