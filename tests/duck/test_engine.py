"""The engine over the files of a run: ids, hidden columns, odd files and names, errors, and what it reads."""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tests.duck.runs import Given, arrow_rows, write_run
from whence.duck import engine as engine_module
from whence.duck.engine import DuckEngine
from whence.duck.lower import MOST_WRITTEN, lower, portable
from whence.duck.tables import no_files
from whence.errors import BrokenRun, EvaluationError, NotPortable, PlanError, SourceChanged, UnknownRow, UnknownSource
from whence.plan.builder import source
from whence.plan.expressions import Call, Column, Literal, Opaque
from whence.plan.hidden import LATE, RESULTS, ROW_ID
from whence.plan.nodes import Filter, Join, Named, Node, OpaqueStep, Project, Source, Union, Values
from whence.plan.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    ArrayType,
    Field,
    OtherType,
    Schema,
    parse_type,
)
from whence.store import LANDED_ID, Annotation, open_run, pack

AT = dt.datetime(2026, 1, 1, 8, tzinfo=dt.UTC)
CARS: Schema = (Field("car", INT), Field("at", TIMESTAMP))
ROWS = [(n % 3, AT + dt.timedelta(seconds=n)) for n in range(10)]


def with_hidden(name: str, fields: Schema) -> Source:
    return Source(name, (*fields, Field(ROW_ID, BIGINT), Field(LATE, TIMESTAMP)))


def rows_of(found: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.fixture
def cars(tmp_path: Path) -> DuckEngine:
    """Two files, the second of a later epoch with a bound for late rows."""
    return DuckEngine(write_run(tmp_path, {"cars": Given(CARS, [ROWS[:4], ROWS[4:]])}, late=(None, 1_500)))


def test_rows_have_ids_and_the_bound_of_their_epoch(cars: DuckEngine) -> None:
    found = rows_of(cars.run(with_hidden("cars", CARS)))
    late = dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=dt.UTC)
    assert sorted(found, key=lambda row: row[2]) == [
        (*row, pack(0, n) if n < 4 else pack(1, n - 4), None if n < 4 else late) for n, row in enumerate(ROWS)
    ]


@pytest.mark.parametrize("listed", [0, 1_000])
def test_fetch_gives_rows_in_the_order_asked(cars: DuckEngine, listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "LISTED", listed)
    ids = [pack(1, 5), pack(0, 3), pack(0, 0), pack(0, 3)]
    found = cars.fetch("cars", ids)
    assert found.column_names == [ROW_ID, "car", "at"]
    assert rows_of(found) == [(i, *ROWS[n]) for i, n in zip(ids, (9, 3, 0, 3), strict=True)]
    assert cars.fetch("cars", ids[:1], ["car"]).to_pylist() == [{ROW_ID: ids[0], "car": 0}]
    assert cars.fetch("cars", []).num_rows == 0


@pytest.mark.parametrize("listed", [0, 1_000])
@pytest.mark.parametrize("wrong", [pack(0, 4), pack(2, 0), pack(1, 6)])
def test_fetch_of_no_row(cars: DuckEngine, wrong: int, listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "LISTED", listed)
    with pytest.raises(UnknownRow):
        cars.fetch("cars", [pack(0, 0), wrong])


def test_fetch_of_no_column(cars: DuckEngine) -> None:
    with pytest.raises(PlanError, match="unknown column 'speed'"):
        cars.fetch("cars", [0], ["speed"])


def test_filters_on_ids_read_only_their_files(cars: DuckEngine) -> None:
    asked = Call("in", (Column(ROW_ID), *(Literal(pack(1, n), BIGINT) for n in (0, 5, 77)), Literal(-1, BIGINT)))
    plan = Filter(Source("cars", (*CARS, Field(ROW_ID, BIGINT))), asked)
    assert sorted(r[1] for r in rows_of(cars.run(plan))) == [ROWS[4][1], ROWS[9][1]]
    assert "00000.parquet" not in lower(plan, cars.files.scan).sql
    nowhere = Filter(plan.child, Call("=", (Column(ROW_ID), Literal(pack(9, 9), BIGINT))))
    assert cars.run(nowhere).num_rows == 0


def test_filters_skip_row_groups(cars: DuckEngine) -> None:
    plan = source("cars", car="int", at="timestamp").where("at >= timestamp '2026-01-01 08:00:08'").plan
    scanned = re.search(r"Row Groups Scanned: (\d+) / (\d+)", cars.explain(plan, analyze=True))
    assert scanned is not None
    assert (scanned[1], scanned[2]) == ("1", "5")


def test_null_safe_joins_are_hash_joins(cars: DuckEngine) -> None:
    flow = source("cars", car="int", at="timestamp")
    plan = flow.join(flow.prefixed("other_"), "car <=> other_car and at <=> other_at").plan
    text = cars.explain(plan)
    assert "Hash Join" in text and "Nested Loop" not in text
    assert cars.run(plan).num_rows == 10


def test_landed_rows_bring_their_ids(tmp_path: Path) -> None:
    fields = (Field(LANDED_ID, BIGINT), *CARS)
    files = [arrow_rows(fields, [(100 + n, *row) for n, row in enumerate(ROWS)])]
    engine = DuckEngine(write_run(tmp_path, {"cars": Given(CARS, files, landed=True)}))
    assert engine.run(with_hidden("cars", CARS)).column(ROW_ID).to_pylist() == list(range(100, 110))
    assert engine.fetch("cars", [105, 101]).column("at").to_pylist() == [ROWS[5][1], ROWS[1][1]]
    with pytest.raises(UnknownRow):
        engine.fetch("cars", [110])
    plan = Filter(with_hidden("cars", CARS), Call("=", (Column(ROW_ID), Literal(103, BIGINT))))
    assert rows_of(engine.run(plan))[0][:2] == ROWS[3]


def test_results_have_annotations_and_ids(tmp_path: Path) -> None:
    fields = (Field("n", BIGINT), Field("__ids", ArrayType(BIGINT)))
    results = Given(fields, [[(1, (7, 8)), (2, (9,))], [(3, None)]])
    notes = (Annotation("__ids", "cars", "value", True),)
    engine = DuckEngine(write_run(tmp_path, {"cars": Given(CARS, [ROWS])}, results=results, annotations=notes))
    plan = Source(RESULTS, (*fields, Field(ROW_ID, BIGINT)))
    assert rows_of(engine.run(plan)) == [(1, [7, 8], 0), (2, [9], 1), (3, None, pack(1, 0))]
    assert engine.fetch(RESULTS, [pack(1, 0)]).to_pylist() == [{ROW_ID: pack(1, 0), "n": 3}]
    assert engine.fetch(RESULTS, [1], ["__ids"]).to_pylist() == [{ROW_ID: 1, "__ids": [9]}]


def test_folders_give_partition_columns(tmp_path: Path) -> None:
    fields = (Field("car", INT), Field("day", DATE), Field("place", STRING))
    files = [arrow_rows(fields[:1], [(n,)]) for n in range(3)]
    names = (
        "day=2026-01-01/place=a%2Fb/x.parquet",
        "day=2026-01-02/place=__HIVE_DEFAULT_PARTITION__/x.parquet",
        "day=2026-01-02/place='%20%3B--/x.parquet",
    )
    engine = DuckEngine(write_run(tmp_path, {"cars": Given(fields, files, ("day", "place"), names)}))
    day = dt.date(2026, 1, 2)
    assert rows_of(engine.run(Source("cars", fields))) == [
        (0, dt.date(2026, 1, 1), "a/b"),
        (1, day, None),
        (2, day, "' ;--"),
    ]
    plan = source("cars", car="int", day="date").where("day = date '2026-01-02'").plan
    assert sorted(rows_of(engine.run(plan))) == [(1, day), (2, day)]
    assert engine.fetch("cars", [pack(2, 0)]).to_pylist() == [
        {ROW_ID: pack(2, 0), "car": 2, "day": day, "place": "' ;--"}
    ]


def test_columns_are_matched_by_name_and_may_be_missing(tmp_path: Path) -> None:
    files = [
        pa.table({"car": pa.array([1], pa.int32()), "at": pa.array([AT], pa.timestamp("us", "UTC"))}),
        pa.table({"other": ["x"], "CAR": pa.array([2], pa.int16())}),
    ]
    engine = DuckEngine(write_run(tmp_path, {"cars": Given(CARS, files)}))
    assert rows_of(engine.run(Source("cars", CARS))) == [(1, AT), (2, None)]


@pytest.mark.parametrize(
    ("declared", "column", "fine"),
    [
        ("bigint", pa.array([1], pa.int32()), True),
        ("double", pa.array([1.5], pa.float32()), True),
        ("decimal(10,4)", pa.array([Decimal("1.50")], pa.decimal128(5, 2)), True),
        ("struct<a:array<timestamp>,B:int>", pa.array([{"a": [AT], "B": 1}],
         pa.struct([("a", pa.list_(pa.timestamp("us", "UTC"))), ("B", pa.int32())])), True),
        ("map<string,double>", pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float64())), True),
        ("bigint", pa.array([4.7]), False),
        ("bigint", pa.array(["5"]), False),
        ("int", pa.array([5], pa.int64()), False),
        ("string", pa.array([b"\xff"]), False),
        ("timestamp", pa.array([AT.replace(tzinfo=None)], pa.timestamp("us")), False),
        ("decimal(5,1)", pa.array([Decimal("1.55")], pa.decimal128(5, 2)), False),
        ("struct<a:bigint>", pa.array([{"a": 4.7}]), False),
    ],
)  # fmt: skip
def test_types_of_files(tmp_path: Path, declared: str, column: pa.Array, fine: bool) -> None:
    """What DuckDB would convert by rules of its own is refused, also when only one of the files has it."""
    fields = (Field("x", parse_type(declared)),)
    good = arrow_rows(fields, [(None,)])
    engine = DuckEngine(write_run(tmp_path, {"t": Given(fields, [good, pa.table({"x": column})])}))
    if fine:
        assert engine.run(Source("t", fields)).num_rows == 2
    else:
        for ask in (lambda: engine.run(Source("t", fields)), lambda: engine.fetch("t", [0])):
            with pytest.raises(NotPortable, match="column 'x'"):
                ask()


def test_spellings_of_files(tmp_path: Path) -> None:
    fields = (Field("ä", INT),)
    engine = DuckEngine(write_run(tmp_path, {"t": Given(fields, [pa.table({"Ä": pa.array([1], pa.int32())})])}))
    with pytest.raises(NotPortable, match="files call it"):
        engine.run(Source("t", fields))


@pytest.mark.parametrize("unit", ["us", "ns", "ms"])
@pytest.mark.parametrize("int96", [True, False])
def test_timestamps_of_all_files_are_utc(tmp_path: Path, unit: str, int96: bool) -> None:
    if unit == "ns" and not int96:
        pytest.skip("Spark refuses to read nanoseconds that are not INT96")
    times = [AT + dt.timedelta(seconds=n) for n in range(6)] + [dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC)]
    table = pa.table({"car": pa.array(range(7), pa.int32()), "at": pa.array(times, pa.timestamp(unit, "UTC"))})
    given = Given(CARS, [table], options={"use_deprecated_int96_timestamps": int96})
    engine = DuckEngine(write_run(tmp_path, {"cars": given}))
    assert engine.run(Source("cars", CARS)).column("at").to_pylist() == times
    plan = source("cars", car="int", at="timestamp").where("at > timestamp '2026-01-01 08:00:03'").plan
    assert engine.run(plan).column("car").to_pylist() == [4, 5]
    windows = source("cars", car="int", at="timestamp").window("at", "2 seconds").group("window", n="count(*)").plan
    assert sorted(r["n"] for r in engine.run(windows).to_pylist()) == [1, 2, 2, 2]


def test_patterns_in_file_names_are_no_patterns(tmp_path: Path) -> None:
    names = ("a[1].parquet", "a*.parquet", "a?.parquet", "a1.parquet", "it's; drop.parquet")
    files = [[(n, AT)] for n in range(5)]
    engine = DuckEngine(write_run(tmp_path, {"cars": Given(CARS, files, names=names)}))
    assert sorted(rows_of(engine.run(Source("cars", CARS)))) == [(n, AT) for n in range(5)]
    engine = DuckEngine(write_run(tmp_path / "2", {"cars": Given(CARS, files[:1], names=("a\\*.parquet",))}))
    with pytest.raises(NotPortable, match="pattern"):
        engine.run(Source("cars", CARS))


def test_many_files(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"cars": Given(CARS, [[(n, AT)] for n in range(1_500)])})
    plan = source("cars", car="int", at="timestamp").where("car = 1234").plan
    assert DuckEngine(run).run(plan).num_rows == 1


NASTY = (
    '"; drop table x; --',
    "a'b",
    'say "hi"',
    "n0",
    "file_index",
    "Car",
    "car",
    "ſ",
    " ",
    "a\nb",
    "select",
    "ties",
)


def test_names_and_strings_cannot_break_out(tmp_path: Path) -> None:
    fields = tuple(Field(name, STRING) for name in NASTY if name != "Car")
    row = tuple(f"{name}'\0\\; --" for name in NASTY if name != "Car")
    engine = DuckEngine(write_run(tmp_path, {"it's": Given(fields, [[row]])}))
    found = engine.run(Source("it's", fields))
    assert found.column_names == [f.name for f in fields]
    assert rows_of(found) == [row]
    for name, value in zip(found.column_names, row, strict=True):
        plan = Filter(Source("it's", fields), Call("=", (Column(name), Literal(value, STRING))))
        assert engine.run(plan).num_rows == 1


def test_names_that_differ_in_case_inside_a_plan() -> None:
    values = Values(tuple(Field(name, INT) for name in NASTY), (tuple(range(len(NASTY))),))
    renamed = Project(values, tuple(Named(n.swapcase() + "\0" if n != "car" else "CAR\0", Column(n)) for n in NASTY))
    portable(renamed)
    assert "\0" not in lower(renamed, no_files).sql


def test_names_that_differ_in_case_inside_a_file_are_refused() -> None:
    with pytest.raises(NotPortable, match="cannot tell"):
        portable(Source("cars", (Field("car", INT), Field("Car", INT))))


def test_large_values_are_handed_over_as_tables(cars: DuckEngine) -> None:
    rows = tuple((n, f"'{n}\0", (n, None), dt.timedelta(microseconds=n), AT, None) for n in range(5 * MOST_WRITTEN))
    types = (BIGINT, STRING, ArrayType(BIGINT), INTERVAL, TIMESTAMP, DOUBLE)
    values = Values(tuple(Field(f"c{n}", t) for n, t in enumerate(types)), rows)
    lowered = lower(values, no_files)
    assert len(lowered.sql) < 2_000
    assert [(*r[:2], tuple(r[2]), *r[3:]) for r in rows_of(cars.run(values))] == list(rows)


def test_shared_nodes_are_written_once() -> None:
    flow = source("cars", car="int", at="timestamp").group("car", n="count(*)")
    node: Node = flow.plan
    for _ in range(12):
        node = Union((node, node))
    sql = lower(node, no_files).sql
    assert sql.count("GROUP BY") == 1
    assert len(sql) < 10_000
    assert sql.count(" MATERIALIZED") - sql.count("NOT MATERIALIZED") >= 1


def test_guards_are_kept(tmp_path: Path) -> None:
    """What a condition keeps out is not computed, however DuckDB orders its work."""
    rows = [(n % 5, AT) for n in range(5_000)]
    engine = DuckEngine(write_run(tmp_path, {"cars": Given(CARS, [rows])}))
    flow = source("cars", car="int", at="timestamp")
    guarded = [
        flow.where("car != 0 and cast(10 as bigint) div cast(car as bigint) > 4"),
        flow.where("car != 0").where("cast(10 as bigint) div cast(car as bigint) > 4"),
        flow.where("car != 0").select(q="cast(10 as bigint) div cast(car as bigint)").where("q > 4"),
    ]
    for plan in guarded:
        assert engine.run(plan.plan).num_rows == 2_000


def test_faults_are_evaluation_errors(cars: DuckEngine) -> None:
    flow = source("cars", car="int", at="timestamp")
    for text, said in {
        "cast(1 as bigint) div cast(car as bigint)": "division by zero",
        "car + 2147483647": "out of the range",
        "cast('x' as int)": "text that is no int",
    }.items():
        with pytest.raises(EvaluationError, match=said) as caught:
            cars.run(flow.select(q=text).named("sums").plan)
        assert "Error" not in str(caught.value).splitlines()[0]


def test_what_is_outside_the_subset_names_the_step(cars: DuckEngine) -> None:
    flow = source("cars", car="int", at="timestamp")
    opaque = Opaque("f", (Column("car"),), INT, True, "f(car)")
    for plan, step in {
        Project(flow.plan, (Named("x", opaque),), step="scores"): "project 'scores'",
        OpaqueStep(flow.plan, "per_row", "k", (Field("x", INT),), step="map"): "opaque 'map'",
        flow.limit(3).named("top").plan: "limit 'top'",
        flow.group("car", all="collect_list(at)").named("lists").plan: "group 'lists'",
        Source("cars", (Field("v", OtherType("variant")),)): "variant",
    }.items():
        with pytest.raises(NotPortable, match=re.escape(step)):
            portable(plan)
        with pytest.raises(NotPortable, match=re.escape(step)):
            cars.run(plan)
    with pytest.raises(NotPortable, match="limit"):
        cars.run(flow.sort("car").limit(2).plan)
    # Which of two rows of one car comes first is left open; that both come is not.
    cut, whole = flow.sort("car").limit(4).plan, flow.sort("car", "at").limit(4).plan
    assert sorted(rows_of(cars.run(cut))) == sorted(rows_of(cars.run(whole)))


def test_zones_other_than_utc(tmp_path: Path) -> None:
    conf = {"spark.sql.session.timeZone": "Europe/Berlin"}
    engine = DuckEngine(write_run(tmp_path, {"cars": Given(CARS, [ROWS])}, conf=conf))
    flow = source("cars", car="int", at="timestamp")
    assert engine.run(flow.where("at > timestamp '2026-01-01 08:00:08'").plan).num_rows == 1
    for text in ("hour(at)", "cast(at as date)", "cast(at as string)"):
        with pytest.raises(NotPortable, match="time zone"):
            engine.run(flow.select(x=text).plan)


def test_changed_files_are_not_read(cars: DuckEngine, tmp_path: Path) -> None:
    (file,) = [f.path for f in cars.files.files("cars") if f.number == 1]
    os.utime(file, (1, 1))
    with pytest.raises(SourceChanged):
        cars.run(Source("cars", CARS))
    assert cars.fetch("cars", [pack(0, 1)]).num_rows == 1
    with pytest.raises(SourceChanged):
        cars.fetch("cars", [pack(1, 1)])


def test_damaged_files_are_named(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"cars": Given(CARS, [ROWS])})
    path, status = run.source_files("cars")[0].path, run.source_files("cars")[0].path.stat()
    path.write_bytes(b"x" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(BrokenRun, match="cannot be read"):
        DuckEngine(open_run(run.path)).run(Source("cars", CARS))


def test_unknown_source(cars: DuckEngine) -> None:
    with pytest.raises(UnknownSource):
        cars.run(Source("trucks", CARS))


def test_joins_of_nothing(cars: DuckEngine) -> None:
    left = source("cars", car="int", at="timestamp").plan
    right = Values((Field("x", BOOLEAN),), ())
    for kind, rows in {"inner": 0, "left": 10, "right": 0, "full": 10, "semi": 0, "anti": 10}.items():
        assert cars.run(Join(left, right, kind)).num_rows == rows


def test_nothing_is_loaded_or_written_at_home(tmp_path: Path) -> None:
    run = write_run(tmp_path / "made", {"cars": Given(CARS, [ROWS])})
    code = (
        "import sys\n"
        "from whence.store import open_run\n"
        "from whence.duck.engine import DuckEngine\n"
        "from whence.plan.builder import source\n"
        "assert 'pyspark' not in sys.modules and 'pandas' not in sys.modules\n"
        f"engine = DuckEngine(open_run({str(run.path)!r}))\n"
        "print(engine.run(source('cars', car='int', at='timestamp').where('car = 1').plan).num_rows)\n"
        "print([r for r in engine._connection.execute("
        "\"select extension_name from duckdb_extensions() where loaded and install_mode != 'STATICALLY_LINKED'\""
        ").fetchall()])\n"
    )
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"HOME": str(home)}, cwd=home, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["3", "[]"], done.stderr
    assert list(home.iterdir()) == []
