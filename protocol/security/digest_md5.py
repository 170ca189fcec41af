"""SASL DIGEST-MD5 (RFC 2831), the client's side, as ZooKeeper uses it.

Theory of operation. Three messages follow the client's empty first one. The hash covers both nonces, so neither side
can replay an older login, and the server's last message proves that it has the password too:

    server   realm="zk-sasl-md5",nonce="N",charset=utf-8,algorithm=md5-sess
    client   charset=utf-8,username="kafka",realm=…,nonce="N",nc=00000001,cnonce="C",…,response=H("AUTHENTICATE")
    server   rspauth=H("")

    A1 = MD5(user:realm:password) as raw bytes, then :N:C
    H(method) = hex MD5( hex MD5(A1) : N : 00000001 : C : auth : hex MD5(method:digest-uri) )

Only authentication is offered (`qop=auth`): integrity and privacy are TLS's part. The client's nonce is an argument; it
must be random and new for each login.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

from lethe.protocol.counting import counted
from lethe.protocol.security.exchange import AuthenticationFailed, text_of

ZOOKEEPER_URI: Final = "zookeeper/zk-sasl-md5"
"""The digest-uri of each ZooKeeper server: Java's client and server use this name instead of the host's."""

_COUNT: Final = "00000001"
_MAX_CHALLENGE_BYTES: Final = 2048
"""RFC 2831, 2.1.1: a longer challenge is to be refused."""
_PART: Final = re.compile(r'\s*([a-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))\s*(?:,|$)', re.IGNORECASE | re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


class DigestMd5Client:
    """The client's side of one exchange."""

    __slots__ = ("_client_nonce", "_password", "_proof", "_uri", "_username")

    def __init__(self, username: str, password: str, client_nonce: str, uri: str = ZOOKEEPER_URI) -> None:
        self._username = username
        self._password = password
        self._client_nonce = client_nonce
        self._uri = uri
        self._proof: bytes | None = None

    def first(self) -> bytes:
        """Return the first message, which is empty."""
        return b""

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the response to the challenge; None if it is the server's proof. Raises AuthenticationFailed."""
        if self._proof is None:
            return self._respond(challenge)
        if not hmac.compare_digest(challenge.strip(), self._proof):
            raise AuthenticationFailed("the server does not prove that it has the password")
        return None

    def _respond(self, challenge: bytes) -> bytes:
        told = _parse(challenge)
        nonce, charset = _only(told, "nonce"), _charset(told)
        if not nonce:
            raise AuthenticationFailed("the server's challenge has no nonce")
        if _only(told, "algorithm").lower() != "md5-sess":
            raise AuthenticationFailed("the server's challenge is for another algorithm than md5-sess")
        offered = _only(told, "qop") or "auth"
        if "auth" not in (each.strip().lower() for each in offered.split(",")):
            raise AuthenticationFailed(f"the server offers the protection {offered!r} only, and not auth")
        realm = told.get("realm", [""])[0]
        secret = self._secret(realm, nonce, charset)
        self._proof = b"rspauth=" + self._hash(secret, nonce, "")
        parts = [
            *(["charset=utf-8"] if charset == "utf-8" else []),
            f"username={_quoted(self._username)}",
            *([f"realm={_quoted(realm)}"] if "realm" in told else []),
            f"nonce={_quoted(nonce)}",
            f"nc={_COUNT}",
            f"cnonce={_quoted(self._client_nonce)}",
            f"digest-uri={_quoted(self._uri)}",
            "maxbuf=65536",
            f"response={self._hash(secret, nonce, 'AUTHENTICATE').decode()}",
            "qop=auth",
        ]
        return ",".join(parts).encode(charset)

    def _secret(self, realm: str, nonce: str, charset: str) -> str:
        """Return hex MD5(A1)."""
        try:
            login = b":".join(_hashed_text(text, charset) for text in (self._username, realm, self._password))
            return _md5(_raw_md5(login) + f":{nonce}:{self._client_nonce}".encode(charset))
        except UnicodeEncodeError as error:
            raise AuthenticationFailed("user name or password has characters that the server cannot read") from error

    def _hash(self, secret: str, nonce: str, method: str) -> bytes:
        uri = _md5(f"{method}:{self._uri}".encode())
        return _md5(f"{secret}:{nonce}:{_COUNT}:{self._client_nonce}:auth:{uri}".encode()).encode()


def _parse(challenge: bytes) -> dict[str, list[str]]:
    """Return the values of each directive of the challenge. Raises AuthenticationFailed."""
    if len(challenge) > _MAX_CHALLENGE_BYTES:
        raise AuthenticationFailed(f"the server's challenge has {counted(len(challenge), 'byte')}")
    text = text_of(challenge, "the server's challenge")
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise AuthenticationFailed("the server's challenge is malformed")
        value = part[3] if part[2] is None else _ESCAPED.sub(r"\1", part[2])
        found.setdefault(part[1].lower(), []).append(value)
        at = part.end()
    return found


def _only(told: dict[str, list[str]], name: str) -> str:
    """Return the directive's value; empty if it is missing. Raises AuthenticationFailed if it is given twice."""
    values = told.get(name, [""])
    if len(values) > 1:
        raise AuthenticationFailed(f"the server's challenge has {name} more than once")
    return values[0]


def _charset(told: dict[str, list[str]]) -> str:
    named = _only(told, "charset").lower()
    if named not in ("", "utf-8"):
        raise AuthenticationFailed("the server's challenge is in another charset than utf-8")
    return named or "latin-1"


def _hashed_text(text: str, charset: str) -> bytes:
    """Return the bytes that are hashed: Latin-1 where it has all characters, whatever the charset (2.1.2.1)."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode(charset)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _raw_md5(data: bytes) -> bytes:
    try:
        return hashlib.md5(data).digest()
    except ValueError as error:
        raise AuthenticationFailed("this Python has no MD5 (FIPS mode), on which DIGEST-MD5 is built") from error


def _md5(data: bytes) -> str:
    return _raw_md5(data).hex()
