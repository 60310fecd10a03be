"""Checks of the house style that read files: their size, the public names, and what no tracked file may hold.

Style that a linter knows is ruff's and mypy's work, not repeated here.
"""

import ast
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST = 500

# A docstring line that begins so gives the reason.
REASON = re.compile(r"^over 500 lines: \w+", re.IGNORECASE | re.MULTILINE)

# An address of a package registry or an option that names one; and paths that exist on one machine only. The brackets
# around single letters keep the patterns from matching this file.
FORBIDDEN = {
    "a registry address": re.compile(
        r"pypi\.(?:org|python\.org)|pythonhosted\.org|(?:conda|repo)\.anaconda\.|repo[0-9]?\.maven\.|"
        r"\b(?:arti[f]actory|j[f]rog|dev[p]i)\b|(?<![\w-])--?(?:extra-)?(?:index-url|find-links|trusted-host)\b[ =]"
    ),
    "a machine's path": re.compile(
        r"(?:(?<![\w.:/~-])|(?<=file://))/(?:(?:home|Users)/[a-z]\w*/|root/|work/|mnt/\w+/|opt/wheels)"
    ),
}


def too_long(files: Iterable[Path]) -> list[str]:
    """Python files over the limit whose docstring gives no reason."""
    wrong = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > LONGEST and not REASON.search(ast.get_docstring(ast.parse(text)) or ""):
            wrong.append(f"{file}: {lines} lines; split it, or give the docstring a line `over 500 lines: <reason>`")
    return wrong


def public_names(source: str) -> list[str] | None:
    """The names in a module's literal __all__, or None where it has none."""
    for statement in ast.parse(source).body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
            ):
                return [str(name) for name in ast.literal_eval(value)]
    return None


def holds_forbidden(files: Iterable[Path], root: Path = ROOT) -> list[str]:
    """Places in the files that name a registry or a path of one machine; binary files are searched as they are."""
    wrong = []
    for file in files:
        # Parquet and other kept formats hold paths as plain bytes; this reading never fails on them.
        text = file.read_bytes().decode("latin-1")
        for what, pattern in FORBIDDEN.items():
            for found in pattern.finditer(text):
                line = text.count("\n", 0, found.start()) + 1
                wrong.append(f"{file.relative_to(root)}:{line}: {what}: {found.group().strip()}")
    return wrong


def tracked(root: Path = ROOT) -> list[Path] | None:
    """The files git tracks that are there, or None where there is no git or no clone."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    names = listed.stdout.decode().split("\0")
    return [root / name for name in names if name and (root / name).is_file()]
