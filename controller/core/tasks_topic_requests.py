"""Tasks and continuations for clients' requests that create and delete topics and add partitions: see `tasks`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lethe.controller.core.client_wait_memory import PartitionsLed
from lethe.protocol.kafka.admin import CreatedTopic, DeletedTopic, GrowableTopic, GrownTopic
from lethe.protocol.vocabulary import TopicId


class NewTopic(NamedTuple):
    """A topic that has passed all checks, with its row of the answer."""

    row: CreatedTopic
    topic_id: TopicId | None
    assignment: tuple[tuple[int, ...], ...]
    """Replicas by partition."""
    configs: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return self.row.name


@dataclass(frozen=True, slots=True)
class CreateRequestedTopics:
    """Check the topics of the CreateTopics request with this key, and create them."""

    key: int


@dataclass(frozen=True, slots=True)
class DeleteRequestedTopics:
    """Check the topics of the DeleteTopics request with this key, and mark them for deletion."""

    key: int


@dataclass(frozen=True, slots=True)
class AddRequestedPartitions:
    """Check the topics of the CreatePartitions request with this key, and add partitions to them.

    An attempt after the first one looks at the topics `left`; `rows` and `added` are results of earlier attempts."""

    key: int
    left: tuple[GrowableTopic, ...] | None = None
    rows: tuple[GrownTopic, ...] = ()
    added: tuple[PartitionsLed, ...] = ()
    attempts: int = 1


TopicRequestTask = CreateRequestedTopics | DeleteRequestedTopics | AddRequestedPartitions


# --- continuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewTopicsLookedUp:
    """After reading the markers and the configuration znodes of these topics.

    `rows` are those of the topics that are refused or created already, `created` the topics among these that are."""

    key: int
    rows: tuple[CreatedTopic, ...]
    topics: tuple[NewTopic, ...]
    created: tuple[NewTopic, ...] = ()
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class NewTopicsWritten:
    """After writing these topics; `before` is what was known before, `rows` those of all other topics."""

    before: NewTopicsLookedUp
    rows: tuple[CreatedTopic, ...]
    topics: tuple[NewTopic, ...]


class MarkedTopic(NamedTuple):
    name: str
    created_zxid: int


@dataclass(frozen=True, slots=True)
class RequestedMarkersWritten:
    """After marking these topics; `rows` are all rows of the answer, theirs without an error."""

    key: int
    rows: tuple[DeletedTopic, ...]
    topics: tuple[MarkedTopic, ...]


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """After writing these topics' znodes, in an attempt of the task."""

    task: AddRequestedPartitions
    rows: tuple[GrownTopic, ...]
    topics: tuple[GrowableTopic, ...]
    led: tuple[PartitionsLed, ...]


TopicRequestReadContinuation = NewTopicsLookedUp
TopicRequestWriteContinuation = NewTopicsWritten | RequestedMarkersWritten | PartitionsAdded
