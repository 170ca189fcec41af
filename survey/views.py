"""What a survey saw, as immutable values. What could not be seen is a problem or None."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lethe.adapters.debts import OpenDebt
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.znodes import ControllerZnode
from lethe.survey.removal import Removal


class Problem(NamedTuple):
    """A znode path, `broker 3` or a directory that could not be seen or understood, and why."""

    where: str
    what: str


# --- ZooKeeper ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicTree:
    """`/brokers/topics/T` and its descendants."""

    name: str
    topic_id: TopicId | None = None
    assignments: Mapping[int, ReplicaAssignment] | None = None
    """By partition; None where the topic's znode is empty or malformed."""
    partition_znodes: tuple[int, ...] | None = None
    """The children of `/partitions`; None where that znode is missing."""
    states: Mapping[int, LeaderAndIsr | None] = field(default_factory=dict)
    """By partition with a state znode; None where that is empty or malformed."""
    created_at_ms: int | None = None
    """Creation time of its znode; None where times were not read, or the server has none."""


@dataclass(frozen=True, slots=True)
class ZooKeeperTree:
    """Kafka's znodes of topics, brokers and the controller. Names are sorted."""

    topics: Mapping[str, TopicTree] = field(default_factory=dict)
    marked: tuple[str, ...] = ()
    """Topics with a deletion marker, existing or not."""
    marked_at_ms: Mapping[str, int] = field(default_factory=dict)
    """Creation times of markers, where they were read."""
    configured: tuple[str, ...] = ()
    """Topics with a configuration znode, existing or not."""
    reassigning: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    """Partitions in `/admin/reassign_partitions`, with their target replicas."""
    brokers: tuple[Broker, ...] = ()
    """The registered brokers, by id."""
    other_hosts: tuple[BrokerId, ...] = ()
    """Brokers with replicas of topics outside the survey, where these were read."""
    controller: ControllerZnode | None = None
    controller_epoch: int | None = None
    cluster_id: str | None = None
    debts: tuple[OpenDebt, ...] = ()
    """What brokers owe, by broker and topic; of the topics in the survey."""
    trashed: Mapping[str, TopicId] = field(default_factory=dict)
    """Topics in the trash and their ids: settings and directories are kept for their return. Another topic may have the
    name."""
    unreadable_trash: Mapping[str, str] = field(default_factory=dict)
    """Names in the trash whose entries cannot be read or understood, and why: what they keep is not known."""
    problems: tuple[Problem, ...] = ()

    def is_in_trash(self, topic: str) -> bool:
        """Return True if the name is that of a topic in the trash, and no other topic has it."""
        return topic not in self.topics and (topic in self.trashed or topic in self.unreadable_trash)

    def may_be_in_trash(self, topic: str) -> bool:
        """The same; True also of every name without a topic where the trash was not read."""
        return self.is_in_trash(topic) or (topic not in self.topics and not self.knows_trash)

    def may_be_kept(self, directory: Directory) -> bool:
        """Return True if this may be a replica of a topic in the trash, also where another topic has the name.

        the directory's id   the entry of the name        kept
        -------------------  ---------------------------  ----
        the topic's          any                          no: it is the topic's that exists
        A, or not known      A                            yes
        B                    A                            no
        any other            unreadable, or trash unseen  yes
        """
        if directory.kind is not DirectoryKind.REPLICA or directory.topic_partition is None:
            return False
        name, found = directory.topic_partition.topic, directory.topic_id
        topic = self.topics.get(name)
        if found is not None and topic is not None and found == topic.topic_id:
            return False
        if name in self.unreadable_trash or not self.knows_trash:
            return True
        return name in self.trashed and found in (None, self.trashed[name])

    @property
    def knows_trash(self) -> bool:
        """True if the trash was listed: a topic that is not in it is not kept."""
        return self.could_read(paths.TRASH)

    def could_read(self, path: str) -> bool:
        """Return True if that znode could be read and understood, or does not exist."""
        return self.problem_of(path) is None

    def problem_of(self, path: str) -> str | None:
        """Return why that znode could not be read or understood; None where it could, or does not exist."""
        return next((problem.what for problem in self.problems if problem.where == path), None)

    @property
    def knows_topics(self) -> bool:
        """True if the list of topics was read: a topic that is not in it does not exist."""
        return self.could_read(paths.BROKER_TOPICS)

    @property
    def knows_markers(self) -> bool:
        """True if the list of markers was read: a topic that is not in it is not marked."""
        return self.could_read(paths.DELETE_TOPICS)

    @property
    def unseen_topics(self) -> int:
        """How many of `topics` could not be read or understood, so that their partitions are unknown."""
        return sum(topic.assignments is None for topic in self.topics.values())

    @property
    def seen_partitions(self) -> int:
        """Partitions of the topics that could be read."""
        return sum(len(topic.assignments or ()) for topic in self.topics.values())

    @property
    def knows_plans(self) -> bool:
        """True if markers and reassignments were read: topics and partitions outside them are to stay as they are."""
        return self.knows_markers and self.could_read(paths.REASSIGN_PARTITIONS)

    @property
    def knows_brokers(self) -> bool:
        """True if every registration was read and understood: a broker that is not in `brokers` is not registered."""
        return not any(
            problem.where == paths.BROKER_IDS or problem.where.startswith(f"{paths.BROKER_IDS}/")
            for problem in self.problems
        )


# --- brokers ------------------------------------------------------------------------------------------------------


class BrokerFailure(enum.Enum):
    """How a broker failed to answer."""

    UNASKED = "none of its listeners takes this client"
    UNREACHABLE = "no connection to it can be had"
    SILENT = "it accepts the connection and does not answer"
    REFUSED = "it does not let this client ask"
    ERROR = "it answers with an error, or with what is no answer"
    ABSENT = "it is not registered"
    FAILED_DISK = "a log directory of it has failed"

    @property
    def lasts(self) -> bool:
        """True where asking again is useless: an operator has to change the broker or its permissions first."""
        return self in (BrokerFailure.UNASKED, BrokerFailure.REFUSED, BrokerFailure.FAILED_DISK)


class BrokerPlace(enum.Enum):
    """What a broker is asked about."""

    CACHE = "metadata cache"
    LOGS = "log directories"


class UnansweredQuestion(NamedTuple):
    """A question that a broker did not answer, and why. It never means "there is none"."""

    failure: BrokerFailure
    why: str
    place: BrokerPlace | None = None
    """None: both."""


@dataclass(frozen=True, slots=True)
class BrokerAnswers:
    """Answers of a live broker. An unanswered question is None; `unseen` says why."""

    broker: BrokerId
    cache: Mapping[str, CachedTopic] | None = None
    controller: BrokerId | None = None
    """The controller id that the broker reports; -1 for none."""
    log_dirs: tuple[LogDirView, ...] | None = None
    unseen: tuple[UnansweredQuestion, ...] = ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All unanswered questions, as text."""
        return tuple(dict.fromkeys(Problem(f"broker {self.broker}", each.why) for each in self.unseen))

    @property
    def failure(self) -> BrokerFailure | None:
        """The kind of the last failure; None where it answered everything."""
        return self.unseen[-1].failure if self.unseen else None

    def unseen_at(self, place: BrokerPlace) -> UnansweredQuestion | None:
        """Return why that place is unknown; None where the broker answered."""
        if (self.cache if place is BrokerPlace.CACHE else self.log_dirs) is not None:
            return None
        return next(
            (each for each in self.unseen if each.place in (place, None)),
            UnansweredQuestion(BrokerFailure.ERROR, "it was not asked", place),
        )


class BrokerResponse(NamedTuple):
    """Whether a broker answers at all, and why not."""

    answers: bool | None
    """None: not seen, because the broker was not asked."""
    why: str | None = None


# --- disks --------------------------------------------------------------------------------------------------------


def printable(name: str) -> str:
    r"""Return a file name as valid text: bytes that are not UTF-8 become `\xff`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class Directory(NamedTuple):
    """A directory inside a log directory."""

    name: str
    kind: DirectoryKind
    topic_partition: TopicPartition | None = None
    """From the name. The topic name of a deleted, stray or future directory may be cut."""
    size_bytes: int = 0
    topic_id: TopicId | None = None
    """From `partition.metadata`; None where that is missing, and in a broker's description."""
    files: int | None = None
    newest_mtime_ms: int | None = None
    """Latest mtime of the directory and its files."""
    problem: str | None = None
    segment_bytes: int | None = None
    """Size of the segments (`*.log`) alone; None in a broker's description."""
    newest_segment_mtime_ms: int | None = None
    """None also without segments."""
    changed_at_ms: int | None = None
    """ctime of the directory, which a rename sets; None in a broker's description."""


class LogDirSource(enum.Enum):
    LOCAL = "local"
    """Read from this machine's file system."""
    BROKER = "broker"
    """Described by the broker (DescribeLogDirs): without topic ids and without renamed directories."""


@dataclass(frozen=True, slots=True)
class LogDirView:
    """One log directory of one broker. `problem` says why its content is not known, or not known completely."""

    broker: BrokerId
    path: str
    source: LogDirSource
    directories: tuple[Directory, ...] = ()
    problem: str | None = None
    has_failed: bool = False
    """Its broker has taken it offline and cannot list its content."""


NOT_SEEN: Final = "it is not registered, and its disks were not seen: --log-dir names those of brokers that are down"
"""Problem of an unregistered broker that has replicas."""


# --- all together -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Survey:
    """The three places. They are read one after the other; `in_motion` are topics that changed meanwhile, and no
    conclusion about them is possible."""

    taken_at_ms: int
    took_ms: int
    zookeeper: ZooKeeperTree
    answers: tuple[BrokerAnswers, ...] = ()
    """Of the live brokers, by id."""
    log_dirs: tuple[LogDirView, ...] = ()
    """By broker and path: local ones where they were read, the brokers' descriptions of the others."""
    in_motion: tuple[str, ...] = ()
    host: str = ""
    """The machine that took the survey; its name is part of the survey's id."""
    removals: Mapping[BrokerId, Removal] | None = None
    """By registered broker with renamed directories; None where this was not read."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that could not be seen, as valid text."""
        told = tuple(problem for answer in self.answers for problem in answer.problems)
        absent = tuple(Problem(f"broker {broker}", NOT_SEEN) for broker in self.unseen_brokers)
        disks = tuple(
            Problem(printable(f"broker {view.broker}, {view.path}"), printable(view.problem))
            for view in self.log_dirs
            if view.problem
        )
        return self.zookeeper.problems + told + absent + disks

    def response_of(self, broker: BrokerId) -> BrokerResponse:
        """Return whether the broker answers; a refusal or an error is an answer. Only registered brokers are asked."""
        answer = next((each for each in self.answers if each.broker == broker), None)
        if answer is None:
            tree = self.zookeeper
            if any(each.id == broker for each in tree.brokers):
                return BrokerResponse(None, "it was not asked")
            is_known = tree.could_read(paths.BROKER_IDS) and tree.could_read(paths.broker_id(broker))
            return BrokerResponse(None, "it is not registered" if is_known else "its registration cannot be read")
        why = answer.problems[0].what if answer.problems else None
        match answer.failure:
            case BrokerFailure.SILENT | BrokerFailure.UNREACHABLE:
                return BrokerResponse(False, why)
            case BrokerFailure.UNASKED:
                return BrokerResponse(None, why)
            case _:
                return BrokerResponse(True)

    @property
    def unseen_brokers(self) -> tuple[BrokerId, ...]:
        """Brokers that have replicas, are not registered, and own no log directory in the survey. Empty where
        registrations could not be read, which is a problem of its own."""
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
        """True if everything was seen, so that no findings mean that nothing is left over. An exception are log
        directories that were not read locally (`read_log_dirs`): brokers do not describe all of their content."""
        return not self.problems

    @property
    def read_log_dirs(self) -> int:
        """Number of log directories that were read locally and completely."""
        return sum(view.source is LogDirSource.LOCAL and view.problem is None for view in self.log_dirs)
