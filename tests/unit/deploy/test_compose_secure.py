"""What the compose profile `secure` makes at its first start: whose files they are, and that daemons can use them."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lethe.adapters.kafka.config_reach import load_client_reach
from lethe.protocol.security.acls import decode_acls
from lethe.protocol.security.jaas import parse_file
from lethe.protocol.security.scram import ScramCredential, ScramMechanism
from lethe.protocol.zookeeper.znodes import decode_config
from tests.unit.deploy.compose_secure import program

files, users = program("files"), program("users")
NOW = datetime.now(UTC)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The directories of all services, after a first run."""
    (tmp_path / "authority").mkdir()
    for holder in files.HOLDERS:
        (tmp_path / "secrets" / holder.name).mkdir(parents=True)
    run(tmp_path, NOW)
    return tmp_path / "secrets"


def run(place: Path, now: datetime) -> list[str]:
    made: list[str] = files.make(place / "authority", place / "secrets", now)
    return made


def content(place: Path) -> dict[str, str]:
    return {str(file.relative_to(place)): file.read_text() for file in sorted(place.rglob("*")) if file.is_file()}


def test_a_second_run_changes_nothing(made: Path) -> None:
    before = content(made)
    assert run(made.parent, NOW + timedelta(days=300)) == []
    assert content(made) == before


def test_certificates_that_end_soon_are_made_anew_by_the_same_authority(made: Path) -> None:
    before = content(made)
    renewed = run(made.parent, NOW + timedelta(days=380))
    assert renewed == [f"{holder.name}/own.pem" for holder in files.HOLDERS if holder.name != "prometheus"]
    changed = {name for name, text in content(made).items() if text != before[name]}
    assert changed == {*renewed}


def test_a_run_that_was_cut_short_is_finished_by_the_next_one(made: Path) -> None:
    before = content(made)
    (made / "demo" / "jaas").unlink()
    (made / "demo" / ".own.pem.new").write_text("half")
    assert run(made.parent, NOW) == ["demo/jaas"]
    assert content(made) == before | {"demo/.own.pem.new": "half"}


def test_each_service_has_the_passwords_that_it_needs_and_no_other(made: Path) -> None:
    given = files.passwords(made.parent / "authority")
    texts = content(made)
    having = {
        name: {holder.name for holder in files.HOLDERS if any(password in text for text in of(texts, holder.name))}
        for name, password in given.items()
    }
    daemons = {f"{kind}-{n}" for kind, last in (("controller", 2), ("broker", 3)) for n in range(1, last + 1)}
    brokers = {f"{kind}-{n}" for kind in ("broker", "kafka") for n in (1, 2, 3)}
    assert having == {
        "zookeeper": {*daemons, *brokers, "zookeeper", "users", "demo"},
        "http": {*daemons, "prometheus", "demo"},
        "kafka": {*brokers, "users"},
        "lethe": {"controller-1", "controller-2", "users"},
        "admin": {"controller-1", "controller-2", "users", "demo"},
        "client": {"kafka-1", "kafka-2", "kafka-3", "users"},
    }
    assert len({*given.values()}) == len(given)


def of(texts: dict[str, str], name: str) -> list[str]:
    return [text for path, text in texts.items() if path.startswith(f"{name}/")]


def test_only_the_owner_reads_them_but_for_those_of_prometheus(made: Path) -> None:
    modes = {(file.parent.name == "prometheus", file.stat().st_mode & 0o777) for file in made.rglob("*.*")}
    assert modes == {(True, 0o444), (False, 0o400)}


def test_a_certificate_has_the_name_of_its_service_and_is_trusted(made: Path) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made / "broker-1" / "own.pem")
    server.load_verify_locations(made / "broker-1" / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(made / "demo" / "ca.pem"))
    client.load_cert_chain(made / "demo" / "own.pem")
    assert handshake(client, server, "secure-broker-1") == {(("commonName", "secure-demo"),)}
    with pytest.raises(ssl.SSLCertVerificationError, match="secure-broker-2"):
        handshake(client, server, "secure-broker-2")


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> set[object]:
    """Let both speak in memory; return the subject that the server sees."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(back, there, server_hostname=host)
    serving = server.wrap_bio(there, back, server_side=True)
    for _ in range(4):
        for side in (asking, serving):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = serving.getpeercert()
    assert shown is not None
    subject = shown["subject"]
    assert isinstance(subject, tuple)
    return {*subject}


def test_jaas_files_and_properties_are_read_by_lethe(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = files.passwords(made.parent / "authority")
    sections = parse_file((made / "controller-1" / "jaas").read_text())
    assert {name: entry.options["username"] for name, (entry,) in sections.items()} == {
        "KafkaServer": "lethe",
        "Client": "kafka",
    }
    (server,) = parse_file((made / "zookeeper" / "zookeeper.jaas").read_text())["Server"]
    assert server.options == {"user_kafka": given["zookeeper"]}
    properties = made / "demo" / "client.properties"
    properties.chmod(0o600)
    properties.write_text(properties.read_text().replace("/data/secrets", str(made / "demo")))
    load_client_reach(properties)


def test_the_users_log_in_with_their_passwords_and_have_the_rights_that_the_documents_ask_for() -> None:
    written = dict(users.znodes({"lethe": "p1", "admin": "p2"}))
    credential = ScramCredential.parse(decode_config("", written["/config/users/lethe"])["SCRAM-SHA-512"])
    assert credential == ScramCredential.of(ScramMechanism.SHA_512, "p1", credential.salt, credential.iterations)
    on_cluster = decode_acls("", written["/kafka-acl/Cluster/kafka-cluster"])
    acting = {str(entry.principal) for entry in on_cluster if entry.operation.name == "CLUSTER_ACTION"}
    assert acting == {"User:lethe"}
