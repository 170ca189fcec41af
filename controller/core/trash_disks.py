"""The bytes of the trash, and the rule by which it gives way to a full disk.

Brokers with replicas of topics in the trash are asked for their log directories when a topic goes into the trash, when
a broker registers, and after a takeover. While `lethe.trash.free.percent` is set, they are asked from time to time too:

    a log directory with topics in the trash          what follows
    ------------------------------------------------  ------------------------------------------------------------------
    has so much free space, or more                   nothing
    has less                                          the topic with bytes there that is in the trash for longest gives
                                                      way: it is deleted for good
    the same, and a topic gives way already           nothing, until the bytes of that one are gone: the broker does not
                                                      list it there, and has its size more free, or BYTES_GO_MS have
                                                      passed since its deletion, or since its broker left
    the same, and this controller took over less      nothing: the bytes of a topic that gave way before may be going
      than BYTES_GO_MS ago
    is not seen: its broker is away, silent, or of    nothing gives way to it
      Kafka before 3.3, which does not tell

In the whole cluster one topic at a time gives way. A pause keeps the trash as it is, protection a topic in it. Brokers
remove the bytes of deleted replicas later (Kafka's after a minute), and other topics may grow meanwhile: free space
alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lethe.controller.core import trash, trash_end
from lethe.controller.core.context import Context
from lethe.controller.core.events import LogDirsDescribed
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.trash_memory import GivingWay, SeenDisks, SeenLogDir
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.queries import DescribableTopic, DescribeLogDirsRequest, LogDir
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper.znodes import TrashPhase

ANSWER_MS: Final = 10_000
"""How long answers are waited for."""
BYTES_GO_MS: Final = 300_000
"""How long a broker may take to free the bytes of a replica that it has deleted. Kafka's default is one minute."""
AWAY: Final = "it is not registered, or shutting down"
SILENT: Final = "it has not answered"
NAMELESS: Final = "it names no log directory; does it let this controller ask?"
UNTOLD: Final = "it does not tell how full its disks are: Kafka's brokers do from 3.3 on"


# --- looking ------------------------------------------------------------------------------------------------------


def due(step: StepContext) -> None:
    """The trash's timer fired: ask brokers, or go on without those that have not answered."""
    disks = step.context.cluster.trash.disks
    if disks.due_at_ms is None or disks.due_at_ms > step.now_ms:
        return
    if disks.waiting:
        _conclude(step)
    else:
        _look(step)


def _look(step: StepContext) -> None:
    cluster = step.context.cluster
    disks = cluster.trash.disks
    disks.look_at_ms = None
    asked = _rows(step.context)
    disks.seen = {broker: disks.seen[broker] for broker in asked if broker in disks.seen}
    for broker, topics in sorted(asked.items()):
        if cluster.is_live(broker):
            disks.waiting[step.send(broker, DescribeLogDirsRequest(tuple(topics)))] = broker
        else:
            _note_unseen(step, broker, AWAY)
    disks.ends_at_ms = step.now_ms + ANSWER_MS
    if asked and not disks.waiting:
        _conclude(step)


def _note_unseen(step: StepContext, broker: BrokerId, problem: str) -> None:
    """The bytes of the trash are what they were, but not the free space."""
    seen = step.context.cluster.trash.disks.seen
    before = seen.get(broker, SeenDisks(step.now_ms))
    seen[broker] = before._replace(at_ms=step.now_ms, problem=problem)


def _rows(context: Context) -> dict[BrokerId, list[DescribableTopic]]:
    """Return what each broker is asked for: its replicas of topics in the trash, and of the one that gives way."""
    memory = context.cluster.trash
    found: dict[BrokerId, list[DescribableTopic]] = {}
    for name, each in memory.topics.items():
        if each.phase is TrashPhase.TRASHED:
            numbers: dict[int, list[int]] = {}
            for number, saved in each.entry.partitions.items():
                for replica in saved.replicas:
                    numbers.setdefault(replica, []).append(number)
            for replica, on in numbers.items():
                found.setdefault(BrokerId(replica), []).append(DescribableTopic(name, tuple(on)))
    giving = memory.disks.giving
    if giving is not None and memory.in_phase(giving.topic, TrashPhase.TRASHED) is None:
        found.setdefault(giving.broker, []).append(DescribableTopic(giving.topic, giving.partitions))
    return found


def described(step: StepContext, event: LogDirsDescribed) -> None:
    """Store what the broker said; go on when every broker has answered."""
    disks = step.context.cluster.trash.disks
    if disks.waiting.pop(event.request_id, None) is None:
        return
    response = event.response
    errors = [error for error in (response.error, *(each.error for each in response.log_dirs)) if error]
    log_dirs = tuple(_seen(each) for each in response.log_dirs if each.error == ErrorCode.NONE)
    problem = None
    if response.error or not log_dirs:
        problem = error_name(errors[0]) if errors else NAMELESS
    elif all(each.total_bytes < 0 for each in log_dirs):
        problem = UNTOLD
    disks.seen[event.broker] = SeenDisks(step.now_ms, log_dirs, problem, is_partial=bool(errors))
    if not disks.waiting:
        _conclude(step)


def _seen(found: LogDir) -> SeenLogDir:
    sizes = {topic.topic: sum(max(0, row.size_bytes) for row in topic.partitions) for topic in found.topics}
    return SeenLogDir(found.path, found.total_bytes, found.usable_bytes, sizes)


def _conclude(step: StepContext) -> None:
    """Every broker has answered, or is not waited for: let a topic give way, and set the time of the next look."""
    context, disks = step.context, step.context.cluster.trash.disks
    for broker in disks.waiting.values():
        _note_unseen(step, broker, SILENT)
    disks.waiting.clear()
    if context.trash_free_percent:
        disks.look_at_ms = step.now_ms + context.config.trash_look_ms
        _give_way(step)
    else:
        disks.giving = None
    trash.arm(step)


# --- giving way ---------------------------------------------------------------------------------------------------


def low_dirs(context: Context) -> Iterator[tuple[BrokerId, SeenLogDir]]:
    """Yield the log directories with topics in the trash that have too little free space."""
    for broker, seen in sorted(context.cluster.trash.disks.seen.items()):
        for log_dir in seen.log_dirs if seen.problem is None else ():
            if log_dir.topics and log_dir.is_low(context.trash_free_percent):
                yield broker, log_dir


def next_to_go(context: Context) -> tuple[str, BrokerId, SeenLogDir] | None:
    """Return the topic that is in the trash for longest of those on full disks, and one of these; None if none is.

    A topic without bytes there would be lost for nothing; so would any for a broker that has left since its answer."""
    memory = context.cluster.trash
    found = [
        (each.entry.since_ms, name, broker, log_dir)
        for broker, log_dir in low_dirs(context)
        if context.cluster.is_live(broker)
        for name, size_bytes in log_dir.topics.items()
        if size_bytes and _may_go(context, name) and (each := memory.in_phase(name, TrashPhase.TRASHED)) is not None
    ]
    if not found:
        return None
    _, name, broker, log_dir = min(found, key=lambda row: row[:3])
    return name, broker, log_dir


def _may_go(context: Context, name: str) -> bool:
    """Return whether nothing keeps the topic in the trash: a request, protection, or another topic of its name."""
    found = context.cluster.trash.in_phase(name, TrashPhase.TRASHED)
    is_free = name not in context.cluster.quarantined_topics and trash_end.forbidden(context, name) is None
    return found is not None and not (found.is_asked or found.is_requested) and is_free


def _give_way(step: StepContext) -> None:
    context, memory = step.context, step.context.cluster.trash
    if memory.disks.giving is not None and not _are_bytes_gone(step, memory.disks.giving):
        return
    memory.disks.giving = None
    if context.cluster.paused is not None or step.now_ms < context.cluster.elected_at_ms + BYTES_GO_MS:
        return
    chosen = next_to_go(context)
    if chosen is None:
        return
    name, broker, log_dir = chosen
    entry = memory.topics[name].entry
    numbers = tuple(number for number, saved in sorted(entry.partitions.items()) if broker in saved.replicas)
    usable, total = log_dir.usable_bytes, log_dir.total_bytes
    memory.disks.giving = GivingWay(
        name, entry.topic_id, numbers, broker, log_dir.path, log_dir.topics[name], usable, total, since_ms=step.now_ms
    )
    trash_end.purge(step, {name: memory.topics[name].end_requested}, paced=False)


def _are_bytes_gone(step: StepContext, giving: GivingWay) -> bool:
    """Return whether the next topic may give way. An unseen disk keeps it waiting; a broker that is away, a while."""
    cluster = step.context.cluster
    memory = cluster.trash
    if memory.in_phase(giving.topic, TrashPhase.TRASHED) is not None:
        return True
    is_free = False
    if giving.broker in cluster.brokers:
        seen = memory.disks.seen.get(giving.broker)
        if seen is None or seen.problem is not None:
            return False
        log_dir = next((each for each in seen.log_dirs if each.path == giving.path), None)
        if log_dir is None:
            return False
        is_listed = giving.topic in log_dir.topics
        if is_listed and (cluster.is_queued(giving.topic) or giving.topic in cluster.marks):
            memory.disks.giving = replace(giving, deleted_since_ms=None)
            return False
        is_free = not is_listed and log_dir.usable_bytes >= giving.usable_bytes + giving.size_bytes
    since_ms = step.now_ms if giving.deleted_since_ms is None else giving.deleted_since_ms
    memory.disks.giving = replace(giving, deleted_since_ms=since_ms)
    return is_free or step.now_ms >= since_ms + BYTES_GO_MS
