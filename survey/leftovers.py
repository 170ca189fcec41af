"""Finds what is left over, in which place, and why it should not exist. Pure.

Theory of operation. ZooKeeper decides which topics exist; caches and disks are compared with it. Each finding has a
place and a reason, which decides its standing (`protocol.findings`).

    ZooKeeper                       seen                          finding
    no topic orders                 broker 3 caches orders        CACHED_WITHOUT_TOPIC
    orders has id A                 orders-0 on disk with id B    DIRECTORY_OF_OTHER_INCARNATION
    orders-0 is on brokers 1, 2     orders-0 on broker 3's disk   DIRECTORY_NOT_ASSIGNED
    broker 3 owes orders (id A)     orders-0 on broker 3's disk   DIRECTORY_OWED
    the same, and orders-0 moves    orders-0 on broker 3's disk   none
    orders (id B) in the trash      orders-0 on disk with id B    none; also where orders exists with id A
    the same                        orders-0, its id not told     none
    topics could not be read        broker 3 caches orders        none; the survey has a problem

An uncertain observation is never a finding. What could not be seen is among the survey's problems, and each conclusion
requires that its premises were seen:

* Something belongs to no topic: the list of topics was read.
* The tree, a replica or a directory of an existing topic is wrong: markers and reassignments were read, and the
  topic's own znode was understood.
* No broker has a topic in its cache: the topic is in service, all registrations were read, and every registered
  broker returned its cache.
* A directory is missing: the topic is in service, its broker is registered and listed its log directories, and all
  were read whole.

Topics that changed during the survey have no findings. Of a marked topic, the findings are its marker, an incomplete
tree, and caches and directories with another topic id; other replicas are not judged. The location of a moving
partition is not judged either. A directory without a known topic id passes if a topic of that name has a replica on
that broker. What a topic in the trash keeps, or may keep, is not judged (`ZooKeeperTree.may_be_kept`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from lethe.protocol.counting import listed
from lethe.protocol.findings import NO_PARTITIONS, Place, Reason, Standing
from lethe.protocol.kafka.directory_names import NEVER_CUT, DirectoryKind
from lethe.protocol.vocabulary import BrokerId, TopicId, TopicPartition, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.survey.debts import OwedDirectories
from lethe.survey.removal import removal_due
from lethe.survey.views import BrokerAnswers, BrokerPlace, Directory, LogDirView, Survey, TopicTree, ZooKeeperTree


@dataclass(frozen=True, slots=True)
class Leftover:
    """One finding. `what` is a znode path, a topic in a cache, or the path of a directory."""

    place: Place
    reason: Reason
    what: str
    topic: str
    broker: BrokerId | None = None
    partition: int | None = None
    size_bytes: int = 0
    detail: str = ""
    within_delay: bool = False
    """True for bytes that their broker removes later, while that time is not over, or when it is back."""

    @property
    def standing(self) -> Standing:
        return self.reason.standing

    @property
    def why(self) -> str:
        """The reason and the details of this finding."""
        return self.reason.value + (f" ({self.detail})" if self.detail else "")


def leftovers(survey: Survey) -> tuple[Leftover, ...]:
    """Return all findings: ZooKeeper's, then those of caches and of disks, by broker."""
    moving = frozenset(survey.in_motion)
    found = (*_in_zookeeper(survey), *_in_caches(survey), *_on_disks(survey))
    return tuple(leftover for leftover in found if leftover.topic not in moving)


_READ_ONLY_LOCALLY: Final = (
    Reason.DIRECTORY_OF_OTHER_INCARNATION,
    Reason.NOT_RECLAIMED_YET,
    Reason.STRAY_DIRECTORY,
)
"""Brokers describe neither ids of topics nor renamed directories."""


def would_be_found(survey: Survey, reason: Reason) -> bool:
    """Return True if every place was seen where such findings can be, so that none means that there is none."""
    tree = survey.zookeeper
    if tree.problems or reason.place is Place.ZOOKEEPER:
        return not tree.problems
    place = BrokerPlace.CACHE if reason.place is Place.CACHE else BrokerPlace.LOGS
    if any(each.place in (place, None) for answer in survey.answers for each in answer.unseen):
        return False
    if reason.place is Place.CACHE:
        return True
    if reason is Reason.DIRECTORY_OWED and {each.broker for each in tree.debts} - {v.broker for v in survey.log_dirs}:
        return False
    if survey.unseen_brokers or any(view.problem for view in survey.log_dirs):
        return False
    # Without its id, a directory under the name of a topic in the trash, or of one that is owed, may be that topic's.
    may_be_anothers = bool(tree.trashed or tree.unreadable_trash or tree.debts)
    needs_ids = may_be_anothers and reason is not Reason.REPLICA_WITHOUT_DIRECTORY
    return survey.read_log_dirs == len(survey.log_dirs) or not (needs_ids or reason in _READ_ONLY_LOCALLY)


# --- ZooKeeper ----------------------------------------------------------------------------------------------------


def _in_zookeeper(survey: Survey) -> Iterator[Leftover]:
    tree = survey.zookeeper
    if not tree.knows_topics:
        return
    for name in tree.marked:
        reason = Reason.MARKED_TOPIC if name in tree.topics else Reason.MARKER_WITHOUT_TOPIC
        yield Leftover(Place.ZOOKEEPER, reason, paths.delete_topic(name), name)
    for name in tree.configured:
        if name not in tree.topics and not tree.may_be_in_trash(name):
            yield Leftover(Place.ZOOKEEPER, Reason.CONFIG_WITHOUT_TOPIC, paths.config_topic(name), name)
    for partition in tree.reassigning:
        if partition.topic not in tree.topics:
            yield Leftover(
                Place.ZOOKEEPER,
                Reason.REASSIGNMENT_WITHOUT_TOPIC,
                paths.REASSIGN_PARTITIONS,
                partition.topic,
                partition=partition.partition,
            )
    marked = frozenset(tree.marked)
    for topic in tree.topics.values():
        is_marked = topic.name in marked
        found = damage(tree, topic, is_marked=is_marked)
        if found is not None and (is_marked or tree.knows_plans):
            reason = Reason.HALF_DELETED_TOPIC if is_marked else Reason.INCOMPLETE_TOPIC
            yield Leftover(Place.ZOOKEEPER, reason, paths.topic(topic.name), topic.name, detail=found)


def damage(tree: ZooKeeperTree, topic: TopicTree, *, is_marked: bool) -> str | None:
    """Return which part of the topic's tree is missing; None where it is complete or that is unknown. An unreadable
    topic znode is among the survey's problems.

    `partitions` itself is missing where no controller has created the topic, or a deletion without a marker has removed
    it. Brokers have nothing of such a topic, so nothing else would name it. A deletion removes it before the topic.
    """
    if topic.assignments is None:
        return None
    if topic.partition_znodes is None:
        is_missing = bool(topic.assignments) and tree.could_read(paths.topic_partitions(topic.name))
        return NO_PARTITIONS if is_missing and not is_marked else None
    bare = [p for p in topic.partition_znodes if p not in topic.states]
    if bare:
        return f"partitions {listed(bare)} have no state"
    foreign = [p for p in topic.partition_znodes if p not in topic.assignments]
    if foreign:
        return f"partitions {listed(foreign)} are not in its assignment"
    gone = [p for p in topic.assignments if p not in topic.partition_znodes]
    if gone and (is_marked or not topic.partition_znodes):
        return f"partitions {listed(gone)} are gone"
    return None


def is_in_service(topic: TopicTree) -> bool:
    """Return True if every partition has a readable state. Without one, no controller has initialized the topic, and
    brokers do not have all of it."""
    return bool(topic.assignments) and all(topic.states.get(number) is not None for number in topic.assignments or ())


# --- caches -------------------------------------------------------------------------------------------------------


def _in_caches(survey: Survey) -> Iterator[Leftover]:
    tree = survey.zookeeper
    marked = frozenset(tree.marked)
    if not tree.knows_topics:
        return
    for answer in survey.answers:
        yield from _in_cache(survey, answer)
    answered = {answer.broker: answer.cache for answer in survey.answers if answer.cache is not None}
    have_all = bool(tree.brokers) and all(broker.id in answered for broker in tree.brokers)
    if not (have_all and tree.knows_brokers and tree.knows_plans):
        return
    for topic in tree.topics.values():
        if (
            is_in_service(topic)
            and topic.name not in marked
            and not any(topic.name in cache for cache in answered.values())
        ):
            yield Leftover(Place.CACHE, Reason.IN_NO_CACHE, topic.name, topic.name)


def _in_cache(survey: Survey, answer: BrokerAnswers) -> Iterator[Leftover]:
    for name, cached in (answer.cache or {}).items():
        topic = survey.zookeeper.topics.get(name)
        if topic is None:
            reason, detail = Reason.CACHED_WITHOUT_TOPIC, ""
        elif _differ(cached.topic_id, topic.topic_id):
            reason, detail = Reason.CACHED_OTHER_INCARNATION, _ids("cached", cached.topic_id, topic.topic_id)
        else:
            continue
        yield Leftover(Place.CACHE, reason, name, name, answer.broker, detail=detail)


# --- disks --------------------------------------------------------------------------------------------------------


def _on_disks(survey: Survey) -> Iterator[Leftover]:
    has: dict[BrokerId, set[TopicPartition]] = {}
    doubtful = {view.broker for view in survey.log_dirs if view.problem}
    owed = OwedDirectories(survey.zookeeper)
    registered = {broker.id for broker in survey.zookeeper.brokers}
    marked = frozenset(survey.zookeeper.marked)
    for view in survey.log_dirs:
        mine = has.setdefault(view.broker, set())
        for directory in view.directories:
            if directory.topic_partition is None:
                continue
            if directory.kind is DirectoryKind.REPLICA:
                mine.add(directory.topic_partition)
            if survey.zookeeper.may_be_kept(directory):
                continue
            if owed.debt_of(view.broker, directory) is not None:
                is_away = view.broker not in registered and survey.zookeeper.knows_brokers
                yield replace(_on_disk(view, directory, Reason.DIRECTORY_OWED, ""), within_delay=is_away)
                continue
            judged = _directory(survey, view, directory, marked)
            if judged is not None:
                yield _pending(survey, _on_disk(view, directory, *judged), directory)
    if not (survey.zookeeper.knows_topics and survey.zookeeper.knows_plans):
        return
    told = {answer.broker for answer in survey.answers if answer.log_dirs is not None}
    for broker in survey.zookeeper.brokers:
        if broker.id in has and broker.id in told and broker.id not in doubtful:
            yield from _without_directory(survey, broker.id, has[broker.id])


def _directory(
    survey: Survey, view: LogDirView, directory: Directory, marked: frozenset[str]
) -> tuple[Reason, str] | None:
    if directory.kind is DirectoryKind.DELETED:
        return Reason.NOT_RECLAIMED_YET, ""
    if directory.kind is DirectoryKind.STRAY:
        return Reason.STRAY_DIRECTORY, ""
    if not survey.zookeeper.knows_topics:
        return None
    assert directory.topic_partition is not None
    name, partition = directory.topic_partition
    topic = survey.zookeeper.topics.get(name)
    if directory.kind is DirectoryKind.FUTURE and len(name) > NEVER_CUT:
        # The name may be cut: it has only the start of the topic's name.
        known = any(other.startswith(name) for other in survey.zookeeper.topics)
        return None if known else (Reason.DIRECTORY_WITHOUT_TOPIC, "")
    if topic is None:
        return Reason.DIRECTORY_WITHOUT_TOPIC, ""
    if _differ(directory.topic_id, topic.topic_id):
        return Reason.DIRECTORY_OF_OTHER_INCARNATION, _ids("its id is", directory.topic_id, topic.topic_id)
    is_doubtful = not survey.zookeeper.knows_plans or directory.topic_partition in survey.zookeeper.reassigning
    if topic.name in marked or topic.assignments is None or is_doubtful:
        return None
    assignment = topic.assignments.get(partition)
    if assignment is None or view.broker not in assignment.replicas:
        where = "nowhere" if assignment is None else f"on {listed(assignment.replicas)}"
        return Reason.DIRECTORY_NOT_ASSIGNED, f"partition {partition} is {where}"
    return None


def _on_disk(view: LogDirView, directory: Directory, reason: Reason, detail: str) -> Leftover:
    assert directory.topic_partition is not None
    return Leftover(
        Place.DISK,
        reason,
        f"{view.path}/{directory.name}",
        directory.topic_partition.topic,
        view.broker,
        directory.topic_partition.partition,
        directory.size_bytes,
        detail,
    )


def _pending(survey: Survey, found: Leftover, directory: Directory) -> Leftover:
    """Add when the broker removes the bytes, where that is known."""
    if found.reason is not Reason.NOT_RECLAIMED_YET or survey.removals is None or found.broker is None:
        return found
    now_ms = survey.taken_at_ms + survey.took_ms
    if found.broker not in survey.removals and not survey.zookeeper.knows_brokers:
        return replace(found, detail=f"whether broker {found.broker} is registered is not known")
    judged = removal_due(found.broker, survey.removals.get(found.broker), directory.changed_at_ms, now_ms)
    return replace(found, detail=judged.why, within_delay=judged.within_delay)


def _without_directory(survey: Survey, broker: BrokerId, has: set[TopicPartition]) -> Iterator[Leftover]:
    marked = frozenset(survey.zookeeper.marked)
    for topic in survey.zookeeper.topics.values():
        if topic.name in marked or not is_in_service(topic):
            continue
        for number, assignment in (topic.assignments or {}).items():
            partition = TopicPartition(topic.name, number)
            # A reassignment may not have created or removed this replica yet.
            moves = broker in (*assignment.adding, *assignment.removing) or partition in survey.zookeeper.reassigning
            if not moves and broker in assignment.replicas and partition not in has:
                yield Leftover(Place.DISK, Reason.REPLICA_WITHOUT_DIRECTORY, str(partition), topic.name, broker, number)


# --- words --------------------------------------------------------------------------------------------------------


def _differ(one: TopicId | None, other: TopicId | None) -> bool:
    """Return True if both ids are known and differ. Clusters before 2.8 have no ids, and brokers do not always return
    them."""
    return one is not None and other is not None and one != other


def _ids(what: str, found: TopicId | None, wanted: TopicId | None) -> str:
    assert found is not None
    assert wanted is not None
    return f"{what} {topic_id_to_text(found)}, the topic's is {topic_id_to_text(wanted)}"
