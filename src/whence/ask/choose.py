"""Which capture a run gets, and why: auto's choice, and what is refused.

Lazy costs the query nothing and is chosen wherever recomputing gives the same rows and a later process can recompute.
Eager carries the source ids and is chosen elsewhere. What neither can do is refused by the name of the step. Streams
are captured lazily only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from whence.errors import NotTraceable
from whence.lineage import carry, settle, weaknesses
from whence.plan.nodes import Node

CaptureWish = Literal["auto", "lazy", "eager"]
CAPTURES: tuple[CaptureWish, ...] = ("auto", "lazy", "eager")


@dataclass(frozen=True, slots=True)
class Choice:
    """A capture and the reason for it."""

    capture: Literal["lazy", "eager"]
    reason: str


def choose_batch(plan: Node, opaque: tuple[str, ...], wish: str) -> Choice:
    """The capture of a batch. ``opaque`` is what a later process cannot recompute, as "step: expression"."""
    if wish not in CAPTURES:
        raise NotTraceable(
            f"there is no capture {wish!r}",
            detail="captures of a batch: " + ", ".join(CAPTURES),
            hint='capture="auto" chooses the cheapest that is exact',
        )
    weak = [w.reason for w in weaknesses(plan)]
    if wish == "lazy":
        if weak:
            raise NotTraceable(
                "this query cannot be captured lazily",
                detail="; ".join(weak),
                hint='use capture="auto", which carries the ids where recomputing them would not be exact',
            )
        return Choice("lazy", "asked for" + (_only_here(opaque) if opaque else ""))
    if wish == "eager":
        carry(plan)
        return Choice("eager", "asked for")
    if not weak and not opaque:
        return Choice("lazy", "recomputing gives the same rows, and any process can do it")
    try:
        carry(plan)
    except NotTraceable as refused:
        if weak:
            raise NotTraceable(
                "no capture is exact for this query",
                detail="; ".join([*weak, f"{refused.statement}: {refused.detail}"]),
                hint="make the step deterministic, or write what it gives to a table and trace from there",
            ) from None
        return Choice("lazy", f"{refused.statement}: {refused.detail}{_only_here(opaque)}")
    if weak:
        return Choice("eager", "recomputing may give other rows: " + "; ".join(weak))
    return Choice("eager", "a later process could not recompute " + ", ".join(opaque))


def _only_here(opaque: tuple[str, ...]) -> str:
    return f"; questions need the process that ran the query, for {', '.join(opaque)}"


def choose_stream(plan: Node, opaque: tuple[str, ...], wish: str) -> Choice:
    """The capture of a stream: lazy, or an error that says why that would not be exact."""
    if wish not in ("auto", "lazy"):
        raise NotTraceable(
            f"a stream cannot be captured with {wish!r}",
            detail="streams are captured lazily: nothing is added to the query",
            hint='use capture="auto"',
        )
    settle(plan)
    weak = [w.reason for w in weaknesses(plan)]
    if weak:
        raise NotTraceable(
            "this stream cannot be traced exactly",
            detail="; ".join(weak),
            hint="make the step deterministic, or trace the part below it",
        )
    reason = "the epochs that Spark records are enough to recompute any row"
    return Choice("lazy", reason + (_only_here(opaque) if opaque else ""))
