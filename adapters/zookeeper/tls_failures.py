"""Sentences for what goes wrong between plaintext and TLS at a connection to ZooKeeper.

    client      port of           seen by the client
    ----------  ----------------  ------------------------------------------------------------------------------
    TLS         plaintext         ConnectionResetError without a text, or the end of the stream
    plaintext   TLS               the end of the stream, before any answer; other servers send an alert first
    TLS         TLS               what `adapters.security.handshakes` has sentences for

A server without a quorum ends connections in the same way as the port of TLS, so that one sentence names both.
"""

from __future__ import annotations

import ssl
from typing import Final

from lethe.adapters.security.handshakes import handshake_problem

ALERT: Final = b"\x15"
"""First byte of an alert of TLS."""
IS_TLS_PORT: Final = (
    "it answers with an alert of TLS, so this is its TLS port: set zookeeper.ssl.client.enable=true, or connect to its "
    "plaintext port"
)
MAYBE_TLS_PORT: Final = (
    "it closed the connection without an answer, as a server without a quorum does, and a TLS port: if this is its TLS "
    "port, set zookeeper.ssl.client.enable=true"
)
MAYBE_PLAINTEXT_PORT: Final = (
    "it closed the connection during the TLS handshake: this may be its plaintext port; connect to its "
    "secureClientPort, or set zookeeper.ssl.client.enable=false"
)
CERTIFICATE_REFUSED: Final = (
    "TLS: refuses this side's certificate; check that it has not expired, and that ZooKeeper's truststore has the "
    "authority that issued it"
)
"""Java's alert, whatever is wrong with the certificate."""
ENDED_AFTER_HANDSHAKE: Final = (
    "it closed the connection after the TLS handshake without an answer, as a server without a quorum does, and with "
    "TLS 1.3 one that refuses this side's certificate; check that zookeeper.ssl.keystore.location names one, that it "
    "has not expired, and that ZooKeeper's truststore has the authority that issued it"
)
"""The alert of TLS 1.3 can be lost with the connection."""
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING")


def tls_failure(error: OSError, host: str | None = None) -> str | None:
    """Return the sentence for a failed TLS connection to the host; None if the failure has nothing to do with TLS."""
    match error:
        case ssl.SSLEOFError() | ConnectionResetError() | ConnectionAbortedError():
            return MAYBE_PLAINTEXT_PORT
        case ssl.SSLError(reason=reason) if reason in _NO_TLS:
            return MAYBE_PLAINTEXT_PORT
        case ssl.SSLError(reason=reason) if (reason or "").endswith("CERTIFICATE_UNKNOWN"):
            return CERTIFICATE_REFUSED
        case ssl.SSLError():
            return handshake_problem(error, "TLS", host, "zookeeper.")
        case _:
            return None
