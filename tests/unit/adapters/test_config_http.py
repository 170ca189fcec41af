"""The HTTP server's properties: what is refused, and what is warned about."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.config_http import HttpConfig
from lethe.adapters.http_access import Access, TokenScope
from lethe.adapters.properties import ConfigError
from lethe.controller.runtime.configuration import load_controller_config
from tests.fakes.certificates import Authority

TOKEN = "0123456789abcdef" * 4


def load(tmp_path: Path, *lines: str) -> tuple[HttpConfig, list[str]]:
    """The settings, and the warnings that are about them."""
    file = tmp_path / "server.properties"
    file.write_text("\n".join(("broker.id=1", "zookeeper.connect=localhost", *lines)))
    config = load_controller_config(file, {})
    return config.http, [each for each in config.warnings if "lethe.http" in each]


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    return path


def test_by_default_it_is_on_loopback_without_a_token_and_without_a_warning(tmp_path: Path) -> None:
    config, warnings = load(tmp_path)
    assert (config.host, config.token_file, warnings) == ("127.0.0.1", None, [])
    assert config.access().refusal(Access.READS, ()) is None


def test_a_token_file_is_for_all_where_nothing_else_is_said(tmp_path: Path, token: Path) -> None:
    config, _ = load(tmp_path, f"lethe.http.token.file={token}")
    assert config.token_scope is TokenScope.ALL
    assert config.access().refusal(Access.READS, ()) is not None
    assert config.access().refusal(Access.READS, (f"Bearer {TOKEN}",)) is None
    config, _ = load(tmp_path, f"lethe.http.token.file={token}", "lethe.http.token.for=changes")
    assert config.access().refusal(Access.READS, ()) is None
    assert config.access().refusal(Access.CHANGES, ()) is not None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.3.7", "controller-1.example.com"])
def test_an_address_that_others_reach_is_warned_about_unless_a_token_is_asked_for(
    tmp_path: Path, token: Path, host: str
) -> None:
    lines = [f"lethe.http.host={host}"]
    where = f"server.properties:3: lethe.http.host={host} is not loopback, and"
    _, (warning,) = load(tmp_path, *lines)
    assert f"{where} HTTP asks for no token" in warning
    assert "set lethe.http.token.file" in warning
    lines += [f"lethe.http.token.file={token}"]
    _, (warning,) = load(tmp_path, *lines)
    assert f"{where} the token travels unencrypted" in warning
    assert "set lethe.http.ssl.keystore.location" in warning
    lines += pem_lines(tmp_path)
    assert load(tmp_path, *lines)[1] == []


def pem_lines(tmp_path: Path) -> list[str]:
    file = Authority().issue().pem_file(tmp_path / "server.pem")
    return [f"lethe.http.ssl.keystore.location={file}", "lethe.http.ssl.keystore.type=PEM"]


def test_a_certificate_is_pem_or_pkcs12_by_kafka_s_names(tmp_path: Path) -> None:
    config, _ = load(tmp_path, *pem_lines(tmp_path))
    assert config.tls is not None
    (tmp_path / "password").write_text("of-the-store\n")
    store = Authority().issue().pkcs12(tmp_path / "server.p12", "of-the-store")
    lines = [f"lethe.http.ssl.keystore.location={store}", "lethe.http.ssl.keystore.type=PKCS12"]
    config, _ = load(tmp_path, *lines, f"lethe.http.ssl.keystore.password.file={tmp_path / 'password'}")
    assert config.tls is not None
    for wrong in ([], ["lethe.http.ssl.keystore.password=another-one"]):
        with pytest.raises(ConfigError) as refused:
            load(tmp_path, *lines, *wrong)
        assert "lethe.http.ssl.keystore" in str(refused.value)
        assert "another-one" not in str(refused.value)


def test_properties_of_brokers_listeners_are_not_for_http(tmp_path: Path) -> None:
    lines = [line.removeprefix("lethe.http.") for line in pem_lines(tmp_path)]
    assert load(tmp_path, *lines)[0].tls is None


def test_without_the_key_the_property_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lethe.http.ssl.keystore.location"):
        load(tmp_path, "lethe.http.ssl.client.auth=none")
    with pytest.raises(ConfigError, match="lethe.http.ssl.truststore.location"):
        load(tmp_path, *pem_lines(tmp_path), "lethe.http.ssl.client.auth=required")


@pytest.mark.parametrize(
    "line,said",
    [
        (
            "lethe.http.token.file=/nowhere/token",
            "does not exist; name an existing file with its whole path",
        ),
        ("lethe.http.token.for=all", "has no token to be for; set lethe.http.token.file too, or remove the line"),
        ("lethe.http.token.for=some", "use one of changes, all"),
    ],
)
def test_a_wrong_value_is_refused_with_its_remedy(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, line)
    assert said in str(refused.value)
    assert "server.properties:3" in str(refused.value)


def test_a_weak_token_is_refused_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hunter2")
    with pytest.raises(ConfigError, match="shorter than 16 characters.*openssl rand -hex 32") as refused:
        load(tmp_path, f"lethe.http.token.file={tmp_path / 'token'}")
    assert "hunter2" not in str(refused.value)
