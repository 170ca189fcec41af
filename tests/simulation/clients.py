"""Clients that send a controller what only a controller answers: topics, partitions, moves and elections.

A client asks the controller that ZooKeeper names, and sometimes another one. Its connection ends without an answer
where the process dies, or where the network loses the request or the answer; then, and after NOT_CONTROLLER, it may
ask again, as Kafka's clients do, although what it asked for may have been done. What it is told is judged in
`client_answers`, and which writes its request explains in `client_book`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from lethe.controller.core.events import ClientRequested
from lethe.controller.core.requests import refused
from lethe.protocol.kafka.admin import (
    BROKERS_DEFAULT,
    CreatableAssignment,
    CreatableConfig,
    CreatableTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeletableTopic,
    DeleteTopicsRequest,
    GrowableTopic,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectionKind,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.to_controller import AdminRequest, ControllerResponse, errors_of
from lethe.protocol.security.authorizer import Client, Sender
from lethe.protocol.security.principals import ANONYMOUS
from lethe.protocol.vocabulary import TopicId, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from tests.simulation import client_answers
from tests.simulation.client_book import Arrived
from tests.simulation.ledger import Incarnation
from tests.simulation.wishes import Wishes

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess

P_CLIENTS: Final = 0.3
DEEDS: Final = {"ask_to_create": 24, "ask_to_delete": 14, "ask_to_grow": 8, "ask_to_move": 10, "ask_to_elect": 8}
TIMEOUTS_MS: Final = (0, 300, 3_000, 3_000, 30_000)
TRIES: Final = 5
LARGEST_TOPIC: Final = 5
OWN_NAMES: Final = 3
"""So many names are those of clients alone, and more often free."""
VERSION: Final = 6
"""Of DeleteTopics the first one with ids; of the other requests the core knows no versions."""
SENDER: Final = Sender(Client(ANONYMOUS, "127.0.0.1"))


def drawn(seed: int) -> dict[str, int]:
    """What clients do in this run; most runs have none. A chance of its own."""
    return dict(DEEDS) if Random(f"clients of controllers {seed}").random() < P_CLIENTS else {}


class Asked:
    """One request of a client, at a controller (`requests.Asked`)."""

    def __init__(
        self,
        cluster: Cluster,
        owner: ControllerProcess,
        request: AdminRequest,
        then: Callable[[ControllerResponse | None], None],
    ) -> None:
        self._cluster = cluster
        self._owner = owner
        self._then = then
        self.request = request
        self._arrived: Arrived | None = None

    def event(self, key: int) -> ClientRequested:
        self._arrived = self._cluster.ledger.clients.arrived(self.request, self._cluster.ledger)
        return ClientRequested(key, self.request, VERSION, SENDER)

    def untrue(self, response: ControllerResponse) -> Iterator[str]:
        if self._arrived is not None and response != refused(self.request):
            yield from client_answers.untrue(self._cluster, self._owner, self._arrived, response)

    def answered(self, response: ControllerResponse) -> None:
        self._end(response)
        mix, world = self._cluster.mix, self._cluster.world
        is_lost = world.chance(mix.p_answer_lost)
        world.after(world.between(*mix.network_ms), lambda: self._then(None if is_lost else response))

    def lost(self) -> None:
        self._end(None)
        world = self._cluster.world
        world.after(world.between(*self._cluster.mix.network_ms), lambda: self._then(None))

    def _end(self, response: ControllerResponse | None) -> None:
        if self._arrived is None:
            return
        ledger = self._cluster.ledger
        ledger.clients.ended(self._arrived)
        if isinstance(self.request, AlterPartitionReassignmentsRequest):
            errors = _errors(response) if isinstance(response, AlterPartitionReassignmentsResponse) else {}
            for topic, rows in self.request.topics:
                for topic_partition in (TopicPartition(topic, row.partition) for row in rows):
                    error = errors.get(topic_partition, ErrorCode.UNKNOWN_SERVER_ERROR)
                    _note_move(ledger.wishes, self._arrived, self.request, topic_partition, error)


_NOTHING_CHANGED: Final = (ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)


def _note_move(
    wishes: Wishes,
    arrived: Arrived,
    request: AlterPartitionReassignmentsRequest,
    topic_partition: TopicPartition,
    error: int,
) -> None:
    """A granted move is a wish from now on; where something else may have been written, there is no wish any more."""
    target = client_answers.target_of(request, topic_partition)
    named = next((each for each in reversed(arrived.meant) if each.name == topic_partition.topic), None)
    is_latest = wishes.is_unchanged(topic_partition, arrived.wishes_before)
    if error == ErrorCode.NONE and target is not None and named is not None and is_latest:
        wishes.granted(named, topic_partition.partition, target)
    elif error not in _NOTHING_CHANGED:
        wishes.open.pop(topic_partition, None)


def _errors(response: AlterPartitionReassignmentsResponse) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, row.partition): row.error for topic, rows in response.topics for row in rows}


class Correspondence:
    """How clients ask controllers: again where the request may not be done."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._random = random

    def send(self, request: AdminRequest, tries: int = TRIES) -> None:
        """Ask; nobody has to answer."""
        owner, mix = self._addressee(), self._cluster.mix
        if owner is None:
            self._again(request, tries)
            return
        self._world.note("client", lambda: f"asks {owner.name}: {request}")

        def heard(response: ControllerResponse | None) -> None:
            errors = None if response is None else sorted({error_name(error) for error in errors_of(response)})
            self._world.note("client", f"hears of {type(request).__name__}: {errors}")
            may_be_done = response is None or response == refused(request)
            if may_be_done and self._random.random() < 0.7:
                self._again(request, tries)

        if self._world.chance(mix.p_request_lost):
            self._world.after(mix.request_timeout_ms, lambda: heard(None))
            return
        asked = Asked(self._cluster, owner, request, heard)
        self._world.after(self._world.between(*mix.network_ms), lambda: owner.desk.receive(asked))

    def _again(self, request: AdminRequest, tries: int) -> None:
        if tries > 1 and self._cluster.mix.theme_weights:
            self._world.after(self._random.randint(20, 600), lambda: self.send(request, tries - 1))

    def _addressee(self) -> ControllerProcess | None:
        """The controller that brokers name, now and then any process; None while there is no controller."""
        controllers = self._cluster.controllers
        if self._random.random() < 0.1:
            return self._random.choice(controllers)
        node = self._cluster.ensemble.model.node(paths.CONTROLLER)
        holder = None if node is None else znodes.decode_controller(node.data).broker_id
        return next((each for each in controllers if each.id == holder), None)


class Clients:
    """What they ask for; each method is one deed, which may turn out to be impossible."""

    def __init__(self, cluster: Cluster, create_by_hand: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._create_by_hand = create_by_hand
        self._world = cluster.world
        self._ledger = cluster.ledger
        self._random = Random(f"deeds of clients {cluster.world.seed}")
        self._correspondence = Correspondence(cluster, self._random)
        self._names = [f"t{number}" for number in range(cluster.mix.names + OWN_NAMES)]

    # --- deeds -----------------------------------------------------------------------------------------------------

    def ask_to_create(self) -> None:
        """Create one topic or two, mostly under free names; at the same moment somebody may create one by hand."""
        free = [name for name in self._names if name not in self._ledger.living]
        names = [self._random.choice(free if free and self._random.random() < 0.8 else self._names)]
        if self._random.random() < 0.3:
            names.append(self._random.choice(self._names))
        validate_only = self._random.random() < 0.1
        if self._random.random() < 0.3:
            mix = self._cluster.mix
            soon_ms = self._random.randint(0, mix.network_ms[1] + 2 * mix.zookeeper_ms[1] + 2)
            self._world.after(soon_ms, lambda: self._create_by_hand(names[0]))
        self._correspondence.send(
            CreateTopicsRequest(tuple(map(self._topic, names)), self._timeout_ms(), validate_only)
        )

    def ask_to_delete(self) -> None:
        """Delete one topic or two, by name or by the id of one that lives or has lived."""
        topics = tuple(self._deletable() for _ in range(self._random.choice((1, 1, 2))))
        self._correspondence.send(DeleteTopicsRequest(topics, self._timeout_ms()))

    def ask_to_grow(self) -> None:
        """Add one or two partitions to a topic."""
        incarnation = self._one_of(self._readable())
        if incarnation is None:
            return
        total = min(len(incarnation.assignments) + self._random.randint(1, 2), LARGEST_TOPIC)
        added = max(total - len(incarnation.assignments), 1)
        factor = len(next(iter(incarnation.assignments.values())).target)
        by_hand = self._random.random() < 0.5
        assignments = tuple(self._brokers(factor) for _ in range(added)) if by_hand else None
        self._correspondence.send(
            CreatePartitionsRequest((GrowableTopic(incarnation.name, total, assignments),), self._timeout_ms())
        )

    def ask_to_move(self) -> None:
        """Move some partitions of a topic, or end their reassignments."""
        readable = self._readable()
        moving = [each for each in readable if not each.is_settled]
        is_cancel = bool(moving) and self._random.random() < 0.5
        incarnation = self._one_of(moving if is_cancel else readable)
        if incarnation is None:
            return
        numbers = [number for number in incarnation.assignments if is_cancel or self._random.random() < 0.6]
        rows = tuple(
            ReassignablePartition(number, None if is_cancel else self._brokers(self._random.randint(1, 3)))
            for number in numbers
        )
        if rows:
            topic = ReassignableTopic(incarnation.name, rows)
            self._correspondence.send(AlterPartitionReassignmentsRequest((topic,), self._timeout_ms()))

    def ask_to_elect(self) -> None:
        """Elect leaders of one topic, or of all."""
        kind = ElectionKind.UNCLEAN if self._random.random() < 0.4 else ElectionKind.PREFERRED
        incarnation = self._one_of(self._readable())
        if incarnation is None or self._random.random() < 0.3:
            self._correspondence.send(ElectLeadersRequest(None, self._timeout_ms(), kind))
            return
        topic = TopicPartitions(incarnation.name, tuple(incarnation.assignments))
        self._correspondence.send(ElectLeadersRequest((topic,), self._timeout_ms(), kind))

    # --- parts -----------------------------------------------------------------------------------------------------

    def _topic(self, name: str) -> CreatableTopic:
        configs = (CreatableConfig("retention.ms", "60000"),) if self._random.random() < 0.2 else ()
        if self._random.random() < 0.4:
            factor = self._random.randint(1, 3)
            numbers = range(self._random.randint(1, 3))
            assignments = tuple(CreatableAssignment(number, self._brokers(factor)) for number in numbers)
            return CreatableTopic(name, BROKERS_DEFAULT, BROKERS_DEFAULT, assignments, configs)
        partitions, factor = self._random.choice((BROKERS_DEFAULT, 1, 2, 3)), self._random.randint(1, 3)
        return CreatableTopic(name, partitions, factor, configs=configs)

    def _deletable(self) -> DeletableTopic:
        if self._random.random() < 0.5:
            ids: Sequence[TopicId] = list(self._ledger.by_id)[-8:]
            unknown = TopicId(uuid.UUID(int=self._random.getrandbits(120) | 1 << 120))
            return DeletableTopic(None, self._random.choice(ids) if ids else unknown)
        return DeletableTopic(self._random.choice([*self._ledger.living, self._random.choice(self._names)]))

    def _readable(self) -> list[Incarnation]:
        return [each for each in self._ledger.living.values() if each.readable and each.assignments]

    def _one_of(self, incarnations: Sequence[Incarnation]) -> Incarnation | None:
        return self._random.choice(incarnations) if incarnations else None

    def _brokers(self, factor: int) -> tuple[int, ...]:
        brokers = [int(broker) for broker in self._cluster.agents]
        return tuple(self._random.sample(brokers, min(factor, len(brokers))))

    def _timeout_ms(self) -> int:
        return self._random.choice(TIMEOUTS_MS)
