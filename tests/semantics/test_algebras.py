"""Laws between the algebras: polynomials are the finest, and map to lineage, counts and multisets.

The maps are homomorphisms only where both sides mean the same by a node. Known limits, each with its example here:
multisets add at joins where polynomials multiply; a condition is one monomial whatever led to it, so counts and
multisets of it are of the set of its edges, not of its derivations.
"""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.plan.builder import Flow, source
from whence.plan.nodes import Join, SetOperation, walk
from whence.semantics import (
    COUNTS,
    LINEAGE,
    MULTISETS,
    POLYNOMIALS,
    Algebra,
    Table,
    annotate,
    count_of,
    lineage_of,
    multiset_of,
)
from whence.semantics.algebras import Polynomial
from whence.testing.strategies import EVERYTHING, PlanCase, cases

A = source("a", x="bigint")
TABLES = {"a": Table(("x",), [(1,), (1,), (2,)])}


def tables_of(case: PlanCase) -> dict[str, Table]:
    return {n: Table(tuple(f.name for f in case.schemas[n]), rows) for n, rows in case.rows.items()}


def both(case: PlanCase, algebra: Algebra) -> list[tuple[Polynomial, object]]:
    """For each row its polynomial and its annotation in another algebra."""
    tables = tables_of(case)
    first, second = annotate(case.plan, tables, POLYNOMIALS), annotate(case.plan, tables, algebra)
    assert [repr(i.row) for i in first] == [repr(i.row) for i in second]
    return [(p.annotation, q.annotation) for p, q in zip(first, second, strict=True)]


@given(cases())
def test_the_variables_of_a_polynomial_are_the_lineage(case: PlanCase) -> None:
    for polynomial, lineage in both(case, LINEAGE):
        assert lineage_of(polynomial) == lineage


@given(cases())
def test_the_value_of_a_polynomial_at_one_is_the_count(case: PlanCase) -> None:
    for polynomial, count in both(case, COUNTS):
        assert count_of(polynomial) == count


def one_derivation_each(case: PlanCase) -> bool:
    """Whether every row that enters a node which multiplies has one derivation."""
    tables = tables_of(case)
    entering = [child for n in walk(case.plan) if isinstance(n, Join | SetOperation) for child in (n.left, n.right)]
    return all(count == 1 for child in entering for count in (i.annotation for i in annotate(child, tables, COUNTS)))


@given(cases(EVERYTHING.without("semi", "intersect")))
def test_the_written_out_polynomial_is_the_multiset(case: PlanCase) -> None:
    """Where every row that enters a join has one derivation; below an intersection the rows of a side are summed."""
    for polynomial, multiset in both(case, MULTISETS):
        if one_derivation_each(case):
            assert multiset_of(polynomial) == multiset
        assert set(multiset_of(polynomial)) == set(multiset)  # type: ignore[call-overload]


@given(cases())
def test_multisets_have_the_edges_of_the_lineage(case: PlanCase) -> None:
    tables = tables_of(case)
    for one, other in zip(annotate(case.plan, tables, LINEAGE), annotate(case.plan, tables, MULTISETS), strict=True):
        assert set(other.annotation) == one.annotation and all(n > 0 for n in other.annotation.values())


@given(cases())
def test_counts_are_never_zero(case: PlanCase) -> None:
    """A row that is there has a derivation, if only the empty one."""
    assert all(item.annotation >= 1 for item in annotate(case.plan, tables_of(case), COUNTS))


def of(flow: Flow, algebra: Algebra) -> list[object]:
    return [item.annotation for item in annotate(flow.plan, TABLES, algebra)]


def test_derivations_multiply_at_joins_and_add_in_groups() -> None:
    grouped = A.group("x", n="count(*)")
    squared = grouped.join(grouped.prefixed("o_"), "x = o_x")
    assert of(grouped, COUNTS) == [2, 1] and of(squared, COUNTS) == [4, 1]
    a, b = ("a", 0, "value"), ("a", 1, "value")
    assert of(squared, POLYNOMIALS)[0] == {(a, a): 1, (a, b): 2, (b, b): 1}


def test_known_limit_multisets_add_at_joins() -> None:
    grouped = A.group("x", n="count(*)")
    squared = grouped.join(grouped.prefixed("o_"), "x = o_x")
    a, b = ("a", 0, "value"), ("a", 1, "value")
    assert of(squared, MULTISETS)[0] == {a: 2, b: 2}
    assert multiset_of(of(squared, POLYNOMIALS)[0]) == {a: 4, b: 4}  # type: ignore[arg-type]


def test_known_limit_a_condition_is_one_monomial() -> None:
    semi = A.join(A.prefixed("o_"), "x = o_x", kind="semi").limit(1)
    expected = (("a", 0, "condition"), ("a", 0, "value"), ("a", 1, "condition"))
    assert of(semi, POLYNOMIALS) == [{expected: 1}] and of(semi, COUNTS) == [1]


EDGES = st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.just("value"))
WRITTEN = st.dictionaries(st.lists(EDGES, max_size=2).map(lambda m: tuple(sorted(m))), st.integers(1, 3), max_size=3)


@given(WRITTEN, WRITTEN, WRITTEN)
def test_polynomials_are_a_commutative_semiring(p: Polynomial, q: Polynomial, r: Polynomial) -> None:
    times, plus = POLYNOMIALS.times, POLYNOMIALS.plus
    assert times(p, q) == times(q, p) and plus([p, q]) == plus([q, p])
    assert times(times(p, q), r) == times(p, times(q, r)) and plus([plus([p, q]), r]) == plus([p, plus([q, r])])
    assert times(p, plus([q, r])) == plus([times(p, q), times(p, r)])
    assert times(p, POLYNOMIALS.nothing) == p


@given(WRITTEN, WRITTEN)
def test_maps_from_polynomials_are_homomorphisms(p: Polynomial, q: Polynomial) -> None:
    assert count_of(POLYNOMIALS.times(p, q)) == count_of(p) * count_of(q)
    assert count_of(POLYNOMIALS.plus([p, q])) == count_of(p) + count_of(q)
    assert lineage_of(POLYNOMIALS.plus([p, q])) == lineage_of(p) | lineage_of(q)
    if p and q:
        assert lineage_of(POLYNOMIALS.times(p, q)) == lineage_of(p) | lineage_of(q)
    assert Counter(multiset_of(POLYNOMIALS.plus([p, q]))) == Counter(multiset_of(p)) + Counter(multiset_of(q))


@pytest.mark.parametrize("algebra", [LINEAGE, COUNTS, MULTISETS, POLYNOMIALS], ids=lambda a: a.name)
def test_the_order_of_merging_does_not_matter(algebra: Algebra) -> None:
    one, two, three = (algebra.source("a", n) for n in range(3))
    assert algebra.plus([one, two, three]) == algebra.plus([three, algebra.plus([two, one])])
    assert algebra.plus([one]) == one


@given(cases(), st.fractions(min_value=0, max_value=5))
def test_a_polynomial_says_what_any_weight_of_rows_gives(case: PlanCase, weight: Fraction) -> None:
    """The universal property, once more by an algebra made here: every source row weighs the same."""
    weights: Algebra[Fraction] = Algebra(
        "weights", source=lambda s, id: weight, times=lambda a, b: a * b, plus=lambda many: sum(many, Fraction(0)),
        condition=lambda a: Fraction(1), nothing=Fraction(1),
    )  # fmt: skip
    for polynomial, value in both(case, weights):
        # Conditions weigh nothing there: count only the variables that are values.
        written = sum(n * weight ** sum(role == "value" for _, _, role in m) for m, n in polynomial.items())
        assert written == value
