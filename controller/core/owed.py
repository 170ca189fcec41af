"""Owed tombstones: the topics' znodes are gone, and these brokers' metadata caches may still show the topics.

A topic's znodes wait for every broker's answer to the tombstone, for at most `tombstone_timeout_ms` (`deletion`). Then
the znodes are removed while the tombstone is in the channel of each silent broker. Such a broker *owes* the answer:

    the broker answers without an error     the debt is settled
    the broker answers with an error        the tombstone is sent again, with growing waits
    the broker registers again              the tombstone is the first request to the new registration: a Kafka broker
                                            that lost only its session still has its cache
    this controller's tenure ends           the debt is lost, and recorded with the names of its topics

A channel is first in, first out, so no later request overtakes the tombstone. An answer with an error takes the
tombstone out of the channel. So `batching` leaves a new topic of the same name out of requests to that broker until the
broker has answered; then the new topic is sent. Replicas are not concerned: they are deleted and acknowledged before
the znodes are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lethe.controller.core.batching import tombstone, update_metadata
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import Debtor, OwedTombstone, Problem, RetryOf
from lethe.controller.core.effects import RetryOwedTombstones
from lethe.controller.core.events import UpdateMetadataAnswered
from lethe.controller.core.mutation import count_retry
from lethe.controller.core.turn import Turn
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import FactType
from lethe.protocol.kafka.control import UpdateMetadataRequest
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.vocabulary import BrokerId, TopicPartition

MAX_OWED_TOPICS: Final = 10_000
"""Limit for one broker. The znodes of further topics wait for the broker's answer."""
NAMES_RECORDED: Final = 20
OWES: Final = "owes tombstones"
ANSWERED: Final = "tombstones answered"
LOST: Final = "telling the broker that topics are gone"
"""The refused action in the fact about a lost debt."""


def have_room(context: Context, brokers: Iterable[BrokerId]) -> bool:
    """Return True if each of these brokers may owe one more tombstone."""
    owed = context.cluster.owed
    return all(broker not in owed or len(owed[broker].topics) < MAX_OWED_TOPICS for broker in brokers)


def note(turn: Turn, name: str) -> tuple[BrokerId, ...]:
    """Store which brokers owe the tombstone of a topic without znodes, and return them.

    To be called while the topic is still in the context."""
    context = turn.context
    cluster = context.cluster
    deletion = cluster.deletions[name]
    brokers = tuple(deletion.owing_tombstone)
    row = tombstone(context, name) if brokers else None
    for broker in brokers:
        assert row is not None
        if broker not in cluster.owed:
            cluster.owed[broker] = Debtor()
            _record(turn, broker, OWES, 1)
        sent = deletion.tombstones[broker]
        cluster.owed[broker].topics[name] = OwedTombstone(turn.now_ms, sent.request_id, row)
    return brokers


def answered(turn: Turn, event: UpdateMetadataAnswered, request: UpdateMetadataRequest) -> None:
    """Settle the debts that this answer is about; after an error, schedule a retry."""
    context, broker = turn.context, event.broker
    debtor = context.cluster.owed.get(broker)
    if debtor is None:
        return
    names = [topic.topic for topic in request.topics if _is_about(debtor, topic.topic, event.request_id)]
    if not names:
        return
    if event.response.error != ErrorCode.NONE:
        what = error_name(event.response.error)
        debtor.problem = problem = Problem.met(debtor.problem, what, turn.now_ms)
        count_retry(context, RetryOf.TOMBSTONE, what)
        config = context.config
        debtor.retry_at_ms = turn.now_ms + BackOff(config.retry_min_ms, config.retry_max_ms).wait_ms(problem.attempts)
        _set_timer(turn, debtor.retry_at_ms)
        return
    for name in names:
        del debtor.topics[name]
    # Problem and retry time stay while the broker owes other topics, which may wait for that time.
    if not debtor.topics:
        del context.cluster.owed[broker]
        _record(turn, broker, ANSWERED, len(names))
    _tell_of_living(turn, broker, names)


def _is_about(debtor: Debtor, name: str, request_id: int) -> bool:
    owed = debtor.topics.get(name)
    return owed is not None and owed.request_id <= request_id


def _tell_of_living(turn: Turn, broker: BrokerId, names: Sequence[str]) -> None:
    """Send the broker the topics that were created meanwhile under these names, and that it has not been sent yet."""
    cluster = turn.context.cluster
    living: list[TopicPartition] = [tp for name in names for tp, _ in cluster.partitions_of(name)]
    if living:
        batch = turn.batch()
        batch.add_update_metadata((broker,), living)
        turn.flush(batch)


# --- sending again ------------------------------------------------------------------------------------------------


def retries_due(turn: Turn) -> None:
    """The timer fired: send tombstones again that brokers have answered with an error."""
    cluster = turn.context.cluster
    for broker, debtor in cluster.owed.items():
        if debtor.retry_at_ms is None or broker not in cluster.brokers:
            continue
        if debtor.retry_at_ms <= turn.now_ms:
            send_again(turn, broker)
        else:
            _set_timer(turn, debtor.retry_at_ms)


def send_again(turn: Turn, broker: BrokerId) -> None:
    """Send a registered broker, in one request, the owed tombstones that are not outstanding."""
    context = turn.context
    debtor = context.cluster.owed.get(broker)
    if debtor is None:
        return
    debtor.retry_at_ms = None
    names = [name for name, owed in debtor.topics.items() if owed.request_id not in context.cluster.outstanding]
    if names:
        turn.send(broker, update_metadata(context, tuple(debtor.topics[name].row for name in names)))
        for name in names:
            debtor.topics[name] = debtor.topics[name]._replace(request_id=context.last_request_id)


def _set_timer(turn: Turn, at_ms: int) -> None:
    set_at_ms = turn.context.timers.get(RetryOwedTombstones())
    if set_at_ms is None or at_ms < set_at_ms:
        turn.set_timer(RetryOwedTombstones(), at_ms)


# --- showing ------------------------------------------------------------------------------------------------------


def record_lost(turn: Turn) -> None:
    """Record the debts that are lost with the tenure."""
    for broker, debtor in turn.context.cluster.owed.items():
        shown = ", ".join(list(debtor.topics)[:NAMES_RECORDED])
        turn.refuse(
            f"broker/{broker}",
            LOST,
            "it has not answered, and this controller's term ends",
            topics=len(debtor.topics),
            names=shown,
        )


def _record(turn: Turn, broker: BrokerId, what: str, topics: int) -> None:
    known = turn.context.cluster.brokers.get(broker)
    epoch = None if known is None else known.epoch
    turn.record(FactType.BROKER, f"broker/{broker}", what=what, broker_epoch=epoch, topics=topics)
