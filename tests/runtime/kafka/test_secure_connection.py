"""TLS and SASL of the client on real sockets: what works, each way to fail with its sentence, and hostile brokers."""

import asyncio
import contextlib
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lethe.adapters.kafka.client import (
    AuthenticationRefused,
    ClientError,
    ConnectionFailed,
    KafkaConnection,
    RequestTimedOut,
    TlsFailed,
)
from lethe.adapters.security.channel import PLAINTEXT, ChannelSecurity
from lethe.adapters.security.handshakes import shows_refusal
from lethe.adapters.security.login import SaslLogin
from lethe.adapters.security.refusal_counts import RefusalReason
from lethe.adapters.security.tokens import TokenCommand, TokenFile
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.queries import MetadataRequest
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from lethe.protocol.security.plain import PlainServer
from lethe.protocol.security.scram import ScramMechanism
from tests.fakes.certificates import Authority, Leaf
from tests.fakes.oauthbearer_server import OAuthBearerServer
from tests.fakes.secure_broker import METADATA, SecureBroker, scram

LIMIT_S = 30
PASSWORD = "correct-horse"
ALL = MetadataRequest(None)
SHA_512 = ScramMechanism.SHA_512
LOGIN = SaslLogin.scram(SHA_512, "lethe", lambda: PASSWORD)
CA = Authority()
BROKER = CA.issue("broker")


def scram_broker(**parts: object) -> SecureBroker:
    return SecureBroker(mechanisms=scram(SHA_512, "lethe", PASSWORD), **parts)  # type: ignore[arg-type]


def sasl(login: SaslLogin = LOGIN) -> ChannelSecurity:
    return ChannelSecurity(login=login)


async def connect(port: int, security: ChannelSecurity, host: str = "127.0.0.1", **limits: int) -> KafkaConnection:
    async with asyncio.timeout(LIMIT_S):
        return await KafkaConnection.open(host, port, "1001", security=security, **limits)


async def failure(
    broker: SecureBroker, security: ChannelSecurity, host: str = "127.0.0.1", **limits: int
) -> ConnectionFailed:
    """Return why a first request fails; it is counted, and nothing secret is in the text."""
    before = dict(security.refused.by_reason)
    async with broker.running() as port:
        with pytest.raises(ConnectionFailed) as failed:
            async with await connect(port, security, host, **limits) as connection:
                await connection.request(ALL, 12)
    text, error = str(failed.value), failed.value
    counts = security.refused.by_reason
    assert counts[RefusalReason.TLS] - before[RefusalReason.TLS] == (
        isinstance(error, TlsFailed) and shows_refusal(error.__cause__)
    )
    assert counts[RefusalReason.LOGIN] - before[RefusalReason.LOGIN] == isinstance(error, AuthenticationRefused)
    assert PASSWORD not in text
    assert f"{host}:{port}" in text
    return failed.value


# --- TLS ----------------------------------------------------------------------------------------------------------


def server_context(tmp_path: Path, leaf: Leaf = BROKER, clients: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(leaf.pem_file(tmp_path / "broker.pem"))
    if clients is not None:
        context.load_verify_locations(clients.pem_file(tmp_path / "clients.pem"))
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(tmp_path: Path, leaf: Leaf | None = None, trusted: Authority = CA) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(trusted.pem_file(tmp_path / "ca.pem")))
    if leaf is not None:
        context.load_cert_chain(leaf.pem_file(tmp_path / "client.pem"))
    return context


def tls(context: ssl.SSLContext, login: SaslLogin | None = None) -> ChannelSecurity:
    return ChannelSecurity(lambda: context, context.check_hostname, login)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_tls_with_a_client_certificate_and_sasl(tmp_path: Path, host: str) -> None:
    broker = scram_broker(tls=server_context(tmp_path, clients=CA))
    async with broker.running() as port:
        security = tls(client_context(tmp_path, CA.client()), LOGIN)
        async with await connect(port, security, host) as connection:
            assert await connection.request(ALL, 12) == METADATA
            assert await connection.ask(ALL) == METADATA
    assert broker.apis() == [
        *("API_VERSIONS", "SASL_HANDSHAKE", "SASL_AUTHENTICATE", "SASL_AUTHENTICATE"),
        *("METADATA", "METADATA"),
    ]
    assert broker.principals == ["lethe"]


async def test_each_connection_gets_the_context_of_its_time(tmp_path: Path) -> None:
    broker = SecureBroker(tls=server_context(tmp_path))
    contexts = iter([client_context(tmp_path), client_context(tmp_path, trusted=Authority("other"))])
    security = ChannelSecurity(lambda: next(contexts))
    async with broker.running() as port:
        async with await connect(port, security) as connection:
            assert await connection.request(ALL, 12) == METADATA
        with pytest.raises(TlsFailed, match="issued by an authority that is not trusted here"):
            await connect(port, security)


async def test_an_unknown_ca_of_the_broker(tmp_path: Path) -> None:
    security = tls(client_context(tmp_path, trusted=Authority("other")))
    error = await failure(SecureBroker(tls=server_context(tmp_path)), security)
    assert isinstance(error, TlsFailed)
    assert re.fullmatch(
        r"127\.0\.0\.1:\d+ \(SSL\): its certificate is issued by an authority that is not trusted here; add that "
        r"authority's certificate to ssl\.truststore\.location",
        str(error),
    )


async def test_an_expired_certificate_of_the_broker(tmp_path: Path) -> None:
    broker = SecureBroker(tls=server_context(tmp_path, CA.expired()))
    error = await failure(broker, tls(client_context(tmp_path)))
    assert isinstance(error, TlsFailed)
    assert "its certificate has expired; renew it there" in str(error)


async def test_a_certificate_for_another_host(tmp_path: Path) -> None:
    context = server_context(tmp_path, CA.issue("broker", ["kafka-1.example"]))
    for host in ("127.0.0.1", "localhost"):
        error = await failure(SecureBroker(tls=context), tls(client_context(tmp_path)), host)
        assert isinstance(error, TlsFailed)
        assert f"its certificate does not name {host!r} among its subject alternative names" in str(error)


async def test_a_certificate_for_another_host_is_accepted_without_endpoint_identification(tmp_path: Path) -> None:
    broker = SecureBroker(tls=server_context(tmp_path, CA.issue("broker", ["kafka-1.example"])))
    context = client_context(tmp_path)
    context.check_hostname = False
    async with broker.running() as port, await connect(port, tls(context)) as connection:
        assert await connection.request(ALL, 12) == METADATA
    other = client_context(tmp_path, trusted=Authority("other"))
    other.check_hostname = False
    error = await failure(broker, tls(other))
    assert "issued by an authority that is not trusted here" in str(error)


@contextmanager
def alerting(context: ssl.SSLContext) -> Iterator[int]:
    """A listener that refuses with an alert, as Kafka's does. asyncio closes the connection without one."""

    def serve() -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            # A close with unread bytes would reset the connection, and the alert could be lost.
            with accepted.dup() as raw:
                with contextlib.suppress(OSError), context.wrap_socket(accepted, server_side=True) as secured:
                    secured.recv(1)
                with contextlib.suppress(OSError):
                    while raw.recv(4096):
                        pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(LIMIT_S)


async def refusal(context: ssl.SSLContext, security: ChannelSecurity) -> TlsFailed:
    with alerting(context) as port, pytest.raises(TlsFailed) as failed:
        async with await connect(port, security) as connection:
            await connection.request(ALL, 12)
    assert str(failed.value).startswith(f"127.0.0.1:{port} ({security.protocol.name}): ")
    return failed.value


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("login", [None, LOGIN])
async def test_a_missing_client_certificate(tmp_path: Path, newest: ssl.TLSVersion, login: SaslLogin | None) -> None:
    context = server_context(tmp_path, clients=CA)
    context.maximum_version = newest
    error = await refusal(context, tls(client_context(tmp_path), login))
    assert re.search(
        "requires a certificate of its clients; set ssl.keystore|finds no common cipher suite, or lacks a certificate "
        "of this side; .*set ssl.keystore",
        str(error),
    )


async def test_a_client_certificate_of_an_unknown_ca(tmp_path: Path) -> None:
    context = server_context(tmp_path, clients=CA)
    error = await refusal(context, tls(client_context(tmp_path, Authority("other").client())))
    assert "does not know the authority that issued this side's certificate; add that authority" in str(error)


async def test_an_expired_client_certificate(tmp_path: Path) -> None:
    context = server_context(tmp_path, clients=CA)
    error = await refusal(context, tls(client_context(tmp_path, CA.expired())))
    assert "this side's certificate has expired; put a new certificate into the key store" in str(error)


async def test_no_common_version_of_tls(tmp_path: Path) -> None:
    context = server_context(tmp_path)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    ours = client_context(tmp_path)
    ours.maximum_version = ssl.TLSVersion.TLSv1_2
    error = await refusal(context, tls(ours))
    assert "speaks no version of TLS that is enabled here; compare ssl.enabled.protocols" in str(error)


@pytest.mark.parametrize("login", [None, LOGIN])
async def test_a_refusal_without_an_alert_names_what_may_be_missing(tmp_path: Path, login: SaslLogin | None) -> None:
    broker = scram_broker(tls=server_context(tmp_path, clients=CA))
    error = await failure(broker, tls(client_context(tmp_path), login))
    assert str(error).endswith(
        ", as a listener does that requires another client certificate or SASL: check ssl.keystore.location and "
        "security.protocol"
    )


async def test_tls_spoken_to_a_plaintext_port(tmp_path: Path) -> None:
    error = await failure(SecureBroker(), tls(client_context(tmp_path)))
    assert isinstance(error, TlsFailed)
    assert re.search(
        r"127\.0\.0\.1:\d+ \(SSL\): closed the connection during the handshake of TLS; look at its log: it may "
        r"speak no TLS there, or require a certificate \(ssl\.keystore\.location\)",
        str(error),
    )


@pytest.mark.parametrize("security, name", [(PLAINTEXT, "PLAINTEXT"), (sasl(), "SASL_PLAINTEXT")])
async def test_plaintext_spoken_to_a_tls_port(tmp_path: Path, security: ChannelSecurity, name: str) -> None:
    async def speaking_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        # What Kafka 3.9.1 sends, a byte at a time.
        for byte in b"\x15\x03\x03\x00\x02\x02\x50":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(speaking_tls, "127.0.0.1", 0)
    async with server:
        with pytest.raises(TlsFailed, match=rf"\({name}\) speaks TLS, and this connection does not: check the port"):
            async with await connect(server.sockets[0].getsockname()[1], security) as connection:
                await connection.request(ALL, 12)


async def test_material_that_cannot_be_read_is_named() -> None:
    def unreadable() -> ssl.SSLContext:
        raise FileNotFoundError(2, "No such file or directory", "/etc/lethe/keystore.pem")

    error = await failure(SecureBroker(), ChannelSecurity(unreadable))
    assert isinstance(error, TlsFailed)
    assert "certificates and keys cannot be used here: [Errno 2] No such file or directory: '/etc/lethe" in str(error)


async def test_a_handshake_that_does_not_end_counts_for_the_connect_timeout(tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        with pytest.raises(ConnectionFailed, match="did not finish connection and TLS handshake within 100 ms"):
            await connect(server.sockets[0].getsockname()[1], tls(client_context(tmp_path)), connect_timeout_ms=100)


async def test_a_peer_that_does_not_end_tls_delays_the_end_for_a_second_only(tmp_path: Path) -> None:
    with alerting(server_context(tmp_path)) as port:
        connection = await connect(port, tls(client_context(tmp_path)))
        async with asyncio.timeout(10):
            await connection.close()
    assert not connection.is_open


# --- SASL ---------------------------------------------------------------------------------------------------------


def plain_broker() -> SecureBroker:
    return SecureBroker(mechanisms={"PLAIN": lambda: PlainServer(lambda *given: given == ("lethe", PASSWORD))})


async def test_plain() -> None:
    broker = plain_broker()
    login = SaslLogin.plain("lethe", lambda: PASSWORD)
    async with broker.running() as port, await connect(port, sasl(login)) as connection:
        assert await connection.request(ALL, 12) == METADATA
    assert broker.principals == ["lethe"]


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("newest", [0, 1, 2])
async def test_scram_in_each_version(mechanism: ScramMechanism, newest: int) -> None:
    broker = SecureBroker(
        mechanisms=scram(mechanism, "lethe", PASSWORD),
        versions={**SPOKEN, ApiKey.SASL_AUTHENTICATE: VersionRange(0, newest)},
    )
    login = SaslLogin.scram(mechanism, "lethe", lambda: PASSWORD)
    async with broker.running() as port, await connect(port, sasl(login)) as connection:
        assert await connection.request(ALL, 12) == METADATA
        # The versions that the login asked for are kept.
        assert ApiKey.METADATA in await connection.offered_versions()
    assert broker.apis().count("API_VERSIONS") == 1


async def test_a_password_is_read_at_each_login() -> None:
    passwords = iter(["old", PASSWORD])
    login = SaslLogin.plain("lethe", lambda: next(passwords))
    async with plain_broker().running() as port:
        with pytest.raises(AuthenticationRefused):
            await connect(port, sasl(login))
        async with await connect(port, sasl(login)) as connection:
            assert await connection.request(ALL, 12) == METADATA


def token_broker(token: str) -> SecureBroker:
    return SecureBroker(
        mechanisms={"OAUTHBEARER": lambda: OAuthBearerServer(lambda given: "lethe" if given == token else None)}
    )


async def test_oauthbearer_with_a_file_and_a_command(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{PASSWORD}\n")
    broker = token_broker(PASSWORD)
    async with broker.running() as port:
        for source in (TokenFile(tmp_path / "token"), TokenCommand(("echo", PASSWORD))):
            async with await connect(port, sasl(SaslLogin.oauthbearer(source))) as connection:
                assert await connection.request(ALL, 12) == METADATA
    assert broker.principals == ["lethe", "lethe"]


async def test_a_token_that_is_not_accepted_or_not_there(tmp_path: Path) -> None:
    source = TokenFile(tmp_path / "token")
    error = await failure(token_broker("other"), sasl(SaslLogin.oauthbearer(source)))
    assert isinstance(error, AuthenticationRefused)
    assert f"no login at 127.0.0.1:{port_of(error)} (SASL_PLAINTEXT) with OAUTHBEARER: the token in {tmp_path}" in str(
        error
    )
    (tmp_path / "token").write_text(PASSWORD)
    error = await failure(token_broker("other"), sasl(SaslLogin.oauthbearer(source)))
    assert isinstance(error, AuthenticationRefused)
    assert f"refuses the token in {tmp_path}/token with OAUTHBEARER" in str(error)
    assert "its expiry, issuer and audience" in str(error)


def port_of(error: Exception) -> str:
    found = re.search(r"127\.0\.0\.1:(\d+)", str(error))
    assert found is not None
    return found[1]


async def test_a_wrong_password() -> None:
    for broker, login in (
        (scram_broker(), SaslLogin.scram(SHA_512, "lethe", lambda: PASSWORD + "x")),
        (scram_broker(), SaslLogin.scram(SHA_512, "nobody", lambda: PASSWORD)),
        (plain_broker(), SaslLogin.plain("lethe", lambda: PASSWORD + "x")),
    ):
        error = await failure(broker, sasl(login))
        assert isinstance(error, AuthenticationRefused)
        assert re.fullmatch(
            rf"127\.0\.0\.1:\d+ \(SASL_PLAINTEXT\) refuses {login.identity} with {login.mechanism}: Authentication "
            rf"failed during authentication due to invalid credentials with SASL mechanism {login.mechanism}; check "
            rf"user name and password in sasl\.jaas\.config, and that the broker has this user",
            str(error),
        )


async def test_a_mechanism_that_is_not_enabled() -> None:
    error = await failure(plain_broker(), sasl())
    assert isinstance(error, AuthenticationRefused)
    assert "(SASL_PLAINTEXT) does not enable SCRAM-SHA-512, only PLAIN: name one of these in sasl.mechanism" in str(
        error
    )


async def test_sasl_spoken_to_a_listener_without() -> None:
    error = await failure(SecureBroker(), sasl())
    assert isinstance(error, AuthenticationRefused)
    assert "its listener does not use SASL, so security.protocol is PLAINTEXT or SSL" in str(error)


async def test_no_sasl_spoken_to_a_listener_with_it() -> None:
    error = await failure(scram_broker(), PLAINTEXT)
    assert str(error).endswith(
        "closed the connection without an answer, as a listener with SASL or TLS does for a client without: check "
        "security.protocol"
    )


async def test_a_broker_that_forgets_a_request_later_gets_no_such_hint() -> None:
    broker = SecureBroker()
    async with broker.running() as port, await connect(port, PLAINTEXT) as connection:
        assert await connection.request(ALL, 12) == METADATA
        broker.garble = lambda *_: None
        with pytest.raises(ConnectionFailed, match="without an answer$"):
            await connection.request(ALL, 12)


async def test_a_broker_without_sasl_authenticate() -> None:
    versions = {api: spoken for api, spoken in SPOKEN.items() if api is not ApiKey.SASL_AUTHENTICATE}
    error = await failure(scram_broker(versions=versions), sasl())
    assert "the login at" in str(error)
    assert "the broker does not offer SASL_AUTHENTICATE" in str(error)
    error = await failure(scram_broker(versions={**SPOKEN, ApiKey.SASL_HANDSHAKE: VersionRange(0, 0)}), sasl())
    assert "is older than Kafka 1.0" in str(error)


async def test_a_login_that_does_not_end_counts_for_the_connect_timeout() -> None:
    hold = asyncio.Event()

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hold.wait()
        writer.close()

    server = await asyncio.start_server(never, "127.0.0.1", 0)
    async with server:
        with pytest.raises(ConnectionFailed, match="did not finish the SASL login within 100 ms"):
            await connect(server.sockets[0].getsockname()[1], sasl(), connect_timeout_ms=100)
        hold.set()


def test_the_failures_are_failures_of_the_connection() -> None:
    assert issubclass(AuthenticationRefused, ConnectionFailed)
    assert issubclass(TlsFailed, ConnectionFailed)
    assert issubclass(ConnectionFailed, ClientError)
    assert not issubclass(AuthenticationRefused, TlsFailed)
    assert not issubclass(TlsFailed, AuthenticationRefused)


# --- another login on the same connection (KIP-368) ---------------------------------------------------------------


def again(random: Callable[[], float] = lambda: 0.0, password: Callable[[], str] = lambda: PASSWORD) -> SaslLogin:
    login = SaslLogin.scram(SHA_512, "lethe", password)
    return replace(login, random=random)


async def requested_at(connection: KafkaConnection, after_s: float) -> None:
    """Request as if this time had passed since the login."""
    assert connection._log_in_again_s is not None
    connection._log_in_again_s -= after_s
    assert await connection.request(ALL, 12) == METADATA


@pytest.mark.parametrize("random, share", [(0.0, 0.85), (0.5, 0.9), (1.0, 0.95)])
async def test_a_login_is_repeated_when_most_of_its_time_is_over(random: float, share: float) -> None:
    broker = scram_broker(session_lifetime_ms=100_000)
    async with broker.running() as port, await connect(port, sasl(again(lambda: random))) as connection:
        await requested_at(connection, share * 100 - 5)
        assert len(broker.principals) == 1
        await requested_at(connection, 5)
        assert broker.principals == ["lethe", "lethe"]
        await requested_at(connection, 0)
        assert len(broker.principals) == 2
    assert broker.connections == 1
    assert broker.apis() == [
        *("API_VERSIONS", "SASL_HANDSHAKE", "SASL_AUTHENTICATE", "SASL_AUTHENTICATE", "METADATA"),
        *("SASL_HANDSHAKE", "SASL_AUTHENTICATE", "SASL_AUTHENTICATE", "METADATA", "METADATA"),
    ]


async def test_the_broker_closes_where_the_login_is_not_repeated_and_keeps_where_it_is() -> None:
    broker = scram_broker(session_lifetime_ms=400)
    async with broker.running() as port, await connect(port, sasl(again())) as connection:
        end_s = asyncio.get_running_loop().time() + 1.2
        while asyncio.get_running_loop().time() < end_s:
            assert await connection.request(ALL, 12) == METADATA
            await asyncio.sleep(0.01)
        assert broker.connections == 1
        assert len(broker.principals) > 2
        connection._log_in_again_s = None

        async def until_closed() -> None:
            while True:
                await connection.request(ALL, 12)

        with pytest.raises(ConnectionFailed):
            await asyncio.wait_for(until_closed(), LIMIT_S)


async def test_a_login_that_is_refused_later_closes_the_connection() -> None:
    passwords = iter([PASSWORD, PASSWORD + "x"])
    broker = scram_broker(session_lifetime_ms=100_000)
    async with (
        broker.running() as port,
        await connect(port, sasl(again(password=lambda: next(passwords)))) as connection,
    ):
        with pytest.raises(AuthenticationRefused, match="invalid credentials"):
            await requested_at(connection, 100)
        assert not connection.is_open
        with pytest.raises(ConnectionFailed, match="the login failed|was not answered"):
            await connection.request(ALL, 12)


async def test_a_login_that_hangs_later_counts_for_the_timeout_of_the_request() -> None:
    broker = scram_broker(session_lifetime_ms=100_000)
    async with broker.running() as port, await connect(port, sasl(again())) as connection:
        broker.garble = lambda _, frame: frame[:7]
        connection._log_in_again_s = 0.0
        with pytest.raises(RequestTimedOut, match="did not answer METADATA within 100 ms"):
            await connection.request(ALL, 12, timeout_ms=100)
        assert not connection.is_open


async def test_a_login_without_limit_is_not_repeated() -> None:
    async with scram_broker().running() as port, await connect(port, sasl(again())) as connection:
        assert connection._log_in_again_s is None


# --- hostile brokers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number, before, after, reason",
    [
        (0, b"r=", b"r=x", "nonce does not continue ours"),
        (0, b"i=4096", b"i=2147483648", "requests 2,147,483,648 SCRAM iterations"),
        (0, b"i=4096", b"i=1", "requests 1 SCRAM iterations"),
        (0, b",s=", b",t=", "first SCRAM message is malformed"),
        (1, b"v=", b"v=AAAA", "the server's signature is wrong"),
        (1, b"v=", b"e=", "malformed"),
    ],
)
async def test_a_broker_whose_messages_are_not_those_of_scram(
    number: int, before: bytes, after: bytes, reason: str
) -> None:
    def tamper(at: int, token: bytes) -> bytes:
        return token.replace(before, after) if at == number else token

    error = await failure(scram_broker(tamper=tamper), sasl())
    assert isinstance(error, AuthenticationRefused)
    assert re.search(
        rf"the login of user lethe at 127\.0\.0\.1:\d+ \(SASL_PLAINTEXT\) with SCRAM-SHA-512 failed: .*{reason}",
        str(error),
    )


async def test_hashing_does_not_stop_the_event_loop() -> None:
    def tamper(number: int, token: bytes) -> bytes:
        return token.replace(b"i=4096", b"i=1000000") if number == 0 else token

    async with scram_broker(tamper=tamper).running() as port:
        opening = asyncio.create_task(connect(port, sasl()))
        longest_s, loop = 0.0, asyncio.get_running_loop()
        before_s = began_s = loop.time()
        while not opening.done():
            await asyncio.sleep(0.005)
            longest_s, before_s = max(longest_s, loop.time() - before_s), loop.time()
        with pytest.raises(AuthenticationRefused):
            await opening
        # The hash takes a second or more. A busy machine may pause us for a part of that.
        assert longest_s < (loop.time() - began_s) / 2


def cut(payload: bytes) -> Callable[[ApiKey, bytes], bytes]:
    return lambda api, frame: struct.pack(">i", len(payload)) + payload if api is ApiKey.SASL_AUTHENTICATE else frame


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0\0",
        b"\0\0\0\2",
        b"\0\0\0\2\0",
        b"\0\0\0\2\0\0\0",
        b"\0\0\0\2\0\0\0\0\xff\xff\xff\xff\x7f",
        b"\0\0\0\7\0\0\0\0\1\0\0\0\0\0\0\0\0\0",
        b"\xff" * 40,
    ],
)
async def test_sasl_authenticate_answered_with_garbage(payload: bytes) -> None:
    error = await failure(scram_broker(garble=cut(payload)), sasl())
    assert not isinstance(error, AuthenticationRefused)
    assert "the login at" in str(error)


@pytest.mark.parametrize("api", [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE])
@pytest.mark.parametrize("kept", [0, 3, 4, 9])
async def test_an_answer_that_is_cut_in_the_middle(api: ApiKey, kept: int) -> None:
    async def cutting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await asyncio.open_connection("127.0.0.1", port)
        number = 0
        while True:
            head = await reader.readexactly(4)
            upstream[1].write(head + await reader.readexactly(*struct.unpack(">i", head)))
            head = await upstream[0].readexactly(4)
            frame = head + await upstream[0].readexactly(*struct.unpack(">i", head))
            is_last = number == [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE].index(api)
            writer.write(frame[:kept] if is_last else frame)
            number += 1
            if is_last:
                writer.close()
                upstream[1].close()
                return

    async with scram_broker().running() as port:
        server = await asyncio.start_server(cutting, "127.0.0.1", 0)
        async with server:
            with pytest.raises(
                ConnectionFailed, match=r"login at .*(without an answer|ended inside a frame)"
            ) as failed:
                await connect(server.sockets[0].getsockname()[1], sasl())
    assert not isinstance(failed.value, AuthenticationRefused)


async def test_a_broker_that_goes_on_after_the_end() -> None:
    error = await failure(plain_broker_that(b"more"), sasl(SaslLogin.plain("lethe", lambda: PASSWORD)))
    assert isinstance(error, AuthenticationRefused)
    assert "the server continues SASL PLAIN" in str(error)


def plain_broker_that(says: bytes) -> SecureBroker:
    broker = plain_broker()
    broker.tamper = lambda *_: says
    return broker


async def test_what_a_broker_says_stays_on_one_line() -> None:
    broker = SecureBroker(mechanisms={"PLAIN\n\x1b[31m": lambda: PlainServer(lambda *_: True)})
    error = await failure(broker, sasl())
    assert "only PLAIN??[31m: name" in str(error)


async def test_after_a_failed_login_nothing_is_left_open() -> None:
    broker = scram_broker()
    async with broker.running() as port:
        before = len(asyncio.all_tasks())
        for _ in range(5):
            with pytest.raises(AuthenticationRefused):
                await connect(port, sasl(SaslLogin.scram(SHA_512, "lethe", lambda: "x")))

        async def settled() -> None:
            while len(asyncio.all_tasks()) > before + 1:
                await asyncio.sleep(0.005)

        async with asyncio.timeout(LIMIT_S):
            await settled()
