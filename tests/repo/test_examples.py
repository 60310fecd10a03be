"""Every example in a docstring of the package runs, module by module; the rooms that need Spark run theirs there."""

import doctest
import importlib
import pkgutil

import pytest

import whence

# Importing these needs PySpark and Java, or their examples a session: tests/spark runs what they have.
NEED_SPARK = ("whence.spark", "whence.prov", "whence.demo")


def modules() -> list[str]:
    found = pkgutil.walk_packages(whence.__path__, "whence.", onerror=lambda name: None)
    return sorted(m.name for m in found if not m.name.startswith(NEED_SPARK) and not m.name.endswith("__main__"))


@pytest.mark.parametrize("name", modules())
def test_examples_run(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ImportError as missing:
        if "pyspark" in str(missing) or "SparkMissing" in type(missing).__name__:
            pytest.skip(f"{name} needs PySpark")
        raise
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_examples_are_found_at_all() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    names = ["whence.plan.types", "whence.plan.builder", "whence.semantics.annotate", "whence.semantics.streams"]
    for name in names:
        tests = finder.find(importlib.import_module(name))
        assert any(t.examples for t in tests), name
    assert set(names) <= set(modules())
