"""Settle: the batch plan of a stream. That it means what the stream emitted is a law in tests/semantics."""

from datetime import UTC, datetime, timedelta

import pytest

from whence.errors import NotTraceable
from whence.lineage import settle
from whence.lineage.settle import event_times
from whence.plan.builder import Flow, source
from whence.plan.hidden import LATE
from whence.plan.nodes import Watermark, names, sources, walk
from whence.plan.text import fingerprint
from whence.semantics import Table, evaluate

BASE = datetime(2026, 1, 1, tzinfo=UTC)
CARS = source("cars", car="bigint", at="timestamp")
MARKED = CARS.with_watermark("at", "10 seconds")
COUNTED = MARKED.window("at", "10 seconds").group("window", n="count(*)")


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else BASE + timedelta(seconds=seconds)


def table(*rows: tuple[float | None, float | None]) -> dict[str, Table]:
    """Rows as their time and the time up to which their epoch dropped; None where it dropped nothing."""
    return {"cars": Table(("car", "at"), [(1, at(t)) for t, _ in rows], late=[at(late) for _, late in rows])}


@pytest.mark.parametrize(("late", "kept"), [(9.999999, 1), (10, 0), (11, 0), (None, 1)])
def test_late_is_up_to_and_including_the_moment(late: float | None, kept: int) -> None:
    """A null moment is an epoch in which nothing could be late."""
    assert len(evaluate(settle(COUNTED.plan), table((3, late)))) == kept


def test_each_window_of_a_row_is_judged() -> None:
    sliding = MARKED.window("at", "20 seconds", "10 seconds").group("window", n="count(*)")
    made = evaluate(settle(sliding.plan), table((15, 20)))
    assert [(w[0] - BASE).total_seconds() for w, _ in made] == [10]


def test_a_null_time_is_never_late() -> None:
    assert evaluate(settle(MARKED.group("at", n="count(*)").plan), table((None, 10), (5, 10))) == [(None, 1)]


@pytest.mark.parametrize(("stamp", "late", "kept"), [("start", 9, 1), ("start", 10, 0), ("end", 9, 1), ("end", 10, 0)])
def test_stamps(stamp: str, late: float, kept: int) -> None:
    flow = MARKED.window("at", "10 seconds", stamp=stamp)  # type: ignore[arg-type]
    for group in (flow.group("window", n="count(*)"), flow.select(w="window").group("w", n="count(*)")):
        assert len(evaluate(settle(group.plan), table((3, late)))) == kept
    both = flow.union(flow).group("window", n="count(*)")
    assert len(evaluate(settle(both.plan), table((3, late)))) == kept


def test_watermarks_go_and_the_result_keeps_its_columns() -> None:
    flow = COUNTED.where("n > 1").select("n")
    settled = settle(flow.plan)
    assert names(settled) == ("n",) and not any(isinstance(n, Watermark) for n in walk(settled))
    assert LATE in names(sources(settled)["cars"])


def test_without_state_nothing_is_late() -> None:
    flow = MARKED.where("car > 1").union(MARKED)
    assert fingerprint(settle(flow.plan)) == fingerprint(CARS.where("car > 1").union(CARS).plan)


REFUSED = [
    (MARKED.distinct(), "distinct"),
    (MARKED.deduplicate("car"), "deduplicate"),
    (MARKED.join(source("b", z="bigint"), "car = z"), "join"),
    (MARKED.limit(3), "limit"),
    (MARKED.group("car", n="count(*)"), "group.*none of its keys"),
    (CARS.window("at", "1 minute").group("window", n="count(*)"), "group.*none of its keys"),
    (COUNTED.select("n", w="window").group("w", m="sum(n)"), "another group"),
    (MARKED.opaque("f", "black_box", x="int"), "opaque"),
]


@pytest.mark.parametrize(("flow", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_other_state_is_refused_by_name(flow: Flow, message: str) -> None:
    with pytest.raises(NotTraceable, match=f"(?s){message}") as refused:
        settle(flow.named("mine").plan)
    assert "'mine'" in str(refused.value) and refused.value.hint


def test_event_times_follow_renames_and_windows_and_nothing_else() -> None:
    flow = MARKED.window("at", "10 seconds")
    assert event_times(flow.plan) == {"at", "window"}
    assert event_times(flow.select("car", w="window", later="at + interval '1 second'").plan) == {"w"}
    assert event_times(flow.select("car", w="window").group("w", "car").plan) == {"w"}
    assert event_times(CARS.plan) == frozenset()
