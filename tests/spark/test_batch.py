"""Batch runs: results as the user's DataFrame gives them, lineage as the oracle has it, and what leaves no run."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import ArithmeticException

import whence.spark.batch
from whence.errors import NotTraceable, RunExists, SourceChanged
from whence.plan.nodes import sources as sources_of
from whence.plan.types import parse_type
from whence.semantics import Table, annotate
from whence.semantics.values import freeze
from whence.spark.batch import write_batch
from whence.spark.lift import lift
from whence.store import Capture, StoredRun, open_run, pack, partition_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SQL = {
    "kept in order": "select id, car, v * 2 as w from trips where v > 1 order by car desc, id",
    "joined and grouped": "select c.name, t.part, count(*) as n, max(at) as last "
    "from trips t join cars c on t.car = c.car group by c.name, t.part",
    "distinct union": "select car from trips union select car from cars",
    "outer join and frame": "select c.car, t.id, count(*) over "
    "(partition by c.car order by t.id rows between 1 preceding and current row) as n "
    "from cars c left join trips t on c.car = t.car and t.v > 2",
    "let pass": "select name from cars where car in (select car from trips where v < 3)",
    "nothing": "select id, at from trips where v > 1000",
}


@pytest.fixture(scope="module")
def folder(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trips: four files in two partition folders, some of them with several row groups."""
    folder = tmp_path_factory.mktemp("data")
    draw = random.Random(3)
    for number in range(4):
        rows = [
            {"id": number * 100 + i, "car": draw.randrange(5), "v": draw.randrange(5) / 2, "at": i * 1_000_001}
            for i in range(3 + number)
        ]
        table = pa.Table.from_pylist(rows)
        table = table.set_column(3, "at", table.column("at").cast(pa.timestamp("us", "UTC")))
        (folder / f"trips/part={number % 2}").mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, folder / f"trips/part={number % 2}/{9 - number}.parquet", row_group_size=2)
    return folder


@pytest.fixture(autouse=True)
def views(spark: "SparkSession", folder: Path) -> dict[str, "DataFrame"]:
    trips = spark.read.parquet(f"file:{folder}/trips")
    cars = spark.createDataFrame([(0, "a"), (1, "b"), (2, "b"), (7, None)], "car long, name string")
    trips.createOrReplaceTempView("trips")
    cars.createOrReplaceTempView("cars")
    return {"trips": trips, "cars": cars}


def write(df: "DataFrame", path: Path, capture: Capture = "lazy", **options: Any) -> StoredRun:
    write_batch(df, lift(df), path, capture=capture, reason="asked for", whence_version="0", **options)
    return open_run(path)


def results(run: StoredRun) -> list[dict[str, Any]]:
    tables = [parquet.read_table(file.path, partitioning=None) for file in run.result_files()]
    return [row for table in tables for row in table.to_pylist()]


def table_of(run: StoredRun, name: str) -> Table:
    """A source as the run's records say it is read again."""
    record = run.source(name)
    columns = tuple(column.name for column in record.columns)
    ids, rows = [], []
    for file in run.source_files(name):
        folders = {k: int(v or 0) for k, v in partition_values(file.path, record.partition_columns).items()}
        for place, row in enumerate(parquet.read_table(file.path, partitioning=None).to_pylist()):
            ids.append(pack(file.number, place))
            rows.append(tuple((row | folders)[column] for column in columns))
    return Table(columns, rows, ids)


def plain(df: "DataFrame") -> list[tuple[Any, ...]]:
    """The rows as Spark gives them, times as whence's files have them."""
    collected = df.toArrow().to_pylist()
    return [tuple(row[name] for name in df.columns) for row in collected]


@pytest.mark.parametrize("query", SQL)
def test_a_run_has_the_rows_of_the_query_and_the_lineage_of_the_oracle(
    spark: "SparkSession", tmp_path: Path, query: str
) -> None:
    df = spark.sql(SQL[query])
    expected = plain(df)
    lifted = lift(df)
    lazy = write(df, tmp_path / "lazy")
    eager = write(df, tmp_path / "eager", "eager")
    for run in (lazy, eager):
        found = [tuple(row[name] for name in df.columns) for row in results(run)]
        if query == "kept in order":
            assert found == expected
        assert Counter(found) == Counter(expected)
        assert [(c.name, parse_type(c.type)) for c in run.manifest.columns] == [
            (f.name, f.type) for f in lifted.plan.schema
        ]
        assert run.state() == "complete"
        assert run.epochs[0].counts["results"] == len(expected)
        for name in sources_of(lifted.plan):
            run.check_source(name)
    assert parquet.read_schema(lazy.result_files()[0].path).names == df.columns
    assert lazy.manifest.annotations == ()
    tables = {name: table_of(eager, name) for name in sources_of(lifted.plan)}
    oracle = Counter((item.row, item.annotation) for item in annotate(lifted.plan, tables))
    carried = Counter(
        (
            tuple(freeze(row[f.name], f.type) for f in lifted.plan.schema),
            frozenset(
                (a.source, row_id, a.role)
                for a in eager.manifest.annotations
                for row_id in (row[a.column] if a.many else [row[a.column]])
                if row_id is not None
            ),
        )
        for row in results(eager)
    )
    assert carried == oracle


def test_a_manifest_says_what_ran(spark: "SparkSession", tmp_path: Path, folder: Path) -> None:
    spark.conf.set("spark.sql.legacy.sizeOfNull", "true")
    try:
        run = write(spark.sql(SQL["joined and grouped"]), tmp_path / "run")
    finally:
        spark.conf.unset("spark.sql.legacy.sizeOfNull")
    manifest = run.manifest
    assert (manifest.kind, manifest.capture, manifest.capture_reason) == ("batch", "lazy", "asked for")
    assert manifest.plan.portable and manifest.plan.opaque == ()
    assert {"t", "c", "join", "group"} <= set(manifest.plan.steps)
    trips, cars = run.source("trips"), run.source("cars")
    assert (trips.kind, trips.partition_columns, trips.locations) == ("parquet", ("part",), (f"{folder}/trips",))
    assert (cars.kind, cars.partition_columns, cars.locations) == ("landed", (), ())
    assert [c.nullable for c in manifest.columns] == [True, True, False, True]
    assert manifest.spark.version == spark.version
    assert manifest.spark.conf["spark.sql.legacy.sizeOfNull"] == "true"
    assert {"spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.shuffle.partitions"} <= set(
        manifest.spark.conf
    )
    assert [file.record.path for file in run.source_files("trips")] == sorted(
        str(path) for path in (folder / "trips").rglob("*.parquet")
    )


def test_rows_that_are_drawn_anew_each_time_are_read_once(spark: "SparkSession", tmp_path: Path) -> None:
    # Not `random`, whose state is the same in each forked worker.
    drawn = spark.sparkContext.parallelize(range(40), 3).map(lambda i: (i, os.urandom(8))).toDF("id long, v binary")
    # One side filtered, by no key that Spark would filter the other by too: equal sides are drawn once, for both.
    both = drawn.alias("a").join(drawn.where("length(v) = 8").alias("b"), "id").where("a.v <> b.v").select("id")
    assert both.count() > 0, "these rows should differ each time they are made"
    run = write(both, tmp_path / "both")
    assert results(run) == []
    run = write(drawn.where("id >= 3"), tmp_path / "once")
    landed = [
        row
        for file in run.source_files(run.manifest.sources[0].name)
        for row in parquet.read_table(file.path, partitioning=None).to_pylist()
    ]
    # The order of rows in memory is kept, and what was landed is what the query saw.
    assert [row["id"] for row in landed] == list(range(40))
    assert results(run) == landed[3:]


@pytest.mark.parametrize("form", ["csv", "orc", "v2"])
def test_other_formats_are_landed(spark: "SparkSession", tmp_path: Path, form: str) -> None:
    source = spark.range(0, 30, 1, 3).selectExpr("id", "cast(id % 4 as int) k", "timestamp_micros(id) at")
    path = f"file:{tmp_path}/data"
    if form == "v2":
        spark.conf.set("spark.sql.sources.useV1SourceList", "")
    try:
        source.write.format("parquet" if form == "v2" else form).save(path)
        read = spark.read.schema(source.schema).format("parquet" if form == "v2" else form).load(path)
        df = read.groupBy("k").agg({"id": "sum", "at": "max"}).toDF("k", "total", "last")
        run = write(df, tmp_path / "run", "eager")
        expected = plain(df)
    finally:
        spark.conf.unset("spark.sql.sources.useV1SourceList")
    (record,) = run.manifest.sources
    assert record.kind == "landed"
    (annotation,) = run.manifest.annotations
    table = table_of(run, record.name)
    assert sorted(row[0] for row in table.rows) == list(range(30))
    by_id = dict(zip(table.row_ids, table.rows, strict=True))
    chunk = parquet.ParquetFile(run.result_files()[0].path).metadata.row_group(0).column(3)
    assert chunk.path_in_schema.startswith(annotation.column)
    assert "DELTA_BINARY_PACKED" in chunk.encodings
    found = results(run)
    assert Counter(tuple(row[name] for name in df.columns) for row in found) == Counter(expected)
    for row in found:
        assert sorted(by_id[i][0] for i in row[annotation.column]) == [i for i in range(30) if i % 4 == row["k"]]


def test_a_source_that_changes_leaves_no_run(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, kind in (("pinned", "parquet"), ("landed", "json")):
        spark.range(5).coalesce(1).write.format(kind).save(f"file:{tmp_path}/{name}")
    written = whence.spark.batch.write_parquet

    def meanwhile(df: "DataFrame", directory: Path, ids: tuple[str, ...]) -> None:
        written(df, directory, ids)
        for file in (tmp_path / name).glob("part-*"):
            file.write_bytes(file.read_bytes() + b" ")

    for name, kind in (("pinned", "parquet"), ("landed", "json")):
        df = spark.read.schema("id long").format(kind).load(f"file:{tmp_path}/{name}")
        with monkeypatch.context() as patch:
            patch.setattr(whence.spark.batch, "write_parquet", meanwhile)
            with pytest.raises(SourceChanged, match=f"source '{name}' changed while the query read it"):
                write(df, tmp_path / "run")
        assert not (tmp_path / "run").exists()
    # The first DataFrame knows the file as it was before it grew.
    spark.range(3).coalesce(1).write.parquet(f"file:{tmp_path}/more")
    df = spark.read.parquet(f"file:{tmp_path}/more")
    (file,) = (tmp_path / "more").glob("*.parquet")
    parquet.write_table(pa.table({"id": list(range(1000))}), file)
    with pytest.raises(SourceChanged, match="after the DataFrame was made"):
        write(df, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_query_that_fails_leaves_no_run(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
        write(spark.sql("select 1 / (id - 2) as x from trips"), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    assert results(write(spark.sql("select id from trips where id = 2"), tmp_path / "run")) == [{"id": 2}]


def test_a_run_is_overwritten_only_on_demand(spark: "SparkSession", tmp_path: Path) -> None:
    first = write(spark.sql("select id from cars join trips using (car) where id < 2"), tmp_path / "run")
    other = spark.sql("select car from cars")
    with pytest.raises(RunExists, match="already a run"):
        write(other, tmp_path / "run")
    assert open_run(tmp_path / "run") == first
    assert len(results(write(other, tmp_path / "run", overwrite=True))) == 4
    again = spark.read.parquet(f"file:{tmp_path}/run/results/epoch=000000")
    with pytest.raises(RunExists, match="which it would replace"):
        write(again, tmp_path / "run", overwrite=True)
    assert len(results(open_run(tmp_path / "run"))) == 4
    before = open_run(tmp_path / "run")
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
        write(spark.sql("select 1 / (id - 2) as x from trips"), tmp_path / "run", overwrite=True)
    assert open_run(tmp_path / "run") == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_parquet_cannot_hold_is_refused_by_name(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(NotTraceable, match="column 'wait' of the result cannot be kept"):
        write(spark.sql("select id, make_interval(1, 2) as wait from trips"), tmp_path / "run")
    strange = spark.sql("select id, make_interval(0, 0, 0, 1) as wait from range(3)").localCheckpoint()
    with pytest.raises(NotTraceable, match="column 'wait' of source"):
        write(strange.select("id"), tmp_path / "run")
    with pytest.raises(NotTraceable, match="no columns"):
        write(spark.table("trips").select(), tmp_path / "run")
    with pytest.raises(NotTraceable, match="intervals"):
        write(spark.table("trips"), tmp_path / "run", "interval")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def old_settings(spark: "SparkSession") -> Iterator[dict[str, str]]:
    mine = {
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.writeLegacyFormat": "true",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    }
    for name, value in mine.items():
        spark.conf.set(name, value)
    yield mine
    for name in mine:
        spark.conf.unset(name)


def test_files_do_not_depend_on_the_settings_of_the_session(
    spark: "SparkSession", tmp_path: Path, old_settings: dict[str, str]
) -> None:
    df = spark.sql(
        "select timestamp'1500-01-01 00:00:00' t, date'1500-01-01' d, array(car) a, 1.5bd x from cars limit 1"
    )
    run = write(df, tmp_path / "run")
    file = parquet.ParquetFile(run.result_files()[0].path)
    kinds = {file.schema.column(i).path: file.schema.column(i).physical_type for i in range(4)}
    assert kinds == {"t": "INT64", "d": "INT32", "a.list.element": "INT64", "x": "INT32"}
    assert b"org.apache.spark.legacyDateTime" not in file.metadata.metadata
    (row,) = file.read().to_pylist()
    assert (
        (row["t"].year, row["t"].month, row["t"].day) == (row["d"].year, row["d"].month, row["d"].day) == (1500, 1, 1)
    )
    assert {name: spark.conf.get(name) for name in old_settings} == old_settings
