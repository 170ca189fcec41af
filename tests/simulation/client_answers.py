"""What clients are told, held against what is so.

    the answer to          says NONE of                 then, as long as the controller's term lasts
    ---------------------  ---------------------------  ------------------------------------------------------------
    CreateTopics           a topic                      it was created with this id; its znode and states are there,
                                                        and every live broker's cache shows it
    DeleteTopics           a topic                      it was marked, and no live broker's cache shows it
    CreatePartitions       a topic                      the same as for a new one, with so many partitions
    ElectLeaders           a partition                  its state has the leader, and every live broker's cache
    AlterPartition-        a partition                  the topic's znode says so
      Reassignments
    AlterConfigs and       a topic                      it has written what the request makes of the settings that
      Incremental-                                      were there, after the request has arrived
      AlterConfigs

A broker whose registration the controller has not read yet, or that was told nothing under it, does not count. What
somebody has deleted, removed by hand or moved elsewhere meanwhile is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lethe.protocol.kafka.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from lethe.protocol.kafka.admin_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectionKind,
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicOutcome,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import ControllerResponse
from lethe.protocol.vocabulary import LEADER_NONE, ReplicaAssignment, TopicPartition
from tests.simulation import config_book, silences
from tests.simulation.client_book import Arrived
from tests.simulation.ledger import Incarnation
from tests.simulation.world import is_controller

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess


def untrue(
    cluster: Cluster, controller: ControllerProcess, arrived: Arrived, response: ControllerResponse
) -> Iterator[str]:
    """Yield what the answer says and is not so."""
    match arrived.request, response:
        case CreateTopicsRequest() as request, CreateTopicsResponse():
            yield from _creations(cluster, controller, request, response)
        case DeleteTopicsRequest(), DeleteTopicsResponse(topics=deleted):
            for row in deleted:
                if row.error == ErrorCode.NONE:
                    yield from _deletion(cluster, controller, arrived, row)
        case CreatePartitionsRequest() as grown, CreatePartitionsResponse():
            yield from _growths(cluster, controller, arrived, grown, response)
        case ElectLeadersRequest(kind=kind), ElectLeadersResponse(topics=elected):
            for topic_partition in _good(elected):
                yield from _election(cluster, controller, arrived, topic_partition, kind)
        case AlterPartitionReassignmentsRequest() as moved, AlterPartitionReassignmentsResponse(topics=rows):
            for topic_partition in _good(rows):
                yield from _move(cluster, controller, arrived, moved, topic_partition)
        case AlterConfigsRequest() | IncrementalAlterConfigsRequest() as alteration, AlterConfigsResponse():
            yield from _alterations(cluster, controller, arrived, alteration, response)
        case _:
            yield f"{type(response).__name__} to {type(arrived.request).__name__}"


def _good(rows: Iterable[TopicOutcome]) -> Iterator[TopicPartition]:
    for topic, partitions in rows:
        yield from (TopicPartition(topic, row.partition) for row in partitions if row.error == ErrorCode.NONE)


def _leads(cluster: Cluster, controller: ControllerProcess) -> bool:
    """Nobody else has become controller, or loaded everything anew."""
    return controller.context.cluster.epoch_version == cluster.ensemble.epoch_version


def _is_wanted(incarnation: Incarnation) -> bool:
    """It lives, and nobody has ever wanted it to go."""
    was_left_alone = not (incarnation.asked or incarnation.was_in_trash or incarnation.maimed)
    return was_left_alone and incarnation.removed_by is None


def _told(cluster: Cluster, controller: ControllerProcess) -> Iterator[AgentProcess]:
    """Live brokers, as this controller knows them, that were told of the cluster."""
    known, registered = controller.context.cluster, cluster.registered()
    for agent in cluster.agents.values():
        is_known = known.is_live(agent.id) and known.brokers[agent.id].epoch == registered.get(agent.id)
        if is_known and cluster.was_told(agent, registered):
            yield agent


def _not_shown(
    cluster: Cluster, controller: ControllerProcess, incarnation: Incarnation, partitions: Iterable[int]
) -> Iterator[str]:
    """Partitions that have no state, or that a cache does not show."""
    for number in partitions:
        if number not in incarnation.states:
            yield f"{incarnation}-{number} has no state"
        for agent in _told(cluster, controller):
            cache = agent.state.cache
            is_same = cache.topic_ids.get(incarnation.name) == incarnation.topic_id
            if not is_same or number not in cache.topics.get(incarnation.name, {}):
                yield f"{incarnation}-{number} is not in the cache of {agent.name}"


def _creations(
    cluster: Cluster, controller: ControllerProcess, request: CreateTopicsRequest, response: CreateTopicsResponse
) -> Iterator[str]:
    if [row.name for row in response.topics] != [topic.name for topic in request.topics]:
        yield f"the rows {response.topics} to {request.topics}"
    for row in response.topics:
        if request.validate_only and row.topic_id is not None:
            yield f"{row.name} was only to be looked at, and has the id {row.topic_id}"
        if request.validate_only or row.error not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
            continue
        incarnation = None if row.topic_id is None else cluster.ledger.by_id.get(row.topic_id)
        if incarnation is None or incarnation.name != row.name:
            yield f"{row.name} was created under {row.topic_id}, and never was there"
        elif row.error == ErrorCode.NONE and _leads(cluster, controller) and _is_wanted(incarnation):
            yield from _not_shown(cluster, controller, incarnation, range(row.num_partitions))


def _deletion(cluster: Cluster, controller: ControllerProcess, arrived: Arrived, row: DeletedTopic) -> Iterator[str]:
    """If several topics of a name lived meanwhile, one of them is gone."""
    named = [
        each
        for each in arrived.meant
        if (each.name == row.name if row.topic_id is None else each.topic_id == row.topic_id)
    ]
    # What is back from the trash was marked before it went in.
    if not any(each.asked or each.was_in_trash or each.removed_by is not None for each in named):
        yield f"{row.name} ({row.topic_id}) is deleted, and nobody has marked it: {named}"
    if not _leads(cluster, controller) or any(each.was_in_trash and not each.in_trash for each in named):
        return
    told = list(_told(cluster, controller))
    shown = [
        [agent.name for agent in told if silences.is_shown(agent.state.cache, incarnation)] for incarnation in named
    ]
    if shown and all(shown):
        yield f"{row.name} ({row.topic_id}) is deleted, and caches show it: {shown}"


def _growths(
    cluster: Cluster,
    controller: ControllerProcess,
    arrived: Arrived,
    request: CreatePartitionsRequest,
    response: CreatePartitionsResponse,
) -> Iterator[str]:
    totals = {topic.name: topic.total for topic in request.topics}
    for row in response.topics:
        named = [each for each in arrived.meant if each.name == row.name]
        if row.error != ErrorCode.NONE or request.validate_only or not all(map(_is_wanted, named)):
            continue
        if not any(len(each.assignments) >= totals[row.name] for each in named):
            yield f"{row.name} has {totals[row.name]} partitions, and it has not"
        elif _leads(cluster, controller):
            yield from _not_shown(cluster, controller, named[-1], range(totals[row.name]))


def _election(
    cluster: Cluster, controller: ControllerProcess, arrived: Arrived, topic_partition: TopicPartition, kind: int
) -> Iterator[str]:
    name, number = topic_partition
    named = [each for each in arrived.meant if each.name == name]
    if not named:
        yield f"{topic_partition} is led, and no such topic was there"
    if not _leads(cluster, controller) or not all(_is_wanted(each) and number not in each.touched for each in named):
        return
    incarnation = named[-1]
    yield from _not_shown(cluster, controller, incarnation, (number,))
    state, assignment = incarnation.states.get(number), incarnation.assignments.get(number)
    if state is None or state.leader == LEADER_NONE or assignment is None:
        yield f"{topic_partition} is led, and its state is {state}"
        return
    is_kept = arrived.assignments.get((incarnation.number, number)) == assignment == (assignment.replicas, (), ())
    # A broker that has gone since may have led before: other partitions of the request were waited for meanwhile.
    is_there = assignment.replicas[0] in cluster.registered()
    if kind == ElectionKind.PREFERRED and is_kept and is_there and state.leader != assignment.replicas[0]:
        yield f"{topic_partition} is led by the first of {assignment.replicas}, and its state is {state}"
    before = arrived.states.get((incarnation.number, number))
    if before is None or state.leader_epoch > before.leader_epoch + 1:
        # Who led meanwhile may still be shown, as long as the one who was elected was shown before.
        return
    for agent in _told(cluster, controller):
        row = agent.state.cache.topics.get(name, {}).get(number)
        if row is not None and row.leader != state.leader:
            yield f"{topic_partition} is led by {state.leader}, and {agent.name} shows {row}"


def _move(
    cluster: Cluster,
    controller: ControllerProcess,
    arrived: Arrived,
    request: AlterPartitionReassignmentsRequest,
    topic_partition: TopicPartition,
) -> Iterator[str]:
    name, number = topic_partition
    named = [each for each in arrived.meant if each.name == name]
    wanted = target_of(request, topic_partition)
    if not named:
        yield f"{topic_partition} moves to {wanted}, and no such topic was there"
    if not all(map(_is_wanted, named)) or not _leads(cluster, controller):
        return
    incarnation = named[-1]
    moves = [each for each in incarnation.requests if isinstance(each, AlterPartitionReassignmentsRequest)]
    is_latest = request is moves[-1] and cluster.ledger.wishes.is_unchanged(topic_partition, arrived.wishes_before)
    assignment = incarnation.assignments.get(number)
    if assignment is None or (is_latest and not _is_moved(assignment, wanted)):
        yield f"{topic_partition} moves to {wanted}, and has {assignment}"


def _alterations(
    cluster: Cluster,
    controller: ControllerProcess,
    arrived: Arrived,
    request: config_book.Alteration,
    response: AlterConfigsResponse,
) -> Iterator[str]:
    if [(row.type, row.name) for row in response.resources] != [each.resource for each in request.resources]:
        yield f"the rows {response.resources} to {request.resources}"
    for row in response.resources:
        since = arrived.settings_before
        is_said = row.error == ErrorCode.NONE and not request.validate_only
        if is_said and not config_book.is_done(cluster, controller.name, request, row.name, since):
            yield f"the settings of {row.name} are altered, and that was not written"


def _is_moved(assignment: ReplicaAssignment, wanted: tuple[int, ...] | None) -> bool:
    if any(map(is_controller, assignment.replicas)):
        # Brokers take the places of controllers, whatever was wanted.
        return True
    return not assignment.adding if wanted is None else assignment.target == wanted


def target_of(request: AlterPartitionReassignmentsRequest, topic_partition: TopicPartition) -> tuple[int, ...] | None:
    """The replicas that the request wants; None: those from before the move. The last row counts."""
    rows = [row for topic, rows in request.topics if topic == topic_partition.topic for row in rows]
    return next(row.replicas for row in reversed(rows) if row.partition == topic_partition.partition)
