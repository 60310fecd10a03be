"""Small tools of the rewriting: names no user has, equality that takes nulls as equal, flattening."""

from __future__ import annotations

from whence.errors import NotTraceable
from whence.plan.expressions import Call, Column, Expression, Member, conjunction
from whence.plan.hidden import PREFIX, ROW_ID
from whence.plan.nodes import Join, Named, Node, Project, Source, names
from whence.plan.types import BIGINT, DataType, Field, Schema, StructType, is_orderable


class Fresh:
    """Hands out hidden column names, each once for one rewriting."""

    def __init__(self) -> None:
        self.count = 0

    def name(self, kind: str) -> str:
        """A new name; ``kind`` is a letter that helps whoever reads the rewritten plan."""
        self.count += 1
        return f"{PREFIX}{kind}{self.count}"

    def names(self, kind: str, count: int) -> tuple[str, ...]:
        """Several new names."""
        return tuple(self.name(kind) for _ in range(count))


def with_row_id(source: Source) -> Source:
    """The source with its row id as a last column."""
    return Source(source.name, (*source.fields, Field(ROW_ID, BIGINT)), step=source.step)


def keep(node: Node, *more: Named) -> Project:
    """All columns of a node and more beside them."""
    return Project(node, (*(Named(n, Column(n)) for n in names(node)), *more))


def pick(node: Node, old: tuple[str, ...], new: tuple[str, ...]) -> Project:
    """Some columns of a node under new names."""
    return Project(node, tuple(Named(to, Column(name)) for name, to in zip(old, new, strict=True)))


def types_of(node: Node, columns: tuple[str, ...]) -> tuple[DataType, ...]:
    """The types of some columns of a node."""
    found = {f.name: f.type for f in node.schema}
    return tuple(found[c] for c in columns)


def same(left: tuple[str, ...], right: tuple[str, ...]) -> Expression | None:
    """Equality of two rows of columns, nulls equal; None where there are no columns."""
    pairs: list[Expression] = [Call("<=>", (Column(a), Column(b))) for a, b in zip(left, right, strict=True)]
    return conjunction(pairs) if pairs else None


def join_same(left: Node, right: Node, left_keys: tuple[str, ...], right_keys: tuple[str, ...]) -> Join:
    """The pairs of rows whose keys are the same; every pair where there are no keys."""
    return Join(left, right, "inner", same(left_keys, right_keys))


def flatten(expression: Expression, type: DataType, step: str) -> tuple[Expression, ...]:
    """Plain values that together identify a value: the members of a struct, and if it is null."""
    match type:
        case StructType(fields):
            inside = [part for field in fields for part in flatten(Member(expression, field.name), field.type, step)]
            return (Call("isnull", (expression,)), *inside)
        case _ if is_orderable(type):
            return (expression,)
        case _:
            raise NotTraceable(
                f"rows of {step} cannot be told apart",
                detail=f"a column of type {type} cannot be compared",
                hint="leave that column out before this step, or capture eagerly",
            )


def flatten_schema(schema: Schema, step: str) -> tuple[Expression, ...]:
    """Plain values that together identify a row."""
    return tuple(part for f in schema for part in flatten(Column(f.name), f.type, step))
