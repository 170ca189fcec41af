"""Channels to the brokers: one sender task each, first in first out, one request in flight.

A queued request is sent until the broker answers it, always with the same content, as long as the channel is open. A
broker registers before it listens, so a refused connection is no reason to stop. Every failed attempt closes the
connection and waits: 100 ms at first, then twice as long each time, up to 5 s. An answer resets the wait.

    attempt                               reason         next step
    connection refused                    unreachable    wait, connect, send again
    login failed                          login          the same
    no TLS                                tls            the same
    connection closed before the answer   lost           the same
    no answer within the request timeout  timeout        the same
    undecodable or unrelated answer       garbage        the same

Closing the channel drops its queue; no answer to these requests reaches the core.

DescribeLogDirs is the exception, since it is only a question. A broker that closes the connection on it must still get
the requests queued behind it. After `MAX_UNANSWERED_QUESTIONS` such attempts it counts as answered with an error.

A request to many brokers is encoded once (`bodies`), and only the broker epoch is set in each frame. One with too many
rows for a frame is sent in parts (`parts`), each until it is answered; their answers reach the core as one.

The queues have no limit, by decision. A request cannot be dropped, because later ones depend on it. It cannot be
refused, because the core has already changed the state that it announces. A queue ends with the broker's session, which
closes the channel, and bodies are shared, so one stuck broker among many costs no copies. A broker that keeps its
session without answering shows as a growing backlog in the metrics. The log has a warning each time the backlog
doubles.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, assert_never

from lethe.adapters.kafka.client import AuthenticationRefused, ConnectionFailed, RequestTimedOut, TlsFailed
from lethe.adapters.logs import fields
from lethe.controller.core.effects import OpenChannel, Send
from lethe.controller.core.events import (
    Answer,
    LeaderAndIsrResponseReceived,
    LogDirsDescribed,
    PartAnswered,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from lethe.controller.runtime.bodies import SharedBody
from lethe.controller.runtime.metrics import ChannelCounts, ChannelView
from lethe.protocol.back_off import BackOff
from lethe.protocol.kafka.codec import EncodedBody
from lethe.protocol.kafka.control import (
    ApiKey,
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.kafka.parts import DEFAULT_MAX_BYTES, merged
from lethe.protocol.kafka.queries import ChannelResponse, DescribeLogDirsResponse, api_of_sent
from lethe.protocol.kafka.versions import InterBrokerProtocol, control_versions
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, Endpoint

logger = logging.getLogger(__name__)

FIRST_WARNING_BYTES: Final = 64 * 1024 * 1024
MAX_PROBLEM_CHARS: Final = 300
MAX_UNANSWERED_QUESTIONS: Final = 3
"""Failed attempts of DescribeLogDirs at a reachable broker before it counts as an error."""
NO_ACCESS: Final = ("login", "tls")
"""Reasons that end when a certificate, a user or a password changes."""
DEFAULT_BACK_OFF: Final = BackOff(100, 5_000)


class BrokerConnection(Protocol):
    """One connection to a broker, such as `adapters.kafka.client.KafkaConnection`."""

    @property
    def is_open(self) -> bool:
        """False once the broker has closed its end."""

    async def send_body(self, body: EncodedBody, broker_epoch: BrokerEpoch) -> ChannelResponse:
        """Send one request and return its answer. Raises ClientError and ProtocolError, after which it is closed."""
        ...

    async def close(self) -> None: ...


Connect = Callable[[Endpoint], Awaitable[BrokerConnection]]
"""Opens a connection; raises ConnectionFailed."""
Deliver = Callable[[Answer | PartAnswered], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """Settings of all channels; times in milliseconds. The connection limits the time of one attempt."""

    ibp: InterBrokerProtocol
    max_request_bytes: int = DEFAULT_MAX_BYTES
    back_off: BackOff = DEFAULT_BACK_OFF
    log_every_ms: int = 10_000


class ChannelProblem(NamedTuple):
    """Why the requests of a channel fail at present."""

    reason: str
    """`unreachable`, `login`, `tls`, `lost`, `timeout` or `garbage`."""
    what: str
    attempts: int
    lasts_ms: int

    @property
    def has_no_access(self) -> bool:
        """True where TLS or the login fails, whatever the broker does."""
        return self.reason in NO_ACCESS


@dataclass(slots=True)
class _Waiting:
    send: Send
    body: SharedBody
    size_bytes: int
    """Its share of the backlog."""
    since_s: float


class _Channel:
    """Channel to one broker incarnation."""

    def __init__(
        self,
        effect: OpenChannel,
        settings: ChannelSettings,
        connect: Connect,
        deliver: Deliver,
    ) -> None:
        self.effect = effect
        self.counts = ChannelCounts()
        self.task: asyncio.Task[None] | None = None
        self._settings = settings
        self._connect = connect
        self._deliver = deliver
        self._waiting: deque[_Waiting] = deque()
        self._in_flight: _Waiting | None = None
        self._filled = asyncio.Event()
        self._wire: BrokerConnection | None = None
        self._failures = 0
        self._problem: tuple[str, str] | None = None
        self._failing_since_s = 0.0
        self._logged_at_s = 0.0
        self._warn_bytes = FIRST_WARNING_BYTES

    def put(self, send: Send, body: SharedBody) -> None:
        """Append a request to the queue."""
        waiting = _Waiting(send, body, body.size_bytes, time.monotonic())
        self._waiting.append(waiting)
        self.counts.queue_size += 1
        self.counts.backlog_bytes += waiting.size_bytes
        self._filled.set()
        if self.counts.backlog_bytes >= self._warn_bytes:
            self._warn_bytes *= 2
            logger.warning(
                "broker %d does not take its requests: %d wait, about %d MiB",
                self.effect.broker,
                self.counts.queue_size,
                self.counts.backlog_bytes >> 20,
                extra=fields(broker=self.effect.broker),
            )

    def problem(self) -> ChannelProblem | None:
        """Return the latest failure; None once a request was answered since."""
        if self._problem is None:
            return None
        return ChannelProblem(*self._problem, self._failures, int((time.monotonic() - self._failing_since_s) * 1000))

    def view(self) -> ChannelView:
        """Return the values for metrics."""
        oldest = self._in_flight or (self._waiting[0] if self._waiting else None)
        age_s = 0.0 if oldest is None else time.monotonic() - oldest.since_s
        failing_s = 0.0 if self._problem is None else time.monotonic() - self._failing_since_s
        return ChannelView(self.effect.broker, self.counts, age_s, failing_s)

    async def run(self) -> None:
        """Send queued requests until cancelled. Raises Unencodable, a fault of the controller."""
        try:
            while True:
                await self._filled.wait()
                await self._deliver(await self._answer_to(self._take()))
        finally:
            await self._hang_up()

    def _take(self) -> _Waiting:
        current = self._waiting.popleft()
        if not self._waiting:
            self._filled.clear()
            self._warn_bytes = FIRST_WARNING_BYTES
        self.counts.queue_size -= 1
        self.counts.backlog_bytes -= current.size_bytes
        self.counts.queue_time_ms.add((time.monotonic() - current.since_s) * 1000)
        return current

    async def _answer_to(self, current: _Waiting) -> Answer:
        """Send each part until it is answered. The request is released then: large ones take tens of megabytes."""
        self._in_flight = current
        responses: list[ChannelResponse] = []
        for body in await current.body.encoded():
            if responses:
                await self._deliver(PartAnswered(*current.send[:3], responses[-1].error))
            self.counts.oversized += current.body.is_oversized(body)
            responses.append(await self._until_answered(current.send, body))
        self._in_flight = None
        return _answer(current.send, merged(responses))

    async def _until_answered(self, send: Send, body: EncodedBody) -> ChannelResponse:
        unanswered = 0
        while True:
            try:
                response = await self._attempt(send, body)
            except ProtocolError as error:
                reason, problem = "garbage", str(error)
            except RequestTimedOut as error:
                reason, problem = "timeout", str(error)
            except ConnectionFailed as error:
                reason, problem = _reason(error, was_open=self._wire is not None), str(error)
            else:
                self._failures, self._problem = 0, None
                return response
            await self._back_off(body, reason, problem)
            unanswered += reason not in ("unreachable", *NO_ACCESS)
            if body.api is ApiKey.DESCRIBE_LOG_DIRS and unanswered >= MAX_UNANSWERED_QUESTIONS:
                return DescribeLogDirsResponse((), ErrorCode.UNKNOWN_SERVER_ERROR)

    async def _attempt(self, send: Send, body: EncodedBody) -> ChannelResponse:
        wire = self._wire
        if wire is None or not wire.is_open:
            await self._hang_up()
            wire = self._wire = await self._connect(self.effect.endpoint)
        started_s = time.monotonic()
        response = await wire.send_body(body, send.broker_epoch)
        self.counts.note_latency(body.api.name, time.monotonic() - started_s)
        return response

    async def _back_off(self, body: EncodedBody, reason: str, problem: str) -> None:
        await self._hang_up()
        self._failures += 1
        self.counts.note_retry(reason)
        now_s = time.monotonic()
        self._failing_since_s = now_s if self._problem is None else self._failing_since_s
        self._problem = (reason, problem[:MAX_PROBLEM_CHARS])
        if not self._logged_at_s or (now_s - self._logged_at_s) * 1000 >= self._settings.log_every_ms:
            self._logged_at_s = now_s
            endpoint = self.effect.endpoint
            logger.warning(
                "%s to broker %d at %s:%d failed (%s), trying again: %s",
                body.api.name,
                self.effect.broker,
                endpoint.host,
                endpoint.port,
                reason,
                problem,
                extra=fields(broker=self.effect.broker, attempts=self._failures),
            )
        await asyncio.sleep(self._settings.back_off.wait_ms(self._failures) / 1000)

    async def _hang_up(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()


def _reason(error: ConnectionFailed, *, was_open: bool) -> str:
    if isinstance(error, AuthenticationRefused):
        return "login"
    if isinstance(error, TlsFailed):
        return "tls"
    return "lost" if was_open else "unreachable"


def _answer(send: Send, response: ChannelResponse) -> Answer:
    match response:
        case LeaderAndIsrResponse():
            return LeaderAndIsrResponseReceived(send.broker, send.broker_epoch, send.request_id, response)
        case UpdateMetadataResponse():
            return UpdateMetadataResponseReceived(send.broker, send.broker_epoch, send.request_id, response)
        case StopReplicaResponse():
            return StopReplicaResponseReceived(send.broker, send.broker_epoch, send.request_id, response)
        case DescribeLogDirsResponse():
            return LogDirsDescribed(send.broker, send.broker_epoch, send.request_id, response)
        case _:
            assert_never(response)


class Channels:
    """All channels of a controller. Their tasks belong to the task group of the composition root."""

    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        settings: ChannelSettings,
        connect: Connect,
        deliver: Deliver,
        fault: Callable[[Exception, str], None],
    ) -> None:
        self._tasks = tasks
        self._settings = settings
        self._versions = control_versions(settings.ibp)
        self._connect = connect
        self._deliver = deliver
        self._fault = fault
        self._channels: dict[BrokerId, _Channel] = {}
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix="controller-encoding")
        self._bodies: weakref.WeakValueDictionary[int, SharedBody] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._channels)

    def views(self) -> Iterator[ChannelView]:
        """Yield the values for metrics of each open channel, in the order of opening."""
        return (channel.view() for channel in self._channels.values())

    def problems(self) -> dict[BrokerId, ChannelProblem]:
        """Return the channels whose requests fail at present, and why."""
        found = ((broker, channel.problem()) for broker, channel in self._channels.items())
        return {broker: problem for broker, problem in found if problem is not None}

    def open(self, effect: OpenChannel) -> None:
        """Start a channel, after closing an earlier one to the same broker."""
        self.close(effect.broker)
        channel = _Channel(effect, self._settings, self._connect, self._deliver)
        self._channels[effect.broker] = channel
        channel.task = self._tasks.create_task(self._run(channel), name=f"channel-broker-{effect.broker}")

    def close(self, broker: BrokerId) -> None:
        """Stop the broker's channel, if any, and drop its queue."""
        channel = self._channels.pop(broker, None)
        if channel is not None and channel.task is not None:
            channel.task.cancel()

    def end(self) -> None:
        """Close all channels for good."""
        self.close_all()
        self._encoder.shutdown(wait=False, cancel_futures=True)

    def close_all(self) -> None:
        for broker in list(self._channels):
            self.close(broker)

    def send(self, effect: Send) -> None:
        """Queue a request. Without a channel to the broker's incarnation it is dropped and logged, as in Kafka."""
        channel = self._channels.get(effect.broker)
        if channel is None or channel.effect.broker_epoch != effect.broker_epoch:
            logger.warning(
                "%s for broker %d under epoch %d is dropped: there is no channel to it",
                api_of_sent(effect.request).name,
                effect.broker,
                effect.broker_epoch,
            )
            return
        body = self._bodies.get(id(effect.request))
        if body is None:
            body = SharedBody(
                effect.request,
                self._versions.of(api_of_sent(effect.request)),
                self._settings.max_request_bytes,
            )
            self._bodies[id(effect.request)] = body
            body.begin(self._encoder)
        channel.put(effect, body)

    async def _run(self, channel: _Channel) -> None:
        try:
            await channel.run()
        except Exception as error:  # noqa: BLE001 — the loop handles faults (`faults`)
            self._fault(error, f"sending to broker {channel.effect.broker}")
