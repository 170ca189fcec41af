"""Stores in every type, and a sentence for everything that can be wrong with one."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat

from lethe.adapters.properties import ConfigError
from lethe.adapters.security.prefixed import Place, PlacedSecret
from lethe.adapters.security.secrets import FileSecret, Secret
from lethe.adapters.security.stores import StoreKind, StoreSettings, load_identity, load_trust
from tests.fakes.certificates import DAY, Authority, Leaf, one_line, pem, private_key
from tests.fakes.rights import unprivileged

PASSWORD = "pässwörd-1"
OTHER = "anöther-2"
ORIGIN = "server.properties:7"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def ca() -> Authority:
    return Authority()


def store(
    path: Path | None,
    kind: StoreKind | None = None,
    password: str | None = None,
    key_password: str | None = None,
    base: str = "ssl.keystore.",
    certificates: str = "",
    key: str | None = None,
) -> StoreSettings:
    def placed(name: str, text: str | None) -> PlacedSecret | None:
        return None if text is None else PlacedSecret(Secret(text), Place(name, ORIGIN))

    return StoreSettings(
        place=Place(f"{base}location" if path is not None else f"{base}certificate.chain", ORIGIN),
        kind=kind,
        path=path,
        password_name=f"{base}password",
        key_password_name="ssl.key.password",
        certificates=certificates,
        key=placed("ssl.keystore.key", key),
        password=placed(f"{base}password", password),
        key_password=placed("ssl.key.password", key_password),
    )


def trust_store(path: Path | None, kind: StoreKind | None = None, password: str | None = None) -> StoreSettings:
    return store(path, kind, password, base="ssl.truststore.")


def refused(settings: StoreSettings, load: Callable[[StoreSettings, int], object] = load_identity) -> str:
    """The one sentence. It names property, origin, file and remedy, and no password."""
    with pytest.raises(ConfigError) as raised:
        load(settings, now_ms())
    (problem,) = raised.value.problems
    text = str(problem)
    assert text.startswith(f"{ORIGIN}: {problem.name}")
    assert problem.remedy
    assert PASSWORD not in text
    assert OTHER not in text
    return text


# --- what can be read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key_password", [None, PASSWORD])
@pytest.mark.parametrize("format", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_pem_file(ca: Authority, tmp_path: Path, key_password: str | None, format: PrivateFormat) -> None:
    leaf = ca.issue()
    path = tmp_path / "key.pem"
    path.write_text("Bag Attributes: x\n" + leaf.key_pem(key_password, format=format) + leaf.chain_pem())
    identity = load_identity(store(path, StoreKind.PEM, key_password=key_password), now_ms())
    assert identity.chain == (leaf.certificate,)
    assert identity.key.public_key() == leaf.key.public_key()
    assert identity.expires_ms() == leaf.ends_ms()
    assert identity.has_names()


@pytest.mark.parametrize("key_password", [None, PASSWORD])
def test_pem_in_one_line_of_a_properties_file(ca: Authority, key_password: str | None) -> None:
    leaf = ca.issue()
    settings = store(
        None,
        StoreKind.PEM,
        key_password=key_password,
        certificates=one_line(leaf.chain_pem()),
        key=one_line(leaf.key_pem(key_password)),
    )
    assert load_identity(settings, now_ms()).chain == (leaf.certificate,)


def test_a_problem_with_a_key_in_the_properties_names_its_property(ca: Authority, tmp_path: Path) -> None:
    leaf = ca.issue()
    settings = store(None, certificates=leaf.chain_pem(), key=leaf.key_pem(PASSWORD), key_password=OTHER)
    assert refused(settings).startswith(
        f"{ORIGIN}: ssl.keystore.key: has an encrypted private key, which the password does"
    )
    settings = store(None, certificates="nothing", key=leaf.key_pem())
    assert refused(settings).startswith(f"{ORIGIN}: ssl.keystore.certificate.chain: holds no certificate; put")


def test_a_key_in_a_file_of_its_own(ca: Authority, tmp_path: Path) -> None:
    path, leaf = tmp_path / "key", ca.issue()
    path.write_text(leaf.key_pem())
    given = PlacedSecret(FileSecret(path), Place("ssl.keystore.key.file", ORIGIN))
    settings = replace(store(None, certificates=leaf.chain_pem()), key=given)
    assert settings.files() == (path,)
    assert load_identity(settings, now_ms()).chain == (leaf.certificate,)
    path.unlink()
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.key\.file='.*key': does not exist"):
        load_identity(settings, now_ms())


def test_a_password_for_a_key_that_is_not_encrypted_is_ignored(ca: Authority, tmp_path: Path) -> None:
    path = ca.issue().pem_file(tmp_path / "key.pem")
    assert load_identity(store(path, StoreKind.PEM, key_password=PASSWORD), now_ms()).chain


@pytest.mark.parametrize("kind", [StoreKind.PKCS12, StoreKind.JKS, None])
def test_the_content_says_that_a_store_is_pkcs12(ca: Authority, tmp_path: Path, kind: StoreKind | None) -> None:
    leaf = ca.issue()
    path = leaf.pkcs12(tmp_path / "keystore.jks", PASSWORD)
    assert load_identity(store(path, kind, PASSWORD), now_ms()).chain == (leaf.certificate,)


@pytest.mark.parametrize("key_password", [None, PASSWORD, OTHER])
def test_jks_goes_through_keytool(ca: Authority, tmp_path: Path, key_password: str | None) -> None:
    leaf = ca.issue()
    path = leaf.jks(tmp_path / "keystore.jks", PASSWORD, key_password)
    assert path.read_bytes()[:4] == b"\xfe\xed\xfe\xed"
    identity = load_identity(store(path, StoreKind.JKS, PASSWORD, key_password), now_ms())
    assert identity.chain == (leaf.certificate,)
    assert identity.key.public_key() == leaf.key.public_key()


def test_a_chain_is_put_in_order_and_what_is_not_part_of_it_is_left_out(tmp_path: Path) -> None:
    root = Authority("root")
    middle = Authority("middle", root)
    leaf = middle.issue()
    assert leaf.issuers == (middle.certificate,)
    unordered = pem(Authority("stranger").certificate, root.certificate, middle.certificate, leaf.certificate)
    path = tmp_path / "key.pem"
    path.write_text(unordered + leaf.key_pem())
    ordered = (leaf.certificate, middle.certificate, root.certificate)
    assert load_identity(store(path), now_ms()).chain == ordered
    path = leaf.pkcs12(tmp_path / "key.p12", PASSWORD, extra=[root.certificate])
    assert load_identity(store(path, None, PASSWORD), now_ms()).chain == ordered


def test_an_intermediate_counts_for_the_expiry_and_a_root_does_not(tmp_path: Path) -> None:
    root = Authority("root", ends=2 * DAY)
    middle = Authority("middle", root, ends=5 * DAY)
    path = tmp_path / "key.pem"
    leaf = middle.issue()
    path.write_text(leaf.key_pem() + pem(leaf.certificate, middle.certificate, root.certificate))
    expected = int(middle.certificate.not_valid_after_utc.timestamp()) * 1000
    assert load_identity(store(path), now_ms()).expires_ms() == expected


@pytest.mark.parametrize("kind", list(StoreKind))
def test_truststores(ca: Authority, tmp_path: Path, kind: StoreKind) -> None:
    password = None if kind is StoreKind.PEM else PASSWORD
    path = tmp_path / "truststore"
    match kind:
        case StoreKind.PEM:
            ca.pem_file(path)
        case StoreKind.PKCS12:
            ca.pkcs12(path, PASSWORD)
        case StoreKind.JKS:
            ca.jks(path, PASSWORD)
    assert load_trust(trust_store(path, kind, password), now_ms()).certificates == (ca.certificate,)


def test_a_jks_truststore_opens_without_its_password(ca: Authority, tmp_path: Path) -> None:
    path = ca.jks(tmp_path / "truststore.jks", PASSWORD)
    assert load_trust(trust_store(path, StoreKind.JKS), now_ms()).certificates == (ca.certificate,)


def test_of_a_store_with_a_key_the_certificate_is_trusted_and_its_issuer_is_not(tmp_path: Path) -> None:
    middle = Authority("middle", Authority("root"))
    leaf = middle.issue()
    path = leaf.pkcs12(tmp_path / "both.p12", PASSWORD)
    assert load_trust(trust_store(path, None, PASSWORD), now_ms()).certificates == (leaf.certificate,)


def test_an_authority_that_ended_among_others_is_named_and_not_refused(ca: Authority, tmp_path: Path) -> None:
    old = Authority("old", ends=-DAY)
    path = tmp_path / "trust.pem"
    path.write_text(pem(old.certificate, ca.certificate))
    trust = load_trust(trust_store(path), now_ms())
    assert trust.certificates == (old.certificate, ca.certificate)
    assert trust.ended == (old.certificate,)


def test_a_password_file_is_read_at_each_use(ca: Authority, tmp_path: Path) -> None:
    path, password = tmp_path / "key.p12", tmp_path / "password"
    settings = StoreSettings(
        place=Place("ssl.keystore.location", ORIGIN),
        kind=StoreKind.PKCS12,
        path=path,
        password_name="ssl.keystore.password",
        key_password_name="ssl.key.password",
        password=PlacedSecret(FileSecret(password), Place("ssl.keystore.password.file", ORIGIN)),
    )
    assert settings.files() == (path, password)
    for text in (PASSWORD, OTHER):
        ca.issue().pkcs12(path, text)
        password.write_text(text + "\n")
        assert load_identity(settings, now_ms()).chain
    password.unlink()
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.password\.file='.*password': does not exist; name"):
        load_identity(settings, now_ms())


# --- what is wrong with it ----------------------------------------------------------------------------------------


def _pkcs12(leaf: Leaf, path: Path) -> Path:
    return leaf.pkcs12(path, PASSWORD)


def _jks(leaf: Leaf, path: Path) -> Path:
    return leaf.jks(path, PASSWORD)


@pytest.mark.parametrize("write", [_pkcs12, _jks])
def test_wrong_password(ca: Authority, tmp_path: Path, write: Callable[[Leaf, Path], Path]) -> None:
    path = write(ca.issue(), tmp_path / "key.store")
    text = refused(store(path, None, OTHER))
    assert f"ssl.keystore.location='{path}': is not opened by the password, or it is damaged" in text
    assert text.endswith("correct ssl.keystore.password")
    assert "is not opened without a password; set ssl.keystore.password, or ssl.keystore.password.file" in refused(
        store(_pkcs12(ca.issue(), tmp_path / "key.p12"))
    )


@pytest.mark.parametrize(
    "key_password,remedy",
    [("wröng", "correct ssl.key.password"), (None, "set ssl.key.password, or ssl.key.password.file")],
)
def test_wrong_password_of_the_key_in_jks(ca: Authority, tmp_path: Path, key_password: str | None, remedy: str) -> None:
    path = ca.issue().jks(tmp_path / "key.jks", PASSWORD, OTHER)
    text = refused(store(path, None, PASSWORD, key_password))
    assert "opens, and the password of its private key is wrong" in text
    assert text.endswith(remedy)


@pytest.mark.parametrize("format", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_wrong_password_of_the_key_in_pem(ca: Authority, tmp_path: Path, format: PrivateFormat) -> None:
    path = tmp_path / "key.pem"
    leaf = ca.issue()
    path.write_text(leaf.key_pem(PASSWORD, format=format) + leaf.chain_pem())
    assert "has an encrypted private key, which the password does not open; correct ssl.key.password" in refused(
        store(path, StoreKind.PEM, key_password=OTHER)
    )
    assert "there is no password for it; set ssl.key.password, or ssl.key.password.file" in refused(
        store(path, StoreKind.PEM)
    )


def test_no_key_inside(ca: Authority, tmp_path: Path) -> None:
    remedy = "name a store with a key and its certificate; trusted certificates belong into ssl.truststore.location"
    for path, password in [
        (ca.pem_file(tmp_path / "a.pem"), None),
        (ca.pkcs12(tmp_path / "a.p12", PASSWORD), PASSWORD),
    ]:
        assert refused(store(path, None, password)).endswith(f"holds no private key (1 certificate); {remedy}")


def test_a_key_that_does_not_fit(ca: Authority, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text(ca.issue().key_pem() + ca.issue().chain_pem())
    assert "holds no certificate that fits its private key (1 certificate); put the key and" in refused(store(path))
    path.write_text(ca.issue().key_pem())
    assert "holds no certificate; put the key and" in refused(store(path))


def test_two_keys(ca: Authority, tmp_path: Path) -> None:
    leaf = ca.issue()
    path = tmp_path / "key.pem"
    path.write_text(leaf.key_pem() + ca.issue().key_pem() + leaf.chain_pem())
    assert "has 2 private keys, and may have one" in refused(store(path))


def test_expired_and_not_yet_valid(ca: Authority, tmp_path: Path) -> None:
    day = f"{datetime.now(UTC) - DAY:%Y-%m-%d}"
    text = refused(store(ca.expired().pem_file(tmp_path / "key.pem")))
    assert re.search(
        rf"its certificate CN=expired expired on {day} \d\d:\d\d UTC; put a new certificate into it$", text
    )
    day = f"{datetime.now(UTC) + DAY:%Y-%m-%d}"
    text = refused(store(ca.issue("new", begins=DAY).pem_file(tmp_path / "key.pem")))
    assert re.search(rf"CN=new is not valid before {day} \d\d:\d\d UTC; check this machine's clock", text)


def test_a_truststore_without_a_certificate_that_counts(ca: Authority, tmp_path: Path) -> None:
    path = tmp_path / "trust.pem"
    path.write_text(ca.issue().key_pem())
    assert "holds no certificate; put the certificate of the authority" in refused(trust_store(path), load_trust)
    Authority("old", ends=-DAY).pem_file(path)
    text = refused(trust_store(path), load_trust)
    assert re.search(
        r"holds only certificates that have expired, CN=old on [\d-]+ [\d:]+ UTC as the last one; put", text
    )


@pytest.mark.parametrize("load", [load_identity, load_trust])
def test_content_that_is_no_store(tmp_path: Path, load: Callable[[StoreSettings, int], object]) -> None:
    path = tmp_path / "store"
    for content, reason in [
        (b"", "is empty; write the store again"),
        (b"\0\1\2", "is neither PEM nor PKCS12 nor JKS; name a store"),
        (b"\xce\xce\xce\xce\0", "is a JCEKS store, which is not supported; convert it with keytool -importkeystore"),
        (b"0\x82\x10\0abc", "is cut off: 7 bytes of 4100; write the store again"),
        (b"0\x03abc", "is not opened without a password; set"),
    ]:
        path.write_bytes(content)
        assert reason in refused(trust_store(path) if load is load_trust else store(path), load)


def test_a_store_that_is_cut_off_at_any_place_is_refused(ca: Authority, tmp_path: Path) -> None:
    leaf = ca.issue()
    for whole in (leaf.pkcs12(tmp_path / "a", PASSWORD), leaf.pem_file(tmp_path / "b")):
        data = whole.read_bytes()
        for size in range(0, len(data.rstrip()), 37):
            whole.write_bytes(data[:size])
            refused(store(whole, None, PASSWORD))
    jks = leaf.jks(tmp_path / "c", PASSWORD)
    jks.write_bytes(jks.read_bytes()[:-100])
    refused(store(jks, None, PASSWORD))


def test_a_key_store_of_java_is_not_opened_without_a_password(ca: Authority, tmp_path: Path) -> None:
    path = ca.issue().jks(tmp_path / "key.jks", PASSWORD)
    assert "is not opened without a password; set ssl.keystore.password, or" in refused(store(path, StoreKind.JKS))


def test_a_type_that_the_content_contradicts(ca: Authority, tmp_path: Path) -> None:
    path = ca.issue().pem_file(tmp_path / "key.pem")
    for password in (PASSWORD, None):
        assert "is PEM and not JKS; set ssl.keystore.type=PEM" in refused(store(path, StoreKind.JKS, password))
    path = ca.issue().pkcs12(tmp_path / "key.p12", PASSWORD)
    assert "is PKCS12 and not PEM; set ssl.keystore.type=PKCS12" in refused(store(path, StoreKind.PEM))


@pytest.mark.parametrize(
    "part, rubbish, said",
    [
        (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x1b", "27 is not a valid X509 version"),
        (b"\x2a\x86\x48\xce\x3d\x02\x01", b"\x2a\x86\x48\xce\x3d\x02\x09", "Unknown key type"),
        (b"broker", b"\xffroker", "subject"),
    ],
)
def test_a_certificate_with_a_part_that_cannot_be_read(
    ca: Authority, tmp_path: Path, part: bytes, rubbish: bytes, said: str
) -> None:
    leaf, path = ca.issue(), tmp_path / "key.pem"
    der = leaf.certificate.public_bytes(Encoding.DER).replace(part, rubbish)
    path.write_text(leaf.key_pem() + ssl.DER_cert_to_PEM_cert(der))
    text = refused(store(path))
    assert f"='{path}': has a certificate that cannot be used: " in text
    assert said in text
    assert text.endswith("; have it issued anew")


def test_files_that_cannot_be_read(ca: Authority, tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    assert f"='{missing}': does not exist; name an existing file with its whole path" in refused(store(missing))
    assert f"this one is looked up in {Path.cwd()}" in refused(store(Path("missing.pem")))
    assert "is a directory; name the file in it" in refused(store(tmp_path))
    path = ca.issue().pem_file(tmp_path / "key.pem")
    path.chmod(0)
    with unprivileged():
        text = refused(store(path))
    assert "may not be read by user " in text
    assert text.endswith("give that user the right to read it and to enter its directories")


def test_jks_where_there_is_no_java(ca: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ca.issue().jks(tmp_path / "my key.jks", PASSWORD)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    text = refused(store(path, StoreKind.JKS, PASSWORD))
    assert "is a JKS store, which only Java reads, and no keytool is in JAVA_HOME or PATH" in text
    command = f"keytool -importkeystore -srckeystore '{path}' -destkeystore '{path.with_suffix('.p12')}'"
    assert text.endswith(f"convert it where Java is: {command} -deststoretype PKCS12")


def test_the_certificate_of_another_key_in_pkcs12_is_refused(ca: Authority, tmp_path: Path) -> None:
    other = Leaf(private_key(), ca.issue().certificate)
    path = tmp_path / "key.pem"
    path.write_text(other.key_pem() + other.certificate.public_bytes(Encoding.PEM).decode())
    assert "holds no certificate that fits its private key" in refused(store(path))
