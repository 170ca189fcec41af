"""How daemons connect to brokers with TLS and SASL, from their properties to the socket."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest

from lethe.adapters.kafka.client import AuthenticationRefused, ConnectionFailed
from lethe.broker.runtime.controller_connection import ControllerConnection
from lethe.controller.core.effects import ProbeBrokers, ProbeTarget
from lethe.controller.core.events import ProbeOutcome
from lethe.controller.runtime.configuration import load_controller_config
from lethe.controller.runtime.configured import connector, prober
from lethe.protocol.kafka.control import probe_request
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataRequest
from lethe.protocol.security.scram import ScramMechanism
from lethe.protocol.vocabulary import BrokerId, Endpoint, SecurityProtocol
from tests.fakes.certificates import Authority, Leaf
from tests.fakes.secure_broker import METADATA, SecureBroker, scram

SHA_512 = ScramMechanism.SHA_512
SASL_SSL = SecurityProtocol.SASL_SSL
CA = Authority()
PASSWORD = "correct-horse"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass
class Place:
    """A broker's listener INTERNAL with TLS, certificates of clients, and SCRAM."""

    directory: Path
    broker: SecureBroker

    def show(self, leaf: Leaf) -> None:
        """Have the broker show this certificate."""
        assert self.broker.tls is not None
        self.broker.tls.load_cert_chain(leaf.pem_file(self.directory / "shown.pem"))

    def properties(self, *, password: str = PASSWORD, trusted: Authority = CA, listener: str = "INTERNAL") -> str:
        ca, own = trusted.pem_file(self.directory / "ca.pem"), CA.client().pem_file(self.directory / "own.pem")
        prefix = f"listener.name.{listener.lower()}."
        return (
            "broker.id=1001\nzookeeper.connect=127.0.0.1:1\nlethe.http.port=0\n"
            f"inter.broker.listener.name={listener}\nlistener.security.protocol.map={listener}:SASL_SSL,P:PLAINTEXT\n"
            "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512\n"
            f'{prefix}scram-sha-512.sasl.jaas.config={MODULE} required username="lethe" password="{password}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
            f"{prefix}ssl.keystore.type=PEM\n{prefix}ssl.keystore.location={own}\n"
        )

    def without_token(self) -> str:
        """The same properties, with a file for the token that cannot be read."""
        token = f"sasl.oauthbearer.token.endpoint.url=file://{self.directory / 'none'}\n"
        kept = [line for line in self.properties().splitlines() if "sasl" not in line.partition("=")[0]]
        return "\n".join(kept) + f"\nsasl.mechanism.inter.broker.protocol=OAUTHBEARER\n{token}"

    def file(self, text: str) -> Path:
        path = self.directory / "daemon.properties"
        path.write_text(text)
        return path

    async def probe(self, text: str, **endpoint: object) -> ProbeOutcome:
        """Return what a controller with these properties hears from the broker."""
        config = load_controller_config(self.file(text), {})
        async with asyncio.timeout(30), self.broker.running() as port:
            target = Endpoint("INTERNAL", "127.0.0.1", port, SASL_SSL)._replace(**endpoint)  # type: ignore[arg-type]
            probe = ProbeBrokers(1, probe_request(config.controller_id), (ProbeTarget(BrokerId(1), target),))
            (outcome,) = await prober(config, connector(config)).probe(probe)
        assert PASSWORD not in str(outcome)
        return outcome


@pytest.fixture
def place(tmp_path: Path) -> Place:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CA.issue("broker").pem_file(tmp_path / "broker.pem"))
    context.load_verify_locations(CA.pem_file(tmp_path / "clients.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    return Place(tmp_path, SecureBroker(tls=context, mechanisms=scram(SHA_512, "lethe", PASSWORD)))


async def test_a_controller_probes_with_certificate_and_login(place: Place) -> None:
    outcome = await place.probe(place.properties())
    assert outcome == ProbeOutcome(BrokerId(1), ErrorCode.STALE_CONTROLLER_EPOCH)
    assert place.broker.principals == ["lethe"]


async def test_a_refused_login_is_told_apart_from_silence(place: Place) -> None:
    outcome = await place.probe(place.properties(password="wrong"))
    assert outcome.has_no_access
    assert "refuses user lethe with SCRAM-SHA-512" in (outcome.problem or "")
    outcome = await place.probe(place.without_token())
    assert outcome.has_no_access
    assert "refuses" not in (outcome.problem or ""), "nothing was sent"
    assert f"{place.directory / 'none'}" in (outcome.problem or "")
    outcome = await place.probe(place.properties(trusted=Authority("other")))
    assert outcome.has_no_access
    assert "its certificate is issued by an authority that is not trusted here" in (outcome.problem or "")
    place.show(CA.expired())
    outcome = await place.probe(place.properties())
    assert not outcome.has_no_access, "no other controller can command it either"
    assert "its certificate has expired" in (outcome.problem or "")


@pytest.mark.parametrize(
    "endpoint, why",
    [
        ({"protocol": SecurityProtocol.PLAINTEXT}, "its listener INTERNAL is PLAINTEXT, and SASL_SSL is configured"),
        ({"listener": "OTHER"}, "it has no listener INTERNAL (it has OTHER: SASL_SSL)"),
    ],
)
async def test_a_registration_cannot_lower_the_protocol(place: Place, endpoint: dict[str, object], why: str) -> None:
    outcome = await place.probe(place.properties(), **endpoint)
    assert why in (outcome.problem or "")
    assert place.broker.connections == 0


async def test_an_agent_asks_its_controller_with_certificate_and_login(place: Place) -> None:
    reach = load_controller_config(place.file(place.properties()), {}).reach
    connection = ControllerConnection(BrokerId(1), reach, connect_timeout_ms=20_000, request_timeout_ms=20_000)
    async with asyncio.timeout(30), place.broker.running() as port:
        controller = Endpoint("INTERNAL", "127.0.0.1", port, SASL_SSL)
        opened = await connection.to(controller)
        assert await opened.request(MetadataRequest(None), 12) == METADATA
        with pytest.raises(ConnectionFailed, match="its listener INTERNAL is PLAINTEXT"):
            await connection.to(controller._replace(protocol=SecurityProtocol.PLAINTEXT))
        await connection.close()
    assert place.broker.principals == ["lethe"]


async def test_a_changed_password_is_used_without_a_restart(place: Place) -> None:
    text = place.properties().replace(".sasl.jaas.config=", ".sasl.jaas.config.file=")
    name, _, entry = next(line for line in text.splitlines() if ".file=" in line).partition("=")
    secret = place.directory / "jaas"
    secret.write_text(entry.replace(PASSWORD, "old"))
    config = load_controller_config(place.file(text.replace(f"{name}={entry}", f"{name}={secret}")), {})
    connect = connector(config)
    async with asyncio.timeout(30), place.broker.running() as port:
        endpoint = Endpoint("INTERNAL", "127.0.0.1", port, SASL_SSL)
        with pytest.raises(AuthenticationRefused):
            await connect(endpoint)
        secret.write_text(entry)
        await (await connect(endpoint)).close()
    assert place.broker.principals == ["lethe"]
