"""Sources: which are pinned and which landed, what is recorded of them, their row ids, and plans read elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from whence.errors import NotTraceable
from whence.plan.hidden import ROW_ID
from whence.spark.jvm import Jvm, analyzed
from whence.spark.leaf_ids import leaf_table, perfect_hash
from whence.spark.lift import lift
from whence.spark.sources import keep, repoint
from whence.store import local_path, pack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def trips(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parquet files with a name that addresses must escape."""
    folder = tmp_path_factory.mktemp("trips") / "a b%20ü#[x]"
    for number in range(7):
        rows = pa.table({"id": list(range(number * 10, number * 10 + number + 1)), "name": ["x"] * (number + 1)})
        folder.mkdir(exist_ok=True)
        parquet.write_table(rows, folder / f"{7 - number}.parquet", row_group_size=2)
    return folder


def read(spark: "SparkSession", path: Path) -> "DataFrame":
    return spark.read.option("__globPaths__", "false").parquet(f"file:{path}")


def kept(df: "DataFrame") -> str:
    """How the only source of a DataFrame is kept: nothing where it is pinned, else why it is landed."""
    lifted = lift(df)
    (leaf,) = lifted.leaves
    return keep(lifted.jvm, leaf).reason


@given(st.sets(st.integers(0, 2**32 - 1), min_size=1, max_size=100))
def test_a_perfect_hash_finds_every_key_and_knows_strangers(keys: set[int]) -> None:
    listed = sorted(keys)
    table = perfect_hash(listed)

    def look_up(key: int) -> int | None:
        slot = (key ^ table.displacements[key % len(table.displacements)]) % len(table.numbers)
        return table.numbers[slot] if table.keys[slot] == key else None

    assert [look_up(key) for key in listed] == list(range(len(listed)))
    strangers = {key + 1 for key in keys} - keys
    assert all(look_up(key) is None for key in strangers)


def test_a_perfect_hash_of_many_files_is_small_and_of_twins_refused() -> None:
    table = perfect_hash(range(0, 3_000_000, 301))
    assert len(table.numbers) < 2 * len(range(0, 3_000_000, 301))
    with pytest.raises(NotTraceable, match="cannot be numbered"):
        perfect_hash([4, 17, 4])


def test_row_ids_are_the_file_and_the_place_in_it(spark: "SparkSession", trips: Path) -> None:
    df = read(spark, trips)
    jvm = Jvm(spark)
    addresses = sorted(df.inputFiles(), key=local_path)
    expected = {}
    for number, file in enumerate(sorted(trips.iterdir())):
        for place, row_id in enumerate(parquet.read_table(file).column("id").to_pylist()):
            expected[row_id] = pack(number, place)
    table = leaf_table(jvm, df, addresses)
    assert table.columns == ["id", "name", ROW_ID]
    assert dict(table.select("id", ROW_ID).collect()) == expected
    # A filter on the data leaves the ids what they are, in either mode of arithmetic.
    for ansi in ("true", "false"):
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        assert dict(table.where("id % 10 = 2").select("id", ROW_ID).collect()) == {
            k: v for k, v in expected.items() if k % 10 == 2
        }
    spark.conf.unset("spark.sql.ansi.enabled")
    one = leaf_table(jvm, read(spark, trips / "1.parquet"), addresses[:1])
    assert sorted(row[ROW_ID] for row in one.collect()) == list(range(7))
    with pytest.raises(Exception, match="not among the files"):
        leaf_table(jvm, df, addresses[:-1]).collect()


def test_plain_parquet_is_pinned(spark: "SparkSession", trips: Path, tmp_path: Path) -> None:
    assert kept(read(spark, trips)) == ""
    spark.range(4).selectExpr("id", "id % 2 as p").write.partitionBy("p").parquet(f"file:{tmp_path}/parts")
    df = spark.read.option("mergeSchema", "true").parquet(f"file:{tmp_path}/parts")
    lifted = lift(df, {"parts": df})
    record = keep(lifted.jvm, lifted.leaves[0]).record
    assert (record.kind, record.id, record.partition_columns) == ("parquet", "file_row", ("p",))
    assert [(c.name, c.type) for c in record.columns] == [("id", "bigint"), ("p", "int")]
    assert record.locations == (f"{tmp_path}/parts",)
    # A location is plain text: what looks escaped in it is not.
    named = read(spark, trips)
    assert keep(lifted.jvm, lift(named).leaves[0]).record.locations == (str(trips),)


@pytest.fixture
def settings(spark: "SparkSession") -> Iterator[dict[str, str]]:
    """Settings of the session that end with the test."""

    class Settings(dict[str, str]):
        def __setitem__(self, name: str, value: str) -> None:
            spark.conf.set(name, value)
            super().__setitem__(name, value)

    made = Settings()
    yield made
    for name in made:
        spark.conf.unset(name)


def test_what_has_no_lasting_rows_is_landed(
    spark: "SparkSession", trips: Path, tmp_path: Path, settings: dict[str, str]
) -> None:
    df = read(spark, trips)
    for form in ("csv", "json", "orc"):
        df.write.format(form).save(f"file:{tmp_path}/{form}")
        again = spark.read.schema(df.schema).format(form).load(f"file:{tmp_path}/{form}")
        assert form in kept(again)
    assert "memory" in kept(spark.createDataFrame([(1,)], "a int"))
    assert "range" in kept(spark.range(3))
    strange = spark.read.option("__globPaths__", "false").option("int96RebaseMode", "LEGACY").parquet(f"file:{trips}")
    assert "int96rebasemode" in kept(strange)
    assert "_metadata" in kept(df.select("id", "_metadata.file_name"))
    settings["spark.sql.files.ignoreCorruptFiles"] = "true"
    assert "ignoreCorruptFiles" in kept(df)
    settings["spark.sql.files.ignoreCorruptFiles"] = "false"
    settings["spark.sql.sources.useV1SourceList"] = ""
    assert kept(read(spark, trips)) != ""


def test_files_of_old_sparks_are_landed(spark: "SparkSession", tmp_path: Path) -> None:
    for name, metadata, shifted in (
        ("2.4", {"org.apache.spark.version": "2.4.8"}, True),
        ("legacy", {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}, True),
        ("3.5", {"org.apache.spark.version": "3.5.0"}, False),
        ("12", {"org.apache.spark.version": "12.0.0"}, False),
    ):
        (tmp_path / name).mkdir()
        days = pa.table({"day": pa.array([0], pa.date32())}).replace_schema_metadata(metadata)
        parquet.write_table(days, tmp_path / name / "0.parquet")
        assert ("old calendar" in kept(read(spark, tmp_path / name))) == shifted, name


QUERIES = (
    "select a.id, b.name from t a join t b on a.id = b.id",
    "select id, (select max(id) from t) m, (select max(u.id + 1) from t u) n from t where id > 0",
    "select * from t where exists (select 1 from t u where u.id = t.id + 1) or id in (select id from t)",
    "with c as (select id, count(*) n from t group by id) select a.n, b.id from c a join c b on a.n <= b.n",
    "select * from t union all select * from t where id = (select min(id) from t u where u.name >= t.name)",
    "select id, row_number() over (partition by id order by name) r from (select distinct * from t) order by id desc",
)


def test_a_plan_is_repointed_wherever_it_reads_a_source(spark: "SparkSession") -> None:
    table = spark.createDataFrame([(1, "a"), (2, "b"), (2, "c")], "id int, name string")
    other = spark.createDataFrame([(2, "x"), (3, "y"), (1, "a")], "id int, name string")
    for query in QUERIES:
        table.createOrReplaceTempView("t")
        df = spark.sql(query)
        lifted = lift(df, {"t": table})
        assert [leaf.name for leaf in lifted.leaves] == ["t"]
        elsewhere = lifted.jvm.frame(repoint(lifted.jvm, analyzed(df), {"t": other}, lifted.leaves))
        other.createOrReplaceTempView("t")
        expected = spark.sql(query)
        assert sorted(map(str, elsewhere.collect())) == sorted(map(str, expected.collect())), query
        assert elsewhere.schema == df.schema, query
        assert sorted(map(str, df.collect())) != sorted(map(str, expected.collect())), query
