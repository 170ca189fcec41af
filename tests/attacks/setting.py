"""Properties of the daemons that are attacked, and the stores and secrets in them.

    listener   protocol         a client is known by
    INTERNAL   SASL_SSL         SCRAM-SHA-512
    CLEAR      SASL_PLAINTEXT   SCRAM-SHA-512
    MTLS       SSL              its certificate

    user       may
    brokers    everything: the daemons themselves
    lethe      ClusterAction, as a controller
    guest      log in

A weak setting has the doors open that `WEAK` names, by configuration: attacks have to succeed there.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lethe.adapters.http_client import HttpCredentials
from lethe.adapters.security.channel import ChannelSecurity
from lethe.adapters.security.login import SaslLogin
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    acl_path,
    encode_acls,
)
from lethe.protocol.security.principals import parse_principal
from lethe.protocol.security.scram import ScramCredential, ScramMechanism
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.paths import config_user
from lethe.protocol.zookeeper.znodes import encode_config
from tests.attacks.secret_values import Secrets
from tests.fakes.certificates import Authority, Leaf
from tests.fakes.zookeeper_cluster import apply

INTERNAL, CLEAR, MTLS = "INTERNAL", "CLEAR", "MTLS"
BROKERS, LETHE, GUEST = "brokers", "lethe", "guest"
USERS: Final = (BROKERS, LETHE, GUEST)
ZOOKEEPER_USER: Final = "kafka"
SHA_512: Final = ScramMechanism.SHA_512
MAX_CONNECTIONS: Final = 60
MAX_REQUEST_BYTES: Final = 4 * 1024 * 1024
MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
RECEIVE_LIMIT_MS: Final = 8_000
FOREIGN_HOST: Final = "evil.example"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LISTENERS: Final = ",".join(f"{name}://127.0.0.1:0" for name in (INTERNAL, CLEAR, MTLS))

WEAK: Final[Mapping[str, str]] = {
    "no authorizer": "authorizer.class.name is not set",
    "no TLS and no login": "the listener CLEAR is PLAINTEXT",
    "no client certificate": "ssl.client.auth=none on the listener MTLS",
    "PLAIN enabled": "sasl.enabled.mechanisms has PLAIN",
    "names unchecked": "ssl.endpoint.identification.algorithm is empty",
    "foreign host allowed": f"lethe.http.allowed.hosts={FOREIGN_HOST}",
    "reading without token": "lethe.http.token.for=changes",
    "a secret in a log": "a line with a password is added to the agent's log",
}
"""What is open in a weak setting, and how."""


class Setting:
    """Stores, secrets and properties. The directory exists; what is written into it are inputs of the daemons."""

    def __init__(self, directory: Path, *, weak: bool = False) -> None:
        self.directory: Final = directory
        self.weak: Final = weak
        self.secrets: Final = Secrets()
        self.authority = Authority("Authority of the cluster")
        self._contexts = 0
        self.http: Final = HttpCredentials(
            self._write("http-token", self.secrets.token("the HTTP token") + "\n"), self._pem("ca.pem")
        )

    # --- daemons --------------------------------------------------------------------------------------------------

    def daemon_properties(self) -> dict[str, str]:
        """Properties of controllers and agents."""
        password = self.secrets.password
        return {
            "zookeeper.set.acl": "true",
            "lethe.zookeeper.sasl.username": ZOOKEEPER_USER,
            "lethe.zookeeper.sasl.password": password("ZooKeeper's password"),
            "inter.broker.listener.name": INTERNAL,
            "sasl.mechanism.inter.broker.protocol": SHA_512.value,
            "listener.name.internal.scram-sha-512.sasl.jaas.config": self.jaas(BROKERS),
            "listener.security.protocol.map": self._protocols(),
            **self._stores(),
            **self._limits(),
            "lethe.http.token.file": str(self.http.token_file),
            "lethe.http.ssl.keystore.type": "PEM",
            "lethe.http.ssl.keystore.location": str(self._server_key("http.pem", "the HTTP key's password")),
            "lethe.http.ssl.key.password": password("the HTTP key's password"),
            **self._open_doors(),
        }

    def listener_properties(self) -> dict[str, str]:
        """Properties of the daemons' listeners."""
        return {
            "listeners": _LISTENERS,
            "sasl.enabled.mechanisms": SHA_512.value,
            "ssl.client.auth": "required",
            "listener.name.internal.ssl.client.auth": "none",
            "super.users": f"User:{BROKERS}",
            **({} if self.weak else {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}),
            **self._open_listeners(),
        }

    def jaas(self, user: str) -> str:
        """Return `sasl.jaas.config` of a SCRAM user."""
        return f'{_SCRAM} required username="{user}" password="{self.secrets.password(user)}";'

    def _protocols(self) -> str:
        clear = "PLAINTEXT" if self.weak else "SASL_PLAINTEXT"
        return f"{INTERNAL}:SASL_SSL,{CLEAR}:{clear},{MTLS}:SSL"

    def _stores(self) -> dict[str, str]:
        store = self.directory / "daemon.p12"
        password = self.secrets.password("the key store's password")
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.authority.issue("daemon").pkcs12(store, password)),
            "ssl.keystore.password": password,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.http.ca_file),
        }

    def _limits(self) -> dict[str, str]:
        return {
            "max.connections": str(MAX_CONNECTIONS),
            "socket.request.max.bytes": str(MAX_REQUEST_BYTES),
            "queued.max.request.bytes": str(MAX_QUEUED_BYTES),
            "lethe.request.receive.timeout.ms": str(RECEIVE_LIMIT_MS),
        }

    def _open_doors(self) -> dict[str, str]:
        if not self.weak:
            return {}
        return {
            "ssl.endpoint.identification.algorithm": "",
            "lethe.http.allowed.hosts": FOREIGN_HOST,
            "lethe.http.token.for": "changes",
        }

    def _open_listeners(self) -> dict[str, str]:
        if not self.weak:
            return {}
        users = " ".join(f'user_{user}="{self.secrets.password(user)}"' for user in USERS)
        return {
            "listener.name.mtls.ssl.client.auth": "none",
            "sasl.enabled.mechanisms": f"{SHA_512.value},PLAIN",
            "listener.name.internal.plain.sasl.jaas.config": f"{_PLAIN} required {users};",
        }

    # --- users ----------------------------------------------------------------------------------------------------

    async def write_users(self, session: ZooKeeperSession) -> None:
        """Write credentials and rights where Kafka has them."""
        await session.ensure_path("/config/users")
        for user in USERS:
            credential = ScramCredential.of(SHA_512, self.secrets.password(user), user.encode())
            await apply(session, Create(config_user(user), encode_config({SHA_512.value: credential.text()})))
        pattern = ResourcePattern(ResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME)
        names = (f"User:{LETHE}", f"User:CN={LETHE}")
        entries = [
            AclEntry(parse_principal(name), WILDCARD, Operation.CLUSTER_ACTION, Permission.ALLOW) for name in names
        ]
        parent, _, _ = acl_path(pattern).rpartition("/")
        await session.ensure_path(parent)
        await apply(session, Create(acl_path(pattern), encode_acls(entries)))

    # --- clients --------------------------------------------------------------------------------------------------

    def security(self, listener: str, user: str) -> ChannelSecurity:
        """Return how the user connects to a listener."""
        if listener == MTLS:
            context = self.client_context(self.authority.client(user))
            return ChannelSecurity(lambda: context)
        if listener == CLEAR and self.weak:
            return ChannelSecurity()
        password = self.secrets.password(user)
        login = SaslLogin.scram(SHA_512, user, lambda: password)
        if listener == CLEAR:
            return ChannelSecurity(login=login)
        context = self.client_context()
        return ChannelSecurity(lambda: context, login=login)

    def client_context(self, leaf: Leaf | None = None) -> ssl.SSLContext:
        """Return the context of a client that trusts the cluster's authority, and shows this certificate."""
        context = ssl.create_default_context(cafile=str(self.http.ca_file))
        if leaf is not None:
            context.load_cert_chain(self._written(leaf))
        return context

    def server_context(self, leaf: Leaf) -> ssl.SSLContext:
        """Return the context of a server, for brokers that attack."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._written(leaf))
        return context

    def command_file(self, user: str) -> Path:
        """Write the `--command-config` of a user."""
        text = (
            f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={self.http.ca_file}\n"
            f"sasl.mechanism={SHA_512.value}\nsasl.jaas.config={self.jaas(user)}\n"
        )
        return self._write(f"{user}.properties", text)

    # --- files ----------------------------------------------------------------------------------------------------

    def _written(self, leaf: Leaf) -> Path:
        self._contexts += 1
        return leaf.pem_file(self.directory / f"leaf-{self._contexts}.pem")

    def _server_key(self, name: str, purpose: str) -> Path:
        return self.authority.issue("http").pem_file(self.directory / name, self.secrets.password(purpose))

    def _pem(self, name: str) -> Path:
        return self.authority.pem_file(self.directory / name)

    def _write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o600)
        return path
