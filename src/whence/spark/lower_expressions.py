"""Lower expressions: to Catalyst trees that mean what plans mean, whatever the session's settings.

Arithmetic, casts and sums are built in ANSI mode and times are read in UTC, because the tree itself says so and not
because a setting does. Where Spark's function differs from the plan's, the exact meaning is composed. The user's own
expressions are not translated back: their handle is used, or the text of an opaque one, which is resolved under the
settings of the session that lowers. What nodes do with the trees is in `lower`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from whence.errors import NotTraceable
from whence.plan.expressions import (
    Aggregate,
    AggregateCall,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    Member,
    Opaque,
    columns_of,
    is_deterministic,
    type_of,
    walk,
)
from whence.plan.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    FRACTIONS,
    INT,
    INTEGERS,
    INTERVAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    Schema,
    StructType,
)
from whence.spark.handles import Handles
from whence.spark.jvm import EXPRESSIONS, JavaObject, Jvm, items, simple_name
from whence.spark.literals import Literals
from whence.spark.types import is_known

AGGREGATES = EXPRESSIONS + "aggregate."

PLAIN: dict[str, str] = {
    "and": "And",
    "or": "Or",
    "not": "Not",
    "=": "EqualTo",
    "<": "LessThan",
    "<=": "LessThanOrEqual",
    ">": "GreaterThan",
    ">=": "GreaterThanOrEqual",
    "<=>": "EqualNullSafe",
    "isnull": "IsNull",
    "isnotnull": "IsNotNull",
    "isnan": "IsNaN",
    "sqrt": "Sqrt",
    "upper": "Upper",
    "lower": "Lower",
    "length": "Length",
    "trim": "StringTrim",
    "ltrim": "StringTrimLeft",
    "rtrim": "StringTrimRight",
    "substring": "Substring",
    "replace": "StringReplace",
    "startswith": "StartsWith",
    "endswith": "EndsWith",
    "contains": "Contains",
    "date_add": "DateAdd",
    "datediff": "DateDiff",
    "unix_micros": "UnixMicros",
    "timestamp_micros": "MicrosToTimestamp",
    "array_compact": "ArrayCompact",
    "array_sort": "ArraySort",
    "flatten": "Flatten",
}
"""Plan functions that one Catalyst class means exactly, its arguments the function's."""

OF_MANY: dict[str, str] = {
    "coalesce": "Coalesce",
    "greatest": "Greatest",
    "least": "Least",
    "concat": "Concat",
    "array_concat": "Concat",
}
"""The same for classes that take a sequence."""

ANSI: dict[str, str] = {
    "+": "Add",
    "-": "Subtract",
    "*": "Multiply",
    "/": "Divide",
    "%": "Remainder",
    "div": "IntegralDivide",
    "negative": "UnaryMinus",
    "abs": "Abs",
    "floor": "Floor",
    "ceil": "Ceil",
}
"""Plan functions whose Catalyst class is told to fail where there is no value."""

OF_TEXT = frozenset({"length", "like", "startswith", "endswith", "contains"})
"""Functions of strings with another result, so that their arguments may all be the untyped null."""

PARTS_OF_DATES: dict[str, str] = {"year": "Year", "month": "Month", "day": "DayOfMonth"}
PARTS_OF_TIMES: dict[str, str] = {"hour": "Hour", "minute": "Minute", "second": "Second"}
TIMES = (TIMESTAMP, TIMESTAMP_NTZ)

LISTED = 8
"""From so many constants on, whole numbers of an `in` are handed over as one text."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that expressions of a node may name: their types, and their Catalyst attributes."""

    schema: Schema
    columns: Mapping[str, JavaObject]

    def type(self, expression: Expression) -> DataType:
        return type_of(expression, self.schema)


@dataclass(frozen=True, slots=True)
class ExpressionLowerer:
    """Lowers the expressions of one plan."""

    jvm: Jvm
    handles: Handles
    literals: Literals
    _modes: dict[str, JavaObject] = field(default_factory=dict)

    def names_columns(self, expression: Expression | Aggregate) -> bool:
        """Whether a part comes from a handle or a text, and so finds its columns by their names."""
        if isinstance(expression, AggregateCall):
            if expression in self.handles.expressions:
                return True
            parts = expression.arguments + ((expression.filter,) if expression.filter else ())
            return any(self.names_columns(part) for part in parts)
        return any(isinstance(e, Opaque) or e in self.handles.expressions for e in walk(expression))

    def lower(self, expression: Expression, scope: Scope) -> JavaObject:
        """The Catalyst expression over the attributes of a scope."""
        match expression:
            case Column(name):
                return scope.columns[name]
            case Literal():
                return self.literals.of(expression)
            case Opaque():
                return self._opaque(expression, scope)
        handle = self.handles.expressions.get(expression)
        if handle is not None:
            return self._bound(handle, columns_of(expression), scope)
        match expression:
            case Call():
                return self._call(expression, scope)
            case Cast(child, type):
                return self._cast(self.lower(child, scope), scope.type(child), type)
            case Case(branches, otherwise):
                return self._case(branches, otherwise, scope)
            case Member(child, name):
                struct = scope.type(child)
                assert isinstance(struct, StructType)
                return self.member(self.lower(child, scope), struct, name)
            case _:
                assert_never(expression)

    def member(self, java: JavaObject, struct: StructType, name: str) -> JavaObject:
        """A named member of a struct."""
        place = [f.name for f in struct.fields].index(name)
        return self.jvm.expression("GetStructField", java, place, self.jvm.some(name))

    def ansi(self, name: str, *arguments: JavaObject) -> JavaObject:
        """An expression that fails where ANSI SQL does; how a class is told so differs between classes and versions."""
        mode = self._modes.get(name)
        if mode is None:
            full = name if name.startswith(EXPRESSIONS) else EXPRESSIONS + name
            mode = self._modes[name] = self._mode(full, len(arguments))
        made = self.jvm.type(name if name.startswith(EXPRESSIONS) else EXPRESSIONS + name)
        return made(*arguments) if mode == "" else made(*arguments, mode)

    def _mode(self, name: str, count: int) -> JavaObject:
        ansi = self.jvm.type(EXPRESSIONS + "EvalMode").ANSI()
        for constructor in self.jvm.reflected(name).getConstructors():
            if constructor.getParameterCount() != count + 1:
                continue
            match str(constructor.getParameterTypes()[count].getSimpleName()):
                case "NumericEvalContext":
                    # The second member is about the precision of decimals, which plans leave to the engine.
                    return self.jvm.expression("NumericEvalContext", ansi, True)
                case "Value":
                    return ansi
                case "boolean":
                    return True
                case _:
                    continue
        return ""

    def to_utc(self, java: JavaObject, type: DataType) -> JavaObject:
        """A conversion in ANSI mode, with times in UTC."""
        return self.jvm.expression(
            "Cast", java, self.literals.java_type(type), self.literals.utc, self.literals.ansi_mode
        )

    def _opaque(self, expression: Opaque, scope: Scope, *, over_frame: bool = False) -> JavaObject:
        read = columns_of(expression)
        handle = self.handles.opaque.get(expression.key)
        if handle is None:
            handle = self.handles.expressions.get(expression)
        if handle is not None:
            return self._bound(handle, read, scope)
        if expression.text is None:
            raise unknown_part(expression.key)
        made = self._bound(self.parse(expression), read, scope)
        if over_frame:
            # Between a function and its window nothing may stand.
            return made
        # The type is what the plan counts on; where the text gives it anyway, the optimizer drops the cast.
        return self.to_utc(made, expression.type) if is_known(expression.type) else made

    def parse(self, expression: Opaque) -> JavaObject:
        """The unresolved tree of an opaque expression's text."""
        from pyspark.errors import PySparkException

        assert expression.text is not None
        try:
            return self.jvm.parse(expression.text)
        except PySparkException as failed:
            raise NotTraceable(
                f"the expression {expression.key!r} cannot be read by this Spark",
                detail=expression.text,
                hint="ask in the session that captured the run, or with the Spark version it recorded",
            ) from failed

    def _bound(self, java: JavaObject, read: frozenset[str], scope: Scope) -> JavaObject:
        """A tree that names its columns, as it is or with them found: Spark confuses names that differ by case."""
        seen: dict[str, int] = {}
        for name in scope.columns:
            seen[name.lower()] = seen.get(name.lower(), 0) + 1
        if all(seen.get(name.lower(), 0) <= 1 for name in read):
            return java
        return self._found(java, scope)

    def _found(self, java: JavaObject, scope: Scope) -> JavaObject:
        if simple_name(java) == "UnresolvedAttribute":
            parts = items(java.nameParts())
            # Texts write members of structs after a dot.
            for length in range(len(parts), 0, -1):
                attribute = scope.columns.get(".".join(parts[:length]))
                if attribute is not None:
                    for part in parts[length:]:
                        attribute = self.jvm.expression(
                            "GetStructField",
                            attribute,
                            list(attribute.dataType().fieldNames()).index(part),
                            self.jvm.some(part),
                        )
                    return attribute
            return java
        children = items(java.children())
        if not children:
            return java
        return self.jvm.with_children(java, [self._found(child, scope) for child in children])

    def _cast(self, java: JavaObject, source: DataType, target: DataType) -> JavaObject:
        if source == target:
            return java
        if source == BINARY and target == STRING:
            # A cast keeps bytes that are no text.
            return self.jvm.expression("ValidateUTF8", self.to_utc(java, target))
        return self.to_utc(java, target)

    def _case(
        self, branches: tuple[tuple[Expression, Expression], ...], otherwise: Expression, scope: Scope
    ) -> JavaObject:
        type = scope.type(Case(branches, otherwise))
        pair = self.jvm.type("scala.Tuple2")
        made = [pair(self._as(when, BOOLEAN, scope), self._as(then, type, scope)) for when, then in branches]
        return self.jvm.expression("CaseWhen", self.jvm.seq(made), self.jvm.some(self._as(otherwise, type, scope)))

    def _as(self, expression: Expression, type: DataType, scope: Scope) -> JavaObject:
        """The expression, the untyped null as one of the type wanted."""
        if scope.type(expression) == VOID and type != VOID:
            if isinstance(expression, Literal):
                return self.literals.of(Literal(None, type))
            return self.to_utc(self.lower(expression, scope), type)
        return self.lower(expression, scope)

    def _call(self, call: Call, scope: Scope) -> JavaObject:
        name = call.function
        if scope.type(call) == VOID:
            return self.literals.of(Literal(None, VOID))
        types = [scope.type(a) for a in call.arguments]
        wanted = _wanted(name, types)
        if name == "in":
            return self._in(call, wanted[0], scope)
        parts = [self._as(a, t, scope) for a, t in zip(call.arguments, wanted, strict=True)]
        if name in PLAIN:
            return self.jvm.expression(PLAIN[name], *parts)
        if name in OF_MANY:
            return self.jvm.expression(OF_MANY[name], self.jvm.seq(parts))
        if name in ("+", "-") and wanted[0] in TIMES:
            return self._moved(name, parts)
        if name in ANSI:
            return self.ansi(ANSI[name], *parts)
        if name in PARTS_OF_DATES:
            day = parts[0] if wanted[0] == DATE else self.to_utc(parts[0], DATE)
            return self.jvm.expression(PARTS_OF_DATES[name], day)
        if name in PARTS_OF_TIMES:
            return self.jvm.expression(PARTS_OF_TIMES[name], parts[0], self.literals.utc)
        if name == "nullif" and not is_deterministic(call):
            # Both places must see one value: Spark's own form keeps it.
            return self.jvm.with_children(self.jvm.parse("nullif(a, b)"), parts)
        return _COMPOSED[name](self, parts, wanted)

    def _in(self, call: Call, type: DataType, scope: Scope) -> JavaObject:
        value, *others = call.arguments
        whole = [o.value for o in others if isinstance(o, Literal)]
        if type in INTEGERS and len(whole) == len(others) >= LISTED and None not in whole:
            suffix = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}[str(type)]
            listed = self.jvm.parse(f"x in ({', '.join(f'{v}{suffix}' for v in whole)})")
            return self.jvm.expression("In", self._as(value, type, scope), listed.list())
        parts = [self._as(a, type, scope) for a in call.arguments]
        if type in FRACTIONS:
            # Long lists become a hash set, in which -0.0 is not 0.0.
            parts = [self.jvm.type(EXPRESSIONS + "KnownFloatingPointNormalized")(self._normalized(p)) for p in parts]
        return self.jvm.expression("In", parts[0], self.jvm.seq(parts[1:]))

    def _normalized(self, java: JavaObject) -> JavaObject:
        return self.jvm.type("org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero")(java)

    def _moved(self, name: str, parts: list[JavaObject]) -> JavaObject:
        """A time and an interval. A day has 24 hours, so not in the session's time zone."""
        time, interval = parts
        if name == "-":
            interval = self.ansi("UnaryMinus", interval)
        # Its name in Spark 4.0 and since.
        for kind in ("TimestampAddInterval", "TimeAdd"):
            if self.jvm.exists(EXPRESSIONS + kind):
                return self.jvm.expression(kind, time, interval, self.literals.utc)
        raise NotTraceable(
            "this Spark cannot add an interval to a time as whence needs it",
            detail=f"Spark {self.jvm.spark.version}",
            hint="whence supports Spark 4.0 to 4.3",
        )

    def _not_equal(self, parts: list[JavaObject], types: list[DataType]) -> JavaObject:
        return self.jvm.expression("Not", self.jvm.expression("EqualTo", *parts))

    def _like(self, parts: list[JavaObject], types: list[DataType]) -> JavaObject:
        return self.jvm.expression("Like", *parts, "\\")

    def _nullif(self, parts: list[JavaObject], types: list[DataType]) -> JavaObject:
        null = self.literals.of(Literal(None, types[0]))
        return self.jvm.expression("If", self.jvm.expression("EqualTo", *parts), null, parts[0])

    def _array(self, parts: list[JavaObject], types: list[DataType]) -> JavaObject:
        return self.jvm.construct(EXPRESSIONS + "CreateArray", self.jvm.seq(parts), False)

    def _array_distinct(self, parts: list[JavaObject], types: list[DataType]) -> JavaObject:
        return self.jvm.expression("ArrayDistinct", parts[0])

    def _size(self, parts: list[JavaObject], types: list[DataType]) -> JavaObject:
        return self.jvm.expression("Size", parts[0], False)

    def _sequence(self, parts: list[JavaObject], types: list[DataType]) -> JavaObject:
        """Spark counts downwards where the first is larger; plans give an empty array there."""
        one = self.literals.of(Literal(1, BIGINT))
        empty = self.to_utc(self._array([], []), ArrayType(BIGINT))
        up = self.jvm.expression("Sequence", *parts, self.jvm.some(one), self.literals.utc)
        pair = self.jvm.type("scala.Tuple2")
        return self.jvm.expression(
            "CaseWhen",
            self.jvm.seq(
                [
                    pair(self.jvm.expression("LessThanOrEqual", *parts), up),
                    pair(self.jvm.expression("GreaterThan", *parts), empty),
                ]
            ),
            self.jvm.none(),
        )

    def lower_aggregate(self, aggregate: Aggregate, scope: Scope, *, over_frame: bool = False) -> JavaObject:
        """The aggregate expression over a group's rows, or over those of a frame."""
        if isinstance(aggregate, Opaque):
            return self._opaque(aggregate, scope, over_frame=over_frame)
        handle = self.handles.expressions.get(aggregate)
        if handle is not None and not (over_frame and aggregate.filter is not None):
            return self._bound(handle, columns_of(aggregate), scope)
        condition = None if aggregate.filter is None else self._as(aggregate.filter, BOOLEAN, scope)
        if aggregate.arguments:
            type = scope.type(aggregate.arguments[0])
            argument = self.lower(aggregate.arguments[0], scope)
        else:
            type, argument = BIGINT, self.literals.of(Literal(1, BIGINT))
        if over_frame and condition is not None:
            # Spark has no filters in frames; every aggregate leaves nulls out, which does the same.
            null = self.literals.of(Literal(None, type))
            argument, condition = self.jvm.expression("If", condition, argument, null), None
        function = self._function(aggregate.function, argument, type)
        if condition is None and not aggregate.distinct:
            return function.toAggregateExpression()
        given = self.jvm.none() if condition is None else self.jvm.some(condition)
        return function.toAggregateExpression(aggregate.distinct, given)

    def _function(self, name: str, argument: JavaObject, type: DataType) -> JavaObject:
        match name:
            case "count":
                return self.jvm.type(AGGREGATES + "Count")(self.jvm.seq([argument]))
            case "sum" | "avg":
                return self.ansi(AGGREGATES + {"sum": "Sum", "avg": "Average"}[name], argument)
            # False is smaller than true.
            case "min" | "bool_and":
                return self.jvm.type(AGGREGATES + "Min")(argument)
            case "max" | "bool_or":
                return self.jvm.type(AGGREGATES + "Max")(argument)
            case "collect_list":
                return self.jvm.type(AGGREGATES + "CollectList")(argument)
            case "collect_set":
                # Spark's set tells -0.0 from 0.0.
                once = self._normalized(argument) if type in FRACTIONS else argument
                return self.jvm.type(AGGREGATES + "CollectSet")(once)
            case _:
                raise NotTraceable(f"Spark is not told how to compute the aggregate {name!r}")


_COMPOSED: dict[str, Callable[[ExpressionLowerer, list[JavaObject], list[DataType]], JavaObject]] = {
    "!=": ExpressionLowerer._not_equal,
    "like": ExpressionLowerer._like,
    "nullif": ExpressionLowerer._nullif,
    "array": ExpressionLowerer._array,
    "array_distinct": ExpressionLowerer._array_distinct,
    "size": ExpressionLowerer._size,
    "sequence": ExpressionLowerer._sequence,
}
"""Plan functions that are put together here."""


def _wanted(name: str, types: list[DataType]) -> list[DataType]:
    """The types of the arguments, untyped nulls given the type the function needs there."""
    if VOID not in types:
        return types
    known = next((t for t in types if t != VOID), None)
    match name:
        case "and" | "or" | "not":
            fixed: list[DataType] = [BOOLEAN] * len(types)
        case "substring":
            fixed = [STRING, INT, INT]
        case "date_add":
            fixed = [DATE, INT]
        case "+" | "-" if known in TIMES or known == INTERVAL:
            fixed = [types[0] if types[0] != VOID else known, INTERVAL]
        case _ if known is None:
            fixed = [STRING if name in OF_TEXT else BIGINT] * len(types)
        case _:
            fixed = [known] * len(types)
    return [w if t == VOID else t for t, w in zip(types, fixed, strict=True)]


def unknown_part(key: str) -> NotTraceable:
    """The refusal of an opaque part that neither a handle nor a text tells."""
    return NotTraceable(
        f"nothing is known about {key!r} outside the session that made it",
        detail="it has no SQL text that gives the same expression again, so a later process cannot compute it",
        hint='ask in the session that captured the run, name query="module:function", or use capture="eager"',
    )
