"""Failures of TLS with brokers: what `handshakes` says of a handshake, and what only Kafka's brokers do.

sign                                                   cause
alert certificate unknown (Java)                       the client certificate is refused, whatever the reason
unexpected message (Kafka 2.5)                         the client certificate is missing or refused
15 03 as the first bytes of a plaintext connection     an alert: the listener speaks TLS
"""

from __future__ import annotations

import ssl
from typing import Final

from lethe.adapters.kafka.client_errors import TlsFailed
from lethe.adapters.security.handshakes import handshake_problem

_KEYSTORE: Final = "set ssl.keystore.location to a certificate with its key that the truststore of the broker accepts"
_BROKERS: Final = {
    "CERTIFICATE_UNKNOWN": (
        f"refuses our client certificate and does not say why: it may have expired, or be of a CA that the broker does "
        f"not trust; {_KEYSTORE}"
    ),
    "UNEXPECTED_MESSAGE": f"broke off, as Kafka 2.5 does without a client certificate that it accepts; {_KEYSTORE}",
}
"""By the end of OpenSSL's reason."""


def tls_failure(place: str, host: str, error: OSError) -> TlsFailed:
    """Return the failure for an error of TLS, or for an end of the connection during the handshake.

    `place` is peer and protocol, `host` the name that was connected to.
    """
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    for end, sentence in _BROKERS.items():
        if reason.endswith(end):
            return TlsFailed(f"{place}: {sentence}")
    return TlsFailed(handshake_problem(error, place, host))


def answered_with_alert(place: str) -> TlsFailed:
    """Return the failure for a plaintext connection on which an alert of TLS was received."""
    return TlsFailed(
        f"{place} speaks TLS, and this connection does not: check the port, or set security.protocol to SSL or SASL_SSL"
    )
