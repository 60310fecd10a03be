"""The Spark engine over a run written by hand: several epochs and files, late bounds, folders, a landed source."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from whence.errors import BrokenRun, EvaluationError, NotTraceable, SourceChanged, UnknownRow, UnknownSource
from whence.lineage import replay_plan
from whence.plan.expressions import AggregateCall, Call, Column, Literal, Opaque
from whence.plan.hidden import LATE, RESULTS, ROW_ID
from whence.plan.nodes import Filter, Group, Join, Named, NamedAggregate, Project, Source
from whence.plan.types import BIGINT, DATE, INT, STRING, TIMESTAMP, ArrayType, Field
from whence.semantics import Table, evaluate
from whence.spark.engine import SparkEngine
from whence.spark.jvm import Jvm, analyzed
from whence.spark.stored import needed_files, stored_table
from whence.store import (
    LANDED_ID,
    Annotation,
    Epoch,
    Manifest,
    PlanRecord,
    SourceRecord,
    SparkRecord,
    StoredRun,
    create,
    open_run,
    pack,
)
from whence.store import Column as Recorded

AT = dt.datetime(2026, 1, 1, 8, tzinfo=dt.UTC)
REPORTS = (Field("car", BIGINT), Field("at", TIMESTAMP), Field("day", DATE), Field("zone", STRING))
CARS = (Field("car", BIGINT), Field("maker", STRING))


def with_hidden(name: str, fields: tuple[Field, ...], *more: str) -> Source:
    types = {ROW_ID: BIGINT, LATE: TIMESTAMP}
    return Source(name, (*fields, *(Field(m, types[m]) for m in more)))


@dataclass(frozen=True)
class Written:
    """A run, where its files are, and what the engine must find in it."""

    run: StoredRun
    reports: list[Path]
    tables: dict[str, Table]


def report_row(number: int) -> tuple[int, dt.datetime]:
    return number % 5, AT + dt.timedelta(seconds=10 * number)


def write_run(folder: Path, conf: dict[str, str] | None = None) -> Written:
    manifest = Manifest(
        whence="0.1.0",
        created="2026-01-01T08:00:00+00:00",
        kind="stream",
        capture="eager",
        capture_reason="a test",
        output_mode="append",
        plans=(PlanRecord(1, "source reports", "f1", ("reports",), True),),
        sources=(
            SourceRecord(
                "reports",
                "parquet",
                tuple(Recorded(f.name, str(f.type), True) for f in REPORTS),
                "file_row",
                ("day", "zone"),
                (str(folder / "data"),),
            ),
            SourceRecord(
                "cars",
                "landed",
                tuple(Recorded(f.name, str(f.type), True) for f in CARS),
                "column",
                (),
                ("sources/cars",),
            ),
        ),
        columns=(Recorded("car", "bigint", True), Recorded("n", "bigint", True)),
        annotations=(Annotation("__reports", "reports", "value", True), Annotation("__car", "cars", "value", False)),
        spark=SparkRecord("4.3.0", conf or {"spark.sql.session.timeZone": "UTC"}),
    )
    # Names that patterns, addresses and percent signs could spoil.
    places = [("2026-01-01", "a b"), ("2026-01-02", "__HIVE_DEFAULT_PARTITION__"), ("2026-01-01", "50%25")]
    zones: list[str | None] = ["a b", None, "50%"]
    days = [dt.date(2026, 1, 1), dt.date(2026, 1, 2), dt.date(2026, 1, 1)]
    odd = ["part-0.parquet", "part [1]*.parquet", "part 2%20{x}.parquet"]
    bounds: list[int | None] = [None, int(AT.timestamp() * 1000) + 15_000]
    paths, rows, ids, late = [], [], [], []
    landed: list[tuple[int, str]] = []
    landed_ids: list[int] = []
    results: list[tuple[int, int, tuple[int, ...], int | None]] = []
    result_ids: list[int] = []
    with create(folder / "run", manifest) as writer:
        number = 0
        for epoch, files in enumerate(([0, 1], [2])):
            writer.begin_epoch(epoch)
            for file in files:
                path = folder / "data" / f"day={places[file][0]}" / f"zone={places[file][1]}" / odd[file]
                path.parent.mkdir(parents=True, exist_ok=True)
                made = [report_row(number + n) for n in range(3 + file)]
                number += len(made)
                parquet.write_table(
                    pa.table(
                        {"car": [c for c, _ in made], "at": pa.array([t for _, t in made], pa.timestamp("us", "UTC"))}
                    ),
                    path,
                )
                paths.append(path)
                for place, (car, at) in enumerate(made):
                    rows.append((car, at, days[file], zones[file]))
                    ids.append(pack(file, place))
                    bound = bounds[epoch]
                    late.append(None if bound is None else dt.datetime.fromtimestamp(bound / 1000, dt.UTC))
            cars = writer.landed_directory("cars", epoch) / "part-0.parquet"
            cars.parent.mkdir(parents=True, exist_ok=True)
            fresh = [(c, f"maker {c}") for c in range(epoch * 3, epoch * 3 + 3)]
            parquet.write_table(
                pa.table(
                    {
                        "car": [c for c, _ in fresh],
                        "maker": [m for _, m in fresh],
                        LANDED_ID: [100 + c for c, _ in fresh],
                    }
                ),
                cars,
            )
            landed += fresh
            landed_ids += [100 + c for c, _ in fresh]
            for part in range(2):
                mine = [(part, 10 * epoch + n, (n, n + 1), None if n else 7) for n in range(2)]
                target = writer.results_directory(epoch) / f"part-{part}.parquet"
                target.parent.mkdir(parents=True, exist_ok=True)
                parquet.write_table(
                    pa.table(
                        {
                            "car": [r[0] for r in mine],
                            "n": [r[1] for r in mine],
                            "__reports": pa.array([r[2] for r in mine], pa.list_(pa.int64())),
                            "__car": pa.array([r[3] for r in mine], pa.int64()),
                        }
                    ),
                    target,
                )
                results += mine
                result_ids += [pack(2 * epoch + part, n) for n in range(2)]
            writer.commit(
                Epoch(
                    number=epoch,
                    plan=1,
                    inputs={
                        "reports": writer.pin("reports", [paths[f] for f in files]),
                        "cars": writer.record_landed("cars", epoch),
                    },
                    watermark_ms=0,
                    late_before_ms=bounds[epoch],
                    clock_ms=0,
                    results=writer.record_results(epoch),
                    counts={},
                )
            )
    tables = {
        "reports": Table(tuple(f.name for f in REPORTS), rows, ids, late),
        "cars": Table(("car", "maker"), landed, landed_ids),
        RESULTS: Table(("car", "n", "__reports", "__car"), results, result_ids),
    }
    return Written(open_run(folder / "run"), paths, tables)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_run(tmp_path_factory.mktemp("engine"))


@pytest.fixture
def engine(spark: Any, written: Written) -> SparkEngine:
    return SparkEngine(written.run)


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(
        (tuple(tuple(v) if isinstance(v, list) else v for v in row.values()) for row in table.to_pylist()), key=repr
    )


def expected(plan: Any, written: Written) -> list[tuple[Any, ...]]:
    return sorted(evaluate(plan, written.tables), key=repr)


def test_a_pinned_source_with_its_hidden_columns(engine: SparkEngine, written: Written) -> None:
    plan = with_hidden("reports", REPORTS, ROW_ID, LATE)
    found = engine.run(plan)
    assert rows(found) == expected(plan, written)
    assert found.column_names == ["car", "at", "day", "zone", ROW_ID, LATE]
    assert found.schema.field("at").type == pa.timestamp("us", "UTC")


def test_a_landed_source_has_its_own_ids(engine: SparkEngine, written: Written) -> None:
    plan = with_hidden("cars", CARS, ROW_ID, LATE)
    late = [None] * 3 + [dt.datetime.fromtimestamp(int(AT.timestamp()) + 15, dt.UTC)] * 3
    tables = dict(
        written.tables, cars=Table(("car", "maker"), written.tables["cars"].rows, written.tables["cars"].ids, late)
    )
    assert rows(engine.run(plan)) == sorted(evaluate(plan, tables), key=repr)


def test_results_with_annotations(engine: SparkEngine, written: Written) -> None:
    fields = (Field("n", BIGINT), Field("__reports", ArrayType(BIGINT)), Field("__car", BIGINT))
    plan = with_hidden(RESULTS, fields, ROW_ID)
    assert rows(engine.run(plan)) == expected(plan, written)


def test_some_columns_only_and_in_another_order(engine: SparkEngine, written: Written) -> None:
    plan = Source("reports", (Field("zone", STRING), Field(ROW_ID, BIGINT), Field("car", BIGINT)))
    assert rows(engine.run(plan)) == expected(plan, written)
    only_folder = Source("reports", (Field("day", DATE),))
    assert rows(engine.run(only_folder)) == expected(only_folder, written)


def test_a_question_over_two_sources_and_one_of_them_twice(engine: SparkEngine, written: Written) -> None:
    reports = with_hidden("reports", REPORTS, ROW_ID)
    one = Project(reports, (Named("car", Column("car")), Named("id", Column(ROW_ID))))
    other = Project(reports, (Named("car_2", Column("car")), Named("id_2", Column(ROW_ID))))
    cars = Project(with_hidden("cars", CARS), (Named("car_3", Column("car")), Named("maker", Column("maker"))))
    pairs = Join(one, other, "inner", Call("=", (Column("car"), Column("car_2"))))
    plan = Join(pairs, cars, "left", Call("=", (Column("car"), Column("car_3"))))
    assert rows(engine.run(plan)) == expected(plan, written)


def test_replay_reads_only_the_files_of_the_witness(engine: SparkEngine, written: Written) -> None:
    query = Group(
        Source("reports", REPORTS), (Named("car", Column("car")),), (NamedAggregate("n", AggregateCall("count")),)
    )
    plan = replay_plan(query, {"reports": (pack(1, 0), pack(1, 2))})
    assert needed_files(plan, "reports") == {1}
    assert rows(engine.run(plan)) == expected(plan, written)
    assert needed_files(replay_plan(query, {}), "reports") == set()
    assert rows(engine.run(replay_plan(query, {}))) == []
    # What is read without ids is read whole.
    assert needed_files(query, "reports") is None
    cut = Filter(with_hidden("reports", REPORTS, ROW_ID), Call("=", (Column(ROW_ID), Literal(pack(2, 0), BIGINT))))
    both = Join(
        Project(cut, (Named("a", Column("car")),)), Project(cut.child, (Named("b", Column("car")),)), "inner", None
    )
    assert needed_files(both, "reports") is None
    assert rows(engine.run(both)) == expected(both, written)


def test_one_scan_and_filters_on_data_reach_it(spark: Any, written: Written) -> None:
    fields = (*REPORTS, Field(ROW_ID, BIGINT), Field(LATE, TIMESTAMP))
    df = stored_table(spark, written.run, "reports", fields).where("car = 3")
    plan = df._jdf.queryExecution().executedPlan().toString()
    assert plan.count("FileScan parquet") == 1
    assert "EqualTo(car,3)" in plan
    # Ids cost a join with a table of files only where they are asked for.
    bare = stored_table(spark, written.run, "reports", (Field("car", BIGINT),))
    assert "Join" not in bare._jdf.queryExecution().executedPlan().toString()


def test_fetch_in_the_order_of_the_ids(engine: SparkEngine, written: Written) -> None:
    table = written.tables["reports"]
    by_id = dict(zip(table.row_ids, table.rows, strict=True))
    ids = [pack(2, 1), pack(0, 0), pack(2, 1), pack(1, 3)]
    found = engine.fetch("reports", ids)
    assert found.column_names == [ROW_ID, "car", "at", "day", "zone"]
    assert [tuple(r.values()) for r in found.to_pylist()] == [(i, *by_id[i]) for i in ids]
    some = engine.fetch(RESULTS, [pack(1, 0)], ["n"])
    assert some.to_pylist() == [{ROW_ID: pack(1, 0), "n": 0}]
    assert engine.fetch("cars", [104, 100], ["maker"]).column("maker").to_pylist() == ["maker 4", "maker 0"]
    assert engine.fetch("cars", []).num_rows == 0


def test_fetch_of_many_ids(engine: SparkEngine, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whence.spark.engine.LISTED", 2)
    ids = list(reversed(written.tables["reports"].row_ids))
    assert engine.fetch("reports", ids, ["car"]).column(ROW_ID).to_pylist() == ids


def test_what_is_not_there_is_refused_by_name(engine: SparkEngine) -> None:
    with pytest.raises(UnknownRow, match="no row of source 'reports'"):
        engine.fetch("reports", [pack(9, 0)])
    with pytest.raises(UnknownRow, match="no row 99 of 'cars'"):
        engine.fetch("cars", [99])
    with pytest.raises(UnknownSource, match="'reports' has no column 'speed'"):
        engine.fetch("reports", [0], ["speed"])
    with pytest.raises(UnknownSource, match="no source 'trucks'"):
        engine.run(Source("trucks", CARS))


def test_errors_are_readable(engine: SparkEngine) -> None:
    reports = Source("reports", REPORTS)
    zero = Call("-", (Column("car"), Column("car")))
    plan = Project(reports, (Named("x", Call("div", (Column("car"), zero))),))
    with pytest.raises(EvaluationError) as caught:
        engine.run(plan)
    assert "[DIVIDE_BY_ZERO]" in caught.value.detail
    assert "\n" not in caught.value.detail and "\tat " not in str(caught.value)
    unknown = Project(reports, (Named("x", Opaque("f_1", (Column("car"),), BIGINT)),))
    with pytest.raises(NotTraceable, match="nothing is known about 'f_1'"):
        engine.run(unknown)


def test_the_users_session_stays_as_it_is(spark: Any, tmp_path: Path) -> None:
    """Texts mean what they meant to the run, plans what they always mean, and the user's settings do not change."""
    conf = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.ansi.enabled": "false"}
    written = write_run(tmp_path, conf)
    before = spark.conf.get("spark.sql.session.timeZone"), spark.conf.get("spark.sql.ansi.enabled")
    views = [t.name for t in spark.catalog.listTables()]
    reports = Source("reports", REPORTS)
    plan = Project(
        reports,
        (
            Named("local", Opaque("hour_1", (Column("at"),), INT, text="hour(at)")),
            Named("utc", Call("hour", (Column("at"),))),
            Named("none", Opaque("cast_1", (Column("zone"),), INT, text="cast(concat('x', zone) as int)")),
            Named("at", Column("at")),
        ),
    )
    found = SparkEngine(written.run).run(plan).to_pylist()
    assert {(r["local"], r["utc"], r["none"]) for r in found} == {(17, 8, None)}
    assert min(r["at"] for r in found) == AT and found[0]["at"].utcoffset() == dt.timedelta(0)
    assert (spark.conf.get("spark.sql.session.timeZone"), spark.conf.get("spark.sql.ansi.enabled")) == before
    assert [t.name for t in spark.catalog.listTables()] == views
    assert spark.getActiveSession() is not None


def test_a_changed_source_is_never_read(spark: Any, tmp_path: Path) -> None:
    written = write_run(tmp_path)
    engine = SparkEngine(written.run)
    plan = with_hidden("reports", REPORTS, ROW_ID)
    (written.reports[0].parent / "part-9.parquet").write_bytes(written.reports[0].read_bytes())
    assert rows(engine.run(plan)) == expected(plan, written)
    written.reports[0].unlink()
    with pytest.raises(SourceChanged, match="'reports'"):
        engine.run(plan)
    # Files that cannot matter are not looked at.
    one = Filter(plan, Call("=", (Column(ROW_ID), Literal(pack(2, 0), BIGINT))))
    assert rows(engine.run(one)) == expected(one, written)
    (written.run.result_files()[0].path).write_bytes(b"cut short")
    with pytest.raises(BrokenRun):
        engine.run(with_hidden(RESULTS, (Field("n", BIGINT),), ROW_ID))


def test_no_files_no_rows(spark: Any, tmp_path: Path) -> None:
    written = write_run(tmp_path)
    fields = (*REPORTS, Field(ROW_ID, BIGINT), Field(LATE, TIMESTAMP))
    df = stored_table(spark, written.run, "reports", fields, numbers=())
    assert df.columns == [f.name for f in fields]
    assert df.collect() == []
    assert analyzed(df) is not None and Jvm(spark).spark is spark
