"""The worked examples of Palyvos-Giannas et al. 2018 (GeneaLog): figures 1, 2, 4 and the queries of section 7.

Expected values are the paper's, never regenerated. Windows are [start, start + size), stamped by their start.
"""

from datetime import UTC, datetime, timedelta

import pytest

from tests.goldens.judges import lineage, results
from whence.plan.builder import Flow, source
from whence.semantics import Table, run_stream

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
EIGHT = MIDNIGHT + timedelta(hours=8)

# Q1 (section 2, figure 1): stopped is four reports of speed 0 at one position within 120 seconds.
REPORTS = source("reports", at="timestamp", car="string", speed="int", pos="string")
STOPPED = (
    REPORTS.where("speed = 0")
    .with_watermark("at", "0 seconds")
    .window("at", "120 seconds", "30 seconds", name="start", stamp="start")
    .group("start", "car", reports="count(*)", positions="count(distinct pos)", last="max(pos)")
    .where("reports = 4 and positions = 1")
)
Q1 = STOPPED.select("start", "car", "reports", "positions")

# Q2 (figure 9): an accident is two stopped cars at one position at one time.
Q2 = (
    STOPPED.window("start", "30 seconds", name="when", stamp="start")
    .group("when", "last", cars="count(*)")
    .where("cars >= 2")
)

# Q3 (figure 10): a blackout is more than seven meters without any consumption for a day.
METERS = source("meters", at="timestamp", meter="int", consumption="double")
DAILY = METERS.window("at", "1 day", name="day", stamp="start").group("day", "meter", used="sum(consumption)")
Q3 = (
    DAILY.where("used = 0").window("day", "1 day", name="when", stamp="start")
    .group("when", meters="count(*)").where("meters > 7")
)  # fmt: skip


def stopping(car: str, first: datetime, pos: str = "X", reports: int = 4) -> list[tuple]:
    """A car that reports speed 0 every 30 seconds."""
    return [(first + timedelta(seconds=30 * n), car, 0, pos) for n in range(reports)]


def reports(rows: list[tuple]) -> dict[str, Table]:
    return {"reports": Table(("at", "car", "speed", "pos"), rows, ids=[100 + n for n in range(len(rows))])}


FIRST = EIGHT + timedelta(seconds=1)


def test_figures_1_2_and_4() -> None:
    """The sink tuple (08:00:00, a, 4, 1) and the four reports at 08:00:01, :31, 08:01:01 and :31."""
    moving = [(FIRST - timedelta(seconds=30), "a", 55, "W"), (FIRST + timedelta(seconds=9), "b", 0, "X")]
    tables = reports([moving[0], *stopping("a", FIRST), moving[1]])
    found = results(Q1, tables)
    assert list(found) == [(EIGHT, "a", 4, 1)]
    assert lineage(Q1, tables, (EIGHT, "a", 4, 1)) == {101, 102, 103, 104}


def test_figure_1_needs_four_reports_at_one_position() -> None:
    assert results(Q1, reports(stopping("a", FIRST, reports=3))) == {}
    moved = [*stopping("a", FIRST, reports=3), (FIRST + timedelta(seconds=90), "a", 0, "Y")]
    assert results(Q1, reports(moved)) == {}


def test_figure_1_windows_hold_their_first_instant_and_not_their_last() -> None:
    """A window is [08:00:00, 08:02:00): a report at its start is in it, one at its end is in the next."""
    tables = reports(stopping("a", EIGHT, reports=5))
    assert lineage(Q1, tables, (EIGHT, "a", 4, 1)) == {100, 101, 102, 103}
    assert lineage(Q1, tables, (EIGHT + timedelta(seconds=30), "a", 4, 1)) == {101, 102, 103, 104}


def test_figure_1_as_a_stream() -> None:
    """The alert comes once the watermark has passed 08:02, in whichever epochs its reports came."""
    rows = [
        *stopping("a", FIRST),
        (EIGHT + timedelta(seconds=120), "z", 0, "Z"),
        (MIDNIGHT + timedelta(days=1), "z", 0, "Z"),
    ]
    table = reports(rows)["reports"]
    epochs = [{"reports": Table(table.columns, [row], ids=[id])} for row, id in zip(rows, table.row_ids, strict=True)]
    made = run_stream(Q1.plan, epochs)
    alerts = [(e.epoch, item.row, {id for _, id, _ in item.annotation}) for e in made for item in e.rows]
    assert alerts == [(5, (EIGHT, "a", 4, 1), {100, 101, 102, 103})]


@pytest.mark.parametrize("cars", [2, 3, 5])
def test_q2_has_four_reports_a_car(cars: int) -> None:
    """Section 7: 8 source tuples for two cars; 4k for k."""
    rows = [r for car in range(cars) for r in stopping(f"car {car}", FIRST + timedelta(seconds=car))]
    found = results(Q2, reports(rows))
    assert list(found) == [(EIGHT, "X", cars)]
    assert {id for _, id in found[EIGHT, "X", cars]} == set(range(100, 100 + 4 * cars))


def test_q2_is_no_accident_elsewhere_or_alone() -> None:
    assert results(Q2, reports(stopping("a", FIRST))) == {}
    assert results(Q2, reports(stopping("a", FIRST) + stopping("b", FIRST, pos="Y"))) == {}
    assert results(Q2, reports(stopping("a", FIRST) + stopping("b", FIRST + timedelta(seconds=30)))) == {}


def hourly(meters: int, used: float = 0.0, days: int = 1) -> dict[str, Table]:
    """A reading an hour and meter, the first at midnight; the id says meter and hour."""
    rows = [(MIDNIGHT + timedelta(hours=h), m, used) for m in range(meters) for h in range(24 * days)]
    ids = [1000 * m + h for m in range(meters) for h in range(24 * days)]
    return {"meters": Table(("at", "meter", "consumption"), rows, ids=ids)}


def test_q3_has_at_least_192_readings() -> None:
    """Section 7: more than seven meters, 24 readings each; 192 = 8 x 24 is the least there can be."""
    found = results(Q3, hourly(8))
    assert list(found) == [(MIDNIGHT, 8)]
    assert {id for _, id in found[MIDNIGHT, 8]} == {1000 * m + h for m in range(8) for h in range(24)}
    assert len(found[MIDNIGHT, 8]) == 192


def test_q3_seven_meters_are_no_blackout() -> None:
    assert results(Q3, hourly(7)) == {}
    assert results(Q3, hourly(8, used=0.1)) == {}


def test_q3_each_day_has_its_own_readings() -> None:
    found = results(Q3, hourly(9, days=2))
    assert [(row, len(edges)) for row, edges in found.items()] == [
        ((MIDNIGHT, 9), 216), ((MIDNIGHT + timedelta(days=1), 9), 216)
    ]  # fmt: skip
    assert {id % 1000 for _, id in found[MIDNIGHT, 9]} == set(range(24))


def q4(closed: str) -> Flow:
    """Figure 11: the day's sum against the reading at midnight, both of one meter, at most an hour apart.

    The sum is stamped with the end of its day; ``closed`` says whether the midnight that ends a day belongs to it.
    """
    days = METERS.window("at", "1 day", name="day", stamp="end", closed=closed)  # type: ignore[arg-type]
    summed = days.group("day", "meter", used="sum(consumption)")
    midnight = METERS.where("hour(at) = 0").prefixed("m_")
    near = "meter = m_meter and m_at >= day - interval '1 hour' and m_at <= day + interval '1 hour'"
    both = summed.join(midnight, near).select("day", "meter", gap="abs(used - m_consumption)")
    return both.where("gap > 100")


def anomaly() -> dict[str, Table]:
    """One meter, a reading an hour from midnight on; 500 at the midnight that follows, else 1."""
    rows = [(MIDNIGHT + timedelta(hours=h), 1, 500.0 if h == 24 else 1.0) for h in range(25)]
    return {"meters": Table(("at", "meter", "consumption"), rows)}


def test_q4_has_25_readings_where_the_midnight_is_of_the_next_day() -> None:
    """The paper says 24: that holds only where the reading at midnight is one of those summed."""
    found = results(q4("left"), anomaly())
    assert [(row[2], {id for _, id in edges}) for row, edges in found.items()] == [(476.0, set(range(25)))]


def test_q4_has_24_readings_where_the_midnight_is_summed_too() -> None:
    rows = [(MIDNIGHT + timedelta(hours=h), 1, 500.0 if h == 24 else 10.0) for h in range(1, 25)]
    tables = {"meters": Table(("at", "meter", "consumption"), rows, ids=range(1, 25))}
    found = results(q4("right"), tables)
    assert [(row[2], {id for _, id in edges}) for row, edges in found.items()] == [(230.0, set(range(1, 25)))]
