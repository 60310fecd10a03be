"""Generated road traffic after Linear Road, and GeneaLog's first query over it: cars that broke down.

Every car reports its speed and position every 30 seconds. What the generator plants it also returns, so that results
can be checked against it: cars that break down (four reports or more with speed 0 at one position), cars that stop
briefly, cars that creep through a jam (speed 0, but not at one position), and stopped cars' reports that arrive too
late for some or all of their windows. All of it follows from the `Traffic` value alone, its seed included.

The files are written with pyarrow, without Spark; only `broken_down_cars` is given a Spark DataFrame. This is not the
Linear Road benchmark: no lanes, tolls or queries of drivers.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

BEGIN = datetime(2026, 1, 1, 8, tzinfo=UTC)
# GeneaLog's query, in seconds; SPARK_SCHEMA and `broken_down_cars` say the same to Spark.
REPORT_EVERY = 30
WINDOW = 120
SLIDE = 30
WATERMARK_DELAY = 30

SCHEMA = pa.schema(
    [("at", pa.timestamp("us", "UTC")), ("car", pa.int32()), ("speed", pa.float64()), ("pos", pa.int32())]
)
SPARK_SCHEMA = "at TIMESTAMP, car INT, speed DOUBLE, pos INT"

# What DuckDB writes too: small enough that a reader with a range of times skips most of a file.
_ROW_GROUP = 122_880
_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """How much traffic to make. One in `breakdown_every` cars breaks down, and so on; 0 is never.

    A file holds what arrived in `minutes_per_file` minutes, so there are `minutes / minutes_per_file` of them, and as
    many epochs where a stream reads a file an epoch.
    """

    cars: int = 400
    minutes: int = 30
    minutes_per_file: int = 1
    breakdown_every: int = 20
    stop_every: int = 4
    creep_every: int = 50
    late_every: int = 25
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("cars", "minutes", "minutes_per_file"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    @property
    def rows(self) -> int:
        return self.cars * self.minutes * 60 // REPORT_EVERY


@dataclass(frozen=True, slots=True, order=True)
class Alert:
    """A result that the query must give: a car, a window by its start, and the times of its reports in it."""

    car: int
    start: datetime
    pos: int
    reports: tuple[datetime, ...]

    @property
    def end(self) -> datetime:
        return self.start + timedelta(seconds=WINDOW)


@dataclass(frozen=True, slots=True)
class Planted:
    """What was written, and what must come of it: `stream` reading a file an epoch, `batch` reading all at once.

    `late` are the reports (car, time) that the stream drops from every window they fall into.
    """

    traffic: Traffic
    files: tuple[Path, ...]
    rows: int
    broken: frozenset[int]
    batch: tuple[Alert, ...]
    stream: tuple[Alert, ...]
    late: frozenset[tuple[int, datetime]]


def write_traffic(folder: str | Path, traffic: Traffic = Traffic()) -> Planted:
    """Write the traffic as Parquet files into a folder, in order of arrival, and say what it must lead to.

    The same traffic gives the same files, with the same modification times: writing it again changes nothing. No
    breakdown lasts into the final five minutes, so that its last window still closes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     planted = write_traffic(folder, Traffic(cars=40, minutes=15))
    >>> planted.rows, len(planted.files), planted.broken >= {alert.car for alert in planted.stream}
    (1200, 15, True)
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    drawn = _draw(traffic)
    files, stops = [], []
    for number, reports in enumerate(_files(traffic, drawn)):
        file = target / f"minute-{number * traffic.minutes_per_file:05}.parquet"
        pq.write_table(_table(reports), file, row_group_size=_ROW_GROUP)
        # Spark takes files up in the order of their modification times; those of one second are in no order.
        arrived = BEGIN + timedelta(minutes=(number + 1) * traffic.minutes_per_file)
        os.utime(file, (arrived.timestamp(), arrived.timestamp()))
        files.append(file)
        stops.append(_stops(reports))
    return Planted(
        traffic,
        tuple(files),
        traffic.rows,
        frozenset(int(car) for car in drawn.cars[drawn.kind == _BREAKDOWN]),
        _expected([[stop for file_stops in stops for stop in file_stops]], late=False)[0],
        *_expected(stops, late=True),
    )


def broken_down_cars(reports: "DataFrame") -> "DataFrame":
    """GeneaLog's first query: a car that reported speed 0 four times within two minutes, at one position.

    Works on a batch and on a stream; a batch has no watermark. It is text, as only `spark/` may import PySpark.
    """
    stopped = reports.where("speed = 0").withWatermark("at", f"{WATERMARK_DELAY} seconds")
    return reports.sparkSession.sql(
        f"""
        SELECT window, car, count(*) AS n, min(pos) AS lo, max(pos) AS hi
        FROM {{stopped}}
        GROUP BY window(at, '{WINDOW} seconds', '{SLIDE} seconds'), car
        HAVING n = 4 AND lo = hi
        """,
        stopped=stopped,
    )


_DRIVES, _BREAKDOWN, _STOP, _CREEP = range(4)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What chance decided, an entry a car: where it begins, how fast it is, and from which to which report it stops."""

    cars: "NDArray[np.int64]"
    phase: "NDArray[np.int64]"
    begin: "NDArray[np.int64]"
    speed: "NDArray[np.int64]"
    kind: "NDArray[np.int64]"
    first: "NDArray[np.int64]"
    last: "NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class _Reports:
    """Reports in order of arrival; times in microseconds since `BEGIN`."""

    at: "NDArray[np.int64]"
    car: "NDArray[np.int64]"
    speed: "NDArray[np.int64]"
    pos: "NDArray[np.int64]"
    arrival: "NDArray[np.int64]"


def _draw(traffic: Traffic) -> _Drawn:
    import numpy as np

    draw = np.random.default_rng(traffic.seed)
    count = traffic.cars
    reports = traffic.minutes * 60 // REPORT_EVERY
    kind = np.full(count, _DRIVES)
    for chosen, every in (
        (_STOP, traffic.stop_every),
        (_CREEP, traffic.creep_every),
        (_BREAKDOWN, traffic.breakdown_every),
    ):
        if every:
            kind[draw.permutation(count)[: max(count // every, 1)]] = chosen
    length = np.select(
        [kind == _BREAKDOWN, kind == _STOP, kind == _CREEP],
        [draw.integers(4, 10, count), draw.integers(1, 4, count), draw.integers(4, 10, count)],
        0,
    )
    # The last five minutes have only brief stops, which move the watermark on until every earlier window is closed.
    latest = np.where(kind == _STOP, reports, reports - 5 * 60 // REPORT_EVERY) - length
    first = 1 + (draw.random(count) * np.maximum(latest, 1)).astype(np.int64)
    return _Drawn(
        np.arange(1, count + 1),
        draw.integers(0, REPORT_EVERY, count),
        draw.integers(0, 100_000, count),
        draw.integers(20, 40, count),
        kind,
        first,
        first + length,
    )


def _files(traffic: Traffic, drawn: _Drawn) -> Iterator[_Reports]:
    """The reports of one file after the other. What arrives after the end of all comes with the last file."""
    import numpy as np

    draw = np.random.default_rng([traffic.seed, 1])
    count = -(-traffic.minutes // traffic.minutes_per_file)
    waiting: list[_Reports] = []
    for number in range(count):
        from_minute = number * traffic.minutes_per_file
        to_minute = min(from_minute + traffic.minutes_per_file, traffic.minutes)
        made = _made(traffic, drawn, draw, from_minute, to_minute)
        end = to_minute * 60 * _MICROSECONDS if number < count - 1 else np.iinfo(np.int64).max
        both = _together([*waiting, made])
        here = both.arrival < end
        waiting = [_chosen(both, ~here)]
        arrived = _chosen(both, here)
        yield _chosen(arrived, np.lexsort((arrived.car, arrived.arrival)))


def _made(traffic: Traffic, drawn: _Drawn, draw: "np.random.Generator", from_minute: int, to_minute: int) -> _Reports:
    """The reports that cars send in some minutes, with the time each arrives."""
    import numpy as np

    per_minute = 60 // REPORT_EVERY
    index = np.arange(from_minute * per_minute, to_minute * per_minute)[:, None]
    stopped = (index >= drawn.first) & (index < drawn.last)
    # How many reports long a car has been standing (or creeping) before this one.
    lost = np.clip(index - drawn.first, 0, drawn.last - drawn.first)
    crept = np.where(drawn.kind == _CREEP, lost, 0)
    pos = drawn.begin + drawn.speed * (index - lost) * REPORT_EVERY + 3 * crept
    at = (index * REPORT_EVERY + drawn.phase) * _MICROSECONDS
    size = at.shape
    # One report in ten takes up to 20 seconds, less than the watermark's delay: out of order, never late.
    delay = np.where(draw.random(size) < 0.1, draw.integers(0, 20 * _MICROSECONDS, size), 0)
    if traffic.late_every:
        # Of a stopped car one report in so many takes from one to ten minutes: too late for some windows, or for all.
        late = stopped & (draw.random(size) < 1 / traffic.late_every)
        delay = np.where(late, draw.integers(60, 600, size) * _MICROSECONDS, delay)
    return _Reports(
        at.ravel(),
        np.broadcast_to(drawn.cars, size).ravel(),
        np.where(stopped, 0, drawn.speed).ravel(),
        pos.ravel(),
        (at + delay).ravel(),
    )


def _together(parts: list[_Reports]) -> _Reports:
    import numpy as np

    return _Reports(
        np.concatenate([part.at for part in parts]),
        np.concatenate([part.car for part in parts]),
        np.concatenate([part.speed for part in parts]),
        np.concatenate([part.pos for part in parts]),
        np.concatenate([part.arrival for part in parts]),
    )


def _chosen(reports: _Reports, which: "NDArray[np.bool_] | NDArray[np.int64]") -> _Reports:
    return _Reports(
        reports.at[which], reports.car[which], reports.speed[which], reports.pos[which], reports.arrival[which]
    )


def _table(reports: _Reports) -> pa.Table:
    columns = (reports.at + round(BEGIN.timestamp()) * _MICROSECONDS, reports.car, reports.speed, reports.pos)
    return pa.table([pa.array(column).cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


# (second, car, position) of a report with speed 0.
_Stop = tuple[int, int, int]


def _stops(reports: _Reports) -> list[_Stop]:
    standing = _chosen(reports, reports.speed == 0)
    seconds = standing.at // _MICROSECONDS
    return list(zip(seconds.tolist(), standing.car.tolist(), standing.pos.tolist(), strict=True))


def _expected(
    epochs: Iterable[list[_Stop]], *, late: bool
) -> tuple[tuple[Alert, ...], frozenset[tuple[int, datetime]]]:
    """What the query gives over these epochs, by its definition; and the reports that no window took.

    Where rows can be `late`, an epoch drops from a window what comes when the watermark of the epoch before had
    reached the window's end. A watermark is what all earlier epochs saw at most, less the delay.
    """
    windows: dict[tuple[int, int], list[_Stop]] = defaultdict(list)
    dropped: set[tuple[int, datetime]] = set()
    bound = watermark = newest = -WINDOW
    for stops in epochs:
        bound, watermark = watermark, max(watermark, newest - WATERMARK_DELAY)
        for stop in stops:
            last = stop[0] // SLIDE * SLIDE
            taken = [start for start in range(last, last - WINDOW, -SLIDE) if not late or start + WINDOW > bound]
            for start in taken:
                windows[stop[1], start].append(stop)
            if not taken:
                dropped.add((stop[1], _time(stop[0])))
        newest = max([newest, *(stop[0] for stop in stops)])
    found = [
        Alert(car, _time(start), stops[0][2], tuple(_time(at) for at, _, _ in sorted(stops)))
        for (car, start), stops in windows.items()
        if len(stops) == 4
        and len({stop[2] for stop in stops}) == 1
        # Once the input ends, Spark runs one more epoch with the watermark of all.
        and (not late or start + WINDOW <= newest - WATERMARK_DELAY)
    ]
    return tuple(sorted(found)), frozenset(dropped)


def _time(seconds: int) -> datetime:
    return BEGIN + timedelta(seconds=seconds)
