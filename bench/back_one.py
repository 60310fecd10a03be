"""Back of one row, and forward of one: how long somebody waits for the lineage of a single row.

`batch`: of the 2 M row queries, on a warm Spark and by DuckDB in this process, beside running the query again, which
is what one does without lineage. `stream`: of an alert over 50 M reports in time-ordered Parquet, by DuckDB; that run
is written by the store's writer (see `runs`), as the stream itself would take minutes. Every round asks about another
row, and every answer must be exact.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.data import sales, scratch, traffic
from bench.measure import Measurement, Sample, Size, in_turns, summary, timed
from bench.queries import QUERIES, Query
from bench.runs import write_stream_run
from whence import Answer, Row, Run
from whence.demo.traffic import Traffic

NAME = "back_one"
WHAT = "back of one result row and forward of one source row: batch of 2 M rows, stream of 50 M"

UNITS = {"time": "s", "look": "s", "edges": "edges"}


def measure(size: Size) -> Iterator[Measurement]:
    """First the batches, then the stream."""
    rows = size.pick(2_000_000, 2_000)
    for query in QUERIES:
        for categories in size.pick((10, 33_000), (10,)):
            yield from _batch(query, sales(rows, categories), f"{query.name} {categories:,}", size)
    yield from _stream(size)


def _batch(query: Query, data: Path, name: str, size: Size) -> Iterator[Measurement]:
    import whence
    from whence.spark.session import session

    spark = session()
    draw = random.Random(1)
    with scratch() as folder:
        query.traced(spark, data, folder / "lazy", "lazy")
        query.traced(spark, data, folder / "eager", "eager")
        lazy, eager = whence.open(folder / "lazy"), whence.open(folder / "eager")

        def rerun() -> Sample:
            sample: dict[str, float] = {}
            with timed(sample):
                # Computes all rows and keeps none: the cheapest way to run it again.
                query.frame(spark, data).write.format("noop").mode("overwrite").save()
            return sample

        rows = size.pick(2_000_000, 2_000)

        def one_sale() -> str:
            return f"id = {draw.randrange(rows)}"

        cases: dict[str, Callable[[], Sample]] = {
            f"{name} rerun": rerun,
            f"{name} back spark": _back(lazy, draw, "sales", "spark"),
            f"{name} back duckdb": _back(lazy, draw, "sales", "duckdb"),
            f"{name} back eager": _back(eager, draw, "sales", "duckdb"),
            f"{name} forward spark": _asked(lambda: lazy.forward("sales", one_sale(), engine="spark")),
            f"{name} forward duckdb": _asked(lambda: lazy.forward("sales", one_sale(), engine="duckdb")),
            f"{name} forward eager": _asked(lambda: eager.forward("sales", one_sale(), engine="duckdb")),
        }
        found = in_turns(cases, size.pick(15, 1), warm=size.pick(2, 0))
        yield from summary(NAME, found, UNITS, f"{name} rerun")


def _stream(size: Size) -> Iterator[Measurement]:
    import whence

    shape = size.pick(Traffic(cars=100_000, minutes=250, minutes_per_file=5), Traffic(cars=300, minutes=20))
    data = traffic(shape)
    draw = random.Random(1)
    with scratch() as folder:
        write_stream_run(folder / "run", data)
        run = whence.open(folder / "run")
        rows = list(run.rows())

        def report() -> str:
            row = draw.choice(rows)
            start = row["window"]["start"]  # type: ignore[index]
            # The first report of an alert comes within 30 seconds of its window's start, and stands for a single row.
            first = f"timestamp'{start:%Y-%m-%d %H:%M:%S}'"
            return f"car = {row['car']} and at >= {first} and at < {first} + interval '30' second"

        cases: dict[str, Callable[[], Sample]] = {
            f"stream {shape.rows:,} back": _back(run, draw, "reports", "duckdb", rows),
            f"stream {shape.rows:,} forward": _asked(lambda: run.forward("reports", report(), engine="duckdb")),
        }
        found = in_turns(cases, size.pick(200, 2), warm=size.pick(5, 0))
        yield from summary(NAME, found, UNITS, tail=("time",))


def _back(
    run: Run, draw: random.Random, source: str, engine: str, rows: list[Row] | None = None
) -> Callable[[], Sample]:
    """Back of a row drawn anew; `look` is the time that the answer's rows take to read afterwards."""
    known = list(run.rows()) if rows is None else rows

    def case() -> Sample:
        row = draw.choice(known)
        return _asked(lambda: run.back(row, engine=engine), source)()  # type: ignore[arg-type]

    return case


def _asked(ask: Callable[[], Answer], source: str | None = None) -> Callable[[], Sample]:
    def case() -> Sample:
        sample: dict[str, float] = {}
        with timed(sample):
            answer = ask()
        if answer.exactness != "exact" or not len(answer):
            raise AssertionError(f"the answer should be exact and have edges: {answer!r}")
        if source is not None:
            with timed(sample, "look"):
                answer.table(source)
        return sample | {"edges": len(answer)}

    return case
