"""The page about the portable subset says what its tables say."""

from pathlib import Path

from whence.duck.document import page

PAGE = Path(__file__).parents[2] / "docs" / "portable-subset.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m whence.duck.document > docs/portable-subset.md"
