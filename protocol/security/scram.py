"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) as Kafka speaks them: client, server and stored credentials.

Theory of operation. The server stores no password, only two keys that follow from it. Each side proves that it has its
key with a signature over all messages of the exchange, so nothing of it can be used again.

    client  n,,n=user,r=<C>                              C: the client's nonce
    server  r=<C><S>,s=<salt>,i=4096                     S: the server's nonce
    client  c=biws,r=<C><S>,p=<client key XOR signature by the stored key>
    server  v=<signature by the server key>

The client refuses a nonce that does not begin with its own, fewer iterations than Kafka's minimum (they would make the
password easy to guess from the proof), and more than MAX_ITERATIONS (they would keep the process busy). Passwords and
names are not normalized, as in Kafka.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NoReturn, Self

from lethe.protocol.security.exchange import AuthenticationFailed, sasl_name, text_of, user_name

MIN_ITERATIONS: Final = 4_096
"""Kafka's minimum, on both sides."""
MAX_ITERATIONS: Final = 1_000_000
"""Kafka writes at most 16,384 itself. This many take one to two seconds."""

_NO_CHANNEL_BINDING: Final = "n,,"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64: Final = r"[A-Za-z0-9+/]*={0,2}"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_SASL_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(rf"r=({_PRINTABLE}),s=({_BASE64}),i=([0-9]{{1,10}}){_EXTENSIONS}")
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(
    rf"e=(?P<error>[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{1,200}})|v=(?P<signature>{_BASE64}){_EXTENSIONS}"
)
_INVALID_CREDENTIALS: Final = "there is no user of this name and password"
"""The same words for an unknown user and for a wrong password: the client does not learn which names exist."""


class ScramMechanism(enum.Enum):
    """The mechanisms by Kafka's names."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def digest(self) -> str:
        """Name of the hash function for `hashlib`."""
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"


# --- the formulas of RFC 5802, section 3 --------------------------------------------------------------------------


def salted_password(digest: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return `SaltedPassword`. The time rises with the iterations: a second or two for a million."""
    return hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)


Derive = Callable[[str, str, bytes, int], bytes]
"""`salted_password`: (digest, password, salt, iterations) -> SaltedPassword"""


def _keys(digest: str, salted: bytes) -> tuple[bytes, bytes]:
    """Return the client's key and the server's key."""
    return hmac.digest(salted, b"Client Key", digest), hmac.digest(salted, b"Server Key", digest)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def client_proof(digest: str, salted: bytes, auth_message: bytes) -> bytes:
    """Return `ClientProof`: what `p=` carries."""
    client_key, _ = _keys(digest, salted)
    stored_key = hashlib.new(digest, client_key).digest()
    return _xor(client_key, hmac.digest(stored_key, auth_message, digest))


def server_signature(digest: str, salted: bytes, auth_message: bytes) -> bytes:
    """Return `ServerSignature`: what `v=` carries."""
    _, server_key = _keys(digest, salted)
    return hmac.digest(server_key, auth_message, digest)


# --- stored credentials -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server stores of one user's password, in `/config/users/<user>` under the mechanism's name."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of(cls, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = MIN_ITERATIONS) -> Self:
        """Make the credential for a password."""
        return cls.of_salted(mechanism, salted_password(mechanism.digest, password, salt, iterations), salt, iterations)

    @classmethod
    def of_salted(cls, mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> Self:
        """Make the credential for a SaltedPassword."""
        client_key, server_key = _keys(mechanism.digest, salted)
        return cls(salt, hashlib.new(mechanism.digest, client_key).digest(), server_key, iterations)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Kafka's text, `salt=…,stored_key=…,server_key=…,iterations=4096`; the order is free.

        Raises ValueError, which does not quote the text.
        """
        fields = dict(part.partition("=")[::2] for part in text.split(","))
        if fields.keys() != {"salt", "stored_key", "server_key", "iterations"} or text.count(",") != 3:
            raise ValueError("a SCRAM credential consists of salt, stored_key, server_key and iterations, each once")
        try:
            salt, stored_key, server_key = (
                base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
            )
        except (binascii.Error, ValueError):
            raise ValueError("a SCRAM credential has salt, stored_key and server_key in base64") from None
        if not re.fullmatch(r"[1-9][0-9]{0,8}", fields["iterations"], re.ASCII):
            raise ValueError("the iterations of a SCRAM credential are a positive number")
        return cls(salt, stored_key, server_key, int(fields["iterations"]))

    def text(self) -> str:
        """Return Kafka's text."""
        salt, stored_key, server_key = (
            base64.b64encode(each).decode() for each in (self.salt, self.stored_key, self.server_key)
        )
        return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={self.iterations}"


# --- the client ---------------------------------------------------------------------------------------------------


class ScramClient:
    """The client's side of one exchange. `nonce` is random, of printable ASCII without comma, and used once.

    `is_token`: name and password are id and HMAC of a delegation token (KIP-48). `derive`: `salted_password`, or a
    function that remembers what that returned.
    """

    __slots__ = ("_bare", "_derive", "_digest", "_expected", "_nonce", "_password", "_state")

    def __init__(
        self,
        mechanism: ScramMechanism,
        username: str,
        password: str,
        nonce: str,
        *,
        is_token: bool = False,
        derive: Derive = salted_password,
    ) -> None:
        if not username:
            raise ValueError("the user name is empty")
        if not re.fullmatch(_PRINTABLE, nonce):
            raise ValueError("a nonce consists of printable ASCII characters without comma")
        self._digest = mechanism.digest
        self._password = password
        self._derive = derive
        self._nonce = nonce
        self._bare = f"n={sasl_name(username)},r={nonce}{',tokenauth=true' if is_token else ''}"
        self._expected = b""
        self._state: Callable[[str], bytes | None] = self._on_server_first

    def first(self) -> bytes:
        """Return the client's first message."""
        return (_NO_CHANNEL_BINDING + self._bare).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the client's final message, then None. Raises AuthenticationFailed.

        The first answer derives the salted password: call it off the event loop.
        """
        state, self._state = self._state, _after_the_end
        return state(text_of(challenge, "the server's SCRAM message"))

    def _on_server_first(self, message: str) -> bytes | None:
        found = _SERVER_FIRST.fullmatch(message)
        if found is None:
            raise AuthenticationFailed("the server's first SCRAM message is malformed")
        nonce, salt, iterations = found[1], _decoded(found[2], "salt"), int(found[3])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationFailed("the server's nonce does not continue ours: its message is of another exchange")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise AuthenticationFailed(
                f"the server requests {iterations:,} SCRAM iterations; from {MIN_ITERATIONS:,} to {MAX_ITERATIONS:,} "
                f"are accepted"
            )
        salted = self._derive(self._digest, self._password, salt, iterations)
        without_proof = f"c={base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()},r={nonce}"
        auth_message = f"{self._bare},{message},{without_proof}".encode()
        proof = client_proof(self._digest, salted, auth_message)
        self._expected = server_signature(self._digest, salted, auth_message)
        self._state = self._on_server_final
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _on_server_final(self, message: str) -> bytes | None:
        found = _SERVER_FINAL.fullmatch(message)
        if found is None:
            raise AuthenticationFailed("the server's final SCRAM message is malformed")
        if found["error"] is not None:
            raise AuthenticationFailed(f"the server refuses: {found['error']}")
        if not hmac.compare_digest(_decoded(found["signature"], "signature"), self._expected):
            raise AuthenticationFailed(
                "the server's signature is wrong: it does not have this user's credential, and may be an impostor"
            )
        return None


# --- the server ---------------------------------------------------------------------------------------------------


class ScramServer:
    """The server's side of one exchange. `nonce` is random and used once; `find` returns a user's credential, if any.

    Delegation tokens are refused: they are not stored as credentials.
    """

    __slots__ = ("_credential", "_digest", "_find", "_first_messages", "_nonce", "_state", "_username", "principal")

    def __init__(self, mechanism: ScramMechanism, nonce: str, find: Callable[[str], ScramCredential | None]) -> None:
        self.principal: str | None = None
        self._digest = mechanism.digest
        self._nonce = nonce
        self._find = find
        self._state: Callable[[str], bytes] = self._on_client_first

    def answer(self, response: bytes) -> bytes:
        """Return the server's first message, then its final one. Raises AuthenticationFailed."""
        state, self._state = self._state, _after_the_end
        return state(text_of(response, "the client's SCRAM message"))

    def _on_client_first(self, message: str) -> bytes:
        found = _client_first(message)
        if ",tokenauth=true" in found["extensions"].lower():
            raise AuthenticationFailed("delegation tokens are not accepted here: use a user name and a password")
        self._username = user_name(found["name"])
        if found["authzid"] is not None and user_name(found["authzid"]) != self._username:
            raise AuthenticationFailed("the client asks to act as another user than the one that authenticates")
        credential = self._find(self._username)
        if credential is None:
            raise AuthenticationFailed(_INVALID_CREDENTIALS)
        if credential.iterations < MIN_ITERATIONS:
            raise AuthenticationFailed(
                f"the stored credential of the user has {credential.iterations:,} iterations, and at least "
                f"{MIN_ITERATIONS:,} are required: write it again with kafka-configs"
            )
        self._credential = credential
        self._nonce = found["nonce"] + self._nonce
        first = f"r={self._nonce},s={base64.b64encode(credential.salt).decode()},i={credential.iterations}"
        self._first_messages = f"{found['bare']},{first}", found["gs2"]
        self._state = self._on_client_final
        return first.encode()

    def _on_client_final(self, message: str) -> bytes:
        found = _CLIENT_FINAL.fullmatch(message)
        if found is None:
            raise AuthenticationFailed("the client's final SCRAM message is malformed")
        before, gs2 = self._first_messages
        if not hmac.compare_digest(found["nonce"], self._nonce):
            raise AuthenticationFailed("the nonce of the client's final SCRAM message is of another exchange")
        if _decoded(found["channel"], "channel binding") != gs2.encode():
            raise AuthenticationFailed("the client's final SCRAM message repeats another beginning than it had sent")
        auth_message = f"{before},{found['without_proof']}".encode()
        signature = hmac.digest(self._credential.stored_key, auth_message, self._digest)
        proof = _decoded(found["proof"], "proof")
        if len(proof) != len(signature):
            raise AuthenticationFailed(_INVALID_CREDENTIALS)
        stored_key = hashlib.new(self._digest, _xor(proof, signature)).digest()
        if not hmac.compare_digest(stored_key, self._credential.stored_key):
            raise AuthenticationFailed(_INVALID_CREDENTIALS)
        self.principal = self._username
        return b"v=" + base64.b64encode(hmac.digest(self._credential.server_key, auth_message, self._digest))


def user_of(first: bytes) -> str:
    """Return the user that a client's first message names. Raises AuthenticationFailed."""
    return user_name(_client_first(text_of(first, "the client's SCRAM message"))["name"])


# --- parts of messages --------------------------------------------------------------------------------------------


def _after_the_end(_: str) -> NoReturn:
    raise AuthenticationFailed("a SCRAM message came after the end of the exchange")


def _client_first(message: str) -> re.Match[str]:
    found = _CLIENT_FIRST.fullmatch(message)
    if found is None:
        raise AuthenticationFailed("the client's first SCRAM message is malformed, or asks for channel binding")
    return found


def _decoded(text: str, what: str) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    # Unused bits may be set in the last character: then two texts have the same value.
    if base64.b64encode(decoded).decode() != text:
        raise AuthenticationFailed(f"the {what} of a SCRAM message is not base64")
    return decoded
