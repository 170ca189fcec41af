"""A real ZooKeeper as a child process, from the jars of PySpark.

Theory of operation. The jars are found without importing PySpark. The JVM runs in its own session, so Ctrl-C does not
reach it. It ends with its context, with `close()`, at the interpreter's exit, and when the thread that started it ends:
see `cluster.process`. So start it from a thread that lives long enough, such as the main one. "Ready" means that the
server on the port reports our data directory: another server may hold the port until ours has failed to bind it.

    with EmbeddedZooKeeper() as zookeeper:            # or: async with
        connect(zookeeper.connect_string)

The data survive `stop`, `kill` and `start`, and the port stays the same; `close` removes a temporary directory.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from lethe.cluster.java import JavaUnusable, java_executable, pyspark_jars
from lethe.cluster.process import ChildProcess
from lethe.cluster.zookeeper_security import OPEN, ServerSecurity

_NAME: Final = "the embedded ZooKeeper"
_MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_PORT_TAKEN: Final = "Address already in use"


class ZooKeeperStartFailed(Exception):
    """The embedded ZooKeeper cannot be started; the message names the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """How to run it. `port` 0 means any free one; `data_dir` None means a temporary directory."""

    data_dir: Path | None = None
    port: int = 0
    host: str = "127.0.0.1"
    tick_time_ms: int = 500
    """Interval of session checks. Session timeouts are limited to between 2 and 120 ticks."""
    heap_mb: int = 512
    """Default of Kafka's zookeeper-server-start.sh. With half of it, 100,000 partitions end in full collections."""
    durable: bool = False
    """True syncs each transaction to disk before the answer, as a production server does."""
    jvm_flags: tuple[str, ...] = ()
    security: ServerSecurity = OPEN
    """TLS on a second port, and users that log in by SASL; none of both by default."""
    jars: Path | None = None
    """Directory with the jars of another ZooKeeper than PySpark's, such as a Kafka release."""
    start_timeout_s: float = 60.0


class EmbeddedZooKeeper:
    """One standalone server. Not thread-safe. All methods block unless they are coroutines."""

    def __init__(self, settings: ZooKeeperSettings | None = None) -> None:
        self.settings: Final = settings or ZooKeeperSettings()
        self.data_dir: Final = self.settings.data_dir or Path(tempfile.mkdtemp(prefix="lethe-zookeeper-"))
        self.port = self.settings.port
        """Port that it listens on; 0 before the first start if none was chosen."""
        self.secure_port = 0
        """Port of TLS; 0 before the first start, and without TLS."""
        self._process: list[ChildProcess] = []
        """The JVM that was started last; empty before the first start."""
        temporary = self.data_dir if self.settings.data_dir is None else None
        self._finalizer = weakref.finalize(self, _clean_up, self._process, temporary)

    # --- what it is -----------------------------------------------------------------------------------------------

    @property
    def connect_string(self) -> str:
        """`host:port`, for `zookeeper.connect`."""
        return f"{self.settings.host}:{self.port}"

    @property
    def secure_connect_string(self) -> str:
        """`host:port` of TLS."""
        return f"{self.settings.host}:{self.secure_port}"

    @property
    def pid(self) -> int | None:
        """The JVM's process id while it runs."""
        return self._process[0].pid if self._process else None

    @property
    def is_running(self) -> bool:
        """True while there is a JVM, paused or not."""
        return bool(self._process) and self._process[0].is_running

    @property
    def log_file(self) -> Path:
        """File of the JVM's output."""
        return self.data_dir / "zookeeper.log"

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it, on the same port as before, and wait until it answers. Raises ZooKeeperStartFailed."""
        for _ in self._attempts():
            if self._wait_until_ready(*self._launch()):
                return
        raise self._failure()

    async def start_async(self) -> None:
        """Like `start`, without blocking the event loop."""
        await asyncio.to_thread(_java, self.settings.jars)
        for _ in self._attempts():
            # Launched from this thread: the kernel ends the JVM with the thread that launched it.
            if await asyncio.to_thread(self._wait_until_ready, *self._launch()):
                return
        raise self._failure()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Send SIGTERM, then SIGKILL after the timeout. It may have ended already."""
        for process in self._process:
            process.end(timeout_s)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        for process in self._process:
            process.close()

    def pause(self) -> None:
        """Send SIGSTOP and wait for its effect: connections stay open, requests stay unanswered."""
        self._started().pause()

    def resume(self) -> None:
        """Send SIGCONT."""
        self._started().resume()

    def close(self) -> None:
        """Stop it and remove a temporary data directory."""
        self.stop()
        self._finalizer()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start_async()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    # --- how ------------------------------------------------------------------------------------------------------

    def _attempts(self) -> range:
        """Return one attempt; several if we choose the port, because another process may take it first."""
        if self.is_running:
            raise ZooKeeperStartFailed(f"a ZooKeeper of this object runs already on {self.connect_string}")
        return range(1 if self.port else 5)

    def _started(self) -> ChildProcess:
        if not self._process:
            raise ProcessLookupError(f"{_NAME} is not running")
        return self._process[0]

    def _wait_until_ready(self, process: ChildProcess, port: int) -> bool:
        """Return False if the port was taken. Raises ZooKeeperStartFailed if it does not answer for another reason."""
        deadline = time.monotonic() + self.settings.start_timeout_s
        while time.monotonic() < deadline:
            if not process.is_running:
                if _PORT_TAKEN in process.output_tail():
                    return False
                raise self._failure()
            if f"dataDir={self.data_dir / 'data'}" in four_letter_word(self.settings.host, port, "conf"):
                self.port = port
                return True
            time.sleep(0.05)
        self.kill()
        raise ZooKeeperStartFailed(
            f"ZooKeeper did not answer on port {port} within {self.settings.start_timeout_s:g} s; its output is in "
            f"{self.log_file}:\n{process.output_tail()}"
        )

    def _launch(self) -> tuple[ChildProcess, int]:
        java, jars = _java(self.settings.jars)
        port = self.port or _free_port(self.settings.host)
        if self.settings.security.tls is not None and not (self.port and self.secure_port):
            self.secure_port = _free_port(self.settings.host)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        config = self.data_dir / "zoo.cfg"
        config.write_text(self._configuration(port))
        command = [java, *self._jvm_flags(), "-cp", f"{jars}/*", _MAIN_CLASS, str(config)]
        process = ChildProcess(_NAME, command, log_file=self.log_file)
        process.start()
        self._process[:] = [process]
        return process, port

    def _jvm_flags(self) -> list[str]:
        flags = [f"-Xmx{self.settings.heap_mb}m", "-Xshare:auto", "-XX:+UseSerialGC", "-Djava.awt.headless=true"]
        if not self.settings.durable:
            flags += ["-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=4096"]
        return [*flags, *self.settings.security.jvm_flags(self.data_dir), *self.settings.jvm_flags]

    def _configuration(self, port: int) -> str:
        tick = self.settings.tick_time_ms
        return (
            f"tickTime={tick}\n"
            f"minSessionTimeout={2 * tick}\n"
            f"maxSessionTimeout={120 * tick}\n"
            f"dataDir={self.data_dir / 'data'}\n"
            f"clientPort={port}\n"
            f"clientPortAddress={self.settings.host}\n"
            "admin.enableServer=false\n"
            "4lw.commands.whitelist=*\n"
            "maxClientCnxns=0\n"
            "autopurge.purgeInterval=1\n"
            f"{self.settings.security.lines(self.settings.host, self.secure_port)}"
        )

    def _failure(self) -> ZooKeeperStartFailed:
        tail = self._process[0].output_tail() if self._process else ""
        if _PORT_TAKEN in tail:
            return ZooKeeperStartFailed(
                f"ZooKeeper cannot listen on {self.settings.host}:{self.settings.port or self.port}: the port is in "
                "use. Stop what listens there or choose another port."
            )
        return ZooKeeperStartFailed(f"ZooKeeper ended while starting; its output is in {self.log_file}:\n{tail}")


def _clean_up(started: list[ChildProcess], temporary: Path | None) -> None:
    """Kill the JVM and remove the directory, at the latest when the interpreter exits."""
    for process in started:
        process.close()
    if temporary is not None:
        shutil.rmtree(temporary, ignore_errors=True)


def four_letter_word(host: str, port: int, word: str, timeout_s: float = 2.0) -> str:
    """Return the server's answer to `srvr`, `mntr`, ...; empty if there is none."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(word.encode())
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
            return b"".join(parts).decode(errors="replace")
    except OSError:
        return ""


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def _java(jars: Path | None) -> tuple[str, Path]:
    """Return Java and the directory of jars. Raises ZooKeeperStartFailed."""
    try:
        java = java_executable(_NAME)
        return java, jars or pyspark_jars("zookeeper", _NAME, "connect to a ZooKeeper of your own")
    except JavaUnusable as error:
        raise ZooKeeperStartFailed(str(error)) from error
