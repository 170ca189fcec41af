"""Comparing the brokers' metadata caches with ZooKeeper, and curing what a cache has and ZooKeeper has not.

A *ghost* is a topic, or partitions of an earlier topic of the same name, in one broker's metadata cache. It is left by
a tombstone that the broker never received: the controller of that time lost its connection to the broker and then its
memory of it, or the broker's session had expired while the topic was deleted. No UpdateMetadata that follows removes
it, because brokers merge what they are told partition by partition: only leader -2 for exactly these partitions does.

    when        a controller has become active, and when a broker registers: each cache once, one broker at a time
    look        Metadata for all topics. What ZooKeeper's topics, as loaded, do not have is suspected
    confirm     Metadata for the suspected topics alone. What is not shown any more was on its way out
    check       the suspected topics' znodes, then /controller_epoch: is the topic there by now, are we still elected?
    cure        UpdateMetadata with leader -2 for the partitions shown, to this broker alone; no StopReplica
    prove       Metadata for these topics again: what the cache has lost is cured, the rest is tried again later

The order is kept although reads have a connection of their own. A read begins when the broker has answered every
request that was sent before; so it sees the takeover's UpdateMetadata, or the tombstone. What is sent while it is under
way can only make a suspect of a topic that is not one: `confirm` and `check` come after it.

What is never tombstoned: a topic whose znode is there, or could not be read, and Kafka's internal topics, which a
broker that misses them makes anew. A topic that is created after the check is announced on the same channel behind the
tombstone. A topic that is queued for deletion has its own tombstone, which names the partitions that the topic has;
only others that a cache shows under its name are a ghost.

An earlier incarnation under the name of a living topic: the takeover's UpdateMetadata puts the living topic's id and
partitions in its place, in Kafka 2.5 as in 3.9. What stays is partitions that the living topic has not: they are
tombstoned one by one. Where the cache still has the other id, the topic is announced to that broker again.

An answer that lacks topics in service is of a broker that hides topics (an authorizer), or has not been told yet: what
it does not show is unseen, so the broker is not compared, and asked again at growing intervals. What it does show is
cured all the same.

Cost. The answer for 100,000 partitions is 4 to 5 MB and takes about a second to decode, on a thread. After each the
controller rests `cache_look_rest` times as long as the look took.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from lethe.controller.core import missed
from lethe.controller.core.agenda import Stand
from lethe.controller.core.agenda_requests import GhostsChecked
from lethe.controller.core.cache_memory import Due, Ghost, Reading, Told
from lethe.controller.core.context import Context, Role
from lethe.controller.core.effects import CompareCaches, ReadCache
from lethe.controller.core.events import CacheRead, UpdateMetadataAnswered
from lethe.controller.core.turn import Turn
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import FactType, JsonValue, partition_ranges
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.control import UpdateMetadataPartition, UpdateMetadataTopic
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.vocabulary import (
    INTERNAL_TOPICS,
    LEADER_DURING_DELETE,
    BrokerId,
    TopicPartition,
    topic_id_to_text,
)
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Data, GetData, ReadOutcome, is_absent

MAX_NAMED: Final = 1_000
"""Suspected topics that are asked about at once; the others follow with the next look."""
MAX_CURED_SHOWN: Final = 1_000
SETTLE_MS: Final = 200
"""So long until it is looked again whether a broker has answered what it was sent before."""
MAX_REST_MS: Final = 60_000
_AGAIN: Final = BackOff(1_000, 600_000)

NOT_READ_YET: Final = "its metadata cache has not been read yet"
INTERNAL: Final = "it is an internal topic of Kafka; only a restart of the broker removes it from its metadata cache"
NO_LEADERSHIP: Final = "the topic of that name has no leader yet, so that there is nothing to announce in its place"


# --- which, and when ----------------------------------------------------------------------------------------------


def schedule(turn: Turn, brokers: Iterable[BrokerId]) -> None:
    """Have these brokers' caches read, each when the broker has answered what it has been sent so far."""
    context = turn.context
    for broker in brokers:
        context.cluster.caches.due[broker] = Due(None, context.last_request_id, turn.now_ms)
        context.cluster.caches.unseen[broker] = NOT_READ_YET
    _wake(turn, turn.now_ms)


def look(turn: Turn) -> None:
    """Read the next cache that is due; one at a time."""
    context = turn.context
    cluster = context.cluster
    caches = cluster.caches
    if context.role is not Role.ACTIVE or caches.reading is not None or not caches.due:
        return
    busy: dict[BrokerId, int] = {}
    for request_id, outstanding in cluster.outstanding.items():
        busy.setdefault(outstanding.broker, request_id)
    for broker, due in caches.due.items():
        if due.not_before_ms <= turn.now_ms and busy.get(broker, due.after_request + 1) > due.after_request:
            break
    else:
        waits = [due.not_before_ms for due in caches.due.values() if due.not_before_ms > turn.now_ms]
        waits += [turn.now_ms + SETTLE_MS for due in caches.due.values() if due.not_before_ms <= turn.now_ms]
        _wake(turn, min(waits))
        return
    del caches.due[broker]
    effect_id = turn.next_effect_id()
    caches.reading = Reading(effect_id, broker, due, turn.now_ms)
    endpoint = context.control_endpoint(cluster.brokers[broker])
    turn.emit(ReadCache(effect_id, broker, endpoint, due.topics))


def _wake(turn: Turn, at_ms: int) -> None:
    turn.set_timer(CompareCaches(), at_ms)


def _again(turn: Turn, broker: BrokerId, due: Due) -> None:
    """Look at the whole cache again, later each time."""
    attempts = due.attempts + 1
    at_ms = turn.now_ms + _AGAIN.wait_ms(attempts)
    turn.context.cluster.caches.due[broker] = Due(None, turn.context.last_request_id, at_ms, attempts)


# --- what a cache shows -------------------------------------------------------------------------------------------


def was_read(turn: Turn, event: CacheRead) -> None:
    """Compare, and go on with the next step for this broker."""
    context = turn.context
    caches = context.cluster.caches
    reading = caches.reading
    if reading is None or reading.id != event.id:
        return
    caches.reading = None
    rest_ms = 0
    if event.topics is None:
        caches.unseen[event.broker] = event.problem or "it gave no answer"
        _again(turn, event.broker, reading.due)
    else:
        _note_gone(turn, reading, event.topics)
        suspects = _suspects(context, event.topics)
        if reading.due.topics is not None:
            missed.settle(context, reading, suspects)
        if reading.due.topics is None:
            rest_ms = min(MAX_REST_MS, context.config.cache_look_rest * (turn.now_ms - reading.asked_at_ms))
            _look_is_over(turn, reading, event.topics, suspects)
        elif suspects:
            names = tuple(suspects)
            reads = (GetData(paths.topic(name)) for name in names)
            shown = tuple((name, event.topics[name]) for name in names)
            turn.read(
                (*reads, GetData(paths.controller_epoch())), GhostsChecked(event.broker, shown, reading.due.attempts)
            )
            return
        elif len(reading.due.topics) == MAX_NAMED or event.broker in caches.unseen:
            # All that was suspected is gone. What hid behind the limit of names shows in another look.
            _again(turn, event.broker, reading.due)
    _wake(turn, turn.now_ms + rest_ms)


def _look_is_over(turn: Turn, reading: Reading, shown: Mapping[str, CachedTopic], suspects: Sequence[str]) -> None:
    caches, broker = turn.context.cluster.caches, reading.broker
    hidden = _hidden(turn.context, shown)
    if hidden:
        caches.unseen[broker] = (
            f"it does not show {len(hidden)} of the topics that it has been told of ({hidden[0]}): whether it may not "
            "tell of them is not known, nor what else it does not tell of"
        )
    else:
        caches.unseen.pop(broker, None)
        missed.settle(turn.context, reading, suspects)
    if suspects:
        names = tuple(suspects[:MAX_NAMED])
        caches.due[broker] = Due(names, turn.context.last_request_id, turn.now_ms, reading.due.attempts)
    elif hidden:
        _again(turn, broker, reading.due)


def _suspects(context: Context, shown: Mapping[str, CachedTopic]) -> list[str]:
    """Topics that the cache has otherwise than ZooKeeper had them when they were loaded."""
    return [name for name, cached in shown.items() if _is_suspect(context, name, cached)]


def _is_suspect(context: Context, name: str, cached: CachedTopic) -> bool:
    cluster = context.cluster
    known = cluster.topics.get(name)
    if known is None:
        return name not in cluster.set_aside_topics
    if any(number not in known.partitions for number in cached.partitions):
        return True
    return _has_other_id(context, name, cached) and not cluster.is_queued(name)


def _has_other_id(context: Context, name: str, cached: CachedTopic) -> bool:
    known = context.cluster.topics[name].id
    return known is not None and cached.topic_id is not None and known != cached.topic_id


def _hidden(context: Context, shown: Mapping[str, CachedTopic]) -> list[str]:
    """Topics in service, of which every broker has been told, that are not shown."""
    return [
        name
        for name, topic in context.cluster.topics.items()
        if name not in shown
        and not context.cluster.is_queued(name)
        and any(partition.leadership is not None for partition in topic.partitions.values())
    ]


def _note_gone(turn: Turn, reading: Reading, shown: Mapping[str, CachedTopic]) -> None:
    """What the broker was told to drop and does not show any more is cured."""
    caches = turn.context.cluster.caches
    known = caches.ghosts.get(reading.broker, {})
    for name, ghost in list(known.items()):
        if reading.due.topics is not None and name not in reading.due.topics:
            continue
        cached = shown.get(name)
        if cached is not None and _is_suspect(turn.context, name, cached):
            continue
        del known[name]
        if ghost.kept_because is None:
            caches.cured.append((reading.broker, ghost))
            del caches.cured[:-MAX_CURED_SHOWN]
            turn.context.ghosts_cured += 1
            _record(turn, "dropped a ghost", reading.broker, ghost)
    if not known:
        caches.ghosts.pop(reading.broker, None)


# --- curing -------------------------------------------------------------------------------------------------------


def checked(turn: Turn, then: GhostsChecked, outcomes: Sequence[ReadOutcome]) -> None:
    """Tell the broker to drop what ZooKeeper does not have either, if we are still elected."""
    context = turn.context
    cluster = context.cluster
    *found, epoch = outcomes
    if not isinstance(epoch, Data) or epoch.stat.version != cluster.epoch_version:
        turn.do(Stand())
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
    _remember(turn, broker, {name: _ghost(turn, verdict) for name, verdict in ghosts.items()})
    announced = [name for name, verdict in ghosts.items() if verdict.announce]
    batch = turn.batch()
    batch.add_update_metadata(
        (broker,) if announced else (),
        (TopicPartition(name, number) for name in announced for number in cluster.topics[name].partitions),
    )
    batch.add_dropped(broker, tuple(_tombstone(context, verdict) for verdict in ghosts.values() if verdict.drop))
    before = context.last_request_id
    turn.flush(batch)
    if context.last_request_id > before:
        cluster.caches.told[broker] = Told(context.last_request_id, tuple(ghosts), then.attempts)
    elif verdicts:
        _again(turn, broker, Due(None, 0, 0, then.attempts))
    _wake(turn, turn.now_ms)


class _Verdict(NamedTuple):
    """What is to be done about a suspected topic."""

    topic: str
    cached: CachedTopic
    is_ghost: bool = True
    """False: ZooKeeper has it, as far as can be seen; it is looked at again."""
    drop: tuple[int, ...] = ()
    """Partitions to tombstone."""
    announce: bool = False
    """The living topic of that name is announced to the broker again."""
    kept_because: str | None = None


def _judge(context: Context, name: str, cached: CachedTopic, outcome: ReadOutcome) -> _Verdict:
    known = context.cluster.topics.get(name)
    unproven = _Verdict(name, cached, is_ghost=False)
    if known is None and is_absent(outcome):
        if name in INTERNAL_TOPICS:
            return _Verdict(name, cached, kept_because=INTERNAL)
        return _Verdict(name, cached, drop=cached.partitions)
    if known is None or not isinstance(outcome, Data):
        # It has come or gone meanwhile, of which an event will tell, or it could not be read.
        return unproven
    try:
        znode = znodes.decode_topic(name, outcome.data)
    except znodes.MalformedZnode:
        return unproven
    if znode.topic_id != known.id:
        return unproven
    extra = tuple(n for n in cached.partitions if n not in known.partitions and n not in znode.assignments)
    if extra and context.cluster.is_queued(name):
        # Its answer is one to the topic's own tombstone as well, so it has to be as good as that.
        return _Verdict(name, cached, drop=tuple(sorted({*cached.partitions, *known.partitions})))
    if not _has_other_id(context, name, cached):
        return _Verdict(name, cached, drop=extra) if extra else unproven
    if all(partition.leadership is None for partition in known.partitions.values()):
        return _Verdict(name, cached, kept_because=NO_LEADERSHIP)
    return _Verdict(name, cached, drop=extra, announce=True)


def _ghost(turn: Turn, verdict: _Verdict) -> Ghost:
    partitions = verdict.cached.partitions if verdict.announce or verdict.kept_because else verdict.drop
    return Ghost(verdict.topic, verdict.cached.topic_id, partitions, turn.now_ms, verdict.kept_because)


def _tombstone(context: Context, verdict: _Verdict) -> UpdateMetadataTopic:
    """Under the id that the name has in the cache afterwards, so that the request changes nothing else."""
    known = context.cluster.topics.get(verdict.topic)
    rows = (UpdateMetadataPartition(n, context.cluster.epoch, LEADER_DURING_DELETE, 0, (), 0, ()) for n in verdict.drop)
    return UpdateMetadataTopic(verdict.topic, verdict.cached.topic_id if known is None else known.id, tuple(rows))


def _remember(turn: Turn, broker: BrokerId, ghosts: Mapping[str, Ghost]) -> None:
    if not ghosts:
        return
    known = turn.context.cluster.caches.ghosts.setdefault(broker, {})
    for name, ghost in ghosts.items():
        before = known.get(name)
        known[name] = ghost if before is None else ghost._replace(found_at_ms=before.found_at_ms)
        if before is None or before.kept_because != ghost.kept_because:
            _record(turn, "kept a ghost", broker, ghost)


def answered(turn: Turn, event: UpdateMetadataAnswered) -> None:
    """The broker has answered what told it to drop ghosts: ask whether it has."""
    caches = turn.context.cluster.caches
    told = caches.told.get(event.broker)
    if told is None or told.request_id != event.request_id:
        return
    del caches.told[event.broker]
    known = caches.ghosts.get(event.broker, {})
    if event.response.error != ErrorCode.NONE:
        why = f"the broker answered {error_name(event.response.error)} when it was told to drop it"
        for name in told.topics:
            if name in known:
                known[name] = known[name]._replace(kept_because=why)
    at_ms = turn.now_ms + _AGAIN.wait_ms(told.attempts)
    caches.due[event.broker] = Due(told.topics, turn.context.last_request_id, at_ms, told.attempts + 1)
    _wake(turn, turn.now_ms)


def forget(turn: Turn, broker: BrokerId) -> None:
    """The incarnation is gone, and what was seen of its cache with it."""
    caches = turn.context.cluster.caches
    missed.note(turn.context, broker, caches.ghosts.get(broker, ()))
    for memory in (caches.due, caches.told, caches.ghosts, caches.unseen):
        memory.pop(broker, None)
    if caches.reading is not None and caches.reading.broker == broker:
        caches.reading = None
        _wake(turn, turn.now_ms)


def _record(turn: Turn, what: str, broker: BrokerId, ghost: Ghost) -> None:
    details: dict[str, JsonValue] = {} if ghost.kept_because is None else {"reason": ghost.kept_because}
    turn.record(
        FactType.BROKER,
        f"broker/{broker}",
        what=what,
        broker_epoch=turn.context.cluster.brokers[broker].epoch,
        topic=ghost.topic,
        topic_id=None if ghost.topic_id is None else topic_id_to_text(ghost.topic_id),
        partitions=partition_ranges(ghost.partitions),
        **details,
    )
