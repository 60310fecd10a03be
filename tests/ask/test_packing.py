"""Packed cases mean what the cases mean; a failing case is made smaller without losing its failure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whence.plan.builder import source
from whence.plan.nodes import Filter, names, walk
from whence.semantics import LINEAGE, Table, annotate, evaluate
from whence.testing.packing import CASE, pack, shrink
from whence.testing.strategies import PlanCase, cases


def tables_of(case: PlanCase) -> dict[str, Table]:
    return {n: Table(tuple(f.name for f in case.schemas[n]), rows) for n, rows in case.rows.items()}


@given(st.lists(cases(), min_size=1, max_size=4))
def test_each_row_keeps_its_values_and_its_lineage(many: list[PlanCase]) -> None:
    packed = pack(many)
    found = annotate(packed.plan, tables_of(packed), LINEAGE)
    for number, case in enumerate(many):
        mine = [item for item in found if item.row[0] == number]
        place = names(packed.plan).index(f"c{number}_{names(case.plan)[0]}")
        width = len(names(case.plan))
        expected = annotate(case.plan, tables_of(case), LINEAGE)
        assert [repr(i.row[place : place + width]) for i in mine] == [repr(i.row) for i in expected]
        assert [i.annotation for i in mine] == [
            frozenset((f"{s}_{number}", id, role) for s, id, role in i.annotation) for i in expected
        ]
    assert names(packed.plan)[0] == CASE


def test_a_failing_case_is_made_small() -> None:
    flow = source("t", a="bigint", b="bigint").where("a > 1").distinct().where("b > 0").sort("a")
    case = PlanCase(flow.plan, {"t": tuple((i, i) for i in range(8))})

    def fails(candidate: PlanCase) -> bool:
        has_filter = any(isinstance(n, Filter) for n in walk(candidate.plan))
        return has_filter and (5, 5) in evaluate(candidate.plan, tables_of(candidate))

    small = shrink(case, fails)
    assert fails(small)
    assert small.rows == {"t": ((5, 5),)}
    assert len(list(walk(small.plan))) == 2
