"""What the tests of lowering share: generated cases, tables of a few rows, and plans run alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from whence.plan.expression_text import parse_expression
from whence.plan.nodes import Node, Source, sources
from whence.plan.resolve import resolve
from whence.plan.types import Field, Schema, parse_type
from whence.semantics import Table, evaluate
from whence.semantics.values import Row
from whence.spark.handles import Handles
from whence.spark.jvm import Jvm
from whence.spark.lower import lower
from whence.testing.on_spark import bag, tables_on_spark
from whence.testing.strategies import PlanCase

NIGHTLY = os.environ.get("WHENCE_NIGHTLY") == "1"


def drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """So many generated values, the same on each run; drawn first because Spark runs them packed."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=not NIGHTLY,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


def tables_of(case: PlanCase) -> dict[str, Table]:
    return {
        name: Table(tuple(f.name for f in case.schemas[name]), rows, [10 * i + 7 for i in range(len(rows))])
        for name, rows in case.rows.items()
    }


def table(source: Node, *rows: Sequence[object]) -> dict[str, Table]:
    """One source's table."""
    (found,) = sources(source).values()
    return {found.name: Table(tuple(f.name for f in found.fields), rows)}


def on_spark(jvm: Jvm, plan: Node, tables: dict[str, Table], handles: Handles | None = None) -> list[Row]:
    """The plan's rows as Spark has them, in Spark's order."""
    from whence.semantics.values import freeze
    from whence.spark.arrow import table_of

    made = table_of(lower(jvm, plan, tables_on_spark(jvm, plan, tables), handles), plan.schema)
    return [
        tuple(freeze(row[f"{i}"], f.type) for i, f in enumerate(plan.schema))
        for row in made.rename_columns([str(i) for i in range(made.num_columns)]).to_pylist()
    ]


def agrees(jvm: Jvm, plan: Node, tables: dict[str, Table], functions: Any = None) -> list[Row]:
    """The rows, once Spark's bag is the oracle's."""
    expected = evaluate(plan, tables, functions)
    found = on_spark(jvm, plan, tables)
    assert bag(found, plan.schema) == bag(expected, plan.schema)
    return found


def schema_of(**columns: str) -> Schema:
    return tuple(Field(name, parse_type(type)) for name, type in columns.items())


def source_of(name: str, **columns: str) -> Source:
    return Source(name, schema_of(**columns))


def expression(text: str, node: Node) -> Any:
    return resolve(parse_expression(text), node.schema)
