"""The pace of deletions: how many topics, and how many bytes, may begin to be deleted in a second.

Each limit is a token bucket (`pace_memory.Bucket`). A marked topic is held, in service, until both buckets can pay for
it; the topics behind it wait too, so that none is overtaken for ever. The order is that of the markers.

    limit 2 topics/s: five topics are marked       at once: a, b     0.5 s: c     1 s: d     1.5 s: e
    limit 10 MB/s: a topic of 50 MB, one of 1 MB   at once: the large one, which empties the bucket down to -40 MB;
                                                   5 s later, when the debt is paid, the small one

Not held: topics whose deletion had begun under another controller (their marker says so: `pausing`), as their turn had
come; and unreadable topics, which are not in service anyway. Topics in the trash pay before they leave it
(`wait_to_leave_ms`), when nothing is in the line: a marked topic is in service until its turn, and they are not.

The size of a topic is what DescribeLogDirs says of its replicas on registered brokers; it is asked for while a limit on
bytes is set. A size is unknown where a broker does not answer in time, or does not list a replica. Then only the limit
on topics counts for this topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from lethe.controller.core.context import Context
from lethe.controller.core.effects import BeginDeletions
from lethe.controller.core.events import LogDirsDescribed
from lethe.controller.core.pace_memory import MICRO, PaceLimits, Pacing, SizeQuestion, bucket_capacity
from lethe.controller.core.partition_sets import numbers_in
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_deletion import QueueDeletions
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import DescribableTopic, DescribeLogDirsRequest
from lethe.protocol.vocabulary import BrokerId

MIN_WAIT_MS: Final = 100
"""Deletions begin at most ten times a second, so that each time several share their requests."""
TURN_LOOK_MS: Final = 1_000
"""How often topics in the trash whose time is over look whether their turn has come."""
SIZE_WAIT_MS: Final = 5_000
"""How long sizes are waited for."""
TOPICS_PER_QUESTION: Final = 500
MIN_TOPICS_AT_ONCE: Final = 1_000


# --- who may begin ------------------------------------------------------------------------------------------------


def admit(step: StepContext, names: Sequence[str], begun: Sequence[str]) -> dict[str, None]:
    """Return those of these marked topics whose deletion may begin now, and pay for them; the others wait in line.

    `begun`: topics whose turn had come under another controller."""
    context = step.context
    cluster = context.cluster
    pacing, limits = cluster.pacing, context.pace
    if limits.is_nothing:
        pacing.line, pacing.sizes, pacing.paid, pacing.question = {}, {}, {}, None
        return dict.fromkeys(names)
    free = frozenset(begun)
    at_once = {n: None for n in names if n in free or n in pacing.paid or cluster.topics[n].is_made_up}
    waiting = {name: None for name in names if name not in at_once}
    _line_up(step, waiting)
    pacing.paid |= dict.fromkeys(_pay(step, pacing, limits, waiting))
    return {name: None for name in names if name in at_once or name in pacing.paid}


def to_note(context: Context, names: Sequence[str], begun: Sequence[str]) -> dict[str, None]:
    """Return those of these topics whose markers have to say that the deletion has begun, before it begins: a later
    controller does not hold them back then."""
    if context.pace.is_nothing:
        return {}
    noted = frozenset(begun)
    return {n: None for n in names if n not in noted and not context.cluster.topics[n].is_made_up}


def _line_up(step: StepContext, names: dict[str, None]) -> None:
    """Put new names at the end of the line, oldest marker first; drop topics that no pace holds any more."""
    context = step.context
    cluster = context.cluster
    pacing = cluster.pacing
    for name in [name for name in pacing.line if name not in names and not _is_held(context, name)]:
        del pacing.line[name]
        pacing.sizes.pop(name, None)
    new = [name for name in names if name not in pacing.line]
    new.sort(key=lambda name: (cluster.marker_times.get(name, step.now_ms), name))
    pacing.line |= dict.fromkeys(new)


def _is_held(context: Context, name: str) -> bool:
    mark = context.cluster.marks.get(name)
    return mark is not None and mark.held_by is CauseKind.PACE


def _pay(step: StepContext, pacing: Pacing, limits: PaceLimits, names: dict[str, None]) -> list[str]:
    """Take as many topics out of the line as the buckets can pay for, and set the timer for the next one.

    A topic that is not among `names` stays in the line: its caller queues these only. The timer queues it (`go_on`)."""
    now_ms = step.now_ms
    _fill(pacing, limits, now_ms)
    turn: list[str] = []
    for name in pacing.line:
        if limits.bytes and name not in pacing.sizes:
            _ask_sizes(step)
            if name not in pacing.sizes:
                break
        size = pacing.sizes.get(name) or 0
        wait_ms = _wait_ms(pacing, limits, size)
        if wait_ms or name not in names:
            step.set_timer(BeginDeletions(), now_ms + max(MIN_WAIT_MS, wait_ms))
            break
        _take(pacing, limits, size)
        turn.append(name)
    for name in turn:
        del pacing.line[name]
        pacing.sizes.pop(name, None)
    return turn


def wait_to_leave_ms(step: StepContext, size: int) -> int:
    """Return when a topic in the trash may ask again whether its turn has come; 0: it has, and the topic has paid.

    `size`: its bytes, as far as they are known. The limits may change meanwhile, so it asks once a second at least."""
    pacing, limits = step.context.cluster.pacing, step.context.pace
    if limits.is_nothing:
        return 0
    if pacing.line:
        return TURN_LOOK_MS
    _fill(pacing, limits, step.now_ms)
    if wait_ms := _wait_ms(pacing, limits, size):
        return min(max(MIN_WAIT_MS, wait_ms), TURN_LOOK_MS)
    _take(pacing, limits, size)
    return 0


def _fill(pacing: Pacing, limits: PaceLimits, now_ms: int) -> None:
    for bucket, rate in ((pacing.topics, limits.topics), (pacing.bytes, limits.bytes)):
        if rate:
            bucket.fill(rate, now_ms)


def _take(pacing: Pacing, limits: PaceLimits, size: int) -> None:
    for bucket, cost, rate in ((pacing.topics, 1, limits.topics), (pacing.bytes, size, limits.bytes)):
        if rate:
            bucket.level = (bucket.level or 0) - cost * MICRO


def _wait_ms(pacing: Pacing, limits: PaceLimits, size: int) -> int:
    waits_ms = [0]
    if limits.topics:
        waits_ms.append(pacing.topics.wait_ms(MICRO, limits.topics))
    if limits.bytes:
        waits_ms.append(pacing.bytes.wait_ms(size * MICRO, limits.bytes))
    return max(waits_ms)


def go_on(step: StepContext) -> None:
    """Queue the topics whose turn has come: a timer fired, the limits have changed, or sizes are known."""
    context = step.context
    cluster = context.cluster
    if cluster.paused is not None or cluster.leaving is not None or not cluster.pacing.line:
        return
    question = cluster.pacing.question
    if question is not None and question.asked_at_ms + SIZE_WAIT_MS <= step.now_ms:
        _conclude(context, question)
    limits = context.pace
    at_most = None if limits.is_nothing else max(MIN_TOPICS_AT_ONCE, limits.topics // 1_000)
    held = (name for name in cluster.pacing.line if _is_held(context, name))
    step.do(QueueDeletions(tuple(islice(held, at_most))))


# --- sizes --------------------------------------------------------------------------------------------------------


def _ask_sizes(step: StepContext) -> None:
    """Ask the brokers for the sizes of the next topics in the line, unless a question is outstanding."""
    context = step.context
    cluster = context.cluster
    pacing = cluster.pacing
    if pacing.question is None:
        names = tuple(islice((n for n in pacing.line if n not in pacing.sizes), TOPICS_PER_QUESTION))
        if not names:
            return
        asked: dict[BrokerId, list[DescribableTopic]] = {}
        brokers: dict[str, tuple[BrokerId, ...]] = {}
        for name in names:
            columns = cluster.topics[name].assigned() if name in cluster.topics else {}
            brokers[name] = tuple(b for b in columns if b in cluster.brokers and not cluster.is_advertised(b))
            for broker in brokers[name]:
                asked.setdefault(broker, []).append(DescribableTopic(name, tuple(numbers_in(columns[broker]))))
        pacing.question = question = SizeQuestion(step.now_ms, dict.fromkeys(names, 0), brokers)
        for broker, topics in asked.items():
            question.outstanding[step.send(broker, DescribeLogDirsRequest(tuple(topics)))] = broker
        if not asked:
            _conclude(context, question)
            return
    step.set_timer(BeginDeletions(), pacing.question.asked_at_ms + SIZE_WAIT_MS)


def described(step: StepContext, event: LogDirsDescribed, request: DescribeLogDirsRequest) -> None:
    """Add the sizes of an answer. After the last answer, queue topics and ask for the sizes of further ones."""
    context = step.context
    question = context.cluster.pacing.question
    if question is None or question.outstanding.pop(event.request_id, None) is None:
        return
    found: dict[str, dict[int, int]] = {}
    for directory in event.response.log_dirs if event.response.error == ErrorCode.NONE else ():
        for topic in directory.topics:
            sizes = found.setdefault(topic.topic, {})
            for row in topic.partitions:
                sizes[row.partition] = sizes.get(row.partition, 0) + max(0, row.size_bytes)
    for name, partitions in request.topics or ():
        listed, known = found.get(name, {}), question.sizes.get(name)
        is_whole = known is not None and all(partition in listed for partition in partitions)
        question.sizes[name] = known + sum(listed[p] for p in partitions) if is_whole and known is not None else None
    if not question.outstanding:
        _conclude(context, question)
        go_on(step)
        _ask_sizes(step)


def _conclude(context: Context, question: SizeQuestion) -> None:
    """Store the sizes; those that a broker has not answered for are unknown."""
    pacing = context.cluster.pacing
    silent = frozenset(question.outstanding.values())
    for name, size in question.sizes.items():
        if name in pacing.line:
            pacing.sizes[name] = None if silent.intersection(question.brokers[name]) else size
    pacing.question = None


# --- views --------------------------------------------------------------------------------------------------------


class PaceView(NamedTuple):
    """The limits, and what waits for its turn."""

    limits: PaceLimits
    waiting: int
    """Topics in the line."""
    waiting_bytes: int | None
    """Their bytes; None: some are not known, or there is no limit on bytes."""
    unknown_sizes: int
    """Topics in the line whose size is not known, while there is a limit on bytes."""
    time_left_ms: int | None
    """Until the last of them begins; None: not known."""


def view(context: Context, now_ms: int) -> PaceView:
    """Return the pace as of now. The cost grows with the number of waiting topics only while bytes are limited."""
    pacing, limits = context.cluster.pacing, context.pace
    waiting = 0 if limits.is_nothing else len(pacing.line)
    unknown = waiting - sum(1 for size in pacing.sizes.values() if size is not None) if limits.bytes else 0
    total = sum(size or 0 for size in pacing.sizes.values()) if limits.bytes and not unknown else None
    left_ms = None
    if not unknown and context.cluster.paused is None:
        left_ms = max(
            _left_ms(pacing.topics.level, pacing.topics.at_ms, waiting, limits.topics, now_ms),
            _left_ms(pacing.bytes.level, pacing.bytes.at_ms, total or 0, limits.bytes, now_ms),
        )
    return PaceView(limits, waiting, total, unknown, left_ms)


def _left_ms(level: int | None, at_ms: int, count: int, rate: int, now_ms: int) -> int:
    if not rate or not count:
        return 0
    have = bucket_capacity(rate) if level is None else level + rate * max(0, now_ms - at_ms)
    return max(0, -(-(count * MICRO - have) // rate))
