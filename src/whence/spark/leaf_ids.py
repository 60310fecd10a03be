"""Row ids on a live query's Parquet source: the file's number and the row's place in it, packed in one bigint.

The number is found from the file's address by a perfect hash: two looks into small arrays, the same for two files and
for ten thousand (4 M rows of 200 files: 0.1 s; a map literal 3 s, a CASE 27 s). It is deliberately no join: a carried
plan has as many scans and exchanges as the user's. Which files a source has, and their order, is `sources`' business.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whence.errors import NotTraceable
from whence.plan.hidden import PREFIX, ROW_ID
from whence.spark.jvm import JavaObject, Jvm, analyzed, items
from whence.spark.leaves import collect

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FILE_METADATA = "__file_source_metadata_col"
_ADDRESS, _PLACE, _KEY, _SLOT = (f"{PREFIX}{name}" for name in ("address", "place", "key", "slot"))
_PARTS = (("file_path", _ADDRESS), ("row_index", _PLACE))
_BIGINTS = '{"type":"array","elementType":"long","containsNull":false}'
_TRIES = 10_000


def leaf_table(jvm: Jvm, frame: DataFrame, addresses: Sequence[str]) -> DataFrame:
    """A DataFrame over Parquet files with `ROW_ID` after its columns.

    ``frame`` reads one Parquet relation and keeps its columns as they are. ``addresses`` are its files as the relation
    lists them (`inputFiles`), in the order of their numbers; a row of any other file is an error.
    """
    from pyspark.sql import functions as F

    read = _with_places(jvm, frame)
    if len(addresses) < 2:
        return read.withColumn(ROW_ID, F.col(_PLACE)).drop(_ADDRESS, _PLACE)
    table = perfect_hash([zlib.crc32(spelled(address).encode()) for address in addresses])
    key, slot = F.col(_KEY), F.col(_SLOT)
    moved = key.bitwiseXOR(F.get(_literal(jvm, table.displacements), _index(key, len(table.displacements))))
    # Shifts and not sums: they are the same in ANSI mode.
    packed = F.shiftleft(F.get(_literal(jvm, table.numbers), slot), 32).bitwiseOR(F.col(_PLACE))
    known = F.get(_literal(jvm, table.keys), slot) == key
    stranger = F.raise_error(F.concat(F.lit("not among the files that the run pinned: "), F.col(_ADDRESS)))
    return (
        read.withColumn(_KEY, F.crc32(F.col(_ADDRESS).cast("binary")))
        .withColumn(_SLOT, _index(moved, len(table.numbers)))
        .withColumn(ROW_ID, F.when(known, packed).otherwise(stranger.cast("bigint")))
        .drop(_ADDRESS, _PLACE, _KEY, _SLOT)
    )


def spelled(address: str) -> str:
    """A file's address as `_metadata.file_path` has it: of the three slashes of a local one, one.

    >>> spelled("file:///data/a%20b.parquet")
    'file:/data/a%20b.parquet'
    """
    return address.replace("file:///", "file:/", 1) if address.startswith("file:///") else address


def _with_places(jvm: Jvm, frame: DataFrame) -> DataFrame:
    """The frame with the address of each row's file and its place in it."""
    plan = analyzed(frame)
    relation = collect(plan)[0]
    whole = relation.withMetadataColumns()
    # Not by its name, which a data column may have.
    metadata = next(a for a in items(whole.output()) if _FILE_METADATA in a.metadata().json())
    columns = [jvm.alias(_member(jvm, metadata, name), alias) for name, alias in _PARTS]
    return jvm.frame(jvm.project([*items(plan.output()), *columns], whole))


def _member(jvm: Jvm, struct: JavaObject, name: str) -> JavaObject:
    place = list(struct.dataType().fieldNames()).index(name)
    return jvm.expression("GetStructField", struct, place, jvm.some(name))


def _index(value: Column, size: int) -> Column:
    from pyspark.sql import functions as F

    return F.pmod(value, F.lit(size).cast("bigint")).cast("int")


def _literal(jvm: Jvm, values: Sequence[int]) -> Column:
    """An array of bigints as one constant, handed over in one piece."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    gateway = jvm.spark.sparkContext._gateway
    assert gateway is not None
    longs = gateway.new_array(gateway.jvm.long, len(values))
    # Java reads the highest byte first.
    data = b"".join(value.to_bytes(8, "big", signed=True) for value in values)
    jvm.type("java.nio.ByteBuffer").wrap(data).asLongBuffer().get(longs)
    stored = jvm.type("org.apache.spark.sql.catalyst.expressions.UnsafeArrayData").fromPrimitiveArray(longs)
    kind = jvm.type("org.apache.spark.sql.types.DataType").fromJson(_BIGINTS)
    column = jvm.type("org.apache.spark.sql.classic.ExpressionUtils").column(jvm.expression("Literal", stored, kind))
    return ClassicColumn(column)


@dataclass(frozen=True, slots=True)
class PerfectHash:
    """For keys from a known set: which number each has.

    The slot of a key is ``(key ^ displacements[key % len(displacements)]) % len(numbers)``; ``keys`` has the key that
    belongs in a slot, or -1.
    """

    displacements: tuple[int, ...]
    numbers: tuple[int, ...]
    keys: tuple[int, ...]


def perfect_hash(keys: Sequence[int]) -> PerfectHash:
    """A table that finds each key's place in the sequence; the keys are from 0 up and all different.

    >>> table = perfect_hash([7, 11, 4])
    >>> slot = (11 ^ table.displacements[11 % len(table.displacements)]) % len(table.numbers)
    >>> table.numbers[slot], table.keys[slot]
    (1, 11)
    """
    # Odd: of a power of two, the xor would never part keys that are the same in the low bits.
    size = (len(keys) + len(keys) // 2 + 3) | 1
    buckets: list[list[int]] = [[] for _ in range(len(keys) // 3 + 1)]
    for number, key in enumerate(keys):
        buckets[key % len(buckets)].append(number)
    numbers, taken = [0] * size, [-1] * size
    displacements = [0] * len(buckets)
    # Always the same table for the same files.
    choice = random.Random(len(keys))
    # The fullest first, while there is room.
    for place in sorted(range(len(buckets)), key=lambda b: -len(buckets[b])):
        for _ in range(_TRIES):
            displacement = choice.getrandbits(31)
            slots = [(keys[number] ^ displacement) % size for number in buckets[place]]
            if len(set(slots)) == len(slots) and all(taken[slot] < 0 for slot in slots):
                break
        else:
            raise NotTraceable(
                "the files of a source cannot be numbered",
                detail="two of them have addresses with the same checksum",
                hint='rename one of the files, or use capture="lazy"',
            )
        displacements[place] = displacement
        for number, slot in zip(buckets[place], slots, strict=True):
            numbers[slot], taken[slot] = number, keys[number]
    return PerfectHash(tuple(displacements), tuple(numbers), tuple(taken))
