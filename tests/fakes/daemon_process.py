"""A daemon as a process of its own, whose log a test waits for."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

LIMIT_S: Final = 90.0
LETHE: Final = (sys.executable, "-m", "lethe")
"""The command of this checkout."""


class Daemon:
    """A process whose log can be waited for."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said = ""

    async def says(self, words: str) -> None:
        """Waits until the log has these words."""
        assert self.process.stderr is not None
        async with asyncio.timeout(LIMIT_S):
            while words not in self.said:
                line = await self.process.stderr.readline()
                assert line, f"it has ended without saying {words!r}:\n{self.said}"
                self.said += line.decode()

    async def ends(self) -> int:
        """Its exit code; `said` is all that it has said."""
        assert self.process.stderr is not None
        async with asyncio.timeout(LIMIT_S):
            self.said += (await self.process.stderr.read()).decode()
            return await self.process.wait()


@asynccontextmanager
async def daemon(
    kind: str, directory: Path, number: int, connect: str, *, lethe: Sequence[str] = LETHE, **more: str
) -> AsyncIterator[Daemon]:
    """`lethe KIND FILE` with these properties, whose names have `_` for each dot. Killed in the end where it runs."""
    file = directory / f"{kind}-{number}.properties"
    given = {"broker.id": str(number), "zookeeper.connect": connect, "zookeeper.session.timeout.ms": "2000"}
    given |= {name.replace("_", "."): value for name, value in more.items()}
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    process = await asyncio.create_subprocess_exec(
        *(*lethe, kind, str(file)),
        stderr=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        yield Daemon(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
