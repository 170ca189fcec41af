"""Kafka's properties for SASL become logins, or sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.properties import Values, parse_properties
from lethe.adapters.security.config_sasl import read_client_login, read_login_between_brokers
from lethe.adapters.security.login import LoginUnusable, SaslLogin
from lethe.protocol.security.oauthbearer import OAuthBearerClient
from lethe.protocol.security.plain import PlainClient
from lethe.protocol.security.scram import ScramClient

SECRET = "correct-horse"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BETWEEN = "sasl.mechanism.inter.broker.protocol"


def entry(module: str, user: str, password: str = SECRET) -> str:
    return f'{module} required username="{user}" password="{password}";'


def values(text: str) -> Values:
    settings, problems = parse_properties(text, "f")
    return Values({}, settings, problems, source="f")


def between(text: str) -> SaslLogin:
    given = values(text)
    login = read_login_between_brokers(given, "INTERNAL")
    assert given.problems == []
    assert login is not None
    return login


def client(text: str) -> SaslLogin:
    given = values(text)
    login = read_client_login(given)
    assert given.problems == []
    assert login is not None
    return login


def refusals(text: str) -> list[str]:
    given = values(text)
    assert read_login_between_brokers(given, "INTERNAL") is None
    found = [str(problem) for problem in given.problems]
    assert SECRET not in " ".join(found)
    return found


def jaas_file(path: Path, **sections: str) -> str:
    path.write_text("".join(f"{name} {{ {text} }};\n" for name, text in sections.items()))
    return f"java.security.auth.login.config={path}\n"


# --- where user and password stand --------------------------------------------------------------------------------


async def test_a_listeners_own_entry_comes_before_file_and_general_one(tmp_path: Path) -> None:
    file = jaas_file(tmp_path / "jaas", KafkaServer=entry(SCRAM, "of-file"), KafkaClient=entry(SCRAM, "of-client"))
    mechanism = f"{BETWEEN}=SCRAM-SHA-512\nsasl.mechanism=SCRAM-SHA-256\n"
    general = f"sasl.jaas.config={entry(SCRAM, 'general')}\n"
    own = f"listener.name.internal.scram-sha-512.sasl.jaas.config={entry(SCRAM, 'own')}\n"
    other = f"listener.name.other.scram-sha-512.sasl.jaas.config={entry(SCRAM, 'other')}\n"
    assert between(mechanism + file + general + own + other).identity == "user own"
    assert between(mechanism + file + general + other).identity == "user of-file"
    assert between(mechanism + general + other).identity == "user general"
    assert client(mechanism + file + general + own).identity == "user general"
    assert client(mechanism + file + own).identity == "user of-client"
    assert client(mechanism + file).mechanism == "SCRAM-SHA-256"
    made = await between(mechanism + file + own).client()
    assert isinstance(made, ScramClient)


def test_a_listeners_section_comes_before_the_general_one_and_the_fitting_module_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "jaas"
    both = entry(PLAIN, "plain") + " " + entry(SCRAM, "scram")
    path.write_text(f"internal.KafkaServer {{ {entry(SCRAM, 'listener')} }}; KafkaServer {{ {both} }};")
    file = f"java.security.auth.login.config={path}\n"
    assert between(f"{file}{BETWEEN}=SCRAM-SHA-256").identity == "user listener"
    path.write_text(f"KafkaServer {{ {both} }};")
    assert between(f"{file}{BETWEEN}=SCRAM-SHA-256").identity == "user scram"
    assert between(f"{file}{BETWEEN}=PLAIN").identity == "user plain"


async def test_files_are_read_again_for_each_login(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    path.write_text(entry(PLAIN, "a", "first") + "\n")
    login = client(f"sasl.mechanism=PLAIN\nsasl.jaas.config.file={path}")
    assert (await login.client()).first() == b"\0a\0first"
    path.write_text(entry(PLAIN, "b", "second"))
    assert (await login.client()).first() == b"\0b\0second"
    path.unlink()
    with pytest.raises(LoginUnusable, match=r"sasl\.jaas\.config\.file=.*/entry: does not exist; name an existing"):
        await login.client()
    file = jaas_file(tmp_path / "jaas", KafkaClient=entry(PLAIN, "a", "third"))
    login = client(f"sasl.mechanism=PLAIN\n{file}")
    jaas_file(tmp_path / "jaas", KafkaClient=entry(PLAIN, "c", "fourth"))
    made = await login.client()
    assert isinstance(made, PlainClient)
    assert made.first() == b"\0c\0fourth"
    (tmp_path / "jaas").write_text("")
    with pytest.raises(LoginUnusable, match="no login module in a section KafkaClient"):
        await login.client()


# --- tokens -------------------------------------------------------------------------------------------------------


async def test_tokens_come_from_a_file_or_a_command(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text("e30.e30.")
    url = f"file://{str(path).replace(' ', '%20')}"
    for text in (
        f"sasl.oauthbearer.token.endpoint.url={url}",
        f"listener.name.internal.oauthbearer.sasl.oauthbearer.token.endpoint.url={url}",
        f"lethe.sasl.oauthbearer.token.command=cat '{path}'",
    ):
        assert isinstance(await between(f"{BETWEEN}=OAUTHBEARER\n{text}").client(), OAuthBearerClient)


def test_a_token_needs_one_source_that_is_here() -> None:
    mechanism = f"{BETWEEN}=OAUTHBEARER\n"
    (found,) = refusals(mechanism)
    assert found == (
        "f: sasl.oauthbearer.token.endpoint.url: is missing: OAUTHBEARER needs a token; set it to "
        "file:///path, or set lethe.sasl.oauthbearer.token.command"
    )
    (found,) = refusals(f"{mechanism}sasl.oauthbearer.token.endpoint.url=https://{SECRET}@idp/token")
    assert found == (
        "f:2: sasl.oauthbearer.token.endpoint.url: is not the URL of a file, and Lethe asks no token endpoint; write "
        "file:///path of a file that a program renews, or set lethe.sasl.oauthbearer.token.command"
    )
    command = "lethe.sasl.oauthbearer.token.command=get '"
    assert "has a quote without its end" in refusals(mechanism + command)[0]
    assert "stands beside" in refusals(f"{mechanism}{command}'\nsasl.oauthbearer.token.endpoint.url=file:///t")[0]


# --- refusals -----------------------------------------------------------------------------------------------------


def test_kerberos_is_refused_also_as_the_default() -> None:
    why = "is Kerberos, for which Lethe has no library"
    remedy = (
        "; set it to one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, which the broker has to enable as well "
        "(sasl.enabled.mechanisms)"
    )
    assert refusals(f"{BETWEEN}=GSSAPI") == [f"f:1: {BETWEEN}='GSSAPI': {why}{remedy}"]
    assert refusals("") == [f"f: {BETWEEN}: is missing: Kafka's default GSSAPI {why}{remedy}"]
    assert "='X': is no SASL mechanism" in refusals(f"{BETWEEN}=X")[0]


def test_the_example_has_the_module_of_the_mechanism() -> None:
    assert "org.apache.kafka.common.security.plain.PlainLoginModule" in refusals(f"{BETWEEN}=PLAIN")[0]
    assert "org.apache.kafka.common.security.scram.ScramLoginModule" in refusals(f"{BETWEEN}=SCRAM-SHA-256")[0]
    token = "sasl.oauthbearer.token.endpoint.url=file:///t"
    (found,) = refusals(f"{BETWEEN}=OAUTHBEARER\n{token}\nsasl.jaas.config={entry(PLAIN, 'a')}")
    assert found.endswith("write it as org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;")


def test_a_missing_or_unfitting_entry_is_a_sentence(tmp_path: Path) -> None:
    mechanism = f"{BETWEEN}=SCRAM-SHA-512\n"
    name = "listener.name.internal.scram-sha-512.sasl.jaas.config"
    (found,) = refusals(mechanism)
    assert f"{name}: is missing: SCRAM-SHA-512 needs user and password; write it as org.apache" in found
    (found,) = refusals(f"{mechanism}{name}={entry(PLAIN, 'a')}")
    assert f"f:2: {name}: the mechanism SCRAM-SHA-512 goes with ScramLoginModule, and sasl.jaas.config names" in found
    (found,) = refusals(f"{mechanism}{name}={SCRAM} required username={SECRET}")
    assert f"f:2: {name}: the text ends where" in found
    (found,) = refusals(f"{mechanism}{name}={SCRAM} required username=a;")
    assert f"f:2: {name}: ScramLoginModule has no password" in found
    (found,) = refusals(f"{mechanism}{name}.file={tmp_path / 'none'}")
    assert f"f:2: {name}.file='{tmp_path / 'none'}': does not exist" in found
    file = "java.security.auth.login.config"
    (found,) = refusals(f"{mechanism}{file}={tmp_path / 'none'}")
    assert f"f:2: {file}='{tmp_path / 'none'}': does not exist" in found
    (tmp_path / "jaas").write_bytes(b"\xff")
    (found,) = refusals(f"{mechanism}{file}={tmp_path / 'jaas'}")
    assert "is not text in UTF-8; name the JAAS file of the brokers" in found
    (tmp_path / "jaas").write_text(f"KafkaServer {{ {SCRAM} required password={SECRET} }};")
    (found,) = refusals(f"{mechanism}{file}={tmp_path / 'jaas'}")
    assert f"f:2: {file}=" in found
    assert found.endswith("mend that line, or name another file")
