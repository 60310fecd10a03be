"""Which engine answers, and which of them reads what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from whence import Run
from whence.errors import NotPortable, SparkMissing
from whence.plan.hidden import RESULTS
from whence.plan.nodes import Node, sources

MakeRun = Callable[..., Run]


@dataclass
class Recording:
    """An engine that notes which sources it was asked for, and refuses some."""

    inner: Any
    name: str
    refused: frozenset[str] = frozenset()
    asked: list[frozenset[str]] = field(default_factory=list)

    def run(self, plan: Node) -> Any:
        return self._noted(frozenset(sources(plan))) or self.inner.run(plan)

    def fetch(self, name: str, ids: list[int], columns: list[str] | None = None) -> Any:
        return self._noted(frozenset({name})) or self.inner.fetch(name, ids, columns)

    def _noted(self, names: frozenset[str]) -> None:
        if names & self.refused:
            raise NotPortable("not portable: a test says so")
        self.asked.append(names)


@pytest.fixture
def engines(make_run: MakeRun) -> tuple[Run, Recording, Recording]:
    """A run whose source DuckDB cannot read, and both engines; the oracle stands behind them."""
    run = make_run()
    made = run._seen[0][1]._made
    duck = Recording(made["duckdb"], "duckdb", frozenset({"trips"}))
    spark = Recording(made["duckdb"], "spark")
    made.update(duckdb=duck, spark=spark)
    return run, duck, spark


def test_spark_answers_what_is_not_portable_and_reads_no_results(engines: tuple[Run, Recording, Recording]) -> None:
    run, duck, spark = engines
    answer = run.back("car = 17")
    assert (answer.engine, answer.exactness, len(answer)) == ("spark", "exact", 2)
    assert spark.asked and all(RESULTS not in asked for asked in spark.asked)
    assert all("trips" not in asked for asked in duck.asked)
    assert answer.table("trips").num_rows == 2


def test_an_engine_that_was_asked_for_answers_alone(engines: tuple[Run, Recording, Recording]) -> None:
    run, duck, spark = engines
    row = run.rows("car = 17").one()
    before = len(duck.asked)
    assert run.back(row, engine="spark").engine == "spark"
    assert any(RESULTS in asked for asked in spark.asked) and len(duck.asked) == before
    with pytest.raises(NotPortable, match="a test says so"):
        run.back(row, engine="duckdb")


def test_without_spark_it_says_what_would_need_it(
    engines: tuple[Run, Recording, Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _, _ = engines
    kept = run._seen[0][1]
    del kept._made["spark"]

    def missing(self: object, name: str) -> Any:
        raise SparkMissing("this needs Spark, and PySpark is not installed", hint="pip install 'whence[spark]'")

    monkeypatch.setattr(type(kept), "_make", missing)
    with pytest.raises(SparkMissing, match=r"DuckDB cannot answer this \(not portable[\s\S]*whence\[spark\]"):
        run.back("car = 17")
