"""The commands of a fresh machine: what the locks pin, what `.ci/run` calls, what is said where Python is missing."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-4.0.lock")


def pinned(lock: str) -> dict[str, set[str]]:
    """Package name to the versions a lock pins (several where they depend on the Python)."""
    versions: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", (ROOT / lock).read_text(), re.MULTILINE):
        versions.setdefault(canonicalize_name(name), set()).add(version)
    return versions


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_everything_with_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert not re.search(r"^-", text, re.MULTILINE), "an option stands in the lock"
    entries = re.split(r"\n(?=[A-Za-z0-9])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    assert len(entries) > 20
    for entry in entries:
        assert "==" in entry.splitlines()[0], entry
        assert "--hash=sha256:" in entry, entry


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_all_that_the_project_declares(lock: str) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = declared["project"]
    wanted = [*project["dependencies"], *declared["dependency-groups"]["dev"], *declared["build-system"]["requires"]]
    wanted += [entry for extra in project["optional-dependencies"].values() for entry in extra]
    versions = pinned(lock)
    for entry in wanted:
        requirement = Requirement(entry)
        name = canonicalize_name(requirement.name)
        assert name in versions, f"{lock} lacks {entry}: run `make lock`"
        for version in versions[name]:
            assert requirement.specifier.contains(Version(version)), f"{lock}: {name} {version} is not {entry}"


def test_the_locks_differ_only_in_spark() -> None:
    newest, oldest = (pinned(lock) for lock in LOCKS)
    assert {name for name in newest | oldest if newest.get(name) != oldest.get(name)} == {"pyspark"}
    assert {version.rpartition(".")[0] for version in newest["pyspark"]} == {"4.3"}
    assert {version.rpartition(".")[0] for version in oldest["pyspark"]} == {"4.0"}


def test_the_machine_that_checks_commits_runs_what_a_developer_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    code = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert code == ["set -eu", 'cd "$(dirname "${BASH_SOURCE[0]}")/.."', "exec make test"]
    assert sorted(file.name for file in script.parent.iterdir()) == ["run"]


def test_every_command_of_the_makefile_is_explained() -> None:
    rules = set(re.findall(r"^([a-z][\w.-]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    # Else it says, when make runs this test, which directory it enters.
    command = ["make", "--no-print-directory", "help"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert rules == {line.split()[1] for line in told.splitlines()}
    assert {"install", "demo", "test", "test-all", "lint", "types", "clean"} <= rules


NO_PYTHON = "make: no Python 3.11 to 3.14 on PATH: install one (Debian, Ubuntu: apt install python3 python3-venv)\n"


@pytest.mark.parametrize(
    ("pythons", "expected"),
    [
        ({}, NO_PYTHON),
        # A stand-in answers 1 to every question: it is not new enough.
        ({"python3": "exit 1", "python3.12": "exit 127"}, NO_PYTHON),
        # New enough, but `import ensurepip, venv` fails.
        (
            {"python3": "exit 1", "python3.12": 'case "$2" in *venv*) exit 1 ;; esac'},
            "make: python3.12 comes without venv: install it (Debian, Ubuntu: apt install python3.12-venv)\n",
        ),
    ],
    ids=["none", "too old", "without venv"],
)
def test_a_missing_python_is_said_in_one_line(pythons: dict[str, str], expected: str, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "dirname", "env", "rm"):
        found = shutil.which(name)
        assert found
        (programs / name).symlink_to(found)
    for name, body in pythons.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    project = tmp_path / "project"
    (project / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "environment", project / "tools")
    said = subprocess.run(
        [project / "tools" / "environment", ".venv", "requirements.lock"],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
    )
    assert (said.returncode, said.stdout, said.stderr) == (1, "", expected)
    assert not (project / ".venv").exists()
