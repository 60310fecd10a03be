"""Carry: the user's plan with every row's source ids beside it, for eager capture.

Each source that reaches a row has one annotation column: its id while that is a single one, an
array of ids once rows were merged or a source met itself. Arrays may hold an id twice and null
(readers deduplicate); they are never unnested in the running query. The carried plan has as many
sources and non-deterministic expressions as the user's. What cannot be carried says so by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from whence.errors import NotTraceable
from whence.lineage.back import Role
from whence.lineage.frames import frame_of
from whence.lineage.fresh import Fresh, join_same, pick, with_row_id
from whence.plan.expressions import (
    AggregateCall,
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    columns_of,
    conjuncts,
    type_of,
)
from whence.plan.hidden import PREFIX, ROW_ID
from whence.plan.nodes import (
    Analytic,
    Deduplicate,
    Distinct,
    EventWindow,
    Filter,
    Frame,
    Generate,
    Group,
    Join,
    Limit,
    Named,
    NamedAggregate,
    NamedAnalytic,
    Node,
    OpaqueStep,
    Project,
    SetOperation,
    Sort,
    Source,
    Union,
    Values,
    Watermark,
    label,
    names,
)
from whence.plan.types import BIGINT, ArrayType, Field

IDS = ArrayType(BIGINT)
EMPTY_IDS = Cast(Call("array", ()), IDS)


@dataclass(frozen=True, slots=True)
class Carry:
    """An annotation column: which source's ids it holds, in which role, one or many."""

    column: str
    source: str
    role: Role
    many: bool


@dataclass(frozen=True, slots=True)
class Carried:
    """A plan that gives the user's columns and then annotation columns."""

    plan: Node
    columns: tuple[Carry, ...]


def carry(plan: Node) -> Carried:
    """The plan with its rows' source ids; the user's columns first, in their order."""
    carried = _Carrier(Fresh()).carry(plan)
    final = tuple(replace(c, column=f"{PREFIX}c{i}") for i, c in enumerate(carried.columns))
    old = (*names(plan), *(c.column for c in carried.columns))
    new = (*names(plan), *(c.column for c in final))
    return Carried(pick(carried.plan, old, new), final)


def _refuse(node: Node, why: str) -> NotTraceable:
    return NotTraceable(
        f"{label(node)} cannot be captured eagerly",
        detail=why,
        hint='use capture="lazy", which traces it when asked',
    )


class _Carrier:
    """One rewriting; the rules by node kind."""

    def __init__(self, fresh: Fresh) -> None:
        self.fresh = fresh

    def carry(self, node: Node) -> Carried:
        match node:
            case Source():
                column = self.fresh.name("c")
                kept = [Named(n, Column(n)) for n in names(node)]
                plan = Project(with_row_id(node), (*kept, Named(column, Column(ROW_ID))))
                return Carried(plan, (Carry(column, node.name, "value", False),))
            case Values():
                return Carried(node, ())
            case Project():
                below = self.carry(node.child)
                kept = [Named(c.column, Column(c.column)) for c in below.columns]
                plan = replace(node, child=below.plan, columns=(*node.columns, *kept))
                return Carried(plan, below.columns)
            case (
                Filter() | Sort() | Limit() | Watermark() | Deduplicate() | Generate()
                | EventWindow()
            ):  # fmt: skip
                below = self.carry(node.child)
                return Carried(replace(node, child=below.plan), below.columns)
            case Union():
                return self.union(node)
            case Join():
                return self.join(node)
            case Group():
                below = self.carry(node.child)
                made, columns = self.collected(below)
                grouped = replace(node, child=below.plan, aggregates=(*node.aggregates, *made))
                return self.flat(Carried(grouped, columns), below)
            case Distinct():
                below = self.carry(node.child)
                made, columns = self.collected(below)
                keys = tuple(Named(n, Column(n)) for n in names(node))
                return self.flat(Carried(Group(below.plan, keys, made, step=node.step), columns), below)
            case SetOperation():
                return self.set_operation(node)
            case Analytic():
                return self.analytic(node)
            case OpaqueStep(kind="per_row"):
                below = self.carry(node.child)
                carried = (*node.carried, *(c.column for c in below.columns))
                return Carried(replace(node, child=below.plan, carried=carried), below.columns)
            case OpaqueStep():
                raise _refuse(node, "ids cannot pass through a function over many rows")
            case _:
                assert_never(node)

    def collected(self, below: Carried) -> tuple[tuple[NamedAggregate, ...], tuple[Carry, ...]]:
        """Aggregates that collect the ids of a group's rows, and what they make."""
        made: list[NamedAggregate] = []
        columns: list[Carry] = []
        for c in below.columns:
            name = self.fresh.name("c")
            made.append(NamedAggregate(name, AggregateCall("collect_list", (Column(c.column),))))
            columns.append(Carry(name, c.source, c.role, True))
        return tuple(made), tuple(columns)

    def flat(self, grouped: Carried, below: Carried) -> Carried:
        """Arrays of arrays made flat, where what was collected were arrays already."""
        nested = {c.column for c, inner in zip(grouped.columns, below.columns, strict=True) if inner.many}
        if not nested:
            return grouped
        columns = tuple(
            Named(n, Call("flatten", (Column(n),)) if n in nested else Column(n)) for n in names(grouped.plan)
        )
        return Carried(Project(grouped.plan, columns), grouped.columns)

    def union(self, node: Union) -> Carried:
        branches = [self.carry(child) for child in node.children]
        shapes: dict[tuple[str, Role], bool] = {}
        for branch in branches:
            for c in branch.columns:
                shapes[c.source, c.role] = shapes.get((c.source, c.role), False) or c.many
        columns = tuple(Carry(self.fresh.name("c"), source, role, many) for (source, role), many in shapes.items())
        inputs: list[Node] = []
        for child, branch in zip(node.children, branches, strict=True):
            mine = {(c.source, c.role): c for c in branch.columns}
            kept = [Named(out, Column(own)) for out, own in zip(names(node), names(child), strict=True)]
            kept += [Named(c.column, self.as_shape(mine.get((c.source, c.role)), c.many)) for c in columns]
            inputs.append(Project(branch.plan, tuple(kept)))
        return Carried(replace(node, children=tuple(inputs)), columns)

    def as_shape(self, column: Carry | None, many: bool) -> Expression:
        if column is None:
            return Literal(None, IDS if many else BIGINT)
        value = Column(column.column)
        return Call("array", (value,)) if many and not column.many else value

    def join(self, node: Join) -> Carried:
        if node.kind == "anti":
            left = self.carry(node.left)
            return Carried(replace(node, left=left.plan), left.columns)
        if node.kind == "semi":
            return self.semi(node)
        left, right = self.carry(node.left), self.carry(node.right)
        joined = replace(node, left=left.plan, right=right.plan)
        return self.together(joined, names(node), (*left.columns, *right.columns))

    def together(self, plan: Node, keep_names: tuple[str, ...], columns: tuple[Carry, ...]) -> Carried:
        """One column a source and role where both sides of a join bring one."""
        by_source: dict[tuple[str, Role], list[Carry]] = {}
        for c in columns:
            by_source.setdefault((c.source, c.role), []).append(c)
        if all(len(same) == 1 for same in by_source.values()):
            return Carried(plan, columns)
        kept = [Named(n, Column(n)) for n in keep_names]
        merged: list[Carry] = []
        for (source, role), parts in by_source.items():
            if len(parts) == 1:
                kept.append(Named(parts[0].column, Column(parts[0].column)))
                merged.append(parts[0])
                continue
            name = self.fresh.name("c")
            lists = tuple(
                Call("coalesce", (Column(p.column), EMPTY_IDS)) if p.many else Call("array", (Column(p.column),))
                for p in parts
            )
            kept.append(Named(name, Call("array_concat", lists)))
            merged.append(Carry(name, source, role, True))
        return Carried(Project(plan, tuple(kept)), tuple(merged))

    def semi(self, node: Join) -> Carried:
        """The right rows grouped by what the condition compares, so that no left row doubles."""
        left, right = self.carry(node.left), self.carry(node.right)
        if not right.columns:
            return Carried(replace(node, left=left.plan), left.columns)
        left_names, right_names = set(names(node.left)), set(names(node.right))
        operator: str
        tests: list[tuple[str, Expression, Expression]] = []
        for part in conjuncts(node.condition) if node.condition is not None else []:
            match part:
                case Call("=" | "<=>" as operator, (a, b)):
                    if columns_of(a) <= left_names and columns_of(b) <= right_names:
                        tests.append((operator, a, b))
                        continue
                    if columns_of(b) <= left_names and columns_of(a) <= right_names:
                        tests.append((operator, b, a))
                        continue
            raise _refuse(node, "its condition is more than equalities, so its ids cannot be grouped")
        keys = tuple(Named(self.fresh.name("g"), e) for _, _, e in tests)
        made, columns = self.collected(right)
        grouped = self.flat(Carried(Group(right.plan, keys, made), columns), right)
        if not keys:  # no condition: any right row lets every left row pass
            some = self.fresh.name("n")
            counted = Group(right.plan, (), (*made, NamedAggregate(some, AggregateCall("count"))))
            whole = self.flat(Carried(counted, columns), right)
            grouped = Carried(Filter(whole.plan, Call(">", (Column(some), Literal(0, BIGINT)))), columns)
        condition: Expression | None = None
        for (operator, mine, _), key in zip(tests, keys, strict=True):
            test = Call(operator, (mine, Column(key.name)))
            condition = test if condition is None else Call("and", (condition, test))
        joined = Join(left.plan, grouped.plan, "inner", condition, step=node.step)
        let_pass = tuple(replace(c, role="condition") for c in grouped.columns)
        together = self.together(joined, names(node), (*left.columns, *let_pass))
        wanted = (*names(node), *(c.column for c in together.columns))
        return Carried(pick(together.plan, wanted, wanted), together.columns)

    def set_operation(self, node: SetOperation) -> Carried:
        left, right = self.carry(node.left), self.carry(node.right)
        count_left, count_right = self.fresh.name("n"), self.fresh.name("n")
        one = self.counted(node.left, left, count_left, names(node.left))
        own = tuple(self.fresh.name("g") for _ in names(node.right))
        two = self.counted(node.right, right, count_right, own)
        copies: Expression
        if node.kind == "intersect":
            joined: Node = join_same(one.plan, two.plan, names(node.left), own)
            columns: tuple[Carry, ...] = (*one.columns, *two.columns)
            copies = Call("least", (Column(count_left), Column(count_right)))
        else:
            kind_plan = join_same(one.plan, two.plan, names(node.left), own)
            joined = replace(kind_plan, kind="left" if node.all else "anti")
            columns = one.columns
            zero = Literal(0, BIGINT)
            other = Call("coalesce", (Column(count_right), zero))
            copies = Call("-", (Column(count_left), other))
        if node.all:
            copy = self.fresh.name("p")
            numbers = Call("sequence", (Literal(1, BIGINT), copies))
            joined = Generate(joined, numbers, (Field(copy, BIGINT),))
        together = self.together(joined, names(node), columns)
        wanted = (*names(node), *(c.column for c in together.columns))
        return Carried(pick(together.plan, wanted, wanted), together.columns)

    def counted(self, child: Node, below: Carried, count: str, key_names: tuple[str, ...]) -> Carried:
        """Equal rows once, with how many they were and their ids."""
        keys = tuple(Named(key, Column(own)) for key, own in zip(key_names, names(child), strict=True))
        made, columns = self.collected(below)
        grouped = Group(below.plan, keys, (*made, NamedAggregate(count, AggregateCall("count"))))
        return self.flat(Carried(grouped, columns), below)

    def analytic(self, node: Analytic) -> Carried:
        below = self.carry(node.child)
        frames: dict[Frame, None] = {}
        for column in node.columns:
            frames[frame_of(column)] = None
        made: list[NamedAnalytic] = []
        parts: dict[str, list[str]] = {c.column: [] for c in below.columns}
        for frame in frames:
            for c in below.columns:
                name = self.fresh.name("c")
                collect = AggregateCall("collect_list", (Column(c.column),))
                made.append(NamedAnalytic(name, collect, frame))
                parts[c.column].append(name)
        widened = replace(node, child=below.plan, columns=(*node.columns, *made))
        kept = [Named(n, Column(n)) for n in names(node)]
        columns: list[Carry] = []
        for c in below.columns:
            name = self.fresh.name("c")
            own: Expression = Column(c.column)
            own = Call("coalesce", (own, EMPTY_IDS)) if c.many else Call("array", (own,))
            lists = [Call("flatten", (Column(p),)) if c.many else Column(p) for p in parts[c.column]]
            kept.append(Named(name, Call("array_concat", (own, *lists))))
            columns.append(Carry(name, c.source, c.role, True))
        return Carried(Project(widened, tuple(kept)), tuple(columns))


def has_carry_types(carried: Carried) -> bool:
    """Whether each annotation column has the type its shape says; a check for tests."""
    schema = carried.plan.schema
    return all(type_of(Column(c.column), schema) == (IDS if c.many else BIGINT) for c in carried.columns)
