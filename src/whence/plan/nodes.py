"""The nodes of a plan: an immutable DAG, one dataclass an operator.

Every node checks itself when it is made and then knows its ``schema``. Column names are unique
within a node; the two sides of a join share none. Nodes compare by identity (a node used twice is
shared, not repeated); ``text.print_plan`` and ``fingerprint`` compare by content. What nodes mean
is in ``semantics``. Ordered operators and workflow windows are not here.

``step`` is the name under which the user knows the node; it takes no part in the meaning.

Over 500 lines: seventeen kinds of node and the tools over all of them are read side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf
from typing import assert_never, cast

from whence.errors import PlanError
from whence.plan import functions
from whence.plan.expressions import (
    Aggregate,
    AggregateCall,
    Expression,
    Literal,
    Opaque,
    aggregate_type,
    type_of,
    unknown_column,
)
from whence.plan.hidden import PREFIX
from whence.plan.types import (
    BOOLEAN,
    DATE,
    INT,
    INTEGERS,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    Field,
    MapType,
    Schema,
    StructType,
    is_orderable,
)

JoinKind = OneOf["inner", "left", "right", "full", "semi", "anti"]
JOIN_KINDS: tuple[JoinKind, ...] = ("inner", "left", "right", "full", "semi", "anti")
Closed = OneOf["left", "right", "both"]
Stamp = OneOf["window", "start", "end"]
OpaqueKind = OneOf["per_row", "per_group", "black_box"]


@dataclass(frozen=True, slots=True)
class Named:
    """An expression and the name of the column it makes."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class NamedAggregate:
    """An aggregate and the name of the column it makes."""

    name: str
    aggregate: Aggregate


@dataclass(frozen=True, slots=True)
class Order:
    """One key of a sort order."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows around a row that an analytic function sees.

    ``rows`` counts rows; ``range`` compares the single order key. ``start`` and ``end`` are
    offsets from the current row (negative before it), None for the partition's end.
    A range frame that starts or ends at 0 takes in all peers of the row.
    """

    unit: OneOf["rows", "range"]
    start: int | None
    end: int | None


WHOLE_PARTITION = Frame("rows", None, None)
UP_TO_CURRENT = Frame("range", None, 0)


@dataclass(frozen=True, slots=True)
class NamedAnalytic:
    """An analytic function (an aggregate, a ranking or an offset), its frame, and its name.

    A ranking's frame is everything up to the row and its peers, an offset's the row it reads.
    """

    name: str
    function: Aggregate
    frame: Frame


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A root input: the rows of a named table."""

    name: str
    fields: Schema
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        _settle(self, "source", self.fields)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Rows written into the plan itself; they have no lineage. Questions use them."""

    fields: Schema
    rows: tuple[tuple[object, ...], ...]
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.fields):
                raise _bad(self, f"a row has {len(row)} values for {len(self.fields)} columns")
        _settle(self, "values", self.fields)


@dataclass(frozen=True, slots=True, eq=False)
class Project:
    """One row out for each row in, its columns computed."""

    child: Node
    columns: tuple[Named, ...]
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        with_types = tuple(Field(c.name, type_of(c.expression, self.child.schema)) for c in self.columns)
        _settle(self, "project", with_types)


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """The rows for which the condition is true (neither false nor null)."""

    child: Node
    condition: Expression
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        _need_boolean(self, self.condition, self.child.schema)
        _settle(self, "filter", self.child.schema)


@dataclass(frozen=True, slots=True, eq=False)
class Generate:
    """The row repeated for each element of an array or map, the element in new columns.

    ``columns`` are the new columns: one for an array, two for a map, the members for an array
    of structs when ``inline``; an opaque generator declares them. ``position`` names a column
    counting from 0. With ``outer`` a row without elements stays once, its new columns null.
    """

    child: Node
    expression: Expression
    columns: Schema
    position: str | None = None
    outer: bool = False
    inline: bool = False
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        given = type_of(self.expression, self.child.schema)
        if not isinstance(self.expression, Opaque):
            match given:
                case ArrayType(StructType(members)) if self.inline:
                    wanted: tuple[DataType, ...] = tuple(m.type for m in members)
                case ArrayType(element) if not self.inline:
                    wanted = (element,)
                case MapType(key, value) if not self.inline:
                    wanted = (key, value)
                case _:
                    raise _bad(self, f"cannot generate rows from {given}; give an array or a map")
            if wanted != tuple(c.type for c in self.columns):
                raise _bad(self, f"{given} makes columns of {', '.join(map(str, wanted))}")
        position = () if self.position is None else (Field(self.position, INT),)
        _settle(self, "generate", self.child.schema + position + self.columns)


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    """All rows of all children, by position; the first child names the columns."""

    children: tuple[Node, ...]
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        if len(self.children) < 2:
            raise _bad(self, "a union needs two inputs or more")
        _need_same_types(self, self.children)
        _settle(self, "union", self.children[0].schema)


@dataclass(frozen=True, slots=True, eq=False)
class Join:
    """Pairs of rows for which the condition is true; no condition means every pair.

    ``left``, ``right`` and ``full`` also keep unmatched rows of that side, the other side null;
    ``semi`` and ``anti`` keep the left rows with and without a match.
    """

    left: Node
    right: Node
    kind: JoinKind
    condition: Expression | None = None
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        if self.kind not in JOIN_KINDS:
            raise _bad(self, f"unknown join {self.kind!r}; known: {', '.join(JOIN_KINDS)}")
        both = self.left.schema + self.right.schema
        shared = {f.name for f in self.left.schema} & {f.name for f in self.right.schema}
        if shared:
            raise _bad(self, f"both sides have {', '.join(sorted(shared))}; rename one")
        if self.condition is not None:
            _need_boolean(self, self.condition, both)
        _settle(self, "join", self.left.schema if self.kind in ("semi", "anti") else both)


@dataclass(frozen=True, slots=True, eq=False)
class EventWindow:
    """The row repeated for each time window it falls into, the window in a new column.

    Windows have length ``size`` and start every ``slide``, at ``offset`` from the epoch, all in
    microseconds. ``closed`` says which ends belong to the window. ``stamp`` says what the column
    holds: the window as a struct of start and end, its start, or its end. A null time is in none.
    """

    child: Node
    name: str
    time: Expression
    size: int
    slide: int
    offset: int = 0
    closed: Closed = "left"
    stamp: Stamp = "window"
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        given = type_of(self.time, self.child.schema)
        if given not in (TIMESTAMP, TIMESTAMP_NTZ):
            raise _bad(self, f"windows need a timestamp, not {given}")
        if self.size <= 0 or self.slide <= 0:
            raise _bad(self, "size and slide must be above zero")
        if self.closed not in ("left", "right", "both"):
            raise _bad(self, f"unknown closed {self.closed!r}; known: left, right, both")
        if self.stamp not in ("window", "start", "end"):
            raise _bad(self, f"unknown stamp {self.stamp!r}; known: window, start, end")
        struct: DataType = StructType((Field("start", given), Field("end", given)))
        column = Field(self.name, struct if self.stamp == "window" else given)
        _settle(self, "window", (*self.child.schema, column))


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """One row for each group of rows with equal keys (nulls equal), with aggregates over it.

    Without keys there is exactly one row, also for no input.
    """

    child: Node
    keys: tuple[Named, ...]
    aggregates: tuple[NamedAggregate, ...]
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        below = self.child.schema
        keys = tuple(Field(k.name, type_of(k.expression, below)) for k in self.keys)
        for key in keys:
            if not is_orderable(key.type):
                raise _bad(self, f"cannot group by {key.name} of type {key.type}")
        made = tuple(Field(a.name, aggregate_type(a.aggregate, below)) for a in self.aggregates)
        _settle(self, "group", keys + made)


@dataclass(frozen=True, slots=True, eq=False)
class Distinct:
    """Each different row once (nulls equal)."""

    child: Node
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        _settle(self, "distinct", self.child.schema)


@dataclass(frozen=True, slots=True, eq=False)
class Deduplicate:
    """The first row met for each combination of the key columns (nulls equal).

    ``within_watermark`` forgets a key once the watermark has passed the kept row's time plus the
    delay; it only makes sense on a stream.
    """

    child: Node
    keys: tuple[str, ...]
    within_watermark: bool = False
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        for key in self.keys:
            _need_column(self, key, self.child.schema)
        _settle(self, "deduplicate", self.child.schema)


@dataclass(frozen=True, slots=True, eq=False)
class SetOperation:
    """``intersect`` or ``except`` of two inputs by position, nulls equal.

    Without ``all`` each row comes once; with it as often as the smaller count (intersect) or the
    left count less the right one (except).
    """

    left: Node
    right: Node
    kind: OneOf["intersect", "except"]
    all: bool = False
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        if self.kind not in ("intersect", "except"):
            raise _bad(self, f"unknown set operation {self.kind!r}; known: intersect, except")
        _need_same_types(self, (self.left, self.right))
        _settle(self, "set operation", self.left.schema)


@dataclass(frozen=True, slots=True, eq=False)
class Sort:
    """The rows in order; rows with equal keys stay as they came."""

    child: Node
    orders: tuple[Order, ...]
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        _need_orders(self, self.orders, self.child.schema)
        _settle(self, "sort", self.child.schema)


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """The first ``count`` rows after ``offset`` rows (None: all that remain)."""

    child: Node
    count: int | None
    offset: int = 0
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        if (self.count is not None and self.count < 0) or self.offset < 0:
            raise _bad(self, "count and offset must not be negative")
        _settle(self, "limit", self.child.schema)


@dataclass(frozen=True, slots=True, eq=False)
class Analytic:
    """Each row with columns computed over its partition's rows around it (``over`` in SQL)."""

    child: Node
    partition: tuple[Expression, ...]
    orders: tuple[Order, ...]
    columns: tuple[NamedAnalytic, ...]
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        below = self.child.schema
        for key in self.partition:
            if not is_orderable(type_of(key, below)):
                raise _bad(self, f"cannot partition by a value of type {type_of(key, below)}")
        _need_orders(self, self.orders, below)
        made = []
        for column in self.columns:
            frame = column.frame
            if frame.unit not in ("rows", "range"):
                raise _bad(self, f"unknown frame unit {frame.unit!r}; known: rows, range")
            if None not in (frame.start, frame.end) and cast(int, frame.start) > cast(int, frame.end):
                raise _bad(self, f"the frame of {column.name} ends before it starts")
            if frame.unit == "range" and ({frame.start, frame.end} - {None, 0}):
                keys = [type_of(o.expression, below) for o in self.orders]
                if len(keys) != 1 or keys[0] not in (*INTEGERS, DATE):
                    raise _bad(self, "a range frame with an offset needs one order key, an integer")
            made.append(Field(column.name, self._type(column.function)))
        _settle(self, "analytic", below + tuple(made))

    def _type(self, function: Aggregate) -> DataType:
        below = self.child.schema
        if isinstance(function, AggregateCall) and function.function in functions.ANALYTIC:
            if not self.orders:
                raise _bad(self, f"{function.function} needs an order")
            if function.function in ("lag", "lead") and not (
                len(function.arguments) == 2
                and isinstance(function.arguments[1], Literal)
                and isinstance(function.arguments[1].value, int)
            ):
                raise _bad(self, f"{function.function} takes a value and an int literal")
            return functions.analytic_result_type(function.function, [type_of(a, below) for a in function.arguments])
        return aggregate_type(function, below)


@dataclass(frozen=True, slots=True, eq=False)
class Watermark:
    """The promise that times in ``column`` are at most ``delay`` microseconds out of order.

    It changes nothing in a batch.
    """

    child: Node
    column: str
    delay: int
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        _need_column(self, self.column, self.child.schema)
        given = next(f.type for f in self.child.schema if f.name == self.column)
        window = isinstance(given, StructType)
        if given not in (TIMESTAMP, TIMESTAMP_NTZ) and not window:
            raise _bad(self, f"a watermark needs a timestamp, not {given}")
        if self.delay < 0:
            raise _bad(self, "the delay must not be negative")
        _settle(self, "watermark", self.child.schema)


@dataclass(frozen=True, slots=True, eq=False)
class OpaqueStep:
    """A function over whole rows that the algebra does not understand, of a declared kind.

    ``per_row``: each input row alone makes some result rows; ``per_group``: each group of equal
    ``keys`` does, and results that keep the keys have them under the same names; ``black_box``:
    all rows together do. ``carried`` columns of a per-row step's input stand beside its results.
    ``key`` finds the function while the session lives.
    """

    child: Node
    kind: OpaqueKind
    key: str
    fields: Schema
    keys: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    deterministic: bool = True
    step: str = ""
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        if self.kind not in ("per_row", "per_group", "black_box"):
            raise _bad(self, f"unknown kind {self.kind!r}; known: per_row, per_group, black_box")
        for name in (*self.keys, *self.carried):
            _need_column(self, name, self.child.schema)
        if self.carried and self.kind != "per_row":
            raise _bad(self, "only a per-row step can carry columns")
        if bool(self.keys) != (self.kind == "per_group"):
            raise _bad(self, "keys belong to a per-group step, and it needs them")
        carried = tuple(f for f in self.child.schema if f.name in self.carried)
        _settle(self, "opaque step", self.fields + carried)


Node = (
    Source | Values | Project | Filter | Generate | Union | Join | EventWindow | Group | Distinct
    | Deduplicate | SetOperation | Sort | Limit | Analytic | Watermark | OpaqueStep
)  # fmt: skip


def children(node: Node) -> tuple[Node, ...]:
    """The inputs of a node, in order."""
    match node:
        case Source() | Values():
            return ()
        case Union():
            return node.children
        case Join() | SetOperation():
            return (node.left, node.right)
        case (
            Project() | Filter() | Generate() | EventWindow() | Group() | Distinct()
            | Deduplicate() | Sort() | Limit() | Analytic() | Watermark() | OpaqueStep()
        ):  # fmt: skip
            return (node.child,)
        case _:
            assert_never(node)


def with_children(node: Node, new: tuple[Node, ...]) -> Node:
    """The same operator over other inputs; the node itself where they are the same."""
    if all(a is b for a, b in zip(children(node), new, strict=True)):
        return node
    match node:
        case Source() | Values():
            return node
        case Union():
            return replace(node, children=new)
        case Join() | SetOperation():
            return replace(node, left=new[0], right=new[1])
        case (
            Project() | Filter() | Generate() | EventWindow() | Group() | Distinct()
            | Deduplicate() | Sort() | Limit() | Analytic() | Watermark() | OpaqueStep()
        ):  # fmt: skip
            return replace(node, child=new[0])
        case _:
            assert_never(node)


def walk(plan: Node) -> Iterator[Node]:
    """Every node once, children before parents."""
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(plan, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(children(node)))


def transform(plan: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with ``change`` applied to every node, children first; sharing is kept."""
    done: dict[Node, Node] = {}
    for node in walk(plan):
        done[node] = change(with_children(node, tuple(done[c] for c in children(node))))
    return done[plan]


def sources(plan: Node) -> dict[str, Source]:
    """The sources of a plan by name; a PlanError where two of one name differ.

    In a rewritten plan one source may stand with and without hidden columns; the answer has all.
    """
    found: dict[str, Source] = {}
    for node in walk(plan):
        if not isinstance(node, Source):
            continue
        other = found.setdefault(node.name, node)
        if _visible(other) != _visible(node):
            raise PlanError(
                f"two sources are called {node.name!r} and have different columns",
                hint="name them apart with sources=",
            )
        more = tuple(f for f in node.fields if f not in other.fields)
        if more:
            found[node.name] = replace(other, fields=other.fields + more)
    return found


def _visible(source: Source) -> Schema:
    return tuple(f for f in source.fields if not f.name.startswith(PREFIX))


def names(plan: Node) -> tuple[str, ...]:
    """The column names of a node's result."""
    return tuple(f.name for f in plan.schema)


def kind_of(node: Node) -> str:
    """The word for a node's operator, as the text form writes it."""
    match node:
        case EventWindow():
            return "window"
        case SetOperation():
            return node.kind
        case OpaqueStep():
            return "opaque"
        case _:
            return type(node).__name__.lower()


def label(node: Node) -> str:
    """How messages call a node: its kind and its step name."""
    return f"{kind_of(node)} {node.step!r}" if node.step else kind_of(node)


def _bad(node: object, detail: str) -> PlanError:
    step = getattr(node, "step", "")
    word = type(node).__name__.lower()
    return PlanError(
        f"malformed {word}" + (f" {step!r}" if step else ""),
        detail=detail,
        hint="see docs/plan.md for what each node takes",
    )


def _settle(node: object, what: str, schema: Schema) -> None:
    """Check that names are unique and keep the schema on the frozen node."""
    seen: set[str] = set()
    for column in schema:
        if column.name in seen:
            raise _bad(node, f"column {column.name!r} is there twice; rename one")
        seen.add(column.name)
    object.__setattr__(node, "schema", tuple(schema))


def _need_column(node: object, name: str, schema: Schema) -> None:
    if all(f.name != name for f in schema):
        raise unknown_column(name, schema)


def _need_boolean(node: object, condition: Expression, schema: Schema) -> None:
    given = type_of(condition, schema)
    if given not in (BOOLEAN, VOID):
        raise _bad(node, f"the condition must be boolean, not {given}")


def _need_orders(node: object, orders: tuple[Order, ...], schema: Schema) -> None:
    for order in orders:
        given = type_of(order.expression, schema)
        if not is_orderable(given):
            raise _bad(node, f"cannot order by a value of type {given}")


def _need_same_types(node: object, inputs: tuple[Node, ...]) -> None:
    first = tuple(f.type for f in inputs[0].schema)
    for other in inputs[1:]:
        types = tuple(f.type for f in other.schema)
        if types != first:
            raise _bad(
                node,
                f"inputs differ in types: ({', '.join(map(str, first))}) and "
                f"({', '.join(map(str, types))}); project them to the same",
            )
