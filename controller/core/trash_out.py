"""Brings topics back from the trash: see `trash`.

Brokers are asked first which directories they still have. Only a replica that was in sync, whose broker is live and
has the directory, may lead or be in sync again: a broker that has returned with an empty disk would create an empty
log, and the others would truncate theirs to it.

    in-sync replicas of a partition          result
    ---------------------------------------  ---------------------------------------------------------------
    some are on live brokers that have them  these are in sync; the former leader leads, or else the first
    all brokers are away                     no leader; the same ISR, as for any partition without brokers
    live brokers do not have them, or have   the request is refused
    not answered

Brokers that have stayed up ignore a LeaderAndIsr, without an error, whose partition epoch is below the last one they
have seen (Kafka 3.2 and later). The partition epoch is the data version of the state's znode, and a new znode begins at
0. So the write that creates a state also writes it as often as the earlier one had been written.

An answer holds for the registration under which the broker was asked: it may have lost a disk since. So registrations
are read once more when all have answered, and the write checks that they exist.

    broker 1 answers at 10:00:00, broker 2 at 10:00:04; broker 1 restarts at 10:00:02  ->  broker 2 alone is in sync
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lethe.controller.core import debts_policy, trash, trash_settings
from lethe.controller.core.context import Context
from lethe.controller.core.events import LogDirsDescribed
from lethe.controller.core.mutation import forget_marker
from lethe.controller.core.partition_sets import bits_of
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import AnnounceTopics, ReadTopics, ServeAnnounced
from lethe.controller.core.tasks_trash import (
    AnnounceRestored,
    ReadTopicRequests,
    RequestAnswer,
    RestoreOffsets,
    ReturnChecked,
    TopicRequestsAnswered,
    TopicsBroughtBack,
)
from lethe.controller.core.trash_memory import DirectoryLook, TrashedTopic
from lethe.protocol.counting import counted
from lethe.protocol.journal_trash import BACK
from lethe.protocol.kafka.queries import DescribableTopic, DescribeLogDirsRequest
from lethe.protocol.vocabulary import LEADER_NONE, BrokerId, LeaderAndIsr, ReplicaAssignment
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Exists,
    Operation,
    Present,
    ReadOutcome,
    SetData,
    ZkError,
    error_words,
)
from lethe.protocol.zookeeper.packing import REQUEST_LIMIT_BYTES, GroupFailed, GroupOutcome, operation_bytes
from lethe.protocol.zookeeper.znodes import RequestedAction, SavedPartition, TopicRequest, TrashEntry, TrashPhase

UNDELETE: Final = TopicRequest(RequestedAction.UNDELETE)
RETURN_BYTES: Final = REQUEST_LIMIT_BYTES - 1_000
"""Limit of the write that brings a topic back; the rest is for the check of the controller epoch."""
LOOK_MS: Final = 10_000
"""How long brokers may take to say which directories they have."""


# --- looking ------------------------------------------------------------------------------------------------------


def look(step: StepContext, requests: Mapping[str, int]) -> None:
    """Ask the live brokers of these topics which directories they have. `requests`: the requests' versions."""
    cluster = step.context.cluster
    names = {name: version for name, version in requests.items() if not cluster.trash.topics[name].is_asked}
    if not names:
        return
    rows: dict[BrokerId, dict[str, list[int]]] = {}
    for name in names:
        cluster.trash.topics[name].is_asked = True
        for number, saved in cluster.trash.topics[name].entry.partitions.items():
            for broker in saved.replicas:
                if cluster.is_live(broker):
                    rows.setdefault(BrokerId(broker), {}).setdefault(name, []).append(number)
    waiting = {}
    for broker, topics in sorted(rows.items()):
        asked = tuple(DescribableTopic(name, tuple(numbers)) for name, numbers in topics.items())
        waiting[broker] = step.send(broker, DescribeLogDirsRequest(asked))
    looking = DirectoryLook(names, waiting, step.now_ms + LOOK_MS)
    cluster.trash.looks.append(looking)
    _end_if_complete(step, looking)
    trash.arm(step)


def described(step: StepContext, event: LogDirsDescribed) -> None:
    """Store which directories the broker has; go on when every broker has answered."""
    memory, looks = step.context.cluster.trash, step.context.cluster.trash.looks
    looking = next((each for each in looks if each.waiting.get(event.broker) == event.request_id), None)
    if looking is None:
        return
    del looking.waiting[event.broker]
    if event.response.error == 0:
        for directory in event.response.log_dirs:
            for topic in directory.topics if directory.error == 0 else ():
                known = memory.topics[topic.topic].entry.partitions if topic.topic in memory.topics else ()
                rows = (each.partition for each in topic.partitions if not each.is_future)
                here = bits_of(number for number in rows if number in known)
                # The answer names no ids, and what the broker owes is not the topic's.
                here &= ~debts_policy.earlier(step.context, event.broker, topic.topic)
                by_broker = looking.found.setdefault(topic.topic, {})
                by_broker[event.broker] = by_broker.get(event.broker, 0) | here
                looking.epochs[event.broker] = event.broker_epoch
    _end_if_complete(step, looking)


def end_looks(step: StepContext) -> None:
    """Go on without the brokers that have not answered in time."""
    for looking in list(step.context.cluster.trash.looks):
        if looking.ends_at_ms <= step.now_ms:
            looking.waiting.clear()
        _end_if_complete(step, looking)


def _end_if_complete(step: StepContext, looking: DirectoryLook) -> None:
    context, memory = step.context, step.context.cluster.trash
    if any(request_id in context.cluster.outstanding for request_id in looking.waiting.values()):
        return
    memory.looks.remove(looking)
    # They are asked until the outcome is known: a grace period that ends meanwhile deletes nothing.
    names = (name for name in looking.requests if memory.in_phase(name, TrashPhase.TRASHED) is not None)
    requests = {name: looking.requests[name] for name in names}
    registrations = (Exists(paths.broker_id(broker)) for broker in looking.epochs)
    if requests:
        settings = trash_settings.compared_reads(requests)
        step.read((*registrations, *settings), ReturnChecked(looking.epochs, looking.found, requests))


def on_return_checked(step: StepContext, task: ReturnChecked, outcomes: Sequence[ReadOutcome]) -> None:
    """Bring the topics back by the answers of brokers that are registered as they were when they were asked, if
    their retention is still off."""
    registrations, settings = outcomes[: len(task.brokers)], outcomes[len(task.brokers) :]
    same = frozenset(
        broker
        for (broker, epoch), outcome in zip(task.brokers.items(), registrations, strict=True)
        if isinstance(outcome, Present) and outcome.stat.czxid == epoch
    )
    found = {
        name: {broker: bits for broker, bits in by_broker.items() if broker in same}
        for name, by_broker in task.found.items()
    }
    compared = trash_settings.compare(step, tuple(task.requests), settings)
    _bring_back(step, {name: task.requests[name] for name in compared}, found, compared)


# --- znodes -------------------------------------------------------------------------------------------------------


def _bring_back(
    step: StepContext,
    requests: Mapping[str, int],
    found: Mapping[str, Mapping[BrokerId, int]],
    settings: Mapping[str, Check | str],
) -> None:
    """Create the topics' znodes again, in one multi for each with its entry and request; refuse what loses records.

    `settings`: the check that retention is still off, or why that is unknown."""
    context = step.context
    entries: dict[str, TrashEntry] = {}
    groups: list[tuple[Operation, ...]] = []
    refusals: dict[str, str] = {}
    checked: dict[str, tuple[int, ...]] = {}
    for name, version in requests.items():
        trashed, check = context.cluster.trash.topics[name], settings[name]
        entry = trashed.entry
        states = _states(context, entry, found.get(name, {}))
        if isinstance(states, str) or isinstance(check, str):
            refusals[name] = states if isinstance(states, str) else str(check)
            trashed.is_asked = False
            continue
        restoring = trash_settings.to_restore(trashed).entering(TrashPhase.RESTORING, step.now_ms)
        serving = in_service(states.values())
        creates = (*topic_creates(name, entry, states), *version_writes(name, states))
        rest = (trash.entry_write(name, restoring), Delete(paths.request(name), version))
        group = (*registration_checks(serving), check, *creates, *rest)
        if (size := sum(map(operation_bytes, group))) > RETURN_BYTES:
            # Settings that were changed in the trash count, too.
            refusals[name] = f"its return takes {counted(size, 'byte')} at once, and that is too large for ZooKeeper"
            trashed.is_asked = False
            continue
        entries[name], checked[name] = restoring, serving
        groups.append(group)
    if groups:
        step.write(groups, TopicsBroughtBack(entries, requests, checked))
    if refusals:
        refuse(step, {name: (requests[name], UNDELETE, why) for name, why in refusals.items()})
        trash.arm(step)


def in_service(states: Iterable[LeaderAndIsr]) -> tuple[int, ...]:
    """Return the brokers in sync of partitions that have a leader, sorted."""
    return tuple(sorted({broker for state in states if state.leader != LEADER_NONE for broker in state.isr}))


def registration_checks(brokers: Iterable[int]) -> tuple[Operation, ...]:
    """Return operations that fail where one of these brokers is not registered."""
    return tuple(Check(paths.broker_id(broker), ANY_VERSION) for broker in brokers)


def refuse(step: StepContext, refusals: Mapping[str, tuple[int, TopicRequest, str]]) -> None:
    """Write into these requests, of these versions, why they are refused."""
    groups: list[tuple[Operation, ...]] = []
    answers = []
    for name, (version, request, why) in refusals.items():
        refused = request.refuse(why)
        groups.append((SetData(paths.request(name), znodes.encode_topic_request(refused), version),))
        answers.append(RequestAnswer(name, refused))
    step.write(groups, TopicRequestsAnswered(tuple(answers)))


def topic_creates(name: str, entry: TrashEntry, states: Mapping[int, LeaderAndIsr]) -> tuple[Operation, ...]:
    """Return the creates of the topic's znodes: the same id and assignment, with these states."""
    assignments = {number: ReplicaAssignment(saved.replicas) for number, saved in entry.partitions.items()}
    topic = znodes.encode_topic(znodes.TopicZnode(assignments, entry.topic_id))
    partitions = (
        Create(path, data)
        for number, state in states.items()
        for path, data in (
            (paths.topic_partition(name, number), None),
            (paths.partition_state(name, number), znodes.encode_state(state)),
        )
    )
    return (Create(paths.topic(name), topic), Create(paths.topic_partitions(name), None), *partitions)


def version_writes(name: str, states: Mapping[int, LeaderAndIsr]) -> tuple[Operation, ...]:
    """Return the writes that raise the created states' data versions to these partition epochs."""
    writes: list[Operation] = []
    for number, state in states.items():
        path, last = paths.partition_state(name, number), state.partition_epoch - 1
        if last >= 0:
            writes += [SetData(path, b"", ANY_VERSION)] * last
            writes.append(SetData(path, znodes.encode_state(state), last))
    return tuple(writes)


def version_bytes(name: str, states: Mapping[int, LeaderAndIsr]) -> int:
    """Return the size of `version_writes`, which may be a million, without making them."""
    size = 0
    for number, state in states.items():
        if state.partition_epoch > 0:
            one = operation_bytes(SetData(paths.partition_state(name, number), b"", ANY_VERSION))
            size += state.partition_epoch * one + len(znodes.encode_state(state))
    return size


def _states(context: Context, entry: TrashEntry, found: Mapping[BrokerId, int]) -> dict[int, LeaderAndIsr] | str:
    """Return the partitions' new states, or why the topic cannot be brought back without losing records."""
    states: dict[int, LeaderAndIsr] = {}
    for number, saved in sorted(entry.partitions.items()):
        live = [broker for broker in saved.isr if context.cluster.is_live(broker)]
        has = tuple(broker for broker in live if found.get(BrokerId(broker), 0) >> number & 1)
        if live and not has:
            which = ", ".join(map(str, live))
            return (
                f"partition {number} is not on the disks of broker {which}, or was not seen there; start the other "
                f"brokers of its in-sync replicas ({', '.join(map(str, saved.isr))}), or ask again"
            )
        states[number] = next_state(context, saved, has)
    return states


def next_state(context: Context, saved: SavedPartition, has: tuple[int, ...]) -> LeaderAndIsr:
    """Return the partition's next state, with these replicas in sync; without any it has no leader."""
    leader = saved.leader if saved.leader in has else next((b for b in saved.replicas if b in has), LEADER_NONE)
    epoch = context.cluster.epoch
    isr = has or saved.isr
    return LeaderAndIsr(leader, saved.leader_epoch + 1, isr, epoch, saved.version, saved.recovery_state)


def on_topics_brought_back(step: StepContext, task: TopicsBroughtBack, outcomes: Sequence[GroupOutcome]) -> None:
    """Read the topics' znodes, announce them, and serve them; then restore offsets and settings."""
    memory = step.context.cluster.trash
    back: list[str] = []
    refusals: dict[str, tuple[int, TopicRequest, str]] = {}
    for (name, entry), outcome in zip(task.entries.items(), outcomes, strict=True):
        if isinstance(outcome, GroupFailed) and outcome.error is ZkError.NODE_EXISTS:
            refusals[name] = (task.requests[name], UNDELETE, trash.NAME_IS_TAKEN)
            memory.topics[name].is_asked = False
        elif isinstance(outcome, GroupFailed):
            # A broker has left, the request was replaced, or ZooKeeper refuses the write: it may refuse the next, too.
            changed = _changed(outcome, task.checked[name])
            trash.put_off(step, name, trash.RESTORING, changed or error_words(outcome.error))
            if changed is not None or outcome.error is ZkError.BAD_VERSION:
                step.do(ReadTopicRequests())
            else:
                memory.topics[name].is_requested = True
        else:
            memory.topics[name] = TrashedTopic(entry)
            back.append(name)
    trash.arm(step)
    if refusals:
        refuse(step, refusals)
    if back:
        # What is stored is of the markers of others who had the name: one that is made now is read.
        for name in back:
            forget_marker(step.context.cluster, name)
        step.do(ReadTopics(tuple(back), loading=True), AnnounceRestored(tuple(back)))


def _changed(failed: GroupFailed, checked: Sequence[int]) -> str | None:
    """Return which of the checks at the beginning of the write has failed; None: another operation has."""
    at = failed.index_in_group
    if 0 <= at < len(checked):
        return f"broker {checked[at]}, which has it, is not registered any more"
    is_other = at == len(checked) and failed.error in (ZkError.BAD_VERSION, ZkError.NO_NODE)
    return "its settings have changed meanwhile" if is_other else None


# --- service ------------------------------------------------------------------------------------------------------


def announce(step: StepContext, task: AnnounceRestored) -> None:
    """Announce those of these topics that are still there. Memory never had the others: no list tells of their end."""
    cluster = step.context.cluster
    known = tuple(name for name in task.topics if name in cluster.topics)
    trash.vanished(step, (n for n in task.topics if n not in cluster.topics and n not in cluster.quarantined_topics))
    for name in known:
        if name in cluster.trash.topics:
            trash.record(step, name, BACK, cluster.trash.topics[name].entry)
    if known:
        step.do(AnnounceTopics(known), ServeAnnounced(known), RestoreOffsets(known))
