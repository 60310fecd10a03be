"""Handles: what a lifted plan's expressions and opaque steps are in Catalyst, while the session lives.

Lift fills them, lower uses them, so that the user's own expressions run and not translations of them. A handle's
columns are already named as in the plan and not yet resolved, so it fits wherever columns of these names are.
Plans themselves know nothing of this; a plan without handles is lowered from its text alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from whence.plan.expressions import Aggregate, Expression
from whence.spark.jvm import JavaObject


@dataclass(frozen=True, slots=True)
class StepHandle:
    """A Catalyst node that is an opaque step, and how its input and output columns are called in the plan.

    ``inputs`` are the attributes the node reads, in order, with their plan names; ``outputs`` the attributes it
    makes. ``layout`` are the nodes below that only place rows (repartitions, sorts within partitions), outermost
    first: functions over whole partitions see what these did.
    """

    node: JavaObject
    inputs: tuple[tuple[JavaObject, str], ...]
    outputs: tuple[tuple[JavaObject, str], ...]
    layout: tuple[JavaObject, ...] = ()


@dataclass(frozen=True, slots=True)
class Handles:
    """Catalyst expressions by the plan expressions they became, opaque ones by their keys, steps by theirs."""

    expressions: dict[Expression | Aggregate, JavaObject] = field(default_factory=dict)
    opaque: dict[str, JavaObject] = field(default_factory=dict)
    steps: dict[str, StepHandle] = field(default_factory=dict)
