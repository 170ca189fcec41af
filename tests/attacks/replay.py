"""Whole sessions that are recorded on the way and sent again."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from typing import Final

from lethe.adapters.kafka.client import KafkaConnection
from lethe.cluster.loopback_server import LoopbackServer
from lethe.protocol.kafka.codec import decode_response
from lethe.protocol.kafka.control import ApiKey
from tests.attacks.attack import Attack, Seen, described, has_error
from tests.attacks.setting import CLEAR, LETHE, MTLS
from tests.attacks.world import LIMIT_S, World
from tests.fakes.raw_client import connected_to
from tests.unit.broker.core import driver

REPLAYED: Final = "replayed frames"
_CHUNK: Final = 65_536
_CLOSED_S: Final = 10.0


class Tape(LoopbackServer):
    """Forwards connections to a port, and records what clients send."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.sent = bytearray()
        self._upstream_port = port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, upstream, self.sent))
                group.create_task(self._pass(upstream_reader, writer, bytearray()))
        finally:
            upstream.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: bytearray) -> None:
        while data := await reader.read(_CHUNK):
            record += data
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("one side has closed")


class Replay:
    """A session of the controller that deletes a replica; then it is sent again, when there is such a replica again."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._topic = ""
        self._sent = b""

    async def control(self, world: World) -> str:
        """Record the session, which deletes the replica, and make the replica again."""
        self._topic = await world.sacrifice()
        request = await world.addressed(driver.stop(self._topic))
        async with Tape(await world.port(self._listener)) as tape, asyncio.timeout(LIMIT_S):
            security = world.setting.security(self._listener, LETHE)
            async with await KafkaConnection.open("127.0.0.1", tape.port, "attack", security=security) as connection:
                answer = await connection.ask(request)
            self._sent = bytes(tape.sent)
        assert not has_error(answer), described(answer)
        assert not world.directory(self._topic), "the recorded session did not delete the replica"
        await world.make(self._topic, tombstone=True)
        return "the recorded session deletes a replica"

    async def attempt(self, world: World) -> Seen:
        async with connected_to(await world.port(self._listener)) as attacker:
            with contextlib.suppress(ConnectionError):
                attacker.writer.write(self._sent)
                await attacker.writer.drain()
            closed, received = await attacker.closed_within(_CLOSED_S)
        what = "" if self._listener == MTLS else f"{self._answers(received)}, "
        is_deleted = not world.directory(self._topic)
        ends = "closed" if closed else f"not closed within {_CLOSED_S:g} s"
        return Seen(f"{what}{ends}; the replica is {'deleted' if is_deleted else 'still there'}", is_deleted)

    def _answers(self, received: bytes) -> str:
        """Return the errors of the answers, in words."""
        heads = (struct.unpack_from(">hh", each) for each in _frames(self._sent))
        found = [
            f"{ApiKey(api).name}: {described(decode_response(ApiKey(api), version, payload)[1])}"
            for (api, version), payload in zip(heads, _frames(received), strict=False)
        ]
        return found[-1] if found else "no answer"


def _frames(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + 4 <= len(data):
        (size,) = struct.unpack_from(">i", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


_CLEAR: Final = Replay(CLEAR)
_TLS: Final = Replay(MTLS)
ATTACKS: Final = (
    Attack(
        REPLAYED,
        "the bytes of a whole session with its login and StopReplica (SASL_PLAINTEXT)",
        _CLEAR.control,
        _CLEAR.attempt,
        "no TLS and no login",
    ),
    Attack(
        REPLAYED,
        "the TLS records of a whole session with its certificate and StopReplica (SSL)",
        _TLS.control,
        _TLS.attempt,
    ),
)
