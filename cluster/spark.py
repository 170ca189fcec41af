"""A standalone Spark cluster as child processes, from the jars of PySpark: a master and its workers.

Theory of operation. Each daemon is one JVM that leads a process group; a worker's executors belong to its group and end
with it. The master chooses its port and logs it; a worker counts once the master has logged its registration. All ports
are on the loopback address. All processes end with the context, or with this process: see `cluster.process`.

    with SparkCluster(directory, SparkSettings(workers=2)) as spark:
        submit_to(spark.master)                       # spark://127.0.0.1:port
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from lethe.cluster.java import JavaUnusable, java_executable, pyspark_jars
from lethe.cluster.process import ChildProcess

_Found = TypeVar("_Found")
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_HOST: Final = "127.0.0.1"
_NEEDED_BY: Final = "the Spark cluster"
_ADDRESS: Final = re.compile(r"Starting Spark master at (spark://[\w.\-]+:\d+)")
_REGISTERED: Final = "Registering worker"
_OPENED: Final = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action"),
    "sun.util.calendar",
)
"""Packages of java.base that Spark's own launcher opens too."""


class SparkStartFailed(Exception):
    """The cluster cannot be started; the message says why, and where its output is."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Sizes. Memory is what a worker may give to executors; the daemons themselves need little."""

    workers: int = 2
    cores_per_worker: int = 1
    memory_per_worker_mb: int = 2048
    daemon_heap_mb: int = 256
    start_timeout_s: float = 120.0


class SparkCluster:
    """One master and its workers; work directories and logs are in `directory`. Not thread-safe."""

    def __init__(self, directory: Path, settings: SparkSettings | None = None) -> None:
        self.settings: Final = settings or SparkSettings()
        self.directory: Final = directory
        self.master = ""
        """`spark://host:port` after the start."""
        self._daemons: list[ChildProcess] = []

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the master, then of the workers."""
        return tuple(pid for daemon in self._daemons if (pid := daemon.pid) is not None)

    def start(self) -> None:
        """Start all daemons, and wait until every worker has registered. Raises SparkStartFailed."""
        master = self._launch("spark-master", _MASTER, "--port", "0")
        found = self._await(master, lambda output: _ADDRESS.search(output))
        self.master = found[1]
        for number in range(1, self.settings.workers + 1):
            limits = (
                "--cores",
                str(self.settings.cores_per_worker),
                "--memory",
                f"{self.settings.memory_per_worker_mb}M",
            )
            work = self.directory / f"worker-{number}"
            self._launch(f"spark-worker-{number}", _WORKER, *limits, "--work-dir", str(work), self.master)
        self._await(master, lambda output: output.count(_REGISTERED) >= self.settings.workers)

    def close(self) -> None:
        """Kill all daemons, which have no state to save."""
        for daemon in reversed(self._daemons):
            daemon.close()
        self._daemons.clear()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _launch(self, name: str, main_class: str, *arguments: str) -> ChildProcess:
        try:
            java = java_executable(_NEEDED_BY)
            jars = pyspark_jars("spark-core_2.13", _NEEDED_BY, "name a master of your own")
        except JavaUnusable as error:
            raise SparkStartFailed(str(error)) from error
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        flags = [
            f"-Xmx{self.settings.daemon_heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:+IgnoreUnrecognizedVMOptions",
            *opened,
        ]
        address = ("--host", _HOST, "--webui-port", "0")
        command = [java, *flags, "-cp", f"{jars}/*", main_class, *address, *arguments]
        environment = {
            **os.environ,
            "SPARK_HOME": str(jars.parent),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_SCALA_VERSION": "2.13",
        }
        daemon = ChildProcess(name, command, log_file=self.directory / f"{name}.log", environment=environment)
        self._daemons.append(daemon)
        daemon.start()
        return daemon

    def _await(self, master: ChildProcess, found: Callable[[str], _Found | None]) -> _Found:
        """Poll the master's output until `found` returns something; return that."""
        deadline = time.monotonic() + self.settings.start_timeout_s
        while time.monotonic() < deadline:
            what = found(master.output())
            if what:
                return what
            for daemon in self._daemons:
                if not daemon.is_running:
                    raise SparkStartFailed(
                        f"{daemon.name} ended while starting; its output is in {daemon.log_file}:\n"
                        f"{daemon.output_tail()}"
                    )
            time.sleep(0.05)
        raise SparkStartFailed(
            f"the Spark cluster was not ready within {self.settings.start_timeout_s:g} s; the master's output is in "
            f"{master.log_file}:\n{master.output_tail()}"
        )
