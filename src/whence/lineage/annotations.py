"""Annotations: a plan rewritten so that columns about lineage stand beside the user's; one rule a node kind.

What the columns hold, and what happens to them where rows are merged, is a ``Form``: ``carry`` has
lists of ids, ``intervals`` ranges of them. Everything else is here: which annotations reach which
node, and how set operations and semi joins become groups and joins that do not double rows. The
rewritten plan has as many sources and non-deterministic expressions as the user's, whatever the
form. What cannot be annotated says so by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar, assert_never

from whence.errors import NotTraceable
from whence.lineage.back import Role
from whence.lineage.fresh import Fresh, join_same, pick, with_row_id
from whence.plan.expressions import AggregateCall, Call, Column, Expression, Literal, columns_of, conjuncts
from whence.plan.hidden import ROW_ID
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
from whence.plan.types import BIGINT, Field


class Annotation(Protocol):
    """What one source brings to a node's rows in one role: some columns of the rewritten plan."""

    @property
    def source(self) -> str: ...
    @property
    def role(self) -> Role: ...
    @property
    def columns(self) -> tuple[str, ...]: ...


A = TypeVar("A", bound=Annotation)


@dataclass(frozen=True, slots=True)
class Gathered(Generic[A]):
    """How an annotation passes a group: what to aggregate, and which of that to compute further, by name."""

    annotation: A
    aggregates: tuple[NamedAggregate, ...]
    after: tuple[Named, ...] = ()


@dataclass(frozen=True, slots=True)
class Framed(Generic[A]):
    """How an annotation passes an analytic node: columns of the node, and what to compute from them above it."""

    annotation: A
    columns: tuple[NamedAnalytic, ...]
    after: tuple[Named, ...]


class Form(Protocol[A]):
    """What annotations hold. Each method gives the new annotation with the columns that make it."""

    @property
    def refusal(self) -> str:
        """What cannot be done with a node, as in 'captured eagerly'."""

    def source(self, name: str, column: str) -> A:
        """A source's rows, their ids in a column."""

    def condition(self, annotation: A) -> A:
        """What only decided that a row exists."""

    def gather(self, annotation: A) -> Gathered[A]:
        """The rows of a group."""

    def together(self, parts: list[A]) -> tuple[A, tuple[Named, ...]]:
        """One source in one role, met on both sides of a join."""

    def line_up(self, parts: list[A | None]) -> tuple[A, list[tuple[Named, ...]]]:
        """One source in one role over a union's branches, some of which may lack it; the columns a branch."""

    def frames(self, node: Analytic, annotation: A) -> Framed[A]:
        """A row of an analytic node and the rows of its frames."""


@dataclass(frozen=True, slots=True)
class Annotated(Generic[A]):
    """A plan that gives a node's columns and those of annotations; each source and role comes once."""

    plan: Node
    annotations: tuple[A, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of all annotations, in order."""
        return tuple(c for a in self.annotations for c in a.columns)


@dataclass(frozen=True, slots=True)
class Annotator(Generic[A]):
    """One rewriting; the rules by node kind."""

    form: Form[A]
    fresh: Fresh = field(default_factory=Fresh)

    def annotate(self, node: Node) -> Annotated[A]:
        """The node with its annotations."""
        match node:
            case Source():
                column = self.fresh.name("c")
                kept = [Named(n, Column(n)) for n in names(node)]
                plan = Project(with_row_id(node), (*kept, Named(column, Column(ROW_ID))))
                return Annotated(plan, (self.form.source(node.name, column),))
            case Values():
                return Annotated(node, ())
            case Project():
                below = self.annotate(node.child)
                kept = [Named(c, Column(c)) for c in below.columns]
                plan = replace(node, child=below.plan, columns=(*node.columns, *kept))
                return Annotated(plan, below.annotations)
            case (
                Filter() | Sort() | Limit() | Watermark() | Deduplicate() | Generate()
                | EventWindow()
            ):  # fmt: skip
                below = self.annotate(node.child)
                return Annotated(replace(node, child=below.plan), below.annotations)
            case Union():
                return self.union(node)
            case Join():
                return self.join(node)
            case Group():
                return self.group(self.annotate(node.child), node.keys, node.aggregates, node.step)
            case Distinct():
                keys = tuple(Named(n, Column(n)) for n in names(node))
                return self.group(self.annotate(node.child), keys, (), node.step)
            case SetOperation():
                return self.set_operation(node)
            case Analytic():
                return self.analytic(node)
            case OpaqueStep(kind="per_row"):
                below = self.annotate(node.child)
                carried = (*node.carried, *below.columns)
                return Annotated(replace(node, child=below.plan, carried=carried), below.annotations)
            case OpaqueStep():
                raise self.refuse(node, "ids cannot pass through a function over many rows")
            case _:
                assert_never(node)

    def refuse(self, node: Node, why: str) -> NotTraceable:
        return NotTraceable(
            f"{label(node)} cannot be {self.form.refusal}",
            detail=why,
            hint='use capture="lazy", which traces it when asked',
        )

    def group(
        self, below: Annotated[A], keys: tuple[Named, ...], aggregates: tuple[NamedAggregate, ...], step: str = ""
    ) -> Annotated[A]:
        """Groups of rows, each with what its rows bring."""
        gathered = [self.form.gather(a) for a in below.annotations]
        made = tuple(aggregate for g in gathered for aggregate in g.aggregates)
        plan: Node = Group(below.plan, keys, (*aggregates, *made), step=step)
        after = {named.name: named for g in gathered for named in g.after}
        if after:
            plan = Project(plan, tuple(after.get(n, Named(n, Column(n))) for n in names(plan)))
        return Annotated(plan, tuple(g.annotation for g in gathered))

    def union(self, node: Union) -> Annotated[A]:
        branches = [self.annotate(child) for child in node.children]
        found = [{(a.source, a.role): a for a in branch.annotations} for branch in branches]
        kept = [
            [Named(out, Column(own)) for out, own in zip(names(node), names(child), strict=True)]
            for child in node.children
        ]
        annotations: list[A] = []
        for key in dict.fromkeys(key for mine in found for key in mine):
            annotation, columns = self.form.line_up([mine.get(key) for mine in found])
            annotations.append(annotation)
            for own, more in zip(kept, columns, strict=True):
                own.extend(more)
        inputs = tuple(Project(branch.plan, tuple(own)) for branch, own in zip(branches, kept, strict=True))
        return Annotated(replace(node, children=inputs), tuple(annotations))

    def join(self, node: Join) -> Annotated[A]:
        if node.kind == "anti":
            left = self.annotate(node.left)
            return Annotated(replace(node, left=left.plan), left.annotations)
        if node.kind == "semi":
            return self.semi(node)
        left, right = self.annotate(node.left), self.annotate(node.right)
        joined = replace(node, left=left.plan, right=right.plan)
        return self.together(joined, names(node), (*left.annotations, *right.annotations))

    def together(self, plan: Node, keep_names: tuple[str, ...], annotations: tuple[A, ...]) -> Annotated[A]:
        """One annotation a source and role where both sides of a join bring one."""
        by_source: dict[tuple[str, Role], list[A]] = {}
        for a in annotations:
            by_source.setdefault((a.source, a.role), []).append(a)
        if all(len(parts) == 1 for parts in by_source.values()):
            return Annotated(plan, annotations)
        kept = [Named(n, Column(n)) for n in keep_names]
        merged: list[A] = []
        for parts in by_source.values():
            if len(parts) == 1:
                kept += [Named(c, Column(c)) for c in parts[0].columns]
                merged.append(parts[0])
                continue
            annotation, columns = self.form.together(parts)
            kept += columns
            merged.append(annotation)
        return Annotated(Project(plan, tuple(kept)), tuple(merged))

    def semi(self, node: Join) -> Annotated[A]:
        """The right rows grouped by what the condition compares, so that no left row doubles."""
        left, right = self.annotate(node.left), self.annotate(node.right)
        if not right.annotations:
            return Annotated(replace(node, left=left.plan), left.annotations)
        let_pass = Annotated(right.plan, tuple(self.form.condition(a) for a in right.annotations))
        tests = self.equalities(node)
        keys = tuple(Named(self.fresh.name("g"), theirs) for _, _, theirs in tests)
        if keys:
            grouped = self.group(let_pass, keys, ())
        else:  # no condition: any right row lets every left row pass
            some = self.fresh.name("n")
            whole = self.group(let_pass, (), (NamedAggregate(some, AggregateCall("count")),))
            met = Call(">", (Column(some), Literal(0, BIGINT)))
            grouped = Annotated(Filter(whole.plan, met), whole.annotations)
        condition: Expression | None = None
        for (operator, mine, _), key in zip(tests, keys, strict=True):
            test = Call(operator, (mine, Column(key.name)))
            condition = test if condition is None else Call("and", (condition, test))
        joined = Join(left.plan, grouped.plan, "inner", condition, step=node.step)
        return self.merged(node, joined, (*left.annotations, *grouped.annotations))

    def equalities(self, node: Join) -> list[tuple[str, Expression, Expression]]:
        """A semi join's condition as equalities: the operator, the left row's value, the right row's."""
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
            raise self.refuse(node, "its condition is more than equalities, so its ids cannot be grouped")
        return tests

    def merged(self, node: Node, plan: Node, annotations: tuple[A, ...]) -> Annotated[A]:
        """The node's own columns out of a plan with more, and the annotations, each source and role once."""
        together = self.together(plan, names(node), annotations)
        wanted = (*names(node), *together.columns)
        return Annotated(pick(together.plan, wanted, wanted), together.annotations)

    def set_operation(self, node: SetOperation) -> Annotated[A]:
        left, right = self.annotate(node.left), self.annotate(node.right)
        count_left, count_right = self.fresh.name("n"), self.fresh.name("n")
        one = self.counted(node.left, left, count_left, names(node.left))
        own = tuple(self.fresh.name("g") for _ in names(node.right))
        two = self.counted(node.right, right, count_right, own)
        pairs = join_same(one.plan, two.plan, names(node.left), own)
        joined: Node = pairs
        copies: Expression
        if node.kind == "intersect":
            annotations: tuple[A, ...] = (*one.annotations, *two.annotations)
            copies = Call("least", (Column(count_left), Column(count_right)))
        else:
            joined = replace(pairs, kind="left" if node.all else "anti")
            annotations = one.annotations
            other = Call("coalesce", (Column(count_right), Literal(0, BIGINT)))
            copies = Call("-", (Column(count_left), other))
        if node.all:
            copy = self.fresh.name("p")
            numbers = Call("sequence", (Literal(1, BIGINT), copies))
            joined = Generate(joined, numbers, (Field(copy, BIGINT),))
        return self.merged(node, joined, annotations)

    def counted(self, child: Node, below: Annotated[A], count: str, key_names: tuple[str, ...]) -> Annotated[A]:
        """Equal rows once, with how many they were and what they bring."""
        keys = tuple(Named(key, Column(own)) for key, own in zip(key_names, names(child), strict=True))
        return self.group(below, keys, (NamedAggregate(count, AggregateCall("count")),))

    def analytic(self, node: Analytic) -> Annotated[A]:
        below = self.annotate(node.child)
        framed = [self.form.frames(node, a) for a in below.annotations]
        made = tuple(column for f in framed for column in f.columns)
        widened = replace(node, child=below.plan, columns=(*node.columns, *made))
        kept = tuple(Named(n, Column(n)) for n in names(node))
        after = tuple(named for f in framed for named in f.after)
        return Annotated(Project(widened, (*kept, *after)), tuple(f.annotation for f in framed))
