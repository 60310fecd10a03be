"""What benches read: Parquet data sets, made once and kept under the temporary folder by their parameters.

A data set appears whole, by one rename, so a bench that was stopped leaves nothing half-made that a later one takes.
Nothing is ever read from outside, and deleting the folder is always safe.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path

from whence.demo.traffic import Traffic, write_traffic

# Bumped when what a maker writes changes, as its parameters alone would not tell.
_VERSION = 2


def kept(name: str, make: Callable[[Path], object]) -> Path:
    """The folder of a data set, made by `make` if it is not there yet."""
    folder = Path(tempfile.gettempdir(), "whence-bench", f"{name}-v{_VERSION}")
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        make(fresh)
        try:
            fresh.rename(folder)
        except OSError:
            # Another bench was first, with the same data.
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder beside the data sets, gone afterwards: for what a bench writes."""
    beside = Path(tempfile.gettempdir(), "whence-bench")
    beside.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="scratch-", dir=beside))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def traffic(size: Traffic) -> Path:
    """Generated road traffic: `reports`, and `alerts.parquet` with what the query over the stream must find."""

    def make(folder: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        planted = write_traffic(folder / "reports", size)
        alerts = [
            {"start": alert.start, "end": alert.end, "car": alert.car, "pos": alert.pos, "n": len(alert.reports)}
            for alert in planted.stream
        ]
        time = pa.timestamp("us", "UTC")
        columns = [("start", time), ("end", time), ("car", pa.int32()), ("pos", pa.int32()), ("n", pa.int64())]
        pq.write_table(pa.Table.from_pylist(alerts, pa.schema(columns)), folder / "alerts.parquet")

    return kept("traffic-" + "-".join(map(str, astuple(size))), make)


def sales(rows: int, categories: int) -> Path:
    """Two tables: `sales` (id, category, amount) in four files, and `categories` (category, region), a row for each."""

    def make(folder: Path) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        draw = np.random.default_rng(1)
        table = pa.table(
            {
                "id": np.arange(rows),
                "category": draw.integers(0, categories, rows),
                "amount": draw.integers(0, 100_000, rows) / 100,
            }
        )
        (folder / "sales").mkdir()
        step = -(-rows // 4)
        for number in range(4):
            pq.write_table(table.slice(number * step, step), folder / "sales" / f"part-{number}.parquet")
        (folder / "categories").mkdir()
        regions = pa.array([f"region {number % 7}" for number in range(categories)])
        pq.write_table(
            pa.table({"category": np.arange(categories), "region": regions}), folder / "categories" / "part-0.parquet"
        )

    return kept(f"sales-{rows}-{categories}", make)


def bytes_below(folder: Path) -> int:
    """How many bytes the files in a folder and the folders in it take."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
