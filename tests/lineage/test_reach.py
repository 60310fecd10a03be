"""Reach: how long a row can still matter, per node and along paths."""

import pytest

from whence.lineage import reach_of, source_reaches
from whence.lineage.reach import NOTHING, Reach
from whence.plan.builder import Flow, source

MINUTE = 60_000_000
CARS = source("cars", car="bigint", at="timestamp").with_watermark("at", "1 minute")
WINDOWED = CARS.window("at", "10 minutes", "5 minutes").group("window", "car", n="count(*)")


def test_reaches_add_up_and_compare() -> None:
    for_ever = Reach(None, "sort")
    assert Reach(1).plus(Reach(2)) == Reach(3) and Reach(1).longest(Reach(2)) == Reach(2)
    assert Reach(1).plus(for_ever) == for_ever.plus(Reach(1)) == for_ever
    assert Reach(1).longest(for_ever) == for_ever.longest(Reach(1)) == for_ever
    assert for_ever.plus(Reach(None, "limit")) == for_ever


BOUNDED = [
    (CARS, 0),
    (CARS.where("car > 1").select("at"), 0),
    (CARS.window("at", "10 minutes"), 10 * MINUTE),
    (WINDOWED, 10 * MINUTE),
    (CARS.deduplicate("car", "at"), 0),
    (CARS.deduplicate("car", within_watermark=True), MINUTE),
    (CARS.union(CARS.window("at", "3 minutes").select("car", "at")), 3 * MINUTE),
]


@pytest.mark.parametrize(("flow", "micros"), BOUNDED, ids=[str(i) for i in range(len(BOUNDED))])
def test_bounded_paths(flow: Flow, micros: int) -> None:
    assert source_reaches(flow.plan) == {"cars": Reach(micros)}


UNBOUNDED = [
    (CARS.group("car", n="count(*)").named("per_car"), "group 'per_car'"),
    (source("cars", car="bigint").deduplicate("car").named("first"), "deduplicate 'first'"),
    (source("cars", car="bigint").distinct(), "distinct"),
    (CARS.limit(3), "limit"),
    (CARS.analyse(order=("at",), n="row_number()"), "analytic"),
    (CARS.opaque("f", "black_box", x="int").named("model"), "opaque 'model'"),
    (CARS.select("car").subtract(source("bad", id="bigint")), "except"),
    (WINDOWED.group("car", m="sum(n)").named("total"), "group 'total'"),
]


@pytest.mark.parametrize(("flow", "step"), UNBOUNDED, ids=[s for _, s in UNBOUNDED])
def test_unbounded_steps_are_named(flow: Flow, step: str) -> None:
    assert source_reaches(flow.plan)["cars"] == Reach(None, step)


def test_each_source_has_its_own() -> None:
    bikes = source("bikes", bike="bigint", seen="timestamp").with_watermark("seen", "1 minute")
    both = CARS.union(bikes.window("seen", "2 minutes").select("bike", "seen"))
    assert source_reaches(both.plan) == {"cars": NOTHING, "bikes": Reach(2 * MINUTE)}


def test_a_join_is_unbounded_for_both_sides() -> None:
    plan = CARS.join(source("owners", owner="bigint"), "car = owner").plan
    assert {name: reach.micros for name, reach in source_reaches(plan).items()} == {"cars": None, "owners": None}
    assert reach_of(plan).blame == "join"
