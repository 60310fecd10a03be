"""Prepare: the analyzed plan with everything turned into operators that Catalyst itself can turn into them.

Common table expressions are inlined; IN, EXISTS, correlated and lateral subqueries become joins by Catalyst's own
rules; a scalar subquery that certainly has one row becomes a join with it. Expression ids survive, so what stands
above still fits. INTERSECT and EXCEPT stay, because plans have them and the joins Catalyst makes of them have
another lineage. Aliases and views stay too, because they name steps and tables.
"""

from __future__ import annotations

from whence.spark.jvm import ANALYSIS, EXPRESSIONS, LOGICAL, OPTIMIZER, JavaObject, Jvm, items, simple_name
from whence.spark.names import identity_of

RULES = (
    OPTIMIZER + "PullupCorrelatedPredicates",
    # Only after predicates were pulled up, else references to the outer query remain.
    OPTIMIZER + "RewritePredicateSubquery",
    OPTIMIZER + "RewriteCorrelatedScalarSubquery",
    OPTIMIZER + "RewriteLateralSubquery",
)
TRANSPARENT = frozenset({"SubqueryAlias", "View", "Project", "ResolvedHint"})


def prepare(jvm: Jvm, plan: JavaObject) -> JavaObject:
    """The same query without the parts that only Catalyst's rules can express as operators."""
    while True:
        plan = _inline(jvm).apply(plan)
        for rule in RULES:
            plan = jvm.module(rule).apply(plan)
        joined = _join_scalars(jvm, plan)
        if joined is None:
            return plan
        # The subquery's own plan is part of the query now, with whatever subqueries it has.
        plan = joined


def every(plan: JavaObject) -> list[JavaObject]:
    """All nodes of a Catalyst plan, parents before children, left to right."""
    found: list[JavaObject] = []
    stack = [plan]
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(reversed(items(node.children())))
    return found


def view_names(plan: JavaObject) -> list[tuple[JavaObject, str]]:
    """The leaves that are all there is below a view, perhaps with columns renamed, and the view's name."""
    found = []
    for node in every(plan):
        if simple_name(node) != "View":
            continue
        below = node
        while simple_name(below) in TRANSPARENT:
            below = below.child()
        name = str(node.desc().identifier().table())
        # Not those that PySpark makes up for DataFrames given to sql().
        if below.children().isEmpty() and not name.startswith("_pyspark_"):
            found.append((below, name))
    return found


def fresh_copy(jvm: Jvm, plan: JavaObject) -> JavaObject:
    """The same plan under other expression ids, so that it can stand beside itself."""
    twice = jvm.logical("Join", plan, plan, join_type(jvm, "cross"), jvm.none(), no_hint(jvm))
    return jvm.module(ANALYSIS + "DeduplicateRelations").apply(twice).right()


def join_type(jvm: Jvm, name: str) -> JavaObject:
    """Catalyst's object for a kind of join."""
    return jvm.type("org.apache.spark.sql.catalyst.plans.JoinType").apply(name)


def no_hint(jvm: Jvm) -> JavaObject:
    """A join's missing hint."""
    return jvm.type(LOGICAL + "JoinHint").NONE()


def _inline(jvm: Jvm) -> JavaObject:
    # The first argument inlines always; there are two in Spark 4.0, three in 4.3.
    return jvm.construct(OPTIMIZER + "InlineCTE", True, False, False)


def _join_scalars(jvm: Jvm, plan: JavaObject) -> JavaObject:
    """The plan with the scalar subqueries of one node joined to its input; None where there are none to join."""
    has_subquery = jvm.type(EXPRESSIONS + "SubqueryExpression").hasSubquery
    for node in every(plan):
        if simple_name(node) not in ("Project", "Filter"):
            continue
        scalars = [
            part
            for expression in items(node.expressions())
            if has_subquery(expression)
            for part in _scalars(expression)
            if _has_one_row(part.plan())
        ]
        if scalars:
            return _replaced(jvm, plan, node, _joined(jvm, node, scalars))
    return None


def _scalars(expression: JavaObject) -> list[JavaObject]:
    if simple_name(expression) == "ScalarSubquery":
        # What still refers to the outer query is no value of its own.
        return [expression] if expression.children().isEmpty() else []
    return [found for child in items(expression.children()) for found in _scalars(child)]


def _has_one_row(plan: JavaObject) -> bool:
    while simple_name(plan) in TRANSPARENT:
        plan = plan.child()
    kind = simple_name(plan)
    return kind == "OneRowRelation" or (kind == "Aggregate" and bool(plan.groupingExpressions().isEmpty()))


def _joined(jvm: Jvm, node: JavaObject, scalars: list[JavaObject]) -> JavaObject:
    below = node.child()
    values: dict[int, JavaObject] = {}
    for scalar in scalars:
        identity = identity_of(scalar)
        if identity in values:
            continue
        right = fresh_copy(jvm, scalar.plan())
        below = jvm.logical("Join", below, right, join_type(jvm, "inner"), jvm.none(), no_hint(jvm))
        values[identity] = right.output().apply(0)
    if simple_name(node) == "Project":
        return jvm.project([_with_values(jvm, column, values) for column in items(node.projectList())], below)
    kept = jvm.logical("Filter", _with_values(jvm, node.condition(), values), below)
    return jvm.project(items(node.output()), kept)


def _with_values(jvm: Jvm, expression: JavaObject, values: dict[int, JavaObject]) -> JavaObject:
    if simple_name(expression) == "ScalarSubquery":
        return values.get(identity_of(expression), expression)
    below = items(expression.children())
    if not below:
        return expression
    return jvm.with_children(expression, [_with_values(jvm, child, values) for child in below])


def _replaced(jvm: Jvm, plan: JavaObject, old: JavaObject, new: JavaObject) -> JavaObject:
    """The plan with a node replaced by another, wherever one equal to it stands."""
    if plan.equals(old):
        return new
    below = items(plan.children())
    changed = [_replaced(jvm, child, old, new) for child in below]
    if all(a is b for a, b in zip(below, changed, strict=True)):
        return plan
    return jvm.with_children(plan, changed)
