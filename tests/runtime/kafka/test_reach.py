"""Connections that a BrokerReach opens, and those that it refuses to open."""

from __future__ import annotations

import asyncio
from types import MappingProxyType

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH, BrokerReach, NoListener
from lethe.adapters.security.channel import ChannelSecurity
from lethe.adapters.security.login import SaslLogin
from lethe.protocol.kafka.queries import MetadataRequest
from lethe.protocol.security.scram import ScramMechanism
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol
from tests.fakes.secure_broker import METADATA, SecureBroker, scram

SASL = SecurityProtocol.SASL_PLAINTEXT
SHA_512 = ScramMechanism.SHA_512
LOGIN = ChannelSecurity(login=SaslLogin.scram(SHA_512, "lethe", lambda: "word"))
REACH = BrokerReach("INTERNAL", MappingProxyType({SASL: LOGIN}))


def broker(*endpoints: Endpoint) -> Broker:
    return Broker(BrokerId(1), BrokerEpoch(1), endpoints)


async def test_it_logs_in_at_the_configured_listener() -> None:
    fake = SecureBroker(mechanisms=scram(SHA_512, "lethe", "word"))
    async with asyncio.timeout(30), fake.running() as port:
        endpoint = REACH.endpoint_of(
            broker(Endpoint("PLAINTEXT", "127.0.0.1", 1), Endpoint("INTERNAL", "127.0.0.1", port, SASL))
        )
        async with await REACH.open(endpoint, "1001", connect_timeout_ms=9_000) as connection:
            assert await connection.request(MetadataRequest(None), 12) == METADATA
    assert fake.principals == ["lethe"]


async def test_plaintext_is_what_a_reach_has_by_default() -> None:
    fake = SecureBroker()
    async with asyncio.timeout(30), fake.running() as port:
        endpoint = PLAINTEXT_REACH.endpoint_of(broker(Endpoint("ANY", "127.0.0.1", port)))
        async with await PLAINTEXT_REACH.open(endpoint, "1001") as connection:
            assert await connection.request(MetadataRequest(None), 12) == METADATA


@pytest.mark.parametrize(
    "endpoint, reason",
    [
        (Endpoint("INTERNAL", "h", 1), "its listener INTERNAL is PLAINTEXT, and SASL_PLAINTEXT is configured for it; "),
        (Endpoint("OTHER", "h", 1, SASL), "it has no listener INTERNAL (it has OTHER: SASL_PLAINTEXT); "),
    ],
)
async def test_another_listener_is_refused_before_anything_is_sent(endpoint: Endpoint, reason: str) -> None:
    with pytest.raises(NoListener) as refused:
        REACH.endpoint_of(broker(endpoint))
    assert str(refused.value) == reason + REACH.remedy
    with pytest.raises(NoListener) as refused:
        await REACH.open(endpoint, "1001")
    assert str(refused.value) == reason + REACH.remedy
