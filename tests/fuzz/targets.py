"""What the fuzzer feeds: parsers of the Kafka protocol, as servers and clients use them, and the controller's core."""

from __future__ import annotations

import random
from typing import Final

from lethe.adapters.security.accepting import SASL_APIS
from lethe.broker.runtime import requests as agent
from lethe.controller.core.requests import refused
from lethe.controller.runtime.listener import CONFIGS, EMPTY, OWN
from lethe.protocol.kafka.codec import Decoded, decode_request, decode_response, encode_request, encode_response
from lethe.protocol.kafka.codec_bindings import BINDINGS
from lethe.protocol.kafka.connection import ClientConnection, ServerConnection, api_versions_response
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.forwarding import MoreBytesNeeded, OwnApis, gets_answer
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.kafka.queries import ApiVersionsRequest, MetadataRequest
from lethe.protocol.kafka.to_controller import ControllerRequest
from lethe.protocol.security.exchange import AuthenticationFailed
from lethe.protocol.security.plain import PlainServer, PlainToken
from lethe.protocol.security.scram import ScramClient, ScramCredential, ScramMechanism, ScramServer, user_of
from tests.fuzz import core, seeds
from tests.fuzz.mutation import in_a_stream
from tests.fuzz.target import Target, Wrong

PASSWORD: Final = "correct-horse"
_MECHANISM: Final = ScramMechanism.SHA_256
_CREDENTIAL: Final = ScramCredential.of(_MECHANISM, PASSWORD, b"salt-of-ann")
_MAX_REQUEST_BYTES: Final = 65_536


# --- requests and answers ---------------------------------------------------------------------------------------------


def read_request(data: bytes) -> bool:
    """Every request that the codec reads, written again in its version."""
    header, value = decode_request(data)
    again = decode_request(encode_request(value, header.version, header.correlation_id, header.client_id))
    if again != (header, value):
        raise Wrong(f"{header.api.name} v{header.version}: {value} was written, and {again.value} read again")
    return True


def read_answer(data: bytes) -> bool:
    """A response behind the two bytes each of API and version, which its reader has from the request."""
    api, version = int.from_bytes(data[:2]), int.from_bytes(data[2:4])
    if api not in BINDINGS:
        return False
    key = ApiKey(api)
    correlation_id, value = decode_response(key, version, data[4:])
    if data[8:10] == b"\x00\x23" and key is ApiKey.API_VERSIONS:
        version = 0
    written = encode_response(key, version, correlation_id, value)
    again = decode_response(key, version, written)
    # Rows of one topic that came apart are written together.
    if again != (correlation_id, value) and encode_response(key, version, *again) != written:
        raise Wrong(f"{key.name} v{version}: {value} was written, and {again[1]} read again")
    return True


def _answers(draw: random.Random) -> list[bytes]:
    return [
        int(api).to_bytes(2) + version.to_bytes(2) + seeds.answer(BINDINGS[api][0], version, draw)
        for api, version in seeds.EVERY
    ]


# --- listeners --------------------------------------------------------------------------------------------------------


def _about_the_controller(request: object) -> bool:
    return any(each[1] == "1000" for each in getattr(request, "resources", ()))


def controllers_listener(data: bytes) -> bool:
    """A stream of frames at a controller: some are answered, some forwarded, most of them garbage."""
    claims = OwnApis(CONFIGS, _about_the_controller)
    server = ServerConnection({**OWN, **EMPTY, **SASL_APIS}, _MAX_REQUEST_BYTES, passes_on=True, claims=claims)
    server.receive(data)
    understood = False
    while True:
        foreign = server.foreign_head()
        if foreign is not None:
            try:
                gets_answer(server.peek(foreign.size + 4), foreign)
            except MoreBytesNeeded:
                return understood
            understood = True
            if len(server.take(foreign.size + 4)) < foreign.size + 4:
                return understood
            continue
        request = server.next_request()
        if request is None:
            return understood
        if isinstance(request, Decoded) and not _answered(server, request):
            return True
        understood = True


def _answered(server: ServerConnection, request: Decoded) -> bool:
    """Whether the request has got an answer; others are not answered here."""
    if isinstance(request.value, ControllerRequest):
        server.reply(refused(request.value))
        return True
    if isinstance(request.value, ApiVersionsRequest):
        server.reply(api_versions_response(OWN))
        return True
    return False


def agents_listener(data: bytes) -> bool:
    """A stream of frames at an agent, up to the first request that its core answers."""
    server = ServerConnection({**agent.SERVED, **SASL_APIS}, _MAX_REQUEST_BYTES)
    server.receive(data)
    understood = False
    while (request := server.next_request()) is not None:
        understood = True
        if isinstance(request, Decoded):
            break
    return understood


def _frames(draw: random.Random) -> list[bytes]:
    return [*seeds.requests(draw, each=1), *seeds.forwarded(draw), *seeds.recorded()]


def brokers_answers(data: bytes) -> bool:
    """A stream of answers, of any length, at a client that has sent three requests."""
    client = ClientConnection("fuzzer")
    for version in (12, 1, 8):
        client.send(MetadataRequest(None), version)
    return bool(client.receive(data))


def _metadata(draw: random.Random) -> list[bytes]:
    return [
        number.to_bytes(4) + seeds.answer("Metadata", version, draw)[4:]
        for number in range(3)
        for version in (12, 1, 8)
    ]


# --- logins -----------------------------------------------------------------------------------------------------------


def plain_login(data: bytes) -> bool:
    """A message of SASL PLAIN, with the wrong password unless it is the right message."""
    server = PlainServer(lambda name, password: (name, password) == ("ann", PASSWORD))
    server.answer(data)
    if server.principal != "ann":
        raise Wrong(f"the login of {server.principal!r} succeeds")
    return True


def _scram() -> tuple[ScramServer, ScramClient]:
    return (
        ScramServer(_MECHANISM, "server-nonce", lambda name: _CREDENTIAL if name == "ann" else None),
        ScramClient(_MECHANISM, "ann", PASSWORD, "client-nonce"),
    )


def scram_first(data: bytes) -> bool:
    """The first message of SCRAM; after it nobody has logged in."""
    user_of(data)
    server, _ = _scram()
    server.answer(data)
    if server.principal is not None:
        raise Wrong(f"the login of {server.principal!r} succeeds by its first message")
    return True


def scram_final(data: bytes) -> bool:
    """The final message of SCRAM: only the right one logs in."""
    server, client = _scram()
    server.answer(client.first())
    server.answer(data)
    if data not in _finals(random.Random(0)):
        raise Wrong(f"the login of {server.principal!r} succeeds by {data!r}")
    return True


def _plain_tokens(_draw: random.Random) -> list[bytes]:
    return [PlainToken("ann", PASSWORD).encode(), PlainToken("bob", "x", "ann").encode()]


def _firsts(_draw: random.Random) -> list[bytes]:
    return [_scram()[1].first(), b"n,a=ann,n=ann,r=abc", b"y,,n=a=2Cb=3D,r=abc,tokenauth=true", b"p=tls,,n=ann,r=a"]


_FINALS: list[bytes] = []


def _finals(_draw: random.Random) -> list[bytes]:
    """The right message. Making it takes thousands of rounds of HMAC, so it is made once."""
    if not _FINALS:
        server, client = _scram()
        final = client.answer(server.answer(client.first()))
        assert final is not None
        _FINALS.append(final)
    return _FINALS


TARGETS: Final = (
    Target("requests", read_request, (ProtocolError,), 800, lambda draw: [*seeds.requests(draw), *seeds.recorded()]),
    Target("controller's listener", controllers_listener, (ProtocolError,), 500, _frames, in_a_stream),
    Target("agent's listener", agents_listener, (ProtocolError,), 200, _frames, in_a_stream),
    Target("a broker's answers", brokers_answers, (ProtocolError,), 100, _metadata, in_a_stream),
    Target("answers", read_answer, (ProtocolError,), 200, _answers),
    Target("SASL PLAIN", plain_login, (AuthenticationFailed,), 60, _plain_tokens),
    Target("SCRAM, first", scram_first, (AuthenticationFailed,), 60, _firsts),
    Target("SCRAM, final", scram_final, (AuthenticationFailed,), 60, _finals),
    Target("controller's core", core.answer, (ProtocolError,), 2, core.requests, base_s=5.0, base_bytes=32_000_000),
)
BY_NAME: Final = {target.name: target for target in TARGETS}
