"""The controller's memory of clients' requests that wait until brokers show what was done: see `client_waits`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.protocol.kafka.admin import TopicResponse
from lethe.protocol.kafka.admin_partitions import ElectLeadersResponse
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, TopicId


class PartitionsLed(NamedTuple):
    """These partitions have leaders, and each live broker has acknowledged an UpdateMetadata that shows them."""

    topic: str
    topic_id: TopicId | None
    """Another topic of this name is none of it; None: topics have no ids."""
    partitions: tuple[int, ...]
    leader: int | None = None
    """The replica that is to lead; None: any."""


class TopicDropped(NamedTuple):
    """The topic is out of service, and each live broker has acknowledged its tombstone."""

    topic: str
    created_zxid: int
    """The czxid of its znode."""


AwaitedOutcome = PartitionsLed | TopicDropped
AwaitedResponse = TopicResponse | ElectLeadersResponse


class LastSent(NamedTuple):
    """The last request that was queued for a broker's incarnation when memory had an outcome."""

    broker_epoch: BrokerEpoch
    request_id: int
    is_refused: bool = False
    """The broker has answered one of the requests about these topics, up to this one, with an error."""


@dataclass(slots=True)
class SentOutcomes:
    """Outcomes that memory has, and for which brokers have been sent an UpdateMetadata."""

    outcomes: dict[AwaitedOutcome, None]
    sent: dict[BrokerId, LastSent] = field(default_factory=dict)
    """What each live broker has to answer; it has answered all earlier requests by then."""


@dataclass(slots=True)
class ClientWait:
    """One request that waits."""

    response: AwaitedResponse
    """The answer if all outcomes come in time."""
    deadline_ms: int
    unsent: dict[AwaitedOutcome, None]
    """Outcomes that memory does not have yet; a topic in deletion stays here until brokers answer its tombstones."""
    unacknowledged: list[SentOutcomes] = field(default_factory=list)

    @property
    def pending(self) -> tuple[AwaitedOutcome, ...]:
        """Return the outcomes that are not there yet."""
        sent = (outcome for each in self.unacknowledged for outcome in each.outcomes)
        return (*self.unsent, *sent)
