"""What the store does to single files: write them whole, record them, compare them with their record.

It knows paths and records, not runs: what belongs to which epoch is the business of `writer.py` and `reader.py`.
pyarrow is imported only where a footer is read, so that looking at a run stays quick.
"""

import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from whence.errors import BrokenRun, SourceChanged, WhenceError
from whence.store.documents import broken_file
from whence.store.layout import is_inside, is_local, local_path, recorded_path
from whence.store.records import FileRecord


def write_whole(path: Path, text: str) -> None:
    """Write a file so that at every moment, crashes included, it has its old content or all of the new."""
    # Starts with a dot and does not end in .json: readers never take it for a marker.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable: after a rename the file's own fsync is not enough."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def hidden_sibling(path: Path, purpose: str) -> Path:
    """A new hidden name beside a path; `hidden_siblings` finds it again."""
    return path.with_name(f".{path.name}.{purpose}-{secrets.token_hex(4)}")


def hidden_siblings(path: Path, purpose: str) -> list[Path]:
    """The directories and files beside a path that have a name made by `hidden_sibling` for that purpose."""
    pattern = re.compile(re.escape(f".{path.name}.{purpose}-") + "[0-9a-f]{8}")
    if not path.parent.is_dir():
        return []
    return sorted(found for found in path.parent.iterdir() if pattern.fullmatch(found.name))


def read_whole(path: Path) -> str:
    """The text of a file of a run; a missing one is the caller's to judge (FileNotFoundError)."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise
    except UnicodeDecodeError as error:
        raise broken_file(str(path), f"it is no UTF-8 text ({error})") from error
    except OSError as error:
        raise broken_file(
            str(path), f"it cannot be read ({error.strerror})", hint="see who may read the file, and the disk"
        ) from error


def parquet_rows(path: Path) -> int:
    """How many rows a Parquet file has, from its footer."""
    import pyarrow as arrow
    from pyarrow import parquet

    try:
        return int(parquet.read_metadata(path).num_rows)
    except (arrow.ArrowException, OSError) as error:
        raise BrokenRun(
            "a file that should be Parquet is not",
            detail=f"{path}: {error}",
            hint="a file cut short by a crash has no footer: write it again",
        ) from error


def parquet_files(directory: Path) -> tuple[Path, ...]:
    """The Parquet files that lie in a directory, by name; those that Spark would overlook too are left out."""
    if not directory.is_dir():
        return ()
    return tuple(
        sorted(
            path
            for path in directory.iterdir()
            if path.name.endswith(".parquet") and not path.name.startswith((".", "_"))
        )
    )


def record_file(path: str | Path, run: Path) -> FileRecord:
    """The record of a Parquet file as it is now, with its rows counted."""
    found = Path(local_path(path))
    status = found.stat()
    return FileRecord(recorded_path(found, run), status.st_size, modified_ms(status), parquet_rows(found))


def pin_files(source: str, paths: Iterable[str | Path], run: Path) -> tuple[FileRecord, ...]:
    """The records of the files of a pinned source, in the given order; addresses as Spark spells them will do."""
    pinned = []
    for path in paths:
        spelled = local_path(path)
        if not is_local(spelled):
            raise SourceChanged(
                f"source {source!r} cannot be pinned",
                detail=f"{spelled} is not on this machine's file system",
                hint="read the source from local files",
            )
        try:
            pinned.append(record_file(spelled, run))
        except (OSError, WhenceError) as error:
            problem = error.detail if isinstance(error, WhenceError) else f"{spelled}: {error.strerror}"
            raise SourceChanged(
                f"source {source!r} cannot be pinned",
                detail=problem,
                hint="only Parquet files that stay in place can be pinned: see that nothing rewrites them",
            ) from error
    return tuple(pinned)


def modified_ms(status: os.stat_result) -> int:
    # Cut off, not rounded, as Java does: Spark's log and this one must agree on the same file.
    return status.st_mtime_ns // 1_000_000


def file_problem(record: FileRecord, run: Path) -> str:
    """How a file differs from its record, or nothing.

    Inside the run the time of modification does not count: copying a run to another place changes it.
    """
    path = run / record.path
    if not is_local(record.path):
        return f"file {record.path} is not on this machine's file system"
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return f"file {path} has vanished"
    except OSError as error:
        return f"file {path} cannot be looked at ({error.strerror})"
    if status.st_size != record.size:
        return f"file {path} has {status.st_size} bytes, the run knew it with {record.size}"
    if not is_inside(record.path) and modified_ms(status) != record.modified_ms:
        return (
            f"file {path} was modified since (at {modified_ms(status)} ms, the run knew the version of "
            f"{record.modified_ms} ms)"
        )
    return ""
