"""Analytic columns as SQL windows, and the check that no value hangs on the order of ties.

Rankings by place, offsets and frames of rows read one row or another where rows tie; engines
differ in which. There the query counts the peers of each row and ends where it has any.
"""

from __future__ import annotations

from collections.abc import Sequence

from whence.duck.aggregates import ORDER_SENSITIVE
from whence.duck.expressions import Scope, aggregate_sql, expression_sql, order_sql
from whence.duck.functions import outside
from whence.plan import functions
from whence.plan.expressions import AggregateCall, type_of
from whence.plan.nodes import Analytic, Frame, NamedAnalytic, label
from whence.plan.types import DATE


def analytic_sql(node: Analytic, scope: Scope, below: Sequence[str], over: str) -> str:
    """The SELECT of an analytic node; ``below`` are the columns of its child."""
    by = ", ".join(expression_sql(e, scope) for e in node.partition)
    partition = f"PARTITION BY {by} " if by else ""
    orders = ", ".join(order_sql(o, scope) for o in node.orders)
    order = f"ORDER BY {orders} " if orders else ""
    cells, shown = [], []
    for column in node.columns:
        name = scope.names[column.name]
        window = partition + _order_and_frame(node, column, order, scope)
        cells.append(f"{aggregate_sql(column.function, scope, window)} AS {name}")
        shown.append(
            f"CASE WHEN ties > 1 THEN {_tie(node)} ELSE {name} END AS {name}" if _reads_places(column) else name
        )
    if not any(_reads_places(column) for column in node.columns):
        return f"SELECT {', '.join([*below, *cells])} {over}"
    peers = "RANGE BETWEEN CURRENT ROW AND CURRENT ROW" if order else ""
    ties = f"count(*) OVER ({partition}{order}{peers}) AS ties"
    inner = f"SELECT {', '.join([*below, *cells, ties])} {over}"
    return f"SELECT {', '.join([*below, *shown])} FROM ({inner}) AS a"


def _tie(node: Analytic) -> str:
    return outside("rows that tie, in a function that tells them apart", label(node))


def _reads_places(column: NamedAnalytic) -> bool:
    """Whether the value depends on which of two tied rows comes first."""
    if _is_ranking(column):
        return getattr(column.function, "function", "") in ORDER_SENSITIVE
    return column.frame.unit == "rows" and (column.frame.start, column.frame.end) != (None, None)


def _is_ranking(column: NamedAnalytic) -> bool:
    return isinstance(column.function, AggregateCall) and column.function.function in functions.ANALYTIC


def _order_and_frame(node: Analytic, column: NamedAnalytic, order: str, scope: Scope) -> str:
    if _is_ranking(column):
        return order
    frame = column.frame
    unit = frame.unit.upper()
    if not order:
        # Without an order all rows are peers.
        return f"{unit} BETWEEN {_bounds(frame)}" if unit == "ROWS" else ""
    if unit == "RANGE" and {frame.start, frame.end} - {None, 0}:
        only = node.orders[0]
        type = type_of(only.expression, scope.schema)
        key = expression_sql(only.expression, scope)
        # Wider than any key, so that a distance from the largest key is no overflow.
        days = f"({key} - DATE '1970-01-01')" if type == DATE else key
        direction = f"{'DESC' if only.descending else 'ASC'} NULLS {'FIRST' if only.nulls_first else 'LAST'}"
        return f"ORDER BY CAST({days} AS HUGEINT) {direction} RANGE BETWEEN {_bounds(frame, ' AS HUGEINT')}"
    return f"{order}{unit} BETWEEN {_bounds(frame)}"


def _bounds(frame: Frame, type: str = " AS BIGINT") -> str:
    return f"{_bound(frame.start, 'PRECEDING', type)} AND {_bound(frame.end, 'FOLLOWING', type)}"


def _bound(offset: int | None, side: str, type: str) -> str:
    if offset is None:
        return f"UNBOUNDED {side}"
    if offset == 0:
        return "CURRENT ROW"
    return f"CAST({abs(offset)}{type}) {'PRECEDING' if offset < 0 else 'FOLLOWING'}"
