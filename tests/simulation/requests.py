"""What brokers and clients ask a controller: an answer comes late, or never, and at most once.

A broker's request goes over the network to the controller that the broker takes for it, a client's as `clients` says.
What that controller's process drops without the core having seen it is answered as the runtime answers it; what a
process that dies has not answered is never answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from lethe.controller.core.effects import HoldRequest, Reply
from lethe.controller.core.events import BrokerRequested, ClientRequested
from lethe.controller.core.requests import refused
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import (
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokersRequest,
    ControlledShutdownResponse,
    ControllerRequest,
    ControllerResponse,
)
from lethe.protocol.vocabulary import LeaderAndIsr
from tests.simulation import leaving
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess

ALTER_PARTITION_VERSION = 3

Then = Callable[[ControllerResponse], None]


class Asked(Protocol):
    """A request that has arrived at a controller process, and whoever waits for its answer."""

    @property
    def request(self) -> ControllerRequest:
        """As the controller is sent it."""
        ...

    def event(self, key: int) -> BrokerRequested | ClientRequested: ...

    def untrue(self, response: ControllerResponse) -> Iterator[str]:
        """What the answer says and is not so."""
        ...

    def answered(self, response: ControllerResponse) -> None: ...

    def lost(self) -> None:
        """The process has died."""
        ...


class Desk:
    """Where one controller process takes requests, and what it owes."""

    def __init__(self, cluster: Cluster, owner: ControllerProcess) -> None:
        self._cluster = cluster
        self._owner = owner
        self._owed: dict[int, Asked] = {}
        self._held_until_ms: dict[int, int] = {}
        self._last_key = 0

    def ask(self, request: BrokersRequest, then: Then) -> None:
        """Send it; `then` is called at most once."""
        if isinstance(request, AlterPartitionRequest):
            _note(self._cluster, request)
        world, mix = self._cluster.world, self._cluster.mix
        link = self._cluster.link(self._owner.id, request.broker_id)
        if not link.is_cut and not world.chance(mix.p_request_lost):
            # The two directions are named by who controls: requests of brokers go against the stream.
            link.down.send(lambda: self.receive(_BrokerAsked(self._cluster, self._owner, request, then)))

    def receive(self, asked: Asked) -> None:
        """A request arrives at the machine."""
        if not self._owner.alive:
            asked.lost()
            return
        self._last_key += 1
        self._owed[self._last_key] = asked
        self._owner.post(asked.event(self._last_key))

    def hold(self, effect: HoldRequest) -> None:
        """The core lets the request wait for brokers."""
        if effect.key not in self._owed:
            raise Violation("replies", f"{self._owner.name}: request {effect.key} is held, and nobody waits")
        self._held_until_ms[effect.key] = self._cluster.world.now_ms + effect.for_ms

    def reply(self, effect: Reply) -> None:
        """The core has answered."""
        asked = self._owed.pop(effect.key, None)
        self._held_until_ms.pop(effect.key, None)
        if asked is None:
            raise Violation("replies", f"{self._owner.name}: request {effect.key} is answered, and nobody waits")
        if not self._owner.context.is_leading and effect.response != refused(asked.request):
            raise Violation("replies", f"{self._owner.name} does not lead, and answers {effect.response}")
        for problem in asked.untrue(effect.response):
            raise Violation("replies", f"{self._owner.name} answers what is not so: {problem}")
        asked.answered(effect.response)

    def dropped(self, event: BrokerRequested | ClientRequested) -> None:
        """The queue it waited in was emptied."""
        self.reply(Reply(event.key, refused(event.request)))

    def die(self) -> None:
        """Nobody is answered any more."""
        owed, self._owed, self._held_until_ms = self._owed, {}, {}
        for asked in owed.values():
            asked.lost()

    def nobody_is_forgotten(self) -> None:
        """A controller with nothing to do lets requests wait only as long as it has said."""
        now_ms = self._cluster.world.now_ms
        for key, asked in self._owed.items():
            until_ms = self._held_until_ms.get(key)
            if until_ms is None or until_ms < now_ms:
                raise Violation(
                    "replies", f"{self._owner.name} has nothing to do, and has not answered {asked.request}"
                )

    def nobody_waits(self) -> None:
        """With nothing left to happen everybody was answered."""
        for asked in self._owed.values():
            raise Violation("replies", f"{self._owner.name} has never answered {asked.request}")


class _BrokerAsked:
    """A request of a broker; where the process dies it hears nothing."""

    def __init__(self, cluster: Cluster, owner: ControllerProcess, request: BrokersRequest, then: Then) -> None:
        self._cluster = cluster
        self._owner = owner
        self._broker = request.broker_id
        self._then = then
        self.request = _as_sent(request)

    def event(self, key: int) -> BrokerRequested:
        return BrokerRequested(key, self.request, ALTER_PARTITION_VERSION)

    def untrue(self, response: ControllerResponse) -> Iterator[str]:
        match response:
            case AlterPartitionResponse():
                yield from _untrue(self._cluster, response)
            case ControlledShutdownResponse():
                yield from leaving.untrue(self._cluster, self._owner, self._broker, response)
            case AllocateProducerIdsResponse():
                yield "producer ids are handed out, and nobody asked for any"
            case _:
                yield f"a broker is answered as if it were a client: {response}"

    def answered(self, response: ControllerResponse) -> None:
        link = self._cluster.link(self._owner.id, self._broker)
        if not link.is_cut and not self._cluster.world.chance(self._cluster.mix.p_answer_lost):
            link.up.send(lambda: self._then(response))

    def lost(self) -> None:
        pass


def _as_sent(request: BrokersRequest) -> BrokersRequest:
    """From version 2 on AlterPartition names topics by their ids alone."""
    if not isinstance(request, AlterPartitionRequest):
        return request
    return replace(request, topics=tuple(topic._replace(topic=None) for topic in request.topics))


def _note(cluster: Cluster, request: AlterPartitionRequest) -> None:
    for topic in request.topics:
        incarnation = cluster.ledger.by_id.get(topic.topic_id) if topic.topic_id is not None else None
        if incarnation is None:
            continue
        for row in topic.partitions:
            incarnation.proposed[row.partition, row.leader_epoch, row.new_isr] = None


def _untrue(cluster: Cluster, response: AlterPartitionResponse) -> Iterator[str]:
    """An ISR that is confirmed was written, under just that version."""
    for topic in response.topics:
        incarnation = cluster.ledger.by_id.get(topic.topic_id) if topic.topic_id is not None else None
        for row in topic.partitions:
            if incarnation is not None and row.error == ErrorCode.NONE:
                written = incarnation.written.get((row.partition, row.partition_epoch))
                if written is None or not _agrees(written, row.leader, row.leader_epoch, row.isr):
                    yield f"{incarnation}: {row}, and what was written is {written}"


def _agrees(written: LeaderAndIsr, leader: int, leader_epoch: int, isr: tuple[int, ...]) -> bool:
    return (written.leader, written.leader_epoch, written.isr) == (leader, leader_epoch, isr)
