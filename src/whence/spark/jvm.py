"""Catalyst from Python: classes, sequences, options and trees of the JVM behind a session.

Thin tools over py4j that work on PySpark 4.0 to 4.3; what is lifted or lowered is decided elsewhere. A round trip
to the JVM costs about 0.07 ms, so classes are looked up once. Constructors that differ between versions are not
called here: copy a node instead (`with_children`, `copy`), or let `construct` cut the arguments to what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whence.errors import ConnectSession, NotTraceable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JavaObject = Any
"""An object that lives in the JVM, held by py4j."""

CATALYST = "org.apache.spark.sql.catalyst."
LOGICAL = CATALYST + "plans.logical."
EXPRESSIONS = CATALYST + "expressions."
ANALYSIS = CATALYST + "analysis."
OPTIMIZER = CATALYST + "optimizer."


@dataclass(frozen=True, slots=True)
class Jvm:
    """The JVM behind one classic session."""

    spark: SparkSession
    _classes: dict[str, JavaObject] = field(default_factory=dict)
    _modules: dict[str, JavaObject] = field(default_factory=dict)

    @property
    def session(self) -> JavaObject:
        """Spark's own session object."""
        return self.spark._jsparkSession

    def type(self, name: str) -> JavaObject:
        """A class by its full name: call it to construct, take its static members."""
        found = self._classes.get(name)
        if found is None:
            view = self.spark.sparkContext._jvm
            assert view is not None
            found = view
            for part in name.split("."):
                found = getattr(found, part)
            self._classes[name] = found
        return found

    def reflected(self, name: str) -> JavaObject:
        """The `java.lang.Class` of that name, as Spark's own class loader sees it."""
        loader = self.type("java.lang.Thread").currentThread().getContextClassLoader()
        return self.type("java.lang.Class").forName(name, True, loader)

    def exists(self, name: str) -> bool:
        """Whether this Spark has a class of that name."""
        from py4j.protocol import Py4JJavaError

        known = "exists " + name
        if known not in self._classes:
            try:
                self.reflected(name)
                self._classes[known] = True
            except Py4JJavaError:
                self._classes[known] = False
        return bool(self._classes[known])

    def module(self, name: str) -> JavaObject:
        """A Scala object (a rule, a case object, a companion)."""
        found = self._modules.get(name)
        if found is None:
            found = self._modules[name] = self.reflected(name + "$").getField("MODULE$").get(None)
        return found

    def construct(self, name: str, *arguments: object) -> JavaObject:
        """A new object from as many of the arguments as the class's first constructor takes in this version."""
        constructors = self.reflected(name).getConstructors()
        count = max(constructor.getParameterCount() for constructor in constructors)
        return self.type(name)(*arguments[:count])

    def logical(self, name: str, *arguments: object) -> JavaObject:
        """A new logical plan node."""
        return self.type(LOGICAL + name)(*arguments)

    def expression(self, name: str, *arguments: object) -> JavaObject:
        """A new Catalyst expression."""
        return self.type(EXPRESSIONS + name)(*arguments)

    def seq(self, values: Iterable[JavaObject]) -> JavaObject:
        """A Scala sequence."""
        return self.type("org.apache.spark.api.python.PythonUtils").toSeq(list(values))

    def none(self) -> JavaObject:
        """Scala's `None`."""
        return self.type("scala.Option").empty()

    def some(self, value: JavaObject) -> JavaObject:
        """Scala's `Some`."""
        return self.type("scala.Option").apply(value)

    def attribute(self, *parts: str) -> JavaObject:
        """A column by name, to be found by the analyzer."""
        return self.type(ANALYSIS + "UnresolvedAttribute")(self.seq(parts))

    def alias(self, expression: JavaObject, name: str, identity: JavaObject = None) -> JavaObject:
        """An expression under a name, with an expression id of its own or a given one."""
        if identity is None:
            identity = self.type(EXPRESSIONS + "NamedExpression").newExprId()
        return self.expression("Alias", expression, name, identity, self.seq(()), self.none(), self.seq(()))

    def project(self, columns: Iterable[JavaObject], child: JavaObject) -> JavaObject:
        """A Project node."""
        return self.logical("Project", self.seq(columns), child)

    def parse(self, text: str) -> JavaObject:
        """The unresolved expression that a Spark SQL text writes."""
        return self.session.sessionState().sqlParser().parseExpression(text)

    def parse_plan(self, text: str) -> JavaObject:
        """The unresolved plan that a Spark SQL query writes."""
        return self.session.sessionState().sqlParser().parsePlan(text)

    def frame(self, plan: JavaObject) -> DataFrame:
        """A DataFrame of a logical plan; the analyzer resolves and checks it."""
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

        dataset = self.type("org.apache.spark.sql.classic.Dataset").ofRows(self.session, plan)
        return ClassicDataFrame(dataset, self.spark)

    def analyze(self, plan: JavaObject) -> JavaObject:
        """The same plan resolved."""
        return analyzed(self.frame(plan))

    def with_children(self, node: JavaObject, children: Sequence[JavaObject]) -> JavaObject:
        """A copy of a plan node or an expression over other children."""
        return node.withNewChildren(self.seq(children))

    def copy(self, node: JavaObject, elements: Sequence[object]) -> JavaObject:
        """A copy of a plan node or an expression with other product elements."""
        gateway = self.spark.sparkContext._gateway
        assert gateway is not None
        array = gateway.new_array(self.type("java.lang.Object"), len(elements))
        for index, element in enumerate(elements):
            array[index] = element
        return node.makeCopy(array)

    def is_a(self, value: JavaObject, name: str) -> bool:
        """Whether an object is of a class or trait."""
        key = "class " + name
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = self.reflected(name)
        return bool(found.isInstance(value))


def items(sequence: JavaObject) -> list[JavaObject]:
    """The elements of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]


def simple_name(value: JavaObject) -> str:
    """The class name of a JVM object, without its package."""
    name: str = value.getClass().getName()
    return name.rsplit(".", 1)[-1].rsplit("$", 1)[-1] if not name.endswith("$") else name.rsplit(".", 1)[-1]


def element(node: JavaObject, name: str) -> JavaObject:
    """A product element of a case class by its name, or None where this version has none of that name."""
    for index in range(node.productArity()):
        if node.productElementName(index) == name:
            return node.productElement(index)
    return None


def option(value: JavaObject) -> JavaObject:
    """What is in a Scala option, or None."""
    return value.get() if value.isDefined() else None


def analyzed(df: DataFrame) -> JavaObject:
    """The analyzed plan of a classic DataFrame; a ConnectSession error for one of Spark Connect."""
    from pyspark.sql import DataFrame as AnyDataFrame
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if isinstance(df, ClassicDataFrame):
        return df._jdf.queryExecution().analyzed()
    if isinstance(df, AnyDataFrame):
        raise ConnectSession(
            "this DataFrame comes from Spark Connect",
            detail="whence reads the query plan inside the JVM, which Spark Connect keeps out of reach",
            hint="make it in a classic session: SparkSession.builder.master('local[2]').getOrCreate()",
        )
    raise NotTraceable(
        f"a Spark DataFrame is needed, not {type(df).__name__}",
        hint="pass the DataFrame itself, for example spark.read.parquet(...)",
    )
