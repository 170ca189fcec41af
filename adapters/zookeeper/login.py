"""The SASL login on a connection to ZooKeeper: DIGEST-MD5, before anything else is sent on it.

What servers answer to a login (ZooKeeper 3.5.8, 3.8.4 and 3.9.5):

    no JAAS section `Server`                  an answer without a challenge
    wrong password, or an unknown user        -115, then the end of the connection; 3.5 only ends the connection
    the same with sessionRequireClientSASL…   -124, then the end of the connection
    the same with allowSaslFailedClients      no proof, and the connection stays: anonymous, so it must not be used
    no SASLAuthenticationProvider             all is well, but each ACL that names the creator is refused (-114)
"""

from __future__ import annotations

from typing import Final

from lethe.adapters.security.unusable import Unusable
from lethe.adapters.zookeeper import wire
from lethe.adapters.zookeeper.config import DigestMd5Login
from lethe.adapters.zookeeper.connection import Answer, Connection
from lethe.protocol.security.digest_md5 import DigestMd5Client
from lethe.protocol.security.exchange import AuthenticationFailed
from lethe.protocol.zookeeper.operations import ZkError

LOGIN_REQUIRED: Final = (
    "it serves only clients that log in by SASL: give lethe.zookeeper.sasl.username and lethe.zookeeper.sasl.password, "
    "or name the brokers' JAAS file in java.security.auth.login.config"
)


class LoginRefused(Exception):
    """The server does not accept the login, and will not until somebody changes a setting; the message says which."""


async def log_in(connection: Connection, login: DigestMd5Login, client_nonce: str) -> None:
    """Log in; `client_nonce` must be random and new. Raises LoginRefused, ConnectionError if the connection ends."""
    user = repr(login.username)
    try:
        client = DigestMd5Client(login.username, login.password.reveal(), client_nonce)
    except Unusable as error:
        where = login.password.path
        raise LoginRefused(f"the password of {user} for its SASL login cannot be read: {where}: {error}") from error
    challenge = await _say(connection, client.first(), user)
    if challenge is None:
        raise LoginRefused(
            f"it offers no SASL login, and {user} is to log in: give the server a JAAS section Server and "
            "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider, or set "
            "zookeeper.sasl.client=false here"
        )
    try:
        response = client.answer(challenge) or b""
    except AuthenticationFailed as failed:
        raise LoginRefused(f"its SASL login cannot be used for {user}: {failed}") from failed
    proof = await _say(connection, response, user)
    if proof is None:
        raise LoginRefused(f"{_not_accepted(user)}; it goes on without any rights (allowSaslFailedClients)")
    try:
        client.answer(proof)
    except AuthenticationFailed as failed:
        raise LoginRefused(
            f"it does not prove that it has the password of {user}: check that zookeeper.connect names the right server"
        ) from failed


async def _say(connection: Connection, token: bytes, user: str) -> bytes | None:
    match await connection.send(wire.pack_sasl(token)):
        case Answer(error=None, value=message):
            answered: bytes | None = message
            return answered
        case Answer(error=ZkError.AUTH_FAILED) | Answer(code=wire.SASL_REQUIRED):
            raise LoginRefused(_not_accepted(user))
        case Answer(code=code):
            raise LoginRefused(f"it refuses the SASL login of {user} with error {code}; its log has the reason")
        case ended:
            raise ConnectionError(
                f"it ended the SASL login of {user} without an answer ({ended[-1]}); ZooKeeper 3.5 does so for a wrong "
                "password"
            )


def _not_accepted(user: str) -> str:
    return (
        f"it does not accept user name and password of {user} (SASL DIGEST-MD5): compare them with the section Server "
        "of its JAAS file"
    )
