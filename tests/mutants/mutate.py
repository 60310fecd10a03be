"""Deliberate faults: a piece of one module's text, what it is replaced by, and the law that must notice.

``catches`` imports the fault's package anew with the changed text, imports the file of the law anew over it, runs the
law on a fixed set of generated cases (``pool``), and puts everything back. Nothing on disk is touched. A fault
whose text is no longer there, or there more than once, is an error, not a pass: change it with the code.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import hypothesis
from hypothesis import Phase

from tests.mutants.pool import hold

ROOT = Path(__file__).parents[2]

# A fault must make the code wrong, not break it: these say that it does not even run.
BROKEN = (NameError, AttributeError, TypeError, SyntaxError, ImportError)

ABOVE = (
    "whence.ask",
    "whence.spark",
    "whence.duck",
    "whence.prov",
    "tests.goldens",
    "tests.lineage",
    "tests.semantics",
)
"""Who else imports the rooms that have faults."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """``law`` is a test, as ``tests/lineage/test_laws.py::test_name``, perhaps with a parameter in brackets.

    ``slow`` leaves the fault to `make test-all`.
    """

    name: str
    module: str
    old: str
    new: str
    law: str
    slow: bool = False

    @property
    def file(self) -> Path:
        return ROOT / "src" / Path(*self.module.split(".")).with_suffix(".py")

    @property
    def package(self) -> str:
        """The room the module is in: all of it is imported anew, so that no part keeps the old text."""
        return ".".join(self.module.split(".")[:2])


class StaleMutant(AssertionError):
    """The text that a fault changes is not there exactly once."""


def changed_text(mutant: Mutant) -> str:
    """The module's text with the fault in it."""
    text = mutant.file.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise StaleMutant(
            f"{mutant.name}: {mutant.old!r} is {text.count(mutant.old)} times in {mutant.module}, not once"
        )
    if mutant.old == mutant.new:
        raise StaleMutant(f"{mutant.name} changes nothing")
    return text.replace(mutant.old, mutant.new)


class _Changed(MetaPathFinder, Loader):
    """Loads one module from a changed text."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.text = changed_text(mutant)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != self.mutant.module:
            return None
        return importlib.util.spec_from_loader(name, self, origin=str(self.mutant.file))

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.text, f"{self.mutant.file} [{self.mutant.name}]", "exec"), module.__dict__)


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """With the fault in the modules that are imported inside."""
    finder = _Changed(mutant)

    def anew() -> dict[str, ModuleType]:
        """The modules that may hold the text: the room, the rooms above it, and helpers of tests."""
        roots = (mutant.package, *ABOVE)
        return {n: m for n, m in sys.modules.items() if any(n == r or n.startswith(r + ".") for r in roots)}

    taken = anew()
    parent, _, child = mutant.package.rpartition(".")
    bound = getattr(importlib.import_module(parent), child, None)
    for name in taken:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module(mutant.module)
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in anew():
            del sys.modules[name]
        sys.modules.update(taken)
        if bound is not None:
            setattr(sys.modules[parent], child, bound)


def run_law(law: str) -> None:
    """Run a law once; no shrinking, the first failure is enough.

    A law over plans runs on the chosen cases, another on as many generated ones as in `make test`.
    """
    path, _, name = law.partition("::")
    name, _, parameter = name.rstrip("]").partition("[")
    spec = importlib.util.spec_from_file_location("mutated_" + Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    law_function = getattr(module, name)
    given = _parameters(law_function, parameter)
    if "cases()" in inspect.getsource(module) and hasattr(law_function, "hypothesis"):
        hold(law_function)
        return
    if hasattr(law_function, "hypothesis"):
        chosen = hypothesis.settings(
            max_examples=60, derandomize=True, deadline=None, database=None, phases=(Phase.explicit, Phase.generate)
        )
        law_function = chosen(law_function)
    law_function(**given)


def _parameters(function: object, wanted: str) -> dict[str, object]:
    """The arguments that pytest would give for the id in the brackets."""
    if not wanted:
        return {}
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "parametrize":
            ids = list(mark.kwargs["ids"])
            return {mark.args[0]: list(mark.args[1])[ids.index(wanted)]}
    raise StaleMutant(f"{function} has no case {wanted!r}")


def catches(mutant: Mutant) -> Exception | None:
    """What the law says about the fault; None where it notices nothing."""
    with applied(mutant):
        try:
            run_law(mutant.law)
        except BROKEN as broken:
            raise StaleMutant(f"{mutant.name} breaks the code: {broken!r}") from broken
        except Exception as caught:
            return caught
    return None
