"""TLS: contexts for connections and listeners, made from stores and made again when these change.

A context is made from files: stores, and files of passwords. Before a context is handed out, time of change, size,
inode and rights of each file are compared with those that it was made from, which costs a few microseconds. If one
differs, all files are read again. If that fails, because a file may not be read or is half written, or a certificate
does not fit its key, the old context stays in use, the log says so once, and the files are read again when they change
again or after ten seconds.

A listener asks for its context at each connection that it accepts (`loop.connect_accepted_socket(…, ssl=…)`), not once
when it begins to listen. A session of TLS that was begun under an old context is not resumed under a new one: who is no
longer trusted stays out.

The ssl module takes keys from files only. The key is written, encrypted with a password that is made up for it, into a
directory that only this user may enter, and removed when the module has read it.
"""

from __future__ import annotations

import enum
import logging
import os
import secrets
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from lethe.adapters.clock import Clock, SystemClock
from lethe.adapters.properties import NO_FILE, ConfigError, Problem
from lethe.adapters.security.files import FileState, file_state, private_directory
from lethe.adapters.security.prefixed import Place
from lethe.adapters.security.stores import Identity, StoreSettings, Trust, described, load_identity, load_trust
from lethe.adapters.security.unusable import Unusable

logger = logging.getLogger(__name__)

RETRY_MS: Final = 10_000
"""How long files that could not be used, and have not changed since, are left alone."""


class ClientAuth(enum.Enum):
    """Whether a listener wants certificates of its clients, in Kafka's words."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


_MISSING_KEYSTORE: Final = Place("ssl.keystore.location", NO_FILE)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What is configured. The defaults are those of Kafka without any `ssl.` property."""

    keystore: StoreSettings | None = None
    truststore: StoreSettings | None = None
    """None: connections trust the system's authorities; a listener with client certificates needs one."""
    check_host: bool = True
    """Whether a server's certificate has to name the host that was connected to."""
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    client_max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    """Of connections that this process makes: Kafka's `ssl.protocol` limits only those."""
    ciphers: tuple[str, ...] = ()
    """Suites of TLS 1.2 by OpenSSL's names; empty: OpenSSL's choice."""
    client_auth: ClientAuth = ClientAuth.NONE
    missing_keystore: Place = _MISSING_KEYSTORE
    """The property that a listener without certificate lacks, and the file in which it does."""

    @property
    def missing_truststore(self) -> Place:
        """The property that a listener lacks that wants certificates and trusts nobody."""
        return self.missing_keystore._replace(name=self.missing_keystore.name.replace("keystore", "truststore"))

    def files(self) -> tuple[Path, ...]:
        """Return every file that contexts are made from."""
        stores = [store for store in (self.keystore, self.truststore) if store is not None]
        return tuple(dict.fromkeys(path for store in stores for path in store.files()))


class TlsStatus(NamedTuple):
    """When certificates end, in milliseconds UTC, and whether they are those of the files."""

    expires_ms: int | None
    """The first of the own certificates; None without a key store."""
    trust_expires_ms: int | None
    """The first of the trusted certificates, without those that had ended when they were read; None without a
    truststore: what the system trusts is not looked at."""
    is_outdated: bool
    """The files have changed and cannot be used, so that what was read before stays in use."""


@dataclass(frozen=True, slots=True)
class _Made:
    """What was made from the files in one state."""

    states: Mapping[Path, FileState | None]
    identity: Identity | None
    trust: Trust | None
    client: ssl.SSLContext
    server: ssl.SSLContext | None
    """None if the settings do not suffice for a listener."""


class TlsMaterial:
    """Contexts of one configuration, which follow its files.

    Methods may be called from any thread. They return at once unless files have changed; reading them takes some tens
    of milliseconds, and seconds if one is a JKS store. Code of an event loop therefore calls
    `await asyncio.to_thread(material.client_context)`. While one thread reads files, others get the old context.
    """

    def __init__(self, settings: TlsSettings, clock: Clock | None = None) -> None:
        """Read all files. Raises ConfigError with the problems of both stores."""
        self.settings: Final = settings
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._files = settings.files()
        self._failed: tuple[Mapping[Path, FileState | None], int] | None = None
        self._said = ""
        self._named: Identity | None = None
        self._made = self._make(self._states())

    def status(self) -> TlsStatus:
        """Return when the certificates end that new connections use."""
        made = self._current()
        return TlsStatus(
            None if made.identity is None else made.identity.expires_ms(),
            None if made.trust is None else made.trust.expires_ms(),
            self._failed is not None,
        )

    @property
    def certificate(self) -> bytes | None:
        """The own certificate, as DER; None without a key store."""
        identity = self._current().identity
        return None if identity is None else identity.chain[0].public_bytes(Encoding.DER)

    def client_context(self) -> ssl.SSLContext:
        """Return the context for connections to others; it checks the host that is passed as `server_hostname`."""
        return self._current().client

    def server_context(self) -> ssl.SSLContext:
        """Return the context for a connection that is accepted now.

        Raises ConfigError if there is no key store, or no truststore although certificates of clients are wanted.
        """
        made = self._current()
        if made.server is not None:
            self._look_for_names(made.identity)
            return made.server
        settings = self.settings
        if settings.keystore is None:
            missing, reason = settings.missing_keystore, "is missing: a listener with TLS shows a certificate"
            remedy = "name the store that has it and its private key"
        else:
            missing = settings.missing_truststore
            reason = "is missing: client certificates have to be issued by a known authority"
            remedy = "name the store that has the authority's certificate"
        raise ConfigError([Problem(missing.name, missing.origin, None, reason, remedy)])

    def _look_for_names(self, identity: Identity | None) -> None:
        """Warn, once for each certificate, if clients will not accept it for any host."""
        keystore = self.settings.keystore
        if identity is None or keystore is None or identity is self._named:
            return
        self._named = identity
        if not identity.has_names():
            logger.warning(
                "%s=%s: the certificate has no subject alternative name: clients that check the host compare its CN, "
                "which is never an address for them, or refuse it; issue one with the names of this host",
                keystore.place.name,
                keystore.path or "…",
            )

    # --- following the files ---

    def _states(self) -> Mapping[Path, FileState | None]:
        return {path: file_state(path) for path in self._files}

    def _current(self) -> _Made:
        if self._lock.acquire(blocking=False):
            try:
                states = self._states()
                if states == self._made.states:
                    self._failed, self._said = None, ""
                elif self._is_due(states):
                    self._make_again(states)
            finally:
                self._lock.release()
        return self._made

    def _is_due(self, states: Mapping[Path, FileState | None]) -> bool:
        if self._failed is None:
            return True
        failed, at_ms = self._failed
        return states != failed or self._clock.now_ms() - at_ms >= RETRY_MS

    def _make_again(self, states: Mapping[Path, FileState | None]) -> None:
        changed = ", ".join(str(path) for path in self._files if states[path] != self._made.states[path])
        try:
            self._made = self._make(states)
        except ConfigError as error:
            self._failed = (states, self._clock.now_ms())
            if str(error) != self._said:
                logger.error("%s changed and cannot be used; what was read before stays in use: %s", changed, error)
            self._said = str(error)
        else:
            self._failed, self._said = None, ""
            logger.info("%s changed: new connections use the new content", changed)

    # --- making contexts ---

    def _make(self, states: Mapping[Path, FileState | None]) -> _Made:
        """Read the stores and make contexts. Raises ConfigError."""
        settings, now_ms = self.settings, self._clock.now_ms()
        problems: list[Problem] = []
        identity: Identity | None = None
        trust: Trust | None = None
        try:
            identity = None if settings.keystore is None else load_identity(settings.keystore, now_ms)
        except ConfigError as error:
            problems += error.problems
        try:
            trust = None if settings.truststore is None else load_trust(settings.truststore, now_ms)
        except ConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(problems)
        _warn(settings, trust)
        return _Made(states, identity, trust, _client(settings, identity, trust), _server(settings, identity, trust))


def _warn(settings: TlsSettings, trust: Trust | None) -> None:
    if settings.truststore is not None and trust is not None:
        for certificate in trust.ended:
            logger.warning(
                "%s=%s: %s the trusted certificate expired: what it issued is refused",
                settings.truststore.place.name,
                settings.truststore.path or "…",
                described(certificate),
            )


def _client(settings: TlsSettings, identity: Identity | None, trust: Trust | None) -> ssl.SSLContext:
    context = _bare(ssl.PROTOCOL_TLS_CLIENT, settings, settings.client_max_version)
    context.check_hostname = settings.check_host
    context.verify_mode = ssl.CERT_REQUIRED
    if trust is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load_trust(context, trust, settings)
    if identity is not None and settings.keystore is not None:
        _load_identity(context, identity, settings.keystore)
    return context


def _server(settings: TlsSettings, identity: Identity | None, trust: Trust | None) -> ssl.SSLContext | None:
    if identity is None or settings.keystore is None:
        return None
    context = _bare(ssl.PROTOCOL_TLS_SERVER, settings, settings.max_version)
    if settings.client_auth is not ClientAuth.NONE:
        if trust is None:
            return None
        required = settings.client_auth is ClientAuth.REQUIRED
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        _load_trust(context, trust, settings)
    _load_identity(context, identity, settings.keystore)
    return context


def _bare(protocol: int, settings: TlsSettings, max_version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version, context.maximum_version = settings.min_version, max_version
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # Java trusts whatever is in a truststore: also an intermediate, or the peer's own certificate.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    if settings.ciphers:
        context.set_ciphers(":".join(settings.ciphers))
    return context


def _load_trust(context: ssl.SSLContext, trust: Trust, settings: TlsSettings) -> None:
    assert settings.truststore is not None
    try:
        context.load_verify_locations(cadata=b"".join(cert.public_bytes(Encoding.DER) for cert in trust.certificates))
    except ssl.SSLError:
        raise settings.truststore.problem("OpenSSL refuses a certificate of it", "have it issued anew") from None


def _load_identity(context: ssl.SSLContext, identity: Identity, store: StoreSettings) -> None:
    password = secrets.token_bytes(32).hex()
    encrypted = BestAvailableEncryption(password.encode())
    key = identity.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encrypted)
    chain = b"".join(cert.public_bytes(Encoding.PEM) for cert in identity.chain)
    try:
        with private_directory() as directory:
            path = directory / "identity.pem"
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(key + chain)
            _load_chain(context, path, password)
    except Unusable as error:
        raise store.problem(error.reason, error.remedy) from None


def _load_chain(context: ssl.SSLContext, path: Path, password: str) -> None:
    try:
        context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        reason = f"OpenSSL refuses its key or certificate: {(error.reason or 'unknown').replace('_', ' ').lower()}"
        remedy = "make a key of 2048 bits or more (RSA) or 256 (EC), and have it signed with SHA-256"
        raise Unusable(reason, remedy) from None
