"""Brokers that attack: what a controller sends to one that is registered and is not what it should be.

The attacker can write a registration into ZooKeeper, or stands between the controller and a broker. It gets what it
wanted if it receives a password or a request of the controller.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cryptography.x509.oid import ExtendedKeyUsageOID

from lethe.protocol.kafka.control import (
    Addressed,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from lethe.protocol.kafka.queries import MetadataRequest, Request, Response
from lethe.protocol.security.plain import PlainServer
from lethe.protocol.vocabulary import NO_EPOCH, Broker, BrokerId, Endpoint, SecurityProtocol
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.paths import broker_id
from lethe.protocol.zookeeper.znodes import encode_broker
from tests.attacks.attack import Attack, Attempt, Seen
from tests.attacks.scram_attacks import DOWNGRADE, REPLAY
from tests.attacks.setting import BROKERS, INTERNAL, SHA_512
from tests.attacks.tls_attacks import CHAIN
from tests.attacks.world import World, until
from tests.fakes.certificates import Authority, Leaf
from tests.fakes.secure_broker import METADATA, SecureBroker, scram
from tests.fakes.zookeeper_cluster import apply

NUMBER: Final = 7
"""The broker's id."""
_TLS: Final = SecurityProtocol.SASL_SSL


@dataclass
class Hostile:
    """A registered broker, and what the controller has told it."""

    world: World
    broker: SecureBroker
    protocol: SecurityProtocol = _TLS
    received: list[str] = field(default_factory=list)
    """APIs of the controller's requests after its login."""

    async def meet(self, *, until_told: bool) -> str:
        """Register it until the controller has sent a request, or has said that it cannot; return that sentence."""
        self.broker.handler = self._answer
        async with self.broker.running() as port, self.world.cluster.session() as session:
            endpoint = Endpoint(INTERNAL, "127.0.0.1", port, self.protocol)
            znode = encode_broker(Broker(BrokerId(NUMBER), NO_EPOCH, (endpoint,)), timestamp_ms=0)
            begun = len(self.world.controller.process.output())
            await apply(session, Create(broker_id(NUMBER), znode, ephemeral=True))

            def said() -> str:
                lines = self.world.controller.process.output()[begun:].splitlines()
                found = [each for each in lines if re.search(_TROUBLE, each)]
                return found[0] if found else ""

            await until(lambda: bool(self.received if until_told else self.received or said()), "the controller comes")
            sentence = said()
        await until(self._is_forgotten, "the controller has forgotten the broker")
        return sentence

    async def _is_forgotten(self) -> bool:
        state = await self.world.controller.get("/state")
        return state is not None and all(each["id"] != NUMBER for each in state["brokers"])

    def _answer(self, request: Request) -> Response | None:
        self.received.append(type(request.request if isinstance(request, Addressed) else request).__name__)
        match request:
            case Addressed(LeaderAndIsrRequest()):
                return LeaderAndIsrResponse(0, ())
            case Addressed(StopReplicaRequest()):
                return StopReplicaResponse(0, ())
            case Addressed():
                return UpdateMetadataResponse(0)
            case MetadataRequest():
                return METADATA
            case _:
                return None


_TROUBLE: Final = rf"(?i)broker {NUMBER}\b.*(fail|refus|cannot|certificate|login|listener)"


def hostile(world: World, leaf: Leaf | None = None, protocol: SecurityProtocol = _TLS) -> Hostile:
    """Return a broker with this certificate, or a right one, that has the user's credential."""
    mechanisms = scram(SHA_512, BROKERS, world.setting.secrets.password(BROKERS))
    tls = world.setting.server_context(leaf or world.setting.authority.issue("broker-7"))
    return Hostile(world, SecureBroker(tls=tls, mechanisms=mechanisms), protocol)


async def a_true_broker(world: World) -> str:
    """Control: a broker with a right certificate, which knows the credential, is commanded."""
    true = hostile(world)
    await true.meet(until_told=True)
    return f"a true broker gets the login of User:{BROKERS} and {true.received[0]}"


def _result(met: Hostile) -> Seen:
    if met.received:
        return Seen(f"the controller sends {met.received[0]}", True)
    asked = list(dict.fromkeys(met.broker.apis()))
    return Seen(f"the controller sends {', '.join(asked) or 'nothing after the handshake'}, and no request", False)


def tampered(number: int, change: Callable[[bytes], bytes]) -> Attempt:
    """Return an attempt: the server's SCRAM message with this number is changed."""

    async def attempt(world: World) -> Seen:
        met = hostile(world)
        met.broker.tamper = lambda index, token: change(token) if index == number else token
        sentence = await met.meet(until_told=False)
        seen = _result(met)
        reason = next((words for words in _REASONS if words in sentence), None)
        return seen if reason is None else seen._replace(what=f"{seen.what}: {reason}")

    return attempt


_REASONS: Final = (
    "the server's nonce does not continue ours",
    "the server requests 4,095 SCRAM iterations",
    "the server's signature is wrong",
)


def showing(make: Callable[[Authority], Leaf]) -> Attempt:
    """Return an attempt: the broker has this certificate."""

    async def attempt(world: World) -> Seen:
        met = hostile(world, make(world.setting.authority))
        await met.meet(until_told=False)
        return _result(met)

    return attempt


async def _only_plain(world: World) -> Seen:
    """SCRAM is missing in the answer to SaslHandshake, as if somebody on the way had removed it."""
    met = hostile(world)
    shown: list[bytes] = []

    def check(user: str, password: str) -> bool:
        shown.append(password.encode())
        return True

    met.broker.mechanisms = {"PLAIN": lambda: PlainServer(check)}
    await met.meet(until_told=False)
    seen = _result(met)
    return Seen(f"{seen.what}; {'the password' if shown else 'no password'} is shown", bool(shown or met.received))


async def _registered_without(world: World) -> Seen:
    """The registration names the listener with PLAINTEXT, and nothing there asks for a login."""
    met = Hostile(world, SecureBroker(), SecurityProtocol.PLAINTEXT)
    await met.meet(until_told=False)
    return Seen(
        "the controller does not connect" if not met.broker.connections else _result(met).what,
        bool(met.broker.connections),
    )


async def _without_tls(world: World) -> Seen:
    """Something at the port of a listener with TLS answers without it."""
    met = Hostile(world, SecureBroker())
    await met.meet(until_told=False)
    return _result(met)


def _salt(token: bytes) -> bytes:
    return re.sub(rb"s=[^,]+", b"s=" + base64.b64encode(b"salt of the attacker"), token)


def _foreign(_: Authority) -> Leaf:
    return Authority("Other").issue("broker-7")


ATTACKS: Final = (
    Attack(DOWNGRADE, "a broker whose SaslHandshake offers only PLAIN", a_true_broker, _only_plain),
    Attack(DOWNGRADE, "a registration that says PLAINTEXT", a_true_broker, _registered_without),
    Attack(DOWNGRADE, "a broker that answers without TLS", a_true_broker, _without_tls),
    Attack(CHAIN, "a broker with a certificate of another authority", a_true_broker, showing(_foreign)),
    Attack(CHAIN, "a broker with an expired certificate", a_true_broker, showing(lambda ca: ca.expired("broker-7"))),
    Attack(
        CHAIN,
        "a broker with a certificate of another host",
        a_true_broker,
        showing(lambda ca: ca.issue("broker-7", hosts=("other.example",))),
        "names unchecked",
    ),
    Attack(
        CHAIN,
        "a broker with a certificate that is for clients only",
        a_true_broker,
        showing(lambda ca: ca.issue("broker-7", purposes=[ExtendedKeyUsageOID.CLIENT_AUTH])),
    ),
    Attack(
        REPLAY,
        "a broker whose nonce does not extend the controller's",
        a_true_broker,
        tampered(0, lambda token: re.sub(rb"r=[^,]+", b"r=" + b"x" * 60, token)),
    ),
    Attack(
        REPLAY,
        "a broker that asks for 4,095 iterations",
        a_true_broker,
        tampered(0, lambda token: re.sub(rb"i=\d+", b"i=4095", token)),
    ),
    Attack(REPLAY, "a broker that gives another salt", a_true_broker, tampered(0, _salt)),
    Attack(
        REPLAY,
        "a broker whose signature is wrong",
        a_true_broker,
        tampered(1, lambda _: b"v=" + base64.b64encode(bytes(64))),
    ),
)
