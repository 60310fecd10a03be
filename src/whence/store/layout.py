"""Where everything of a run lies, and how paths are spelled.

Two rules. A file has one spelling, whoever names it (`local_path`): Spark alone has three for the same file. A file
inside the run is written down relative to the run, so that a run can be moved or copied whole.

Names and paths only: nothing here reads or changes a disk.
"""

import os
import re
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote

MANIFEST = "manifest.json"
SOURCES = "sources"
RESULTS = "results"
EDGES = "edges"
EPOCHS = "epochs"
CHECKPOINT = "checkpoint"
# Held by the one writer of a run as long as it lives; see `lock.py`.
LOCK = "writer.lock"

# The column of a landed source that holds its row ids.
LANDED_ID = "__id"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_MARKER = re.compile(r"(\d{6,})\.json")
# Hive's name for a null in a partition folder.
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def local_path(path: str | Path) -> str:
    """The one spelling of a file: an absolute path without scheme.

    Spark's `file:` addresses are percent-encoded, plain paths are not. Addresses of other file systems stay as they
    are: whence reads local files.

    >>> [local_path(path) for path in ("file:/data/a%20b", "file:///data/a%20b", "/data//a b")]
    ['/data/a b', '/data/a b', '/data/a b']
    >>> local_path("s3a://bucket/a")
    's3a://bucket/a'
    """
    text = str(path)
    if _SCHEME.match(text):
        if not text.lower().startswith("file:"):
            return text
        # Not urlsplit for the path: Spark leaves `#` and `?` of a file name alone in some addresses.
        rest = text[len("file:") :]
        if rest.startswith("//"):
            host, slash, rest = rest[2:].partition("/")
            if host not in ("", "localhost"):
                return text
            rest = slash + rest
        text = unquote(rest, errors="surrogateescape")
    # normpath keeps a leading double slash, which means nothing on Linux.
    return "/" + os.path.normpath(Path(text).absolute()).lstrip("/")


def is_local(path: str) -> bool:
    """Whether a path of a record is one that this machine's file system can open."""
    return not _SCHEME.match(path)


def recorded_path(path: str | Path, run: Path) -> str:
    """How a record of `run` spells a file: relative when inside the run, else its `local_path`.

    >>> recorded_path("file:/runs/a/results/epoch=000000/part-0.parquet", Path("/runs/a"))
    'results/epoch=000000/part-0.parquet'
    """
    found = local_path(path)
    root = local_path(run).rstrip("/") + "/"
    return found[len(root) :] if found.startswith(root) else found


def is_inside(recorded: str) -> bool:
    """Whether a recorded path lies inside its run (records spell those relative)."""
    return is_local(recorded) and not recorded.startswith("/")


def recorded_path_problem(recorded: str) -> str:
    """What is wrong with a path found in a record, or nothing; a run must not lead readers out of itself."""
    if not recorded or "\0" in recorded:
        return "is no path"
    if is_inside(recorded) and ".." in PurePosixPath(recorded).parts:
        return "leads out of the run"
    return ""


def epoch_directory(number: int) -> str:
    return f"epoch={number:06d}"


def marker_name(number: int) -> str:
    return f"{number:06d}.json"


def marker_number(name: str) -> int | None:
    """The epoch that a file of `epochs/` is the marker of, or nothing."""
    found = _MARKER.fullmatch(name)
    if found is None or marker_name(int(found[1])) != name:
        return None
    return int(found[1])


def source_directory(name: str) -> str:
    """A source's folder name: its name with all but plain characters percent-encoded.

    Spark overlooks files and folders that start with a dot or an underscore, so these are encoded there.

    >>> source_directory("reports"), source_directory("../a=b"), source_directory("_x")
    ('reports', '%2E.%2Fa%3Db', '%5Fx')
    """
    encoded = quote(name, safe="")
    if encoded[:1] in (".", "_"):
        encoded = f"%{ord(encoded[0]):02X}{encoded[1:]}"
    return encoded


def partition_values(path: str | Path, columns: tuple[str, ...]) -> dict[str, str | None]:
    """The values, as text, that the folders of a path give to Hive partition columns; null is None.

    A column that the path does not name is left out.

    >>> partition_values("/data/day=2026-01-01/car=a%2Fb/part-0.parquet", ("day", "car"))
    {'day': '2026-01-01', 'car': 'a/b'}
    """
    found: dict[str, str | None] = {}
    for folder in PurePosixPath(local_path(path)).parent.parts:
        name, equals, value = folder.partition("=")
        # Spark itself escapes names and values in the folder's name, on disk.
        if equals and unquote(name) in columns:
            found[unquote(name)] = None if value == _NULL_PARTITION else unquote(value)
    return {name: found[name] for name in columns if name in found}
