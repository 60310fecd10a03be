"""Many plans in one Spark job: for tests that compare Spark with the oracle, case by case.

A Spark job costs a tenth of a second however small it is, so plans are lowered one by one, their rows turned into
one struct a plan, and all of them collected together. Packing changes what surrounds a plan and nothing inside it;
a case that fails is run alone again by whoever packed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from whence.plan.expressions import Literal
from whence.plan.nodes import Node
from whence.plan.types import BIGINT, STRING, DataType, Field, Schema, StructType
from whence.semantics import Table
from whence.semantics.values import Row, freeze, group_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from whence.spark.jvm import Jvm

PACK = 40
"""Plans in one job: more make one plan that Spark takes long to optimize, fewer make more jobs."""


def quick(spark: SparkSession) -> SparkSession:
    """A session beside this one for many tiny plans: nothing is compiled for them and no stage waits for another."""
    made = spark.newSession()
    # Compiling Java takes longer than a handful of rows in the interpreter; the tests of single nodes do compile.
    made.conf.set("spark.sql.codegen.wholeStage", "false")
    made.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    # Adaptive execution runs one job a shuffle.
    made.conf.set("spark.sql.adaptive.enabled", "false")
    # Not one: that would hide what shows only when rows meet from different places.
    made.conf.set("spark.sql.shuffle.partitions", "2")
    return made


def tables_on_spark(jvm: Jvm, plan: Node, tables: Mapping[str, Table], *, files: int = 1) -> dict[str, DataFrame]:
    """A DataFrame for each source of a plan, with the columns its nodes ask for, hidden ones included."""
    from whence.plan.nodes import sources
    from whence.semantics.tables import read
    from whence.spark.arrow import frame_of_rows

    made = {}
    for name, source in sources(plan).items():
        rows = [row for _, row in read(source, tables[name])]
        frame = frame_of_rows(jvm, source.fields, rows)
        made[name] = frame.toDF(*(f.name for f in source.fields))
    return made


def rows_on_spark(jvm: Jvm, cases: Sequence[tuple[Node, Mapping[str, Table]]]) -> list[list[Row]]:
    """The rows of each plan over its tables, in one Spark job."""
    from whence.spark.lower import lower

    frames = [lower(jvm, plan, tables_on_spark(jvm, plan, tables)) for plan, tables in cases]
    return collect(jvm, frames, [plan.schema for plan, _ in cases])


def collect(jvm: Jvm, frames: Sequence[DataFrame], schemas: Sequence[Schema]) -> list[list[Row]]:
    """The rows of many DataFrames, collected together."""
    from whence.spark.arrow import table_of
    from whence.spark.jvm import analyzed, items
    from whence.spark.literals import Literals

    if not frames:
        return []
    literals = Literals(jvm)
    kinds: dict[tuple[DataType, ...], int] = {}
    for schema in schemas:
        kinds.setdefault(tuple(f.type for f in schema), len(kinds))
    members = [tuple(Field(f"m{i}", t) for i, t in enumerate(types)) for types in kinds]
    fields = [Field("case", BIGINT)]
    fields += [Field(f"k{place}", StructType(m or (Field("m0", BIGINT),))) for place, m in enumerate(members)]
    parts = []
    for number, (frame, schema) in enumerate(zip(frames, schemas, strict=True)):
        place = kinds[tuple(f.type for f in schema)]
        plan = analyzed(frame)
        # One node for all of them: a union built step by step is analyzed as often as it has steps.
        columns = [literals.of(Literal(number, BIGINT))]
        for other, field in enumerate(fields[1:]):
            if other == place:
                values = items(plan.output()) or [literals.of(Literal(0, BIGINT))]
                named = [x for i, v in enumerate(values) for x in (literals.of(Literal(f"m{i}", STRING)), v)]
                made = jvm.expression("CreateNamedStruct", jvm.seq(named))
                # All nullable: members that may not be null fit no null struct in Arrow.
                columns.append(
                    jvm.expression("Cast", made, literals.java_type(field.type), literals.utc, literals.ansi_mode)
                )
            else:
                columns.append(literals.of(Literal(None, field.type)))
        parts.append(jvm.project([jvm.alias(c, f.name) for c, f in zip(columns, fields, strict=True)], plan))
    packed = parts[0] if len(parts) == 1 else jvm.logical("Union", jvm.seq(parts), False, False)
    ordered = jvm.frame(packed)
    found: list[list[Row]] = [[] for _ in frames]
    for record in table_of(ordered, tuple(fields)).to_pylist():
        number = record["case"]
        schema = schemas[number]
        cells = tuple(record[f"k{kinds[tuple(f.type for f in schema)]}"].values()) if schema else ()
        found[number].append(tuple(freeze(v, f.type) for v, f in zip(cells, schema, strict=True)))
    return found


def bag(rows: Sequence[Row], schema: Schema) -> Counter[Row]:
    """Rows as a bag, in the form in which SQL's equals are equal."""
    form = group_key([f.type for f in schema])
    return Counter(form(row) for row in rows)


def differing(
    jvm: Jvm,
    cases: Sequence[tuple[Node, Mapping[str, Table]]],
    judge: Callable[[Node, Mapping[str, Table]], Sequence[Row]],
) -> list[str]:
    """What is wrong with each case in which Spark's bag differs from the judge's; run packed, failures alone again."""
    wrong: list[str] = []
    for start in range(0, len(cases), PACK):
        pack = cases[start : start + PACK]
        expected = [bag(judge(plan, tables), plan.schema) for plan, tables in pack]
        problem, found = "", None
        try:
            found = rows_on_spark(jvm, pack)
        except Exception as failed:  # which case it was shows when they run alone
            problem = f"only together: {type(failed).__name__}: {str(failed)[:2000]}"
        before = len(wrong)
        for place, (plan, tables) in enumerate(pack):
            if found is not None and bag(found[place], plan.schema) == expected[place]:
                continue
            wrong += _alone(jvm, plan, tables, expected[place])
        if problem and len(wrong) == before:
            wrong.append(problem)
    return wrong


def _alone(jvm: Jvm, plan: Node, tables: Mapping[str, Table], expected: Counter[Row]) -> list[str]:
    from whence.plan.text import print_plan

    try:
        found: object = bag(rows_on_spark(jvm, [(plan, tables)])[0], plan.schema)
        if found == expected:
            return []
    except Exception as failed:
        found = f"{type(failed).__name__}: {str(failed)[:2000]}"
    shown = "\n".join(f"  {name}: {list(table.rows)}" for name, table in tables.items())
    return [f"{print_plan(plan)}\n{shown}\nexpected {expected}\nSpark    {found}"]
