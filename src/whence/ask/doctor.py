"""Doctor: is what whence needs installed, and is a run still what it was? What `whence doctor` shows.

It looks and changes nothing: it imports libraries, finds Java without starting Spark, and compares files with what a
run recorded of them. It starts no session and reads no rows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from whence.ask.run import Run
from whence.errors import BrokenRun, JavaMissing, SourceChanged, SparkMissing, WhenceError

# Name, what to install where it is missing. DuckDB and pyarrow come with whence itself.
LIBRARIES = (("duckdb", "pip install --force-reinstall duckdb"), ("pyarrow", "pip install --force-reinstall pyarrow"))
OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what was found, whether it is well, and what to do where it is not."""

    name: str
    well: bool
    found: str
    hint: str = ""


def examine_machine() -> Iterator[Finding]:
    """What whence needs on this machine, one after the other."""
    yield _python()
    for name, hint in LIBRARIES:
        yield _library(name, hint)
    spark = _spark()
    yield spark
    yield _java(spark.well)


def examine_run(run: Run) -> Iterator[Finding]:
    """Whether a run can be asked: its state, its sources and results as they were, and the engine it needs."""
    stored = run.stored
    state = run.state
    if state == "half-written":
        yield Finding("run", False, "half-written: no results were committed", "write it again with overwrite=True")
    else:
        epochs = f", {len(stored.epochs)} epochs" if stored.manifest.kind == "stream" else ""
        yield Finding("run", True, f"{stored.manifest.kind}, {state}{epochs}")
    for name in run.sources:
        count = len(stored.source_files(name))
        try:
            stored.check_source(name)
        except (SourceChanged, BrokenRun) as problem:
            yield Finding(f"source {name}", False, problem.detail, problem.hint)
        else:
            yield Finding(f"source {name}", True, f"{_files(count)}, as the run read {'it' if count == 1 else 'them'}")
    if stored.epochs or stored.manifest.kind == "stream":
        try:
            stored.check_results()
        except BrokenRun as problem:
            yield Finding("results", False, problem.detail, problem.hint)
        else:
            count = len(stored.result_files())
            yield Finding("results", True, f"{_files(count)}, as the run wrote {'it' if count == 1 else 'them'}")
    yield _engine(run)


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _python() -> Finding:
    found = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}, {sys.executable}"
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return Finding("Python", True, found)
    return Finding("Python", False, found, "install Python 3.11 or newer")


def _library(name: str, hint: str) -> Finding:
    try:
        import_module(name)
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, True, "of unknown version")
    except ImportError as missing:
        return Finding(name, False, str(missing), hint)


def _spark() -> Finding:
    from whence.spark.session import spark_version

    try:
        spark_version()
    except SparkMissing as missing:
        return Finding("PySpark", False, f"{missing.statement} ({missing.detail})", missing.hint)
    address = os.environ.get("SPARK_REMOTE")
    if address or os.environ.get("SPARK_API_MODE", "").lower() == "connect":
        said = f"SPARK_REMOTE is {address}" if address else "SPARK_API_MODE is connect"
        return Finding("PySpark", False, f"{said}, and whence needs a classic session", "unset it")
    # Loaded by the call above; its metadata may be missing where SPARK_HOME brings it.
    return Finding("PySpark", True, str(sys.modules["pyspark"].__version__))


def _java(spark_is_well: bool) -> Finding:
    from whence.spark import java
    from whence.spark.session import spark_version

    try:
        runtime = java.find(spark=spark_version()) if spark_is_well else java.find()
    except JavaMissing as missing:
        return Finding("Java", False, missing.detail, missing.hint)
    return Finding("Java", True, f"{runtime.version}, {runtime.program}")


def _engine(run: Run) -> Finding:
    try:
        explanation = run.explain()
    except WhenceError as problem:
        return Finding("plan", False, f"{problem.statement} ({problem.detail})", problem.hint)
    if run.capture == "eager" or explanation.portable:
        return Finding("plan", True, "portable: DuckDB answers, no Spark needed")
    opaque = run.stored.manifest.plan.opaque
    if opaque:
        said = f"no later process can recompute {', '.join(opaque)}: only the one that ran the query can be asked"
        return Finding("plan", False, said, 'trace it again with capture="eager"')
    return Finding("plan", True, f"questions need Spark ({explanation.engine_reason})")
