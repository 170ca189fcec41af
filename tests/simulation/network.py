"""The connections between controllers and agents, and the channels that send over them.

Theory of operation. A channel does what the runtime's does: one request in flight, always the same content, sent again
until it is answered or the channel is closed; a large one goes in parts, which are answered one by one. Between one
controller and one broker everything arrives in the order in which it was sent, also across reconnects. A request that
was sent may arrive although its sender has given it up, died or been deposed; it may arrive twice; its answer may come
late, or never.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from lethe.controller.core.effects import OpenChannel, ProbeBrokers, Send
from lethe.controller.core.events import (
    Answer,
    LeaderAndIsrResponseReceived,
    LogDirsDescribed,
    PartAnswered,
    ProbeOutcome,
    ProbesCompleted,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from lethe.protocol.kafka import parts
from lethe.protocol.kafka.control import (
    Addressed,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from lethe.protocol.kafka.queries import (
    ChannelRequest,
    ChannelResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from lethe.protocol.kafka.versions import control_versions
from lethe.protocol.vocabulary import NO_EPOCH, BrokerId
from tests.simulation import departures, silences
from tests.simulation.ledger import Incarnation
from tests.simulation.shared_contents import TombstonesOf
from tests.simulation.world import Pipe

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess

FIRST_BACK_OFF_MS = 20
LAST_BACK_OFF_MS = 400


class Link:
    """The network between one controller's machine and one broker's."""

    def __init__(self, cluster: Cluster) -> None:
        self.up = Pipe(cluster.world, cluster.mix.network_ms)
        self.down = Pipe(cluster.world, cluster.mix.network_ms)
        self.is_cut = False


class _Burial(NamedTuple):
    """Tombstones of these topics were queued at that time in one request."""

    at_ms: int
    request_id: int
    topics: TombstonesOf


class Channel:
    """A sender to one broker incarnation."""

    def __init__(self, cluster: Cluster, owner: ControllerProcess, effect: OpenChannel) -> None:
        self.closed = False
        self.effect = effect
        self._cluster = cluster
        self._world = cluster.world
        self._owner = owner
        self._link = cluster.link(owner.id, effect.broker)
        self._queue: deque[Send] = deque()
        self._in_flight: Send | None = None
        self._parts: deque[ChannelRequest] = deque()
        """What of it is not answered yet; the first is sent."""
        self._answers: list[ChannelResponse] = []
        self._burials: list[_Burial] = []
        self._attempt = 0
        self._failures = 0

    @property
    def is_idle(self) -> bool:
        return self._in_flight is None and not self._queue

    def put(self, send: Send) -> None:
        """Queue a request behind the others."""
        if isinstance(send.request, UpdateMetadataRequest) and (
            buried := self._cluster.shared.tombstones_in(send.request)
        ):
            self._burials.append(_Burial(self._world.now_ms, send.request_id, buried))
        self._queue.append(send)
        self.next()

    def first_told_ms(self, incarnation: Incarnation) -> int | None:
        """When the first tombstone of this topic was queued here; None: none was."""
        key = (incarnation.name, incarnation.topic_id)
        return next((each.at_ms for each in self._burials if key in each.topics), None)

    def holds_tombstone_of(self, incarnation: Incarnation) -> bool:
        """One is queued or in flight, or the controller has yet to take in its answer."""
        key = (incarnation.name, incarnation.topic_id)
        return any(key in topics for topics in self.tombstones_held(self._owner.unread_metadata_answers()))

    def tombstones_held(self, unread: Collection[int]) -> tuple[TombstonesOf, ...]:
        """Those that are queued or in flight, or whose answer is among the `unread` ones, by request."""
        in_flight = () if self._in_flight is None else (self._in_flight,)
        held = {send.request_id for send in (*in_flight, *self._queue)}
        return tuple(each.topics for each in self._burials if each.request_id in held or each.request_id in unread)

    def holds_deletion_of(self, incarnation: Incarnation, partition: int) -> bool:
        """A StopReplica that deletes this replica is queued or in flight."""
        in_flight = () if self._in_flight is None else (self._in_flight,)
        return any(
            topic.topic == incarnation.name and row.partition == partition and row.delete
            for send in (*in_flight, *self._queue)
            if isinstance(send.request, StopReplicaRequest)
            for topic in send.request.topics
            for row in topic.partitions
        )

    def next(self) -> None:
        """Send the next request, if nothing is in flight; a process that is paused sends nothing."""
        if self._in_flight is None and self._queue and not self.closed and not self._owner.paused:
            self._in_flight = self._queue.popleft()
            self._parts = deque(
                self._cluster.shared.parts_of(self._in_flight.request, self._cluster.mix.max_request_bytes)
            )
            self._answers = []
            self._send()

    def close(self) -> None:
        """Give up what is queued. What has been sent may still arrive; its answer is not heard."""
        self.closed = True
        self._queue.clear()
        self._in_flight = None
        departures.orders_lost(self._cluster, self.effect.broker)

    # --- one attempt -----------------------------------------------------------------------------------------------

    def _send(self) -> None:
        mix, world = self._cluster.mix, self._world
        if self._in_flight is None or self.closed:
            return
        send = self._in_flight._replace(request=self._parts[0])
        self._attempt += 1
        attempt = self._attempt
        agent = self._cluster.agents.get(send.broker)
        if agent is not None and isinstance(send.request, DescribeLogDirsRequest):
            self._repair_perhaps(agent)
        if agent is None or not agent.is_listening or self._link.is_cut or world.chance(mix.p_refused):
            world.after(world.between(*mix.network_ms), lambda: self._failed(attempt))
            return
        if not world.chance(mix.p_request_lost):
            self._link.up.send(lambda: self._arrive(send, attempt))
        if world.chance(mix.p_sent_twice):
            # The connection breaks after the request has gone out: it is sent again though it will arrive.
            world.after(world.between(0, 2 * mix.network_ms[1]), lambda: self._failed(attempt))
        world.after(mix.request_timeout_ms, lambda: self._failed(attempt))

    def _repair_perhaps(self, agent: AgentProcess) -> None:
        """Somebody repairs the disk and restarts the broker just before it is asked for its log directories."""
        if agent.disk.broken and self._cluster.mix.fault_weights and self._world.chance(0.3):
            self._world.note(agent.name, "is repaired just before a look")
            agent.crash(session_expires_after_ms=0)
            agent.disk.repair()
            self._cluster.restart_later(agent, after_ms=1)

    def _arrive(self, send: Send, attempt: int) -> None:
        agent = self._cluster.agents[send.broker]
        if not agent.is_listening:
            self._link.down.send(lambda: self._failed(attempt))
            return

        def answer(response: ChannelResponse | None) -> None:
            if response is None:
                self._link.down.send(lambda: self._failed(attempt))
            elif not self._world.chance(self._cluster.mix.p_answer_lost) and not self._link.is_cut:
                self._link.down.send(lambda: self._answered(send, response, attempt))

        if isinstance(send.request, DescribeLogDirsRequest):
            # Whoever listens there now answers: the question names no incarnation.
            if not agent.is_silent:
                answer(agent.describe_log_dirs(send.request))
            return
        addressed = Addressed(send.request, send.broker_epoch)
        refusal = silences.refuses(agent, addressed)
        if refusal is not None:
            answer(refusal)
        elif not agent.is_silent:
            self._cluster.authority.deliver(self._owner.id, agent, addressed, answer)

    def _answered(self, send: Send, response: ChannelResponse, attempt: int) -> None:
        if self.closed or attempt != self._attempt or self._in_flight is None:
            return
        if self._owner.paused:
            self._owner.when_resumed(lambda: self._answered(send, response, attempt))
            return
        self._failures = 0
        self._parts.popleft()
        self._answers.append(response)
        if self._parts:
            self._owner.post(PartAnswered(*send[:3], response.error))
            self._send()
            return
        self._in_flight = None
        ids = control_versions(self._cluster.mix.ibp).leader_and_isr >= 5
        self._owner.post(_event(send, parts.merged(self._answers), topics_by_id=ids))
        self.next()

    def _failed(self, attempt: int) -> None:
        if self.closed or attempt != self._attempt or self._in_flight is None:
            return
        if self._owner.paused:
            self._owner.when_resumed(lambda: self._failed(attempt))
            return
        self._attempt += 1
        wait_ms = min(LAST_BACK_OFF_MS, FIRST_BACK_OFF_MS << min(self._failures, 10))
        self._failures += 1
        self._world.after(wait_ms, self._again)

    def _again(self) -> None:
        if self._owner.paused:
            self._owner.when_resumed(self._again)
        else:
            self._send()


class Probing:
    """Each broker is asked once; who has not answered in time is silent."""

    def __init__(self, cluster: Cluster, owner: ControllerProcess, effect: ProbeBrokers, run: int) -> None:
        self._cluster = cluster
        self._owner = owner
        self._effect = effect
        self._run = run
        self._errors: dict[BrokerId, int] = {}
        self._done = False

    def start(self) -> None:
        """Ask them all."""
        mix = self._cluster.mix
        for target in self._effect.targets:
            self._ask(target.broker)
        self._cluster.world.after(mix.request_timeout_ms, self._finish)

    def _ask(self, broker: BrokerId) -> None:
        mix, world = self._cluster.mix, self._cluster.world
        link, agent = self._cluster.link(self._owner.id, broker), self._cluster.agents.get(broker)
        if agent is None or not agent.is_listening or link.is_cut or world.chance(mix.p_refused):
            return

        def answer(response: ChannelResponse | None) -> None:
            if response is not None and not link.is_cut and not world.chance(mix.p_answer_lost):
                link.down.send(lambda: self._answered(broker, response.error))

        def arrive() -> None:
            if agent.is_listening:
                addressed = Addressed(self._effect.request, NO_EPOCH)
                self._cluster.authority.deliver(self._owner.id, agent, addressed, answer)

        if not world.chance(mix.p_request_lost):
            link.up.send(arrive)

    def _answered(self, broker: BrokerId, error: int) -> None:
        self._errors[broker] = error
        if len(self._errors) == len(self._effect.targets):
            self._finish()

    def _finish(self) -> None:
        if self._done:
            return
        self._done = True
        outcomes = tuple(
            ProbeOutcome(each.broker, self._errors.get(each.broker), "no answer in time")
            for each in self._effect.targets
        )
        self._owner.result(ProbesCompleted(self._effect.id, outcomes), self._run)


def _event(send: Send, response: ChannelResponse, *, topics_by_id: bool) -> Answer:
    """The answer as it comes off the wire: LeaderAndIsr names topics by id from version 5 on, and by name before."""
    broker, epoch, request_id, _ = send
    match response:
        case LeaderAndIsrResponse(error, topics):
            kept = tuple(each._replace(topic=None) if topics_by_id else each._replace(topic_id=None) for each in topics)
            return LeaderAndIsrResponseReceived(broker, epoch, request_id, LeaderAndIsrResponse(error, kept))
        case UpdateMetadataResponse():
            return UpdateMetadataResponseReceived(broker, epoch, request_id, response)
        case StopReplicaResponse():
            return StopReplicaResponseReceived(broker, epoch, request_id, response)
        case DescribeLogDirsResponse():
            return LogDirsDescribed(broker, epoch, request_id, response)
