"""The one builder of Spark sessions.

Settings that change results are fixed here: UTC, standard SQL errors, Parquet instants in microseconds. Settings that
only change speed are defaults that `conf` overrides. The JVM's output and its log go to one file, to read if a session
does not start. Where `spark-submit` has started this process, the JVM runs already, with the settings and the log that
`spark-submit` and Spark's own files name.

The JVM ends when the pipe from this process closes, and ignores SIGTERM and Ctrl-C: a service manager sends the signal
to all processes at once, and this process needs Spark to end in order.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext, __version__
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lethe.pipeline.class_archive import MAKES_ARCHIVE, option_for
from lethe.pipeline.jvm_names import cache_jvm_names

LOG_CONFIGURATION: Final = Path(__file__).with_name("log4j2.properties")
DRIVER_LOG: Final = "the driver's log"
"""Where Spark logs if `spark-submit` has started it."""
APP_NAME: Final = "lethe-pipeline"
SPARK_VERSION: Final = __version__

FIXED: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.variant.allowDuplicateKeys": "true",
}
"""Results depend on these; `conf` may not change them."""

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Notes for every column which line of Python made it: three calls into the JVM instead of one.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Nor which line of Java made it, and no text of every plan for a page that is not served.
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.adaptive.enabled": "true",
    # The JVM never compiles a method of more than 8,000 bytes of bytecode; Spark then makes smaller ones of a plan.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.cleaner.referenceTracking.cleanCheckpoints": "true",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "1",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "4g",
    SHUFFLE_PARTITIONS: "16",
    # The names of more than 32 days would be listed in a job of its own, with a task for each day.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}
"""For a driver and executors in one local process, which need no connections from outside."""
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
LOCAL: Final = "local"
"""How the masters begin whose executors are threads of the driver."""
_CLUSTER: Final[Mapping[str, str]] = {
    # Its cores come and go, so the tasks of a scan follow the bytes. There are at least as many as cores.
    "spark.sql.files.maxPartitionBytes": "16m",
    "spark.sql.files.openCostInBytes": "1m",
    # Each file of a table is looked up by its name: a task for each would take longer than the driver.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "128",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
}
"""For executors in other processes."""
FEW_PARTITIONS: Final = 8
MANY_PARTITIONS: Final = 2_000
PARTITION_BYTES: Final = 8 * 1024 * 1024
"""Of `controller_events`, for each partition after a shuffle on a cluster: about 400,000 lines, compressed."""
TASKS_OF_A_SCAN: Final = "spark.sql.files.minPartitionNum"
TASKS_PER_CORE: Final = 4
"""Of a scan of large files: their sizes differ, and so do the cores."""
SMALL_BYTES: Final = 64 * 1024 * 1024
"""Text up to this size is read by a session for small inputs."""
MEDIUM_BYTES: Final = 256 * 1024 * 1024
"""Text up to this size is read by a session for medium ones."""
_COMPILED_FAST: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Java's second compiler makes faster code, and needs more time for it than code saves that runs a second. The cache is
as large as with both compilers: a small one fills, and is then emptied and filled again."""
_SMALL: Final[Mapping[str, str]] = {
    # Nearly all time would go into generating and compiling code that runs once.
    JAVA_OPTIONS: f"{_COMPILED_FAST} -XX:+UseSerialGC -Xmn400m",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    SHUFFLE_PARTITIONS: "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.debug.maxToStringFields": "1",
    # A task costs more than the rows that another core would take from it.
    TASKS_OF_A_SCAN: "1",
}
"""For small inputs, where each query costs more than its rows."""
_MEDIUM: Final[Mapping[str, str]] = {
    JAVA_OPTIONS: f"{_COMPILED_FAST} -XX:+UseParallelGC",
    SHUFFLE_PARTITIONS: "4",
    "spark.sql.adaptive.enabled": "false",
    TASKS_OF_A_SCAN: "4",
}
"""For inputs whose rows pay for generated code, but not for compiling it twice."""
_LARGE: Final[Mapping[str, str]] = {
    # Ten times the usual calls: what runs for a few seconds alone is not compiled a second time. And less is compiled
    # into a method of what it calls: Spark's methods are large, and gain little from it.
    JAVA_OPTIONS: (
        "-XX:+UseParallelGC -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
        "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000 "
        "-XX:MaxInlineLevel=7 -XX:InlineSmallCode=1200 -XX:FreqInlineSize=150"
    )
}
"""For large inputs, and those of unknown size."""


_CAUSE: Final = re.compile(r"^(?:Exception in thread \"[^\"]*\" |Caused by: )(?:[\w.$]+: )?(.+)$")
_ERROR: Final = re.compile(r"^(?:Invalid|Unrecognized|Unsupported|Conflicting|Error(?: occurred)?)\b.*")


_ENDED: Final = re.compile(r"stopped SparkContext|SparkContext was shut down")
ENDED: Final = (
    f"Spark has ended the application: look whether its master is there, and runs Spark {SPARK_VERSION} as PySpark does"
)


class _JvmLaunch:
    """Whether the process that is being forked is the JVM. The fork hook below cannot be removed, so it checks this."""

    is_on = False


def _ignore_sigterm_in_jvm() -> None:
    if _JvmLaunch.is_on:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


os.register_at_fork(after_in_child=_ignore_sigterm_in_jvm)


class SessionUnavailable(Exception):
    """Spark did not start; the message names the cause and the log."""


class FixedSetting(ValueError):
    """An attempt to change a setting that results depend on."""


def build_session(
    master: str | None, conf: Mapping[str, str], *, log: Path | None, input_bytes: int | None = None
) -> SparkSession:
    """Return a session on `master` (local[*], spark://host:port, yarn, k8s://...), with its JVM as a child of this
    process; without `master`, one in the JVM that `spark-submit` has started, on its master.

    `conf` are Spark's own settings. `log`, which only a JVM of ours has, is appended to. `input_bytes`: about how much
    text will be read, if known: the session is made for its size. Raises FixedSetting and SessionUnavailable,
    the latter also if another session is alive.
    """
    if SparkSession.getActiveSession() is not None:
        raise SessionUnavailable("this process has a Spark session already")
    if master is None or log is None:
        return _submitted_session(conf, input_bytes)
    settings = settings_of(master, conf, input_bytes)
    sparks = SparkConf(loadDefaults=False).setMaster(master).setAppName(APP_NAME).setAll(list(settings.items()))
    options = f"-Dlethe.spark.log={log} -Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}"
    more = settings.get(JAVA_OPTIONS, "")
    if MAKES_ARCHIVE not in more and (shared := option_for(SPARK_VERSION)) is not None:
        options = f"{options} {shared}"
    sparks.set(JAVA_OPTIONS, f"{options} {more}".rstrip())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    log.parent.mkdir(parents=True, exist_ok=True)
    before = log.stat().st_size if log.exists() else 0
    try:
        with log.open("ab") as output:
            started = SparkContext._gateway  # noqa: SLF001 - a JVM outlives its session, and serves the next one
            with _children_ignore_sigterm(), _utf8_locale():
                gateway = started or launch_gateway(sparks, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
    except PySparkException as error:
        raise SessionUnavailable(
            f"Spark did not start ({error}); its output is in {log}{_log_cause(log, before)}"
        ) from error
    except OSError as error:
        raise SessionUnavailable(f"Spark did not start on {master}: {error}; its output is in {log}") from error
    return _session(gateway, sparks, log)


def fit_shuffles(spark: SparkSession, lake_bytes: Callable[[], int]) -> None:
    """On a cluster, let shuffles have as many partitions as so much of `controller_events` needs, unless the
    configuration has a number. Spark joins small partitions itself, but not those that are kept in memory."""
    if not spark.sparkContext.getConf().contains(SHUFFLE_PARTITIONS):
        spark.conf.set(SHUFFLE_PARTITIONS, str(shuffle_partitions(lake_bytes())))


def shuffle_partitions(lake_bytes: int) -> int:
    """Return how many partitions a shuffle of so much of `controller_events` needs on a cluster."""
    return min(MANY_PARTITIONS, max(FEW_PARTITIONS, lake_bytes // PARTITION_BYTES))


def is_local(spark: SparkSession) -> bool:
    """Return whether the driver's process is the only executor."""
    return str(spark.sparkContext.master).startswith(LOCAL)


def _submitted_session(conf: Mapping[str, str], input_bytes: int | None) -> SparkSession:
    gateway = launch_gateway()  # type: ignore[no-untyped-call] # connects to the JVM that the environment names
    given = {**dict(SparkConf(_jvm=gateway.jvm).getAll()), **conf}
    # spark-defaults.conf speaks of all applications: what it says of fixed settings is no mistake.
    free = {name: value for name, value in given.items() if name not in FIXED}
    settings = settings_of(given["spark.master"], free, input_bytes)
    sparks = SparkConf(loadDefaults=False, _jvm=gateway.jvm).setAll(list(settings.items()))
    return _session(gateway, sparks, DRIVER_LOG)


def _session(gateway: Any, sparks: SparkConf, log: object) -> SparkSession:
    """Return a session with these settings in the JVM of the gateway. Raises SessionUnavailable."""
    master = sparks.get("spark.master", "")
    try:
        context = SparkContext(conf=sparks, gateway=gateway)
        version = context.version
        if _release(version) != _release(SPARK_VERSION):
            context.stop()
            raise SessionUnavailable(
                f"the Spark of {os.environ.get('SPARK_HOME', 'this process')} is {version}, and the PySpark of "
                f"{sys.executable} is {SPARK_VERSION}: install PySpark {version} there, or unset SPARK_HOME"
            )
        cache_jvm_names(context)
        session = SparkSession(context)
    except SessionUnavailable:
        raise
    except Exception as error:  # py4j has classes of its own for what the JVM throws
        why = ENDED if is_ended(error) else _java_message(error)
        raise SessionUnavailable(f"Spark did not start on {master}: {why}; its output is in {log}") from error
    if is_local(session) and not sparks.contains(TASKS_OF_A_SCAN):
        session.conf.set(TASKS_OF_A_SCAN, str(TASKS_PER_CORE * context.defaultParallelism))
    fit_shuffles(session, lambda: 0)
    return session


def is_ended(error: Exception) -> bool:
    """Return whether Spark has ended the application while it was in use."""
    return _ENDED.search(str(error)) is not None


def _release(version: str) -> str:
    """Return the three numbers of a version, which vendors follow by others of their own."""
    return ".".join(version.split(".")[:3]).partition("-")[0]


def settings_of(master: str, conf: Mapping[str, str], input_bytes: int | None = None) -> dict[str, str]:
    """Return the settings of a session on `master` for about this much text. Raises FixedSetting if `conf` changes a
    fixed one."""
    for name, value in FIXED.items():
        if conf.get(name, value) != value:
            raise FixedSetting(f"{name} is {value} here, because results depend on it; leave it out")
    of_size = _of_size(input_bytes)
    if master.startswith(LOCAL):
        of_master = {**_LOCAL, **of_size}
    else:
        # Its heaps and compilers are its own.
        of_master = {**_CLUSTER, **{name: value for name, value in of_size.items() if name != JAVA_OPTIONS}}
    return {**DEFAULTS, **of_master, **conf, **FIXED}


def _of_size(input_bytes: int | None) -> Mapping[str, str]:
    if input_bytes is None or input_bytes > MEDIUM_BYTES:
        return _LARGE
    return _SMALL if input_bytes <= SMALL_BYTES else _MEDIUM


@contextlib.contextmanager
def _utf8_locale() -> Iterator[None]:
    """Set a UTF-8 locale under LC_ALL=C, where Java finds only files with ASCII names."""
    before = os.environ.get("LC_ALL")
    if before not in ("C", "POSIX"):
        yield
        return
    os.environ["LC_ALL"] = "C.UTF-8"
    try:
        yield
    finally:
        os.environ["LC_ALL"] = before


@contextlib.contextmanager
def _children_ignore_sigterm() -> Iterator[None]:
    _JvmLaunch.is_on = True
    try:
        yield
    finally:
        _JvmLaunch.is_on = False


def _log_cause(log: Path, begin: int) -> str:
    """Return the cause from the JVM's output since `begin`, as text to show."""
    with log.open("rb") as file:
        file.seek(begin)
        said = error_cause(file.read().decode(errors="replace"))
    return f", and says: {said}" if said else ""


def error_cause(text: str) -> str | None:
    """Return the innermost cause of a JVM's last error, else the first line with an error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    thrown = [found[1] for line in lines if (found := _CAUSE.match(line))]
    told = [line for line in lines if _ERROR.match(line)]
    return (thrown[-1:] or told[:1] or lines[-1:] or [None])[0]


def _java_message(error: Exception) -> str:
    """Return the first line of Java's message, without the line about the call."""
    lines = [line.removeprefix(": ").strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("An error occurred while calling")]
    return (told or lines or [type(error).__name__])[0]
