"""KEEP: a run on disk. Versioned formats, one writer, any number of readers.

`create`, `stage` and `resume` give a `RunWriter`, `open_run` a `StoredRun`; `checkpoint` reads what Spark's own logs
say about an epoch. The store keeps plans as text and files as records: it runs nothing, answers nothing, reads no rows.
"""

from whence.store.layout import LANDED_ID, local_path, partition_values
from whence.store.reader import FoundRun, NumberedFile, RunState, StoredRun, list_runs, open_run, pack, unpack
from whence.store.records import (
    FORMAT,
    Annotation,
    Capture,
    Column,
    Epoch,
    FileRecord,
    Manifest,
    OutputMode,
    PlanRecord,
    Role,
    RunKind,
    SourceRecord,
    SparkRecord,
)
from whence.store.writer import RunWriter, create, resume, stage

__all__ = [
    "FORMAT",
    "LANDED_ID",
    "Annotation",
    "Capture",
    "Column",
    "Epoch",
    "FileRecord",
    "FoundRun",
    "Manifest",
    "NumberedFile",
    "OutputMode",
    "PlanRecord",
    "Role",
    "RunKind",
    "RunState",
    "RunWriter",
    "SourceRecord",
    "SparkRecord",
    "StoredRun",
    "create",
    "list_runs",
    "local_path",
    "open_run",
    "pack",
    "partition_values",
    "resume",
    "stage",
    "unpack",
]
