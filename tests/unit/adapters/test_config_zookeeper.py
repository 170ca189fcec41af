"""Who a daemon is at ZooKeeper, by its properties and the brokers' JAAS file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.config_zookeeper import ZOOKEEPER, ZooKeeperConfig, read_zookeeper
from lethe.adapters.properties import ConfigError, read_values, schema
from lethe.adapters.security.unusable import Unusable
from tests.fakes.certificates import Authority

USER = "lethe.zookeeper.sasl.username=kafka\nlethe.zookeeper.sasl.password=hunter2\n"
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"


def load(text: str, tmp_path: Path) -> ZooKeeperConfig:
    file = tmp_path / "server.properties"
    file.write_text("zookeeper.connect=zk:2181\n" + text)
    values = read_values(file, {}, schema(ZOOKEEPER))
    config = read_zookeeper(values)
    values.finish()
    assert values.warnings == []
    return config


def problem(text: str, tmp_path: Path) -> str:
    with pytest.raises(ConfigError) as error:
        load(text, tmp_path)
    (only,) = error.value.problems
    assert "hunter2" not in str(only)
    return str(only)


def jaas(tmp_path: Path, text: str) -> str:
    (tmp_path / "kafka.jaas").write_text(text)
    return f"java.security.auth.login.config={tmp_path / 'kafka.jaas'}\n"


def section(name: str = "Client", module: str = MODULE, options: str = 'username="kafka" password="hunter2"') -> str:
    return f"{name} {{\n  {module} required {options};\n}};\n"


def user_of(config: ZooKeeperConfig) -> tuple[str, str] | None:
    return None if config.sasl is None else (config.sasl.username, config.sasl.password.reveal())


def test_without_properties_nobody_logs_in(tmp_path: Path) -> None:
    config = load("", tmp_path)
    assert (config.sasl, config.tls, config.credentials, config.set_acl) == (None, None, None, False)
    session = config.session()
    assert (session.sasl, session.tls, session.credentials, session.has_identity) == (None, None, (), False)


def test_the_latency_of_a_slow_write_reaches_the_session(tmp_path: Path) -> None:
    assert load("", tmp_path).session().slow_write_ms == 200
    assert load("lethe.zookeeper.slow.write.ms=321\n", tmp_path).session().slow_write_ms == 321


def test_a_user_in_two_properties(tmp_path: Path) -> None:
    config = load(USER + "zookeeper.set.acl=true\n", tmp_path)
    assert user_of(config) == ("kafka", "hunter2")
    assert "hunter2" not in repr(config)
    session = config.session()
    assert (session.sasl, session.set_acl, session.has_identity) == (config.sasl, True, True)


def test_a_password_in_a_file_follows_the_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hunter2\n")
    text = f"lethe.zookeeper.sasl.username=kafka\nlethe.zookeeper.sasl.password.file={file}\n"
    config = load(text, tmp_path)
    assert user_of(config) == ("kafka", "hunter2")
    file.write_text("hunter3\n")
    assert user_of(config) == ("kafka", "hunter3")
    file.unlink()
    assert "does not exist" in problem(text, tmp_path)


def test_the_section_client_of_the_brokers_jaas_file(tmp_path: Path) -> None:
    others = section("KafkaServer", "org.apache.kafka.common.security.plain.PlainLoginModule", 'username="a"')
    config = load(jaas(tmp_path, others + section()) + "zookeeper.set.acl=true\n", tmp_path)
    assert user_of(config) == ("kafka", "hunter2")
    named = jaas(tmp_path, section("Ours")) + "zookeeper.sasl.clientconfig=Ours\n"
    assert user_of(load(named, tmp_path)) == ("kafka", "hunter2")


def test_the_password_in_the_jaas_file_is_read_at_each_login(tmp_path: Path) -> None:
    config = load(jaas(tmp_path, section()), tmp_path)
    jaas(tmp_path, section(options='username="kafka" password="new"'))
    assert user_of(config) == ("kafka", "new")
    for content, said in (
        (section("Other"), "has no section Client; add it again"),
        (section(options='username="kafka"'), "has no password"),
        ("Client {\n  hunter2", "the text ends where"),
    ):
        jaas(tmp_path, content)
        with pytest.raises(Unusable, match=said) as raised:
            user_of(config)
        assert "hunter2" not in str(raised.value)


def test_a_jaas_file_without_that_section_is_for_others(tmp_path: Path) -> None:
    """As Kafka has it: JaasUtils.isZkSaslEnabled."""
    text = jaas(tmp_path, section("KafkaServer"))
    assert load(text, tmp_path).sasl is None
    assert load(text + "zookeeper.sasl.client=false\n", tmp_path).sasl is None
    assert load(jaas(tmp_path, ""), tmp_path).sasl is None


@pytest.mark.parametrize(
    "content, said",
    [
        (section(options=""), "DigestLoginModule has no username"),
        (section(options='username="kafka"'), "DigestLoginModule has no password"),
        (section(module="com.sun.security.auth.module.Krb5LoginModule"), "Krb5LoginModule, and only DigestLoginModule"),
        ("Client {\n};\n", "has 0 login modules"),
        (f'Client {{ {MODULE} required username="a" password="hunter2"; {MODULE} optional; }};', "has 2 login modules"),
        ("Client {\n  nonsense", "ends where"),
    ],
)
def test_a_section_that_cannot_be_used(content: str, said: str, tmp_path: Path) -> None:
    found = problem(jaas(tmp_path, content), tmp_path)
    assert said in found
    assert f"java.security.auth.login.config={str(tmp_path / 'kafka.jaas')!r}" in found


def test_a_jaas_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "kafka.jaas").write_bytes(b"\xff\xfe")
    text = f"java.security.auth.login.config={tmp_path / 'kafka.jaas'}\n"
    assert "is not text in UTF-8; name the JAAS file of the brokers" in problem(text, tmp_path)


@pytest.mark.parametrize(
    "text, said",
    [
        ("lethe.zookeeper.sasl.username=kafka\n", "has no password; set lethe.zookeeper.sasl.password, or"),
        ("lethe.zookeeper.sasl.password=hunter2\n", "belongs to no user; set lethe.zookeeper.sasl.username too"),
        (USER + "zookeeper.sasl.client=false\n", "keeps the user of lethe.zookeeper.sasl.username from logging in"),
        ("zookeeper.set.acl=true\n", "the znodes would have no owner; set lethe.zookeeper.sasl.username and"),
        ("zookeeper.sasl.client=maybe\n", "is neither true nor false"),
    ],
)
def test_contradictions_are_told(text: str, said: str, tmp_path: Path) -> None:
    assert said in problem(text, tmp_path)


def test_contradictions_with_a_jaas_file(tmp_path: Path) -> None:
    file = jaas(tmp_path, section())
    assert "stands beside the section Client of java" in problem(file + USER, tmp_path)
    found = problem(file + "zookeeper.sasl.client=false\n", tmp_path)
    assert "keeps the user of java.security.auth.login.config from logging in" in found


def test_a_certificate_is_an_identity_and_trust_alone_is_none(tmp_path: Path) -> None:
    authority = Authority()
    trust = f"zookeeper.ssl.truststore.location={authority.pem_file(tmp_path / 'authority.pem')}\n"
    enabled = "zookeeper.ssl.client.enable=true\n" + trust
    tls = load(enabled, tmp_path).session().tls
    assert tls is not None
    assert not tls.has_certificate
    assert "the znodes would have no owner" in problem(enabled + "zookeeper.set.acl=true\n", tmp_path)
    key = authority.client().pem_file(tmp_path / "client.pem")
    config = load(f"{enabled}zookeeper.ssl.keystore.location={key}\nzookeeper.set.acl=true\n", tmp_path)
    session = config.session()
    assert session.tls is not None
    assert (session.tls.has_certificate, session.has_identity) == (True, True)
    assert session.tls.make_context().cert_store_stats()["x509_ca"] == 1


def test_a_store_that_is_missing_is_told_at_the_start(tmp_path: Path) -> None:
    text = f"zookeeper.ssl.client.enable=true\nzookeeper.ssl.truststore.location={tmp_path / 'missing.pem'}\n"
    assert "does not exist" in problem(text, tmp_path)
