"""From the start of a process to its end: what somebody waits who types `whence back RUN --row 3`.

The run is one that DuckDB can answer. Python doing nothing is the baseline.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.data import scratch, traffic
from bench.measure import Measurement, Sample, Size, in_turns, summary, timed
from bench.runs import write_stream_run
from whence.demo.traffic import Traffic

NAME = "start"
WHAT = "seconds of a process: python, import whence, whence --help, rows and back"

# What the installed command does.
COMMAND = "from whence.cli import main; main()"


def measure(size: Size) -> Iterator[Measurement]:
    """Each command as often as the others, in turns."""
    with scratch() as folder:
        run = folder / "run"
        write_stream_run(run, traffic(Traffic(cars=200, minutes=20)))
        rows = _output("rows", str(run), "--limit", "1", "--json")
        first = json.loads(rows.splitlines()[0])
        cases = {
            "python": _case("-c", "pass"),
            "import whence": _case("-c", "import whence"),
            "whence --help": _whence("--help"),
            "whence rows": _whence("rows", str(run), "--limit", "1"),
            "whence back": _whence("back", str(run), "--row", str(_id(first))),
        }
        found = in_turns(cases, size.pick(15, 1), warm=size.pick(1, 0))
    yield from summary(NAME, found, {"time": "s"}, "python")


def _id(record: dict[str, object]) -> object:
    """The id of a row as `whence rows --json` writes it."""
    return record["id"]


def _whence(*arguments: str) -> Callable[[], Sample]:
    return _case("-c", COMMAND, *arguments)


def _case(*arguments: str) -> Callable[[], Sample]:
    def run() -> Sample:
        sample: dict[str, float] = {}
        with timed(sample):
            _run(arguments)
        return sample

    return run


def _output(*arguments: str) -> str:
    return _run(("-c", COMMAND, *arguments))


def _run(arguments: Sequence[str]) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{Path(sys.executable).name} {' '.join(arguments)} ended with {done.returncode}: {done.stderr}"
        )
    return done.stdout
