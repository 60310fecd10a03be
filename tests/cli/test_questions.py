"""Rows, back, forward and replay on the command line: what they say, to whom, and how they end."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import whence
from tests.cli.conftest import Ask, Cars
from whence.store import pack

ROW = 1 << 32
"""The id of the first row of the second file."""


class TestRows:
    def test_people_get_a_table_with_the_ids_first(self, ask: Ask, trips: Path) -> None:
        said = ask("rows", trips)
        assert said.code == 0
        assert [line.split() for line in said.out] == [
            ["row", "id", "car", "n", "total"],
            ["─" * len(said.out[1])],
            ["0", "17", "2", "12.0"],
            ["1", "23", "1", "1.0"],
            [str(ROW), "null", "1", "2.0"],
        ]
        assert said.err == []

    def test_programs_get_an_object_a_row(self, ask: Ask, trips: Path) -> None:
        said = ask("rows", trips, "--json")
        assert said.data == [
            {"id": 0, "row": {"car": 17, "n": 2, "total": 12.0}},
            {"id": 1, "row": {"car": 23, "n": 1, "total": 1.0}},
            {"id": ROW, "row": {"car": None, "n": 1, "total": 2.0}},
        ]
        assert said.err == []

    def test_a_predicate_and_a_limit_choose(self, ask: Ask, trips: Path) -> None:
        assert [r["id"] for r in ask("rows", trips, "--where", "n = 1", "--json").data] == [1, ROW]
        assert [r["id"] for r in ask("rows", trips, "--limit", "1", "--json").data] == [0]
        assert len(ask("rows", trips, "--limit", "2").out) == 2 + 2
        assert ask("rows", trips, "--limit", "0").code == 1

    @pytest.mark.parametrize("json", [[], ["--json"]])
    def test_none_is_1(self, ask: Ask, trips: Path, json: list[str]) -> None:
        said = ask("rows", trips, "--where", "car = 99", *json)
        assert (said.code, said.out) == (1, [])
        none = "no rows for which car = 99"
        assert said.talk == {"none": none} if json else said.err == [none]

    def test_a_screen_is_not_flooded(self, ask: Ask, tmp_path: Path) -> None:
        from whence.plan.builder import source
        from whence.testing.runs import write_run

        write_run(tmp_path / "many", source("numbers", n="bigint").plan, {"numbers": [(n,) for n in range(1234)]})
        said = ask("rows", tmp_path / "many")
        assert len(said.out) == 2 + 30
        assert said.err == ["the first 30 of 1,234; --limit shows more"]
        assert len(ask("rows", tmp_path / "many", "--limit", "100").out) == 2 + 100
        assert len(ask("rows", tmp_path / "many", "--json").out) == 1234
        assert ask("back", tmp_path / "many").err[0] == "the first 30 of 1,234; --json has all"
        assert len(ask("back", tmp_path / "many", "--json").out) == 1234
        assert ask("back", tmp_path / "many", "--edges").err[0] == "the first 30 of 1,234 edges; --json has all"


class TestBack:
    @pytest.mark.parametrize("capture", ["lazy", "eager"])
    def test_of_every_alert_it_gives_what_was_planted(self, ask: Ask, cars: Cars, capture: str) -> None:
        run = getattr(cars, capture)
        alerts = {(a.car, a.start): a for a in cars.planted.batch}
        rows = ask("rows", run, "--json").data
        assert len(rows) == len(alerts) > 5
        said = ask("back", run, "--json")
        assert said.code == 0
        for row in rows:
            alert = alerts[row["row"]["car"], datetime.fromisoformat(row["row"]["window"]["start"])]
            mine = [found for found in said.data if row["id"] in found["results"]]
            assert tuple(datetime.fromisoformat(found["row"]["at"]) for found in mine) == alert.reports
            assert {(f["source"], f["role"], f["row"]["car"]) for f in mine} == {("reports", "value", alert.car)}

    def test_people_get_the_rows_and_the_talk_apart(self, ask: Ask, trips: Path) -> None:
        said = ask("back", trips, "--row", 0)
        assert said.code == 0
        assert said.out[0] == "trips (2 rows)"
        assert [line.split() for line in said.out[1:]] == [
            ["row", "id", "id", "car", "length"],
            ["─" * len(said.out[2])],
            ["0", "1", "17", "5.0"],
            ["1", "2", "17", "7.0"],
        ]
        assert said.err[0] == "1 result row was made by 2 rows of trips"
        assert said.err[1].startswith("exact; by DuckDB in 0.") or said.err[1].startswith("exact; by DuckDB in ")
        assert len(said.err) == 2

    def test_programs_get_objects_and_what_is_known_of_the_answer(self, ask: Ask, trips: Path) -> None:
        said = ask("back", trips, "--row", 0, "--row", 1, "--json")
        assert said.data == [
            {"source": "trips", "id": 0, "results": [0], "role": "value", "row": {"id": 1, "car": 17, "length": 5.0}},
            {"source": "trips", "id": 1, "results": [0], "role": "value", "row": {"id": 2, "car": 17, "length": 7.0}},
            {"source": "trips", "id": 2, "results": [1], "role": "value", "row": {"id": 3, "car": 23, "length": 1.0}},
        ]
        seconds = said.talk.pop("seconds")
        assert isinstance(seconds, float)
        assert said.talk | {"seconds": seconds} == {
            "answer": "back",
            "exactness": "exact",
            "reason": "",
            "engine": "duckdb",
            "seconds": seconds,
            "results": 2,
            "sources": {"trips": 3},
            "edges": 3,
        }

    def test_several_results_are_told_apart(self, ask: Ask, trips: Path) -> None:
        said = ask("back", trips)
        assert said.out[1].endswith("went into")
        assert [line.split()[-1] for line in said.out[3:]] == ["0", "0", "1", str(ROW)]

    def test_edges(self, ask: Ask, trips: Path) -> None:
        assert ask("back", trips, "--where", "car = 17", "--edges", "--json").data == [
            {"result": 0, "source": "trips", "source_id": 0, "role": "value"},
            {"result": 0, "source": "trips", "source_id": 1, "role": "value"},
        ]
        header, _, edge = ask("back", trips, "--row", 1, "--edges").out
        assert header.split() == ["result", "source", "source", "row", "role"]
        assert edge.split() == ["1", "trips", "2", "value"]

    def test_roles_and_sources(self, ask: Ask, known: Path) -> None:
        said = ask("back", known, "--where", "id = 1")
        assert [line for line in said.out if line.endswith(("row)", "rows)"))] == [
            "trips (1 row)",
            "cars (2 rows)",
        ]
        assert said.out[said.out.index("cars (2 rows)") + 3].split() == ["0", "17", "b", "condition"]
        assert said.err[0] == "1 result row was made by 1 row of trips and 2 rows of cars"
        found = ask("back", known, "--where", "id = 1", "--json").data
        assert [(f["source"], f["role"]) for f in found] == [
            ("trips", "value"),
            ("cars", "condition"),
            ("cars", "condition"),
        ]
        assert {f["source"] for f in ask("back", known, "--source", "cars", "--json").data} == {"cars"}

    def test_a_row_that_is_a_value_for_one_result_and_a_condition_for_another_is_a_value(
        self, ask: Ask, tmp_path: Path
    ) -> None:
        from whence.plan.builder import source
        from whence.testing.runs import write_run

        left = source("trips", id="bigint", car="bigint")
        plan = left.join(left.prefixed("other_"), "car = other_car and id != other_id", kind="semi").plan
        write_run(tmp_path / "both", plan, {"trips": ((1, 17), (2, 17), (3, 23))})
        found = ask("back", tmp_path / "both", "--json").data
        assert [(f["id"], f["results"], f["role"]) for f in found] == [(0, [0, ROW], "value"), (1, [0, ROW], "value")]

    @pytest.mark.parametrize("json", [[], ["--json"]])
    def test_none_is_1(self, ask: Ask, trips: Path, json: list[str]) -> None:
        said = ask("back", trips, "--where", "car = 99", *json)
        assert (said.code, said.out) == (1, [])
        assert (
            said.talk == {"none": "no result rows for which car = 99"}
            if json
            else said.err == ["no result rows for which car = 99"]
        )

    def test_an_answer_that_is_not_one_says_so_and_is_1(self, ask: Ask, changed: Path) -> None:
        said = ask("back", changed)
        assert said.code == 1
        assert said.out[0] == "trips (2 rows)"
        assert said.err[1].startswith("mismatch: some of what was asked has no answer; by DuckDB")
        assert "recomputing gives no row with the values of result 0" in said.err[2]
        assert ask("back", changed, "--row", 0).out == []
        assert ask("back", changed, "--json").talk["exactness"] == "mismatch"
        assert ask("back", changed, "--row", 1).code == 0


class TestForward:
    @pytest.mark.parametrize("capture", ["lazy", "eager"])
    def test_of_every_report_it_gives_the_alerts_planted_with_it(self, ask: Ask, cars: Cars, capture: str) -> None:
        run = getattr(cars, capture)
        car = cars.planted.batch[0].car
        said = ask("forward", run, "reports", "--where", f"car = {car}", "--json")
        assert said.code == 0
        starts = [datetime.fromisoformat(found["row"]["window"]["start"]) for found in said.data]
        assert starts == [a.start for a in cars.planted.batch if a.car == car]
        assert all(len(found["source_ids"]) == 4 and found["source"] == "reports" for found in said.data)
        first = cars.planted.batch[0].reports[0]
        at = f"car = {car} and at = '{first.astimezone(UTC):%Y-%m-%d %H:%M:%S}'"
        assert len(ask("forward", run, "reports", "--where", at, "--json").data) == sum(
            first in a.reports for a in cars.planted.batch if a.car == car
        )

    def test_people_get_a_table(self, ask: Ask, trips: Path) -> None:
        said = ask("forward", trips, "trips", "--where", "length > 5")
        assert said.code == 0
        assert said.out[2].split() == ["0", "17", "2", "12.0"]
        assert said.err[0] == "1 row of trips made 1 result"
        assert ask("forward", trips, "trips").out[0].endswith("made by")
        assert ask("forward", trips, "trips").err[0] == "4 rows of trips made 3 results"

    def test_edges(self, ask: Ask, trips: Path) -> None:
        assert ask("forward", trips, "trips", "--where", "id = 3", "--edges", "--json").data == [
            {"result": 1, "source": "trips", "source_id": 2, "role": "value"}
        ]

    def test_none_is_1(self, ask: Ask, trips: Path) -> None:
        said = ask("forward", trips, "trips", "--where", "id = 5")
        assert (said.code, said.out) == (1, [])
        assert said.err[0] == "no result came from trips for which id = 5"

    def test_results_that_are_not_stored_are_a_mismatch(self, ask: Ask, changed: Path) -> None:
        said = ask("forward", changed, "trips", "--where", "car = 17")
        assert said.code == 1
        assert said.err[1].startswith("mismatch")


class TestReplay:
    @pytest.mark.parametrize("capture", ["lazy", "eager"])
    def test_a_row_that_comes_again_is_0(self, ask: Ask, cars: Cars, capture: str) -> None:
        run = getattr(cars, capture)
        said = ask("replay", run, "--row", 0)
        assert said.code == 0
        stored, again = (line.split(maxsplit=1) for line in said.out[2:4])
        assert (stored[0], again[0]) == ("stored", "recomputed")
        assert stored[1] == again[1]
        assert said.out[4] == "matches: 4 rows of reports alone give the row again"
        assert said.err[-1].startswith("by DuckDB in ")

    def test_programs_get_one_object(self, ask: Ask, trips: Path) -> None:
        said = ask("replay", trips, "--where", "car = 17", "--json")
        (found,) = said.data
        seconds = found.pop("seconds")
        assert isinstance(seconds, float)
        assert found == {
            "id": 0,
            "matches": True,
            "row": {"car": 17, "n": 2, "total": 12.0},
            "recomputed": [{"car": 17, "n": 2, "total": 12.0}],
            "witness": {"trips": [0, 1]},
            "whole_inputs": [],
            "exactness": "exact",
            "engine": "duckdb",
        }
        assert said.err == []

    def test_a_row_that_does_not_is_1(self, ask: Ask, changed: Path) -> None:
        said = ask("replay", changed, "--row", 0)
        assert said.code == 1
        assert said.out[-1].startswith("does not match")
        assert ask("replay", changed, "--row", 0, "--json").data[0]["matches"] is False

    def test_steps_that_need_all_are_named(self, ask: Ask, tmp_path: Path) -> None:
        from whence.plan.builder import source
        from whence.testing.runs import write_run

        plan = source("numbers", n="bigint").sort("n").limit(2).named("two").plan
        write_run(tmp_path / "limit", plan, {"numbers": [(3,), (1,), (2,)]})
        said = ask("replay", tmp_path / "limit", "--row", 0)
        assert said.code == 0
        assert said.err[0].startswith("limit 'two': means nothing on a few rows alone")

    def test_one_row_at_a_time(self, ask: Ask, trips: Path) -> None:
        assert ask("replay", trips).code == 2
        assert ask("replay", trips, "--row", 0, "--row", 1).code == 2
        said = ask("replay", trips, "--where", "n = 1")
        assert (said.code, said.err[0]) == (2, "2 result rows for which n = 1: choose one, for example with --row 1")
        assert ask("replay", trips, "--where", "n = 9").code == 1


@pytest.mark.parametrize("command", ["rows", "back", "forward", "replay", "explain", "doctor"])
@pytest.mark.parametrize("json", [[], ["--json"]])
def test_where_there_is_no_run_every_command_is_refused(
    ask: Ask, tmp_path: Path, command: str, json: list[str]
) -> None:
    more: list[Any] = {"forward": ["trips"], "replay": ["--row", 0]}.get(command, [])
    said = ask(command, tmp_path / "nothing", *more, *json)
    assert (said.code, said.out) == (2, [])
    statement = f"there is no run at {tmp_path / 'nothing'}"
    if json:
        assert said.talk["error"] == {
            "kind": "UnknownRun",
            "statement": statement,
            "detail": "there is nothing at this path",
            "hint": "list the runs of a folder: whence runs FOLDER",
        }
    else:
        assert said.err[0] == statement
        assert said.err[-1].startswith("hint: ")


REFUSED = {
    "a condition that is none": ["rows", "RUN", "--where", "car"],
    "an unknown column": ["back", "RUN", "--where", "speed = 1"],
    "an unknown row": ["back", "RUN", "--row", "99"],
    "an unknown source": ["back", "RUN", "--source", "cars"],
    "an unknown source, forward": ["forward", "RUN", "cars"],
    "an unknown row, replay": ["replay", "RUN", "--row", "-1"],
    "two ways": ["back", "RUN", "--row", "0", "--where", "n = 1"],
    "an unknown option": ["back", "RUN", "--upstream"],
    "an unknown engine": ["back", "RUN", "--engine", "flink"],
    "an unknown command": ["upstream", "RUN"],
    "no number": ["back", "RUN", "--row", "first"],
    "a negative limit": ["rows", "RUN", "--limit", "-1"],
    "nothing to ask": ["forward", "RUN"],
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_use_is_2_with_words_on_stderr_and_nothing_on_stdout(ask: Ask, trips: Path, case: str) -> None:
    arguments = [trips if a == "RUN" else a for a in REFUSED[case]]
    said = ask(*arguments)
    assert (said.code, said.out) == (2, [])
    assert said.err and not any("Traceback" in line for line in said.err)
    as_json = ask(*arguments, "--json")
    assert (as_json.code, as_json.out) == (2, [])
    assert set(as_json.talk["error"]) == {"kind", "statement", "detail", "hint"}
    assert as_json.talk["error"]["statement"] == said.err[0]


def test_the_columns_that_there_are_are_those_of_the_user(ask: Ask, trips: Path) -> None:
    said = ask("rows", trips, "--where", "speed = 1")
    assert said.err[:2] == ["unknown column 'speed'", "columns here: car, n, total"]


def test_a_changed_source_is_named(ask: Ask, trips: Path) -> None:
    file = whence.open(trips).stored.source_files("trips")[0].path
    file.write_bytes(file.read_bytes() + b"x")
    said = ask("back", trips, "--row", 0)
    assert said.code == 2
    assert said.err[0] == "source 'trips' is not what the run read"


def test_spark_can_be_asked_for(ask: Ask, trips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which engine is wanted arrives at the run; what Spark answers is tested with Spark."""
    wanted = []

    def back(self: whence.Run, rows: object, *, sources: object, engine: str) -> whence.Answer:
        wanted.append(engine)
        raise whence.WhenceError("enough seen")

    monkeypatch.setattr(whence.Run, "back", back)
    assert ask("back", trips, "--engine", "spark").err == ["starting Spark", "enough seen"]
    assert wanted == ["spark"]


def test_ids_are_those_of_the_library(ask: Ask, trips: Path) -> None:
    assert [row["id"] for row in ask("rows", trips, "--json").data] == whence.open(trips).rows().ids()
    assert pack(1, 0) == ROW
