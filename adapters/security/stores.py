"""Stores: what a process shows of itself (a key with its certificates), and which certificates it trusts.

Kafka's types are PEM, PKCS12 and JKS. As in Java since version 9, JKS and PKCS12 stand for each other: the first bytes
decide, so that the default type JKS opens the PKCS12 files which today's keytool writes. A store is read whole and
checked before anything is made from it: the password, the key, the certificate that fits it, the dates.

A key store's file with          is
no private key                   refused: it is a truststore
a certificate of another key     refused
a first certificate that ended   refused; one that has not begun, too
an intermediate that ended       taken: peers may know another one; `expires_ms` counts it

A truststore in which every certificate has ended is refused; single ones that have are named in the log.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates, load_pkcs12
from cryptography.x509 import (
    Certificate,
    DuplicateExtension,
    ExtensionNotFound,
    InvalidVersion,
    SubjectAlternativeName,
    UnsupportedGeneralNameType,
)

from lethe.adapters.properties import ConfigError, Problem
from lethe.adapters.security import keytool, pem
from lethe.adapters.security.files import read_file
from lethe.adapters.security.prefixed import Place, PlacedSecret
from lethe.adapters.security.unusable import Unusable
from lethe.protocol.counting import counted

MAX_BYTES: Final = 16 * 1024 * 1024
"""Largest store that is read."""


class StoreKind(enum.Enum):
    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """A store, as properties give it: a file, or PEM in the properties themselves."""

    place: Place
    """The property that names the file or holds the certificates."""
    kind: StoreKind | None
    """None: the content decides."""
    path: Path | None
    """None: `certificates` and `key` are given."""
    password_name: str
    """The property for the store's password, whether it is given or not."""
    key_password_name: str
    certificates: str = ""
    key: PlacedSecret | None = None
    password: PlacedSecret | None = None
    key_password: PlacedSecret | None = None

    def files(self) -> tuple[Path, ...]:
        """Return every file that the store is read from: its own, and those of its passwords."""
        secrets = [given.secret for given in (self.key, self.password, self.key_password) if given is not None]
        return tuple(path for path in (self.path, *(secret.path for secret in secrets)) if path is not None)

    def problem(self, reason: str, remedy: str) -> ConfigError:
        """Return an error about this store."""
        shown = None if self.path is None else str(self.path)
        return ConfigError([Problem(self.place.name, self.place.origin, shown, reason, remedy)])

    @property
    def type_name(self) -> str:
        """The property that says which type the store has."""
        return self.password_name.removesuffix("password") + "type"


class Identity(NamedTuple):
    """A private key with its certificate, and the certificates that lead from it to its issuers."""

    key: PrivateKeyTypes
    chain: tuple[Certificate, ...]

    def expires_ms(self) -> int:
        """Return when the first certificate of the chain ends, in milliseconds UTC.

        A root that ends the chain does not count, because peers use their own.
        """
        sent = [cert for number, cert in enumerate(self.chain) if number == 0 or cert.issuer != cert.subject]
        return min(_ms(cert.not_valid_after_utc) for cert in sent)

    def has_names(self) -> bool:
        """Return whether the certificate names hosts in the way that clients look at, or may do so."""
        try:
            return len(self.chain[0].extensions.get_extension_for_class(SubjectAlternativeName).value) > 0
        except ExtensionNotFound:
            return False
        except (ValueError, DuplicateExtension, UnsupportedGeneralNameType):
            # It has extensions that cannot be read here: nothing is known of its names.
            return True


class Trust(NamedTuple):
    """Certificates that are trusted, and who they issued."""

    certificates: tuple[Certificate, ...]
    ended: tuple[Certificate, ...]
    """Those of them that are not valid any more; they make nothing trusted."""

    def expires_ms(self) -> int:
        """Return when the first of those that are valid ends, in milliseconds UTC."""
        return min(_ms(cert.not_valid_after_utc) for cert in self.certificates if cert not in self.ended)


def load_identity(store: StoreSettings, now_ms: int) -> Identity:
    """Return the key and its chain, checked. Raises ConfigError."""
    with _understood(store):
        return _identity(store, now_ms)


def load_trust(store: StoreSettings, now_ms: int) -> Trust:
    """Return the trusted certificates, checked. Raises ConfigError."""
    with _understood(store):
        return _trust(store, now_ms)


@contextmanager
def _understood(store: StoreSettings) -> Iterator[None]:
    """Make a problem of a certificate with a part that cannot be read; most parts are read when they are asked for."""
    try:
        yield
    except (ValueError, UnsupportedAlgorithm, InvalidVersion) as error:
        reason = f"has a certificate that cannot be used: {error}"
    else:
        return
    raise store.problem(reason, "have it issued anew")


def _identity(store: StoreSettings, now_ms: int) -> Identity:
    key, certificates = _read_identity(store)
    if key is None:
        truststore = store.password_name.removesuffix("keystore.password") + "truststore.location"
        remedy = f"name a store with a key and its certificate; trusted certificates belong into {truststore}"
        raise store.problem(f"holds no private key ({counted(len(certificates), 'certificate')})", remedy)
    chain = _chain(key, certificates)
    if not chain:
        held = (
            "no certificate"
            if not certificates
            else f"no certificate that fits its private key ({counted(len(certificates), 'certificate')})"
        )
        raise store.problem(f"holds {held}", "put the key and the certificate that was issued for it into one store")
    _check_dates(store, chain[0], now_ms)
    return Identity(key, chain)


def _trust(store: StoreSettings, now_ms: int) -> Trust:
    certificates = tuple(dict.fromkeys(_read_trust(store)))
    if not certificates:
        raise store.problem(
            "holds no certificate", "put the certificate of the authority that issued the peers' certificates into it"
        )
    ended = tuple(cert for cert in certificates if _ms(cert.not_valid_after_utc) <= now_ms)
    if len(ended) == len(certificates):
        last = max(ended, key=lambda cert: cert.not_valid_after_utc)
        reason = f"holds only certificates that have expired, {described(last)} as the last one"
        raise store.problem(reason, "put the authority's present certificate into it")
    return Trust(certificates, ended)


def described(certificate: Certificate) -> str:
    """Return subject and end of a certificate, for messages."""
    return f"{_subject(certificate)} on {_date(certificate.not_valid_after_utc)}"


def _check_dates(store: StoreSettings, certificate: Certificate, now_ms: int) -> None:
    name = _subject(certificate)
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if _ms(ends) <= now_ms:
        raise store.problem(f"its certificate {name} expired on {_date(ends)}", "put a new certificate into it")
    if _ms(begins) > now_ms:
        remedy = "check this machine's clock, or use a certificate that is valid now"
        raise store.problem(f"its certificate {name} is not valid before {_date(begins)}", remedy)


def _chain(key: PrivateKeyTypes, certificates: Sequence[Certificate]) -> tuple[Certificate, ...]:
    """Return the key's certificate and then the issuer of each, as far as they are here; empty if none fits the key."""
    own = _public_bytes(key.public_key())
    chain = [cert for cert in certificates if _public_bytes(cert.public_key()) == own][:1]
    while chain and chain[-1].issuer != chain[-1].subject:
        issuer = next((cert for cert in certificates if cert.subject == chain[-1].issuer and cert not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    return tuple(chain)


def _public_bytes(key: object) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined,no-any-return]


# --- reading ------------------------------------------------------------------------------------------------------


def _read_identity(store: StoreSettings) -> tuple[PrivateKeyTypes | None, tuple[Certificate, ...]]:
    if store.path is None:
        return _pem_key(store, _reveal(store.key) or ""), _pem_certificates(store, store.certificates)
    kind, data = _read(store, store.path)
    if kind is StoreKind.PEM:
        text = data.decode("latin-1")
        return _pem_key(store, text), _pem_certificates(store, text)
    if kind is StoreKind.JKS and store.password is None:
        raise store.problem(*_not_opened(store, None))
    opened = _pkcs12(store, data) if kind is StoreKind.PKCS12 else _jks(store, store.path)
    first = [] if opened.cert is None else [opened.cert.certificate]
    return opened.key, (*first, *(extra.certificate for extra in opened.additional_certs))


def _read_trust(store: StoreSettings) -> tuple[Certificate, ...]:
    if store.path is None:
        return _pem_certificates(store, store.certificates)
    kind, data = _read(store, store.path)
    if kind is StoreKind.PEM:
        return _pem_certificates(store, data.decode("latin-1"))
    opened = _pkcs12(store, data) if kind is StoreKind.PKCS12 else _jks(store, store.path)
    if opened.key is None and opened.cert is None:
        return tuple(extra.certificate for extra in opened.additional_certs)
    # As in Java, the certificate of a key is trusted and what issued it is not; Java's trusted entries have names.
    own = [] if opened.cert is None else [opened.cert.certificate]
    return (*own, *(extra.certificate for extra in opened.additional_certs if extra.friendly_name))


def _read(store: StoreSettings, path: Path) -> tuple[StoreKind, bytes]:
    """Return what the file is, and its content."""
    try:
        data = read_file(path, MAX_BYTES)
    except Unusable as error:
        raise store.problem(error.reason, error.remedy) from None
    kind = _kind(store, path, data)
    if store.kind is not None and (store.kind is StoreKind.PEM) is not (kind is StoreKind.PEM):
        reason = f"is {kind.value} and not {store.kind.value}"
        raise store.problem(reason, f"set {store.type_name}={kind.value}")
    return kind, data


def _kind(store: StoreSettings, path: Path, data: bytes) -> StoreKind:
    if not data:
        raise store.problem("is empty", "write the store again")
    if data.startswith(b"\xfe\xed\xfe\xed"):
        return StoreKind.JKS
    if data.startswith(b"\xce\xce\xce\xce"):
        raise store.problem(
            "is a JCEKS store, which is not supported", f"convert it with {keytool.conversion_command(path)}"
        )
    if pem.MARK.search(data.decode("latin-1")):
        return StoreKind.PEM
    if data.startswith(b"\x30"):
        return StoreKind.PKCS12
    raise store.problem("is neither PEM nor PKCS12 nor JKS", "name a store of one of these types")


def _reveal(given: PlacedSecret | None) -> str | None:
    if given is None:
        return None
    try:
        return given.secret.reveal()
    except Unusable as error:
        path = None if given.secret.path is None else str(given.secret.path)
        problem = Problem(given.place.name, given.place.origin, path, error.reason, error.remedy)
    raise ConfigError([problem])


def _pem_certificates(store: StoreSettings, text: str) -> tuple[Certificate, ...]:
    try:
        return pem.read_certificates(text)
    except pem.PemProblem as error:
        reason = str(error)
    raise store.problem(reason, "write the certificates again, as PEM")


def _pem_key(store: StoreSettings, text: str) -> PrivateKeyTypes | None:
    name = store.key_password_name
    try:
        return pem.read_key(text, _reveal(store.key_password))
    except pem.PasswordMissing as error:
        reason, remedy = str(error), f"set {name}, or {name}.file"
    except pem.PasswordWrong as error:
        reason, remedy = str(error), f"correct {_given_name(store.key_password, name)}"
    except pem.PemProblem as error:
        reason, remedy = str(error), "write one private key, as PEM in PKCS#8"
    if store.key is not None:
        raise ConfigError([Problem(store.key.place.name, store.key.place.origin, None, reason, remedy)])
    raise store.problem(reason, remedy)


def _pkcs12(store: StoreSettings, data: bytes) -> PKCS12KeyAndCertificates:
    if (length := _der_length(data)) is not None and length > len(data):
        raise store.problem(f"is cut off: {counted(len(data), 'byte')} of {length}", "write the store again")
    password = _reveal(store.password)
    try:
        return _opened(data, password)
    except UnsupportedAlgorithm:
        reason = "is encrypted in a way that is not supported"
        remedy = "write it again with a JDK of today: keytool -importkeystore … -deststoretype PKCS12"
    except (ValueError, TypeError):
        reason, remedy = _not_opened(store, password)
    raise store.problem(reason, remedy)


def _opened(data: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    """A store without password may have been written with none, or with the empty one."""
    try:
        return load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        if password:
            raise
        return load_pkcs12(data, b"" if password is None else None)


def _not_opened(store: StoreSettings, password: str | None) -> tuple[str, str]:
    """Return reason and remedy for a store whose password does not fit."""
    name = store.password_name
    if password is None:
        return "is not opened without a password", f"set {name}, or {name}.file"
    return "is not opened by the password, or it is damaged", f"correct {_given_name(store.password, name)}"


def _jks(store: StoreSettings, path: Path) -> PKCS12KeyAndCertificates:
    program = keytool.find_keytool(os.environ)
    if program is None:
        reason = "is a JKS store, which only Java reads, and no keytool is in JAVA_HOME or PATH"
        raise store.problem(reason, f"convert it where Java is: {keytool.conversion_command(path)}")
    password = _reveal(store.password)
    try:
        converted = keytool.convert(program, path, password, _reveal(store.key_password))
        return load_pkcs12(converted.data, converted.password.encode())
    except keytool.StorePasswordWrong:
        reason, remedy = _not_opened(store, password)
    except keytool.KeyPasswordWrong as error:
        given = _given_name(store.key_password, store.key_password_name)
        reason, remedy = str(error), f"correct {given}" if store.key_password else f"set {given}, or {given}.file"
    except keytool.ConversionFailed as error:
        reason, remedy = str(error), f"convert it by hand: {keytool.conversion_command(path)}"
    except Unusable as error:
        reason, remedy = error.reason, error.remedy
    except (ValueError, TypeError, UnsupportedAlgorithm):
        reason = "is a JKS store, and what keytool makes of it cannot be read"
        remedy = f"convert it by hand: {keytool.conversion_command(path)}"
    raise store.problem(reason, remedy)


# --- words --------------------------------------------------------------------------------------------------------


def _subject(certificate: Certificate) -> str:
    return certificate.subject.rfc4514_string() or "without a subject"


def _given_name(given: PlacedSecret | None, name: str) -> str:
    return name if given is None else given.place.name


def _ms(time: datetime) -> int:
    return int(time.timestamp()) * 1000


def _date(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _der_length(data: bytes) -> int | None:
    """Return how many bytes the outermost value of DER has; None if its head does not say."""
    if len(data) < 2 or data[1] == 0x80:
        return None
    if data[1] < 0x80:
        return 2 + data[1]
    octets = data[1] & 0x7F
    return None if octets > 8 or len(data) < 2 + octets else 2 + octets + int.from_bytes(data[2 : 2 + octets])
