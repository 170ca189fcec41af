"""Failures of TLS in words that name ZooKeeper's own properties."""

from __future__ import annotations

import ssl

import pytest

from lethe.adapters.zookeeper.tls_failures import CERTIFICATE_REFUSED, MAYBE_PLAINTEXT_PORT, tls_failure


def error(reason: str) -> ssl.SSLError:
    made = ssl.SSLError(1, f"[SSL: {reason}] words (_ssl.c:1)")
    made.reason = reason
    return made


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionResetError(),
        ConnectionAbortedError("SSL handshake"),
        ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
        error("WRONG_VERSION_NUMBER"),
        error("UNEXPECTED_EOF_WHILE_READING"),
    ],
)
def test_a_plaintext_port(failure: OSError) -> None:
    assert tls_failure(failure) == MAYBE_PLAINTEXT_PORT


def test_alerts() -> None:
    assert tls_failure(error("SSLV3_ALERT_CERTIFICATE_UNKNOWN")) == CERTIFICATE_REFUSED
    missing = tls_failure(error("SSLV3_ALERT_BAD_CERTIFICATE"))
    assert missing is not None
    assert missing.startswith("TLS: ")
    assert "set zookeeper.ssl.keystore.location" in missing
    assert "compare zookeeper.ssl.enabled.protocols" in (tls_failure(error("TLSV1_ALERT_PROTOCOL_VERSION")) or "")


def test_every_property_is_zookeepers() -> None:
    closed = tls_failure(ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed (EOF)"))
    assert closed is not None
    assert closed.endswith("or require a certificate (zookeeper.ssl.keystore.location)")


@pytest.mark.parametrize("failure", [ConnectionRefusedError("refused"), TimeoutError(), OSError("no route")])
def test_what_has_nothing_to_do_with_tls(failure: OSError) -> None:
    assert tls_failure(failure) is None
