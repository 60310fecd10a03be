"""Event-time windows: what `window(time, ...)` becomes in an analyzed plan, and back to its parameters.

The analyzer replaces `window(...)` by arithmetic: one projected struct under a filter where windows do not overlap,
an Expand with one struct for each overlapping window under a filter where they do. The parameters are read from the
tree's constants and then checked: Spark makes the same windows anew from them, and the trees must be equal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from whence.errors import NotTraceable
from whence.spark.jvm import JavaObject, Jvm, items, simple_name

MARKER = "spark.timeWindow"
"""The metadata by which Spark knows a window column."""
SESSION_MARKER = "spark.sessionWindow"


@dataclass(frozen=True, slots=True)
class WindowShape:
    """The parameters of an event-time window and where it stands: ``attribute`` is its column, ``child`` its input."""

    attribute: JavaObject
    time: JavaObject
    size: int
    slide: int
    offset: int
    child: JavaObject


def match_window(jvm: Jvm, node: JavaObject) -> WindowShape | None:
    """The event-time window whose topmost node this is, or None."""
    match simple_name(node):
        case "Project":
            first = node.projectList().apply(0) if node.projectList().size() else None
            below = node.child()
            if first is None or not _is_window(first) or simple_name(below) != "Filter":
                return None
            return _checked(jvm, node, first.toAttribute(), first.child(), below.child())
        case "Filter" if simple_name(node.child()) == "Expand":
            expand = node.child()
            attribute = expand.output().apply(0)
            if not attribute.metadata().contains(MARKER):
                return None
            struct = expand.projections().apply(0).apply(0)
            return _checked(jvm, node, attribute, struct, expand.child())
        case _:
            return None


def _is_window(column: JavaObject) -> bool:
    return (
        simple_name(column) == "Alias"
        and bool(column.metadata().contains(MARKER))
        and simple_name(column.child()) == "CreateNamedStruct"
    )


def _checked(jvm: Jvm, node: JavaObject, attribute: JavaObject, struct: JavaObject, child: JavaObject) -> WindowShape:
    members = items(struct.children())
    remainder = _first(members[1], "Remainder")
    length = _first(members[3], "Add")
    if remainder is None or length is None:
        raise _changed(node)
    shifted, slide = items(remainder.children())
    time = _first(shifted, "PreciseTimestampConversion").child()
    shape = WindowShape(
        attribute=attribute,
        time=time,
        size=_constant(node, items(length.children())[1]),
        slide=_constant(node, slide),
        offset=_constant(node, items(shifted.children())[1]),
        child=child,
    )
    if _print(_made(jvm, shape), "window") != _print(node, attribute.name()):
        raise _changed(node)
    return shape


def window_call(jvm: Jvm, time: JavaObject, size: int, slide: int, offset: int) -> JavaObject:
    """The unresolved `window(...)` over a time, all in microseconds."""
    marked = f"window(whence_time, '{size} microseconds', '{slide} microseconds', '{offset} microseconds')"
    call = jvm.parse(marked)
    return jvm.with_children(call, [time, *items(call.children())[1:]])


def _made(jvm: Jvm, shape: WindowShape) -> JavaObject:
    """The nodes that Spark makes of these parameters, without what stands on top of them."""
    call = window_call(jvm, shape.time, shape.size, shape.slide, shape.offset)
    return jvm.analyze(jvm.project([jvm.alias(call, "made")], shape.child)).child()


def _print(node: JavaObject, name: str) -> str:
    """The nodes of a window as text: the top one and the one below, the window column's id taken out."""
    parts = [node, node.child()]
    text = "\n".join(f"{simple_name(p)} {e.toString()}" for p in parts for e in items(p.expressions()))
    return re.sub(rf"\b{re.escape(name)}#\d+", "window", text)


def _first(tree: JavaObject, name: str) -> JavaObject:
    """The outermost part of a class, depth first; None where there is none."""
    if simple_name(tree) == name:
        return tree
    for child in items(tree.children()):
        found = _first(child, name)
        if found is not None:
            return found
    return None


def _constant(node: JavaObject, literal: JavaObject) -> int:
    if simple_name(literal) != "Literal":
        raise _changed(node)
    return int(literal.value())


def _changed(node: JavaObject) -> NotTraceable:
    return NotTraceable(
        "an event-time window has a form that whence does not know",
        detail=str(node.simpleStringWithNodeId())[:300],
        hint="group by window(column, size, slide, start) itself",
    )
