"""Sentences for failures of TLS: what is wrong, on which side, and the remedy.

Under TLS 1.3 a client's handshake is over before the server has looked at the client's certificate. So the refusal of a
certificate arrives with the first read, as an alert.

    error of `ssl`                                  meaning
    certificate verify failed, code 10              the broker's certificate has expired
    alert certificate required, bad certificate     the broker requires a client certificate
    end of the connection in the handshake          the listener does not speak TLS, or sends no alerts
"""

from __future__ import annotations

import ssl
from typing import Final

from lethe.adapters.kafka.client_errors import TlsFailed

_UNTRUSTED: Final = (
    "its certificate is not signed by a CA that is trusted here: add the certificate of that CA to "
    "ssl.truststore.location"
)
_OTHER_NAME: Final = (
    "its certificate is not for {host}: issue one with this name among its subject alternative names, or connect by a "
    "name that it has (advertised.listeners). An empty ssl.endpoint.identification.algorithm accepts any name, and so "
    "every holder of a certificate of this CA"
)
_UNVERIFIED: Final = {
    9: "its certificate is not valid yet: compare the clocks of both machines",
    10: "its certificate has expired: renew it in the keystore of the broker",
    18: _UNTRUSTED,
    19: _UNTRUSTED,
    20: _UNTRUSTED,
    21: _UNTRUSTED,
    23: "its certificate is revoked: renew it in the keystore of the broker",
    62: _OTHER_NAME,
    64: _OTHER_NAME,
}
"""By the code of OpenSSL's X509_verify_cert_error_string."""

_OURS: Final = "set ssl.keystore.location to a certificate with its key that the truststore of the broker accepts"
_UNKNOWN: Final = (
    f"it does not accept our client certificate, which has expired or is of a CA that it does not trust: {_OURS}"
)
"""Java's alert for both."""
_NO_VERSION: Final = "both sides have no version of TLS in common: compare ssl.enabled.protocols here and in the broker"
_PLAINTEXT: Final = (
    "its listener does not speak TLS: check the port and security.protocol (SSL and SASL_SSL use TLS, PLAINTEXT and "
    "SASL_PLAINTEXT do not)"
)
_REASONS: Final = (
    ("CERTIFICATE_REQUIRED", f"it requires a client certificate, and none was sent: {_OURS}"),
    ("ALERT_BAD_CERTIFICATE", f"it requires a client certificate, and none was sent or it is refused: {_OURS}"),
    ("CERTIFICATE_EXPIRED", "it refuses our client certificate, which has expired: renew it in ssl.keystore.location"),
    ("CERTIFICATE_REVOKED", "it refuses our client certificate, which is revoked: renew it in ssl.keystore.location"),
    ("UNKNOWN_CA", "it does not trust the CA of our client certificate: add that CA to the truststore of the broker"),
    ("CERTIFICATE_UNKNOWN", _UNKNOWN),
    (
        "UNEXPECTED_MESSAGE",
        f"it broke the handshake off, as Kafka 2.5 does without a client certificate it accepts: {_OURS}",
    ),
    ("UNSUPPORTED_CERTIFICATE", f"it cannot use our client certificate: {_OURS}"),
    ("PROTOCOL_VERSION", _NO_VERSION),
    ("UNSUPPORTED_PROTOCOL", _NO_VERSION),
    ("NO_PROTOCOLS_AVAILABLE", _NO_VERSION),
    (
        "HANDSHAKE_FAILURE",
        f"both sides have no cipher in common (ssl.cipher.suites), or it requires a client certificate: {_OURS}",
    ),
    ("WRONG_VERSION_NUMBER", _PLAINTEXT),
    ("RECORD_LAYER_FAILURE", _PLAINTEXT),
    ("HTTP_REQUEST", _PLAINTEXT),
    ("PACKET_LENGTH_TOO_LONG", _PLAINTEXT),
    ("UNEXPECTED_EOF", _PLAINTEXT),
)
"""Parts of OpenSSL's reasons. The first one that occurs counts."""


def tls_failure(place: str, host: str, error: ssl.SSLError) -> TlsFailed:
    """Return the failure for an error of TLS. `place` is peer and protocol, `host` the name that was connected to."""
    return TlsFailed(f"TLS with {place} failed: {_sentence(error).replace('{host}', host)}")


def ended_in_handshake(place: str) -> TlsFailed:
    """Return the failure for a connection that ended before the handshake was over."""
    return TlsFailed(
        f"TLS with {place} failed: it ended the connection during the handshake and gave no reason. Check that its "
        f"listener speaks TLS (the port, security.protocol); if it does, the log of the broker says what it refuses"
    )


def answered_with_alert(place: str) -> TlsFailed:
    """Return the failure for a plaintext connection on which an alert of TLS was received."""
    return TlsFailed(
        f"{place} speaks TLS, and this connection does not: check the port, or set security.protocol to SSL or SASL_SSL"
    )


def _sentence(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _UNVERIFIED.get(error.verify_code, f"its certificate is refused here: {error.verify_message}")
    reason = error.reason or ""
    for part, sentence in _REASONS:
        if part in reason:
            return sentence
    return f"{reason or error.strerror or 'unknown reason'} (reason of OpenSSL)"
