"""Text for opaque expressions: Spark SQL that a later process can trust to be the same expression.

Catalyst prints every expression, but not every print reads back, and some read back as something else: casts to
arrays lose the cast, `first(x) ignore nulls` loses the clause. So each text is parsed and resolved again over the
same columns, and kept only if the tree is the same one. Functions of users have no text: another process may have
another function of that name.
"""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from whence.spark.jvm import ANALYSIS, EXPRESSIONS, LOGICAL, JavaObject, Jvm, items, simple_name
from whence.spark.names import Names

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
        "LambdaFunction",
        "V2ScalarFunction",
        "ApplyFunctionExpression",
    }
)
"""Code of users, and lambdas, whose variables Catalyst prints without their names."""


def portable_text(
    jvm: Jvm, names: Names, java: JavaObject, place: str, classes: frozenset[str], columns: list[JavaObject]
) -> str | None:
    """SQL over the plan's column names that gives the expression again, or None where there is none.

    ``place`` says where the expression stands: in a row ("scalar"), over a group ("aggregate"), as a generator, or
    over a window. ``classes`` are those of all its parts, ``columns`` the attributes it reads.
    """
    if place == "window" or classes & UNPRINTABLE:
        return None
    named = {c.exprId().id(): _named(jvm, names, c) for c in columns}
    try:
        wanted = _renamed(jvm, named, java)
        text: str = wanted.sql()
        found = _resolved(jvm, jvm.parse(text), list(named.values()), place)
        same = found is not None and wanted.canonicalized().equals(found.canonicalized())
    except (PySparkException, Py4JError):
        return None
    return text if same else None


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
        case _:
            top = jvm.analyze(jvm.project([jvm.alias(parsed, "x")], relation))
            return top.projectList().apply(0).child() if simple_name(top) == "Project" else None
