"""Real brokers that ask their clients who they are, and the clients' properties, right ones and wrong ones.

    kind             brokers know a client by                          its principal
    ---------------  ------------------------------------------------  -------------
    SSL              the certificate that it shows                     User:CN=lethe
    SASL_SSL         its password, by SCRAM-SHA-512 (in ZooKeeper)     User:lethe
    SASL_PLAINTEXT   its password, by PLAIN (in their JAAS text)       User:lethe

Everywhere Kafka's AclAuthorizer is at work. `brokers` are super users, `lethe` has the rights that docs/security.md
asks for, and `guest` has none. The properties are those of Kafka: brokers, Kafka's tools and Lethe read the same ones.
"""

from __future__ import annotations

import enum
import ssl
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.daemons import write_properties
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
from lethe.protocol.zookeeper.znodes import encode_config
from tests.fakes.certificates import Authority, Leaf
from tests.fakes.zookeeper_cluster import apply

BROKERS, LETHE, GUEST = "brokers", "lethe", "guest"
USERS: Final = (BROKERS, LETHE, GUEST)
STORE_PASSWORD: Final = "store-secret-1"
WRONG_PASSWORD: Final = "wrong-secret-1"
RIGHTS: Final[Mapping[ResourcePattern, tuple[Operation, ...]]] = {
    ResourcePattern(ResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME): (
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
    ),
    ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, WILDCARD): (
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
    ),
}
"""What the user `lethe` may do."""
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Trouble(enum.Enum):
    """What is wrong with a client."""

    WRONG_PASSWORD = "it has another password than its user"
    FOREIGN_BROKERS = "it trusts another authority than that of the brokers' certificates"
    FOREIGN_CLIENT = "its certificate is of an authority that brokers do not trust"
    EXPIRED_CLIENT = "its certificate has expired"
    EXPIRED_BROKERS = "the certificate of the brokers' listener has expired"


def password_of(user: str) -> str:
    return f"{user}-secret-1"


class SecureListeners(ABC):
    """One kind. Its files are in the directory, which exists."""

    kind: str
    troubles: tuple[Trouble, ...]
    """What can be wrong with clients of this kind."""

    def __init__(self, directory: Path) -> None:
        self.directory: Final = directory
        self.authority = Authority("Authority of the brokers")
        self.foreign = Authority("Another authority")

    # --- brokers --------------------------------------------------------------------------------------------------

    def broker_properties(self) -> dict[str, str]:
        """Properties of real brokers."""
        return self.member_properties(BROKERS)

    def member_properties(self, user: str) -> dict[str, str]:
        """Properties of a broker, or of a controller with listeners, that is this user among the brokers."""
        return {
            **self.daemon_properties(user),
            **self.listener_properties(),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{self.principal_name(BROKERS)}",
        }

    @abstractmethod
    def listener_properties(self) -> dict[str, str]:
        """Properties of the listener that brokers use among themselves."""

    async def prepare(self, session: ZooKeeperSession) -> None:
        """Write users and their rights where Kafka has them; before the brokers start, so no notification is needed."""
        principal = parse_principal(f"User:{self.principal_name(LETHE)}")
        for pattern, operations in RIGHTS.items():
            entries = [AclEntry(principal, WILDCARD, operation, Permission.ALLOW) for operation in operations]
            parent, _, _ = acl_path(pattern).rpartition("/")
            await session.ensure_path(parent)
            await apply(session, Create(acl_path(pattern), encode_acls(entries)))

    # --- clients --------------------------------------------------------------------------------------------------

    def principal_name(self, user: str) -> str:
        """Name of the user's principal."""
        return user

    @abstractmethod
    def daemon_properties(self, user: str, trouble: Trouble | None = None) -> dict[str, str]:
        """Properties of a server.properties: how a broker or a controller connects to brokers."""

    @abstractmethod
    def client_properties(self, user: str, trouble: Trouble | None = None) -> dict[str, str]:
        """Properties of a client.properties: how a command connects to brokers."""

    @abstractmethod
    def aiokafka(self, user: str, trouble: Trouble | None = None) -> dict[str, Any]:
        """Arguments of aiokafka's clients."""

    def client_file(self, user: str, trouble: Trouble | None = None) -> Path:
        """Write the client's properties into a file of its own and return it."""
        file = self.directory / f"{self._name(user, trouble)}.properties"
        write_properties(file, self.client_properties(user, trouble))
        return file

    def secrets(self) -> Iterator[str]:
        """Everything that must not be said."""
        yield STORE_PASSWORD
        yield WRONG_PASSWORD
        yield from map(password_of, USERS)

    # --- stores ---------------------------------------------------------------------------------------------------

    def _name(self, user: str, trouble: Trouble | None) -> str:
        return user if trouble is None else f"{user}-{trouble.name.lower()}"

    def _truststore(self, trouble: Trouble | None = None) -> dict[str, str]:
        authority = self.foreign if trouble is Trouble.FOREIGN_BROKERS else self.authority
        path = self.directory / f"trust-{'foreign' if authority is self.foreign else 'own'}.p12"
        return _store("ssl.truststore", path if path.exists() else authority.pkcs12(path, STORE_PASSWORD))

    def _keystore(self, name: str, leaf: Leaf) -> dict[str, str]:
        path = self.directory / f"{name}.p12"
        return _store("ssl.keystore", path if path.exists() else leaf.pkcs12(path, STORE_PASSWORD))

    def _context(self, trouble: Trouble | None) -> ssl.SSLContext:
        authority = self.foreign if trouble is Trouble.FOREIGN_BROKERS else self.authority
        return ssl.create_default_context(cafile=str(authority.pem_file(self.directory / "trust.pem")))


class MutualTls(SecureListeners):
    """SSL; clients show certificates."""

    kind = "SSL"
    troubles = (Trouble.FOREIGN_BROKERS, Trouble.FOREIGN_CLIENT, Trouble.EXPIRED_CLIENT)

    def listener_properties(self) -> dict[str, str]:
        return {"listeners": "SSL://127.0.0.1:0", "ssl.client.auth": "required"}

    def principal_name(self, user: str) -> str:
        return f"CN={user}"

    def daemon_properties(self, user: str, trouble: Trouble | None = None) -> dict[str, str]:
        return {"security.inter.broker.protocol": "SSL", **self._stores(user, trouble)}

    def client_properties(self, user: str, trouble: Trouble | None = None) -> dict[str, str]:
        return {"security.protocol": "SSL", **self._stores(user, trouble)}

    def aiokafka(self, user: str, trouble: Trouble | None = None) -> dict[str, Any]:
        context = self._context(trouble)
        context.load_cert_chain(self._leaf(user, trouble).pem_file(self.directory / "client.pem"))
        return {"security_protocol": "SSL", "ssl_context": context}

    def _stores(self, user: str, trouble: Trouble | None) -> dict[str, str]:
        name = self._name(user, trouble)
        return self._truststore(trouble) | self._keystore(name, self._leaf(user, trouble))

    def _leaf(self, user: str, trouble: Trouble | None) -> Leaf:
        if trouble is Trouble.EXPIRED_CLIENT:
            return self.authority.expired(user)
        return (self.foreign if trouble is Trouble.FOREIGN_CLIENT else self.authority).issue(user)


class Sasl(SecureListeners):
    """SASL over one listener, INTERNAL, that brokers use among themselves."""

    kind: str
    mechanism: str
    module: str
    listener = "INTERNAL"

    def daemon_properties(self, user: str, trouble: Trouble | None = None) -> dict[str, str]:
        listener = self._listener(trouble)
        login = f"listener.name.{listener.lower()}.{self.mechanism.lower()}.sasl.jaas.config"
        return {
            "listener.security.protocol.map": f"{self.listener}:{self.kind}",
            "inter.broker.listener.name": listener,
            "sasl.mechanism.inter.broker.protocol": self.mechanism,
            login: self._jaas(user, trouble),
        }

    def client_properties(self, user: str, trouble: Trouble | None = None) -> dict[str, str]:
        return {
            "security.protocol": self.kind,
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": self._jaas(user, trouble),
        }

    def listener_properties(self) -> dict[str, str]:
        return {"listeners": f"{self.listener}://127.0.0.1:0", "sasl.enabled.mechanisms": self.mechanism}

    def aiokafka(self, user: str, trouble: Trouble | None = None) -> dict[str, Any]:
        return {
            "security_protocol": self.kind,
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": self._password(user, trouble),
        }

    def _listener(self, trouble: Trouble | None) -> str:
        return self.listener

    def _jaas(self, user: str, trouble: Trouble | None) -> str:
        return f'{self.module} required username="{user}" password="{self._password(user, trouble)}";'

    def _password(self, user: str, trouble: Trouble | None) -> str:
        return WRONG_PASSWORD if trouble is Trouble.WRONG_PASSWORD else password_of(user)


class ScramOverTls(Sasl):
    """SASL_SSL with SCRAM-SHA-512. A second listener shows an expired certificate."""

    kind = "SASL_SSL"
    mechanism = ScramMechanism.SHA_512.value
    module = _SCRAM_MODULE
    troubles = (Trouble.WRONG_PASSWORD, Trouble.FOREIGN_BROKERS, Trouble.EXPIRED_BROKERS)
    expired = "EXPIRED"

    async def prepare(self, session: ZooKeeperSession) -> None:
        await super().prepare(session)
        await session.ensure_path("/config/users")
        for user in USERS:
            credential = ScramCredential.of(ScramMechanism.SHA_512, password_of(user), f"salt of {user}".encode())
            await apply(session, Create(f"/config/users/{user}", encode_config({self.mechanism: credential.text()})))

    def broker_properties(self) -> dict[str, str]:
        prefix = f"listener.name.{self.expired.lower()}."
        expired = self._keystore("expired", self.authority.expired("broker"))
        return {
            **super().broker_properties(),
            "listeners": f"{self.listener}://127.0.0.1:0,{self.expired}://127.0.0.1:0",
            **{f"{prefix}{name}": value for name, value in expired.items()},
            # Kafka wants one for each listener, although it reads the users of SCRAM in ZooKeeper.
            f"{prefix}{self.mechanism.lower()}.sasl.jaas.config": self._jaas(BROKERS, None),
        }

    def listener_properties(self) -> dict[str, str]:
        return super().listener_properties() | self._keystore("member", self.authority.issue("member"))

    def daemon_properties(self, user: str, trouble: Trouble | None = None) -> dict[str, str]:
        both = f"{self.listener}:{self.kind},{self.expired}:{self.kind}"
        changed = {"listener.security.protocol.map": both}
        return super().daemon_properties(user, trouble) | changed | self._truststore(trouble)

    def client_properties(self, user: str, trouble: Trouble | None = None) -> dict[str, str]:
        return super().client_properties(user, trouble) | self._truststore(trouble)

    def aiokafka(self, user: str, trouble: Trouble | None = None) -> dict[str, Any]:
        return super().aiokafka(user, trouble) | {"ssl_context": self._context(trouble)}

    def _listener(self, trouble: Trouble | None) -> str:
        return self.expired if trouble is Trouble.EXPIRED_BROKERS else self.listener


class PlainPasswords(Sasl):
    """SASL_PLAINTEXT with PLAIN."""

    kind = "SASL_PLAINTEXT"
    mechanism = "PLAIN"
    module = _PLAIN_MODULE
    troubles = (Trouble.WRONG_PASSWORD,)

    def member_properties(self, user: str) -> dict[str, str]:
        users = " ".join(f'user_{each}="{password_of(each)}"' for each in USERS)
        name = f"listener.name.{self.listener.lower()}.plain.sasl.jaas.config"
        own = self._jaas(user, None).removesuffix(";")
        return super().member_properties(user) | {name: f"{own} {users};"}


KINDS: Final[tuple[type[SecureListeners], ...]] = (MutualTls, ScramOverTls, PlainPasswords)


def _store(prefix: str, path: Path) -> dict[str, str]:
    return {f"{prefix}.location": str(path), f"{prefix}.type": "PKCS12", f"{prefix}.password": STORE_PASSWORD}
