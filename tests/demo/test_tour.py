"""The demo: all its checks hold and notice what is wrong, its run answers later, and only its own run is replaced."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

import whence
from tests.cli.moment import WHENCE, in_a_moment
from whence.cli import cli, guide
from whence.demo import tour as module
from whence.demo.tour import RUN, Check, Command, Scene, make_way, tour
from whence.demo.traffic import Traffic, write_traffic
from whence.errors import RunExists
from whence.store import resume

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = Traffic(cars=200, minutes=12, minutes_per_file=3)


@pytest.fixture(scope="module")
def stood(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the user stands."""
    folder = tmp_path_factory.mktemp("user")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def shown(spark: SparkSession, stood: Path) -> Result:
    """What `whence demo` shows, over less traffic than usual; the module's one Spark run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guide, "tour", partial(tour, traffic=SMALL))
        patch.setattr(sys, "argv", [str(WHENCE)])
        patch.setenv("COLUMNS", "80")
        result = CliRunner().invoke(cli, ["demo"], prog_name="whence")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_all_checks_hold(shown: Result) -> None:
    lines = shown.stdout.splitlines()
    assert shown.exit_code == 0, shown.output
    titles = [line for line in lines if line[:1].isdigit()]
    assert [title.split()[1].strip(":") for title in titles] == ["A", "Back", "All", "Forward", "Replay"]
    assert sum(line.startswith("   ok: ") for line in lines) == 7
    assert "WRONG" not in shown.stdout
    # Commands to copy stay on one line.
    assert max(len(line) for line in lines if str(WHENCE) not in line) <= 80


def test_progress_is_talk(shown: Result) -> None:
    said = shown.stderr.splitlines()
    assert [line.partition("] ")[2] for line in said[:2]] == ["writing 4,800 reports of 200 cars", "starting Spark"]
    assert any("streaming: " in line and "of 4 files read" in line for line in said)
    assert said[-1].startswith("all 7 checks hold; ")
    assert "\x1b" not in shown.output


def test_the_commands_at_the_end_work_as_they_stand_there(shown: Result, stood: Path) -> None:
    commands = [line.strip() for line in shown.stdout.splitlines() if line.strip().startswith(str(WHENCE))]
    assert len(commands) == 6
    for command in commands:
        said = subprocess.run(command, shell=True, cwd=stood, capture_output=True, text=True, timeout=60)
        assert said.returncode == 0, f"{command}\n{said.stderr}"
        assert said.stdout, command


def test_its_run_answers_in_a_new_process_in_a_moment(shown: Result, stood: Path) -> None:
    path = Path("demo") / RUN
    planted = write_traffic(stood / "again", SMALL)
    rows = [json.loads(line) for line in in_a_moment("rows", path, "--json", cwd=stood).stdout.splitlines()]
    assert sorted(row["row"]["car"] for row in rows) == sorted(alert.car for alert in planted.stream)
    edges = in_a_moment("back", path, "--edges", "--json", cwd=stood).stdout.splitlines()
    assert len(edges) == 4 * len(rows)


def test_json_gives_an_object_a_check(shown: Result, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scenes = [
        Scene("A", "words", checks=(Check("holds", True), Check("does not", False, "this"))),
        Command(("a",), "b"),
    ]
    monkeypatch.setattr(guide, "tour", lambda folder, tell: iter(scenes))
    result = CliRunner().invoke(cli, ["demo", "--folder", str(tmp_path), "--json"])
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"scene": "A", "check": "holds", "holds": True, "found": ""},
        {"scene": "A", "check": "does not", "holds": False, "found": "this"},
    ]
    assert json.loads(result.stderr)["broken"] == 1
    assert result.exit_code == 1


def test_a_run_that_is_not_as_planted_is_noticed(
    shown: Result, stood: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run of before, judged by what other traffic would have led to: every check of what was planted fails."""
    shutil.copytree(stood / "demo", tmp_path / "demo")
    monkeypatch.setattr(module, "make_way", lambda path, reports: None)
    monkeypatch.setattr(module, "_stream", lambda *_: 1.0)
    honest = write_traffic(stood / "again", SMALL)

    def told(planted: object) -> list[bool]:
        monkeypatch.setattr(module, "_planted", lambda folder, traffic: planted)
        scenes = [item for item in tour(tmp_path / "demo", lambda text: None, SMALL) if isinstance(item, Scene)]
        return [check.holds for scene in scenes for check in scene.checks]

    assert told(honest) == [True] * 7
    first, *others = honest.stream
    assert told(replace(honest, stream=tuple(others)))[0] is False
    earlier = tuple(at - timedelta(seconds=30) for at in first.reports)
    moved = tuple(replace(alert, reports=earlier) for alert in honest.stream)
    # The alerts are right and exact, and replay; where they came from is not as planted.
    assert told(replace(honest, stream=moved)) == [True, False, True, False, True, False, True]
    dropped = frozenset((first.car, at) for at in first.reports)
    assert told(replace(honest, late=dropped)) == [True, True, True, True, False, True, True]
    assert told(replace(honest, stream=())) == [False]


def test_what_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scene = Scene("A", "words", checks=(Check("it holds", False, "it does not"),))
    monkeypatch.setattr(guide, "tour", lambda folder, tell: iter([scene]))
    result = CliRunner().invoke(cli, ["demo", "--folder", str(tmp_path)])
    assert result.exit_code == 1
    assert "WRONG: it holds, but: it does not" in result.stdout
    assert "1 of 1 checks do not hold" in result.stderr


class TestMakeWay:
    """What the demo replaces. Each test has a copy of the run that it made."""

    @pytest.fixture
    def made(self, shown: Result, stood: Path, tmp_path: Path) -> Path:
        # Copied to where another user stands; there, too, the reports are those that the run read.
        shutil.copytree(stood / "demo" / RUN, tmp_path / RUN)
        (tmp_path / "mine.txt").write_text("mine")
        (tmp_path / RUN.parent / "other").mkdir()
        return tmp_path / RUN

    def test_its_own_run_goes_and_nothing_else(self, made: Path, stood: Path) -> None:
        make_way(made, stood / "demo" / "reports")
        assert not made.exists()
        assert sorted(p.name for p in made.parent.iterdir()) == ["other"]
        assert (made.parents[1] / "mine.txt").read_text() == "mine"
        make_way(made, stood / "demo" / "reports")

    def test_a_run_over_other_data_stays(self, made: Path, stood: Path) -> None:
        with pytest.raises(RunExists, match="will not replace[\\s\\S]*a run of something else"):
            make_way(made, stood / "demo" / "repo")
        assert whence.open(made).rows()

    def test_what_is_no_run_stays(self, made: Path, stood: Path) -> None:
        shutil.rmtree(made)
        made.mkdir()
        (made / "notes.txt").write_text("mine")
        with pytest.raises(RunExists, match="it is no run"):
            make_way(made, stood / "demo" / "reports")
        assert (made / "notes.txt").read_text() == "mine"

    def test_a_damaged_run_stays(self, made: Path, stood: Path) -> None:
        (made / "manifest.json").unlink()
        with pytest.raises(RunExists, match="it holds a damaged run"):
            make_way(made, stood / "demo" / "reports")
        assert (made / "epochs").is_dir()

    def test_a_run_that_is_being_written_stays(self, made: Path, stood: Path) -> None:
        with resume(made), pytest.raises(RunExists, match="another demo is writing"):
            make_way(made, stood / "demo" / "reports")
        assert whence.open(made).rows()


def test_files_that_are_not_the_demos_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "mine.parquet").write_bytes(b"")
    with pytest.raises(RunExists, match="files that it did not write[\\s\\S]*mine.parquet"):
        next(iter(tour(tmp_path, lambda text: None, Traffic(cars=10, minutes=6))))
    assert (tmp_path / "reports" / "mine.parquet").exists()


def test_on_a_terminal_progress_is_one_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    said = Terminal()
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setenv("COLUMNS", "40")
    with guide.Progress(silent=False) as progress:
        progress.tell("starting " + "Spark " * 20)
        # It ticks on by itself while nothing is told.
        until = time.monotonic() + 20
        while said.getvalue().count("starting") < 2 and time.monotonic() < until:
            time.sleep(0.05)
    lines = said.getvalue().split("\r\x1b[K")
    assert all(re.match(r"\[ *\d+ s\] starting Spark", line) for line in lines[1:3])
    assert max(map(len, lines)) == 39
    assert (lines[0], lines[-1]) == ("", "") and "\n" not in said.getvalue()


def test_the_program_is_called_as_the_user_called_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "a folder" / "whence"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert guide.program_name() == f"'{program}'"
    monkeypatch.setenv("PATH", str(program.parent))
    assert guide.program_name() == "whence"
    monkeypatch.setattr(sys, "argv", [".venv/bin/whence"])
    assert guide.program_name() == ".venv/bin/whence"
