"""The relational examples of Glavic et al. 2014 (Ariadne): example 1, the p-join of section 2.3, selection over b-sort.

Rows are called stream:number as there, and their ids are those numbers. What depends on order or on counted windows
belongs to the ordered operators.
"""

from tests.goldens.judges import lineage, results
from whence.lineage import ask_values, trace_back
from whence.plan.builder import source
from whence.plan.expressions import Call, Column
from whence.plan.nodes import Join
from whence.semantics import Table, evaluate

# Figure 3, stream 1: (location, time, temperature). 1:1 is an outlier of 399 degrees; the paper gives only the
# average of 1:2 to 1:4, which is 84.6, so those three temperatures are ours.
STREAM_1 = source("stream_1", location="int", time="int", t="double")
READINGS = {"stream_1": Table(("location", "time", "t"), [(1, 1, 399.0), (1, 2, 84.0), (1, 3, 85.1), (1, 4, 84.7)],
                              ids=[1, 2, 3, 4])}  # fmt: skip
AVERAGED = STREAM_1.where("t <= 350").group("location", time="min(time)", t="avg(t)").select("time", "location", "t")


def test_example_1() -> None:
    """5:1 is (2, 1, 84.6), made of 1:2, 1:3 and 1:4; the outlier 1:1 is in no lineage. Covering interval [1:2, 1:4]."""
    [row] = results(AVERAGED, READINGS)
    assert (row[0], row[1], round(row[2], 9)) == (2, 1, 84.6)
    made_of = lineage(AVERAGED, READINGS, row)
    assert made_of == {2, 3, 4} and (min(made_of), max(made_of), len(made_of)) == (2, 4, 3)


STREAM_7 = source("stream_7", location="int", time="int")
WINDOW_OF_10_1 = {"stream_7": Table(("location", "time"), [(1, 2), (2, 2)], ids=[4, 5])}
LOCATIONS = STREAM_7.group("time", n="count(distinct location)").where("n >= 2").select("time", "n")


def test_selection_and_projection_pass_lineage_on() -> None:
    """Section 3.2: 9:1 comes of 8:1 alone, and that of {7:4}; the other is dropped."""
    selected = STREAM_7.where("location = 1").select("location")
    assert lineage(selected, WINDOW_OF_10_1, (1,)) == {4}


def test_a_window_has_all_its_tuples() -> None:
    """10:1 = {7:4, 7:5}."""
    assert lineage(LOCATIONS, WINDOW_OF_10_1, (2, 2)) == {4, 5}


def test_p_join() -> None:
    """Section 2.3: t = (1) with {7:4, 7:5} gives (1, 1, 2) and (1, 2, 2)."""
    flow = STREAM_7.group("time", n="count(distinct location)").select(raised="n - 1")
    [edges] = trace_back(flow.plan, ask_values([1], [(2,)], flow.plan))
    table = source("stream_7", location="int", time="int", __whence_id="bigint")
    joined = Join(edges.plan, table.plan, "inner", Call("=", (Column("id"), Column("__whence_id"))))
    assert evaluate(flow.plan, WINDOW_OF_10_1) == [(1,)]
    assert [(tag, location, time) for tag, _, location, time, _ in evaluate(joined, WINDOW_OF_10_1)] == [
        (1, 1, 2), (1, 2, 2)
    ]  # fmt: skip
