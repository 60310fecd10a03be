"""Ask: what a run can be asked, and the answers. Spark is loaded only when a question needs it."""

from whence.ask.answers import Answer, Replay
from whence.ask.explain import Explanation
from whence.ask.rows import Row, Rows
from whence.ask.run import Run, open
from whence.ask.tracing import Trace, trace

__all__ = ["Answer", "Explanation", "Replay", "Row", "Rows", "Run", "Trace", "open", "trace"]
