"""Kinds of connections, and the properties with which servers accept them and clients open them.

One server has a listener of each kind, so all kinds meet the same process. Keys are of the elliptic curve P-256;
SCRAM has 4,096 iterations, as kafka-configs.sh writes users. Kafka's names throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lethe.adapters.security.prefixed import listener_prefix, mechanism_prefix
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.security.scram import ScramCredential, ScramMechanism
from lethe.protocol.vocabulary import SecurityProtocol
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.paths import config_user
from lethe.protocol.zookeeper.znodes import encode_config
from tests.fakes.certificates import Authority
from tests.fakes.zookeeper_cluster import apply

USER: Final = "bench"
PASSWORD: Final = "bench-secret-1"
SCRAM: Final = ScramMechanism.SHA_512
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    SCRAM.value: "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of connection."""

    listener: str
    protocol: SecurityProtocol
    mechanism: str | None = None
    shows_certificate: bool = False

    @property
    def name(self) -> str:
        """`SASL_SSL SCRAM-SHA-512`."""
        if self.mechanism is not None:
            return f"{self.protocol.name} {self.mechanism}"
        return f"{self.protocol.name} with client certificate" if self.shows_certificate else self.protocol.name


PLAINTEXT: Final = Kind("PLAINTEXT", SecurityProtocol.PLAINTEXT)
SSL: Final = Kind("TLS", SecurityProtocol.SSL)
SASL_SSL: Final = Kind("BOTH", SecurityProtocol.SASL_SSL, SCRAM.value)
KINDS: Final = (
    PLAINTEXT,
    SSL,
    Kind("MUTUAL", SecurityProtocol.SSL, shows_certificate=True),
    Kind("PASSWORD", SecurityProtocol.SASL_PLAINTEXT, "PLAIN"),
    Kind("PROOF", SecurityProtocol.SASL_PLAINTEXT, SCRAM.value),
    SASL_SSL,
)
CHANNELS: Final = {"PLAINTEXT": PLAINTEXT, "SSL": SSL, "SASL_SSL": SASL_SSL}
"""What channels to brokers are compared."""


class Material:
    """Certificates in a directory, and properties that name them."""

    def __init__(self, directory: Path) -> None:
        authority = Authority("Authority of the benchmark")
        self._trusted = authority.pem_file(directory / "ca.pem")
        self._server = authority.issue("server").pem_file(directory / "server.pem")
        self._client = authority.client(USER).pem_file(directory / "client.pem")

    def server(self) -> dict[str, str]:
        """Return properties of a process that listens in every kind."""
        return {
            "listeners": ",".join(f"{kind.listener}://127.0.0.1:0" for kind in KINDS),
            "listener.security.protocol.map": _protocols(),
            "inter.broker.listener.name": PLAINTEXT.listener,
            **{
                listener_prefix(kind.listener) + "sasl.enabled.mechanisms": kind.mechanism
                for kind in KINDS
                if kind.mechanism is not None
            },
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.password.plain.sasl.jaas.config": _jaas("PLAIN", f' user_{USER}="{PASSWORD}"'),
            **_store("ssl.keystore", self._server),
            **_store("ssl.truststore", self._trusted),
        }

    def between_brokers(self, kind: Kind) -> dict[str, str]:
        """Return properties of a controller whose connections to brokers are of that kind."""
        found = {"listener.security.protocol.map": _protocols(), "inter.broker.listener.name": kind.listener}
        if kind.mechanism is not None:
            found |= {
                "sasl.mechanism.inter.broker.protocol": kind.mechanism,
                mechanism_prefix(kind.listener, kind.mechanism) + "sasl.jaas.config": _jaas(kind.mechanism),
            }
        return found | self._shown(kind)

    def client(self, kind: Kind) -> dict[str, str]:
        """Return properties of a client whose connections are of that kind."""
        found = {"security.protocol": kind.protocol.name}
        if kind.mechanism is not None:
            found |= {"sasl.mechanism": kind.mechanism, "sasl.jaas.config": _jaas(kind.mechanism)}
        return found | self._shown(kind)

    def _shown(self, kind: Kind) -> dict[str, str]:
        found: dict[str, str] = {}
        if kind.protocol.has_tls:
            found |= _store("ssl.truststore", self._trusted)
        return found | _store("ssl.keystore", self._client) if kind.shows_certificate else found


async def write_user(session: ZooKeeperSession) -> None:
    """Write the user of SCRAM to ZooKeeper."""
    credential = ScramCredential.of(SCRAM, PASSWORD, b"salt of the user")
    await session.ensure_path("/config/users")
    await apply(session, Create(config_user(USER), encode_config({SCRAM.value: credential.text()})))


def _protocols() -> str:
    return ",".join(f"{kind.listener}:{kind.protocol.name}" for kind in KINDS)


def _jaas(mechanism: str, more: str = "") -> str:
    return f'{_MODULES[mechanism]} required username="{USER}" password="{PASSWORD}"{more};'


def _store(prefix: str, path: Path) -> dict[str, str]:
    return {f"{prefix}.type": "PEM", f"{prefix}.location": str(path)}
