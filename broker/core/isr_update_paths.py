"""The two paths of an ISR update, through the controller and through ZooKeeper: requests, writes and their outcomes.

Through the controller (AlterPartition, since 2.7-IV2), by the error of the answer or of the partition in it:

    the whole answer: any error; or no answer         UNANSWERED for all
    NONE, and the state is still of our leadership    ACCEPTED
    NONE, and it is of another one                    GIVEN_UP
    OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA       PUT_BACK
    UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
      FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION,
      INVALID_REQUEST                                 GIVEN_UP
    any other error, or the partition is not named    UNANSWERED

Through ZooKeeper, as brokers before 2.7 do: the state znode is read and written back with the larger ISR, expecting the
version that was read; nothing else is checked, so the leadership in it must be ours:

    no such topic or state; unreadable                GIVEN_UP
    the topic's id is another incarnation's           GIVEN_UP
    another leader or leader epoch than ours          GIVEN_UP
    the members are in its ISR already                ACCEPTED: an earlier write of ours whose answer was lost
    otherwise                                         to be written

The topic is read as well because a partition of the next incarnation may have the same leader, epoch and version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lethe.broker.core.effects import IsrChange
from lethe.broker.core.inputs import IsrOutcome, IsrVerdict
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.to_controller import (
    AlteredPartition,
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
)
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, RecoveryState, TopicId, TopicPartition
from lethe.protocol.zookeeper.operations import Data, ReadOutcome, SetData, ZkError, read_error
from lethe.protocol.zookeeper.paths import partition_state
from lethe.protocol.zookeeper.znodes import MalformedZnode, decode_state, decode_topic, encode_state

LAST_VERSION_BY_NAME: Final = 1
"""From the next version on AlterPartition names topics by their ids."""

_PUT_BACK: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
_GIVEN_UP: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
    }
)


def unanswered(changes: Sequence[IsrChange], reason: str) -> tuple[IsrOutcome, ...]:
    """One UNANSWERED for each change of a proposal whose outcome is unknown."""
    return (IsrOutcome(IsrVerdict.UNANSWERED, reason=reason),) * len(changes)


# --- through the controller ---------------------------------------------------------------------------------------


def alter_partition_request(
    changes: Sequence[IsrChange], broker_id: BrokerId, broker_epoch: BrokerEpoch
) -> AlterPartitionRequest:
    """One request for all changes, each topic with name and id. An agent leads recovered partitions only."""
    topics: dict[tuple[str, TopicId | None], list[AlterPartition]] = {}
    for change in changes:
        row = AlterPartition(
            change.topic_partition.partition,
            change.leader_epoch,
            change.isr,
            RecoveryState.RECOVERED,
            change.partition_epoch,
        )
        topics.setdefault((change.topic_partition.topic, change.topic_id), []).append(row)
    rows = tuple(AlterPartitionTopic(topic, topic_id, tuple(found)) for (topic, topic_id), found in topics.items())
    return AlterPartitionRequest(broker_id, broker_epoch, rows)


def alter_partition_version(changes: Sequence[IsrChange], highest_common: int) -> int:
    """The request version: the highest that both sides speak if every topic has an id, as with Kafka."""
    has_ids = all(change.topic_id is not None for change in changes)
    return highest_common if has_ids else min(highest_common, LAST_VERSION_BY_NAME)


def judge_answer(
    changes: Sequence[IsrChange], broker_id: BrokerId, answer: AlterPartitionResponse
) -> tuple[IsrOutcome, ...]:
    """One outcome for each change."""
    if answer.error != ErrorCode.NONE:
        return unanswered(changes, f"the controller answered {error_name(answer.error)}")
    by_name: dict[tuple[str | None, TopicId | None, int], AlteredPartition] = {}
    for topic in answer.topics:
        for row in topic.partitions:
            by_name[topic.topic, topic.topic_id, row.partition] = row
    outcomes: list[IsrOutcome] = []
    for change in changes:
        topic_name, partition = change.topic_partition
        found = by_name.get((topic_name, None, partition))
        if found is None and change.topic_id is not None:
            found = by_name.get((None, change.topic_id, partition))
        outcomes.append(_judge_row(change, broker_id, found))
    return tuple(outcomes)


def _judge_row(change: IsrChange, broker_id: BrokerId, row: AlteredPartition | None) -> IsrOutcome:
    if row is None:
        return IsrOutcome(IsrVerdict.UNANSWERED, reason="the controller's answer does not name the partition")
    if row.error == ErrorCode.NONE:
        if (row.leader, row.leader_epoch) != (broker_id, change.leader_epoch):
            reason = f"broker {row.leader} leads under epoch {row.leader_epoch}"
            return IsrOutcome(IsrVerdict.GIVEN_UP, reason=reason)
        return IsrOutcome(IsrVerdict.ACCEPTED, row.isr, row.partition_epoch)
    reason = f"the controller answered {error_name(row.error)}"
    if row.error in _PUT_BACK:
        return IsrOutcome(IsrVerdict.PUT_BACK, reason=reason)
    return IsrOutcome(IsrVerdict.GIVEN_UP if row.error in _GIVEN_UP else IsrVerdict.UNANSWERED, reason=reason)


# --- through ZooKeeper --------------------------------------------------------------------------------------------


def plan_write(
    change: IsrChange, broker_id: BrokerId, topic: ReadOutcome, state: ReadOutcome
) -> tuple[SetData, tuple[int, ...]] | IsrOutcome:
    """Return the write and its ISR, from `/brokers/topics/T` and the state znode; or the outcome, if nothing is
    written."""
    for found in (topic, state):
        if (error := read_error(found)) is not None:
            return IsrOutcome(IsrVerdict.UNANSWERED, reason=f"ZooKeeper answered {error.name}")
    if not isinstance(topic, Data) or not isinstance(state, Data):
        return IsrOutcome(IsrVerdict.GIVEN_UP, reason="the partition is not in ZooKeeper any more")
    return _judge_state(change, broker_id, topic, state)


def _judge_state(
    change: IsrChange, broker_id: BrokerId, topic: Data, state: Data
) -> tuple[SetData, tuple[int, ...]] | IsrOutcome:
    name, partition = change.topic_partition
    try:
        topic_id = decode_topic(name, topic.data).topic_id
        found = decode_state(name, partition, state.data, state.stat.version)
    except MalformedZnode as malformed:
        return IsrOutcome(IsrVerdict.GIVEN_UP, reason=str(malformed))
    if found is None:
        return IsrOutcome(IsrVerdict.GIVEN_UP, reason=f"{partition_state(name, partition)} is empty")
    if change.topic_id is not None and topic_id is not None and topic_id != change.topic_id:
        return IsrOutcome(IsrVerdict.GIVEN_UP, reason="the topic was deleted and made anew")
    if (found.leader, found.leader_epoch) != (broker_id, change.leader_epoch):
        reason = f"broker {found.leader} leads under epoch {found.leader_epoch}"
        return IsrOutcome(IsrVerdict.GIVEN_UP, reason=reason)
    added = tuple(broker for broker in change.isr if broker not in found.isr)
    if not added:
        return IsrOutcome(IsrVerdict.ACCEPTED, found.isr, found.partition_epoch)
    isr = (*found.isr, *added)
    data = encode_state(found._replace(isr=isr, recovery_state=RecoveryState.RECOVERED))
    return SetData(partition_state(name, partition), data, found.partition_epoch), isr


def judge_write(error: ZkError) -> IsrOutcome | None:
    """The outcome of a refused write; None if the znode has changed meanwhile and is to be read again."""
    if error is ZkError.BAD_VERSION:
        return None
    verdict = IsrVerdict.GIVEN_UP if error is ZkError.NO_NODE else IsrVerdict.UNANSWERED
    return IsrOutcome(verdict, reason=f"ZooKeeper answered {error.name}")


def accepted_partitions(changes: Sequence[IsrChange], outcomes: Sequence[IsrOutcome | None]) -> list[TopicPartition]:
    """The accepted partitions, of which the controller is to be notified."""
    return [
        change.topic_partition
        for change, outcome in zip(changes, outcomes, strict=True)
        if outcome is not None and outcome.verdict is IsrVerdict.ACCEPTED
    ]
