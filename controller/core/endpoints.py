"""Selects the listener of a broker for this controller's requests.

In this order: the configured listener, the first PLAINTEXT listener, the first listener. Lethe does not speak the
protocol of the last one.
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
    """Return whether Lethe speaks the listener's security protocol."""
    return endpoint.protocol is SecurityProtocol.PLAINTEXT
