"""Keys, certificates, passwords and tokens of the profile `secure`: made at the first start, one directory a service.

`files.py AUTHORITY DIRECTORY` keeps what all of it comes from (the key of the authority, the passwords) in AUTHORITY,
and writes into DIRECTORY/<service> what that service needs and nothing else. Each directory is a volume of its own.

    file               for whom              what
    ca.pem             all                   certificate of the authority
    own.pem            all but prometheus    key and certificate, with the name of the service
    zookeeper.jaas     zookeeper             the user of ZooKeeper, for its clients' logins (DIGEST-MD5)
    jaas               daemons, users, demo  the login at ZooKeeper; for daemons also the one among brokers (SCRAM)
    client.properties  controllers, demo     how commands connect to brokers; kafka-1 has one of the user `client`
    http-token         daemons, prometheus   the token of the HTTP servers
    passwords.json     users                 passwords of the brokers' users, which that service writes to ZooKeeper

A later run makes what is missing, and each certificate that ends within 30 days; everything else stays as it is.
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 397
RENEWAL_DAYS: Final = 30
ZOOKEEPER_USER: Final = "kafka"
"""At ZooKeeper brokers, controllers and commands are one user: the others have to write the znodes of each."""
USERS: Final = ("kafka", "lethe", "admin", "client")
"""Among brokers: brokers and agents, controllers, commands, applications."""
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
SECRETS: Final = "/data/secrets"
"""Where each service finds its directory."""


@dataclass(frozen=True)
class Holder:
    """A service, and what it gets beside the certificate of the authority."""

    name: str
    member: str | None = None
    """User with which it logs in at brokers; None: it is no daemon."""
    client: str | None = None
    """User of its client.properties."""
    at_zookeeper: bool = True
    has_token: bool = False
    more_names: tuple[str, ...] = ()
    """Names in its certificate beside that of the service."""


LOOPBACK: Final = ("localhost", "127.0.0.1")
HOLDERS: Final = (
    *(Holder(f"controller-{n}", "lethe", "admin", has_token=True, more_names=LOOPBACK) for n in (1, 2)),
    *(Holder(f"broker-{n}", "kafka", has_token=True) for n in (1, 2, 3)),
    *(Holder(f"kafka-{n}", "kafka", "client") for n in (1, 2, 3)),
    Holder("users"),
    Holder("demo", client="admin", has_token=True),
    Holder("zookeeper", at_zookeeper=False),
    Holder("prometheus", at_zookeeper=False, has_token=True),
)
"""The pages of controllers are published on the machine, where they are called localhost."""
READ_BY_OTHERS: Final = "prometheus"
"""Its image has a user of its own, so its files can be read by every user who has the volume."""


class Authority:
    """Issues certificates; its key stays in the directory."""

    def __init__(self, directory: Path, now: datetime) -> None:
        self._now = now
        key_file, self._certificate_file = directory / "ca.key", directory / "ca.pem"
        if not key_file.exists():
            write(key_file, key_pem(ec.generate_private_key(ec.SECP256R1())))
        key = load_pem_private_key(key_file.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key
        if not self._certificate_file.exists():
            name = _name("Lethe's compose authority")
            made = self._signed(name, name, key, AUTHORITY_DAYS, [(x509.BasicConstraints(True, 0), True)])
            write(self._certificate_file, made.public_bytes(Encoding.PEM).decode(), 0o444)

    def pem(self) -> str:
        """Return its own certificate."""
        return self._certificate_file.read_text()

    def issue(self, names: Sequence[str]) -> str:
        """Return a new key and its certificate, for these names of hosts; the first one is its subject."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(False, None), True),
            (x509.ExtendedKeyUsage(usage), False),
            (x509.SubjectAlternativeName([_alternative(name) for name in names]), False),
        ]
        issuer = x509.load_pem_x509_certificate(self.pem().encode()).subject
        made = self._signed(_name(names[0]), issuer, key, CERTIFICATE_DAYS, extensions)
        return key_pem(key) + made.public_bytes(Encoding.PEM).decode()

    def _signed(
        self,
        subject: x509.Name,
        issuer: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        days: int,
        extensions: Sequence[tuple[x509.ExtensionType, bool]],
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - timedelta(hours=1))
            .not_valid_after(self._now + timedelta(days=days))
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, hashes.SHA256())


def passwords(directory: Path) -> dict[str, str]:
    """Return the passwords by what they are for; make those that are missing."""
    file = directory / "passwords.json"
    found: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    wanted = ("zookeeper", "http", *USERS)
    if missing := [name for name in wanted if name not in found]:
        found |= {name: secrets.token_urlsafe(32) for name in missing}
        write(file, json.dumps(found))
    return found


def texts(holder: Holder, given: dict[str, str]) -> dict[str, str]:
    """Return the service's files with passwords, by name."""
    found = {}
    if holder.name == "zookeeper":
        found["zookeeper.jaas"] = (
            f'Server {{\n    {DIGEST} required user_{ZOOKEEPER_USER}="{given["zookeeper"]}";\n}};\n'
        )
    if holder.at_zookeeper:
        login = "" if holder.member is None else section("KafkaServer", SCRAM, holder.member, given[holder.member])
        found["jaas"] = login + section("Client", DIGEST, ZOOKEEPER_USER, given["zookeeper"])
    if holder.client is not None:
        found["client.properties"] = client_properties(holder.client, given[holder.client])
    if holder.has_token:
        found["http-token"] = given["http"] + "\n"
    if holder.name == "users":
        found["passwords.json"] = json.dumps({user: given[user] for user in USERS})
    return found


def section(name: str, module: str, user: str, password: str) -> str:
    """Return a section of a JAAS file."""
    return f'{name} {{\n    {module} required username="{user}" password="{password}";\n}};\n'


def client_properties(user: str, password: str) -> str:
    """Return how a client connects to brokers; Kafka's names."""
    return (
        "security.protocol=SASL_SSL\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={SECRETS}/ca.pem\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM} required username="{user}" password="{password}";\n'
    )


def make(authority_dir: Path, directory: Path, now: datetime) -> list[str]:
    """Make what is missing or ends soon; return what was written."""
    authority, given, made = Authority(authority_dir, now), passwords(authority_dir), []
    for holder in HOLDERS:
        place, mode = directory / holder.name, 0o444 if holder.name == READ_BY_OTHERS else 0o400
        wanted = {"ca.pem": authority.pem(), **texts(holder, given)}
        own = place / "own.pem"
        if holder.name != READ_BY_OTHERS and not is_lasting(own, now):
            wanted["own.pem"] = authority.issue((f"secure-{holder.name}", *holder.more_names))
        for name, text in wanted.items():
            if not (place / name).exists() or (place / name).read_text() != text:
                write(place / name, text, mode)
                made.append(f"{holder.name}/{name}")
    return made


def is_lasting(file: Path, now: datetime) -> bool:
    """Return True if there is a certificate in the file that does not end soon."""
    if not file.exists():
        return False
    ends = x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
    return ends > now + timedelta(days=RENEWAL_DAYS)


def write(file: Path, text: str, mode: int = 0o400) -> None:
    """Put the file in its place whole, or not at all."""
    new = file.with_name(f".{file.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)


def key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """Return the key unencrypted, as ZooKeeper and Kafka read it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


if __name__ == "__main__":
    for line in make(Path(sys.argv[1]), Path(sys.argv[2]), datetime.now(UTC)) or ["nothing: all is there"]:
        sys.stderr.write(f"made {line}\n")
