"""Text for opaque expressions: Spark SQL that a later process can trust to be the same expression.

Catalyst prints every expression, but not every print reads back, and some read back as something else: casts to
arrays lose the cast, `first(x) ignore nulls` loses the clause. So each text is parsed and resolved again over the
same columns, and kept only if the tree is the same one. Functions of users have no text: another process may have
another function of that name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from whence.spark.jvm import ANALYSIS, EXPRESSIONS, LOGICAL, JavaObject, Jvm, items, simple_name
from whence.spark.names import Names
from whence.spark.quiet import quiet

UNPRINTABLE = frozenset(
    {
        "PythonUDF",
        "PythonUDAF",
        "PythonUDTF",
        "ScalaUDF",
        "ScalaUDAF",
        "ScalaAggregator",
        "HiveSimpleUDF",
        "HiveGenericUDF",
        "HiveUDAFFunction",
        "HiveGenericUDTF",
        "V2ScalarFunction",
        "ApplyFunctionExpression",
    }
)
"""Code of users."""
SILENT_NULLS = frozenset({"First", "Last", "AnyValue"})
"""Aggregates that print without their `ignore nulls`."""
NESTED = frozenset({"ArrayType", "MapType", "StructType"})
"""Types to which a cast prints as if it were not there."""


def portable_text(
    jvm: Jvm, names: Names, java: JavaObject, place: str, classes: frozenset[str], columns: list[JavaObject]
) -> str | None:
    """SQL over the plan's column names that gives the expression again, or None where there is none.

    ``place`` says where the expression stands: in a row ("scalar"), over a group ("aggregate"), as a generator, or
    over a window. ``classes`` are those of all its parts, ``columns`` the attributes it reads.
    """
    if classes & UNPRINTABLE:
        return None
    named = {c.exprId().id(): _named(jvm, names, c) for c in columns}
    for spell in (_printed, _spelled):
        try:
            wanted = _renamed(jvm, named, java)
            text = spell(jvm, wanted)
            if text is None:
                continue
            with quiet():
                parsed = jvm.parse(f"{text} OVER (ORDER BY 1)" if place == "window" else text)
                found = _resolved(jvm, parsed, list(named.values()), place)
            if found is not None and _same(wanted, found):
                return text
        except (PySparkException, Py4JError):
            continue
    return None


def _same(wanted: JavaObject, found: JavaObject) -> bool:
    # Spark gives this function the window's order as arguments.
    if simple_name(wanted) == simple_name(found) == "PercentRank":
        return True
    return bool(wanted.canonicalized().equals(found.canonicalized()))


def _printed(jvm: Jvm, java: JavaObject) -> str | None:
    return str(java.sql())


def _spelled(jvm: Jvm, java: JavaObject) -> str | None:
    """What Catalyst prints, with the parts it leaves out put in; None where there are none."""
    counter = itertools.count(1)
    changed = _spell(jvm, java, {}, counter)
    return None if changed is java else str(changed.sql())


def _spell(jvm: Jvm, java: JavaObject, variables: dict[int, str], counter: Iterator[int]) -> JavaObject:
    name = simple_name(java)
    if name == "NamedLambdaVariable":
        return _verbatim(jvm, variables[java.exprId().id()], java)
    if name == "LambdaFunction":
        arguments = items(java.arguments())
        inner = variables | {a.exprId().id(): f"lambda_{next(counter)}" for a in arguments}
        body = _spell(jvm, java.function(), inner, counter).sql()
        called = ", ".join(inner[a.exprId().id()] for a in arguments)
        # Spark's parser takes a single variable without parentheses only.
        head = called if len(arguments) == 1 else f"({called})"
        return _verbatim(jvm, f"{head} -> {body}", java.function())
    if name in SILENT_NULLS and java.ignoreNulls():
        child = _spell(jvm, java.children().apply(0), variables, counter)
        return _verbatim(jvm, f"{java.prettyName()}({child.sql()}, true)", java.children().apply(0))
    if name == "Cast" and simple_name(java.dataType()) in NESTED:
        child = _spell(jvm, java.child(), variables, counter)
        word = "TRY_CAST" if str(java.evalMode().toString()) == "TRY" else "CAST"
        return _verbatim(jvm, f"{word}({child.sql()} AS {java.dataType().sql()})", java)
    if name == "AggregateExpression":
        function = java.aggregateFunction()
        spelled = _spell(jvm, function, variables, counter)
        if spelled is function or simple_name(function) not in SILENT_NULLS or java.isDistinct():
            return java if spelled is function else jvm.with_children(java, [spelled, *items(java.children())[1:]])
        condition = java.filter()
        clause = f" FILTER (WHERE {condition.get().sql()})" if condition.isDefined() else ""
        return _verbatim(jvm, spelled.sql() + clause, function)
    below = items(java.children())
    changed = [_spell(jvm, child, variables, counter) for child in below]
    if all(a is b for a, b in zip(below, changed, strict=True)):
        return java
    return jvm.with_children(java, changed)


def _verbatim(jvm: Jvm, text: str, java: JavaObject) -> JavaObject:
    """An expression that prints as it is told; it has a type because others look at it when they are copied."""
    return jvm.expression("PrettyAttribute", text, java.dataType())


def _named(jvm: Jvm, names: Names, attribute: JavaObject) -> JavaObject:
    return attribute.withQualifier(jvm.seq(())).withName(names.of(attribute))


def _renamed(jvm: Jvm, named: dict[int, JavaObject], java: JavaObject) -> JavaObject:
    """The expression with its columns called as in the plan, also where it only prints them."""
    if simple_name(java) == "AttributeReference":
        return named[java.exprId().id()]
    if jvm.is_a(java, EXPRESSIONS + "RuntimeReplaceable"):
        elements = [java.productElement(i) for i in range(java.productArity())]
        return jvm.copy(java, [_renamed_element(jvm, named, e) for e in elements])
    if java.references().isEmpty():
        return java
    return jvm.with_children(java, [_renamed(jvm, named, child) for child in items(java.children())])


def _renamed_element(jvm: Jvm, named: dict[int, JavaObject], value: JavaObject) -> JavaObject:
    if value is None or isinstance(value, str | int | float | bytes | bool):
        return value
    if jvm.is_a(value, EXPRESSIONS + "Expression"):
        return _renamed(jvm, named, value)
    if jvm.is_a(value, "scala.collection.immutable.Seq"):
        return jvm.seq([_renamed_element(jvm, named, v) for v in items(value)])
    if jvm.is_a(value, "scala.Some"):
        return jvm.some(_renamed_element(jvm, named, value.get()))
    return value


def _resolved(jvm: Jvm, parsed: JavaObject, columns: list[JavaObject], place: str) -> JavaObject:
    relation = jvm.construct(LOGICAL + "LocalRelation", jvm.seq(columns), jvm.seq(()), False, jvm.none())
    match place:
        case "aggregate":
            plan = jvm.logical("Aggregate", jvm.seq(()), jvm.seq([jvm.alias(parsed, "x")]), relation, jvm.none())
            return jvm.analyze(plan).aggregateExpressions().apply(0).child()
        case "generator":
            column = jvm.type(ANALYSIS + "UnresolvedAlias")(parsed, jvm.none())
            below = jvm.analyze(jvm.project([column], relation)).children().apply(0)
            return below.generator() if simple_name(below) == "Generate" else None
        case "window":
            below = jvm.analyze(jvm.project([jvm.alias(parsed, "x")], relation))
            while simple_name(below) == "Project":
                below = below.child()
            return below.windowExpressions().apply(0).child().windowFunction()
        case _:
            top = jvm.analyze(jvm.project([jvm.alias(parsed, "x")], relation))
            return top.projectList().apply(0).child() if simple_name(top) == "Project" else None
