"""Members of a cluster as child processes, each with a directory for its configuration and log; Lethe's daemons.

Every configured port is 0, so no other process can take a port between its choice and its use. The actual addresses
are read from the daemons' output.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from lethe.adapters.http_client import HttpCredentials, HttpFailed, get_json
from lethe.cluster.process import ChildProcess

START_LIMIT_S: Final = 60.0
POLL_S: Final = 0.05
ANY_PORT: Final = "PLAINTEXT://127.0.0.1:0"
_HTTP: Final = re.compile(r" is up[ ,].*?\b(https?://\S+:\d+)")
_LISTENER: Final = re.compile(r"broker agent \d+ is up at [A-Z_]+://(\S+):(\d+)")
_ROOT: Final = Path(__file__).parents[2]
_ANY_STATUS: Final = range(100, 600)
NO_CREDENTIALS: Final = HttpCredentials()
"""For HTTP servers that ask for no token and have no certificate."""


class DaemonFailed(Exception):
    """A daemon ended or missed a deadline; the message names it and holds the end of its log."""


class Member(ABC):
    """A process of a cluster. It keeps its directory between runs. Subclasses define when it is ready."""

    kind = "member"

    def __init__(self, number: int, directory: Path, process: ChildProcess) -> None:
        self.id: Final = number
        self.directory: Final = directory
        self.process: Final = process

    @property
    def name(self) -> str:
        """Kind and id: `broker 3`."""
        return self.process.name

    @property
    def log_file(self) -> Path:
        return self.process.log_file

    @property
    def pid(self) -> int | None:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.is_running

    def launch(self) -> None:
        """Write the configuration and start the process, without waiting."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.write_configuration()
        self.process.start()

    @abstractmethod
    def write_configuration(self) -> None:
        """Write it into the member's directory, which exists."""

    @abstractmethod
    async def is_ready(self) -> bool:
        """Return whether the member is in service."""

    async def start(self, limit_s: float = START_LIMIT_S) -> None:
        """Start it and wait until it is ready. Raises DaemonFailed."""
        self.launch()
        await self.wait_ready(limit_s)

    async def wait_ready(self, limit_s: float = START_LIMIT_S) -> None:
        """Wait until it is ready. Raises DaemonFailed."""
        await self.wait_until(self.is_ready, "ready", limit_s)

    async def wait_until(
        self, condition: Callable[[], Awaitable[bool]], what: str, limit_s: float, *, must_run: bool = True
    ) -> None:
        """Wait for the condition. Raises DaemonFailed at the deadline; with `must_run`, also if the process ends."""
        deadline = time.monotonic() + limit_s
        while not await condition():
            if must_run and not self.is_running:
                raise DaemonFailed(
                    f"{self.name} has ended with exit code {self.process.exit_code} before it was {what}; "
                    f"its log is {self.log_file}:\n{self.process.output_tail()}"
                )
            if time.monotonic() > deadline:
                raise DaemonFailed(
                    f"{self.name} is not {what} after {limit_s:g} s; its log is {self.log_file}:\n"
                    f"{self.process.output_tail()}"
                )
            await asyncio.sleep(POLL_S)

    async def kill(self) -> None:
        """Kill it with SIGKILL; its ZooKeeper session lives until it times out."""
        await self.process.kill()

    async def stop(self, limit_s: float = 15.0) -> int | None:
        """Send SIGTERM, then SIGKILL after the limit; return the exit code."""
        return await self.process.stop(limit_s)

    def pause(self) -> None:
        """Send SIGSTOP: connections stay open, requests stay unanswered."""
        self.process.pause()

    def resume(self) -> None:
        """Send SIGCONT."""
        self.process.resume()


class Daemon(Member):
    """A controller or an agent. A controller is ready when it leads or stands by, an agent when it is registered."""

    kind = "daemon"

    def __init__(
        self, number: int, directory: Path, properties: Mapping[str, str], http: HttpCredentials = NO_CREDENTIALS
    ) -> None:
        """`http`: what its HTTP server asks of clients."""
        self.journal_dir: Final = directory / "journal"
        self._http_credentials: Final = http
        self.config_file: Final = directory / "server.properties"
        self._http_url: str | None = None
        self.properties: dict[str, str] = {
            "broker.id": str(number),
            "lethe.http.port": "0",
            "lethe.journal.dir": str(self.journal_dir),
            **properties,
        }
        """Configuration of the next start."""
        process = ChildProcess(
            f"{self.kind} {number}",
            [sys.executable, "-m", "lethe", self.kind, str(self.config_file)],
            log_file=directory / f"{self.kind}.log",
            environment=_environment(os.environ),
        )
        super().__init__(number, directory, process)

    # --- life -----------------------------------------------------------------------------------------------------

    def write_configuration(self) -> None:
        write_properties(self.config_file, self.properties)
        self._http_url = None

    async def is_ready(self) -> bool:
        answer = await self.get("/readyz")
        return answer is not None and answer.get("ok") is True

    # --- asking ---------------------------------------------------------------------------------------------------

    @property
    def http_url(self) -> str | None:
        """Address of its HTTP server; None until it has printed it."""
        if self._http_url is None:
            found = _HTTP.search(self.process.output())
            self._http_url = found[1] if found else None
        return self._http_url

    async def get(self, path: str, limit_s: float = 5.0) -> dict[str, Any] | None:
        """Return the JSON object at this path, whatever the status; None without an answer."""
        url = self.http_url
        if url is None or not self.is_running:
            return None
        try:
            return dict(await get_json(url + path, self._http_credentials, int(limit_s * 1000), accepted=_ANY_STATUS))
        except HttpFailed:
            return None


class ControllerDaemon(Daemon):
    """`lethe controller`; a guest if it has no `listeners`."""

    kind = "controller"

    async def is_active(self) -> bool:
        """True if it reports that it leads."""
        state = await self.get("/state")
        return state is not None and state.get("role") == "active"


class BrokerDaemon(Daemon):
    """`lethe broker`, with its log directories inside its own directory."""

    kind = "broker"

    def __init__(
        self,
        number: int,
        directory: Path,
        log_dirs: int,
        properties: Mapping[str, str],
        http: HttpCredentials = NO_CREDENTIALS,
    ) -> None:
        self.log_dirs: Final = tuple(directory / f"logs-{index}" for index in range(log_dirs))
        own = {"log.dirs": ",".join(map(str, self.log_dirs)), "listeners": ANY_PORT}
        super().__init__(number, directory, {**own, **properties}, http)

    async def listener(self, limit_s: float = START_LIMIT_S) -> tuple[str, int]:
        """Wait for host and port of its first listener and return them. Raises DaemonFailed."""

        async def is_said() -> bool:
            return _LISTENER.search(self.process.output()) is not None

        await self.wait_until(is_said, "listening", limit_s)
        found = _LISTENER.search(self.process.output())
        assert found is not None
        return found[1], int(found[2])


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a Java properties file."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return our environment without variables that override the daemon's configuration; this Lethe's code comes first
    on its path."""
    kept = {name: value for name, value in environment.items() if not name.startswith(("KAFKA_", "LETHE_"))}
    path = environment.get("PYTHONPATH")
    kept["PYTHONPATH"] = f"{_ROOT}{os.pathsep}{path}" if path else str(_ROOT)
    kept["PYTHONSAFEPATH"] = "1"
    return kept
