"""Clients change the cluster through a whole controller and agents, over real sockets and on a fake ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from lethe.adapters.kafka.client import KafkaConnection
from lethe.broker.runtime.app import AgentApp
from lethe.controller.core.context import Role
from lethe.controller.runtime.app import ControllerApp
from lethe.protocol.kafka.admin import (
    CreatableAssignment,
    CreatableTopic,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopic,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    GrowableTopic,
    GrownTopic,
)
from lethe.protocol.kafka.admin_cluster import AlterUserScramCredentialsRequest, ScramDeletion
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectionKind,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    MovingPartition,
    MovingTopic,
    PartitionOutcome,
    ReassignablePartition,
    ReassignableTopic,
    TopicOutcome,
    TopicPartitions,
)
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataTopic,
    Response,
    api_of_request,
)
from lethe.protocol.kafka.to_controller import AdminRequest, error_response, errors_of
from lethe.protocol.kafka.versions import SPOKEN
from lethe.protocol.vocabulary import LEADER_NONE, BrokerId
from lethe.protocol.zookeeper import paths
from tests.fakes.agents import agent_config, connected, running
from tests.fakes.runtime import reach
from tests.fakes.whole_controller import becomes, connected_to, controller
from tests.fakes.zookeeper import FakeZooKeeper

NEVER_MS = 3_600_000
LIMIT_MS = 30_000
R = TypeVar("R", bound=Response)


class Bench:
    """A controller, three agents, and a client of the controller."""

    def __init__(self, zookeeper: FakeZooKeeper, app: ControllerApp, root: Path, catch_up_ms: int) -> None:
        self.zookeeper = zookeeper
        self.app = app
        self.agents: dict[int, AgentApp] = {}
        self._root = root
        self._catch_up_ms = catch_up_ms
        self._stacks: dict[int, AsyncExitStack] = {}

    async def start(self, number: int) -> None:
        config = agent_config(
            self._root / str(number),
            broker_id=number,
            replica_catch_up_delay_ms=self._catch_up_ms,
            log_segment_delete_delay_ms=1,
            controlled_shutdown_enable="false",
        )
        stack = self._stacks[number] = AsyncExitStack()
        self.agents[number] = await stack.enter_async_context(running(config, self.zookeeper.open_session))
        await reach(lambda: BrokerId(number) in self.app.loop.context.cluster.brokers)

    async def stop(self, number: int) -> None:
        del self.agents[number]
        await self._stacks.pop(number).aclose()
        await reach(lambda: BrokerId(number) not in self.app.loop.context.cluster.brokers)

    async def described(self, number: int, topic: str) -> MetadataTopic:
        """What this agent tells its clients of the topic."""
        async with connected(self.agents[number]) as client:
            answer = await client.ask(MetadataRequest((MetadataRequestTopic(topic),)))
        assert isinstance(answer, MetadataResponse)
        assert answer.controller_id == 1001
        (found,) = answer.topics
        return found

    async def leader(self, topic: str) -> int:
        """The leader of partition 0; all agents name the same one."""
        told = {(await self.described(number, topic)).partitions[0].leader for number in self.agents}
        (leader,) = told
        return leader


@asynccontextmanager
async def bench(root: Path, catch_up_ms: int = 1) -> AsyncIterator[Bench]:
    zookeeper = FakeZooKeeper()
    async with controller(zookeeper) as app:
        await becomes(app, Role.ACTIVE)
        made = Bench(zookeeper, app, root, catch_up_ms)
        try:
            for number in (1, 2, 3):
                await made.start(number)
            yield made
        finally:
            for number in list(made.agents):
                await made.stop(number)


async def ask(client: KafkaConnection, request: AdminRequest, kind: type[R], version: int | None = None) -> R:
    """In the newest version unless another is given."""
    newest = SPOKEN[api_of_request(request)].max
    answer: Response = await client.request(request, newest if version is None else version)
    assert isinstance(answer, kind)
    return answer


def placed(name: str, *partitions: tuple[int, ...]) -> CreateTopicsRequest:
    """Create the topic with these replicas."""
    assignments = tuple(CreatableAssignment(number, replicas) for number, replicas in enumerate(partitions))
    return CreateTopicsRequest((CreatableTopic(name, -1, -1, assignments),), LIMIT_MS)


def move(topic: str, replicas: tuple[int, ...] | None) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest((ReassignableTopic(topic, (ReassignablePartition(0, replicas),)),), 1)


def elect(topic: str, kind: ElectionKind) -> ElectLeadersRequest:
    return ElectLeadersRequest((TopicPartitions(topic, (0,)),), LIMIT_MS, kind)


# --- topics ---------------------------------------------------------------------------------------------------------


async def test_a_topic_is_created_grown_and_deleted_for_every_agent(tmp_path: Path) -> None:
    async with bench(tmp_path) as made, await connected_to(made.app) as client:
        create = CreateTopicsRequest((CreatableTopic("orders", 3, 2),), LIMIT_MS)
        (row,) = (await ask(client, create, CreateTopicsResponse)).topics
        assert (row.error, row.num_partitions, row.replication_factor) == (0, 3, 2)
        for number in made.agents:
            shown = await made.described(number, "orders")
            assert (len(shown.partitions), shown.topic_id) == (3, row.topic_id)
        (row,) = (await ask(client, create, CreateTopicsResponse)).topics
        assert (row.error, row.message) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists.")

        grow = CreatePartitionsRequest((GrowableTopic("orders", 5),), LIMIT_MS)
        assert (await ask(client, grow, CreatePartitionsResponse)).topics == (GrownTopic("orders", 0),)
        for number in made.agents:
            assert len((await made.described(number, "orders")).partitions) == 5
        (again,) = (await ask(client, grow, CreatePartitionsResponse)).topics
        assert (again.error, again.message) == (ErrorCode.INVALID_PARTITIONS, "Topic already has 5 partitions.")

        delete = DeleteTopicsRequest((DeletableTopic("orders"),), LIMIT_MS)
        assert (await ask(client, delete, DeleteTopicsResponse)).topics == (DeletedTopic("orders", None, 0),)
        await is_gone(made, "orders")


async def is_gone(made: Bench, topic: str) -> None:
    """No agent shows the topic; its znodes and directories go."""
    for number in made.agents:
        assert (await made.described(number, topic)).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await reach(lambda: made.zookeeper.model.node(paths.topic(topic)) is None)
    await reach(lambda: all(not agent.loop.state.removal.pending for agent in made.agents.values()))


async def test_a_topic_is_deleted_by_its_id(tmp_path: Path) -> None:
    async with bench(tmp_path) as made, await connected_to(made.app) as client:
        (row,) = (await ask(client, placed("orders", (1, 2)), CreateTopicsResponse)).topics
        delete = DeleteTopicsRequest((DeletableTopic(None, row.topic_id),), LIMIT_MS)
        deleted = (await ask(client, delete, DeleteTopicsResponse)).topics
        assert deleted == (DeletedTopic("orders", row.topic_id, 0),)
        await is_gone(made, "orders")
        deleted = (await ask(client, delete, DeleteTopicsResponse)).topics
        assert deleted == (DeletedTopic(None, row.topic_id, ErrorCode.UNKNOWN_TOPIC_ID),)


@pytest.mark.parametrize("version", range(8))
async def test_every_version_of_the_requests_about_topics(tmp_path: Path, version: int) -> None:
    def at(api: ApiKey) -> int:
        return min(version, SPOKEN[api].max)

    async with bench(tmp_path) as made, await connected_to(made.app) as client:
        create = placed("orders", (1, 2), (2, 3))
        created = await ask(client, create, CreateTopicsResponse, version)
        assert errors_of(created) == (0,)
        again = await ask(client, create, CreateTopicsResponse, version)
        (row,) = again.topics
        assert (row.error, row.message) == (
            ErrorCode.TOPIC_ALREADY_EXISTS,
            "Topic 'orders' already exists." if version else None,
        )
        grow = CreatePartitionsRequest((GrowableTopic("orders", 3, ((3, 1),)),), LIMIT_MS)
        assert errors_of(await ask(client, grow, CreatePartitionsResponse, at(ApiKey.CREATE_PARTITIONS))) == (0,)
        assert (await made.described(1, "orders")).partitions[2].replicas == (3, 1)
        delete = DeleteTopicsRequest((DeletableTopic("orders"),), LIMIT_MS)
        assert errors_of(await ask(client, delete, DeleteTopicsResponse, at(ApiKey.DELETE_TOPICS))) == (0,)
        await is_gone(made, "orders")


async def test_what_is_only_to_be_validated_is_not_written(tmp_path: Path) -> None:
    async with bench(tmp_path) as made, await connected_to(made.app) as client:
        create = CreateTopicsRequest((CreatableTopic("orders", 3, 2),), LIMIT_MS, validate_only=True)
        (row,) = (await ask(client, create, CreateTopicsResponse)).topics
        assert (row.error, row.num_partitions) == (0, 3)
        assert made.zookeeper.model.node(paths.topic("orders")) is None
        await ask(client, placed("there", (1,)), CreateTopicsResponse)
        grow = CreatePartitionsRequest((GrowableTopic("there", 4),), LIMIT_MS, validate_only=True)
        assert (await ask(client, grow, CreatePartitionsResponse)).topics == (GrownTopic("there", 0),)
        assert len((await made.described(2, "there")).partitions) == 1


async def test_a_client_is_answered_when_its_time_is_over_and_the_work_goes_on(tmp_path: Path) -> None:
    async with bench(tmp_path) as made, await connected_to(made.app) as client:
        at_once = CreateTopicsRequest((CreatableTopic("orders", 2, 2),), 0)
        (row,) = (await ask(client, at_once, CreateTopicsResponse)).topics
        assert row == CreatedTopic("orders", ErrorCode.REQUEST_TIMED_OUT, topic_id=row.topic_id)
        delete = DeleteTopicsRequest((DeletableTopic("orders"),), 0)
        (gone,) = (await ask(client, delete, DeleteTopicsResponse)).topics
        assert gone == DeletedTopic("orders", None, ErrorCode.REQUEST_TIMED_OUT)
        await reach(lambda: made.zookeeper.model.node(paths.topic("orders")) is None)
        late = CreateTopicsRequest(placed("nowhere", (8, 9)).topics, 50)
        (row,) = (await ask(client, late, CreateTopicsResponse)).topics
        assert row.error == ErrorCode.REQUEST_TIMED_OUT


# --- partitions -----------------------------------------------------------------------------------------------------


async def test_a_partition_moves_and_its_preferred_leader_is_elected(tmp_path: Path) -> None:
    async with bench(tmp_path) as made, await connected_to(made.app) as client:
        await ask(client, placed("orders", (1, 2)), CreateTopicsResponse)
        altered = await ask(client, move("orders", (3, 1)), AlterPartitionReassignmentsResponse)
        assert altered == AlterPartitionReassignmentsResponse((TopicOutcome("orders", (PartitionOutcome(0, 0),)),))
        await reach(lambda: not made.app.loop.context.cluster.reassignments)
        whole = ListPartitionReassignmentsRequest(None, LIMIT_MS)
        assert (await ask(client, whole, ListPartitionReassignmentsResponse)).topics == ()
        assert await made.leader("orders") == 1
        elected = await ask(client, elect("orders", ElectionKind.PREFERRED), ElectLeadersResponse)
        assert elected == ElectLeadersResponse((TopicOutcome("orders", (PartitionOutcome(0, 0),)),))
        assert await made.leader("orders") == 3
        for version in range(3):
            elected = await ask(client, elect("orders", ElectionKind.PREFERRED), ElectLeadersResponse, version)
            (row,) = elected.topics[0].partitions
            assert row.error == ErrorCode.ELECTION_NOT_NEEDED


async def test_a_reassignment_is_listed_and_cancelled(tmp_path: Path) -> None:
    async with bench(tmp_path, catch_up_ms=NEVER_MS) as made, await connected_to(made.app) as client:
        await ask(client, placed("orders", (1, 2)), CreateTopicsResponse)
        await ask(client, move("orders", (1, 3)), AlterPartitionReassignmentsResponse)
        whole = ListPartitionReassignmentsRequest(None, LIMIT_MS)
        moving = MovingTopic("orders", (MovingPartition(0, (1, 3, 2), (3,), (2,)),))
        assert (await ask(client, whole, ListPartitionReassignmentsResponse)).topics == (moving,)
        one = ListPartitionReassignmentsRequest((TopicPartitions("other", (0,)),), LIMIT_MS)
        assert (await ask(client, one, ListPartitionReassignmentsResponse)).topics == ()
        cancelled = await ask(client, move("orders", None), AlterPartitionReassignmentsResponse)
        assert errors_of(cancelled) == (0, 0)
        # It is over when broker 3 has deleted its replica.
        await reach(lambda: not made.app.loop.context.cluster.reassignments)
        assert (await ask(client, whole, ListPartitionReassignmentsResponse)).topics == ()
        again = await ask(client, move("orders", None), AlterPartitionReassignmentsResponse)
        (row,) = again.topics[0].partitions
        assert (row.error, row.message) == (
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            "No partition reassignment is in progress.",
        )
        await reach(lambda: not made.app.loop.context.cluster.outstanding)
        assert (await made.described(3, "orders")).partitions[0].replicas == (1, 2)


@pytest.mark.parametrize("version", [1, 2])
async def test_an_unclean_leader_is_elected_on_request_alone(tmp_path: Path, version: int) -> None:
    async with bench(tmp_path, catch_up_ms=NEVER_MS) as made, await connected_to(made.app) as client:
        await ask(client, placed("orders", (1, 2)), CreateTopicsResponse)
        await made.stop(2)
        await made.stop(1)
        await made.start(2)
        await reach(lambda: not made.app.loop.context.cluster.outstanding)
        assert await made.leader("orders") == LEADER_NONE
        elected = await ask(client, elect("orders", ElectionKind.PREFERRED), ElectLeadersResponse, version)
        (row,) = elected.topics[0].partitions
        assert row.error == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        elected = await ask(client, elect("orders", ElectionKind.UNCLEAN), ElectLeadersResponse, version)
        assert errors_of(elected) == (0, 0)
        assert await made.leader("orders") == 2


# --- control --------------------------------------------------------------------------------------------------------


REQUESTS: list[AdminRequest] = [
    placed("orders", (1, 2)),
    DeleteTopicsRequest((DeletableTopic("orders"),), LIMIT_MS),
    CreatePartitionsRequest((GrowableTopic("orders", 4),), LIMIT_MS),
    elect("orders", ElectionKind.PREFERRED),
    move("orders", (2, 1)),
    ListPartitionReassignmentsRequest(None, LIMIT_MS),
    AlterUserScramCredentialsRequest((ScramDeletion("u", 1),), ()),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: api_of_request(each).name)
async def test_one_that_stands_by_answers_every_version_that_it_is_not_the_controller(request_: AdminRequest) -> None:
    zookeeper = FakeZooKeeper()
    async with controller(zookeeper) as one:
        await becomes(one, Role.ACTIVE)
        async with controller(zookeeper, 1002) as two, await connected_to(two) as client:
            await becomes(two, Role.STANDING_BY)
            low, high = SPOKEN[api_of_request(request_)]
            for version in range(low, high + 1):
                answer: Response = await client.request(request_, version)
                expected = error_response(request_, ErrorCode.NOT_CONTROLLER)
                assert type(answer) is type(expected)
                # ElectLeaders has an error for the whole request from version 1 on.
                assert set(errors_of(answer)) - {0} == {ErrorCode.NOT_CONTROLLER}
            assert zookeeper.model.node(paths.topic("orders")) is None


async def test_control_that_is_lost_is_told_to_clients_that_wait(tmp_path: Path) -> None:
    async with bench(tmp_path) as made, await connected_to(made.app) as client, asyncio.TaskGroup() as group:
        waiting = group.create_task(ask(client, placed("nowhere", (8, 9)), CreateTopicsResponse))
        await reach(lambda: made.app.loop.context.cluster.client_waits)
        made.zookeeper.expire(made.app.loop.context.session_id)
        (row,) = (await waiting).topics
        assert row.error == ErrorCode.NOT_CONTROLLER
        # The topic was written before; the next term has it.
        await reach(lambda: made.app.loop.context.cluster.epoch == 2)
        await becomes(made.app, Role.ACTIVE)
        assert "nowhere" in made.app.loop.context.cluster.topics
