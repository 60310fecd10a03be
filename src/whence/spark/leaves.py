"""Leaves: the tables a Catalyst plan reads, what they are, and the source names they get.

One table read twice is one source. The caller's ``sources=`` names tables by DataFrames that read them, otherwise a
table is called as in the catalog, otherwise as its folder or file. Reading and pinning them is ``sources``' work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from whence.errors import NotTraceable, UnknownSource
from whence.plan.types import Field, Schema
from whence.spark.jvm import JavaObject, Jvm, analyzed, items, option, simple_name
from whence.spark.names import refuse_hidden
from whence.spark.types import data_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE_RELATION = "HadoopFsRelation"
STREAMS = frozenset({"StreamingRelation", "StreamingRelationV2", "StreamingExecutionRelation"})
MEMORY = frozenset({"LocalRelation", "LogicalRDD", "ExternalRDD", "CommandResult"})
NO_TABLE = frozenset({"OneRowRelation"})
"""Leaves that are part of the query and read nothing."""
REFUSED = {
    "CTERelationRef": "a common table expression that Spark did not inline",
    "UnionLoopRef": "a recursive query reads itself, as often as its rows say",
    "Transpose": "its values are computed when the plan is made, so the rows it came from are gone",
}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A table the query reads.

    ``kind`` is "parquet" or "files" (other formats), "stream-parquet", "stream-files" or "stream", "memory",
    "range", or "table" (anything else). ``node`` is its Catalyst leaf where it is met first; ``roots`` are the
    paths it was asked for, ``format`` and ``options`` how it reads them, ``table`` its name in the catalog.
    """

    name: str
    kind: str
    node: JavaObject
    fields: Schema
    roots: tuple[str, ...] = ()
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    table: str | None = None

    @property
    def is_streaming(self) -> bool:
        """Whether its rows arrive over time."""
        return self.kind.startswith("stream")

    def files(self) -> tuple[str, ...]:
        """The addresses of all its files now, as Spark lists them; none where it reads no files."""
        if self.kind not in ("parquet", "files"):
            return ()
        return tuple(str(uri) for uri in self.node.relation().location().inputFiles())

    def frame(self, jvm: Jvm) -> DataFrame:
        """A DataFrame of it: its own columns and nothing else."""
        return jvm.frame(jvm.project(items(self.node.output()), self.node))


def collect(plan: JavaObject) -> list[JavaObject]:
    """The leaf nodes of a plan, left to right."""
    found: list[JavaObject] = []
    stack = [plan]
    while stack:
        node = stack.pop()
        below = items(node.children())
        if below:
            stack.extend(reversed(below))
        elif simple_name(node) not in NO_TABLE:
            found.append(node)
    return found


def same_table(jvm: Jvm, one: JavaObject, other: JavaObject) -> bool:
    """Whether two leaves read the same table."""
    if _shares_attributes(one, other):
        return True
    kind = simple_name(one)
    if kind != simple_name(other):
        return False
    if kind == "LocalRelation":
        # Equal rows do not make two tables one; the same rows in memory do.
        identity = jvm.type("java.lang.System").identityHashCode
        return bool(identity(one.data()) == identity(other.data()))
    return bool(one.sameResult(other))


def _shares_attributes(one: JavaObject, other: JavaObject) -> bool:
    ids = {attribute.exprId().id() for attribute in items(one.output())}
    return any(attribute.exprId().id() in ids for attribute in items(other.output()))


def name_leaves(
    jvm: Jvm, plan: JavaObject, given: Mapping[str, DataFrame], views: Iterable[tuple[JavaObject, str]] = ()
) -> list[Leaf]:
    """The tables of a plan, each once, under their source names. ``views`` name those without a name of their own."""
    groups: list[list[JavaObject]] = []
    for node in collect(plan):
        _refuse(node)
        for group in groups:
            if same_table(jvm, group[0], node):
                group.append(node)
                break
        else:
            groups.append([node])
    chosen = _choose(jvm, groups, given)
    taken = {name.lower() for name in chosen.values()}
    leaves = []
    for number, group in enumerate(groups):
        viewed = (view for node, view in views if same_table(jvm, group[0], node))
        name = chosen.get(number)
        if name is None:
            name = _free(_own_name(group[0]) or next(viewed, None) or f"source_{number + 1}", taken)
        leaves.append(_describe(name, group))
    return leaves


def _refuse(node: JavaObject) -> None:
    kind = simple_name(node)
    if kind in REFUSED:
        raise NotTraceable(
            f"{kind} cannot be traced",
            detail=REFUSED[kind],
            hint="write this part to a table first and read it from there",
        )


def _choose(jvm: Jvm, groups: list[list[JavaObject]], given: Mapping[str, DataFrame]) -> dict[int, str]:
    """The names that the caller gave, by the number of the table."""
    wanted = {name: _only_leaf(jvm, name, df) for name, df in given.items()}
    chosen: dict[int, str] = {}
    # A DataFrame that is in the query itself names its own table, before others that read the same files may.
    for exact in (True, False):
        for name, leaf in wanted.items():
            if name in chosen.values():
                continue
            for number, group in enumerate(groups):
                match = _shares_attributes if exact else lambda a, b: same_table(jvm, a, b)
                if number not in chosen and any(match(leaf, node) for node in group):
                    chosen[number] = name
                    break
    for name in given:
        if name not in chosen.values():
            raise UnknownSource(
                f"the query does not read the source {name!r}",
                detail="the DataFrame given for it in sources= reads a table that is not in the query, "
                "or one that another name was given for",
                hint="give the DataFrame the query was built from, once",
            )
    return chosen


def _only_leaf(jvm: Jvm, name: str, df: DataFrame) -> JavaObject:
    leaves = collect(analyzed(df))
    if not leaves or any(not same_table(jvm, leaves[0], other) for other in leaves[1:]):
        raise UnknownSource(
            f"the DataFrame for source {name!r} is not one table",
            detail=f"it reads {len(leaves)} tables",
            hint="give the DataFrame as it was read, for example spark.read.parquet(...)",
        )
    return leaves[0]


def _free(name: str, taken: set[str]) -> str:
    unique, number = name, 1
    while unique.lower() in taken:
        number += 1
        unique = f"{name}_{number}"
    taken.add(unique.lower())
    return unique


def _own_name(node: JavaObject) -> str | None:
    table = _table(node)
    if table is not None:
        return table.rsplit(".", 1)[-1]
    if simple_name(node) == "Range":
        return "range"
    return _stem(_roots(node))


def _stem(roots: tuple[str, ...]) -> str | None:
    """The folder's or file's name; of several files, that of the folder they are in."""
    paths = [PurePosixPath(unquote(urlparse(root).path) if "://" in root or ":/" in root else root) for root in roots]
    if not paths:
        return None
    path = paths[0] if len(paths) == 1 else _common(paths)
    # Folders of partitions (day=1) and patterns (*.parquet) are no names.
    parts = [part for part in path.parts if part != "/" and not set(part) & set("=*?[{")]
    if not parts:
        return None
    return parts[-1].split(".")[0] or None


def _common(paths: list[PurePosixPath]) -> PurePosixPath:
    parts: list[str] = []
    for level in zip(*(path.parts for path in paths), strict=False):
        if len(set(level)) > 1:
            break
        parts.append(level[0])
    return PurePosixPath(*parts)


def _table(node: JavaObject) -> str | None:
    kind = simple_name(node)
    if kind == "LogicalRelation":
        table = option(node.catalogTable())
        return None if table is None else str(table.identifier().table())
    if kind == "HiveTableRelation":
        return str(node.tableMeta().identifier().table())
    if kind == "DataSourceV2Relation":
        identifier = option(node.identifier())
        return None if identifier is None else str(identifier.name())
    return None


def _roots(node: JavaObject) -> tuple[str, ...]:
    kind = simple_name(node)
    if kind == "LogicalRelation" and simple_name(node.relation()) == FILE_RELATION:
        return tuple(str(path.toString()) for path in items(node.relation().location().rootPaths()))
    if kind == "StreamingRelation":
        source = node.dataSource()
        options = _mapping(source.options())
        return tuple(str(path) for path in items(source.paths())) or ((options["path"],) if "path" in options else ())
    return ()


def _mapping(scala_map: JavaObject) -> dict[str, str]:
    return {str(pair._1()): str(pair._2()) for pair in items(scala_map.toSeq())}


def _describe(name: str, group: list[JavaObject]) -> Leaf:
    # Where one place of the query reads hidden columns (_metadata) and another does not, the source has them.
    node = max(group, key=lambda n: n.output().size())
    fields = _fields(node)
    class_name, table = simple_name(node), _table(node)
    kind, format, options = "table", "", {}
    if class_name == "LogicalRelation" and simple_name(node.relation()) == FILE_RELATION:
        relation = node.relation()
        format, options = str(relation.fileFormat().toString()).lower(), _mapping(relation.options())
        # Its class and not its name: formats built on Parquet (tables with versions) print as Parquet too.
        plain = simple_name(relation.fileFormat()) == "ParquetFileFormat"
        kind = "parquet" if plain else "files"
    elif class_name == "StreamingRelation":
        source = node.dataSource()
        format, options = str(source.className()).lower(), _mapping(source.options())
        is_files = str(node.sourceName()).startswith("FileSource")
        kind = ("stream-parquet" if format == "parquet" else "stream-files") if is_files else "stream"
    elif class_name in STREAMS:
        kind = "stream"
    elif class_name in MEMORY:
        kind = "stream" if node.isStreaming() else "memory"
    elif class_name == "Range":
        kind = "range"
    return Leaf(name, kind, node, fields, _roots(node), format, options, table)


def _fields(node: JavaObject) -> Schema:
    fields = tuple(Field(a.name(), data_type(a.dataType())) for a in items(node.output()))
    seen: set[str] = set()
    for f in fields:
        refuse_hidden(f.name)
        if f.name.lower() in seen:
            raise NotTraceable(
                f"a source has two columns called {f.name!r}",
                hint="rename one: df.toDF('id', 'other_id')",
            )
        seen.add(f.name.lower())
    return fields


def find(jvm: Jvm, leaves: Iterable[Leaf], node: JavaObject) -> Leaf:
    """The leaf that a node of the plan is."""
    return next(leaf for leaf in leaves if same_table(jvm, leaf.node, node))
