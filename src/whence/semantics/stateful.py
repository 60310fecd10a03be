"""What steps that remember rows do in one epoch of a stream, each as Spark does it.

A step takes the epoch's new rows and two watermarks in milliseconds: rows whose time is at most ``late`` (the
watermark of the epoch before) are dropped, and what waits for a time is let go of once ``passed`` (this epoch's)
has reached it. Without a watermark neither happens, and a null time is never late and never passed. Rows wait as
they are and results are computed from them anew: slow, and easy to check. Which plans may run, and in which mode,
is in ``streams``; steps that remember nothing do the same as in a batch, in ``operators``.

Annotations here are pairs: what the algebra carries, and how often a group's result had been given out before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, Protocol

from whence.plan.expressions import conjunction, type_of
from whence.plan.nodes import Deduplicate, Distinct, Group, Join, Limit, names
from whence.semantics import operators
from whence.semantics.algebras import A, Algebra
from whence.semantics.event_times import Bound, Times, bounds, equated, moment_in, one_sided, the_time, time_keys
from whence.semantics.operators import Annotated, Rows
from whence.semantics.scalars import Functions, compile_expression
from whence.semantics.values import Row

Mode = Literal["append", "update", "complete"]
Versioned = tuple[A, int]
MomentOf = Callable[[Row], int | None]


def versioned(algebra: Algebra[A]) -> Algebra[Versioned[A]]:
    """The algebra with a version beside each annotation; rows made together have the latest of theirs."""
    return Algebra(
        algebra.name,
        source=lambda source, id: (algebra.source(source, id), 0),
        times=lambda a, b: (algebra.times(a[0], b[0]), max(a[1], b[1])),
        plus=lambda many: (algebra.plus([a for a, _ in many]), max(version for _, version in many)),
        condition=lambda a: (algebra.condition(a[0]), a[1]),
        nothing=(algebra.nothing, 0),
    )


class Step(Protocol[A]):
    """A step of a stream: the rows it gives in an epoch, and those it dropped as late."""

    def epoch(self, inputs: Sequence[Rows[A]], late: int | None, passed: int | None) -> tuple[Rows[A], Rows[A]]: ...


def reached(moment: int | None, watermark: int | None) -> bool:
    """Whether a watermark in milliseconds has come to a moment in microseconds."""
    return moment is not None and watermark is not None and moment <= watermark * 1000


def in_time(rows: Rows[A], moment_of: MomentOf | None, late: int | None) -> tuple[Rows[A], Rows[A]]:
    """The rows that count, and those that came too late."""
    if moment_of is None:
        return rows, []
    too_late = [reached(moment_of(item.row), late) for item in rows]
    return (
        [item for item, dropped in zip(rows, too_late, strict=True) if not dropped],
        [item for item, dropped in zip(rows, too_late, strict=True) if dropped],
    )


@dataclass(slots=True)
class GroupStep(Generic[A]):
    """Groups that grow. Append gives a group out when its time has passed, update whenever rows came to it,
    complete every time. The one group without keys is always touched. Complete mode drops nothing.
    """

    node: Group
    mode: Mode
    times: Times
    algebra: Algebra[Versioned[A]]
    functions: Functions | None
    members: dict[Hashable, Rows[Versioned[A]]] = field(default_factory=dict)
    given: dict[Hashable, int] = field(default_factory=dict)

    def epoch(
        self, inputs: Sequence[Rows[Versioned[A]]], late: int | None, passed: int | None
    ) -> tuple[Rows[Versioned[A]], Rows[Versioned[A]]]:
        below = self.node.child.schema
        keys = [compile_expression(k.expression, below, self.functions) for k in self.node.keys]
        types = [type_of(k.expression, below) for k in self.node.keys]
        moment_of = self.moment()
        rows, dropped = in_time(inputs[0], moment_of, late)
        new = operators.gather(rows, lambda row: tuple(key(row) for key in keys), types)
        for key, items in new.items():
            self.members.setdefault(key, []).extend(items)
        if not self.node.keys:
            self.members.setdefault((), [])
        over = {
            k for k, items in self.members.items() if items and moment_of and reached(moment_of(items[0].row), passed)
        }
        match self.mode:
            case "append":
                shown = over
            case "update":
                shown = set(new) if self.node.keys else {()}
            case "complete":
                shown = set(self.members)
        made = self.results(shown)
        if self.mode != "complete":
            for key in over:
                del self.members[key]
        return made, dropped

    def moment(self) -> MomentOf | None:
        found = time_keys(self.node, self.times)
        if not found or self.mode == "complete":
            return None
        key, time = found[0]
        return moment_in(self.node.child, key.expression.name, time)  # type: ignore[union-attr]

    def results(self, shown: set[Hashable]) -> Rows[Versioned[A]]:
        rows = [item for key, items in self.members.items() if key in shown for item in items]
        if not shown:
            return []
        made = []
        for key, result in operators.groups(self.node, rows, self.algebra, self.functions):
            made.append(replace(result, annotation=(result.annotation[0], self.given.get(key, 0))))
            self.given[key] = self.given.get(key, 0) + 1
        return made


@dataclass(slots=True)
class DeduplicateStep(Generic[A]):
    """The first row met of each key, given out at once. A key is only forgotten within a watermark: when that has
    passed the time of the row it kept, plus the delay. (Otherwise a key with an event time could be forgotten as
    well, but whatever has it then comes late.)

    A null time counts as 1970 within a watermark: that is what Spark reads there. Not verified by a run.
    """

    node: Deduplicate | Distinct
    times: Times
    filtered: bool
    kept: dict[Hashable, int] = field(default_factory=dict)

    def epoch(self, inputs: Sequence[Rows[A]], late: int | None, passed: int | None) -> tuple[Rows[A], Rows[A]]:
        node, child = self.node, self.node.child
        within = isinstance(node, Deduplicate) and node.within_watermark
        columns = node.keys if isinstance(node, Deduplicate) else names(node)
        column = the_time(node, child, self.times, () if within else columns)
        moment_of = None if column is None else moment_in(child, column, self.times[column])
        rows, dropped = in_time(inputs[0], moment_of if self.filtered else None, late)
        places = [names(child).index(c) for c in columns]
        keys = operators.gather(rows, lambda row: tuple(row[p] for p in places), [child.schema[p].type for p in places])
        first: Rows[A] = []
        for key, items in keys.items():
            if key not in self.kept:
                first.append(items[0])
                delay = self.times[column].delay if column else 0
                self.kept[key] = ((moment_of(items[0].row) if moment_of else None) or 0) + delay
        if within:
            self.kept = {key: end for key, end in self.kept.items() if not reached(end, passed)}
        return first, dropped


@dataclass(slots=True)
class LimitStep(Generic[A]):
    """The first rows of the whole stream, in the order they are met."""

    node: Limit
    met: int = 0

    def epoch(self, inputs: Sequence[Rows[A]], late: int | None, passed: int | None) -> tuple[Rows[A], Rows[A]]:
        count = self.node.count
        rows = inputs[0] if count is None else inputs[0][: max(count - self.met, 0)]
        self.met += len(rows)
        return rows, []


@dataclass(slots=True)
class _Waiting(Generic[A]):
    """A row in a join, and whether it has met a partner."""

    item: Annotated[A]
    met: bool = False


@dataclass(slots=True)
class JoinStep(Generic[A]):
    """A join of two streams: each row meets all partners that came before it, with it, or come while it waits.

    Outer rows come out when they are let go of without a partner, or at once where the condition alone rules them
    out. A semi join gives a left row out once, because of the partners known in the epoch in which it first has any
    (Spark's own run of semi, right and full joins is not verified).
    """

    node: Join
    left_times: Times
    right_times: Times
    filtered: tuple[bool, bool]
    algebra: Algebra[A]
    functions: Functions | None
    left: list[_Waiting[A]] = field(default_factory=list)
    right: list[_Waiting[A]] = field(default_factory=list)

    def epoch(self, inputs: Sequence[Rows[A]], late: int | None, passed: int | None) -> tuple[Rows[A], Rows[A]]:
        node = self.node
        sides = [(node.left, self.left_times), (node.right, self.right_times)]
        dropped: Rows[A] = []
        arrived: list[list[_Waiting[A]]] = []
        hopeless: list[Rows[A]] = []
        for (child, times), rows, filtered in zip(sides, inputs, self.filtered, strict=True):
            column = the_time(node, child, times, equated(node))
            moment_of = moment_in(child, column, times[column]) if column and filtered else None
            good, bad = in_time(rows, moment_of, late)
            dropped += bad
            may_match = compile_expression(conjunction(one_sided(node, child)), child.schema, self.functions)
            arrived.append([_Waiting(item) for item in good if may_match(item.row) is True])
            hopeless.append([item for item in good if may_match(item.row) is not True])
        made = self.meet(arrived[0], arrived[1])
        self.left += arrived[0]
        self.right += arrived[1]
        if node.kind in ("left", "full"):
            made += [operators.without_right(node, item) for item in hopeless[0]]
        if node.kind in ("right", "full"):
            made += [operators.without_left(node, item) for item in hopeless[1]]
        if node.kind == "semi":
            self.left = [w for w in self.left if not w.met]
        return made + self.let_go(passed), dropped

    def meet(self, left: list[_Waiting[A]], right: list[_Waiting[A]]) -> Rows[A]:
        """The pairs in which at least one row is new."""
        made: Rows[A] = []
        for mine, theirs in ((left, self.right + right), (self.left, right)):
            found = operators.matches(self.node, [w.item for w in mine], [w.item for w in theirs], self.functions)
            for row, places in zip(mine, found, strict=True):
                partners = [theirs[p] for p in places]
                for waiting in [row, *partners] if partners else []:
                    waiting.met = True
                if self.node.kind == "semi":
                    rights = [p.item for p in partners]
                    made += [operators.semi_row(row.item, rights, self.algebra)] if partners else []
                else:
                    made += [operators.paired(row.item, p.item, self.algebra) for p in partners]
        return made

    def let_go(self, passed: int | None) -> Rows[A]:
        """Forget the rows that can match nothing to come; the outer rows among them."""
        if passed is None:
            return []
        node = self.node
        of_left, of_right = bounds(node, self.left_times, self.right_times)
        self.left, gone_left = _part(self.left, node.left, of_left, passed)
        self.right, gone_right = _part(self.right, node.right, of_right, passed)
        made: Rows[A] = []
        if node.kind in ("left", "full"):
            made += [operators.without_right(node, w.item) for w in gone_left if not w.met]
        if node.kind in ("right", "full"):
            made += [operators.without_left(node, w.item) for w in gone_right if not w.met]
        return made


def _part(
    waiting: list[_Waiting[A]], side: object, bound: Bound | None, passed: int
) -> tuple[list[_Waiting[A]], list[_Waiting[A]]]:
    """The rows that still wait and those that are let go of."""
    if bound is None:
        return waiting, []
    moment_of = moment_in(side, bound.column, bound.time)  # type: ignore[arg-type]
    gone = [reached(moment_of(w.item.row), bound.at(passed)) for w in waiting]
    return (
        [w for w, over in zip(waiting, gone, strict=True) if not over],
        [w for w, over in zip(waiting, gone, strict=True) if over],
    )
