"""Capture of batches: what tracing adds to the time of a query and to what it stores.

Three cases in turns: the user's own `df.write.parquet`, a lazy run and an eager one. What a run costs once (lifting
the query, pinning sources, manifest and marker) is told apart from what grows with the data by the same three cases
over a table of a thousand rows: `over` is the difference of times at full size, `once` that at the small one, and
`less_once` the time without it, whose ratio says what the cost per row is.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from bench.data import bytes_below, sales, scratch
from bench.measure import Measurement, Sample, Size, in_turns, summary, timed
from bench.queries import QUERIES, Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "capture_batch"
WHAT = "what tracing adds to a batch: group-by and join+group-by over 2 M rows, lazy and eager"

CAPTURES = ("none", "lazy", "eager")
SMALL = 1_000
UNITS = {"time": "s", "over": "s", "once": "s", "less_once": "s", "stored": "bytes", "added": "bytes"}


def measure(size: Size) -> Iterator[Measurement]:
    """For each query and number of categories the three cases; ratios are to the case none."""
    from whence.spark.session import session

    spark = session()
    rows = size.pick(2_000_000, 2_000)
    for query in QUERIES:
        for categories in size.pick((10, 33_000), (10,)):
            samples = _samples(spark, query, rows, categories, size)
            named = {f"{query.name} {categories:,} {capture}": rounds for capture, rounds in samples.items()}
            yield from summary(NAME, named, UNITS, f"{query.name} {categories:,} none")


def _samples(
    spark: "SparkSession", query: Query, rows: int, categories: int, size: Size
) -> dict[str, list[dict[str, float]]]:
    """For each capture the samples at full size, with what is told apart by those of the small table."""
    large = sales(rows, categories)
    # At smoke size both are small, and one table will do.
    small = size.pick(sales(SMALL, min(categories, SMALL // 10)), large)
    numbers = count()
    with scratch() as folder:

        def case(capture: str, data: Path) -> Sample:
            return _write(spark, query, data, capture, folder / str(next(numbers)))

        cases = {
            (capture, data): (lambda c=capture, d=data: case(c, d)) for capture in CAPTURES for data in (small, large)
        }
        turns = in_turns(
            {f"{capture} {data.name}": run for (capture, data), run in cases.items()},
            size.pick(11, 1),
            warm=size.pick(2, 0),
        )
    found: dict[str, list[dict[str, float]]] = {}
    for capture in CAPTURES:
        found[capture] = []
        for turn, full in enumerate(turns[f"{capture} {large.name}"]):
            plain = turns[f"none {large.name}"][turn]
            sample = dict(full)
            if capture != "none":
                once = turns[f"{capture} {small.name}"][turn]["time"] - turns[f"none {small.name}"][turn]["time"]
                sample["once"] = once
                sample["over"] = full["time"] - plain["time"]
                sample["added"] = full["stored"] - plain["stored"]
            # What it would take if what is paid once were free.
            sample["less_once"] = full["time"] - sample.get("once", 0.0)
            found[capture].append(sample)
    return found


def _write(spark: "SparkSession", query: Query, data: Path, capture: str, path: Path) -> Sample:
    sample: dict[str, float] = {}
    # What earlier cases left is collected now, and not in the time of this one.
    spark._jvm.System.gc()  # type: ignore[union-attr]
    with timed(sample):
        if capture == "none":
            query.frame(spark, data).write.parquet(str(path))
        else:
            query.traced(spark, data, path, capture)
    sample["stored"] = bytes_below(path)
    return sample
