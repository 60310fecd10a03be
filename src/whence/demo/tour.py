"""The guided tour: stream generated traffic, raise alerts, and ask where one of them came from.

It is a user of whence like any other, and knows besides what was planted: each scene checks what it shows. How scenes
look is the caller's business. It keeps its files in one folder, replaces the run that an earlier tour made there, and
touches nothing else.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

import whence
from whence.demo.traffic import SPARK_SCHEMA, Alert, Planted, Traffic, broken_down_cars, write_traffic
from whence.errors import BrokenRun, RunExists, UnknownRun

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from whence.ask.run import Run

REPORTS = "reports"
RUN = Path("runs", "stopped-cars")

Tell = Callable[[str], None]
"""Hears what is being done now, often."""


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must hold, and whether it does; ``found`` says what was found where it does not."""

    statement: str
    holds: bool
    found: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """One thing that the tour shows: a title, words, rows where there are some, and checks."""

    title: str
    words: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A command to try next, without the program's name: its arguments, and what it shows."""

    arguments: tuple[str, ...]
    shows: str


def tour(folder: str | Path, tell: Tell, traffic: Traffic | None = None) -> Iterator[Scene | Command]:
    """The scenes, one after the other, and at the end commands to go on with."""
    # Two minutes a file: fifteen epochs are enough to see, and no more than a minute of anybody's time.
    traffic = traffic or Traffic(minutes_per_file=2)
    target = Path(folder)
    path = target / RUN
    make_way(path, target / REPORTS)
    tell(f"writing {traffic.rows:,} reports of {traffic.cars:,} cars")
    planted = _planted(target / REPORTS, traffic)
    seconds = _stream(target / REPORTS, path, planted, tell)
    # From here on as any other process would: no Spark is asked.
    run = whence.open(path)
    tell("asking")
    found = frozenset((_car(row), _start(row)) for row in run.rows())
    yield _streamed(found, planted, seconds)
    raised = [alert for alert in planted.stream if (alert.car, alert.start) in found]
    if not raised:
        return
    alert = _chosen(raised)
    yield _back(run, alert, planted)
    yield _all_edges(run, planted)
    yield _forward(run, alert, planted)
    yield _replay(run, alert)
    yield from _commands(path, alert)


def make_way(path: Path, reports: Path) -> None:
    """Remove the run that an earlier tour over these reports left at a path; anything else there is an error."""
    try:
        run = whence.open(path)
        state, sources = run.state, run.stored.manifest.sources
    except UnknownRun:
        if path.exists():
            raise _not_ours(path, "it is no run") from None
        return
    except BrokenRun as broken:
        raise _not_ours(path, f"it holds a damaged run: {broken.detail}") from None
    if state == "running":
        raise RunExists(
            "another demo is writing its run",
            detail=str(path.absolute()),
            hint="wait for it, or name another folder with --folder",
        )
    # The demo's run reads the demo's reports and nothing else; no other run does.
    if [source.name for source in sources] != [REPORTS] or not _reads(run, reports):
        raise _not_ours(path, "it is a run of something else")
    doomed = path.with_name(f".{path.name}.replaced-by-demo")
    shutil.rmtree(doomed, ignore_errors=True)
    path.rename(doomed)
    shutil.rmtree(doomed)


def _reads(run: Run, reports: Path) -> bool:
    """Whether all that a run read, or was to read, lies in the folder of the reports."""
    here = reports.resolve()
    named = [Path(unquote(location.removeprefix("file:"))) for location in run.stored.source(REPORTS).locations]
    read = [file.path for file in run.stored.source_files(REPORTS)]
    return all(path.resolve().is_relative_to(here) for path in (*named, *read))


def _not_ours(path: Path, what: str) -> RunExists:
    return RunExists(
        "the demo will not replace what it did not make",
        detail=f"{path.absolute()}: {what}",
        hint="move it away, or name another folder with --folder",
    )


def _planted(folder: Path, traffic: Traffic) -> Planted:
    planted = write_traffic(folder, traffic)
    strange = sorted(set(folder.glob("[!._]*")) - set(planted.files))
    if strange:
        # A stream reads whatever lies in its folder, so nothing would be as planted.
        raise RunExists(
            "the demo's folder of reports holds files that it did not write",
            detail=", ".join(str(file) for file in strange[:3]),
            hint="move them away, or name another folder with --folder",
        )
    return planted


def _stream(reports: Path, path: Path, planted: Planted, tell: Tell) -> float:
    """Run the query over the reports, an epoch a file; how many seconds it took, without Spark's start."""
    from whence.spark.session import session

    tell("starting Spark")
    spark: SparkSession = session("whence demo")
    source = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(reports.absolute()))
    begin = time.perf_counter()
    run = whence.trace(broken_down_cars(source), sources={REPORTS: source}).start(path, trigger="availableNow")
    try:
        # Asleep in Python and not waiting in Java: Ctrl-C finds nothing under way that it would break.
        while run.isActive:
            time.sleep(0.5)
            epochs = run.stored.epochs
            alerts = sum(record.rows or 0 for epoch in epochs for record in epoch.results)
            tell(f"streaming: {len(epochs)} of {len(planted.files)} files read, {alerts} alerts raised")
        run.awaitTermination()
    finally:
        if run.isActive:
            run.stop()
    return time.perf_counter() - begin


def _streamed(found: frozenset[tuple[int, datetime]], planted: Planted, seconds: float) -> Scene:
    expected = {(alert.car, alert.start) for alert in planted.stream}
    traffic = planted.traffic
    words = (
        f"{traffic.cars:,} cars sent {planted.rows:,} reports of their speed and position. A car that reports speed 0 "
        "four times within two minutes, at one position, has broken down. Spark's query over the stream of reports "
        f"raised {len(found)} alerts for {len({car for car, _ in found})} cars, in {seconds:.0f} s. "
        "Nothing was added to the query; whence kept which files each epoch read."
    )
    check = Check(
        f"the alerts are the {len(expected)} that the traffic was made to raise",
        found == expected,
        f"{len(found)} alerts, of which {len(found & expected)} are right",
    )
    return Scene("A stream raises alerts", words, checks=(check,))


def _chosen(alerts: Sequence[Alert]) -> Alert:
    """The second alert of a car that has several, so that its reports went into others too; there are some always."""
    of_car: dict[int, list[Alert]] = defaultdict(list)
    for alert in alerts:
        of_car[alert.car].append(alert)
    most = max(of_car.values(), key=len)
    return most[min(1, len(most) - 1)]


def _back(run: Run, alert: Alert, planted: Planted) -> Scene:
    row = run.rows(_where(alert)).one()
    answer = run.back(row)
    table = answer.table(REPORTS, ids=True)
    rows = tuple(zip(*(column.to_pylist() for column in table.columns), strict=True))
    times = tuple(sorted(cast(datetime, at) for at in table.column("at").to_pylist()))
    cars = set(table.column("car").to_pylist())
    words = (
        f"Car {alert.car} raised an alert for {alert.start:%H:%M:%S} to {alert.end:%H:%M:%S}. Which of the "
        f"{planted.rows:,} reports made it? {_engine(answer.engine)} answered in {answer.seconds:.3f} s from the files "
        "that the run read."
    )
    checks = (
        Check(
            "these are the four reports of that car that were planted in that window",
            (times, cars) == (alert.reports, {alert.car}),
            f"{len(times)} reports of cars {sorted(cars)}",
        ),
        Check("the answer is exact", answer.exactness == "exact", f"{answer.exactness}: {answer.reason}"),
    )
    return Scene(
        "Back: from a result to the rows that made it", words, ("row id", *table.column_names[1:]), rows, checks
    )


def _all_edges(run: Run, planted: Planted) -> Scene:
    answer = run.back()
    table = answer.table(REPORTS, ids=True)
    at = dict(zip(*(table.column(name).to_pylist() for name in (table.column_names[0], "at")), strict=True))
    alerts = {row.id: (_car(row), _start(row)) for row in answer.rows()}
    made: dict[tuple[int, datetime], list[datetime]] = defaultdict(list)
    for edge in answer:
        made[alerts[cast(int, edge["result"])]].append(at[edge["source_id"]])
    right = sum(sorted(made.get((alert.car, alert.start), [])) == list(alert.reports) for alert in planted.stream)
    words = (
        f"The {len(alerts)} alerts were made by {len(at)} reports, {len(answer):,} edges in all, found in "
        f"{answer.seconds:.3f} s. {len(planted.late)} reports of stopped cars arrived so late that Spark dropped them."
    )
    late = {(car, moment) for car, moment in _reports(table) if (car, moment) in planted.late}
    checks = (
        Check(
            "every alert has exactly the reports that were planted for it",
            right == len(planted.stream) == len(made),
            f"{right} of {len(planted.stream)} alerts do",
        ),
        Check("no report that Spark dropped as late is in any answer", not late, f"{len(late)} of them are"),
    )
    return Scene("All alerts at once", words, checks=checks)


def _forward(run: Run, alert: Alert, planted: Planted) -> Scene:
    last = alert.reports[-1]
    where = f"car = {alert.car} and at = '{last:%Y-%m-%d %H:%M:%S}'"
    answer = run.forward(REPORTS, where)
    rows = answer.rows()
    found = sorted((_car(row), _start(row)) for row in rows)
    expected = [
        (other.car, other.start) for other in planted.stream if other.car == alert.car and last in other.reports
    ]
    words = (
        "Windows overlap, so a report counts in several. Which alerts did the last of these reports, the one of "
        f"{last:%H:%M:%S}, make? {_engine(answer.engine)} answered in {answer.seconds:.3f} s."
    )
    check = Check("these are the alerts planted with that report", found == expected, f"{len(found)} alerts")
    shown = tuple((row.id, *row.values()) for row in rows)
    return Scene(
        "Forward: from an input row to the results it made",
        words,
        ("row id", *(c.name for c in run.schema)),
        shown,
        (check,),
    )


def _replay(run: Run, alert: Alert) -> Scene:
    replay = run.replay(run.rows(_where(alert)).one())
    rows = (("stored", *replay.row.values()), *(("recomputed", *row.values()) for row in replay.rows))
    words = (
        f"Proof: the query again, over the {len(replay.witness)} reports of the answer and nothing else, in "
        f"{replay.seconds:.3f} s."
    )
    check = Check("the same alert comes out", replay.matches, f"{len(replay.rows)} rows came out, none the same")
    return Scene(
        "Replay: the rows of the answer are enough", words, ("", *(c.name for c in run.schema)), rows, (check,)
    )


def _commands(path: Path, alert: Alert) -> Iterator[Command]:
    run, car = str(path), f"car = {alert.car}"
    yield Command(("rows", run, "--where", car), "the alerts of that car")
    yield Command(("back", run, "--where", car), "the reports that made them")
    yield Command(("back", run, "--edges", "--json"), "all edges, for programs")
    yield Command(("forward", run, REPORTS, "--where", car), "the alerts that its reports made")
    yield Command(("explain", run), "what the run keeps, and why that is enough")
    yield Command(("doctor", run), "whether all is still as it was")


def _where(alert: Alert) -> str:
    return f"car = {alert.car} and window.start = '{alert.start:%Y-%m-%d %H:%M:%S}'"


def _reports(table: pa.Table) -> Iterator[tuple[int, datetime]]:
    """The car and the time of each report."""
    yield from zip(table.column("car").to_pylist(), table.column("at").to_pylist(), strict=True)


def _car(row: whence.Row) -> int:
    return cast(int, row["car"])


def _start(row: whence.Row) -> datetime:
    return cast(dict[str, datetime], row["window"])["start"].astimezone(UTC)


def _engine(name: str) -> str:
    return {"duckdb": "DuckDB", "spark": "Spark"}.get(name, name)
