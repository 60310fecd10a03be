"""Generated queries all the way: a DataFrame on Spark, traced, written, opened, asked; judged by the oracle.

A dozen cases are packed into one query, so that a Spark job judges them all; a pack that fails is taken apart, and the
case that fails alone is made small before it is shown.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import whence
from whence.errors import NotPortable, NotTraceable
from whence.plan.nodes import sources
from whence.plan.text import print_plan
from whence.testing import assert_lineage
from whence.testing.arrow import arrow_table
from whence.testing.packing import pack, shrink
from whence.testing.strategies import EVERYTHING, Menu, PlanCase, cases

PACK = 12
# Each question that Spark answers is some jobs for each source.
SPARK_PACK = 4
PACKS = 40 if os.environ.get("WHENCE_NIGHTLY") == "1" else 1

# A limit or numbered row below which rows tie has no one right answer on Spark; auto then carries ids, which the
# oracle, meeting rows in another order, cannot judge. Spark's own streams and batches are judged on these elsewhere.
SETTLED = replace(EVERYTHING.without("limit", "deduplicate", "analytic"), windows=((20, 20), (30, 10), (40, 20)))

packed = settings(
    max_examples=PACKS,
    # Whoever shrinks a pack runs Spark for each try; `shrink` does it for the one case that fails.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def ask_spark(spark: Any, tmp_path: Path) -> Iterator[Callable[..., whence.Run]]:
    """Runs a case as a user would: its plan as a DataFrame over Parquet files, traced and written."""
    from whence.spark.jvm import Jvm
    from whence.spark.lower import lower

    numbers = itertools.count()

    def ask(case: PlanCase, capture: str) -> whence.Run:
        folder = tmp_path / str(next(numbers))
        tables = {}
        for name, source in sources(case.plan).items():
            (folder / name).mkdir(parents=True)
            rows = case.rows[name]
            half = len(rows) // 2
            for number, part in enumerate((rows[:half], rows[half:])):
                parquet.write_table(arrow_table(source.fields, part), folder / name / f"part-{number}.parquet")
            tables[name] = spark.read.parquet(str(folder / name))
        df = lower(Jvm(spark), case.plan, tables)
        return whence.trace(df, sources=tables, capture=capture).write(folder / "run")

    yield ask
    shutil.rmtree(tmp_path, ignore_errors=True)


def judge(ask: Callable[..., whence.Run], case: PlanCase, capture: str, engine: str | None) -> None:
    run = ask(case, capture)
    assert run.capture == capture
    assert_lineage(run, plan=case.plan, engine=engine)


def judge_all(ask: Callable[..., whence.Run], many: list[PlanCase], capture: str, engine: str | None) -> None:
    """Judge all cases at once; where that fails, show a small case that fails alone."""
    try:
        judge(ask, pack(many), capture, engine)
    except (NotTraceable, NotPortable, AssertionError) as failed:
        wrong = [case for case in many if fails(ask, case, capture, engine)]
        if wrong:
            small = shrink(wrong[0], lambda case: fails(ask, case, capture, engine), tries=25)
            where = f"{capture} on {engine or 'any engine'}"
            raise AssertionError(f"{where}:\n{print_plan(small.plan)}\n{dict(small.rows)}") from failed
        # One of them cannot be asked for this, the others were judged; but no pack may be wrong as a whole.
        assert not isinstance(failed, AssertionError), "\n".join(print_plan(case.plan) for case in many)


def fails(ask: Callable[..., whence.Run], case: PlanCase, capture: str, engine: str | None) -> bool:
    try:
        judge(ask, case, capture, engine)
    except (NotTraceable, NotPortable):
        return False
    except AssertionError:
        return True
    return False


def lists(menu: Menu, size: int = PACK) -> st.SearchStrategy[list[PlanCase]]:
    return st.lists(cases(menu), min_size=size, max_size=size)


@packed
@given(lists(SETTLED))
def test_lazy_runs_answered_by_duckdb(ask_spark: Callable[..., whence.Run], many: list[PlanCase]) -> None:
    judge_all(ask_spark, many, "lazy", "duckdb")


@packed
@given(lists(SETTLED, SPARK_PACK))
def test_lazy_runs_answered_by_spark(ask_spark: Callable[..., whence.Run], many: list[PlanCase]) -> None:
    judge_all(ask_spark, many, "lazy", "spark")


@packed
@given(lists(SETTLED.without("semi", "except", "intersect")))
def test_eager_runs(ask_spark: Callable[..., whence.Run], many: list[PlanCase]) -> None:
    judge_all(ask_spark, many, "eager", None)
