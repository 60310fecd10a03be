"""Runs, explain and doctor on the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import whence
from tests.cli.conftest import Ask, Cars
from whence.errors import JavaMissing, SparkMissing
from whence.spark import java, session
from whence.store import resume
from whence.testing.runs import write_run

FROZEN = Path(__file__).parents[1] / "store" / "frozen" / "format-1"


class TestRuns:
    def test_people_get_paths_that_other_commands_take(
        self, ask: Ask, cars: Cars, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(cars.folder.parent)
        said = ask("runs", "runs")
        count = str(len(cars.planted.batch))
        assert [line.split() for line in said.out if "/" in line] == [
            ["runs/eager", "batch", "complete", "eager", count, "1", "2026-01-01", "08:00:00"],
            ["runs/lazy", "batch", "complete", "lazy", count, "1", "2026-01-01", "08:00:00"],
        ]
        assert (said.code, said.err) == (0, [])
        assert ask("explain", "runs/lazy").code == 0
        assert [line.split()[0] for line in ask("runs").out if "/" in line] == ["runs/eager", "runs/lazy"]

    def test_programs_get_an_object_a_run(self, ask: Ask, cars: Cars) -> None:
        found = ask("runs", cars.folder, "--json").data
        assert found[1] == {
            "path": str(cars.lazy),
            "kind": "batch",
            "state": "complete",
            "capture": "lazy",
            "rows": len(cars.planted.batch),
            "epochs": 1,
            "created": "2026-01-01T08:00:00+00:00",
            "sources": ["reports"],
            "problem": None,
        }

    def test_broken_ones_are_listed_with_their_problem(self, ask: Ask, tmp_path: Path) -> None:
        shutil.copytree(FROZEN, tmp_path / "runs")
        (tmp_path / "runs" / "stream-pinned" / "epochs" / "000001.json").unlink()
        (tmp_path / "runs" / "batch-landed" / "manifest.json").write_text('{"whence": "9", "format": 99}')
        said = ask("runs", tmp_path / "runs")
        assert said.code == 0
        text = "\n".join(said.out)
        assert "half-written" in text
        broken = said.out[next(i for i, line in enumerate(said.out) if line.startswith("broken run")) + 2 :]
        assert ["batch-landed" in broken[0], "stream-pinned" in broken[1], len(broken)] == [True, True, 2]
        problems = {Path(f["path"]).name: f["problem"] for f in ask("runs", tmp_path / "runs", "--json").data}
        assert problems["batch-half-written"] is None
        assert problems["stream-pinned"]["kind"] == "BrokenRun"
        assert problems["batch-landed"]["kind"] == "NewerFormat"

    def test_none_is_1_and_no_folder_is_2(self, ask: Ask, tmp_path: Path) -> None:
        assert ask("runs", tmp_path).code == 1
        assert ask("runs", tmp_path / "nothing").code == 2
        assert ask("runs", tmp_path, "--json").out == []


class TestExplain:
    def test_people(self, ask: Ask, cars: Cars) -> None:
        said = ask("explain", cars.lazy)
        assert said.code == 0
        assert said.out[:3] == [
            "capture    lazy: written by hand",
            "questions  DuckDB answers, without Spark",
            "lazy       adds nothing",
        ]
        assert said.out[3].startswith("eager      adds about ")
        steps = [line.split()[:2] for line in said.out[7:]]
        assert steps == [
            ["reports", "source"],
            ["stopped", "filter"],
            ["windows", "window"],
            ["counted", "group"],
            ["alerts", "filter"],
        ]
        assert "stored ids" in ask("explain", cars.eager).out[1]

    def test_programs(self, ask: Ask, cars: Cars) -> None:
        (found,) = ask("explain", cars.lazy, "--json").data
        assert set(found) == {"run", "capture", "reason", "portable", "engine_reason", "costs", "steps", "plan"}
        assert (found["capture"], found["portable"]) == ("lazy", True)
        assert found["costs"][0] == {"capture": "lazy", "bytes": 0, "measured": True, "why_not": ""}
        assert found["steps"][1] == {"name": "stopped", "kind": "filter", "reach": "0 s", "weakness": ""}
        (eager,) = ask("explain", cars.eager, "--json").data
        assert eager["costs"][1]["measured"] is True
        assert eager["costs"][1]["bytes"] > 0


class TestDoctor:
    def test_this_machine_is_well(self, ask: Ask) -> None:
        said = ask("doctor")
        assert said.code == 0, said
        assert [line.split()[1] for line in said.out] == ["Python", "duckdb", "pyarrow", "PySpark", "Java"]
        assert all(line.startswith("ok ") for line in said.out)
        assert said.err == ["all is well"]

    def test_what_is_missing_is_named_with_the_command_that_brings_it(
        self, ask: Ask, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def no_spark() -> None:
            raise SparkMissing("this needs Spark, and PySpark is not installed", hint="pip install 'whence[spark]'")

        def no_java(*_: object, **__: object) -> None:
            raise JavaMissing("no Java", detail="none is on PATH", hint="pip install 'whence[java]'")

        monkeypatch.setattr(session, "spark_version", no_spark)
        monkeypatch.setattr(java, "find", no_java)
        said = ask("doctor")
        assert said.code == 1
        assert [line.split()[1] for line in said.out if line.startswith("WRONG")] == ["PySpark", "Java"]
        assert "PySpark: pip install 'whence[spark]'" in said.err
        assert "Java: pip install 'whence[java]'" in said.err
        checks = {found["check"]: found for found in ask("doctor", "--json").data}
        assert (checks["Java"]["well"], checks["Java"]["hint"]) == (False, "pip install 'whence[java]'")
        assert checks["Python"]["well"]

    def test_spark_connect_is_found_out(self, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
        said = ask("doctor")
        assert said.code == 1
        assert any("SPARK_REMOTE is sc://localhost" in line for line in said.out)

    def test_a_run_that_is_as_it_was(self, ask: Ask, cars: Cars) -> None:
        said = ask("doctor", cars.lazy)
        assert said.code == 0
        assert [line[7:].split("  ")[0] for line in said.out[5:]] == ["run", "source reports", "results", "plan"]
        assert "portable" in said.out[-1]

    def test_a_run_that_is_not(self, ask: Ask, trips: Path) -> None:
        stored = whence.open(trips).stored
        source = stored.source_files("trips")[1].path
        source.unlink()
        result = stored.result_files()[0].path
        result.write_bytes(b"")
        said = ask("doctor", trips)
        assert said.code == 1
        wrong = [line for line in said.out if line.startswith("WRONG")]
        assert [line[7:20].strip() for line in wrong] == ["source trips", "results"]
        assert str(source) in wrong[0] and str(result) in wrong[1]
        assert said.err[-1] == "2 of 9 checks found something wrong"

    def test_a_damaged_run_is_a_finding(self, ask: Ask, trips: Path) -> None:
        (trips / "manifest.json").write_text('{"whence": "1", "format": 1}')
        said = ask("doctor", trips)
        assert said.code == 1
        assert said.out[-1].startswith("WRONG  run")

    def test_a_live_and_a_half_written_run(self, ask: Ask, tmp_path: Path) -> None:
        shutil.copytree(FROZEN, tmp_path / "frozen")
        with resume(tmp_path / "frozen" / "stream-pinned"):
            said = ask("doctor", tmp_path / "frozen" / "stream-pinned")
            assert any(line.startswith("ok     run") and "stream, running" in line for line in said.out)
        half = ask("doctor", tmp_path / "frozen" / "batch-half-written")
        assert any(line.startswith("WRONG  run") and "half-written" in line for line in half.out)

    def test_what_no_later_process_can_recompute_is_found(self, ask: Ask, tmp_path: Path) -> None:
        from whence.plan.builder import source

        flow = source("trips", id="bigint").opaque("f1", "per_row", doubled="bigint")
        write_run(tmp_path / "opaque", flow.plan, {"trips": ((1,),)}, results=((2,),))
        said = ask("doctor", tmp_path / "opaque")
        assert any(line[7:].startswith("plan") and "Spark" in line for line in said.out)
