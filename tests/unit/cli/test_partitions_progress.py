"""`lethe partitions reassign --list` and `--verify`: where each partition is on its way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lethe.admin.partition_names import parse_selector
from lethe.admin.reassignment_plans import Move
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.partitions_progress import list_reassignments, verification, wait_until_moved
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, SetData
from lethe.protocol.zookeeper.znodes import encode_reassignment, encode_state
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, bring_online


@pytest.fixture
async def cluster(session: FakeSession) -> FakeSession:
    """Topic t: partition 0 gets replicas on 3 (in sync) and 9 (not there), 1 loses one, 2 and 3 stay."""
    body = {
        "version": 3,
        "partitions": {"0": [3, 9, 1], "1": [1, 2], "2": [1], "3": [1]},
        "adding_replicas": {"0": [3, 9]},
        "removing_replicas": {"0": [1], "1": [2]},
    }
    await apply(session, Create(paths.topic("t"), json.dumps(body).encode()))
    await bring_online(session, "t", {0: (1, 3), 1: (1, 2), 2: (1,), 3: (1,)})
    requested = {TopicPartition("t", 2): (2,), TopicPartition("gone", 0): (1,)}
    await apply(session, Create(paths.REASSIGN_PARTITIONS, encode_reassignment(requested)))
    return session


async def test_the_list(cluster: FakeSession) -> None:
    answer = await list_reassignments(cluster)
    assert [row[0:2] + row[4:] for row in answer.tables[0].rows] == [
        ("t", "0", "moving", "1 of 2 adding replicas in sync; brokers 9 are not registered"),
        ("t", "1", "moving", "the controller to finish it"),
        ("t", "2", "requested", "the controller to begin"),
        ("gone", "0", "gone", "there is no such partition"),
    ]
    data: Any = (await list_reassignments(cluster, [parse_selector("t:0")])).data
    assert [(one["partition"], one["target"]) for one in data] == [(0, [3, 9])]
    with pytest.raises(Refusal, match="no partition 9"):
        await list_reassignments(cluster, [parse_selector("t:9")])


async def test_verification(cluster: FakeSession) -> None:
    def tp(number: int) -> TopicPartition:
        return TopicPartition("t", number)

    assert (await verification(cluster, {tp(3): (1,)})).exit is Exit.OK
    moving = await verification(cluster, {tp(0): (3, 9), tp(3): (1,)})
    assert moving.exit is Exit.TIMED_OUT
    assert moving.lines == ("1 of 2 partitions have the requested replicas.",)
    other = await verification(cluster, {tp(0): (2,), tp(3): (2,), tp(7): (2,)})
    assert other.exit is Exit.NO
    assert [row[4] for row in other.tables[0].rows] == ["moving", "otherwise", "gone"]
    assert "instead" in other.tables[0].rows[0][5]


async def test_an_unreadable_topic_is_unseen_and_does_not_end_the_wait(cluster: FakeSession) -> None:
    await apply(cluster, SetData(paths.topic("t"), b"{", ANY_VERSION))
    answer = await verification(cluster, {TopicPartition("t", 3): (1,)})
    assert answer.exit is Exit.UNREACHABLE
    assert [row[4] for row in answer.tables[0].rows] == ["unseen"]
    move = Move(TopicPartition("t", 3), ReplicaAssignment((1,)), (1,))
    waited = await wait_until_moved(cluster, [move], timeout_ms=1, quiet=True)
    assert waited.exit is Exit.UNREACHABLE
    listed = await list_reassignments(cluster)
    assert listed.exit is Exit.UNREACHABLE
    assert [row[:2] + row[4:5] for row in listed.tables[0].rows] == [("t", "2", "unseen"), ("gone", "0", "gone")]


async def test_an_unreadable_request_may_still_move_a_partition(cluster: FakeSession) -> None:
    await apply(cluster, SetData(paths.REASSIGN_PARTITIONS, b"{", ANY_VERSION))
    answer = await verification(cluster, {TopicPartition("t", 3): (2,)})
    assert answer.exit is Exit.UNREACHABLE
    (row,) = answer.tables[0].rows
    assert row[4] == "unseen"
    assert row[5].startswith("whether it is to be moved is not known: znode /admin/reassign_partitions cannot be")
    listed = await list_reassignments(cluster)
    assert listed.exit is Exit.UNREACHABLE
    assert listed.lines[0] == "2 partitions are being reassigned, or asked to be, as far as can be seen."


async def test_a_registration_that_cannot_be_understood_is_no_absence(cluster: FakeSession) -> None:
    await apply(cluster, Create(paths.broker_id(BrokerId(9)), b"{"))
    waits = (await list_reassignments(cluster)).tables[0].rows[0][5]
    assert waits == "1 of 2 adding replicas in sync; the registrations of brokers 9 cannot be understood"


async def test_a_partition_without_a_leader_waits_for_one(cluster: FakeSession) -> None:
    """No replica catches up meanwhile, though broker 3 is registered."""
    state = encode_state(LeaderAndIsr(-1, 0, (7,), 1))
    await apply(cluster, SetData(paths.partition_state("t", 0), state, ANY_VERSION))
    waits = (await list_reassignments(cluster)).tables[0].rows[0][5]
    assert waits == "a leader (in sync: brokers 7); 0 of 2 adding replicas in sync; brokers 9 are not registered"


async def test_an_unreadable_state_is_no_empty_isr(cluster: FakeSession) -> None:
    state = paths.partition_state("t", 0)
    await apply(cluster, SetData(state, b"{", ANY_VERSION))
    answer = await list_reassignments(cluster)
    assert answer.exit is Exit.UNREACHABLE
    assert answer.tables[0].rows[0][5].startswith(f"its state is unseen: znode {state} cannot be understood")
    assert any(line.startswith(state) for line in answer.lines)
