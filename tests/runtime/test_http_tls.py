"""The HTTP server with TLS, over real sockets: handshakes that stand still, that are too many, and new certificates."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from lethe.adapters.http import Health, HttpServer, serve_http, standard_routes
from lethe.adapters.http_access import HttpAccess
from lethe.adapters.http_listener import HttpLimits
from lethe.adapters.security.refusal_counts import RefusalReason
from tests.fakes.certificates import Authority

LIMIT_S = 60
ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
ROUTES = standard_routes(lambda: b"up 1\n", lambda: Health(True), lambda: Health(True))
HELLO_BEGUN = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


class Certificates:
    """An authority, and what the server shows to the next client."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = Authority()
        self.trust = ssl.create_default_context(cafile=self._authority.pem_file(directory / "ca.pem"))
        self.file: Path | None = None
        self.serial = 0
        self.renew()

    def renew(self) -> None:
        leaf = self._authority.issue()
        self.serial = leaf.certificate.serial_number
        self.file = leaf.pem_file(self._directory / f"{self.serial}.pem")

    def context(self) -> ssl.SSLContext:
        if self.file is None:
            raise OSError("no certificate")
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.file)
        return made


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@asynccontextmanager
async def raw(server: HttpServer, sent: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """A connection below TLS."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        writer.write(sent)
        yield reader
    finally:
        writer.transport.abort()


async def serial_of(server: HttpServer, trust: ssl.SSLContext) -> int:
    """Ask over TLS; the serial number of the certificate that was shown."""
    async with asyncio.timeout(LIMIT_S):
        reader, writer = await asyncio.open_connection(server.host, server.port, ssl=trust, server_hostname="localhost")
        try:
            writer.write(ASK)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            return int(writer.get_extra_info("peercert")["serialNumber"], 16)
        finally:
            writer.transport.abort()


def test_uvloop_which_daemons_run_on_finds_no_fault_in_connections(certificates: Certificates) -> None:
    faults: list[dict[str, object]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        async with serve_http("127.0.0.1", 0, ROUTES, tls=certificates.context) as server:
            for _ in range(2):
                assert await serial_of(server, certificates.trust) == certificates.serial
            gc.collect()

    uvloop.run(scenario())
    assert faults == []


async def closed(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(LIMIT_S):
        with contextlib.suppress(ConnectionError):
            await reader.read()


async def test_it_speaks_tls_and_shows_a_new_certificate_to_the_next_client(certificates: Certificates) -> None:
    old_serial = certificates.serial
    async with serve_http("127.0.0.1", 0, ROUTES, tls=certificates.context) as server:
        assert server.url == f"https://127.0.0.1:{server.port}"
        assert await serial_of(server, certificates.trust) == old_serial
        certificates.renew()
        assert await serial_of(server, certificates.trust) == certificates.serial != old_serial


async def test_without_a_usable_certificate_connections_are_closed_until_there_is_one(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve_http("127.0.0.1", 0, ROUTES, tls=certificates.context) as server:
        certificates.file = None
        async with raw(server, ASK) as reader:
            await closed(reader)
        assert "there is no usable certificate" in caplog.text
        certificates.renew()
        assert await serial_of(server, certificates.trust) == certificates.serial


@pytest.mark.parametrize("sent", [ASK, b"\x00" * 64])
async def test_who_does_not_speak_tls_is_hung_up_on_without_an_answer(certificates: Certificates, sent: bytes) -> None:
    access = HttpAccess()
    async with serve_http("127.0.0.1", 0, ROUTES, access=access, tls=certificates.context) as server:
        async with raw(server, b""):
            pass
        async with raw(server, sent) as reader, asyncio.timeout(LIMIT_S):
            with contextlib.suppress(ConnectionError):
                assert b"HTTP" not in await reader.read()
        assert await serial_of(server, certificates.trust) == certificates.serial
    assert access.refused.by_reason == {RefusalReason.TLS: 1}, "who only connects is not counted"


async def test_clients_that_are_refused_are_logged_once_with_address_and_reason(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    def strict() -> ssl.SSLContext:
        context = certificates.context()
        context.verify_mode, context.maximum_version = ssl.CERT_REQUIRED, ssl.TLSVersion.TLSv1_2
        return context

    for tls, sent, words in (
        (certificates.context, ASK, "speaks HTTP without TLS; use https"),
        (strict, None, "shows no certificate, and lethe.http.ssl.client.auth requires one"),
    ):
        caplog.clear()
        access = HttpAccess()
        async with serve_http("127.0.0.1", 0, ROUTES, access=access, tls=tls) as server:
            for _ in range(3):
                if sent is None:
                    with pytest.raises(OSError):
                        await serial_of(server, certificates.trust)
                else:
                    async with raw(server, sent) as reader:
                        await closed(reader)
            async with asyncio.timeout(LIMIT_S):
                while access.refused.by_reason != {RefusalReason.TLS: 3}:
                    await asyncio.sleep(0.01)
        (record,) = caplog.records
        assert re.match(rf"refused an HTTP client at 127\.0\.0\.1:\d+: {words}", record.getMessage())


@pytest.mark.parametrize("sent", [b"", HELLO_BEGUN])
async def test_a_handshake_that_stands_still_is_hung_up_on(certificates: Certificates, sent: bytes) -> None:
    limits = HttpLimits(first_request_s=0.2)
    async with (
        serve_http("127.0.0.1", 0, ROUTES, limits=limits, tls=certificates.context) as server,
        raw(server, sent) as reader,
    ):
        await closed(reader)


async def test_a_handshake_without_a_request_is_hung_up_on(certificates: Certificates) -> None:
    limits = HttpLimits(first_request_s=0.5)
    async with serve_http("127.0.0.1", 0, ROUTES, limits=limits, tls=certificates.context) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port, ssl=certificates.trust)
        try:
            await closed(reader)
        finally:
            writer.transport.abort()


async def test_handshakes_beyond_the_limit_make_room_for_a_whole_request(certificates: Certificates) -> None:
    limits = HttpLimits(max_connections=3, first_request_s=10 * LIMIT_S)
    async with (
        serve_http("127.0.0.1", 0, ROUTES, limits=limits, tls=certificates.context) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        halves = [await stack.enter_async_context(raw(server, HELLO_BEGUN)) for _ in range(5)]
        assert await serial_of(server, certificates.trust) == certificates.serial
        for reader in halves[:3]:
            await closed(reader)


async def test_refused_handshakes_leave_no_descriptor_open(certificates: Certificates) -> None:
    async with serve_http("127.0.0.1", 0, ROUTES, tls=certificates.context) as server:
        assert await serial_of(server, certificates.trust) == certificates.serial
        before = _descriptors()
        for _ in range(20):
            async with raw(server, ASK) as reader:
                await closed(reader)
        async with asyncio.timeout(LIMIT_S):
            while _descriptors() > before:
                await asyncio.sleep(0.01)


async def test_the_server_stops_at_once_although_handshakes_stand_still(certificates: Certificates) -> None:
    async with asyncio.timeout(LIMIT_S), contextlib.AsyncExitStack() as stack:
        async with serve_http("127.0.0.1", 0, ROUTES, tls=certificates.context) as server:
            readers = [await stack.enter_async_context(raw(server, HELLO_BEGUN)) for _ in range(3)]
        for reader in readers:
            await closed(reader)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
