"""Lowered plans mean on Spark what the oracle says: generated cases, packed, and each node and function by itself."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from tests.semantics.cases import CASES, ERROR
from tests.spark.lowering import NIGHTLY, agrees, drawn, expression, on_spark, source_of, table, tables_of
from whence.errors import EvaluationError, NotTraceable, UnknownSource
from whence.lineage import Fresh, ask_values, carry, identify, restrict, trace_back, wanted_values
from whence.plan.builder import Flow, source
from whence.plan.expressions import AggregateCall, Call, Cast, Column, Literal, Member, Opaque, type_of
from whence.plan.hidden import ROW_ID
from whence.plan.nodes import (
    Analytic,
    Deduplicate,
    EventWindow,
    Filter,
    Frame,
    Generate,
    Group,
    Join,
    Limit,
    Named,
    NamedAggregate,
    NamedAnalytic,
    Node,
    OpaqueStep,
    Order,
    Project,
    Sort,
    Source,
    Union,
    Values,
    names,
)
from whence.plan.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    Field,
    MapType,
    OtherType,
    StructType,
    parse_type,
)
from whence.semantics import Table, evaluate
from whence.semantics.values import freeze, group_key
from whence.spark.handles import Handles
from whence.spark.jvm import Jvm, analyzed
from whence.spark.literals import Literals
from whence.spark.lower import lower
from whence.spark.lower_expressions import ExpressionLowerer, Scope
from whence.testing.on_spark import bag, collect, differing, quick, tables_on_spark
from whence.testing.strategies import EVERYTHING, cases

NAN = float("nan")
ONE = Values((Field("one", INT),), ((1,),))
# Which row a deduplication meets first, and which of equal rows a limit cuts, is not Spark's to promise.
ORDERED_BY_NOTHING = EVERYTHING.without("deduplicate")
STABLE = EVERYTHING.without("deduplicate", "limit", "analytic")
COUNT = 400 if NIGHTLY else 60
REWRITTEN = 200 if NIGHTLY else 30


@pytest.fixture(scope="module")
def jvm(spark: Any) -> Jvm:
    return Jvm(spark)


@pytest.fixture(scope="module")
def tiny(spark: Any) -> Jvm:
    """For packs of tiny plans."""
    return Jvm(quick(spark))


@pytest.fixture(scope="module")
def elsewhere(spark: Any) -> Jvm:
    """A session whose settings would give other results wherever a plan depended on them."""
    made = quick(spark)
    made.conf.set("spark.sql.session.timeZone", "America/New_York")
    made.conf.set("spark.sql.ansi.enabled", "false")
    return Jvm(made)


# Generated plans.


def test_generated_plans_mean_what_the_oracle_says(tiny: Jvm) -> None:
    found = [(c.plan, tables_of(c)) for c in drawn(cases(ORDERED_BY_NOTHING), COUNT)]
    assert len(found) > COUNT // 2
    wrong = differing(tiny, found, evaluate)
    assert not wrong, "\n\n".join(wrong)


def test_settings_of_the_session_change_nothing(elsewhere: Jvm) -> None:
    found = [(c.plan, tables_of(c)) for c in drawn(cases(ORDERED_BY_NOTHING.without("watermark")), COUNT // 2)]
    wrong = differing(elsewhere, found, evaluate)
    assert not wrong, "\n\n".join(wrong)


def test_rewritten_plans_mean_what_the_oracle_says(tiny: Jvm) -> None:
    found: list[tuple[Node, dict[str, Table]]] = []
    for case in drawn(cases(STABLE), REWRITTEN):
        tables = tables_of(case)
        found += [(plan, tables) for plan in rewritten(case.plan, tables)]
    assert len(found) > 2 * REWRITTEN
    wrong = differing(tiny, found, judge_of_lists)
    assert not wrong, "\n\n".join(wrong[:5])


def rewritten(plan: Node, tables: dict[str, Table]) -> list[Node]:
    """What questions run: the rows with their identity, the edges back of all of them, with ids carried, restricted."""
    top = identify(plan, Fresh())
    place = {n: i for i, n in enumerate(names(top.plan))}
    rows = evaluate(top.plan, tables)
    keys = [tuple(row[place[k]] for k in top.keys) for row in rows]
    made: list[Node] = [top.plan]
    made += [edges.plan for edges in trace_back(plan, ask_values(list(range(len(keys))), keys, plan))]
    try:
        made.append(sorted_lists(carry(plan).plan))
    except NotTraceable:
        pass
    plain = evaluate(plan, tables)
    field = plan.schema[0]
    wanted = wanted_values(Column(field.name), field.type, {plain[0][0]}) if plain else None
    if wanted is not None:
        made.append(restrict(plan, [wanted]))
    return made


def sorted_lists(plan: Node) -> Node:
    """With lists in order: Spark collects in any."""
    columns = tuple(
        Named(f.name, Call("array_sort", (Column(f.name),)) if f.type == ArrayType(BIGINT) else Column(f.name))
        for f in plan.schema
    )
    return Project(plan, columns)


def judge_of_lists(plan: Node, tables: Any) -> list[Any]:
    return evaluate(plan, tables)


def test_the_harness_finds_a_wrong_plan(tiny: Jvm) -> None:
    plan = Filter(source_of("t", a="bigint"), expression("a > 1", source_of("t", a="bigint")))
    tables = table(plan, (1,), (2,))
    wrong = differing(tiny, [(plan, tables)] * 3, lambda plan, tables: [(1,)])
    assert len(wrong) == 3
    assert "filter" in wrong[0]


def test_deduplicate_keeps_one_row_of_each_key(tiny: Jvm) -> None:
    found = [c for c in drawn(cases(STABLE), COUNT // 3) if c.plan.schema]
    plans = [Deduplicate(c.plan, names(c.plan)[:1]) for c in found]
    frames = [
        lower(tiny, plan, tables_on_spark(tiny, plan, tables_of(c))) for plan, c in zip(plans, found, strict=True)
    ]
    for case, plan, rows in zip(found, plans, collect(tiny, frames, [p.schema for p in plans]), strict=True):
        all_rows = evaluate(case.plan, tables_of(case))
        assert not bag(rows, plan.schema) - bag(all_rows, plan.schema)
        form = group_key([plan.schema[0].type])
        assert Counter(form(r[:1]) for r in rows) == Counter({form(r[:1]) for r in all_rows})


# Functions: the oracle's own table of scalar cases.


@pytest.mark.parametrize("where", ["jvm", "elsewhere"])
def test_scalar_cases(where: str, request: pytest.FixtureRequest) -> None:
    session: Jvm = request.getfixturevalue(where)
    good = [c for c in CASES if c.expected is not ERROR]
    # Over a column, so that the value is computed row by row; constants alone are computed by the optimizer.
    plan = Project(ONE, tuple(Named(f"x{i}", c.expression) for i, c in enumerate(good)))
    (row,) = on_spark(session, plan, {})
    for case, value in zip(good, row, strict=True):
        form = group_key([type_of(case.expression, ())])
        expected = freeze(case.expected, type_of(case.expression, ()))
        assert form((value,)) == form((expected,)), case


def test_scalar_cases_over_columns(jvm: Jvm) -> None:
    """The same with the arguments in columns: compiled code, where constants are folded away."""
    fields: list[Field] = []
    values: list[object] = []
    columns = []
    good = [c for c in CASES if c.expected is not ERROR]
    for number, case in enumerate(good):
        literals = case.expression.arguments if isinstance(case.expression, Call) else (case.expression.child,)  # type: ignore[union-attr]
        parts = []
        for place, literal in enumerate(literals):
            assert isinstance(literal, Literal)
            fields.append(Field(f"a{number}_{place}", literal.type))
            values.append(literal.value)
            parts.append(Column(fields[-1].name))
        rebuilt = (
            Call(case.expression.function, tuple(parts))
            if isinstance(case.expression, Call)
            else Cast(parts[0], case.expression.type)  # type: ignore[union-attr]
        )
        columns.append(Named(f"x{number}", rebuilt))
    plan = Project(Source("t", tuple(fields)), tuple(columns))
    (row,) = on_spark(jvm, plan, {"t": Table(tuple(f.name for f in fields), [tuple(values)])})
    for case, value in zip(good, row, strict=True):
        form = group_key([type_of(case.expression, ())])
        assert form((value,)) == form((freeze(case.expected, type_of(case.expression, ())),)), case


@pytest.mark.parametrize("where", ["jvm", "elsewhere"])
def test_scalar_cases_without_a_value_fail(where: str, request: pytest.FixtureRequest) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    session: Jvm = request.getfixturevalue(where)
    bad = [c for c in CASES if c.expected is ERROR]
    lowerer = ExpressionLowerer(session, Handles(), Literals(session))
    trees = [session.alias(lowerer.lower(c.expression, Scope((), {})), f"x{i}") for i, c in enumerate(bad)]
    resolved = analyzed(session.frame(session.project(trees, session.logical("OneRowRelation"))))
    for place, case in enumerate(bad):
        try:
            value = resolved.projectList().apply(place).child().eval(None)
        except (Py4JError, PySparkException):
            continue
        pytest.fail(f"{case} gave {value}")
