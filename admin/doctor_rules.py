"""Finds the ills in what was seen. Pure.

An ill is never concluded from what was not seen; `unseen` lists that instead.

    seen                                                ill
    --------------------------------------------------  ------------------------------------
    /controller says 99; brokers 1, 2 are registered    CONTROLLER_NOT_REGISTERED
    the same, and the list of brokers was not read      none; /brokers/ids is unseen
    orders-0 is on 1, 2; its ISR is 1, 9                STATE_OUTSIDE_ASSIGNMENT, in two reads
    orders-0 is on 1, 2; its ISR is 9                   the same, left to a person: only 9 has every record
    /admin/preferred_replica_election, unchanged        PREFERRED_ELECTION_LEFT
    the same, gone at the second look                   none: a controller has taken it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lethe.admin.doctor_ills import Ill, IllKind
from lethe.admin.doctor_look import DoctorView
from lethe.admin.doctor_unseen import unseen
from lethe.admin.doctor_znodes import REQUESTS_TO_LETHE
from lethe.admin.rescue_ghosts import foreign_partitions
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted, listed
from lethe.protocol.findings import Reason
from lethe.protocol.vocabulary import INTERNAL_TOPICS, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.survey.causes import ObservedCause, partitions_text, since_text
from lethe.survey.debts import by_broker
from lethe.survey.explain import DeletionVerdict, explain_all
from lethe.survey.leftovers import Leftover, leftovers
from lethe.survey.views import Problem, TopicTree, ZooKeeperTree

_STANDING_REASONS = (Reason.MARKER_WITHOUT_TOPIC, Reason.REASSIGNMENT_WITHOUT_TOPIC)
"""A controller removes these within moments."""
_GHOSTS = (IllKind.CACHED_WITHOUT_TOPIC, IllKind.CACHED_OTHER_INCARNATION)
_OTHER_ILLS = frozenset(
    {
        CauseKind.NO_CONTROLLER,
        CauseKind.HALF_DELETED,
        CauseKind.RESUMPTION,
        CauseKind.DISABLED,
        CauseKind.UNREADABLE_ORDERED,
        CauseKind.READABLE_ZNODE,
        CauseKind.CONTROLLER_UNSEEN,
        CauseKind.IN_MOTION,
    }
)
"""Causes of waiting topics that are ills, or unseen places, of their own."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong, worst first, and what could not be seen."""

    ills: tuple[Ill, ...]
    unseen: tuple[Problem, ...]


def diagnose(view: DoctorView) -> Diagnosis:
    """Return the ills and the unseen places."""
    found = [*_of_control(view), *_of_znodes(view), *_of_deletions(view), *_of_partitions(view)]
    found += [*_of_requests(view), *_of_entities(view), *_of_survey(view)]
    moving = frozenset(view.survey.in_motion)
    ills = {ill.key: ill for ill in found if ill.topic not in moving and not _may_return(view, ill)}
    order = list(IllKind)
    ranked = sorted(ills.values(), key=lambda ill: (ill.kind.severity.rank, order.index(ill.kind), ill.what))
    return Diagnosis(tuple(ranked), tuple(unseen(view)))


def _may_return(view: DoctorView, ill: Ill) -> bool:
    """Return True if the topic may be in the trash: what is left of it may be brought back."""
    is_of_none = ill.kind.name.endswith("_WITHOUT_TOPIC")
    return is_of_none and ill.topic is not None and view.survey.zookeeper.may_be_in_trash(ill.topic)


# --- the controller -----------------------------------------------------------------------------------------------


def _of_control(view: DoctorView) -> Iterator[Ill]:
    tree = view.survey.zookeeper
    holder, registered = tree.controller, {broker.id for broker in tree.brokers}
    stood = view.stood(paths.CONTROLLER)
    if holder is None and tree.could_read(paths.CONTROLLER) and stood:
        yield Ill(IllKind.NO_CONTROLLER, paths.CONTROLLER)
    is_kafka = holder is not None and holder.admin is None
    if holder is not None and is_kafka and holder.broker_id not in registered and tree.knows_brokers and stood:
        detail = f"{paths.CONTROLLER} names broker {holder.broker_id}"
        yield Ill(IllKind.CONTROLLER_NOT_REGISTERED, paths.CONTROLLER, broker=holder.broker_id, detail=detail)
    if view.election_rate.are_too_many:
        yield Ill(IllKind.CONTROLLER_UNSTABLE, paths.CONTROLLER_EPOCH, detail=str(view.election_rate))
    refusing = [each.broker for each in view.epochs if each.refuses]
    if 2 * len(refusing) > len(registered):
        named = f"brokers {listed(refusing)} refuse epoch {tree.controller_epoch}"
        yield Ill(IllKind.EPOCH_TOO_LOW, paths.CONTROLLER_EPOCH, detail=named)
    else:
        for broker in refusing:
            yield Ill(
                IllKind.BROKER_REFUSES_EPOCH,
                f"broker {broker}",
                broker=broker,
                detail=f"epoch {tree.controller_epoch}",
            )


def _of_znodes(view: DoctorView) -> Iterator[Ill]:
    tree = view.survey.zookeeper
    for problem in (*tree.problems, *view.others.problems):
        if problem.where in view.malformed:
            yield Ill(IllKind.ZNODE_UNREADABLE, problem.where, _topic_of(problem.where), detail=problem.what)


def _topic_of(path: str) -> str | None:
    partition = paths.partition_of(path)
    return partition.topic if partition is not None else paths.topic_of(path) or paths.child_of(paths.TRASH, path)


# --- deletions ----------------------------------------------------------------------------------------------------


def _of_deletions(view: DoctorView) -> Iterator[Ill]:
    tree, holds, now_ms = view.survey.zookeeper, view.evidence.holds, view.survey.taken_at_ms
    if holds.paused is not None:
        since = "" if holds.paused.since_ms is None else f"since {since_text(holds.paused.since_ms, now_ms)}"
        obeyed = "no controller of Lethe's is seen, and Kafka's do not obey it" if _lethe_is_away(tree) else ""
        said = [each for each in (since, holds.paused.reason, _marked(tree), obeyed) if each]
        yield Ill(IllKind.DELETIONS_PAUSED, paths.DELETIONS_PAUSED, detail=", ".join(said))
    setting = holds.delete_topic_enable
    place = setting.path if setting is not None and not setting.value else None
    if place is None and holds.disabled_on:
        place = f"the configuration of brokers {listed(holds.disabled_on)}"
    if place is not None and tree.marked:
        yield Ill(IllKind.DELETION_DISABLED, place, detail=_marked(tree))
    if _lethe_is_away(tree):
        for name, order in view.others.orders.items():
            yield Ill(IllKind.ORDER_FOR_LETHE, paths.delete_topic(name), name, detail=order)
    for owing in by_broker(tree.debts) if tree.knows_brokers else ():
        broker, where = BrokerId(owing.broker), paths.debts_of(owing.broker)
        if broker not in {each.id for each in tree.brokers}:
            yield Ill(IllKind.DEBT_OF_ABSENT_BROKER, where, broker=broker, detail=owing.text)
        elif _lethe_is_away(tree):
            yield Ill(IllKind.DEBT_UNPAID, where, broker=broker, detail=owing.text)
    yield from _waiting(view)


def _lethe_is_away(tree: ZooKeeperTree) -> bool:
    """Return True if none of Lethe's controllers is active; False also where that was not seen."""
    return tree.could_read(paths.CONTROLLER) and (tree.controller is None or tree.controller.admin is None)


def _marked(tree: ZooKeeperTree) -> str:
    return f"{counted(len(tree.marked), 'topic is', 'topics are')} marked"


def _waiting(view: DoctorView) -> Iterator[Ill]:
    """Yield one ill for each cause, which many topics may have."""
    groups: dict[object, list[tuple[str, ObservedCause]]] = {}
    for each in explain_all(view.evidence):
        if each.verdict is DeletionVerdict.WAITING:
            for cause in each.causes:
                if cause.kind not in _OTHER_ILLS:
                    groups.setdefault(cause.group, []).append((each.topic, cause))
    for group in groups.values():
        topic, cause = group[0]
        more = f"and {counted(len(group) - 1, 'more topic')}" if len(group) > 1 else ""
        yield Ill(IllKind.DELETION_WAITS, paths.delete_topic(topic), topic, cause.broker, detail=more, cause=cause)


# --- partitions ---------------------------------------------------------------------------------------------------


def suspects(tree: ZooKeeperTree) -> frozenset[str]:
    """Return the topics whose partitions have an ill, unless they have just changed."""
    return frozenset(ill.topic for ill in in_tree(tree, tree) if ill.topic is not None)


def _of_partitions(view: DoctorView) -> Iterator[Ill]:
    again = {ill.key for ill in in_tree(view.again, view.survey.zookeeper)}
    yield from (ill for ill in in_tree(view.survey.zookeeper, view.survey.zookeeper) if ill.key in again)


def in_tree(tree: ZooKeeperTree, brokers_of: ZooKeeperTree) -> Iterator[Ill]:
    registered = {int(broker.id) for broker in brokers_of.brokers} if brokers_of.knows_brokers else None
    for topic in tree.topics.values():
        if topic.name in brokers_of.marked or not brokers_of.knows_plans:
            continue
        yield from _foreign(topic)
        if registered is not None:
            yield from _stuck(topic, registered)


def _foreign(topic: TopicTree) -> Iterator[Ill]:
    found = {number: state for number, assignment, state in _states(topic) if _is_foreign(state, assignment)}
    for number, state in found.items():
        replicas = (topic.assignments or {})[number].replicas
        yield Ill(
            IllKind.STATE_OUTSIDE_ASSIGNMENT,
            paths.partition_state(topic.name, number),
            topic.name,
            partitions=(number,),
            detail=f"leader {state.leader}, ISR {listed(state.isr)}, replicas {listed(replicas)}",
            is_repairable=any(member in replicas for member in state.isr),
        )


def _states(topic: TopicTree) -> Iterator[tuple[int, ReplicaAssignment, LeaderAndIsr]]:
    for number, assignment in (topic.assignments or {}).items():
        if (state := topic.states.get(number)) is not None:
            yield number, assignment, state


def _is_foreign(state: LeaderAndIsr, assignment: ReplicaAssignment) -> bool:
    """Return True if the state names a broker that has no replica. A leader below 0 is none."""
    members = [*state.isr, state.leader] if state.leader >= 0 else [*state.isr]
    return any(member not in assignment.replicas for member in members)


def _stuck(topic: TopicTree, registered: set[int]) -> Iterator[Ill]:
    states: Mapping[int, LeaderAndIsr | None] = topic.states
    for number, assignment in (topic.assignments or {}).items():
        absent = [broker for broker in assignment.adding if broker not in registered]
        if not absent:
            continue
        state = states.get(number)
        in_sync = () if state is None else state.isr
        yield Ill(
            IllKind.REASSIGNMENT_STUCK,
            paths.topic(topic.name),
            topic.name,
            partitions=(number,),
            detail=f"partition {number} adds broker {listed(absent)}, and was on {listed(assignment.origin)}",
            is_repairable=any(broker in registered and broker in in_sync for broker in assignment.origin),
        )


# --- requests -----------------------------------------------------------------------------------------------------


def _of_requests(view: DoctorView) -> Iterator[Ill]:
    if view.stood(paths.REASSIGN_PARTITIONS):
        yield from _requested(view.survey.zookeeper)
    waits = dict(sorted(each for each in view.standing if each.mzxid >= 0))
    if (mzxid := waits.get(paths.PREFERRED_REPLICA_ELECTION)) is not None:
        yield Ill(IllKind.PREFERRED_ELECTION_LEFT, paths.PREFERRED_REPLICA_ELECTION, mzxid=mzxid)
    for parent in (paths.ISR_CHANGE_NOTIFICATION, paths.LOG_DIR_EVENT_NOTIFICATION):
        names = tuple(name for path in waits if (name := paths.child_of(parent, path)) is not None)
        if names:
            yield Ill(IllKind.NOTIFICATIONS_UNREAD, parent, detail=listed(names, 3), names=names)
    for path, mzxid in waits.items() if _lethe_is_away(view.survey.zookeeper) else ():
        if paths.parent_of(path) in REQUESTS_TO_LETHE:
            yield Ill(IllKind.REQUEST_FOR_LETHE, path, mzxid=mzxid)
    for path in view.others.bad_config_changes:
        yield Ill(IllKind.CONFIG_CHANGE_UNREADABLE, path)


def _requested(tree: ZooKeeperTree) -> Iterator[Ill]:
    """Yield requests for brokers that are not registered, which no controller has begun."""
    registered = {int(broker.id) for broker in tree.brokers}
    found: dict[str, list[TopicPartition]] = {}
    for partition, target in tree.reassigning.items():
        topic = tree.topics.get(partition.topic)
        assignment = None if topic is None else (topic.assignments or {}).get(partition.partition)
        if assignment is None or assignment.is_being_reassigned or not tree.knows_brokers:
            continue
        if any(broker not in registered for broker in target):
            found.setdefault(partition.topic, []).append(partition)
    for name, those in found.items():
        numbers = tuple(each.partition for each in those)
        absent = sorted({b for each in those for b in tree.reassigning[each] if b not in registered})
        yield Ill(
            IllKind.REASSIGNMENT_TO_ABSENT_BROKER,
            paths.REASSIGN_PARTITIONS,
            name,
            partitions=numbers,
            detail=f"{partitions_text(numbers)} of {name} to broker {listed(absent)}",
            absent=tuple(absent),
        )


# --- what belongs to something that does not exist ----------------------------------------------------------------


def _of_entities(view: DoctorView) -> Iterator[Ill]:
    tree, others = view.survey.zookeeper, view.others
    if tree.knows_topics:
        # A topic that cannot be read exists all the same; it is not in `topics` only if it was deleted meanwhile.
        for name in others.acl_topics:
            if name not in tree.topics:
                yield Ill(IllKind.ACL_WITHOUT_TOPIC, paths.acl_topic(name), name)
    used = _used_ids(view)
    for number in () if used is None else sorted(set(others.configured_brokers) - used):
        yield Ill(IllKind.BROKER_CONFIG_WITHOUT_BROKER, paths.config_broker(number), broker=BrokerId(number))
    if tree.knows_plans:
        yield from _throttles(view)


def _used_ids(view: DoctorView) -> frozenset[int] | None:
    """Return the ids of all brokers and controllers that anything names; None where that was not seen whole."""
    tree, controllers = view.survey.zookeeper, view.others.controllers
    # Which brokers topics in the trash were on is not read.
    is_trash_empty = tree.knows_trash and not (tree.trashed or tree.unreadable_trash)
    knows_absent = is_trash_empty and not any(problem.where.startswith(paths.debts()) for problem in tree.problems)
    is_whole = tree.knows_topics and tree.knows_brokers and tree.could_read(paths.CONTROLLER) and knows_absent
    if not is_whole or controllers is None or any(topic.assignments is None for topic in tree.topics.values()):
        return None
    replicas = {
        broker
        for topic in tree.topics.values()
        for assignment in (topic.assignments or {}).values()
        for broker in assignment.replicas
    }
    holder = () if tree.controller is None else (tree.controller.broker_id,)
    named = (*holder, *(broker.id for broker in tree.brokers), *(each.broker for each in tree.debts))
    return controllers | replicas | {int(each) for each in named}


def _throttles(view: DoctorView) -> Iterator[Ill]:
    tree = view.survey.zookeeper
    asked = {partition.topic for partition in tree.reassigning}
    for name, keys in view.others.throttled.items():
        topic = tree.topics.get(name)
        if topic is None or topic.assignments is None or name in asked:
            continue
        if not any(assignment.is_being_reassigned for assignment in topic.assignments.values()):
            yield Ill(
                IllKind.THROTTLE_WITHOUT_REASSIGNMENT, paths.config_topic(name), name, detail=listed(keys), names=keys
            )


# --- what the survey found ----------------------------------------------------------------------------------------


def _of_survey(view: DoctorView) -> Iterator[Ill]:
    for found in leftovers(view.survey):
        kind = IllKind.__members__.get(found.reason.name)
        if kind is None or found.within_delay or not _stands(view, found):
            continue
        partitions = () if found.partition is None else (found.partition,)
        yield Ill(
            kind,
            found.what,
            found.topic,
            found.broker,
            partitions,
            found.detail or _size(found),
            is_repairable=kind not in _GHOSTS or _may_be_dropped(found.topic),
        )
    for ghost in foreign_partitions(view.survey):
        yield Ill(
            IllKind.CACHED_OTHER_INCARNATION,
            ghost.topic,
            ghost.topic,
            ghost.broker,
            detail=ghost.why,
            is_repairable=_may_be_dropped(ghost.topic),
        )


def _may_be_dropped(ghost: str) -> bool:
    """Return False for ghosts that controllers leave alone: a broker that misses an internal topic creates it."""
    return ghost not in INTERNAL_TOPICS


def _stands(view: DoctorView, found: Leftover) -> bool:
    return found.reason not in _STANDING_REASONS or view.stood(found.what)


def _size(found: Leftover) -> str:
    return counted(found.size_bytes, "byte") if found.size_bytes else ""
