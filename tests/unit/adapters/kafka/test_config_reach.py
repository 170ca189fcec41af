"""Kafka's properties decide which listener of brokers is used, and how it is secured."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.config_listeners import PROTOCOL_MAP
from lethe.adapters.kafka.config_reach import (
    CLIENT_LISTENER_REMEDY,
    CLIENT_REMEDY,
    load_client_reach,
    read_client_reach,
    read_reach_between_brokers,
)
from lethe.adapters.kafka.reach import PLAINTEXT_REACH, BrokerReach, NoListener
from lethe.adapters.properties import ConfigError, Values, parse_properties, schema
from lethe.protocol.vocabulary import NO_EPOCH, Broker, BrokerId, Endpoint, SecurityProtocol
from tests.fakes.certificates import Authority

PLAINTEXT, SSL, SASL, SASL_SSL = SecurityProtocol
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="correct-horse";'
LOGIN = f"sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512\nsasl.jaas.config={SCRAM.format('lethe')}\n"


def values(text: str) -> Values:
    settings, problems = parse_properties(text, "f")
    return Values(schema((PROTOCOL_MAP,)), settings, problems)


def between(text: str) -> BrokerReach:
    given = values(text)
    reach = read_reach_between_brokers(given)
    assert given.problems == []
    return reach


def refusals(text: str) -> list[str]:
    given = values(text)
    read_reach_between_brokers(given)
    return [str(problem) for problem in given.problems]


MAP = "listener.security.protocol.map=INTERNAL:SASL_PLAINTEXT,CONTROL:SSL\n"


@pytest.mark.parametrize(
    "text, listener, protocol",
    [
        ("", None, PLAINTEXT),
        ("security.inter.broker.protocol=SSL", "SSL", SSL),
        (f"security.inter.broker.protocol=SASL_SSL\n{LOGIN}", "SASL_SSL", SASL_SSL),
        ("inter.broker.listener.name=ssl", "SSL", SSL),
        ("inter.broker.listener.name=INTERNAL", "INTERNAL", PLAINTEXT),
        (f"{MAP}{LOGIN}inter.broker.listener.name=Internal", "INTERNAL", SASL),
        (f"{MAP}inter.broker.listener.name=INTERNAL\ncontrol.plane.listener.name=CONTROL", "CONTROL", SSL),
    ],
)
def test_the_listener_and_its_protocol_are_those_of_kafka(
    text: str, listener: str | None, protocol: SecurityProtocol
) -> None:
    reach = between(text)
    assert reach.listener == listener
    assert {each: security.protocol for each, security in reach.security.items()} == {protocol: protocol}


def test_nothing_given_is_plaintext() -> None:
    assert between("ssl.protocol=TLSv1.2\nsasl.jaas.config=x") == PLAINTEXT_REACH


def test_a_listeners_own_properties_come_first(tmp_path: Path) -> None:
    ca = Authority().pem_file(tmp_path / "ca.pem")
    common = (
        f"{MAP.replace('SASL_PLAINTEXT', 'SASL_SSL')}inter.broker.listener.name=INTERNAL\n{LOGIN}"
        f"ssl.truststore.location={ca}\nssl.truststore.type=PEM\n"
    )
    security = between(common).security[SASL_SSL]
    context = security.context()
    assert context is not None
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1
    own = "listener.name.internal."
    security = between(
        f"{common}{own}ssl.endpoint.identification.algorithm=\n"
        f"{own}scram-sha-512.sasl.jaas.config={SCRAM.format('own')}"
    ).security[SASL_SSL]
    context = security.context()
    assert context is not None
    assert not context.check_hostname
    assert security.login is not None
    assert security.login.identity == "user own"


def test_who_connects_is_named_for_messages_about_rights(tmp_path: Path) -> None:
    assert between("").principal == "User:ANONYMOUS"
    assert between(f"security.inter.broker.protocol=SASL_PLAINTEXT\n{LOGIN}").principal == "User:lethe"
    assert between("security.inter.broker.protocol=SSL").principal == "User:ANONYMOUS"
    own = Authority().client().pem_file(tmp_path / "own.pem")
    ssl = f"security.inter.broker.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={own}\n"
    assert between(ssl).principal == "User:CN=lethe"
    token = "sasl.oauthbearer.token.endpoint.url=file:///t\nsasl.mechanism.inter.broker.protocol=OAUTHBEARER\n"
    found = between(f"{token}security.inter.broker.protocol=SASL_PLAINTEXT")
    assert found.principal == "the principal of the token in /t"


def test_what_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    (found,) = refusals(f"{MAP}inter.broker.listener.name=OTHER")
    assert found == (
        "f:2: inter.broker.listener.name='OTHER': has no security protocol; add it to listener.security.protocol.map"
    )
    (found,) = refusals("security.inter.broker.protocol=TLS")
    assert "is not one of the possible values; use one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL" in found
    missing = f"ssl.truststore.location={tmp_path / 'none'}\nssl.truststore.type=PEM"
    (found,) = refusals(f"security.inter.broker.protocol=SSL\n{missing}")
    assert "ssl.truststore.location=" in found
    assert "does not exist" in found
    assert len(refusals(f"security.inter.broker.protocol=SASL_SSL\n{missing}")) == 2


def test_a_client_uses_any_listener_of_its_protocol(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=b:1\nacks=all\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.jaas.config={SCRAM.format('me')}"
    )
    reach = load_client_reach(file)
    assert (reach.listener, reach.choice.spoken, reach.remedy) == (None, (SASL,), CLIENT_REMEDY)
    assert reach.security[SASL].login is not None
    assert "correct-horse" not in repr(reach)
    file.write_text("security.protocol=SASL_SSL\n")
    with pytest.raises(ConfigError, match=f"^{file}: sasl.mechanism: is missing: Kafka's default GSSAPI is Kerberos"):
        load_client_reach(file)
    file.write_text("")
    assert load_client_reach(file).choice.spoken == (PLAINTEXT,)


@pytest.mark.parametrize(
    "line, reason",
    [
        ("security.protocl=SASL_SSL", "security.protocl: is unknown; write security.protocol, or remove the line"),
        ("ssl.trustore.location=/x", "ssl.trustore.location: is unknown; write ssl.truststore.location, or remove"),
    ],
)
def test_a_misspelt_line_does_not_lead_to_plaintext(line: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"client.id=me\nmax.in.flight.requests.per.connection=1\n{line}\n")
    with pytest.raises(ConfigError) as refused:
        load_client_reach(file)
    (problem,) = str(refused.value).splitlines()
    assert f"client.properties:3: {reason}" in problem


@pytest.mark.parametrize(
    "lines, names, protocols",
    [
        ("ssl.truststore.location=/secret", "ssl.truststore.location", "SSL"),
        ("sasl.jaas.config=secret", "sasl.jaas.config", "SASL_SSL or SASL_PLAINTEXT"),
        ("lethe.sasl.oauthbearer.token.command=secret", "lethe.sasl.oauthbearer.token.command", "SASL_SSL or SASL_"),
        ("sasl.mechanism=PLAIN\nssl.key.password=secret", "sasl.mechanism, ssl.key.password", "SASL_SSL, or"),
    ],
)
def test_lines_without_effect_are_named_because_the_connection_is_plaintext(
    lines: str, names: str, protocols: str, tmp_path: Path
) -> None:
    file, warnings = tmp_path / "client.properties", list[str]()
    file.write_text(f"ssl.endpoint.identification.algorithm=\n{lines}\nsecurity.protocol=\n")
    assert load_client_reach(file, warnings.append).choice.spoken == (PLAINTEXT,)
    (said,) = warnings
    assert said.startswith(f"{file}:2: {names}: without security.protocol, which is PLAINTEXT by default, ")
    assert f"add security.protocol={protocols}" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    "lines",
    [
        "security.protocol=PLAINTEXT\nssl.truststore.location=/x\nlistener.name.a.ssl.truststore.location=/x\n",
        "acks=all\nlistener.name.a.max.connections=1\n",
        "",
    ],
)
def test_plaintext_that_is_chosen_or_has_nothing_beside_it_is_not_remarked(lines: str, tmp_path: Path) -> None:
    file, warnings = tmp_path / "client.properties", list[str]()
    file.write_text(lines)
    load_client_reach(file, warnings.append)
    assert warnings == []


OF_LISTENERS = "clients use no properties of listeners"
AND_PLAINTEXT = (
    f"{OF_LISTENERS}, and without security.protocol, which is PLAINTEXT by default, brokers are reached without TLS "
    "and login"
)


@pytest.mark.parametrize(
    "names, beside, said",
    [
        (
            ("listener.name.internal.ssl.truststore.location", "listener.name.other.ssl.truststore.location"),
            "",
            f"{AND_PLAINTEXT}; write ssl.truststore.location, and add security.protocol=SSL",
        ),
        (
            ("listener.name.internal.scram-sha-512.sasl.jaas.config",),
            "",
            f"{AND_PLAINTEXT}; write sasl.jaas.config, and add security.protocol=SASL_SSL or SASL_PLAINTEXT",
        ),
        (
            ("listener.name.internal.ssl.key.password",),
            "security.protocol=SSL",
            f"{OF_LISTENERS}; write ssl.key.password",
        ),
    ],
)
def test_lines_of_listeners_are_remarked_because_clients_have_none(
    names: tuple[str, ...], beside: str, said: str, tmp_path: Path
) -> None:
    file, warnings = tmp_path / "client.properties", list[str]()
    file.write_text("\n".join((*(f"{name}=secret" for name in names), beside)))
    load_client_reach(file, warnings.append)
    assert warnings == [f"{file}:1: {', '.join(names)}: {said}"]


def test_lines_of_listeners_beside_others_without_effect_are_remarked_on_their_own(tmp_path: Path) -> None:
    file, warnings = tmp_path / "client.properties", list[str]()
    file.write_text("sasl.mechanism=PLAIN\nlistener.name.internal.sasl.jaas.config=secret\n")
    load_client_reach(file, warnings.append)
    others, of_listeners = warnings
    assert others.startswith(f"{file}:1: sasl.mechanism: without security.protocol")
    assert of_listeners == f"{file}:2: listener.name.internal.sasl.jaas.config: {OF_LISTENERS}; write sasl.jaas.config"


def test_prefixed_lines_without_effect_are_named_with_their_prefix() -> None:
    others = "ssl.truststore.location=/x\nlistener.name.internal.ssl.truststore.location=/x\n"
    given = values(f"j.sasl.mechanism=PLAIN\n{others}")
    read_client_reach(given, "j.")
    (said,) = given.warnings
    assert said.startswith("f:1: j.sasl.mechanism: without j.security.protocol, ")


def test_the_file_of_a_client_names_its_listener(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=PLAINTEXT\nlethe.listener.name=Clients\n")
    reach = load_client_reach(file)
    inside, clients = Endpoint("INSIDE", "h", 1), Endpoint("CLIENTS", "h", 2)
    assert reach.endpoint_of(Broker(BrokerId(1), NO_EPOCH, (inside, clients))) == clients
    with pytest.raises(NoListener) as without:
        reach.endpoint_of(Broker(BrokerId(1), NO_EPOCH, (inside,)))
    assert str(without.value) == f"it has no listener CLIENTS (it has INSIDE: PLAINTEXT); {CLIENT_LISTENER_REMEDY}"
    with pytest.raises(NoListener, match="its listener CLIENTS is SSL, and PLAINTEXT is configured for it"):
        reach.endpoint_of(Broker(BrokerId(1), NO_EPOCH, (clients._replace(protocol=SecurityProtocol.SSL),)))
