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
from lethe.protocol.kafka.admin_configs import IncrementalAlterConfigsRequest
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


@pytest.mark.parametrize(
    "name, said",
    [
        ("orders", "Topic 'orders' is marked for deletion."),
        ("kept", "Topic 'kept' cannot be created: its name is reserved by a topic in the trash."),
    ],
)
async def test_a_topic_that_is_being_deleted_or_in_the_trash_does_not_exist_already(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lethe.cli.topics_create.KNOWN_MS", 1)
    kafka = served()
    kafka.refusals = {name: (ErrorCode.TOPIC_ALREADY_EXISTS, said)}
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match=f"topic {name} is not created: TOPIC_ALREADY_EXISTS: {said}") as refused:
            await client_creations(cluster, [TopicCreationRequest(name, 1, 1)], if_not_exists=True)
    assert refused.value.exit is Exit.NO


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


# --- alter: settings --------------------------------------------------------------------------------------------------

LONGER = TopicChangeRequest(("orders",), config={"segment.ms": "9"}, delete_config=("retention.ms",))


async def test_settings_are_set_and_deleted_and_others_left(capsys: pytest.CaptureFixture[str]) -> None:
    kafka = served()
    kafka.topics["orders"] = topic(1, (1, 2), **{"retention.ms": "5", "cleanup.policy": "compact"})
    async with cluster_of(kafka) as cluster:
        answer = await client_alteration(cluster, LONGER, quiet=False)
        again = await client_alteration(cluster, TopicChangeRequest(("orders",), config={"segment.ms": "9"}))
    assert answer.exit is Exit.OK
    assert answer.lines == (
        "Changed topic orders:",
        "\tretention.ms: 5 -> (default)",
        "\tsegment.ms: (default) -> 9",
    )
    data: Any = answer.data
    assert (data[0]["altered"], data[0]["config"]) == (True, {"cleanup.policy": "compact", "segment.ms": "9"})
    assert kafka.topics["orders"].config == {"cleanup.policy": "compact", "segment.ms": "9"}
    assert (again.lines, again.exit) == (("Topic orders is already as requested.",), Exit.OK)
    assert capsys.readouterr() == ("", ""), "there are no new partitions to wait for"
    # Asked for again: a broker may show settings that the cluster has no more.
    assert kafka.changes == 2


async def test_a_dry_run_changes_no_settings() -> None:
    kafka = served()
    async with cluster_of(kafka) as cluster:
        answer = await client_alteration(cluster, LONGER, dry_run=True)
    assert answer.lines[0] == "Would change topic orders:"
    (request,) = kafka.requests(IncrementalAlterConfigsRequest)
    assert isinstance(request, IncrementalAlterConfigsRequest)
    assert request.validate_only
    assert kafka.changes == 0


async def test_no_settings_are_changed_where_one_topics_cannot_be() -> None:
    kafka = served()
    kafka.settings_refused = {"bills": (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")}
    wanted = TopicChangeRequest(("orders", "bills"), 5, config={"segment.ms": "9"})
    said = (
        "topic bills is not changed: TOPIC_AUTHORIZATION_FAILED for User:ANONYMOUS; "
        "grant it AlterConfigs on topic bills"
    )
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match=said) as refused:
            await client_alteration(cluster, wanted)
        with pytest.raises(
            Refusal, match=r"topic bills does not override retention\.ms, so there is nothing to delete"
        ):
            await client_alteration(cluster, TopicChangeRequest(("bills",), delete_config=("retention.ms",)))
    assert refused.value.exit is Exit.NO
    assert kafka.changes == 0


@pytest.mark.parametrize("error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
async def test_a_right_that_is_missing_is_named_with_who_lacks_it(error: ErrorCode) -> None:
    kafka = served()
    kafka.refusals = dict.fromkeys(("new", "bills"), (error, "Authorization failed."))
    kafka.settings_unseen = frozenset({"orders"})
    who = "AUTHORIZATION_FAILED for User:ANONYMOUS; grant it"
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match=f"topic new is not created: .*{who} Create on topic new$"):
            await client_creations(cluster, [TopicCreationRequest("new", 1, 1)])
        with pytest.raises(Refusal, match=f"topic bills is not changed: .*{who} Alter on topic bills$"):
            await client_alteration(cluster, TopicChangeRequest(("bills",), 5))
        with pytest.raises(Refusal, match=f"settings are unseen: .*{who} DescribeConfigs on topic orders$"):
            await client_alteration(cluster, TopicChangeRequest(("orders",), config={"segment.ms": "9"}))
    assert kafka.changes == 0


async def test_a_topic_whose_settings_fail_gets_no_partitions_and_others_do() -> None:
    kafka = served()
    kafka.settings_failed = {"bills": (ErrorCode.UNKNOWN_SERVER_ERROR, None)}
    async with cluster_of(kafka) as cluster:
        answer = await client_alteration(
            cluster, TopicChangeRequest(("orders", "bills"), 3, config={"segment.ms": "9"})
        )
    assert answer.exit is Exit.UNREACHABLE
    assert answer.lines[-1] == "whether topic bills was changed is unknown: UNKNOWN_SERVER_ERROR"
    assert answer.lines[:2] == ("Changed topic orders:", "\tPartitions: 2 -> 3")
    assert (len(kafka.topics["orders"].replicas), len(kafka.topics["bills"].replicas)) == (3, 1)
    assert (kafka.topics["orders"].config["segment.ms"], kafka.topics["bills"].config) == ("9", {})


async def test_settings_that_were_changed_are_said_where_partitions_were_not() -> None:
    kafka = served()
    kafka.loses_control = True
    async with cluster_of(kafka) as cluster:
        answer = await client_alteration(cluster, TopicChangeRequest(("orders",), 3, config={"segment.ms": "9"}))
    assert answer.exit is Exit.UNREACHABLE
    assert answer.lines[0].startswith("whether topic orders was changed is unknown: a controller answered NOT_CONT")
    assert answer.lines[0].endswith("; its settings were changed")


async def test_settings_are_said_where_nobody_answers_about_partitions() -> None:
    kafka = served()
    kafka.settings_failed = {"bills": (ErrorCode.UNKNOWN_SERVER_ERROR, None)}
    kafka.loses_partitions = True
    wanted = TopicChangeRequest(("orders", "bills"), 3, config={"segment.ms": "9"})
    async with cluster_of(kafka) as cluster:
        answer = await client_alteration(cluster, wanted)
    assert answer.exit is Exit.UNREACHABLE
    first, second = answer.lines
    assert first.startswith("whether the controller did add partitions to orders is unknown")
    assert first.endswith("; its settings were changed")
    assert second == "whether topic bills was changed is unknown: UNKNOWN_SERVER_ERROR"
    data: Any = answer.data
    assert [(each["altered"], each["config"]) for each in data] == [(None, None), (None, None)]


async def test_an_answer_that_is_lost_leaves_settings_unknown() -> None:
    kafka = served()
    kafka.loses_answers = True
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match="whether the settings of orders were changed is unknown: ") as refused:
            await client_alteration(cluster, LONGER)
    assert refused.value.exit is Exit.UNREACHABLE


async def test_settings_that_are_unseen_are_not_changed() -> None:
    kafka = served()
    kafka.settings_unseen = frozenset({"orders"})
    async with cluster_of(kafka) as cluster:
        with pytest.raises(
            Refusal, match="because its present settings are unseen: DescribeConfigs: TOPIC_A"
        ) as refused:
            await client_alteration(cluster, LONGER)
    assert refused.value.exit is Exit.UNREACHABLE
    assert kafka.changes == 0
