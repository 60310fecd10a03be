"""Result rows of a run: mappings with an id, read when they are looked at, in the order of the run.

What made them, and what they made, is asked elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whence.errors import UnknownRow
from whence.plan.builder import Flow
from whence.plan.expressions import Column
from whence.plan.hidden import RESULTS, ROW_ID
from whence.plan.nodes import Limit, Node, Order, Sort, Source
from whence.plan.types import BIGINT, Field, Schema

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

# What a person sees of a Rows at a prompt.
SHOWN = 10


class Row(Mapping[str, object]):
    """One result row: its values by column name, and its ``id``, the row's place in the run.

    >>> row = Row(3, {"car": 17, "n": 4})
    >>> row["car"], row.id, dict(row)
    (17, 3, {'car': 17, 'n': 4})
    """

    __slots__ = ("_values", "id")

    def __init__(self, id: int, values: Mapping[str, object]) -> None:
        self.id = id
        self._values = dict(values)

    def __getitem__(self, column: str) -> object:
        try:
            return self._values[column]
        except KeyError:
            raise UnknownRow(
                f"the row has no column {column!r}",
                detail="columns: " + ", ".join(self._values),
                hint="name one of them",
            ) from None

    def __contains__(self, column: object) -> bool:
        return column in self._values

    def get(self, column: str, default: object = None) -> object:
        return self._values.get(column, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and self.id == other.id and self._values == other._values

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self._values.items())
        return f"Row(id={self.id}, {inside})"


def results_source(schema: Schema) -> Source:
    """The results as a source of plans: the user's columns (or others stored beside them) and the row's id."""
    return Source(RESULTS, (*schema, Field(ROW_ID, BIGINT)), step="results")


@dataclass(frozen=True, slots=True)
class Rows:
    """Result rows, all of them or those a predicate holds for; nothing is read before they are looked at.

    Iterate over them, or take ``one()``, ``first()``, ``head(n)``, ``to_arrow()``, ``to_pandas()``. ``plan`` selects
    them and has the id as its last column.
    """

    schema: Schema
    plan: Node
    _run: Callable[[Node], pa.Table]

    def __iter__(self) -> Iterator[Row]:
        return iter(_rows_of(self._table(None)))

    def __len__(self) -> int:
        counted = self._run(Flow(self.plan).group(n="count(*)").plan)
        return int(counted.column(0)[0].as_py())

    def one(self) -> Row:
        """The only row; an error where there is none or more than one."""
        found = self.head(2)
        if len(found) == 1:
            return found[0]
        raise UnknownRow(
            "no such row" if not found else "more than one such row",
            detail="" if not found else f"the first two are {found[0].id} and {found[1].id}",
            hint="look at them with run.rows(where)" if not found else "narrow the predicate, or take .first()",
        )

    def first(self) -> Row:
        """The first row in the order of the run; an error where there is none."""
        for row in self.head(1):
            return row
        raise UnknownRow("no such row", hint="look at the rows there are with run.rows()")

    def head(self, count: int) -> list[Row]:
        """The first rows in the order of the run."""
        return _rows_of(self._table(count))

    def ids(self) -> list[int]:
        """The ids of the rows, in the order of the run."""
        found: list[int] = self._run(_ordered(Flow(self.plan).select(ROW_ID).plan)).column(0).to_pylist()
        return found

    def to_arrow(self, *, ids: bool = False, first: int | None = None) -> pa.Table:
        """The rows, all or the first so many, as an Arrow table with the user's columns; ``ids`` puts the id first."""
        table = self._table(first)
        return table.select([ROW_ID, *table.column_names[:-1]]) if ids else table.drop_columns([ROW_ID])

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame with the user's columns."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def _table(self, count: int | None) -> pa.Table:
        ordered = _ordered(self.plan)
        return self._run(ordered if count is None else Limit(ordered, count))

    def __repr__(self) -> str:
        found = self.head(SHOWN + 1)
        lines = [repr(row) for row in found[:SHOWN]]
        return "\n".join([*lines, "..."] if len(found) > SHOWN else lines) or "no rows"


def _ordered(plan: Node) -> Node:
    return Sort(plan, (Order(Column(ROW_ID)),))


def _rows_of(table: pa.Table) -> list[Row]:
    return [Row(values.pop(ROW_ID), values) for values in table.to_pylist()]
