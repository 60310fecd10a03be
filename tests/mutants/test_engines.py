"""Deliberate faults in the rooms that need Spark or DuckDB: each is noticed by the tests of its room.

A fault is put into a copy of the package, and the tests that must notice run in a process of their own over the copy.
Text that is no longer there is an error, not a pass: change it with the code.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Fault:
    """A piece of a file's text, what it is replaced by, and the test that must fail."""

    name: str
    file: str
    old: str
    new: str
    test: str


FAULTS = (
    Fault(
        "late rows are judged one epoch too early",
        "spark/stream.py",
        "late = logged.watermark_ms if self._drops_by_own else logged.late_before_ms",
        "late = logged.watermark_ms",
        "tests/spark/test_late_rows.py",
    ),
    Fault(
        "a row id forgets its file",
        "spark/leaf_ids.py",
        "packed = F.shiftleft(F.get(_literal(jvm, table.numbers), slot), 32).bitwiseOR(F.col(_PLACE))",
        "packed = F.shiftleft(F.get(_literal(jvm, table.numbers), slot), 0).bitwiseOR(F.col(_PLACE))",
        "tests/spark/test_batch.py",
    ),
    Fault(
        "null keys are not equal in Spark",
        "spark/lower_expressions.py",
        '"<=>": "EqualNullSafe"',
        '"<=>": "EqualTo"',
        "tests/spark/test_lower.py",
    ),
    Fault(
        "null keys are not equal in DuckDB",
        "duck/functions.py",
        "({0} IS NOT DISTINCT FROM {1})",
        "({0} = {1})",
        "tests/duck/test_against_oracle.py",
    ),
    Fault(
        "an epoch loses its last files",
        "store/checkpoint.py",
        "for entry in range(first + 1, last + 1)",
        "for entry in range(first + 1, last)",
        "tests/store/test_store_checkpoint.py",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_fault_is_noticed(fault: Fault, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src" / "whence", tmp_path / "whence", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "whence" / fault.file
    file.write_text(changed(fault, file.read_text(encoding="utf-8")), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", fault.test]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    # 1 says that tests ran and some failed; a copy that does not even import would be 2.
    assert done.returncode == 1, f"{fault.test} does not notice: {fault.name}\n{done.stdout[-3000:]}"
    assert "AssertionError" in done.stdout or "assert " in done.stdout, done.stdout[-3000:]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_text_of_the_fault_is_there(fault: Fault) -> None:
    changed(fault, (ROOT / "src" / "whence" / fault.file).read_text(encoding="utf-8"))


def changed(fault: Fault, text: str) -> str:
    assert text.count(fault.old) == 1, f"{fault.old!r} is {text.count(fault.old)} times in {fault.file}, not once"
    return text.replace(fault.old, fault.new)
