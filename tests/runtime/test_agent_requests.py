"""What clients ask an agent as they would a broker, over a real connection; ZooKeeper is a fake."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lethe.adapters.kafka.client import KafkaConnection
from lethe.protocol.kafka.admin import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeletableTopic,
    DeleteTopicsRequest,
    GrowableTopic,
)
from lethe.protocol.kafka.admin_configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterableResource,
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribableConfigs,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from lethe.protocol.kafka.cluster_queries import (
    Coordinator,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from lethe.protocol.kafka.control import Addressed
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataRequest,
    MetadataResponse,
)
from lethe.protocol.kafka.to_controller import AdminResponse, errors_of
from lethe.protocol.vocabulary import NO_EPOCH
from lethe.protocol.zookeeper.operations import Create, SetData
from lethe.protocol.zookeeper.znodes import encode_config
from tests.fakes.agents import agent_config, connected, ignore_watch, running
from tests.fakes.zookeeper import FakeZooKeeper
from tests.unit.broker.core.driver import metadata


@pytest.fixture
def zookeeper() -> FakeZooKeeper:
    return FakeZooKeeper()


@pytest.fixture
async def agent(tmp_path: Path, zookeeper: FakeZooKeeper) -> AsyncIterator[KafkaConnection]:
    """A connection to an agent that has topic `t` in its metadata cache."""
    config = agent_config(tmp_path, log_retention_ms="1234")
    async with running(config, zookeeper.open_session) as app, connected(app) as connection:
        await connection.ask(Addressed(metadata(), NO_EPOCH))
        yield connection


async def test_an_agent_is_not_the_controller(agent: KafkaConnection) -> None:
    for request in (
        CreateTopicsRequest((CreatableTopic("a", 1, 1),), 0),
        DeleteTopicsRequest((DeletableTopic("t"),), 0),
        CreatePartitionsRequest((GrowableTopic("t", 2),), 0),
        ElectLeadersRequest(None, 0),
        AlterPartitionReassignmentsRequest((), 0),
        ListPartitionReassignmentsRequest(None, 0),
    ):
        answer = await agent.ask(request)
        assert isinstance(answer, AdminResponse)
        assert set(errors_of(answer)) == {ErrorCode.NOT_CONTROLLER}, request


async def test_an_agent_coordinates_no_groups(agent: KafkaConnection) -> None:
    assert await agent.ask(ListGroupsRequest()) == ListGroupsResponse(0)
    found = await agent.ask(FindCoordinatorRequest(("g",)))
    assert found == FindCoordinatorResponse((Coordinator("g", ErrorCode.COORDINATOR_NOT_AVAILABLE),))


async def test_the_cluster_has_the_same_id_in_both_answers(agent: KafkaConnection) -> None:
    described, known = await agent.ask(DescribeClusterRequest()), await agent.ask(MetadataRequest(()))
    assert isinstance(described, DescribeClusterResponse)
    assert isinstance(known, MetadataResponse)
    assert described.cluster_id == known.cluster_id


async def test_configurations_come_from_zookeeper_and_from_the_file(
    agent: KafkaConnection, zookeeper: FakeZooKeeper
) -> None:
    wanted = DescribeConfigsRequest(
        (
            DescribableConfigs(2, "t", ("retention.ms", "segment.bytes")),
            DescribableConfigs(BROKER_RESOURCE, "1", ("broker.id", "zookeeper.connect", "log.retention.ms")),
        )
    )

    async def values() -> list[tuple[str, str | None]]:
        answer = await agent.ask(wanted)
        assert isinstance(answer, DescribeConfigsResponse)
        return [(entry.name, entry.value) for result in answer.results for entry in result.entries]

    own = [("broker.id", "1"), ("log.retention.ms", "1234"), ("zookeeper.connect", "127.0.0.1:1")]
    assert await values() == [("retention.ms", "1234"), ("segment.bytes", "1073741824"), *own]
    async with zookeeper.open_session(ignore_watch) as session:
        data = encode_config({"segment.bytes": "5000"})
        await session.multi([Create("/config/topics/t", data)])
        assert await values() == [("retention.ms", "1234"), ("segment.bytes", "5000"), *own]
        await session.multi([SetData("/config/topics/t", b"no JSON", 0)])
        answer = await agent.ask(wanted)
        assert isinstance(answer, DescribeConfigsResponse)
        assert [result.error for result in answer.results] == [ErrorCode.UNKNOWN_SERVER_ERROR, 0]


async def test_configurations_are_altered_and_then_described(agent: KafkaConnection, zookeeper: FakeZooKeeper) -> None:
    async with zookeeper.open_session(ignore_watch) as session:
        await session.ensure_path("/brokers/topics/t")
    mine = AlterableResource(BROKER_RESOURCE, "1", (AlterableConfig("leader.replication.throttled.rate", "9"),))
    of_topic = AlterableResource(TOPIC_RESOURCE, "t", (AlterableConfig("retention.ms", "5"),))
    for request in (AlterConfigsRequest((mine,)), IncrementalAlterConfigsRequest((of_topic,))):
        answer = await agent.ask(request)
        assert isinstance(answer, AlterConfigsResponse)
        assert errors_of(answer) == (ErrorCode.NONE,)
    wanted = DescribableConfigs(TOPIC_RESOURCE, "t", ("retention.ms",)), DescribableConfigs(BROKER_RESOURCE, "1")
    described = await agent.ask(DescribeConfigsRequest(wanted))
    assert isinstance(described, DescribeConfigsResponse)
    found = {entry.name: entry.value for row in described.results for entry in row.entries}
    assert (found["retention.ms"], found["leader.replication.throttled.rate"]) == ("5", "9")
