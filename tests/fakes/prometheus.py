"""A real Prometheus as a child process on loopback, for dashboards and alerts that are to be seen at work."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiohttp import web

from lethe.cluster.process import ChildProcess

BINARY: Final = os.environ.get("PROMETHEUS", "prometheus")
START_LIMIT_S: Final = 60.0
POLL_S: Final = 0.25
_CONFIG: Final = """\
global: {{scrape_interval: 1s, scrape_timeout: 900ms, evaluation_interval: 1s}}
rule_files: {rules}
scrape_configs:
{jobs}"""
_JOB: Final = """\
  - job_name: {job}
    file_sd_configs: [{{files: [{file}], refresh_interval: 2s}}]
"""


def is_installed() -> bool:
    """There is one to run: Debian's package `prometheus`, or what PROMETHEUS names."""
    return shutil.which(BINARY) is not None


class RealPrometheus:
    """Scrapes each second what it is told to, and evaluates rules each second. Use as an async context manager."""

    def __init__(self, directory: Path, rules: Mapping[str, str], jobs: Sequence[str]) -> None:
        """`rules`: texts of rule files by name. The directory is the caller's to remove."""
        self._directory = directory
        self._rules = rules
        self._jobs = jobs
        self._process: ChildProcess | None = None
        self._url = ""

    async def __aenter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        for name, text in self._rules.items():
            (self._directory / name).write_text(text)
        for job in self._jobs:
            self.scrape(job, {})
        jobs = "".join(_JOB.format(job=job, file=self._directory / f"{job}.json") for job in self._jobs)
        config = self._directory / "prometheus.yml"
        config.write_text(_CONFIG.format(rules=json.dumps(sorted(self._rules)), jobs=jobs))
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            self._launch(config)
            if await self._is_ready(deadline):
                return self
            await self.close()
            # Somebody else took the port, or it cannot be run at all.
            assert time.monotonic() < deadline, f"Prometheus does not start:\n{self._tail()}"

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End it."""
        if self._process is not None:
            if self._process.is_running:
                await self._process.stop(5.0)
            self._process.close()

    def scrape(self, job: str, targets: Mapping[str, str]) -> None:
        """From now on this job scrapes these: name to `http://host:port`; the name is the label `instance`."""
        rows = [
            {"targets": [url.removeprefix("http://")], "labels": {"instance": name}} for name, url in targets.items()
        ]
        path = self._directory / f"{job}.json"
        path.with_suffix(".tmp").write_text(json.dumps(rows))
        path.with_suffix(".tmp").replace(path)

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query. Raises ValueError with Prometheus' words where it is none."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self._url}/api/v1/query", data={"query": expression}) as response,
        ):
            document = await response.json()
        if document["status"] != "success":
            raise ValueError(f"{expression}: {document['error']}")
        found = document["data"]["result"]
        assert isinstance(found, list)
        return found

    async def alerts(self, name: str) -> list[dict[str, Any]]:
        """The alerts of that name that fire at present."""
        async with aiohttp.ClientSession() as session, session.get(f"{self._url}/api/v1/alerts") as response:
            document = await response.json()
        found = document["data"]["alerts"]
        return [each for each in found if each["labels"]["alertname"] == name and each["state"] == "firing"]

    def _launch(self, config: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._url = f"http://127.0.0.1:{port}"
        command = [
            BINARY,
            f"--config.file={config}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            "--storage.tsdb.retention.time=2h",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]
        self._process = ChildProcess("prometheus", command, log_file=self._directory / "prometheus.log")
        self._process.start()

    async def _is_ready(self, deadline: float) -> bool:
        assert self._process is not None
        while time.monotonic() < deadline and self._process.is_running:
            try:
                async with aiohttp.ClientSession() as session, session.get(f"{self._url}/-/ready") as response:
                    if response.status == 200:
                        return True
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(POLL_S)
        return False

    def _tail(self) -> str:
        return "" if self._process is None else self._process.output_tail()


async def until(condition: Callable[[], Awaitable[bool]], limit_s: float, what: Callable[[], str]) -> None:
    """Await a condition, with a limit."""
    deadline = time.monotonic() + limit_s
    while not await condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what()}"
        await asyncio.sleep(POLL_S)


@asynccontextmanager
async def serving(file: Path) -> AsyncIterator[str]:
    """What the node exporter does with a textfile: its text at /metrics."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=file.read_text() if file.exists() else "")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()
