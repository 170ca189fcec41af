"""What brokers ask their controller, over the network: an answer comes late, or never, and at most once.

The request goes to the controller that the asker takes for it. What that controller's process drops without the core
having seen it is answered as the runtime answers it; what a process that dies has not answered is never answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from lethe.controller.core.effects import Reply
from lethe.controller.core.events import BrokerRequested
from lethe.controller.core.requests import refused
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import (
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokersRequest,
    ControlledShutdownResponse,
    ControllerResponse,
)
from lethe.protocol.vocabulary import LeaderAndIsr
from tests.simulation import leaving
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess
    from tests.simulation.network import Link

ALTER_PARTITION_VERSION = 3

Then = Callable[[ControllerResponse], None]


class Desk:
    """Where one controller process takes requests, and what it owes."""

    def __init__(self, cluster: Cluster, owner: ControllerProcess) -> None:
        self._cluster = cluster
        self._owner = owner
        self._owed: dict[int, tuple[BrokersRequest, Link, Then]] = {}
        self._last_key = 0

    def ask(self, request: BrokersRequest, then: Then) -> None:
        """Send it; `then` is called at most once."""
        if isinstance(request, AlterPartitionRequest):
            _note(self._cluster, request)
        world, mix = self._cluster.world, self._cluster.mix
        link = self._cluster.link(self._owner.id, request.broker_id)
        if not link.is_cut and not world.chance(mix.p_request_lost):
            # The two directions are named by who controls: requests of brokers go against the stream.
            link.down.send(lambda: self._arrive(request, link, then))

    def _arrive(self, request: BrokersRequest, link: Link, then: Then) -> None:
        if not self._owner.alive:
            return
        self._last_key += 1
        self._owed[self._last_key] = (request, link, then)
        self._owner.post(BrokerRequested(self._last_key, _as_sent(request), ALTER_PARTITION_VERSION))

    def reply(self, effect: Reply) -> None:
        """The core has answered."""
        owed = self._owed.pop(effect.key, None)
        if owed is None:
            raise Violation("replies", f"{self._owner.name}: request {effect.key} is answered, and nobody waits")
        request, link, then = owed
        if not self._owner.context.is_leading and effect.response != refused(_as_sent(request)):
            raise Violation("replies", f"{self._owner.name} does not lead, and answers {effect.response}")
        for problem in self._untrue(request, effect.response):
            raise Violation("replies", f"{self._owner.name} answers what is not so: {problem}")
        if not link.is_cut and not self._cluster.world.chance(self._cluster.mix.p_answer_lost):
            link.up.send(lambda: then(effect.response))

    def _untrue(self, request: BrokersRequest, response: ControllerResponse) -> Iterator[str]:
        match response:
            case AlterPartitionResponse():
                yield from _untrue(self._cluster, response)
            case ControlledShutdownResponse():
                yield from leaving.untrue(self._cluster, self._owner, request.broker_id, response)
            case AllocateProducerIdsResponse():
                raise Violation("replies", f"{self._owner.name} hands out producer ids, and nobody asked for any")
            case _:
                raise Violation("replies", f"{self._owner.name} answers a broker as if it were a client: {response}")

    def dropped(self, event: BrokerRequested) -> None:
        """The queue it waited in was emptied."""
        self.reply(Reply(event.key, refused(event.request)))

    def die(self) -> None:
        """Nobody is answered any more."""
        self._owed.clear()

    @property
    def owes(self) -> tuple[int, ...]:
        """Requests that are not answered."""
        return tuple(self._owed)


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
