"""Capture of streams: what tracing adds to GeneaLog's first query over generated traffic.

Two cases in turns: the user's own `foreachBatch` that writes each epoch as Parquet, and a lazy run. Several files make
an epoch, and an epoch takes seconds. Throughput counts from the start of the query to its end; the latency is Spark's
own time of an epoch with rows. Memory is the largest resident size of the JVM, each time in a process of its own,
because a JVM that has once grown does not shrink; smoke takes it in this process.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from bench.data import bytes_below, scratch, traffic
from bench.measure import Measurement, Sample, Size, in_turns, summary, timed
from whence import Run
from whence.demo.traffic import SPARK_SCHEMA, Traffic, broken_down_cars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "capture_stream"
WHAT = "what tracing adds to a stream: GeneaLog's Q1 over generated traffic, lazy"

CAPTURES = ("none", "lazy")
# So many files make an epoch.
FILES = 4
UNITS = {
    "time": "s",
    "throughput": "rows/s",
    "epoch": "s",
    "epochs": "epochs",
    "state": "bytes",
    "state_rows": "rows",
    "stored": "bytes",
}


def measure(size: Size) -> Iterator[Measurement]:
    """Time, latency and state in this process, then memory in processes of their own; ratios are to the case none."""
    from whence.spark.session import session

    spark = session()
    shape = size.pick(Traffic(cars=200_000, minutes=24), Traffic(cars=100, minutes=4))
    data = traffic(shape)
    cases = {capture: _case(spark, data, capture, shape.rows) for capture in CAPTURES}
    found = in_turns(cases, size.pick(5, 1), warm=size.pick(1, 0))
    yield from summary(NAME, found, UNITS | size.pick({}, {"peak": "bytes"}), "none")
    if not size.smoke:
        alone = {capture: (lambda c=capture: _alone(data, c, shape.rows)) for capture in CAPTURES}
        yield from summary(NAME, in_turns(alone, 3, warm=0), {"peak": "bytes"}, "none")


def _case(spark: "SparkSession", data: Path, capture: str, rows: int) -> Callable[[], Sample]:
    def run() -> Sample:
        with scratch() as folder:
            return stream(spark, data, capture, rows, folder)

    return run


def stream(spark: "SparkSession", data: Path, capture: str, rows: int, folder: Path) -> Sample:
    """Run the query over all the files, four an epoch, and say what it took."""
    sample: dict[str, float] = {}
    spark._jvm.System.gc()  # type: ignore[union-attr]
    _forget_peak(spark)
    with timed(sample):
        started = (_plain if capture == "none" else _traced)(spark, data, folder)
        started.awaitTermination()
    query = started.query if isinstance(started, Run) else started
    progress = [epoch for epoch in query.recentProgress if epoch.numInputRows]
    # Not the rows: Spark counts those of row groups that it need not read as none.
    expected = -(-len(list((data / "reports").glob("*.parquet"))) // FILES)
    if len(progress) != expected:
        raise AssertionError(f"the stream took {len(progress)} epochs for its files, not {expected}")
    return sample | {
        "throughput": rows / sample["time"],
        "epoch": median(epoch.durationMs["triggerExecution"] for epoch in progress) / 1000,
        "epochs": len(progress),
        "state": max(sum(s.memoryUsedBytes for s in epoch.stateOperators) for epoch in progress),
        "state_rows": max(sum(s.numRowsTotal for s in epoch.stateOperators) for epoch in progress),
        "stored": bytes_below(folder / "results" if capture == "none" else folder / "run" / "results"),
        "peak": _peak(spark),
    }


def _reports(spark: "SparkSession", data: Path) -> "DataFrame":
    return spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", FILES).parquet(str(data / "reports"))


def _plain(spark: "SparkSession", data: Path, folder: Path) -> Any:
    numbers = count()

    def write(epoch: "DataFrame", number: int) -> None:
        epoch.write.mode("overwrite").parquet(str(folder / "results" / f"epoch={next(numbers)}"))

    writer = broken_down_cars(_reports(spark, data)).writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()


def _traced(spark: "SparkSession", data: Path, folder: Path) -> "Run":
    import whence

    reports = _reports(spark, data)
    traced = whence.trace(broken_down_cars(reports), sources={"reports": reports}, capture="lazy")
    return traced.start(folder / "run", trigger="availableNow")


def _status(spark: "SparkSession") -> Path:
    # Spark runs in the process it started, and that one says which it is.
    return Path("/proc", str(spark._jvm.java.lang.ProcessHandle.current().pid()))  # type: ignore[union-attr]


def _forget_peak(spark: "SparkSession") -> None:
    """Let the kernel count the largest resident size from here on."""
    (_status(spark) / "clear_refs").write_text("5")


def _peak(spark: "SparkSession") -> float:
    """The largest resident size of the JVM, in bytes."""
    for line in (_status(spark) / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) * 1024
    raise AssertionError("the kernel does not say how large the JVM was")


def _alone(data: Path, capture: str, rows: int) -> Sample:
    command = [sys.executable, "-m", "bench.capture_stream", str(data), capture, str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the stream of its own ended with {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("capture", type=click.Choice(CAPTURES))
@click.argument("rows", type=int)
def main(data: Path, capture: str, rows: int) -> None:
    """Run one case in this process, for its memory."""
    from whence.spark.session import session, stop

    with scratch() as folder:
        click.echo(json.dumps(stream(session(), data, capture, rows, folder)))
    stop()


if __name__ == "__main__":
    main()
