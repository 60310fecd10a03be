"""Lowered plans mean on Spark what the oracle says: generated cases, packed, and each node and function by itself.

Over 500 lines: one rule a node kind and a test for each, read beside the table of functions.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from tests.semantics.cases import CASES, ERROR
from tests.spark.lowering import NIGHTLY, agrees, drawn, expression, on_spark, source_of, table, tables_of
from whence.errors import NotTraceable, UnknownSource
from whence.lineage import Fresh, ask_values, carry, identify, restrict, trace_back, wanted_values
from whence.plan.builder import Flow, source
from whence.plan.expressions import AggregateCall, Call, Cast, Column, Expression, Literal, Member, Opaque, type_of
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
from whence.spark.session import spark_version
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
    with contextlib.suppress(NotTraceable):
        made.append(sorted_lists(carry(plan).plan))
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


def _has_a_value_before_4_3(expression: Expression) -> bool:
    """Whether this Spark rounds what no bigint holds to the largest one (seen on 4.0), where 4.3 has an error."""
    rounding = isinstance(expression, Call) and expression.function in ("floor", "ceil")
    return rounding and spark_version() < (4, 3)


@pytest.mark.parametrize("where", ["jvm", "elsewhere"])
def test_scalar_cases_without_a_value_fail(where: str, request: pytest.FixtureRequest) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    session: Jvm = request.getfixturevalue(where)
    bad = [c for c in CASES if c.expected is ERROR and not _has_a_value_before_4_3(c.expression)]
    assert len(bad) > 30
    lowerer = ExpressionLowerer(session, Handles(), Literals(session))
    trees = [session.alias(lowerer.lower(c.expression, Scope((), {})), f"x{i}") for i, c in enumerate(bad)]
    resolved = analyzed(session.frame(session.project(trees, session.logical("OneRowRelation"))))
    for place, case in enumerate(bad):
        try:
            value = resolved.projectList().apply(place).child().eval(None)
        except (Py4JError, PySparkException):
            continue
        pytest.fail(f"{case} gave {value}")


# Each node, and what is special about it.

T = source_of("t", a="bigint", b="int", s="string", d="double")
ROWS = ((1, 1, "x", 0.0), (1, None, None, -0.0), (None, 2, "y", NAN), (3, 2, "x", NAN), (None, None, "", None))
AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_columns_have_the_plans_names_types_and_order(jvm: Jvm) -> None:
    plan = Project(
        T,
        (
            Named("weird`name.x", Column("b")),
            Named("A", Column("a")),
            Named("a", Call("+", (Column("b"), Literal(1, INT)))),
            Named("again", Column("a")),
        ),
    )
    df = lower(jvm, plan, tables_on_spark(jvm, plan, table(T, *ROWS)))
    assert df.columns == ["weird`name.x", "A", "a", "again"]
    assert [t for _, t in df.dtypes] == ["int", "bigint", "int", "bigint"]
    # Above, names that differ by case, or hold dots and backticks, are still different columns.
    top = Filter(plan, Call("<=", (Column("A"), Cast(Column("a"), BIGINT))))
    agrees(jvm, Group(top, (Named("A", Column("A")), Named("a", Column("a"))), ()), table(T, *ROWS))
    agrees(jvm, Sort(top, (Order(Column("weird`name.x")),)), table(T, *ROWS))


def test_texts_and_handles_tell_names_that_differ_by_case_apart(jvm: Jvm) -> None:
    cased = source_of("t", a="bigint", A="bigint")
    text = Opaque("f_1", (Column("a"), Column("A")), BIGINT, text="a * 10 + `A`")
    plan = Project(cased, (Named("x", text),))
    assert on_spark(jvm, plan, table(cased, (1, 2))) == [(12,)]
    handles = Handles(opaque={"f_1": jvm.parse("a * 10 + `A`")})
    bare = Project(cased, (Named("x", Opaque("f_1", (Column("a"), Column("A")), BIGINT)),))
    assert on_spark(jvm, bare, table(cased, (1, 2)), handles) == [(12,)]


def test_values_of_all_types_cross(jvm: Jvm) -> None:
    types = [
        "void", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date",
        "timestamp", "timestamp_ntz", "interval day to second", "decimal(38,2)", "array<array<timestamp>>",
        "map<string,int>", "struct<a:int,B:struct<c:array<double>>>",
    ]  # fmt: skip
    full = (
        None, True, -128, -32768, 2**31 - 1, -(2**63), 0.10000000149011612, NAN, "ä'😀", b"\x00\xff",
        dt.date(1, 1, 1), AT, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), -dt.timedelta(microseconds=1),
        Decimal("123456789012345678901234567890123456.78"), ((AT, None), None), (("k", None),), (1, (((NAN, -0.0)),)),
    )  # fmt: skip
    fields = tuple(Field(f"c{i}", parse_type(t)) for i, t in enumerate(types))
    agrees(jvm, Values(fields, (full, (None,) * len(types))), {})
    empty = Values(fields, ())
    assert on_spark(jvm, empty, {}) == []
    # The same as constants.
    constants = Project(ONE, tuple(Named(f.name, Literal(v, f.type)) for f, v in zip(fields, full, strict=True)))
    agrees(jvm, constants, {})


def test_thousands_of_values(jvm: Jvm) -> None:
    many = Values((Field("n", BIGINT), Field("s", STRING)), tuple((n, f"s{n}") for n in range(5000)))
    plan = Group(many, (), (NamedAggregate("n", AggregateCall("sum", (Column("n"),))),))
    assert on_spark(jvm, plan, {}) == [(4999 * 2500,)]
    # Not as text of the plan.
    assert analyzed(lower(jvm, many, {})).children().apply(0).getClass().getSimpleName() == "LocalRelation"


def test_a_source_used_twice_is_joined_with_itself(jvm: Jvm) -> None:
    left = Project(T, (Named("p", Column("a")), Named("q", Column("b"))))
    right = Project(T, (Named("r", Column("a")), Named("t", Column("s"))))
    for kind in ("inner", "left", "right", "full", "semi", "anti"):
        condition = Call("=", (Column("p"), Column("r")))
        agrees(jvm, Join(left, right, kind, condition), table(T, *ROWS))  # type: ignore[arg-type]
        agrees(jvm, Join(left, right, kind, Call("<=>", (Column("p"), Column("r")))), table(T, *ROWS))  # type: ignore[arg-type]
    agrees(jvm, Join(left, right, "inner"), table(T, *ROWS))
    agrees(jvm, Union((left, left, Project(T, (Named("x", Column("a")), Named("y", Column("b")))))), table(T, *ROWS))
    shared = Group(T, (Named("g", Column("a")),), (NamedAggregate("n", AggregateCall("count")),))
    again = Project(shared, (Named("g2", Column("g")), Named("n2", Column("n"))))
    agrees(jvm, Join(shared, again, "inner", Call("=", (Column("n"), Column("n2")))), table(T, *ROWS))


def test_joins_of_doubles_take_nan_as_equal(jvm: Jvm) -> None:
    left = Project(T, (Named("p", Column("d")),))
    right = Project(T, (Named("q", Column("d")),))
    agrees(jvm, Join(left, right, "full", Call("=", (Column("p"), Column("q")))), table(T, *ROWS))
    many = Call("in", (Column("d"), *(Literal(float(n), DOUBLE) for n in range(1, 15)), Literal(-0.0, DOUBLE)))
    agrees(jvm, Filter(T, many), table(T, *ROWS))
    whole = Call("in", (Column("a"), *(Literal(n, BIGINT) for n in range(-9, 3))))
    agrees(jvm, Filter(T, whole), table(T, *ROWS))


def test_empty_tables(jvm: Jvm) -> None:
    flow = Flow(T)
    agrees(jvm, flow.group(n="count(*)", lo="min(b)").plan, table(T))
    agrees(jvm, flow.group("a", n="count(*)").plan, table(T))
    agrees(jvm, Deduplicate(T, ()), table(T))
    nothing = Group(T, (), ())
    assert lower(jvm, nothing, tables_on_spark(jvm, nothing, table(T))).count() == 1


def test_group_by_constants_and_expressions(jvm: Jvm) -> None:
    keys = (Named("one", Literal(1, INT)), Named("k", Call("+", (Column("b"), Literal(1, INT)))))
    agrees(jvm, Group(T, keys, (NamedAggregate("n", AggregateCall("count")),)), table(T, *ROWS))
    orders = (Order(Literal(2, INT)), Order(Column("a"), descending=True, nulls_first=False), Order(Column("s")))
    assert [r[0] for r in on_spark(jvm, Sort(T, orders), table(T, *ROWS))] == [3, 1, 1, None, None]
    assert len(on_spark(jvm, Limit(Sort(T, orders), 2, 1), table(T, *ROWS))) == 2
    assert [r[0] for r in on_spark(jvm, Limit(Sort(T, orders), None, 3), table(T, *ROWS))] == [None, None]


def test_every_aggregate(jvm: Jvm) -> None:
    fields = source_of("t", g="int", a="bigint", e="decimal(5,2)", d="double", s="string", t="boolean")
    rows = [
        (1, 5, Decimal("1.10"), 0.0, "a", True), (1, 5, Decimal("2.25"), -0.0, "b", False),
        (1, None, None, NAN, "a", None),
        (2, 7, Decimal("999.99"), NAN, None, True), (None, None, None, None, None, None),
    ]  # fmt: skip
    texts = {
        "n": "count(*)", "m": "count(a)", "dn": "count(distinct a)", "sa": "sum(a)", "se": "sum(e)",
        "da": "sum(distinct a)", "aa": "avg(a)", "ae": "avg(e)", "lo": "min(d)", "hi": "max(s)", "ba": "bool_and(t)",
        "bo": "bool_or(t)", "f": "sum(a) filter (where t)", "fn": "count(*) filter (where d = 0)",
    }  # fmt: skip
    agrees(jvm, Flow(fields).group("g", **texts).plan, table(fields, *rows))
    lists = Flow(fields).group("g", l="collect_list(a)", x="collect_set(d)").plan
    found = {g: (sorted(a), sorted(x, key=str)) for g, a, x in on_spark(jvm, lists, table(fields, *rows))}
    assert found[1][0] == [5, 5] and len(found[1][1]) == 2
    assert found[None] == ([], [])


def test_sums_overflow_as_errors(elsewhere: Jvm) -> None:
    from pyspark.errors import PySparkException

    plan = Flow(T).group(x="sum(a)").plan
    with pytest.raises(PySparkException, match="OVERFLOW"):
        on_spark(elsewhere, plan, table(T, (2**63 - 1, 1, "", 0.0), (1, 1, "", 0.0)))


@pytest.mark.parametrize("closed", ["left", "right", "both"])
@pytest.mark.parametrize("stamp", ["window", "start", "end"])
def test_event_windows(elsewhere: Jvm, closed: Any, stamp: Any) -> None:
    """Overlapping, with gaps, with an offset, on boundaries, before 1970, with and without a time zone."""
    inputs = source_of("t", at="timestamp", n="timestamp_ntz")
    moments = [AT + dt.timedelta(seconds=s) for s in (0, 5, 10, 15, 29)] + [
        dt.datetime(1969, 12, 31, 23, 59, 53, tzinfo=dt.UTC)
    ]
    rows = [(m, m.replace(tzinfo=None)) for m in moments] + [(None, None)]
    plans: list[Node] = []
    for size, slide, offset in ((20, 20, 0), (30, 10, 0), (25, 10, -7), (10, 20, 5), (30, 10, 47)):
        for time in ("at", "n"):
            window = EventWindow(inputs, "w", Column(time), size * 10**6, slide * 10**6, offset * 10**6, closed, stamp)
            plans.append(window)
    tables = table(inputs, *rows)
    wrong = differing(elsewhere, [(plan, tables) for plan in plans], evaluate)
    assert not wrong, wrong[0]


def test_generate(jvm: Jvm) -> None:
    pairs = StructType((Field("x", INT), Field("Y", STRING)))
    inputs = source_of("t", i="int", l="array<bigint>", m="map<string,int>", p="array<struct<x:int,Y:string>>")
    rows = [
        (1, (1, None), (("k", 1), ("j", None)), ((1, "a"), None, (None, "b"))),
        (2, (), (), ()),
        (3, None, None, None),
    ]
    assert inputs.fields[3].type == ArrayType(pairs) and inputs.fields[2].type == MapType(STRING, INT)
    for outer in (False, True):
        for position in (None, "at"):
            for name, columns, inline in (
                ("l", (Field("e", BIGINT),), False),
                ("m", (Field("k", STRING), Field("v", INT)), False),
                ("p", (Field("x", INT), Field("y", STRING)), True),
                ("p", (Field("e", pairs),), False),
            ):
                made = Generate(inputs, Column(name), columns, position, outer, inline)
                kept = Project(made, tuple(Named(n, Column(n)) for n in names(made) if n not in "lmp"))
                agrees(jvm, kept, table(inputs, *rows))


def test_opaque_generators(jvm: Jvm) -> None:
    text = Opaque("explode_1", (Column("s"),), STRING, text="explode(split(s, ','))")
    inputs = source_of("t", s="string")
    for opaque, handles in ((text, Handles()),):
        plan = Generate(inputs, opaque, (Field("part", STRING),))
        assert sorted(on_spark(jvm, plan, table(inputs, ("a,b",), (None,)), handles)) == [("a,b", "a"), ("a,b", "b")]
    outer = Generate(inputs, text, (Field("part", STRING),), outer=True)
    assert len(on_spark(jvm, outer, table(inputs, ("a,b",), (None,)))) == 3
    with pytest.raises(NotTraceable, match="cannot be counted"):
        on_spark(jvm, Generate(inputs, text, (Field("part", STRING),), "at"), table(inputs, ("a",)))


def test_members_of_structs(jvm: Jvm) -> None:
    inputs = source_of("t", s="struct<a:int,A:struct<b.c:string>>")
    inner = Member(Member(Column("s"), "A"), "b.c")
    plan = Project(inputs, (Named("x", Member(Column("s"), "a")), Named("y", inner)))
    agrees(jvm, plan, table(inputs, ((1, ("z",)),), ((None, None),), (None,)))


def test_analytic(jvm: Jvm) -> None:
    def made(function: str, frame: Frame, *arguments: Any, condition: Any = None) -> NamedAnalytic:
        return NamedAnalytic("x", AggregateCall(function, arguments, False, condition), frame)

    inputs = source_of("t", g="string", k="int", v="bigint", on="date")
    day = dt.date(2026, 1, 1)
    rows = [(g, k, 10 * i, day + dt.timedelta(days=i)) for i, (g, k) in enumerate(
        [("a", 1), ("a", 2), ("a", 4), ("a", None), ("b", 1), ("b", 7), (None, 1)])]  # fmt: skip
    value, none = Column("v"), Frame("range", None, 0)
    is_even = expression("k % 2 = 0", inputs)
    plans: list[Node] = []
    for descending in (False, True):
        orders = (Order(Column("k"), descending, nulls_first=not descending),)
        for column in (
            made("row_number", none), made("rank", none), made("dense_rank", none),
            made("lag", none, value, Literal(1, INT)), made("lead", none, value, Literal(2, INT)),
            made("lag", none, value, Literal(-1, INT)),
            made("sum", Frame("rows", -1, 1), value), made("count", Frame("rows", None, -1)),
            made("sum", Frame("range", -1, 1), value), made("max", Frame("range", None, 2), value),
            made("sum", Frame("range", 0, None), value), made("count", none, condition=is_even),
            made("sum", Frame("rows", None, None), value, condition=is_even),
        ):  # fmt: skip
            plans.append(Analytic(inputs, (Column("g"),), orders, (column,)))
    by_day = (Order(Column("on")),)
    plans.append(Analytic(inputs, (), by_day, (made("sum", Frame("range", -2, 0), value),)))
    plans.append(Analytic(inputs, (Column("g"),), (), (made("sum", none, value),)))
    plans.append(Analytic(inputs, (Literal(1, INT),), (Order(Literal(1, INT)),), (made("rank", none),)))
    wrong = differing(jvm, [(plan, table(inputs, *rows)) for plan in plans], evaluate)
    assert not wrong, wrong[0]
    distinct = NamedAnalytic("x", AggregateCall("count", (value,), distinct=True), Frame("rows", None, None))
    with pytest.raises(NotTraceable, match="distinct aggregate over a frame"):
        on_spark(jvm, Analytic(inputs, (), (), (distinct,)), table(inputs))


def test_opaque_expressions(jvm: Jvm) -> None:
    text = Opaque("hash_1", (Column("a"),), INT, text="length(repeat('x', int(coalesce(a, 0L))))")
    plan = Filter(
        Project(T, (Named("x", text), Named("s", Column("s")))), expression("x > 0", Project(T, (Named("x", text),)))
    )
    assert sorted(r[0] for r in on_spark(jvm, plan, table(T, *ROWS))) == [1, 1, 3]
    percentile = Opaque("percentile_1", (Column("a"),), DOUBLE, text="percentile(a, 0.5D)")
    grouped = Group(T, (Named("s", Column("s")),), (NamedAggregate("p", percentile),))
    assert (1.0 + 3.0) / 2 in {r[1] for r in on_spark(jvm, grouped, table(T, *ROWS))}
    with pytest.raises(NotTraceable, match="nothing is known about 'udf_1'"):
        on_spark(jvm, Project(T, (Named("x", Opaque("udf_1", (Column("a"),), BIGINT)),)), table(T))
    broken = Project(T, (Named("x", Opaque("f_1", (Column("a"),), BIGINT, text="no_such_function(a)")),))
    with pytest.raises(NotTraceable, match="Spark refuses"):
        on_spark(jvm, broken, table(T))


def test_the_users_own_expression_runs(jvm: Jvm) -> None:
    """Handles stand before what the plan says, also inside of what was put together anew."""
    known = Call("+", (Column("b"), Literal(1, INT)))
    handles = Handles(expressions={known: jvm.parse("b + 100")}, opaque={"udf_1": jvm.parse("concat(s, '!')")})
    above = Call("*", (known, Literal(2, INT)))
    plan = Project(T, (Named("x", above), Named("y", Opaque("udf_1", (Column("s"),), STRING))))
    assert on_spark(jvm, Filter(plan, Call("isnotnull", (Column("y"),))), table(T, *ROWS[:1]), handles) == [(202, "x!")]


def test_python_functions_by_handle(jvm: Jvm) -> None:
    from pyspark.sql import functions as F

    double = F.udf(lambda v: None if v is None else v * 2, "bigint")
    handle = jvm.session.expression(double(F.col("a"))._jc)
    plan = Project(T, (Named("x", Opaque("udf_1", (Column("a"),), BIGINT)),))
    found = on_spark(jvm, plan, table(T, *ROWS[:3]), Handles(opaque={"udf_1": handle}))
    assert sorted(found, key=str) == [(2,), (2,), (None,)]


def test_opaque_steps(jvm: Jvm, spark: Any) -> None:
    from whence.spark.handles import StepHandle
    from whence.spark.jvm import items

    def add(batches: Any) -> Any:
        for batch in batches:
            yield batch.assign(b=batch.a + 1)[["b"]]

    df = spark.createDataFrame([(1,)], "a bigint").mapInPandas(add, "b bigint")
    node = analyzed(df)
    (given,), (made,) = items(node.children().apply(0).output()), items(node.output())
    handles = Handles(steps={"step_1": StepHandle(node, ((given, "a"),), ((made, "made"),))})
    step = OpaqueStep(T, "black_box", "step_1", (Field("made", BIGINT),))
    assert sorted(on_spark(jvm, step, table(T, *ROWS[:2]), handles)) == [(2,), (2,)]
    both = Join(step, Project(step, (Named("other", Column("made")),)), "inner", expression("made = other", Join(
        step, Project(step, (Named("other", Column("made")),)), "inner")))  # fmt: skip
    assert len(on_spark(jvm, both, table(T, *ROWS[:2]), handles)) == 4
    carried = OpaqueStep(T, "per_row", "step_1", (Field("made", BIGINT),), carried=("s",))
    with pytest.raises(NotTraceable, match="does not pass its input's columns on"):
        on_spark(jvm, carried, table(T, *ROWS[:2]), handles)
    with pytest.raises(NotTraceable, match="nothing is known about 'step_1'"):
        on_spark(jvm, step, table(T, *ROWS[:2]))


def test_types_that_plans_do_not_know_pass_through(jvm: Jvm, spark: Any) -> None:
    fields = (Field("i", INT), Field("v", OtherType("interval year to month")))
    inputs = Source("t", fields)
    df = spark.sql("select 1 as i, interval '2' month as v")
    from whence.spark.types import data_type

    (_, given) = (data_type(a.dataType()) for a in (analyzed(df).output().apply(n) for n in range(2)))
    inputs = Source("t", (Field("i", INT), Field("v", given)))
    made = Opaque("f_1", (Column("v"),), given, text="coalesce(v, v)")
    plan = Filter(Project(inputs, (Named("w", made), Named("v", Column("v")))), Call("isnotnull", (Column("w"),)))
    assert lower(jvm, plan, {"t": df}).selectExpr("cast(w as string)").collect()[0][0] == "INTERVAL '2' MONTH"


def test_untyped_nulls(jvm: Jvm) -> None:
    null = Literal(None, VOID)
    columns = [
        Call("=", (null, Column("a"))), Call("coalesce", (null, Column("a"))), Call("substring", (null, null, null)),
        Call("upper", (null,)), Call("length", (null,)), Call("and", (null, Literal(False, BOOLEAN))),
        Call("array", (null, Column("a"))), null,
        Call("isnull", (null,)), Call("in", (Column("a"), null, Literal(1, BIGINT))), Call("like", (null, null)),
    ]  # fmt: skip
    agrees(jvm, Project(T, tuple(Named(f"x{i}", c) for i, c in enumerate(columns))), table(T, *ROWS))
    assert on_spark(jvm, Filter(T, null), table(T, *ROWS)) == []


def test_what_the_tables_lack_is_said(jvm: Jvm) -> None:
    frames = tables_on_spark(jvm, T, table(T, *ROWS))
    with pytest.raises(UnknownSource, match="no table for source 'u'"):
        lower(jvm, source_of("u", a="bigint"), frames)
    with pytest.raises(UnknownSource, match="has no column 'z'"):
        lower(jvm, source_of("t", z="bigint"), frames)
    with pytest.raises(NotTraceable, match="another type"):
        lower(jvm, source_of("t", a="string"), frames)


def test_streams(jvm: Jvm, spark: Any, tmp_path: Any) -> None:
    """Watermarks and windows stay what Spark needs them to be; what means nothing in a batch runs on a stream."""
    frame = spark.createDataFrame(
        [(AT.replace(tzinfo=None), 1), (AT.replace(tzinfo=None), 1)], "at timestamp_ntz, car bigint"
    )
    frame.selectExpr("cast(at as timestamp) as time", "car").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("time timestamp, car bigint").parquet(str(tmp_path / "in"))
    flow = source("t", time="timestamp", car="bigint").with_watermark("time", "10 seconds")
    plan = flow.window("time", "20 seconds", "10 seconds").group("window", "car", n="count(*)").plan
    df = lower(jvm, plan, {"t": stream})
    assert df.isStreaming and "EventTimeWatermark" in analyzed(df).toString()
    query = df.writeStream.format("memory").queryName("lowered").outputMode("append").trigger(availableNow=True).start()
    query.awaitTermination()
    # In append mode a window is given once the watermark has passed its end: only the earlier one may be.
    assert spark.table("lowered").count() == 0
    once = lower(jvm, flow.deduplicate("car", within_watermark=True).plan, {"t": stream})
    assert "DeduplicateWithinWatermark" in analyzed(once).toString()
    batch = spark.read.parquet(str(tmp_path / "in"))
    with pytest.raises(NotTraceable, match="means nothing in a batch"):
        lower(jvm, flow.deduplicate("car", within_watermark=True).plan, {"t": batch})
    assert "EventTimeWatermark" not in analyzed(lower(jvm, plan, {"t": batch})).toString()
    right = flow.window("time", "20 seconds", closed="right").plan
    with pytest.raises(NotTraceable, match="cannot run on a stream"):
        lower(jvm, right, {"t": stream})


def test_nothing_is_left_behind(jvm: Jvm, spark: Any) -> None:
    agrees(jvm, Flow(T).group("a", n="count(*)").plan, table(T, *ROWS))
    assert spark.catalog.listTables() == []
