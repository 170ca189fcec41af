"""What is left to do about deletions, and what the results are for, as values: see `agenda`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lethe.controller.core.agenda_partitions import Replicas
from lethe.protocol.zookeeper.operations import Operation


@dataclass(frozen=True, slots=True)
class ListDeletions:
    """Read which topics are marked."""

    loading: bool = False


@dataclass(frozen=True, slots=True)
class ReadPause:
    """Read whether deletions are paused."""

    loading: bool = False


@dataclass(frozen=True, slots=True)
class QueueDeletions:
    """These topics are marked: queue those that may go now, hold the others, and go on with those that are queued
    (except while `loading`)."""

    topics: tuple[str, ...]
    loading: bool = False
    begun: tuple[str, ...] = ()
    """Those that are queued although deletions are paused: their deletion had begun before."""


@dataclass(frozen=True, slots=True)
class ReadBegun:
    """Deletions are paused while we take over: find out which of these marked topics had begun to be deleted."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadMarkers:
    """Read whether the markers of these unreadable topics order their deletion all the same."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadUnreadable:
    """Find out what there is of these topics, whose own znodes say nothing, and queue them."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettleUnknownMarkers:
    """The topics have been read again after these markers were: a topic that is still unknown is not there.

    `with_config`: its configuration goes too, as when a controller died between the topic and its configuration.
    """

    topics: tuple[str, ...]
    with_config: bool


@dataclass(frozen=True, slots=True)
class ResumeDeletions:
    """Do for these queued topics what can be done now; `unblock`: what held them back may have changed."""

    topics: tuple[str, ...]
    unblock: bool = False


@dataclass(frozen=True, slots=True)
class FailReplicaDeletions:
    """These replicas of queued topics cannot be deleted now."""

    replicas: Replicas


@dataclass(frozen=True, slots=True)
class RemoveTopics:
    """Every replica has acknowledged and every cache was told: the znodes go, as memory believes them to be."""

    topics: tuple[str, ...]


class TopicTree(NamedTuple):
    """Which znodes of a topic have been found so far, parents first, and which are to be looked at next."""

    topic: str
    found: tuple[str, ...]
    level: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchTopicTrees:
    """Find out which znodes these topics really have, level by level for all together, and remove those."""

    trees: tuple[TopicTree, ...]


DeletionTask = (
    ListDeletions
    | ReadPause
    | QueueDeletions
    | ReadBegun
    | ReadMarkers
    | ReadUnreadable
    | SettleUnknownMarkers
    | ResumeDeletions
    | FailReplicaDeletions
    | RemoveTopics
    | SearchTopicTrees
)


# --- what results are for ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeletionsListed:
    loading: bool


@dataclass(frozen=True, slots=True)
class MarkersDated:
    """`topics` are all that are marked; of `undated` it was asked when their markers were made."""

    topics: tuple[str, ...]
    undated: tuple[str, ...]
    loading: bool


@dataclass(frozen=True, slots=True)
class PauseRead:
    loading: bool


@dataclass(frozen=True, slots=True)
class BegunNoted:
    """The markers of these topics were to say that their deletion has begun."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BegunRead:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MarkersRead:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnreadableRead:
    topics: tuple[str, ...]


class UnreadableTopic(NamedTuple):
    """A topic of which only its partitions are known, and which znode it was that could not be understood."""

    name: str
    partitions: tuple[int, ...]
    version: int
    created_zxid: int


@dataclass(frozen=True, slots=True)
class UnreadableStatesRead:
    topics: tuple[UnreadableTopic, ...]


@dataclass(frozen=True, slots=True)
class MarkersRemoved:
    """`ghosts`: there was no such topic, and the multi that removes the marker says so too."""

    topics: tuple[str, ...]
    ghosts: bool = False
    with_config: bool = False


@dataclass(frozen=True, slots=True)
class TopicsRemoved:
    """`parts` counts the groups of each topic, in order; `searched`: they were derived from the tree as it was found,
    not from memory."""

    topics: tuple[str, ...]
    parts: tuple[int, ...]
    last: tuple[tuple[Operation, ...], ...]
    """What is to follow for the topics too large for one multi: their own znode, configuration and marker."""
    searched: bool = False


@dataclass(frozen=True, slots=True)
class TopicTreesSearched:
    trees: tuple[TopicTree, ...]


DeletionReadContinuation = (
    DeletionsListed
    | MarkersDated
    | PauseRead
    | BegunRead
    | MarkersRead
    | UnreadableRead
    | UnreadableStatesRead
    | TopicTreesSearched
)
DeletionWriteContinuation = BegunNoted | MarkersRemoved | TopicsRemoved
