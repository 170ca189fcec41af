"""The SASL login against a scripted server: what it must say, and what becomes of each other answer."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from lethe.adapters.security.secrets import FileSecret, Secret
from lethe.adapters.zookeeper import wire
from lethe.adapters.zookeeper.config import DigestMd5Login
from lethe.adapters.zookeeper.connection import Connection, connect
from lethe.adapters.zookeeper.login import LoginRefused, log_in

GRANTED = struct.pack("!iiqi", 0, 4000, 7, 16) + b"p" * 16 + b"\0"
CHALLENGE = b'realm="zk-sasl-md5",nonce="N",charset=utf-8,algorithm=md5-sess'
USER = DigestMd5Login("kafka", Secret("hunter2"))
Reply = tuple[int, bytes | None]
"""Error code and token."""


def frame(body: bytes) -> bytes:
    return struct.pack("!i", len(body)) + body


def answer(xid: int, code: int, token: bytes | None) -> bytes:
    body = b"" if code else struct.pack("!i", -1) if token is None else struct.pack("!i", len(token)) + token
    return frame(struct.pack("!iqi", xid, 0, code) + body)


@contextlib.asynccontextmanager
async def answering(replies: Sequence[Reply], heard: list[bytes]) -> AsyncIterator[Connection]:
    """A connection to a server that gives these answers to its requests, and then hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            for index in range(len(replies) + 2):
                (size,) = struct.unpack("!i", await reader.readexactly(4))
                request = await reader.readexactly(size)
                if index == 0:
                    writer.write(frame(GRANTED))
                    continue
                heard.append(request)
                if index > len(replies):
                    break
                writer.write(answer(int.from_bytes(request[:4]), *replies[index - 1]))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connection = await connect("127.0.0.1", port, lambda _: None, max_reply_bytes=10_000, timeout_s=10)
        try:
            await connection.shake_hands(wire.pack_connect(0, 4000, 0, bytes(16)))
            yield connection
        finally:
            connection.drop("the test is over")


@pytest.mark.parametrize(
    "replies, told",
    [
        pytest.param([(0, None)], "offers no SASL login, and 'kafka' is to log in", id="no challenge"),
        pytest.param([(0, b'nonce="N",algorithm=md5')], "cannot be used for 'kafka': .*another algorithm", id="other"),
        pytest.param([(-6, None)], "refuses the SASL login of 'kafka' with error -6", id="unimplemented"),
        pytest.param([(0, CHALLENGE), (-115, None)], "does not accept user name and password of 'kafka'", id="-115"),
        pytest.param([(0, CHALLENGE), (-124, None)], "does not accept user name and password of 'kafka'", id="-124"),
        pytest.param([(0, CHALLENGE), (0, None)], "goes on without any rights", id="allowSaslFailedClients"),
        pytest.param([(0, CHALLENGE), (0, b"rspauth=" + b"0" * 32)], "does not prove that it has the", id="impostor"),
        pytest.param([(0, CHALLENGE), (0, CHALLENGE)], "does not prove that it has the password", id="challenge again"),
    ],
)
async def test_what_is_refused_is_told_without_the_password(replies: list[Reply], told: str) -> None:
    heard: list[bytes] = []
    async with answering(replies, heard) as connection:
        with pytest.raises(LoginRefused, match=told) as refused:
            await log_in(connection, USER, "C")
    assert len(heard) == len(replies)
    assert heard[0] == struct.pack("!iii", 1, 102, 0), "the first token is empty"
    assert "hunter2" not in f"{refused.value} {USER}"
    assert b"hunter2" not in b"".join(heard)


@pytest.mark.parametrize("replies", [[], [(0, CHALLENGE)]])
async def test_a_server_that_hangs_up_may_be_tried_again(replies: list[Reply]) -> None:
    async with answering(replies, []) as connection:
        with pytest.raises(
            ConnectionError, match="ended the SASL login of 'kafka' without an answer .connection closed"
        ):
            await log_in(connection, USER, "C")


async def test_a_password_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    user = DigestMd5Login("kafka", FileSecret(tmp_path / "missing"))
    heard: list[bytes] = []
    async with answering([], heard) as connection:
        with pytest.raises(LoginRefused) as refused:
            await log_in(connection, user, "C")
    where = f"{tmp_path}/missing: does not exist; name an existing file"
    assert f"the password of 'kafka' for its SASL login cannot be read: {where}" in str(refused.value)
    assert heard == []
