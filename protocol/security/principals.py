"""Principals: the names under which Kafka's ACLs know a client.

    how the client came               principal
    PLAINTEXT, or TLS without a
    client certificate                User:ANONYMOUS
    SASL                              User:<user name>
    TLS with a client certificate     User:<distinguished name>, changed by `ssl.principal.mapping.rules`

Two principals are equal if type and name are; the type is case-sensitive, so `user:alice` is not `User:alice`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from lethe.protocol.security.distinguished_names import UnreadableCertificate, subject_of
from lethe.protocol.security.principal_mapping import DEFAULT_MAPPING, NoPrincipal, PrincipalMapping

USER: Final = "User"
_TRIMMED: Final = "".join(map(chr, range(33)))
"""What Java's String.trim removes."""


class Principal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
EVERYONE: Final = Principal(USER, "*")
"""In an ACL: every principal, of whatever type."""


class PrincipalRefused(Exception):
    """A client's certificate gives no principal; the message names the certificate's name and the remedy."""


def parse_principal(text: str) -> Principal:
    """Parse `User:alice`: the type ends with the first colon. Raises ValueError."""
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"{text[:80]!r} is no principal: write its type before a colon, such as User:alice")
    return Principal(kind, name)


def parse_super_users(text: str) -> frozenset[Principal]:
    """Parse `super.users`: principals separated by semicolons, since names of certificates contain commas.

    Raises ValueError.
    """
    parts = text.split(";")
    while parts and not parts[-1]:
        parts.pop()
    return frozenset(parse_principal(part.strip(_TRIMMED)) for part in parts)


def sasl_principal(user: str) -> Principal:
    """Return the principal of a client that has authenticated by SASL as this user (not by GSSAPI)."""
    return Principal(USER, user)


def certificate_principal(certificate: bytes | None, mapping: PrincipalMapping = DEFAULT_MAPPING) -> Principal:
    """Return the principal of a TLS client by its certificate (DER); ANONYMOUS if it presented none.

    Raises PrincipalRefused if the certificate cannot be read or no rule applies: Kafka closes such a connection.
    """
    if certificate is None:
        return ANONYMOUS
    try:
        return Principal(USER, mapping.name_of(subject_of(certificate)))
    except UnreadableCertificate as error:
        raise PrincipalRefused(
            f"the subject of the client's certificate cannot be read: {error}; give the client another certificate"
        ) from error
    except NoPrincipal as error:
        raise PrincipalRefused(str(error)) from error
