"""The commands: what each asks and shows. How they begin and end is in `group`, how things look in `output`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from whence import __version__
from whence.cli.group import ANSWERED, NONE, Commands, as_json, one_way, with_engine, with_rows
from whence.cli.output import SHOWN, Output

if TYPE_CHECKING:
    from whence.ask.engines import EngineName
    from whence.ask.run import Run


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="whence %(version)s")
def cli() -> None:
    """Which input rows made this result row, and which results did this input row make?

    Data goes to stdout, talk to stderr. The exit code is 0 for an answer, 1 for none, 2 for wrong use and for what
    whence refuses. Begin with: whence demo
    """


@cli.command(
    short_help="Raise alerts from generated traffic, and ask where one came from.",
    epilog="Example: whence demo --folder demo",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo"),
    show_default=True,
    help="Where to keep the traffic and the run.",
)
@as_json
def demo(folder: Path, json: bool) -> int:
    """Stream generated road traffic, raise alerts, and ask where one of them came from.

    Takes about a minute. What is found is checked against what was planted: the exit code is 0 if all of it holds.
    A second time it replaces its own run, and nothing else.
    """
    from whence.cli.guide import show_demo

    return ANSWERED if show_demo(folder, Output(json)) else NONE


@cli.command(short_help="List the runs in a folder.", epilog="Example: whence runs demo")
@click.argument("folder", default=".")
@as_json
def runs(folder: str, json: bool) -> int:
    """List the runs in FOLDER and the folders in it; those that do not open, with what is wrong."""
    from whence.cli.look import show_runs

    return ANSWERED if show_runs(folder, Output(json)) else NONE


@cli.command(
    short_help="Show the results of a run.",
    epilog='Example: whence rows demo/runs/stopped-cars --where "car = 17" --limit 5',
)
@click.argument("run")
@click.option("--where", metavar="SQL", help="Only rows for which this is true.")
@click.option("--limit", metavar="N", type=click.IntRange(min=0), help=f"At most so many; {SHOWN} in a table.")
@as_json
def rows(run: str, where: str | None, limit: int | None, json: bool) -> int:
    """Show the results of RUN, each with its id first: that is what --row of other commands takes."""
    from whence.cli.questions import show_rows

    return ANSWERED if show_rows(_open(run), where, limit, Output(json)) else NONE


@cli.command(
    short_help="Show the source rows that made results.",
    epilog='Example: whence back demo/runs/stopped-cars --where "car = 17"',
)
@click.argument("run")
@with_rows("Ask about these result rows")
@click.option("--source", "sources", metavar="NAME", multiple=True, help="Only rows of this source.")
@click.option("--edges", is_flag=True, help="Show which result came from which source row, instead of the rows.")
@with_engine
@as_json
def back(
    run: str,
    where: str | None,
    ids: tuple[int, ...],
    sources: tuple[str, ...],
    edges: bool,
    engine: EngineName | None,
    json: bool,
) -> int:
    """Show the source rows that made result rows of RUN: the chosen ones, or all.

    The exit code is 1 also where some of the rows have no answer, because recomputing them gives other values.
    """
    from whence.cli.questions import show_back

    one_way(where, ids)
    asked = where if where is not None else ids or None
    return ANSWERED if show_back(_open(run), asked, sources or None, edges, engine, Output(json)) else NONE


@cli.command(
    short_help="Show the results that source rows made.",
    epilog='Example: whence forward demo/runs/stopped-cars reports --where "car = 17"',
)
@click.argument("run")
@click.argument("source")
@click.option("--where", metavar="SQL", help="Only source rows for which this is true.")
@click.option("--edges", is_flag=True, help="Show which source row went into which result, instead of the rows.")
@with_engine
@as_json
def forward(run: str, source: str, where: str | None, edges: bool, engine: EngineName | None, json: bool) -> int:
    """Show the result rows of RUN that rows of SOURCE made."""
    from whence.cli.questions import show_forward

    return ANSWERED if show_forward(_open(run), source, where, edges, engine, Output(json)) else NONE


@cli.command(
    short_help="Recompute a result from its source rows, and compare.",
    epilog="Example: whence replay demo/runs/stopped-cars --row 4294967296",
)
@click.argument("run")
@with_rows("The result row")
@with_engine
@as_json
def replay(run: str, where: str | None, ids: tuple[int, ...], engine: EngineName | None, json: bool) -> int:
    """Recompute one result row of RUN from the source rows that made it, and compare.

    The exit code is 0 if the row comes out again, 1 if it does not.
    """
    from whence.cli.questions import show_replay

    one_way(where, ids)
    if where is None and len(ids) != 1:
        raise click.UsageError("choose one row, with --where or with --row")
    return ANSWERED if show_replay(_open(run), where, ids, engine, Output(json)) else NONE


@cli.command(
    short_help="Show how a run keeps its lineage, and why so.", epilog="Example: whence explain demo/runs/stopped-cars"
)
@click.argument("run")
@as_json
def explain(run: str, json: bool) -> int:
    """Show how RUN keeps its lineage: the capture and why, what captures cost, who answers, and the steps."""
    from whence.cli.look import show_explanation

    show_explanation(_open(run), Output(json))
    return ANSWERED


@cli.command(short_help="Check this machine, or a run.", epilog="Example: whence doctor demo/runs/stopped-cars")
@click.argument("run", required=False)
@as_json
def doctor(run: str | None, json: bool) -> int:
    """Check what whence needs on this machine, and with RUN whether that run is still what it was.

    Starts no Spark. The exit code is 0 if all is well, 1 if something is wrong.
    """
    from whence.cli.look import show_findings

    return ANSWERED if show_findings(run, Output(json)) else NONE


def _open(path: str) -> Run:
    import whence

    return whence.open(path)
