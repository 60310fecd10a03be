"""Which input rows made a result row, and which results an input row made: exact row-level lineage for Spark.

    import whence

    run = whence.trace(df).write("runs/orders")     # a batch; a stream: .start(path)
    run = whence.open("runs/orders")                # later, in any process, no Spark needed to look
    answer = run.back(run.rows("car = 17").one())

The names here are all there is to import; each loads its room when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from whence.errors import WhenceError

if TYPE_CHECKING:
    from whence.ask import Answer, Explanation, Replay, Row, Rows, Run, Trace, open, trace

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Explanation",
    "Replay",
    "Row",
    "Rows",
    "Run",
    "Trace",
    "WhenceError",
    "__version__",
    "open",
    "trace",
]


def __getattr__(name: str) -> object:
    # `whence --help` and errors must not wait for Arrow and DuckDB.
    if name in __all__:
        return getattr(import_module("whence.ask"), name)
    raise AttributeError(f"module 'whence' has no attribute {name!r}")
