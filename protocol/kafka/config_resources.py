"""Which resources a broker or controller describes, and how a row of the answer is made: as Kafka's ConfigHelper."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lethe.protocol.kafka.admin_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    TOPIC_RESOURCE,
    DescribableConfigs,
    DescribeConfigsRequest,
    DescribedConfigs,
)
from lethe.protocol.kafka.config_entries import ConfigEntry
from lethe.protocol.kafka.errors import ErrorCode

DESCRIBED: Final = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE)
"""Kafka's numbers of the types that are described; another one refuses the whole request."""


def resource_problem(asked: DescribableConfigs, own: int) -> str | None:
    """Return why the process with this id does not describe the resource (INVALID_REQUEST), or None."""
    kind, name = asked.resource_type, asked.resource_name
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


def described(
    request: DescribeConfigsRequest, asked: DescribableConfigs, entries: Iterable[ConfigEntry]
) -> DescribedConfigs:
    """Return the row with those of these settings, and of their synonyms, that are requested."""
    shown = (each for each in entries if not asked.names or each.name in asked.names)
    if not request.include_synonyms:
        shown = (each._replace(synonyms=()) for each in shown)
    return DescribedConfigs(ErrorCode.NONE, "", asked.resource_type, asked.resource_name, tuple(shown))
