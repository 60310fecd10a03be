"""Writing: a run is never overwritten unasked, and an epoch is there whole or not at all, whatever is cut off."""

import dataclasses
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whence.errors import BrokenRun, RunExists, SourceChanged, UnknownRun
from whence.store import Column, FileRecord, PlanRecord, RunWriter, create, list_runs, open_run, resume
from whence.store import writer as writer_module

Make = Callable[..., Any]


def _all_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_run_opens(writer: RunWriter, make_manifest: Make) -> None:
    assert open_run(writer.path).manifest == make_manifest()
    assert sorted(path.name for path in writer.path.iterdir()) == ["epochs", "manifest.json", "writer.lock"]
    assert [path.name for path in writer.path.parent.iterdir()] == ["run"]


def test_missing_parents_are_made_and_an_empty_directory_is_taken(tmp_path: Path, make_manifest: Make) -> None:
    create(tmp_path / "a/b/run", make_manifest()).close()
    (tmp_path / "empty").mkdir()
    create(f"file:{tmp_path}/empty", make_manifest()).close()
    assert open_run(tmp_path / "a/b/run").manifest == open_run(tmp_path / "empty").manifest


def test_a_run_is_not_overwritten_unasked(writer: RunWriter, make_manifest: Make, commit_epoch: Make) -> None:
    commit_epoch(writer, 0, 3)
    writer.close()
    before = _all_files(writer.path)
    with pytest.raises(RunExists, match="overwrite=True"):
        create(writer.path, make_manifest())
    assert _all_files(writer.path) == before
    assert [path.name for path in writer.path.parent.iterdir()] == ["run"]


def test_overwriting_leaves_nothing_of_the_old_run(writer: RunWriter, make_manifest: Make, commit_epoch: Make) -> None:
    commit_epoch(writer, 0, 3)
    writer.close()
    create(writer.path, make_manifest(capture="eager"), overwrite=True).close()
    found = open_run(writer.path)
    assert (found.manifest.capture, found.epochs) == ("eager", ())
    assert [path.name for path in writer.path.parent.iterdir()] == ["run"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_no_run_is_never_overwritten(tmp_path: Path, make_manifest: Make, overwrite: bool) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/letter.txt").write_text("dear")
    # Somebody else's manifest.
    (tmp_path / "home/manifest.json").write_text('{"name": "page", "format": 3}')
    with pytest.raises(RunExists, match="no run, and not empty"):
        create(tmp_path / "home", make_manifest(), overwrite=overwrite)
    with pytest.raises(RunExists, match="is a file"):
        create(tmp_path / "home/letter.txt", make_manifest(), overwrite=overwrite)
    assert set(_all_files(tmp_path)) == {"home/letter.txt", "home/manifest.json"}


def test_a_damaged_run_can_be_overwritten(writer: RunWriter, make_manifest: Make) -> None:
    writer.close()
    (writer.path / "manifest.json").unlink()
    create(writer.path, make_manifest(), overwrite=True).close()
    assert open_run(writer.path).manifest == make_manifest()


def test_a_run_that_is_being_written_is_not_overwritten(writer: RunWriter, make_manifest: Make) -> None:
    with pytest.raises(RunExists, match=f"process {os.getpid()}"):
        create(writer.path, make_manifest(capture="eager"), overwrite=True)
    assert open_run(writer.path).manifest.capture == "lazy"
    assert [path.name for path in writer.path.parent.iterdir()] == ["run"]


def test_a_run_behind_a_link_is_overwritten_where_it_is(writer: RunWriter, make_manifest: Make) -> None:
    writer.close()
    link = writer.path.with_name("link")
    link.symlink_to(writer.path)
    create(link, make_manifest(capture="eager"), overwrite=True).close()
    assert link.is_symlink()
    assert open_run(writer.path).manifest.capture == "eager"


def test_only_local_paths_hold_runs(make_manifest: Make) -> None:
    with pytest.raises(UnknownRun, match="s3a://bucket/run"):
        create("s3a://bucket/run", make_manifest())


def test_an_invalid_manifest_touches_nothing(writer: RunWriter, make_manifest: Make) -> None:
    writer.close()
    before = _all_files(writer.path)
    with pytest.raises(BrokenRun, match="nothing was written"):
        create(writer.path, make_manifest(plans=()), overwrite=True)
    assert _all_files(writer.path) == before


@pytest.mark.parametrize("rename", [1, 2])
def test_a_failing_overwrite_keeps_the_old_run(
    writer: RunWriter, make_manifest: Make, commit_epoch: Make, rename: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_epoch(writer, 0, 3)
    writer.close()
    before = _all_files(writer.path)
    done = []
    real = Path.rename

    def failing(self: Path, target: Path) -> Path:
        # The manifest's own replacement is `replace`, so these are the two that swap the directories.
        done.append(target)
        if len(done) == rename:
            raise OSError(5, "the disk is gone")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="the disk is gone"):
        create(writer.path, make_manifest(), overwrite=True)
    monkeypatch.undo()
    after = _all_files(writer.path)
    # Who held the lock last is written into it.
    assert {**after, "writer.lock": b""} == {**before, "writer.lock": b""}
    assert [path.name for path in writer.path.parent.iterdir()] == ["run"]


def test_an_old_run_that_cannot_be_removed_is_no_run_any_more(
    writer: RunWriter, make_manifest: Make, commit_epoch: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_epoch(writer, 0, 3)
    writer.close()

    def failing(path: Path, **_: Any) -> None:
        raise OSError(16, "busy")

    monkeypatch.setattr(shutil, "rmtree", failing)
    create(writer.path, make_manifest(capture="eager"), overwrite=True).close()
    monkeypatch.undo()
    assert open_run(writer.path).manifest.capture == "eager"
    (hidden,) = writer.path.parent.glob(".run.replaced-*")
    with pytest.raises(BrokenRun, match="no manifest"):
        open_run(hidden)
    create(writer.path, make_manifest(), overwrite=True).close()
    assert [path.name for path in writer.path.parent.iterdir()] == ["run"]


def test_an_overwrite_killed_anywhere_never_leaves_a_mixture(
    tmp_path: Path, make_manifest: Make, commit_epoch: Make
) -> None:
    """A process dies at every single call that changes the disk; the path holds the old run, the new one, or none."""
    script = textwrap.dedent(
        """
        import os, sys
        from whence.store import create, open_run
        import dataclasses
        path, limit = sys.argv[1], int(sys.argv[2])
        manifest = dataclasses.replace(open_run(path).manifest, capture="eager")
        count = 0
        def watch(event, arguments):
            global count
            changes = event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")
            writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if changes or writes:
                count += 1
                if count > limit:
                    os._exit(9)
        sys.addaudithook(watch)
        create(path, manifest, overwrite=True).close()
        """
    )
    seen = set()
    for limit in range(200):
        path = tmp_path / f"{limit}/run"
        with create(path, make_manifest()) as old:
            commit_epoch(old, 0, 3)
        done = subprocess.run([sys.executable, "-c", script, str(path), str(limit)], check=False)
        assert done.returncode in (0, 9)
        try:
            found = open_run(path)
        except UnknownRun as error:
            assert "it was being overwritten" in error.detail
            seen.add("none")
            # The old run is still whole beside it, and only a second explicit word gives it up.
            hidden = next(path.parent.glob(".run.replaced-*"))
            assert len(open_run(hidden).epochs) == 1
            with pytest.raises(RunExists, match="cut off"):
                create(path, make_manifest())
        else:
            match found.manifest.capture:
                case "lazy":
                    assert len(found.epochs) == 1
                    found.check_results()
                    seen.add("old")
                case _:
                    assert not found.epochs
                    seen.add("new")
        for hidden in path.parent.glob(".run.replaced-*"):
            # Half removed it must not open either.
            if (hidden / "manifest.json").exists():
                assert len(open_run(hidden).epochs) == 1
                open_run(hidden).check_results()
        assert len(list_runs(path.parent)) <= 1
        # And whatever it was, asking again works and clears up.
        create(path, make_manifest(capture="interval"), overwrite=True).close()
        assert open_run(path).manifest.capture == "interval"
        left = [child for child in path.parent.iterdir() if child.name != "run"]
        # A process that died before it held the lock of what it was making: nobody can tell whose that is.
        assert [list(child.iterdir()) for child in left] in ([], [[]])
        if done.returncode == 0:
            break
    assert seen == {"old", "none", "new"}
    assert limit > 5


def test_epochs_follow_each_other(writer: RunWriter, commit_epoch: Make) -> None:
    with pytest.raises(BrokenRun, match="epoch 1 cannot be written now"):
        writer.begin_epoch(1)
    commit_epoch(writer, 0, 2)
    commit_epoch(writer, 1, 2)
    # A checkpoint that starts again from 0 belongs to another run.
    with pytest.raises(BrokenRun, match="do not belong together"):
        writer.begin_epoch(0)
    with pytest.raises(BrokenRun, match="epoch 3 cannot be written now"):
        writer.begin_epoch(3)
    assert [epoch.number for epoch in open_run(writer.path).epochs] == [0, 1]


def test_a_batch_has_one_epoch(tmp_path: Path, make_manifest: Make, commit_epoch: Make) -> None:
    with create(tmp_path / "batch", make_manifest(kind="batch", output_mode=None)) as batch:
        commit_epoch(batch, 0, 2)
        with pytest.raises(BrokenRun, match="epoch 1"):
            batch.begin_epoch(1)
    with pytest.raises(RunExists, match="a batch run is written once"):
        resume(tmp_path / "batch")


def test_a_retried_epoch_is_written_whole_again(
    writer: RunWriter, commit_epoch: Make, write_rows: Make, make_epoch: Make
) -> None:
    commit_epoch(writer, 0, 1)
    writer.begin_epoch(1)
    for directory in (
        writer.results_directory(1),
        writer.landed_directory("cars", 1),
        writer.edges_directory(1),
    ):
        write_rows(directory / "left-over.parquet", 5)
    # Nothing of it is visible.
    assert [file.epoch for file in open_run(writer.path).result_files()] == [0]
    # The epoch is tried again, with other files.
    commit_epoch(writer, 1, 2, 2)
    assert [(file.epoch, file.record.path) for file in open_run(writer.path).result_files()] == [
        (0, "results/epoch=000000/part-00000.parquet"),
        (1, "results/epoch=000001/part-00000.parquet"),
        (1, "results/epoch=000001/part-00001.parquet"),
    ]
    left = [str(path) for path in writer.path.rglob("left-over*")]
    assert left == []


def test_taking_back_a_committed_epoch_hides_it_first(writer: RunWriter, commit_epoch: Make) -> None:
    commit_epoch(writer, 0, 1)
    commit_epoch(writer, 1, 4)
    assert writer.committed == 2
    writer.begin_epoch(1)
    assert writer.committed == 1
    assert [epoch.number for epoch in open_run(writer.path).epochs] == [0]
    commit_epoch(writer, 1, 7)
    assert [file.record.rows for file in open_run(writer.path).result_files()] == [1, 7]


def test_the_first_epoch_can_be_retried(writer: RunWriter, commit_epoch: Make) -> None:
    commit_epoch(writer, 0, 1)
    commit_epoch(writer, 0, 2)
    assert [file.record.rows for file in open_run(writer.path).result_files()] == [2]


def test_an_epoch_must_be_begun(writer: RunWriter, make_epoch: Make, commit_epoch: Make) -> None:
    with pytest.raises(BrokenRun, match="was not begun"):
        writer.commit(make_epoch(0))
    commit_epoch(writer, 0, 1)
    with pytest.raises(BrokenRun, match="was not begun"):
        writer.commit(make_epoch(0))


def test_an_epoch_must_fit_the_manifest(writer: RunWriter, make_epoch: Make) -> None:
    writer.begin_epoch(0)
    with pytest.raises(BrokenRun, match=r"inputs\.planes is no source of the run; it has reports, cars"):
        writer.commit(make_epoch(0, inputs={"planes": ()}))
    with pytest.raises(BrokenRun, match="key plan is 2"):
        writer.commit(make_epoch(0, plan=2))
    assert open_run(writer.path).epochs == ()


def test_what_is_not_in_place_is_not_committed(writer: RunWriter, make_epoch: Make, write_rows: Make) -> None:
    writer.begin_epoch(0)
    path = write_rows(writer.results_directory(0) / "part-0.parquet", 3)
    results = writer.record_results(0)
    path.unlink()
    with pytest.raises(BrokenRun, match=r"part-0.parquet has vanished"):
        writer.commit(make_epoch(0, results=results))
    assert open_run(writer.path).epochs == ()


def test_files_are_recorded_by_name_with_their_rows(writer: RunWriter, write_rows: Make) -> None:
    writer.begin_epoch(0)
    directory = writer.results_directory(0)
    for name, rows in (("part-00010.parquet", 2), ("part-00002.parquet", 0), ("part-00001.parquet", 5)):
        write_rows(directory / name, rows)
    # What Spark leaves beside them, and what it would overlook.
    (directory / "_SUCCESS").touch()
    (directory / ".part-00001.parquet.crc").touch()
    write_rows(directory / "_temporary.parquet", 9)
    write_rows(directory / ".hidden.parquet", 9)
    found = writer.record_results(0)
    assert [(Path(record.path).name, record.rows) for record in found] == [
        ("part-00001.parquet", 5),
        ("part-00002.parquet", 0),
        ("part-00010.parquet", 2),
    ]
    status = (directory / "part-00001.parquet").stat()
    assert (found[0].size, found[0].modified_ms) == (status.st_size, status.st_mtime_ns // 1_000_000)
    assert writer.record_landed("cars", 0) == ()


def test_a_result_file_that_is_no_parquet_is_refused(writer: RunWriter) -> None:
    writer.begin_epoch(0)
    writer.results_directory(0).mkdir(parents=True)
    (writer.results_directory(0) / "part-0.parquet").write_bytes(b"PAR1 cut off")
    with pytest.raises(BrokenRun, match=r"part-0.parquet"):
        writer.record_results(0)


def test_results_that_the_user_wrote_elsewhere_are_pinned(
    writer: RunWriter, tmp_path: Path, write_rows: Make, make_epoch: Make
) -> None:
    elsewhere = write_rows(tmp_path / "warehouse/a b.parquet", 4)
    writer.begin_epoch(0)
    results = writer.record_files([f"file://{tmp_path}/warehouse/a%20b.parquet"])
    writer.commit(make_epoch(0, results=results))
    (file,) = open_run(writer.path).result_files()
    assert (file.path, file.record.rows) == (elsewhere, 4)


def test_pinning_names_the_source_and_the_file(writer: RunWriter, tmp_path: Path, write_rows: Make) -> None:
    good = write_rows(tmp_path / "a.parquet", 4)
    (record,) = writer.pin("reports", [f"file:{good}"])
    assert record == FileRecord(str(good), good.stat().st_size, good.stat().st_mtime_ns // 1_000_000, 4)
    (tmp_path / "b.parquet").write_text("id,name")
    for path in (tmp_path / "b.parquet", tmp_path / "gone.parquet", "s3a://bucket/c.parquet"):
        with pytest.raises(SourceChanged, match=r"source 'reports' cannot be pinned\n.*(b|gone|c)\.parquet"):
            writer.pin("reports", [good, path])


def test_a_source_name_cannot_leave_its_folder(writer: RunWriter, write_rows: Make) -> None:
    writer.begin_epoch(0)
    path = write_rows(writer.landed_directory("../../a=1/ü", 0) / "part-0.parquet", 2)
    assert path.parent.parent.parent == writer.path / "sources"
    assert [record.rows for record in writer.record_landed("../../a=1/ü", 0)] == [2]


def test_a_new_version_of_the_plan_is_added(writer: RunWriter, commit_epoch: Make) -> None:
    commit_epoch(writer, 0, 1)
    second = PlanRecord(2, "changed", "f2", ("reports",), True)
    writer.update_manifest(dataclasses.replace(writer.manifest, plans=(*writer.manifest.plans, second)))
    commit_epoch(writer, 1, 1, plan=2)
    found = open_run(writer.path)
    assert found.manifest.plan == second
    assert [epoch.plan for epoch in found.epochs] == [1, 2]


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "batch"},
        {"created": "2027-01-01T00:00:00+00:00"},
        {"plans": (PlanRecord(1, "another", "f", (), True),)},
        {"sources": (), "annotations": ()},
        {"columns": (Column("n", "int", True),)},
        {"annotations": ()},
    ],
)
def test_what_committed_epochs_rely_on_stays(writer: RunWriter, change: dict[str, Any]) -> None:
    before = (writer.path / "manifest.json").read_bytes()
    with pytest.raises(BrokenRun, match="can only be added to"):
        writer.update_manifest(dataclasses.replace(writer.manifest, **change))
    assert (writer.path / "manifest.json").read_bytes() == before


def test_a_stopped_stream_goes_on(writer: RunWriter, commit_epoch: Make) -> None:
    commit_epoch(writer, 0, 1)
    with pytest.raises(RunExists, match="is being written"):
        resume(writer.path)
    writer.close()
    writer.close()
    with pytest.raises(BrokenRun, match="writer of the run is closed"):
        writer.begin_epoch(1)
    with resume(writer.path) as again:
        assert again.committed == 1
        commit_epoch(again, 1, 2)
    assert len(open_run(writer.path).epochs) == 2


def test_a_killed_writer_lets_the_run_go(tmp_path: Path, make_manifest: Make) -> None:
    create(tmp_path / "run", make_manifest()).close()
    script = (
        "import sys, os; from whence.store import resume; w = resume(sys.argv[1]); print('held', flush=True); "
        "sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    assert open_run(tmp_path / "run").state() == "running"
    child.kill()
    child.communicate()
    assert open_run(tmp_path / "run").state() == "stopped"
    resume(tmp_path / "run").close()


@pytest.mark.parametrize("moment", ["before the rename", "after the rename"])
def test_a_marker_is_whole_or_absent(
    writer: RunWriter, commit_epoch: Make, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_epoch(writer, 0, 1)
    real = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if moment == "after the rename":
            real(self, target)
        raise OSError(5, "the disk is gone")

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(OSError, match="the disk is gone"):
        commit_epoch(writer, 1, 2)
    monkeypatch.undo()
    expected = [0] if moment == "before the rename" else [0, 1]
    assert [epoch.number for epoch in open_run(writer.path).epochs] == expected
    # Spark retries the epoch in both cases.
    with_retry = resume_after(writer)
    commit_epoch(with_retry, 1, 3)
    with_retry.close()
    assert [file.record.rows for file in open_run(writer.path).result_files()] == [1, 3]
    assert not list((writer.path / "epochs").glob(".*"))


def resume_after(writer: RunWriter) -> RunWriter:
    writer.close()
    return resume(writer.path)


def test_markers_are_forced_to_the_disk_before_they_are_named(
    writer: RunWriter, make_epoch: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.begin_epoch(0)
    calls: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(handle: int) -> None:
        calls.append("sync")
        real_fsync(handle)

    def replace(self: Path, target: Path) -> Path:
        calls.append("rename")
        return real_replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    writer.commit(make_epoch(0))
    assert calls == ["sync", "rename", "sync"]


def test_leftovers_of_others_stay(tmp_path: Path, make_manifest: Make) -> None:
    (tmp_path / ".run.new-notours").mkdir()
    (tmp_path / ".run.new-01234567").mkdir()
    (tmp_path / ".run.new-01234567/letter.txt").write_text("dear")
    with create(tmp_path / "run", make_manifest()) as busy:
        # Another process is just making a run for the same place.
        busy_copy = tmp_path / ".run.new-89abcdef"
        shutil.copytree(busy.path, busy_copy)
        held = writer_module.hold_lock(busy_copy)
        assert held is not None
        with held:
            busy.close()
            create(tmp_path / "run", make_manifest(), overwrite=True).close()
            assert busy_copy.exists()
        create(tmp_path / "run", make_manifest(), overwrite=True).close()
        assert not busy_copy.exists()
    assert (tmp_path / ".run.new-01234567/letter.txt").exists()
    assert (tmp_path / ".run.new-notours").exists()
