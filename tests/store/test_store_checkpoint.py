"""Checkpoints laid out as Spark lays them out: versions 1 and 2 of the offsets, compacted and purged logs."""

import json
from pathlib import Path

import pytest

from whence.errors import BrokenRun
from whence.store.checkpoint import LoggedFile, is_committed, read_epoch, retained_epochs

CONF = {"spark.sql.streaming.multipleWatermarkPolicy": "min", "spark.sql.shuffle.partitions": "2"}


def write_offsets(root: Path, number: int, watermark: int, *sources: str, version: str = "v1") -> None:
    (root / "offsets").mkdir(parents=True, exist_ok=True)
    clock = 1_767_254_400_000 + number
    line = json.dumps({"batchWatermarkMs": watermark, "batchTimestampMs": clock, "conf": CONF})
    (root / "offsets" / str(number)).write_text("\n".join([version, line, *sources]))
    # Spark keeps a hidden checksum beside each file, and a file that it is just writing.
    (root / "offsets" / f".{number}.crc").write_bytes(b"crc")
    (root / "offsets" / f".{number + 1}.0a1b.tmp").write_text("v1")


def write_entries(root: Path, source: str, name: str, entries: dict[int, list[str]]) -> None:
    log = root / "sources" / source
    log.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"path": f"file:///data/{file}", "timestamp": 1000 + counter, "batchId": counter})
        for counter, files in entries.items()
        for file in files
    ]
    (log / name).write_text("\n".join(["v1", *lines]))


def offset(counter: int) -> str:
    return json.dumps({"logOffset": counter}, separators=(",", ":"))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Five epochs over one file source; epoch 2 has no data, so that the source's counter falls behind."""
    root = tmp_path / "checkpoint"
    for number, (watermark, counter) in enumerate([(0, 0), (100, 1), (200, 1), (200, 2), (350, 4)]):
        write_offsets(root, number, watermark, offset(counter))
    for counter, files in enumerate([["a"], ["b", "c%20d"], ["e"], ["f"], ["g"]]):
        write_entries(root, "0", str(counter), {counter: files})
    (root / "commits").mkdir()
    for number in range(4):
        (root / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":1}')
    return root


def test_files_go_by_the_sources_own_counter(checkpoint: Path) -> None:
    read = [[file.path for file in read_epoch(checkpoint, number).files["0"]] for number in range(5)]
    assert read == [["/data/a"], ["/data/b", "/data/c d"], [], ["/data/e"], ["/data/f", "/data/g"]]
    assert read_epoch(checkpoint, 3).files["0"] == (LoggedFile("/data/e", 1002),)


def test_late_is_judged_by_the_watermark_of_the_epoch_before(checkpoint: Path) -> None:
    found = [read_epoch(checkpoint, number) for number in range(5)]
    assert [epoch.watermark_ms for epoch in found] == [0, 100, 200, 200, 350]
    assert [epoch.late_before_ms for epoch in found] == [0, 0, 100, 200, 200]
    assert [epoch.clock_ms for epoch in found] == [1_767_254_400_000 + number for number in range(5)]
    assert found[4].conf == CONF
    assert found[4].number == 4


def test_committed_and_retained(checkpoint: Path) -> None:
    assert retained_epochs(checkpoint) == (0, 1, 2, 3, 4)
    assert [is_committed(checkpoint, number) for number in range(6)] == [True, True, True, True, False, False]
    # Spark removes old marks.
    (checkpoint / "commits/0").unlink()
    assert is_committed(checkpoint, 0)
    assert retained_epochs(checkpoint.with_name("nowhere")) == ()
    assert not is_committed(checkpoint.with_name("nowhere"), 0)


@pytest.mark.parametrize("keep_single_files", [True, False])
def test_compacted_logs(tmp_path: Path, keep_single_files: bool) -> None:
    entries = {counter: [f"file-{counter}"] for counter in range(23)}
    for number in range(23):
        write_offsets(tmp_path, number, 0, offset(number))
    for number in range(23):
        if number % 10 == 9:
            # The tenth entry has no file of its own, only the compacted one, which holds all before it too.
            before = {counter: files for counter, files in entries.items() if counter <= number}
            write_entries(tmp_path, "0", f"{number}.compact", before)
        elif keep_single_files or number > 19:
            write_entries(tmp_path, "0", str(number), {number: entries[number]})
    for number in range(23):
        assert [file.path for file in read_epoch(tmp_path, number).files["0"]] == [f"/data/file-{number}"]


def test_named_sources(tmp_path: Path) -> None:
    write_offsets(tmp_path, 0, 0, f"orders:{offset(0)}", "cars:-", version="v2")
    write_offsets(tmp_path, 1, 5, f"orders:{offset(0)}", f"cars:{offset(1)}", version="v2")
    write_entries(tmp_path, "orders", "0", {0: ["o"]})
    write_entries(tmp_path, "cars", "0", {0: ["c0"]})
    write_entries(tmp_path, "cars", "1", {1: ["c1"]})
    first, second = read_epoch(tmp_path, 0), read_epoch(tmp_path, 1)
    assert first.offsets == {"orders": '{"logOffset":0}', "cars": None}
    assert {source: [file.path for file in files] for source, files in first.files.items()} == {"orders": ["/data/o"]}
    assert {source: [file.path for file in files] for source, files in second.files.items()} == {
        "orders": [],
        "cars": ["/data/c0", "/data/c1"],
    }


def test_sources_that_are_no_files(tmp_path: Path) -> None:
    kafka = '{"topic":{"0":23,"1":-1}}'
    table = '{"logOffset":0,"table":"t"}'
    write_offsets(tmp_path, 0, 0, "1", kafka, "-", offset(0), table)
    # A rate source notes its start under sources/ as well, in its own words.
    (tmp_path / "sources/0").mkdir(parents=True)
    (tmp_path / "sources/0/0").write_text("v1\n1767254400000")
    write_entries(tmp_path, "3", "0", {0: ["a"]})
    found = read_epoch(tmp_path, 0)
    assert found.offsets == {"0": "1", "1": kafka, "2": None, "3": '{"logOffset":0}', "4": table}
    assert found.files == {"3": (LoggedFile("/data/a", 1000),)}


def test_what_spark_has_removed_is_said(checkpoint: Path) -> None:
    (checkpoint / "offsets/0").unlink()
    with pytest.raises(BrokenRun, match=r"Spark has removed it: the log goes from epoch 1 to 4\nhint: .*minBatches"):
        read_epoch(checkpoint, 0)
    # Of the first epoch that is left neither the late bound nor the first new file is known.
    with pytest.raises(BrokenRun, match="offsets/0: Spark has removed it"):
        read_epoch(checkpoint, 1)
    assert read_epoch(checkpoint, 2).late_before_ms == 100


def test_what_is_not_there_yet_is_said(checkpoint: Path) -> None:
    with pytest.raises(BrokenRun, match="it is not written yet"):
        read_epoch(checkpoint, 5)
    (checkpoint / "offsets/2").unlink()
    with pytest.raises(BrokenRun, match="it is missing, though the log goes from epoch 0 to 4"):
        read_epoch(checkpoint, 3)
    with pytest.raises(BrokenRun, match="is it the checkpoint of a streaming query"):
        read_epoch(checkpoint.with_name("nowhere"), 0)


def test_a_source_log_that_lacks_an_entry_is_said(checkpoint: Path) -> None:
    (checkpoint / "sources/0/3").unlink()
    with pytest.raises(BrokenRun, match="sources/0: entry 3 is in none of its files"):
        read_epoch(checkpoint, 4)
    write_entries(checkpoint, "0", "9.compact", {0: ["a"], 4: ["g"]})
    with pytest.raises(BrokenRun, match=r"9.compact: it names no file of entry 3"):
        read_epoch(checkpoint, 4)
    for file in (checkpoint / "sources/0").iterdir():
        file.unlink()
    (checkpoint / "sources/0").rmdir()
    with pytest.raises(BrokenRun, match="the log of this file source is missing"):
        read_epoch(checkpoint, 0)
    # An epoch without new files needs none of it.
    assert read_epoch(checkpoint, 2).files == {"0": ()}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it starts with nothing"),
        ("v3\n{}", "it starts with 'v3', expected one of v1, v2"),
        ("v1", "it is cut short"),
        ('v1\n{"batchWatermarkMs":0', "line 2: it is no valid JSON"),
        ('v1\n{"batchWatermarkMs":0,"conf":{}}', "key batchTimestampMs is missing"),
        ('v1\n{"batchWatermarkMs":"0","batchTimestampMs":1,"conf":{}}', 'batchWatermarkMs is "0"'),
        ('v2\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\nnonsense', "line 3 does not name a source"),
    ],
)
def test_damaged_offsets_are_named(checkpoint: Path, text: str, problem: str) -> None:
    (checkpoint / "offsets/4").write_text(text)
    with pytest.raises(BrokenRun, match=f"offsets/4.*{problem}"):
        read_epoch(checkpoint, 4)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is empty"),
        ("v2\n", "it starts with 'v2'"),
        ('v1\n{"path":"file:///data/g"', "line 2: it is no valid JSON"),
        ('v1\n{"path":"file:///data/g","timestamp":1}', "key batchId is missing"),
        ("v1", "it names no file of entry 4"),
    ],
)
def test_a_damaged_source_log_is_named(checkpoint: Path, text: str, problem: str) -> None:
    (checkpoint / "sources/0/4").write_text(text)
    with pytest.raises(BrokenRun, match=f"sources/0/4.*{problem}"):
        read_epoch(checkpoint, 4)


def test_an_offset_that_goes_back_is_damage(checkpoint: Path) -> None:
    write_offsets(checkpoint, 4, 350, offset(1))
    with pytest.raises(BrokenRun, match="source 0 is at"):
        read_epoch(checkpoint, 4)
