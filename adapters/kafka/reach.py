"""How a process reaches brokers: which of their listeners it uses, and the TLS and SASL of each protocol.

Each connection of Lethe to a broker is opened here. A process has one `BrokerReach`, made from its configuration
(`adapters.kafka.config_reach`), and passes it on to whatever connects; nobody else combines address and security.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.kafka.client_errors import AccessFailed
from lethe.adapters.security.channel import ChannelSecurity
from lethe.protocol.kafka.framing import DEFAULT_MAX_FRAME_BYTES
from lethe.protocol.listener_choice import BETWEEN_BROKERS_REMEDY, ListenerChoice
from lethe.protocol.vocabulary import Broker, Endpoint, SecurityProtocol


class NoListener(AccessFailed):
    """The broker has no listener that is configured here. The text begins with a clause about the broker: `it has …`.

    It ends with what to configure.
    """


def _plaintext_only() -> Mapping[SecurityProtocol, ChannelSecurity]:
    return MappingProxyType({SecurityProtocol.PLAINTEXT: ChannelSecurity()})


@dataclass(frozen=True, slots=True)
class BrokerReach:
    """The listener, and the security of each protocol that may be spoken there."""

    listener: str | None = None
    """Name of the one listener that is used, in capitals; None: any whose protocol is in `security`."""
    security: Mapping[SecurityProtocol, ChannelSecurity] = field(default_factory=_plaintext_only)
    """With the properties of the listener, where these have precedence. A protocol that is missing is never spoken."""
    remedy: str = BETWEEN_BROKERS_REMEDY
    """What to configure where a broker has no such listener."""

    @property
    def choice(self) -> ListenerChoice:
        """The same choice without secrets, as the cores need it."""
        return ListenerChoice(self.listener, tuple(sorted(self.security)), self.remedy)

    @property
    def protocol(self) -> SecurityProtocol:
        """The protocol that is spoken; of several, the weakest."""
        return min(self.security)

    @property
    def principal(self) -> str:
        """Whom brokers take this process for, for messages about rights."""
        return self.security[self.protocol].principal

    def endpoint_of(self, broker: Broker) -> Endpoint:
        """Return the broker's endpoint to connect to. Raises NoListener."""
        choice = self.choice
        endpoint = choice.endpoint_of(broker)
        if endpoint is None:
            raise NoListener(f"{choice.reason(broker.endpoints)}; {self.remedy}")
        return endpoint

    async def open(
        self,
        endpoint: Endpoint,
        client_id: str,
        *,
        connect_timeout_ms: int = 10_000,
        request_timeout_ms: int = 30_000,
        max_response_bytes: int = DEFAULT_MAX_FRAME_BYTES,
    ) -> KafkaConnection:
        """Connect and log in. Raises ConnectionFailed; as NoListener if this is not the configured listener."""
        if not self.choice.accepts(endpoint):
            raise NoListener(f"{self.choice.reason((endpoint,))}; {self.remedy}")
        return await KafkaConnection.open(
            endpoint.host,
            endpoint.port,
            client_id,
            connect_timeout_ms=connect_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            max_response_bytes=max_response_bytes,
            security=self.security[endpoint.protocol],
        )


PLAINTEXT_REACH: Final = BrokerReach()
"""Any PLAINTEXT listener, without a login."""
