"""Whether a broker of --kafka answers: known in seconds, and said with every server and what to do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lethe.admin.refusal import Exit, Refusal
from lethe.cli import pipeline_stream
from lethe.cli.pipeline_kafka import require_broker, why_refused
from lethe.pipeline.jobs.stream import KafkaTopic, StreamOptions
from lethe.protocol.security.scram import ScramMechanism
from lethe.protocol.vocabulary import SecurityProtocol
from tests.fakes.answering_broker import AnsweringBroker, served
from tests.fakes.secure_broker import SecureBroker, scram

PLAINTEXT = SecurityProtocol.PLAINTEXT


@pytest.fixture
def closed() -> str:
    """The address of a port that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and says nothing."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        yield f"127.0.0.1:{one.getsockname()[1]}"


def test_every_server_is_named_with_its_reason_and_what_to_do(closed: str, silent: str) -> None:
    with pytest.raises(Refusal) as refused:
        require_broker(f"{closed},{silent}", PLAINTEXT, timeout_ms=200)
    text = str(refused.value)
    assert text.startswith("no broker of --kafka answers: ")
    assert closed in text
    assert silent in text
    assert text.endswith("start one of them, or name others (--kafka HOST:PORT,HOST:PORT)")
    assert refused.value.exit is Exit.UNREACHABLE


async def test_one_that_answers_is_enough(closed: str, silent: str) -> None:
    async with served(AnsweringBroker()) as broker:
        plain = broker.endpoints[1]
        servers = f"{closed},{silent},{plain.host}:{plain.port}"
        await asyncio.to_thread(require_broker, servers, PLAINTEXT)


def test_with_a_login_of_its_own_a_server_has_to_accept_a_connection(closed: str, silent: str) -> None:
    require_broker(silent, SecurityProtocol.SASL_SSL)
    with pytest.raises(Refusal, match=f"cannot connect to {closed}"):
        require_broker(closed, SecurityProtocol.SASL_SSL)


def test_an_address_that_is_none_is_named_with_the_option() -> None:
    with pytest.raises(ValueError, match="--kafka: 'kafka-1' is no host:port"):
        require_broker("kafka-1", PLAINTEXT)


def test_the_stream_asks_before_spark_starts(closed: str) -> None:
    plan = StreamOptions(kafka=KafkaTopic(closed, "t"))
    with pytest.raises(Refusal, match=f"no broker of --kafka answers: .*{closed}"):
        pipeline_stream.stream("/nowhere", plan, "local[1]", {}, json_lines=False)


async def test_what_ends_a_stream_is_said_with_broker_user_and_remedy(tmp_path: Path) -> None:
    def config(password: str, mechanism: str = "SCRAM-SHA-512") -> Path:
        path = tmp_path / "client.properties"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={module} required username="lethe" password="{password}";\n'
        )
        return path

    async with SecureBroker(mechanisms=scram(ScramMechanism.SHA_512, "lethe", "right")).running() as port:
        server = f"127.0.0.1:{port}"
        said = await asyncio.to_thread(why_refused, server, config("not-this-one"))
        assert said.startswith(f" ({server} (SASL_PLAINTEXT) refuses user lethe with SCRAM-SHA-512: ")
        assert "check user name and password in sasl.jaas.config" in said
        assert "not-this-one" not in said
        assert await asyncio.to_thread(why_refused, server, config("right")) == ""
        assert await asyncio.to_thread(why_refused, server, config("right", "GSSAPI")) == "", "only Java can use it"
        assert await asyncio.to_thread(why_refused, server, None) == ""
