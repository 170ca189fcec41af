"""One connection of a Kafka server, from its first request to its end. `server` has the theory.

A request is decoded when there is room for it (`adapters.kafka.limits`), and after all that were forwarded before it.
While a handler waits for something that may take long, the client may leave (`unless_left`): what it sends meanwhile is
buffered as part of the next request, because the end of the stream is behind it.

After an answer that throttles the client no further request is read for that time, as in Kafka (KIP-219).

A connection under SASL is served by the same loop. Until the client has authenticated, only the requests of a login are
read, each with a small limit, and all together within a limit of time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from lethe.adapters.kafka.connection_state import (
    Connection,
    NotAdmitted,
    NotForwarded,
    PeerClosed,
    PeerLeft,
    Unfinished,
)
from lethe.adapters.kafka.forwarded_client import ForwardedClient
from lethe.adapters.kafka.forwarding_proxy import ForwardingProxy, NoBrokerAvailable
from lethe.adapters.kafka.limits import ServerLimits, ServerLoad
from lethe.adapters.kafka.peers import Close, Handler
from lethe.adapters.peers import Peer
from lethe.adapters.security.accepting import SASL_APIS, SaslConversation
from lethe.adapters.security.refusal_counts import RefusalReason
from lethe.adapters.streams import send
from lethe.protocol.counting import counted
from lethe.protocol.kafka.codec import Decoded
from lethe.protocol.kafka.connection import FROM_DAEMONS, Buffers, ServerConnection, api_versions_response
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.forwarding import OwnApis, RequestHead, merged_versions
from lethe.protocol.kafka.queries import ApiVersionsRequest, ApiVersionsResponse
from lethe.protocol.kafka.sasl import SaslAuthenticateRequest, SaslHandshakeRequest, SaslHandshakeResponse
from lethe.protocol.kafka.versions import VersionRange
from lethe.protocol.vocabulary import SecurityProtocol

_LOG: Final = logging.getLogger(__name__)
_LIMIT_OF_LOGINS: Final = "sasl.server.max.receive.size"
_SMALL_REQUEST_BYTES: Final = 1024
"""A request up to this size is decoded at once: for each connection the limits allow more anyway."""
T = TypeVar("T")

MayForward = Callable[[Peer, str], str | None]
"""(client, listener) -> why its requests are not forwarded to a broker; None if they are"""


@dataclass(frozen=True, slots=True)
class Service:
    """What all connections of a server have in common."""

    name: str
    handler: Handler
    served: Mapping[ApiKey, VersionRange]
    limits: ServerLimits
    load: ServerLoad
    note_request: Callable[[ApiKey, int], None]
    proxy: ForwardingProxy | None
    claims: OwnApis
    refuse_forwarding: MayForward
    chunk_bytes: int


class Conversation:
    """Serves one connection. `run` once."""

    def __init__(
        self,
        service: Service,
        connection: Connection,
        group: asyncio.TaskGroup,
        *,
        login_ends_s: float,
        admitted: Callable[[], None],
    ) -> None:
        """`login_ends_s`: when the client has to have authenticated, on the event loop's clock. `admitted` is called
        once it has."""
        self._admitted = admitted
        self._service = service
        self._connection = connection
        self._login_ends_s = login_ends_s
        admission = connection.admission
        served = dict(service.served)
        if admission.sasl is not None:
            served |= SASL_APIS
        elif admission.protocol is not SecurityProtocol.PLAINTEXT:
            served[ApiKey.SASL_HANDSHAKE] = SASL_APIS[ApiKey.SASL_HANDSHAKE]
        self._served = served
        self._protocol = ServerConnection(
            served, service.limits.max_request_bytes, passes_on=service.proxy is not None, claims=service.claims
        )
        self._sasl = None if admission.sasl is None else SaslConversation(admission.sasl)
        if self._sasl is not None:
            self._protocol.limit(self._sasl.max_receive_bytes, _LIMIT_OF_LOGINS)
        self._forwarded = self._forwarded_client(group)
        self._throttle_ms = 0
        """For how long the last answer throttles the client."""
        self._decoded_bytes = 0
        """Size of the request in progress, as far as it counts as decoded."""
        self.request_bytes = 0
        """Size of the request in progress."""

    async def run(self) -> str:
        """Serve the connection to its end; return why it ended. Raises what ends it otherwise."""
        try:
            async with asyncio.timeout_at(self._login_ends_s if self._sasl is not None else None) as self._login_limit:
                return await self._serve()
        except TimeoutError:
            if not self._login_limit.expired():
                raise
            limit_ms = self._connection.admission.max_login_ms
            raise NotAdmitted(RefusalReason.UNFINISHED, f"it did not authenticate within {limit_ms} ms") from None
        except PeerClosed:
            if self._connection.closing:
                return "by the server"
            self._protocol.end_of_stream()
            return "by the peer"
        except PeerLeft:
            return "by the peer, whose request was waiting"
        finally:
            self._give_back()
            if self._forwarded is not None:
                self._forwarded.close()

    def _forwarded_client(self, group: asyncio.TaskGroup) -> ForwardedClient | None:
        connection, proxy = self._connection, self._service.proxy
        if proxy is None:
            return None
        name = f"{self._service.name}-answers-{connection.peer}"
        return ForwardedClient(
            proxy,
            connection.listener,
            self._protocol,
            connection.writer,
            more=self._receive,
            lost=connection.lose,
            spawn=lambda work: group.create_task(work, name=name),
            max_idle_ms=self._service.limits.max_idle_ms,
        )

    # --- reading --------------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        """Read once from the peer. Raises PeerClosed at the end of the stream."""
        async with asyncio.timeout(self._service.limits.max_idle_ms / 1000):
            data = await self._connection.reader.read(self._service.chunk_bytes)
        if not data:
            raise PeerClosed
        self._protocol.receive(data)

    async def _collect(self) -> None:
        """Read more of a request that is buffered until it is complete. Raises PeerClosed, Unfinished."""
        connection, protocol = self._connection, self._protocol
        now_s, limit_ms = asyncio.get_running_loop().time(), self._service.limits.max_receive_ms
        if not protocol.pending_bytes:
            connection.begun_s = None
        elif connection.begun_s is None:
            connection.begun_s = now_s
        left_s = None if connection.begun_s is None else max(0.0, connection.begun_s + limit_ms / 1000 - now_s)
        deadline = asyncio.timeout(left_s)
        try:
            async with deadline:
                await self._receive()
        except TimeoutError:
            if not deadline.expired():
                raise
            arrived = (
                f"{counted(protocol.pending_bytes, 'byte')} of a request arrived within {limit_ms} ms, and not the rest"
            )
            raise Unfinished(f"{arrived} (lethe.request.receive.timeout.ms)") from None
        self._service.load.hold(connection, protocol.pending_bytes)

    async def _wait_for_room(self, head: RequestHead) -> None:
        """Return once the next request, which is complete, may be decoded. Raises PeerClosed if the connection ends."""
        if head.size <= _SMALL_REQUEST_BYTES or head.api_key in FROM_DAEMONS or head.api_key in SASL_APIS:
            return
        connection, decoded = self._connection, self._service.load.decoded
        turn = connection.decoding = decoded.turn(head.size)
        try:
            await turn
            self._decoded_bytes = head.size
        except asyncio.CancelledError:
            if not turn.cancelled():
                decoded.give_back(head.size)
            if not connection.aborted.is_set():
                raise
            raise PeerClosed from None
        finally:
            connection.decoding = None

    def _give_back(self) -> None:
        """The request in progress does not count as decoded any more."""
        count, self._decoded_bytes = self._decoded_bytes, 0
        if count:
            self._service.load.decoded.give_back(count)

    async def unless_left(self, answer: asyncio.Future[T]) -> T:
        """Return the handler's answer, which may take long. Raises PeerLeft once the connection has ended.

        The request does not count as decoded any more: the handler limits those that wait."""
        self._give_back()
        leaving = asyncio.ensure_future(self._read_ahead())
        try:
            await asyncio.wait((answer, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            await asyncio.wait((leaving,))
        if answer.done():
            return answer.result()
        raise PeerLeft

    async def _read_ahead(self) -> None:
        """Read the next requests until the connection has ended, or one of the largest size may be there."""
        connection, protocol, load = self._connection, self._protocol, self._service.load
        while protocol.pending_bytes <= self._service.limits.max_request_bytes:
            try:
                data = await connection.reader.read(self._service.chunk_bytes)
            except OSError:
                return
            if not data:
                return
            protocol.receive(data)
            load.hold(connection, protocol.pending_bytes)
        await connection.aborted.wait()

    # --- answering ------------------------------------------------------------------------------------------------

    async def _serve(self) -> str:
        connection, protocol, forwarded = self._connection, self._protocol, self._forwarded
        while not connection.closing:
            self._check_login()
            foreign = protocol.foreign_head()
            if foreign is not None and forwarded is not None:
                await self._forward(forwarded, foreign)
                continue
            head = protocol.complete_head()
            if head is None:
                await self._collect()
                continue
            connection.begun_s = None
            if forwarded is not None:
                await forwarded.settled()
            await self._wait_for_room(head)
            request = protocol.next_request()
            assert request is not None
            self.request_bytes = head.size
            self._service.load.hold(connection, protocol.pending_bytes)
            connection.busy = True
            answer = await self._answer(request) if isinstance(request, Decoded) else request
            # A connection that is idle from now on keeps neither.
            del request
            self._give_back()
            if isinstance(answer, Close):
                return answer.reason
            await self._write(answer)
            del answer
            connection.busy = False
            await self._mute()
        return "by the server"

    async def _answer(self, request: Decoded) -> Buffers | Close:
        value = request.value
        if isinstance(value, SaslHandshakeRequest | SaslAuthenticateRequest):
            return await self._log_in(value)
        self._service.note_request(request.header.api, self._protocol.request_bytes)
        if isinstance(value, ApiVersionsRequest) and self._forwarded is not None:
            return self._protocol.reply(await self._api_versions(self._forwarded))
        return await self._handle(request)

    async def _handle(self, request: Decoded) -> Buffers | Close:
        """Return the handler's response as bytes. The handler's own faults are caught, so that no peer is blamed."""
        api, version, peer = request.header.api, request.header.version, self._connection.peer
        try:
            answer = await self._service.handler(request.header, request.value, peer)
            self._throttle_ms = getattr(answer, "throttle_time_ms", 0)
            return answer if isinstance(answer, Close) else self._protocol.reply(answer)
        except PeerLeft:
            raise
        except Exception as error:  # noqa: BLE001 - one request that cannot be handled must not end the others
            _LOG.error("%s: cannot handle %s v%d of %s", self._service.name, api.name, version, peer, exc_info=error)
            return Close(f"its {api.name} could not be handled")

    async def _mute(self) -> None:
        """Read nothing while the last answer throttles the client. Raises TimeoutError where that is longer than a
        connection may be idle."""
        throttle_ms, self._throttle_ms = self._throttle_ms, 0
        max_idle_ms = self._service.limits.max_idle_ms
        if throttle_ms > 0:
            try:
                async with asyncio.timeout(min(throttle_ms, max_idle_ms) / 1000):
                    await self._connection.aborted.wait()
            except TimeoutError:
                if throttle_ms > max_idle_ms:
                    raise

    async def _write(self, buffers: Buffers) -> None:
        writer = self._connection.writer
        if writer.is_closing():
            return
        async with asyncio.timeout(self._service.limits.max_idle_ms / 1000):
            await send(writer, buffers)

    # --- SASL -----------------------------------------------------------------------------------------------------

    def _check_login(self) -> None:
        """Raise NotAdmitted if the next request may not come from a client that is not, or no longer, authenticated."""
        if self._sasl is None:
            return
        head = self._protocol.next_head()
        if head is not None and (reason := self._sasl.refusal(head.api_key)) is not None:
            raise NotAdmitted(RefusalReason.NO_LOGIN, reason)

    async def _log_in(self, request: SaslHandshakeRequest | SaslAuthenticateRequest) -> Buffers:
        """Return the response. After a failed authentication it is sent here, and NotAdmitted is raised."""
        sasl, connection = self._sasl, self._connection
        if sasl is None:
            return self._protocol.reply(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))
        response, failure = await sasl.answer(request)
        if failure is not None:
            await asyncio.sleep(connection.admission.failure_delay_ms / 1000)
            if response is not None:
                await self._write(self._protocol.reply(response))
            raise NotAdmitted(RefusalReason.UNCHECKED if response is None else RefusalReason.LOGIN, failure)
        if sasl.principal is not None:
            connection.peer = connection.peer._replace(principal=sasl.principal)
            self._login_limit.reschedule(None)
            self._admitted()
            self._protocol.limit(self._service.limits.max_request_bytes, "socket.request.max.bytes")
        assert response is not None
        return self._protocol.reply(response)

    # --- forwarding -----------------------------------------------------------------------------------------------

    async def _forward(self, forwarded: ForwardedClient, head: RequestHead) -> None:
        """Copy the next request to a broker. Raises NotForwarded if the broker would take the client for another."""
        connection = self._connection
        if (protocol := connection.admission.protocol) is not SecurityProtocol.PLAINTEXT:
            raise NotForwarded(
                f"{connection.peer.principal} sent a request for a broker to the listener {connection.listener} "
                f"({protocol.name}), and nobody can act as {connection.peer.principal} at a broker but itself; clients "
                f"go to a broker instead, and do not see this listener if theirs has another name"
            )
        reason = self._service.refuse_forwarding(connection.peer, connection.listener)
        if reason is not None:
            raise NotForwarded(reason)
        await forwarded.forward(head)

    async def _api_versions(self, forwarded: ForwardedClient) -> ApiVersionsResponse:
        """Return the versions of a broker with our own in them. Raises NoBrokerAvailable under PLAINTEXT.

        Elsewhere they are ours alone if there is no broker: brokers ask for them before they authenticate.
        """
        if self._connection.admission.protocol is SecurityProtocol.PLAINTEXT:
            return await forwarded.api_versions()
        own = {api: self._served[api] for api in self._served if api in SASL_APIS}
        try:
            return merged_versions(await forwarded.api_versions(), own, {})
        except NoBrokerAvailable:
            return api_versions_response(self._served)
