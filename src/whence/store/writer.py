"""Writing a run so that readers see an epoch whole or not at all.

A `RunWriter` says where the runner writes, records what it wrote and commits: the marker of an epoch comes last, in
one rename. It writes no rows itself; Spark does. One process writes a run at a time (`lock.py`), and only its last
epoch may be taken back to be written again, which is all that Spark ever retries.

Data files are not forced to the disk before the marker, as Spark does not do so either: after a loss of power the
sizes in the marker tell a cut file from a whole one (`StoredRun.check_results`).
"""

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from whence.errors import BrokenRun, RunExists, UnknownRun
from whence.store.files import (
    file_problem,
    hidden_sibling,
    hidden_siblings,
    parquet_files,
    pin_files,
    record_file,
    sync_directory,
    write_whole,
)
from whence.store.layout import (
    CHECKPOINT,
    EDGES,
    EPOCHS,
    LOCK,
    MANIFEST,
    RESULTS,
    SOURCES,
    epoch_directory,
    is_inside,
    is_local,
    local_path,
    marker_name,
    source_directory,
)
from whence.store.lock import hold_lock, is_being_written, lock_holder
from whence.store.reader import is_run, open_run, replaced_run
from whence.store.records import Epoch, FileRecord, Manifest, checked_text


class RunWriter:
    """The one writer of a run; made by `create`, `stage` or `resume`, to be closed, best by `with`.

    An epoch goes: `begin_epoch`, write files into the directories named here, `record_results` and its like, `commit`.
    A staged run lies hidden at `path` until `publish` puts it where it belongs.
    """

    __slots__ = ("_begun", "_committed", "_lock", "_manifest", "_target", "path")

    def __init__(
        self, path: Path, manifest: Manifest, committed: int, lock: IO[str], target: tuple[Path, bool] | None = None
    ) -> None:
        self.path = path
        # Where a staged run belongs, and whether a run that is there gives way to it.
        self._target = target
        self._manifest = manifest
        self._committed = committed
        self._begun: int | None = None
        self._lock = lock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the run go; what was not committed stays invisible. Closing twice is fine."""
        self._lock.close()

    def publish(self) -> None:
        """Put a staged run where it belongs; it appears whole, and what it replaces was whole until then."""
        if self._target is not None:
            root, overwrite = self._target
            _put_in_place(self.path, root, overwrite=overwrite)
            self.path, self._target = root, None
            _remove_leftovers(root)

    def discard(self) -> None:
        """Remove a staged run that was not published; what lies where it would have gone is not touched."""
        self.close()
        if self._target is not None:
            shutil.rmtree(self.path, ignore_errors=True)

    @property
    def manifest(self) -> Manifest:
        return self._manifest

    @property
    def committed(self) -> int:
        """How many epochs are committed: the number of the next one."""
        return self._committed

    @property
    def checkpoint_directory(self) -> Path:
        """Where Spark keeps the checkpoint of a stream."""
        return self.path / CHECKPOINT

    def results_directory(self, epoch: int) -> Path:
        return self.path / RESULTS / epoch_directory(epoch)

    def edges_directory(self, epoch: int) -> Path:
        return self.path / EDGES / epoch_directory(epoch)

    def landed_directory(self, source: str, epoch: int) -> Path:
        return self.path / SOURCES / source_directory(source) / epoch_directory(epoch)

    def begin_epoch(self, epoch: int) -> None:
        """Make way for an epoch: what an earlier try left is removed, its marker first.

        That is the next epoch, or once more the last one, which Spark retries when it was stopped between this
        marker and its own.
        """
        self._refuse_closed()
        last = 0 if self._manifest.kind == "batch" else self._committed
        if not max(self._committed - 1, 0) <= epoch <= last:
            raise BrokenRun(
                f"epoch {epoch} cannot be written now",
                detail=f"{self.path} has {self._committed} committed epochs, and a {self._manifest.kind} goes on from "
                "there",
                hint="Spark's checkpoint and the run do not belong together: start the query into a new run",
            )
        self._begun = None
        marker = self.path / EPOCHS / marker_name(epoch)
        if marker.exists():
            marker.unlink()
            sync_directory(marker.parent)
            self._committed = epoch
        sources = self.path / SOURCES
        landed = [folder / epoch_directory(epoch) for folder in sources.iterdir()] if sources.is_dir() else []
        for leftover in (self.results_directory(epoch), self.edges_directory(epoch), *landed):
            if leftover.exists():
                shutil.rmtree(leftover)
        self._begun = epoch

    def record_results(self, epoch: int) -> tuple[FileRecord, ...]:
        """The records of the result files that were written into the epoch's directory, by name."""
        return self.record_files(parquet_files(self.results_directory(epoch)))

    def record_landed(self, source: str, epoch: int) -> tuple[FileRecord, ...]:
        """The records of the files that were landed for a source in an epoch, by name."""
        return self.record_files(parquet_files(self.landed_directory(source, epoch)))

    def record_files(self, paths: Iterable[str | Path]) -> tuple[FileRecord, ...]:
        """The records of Parquet files, in the given order: of results that the user's own writer wrote, say."""
        return tuple(record_file(path, self.path) for path in paths)

    def pin(self, source: str, paths: Iterable[str | Path]) -> tuple[FileRecord, ...]:
        """The records of the files of a pinned source, in the given order; addresses as Spark spells them will do."""
        return pin_files(source, paths, self.path)

    def commit(self, epoch: Epoch) -> None:
        """Make an epoch visible; everything it names must be in place."""
        self._refuse_closed()
        if epoch.number != self._begun:
            raise BrokenRun(
                f"epoch {epoch.number} was not begun",
                detail="what an earlier try left could be taken for its results",
                hint=f"call begin_epoch({epoch.number}) before anything of it is written",
            )
        marker = self.path / EPOCHS / marker_name(epoch.number)
        text = checked_text(epoch.fitting(self._manifest, str(marker)), Epoch.from_text, str(marker))
        kept = [record for files in (epoch.results, *epoch.inputs.values()) for record in files]
        for record in kept:
            # Files elsewhere are the user's: they are checked when somebody asks, not for every epoch.
            if is_inside(record.path) and (problem := file_problem(record, self.path)):
                raise BrokenRun(
                    f"epoch {epoch.number} cannot be committed", detail=problem, hint="write the epoch again"
                )
        write_whole(marker, text)
        self._committed = epoch.number + 1
        self._begun = None

    def update_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest: a new version of the plan, a new source. What committed epochs rely on must stay."""
        self._refuse_closed()
        before = self._manifest
        for what, kept in (
            ("kind", manifest.kind == before.kind),
            ("created", manifest.created == before.created),
            ("plans", manifest.plans[: len(before.plans)] == before.plans),
            ("sources", manifest.sources[: len(before.sources)] == before.sources),
            ("columns", manifest.columns == before.columns),
            ("annotations", manifest.annotations == before.annotations),
        ):
            if not kept:
                raise BrokenRun(
                    "the manifest of a run can only be added to",
                    detail=f"{what} would lose or change what epochs of {self.path} were written with",
                    hint="start the query into a new run",
                )
        write_whole(self.path / MANIFEST, checked_text(manifest, Manifest.from_text, MANIFEST))
        self._manifest = manifest

    def _refuse_closed(self) -> None:
        if self._lock.closed:
            raise BrokenRun(
                "the writer of the run is closed", detail=str(self.path), hint="a stream goes on with resume(path)"
            )


def create(path: str | Path, manifest: Manifest, *, overwrite: bool = False) -> RunWriter:
    """Make a new run and hold it for writing.

    The directory appears whole, with its manifest. With `overwrite` a run that is there gives way to it in two
    renames: at no moment does the path hold parts of both. What is no run is never overwritten.
    """
    writer = stage(path, manifest, overwrite=overwrite)
    try:
        writer.publish()
    except BaseException:
        writer.discard()
        raise
    return writer


def stage(path: str | Path, manifest: Manifest, *, overwrite: bool = False) -> RunWriter:
    """As `create`, but the run appears only when `publish` is called: with its epoch committed, or never.

    What cannot be put there is refused now, before any work.
    """
    text = checked_text(manifest, Manifest.from_text, MANIFEST)
    root = _writable_root(path)
    _refuse_existing(root, overwrite=overwrite)
    if root.is_dir() and is_being_written(root):
        raise _held(root)
    root.parent.mkdir(parents=True, exist_ok=True)
    fresh = hidden_sibling(root, "new")
    fresh.mkdir()
    lock = hold_lock(fresh)
    if lock is None:
        # Another process makes a run for the same path, and took this directory for a leftover.
        raise _held(root)
    writer = RunWriter(fresh, manifest, 0, lock, (root, overwrite))
    try:
        (fresh / EPOCHS).mkdir()
        write_whole(fresh / MANIFEST, text)
    except BaseException:
        writer.discard()
        raise
    return writer


def resume(path: str | Path) -> RunWriter:
    """Hold the run of a stopped stream, to write its next epochs."""
    root = _writable_root(path)
    if open_run(root).manifest.kind == "batch":
        raise RunExists(
            "a batch run is written once",
            detail=str(root),
            hint="write it again with overwrite=True, or choose another path",
        )
    lock = hold_lock(root)
    if lock is None:
        raise _held(root)
    try:
        # Read only now that nobody else can commit.
        run = open_run(root)
    except BaseException:
        lock.close()
        raise
    return RunWriter(root, run.manifest, len(run.epochs), lock)


def _writable_root(path: str | Path) -> Path:
    spelled = local_path(path)
    if not is_local(spelled):
        raise UnknownRun(
            f"no run can be kept at {spelled}",
            detail="runs are kept on this machine's file system",
            hint="give the path of a local directory",
        )
    root = Path(spelled)
    # A link is followed: renaming it would leave its target behind.
    return root.resolve() if root.is_symlink() else root


def _refuse_existing(root: Path, *, overwrite: bool) -> None:
    if not root.exists():
        before = replaced_run(root)
        if before and not overwrite:
            raise RunExists(
                f"an overwrite of {root} was cut off",
                detail=f"the run of before is {before}",
                hint=f"move that to {root} to keep it, or give it up with overwrite=True",
            )
        return
    if not root.is_dir():
        raise RunExists(f"{root} is a file", hint="choose another path for the run")
    if is_run(root):
        if not overwrite:
            raise RunExists(
                f"there is already a run at {root}",
                hint="open it with whence.open(path), choose another path, or replace it with overwrite=True",
            )
    elif any(root.iterdir()):
        raise RunExists(
            f"{root} is no run, and not empty",
            detail="only a run can be overwritten by a run",
            hint="choose another path, or empty the directory yourself",
        )


def _put_in_place(fresh: Path, root: Path, *, overwrite: bool) -> None:
    # Looked at again: another process may have made something here since.
    _refuse_existing(root, overwrite=overwrite)
    if not is_run(root):
        try:
            fresh.rename(root)
        except OSError as error:
            raise RunExists(
                f"the run cannot be put at {root}", detail=str(error.strerror), hint="choose another path"
            ) from error
        sync_directory(root.parent)
        return
    held = hold_lock(root)
    if held is None:
        raise _held(root)
    with held:
        replaced = hidden_sibling(root, "replaced")
        root.rename(replaced)
        try:
            fresh.rename(root)
        except OSError:
            replaced.rename(root)
            raise
        sync_directory(root.parent)


def _remove_leftovers(root: Path) -> None:
    for leftover in (*hidden_siblings(root, "new"), *hidden_siblings(root, "replaced")):
        # Without a lock it is not ours, or a process that died before it had one left it empty.
        held = hold_lock(leftover) if (leftover / LOCK).is_file() else None
        # Else another process is just making it.
        if held is not None:
            # What cannot be removed now is tried again by the next overwrite; the new run is in place already.
            with held, contextlib.suppress(OSError):
                _remove_run(leftover)


def _remove_run(path: Path) -> None:
    # Its manifest first: what is half removed must not be taken for a run. Its lock last: it says whose this is.
    (path / MANIFEST).unlink(missing_ok=True)
    for child in sorted(path.iterdir()):
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        elif child.name != LOCK:
            child.unlink()
    (path / LOCK).unlink()
    path.rmdir()


def _held(root: Path) -> RunExists:
    return RunExists(
        f"the run at {root} is being written",
        detail=f"by {lock_holder(root)}",
        hint="stop that first (run.stop()), or choose another path",
    )
