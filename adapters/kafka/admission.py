"""Who may connect to a listener, and how: TLS, SASL, and the principal that a connection has.

protocol          the principal                                      what is read before
PLAINTEXT         User:ANONYMOUS                                     -
SSL               by the client's certificate, or User:ANONYMOUS     nothing
SASL_PLAINTEXT    by the login                                       ApiVersions, SaslHandshake, SaslAuthenticate
SASL_SSL          by the login                                       the same
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from lethe.adapters.security.accepting import SaslAcceptance
from lethe.adapters.security.refusal_counts import RefusalCounts
from lethe.protocol.security.principal_mapping import DEFAULT_MAPPING, PrincipalMapping
from lethe.protocol.security.principals import Principal, certificate_principal
from lethe.protocol.vocabulary import SecurityProtocol


@dataclass(frozen=True, slots=True)
class Admission:
    """What a listener requires of its clients."""

    tls: Callable[[], ssl.SSLContext] | None = None
    """Returns the context for the next connection. It is called in a thread, since it may read files."""
    sasl: SaslAcceptance | None = None
    mapping: PrincipalMapping = DEFAULT_MAPPING
    """From the names of certificates to those of principals."""
    max_login_ms: int = 30_000
    """From the accepted connection to the end of TLS and SASL."""
    failure_delay_ms: int = 100
    """How long the answer to a failed authentication waits (`connection.failed.authentication.delay.ms`)."""
    refused: RefusalCounts = field(default_factory=RefusalCounts, compare=False)
    """Counts the clients that are not admitted."""

    @property
    def protocol(self) -> SecurityProtocol:
        """The security protocol of the listener."""
        if self.sasl is None:
            return SecurityProtocol.PLAINTEXT if self.tls is None else SecurityProtocol.SSL
        return SecurityProtocol.SASL_PLAINTEXT if self.tls is None else SecurityProtocol.SASL_SSL

    def certificate_principal(self, connection: ssl.SSLObject) -> Principal:
        """Return the principal by the client's certificate. Raises PrincipalRefused."""
        return certificate_principal(connection.getpeercert(binary_form=True), self.mapping)


OPEN: Admission = Admission()
"""A listener with PLAINTEXT: everyone is User:ANONYMOUS."""
