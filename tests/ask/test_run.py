"""What a run can be asked, case by case: rows, answers, replay, explain, and each thing that can go wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import whence
from whence import Run
from whence.errors import (
    NotPortable,
    ParseError,
    PlanError,
    SourceChanged,
    UnknownRow,
    UnknownRun,
    UnknownSource,
    UnknownStep,
    WhenceError,
)
from whence.plan.builder import source
from whence.store import pack
from whence.testing.runs import OracleEngine

MakeRun = Callable[..., Run]
SAME_CAR = {"trips": ((1, 17, 5.0), (2, 17, 7.0), (3, 17, 1.0))}


def edges(answer: whence.Answer) -> list[tuple[object, ...]]:
    return [tuple(edge.values()) for edge in answer]


class TestRows:
    def test_they_come_in_the_order_of_the_run_with_their_ids(self, make_run: MakeRun) -> None:
        run = make_run()
        assert [(row.id, dict(row)) for row in run.rows()] == [
            (pack(0, 0), {"car": 17, "n": 2, "total": 12.0}),
            (pack(0, 1), {"car": 23, "n": 1, "total": 1.0}),
            (pack(1, 0), {"car": None, "n": 1, "total": 2.0}),
        ]
        assert len(run.rows()) == 3
        assert run.rows().to_arrow().column_names == ["car", "n", "total"]
        assert list(run.rows().to_pandas()["n"]) == [2, 1, 1]

    def test_a_predicate_chooses(self, make_run: MakeRun) -> None:
        run = make_run()
        assert run.rows("car = 17").one()["n"] == 2
        assert [row["car"] for row in run.rows("n = 1")] == [23, None]
        assert run.rows("n = 1").first()["car"] == 23
        assert run.rows("n = 7").head(1) == []

    def test_one_is_exactly_one(self, make_run: MakeRun) -> None:
        run = make_run()
        with pytest.raises(UnknownRow, match="no such row"):
            run.rows("car = 18").one()
        with pytest.raises(UnknownRow, match="more than one such row"):
            run.rows("n = 1").one()
        with pytest.raises(UnknownRow, match="no such row"):
            run.rows("car = 18").first()

    def test_a_row_is_a_mapping_that_names_its_columns(self, make_run: MakeRun) -> None:
        row = make_run().rows("car = 17").one()
        assert list(row) == ["car", "n", "total"]
        assert "car" in row and "speed" not in row
        assert row.get("speed") is None
        with pytest.raises(UnknownRow, match=r"no column 'speed'[\s\S]*car, n, total"):
            row["speed"]

    @pytest.mark.parametrize("where", ["car =", "speed = 0", "car", "1; drop table x", "car = 17 or", ""])
    def test_a_malformed_predicate_is_refused(self, make_run: MakeRun, where: str) -> None:
        with pytest.raises((ParseError, PlanError)):
            make_run().rows(where)

    def test_they_show_themselves(self, make_run: MakeRun) -> None:
        run = make_run()
        assert repr(run.rows("car = 17")) == f"Row(id={pack(0, 0)}, car=17, n=2, total=12.0)"
        assert repr(run.rows("car = 18")) == "no rows"


class TestBack:
    def test_of_one_row(self, make_run: MakeRun) -> None:
        run = make_run()
        answer = run.back(run.rows("car = 17").one())
        assert edges(answer) == [
            (pack(0, 0), "trips", pack(0, 0), "value"),
            (pack(0, 0), "trips", pack(0, 1), "value"),
        ]
        assert answer.exactness == "exact" and answer.reason == ""
        assert answer.table("trips").to_pylist() == [
            {"id": 1, "car": 17, "length": 5.0},
            {"id": 2, "car": 17, "length": 7.0},
        ]
        assert answer.results().to_pylist() == [{"car": 17, "n": 2, "total": 12.0}]
        assert answer.seconds > 0

    def test_a_null_key_is_a_group(self, make_run: MakeRun) -> None:
        run = make_run()
        answer = run.back("car is null")
        assert answer.table("trips").to_pylist() == [{"id": 4, "car": None, "length": 2.0}]

    @pytest.mark.parametrize("capture", ["lazy", "eager"])
    def test_of_rows_by_all_names_they_have(self, make_run: MakeRun, capture: str) -> None:
        run = make_run(capture=capture)
        row = run.rows("car = 23").one()
        expected = [(row.id, "trips", pack(0, 2), "value")]
        for asked in (row, row.id, [row], [row.id, row.id], "car = 23", run.rows("car = 23"), (r for r in [row])):
            assert edges(run.back(asked)) == expected
        assert len(run.back()) == 4
        assert edges(run.back([])) == []

    @pytest.mark.parametrize("capture", ["lazy", "eager"])
    def test_of_some_sources(self, make_run: MakeRun, capture: str) -> None:
        cars = source("cars", key="bigint", maker="string")
        trips = source("trips", id="bigint", car="bigint", length="double")
        plan = trips.join(cars, "car = key").plan
        run = make_run(plan, {"trips": ((1, 17, 5.0),), "cars": ((17, "b"), (17, "c"))}, capture=capture)
        assert {e["source"] for e in run.back()} == {"trips", "cars"}
        answer = run.back(sources="cars")
        assert {e["source"] for e in answer} == {"cars"} and answer.sources == ("cars",)
        assert edges(run.back(sources=["trips", "cars"])) == edges(run.back())
        with pytest.raises(UnknownSource, match="no source 'trips'"):
            answer.table("trips")

    def test_equal_rows_keep_their_own_lineage(self, make_run: MakeRun) -> None:
        plan = source("trips", id="bigint", car="bigint", length="double").select("car").plan
        run = make_run(plan, SAME_CAR)
        assert [edges(run.back(row)) for row in run.rows()] == [
            [(pack(0, 0), "trips", pack(0, 0), "value")],
            [(pack(0, 1), "trips", pack(0, 1), "value")],
            [(pack(1, 0), "trips", pack(1, 0), "value")],
        ]

    def test_an_engine_may_give_the_results_in_any_order(
        self, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = make_run(source("trips", id="bigint", car="bigint", length="double").select("car").plan, SAME_CAR)
        expected = edges(run.back())
        forwards = OracleEngine.run
        monkeypatch.setattr(OracleEngine, "run", lambda self, plan: forwards(self, plan)[::-1])
        assert edges(run.back()) == expected == edges(run.forward("trips"))

    def test_copies_of_one_derivation_are_all_reached(self, make_run: MakeRun) -> None:
        trips = source("trips", id="bigint", car="bigint", length="double")
        plan = trips.select("car").subtract(trips.where("id = 1").select("car"), all=True).plan
        run = make_run(plan, SAME_CAR)
        assert [row["car"] for row in run.rows()] == [17, 17]
        assert len(run.back()) == 6
        assert edges(run.forward("trips")) == edges(run.back())

    @pytest.mark.parametrize("asked", [99, -1, 2**70, [0, 99], True, 1.5, [None], object()])
    def test_an_unknown_row_is_refused(self, make_run: MakeRun, asked: object) -> None:
        with pytest.raises(UnknownRow):
            make_run().back(asked)  # type: ignore[arg-type]

    def test_an_unknown_source_or_engine_is_refused(self, make_run: MakeRun) -> None:
        run = make_run()
        with pytest.raises(UnknownSource, match=r"no source 'cars'[\s\S]*trips"):
            run.back(sources="cars")
        with pytest.raises(NotPortable, match=r"no engine 'flink'[\s\S]*duckdb, spark"):
            run.back(engine="flink")  # type: ignore[arg-type]


class TestWhatWasStoredIsNotWhatIsRecomputed:
    def test_another_value_is_a_mismatch_and_never_exact(self, make_run: MakeRun) -> None:
        run = make_run(results=((17, 3, 12.0), (23, 1, 1.0), (None, 1, 2.0)))
        answer = run.back("car = 17")
        assert answer.exactness == "mismatch"
        assert "recomputing gives no row with the values of result 0" in answer.reason
        assert len(answer) == 0
        assert run.back("car = 23").exactness == "exact"
        assert run.back().exactness == "mismatch"

    def test_floats_that_differ_by_rounding_are_the_same(self, make_run: MakeRun) -> None:
        run = make_run(results=((17, 2, 12.000000000000002), (23, 1, 1.0), (None, 1, 2.0)))
        assert run.back("car = 17").exactness == "exact"
        assert len(run.back("car = 17")) == 2
        assert len(run.forward("trips", "car = 17")) == 2

    def test_floats_that_differ_by_more_are_not(self, make_run: MakeRun) -> None:
        run = make_run(results=((17, 2, 12.1), (23, 1, 1.0), (None, 1, 2.0)))
        assert run.back("car = 17").exactness == "mismatch"

    def test_a_row_too_many_among_equals_is_a_mismatch(self, make_run: MakeRun) -> None:
        run = make_run(results=((17, 2, 12.0), (17, 2, 12.0), (23, 1, 1.0), (None, 1, 2.0)))
        first, second = run.rows("car = 17")
        assert run.back(first).exactness == "exact"
        assert run.back(second).exactness == "mismatch"

    def test_a_row_too_few_shows_going_forward(self, make_run: MakeRun) -> None:
        run = make_run(results=((23, 1, 1.0), (None, 1, 2.0)))
        answer = run.forward("trips", "car = 17")
        assert (answer.exactness, len(answer)) == ("mismatch", 0)


class TestForward:
    @pytest.mark.parametrize("capture", ["lazy", "eager"])
    def test_of_chosen_rows(self, make_run: MakeRun, capture: str) -> None:
        run = make_run(capture=capture)
        answer = run.forward("trips", "length > 5")
        assert edges(answer) == [(pack(0, 0), "trips", pack(0, 1), "value")]
        assert [dict(row) for row in answer.rows()] == [{"car": 17, "n": 2, "total": 12.0}]
        assert len(run.forward("trips")) == 4
        assert len(run.forward("trips", "id = 5")) == 0
        assert len(run.forward("trips", "id = 50")) == 0

    def test_an_unknown_source_or_column_is_refused(self, make_run: MakeRun) -> None:
        run = make_run()
        with pytest.raises(UnknownSource):
            run.forward("cars")
        with pytest.raises(PlanError, match=r"unknown column 'speed'[\s\S]*id, car, length"):
            run.forward("trips", "speed = 1")


class TestReplay:
    @pytest.mark.parametrize("capture", ["lazy", "eager"])
    def test_a_row_comes_again_from_its_witness(self, make_run: MakeRun, capture: str) -> None:
        run = make_run(capture=capture)
        replay = run.replay(run.rows("car = 17").one())
        assert replay and replay.matches
        assert [dict(row) for row in replay.rows] == [{"car": 17, "n": 2, "total": 12.0}]
        assert len(replay.witness) == 2 and replay.whole_inputs == ()

    def test_a_row_that_was_changed_does_not(self, make_run: MakeRun) -> None:
        run = make_run(capture="eager")
        stored = run.stored.path / "results" / "epoch=000000" / "part-00000.parquet"
        before = stored.stat()
        from pyarrow import parquet

        table = parquet.read_table(stored, partitioning=None)
        n = table.column_names.index("n")
        parquet.write_table(
            table.set_column(n, table.schema.field(n), pa.array([3] + [1] * (table.num_rows - 1))), stored
        )
        assert stored.stat().st_size == before.st_size, "else the store itself would have said so"
        replay = run.replay(pack(0, 0))
        assert not replay and replay.row["n"] == 3

    def test_steps_that_need_whole_inputs_are_named(self, make_run: MakeRun) -> None:
        plan = source("trips", id="bigint", car="bigint", length="double").sort("id").limit(2).named("two").plan
        run = make_run(plan)
        assert run.replay(run.rows().first()).whole_inputs == ("limit 'two'",)


class TestExplain:
    def test_it_says_what_was_chosen_and_what_else_would_cost(self, make_run: MakeRun) -> None:
        explanation = make_run().explain()
        assert (explanation.capture, explanation.reason) == ("lazy", "written by hand")
        assert [step.name for step in explanation.steps] == ["trips", "early", "by car"]
        lazy, eager = explanation.costs
        assert (lazy.bytes, eager.bytes, eager.measured) == (0, 5 * 8, False)
        assert "lazy adds nothing" in str(explanation)

    def test_what_an_eager_run_carries_is_measured(self, make_run: MakeRun) -> None:
        eager = make_run(capture="eager").explain().costs[1]
        assert eager.measured and eager.bytes is not None and 0 < eager.bytes < 1_000


class TestARunThatIsNotAsItWas:
    def test_a_changed_source_is_reported_by_name(self, make_run: MakeRun) -> None:
        run = make_run()
        file = run.stored.source_files("trips")[0].path
        file.write_bytes(file.read_bytes() + b"x")
        with pytest.raises(SourceChanged, match="source 'trips' is not what the run read"):
            run.back("car = 17")

    def test_there_may_be_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownRun, match="there is no run"):
            whence.open(tmp_path / "nothing")

    def test_what_belongs_to_live_streams_says_so(self, make_run: MakeRun) -> None:
        run = make_run()
        assert not run.isActive
        for call in (run.stop, run.awaitTermination, lambda: run.query, lambda: run.lastProgress):
            with pytest.raises(UnknownStep, match="no stream of this run was started here"):
                call()


class TestAnswer:
    def test_it_shows_itself(self, make_run: MakeRun) -> None:
        answer = make_run().back("car = 17")
        assert repr(answer).startswith("back: 1 result row and 2 of trips\nexact, by duckdb in ")
        html = answer._repr_html_()
        assert "<b>trips</b>" in html and "<td>5.0</td>" in html

    def test_edges_are_a_small_table(self, make_run: MakeRun) -> None:
        table = make_run().back().edges()
        assert table.column_names == ["result", "source", "source_id", "role"]
        assert pa.types.is_dictionary(table.schema.field("source").type)
        assert make_run(name="again").back([]).edges().schema == table.schema
        assert list(make_run(name="third").back("car = 17").to_pandas()["source"]) == ["trips", "trips"]


def test_every_public_name_is_there() -> None:
    for name in whence.__all__:
        assert getattr(whence, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'upstream'"):
        whence.upstream  # noqa: B018
    assert issubclass(UnknownRun, WhenceError)
