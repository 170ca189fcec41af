"""A TCP proxy that does harm at a chosen stage of a chosen request.

Theory of operation. It knows one thing about the traffic: both sides send frames with a length of four bytes before
them, as ZooKeeper's clients and Kafka's do. Each request frame is shown to the rules in order; the first that matches
does its harm, and is used up. Harm to a reply waits until the server has sent that reply, so that the request is known
to have been carried out; requests and replies are matched by a key that the protocol defines.

    async with TcpProxy("127.0.0.1", port) as proxy:
        proxy.harm(Stage.IN_REPLY, Fault.RESET, when=lambda request: ...)
        connect("127.0.0.1", proxy.port)
        await proxy.harmed(1)
"""

from __future__ import annotations

import asyncio
import enum
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from lethe.cluster.loopback_server import LoopbackServer, reset


class Stage(enum.Enum):
    """Where in the life of a request the harm is done."""

    BEFORE_REQUEST = "before the request"
    IN_REQUEST = "in the middle of the request"
    BEFORE_REPLY = "after the request, before the reply"
    IN_REPLY = "in the middle of the reply"


class Fault(enum.Enum):
    """What the harm is. "Middle" means after half of the frame, "before" means instead of it."""

    RESET = "RST to both sides"
    CLOSE = "FIN to both sides"
    STALL = "nothing passes any more in either direction, and nothing is closed"
    DELAY = "nothing passes until `release` is called"
    TRUNCATE = "the frame is shortened, its length made to fit"
    CORRUPT = "bytes are overwritten: the first ones (before) or the second half (middle)"
    REWRITE = "the request is replaced by what the rule makes of it"


def zookeeper_key(frame: bytes, is_request: bool) -> bytes:
    """The xid."""
    return frame[:4]


def kafka_key(frame: bytes, is_request: bool) -> bytes:
    """The correlation id."""
    return frame[4:8] if is_request else frame[:4]


def opcode(*opcodes: int) -> Callable[[bytes], bool]:
    """A condition: ZooKeeper requests of these types."""
    wanted = [struct.pack("!i", each) for each in opcodes]
    return lambda request: request[4:8] in wanted


@dataclass
class _Rule:
    stage: Stage
    fault: Fault
    when: Callable[[bytes], bool]
    rewrite: Callable[[bytes], bytes]


@dataclass(eq=False)
class _Link:
    """One client's connection and the proxy's own to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    doomed: dict[bytes, _Rule] = field(default_factory=dict)
    may_pass: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, *, by_reset: bool) -> None:
        for writer in (self.client, self.server):
            if by_reset:
                reset(writer)
            else:
                writer.close()


class TcpProxy(LoopbackServer):
    """Listens on a free loopback port and passes everything on, but for the harm it is asked to do."""

    def __init__(self, host: str, port: int, *, key: Callable[[bytes, bool], bytes] = zookeeper_key) -> None:
        super().__init__()
        self._host, self._upstream_port, self._key = host, port, key
        self._rules: list[_Rule] = []
        self._links: set[_Link] = set()
        self._changed = asyncio.Condition()
        self._done = 0
        self._accepting = True
        self._bytes_per_s: float | None = None
        self._busy_until = 0.0
        self.connections = 0
        """How many were accepted so far."""
        self.requests: list[bytes] = []
        """Every request frame that came in, harmed or not."""

    # --- what a test asks for -------------------------------------------------------------------------------------

    def harm(
        self,
        stage: Stage,
        fault: Fault,
        *,
        when: Callable[[bytes], bool] = lambda _: True,
        rewrite: Callable[[bytes], bytes] = bytes,
    ) -> None:
        """The next request that meets the condition suffers, once."""
        self._rules.append(_Rule(stage, fault, when, rewrite))

    async def harmed(self, times: int, limit_s: float = 60) -> None:
        """Waits until that many rules have done their harm."""
        async with asyncio.timeout(limit_s), self._changed:
            await self._changed.wait_for(lambda: self._done >= times)

    def release(self) -> None:
        """What was delayed goes on."""
        for link in self._links:
            link.may_pass.set()

    def slow_down(self, bytes_per_s: float | None) -> None:
        """Unharmed requests of all connections queue up for one slow disk of this speed; None: it is fast again."""
        self._bytes_per_s = bytes_per_s

    def cut(self, *, by_reset: bool = False) -> None:
        """Ends all connections as they are; new ones are accepted."""
        for link in list(self._links):
            link.end(by_reset=by_reset)

    def refuse(self) -> None:
        """Ends all connections, and new ones at once."""
        self._accepting = False
        self.cut()

    def accept(self) -> None:
        """Accepts connections again."""
        self._accepting = True

    # --- life -----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        self.cut(by_reset=True)
        await super().close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if not self._accepting:
            return
        upstream_reader, upstream = await asyncio.open_connection(self._host, self._upstream_port)
        link = _Link(writer, upstream)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_requests(reader, link), name="requests")
                group.create_task(self._pass_replies(upstream_reader, link), name="replies")
        finally:
            link.end(by_reset=False)
            self._links.discard(link)

    # --- passing on -----------------------------------------------------------------------------------------------

    async def _pass_requests(self, reader: asyncio.StreamReader, link: _Link) -> None:
        while True:
            frame = await _read_frame(reader)
            self.requests.append(frame)
            rule = next((rule for rule in self._rules if rule.when(frame)), None)
            if rule is None:
                await self._pass_request(frame, link.server)
                continue
            self._rules.remove(rule)
            if rule.stage in (Stage.BEFORE_REPLY, Stage.IN_REPLY):
                link.doomed[self._key(frame, True)] = rule
                await _write(link.server, frame)
            else:
                await self._do_harm(rule, frame, link.server, link, in_middle=rule.stage is Stage.IN_REQUEST)

    async def _pass_request(self, frame: bytes, server: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        began = max(loop.time(), self._busy_until)
        self._busy_until = began + (len(frame) / self._bytes_per_s if self._bytes_per_s else 0)
        if self._busy_until > loop.time():
            loop.call_at(self._busy_until, server.write, struct.pack("!i", len(frame)) + frame)
        else:
            await _write(server, frame)

    async def _pass_replies(self, reader: asyncio.StreamReader, link: _Link) -> None:
        while True:
            frame = await _read_frame(reader)
            rule = link.doomed.pop(self._key(frame, False), None)
            if rule is None:
                await _write(link.client, frame)
            else:
                await self._do_harm(rule, frame, link.client, link, in_middle=rule.stage is Stage.IN_REPLY)

    async def _do_harm(
        self, rule: _Rule, frame: bytes, target: asyncio.StreamWriter, link: _Link, *, in_middle: bool
    ) -> None:
        whole = struct.pack("!i", len(frame)) + frame
        half = len(whole) // 2 if in_middle else 0
        match rule.fault:
            case Fault.RESET | Fault.CLOSE | Fault.STALL | Fault.DELAY:
                target.write(whole[:half])
                await target.drain()
                await self._note()
                await self._stop(rule.fault, link)
                target.write(whole[half:])
            case Fault.TRUNCATE:
                await _write(target, frame[: len(frame) // 2 if in_middle else 2])
                await self._note()
            case Fault.CORRUPT:
                at = len(frame) // 2 if in_middle else 0
                size = len(frame) - at if in_middle else 8
                await _write(target, frame[:at] + b"\xee" * size + frame[at + size :])
                await self._note()
            case Fault.REWRITE:
                await _write(target, rule.rewrite(frame))
                await self._note()

    async def _stop(self, fault: Fault, link: _Link) -> None:
        """Returns only where the traffic may go on."""
        match fault:
            case Fault.RESET:
                link.end(by_reset=True)
                raise ConnectionResetError
            case Fault.CLOSE:
                link.end(by_reset=False)
                raise ConnectionResetError
            case Fault.DELAY:
                await link.may_pass.wait()
            case _:
                await asyncio.Event().wait()

    async def _note(self) -> None:
        async with self._changed:
            self._done += 1
            self._changed.notify_all()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack("!i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def _write(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack("!i", len(frame)) + frame)
    await writer.drain()
