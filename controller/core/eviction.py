"""Replicas that were placed on a controller are moved to brokers.

Theory of operation. Brokers create some topics themselves (automatic creation, `__consumer_offsets`,
`__transaction_state`), and choose among all that they take for live brokers, a listed controller included. It holds no
replicas: a partition on it alone would have no leader, and one on it and a single broker would not let that broker shut
down in good order. So the controller's id is replaced in the topic's znode, provided nobody has written it since,
before any state is written and anybody is told. Where states are there already, because one of Kafka's controllers
was quicker, the partition is reassigned. In a topic that is queued for deletion the controller's replicas count as
gone.

Whose ids these are is written down in ZooKeeper before anybody is told of them (`residence`), so that the next
controller knows the ids of its predecessors. An id under which a broker is registered is a broker's, whatever it was.

The choice: a broker that has no replica of the partition, of a rack that has none if possible, with the fewest replicas
of the topics at hand (for a preferred replica, with the fewest preferred ones); among equals they take turns, beginning
at a place that depends on the topic's name. Where every broker has one already the controller's id stays, as the last
one: the number of replicas that somebody wanted is not forgotten, and the next broker gets it.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from lethe.controller.core.agenda import ReadModifiedTopics, ReadStates, ReadTopics
from lethe.controller.core.agenda_reassignment import StartReassignments, Target
from lethe.controller.core.agenda_residence import EvictReplicas, ReplicasEvicted
from lethe.controller.core.context import Context
from lethe.controller.core.expansion import note_written, set_topic, znode_of
from lethe.controller.core.mutation import remove_topic, set_assignment
from lethe.controller.core.placement import BrokerRack
from lethe.controller.core.topic import Partition
from lethe.controller.core.transitions import PartitionState
from lethe.controller.core.turn import Turn
from lethe.protocol.journal import FactType, partition_ranges
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import znodes
from lethe.protocol.zookeeper.operations import ZkError
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome

# --- choosing -----------------------------------------------------------------------------------------------------


class Landlord:
    """Chooses brokers for many partitions, evenly; the same questions in the same order get the same answers."""

    def __init__(self, brokers: Iterable[BrokerRack], residents: Iterable[int]) -> None:
        self._brokers: Sequence[BrokerRack] = sorted(brokers)
        self._racks = {broker.id: broker.rack for broker in self._brokers}
        self._residents = frozenset(residents)
        self._load: Counter[int] = Counter()
        self._preferred: Counter[int] = Counter()

    def concerns(self, replicas: Iterable[int]) -> bool:
        """Whether a controller is among them."""
        return not self._residents.isdisjoint(replicas)

    def note(self, replicas: Sequence[int]) -> None:
        """These replicas of one partition exist, the preferred one first."""
        self._load.update(replicas)
        self._preferred.update(replicas[:1])

    def rehouse(self, replicas: Sequence[int], start: int) -> tuple[int, ...]:
        """The replicas with brokers in the places of controllers; where there is none left, the controller at the end.

        `start` decides whose turn it is among brokers that are equally good."""
        staying = [replica for replica in replicas if replica not in self._residents]
        placed: list[int] = []
        waiting: list[int] = []
        for replica in replicas:
            chosen = replica
            if replica in self._residents:
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


def evict(turn: Turn, task: EvictReplicas) -> None:
    """Rewrite the topics that nobody has been told of, and reassign the partitions of the others."""
    context = turn.context
    cluster = context.cluster
    residents = [resident for resident in cluster.residents if cluster.is_resident(resident)]
    if not residents:
        return
    live = (BrokerRack(b.id, b.rack) for b in cluster.brokers.values() if cluster.is_live(b.id))
    landlord = Landlord(live, residents)
    targets: list[Target] = []
    rewritten: dict[str, dict[int, ReplicaAssignment]] = {}
    for topic_partition, partition in _concerned(context, task, landlord):
        replicas = landlord.rehouse(partition.assignment.replicas, _start(topic_partition))
        if replicas == partition.assignment.replicas:
            continue
        if partition.leadership is None and partition.state is PartitionState.NON_EXISTENT:
            rewritten.setdefault(topic_partition.topic, {})[topic_partition.partition] = ReplicaAssignment(replicas)
        elif not task.loading and frozenset(replicas) != frozenset(partition.assignment.replicas):
            targets.append(Target(topic_partition, replicas))
    if targets:
        turn.do(StartReassignments(tuple(targets)))
    if rewritten:
        groups = [(set_topic(context, name, _with(context, name, new)),) for name, new in rewritten.items()]
        assignments = tuple(tuple(new.items()) for new in rewritten.values())
        turn.write(groups, ReplicasEvicted(tuple(rewritten), assignments, task.loading))


def _concerned(context: Context, task: EvictReplicas, landlord: Landlord) -> Iterator[tuple[TopicPartition, Partition]]:
    """Partitions with a replica on a controller that may be moved now; the landlord knows their topics then."""
    cluster = context.cluster
    for name in cluster.topics if task.topics is None else task.topics:
        if cluster.is_queued(name):
            continue
        found = list(cluster.partitions_of(name))
        if not any(landlord.concerns(partition.assignment.replicas) for _, partition in found):
            continue
        for _, partition in found:
            landlord.note(partition.assignment.replicas)
        for topic_partition, partition in found:
            if landlord.concerns(partition.assignment.replicas) and topic_partition not in cluster.reassignments:
                yield topic_partition, partition


def _start(topic_partition: TopicPartition) -> int:
    return zlib.crc32(topic_partition.topic.encode()) + topic_partition.partition


def _with(context: Context, name: str, new: dict[int, ReplicaAssignment]) -> znodes.TopicZnode:
    znode = znode_of(context, name)
    return znodes.TopicZnode({**znode.assignments, **new}, znode.topic_id)


def evicted(turn: Turn, task: ReplicasEvicted, outcomes: Sequence[GroupOutcome]) -> None:
    """Take the new replicas over where they were written; where somebody else has written, read the topic again."""
    context = turn.context
    changed: list[str] = []
    for name, assignments, outcome in zip(task.topics, task.assignments, outcomes, strict=True):
        if isinstance(outcome, GroupDone):
            note_written(context, name)
            for number, assignment in assignments:
                set_assignment(context.cluster, TopicPartition(name, number), assignment)
            numbers = partition_ranges([number for number, _ in assignments])
            turn.record(FactType.EVENT, f"topic/{name}", what="replicas moved off a controller", partitions=numbers)
        elif isinstance(outcome, GroupFailed) and outcome.error in (ZkError.BAD_VERSION, ZkError.NO_NODE):
            changed.append(name)
        else:
            why = outcome.error.name if isinstance(outcome, GroupFailed) else "not known"
            turn.refuse(f"topic/{name}", "moving its replicas off a controller", f"writing its znode: {why}")
    if changed:
        _read_again(turn, tuple(changed), loading=task.loading)


def _read_again(turn: Turn, names: tuple[str, ...], *, loading: bool) -> None:
    """As if it had never been seen, where none of it is in service yet."""
    cluster = turn.context.cluster
    unseen = [
        name
        for name in names
        if all(
            partition.state is PartitionState.NON_EXISTENT and partition.leadership is None
            for _, partition in cluster.partitions_of(name)
        )
    ]
    for name in unseen:
        remove_topic(cluster, name)
    seen = tuple(name for name in names if name in cluster.topics)
    if seen and not loading:
        turn.do(ReadModifiedTopics(seen), EvictReplicas(seen))
    if unseen:
        after = (ReadStates(), EvictReplicas(tuple(unseen), loading=True)) if loading else ()
        turn.do(ReadTopics(tuple(unseen), loading), *after)
