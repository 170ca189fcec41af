"""Whatever is wrong with a configuration, no message, warning or representation shows a secret.

Each secret is looked for in fragments, so that one that is cut off counts as seen, and in the form that repr gives it.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lethe.adapters.config_environment import variable_name
from lethe.adapters.properties import ConfigError, Schema, Values, read_values, schema
from lethe.adapters.security.config import read_tls, read_zookeeper_tls
from lethe.adapters.security.config_names import TLS, ZOOKEEPER_TLS
from lethe.adapters.security.pem import PemProblem, read_certificates, read_key
from lethe.adapters.security.prefixed import listener_prefix
from lethe.adapters.security.tls import TlsMaterial, TlsSettings
from lethe.controller.runtime.configuration import CONTROLLER_SCHEMA
from tests.fakes.certificates import Authority

FRAGMENT = 8
NAMES = (
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.truststore.password",
    "ssl.keystore.key",
    "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.truststore.password",
    "listener.name.internal.ssl.keystore.password",
    "sasl.jaas.config",
    "lethe.zookeeper.digest",
    "ssl.keystore.pasword",
)
SECRETS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r\n", exclude_categories=["Cs"]),
    min_size=FRAGMENT + 2,
    max_size=200,
).filter(lambda text: len(set(text)) > FRAGMENT and text.strip() == text)
"""Long and various enough that a fragment is in no message by chance."""
OTHERS = st.sampled_from(
    [
        "ssl.keystore.type=PEM",
        "ssl.keystore.type=PKCS12",
        "ssl.keystore.location=STORES/key.pem",
        "ssl.keystore.location=STORES/key.p12",
        "ssl.keystore.location=STORES/nowhere",
        "ssl.keystore.certificate.chain=none",
        "ssl.truststore.location=STORES/trust.p12",
        "ssl.truststore.certificates=none",
        "zookeeper.ssl.client.enable=true",
        "zookeeper.ssl.keystore.location=STORES/key.p12",
        "zookeeper.ssl.truststore.location=STORES/key.pem",
        "zookeeper.set.acl=true",
        "a line without meaning",
    ]
)


@cache
def stores() -> Path:
    """A directory with stores that open with a password of their own."""
    directory = Path(tempfile.mkdtemp())
    ca = Authority()
    ca.issue().pkcs12(directory / "key.p12", "its own password")
    ca.issue().pem_file(directory / "key.pem", "its own password")
    ca.pkcs12(directory / "trust.p12", "its own password")
    return directory


def messages(text: str, environ: dict[str, str], known: Schema) -> Iterator[str]:
    """Everything that is said about a configuration."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "server.properties"
        path.write_text(text, encoding="utf-8")
        try:
            values = read_values(path, environ, known)
        except ConfigError as error:
            yield str(error)
            return
    yield repr(values)
    yield from values.warnings
    yield from used(values, read_tls(values, listener_prefix("INTERNAL"), ""))
    yield from used(values, read_zookeeper_tls(values))


def used(values: Values, settings: TlsSettings | None) -> Iterator[str]:
    try:
        yield repr(settings)
        values.finish()
        yield repr(TlsMaterial(settings or TlsSettings()))
    except ConfigError as error:
        yield "".join(traceback.format_exception(error))


def shows(said: str, secret: str) -> bool:
    forms = (secret, repr(secret)[1:-1], repr(secret.encode())[2:-1])
    return any(form[at : at + FRAGMENT] in said for form in forms for at in range(len(form) - FRAGMENT + 1))


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\")


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), SECRETS, st.booleans()), min_size=1, max_size=5),
    st.lists(OTHERS, max_size=8),
    st.sampled_from([None, *NAMES]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_no_message_shows_a_secret(
    secrets: list[tuple[str, str, bool]], others: list[str], in_environment: str | None, hooked: bool, random: object
) -> None:
    lines = [f"{name}={escaped(text) if proper else text}" for name, text, proper in secrets]
    lines = [*others, *lines]
    random.shuffle(lines)  # type: ignore[attr-defined]
    environ = {variable_name(in_environment): "of the environment: Zk4?"} if in_environment is not None else {}
    known = schema(CONTROLLER_SCHEMA.values(), TLS, ZOOKEEPER_TLS) if hooked else CONTROLLER_SCHEMA
    for said in messages("\n".join(lines).replace("STORES", str(stores())), environ, known):
        assert "Zk4?" not in said
        for _, text, _ in secrets:
            assert not shows(said, text), (said, text)


@given(st.integers(0, 4), st.booleans(), st.booleans())
def test_a_key_whose_lines_are_not_joined_is_not_shown(indent: int, encrypted: bool, first: bool) -> None:
    """Without a backslash at the end of each line, the key's lines are read as names of properties."""
    key = Authority().issue().key_pem("password" if encrypted else None)
    name = "ssl.keystore.key=" if first else ""
    text = "ssl.keystore.type=PEM\n" + name + "\n".join(" " * indent + line for line in key.splitlines())
    for said in messages(text, {}, CONTROLLER_SCHEMA):
        for line in key.splitlines()[1:-1]:
            assert not shows(said, line), said


@given(st.text(), st.one_of(st.none(), st.text()))
def test_any_text_is_read_as_pem_or_refused(text: str, password: str | None) -> None:
    for shown in (text, f"-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----", f"-----BEGIN {text}"):
        with suppress(PemProblem):
            read_key(shown, password)
        with suppress(PemProblem):
            read_certificates(shown)
