"""Logins by SCRAM that are not what they say, and logins that are less than SCRAM."""

from __future__ import annotations

import base64
import functools
import re
from typing import Final

from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.security.plain import PlainToken
from lethe.protocol.security.scram import ScramClient
from tests.attacks.attack import Attack, Attempt, Seen
from tests.attacks.frames import guest_is_served, log_in
from tests.attacks.setting import BROKERS, CLEAR, GUEST, INTERNAL, SHA_512
from tests.attacks.world import World
from tests.fakes.raw_client import Raw

REPLAY: Final = "SCRAM replay and nonce reuse"
DOWNGRADE: Final = "TLS and SASL downgrade"
NONCE: Final = "the-same-nonce-of-the-client"
_TIMES: Final = 20


def _client(world: World, user: str = GUEST) -> ScramClient:
    return ScramClient(SHA_512, user, world.setting.secrets.password(user), NONCE)


async def _refused(client: Raw, token: bytes) -> Seen:
    """Send the token; whether it is refused and the connection closed."""
    answer = await client.token(token)
    if answer.error == ErrorCode.NONE:
        return Seen("accepted", True)
    closed = await client.is_closed()
    return Seen(f"error {answer.error} {error_name(answer.error)}, {'closed' if closed else 'not closed'}", not closed)


async def _replayed_tokens(world: World) -> Seen:
    side, sent = _client(world), []
    async with world.raw(CLEAR) as client:
        await client.handshake(SHA_512.value)
        sent.append(side.first())
        final = side.answer((await client.token(sent[0])).auth_bytes)
        assert final is not None
        sent.append(final)
        assert (await client.token(final)).error == ErrorCode.NONE, "the recorded login is refused"
    async with world.raw(CLEAR) as attacker:
        await attacker.handshake(SHA_512.value)
        assert (await attacker.token(sent[0])).error == ErrorCode.NONE, "the first message is refused"
        return await _refused(attacker, sent[1])


async def _nonces(world: World) -> Seen:
    found: dict[bytes, None] = {}
    for _ in range(_TIMES):
        async with world.raw(CLEAR) as client:
            await client.handshake(SHA_512.value)
            answer = await client.token(_client(world).first())
            nonce = answer.auth_bytes.split(b",")[0]
            assert nonce.startswith(b"r=" + NONCE.encode()), "the nonce does not continue the client's"
            found[nonce.removeprefix(b"r=" + NONCE.encode())] = None
    shortest = min(map(len, found))
    length = "each of at least 20 characters" if shortest >= 20 else f"one of {shortest} characters"
    return Seen(f"{len(found)} different nonces of the server, {length}", len(found) < _TIMES or shortest < 20)


async def _nonce_of_another(world: World) -> Seen:
    """The proof is for the nonce of another connection that is open at the same time."""
    side = _client(world)
    async with world.raw(CLEAR) as one, world.raw(CLEAR) as other:
        for client in (one, other):
            await client.handshake(SHA_512.value)
        final = side.answer((await one.token(side.first())).auth_bytes)
        await other.token(_client(world).first())
        assert final is not None
        return await _refused(other, final)


def _final(pattern: bytes, replacement: bytes) -> Attempt:
    """Return an attempt: the client's final message with a change."""

    async def attempt(world: World) -> Seen:
        side = _client(world)
        async with world.raw(CLEAR) as client:
            await client.handshake(SHA_512.value)
            sent = side.answer((await client.token(side.first())).auth_bytes)
            assert sent is not None
            forged = re.sub(pattern, replacement, sent)
            assert forged != sent, "nothing was changed"
            return await _refused(client, forged)

    return attempt


def _first(start: bytes) -> Attempt:
    """Return an attempt: the client's first message begins in another way."""

    async def attempt(world: World) -> Seen:
        async with world.raw(CLEAR) as client:
            await client.handshake(SHA_512.value)
            return await _refused(client, start + _client(world).first().removeprefix(b"n,,"))

    return attempt


async def _another_user(world: World) -> Seen:
    """A client that has logged in begins a login as a user with more rights."""
    async with world.raw(CLEAR) as client:
        await log_in(world, client)
        handshake = await client.handshake(SHA_512.value)
        if handshake.error == ErrorCode.NONE:
            return Seen("a second login may begin", True)
        answer = await client.token(_client(world, BROKERS).first())
        code = answer.error
        return Seen(f"error {code} {error_name(code)}", code == ErrorCode.NONE)


async def _plain(world: World) -> Seen:
    """PLAIN with the right password, which a broker that takes it would see in the clear."""
    async with world.raw(INTERNAL) as client:
        handshake = await client.handshake("PLAIN")
        if handshake.error != ErrorCode.NONE:
            offered = ", ".join(handshake.mechanisms)
            return Seen(f"error {handshake.error} {error_name(handshake.error)}; enabled is {offered}", False)
        answer = await client.token(PlainToken(GUEST, world.setting.secrets.password(GUEST)).encode())
        return Seen("the login by PLAIN is accepted", answer.error == ErrorCode.NONE)


_OTHER_NONCE: Final = rb"r=[^,]+"
_PROOF: Final = rb"p=.*"
ATTACKS: Final = (
    Attack(REPLAY, "both messages of a recorded login, on a new connection", guest_is_served, _replayed_tokens),
    Attack(REPLAY, "the same nonce of the client, 20 times", guest_is_served, _nonces),
    Attack(REPLAY, "a proof for the nonce of another open connection", guest_is_served, _nonce_of_another),
    Attack(REPLAY, "a final message with a nonce of its own", guest_is_served, _final(_OTHER_NONCE, b"r=" + b"x" * 40)),
    Attack(REPLAY, "an empty proof", guest_is_served, _final(_PROOF, b"p=")),
    Attack(
        REPLAY,
        "a proof of zeros",
        guest_is_served,
        _final(_PROOF, b"p=" + base64.b64encode(bytes(64))),
    ),
    Attack(
        REPLAY,
        "a final message that repeats another beginning (channel binding)",
        guest_is_served,
        _final(rb"c=biws", b"c=" + base64.b64encode(b"y,,")),
    ),
    Attack(REPLAY, "a first message that says that the server has no channel binding", guest_is_served, _first(b"y,,")),
    Attack(
        REPLAY,
        "a guest's login that asks to act as a super user",
        guest_is_served,
        _first(b"n,a=" + BROKERS.encode() + b","),
    ),
    Attack(REPLAY, "a login as a super user after a guest's", guest_is_served, _another_user),
    Attack(
        DOWNGRADE,
        "PLAIN with the right password, where only SCRAM is enabled",
        functools.partial(guest_is_served, listener=INTERNAL),
        _plain,
        "PLAIN enabled",
    ),
)
