"""A run written by hand, answered by the oracle: what is asked is tested here, the engines elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whence import Run
from whence.ask.engines import Engines
from whence.plan.builder import source
from whence.plan.nodes import Node
from whence.store import open_run
from whence.testing.runs import OracleEngine, write_run


def asked_of_the_oracle(path: Path) -> Run:
    """The run at a path, with the oracle in DuckDB's place."""
    run = Run(path)
    stored = open_run(path)
    engines = Engines(stored)
    engines._made["duckdb"] = OracleEngine(stored)
    run._seen.append((stored, engines))
    return run


TRIPS = ((1, 17, 5.0), (2, 17, 7.0), (3, 23, 1.0), (4, None, 2.0), (5, None, None))
"""id, car, length"""


def by_car() -> Node:
    trips = source("trips", id="bigint", car="bigint", length="double")
    return trips.where("id < 5").named("early").group("car", n="count(*)", total="sum(length)").named("by car").plan


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """Writes a run of trips by car, or of another plan over other rows, and opens it."""

    def make(plan: Node | None = None, rows: Any = None, name: str = "run", **options: Any) -> Run:
        write_run(tmp_path / name, plan or by_car(), {"trips": TRIPS} if rows is None else rows, **options)
        return asked_of_the_oracle(tmp_path / name)

    return make
