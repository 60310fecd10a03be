"""The demo on screen: its progress on stderr, live on a terminal; what it found on stdout; commands to try next.

What is shown, and whether it is right, `demo` knows.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import click

from whence.cli.output import Output, space
from whence.demo.tour import Command, Scene, tour

# Where stderr is no terminal, the progress of one step is said again after so many seconds.
AGAIN = 10
INDENT = "   "
WIDEST = 100


class Progress:
    """What is being done now, on stderr: one line that changes on a terminal, else a line now and then."""

    __slots__ = ("_begin", "_ended", "_live", "_lock", "_said", "_silent", "_step", "_text")

    def __init__(self, *, silent: bool) -> None:
        self._begin = time.monotonic()
        self._live = sys.stderr.isatty() and not silent
        self._silent = silent
        self._text = self._step = ""
        self._said = 0.0
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if self._live:
            # Starting Spark takes seconds in which nothing else moves.
            threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self.clear()

    def tell(self, text: str) -> None:
        """Say what is being done; the part before a colon names the step."""
        if self._live:
            with self._lock:
                self._text = text
                self._draw()
            return
        step, now = text.partition(":")[0], time.monotonic() - self._begin
        if not self._silent and (step != self._step or now - self._said >= AGAIN):
            click.echo(self._line(text), err=True)
            self._step, self._said = step, now

    def clear(self) -> None:
        """Take the live line away, so that something else can be written."""
        if self._live:
            with self._lock:
                self._text = ""
                self._draw()

    def _tick(self) -> None:
        while not self._ended.wait(1):
            with self._lock:
                if self._text:
                    self._draw()

    def _draw(self) -> None:
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r\x1b[K" + (self._line(self._text)[:width] if self._text else ""))
        sys.stderr.flush()

    def _line(self, text: str) -> str:
        return f"[{time.monotonic() - self._begin:3.0f} s] {text}"


def show_demo(folder: Path, output: Output) -> bool:
    """Show the tour; whether all its checks hold."""
    begin = time.monotonic()
    held = broken = scenes = 0
    commands = []
    with Progress(silent=output.json) as progress:
        for item in tour(folder, progress.tell):
            progress.clear()
            if isinstance(item, Command):
                commands.append(item)
                continue
            scenes += 1
            held += sum(check.holds for check in item.checks)
            broken += sum(not check.holds for check in item.checks)
            _show_scene(scenes, item, output)
    seconds = time.monotonic() - begin
    verdict = f"all {held} checks hold" if not broken else f"{broken} of {held + broken} checks do not hold"
    output.say(f"{verdict}; {seconds:.0f} s in all", held=held, broken=broken, seconds=round(seconds, 3))
    if not output.json:
        _show_commands(commands, output)
    return broken == 0


def _show_scene(number: int, scene: Scene, output: Output) -> None:
    if output.json:
        for check in scene.checks:
            found = "" if check.holds else check.found
            output.record(scene=scene.title, check=check.statement, holds=check.holds, found=found)
        return
    bold = sys.stdout.isatty()
    title = f"{number}  {scene.title}"
    output.write(click.style(title, bold=True) if bold else title)
    output.write(_wrapped(scene.words, INDENT))
    if scene.rows:
        output.write("")
        output.table(scene.columns, scene.rows, indent=INDENT)
        output.write("")
    for check in scene.checks:
        mark = "ok" if check.holds else "WRONG"
        output.write(_wrapped(f"{mark}: {check.statement}" + ("" if check.holds else f", but: {check.found}"), INDENT))
    output.write("")


def _show_commands(commands: list[Command], output: Output) -> None:
    program = program_name()
    output.write("Try next; none of these starts Spark:")
    for command in commands:
        output.write("")
        output.write(f"{INDENT}# {command.shows}")
        output.write(f"{INDENT}{program} {' '.join(map(_quoted, command.arguments))}")


def program_name() -> str:
    """How the user calls whence from where they stand: by its name where that finds it, else by its path."""
    given = Path(sys.argv[0])
    found = shutil.which(given.name)
    if given.name == "whence" and found is not None and Path(found).resolve() == given.resolve():
        return "whence"
    return shlex.quote(sys.argv[0])


def _quoted(argument: str) -> str:
    """As in a shell; with double quotes where that will do, as conditions have single ones."""
    if shlex.quote(argument) == argument:
        return argument
    return shlex.quote(argument) if any(symbol in argument for symbol in '"$`\\!') else f'"{argument}"'


def _wrapped(text: str, indent: str) -> str:
    width = min(space() or WIDEST, WIDEST)
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent)
