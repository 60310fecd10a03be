"""Every function and cast of the portable subset, value by value against the oracle."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tests.duck.grid import CELLS, CELLS_BY_NAME, Cell, aggregate_cells
from tests.duck.runs import write_run
from tests.semantics.cases import CASES, ERROR
from whence.duck.aggregates import AGGREGATES
from whence.duck.casts import CASTS
from whence.duck.engine import DuckEngine
from whence.duck.functions import FUNCTIONS
from whence.errors import EvaluationError, NotPortable
from whence.plan.expressions import Expression, type_of
from whence.plan.nodes import Group, Named, NamedAggregate, Project, Values
from whence.plan.types import DataType, Field, Schema
from whence.semantics import evaluate
from whence.semantics.scalars import compile_expression
from whence.semantics.values import freeze

FAILS, REFUSED = "fails", "refused"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> DuckEngine:
    folder: Path = tmp_path_factory.mktemp("empty")
    return DuckEngine(write_run(folder, {}))


def exactly(value: object) -> object:
    """A value in a form in which zeros of two signs differ and NaN is NaN."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    if isinstance(value, tuple):
        return tuple(map(exactly, value))
    return value


Rows = Sequence[tuple[object, ...]]
BEYOND = "beyond the calendar"


def asked(engine: DuckEngine, expression: Expression, schema: Schema, rows: Rows) -> list[object]:
    """What DuckDB says for each row; where one ends the query, the others are asked without it."""
    if not rows:
        return []
    plan = Project(Values(schema, tuple(rows)), (Named("it", expression),))
    try:
        found = engine.run(plan).column(0)
    except (EvaluationError, NotPortable) as error:
        if len(rows) == 1:
            return [FAILS if isinstance(error, EvaluationError) else REFUSED]
        middle = len(rows) // 2
        return [*asked(engine, expression, schema, rows[:middle]), *asked(engine, expression, schema, rows[middle:])]
    type = plan.schema[0].type
    return [python_value(scalar, type) for scalar in found]


def python_value(scalar: pa.Scalar, type: DataType) -> object:
    try:
        return exactly(freeze(scalar.as_py(), type))
    except (OverflowError, ValueError):  # the years Python does not know
        return BEYOND


def expected(expression: Expression, schema: Schema, rows: Rows) -> list[object]:
    compute = compile_expression(expression, schema)
    types = [f.type for f in schema]
    found: list[object] = []
    for row in rows:
        try:
            found.append(exactly(compute(tuple(freeze(v, t) for v, t in zip(row, types, strict=True)))))
        except EvaluationError as error:
            found.append(BEYOND if "no such time" in error.statement else FAILS)
    return found


def agree(got: object, want: object) -> bool:
    return got in (REFUSED, want) or (want == BEYOND and got == FAILS)


MOST_FAILING = 5
"""Of rows that must fail so many are asked: each takes a query of its own."""
MOST_REFUSED = 0.25
MOSTLY_REFUSED = {
    # Words that are no numbers or times to DuckDB, but may be to Spark.
    *(("cast to " + t, "string") for t in ("float", "double", "date", "timestamp", "timestamp_ntz")),
    *((f"cast to decimal({t})", "string") for t in ("5,2", "18,0", "38,10")),
    # Decimals of many digits, and all on their way to a float.
    *(("cast to float", f"decimal({t})") for t in ("5,2", "18,0", "38,10")),
    *(("cast to double", f"decimal({t})") for t in ("18,0", "38,10")),
    ("array_sort", "array<struct<a:int,b:string>>"),
    ("array_sort", "array<array<bigint>>"),
    # Foreign letters, patterns that are malformed.
    ("upper", "string"), ("lower", "string"), ("timestamp_micros", "bigint"),
    # Numbers beyond the calendar.
    ("cast to timestamp", "bigint"), ("cast to timestamp", "double"),
    ("cast to timestamp", "float"),
}  # fmt: skip


def judge(engine: DuckEngine, cell: Cell) -> None:
    want = expected(cell.expression, cell.schema, cell.rows)
    failing = [place for place, value in enumerate(want) if value == FAILS][:MOST_FAILING]
    places = [*(place for place, value in enumerate(want) if value != FAILS), *failing]
    rows = [cell.rows[place] for place in places]
    found = asked(engine, cell.expression, cell.schema, rows)
    wrong = [(row, got, want[p]) for row, got, p in zip(rows, found, places, strict=True) if not agree(got, want[p])]
    assert not wrong, (str(cell), len(wrong), wrong[:5])
    key = (cell.name, str(cell.schema[0].type) if cell.schema else "")
    assert key in MOSTLY_REFUSED or found.count(REFUSED) <= MOST_REFUSED * len(found), (str(cell), found)


@pytest.mark.parametrize("name", CELLS_BY_NAME)
def test_grid(name: str, engine: DuckEngine) -> None:
    for cell in CELLS_BY_NAME[name]:
        judge(engine, cell)


def test_every_entry_is_on_the_grid() -> None:
    assert {c.name for c in CELLS} >= set(FUNCTIONS)
    assert len([c for c in CELLS if c.name.startswith("cast")]) >= len(CASTS)


def test_constants(engine: DuckEngine) -> None:
    refused = 0
    for case in CASES:
        type: DataType = type_of(case.expression, ())
        want = FAILS if case.expected is ERROR else exactly(freeze(case.expected, type))
        try:
            (found,) = asked(engine, case.expression, (), [()])
        except NotPortable:
            found = REFUSED
        assert agree(found, want), (str(case), found, want)
        refused += found == REFUSED and want != FAILS
    assert refused <= 0.1 * len(CASES)


def close(got: object, want: object) -> bool:
    """Sums of doubles may round in another order."""
    if isinstance(got, float) and isinstance(want, float):
        return math.isclose(got, want, rel_tol=1e-12) or (math.isnan(got) and math.isnan(want))
    return got == want


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates(name: str, engine: DuckEngine) -> None:
    refused = 0
    cells = [cell for cell in aggregate_cells() if cell.aggregate.function == name]
    for cell in cells:
        values = Values((Field("a", cell.type),), tuple((v,) for v in cell.values))
        plan = Group(values, (), (NamedAggregate("it", cell.aggregate),))
        type = plan.schema[0].type
        try:
            ((want,),) = evaluate(plan, {})
        except EvaluationError:
            want = FAILS
        try:
            got = engine.run(plan).column(0)[0].as_py()
            got = None if got is None else freeze(got, type)
        except EvaluationError:
            got = FAILS
        except NotPortable:
            refused += 1
            continue
        assert close(got, want), (str(cell), got, want)
    assert refused <= 0.35 * len(cells)
