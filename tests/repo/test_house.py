"""The repository keeps to the house style; and each check does find what it is for."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.repo import house


def test_no_file_is_longer_than_its_reason_allows() -> None:
    folders = [house.ROOT / name for name in ("src", "tests", "bench")]
    assert house.too_long(sorted(file for folder in folders for file in folder.rglob("*.py"))) == []


def test_a_long_file_is_found_and_a_reason_is_heard(tmp_path: Path) -> None:
    body = "x = 1\n" * 501
    silent, reasoned, short = (tmp_path / name for name in ("silent.py", "reasoned.py", "short.py"))
    silent.write_text('"""A table."""\n' + body)
    reasoned.write_text('"""A table.\n\nOver 500 lines: one line a function, better found in one place.\n"""\n' + body)
    short.write_text('"""A table."""\n')
    wrong = house.too_long([silent, reasoned, short])
    assert len(wrong) == 1
    assert wrong[0].startswith(f"{silent}: 502 lines")


def test_the_package_has_few_public_names() -> None:
    front = house.ROOT / "src" / "whence" / "__init__.py"
    if not front.exists():
        pytest.skip("the front door is not built yet")
    names = house.public_names(front.read_text(encoding="utf-8"))
    assert names is not None, "src/whence/__init__.py needs a literal __all__"
    assert len(names) == len(set(names))
    assert len(names) <= 15


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('__all__ = ["a", "b"]', ["a", "b"]),
        ('__all__: tuple[str, ...] = ("a",)', ["a"]),
        ("from whence.ask import *", None),
    ],
)
def test_public_names_are_read(source: str, expected: list[str] | None) -> None:
    assert house.public_names(source) == expected


def test_no_tracked_file_names_a_registry_or_a_machine() -> None:
    files = house.tracked()
    if files is None:
        pytest.skip("not a git clone, or no git here")
    assert house.holds_forbidden(files) == []


def test_registries_and_machine_paths_are_found(tmp_path: Path) -> None:
    slash = "/"
    bad = [
        f"https:{slash}{slash}pypi" + ".org/simple",
        "files.python" + "hosted.org",
        "an arti" + "factory",
        "pip install --index" + "-url https://example.test",
        "--find" + "-links wheels",
        f"{slash}home{slash}someone{slash}x",
        f'"{slash}work{slash}main"',
        f"{slash}root{slash}.cache",
        f"file:{slash}{slash}{slash}root{slash}data",
    ]
    good = ["the PyPI package", "~/home/of", f"https://example.test{slash}root{slash}", "docs/work/notes", "--index"]
    for number, line in enumerate([*bad, *good]):
        (tmp_path / f"{number:02}.txt").write_text(f"first\n{line}\n")
    binary = tmp_path / "kept.parquet"
    binary.write_bytes(b"PAR1\xff\xfe\x00" + bad[5].encode() + b"\x00")
    wrong = house.holds_forbidden(sorted(tmp_path.iterdir()), tmp_path)
    assert [found.split(":")[0] for found in wrong] == [f"{n:02}.txt" for n in range(len(bad))] + ["kept.parquet"]


def test_tracked_files_are_those_that_git_knows(tmp_path: Path) -> None:
    assert house.tracked(tmp_path) is None or os.environ.get("GIT_DIR")
    if house.tracked() is None:
        pytest.skip("not a git clone, or no git here")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "known.txt").touch()
    (tmp_path / "unknown.txt").touch()
    subprocess.run(["git", "add", "known.txt"], cwd=tmp_path, check=True)
    assert house.tracked(tmp_path) == [tmp_path / "known.txt"]
