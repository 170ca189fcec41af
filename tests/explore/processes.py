"""A controller's process around the core: its requests to ZooKeeper and to brokers, and the events that wait for it.

The runtime's queue is one; here every source of events has its own, and the search takes the next event from any of
them. That gives every order in which events of different sources can come, without a queue whose order is part of the
state. Events of one source keep their order: watches of a session, answers of a broker.

A channel has one request in flight, its first, and sends it again until it is answered. So a request that is lost is
one that has not arrived yet, and an answer that is lost puts the request back. When a channel closes, or its process
dies, what is in flight may still arrive: it is a stray then, whose answer nobody hears. Strays come in any order, since
they are on different connections; one that never comes is as good as lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeVar

from lethe.controller.core.effects import (
    CloseChannel,
    DisconnectBrokers,
    Effect,
    OpenChannel,
    ProbeBrokers,
    ReadZnodes,
    RenewSession,
    Send,
    ShowBrokers,
    WriteZnodes,
)
from lethe.controller.core.events import Answer, External, ZnodesWritten
from lethe.protocol.kafka.queries import ChannelRequest
from lethe.protocol.vocabulary import BrokerEpoch
from lethe.protocol.zookeeper.operations import MultiOutcome
from tests.explore.canonical import FORGOTTEN_ID
from tests.explore.contexts import Step

T = TypeVar("T")

NO_PROCESS = -1


class Pending(NamedTuple):
    """A request to ZooKeeper, or a probe, that has no answer yet; a write may take several multis."""

    effect: ReadZnodes | WriteZnodes | ProbeBrokers
    outcomes: tuple[MultiOutcome, ...] = ()


class Queued(NamedTuple):
    """A request in a channel."""

    request_id: int
    request: ChannelRequest


class Channel(NamedTuple):
    """A sender to one broker incarnation; `answer` is that to the first request, on its way to the controller."""

    epoch: BrokerEpoch
    queue: tuple[Queued, ...] = ()
    answer: Answer | None = None


class Stray(NamedTuple):
    """A request in flight whose channel is closed."""

    epoch: BrokerEpoch
    request: ChannelRequest


class Process(NamedTuple):
    """One controller's machine."""

    context: int = NO_PROCESS
    has_session: bool = False
    """It believes so; whether the session is alive, ZooKeeper says."""
    pending: tuple[Pending, ...] = ()
    watches: tuple[External, ...] = ()
    background: tuple[ZnodesWritten, ...] = ()
    """Outcomes of writes in the background, which come as events."""
    channels: tuple[Channel | None, ...] = ()
    strays: tuple[tuple[Stray, ...], ...] = ()
    closes_session: bool = False
    """It has asked for the end of its session, which is the next that happens."""

    @property
    def is_up(self) -> bool:
        return self.context != NO_PROCESS

    @property
    def is_idle(self) -> bool:
        """Nothing is asked of anybody, and no event waits."""
        busy = any(channel is not None and channel.queue for channel in self.channels)
        return not (busy or self.pending or self.watches or self.background)

    def crashed(self) -> Process:
        """The memory is gone, and what was queued; what is in flight may arrive. So may its first request to ZooKeeper,
        until the session ends; the others too, in their order."""
        strays = tuple(_with_stray(strays, channel) for strays, channel in zip(self.strays, self.channels, strict=True))
        none = tuple(None for _ in self.channels)
        written = tuple(each for each in self.pending if isinstance(each.effect, WriteZnodes))
        return Process(pending=written, channels=none, strays=strays)

    def without_session(self) -> Process:
        """The session is gone, and with it what was asked over it, watches included."""
        return self._replace(has_session=False, pending=(), watches=(), closes_session=False)

    def noticing(self, event: External | None) -> Process:
        """A watch fired; nothing where the same event waits already."""
        if event is None or event in self.watches:
            return self
        return self._replace(watches=(*self.watches, event))

    def answered(self, broker: int, answer: Answer | None) -> Process:
        """The first request to the broker has an answer, or has lost it."""
        channel = self.channels[broker]
        assert channel is not None
        return self._with_channel(broker, channel._replace(answer=answer))

    def taken(self, broker: int) -> Process:
        """The answer is taken from the channel, which goes on with the next request."""
        channel = self.channels[broker]
        assert channel is not None
        return self._with_channel(broker, Channel(channel.epoch, channel.queue[1:]))

    def arrived(self, broker: int, stray: Stray) -> Process:
        """The stray is gone."""
        return self.with_strays(broker, tuple(each for each in self.strays[broker] if each is not stray))

    def with_strays(self, broker: int, strays: tuple[Stray, ...]) -> Process:
        return self._replace(strays=_put(self.strays, broker, strays))

    def stepped(self, step: Step, brokers: tuple[int, ...]) -> Process:
        """The core has made a step: what it asks for is queued."""
        channels = tuple(_renamed(channel, step.names) for channel in self.channels)
        pending = tuple(_renamed_pending(each, step.names) for each in self.pending)
        background = tuple(replace(each, id=step.names.get(each.id, FORGOTTEN_ID)) for each in self.background)
        process = self._replace(context=step.context, channels=channels, pending=pending, background=background)
        for effect in step.effects:
            process = process._performed(effect, step.names, brokers)
        return process

    def _performed(self, effect: Effect, names: dict[int, int], brokers: tuple[int, ...]) -> Process:
        match effect:
            case ReadZnodes() | WriteZnodes() | ProbeBrokers():
                asked = Pending(replace(effect, id=names[effect.id]))
                return self._replace(pending=(*self.pending, asked))
            case Send(broker=broker, broker_epoch=epoch, request_id=request_id, request=request):
                at = brokers.index(broker)
                channel = self.channels[at]
                if channel is None or channel.epoch != epoch:
                    return self
                queued = Queued(names.get(request_id, FORGOTTEN_ID), request)
                return self._with_channel(at, channel._replace(queue=(*channel.queue, queued)))
            case OpenChannel(broker=broker, broker_epoch=epoch):
                return self._closed(brokers.index(broker))._with_channel(brokers.index(broker), Channel(epoch))
            case CloseChannel(broker=broker):
                return self._closed(brokers.index(broker))
            case RenewSession():
                return self._replace(closes_session=True)
            case DisconnectBrokers() | ShowBrokers():
                return self
            case _:
                raise NotImplementedError(f"{type(effect).__name__} does not happen in this world")

    def _closed(self, broker: int) -> Process:
        strays = _with_stray(self.strays[broker], self.channels[broker])
        return self.with_strays(broker, strays)._with_channel(broker, None)

    def _with_channel(self, broker: int, channel: Channel | None) -> Process:
        return self._replace(channels=_put(self.channels, broker, channel))


def _put(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _with_stray(strays: tuple[Stray, ...], channel: Channel | None) -> tuple[Stray, ...]:
    if channel is None or not channel.queue or channel.answer is not None:
        return strays
    stray = Stray(channel.epoch, channel.queue[0].request)
    if stray in strays:
        return strays
    return (*strays, stray) if not strays else tuple(sorted((*strays, stray), key=repr))


def _renamed(channel: Channel | None, names: dict[int, int]) -> Channel | None:
    if channel is None or not channel.queue:
        return channel
    queue = tuple(Queued(names.get(each.request_id, FORGOTTEN_ID), each.request) for each in channel.queue)
    answer = channel.answer and replace(channel.answer, request_id=queue[0].request_id)
    return Channel(channel.epoch, queue, answer)


def _renamed_pending(pending: Pending, names: dict[int, int]) -> Pending:
    effect = pending.effect
    return pending._replace(effect=replace(effect, id=names.get(effect.id, FORGOTTEN_ID)))
