"""The batch queries of the benches: a group-by, and a join and a group-by, over generated sales.

Each is what a user would write. Names and plans are those that Titian's measurements used, sizes are the callers'.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from whence import Run

Tables = Mapping[str, "DataFrame"]


@dataclass(frozen=True, slots=True)
class Query:
    """A query by name: which tables it reads, and how it is built from them."""

    name: str
    reads: tuple[str, ...]
    build: Callable[[Tables], "DataFrame"]

    def tables(self, spark: "SparkSession", folder: Path) -> Tables:
        """The tables it reads, from the folder of a data set."""
        return {name: spark.read.parquet(str(folder / name)) for name in self.reads}

    def frame(self, spark: "SparkSession", folder: Path) -> "DataFrame":
        """The query, built anew, so that nothing of an earlier analysis is used again."""
        return self.build(self.tables(spark, folder))

    def traced(self, spark: "SparkSession", folder: Path, path: Path, capture: str) -> "Run":
        """A run of it."""
        import whence

        tables = self.tables(spark, folder)
        return whence.trace(self.build(tables), sources=tables, capture=capture).write(path)


def _group(tables: Tables) -> "DataFrame":
    from pyspark.sql import functions as F

    return tables["sales"].groupBy("category").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))


def _join_group(tables: Tables) -> "DataFrame":
    from pyspark.sql import functions as F

    joined = tables["sales"].join(tables["categories"], "category")
    return joined.groupBy("category", "region").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))


GROUP = Query("group", ("sales",), _group)
JOIN_GROUP = Query("join+group", ("sales", "categories"), _join_group)
QUERIES = (GROUP, JOIN_GROUP)
