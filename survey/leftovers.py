"""What is left over, in which place, and why it should not be there. Pure.

Theory of operation. ZooKeeper is the truth about which topics there are; caches and disks are held against it. Each
finding has a place, a reason and, by its reason, a standing: `protocol.findings` has the words.

Doubt is never turned into a finding. What could not be seen is among the survey's problems, and each conclusion asks
whether what it rests on was seen:

* that something belongs to no topic: the list of topics was read;
* that a living topic's tree, replica or directory is not as it should be: the markers and the reassignments were read,
  and the topic's own znode was understood;
* that no broker knows a topic: it is in service, every registered broker told its cache, and who is registered is
  known;
* that a directory is not there: the topic is in service, its broker is registered and told which log directories it
  has, and all were seen whole.

Of topics that came, went or were changed while the survey was taken nothing is said; of a topic that is marked only
that it is marked; of a partition that moves, not where it lies. A directory whose owner cannot be told (no topic id on
either side) passes if a topic of that name has a replica on that broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lethe.protocol.findings import Place, Reason, Standing
from lethe.protocol.kafka.directory_names import NEVER_CUT, DirectoryKind
from lethe.protocol.vocabulary import BrokerId, TopicId, TopicPartition, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.survey.removal import due
from lethe.survey.views import BrokerAnswers, Directory, LogDirView, Survey, TopicTree


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
    """True for bytes that their broker removes by itself, and has had no time to."""

    @property
    def standing(self) -> Standing:
        return self.reason.standing

    @property
    def why(self) -> str:
        """The reason, with what is particular about this finding."""
        return self.reason.value + (f" ({self.detail})" if self.detail else "")


def leftovers(survey: Survey) -> tuple[Leftover, ...]:
    """All findings: ZooKeeper's, then those of the caches and of the disks, by broker."""
    moving = frozenset(survey.in_motion)
    found = (*_in_zookeeper(survey), *_in_caches(survey), *_on_disks(survey))
    return tuple(leftover for leftover in found if leftover.topic not in moving)


# --- ZooKeeper ----------------------------------------------------------------------------------------------------


def _in_zookeeper(survey: Survey) -> Iterator[Leftover]:
    tree = survey.zookeeper
    if not tree.knows_topics:
        return
    for name in tree.marked:
        reason = Reason.MARKED_TOPIC if name in tree.topics else Reason.MARKER_WITHOUT_TOPIC
        yield Leftover(Place.ZOOKEEPER, reason, paths.delete_topic(name), name)
    for name in tree.configured:
        if name not in tree.topics:
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
        found = damage(topic, is_marked=is_marked)
        if found is not None and (is_marked or tree.knows_plans):
            reason = Reason.HALF_DELETED_TOPIC if is_marked else Reason.INCOMPLETE_TOPIC
            yield Leftover(Place.ZOOKEEPER, reason, paths.topic(topic.name), topic.name, detail=found)


def damage(topic: TopicTree, *, is_marked: bool) -> str | None:
    """What of the topic's tree is missing; None where nothing is, or where that cannot be told. A topic that no
    controller has taken up yet has no `partitions` at all, which is no damage; a topic's znode that cannot be read or
    understood is among the survey's problems."""
    if topic.partition_znodes is None or topic.assignments is None:
        return None
    bare = [p for p in topic.partition_znodes if p not in topic.states]
    if bare:
        return f"partitions {_numbers(bare)} have no state"
    foreign = [p for p in topic.partition_znodes if p not in topic.assignments]
    if foreign:
        return f"partitions {_numbers(foreign)} are not in its assignment"
    gone = [p for p in topic.assignments if p not in topic.partition_znodes]
    if gone and (is_marked or not topic.partition_znodes):
        return f"partitions {_numbers(gone)} are gone"
    return None


def is_in_service(topic: TopicTree) -> bool:
    """Every partition has a state that can be understood. Before that a controller has not brought the topic up: it
    tells brokers nothing of it, or of some partitions only."""
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
    for view in survey.log_dirs:
        mine = has.setdefault(view.broker, set())
        for directory in view.directories:
            if directory.topic_partition is None:
                continue
            if directory.kind is DirectoryKind.REPLICA:
                mine.add(directory.topic_partition)
            judged = _directory(survey, view, directory)
            if judged is not None:
                yield _pending(survey, _on_disk(view, directory, *judged), directory)
    if not (survey.zookeeper.knows_topics and survey.zookeeper.knows_plans):
        return
    told = {answer.broker for answer in survey.answers if answer.log_dirs is not None}
    for broker in survey.zookeeper.brokers:
        if broker.id in has and broker.id in told and broker.id not in doubtful:
            yield from _without_directory(survey, broker.id, has[broker.id])


def _directory(survey: Survey, view: LogDirView, directory: Directory) -> tuple[Reason, str] | None:
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
        # Its name may have been cut, so that only the start of the topic's name is known.
        known = any(other.startswith(name) for other in survey.zookeeper.topics)
        return None if known else (Reason.DIRECTORY_WITHOUT_TOPIC, "")
    if topic is None:
        return Reason.DIRECTORY_WITHOUT_TOPIC, ""
    if _differ(directory.topic_id, topic.topic_id):
        return Reason.DIRECTORY_OF_OTHER_INCARNATION, _ids("its id is", directory.topic_id, topic.topic_id)
    is_doubtful = not survey.zookeeper.knows_plans or directory.topic_partition in survey.zookeeper.reassigning
    if topic.name in survey.zookeeper.marked or topic.assignments is None or is_doubtful:
        return None
    assignment = topic.assignments.get(partition)
    if assignment is None or view.broker not in assignment.replicas:
        where = "nowhere" if assignment is None else f"on {_numbers(assignment.replicas)}"
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
    """With what is known of when its bytes go."""
    if found.reason is not Reason.NOT_RECLAIMED_YET or survey.removals is None or found.broker is None:
        return found
    now_ms = survey.taken_at_ms + survey.took_ms
    judged = due(found.broker, survey.removals.get(found.broker), directory.changed_at_ms, now_ms)
    return replace(found, detail=judged.why, within_delay=judged.within_delay)


def _without_directory(survey: Survey, broker: BrokerId, has: set[TopicPartition]) -> Iterator[Leftover]:
    marked = frozenset(survey.zookeeper.marked)
    for topic in survey.zookeeper.topics.values():
        if topic.name in marked or not is_in_service(topic):
            continue
        for number, assignment in (topic.assignments or {}).items():
            partition = TopicPartition(topic.name, number)
            # A reassignment adds and removes replicas in its own time.
            moves = broker in (*assignment.adding, *assignment.removing) or partition in survey.zookeeper.reassigning
            if not moves and broker in assignment.replicas and partition not in has:
                yield Leftover(Place.DISK, Reason.REPLICA_WITHOUT_DIRECTORY, str(partition), topic.name, broker, number)


# --- words --------------------------------------------------------------------------------------------------------


def _differ(one: TopicId | None, other: TopicId | None) -> bool:
    """Only where both are known: a cluster before 2.8 has no ids, and brokers do not always tell them."""
    return one is not None and other is not None and one != other


def _ids(what: str, found: TopicId | None, wanted: TopicId | None) -> str:
    assert found is not None
    assert wanted is not None
    return f"{what} {topic_id_to_text(found)}, the topic's is {topic_id_to_text(wanted)}"


def _numbers(numbers: tuple[int, ...] | list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown} and {len(numbers) - 10} more" if len(numbers) > 10 else shown
