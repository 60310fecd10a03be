"""Silence about Spark's errors ends with the block, and leaves PySpark's own loggers in their place."""

import logging
from typing import Any

import pytest

from whence.spark.quiet import LOGGERS, quiet


def test_loggers_are_pysparks_own_and_speak_again(spark: Any) -> None:
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    with quiet():
        assert all(logging.getLogger(name).disabled for name in LOGGERS)
    for name in LOGGERS:
        assert isinstance(logging.getLogger(name), PySparkLogger)
        assert not logging.getLogger(name).disabled
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        spark.sql("select 1 / 0").collect()
