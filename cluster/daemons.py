"""The members of a cluster as child processes, each with its configuration and log in a directory of its own, and
Lethe's daemons among them.

Every port is 0, so none can be taken between the choice and the use: an agent's listener is found in ZooKeeper, as
everybody finds it, a controller's in what it tells the agents, and the HTTP address in the line with which a daemon
says that it is up.
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

import aiohttp

from lethe.cluster.process import ChildProcess

START_LIMIT_S: Final = 60.0
POLL_S: Final = 0.05
ANY_PORT: Final = "PLAINTEXT://127.0.0.1:0"
_HTTP: Final = re.compile(r" is up[ ,].*?\b(http://\S+:\d+)")
_LISTENER: Final = re.compile(r"broker agent \d+ is up at [A-Z_]+://(\S+):(\d+)")
_ROOT: Final = Path(__file__).parents[2]


class DaemonFailed(Exception):
    """A daemon has ended, or is not where it should be after the time allowed; says which, with the end of its log."""


class Member(ABC):
    """A process of a cluster. It keeps its directory from one start to the next. Subclasses say when it is ready."""

    kind = "member"

    def __init__(self, number: int, directory: Path, process: ChildProcess) -> None:
        self.id: Final = number
        self.directory: Final = directory
        self.process: Final = process

    @property
    def name(self) -> str:
        """`broker 3`."""
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
        """Writes its configuration and starts it, without waiting for anything."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.write_configuration()
        self.process.start()

    @abstractmethod
    def write_configuration(self) -> None:
        """Into its directory, which exists."""

    @abstractmethod
    async def is_ready(self) -> bool:
        """Whether it does its work."""

    async def start(self, limit_s: float = START_LIMIT_S) -> None:
        """Starts it and waits until it is ready. Raises DaemonFailed."""
        self.launch()
        await self.wait_ready(limit_s)

    async def wait_ready(self, limit_s: float = START_LIMIT_S) -> None:
        """Waits until it does its work. Raises DaemonFailed."""
        await self.wait_until(self.is_ready, "ready", limit_s)

    async def wait_until(
        self, condition: Callable[[], Awaitable[bool]], what: str, limit_s: float, *, must_run: bool = True
    ) -> None:
        """Waits until the coroutine function answers True. Raises DaemonFailed where the process ends or the time is
        over."""
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
        """`kill -9`: nothing is put in order, its ZooKeeper session lives until it times out."""
        await self.process.kill()

    async def stop(self, limit_s: float = 15.0) -> int | None:
        """SIGTERM, and by force after the limit; the exit code."""
        return await self.process.stop(limit_s)

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered."""
        self.process.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.process.resume()


class Daemon(Member):
    """A controller or an agent. A controller is ready when it leads or stands by, an agent when it is registered."""

    kind = "daemon"

    def __init__(self, number: int, directory: Path, properties: Mapping[str, str]) -> None:
        self.journal_dir: Final = directory / "journal"
        self.config_file: Final = directory / "server.properties"
        self._http_url: str | None = None
        self.properties: dict[str, str] = {
            "broker.id": str(number),
            "lethe.http.port": "0",
            "lethe.journal.dir": str(self.journal_dir),
            **properties,
        }
        """What it is started with the next time."""
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
        """Where its HTTP server is; None until it has said so."""
        if self._http_url is None:
            found = _HTTP.search(self.process.output())
            self._http_url = found[1] if found else None
        return self._http_url

    async def get(self, path: str, limit_s: float = 5.0) -> dict[str, Any] | None:
        """The JSON object at that path, whatever the status; None where there is no answer."""
        url = self.http_url
        if url is None or not self.is_running:
            return None
        timeout = aiohttp.ClientTimeout(total=limit_s)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url + path) as response:
                document = await response.json()
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None
        return document if isinstance(document, dict) else None


class ControllerDaemon(Daemon):
    """`lethe controller`; a guest where it has no `listeners`."""

    kind = "controller"

    async def is_active(self) -> bool:
        """True where it says that it leads."""
        state = await self.get("/state")
        return state is not None and state.get("role") == "active"


class BrokerDaemon(Daemon):
    """`lethe broker`, with its log directories inside its own directory."""

    kind = "broker"

    def __init__(self, number: int, directory: Path, log_dirs: int, properties: Mapping[str, str]) -> None:
        self.log_dirs: Final = tuple(directory / f"logs-{index}" for index in range(log_dirs))
        own = {"log.dirs": ",".join(map(str, self.log_dirs)), "listeners": ANY_PORT}
        super().__init__(number, directory, {**own, **properties})

    async def listener(self, limit_s: float = START_LIMIT_S) -> tuple[str, int]:
        """Host and port that its first listener really has, waited for. Raises DaemonFailed."""

        async def is_said() -> bool:
            return _LISTENER.search(self.process.output()) is not None

        await self.wait_until(is_said, "listening", limit_s)
        found = _LISTENER.search(self.process.output())
        assert found is not None
        return found[1], int(found[2])


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """A file as Java reads it."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Ours, less what would override the daemon's configuration; this Lethe's code comes first."""
    kept = {name: value for name, value in environment.items() if not name.startswith(("KAFKA_", "LETHE_"))}
    path = environment.get("PYTHONPATH")
    kept["PYTHONPATH"] = f"{_ROOT}{os.pathsep}{path}" if path else str(_ROOT)
    kept["PYTHONSAFEPATH"] = "1"
    return kept
