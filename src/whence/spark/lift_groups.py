"""Lift groups: a Catalyst Aggregate as a Group, and a Project where its results are computed from keys and aggregates.

Catalyst mixes keys, aggregates and expressions over both in one list; a Group has keys and aggregates only. So each
key and each aggregate gets a column, once, and what was computed around them stands in a Project on top.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from whence.plan.nodes import Group, Named, NamedAggregate, Node, Project
from whence.spark.jvm import JavaObject, items, simple_name
from whence.spark.lift_expressions import ExpressionLifter
from whence.spark.names import identity_of

NAMED = frozenset({"AttributeReference", "PythonUDF", "PythonUDAF"})
AGGREGATE_CLASSES = frozenset({"AggregateExpression", "PythonUDAF"})


@dataclass(frozen=True, slots=True)
class _Made:
    """Columns of the group by the Catalyst expressions they hold, compared in canonical form."""

    columns: list[tuple[JavaObject, JavaObject]] = field(default_factory=list)

    def find(self, java: JavaObject) -> JavaObject:
        canonical = java.canonicalized()
        return next((attribute for known, attribute in self.columns if known.equals(canonical)), None)

    def add(self, java: JavaObject, attribute: JavaObject) -> None:
        self.columns.append((java.canonicalized(), attribute))


def lift_group(lifter: ExpressionLifter, java: JavaObject, child: Node) -> Node:
    """The group of a Catalyst Aggregate over its lifted input."""
    names = lifter.names
    outputs = items(java.aggregateExpressions())
    made = _Made()
    keys: list[Named] = []
    aggregates: list[NamedAggregate] = []
    for key in items(java.groupingExpressions()):
        if made.find(key) is not None:
            continue
        attribute = key if _keeps_name(lifter, key, outputs) else _attribute_for(lifter, key, outputs)
        made.add(key, attribute)
        keys.append(Named(names.of(attribute), lifter.lift(key)))
    for output in outputs:
        for part in _aggregates_in(output):
            if made.find(part) is not None and part.deterministic():
                continue
            attribute = _attribute_for(lifter, part, outputs)
            made.add(part, attribute)
            aggregates.append(NamedAggregate(names.of(attribute), lifter.lift_aggregate(part)))
    group = Group(child, tuple(keys), tuple(aggregates))
    columns = [(names.of(output), _over_columns(lifter, output, made)) for output in outputs]
    plain = [name for name, over in columns if simple_name(over) == "AttributeReference" and names.of(over) == name]
    if len(plain) == len(columns) and plain == [f.name for f in group.schema]:
        return group
    # One column that is there twice is there once: above it is known by its expression id.
    return Project(group, tuple(Named(name, lifter.lift(over)) for name, over in dict(columns).items()))


def _keeps_name(lifter: ExpressionLifter, key: JavaObject, outputs: list[JavaObject]) -> bool:
    """Whether a key is a column that no other output is called like; a key need not be an output itself."""
    if simple_name(key) != "AttributeReference":
        return False
    own, name = identity_of(key), lifter.names.of(key).lower()
    return all(identity_of(o) == own or lifter.names.of(o).lower() != name for o in outputs)


def _attribute_for(lifter: ExpressionLifter, java: JavaObject, outputs: list[JavaObject]) -> JavaObject:
    """The column that holds an expression: the first output that is nothing else, otherwise a new one."""
    canonical = java.canonicalized()
    for output in outputs:
        if simple_name(output) == "Alias" and output.child().canonicalized().equals(canonical):
            return output.toAttribute()
    shown = java.aggregateFunction() if simple_name(java) == "AggregateExpression" else java
    word = shown.name() if simple_name(shown) in NAMED else shown.prettyName()
    return lifter.jvm.alias(java, word).toAttribute()


def _aggregates_in(java: JavaObject) -> list[JavaObject]:
    if simple_name(java) in AGGREGATE_CLASSES:
        return [java]
    return [found for child in items(java.children()) for found in _aggregates_in(child)]


def _over_columns(lifter: ExpressionLifter, java: JavaObject, made: _Made) -> JavaObject:
    """An output with keys and aggregates replaced by their columns; without its own name."""
    if simple_name(java) == "Alias":
        return _over_columns(lifter, java.child(), made)
    found = made.find(java)
    if found is not None:
        return found
    below = items(java.children())
    if not below:
        return java
    return lifter.jvm.with_children(java, [_over_columns(lifter, child, made) for child in below])
