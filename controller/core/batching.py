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
* A broker that owes replicas of an earlier topic (`debts`) gets no LeaderAndIsr for a later one of that name.
* A broker that owes the tombstone of an earlier topic (`owed`) gets no other topic of that name.
* A queued topic's partition without leadership has a tombstone too: after a crash during its removal, a broker may
  still show it.
* LeaderAndIsr for a queued topic has no leader (-1): it checks whether the broker can access the replica.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeVar

from lethe.controller.core import debts_policy, listing
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import OwingBroker
from lethe.controller.core.partition_sets import (
    Bits,
    PartitionColumns,
    Sets,
    key_of,
    numbers_in,
    partitions_of,
    partitions_with,
    put,
    remembered,
)
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

_LEADER: Final = operator.attrgetter("leader")

R = TypeVar("R")
E = TypeVar("E")
V = TypeVar("V")
NO_PARTITIONS: Final[PartitionColumns] = MappingProxyType({})
MAX_COMPARED = 8
"""Limit of other brokers' requests that one is compared with: in a large cluster hardly any are equal."""
FIRST_STOP_REPLICA_WITH_FLAG_PER_PARTITION = 3


class RequestBatch:
    """One batch; `StepContext.batch` creates it empty, `StepContext.flush` sends it."""

    __slots__ = ("_context", "_dropped", "_leader_and_isr", "_stop_replica", "_tell_all", "_told", "_updates")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._leader_and_isr: dict[BrokerId, dict[str, Sets[bool]]] = {}
        self._updates: dict[str, Bits] = {}
        self._dropped: dict[BrokerId, tuple[UpdateMetadataTopic, ...]] = {}
        self._told: dict[BrokerId, None] = {}
        self._tell_all = False
        self._stop_replica: dict[BrokerId, dict[str, Sets[bool]]] = {}

    # --- collecting ------------------------------------------------------------------------------------------------

    def add_leader_and_isr(self, brokers: Iterable[int], topic_partition: TopicPartition, *, is_new: bool) -> None:
        """Add the partition to LeaderAndIsr for these brokers, and to UpdateMetadata for all brokers."""
        bits = 1 << topic_partition.partition
        receivers = {BrokerId(broker): bits for broker in brokers}
        self.add_leader_and_isrs(topic_partition.topic, bits, receivers, is_new=is_new)

    def add_leader_and_isrs(
        self, topic: str, partitions: Bits, receivers: Mapping[BrokerId, Bits], *, is_new: bool
    ) -> None:
        """Add those of these partitions that a broker is to receive to its LeaderAndIsr, and all of them to
        UpdateMetadata for all brokers. A partition that is new for a broker stays so."""
        if not partitions:
            return
        for broker, bits in receivers.items():
            if broker in self._context.cluster.debts.debtors:
                bits &= ~debts_policy.withheld(self._context, broker, topic)
            if bits & partitions and broker in self._context.cluster.brokers:
                _add(self._leader_and_isr.setdefault(broker, {}), topic, bits & partitions, is_new)
        self._updates[topic] = self._updates.get(topic, 0) | partitions
        self._tell_all = True

    def add_update_metadata(self, brokers: Iterable[int], partitions: PartitionColumns = NO_PARTITIONS) -> None:
        """Add these brokers to the receivers of UpdateMetadata, and these partitions for all its receivers."""
        for broker in brokers:
            if broker in self._context.cluster.brokers:
                self._told[BrokerId(broker)] = None
        for topic, bits in partitions.items():
            self._updates[topic] = self._updates.get(topic, 0) | bits

    def add_stop_replica(self, broker: BrokerId, topic_partition: TopicPartition, *, delete: bool) -> None:
        """Add the replica to StopReplica for this broker; `delete`: the broker also deletes it."""
        self.add_stop_replicas(broker, topic_partition.topic, 1 << topic_partition.partition, delete=delete)

    def add_stop_replicas(self, broker: BrokerId, topic: str, partitions: Bits, *, delete: bool) -> None:
        """Add the replicas of these partitions to StopReplica for this broker. A replica that is deleted stays so."""
        if broker in self._context.cluster.brokers:
            _add(self._stop_replica.setdefault(broker, {}), topic, partitions, delete)

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
        rows = {name: _LeaderAndIsrRows(context, name) for name in self._updates if name in cluster.topics}
        made: list[tuple[dict[str, Sets[bool]], LeaderAndIsrRequest]] = []
        for broker, entries in self._leader_and_isr.items():
            request = _made_of(entries, made)
            if request is None:
                topics = tuple(rows[name].of(sets) for name, sets in entries.items() if name in rows)
                leaders = dict.fromkeys(map(_LEADER, chain.from_iterable(topic.partitions for topic in topics)))
                nodes = tuple(_nodes(context, leaders))
                request = LeaderAndIsrRequest(context.config.controller_id, cluster.epoch, topics, nodes)
                made.append((entries, request))
            yield broker, request

    def _update_metadata_requests(self) -> Iterator[tuple[BrokerId, ControlRequest]]:
        context = self._context
        cluster = context.cluster
        told = self._told | dict.fromkeys(cluster.brokers) if self._tell_all else self._told
        if not told:
            return
        offline = _OfflineReplicas(cluster)
        known = {name: bits for name, bits in self._updates.items() if name in cluster.topics}
        topics = (_update_metadata_topic(context, name, bits, offline) for name, bits in known.items())
        request = update_metadata(context, tuple(topic for topic in topics if topic.partitions))
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
        return _doomed_rows(partitions_of(sets), partitions_with(sets, True))
    return tuple(
        StopReplicaPartition(number, _stop_epoch(context, topic, number), key_of(sets, number) is True)
        for number in numbers_in(partitions_of(sets))
    )


@remembered(256)
def _doomed_rows(partitions: Bits, deleted: Bits) -> tuple[StopReplicaPartition, ...]:
    """Return the rows of a queued topic, which topics with the same partitions share."""
    return tuple(StopReplicaPartition(n, EPOCH_DURING_DELETE, bool(deleted >> n & 1)) for n in numbers_in(partitions))


def update_metadata(context: Context, topics: tuple[UpdateMetadataTopic, ...]) -> UpdateMetadataRequest:
    """Return an UpdateMetadata with the live brokers and these topics."""
    listed = listing.entry(context)
    live = (*context.cluster.brokers.values(), *(() if listed is None else (listed,)))
    return UpdateMetadataRequest(context.config.controller_id, context.cluster.epoch, topics, live)


def topic_row(context: Context, name: str) -> UpdateMetadataTopic:
    """Return the UpdateMetadata entry of the whole topic: its tombstone if it is queued."""
    cluster = context.cluster
    return _update_metadata_topic(context, name, cluster.topics[name].numbers, _OfflineReplicas(cluster))


def _without_owed(context: Context, broker: BrokerId, request: UpdateMetadataRequest) -> UpdateMetadataRequest:
    """Return the request without other topics of the names that are in tombstones which the broker owes.

    The same topic's tombstone stays: a topic that goes into the trash, and is deleted from it, gets two of them."""
    owing_broker = context.cluster.owed.get(broker)
    if owing_broker is None:
        return request
    kept = tuple(topic for topic in request.topics if not _is_other(context, owing_broker, topic))
    return request if len(kept) == len(request.topics) else replace(request, topics=kept)


def _is_other(context: Context, owing_broker: OwingBroker, topic: UpdateMetadataTopic) -> bool:
    owed = owing_broker.topics.get(topic.topic)
    if owed is None:
        return False
    is_same = topic.topic_id is not None and owed.row.topic_id == topic.topic_id
    return not (is_same and context.cluster.is_queued(topic.topic))


def _add(topics: dict[str, Sets[bool]], topic: str, partitions: Bits, flag: bool) -> None:
    """Add these partitions; one whose flag was set keeps it."""
    known = topics.get(topic, ())
    topics[topic] = put(known, partitions if flag else partitions & ~partitions_with(known, True), flag)


def _made_of(entries: dict[E, V], made: list[tuple[dict[E, V], R]]) -> R | None:
    """Return the request that was built from the same entries in the same order, if any."""
    for others, request in made[:MAX_COMPARED]:
        # Equal dicts may differ in order, which the request keeps; different ones mostly differ early.
        if len(others) == len(entries) and all(map(operator.eq, others.items(), entries.items())):
            return request
    return None


class _LeaderAndIsrRows:
    """Rows of one topic, which brokers share; those with the same partitions share all of the topic."""

    __slots__ = ("_made", "_name", "_rows", "_topic")

    def __init__(self, context: Context, name: str) -> None:
        self._name = name
        self._topic = context.cluster.topics[name]
        self._rows = {is_new: _RowsByNumber(context, name, is_new) for is_new in (True, False)}
        self._made: dict[Sets[bool], LeaderAndIsrTopic] = {}

    def of(self, sets: Sets[bool]) -> LeaderAndIsrTopic:
        """Return the topic with these partitions, each with its flag that it is new."""
        made = self._made.get(sets)
        if made is None:
            rows = tuple(chain.from_iterable(self._rows[flag].of(bits & self._topic.numbers) for flag, bits in sets))
            if len(sets) > 1:
                rows = tuple(sorted(rows))
            made = self._made[sets] = LeaderAndIsrTopic(self._name, self._topic.id, rows)
        return made


class _RowsByNumber(dict[int, LeaderAndIsrPartition]):
    """Rows of one topic's partitions, all new or none; each is made when it is first asked for."""

    __slots__ = ("_epoch", "_is_new", "_is_queued", "_partitions")

    def __init__(self, context: Context, name: str, is_new: bool) -> None:
        super().__init__()
        self._partitions = context.cluster.topics[name].partitions
        self._epoch = context.cluster.epoch
        # A queued partition has no leader: a broker without the replica creates an empty log and does not fetch.
        self._is_queued = context.cluster.is_queued(name)
        self._is_new = is_new

    def of(self, partitions: Bits) -> Iterator[LeaderAndIsrPartition]:
        return map(self.__getitem__, numbers_in(partitions))

    def __missing__(self, number: int) -> LeaderAndIsrPartition:
        partition = self._partitions[number]
        replicas, adding, removing = partition.assignment
        # Only a queued partition is announced without leadership: the answer shows whether the broker can access the
        # replica's directory.
        state = partition.leader_and_isr or LeaderAndIsr(LEADER_NONE, INITIAL_LEADER_EPOCH, replicas, self._epoch)
        leader, leader_epoch, isr, controller_epoch, partition_epoch, recovery_state = state
        row = self[number] = LeaderAndIsrPartition(
            number,
            controller_epoch,
            LEADER_NONE if self._is_queued else leader,
            leader_epoch,
            isr,
            partition_epoch,
            replicas,
            adding,
            removing,
            self._is_new,
            recovery_state,
        )
        return row


class _OfflineReplicas:
    """Offline replicas of a partition; without failed directories they depend on the brokers alone."""

    __slots__ = ("_cluster", "_known")

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._known: dict[tuple[int, ...], tuple[int, ...]] | None = None if cluster.has_failures else {}

    def of(self, name: str, number: int, replicas: tuple[int, ...]) -> tuple[int, ...]:
        offline = None if self._known is None else self._known.get(replicas)
        if offline is None:
            is_online, topic_partition = self._cluster.is_online, TopicPartition(name, number)
            offline = tuple(r for r in replicas if not is_online(topic_partition, r))
            if self._known is not None:
                self._known[replicas] = offline
        return offline


def _update_metadata_topic(
    context: Context, name: str, partitions: Bits, offline: _OfflineReplicas
) -> UpdateMetadataTopic:
    topic, is_queued = context.cluster.topics[name], context.cluster.is_queued(name)
    rows: list[UpdateMetadataPartition] = []
    for number in numbers_in(partitions & (topic.numbers if is_queued else topic.led)):
        partition = topic.partitions[number]
        replicas = partition.assignment.replicas
        absent = offline.of(name, number, replicas)
        state = partition.leader_and_isr
        if is_queued:
            epoch, isr = (context.cluster.epoch, replicas) if state is None else (state.controller_epoch, state.isr)
            rows.append(UpdateMetadataPartition(number, epoch, LEADER_DURING_DELETE, 0, isr, 0, replicas, absent))
        elif state is not None:
            leader, leader_epoch, isr, epoch, partition_epoch, _ = state
            rows.append(
                UpdateMetadataPartition(number, epoch, leader, leader_epoch, isr, partition_epoch, replicas, absent)
            )
    return UpdateMetadataTopic(name, topic.id, tuple(rows))


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
