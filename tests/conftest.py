"""What all tests share: one Spark session, the clock in UTC, and how many cases hypothesis generates.

No test data and no helpers are here; they stand beside the tests that use them.
"""

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Python turns Spark's timestamps into local times; tests compare them.
os.environ["TZ"] = "UTC"
time.tzset()

# No deadline: the first example that touches Spark or DuckDB is slow. Derandomized: whoever runs `make test` on the
# same commit gets the same result; new cases are the nightly run's work.
hypothesis.settings.register_profile("dev", max_examples=60, deadline=None, derandomize=True)
hypothesis.settings.register_profile(
    "nightly",
    max_examples=2_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
hypothesis.settings.load_profile("nightly" if os.environ.get("WHENCE_NIGHTLY") == "1" else "dev")


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The one Spark session of a test run: local[2], two shuffle partitions, UTC, no page."""
    from whence.spark import session

    yield session.session("whence-tests", cores=2)
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A stream that a test module left running would take cores from the next module's tests."""
    if item.get_closest_marker("spark") is None:
        return
    if nextitem is not None and item.path == nextitem.path:
        return
    from whence.spark import session

    running = session.active()
    for query in running.streams.active if running is not None else ():
        query.stop()
