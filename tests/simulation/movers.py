"""People who grow topics, move replicas and want the preferred replica to lead: through znodes, as tools do.

A careful tool reads, thinks, and writes what it read with something added, expecting that nothing has changed; it tries
again where something has. Kafka's own tool writes whatever it finds over, in the moment after it has read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, Operation, SetData
from tests.simulation.ledger import Incarnation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

TRIES = 3
LARGEST_TOPIC = 5
THINKING_MS = (0, 400)
LOOK_EVERY_MS = 5
LOOKS = 200
GARBAGE = (b"{", b"", b'{"version":1,"partitions":[{"topic":"t0"}]}', b"[]")

Targets = dict[TopicPartition, tuple[int, ...]]


class Movers:
    """What they do; each method is one deed, which may turn out to be impossible."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._ensemble = cluster.ensemble
        self._ledger = cluster.ledger

    # --- expansion -------------------------------------------------------------------------------------------------

    def expand(self) -> None:
        """Add partitions to a topic that is not marked, the careful way."""
        name = self._pick([name for name in self._readable() if name not in self._ledger.marked])
        if name is not None:
            self._grow(self._ledger.living[name], TRIES)

    def expand_blindly(self) -> None:
        """Add partitions to any topic, rather to one that is marked, over whatever is written there."""
        readable = self._readable()
        doomed = [name for name in readable if name in self._ledger.marked]
        name = self._pick(doomed if doomed and self._world.chance(0.7) else readable)
        if name is not None:
            operation = self._grown(self._ledger.living[name])
            self._do(operation._replace(version=ANY_VERSION))

    def expand_and_mark(self) -> None:
        """Add partitions to a topic and have it deleted before anybody has seen them."""
        name = self._pick([name for name in self._readable() if name not in self._ledger.marked])
        if name is not None:
            self._do(self._grown(self._ledger.living[name]))
            self._do(Create(paths.delete_topic(name), None))

    def _grow(self, incarnation: Incarnation, tries: int) -> None:
        operation = self._grown(incarnation)

        def write() -> None:
            lives = self._ledger.living.get(incarnation.name) is incarnation and incarnation.readable
            if lives and not self._do(operation) and tries > 1:
                self._grow(incarnation, tries - 1)

        self._world.after(self._world.between(*THINKING_MS), write)

    def _grown(self, incarnation: Incarnation) -> SetData:
        """The write that adds one or two partitions to what the topic's znode says now."""
        path = paths.topic(incarnation.name)
        node = self._ensemble.model.node(path)
        assert node is not None
        znode = znodes.decode_topic(incarnation.name, node.data)
        assignments = dict(znode.assignments)
        factor = len(assignments[0].target)
        for _ in range(self._world.between(1, 2)):
            if len(assignments) < LARGEST_TOPIC:
                assignments[len(assignments)] = ReplicaAssignment(self._brokers(factor))
        data = znodes.encode_topic(znodes.TopicZnode(assignments, znode.topic_id))
        return SetData(path, data, node.version)

    # --- reassignment ----------------------------------------------------------------------------------------------

    def reassign(self) -> None:
        """Move a few partitions; where a request is there already, add to it or put another one in its place."""
        chosen = [tp for tp in self._partitions() if self._world.chance(0.4)][:4]
        targets = {tp: self._brokers(self._world.between(1, 3)) for tp in chosen}
        if targets:
            self._ask_for(targets, keep=self._world.chance(0.7))

    def move_and_expand(self) -> None:
        """Move a partition and add others at the same time: whoever writes the topic's znode last must not win."""
        name = self._pick([name for name in self._readable() if name not in self._ledger.marked])
        if name is None:
            return
        incarnation = self._ledger.living[name]
        self._ask_for({TopicPartition(name, 0): self._brokers(self._world.between(1, 3))}, keep=True)

        def grow() -> None:
            if self._ledger.living.get(name) is incarnation and incarnation.readable:
                self._do(self._grown(incarnation))

        self._world.after(self._moment(), grow)

    def cancel_reassignment(self) -> None:
        """Want partitions that move back where they came from."""
        moving = {
            TopicPartition(name, partition): assignment.origin
            for name, incarnation in self._ledger.living.items()
            for partition, assignment in incarnation.assignments.items()
            if assignment.is_being_reassigned
        }
        if moving:
            self._ask_for(moving, keep=self._world.chance(0.5))

    def mark_for_a_moment(self) -> None:
        """Have a topic moved, have it deleted as soon as it moves, and think better of it at once."""
        name = self._pick([name for name in self._readable() if name not in self._ledger.marked])
        if name is not None:
            self._ask_for({TopicPartition(name, 0): self._brokers(self._world.between(1, 3))}, keep=True)
            self._mark_when_moving(self._ledger.living[name], LOOKS)

    def _mark_when_moving(self, incarnation: Incarnation, looks: int) -> None:
        name = incarnation.name
        if self._ledger.living.get(name) is not incarnation or name in self._ledger.marked or not looks:
            return
        if incarnation.is_settled:
            self._world.after(LOOK_EVERY_MS, lambda: self._mark_when_moving(incarnation, looks - 1))
            return

        def unmark() -> None:
            self._do(Delete(paths.delete_topic(name)))

        self._do(Create(paths.delete_topic(name), None))
        self._world.after(self._moment(), unmark)

    def withdraw_reassignment(self) -> None:
        """Remove the request by hand; what has begun goes on."""
        if self._ensemble.model.node(paths.REASSIGN_PARTITIONS) is not None:
            self._do(Delete(paths.REASSIGN_PARTITIONS))

    def write_nonsense(self) -> None:
        """Ask for something that nobody can understand or do."""
        if self._world.chance(0.5):
            self._put(paths.REASSIGN_PARTITIONS, GARBAGE[self._world.between(0, len(GARBAGE) - 1)])
            return
        partitions = self._partitions()
        at = partitions[self._world.between(0, len(partitions) - 1)] if partitions else TopicPartition("t0", 0)
        nonsense: tuple[tuple[TopicPartition, tuple[int, ...]], ...] = (
            (at, ()),
            (at, (1, 1)),
            (TopicPartition("nobody", 0), (1,)),
            (TopicPartition(at.topic, 77), (1, 2)),
        )
        self._ask_for(dict([nonsense[self._world.between(0, len(nonsense) - 1)]]), keep=True)

    def _ask_for(self, targets: Targets, *, keep: bool) -> None:
        node = self._ensemble.model.node(paths.REASSIGN_PARTITIONS)
        if node is not None and keep:
            targets = self._understood(node.data) | targets
        self._put(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment(targets))

    def _understood(self, data: bytes | None) -> Targets:
        try:
            return znodes.decode_reassignment(data)
        except znodes.MalformedZnode:
            return {}

    # --- elections -------------------------------------------------------------------------------------------------

    def prefer(self) -> None:
        """Want the preferred replicas of some partitions to lead, or write what nobody can understand."""
        chosen = [tp for tp in self._partitions() if self._world.chance(0.6)]
        if self._world.chance(0.2):
            chosen.append(TopicPartition("nobody", 0))
        garbage = self._world.chance(0.1)
        data = GARBAGE[0] if garbage else znodes.encode_preferred_replica_election(chosen)
        if chosen or garbage:
            self._put(paths.PREFERRED_REPLICA_ELECTION, data)

    # --- parts -----------------------------------------------------------------------------------------------------

    def _moment(self) -> int:
        """About as long as a controller takes to read and write something."""
        return self._world.between(1, 6 * self._cluster.mix.zookeeper_ms[1] + 4)

    def _readable(self) -> list[str]:
        return [name for name, incarnation in self._ledger.living.items() if incarnation.readable]

    def _partitions(self) -> list[TopicPartition]:
        living: Mapping[str, Incarnation] = self._ledger.living
        return [TopicPartition(name, number) for name in self._readable() for number in living[name].assignments]

    def _brokers(self, factor: int) -> tuple[int, ...]:
        brokers = [int(broker) for broker in self._cluster.agents]
        return tuple(self._world.random.sample(brokers, min(factor, len(brokers))))

    def _pick(self, names: list[str]) -> str | None:
        return names[self._world.between(0, len(names) - 1)] if names else None

    def _put(self, path: str, data: bytes) -> None:
        there = self._ensemble.model.node(path) is not None
        self._do(SetData(path, data, ANY_VERSION) if there else Create(path, data))

    def _do(self, operation: Operation) -> bool:
        return self._ensemble.operate(operation)
