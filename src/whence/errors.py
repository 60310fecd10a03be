"""Every error that whence raises on purpose.

Each class derives from `WhenceError`, so that one `except` catches all of them, and from the builtin that a Python
user would expect in its place. A message has up to three parts, a line each: a lower-case statement, the detail,
and a hint that names the next call or command. Lookups derive from `LookupError` and not from `KeyError`, whose
`str()` is the `repr()` of its argument.

This module only says what went wrong; it catches nothing, logs nothing and imports nothing, so every room may use it.
"""


class WhenceError(Exception):
    """Something whence cannot or will not do, said in a statement, a detail and a hint.

    >>> print(UnknownRow("no such row: 17", detail="the run has 12 rows", hint="list them with run.rows()"))
    no such row: 17
    the run has 12 rows
    hint: list them with run.rows()
    """

    def __init__(self, statement: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(statement)
        self.statement = statement
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.statement, self.detail, f"hint: {self.hint}" if self.hint else ""]
        return "\n".join(line for line in lines if line)

    def __reduce__(self) -> tuple[object, tuple[type["WhenceError"], str, str, str]]:
        # Spark and multiprocessing pickle errors across processes; the default would lose the keyword-only parts.
        return _rebuild, (type(self), self.statement, self.detail, self.hint)


def _rebuild(kind: type[WhenceError], statement: str, detail: str, hint: str) -> WhenceError:
    return kind(statement, detail=detail, hint=hint)


class PlanError(WhenceError, ValueError):
    """A plan that means nothing: an unknown column, types that do not fit, a node in the wrong place."""


class ParseError(WhenceError, ValueError):
    """Text that is no plan, no expression or no predicate."""


class EvaluationError(WhenceError, ValueError):
    """A well-formed plan met data it has no value for."""


class UnknownStep(WhenceError, LookupError):
    """A step name that the plan does not have."""


class UnknownSource(WhenceError, LookupError):
    """A source name that the run does not have."""


class UnknownRow(WhenceError, LookupError):
    """A result row that the run does not have."""


class UnknownRun(WhenceError, LookupError):
    """A path at which there is no run."""


class RunExists(WhenceError, FileExistsError):
    """A path at which there is already something; a run is never overwritten unasked."""


class NewerFormat(WhenceError, ValueError):
    """A run that a newer whence wrote."""


class BrokenRun(WhenceError, ValueError):
    """A run that is half-written or damaged."""


class SourceChanged(WhenceError, RuntimeError):
    """A pinned source that is no longer what it was when the run read it."""


class NotTraceable(WhenceError, TypeError):
    """A query, or a part of one, whose lineage whence cannot know."""


class NotPortable(WhenceError, TypeError):
    """A plan or an expression outside the subset that DuckDB and Spark give one meaning."""


class SparkMissing(WhenceError, ImportError):
    """PySpark is not installed, or one that whence does not support."""


class JavaMissing(WhenceError, RuntimeError):
    """No Java runtime that Spark can use."""


class ConnectSession(WhenceError, TypeError):
    """A Spark Connect session or DataFrame, where only a classic one has the plan that whence reads."""
