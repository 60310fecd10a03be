"""All edges after the fact: `run.back()` of all results of a batch, beside the time of the run itself.

A lazy run recomputes them, an eager one reads what it stored. DESIGN asks for 5 % of the run's time.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from bench.data import sales, scratch
from bench.measure import Measurement, Sample, Size, in_turns, summary, timed
from bench.queries import QUERIES, Query

NAME = "materialise"
WHAT = "all edges of all results after the fact, beside the time of the run"

UNITS = {"time": "s", "edges": "edges", "speed": "edges/s"}


def measure(size: Size) -> Iterator[Measurement]:
    """For each query the run itself, then all edges of a lazy and of an eager run; ratios are to the run."""
    rows = size.pick(2_000_000, 2_000)
    for query in QUERIES:
        for categories in size.pick((10, 33_000), (10,)):
            yield from _of_query(query, sales(rows, categories), f"{query.name} {categories:,}", size)


def _of_query(query: Query, data: Path, name: str, size: Size) -> Iterator[Measurement]:
    import whence
    from whence.spark.session import session

    spark = session()
    numbers = count()
    with scratch() as folder:
        for capture in ("lazy", "eager"):
            query.traced(spark, data, folder / capture, capture)

        def run() -> Sample:
            sample: dict[str, float] = {}
            with timed(sample):
                query.traced(spark, data, folder / str(next(numbers)), "lazy")
            return sample

        def edges(capture: str) -> Sample:
            opened = whence.open(folder / capture)
            sample: dict[str, float] = {}
            with timed(sample):
                found = len(opened.back())
            return sample | {"edges": found, "speed": found / sample["time"]}

        cases = {
            f"{name} run": run,
            f"{name} lazy": lambda: edges("lazy"),
            f"{name} eager": lambda: edges("eager"),
        }
        yield from summary(NAME, in_turns(cases, size.pick(3, 1), warm=size.pick(1, 0)), UNITS, f"{name} run")
