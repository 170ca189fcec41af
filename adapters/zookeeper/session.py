"""One ZooKeeper session as Lethe uses it: reads, multis, plans, recursive helpers.

Theory of operation. A request waits for one of the limited places in flight (a plan's multi at the gate instead), then
for the connection, then is sent. A write whose answer is lost is MultiUnknown and is never sent again. A read whose
answer is lost is sent again after the reconnect. Once the session is lost, every request raises SessionLost; nothing
crosses over to another session.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from lethe.adapters.zookeeper import wire, wire_multi
from lethe.adapters.zookeeper.bulk import BatchSizer, Job, ReadQueue, RequestMode, outcome_of
from lethe.adapters.zookeeper.config import ZooKeeperConfig
from lethe.adapters.zookeeper.connection import Answer, Completion, Dropped, Skipped
from lethe.adapters.zookeeper.interface import (
    OnWatch,
    SessionLost,
    WriteRefused,
    ZooKeeperRefused,
    ZooKeeperUnavailable,
)
from lethe.adapters.zookeeper.session_connection import SessionConnection
from lethe.adapters.zookeeper.watches import WatchRequest
from lethe.adapters.zookeeper.write_gate import Pass, WriteGate
from lethe.adapters.zookeeper.write_window import WriteWindow
from lethe.protocol.counting import counted
from lethe.protocol.zookeeper.operations import (
    Acl,
    Create,
    Exists,
    MultiDone,
    MultiFailed,
    MultiOutcome,
    MultiUnknown,
    Operation,
    Read,
    ReadFailed,
    ReadOutcome,
    ZkError,
    error_words,
)
from lethe.protocol.zookeeper.packing import GroupOutcome, MultiPlan, PlannedMulti
from lethe.protocol.zookeeper.paths import ancestors_of, is_sensitive, parent_of

logger = logging.getLogger(__name__)

_InFlight = deque[tuple[PlannedMulti, asyncio.Future[Completion]]]
_ROUNDS: Final = 20
MAX_IN_FLIGHT: Final = 10
"""Limit of unanswered requests, without the multis of plans: Kafka's default for a session."""
MAX_MULTIS_IN_FLIGHT: Final = 20
"""Limit of unanswered multis of plans; fewer are sent while ZooKeeper is slow."""
_OPEN_ROOT: Final = "/consumers"


class Session:
    """Implements `interface.ZooKeeperSession`. Created by `open_session`."""

    def __init__(self, connection: SessionConnection) -> None:
        self._connection = connection
        self._config = connection.config
        self._chroot = connection.config.connect.chroot
        self._gate = WriteGate(WriteWindow(MAX_MULTIS_IN_FLIGHT, connection.config.slow_write_ms))
        self._places = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._sizer = BatchSizer(
            connection.config.reply_target_bytes,
            chroot_bytes=len(self._chroot.encode()),
            request_limit_bytes=connection.config.jute_max_buffer_bytes,
        )

    # --- state ----------------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        """ZooKeeper's id of the session."""
        return self._connection.session_id

    @property
    def negotiated_timeout_ms(self) -> int:
        """Session timeout granted by the server."""
        return round(self._connection.timeout_s * 1000)

    @property
    def lost(self) -> asyncio.Event:
        """Set once the session is over."""
        return self._connection.lost

    @property
    def lost_reason(self) -> str | None:
        """Why the session is over."""
        return self._connection.lost_reason

    @property
    def connected(self) -> bool:
        """True while requests can be sent."""
        return self._connection.connection is not None

    @property
    def connections(self) -> int:
        """See the interface."""
        return self._connection.connections

    @property
    def in_touch(self) -> bool:
        """See the interface."""
        return self._connection.in_touch

    @property
    def write_window(self) -> int:
        """See the interface."""
        return self._gate.window.size

    # --- sending --------------------------------------------------------------------------------------------------

    async def _send(
        self, request: wire.Request, watched: Read | WatchRequest | None = None
    ) -> asyncio.Future[Completion]:
        """Send when there is room and a connection; `watched` is what it arms watches on. Raises SessionLost."""
        await self._places.acquire()
        sent: asyncio.Future[Completion] | None = None
        try:
            sent = await self._send_online(request, watched)
            sent.add_done_callback(lambda _: self._places.release())
        finally:
            if sent is None:
                self._places.release()
        return sent

    async def _send_online(
        self, request: wire.Request, watched: Read | WatchRequest | None = None
    ) -> asyncio.Future[Completion]:
        while True:
            await self._connection.online.wait()
            self._require_session()
            sent = self._send_now(request, watched)
            if sent is not None:
                return sent
            # The connection is gone, but its loss is not handled yet: yield to the task that does.
            await asyncio.sleep(0)

    def _send_now(
        self, request: wire.Request, watched: Read | WatchRequest | None
    ) -> asyncio.Future[Completion] | None:
        watches = self._connection.watches
        match watched:
            case None:
                sent = self._connection.send(request)
            case WatchRequest() as arming:
                sent = self._connection.send(
                    request, lambda given: watches.arming_over(arming, armed=given.error is None)
                )
                if sent is not None:
                    watches.arming_sent(arming)
                    sent.add_done_callback(lambda _: watches.arming_over(arming, armed=False))
            case read:
                sent = self._connection.send(request, lambda answer: watches.read_answered(read, outcome_of(answer)))
                if sent is not None:
                    watches.read_sent(read)
                    sent.add_done_callback(lambda _: watches.read_over(read))
        return sent

    def _require_session(self) -> None:
        if self._connection.lost_reason is not None:
            raise SessionLost(self._connection.lost_reason)

    # --- reads ----------------------------------------------------------------------------------------------------

    async def read(self, reads: Sequence[Read]) -> list[ReadOutcome]:
        """See the interface."""
        self._require_session()
        queue = ReadQueue(reads, self._sizer)
        sent: deque[tuple[Job, asyncio.Future[Completion]]] = deque()
        while True:
            while len(sent) < MAX_IN_FLIGHT and (job := queue.next_job()):
                sent.append((job, await self._send_job(reads, job)))
            if not sent:
                return queue.outcomes
            job, pending = sent.popleft()
            completion = await pending
            if isinstance(completion, Answer) and completion.code in wire.SESSION_OVER:
                self._require_session()
            queue.settle(job, completion)

    async def _send_job(self, reads: Sequence[Read], job: Job) -> asyncio.Future[Completion]:
        if job.arming is not None:
            paths = [wire.full_path(self._chroot, path) for path in job.arming.waiting]
            return await self._send(wire.pack_set_watches(job.zxid, paths), job.arming)
        if job.mode is RequestMode.TOGETHER:
            return await self._send(wire.pack_multi_read(self._chroot, [reads[n] for n in job.places]))
        read = reads[job.places[0]]
        return await self._send(wire.pack_read(self._chroot, read), read if read.watch else None)

    # --- writes ---------------------------------------------------------------------------------------------------

    async def multi(self, operations: Sequence[Operation]) -> MultiOutcome:
        """See the interface."""
        return _multi_outcome(await (await self._send_multi(operations)))

    async def multis(self, multis: Sequence[Sequence[Operation]]) -> list[MultiOutcome]:
        """See the interface."""
        sent: list[asyncio.Future[Completion]] = []
        lost: SessionLost | None = None
        for operations in multis:
            try:
                sent.append(await self._send_multi(operations))
            except SessionLost as error:
                lost = error
                break
        if lost is not None and not sent:
            raise lost
        outcomes = [_multi_outcome(await each) for each in sent]
        return outcomes + [MultiUnknown(f"not sent: {lost}")] * (len(multis) - len(sent))

    async def write(self, plan: MultiPlan) -> tuple[GroupOutcome, ...]:
        """See the interface."""
        self._require_session()
        for refusal in plan.refusals:
            logger.error("%s", refusal)
        in_flight: _InFlight = deque()
        while not plan.is_done:
            if plan.has_unsent:
                entered = await self._gate.enter()
                while in_flight and in_flight[0][1].done():
                    await _settle_oldest(plan, in_flight)
                await self._send_next(plan, entered, in_flight)
            else:
                await _settle_oldest(plan, in_flight)
        return plan.outcomes

    async def _send_next(self, plan: MultiPlan, entered: Pass, in_flight: _InFlight) -> None:
        """Send the plan's next multi, if there is one; the gate is left once it is answered."""
        planned, sent = plan.next_multi(), None
        if planned is None:
            self._gate.leave(entered, is_answered=False)
            return
        try:
            sent = await self._send_online(self._packed(planned.operations))
            in_flight.append((planned, sent))
        except SessionLost as lost:
            plan.settle(planned, MultiUnknown(f"not sent: {lost}"))
            plan.abandon(f"not sent: {lost}")
        except ValueError as error:
            logger.error("%s", error)
            plan.settle(planned, MultiFailed(-1, ZkError.MARSHALLING))
        finally:
            if sent is None:
                self._gate.leave(entered, is_answered=False)
            else:
                sent.add_done_callback(functools.partial(self._over, entered))

    def _over(self, entered: Pass, sent: asyncio.Future[Completion]) -> None:
        self._gate.leave(entered, is_answered=not sent.cancelled() and isinstance(sent.result(), Answer))

    async def _send_multi(self, operations: Sequence[Operation]) -> asyncio.Future[Completion]:
        return await self._send(self._packed(operations))

    def _packed(self, operations: Sequence[Operation]) -> wire.Request:
        """Return the request. Raises SessionLost, and ValueError if it is too large for ZooKeeper."""
        self._require_session()
        if self._config.set_acl:
            operations = [_with_acl(each) for each in operations]
        request = wire_multi.pack_multi(self._chroot, operations, set_acl=self._config.set_acl)
        size = len(request.payload) + 4
        if size > self._config.jute_max_buffer_bytes:
            raise ValueError(
                f"a multi of {counted(len(operations), 'operation')}, the first on {operations[0].path}, takes "
                f"{counted(size, 'byte')}; "
                f"ZooKeeper's jute.maxbuffer allows {self._config.jute_max_buffer_bytes}"
            )
        return request

    # --- helpers --------------------------------------------------------------------------------------------------

    async def ensure_path(self, path: str) -> None:
        """See the interface."""
        if path == "/":
            return
        for _ in range(_ROUNDS):
            outcome = await self.multi((Create(path, None),))
            match outcome:
                case MultiDone() | MultiFailed(_, ZkError.NODE_EXISTS):
                    return
                case MultiFailed(_, ZkError.NO_NODE):
                    await self.ensure_path(parent_of(path))
                case MultiFailed(_, error):
                    (found,) = await self.read([Exists(path)])
                    if isinstance(found, ReadFailed):
                        raise WriteRefused(path, error)
                    return
                case MultiUnknown():
                    pass
        raise WriteRefused(path, ZkError.NO_NODE)

    async def create_chroot(self) -> None:
        """Create the chroot and its missing ancestors. Raises ZooKeeperUnavailable."""
        try:
            (found,) = await self.read([Exists("/")])
            if not isinstance(found, ReadFailed):
                return
            refused: ZkError | None = None
            for path in (*ancestors_of(self._chroot), self._chroot):
                request = wire_multi.pack_multi("", [Create(path, None)], set_acl=self._config.set_acl)
                created = _multi_outcome(await (await self._send(request)))
                if isinstance(created, MultiFailed) and created.error is not ZkError.NODE_EXISTS:
                    refused = created.error
            (found,) = await self.read([Exists("/")])
        except SessionLost as lost:
            is_refused = self._connection.is_refused
            raise (ZooKeeperRefused if is_refused else ZooKeeperUnavailable)(str(lost)) from lost
        if isinstance(found, ReadFailed):
            chroot = f"the chroot of ZooKeeper at {self._config.connect}"
            if found.error is not ZkError.NO_NODE:
                raise ZooKeeperUnavailable(f"{chroot} cannot be read: {error_words(found.error)}")
            raise ZooKeeperUnavailable(
                f"{chroot} does not exist and cannot be created: {error_words(refused or found.error)}; "
                "check the credentials or create it by hand"
            )

    async def close(self) -> None:
        """See the interface."""
        await self._connection.close()


async def _settle_oldest(plan: MultiPlan, in_flight: _InFlight) -> None:
    planned, sent = in_flight.popleft()
    plan.settle(planned, _multi_outcome(await sent))


def _multi_outcome(completion: Completion) -> MultiOutcome:
    match completion:
        case Answer(error=None, value=value):
            outcome: MultiOutcome = value
            return outcome
        case Answer(code=code) if code in wire.SESSION_OVER:
            return MultiUnknown("the server has ended the session")
        case Answer(error=error):
            return MultiFailed(-1, error or ZkError.OTHER)
        case Skipped(size):
            return MultiUnknown(f"the answer of {counted(size, 'byte')} was refused")
        case Dropped(reason):
            return MultiUnknown(reason)


def _with_acl(operation: Operation) -> Operation:
    """Choose the ACL by path, as Kafka does: secrets are not world-readable, the old consumers' root is open to all."""
    if not isinstance(operation, Create) or operation.acl is not Acl.DEFAULT:
        return operation
    if is_sensitive(operation.path):
        return operation._replace(acl=Acl.SECRET)
    if operation.path == _OPEN_ROOT:
        return operation._replace(acl=Acl.OPEN)
    return operation


@asynccontextmanager
async def open_session(config: ZooKeeperConfig, on_watch: OnWatch) -> AsyncIterator[Session]:
    """Open a session that is closed at the end of the context; create a missing chroot if configured so.

    Raises ZooKeeperUnavailable.
    """
    connection = SessionConnection(config, on_watch)
    try:
        await connection.open()
    except BaseException:
        connection.lose("given up while opening")
        raise
    session = Session(connection)
    life = asyncio.create_task(connection.run(), name="zookeeper-session")
    try:
        if config.create_chroot:
            await session.create_chroot()
        yield session
    finally:
        try:
            await connection.close()
        finally:
            life.cancel()
            await asyncio.wait({life})
