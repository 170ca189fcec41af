"""`lethe topics create` and `alter` through brokers: checked first, all or none, in the controller's words."""

from __future__ import annotations

from typing import Any

import pytest

from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_alteration import TopicChangeRequest
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.topics_alter_brokers import client_alteration
from lethe.cli.topics_create import client_creations
from lethe.protocol.kafka.admin import CreatePartitionsRequest, CreateTopicsRequest
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import topic_id_to_text
from tests.fakes.served_cluster import ServedCluster, cluster_of, topic


def served() -> ServedCluster:
    return ServedCluster({"orders": topic(1, (1, 2), (2, 1), **{"retention.ms": "5"}), "bills": topic(2, (2, 1))})


# --- create ---------------------------------------------------------------------------------------------------------


async def test_a_topic_is_created_as_asked() -> None:
    kafka = served()
    wanted = TopicCreationRequest("new", 2, 1, config={"retention.ms": "7"})
    async with cluster_of(kafka) as cluster:
        answer = await client_creations(cluster, [wanted])
    assert (answer.lines, answer.exit) == (("Created topic new.",), Exit.OK)
    assert kafka.topics["new"].config == {"retention.ms": "7"}
    made = kafka.topics["new"].topic_id
    assert answer.data == {
        "topic": "new",
        "topic_id": topic_id_to_text(made),
        "created": True,
        "dry_run": False,
        "replicas": [[1], [1]],
        "config": {"retention.ms": "7"},
    }


async def test_an_assignment_is_sent_as_it_is() -> None:
    kafka = served()
    async with cluster_of(kafka) as cluster:
        await client_creations(cluster, [TopicCreationRequest("new", assignment=((2, 1), (1, 2)))])
    assert kafka.topics["new"].replicas == ((2, 1), (1, 2))
    request = kafka.requests(CreateTopicsRequest)[1]
    assert isinstance(request, CreateTopicsRequest)
    assert (request.topics[0].num_partitions, request.topics[0].replication_factor) == (-1, -1)


async def test_none_is_created_where_one_cannot_be() -> None:
    kafka = served()
    said = "Replication factor: 9 larger than available brokers: 2."
    kafka.refusals = {"large": (ErrorCode.INVALID_REPLICATION_FACTOR, said)}
    wanted = [TopicCreationRequest("new", 1, 1), TopicCreationRequest("large", 1, 9)]
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match=f"topic large is not created: INVALID_REPLICATION_FACTOR: {said}") as refused:
            await client_creations(cluster, wanted)
    assert refused.value.exit is Exit.NO
    assert "new" not in kafka.topics


async def test_if_not_exists() -> None:
    kafka = served()
    wanted = [TopicCreationRequest("orders", 1, 1), TopicCreationRequest("new", 1, 1)]
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match="TOPIC_ALREADY_EXISTS: Topic 'orders' already exists"):
            await client_creations(cluster, wanted)
        answer = await client_creations(cluster, wanted, if_not_exists=True)
    assert answer.lines == ("Topic orders exists already.", "Created topic new.")


async def test_a_dry_run_creates_nothing_and_does_not_know_the_replicas() -> None:
    kafka = served()
    async with cluster_of(kafka) as cluster:
        answer = await client_creations(cluster, [TopicCreationRequest("new", 2, 1)], dry_run=True)
    assert answer.lines == ("Would create topic new:", "\tReplicas: the controller places them")
    data: Any = answer.data
    assert (data["created"], data["replicas"], data["not_shown"]) == (False, None, ["replicas"])
    assert "new" not in kafka.topics


async def test_a_creation_that_takes_too_long_is_unknown() -> None:
    kafka = served()
    wanted = [TopicCreationRequest("new", 1, 1)]
    async with cluster_of(kafka) as cluster:
        kafka.on_create = lambda: kafka.refusals.update(late=(ErrorCode.REQUEST_TIMED_OUT, None))
        late = [*wanted, TopicCreationRequest("late", 1, 1)]
        with pytest.raises(Refusal, match="whether topic late was created is unknown: REQUEST_TIMED_OUT") as refused:
            await client_creations(cluster, late)
    assert refused.value.exit is Exit.UNREACHABLE
    assert "Created topic new." in str(refused.value)


async def test_a_creation_whose_controller_lost_control_is_unknown() -> None:
    kafka = served()
    kafka.loses_control = True
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match="whether topic new was created is unknown: ") as refused:
            await client_creations(cluster, [TopicCreationRequest("new", 1, 1)])
    assert refused.value.exit is Exit.UNREACHABLE
    assert "new" in kafka.topics


async def test_a_check_that_takes_too_long_leaves_nothing_unknown() -> None:
    kafka = served()
    kafka.refusals = {"late": (ErrorCode.REQUEST_TIMED_OUT, None), "orders": (ErrorCode.REQUEST_TIMED_OUT, None)}
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match="topic late is not created: REQUEST_TIMED_OUT") as refused:
            await client_creations(cluster, [TopicCreationRequest("late", 1, 1)])
        assert refused.value.exit is Exit.NO
        with pytest.raises(Refusal, match="topic orders is not changed: REQUEST_TIMED_OUT"):
            await client_alteration(cluster, TopicChangeRequest(("orders",), 3))
    assert kafka.changes == 0


async def test_a_broker_that_says_nothing_more_does_not_undo_a_creation() -> None:
    kafka = served()
    kafka.mute_after_change = True
    async with cluster_of(kafka) as cluster:
        answer = await client_creations(cluster, [TopicCreationRequest("new", 1, 1)])
    assert (answer.lines, answer.exit) == (("Created topic new.",), Exit.OK)
    data: Any = answer.data
    assert (data["created"], data["replicas"], data["not_shown"]) == (True, None, ["replicas"])


# --- alter ----------------------------------------------------------------------------------------------------------


async def test_partitions_are_added_and_their_leaders_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    kafka = served()
    async with cluster_of(kafka) as cluster:
        answer = await client_alteration(cluster, TopicChangeRequest(("orders",), 4))
    assert answer.exit is Exit.OK
    assert answer.lines == (
        "Changed topic orders:",
        "\tPartitions: 2 -> 4",
        "\tPartition: 2\tReplicas: 2",
        "\tPartition: 3\tReplicas: 2",
    )
    assert answer.data == [
        {
            "topic": "orders",
            "altered": True,
            "dry_run": False,
            "problem": None,
            "partitions_before": 2,
            "added": {"2": [2], "3": [2]},
            "config": {"retention.ms": "5"},
            "without_leader": [],
        }
    ]
    assert "the same key may go to another partition" in capsys.readouterr().err


async def test_no_topic_gets_partitions_where_one_cannot() -> None:
    kafka = served()
    kafka.refusals = {"bills": (ErrorCode.INVALID_PARTITIONS, "Topic already has 1 partition(s).")}
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match=r"topic bills is not changed: INVALID_PARTITIONS: Topic already has"):
            await client_alteration(cluster, TopicChangeRequest(("orders", "bills"), 3))
        with pytest.raises(Refusal, match="topic 'ordes' does not exist; did you mean orders"):
            await client_alteration(cluster, TopicChangeRequest(("ordes",), 3))
    assert len(kafka.topics["orders"].replicas) == 2


async def test_an_assignment_may_not_move_what_there_is() -> None:
    kafka = served()
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match=r"gives partition 1 of topic orders the replicas \[1, 2\], but it has"):
            await client_alteration(cluster, TopicChangeRequest(("orders",), 3, ((1, 2), (1, 2), (1, 2))))
        assert kafka.requests(CreatePartitionsRequest) == []
        await client_alteration(cluster, TopicChangeRequest(("orders",), 3, ((1, 2), (2, 1), (1, 2))))
    assert kafka.topics["orders"].replicas == ((1, 2), (2, 1), (1, 2))


async def test_a_dry_run_adds_nothing() -> None:
    kafka = served()
    async with cluster_of(kafka) as cluster:
        answer = await client_alteration(cluster, TopicChangeRequest(("orders",), 3), dry_run=True)
    assert answer.lines[-1] == "\tPartition: 2\tReplicas: the controller places them"
    data: Any = answer.data
    assert (data[0]["altered"], data[0]["added"]) == (False, {"2": None})
    assert len(kafka.topics["orders"].replicas) == 2


async def test_partitions_without_a_leader_in_time_are_named() -> None:
    kafka = served()
    kafka.leaderless = True
    async with cluster_of(kafka, timeout_ms=400) as cluster:
        answer = await client_alteration(cluster, TopicChangeRequest(("orders",), 3))
    assert answer.exit is Exit.TIMED_OUT
    assert answer.lines[-1] == "\tPartition 2 has no leader yet."


async def test_new_partitions_whose_controller_lost_control_are_unknown() -> None:
    kafka = served()
    kafka.loses_control = True
    async with cluster_of(kafka) as cluster:
        answer = await client_alteration(cluster, TopicChangeRequest(("orders",), 3))
    assert answer.exit is Exit.UNREACHABLE
    assert answer.lines[0].startswith("whether topic orders was changed is unknown: a controller answered NOT_CONT")
    assert len(kafka.topics["orders"].replicas) == 3


@pytest.mark.parametrize("waits,code", [(True, Exit.TIMED_OUT), (False, Exit.OK)])
async def test_a_broker_that_says_nothing_more_does_not_undo_new_partitions(waits: bool, code: Exit) -> None:
    kafka = served()
    kafka.mute_after_change = True
    async with cluster_of(kafka) as cluster:
        answer = await client_alteration(cluster, TopicChangeRequest(("orders",), 3), waits=waits)
    assert answer.exit is code
    assert answer.lines[:2] == ("Changed topic orders:", "\tPartitions: 2 -> 3")
    assert len(kafka.topics["orders"].replicas) == 3
    unseen = [line for line in answer.lines if line.startswith("\tThe leader of partition 2 is unseen: ")]
    assert len(unseen) == waits
