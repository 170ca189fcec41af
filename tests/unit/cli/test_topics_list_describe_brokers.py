"""`lethe topics list` and `describe` through brokers: the same lines, and what brokers do not show is named."""

from __future__ import annotations

from typing import Any

import pytest

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.topics_describe import Filters, shown_description
from lethe.cli.topics_list import shown_listing
from lethe.protocol.kafka.admin_partitions import MovingPartition, MovingTopic
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataRequest
from tests.fakes.served_cluster import ServedCluster, cluster_of, topic


def served() -> ServedCluster:
    orders = topic(1, (1, 2), (2, 1), **{"retention.ms": "5"})
    return ServedCluster({"orders": orders, "bills": topic(2, (2,)), "__consumer_offsets": topic(3, (1,))})


async def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    kafka = served()
    kafka.moving = (MovingTopic("orders", (MovingPartition(0, (1, 2, 3), (3,), (1,)),)),)
    async with cluster_of(kafka) as cluster:
        answer = await shown_listing(cluster)
        assert answer.lines == ("__consumer_offsets", "bills", "orders - being reassigned")
        assert answer.exit is Exit.OK
        assert (await shown_listing(cluster, ["o.*"])).lines == ("orders - being reassigned",)
        assert (await shown_listing(cluster, exclude_internal=True)).lines == ("bills", "orders - being reassigned")
    data: Any = answer.data
    assert data[2] == {
        "topic": "orders",
        "exists": True,
        "marked_for_deletion": None,
        "deletion_paused": None,
        "being_reassigned": True,
        "reassignment_unseen": None,
        "not_shown": ["marked_for_deletion", "deletion_paused"],
    }
    assert "not shown by brokers: marked_for_deletion, deletion_paused\n" in capsys.readouterr().err


async def test_asking_creates_no_topic() -> None:
    kafka = served()
    async with cluster_of(kafka) as cluster:
        await shown_listing(cluster, ["ordes"])
    asked = kafka.requests(MetadataRequest)
    assert asked
    assert not any(each.allow_auto_topic_creation for each in asked if isinstance(each, MetadataRequest))


async def test_a_name_that_means_no_topic_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    async with cluster_of(served()) as cluster:
        answer = await shown_listing(cluster, ["ordes", "bills"])
    assert (answer.lines, answer.exit) == (("bills",), Exit.NO)
    assert "lethe: topic 'ordes' does not exist; did you mean orders?\n" in capsys.readouterr().err


async def test_a_list_that_hides_topics_is_not_complete(capsys: pytest.CaptureFixture[str]) -> None:
    kafka = served()
    kafka.hidden = frozenset({"bills"})
    async with cluster_of(kafka) as cluster:
        answer = await shown_listing(cluster)
        assert (answer.lines, answer.exit) == (("__consumer_offsets", "orders"), Exit.UNREACHABLE)
        assert "other topics may be hidden: broker 127.0.0.1" in capsys.readouterr().err
        named = await shown_listing(cluster, ["orders"])
        assert (named.lines, named.exit) == (("orders",), Exit.OK)
        gone = await shown_listing(cluster, ["bills"])
        assert gone.exit is Exit.UNREACHABLE, "nobody has seen that it does not exist"
        said = capsys.readouterr().err
        assert "topic 'bills' is not shown, and may exist" in said
        assert "does not exist" not in said
        with pytest.raises(Refusal, match="topic 'bills' is not shown, and may exist: .*grant it Describe"):
            await shown_description(cluster, ["bills"])


async def test_reassignments_that_are_refused_are_unseen(capsys: pytest.CaptureFixture[str]) -> None:
    kafka = served()
    kafka.moving_error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    async with cluster_of(kafka) as cluster:
        answer = await shown_listing(cluster, ["bills"])
        assert answer.lines == ("bills - whether it is being reassigned is unseen",)
        assert answer.exit is Exit.UNREACHABLE
        right = "CLUSTER_AUTHORIZATION_FAILED for User:ANONYMOUS; grant it Describe on the cluster\n"
        assert f"ListPartitionReassignments: {right}" in capsys.readouterr().err
        described = await shown_description(cluster, ["bills"])
    assert described.exit is Exit.UNREACHABLE
    data: Any = described.data
    assert (data[0]["being_reassigned"], data[0]["partitions"][0]["adding_replicas"]) == (None, None)


async def test_describe() -> None:
    kafka = served()
    kafka.moving = (MovingTopic("orders", (MovingPartition(0, (1, 2, 3), (3,), (1,)),)),)
    async with cluster_of(kafka) as cluster:
        answer = await shown_description(cluster, ["orders"])
        assert answer.exit is Exit.OK
        only = await shown_description(cluster, filters=Filters(unavailable=True))
        with pytest.raises(Refusal, match="topic 'ordes' does not exist; did you mean orders"):
            await shown_description(cluster, ["ordes"])
        assert (await shown_description(cluster, ["ordes"], Filters(if_exists=True))).lines == ()
    head = "Topic: orders\tTopicId: AAAAAQAAAAAAAAAAAAAAAA\tPartitionCount: 2\tReplicationFactor: 2"
    assert answer.lines == (
        f"{head}\tConfigs: retention.ms=5\tBeingReassigned: 1",
        "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2\tAdding Replicas: 3\tRemoving Replicas: 1",
        "\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2,1",
    )
    assert only.lines == ()
    data: Any = answer.data
    assert data[0]["marked_for_deletion"] is None
    assert data[0]["not_shown"] == ["marked_for_deletion", "deletion_paused", "reassignment_pending"]


async def test_partitions_whose_leader_is_missing_are_unavailable() -> None:
    kafka = served()
    kafka.leaderless = True
    async with cluster_of(kafka) as cluster:
        answer = await shown_description(cluster, ["bills"], Filters(unavailable=True))
    assert answer.lines == ("\tTopic: bills\tPartition: 0\tLeader: none\tReplicas: 2\tIsr: 2",)
