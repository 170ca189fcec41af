"""Moves replicas that were assigned to a controller to brokers.

Brokers create some topics themselves (automatic creation, `__consumer_offsets`, `__transaction_state`), on all live
brokers that they see, including an advertised controller. A controller hosts no replicas. A partition on it alone has
no leader, and one on it and a single broker prevents a controlled shutdown of that broker.

    the topic                            the controller's id
    -----------------------------------  ------------------------------------------------------------------------
    has no states yet                    is replaced in the topic's znode, with the version that was read, before any
                                         state is written or announced
    has states (by Kafka's controller)   is replaced by a reassignment
    is queued for deletion               stays; the replica counts as deleted

`advertising` stores the ids of controllers in ZooKeeper. An id under which a broker is registered is a broker's.

Choice of the broker: no replica of the partition yet, if possible a rack without one, then the fewest replicas of the
topics at hand (for a preferred replica, the fewest preferred ones). Ties are broken by rotation, from a start that
depends on the topic's name. If every broker has a replica already, the controller's id stays as the last replica: so
the replication factor is kept, and the next new broker gets the replica.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from lethe.controller.core.context import Context
from lethe.controller.core.expansion import note_written, set_topic, znode_of
from lethe.controller.core.mutation import remove_topic, set_assignment
from lethe.controller.core.replica_assignment import BrokerRack
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ReadModifiedTopics, ReadStates, ReadTopics
from lethe.controller.core.tasks_advertising import EvictReplicas, ReplicasEvicted
from lethe.controller.core.tasks_reassignment import StartReassignments, Target
from lethe.controller.core.topic import Partition
from lethe.controller.core.transitions import PartitionState
from lethe.protocol.journal import EventRecordType, partition_ranges
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import znodes
from lethe.protocol.zookeeper.operations import ZkError
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome, write_failure_words

# --- choosing -----------------------------------------------------------------------------------------------------


class BrokerSelection:
    """Chooses brokers evenly for many partitions. The same calls in the same order give the same results."""

    def __init__(self, brokers: Iterable[BrokerRack], advertised_controllers: Iterable[int]) -> None:
        self._brokers: Sequence[BrokerRack] = sorted(brokers)
        self._racks = {broker.id: broker.rack for broker in self._brokers}
        self._advertised_controllers = frozenset(advertised_controllers)
        self._load: Counter[int] = Counter()
        self._preferred: Counter[int] = Counter()

    def concerns(self, replicas: Iterable[int]) -> bool:
        """Return whether a controller is among these replicas."""
        return not self._advertised_controllers.isdisjoint(replicas)

    def note(self, replicas: Sequence[int]) -> None:
        """Count the existing replicas of one partition, the preferred one first."""
        self._load.update(replicas)
        self._preferred.update(replicas[:1])

    def replace_controllers(self, replicas: Sequence[int], start: int) -> tuple[int, ...]:
        """Return the replicas with brokers in place of controllers; a controller without a substitute goes to the end.

        `start` breaks ties between brokers."""
        staying = [replica for replica in replicas if replica not in self._advertised_controllers]
        placed: list[int] = []
        waiting: list[int] = []
        for replica in replicas:
            chosen = replica
            if replica in self._advertised_controllers:
                found = self._best({*staying, *placed}, start, is_preferred=not placed)
                if found is None:
                    waiting.append(replica)
                    continue
                chosen = found
                self._load[chosen] += 1
                self._preferred[chosen] += not placed
            placed.append(chosen)
        return (*placed, *waiting)

    def _best(self, taken: set[int], start: int, *, is_preferred: bool) -> int | None:
        used = {rack for broker, rack in self._racks.items() if broker in taken and rack is not None}
        count = len(self._brokers)
        free = (
            (
                broker.rack in used,
                self._preferred[broker.id] if is_preferred else 0,
                self._load[broker.id],
                (index - start) % count,
                broker.id,
            )
            for index, broker in enumerate(self._brokers)
            if broker.id not in taken
        )
        best = min(free, default=None)
        return None if best is None else best[-1]


# --- moving -------------------------------------------------------------------------------------------------------


def evict(step: StepContext, task: EvictReplicas) -> None:
    """Rewrite topics that are not announced yet, and reassign the partitions of the others."""
    context = step.context
    cluster = context.cluster
    advertised_controllers = [
        advertised for advertised in cluster.advertised_controllers if cluster.is_advertised(advertised)
    ]
    if not advertised_controllers:
        return
    live = (BrokerRack(b.id, b.rack) for b in cluster.brokers.values() if cluster.is_live(b.id))
    selection = BrokerSelection(live, advertised_controllers)
    if task.loading and not task.states_read:
        # Only the states tell which partitions may be rewritten.
        _read_states_first(step, task, selection)
        return
    targets: list[Target] = []
    rewritten: dict[str, dict[int, ReplicaAssignment]] = {}
    for topic_partition, partition in _concerned(context, task, selection):
        replicas = selection.replace_controllers(partition.assignment.replicas, _start(topic_partition))
        if replicas == partition.assignment.replicas:
            continue
        if partition.leader_and_isr is None and cluster.partition_state(topic_partition) is PartitionState.NON_EXISTENT:
            rewritten.setdefault(topic_partition.topic, {})[topic_partition.partition] = ReplicaAssignment(replicas)
        elif not task.loading and frozenset(replicas) != frozenset(partition.assignment.replicas):
            targets.append(Target(topic_partition, replicas))
    if targets:
        step.do(StartReassignments(tuple(targets), evicts=True))
    if rewritten:
        groups = [(set_topic(context, name, _with(context, name, new)),) for name, new in rewritten.items()]
        assignments = tuple(tuple(new.items()) for new in rewritten.values())
        step.write(groups, ReplicasEvicted(tuple(rewritten), assignments, task.loading))


def _concerned(
    context: Context, task: EvictReplicas, selection: BrokerSelection
) -> Iterator[tuple[TopicPartition, Partition]]:
    """Yield movable partitions with a replica on a controller; count the replicas of their topics."""
    cluster = context.cluster
    for name in cluster.topics if task.topics is None else task.topics:
        if cluster.is_queued(name):
            continue
        found = list(cluster.partitions_of(name))
        if not any(selection.concerns(partition.assignment.replicas) for _, partition in found):
            continue
        for _, partition in found:
            selection.note(partition.assignment.replicas)
        for topic_partition, partition in found:
            if selection.concerns(partition.assignment.replicas) and topic_partition not in cluster.reassignments:
                yield topic_partition, partition


def _read_states_first(step: StepContext, task: EvictReplicas, selection: BrokerSelection) -> None:
    concerned = tuple(dict.fromkeys(tp.topic for tp, _ in _concerned(step.context, task, selection)))
    if concerned:
        step.do(ReadStates(concerned), EvictReplicas(concerned, loading=True, states_read=True))


def _start(topic_partition: TopicPartition) -> int:
    return zlib.crc32(topic_partition.topic.encode()) + topic_partition.partition


def _with(context: Context, name: str, new: dict[int, ReplicaAssignment]) -> znodes.TopicZnode:
    znode = znode_of(context, name)
    return znodes.TopicZnode({**znode.assignments, **new}, znode.topic_id)


def on_replicas_evicted(step: StepContext, task: ReplicasEvicted, outcomes: Sequence[GroupOutcome]) -> None:
    """Store the written assignments; read topics again that others have written."""
    context = step.context
    changed: list[str] = []
    for name, assignments, outcome in zip(task.topics, task.assignments, outcomes, strict=True):
        if isinstance(outcome, GroupDone):
            note_written(context, name)
            for number, assignment in assignments:
                set_assignment(context.cluster, TopicPartition(name, number), assignment)
            numbers = partition_ranges([number for number, _ in assignments])
            step.record(
                EventRecordType.EVENT, f"topic/{name}", what="replicas moved off a controller", partitions=numbers
            )
        elif isinstance(outcome, GroupFailed) and outcome.error in (ZkError.BAD_VERSION, ZkError.NO_NODE):
            changed.append(name)
        else:
            why = write_failure_words(outcome)
            step.refuse(f"topic/{name}", "moving its replicas off a controller", f"writing its znode: {why}")
    if changed:
        _read_again(step, tuple(changed), loading=task.loading)


def _read_again(step: StepContext, names: tuple[str, ...], *, loading: bool) -> None:
    """Read topics again; one without partitions in service is read as a new topic."""
    cluster = step.context.cluster
    unseen = [
        name
        for name in names
        if name not in cluster.topics or not (cluster.topics[name].states or cluster.topics[name].led)
    ]
    for name in unseen:
        remove_topic(cluster, name)
    seen = tuple(name for name in names if name in cluster.topics)
    if seen and not loading:
        step.do(ReadModifiedTopics(seen), EvictReplicas(seen))
    if unseen:
        after = (EvictReplicas(tuple(unseen), loading=True),) if loading else ()
        step.do(ReadTopics(tuple(unseen), loading), *after)
