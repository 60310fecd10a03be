"""The command line: `whence demo | runs | rows | back | forward | replay | explain | doctor`.

Data goes to stdout, talk to stderr. People get tables, programs get `--json`: one object a line. The exit code is 0 for
an answer, 1 for none, 2 for wrong use and for what whence refuses.

Nothing is decided here: every command is a call that users can make from Python. What a command needs is imported
inside it, as `whence --help` must not wait for DuckDB, and looking at a run loads no Spark.
"""

import logging
import sys
import traceback

from whence.cli.commands import cli

__all__ = ["cli", "main"]

# What sysexits calls a fault of the program itself; 1 would read as "no answer".
FAULT = 70


def main() -> None:
    """What the installed `whence` command calls."""
    # Whoever has the error says it. Py4J besides logs each broken call with its trace, as after Ctrl-C.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        cli()
    except Exception:
        # Whatever comes here is a fault of whence.
        traceback.print_exc()
        sys.exit(FAULT)
