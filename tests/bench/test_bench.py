"""Benches run, say what they promise to say, and count as they should. How fast whence is, no test asks."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from bench import __main__ as command
from bench import back_one, capture_batch, capture_stream, materialise, oracle, start
from bench.measure import Measurement, Size, in_turns, summary

ROOT = Path(__file__).parents[2]
SMOKE = Size(smoke=True)
# Differences of two times may come out below nothing.
DIFFERENCES = {"over", "once", "less_once"}


def judged(found: list[Measurement], name: str, baseline: str | None) -> dict[tuple[str, str], Measurement]:
    """The lines by case and metric, once each is what a line must be."""
    assert found
    lines = {(line.case, line.metric): line for line in found}
    assert len(lines) == len(found), "a case has a metric twice"
    for line in found:
        assert line.bench == name
        assert line.pairs >= 1
        assert math.isfinite(line.value)
        assert line.value >= 0 or line.metric in DIFFERENCES, line
        if baseline is not None and line.case == baseline and line.value:
            assert line.ratio == 1, line
    return lines


def test_capture_batch(spark: SparkSession) -> None:
    lines = judged(list(capture_batch.measure(SMOKE)), "capture_batch", "group 10 none")
    for query in ("group", "join+group"):
        for capture in ("none", "lazy", "eager"):
            assert lines[f"{query} 10 {capture}", "time"].ratio is not None
        # Eager stores a bigint a source row, lazy its manifest alone.
        assert lines[f"{query} 10 eager", "added"].value > lines[f"{query} 10 lazy", "added"].value > 0


def test_capture_stream(spark: SparkSession) -> None:
    lines = judged(list(capture_stream.measure(SMOKE)), "capture_stream", "none")
    for metric in ("time", "throughput", "epoch", "state", "peak"):
        assert lines["lazy", metric].ratio is not None
    assert lines["lazy", "state_rows"].value == lines["none", "state_rows"].value > 0
    assert lines["lazy", "epochs"].value == lines["none", "epochs"].value == 1


def test_back_one(spark: SparkSession) -> None:
    lines = judged(list(back_one.measure(SMOKE)), "back_one", "group 10 rerun")
    for capture in ("spark", "duckdb", "eager"):
        assert lines[f"group 10 back {capture}", "edges"].value > 1
        assert lines[f"group 10 forward {capture}", "edges"].value == 1
    assert lines["stream 12,000 back", "edges"].value == 4
    assert lines["stream 12,000 back", "time p99"].value >= lines["stream 12,000 back", "time"].value


def test_materialise(spark: SparkSession) -> None:
    lines = judged(list(materialise.measure(SMOKE)), "materialise", "group 10 run")
    for capture in ("lazy", "eager"):
        assert lines[f"group 10 {capture}", "edges"].value == 2_000
        # A sale and its category, for every sale; DISTINCT makes one edge of a category's many.
        assert lines[f"join+group 10 {capture}", "edges"].value == 2_010


def test_oracle() -> None:
    lines = judged(list(oracle.measure(SMOKE)), "oracle", "evaluate")
    assert {case for case, _ in lines} == {"evaluate", "annotate", "stream"}


def test_start() -> None:
    lines = judged(list(start.measure(SMOKE)), "start", "python")
    assert {case for case, _ in lines} == {"python", "import whence", "whence --help", "whence rows", "whence back"}


def test_each_bench_has_its_test_and_its_place_in_the_docs() -> None:
    docs = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for name in command.BENCHES:
        assert f"test_{name}" in globals()
        assert f"python -m bench {name}" in docs


class TestCommand:
    def test_list(self) -> None:
        done = subprocess.run([sys.executable, "-m", "bench", "list"], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert [line.split()[0] for line in done.stdout.splitlines()] == list(command.BENCHES)

    def test_json_has_a_measurement_a_line(self) -> None:
        done = CliRunner().invoke(command.main, ["oracle", "--smoke", "--json"])
        assert done.exit_code == 0, done.output
        first = json.loads(done.stdout.splitlines()[0])
        assert list(first) == ["bench", "case", "metric", "value", "unit", "ratio", "pairs", "spread"]

    def test_a_table_for_people(self) -> None:
        done = CliRunner().invoke(command.main, ["oracle", "--smoke"])
        assert done.exit_code == 0, done.output
        assert "evaluate" in done.stdout
        assert "rows/s" in done.stdout

    def test_an_unknown_bench_is_refused(self) -> None:
        done = CliRunner().invoke(command.main, ["speed"])
        assert done.exit_code == 2
        assert "capture_batch" in done.output


class TestMeasure:
    def test_turns_alternate_and_warming_does_not_count(self) -> None:
        order: list[str] = []

        def case(name: str) -> dict[str, float]:
            order.append(name)
            return {"time": float(len(order))}

        found = in_turns({"a": lambda: case("a"), "b": lambda: case("b")}, 2)
        assert order == ["a", "b", "a", "b", "b", "a"]
        assert found == {"a": [{"time": 3.0}, {"time": 6.0}], "b": [{"time": 4.0}, {"time": 5.0}]}

    def test_ratios_are_within_rounds(self) -> None:
        # The medians alone would say 20 / 20; round by round each was twice the baseline, or half of it.
        none = [{"s": 10.0}, {"s": 20.0}, {"s": 40.0}]
        lazy = [{"s": 20.0}, {"s": 40.0}, {"s": 20.0}]
        base, found = summary("b", {"none": none, "lazy": lazy}, {"s": "s"}, "none")
        assert (base.value, base.ratio, base.spread) == (20, 1, 0)
        assert (found.value, found.ratio, found.pairs) == (20, 2, 3)
        assert found.spread == pytest.approx(0.75)

    def test_what_the_baseline_lacks_has_no_ratio(self) -> None:
        found = list(
            summary("b", {"none": [{"s": 0.0}], "lazy": [{"s": 1.0, "more": 2.0}]}, {"s": "s", "more": "s"}, "none")
        )
        assert [(line.case, line.metric, line.ratio) for line in found] == [
            ("none", "s", None),
            ("lazy", "s", None),
            ("lazy", "more", None),
        ]

    def test_the_tail(self) -> None:
        rounds = [{"s": float(n)} for n in range(1, 101)]
        middle, tail = summary("b", {"a": rounds}, {"s": "s"}, tail=("s",))
        assert middle.value == 50.5
        assert (tail.metric, tail.value, tail.ratio) == ("s p99", pytest.approx(99.01), None)
