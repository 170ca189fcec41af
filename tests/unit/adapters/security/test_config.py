"""Kafka's properties for TLS become settings, or sentences."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from lethe.adapters.config_environment import environment_settings
from lethe.adapters.properties import PropertyKind, Values, parse_properties
from lethe.adapters.security.config import read_listener_tls, read_tls, read_zookeeper_tls
from lethe.adapters.security.config_names import TLS, ZOOKEEPER_TLS
from lethe.adapters.security.prefixed import listener_prefix
from lethe.adapters.security.stores import StoreKind
from lethe.adapters.security.tls import ClientAuth, TlsSettings
from lethe.protocol.vocabulary import SecurityProtocol

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
AES256 = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
TLS13 = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"


def values(text: str, environ: dict[str, str] | None = None) -> Values:
    """Values whose schema has none of the properties, as that of a program that reads them only where TLS is used."""
    settings, problems = parse_properties(text, "f")
    return Values({}, settings | environment_settings(environ or {}, ()), problems)


def read(text: str, *prefixes: str) -> TlsSettings:
    given = values(text)
    settings = read_tls(given, *prefixes)
    assert given.problems == []
    assert settings is not None
    return settings


def problems(text: str) -> list[str]:
    given = values(text)
    read_tls(given)
    return [str(problem) for problem in dict.fromkeys(given.problems)]


def zookeeper(text: str) -> tuple[TlsSettings | None, list[str]]:
    given = values(text)
    settings = read_zookeeper_tls(given)
    return settings, [str(problem) for problem in dict.fromkeys(given.problems)]


# --- what is read -------------------------------------------------------------------------------------------------


def test_nothing_given_is_none_and_the_defaults_are_kafkas() -> None:
    assert (
        read_tls(values("broker.id=1\nssl.principal.mapping.rules=DEFAULT\nlistener.name.a.ssl.protocol=TLS")) is None
    )
    assert read("ssl.endpoint.identification.algorithm=https") == TlsSettings()
    defaults = {prop.name: prop.default for prop in TLS}
    assert defaults["ssl.keystore.type"] == defaults["ssl.truststore.type"] == "JKS"
    assert (defaults["ssl.enabled.protocols"], defaults["ssl.protocol"]) == ("TLSv1.2,TLSv1.3", "TLSv1.3")
    assert (defaults["ssl.endpoint.identification.algorithm"], defaults["ssl.client.auth"]) == ("https", "none")


def test_stores_in_files(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("trust-secret\n")
    settings = read(
        f"""
        ssl.keystore.location=/etc/kafka/key.jks
        ssl.keystore.password=store-secret
        ssl.key.password=key-secret
        ssl.truststore.location=/etc/kafka/trust.p12
        ssl.truststore.type=PKCS12
        ssl.truststore.password.file={tmp_path}/p
        """
    )
    key, trust = settings.keystore, settings.truststore
    assert key is not None
    assert trust is not None
    assert (key.path, key.kind, key.place) == (
        Path("/etc/kafka/key.jks"),
        StoreKind.JKS,
        ("ssl.keystore.location", "f:2"),
    )
    assert (trust.path, trust.kind) == (Path("/etc/kafka/trust.p12"), StoreKind.PKCS12)
    secrets = [given and given.secret.reveal() for given in (key.password, key.key_password, trust.password)]
    assert secrets == ["store-secret", "key-secret", "trust-secret"]
    assert settings.files() == (Path("/etc/kafka/key.jks"), Path("/etc/kafka/trust.p12"), tmp_path / "p")
    assert not any(secret is not None and secret in repr(settings) for secret in secrets)


def test_stores_in_the_properties_themselves() -> None:
    settings = read(
        "ssl.keystore.type=PEM\nssl.keystore.key=KEY\nssl.keystore.certificate.chain=CHAIN\nssl.key.password=key-secret\n"
        "ssl.truststore.type=PEM\nssl.truststore.certificates=CERTS"
    )
    key, trust = settings.keystore, settings.truststore
    assert key is not None
    assert trust is not None
    assert (key.path, key.certificates, key.key and key.key.secret.reveal()) == (None, "CHAIN", "KEY")
    assert (trust.path, trust.certificates, trust.key) == (None, "CERTS", None)
    assert settings.files() == ()


def test_the_environment_has_precedence_over_the_file() -> None:
    variables = {"KAFKA_SSL_KEYSTORE_LOCATION": "/b", "KAFKA_SSL_KEYSTORE_PASSWORD": "from-environment"}
    settings = read_tls(values("ssl.keystore.location=/a\nssl.keystore.password=x", variables))
    assert settings is not None
    assert settings.keystore is not None
    assert settings.keystore.password is not None
    assert (settings.keystore.path, settings.keystore.password.secret.reveal()) == (Path("/b"), "from-environment")


def test_a_listeners_own_properties_come_first() -> None:
    text = """
        ssl.keystore.location=/all.p12
        ssl.keystore.password=all
        ssl.client.auth=required
        listener.name.internal.ssl.keystore.location=/internal.p12
        listener.name.internal.ssl.client.auth=none
        listener.name.other.ssl.keystore.location=/other.p12
        """
    internal = read(text, listener_prefix("INTERNAL"), "")
    assert internal.keystore is not None
    assert internal.keystore.place == ("listener.name.internal.ssl.keystore.location", "f:5")
    assert internal.keystore.password is not None
    assert internal.keystore.password.place.name == "ssl.keystore.password"
    assert internal.client_auth is ClientAuth.NONE
    assert read(text).client_auth is ClientAuth.REQUIRED


def test_a_sasl_listener_asks_for_certificates_only_where_its_own_property_says_so() -> None:
    """Kafka's ChannelBuilders: the broker's `ssl.client.auth` is applied to SSL listeners only."""
    for text, sasl, plain in [
        ("ssl.client.auth=required", ClientAuth.NONE, ClientAuth.REQUIRED),
        ("listener.name.a.ssl.client.auth=requested", ClientAuth.REQUESTED, ClientAuth.REQUESTED),
        (
            "ssl.client.auth=required\nlistener.name.a.ssl.client.auth=requested",
            ClientAuth.REQUESTED,
            ClientAuth.REQUESTED,
        ),
        ("", ClientAuth.NONE, ClientAuth.NONE),
    ]:
        assert read_listener_tls(values(text), "A", SecurityProtocol.SASL_SSL).client_auth is sasl
        assert read_listener_tls(values(text), "A", SecurityProtocol.SSL).client_auth is plain


def test_a_prefix_of_ones_own_has_nothing_of_kafkas() -> None:
    text = "ssl.keystore.location=/all.p12\nssl.keystore.password=x\nlethe.http.ssl.keystore.location=/http.pem"
    settings = read(text + "\nlethe.http.ssl.keystore.type=PEM", "lethe.http.")
    assert settings.keystore is not None
    assert settings.keystore.path == Path("/http.pem")
    assert settings.missing_truststore.name == "lethe.http.ssl.truststore.location"
    assert read_tls(values("ssl.protocol=TLSv1.2"), "lethe.http.") is None


@pytest.mark.parametrize("text,checks", [("https", True), ("HTTPS", True), ("", False), ("  ", False)])
def test_the_check_of_the_host_is_off_for_a_blank_value(text: str, checks: bool) -> None:
    assert read(f"ssl.endpoint.identification.algorithm={text}").check_host is checks


@pytest.mark.parametrize(
    "text,versions",
    [
        ("", (V12, V13, V13)),
        ("ssl.enabled.protocols=TLSv1.3", (V13, V13, V13)),
        ("ssl.enabled.protocols=TLSv1.2", (V12, V12, V12)),
        ("ssl.protocol=TLSv1.2", (V12, V13, V12)),
        ("ssl.protocol=TLS", (V12, V13, V13)),
        (f"ssl.cipher.suites={AES256}", (V12, V12, V12)),
        (f"ssl.cipher.suites={TLS13}", (V13, V13, V13)),
        (f"ssl.cipher.suites={TLS13},{AES256}", (V12, V13, V13)),
        (f"ssl.protocol=TLSv1.2\nssl.cipher.suites={TLS13},{AES256}", (V12, V13, V12)),
    ],
)
def test_versions(text: str, versions: tuple[ssl.TLSVersion, ...]) -> None:
    settings = read(text + "\nssl.client.auth=none")
    assert (settings.min_version, settings.max_version, settings.client_max_version) == versions


def test_old_versions_are_left_out_with_a_warning() -> None:
    given = values("ssl.enabled.protocols=TLSv1.2,TLSv1.1,TLSv1")
    first, again = read_tls(given), read_tls(given)
    assert first == again
    assert first is not None
    assert (first.min_version, first.max_version, given.problems) == (V12, V12, [])
    assert given.warnings == ["f:1: ssl.enabled.protocols: TLSv1.1, TLSv1 stays off, because it is broken"]


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text,expected",
    [
        (
            "ssl.keystore.type=BCFKS",
            "ssl.keystore.type='BCFKS': is not one of the possible values; use one of PEM, PKCS12, JKS",
        ),
        (
            "ssl.client.auth=maybe",
            "ssl.client.auth='maybe': is not one of the possible values; use one of none, requested",
        ),
        (
            "ssl.protocol=SSLv3",
            "ssl.protocol='SSLv3': is not one of the possible values; use one of TLSv1.3, TLSv1.2, TLS",
        ),
        (
            "ssl.endpoint.identification.algorithm=ldaps",
            "'ldaps': is neither https nor blank; write https; a blank value",
        ),
        (
            "ssl.enabled.protocols=TLSv1.1",
            "names only versions that are broken; use TLSv1.2 and TLSv1.3, here and at the",
        ),
        ("ssl.enabled.protocols=TLSv1.2,TLSv9", "'TLSv9' is no version of TLS; use TLSv1.2 and TLSv1.3"),
        (
            "ssl.protocol=TLSv1.2\nssl.enabled.protocols=TLSv1.3",
            "leaves connections no version, because only TLSv1.3 is",
        ),
        (f"ssl.enabled.protocols=TLSv1.3\nssl.cipher.suites={AES256}", "has no suite for TLSv1.3; name one, or change"),
        (
            "ssl.cipher.suites=TLS_AES_128_GCM_SHA256",
            "Python's ssl module offers all or none; name all suites of TLS 1.3",
        ),
        ("ssl.keystore.password=secret-x", "f:1: ssl.keystore.password: opens no store; set ssl.keystore.location, or"),
        (
            "ssl.truststore.password=secret-x",
            "ssl.truststore.password: opens no store; set ssl.truststore.location, or",
        ),
        (
            "ssl.keystore.type=PEM\nssl.keystore.location=/a\nssl.keystore.password=secret-x",
            "f:3: ssl.keystore.password: stands beside a store of type PEM, which has none; remove it; the",
        ),
        (
            "ssl.truststore.type=PEM\nssl.truststore.location=/a\nssl.truststore.password=secret-x",
            "ssl.truststore.password: stands beside a store of type PEM, which has none; remove it",
        ),
        (
            "ssl.keystore.type=PEM\nssl.keystore.key=secret-x",
            "ssl.keystore.key: stands without ssl.keystore.certificate.chain;",
        ),
        (
            "ssl.keystore.type=PEM\nssl.keystore.certificate.chain=C",
            "f:2: ssl.keystore.certificate.chain: stands without",
        ),
        (
            "ssl.keystore.key=secret-x\nssl.keystore.certificate.chain=C",
            "ssl.keystore.certificate.chain: is PEM, and ssl.keystore.type is JKS; set ssl.keystore.type=PEM",
        ),
        (
            "ssl.truststore.certificates=C",
            "ssl.truststore.certificates: is PEM, and ssl.truststore.type is JKS; set ssl.truststore.type=PEM",
        ),
        (
            "ssl.truststore.type=PEM\nssl.truststore.certificates=C\nssl.truststore.location=/a",
            "ssl.truststore.location='/a': stands beside ssl.truststore.certificates; give the store as a file",
        ),
        (
            "ssl.key.password=a\nssl.key.password.file=/nowhere",
            "ssl.key.password.file: stands beside ssl.key.password (f:1);",
        ),
    ],
)
def test_sentences(text: str, expected: str) -> None:
    found = problems(text)
    assert any(expected in problem for problem in found), found
    assert not any("secret-x" in problem for problem in found)


# --- ZooKeeper ----------------------------------------------------------------------------------------------------


def test_zookeeper_without_tls() -> None:
    assert zookeeper("zookeeper.ssl.keystore.location=/a") == (None, [])
    assert zookeeper("zookeeper.ssl.client.enable=false\nzookeeper.ssl.crl.enable=true") == (None, [])
    (_, (problem,)) = zookeeper("zookeeper.ssl.client.enable=on")
    assert problem == "f:1: zookeeper.ssl.client.enable='on': is neither true nor false; write true or false"


def test_zookeeper_with_tls() -> None:
    settings, noted = zookeeper(
        """
        zookeeper.ssl.client.enable=true
        zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty
        zookeeper.ssl.keystore.location=/key
        zookeeper.ssl.keystore.password=one
        zookeeper.ssl.truststore.location=/trust
        zookeeper.ssl.truststore.type=pem
        zookeeper.ssl.endpoint.identification.algorithm=
        zookeeper.ssl.enabled.protocols=TLSv1.2
        ssl.keystore.location=/kafka
        """
    )
    assert noted == []
    assert settings is not None
    key, trust = settings.keystore, settings.truststore
    assert key is not None
    assert trust is not None
    assert (key.path, key.kind, key.password) == (Path("/key"), None, key.key_password)
    assert (trust.path, trust.kind, trust.password) == (Path("/trust"), StoreKind.PEM, None)
    assert (settings.check_host, settings.min_version, settings.client_max_version) == (False, V12, V12)
    assert (key.type_name, key.key_password_name) == ("zookeeper.ssl.keystore.type", "zookeeper.ssl.keystore.password")


@pytest.mark.parametrize(
    "text,versions",
    [
        ("", (V12, V13)),
        ("zookeeper.ssl.protocol=TLSv1.2", (V12, V12)),
        ("zookeeper.ssl.protocol=TLSv1.3", (V13, V13)),
        ("zookeeper.ssl.protocol=TLS", (V12, V13)),
        ("zookeeper.ssl.enabled.protocols=TLSv1.2,TLSv1.3", (V12, V13)),
    ],
)
def test_versions_for_zookeeper(text: str, versions: tuple[ssl.TLSVersion, ...]) -> None:
    settings, noted = zookeeper(f"zookeeper.ssl.client.enable=true\n{text}")
    assert noted == []
    assert settings is not None
    assert (settings.min_version, settings.client_max_version) == versions


@pytest.mark.parametrize(
    "text,expected",
    [
        (
            "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNIO",
            "is a class without TLS; write org.apache",
        ),
        (
            "zookeeper.ssl.crl.enable=true",
            "zookeeper.ssl.crl.enable='true': is not supported: revocation is not looked up",
        ),
        ("zookeeper.ssl.ocsp.enable=TRUE", "is not supported: revocation is not looked up; remove the line"),
        ("zookeeper.ssl.keystore.type=BCFKS", "is not one of the possible values; use one of PEM, PKCS12, JKS"),
        (
            "zookeeper.ssl.truststore.password=secret-x",
            "opens no store; set zookeeper.ssl.truststore.location, or remove",
        ),
    ],
)
def test_sentences_about_zookeeper(text: str, expected: str) -> None:
    _, (problem,) = zookeeper(f"zookeeper.ssl.client.enable=true\n{text}")
    assert expected in problem
    assert "secret-x" not in problem


# --- the page -----------------------------------------------------------------------------------------------------


def test_every_property_has_a_text_and_a_password_is_a_secret_with_a_file() -> None:
    names = [prop.name for prop in (*TLS, *ZOOKEEPER_TLS)]
    assert len(set(names)) == len(names)
    for prop in (*TLS, *ZOOKEEPER_TLS):
        assert prop.doc.endswith(".")
        secret = prop.name.endswith((".password", ".keystore.key"))
        assert (prop.kind is PropertyKind.SECRET) is secret
        assert not secret or f"{prop.name}.file" in names
