"""The server's side of OAUTHBEARER. Lethe only logs in with tokens: its listeners have no keys to verify them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lethe.protocol.security.exchange import AuthenticationFailed
from lethe.protocol.security.oauthbearer import BearerToken

_REFUSAL: Final = b'{"status":"invalid_token"}'


class OAuthBearerServer:
    """The server's side of one exchange. `check` returns the principal that a token is for; None if it is not valid."""

    __slots__ = ("_check", "_has_refused", "principal")

    def __init__(self, check: Callable[[str], str | None]) -> None:
        self.principal: str | None = None
        self._check = check
        self._has_refused = False

    def answer(self, response: bytes) -> bytes:
        """Return nothing for an accepted token, else the refusal, after which it raises AuthenticationFailed."""
        if self._has_refused or self.principal is not None:
            raise AuthenticationFailed("the token is not valid" if self._has_refused else "the exchange is over")
        message = BearerToken.decode(response)
        principal = self._check(message.token)
        if principal is None:
            self._has_refused = True
            return _REFUSAL
        if message.authorization_id not in ("", principal):
            raise AuthenticationFailed("the client asks to act as another user than the one that the token is for")
        self.principal = principal
        return b""
