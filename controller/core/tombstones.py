"""Which brokers have answered the tombstones of queued topics.

A tombstone goes to every broker, for many topics in one request, so topics with the same history share one
`TombstoneRound`: a request and its answer cost the same for one topic as for thousands.

    topics first sent together          one new round for them
    a later request has all its topics  the round is changed
    a later request has some of them    these get a round of their own first
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lethe.controller.core.deletion_memory import Deletion, Tombstone, TombstoneRound
from lethe.controller.core.events import UpdateMetadataResponseReceived
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId


def note_sent(
    deletions: dict[str, Deletion], names: Iterable[str], broker: BrokerId, epoch: BrokerEpoch, request_id: int
) -> None:
    """Store that this request has the tombstones of those of these topics that are queued."""
    sent = Tombstone(epoch, request_id)
    for shared, topics in by_round(deletions, names):
        if shared is not None and _has_answered(shared, broker, epoch):
            continue
        of_all = (
            shared if shared is not None and len(topics) == len(shared.topics) else _round(deletions, shared, topics)
        )
        of_all.answered.pop(broker, None)
        of_all.owing[broker] = sent


def is_answered_by(shared: TombstoneRound, event: UpdateMetadataResponseReceived) -> bool:
    """Return whether this answer is about these tombstones.

    It is not if its request was sent before the topics were queued, or a later tombstone has replaced it."""
    sent = shared.owing.get(event.broker) or shared.answered.get(event.broker)
    return sent is not None and sent.broker_epoch == event.broker_epoch and sent.request_id <= event.request_id


def note_answered(shared: TombstoneRound, broker: BrokerId) -> None:
    """Store that the broker has answered these tombstones without an error."""
    if (sent := shared.owing.pop(broker, None)) is not None:
        shared.answered[broker] = sent


def forget_broker(deletions: dict[str, Deletion], broker: BrokerId) -> None:
    """Drop what the broker's former incarnation was sent."""
    for shared, _ in by_round(deletions, deletions):
        if shared is not None:
            shared.owing.pop(broker, None)
            shared.answered.pop(broker, None)


def by_round(
    deletions: dict[str, Deletion], names: Iterable[str]
) -> Iterator[tuple[TombstoneRound | None, Sequence[str]]]:
    """Yield the rounds of those of these topics that are queued, with these topics; None: no tombstone was sent yet."""
    found: dict[int, tuple[TombstoneRound | None, list[str]]] = {}
    last: TombstoneRound | None = None
    topics: list[str] = []
    for name in names:
        deletion = deletions.get(name)
        if deletion is None:
            continue
        if not topics or deletion.tombstones is not last:
            last = deletion.tombstones
            _, topics = found.setdefault(id(last), (last, []))
        topics.append(name)
    yield from found.values()


def _round(deletions: dict[str, Deletion], shared: TombstoneRound | None, topics: Sequence[str]) -> TombstoneRound:
    """Give these topics a round of their own, with the history of the round that they leave."""
    own = TombstoneRound(dict.fromkeys(topics))
    if shared is not None:
        own.owing.update(shared.owing)
        own.answered.update(shared.answered)
    for name in topics:
        deletions[name].tombstones = own
        if shared is not None:
            del shared.topics[name]
    return own


def _has_answered(shared: TombstoneRound, broker: BrokerId, epoch: BrokerEpoch) -> bool:
    known = shared.answered.get(broker)
    return known is not None and known.broker_epoch == epoch
