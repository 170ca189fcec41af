"""Selects which of a broker's listeners a process connects to.

A named listener is used, or none: a broker that lacks it, or has it under another security protocol, is not reached.
Kafka fails there, too, and a second choice could be one without authentication. Without a name it is the first
PLAINTEXT listener, or else the first one whose protocol is spoken.

    named      spoken           the broker has                              used
    INTERNAL   SASL_SSL         INTERNAL: SASL_SSL, PLAINTEXT: PLAINTEXT    INTERNAL
    INTERNAL   SASL_SSL         PLAINTEXT: PLAINTEXT                        none
    INTERNAL   SASL_SSL         INTERNAL: PLAINTEXT                         none
    -          PLAINTEXT, SSL   A: SSL, B: PLAINTEXT                        B
    -          SSL              A: PLAINTEXT                                none
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lethe.protocol.counting import listed
from lethe.protocol.vocabulary import Broker, Endpoint, SecurityProtocol

BETWEEN_BROKERS_REMEDY: Final = (
    "name the listener in control.plane.listener.name or inter.broker.listener.name, and its protocol in "
    "listener.security.protocol.map"
)


@dataclass(frozen=True, slots=True)
class ListenerChoice:
    """The configured listener and the security protocols that the process can speak."""

    listener: str | None = None
    """Name of the one listener that is used, in capitals; None: any that is spoken."""
    spoken: tuple[SecurityProtocol, ...] = (SecurityProtocol.PLAINTEXT,)
    remedy: str = BETWEEN_BROKERS_REMEDY
    """What to configure where a broker has no such listener."""

    def accepts(self, endpoint: Endpoint) -> bool:
        """Return whether a connection to the endpoint is what is configured."""
        return self.listener in (None, endpoint.listener) and endpoint.protocol in self.spoken

    def endpoint_of(self, broker: Broker) -> Endpoint | None:
        """Return the broker's endpoint to connect to; None if it has none (`reason` says why)."""
        accepted = [endpoint for endpoint in broker.endpoints if self.accepts(endpoint)]
        plaintext = (each for each in accepted if each.protocol is SecurityProtocol.PLAINTEXT)
        return next(plaintext, accepted[0] if accepted else None)

    def reason(self, endpoints: Sequence[Endpoint]) -> str:
        """Return why none of a broker's endpoints is accepted: `it has no listener INTERNAL (it has SSL: SSL)`."""
        named = next((each for each in endpoints if each.listener == self.listener), None)
        if named is not None:
            return f"its listener {named.listener} is {named.protocol.name}, and {self._spoken()} is configured for it"
        wanted = f"listener {self.listener}" if self.listener else f"{self._spoken()} listener"
        found = listed([f"{each.listener}: {each.protocol.name}" for each in endpoints])
        return f"it has no {wanted} (it has {found or 'none'})"

    def _spoken(self) -> str:
        return " or ".join(protocol.name for protocol in self.spoken)


ANY_PLAINTEXT: Final = ListenerChoice()
"""Without configuration: any PLAINTEXT listener."""
