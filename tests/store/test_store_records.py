"""Records: whatever is written reads back the same, and whatever was damaged is named by file and key."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import BrokenRun, NewerFormat
from whence.store import (
    Annotation,
    Column,
    Epoch,
    FileRecord,
    Manifest,
    PlanRecord,
    SourceRecord,
    SparkRecord,
    partition_values,
)
from whence.store.documents import parse_document
from whence.store.layout import is_inside, local_path, recorded_path, source_directory
from whence.store.records import checked_text

# Lone surrogates included: Python has them for file names that are no Unicode.
texts = st.text(max_size=12)
bigints = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**63 - 1)
paths = st.one_of(
    st.just("/data/a b.parquet"), st.builds("results/epoch=000000/{}.parquet".format, st.sampled_from("abcdef"))
)
columns = st.builds(Column, texts, texts, st.booleans())
files = st.builds(FileRecord, paths, counts, bigints, st.none() | counts)
different_columns = st.lists(columns, max_size=4, unique_by=lambda column: column.name).map(tuple)
conf = st.dictionaries(texts, texts, max_size=3)
names = st.text(min_size=1, max_size=12)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    sources = []
    for name in draw(st.lists(names, max_size=3, unique=True)):
        found = draw(different_columns)
        partition = draw(st.lists(st.sampled_from(found), max_size=2)) if found else []
        sources.append(
            SourceRecord(
                name,
                draw(st.sampled_from(["parquet", "landed"])),
                found,
                draw(st.sampled_from(["file_row", "column"])),
                tuple(column.name for column in partition),
                tuple(draw(st.lists(texts, max_size=2))),
            )
        )
    annotations = []
    if sources:
        for column in draw(st.lists(texts, max_size=3, unique=True)):
            source = draw(st.sampled_from(sources)).name
            annotations.append(
                Annotation(column, source, draw(st.sampled_from(["value", "condition"])), draw(st.booleans()))
            )
    steps = st.lists(texts, max_size=3).map(tuple)
    plans = [
        PlanRecord(version, draw(texts), draw(texts), draw(steps), draw(st.booleans()), draw(steps))
        for version in range(1, draw(st.integers(1, 3)) + 1)
    ]
    return Manifest(
        whence=draw(texts),
        created=draw(st.datetimes(timezones=st.timezones())).astimezone().isoformat(),
        kind=draw(st.sampled_from(["batch", "stream"])),
        capture=draw(st.sampled_from(["lazy", "interval", "eager"])),
        capture_reason=draw(texts),
        output_mode=draw(st.sampled_from([None, "append", "update", "complete"])),
        plans=tuple(plans),
        sources=tuple(sources),
        columns=draw(different_columns),
        annotations=tuple(annotations),
        spark=SparkRecord(draw(texts), draw(conf)),
        query=draw(st.none() | texts),
    )


epochs = st.builds(
    Epoch,
    number=counts,
    plan=st.integers(1, 9),
    inputs=st.dictionaries(names, st.lists(files, max_size=3).map(tuple), max_size=3),
    watermark_ms=st.none() | bigints,
    late_before_ms=st.none() | bigints,
    clock_ms=st.none() | bigints,
    results=st.lists(files, max_size=3).map(tuple),
    counts=st.dictionaries(texts, bigints, max_size=3),
)


@given(manifests())
def test_a_manifest_reads_back_the_same(manifest: Manifest) -> None:
    assert Manifest.from_text(manifest.to_text(), "manifest.json") == manifest


@given(epochs)
def test_an_epoch_reads_back_the_same(epoch: Epoch) -> None:
    assert Epoch.from_text(epoch.to_text(), "epochs/000000.json") == epoch


@given(epochs, st.data())
def test_an_epoch_cut_short_is_never_read(epoch: Epoch, data: st.DataObject) -> None:
    text = epoch.to_text().rstrip()
    cut = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(BrokenRun, match=r"000000\.json"):
        Epoch.from_text(text[:cut], "epochs/000000.json")


def test_the_newest_plan_gives_the_steps(make_manifest: Callable[..., Manifest]) -> None:
    second = PlanRecord(2, "text", "f2", ("only",), False, ("a Python function",))
    manifest = make_manifest(plans=(*make_manifest().plans, second))
    assert manifest.plan == second
    assert manifest.steps == ("only",)


def _document(manifest: Manifest) -> dict[str, Any]:
    found = json.loads(manifest.to_text())
    assert isinstance(found, dict)
    return found


def _all_places(value: object, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found: list[tuple[str | int, ...]] = []
    items: list[tuple[str | int, object]] = []
    match value:
        case dict():
            items = list(value.items())
        case list():
            items = list(enumerate(value))
    for key, inner in items:
        found += [(*place, key), *_all_places(inner, (*place, key))]
    return found


def _at(document: Any, place: tuple[str | int, ...]) -> Any:
    for key in place:
        document = document[key]
    return document


FREE = {("spark", "conf", "spark.sql.session.timeZone"), ("counts", "results"), ("inputs", "reports")}


def _documents(make_manifest: Callable[..., Manifest], make_epoch: Callable[..., Epoch]) -> list[Any]:
    file = FileRecord("/data/reports/day=1/a.parquet", 10, 20, 3)
    plan = make_manifest().plans[0]
    return [
        (Manifest, make_manifest(plans=(plan, PlanRecord(2, "x", "y", ("s",), False, ("udf",))), query="a:b")),
        (Epoch, make_epoch(inputs={"reports": (file,)}, results=(file,))),
    ]


def test_every_missing_key_is_named(make_manifest: Callable[..., Manifest], make_epoch: Callable[..., Epoch]) -> None:
    checked = 0
    for kind, record in _documents(make_manifest, make_epoch):
        for place in _all_places(json.loads(record.to_text())):
            if isinstance(place[-1], int) or place in FREE:
                continue
            document = json.loads(record.to_text())
            del _at(document, place[:-1])[place[-1]]
            with pytest.raises(BrokenRun) as caught:
                kind.from_text(json.dumps(document), "the-file.json")
            assert "the-file.json" in caught.value.detail
            assert f"{place[-1]} is missing" in caught.value.detail
            checked += 1
    assert checked > 50


@pytest.mark.parametrize("wrong", [None, True, 1.5, 7, "x", [], {}, [None], {"k": None}, -1, 2**63])
def test_a_value_of_another_kind_is_named_or_means_the_same(
    wrong: object, make_manifest: Callable[..., Manifest], make_epoch: Callable[..., Epoch]
) -> None:
    refused = 0
    for kind, record in _documents(make_manifest, make_epoch):
        for place in _all_places(json.loads(record.to_text())):
            document = json.loads(record.to_text())
            right = _at(document, place)
            _at(document, place[:-1])[place[-1]] = wrong
            text = json.dumps(document)
            try:
                found = kind.from_text(text, "the-file.json")
            except NewerFormat:
                assert place == ("format",)
            except BrokenRun as error:
                assert "the-file.json" in error.detail
                refused += 1
            else:
                # Allowed there: then nothing of it was lost or bent.
                assert json.loads(found.to_text()) == document
                assert type(right) is type(wrong) or right is None or wrong is None
    assert refused > 20


def test_an_unknown_key_is_damage(make_manifest: Callable[..., Manifest], make_epoch: Callable[..., Epoch]) -> None:
    for kind, record in _documents(make_manifest, make_epoch):
        document = json.loads(record.to_text())
        document["colour"] = "red"
        with pytest.raises(BrokenRun, match="key colour is not known here"):
            kind.from_text(json.dumps(document), "the-file.json")


def test_a_newer_format_is_said_before_anything_else(make_manifest: Callable[..., Manifest]) -> None:
    with pytest.raises(NewerFormat, match="format 2, this whence reads formats up to 1"):
        Manifest.from_text('{"format": 2, "everything": "else"}', "manifest.json")
    with pytest.raises(NewerFormat):
        Epoch.from_text('{"format": 17}', "epochs/000000.json")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no valid JSON"),
        ("null", "holds null, expected an object"),
        ("[1]", "holds a list, expected an object"),
        ('{"a": 1, "a": 2}', "same key twice"),
        ('{"a": NaN}', "NaN is no JSON"),
        ("[" * 100_000, "no valid JSON"),
        ('{"a": 1} {', "no valid JSON"),
    ],
)
def test_what_is_no_json_object_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BrokenRun, match=problem):
        parse_document(text, "the-file.json")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"plans": ()}, "plans"),
        ({"created": "yesterday"}, "created"),
        ({"created": "2026-01-01T08:00:00"}, "created"),
        ({"annotations": (Annotation("a", "nobody", "value", False),)}, "annotations"),
        ({"annotations": (Annotation("a", "cars", "value", False),) * 2}, "annotations"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(
    change: dict[str, Any], key: str, make_manifest: Callable[..., Manifest]
) -> None:
    with pytest.raises(BrokenRun, match=f"key {key} "):
        Manifest.from_text(make_manifest(**change).to_text(), "manifest.json")


def test_sources_must_differ_in_name(make_manifest: Callable[..., Manifest]) -> None:
    with pytest.raises(BrokenRun, match="'reports' twice"):
        Manifest.from_text(make_manifest(sources=(make_manifest().sources[0],) * 2).to_text(), "manifest.json")


def test_partition_columns_must_be_columns(make_manifest: Callable[..., Manifest]) -> None:
    document = _document(make_manifest())
    document["sources"][0]["partition_columns"] = ["hour"]
    with pytest.raises(BrokenRun, match=r"sources\[0\].partition_columns names 'hour'"):
        Manifest.from_text(json.dumps(document), "manifest.json")


@pytest.mark.parametrize("path", ["../secret.parquet", "results/../../x", "", "a\0b"])
def test_a_recorded_path_cannot_lead_out_of_the_run(path: str, make_epoch: Callable[..., Epoch]) -> None:
    epoch = make_epoch(results=(FileRecord(path, 1, 1, 1),))
    with pytest.raises(BrokenRun, match=r"results\[0\].path"):
        Epoch.from_text(epoch.to_text(), "epochs/000000.json")


def test_what_could_not_be_read_again_is_not_written(make_epoch: Callable[..., Epoch]) -> None:
    with pytest.raises(BrokenRun, match=r"nothing was written.*\n.*clock_ms is \"noon\""):
        checked_text(make_epoch(clock_ms="noon"), Epoch.from_text, "epochs/000000.json")
    with pytest.raises(BrokenRun, match="would not read back the same"):
        checked_text(make_epoch(counts={1: 1}), Epoch.from_text, "epochs/000000.json")


@pytest.mark.parametrize(
    ("spelling", "path"),
    [
        ("/data/a.parquet", "/data/a.parquet"),
        ("file:/data/a.parquet", "/data/a.parquet"),
        ("file:///data/a.parquet", "/data/a.parquet"),
        ("FILE:///data/a.parquet", "/data/a.parquet"),
        ("file://localhost/data/a.parquet", "/data/a.parquet"),
        ("//data//b/./../a.parquet", "/data/a.parquet"),
        # Only addresses are percent-encoded.
        ("file:/data/a%20b%25.parquet", "/data/a b%.parquet"),
        ("/data/a%20b%25.parquet", "/data/a%20b%25.parquet"),
        ("file:/data/k=a%2520b/x.parquet", "/data/k=a%20b/x.parquet"),
        ("file:/data/%C3%BC.parquet", "/data/ü.parquet"),
        ("file:/data/a#b?c.parquet", "/data/a#b?c.parquet"),
        ("/data/a:b.parquet", "/data/a:b.parquet"),
        ("s3a://bucket/a.parquet", "s3a://bucket/a.parquet"),
        ("file://server/data/a.parquet", "file://server/data/a.parquet"),
    ],
)
def test_a_file_has_one_spelling(spelling: str, path: str) -> None:
    assert local_path(spelling) == path
    assert local_path(local_path(spelling)) == path


def test_paths_inside_a_run_are_relative_to_it(tmp_path: Any) -> None:
    assert recorded_path(f"file:{tmp_path}/run/results/a", tmp_path / "run") == "results/a"
    assert recorded_path(tmp_path / "runner/results/a", tmp_path / "run") == f"{tmp_path}/runner/results/a"
    assert is_inside("results/a")
    assert not is_inside("/results/a")
    assert not is_inside("s3a://results/a")


@given(names, names)
def test_source_folders_are_single_visible_and_different(one: str, other: str) -> None:
    try:
        folder = source_directory(one)
    except UnicodeEncodeError:
        pytest.fail("every name has a folder")
    assert "/" not in folder
    assert not folder.startswith((".", "_"))
    assert "=" not in folder
    assert (source_directory(other) == folder) == (one == other)


@pytest.mark.parametrize(
    ("path", "names", "values"),
    [
        ("/d/day=2026-01-01/a.parquet", ("day",), {"day": "2026-01-01"}),
        ("file:/d/k=a%2520b/a.parquet", ("k",), {"k": "a b"}),
        ("/d/k=__HIVE_DEFAULT_PARTITION__/a.parquet", ("k",), {"k": None}),
        ("/d/k=/a.parquet", ("k",), {"k": ""}),
        ("/d/k=1/x=2/a.parquet", ("x", "k"), {"x": "2", "k": "1"}),
        ("/d/k=1/k=2/a.parquet", ("k",), {"k": "2"}),
        ("/d/other=1/k=3.parquet", ("k",), {}),
        ("/d/a%3Db=c%3Dd/a.parquet", ("a=b",), {"a=b": "c=d"}),
    ],
)
def test_partition_values_come_from_the_path(path: str, names: tuple[str, ...], values: dict[str, str | None]) -> None:
    assert partition_values(path, names) == values
