"""Each file with secrets that a configuration names, or is, has a warning where every user may read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lethe.adapters.http_client import HttpCredentials
from lethe.adapters.kafka.config_reach import load_client_reach
from lethe.broker.runtime.configuration import load_broker_config
from lethe.controller.runtime.configuration import load_controller_config
from tests.fakes.certificates import Authority
from tests.fakes.rights import open_directory

TOKEN = "0123456789abcdef" * 4
JAAS = 'Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="lethe" password="word"; };'
BASE = ("broker.id=1", "zookeeper.connect=localhost")


@pytest.fixture
def place() -> Iterator[Path]:
    with open_directory() as place:
        yield place


def written(place: Path, name: str, text: str, mode: int = 0o644) -> Path:
    path = place / name
    path.write_text(text)
    path.chmod(mode)
    return path


def warnings_of(place: Path, *lines: str, mode: int = 0o400, environ: dict[str, str] | None = None) -> Sequence[str]:
    file = written(place, "server.properties", "\n".join((*BASE, *lines)), mode)
    config = load_controller_config(file, environ or {})
    file.unlink()
    return [each for each in config.warnings if "every user of this machine" in each]


def test_the_token_of_http(place: Path) -> None:
    token = written(place, "token", TOKEN, 0o666)
    lines = (f"lethe.http.token.file={token}",)
    (warning,) = warnings_of(place, *lines)
    found = f"every user of this machine may read and write it; run: chmod o= {token}"
    assert warning == f"{place}/server.properties:3: lethe.http.token.file={token}: {found}"
    token.chmod(0o400)
    assert warnings_of(place, *lines) == []


def test_key_stores(place: Path) -> None:
    store = Authority("ca").issue("controller-1").pem_file(place / "http.pem")
    store.chmod(0o644)
    (warning,) = warnings_of(place, "lethe.http.ssl.keystore.type=PEM", f"lethe.http.ssl.keystore.location={store}")
    assert f"lethe.http.ssl.keystore.location={store}: every user of this machine may read it" in warning


def test_a_jaas_file_and_a_file_of_a_password(place: Path) -> None:
    jaas, password = written(place, "jaas", JAAS), written(place, "password", "word\n")
    (warning,) = warnings_of(place, f"java.security.auth.login.config={jaas}")
    assert f"java.security.auth.login.config={jaas}: every user" in warning
    user = "lethe.zookeeper.sasl.username=lethe"
    (warning,) = warnings_of(place, user, f"lethe.zookeeper.sasl.password.file={password}")
    assert f"lethe.zookeeper.sasl.password.file={password}: every user" in warning


def test_the_properties_themselves_where_they_have_a_secret(place: Path) -> None:
    user, password = "lethe.zookeeper.sasl.username=lethe", "lethe.zookeeper.sasl.password=word"
    (warning,) = warnings_of(place, user, password, mode=0o644)
    file = place / "server.properties"
    secret = f"lethe.zookeeper.sasl.password is a secret, and its file {file}: every user of this machine may read it"
    assert warning == f"{file}:4: {secret}; run: chmod o= {file}"
    assert warnings_of(place, user, password, mode=0o640) == []
    assert warnings_of(place, user, mode=0o644, environ={"LETHE_ZOOKEEPER_SASL_PASSWORD": "word"}) == []


def test_agents_warn_too(place: Path) -> None:
    lines = (*BASE, "log.dirs=/data", "lethe.zookeeper.sasl.username=a", "lethe.zookeeper.sasl.password=word")
    file = written(place, "server.properties", "\n".join(lines))
    assert any("lethe.zookeeper.sasl.password is a secret" in each for each in load_broker_config(file, {}).warnings)


def test_commands_warn_of_their_properties_and_tokens(place: Path) -> None:
    token = written(place, "token", "word")
    oauth = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER")
    url = f"sasl.oauthbearer.token.endpoint.url=file://{token}"
    warnings: list[str] = []
    load_client_reach(written(place, "oauth.properties", "\n".join((*oauth, url))), warnings.append)
    (warning,) = warnings
    assert f"every user of this machine may read it; run: chmod o= {token}" in warning
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = f'sasl.jaas.config={module} required username="a" password="word";'
    warnings.clear()
    load_client_reach(
        written(place, "plain.properties", "\n".join((oauth[0], "sasl.mechanism=PLAIN", login))), warnings.append
    )
    (warning,) = warnings
    assert "plain.properties:3: sasl.jaas.config is a secret" in warning


def test_a_key_store_for_zookeeper(place: Path) -> None:
    authority = Authority("ca")
    store, trusted = authority.client().pem_file(place / "key.pem"), authority.pem_file(place / "ca.pem")
    store.chmod(0o644)
    trusted.chmod(0o644)
    base = "zookeeper.ssl."
    (warning,) = warnings_of(
        place,
        f"{base}client.enable=true",
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
        f"{base}keystore.location={store}",
        f"{base}truststore.location={trusted}",
    )
    assert f"{base}keystore.location={store}: every user of this machine may read it" in warning


def test_commands_warn_of_the_token_of_http(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    token = written(place, "token", TOKEN)
    HttpCredentials(token).check()
    assert caplog.messages == [f"token file {token}: every user of this machine may read it; run: chmod o= {token}"]
    token.chmod(0o640)
    HttpCredentials(token).check()
    assert len(caplog.messages) == 1
