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
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import ListGroupsRequest, ListGroupsResponse, MetadataRequest, MetadataResponse
from lethe.protocol.kafka.to_controller import AdminResponse, errors_of
from tests.fakes.agents import agent_config, connected, running
from tests.fakes.zookeeper import FakeZooKeeper


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[KafkaConnection]:
    async with (
        running(agent_config(tmp_path), FakeZooKeeper().open_session) as app,
        connected(app) as connection,
    ):
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
