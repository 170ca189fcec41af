"""Requests as the batch makes them, captured before they are sent: Kafka's ControllerChannelManagerTest."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TypeVar

import pytest

from lethe.controller.core.batching import RequestBatch
from lethe.controller.core.context import Context
from lethe.controller.core.effects import Record
from lethe.controller.core.events import (
    LeaderAndIsrResponseReceived,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from lethe.controller.core.mutation import queue_deletion
from lethe.controller.core.partition_sets import partition_columns
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_deletion import ResumeDeletions
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import (
    ApiKey,
    ControlRequest,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicError,
    TopicIdError,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.versions import InterBrokerProtocol, control_versions
from lethe.protocol.vocabulary import NO_EPOCH, Broker, BrokerId, Endpoint, TopicId, TopicPartition
from tests.unit.controller.core.stage import (
    EPOCH,
    NOW_MS,
    add_topic,
    feed,
    leading,
    perform,
    refusals,
    rows_of,
    sends,
    state_of,
    stops_of,
    updates_of,
)

FOO, BAR = TopicId(uuid.UUID(int=7)), TopicId(uuid.UUID(int=8))
R = TypeVar("R", bound=ControlRequest)
IBPS = ["2.2", "2.3", "2.4-IV0", "2.4", "2.5", "2.6", "2.7", "2.8-IV0", "2.8", "3.1", "3.2", "3.3", "3.4", "3.6", "3.9"]


def cluster(ibp: str = "3.9") -> Context:
    """Brokers 1, 2, 3; topics foo and bar with two partitions on all of them."""
    context = leading(1, 2, 3, ibp=InterBrokerProtocol.parse(ibp))
    for name, topic_id in (("foo", FOO), ("bar", BAR)):
        add_topic(
            context,
            name,
            [(1, 2, 3), (2, 3, 1)],
            topic_id=topic_id,
            led=True,
            partition_state=PartitionState.ONLINE,
            replica_state=ReplicaState.ONLINE,
        )
    return context


def tp(text: str) -> TopicPartition:
    name, _, number = text.partition("-")
    return TopicPartition(name, int(number))


def captured(batch: RequestBatch) -> list[tuple[int, ControlRequest]]:
    return list(batch.requests())


def of_kind(batch: RequestBatch, kind: type[R]) -> dict[int, R]:
    return {broker: request for broker, request in captured(batch) if isinstance(request, kind)}


# --- LeaderAndIsr -------------------------------------------------------------------------------------------------


def test_leader_and_isr_is_one_request_with_leaders_isr_and_ids_and_tells_everybody() -> None:
    context = cluster()
    step = StepContext(context, NOW_MS)
    batch = step.batch()
    for name in ("foo-0", "foo-1", "bar-1"):
        batch.add_leader_and_isr((2,), tp(name), is_new=False)
    step.flush(batch)
    request = sends(step.effects, LeaderAndIsrRequest)[2]
    assert list(sends(step.effects, LeaderAndIsrRequest)) == [2]
    assert sorted(sends(step.effects, UpdateMetadataRequest)) == [1, 2, 3]
    rows = rows_of(request)
    assert {name: (row.leader, row.isr, row.controller_epoch) for name, row in rows.items()} == {
        "foo-0": (1, (1, 2, 3), EPOCH),
        "foo-1": (2, (2, 3, 1), EPOCH),
        "bar-1": (2, (2, 3, 1), EPOCH),
    }
    assert [(topic.topic, topic.topic_id) for topic in request.topics] == [("foo", FOO), ("bar", BAR)]
    assert [(node.id, node.host, node.port) for node in request.live_leaders] == [
        (1, "host1", 9092),
        (2, "host2", 9092),
    ]
    assert (request.controller_id, request.controller_epoch) == (1000, EPOCH)


def test_leader_and_isr_for_a_queued_topic_names_no_leader_and_keeps_the_epoch() -> None:
    context = cluster()
    queue_deletion(context.cluster, "foo", NOW_MS)
    batch = StepContext(context, NOW_MS).batch()
    for name in ("foo-0", "bar-0"):
        batch.add_leader_and_isr((1,), tp(name), is_new=False)
    request = of_kind(batch, LeaderAndIsrRequest)[1]
    rows = rows_of(request)
    assert {name: (row.leader, row.leader_epoch, row.isr) for name, row in rows.items()} == {
        "foo-0": (-1, 0, (1, 2, 3)),
        "bar-0": (1, 0, (1, 2, 3)),
    }
    assert [node.id for node in request.live_leaders] == [1]


def test_leader_and_isr_answer_is_taken_once() -> None:
    context = cluster()
    step = StepContext(context, NOW_MS)
    batch = step.batch()
    batch.add_leader_and_isr((2,), tp("foo-0"), is_new=False)
    step.flush(batch)
    request_id = next(i for i, o in context.cluster.outstanding.items() if isinstance(o.request, LeaderAndIsrRequest))
    epoch = context.cluster.brokers[BrokerId(2)].epoch
    answer = LeaderAndIsrResponseReceived(
        BrokerId(2), epoch, request_id, LeaderAndIsrResponse.of_rows(0, (TopicIdError(None, FOO, 0, 0),))
    )
    assert refusals(feed(context, answer)) == []
    assert context.cluster.topics["foo"].announced(2, lambda latest: latest.confirmed) == 1
    assert len(refusals(feed(context, answer))) == 1


def test_is_new_is_sticky() -> None:
    batch = RequestBatch(cluster())
    batch.add_leader_and_isr((2,), tp("foo-0"), is_new=True)
    batch.add_leader_and_isr((2,), tp("foo-0"), is_new=False)
    assert rows_of(of_kind(batch, LeaderAndIsrRequest)[2])["foo-0"].is_new


def test_leader_and_isr_goes_to_live_and_shutting_down_brokers_only() -> None:
    context = cluster()
    context.cluster.shutting_down[BrokerId(2)] = None
    del context.cluster.brokers[BrokerId(3)]
    batch = RequestBatch(context)
    batch.add_leader_and_isr((1, 2, 3), tp("foo-0"), is_new=False)
    assert sorted(of_kind(batch, LeaderAndIsrRequest)) == [1, 2]


@pytest.mark.parametrize("ibp", IBPS)
def test_versions_by_inter_broker_protocol(ibp: str) -> None:
    """The batch does not depend on the version, except for StopReplica's flags; the channel encodes with these."""
    protocol = InterBrokerProtocol.parse(ibp)
    versions = control_versions(protocol)
    expected = {
        "2.2": (2, 5, 1),
        "2.3": (2, 5, 1),
        "2.4-IV0": (3, 5, 1),
        "2.4": (4, 6, 2),
        "2.5": (4, 6, 2),
        "2.6": (4, 6, 3),
        "2.7": (4, 6, 3),
        "2.8-IV0": (4, 6, 3),
        "2.8": (5, 7, 3),
        "3.1": (5, 7, 3),
        "3.2": (6, 7, 3),
        "3.3": (6, 7, 3),
        "3.4": (7, 8, 4),
        "3.6": (7, 8, 4),
        "3.9": (7, 8, 4),
    }[ibp]
    kinds = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA)
    assert tuple(versions.of(api) for api in kinds) == expected
    assert protocol.has_leader_recovery_state is (versions.leader_and_isr >= 6)


# --- UpdateMetadata -----------------------------------------------------------------------------------------------


def test_update_metadata_names_partitions_ids_and_live_brokers() -> None:
    context = cluster()
    batch = RequestBatch(context)
    batch.add_update_metadata((1, 2, 3), partition_columns(map(tp, ("foo-0", "foo-1", "bar-1"))))
    requests = of_kind(batch, UpdateMetadataRequest)
    assert sorted(requests) == [1, 2, 3]
    assert requests[1] is requests[2], "one value, encoded once"
    assert sorted(updates_of(requests[1])) == ["bar-1", "foo-0", "foo-1"]
    assert {topic.topic_id for topic in requests[1].topics} == {FOO, BAR}
    assert [broker.id for broker in requests[1].live_brokers] == [1, 2, 3]


def test_update_metadata_answer_with_an_error_is_shown() -> None:
    context = cluster()
    step = StepContext(context, NOW_MS)
    batch = step.batch()
    batch.add_update_metadata((1,), {"foo": 0b1})
    step.flush(batch)
    epoch = context.cluster.brokers[BrokerId(1)].epoch
    response = UpdateMetadataResponse(ErrorCode.STALE_BROKER_EPOCH)
    effects = feed(context, UpdateMetadataResponseReceived(BrokerId(1), epoch, context.last_request_id, response))
    assert [record.data["why"] for record in refusals(effects)] == ["STALE_BROKER_EPOCH"]


def test_update_metadata_leaves_out_partitions_without_leadership() -> None:
    context = leading(1, 2, 3)
    add_topic(context, "foo", [(1, 2, 3)])
    batch = RequestBatch(context)
    batch.add_update_metadata((1, 2, 3), {"foo": 0b1})
    request = of_kind(batch, UpdateMetadataRequest)[1]
    assert request.topics == ()
    assert len(request.live_brokers) == 3


def test_update_metadata_of_a_doomed_topic_is_its_tombstone() -> None:
    context = cluster()
    queue_deletion(context.cluster, "foo", NOW_MS)
    batch = RequestBatch(context)
    batch.add_update_metadata((1,), partition_columns(map(tp, ("foo-0", "foo-1", "bar-0"))))
    rows = updates_of(of_kind(batch, UpdateMetadataRequest)[1])
    assert [(rows[n].leader, rows[n].leader_epoch, rows[n].zk_version, rows[n].isr) for n in ("foo-0", "foo-1")] == [
        (-2, 0, 0, (1, 2, 3)),
        (-2, 0, 0, (2, 3, 1)),
    ]
    assert rows["bar-0"].leader == 1


def test_tombstone_names_partitions_without_leadership_too() -> None:
    """Ours: a broker may remember such a partition from before a crash in the middle of its removal."""
    context = leading(1, 2)
    add_topic(context, "foo", [(1, 2)])
    queue_deletion(context.cluster, "foo", NOW_MS)
    batch = RequestBatch(context)
    batch.add_update_metadata((1,), {"foo": 0b1})
    assert updates_of(of_kind(batch, UpdateMetadataRequest)[1])["foo-0"].leader == -2


def test_update_metadata_goes_to_and_lists_live_and_shutting_down_brokers() -> None:
    context = cluster()
    context.cluster.shutting_down[BrokerId(2)] = None
    del context.cluster.brokers[BrokerId(3)]
    batch = RequestBatch(context)
    batch.add_update_metadata((1, 2, 3), {"foo": 0b1})
    requests = of_kind(batch, UpdateMetadataRequest)
    assert sorted(requests) == [1, 2]
    assert [broker.id for broker in requests[1].live_brokers] == [1, 2]
    assert updates_of(requests[1])["foo-0"].offline_replicas == (2, 3)


# --- StopReplica --------------------------------------------------------------------------------------------------


def test_stop_replica_is_one_request_and_its_answer_changes_nothing_outside_a_deletion() -> None:
    context = cluster()
    step = StepContext(context, NOW_MS)
    batch = step.batch()
    for name in ("foo-0", "foo-1", "bar-1"):
        batch.add_stop_replica(BrokerId(2), tp(name), delete=False)
    step.flush(batch)
    request = sends(step.effects, StopReplicaRequest)[2]
    assert stops_of(request) == {"foo-0": (0, False), "foo-1": (0, False), "bar-1": (0, False)}
    assert acknowledge(context, 2) == []


def acknowledge(context: Context, broker: int) -> list[tuple[str, str]]:
    """Answer the broker's last StopReplica with NONE for all; (topic, partitions) of what counts as deleted."""
    found = [
        (i, o.request)
        for i, o in context.cluster.outstanding.items()
        if o.broker == broker and isinstance(o.request, StopReplicaRequest)
    ]
    request_id, request = found[-1]
    assert isinstance(request, StopReplicaRequest)
    rows = tuple(TopicError(t.topic, row.partition, 0) for t in request.topics for row in t.partitions)
    epoch = context.cluster.brokers[BrokerId(broker)].epoch
    effects = feed(
        context, StopReplicaResponseReceived(BrokerId(broker), epoch, request_id, StopReplicaResponse.of_rows(0, rows))
    )
    records = [effect.record for effect in effects if isinstance(effect, Record)]
    return [
        (record.subject, str(record.data["partitions"])) for record in records if record.type is EventRecordType.ACK
    ]


def test_delete_is_sticky() -> None:
    batch = RequestBatch(cluster())
    batch.add_stop_replica(BrokerId(2), tp("foo-0"), delete=True)
    batch.add_stop_replica(BrokerId(2), tp("foo-0"), delete=False)
    assert stops_of(of_kind(batch, StopReplicaRequest)[2]) == {"foo-0": (0, True)}


@pytest.mark.parametrize("ibp", IBPS)
def test_stop_of_a_queued_topic_has_the_epoch_of_deletion_and_does_not_count_before_it_was_started(ibp: str) -> None:
    context = cluster(ibp)
    queue_deletion(context.cluster, "foo", NOW_MS)
    step = StepContext(context, NOW_MS)
    batch = step.batch()
    for name in ("foo-0", "foo-1", "bar-1"):
        batch.add_stop_replica(BrokerId(2), tp(name), delete=True)
    step.flush(batch)
    assert stops_of(sends(step.effects, StopReplicaRequest)[2]) == {
        "foo-0": (-2, True),
        "foo-1": (-2, True),
        "bar-1": (0, True),
    }
    assert acknowledge(context, 2) == []


def started_deletion() -> Context:
    """foo's deletion has been started; every broker has said before that it can reach its replicas."""
    context = cluster()
    step = StepContext(context, NOW_MS)
    batch = step.batch()
    for name in ("foo-0", "foo-1"):
        batch.add_leader_and_isr((1, 2, 3), tp(name), is_new=False)
    step.flush(batch)
    for broker in (1, 2, 3):
        request_id, request = next(
            (i, o.request)
            for i, o in context.cluster.outstanding.items()
            if o.broker == broker and isinstance(o.request, LeaderAndIsrRequest)
        )
        assert isinstance(request, LeaderAndIsrRequest)
        rows = tuple(TopicIdError(t.topic, None, r.partition, 0) for t in request.topics for r in t.partitions)
        epoch = context.cluster.brokers[BrokerId(broker)].epoch
        feed(
            context,
            LeaderAndIsrResponseReceived(BrokerId(broker), epoch, request_id, LeaderAndIsrResponse.of_rows(0, rows)),
        )
    queue_deletion(context.cluster, "foo", NOW_MS)
    perform(context, ResumeDeletions(("foo",)))
    return context


def test_answer_counts_for_the_partitions_of_a_started_deletion_only() -> None:
    context = started_deletion()
    step = StepContext(context, NOW_MS)
    batch = step.batch()
    for name in ("foo-0", "foo-1", "bar-1"):
        batch.add_stop_replica(BrokerId(2), tp(name), delete=True)
    step.flush(batch)
    assert acknowledge(context, 2) == [("topic/foo", "0-1")]
    assert state_of(context, "bar", 1, 2) is ReplicaState.ONLINE


def test_answer_to_a_stop_without_delete_does_not_count_while_the_deletion_has_started() -> None:
    context = started_deletion()
    step = StepContext(context, NOW_MS)
    batch = step.batch()
    batch.add_stop_replica(BrokerId(2), tp("foo-0"), delete=False)
    step.flush(batch)
    assert acknowledge(context, 2) == []
    assert state_of(context, "foo", 0, 2) is ReplicaState.DELETION_STARTED


@pytest.mark.parametrize("ibp", IBPS)
def test_mixed_stop_is_one_request_since_2_6_and_two_before_deletion_first(ibp: str) -> None:
    batch = RequestBatch(cluster(ibp))
    batch.add_stop_replica(BrokerId(2), tp("foo-0"), delete=False)
    batch.add_stop_replica(BrokerId(2), tp("foo-1"), delete=True)
    requests = [stops_of(r) for _, r in captured(batch) if isinstance(r, StopReplicaRequest)]
    if InterBrokerProtocol.parse(ibp) >= InterBrokerProtocol.parse("2.6-IV0"):
        assert requests == [{"foo-0": (0, False), "foo-1": (0, True)}]
    else:
        assert requests == [{"foo-1": (0, True)}, {"foo-0": (0, False)}]


def test_stop_replica_is_grouped_by_broker() -> None:
    batch = RequestBatch(cluster())
    for broker in (2, 3):
        for name in ("foo-0", "bar-1"):
            batch.add_stop_replica(BrokerId(broker), tp(name), delete=True)
    requests = of_kind(batch, StopReplicaRequest)
    assert sorted(requests) == [2, 3]
    assert len(captured(batch)) == 2


def test_stop_replica_goes_to_live_and_shutting_down_brokers_only() -> None:
    context = cluster()
    context.cluster.shutting_down[BrokerId(2)] = None
    del context.cluster.brokers[BrokerId(3)]
    batch = RequestBatch(context)
    for broker in (2, 3):
        batch.add_stop_replica(BrokerId(broker), tp("foo-0"), delete=False)
    assert sorted(of_kind(batch, StopReplicaRequest)) == [2]


def test_stop_of_a_partition_without_leadership_says_so() -> None:
    context = leading(1)
    add_topic(context, "foo", [(1,)])
    batch = RequestBatch(context)
    batch.add_stop_replica(BrokerId(1), tp("foo-0"), delete=False)
    assert stops_of(of_kind(batch, StopReplicaRequest)[1]) == {"foo-0": (-1, False)}


# --- order --------------------------------------------------------------------------------------------------------


def test_order_within_a_batch_is_leader_and_isr_update_metadata_stop_replica() -> None:
    batch = RequestBatch(cluster())
    batch.add_stop_replica(BrokerId(1), tp("foo-0"), delete=False)
    batch.add_update_metadata((1, 2))
    batch.add_leader_and_isr((1, 2), tp("bar-0"), is_new=False)
    kinds = [type(request).__name__ for _, request in captured(batch)]
    assert kinds == ["LeaderAndIsrRequest"] * 2 + ["UpdateMetadataRequest"] * 3 + ["StopReplicaRequest"]


def test_empty_batch_sends_nothing() -> None:
    assert captured(RequestBatch(cluster())) == []


def test_what_is_sent_carries_the_brokers_epoch_and_is_outstanding() -> None:
    context = cluster()
    step = StepContext(context, NOW_MS)
    batch = step.batch()
    batch.add_update_metadata((1, 3))
    step.flush(batch)
    assert [(o.broker, o.broker_epoch) for o in context.cluster.outstanding.values()] == [(1, 101), (3, 103)]


# --- an advertised controller
# ------------------------------------------------------------------------------------------


def test_a_listed_controller_is_named_among_the_live_brokers_of_update_metadata_alone() -> None:
    context = cluster()
    address = Endpoint("PLAINTEXT", "controller", 9094)
    context.config = replace(context.config, endpoints=(address,))
    batch = RequestBatch(context)
    batch.add_leader_and_isr((1, 2, 3), tp("foo-0"), is_new=False)
    update = of_kind(batch, UpdateMetadataRequest)
    assert sorted(update) == [1, 2, 3], "it is not told itself"
    assert update[1].live_brokers == (*context.cluster.brokers.values(), Broker(BrokerId(1000), NO_EPOCH, (address,)))
    assert {node.id for request in of_kind(batch, LeaderAndIsrRequest).values() for node in request.live_leaders} == {1}
    assert sorted(context.cluster.brokers) == [1, 2, 3]


# --- requests that several brokers share --------------------------------------------------------------------------


@pytest.mark.parametrize("ibp", ["2.5", "3.9"])
def test_brokers_that_are_told_the_same_share_one_request(ibp: str) -> None:
    context = cluster(ibp)
    batch = RequestBatch(context)
    for topic in ("foo", "bar"):
        for number in (0, 1):
            batch.add_leader_and_isr((1, 2), TopicPartition(topic, number), is_new=False)
            for broker in (1, 2, 3):
                batch.add_stop_replica(BrokerId(broker), TopicPartition(topic, number), delete=True)
    batch.add_leader_and_isr((3,), TopicPartition("foo", 0), is_new=False)
    made: dict[tuple[type, int], ControlRequest] = {(type(r), int(broker)): r for broker, r in batch.requests()}
    assert made[LeaderAndIsrRequest, 1] is made[LeaderAndIsrRequest, 2]
    assert made[LeaderAndIsrRequest, 3] != made[LeaderAndIsrRequest, 1]
    shares = made[StopReplicaRequest, 1] is made[StopReplicaRequest, 2] is made[StopReplicaRequest, 3]
    assert shares is (ibp == "3.9")


def test_the_same_partitions_in_another_order_are_the_same_request_and_as_new_another_one() -> None:
    context = cluster()
    first, second = TopicPartition("foo", 0), TopicPartition("foo", 1)
    batch = RequestBatch(context)
    for broker, order, is_new in ((1, (first, second), False), (2, (second, first), False), (3, (first, second), True)):
        for topic_partition in order:
            batch.add_leader_and_isr((broker,), topic_partition, is_new=is_new)
    requests = of_kind(batch, LeaderAndIsrRequest)
    assert requests[1] is requests[2]
    rows = {n: [(row.partition, row.is_new) for row in requests[n].topics[0].partitions] for n in (2, 3)}
    assert rows == {2: [(0, False), (1, False)], 3: [(0, True), (1, True)]}
