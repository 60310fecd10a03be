"""Reading a run: what is committed, which files hold it, and whether they still are what they were.

Opening a run reads small JSON files and executes nothing that came with it. Rows are not read here: the files are
handed out, numbered, and DuckDB or Spark reads them. What has no marker is not there. A `StoredRun` is what the disk
held when it was opened; `is_current()` says whether that still is so, `reload()` sees what a live run committed since.
"""

import json
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

from whence.errors import BrokenRun, SourceChanged, UnknownRow, UnknownRun, UnknownSource, WhenceError
from whence.store.documents import broken_file
from whence.store.files import file_problem, hidden_siblings, read_whole
from whence.store.layout import (
    CHECKPOINT,
    EDGES,
    EPOCHS,
    LOCK,
    MANIFEST,
    RESULTS,
    SOURCES,
    local_path,
    marker_name,
    marker_number,
)
from whence.store.lock import is_being_written, lock_holder
from whence.store.records import Epoch, FileRecord, Manifest, SourceRecord

RunState = Literal["complete", "running", "stopped", "half-written"]

# A packed id is a bigint: the file's number above, the row's place in the file below.
_ROW_BITS = 32
_MOST_ROWS = 1 << _ROW_BITS
_MOST_FILES = 1 << (63 - _ROW_BITS)


def pack(number: int, row: int) -> int:
    """The id of a row: the number of its file and its place in the file, in one bigint.

    >>> pack(3, 17), unpack(12884901905)
    (12884901905, (3, 17))
    """
    if not (0 <= number < _MOST_FILES and 0 <= row < _MOST_ROWS):
        raise UnknownRow(
            f"no row can be number {row} of file {number}",
            detail=f"files count from 0 to {_MOST_FILES - 1}, rows from 0 to {_MOST_ROWS - 1}",
        )
    return number << _ROW_BITS | row


def unpack(row_id: int) -> tuple[int, int]:
    """The file number and the place in the file that an id made by `pack` stands for."""
    if not 0 <= row_id < 1 << 63:
        raise UnknownRow(f"{row_id} is no row id", detail="row ids are whole numbers from 0 to 2^63 - 1")
    return row_id >> _ROW_BITS, row_id & (_MOST_ROWS - 1)


@dataclass(frozen=True, slots=True)
class NumberedFile:
    """A file of a run with its number: the running count over all epochs, the high part of its rows' ids."""

    number: int
    epoch: int
    record: FileRecord
    path: Path


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it lay on disk when it was opened: see `open_run`."""

    path: Path
    manifest: Manifest
    epochs: tuple[Epoch, ...] = field(repr=False)
    _results: tuple[NumberedFile, ...] = field(repr=False)
    _sources: dict[str, tuple[NumberedFile, ...]] = field(repr=False)
    _stamp: tuple[object, ...] | None = field(default=None, repr=False, compare=False)

    def is_current(self) -> bool:
        """Whether the disk still holds these epochs and this manifest, as far as can be told without reading them."""
        return self._stamp is not None and self._stamp == _stamp(self.path)

    def state(self) -> RunState:
        """What can be expected of the run: "complete" and "half-written" are said of batches.

        A stream is "running" as long as a writer holds it, else "stopped", also before its first epoch: it can go on.
        """
        if self.manifest.kind == "batch" and self.epochs:
            return "complete"
        if is_being_written(self.path):
            return "running"
        return "half-written" if self.manifest.kind == "batch" else "stopped"

    def reload(self) -> "StoredRun":
        """The run as it lies on disk now."""
        return open_run(self.path)

    def result_files(self) -> tuple[NumberedFile, ...]:
        """The files with the results, in the order of the run. A batch must be complete."""
        if self.manifest.kind == "batch" and not self.epochs:
            raise self._unfinished()
        return self._results

    def source(self, name: str) -> SourceRecord:
        for source in self.manifest.sources:
            if source.name == name:
                return source
        raise UnknownSource(
            f"the run has no source {name!r}",
            detail=f"its sources are {', '.join(source.name for source in self.manifest.sources) or 'none'}",
            hint=f"run: {self.path}",
        )

    def source_files(self, name: str) -> tuple[NumberedFile, ...]:
        """The files that the run read of a source, in the order it read them."""
        return self._sources[self.source(name).name]

    def late_before(self, name: str) -> dict[int, int | None]:
        """For each file of a source, by number: up to which time its rows were late in the epoch that read it.

        None where nothing can be late.
        """
        bounds = {epoch.number: epoch.late_before_ms for epoch in self.epochs}
        return {file.number: bounds[file.epoch] for file in self.source_files(name)}

    def epoch(self, number: int) -> Epoch:
        for epoch in self.epochs:
            if epoch.number == number:
                return epoch
        raise UnknownRow(
            f"the run has no epoch {number}",
            detail=f"committed are {_range_text([epoch.number for epoch in self.epochs])}",
        )

    def locate_result(self, row_id: int) -> tuple[NumberedFile, int]:
        """The file and the place in it that hold the result row of an id."""
        return _locate(row_id, self.result_files(), "result row")

    def locate_source(self, name: str, row_id: int) -> tuple[NumberedFile, int]:
        """The file and the place in it that hold the source row of an id, for a source whose ids are `file_row`."""
        files = self.source_files(name)
        if self.source(name).id == "column":
            raise UnknownRow(
                f"the row ids of source {name!r} name no file",
                detail="the rows of a landed source carry their ids in a column",
            )
        return _locate(row_id, files, f"row of source {name!r}")

    def check_source(self, name: str, numbers: Collection[int] | None = None) -> None:
        """Raise unless every file of a source, or those of the given numbers, is what the run read."""
        source = self.source(name)
        problems = _problems(self.source_files(name), numbers, self.path)
        if not problems:
            return
        if source.kind == "landed":
            raise BrokenRun(
                f"the run's own copy of source {name!r} is damaged",
                detail=_list_text(problems),
                hint="restore sources/ from a copy of the run",
            )
        raise SourceChanged(
            f"source {name!r} is not what the run read",
            detail=_list_text(problems),
            hint="put the files back as they were, or trace the query again over what is there now",
        )

    def check_results(self, numbers: Collection[int] | None = None) -> None:
        """Raise unless every file of the results, or those of the given numbers, is what the run wrote."""
        problems = _problems(self.result_files(), numbers, self.path)
        if problems:
            raise BrokenRun(
                "the results of the run are not what it wrote",
                detail=_list_text(problems),
                hint="restore the files from a copy, or trace the query again",
            )

    def _unfinished(self) -> BrokenRun:
        if is_being_written(self.path):
            return BrokenRun(
                "the run is still being written",
                detail=f"{self.path}: {lock_holder(self.path)} has not committed its results yet",
                hint="open it again when that is done",
            )
        return BrokenRun(
            "the run is half-written",
            detail=f"{self.path}: its manifest of {self.manifest.created} is there, but no results were committed",
            hint="write it again with overwrite=True",
        )


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run found in a folder, or a directory that should be one and what is wrong with it."""

    path: Path
    run: StoredRun | None
    problem: WhenceError | None


def open_run(path: str | Path) -> StoredRun:
    """Open the run at a path, live or done, as far as it is committed."""
    root = Path(local_path(path))
    if not root.is_dir():
        raise _no_run(root, "it is a file" if root.exists() else "there is nothing at this path")
    # Taken before anything is read: what is committed meanwhile makes it differ from the next.
    stamp = _stamp(root)
    try:
        text = read_whole(root / MANIFEST)
    except FileNotFoundError as error:
        raise _without_manifest(root) from error
    manifest = Manifest.from_text(text, str(root / MANIFEST))
    epochs = _committed_epochs(root, manifest)
    results = [(epoch.number, record) for epoch in epochs for record in epoch.results]
    sources = {
        source.name: [(epoch.number, record) for epoch in epochs for record in epoch.inputs.get(source.name, ())]
        for source in manifest.sources
    }
    return StoredRun(
        root,
        manifest,
        epochs,
        _numbered(results, root),
        {name: _numbered(files, root) for name, files in sources.items()},
        stamp,
    )


def _stamp(root: Path) -> tuple[object, ...] | None:
    """What changes with every commit: the manifest, how many markers there are and the last of them, the only one that
    is ever written again. None where there are no markers to look at."""
    try:
        # Not told apart from other files by their full pattern: this is asked often, and of thousands of markers.
        markers = [entry.name for entry in os.scandir(root / EPOCHS) if entry.name.endswith(".json")]
        newest = max(markers, key=lambda name: (len(name), name), default=None)
        last = None if newest is None else _version(root / EPOCHS / newest)
        return _version(root / MANIFEST), len(markers), newest, last
    except OSError:
        return None


def _version(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def is_run(path: Path) -> bool:
    """Whether a directory is a run, be it half-written or damaged, and not somebody's other files."""
    if (path / LOCK).is_file() and (path / EPOCHS).is_dir():
        return True
    try:
        found = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "whence" in found and "format" in found


def replaced_run(path: Path) -> Path | None:
    """The run that lay at a path before an overwrite, while that is under way or when it was cut off."""
    found = [run for run in hidden_siblings(path, "replaced") if (run / MANIFEST).is_file()]
    return found[-1] if found else None


def list_runs(folder: str | Path, *, depth: int = 3) -> tuple[FoundRun, ...]:
    """The runs in a folder, `depth` folders deep, by path; those that do not open are listed with their problem."""
    root = Path(local_path(folder))
    if not root.is_dir():
        raise _no_run(root, "there is no such folder")
    return tuple(_found(path) for path in _run_directories(root, depth))


def _run_directories(folder: Path, depth: int) -> Iterator[Path]:
    if is_run(folder):
        yield folder
    elif depth:
        try:
            children = sorted(child for child in folder.iterdir() if child.is_dir() and not child.is_symlink())
        except OSError:
            # A folder that may not be looked into holds no run that could be opened.
            return
        for child in children:
            # Hidden folders hold, among others, runs that are just being made or replaced.
            if not child.name.startswith("."):
                yield from _run_directories(child, depth - 1)


def _found(path: Path) -> FoundRun:
    try:
        return FoundRun(path, open_run(path), None)
    except WhenceError as error:
        return FoundRun(path, None, error)


def _committed_epochs(root: Path, manifest: Manifest) -> tuple[Epoch, ...]:
    folder = root / EPOCHS
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    numbers = sorted(number for name in names if (number := marker_number(name)) is not None)
    # A hole would shift the number of every later file, and with it every id: nothing after it may be trusted.
    for expected, number in enumerate(numbers):
        if number != expected:
            raise broken_file(
                str(folder / marker_name(expected)),
                f"it is missing, though epoch {number} is there",
                hint="restore it from a copy of the run",
            )
    epochs = []
    for number in numbers:
        file = folder / marker_name(number)
        try:
            text = read_whole(file)
        except FileNotFoundError:
            if number != numbers[-1]:
                raise broken_file(str(file), "it vanished while the run was opened", hint="open it again") from None
            # The run's writer has just taken back its last epoch to write it again.
            break
        epoch = Epoch.from_text(text, str(file))
        if epoch.number != number:
            raise broken_file(str(file), f"key number is {epoch.number}, expected {number}")
        epochs.append(epoch.fitting(manifest, str(file)))
    return tuple(epochs)


def _numbered(files: list[tuple[int, FileRecord]], root: Path) -> tuple[NumberedFile, ...]:
    # Joining an absolute path to the root gives that path.
    return tuple(
        NumberedFile(number, epoch, record, root / record.path) for number, (epoch, record) in enumerate(files)
    )


def _locate(row_id: int, files: tuple[NumberedFile, ...], what: str) -> tuple[NumberedFile, int]:
    number, row = unpack(row_id)
    if number >= len(files):
        raise UnknownRow(
            f"there is no {what} {row_id}", detail=f"it would be in file {number}, the run has {len(files)} files"
        )
    rows = files[number].record.rows
    if rows is not None and row >= rows:
        raise UnknownRow(
            f"there is no {what} {row_id}",
            detail=f"it would be row {row} of {files[number].path}, which has {rows} rows",
        )
    return files[number], row


def _problems(files: tuple[NumberedFile, ...], numbers: Collection[int] | None, root: Path) -> list[str]:
    asked = [file for file in files if numbers is None or file.number in numbers]
    return [problem for file in asked if (problem := file_problem(file.record, root))]


def _list_text(problems: list[str]) -> str:
    shown = "; ".join(islice(problems, 3))
    return f"{shown}; and {len(problems) - 3} more" if len(problems) > 3 else shown


def _range_text(numbers: list[int]) -> str:
    return f"epochs {numbers[0]} to {numbers[-1]}" if numbers else "no epochs"


def _no_run(root: Path, reason: str) -> UnknownRun:
    before = replaced_run(root)
    if before and not root.exists():
        return UnknownRun(
            f"there is no run at {root}",
            detail=f"it was being overwritten when something stopped that; the run of before is {before}",
            hint=f"move that to {root} to have it back",
        )
    return UnknownRun(f"there is no run at {root}", detail=reason, hint="list the runs of a folder: whence runs FOLDER")


def _without_manifest(root: Path) -> WhenceError:
    parts = [name for name in (SOURCES, RESULTS, EDGES, EPOCHS, CHECKPOINT) if (root / name).is_dir()]
    if not is_run(root):
        return _no_run(root, f"it has no {MANIFEST}" + (f", only {', '.join(parts)}" if parts else ""))
    return BrokenRun(
        "the run has no manifest",
        detail=f"{root} holds {', '.join(parts)}, but no {MANIFEST}",
        hint=f"restore {MANIFEST} from a copy of the run, or write the run again with overwrite=True",
    )
