"""Requests of clients that create and delete topics and add partitions, and their responses, independent of version.

Only the controller answers them. `admin_partitions` has those about leaders and reassignments, and `to_controller` the
union of all requests to a controller. A field that a version lacks has its default after decoding and is dropped on
encoding, like Kafka's ignorable fields.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from lethe.protocol.kafka.config_entries import ConfigEntry
from lethe.protocol.vocabulary import TopicId

BROKERS_DEFAULT: Final = -1
"""Number of partitions or replicas: by the brokers' configuration, or given by the assignment."""

# --- CreateTopics -------------------------------------------------------------------------------------------------


class CreatableAssignment(NamedTuple):
    """Replicas of one partition of a topic to create; the first one is the preferred leader."""

    partition: int
    brokers: tuple[int, ...]


class CreatableConfig(NamedTuple):
    name: str
    value: str | None


class CreatableTopic(NamedTuple):
    """A topic to create. With assignments, both numbers are BROKERS_DEFAULT; otherwise the request is invalid."""

    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[CreatableAssignment, ...] = ()
    configs: tuple[CreatableConfig, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTopicsRequest:
    topics: tuple[CreatableTopic, ...]
    timeout_ms: int
    validate_only: bool = False
    """Encoded from version 1 on."""


class CreatedTopic(NamedTuple):
    """The result for one topic."""

    name: str
    error: int
    message: str | None = None
    """Encoded from version 1 on."""
    topic_id: TopicId | None = None
    """Encoded from version 7 on."""
    num_partitions: int = -1
    """This and all that follows is encoded from version 5 on. -1: with an error, and if configs may not be seen."""
    replication_factor: int = -1
    configs: tuple[ConfigEntry, ...] | None = ()
    """Without synonyms, types and documentation."""
    config_error: int = 0
    """Why the configuration is not shown."""


@dataclass(frozen=True, slots=True)
class CreateTopicsResponse:
    topics: tuple[CreatedTopic, ...]
    throttle_time_ms: int = 0
    """Encoded from version 2 on."""


# --- DeleteTopics -------------------------------------------------------------------------------------------------


class DeletableTopic(NamedTuple):
    """A topic to delete, by name or, from version 6 on, by id. Requests may name both or neither, which is invalid."""

    name: str | None
    topic_id: TopicId | None = None


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequest:
    topics: tuple[DeletableTopic, ...]
    timeout_ms: int


class DeletedTopic(NamedTuple):
    """The result for one topic. `name` is None only from version 6 on."""

    name: str | None
    topic_id: TopicId | None
    error: int
    message: str | None = None
    """Encoded from version 5 on."""


@dataclass(frozen=True, slots=True)
class DeleteTopicsResponse:
    topics: tuple[DeletedTopic, ...]
    throttle_time_ms: int = 0
    """Encoded from version 1 on."""


# --- CreatePartitions ---------------------------------------------------------------------------------------------


class GrowableTopic(NamedTuple):
    """A topic that gets partitions."""

    name: str
    total: int
    """Number of partitions that it has afterwards."""
    assignments: tuple[tuple[int, ...], ...] | None = None
    """Replicas of each new partition, in the order of their numbers; None: the controller assigns them."""


@dataclass(frozen=True, slots=True)
class CreatePartitionsRequest:
    topics: tuple[GrowableTopic, ...]
    timeout_ms: int
    validate_only: bool = False


class GrownTopic(NamedTuple):
    """The result for one topic."""

    name: str
    error: int
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitionsResponse:
    topics: tuple[GrownTopic, ...]
    throttle_time_ms: int = 0


# --- all of them --------------------------------------------------------------------------------------------------

TopicRequest = CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest
TopicResponse = CreateTopicsResponse | DeleteTopicsResponse | CreatePartitionsResponse


def topic_error_response(request: TopicRequest, error: int, message: str | None = None) -> TopicResponse:
    """Return the response with this error for each topic that the request names."""
    match request:
        case CreateTopicsRequest(topics=to_create):
            return CreateTopicsResponse(tuple(CreatedTopic(each.name, error, message) for each in to_create))
        case DeleteTopicsRequest(topics=to_delete):
            return DeleteTopicsResponse(tuple(DeletedTopic(*each, error, message) for each in to_delete))
        case CreatePartitionsRequest(topics=to_grow):
            return CreatePartitionsResponse(tuple(GrownTopic(each.name, error, message) for each in to_grow))


def topic_errors(response: TopicResponse) -> tuple[int, ...]:
    """Return the error of each row."""
    return tuple(each.error for each in response.topics)


def throttled(response: TopicResponse, throttle_time_ms: int) -> TopicResponse:
    """Return the response that tells its client to send nothing for so long."""
    return replace(response, throttle_time_ms=throttle_time_ms)
