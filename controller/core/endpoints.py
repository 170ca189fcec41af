"""Which listener of a broker receives this controller's requests, and whether Lethe speaks its protocol.

The configured listener counts where the broker has it. Otherwise the first PLAINTEXT listener does, and where there is
none, the first listener, which then cannot be spoken to.
"""

from __future__ import annotations

from lethe.controller.core.config import CoreConfig
from lethe.protocol.vocabulary import Broker, Endpoint, SecurityProtocol


def control_endpoint(config: CoreConfig, broker: Broker) -> Endpoint:
    """Return the endpoint for requests to this broker, which has at least one."""
    named = broker.endpoint(config.control_listener) if config.control_listener else None
    if named is not None:
        return named
    return next((each for each in broker.endpoints if is_spoken(each)), broker.endpoints[0])


def is_spoken(endpoint: Endpoint) -> bool:
    """Whether Lethe speaks the listener's security protocol."""
    return endpoint.protocol is SecurityProtocol.PLAINTEXT
