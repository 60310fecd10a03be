"""The import arrows of whence's rooms, and a checker that reads source files without importing them.

The table is the one of the design: who may know whom. A room that is not in it fails the check, so that a new one
is a decision. What a module does at run time is not looked at.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = "whence"
BELOW_ASK = frozenset({"plan", "semantics", "lineage", "workflow", "store", "optimize", "duck", "spark"})

MAY_IMPORT: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "plan": frozenset(),
    "semantics": frozenset({"plan"}),
    "lineage": frozenset({"plan"}),
    "workflow": frozenset({"plan"}),
    "store": frozenset({"plan"}),
    "optimize": frozenset({"plan", "workflow"}),
    "spark": frozenset({"plan", "lineage", "store"}),
    "duck": frozenset({"plan", "lineage", "store"}),
    "ask": BELOW_ASK,
    "prov": frozenset({"plan", "store", "ask", "spark"}),
    "web": frozenset({"ask", "prov", "workflow", "optimize", ROOT}),
    "cli": frozenset({"ask", "prov", "workflow", "optimize", "web", "demo", ROOT}),
    # The demo generates its traffic on Spark, then is a user like any other.
    "demo": frozenset({"ask", "spark", ROOT}),
    # For users' own tests: it brings the judge and the judged together, which no other room may.
    "testing": BELOW_ASK | {"ask", "prov", ROOT},
    # The package itself (__init__.py): the public names, wherever they live.
    ROOT: BELOW_ASK | {"ask", "prov"},
}

# Looking at a run starts no session: these may reach the rooms that need Spark only when a question does.
SPARK_LATE = frozenset({"ask", "demo", "cli", "web", "testing", ROOT})

LIBRARIES: dict[str, frozenset[str]] = {
    "pyspark": frozenset({"spark", "prov"}),
    "py4j": frozenset({"spark", "prov"}),
    "duckdb": frozenset({"duck", "store", "prov"}),
}


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, absolute; `late` inside a function, `typing` where only a type checker reads it."""

    module: str
    line: int
    late: bool
    typing: bool


def imports(source: str, package: str) -> Iterator[Import]:
    """Every import in a module of `package` (the dotted package that holds the file), at any depth."""
    yield from _walk(ast.parse(source), package.split("."), late=False, typing=False)


def _walk(node: ast.AST, package: list[str], *, late: bool, typing: bool) -> Iterator[Import]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield Import(alias.name, node.lineno, late, typing)
        case ast.ImportFrom(module=module, names=names, level=level):
            above = package[: len(package) - level + 1] if level else []
            base = ".".join([*above, *([module] if module else [])])
            for alias in names:
                # `from whence import plan` names a room, `from whence.plan import Node` something in it.
                yield Import(f"{base}.{alias.name}" if base == ROOT else base, node.lineno, late, typing)
        case ast.Call(args=[ast.Constant(value=str(name)), *_]) if _called(node) in ("import_module", "__import__"):
            yield Import(name, node.lineno, late, typing)
    for child in ast.iter_child_nodes(node):
        inside = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        checked = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and child in node.body
        yield from _walk(child, package, late=inside, typing=typing or checked)


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def room_of(file: Path, package: Path) -> str:
    """The room a file of the package belongs to; the package itself for its __init__.py."""
    first = file.relative_to(package).parts[0]
    name = first.removesuffix(".py")
    return ROOT if name in ("__init__", "__main__") else name


def wrong_arrows(package: Path) -> list[str]:
    """Each import in the package at `package` that the table forbids, as `file:line: what is wrong`."""
    rooms = {room_of(file, package) for file in package.rglob("*.py")}
    wrong = []
    for file in sorted(package.rglob("*.py")):
        room = room_of(file, package)
        where = file.relative_to(package.parent)
        if room not in MAY_IMPORT:
            wrong.append(f"{where}:1: no arrows are drawn for room {room}: add it to MAY_IMPORT and ARCHITECTURE.md")
            continue
        inside = ".".join([ROOT, *file.relative_to(package).parts[:-1]])
        try:
            all_imports = list(imports(file.read_text(encoding="utf-8"), inside))
        except SyntaxError as broken:
            wrong.append(f"{where}:{broken.lineno}: does not parse: {broken.msg}")
            continue
        for found in all_imports:
            said = _complaint(room, found, rooms)
            if said:
                wrong.append(f"{where}:{found.line}: {said}")
    return wrong


def _complaint(room: str, found: Import, rooms: set[str]) -> str:
    top, _, rest = found.module.partition(".")
    if top in LIBRARIES:
        # A public signature may name a DataFrame: read by type checkers, it loads nothing.
        return "" if room in LIBRARIES[top] or found.typing else f"{room} may not import {top}"
    if top != ROOT:
        return ""
    name = rest.partition(".")[0]
    # `from whence import trace`: a public name, not a room.
    target = name if name in rooms - {ROOT} else ROOT
    if target in (room, "errors"):
        return ""
    if target not in MAY_IMPORT[room]:
        return f"{room} may not import {target if target != ROOT else 'the package itself'}"
    if target == "spark" and room in SPARK_LATE and not (found.late or found.typing):
        return f"{room} may import spark only inside a function"
    return ""
