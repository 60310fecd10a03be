"""What a streaming query emits: the executable definition. Folds epochs of new rows over a plan.

In epoch N the watermark W(N) is known from the epochs before: of each watermark node the largest time that came to
it, floored to milliseconds, less the delay; over several nodes the smallest or the largest (``policy``); never
less than before; 0 at first. A step that remembers rows drops those whose time is at most W(N-1), and lets go of
what its memory holds for times up to W(N). When the watermark has moved, one more epoch without new rows follows.
What each step does is in ``stateful`` (with memory) and ``operators`` (without). What Spark refuses is refused here.

Three things of Spark's are not in a plan. A run's own records may say them (``Recorded``); without, this holds:
- Rows move a watermark where its node stands. Spark may push a filter from above below it; a run's log has the
  watermarks themselves.
- A deduplication or a join drops late rows wherever its input has an event time. Spark does so only where that
  column survives column pruning (seen at the physical plan).
- Of equal rows the first in the order of the epoch's tables is kept, and a limit goes by the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, assert_never, overload
from typing import Literal as OneOf

from whence.errors import EvaluationError, PlanError, UnknownSource
from whence.plan.nodes import (
    Analytic,
    Deduplicate,
    Distinct,
    EventWindow,
    Filter,
    Generate,
    Group,
    Join,
    Limit,
    Node,
    OpaqueStep,
    Project,
    SetOperation,
    Sort,
    Source,
    Union,
    Values,
    Watermark,
    children,
    label,
    names,
    sources,
    walk,
)
from whence.semantics.algebras import LINEAGE, A, Algebra, Lineage
from whence.semantics.annotate import annotate, apply, in_node
from whence.semantics.event_times import (
    Times,
    arriving_at,
    bounds,
    equated,
    event_times,
    moment_in,
    passed_on,
    the_time,
    time_keys,
)
from whence.semantics.operators import Annotated, Rows
from whence.semantics.scalars import Functions
from whence.semantics.stateful import DeduplicateStep, GroupStep, JoinStep, LimitStep, Mode, Step, Versioned, versioned
from whence.semantics.tables import Table

Policy = OneOf["min", "max"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a run's records say in place of the rules.

    ``watermarks`` has W(N) of each epoch in milliseconds (more of them than epochs: those had no new rows).
    ``pruned`` holds the inputs of joins and deduplications that come to them without their event time.
    """

    watermarks: Sequence[int] | None = None
    pruned: Collection[Node] = ()


@dataclass(frozen=True, slots=True)
class Emitted(Generic[A]):
    """What one epoch gave.

    ``versions`` says of each row how often the group it shows had been given out before, in update and complete
    mode; a row is told from all others by its epoch and its place here. ``late`` has the rows each node dropped, as
    they came to it (a row with several windows may be late for some of them only). Watermarks are in milliseconds:
    rows were late up to ``late_until``, results were due up to ``watermark``; ``next_watermark`` holds afterwards.
    """

    epoch: int
    rows: list[Annotated[A]]
    versions: list[int]
    late: dict[Node, list[Annotated[A]]]
    late_until: int
    watermark: int
    next_watermark: int


@overload
def run_stream(
    plan: Node,
    epochs: Sequence[Mapping[str, Table]],
    *,
    mode: Mode = "append",
    policy: Policy = "min",
    static: Mapping[str, Table] | None = None,
    functions: Functions | None = None,
    recorded: Recorded | None = None,
) -> list[Emitted[Lineage]]: ...
@overload
def run_stream(
    plan: Node,
    epochs: Sequence[Mapping[str, Table]],
    *,
    mode: Mode = "append",
    algebra: Algebra[A],
    policy: Policy = "min",
    static: Mapping[str, Table] | None = None,
    functions: Functions | None = None,
    recorded: Recorded | None = None,
) -> list[Emitted[A]]: ...
def run_stream(
    plan: Node,
    epochs: Sequence[Mapping[str, Table]],
    *,
    mode: Mode = "append",
    algebra: Algebra[A] = LINEAGE,  # type: ignore[assignment]
    policy: Policy = "min",
    static: Mapping[str, Table] | None = None,
    functions: Functions | None = None,
    recorded: Recorded | None = None,
) -> list[Emitted[A]]:
    """What the plan emits, epoch by epoch: each maps the names of streaming sources to their new rows.

    Tables without ids number their rows on from epoch to epoch. Sources in ``static`` do not stream.

    >>> from whence.plan.builder import source
    >>> cars = source("cars", car="bigint").group("car", n="count(*)").plan
    >>> made = run_stream(cars, [{"cars": Table(("car",), [(17,)])}, {"cars": Table(("car",), [(17,)])}], mode="update")
    >>> [(item.row, version) for epoch in made for item, version in zip(epoch.rows, epoch.versions)]
    [((17, 1), 0), ((17, 2), 1)]
    """
    known = recorded if recorded is not None else Recorded()
    stream = _Stream(plan, mode, policy, static or {}, versioned(algebra), functions, known)
    return stream.run(_numbered(plan, epochs, static or {}))


def _numbered(plan: Node, epochs: Sequence[Mapping[str, Table]], static: Mapping[str, Table]) -> list[dict[str, Table]]:
    """The epochs with a table for each streaming source, whose rows have ids that no other epoch has."""
    streaming = {name: source for name, source in sources(plan).items() if name not in static}
    met: dict[str, set[int]] = {name: set() for name in streaming}
    whole = []
    for number, given in enumerate(epochs):
        for name in given:
            if name not in streaming:
                raise UnknownSource(
                    f"epoch {number} has rows for {name!r}, which is no streaming source of the plan",
                    detail="streaming sources: " + (", ".join(sorted(streaming)) or "none"),
                    hint="tables that do not stream go into static=",
                )
        tables = {}
        for name, source in streaming.items():
            table = given.get(name) or Table(tuple(f.name for f in source.fields), [])
            if table.ids is None:
                table = replace(table, ids=range(len(met[name]), len(met[name]) + len(table.rows)))
            twice = met[name].intersection(table.row_ids)
            if twice:
                raise EvaluationError(
                    f"two epochs have a row of {name!r} with id {min(twice)}",
                    detail="a source row comes in one epoch",
                    hint="leave ids out to have rows numbered on from epoch to epoch",
                )
            met[name] |= set(table.row_ids)
            tables[name] = table
        whole.append(tables)
    return whole


class _Stream(Generic[A]):
    """One run: the steps with their memory, and how far the watermarks are."""

    def __init__(
        self,
        plan: Node,
        mode: Mode,
        policy: Policy,
        static: Mapping[str, Table],
        algebra: Algebra[Versioned[A]],
        functions: Functions | None,
        recorded: Recorded,
    ) -> None:
        self.plan, self.mode, self.policy = plan, mode, policy
        self.algebra, self.functions, self.recorded = algebra, functions, recorded
        self.streaming = _streaming(plan, static)
        self.times = event_times(plan, self.streaming)
        check(plan, mode, policy, self.streaming, self.times)
        self.steps: dict[Node, Step[Versioned[A]]] = {
            node: step for node in walk(plan) if node in self.streaming and (step := self.step(node)) is not None
        }
        self.static: dict[Node, Rows[Versioned[A]]] = {
            node: annotate(node, static, algebra, functions) for node in walk(plan) if node not in self.streaming
        }
        # What each watermark node has seen: its largest time, in microseconds.
        self.seen: dict[Watermark, int] = {}
        self.marks = [n for n in walk(plan) if isinstance(n, Watermark) and n in self.streaming]

    def step(self, node: Node) -> Step[Versioned[A]] | None:
        """The step's memory, where it has one."""
        match node:
            case Group():
                return GroupStep(node, self.mode, self.times[node.child], self.algebra, self.functions)
            case Distinct() | Deduplicate():
                return DeduplicateStep(node, self.times[node.child], node.child not in self.recorded.pruned)
            case Limit() if self.mode == "append":
                return LimitStep(node)
            case Join() if node.left in self.streaming and node.right in self.streaming:
                filtered = (node.left not in self.recorded.pruned, node.right not in self.recorded.pruned)
                times = (self.times[node.left], self.times[node.right])
                return JoinStep(node, *times, filtered, self.algebra, self.functions)
            case _:
                return None

    def run(self, epochs: Sequence[Mapping[str, Table]]) -> list[Emitted[A]]:
        logged = self.recorded.watermarks
        if logged is not None and len(logged) < len(epochs):
            raise EvaluationError(
                f"{len(logged)} watermarks for {len(epochs)} epochs",
                detail="each epoch has one, also the first",
                hint="give the watermark each epoch began with, in milliseconds",
            )
        emitted: list[Emitted[A]] = []
        count = len(epochs) if logged is None else len(logged)
        nothing = {name: Table(names(source), [], late=[]) for name, source in sources(self.plan).items()}
        while len(emitted) < count or (logged is None and self.due(emitted)):
            number = len(emitted)
            watermark = logged[number] if logged is not None else (emitted[-1].next_watermark if emitted else 0)
            late_until = emitted[-1].watermark if emitted else 0
            tables = epochs[number] if number < len(epochs) else nothing
            emitted.append(self.epoch(number, tables, late_until, watermark))
        return emitted

    def due(self, emitted: list[Emitted[A]]) -> bool:
        """Whether an epoch without new rows follows: the watermark moved, and some step waits for it."""
        moved = bool(emitted) and emitted[-1].next_watermark > emitted[-1].watermark
        return moved and bool(self.steps) and self.mode != "complete"

    def epoch(self, number: int, tables: Mapping[str, Table], late_until: int, watermark: int) -> Emitted[A]:
        before = passed_on(self.plan, self.times, self.streaming, late_until)
        now = passed_on(self.plan, self.times, self.streaming, watermark)
        done: dict[Node, Rows[Versioned[A]]] = dict(self.static)
        late: dict[Node, list[Annotated[A]]] = {}
        for node in walk(self.plan):
            if node not in self.streaming:
                continue
            inputs = [done[child] for child in children(node)]
            try:
                if node in self.steps:
                    made, dropped = self.steps[node].epoch(inputs, arriving_at(node, before), arriving_at(node, now))
                    done[node] = made
                    late[node] = _plain(dropped)
                else:
                    done[node] = apply(node, inputs, tables, self.algebra, self.functions)
            except EvaluationError as error:
                raise in_node(error, node) from error
            if isinstance(node, Watermark):
                self.see(node, done[node])
        rows = done[self.plan]
        versions = [item.annotation[1] for item in rows]
        following = self.next_watermark(watermark)
        return Emitted(number, _plain(rows), versions, late, late_until, watermark, following)

    def see(self, node: Watermark, rows: Rows[Versioned[A]]) -> None:
        """Remember the largest time that came to a watermark."""
        moment_of = moment_in(node, node.column, self.times[node][node.column])
        moments = [moment for item in rows if (moment := moment_of(item.row)) is not None]
        if moments:
            self.seen[node] = max(*moments, self.seen.get(node, moments[0]))

    def next_watermark(self, current: int) -> int:
        """The watermark after an epoch; a watermark that saw no row yet stands at 0."""
        reached = [self.seen[node] // 1000 - node.delay // 1000 if node in self.seen else 0 for node in self.marks]
        if not reached:
            return current
        return max(current, min(reached) if self.policy == "min" else max(reached))


def _plain(rows: Rows[Versioned[A]]) -> list[Annotated[A]]:
    return [Annotated(item.row, item.annotation[0]) for item in rows]


def _streaming(plan: Node, static: Mapping[str, Table]) -> set[Node]:
    """The nodes with a streaming source at or below them."""
    found: set[Node] = set()
    for node in walk(plan):
        if (isinstance(node, Source) and node.name not in static) or any(c in found for c in children(node)):
            found.add(node)
    return found


def check(plan: Node, mode: Mode, policy: Policy, streaming: set[Node], times: Mapping[Node, Times]) -> None:
    """A PlanError where a plan cannot run as a stream in that mode, naming the node."""
    for what, given, allowed in (
        ("output mode", mode, ("append", "update", "complete")),
        ("policy", policy, ("min", "max")),
    ):
        if given not in allowed:
            raise PlanError(f"unknown {what} {given!r}", hint="use one of " + ", ".join(allowed))
    if plan not in streaming:
        raise PlanError(
            "no source of the plan streams",
            detail="all of them are in static=",
            hint="evaluate it as a batch, with evaluate or annotate",
        )
    grouped = {node for node in walk(plan) if any(isinstance(n, Group) and n in streaming for n in walk(node))}
    if mode == "complete" and plan not in grouped:
        raise _refuse(plan, mode, "complete mode needs a group, whose whole result it gives", 'use mode="append"')
    for node in walk(plan):
        if node in streaming:
            _check_node(node, mode, streaming, times, grouped)


def _refuse(node: Node, mode: str, why: str, hint: str) -> PlanError:
    return PlanError(f"{label(node)} cannot run on a stream in {mode} mode", detail=why, hint=hint)


def _check_node(node: Node, mode: Mode, streaming: set[Node], times: Mapping[Node, Times], grouped: set[Node]) -> None:
    above = any(child in grouped for child in children(node))
    whole = mode == "complete" and above
    match node:
        case Source() | Values() | Project() | Filter() | Generate() | EventWindow():
            pass
        case Union():
            if any(child not in streaming for child in node.children):
                raise _refuse(node, mode, "one of its inputs streams and another does not", "union them before reading")
        case Watermark():
            if any(isinstance(n, Watermark) and n in streaming for n in walk(node.child)):
                raise _refuse(node, mode, "there is a watermark below it already", "leave one of them out")
        case Group():
            _check_group(node, mode, times[node.child], above)
        case Distinct() | Deduplicate():
            if above and mode != "append":
                raise _refuse(node, mode, "it stands on a group, whose rows come again", 'use mode="append"')
            within = isinstance(node, Deduplicate) and node.within_watermark
            keys = node.keys if isinstance(node, Deduplicate) else names(node)
            if the_time(node, node.child, times[node.child], () if within else keys) is None and within:
                raise _refuse(node, mode, "its input has no watermark to go by", "put a watermark below it")
        case Limit():
            if not whole and (mode != "append" or node.offset or node.count is None):
                why = "it needs a first row" if mode == "append" else "rows come again, so there is no first one"
                raise _refuse(node, mode, why, "limit without an offset, in append mode")
        case Sort():
            if not whole:
                raise _refuse(node, mode, "a stream has no last row", "sort a group's results in complete mode")
        case SetOperation() | Analytic():
            raise _refuse(node, mode, "it needs all rows at once", "run it over each epoch's result")
        case OpaqueStep():
            if node.kind != "per_row":
                raise _refuse(node, mode, "what it remembers from epoch to epoch is not known", "declare it per_row")
        case Join():
            _check_join(node, mode, streaming, times)
        case _:
            assert_never(node)


def _check_group(node: Group, mode: Mode, below: Times, above: bool) -> None:
    if above and mode != "append":
        raise _refuse(node, mode, "it stands on another group, whose rows come again", 'use mode="append"')
    keys = [key.name for key, _ in time_keys(node, below)]
    if len(keys) > 1 and mode != "complete":
        why = f"{', '.join(keys)} are all event times: it has more than one to go by"
        raise _refuse(node, mode, why, "group by one of them")
    if not keys and mode == "append":
        why = "none of its keys is an event time with a watermark, so no group is ever complete"
        raise _refuse(node, mode, why, 'group by a window over a watermarked column, or use mode="update"')


def _check_join(node: Join, mode: Mode, streaming: set[Node], times: Mapping[Node, Times]) -> None:
    left, right = node.left in streaming, node.right in streaming
    if not (left and right):
        fits = {"inner": True, "left": left, "right": right, "semi": left, "anti": left, "full": False}[node.kind]
        if not fits:
            raise _refuse(node, mode, "rows of the side that does not stream may find partners later", "swap its sides")
        return
    if mode != "append":
        raise _refuse(node, mode, "a join of two streams only adds rows", 'use mode="append"')
    if node.kind == "anti":
        raise _refuse(node, mode, "a right row to come may match", "use a left join and keep unmatched rows")
    for child in (node.left, node.right):
        the_time(node, child, times[child], equated(node))
    of_left, of_right = bounds(node, times[node.left], times[node.right])
    enough = {
        "inner": True, "left": of_left, "semi": of_left, "right": of_right, "full": of_left or of_right,
    }[node.kind]  # fmt: skip
    if not enough:
        why = "no watermark and bound on event times says when a row can find no partner any more"
        raise _refuse(node, mode, why, "put watermarks on both sides and bound the time between partners")
