"""For the tests on Spark: nothing that a test registered or cached reaches the next one."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "spark" not in request.fixturenames:
        return
    spark = request.getfixturevalue("spark")
    spark.catalog.clearCache()
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)
