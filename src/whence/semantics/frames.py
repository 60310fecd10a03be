"""What analytic columns mean: frames, rankings and offsets over a sorted partition.

Each column says for every row of the partition its value and which rows it looked at, because
lineage needs the latter. Partitions are formed and sorted in ``operators``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from whence.plan.expressions import AggregateCall, Literal
from whence.plan.functions import ANALYTIC
from whence.plan.nodes import Frame, NamedAnalytic, Order
from whence.plan.types import DataType, Schema
from whence.semantics.aggregates import compile_aggregate
from whence.semantics.scalars import Functions, compile_expression
from whence.semantics.values import Row, Value, group_key


@dataclass(frozen=True, slots=True)
class Cell:
    """A value, and the positions in its partition it was made from."""

    value: Value
    looked_at: range


Column = Callable[[Sequence[Row], Sequence[Row]], Callable[[int], Cell]]
"""From a partition's rows and order keys, both in order, to the function from positions to cells."""


def compile_column(
    column: NamedAnalytic,
    orders: Sequence[Order],
    order_types: Sequence[DataType],
    schema: Schema,
    functions: Functions | None,
) -> Column:
    """The meaning of one analytic column."""
    function = column.function
    if isinstance(function, AggregateCall) and function.function in ANALYTIC:
        if function.function in ("lag", "lead"):
            return _offset(function, schema, functions)
        return _ranking(function.function, order_types)
    compute = compile_aggregate(function, schema, functions)

    def over(rows: Sequence[Row], keys: Sequence[Row]) -> Callable[[int], Cell]:
        frame_of = frame_positions(column.frame, orders, order_types, keys)

        def cell(position: int) -> Cell:
            frame = frame_of(position)
            return Cell(compute(rows[frame.start : frame.stop]), frame)

        return cell

    return over


def _offset(function: AggregateCall, schema: Schema, functions: Functions | None) -> Column:
    argument = compile_expression(function.arguments[0], schema, functions)
    distance = function.arguments[1]
    assert isinstance(distance, Literal) and isinstance(distance.value, int)
    step = -distance.value if function.function == "lag" else distance.value

    def over(rows: Sequence[Row], keys: Sequence[Row]) -> Callable[[int], Cell]:
        def cell(position: int) -> Cell:
            read = position + step
            if 0 <= read < len(rows):
                return Cell(argument(rows[read]), range(read, read + 1))
            return Cell(None, range(0))

        return cell

    return over


def _ranking(name: str, order_types: Sequence[DataType]) -> Column:
    def over(rows: Sequence[Row], keys: Sequence[Row]) -> Callable[[int], Cell]:
        key = group_key(order_types)
        first, last = _peers([key(k) for k in keys])
        starts = sorted(set(first))

        def cell(position: int) -> Cell:
            place = {
                "row_number": position + 1,
                "rank": first[position] + 1,
                "dense_rank": starts.index(first[position]) + 1,
            }[name]
            return Cell(place, range(last[position] + 1))

        return cell

    return over


def frame_positions(
    frame: Frame, orders: Sequence[Order], types: Sequence[DataType], keys: Sequence[Row]
) -> Callable[[int], range]:
    """The function from a position in a sorted partition to the positions its frame holds.

    ``keys`` are the order keys of the partition's rows, in order.
    """
    size = len(keys)
    if frame.unit == "rows":

        def by_count(position: int) -> range:
            first = 0 if frame.start is None else max(0, position + frame.start)
            last = size - 1 if frame.end is None else min(size - 1, position + frame.end)
            # An end below 0 would count from the partition's end where the range is used as a slice.
            return range(first, max(first, last + 1))

        return by_count
    if {frame.start, frame.end} <= {None, 0}:
        key = group_key(types)
        first_peer, last_peer = _peers([key(k) for k in keys])

        def by_peers(position: int) -> range:
            first = 0 if frame.start is None else first_peer[position]
            last = size - 1 if frame.end is None else last_peer[position]
            return range(first, last + 1)

        return by_peers
    places = [_place(k[0], orders[0]) for k in keys]

    def by_value(position: int) -> range:
        rank, value = places[position]
        # Among nulls there is no distance: an offset from a null reaches just the nulls.
        reach = 0 if keys[position][0] is None else 1
        inside = [
            p
            for p, place in enumerate(places)
            if (frame.start is None or place >= (rank, value + reach * frame.start))
            and (frame.end is None or place <= (rank, value + reach * frame.end))
        ]
        return range(inside[0], inside[-1] + 1) if inside else range(0)

    return by_value


def _place(value: Value, order: Order) -> tuple[int, int]:
    """Where an order key stands on a line that runs in the direction of the order."""
    if value is None:
        return (-1 if order.nulls_first else 1, 0)
    number = value.toordinal() if isinstance(value, date) else value
    return (0, -number if order.descending else number)


def _peers(keys: list[Any]) -> tuple[list[int], list[int]]:
    """For each position of a sorted list the first and the last position with an equal key."""
    first = [0] * len(keys)
    for p in range(1, len(keys)):
        first[p] = first[p - 1] if keys[p] == keys[p - 1] else p
    last = [len(keys) - 1] * len(keys)
    for p in reversed(range(len(keys) - 1)):
        last[p] = last[p + 1] if keys[p] == keys[p + 1] else p
    return first, last
