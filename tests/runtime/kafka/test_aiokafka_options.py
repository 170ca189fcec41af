"""aiokafka's clients log in with the credentials of a BrokerReach, or it is said why not."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from types import MappingProxyType

import pytest

from lethe.adapters.kafka.aiokafka_options import client_options, why_unreachable
from lethe.adapters.kafka.client import AuthenticationRefused, TlsFailed
from lethe.adapters.kafka.journal_topic import ProducerFailed, aiokafka_producer
from lethe.adapters.kafka.reach import PLAINTEXT_REACH, BrokerReach
from lethe.adapters.security.channel import ChannelSecurity
from lethe.adapters.security.login import SaslLogin
from lethe.adapters.security.tokens import TokenFile
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    MetadataBroker,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    Request,
    Response,
)
from lethe.protocol.security.scram import ScramMechanism
from lethe.protocol.vocabulary import BrokerId
from tests.fakes.secure_broker import SecureBroker, scram

SHA_512 = ScramMechanism.SHA_512
PASSWORD = "correct-horse"


def reach(login: SaslLogin) -> BrokerReach:
    security = ChannelSecurity(login=login)
    return BrokerReach(None, MappingProxyType({security.protocol: security}))


async def test_what_aiokafka_gets() -> None:
    assert await client_options(PLAINTEXT_REACH) == {"security_protocol": "PLAINTEXT", "ssl_context": None}
    assert await client_options(reach(SaslLogin.scram(SHA_512, "lethe", lambda: PASSWORD))) == {
        "security_protocol": "SASL_PLAINTEXT",
        "ssl_context": None,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "lethe",
        "sasl_plain_password": PASSWORD,
    }


async def test_tokens_are_those_of_each_connection(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    options = await client_options(reach(SaslLogin.oauthbearer(TokenFile(path), {"a": "b"})))
    provider = options["sasl_oauth_token_provider"]
    assert await provider.token() == "first"
    assert provider.extensions() == {"a": "b"}
    path.write_text("second")
    assert await provider.token() == "second"


async def test_credentials_that_are_not_there_are_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(AuthenticationRefused, match=r"no login with OAUTHBEARER: the token in .* does not exist"):
        await client_options(reach(SaslLogin.oauthbearer(TokenFile(tmp_path / "none"))))
    token = SaslLogin.scram(SHA_512, "id", lambda: PASSWORD, is_token=True)
    with pytest.raises(AuthenticationRefused, match="delegation tokens are not supported for these connections"):
        await client_options(reach(token))

    def broken() -> None:
        raise OSError("the file is gone")

    security = ChannelSecurity(broken)  # type: ignore[arg-type]
    with pytest.raises(TlsFailed, match="certificates and keys cannot be used: the file is gone"):
        await client_options(BrokerReach(None, MappingProxyType({security.protocol: security})))


async def test_the_journals_producer_says_which_user_is_refused(unused_tcp_port: int) -> None:
    broker = SecureBroker(mechanisms=scram(SHA_512, "lethe", PASSWORD))
    refused = reach(SaslLogin.scram(SHA_512, "lethe", lambda: "wrong"))
    async with asyncio.timeout(60), broker.running() as port:
        servers = [f"127.0.0.1:{unused_tcp_port}", f"127.0.0.1:{port}"]
        with pytest.raises(ProducerFailed) as failed:
            await aiokafka_producer(servers, "t", "lethe", refused)()
        text = str(failed.value)
        assert text.startswith(f"no broker can be reached: cannot connect to 127.0.0.1:{unused_tcp_port}")
        assert f"127.0.0.1:{port} (SASL_PLAINTEXT) refuses user lethe with SCRAM-SHA-512" in text
        right = reach(SaslLogin.scram(SHA_512, "lethe", lambda: PASSWORD))
        assert await why_unreachable(right, servers, "lethe") is None


async def test_the_journals_producer_says_that_a_broker_may_be_an_impostor() -> None:
    def tamper(number: int, token: bytes) -> bytes:
        return b"v=" + base64.b64encode(bytes(64)) if number else token

    broker = SecureBroker(mechanisms=scram(SHA_512, "lethe", PASSWORD), tamper=tamper)
    async with asyncio.timeout(60), broker.running() as port:
        login = reach(SaslLogin.scram(SHA_512, "lethe", lambda: PASSWORD))
        with pytest.raises(ProducerFailed, match="no broker can be reached: .*, and may be an impostor"):
            await aiokafka_producer([f"127.0.0.1:{port}"], "t", "lethe", login)()


async def test_a_broker_that_was_reached_after_all_is_not_said_to_be_away() -> None:
    tampered: list[bytes] = []

    def tamper_once(number: int, token: bytes) -> bytes:
        if not number or tampered:
            return token
        tampered.append(token)
        return b"v=" + base64.b64encode(bytes(64))

    broker = SecureBroker(mechanisms=scram(SHA_512, "lethe", PASSWORD), tamper=tamper_once)
    async with asyncio.timeout(60), broker.running() as port:
        login = reach(SaslLogin.scram(SHA_512, "lethe", lambda: PASSWORD))
        with pytest.raises(ProducerFailed, match="does not start, and a broker can be reached now: ValueError"):
            await aiokafka_producer([f"127.0.0.1:{port}"], "t", "lethe", login)()


async def test_the_journals_producer_says_which_right_is_missing() -> None:
    def refuse(request: Request) -> Response | None:
        names = [topic.name for topic in request.topics or ()] if isinstance(request, MetadataRequest) else []
        refused = (MetadataTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, None, False, ()) for name in names)
        return MetadataResponse(
            (MetadataBroker(BrokerId(1), "127.0.0.1", port, None),), "c", BrokerId(1), tuple(refused)
        )

    broker = SecureBroker(mechanisms=scram(SHA_512, "lethe", PASSWORD), handler=refuse)
    async with asyncio.timeout(60), broker.running() as port:
        login = reach(SaslLogin.scram(SHA_512, "lethe", lambda: PASSWORD))
        producer = await aiokafka_producer([f"127.0.0.1:{port}"], "journal", "lethe", login)()
        with pytest.raises(ProducerFailed) as failed:
            await producer.deliver(b"key", [b"line"], lambda: None)
        await producer.stop()
    assert str(failed.value) == "TOPIC_AUTHORIZATION_FAILED for User:lethe; grant it Write on topic journal"
