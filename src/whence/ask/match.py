"""Match: which derivation of the recomputed plan each stored result row is.

A lazy run stores no edges, so a question first recomputes the rows it is about, with their identities. Stored and
recomputed rows are paired by value: of n equal rows the i-th stored has the i-th identity in canonical order. What has
no partner was made by a query that is not deterministic, or not by these sources, and is reported.

The recomputation is cut down to the asked values first; floats take no part in that, as they may round differently.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from whence.ask.rows import results_source
from whence.ask.values import frozen, frozen_map, in_order, near
from whence.lineage import Fresh, Wanted, identify, restrict, wanted_condition, wanted_values
from whence.plan.expressions import Column, Member, conjunction
from whence.plan.nodes import Filter, Named, Node, Project, names
from whence.plan.types import DOUBLE, FLOAT, ArrayType, DataType, MapType, StructType

if TYPE_CHECKING:
    import pyarrow as pa

    from whence.ask.engines import Engine

Values = tuple[object, ...]
"""The user's columns of one row."""
Identity = tuple[object, ...]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored result row: its id and its values."""

    id: int
    values: Values


@dataclass(frozen=True, slots=True)
class Derivation:
    """A recomputed row: its identity and its values."""

    identity: Identity
    values: Values

    @property
    def key(self) -> Hashable:
        """The identity in a form that can be looked up."""
        return frozen(self.identity)


@dataclass(frozen=True, slots=True)
class Matched:
    """The identity of each stored row that has one, and the ids of those that have none."""

    identities: dict[int, Identity]
    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Matcher:
    """Pairs stored and recomputed rows of one plan. ``exact`` and ``loose`` are the places of columns without and
    with floats in them, ``plain`` those whose values are compared as they are."""

    engine: Engine
    plan: Node
    exact: tuple[int, ...] = field(init=False)
    loose: tuple[int, ...] = field(init=False)
    plain: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        places = range(len(self.plan.schema))
        object.__setattr__(self, "exact", tuple(i for i in places if not rounds(self.plan.schema[i].type)))
        object.__setattr__(self, "loose", tuple(i for i in places if rounds(self.plan.schema[i].type)))
        nested = (ArrayType, MapType, StructType)
        plain = (i for i in self.exact if not isinstance(self.plan.schema[i].type, nested))
        object.__setattr__(self, "plain", frozenset(plain))

    def identities(self, rows: Sequence[Stored], *, are_all: bool = False) -> Matched:
        """The identities of stored rows; ``are_all`` says that these are all rows of the run."""
        asked = {row.id for row in rows}
        values = [row.values for row in rows]
        # Equal rows are told apart by their order, which only shows among all of them.
        equals = sorted(rows, key=lambda row: row.id) if are_all else self.stored(values)
        keys = {self.key(v) for v in values}
        groups = {k: same for k, same in grouped((self.key(r.values), r) for r in equals).items() if k in keys}
        matched = self._pair(groups, self.derivations(None if are_all else values))
        return Matched(
            {id: identity for id, identity in matched.identities.items() if id in asked},
            tuple(id for id in matched.missing if id in asked),
        )

    def ids(self, made: Mapping[Hashable, Derivation]) -> dict[Hashable, list[int]]:
        """The ids under which recomputed rows are stored, by their keys; one that is not stored is left out.

        Copies of a row that have one identity (of ``except all``, say) are stored once each.
        """
        values = [d.values for d in made.values()]
        keys = {self.key(v) for v in values}
        groups = {
            k: same for k, same in grouped((self.key(r.values), r) for r in self.stored(values)).items() if k in keys
        }
        if self.loose or any(len(same) > 1 for same in groups.values()):
            found = self.derivations(values)
        else:
            found = grouped((self.key(d.values), d) for d in made.values())
        ids = grouped((frozen(identity), id) for id, identity in self._pair(groups, found).identities.items())
        return {key: ids[key] for key in made if key in ids}

    def stored(self, values: Sequence[Values]) -> list[Stored]:
        """The stored rows that may have some of these values, in the order of the run."""
        source = results_source(self.plan.schema)
        table = self.engine.run(filtered(source, self._wanted(values)))
        return sorted(stored_rows(table), key=lambda row: row.id)

    def derivations(self, values: Sequence[Values] | None) -> dict[Hashable, list[Derivation]]:
        """Recomputed rows that may have some of these values (None: all), by key, each list in canonical order."""
        top = identify(self.plan, Fresh())
        columns = (*names(self.plan), *top.keys)
        plan: Node = Project(top.plan, tuple(Named(c, Column(c)) for c in columns))
        if values is not None:
            wanted = self._wanted(values)
            plan = filtered(restrict(plan, wanted), wanted)
        width = len(names(self.plan))
        rows = (Derivation(row[width:], row[:width]) for row in tuples(self.engine.run(plan)))
        found = grouped((self.key(d.values), d) for d in rows)
        for same in found.values():
            same.sort(key=lambda d: in_order(d.identity))
        return found

    def key(self, values: Values) -> Hashable:
        """What equal rows have in common, floats left out."""
        # Of plain types a value stands for itself; there may be millions of them.
        return tuple(values[i] if i in self.plain else self._frozen(i, values) for i in self.exact)

    def _frozen(self, place: int, values: Values) -> Hashable:
        is_map = isinstance(self.plan.schema[place].type, MapType)
        return frozen_map(values[place]) if is_map else frozen(values[place])

    def _wanted(self, values: Sequence[Values]) -> list[Wanted]:
        schema = self.plan.schema
        return [
            wanted
            for i in self.exact
            for wanted in wanted_of(Column(schema[i].name), schema[i].type, [row[i] for row in values])
        ]

    def _pair(self, groups: dict[Hashable, list[Stored]], found: dict[Hashable, list[Derivation]]) -> Matched:
        identities: dict[int, Identity] = {}
        missing: list[int] = []
        for key, same in groups.items():
            rows, derivations = self._pair_equal(same, found.get(key, []), identities)
            missing += [row.id for row in self._pair_near(rows, derivations, identities)]
        return Matched(identities, tuple(missing))

    def _pair_equal(
        self, rows: list[Stored], derivations: list[Derivation], into: dict[int, Identity]
    ) -> tuple[list[Stored], list[Derivation]]:
        """Pair the rows whose floats are equal too; what is left over on both sides."""
        if not self.loose:
            for row, derivation in zip(rows, derivations, strict=False):
                into[row.id] = derivation.identity
            return rows[len(derivations) :], derivations[len(rows) :]
        by_floats = grouped((self._floats(d.values), d) for d in derivations)
        left = []
        for row in rows:
            same = by_floats.get(self._floats(row.values))
            if same:
                into[row.id] = same.pop(0).identity
            else:
                left.append(row)
        return left, [d for same in by_floats.values() for d in same]

    def _pair_near(self, rows: list[Stored], derivations: list[Derivation], into: dict[int, Identity]) -> list[Stored]:
        """Pair the rows whose floats differ by rounding, where only one derivation is that near; the rows left."""
        left = []
        for row in rows:
            close = [d for d in derivations if all(near(row.values[i], d.values[i]) for i in self.loose)]
            if len(close) == 1:
                into[row.id] = close[0].identity
                derivations = [d for d in derivations if d is not close[0]]
            else:
                left.append(row)
        return left

    def _floats(self, values: Values) -> Hashable:
        return tuple(self._frozen(i, values) for i in self.loose)


def rounds(type: DataType) -> bool:
    """Whether values of a type may come out differently rounded."""
    match type:
        case ArrayType(element):
            return rounds(element)
        case MapType(key, value):
            return rounds(key) or rounds(value)
        case StructType(fields):
            return any(rounds(f.type) for f in fields)
        case _:
            return type in (FLOAT, DOUBLE)


def wanted_of(column: Column, type: DataType, values: Sequence[object]) -> list[Wanted]:
    """What to want of a column so that it has one of the values; of a struct its members, one by one."""
    if isinstance(type, ArrayType | MapType):
        return []
    if not isinstance(type, StructType):
        wanted = wanted_values(column, type, set(values))
        return [] if wanted is None else [wanted]
    if any(value is None for value in values):
        return []
    found = []
    for member in type.fields:
        if not isinstance(member.type, ArrayType | MapType | StructType):
            inside = {value[member.name] for value in values}  # type: ignore[index]
            wanted = wanted_values(Member(column, member.name), member.type, inside)
            if wanted is not None:
                found.append(wanted)
    return found


def filtered(node: Node, wanted: Sequence[Wanted]) -> Node:
    """The rows of a node that have what is wanted."""
    return Filter(node, conjunction([wanted_condition(w, node) for w in wanted])) if wanted else node


def stored_rows(table: pa.Table) -> list[Stored]:
    """Rows of the results with their ids, from a table whose last column is the id."""
    return [Stored(row[-1], row[:-1]) for row in tuples(table)]  # type: ignore[arg-type]


def tuples(table: pa.Table) -> list[Values]:
    """The rows of an Arrow table as tuples of Python values, arrays as tuples too, so that identities can be hashed."""
    import pyarrow as pa

    columns = [
        [as_tuple(v) for v in column.to_pylist()] if pa.types.is_nested(column.type) else column.to_pylist()
        for column in table.columns
    ]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def as_tuple(value: object) -> object:
    """A list, and lists in it, as tuples."""
    return tuple(as_tuple(v) for v in value) if isinstance(value, list) else value


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The second members of pairs by the first."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
