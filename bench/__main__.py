"""`python -m bench list`, `python -m bench NAME [--smoke] [--json]`: tables for people, JSON lines for programs.

A line says bench, case, metric, value, unit, ratio (to the baseline of the same run), pairs and spread.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table

from bench import back_one, capture_batch, capture_stream, materialise, oracle, start
from bench.measure import Measurement, Size

BENCHES = {module.NAME: module for module in (capture_batch, capture_stream, back_one, materialise, oracle, start)}


@click.command()
@click.argument("name", type=click.Choice(["list", *BENCHES]))
@click.option("--smoke", is_flag=True, help="Tiny data, one round: only to see that the bench works.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def main(name: str, smoke: bool, as_json: bool) -> None:
    """Run the bench NAME, or list them all."""
    if name == "list":
        for bench, module in BENCHES.items():
            click.echo(json.dumps({"bench": bench, "what": module.WHAT}) if as_json else f"{bench:16}{module.WHAT}")
        return
    found = BENCHES[name].measure(Size(smoke))
    if as_json:
        for measurement in found:
            click.echo(json.dumps(asdict(measurement)))
    else:
        show(name, found)


def show(name: str, found: Iterable[Measurement]) -> None:
    """A table of the measurements on stdout."""
    table = Table("case", "metric", "value", "unit", "ratio", "pairs", "spread", title=name)
    for column in table.columns[2:]:
        column.justify = "right"
    for line in found:
        table.add_row(
            line.case,
            line.metric,
            f"{line.value:,.4g}" if abs(line.value) < 1_000 else f"{line.value:,.0f}",
            line.unit,
            "" if line.ratio is None else f"{line.ratio:.3f}",
            str(line.pairs),
            "" if line.spread is None else f"{line.spread:.3f}",
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    main(prog_name="python -m bench")
