"""Tasks and continuations for the trash, and for requests about topics: see `tasks`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.controller.core.partition_sets import Bits
from lethe.controller.core.trash_memory import FrozenAgain
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId
from lethe.protocol.zookeeper.operations import Operation
from lethe.protocol.zookeeper.znodes import TopicRequest, TrashEntry


@dataclass(frozen=True, slots=True)
class ReadTopicRequests:
    """Read what commands request of the controller, by topic."""


@dataclass(frozen=True, slots=True)
class ReadTrash:
    """Read the trash into memory, before topics are read."""


@dataclass(frozen=True, slots=True)
class ResumeTrash:
    """The takeover is almost done: continue where earlier controllers have stopped."""


@dataclass(frozen=True, slots=True)
class FreezeTopics:
    """Switch off the retention of these marked topics, which are to go into the trash."""

    topics: tuple[str, ...]
    again: bool = False
    """They have an entry, and their settings have changed since it was written."""


@dataclass(frozen=True, slots=True)
class AnnounceRestored:
    """Announce topics to their brokers that were brought back, or that were spared their deletion from the trash. Their
    znodes were read."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RestoreOffsets:
    """Commit the saved offsets of these topics again; then restore the settings."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RestoreSettings:
    """Restore the settings of these topics, and remove those from the trash whose offsets are committed."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadPurged:
    """Read the states of topics that are to be deleted from the trash, without announcing them; then delete them."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueuePurged:
    """The states are read: queue the topics."""

    topics: tuple[str, ...]


TrashTask = (
    ReadTopicRequests
    | ReadTrash
    | ResumeTrash
    | FreezeTopics
    | AnnounceRestored
    | RestoreOffsets
    | RestoreSettings
    | LoadPurged
    | QueuePurged
)


# --- continuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicRequestsListed:
    pass


@dataclass(frozen=True, slots=True)
class TopicRequestsRead:
    """After reading request and marker of each of these topics."""

    topics: tuple[str, ...]


class RequestAnswer(NamedTuple):
    """The answer to one request: `refused` is it with the reason, None where it is granted."""

    topic: str
    refused: TopicRequest | None


@dataclass(frozen=True, slots=True)
class TopicRequestsAnswered:
    answers: tuple[RequestAnswer, ...]


@dataclass(frozen=True, slots=True)
class TrashListed:
    pass


@dataclass(frozen=True, slots=True)
class TrashRead:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettingsToFreezeRead:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrashWritten:
    """After writing these entries, each with its group; None: removed. `parents`: so many groups before create the
    parents."""

    entries: tuple[tuple[str, TrashEntry | None], ...]
    groups: Sequence[tuple[Operation, ...]]
    parents: int = 0
    frozen: Mapping[str, int] = field(default_factory=dict)
    """The versions of the settings with which the same writes switch retention off."""
    restored: tuple[str, ...] = ()
    """Of the removed entries, those of topics whose settings the same writes restore: all offsets are committed."""


@dataclass(frozen=True, slots=True)
class TopicsTrashed:
    """After the writes that take topics out of service; `paths` are those of each write's operations."""

    entries: Mapping[str, TrashEntry]
    paths: Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ReturnChecked:
    """After reading the registrations of these brokers, which have the partitions `found` of topics that are to be
    brought back; then what `trash_settings` compares. `requests`: the topics, and the versions of the requests."""

    brokers: Mapping[BrokerId, BrokerEpoch]
    found: Mapping[str, Mapping[BrokerId, Bits]]
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SettingsFrozenAgain:
    """After switching off the retention of these topics again, which are to be brought back."""

    topics: Mapping[str, FrozenAgain]


@dataclass(frozen=True, slots=True)
class TopicsBroughtBack:
    """`requests`: the versions of the requests for them. `checked`: the brokers whose registrations each multi checks
    first."""

    entries: Mapping[str, TrashEntry]
    requests: Mapping[str, int]
    checked: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class SavedOffsetsRead:
    """After reading the znodes with the offsets of these topics, `counts` of each."""

    topics: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SettingsToRestoreRead:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PurgedSettingsRead:
    """With each topic the version of the request for it, if any."""

    requests: Mapping[str, int | None]


class PurgedEnd(NamedTuple):
    """The write that ends a topic's stay: its operations from `settings` on restore the settings, if any do. `request`
    is the version of the request for it, if any: its operation is the one before."""

    request: int | None
    settings: int
    has_settings: bool


@dataclass(frozen=True, slots=True)
class TopicsPurged:
    ends: Mapping[str, PurgedEnd]
    at_ms: int
    """When the write was begun: the markers are no older."""


TrashReadContinuation = (
    TopicRequestsListed
    | TopicRequestsRead
    | TrashListed
    | TrashRead
    | SettingsToFreezeRead
    | ReturnChecked
    | SavedOffsetsRead
    | SettingsToRestoreRead
    | PurgedSettingsRead
)
TrashWriteContinuation = (
    TopicRequestsAnswered | TrashWritten | TopicsTrashed | SettingsFrozenAgain | TopicsBroughtBack | TopicsPurged
)
