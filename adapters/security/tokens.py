"""OAuth tokens for OAUTHBEARER: from a file that something else renews, or from the output of a command."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from lethe.adapters.security.files import read_file
from lethe.adapters.security.unusable import Unusable
from lethe.protocol.counting import counted

MAX_TOKEN_BYTES: Final = 65_536


class TokenUnavailable(Exception):
    """There is no token. The text names the source and the remedy, and contains no token."""


class TokenSource(Protocol):
    """Where tokens come from. Its text names it in messages."""

    async def token(self) -> str:
        """Return the token as of now. Raises TokenUnavailable."""


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file that contains the token; it is read again for each login."""

    path: Path

    def __str__(self) -> str:
        return f"the token in {self.path}"

    async def token(self) -> str:
        """Return the file's text without white space around it."""
        try:
            return _checked(str(self), await asyncio.to_thread(read_file, self.path, MAX_TOKEN_BYTES))
        except Unusable as error:
            raise TokenUnavailable(f"{self} {error}") from None


@dataclass(frozen=True, slots=True)
class TokenCommand:
    """A command that prints the token; it is run for each login, without a shell, and may take `timeout_ms`."""

    arguments: Sequence[str]
    timeout_ms: int = 10_000

    def __str__(self) -> str:
        return f"the token from the command {self.arguments[0]}"

    async def token(self) -> str:
        """Return the command's output without white space around it. Its errors go where ours go."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self.arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
            )
        except OSError as error:
            raise TokenUnavailable(f"{self} cannot be started: {error.strerror}") from error
        try:
            async with asyncio.timeout(self.timeout_ms / 1000):
                printed = await _read_all(process)
                status = await process.wait()
        except TimeoutError:
            raise TokenUnavailable(f"{self} did not come within {self.timeout_ms} ms") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if status:
            raise TokenUnavailable(f"{self}: it ended with exit status {status}; run it by hand to see why")
        return _checked(str(self), printed)


async def _read_all(process: asyncio.subprocess.Process) -> bytes:
    """Return what the process prints, or one byte too many."""
    printed = bytearray()
    assert process.stdout is not None
    while len(printed) <= MAX_TOKEN_BYTES and (data := await process.stdout.read(MAX_TOKEN_BYTES)):
        printed += data
    return bytes(printed)


def _checked(source: str, data: bytes) -> str:
    if len(data) > MAX_TOKEN_BYTES:
        raise TokenUnavailable(f"{source} has more than {counted(MAX_TOKEN_BYTES, 'byte')}, which no token has")
    try:
        token = data.removeprefix(codecs.BOM_UTF8).decode("ascii").strip()
    except UnicodeDecodeError:
        raise TokenUnavailable(f"{source} is not ASCII, so it is no token") from None
    if not token:
        raise TokenUnavailable(f"{source} is empty")
    if len(token.split()) > 1:
        raise TokenUnavailable(f"{source} has white space or line ends within, so it is not one token")
    return token
