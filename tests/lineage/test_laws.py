"""The laws: whatever is rewritten means what the oracle says, for generated plans and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import assume, given
from hypothesis import strategies as st

from whence.errors import NotTraceable
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
from whence.plan.builder import source as declared
from whence.plan.expressions import Column
from whence.plan.nodes import Node, names
from whence.plan.text import fingerprint, parse_plan, print_plan
from whence.semantics import LINEAGE, Table, annotate, evaluate
from whence.semantics.values import group_key
from whence.testing.strategies import EVERYTHING, PlanCase, cases

Lineage = frozenset[tuple[str, int, str]]


def tables_of(case: PlanCase) -> dict[str, Table]:
    return {
        name: Table(tuple(f.name for f in case.schemas[name]), rows, [10 * i + 7 for i in range(len(rows))])
        for name, rows in case.rows.items()
    }


def frozen(row: tuple[object, ...], node: Node) -> tuple[object, ...]:
    return group_key([f.type for f in node.schema])(row)


def expected(case: PlanCase) -> Counter[tuple[tuple[object, ...], Lineage]]:
    return Counter(
        (frozen(item.row, case.plan), item.annotation) for item in annotate(case.plan, tables_of(case), LINEAGE)
    )


def identified(plan: Node, tables: Mapping[str, Table]) -> tuple[list, list]:
    """The rows of a plan and their identities."""
    top = identify(plan, Fresh())
    place = {n: i for i, n in enumerate(names(top.plan))}
    found = evaluate(top.plan, tables)
    rows = [tuple(row[place[n]] for n in names(plan)) for row in found]
    keys = [tuple(row[place[k]] for k in top.keys) for row in found]
    return rows, keys


def edges_back(case: PlanCase, keys: list, **options) -> list[Lineage]:
    tables = tables_of(case)
    found: list[set] = [set() for _ in keys]
    asked = ask_values(list(range(len(keys))), keys, case.plan)
    for edges in trace_back(case.plan, asked, **options):
        for tag, id in evaluate(edges.plan, tables):
            found[tag].add((edges.source, id, edges.role))
    return [frozenset(s) for s in found]


@given(cases())
def test_text_gives_back_the_plan(case: PlanCase) -> None:
    text = print_plan(case.plan)
    again = parse_plan(text)
    assert print_plan(again) == text
    assert fingerprint(again) == fingerprint(case.plan)


@given(cases())
def test_identity_changes_no_row(case: PlanCase) -> None:
    tables = tables_of(case)
    rows, keys = identified(case.plan, tables)
    plain = evaluate(case.plan, tables)
    assert Counter(frozen(r, case.plan) for r in rows) == Counter(frozen(r, case.plan) for r in plain)
    assert len(keys) == len(plain)


@given(cases())
def test_back_is_the_oracles_lineage(case: PlanCase) -> None:
    rows, keys = identified(case.plan, tables_of(case))
    lineages = edges_back(case, keys)
    assert Counter((frozen(r, case.plan), lineage) for r, lineage in zip(rows, lineages, strict=True)) == expected(case)


@given(cases(), st.data())
def test_back_of_one_row_is_the_same_as_of_all(case: PlanCase, data: st.DataObject) -> None:
    rows, keys = identified(case.plan, tables_of(case))
    assume(rows)
    one = data.draw(st.integers(0, len(rows) - 1))
    assert edges_back(case, [keys[one]])[0] == edges_back(case, keys)[one]


@given(cases())
def test_back_of_one_source_is_that_part(case: PlanCase) -> None:
    _, keys = identified(case.plan, tables_of(case))
    whole = edges_back(case, keys)
    for source in case.rows:
        part = edges_back(case, keys, sources=frozenset([source]))
        assert part == [frozenset(e for e in lineage if e[0] == source) for lineage in whole]


def check_forward(case: PlanCase) -> None:
    tables = tables_of(case)
    _, keys = identified(case.plan, tables)
    types = identify(case.plan, Fresh()).types

    def key_form(key):
        return group_key(types)(key)

    back = {
        (key_form(key), *edge) for key, lineage in zip(keys, edges_back(case, keys), strict=True) for edge in lineage
    }
    forward = set()
    for source, table in tables.items():
        for made in trace_forward(case.plan, source, reach_values(table.row_ids)):
            place = {n: i for i, n in enumerate(names(made.plan))}
            for row in evaluate(made.plan, tables):
                key = key_form(tuple(row[place[k]] for k in made.keys))
                forward.add((key, source, row[place[made.id]], made.role))
    assert forward == back


@given(cases())
def test_forward_is_back_reversed(case: PlanCase) -> None:
    check_forward(case)


@given(cases(EVERYTHING))
def test_carried_ids_are_the_oracles_lineage(case: PlanCase) -> None:
    try:
        carried = carry(case.plan)
    except NotTraceable:
        assume(False)
    tables = tables_of(case)
    place = {n: i for i, n in enumerate(names(carried.plan))}
    found: Counter = Counter()
    for row in evaluate(carried.plan, tables):
        lineage = set()
        for c in carried.columns:
            value = row[place[c.column]]
            ids = (value or ()) if c.many else (value,)
            lineage |= {(c.source, id, c.role) for id in ids if id is not None}
        found[frozen(row[: len(names(case.plan))], case.plan), frozenset(lineage)] += 1
    assert found == expected(case)


@given(cases(), st.data())
def test_restricting_keeps_the_wanted_rows(case: PlanCase, data: st.DataObject) -> None:
    tables = tables_of(case)
    plain = evaluate(case.plan, tables)
    assume(plain)
    column = data.draw(st.sampled_from(range(len(case.plan.schema))))
    field = case.plan.schema[column]
    some = data.draw(st.lists(st.sampled_from([r[column] for r in plain]), min_size=1, max_size=2))
    wanted = wanted_values(Column(field.name), field.type, set(some))
    assume(wanted is not None)
    form = group_key([field.type])
    forms = {form((v,)) for v in some}
    cut = evaluate(restrict(case.plan, [wanted]), tables)

    def kept(rows):
        return Counter(frozen(r, case.plan) for r in rows if form((r[column],)) in forms)

    assert kept(cut) == kept(plain)


@given(cases())
def test_the_witness_alone_reproduces_the_row(case: PlanCase) -> None:
    tables = tables_of(case)
    for item in annotate(case.plan, tables, LINEAGE):
        witness: dict[str, tuple[int, ...]] = {}
        for source, id, _ in item.annotation:
            witness[source] = (*witness.get(source, ()), id)
        again = evaluate(replay_plan(case.plan, witness), tables)
        assert frozen(item.row, case.plan) in {frozen(r, case.plan) for r in again}


def test_an_unmatched_row_is_not_reached_through_null_keys() -> None:
    trips = declared("trips", car="bigint", length="int")
    by_car = trips.group("car", n="count(*)").rename(car="key")
    case = PlanCase(
        trips.distinct().join(by_car, "car = key", kind="left").plan, {"trips": ((None, 1), (None, 2), (7, 3))}
    )
    check_forward(case)
