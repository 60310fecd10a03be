"""Lower windows: event-time windows, and analytic functions over the rows around a row.

Spark's own `window` makes windows that hold their start and not their end, with no gaps between them; streams need
it, because Spark tells windows by it. Other windows are computed: the starts of a row's windows are a sequence of
whole microseconds. Frames are Spark's own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from whence.errors import NotTraceable
from whence.plan import functions
from whence.plan.expressions import Aggregate, AggregateCall, Expression, Literal, Opaque
from whence.plan.hidden import PREFIX
from whence.plan.nodes import Analytic, EventWindow, Frame, NamedAnalytic, label
from whence.plan.types import (
    BIGINT,
    DATE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    Field,
    StructType,
)
from whence.spark.event_windows import window_call
from whence.spark.jvm import EXPRESSIONS, JavaObject, items, simple_name
from whence.spark.lower_columns import Lowered
from whence.spark.lower_expressions import Scope
from whence.spark.types import is_known

if TYPE_CHECKING:
    from whence.spark.lower import Lowerer


def lower_event_window(lowerer: Lowerer, node: EventWindow) -> Lowered:
    """The rows with each of their event-time windows."""
    below = lowerer.ready(lowerer.lower(node.child), [node.time])
    scope = lowerer.scope(node.child, below)
    type = scope.type(node.time)
    time = lowerer.expressions.lower(node.time, scope)
    struct = StructType((Field("start", type), Field("end", type)))
    if node.closed == "left" and node.slide <= node.size:
        # Spark wants an offset smaller than the slide; whole slides change nothing.
        call = window_call(lowerer.jvm, time, node.size, node.slide, node.offset % node.slide)
        name = node.name if node.stamp == "window" else PREFIX + "window"
        made = lowerer.extended(below, [(name, struct, call)])
        if node.stamp == "window":
            return made
        stamped = lowerer.expressions.member(made.columns[name], struct, node.stamp)
        return _without(lowerer.extended(made, [(node.name, type, stamped)]), name)
    if below.plan.isStreaming():
        raise NotTraceable(
            f"{label(node)} cannot run on a stream",
            detail=f"Spark's windows hold their start and not their end; these are closed {node.closed}, of "
            f"{node.size} microseconds every {node.slide}",
            hint="use windows with closed='left' and no gaps, or run the query as a batch",
        )
    return _computed(lowerer, node, below, time, type, struct)


def _without(made: Lowered, name: str) -> Lowered:
    columns = {n: a for n, a in made.columns.items() if n != name}
    return replace(made, columns=columns, labels={n: made.labels[n] for n in columns}, tidy=False)


def _computed(
    lowerer: Lowerer, node: EventWindow, below: Lowered, time: JavaObject, type: DataType, struct: StructType
) -> Lowered:
    e = lowerer.expressions
    # As microseconds since 1970; a time without a zone counts as if in UTC.
    moment = time if type == TIMESTAMP else e.to_utc(time, TIMESTAMP)
    timed = lowerer.extended(below, [(PREFIX + "time", BIGINT, lowerer.jvm.expression("UnixMicros", moment))])
    at = timed.columns[PREFIX + "time"]

    def whole(value: int) -> JavaObject:
        return lowerer.literals.of(Literal(value, BIGINT))

    def above_offset(java: JavaObject) -> JavaObject:
        """How far a moment lies after the last multiple of the slide."""
        return e.ansi("Pmod", e.ansi("Subtract", java, whole(node.offset)), whole(node.slide))

    latest = e.ansi("Subtract", at, whole(1)) if node.closed == "right" else at
    earliest = e.ansi("Subtract", at, whole(node.size - 1 if node.closed == "left" else node.size))
    last = e.ansi("Subtract", latest, above_offset(latest))
    before = e.ansi("Subtract", earliest, whole(1))
    first = e.ansi("Add", e.ansi("Subtract", before, above_offset(before)), whole(node.slide))
    bounded = lowerer.extended(timed, [(PREFIX + "first", BIGINT, first), (PREFIX + "last", BIGINT, last)])
    low, high = bounded.columns[PREFIX + "first"], bounded.columns[PREFIX + "last"]
    starts = lowerer.jvm.expression("Sequence", low, high, lowerer.jvm.some(whole(node.slide)), lowerer.literals.utc)
    # No window where the first comes after the last, and none for a null time.
    some = lowerer.jvm.expression(
        "If",
        lowerer.jvm.expression("LessThanOrEqual", low, high),
        starts,
        lowerer.literals.of(Literal(None, ArrayType(BIGINT))),
    )
    start = lowerer.attribute(PREFIX + "start", BIGINT)
    plan = lowerer.jvm.logical(
        "Generate",
        lowerer.jvm.expression("Explode", some),
        lowerer.jvm.seq(()),
        False,
        lowerer.jvm.none(),
        lowerer.jvm.seq([start]),
        bounded.plan,
    )
    exploded = replace(below, plan=plan, tidy=False)

    def stamp(micros: JavaObject) -> JavaObject:
        made = lowerer.jvm.expression("MicrosToTimestamp", micros)
        return made if type == TIMESTAMP else e.to_utc(made, TIMESTAMP_NTZ)

    ends = stamp(start), stamp(e.ansi("Add", start, whole(node.size)))
    match node.stamp:
        case "start":
            return lowerer.extended(exploded, [(node.name, type, ends[0])])
        case "end":
            return lowerer.extended(exploded, [(node.name, type, ends[1])])
        case _:
            text = [lowerer.literals.of(Literal(name, STRING)) for name in ("start", "end")]
            pairs = lowerer.jvm.seq([text[0], ends[0], text[1], ends[1]])
            return lowerer.extended(exploded, [(node.name, struct, lowerer.jvm.expression("CreateNamedStruct", pairs))])


def lower_analytic(lowerer: Lowerer, node: Analytic) -> Lowered:
    """The rows with analytic functions beside them; Spark takes window functions in a projection apart itself."""
    wanted: list[Expression | Aggregate] = [*node.partition, *(o.expression for o in node.orders)]
    below = lowerer.ready(lowerer.lower(node.child), [*wanted, *(c.function for c in node.columns)])
    scope = lowerer.scope(node.child, below)
    partition = [lowerer.expressions.lower(p, scope) for p in node.partition]
    made = []
    for place, column in enumerate(node.columns):
        type = node.schema[len(node.child.schema) + place].type
        made.append((column.name, type, _analytic(lowerer, node, column, scope, partition)))
    return lowerer.extended(below, made) if made else below


def _analytic(
    lowerer: Lowerer, node: Analytic, column: NamedAnalytic, scope: Scope, partition: list[JavaObject]
) -> JavaObject:
    function = column.function
    if isinstance(function, AggregateCall) and function.distinct:
        raise NotTraceable(
            f"{label(node)} has a distinct aggregate over a frame, which Spark does not compute",
            detail=f"{column.name} is {function.function}(distinct ...)",
            hint="group by the partition instead and join the result",
        )
    if isinstance(function, AggregateCall) and function.function in functions.ANALYTIC:
        java, frame = _ranking(lowerer, function, scope), lowerer.jvm.module(EXPRESSIONS + "UnspecifiedFrame")
    else:
        java = lowerer.expressions.lower_aggregate(function, scope, over_frame=True)
        frame = _frame(lowerer, column.frame, node, scope, java)
    orders = lowerer.orders(node.orders, scope) or _no_order(lowerer, node)
    spec = lowerer.jvm.expression("WindowSpecDefinition", lowerer.jvm.seq(partition), lowerer.jvm.seq(orders), frame)
    made = lowerer.jvm.expression("WindowExpression", java, spec)
    if isinstance(function, Opaque) and function.key not in lowerer.handles.opaque and is_known(function.type):
        # The type is what the plan counts on; where the text gives it anyway, the optimizer drops the cast.
        return lowerer.expressions.to_utc(made, function.type)
    return made


def _no_order(lowerer: Lowerer, node: Analytic) -> list[JavaObject]:
    """Rankings need an order also where all keys are constants: then all rows are equal."""
    if not node.orders:
        return []
    constant = lowerer.literals.of(Literal("", STRING))
    return [
        lowerer.jvm.expression(
            "SortOrder",
            constant,
            lowerer.jvm.module(EXPRESSIONS + "Ascending"),
            lowerer.jvm.module(EXPRESSIONS + "NullsFirst"),
            lowerer.jvm.seq(()),
        )
    ]


def _ranking(lowerer: Lowerer, function: AggregateCall, scope: Scope) -> JavaObject:
    e = lowerer.expressions
    match function.function:
        case "row_number":
            return lowerer.jvm.expression("RowNumber")
        case "rank":
            return lowerer.jvm.expression("Rank", lowerer.jvm.seq(()))
        case "dense_rank":
            return lowerer.jvm.expression("DenseRank", lowerer.jvm.seq(()))
        case name:
            value, distance = function.arguments
            assert isinstance(distance, Literal) and isinstance(distance.value, int)
            default = lowerer.literals.of(Literal(None, scope.type(value)))
            away = lowerer.literals.of(Literal(distance.value, INT))
            kind = {"lag": "Lag", "lead": "Lead"}[name]
            return lowerer.jvm.expression(kind, e.lower(value, scope), away, default, False)


def _is_aggregate(lowerer: Lowerer, java: JavaObject) -> bool:
    """Whether a function that a text calls, not resolved yet, is computed over the rows of a frame."""
    if simple_name(java) != "UnresolvedFunction":
        return False
    jvm = lowerer.jvm
    called = str(items(java.nameParts())[-1])
    if not jvm.spark.catalog.functionExists(called):
        return True
    function = jvm.reflected(jvm.spark.catalog.getFunction(called).className)
    of_rows = jvm.reflected(EXPRESSIONS + "aggregate.AggregateFunction").isAssignableFrom(function)
    return bool(of_rows) and not jvm.reflected(EXPRESSIONS + "WindowFunction").isAssignableFrom(function)


def _frame(lowerer: Lowerer, frame: Frame, node: Analytic, scope: Scope, java: JavaObject) -> JavaObject:
    module = lowerer.jvm.module
    if simple_name(java) not in ("AggregateExpression", "PythonUDF") and not _is_aggregate(lowerer, java):
        # Functions such as ntile bring their own.
        return module(EXPRESSIONS + "UnspecifiedFrame")
    start, end, rows = frame.start, frame.end, frame.unit == "rows"
    if not rows and not node.orders:
        # Without an order all rows are each other's peers.
        start, end, rows = None, None, True
    key = scope.type(node.orders[0].expression) if node.orders else INT

    def bound(offset: int | None, open_end: str) -> JavaObject:
        if offset is None:
            return module(EXPRESSIONS + open_end)
        if offset == 0:
            return module(EXPRESSIONS + "CurrentRow")
        return lowerer.literals.of(Literal(offset, INT if rows or key == DATE else key))

    return lowerer.jvm.expression(
        "SpecifiedWindowFrame",
        module(EXPRESSIONS + ("RowFrame" if rows else "RangeFrame")),
        bound(start, "UnboundedPreceding"),
        bound(end, "UnboundedFollowing"),
    )
