"""docs/coverage.md says what lift's tables say."""

from pathlib import Path

from whence.spark.document import NOTES, page
from whence.spark.lift_operators import LIFTED

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m whence.spark.document > docs/coverage.md"


def test_each_note_is_about_an_operator_that_is_lifted() -> None:
    assert set(NOTES) <= set(LIFTED)
