"""What may be carried beside rows: lineage, counts, polynomials, multisets.

An algebra says how annotations arise at sources and how nodes combine them. The same plan can be
annotated in several algebras; ``lineage_of``, ``count_of`` and ``multiset_of`` map polynomials to the
others, so that laws can check one against another. How nodes use an algebra is in ``operators``.

Known limit: ``MULTISETS`` adds for joins as for groups (it is what lists of ids hold that are
concatenated all the way up). Polynomials multiply there, so ``multiset_of`` agrees with it only
where every row that enters a join has one derivation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

Role = Literal["value", "condition"]
Edge = tuple[str, int, Role]
"""A source row and how it contributed: its source's name, its id, its role."""
Lineage = frozenset[Edge]
Monomial = tuple[Edge, ...]
"""Source rows used together, in order, repeated as often as they are used."""
Polynomial = Mapping[Monomial, int]
"""A sum of monomials, each with how often it occurs. The row's derivations, one by one."""
Multiset = Mapping[Edge, int]

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Algebra(Generic[A]):
    """How annotations arise and combine.

    ``source`` annotates the row of a source; ``times`` two rows that make one together (join);
    ``plus`` rows that stand for each other or are gathered (group, distinct, frames; never none);
    ``condition`` what only decided that a row exists; ``nothing`` a row nobody contributed to.
    """

    name: str
    source: Callable[[str, int], A]
    times: Callable[[A, A], A]
    plus: Callable[[Sequence[A]], A]
    condition: Callable[[A], A]
    nothing: A


def _one(annotation: object) -> int:
    return 1


def _conditional(edges: Iterable[Edge]) -> Lineage:
    return frozenset((source, id, "condition") for source, id, _ in edges)


def _union(annotations: Sequence[Lineage]) -> Lineage:
    return frozenset().union(*annotations)


def _add(annotations: Sequence[Multiset]) -> Multiset:
    total: Counter[Edge] = Counter()
    for annotation in annotations:
        total.update(annotation)
    return dict(total)


def _multiply(first: Polynomial, second: Polynomial) -> Polynomial:
    product: dict[Monomial, int] = {}
    for a, n in first.items():
        for b, m in second.items():
            monomial = tuple(sorted(a + b))
            product[monomial] = product.get(monomial, 0) + n * m
    return product


def _sum(polynomials: Sequence[Polynomial]) -> Polynomial:
    total: dict[Monomial, int] = {}
    for polynomial in polynomials:
        for monomial, n in polynomial.items():
            total[monomial] = total.get(monomial, 0) + n
    return total


def _condition_of_polynomial(polynomial: Polynomial) -> Polynomial:
    # One monomial: however many ways led to a condition, the row exists once because of all of them.
    return {tuple(sorted(_conditional(e for monomial in polynomial for e in monomial))): 1}


LINEAGE: Algebra[Lineage] = Algebra(
    "lineage",
    source=lambda source, id: frozenset({(source, id, "value")}),
    times=lambda a, b: a | b,
    plus=_union,
    condition=_conditional,
    nothing=frozenset(),
)
"""The set of contributing source rows."""

COUNTS: Algebra[int] = Algebra(
    "counts", source=lambda source, id: 1, times=lambda a, b: a * b, plus=sum, condition=_one, nothing=1
)
"""How many derivations a row has, were every source row one."""

POLYNOMIALS: Algebra[Polynomial] = Algebra(
    "polynomials",
    source=lambda source, id: {((source, id, "value"),): 1},
    times=_multiply,
    plus=_sum,
    condition=_condition_of_polynomial,
    nothing={(): 1},
)
"""The derivations themselves: N[X] with a variable for each source row and role."""

MULTISETS: Algebra[Multiset] = Algebra(
    "multisets",
    source=lambda source, id: {(source, id, "value"): 1},
    times=lambda a, b: _add((a, b)),
    plus=_add,
    condition=lambda annotation: dict.fromkeys(_conditional(annotation), 1),
    nothing={},
)
"""How often each source row is reached."""

NOTHING: Algebra[None] = Algebra(
    "nothing",
    source=lambda source, id: None,
    times=lambda a, b: None,
    plus=lambda annotations: None,
    condition=lambda annotation: None,
    nothing=None,
)
"""No annotation at all: what remains is plain evaluation."""


def lineage_of(polynomial: Polynomial) -> Lineage:
    """The variables of a polynomial.

    >>> sorted(lineage_of({(("a", 1, "value"), ("b", 2, "value")): 3}))
    [('a', 1, 'value'), ('b', 2, 'value')]
    """
    return frozenset(edge for monomial in polynomial for edge in monomial)


def count_of(polynomial: Polynomial) -> int:
    """The value of a polynomial where every variable is 1."""
    return sum(polynomial.values())


def multiset_of(polynomial: Polynomial) -> Multiset:
    """How often each variable occurs in the written-out polynomial."""
    return _add([dict.fromkeys([edge], n) for monomial, n in polynomial.items() for edge in monomial])
