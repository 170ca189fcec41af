"""Certificates for tests: authorities that issue them, and the stores that Kafka's users keep them in.

Keys are of an elliptic curve, which takes a millisecond to make.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)
HOSTS = ("localhost", "127.0.0.1")


def private_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@dataclass(frozen=True)
class Leaf:
    """A key, its certificate, and the certificates of its issuers, without the root."""

    key: CertificateIssuerPrivateKeyTypes
    certificate: x509.Certificate
    issuers: tuple[x509.Certificate, ...] = ()

    def key_pem(self, password: str | None = None, *, format: PrivateFormat = PrivateFormat.PKCS8) -> str:
        encryption: KeySerializationEncryption = NoEncryption()
        if password is not None:
            encryption = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, format, encryption).decode()

    def chain_pem(self) -> str:
        return pem(self.certificate, *self.issuers)

    def ends_ms(self) -> int:
        return int(self.certificate.not_valid_after_utc.timestamp()) * 1000

    def pem_file(self, path: Path, password: str | None = None) -> Path:
        path.write_text(self.key_pem(password) + self.chain_pem())
        return path

    def pkcs12(self, path: Path, password: str, extra: Sequence[x509.Certificate] = ()) -> Path:
        """Write the key with its chain; `extra` certificates come before the issuers."""
        encryption = BestAvailableEncryption(password.encode())
        others = [*extra, *self.issuers]
        assert isinstance(self.key, ec.EllipticCurvePrivateKey)
        path.write_bytes(serialize_key_and_certificates(b"leaf", self.key, self.certificate, others, encryption))
        return path

    def jks(self, path: Path, password: str, key_password: str | None = None) -> Path:
        """Write the key with its chain by Java's keytool; skips the test where there is none."""
        source = self.pkcs12(path.with_suffix(".source"), "temporary-1")
        _keytool(
            "-importkeystore", "-srckeystore", str(source), "-srcstoretype", "PKCS12", "-srcstorepass:env", "SOURCE",
            "-srcalias", "leaf", "-destkeystore", str(path), "-deststoretype", "JKS", "-deststorepass:env", "STORE",
            "-destkeypass:env", "KEY",
            SOURCE="temporary-1", STORE=password, KEY=key_password or password,
        )  # fmt: skip
        source.unlink()
        return path


class Authority:
    """An authority; by default a root."""

    def __init__(self, name: str = "Test CA", parent: Authority | None = None, ends: timedelta = 3650 * DAY) -> None:
        self.key = private_key()
        self.parent = parent
        issuer = self if parent is None else parent
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = _issued(
            self.name, self.key.public_key(), issuer.name, issuer.key, -3651 * DAY, ends,
            [(x509.BasicConstraints(ca=True, path_length=None), True)],
        )  # fmt: skip

    def issue(
        self,
        name: str = "broker",
        hosts: Sequence[str] = HOSTS,
        begins: timedelta = -DAY,
        ends: timedelta = 30 * DAY,
        key: CertificateIssuerPrivateKeyTypes | None = None,
        purposes: Sequence[x509.ObjectIdentifier] = (),
    ) -> Leaf:
        """Issue a certificate, valid from `begins` to `ends` from now. Without hosts it has no alternative name, and
        without purposes it is for all."""
        key = key or private_key()
        extensions: list[tuple[x509.ExtensionType, bool]] = [(x509.BasicConstraints(ca=False, path_length=None), True)]
        if hosts:
            extensions.append((x509.SubjectAlternativeName([_general_name(host) for host in hosts]), False))
        if purposes:
            extensions.append((x509.ExtendedKeyUsage(purposes), False))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = _issued(subject, key.public_key(), self.name, self.key, begins, ends, extensions)
        return Leaf(key, certificate, self._issuers())

    def client(self, name: str = "lethe") -> Leaf:
        """Issue a certificate of a client, which names no host."""
        return self.issue(name, hosts=())

    def expired(self, name: str = "expired") -> Leaf:
        return self.issue(name, begins=-10 * DAY, ends=-DAY)

    def pem_file(self, path: Path) -> Path:
        path.write_text(pem(self.certificate))
        return path

    def pkcs12(self, path: Path, password: str) -> Path:
        """Write a truststore as Java's keytool does."""
        entry = PKCS12Certificate(self.certificate, b"ca")
        path.write_bytes(serialize_java_truststore([entry], BestAvailableEncryption(password.encode())))
        return path

    def jks(self, path: Path, password: str) -> Path:
        """Write a truststore by Java's keytool; skips the test where there is none."""
        source = self.pem_file(path.with_suffix(".pem"))
        _keytool(
            "-importcert", "-noprompt", "-alias", "the ca, of tests", "-file", str(source), "-keystore", str(path),
            "-storetype", "JKS", "-storepass:env", "STORE", STORE=password,
        )  # fmt: skip
        return path

    def _issuers(self) -> tuple[x509.Certificate, ...]:
        return () if self.parent is None else (self.certificate, *self.parent._issuers())


def issued_by_leaf(leaf: Leaf, name: str) -> Leaf:
    """Return a certificate that the owner of a leaf issues as if it were an authority."""
    key = private_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = leaf.certificate.subject
    extensions: list[tuple[x509.ExtensionType, bool]] = [(x509.BasicConstraints(ca=False, path_length=None), True)]
    certificate = _issued(subject, key.public_key(), issuer, leaf.key, -DAY, 30 * DAY, extensions)
    return Leaf(key, certificate, (leaf.certificate, *leaf.issuers))


def pem(*certificates: x509.Certificate) -> str:
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def one_line(text: str) -> str:
    """PEM as a value in a properties file has it: blanks for line ends."""
    return " ".join(text.split())


def _issued(
    subject: x509.Name,
    public_key: object,
    issuer: x509.Name,
    issuer_key: CertificateIssuerPrivateKeyTypes,
    begins: timedelta,
    ends: timedelta,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)  # type: ignore[arg-type]
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuer_key, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _keytool(*arguments: str, **passwords: str) -> None:
    program = shutil.which("keytool")
    if program is None:
        pytest.skip("there is no keytool: install a JDK or JRE")
    environ = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **passwords}
    done = subprocess.run(
        [program, *arguments], env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
