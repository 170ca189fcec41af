"""Which of a broker's listeners is used, and why none."""

from __future__ import annotations

import pytest

from lethe.protocol.listener_choice import ListenerChoice
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol

PLAINTEXT, SSL, SASL, SASL_SSL = SecurityProtocol


def broker(*listeners: tuple[str, SecurityProtocol]) -> Broker:
    endpoints = tuple(Endpoint(name, "b", 9092 + n, protocol) for n, (name, protocol) in enumerate(listeners))
    return Broker(BrokerId(1), BrokerEpoch(1), endpoints)


INTERNAL, PLAIN = ("INTERNAL", SASL_SSL), ("PLAINTEXT", PLAINTEXT)


@pytest.mark.parametrize(
    "choice, has, used",
    [
        (ListenerChoice(), [("A", SSL), ("B", PLAINTEXT), ("C", PLAINTEXT)], "B"),
        (ListenerChoice("INTERNAL", (SASL_SSL,)), [PLAIN, INTERNAL], "INTERNAL"),
        (ListenerChoice(None, (PLAINTEXT, SSL)), [("A", SSL), ("B", PLAINTEXT)], "B"),
        (ListenerChoice(None, (PLAINTEXT, SSL)), [("A", SASL), ("B", SSL), ("C", SSL)], "B"),
        (ListenerChoice(None, (SSL,)), [PLAIN, ("S", SSL)], "S"),
    ],
)
def test_the_named_listener_or_the_first_that_is_spoken_is_used(
    choice: ListenerChoice, has: list[tuple[str, SecurityProtocol]], used: str
) -> None:
    endpoint = choice.endpoint_of(broker(*has))
    assert endpoint is not None
    assert endpoint.listener == used
    assert choice.accepts(endpoint)


@pytest.mark.parametrize(
    "choice, has, reason",
    [
        (ListenerChoice(), [("S", SSL)], "it has no PLAINTEXT listener (it has S: SSL)"),
        (ListenerChoice(), [], "it has no PLAINTEXT listener (it has none)"),
        (
            ListenerChoice("INTERNAL", (SASL_SSL,)),
            [PLAIN, ("EXTERNAL", SASL_SSL)],
            "it has no listener INTERNAL (it has PLAINTEXT: PLAINTEXT, EXTERNAL: SASL_SSL)",
        ),
        (
            ListenerChoice("INTERNAL", (SASL_SSL,)),
            [("INTERNAL", PLAINTEXT), ("OTHER", SASL_SSL)],
            "its listener INTERNAL is PLAINTEXT, and SASL_SSL is configured for it",
        ),
        (ListenerChoice(None, (SSL, SASL)), [PLAIN], "it has no SSL or SASL_PLAINTEXT listener (it has PLAINTEXT"),
    ],
)
def test_there_is_no_silent_second_choice(
    choice: ListenerChoice, has: list[tuple[str, SecurityProtocol]], reason: str
) -> None:
    found = broker(*has)
    assert choice.endpoint_of(found) is None
    assert not any(choice.accepts(endpoint) for endpoint in found.endpoints)
    assert choice.reason(found.endpoints).startswith(reason)
