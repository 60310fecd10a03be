"""Odd values, narrow terminals, broken pipes: nothing makes the command line stumble."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.cli.conftest import Ask, Cars
from whence.cli import output
from whence.cli.output import Output
from whence.cli.values import rows_of, to_json, to_text

_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.dates()
    | st.timedeltas()
)
_values = st.recursive(_leaves, lambda v: st.lists(v) | st.dictionaries(st.text(), v) | st.tuples(v, v), max_leaves=8)


@given(_values)
def test_every_value_is_strict_json(value: object) -> None:
    text = json.dumps(to_json(value), allow_nan=False)
    assert isinstance(text, str)


@given(_values)
def test_every_value_is_one_printable_line(value: object) -> None:
    assert to_text(value).isprintable()


@pytest.mark.parametrize(
    ("value", "expected", "shown"),
    [
        (float("nan"), "NaN", "NaN"),
        (float("-inf"), "-Infinity", "-Infinity"),
        (Decimal("0E-10"), "0.0000000000", "0.0000000000"),
        (Decimal("1E+3"), "1000", "1000"),
        (b"\x00\xff", "00ff", "00ff"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00", "2026-01-01 00:00:00"),
        (datetime(2026, 1, 1), "2026-01-01T00:00:00", "2026-01-01 00:00:00"),
        (timedelta(days=1, microseconds=500_000), "PT86400.5S", "PT86400.5S"),
        (-timedelta(seconds=3), "-PT3S", "-PT3S"),
        ([(1, "a"), (2, None)], [[1, "a"], [2, None]], "[1: a, 2: null]"),
        ({"a": {"b": [True]}}, {"a": {"b": [True]}}, "{a: {b: [true]}}"),
        ("line\nbreak", "line\nbreak", "line\\nbreak"),
        (2**63 - 1, 2**63 - 1, "9223372036854775807"),
    ],
)
def test_values(value: object, expected: object, shown: str) -> None:
    assert (to_json(value), to_text(value)) == (expected, shown)


def test_negative_zero_keeps_its_sign() -> None:
    found = to_json(-0.0)
    assert isinstance(found, float)
    assert math.copysign(1, found) == -1


def test_windows_are_short() -> None:
    day = datetime(2026, 1, 1, 23, 59, tzinfo=UTC)
    assert to_text({"start": day, "end": day + timedelta(seconds=30)}) == "2026-01-01 23:59:00 to 23:59:30"
    assert to_text({"start": day, "end": day + timedelta(minutes=2)}) == "2026-01-01 23:59:00 to 2026-01-02 00:01:00"


def test_times_that_python_has_no_value_for() -> None:
    far = pa.table({"at": pa.array([2**61, 0, None], pa.timestamp("us", "UTC")), "n": [1, 2, 3]})
    first, second, third = rows_of(far)
    assert isinstance(first[0], str) and first[1] == 1
    assert second == (datetime(1970, 1, 1, tzinfo=UTC), 2)
    assert third == (None, 3)
    assert to_text(first[0]).isprintable()


def test_odd_values_on_the_command_line(ask: Ask, odd: Path) -> None:
    first, second, third = (entry["row"] for entry in ask("back", odd, "--json").data)
    assert first == {
        "id": 1,
        "x": "NaN",
        "price": "1234567890.1200",
        "at": "2026-01-01T08:00:00.000005+00:00",
        "local": "0001-01-01T00:00:00",
        "day": "9999-12-31",
        "raw": "00ff",
        "text": "tab\there \x1b[31mred\x1b[0m\nnext \u202e \u8eca",
        "list": [1, None, 3],
        "pair": {"yes": True, "name": "x"},
    }
    assert (second["x"], second["pair"]) == ("-Infinity", None)
    assert third["pair"] == {"yes": None, "name": None}
    for width in (None, 20, 80, 120):
        said = ask("rows", odd, columns=width)
        assert said.code == 0
        assert len(said.out) == 2 + 3
        assert not any("\x1b" in line for line in said.out)
        assert width is None or max(map(cell_len, said.out)) <= width


@pytest.mark.parametrize("width", [1, 10, 20, 40, 60, 80, 120, 200])
def test_tables_fit_the_terminal_or_say_what_is_left_away(ask: Ask, cars: Cars, width: int) -> None:
    said = ask("back", cars.lazy, columns=width)
    assert said.code == 0
    # Ids are never cut, however narrow it is.
    assert max(map(cell_len, said.out)) <= max(width, len("reports (99 rows)"))
    ids = [line.split()[0] for line in said.out[3:]]
    assert ids == [str(row["id"]) for row in ask("back", cars.lazy, "--json").data]
    left = [line for line in said.err if line.startswith("no room for ")]
    assert bool(left) == (width < 80), said
    if left:
        assert "went into" in left[0] and "--json all" in left[0]


def test_without_a_terminal_nothing_is_cut(ask: Ask, tmp_path: Path) -> None:
    from whence.plan.builder import source
    from whence.testing.runs import write_run

    write_run(tmp_path / "long", source("t", a="string", b="string").plan, {"t": [("x" * 300, "y" * 300)]})
    assert "x" * 300 + "  " + "y" * 300 in ask("rows", tmp_path / "long").out[2]
    cut = ask("rows", tmp_path / "long", columns=80)
    assert cut.out[2].endswith("…")
    assert len(cut.out[2]) <= 80


def test_no_utf_8_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    narrow = io.TextIOWrapper(raw, encoding="ascii", errors="strict", write_through=True)
    monkeypatch.setattr(output.sys, "stdout", narrow)
    Output(True).record(text="\u8eca \xe9")
    Output(False).table(("car",), [("\u8eca",)])
    Output(False).write("f\xfcnf")
    said = raw.getvalue().decode("ascii").splitlines()
    assert json.loads(said[0]) == {"text": "\u8eca \xe9"}
    assert "\\u8eca" in said[3]
    assert said[4] == "f\\xfcnf"
