"""Runs that earlier versions wrote, in `frozen/format-N/`: this version and every later one must open them.

They are never written again. A new format brings new examples beside the old ones.
"""

import shutil
from pathlib import Path

import pytest
from pyarrow import parquet

from whence.errors import BrokenRun, SourceChanged
from whence.store import FORMAT, Annotation, list_runs, open_run, pack, resume

FROZEN = Path(__file__).with_name("frozen")


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    """A copy, to write in."""
    return Path(shutil.copytree(FROZEN, tmp_path / "frozen"))


def test_every_format_has_examples_and_all_open() -> None:
    assert sorted(path.name for path in FROZEN.iterdir()) == [f"format-{number}" for number in range(1, FORMAT + 1)]
    for folder in FROZEN.iterdir():
        found = list_runs(folder)
        assert len(found) == len(list(folder.iterdir()))
        assert [entry.problem for entry in found] == [None] * len(found)


def test_the_stream_of_format_1() -> None:
    run = open_run(FROZEN / "format-1/stream-pinned")
    assert run.state() == "stopped"
    assert (run.manifest.kind, run.manifest.capture, run.manifest.output_mode) == ("stream", "lazy", "append")
    assert [plan.version for plan in run.manifest.plans] == [1, 2]
    assert run.manifest.steps == ("reports", "stopped", "counted", "often")
    assert (run.manifest.plan.portable, run.manifest.plan.opaque) == (False, ("step often calls a Python function",))
    assert run.manifest.query == "pipelines.cars:stopped"
    assert run.manifest.spark.conf["spark.sql.session.timeZone"] == "UTC"
    assert run.source("reports").partition_columns == ("day",)
    assert [column.type for column in run.manifest.columns] == [
        "struct<start:timestamp,end:timestamp>",
        "bigint",
        "bigint",
    ]

    assert [(epoch.number, epoch.plan, epoch.watermark_ms, epoch.late_before_ms) for epoch in run.epochs] == [
        (0, 1, 0, 0),
        (1, 1, 1767254490000, 0),
        (2, 2, 1767254490000, 1767254490000),
    ]
    assert run.epoch(1).clock_ms == 1767254460000
    assert run.epoch(2).counts == {"results": 1, "reports": 80}
    assert [(file.number, str(file.path), file.record.rows) for file in run.source_files("reports")] == [
        (0, "/data/reports/day=2026-01-01/part-00000.parquet", 40),
        (1, "/data/reports/day=2026-01-01/part-00001.parquet", 10),
        (2, "/data/reports/day=2026-01-02/part-00000.parquet", 80),
    ]
    assert run.late_before("reports") == {0: 0, 1: 0, 2: 1767254490000}
    with pytest.raises(SourceChanged, match="day=2026-01-01"):
        run.check_source("reports")


def test_the_results_of_format_1() -> None:
    run = open_run(FROZEN / "format-1/stream-pinned")
    run.check_results()
    rows = [
        (pack(file.number, place), row["car"], row["n"])
        for file in run.result_files()
        for place, row in enumerate(parquet.read_table(file.path, partitioning=None).to_pylist())
    ]
    # Two files of epoch 0 are empty, and epoch 3 was never committed.
    assert rows == [(2 << 32, 17, 4), (2 << 32 | 1, 23, 3), (3 << 32, 17, 4), (4 << 32, 17, 4)]
    file, row = run.locate_result(2 << 32 | 1)
    assert (file.epoch, row) == (1, 1)


def test_the_stopped_stream_of_format_1_goes_on(frozen: Path) -> None:
    with resume(frozen / "format-1/stream-pinned") as writer:
        assert writer.committed == 3
        assert writer.results_directory(3).exists()
        writer.begin_epoch(3)
        assert not writer.results_directory(3).exists()


def test_the_batch_of_format_1() -> None:
    run = open_run(FROZEN / "format-1/batch-landed")
    assert run.state() == "complete"
    run.check_results()
    assert run.manifest.annotations == (
        Annotation("__trips", "trips", "value", True),
        Annotation("__fleet", "fleet/köln", "condition", False),
    )
    for name, ids in (("trips", [0, 1, 2, 3]), ("fleet/köln", [0, 1])):
        run.check_source(name)
        assert run.source(name).id == "column"
        found = [
            row["__id"]
            for file in run.source_files(name)
            for row in parquet.read_table(file.path, partitioning=None).to_pylist()
        ]
        assert found == ids
        assert set(run.late_before(name).values()) == {None}


def test_the_half_written_batch_of_format_1() -> None:
    run = open_run(FROZEN / "format-1/batch-half-written")
    assert run.state() == "half-written"
    with pytest.raises(BrokenRun, match="half-written"):
        run.result_files()
