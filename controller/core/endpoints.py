"""Selects the listener of a broker for this controller's requests: see `protocol.listener_choice`."""

from __future__ import annotations

from lethe.controller.core.config import CoreConfig
from lethe.protocol.vocabulary import Broker, Endpoint


def control_endpoint(config: CoreConfig, broker: Broker) -> Endpoint:
    """Return the endpoint for requests to this broker, which has at least one.

    Where none of them is configured (`unreachable_reason`) it is one that no connection is opened to.
    """
    return config.listener_choice.endpoint_of(broker) or broker.endpoints[0]


def unreachable_reason(config: CoreConfig, broker: Broker) -> str | None:
    """Return why no listener of the broker can be used, as a clause: `it has no …`; None if one can."""
    choice = config.listener_choice
    return choice.reason(broker.endpoints) if choice.endpoint_of(broker) is None else None
