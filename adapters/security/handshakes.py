"""Why a handshake of TLS failed, in a sentence with a remedy.

What a peer refuses comes as an alert. In TLS 1.3 a server refuses a client's certificate only after the client has
finished its side, so that such an alert may come with the first read rather than with the connect.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import Final

_OWN_NAME: Final = re.compile(r"(?<![\w.])ssl\.")
"""Begin of the name of one of Kafka's properties, for which other connections have a prefix."""
_EXPIRED, _NOT_YET, _NO_ISSUER, _OTHER_HOST, _OTHER_ADDRESS = 10, 9, (2, 18, 19, 20, 21), 62, 64

_REASONS: Final = {
    "CERTIFICATE_REQUIRED": ("requires a certificate of its clients", "set ssl.keystore.location"),
    "BAD_CERTIFICATE": (
        "refuses this side's certificate, or requires one and got none",
        "set ssl.keystore.location to a certificate that the other side trusts",
    ),
    "UNKNOWN_CA": (
        "does not know the authority that issued this side's certificate",
        "add that authority to the other side's truststore, or use a certificate of an authority that it trusts",
    ),
    "CERTIFICATE_EXPIRED": (
        "says that this side's certificate has expired",
        "put a new certificate into the key store",
    ),
    "CERTIFICATE_UNKNOWN": (
        "refuses this side's certificate",
        "check that the other side's truststore has its issuer, and that it names this host if the other side connects",
    ),
    "PROTOCOL_VERSION": (
        "speaks no version of TLS that is enabled here",
        "compare ssl.enabled.protocols of both sides",
    ),
    "HANDSHAKE_FAILURE": (
        "finds no common cipher suite, or lacks a certificate of this side",
        "compare ssl.cipher.suites of both sides, and set ssl.keystore.location if it requires a certificate",
    ),
    "NO_SHARED_CIPHER": ("offers no cipher suite that is enabled here", "compare ssl.cipher.suites of both sides"),
    "UNSUPPORTED_PROTOCOL": (
        "speaks no version of TLS that is enabled here",
        "compare ssl.enabled.protocols of both sides",
    ),
    "WRONG_VERSION_NUMBER": ("does not speak TLS", "connect to a listener with SSL or SASL_SSL, or use PLAINTEXT"),
    "HTTP_REQUEST": ("speaks HTTP without TLS", "use https"),
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "shows no certificate, and ssl.client.auth requires one",
        "give that client a certificate, or set ssl.client.auth=requested",
    ),
}


@dataclass(frozen=True, slots=True)
class TrustRemedies:
    """What a client can set so that it accepts a certificate."""

    unknown_authority: str
    other_host: str = ""
    """Follows the remedies that each client has."""


_PROPERTIES: Final = TrustRemedies(
    "add that authority's certificate to ssl.truststore.location",
    "; an empty ssl.endpoint.identification.algorithm switches the check off",
)


def handshake_problem(
    error: OSError, peer: str, host: str | None = None, prefix: str = "", trust: TrustRemedies = _PROPERTIES
) -> str:
    """Return a sentence about a failed handshake with `peer` (as it is to be shown), and what to do.

    `host` is the name that its certificate had to have, `prefix` is before the properties of this side. Peers that end
    the connection without an alert, as asyncio's servers do, are another OSError than SSLError.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        reason, remedy = _verification(error, host, trust)
    elif isinstance(error, ssl.SSLError) and shows_refusal(error):
        reason, remedy = _refusal(error)
    else:
        reason = "closed the connection during the handshake of TLS"
        remedy = "look at its log: it may speak no TLS there, or require a certificate (ssl.keystore.location)"
    return f"{peer}: {_OWN_NAME.sub(f'{prefix}ssl.', f'{reason}; {remedy}')}"


def shows_refusal(error: BaseException | None) -> bool:
    """Return False if the peer only ended the connection: a check of the port does so, and a proxy without a server."""
    if isinstance(error, ssl.SSLError):
        return not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return not isinstance(error, OSError)


def needs_a_setting(error: BaseException | None) -> bool:
    """Return whether one side refused the other, and will until a setting has changed. The dates of a peer's
    certificate are none: it is refused by everybody."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_code not in (_EXPIRED, _NOT_YET)
    return shows_refusal(error)


def _verification(error: ssl.SSLCertVerificationError, host: str | None, trust: TrustRemedies) -> tuple[str, str]:
    code = error.verify_code
    if code == _EXPIRED:
        return "its certificate has expired", "renew it there, and check this machine's clock"
    if code == _NOT_YET:
        return "its certificate is not valid yet", "check the clocks of both machines"
    if code in _NO_ISSUER:
        return "its certificate is issued by an authority that is not trusted here", trust.unknown_authority
    if code in (_OTHER_HOST, _OTHER_ADDRESS):
        named = "the host that was connected to" if host is None else repr(host)
        reason = (
            f"its certificate does not name {named} among its subject alternative names (its CN counts only where it "
            "has none, and never for an address)"
        )
        return reason, f"connect by a name that it has, or issue one with the name{trust.other_host}"
    return f"its certificate is refused: {error.verify_message}", "use a certificate that is issued for this purpose"


def _refusal(error: ssl.SSLError) -> tuple[str, str]:
    reason = error.reason or ""
    for name, words in _REASONS.items():
        if reason.endswith(name):
            return words
    shown = reason.replace("_", " ").lower() or "for an unknown reason"
    return f"the handshake of TLS failed: {shown}", "look at the other side's log"
