"""The portable subset against Spark itself: what DuckDB answers for edge values, Spark says as well.

One Parquet file has the arguments of every function, cast and aggregate side by side, so that Spark
computes all of them in a few jobs. Values that DuckDB leaves to Spark are not asked; what is an
error in DuckDB is one in the oracle, see ``test_functions``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.duck.grid import CELLS, NIGHTLY, Cell, aggregate_cells
from tests.duck.runs import arrow_rows, write_run
from tests.duck.test_functions import BEYOND, FAILS, REFUSED, asked, close, python_value
from whence.duck.aggregates import AGGREGATES
from whence.duck.engine import DuckEngine
from whence.duck.functions import FUNCTIONS, kind_of_type
from whence.errors import EvaluationError, NotPortable
from whence.plan.expressions import Cast, type_of
from whence.plan.nodes import Group, NamedAggregate, Values
from whence.plan.types import INTERVAL, DataType, Field, Schema
from whence.semantics.values import freeze

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BETWEEN = ("=", "!=", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "div", "and", "or", "like")
OTHERWISE = {
    "in": "({0} in ({rest}))",
    "not": "(not {0})",
    "negative": "(- {0})",
    "array_concat": "concat({all})",
    "sequence": "case when {0} <= {1} then sequence({0}, {1}) when {0} > {1} then cast(array() as array<bigint>) end",
}
"""Spark's own words, where a function of the plan goes by another name there."""


def spark_text(cell: Cell, columns: Sequence[str]) -> str:
    if isinstance(cell.expression, Cast):
        return f"cast({columns[0]} as {cell.expression.type})"
    every = ", ".join(columns)
    if cell.name in OTHERWISE:
        return OTHERWISE[cell.name].format(*columns, rest=", ".join(columns[1:]), all=every)
    return f"({columns[0]} {cell.name} {columns[1]})" if cell.name in BETWEEN else f"{cell.name}({every})"


@dataclass
class Sheet:
    """Columns side by side, each as long as it has values and null below."""

    columns: dict[str, tuple[DataType, Sequence[object]]]

    def read(self, spark: SparkSession, path: Path) -> DataFrame:
        length = max(len(values) for _, values in self.columns.values())
        tables = [
            arrow_rows((Field("it", type),), [(v,) for v in (*values, *[None] * (length - len(values)))]).column(0)
            for type, values in self.columns.values()
        ]
        numbers = pa.array(range(length), pa.int64())
        parquet.write_table(pa.table([numbers, *tables], names=["number", *self.columns]), path)
        found = spark.read.parquet(str(path))
        # Spark's intervals are plain bigints in a file of somebody else's.
        micro = "interval '0 00:00:00.000001' day to second"
        return found.selectExpr(
            "number", *(f"{n} * {micro} as {n}" if t == INTERVAL else n for n, (t, _) in self.columns.items())
        )


def answers(found: pa.Table, place: str, type: DataType, length: int) -> Iterator[object]:
    for scalar in found.column(place)[:length]:
        yield python_value(scalar, type)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> DuckEngine:
    return DuckEngine(write_run(tmp_path_factory.mktemp("empty"), {}))


def asked_of_spark() -> Iterator[Cell]:
    """All cells; where Spark has to be quick, functions once for each kind of arguments, with the most of them."""
    if NIGHTLY:
        yield from CELLS
        return
    chosen: dict[tuple[object, ...], Cell] = {}
    for cell in CELLS:
        if isinstance(cell.expression, Cast):
            yield cell
            continue
        kinds = {kind_of_type(f.type) for f in cell.schema}
        key = (cell.name, *sorted(kinds))
        if key not in chosen or len(chosen[key].schema) < len(cell.schema):
            chosen[key] = cell
    yield from chosen.values()


def test_functions_and_casts(spark: SparkSession, engine: DuckEngine, tmp_path: Path) -> None:
    sheet = Sheet({})
    texts: list[str] = []
    kept: list[tuple[Cell, list[tuple[object, ...]], list[object]]] = []
    for cell in asked_of_spark():
        found = asked(engine, cell.expression, cell.schema, cell.rows)
        pairs = [(r, f) for r, f in zip(cell.rows, found, strict=True) if f not in (FAILS, REFUSED, BEYOND)]
        if not pairs:
            continue
        rows = [row for row, _ in pairs]
        names = [f"x{len(kept)}_{f.name}" for f in cell.schema]
        for place, (name, field) in enumerate(zip(names, cell.schema, strict=True)):
            sheet.columns[name] = (field.type, [row[place] for row in rows])
        texts.append(f"{spark_text(cell, names)} as y{len(kept)}")
        kept.append((cell, rows, [f for _, f in pairs]))
    assert {cell.name for cell, _, _ in kept} >= set(FUNCTIONS)
    frame = sheet.read(spark, tmp_path / "arguments.parquet").coalesce(1)
    computed = frame.selectExpr("number", *texts).toArrow()
    assert computed["number"].to_pylist() == sorted(computed["number"].to_pylist())
    wrong = []
    for place, (cell, rows, got) in enumerate(kept):
        type = type_of(cell.expression, cell.schema)
        spark_says = answers(computed, f"y{place}", type, len(rows))
        wrong += [(str(cell), row, g, s) for row, g, s in zip(rows, got, spark_says, strict=True) if g != s]
    assert not wrong, (len(wrong), wrong[:20])


def test_aggregates(spark: SparkSession, engine: DuckEngine, tmp_path: Path) -> None:
    sheet = Sheet({})
    texts, kept = [], []
    for cell in aggregate_cells():
        if not NIGHTLY and cell.aggregate.distinct and len(cell.values) < 4:
            continue
        schema: Schema = (Field("a", cell.type),)
        plan = Group(Values(schema, tuple((v,) for v in cell.values)), (), (NamedAggregate("it", cell.aggregate),))
        try:
            got = engine.run(plan).column(0)[0].as_py()
        except (EvaluationError, NotPortable):
            continue
        name = f"x{len(kept)}"
        sheet.columns[name] = (cell.type, cell.values)
        distinct = "distinct " if cell.aggregate.distinct else ""
        texts.append(f"{cell.aggregate.function}({distinct}{name}) as y{len(kept)}")
        kept.append((cell, plan.schema[0].type, got))
    assert {cell.aggregate.function for cell, _, _ in kept} == set(AGGREGATES)
    frame = sheet.read(spark, tmp_path / "arguments.parquet").coalesce(1)
    # Each distinct aggregate multiplies the rows by one more copy; a few at a time stay small.
    found = {}
    plain = [t for t in texts if "(distinct" not in t]
    several = [t for t in texts if "(distinct" in t]
    for some in (plain, *(several[n : n + 60] for n in range(0, len(several), 60))):
        (row,) = frame.selectExpr(*some).toArrow().to_pylist()
        found |= row
    wrong = []
    for place, (cell, type, got) in enumerate(kept):
        spark_says = found[f"y{place}"]
        if not close(
            None if got is None else freeze(got, type), None if spark_says is None else freeze(spark_says, type)
        ):
            wrong.append((str(cell), cell.values, got, spark_says))
    assert not wrong, (len(wrong), wrong[:20])
