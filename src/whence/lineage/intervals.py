"""Intervals: the user's plan with four bigints a source beside every row, for interval capture.

For each source and role that reaches a row: the smallest and the largest contributing row id (null
where none contributed), how many contributed, and their check (``checks``), both of the multiset that
the oracle's ``MULTISETS`` adds up: a row that contributes in two ways counts twice. Bigints only, because
lists and structs are what makes aggregates slow; until rows are merged, the id alone is carried.
How many and the check are left out where they cannot be had from sums: for conditions (a set, not a
multiset, and sums do not know equals), and where the frames of an analytic node overlap in
ways that depend on the data. Nothing is compared here with anything; whoever asks later does.
Where annotations go is in ``annotations``; here is only what intervals do on the way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from whence.lineage.annotations import Annotator, Framed, Gathered
from whence.lineage.back import Role
from whence.lineage.checks import hash_call, modulo
from whence.lineage.frames import frames_of
from whence.lineage.fresh import Fresh
from whence.plan.expressions import AggregateCall, Call, Case, Column, Expression, Literal
from whence.plan.hidden import PREFIX
from whence.plan.nodes import (
    WHOLE_PARTITION,
    Analytic,
    Frame,
    Named,
    NamedAggregate,
    NamedAnalytic,
    Node,
    Project,
    names,
)
from whence.plan.types import BIGINT

_ZERO = Literal(0, BIGINT)
_NULL = Literal(None, BIGINT)


@dataclass(frozen=True, slots=True)
class Interval:
    """The annotation columns of a source in a role, by name; ``count`` and ``check`` only where certified."""

    source: str
    role: Role
    low: str
    high: str
    count: str | None
    check: str | None


@dataclass(frozen=True, slots=True)
class Ranged:
    """A plan that gives the user's columns and then those of intervals."""

    plan: Node
    intervals: tuple[Interval, ...]


def carry_intervals(plan: Node) -> Ranged:
    """The plan with the intervals of its rows' source ids; the user's columns first, in their order.

    >>> from whence.plan.builder import source
    >>> ranged = carry_intervals(source("trips", car="bigint").group("car", n="count(*)").plan)
    >>> ranged.intervals[0].low, names(ranged.plan)[:3]
    ('__whence_low0', ('car', 'n', '__whence_low0'))
    """
    fresh = Fresh()
    ranged = Annotator(Ranges(fresh), fresh).annotate(plan)
    columns = [Named(n, Column(n)) for n in names(plan)]
    intervals: list[Interval] = []
    for i, held in enumerate(ranged.annotations):
        count, check = (f"{PREFIX}count{i}", f"{PREFIX}check{i}") if held.certified else (None, None)
        interval = Interval(held.source, held.role, f"{PREFIX}low{i}", f"{PREFIX}high{i}", count, check)
        intervals.append(interval)
        columns += [Named(interval.low, held.low), Named(interval.high, held.high)]
        if count is not None and check is not None:
            columns += [Named(count, _or_zero(held.counted)), Named(check, modulo(_or_zero(held.checked)))]
    return Ranged(Project(ranged.plan, tuple(columns)), tuple(intervals))


@dataclass(frozen=True, slots=True)
class Held:
    """What is carried of a source in a role: one column, its id, or those of an interval, two or four.

    How many and the check may be null for 0, and stand above ``MODULUS``: they are reduced before they are added.
    """

    source: str
    role: Role
    certified: bool
    columns: tuple[str, ...]

    @property
    def one(self) -> bool:
        """Whether it is still a single id."""
        return len(self.columns) == 1

    @property
    def low(self) -> Expression:
        """The smallest id."""
        return Column(self.columns[0])

    @property
    def high(self) -> Expression:
        """The largest id."""
        return self.low if self.one else Column(self.columns[1])

    @property
    def counted(self) -> Expression:
        """How many ids."""
        if self.one:
            return Case(((Call("isnull", (self.low,)), _ZERO),), Literal(1, BIGINT))
        return Column(self.columns[2])

    @property
    def checked(self) -> Expression:
        """The sum of their hashes."""
        return hash_call(self.low) if self.one else Column(self.columns[3])

    @property
    def addends(self) -> tuple[Expression, Expression]:
        """How many and the check, below ``MODULUS``."""
        return (self.counted, self.checked) if self.one else (modulo(self.counted), modulo(self.checked))

    @property
    def whole(self) -> tuple[Expression, ...]:
        """The interval, whatever is carried."""
        return (self.low, self.high, *((self.counted, self.checked) if self.certified else ()))

    @property
    def aggregates(self) -> tuple[AggregateCall, ...]:
        """The interval of many rows."""
        extremes = (AggregateCall("min", (self.low,)), AggregateCall("max", (self.high,)))
        if not self.certified:
            return extremes
        count, check = (AggregateCall("sum", (value,)) for value in self.addends)
        return (*extremes, AggregateCall("count", (self.low,)) if self.one else count, check)


@dataclass(frozen=True, slots=True)
class Ranges:
    """The form of annotations that are ids and intervals of ids."""

    fresh: Fresh
    refusal: str = "captured by intervals"

    def source(self, name: str, column: str) -> Held:
        return Held(name, "value", True, (column,))

    def condition(self, annotation: Held) -> Held:
        return replace(annotation, role="condition", certified=False, columns=annotation.columns[:2])

    def wide(self, held: Held) -> Held:
        """The same with columns for an interval."""
        return replace(held, columns=self.fresh.names("c", len(held.whole)))

    def gather(self, annotation: Held) -> Gathered[Held]:
        made = self.wide(annotation)
        pairs = zip(made.columns, annotation.aggregates, strict=True)
        return Gathered(made, tuple(NamedAggregate(name, call) for name, call in pairs))

    def together(self, parts: list[Held]) -> tuple[Held, tuple[Named, ...]]:
        certified = all(p.certified for p in parts)
        made = self.wide(replace(parts[0], certified=certified))
        return made, _named(made, _sum_of([replace(p, certified=certified) for p in parts]))

    def line_up(self, parts: list[Held | None]) -> tuple[Held, list[tuple[Named, ...]]]:
        present = [p for p in parts if p is not None]
        certified = all(p.certified for p in present)
        made = replace(present[0], certified=certified)
        if all(p.one for p in present):
            made = replace(made, columns=self.fresh.names("c", 1))
            return made, [_named(made, (_NULL if p is None else p.low,)) for p in parts]
        made = self.wide(made)
        none = (_NULL,) * len(made.columns)
        rows = [none if p is None else replace(p, certified=certified).whole for p in parts]
        return made, [_named(made, row) for row in rows]

    def frames(self, node: Analytic, annotation: Held) -> Framed[Held]:
        """Sums over frames that hold each row once; where there are none, the ends over all frames."""
        frames = apart(frames_of(node))
        below = replace(annotation, certified=annotation.certified and frames is not None)
        parts: list[Held] = []
        made: list[NamedAnalytic] = []
        for frame in frames_of(node) if frames is None else frames:
            part = self.wide(below)
            pairs = zip(part.columns, below.aggregates, strict=True)
            made += [NamedAnalytic(name, call, frame) for name, call in pairs]
            parts.append(part)
        if frames is None:
            parts.append(below)
        result = self.wide(below)
        return Framed(result, tuple(made), _named(result, _sum_of(parts)))


def apart(frames: tuple[Frame, ...]) -> tuple[Frame, ...] | None:
    """Frames that share no row and hold the row itself and all rows of the given; None where the data decide.

    >>> apart((Frame("rows", -2, -2), Frame("rows", 0, 1), Frame("rows", None, -4)))
    (Frame(unit='rows', start=None, end=-4), Frame(unit='rows', start=-2, end=-2), Frame(unit='rows', start=0, end=1))
    """
    if any(f.start is None and f.end is None for f in frames):
        return (WHOLE_PARTITION,)
    by_value = [f for f in frames if f.unit == "range"]
    by_place = [f for f in frames if f.unit == "rows"]
    if not by_value:
        return _merged([*by_place, Frame("rows", 0, 0)])
    if not all((f.start is None or f.start <= 0) and (f.end is None or f.end >= 0) for f in by_value):
        return None  # whether the row itself is in such a frame depends on whether its order key is null
    starts, ends = [f.start for f in by_value], [f.end for f in by_value]
    start = None if None in starts else min(s for s in starts if s is not None)
    end = None if None in ends else max(e for e in ends if e is not None)
    for f in by_place:  # how many rows back a range reaches is not known: all of them, or just the row
        if (start is not None and (f.start is None or f.start < 0)) or (
            end is not None and (f.end is None or f.end > 0)
        ):
            return None
    return (Frame("range", start, end),)


def _merged(frames: list[Frame]) -> tuple[Frame, ...]:
    """Frames of places, those that overlap or touch made one."""
    found: list[Frame] = []
    for f in sorted(frames, key=lambda f: -math.inf if f.start is None else f.start):
        last = found[-1] if found else None
        if last is None or (last.end is not None and f.start is not None and f.start > last.end + 1):
            found.append(f)
        else:
            end = None if last.end is None or f.end is None else max(last.end, f.end)
            found[-1] = replace(last, end=end)
    return tuple(found)


def _sum_of(parts: list[Held]) -> tuple[Expression, ...]:
    """The interval of several together."""
    if len(parts) == 1:
        return parts[0].whole
    ends = (Call("least", tuple(p.low for p in parts)), Call("greatest", tuple(p.high for p in parts)))
    if not parts[0].certified:
        return ends
    return (*ends, *(_added(values) for values in zip(*(p.addends for p in parts), strict=True)))


def _added(values: tuple[Expression, ...]) -> Expression:
    total, *more = (_or_zero(v) for v in values)
    for value in more:
        total = Call("+", (total, value))
    return total


def _or_zero(value: Expression) -> Expression:
    return Call("coalesce", (value, _ZERO))


def _named(held: Held, values: tuple[Expression, ...]) -> tuple[Named, ...]:
    return tuple(Named(name, value) for name, value in zip(held.columns, values, strict=True))
