"""The files of a run as SQL relations, with the hidden columns that questions ask for.

``Files.scan`` writes the SELECT that gives a source's columns, typed as the plan types them, and its
row ids. Columns are looked up by name in each file, as Spark does: one that a file lacks is null
there. Files are named one by one, so nothing that lies beside them is read. Nothing is executed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from whence.duck.casts import cast_sql
from whence.duck.text import duck_type, from_cell, literal, quoted, refusal, string
from whence.plan.hidden import LATE, RESULTS, ROW_ID
from whence.plan.nodes import Source, label
from whence.plan.types import BIGINT, STRING, TIMESTAMP, DataType, Field
from whence.store import LANDED_ID, NumberedFile, StoredRun, partition_values, unpack


class Scan(Protocol):
    """From a source and the SQL names of its fields to a SELECT that gives them.

    With ``ids`` rows of other ids may be left out.
    """

    def __call__(self, source: Source, columns: Sequence[str], ids: Sequence[int] | None = None) -> str: ...


_FILE = "CAST(file_index AS BIGINT)"
_LANDED = "landed"
_GLOB = "*?["


def no_files(source: Source, columns: Sequence[str], ids: Sequence[int] | None = None) -> str:
    """A scan of no rows, for asking whether a plan could be lowered."""
    _check_names(source.name, [f.name for f in source.fields if f.name not in (ROW_ID, LATE)])
    cells = [f"CAST(NULL AS {duck_type(f.type)}) AS {c}" for f, c in zip(source.fields, columns, strict=True)]
    return f"SELECT {', '.join(cells) or 'NULL AS nothing'} WHERE FALSE"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows asked for by id: the numbers of their files, and their places there or their landed ids."""

    numbers: tuple[int, ...] | None
    places: dict[int, list[int]]
    landed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a run, as far as its sources and results are read from them."""

    run: StoredRun

    def scan(self, source: Source, columns: Sequence[str], ids: Sequence[int] | None = None) -> str:
        """The SELECT of a source's fields under the given SQL names, of some rows or all."""
        if ids is None:
            return self._select(source, columns, self.files(source.name))
        return self.scan_rows(source, columns, self.locate(source.name, ids, strict=False))

    def scan_rows(self, source: Source, columns: Sequence[str], rows: Rows) -> str:
        """The same for some rows, so written that DuckDB skips row groups without them."""
        if rows.numbers is None:
            files = self.files(source.name)
            among = f"{_LANDED} IN ({', '.join(map(str, rows.landed)) or 'NULL'})"
            return self._select(source, columns, files, among)
        numbers = set(rows.numbers)
        files = tuple(file for file in self.files(source.name) if file.number in numbers)
        parts = [
            f"file_index = {place} AND file_row_number IN ({', '.join(map(str, rows.places[file.number]))})"
            for place, file in enumerate(files)
        ]
        return self._select(source, columns, files, " OR ".join(f"({part})" for part in parts))

    def files(self, name: str) -> tuple[NumberedFile, ...]:
        """The files of a source or of the results."""
        return self.run.result_files() if name == RESULTS else self.run.source_files(name)

    def check(self, name: str, numbers: Iterable[int] | None = None) -> None:
        """Raise unless the files are what the run pinned."""
        some = None if numbers is None else frozenset(numbers)
        if name == RESULTS:
            self.run.check_results(some)
        else:
            self.run.check_source(name, some)

    def locate(self, name: str, ids: Iterable[int], *, strict: bool = True) -> Rows:
        """Where rows lie; if strict, UnknownRow where that can be told to be nowhere."""
        if self._landed(name):
            return Rows(None, {}, tuple(dict.fromkeys(ids)))
        places: dict[int, list[int]] = {}
        for row_id in dict.fromkeys(ids):
            if not strict and row_id < 0:
                continue
            if strict and name == RESULTS:
                self.run.locate_result(row_id)
            elif strict:
                self.run.locate_source(name, row_id)
            number, row = unpack(row_id)
            places.setdefault(number, []).append(row)
        return Rows(tuple(sorted(places)), places)

    def _landed(self, name: str) -> bool:
        return name != RESULTS and self.run.source(name).id == "column"

    def _select(
        self, source: Source, columns: Sequence[str], files: Sequence[NumberedFile], condition: str = ""
    ) -> str:
        if not files:
            return no_files(source, columns)
        landed = self._landed(source.name)
        partitioned = () if source.name == RESULTS else self.run.source(source.name).partition_columns
        reading = [f for f in source.fields if f.name not in (ROW_ID, LATE, *partitioned)]
        if landed and all(f.name != LANDED_ID for f in reading):
            reading.append(Field(LANDED_ID, BIGINT))
        _check_names(source.name, [f.name for f in reading])
        place = {f.name: _LANDED if f.name == LANDED_ID else f"c{n}" for n, f in enumerate(reading)}
        cells = []
        for field, column in zip(source.fields, columns, strict=True):
            value = place.get(field.name) or self._hidden(source, field, files, landed)
            cells.append(f"{value} AS {column}")
        relation = _read_parquet(files, [(f, place[f.name]) for f in reading])
        where = f" WHERE {condition}" if condition else ""
        return f"SELECT {', '.join(cells) or 'NULL AS nothing'} FROM {relation}{where}"

    def _hidden(self, source: Source, field: Field, files: Sequence[NumberedFile], landed: bool) -> str:
        """A column that is in no file."""
        if field.name == ROW_ID:
            if landed:
                return _LANDED
            # The same as ``store.pack``: the file's number above, the row's place below.
            numbers = [file.number for file in files]
            number = _FILE if numbers == list(range(len(files))) else _per_file(numbers, BIGINT)
            return f"(({number} << 32) | file_row_number)"
        if field.name == LATE:
            late = {} if source.name == RESULTS else self.run.late_before(source.name)
            times = [late.get(file.number) for file in files]
            return from_cell(_per_file([None if t is None else t * 1000 for t in times], BIGINT), TIMESTAMP)
        texts = [partition_values(file.path, (field.name,)).get(field.name) for file in files]
        # The folder's text is read the way a cast does; zones play no part, Spark infers no zoned times from paths.
        return cast_sql(_per_file(texts, STRING), STRING, field.type, label(source), utc=True)


def _per_file(values: Sequence[object], type: DataType) -> str:
    """A value that each file has one of, as SQL."""
    if all(v == values[0] for v in values):
        return literal(values[0], type)
    # A constant list is looked into once a row; a join would come between filters and the scan.
    return f"(CAST([{', '.join(literal(v, type) for v in values)}] AS {duck_type(type)}[])[{_FILE} + 1])"


def _read_parquet(files: Sequence[NumberedFile], columns: Sequence[tuple[Field, str]]) -> str:
    # With a schema no file's footer is read before the scan, and each file's columns are matched by name.
    entries = ", ".join(
        f"{string(f.name)}: {{name: {string(c)}, type: {string(duck_type(f.type))}, default_value: NULL}}"
        for f, c in columns
    )
    schema = f", schema = MAP {{{entries}}}" if columns else ""
    return f"read_parquet([{file_list(files)}], hive_partitioning = false{schema})"


def file_list(files: Sequence[NumberedFile]) -> str:
    """The paths of files as constants."""
    return ", ".join(string(_path(str(file.path))) for file in files)


def _path(path: str) -> str:
    """A path as DuckDB reads it back: it takes some characters for patterns of names."""
    if not any(symbol in path for symbol in _GLOB):
        return path
    if "\\" in path:
        raise refusal(f"DuckDB cannot read a file of the name {path!r}", "it holds a pattern and a backslash")
    return "".join(f"[{symbol}]" if symbol in _GLOB else symbol for symbol in path)


def _check_names(source: str, columns: Sequence[str]) -> None:
    """Refuse names that DuckDB would take for another column of the same file."""
    seen: dict[str, str] = {}
    for column in columns:
        quoted(column)
        other = seen.setdefault(column.lower(), column)
        if other != column:
            raise refusal(
                f"source {source!r} is not portable",
                f"DuckDB cannot tell the columns {other!r} and {column!r} of a file apart",
            )
