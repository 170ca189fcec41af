"""Tasks and continuations for deletions: see `tasks`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lethe.controller.core.tasks_partitions import Replicas
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
    """These topics are marked: queue those that may be deleted now and hold the others. Unless `loading`, continue the
    deletion of queued topics."""

    topics: tuple[str, ...]
    loading: bool = False
    begun: tuple[str, ...] = ()
    """Topics whose deletion had begun before the pause: they are queued all the same."""


@dataclass(frozen=True, slots=True)
class ReadBegun:
    """Find which of these marked topics had begun to be deleted: deletions are paused during the takeover."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadProtected:
    """Refuse the markers of these protected topics, but for topics whose deletion had begun."""

    topics: tuple[str, ...]
    loading: bool


@dataclass(frozen=True, slots=True)
class CompareIncarnations:
    """The markers of these topics name other incarnations than memory has: refuse them if ZooKeeper has none of those
    either."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadMarkers:
    """Read whether the markers of these unreadable topics order the deletion nevertheless."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadUnreadable:
    """Read the partitions of these topics, whose own znodes cannot be understood, and queue the topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettleUnknownMarkers:
    """Remove those of these markers whose topics are still unknown after the topics were read again.

    `with_config`: remove their configuration too. A controller may have died between removing topic and configuration.
    """

    topics: tuple[str, ...]
    with_config: bool


@dataclass(frozen=True, slots=True)
class ResumeDeletions:
    """Do the next steps of these topics' deletions. `unblock`: the cause of their waiting may have changed."""

    topics: tuple[str, ...]
    unblock: bool = False


@dataclass(frozen=True, slots=True)
class FailReplicaDeletions:
    """These replicas of queued topics cannot be deleted now. `returned`: their broker has registered again already."""

    replicas: Replicas
    returned: bool = False


@dataclass(frozen=True, slots=True)
class RemoveTopics:
    """Remove the znodes that memory expects: every replica has acknowledged, and every tombstone is settled."""

    topics: tuple[str, ...]


class TopicTree(NamedTuple):
    """A topic's znodes: those found so far, parents first, and those to list next (`level`)."""

    topic: str
    found: tuple[str, ...]
    level: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchTopicTrees:
    """Find the znodes that these topics have, level by level for all topics together, and remove them."""

    trees: tuple[TopicTree, ...]


DeletionTask = (
    ListDeletions
    | ReadPause
    | QueueDeletions
    | ReadBegun
    | ReadProtected
    | CompareIncarnations
    | ReadMarkers
    | ReadUnreadable
    | SettleUnknownMarkers
    | ResumeDeletions
    | FailReplicaDeletions
    | RemoveTopics
    | SearchTopicTrees
)


# --- continuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeletionsListed:
    loading: bool


@dataclass(frozen=True, slots=True)
class MarkersDated:
    """After reading when the markers of `undated` were created. `topics`: all marked topics."""

    topics: tuple[str, ...]
    undated: tuple[str, ...]
    loading: bool


@dataclass(frozen=True, slots=True)
class PauseRead:
    loading: bool


@dataclass(frozen=True, slots=True)
class NoteBegun:
    """After reading these topics' markers: note in them that the deletion has begun. `queue`: then queue the topics."""

    topics: tuple[str, ...]
    queue: bool = False
    loading: bool = False


@dataclass(frozen=True, slots=True)
class BegunNoted:
    """After noting in these topics' markers that the deletion has begun."""

    topics: tuple[str, ...]
    queue: bool
    loading: bool


@dataclass(frozen=True, slots=True)
class BegunRead:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProtectedRead:
    topics: tuple[str, ...]
    loading: bool


@dataclass(frozen=True, slots=True)
class IncarnationsRead:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MarkersRead:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnreadableRead:
    topics: tuple[str, ...]


class UnreadableTopic(NamedTuple):
    """A topic with known partitions whose znode, of this version and creation, could not be understood."""

    name: str
    partitions: tuple[int, ...]
    version: int
    created_zxid: int


@dataclass(frozen=True, slots=True)
class UnreadableStatesRead:
    topics: tuple[UnreadableTopic, ...]


@dataclass(frozen=True, slots=True)
class MarkersRemoved:
    """`ghosts`: there is no such topic, and the multi that removes the marker checks this. `others`: the markers name
    other incarnations, in the versions that are removed."""

    topics: tuple[str, ...]
    ghosts: bool = False
    others: bool = False
    with_config: bool = False


@dataclass(frozen=True, slots=True)
class TopicsRemoved:
    """`parts`: number of groups of each topic, in order. `searched`: the groups come from the tree in ZooKeeper, not
    from memory."""

    topics: tuple[str, ...]
    parts: tuple[int, ...]
    last: tuple[tuple[Operation, ...], ...]
    """The second multi of topics too large for one: their own znode, configuration and marker. Else empty."""
    searched: bool = False


@dataclass(frozen=True, slots=True)
class TopicTreesSearched:
    trees: tuple[TopicTree, ...]


DeletionReadContinuation = (
    DeletionsListed
    | MarkersDated
    | PauseRead
    | NoteBegun
    | BegunRead
    | ProtectedRead
    | IncarnationsRead
    | MarkersRead
    | UnreadableRead
    | UnreadableStatesRead
    | TopicTreesSearched
)
DeletionWriteContinuation = BegunNoted | MarkersRemoved | TopicsRemoved
