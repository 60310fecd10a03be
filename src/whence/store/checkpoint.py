"""What the checkpoint of a Structured Streaming query says about one epoch: its files, its watermarks, its clock.

Spark's own log, read as plain files and without Spark. Three things about it are easily got wrong:

- The source log counts by itself: its `batchId` is the source's own counter (the `logOffset` of the offsets file), not
  the epoch, because an epoch without new data repeats the last offset.
- A stateful step drops what is late by the watermark of the epoch *before*, and emits by the epoch's own.
- The log is short: Spark removes offsets after `spark.sql.streaming.minBatchesToRetain` epochs. What it can no longer
  tell raises `BrokenRun`; nothing is guessed. A run therefore reads each epoch while it runs and keeps it itself.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from whence.errors import BrokenRun
from whence.store.documents import broken_file, parse_document
from whence.store.files import read_whole
from whence.store.layout import local_path

_OFFSETS_VERSIONS = ("v1", "v2")
_NUMBER = re.compile(r"\d+")
_COMPACTED = re.compile(r"(\d+)\.compact")
# How Spark writes "this source has no offset yet".
_NO_OFFSET = "-"
_CHECKPOINT_HINT = "the checkpoint belongs to Spark: restore it from a copy, or start the query with a new one"


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file that an epoch read, as Spark's file source noted it; the path is spelled by `local_path`."""

    path: str
    modified_ms: int


@dataclass(frozen=True, slots=True)
class CheckpointEpoch:
    """One epoch according to the log.

    `offsets` and `files` go by source: by its ordinal in the plan ("0", "1"), or by its name where the query named its
    sources. `offsets` has the log's own text for every source, None where there was none yet; `files` has the new
    files of each file source. Times up to and including `late_before_ms` are late in this epoch.
    """

    number: int
    watermark_ms: int
    late_before_ms: int
    clock_ms: int
    conf: Mapping[str, str]
    offsets: Mapping[str, str | None]
    files: Mapping[str, tuple[LoggedFile, ...]]


@dataclass(frozen=True, slots=True)
class _Offsets:
    watermark_ms: int
    clock_ms: int
    conf: dict[str, str]
    sources: dict[str, str | None]


def read_epoch(checkpoint: str | Path, number: int, *, logs: Mapping[str, str] | None = None) -> CheckpointEpoch:
    """What the log says about an epoch, once Spark has written its offsets, that is from before it runs.

    ``logs`` names, by source, the folder of its log where that is not called as the source: the offsets count a source
    that the plan holds twice (a union with itself) twice, its log is there once.
    """
    root = Path(local_path(checkpoint))
    offsets = _read_offsets(root, number)
    # Before epoch 0 there is no watermark and no offset.
    before = _read_offsets(root, number - 1) if number else _Offsets(0, 0, {}, {})
    files: dict[str, tuple[LoggedFile, ...]] = {}
    for source, text in offsets.sources.items():
        last = _log_offset(text)
        if last is None:
            # Not a file source. The folder under sources/ tells nothing: others keep notes of their own there.
            continue
        earlier = before.sources.get(source)
        first = -1 if earlier is None else _log_offset(earlier)
        if first is None or first > last:
            raise _damaged(
                root / "offsets" / str(number), f"source {source} is at {text}, in the epoch before at {earlier}"
            )
        log = root / "sources" / (logs or {}).get(source, source)
        files[source] = tuple(file for entry in range(first + 1, last + 1) for file in _logged_files(log, entry))
    return CheckpointEpoch(
        number, offsets.watermark_ms, before.watermark_ms, offsets.clock_ms, offsets.conf, offsets.sources, files
    )


def retained_epochs(checkpoint: str | Path) -> tuple[int, ...]:
    """The epochs whose offsets the log still has, in order; the first of them `read_epoch` can tell only if it is 0."""
    return tuple(_numbers(Path(local_path(checkpoint)) / "offsets"))


def is_committed(checkpoint: str | Path, number: int) -> bool:
    """Whether Spark finished an epoch. Spark removes old marks too: an epoch before those it has was finished."""
    commits = _numbers(Path(local_path(checkpoint)) / "commits")
    return bool(commits) and number <= commits[-1]


def _read_offsets(root: Path, number: int) -> _Offsets:
    path = root / "offsets" / str(number)
    try:
        lines = _lines(path)
    except FileNotFoundError as error:
        raise _untold(path, _missing_epoch(root, number)) from error
    if not lines or lines[0] not in _OFFSETS_VERSIONS:
        found = repr(lines[0]) if lines else "nothing"
        raise _damaged(path, f"it starts with {found}, expected one of {', '.join(_OFFSETS_VERSIONS)}")
    if len(lines) < 2:
        raise _damaged(path, "it is cut short")
    entry = parse_document(lines[1], f"{path} line 2")
    named = lines[0] == "v2"
    sources: dict[str, str | None] = {}
    for ordinal, line in enumerate(lines[2:]):
        name, colon, text = line.partition(":") if named else (str(ordinal), ":", line)
        if not colon or not name or name in sources:
            raise _damaged(path, f"line {ordinal + 3} does not name a source: {line!r}")
        sources[name] = None if text == _NO_OFFSET else text
    return _Offsets(
        entry.integer("batchWatermarkMs"),
        entry.integer("batchTimestampMs"),
        entry.text_mapping("conf") if "conf" in entry.values else {},
        sources,
    )


def _log_offset(text: str | None) -> int | None:
    """The last entry of a file source's log that an epoch has seen; None when it is the offset of no file source."""
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    match found:
        case {"logOffset": int(offset), **others} if not others:
            return offset
        case _:
            return None


def _logged_files(log: Path, number: int) -> list[LoggedFile]:
    """The files of one entry of a source log: in a file of its own, or in the next compacted one."""
    if not log.is_dir():
        raise _untold(log, "the log of this file source is missing")
    compacted = sorted(int(found[1]) for path in log.iterdir() if (found := _COMPACTED.fullmatch(path.name)))
    candidates = [log / str(number), *(log / f"{n}.compact" for n in compacted if n >= number)]
    for path in candidates:
        try:
            lines = _lines(path)
        except FileNotFoundError:
            continue
        if lines[:1] != ["v1"]:
            raise _damaged(path, f"it starts with {lines[0]!r}, expected 'v1'" if lines else "it is empty")
        found_files = _entry_files(path, lines[1:], number)
        if found_files:
            return found_files
        raise _untold(path, f"it names no file of entry {number}")
    raise _untold(log, f"entry {number} is in none of its files")


def _entry_files(path: Path, lines: list[str], number: int) -> list[LoggedFile]:
    files = []
    for line_number, line in enumerate(lines, start=2):
        entry = parse_document(line, f"{path} line {line_number}")
        if entry.integer("batchId") == number:
            files.append(LoggedFile(local_path(entry.text("path")), entry.integer("timestamp")))
    return files


def _lines(path: Path) -> list[str]:
    # Not splitlines: a file's name may hold one of the rarer line separators.
    text = read_whole(path)
    return text.removesuffix("\n").split("\n") if text else []


def _numbers(folder: Path) -> list[int]:
    # Beside the files lie hidden checksums and files that Spark is just writing.
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def _missing_epoch(root: Path, number: int) -> str:
    kept = _numbers(root / "offsets")
    if not kept:
        return f"it is missing, and {root} has no offsets at all: is it the checkpoint of a streaming query?"
    if number < kept[0]:
        return f"Spark has removed it: the log goes from epoch {kept[0]} to {kept[-1]}"
    if number > kept[-1]:
        return f"it is not written yet: the log goes from epoch {kept[0]} to {kept[-1]}"
    return f"it is missing, though the log goes from epoch {kept[0]} to {kept[-1]}"


def _untold(path: Path, problem: str) -> BrokenRun:
    return BrokenRun(
        "the checkpoint does not tell",
        detail=f"{path}: {problem}",
        hint="read an epoch while it runs; spark.sql.streaming.minBatchesToRetain says how many Spark keeps",
    )


def _damaged(path: Path, problem: str) -> BrokenRun:
    return broken_file(str(path), problem, hint=_CHECKPOINT_HINT)
