"""What is known about marked topics before anything is concluded, as immutable values: a survey of these topics, what
ZooKeeper says of whether deletions go on at all, and what the controller itself told, if it is one that tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import JsonValue
from lethe.protocol.zookeeper.znodes import DeletionsPaused
from lethe.survey.views import Survey


class Setting(NamedTuple):
    """A dynamic setting, and the znode that has it."""

    value: bool
    path: str


class Unreadable(NamedTuple):
    """A znode of the brokers' configuration that could not be read or understood, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Holds:
    """What stops every deletion."""

    paused: DeletionsPaused | None = None
    """Obeyed by Lethe's controllers only."""
    delete_topic_enable: Setting | None = None
    """As dynamic configuration has it; None where only the controller's own properties say, or it is `unreadable`."""
    unreadable: Unreadable | None = None
    """Why dynamic configuration does not tell whether topics may be deleted; None where it does."""


@dataclass(frozen=True, slots=True)
class ToldReplica:
    """What the controller says of one replica, or (partition None) of one broker, or (both None) of the topic."""

    waiting_for: CauseKind
    partition: int | None = None
    broker: int | None = None
    state: str | None = None
    since_ms: int | None = None
    attempts: int = 0
    last_error: str | None = None
    next_try_ms: int | None = None
    unblock: str | None = None


@dataclass(frozen=True, slots=True)
class ToldTopic:
    """What the controller says of one marked topic."""

    topic: str
    marked_since_ms: int | None = None
    phase: str | None = None
    held_by: str | None = None
    replicas: tuple[ToldReplica, ...] = ()


class ToldPause(NamedTuple):
    """What keeps the controller from deleting anything: its cause, and the znode that is concerned."""

    kind: CauseKind
    since_ms: int | None = None
    reason: str | None = None
    path: str | None = None


class Refused(NamedTuple):
    """When the controller dropped the topic's marker, and why."""

    at_ms: int | None
    why: str | None


@dataclass(frozen=True, slots=True)
class Owing:
    """A broker that has not confirmed that its metadata cache has dropped topics whose znodes are gone."""

    broker: int
    topic_count: int
    topics: tuple[str, ...] = ()
    """Of very many the first; where one topic was asked about, that one."""
    since_ms: int | None = None
    attempts: int = 0
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What the active controller answered; `problem` says why nothing of it is known."""

    topics: Mapping[str, ToldTopic] = field(default_factory=dict)
    epoch: int | None = None
    deletion_enabled: bool | None = None
    """`delete.topic.enable` as the controller has it; None where it does not say."""
    refused: Refused | None = None
    """Where one topic was asked about, which is not marked."""
    not_shown: int = 0
    """Marked topics of which it says nothing."""
    owed: tuple[Owing, ...] | None = None
    """None where it does not say."""
    unproven: JsonValue = None
    """Deleted topics that caches may still show, as the controller writes it; None where it does not say."""
    pauses: tuple[ToldPause, ...] = ()
    """Everything that has to end before it deletes anything."""
    problem: str | None = None

    @property
    def is_known(self) -> bool:
        return self.problem is None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of it. The times are ZooKeeper's."""

    survey: Survey
    topics: tuple[str, ...]
    """Those that were asked about."""
    marked_since_ms: Mapping[str, int] = field(default_factory=dict)
    changed_at_ms: Mapping[str, int] = field(default_factory=dict)
    """When the topic's own znode was last written."""
    holds: Holds = field(default_factory=Holds)
    told: Told = field(default_factory=lambda: Told(problem="it was not asked"))
    ordered: frozenset[str] = frozenset()
    """Topics whose own znode cannot be understood and whose marker orders their deletion even so."""
    tiered: frozenset[str] = frozenset()
    """Marked topics whose configuration says `remote.storage.enable=true`."""
