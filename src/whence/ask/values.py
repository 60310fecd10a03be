"""Values of rows made comparable: hashable, NaN equal to itself, and in one total order.

Used to find stored rows among recomputed ones. Two floats count as the same value when they differ by rounding only:
sums of doubles come out differently whenever rows are added in another order.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

# Relative; a sum of a million doubles of like size is off by less.
ROUNDING = 1e-9


def frozen(value: object) -> Hashable:
    """A hashable stand-in: equal for equal values, nulls and NaNs among them.

    >>> frozen(float("nan")) == frozen(float("nan")), frozen([1, None]) == frozen((1, None))
    (True, True)
    """
    match value:
        case float() if math.isnan(value):
            return ("NaN",)
        case Mapping():
            return tuple(frozen(v) for v in value.values())
        case str() | bytes():
            return value
        case Sequence():
            return tuple(frozen(v) for v in value)
        case _:
            assert isinstance(value, Hashable)
            return value


def frozen_map(value: object) -> Hashable:
    """As ``frozen`` for a map, given as pairs or as a dict, in whatever order."""
    if value is None:
        return None
    pairs = value.items() if isinstance(value, Mapping) else value
    return frozenset((frozen(k), frozen(v)) for k, v in pairs)  # type: ignore[attr-defined]


def in_order(values: Sequence[object]) -> tuple[object, ...]:
    """A key that sorts rows of values of the same types: nulls first, NaN last.

    >>> sorted([(2,), (None,), (float("nan"),), (1,)], key=in_order)
    [(None,), (1,), (2,), (nan,)]
    """
    return tuple(_placed(v) for v in values)


def _placed(value: object) -> tuple[object, ...]:
    match value:
        case None:
            return (0,)
        case float() if math.isnan(value):
            return (2,)
        case Mapping():
            return (1, in_order(list(value.values())))
        case str() | bytes():
            return (1, value)
        case Sequence():
            return (1, in_order(value))
        case _:
            return (1, value)


def near(one: object, other: object) -> bool:
    """Whether two values are the same but for the rounding of floats, also inside arrays and structs.

    >>> near(0.1 + 0.2, 0.3), near([1.0, None], [1.0, None]), near(1.0, 1.1)
    (True, True, False)
    """
    match one, other:
        case float(), float():
            if math.isnan(one) or math.isnan(other):
                return math.isnan(one) and math.isnan(other)
            return one == other or math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)
        case Mapping(), Mapping():
            return list(one) == list(other) and all(near(one[k], other[k]) for k in one)
        case ((str() | bytes()), _):
            return one == other
        case Sequence(), Sequence() if not isinstance(other, str | bytes):
            return len(one) == len(other) and all(near(a, b) for a, b in zip(one, other, strict=True))
        case _:
            return one == other
