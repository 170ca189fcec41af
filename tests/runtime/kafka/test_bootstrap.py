"""Any bootstrap server leads to the cluster; where all are dead, each is named with its reason."""

from __future__ import annotations

import re

import pytest

from lethe.adapters.kafka.bootstrap import open_first, parse_servers
from lethe.adapters.kafka.client import ConnectionFailed
from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.protocol.vocabulary import SecurityProtocol
from tests.fakes.answering_broker import AnsweringBroker, served


def test_servers_are_parsed_each_once() -> None:
    assert parse_servers("b1:9092, b2:9093,b1:9092,") == ("b1:9092", "b2:9093")
    assert parse_servers("[::1]:9092") == ("[::1]:9092",)


@pytest.mark.parametrize(
    "text", ["b1", "b1:", "b1:0", "b1:65536", "b1:9092/kafka", "::1:9092", "b1:9092 b2:9092", "b1:\uff11\uff12"]
)
def test_what_is_no_server_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is no host:port; write host:port"):
        parse_servers(text)


def test_a_listener_as_brokers_write_it_is_its_address() -> None:
    assert parse_servers("PLAINTEXT://b1:9092,plaintext://b1:9092,b2:1") == ("b1:9092", "b2:1")
    assert parse_servers("SASL_SSL://[::1]:9092", SecurityProtocol.SASL_SSL) == ("[::1]:9092",)


@pytest.mark.parametrize(
    "text, protocol, words",
    [
        (
            "SSL://b1:9093",
            SecurityProtocol.PLAINTEXT,
            "--bootstrap-server: 'SSL://b1:9093' is a listener of SSL, and the configured security protocol is",
        ),
        ("PLAINTEXT://b1:9092", SecurityProtocol.SASL_SSL, "is a listener of PLAINTEXT, and the configured"),
        (
            "INTERNAL://b1:9092",
            SecurityProtocol.SSL,
            "names a listener, which does not say its protocol; write b1",
        ),
    ],
)
def test_a_listener_of_another_protocol_is_refused(text: str, protocol: SecurityProtocol, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse_servers(text, protocol)


def test_no_server_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="names no broker"):
        parse_servers(" , ")


async def test_a_dead_server_does_not_matter(unused_tcp_port: int) -> None:
    async with served(AnsweringBroker(cached={"orders": None})) as broker:
        port = broker.endpoints[1].port
        opened = await open_first(PLAINTEXT_REACH, (f"127.0.0.1:{unused_tcp_port}", f"127.0.0.1:{port}"), "test")
        async with opened:
            assert opened.peer == f"127.0.0.1:{port}"


async def test_all_dead_are_named(unused_tcp_port: int) -> None:
    async with served(AnsweringBroker()) as broker:
        port = broker.endpoints[1].port
    with pytest.raises(ConnectionFailed) as failed:
        await open_first(PLAINTEXT_REACH, (f"127.0.0.1:{unused_tcp_port}", f"127.0.0.1:{port}"), "test")
    assert f"127.0.0.1:{unused_tcp_port}" in str(failed.value)
    assert f"127.0.0.1:{port}" in str(failed.value)
