"""Which HTTP requests need a token, and how one without it is refused.

    access    examples                          no token file   token for changes   token for all
    OPEN      /healthz, the board's empty page  answered        answered            answered
    READS     /state, /metrics, /board/events   answered        answered            with the token
    CHANGES   (POST)                            403             with the token      with the token

A server without a token file refuses every change, on loopback too: a web page in a browser on this machine can send
requests there. A request with a token comes from no foreign page, since browsers never add the header by themselves.
In addition a change needs `Content-Type: application/json`, which a foreign page may not send without asking first
(CORS), and that question is always refused.

Open answers tell no topic names. Where reading needs a token, they tell reasons only to requests with it: a reason may
quote an error, and an error a path.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lethe.adapters.http_token import BearerTokens
from lethe.adapters.security.audit import AuditLog
from lethe.adapters.security.refusal_counts import RefusalCounts, RefusalReason

logger = logging.getLogger(__name__)

CHALLENGE: Final = 'Bearer realm="lethe"'
_NEEDED: Final = (
    "a token is needed, and the request has none that is accepted: send the header 'Authorization: Bearer TOKEN' with "
    "a token of the file that lethe.http.token.file names on this server"
)
_NO_CHANGES: Final = (
    "this server changes nothing, because it has no token to ask for: set lethe.http.token.file and start it again"
)


class Access(enum.Enum):
    """What a route is about."""

    OPEN = "open"
    """Says nothing about the cluster."""
    READS = "reads"
    """Says something about the cluster."""
    CHANGES = "changes"
    """Changes something; POST with a JSON document."""


class TokenScope(enum.StrEnum):
    """Values of `lethe.http.token.for`."""

    CHANGES = "changes"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class AccessRefused:
    """How a request is refused."""

    status: int
    message: str


class HttpAccess:
    """Decides for one server. Without a token file, reading is open and nothing is changed."""

    def __init__(
        self,
        token: BearerTokens | None = None,
        scope: TokenScope = TokenScope.ALL,
        now_s: Callable[[], float] = time.monotonic,
        refused: RefusalCounts | None = None,
    ) -> None:
        self.refused: Final = RefusalCounts() if refused is None else refused
        """Counts requests without a token, and failed handshakes."""
        self._token = token
        self._guards_reading = token is not None and scope is TokenScope.ALL
        self._log: Final = AuditLog(logger, now_s)

    def refusal(self, access: Access, authorization: Sequence[str]) -> AccessRefused | None:
        """Return how a request with these Authorization headers is refused; None if it is allowed. A missing token and
        a wrong one are refused in the same words."""
        match access:
            case Access.OPEN:
                return None
            case Access.READS if not self._guards_reading:
                return None
            case Access.CHANGES if self._token is None:
                return AccessRefused(403, _NO_CHANGES)
            case Access.READS | Access.CHANGES:
                return None if self._has_token(authorization) else AccessRefused(401, _NEEDED)

    def tells_reasons(self, authorization: Sequence[str]) -> bool:
        """Return whether an open answer to this request may tell reasons."""
        return not self._guards_reading or self._has_token(authorization)

    def note_refused(self, peer: str, path: str) -> None:
        """Count that a request had no accepted token, and log it, each address at once and then seldom."""
        self.refused.note(RefusalReason.TOKEN)
        why = "it had no accepted token; give it one of lethe.http.token.file, or keep the address from the port"
        self._log.note(peer, f"refused an HTTP request of {peer} for {path!r:.100}: {why}")

    def _has_token(self, authorization: Sequence[str]) -> bool:
        if self._token is None or len(authorization) > 1:
            return False
        return self._token.accepts(authorization[0] if authorization else None)
