"""Intervals: what stands beside a row is what the oracle says of its lineage, summed up."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from whence.errors import NotTraceable
from whence.lineage import MODULUS, Ranged, carry, carry_intervals, check_of, checks, hash_call, hash_of
from whence.lineage.intervals import apart
from whence.plan.builder import Flow, source
from whence.plan.expressions import AggregateCall, Column, Opaque
from whence.plan.hidden import PREFIX
from whence.plan.nodes import (
    WHOLE_PARTITION,
    Analytic,
    Filter,
    Frame,
    Named,
    NamedAnalytic,
    Node,
    OpaqueStep,
    Order,
    Project,
    Source,
    Values,
    children,
    names,
    transform,
    walk,
)
from whence.plan.types import BIGINT, BOOLEAN, Field
from whence.semantics import LINEAGE, MULTISETS, Table, annotate, evaluate
from whence.semantics.frames import frame_positions
from whence.semantics.values import group_key
from whence.testing.strategies import PlanCase, cases

Found = tuple[object, ...]
"""A source, a role, smallest, largest, how many, check."""


def intervals_of(plan: Node) -> Ranged:
    """The plan with intervals; one that is refused is no case of a law."""
    try:
        return carry_intervals(plan)
    except NotTraceable:
        assume(False)
        raise


def found_beside_rows(plan: Node, tables: Mapping[str, Table]) -> tuple[Counter, set[tuple[str, str]]]:
    """Each row with its intervals, and what is certified."""
    ranged = intervals_of(plan)
    assert names(ranged.plan)[: len(names(plan))] == names(plan)
    place = {n: i for i, n in enumerate(names(ranged.plan))}
    form = group_key([f.type for f in plan.schema])
    found: Counter = Counter()
    for row in evaluate(ranged.plan, tables):
        beside = set()
        for i in ranged.intervals:
            low, high, count, check = (None if c is None else row[place[c]] for c in dataclasses.astuple(i)[2:])
            if low is None:
                assert high is None and not count and not check
            else:
                beside.add((i.source, i.role, low, high, count, check))
        found[form(row[: len(names(plan))]), frozenset(beside)] += 1
    return found, {(i.source, i.role) for i in ranged.intervals if i.count is not None}


def said_by_the_oracle(plan: Node, tables: Mapping[str, Table], certified: set[tuple[str, str]]) -> Counter:
    form = group_key([f.type for f in plan.schema])
    found: Counter = Counter()
    rows = zip(annotate(plan, tables, LINEAGE), annotate(plan, tables, MULTISETS), strict=True)
    for item, again in rows:
        beside = set()
        for key in {(name, role) for name, _, role in item.annotation}:
            ids = [id for name, id, role in item.annotation if (name, role) == key]
            counts = {id: n for (name, id, role), n in again.annotation.items() if (name, role) == key}
            sums = (sum(counts.values()), check_of(counts)) if key in certified else (None, None)
            beside.add((*key, min(ids), max(ids), *sums))
        found[form(item.row), frozenset(beside)] += 1
    return found


def check(plan: Node | Flow, tables: Mapping[str, Table], *uncertified: tuple[str, str]) -> None:
    """What is beside the rows is what the oracle says, and certified is all but what is named."""
    node = plan if not isinstance(plan, Flow) else plan.plan
    found, certified = found_beside_rows(node, tables)
    assert found == said_by_the_oracle(node, tables, certified)
    everything = {(i.source, i.role) for i in carry_intervals(node).intervals}
    assert certified == everything - set(uncertified)


def tables_of(case: PlanCase) -> dict[str, Table]:
    # Ids as packed ones are, some of them beyond what fits twice into a bigint.
    return {
        name: Table(tuple(f.name for f in case.schemas[name]), rows, [(i % 3 << 61) + 7 * i for i in range(len(rows))])
        for name, rows in case.rows.items()
    }


@given(cases())
def test_intervals_are_the_oracles(case: PlanCase) -> None:
    tables = tables_of(case)
    found, certified = found_beside_rows(case.plan, tables)
    assert found == said_by_the_oracle(case.plan, tables, certified)


@given(cases())
def test_all_values_are_certified_where_frames_are_simple(case: PlanCase) -> None:
    ranged = intervals_of(case.plan)
    # All analytic nodes of the strategies have one frame each, whose rows are known to hold the row itself or not.
    assert {i.role for i in ranged.intervals if i.count is None} <= {"condition"}


INPUTS = ("child", "children", "left", "right")


def occurrences(node: Node) -> Iterator[Node]:
    """Every node as often as it would run: one that is shared, once for each way to it."""
    yield node
    for child in children(node):
        yield from occurrences(child)


def opaque_in(value: object) -> Iterator[Opaque]:
    """Every opaque expression in a node's own fields."""
    if isinstance(value, Opaque):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from opaque_in(part)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from opaque_in(getattr(value, field.name))


def cost(plan: Node) -> tuple[Counter[str], int]:
    """How often each source is read, and how many non-deterministic expressions there are."""
    nodes = list(occurrences(plan))
    own = [getattr(n, f.name) for n in nodes for f in dataclasses.fields(n) if f.name not in INPUTS]
    chances = sum(not e.deterministic for value in own for e in opaque_in(value))
    return Counter(n.name for n in nodes if isinstance(n, Source)), chances


def with_chance(plan: Node) -> Node:
    """A coin above each node."""
    count = iter(range(1_000))
    return transform(plan, lambda n: Filter(n, Opaque(f"coin{next(count)}", (), BOOLEAN, deterministic=False)))


@given(cases())
def test_nothing_is_read_or_drawn_twice(case: PlanCase) -> None:
    plan = with_chance(case.plan)
    before = cost(plan)
    assert before[1] >= sum(before[0].values()) > 0
    assert cost(intervals_of(plan).plan) == before
    assert cost(carry(plan).plan) == before


@given(cases())
def test_only_bigints_are_carried(case: PlanCase) -> None:
    ranged = intervals_of(case.plan)
    carried = [f for n in walk(ranged.plan) for f in n.schema if f.name.startswith(f"{PREFIX}c")]
    assert carried and all(f.type == BIGINT for f in carried)
    own = {c for i in ranged.intervals for c in dataclasses.astuple(i)[2:] if c is not None}
    assert {f.name for f in ranged.plan.schema if f.type == BIGINT} >= own


CARS = source("cars", car="bigint", speed="int")
TOLLS = source("tolls", at="bigint", toll="int")
TABLES = {
    "cars": Table(("car", "speed"), [(1, 50), (1, 60), (2, 60), (None, 60), (3, None)], [1, 2 << 32, 5, 3 << 60, 0]),
    "tolls": Table(("at", "toll"), [(1, 7), (1, 7), (4, 8), (None, 9)], [11, 10, (5 << 32) + 1, 14]),
    "none": Table(("car",), []),
}


@pytest.mark.parametrize("kind", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("on", ["car = at", "car <=> at", None])
def test_a_missing_side_brings_nothing(kind: str, on: str | None) -> None:
    joined = CARS.join(TOLLS, on, kind=kind)
    check(joined, TABLES)
    check(joined.group("speed", n="count(*)"), TABLES)
    check(joined.join(CARS.prefixed("other_"), "speed = other_speed", kind="left").group(n="count(*)"), TABLES)


def test_a_row_that_contributes_twice_counts_twice() -> None:
    pairs = CARS.join(CARS.prefixed("other_"), "car <=> other_car")
    check(pairs, TABLES)
    check(pairs.group(n="count(*)").join(CARS, None), TABLES)
    with_itself = carry_intervals(CARS.join(CARS.prefixed("other_"), "car = 2 and other_car = 2").plan)
    [row] = evaluate(with_itself.plan, TABLES)
    assert row[-4:] == (5, 5, 2, 2 * hash_of(5) % MODULUS)


def test_a_union_may_have_a_source_on_one_side_only() -> None:
    totals = CARS.group("car", speed="max(speed)")
    two = Flow(Values(CARS.plan.schema, ((8, 9),)))
    for branches in ((CARS, TOLLS), (CARS, totals, TOLLS), (two, CARS), (TOLLS, totals, two, CARS)):
        united = branches[0].union(*branches[1:])
        check(united, TABLES)
        check(united.group(united.columns[1], n="count(*)"), TABLES)


def test_what_is_certified_on_one_side_of_a_union_only_is_not() -> None:
    below = apart_from_itself(CARS)
    check(CARS.union(below.select("car", "speed")), TABLES, ("cars", "value"))


def test_an_empty_group_without_keys_has_no_ends() -> None:
    counted = source("none", car="bigint").group(n="count(*)")
    check(counted, TABLES)
    assert evaluate(carry_intervals(counted.plan).plan, TABLES) == [(0, None, None, 0, 0)]
    check(counted.join(CARS, None).group("car", n="count(*)"), TABLES)


@pytest.mark.parametrize("all", [False, True])
def test_set_operations_gather_equal_rows(all: bool) -> None:
    cars, tolls = CARS.select("car"), TOLLS.select("at")
    for made in (
        cars.intersect(tolls, all=all),
        cars.subtract(tolls, all=all),
        tolls.intersect(cars, all=all),
        tolls.subtract(cars, all=all),
        cars.intersect(cars.rename(car="again"), all=all),
        cars.union(cars).subtract(cars, all=all).intersect(tolls.union(tolls), all=all),
    ):
        check(made, TABLES)
        check(made.group(n="count(*)"), TABLES)


def test_conditions_have_ends_only() -> None:
    condition = ("tolls", "condition")
    check(CARS.join(TOLLS, "car = at", kind="semi"), TABLES, condition)
    check(CARS.join(TOLLS, None, kind="semi").group("car", n="count(*)"), TABLES, condition)
    check(CARS.join(source("none", car="bigint").rename(car="key"), None, kind="semi"), TABLES, ("none", "condition"))
    twice = CARS.join(TOLLS, "car = at", kind="semi").join(TOLLS.prefixed("b_"), "car = b_at", kind="semi")
    check(twice, TABLES, condition)
    # What let a row pass may itself have passed because of another, and be one of the same source.
    passed = TOLLS.join(CARS.prefixed("b_"), "at = b_car", kind="semi")
    check(CARS.join(passed, "car = at", kind="semi"), TABLES, condition, ("cars", "condition"))
    both = CARS.join(
        CARS.prefixed("b_").join(CARS.prefixed("c_"), "b_car = c_car", kind="semi"), "car = b_car", kind="semi"
    )
    check(both, TABLES, ("cars", "condition"))
    check(CARS.join(TOLLS, "car = at", kind="anti"), TABLES)


def over(child: Flow, *columns: tuple[str, Frame]) -> Flow:
    named = tuple(NamedAnalytic(f"n{i}", AggregateCall(f), frame) for i, (f, frame) in enumerate(columns))
    return Flow(Analytic(child.plan, (Column("speed"),), (Order(Column("car")),), named))


def apart_from_itself(child: Flow) -> Flow:
    """Each row with those of a car number one or two below its own; among nulls that is the row itself."""
    return over(child, ("count", Frame("range", -2, -1)))


def test_frames_that_hold_the_row_or_not_are_certified() -> None:
    for rows in ((-1, 0), (0, 1), (-2, -1), (1, 1), (None, -1), (None, None), (-2, -2)):
        check(over(CARS, ("count", Frame("rows", *rows))), TABLES)
    for values in ((-1, 0), (0, 1), (-1, 1), (None, 0), (0, 0), (None, 1)):
        check(over(CARS, ("count", Frame("range", *values))), TABLES)
    ranked = ("rank", WHOLE_PARTITION)
    several = over(CARS.union(CARS), ("count", Frame("rows", -3, -2)), ("count", Frame("rows", -1, 0)), ranked)
    check(several, TABLES)
    check(over(CARS.union(CARS), ("count", Frame("rows", -3, -2)), ("count", Frame("rows", 1, 2))), TABLES)
    lag = CARS.analyse(partition=("speed",), order=("car",), two="lag(car, 2)", next="lead(car, 1)")
    check(lag.group("speed", n="count(*)"), TABLES)


def test_frames_that_data_decide_have_ends_only() -> None:
    cars = ("cars", "value")
    check(over(CARS.union(CARS), ("count", Frame("rows", 0, 1)), ("rank", WHOLE_PARTITION)), TABLES, cars)
    check(apart_from_itself(CARS), TABLES, cars)
    check(apart_from_itself(CARS.group("car", "speed", n="count(*)")), TABLES, cars)
    check(over(CARS, ("count", Frame("range", -1, 0)), ("count", Frame("rows", -1, 0))), TABLES, cars)
    check(apart_from_itself(CARS).group("speed", n="count(*)").join(TOLLS, None), TABLES, cars)
    check(apart_from_itself(CARS).join(CARS.prefixed("b_"), "car = b_car", kind="left"), TABLES, cars)


ENDS = st.none() | st.integers(-3, 3)
FRAMES = st.tuples(st.sampled_from(["rows", "range"]), ENDS, ENDS).filter(
    lambda f: f[1] is None or f[2] is None or f[1] <= f[2]
)


@given(st.lists(FRAMES, min_size=1, max_size=3), st.lists(st.none() | st.integers(0, 4), max_size=6), st.booleans())
def test_frames_apart_hold_each_row_once(given: list, keys: list, descending: bool) -> None:
    frames = tuple(Frame(*f) for f in given)
    made = apart(frames)
    assume(made is not None)
    order = Order(Column("key"), descending)
    # Nulls first, as the order says.
    line = [(k,) for k in sorted(keys, key=lambda k: (k is not None, 0 if k is None else -k if descending else k))]

    def held(frame: Frame, row: int) -> list[int]:
        return list(frame_positions(frame, [order], [BIGINT], line)(row))

    for row in range(len(line)):
        wanted = {row, *(p for f in frames for p in held(f, row))}
        assert sorted(p for f in made for p in held(f, row)) == sorted(wanted)


def test_a_function_a_row_passes_intervals_on() -> None:
    step = OpaqueStep(CARS.plan, "per_row", "twice", (Field("double", BIGINT),), carried=("car",))
    ranged = carry_intervals(Flow(step).group("car", n="count(*)").plan)
    found = evaluate(ranged.plan, TABLES, {"twice": lambda row: [(1,), (2,)]})
    assert sorted(found, key=repr)[0] == (1, 4, 1, 2 << 32, 4, check_of({1: 2, 2 << 32: 2}))


def test_what_cannot_be_carried_says_so() -> None:
    for kind, keys in (("per_group", ("car",)), ("black_box", ())):
        with pytest.raises(NotTraceable, match="opaque 'fit' cannot be captured by intervals"):
            carry_intervals(CARS.opaque("f", kind, keys=keys, car="bigint").named("fit").plan)
    with pytest.raises(NotTraceable, match="more than equalities"):
        carry_intervals(CARS.join(TOLLS, "car < at", kind="semi").plan)


def test_how_many_and_check_never_overflow() -> None:
    """Each level has a hundred times as many as the one below: soon more than a bigint holds."""
    flow = CARS.group(n="count(*)")
    for level in range(12):
        hundred = Flow(Values((Field(f"v{level}", BIGINT),), tuple((i,) for i in range(100))))
        flow = flow.join(hundred, None).group(**{f"n{level}": "count(*)"})
    flow = flow.join(flow.prefixed("b_"), None)
    [row] = evaluate(carry_intervals(flow.plan).plan, TABLES)
    [said] = annotate(flow.plan, TABLES, MULTISETS)
    counts = {id: n for (_, id, _), n in said.annotation.items()}
    assert sum(counts.values()) == 5 * 2 * 100**12 > 2**63
    assert row[-4:-2] == (0, 3 << 60)
    assert row[-2] % MODULUS == sum(counts.values()) % MODULUS
    assert row[-1] == check_of(counts)


@given(st.integers(0, 2**63 - 1) | st.integers(0, 10_000))
def test_the_hash_is_the_same_everywhere(id: int) -> None:
    plan = Project(Values((Field("id", BIGINT),), ((id,), (None,))), (Named("hash", hash_call(Column("id"))),))
    assert evaluate(plan, {}) == [(hash_of(id),), (None,)]
    assert 0 <= hash_of(id) < MODULUS


def test_the_hash_has_room_for_every_id() -> None:
    for prime, factor, larger in (checks._FIRST, checks._SECOND):
        assert prime < larger < 2**31
        assert prime * factor < 2**63
    assert checks._FIRST[2] * checks._SECOND[2] < 2**63
    assert MODULUS * 2**36 < 2**63


def test_checks_tell_sets_apart_that_plain_sums_do_not() -> None:
    pairs = {check_of({a: 1, b: 1}) for a in range(100) for b in range(a)}
    assert len(pairs) == 100 * 99 // 2
    # Equal in number, sum, and sums of squares and cubes.
    assert check_of(dict.fromkeys((0, 3, 5, 6, 9, 10, 12, 15), 1)) != check_of(
        dict.fromkeys((1, 2, 4, 7, 8, 11, 13, 14), 1)
    )
    packed = {hash_of((file << 32) + row) for file in range(200) for row in range(100)}
    assert len(packed) >= 200 * 100 - 5  # of 20,000 about one pair is equal by chance
