"""The page of the docs about the portable subset, written from its tables: ``python -m whence.duck.document``.

A test compares the page in ``docs/`` with this, so neither can be changed alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whence.duck.aggregates import AGGREGATES, ANALYTIC, AggregateEntry
from whence.duck.casts import CASTS
from whence.duck.functions import ANYTHING, FUNCTIONS, NESTED
from whence.duck.text import duck_type
from whence.plan import functions
from whence.plan.types import ATOMIC_TYPES, parse_type

INTRODUCTION = """\
# The portable subset

DuckDB answers a question from the files of a run, with no Spark, where every step of the plan is in this subset: what
stands here means the same in both engines, value by value. Everything else Spark answers. `whence.duck.lower.portable`
says of a plan whether it is inside, and names the first step that is not.

Where the two agree on some values only, DuckDB looks at each value while it runs, and the question goes to Spark when
one lies outside. Both are in ANSI mode: overflow, a division by zero or a text that is no number is an error.

This page is made by `python -m whence.duck.document`.
"""

STEPS = (
    ("source, values, project, filter, union, watermark", ""),
    ("generate", "arrays, maps, arrays of structs"),
    ("join", "all six kinds; null-safe equality is a hash join"),
    ("window", "all ends and stamps"),
    ("group, distinct, intersect, except", "0.0 and -0.0 are one key; not by maps"),
    ("sort", "not by arrays, whose nulls come last in DuckDB"),
    ("limit", "over a sort, unless rows tie where it cuts"),
    (
        "deduplicate",
        "the first row by row id; where the rows have none (above a group, say) only if no key has two rows; "
        "not within a watermark",
    ),
    ("analytic", "rows and range frames; `row_number`, `lag`, `lead` and frames of rows unless rows tie"),
    ("opaque", "never"),
)

FILES = """\
## Files

Parquet files, as Spark reads them: columns by name, null where a file has none. Refused by name are files whose
columns DuckDB would convert by rules of its own (a double where the run has a bigint), columns of one file whose names
differ in case only or by Unicode's rules only, and file names that hold both a backslash and one of `*?[`. Timestamps
that Spark wrote as INT96 are read as UTC; they have no statistics, so filters on them skip no row groups. Dates
before 1582 and times before 1900 in files that Spark 2 wrote are read without the rebase that Spark makes.
"""


def page() -> str:
    """The whole page, as Markdown."""
    types = [(f"`{name}`", f"`{duck_type(t)}`") for name, t in ATOMIC_TYPES.items()]
    for text in ("decimal(10,2)", "array<int>", "map<string,int>", "struct<a:int>"):
        types.append((f"`{text}`", f"`{duck_type(parse_type(text))}`"))
    scalar = [(f"`{e.name}`", _kinds(e.takes), _note(e.note, zoned=e.zoned)) for e in FUNCTIONS.values()]
    casts = [(e.source, e.target, _note(e.note, zoned=e.zoned)) for e in CASTS]
    every = [*(e for entries in AGGREGATES.values() for e in entries), *ANALYTIC.values()]
    parts = [
        INTRODUCTION,
        "## Steps\n",
        _table(("step", "note"), STEPS),
        "## Types\n",
        _table(("Spark", "DuckDB"), types),
        "Intervals are whole microseconds. Types not here only Spark reads.\n",
        "## Functions\n",
        _table(("function", "of", "note"), scalar),
        _missing("functions", set(functions.FUNCTIONS) - set(FUNCTIONS)),
        "## Casts\n",
        _table(("from", "to", "note"), casts),
        "Arrays are cast element by element.\n",
        "## Aggregates and analytic functions\n",
        _table(("function", "of", "note"), [(f"`{e.name}`", _kinds(e.takes), e.note) for e in _merged(every)]),
        _missing("aggregates", set(functions.AGGREGATES) - set(AGGREGATES)),
        FILES,
    ]
    return "\n".join(part for part in parts if part)


def _merged(entries: Sequence[AggregateEntry]) -> Iterable[AggregateEntry]:
    return sorted(entries, key=lambda e: e.name)


def _kinds(takes: tuple[str, ...]) -> str:
    if takes == ANYTHING:
        return "anything"
    return "anything but maps" if takes == NESTED else ", ".join(takes)


def _note(note: str, *, zoned: bool) -> str:
    return "; ".join(part for part in (note, "timestamps only if the query ran in UTC" if zoned else "") if part)


def _missing(what: str, names: set[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in sorted(names))
    return f"Not portable among the {what} that plans know: {listed}.\n" if names else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    print(page(), end="")
