"""A fixed set of generated cases, about as many as `make test` gives a law, in which every kind of node has rows.

Hypothesis draws small cases first: of its first sixty half have an empty result, and some kinds of node never have
rows. A law that holds over those may still let a fault through. Here cases are drawn until each kind has stood several
times in a plan whose result has lineage, with rows of its own; the choice depends on nothing but the strategies.
"""

import contextlib
import functools
import warnings
from collections import Counter
from collections.abc import Callable

import hypothesis
from hypothesis import Phase, given
from hypothesis import strategies as st
from hypothesis.errors import HypothesisDeprecationWarning, Unsatisfiable, UnsatisfiedAssumption

from whence.plan.nodes import Analytic, Filter, Group, Join, Node, Project, SetOperation, Source, kind_of, walk
from whence.plan.types import BIGINT, STRING, TIMESTAMP, StructType
from whence.semantics import Table, annotate
from whence.testing.strategies import EVERYTHING, Menu, PlanCase, cases

EACH = 3
DRAWN = 120
MENUS = (
    EVERYTHING,
    EVERYTHING.without("project", "filter", "sort", "watermark", "distinct", "generate", "limit"),
    Menu(kinds=("window", "group", "group"), depth=3, types=(BIGINT, TIMESTAMP)),
    Menu(kinds=("analytic",), depth=1, types=(BIGINT, STRING)),
)
"""What is drawn from: everything, what merges rows, and two that meet too rarely there."""


@functools.cache
def chosen_cases() -> tuple[PlanCase, ...]:
    """The cases, the same in each process."""
    found: list[PlanCase] = []
    for menu in MENUS:
        found += _chosen(menu)
    return tuple(found)


def _chosen(menu: Menu) -> list[PlanCase]:
    found: list[PlanCase] = []
    met: Counter[str] = Counter()

    @hypothesis.settings(
        max_examples=DRAWN, derandomize=True, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @given(cases(menu))
    def choose(case: PlanCase) -> None:
        new = features(case)
        if any(met[f] < EACH for f in new):
            met.update(new)
            found.append(case)

    choose()
    return found


def tables_of(case: PlanCase) -> dict[str, Table]:
    return {name: Table(tuple(f.name for f in case.schemas[name]), rows) for name, rows in case.rows.items()}


def features(case: PlanCase) -> set[str]:
    """What a case has to say: the kinds of node that have rows below a result with lineage, and what is in them."""
    tables = tables_of(case)
    result = annotate(case.plan, tables)
    if not any(item.annotation for item in result):
        return set()
    found = {f"{role} edges" for item in result for _, _, role in item.annotation}
    for node in walk(case.plan):
        if isinstance(node, Source | Project):
            continue
        rows = annotate(node, tables)
        if rows:
            found |= {word(node)} | _special(node, tables, rows)
    return found


def word(node: Node) -> str:
    return f"{node.kind} join" if isinstance(node, Join) else kind_of(node)


def _special(node: Node, tables: dict[str, Table], rows: list) -> set[str]:
    """Where kinds have cases of their own."""
    match node:
        case Group():
            found = {"a null key" for r in rows if node.keys and None in r.row[: len(node.keys)]}
            windows = any(isinstance(f.type, StructType) for f in node.schema[: len(node.keys)])
            return found | ({"a group by windows"} if windows else set())
        case Join(kind="left" | "right" | "full"):
            return {"an outer row" for r in rows if None in (r.row[0], r.row[-1])}
        case Join(kind="anti"):
            return {"an anti join that drops"} if len(rows) < len(annotate(node.left, tables)) else set()
        case SetOperation(kind="except"):
            return {"an except that drops"} if len(annotate(node.right, tables)) else set()
        case Analytic():
            words = {
                f"{getattr(c.function, 'function', '')} over {c.frame.unit} {c.frame.start} to {c.frame.end}"
                for c in node.columns
            }
            return words if len(rows) > 1 else set()
        case Filter():
            return {"a filter that drops"} if len(rows) < len(annotate(node.child, tables)) else set()
        case _:
            return set()


def hold(law: Callable[..., None]) -> None:
    """The law over all chosen cases; a law that also draws data gets it drawn some times a case."""
    inner = law.hypothesis.inner_test  # type: ignore[attr-defined]
    draws = inner.__code__.co_argcount > 1
    for case in chosen_cases():
        # A law may say by assume() that a case is none of its own.
        with contextlib.suppress(UnsatisfiedAssumption, Unsatisfiable), warnings.catch_warnings():
            warnings.simplefilter("ignore", HypothesisDeprecationWarning)
            if draws:
                _with_data(inner, case)
            else:
                inner(case)


def _with_data(law: Callable[..., None], case: PlanCase) -> None:
    @hypothesis.settings(
        max_examples=6, derandomize=True, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @given(data=st.data())
    def holds(data: st.DataObject) -> None:
        law(case, data)

    holds()
