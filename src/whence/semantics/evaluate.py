"""The bag a plan means: annotation with nothing carried.

There is one implementation of every node, so dropping annotations gives plain evaluation by
construction; that it is the right bag is for tests that count by hand.
"""

from __future__ import annotations

from collections.abc import Mapping

from whence.plan.nodes import Node
from whence.semantics.algebras import NOTHING
from whence.semantics.annotate import annotate
from whence.semantics.scalars import Functions
from whence.semantics.tables import Table
from whence.semantics.values import Row


def evaluate(plan: Node, tables: Mapping[str, Table], functions: Functions | None = None) -> list[Row]:
    """The rows of the plan over tables.

    >>> from whence.plan.nodes import Limit, Source
    >>> from whence.plan.types import BIGINT, Field
    >>> cars = Source("cars", (Field("car", BIGINT),))
    >>> evaluate(Limit(cars, 1), {"cars": Table(("car",), [(17,), (23,)])})
    [(17,)]
    """
    return [item.row for item in annotate(plan, tables, NOTHING, functions)]
