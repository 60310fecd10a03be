"""The Spark session that whence works in: the user's own where there is one, else a small local one.

Used by the demo, the tests, the benches, and by questions that need Spark when nothing else runs. A session that
was there already is used as it is: no setting of it is changed, and `stop` leaves it alone. This module builds no
cluster sessions; whoever has a cluster makes the session there and whence uses it.
"""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from whence.errors import ConnectSession, JavaMissing, SparkMissing
from whence.spark import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST = (4, 0)

_OPTIONS = "spark.driver.extraJavaOptions"

_started: "SparkSession | None" = None


def session(app_name: str = "whence", cores: int = 2, **conf: object) -> "SparkSession":
    """The active classic session, or a local one with `cores` threads and the given settings over ours.

    Settings have dots in their names: `session(**{"spark.sql.shuffle.partitions": 4})`. They are for the session
    that this call starts; one that is active already keeps its own.
    """
    global _started
    version = spark_version()
    _refuse_connect()
    found = active()
    if found is not None:
        return found
    from pyspark.sql import SparkSession

    runtime = java.find(spark=version)
    builder = SparkSession.builder.appName(app_name).master(f"local[{cores}]")
    for name, value in _settings(conf).items():
        builder = builder.config(name, value)
    from pyspark.errors import PySparkRuntimeError

    try:
        with _environment(runtime):
            _started = builder.getOrCreate()
    except PySparkRuntimeError as failed:
        if "JAVA_GATEWAY_EXITED" not in str(failed):
            raise
        raise JavaMissing(
            "Java ended before Spark had started",
            detail=f"{runtime.program} is Java {runtime.version}, found by {runtime.origin}; what it said stands above",
            hint="choose another with JAVA_HOME, or check the settings given to session()",
        ) from None
    return _started


def active() -> "SparkSession | None":
    """The classic session that is active in this thread or was made last in this process, if it still runs."""
    spark_version()
    from pyspark.sql import SparkSession

    here = SparkSession.getActiveSession()
    # A thread that Spark or a server started has no active session; the process still has one.
    for found in (here, getattr(SparkSession, "_instantiatedSession", None), _started):
        if isinstance(found, SparkSession) and getattr(found.sparkContext, "_jsc", None) is not None:
            return found
    return None


def stop() -> None:
    """Stop the session that `session` started, and its streams; one that the user made goes on."""
    global _started
    if _started is not None and getattr(_started.sparkContext, "_jsc", None) is not None:
        for query in _started.streams.active:
            query.stop()
        _started.stop()
    _started = None


def spark_version() -> tuple[int, int]:
    """The installed PySpark's version (4, 3); SparkMissing where there is none or one too old."""
    try:
        import pyspark
    except ImportError as missing:
        raise SparkMissing(
            "this needs Spark, and PySpark is not installed",
            detail=f"import pyspark: {missing}",
            hint="pip install 'whence[spark]'",
        ) from None
    major, minor = (int(part) for part in pyspark.__version__.split(".")[:2])
    if (major, minor) < OLDEST:
        raise SparkMissing(
            f"PySpark {pyspark.__version__} is too old",
            detail="whence supports PySpark 4.0 to 4.3",
            hint="pip install 'whence[spark]'",
        )
    return major, minor


def _refuse_connect() -> None:
    # Asked only of a module that is loaded: importing it needs grpcio, which classic users do not have.
    module = sys.modules.get("pyspark.sql.connect.session")
    remote = module.SparkSession.getActiveSession() if module is not None else None
    address = os.environ.get("SPARK_REMOTE")
    if remote is not None or address or os.environ.get("SPARK_API_MODE", "").lower() == "connect":
        raise ConnectSession(
            "whence needs a classic Spark session, and the active one is Spark Connect",
            detail="whence reads the query plan inside the JVM, which Spark Connect keeps out of reach"
            + (f"; SPARK_REMOTE is {address}" if address else ""),
            hint="SparkSession.builder.master('local[2]').getOrCreate(), without remote() and SPARK_REMOTE",
        )


def _settings(conf: dict[str, object]) -> dict[str, object]:
    """Ours, and over them the caller's; where a setting is a list of options, ours and then the caller's."""
    warehouse = tempfile.mkdtemp(prefix="whence-warehouse-")
    atexit.register(shutil.rmtree, warehouse, ignore_errors=True)
    log = Path(__file__).with_name("log4j2.properties").as_uri()
    options = f"-Dlog4j2.configurationFile={log} -Duser.timezone=UTC {conf.get(_OPTIONS, '')}"
    ours: dict[str, object] = {
        # Two per core is for clusters; 200 (Spark's own) makes each small question take seconds. One would hide bugs
        # that only rows on different partitions show.
        "spark.sql.shuffle.partitions": 2,
        # Answers and stored times must not depend on where the machine stands.
        "spark.sql.session.timeZone": "UTC",
        # Local means local: no port is open to the network, and no lookup of the machine's own name can fail.
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # The page costs a second at start and a port that may be taken.
        "spark.ui.enabled": "false",
        # Progress bars on stderr mix with what whence itself says there.
        "spark.ui.showConsoleProgress": "false",
        # In local mode the driver does all the work, and Spark's default of 1 GB is meant for one that does none.
        "spark.driver.memory": "2g",
        # Python data sources ask this setting, functions ask PYSPARK_PYTHON; both default to `python3` on PATH, which
        # in an environment that is not activated is another Python, without the user's packages.
        "spark.pyspark.python": _worker_python(),
        # Else a folder spark-warehouse appears wherever the user stands.
        "spark.sql.warehouse.dir": warehouse,
    }
    # The log must be quiet from the first line on, before any call could set its level; and Java's own time zone
    # shows in a few casts to text.
    return ours | conf | {_OPTIONS: options.rstrip()}


def _worker_python() -> str:
    return os.environ.get("PYSPARK_PYTHON") or sys.executable


@contextmanager
def _environment(runtime: java.Java) -> Iterator[None]:
    """What Spark reads from the environment while it starts; afterwards the environment is as it was."""
    wanted = {
        "JAVA_HOME": str(java.home(runtime)),
        "PYSPARK_PYTHON": _worker_python(),
        # Without it Spark looks up the machine's own name, which fails in some containers and is slow in others.
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
