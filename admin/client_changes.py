"""Changes of topics that a client asks for, of the controller or any broker, and what the answer means.

    the controller answers                    meaning
    ----------------------------------------  ----------------------------------------------------------
    no error                                  done
    REQUEST_TIMED_OUT                         begun, or never begun: brokers have to be looked at
    UNKNOWN_TOPIC_… to a deletion             gone already; unknown, if the answer before it was NOT_CONTROLLER
    …_AUTHORIZATION_FAILED                    refused: the principal and the right that it lacks are named
    another error                             refused, in Kafka's words; unknown, if the answer before it was
                                              NOT_CONTROLLER: TOPIC_ALREADY_EXISTS may be about our own topic
    no row for the topic                      unknown
    UNKNOWN_SERVER_ERROR to new settings      unknown: a broker may fail between two writes

Settings are changed by any broker, which writes them, or passes them on to its controller (KRaft).

With `validate_only` nothing is changed, so nothing is unknown either: the topic is refused, or not.

A topic is deleted by its id where the cluster has ids (DeleteTopics from version 6 on): a topic that was made under
the name since is another one, and stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, cast

from lethe.adapters.kafka.client import ClientError, ProtocolError
from lethe.admin.client_cluster import ClientCluster
from lethe.admin.client_topics import ShownTopics, said, said_of_topic
from lethe.admin.outcomes import Outcome
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.protocol.counting import listed
from lethe.protocol.kafka.admin import (
    BROKERS_DEFAULT,
    CreatableAssignment,
    CreatableConfig,
    CreatableTopic,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopic,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    GrowableTopic,
    GrownTopic,
)
from lethe.protocol.kafka.admin_configs import (
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterableResource,
    AlterConfigsResponse,
    AlteredResource,
    AlterOperation,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.versions import VersionRange
from lethe.protocol.security.acls import Operation

REQUEST_MS: Final = 30_000
"""The longest time that a controller may take for one request."""
FIRST_WITH_IDS: Final = 6
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class _Doing(NamedTuple):
    """What was asked for, and by whom."""

    done: str
    """As in "topic orders is deleted"."""
    operation: Operation
    """What the principal needs the right to, at the topic."""
    principal: str


class Asked(NamedTuple):
    """Outcomes in the order of the topics. `late`: topics for which the time of the request was not enough."""

    outcomes: list[Outcome]
    late: frozenset[str] = frozenset()


# --- deletion -----------------------------------------------------------------------------------------------------


async def delete_topics(cluster: ClientCluster, shown: ShownTopics, names: Sequence[str]) -> Asked:
    """Ask the controller to delete these topics of `shown`."""
    ids = {name: shown.topic_id(name) for name in names}
    has_ids = None not in ids.values()

    def request(offered: Mapping[int, VersionRange]) -> DeleteTopicsRequest:
        version = offered.get(ApiKey.DELETE_TOPICS)
        by_id = has_ids and version is not None and version.max >= FIRST_WITH_IDS
        topics = (DeletableTopic(None, ids[name]) if by_id else DeletableTopic(name) for name in names)
        return DeleteTopicsRequest(tuple(topics), min(cluster.left_ms, REQUEST_MS))

    answer = cast(DeleteTopicsResponse, await cluster.ask_controller(request, act=f"delete {listed(names, 3)}"))
    by_id = {row.topic_id: row for row in answer.topics if row.topic_id is not None}
    by_name = {row.name: row for row in answer.topics if row.name is not None}
    rows = {name: by_name.get(name) for name in names}
    rows |= {name: by_id[known] for name, known in ids.items() if known is not None and known in by_id}
    late = (name for name, row in rows.items() if row is not None and row.error == ErrorCode.REQUEST_TIMED_OUT)
    doing, may_be_done = _Doing("deleted", Operation.DELETE, cluster.reach.principal), cluster.may_be_done
    outcomes = [_deletion_outcome(name, row, doing, may_be_done=may_be_done) for name, row in rows.items()]
    return Asked(outcomes, frozenset(late))


def _deletion_outcome(name: str, row: DeletedTopic | None, doing: _Doing, *, may_be_done: bool) -> Outcome:
    if row is not None and row.error == ErrorCode.REQUEST_TIMED_OUT:
        return Outcome(name)
    if row is not None and row.error in _GONE and not may_be_done:
        return Outcome(name, was_done=True)
    return _outcome(name, row, doing, is_trial=False, may_be_done=may_be_done)


# --- creation -----------------------------------------------------------------------------------------------------


async def create_topics(
    cluster: ClientCluster, wanted: Sequence[TopicCreationRequest], *, validate_only: bool
) -> dict[str, CreatedTopic]:
    """Ask the controller to create the topics, or only whether it would. Return its rows by name."""
    topics = tuple(map(_creatable, wanted))
    request = CreateTopicsRequest(topics, min(cluster.left_ms, REQUEST_MS), validate_only)
    act = f"{'check' if validate_only else 'create'} {listed([each.name for each in wanted], 3)}"
    answer = cast(CreateTopicsResponse, await cluster.ask_controller(request, act=act))
    return {row.name: row for row in answer.topics}


def _creatable(wanted: TopicCreationRequest) -> CreatableTopic:
    return CreatableTopic(
        wanted.name,
        BROKERS_DEFAULT if wanted.partitions is None else wanted.partitions,
        BROKERS_DEFAULT if wanted.replication_factor is None else wanted.replication_factor,
        tuple(CreatableAssignment(number, brokers) for number, brokers in enumerate(wanted.assignment)),
        tuple(CreatableConfig(name, value) for name, value in wanted.config.items()),
    )


def creation_outcome(
    name: str, row: CreatedTopic | None, principal: str, *, is_trial: bool, may_be_done: bool
) -> Outcome:
    """Return what the row means for the topic. `is_trial`: the request had `validate_only`."""
    doing = _Doing("created", Operation.CREATE, principal)
    return _outcome(name, row, doing, is_trial=is_trial, may_be_done=may_be_done)


async def replicas_of(cluster: ClientCluster, names: Sequence[str]) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Return the replicas of each partition of topics that were created, as far as the broker shows them already. If it
    does not answer, none: the topics are created nevertheless."""
    if not names:
        return {}
    try:
        answer = await cluster.metadata(names)
    except (ClientError, ProtocolError):
        return {}
    rows = {each.name: sorted(each.partitions, key=lambda row: row.partition) for each in answer.topics}
    return {name: tuple(row.replicas for row in rows[name]) for name in names if rows.get(name)}


# --- more partitions ----------------------------------------------------------------------------------------------


async def add_partitions(
    cluster: ClientCluster, topics: Sequence[GrowableTopic], *, validate_only: bool
) -> dict[str, Outcome]:
    """Ask the controller for more partitions, or only whether it would add them. Return the outcomes by name."""
    request = CreatePartitionsRequest(tuple(topics), min(cluster.left_ms, REQUEST_MS), validate_only)
    names = listed([each.name for each in topics], 3)
    act = f"check new partitions of {names}" if validate_only else f"add partitions to {names}"
    answer = cast(CreatePartitionsResponse, await cluster.ask_controller(request, act=act))
    rows = {row.name: row for row in answer.topics}
    doubts = {"is_trial": validate_only, "may_be_done": cluster.may_be_done}
    doing = _Doing("changed", Operation.ALTER, cluster.reach.principal)
    return {each.name: _outcome(each.name, rows.get(each.name), doing, **doubts) for each in topics}


# --- settings -----------------------------------------------------------------------------------------------------


async def alter_settings(
    cluster: ClientCluster,
    names: Sequence[str],
    config: Mapping[str, str],
    delete: Collection[str],
    *,
    validate_only: bool,
) -> dict[str, Outcome]:
    """Set and delete these settings of each topic, and leave the others; or only ask whether that would be done. Return
    the outcomes by name. Raises Refusal where the outcome is unknown of all."""
    changes = (
        *(AlterableConfig(name, value) for name, value in config.items()),
        *(AlterableConfig(name, None, AlterOperation.DELETE) for name in delete),
    )
    resources = tuple(AlterableResource(TOPIC_RESOURCE, name, changes) for name in names)
    try:
        answer = cast(AlterConfigsResponse, await cluster.ask(IncrementalAlterConfigsRequest(resources, validate_only)))
    except (ClientError, ProtocolError) as error:
        if validate_only:
            raise
        unknown = f"whether the settings of {listed(names, 3)} were changed is unknown: {error}"
        raise Refusal(unknown, Exit.UNREACHABLE) from error
    rows = {row.name: row for row in answer.resources}
    doing = _Doing("changed", Operation.ALTER_CONFIGS, cluster.reach.principal)
    return {name: _settings_outcome(name, rows.get(name), doing, is_trial=validate_only) for name in names}


def _settings_outcome(name: str, row: AlteredResource | None, doing: _Doing, *, is_trial: bool) -> Outcome:
    if row is not None and row.error == ErrorCode.UNKNOWN_SERVER_ERROR and not is_trial:
        said_so = said(row.error, row.message)
        return Outcome(name, f"whether topic {name} was changed is unknown: {said_so}", is_unknown=True)
    return _outcome(name, row, doing, is_trial=is_trial, may_be_done=False)


# --- all of them --------------------------------------------------------------------------------------------------


def _outcome(
    name: str,
    row: CreatedTopic | DeletedTopic | GrownTopic | AlteredResource | None,
    doing: _Doing,
    *,
    is_trial: bool,
    may_be_done: bool,
) -> Outcome:
    if row is not None and row.error == ErrorCode.NONE:
        return Outcome(name)
    why = "the answer does not name it"
    if row is not None:
        why = said_of_topic(row.error, row.message, doing.principal, doing.operation, name)
    is_open = row is None or row.error == ErrorCode.REQUEST_TIMED_OUT
    if is_trial or not (is_open or may_be_done):
        return Outcome(name, f"topic {name} is not {doing.done}: {why}")
    if may_be_done:
        why = f"a controller answered NOT_CONTROLLER, and then {why}"
    return Outcome(name, f"whether topic {name} was {doing.done} is unknown: {why}", is_unknown=True)
