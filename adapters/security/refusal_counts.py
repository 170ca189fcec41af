"""Counts of refused connections: of clients at one listener of this process, or of this process at its peers.

    reason        at a listener                                   at a peer
    tls           one side refused the other in the handshake     the same
    login         the login is wrong                              the login failed, on either side
    no_login      a request before the login, or after its end    -
    unfinished    TLS or login not finished, or broken off        -
    unchecked     the login could not be checked here             -
    token         an HTTP request without an accepted token       -

A check of a port that only connects is `unfinished` where the listener has TLS. A peer that only ends the connection
during the handshake is not counted: it may be a proxy without a server behind it.
"""

from __future__ import annotations

import enum
from typing import Final


class RefusalReason(enum.StrEnum):
    """Values of the label `reason`."""

    TLS = "tls"
    LOGIN = "login"
    NO_LOGIN = "no_login"
    UNFINISHED = "unfinished"
    UNCHECKED = "unchecked"
    TOKEN = "token"


OF_TLS: Final = (RefusalReason.TLS, RefusalReason.UNFINISHED)
OF_SASL: Final = (RefusalReason.LOGIN, RefusalReason.NO_LOGIN, RefusalReason.UNFINISHED, RefusalReason.UNCHECKED)
OF_TOKENS: Final = (RefusalReason.TOKEN,)
OF_HTTPS: Final = (RefusalReason.TLS,)


class RefusalCounts:
    """Counts by reason since the start. The given reasons are there from the beginning, with 0."""

    def __init__(self, *reasons: RefusalReason) -> None:
        self.by_reason: dict[RefusalReason, int] = dict.fromkeys(reasons, 0)

    def note(self, reason: RefusalReason) -> None:
        """Count one refusal."""
        self.by_reason[reason] = self.by_reason.get(reason, 0) + 1


def counts_at_peers() -> RefusalCounts:
    """Return counts for connections of this process to its peers."""
    return RefusalCounts(RefusalReason.TLS, RefusalReason.LOGIN)
