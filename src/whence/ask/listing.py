"""The runs in a folder, each in a line: what `whence runs` shows. It opens runs, and reads none of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from whence.errors import WhenceError
from whence.store import FoundRun
from whence.store import list_runs as find_runs


@dataclass(frozen=True, slots=True)
class Listed:
    """A run as a folder's listing shows it; of one that does not open only the path is known, and the problem."""

    path: Path
    kind: str = ""
    state: str = ""
    capture: str = ""
    rows: int | None = None
    epochs: int | None = None
    created: str = ""
    sources: tuple[str, ...] = ()
    problem: WhenceError | None = None


def list_runs(folder: str | Path = ".") -> tuple[Listed, ...]:
    """The runs in a folder and the folders in it, by path; broken ones too."""
    return tuple(_listed(found) for found in find_runs(folder))


def _listed(found: FoundRun) -> Listed:
    run = found.run
    if run is None:
        return Listed(found.path, state="broken", problem=found.problem)
    # By epoch and not result_files(), which refuses a batch that is not done.
    counts = [record.rows for epoch in run.epochs for record in epoch.results]
    return Listed(
        found.path,
        run.manifest.kind,
        run.state(),
        run.manifest.capture,
        sum(count or 0 for count in counts),
        len(run.epochs),
        run.manifest.created,
        tuple(source.name for source in run.manifest.sources),
    )
