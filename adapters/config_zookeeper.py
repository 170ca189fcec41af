"""Properties about ZooKeeper, which controllers, agents and commands share: where it is, and who we are there.

Who we are comes from three places: a certificate (`zookeeper.ssl.keystore.…`), a user that logs in by SASL DIGEST-MD5,
and a user of the scheme digest. The SASL user stands in two properties, or in the JAAS file that the brokers have:

    lethe.zookeeper.sasl.username and …password   the user
    java.security.auth.login.config               the file; its section `Client` has the user
    zookeeper.sasl.client=false                   no login; with such a section this is an error, as in Kafka

The user's name is read at the start, a password that stands in a file at each login.

Znodes belong to all that we are at once: so the brokers' own user, or a certificate with the brokers' own name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lethe.adapters.properties import MAX_INT, Property, PropertyKind, Values
from lethe.adapters.security.config import opened, read_zookeeper_tls
from lethe.adapters.security.config_exposure import warn_of_exposure
from lethe.adapters.security.config_names import ZOOKEEPER_TLS
from lethe.adapters.security.jaas_file import JAAS_FILE, read_sections
from lethe.adapters.security.prefixed import PrefixedValues, with_files
from lethe.adapters.security.refusal_counts import RefusalCounts, counts_at_peers
from lethe.adapters.security.secrets import FileSecret
from lethe.adapters.security.unusable import Unusable
from lethe.adapters.zookeeper.config import (
    DEFAULT_SLOW_WRITE_MS,
    DigestMd5Login,
    ZooKeeperTls,
    parse_connect_string,
)
from lethe.adapters.zookeeper.config import ZooKeeperConfig as SessionConfig
from lethe.protocol.security.jaas import ZOOKEEPER_SECTION, JaasEntry, JaasError
from lethe.protocol.zookeeper.operations import Credentials

SET_ACL: Final = "zookeeper.set.acl"
_USERNAME, _PASSWORD = "lethe.zookeeper.sasl.username", "lethe.zookeeper.sasl.password"
_JAAS, _SECTION, _ENABLED = JAAS_FILE.name, "zookeeper.sasl.clientconfig", "zookeeper.sasl.client"
_DIGEST_MODULE: Final = "DigestLoginModule"
_MEND: Final = "mend that line, or name another file"

ACCESS: Final = with_files(
    (
        Property(
            SET_ACL,
            PropertyKind.BOOLEAN,
            "false",
            "Give created znodes the access list that Kafka gives them: all to their creator, and reading to the "
            "world, except for users, brokers' settings and delegation tokens. Set it as the brokers have it, and log "
            "in as their user: they cannot write znodes of another one.",
        ),
        Property(
            "lethe.zookeeper.digest",
            PropertyKind.SECRET,
            None,
            "user:password with which to authenticate at ZooKeeper (scheme digest, which brokers do not use).",
        ),
        Property(
            _USERNAME,
            PropertyKind.TEXT,
            None,
            "User that logs in to ZooKeeper by SASL DIGEST-MD5. With `zookeeper.set.acl` it has to be the brokers'.",
        ),
        Property(_PASSWORD, PropertyKind.SECRET, None, "Password of that user."),
        JAAS_FILE,
        Property(_SECTION, PropertyKind.TEXT, ZOOKEEPER_SECTION, "Name of its section for ZooKeeper."),
        Property(_ENABLED, PropertyKind.BOOLEAN, "true", "false: do not log in by SASL."),
    )
)
"""Who we are at ZooKeeper, but for TLS."""

ZOOKEEPER: Final = (
    Property(
        "zookeeper.connect",
        PropertyKind.TEXT,
        None,
        "ZooKeeper's servers as host:port,host:port, with the cluster's chroot behind the last one.",
        required=True,
    ),
    Property(
        "zookeeper.session.timeout.ms",
        PropertyKind.INTEGER,
        "18000",
        "After so long without contact ZooKeeper ends the session, and with it the registration; ZooKeeper limits "
        "it to 2 to 20 ticks by default. Shorter: smaller pauses cost control. Longer: a dead process is noticed "
        "later.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "zookeeper.connection.timeout.ms",
        PropertyKind.INTEGER,
        None,
        "How long to try to connect to ZooKeeper; as long as the session timeout where it is not given.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    *ACCESS,
    *ZOOKEEPER_TLS,
    Property(
        "lethe.zookeeper.slow.write.ms",
        PropertyKind.INTEGER,
        str(DEFAULT_SLOW_WRITE_MS),
        "After a write that takes ZooKeeper longer, half as many are sent at once, down to one; quick ones raise it "
        "again, up to 20. Other clients wait behind them.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
)


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """Who we are at ZooKeeper, and how connections to it are protected."""

    credentials: Credentials | None = None
    sasl: DigestMd5Login | None = None
    tls: ZooKeeperTls | None = None

    @property
    def has_identity(self) -> bool:
        """True if znodes can belong to us."""
        return bool(self.credentials or self.sasl or (self.tls is not None and self.tls.has_certificate))


NOBODY: Final = ZooKeeperAccess()


@dataclass(frozen=True, slots=True)
class ZooKeeperConfig:
    connect: str
    """`host:port,host:port/chroot`."""
    session_timeout_ms: int
    connection_timeout_ms: int
    set_acl: bool
    credentials: Credentials | None
    slow_write_ms: int = DEFAULT_SLOW_WRITE_MS
    sasl: DigestMd5Login | None = None
    tls: ZooKeeperTls | None = field(default=None, compare=False)
    refused: RefusalCounts = field(default_factory=counts_at_peers, compare=False)
    """Of all sessions."""

    def session(self) -> SessionConfig:
        """Return the same settings in the adapter's type."""
        return SessionConfig(
            connect=parse_connect_string(self.connect),
            session_timeout_ms=self.session_timeout_ms,
            connection_timeout_ms=self.connection_timeout_ms,
            set_acl=self.set_acl,
            credentials=() if self.credentials is None else (self.credentials,),
            slow_write_ms=self.slow_write_ms,
            sasl=self.sasl,
            tls=self.tls,
            refused=self.refused,
        )


def read_zookeeper(values: Values) -> ZooKeeperConfig:
    """Return how to reach ZooKeeper; note problems."""
    connect = values.text("zookeeper.connect") or ""
    try:
        parse_connect_string(connect or "localhost")
    except ValueError as error:
        values.wrong("zookeeper.connect", str(error), "write host:port[,host:port][/chroot]")
    session_timeout_ms = values.integer("zookeeper.session.timeout.ms")
    connection_timeout_ms = values.integer("zookeeper.connection.timeout.ms") or session_timeout_ms
    set_acl, noted = values.boolean(SET_ACL), len(values.problems)
    access = read_access(values)
    if set_acl and not access.has_identity and len(values.problems) == noted:
        values.wrong(
            SET_ACL,
            "the znodes would have no owner",
            f"set {_USERNAME} and {_PASSWORD}, name the brokers' JAAS file in {_JAAS}, set "
            "zookeeper.ssl.keystore.location with zookeeper.ssl.client.enable=true, or set "
            "lethe.zookeeper.digest=user:password too",
        )
    return ZooKeeperConfig(
        connect,
        session_timeout_ms,
        connection_timeout_ms,
        set_acl,
        access.credentials,
        values.integer("lethe.zookeeper.slow.write.ms"),
        access.sasl,
        access.tls,
    )


def read_access(values: Values) -> ZooKeeperAccess:
    """Return who we are at ZooKeeper; note problems."""
    return ZooKeeperAccess(_credentials(values), _sasl(values), _tls(values))


def _tls(values: Values) -> ZooKeeperTls | None:
    noted = len(values.problems)
    settings = read_zookeeper_tls(values)
    if settings is None or len(values.problems) > noted:
        return None
    material = opened(values, settings)
    if material is None:
        return None
    return ZooKeeperTls(material.client_context, settings.keystore is not None, material)


def _credentials(values: Values) -> Credentials | None:
    digest = values.text("lethe.zookeeper.digest")
    if digest is None:
        return None
    user, colon, password = digest.partition(":")
    if not (user and colon and password):
        values.wrong("lethe.zookeeper.digest", "is not of the form user:password", "write user:password")
        return None
    return Credentials("digest", digest.encode())


# --- SASL ---------------------------------------------------------------------------------------------------------


def _sasl(values: Values) -> DigestMd5Login | None:
    given, in_file = _given_user(values), _user_in_file(values)
    if not values.boolean(_ENABLED):
        name = _USERNAME if given is not None else _JAAS
        if given is not None or in_file is not None:
            values.wrong(_ENABLED, f"keeps the user of {name} from logging in", "remove one of the two")
        return None
    if given is not None and in_file is not None:
        values.wrong(_USERNAME, f"stands beside the section {values.text(_SECTION)} of {_JAAS}", "give one of the two")
    return given or in_file


def _given_user(values: Values) -> DigestMd5Login | None:
    username, password = values.text(_USERNAME), PrefixedValues(values, ("",)).secret(_PASSWORD)
    if username is None:
        if password is not None:
            values.wrong(_PASSWORD, "belongs to no user", f"set {_USERNAME} too, or remove it")
        return None
    if password is None:
        values.wrong(_USERNAME, "has no password", f"set {_PASSWORD}, or {_PASSWORD}.file")
        return None
    return DigestMd5Login(username, password.secret)


class _PasswordInFile(FileSecret):
    """The password in a section of the JAAS file."""

    __slots__ = ("_section",)

    def __init__(self, path: Path, section: str) -> None:
        super().__init__(path)
        self._section = section

    def reveal(self) -> str:
        try:
            entries = read_sections(self.path).get(self._section)
            if entries is None:
                raise Unusable(f"has no section {self._section}", "add it again")
            return _entry_of(entries).option("password")
        except JaasError as error:
            raise Unusable(str(error), _MEND) from None


def _user_in_file(values: Values) -> DigestMd5Login | None:
    """Return the user in the JAAS file; None if it has no section about ZooKeeper, which is then for others."""
    file = values.text(_JAAS)
    if file is None:
        return None
    path, section = Path(file), values.text(_SECTION) or ZOOKEEPER_SECTION
    try:
        entries = read_sections(path).get(section)
        if entries is None:
            return None
        username, password = _entry_of(entries).option("username"), _PasswordInFile(path, section)
        password.reveal()
        warn_of_exposure(values, _JAAS, values.origin(_JAAS), path)
        return DigestMd5Login(username, password)
    except Unusable as error:
        values.wrong(_JAAS, error.reason, error.remedy)
    except JaasError as error:
        values.wrong(_JAAS, str(error), _MEND)
    return None


def _entry_of(entries: Sequence[JaasEntry]) -> JaasEntry:
    """Return the login module of a section. Raises JaasError."""
    if len(entries) != 1:
        raise JaasError(f"the section about ZooKeeper has {len(entries)} login modules, and one is needed")
    (entry,) = entries
    if entry.module_name != _DIGEST_MODULE:
        raise JaasError(
            f"the section about ZooKeeper has {entry.module_name}, and only {_DIGEST_MODULE} (DIGEST-MD5) is supported"
        )
    return entry
