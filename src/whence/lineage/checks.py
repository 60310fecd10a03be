"""Checks: a hash of row ids whose sums say whether two multisets of them are the same.

The hash is plain arithmetic on bigints, so that Python, Spark and DuckDB agree on it and none can
overflow, in ANSI mode too. Row ids are 0 to 2^63 - 1. Each is taken modulo two primes (together
they tell all ids below 1.7 * 10^18 apart, and far from powers of two, because packed ids
have their file number above bit 32), each residue is spread by a factor and another prime, and the
two are multiplied: all factors are below 2^31, so all products are below 2^62. A sum of plain residues
would not do: it cannot tell {1, 4} from {2, 3}. It is a check against chance, not against an adversary.

Sums are kept modulo ``MODULUS``, just below 2^27. What is added is below it, so the sum over one group
stays below 2^63 for up to 2^36 rows (68 billion) in that group, however often groups stand on groups:
a value is reduced before it is added again. Different multisets of one size agree by chance once in 2^27.
"""

from __future__ import annotations

from collections.abc import Mapping

from whence.plan.expressions import Call, Expression, Literal
from whence.plan.types import BIGINT

MODULUS = 134_217_689
"""The largest prime below 2^27."""

_FIRST = (1_414_213_501, 1_047_197_539, 1_732_050_769)
_SECOND = (1_234_567_811, 766_245_317, 1_618_033_961)
"""A prime, a factor, and a larger prime, so that spreading makes no two residues equal."""

_ONE = Literal(1, BIGINT)  # without it the hash of 0 would be 0, and a check blind to the first row of all


def hash_of(id: int) -> int:
    """The hash of a row id, below ``MODULUS``.

    >>> hash_of(0), hash_of(17), hash_of(2**63 - 1)
    (40199343, 105423900, 17414582)
    """
    one, two = ((id % prime + 1) * factor % larger for prime, factor, larger in (_FIRST, _SECOND))
    return one * two % MODULUS


def hash_call(id: Expression) -> Expression:
    """The expression that computes ``hash_of`` of a bigint; null for null."""
    one, two = (
        modulo(Call("*", (Call("+", (modulo(id, prime), _ONE)), Literal(factor, BIGINT))), larger)
        for prime, factor, larger in (_FIRST, _SECOND)
    )
    return modulo(Call("*", (one, two)))


def modulo(value: Expression, by: int = MODULUS) -> Expression:
    """The remainder of a bigint that is not negative."""
    return Call("%", (value, Literal(by, BIGINT)))


def check_of(ids: Mapping[int, int]) -> int:
    """The check of a multiset of row ids, given as how often each is in it.

    >>> check_of({7: 1, 9: 2}) == (hash_of(7) + 2 * hash_of(9)) % MODULUS
    True
    """
    return sum(hash_of(id) * count for id, count in ids.items()) % MODULUS
