"""`lethe topics list` and `describe`: kafka-topics.sh's lines, filters, and what is not there."""

from __future__ import annotations

from typing import Any

import pytest

from lethe.admin import topic_znodes
from lethe.admin.deletion_requests import pause_deletions
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.topics_create import creation
from lethe.cli.topics_describe import Filters, description
from lethe.cli.topics_list import listing
from lethe.protocol.vocabulary import TopicPartition, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, SetData
from lethe.protocol.zookeeper.znodes import encode_reassignment
from tests.fakes.forbidden_znodes import NO_AUTH, forbidding
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, bring_online


@pytest.fixture
async def cluster(session: FakeSession) -> FakeSession:
    await creation(session, TopicCreationRequest("orders", assignment=((1, 2), (2, 3)), config={"retention.ms": "5"}))
    await creation(session, TopicCreationRequest("bills", assignment=((3, 1),)))
    await creation(session, TopicCreationRequest("__consumer_offsets", assignment=((1,),)))
    await bring_online(session, "orders", {0: (1, 2), 1: (2,)})
    await bring_online(session, "bills", {0: (9, 3)})
    await topic_znodes.mark_for_deletion(session, ["bills"])
    return session


async def test_list(cluster: FakeSession) -> None:
    assert (await listing(cluster)).lines == ("__consumer_offsets", "bills - marked for deletion", "orders")
    assert (await listing(cluster, exclude_internal=True)).lines == ("bills - marked for deletion", "orders")
    assert (await listing(cluster, ["o.*"])).lines == ("orders",)
    both = await listing(cluster, ["o.*", "bills"])
    assert [line.split()[0] for line in both.lines] == ["bills", "orders"]


async def test_a_name_that_means_no_topic_is_no_success(
    cluster: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = await listing(cluster, ["ordes", "bills"])
    assert (answer.lines, answer.exit) == (("bills - marked for deletion",), Exit.NO)
    assert capsys.readouterr().err == "lethe: topic 'ordes' does not exist; did you mean orders?\n"


async def test_a_mark_without_a_topic_is_shown(cluster: FakeSession) -> None:
    await apply(cluster, Create(paths.delete_topic("ghost"), None))
    answer = await listing(cluster, ["ghost"])
    assert answer.lines == ("ghost - marked for deletion, but there is no such topic",)
    assert answer.data == [
        {
            "topic": "ghost",
            "exists": False,
            "marked_for_deletion": True,
            "deletion_paused": False,
            "being_reassigned": False,
            "reassignment_unseen": None,
        }
    ]


async def test_describe_has_the_lines_of_kafkas_tool(cluster: FakeSession) -> None:
    (topic,) = await topic_znodes.describe(cluster, ["orders"], ())
    assert topic.topic_id is not None
    text = topic_id_to_text(topic.topic_id)
    answer = await description(cluster, ["orders"])
    assert answer.lines == (
        f"Topic: orders\tTopicId: {text}\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: retention.ms=5",
        "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2",
        "\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2",
    )


async def test_describe_says_what_is_marked_and_what_has_no_leader(cluster: FakeSession) -> None:
    answer = await description(cluster, ["bills"])
    assert answer.lines[0].endswith("\tMarkedForDeletion: true")
    assert answer.lines[1].endswith("Leader: 9\tReplicas: 3,1\tIsr: 9,3\tMarkedForDeletion: true")
    assert (await description(cluster, ["__consumer_offsets"])).lines[1].endswith("Leader: none\tReplicas: 1\tIsr: ")


async def test_filters(cluster: FakeSession) -> None:
    under = await description(cluster, filters=Filters(under_replicated=True, exclude_internal=True))
    assert under.lines == ("\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2",)
    unavailable = await description(cluster, filters=Filters(unavailable=True))
    assert [line.split("\t")[1] for line in unavailable.lines] == ["Topic: __consumer_offsets", "Topic: bills"]


async def test_a_topic_that_is_not_there(cluster: FakeSession) -> None:
    with pytest.raises(Refusal, match="'nothing' does not exist") as refusal:
        await description(cluster, ["nothing"])
    assert refusal.value.exit is Exit.NO
    assert (await description(cluster, ["nothing"], Filters(if_exists=True))).lines == ()
    with pytest.raises(Refusal, match="'ordes' does not exist; did you mean orders?"):
        await description(cluster, ["bills", "ordes"])


async def test_a_poisoned_topic_is_told_and_hides_no_other(cluster: FakeSession) -> None:
    await apply(cluster, Create(paths.topic("poison"), b"\x00"))
    answer = await description(cluster)
    assert answer.exit is Exit.NO
    assert answer.lines[-1].startswith("Topic: poison\tProblem: znode /brokers/topics/poison cannot be understood")
    assert any(line.startswith("Topic: orders\t") for line in answer.lines)


async def test_pause_and_reassignment_are_shown(cluster: FakeSession) -> None:
    requested = encode_reassignment({TopicPartition("orders", 0): (3,)})
    await pause_deletions(cluster, 7, "")
    await apply(
        cluster,
        Create(paths.topic("moving"), b'{"version":3,"partitions":{"0":[1,2]},"removing_replicas":{"0":[2]}}'),
        Create(paths.topic("poison"), b"\x00"),
        Create(paths.REASSIGN_PARTITIONS, requested),
    )
    assert (await listing(cluster, exclude_internal=True)).lines == (
        "bills - marked for deletion, which is paused",
        "moving - being reassigned",
        "orders - being reassigned",
        "poison - whether it is being reassigned is unseen",
    )
    assert (await description(cluster, ["moving"])).lines[0].endswith("\tBeingReassigned: 1")
    assert (await description(cluster, ["bills"])).lines[0].endswith("\tMarkedForDeletion: true\tDeletionPaused: true")


async def test_a_reassignment_that_is_only_asked_for_is_pending(cluster: FakeSession) -> None:
    moving = b'{"version":3,"partitions":{"0":[3,1],"1":[1]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}'
    asked = {("orders", 0): (3,), ("orders", 1): (2, 3), ("moving", 0): (3,), ("moving", 1): (2,)}
    request = encode_reassignment({TopicPartition(*partition): wanted for partition, wanted in asked.items()})
    await apply(cluster, Create(paths.topic("moving"), moving), Create(paths.REASSIGN_PARTITIONS, request))
    orders = await description(cluster, ["orders"])
    assert orders.lines[0].endswith("\tReassignmentPending: 1")
    assert orders.lines[1].endswith("\tIsr: 1,2\tPending Replicas: 3")
    assert orders.lines[2].endswith("\tIsr: 2"), "it has what is asked for"
    both = await description(cluster, ["moving"])
    assert both.lines[0].endswith("\tBeingReassigned: 1\tReassignmentPending: 1")
    assert both.lines[1].endswith("\tAdding Replicas: 3\tRemoving Replicas: 1"), "that is what is asked for"
    assert both.lines[2].endswith("\tPending Replicas: 2")
    assert isinstance(both.data, list)
    (topic,) = both.data
    assert isinstance(topic, dict)
    assert (topic["being_reassigned"], topic["reassignment_pending"]) == (True, True)
    assert isinstance(topic["partitions"], list)
    assert [row["pending_replicas"] for row in topic["partitions"] if isinstance(row, dict)] == [None, [2]]


async def test_a_request_that_cannot_be_understood_hides_no_topic(
    cluster: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    await apply(cluster, Create(paths.REASSIGN_PARTITIONS, b"\x00"))
    described = await description(cluster, ["orders", "bills"])
    assert "Pending" not in "\n".join(described.lines)
    assert described.exit is Exit.UNREACHABLE
    unseen = "Whether reassignments are pending is unseen: znode /admin/reassign_partitions cannot be understood"
    assert [line.startswith(unseen) for line in described.lines[-2:]] == [False, True], "once"
    assert isinstance(described.data, list)
    assert [topic["reassignment_pending"] for topic in described.data if isinstance(topic, dict)] == [None, None]
    listed = await listing(cluster, ["orders"])
    assert (listed.lines, listed.exit) == (("orders - whether it is being reassigned is unseen",), Exit.UNREACHABLE)
    assert "/admin/reassign_partitions cannot be understood" in capsys.readouterr().err


async def test_a_partition_state_that_cannot_be_understood_is_not_the_lack_of_a_leader(cluster: FakeSession) -> None:
    await apply(cluster, SetData(paths.partition_state("orders", 1), b"{", ANY_VERSION))
    answer = await description(cluster, ["orders"])
    assert answer.lines[2].endswith("Leader: unseen\tReplicas: 2,3\tIsr: unseen")
    assert answer.exit is Exit.NO
    data: Any = answer.data
    partition = data[0]["partitions"][1]
    assert (partition["unavailable"], partition["under_replicated"]) == (None, None)
    assert "/brokers/topics/orders/partitions/1/state" in partition["state_unseen"]


async def test_a_topic_that_may_not_be_read_hides_no_other_in_the_list(
    cluster: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = await listing(forbidding(cluster, paths.topic("orders")), exclude_internal=True)
    assert answer.lines == ("bills - marked for deletion", "orders - whether it is being reassigned is unseen")
    assert answer.exit is Exit.UNREACHABLE
    data: Any = answer.data
    why = f"ZooKeeper does not give the data of /brokers/topics/orders: {NO_AUTH}"
    assert [(row["being_reassigned"], row["reassignment_unseen"]) for row in data] == [(False, None), (None, why)]
    assert capsys.readouterr().err == f"lethe: {why}\n"


async def test_requests_that_may_not_be_read_hide_no_topic(cluster: FakeSession) -> None:
    session = forbidding(cluster, paths.REASSIGN_PARTITIONS)
    listed = await listing(session, ["orders"])
    assert (listed.lines, listed.exit) == (("orders - whether it is being reassigned is unseen",), Exit.UNREACHABLE)
    described = await description(session, ["orders"])
    assert described.lines[-1].startswith("Whether reassignments are pending is unseen: ZooKeeper does not give the ")
    assert described.exit is Exit.UNREACHABLE


async def test_a_topic_that_may_not_be_read_hides_no_other_when_described(cluster: FakeSession) -> None:
    answer = await description(forbidding(cluster, paths.topic("orders")), ["orders", "bills"])
    assert answer.lines[0].startswith("Topic: bills\t")
    assert (
        answer.lines[2] == "Topic: orders\tPartitionCount: unseen\tReplicationFactor: unseen\tConfigs: retention.ms=5"
    )
    assert answer.lines[3].startswith("Topic: orders\tProblem: ZooKeeper does not give the data of /brokers/topics/ord")
    assert answer.exit is Exit.UNREACHABLE
    data: Any = answer.data
    unseen = ("partition_count", "replication_factor", "being_reassigned", "reassignment_pending")
    assert [data[1][name] for name in unseen] == [None] * 4


async def test_settings_and_states_that_may_not_be_read_are_unseen(cluster: FakeSession) -> None:
    session = forbidding(cluster, paths.config_topic("orders"), paths.partition_state("orders", 0))
    answer = await description(session, ["orders"])
    assert answer.lines[0].endswith("\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: unseen")
    assert answer.lines[1].endswith("Leader: unseen\tReplicas: 1,2\tIsr: unseen")
    assert answer.lines[3].count("ZooKeeper does not give the data") == 2
    data: Any = answer.data
    assert (data[0]["config"], answer.exit) == (None, Exit.UNREACHABLE)
    await apply(cluster, Create(paths.topic("poison"), b"\x00"))
    assert (await description(session, ["orders", "poison"])).exit is Exit.NO
