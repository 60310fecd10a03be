"""Tables that plans are evaluated over: rows as tuples, each with an id.

A table has names, not types: a plan's source says what types it expects, and ``read`` checks every
value against them. Files and engines are not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from whence.errors import EvaluationError, UnknownSource
from whence.plan import hidden
from whence.plan.nodes import Source
from whence.semantics.values import Row, Value, freeze


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns and rows. ``ids`` tell rows apart and default to their positions.

    ``late``, where given, says of each row at or before which time its epoch dropped rows as late;
    sources that ask for ``hidden.LATE`` get it.

    >>> Table(("car", "speed"), [(17, 0), (23, 50)]).row_ids
    [0, 1]
    """

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    ids: Sequence[int] | None = None
    late: Sequence[datetime | None] | None = None

    def __post_init__(self) -> None:
        if len(set(self.columns)) < len(self.columns):
            raise _malformed("two columns have one name", f"columns: {', '.join(self.columns)}")
        for position, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise _malformed(
                    f"row {position} has {len(row)} values for {len(self.columns)} columns",
                    f"columns: {', '.join(self.columns)}; row: {row!r}",
                )
        for what, extra in (("ids", self.ids), ("late times", self.late)):
            if extra is not None and len(extra) != len(self.rows):
                raise _malformed(f"{len(extra)} {what} for {len(self.rows)} rows", "one a row is needed")
        if self.ids is not None and len(set(self.ids)) < len(self.ids):
            raise _malformed("two rows have one id", "ids tell rows apart")

    @property
    def row_ids(self) -> list[int]:
        """The id of each row."""
        return list(range(len(self.rows))) if self.ids is None else list(self.ids)


def _malformed(statement: str, detail: str) -> EvaluationError:
    return EvaluationError(
        f"malformed table: {statement}", detail=detail, hint="Table(columns, rows, ids) takes tuples"
    )


def look_up(source: Source, tables: Mapping[str, Table]) -> Table:
    """The table of a source."""
    table = tables.get(source.name)
    if table is None:
        raise UnknownSource(
            f"no table for source {source.name!r}",
            detail="tables given: " + (", ".join(sorted(tables)) or "none"),
            hint="give one table for each source of the plan",
        )
    return table


def read(source: Source, table: Table) -> list[tuple[int, Row]]:
    """The ids and rows of a table as the source names and types them; hidden columns are supplied."""
    ids = table.row_ids
    columns: list[list[Value]] = []
    for field in source.fields:
        given: Sequence[object]
        if field.name in table.columns:
            place = table.columns.index(field.name)
            given = [row[place] for row in table.rows]
        elif field.name == hidden.ROW_ID:
            given = ids
        elif field.name == hidden.LATE and table.late is not None:
            given = table.late
        else:
            raise EvaluationError(
                f"the table of source {source.name!r} has no column {field.name!r}",
                detail="its columns: " + ", ".join(table.columns),
                hint="give the columns the plan's source declares",
            )
        try:
            columns.append([freeze(value, field.type) for value in given])
        except EvaluationError as error:
            raise EvaluationError(
                error.statement,
                detail=f"in column {field.name!r} of source {source.name!r}; {error.detail}",
                hint=error.hint,
            ) from None
    rows = list(zip(*columns, strict=True)) if columns else [()] * len(ids)
    return list(zip(ids, rows, strict=True))
