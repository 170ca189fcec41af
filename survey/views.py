"""What a survey saw, as immutable values. What could not be seen is part of it, as a problem or as None."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.znodes import ControllerZnode
from lethe.survey.removal import Removal


class Problem(NamedTuple):
    """Something that could not be seen or understood: a znode path, `broker 3` or a directory, and why."""

    where: str
    what: str


# --- ZooKeeper ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicTree:
    """`/brokers/topics/T` and what is below it."""

    name: str
    topic_id: TopicId | None = None
    assignments: Mapping[int, ReplicaAssignment] | None = None
    """By partition; None where the topic's znode is empty or malformed."""
    partition_znodes: tuple[int, ...] | None = None
    """The children of `/partitions`; None where that znode is missing."""
    states: Mapping[int, LeaderAndIsr | None] = field(default_factory=dict)
    """Partitions that have a state znode; None where it says nothing or nothing that can be understood."""
    created_at_ms: int | None = None
    """When its znode was made; None where nobody asked for times, or the server keeps none."""


@dataclass(frozen=True, slots=True)
class ZooKeeperTree:
    """Kafka's znodes, as far as they concern topics and who is there. Names are sorted."""

    topics: Mapping[str, TopicTree] = field(default_factory=dict)
    marked: tuple[str, ...] = ()
    """Topics with a deletion marker, existing or not."""
    marked_at_ms: Mapping[str, int] = field(default_factory=dict)
    """When their markers were made, of those of which that was asked for and is known."""
    configured: tuple[str, ...] = ()
    """Topics with a configuration znode, existing or not."""
    reassigning: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    """What `/admin/reassign_partitions` names, with the replicas that are wanted."""
    brokers: tuple[Broker, ...] = ()
    """The registered ones, by id."""
    other_hosts: tuple[BrokerId, ...] = ()
    """Brokers that have replicas of topics that were not looked into; only where that was asked for."""
    controller: ControllerZnode | None = None
    controller_epoch: int | None = None
    cluster_id: str | None = None
    problems: tuple[Problem, ...] = ()

    def could_read(self, path: str) -> bool:
        """Whether that znode could be read and understood, or was not there."""
        return all(problem.where != path for problem in self.problems)

    @property
    def knows_topics(self) -> bool:
        """The list of topics was read: what it does not name does not exist."""
        return self.could_read(paths.BROKER_TOPICS)

    @property
    def knows_markers(self) -> bool:
        """The list of markers was read: a topic that it does not name is not marked."""
        return self.could_read(paths.DELETE_TOPICS)

    @property
    def knows_plans(self) -> bool:
        """Markers and reassignments were read: what they do not name is to stay as it is."""
        return self.knows_markers and self.could_read(paths.REASSIGN_PARTITIONS)

    @property
    def knows_brokers(self) -> bool:
        """Every registration was read and understood: what is not among `brokers` is not registered."""
        return not any(
            problem.where == paths.BROKER_IDS or problem.where.startswith(f"{paths.BROKER_IDS}/")
            for problem in self.problems
        )


# --- brokers ------------------------------------------------------------------------------------------------------


class Failure(enum.Enum):
    """How a broker failed to answer."""

    UNASKED = "it has no listener to ask it by"
    UNREACHABLE = "no connection to it can be had"
    SILENT = "it accepts the connection and does not answer"
    REFUSED = "it does not let this client ask"
    ERROR = "it answers with an error, or with what is no answer"
    ABSENT = "it is not registered"
    FAILED_DISK = "a log directory of it has failed"

    @property
    def lasts(self) -> bool:
        """True where asking again changes nothing: a person has to change the broker or its rights first."""
        return self in (Failure.UNASKED, Failure.REFUSED, Failure.FAILED_DISK)


class Place(enum.Enum):
    """What a broker is asked about."""

    CACHE = "metadata cache"
    LOGS = "log directories"


class Unseen(NamedTuple):
    """What a broker was asked and did not tell, and why. It never means "there is none"."""

    failure: Failure
    why: str
    place: Place | None = None
    """None stands for both."""


@dataclass(frozen=True, slots=True)
class BrokerAnswers:
    """What a live broker said. None for what it was asked and did not answer; `unseen` says why."""

    broker: BrokerId
    cache: Mapping[str, CachedTopic] | None = None
    controller: BrokerId | None = None
    """The controller id that the broker reports; -1 for none."""
    log_dirs: tuple[LogDirView, ...] | None = None
    unseen: tuple[Unseen, ...] = ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that it did not tell, in words."""
        return tuple(dict.fromkeys(Problem(f"broker {self.broker}", each.why) for each in self.unseen))

    @property
    def failure(self) -> Failure | None:
        """The kind of the last failure; None where it answered everything."""
        return self.unseen[-1].failure if self.unseen else None

    def unseen_at(self, place: Place) -> Unseen | None:
        """Why that place is not known; None where the broker told it."""
        if (self.cache if place is Place.CACHE else self.log_dirs) is not None:
            return None
        return next(
            (each for each in self.unseen if each.place in (place, None)),
            Unseen(Failure.ERROR, "it was not asked", place),
        )


# --- disks --------------------------------------------------------------------------------------------------------


def printable(name: str) -> str:
    r"""A name of a file system as text that can be written anywhere: what is no UTF-8 in it becomes `\xff`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class Directory(NamedTuple):
    """A directory inside a log directory."""

    name: str
    kind: DirectoryKind
    topic_partition: TopicPartition | None = None
    """Of a deleted, stray or future one as far as its name tells: the topic of a long name has been cut."""
    size_bytes: int = 0
    topic_id: TopicId | None = None
    """What `partition.metadata` says; None where there is none, and always where a broker was asked."""
    files: int | None = None
    newest_mtime_ms: int | None = None
    """Of the directory itself or of any file in it."""
    problem: str | None = None
    segment_bytes: int | None = None
    """Of the segments (`*.log`) alone; None where a broker was asked."""
    newest_segment_mtime_ms: int | None = None
    """None also where there is no segment."""
    changed_at_ms: int | None = None
    """When its inode was last changed: a rename changes it. None where a broker was asked."""


class Source(enum.Enum):
    LOCAL = "local"
    """Read from this machine's file system."""
    BROKER = "broker"
    """Told by the broker (DescribeLogDirs): no topic ids, and no directories that wait for removal."""


@dataclass(frozen=True, slots=True)
class LogDirView:
    """One log directory of one broker. `problem` says why its content is unknown, or known in part only."""

    broker: BrokerId
    path: str
    source: Source
    directories: tuple[Directory, ...] = ()
    problem: str | None = None
    has_failed: bool = False
    """Its broker can no longer use it, and cannot tell what lies in it."""


NOT_SEEN: Final = "it is not registered, and its disks were not seen: --log-dir names those of brokers that are down"
"""Of a broker that has replicas and was not there to be asked."""


# --- all together -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Survey:
    """The three places. They are looked at one after the other, so what changed meanwhile is listed: `in_motion` are
    topics that came, went or were marked while the survey was taken, about which nothing can be said."""

    taken_at_ms: int
    took_ms: int
    zookeeper: ZooKeeperTree
    answers: tuple[BrokerAnswers, ...] = ()
    """Of the live brokers, by id."""
    log_dirs: tuple[LogDirView, ...] = ()
    """By broker and path; local ones where they were given, the brokers' word for the others."""
    in_motion: tuple[str, ...] = ()
    host: str = ""
    """The machine on which it was taken: its name is part of the survey's id."""
    removals: Mapping[BrokerId, Removal] | None = None
    """Of the registered brokers that have renamed directories; None where nobody asked."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that could not be seen."""
        told = tuple(problem for answer in self.answers for problem in answer.problems)
        absent = tuple(Problem(f"broker {broker}", NOT_SEEN) for broker in self.unseen_brokers)
        disks = tuple(
            Problem(f"broker {view.broker}, {view.path}", view.problem) for view in self.log_dirs if view.problem
        )
        return self.zookeeper.problems + told + absent + disks

    @property
    def unseen_brokers(self) -> tuple[BrokerId, ...]:
        """Brokers that have replicas by the assignments, and are neither registered nor known by a log directory that
        was named. Where registrations could not be read, none: that is a problem of its own."""
        if not self.zookeeper.knows_brokers:
            return ()
        assigned: set[int] = {*self.zookeeper.other_hosts}
        for topic in self.zookeeper.topics.values():
            for assignment in (topic.assignments or {}).values():
                assigned.update(assignment.replicas)
        seen: set[int] = {broker.id for broker in self.zookeeper.brokers} | {view.broker for view in self.log_dirs}
        return tuple(BrokerId(broker) for broker in sorted(assigned - seen))

    @property
    def is_complete(self) -> bool:
        """True where everything was seen or told, so that finding nothing left over means that nothing is; but for
        what brokers never tell of the log directories that are not `read_log_dirs`."""
        return not self.problems

    @property
    def read_log_dirs(self) -> int:
        """How many of the log directories were read themselves, whole."""
        return sum(view.source is Source.LOCAL and view.problem is None for view in self.log_dirs)
