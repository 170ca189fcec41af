"""Reads the access lists of znodes, which nothing in Lethe does."""

from __future__ import annotations

import secrets
import ssl
import struct
from typing import Final

from lethe.adapters.zookeeper import wire
from lethe.adapters.zookeeper.config import DigestMd5Login
from lethe.adapters.zookeeper.connection import Answer, connect
from lethe.adapters.zookeeper.login import log_in

_GET_ACL: Final = 6
_LETTERS: Final = ((1, "r"), (2, "w"), (4, "c"), (8, "d"), (16, "a"))
OPEN: Final[dict[tuple[str, str], str]] = {("world", "anyone"): "rwcda"}
READ_BY_ALL: Final[dict[tuple[str, str], str]] = {("world", "anyone"): "r"}


def owned_by(*owners: tuple[str, str]) -> dict[tuple[str, str], str]:
    """The part of an access list that names the owners, given as scheme and id."""
    return dict.fromkeys(owners, "rwcda")


async def acl_of(
    host: str, port: int, path: str, user: DigestMd5Login | None = None, context: ssl.SSLContext | None = None
) -> dict[tuple[str, str], str]:
    """The znode's permissions by scheme and id."""
    connection = await connect(
        host,
        port,
        lambda _: None,
        max_reply_bytes=1 << 20,
        timeout_s=60,
        make_tls_context=None if context is None else lambda: context,
    )
    try:
        await connection.shake_hands(wire.pack_connect(0, 10_000, 0, bytes(16)))
        if user is not None:
            await log_in(connection, user, secrets.token_hex(16))
        raw = path.encode()
        answer = await connection.send(wire.Request(struct.pack("!ii", _GET_ACL, len(raw)) + raw, _parse))
        assert isinstance(answer, Answer)
        assert answer.error is None, answer
        found: dict[tuple[str, str], str] = answer.value
        await connection.send(wire.pack_close())
        return found
    finally:
        connection.drop("read")


def _parse(body: bytes, _: int) -> dict[tuple[str, str], str]:
    (count,) = struct.unpack_from("!i", body)
    at, found = 4, {}
    for _ in range(count):
        (bits,) = struct.unpack_from("!i", body, at)
        scheme, at = wire.parse_text(body, at + 4)
        name, at = wire.parse_text(body, at)
        found[scheme, name] = "".join(letter for bit, letter in _LETTERS if bits & bit)
    return found
