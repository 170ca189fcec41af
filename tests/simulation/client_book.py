"""What clients have asked controllers for, and which writes of a controller that explains.

A client's request explains writes from its arrival at a controller on. A write may take effect after the controller has
died, so what it explains does not end with the request: it belongs to the incarnations that lived while the request
was with the controller.

    the write of a controller                 is explained by
    ----------------------------------------  --------------------------------------------------------------------
    creates a topic, with its settings        a CreateTopics for such a topic; each explains one. Or the trash
    creates the marker of a topic             a DeleteTopics that names this incarnation, by name or id. Or the trash
    adds partitions to a topic's znode        a CreatePartitions for as many
    elects a leader from outside the ISR      an unclean ElectLeaders
    gives a partition other replicas          an AlterPartitionReassignments (`wishes`)
    alters settings of a topic                an AlterConfigs or IncrementalAlterConfigs (`config_book`)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lethe.protocol.kafka.admin import (
    BROKERS_DEFAULT,
    CreatableTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    ElectionKind,
    ElectLeadersRequest,
)
from lethe.protocol.kafka.to_controller import AdminRequest
from lethe.protocol.vocabulary import LeaderAndIsr, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Operation
from tests.simulation import config_book
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.ensemble import Writer
    from tests.simulation.ledger import Incarnation, Ledger


@dataclass(slots=True, eq=False)
class Arrived:
    """A client's request that has reached a controller."""

    request: AdminRequest
    meant: list[Incarnation] = field(default_factory=list)
    """Topics that it names, and that lived between its arrival and its end."""
    states: dict[tuple[int, int], LeaderAndIsr] = field(default_factory=dict)
    """States at its arrival, by number of the incarnation and partition."""
    assignments: dict[tuple[int, int], ReplicaAssignment] = field(default_factory=dict)
    wishes_before: Mapping[TopicPartition, int] = field(default_factory=dict)
    """How many wishes there had been for each partition when it arrived."""
    settings_before: int = 0
    """How many times settings of topics had been written when it arrived."""

    def mean(self, incarnation: Incarnation) -> None:
        """Take note of a topic that it names."""
        self.meant.append(incarnation)
        incarnation.requests.append(self.request)
        self.states |= {(incarnation.number, number): state for number, state in incarnation.states.items()}
        self.assignments |= {(incarnation.number, number): each for number, each in incarnation.assignments.items()}


class ClientBook:
    """Kept by looking at each request that arrives at a controller, and at each topic that is created."""

    def __init__(self) -> None:
        self._open: dict[Arrived, None] = {}
        self._creations: dict[str, list[CreatableTopic]] = {}
        """Topics to create, by name, for which none was created yet."""

    def arrived(self, request: AdminRequest, ledger: Ledger) -> Arrived:
        """A request has reached a controller."""
        before = dict(ledger.wishes.count), len(ledger.configs.writes)
        arrived = Arrived(request, wishes_before=before[0], settings_before=before[1])
        self._open[arrived] = None
        for incarnation in ledger.living.values():
            if names(request, incarnation):
                arrived.mean(incarnation)
        if isinstance(request, CreateTopicsRequest) and not request.validate_only:
            for topic in request.topics:
                self._creations.setdefault(topic.name, []).append(topic)
        return arrived

    def ended(self, arrived: Arrived) -> None:
        """It is answered, or never will be."""
        del self._open[arrived]

    def born(self, incarnation: Incarnation) -> None:
        """A topic was created, or is back from the trash."""
        for arrived in self._open:
            if names(arrived.request, incarnation) and incarnation not in arrived.meant:
                arrived.mean(incarnation)

    def take_creation(
        self, name: str, assignments: Mapping[int, ReplicaAssignment], settings: Mapping[str, str]
    ) -> bool:
        """A controller creates this topic: whether a client has asked for it. Each request explains one topic."""
        asked = self._creations.get(name, [])
        found = next((topic for topic in asked if is_as_asked(topic, assignments, settings)), None)
        if found is None:
            return False
        asked.remove(found)
        return True


def names(request: AdminRequest, incarnation: Incarnation) -> bool:
    """Whether the request is about this topic, which lives."""
    match request:
        case DeleteTopicsRequest(topics=deletable):
            return any(
                each.name == incarnation.name if each.topic_id is None else each.topic_id == incarnation.topic_id
                for each in deletable
            )
        case CreatePartitionsRequest(topics=growable):
            return any(each.name == incarnation.name for each in growable)
        case ElectLeadersRequest(topics=electable):
            return electable is None or any(each.topic == incarnation.name for each in electable)
        case AlterPartitionReassignmentsRequest(topics=movable):
            return any(each.topic == incarnation.name for each in movable)
        case _:
            return config_book.names_settings(request, incarnation.name)


def is_as_asked(
    topic: CreatableTopic, assignments: Mapping[int, ReplicaAssignment], settings: Mapping[str, str]
) -> bool:
    """Whether these are the partitions and settings that the client wants. Brokers have Kafka's defaults here: one of
    each."""
    if {each.name: each.value for each in topic.configs} != settings:
        return False
    if topic.assignments:
        wanted = {each.partition: each.brokers for each in topic.assignments}
        return {number: each.replicas for number, each in assignments.items()} == wanted
    partitions = 1 if topic.num_partitions == BROKERS_DEFAULT else topic.num_partitions
    factor = 1 if topic.replication_factor == BROKERS_DEFAULT else topic.replication_factor
    return len(assignments) == partitions and all(
        len(each.replicas) == len(frozenset(each.replicas)) == factor for each in assignments.values()
    )


def wants_unclean(incarnation: Incarnation, partition: int) -> bool:
    """A client wants this partition to be led, whatever is lost."""
    return any(
        isinstance(request, ElectLeadersRequest)
        and request.kind == ElectionKind.UNCLEAN
        and (
            request.topics is None
            or any(each.topic == incarnation.name and partition in each.partitions for each in request.topics)
        )
        for request in incarnation.requests
    )


def wants_moved(incarnation: Incarnation, partition: int) -> bool:
    """A client wants the partition to have other replicas, or those from before a move."""
    return any(
        topic.topic == incarnation.name and any(row.partition == partition for row in topic.partitions)
        for request in incarnation.requests
        if isinstance(request, AlterPartitionReassignmentsRequest)
        for topic in request.topics
    )


# --- what a controller may write ----------------------------------------------------------------------------------


def writes_are_explained(cluster: Cluster, writer: Writer, operations: Sequence[Operation]) -> None:
    """Topics, markers and partitions that a controller writes are those that clients have asked for. Before booking."""
    ledger = cluster.ledger
    returned = [name for each in operations if isinstance(each, Create) and (name := paths.topic_of(each.path))]
    for operation in operations:
        if not isinstance(operation, Create):
            continue
        if (name := paths.topic_of(operation.path)) is not None and name not in ledger.trash.kept:
            assignments = znodes.decode_topic(name, operation.data).assignments
            settings = config_book.settings_written(operations, name) or {}
            if not ledger.clients.take_creation(name, assignments, settings):
                what = f"creates {name} as {assignments} with {settings}"
                raise Violation("clients", f"{writer.name} {what}, and no client asked for it")
        elif (name := paths.deleted_topic_of(operation.path)) is not None and name not in returned:
            _marker_is_explained(cluster, writer, name, znodes.decode_deletion_marker(operation.data).topic_czxid)


def _marker_is_explained(cluster: Cluster, writer: Writer, name: str, named: int | None) -> None:
    living = cluster.ledger.living.get(name)
    if living is None or named not in (None, living.czxid):
        # The marker names another topic, and has no effect on this one (`named_incarnation`).
        return
    if not any(isinstance(request, DeleteTopicsRequest) for request in living.requests):
        raise Violation("S2", f"{writer.name} marks {living} for deletion, and no client asked for that")


def growth_is_explained(writer: Writer, incarnation: Incarnation, after: Mapping[int, ReplicaAssignment]) -> None:
    """Partitions that a controller adds are those that a client has asked for."""
    totals = [
        topic.total
        for request in incarnation.requests
        if isinstance(request, CreatePartitionsRequest) and not request.validate_only
        for topic in request.topics
        if topic.name == incarnation.name
    ]
    if len(after) > len(incarnation.assignments) and len(after) not in totals:
        raise Violation("clients", f"{writer.name} gives {incarnation} {len(after)} partitions, asked were {totals}")
