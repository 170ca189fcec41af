"""Evidence about marked topics, as immutable values: a survey of the topics, what stops all deletions, and the
controller's answer, if it is Lethe's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper.znodes import DeletionsPaused
from lethe.survey.views import Survey


class DynamicSetting(NamedTuple):
    """A dynamic setting and its znode."""

    value: bool
    path: str


class ProtectedTopics(NamedTuple):
    """Patterns of topics that Lethe's controllers never delete, and their znode; None: the controller's own file."""

    patterns: tuple[str, ...]
    path: str | None = None


class UnreadableSetting(NamedTuple):
    """A znode of the brokers' configuration that could not be read or understood, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class DeletionHolds:
    """What stops every deletion, as ZooKeeper has it."""

    paused: DeletionsPaused | None = None
    """Obeyed by Lethe's controllers only."""
    delete_topic_enable: DynamicSetting | None = None
    """Its value in dynamic configuration; None where only the controller's properties have it, or it is
    `unreadable`."""
    disabled_on: tuple[BrokerId, ...] = ()
    """Registered brokers whose own properties have `delete.topic.enable=false`, where brokers were asked and nothing
    overrides these."""
    unreadable: UnreadableSetting | None = None
    """Why dynamic configuration does not say whether topics may be deleted; None where it does."""
    protected: ProtectedTopics | None = None
    """Protected topics in dynamic configuration; None where it names none, or is `unreadable`."""


@dataclass(frozen=True, slots=True)
class ReportedReplica:
    """The controller's row about one replica, about one broker (`partition` None), or about the topic (both None)."""

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
class ReportedTopic:
    """The controller's answer about one marked topic."""

    topic: str
    marked_since_ms: int | None = None
    phase: str | None = None
    held_by: str | None = None
    replicas: tuple[ReportedReplica, ...] = ()


class ReportedPause(NamedTuple):
    """A cause for which the controller deletes nothing, and its znode."""

    kind: CauseKind
    since_ms: int | None = None
    reason: str | None = None
    path: str | None = None


class RefusedDeletion(NamedTuple):
    """When the controller dropped the topic's marker, and why."""

    at_ms: int | None
    why: str | None
    cause: CauseKind = CauseKind.REFUSED
    detail: str | None = None
    """The pattern that protects the topic."""


@dataclass(frozen=True, slots=True)
class OwedTombstones:
    """A broker that has not confirmed the tombstones of topics whose znodes are removed."""

    broker: int
    topic_count: int
    topics: tuple[str, ...] = ()
    """The first of them; after a question about one topic, that one."""
    since_ms: int | None = None
    attempts: int = 0
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class ControllerReport:
    """The active controller's answer; `problem` says why there is none."""

    topics: Mapping[str, ReportedTopic] = field(default_factory=dict)
    epoch: int | None = None
    deletion_enabled: bool | None = None
    """The controller's `delete.topic.enable`; None where the answer lacks it."""
    protected_topics: tuple[str, ...] | None = None
    """The patterns that the controller protects; None where the answer lacks them."""
    refused: RefusedDeletion | None = None
    """Set after a question about one topic that is not marked."""
    not_shown: int = 0
    """Marked topics that the answer leaves out."""
    owed: tuple[OwedTombstones, ...] | None = None
    """None where the answer lacks it."""
    unproven: JsonValue = None
    """Deleted topics that caches may still show, in the controller's format; None where the answer lacks it."""
    pauses: tuple[ReportedPause, ...] = ()
    """All of them have to end before the controller deletes anything."""
    problem: str | None = None

    @property
    def is_known(self) -> bool:
        return self.problem is None


def protected_topics(holds: DeletionHolds, reported: ControllerReport) -> ProtectedTopics:
    """Return the patterns that Lethe's controller protects: as it says, else as dynamic configuration has them."""
    configured = holds.protected or ProtectedTopics(())
    if reported.protected_topics is None:
        return configured
    is_configured = reported.protected_topics == configured.patterns
    return ProtectedTopics(reported.protected_topics, configured.path if is_configured else None)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All evidence about `topics`. The times are ZooKeeper's."""

    survey: Survey
    topics: tuple[str, ...]
    """The topics in question."""
    marked_since_ms: Mapping[str, int] = field(default_factory=dict)
    changed_at_ms: Mapping[str, int] = field(default_factory=dict)
    """Last write of the topic's own znode."""
    holds: DeletionHolds = field(default_factory=DeletionHolds)
    reported: ControllerReport = field(default_factory=lambda: ControllerReport(problem="it was not asked"))
    ordered: frozenset[str] = frozenset()
    """Topics with an unreadable znode whose marker orders their deletion anyway."""
    tiered: Mapping[str, bool | None] = field(default_factory=dict)
    """Whether the configuration of each marked topic has `remote.storage.enable=true`; None if it is unreadable."""
