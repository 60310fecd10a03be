"""The installed command as a process of its own, and how long it took from its start."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

WHENCE = Path(sys.executable).with_name("whence")
ENOUGH = 1.5
TRIES = 4


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command, run to its end."""
    return subprocess.run([str(WHENCE), *map(str, arguments)], capture_output=True, text=True, timeout=60, cwd=cwd)


def in_a_moment(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command that must end with an answer in a moment.

    Other work on the machine is not whence's: the best of some tries counts, and where there is more to do than cores,
    a process gets its share of them only.
    """
    taken = []
    for _ in range(TRIES):
        share = min(1.0, (os.cpu_count() or 1) / max(os.getloadavg()[0], 1.0))
        begin, used = time.perf_counter(), _used()
        said = run(*arguments, cwd=cwd)
        taken.append((time.perf_counter() - begin) * share)
        assert said.returncode == 0, said.stderr
        assert _used() - used < ENOUGH
        if taken[-1] < ENOUGH:
            return said
    raise AssertionError(f"{arguments} took {taken} s")


def _used() -> float:
    """Seconds of all cores that the processes started here have used."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime
