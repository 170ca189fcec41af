"""`lethe partitions reassign`: what may be moved, the request and its merging, cancelling, proposals, sizes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lethe.admin import topic_znodes
from lethe.admin.assignment_proposal import proposal
from lethe.admin.partition_names import Selector
from lethe.admin.partition_requests import RequestTooLarge, portions, request_reassignment
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.answer import Answer
from lethe.cli.partitions_reassign import ReassignmentOptions, cancellation, reassignment
from lethe.cli.topics_create import creation
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import Broker, BrokerId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete, SetData
from lethe.protocol.zookeeper.znodes import ControllerZnode, encode_controller, encode_reassignment
from lethe.survey.views import BrokerAnswers, Directory, LogDirSource, LogDirView
from tests.fakes.questions import agrees, declines
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, bring_online, elect

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
BILLS_0 = TopicPartition("bills", 0)


@pytest.fixture
async def cluster(session: FakeSession) -> FakeSession:
    await creation(session, TopicCreationRequest("orders", assignment=((1, 2), (2, 3))))
    await creation(session, TopicCreationRequest("bills", assignment=((1,),)))
    await bring_online(session, "orders", {0: (1, 2), 1: (2, 3)})
    await elect(session, 1)
    return session


async def _lethe_leads(session: FakeSession) -> None:
    znode = ControllerZnode(BrokerId(1001), 7, admin="http://localhost:1")
    await apply(session, Delete(paths.CONTROLLER))
    await apply(session, Create(paths.CONTROLLER, encode_controller(znode), ephemeral=True))


def _data(answer: Answer) -> Any:
    return answer.data


async def test_a_move_is_shown_agreed_to_and_requested(
    cluster: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Refusal, match="nothing was done"):
        await reassignment(cluster, {ORDERS_0: (3, 1)}, ReassignmentOptions(confirm=declines))
    assert await topic_znodes.requested_reassignments(cluster) == {}
    assert "orders-0: [1,2] -> [3,1], adding [3], removing [2]" in capsys.readouterr().err
    answer = await reassignment(cluster, {ORDERS_0: (3, 1), ORDERS_1: (2, 3)}, ReassignmentOptions(confirm=agrees))
    assert await topic_znodes.requested_reassignments(cluster) == {ORDERS_0: (3, 1)}
    assert answer.lines[-1] == '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2]}]}'
    assert _data(answer)["rollback"]["partitions"] == [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]


async def test_a_dry_run_requests_nothing(cluster: FakeSession) -> None:
    answer = await reassignment(cluster, {ORDERS_0: (3, 1)}, ReassignmentOptions(dry_run=True))
    assert answer.lines[0] == "Would move:"
    assert _data(answer)["requested"] is False
    assert await topic_znodes.requested_reassignments(cluster) == {}


async def test_nothing_is_requested_for_what_is_so_already(cluster: FakeSession) -> None:
    answer = await reassignment(cluster, {ORDERS_0: (1, 2)}, ReassignmentOptions())
    assert answer.lines == ("All of these partitions have these replicas already.",)
    assert await topic_znodes.requested_reassignments(cluster) == {}


@pytest.mark.parametrize(
    "partition,target,words",
    [
        (TopicPartition("nothing", 0), (1,), "'nothing' does not exist"),
        (TopicPartition("orders", 7), (1,), "orders has no partition 7"),
        (ORDERS_1, (2, 9), r"orders-1 would move to brokers that are not registered: \[9\]"),
        (TopicPartition("poison", 0), (1,), "/brokers/topics/poison cannot be understood"),
        (BILLS_0, (2,), "bills is marked for deletion"),
    ],
)
async def test_one_that_cannot_be_moved_keeps_the_others_too(
    cluster: FakeSession, partition: TopicPartition, target: tuple[int, ...], words: str
) -> None:
    await apply(cluster, Create(paths.topic("poison"), b"\x00"))
    await topic_znodes.mark_for_deletion(cluster, ["bills"])
    with pytest.raises(Refusal, match=words):
        await reassignment(cluster, {ORDERS_0: (3, 1), partition: target}, ReassignmentOptions())
    assert await topic_znodes.requested_reassignments(cluster) == {}


async def test_a_replica_that_stays_may_be_down(cluster: FakeSession) -> None:
    await apply(cluster, Delete(paths.broker_id(2)))
    await reassignment(cluster, {ORDERS_0: (3, 2)}, ReassignmentOptions())
    assert await topic_znodes.requested_reassignments(cluster) == {ORDERS_0: (3, 2)}


async def test_a_request_is_added_to_only_where_somebody_looks(cluster: FakeSession) -> None:
    await reassignment(cluster, {ORDERS_0: (3, 1)}, ReassignmentOptions())
    with pytest.raises(Refusal, match="not what is added to it") as refusal:
        await reassignment(cluster, {ORDERS_1: (1, 3)}, ReassignmentOptions())
    assert "controller 1 is not Lethe's" in str(refusal.value)
    assert await topic_znodes.requested_reassignments(cluster) == {ORDERS_0: (3, 1)}
    await _lethe_leads(cluster)
    await reassignment(cluster, {ORDERS_1: (1, 3)}, ReassignmentOptions())
    assert await topic_znodes.requested_reassignments(cluster) == {ORDERS_0: (3, 1), ORDERS_1: (1, 3)}


async def test_merging_for_kafkas_controller_is_warned_of(
    cluster: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    await reassignment(cluster, {ORDERS_0: (3, 1)}, ReassignmentOptions())
    await reassignment(cluster, {ORDERS_1: (1, 3)}, ReassignmentOptions(may_merge=True))
    assert "acts on it after the next change" in capsys.readouterr().err
    assert len(await topic_znodes.requested_reassignments(cluster)) == 2


async def test_a_request_that_nobody_understands_is_left_alone(cluster: FakeSession) -> None:
    await apply(cluster, Create(paths.REASSIGN_PARTITIONS, b"rubbish"))
    with pytest.raises(Refusal, match="nothing was added to it"):
        await reassignment(cluster, {ORDERS_0: (3, 1)}, ReassignmentOptions(may_merge=True))


class Racing:
    """A session in which another tool requests something between our read and our write."""

    def __init__(self, session: FakeSession, *operations: Any) -> None:
        self._session = session
        self._operations = list(operations)

    async def multi(self, operations: Any) -> Any:
        if self._operations:
            await apply(self._session, self._operations.pop(0))
        return await self._session.multi(operations)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


async def test_who_requests_in_between_loses_nothing(cluster: FakeSession) -> None:
    both = encode_reassignment({BILLS_0: (2,), ORDERS_1: (3, 2)})
    racing: Any = Racing(
        cluster,
        Create(paths.REASSIGN_PARTITIONS, encode_reassignment({BILLS_0: (2,)})),
        SetData(paths.REASSIGN_PARTITIONS, both, 0),
    )
    outcome = await request_reassignment(racing, {ORDERS_0: (3, 1)}, may_merge=True)
    assert outcome.was_done
    assert await topic_znodes.requested_reassignments(cluster) == {
        BILLS_0: (2,), ORDERS_1: (3, 2), ORDERS_0: (3, 1),
    }  # fmt: skip


async def test_more_than_a_znode_holds_is_refused_with_a_remedy(cluster: FakeSession) -> None:
    many = {TopicPartition("t" * 200, number): (1, 2, 3) for number in range(5_000)}
    with pytest.raises(RequestTooLarge, match="move fewer partitions at a time"):
        await request_reassignment(cluster, many, may_merge=True)
    cut = list(portions(list(many)))
    assert [tp for portion in cut for tp in portion] == list(many)
    assert len(cut) == 2


async def test_cancelling_writes_the_replicas_from_before(cluster: FakeSession) -> None:
    with pytest.raises(Refusal, match="no reassignment in progress"):
        await cancellation(cluster, [], ReassignmentOptions())
    moving = b'{"version":3,"partitions":{"0":[3,1],"1":[1]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}'
    await apply(cluster, Create(paths.topic("moving"), moving))
    answer = await cancellation(cluster, [], ReassignmentOptions())
    assert await topic_znodes.requested_reassignments(cluster) == {TopicPartition("moving", 0): (1,)}
    assert "instead of the reassignment to [3] in progress" in answer.lines[0]
    with pytest.raises(Refusal, match="no reassignment of these"):
        await cancellation(cluster, [Selector("orders", 0)], ReassignmentOptions())


async def test_what_is_only_requested_can_be_cancelled(cluster: FakeSession) -> None:
    await reassignment(cluster, {ORDERS_0: (3, 1), ORDERS_1: (1, 3)}, ReassignmentOptions())
    await _lethe_leads(cluster)
    await cancellation(cluster, [Selector("orders", 0)], ReassignmentOptions())
    assert await topic_znodes.requested_reassignments(cluster) == {ORDERS_0: (1, 2), ORDERS_1: (1, 3)}


async def test_a_proposal_keeps_the_number_of_replicas(cluster: FakeSession) -> None:
    current, proposed = await proposal(cluster, ["orders"], [2, 3], rng=random.Random(1))
    assert current == {ORDERS_0: (1, 2), ORDERS_1: (2, 3)}
    assert {tuple(sorted(replicas)) for replicas in proposed.values()} == {(2, 3)}
    assert {replicas[0] for replicas in proposed.values()} == {2, 3}
    for names, brokers, words in (
        (["nothing"], [1], "does not exist"),
        (["orders"], [1, 9], r"not registered: \[9\]"),
        (["orders"], [1], "replication factor 2 is larger"),
    ):
        with pytest.raises(Refusal, match=words):
            await proposal(cluster, names, brokers)


async def test_sizes_are_the_leaders(cluster: FakeSession) -> None:
    async def ask(broker: Broker) -> BrokerAnswers:
        size = {1: 100, 2: 7}[broker.id]
        directory = Directory("orders-0", DirectoryKind.REPLICA, ORDERS_0, size)
        return BrokerAnswers(broker.id, log_dirs=(LogDirView(broker.id, "/d", LogDirSource.BROKER, (directory,)),))

    answer = await reassignment(
        cluster, {ORDERS_0: (3, 1), ORDERS_1: (1, 3)}, ReassignmentOptions(ask=ask, dry_run=True)
    )
    assert [move["size_bytes"] for move in _data(answer)["moves"]] == [100, None]
    assert answer.lines[-1] == "Bytes to copy: 100, and 1 partition of unknown size"


async def test_waiting_sees_the_end(cluster: FakeSession) -> None:
    late = await reassignment(cluster, {ORDERS_0: (3, 1)}, ReassignmentOptions(wait_ms=1))
    assert late.exit is Exit.TIMED_OUT
    assert late.tables[0].rows[0][-2:] == ("requested", "the controller to begin")
    await apply(cluster, Delete(paths.REASSIGN_PARTITIONS))
    await apply(cluster, SetData(paths.topic("bills"), b'{"version":3,"partitions":{"0":[3,1]}}', -1))

    class Controller:
        """Carries the request out as soon as it is made."""

        async def multi(self, operations: Any) -> Any:
            outcome = await cluster.multi(operations)
            if operations[0].path == paths.REASSIGN_PARTITIONS:
                await apply(
                    cluster,
                    SetData(paths.topic("bills"), b'{"version":3,"partitions":{"0":[3]}}', -1),
                    Delete(paths.REASSIGN_PARTITIONS),
                )
            return outcome

        def __getattr__(self, name: str) -> Any:
            return getattr(cluster, name)

    session: Any = Controller()
    done = await reassignment(session, {BILLS_0: (3,)}, ReassignmentOptions(wait_ms=60_000))
    assert done.exit is Exit.OK
    refused = await reassignment(session, {BILLS_0: (2,)}, ReassignmentOptions(wait_ms=60_000))
    assert refused.exit is Exit.NO
    assert refused.tables[0].rows[0][-2] == "otherwise"


async def test_a_request_that_cannot_be_understood_is_not_the_lack_of_one(cluster: FakeSession) -> None:
    await apply(cluster, Create(paths.REASSIGN_PARTITIONS, b"{"))
    with pytest.raises(Refusal, match="/admin/reassign_partitions cannot be understood") as refusal:
        await cancellation(cluster, [], ReassignmentOptions())
    assert refusal.value.exit is Exit.UNREACHABLE
