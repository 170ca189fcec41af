"""A limit for the time in which a cluster has no executor for a job.

Spark waits for executors without end, and says so in its log alone. A thread looks at the application while it runs:

    executors   jobs    for         then
    some                            all is well
    none        none                dynamic allocation may have released them: all is well
    none        some    NOTICE_S    the caller is told once
    none        some    the limit   all jobs are cancelled, and NoExecutors is raised in place of Spark's error

`yarn` and `k8s` may also let the start of the session wait, which this does not see.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from pyspark.sql import SparkSession

from lethe.pipeline.session import is_local

NOTICE_S: Final = 15.0
"""After so long Spark's log has its first warning."""
POLL_S: Final = 1.0


class NoExecutors(Exception):
    """The cluster gave no executor within the limit; the message says what was asked for and what to do."""


class Application(Protocol):
    """What a cluster runs for this process."""

    def has_executors(self) -> bool: ...
    def has_jobs(self) -> bool: ...
    def cancel_jobs(self) -> None: ...


class ExecutorWatch:
    """Looks at an application from its own thread, between `__enter__` and `__exit__`. `lack` describes what is
    missing; without `limit_s` the wait has no end."""

    def __init__(
        self,
        application: Application,
        lack: str,
        on_wait: Callable[[str], object],
        limit_s: float | None,
        *,
        poll_s: float = POLL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._application = application
        self._lack = lack
        self._on_wait = on_wait
        self._limit_s = limit_s
        self._poll_s = poll_s
        self._clock = clock
        self._is_over = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="executors", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._ended.set()
        self._thread.join()
        if error is not None and self._is_over:
            raise NoExecutors(
                f"{self._lack} for {self._limit_s:g} s: start workers or end other applications, ask for less "
                "(--conf spark.executor.memory=1g), or wait longer (--wait SECONDS)"
            ) from error

    def _watch(self) -> None:
        since_s: float | None = None
        is_told = False
        while not self._ended.wait(self._poll_s):
            if self._application.has_executors() or not self._application.has_jobs():
                since_s = None
                continue
            now_s = self._clock()
            since_s = now_s if since_s is None else since_s
            waited_s = now_s - since_s
            if not is_told and waited_s >= NOTICE_S:
                is_told = True
                self._on_wait(f"waiting: {self._lack}")
            if self._limit_s is not None and waited_s >= self._limit_s:
                self._is_over = True
                self._application.cancel_jobs()
                return


@contextlib.contextmanager
def watched_executors(
    spark: SparkSession, on_wait: Callable[[str], object], limit_s: float | None = None
) -> Iterator[None]:
    """Limit how long the session's jobs wait for executors; a local session has one. `on_wait` is told once that they
    wait. Raises NoExecutors."""
    if is_local(spark):
        yield
        return
    conf = spark.sparkContext.getConf()
    memory, cores = (conf.get(f"spark.executor.{what}", default) for what, default in (("memory", "1g"), ("cores", "")))
    wanted = f"spark.executor.memory={memory}{f', spark.executor.cores={cores}' if cores else ''}"
    lack = (
        f"{spark.sparkContext.master} has no executor for this application ({wanted}); workers may be busy or too small"
    )
    with ExecutorWatch(_SparkApplication(spark), lack, on_wait, limit_s):
        yield


class _SparkApplication:
    """The application of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._java: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001 - PySpark does not count executors

    def has_executors(self) -> bool:
        return int(self._java.getExecutorMemoryStatus().size()) > 1  # the driver is one of them

    def has_jobs(self) -> bool:
        return bool(self._context.statusTracker().getActiveJobsIds())

    def cancel_jobs(self) -> None:
        self._context.cancelAllJobs()
