"""Builds one request of each kind per broker from the collected entries of a batch.

Rules of Kafka:

* In one batch a broker gets LeaderAndIsr, then UpdateMetadata, then StopReplica.
* Every partition in a LeaderAndIsr is also in the UpdateMetadata, which goes to all brokers.
* `is_new` and `delete` are sticky: once set for a partition in a batch, they stay set.
* UpdateMetadata leaves out partitions without leadership.
* A queued topic has leader -2 (the tombstone) in UpdateMetadata and leader epoch -2 in StopReplica.
* Brokers that are not registered are left out.

    add_leader_and_isr((1, 2), orders-0)    LeaderAndIsr to 1 and 2, UpdateMetadata to 1, 2 and 3

Rules of our own:

* Brokers with the same entries share one request object, which is built and encoded once.
* A controller with listeners of its own is among the live brokers of UpdateMetadata, and nowhere else.
* A broker that owes the tombstone of an earlier topic (`owed`) gets no other topic of that name.
* A queued topic's partition without leadership has a tombstone too: after a crash during its removal, a broker may
  still show it.
* LeaderAndIsr for a queued topic has no leader (-1): it checks whether the broker can access the replica.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from lethe.controller.core import listing
from lethe.controller.core.context import Context
from lethe.controller.core.partition_sets import Bits, Sets, key_of, numbers_in, partitions_of, partitions_with, put
from lethe.controller.core.topic import Partition
from lethe.protocol.kafka.control import (
    ControlRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    Node,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaTopic,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataTopic,
)
from lethe.protocol.kafka.versions import control_versions
from lethe.protocol.vocabulary import (
    EPOCH_DURING_DELETE,
    INITIAL_LEADER_EPOCH,
    LEADER_DURING_DELETE,
    LEADER_NONE,
    NO_LEADER_EPOCH,
    BrokerId,
    LeaderAndIsr,
    TopicPartition,
)

R = TypeVar("R")
E = TypeVar("E")
V = TypeVar("V")
MAX_COMPARED = 8
"""Limit of other brokers' requests that one is compared with: in a large cluster hardly any are equal."""
FIRST_STOP_REPLICA_WITH_FLAG_PER_PARTITION = 3


class RequestBatch:
    """One batch; `StepContext.batch` creates it empty, `StepContext.flush` sends it."""

    __slots__ = ("_context", "_dropped", "_leader_and_isr", "_stop_replica", "_tell_all", "_told", "_updates")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._leader_and_isr: dict[BrokerId, dict[TopicPartition, bool]] = {}
        self._updates: dict[TopicPartition, None] = {}
        self._dropped: dict[BrokerId, tuple[UpdateMetadataTopic, ...]] = {}
        self._told: dict[BrokerId, None] = {}
        self._tell_all = False
        self._stop_replica: dict[BrokerId, dict[str, Sets[bool]]] = {}

    # --- collecting ------------------------------------------------------------------------------------------------

    def add_leader_and_isr(self, brokers: Iterable[int], topic_partition: TopicPartition, *, is_new: bool) -> None:
        """Add the partition to LeaderAndIsr for these brokers, and to UpdateMetadata for all brokers."""
        for broker in brokers:
            if broker in self._context.cluster.brokers:
                entries = self._leader_and_isr.setdefault(BrokerId(broker), {})
                if is_new:
                    entries[topic_partition] = True
                else:
                    entries.setdefault(topic_partition, False)
        self._updates[topic_partition] = None
        self._tell_all = True

    def add_update_metadata(self, brokers: Iterable[int], partitions: Iterable[TopicPartition] = ()) -> None:
        """Add these brokers to the receivers of UpdateMetadata, and these partitions for all its receivers."""
        for broker in brokers:
            if broker in self._context.cluster.brokers:
                self._told[BrokerId(broker)] = None
        for topic_partition in partitions:
            self._updates[topic_partition] = None

    def add_stop_replica(self, broker: BrokerId, topic_partition: TopicPartition, *, delete: bool) -> None:
        """Add the replica to StopReplica for this broker; `delete`: the broker also deletes it."""
        self.add_stop_replicas(broker, topic_partition.topic, 1 << topic_partition.partition, delete=delete)

    def add_stop_replicas(self, broker: BrokerId, topic: str, partitions: Bits, *, delete: bool) -> None:
        """Add the replicas of these partitions to StopReplica for this broker. A replica that is deleted stays so."""
        if broker in self._context.cluster.brokers:
            topics = self._stop_replica.setdefault(broker, {})
            known = topics.get(topic, ())
            topics[topic] = put(known, partitions if delete else partitions & ~partitions_with(known, True), delete)

    def add_dropped(self, broker: BrokerId, topics: tuple[UpdateMetadataTopic, ...]) -> None:
        """Add tombstones, for this broker alone, of partitions that exist only in its metadata cache."""
        if topics and broker in self._context.cluster.brokers:
            self._dropped[broker] = topics

    # --- making requests -------------------------------------------------------------------------------------------

    def requests(self) -> Iterator[tuple[BrokerId, ControlRequest]]:
        """Yield receivers and requests, in sending order."""
        yield from self._leader_and_isr_requests()
        yield from self._update_metadata_requests()
        for broker, dropped in self._dropped.items():
            yield broker, update_metadata(self._context, dropped)
        yield from self._stop_replica_requests()

    def _leader_and_isr_requests(self) -> Iterator[tuple[BrokerId, ControlRequest]]:
        context = self._context
        cluster = context.cluster
        shared: dict[tuple[TopicPartition, bool], LeaderAndIsrPartition] = {}
        made: list[tuple[dict[TopicPartition, bool], LeaderAndIsrRequest]] = []
        for broker, entries in self._leader_and_isr.items():
            if (same := _made_of(entries, made)) is not None:
                yield broker, same
                continue
            leaders: dict[int, None] = {}
            topics: dict[str, list[LeaderAndIsrPartition]] = {}
            for topic_partition, is_new in entries.items():
                partition = cluster.partition(topic_partition)
                if partition is None:
                    continue
                row = shared.get((topic_partition, is_new))
                if row is None:
                    row = shared[topic_partition, is_new] = _leader_and_isr_row(
                        context, topic_partition, partition, is_new
                    )
                leaders[row.leader] = None
                topics.setdefault(topic_partition.topic, []).append(row)
            request = LeaderAndIsrRequest(
                context.config.controller_id,
                cluster.epoch,
                tuple(LeaderAndIsrTopic(name, cluster.topics[name].id, tuple(rows)) for name, rows in topics.items()),
                tuple(_nodes(context, leaders)),
            )
            made.append((entries, request))
            yield broker, request

    def _update_metadata_requests(self) -> Iterator[tuple[BrokerId, ControlRequest]]:
        context = self._context
        cluster = context.cluster
        told = self._told | dict.fromkeys(cluster.brokers) if self._tell_all else self._told
        if not told:
            return
        topics: dict[str, list[UpdateMetadataPartition]] = {}
        # Without failed directories, offline replicas depend on their brokers alone.
        has_failures = any(cluster.offline_dirs.values())
        absent: dict[tuple[int, ...], tuple[int, ...]] = {}
        for topic_partition in self._updates:
            partition = cluster.partition(topic_partition)
            if partition is None:
                continue
            replicas = partition.assignment.replicas
            offline = None if has_failures else absent.get(replicas)
            if offline is None:
                offline = tuple(r for r in replicas if not cluster.is_online(topic_partition, r))
                absent[replicas] = offline
            row = _update_metadata_row(context, topic_partition, partition, offline)
            if row is not None:
                topics.setdefault(topic_partition.topic, []).append(row)
        request = update_metadata(
            context,
            tuple(UpdateMetadataTopic(name, cluster.topics[name].id, tuple(rows)) for name, rows in topics.items()),
        )
        for broker in told:
            yield broker, _without_owed(context, broker, request)

    def _stop_replica_requests(self) -> Iterator[tuple[BrokerId, ControlRequest]]:
        context = self._context
        one_flag_each = control_versions(context.config.ibp).stop_replica >= FIRST_STOP_REPLICA_WITH_FLAG_PER_PARTITION
        made: list[tuple[dict[str, Sets[bool]], StopReplicaRequest]] = []
        for broker, topics in self._stop_replica.items():
            if one_flag_each:
                request = _made_of(topics, made)
                if request is None:
                    request = self._stop_replica_request(topics)
                    made.append((topics, request))
                yield broker, request
                continue
            for flag in (True, False):
                chosen = {name: partitions_with(sets, flag) for name, sets in topics.items()}
                if any(chosen.values()):
                    yield broker, self._stop_replica_request({n: ((flag, bits),) for n, bits in chosen.items() if bits})

    def _stop_replica_request(self, topics: Mapping[str, Sets[bool]]) -> StopReplicaRequest:
        context = self._context
        return StopReplicaRequest(
            context.config.controller_id,
            context.cluster.epoch,
            tuple(StopReplicaTopic(name, _stop_rows(context, name, sets)) for name, sets in topics.items()),
        )


def _stop_rows(context: Context, topic: str, sets: Sets[bool]) -> tuple[StopReplicaPartition, ...]:
    if context.cluster.is_queued(topic):
        return _doomed_rows(sets)
    return tuple(
        StopReplicaPartition(number, _stop_epoch(context, topic, number), key_of(sets, number) is True)
        for number in numbers_in(partitions_of(sets))
    )


@lru_cache(1024)
def _doomed_rows(sets: Sets[bool]) -> tuple[StopReplicaPartition, ...]:
    """Return the rows of a queued topic, which topics with the same partitions share."""
    numbers = numbers_in(partitions_of(sets))
    return tuple(StopReplicaPartition(n, EPOCH_DURING_DELETE, key_of(sets, n) is True) for n in numbers)


def update_metadata(context: Context, topics: tuple[UpdateMetadataTopic, ...]) -> UpdateMetadataRequest:
    """Return an UpdateMetadata with the live brokers and these topics."""
    listed = listing.entry(context)
    live = (*context.cluster.brokers.values(), *(() if listed is None else (listed,)))
    return UpdateMetadataRequest(context.config.controller_id, context.cluster.epoch, topics, live)


def tombstone(context: Context, name: str) -> UpdateMetadataTopic:
    """Return the UpdateMetadata entry that makes brokers drop a queued topic."""
    cluster = context.cluster
    rows = []
    for topic_partition, partition in cluster.partitions_of(name):
        offline = tuple(r for r in partition.assignment.replicas if not cluster.is_online(topic_partition, r))
        row = _update_metadata_row(context, topic_partition, partition, offline)
        assert row is not None, "a queued topic is announced without leadership too"
        rows.append(row)
    return UpdateMetadataTopic(name, cluster.topics[name].id, tuple(rows))


def _without_owed(context: Context, broker: BrokerId, request: UpdateMetadataRequest) -> UpdateMetadataRequest:
    """Return the request without the topics whose names are in tombstones that the broker owes."""
    owing_broker = context.cluster.owed.get(broker)
    if owing_broker is None:
        return request
    kept = tuple(topic for topic in request.topics if topic.topic not in owing_broker.topics)
    return request if len(kept) == len(request.topics) else replace(request, topics=kept)


def _made_of(entries: dict[E, V], made: list[tuple[dict[E, V], R]]) -> R | None:
    """Return the request that was built from the same entries in the same order, if any."""
    for others, request in made[:MAX_COMPARED]:
        # Equal dicts may differ in order, which the request keeps; different ones mostly differ early.
        if len(others) == len(entries) and all(map(operator.eq, others.items(), entries.items())):
            return request
    return None


def _leader_and_isr_row(
    context: Context, topic_partition: TopicPartition, partition: Partition, is_new: bool
) -> LeaderAndIsrPartition:
    assignment = partition.assignment
    # Only a queued partition is announced without leadership: the answer shows whether the broker can access the
    # replica's directory.
    leader_and_isr = partition.leader_and_isr or LeaderAndIsr(
        LEADER_NONE, INITIAL_LEADER_EPOCH, assignment.replicas, context.cluster.epoch
    )
    # A queued partition has no leader: a broker without the replica creates an empty log and does not fetch.
    leader = LEADER_NONE if context.cluster.is_queued(topic_partition.topic) else leader_and_isr.leader
    return LeaderAndIsrPartition(
        topic_partition.partition,
        leader_and_isr.controller_epoch,
        leader,
        leader_and_isr.leader_epoch,
        leader_and_isr.isr,
        leader_and_isr.partition_epoch,
        assignment.replicas,
        assignment.adding,
        assignment.removing,
        is_new,
        leader_and_isr.recovery_state,
    )


def _update_metadata_row(
    context: Context, topic_partition: TopicPartition, partition: Partition, offline: tuple[int, ...]
) -> UpdateMetadataPartition | None:
    replicas = partition.assignment.replicas
    leader_and_isr = partition.leader_and_isr
    if context.cluster.is_queued(topic_partition.topic):
        isr = leader_and_isr.isr if leader_and_isr is not None else replicas
        epoch = leader_and_isr.controller_epoch if leader_and_isr is not None else context.cluster.epoch
        return UpdateMetadataPartition(
            topic_partition.partition, epoch, LEADER_DURING_DELETE, 0, isr, 0, replicas, offline
        )
    if leader_and_isr is None:
        return None
    return UpdateMetadataPartition(
        topic_partition.partition,
        leader_and_isr.controller_epoch,
        leader_and_isr.leader,
        leader_and_isr.leader_epoch,
        leader_and_isr.isr,
        leader_and_isr.partition_epoch,
        replicas,
        offline,
    )


def _stop_epoch(context: Context, topic: str, number: int) -> int:
    partition = context.cluster.partition(TopicPartition(topic, number))
    if partition is None or partition.leader_and_isr is None:
        return NO_LEADER_EPOCH
    return partition.leader_and_isr.leader_epoch


def _nodes(context: Context, leaders: Iterable[int]) -> Iterator[Node]:
    for leader in leaders:
        broker = context.cluster.brokers.get(BrokerId(leader))
        if broker is None or not broker.endpoints:
            continue
        chosen = context.control_endpoint(broker)
        yield Node(broker.id, chosen.host, chosen.port)
