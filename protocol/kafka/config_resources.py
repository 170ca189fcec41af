"""Which resources a broker or controller describes: as Kafka's ConfigHelper."""

from __future__ import annotations

from typing import Final

from lethe.protocol.kafka.admin_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    TOPIC_RESOURCE,
    ConfigResource,
)

DESCRIBED: Final = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE)
"""Kafka's numbers of the types that are described; another one refuses the whole request."""


def resource_problem(resource: ConfigResource, own: int) -> str | None:
    """Return why the process with this id does not describe the resource (INVALID_REQUEST), or None."""
    kind, name = resource
    if kind == BROKER_RESOURCE:
        return broker_problem(name, own, what="Broker", or_else=" or empty string,") if name else None
    if kind == BROKER_LOGGER_RESOURCE:
        return broker_problem(name, own, what="Broker", or_else="") if name else "Broker id must not be empty"
    if kind == CLIENT_METRICS_RESOURCE and not name:
        return "Client metrics subscription name must not be empty"
    if kind == CLIENT_METRICS_RESOURCE:
        return "Config type client-metrics is only supported on KRaft clusters"
    return None


def broker_problem(name: str, own: int, *, what: str, or_else: str) -> str | None:
    """Return what is wrong unless this is the own id. Kafka's words for it are not the same everywhere."""
    number = _java_int(name)
    if number is None:
        return f"{what} id must be an integer, but it is: {name}"
    return None if number == own else f"Unexpected broker id, expected {own}{or_else} but received {name}"


def _java_int(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else None
