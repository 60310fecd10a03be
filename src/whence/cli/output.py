"""Where a command's words go: data to stdout, talk to stderr; tables and sentences for people, JSON for programs.

With `--json` both streams hold one JSON object a line: stdout the data, stderr what is said about it. A table is cut to
the terminal; where there is none it is as wide as it needs to be.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TextIO

import click

from whence.cli.values import to_json, to_text
from whence.errors import WhenceError

# What a screen holds; programs get everything.
SHOWN = 30
# Widths tried for the columns of a table that does not fit, before columns are left away.
CUTS = (60, 40, 32, 24, 18)
GAP = 2


@dataclass(frozen=True, slots=True)
class Output:
    """What a command says, and how: see the module."""

    json: bool

    def record(self, **entry: object) -> None:
        """One object of data, for programs."""
        sys.stdout.write(_line(sys.stdout, entry))

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "", indent: str = ""
    ) -> None:
        """A table, for people."""
        rendered, left = _fitted(columns, list(rows), title, indent)
        _write(rendered)
        if left:
            self.say(f"no room for {', '.join(left)}: a wider terminal shows more, --json all")

    def write(self, text: str) -> None:
        """A line of data that is no table, for people."""
        _write(text + "\n")

    def say(self, text: str, **facts: object) -> None:
        """A line about the data: a sentence for people, the facts of it for programs."""
        # In one stream (`2>&1`) the talk stands where it belongs.
        sys.stdout.flush()
        if not self.json:
            click.echo(text, err=True)
        elif facts:
            sys.stderr.write(_line(sys.stderr, facts))

    def refuse(self, error: WhenceError | click.ClickException) -> None:
        """An error that whence raised on purpose, or wrong use."""
        sys.stdout.flush()
        if isinstance(error, WhenceError):
            parts = (error.statement, error.detail, error.hint)
        elif isinstance(error, click.UsageError) and error.ctx is not None:
            parts = (error.format_message(), "", f"{error.ctx.command_path} --help")
        else:
            parts = (error.format_message(), "", "")
        if self.json:
            kind = type(error).__name__ if isinstance(error, WhenceError) else "WrongUse"
            said = {"kind": kind, "statement": parts[0], "detail": parts[1], "hint": parts[2]}
            sys.stderr.write(_line(sys.stderr, {"error": said}))
            return
        statement, detail, hint = parts
        click.secho(statement, err=True, fg="red", bold=True)
        for line in (detail, f"hint: {hint}" if hint else ""):
            if line:
                click.echo(line, err=True)


def _fitted(
    columns: Sequence[str], values: Sequence[Sequence[object]], title: str, indent: str
) -> tuple[str, list[str]]:
    """A table as text that fits the terminal, and the names of the columns it had no room for."""
    # Loaded late: `--help` and JSON need no tables.
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = [to_text(name) for name in columns]
    rows = [[to_text(value) for value in row] for row in values]
    needed = [max(map(cell_len, [name, *(row[i] for row in rows)])) for i, name in enumerate(shown)]
    room = space()
    widths = _widths(needed, room - len(indent)) if room else needed
    # Wide enough for whatever was decided above: rich must not decide anew.
    width = max(sum(widths) + 2 * GAP * len(widths), cell_len(title)) + 1
    console = Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False, legacy_windows=False)
    table = Table(
        box=box.SIMPLE_HEAD if console.encoding.startswith("utf") else box.ASCII2,
        # The box itself puts one cell between columns.
        padding=(0, GAP - 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for place, size in enumerate(widths):
        numbers = all(_is_number(row[place]) for row in values)
        table.add_column(
            Text(shown[place], style="bold"),
            width=size,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if numbers and rows else "left",
        )
    for row, texts in zip(values, rows, strict=True):
        cells = (Text(text, style="dim" if value is None else "") for value, text in zip(row, texts, strict=True))
        table.add_row(*list(cells)[: len(widths)])
    with console.capture() as captured:
        if title:
            console.print(Text(title, style="bold"))
        console.print(table)
    lines = captured.get().splitlines()
    return "".join(f"{indent}{line.rstrip()}\n" for line in lines), list(columns[len(widths) :])


def space() -> int:
    """How many cells a line has, or 0 for any number."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    if not sys.stdout.isatty():
        return 0
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        return 80


def _widths(needed: Sequence[int], space: int) -> list[int]:
    """How wide to make the columns, from the first on, as many as there is room for.

    The first is never cut: it has the ids and paths that people pass on.
    """
    first, *others = needed
    for cut in (max(needed), *CUTS):
        widths = [first, *(min(need, cut) for need in others)]
        if sum(widths) + GAP * len(others) <= space:
            return widths
    kept = [first]
    for width in (min(need, CUTS[-1]) for need in others):
        if sum(kept) + width + GAP * len(kept) > space:
            break
        kept.append(width)
    return kept


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))


def _write(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _line(stream: TextIO, entry: object) -> str:
    # Where the terminal has no UTF-8, escapes are still JSON; replacement characters would not be.
    ascii_only = not (stream.encoding or "").lower().startswith("utf")
    return json.dumps(to_json(entry), ensure_ascii=ascii_only, allow_nan=False) + "\n"
