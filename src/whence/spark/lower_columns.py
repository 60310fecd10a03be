"""What lowering a node gives: a Catalyst plan, and which of its attributes the node's columns are."""

from __future__ import annotations

from dataclasses import dataclass

from whence.spark.jvm import JavaObject


@dataclass(frozen=True, slots=True)
class Lowered:
    """A Catalyst plan and which of its attributes the columns of a node are.

    ``columns`` are in the node's order. ``labels`` are the attributes' own names. ``tidy`` says that the plan gives
    exactly these columns, in order, under these names: renaming and leaving out are not done before they matter.
    """

    plan: JavaObject
    columns: dict[str, JavaObject]
    labels: dict[str, str]
    tidy: bool
