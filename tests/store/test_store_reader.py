"""Reading: only what is committed, in the order of the run, and every kind of damage named with what to do."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import BrokenRun, NewerFormat, SourceChanged, UnknownRow, UnknownRun, UnknownSource, WhenceError
from whence.store import RunWriter, create, list_runs, open_run, pack, resume, unpack

Make = Callable[..., Any]


@pytest.fixture
def stored(writer: RunWriter, commit_epoch: Make, write_rows: Make, tmp_path: Path) -> Path:
    """A stopped stream of three epochs that read three files of `reports`; epoch 1 is one without data."""
    first, second, third = (write_rows(tmp_path / f"data/day={day}/r.parquet", 10 + day) for day in (1, 2, 3))
    commit_epoch(writer, 0, 2, 0, reports=(first,))
    commit_epoch(writer, 1, watermark_ms=50)
    commit_epoch(writer, 2, 5, reports=(second, third), watermark_ms=80, late_before_ms=50)
    writer.close()
    return writer.path


def test_files_are_numbered_over_the_epochs(stored: Path, tmp_path: Path) -> None:
    run = open_run(stored)
    assert [(file.number, file.epoch, file.record.rows) for file in run.result_files()] == [
        (0, 0, 2),
        (1, 0, 0),
        (2, 2, 5),
    ]
    assert [file.path for file in run.result_files()] == sorted(stored.glob("results/*/*.parquet"))
    assert [(file.number, file.epoch, file.path) for file in run.source_files("reports")] == [
        (0, 0, tmp_path / "data/day=1/r.parquet"),
        (1, 2, tmp_path / "data/day=2/r.parquet"),
        (2, 2, tmp_path / "data/day=3/r.parquet"),
    ]
    assert run.source_files("cars") == ()
    assert run.late_before("reports") == {0: 0, 1: 50, 2: 50}
    assert run.epoch(1).watermark_ms == 50
    with pytest.raises(UnknownRow, match="epochs 0 to 2"):
        run.epoch(3)


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1))
def test_packed_ids_come_apart_again_and_sort_by_place(number: int, row: int) -> None:
    packed = pack(number, row)
    assert 0 <= packed < 2**63
    assert unpack(packed) == (number, row)
    assert (packed < pack(5, 7)) == ((number, row) < (5, 7))


@pytest.mark.parametrize("place", [(-1, 0), (0, -1), (2**31, 0), (0, 2**32)])
def test_what_no_row_can_be_is_not_packed(place: tuple[int, int]) -> None:
    with pytest.raises(UnknownRow):
        pack(*place)


def test_rows_are_found_by_id(stored: Path, tmp_path: Path) -> None:
    run = open_run(stored)
    file, row = run.locate_result(pack(2, 4))
    assert (file.path.parent.name, row) == ("epoch=000002", 4)
    file, row = run.locate_source("reports", pack(1, 11))
    assert (file.path, row) == (tmp_path / "data/day=2/r.parquet", 11)
    for unknown in (pack(2, 5), pack(1, 0), pack(3, 0), -1, 2**63):
        with pytest.raises(UnknownRow):
            run.locate_result(unknown)
    with pytest.raises(UnknownRow, match="which has 12 rows"):
        run.locate_source("reports", pack(1, 12))
    with pytest.raises(UnknownRow, match="carry their ids in a column"):
        run.locate_source("cars", 0)


def test_an_unknown_source_is_answered_with_those_there_are(stored: Path) -> None:
    run = open_run(stored)
    for ask in (run.source, run.source_files, run.late_before, run.check_source):
        with pytest.raises(UnknownSource, match="no source 'planes'\nits sources are reports, cars"):
            ask("planes")


def test_unchanged_sources_pass(stored: Path) -> None:
    run = open_run(stored)
    run.check_source("reports")
    run.check_source("cars")
    run.check_results()


def test_a_changed_source_is_named_by_source_and_file(stored: Path, tmp_path: Path, write_rows: Make) -> None:
    run = open_run(stored)
    file = tmp_path / "data/day=2/r.parquet"
    old = file.stat()

    write_rows(file, 1000)
    with pytest.raises(SourceChanged, match=rf"source 'reports'.*\nfile {file} has \d+ bytes, the run knew it with"):
        run.check_source("reports")
    # The same bytes, another time.
    write_rows(file, 12)
    assert file.stat().st_size == old.st_size
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns + 1_000_000))
    with pytest.raises(SourceChanged, match=rf"file {file} was modified since"):
        run.check_source("reports")
    # Spark's clock has milliseconds; less is no change.
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns // 1_000_000 * 1_000_000))
    run.check_source("reports")
    file.unlink()
    with pytest.raises(SourceChanged, match=rf"file {file} has vanished"):
        run.check_source("reports")
    run.check_source("reports", numbers=[0, 2])
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(SourceChanged, match=r"day=1.*; .*day=2.*; .*day=3"):
        run.check_source("reports")


def test_many_changed_files_are_counted(stored: Path, tmp_path: Path, commit_epoch: Make, write_rows: Make) -> None:
    with resume(stored) as writer:
        commit_epoch(writer, 3, 1, reports=(write_rows(tmp_path / "data/day=4/r.parquet", 1),) * 3)
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(SourceChanged, match="and 3 more"):
        open_run(stored).check_source("reports")


def test_damaged_results_are_noticed(stored: Path) -> None:
    file = stored / "results/epoch=000002/part-00000.parquet"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BrokenRun, match=rf"{file} has \d+ bytes"):
        open_run(stored).check_results()
    open_run(stored).check_results(numbers=[0, 1])


def test_a_damaged_landed_source_is_the_runs_damage(writer: RunWriter, write_rows: Make, make_epoch: Make) -> None:
    writer.begin_epoch(0)
    path = write_rows(writer.landed_directory("cars", 0) / "part-0.parquet", 2)
    writer.commit(make_epoch(0, inputs={"cars": writer.record_landed("cars", 0)}))
    run = open_run(writer.path)
    assert run.source_files("cars")[0].path == path
    run.check_source("cars")
    path.unlink()
    with pytest.raises(BrokenRun, match="own copy of source 'cars' is damaged"):
        run.check_source("cars")


def test_a_run_can_be_moved_and_copied(stored: Path, tmp_path: Path) -> None:
    shutil.copytree(stored, tmp_path / "copies/other", copy_function=shutil.copyfile)
    shutil.rmtree(stored)
    run = open_run(tmp_path / "copies/other")
    run.check_results()
    run.check_source("reports")
    assert all(file.path.is_file() for file in run.result_files())
    assert str(stored) not in (run.path / "epochs/000000.json").read_text()


def test_states(tmp_path: Path, make_manifest: Make, commit_epoch: Make) -> None:
    with create(tmp_path / "stream", make_manifest()) as stream:
        assert open_run(stream.path).state() == "running"
        commit_epoch(stream, 0, 1)
        assert open_run(stream.path).state() == "running"
    assert open_run(stream.path).state() == "stopped"

    with create(tmp_path / "batch", make_manifest(kind="batch", output_mode=None)) as batch:
        assert open_run(batch.path).state() == "running"
        with pytest.raises(BrokenRun, match="still being written"):
            open_run(batch.path).result_files()
        batch.begin_epoch(0)
    assert open_run(batch.path).state() == "half-written"
    with pytest.raises(BrokenRun, match=r"half-written\n.*no results were committed\nhint: .*overwrite=True"):
        open_run(batch.path).result_files()
    with create(batch.path, make_manifest(kind="batch", output_mode=None), overwrite=True) as batch:
        commit_epoch(batch, 0, 1)
        assert open_run(batch.path).state() == "complete"
    assert len(open_run(batch.path).result_files()) == 1


def test_looking_leaves_no_trace_and_does_not_disturb(writer: RunWriter, commit_epoch: Make) -> None:
    run = open_run(writer.path)
    before = sorted(writer.path.rglob("*"))
    assert [run.state() for _ in range(3)] == ["running"] * 3
    assert sorted(writer.path.rglob("*")) == before
    commit_epoch(writer, 0, 1)
    assert run.epochs == ()
    assert len(run.reload().epochs) == 1


def test_what_was_read_is_current_until_something_is_committed(
    writer: RunWriter, commit_epoch: Make, make_manifest: Make
) -> None:
    empty = open_run(writer.path)
    assert empty.is_current()
    commit_epoch(writer, 0, 1)
    assert not empty.is_current()
    one = empty.reload()
    assert one.is_current()
    assert one == open_run(writer.path)
    # Spark retries its last epoch: it has the same marker again.
    commit_epoch(writer, 0, 2)
    assert not one.is_current()
    again = one.reload()
    writer.update_manifest(make_manifest(query="shop:alerts"))
    assert not again.is_current()
    last = again.reload()
    shutil.rmtree(writer.path)
    assert not last.is_current()


def test_a_run_that_was_replaced_is_not_current(writer: RunWriter, commit_epoch: Make, make_manifest: Make) -> None:
    commit_epoch(writer, 0, 1)
    writer.close()
    before = open_run(writer.path)
    with create(writer.path, make_manifest(), overwrite=True) as other:
        commit_epoch(other, 0, 1)
    assert not before.is_current()


def test_a_run_without_its_lock_is_not_running(stored: Path) -> None:
    (stored / "writer.lock").unlink()
    assert open_run(stored).state() == "stopped"
    resume(stored).close()


def test_directories_without_marker_are_ignored(stored: Path, write_rows: Make) -> None:
    write_rows(stored / "results/epoch=000003/part-0.parquet", 3)
    write_rows(stored / "sources/reports/epoch=000003/part-0.parquet", 3)
    (stored / "epochs/.000003.json.0a1b2c3d").write_text('{"half')
    (stored / "epochs/notes.json").write_text("mine")
    (stored / "epochs/3.json").write_text("mine")
    run = open_run(stored)
    assert len(run.epochs) == 3
    assert len(run.result_files()) == 3


def test_a_hole_in_the_epochs_is_damage(stored: Path) -> None:
    (stored / "epochs/000001.json").unlink()
    with pytest.raises(BrokenRun, match=r"000001.json: it is missing, though epoch 2 is there"):
        open_run(stored)


def test_a_missing_first_epoch_is_damage(stored: Path) -> None:
    (stored / "epochs/000000.json").unlink()
    with pytest.raises(BrokenRun, match=r"000000.json: it is missing"):
        open_run(stored)


def _edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("file", ["manifest.json", "epochs/000002.json"])
@pytest.mark.parametrize("kind", ["truncated", "empty", "binary", "newer", "unreadable"])
def test_damaged_files_are_named(stored: Path, file: str, kind: str) -> None:
    path = stored / file
    expected: type[WhenceError] = BrokenRun
    match kind:
        case "truncated":
            path.write_text(path.read_text()[:-30])
        case "empty":
            path.write_text("")
        case "binary":
            path.write_bytes(b"\xff\xfe\x00")
        case "newer":
            _edit(path, format=2)
            expected = NewerFormat
        case "unreadable":
            path.unlink()
            path.mkdir()
    with pytest.raises(expected) as caught:
        open_run(stored)
    assert str(path) in caught.value.detail
    assert caught.value.hint


def test_an_epoch_under_another_number_is_damage(stored: Path) -> None:
    shutil.copy(stored / "epochs/000002.json", stored / "epochs/000003.json")
    with pytest.raises(BrokenRun, match="key number is 2, expected 3"):
        open_run(stored)


def test_an_epoch_of_another_run_is_damage(stored: Path) -> None:
    _edit(stored / "epochs/000002.json", plan=4)
    with pytest.raises(BrokenRun, match="key plan is 4, the manifest has 1 versions"):
        open_run(stored)
    _edit(stored / "epochs/000002.json", plan=1, inputs={"planes": []})
    with pytest.raises(BrokenRun, match=r"inputs.planes is no source of the run"):
        open_run(stored)


def test_a_run_without_manifest_says_what_is_there(stored: Path) -> None:
    (stored / "manifest.json").unlink()
    with pytest.raises(BrokenRun, match=r"holds results, epochs, but no manifest.json\nhint: .*overwrite=True"):
        open_run(stored)


def test_no_run_at_all(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UnknownRun, match="there is nothing at this path"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(UnknownRun, match="it is a file"):
        open_run(tmp_path / "file")
    with pytest.raises(UnknownRun, match=r"it has no manifest.json"):
        open_run(tmp_path / "folder")


def test_an_epoch_taken_back_while_it_is_read(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.read_text

    def racing(last: str) -> Callable[..., str]:
        def read(self: Path, *arguments: Any, **options: Any) -> str:
            if self.name == last:
                self.unlink()
            return real(self, *arguments, **options)

        return read

    monkeypatch.setattr(Path, "read_text", racing("000002.json"))
    assert len(open_run(stored).epochs) == 2
    monkeypatch.setattr(Path, "read_text", racing("000000.json"))
    with pytest.raises(BrokenRun, match="vanished while the run was opened"):
        open_run(stored)


def test_runs_of_a_folder_are_listed_with_their_problems(stored: Path, tmp_path: Path, make_manifest: Make) -> None:
    create(tmp_path / "more/deep/good", make_manifest()).close()
    create(tmp_path / "more/bad", make_manifest()).close()
    (tmp_path / "more/bad/manifest.json").write_text('{"whence": "0.1.0", "format": 9}')
    create(tmp_path / "a/b/c/too-deep", make_manifest()).close()
    create(tmp_path / ".run.replaced-01234567", make_manifest()).close()
    (tmp_path / "site").mkdir()
    (tmp_path / "site/manifest.json").write_text('{"name": "page"}')
    (tmp_path / "loop").symlink_to(tmp_path)
    found = list_runs(tmp_path)
    assert [str(entry.path.relative_to(tmp_path)) for entry in found] == ["more/bad", "more/deep/good", "run"]
    assert isinstance(found[0].problem, NewerFormat)
    assert found[0].run is None
    assert [entry.run.path if entry.run else None for entry in found[1:]] == [entry.path for entry in found[1:]]
    assert [entry.path for entry in list_runs(stored)] == [stored]
    with pytest.raises(UnknownRun, match="no such folder"):
        list_runs(tmp_path / "nowhere")


def test_looking_at_a_run_imports_neither_spark_nor_arrow(stored: Path) -> None:
    script = (
        "import sys; from whence.store import open_run; run = open_run(sys.argv[1]); run.check_results(); "
        "print(sorted({'pyspark', 'pyarrow', 'duckdb', 'pandas'} & set(sys.modules)), len(run.epochs))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(stored)], capture_output=True, text=True, check=True)
    assert done.stdout == "[] 3\n"
