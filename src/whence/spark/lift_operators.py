"""Lift operators: one Catalyst node to the plan nodes it becomes, for each class of node that whence knows.

Each recipe names the Catalyst inputs to lift first and how to make the node over them; the walk over the plan is in
`lift`. Columns keep the name of their expression id throughout, so nodes that pass columns on do nothing. What is
not here is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from py4j.java_gateway import get_field

from whence.errors import NotTraceable
from whence.plan.expressions import Column, Literal
from whence.plan.nodes import (
    Deduplicate,
    Distinct,
    EventWindow,
    Filter,
    Generate,
    Join,
    JoinKind,
    Limit,
    Named,
    Node,
    OpaqueKind,
    OpaqueStep,
    Project,
    SetOperation,
    Sort,
    Source,
    Union,
    Values,
    Watermark,
    names,
)
from whence.plan.types import BOOLEAN, ArrayType, Field, MapType, Schema, StructType
from whence.spark.event_windows import SESSION_MARKER, match_window
from whence.spark.handles import StepHandle
from whence.spark.jvm import JavaObject, Jvm, items, option, simple_name
from whence.spark.leaves import Leaf, find
from whence.spark.lift_analytics import lift_analytic, lift_orders
from whence.spark.lift_expressions import ExpressionLifter
from whence.spark.lift_groups import lift_group
from whence.spark.names import identity_of, outline
from whence.spark.types import data_type

PASSED = frozenset(
    {
        "View",
        "PipeOperator",
        "ResolvedHint",
        "CollectMetrics",
        "Repartition",
        "RepartitionByExpression",
        "RebalancePartitions",
        "LimitAll",
        "Subquery",
    }
)
"""Nodes that keep rows and columns as they are."""
LAYOUT = frozenset({"Repartition", "RepartitionByExpression", "RebalancePartitions", "Sort"})

JOINS: dict[str, JoinKind] = {
    "Inner": "inner",
    "Cross": "inner",
    "LeftOuter": "left",
    "RightOuter": "right",
    "FullOuter": "full",
    "LeftSemi": "semi",
    "LeftAnti": "anti",
}

WHOLE_TABLE = frozenset({"MapInPandas", "MapInArrow", "PythonMapInArrow"})
BY_GROUP = frozenset({"FlatMapGroupsInPandas", "FlatMapGroupsInArrow"})

STATEFUL = "what it emits depends on state that only the running query has"
REFUSED: dict[str, tuple[str, str]] = {
    "Sample": (
        "which rows it draws depends on how the rows are spread over partitions",
        "draw by value instead: df.where('rand(7) < 0.1'), or hash a key",
    ),
    "AsOfJoin": ("the nearest match is not an operator of plans", "write it as a join and a window"),
    "FlatMapGroupsInPandasWithState": (STATEFUL, "group by a window and aggregate instead"),
    "TransformWithState": (STATEFUL, "group by a window and aggregate instead"),
    "TransformWithStateInPySpark": (STATEFUL, "group by a window and aggregate instead"),
    "TransformWithStateInPandas": (STATEFUL, "group by a window and aggregate instead"),
    "FlatMapGroupsWithState": (STATEFUL, "group by a window and aggregate instead"),
    "FlatMapCoGroupsInPandas": (
        "a function over two grouped inputs is not an operator of plans",
        "join the inputs first and use applyInPandas on the result",
    ),
    "FlatMapCoGroupsInArrow": (
        "a function over two grouped inputs is not an operator of plans",
        "join the inputs first and use applyInArrow on the result",
    ),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """The Catalyst inputs of a node, and what makes it over their lifted forms, in order."""

    inputs: tuple[JavaObject, ...]
    make: Callable[..., Node]


@dataclass(frozen=True, slots=True)
class OperatorLifter:
    """Lifts the operators of one plan; keeps the handles of opaque steps and the aliases that name steps."""

    expressions: ExpressionLifter
    leaves: tuple[Leaf, ...]
    aliases: dict[Node, str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    @property
    def jvm(self) -> Jvm:
        """The JVM of the query."""
        return self.expressions.jvm

    def recipe(self, java: JavaObject) -> Recipe:
        """How to lift a Catalyst node; a NotTraceable error that names it where there is no way."""
        kind = simple_name(java)
        if kind in ("Project", "Filter"):
            window = match_window(self.jvm, java)
            if window is not None:
                return Recipe(
                    (window.child,),
                    lambda child: EventWindow(
                        child,
                        self._name(window.attribute),
                        self.expressions.lift(window.time),
                        window.size,
                        window.slide,
                        window.offset,
                    ),
                )
        if kind in PASSED:
            return Recipe((java.child(),), lambda child: child)
        if kind in WHOLE_TABLE:
            return self._function(java, "black_box")
        if kind in BY_GROUP:
            return self._function(java, "per_group")
        method = _RECIPES.get(kind)
        if method is not None:
            return method(self, java)
        if java.children().isEmpty():
            return Recipe((), lambda: self._source(java))
        why, hint = REFUSED.get(
            kind, ("plans have no such operator", "write this part to a table first and read it from there")
        )
        raise NotTraceable(f"{kind} cannot be traced", detail=why, hint=hint)

    def positional(self, plan: Node, attributes: Sequence[tuple[int, str]]) -> Node:
        """The plan with exactly these columns in their order; a column that is there twice gets a second name."""
        wanted: list[Named] = []
        met: set[str] = set()
        for identity, name in attributes:
            own = self.expressions.names.by_id[identity]
            called = own if own not in met else self.expressions.names.fresh(name)
            met.add(called)
            wanted.append(Named(called, Column(own)))
        if [n.name for n in wanted] == list(names(plan)):
            return plan
        return Project(plan, tuple(wanted))

    def _name(self, attribute: JavaObject) -> str:
        return self.expressions.names.of(attribute)

    def _source(self, java: JavaObject) -> Node:
        leaf = find(self.jvm, self.leaves, java)
        source = Source(leaf.name, leaf.fields)
        own = {f.name.lower(): f.name for f in leaf.fields}
        columns = [
            Named(self.expressions.names.by_id[i], Column(own[name.lower()])) for i, name in outline(java.output())
        ]
        if all(c.name == f.name for c, f in zip(columns, leaf.fields, strict=False)) and len(columns) == len(own):
            return source
        return Project(source, tuple(columns))

    def _one_row(self, java: JavaObject) -> Recipe:
        return Recipe((), lambda: Values((), ((),)))

    def _alias(self, java: JavaObject) -> Recipe:
        name = str(java.identifier().name())

        def make(child: Node) -> Node:
            # Names that Spark makes up say nothing.
            if not name.startswith(("__", "_pyspark_")):
                self.aliases[child] = name
            return child

        return Recipe((java.child(),), make)

    def _project(self, java: JavaObject) -> Recipe:
        def make(child: Node) -> Node:
            columns = {}
            for column in items(java.projectList()):
                if column.metadata().contains(SESSION_MARKER) and simple_name(column) == "Alias":
                    raise NotTraceable(
                        "session_window cannot be traced",
                        detail="how far a session reaches depends on the rows around it, and plans have no operator "
                        "for that yet",
                        hint="group by window(...) instead",
                    )
                columns[self._name(column)] = self.expressions.lift(column)
            made = tuple(Named(name, expression) for name, expression in columns.items())
            if all(n.expression == Column(n.name) for n in made) and [n.name for n in made] == list(names(child)):
                return child
            return Project(child, made)

        return Recipe((java.child(),), make)

    def _filter(self, java: JavaObject) -> Recipe:
        return Recipe((java.child(),), lambda child: Filter(child, self.expressions.lift(java.condition())))

    def _group(self, java: JavaObject) -> Recipe:
        return Recipe((java.child(),), lambda child: lift_group(self.expressions, java, child))

    def _watermark(self, java: JavaObject) -> Recipe:
        delay = java.delay()
        # As Spark counts it: a month has 31 days.
        days = get_field(delay, "months") * 31 + get_field(delay, "days")
        micros = days * 86_400_000_000 + get_field(delay, "microseconds")
        return Recipe((java.child(),), lambda child: Watermark(child, self._name(java.eventTime()), micros))

    def _join(self, java: JavaObject) -> Recipe:
        written = str(java.joinType().toString())
        if written.startswith("ExistenceJoin"):
            return self._existence(java)
        kind = JOINS.get(written)
        if kind is None:
            raise NotTraceable(
                f"a join of kind {written} cannot be traced",
                detail="it fails where a row has more than one match, which no join of plans does",
                hint="aggregate the subquery to one row a key: max(...) instead of a bare column",
            )
        condition = option(java.condition())

        def make(left: Node, right: Node) -> Node:
            on = None if condition is None else self.expressions.lift(condition)
            return Join(left, right, kind, on)

        return Recipe((java.left(), java.right()), make)

    def _existence(self, java: JavaObject) -> Recipe:
        """Rows with a match and rows without, each said to be so."""
        if java.isStreaming() or not java.left().deterministic():
            raise NotTraceable(
                "IN or EXISTS under OR cannot be traced here",
                detail="its left side is a stream or not deterministic, and would have to be read twice",
                hint="split it into a union of two queries",
            )
        condition, exists = option(java.condition()), java.joinType().exists()

        def make(left: Node, right: Node) -> Node:
            on = None if condition is None else self.expressions.lift(condition)
            kept = tuple(Named(n, Column(n)) for n in names(left))
            name = self._name(exists)
            matched = Project(Join(left, right, "semi", on), (*kept, Named(name, Literal(True, BOOLEAN))))
            alone = Project(Join(left, right, "anti", on), (*kept, Named(name, Literal(False, BOOLEAN))))
            return Union((matched, alone))

        return Recipe((java.left(), java.right()), make)

    def _union(self, java: JavaObject) -> Recipe:
        inputs = items(java.children())
        columns = [outline(child.output()) for child in inputs]

        def make(*children: Node) -> Node:
            first = self._first(children[0], columns[0], outline(java.output()))
            return Union((first, *(self.positional(c, o) for c, o in zip(children[1:], columns[1:], strict=True))))

        return Recipe(tuple(inputs), make)

    def _first(self, child: Node, own: list[tuple[int, str]], wanted: list[tuple[int, str]]) -> Node:
        """The input that names the columns of an operator by position."""
        by_id = self.expressions.names.by_id
        pairs = [(by_id[w], by_id[o]) for (w, _), (o, _) in zip(wanted, own, strict=True)]
        if len({w for w, _ in pairs}) < len(pairs):
            return self.positional(child, own)
        if [w for w, _ in pairs] == list(names(child)) and all(w == o for w, o in pairs):
            return child
        return Project(child, tuple(Named(w, Column(o)) for w, o in pairs))

    def _set_operation(self, java: JavaObject) -> Recipe:
        kind = "intersect" if simple_name(java) == "Intersect" else "except"
        left, right = outline(java.left().output()), outline(java.right().output())
        wanted = outline(java.output())

        def make(first: Node, second: Node) -> Node:
            return SetOperation(
                self._first(first, left, wanted),
                self.positional(second, right),
                "intersect" if kind == "intersect" else "except",
                bool(java.isAll()),
            )

        return Recipe((java.left(), java.right()), make)

    def _expand(self, java: JavaObject) -> Recipe:
        """One branch for each grouping set: the row, its columns computed for that set."""
        if not java.child().deterministic():
            raise NotTraceable(
                "grouping sets over a query that is not deterministic cannot be traced",
                detail="each set would have to read it again",
                hint="write the input to a table first and read it from there",
            )
        branches = [items(branch) for branch in items(java.projections())]
        output = items(java.output())

        def make(child: Node) -> Node:
            made = [
                Project(
                    child,
                    tuple(
                        Named(self._name(attribute), self.expressions.lift(value))
                        for attribute, value in zip(output, branch, strict=True)
                    ),
                )
                for branch in branches
            ]
            return made[0] if len(made) == 1 else Union(tuple(made))

        return Recipe((java.child(),), make)

    def _distinct(self, java: JavaObject) -> Recipe:
        return Recipe((java.child(),), Distinct)

    def _deduplicate(self, java: JavaObject) -> Recipe:
        within = simple_name(java) == "DeduplicateWithinWatermark"

        def make(child: Node) -> Node:
            keys = dict.fromkeys(self._name(key) for key in items(java.keys()))
            # In a batch no row is the kept one where all columns are equal; `df.distinct()` is this too.
            if set(keys) == set(names(child)) and not java.isStreaming():
                return Distinct(child)
            return Deduplicate(child, tuple(keys), within)

        return Recipe((java.child(),), make)

    def _sort(self, java: JavaObject) -> Recipe:
        # Within partitions: rows stay the same, and their order says nothing about the whole.
        if not getattr(java, "global")():
            return Recipe((java.child(),), lambda child: child)
        return Recipe((java.child(),), lambda child: Sort(child, lift_orders(self.expressions, java.order())))

    def _limit(self, java: JavaObject) -> Recipe:
        count, below = self._count(java.limitExpr()), java.child()
        if simple_name(below) == "LocalLimit":
            below = below.child()
        if simple_name(below) == "Offset":
            offset = self._count(below.offsetExpr())
            return Recipe((below.child(),), lambda child: Limit(child, count, offset))
        return Recipe((below,), lambda child: Limit(child, count))

    def _offset(self, java: JavaObject) -> Recipe:
        offset = self._count(java.offsetExpr())
        return Recipe((java.child(),), lambda child: Limit(child, None, offset))

    def _count(self, java: JavaObject) -> int:
        return int(java.eval(None))

    def _analytic(self, java: JavaObject) -> Recipe:
        return Recipe((java.child(),), lambda child: lift_analytic(self.expressions, java, child))

    def _generate(self, java: JavaObject) -> Recipe:
        generator = java.generator()
        kind = simple_name(generator)
        outer = bool(java.outer())
        made = tuple(Field(self._name(a), data_type(a.dataType())) for a in items(java.generatorOutput()))

        def make(child: Node) -> Node:
            if kind in ("Explode", "PosExplode", "Inline"):
                position = made[0].name if kind == "PosExplode" else None
                columns = made[1:] if kind == "PosExplode" else made
                given = data_type(generator.child().dataType())
                if _fits(given, columns, kind == "Inline"):
                    value = self.expressions.lift(generator.child())
                    return Generate(child, value, columns, position, outer, kind == "Inline")
            rows = self.expressions.opaque(generator, "generator", ArrayType(StructType(made)))
            return Generate(child, rows, made, outer=outer)

        return Recipe((java.child(),), make)

    def _function(self, java: JavaObject, kind: OpaqueKind) -> Recipe:
        """A user's function over whole rows."""
        below, layout = java.child(), []
        while simple_name(below) in LAYOUT or simple_name(below) == "SubqueryAlias":
            if simple_name(below) == "Sort" and below.global_():
                break
            if simple_name(below) in LAYOUT:
                layout.append(below)
            below = below.child()
        inputs, outputs = items(java.child().output()), items(java.output())
        groups = items(java.groupingAttributes()) if kind == "per_group" else []

        def make(child: Node) -> Node:
            called = {identity_of(a): self._name(a) for a in inputs}
            made = {a.name(): Field(self._name(a), data_type(a.dataType())) for a in outputs}
            # Results that keep a key have it under its own name; so it must be called alike on both sides.
            for key in groups:
                kept = made.get(key.name())
                if kept is not None and kept.type == data_type(key.dataType()):
                    called[identity_of(key)] = kept.name
            child = _renamed(child, {self._name(a): called[identity_of(a)] for a in inputs})
            key = self._key(java)
            self.expressions.handles.steps[key] = StepHandle(
                java,
                tuple((a, called[identity_of(a)]) for a in inputs),
                tuple((a, self._name(a)) for a in outputs),
                tuple(layout),
            )
            return OpaqueStep(
                child,
                kind,
                key,
                tuple(Field(self._name(a), data_type(a.dataType())) for a in outputs),
                keys=tuple(dict.fromkeys(called[identity_of(k)] for k in groups)),
                deterministic=bool(_function_of(java).deterministic()),
            )

        return Recipe((below,), make)

    def _key(self, java: JavaObject) -> str:
        word = str(_function_of(java).name())
        self._counts[word] = number = self._counts.get(word, 0) + 1
        return f"{word}_step_{number}"


def _function_of(java: JavaObject) -> JavaObject:
    return next(e for e in items(java.expressions()) if simple_name(e) == "PythonUDF")


def _fits(given: object, columns: Schema, inline: bool) -> bool:
    """Whether plans know what is generated by structure."""
    match given:
        case ArrayType(StructType(members)) if inline:
            return [m.type for m in members] == [c.type for c in columns]
        case ArrayType(element) if not inline:
            return [element] == [c.type for c in columns]
        case MapType(key, value) if not inline:
            return [key, value] == [c.type for c in columns]
        case _:
            return False


def _renamed(child: Node, called: dict[str, str]) -> Node:
    if all(called.get(name, name) == name for name in names(child)):
        return child
    return Project(child, tuple(Named(called.get(name, name), Column(name)) for name in names(child)))


_RECIPES: dict[str, Callable[[OperatorLifter, JavaObject], Recipe]] = {
    "OneRowRelation": OperatorLifter._one_row,
    "SubqueryAlias": OperatorLifter._alias,
    "Project": OperatorLifter._project,
    "Filter": OperatorLifter._filter,
    "Aggregate": OperatorLifter._group,
    "EventTimeWatermark": OperatorLifter._watermark,
    "Join": OperatorLifter._join,
    "Union": OperatorLifter._union,
    "Intersect": OperatorLifter._set_operation,
    "Except": OperatorLifter._set_operation,
    "Expand": OperatorLifter._expand,
    "Distinct": OperatorLifter._distinct,
    "Deduplicate": OperatorLifter._deduplicate,
    "DeduplicateWithinWatermark": OperatorLifter._deduplicate,
    "Sort": OperatorLifter._sort,
    "GlobalLimit": OperatorLifter._limit,
    "Offset": OperatorLifter._offset,
    "Window": OperatorLifter._analytic,
    "Generate": OperatorLifter._generate,
}

LIFTED = ("Relation", *_RECIPES)
"""What becomes nodes of plans, by Catalyst's class; a relation of whatever class becomes a source."""
