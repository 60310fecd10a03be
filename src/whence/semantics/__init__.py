"""Mean: the executable definition of plans, in plain Python. Slow, obvious, and the only judge."""

from whence.semantics.algebras import (
    COUNTS,
    LINEAGE,
    MULTISETS,
    POLYNOMIALS,
    Algebra,
    count_of,
    lineage_of,
    multiset_of,
)
from whence.semantics.annotate import annotate
from whence.semantics.evaluate import evaluate
from whence.semantics.operators import Annotated
from whence.semantics.streams import Emitted, Recorded, run_stream
from whence.semantics.tables import Table

__all__ = [
    "COUNTS",
    "LINEAGE",
    "MULTISETS",
    "POLYNOMIALS",
    "Algebra",
    "Annotated",
    "Emitted",
    "Recorded",
    "Table",
    "annotate",
    "count_of",
    "evaluate",
    "lineage_of",
    "multiset_of",
    "run_stream",
]
