"""Why a request to a broker got no answer."""

from __future__ import annotations


class ClientError(Exception):
    """The broker was not reached or did not answer. It may or may not have received the request."""


class ConnectionFailed(ClientError):
    """The connection could not be opened, or ended before the response."""


class AccessFailed(ConnectionFailed):
    """No configured listener, no TLS or no login. A setting has to change, here or there; the broker may be healthy."""


class AuthenticationRefused(AccessFailed):
    """The SASL login failed: the broker refused it, or did not prove its own identity, or there is nothing to send."""


class TlsFailed(AccessFailed):
    """TLS failed: one side does not trust the other's certificate, or only one of them speaks TLS."""


class RequestTimedOut(ClientError):
    """The response did not arrive in time."""
