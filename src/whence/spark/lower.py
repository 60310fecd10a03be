"""Lower: from a plan to a Spark DataFrame that means the same, with the user's own expressions where they are known.

One rule a node kind. Catalyst nodes are put together over attributes whose expression ids are known here, so that
names which differ by case, or hold dots, cannot be confused; the analyzer runs once, over the whole. Only handles
and texts find their columns by name. A node that is used twice is lowered twice, because Catalyst knows trees only.
Expressions are lowered in `lower_expressions`, windows of both kinds in `lower_windows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from whence.errors import NotTraceable
from whence.plan.expressions import Aggregate, AggregateCall, Column, Expression, Literal, Opaque
from whence.plan.hidden import PREFIX
from whence.plan.nodes import (
    Analytic,
    Deduplicate,
    Distinct,
    EventWindow,
    Filter,
    Generate,
    Group,
    Join,
    Limit,
    Node,
    OpaqueStep,
    Order,
    Project,
    SetOperation,
    Sort,
    Source,
    Union,
    Values,
    Watermark,
    label,
    names,
)
from whence.plan.types import BOOLEAN, INT, VOID, ArrayType, DataType, StructType
from whence.spark.handles import Handles
from whence.spark.jvm import (
    ANALYSIS,
    EXPRESSIONS,
    LOGICAL,
    JavaObject,
    Jvm,
    analyzed,
    items,
    simple_name,
)
from whence.spark.literals import Literals
from whence.spark.lower_columns import Lowered
from whence.spark.lower_expressions import ExpressionLowerer, Scope, unknown_part
from whence.spark.lower_inputs import lower_opaque_step, lower_source, lower_values, lower_watermark
from whence.spark.lower_windows import lower_analytic, lower_event_window
from whence.spark.types import data_type, is_known

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JOINS = {
    "inner": "inner",
    "left": "leftouter",
    "right": "rightouter",
    "full": "fullouter",
    "semi": "leftsemi",
    "anti": "leftanti",
}
MOST = 2**31 - 1
"""The largest limit Spark takes."""


def lower(jvm: Jvm, plan: Node, tables: Mapping[str, DataFrame], handles: Handles | None = None) -> DataFrame:
    """A DataFrame of the plan's rows: its columns are those of the plan, by name, in order, of the plan's types.

    ``tables`` has a DataFrame for each source, with all columns that its nodes ask for, also the hidden ones.
    """
    lowerer = Lowerer(jvm, dict(tables), handles or Handles())
    with refusing(plan):
        result = lowerer.exactly(lowerer.lower(plan), names(plan))
        df = jvm.frame(result.plan)
        _check_types(plan, items(analyzed(df).output()))
    return df


def _check_types(plan: Node, made: list[JavaObject]) -> None:
    for column, attribute in zip(plan.schema, made, strict=True):
        given = data_type(attribute.dataType())
        if given != column.type:
            raise NotTraceable(
                f"Spark gives {column.name!r} another type than the plan",
                detail=f"the plan of {label(plan)} says {column.type}, Spark says {given}",
                hint="ask with the Spark version and the settings that the run recorded",
            )


@contextmanager
def refusing(plan: Node) -> Iterator[None]:
    """Spark's analyzer refuses what it cannot run; so does whence, in its own words."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as failed:
        raise NotTraceable(
            f"Spark refuses the plan of {label(plan)}",
            detail=str(failed).partition("\n")[0],
            hint="ask about an earlier step, or write this part of the query another way",
        ) from None


@dataclass(frozen=True, slots=True)
class Lowerer:
    """Lowers one plan."""

    jvm: Jvm
    tables: dict[str, DataFrame]
    handles: Handles
    literals: Literals = field(init=False)
    expressions: ExpressionLowerer = field(init=False)
    leaves: dict[str, tuple[JavaObject, dict[str, JavaObject]]] = field(default_factory=dict)
    _shared: dict[str, JavaObject] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "literals", Literals(self.jvm))
        object.__setattr__(self, "expressions", ExpressionLowerer(self.jvm, self.handles, self.literals))

    # Trees deeper than Python's stack come from queries made in loops; Spark itself refuses them before Python does.
    def lower(self, node: Node) -> Lowered:
        """The Catalyst plan of a node, not analyzed yet."""
        match node:
            case Source():
                return lower_source(self, node)
            case Values():
                return lower_values(self, node)
            case Project():
                return self._project(node)
            case Filter():
                return self._filter(node)
            case Generate():
                return self._generate(node)
            case Union():
                return self._union(node)
            case Join():
                return self._join(node)
            case EventWindow():
                return lower_event_window(self, node)
            case Group():
                return self._group(node)
            case Distinct():
                below = self.exactly(self.lower(node.child), names(node))
                return self.over(below, self.jvm.logical("Distinct", below.plan))
            case Deduplicate():
                return self._deduplicate(node)
            case SetOperation():
                return self._set_operation(node)
            case Sort():
                below = self.ready(self.lower(node.child), [o.expression for o in node.orders])
                orders = self.orders(node.orders, self.scope(node.child, below))
                if not orders:
                    return below
                sort = self.jvm.construct(LOGICAL + "Sort", self.jvm.seq(orders), True, below.plan, self.jvm.none())
                return self.over(below, sort)
            case Limit():
                return self._limit(node)
            case Analytic():
                return lower_analytic(self, node)
            case Watermark():
                return lower_watermark(self, node)
            case OpaqueStep():
                return lower_opaque_step(self, node)
            case _:
                assert_never(node)

    # Tools the rules share.

    def scope(self, node: Node, below: Lowered) -> Scope:
        """What expressions over a node's result may name."""
        return Scope(node.schema, below.columns)

    def over(self, below: Lowered, plan: JavaObject) -> Lowered:
        """The same columns from a node on top."""
        return replace(below, plan=plan)

    def column(self, name: str, type: DataType, java: JavaObject) -> tuple[JavaObject, JavaObject]:
        """An expression under a name, and the attribute it will be."""
        identity = self._identity()
        alias = self.jvm.alias(java, name, identity)
        return alias, self.attribute(name, type, identity)

    def attribute(self, name: str, type: DataType, identity: JavaObject = None) -> JavaObject:
        """A column of a type. One of a type that plans do not know holds a place until the analyzer has been asked."""
        metadata = self._shared.get("metadata")
        if metadata is None:
            metadata = self._shared["metadata"] = self.jvm.type("org.apache.spark.sql.types.Metadata").empty()
            self._shared["nothing"] = self.jvm.seq(())
        return self.jvm.expression(
            "AttributeReference",
            name,
            self.literals.java_type(type if is_known(type) else VOID),
            True,
            metadata,
            identity or self._identity(),
            self._shared["nothing"],
        )

    def _identity(self) -> JavaObject:
        maker = self._shared.get("identity")
        if maker is None:
            maker = self._shared["identity"] = self.jvm.type(EXPRESSIONS + "NamedExpression").newExprId
        return maker()

    def settled(self, made: Lowered, types: Iterable[DataType] = ()) -> Lowered:
        """With attributes as the analyzer has them, where more than their type matters or that is not known.

        Spark tells event times and windows by what it notes on attributes, and needs that on streams.
        """
        if all(is_known(t) for t in types) and not made.plan.isStreaming():
            return made
        plan = self.jvm.analyze(made.plan)
        found = {a.exprId().id(): a for a in items(plan.output())}
        return replace(made, plan=plan, columns={n: found[a.exprId().id()] for n, a in made.columns.items()})

    def exactly(self, below: Lowered, wanted: Iterable[str] | None = None) -> Lowered:
        """With exactly its columns, in order, under their names, no attribute twice."""
        order = list(below.columns if wanted is None else wanted)
        if below.tidy and order == list(below.columns):
            return below
        parts: list[JavaObject] = []
        columns: dict[str, JavaObject] = {}
        seen: set[int] = set()
        for name in order:
            attribute = below.columns[name]
            identity = id(attribute)
            if below.labels[name] == name and identity not in seen:
                parts.append(attribute)
                columns[name] = attribute
            else:
                alias = self.jvm.alias(attribute, name)
                parts.append(alias)
                columns[name] = alias.toAttribute()
            seen.add(identity)
        plan = self.jvm.project(parts, below.plan)
        return Lowered(plan, columns, {name: name for name in order}, True)

    def ready(self, below: Lowered, expressions: Iterable[Expression | Aggregate]) -> Lowered:
        """Tidy where an expression will look for its columns by name."""
        if below.tidy or not any(self.expressions.names_columns(e) for e in expressions):
            return below
        return self.exactly(below)

    def extended(self, below: Lowered, made: list[tuple[str, DataType, JavaObject]]) -> Lowered:
        """With more columns beside those that are there."""
        parts = _once(below.columns.values())
        columns, labels = dict(below.columns), dict(below.labels)
        for name, type, java in made:
            alias, columns[name] = self.column(name, type, java)
            labels[name] = name
            parts.append(alias)
        tidy = len(parts) == len(columns) and all(labels[name] == name for name in columns)
        wide = Lowered(self.jvm.project(parts, below.plan), columns, labels, tidy)
        return self.settled(wide, [type for _, type, _ in made])

    def orders(self, orders: tuple[Order, ...], scope: Scope) -> list[JavaObject]:
        """A sort order. Constants order nothing, and Spark takes whole numbers among them for places of columns."""
        return [
            self.jvm.expression(
                "SortOrder",
                self.expressions.lower(order.expression, scope),
                self.jvm.module(EXPRESSIONS + ("Descending" if order.descending else "Ascending")),
                self.jvm.module(EXPRESSIONS + ("NullsFirst" if order.nulls_first else "NullsLast")),
                self.jvm.seq(()),
            )
            for order in orders
            if not isinstance(order.expression, Literal)
        ]

    # Rules, one a node kind.

    def join_type(self, name: str) -> JavaObject:
        return self.jvm.type("org.apache.spark.sql.catalyst.plans.JoinType").apply(name)

    def no_hint(self) -> JavaObject:
        return self.jvm.type(LOGICAL + "JoinHint").NONE()

    def _project(self, node: Project) -> Lowered:
        below = self.lower(node.child)
        if all(isinstance(c.expression, Column) for c in node.columns):
            sources = {c.name: c.expression.name for c in node.columns if isinstance(c.expression, Column)}
            tidy = below.tidy and list(sources.items()) == [(n, n) for n in below.columns]
            return Lowered(
                below.plan,
                {name: below.columns[of] for name, of in sources.items()},
                {name: below.labels[of] for name, of in sources.items()},
                tidy,
            )
        below = self.ready(below, [c.expression for c in node.columns])
        scope = self.scope(node.child, below)
        kept = [c for c in node.columns if isinstance(c.expression, Column)]
        made = []
        for c in node.columns:
            if not isinstance(c.expression, Column):
                made.append((c.name, scope.type(c.expression), self.expressions.lower(c.expression, scope)))
        passed = Lowered(
            below.plan,
            {c.name: below.columns[c.expression.name] for c in kept if isinstance(c.expression, Column)},
            {c.name: below.labels[c.expression.name] for c in kept if isinstance(c.expression, Column)},
            False,
        )
        wide = self.extended(passed, made)
        order = names(node)
        tidy = wide.tidy and tuple(wide.columns) == order
        return Lowered(wide.plan, {n: wide.columns[n] for n in order}, {n: wide.labels[n] for n in order}, tidy)

    def _filter(self, node: Filter) -> Lowered:
        below = self.ready(self.lower(node.child), [node.condition])
        condition = self.condition(node.condition, self.scope(node.child, below))
        return self.over(below, self.jvm.logical("Filter", condition, below.plan))

    def condition(self, expression: Expression, scope: Scope) -> JavaObject:
        """A condition; the untyped null is never true."""
        if scope.type(expression) != BOOLEAN:
            return self.literals.of(Literal(None, BOOLEAN))
        return self.expressions.lower(expression, scope)

    def _generate(self, node: Generate) -> Lowered:
        below = self.ready(self.lower(node.child), [node.expression])
        scope = self.scope(node.child, below)
        place = () if node.position is None else ((node.position, INT),)
        inline: StructType | None = None
        if isinstance(node.expression, Opaque):
            generator = self._opaque_generator(node, node.expression, scope, below)
            made: list[tuple[str, DataType]] = [(f.name, f.type) for f in node.columns]
        else:
            given = scope.type(node.expression)
            java = self.expressions.lower(node.expression, scope)
            generator = self.jvm.expression("Explode" if node.position is None else "PosExplode", java)
            made = [*place, *((f.name, f.type) for f in node.columns)]
            if node.inline:
                assert isinstance(given, ArrayType) and isinstance(given.element, StructType)
                # Inline has no position; the struct is taken apart after, where null gives null members.
                inline = given.element
                made = [*place, ("", inline)]
        attributes = [self.attribute(name, type) for name, type in made]
        if not all(is_known(type) for _, type in made):
            attributes = self._generated(generator, below, [name for name, _ in made])
        plan = self.jvm.logical(
            "Generate", generator, self.jvm.seq(()), node.outer, self.jvm.none(), self.jvm.seq(attributes), below.plan
        )
        new = {name: a for (name, _), a in zip(made, attributes, strict=True)}
        struct = new.pop("", None) if inline is not None else None
        columns, labels = {**below.columns, **new}, {**below.labels, **{name: name for name in new}}
        result = self.settled(Lowered(plan, columns, labels, below.tidy and inline is None))
        if inline is None:
            return result
        parts = [
            (column.name, column.type, self.expressions.member(struct, inline, member.name))
            for column, member in zip(node.columns, inline.fields, strict=True)
        ]
        return self.extended(result, parts)

    def _generated(self, generator: JavaObject, below: Lowered, labels: list[str]) -> list[JavaObject]:
        """The attributes of a generator whose types only the analyzer knows."""
        parts = [self.jvm.attribute(name) for name in labels]
        plan = self.jvm.logical(
            "Generate", generator, self.jvm.seq(()), True, self.jvm.none(), self.jvm.seq(parts), below.plan
        )
        return items(self.jvm.analyze(plan).generatorOutput())

    def _opaque_generator(self, node: Generate, opaque: Opaque, scope: Scope, below: Lowered) -> JavaObject:
        if node.position is not None:
            raise NotTraceable(
                f"the rows that {label(node)} makes cannot be counted",
                detail=f"{opaque.key} is known by what it gives only",
                hint="leave the position out",
            )
        handle = self.handles.opaque.get(opaque.key)
        if handle is not None:
            return handle
        if opaque.text is None:
            raise unknown_part(opaque.key)
        column = self.jvm.type(ANALYSIS + "UnresolvedAlias")(self.expressions.parse(opaque), self.jvm.none())
        found = self.jvm.analyze(self.jvm.project([column], below.plan))
        while simple_name(found) != "Generate":
            found = items(found.children())[0]
        return found.generator()

    def _union(self, node: Union) -> Lowered:
        inputs = [self.exactly(self.lower(child), names(child)) for child in node.children]
        plan = self.jvm.logical("Union", self.jvm.seq([i.plan for i in inputs]), False, False)
        first = inputs[0]
        return self.settled(self.over(first, plan))

    def _join(self, node: Join) -> Lowered:
        left, right = self.lower(node.left), self.lower(node.right)
        if node.condition is not None:
            left, right = self.ready(left, [node.condition]), self.ready(right, [node.condition])
        condition, kind = self.jvm.none(), JOINS[node.kind]
        if node.condition is not None:
            both = Scope(node.left.schema + node.right.schema, {**left.columns, **right.columns})
            condition = self.jvm.some(self.condition(node.condition, both))
        elif node.kind == "inner":
            kind = "cross"
        plan = self.jvm.logical("Join", left.plan, right.plan, self.join_type(kind), condition, self.no_hint())
        if node.kind in ("semi", "anti"):
            return self.over(left, plan)
        joined = Lowered(
            plan, {**left.columns, **right.columns}, {**left.labels, **right.labels}, left.tidy and right.tidy
        )
        return self.settled(joined)

    def _group(self, node: Group) -> Lowered:
        below = self.lower(node.child)
        wanted: list[Expression | Aggregate] = [k.expression for k in node.keys]
        below = self.ready(below, [*wanted, *(a.aggregate for a in node.aggregates)])
        # Keys become columns first: Spark takes whole numbers among them for places of columns.
        scope = self.scope(node.child, below)
        made = [
            (f"{PREFIX}key_{place}", scope.type(k.expression), self.expressions.lower(k.expression, scope))
            for place, k in enumerate(node.keys)
            if not isinstance(k.expression, Column)
        ]
        wide = self.extended(below, made) if made else below
        keys, labels = {}, {}
        for place, k in enumerate(node.keys):
            of = k.expression.name if isinstance(k.expression, Column) else f"{PREFIX}key_{place}"
            keys[k.name], labels[k.name] = wide.columns[of], wide.labels[of]
        results = _once(keys.values())
        columns = dict(keys)
        for a in node.aggregates:
            java = self.expressions.lower_aggregate(a.aggregate, scope)
            alias, columns[a.name] = self.column(a.name, node.schema[len(columns)].type, java)
            labels[a.name] = a.name
            results.append(alias)
        if not results:
            # One row without columns; Catalyst needs something to compute.
            counted = self.expressions.lower_aggregate(AggregateCall("count"), scope)
            results = [self.jvm.alias(counted, "n")]
        plan = self.jvm.logical(
            "Aggregate", self.jvm.seq(_once(keys.values())), self.jvm.seq(results), wide.plan, self.jvm.none()
        )
        tidy = len(results) == len(columns) and all(labels[name] == name for name in columns)
        return self.settled(Lowered(plan, columns, labels, tidy), [f.type for f in node.schema])

    def _deduplicate(self, node: Deduplicate) -> Lowered:
        below = self.exactly(self.lower(node.child))
        keys = self.jvm.seq([below.columns[k] for k in node.keys])
        if node.within_watermark:
            if not below.plan.isStreaming():
                raise NotTraceable(
                    f"{label(node)} within a watermark means nothing in a batch",
                    detail="it forgets keys as the watermark passes",
                    hint="ask a question about a stream with the epochs its run recorded",
                )
            return self.over(
                below, self.jvm.construct(LOGICAL + "DeduplicateWithinWatermark", keys, below.plan, self.jvm.none())
            )
        return self.over(below, self.jvm.construct(LOGICAL + "Deduplicate", keys, below.plan, self.jvm.none()))

    def _set_operation(self, node: SetOperation) -> Lowered:
        left = self.exactly(self.lower(node.left), names(node.left))
        right = self.exactly(self.lower(node.right), names(node.right))
        kind = "Intersect" if node.kind == "intersect" else "Except"
        return self.over(left, self.jvm.logical(kind, left.plan, right.plan, node.all))

    def _limit(self, node: Limit) -> Lowered:
        below = self.lower(node.child)
        plan = below.plan
        if max(node.count or 0, node.offset) > MOST:
            raise NotTraceable(
                f"{label(node)} counts further than Spark does",
                detail=f"at most {MOST}",
                hint="leave the limit out",
            )
        if node.offset:
            plan = self.jvm.logical("Offset", self.literals.of(Literal(node.offset, INT)), plan)
        if node.count is not None:
            count = self.literals.of(Literal(node.count, INT))
            plan = self.jvm.logical("GlobalLimit", count, self.jvm.logical("LocalLimit", count, plan))
        return self.over(below, plan)


def _once(attributes: Iterable[JavaObject]) -> list[JavaObject]:
    """The attributes, none twice."""
    found: dict[int, JavaObject] = {id(a): a for a in attributes}
    return list(found.values())
