"""The code in README and docs runs, as it stands there, in the order it stands there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    return [text for found, text in FENCED.findall(page.read_text(encoding="utf-8")) if found == language]


def needs_spark(page: Path) -> bool:
    return any("spark" in block for block in blocks(page, "python"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the README's reader stands: road traffic lies in data/reports."""
    from whence.demo.traffic import Traffic, write_traffic

    made = tmp_path_factory.mktemp("reader")
    write_traffic(made / "data" / "reports", Traffic(cars=60, minutes=10))
    return made


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python") and not needs_spark(p)], ids=lambda p: p.name)
def test_a_page_without_spark(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    _run(page, {})


@pytest.mark.parametrize("page", [p for p in PAGES if needs_spark(p)], ids=lambda p: p.name)
def test_a_page_with_spark(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    monkeypatch.chdir(folder)
    # Java stands where it was started, whatever folder Python goes to.
    _run(page, {"spark": spark}, data=folder)
    if page.name == "README.md":
        _run_commands(page)


def _run(page: Path, names: dict[str, Any], data: Path | None = None) -> None:
    for number, block in enumerate(blocks(page, "python"), 1):
        if data is not None:
            block = block.replace('"data/', f'"{data}/data/')
        exec(compile(block, f"{page.name} block {number}", "exec"), names)


def _run_commands(page: Path) -> None:
    from whence.cli import cli

    commands = [line for block in blocks(page, "") for line in block.splitlines() if line.startswith("whence ")]
    assert len(commands) > 5
    for command in commands:
        result = CliRunner().invoke(cli, shlex.split(command, comments=True)[1:])
        # 1 is an honest "none": car 17 of this traffic may not have broken down.
        assert result.exit_code in (0, 1), f"{command}\n{result.output}\n{result.stderr}"
        assert result.stderr or result.stdout, command


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
