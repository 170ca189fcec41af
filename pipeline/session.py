"""The one builder of Spark sessions.

Settings that change results are fixed here: UTC, standard SQL errors, Parquet instants in microseconds. Settings that
only change speed are defaults that `conf` overrides. The JVM's output and its log go to one file, to read if a session
does not start.

The JVM ends when the pipe from this process closes, and ignores SIGTERM and Ctrl-C: a service manager sends the signal
to all processes at once, and this process needs Spark to end in order.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext, __version__
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lethe.pipeline.jvm_names import cache_jvm_names

LOG_CONFIGURATION: Final = Path(__file__).with_name("log4j2.properties")
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
_LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "16",
}
"""For a driver and executors in one local process, which need no connections from outside."""
TASKS_OF_A_SCAN: Final = "spark.sql.files.minPartitionNum"
TASKS_PER_CORE: Final = 4
"""Of a scan of large files: their sizes differ, and so do the cores."""
SMALL_BYTES: Final = 64 * 1024 * 1024
"""Text up to this size is read by a local session for small inputs."""
_SMALL: Final[Mapping[str, str]] = {
    # Nearly all time would go into generating and compiling code that runs once.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.debug.maxToStringFields": "1",
}
"""For small inputs, where each query costs more than its rows."""


_CAUSE: Final = re.compile(r"^(?:Exception in thread \"[^\"]*\" |Caused by: )(?:[\w.$]+: )?(.+)$")
_ERROR: Final = re.compile(r"^(?:Invalid|Unrecognized|Unsupported|Conflicting|Error(?: occurred)?)\b.*")


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


def build_session(master: str, conf: Mapping[str, str], *, log: Path, input_bytes: int | None = None) -> SparkSession:
    """Return a session on `master` (local[*], spark://host:port, yarn, k8s://...), with its JVM as a child of this
    process.

    `conf` are Spark's own settings. `log` is appended to. `input_bytes`: about how much text will be read, if known: a
    local session for little is another one. Raises FixedSetting and SessionUnavailable, the latter also
    if another session is alive.
    """
    settings = settings_of(master, conf, input_bytes)
    if SparkSession.getActiveSession() is not None:
        raise SessionUnavailable("this process has a Spark session already")
    sparks = SparkConf(loadDefaults=False).setMaster(master).setAppName(APP_NAME).setAll(list(settings.items()))
    options = f"-Dlethe.spark.log={log} -Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}"
    more = settings.get("spark.driver.extraJavaOptions", "")
    sparks.set("spark.driver.extraJavaOptions", f"{options} {more}".rstrip())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    log.parent.mkdir(parents=True, exist_ok=True)
    before = log.stat().st_size if log.exists() else 0
    try:
        with log.open("ab") as output:
            started = SparkContext._gateway  # noqa: SLF001 - a JVM outlives its session, and serves the next one
            with _children_ignore_sigterm(), _utf8_locale():
                gateway = started or launch_gateway(sparks, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
        context = SparkContext(conf=sparks, gateway=gateway)
        cache_jvm_names(context)
        session = SparkSession(context)
        if TASKS_OF_A_SCAN not in settings:
            session.conf.set(TASKS_OF_A_SCAN, str(TASKS_PER_CORE * context.defaultParallelism))
        return session
    except PySparkException as error:
        raise SessionUnavailable(
            f"Spark did not start ({error}); its output is in {log}{_log_cause(log, before)}"
        ) from error
    except Exception as error:  # py4j has classes of its own for what the JVM throws
        raise SessionUnavailable(
            f"Spark did not start on {master}: {_java_message(error)}; its output is in {log}"
        ) from error


def settings_of(master: str, conf: Mapping[str, str], input_bytes: int | None = None) -> dict[str, str]:
    """Return the settings of a session on `master` for about this much text. Raises FixedSetting if `conf` changes a
    fixed one."""
    for name, value in FIXED.items():
        if conf.get(name, value) != value:
            raise FixedSetting(f"{name} is {value} here, because results depend on it; leave it out")
    local: Mapping[str, str] = {}
    if master.startswith("local"):
        is_small = input_bytes is not None and input_bytes <= SMALL_BYTES
        local = {**_LOCAL, **_SMALL} if is_small else _LOCAL
    return {**DEFAULTS, **local, **conf, **FIXED}


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
