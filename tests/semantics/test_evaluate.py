"""What each node means, on tables small enough to check by eye, and how fast.

Over 500 lines: one class a node kind, all in one place to be read beside the nodes.
"""

import math
import random
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import ClassVar

import pytest

from whence.errors import EvaluationError, PlanError, UnknownSource
from whence.plan import hidden
from whence.plan.expressions import AggregateCall, Call, Cast, Column, Expression, Literal, Opaque
from whence.plan.nodes import (
    UP_TO_CURRENT,
    WHOLE_PARTITION,
    Analytic,
    Deduplicate,
    Distinct,
    EventWindow,
    Filter,
    Frame,
    Generate,
    Group,
    Join,
    JoinKind,
    Limit,
    Named,
    NamedAggregate,
    NamedAnalytic,
    Node,
    OpaqueStep,
    Order,
    Project,
    SetOperation,
    Sort,
    Source,
    Union,
    Values,
    Watermark,
)
from whence.plan.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    StructType,
)
from whence.semantics import POLYNOMIALS, Table, annotate, evaluate

N = None
CARS = Source("cars", (Field("car", BIGINT), Field("speed", BIGINT)))
TABLES = {"cars": Table(("car", "speed"), [(17, 0), (23, 50), (17, 10), (N, 5), (23, N), (N, 7)])}


def column(name: str) -> Column:
    return Column(name)


def call(name: str, *arguments: Expression) -> Call:
    return Call(name, arguments)


def number(value: int) -> Literal:
    return Literal(value, BIGINT)


def table_of(type: DataType, *values: object) -> tuple[Source, dict[str, Table]]:
    """A source t with one column x."""
    return Source("t", (Field("x", type),)), {"t": Table(("x",), [(v,) for v in values])}


def aggregate(function: str, *arguments: Expression, distinct: bool = False, where: Expression | None = None):
    return AggregateCall(function, arguments, distinct, where)


def total(child: Node, function: AggregateCall | Opaque) -> Group:
    return Group(child, (), (NamedAggregate("value", function),))


class TestSource:
    def test_picks_fields_by_name(self) -> None:
        source = Source("cars", (Field("speed", BIGINT),))
        assert evaluate(source, TABLES)[:2] == [(0,), (50,)]

    def test_supplies_ids_and_late_times(self) -> None:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        late = (Field("x", INT), Field(hidden.ROW_ID, BIGINT), Field(hidden.LATE, TIMESTAMP))
        table = Table(("x",), [(1,), (2,)], ids=[70, 80], late=[at, None])
        assert evaluate(Source("t", late), {"t": table}) == [(1, 70, at), (2, 80, None)]

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            (Table(("car",), [(1,)]), "no column 'speed'.*its columns: car"),
            (Table(("car", "speed"), [(1, "fast")]), "'fast' is not a value of type bigint.*column 'speed'"),
        ],
    )
    def test_refuses_tables_that_do_not_fit(self, table: Table, message: str) -> None:
        with pytest.raises(EvaluationError, match=f"(?s){message}"):
            evaluate(CARS, {"cars": table})

    def test_unknown_source_lists_the_tables(self) -> None:
        with pytest.raises(UnknownSource, match="(?s)'cars'.*boats"):
            evaluate(CARS, {"boats": Table((), [])})

    def test_two_sources_of_one_name_must_agree(self) -> None:
        with pytest.raises(PlanError, match="two sources are called 'cars'"):
            evaluate(
                Union((Source("cars", (Field("car", BIGINT),)), Source("cars", (Field("speed", BIGINT),)))), TABLES
            )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((("a", "b"), [(1,)]), "row 0 has 1 values for 2 columns"),
            ((("a", "a"), []), "two columns have one name"),
            ((("a",), [(1,), (2,)], [5]), "1 ids for 2 rows"),
            ((("a",), [(1,), (2,)], [5, 5]), "two rows have one id"),
        ],
    )
    def test_malformed_tables(self, arguments: tuple, message: str) -> None:
        with pytest.raises(EvaluationError, match=message):
            Table(*arguments)


def test_values() -> None:
    assert evaluate(Values((Field("x", DOUBLE),), ((1,), (N,))), {}) == [(1.0,), (N,)]


def test_project_and_filter_keep_only_what_is_true() -> None:
    fast = Filter(CARS, call(">", column("speed"), number(5)))
    plan = Project(fast, (Named("half", call("div", column("speed"), number(2))),))
    assert evaluate(plan, TABLES) == [(25,), (5,), (3,)]


def test_errors_say_in_which_node() -> None:
    plan = Project(CARS, (Named("x", call("div", column("speed"), number(0))),), step="ratio")
    with pytest.raises(EvaluationError, match="(?s)division by zero.*in project 'ratio'"):
        evaluate(plan, TABLES)


class TestGenerate:
    ARRAY = ArrayType(BIGINT)

    def test_explode(self) -> None:
        source, tables = table_of(self.ARRAY, (1, N), (), N)
        plan = Generate(source, column("x"), (Field("e", BIGINT),))
        assert evaluate(plan, tables) == [((1, N), 1), ((1, N), N)]

    def test_outer_with_position(self) -> None:
        source, tables = table_of(self.ARRAY, (5, 6), (), N)
        plan = Generate(source, column("x"), (Field("e", BIGINT),), position="p", outer=True)
        assert [row[1:] for row in evaluate(plan, tables)] == [(0, 5), (1, 6), (N, N), (N, N)]

    def test_map(self) -> None:
        source, tables = table_of(MapType(STRING, BIGINT), {"a": 1, "b": N})
        plan = Generate(source, column("x"), (Field("k", STRING), Field("v", BIGINT)))
        assert [row[1:] for row in evaluate(plan, tables)] == [("a", 1), ("b", N)]

    def test_inline_makes_a_null_struct_a_row_of_nulls(self) -> None:
        pair = StructType((Field("a", BIGINT), Field("b", STRING)))
        source, tables = table_of(ArrayType(pair), [(1, "x"), N])
        plan = Generate(source, column("x"), pair.fields, inline=True)
        assert [row[1:] for row in evaluate(plan, tables)] == [(1, "x"), (N, N)]

    def test_opaque_generator_makes_rows(self) -> None:
        source, tables = table_of(BIGINT, 2, 0)
        opaque = Opaque("stack", (column("x"),), ArrayType(StructType((Field("a", BIGINT), Field("b", BIGINT)))))
        plan = Generate(source, opaque, (Field("a", BIGINT), Field("b", BIGINT)))
        made = evaluate(plan, tables, {"stack": lambda n: [(i, -i) for i in range(n)]})
        assert made == [(2, 0, 0), (2, 1, -1)]


def test_union_goes_by_position() -> None:
    other = Project(CARS, (Named("a", column("speed")), Named("b", column("car"))))
    assert evaluate(Union((CARS, other)), TABLES) == TABLES["cars"].rows + [(b, a) for a, b in TABLES["cars"].rows]


class TestJoin:
    LEFT = Source("l", (Field("a", BIGINT), Field("x", STRING)))
    RIGHT = Source("r", (Field("b", BIGINT), Field("y", STRING)))
    TABLES: ClassVar = {
        "l": Table(("a", "x"), [(1, "l1"), (2, "l2"), (N, "l3"), (1, "l4")]),
        "r": Table(("b", "y"), [(1, "r1"), (3, "r2"), (N, "r3"), (1, "r4")]),
    }
    EQUAL = Call("=", (Column("a"), Column("b")))

    def names(self, kind: JoinKind, condition: Expression | None) -> list[tuple[object, ...]]:
        rows = evaluate(Join(self.LEFT, self.RIGHT, kind, condition), self.TABLES)
        return [row[1::2] for row in rows]

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [
            ("inner", [("l1", "r1"), ("l1", "r4"), ("l4", "r1"), ("l4", "r4")]),
            ("left", [("l1", "r1"), ("l1", "r4"), ("l2", N), ("l3", N), ("l4", "r1"), ("l4", "r4")]),
            ("right", [("l1", "r1"), ("l1", "r4"), ("l4", "r1"), ("l4", "r4"), (N, "r2"), (N, "r3")]),
            (
                "full",
                [("l1", "r1"), ("l1", "r4"), ("l2", N), ("l3", N), ("l4", "r1"), ("l4", "r4"), (N, "r2"), (N, "r3")],
            ),
            ("semi", [("l1",), ("l4",)]),
            ("anti", [("l2",), ("l3",)]),
        ],
    )
    def test_kinds(self, kind: JoinKind, expected: list[tuple[object, ...]]) -> None:
        assert self.names(kind, self.EQUAL) == expected

    def test_null_safe_equality_matches_nulls(self) -> None:
        condition = call("<=>", column("b"), column("a"))
        assert ("l3", "r3") in self.names("inner", condition)
        assert self.names("anti", condition) == [("l2",)]

    def test_no_condition_is_every_pair(self) -> None:
        assert len(self.names("inner", None)) == 16

    def test_rest_of_the_condition_decides_too(self) -> None:
        condition = call("and", self.EQUAL, call("!=", column("y"), Literal("r1", STRING)))
        assert self.names("inner", condition) == [("l1", "r4"), ("l4", "r4")]
        unequal = call("<", column("a"), column("b"))
        assert self.names("inner", unequal) == [("l1", "r2"), ("l2", "r2"), ("l4", "r2")]

    @pytest.mark.parametrize("seed", range(20))
    @pytest.mark.parametrize("kind", ["inner", "left", "right", "full", "semi", "anti"])
    def test_against_nested_loops(self, kind: JoinKind, seed: int) -> None:
        generator = random.Random(seed)
        keys: list[float | None] = [N, math.nan, 0.0, -0.0, 1.0]
        sides = [[(generator.choice(keys), i) for i in range(generator.randrange(6))] for _ in range(2)]
        left = Source("l", (Field("a", DOUBLE), Field("i", BIGINT)))
        right = Source("r", (Field("b", DOUBLE), Field("j", BIGINT)))
        condition = call("and", call("=", column("a"), column("b")), call("<=", column("i"), column("j")))
        plan = Join(left, right, kind, condition)
        tables = {"l": Table(("a", "i"), sides[0]), "r": Table(("b", "j"), sides[1])}

        def match(a: float | None, b: float | None) -> bool:
            return a is not None and b is not None and (a == b or (math.isnan(a) and math.isnan(b)))

        pairs = [(p, q) for p in sides[0] for q in sides[1] if match(p[0], q[0]) and p[1] <= q[1]]
        matched = ({p[1] for p, _ in pairs}, {q[1] for _, q in pairs})
        lone_left = [p for p in sides[0] if p[1] not in matched[0]]
        lone_right = [q for q in sides[1] if q[1] not in matched[1]]
        expected: list[tuple[object, ...]] = {
            "semi": [p for p in sides[0] if p[1] in matched[0]],
            "anti": lone_left,
        }.get(kind, [p + q for p, q in pairs])  # type: ignore[assignment]
        expected += [(*p, N, N) for p in lone_left] if kind in ("left", "full") else []
        expected += [(N, N, *q) for q in lone_right] if kind in ("right", "full") else []
        assert sorted(map(repr, evaluate(plan, tables))) == sorted(map(repr, expected))


class TestEventWindow:
    MINUTE = 60_000_000

    def at(self, *seconds: float | None) -> tuple[Source, dict[str, Table]]:
        times = [N if s is None else datetime.fromtimestamp(s, UTC) for s in seconds]
        return table_of(TIMESTAMP, *times)

    def starts(self, plan: Node, tables: dict[str, Table]) -> list[tuple[float, float]]:
        return [(w[0].timestamp(), w[1].timestamp()) for *_, w in evaluate(plan, tables)]

    def test_tumbling(self) -> None:
        source, tables = self.at(0, 59.999999, 60, -1, N)
        plan = EventWindow(source, "w", column("x"), self.MINUTE, self.MINUTE)
        assert self.starts(plan, tables) == [(0, 60), (0, 60), (60, 120), (-60, 0)]

    def test_sliding_and_offset(self) -> None:
        source, tables = self.at(61)
        plan = EventWindow(source, "w", column("x"), 2 * self.MINUTE, self.MINUTE, offset=5_000_000)
        assert self.starts(plan, tables) == [(-55, 65), (5, 125)]

    @pytest.mark.parametrize(
        ("closed", "expected"),
        [("left", [(60, 120)]), ("right", [(0, 60)]), ("both", [(0, 60), (60, 120)])],
    )
    def test_closed_ends(self, closed: str, expected: list[tuple[float, float]]) -> None:
        source, tables = self.at(60)
        plan = EventWindow(source, "w", column("x"), self.MINUTE, self.MINUTE, closed=closed)  # type: ignore[arg-type]
        assert self.starts(plan, tables) == expected

    def test_slide_longer_than_size_leaves_gaps(self) -> None:
        source, tables = self.at(10, 40)
        plan = EventWindow(source, "w", column("x"), 30_000_000, self.MINUTE)
        assert self.starts(plan, tables) == [(0, 30)]

    @pytest.mark.parametrize(("stamp", "second"), [("start", 0), ("end", 60)])
    def test_stamps(self, stamp: str, second: int) -> None:
        source, tables = self.at(10)
        plan = EventWindow(source, "w", column("x"), self.MINUTE, self.MINUTE, stamp=stamp)  # type: ignore[arg-type]
        assert evaluate(plan, tables)[0][1] == datetime.fromtimestamp(second, UTC)

    def test_times_without_zone_stay_so(self) -> None:
        source, tables = table_of(TIMESTAMP_NTZ, datetime(2026, 1, 1, 0, 0, 30))
        plan = EventWindow(source, "w", column("x"), self.MINUTE, self.MINUTE)
        assert evaluate(plan, tables)[0][1] == (datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 1))


class TestGroup:
    def test_nulls_are_one_group(self) -> None:
        plan = Group(CARS, (Named("car", column("car")),), (NamedAggregate("n", aggregate("count")),))
        assert evaluate(plan, TABLES) == [(17, 2), (23, 2), (N, 2)]

    def test_nan_and_zeros(self) -> None:
        source, tables = table_of(DOUBLE, math.nan, 0.0, -0.0, float("nan"))
        plan = Group(source, (Named("x", column("x")),), (NamedAggregate("n", aggregate("count")),))
        assert [row[1] for row in evaluate(plan, tables)] == [2, 2]

    def test_no_keys_give_one_row_even_of_nothing(self) -> None:
        none = Filter(CARS, Literal(False, BOOLEAN))
        aggregates = [
            aggregate("count"), aggregate("sum", column("speed")), aggregate("min", column("speed")),
            aggregate("collect_list", column("speed")), aggregate("avg", column("speed")),
        ]  # fmt: skip
        plan = Group(none, (), tuple(NamedAggregate(f"a{i}", a) for i, a in enumerate(aggregates)))
        assert evaluate(plan, TABLES) == [(0, N, N, (), N)]
        assert evaluate(Group(none, (Named("car", column("car")),), ()), TABLES) == []

    @pytest.mark.parametrize(
        ("function", "expected"),
        [
            (aggregate("count"), 6),
            (aggregate("count", column("speed")), 5),
            (aggregate("count", column("car"), distinct=True), 2),
            (aggregate("sum", column("speed")), 72),
            (aggregate("avg", column("speed")), 14.4),
            (aggregate("min", column("speed")), 0),
            (aggregate("max", column("speed")), 50),
            (aggregate("collect_list", column("car")), (17, 23, 17, 23)),
            (aggregate("collect_set", column("car")), (17, 23)),
            (aggregate("bool_and", call(">", column("speed"), number(0))), False),
            (aggregate("bool_or", call(">", column("speed"), number(49))), True),
            (aggregate("bool_and", Literal(None, BOOLEAN)), None),
            (aggregate("count", where=call(">", column("speed"), number(5))), 3),
            (aggregate("sum", column("car"), distinct=True, where=call("isnotnull", column("speed"))), 40),
            (Opaque("spread", (column("speed"),), BIGINT), 50),
        ],
        ids=str,
    )
    def test_aggregates(self, function: AggregateCall | Opaque, expected: object) -> None:
        spread = {"spread": lambda speeds: max(s for s in speeds if s is not None)}
        assert evaluate(total(CARS, function), TABLES, spread) == [(expected,)]

    def test_extremes_order_nan_last(self) -> None:
        source, tables = table_of(DOUBLE, 1.0, math.nan, math.inf)
        assert evaluate(total(source, aggregate("min", column("x"))), tables) == [(1.0,)]
        assert math.isnan(evaluate(total(source, aggregate("max", column("x"))), tables)[0][0])

    def test_decimals(self) -> None:
        source, tables = table_of(DecimalType(5, 2), Decimal("1.00"), Decimal("1.01"), Decimal("0.00"))
        assert evaluate(total(source, aggregate("sum", column("x"))), tables) == [(Decimal("2.01"),)]
        average = evaluate(total(source, aggregate("avg", column("x"))), tables)[0][0]
        assert str(average) == "0.670000"

    def test_sum_overflow(self) -> None:
        source, tables = table_of(BIGINT, 2**63 - 1, 1)
        with pytest.raises(EvaluationError, match="sum: the total is out of the range of bigint"):
            evaluate(total(source, aggregate("sum", column("x"))), tables)

    def test_doubles_are_added_from_left_to_right(self) -> None:
        source, tables = table_of(DOUBLE, 1e16, 1.0, -1e16)
        assert evaluate(total(source, aggregate("sum", column("x"))), tables) == [(0.0,)]


def test_distinct() -> None:
    source, tables = table_of(DOUBLE, 1.0, N, 1.0, math.nan, N, math.nan)
    assert [repr(row) for row in evaluate(Distinct(source), tables)] == ["(1.0,)", "(None,)", "(nan,)"]


def test_deduplicate_keeps_the_first_met() -> None:
    assert evaluate(Deduplicate(CARS, ("car",)), TABLES) == [(17, 0), (23, 50), (N, 5)]


def test_deduplicate_within_watermark_means_nothing_in_a_batch() -> None:
    with pytest.raises(EvaluationError, match="use run_stream"):
        evaluate(Deduplicate(CARS, ("car",), within_watermark=True), TABLES)


@pytest.mark.parametrize(
    ("kind", "all", "expected"),
    [
        ("intersect", False, [1, N]),
        ("intersect", True, [1, 1, N]),
        ("except", False, [3]),
        ("except", True, [1, 3, 3]),
    ],
)
def test_set_operations(kind: str, all: bool, expected: list[int | None]) -> None:
    left, right = Source("l", (Field("a", BIGINT),)), Source("r", (Field("b", BIGINT),))
    tables = {
        "l": Table(("a",), [(1,), (1,), (1,), (3,), (N,), (3,)]),
        "r": Table(("b",), [(1,), (1,), (2,), (N,), (N,)]),
    }
    plan = SetOperation(left, right, kind, all)  # type: ignore[arg-type]
    assert evaluate(plan, tables) == [(v,) for v in expected]


def test_sort_and_limit() -> None:
    plan = Sort(CARS, (Order(column("car"), descending=True, nulls_first=False), Order(column("speed"))))
    assert evaluate(plan, TABLES) == [(23, N), (23, 50), (17, 0), (17, 10), (N, 5), (N, 7)]
    assert evaluate(Limit(plan, 2), TABLES) == [(23, N), (23, 50)]
    assert evaluate(Limit(plan, 2, offset=5), TABLES) == [(N, 7)]
    assert evaluate(Limit(plan, None, offset=4), TABLES) == [(N, 5), (N, 7)]


class TestAnalytic:
    TIES = Source("t", (Field("g", STRING), Field("o", BIGINT), Field("v", BIGINT)))
    ROWS: ClassVar = {
        "t": Table(("g", "o", "v"), [("a", 2, 1), ("a", 1, 2), ("b", 1, 4), ("a", 2, 8), ("a", N, 16), ("a", 4, 32)])
    }

    def column(
        self, function: AggregateCall, frame: Frame = UP_TO_CURRENT, descending: bool = False, nulls_first: bool = True
    ) -> list[object]:
        plan = Analytic(
            self.TIES,
            (Column("g"),),
            (Order(Column("o"), descending, nulls_first),),
            (NamedAnalytic("made", function, frame),),
        )
        return [row[3] for row in evaluate(plan, self.ROWS)]

    SUM = AggregateCall("sum", (Column("v"),))

    @pytest.mark.parametrize(
        ("name", "expected"),
        [("row_number", [3, 2, 1, 4, 1, 5]), ("rank", [3, 2, 1, 3, 1, 5]), ("dense_rank", [3, 2, 1, 3, 1, 4])],
    )
    def test_rankings(self, name: str, expected: list[int]) -> None:
        assert self.column(AggregateCall(name)) == expected

    def test_offsets(self) -> None:
        def by(name: str, n: int) -> list[object]:
            return self.column(AggregateCall(name, (Column("v"), Literal(n, INT))))

        assert by("lag", 1) == [2, 16, N, 1, N, 8]
        assert by("lead", 1) == by("lag", -1) == [8, 1, N, 32, 2, N]
        assert by("lag", 0) == [1, 2, 4, 8, 16, 32]

    @pytest.mark.parametrize(
        ("frame", "expected"),
        [
            (UP_TO_CURRENT, [27, 18, 4, 27, 16, 59]),
            (WHOLE_PARTITION, [59, 59, 4, 59, 59, 59]),
            (Frame("rows", None, 0), [19, 18, 4, 27, 16, 59]),
            (Frame("rows", -1, 1), [11, 19, 4, 41, 18, 40]),
            (Frame("rows", 1, 2), [40, 9, N, 32, 3, N]),
            (Frame("rows", -2, -1), [18, 16, N, 3, N, 9]),
            (Frame("range", 0, 0), [9, 2, 4, 9, 16, 32]),
            (Frame("range", 0, None), [41, 43, 4, 41, 59, 32]),
            (Frame("range", -1, 1), [11, 11, 4, 11, 16, 32]),
            (Frame("range", 2, 3), [32, 32, N, 32, 16, N]),
            (Frame("range", None, -1), [18, 16, N, 18, 16, 27]),
        ],
        ids=str,
    )
    def test_frames(self, frame: Frame, expected: list[int | None]) -> None:
        assert self.column(self.SUM, frame) == expected

    def test_range_frame_follows_the_direction(self) -> None:
        preceding = Frame("range", -2, 0)
        assert self.column(self.SUM, preceding) == [11, 2, 4, 11, 16, 41]
        assert self.column(self.SUM, preceding, descending=True) == [41, 11, 4, 41, 16, 32]

    def test_nulls_last(self) -> None:
        assert self.column(self.SUM, UP_TO_CURRENT, nulls_first=False) == [11, 2, 4, 11, 59, 43]

    def test_no_order_makes_all_peers(self) -> None:
        plan = Analytic(self.TIES, (), (), (NamedAnalytic("made", self.SUM, UP_TO_CURRENT),))
        assert {row[3] for row in evaluate(plan, self.ROWS)} == {63}

    def test_dates_count_in_days(self) -> None:
        source, tables = table_of(DATE, date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 4))
        count = NamedAnalytic("n", AggregateCall("count"), Frame("range", -2, 0))
        plan = Analytic(source, (), (Order(column("x")),), (count,))
        assert [row[1] for row in evaluate(plan, tables)] == [1, 2, 2]


def test_watermark_changes_nothing_in_a_batch() -> None:
    source, tables = table_of(TIMESTAMP, datetime(2026, 1, 1, tzinfo=UTC), None)
    assert evaluate(Watermark(source, "x", 1000), tables) == evaluate(source, tables)


class TestOpaqueStep:
    def test_per_row_carries_columns(self) -> None:
        plan = OpaqueStep(CARS, "per_row", "twice", (Field("y", BIGINT),), carried=("car",))
        made = evaluate(
            Limit(plan, 3), TABLES, {"twice": lambda row: [] if row[1] is None else [(row[1],), (-row[1],)]}
        )
        assert made == [(0, 17), (0, 17), (50, 23)]

    def test_per_group(self) -> None:
        plan = OpaqueStep(CARS, "per_group", "size", (Field("car", BIGINT), Field("n", INT)), keys=("car",))
        made = evaluate(plan, TABLES, {"size": lambda rows: [(rows[0][0], len(rows))]})
        assert made == [(17, 2), (23, 2), (N, 2)]

    def test_black_box(self) -> None:
        plan = OpaqueStep(CARS, "black_box", "size", (Field("n", INT),))
        assert evaluate(plan, TABLES, {"size": lambda rows: [(len(rows),)]}) == [(6,)]

    def test_its_rows_are_checked(self) -> None:
        plan = OpaqueStep(CARS, "black_box", "size", (Field("n", INT),))
        with pytest.raises(EvaluationError, match="row of 2 values for 1 columns"):
            evaluate(plan, TABLES, {"size": lambda rows: [(1, 2)]})
        with pytest.raises(EvaluationError, match="not a value of type int"):
            evaluate(plan, TABLES, {"size": lambda rows: [("x",)]})


def test_a_shared_node_is_evaluated_once() -> None:
    calls: list[int] = []

    def counted(value: int) -> int:
        calls.append(value)
        return len(calls)

    opaque = Opaque("count", (column("speed"),), BIGINT, deterministic=False)
    shared = Project(CARS, (Named("n", opaque),))
    made = evaluate(Union((shared, shared)), TABLES, {"count": counted})
    assert len(calls) == 6 and made[:6] == made[6:]


def five_nodes(size: int) -> tuple[Node, dict[str, Table]]:
    """Filter, project, join, group, sort over a table of that many rows."""
    generator = random.Random(7)
    trips = Source("trips", (Field("car", BIGINT), Field("km", DOUBLE)))
    owners = Source("owners", (Field("owned", BIGINT), Field("owner", STRING)))
    tables = {
        "trips": Table(("car", "km"), [(generator.randrange(500), generator.random()) for _ in range(size)]),
        "owners": Table(("owned", "owner"), [(i, f"owner {i % 50}") for i in range(500)]),
    }
    long = Filter(trips, call(">", column("km"), Literal(0.1, DOUBLE)))
    metres = Project(long, (Named("car", column("car")), Named("m", call("*", column("km"), Literal(1000.0, DOUBLE)))))
    owned = Join(metres, owners, "inner", call("=", column("car"), column("owned")))
    by_owner = Group(owned, (Named("owner", column("owner")),), (NamedAggregate("m", aggregate("sum", column("m"))),))
    return Sort(by_owner, (Order(column("m"), descending=True),)), tables


def test_ten_thousand_rows_through_five_nodes_take_under_five_seconds() -> None:
    plan, tables = five_nodes(10_000)
    started = time.perf_counter()
    rows = evaluate(plan, tables)
    annotated = annotate(plan, tables)
    polynomials = annotate(plan, tables, POLYNOMIALS)
    assert time.perf_counter() - started < 5
    assert len(rows) == 50 and rows == [item.row for item in annotated] == [item.row for item in polynomials]
    assert sum(len(item.annotation) for item in annotated) > 9_000


def test_casts_reach_through_plans() -> None:
    plan = Project(CARS, (Named("text", Cast(column("speed"), STRING)),))
    assert evaluate(Limit(plan, 2), TABLES) == [("0",), ("50",)]
