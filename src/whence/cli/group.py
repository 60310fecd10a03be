"""How commands begin and end: options that several have, errors, exit codes, broken pipes and Ctrl-C.

What the commands say is in `commands`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from whence.cli.output import Output
from whence.errors import WhenceError

ANSWERED, NONE, REFUSED, INTERRUPTED = 0, 1, 2, 130

F = TypeVar("F", bound=Callable[..., Any])


class Commands(click.Group):
    """A group of commands that return their exit code, and end as whence's module says."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order in which a newcomer meets them."""
        return list(self.commands)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and leave with its exit code."""
        given = list(sys.argv[1:] if args is None else args)
        output = Output("--json" in given)
        try:
            code = super().main(given, prog_name, complete_var, standalone_mode=False, **extra)
        except (WhenceError, click.ClickException) as refused:
            output.refuse(refused)
            code = REFUSED
        except click.Abort:
            code = INTERRUPTED
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for; a reader that has seen enough ends it quietly."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            # What is still in the buffer would complain once more when the process ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ANSWERED


def as_json(command: F) -> F:
    """The option `--json`."""
    return click.option("--json", "json", is_flag=True, help="One JSON object a line, on stderr too.")(command)


def with_engine(command: F) -> F:
    """The option `--engine`."""
    return click.option(
        "--engine",
        type=click.Choice(["duckdb", "spark"]),
        help="Who answers; by default the fastest that can.",
    )(command)


def with_rows(what: str) -> Callable[[F], F]:
    """The options that choose result rows: `--where` and `--row`."""

    def add(command: F) -> F:
        where = click.option("--where", metavar="SQL", help=f"{what}, by a condition on the columns of the results.")
        row = click.option("--row", "ids", metavar="ID", type=int, multiple=True, help=f"{what}, by the row's id.")
        return where(row(command))

    return add


def one_way(where: str | None, ids: Sequence[int]) -> None:
    """Refuse rows that are chosen in two ways."""
    if where is not None and ids:
        raise click.UsageError("choose rows with --where or with --row, not with both")
