"""Lift analytics: a Catalyst Window as an Analytic.

Rankings, offsets without defaults and aggregates are understood. Other functions are opaque and looked at as if they
needed their whole partition, which is true of those that count its rows (`ntile`, `percent_rank`) and safe for others.
"""

from __future__ import annotations

from whence.errors import NotTraceable
from whence.plan.expressions import Aggregate, AggregateCall, Literal
from whence.plan.nodes import UP_TO_CURRENT, WHOLE_PARTITION, Analytic, Frame, NamedAnalytic, Node, Order
from whence.plan.types import DATE, INT, INTEGERS
from whence.spark.jvm import JavaObject, items, simple_name
from whence.spark.lift_expressions import ExpressionLifter
from whence.spark.types import data_type

RANKINGS = {"RowNumber": "row_number", "Rank": "rank", "DenseRank": "dense_rank"}
OFFSETS = {"Lag": "lag", "Lead": "lead"}


FIXED = frozenset({"UnboundedPreceding$", "UnboundedFollowing$", "CurrentRow$"})


def lift_orders(lifter: ExpressionLifter, orders: JavaObject) -> tuple[Order, ...]:
    """The keys of a Catalyst sort order."""
    return tuple(
        Order(
            lifter.lift(order.child()),
            descending=simple_name(order.direction()) == "Descending$",
            nulls_first=simple_name(order.nullOrdering()) == "NullsFirst$",
        )
        for order in items(orders)
    )


def lift_analytic(lifter: ExpressionLifter, java: JavaObject, child: Node) -> Node:
    """The analytic of a Catalyst Window over its lifted input."""
    columns = []
    for alias in items(java.windowExpressions()):
        window = alias.child()
        while simple_name(window) == "Alias":
            window = window.child()
        function, frame = _function(lifter, window)
        columns.append(NamedAnalytic(lifter.names.of(alias), function, frame))
    return Analytic(
        child,
        tuple(lifter.lift(key) for key in items(java.partitionSpec())),
        lift_orders(lifter, java.orderSpec()),
        tuple(columns),
    )


def _function(lifter: ExpressionLifter, window: JavaObject) -> tuple[Aggregate, Frame]:
    function = window.windowFunction()
    name = simple_name(function)
    if name in RANKINGS:
        return AggregateCall(RANKINGS[name]), UP_TO_CURRENT
    if name in OFFSETS:
        understood = _offset(lifter, OFFSETS[name], function)
        if understood is not None:
            return understood
    if name == "AggregateExpression":
        return lifter.lift_aggregate(function), _frame(window.windowSpec())
    if name == "PercentRank":
        # Its arguments are the window's order, which Spark puts there itself.
        function = lifter.jvm.expression("PercentRank", lifter.jvm.seq(()))
    return lifter.opaque(function, "window"), WHOLE_PARTITION


def _offset(lifter: ExpressionLifter, name: str, function: JavaObject) -> tuple[Aggregate, Frame] | None:
    default = function.default()
    has_default = not (simple_name(default) == "Literal" and default.value() is None)
    # Spark keeps lag's distance negated, and lead's as it is.
    distance = _constant(function.inputOffset() if name == "lag" else function.offset())
    if name == "lag" and distance is None:
        distance = _constant(function.offset())
        distance = None if distance is None else -distance
    if has_default or function.ignoreNulls() or distance is None:
        return None
    away = -distance if name == "lag" else distance
    call = AggregateCall(name, (lifter.lift(function.input()), Literal(distance, INT)))
    lifter.handles.expressions.setdefault(call, lifter.rebound(function))
    return call, Frame("rows", away, away)


def _frame(spec: JavaObject) -> Frame:
    frame = spec.frameSpecification()
    unit = "rows" if simple_name(frame.frameType()) == "RowFrame$" else "range"
    fixed = all(simple_name(bound) in FIXED for bound in (frame.lower(), frame.upper()))
    if unit == "range" and not fixed:
        keys = [data_type(order.child().dataType()) for order in items(spec.orderSpec())]
        if len(keys) != 1 or keys[0] not in (*INTEGERS, DATE):
            raise NotTraceable(
                "a range frame with an offset cannot be traced over this order",
                detail=f"ordered by {', '.join(map(str, keys))}; frame {frame.sql()}",
                hint="order by one integer or date, or use rowsBetween",
            )
    return Frame("rows" if unit == "rows" else "range", _bound(frame.lower()), _bound(frame.upper()))


def _bound(bound: JavaObject) -> int | None:
    match simple_name(bound):
        case "UnboundedPreceding$" | "UnboundedFollowing$":
            return None
        case "CurrentRow$":
            return 0
        case _:
            distance = _constant(bound)
            if distance is None:
                raise NotTraceable(
                    "a window frame cannot be traced",
                    detail=f"its bound is {bound.sql()}",
                    hint="give whole numbers: rowsBetween(-2, 0), rangeBetween(-7, 0)",
                )
            return distance


def _constant(java: JavaObject) -> int | None:
    """The whole number that an expression always is, or None."""
    if not java.foldable() or data_type(java.dataType()) not in INTEGERS:
        return None
    value = java.eval(None)
    return None if value is None else int(value)
