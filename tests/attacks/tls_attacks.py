"""TLS that is older, weaker or missing, is negotiated again, or comes with a certificate that does not count."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import warnings
from collections.abc import Callable
from typing import Final

from cryptography.x509.oid import ExtendedKeyUsageOID

from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.queries import ApiVersionsRequest
from tests.attacks.attack import Attack, Attempt, Control, Seen
from tests.attacks.frames import guest_is_served
from tests.attacks.scram_attacks import DOWNGRADE
from tests.attacks.setting import CLEAR, INTERNAL, LETHE, MTLS
from tests.attacks.world import World
from tests.fakes.certificates import DAY, Authority, Leaf, issued_by_leaf
from tests.fakes.raw_client import connected_to, frame

RENEGOTIATION: Final = "renegotiation"
CHAIN: Final = "wrong certificate chain"
VERSIONS: Final = frame(ApiVersionsRequest(), 0)
_ANSWER_S: Final = 20.0
_OPENSSL_S: Final = 60.0
_KEY_UPDATES: Final = 400
_CPU_S: Final = 2.0
Context = Callable[[World], ssl.SSLContext]


def context(world: World, leaf: Leaf | None = None) -> ssl.SSLContext:
    """Return the context of a client that accepts any server and shows this certificate, or the controller's."""
    made = world.setting.client_context(leaf or world.setting.authority.client(LETHE))
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


async def is_answered(port: int, made: ssl.SSLContext | None) -> bool:
    """Whether a client gets the answer to ApiVersions: after its handshake, TLS 1.3 may still refuse a certificate."""
    try:
        async with asyncio.timeout(_ANSWER_S), connected_to(port, made) as client:
            await client.ask(ApiVersionsRequest(), ApiKey.API_VERSIONS, 0)
    except (OSError, asyncio.IncompleteReadError):
        return False
    return True


async def with_the_right_one(world: World) -> str:
    """Control: the controller's certificate is accepted."""
    assert await is_answered(await world.port(MTLS), context(world)), "the right certificate is refused"
    return f"the certificate of CN={LETHE} gets in"


def _seen(answered: bool) -> Seen:
    return Seen("a request is answered" if answered else "the handshake of TLS fails", answered)


# --- older and weaker ---------------------------------------------------------------------------------------------


def _old(world: World) -> ssl.SSLContext:
    made = context(world)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        made.minimum_version, made.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    made.set_ciphers("ALL:@SECLEVEL=0")
    return made


def _weak(ciphers: str) -> Context:
    def make(world: World) -> ssl.SSLContext:
        made = context(world)
        made.maximum_version = ssl.TLSVersion.TLSv1_2
        made.set_ciphers(f"{ciphers}:@SECLEVEL=0")
        return made

    return make


def _offered(make: Context) -> Control:
    """Return a control: a server that accepts everything accepts this client, so OpenSSL here really offers it."""

    async def control(world: World) -> str:
        server = world.setting.server_context(world.setting.authority.issue("weak"))
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            server.minimum_version = ssl.TLSVersion.TLSv1
        server.set_ciphers("ALL:eNULL:aNULL:@SECLEVEL=0")
        done: list[str] = []

        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            done.append(str(writer.get_extra_info("cipher")))
            writer.close()

        listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server)
        try:
            with contextlib.suppress(OSError):
                async with connected_to(listening.sockets[0].getsockname()[1], make(world)) as client:
                    await client.reader.read(1)
        finally:
            listening.close()
        assert done, "OpenSSL does not offer it"
        await with_the_right_one(world)
        return "a server that allows it accepts this client"

    return control


def _weakly(make: Context) -> Attempt:
    async def attempt(world: World) -> Seen:
        return _seen(await is_answered(await world.port(MTLS), make(world)))

    return attempt


async def _without_tls(world: World) -> Seen:
    found = [await is_answered(await world.port(listener), None) for listener in (INTERNAL, MTLS)]
    return Seen("a request is answered" if any(found) else "closed without an answer, or with an alert", any(found))


async def _tls_without(world: World) -> Seen:
    return _seen(await is_answered(await world.port(CLEAR), context(world)))


# --- negotiated again ---------------------------------------------------------------------------------------------


async def _openssl(world: World, version: str, typed: bytes, times: int) -> str:
    """Return the output of `openssl s_client` in which a line is typed so often."""
    leaf = world.setting.authority.client(LETHE).pem_file(world.setting.directory / "typed.pem")
    process = await asyncio.create_subprocess_exec(
        *("openssl", "s_client", "-connect", f"127.0.0.1:{await world.port(MTLS)}", version),
        *("-cert", str(leaf), "-key", str(leaf), "-CAfile", str(world.setting.http.ca_file)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    said = b""
    try:
        async with asyncio.timeout(_OPENSSL_S):
            while b"Verify return code" not in said:
                data = await process.stdout.read(65_536)
                assert data, said.decode(errors="replace")
                said += data
            for _ in range(times):
                # It reads one command at a time, and forgets what came with it.
                process.stdin.write(typed)
                await process.stdin.drain()
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.5)
            process.stdin.close()
            said += await process.stdout.read()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
    return said.decode(errors="replace")


async def _openssl_gets_in(world: World) -> str:
    said = await _openssl(world, "-tls1_2", b"", 0)
    assert "Cipher is (NONE)" not in said, said
    return "openssl s_client makes a handshake of TLS 1.2"


async def _renegotiated(world: World) -> Seen:
    said = await _openssl(world, "-tls1_2", b"R\n", 1)
    assert "RENEGOTIATING" in said, said
    refused = "no renegotiation" in said
    return Seen("refused with the alert no_renegotiation" if refused else "not refused", not refused)


async def _key_updates(world: World) -> Seen:
    before = world.resources()
    said = await _openssl(world, "-tls1_3", b"K\n", _KEY_UPDATES)
    asked = said.count("KEYUPDATE")
    assert asked > _KEY_UPDATES / 2, f"only {asked} updates were asked for"
    dear = world.resources().cpu_s - before.cpu_s > _CPU_S
    return Seen(f"carried out, with {'more' if dear else 'less'} than {_CPU_S:g} s of processor time", dear)


# --- certificates -------------------------------------------------------------------------------------------------


def _shown(make: Callable[[Authority], Leaf]) -> Attempt:
    async def attempt(world: World) -> Seen:
        made = context(world, make(world.setting.authority))
        return _seen(await is_answered(await world.port(MTLS), made))

    return attempt


async def _no_certificate(world: World) -> Seen:
    made = world.setting.client_context()
    return _seen(await is_answered(await world.port(MTLS), made))


def _below(authority: Authority) -> Leaf:
    return Authority("Intermediate", authority).issue(LETHE, hosts=())


async def _with_intermediate(world: World) -> str:
    made = context(world, _below(world.setting.authority))
    assert await is_answered(await world.port(MTLS), made), "a chain with its intermediate is refused"
    return "the same certificate with its intermediate gets in"


def _without_intermediate(authority: Authority) -> Leaf:
    leaf = _below(authority)
    return Leaf(leaf.key, leaf.certificate)


CHAINS: Final[tuple[tuple[str, Callable[[Authority], Leaf]], ...]] = (
    ("a certificate of another authority, with the controller's name", lambda _: Authority("Other").client(LETHE)),
    ("an expired certificate", lambda ca: ca.expired(LETHE)),
    ("a certificate that is not valid yet", lambda ca: ca.issue(LETHE, hosts=(), begins=DAY, ends=2 * DAY)),
    ("a certificate that a leaf has issued", lambda ca: issued_by_leaf(ca.client("guest"), LETHE)),
    (
        "a certificate that is for servers only",
        lambda ca: ca.issue(LETHE, hosts=(), purposes=[ExtendedKeyUsageOID.SERVER_AUTH]),
    ),
)
ATTACKS: Final = (
    Attack(DOWNGRADE, "only TLS 1.0 and 1.1", _offered(_old), _weakly(_old)),
    *(
        Attack(DOWNGRADE, f"TLS 1.2 with suites {what}", _offered(_weak(ciphers)), _weakly(_weak(ciphers)))
        for what, ciphers in (("without encryption (eNULL)", "eNULL"), ("without a certificate (aNULL)", "aNULL"))
    ),
    Attack(DOWNGRADE, "a request without TLS at listeners with TLS", with_the_right_one, _without_tls),
    Attack(DOWNGRADE, "a handshake of TLS at a listener without it", guest_is_served, _tls_without),
    Attack(RENEGOTIATION, "a renegotiation of TLS 1.2 by the client", _openssl_gets_in, _renegotiated),
    Attack(RENEGOTIATION, f"{_KEY_UPDATES} key updates of TLS 1.3", with_the_right_one, _key_updates),
    Attack(CHAIN, "no certificate", with_the_right_one, _no_certificate, "no client certificate"),
    *(Attack(CHAIN, what, with_the_right_one, _shown(make)) for what, make in CHAINS),
    Attack(
        CHAIN,
        "a certificate without the intermediate that issued it",
        _with_intermediate,
        _shown(_without_intermediate),
    ),
)
