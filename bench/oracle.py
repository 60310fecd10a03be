"""The oracle: rows a second of `semantics`, which every law and every differential test waits for.

A plan of five nodes over one table, evaluated, annotated, and run as a stream of ten epochs; ratios are to evaluation.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from bench.measure import Measurement, Sample, Size, in_turns, summary, timed
from whence.plan.builder import source
from whence.plan.nodes import Node
from whence.semantics import Table, annotate, evaluate, run_stream

NAME = "oracle"
WHAT = "rows a second of the reference semantics: evaluate, annotate, streams"

UNITS = {"time": "s", "speed": "rows/s"}
BEGIN = datetime(2026, 1, 1, 8, tzinfo=UTC)
COLUMNS = ("at", "car", "speed", "pos")


def measure(size: Size) -> Iterator[Measurement]:
    """One table through the three of them."""
    rows = size.pick(10_000, 500)
    table = reports(rows)
    plan = five_nodes()
    parts = _epochs(table, 10)

    def case(run: object) -> Sample:
        sample: dict[str, float] = {}
        with timed(sample):
            run()  # type: ignore[operator]
        return sample | {"speed": rows / sample["time"]}

    cases = {
        "evaluate": lambda: case(lambda: evaluate(plan, {"reports": table})),
        "annotate": lambda: case(lambda: annotate(plan, {"reports": table})),
        "stream": lambda: case(lambda: run_stream(plan, [{"reports": part} for part in parts])),
    }
    yield from summary(NAME, in_turns(cases, size.pick(5, 1), warm=size.pick(1, 0)), UNITS, "evaluate")


def five_nodes() -> Node:
    """Watermark, filter, windows, group and filter over a source: what a stopped car's alert takes."""
    flow = source("reports", at="timestamp", car="int", speed="double", pos="int")
    return (
        flow.with_watermark("at", "30 seconds")
        .where("speed < 30")
        .window("at", "120 seconds", "30 seconds")
        .group("window", "car", n="count(*)", lo="min(pos)", hi="max(pos)")
        .where("n >= 2")
        .plan
    )


def reports(rows: int) -> Table:
    """Reports of a hundred cars, one every 30 seconds each; four in five pass the filter."""
    made = [
        (BEGIN + timedelta(seconds=30 * (n // 100)), n % 100, float(n * 7 % 10) * 3.6, n * 13 % 1000)
        for n in range(rows)
    ]
    return Table(COLUMNS, made, range(rows))


def _epochs(table: Table, count: int) -> list[Table]:
    step = -(-len(table.rows) // count)
    return [
        Table(table.columns, table.rows[begin : begin + step], range(begin, min(begin + step, len(table.rows))))
        for begin in range(0, len(table.rows), step)
    ]
