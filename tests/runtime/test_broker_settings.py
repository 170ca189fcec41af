"""Brokers asked about their configuration over real sockets: those that tell it, and those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.kafka.server import Close, KafkaServer, Peer
from lethe.protocol.kafka.admin_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
)
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.config_entries import ConfigEntry
from lethe.protocol.kafka.control import Addressed, ApiKey, StopReplicaRequest, StopReplicaResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    Request,
    Response,
)
from lethe.protocol.kafka.versions import SPOKEN, InterBrokerProtocol, VersionRange
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, ControllerEpoch, Endpoint, SecurityProtocol
from lethe.survey.broker_settings import BrokerSettings, ask_about_epoch, read_settings

OLD = {
    ApiKey.API_VERSIONS: VersionRange(0, 3),
    ApiKey.LEADER_AND_ISR: VersionRange(0, 4),
    ApiKey.UPDATE_METADATA: VersionRange(0, 6),
    ApiKey.STOP_REPLICA: VersionRange(0, 2),
}


SEEN_EPOCH = 7


@asynccontextmanager
async def configured(
    config: Mapping[str, str | None],
    versions: Mapping[ApiKey, VersionRange] = SPOKEN,
    error: int = 0,
    *,
    is_named: bool = True,
) -> AsyncIterator[Broker]:
    """A broker with that configuration; its answers do not name it where `is_named` is false."""

    async def answer(header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
        if isinstance(request, Addressed) and isinstance(request.request, StopReplicaRequest):
            stale = request.request.controller_epoch < SEEN_EPOCH
            assert request.request.topics == ()
            return StopReplicaResponse(error or (ErrorCode.STALE_CONTROLLER_EPOCH if stale else ErrorCode.NONE), ())
        if not isinstance(request, DescribeConfigsRequest):
            return Close(f"unexpected {request}")
        (resource,) = request.resources
        assert resource.resource_name == "3"
        names = resource.names or ()
        entries = tuple(ConfigEntry(name, config[name]) for name in names if name in config)
        described = DescribedConfigs(error, None, resource.resource_type, resource.resource_name, entries)
        return DescribeConfigsResponse((described,) if is_named else ())

    server = KafkaServer(answer, versions)
    address = await server.listen("127.0.0.1", 0)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve(), name="server")
        await server.started()
        yield Broker(BrokerId(3), BrokerEpoch(9), (Endpoint("PLAINTEXT", "127.0.0.1", address.port),))
        server.stop(0)


async def test_a_broker_tells_what_concerns_its_controller() -> None:
    config = {
        "delete.topic.enable": "false",
        "inter.broker.protocol.version": "2.8-IV1",
        "inter.broker.listener.name": "INSIDE",
        "control.plane.listener.name": None,
    }
    async with configured(config) as broker:
        found = await read_settings(broker, PLAINTEXT_REACH, 20_000)
    old = InterBrokerProtocol.parse("2.8-IV1")
    assert found == BrokerSettings(BrokerId(3), False, old, "INSIDE", principal="User:ANONYMOUS")


async def test_a_listener_for_controllers_comes_before_the_one_between_brokers() -> None:
    listeners = {"inter.broker.listener.name": "INSIDE", "control.plane.listener.name": "CONTROL"}
    async with configured(listeners) as broker:
        assert (await read_settings(broker, PLAINTEXT_REACH, 20_000)).listener == "CONTROL"
    async with configured({"security.inter.broker.protocol": "PLAINTEXT"}) as broker:
        assert (await read_settings(broker, PLAINTEXT_REACH, 20_000)).listener == "PLAINTEXT"


async def test_what_is_not_told_is_not_known_and_versions_speak_for_the_protocol() -> None:
    async with configured({}, error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED) as broker:
        found = await read_settings(broker, PLAINTEXT_REACH, 20_000)
    assert (found.deletes_topics, found.listener, found.problem) == (None, None, None)
    lacking = "CLUSTER_AUTHORIZATION_FAILED for User:ANONYMOUS; grant it DescribeConfigs on the cluster"
    assert found.unseen == f"DescribeConfigs: {lacking}"
    assert found.inter_broker_protocol == InterBrokerProtocol.parse("3.9")
    async with configured({}, versions=OLD) as broker:
        assert (
            await read_settings(broker, PLAINTEXT_REACH, 20_000)
        ).inter_broker_protocol == InterBrokerProtocol.parse("2.5-IV0")


async def test_an_error_and_an_empty_answer_leave_the_settings_unseen() -> None:
    async with configured({}, error=ErrorCode.UNKNOWN_SERVER_ERROR) as broker:
        failed = await read_settings(broker, PLAINTEXT_REACH, 20_000)
    assert (failed.deletes_topics, failed.unseen) == (None, "DescribeConfigs: UNKNOWN_SERVER_ERROR")
    async with configured({"delete.topic.enable": "false"}, is_named=False) as broker:
        empty = await read_settings(broker, PLAINTEXT_REACH, 20_000)
    assert (empty.deletes_topics, empty.unseen) == (None, "DescribeConfigs: the answer does not name the broker")


async def test_an_unknown_protocol_is_not_believed() -> None:
    async with configured({"inter.broker.protocol.version": "4.7-IV0"}, versions={**SPOKEN, **OLD}) as broker:
        assert (
            await read_settings(broker, PLAINTEXT_REACH, 20_000)
        ).inter_broker_protocol == InterBrokerProtocol.parse("2.5-IV0")


@pytest.mark.parametrize(
    "endpoint,problem",
    [
        (Endpoint("SSL", "127.0.0.1", 1, SecurityProtocol.SSL), "it has no PLAINTEXT listener"),
        (Endpoint("PLAINTEXT", "127.0.0.1", 1), "cannot connect"),
    ],
)
async def test_a_broker_that_cannot_be_asked_says_why(endpoint: Endpoint, problem: str) -> None:
    found = await read_settings(Broker(BrokerId(3), BrokerEpoch(9), (endpoint,)), PLAINTEXT_REACH, 2_000)
    assert found.problem is not None
    assert problem in found.problem
    assert found.inter_broker_protocol is None
    assert (found.refusal is None) == (endpoint.protocol is SecurityProtocol.PLAINTEXT), "asking again may help"


async def test_whether_a_broker_accepts_an_epoch() -> None:
    """Its answer is about the epoch only where it lets the client command it."""
    asker = BrokerId(1000)
    async with configured({}) as broker:
        lower, same = [
            await ask_about_epoch(broker, PLAINTEXT_REACH, 20_000, asker, ControllerEpoch(epoch))
            for epoch in (SEEN_EPOCH - 1, SEEN_EPOCH)
        ]
    assert [(each.is_known, each.refuses) for each in (lower, same)] == [(True, True), (True, False)]
    async with configured({}, error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED) as broker:
        denied = await ask_about_epoch(broker, PLAINTEXT_REACH, 20_000, asker, ControllerEpoch(SEEN_EPOCH))
    right = "CLUSTER_AUTHORIZATION_FAILED for User:ANONYMOUS; grant it ClusterAction on the cluster"
    assert (denied.is_known, denied.refuses, denied.why) == (False, False, right)
    gone = await ask_about_epoch(broker, PLAINTEXT_REACH, 20_000, asker, ControllerEpoch(SEEN_EPOCH))
    assert (gone.error, gone.is_known) == (None, False)
    assert gone.why
