"""Runs `lethe` commands as their users do: processes, with exit codes and output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

LIMIT_S = 180


class Ran(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What it answered with --json."""
        return json.loads(self.out)


class Lethe:
    """The command, against one cluster."""

    def __init__(self, connect: str, *, limit_s: float = LIMIT_S) -> None:
        self.connect = connect
        self._limit_s = limit_s

    async def __call__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Ran:
        """Runs `lethe <arguments> --zookeeper <connect>` with nobody to answer questions; killed after its time. Its
        environment is ours with these variables."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "lethe", *arguments, "--zookeeper", self.connect),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )
        try:
            async with asyncio.timeout(self._limit_s):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Ran(process.returncode or 0, out.decode(), err.decode())
