"""For the tests on Spark: nothing that a test registered or cached reaches the next one."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if request.node.get_closest_marker("spark") is None:
        return
    from whence.spark import session

    spark = session.active()
    if spark is None:
        return
    spark.catalog.clearCache()
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)
