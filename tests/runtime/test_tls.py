"""TLS on real sockets: who is let in, what is said to the others, and files that change while connections come."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Certificate, load_der_x509_certificate

from lethe.adapters.properties import ConfigError
from lethe.adapters.security import tls
from lethe.adapters.security.handshakes import handshake_problem
from lethe.adapters.security.prefixed import Place, PlacedSecret
from lethe.adapters.security.secrets import Secret
from lethe.adapters.security.stores import StoreSettings
from lethe.adapters.security.tls import ClientAuth, TlsMaterial, TlsSettings, TlsStatus
from tests.fakes.certificates import DAY, Authority, Leaf, pem
from tests.fakes.rights import open_directory, unprivileged

PASSWORD = "store-password-1"
PEER = "broker 3 (localhost:9093)"


class SetClock:
    def __init__(self) -> None:
        self.ms = time.time_ns() // 1_000_000

    def now_ms(self) -> int:
        return self.ms


@pytest.fixture(scope="module")
def ca() -> Authority:
    return Authority()


def keystore(path: Path, password: str | None = None) -> StoreSettings:
    placed = None if password is None else PlacedSecret(Secret(password), Place("ssl.keystore.password", "f:2"))
    place = Place("ssl.keystore.location", "f:1")
    return StoreSettings(place, None, path, "ssl.keystore.password", "ssl.key.password", password=placed)


def truststore(path: Path) -> StoreSettings:
    place = Place("ssl.truststore.location", "f:3")
    return StoreSettings(place, None, path, "ssl.truststore.password", "ssl.truststore.password")


def trusting(ca: Authority, tmp_path: Path, **changes: Any) -> TlsSettings:
    path = ca.pem_file(tmp_path / f"trust-{os.urandom(4).hex()}.pem")
    return replace(TlsSettings(truststore=truststore(path)), **changes)


def showing(leaf: Leaf, tmp_path: Path, **changes: Any) -> TlsSettings:
    path = leaf.pem_file(tmp_path / f"key-{os.urandom(4).hex()}.pem")
    return replace(TlsSettings(keystore=keystore(path)), **changes)


@asynccontextmanager
async def listening(material: TlsMaterial) -> AsyncIterator[int]:
    """A server that asks for its context at each connection, echoes a line, and yields its port."""
    loop = asyncio.get_running_loop()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ssl.SSLError, OSError):
            writer.write(await reader.readline())
            await writer.drain()
        writer.close()

    def protocol() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), answer)

    async def accept() -> None:
        while True:
            accepted, _ = await loop.sock_accept(listener)
            with suppress(ssl.SSLError, OSError):
                await loop.connect_accepted_socket(protocol, accepted, ssl=material.server_context())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        accepting = asyncio.create_task(accept())
        try:
            yield listener.getsockname()[1]
        finally:
            accepting.cancel()
            await asyncio.wait([accepting])


@contextmanager
def answering_once(context: ssl.SSLContext) -> Iterator[int]:
    """A server in a thread. Unlike asyncio's it sends the alert that says why it refuses a client, as brokers do."""

    def serve() -> None:
        accepted, _ = listener.accept()
        with context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False) as connection:
            try:
                connection.do_handshake()
                connection.sendall(connection.recv(100))
            except OSError:
                # The alert is sent. What the client sent meanwhile is read, or the kernel would reset the connection.
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(100):
                        pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join(30)


async def shown(port: int, context: ssl.SSLContext, host: str = "localhost") -> tuple[Certificate, ssl.SSLObject]:
    """The server's certificate and the connection, after a line went both ways."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=host)
    try:
        writer.write(b"hello\n")
        answer = await reader.readline()
        if not answer:
            raise ConnectionResetError("closed without an answer")
        assert answer == b"hello\n"
        found: ssl.SSLObject = writer.get_extra_info("ssl_object")
        der = found.getpeercert(binary_form=True)
        assert der is not None
        return load_der_x509_certificate(der), found
    finally:
        writer.close()
        with suppress(ssl.SSLError, OSError):
            await writer.wait_closed()


async def refusal(
    server: TlsSettings, client: TlsSettings, host: str = "localhost", clock: SetClock | None = None
) -> str:
    """The sentence about a handshake that fails."""
    with answering_once(TlsMaterial(server, clock).server_context()) as port, pytest.raises(ssl.SSLError) as raised:
        await shown(port, TlsMaterial(client).client_context(), host)
    return handshake_problem(raised.value, PEER, host)


# --- handshakes ---------------------------------------------------------------------------------------------------


async def test_a_client_believes_the_authority_it_trusts(ca: Authority, tmp_path: Path) -> None:
    leaf = ca.issue()
    path = leaf.pkcs12(tmp_path / "key.p12", PASSWORD)
    async with listening(TlsMaterial(TlsSettings(keystore=keystore(path, PASSWORD)))) as port:
        context = TlsMaterial(trusting(ca, tmp_path)).client_context()
        for host in ("localhost", "127.0.0.1"):
            certificate, connection = await shown(port, context, host)
            assert certificate == leaf.certificate
            assert connection.version() == "TLSv1.3"


def test_the_same_on_uvloop(ca: Authority, tmp_path: Path) -> None:
    async def scenario() -> None:
        leaf = ca.issue()
        async with listening(TlsMaterial(showing(leaf, tmp_path))) as port:
            certificate, _ = await shown(port, TlsMaterial(trusting(ca, tmp_path)).client_context())
            assert certificate == leaf.certificate

    uvloop.run(scenario())


async def test_the_chain_is_sent_and_an_intermediate_can_be_what_is_trusted(tmp_path: Path) -> None:
    root = Authority("root")
    middle = Authority("middle", root)
    async with listening(TlsMaterial(showing(middle.issue(), tmp_path))) as port:
        for trusted in (root, middle):
            await shown(port, TlsMaterial(trusting(trusted, tmp_path)).client_context())


async def test_the_certificate_itself_can_be_what_is_trusted(ca: Authority, tmp_path: Path) -> None:
    leaf = ca.issue()
    path = tmp_path / "trust.pem"
    path.write_text(pem(leaf.certificate))
    async with listening(TlsMaterial(showing(leaf, tmp_path))) as port:
        await shown(port, TlsMaterial(TlsSettings(truststore=truststore(path))).client_context())


@pytest.mark.parametrize("auth", [ClientAuth.REQUESTED, ClientAuth.REQUIRED])
async def test_a_listener_sees_the_clients_certificate(ca: Authority, tmp_path: Path, auth: ClientAuth) -> None:
    client = ca.client("CN-of-lethe")
    both = replace(showing(client, tmp_path), truststore=trusting(ca, tmp_path).truststore)
    settings = replace(showing(ca.issue(), tmp_path), truststore=both.truststore, client_auth=auth)
    near, far = socket.socketpair()
    connecting = asyncio.to_thread(TlsMaterial(both).client_context().wrap_socket, near, server_hostname="localhost")
    accepting = asyncio.to_thread(TlsMaterial(settings).server_context().wrap_socket, far, server_side=True)
    with near, far:
        connected, accepted = await asyncio.gather(connecting, accepting)
        with connected, accepted:
            der = accepted.getpeercert(binary_form=True)
    assert der is not None
    assert load_der_x509_certificate(der) == client.certificate


async def test_a_client_without_certificate(ca: Authority, tmp_path: Path) -> None:
    server = replace(showing(ca.issue(), tmp_path), truststore=trusting(ca, tmp_path).truststore)
    required, requested = (replace(server, client_auth=auth) for auth in (ClientAuth.REQUIRED, ClientAuth.REQUESTED))
    assert await refusal(required, trusting(ca, tmp_path)) == (
        f"{PEER}: requires a certificate of its clients; set ssl.keystore.location"
    )
    old = replace(required, max_version=ssl.TLSVersion.TLSv1_2)
    assert "lacks a certificate of this side" in await refusal(old, trusting(ca, tmp_path))
    async with listening(TlsMaterial(requested)) as port:
        await shown(port, TlsMaterial(trusting(ca, tmp_path)).client_context())


async def test_a_client_of_another_authority(ca: Authority, tmp_path: Path) -> None:
    trust = trusting(ca, tmp_path).truststore
    server = replace(showing(ca.issue(), tmp_path), truststore=trust, client_auth=ClientAuth.REQUIRED)
    stranger = replace(showing(Authority("other").client(), tmp_path), truststore=trust)
    text = await refusal(server, stranger)
    assert text.startswith(
        f"{PEER}: does not know the authority that issued this side's certificate; add that authority"
    )


async def test_a_server_of_another_authority(ca: Authority, tmp_path: Path) -> None:
    text = await refusal(showing(Authority("other").issue(), tmp_path), trusting(ca, tmp_path))
    assert text == (
        f"{PEER}: its certificate is issued by an authority that is not trusted here; "
        "add that authority's certificate to ssl.truststore.location"
    )


async def test_a_server_whose_certificate_has_expired(ca: Authority, tmp_path: Path) -> None:
    clock = SetClock()
    clock.ms -= 5 * 86_400_000
    text = await refusal(showing(ca.expired(), tmp_path), trusting(ca, tmp_path), clock=clock)
    assert text == f"{PEER}: its certificate has expired; renew it there, and check this machine's clock"


@pytest.mark.parametrize("hosts", [("elsewhere.example",), ()])
async def test_a_server_with_another_name(ca: Authority, tmp_path: Path, hosts: tuple[str, ...]) -> None:
    server, client = showing(ca.issue("somewhere.example", hosts), tmp_path), trusting(ca, tmp_path)
    text = await refusal(server, client)
    assert text.startswith(f"{PEER}: its certificate does not name 'localhost' among its subject alternative names (")
    assert "connect by a name that it has" in text
    assert "does not name '127.0.0.1'" in await refusal(server, client, "127.0.0.1")
    async with listening(TlsMaterial(server)) as port:
        await shown(port, TlsMaterial(replace(client, check_host=False)).client_context())


async def test_the_common_name_counts_without_alternative_names_and_never_for_an_address(
    ca: Authority, tmp_path: Path
) -> None:
    """As in Java's HostnameChecker."""
    client = trusting(ca, tmp_path)
    async with listening(TlsMaterial(showing(ca.issue("localhost", hosts=()), tmp_path))) as port:
        await shown(port, TlsMaterial(client).client_context())
    assert "does not name 'localhost'" in await refusal(showing(ca.issue("localhost", ["a.example"]), tmp_path), client)
    assert "does not name '127.0.0.1'" in await refusal(
        showing(ca.issue("127.0.0.1", hosts=()), tmp_path), client, "127.0.0.1"
    )


async def test_the_check_of_the_host_can_be_off_while_the_authority_still_counts(ca: Authority, tmp_path: Path) -> None:
    client = trusting(ca, tmp_path, check_host=False)
    assert "not trusted here" in await refusal(showing(Authority("other").issue(), tmp_path), client)


async def test_versions_and_suites(ca: Authority, tmp_path: Path) -> None:
    v12, v13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    server, client = showing(ca.issue(), tmp_path), trusting(ca, tmp_path)
    only_13 = replace(server, min_version=v13)
    text = await refusal(only_13, replace(client, client_max_version=v12))
    assert text == f"{PEER}: speaks no version of TLS that is enabled here; compare ssl.enabled.protocols of both sides"
    suite = "ECDHE-ECDSA-AES128-GCM-SHA256"
    chosen = replace(server, max_version=v12, ciphers=(suite,))
    async with listening(TlsMaterial(chosen)) as port:
        _, connection = await shown(port, TlsMaterial(client).client_context())
        assert connection.cipher() == (suite, "TLSv1.2", 128)
    other = replace(client, client_max_version=v12, ciphers=("ECDHE-ECDSA-AES256-GCM-SHA384",))
    assert "finds no common cipher suite" in await refusal(chosen, other)


async def test_a_connection_that_is_closed_without_an_alert(ca: Authority, tmp_path: Path) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        with pytest.raises(OSError) as raised:
            await shown(server.sockets[0].getsockname()[1], TlsMaterial(trusting(ca, tmp_path)).client_context())
    text = handshake_problem(raised.value, PEER)
    assert text.startswith(f"{PEER}: closed the connection during the handshake of TLS; look at its log: ")


async def test_old_versions_are_neither_offered_nor_taken(ca: Authority, tmp_path: Path) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(cadata=pem(ca.certificate))
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    context = TlsMaterial(showing(ca.issue(), tmp_path)).server_context()
    with answering_once(context) as port, pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        await shown(port, old)


def test_nobody_may_renegotiate(ca: Authority, tmp_path: Path) -> None:
    """Each renegotiation of TLS 1.2 costs a server a handshake, and a client little."""
    material = TlsMaterial(showing(ca.issue(), tmp_path))
    for context in (material.server_context(), material.client_context()):
        assert context.options & ssl.OP_NO_RENEGOTIATION


async def test_a_server_without_tls(ca: Authority, tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        with pytest.raises(ssl.SSLError) as raised:
            await shown(server.sockets[0].getsockname()[1], TlsMaterial(trusting(ca, tmp_path)).client_context())
    text = handshake_problem(raised.value, PEER)
    assert text == f"{PEER}: does not speak TLS; connect to a listener with SSL or SASL_SSL, or use PLAINTEXT"


# --- files that change --------------------------------------------------------------------------------------------


async def test_a_new_certificate_is_shown_at_the_next_connection(ca: Authority, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    old, new = ca.issue("old"), ca.issue("new", ends=60 * DAY)
    old.pem_file(path)
    material = TlsMaterial(TlsSettings(keystore=keystore(path)))
    context = TlsMaterial(trusting(ca, tmp_path)).client_context()
    async with listening(material) as port:
        assert (await shown(port, context))[0] == old.certificate
        assert material.server_context() is material.server_context()
        assert material.status().expires_ms == old.ends_ms()
        new.pem_file(tmp_path / "new.pem").replace(path)
        assert (await shown(port, context))[0] == new.certificate
        assert material.status().expires_ms == new.ends_ms()


async def test_a_new_authority_is_trusted_by_connections_that_follow(ca: Authority, tmp_path: Path) -> None:
    other = Authority("other")
    path = ca.pem_file(tmp_path / "trust.pem")
    material = TlsMaterial(TlsSettings(truststore=truststore(path)))
    async with listening(TlsMaterial(showing(other.issue(), tmp_path))) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await shown(port, material.client_context())
        other.pem_file(path)
        await shown(port, material.client_context())


async def test_a_link_that_leads_elsewhere_counts_as_a_change(ca: Authority, tmp_path: Path) -> None:
    """Kubernetes replaces the directory behind a link, and what is in it may have the same time and size."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        ca.issue(name).pem_file(tmp_path / name / "key.pem")
        os.utime(tmp_path / name / "key.pem", (0, 0))
    link = tmp_path / "data"
    link.symlink_to("one")
    material = TlsMaterial(TlsSettings(keystore=keystore(link / "key.pem")))
    before = material.server_context()
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(link)
    assert material.server_context() is not before


async def test_a_half_written_file_keeps_the_old_context_and_is_said_once(
    ca: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "key.pem"
    old, new = ca.issue("old"), ca.issue("new")
    old.pem_file(path)
    clock = SetClock()
    material = TlsMaterial(TlsSettings(keystore=keystore(path)), clock)
    context = TlsMaterial(trusting(ca, tmp_path)).client_context()
    whole = new.key_pem() + new.chain_pem()
    caplog.set_level(logging.INFO, tls.__name__)
    async with listening(material) as port:
        for size in (len(new.key_pem()) + 40, len(new.key_pem()) + 90):
            path.write_text(whole[:size])
            for _ in range(3):
                assert (await shown(port, context))[0] == old.certificate
                clock.ms += tls.RETRY_MS
        assert material.status() == TlsStatus(old.ends_ms(), None, is_outdated=True)
        (said,) = [record.getMessage() for record in caplog.records]
        assert said == (
            f"{path} changed and cannot be used; what was read before stays in use: "
            f"f:1: ssl.keystore.location='{path}': has a block without its END line: it is cut off; "
            "write the certificates again, as PEM"
        )
        path.write_text(whole)
        assert (await shown(port, context))[0] == new.certificate
        assert material.status() == TlsStatus(new.ends_ms(), None, is_outdated=False)
        assert [record.getMessage() for record in caplog.records][1:] == [
            f"{path} changed: new connections use the new content"
        ]


def test_a_file_that_may_not_be_read_any_more_keeps_the_old_context_and_is_named(
    ca: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with open_directory() as place:
        path = ca.issue().pem_file(place / "key.pem")
        path.chmod(0o644)
        with unprivileged():
            material = TlsMaterial(TlsSettings(keystore=keystore(path)))
        old = material.server_context()
        path.chmod(0)
        with unprivileged():
            assert material.server_context() is old
            assert material.status().is_outdated
        (record,) = caplog.records
        assert f"{path} changed and cannot be used" in record.getMessage()
        assert "may not be read by user" in record.getMessage()


def test_without_a_place_for_the_key_the_old_context_stays_in_use_and_that_is_said_once(
    ca: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ca.issue("old").pem_file(tmp_path / "key.pem")
    clock = SetClock()
    material = TlsMaterial(TlsSettings(keystore=keystore(path)), clock)
    old = material.server_context()
    ca.issue("new").pem_file(path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    for _ in range(3):
        assert material.server_context() is old
        clock.ms += tls.RETRY_MS
    assert material.status().is_outdated
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{path} changed and cannot be used; what was read before stays in use: f:1: ssl.keystore.location='{path}': "
        "is read by way of a temporary directory, which cannot be written: No such file or directory; make room there, "
        "or name another one in the variable TMPDIR"
    )
    with pytest.raises(ConfigError, match="TMPDIR"):
        TlsMaterial(TlsSettings(keystore=keystore(path)))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    clock.ms += tls.RETRY_MS
    assert material.server_context() is not old


def test_a_certificate_that_only_openssl_refuses_keeps_the_old_context(
    ca: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = ca.pem_file(tmp_path / "trust.pem")
    material = TlsMaterial(TlsSettings(truststore=truststore(path)))
    old = material.client_context()
    der = ca.certificate.public_bytes(Encoding.DER).replace(b"Test CA", b"\xffest CA", 1)
    path.write_text(ssl.DER_cert_to_PEM_cert(der))
    assert material.client_context() is old
    (record,) = caplog.records
    assert f"ssl.truststore.location='{path}': OpenSSL refuses a certificate of it; have it" in record.getMessage()


def test_a_name_of_a_host_that_cannot_be_read_is_left_to_clients(
    ca: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leaf, path = ca.issue(), tmp_path / "key.pem"
    der = leaf.certificate.public_bytes(Encoding.DER).replace(b"localhost", b"\xffocalhost")
    path.write_text(leaf.key_pem() + ssl.DER_cert_to_PEM_cert(der))
    TlsMaterial(TlsSettings(keystore=keystore(path))).server_context()
    assert caplog.records == []


def test_a_second_failure_is_said_again_when_the_file_was_good_between(
    ca: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = ca.issue().pem_file(tmp_path / "key.pem")
    material = TlsMaterial(TlsSettings(keystore=keystore(path)))
    good = tmp_path / "good"
    for number in (1, 2):
        path.rename(good)
        material.client_context()
        material.client_context()
        assert len(caplog.records) == number
        good.rename(path)
        material.client_context()


def test_what_failed_without_a_change_of_the_file_is_tried_again_later(ca: Authority, tmp_path: Path) -> None:
    path = ca.issue().pem_file(tmp_path / "key.pem")
    clock = SetClock()
    material = TlsMaterial(TlsSettings(keystore=keystore(path)), clock)
    old = material.server_context()
    soon = ca.issue("soon", begins=DAY, ends=20 * DAY)
    soon.pem_file(path)
    assert material.server_context() is old
    clock.ms += 86_400_000 + 60_000
    new = material.server_context()
    assert new is not old
    assert material.status().expires_ms == soon.ends_ms()


def test_a_file_that_is_removed_and_comes_back_unchanged_is_no_change(ca: Authority, tmp_path: Path) -> None:
    path = ca.issue().pem_file(tmp_path / "key.pem")
    material = TlsMaterial(TlsSettings(keystore=keystore(path)))
    old = material.server_context()
    path.rename(tmp_path / "away")
    assert material.server_context() is old
    assert material.status().is_outdated
    (tmp_path / "away").rename(path)
    assert material.server_context() is old
    assert not material.status().is_outdated


def test_the_first_end_of_the_trusted_certificates_counts_those_that_have_not_ended(tmp_path: Path) -> None:
    ended, first, last = Authority("ended", ends=-DAY), Authority("first", ends=3 * DAY), Authority("last")
    path = tmp_path / "trust.pem"
    path.write_text(pem(ended.certificate, last.certificate, first.certificate))
    material = TlsMaterial(TlsSettings(truststore=truststore(path)))
    first_ms = int(first.certificate.not_valid_after_utc.timestamp()) * 1000
    assert material.status() == TlsStatus(None, first_ms, is_outdated=False)


def test_a_session_that_an_old_context_began_is_not_resumed_by_a_new_one(ca: Authority, tmp_path: Path) -> None:
    """A client whose authority is trusted no longer stays out, although it kept its session."""
    leaving = Authority("leaving")
    path = tmp_path / "trust.pem"
    path.write_text(pem(ca.certificate, leaving.certificate))
    for highest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        path.write_text(pem(ca.certificate, leaving.certificate))
        server = replace(showing(ca.issue(), tmp_path), truststore=truststore(path), client_auth=ClientAuth.REQUIRED)
        material = TlsMaterial(replace(server, max_version=highest))
        client = TlsMaterial(replace(showing(leaving.client(), tmp_path), truststore=truststore(path))).client_context()
        session, resumed = blocking_handshake(material, client, None)
        assert not resumed
        assert blocking_handshake(material, client, session)[1]
        ca.pem_file(path)
        with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
            blocking_handshake(material, client, session)


def blocking_handshake(
    material: TlsMaterial, client: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession | None, bool]:
    """Return the client's session, and whether it was resumed. asyncio gives no access to sessions."""
    near, far = socket.socketpair()

    def serve() -> None:
        with suppress(ssl.SSLError, OSError), material.server_context().wrap_socket(far, server_side=True) as accepted:
            accepted.sendall(b"x")
            accepted.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(near, server_hostname="localhost", session=session) as connected:
            connected.recv(1)
            return connected.session, connected.session_reused is True
    finally:
        near.close()
        thread.join(10)
        far.close()


# --- what listeners lack ------------------------------------------------------------------------------------------


def test_a_listener_needs_a_key_store_and_a_truststore_for_client_certificates(ca: Authority, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"ssl\.keystore\.location: is missing: a listener with TLS shows a certificate; name"
    ):
        TlsMaterial(trusting(ca, tmp_path)).server_context()
    settings = showing(ca.issue(), tmp_path, client_auth=ClientAuth.REQUIRED)
    with pytest.raises(
        ConfigError, match=r"ssl\.truststore\.location: is missing: client certificates have to be issued"
    ):
        TlsMaterial(settings).server_context()
    assert TlsMaterial(settings).client_context().verify_mode is ssl.CERT_REQUIRED


def test_both_stores_problems_come_together(tmp_path: Path) -> None:
    settings = TlsSettings(keystore=keystore(tmp_path / "a"), truststore=truststore(tmp_path / "b"))
    with pytest.raises(ConfigError) as raised:
        TlsMaterial(settings)
    assert [problem.name for problem in raised.value.problems] == ["ssl.keystore.location", "ssl.truststore.location"]


def test_a_certificate_without_alternative_names_is_named_once_and_only_for_listeners(
    ca: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    material = TlsMaterial(showing(ca.client(), tmp_path))
    material.client_context()
    assert not caplog.records
    for _ in range(2):
        material.server_context()
    (record,) = caplog.records
    assert "the certificate has no subject alternative name" in record.getMessage()


def test_without_settings_the_systems_authorities_are_trusted() -> None:
    material = TlsMaterial(TlsSettings())
    context = material.client_context()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert material.status() == TlsStatus(None, None, is_outdated=False)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    system = ssl.create_default_context()
    assert context.cert_store_stats() == system.cert_store_stats()


# --- the key on its way to OpenSSL --------------------------------------------------------------------------------


def test_no_other_user_can_read_the_key_while_the_ssl_module_does(
    ca: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = showing(ca.issue(), tmp_path)
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    before = os.umask(0)
    try:
        with at_removal(modes_and_texts) as seen:
            TlsMaterial(settings)
    finally:
        os.umask(before)
    assert len(seen) == 2
    for mode, files in seen:
        assert mode & 0o777 == 0o700
        ((file_mode, text),) = files
        assert file_mode & 0o777 == 0o600
        assert "ENCRYPTED PRIVATE KEY" in text
    assert list(place.iterdir()) == []


def modes_and_texts(path: Path) -> tuple[int, list[tuple[int, str]]]:
    return path.stat().st_mode, [(file.stat().st_mode, file.read_text()) for file in path.iterdir()]


_looks: list[tuple[Callable[[Path], Any], list[Any]]] = []


def _audited(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "shutil.rmtree":
        for look, seen in _looks:
            seen.append(look(Path(arguments[0])))


@contextmanager
def at_removal(look: Callable[[Path], Any]) -> Iterator[list[Any]]:
    """Look at each directory that is about to be removed. Python keeps an audit hook for ever; it sleeps afterwards."""
    if not hasattr(at_removal, "added"):
        sys.addaudithook(_audited)
        at_removal.added = True  # type: ignore[attr-defined]
    seen: list[Any] = []
    _looks.append((look, seen))
    try:
        yield seen
    finally:
        _looks.clear()


async def test_nobody_waits_while_another_thread_reads(ca: Authority, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    leaf = ca.issue()
    leaf.pem_file(path)
    material = TlsMaterial(TlsSettings(keystore=keystore(path)))
    old = material.client_context()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "fifo").replace(path)
    reading = asyncio.create_task(asyncio.to_thread(material.client_context))
    writing = await asyncio.to_thread(os.open, path, os.O_WRONLY)  # returns when the other thread has begun to read
    assert material.client_context() is old
    os.write(writing, (leaf.key_pem() + leaf.chain_pem()).encode())
    os.close(writing)
    assert await reading is not old


async def test_a_thread_may_ask(ca: Authority, tmp_path: Path) -> None:
    material = TlsMaterial(showing(ca.issue(), tmp_path))
    asked: list[Awaitable[ssl.SSLContext]] = [asyncio.to_thread(material.client_context) for _ in range(20)]
    assert len({id(context) for context in await asyncio.gather(*asked)}) == 1
