"""Owed tombstones: the topics' znodes are gone, and these brokers' metadata caches may still show the topics.

A topic's znodes wait for every broker's answer to the tombstone, for at most `tombstone_timeout_ms` (`deletion`). Then
the znodes are removed while the tombstone is in the channel of each silent broker. Such a broker *owes* the answer:

    the broker answers without an error     the debt is settled
    the broker answers with an error        the tombstone is sent again, with growing waits; if the topic is back from
                                            the trash by then, the topic: the tombstone would drop offsets that groups
                                            have committed since
    the broker registers again              the tombstone is the first request to the new registration: a Kafka broker
                                            that lost only its session still has its cache
    another controller takes over           it sends the tombstones of topics in the trash to every broker, which then
                                            owes them to it; it has no memory of other topics without znodes
    this controller's term ends             the debt is lost, and recorded with the names of its topics

A channel is first in, first out, so no later request overtakes the tombstone. An answer with an error takes the
tombstone out of the channel. So `batching` leaves a new topic of the same name out of requests to that broker until the
broker has answered; then the new topic is sent. Replicas are not concerned: they are deleted and acknowledged before
the znodes are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lethe.controller.core.batching import topic_row, update_metadata
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import (
    METADATA_CACHE,
    DeletionProblem,
    OwedTombstone,
    OwingBroker,
    RetriedAction,
)
from lethe.controller.core.effects import RetryOwedTombstones
from lethe.controller.core.events import UpdateMetadataResponseReceived
from lethe.controller.core.mutation import count_retry
from lethe.controller.core.step_context import StepContext
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import UpdateMetadataRequest, UpdateMetadataTopic
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.vocabulary import BrokerId

MAX_OWED_TOPICS: Final = 10_000
"""Limit for one broker. The znodes of further topics wait for the broker's answer. Topics in the trash do not count:
otherwise a silent broker would hold every deletion up after a takeover."""
NAMES_RECORDED: Final = 20
OWES: Final = "owes tombstones"
ANSWERED: Final = "tombstones answered"
LOST: Final = "telling the broker that topics are gone"
"""The refused action in the event record about a lost debt."""


def have_room(context: Context, brokers: Iterable[BrokerId]) -> bool:
    """Return True if each of these brokers may owe one more tombstone."""
    owed = context.cluster.owed
    return all(
        broker not in owed or len(owed[broker].topics) - owed[broker].in_trash < MAX_OWED_TOPICS for broker in brokers
    )


def expected_by(context: Context, broker: BrokerId) -> frozenset[str]:
    """Return the names of which this controller's tombstones may still reach the broker."""
    cluster = context.cluster
    names = dict.fromkeys(cluster.owed[broker].topics if broker in cluster.owed else ())
    for sent in cluster.outstanding.values():
        if sent.broker == broker and isinstance(sent.request, UpdateMetadataRequest):
            names |= dict.fromkeys(topic.topic for topic in sent.request.topics if topic.is_tombstone)
    return frozenset(names)


def note(step: StepContext, name: str) -> tuple[BrokerId, ...]:
    """Store which brokers owe the tombstone of a topic without znodes, and return them.

    To be called while the topic is still in the context."""
    context = step.context
    cluster = context.cluster
    deletion = cluster.deletions[name]
    brokers = tuple(deletion.owing_tombstone)
    row = topic_row(context, name) if brokers else None
    for broker in brokers:
        assert row is not None
        if broker not in cluster.owed:
            cluster.owed[broker] = OwingBroker()
            _record(step, broker, OWES, 1)
        sent = deletion.owing_tombstone[broker]
        _store(cluster.owed[broker], name, OwedTombstone(step.now_ms, sent.request_id, row))
        refused = deletion.problems.get((METADATA_CACHE, broker))
        if refused is not None and sent.request_id not in cluster.outstanding:
            # The error came while the znodes were removed.
            _retry_later(step, cluster.owed[broker], refused.what)
    return brokers


def note_sent(step: StepContext, broker: BrokerId, rows: Sequence[UpdateMetadataTopic]) -> None:
    """Store these tombstones, of topics without znodes, as owed by the broker; the latest request carries them."""
    owed = step.context.cluster.owed
    if broker not in owed:
        owed[broker] = OwingBroker()
        _record(step, broker, OWES, len(rows))
    for row in rows:
        sent = OwedTombstone(step.now_ms, step.context.last_request_id, row, in_trash=True)
        _store(owed[broker], row.topic, sent)


def _store(owing_broker: OwingBroker, name: str, tombstone: OwedTombstone) -> None:
    _drop(owing_broker, name)
    owing_broker.topics[name] = tombstone
    owing_broker.in_trash += tombstone.in_trash


def _drop(owing_broker: OwingBroker, name: str) -> None:
    before = owing_broker.topics.pop(name, None)
    owing_broker.in_trash -= before is not None and before.in_trash


def answered(step: StepContext, event: UpdateMetadataResponseReceived, request: UpdateMetadataRequest) -> None:
    """Settle the debts that this answer is about; after an error, schedule a retry."""
    context, broker = step.context, event.broker
    owing_broker = context.cluster.owed.get(broker)
    if owing_broker is None:
        return
    names = [topic.topic for topic in request.topics if _is_about(owing_broker, topic.topic, event.request_id)]
    if not names:
        return
    if event.response.error != ErrorCode.NONE:
        what = error_name(event.response.error)
        count_retry(context, RetriedAction.TOMBSTONE, what)
        _retry_later(step, owing_broker, what)
        return
    for name in names:
        _drop(owing_broker, name)
    # Problem and retry time stay while the broker owes other topics, which may wait for that time.
    if not owing_broker.topics:
        del context.cluster.owed[broker]
        _record(step, broker, ANSWERED, len(names))
    _send_recreated_topics(step, broker, names)


def _retry_later(step: StepContext, owing_broker: OwingBroker, what: str) -> None:
    owing_broker.problem = problem = DeletionProblem.met(owing_broker.problem, what, step.now_ms)
    config = step.context.config
    wait_ms = BackOff(config.retry_min_ms, config.retry_max_ms).wait_ms(problem.attempts)
    owing_broker.retry_at_ms = step.now_ms + wait_ms
    _set_timer(step, owing_broker.retry_at_ms)


def _is_about(owing_broker: OwingBroker, name: str, request_id: int) -> bool:
    owed = owing_broker.topics.get(name)
    return owed is not None and owed.request_id <= request_id


def _send_recreated_topics(step: StepContext, broker: BrokerId, names: Sequence[str]) -> None:
    """Send the broker the topics that were created meanwhile under these names, and that it has not been sent yet.

    A topic that is deleted from the trash has been sent: its second tombstone waits in the channel. Another one in its
    place would make the deletion wait for one more answer."""
    cluster = step.context.cluster
    living = cluster.all_of(name for name in names if not _has_tombstone(cluster, name, broker))
    if any(living.values()):
        batch = step.batch()
        batch.add_update_metadata((broker,), living)
        step.flush(batch)


def _has_tombstone(cluster: ClusterState, name: str, broker: BrokerId) -> bool:
    """Return True if the topic is queued for deletion, and this broker was sent its tombstone, answered or not."""
    sent = cluster.deletions[name].tombstones if cluster.is_queued(name) else None
    return sent is not None and (broker in sent.owing or broker in sent.answered)


# --- sending again ------------------------------------------------------------------------------------------------


def retries_due(step: StepContext) -> None:
    """The timer fired: send tombstones again that brokers have answered with an error."""
    cluster = step.context.cluster
    for broker, owing_broker in cluster.owed.items():
        if owing_broker.retry_at_ms is None or broker not in cluster.brokers:
            continue
        if owing_broker.retry_at_ms <= step.now_ms:
            send_again(step, broker)
        else:
            _set_timer(step, owing_broker.retry_at_ms)


def send_again(step: StepContext, broker: BrokerId) -> None:
    """Send a registered broker, in one request, the owed tombstones that are not outstanding."""
    context = step.context
    owing_broker = context.cluster.owed.get(broker)
    if owing_broker is None:
        return
    owing_broker.retry_at_ms = None
    names = [name for name, owed in owing_broker.topics.items() if owed.request_id not in context.cluster.outstanding]
    if names:
        step.send(
            broker, update_metadata(context, tuple(_row(context, owing_broker.topics[name].row) for name in names))
        )
        for name in names:
            owing_broker.topics[name] = owing_broker.topics[name]._replace(request_id=context.last_request_id)


def _row(context: Context, row: UpdateMetadataTopic) -> UpdateMetadataTopic:
    """Return this tombstone, or the topic in its place if it is back from the trash."""
    cluster, name = context.cluster, row.topic
    topic = cluster.topics.get(name)
    is_same = topic is not None and topic.id is not None and topic.id == row.topic_id
    return topic_row(context, name) if is_same and not cluster.is_queued(name) else row


def _set_timer(step: StepContext, at_ms: int) -> None:
    set_at_ms = step.context.timers.get(RetryOwedTombstones())
    if set_at_ms is None or at_ms < set_at_ms:
        step.set_timer(RetryOwedTombstones(), at_ms)


# --- showing ------------------------------------------------------------------------------------------------------


def record_lost(step: StepContext) -> None:
    """Record the debts that are lost with the term."""
    for broker, owing_broker in step.context.cluster.owed.items():
        shown = ", ".join(list(owing_broker.topics)[:NAMES_RECORDED])
        step.refuse(
            f"broker/{broker}",
            LOST,
            "it has not answered, and this controller's term ends",
            topics=len(owing_broker.topics),
            names=shown,
        )


def _record(step: StepContext, broker: BrokerId, what: str, topics: int) -> None:
    known = step.context.cluster.brokers.get(broker)
    epoch = None if known is None else known.epoch
    step.record(EventRecordType.BROKER, f"broker/{broker}", what=what, broker_epoch=epoch, topics=topics)
