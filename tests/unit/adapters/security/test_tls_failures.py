"""Failures that only Kafka's brokers show. Those of real handshakes are in tests/runtime/kafka."""

import ssl

import pytest

from lethe.adapters.security.tls_failures import answered_with_alert, tls_failure

PLACE = "b1:9093 (SSL)"


@pytest.mark.parametrize(
    "reason, sentence",
    [
        (
            "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
            "refuses our client certificate and does not say why: it may have expired, or be of a CA",
        ),
        (
            "UNEXPECTED_MESSAGE",
            "broke off, as Kafka 2.5 does without a client certificate that it accepts; set ssl.keystore",
        ),
        ("TLSV1_ALERT_UNKNOWN_CA", "does not know the authority that issued this side's certificate"),
        ("WRONG_VERSION_NUMBER", "does not speak TLS"),
    ],
)
def test_alerts(reason: str, sentence: str) -> None:
    error = ssl.SSLError(1, f"[SSL: {reason}] text")
    error.reason = reason
    assert str(tls_failure(PLACE, "b1", error)).startswith(f"{PLACE}: {sentence}")


def test_an_end_of_the_connection_and_plaintext_to_a_listener_with_tls() -> None:
    assert str(tls_failure(PLACE, "b1", ConnectionResetError())).startswith(f"{PLACE}: closed the connection during")
    assert "security.protocol to SSL or SASL_SSL" in str(answered_with_alert("b1:9093 (PLAINTEXT)"))
