"""Explain: what a run (or a query before it runs) does about lineage: capture, reason, cost, and each step's part.

Costs of captures that were not taken are estimates, and say so; what an eager run really carries is measured from its
files. It reads no rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from whence.errors import NotPortable, NotTraceable
from whence.lineage import carry, reach_of, weaknesses
from whence.plan.nodes import EventWindow, Node, Source, children, kind_of, walk
from whence.plan.text import print_plan

# A bigint; Parquet's encodings make it less, Spark's memory more.
ID_BYTES = 8


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan: its name and kind, how long a row can matter to it, and what is weak about it."""

    name: str
    kind: str
    reach: str
    weakness: str


@dataclass(frozen=True, slots=True)
class Cost:
    """What a capture adds to the stored results, in bytes, and whether that was measured."""

    capture: str
    bytes: int | None
    measured: bool
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was chosen, why, and what each capture would cost. ``portable``: DuckDB can answer; else why not."""

    capture: str
    reason: str
    steps: tuple[Step, ...]
    costs: tuple[Cost, ...]
    portable: bool
    engine_reason: str
    plan: str

    def __str__(self) -> str:
        lines = [f"capture: {self.capture} ({self.reason})"]
        lines.append(f"engine: {self._engine()}")
        for cost in self.costs:
            lines.append(f"{cost.capture} adds {cost_text(cost)}")
        width = max((len(step.name) for step in self.steps), default=0)
        for step in self.steps:
            weak = f"; {step.weakness}" if step.weakness else ""
            lines.append(f"  {step.name:{width}}  {step.kind}, reach {step.reach}{weak}")
        return "\n".join(lines)

    def _engine(self) -> str:
        if self.portable:
            return "DuckDB, without Spark"
        if self.capture == "eager":
            return f"DuckDB for back and forward; Spark for replay ({self.engine_reason})"
        return f"Spark ({self.engine_reason})"


def cost_text(cost: Cost) -> str:
    """A cost in words."""
    if cost.bytes is None:
        return cost.why_not
    if cost.bytes == 0:
        return "nothing"
    return f"{cost.bytes:,} bytes" if cost.measured else f"about {cost.bytes:,} bytes (estimate)"


def explain_plan(
    plan: Node,
    *,
    capture: str,
    reason: str,
    source_rows: Mapping[str, int | None],
    carried_bytes: int | None = None,
    utc: bool = True,
    is_stream: bool = False,
) -> Explanation:
    """The explanation of a plan over sources of so many rows; ``carried_bytes`` were measured in an eager run."""
    weak = {w.step: w.reason for w in weaknesses(plan)}
    steps = tuple(
        Step(node.step or kind_of(node), kind_of(node), _reach_text(node), weak.get(node.step or kind_of(node), ""))
        for node in walk(plan)
    )
    portable, why = _portable(plan, utc)
    eager = _eager_cost(plan, source_rows, carried_bytes)
    if is_stream:
        eager = Cost("eager", None, False, "what is not known: streams are captured lazily only")
    costs = (Cost("lazy", 0, True), eager)
    return Explanation(capture, reason, steps, costs, portable, why, print_plan(plan))


def _portable(plan: Node, utc: bool) -> tuple[bool, str]:
    from whence.duck.lower import portable

    try:
        portable(plan, utc=utc)
    except NotPortable as reason:
        return False, reason.statement
    return True, ""


def _reach_text(node: Node) -> str:
    micros = reach_of(node).micros
    return "unbounded" if micros is None else f"{micros / 1_000_000:g} s"


def _eager_cost(plan: Node, source_rows: Mapping[str, int | None], measured: int | None) -> Cost:
    if measured is not None:
        return Cost("eager", measured, True)
    try:
        carry(plan)
    except NotTraceable as refused:
        return Cost("eager", None, False, f"{refused.statement}: {refused.detail}")
    total = 0
    for name, copies in _copies(plan).items():
        rows = source_rows.get(name)
        if rows is None:
            return Cost(
                "eager", None, False, f"an amount that depends on the rows of {name}, which are not counted yet"
            )
        total += rows * copies * ID_BYTES
    return Cost("eager", total, False)


def _copies(plan: Node) -> dict[str, int]:
    """How often each row of a source reaches the result at most, joins and filters left out of account."""
    found: dict[str, int] = {}

    def visit(node: Node, above: int) -> None:
        if isinstance(node, Source):
            found[node.name] = found.get(node.name, 0) + above
        overlap = math.ceil(node.size / node.slide) if isinstance(node, EventWindow) else 1
        for child in children(node):
            visit(child, above * overlap)

    visit(plan, 1)
    return found
