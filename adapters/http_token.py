"""The token of an HTTP server, from a file that is read again when it changes.

Each line of the file is one token, and each of them is accepted. So a token is replaced without a gap: add the new one
as a second line, give it to all clients, then remove the old line. Empty lines and lines that begin with `#` count for
nothing. The server keeps only hashes: no log and no memory dump contains a token.

    file                                             requests
    readable, with tokens                            with one of these tokens
    changed                                          with one of the new tokens, from the next request on
    removed, unreadable, empty, or with a bad line   none, until it is good again; the log names the problem once
    readable or writable for every user              as before; the log warns of it once
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from pathlib import Path
from typing import Final

from lethe.adapters.security.exposure import exposure
from lethe.adapters.security.files import FileState, file_state, read_file
from lethe.adapters.security.unusable import Unusable

logger = logging.getLogger(__name__)

MIN_TOKEN_LENGTH: Final = 16
MAX_TOKEN_LENGTH: Final = 1024
_MAX_BYTES: Final = 64 * 1024
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""What RFC 6750 allows behind `Bearer`."""
_REMEDY: Final = "write one with: openssl rand -hex 32"


class TokenUnusable(Exception):
    """The token file cannot be used; the message names the file, the reason and the remedy, never a token."""

    def __init__(self, path: Path, reason: str, remedy: str = _REMEDY) -> None:
        super().__init__(f"token file {path}: {reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


def read_tokens(path: Path) -> tuple[str, ...]:
    """Return the tokens in the file. Raises TokenUnusable."""
    try:
        data = read_file(path, _MAX_BYTES)
    except Unusable as error:
        raise TokenUnusable(path, error.reason, error.remedy) from None
    found: list[str] = []
    for number, line in enumerate(data.decode("utf-8-sig", errors="replace").splitlines(), 1):
        token = line.strip()
        if not token or token.startswith("#"):
            continue
        if problem := _problem(token):
            raise TokenUnusable(path, f"the token in line {number} {problem}")
        found.append(token)
    if not found:
        raise TokenUnusable(path, "has no token")
    return tuple(found)


def _problem(token: str) -> str | None:
    if len(token) < MIN_TOKEN_LENGTH:
        return f"is shorter than {MIN_TOKEN_LENGTH} characters, so it can be guessed"
    if len(token) > MAX_TOKEN_LENGTH:
        return f"is longer than {MAX_TOKEN_LENGTH} characters"
    return None if _TOKEN.fullmatch(token) else "has a character that no HTTP header can carry in a token"


class BearerTokens:
    """The accepted tokens of one server (RFC 6750), from its file, as hashes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: FileState | None = None
        self._hashes: tuple[bytes, ...] = ()
        self._problem: str | None = None
        self._exposure = exposure(path)
        """As last warned of: by the configuration at first."""

    def accepts(self, authorization: str | None) -> bool:
        """Return whether the value of an Authorization header has one of the file's tokens."""
        self._refresh()
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            return False
        given_hash = _hash(token.strip(" "))
        # All are compared, so that the time does not tell which line has the token.
        return sum(hmac.compare_digest(given_hash, known_hash) for known_hash in self._hashes) > 0

    def _refresh(self) -> None:
        state = file_state(self.path)
        if state is not None and state == self._state:
            return
        found = exposure(self.path)
        if found is not None and found != self._exposure:
            logger.warning("token file %s: %s", self.path, found)
        self._exposure = found
        try:
            self._hashes = tuple(map(_hash, read_tokens(self.path)))
        except TokenUnusable as problem:
            self._hashes = ()
            self._note(str(problem))
        else:
            self._note(None)
        # The state is from before the read: a change in between is noticed at the next request.
        self._state = state

    def _note(self, problem: str | None) -> None:
        if problem is not None and problem != self._problem:
            logger.error("HTTP requests that need the token are refused: %s", problem)
        elif problem is None and self._problem is not None:
            logger.info("token file %s can be used again", self.path)
        self._problem = problem


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
