"""Lift expressions: from Catalyst trees to plan expressions, opaque where a part is not understood.

A part is understood when its class is in the tables here, its settings give it the meaning plans have (ANSI
arithmetic, times in UTC), and the plan gives it the type Catalyst gives it. Anything else becomes opaque, as small a
part as possible: its columns, type and determinism are known, the rest is its handle, and its text where that can be
trusted (see `text`). Nothing is evaluated or rewritten.

Over 500 lines: what is understood is decided in one place, by tables that are read side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from py4j.protocol import Py4JJavaError

from whence.errors import NotTraceable, PlanError
from whence.plan import functions
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
)
from whence.plan.literals import UTC_ZONES
from whence.plan.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGERS,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    ArrayType,
    DataType,
    DecimalType,
    StructType,
)
from whence.spark.handles import Handles
from whence.spark.jvm import EXPRESSIONS, JavaObject, Jvm, element, items, option, simple_name
from whence.spark.literals import interval_of, literal_of
from whence.spark.names import Names
from whence.spark.text import portable_text
from whence.spark.types import data_type

FUNCTIONS: dict[str, str] = {
    "And": "and",
    "Or": "or",
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "IsNull": "isnull",
    "IsNotNull": "isnotnull",
    "IsNaN": "isnan",
    "Coalesce": "coalesce",
    "Greatest": "greatest",
    "Least": "least",
    "Floor": "floor",
    "Ceil": "ceil",
    "Sqrt": "sqrt",
    "Upper": "upper",
    "Lower": "lower",
    "Length": "length",
    "Substring": "substring",
    "StringReplace": "replace",
    "StartsWith": "startswith",
    "EndsWith": "endswith",
    "Contains": "contains",
    "Year": "year",
    "Month": "month",
    "DayOfMonth": "day",
    "DateAdd": "date_add",
    "DateDiff": "datediff",
    "UnixMicros": "unix_micros",
    "MicrosToTimestamp": "timestamp_micros",
    "Flatten": "flatten",
    "ArrayDistinct": "array_distinct",
}
"""Catalyst classes whose children are the arguments of one plan function, whatever the session's settings."""

ARITHMETIC: dict[str, str] = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "IntegralDivide": "div",
    "Remainder": "%",
    "UnaryMinus": "negative",
    "Abs": "abs",
}
"""Classes that carry what to do on overflow and division by zero."""
NEVER_FAILS = frozenset({"+", "-", "*", "negative", "abs"})
"""Those of them that on floating numbers mean the same in every mode."""

TRIMS: dict[str, str] = {"StringTrim": "trim", "StringTrimLeft": "ltrim", "StringTrimRight": "rtrim"}
CLOCKS: dict[str, str] = {"Hour": "hour", "Minute": "minute", "Second": "second"}
INTERVAL_SUMS = frozenset({"TimestampAddInterval", "TimeAdd"})

AGGREGATES: dict[str, str] = {
    "Count": "count",
    "Sum": "sum",
    "Average": "avg",
    "Min": "min",
    "Max": "max",
    "BoolAnd": "bool_and",
    "BoolOr": "bool_or",
    "CollectList": "collect_list",
    "CollectSet": "collect_set",
}

SUBQUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery", "OuterReference"})

SHARING = frozenset({"Between", "NullIf"})
"""Wrappers around a replacement that computes an argument once and refers to it twice."""

CHANGING = frozenset(
    {"CurrentDate", "CurrentTimestamp", "CurrentTimestampLike", "CurrentTime", "Now", "LocalTimestamp"}
)
"""Constant within one execution, as Catalyst sees it; another one at the next."""

WIDENINGS: dict[DataType, tuple[DataType, ...]] = {
    TINYINT: (SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING),
    SMALLINT: (INT, BIGINT, FLOAT, DOUBLE, STRING),
    INT: (BIGINT, FLOAT, DOUBLE, STRING),
    BIGINT: (FLOAT, DOUBLE, STRING),
    FLOAT: (DOUBLE, STRING),
    DOUBLE: (FLOAT, STRING),
    BOOLEAN: (STRING, *INTEGERS, FLOAT, DOUBLE),
    DATE: (STRING, TIMESTAMP, TIMESTAMP_NTZ),
    TIMESTAMP: (STRING, DATE, TIMESTAMP_NTZ),
    TIMESTAMP_NTZ: (STRING, DATE, TIMESTAMP),
}
"""Casts that cannot fail, and so mean the same in every mode."""


_INSTEAD = {
    "PivotFirst": "aggregate each value by itself instead of pivot: F.sum(F.when(F.col('k') == 'v', F.col('x')))",
}
"""What to write instead of expressions that only stand where Spark put them."""


class _NotUnderstood(Exception):
    """This part is to be opaque; never leaves this module."""


Typed = tuple[Expression, DataType]


@dataclass(frozen=True, slots=True)
class ExpressionLifter:
    """Lifts the expressions of one plan; keeps their handles."""

    jvm: Jvm
    names: Names
    utc: bool
    handles: Handles = field(default_factory=Handles)
    _opaque: dict[int, list[tuple[JavaObject, Opaque]]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def lift(self, java: JavaObject) -> Expression:
        """The plan expression of a resolved Catalyst expression; its handle is kept."""
        expression = self._part(java, {})[0]
        if not isinstance(expression, Column | Literal):
            self.handles.expressions.setdefault(expression, self.rebound(java))
        return expression

    def lift_aggregate(self, java: JavaObject) -> Aggregate:
        """The aggregate of a Catalyst AggregateExpression (or grouped Python function)."""
        try:
            aggregate: Aggregate = self._aggregate(java)
        except (_NotUnderstood, PlanError):
            aggregate = self.opaque(java, "aggregate")
        self.handles.expressions.setdefault(aggregate, self.rebound(java))
        return aggregate

    def opaque(self, java: JavaObject, place: str = "scalar", given: DataType | None = None) -> Opaque:
        """The opaque expression a Catalyst expression becomes; its handle is kept."""
        classes, columns = survey(java)
        if classes & SUBQUERIES:
            raise subquery(classes & SUBQUERIES)
        same = self._opaque.setdefault(java.semanticHash(), [])
        canonical = java.canonicalized()
        for other, opaque in same:
            if opaque.deterministic and canonical.equals(other):
                return opaque
        opaque = Opaque(
            key=self._key(java),
            inputs=tuple(Column(self.names.of(column)) for column in columns),
            type=given or data_type(java.dataType()),
            deterministic=bool(java.deterministic()) and not classes & CHANGING,
            text=portable_text(self.jvm, self.names, java, place, classes, columns),
        )
        self.handles.opaque[opaque.key] = self.rebound(java)
        same.append((canonical, opaque))
        return opaque

    def _key(self, java: JavaObject) -> str:
        shown = java.aggregateFunction() if simple_name(java) == "AggregateExpression" else java
        word: str = shown.name() if simple_name(shown).startswith("Python") else shown.prettyName()
        self._counts[word] = number = self._counts.get(word, 0) + 1
        return f"{word}_{number}"

    def rebound(self, java: JavaObject, common: Mapping[int, JavaObject] | None = None) -> JavaObject:
        """The expression with its columns by their plan names, to be resolved anew.

        ``common`` has the expressions that one around it computes once and refers to: they cannot be unresolved, so
        each reference becomes the expression.
        """
        name = simple_name(java)
        if name == "AttributeReference":
            return self.jvm.attribute(self.names.of(java))
        if name == "CommonExpressionRef" and common:
            return common[java.id().id()]
        if name == "OuterReference" or (java.references().isEmpty() and not common):
            return java
        children = items(java.children())
        if name == "With":
            return self._inlined(java, common or {})
        if [simple_name(child) for child in children] == ["With"] and name in SHARING:
            return self.rebound(children[0], common)
        try:
            return self.jvm.with_children(java, [self.rebound(child, common) for child in children])
        except Py4JJavaError:
            raise NotTraceable(
                f"{name} cannot be traced",
                detail="Spark lets this expression stand only in the query it was made for",
                hint=_INSTEAD.get(name, "write this part to a table first and read it from there"),
            ) from None

    def _inlined(self, java: JavaObject, common: Mapping[int, JavaObject]) -> JavaObject:
        inner = dict(common)
        for definition in items(java.defs()):
            if not definition.deterministic():
                raise NotTraceable(
                    "a random value that is compared more than once cannot be traced",
                    detail=f"it is drawn once in {java.sql()}",
                    hint="give it a column of its own first: df.withColumn('r', F.rand())",
                )
            inner[definition.id().id()] = self.rebound(definition.child(), common)
        return self.rebound(java.child(), inner)

    def _part(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        """The expression and its type; an opaque one where it is not understood."""
        name = simple_name(java)
        if name == "Alias":
            return self._part(java.child(), common)
        if name == "AttributeReference":
            return Column(self.names.of(java)), data_type(java.dataType())
        try:
            expression, given = self._understood(name, java, common)
            if given != data_type(java.dataType()):
                raise _NotUnderstood
            return expression, given
        except (_NotUnderstood, PlanError):
            if common:
                # Its text and handle would name what only the replacement's frame around it defines.
                raise _NotUnderstood from None
            opaque = self.opaque(java)
            return opaque, opaque.type

    def _understood(self, name: str, java: JavaObject, common: dict[int, Typed]) -> Typed:
        if name in FUNCTIONS:
            return self._call(FUNCTIONS[name], java.children(), common)
        if name in ARITHMETIC:
            return self._arithmetic(ARITHMETIC[name], java, common)
        if name in TRIMS and java.children().size() == 1:
            return self._call(TRIMS[name], java.children(), common)
        if name in CLOCKS:
            return self._clock(CLOCKS[name], java, common)
        if name in INTERVAL_SUMS:
            return self._interval_sum(java, common)
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, java, common)
        if self.jvm.is_a(java, EXPRESSIONS + "RuntimeReplaceable"):
            return self._part_inside(java.replacement(), common)
        raise _NotUnderstood

    def _part_inside(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        """A replacement: understood whole or not at all, because only the wrapper has a text."""
        expression, given = self._part(java, common)
        if isinstance(expression, Opaque):
            raise _NotUnderstood
        return expression, given

    def _call(self, function: str, children: JavaObject, common: dict[int, Typed]) -> Typed:
        return _typed_call(function, [self._part(child, common) for child in items(children)])

    def _arithmetic(self, function: str, java: JavaObject, common: dict[int, Typed]) -> Typed:
        call, given = self._call(function, java.children(), common)
        floating = given in (FLOAT, DOUBLE) and function in NEVER_FAILS
        if not floating and not is_ansi(java):
            raise _NotUnderstood
        return call, given

    def _clock(self, function: str, java: JavaObject, common: dict[int, Typed]) -> Typed:
        call, given = self._call(function, java.children(), common)
        if not self._in_utc(java) and data_type(java.child().dataType()) != TIMESTAMP_NTZ:
            raise _NotUnderstood
        return call, given

    def _interval_sum(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        start, interval = items(java.children())
        if not self._in_utc(java) and data_type(start.dataType()) != TIMESTAMP_NTZ:
            raise _NotUnderstood  # a day of the session's calendar may have 23 hours
        literal = interval_of(interval)
        if literal is None:
            raise _NotUnderstood
        return _typed_call("+", [self._part(start, common), (literal, INTERVAL)])

    def _in_utc(self, java: JavaObject) -> bool:
        """Whether an expression reads its clock in UTC: its own time zone, set when it was analyzed, counts."""
        own = element(java, "timeZoneId")
        zone = None if own is None else option(own)
        return self.utc if zone is None else str(zone) in UTC_ZONES

    def _precise_time(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        to_micros = data_type(java.dataType()) == BIGINT
        return self._call("unix_micros" if to_micros else "timestamp_micros", java.children(), common)

    def _literal(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        literal = literal_of(java, data_type(java.dataType()))
        if literal is None:
            raise _NotUnderstood
        return literal, literal.type

    def _not(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        child, given = self._part(java.child(), common)
        if isinstance(child, Call) and child.function == "=":
            return Call("!=", child.arguments), BOOLEAN
        return _typed_call("not", [(child, given)])

    def _cast(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        child, source = self._part(java.child(), common)
        target = data_type(java.dataType())
        if source == target:
            return child, target
        functions.check_cast(source, target)
        if not is_ansi(java) and target not in WIDENINGS.get(source, ()):
            raise _NotUnderstood
        if (
            not self._in_utc(java)
            and {source, target} & {TIMESTAMP}
            and {source, target} & {STRING, DATE, TIMESTAMP_NTZ}
        ):
            raise _NotUnderstood
        return Cast(child, target), target

    def _case_when(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        parts = [self._part(child, common) for child in items(java.children())]
        given = next(iter({t for _, t in parts[1::2]}), data_type(java.dataType()))
        otherwise = parts.pop() if len(parts) % 2 else (Literal(None, given), given)
        branches = tuple((w[0], t[0]) for w, t in zip(parts[::2], parts[1::2], strict=True))
        return Case(branches, otherwise[0]), _one([t for _, t in [*parts[1::2], otherwise]])

    def _if(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        when, then, otherwise = (self._part(child, common) for child in items(java.children()))
        return Case(((when[0], then[0]),), otherwise[0]), _one([then[1], otherwise[1]])

    def _in(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        if java.children().size() < 2:
            raise _NotUnderstood
        return self._call("in", java.children(), common)

    def _null_if(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        # Only its replacement has the casts; where there are none, the wrapper says the same.
        return _typed_call("nullif", [self._part(java.left(), common), self._part(java.right(), common)])

    def _like(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        if str(java.escapeChar()) != "\\":
            raise _NotUnderstood
        return self._call("like", java.children(), common)

    def _concat(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        is_array = isinstance(data_type(java.dataType()), ArrayType)
        return self._call("array_concat" if is_array else "concat", java.children(), common)

    def _array(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        if java.children().size() == 0:
            raise _NotUnderstood
        return self._call("array", java.children(), common)

    def _size(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        child, given = self._part(java.child(), common)
        if element(java, "legacySizeOfNull") or not isinstance(given, ArrayType):
            raise _NotUnderstood
        return _typed_call("size", [(child, given)])

    def _member(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        child, given = self._part(java.child(), common)
        if not isinstance(given, StructType):
            raise _NotUnderstood
        member = given.fields[java.ordinal()]
        if sum(f.name.lower() == member.name.lower() for f in given.fields) > 1:
            raise _NotUnderstood
        return Member(child, member.name), member.type

    def _date_sub(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        start, days = (self._part(child, common) for child in items(java.children()))
        match days[0]:
            case Literal(int() as count) if abs(count) < 2**31:
                return _typed_call("date_add", [start, (Literal(-count, INT), days[1])])
            case _:
                raise _NotUnderstood

    def _with(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        inner = dict(common)
        for definition in items(java.defs()):
            if not definition.deterministic():
                raise _NotUnderstood
            inner[definition.id().id()] = self._part(definition.child(), common)
        return self._part(java.child(), inner)

    def _reference(self, java: JavaObject, common: dict[int, Typed]) -> Typed:
        found = common.get(java.id().id())
        if found is None:
            raise _NotUnderstood
        return found

    def _aggregate(self, java: JavaObject) -> AggregateCall:
        if simple_name(java) != "AggregateExpression":
            raise _NotUnderstood
        function = java.aggregateFunction()
        given = data_type(java.dataType())
        name = AGGREGATES.get(simple_name(function))
        if name is None and self.jvm.is_a(function, EXPRESSIONS + "RuntimeReplaceable"):
            function = function.replacement()
            name = AGGREGATES.get(simple_name(function))
        if name is None:
            raise _NotUnderstood
        parts = [self._part(child, {}) for child in items(function.children())]
        if name == "count" and [e for e, _ in parts] == [Literal(1, INT)] and not java.isDistinct():
            parts = []
        if name == "count" and len(parts) > 1:
            raise _NotUnderstood
        if name in ("sum", "avg") and given != DOUBLE and not is_ansi(function):
            raise _NotUnderstood
        if name in functions.ORDER_DEPENDENT_AGGREGATES and element(function, "ignoreNulls") is False:
            raise _NotUnderstood
        if functions.aggregate_result_type(name, [t for _, t in parts]) != given:
            raise _NotUnderstood
        condition = option(java.filter())
        return AggregateCall(
            name,
            tuple(e for e, _ in parts),
            distinct=bool(java.isDistinct()),
            filter=None if condition is None else self._part(condition, {})[0],
        )


_SPECIAL: dict[str, Callable[[ExpressionLifter, JavaObject, dict[int, Typed]], Typed]] = {
    "Literal": ExpressionLifter._literal,
    "PreciseTimestampConversion": ExpressionLifter._precise_time,
    "Not": ExpressionLifter._not,
    "Cast": ExpressionLifter._cast,
    "CaseWhen": ExpressionLifter._case_when,
    "If": ExpressionLifter._if,
    "In": ExpressionLifter._in,
    "NullIf": ExpressionLifter._null_if,
    "Like": ExpressionLifter._like,
    "Concat": ExpressionLifter._concat,
    "CreateArray": ExpressionLifter._array,
    "Size": ExpressionLifter._size,
    "GetStructField": ExpressionLifter._member,
    "DateSub": ExpressionLifter._date_sub,
    "With": ExpressionLifter._with,
    "CommonExpressionRef": ExpressionLifter._reference,
}


def is_ansi(java: JavaObject) -> bool:
    """Whether an expression fails where ANSI SQL does, instead of giving null or wrapping around."""
    mode = element(java, "evalMode")
    if mode is None:
        context = element(java, "evalContext")
        mode = None if context is None else context.evalMode()
    if mode is not None:
        return str(mode.toString()) == "ANSI"
    return element(java, "failOnError") is True


def subquery(classes: frozenset[str]) -> NotTraceable:
    """The refusal of a subquery that is still an expression."""
    return NotTraceable(
        f"a subquery cannot be traced: {', '.join(sorted(classes))}",
        detail="only subqueries that Spark turns into joins are traced so far; this one is a value of its own",
        hint="compute it in a DataFrame of its own and cross join it",
    )


def _typed_call(function: str, parts: list[Typed]) -> Typed:
    given = functions.result_type(function, [t for _, t in parts])
    if isinstance(given, DecimalType) and function in ("+", "-", "*", "%"):
        raise _NotUnderstood
    return Call(function, tuple(e for e, _ in parts)), given


def _one(types: list[DataType]) -> DataType:
    if len(set(types)) != 1:
        raise _NotUnderstood
    return types[0]


def survey(java: JavaObject) -> tuple[frozenset[str], list[JavaObject]]:
    """The class names of all parts of an expression, and the columns it reads, each once, in order."""
    classes: set[str] = set()
    columns: dict[int, JavaObject] = {}
    stack = [java]
    while stack:
        part = stack.pop()
        name = simple_name(part)
        classes.add(name)
        if name == "AttributeReference":
            columns.setdefault(part.exprId().id(), part)
        else:
            stack.extend(reversed(items(part.children())))
    return frozenset(classes), list(columns.values())
