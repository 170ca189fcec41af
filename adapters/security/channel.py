"""How a connection to a broker is secured: one value for each of Kafka's security protocols.

tls    login   security.protocol
none   none    PLAINTEXT
set    none    SSL
none   set     SASL_PLAINTEXT
set    set     SASL_SSL
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lethe.adapters.security.login import SaslLogin
from lethe.adapters.security.refusal_counts import RefusalCounts, counts_at_peers
from lethe.adapters.security.tls import TlsMaterial
from lethe.protocol.security.principals import ANONYMOUS
from lethe.protocol.vocabulary import SecurityProtocol


@dataclass(frozen=True, slots=True)
class ChannelSecurity:
    """TLS and SASL of connections to one listener; shared by all of them."""

    tls: Callable[[], ssl.SSLContext] | None = None
    """Returns the context for the next connection: a new one after a certificate has changed. May raise OSError and
    ValueError. Its `check_hostname` agrees with `endpoint_identification`."""
    endpoint_identification: bool = True
    """The certificate must be for the name that is connected to (`ssl.endpoint.identification.algorithm=https`)."""
    login: SaslLogin | None = None
    certificate_principal: str = str(ANONYMOUS)
    """Principal of the certificate that is shown; without one that of clients that do not say who they are."""
    material: TlsMaterial | None = field(default=None, compare=False)
    """Where `tls` has its certificates from."""
    refused: RefusalCounts = field(default_factory=counts_at_peers, compare=False)
    """Counts connections that failed at TLS or login."""

    @property
    def protocol(self) -> SecurityProtocol:
        """The value of `security.protocol`."""
        if self.login is None:
            return SecurityProtocol.PLAINTEXT if self.tls is None else SecurityProtocol.SSL
        return SecurityProtocol.SASL_PLAINTEXT if self.tls is None else SecurityProtocol.SASL_SSL

    @property
    def principal(self) -> str:
        """Whom brokers take the client for, unless they map names; for messages about rights."""
        return self.certificate_principal if self.login is None else self.login.principal

    def context(self) -> ssl.SSLContext | None:
        """Return the context for a new connection; None without TLS. Raises what `tls` raises.

        Raises RuntimeError if the context does not check names as `endpoint_identification` says. Nothing is changed
        here, because other connections may share the context.
        """
        if self.tls is None:
            return None
        context = self.tls()
        if context.check_hostname != self.endpoint_identification:
            policy = "on" if self.endpoint_identification else "off"
            raise RuntimeError(f"endpoint identification is {policy}, and the TLS context says otherwise")
        return context


PLAINTEXT: Final = ChannelSecurity()
"""Neither TLS nor SASL."""
