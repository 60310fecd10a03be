"""Runs for the commands to look at, written by hand: road traffic lazy and eager, a join, odd values, a changed one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyarrow import parquet

from whence.cli import cli
from whence.demo.traffic import Planted, Traffic, write_traffic
from whence.plan.builder import Flow, source
from whence.testing.runs import write_run

TRIPS = ((1, 17, 5.0), (2, 17, 7.0), (3, 23, 1.0), (4, None, 2.0), (5, None, None))
"""id, car, length"""


@dataclass(frozen=True, slots=True)
class Said:
    """What a command said: its exit code, the lines of stdout and of stderr."""

    code: int
    out: list[str]
    err: list[str]

    @property
    def data(self) -> list[dict[str, Any]]:
        """The objects on stdout."""
        return [json.loads(line) for line in self.out]

    @property
    def talk(self) -> dict[str, Any]:
        """The one object on stderr."""
        (line,) = self.err
        found: dict[str, Any] = json.loads(line)
        return found


Ask = Callable[..., Said]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Calls a command: `ask("back", run, "--json")`; faults of whence fail the test."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def call(*arguments: object, columns: int | None = None) -> Said:
        with pytest.MonkeyPatch.context() as environment:
            if columns is not None:
                environment.setenv("COLUMNS", str(columns))
            result = CliRunner().invoke(cli, [str(a) for a in arguments], prog_name="whence")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Said(result.exit_code, result.stdout.splitlines(), result.stderr.splitlines())

    return call


def stopped_cars() -> Flow:
    reports = source("reports", at="timestamp", car="int", speed="double", pos="int")
    return (
        reports.where("speed = 0")
        .named("stopped")
        .window("at", "120 seconds", "30 seconds")
        .named("windows")
        .group("window", "car", n="count(*)", lo="min(pos)", hi="max(pos)")
        .named("counted")
        .where("n = 4 and lo = hi")
        .named("alerts")
    )


def by_car() -> Flow:
    trips = source("trips", id="bigint", car="bigint", length="double")
    return trips.where("id < 5").named("early").group("car", n="count(*)", total="sum(length)").named("by car")


@dataclass(frozen=True, slots=True)
class Cars:
    """Runs over the same traffic, and what was planted in it."""

    lazy: Path
    eager: Path
    planted: Planted

    @property
    def folder(self) -> Path:
        return self.lazy.parent


@pytest.fixture(scope="session")
def cars(tmp_path_factory: pytest.TempPathFactory) -> Cars:
    folder = tmp_path_factory.mktemp("cars")
    planted = write_traffic(folder / "reports", Traffic(cars=40, minutes=15))
    rows = [tuple(row.values()) for file in planted.files for row in parquet.read_table(file).to_pylist()]
    runs = folder / "runs"
    write_run(runs / "lazy", stopped_cars().plan, {"reports": rows})
    write_run(runs / "eager", stopped_cars().plan, {"reports": rows}, capture="eager")
    return Cars(runs / "lazy", runs / "eager", planted)


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    write_run(tmp_path / "trips", by_car().plan, {"trips": TRIPS})
    return tmp_path / "trips"


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A run whose first stored result is not what its query gives."""
    results = ((17, 3, 12.0), (23, 1, 1.0), (None, 1, 2.0))
    write_run(tmp_path / "changed", by_car().plan, {"trips": TRIPS}, results=results)
    return tmp_path / "changed"


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """A run over two sources, one of which only decides: trips of cars that are known."""
    trips = source("trips", id="bigint", car="bigint", length="double")
    cars = source("cars", key="bigint", maker="string")
    plan = trips.join(cars, "car = key", kind="semi").plan
    write_run(tmp_path / "known", plan, {"trips": TRIPS, "cars": ((17, "b"), (17, "c"), (99, "d"))})
    return tmp_path / "known"


ODD = (
    (
        1,
        float("nan"),
        Decimal("1234567890.1200"),
        datetime(2026, 1, 1, 8, 0, 0, 5, tzinfo=UTC),
        datetime(1, 1, 1),
        date(9999, 12, 31),
        b"\x00\xff",
        "tab\there \x1b[31mred\x1b[0m\nnext \u202e \u8eca",
        [1, None, 3],
        (True, "x"),
    ),
    (2, float("-inf"), Decimal("-0.0001"), None, None, None, b"", "", [], None),
    (
        3,
        -0.0,
        None,
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        None,
        None,
        None,
        None,
        None,
        (None, None),
    ),
)


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A run with a value of every type, and the odd ones among them."""
    things = source(
        "things",
        id="bigint",
        x="double",
        price="decimal(20,4)",
        at="timestamp",
        local="timestamp_ntz",
        day="date",
        raw="binary",
        text="string",
        list="array<bigint>",
        pair="struct<yes:boolean,name:string>",
    )
    write_run(tmp_path / "odd", things.where("id > 0").plan, {"things": ODD})
    return tmp_path / "odd"
