"""What a manifest says about the Spark that ran a query, its plan and its columns; for batches and streams alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from whence.plan.nodes import walk
from whence.plan.text import fingerprint, print_plan
from whence.store import (
    Annotation,
    Capture,
    Column,
    Manifest,
    OutputMode,
    PlanRecord,
    RunKind,
    SourceRecord,
    SparkRecord,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from whence.spark.lift import Lifted

CONF = (
    # What the same expression means.
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.timestampType",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    # How files are read.
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.int96RebaseModeInRead",
)
LAYOUT = (
    # The order in which rows meet, and so which of equal rows a limit or a first() takes, and how sums round.
    "spark.sql.shuffle.partitions",
    "spark.sql.adaptive.enabled",
    "spark.sql.files.maxPartitionBytes",
)
LEGACY = "spark.sql.legacy."


def spark_record(spark: SparkSession) -> SparkRecord:
    """The Spark that runs, and those of its settings that the meaning of a query depends on."""
    # Without a default of ours, so that what was never set has Spark's own.
    conf = {name: str(spark.conf.get(name)) for name in (*CONF, *LAYOUT)}
    conf |= {name: value for name, value in spark.conf.getAll.items() if name.startswith(LEGACY)}
    return SparkRecord(spark.version, dict(sorted(conf.items())))


def same_meaning(one: SparkRecord, other: SparkRecord) -> list[str]:
    """The settings by which two Sparks would give the same query different meanings, as text."""
    names = [n for n in sorted({*one.conf, *other.conf}) if n not in LAYOUT]
    return [
        f"{n} was {one.conf.get(n)} and is {other.conf.get(n)}" for n in names if one.conf.get(n) != other.conf.get(n)
    ]


def manifest(
    df: DataFrame,
    lifted: Lifted,
    *,
    kind: RunKind,
    capture: Capture,
    reason: str,
    sources: tuple[SourceRecord, ...],
    annotations: tuple[Annotation, ...] = (),
    whence_version: str,
) -> Manifest:
    """What a new run records about itself before it runs."""
    mode: OutputMode | None = "append" if kind == "stream" else None
    plan = PlanRecord(
        version=1,
        text=print_plan(lifted.plan),
        fingerprint=fingerprint(lifted.plan),
        steps=tuple(node.step for node in walk(lifted.plan)),
        portable=not lifted.opaque,
        opaque=lifted.opaque,
    )
    columns = tuple(
        Column(f.name, str(f.type), column.nullable)
        for f, column in zip(lifted.plan.schema, df.schema.fields, strict=True)
    )
    return Manifest(
        whence=whence_version,
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        kind=kind,
        capture=capture,
        capture_reason=reason,
        output_mode=mode,
        plans=(plan,),
        sources=sources,
        columns=columns,
        annotations=annotations,
        spark=spark_record(df.sparkSession),
    )
