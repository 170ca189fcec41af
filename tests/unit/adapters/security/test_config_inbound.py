"""Kafka's properties of listeners become what these require of clients, or sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lethe.adapters.config_limits import LIMITS
from lethe.adapters.properties import Values, parse_properties, schema
from lethe.adapters.security.accepting import CredentialsUnavailable
from lethe.adapters.security.access import AccessSettings
from lethe.adapters.security.config_inbound import INBOUND, read_inbound
from lethe.adapters.security.exchanges import PlainExchange
from lethe.adapters.security.inbound import Inbound, InboundSettings
from lethe.protocol.security.principals import Principal
from lethe.protocol.vocabulary import Endpoint, SecurityProtocol
from tests.fakes.certificates import Authority

SECRET = "correct-horse"
USERS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="{SECRET}";'
JAAS = f"listener.name.internal.plain.sasl.jaas.config={USERS}\n"
AUTHORIZER = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\n"


def listener(protocol: SecurityProtocol = SecurityProtocol.SASL_PLAINTEXT, name: str = "INTERNAL") -> Endpoint:
    return Endpoint(name, "h", 1, protocol)


def values(text: str) -> Values:
    settings, problems = parse_properties(text, "f")
    return Values(schema(LIMITS), settings, problems, source="f")


def read(text: str, *listeners: Endpoint) -> tuple[InboundSettings, list[str]]:
    given = values(text)
    settings = read_inbound(given, listeners or (listener(),))
    assert given.problems == []
    return settings, given.warnings


def problem(text: str, *listeners: Endpoint) -> str:
    given = values(text)
    read_inbound(given, listeners or (listener(),))
    (found,) = dict.fromkeys(map(str, given.problems))
    assert SECRET not in found
    return found


def test_the_defaults_are_kafkas() -> None:
    assert {prop.name: prop.default for prop in INBOUND} == {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.server.max.receive.size": "524288",
        "connections.max.reauth.ms": "0",
        "connection.failed.authentication.delay.ms": "100",
        "ssl.principal.mapping.rules": "DEFAULT",
        "authorizer.class.name": None,
        "super.users": None,
        "allow.everyone.if.no.acl.found": "false",
    }


def test_plaintext_without_authorizer_is_open_and_without_listeners_nothing_is_read() -> None:
    settings, warnings = read("super.users=User:a", listener(SecurityProtocol.PLAINTEXT))
    assert (settings.access, warnings) == (None, [])
    assert Inbound(settings).admission("INTERNAL").protocol is SecurityProtocol.PLAINTEXT
    given = values("authorizer.class.name=com.acme.Own")
    assert read_inbound(given, ()) == InboundSettings()
    assert given.problems == []


def test_sasl_with_the_properties_of_a_listener_first() -> None:
    settings, warnings = read(
        "sasl.enabled.mechanisms=SCRAM-SHA-256\n"
        "listener.name.internal.sasl.enabled.mechanisms=PLAIN, SCRAM-SHA-512,PLAIN\n"
        "connections.max.reauth.ms=1\nlistener.name.internal.connections.max.reauth.ms=2\n"
        "listener.name.internal.scram-sha-512.connections.max.reauth.ms=3\n"
        "sasl.server.max.receive.size=1000\nconnection.failed.authentication.delay.ms=7\n"
        "lethe.request.receive.timeout.ms=500\n" + JAAS,
        listener(),
        listener(name="OTHER"),
    )
    assert warnings == []
    internal, other = settings.listeners["INTERNAL"], settings.listeners["OTHER"]
    assert (internal.mechanisms, other.mechanisms) == (("PLAIN", "SCRAM-SHA-512"), ("SCRAM-SHA-256",))
    assert (internal.max_reauth_ms, other.max_reauth_ms) == (
        {"PLAIN": 2, "SCRAM-SHA-512": 3},
        {"SCRAM-SHA-256": 1},
    )
    assert (internal.max_receive_bytes, internal.failure_delay_ms, internal.max_login_ms) == (1000, 7, 500)
    assert internal.read_plain is not None
    assert internal.read_plain().options == {"user_ann": SECRET}
    admission = Inbound(settings).admission("INTERNAL")
    assert admission.protocol is SecurityProtocol.SASL_PLAINTEXT
    assert admission.sasl is not None
    assert set(admission.sasl.mechanisms) == {"PLAIN", "SCRAM-SHA-512"}


@pytest.mark.parametrize("section", ["KafkaServer", "internal.KafkaServer"])
def test_users_of_plain_come_from_the_jaas_file_and_are_read_again(tmp_path: Path, section: str) -> None:
    file = tmp_path / "jaas.conf"
    if section != "KafkaServer":
        file.write_text(f'KafkaServer {{ PlainLoginModule required user_wrong="y"; }};\n{section} {{ {USERS} }};')
    else:
        file.write_text(f"{section} {{ ScramLoginModule required; {USERS} }};")
    settings, _ = read(f"sasl.enabled.mechanisms=PLAIN\njava.security.auth.login.config={file}")
    read_plain = settings.listeners["INTERNAL"].read_plain
    assert read_plain is not None
    assert read_plain().options == {"user_ann": SECRET}
    file.write_text(f'{section} {{ PlainLoginModule required user_bob="z"; }};')
    assert read_plain().options == {"user_bob": "z"}


@pytest.mark.parametrize("rubbish, why", [(None, "does not exist"), ("correct-horse", "the text ends where")])
async def test_users_of_plain_that_are_lost_while_the_listener_serves_are_named_with_property_and_file(
    tmp_path: Path, rubbish: str | None, why: str
) -> None:
    path, name = tmp_path / "users", "listener.name.internal.plain.sasl.jaas.config.file"
    path.write_text(USERS)
    settings, _ = read(f"sasl.enabled.mechanisms=PLAIN\n{name}={path}\n")
    read_plain = settings.listeners["INTERNAL"].read_plain
    assert read_plain is not None
    path.unlink()
    if rubbish is not None:
        path.write_text(rubbish)
    with pytest.raises(CredentialsUnavailable, match=re.escape(f"{name}={path}: {why}")) as raised:
        await PlainExchange(read_plain).answer(b"\0ann\0" + SECRET.encode())
    assert SECRET not in str(raised.value)


def test_tls_with_a_mapping_and_sasl_ssl_without_one(tmp_path: Path) -> None:
    ca = Authority()
    store = ca.issue().pem_file(tmp_path / "key.pem")
    text = (
        f"ssl.keystore.type=PEM\nssl.keystore.location={store}\nssl.client.auth=required\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={ca.pem_file(tmp_path / 'ca.pem')}\n"
        "ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/\nsasl.enabled.mechanisms=SCRAM-SHA-512\n"
    )
    settings, _ = read(text, listener(SecurityProtocol.SSL, "A"), listener(SecurityProtocol.SASL_SSL, "B"))
    assert settings.listeners["A"].mapping.name_of("CN=x") == "x"
    assert settings.listeners["B"].mapping.name_of("CN=x") == "CN=x"
    inbound = Inbound(settings)
    assert inbound.admission("A").protocol is SecurityProtocol.SSL
    assert inbound.admission("B").protocol is SecurityProtocol.SASL_SSL
    assert inbound.admission("elsewhere").protocol is SecurityProtocol.PLAINTEXT


def test_the_authorizer() -> None:
    for name in ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer"):
        text = (
            f"authorizer.class.name={name}\nsuper.users=User:admin;User:CN=a,O=b\nallow.everyone.if.no.acl.found=true"
        )
        settings, _ = read(text, listener(SecurityProtocol.PLAINTEXT))
        assert settings.access == AccessSettings(
            frozenset({Principal("User", "admin"), Principal("User", "CN=a,O=b")}), True
        )
    assert read(AUTHORIZER, listener(SecurityProtocol.PLAINTEXT))[0].access == AccessSettings()


def test_mechanisms_that_cannot_be_verified_are_left_out_with_a_warning() -> None:
    settings, (warning,) = read("sasl.enabled.mechanisms=GSSAPI,OAUTHBEARER,SCRAM-SHA-512")
    assert settings.listeners["INTERNAL"].mechanisms == ("SCRAM-SHA-512",)
    assert "GSSAPI, OAUTHBEARER is left out of listener INTERNAL, because Lethe cannot verify it" in warning


def test_a_login_module_without_users_is_warned_about() -> None:
    text = 'listener.name.internal.plain.sasl.jaas.config=PlainLoginModule required username="a" password="b";\n'
    _, (warning,) = read("sasl.enabled.mechanisms=PLAIN\n" + text)
    assert "has no user_<name>, so nobody can log in to listener INTERNAL by PLAIN" in warning


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", "sasl.enabled.mechanisms: is missing, and Kafka's default is GSSAPI, which Lethe cannot verify"),
        ("sasl.enabled.mechanisms=OAUTHBEARER", "leaves listener INTERNAL no mechanism that Lethe can verify"),
        ("sasl.enabled.mechanisms=PLAIN2", "has 'PLAIN2', which is no mechanism that Lethe has"),
        ("sasl.enabled.mechanisms=PLAIN", "internal.plain.sasl.jaas.config: is missing: PLAIN on listener INTERNAL"),
        (
            f"sasl.enabled.mechanisms=PLAIN\nlistener.name.internal.plain.sasl.jaas.config=a b {SECRET}",
            "internal.plain.sasl.jaas.config",
        ),
        (
            "sasl.enabled.mechanisms=PLAIN\njava.security.auth.login.config=/nowhere/jaas.conf",
            "java.security.auth.login.config='/nowhere/jaas.conf': does not exist",
        ),
        (
            "sasl.enabled.mechanisms=SCRAM-SHA-512\nconnections.max.reauth.ms=soon",
            "connections.max.reauth.ms='soon': is no number that is possible here; write a whole number from 0 to",
        ),
        (
            "sasl.enabled.mechanisms=SCRAM-SHA-512\nauthorizer.class.name=com.acme.Own",
            "'com.acme.Own': is an authorizer whose verdicts Lethe does not know",
        ),
        (
            "sasl.enabled.mechanisms=SCRAM-SHA-512\nprincipal.builder.class=com.acme.Own",
            "makes principals in a way that Lethe does not know",
        ),
        (
            "sasl.enabled.mechanisms=SCRAM-SHA-512\n" + AUTHORIZER + "super.users=admin;User:b",
            "f:3: super.users='admin;User:b': 'admin' is no principal: write its type before a colon, such as",
        ),
    ],
)
def test_problems(text: str, expected: str) -> None:
    assert expected in problem(text)


def test_problems_of_tls() -> None:
    assert problem("", listener(SecurityProtocol.SSL)).startswith("f: ssl.keystore.location: is missing: a listener")
    given = values("ssl.principal.mapping.rules=RULE:[/x/")
    read_inbound(given, (listener(SecurityProtocol.SSL),))
    assert any("ssl.principal.mapping.rules" in str(each) for each in given.problems)
