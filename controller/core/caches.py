"""Compares the brokers' metadata caches with ZooKeeper, and removes ghosts from them.

A *ghost* is a topic, or partitions of an earlier topic of the same name, in a broker's metadata cache and not in
ZooKeeper. It remains when the broker never received a tombstone: a former controller lost its connection and then its
memory, or the broker's session had expired during the deletion. Brokers merge UpdateMetadata partition by partition, so
only leader -2 for exactly these partitions removes it.

    when        a controller has become active, and when a broker registers: each cache once, one broker at a time
    look        Metadata for all topics. Topics and partitions that memory does not have are suspects
    confirm     Metadata for the suspects alone. A suspect that is gone was being removed already
    check       the suspects' znodes, then /controller_epoch: does the topic exist by now, are we still elected?
    cure        UpdateMetadata with leader -2 for the partitions shown, to this broker alone; no StopReplica
    prove       Metadata for these topics again: a ghost that is gone is cured, the others are retried later

Reads have a separate connection. A read begins when the broker has answered every earlier request, so its result
includes the takeover's UpdateMetadata, or the tombstone. A request sent during the read can only cause a false suspect,
which `confirm` or `check` clears.

Never tombstoned: a topic whose znode exists or could not be read, and Kafka's internal topics, which a broker would
create again. A topic created after the check is announced on the same channel, behind the tombstone. A queued topic has
its own tombstone for its partitions; only other partitions under its name are a ghost.

Earlier incarnation of a living topic: the takeover's UpdateMetadata replaces its id and partitions, in Kafka 2.5 and
3.9. Partitions that the living topic does not have remain, and are tombstoned one by one. If the cache still has the
other id, the topic is announced to that broker again. While the living topic has no leader, it is announced to no
broker, and every partition that the cache shows is tombstoned.

An answer is incomplete if the broker says that it hides topics from this controller's principal, or if it lacks topics
in service. The cache counts as not read, and is read again at growing intervals. The ghosts that it shows are cured all
the same.

Cost: the answer for 100,000 partitions has 4 to 5 MB and takes about a second to decode, on a thread. After each, the
controller pauses `cache_look_rest` times as long as the read took.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from lethe.controller.core import missed
from lethe.controller.core.cache_memory import (
    CacheComparison,
    DueCacheRead,
    Ghost,
    GhostTombstones,
    OutstandingCacheRead,
)
from lethe.controller.core.context import Context, Role
from lethe.controller.core.effects import CompareCaches, ReadCache
from lethe.controller.core.events import CacheRead, UpdateMetadataResponseReceived
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import StandForElection
from lethe.controller.core.tasks_requests import GhostsChecked
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import EventRecordType, JsonValue, partition_ranges
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.control import UpdateMetadataPartition, UpdateMetadataTopic
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.vocabulary import (
    INTERNAL_TOPICS,
    LEADER_DURING_DELETE,
    BrokerId,
    topic_id_to_text,
)
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Data, GetData, ReadOutcome, is_absent

MAX_NAMED: Final = 1_000
"""Limit of suspects in one read; the others follow with the next look."""
MAX_CURED_SHOWN: Final = 1_000
SETTLE_MS: Final = 200
"""Interval of the checks whether a broker has answered the earlier requests."""
MAX_REST_MS: Final = 60_000
_AGAIN: Final = BackOff(1_000, 600_000)

NOT_READ_YET: Final = "its metadata cache has not been read yet"
INTERNAL: Final = "it is an internal topic of Kafka; only a restart of the broker removes it from its metadata cache"


# --- which, and when ----------------------------------------------------------------------------------------------


def schedule(step: StepContext, brokers: Iterable[BrokerId]) -> None:
    """Schedule a read of these brokers' caches, each after the broker has answered its requests so far."""
    context = step.context
    for broker in brokers:
        context.cluster.caches.due[broker] = DueCacheRead(None, context.last_request_id, step.now_ms)
        context.cluster.caches.unseen[broker] = NOT_READ_YET
    _wake(step, step.now_ms)


def unseen(context: Context) -> Mapping[BrokerId, str]:
    """Return why registered brokers' caches are not known; while the cluster is loaded, none is."""
    if context.role is Role.LOADING:
        return dict.fromkeys(context.cluster.brokers, NOT_READ_YET)
    return context.cluster.caches.unseen


def look(step: StepContext) -> None:
    """Read the next due cache, unless a read is outstanding."""
    context = step.context
    cluster = context.cluster
    caches = cluster.caches
    if context.role is not Role.ACTIVE or caches.reading is not None or not caches.due:
        return
    busy: dict[BrokerId, int] = {}
    for request_id, outstanding in cluster.outstanding.items():
        busy.setdefault(outstanding.broker, request_id)
    for broker, due in caches.due.items():
        if due.not_before_ms <= step.now_ms and busy.get(broker, due.after_request + 1) > due.after_request:
            break
    else:
        waits = [due.not_before_ms for due in caches.due.values() if due.not_before_ms > step.now_ms]
        waits += [step.now_ms + SETTLE_MS for due in caches.due.values() if due.not_before_ms <= step.now_ms]
        _wake(step, min(waits))
        return
    del caches.due[broker]
    effect_id = step.next_effect_id()
    caches.reading = OutstandingCacheRead(effect_id, broker, due, step.now_ms)
    endpoint = context.control_endpoint(cluster.brokers[broker])
    step.emit(ReadCache(effect_id, broker, endpoint, due.topics))


def _wake(step: StepContext, at_ms: int) -> None:
    step.set_timer(CompareCaches(), at_ms)


def _again(step: StepContext, broker: BrokerId, due: DueCacheRead) -> None:
    """Schedule another read of the whole cache, with growing waits."""
    attempts = due.attempts + 1
    at_ms = step.now_ms + _AGAIN.wait_ms(attempts)
    step.context.cluster.caches.due[broker] = DueCacheRead(None, step.context.last_request_id, at_ms, attempts)


# --- what a cache shows -------------------------------------------------------------------------------------------


def was_read(step: StepContext, event: CacheRead) -> None:
    """Compare the cache with memory, and schedule the next step for this broker."""
    context = step.context
    caches = context.cluster.caches
    reading = caches.reading
    if reading is None or reading.id != event.id:
        return
    caches.reading = None
    rest_ms = 0
    if event.topics is None:
        caches.unseen[event.broker] = event.problem or "it gave no answer"
        _again(step, event.broker, reading.due)
    else:
        _note_gone(step, reading, event.topics)
        suspects = _suspects(context, event.topics)
        if reading.due.topics is not None:
            missed.settle(context, reading, suspects)
        if reading.due.topics is None:
            rest_ms = min(MAX_REST_MS, context.config.cache_look_rest * (step.now_ms - reading.asked_at_ms))
            _look_is_over(step, reading, _why_incomplete(context, event.topics, event.problem), suspects)
        elif suspects:
            names = tuple(suspects)
            reads = (GetData(paths.topic(name)) for name in names)
            shown = tuple((name, event.topics[name]) for name in names)
            caches.checking[event.broker] = None
            check = GhostsChecked(event.broker, shown, reading.due.attempts + _were_told(caches, event.broker, names))
            step.read((*reads, GetData(paths.controller_epoch())), check)
            return
        elif len(reading.due.topics) == MAX_NAMED or event.broker in caches.unseen:
            # All suspects are gone. Another look finds those above the limit of names.
            _again(step, event.broker, reading.due)
    _wake(step, step.now_ms + rest_ms)


def _were_told(caches: CacheComparison, broker: BrokerId, suspects: Sequence[str]) -> bool:
    """Return True if a tombstone was sent for one of them already, in vain."""
    known = caches.ghosts.get(broker, {})
    return any(name in known for name in suspects)


def _look_is_over(
    step: StepContext, reading: OutstandingCacheRead, incomplete: str | None, suspects: Sequence[str]
) -> None:
    caches, broker = step.context.cluster.caches, reading.broker
    if incomplete is not None:
        caches.unseen[broker] = incomplete
    else:
        caches.unseen.pop(broker, None)
        missed.settle(step.context, reading, suspects)
    if suspects:
        names = tuple(suspects[:MAX_NAMED])
        caches.due[broker] = DueCacheRead(names, step.context.last_request_id, step.now_ms, reading.due.attempts)
    elif incomplete is not None:
        _again(step, broker, reading.due)


def _suspects(context: Context, shown: Mapping[str, CachedTopic]) -> list[str]:
    """Return the topics that the cache shows otherwise than memory."""
    return [name for name, cached in shown.items() if _is_suspect(context, name, cached)]


def _is_suspect(context: Context, name: str, cached: CachedTopic) -> bool:
    cluster = context.cluster
    known = cluster.topics.get(name)
    if known is None:
        return name not in cluster.quarantined_topics
    if any(number not in known.partitions for number in cached.partitions):
        return True
    return _has_other_id(context, name, cached) and not cluster.is_queued(name)


def _has_other_id(context: Context, name: str, cached: CachedTopic) -> bool:
    known = context.cluster.topics[name].id
    return known is not None and cached.topic_id is not None and known != cached.topic_id


def _why_incomplete(context: Context, shown: Mapping[str, CachedTopic], problem: str | None) -> str | None:
    """Return why the cache may have topics that it does not show: the reader's reason, or absent topics in service."""
    hidden = _hidden(context, shown)
    if problem is not None or not hidden:
        return problem
    return (
        f"it does not show {len(hidden)} of the topics that it was sent ({hidden[0]}): an authorizer may "
        "hide them, and others too"
    )


def _hidden(context: Context, shown: Mapping[str, CachedTopic]) -> list[str]:
    """Return topics in service, which every broker was sent, that the cache does not show."""
    return [
        name
        for name, topic in context.cluster.topics.items()
        if name not in shown
        and not context.cluster.is_queued(name)
        and any(partition.leader_and_isr is not None for partition in topic.partitions.values())
    ]


def _note_gone(step: StepContext, reading: OutstandingCacheRead, shown: Mapping[str, CachedTopic]) -> None:
    """Record the ghosts that the cache does not show any more as cured."""
    caches = step.context.cluster.caches
    known = caches.ghosts.get(reading.broker, {})
    for name, ghost in list(known.items()):
        if reading.due.topics is not None and name not in reading.due.topics:
            continue
        cached = shown.get(name)
        if cached is not None and _is_suspect(step.context, name, cached):
            continue
        del known[name]
        if ghost.kept_because is None:
            caches.cured.append((reading.broker, ghost))
            del caches.cured[:-MAX_CURED_SHOWN]
            step.context.ghosts_cured += 1
            _record(step, "dropped a ghost", reading.broker, ghost)
    if not known:
        caches.ghosts.pop(reading.broker, None)


# --- curing -------------------------------------------------------------------------------------------------------


def on_ghosts_checked(step: StepContext, then: GhostsChecked, outcomes: Sequence[ReadOutcome]) -> None:
    """Send the broker tombstones of suspects that ZooKeeper does not have, if this controller is still elected."""
    context = step.context
    cluster = context.cluster
    cluster.caches.checking.pop(then.broker, None)
    *found, epoch = outcomes
    if not isinstance(epoch, Data) or epoch.stat.version != cluster.epoch_version:
        step.do(StandForElection())
        return
    broker = then.broker
    if broker not in cluster.brokers:
        return
    verdicts = [
        _judge(context, name, cached, outcome)
        for (name, cached), outcome in zip(then.shown, found, strict=True)
        if _is_suspect(context, name, cached)
    ]
    ghosts = {verdict.topic: verdict for verdict in verdicts if verdict.is_ghost}
    _remember(step, broker, {name: _ghost(step, verdict) for name, verdict in ghosts.items()})
    announced = [name for name, verdict in ghosts.items() if verdict.announce]
    batch = step.batch()
    batch.add_update_metadata((broker,) if announced else (), cluster.all_of(announced))
    batch.add_dropped(broker, tuple(_tombstone(context, verdict) for verdict in ghosts.values() if verdict.drop))
    before = context.last_request_id
    step.flush(batch)
    if context.last_request_id > before:
        cluster.caches.told[broker] = GhostTombstones(context.last_request_id, tuple(ghosts), then.attempts)
    elif verdicts:
        _again(step, broker, DueCacheRead(None, 0, 0, then.attempts))
    _wake(step, step.now_ms)


class _SuspectVerdict(NamedTuple):
    """What to do about a suspect."""

    topic: str
    cached: CachedTopic
    is_ghost: bool = True
    """False: ZooKeeper may have the topic; it is checked again."""
    drop: tuple[int, ...] = ()
    """Partitions to tombstone."""
    announce: bool = False
    """Announce the living topic of that name to the broker again."""
    kept_because: str | None = None


def _judge(context: Context, name: str, cached: CachedTopic, outcome: ReadOutcome) -> _SuspectVerdict:
    known = context.cluster.topics.get(name)
    unproven = _SuspectVerdict(name, cached, is_ghost=False)
    if known is None and is_absent(outcome):
        if name in INTERNAL_TOPICS:
            return _SuspectVerdict(name, cached, kept_because=INTERNAL)
        return _SuspectVerdict(name, cached, drop=cached.partitions)
    if known is None or not isinstance(outcome, Data):
        # It was created or removed meanwhile, and an event follows; or it could not be read.
        return unproven
    try:
        znode = znodes.decode_topic(name, outcome.data)
    except znodes.MalformedZnode:
        return unproven
    if znode.topic_id != known.id:
        return unproven
    extra = tuple(n for n in cached.partitions if n not in known.partitions and n not in znode.assignments)
    if extra and context.cluster.is_queued(name):
        # The answer also counts for the topic's own tombstone, so this one must include its partitions.
        return _SuspectVerdict(name, cached, drop=tuple(sorted({*cached.partitions, *known.partitions})))
    if not _has_other_id(context, name, cached):
        return _SuspectVerdict(name, cached, drop=extra) if extra else unproven
    if all(partition.leader_and_isr is None for partition in known.partitions.values()):
        return _SuspectVerdict(name, cached, drop=cached.partitions)
    return _SuspectVerdict(name, cached, drop=extra, announce=True)


def _ghost(step: StepContext, verdict: _SuspectVerdict) -> Ghost:
    partitions = verdict.cached.partitions if verdict.announce or verdict.kept_because else verdict.drop
    return Ghost(verdict.topic, verdict.cached.topic_id, partitions, step.now_ms, verdict.kept_because)


def _tombstone(context: Context, verdict: _SuspectVerdict) -> UpdateMetadataTopic:
    """Return the tombstone, with the id that the name has afterwards, so that the request changes nothing else."""
    known = context.cluster.topics.get(verdict.topic)
    rows = (UpdateMetadataPartition(n, context.cluster.epoch, LEADER_DURING_DELETE, 0, (), 0, ()) for n in verdict.drop)
    return UpdateMetadataTopic(verdict.topic, verdict.cached.topic_id if known is None else known.id, tuple(rows))


def _remember(step: StepContext, broker: BrokerId, ghosts: Mapping[str, Ghost]) -> None:
    if not ghosts:
        return
    known = step.context.cluster.caches.ghosts.setdefault(broker, {})
    for name, ghost in ghosts.items():
        before = known.get(name)
        known[name] = ghost if before is None else ghost._replace(found_at_ms=before.found_at_ms)
        if before is None or before.kept_because != ghost.kept_because:
            _record(step, "kept a ghost", broker, ghost)


def answered(step: StepContext, event: UpdateMetadataResponseReceived) -> None:
    """Read the topics again after the broker has answered the tombstones of ghosts."""
    caches = step.context.cluster.caches
    told = caches.told.get(event.broker)
    if told is None or told.request_id != event.request_id:
        return
    del caches.told[event.broker]
    known = caches.ghosts.get(event.broker, {})
    if event.response.error != ErrorCode.NONE:
        why = f"the broker answered {error_name(event.response.error)} to the removal that it was sent"
        for name in told.topics:
            if name in known:
                known[name] = known[name]._replace(kept_because=why)
    at_ms = step.now_ms + _AGAIN.wait_ms(told.attempts)
    caches.due[event.broker] = DueCacheRead(told.topics, step.context.last_request_id, at_ms, told.attempts)
    _wake(step, step.now_ms)


def forget(step: StepContext, broker: BrokerId) -> None:
    """Drop the memory of the cache of a broker incarnation that is gone; its ghosts count as missed."""
    caches = step.context.cluster.caches
    missed.note(step.context, broker, caches.ghosts.get(broker, ()))
    for memory in (caches.due, caches.checking, caches.told, caches.ghosts, caches.unseen):
        memory.pop(broker, None)
    if caches.reading is not None and caches.reading.broker == broker:
        caches.reading = None
        _wake(step, step.now_ms)


def _record(step: StepContext, what: str, broker: BrokerId, ghost: Ghost) -> None:
    details: dict[str, JsonValue] = {} if ghost.kept_because is None else {"reason": ghost.kept_because}
    step.record(
        EventRecordType.BROKER,
        f"broker/{broker}",
        what=what,
        broker_epoch=step.context.cluster.brokers[broker].epoch,
        topic=ghost.topic,
        topic_id=None if ghost.topic_id is None else topic_id_to_text(ghost.topic_id),
        partitions=partition_ranges(ghost.partitions),
        **details,
    )
