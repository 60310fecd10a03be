"""Edges as Arrow tables: parts as the questions find them, put together with each edge once and in order.

All edges of a run may be millions, so no edge is ever a Python object here. What an edge means is said in ``answers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Part:
    """Edges of one source and role: the ids of result rows and, place by place, those of source rows."""

    result: pa.ChunkedArray
    source: str
    source_id: pa.ChunkedArray
    role: str


def part(result: Iterable[object], source: str, source_id: Iterable[object], role: str) -> Part:
    """A part from arrays, or from lists of Python numbers."""
    return Part(_bigints(result), source, _bigints(source_id), role)


def carried_part(result: pa.ChunkedArray, source: str, carried: pa.ChunkedArray, role: str) -> Part:
    """A part from a column of ids, or of lists of ids, beside the results that carry them; null is no id."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ids, results = carried.combine_chunks(), result.combine_chunks()
    if pa.types.is_list(ids.type) or pa.types.is_large_list(ids.type):
        results = results.take(pc.list_parent_indices(ids))
        ids = pc.list_flatten(ids)
    there = ids.is_valid()
    return part(results.filter(there), source, ids.filter(there), role)


def restricted_part(edges: Part, *, results: Sequence[int] | None = None, sources: Sequence[int] | None = None) -> Part:
    """Only the edges of some result rows, or of some source rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for ids, column in ((results, "result"), (sources, "source_id")):
        if ids is not None:
            chosen = pc.is_in(getattr(edges, column), value_set=pa.array(ids, pa.int64()))
            edges = Part(edges.result.filter(chosen), edges.source, edges.source_id.filter(chosen), edges.role)
    return edges


def edge_table(parts: Sequence[Part] = ()) -> pa.Table:
    """All edges (result, source, source_id, role), each once, in the order of these four."""
    import pyarrow as pa

    sources, roles = sorted({p.source for p in parts}), sorted({p.role for p in parts})
    schema = pa.schema([(name, pa.int64()) for name in ("result", "source", "source_id", "role")])
    tables = [
        pa.table(
            {
                "result": p.result,
                "source": _repeated(sources.index(p.source), len(p.result)),
                "source_id": p.source_id,
                "role": _repeated(roles.index(p.role), len(p.result)),
            },
            schema,
        )
        for p in parts
    ]
    # What is the same in all edges need not be compared to put them in order.
    keys = ["result", *(["source"] if len(sources) > 1 else []), "source_id", *(["role"] if len(roles) > 1 else [])]
    found = _each_once(_sorted(pa.concat_tables(tables), keys), keys) if tables else schema.empty_table()
    return pa.table(
        {
            "result": found.column("result"),
            "source": _named(found.column("source"), sources),
            "source_id": found.column("source_id"),
            "role": _named(found.column("role"), roles),
        }
    )


def ids_of(column: pa.ChunkedArray) -> pa.Array:
    """The different ids in a column, in order."""
    import pyarrow.compute as pc

    found = pc.unique(column)
    return found.take(pc.sort_indices(found))


def of_source(edges: pa.Table, source: str) -> pa.Table:
    """The edges of one source."""
    import pyarrow as pa
    import pyarrow.compute as pc

    codes = edges.column("source").combine_chunks()
    places = codes.dictionary.to_pylist()
    if source not in places:
        return edges.slice(0, 0)
    if len(places) == 1:
        return edges
    return edges.filter(pc.equal(codes.indices, pa.scalar(places.index(source), codes.indices.type)))


def _bigints(ids: Iterable[object]) -> pa.ChunkedArray:
    import pyarrow as pa

    if isinstance(ids, pa.ChunkedArray):
        return ids.cast(pa.int64())
    return pa.chunked_array([ids.cast(pa.int64()) if isinstance(ids, pa.Array) else pa.array(ids, pa.int64())])


def _repeated(value: int, count: int) -> pa.Array:
    import pyarrow as pa

    return pa.repeat(pa.scalar(value, pa.int64()), count)


def _sorted(table: pa.Table, keys: list[str]) -> pa.Table:
    return table.sort_by([(key, "ascending") for key in keys])


def _each_once(table: pa.Table, keys: list[str]) -> pa.Table:
    """A sorted table without its repetitions."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if table.num_rows < 2:
        return table
    before, after = table.slice(0, table.num_rows - 1), table.slice(1)
    differs = pc.not_equal(before.column(keys[0]), after.column(keys[0]))
    for key in keys[1:]:
        differs = pc.or_(differs, pc.not_equal(before.column(key), after.column(key)))
    if pc.all(differs).as_py():
        return table
    return table.filter(pa.chunked_array([pa.array([True]), *differs.chunks]))


def _named(codes: pa.ChunkedArray, names: list[str]) -> pa.ChunkedArray:
    """Numbers as the names they stand for; each of these is kept once."""
    import pyarrow as pa

    indices = codes.combine_chunks().cast(pa.int32())
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))])
