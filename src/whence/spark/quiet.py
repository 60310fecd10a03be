"""Silence for errors of Spark that whence turns into answers or into errors of its own.

PySpark logs every error it raises, with its whole trace. Its loggers must be got as PySpark gets them: a plain one of
the same name would be met by PySpark later, and fail there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing is logged about errors as long as the block runs."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
