"""The portable subset, aggregates and analytic functions.

As ``functions``: one entry for each that DuckDB computes as Spark does. Here a call has more parts
(distinct, filter, over), so entries say what goes into the call and what is done to its result.
Sums of doubles may round differently from run to run in either engine; answers allow for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whence.duck.functions import ANYTHING, ATOMIC
from whence.plan.types import DataType, DecimalType


@dataclass(frozen=True, slots=True)
class AggregateEntry:
    """How DuckDB writes an aggregate: its function, what becomes of the argument and the result.

    ``argument`` and ``result`` are templates or functions of the argument's type that give one.
    """

    name: str
    takes: tuple[str, ...]
    function: str
    argument: str = "{0}"
    result: str | Callable[[DataType], str] = "{0}"
    note: str = ""

    def write(self, argument: str | None, type: DataType | None, *, distinct: bool, tail: str) -> str:
        """The call as SQL; ``tail`` is its filter and its window."""
        inside = "*" if argument is None else self.argument.format(argument)
        call = f"{self.function}({'DISTINCT ' if distinct else ''}{inside}){tail}"
        if isinstance(self.result, str):
            return self.result.format(call)
        assert type is not None
        return self.result(type).format(call)


def _sum(type: DataType) -> str:
    if isinstance(type, DecimalType):
        return f"CAST({{0}} AS DECIMAL({type.precision + 10},{type.scale}))"
    return "CAST({0} AS BIGINT)"


MOST_SUMMED_DIGITS = 28
"""A sum has ten digits more; above 38 DuckDB would not see the overflow that is an error in Spark."""

AGGREGATES: dict[str, tuple[AggregateEntry, ...]] = {
    "count": (AggregateEntry("count", ANYTHING, "count", note="of rows, or of what is not null"),),
    "sum": (
        AggregateEntry(
            "sum", ("integer", "decimal"), "sum", result=_sum, note="overflow is an error; decimals of up to 28 digits"
        ),
        AggregateEntry("sum", ("float",), "sum", "CAST({0} AS DOUBLE)", note="as doubles, up to rounding"),
    ),
    "avg": (
        AggregateEntry(
            "avg", ("integer", "float"), "avg", "CAST({0} AS DOUBLE)", note="as doubles, up to rounding; no decimals"
        ),
    ),
    "min": (AggregateEntry("min", ATOMIC, "min", note="NaN is the largest"),),
    "max": (AggregateEntry("max", ATOMIC, "max", note="NaN is the largest"),),
    "bool_and": (AggregateEntry("bool_and", ("boolean",), "bool_and"),),
    "bool_or": (AggregateEntry("bool_or", ("boolean",), "bool_or"),),
}
"""Not here: ``collect_list`` and ``collect_set``, whose order DuckDB cannot know."""

ANALYTIC: dict[str, AggregateEntry] = {
    e.name: e
    for e in (
        AggregateEntry("row_number", (), "row_number", result="CAST({0} AS INTEGER)", note="refused where rows tie"),
        AggregateEntry("rank", (), "rank", result="CAST({0} AS INTEGER)"),
        AggregateEntry("dense_rank", (), "dense_rank", result="CAST({0} AS INTEGER)"),
        AggregateEntry("lag", ANYTHING, "lag", note="refused where rows tie"),
        AggregateEntry("lead", ANYTHING, "lead", note="refused where rows tie"),
    )
}

ORDER_SENSITIVE = frozenset({"row_number", "lag", "lead"})
"""Analytic functions whose value for tied rows depends on which of them came first."""
