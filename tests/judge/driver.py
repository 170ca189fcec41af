"""A process of clients that answers one line of JSON with another: Kafka's tools in a JVM, Python's libraries.

Its first line says that it is ready. One that does not answer in time is killed; the next question starts another. One
that is not ready in time is no answer of a client: it counts as ended.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lethe.cluster.process import die_with_parent

START_LIMIT_S: Final = 180.0
LINE_BYTES: Final = 16 * 1024 * 1024


class ClientsEnded(Exception):
    """The process has ended without an answer, or was never ready; the message has the end of its log."""


class Conversation:
    """Questions and answers, one after the other. What the process writes to standard error goes to `log`."""

    def __init__(self, command: Sequence[str], log: Path, start_limit_s: float = START_LIMIT_S) -> None:
        self._command = command
        self._log = log
        self._start_limit_s = start_limit_s
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, question: Mapping[str, Any], limit_s: float) -> dict[str, Any] | None:
        """Return the answer; None if there is none in time. Raises ClientsEnded."""
        process = await self.start()
        assert process.stdin is not None
        process.stdin.write(json.dumps(question).encode() + b"\n")
        try:
            return await self._line(process, limit_s)
        except TimeoutError:
            await self.close()
            return None

    @property
    def is_running(self) -> bool:
        """Whether a process of it runs."""
        return self._process is not None

    async def close(self) -> None:
        """End the process."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._process = None

    async def start(self) -> asyncio.subprocess.Process:
        """Start the process where none runs, and wait until it is ready. Raises ClientsEnded."""
        if self._process is None:
            with self._log.open("ab") as errors:
                self._process = await asyncio.create_subprocess_exec(
                    *die_with_parent(self._command),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=errors,
                    limit=LINE_BYTES,
                )
            try:
                await self._line(self._process, self._start_limit_s)
            except TimeoutError:
                await self.close()
                raise ClientsEnded(self._last_words(f"was not ready within {self._start_limit_s:g} s")) from None
        return self._process

    async def _line(self, process: asyncio.subprocess.Process, limit_s: float) -> dict[str, Any]:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), limit_s)
        if not line:
            raise ClientsEnded(self._last_words("has ended"))
        return dict(json.loads(line))

    def _last_words(self, what: str) -> str:
        return f"{self._command[0]} {what}:\n{self._log.read_text(errors='replace')[-2000:]}"
