"""Who a command is at ZooKeeper: by the environment alone, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.config_environment import variable_name
from lethe.adapters.config_zookeeper import ACCESS
from lethe.adapters.properties import schema
from lethe.adapters.security.config_names import ZOOKEEPER_TLS
from lethe.broker.runtime.configuration import BROKER_SCHEMA
from lethe.cli.zookeeper_access import access_from, access_variables
from lethe.controller.runtime.configuration import CONTROLLER_SCHEMA

JAAS = """
Client {
   org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="hunter2";
};
"""


def test_without_variables_a_command_is_nobody() -> None:
    access, set_acl = access_from({"HOME": "/root", "KAFKA_OPTS": "-Dx=y"})
    assert (access.credentials, access.sasl, access.tls, set_acl) == (None, None, None, False)
    assert access_variables({}) == {"KAFKA_ZOOKEEPER_SET_ACL": "false"}


def test_a_digest_user() -> None:
    access, set_acl = access_from({"LETHE_ZOOKEEPER_DIGEST": "admin:secret:with:colons"})
    assert access.credentials is not None
    assert (access.credentials.scheme, access.credentials.secret) == ("digest", b"admin:secret:with:colons")
    assert set_acl
    with pytest.raises(ValueError, match="LETHE_ZOOKEEPER_DIGEST.*is not of the form user:password") as refusal:
        access_from({"LETHE_ZOOKEEPER_DIGEST": "hunter2"})
    assert "hunter2" not in str(refusal.value)


def test_a_sasl_user_with_a_password_in_the_environment_or_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hunter2\n")
    for given in ({"LETHE_ZOOKEEPER_SASL_PASSWORD": "hunter2"}, {"LETHE_ZOOKEEPER_SASL_PASSWORD_FILE": str(file)}):
        environ = {"LETHE_ZOOKEEPER_SASL_USERNAME": "kafka", **given}
        access, set_acl = access_from(environ)
        assert access.sasl is not None
        assert (access.sasl.username, access.sasl.password.reveal(), set_acl) == ("kafka", "hunter2", True)
        assert "hunter2" not in repr(access)
        assert access_variables(environ) == {**environ, "KAFKA_ZOOKEEPER_SET_ACL": "true"}


def test_the_brokers_jaas_file(tmp_path: Path) -> None:
    file = tmp_path / "kafka.jaas"
    file.write_text(JAAS)
    access, _ = access_from({"KAFKA_JAVA_SECURITY_AUTH_LOGIN_CONFIG": str(file)})
    assert access.sasl is not None
    assert (access.sasl.username, access.sasl.password.reveal()) == ("kafka", "hunter2")


def test_access_lists_can_be_switched_off_but_not_on_for_nobody() -> None:
    user = {"LETHE_ZOOKEEPER_SASL_USERNAME": "kafka", "LETHE_ZOOKEEPER_SASL_PASSWORD": "x"}
    environ = {**user, "KAFKA_ZOOKEEPER_SET_ACL": "false"}
    assert not access_from(environ)[1]
    assert access_variables({**environ, "HOME": "/root"}) == environ
    socket = {"KAFKA_ZOOKEEPER_CLIENTCNXNSOCKET": "org.apache.zookeeper.ClientCnxnSocketNetty"}
    assert access_variables({**environ, **socket}) == environ | socket


@pytest.mark.parametrize(
    "variable, meant",
    [
        ("KAFKA_ZOOKEEPER_SSL_CLIENT_ENABLED", "KAFKA_ZOOKEEPER_SSL_CLIENT_ENABLE"),
        ("KAFKA_ZOOKEEPER_SSL_TRUSTORE_LOCATION", "KAFKA_ZOOKEEPER_SSL_TRUSTSTORE_LOCATION"),
        ("LETHE_ZOOKEEPER_SASL_USER", "LETHE_ZOOKEEPER_SASL_USERNAME"),
        ("LETHE_ZOOKEEPER_DIGETS", "LETHE_ZOOKEEPER_DIGEST"),
    ],
)
def test_a_misspelt_variable_does_not_lead_to_a_connection_without_protection(variable: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"environment variable {variable}: .* is unknown; set {meant}, or unset it"):
        access_from({variable: "hunter2"})


def test_the_variables_of_a_daemon_and_of_others_are_no_mistakes() -> None:
    read_here = schema(ACCESS, ZOOKEEPER_TLS)
    daemons = {variable_name(name): "1" for name in (*CONTROLLER_SCHEMA, *BROKER_SCHEMA) if name not in read_here}
    assert "KAFKA_ZOOKEEPER_SESSION_TIMEOUT_MS" in daemons
    images = {"KAFKA_HEAP_OPTS": "-Xmx1g", "LETHE_ZOOKEEPER_CONNECT": "z:1", "LETHE_ZOOKEEPER_SERVICE_HOST": "10.0.0.1"}
    assert access_from(daemons | images)[0].tls is None


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no password.*does not exist") as refusal:
        access_from(
            {
                "LETHE_ZOOKEEPER_SASL_USERNAME": "kafka",
                "KAFKA_JAVA_SECURITY_AUTH_LOGIN_CONFIG": str(tmp_path / "missing"),
            }
        )
    assert "environment variable LETHE_ZOOKEEPER_SASL_USERNAME" in str(refusal.value)
