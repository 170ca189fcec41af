"""PEM: text with certificates and keys, as Kafka reads it.

Kafka's parser (`DefaultSslEngineFactory.PemParser`) takes blanks for line ends, because a value in a properties file is
one line: `-----BEGIN CERTIFICATE----- MIIB… -----END CERTIFICATE-----` is a certificate. Text around the blocks is
ignored. Of several certificates on one line Kafka takes only the last; here each of them counts.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key
from cryptography.x509 import Certificate, load_der_x509_certificate

MARK: Final = re.compile(r"-+BEGIN\s")
_BLOCK: Final = re.compile(r"-+BEGIN\s+([A-Z0-9 ]*?)\s*-+\s*(.*?)-+END\s+\1\s*-+", re.DOTALL)
_HEADERS: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9-]*:[^\r\n]*[\r\n]+)*")
_ENCRYPTED: Final = "Proc-Type:"


class PemProblem(Exception):
    """The text cannot be used. The message is a reason."""


class PasswordMissing(PemProblem):
    """The key is encrypted, and no password is given."""


class PasswordWrong(PemProblem):
    """The key is encrypted, and the password does not decrypt it."""


class _Block(NamedTuple):
    label: str
    body: str

    def der(self) -> bytes:
        """Raises PemProblem."""
        encoded = re.sub(r"\s", "", _HEADERS.sub("", self.body.lstrip(), count=1))
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise PemProblem(f"has a block {self.label} that is no base64: it is cut off or damaged") from None


def _blocks(text: str) -> list[_Block]:
    return [_Block(" ".join(label.split()), body) for label, body in _BLOCK.findall(text)]


def read_certificates(text: str) -> tuple[Certificate, ...]:
    """Return the certificates in their order. Raises PemProblem if one cannot be read or a block has no end."""
    blocks = _blocks(text)
    if len(blocks) != len(MARK.findall(text)):
        raise PemProblem("has a block without its END line: it is cut off")
    found = []
    for number, block in enumerate((b for b in blocks if b.label in ("CERTIFICATE", "TRUSTED CERTIFICATE")), 1):
        try:
            found.append(load_der_x509_certificate(block.der()))
        except ValueError:
            raise PemProblem(f"has a certificate (number {number}) that cannot be read: it is damaged") from None
    return tuple(found)


def read_key(text: str, password: str | None) -> PrivateKeyTypes | None:
    """Return the private key; None if there is none. The password of a key that is not encrypted is ignored.

    Raises PemProblem.
    """
    blocks = [block for block in _blocks(text) if block.label.endswith("PRIVATE KEY")]
    if not blocks:
        return None
    if len(blocks) > 1:
        raise PemProblem(f"has {len(blocks)} private keys, and may have one")
    (block,) = blocks
    encrypted = block.label == "ENCRYPTED PRIVATE KEY" or _ENCRYPTED in block.body
    if encrypted and password is None:
        raise PasswordMissing("has an encrypted private key, and there is no password for it")
    secret = password.encode() if encrypted and password is not None else None
    try:
        if _ENCRYPTED in block.body:
            whole = f"-----BEGIN {block.label}-----\n{block.body.strip()}\n-----END {block.label}-----\n"
            return load_pem_private_key(whole.encode(), secret)
        return load_der_private_key(block.der(), secret)
    except UnsupportedAlgorithm:
        raise PemProblem("has a private key of a kind or with an encryption that is not supported") from None
    except (ValueError, TypeError):
        if encrypted:
            raise PasswordWrong("has an encrypted private key, which the password does not open") from None
        raise PemProblem("has a private key that cannot be read: it is damaged") from None
