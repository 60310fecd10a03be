"""The page of the docs about what is traced, written from lift's own tables: ``python -m whence.spark.document``.

A test compares the page in ``docs/`` with this, so neither can be changed alone. Starts no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whence.spark.leaves import REFUSED as REFUSED_LEAVES
from whence.spark.lift_operators import BY_GROUP, LIFTED, PASSED, REFUSED, WHOLE_TABLE

INTRODUCTION = """\
# What is traced

`whence.trace(df)` reads Spark's analyzed plan. What stands here is traced exactly unless it says otherwise; everything
else is refused before it runs, with the operator's name, why, and what to do. Subqueries (IN, EXISTS, correlated and
lateral ones, scalar ones that certainly have one row) become joins by Spark's own rules first.

This page is made by `python -m whence.spark.document`.
"""

NOTES = {
    "Aggregate": "any aggregate, DISTINCT and FILTER, HAVING, expressions over aggregates; by event-time windows",
    "Join": "inner, cross, left, right, full, semi, anti, with any condition; self joins",
    "Expand": "rollup, cube, grouping sets, unpivot; a source under it is read once for each set",
    "Distinct": "every equal row",
    "Deduplicate": "the row that was kept; captured eagerly unless all columns are keys",
    "DeduplicateWithinWatermark": "lifted, but no stream with it is traced yet",
    "Window": "ranking, lag and lead, aggregates over frames of rows and ranges",
    "Generate": "explode, posexplode, inline, outer or not; other generators as Spark runs them",
    "GlobalLimit": "captured eagerly unless an order by all columns decides which rows it keeps",
    "Offset": "as GlobalLimit",
    "EventTimeWatermark": "on streams",
    "Project": "any expression; those that only Spark knows are run by Spark",
    "Intersect": "both sides' equal rows, ALL or not",
    "Except": "the left side's equal rows, ALL or not",
}

FUNCTIONS = """\
## Functions of users

| what | lineage |
|---|---|
| Python, pandas, Arrow functions on columns | exact; captured eagerly, as a later process does not have them |
| functions by group (`{by_group}`) | every row of the group; the function must return its key columns unchanged |
| functions over whole tables (`{whole}`) | `superset`: every input row |
"""

CAPTURES = """\
## Batches and streams

| | batch | stream |
|---|---|---|
| captures | lazy, eager, auto | lazy |
| sources | Parquet files are pinned where they lie; everything else is landed in the run | Parquet files |
| steps | all above | filters, projections, generators, unions, one group by an event time or window |
| output | | append |

Not yet: intervals as a capture; streams with joins, deduplication, several groups, update and complete mode; sources of
streams other than Parquet files; tables of Delta and Iceberg by version (a batch lands them); Spark Connect.
"""


def page() -> str:
    """The whole page, as Markdown."""
    lifted = ((f"`{name}`", NOTES.get(name, "")) for name in LIFTED)
    refused = ((f"`{name}`", why, hint) for name, (why, hint) in sorted(REFUSED.items()))
    leaves = ((f"`{name}`", why) for name, why in sorted(REFUSED_LEAVES.items()))
    parts = (
        INTRODUCTION,
        "## Operators\n\n" + _table(("operator of Spark", "note"), lifted),
        "Passed over, because they change no row: " + ", ".join(f"`{name}`" for name in sorted(PASSED)) + ".\n",
        FUNCTIONS.format(by_group="`, `".join(sorted(BY_GROUP)), whole="`, `".join(sorted(WHOLE_TABLE))),
        CAPTURES,
        "## Refused\n\n" + _table(("operator", "why", "what to do"), refused) + "\n" + _table(("leaf", "why"), leaves),
    )
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


if __name__ == "__main__":
    print(page(), end="")
