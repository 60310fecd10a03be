"""A staged run: hidden until it is published, gone without trace when it is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whence.errors import RunExists
from whence.store import Manifest, create, open_run, stage


def test_a_staged_run_appears_when_it_is_published_or_never(
    tmp_path: Path, make_manifest: Callable[..., Manifest], commit_epoch: Callable[..., Any]
) -> None:
    root = tmp_path / "run"
    with stage(root, make_manifest(kind="batch", output_mode=None)) as writer:
        commit_epoch(writer, 0, 3)
        assert not root.exists()
        writer.publish()
        writer.publish()
    assert open_run(root).state() == "complete"
    before = open_run(root)
    with stage(root, make_manifest(kind="batch", output_mode=None), overwrite=True) as writer:
        assert open_run(root) == before
        writer.discard()
    assert open_run(root) == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    with pytest.raises(RunExists, match="already a run"):
        stage(root, make_manifest())
    with create(tmp_path / "stream", make_manifest()), pytest.raises(RunExists, match="is being written"):
        stage(tmp_path / "stream", make_manifest(), overwrite=True)
