"""Whether a deletion ends without the replicas on absent brokers, and what these brokers then owe.

No deletion waits for a broker that is given up (`forgetting`) while it is absent. It owes its replicas too, until they
are written off, so that they are deleted if it registers before.

`lethe.deletion.offline.replicas`, or the marker's orders, say *wait* (the default) or *owe*. With *owe*, a replica on a
broker that is not registered becomes DeletionOwed instead of DeletionIneligible, and the topic is removed as soon as
every other replica is deleted. A broker is not absent while it is silent, shutting down, has a failed disk, or has a
registration that cannot be read: these are waited for.

What a broker owes must be told from a later topic of the same name when it returns:

    the topic has                                        its replicas may be owed
    ---------------------------------------------------  -----------------------------------------------------
    an id that LeaderAndIsr carries                      yes: the broker compares it with that of the directory
    no such id, and all leader epochs are known          yes: a later topic begins above the highest of them
    no such id, and the epoch of a partition is unknown  no: its deletion waits for the broker
    a znode that cannot be understood (`unreadable`)     no: its deletion waits for the broker
"""

from __future__ import annotations

from typing import Final

from lethe.controller.core.context import Context
from lethe.controller.core.debt_memory import DebtKey, OpenDebt
from lethe.controller.core.partition_sets import Bits, ReplicaColumns, bits_of, chosen, partitions_of
from lethe.controller.core.topic import Topic
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.kafka.versions import control_versions
from lethe.protocol.vocabulary import INITIAL_LEADER_EPOCH, BrokerId
from lethe.protocol.zookeeper.znodes import OfflineReplicas, TrashPhase

IN_SERVICE: Final = (ReplicaState.NEW, ReplicaState.ONLINE)
FIRST_LEADER_AND_ISR_WITH_IDS: Final = 5
UNKNOWN_EPOCH: Final = "the topic has no id, and the leader epoch of a partition is unknown"
UNKNOWN_INCARNATION: Final = "the topic's znode cannot be understood, so its id is unknown"


def not_awaited(context: Context, replicas: ReplicaColumns) -> ReplicaColumns:
    """Return those of these replicas of queued topics that are owed, or given up with their broker."""
    cluster = context.cluster
    owing = dict.fromkeys(name for name in replicas if is_owing(context, name))
    if not (owing or cluster.forgotten):
        return {}

    def part(name: str, broker: BrokerId, bits: Bits) -> Bits:
        return bits if cluster.is_given_up(broker) or (name in owing and cluster.is_absent(broker)) else 0

    return chosen(replicas, part)


def is_owing(context: Context, name: str) -> bool:
    """Return True if the deletion of this queued topic does not wait for absent brokers."""
    return is_ordered(context, name) and obstacle(context, name) is None


def is_ordered(context: Context, name: str) -> bool:
    """Return True if the marker or the configuration orders not to wait for absent brokers."""
    ordered = context.cluster.deletions[name].orders.offline_replicas or context.offline_replicas
    return ordered is OfflineReplicas.OWE


def obstacle(context: Context, name: str) -> str | None:
    """Return why the topic's replicas cannot be owed although that is ordered; None if they can."""
    topic = context.cluster.topics[name]
    if topic.is_made_up:
        return UNKNOWN_INCARNATION
    if (topic.id is None or not ids_are_compared(context)) and last_leader_epoch(context, name) is None:
        return UNKNOWN_EPOCH
    return None


def ids_are_compared(context: Context) -> bool:
    """Return True if LeaderAndIsr carries topic ids, which brokers compare with those of their directories."""
    return control_versions(context.config.ibp).leader_and_isr >= FIRST_LEADER_AND_ISR_WITH_IDS


def is_compared(context: Context, key: DebtKey, debt: OpenDebt) -> bool:
    """Return True if the broker tells the debt's replicas from those of a topic that has the name now."""
    topic = context.cluster.topics.get(key.topic)
    return debt.debt.topic_id is not None and ids_are_compared(context) and (topic is None or topic.id is not None)


def lives(context: Context, key: DebtKey, debt: OpenDebt) -> bool:
    """Return True if the debt's topic exists, or is in the trash."""
    trashed = context.cluster.trash.in_phase(key.topic, TrashPhase.TRASHED)
    if trashed is not None and trashed.entry.topic_id == debt.debt.topic_id:
        return True
    topic = context.cluster.topics.get(key.topic)
    return topic is not None and (
        topic.created_zxid == key.created_zxid or (topic.id is not None and topic.id == debt.debt.topic_id)
    )


def _may_be_kept(context: Context, key: DebtKey, debt: OpenDebt) -> bool:
    """Return whether the trash may keep what the debt is about: it cannot be read, or nothing compares ids."""
    trash = context.cluster.trash
    is_unseen = trash.unseen is not None or key.topic in trash.unreadable
    return is_unseen or (not is_compared(context, key, debt) and trash.may_keep(key.topic))


def payable(context: Context, key: DebtKey, debt: OpenDebt) -> Bits:
    """Return the partitions that the broker may be asked to delete now.

    Never those of a topic that exists, or that is or may be in the trash, nor of a broker outside the controller's
    scope. If nothing compares ids, only partitions that no topic has on the broker."""
    cluster = context.cluster
    if not context.config.scope.settles(key.broker):
        return 0
    if key.broker not in cluster.brokers or cluster.paused is not None or cluster.leaving is not None:
        return 0
    if key.topic in cluster.quarantined_topics:
        return 0
    if lives(context, key, debt) or _may_be_kept(context, key, debt):
        return 0
    topic = cluster.topics.get(key.topic)
    if topic is None:
        return debt.left
    if is_compared(context, key, debt):
        return debt.left
    hosted = topic.assigned().get(key.broker, 0) | partitions_of(topic.replicas.get(key.broker, ()))
    return debt.left & ~hosted


def withheld(context: Context, broker: BrokerId, name: str) -> Bits:
    """Return the topic's partitions that the broker may not hear of yet, because it owes earlier ones of that name."""
    cluster = context.cluster
    topic = cluster.topics.get(name)
    if topic is None:
        return 0
    if not ids_are_compared(context) and any(
        each.broker in (None, broker) and each.topic in (None, name) for each in cluster.debts.unreadable.values()
    ):
        return topic.numbers
    found = 0
    for key, debt in cluster.debts.of_broker(broker, name):
        if lives(context, key, debt):
            continue
        found |= debt.left if is_compared(context, key, debt) else _born_too_low(topic, broker, debt)
    return found & topic.numbers


def earlier(context: Context, broker: BrokerId, name: str) -> Bits:
    """Return the partitions of which the broker may still have a directory of an earlier topic of this name."""
    found = 0
    for key, debt in context.cluster.debts.of_broker(broker, name):
        if not lives(context, key, debt):
            found |= debt.left
    return found


def uncut(context: Context, broker: BrokerId, name: str) -> Bits:
    """Return the partitions of which the broker owes earlier replicas that nothing compares with the topic's own.

    It cuts their records off when it follows another broker, and only then: so it is not in the first ISR."""
    found = 0
    for key, debt in context.cluster.debts.of_broker(broker, name):
        if key.created_zxid != context.cluster.topics[name].created_zxid and not is_compared(context, key, debt):
            found |= debt.left
    return found


def _born_too_low(topic: Topic, broker: BrokerId, debt: OpenDebt) -> Bits:
    """Return the partitions that would not cut the broker's old records off: another controller has created them."""
    return bits_of(
        number
        for number, _, state in topic.leaders(debt.left)
        if state.leader_epoch <= debt.debt.last_leader_epoch and broker not in state.isr
    )


def first_leader_epoch(context: Context, name: str) -> int:
    """Return the leader epoch with which new partitions of this name begin: above all that are owed of the name."""
    last = context.cluster.debts.last_leader_epoch(name)
    return INITIAL_LEADER_EPOCH if last is None else last + 1


def last_leader_epoch(context: Context, name: str) -> int | None:
    """Return the highest leader epoch that any partition of the topic had; None if it is unknown.

    When states are gone because a removal was interrupted, the debts that were written before it have the epoch."""
    topic = context.cluster.topics[name]
    written = context.cluster.debts.last_leader_epoch(name, topic.created_zxid)
    if topic.led != topic.numbers and written is None:
        return None
    epochs = (state.leader_epoch for _, _, state in topic.leaders(topic.led))
    return max((*epochs, -1 if written is None else written, 0))
