"""docs/cli.md and --help name every command and option, and nothing that is not there; the examples run."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Ask, Cars
from whence.cli import cli

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def undocumented(group: click.Group, page: str) -> list[str]:
    """What a page does not say of the commands of a group, and what it says too much."""
    found = re.split(r"^## ", page, flags=re.MULTILINE)
    sections = {part.splitlines()[0].removeprefix("whence "): part for part in found if part.startswith("whence ")}
    wrong = [f"no command {name}" for name in sections.keys() - group.commands.keys()]
    for name, command in group.commands.items():
        section = sections.get(name)
        if section is None:
            wrong.append(f"no section on {name}")
            continue
        there = {option for p in command.params for option in p.opts if option.startswith("--")}
        named = set(OPTION.findall(section))
        wrong += [f"{name}: {option} is not documented" for option in sorted(there - named)]
        elsewhere = {option for c in group.commands.values() for p in c.params for option in p.opts}
        wrong += [f"{name}: there is no {option}" for option in sorted(named - there - elsewhere)]
        examples = [line for line in section.splitlines() if line.startswith(f"whence {name}")]
        if not examples:
            wrong.append(f"{name}: no example")
    return sorted(wrong)


def test_the_page_names_every_command_and_option() -> None:
    assert undocumented(cli, PAGE.read_text(encoding="utf-8")) == []


def test_what_is_missing_is_found() -> None:
    @click.group()
    def group() -> None: ...

    @group.command()
    @click.option("--far", is_flag=True)
    @click.option("--near", is_flag=True)
    def look(far: bool, near: bool) -> None: ...

    @group.command()
    def jump() -> None: ...

    page = "# x\n## whence look\n```\nwhence look --far\n```\n`--up`\n## whence sit\n"
    assert undocumented(group, page) == [
        "look: --near is not documented",
        "look: there is no --up",
        "no command sit",
        "no section on jump",
    ]


@pytest.mark.parametrize("name", cli.commands)
def test_help_says_what_how_and_for_example(ask: Ask, name: str) -> None:
    said = ask(name, "--help")
    command = cli.commands[name]
    assert said.code == 0
    assert said.out[0].startswith(f"Usage: whence {name}")
    assert f"Example: whence {name}" in " ".join(said.out)
    assert command.short_help in "\n".join(ask("--help").out)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts}"
            assert parameter.opts[0] in "\n".join(said.out)
    assert any(option == "--json" for p in command.params for option in p.opts)


def test_without_a_command_help_is_shown_and_the_code_is_2(ask: Ask) -> None:
    said = ask()
    assert said.code == 2
    assert said.err[0].startswith("Usage: whence")


def test_the_examples_run(ask: Ask, cars: Cars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the page and of --help, as they stand there, on a run where the page has one."""
    shutil.copytree(cars.lazy, tmp_path / "demo" / "runs" / "stopped-cars")
    monkeypatch.chdir(tmp_path)
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("whence ")]
    lines += [str(command.epilog).removeprefix("Example: ") for command in cli.commands.values()]
    tried = 0
    for line in lines:
        arguments = shlex.split(line)[1:]
        if arguments[0] != "demo":
            said = ask(*arguments)
            # 1 is an honest none: car 17 of this traffic did not break down.
            assert said.code in (0, 1), f"{line}: {said}"
            assert said.code == 0 or "car = 17" in line, f"{line}: {said}"
            tried += 1
    assert tried > 15
