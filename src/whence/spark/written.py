"""Writing rows as Parquet that every reader of a run reads alike: Spark, DuckDB and pyarrow.

Spark's own defaults, or what a session says, would give timestamps as INT96 without statistics, dates in the old
calendar, and lists in a layout of 2014. Only our writes are changed, and nothing stays set in the user's session.
What is written, and where, is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from whence.errors import EvaluationError, NotTraceable
from whence.spark.jvm import Jvm, analyzed, items
from whence.spark.session import spark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS: Mapping[str, str] = {
    # INT96 has no statistics, so no reader could skip a row group by time.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Lists and decimals as the format's standard has them.
    "spark.sql.parquet.writeLegacyFormat": "false",
    # Only Spark would shift dates before 1582 back when it reads them.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
# From this version on a write takes these from its own options; before, from the session alone.
_OPTIONS_SINCE = (4, 3)
_AS_OPTIONS = ("spark.sql.parquet.outputTimestampType", "spark.sql.parquet.writeLegacyFormat")


def write_parquet(df: DataFrame, directory: Path, ids: Sequence[str] = ()) -> None:
    """Write a DataFrame's rows, in their order, as the files of a new directory.

    ``ids`` names columns of row ids or of lists of them. Differences of ids are small and ids are seldom repeated, so
    they are kept as differences and without a dictionary: 0.8 bytes an id where they lie together, else 4.
    """
    writer = df.write
    if ids:
        writer = writer.option("parquet.writer.version", "PARQUET_2_0")
    for column in ids:
        for part in (column, f"{column}.list.element"):
            writer = writer.option(f"parquet.enable.dictionary#{part}", "false")
    options = _AS_OPTIONS if spark_version() >= _OPTIONS_SINCE else ()
    for name in options:
        writer = writer.option(name, SETTINGS[name])
    rest = {name: value for name, value in SETTINGS.items() if name not in options}
    with _set(df.sparkSession, rest), spark_errors():
        # With its scheme: the session's default file system may be another.
        writer.parquet(f"file:{directory}")


@contextmanager
def spark_errors() -> Iterator[None]:
    """Spark's own errors pass as PySpark has them; what PySpark did not translate is said in our words."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise EvaluationError("the query failed in Spark", detail=str(cause.toString())) from None


def check_columns(jvm: Jvm, df: DataFrame, what: str) -> None:
    """Raise unless Parquet can hold every column of a DataFrame."""
    attributes = items(analyzed(df).output())
    if not attributes:
        raise NotTraceable(f"{what} has no columns", hint="select one: a row without columns cannot be kept")
    parquet = jvm.type("org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat")()
    seen: dict[str, str] = {}
    for attribute in attributes:
        name = attribute.name()
        if not parquet.supportDataType(attribute.dataType()):
            raise NotTraceable(
                f"column {name!r} of {what} cannot be kept",
                detail=f"its type is {attribute.dataType().catalogString()}, which Parquet files cannot hold",
                hint=f"cast it or drop it: df.withColumn({name!r}, F.col({name!r}).cast('string'))",
            )
        if name.lower() in seen:
            raise NotTraceable(
                f"{what} has two columns called {name!r}",
                detail=f"{seen[name.lower()]!r} and {name!r} are one name in a file that Spark writes",
                hint="rename one: df.withColumnRenamed(...)",
            )
        seen[name.lower()] = name


@contextmanager
def _set(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session as long as the block runs; those that are so already are not touched."""
    before: dict[str, str | None] = {}
    for name, value in wanted.items():
        if spark.conf.get(name) != value:
            # None where it was never set: a default is put back by unsetting.
            before[name] = spark.conf.getAll.get(name)
            spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
