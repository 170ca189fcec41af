"""Requests of clients that describe and alter configurations, and their responses, independent of version.

Any broker answers them, for its own configuration only itself: see `admin` for what only a controller answers.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.protocol.kafka.config_entries import ConfigEntry

TOPIC_RESOURCE: Final = 2
"""Kafka's number for the configuration of a topic."""
BROKER_RESOURCE: Final = 4
"""Kafka's number for the configuration of a broker; the resource name is the broker's id, empty for all brokers."""
BROKER_LOGGER_RESOURCE: Final = 8
"""Kafka's number for the log levels of a broker."""
CLIENT_METRICS_RESOURCE: Final = 16
"""Kafka's number for a subscription to metrics of clients."""

_NAMES: Final = {
    TOPIC_RESOURCE: "TOPIC",
    BROKER_RESOURCE: "BROKER",
    BROKER_LOGGER_RESOURCE: "BROKER_LOGGER",
    CLIENT_METRICS_RESOURCE: "CLIENT_METRICS",
}


class ConfigResource(NamedTuple):
    """What has a configuration. The text is Kafka's: `ConfigResource(type=BROKER, name='1')`."""

    type: int
    name: str

    @property
    def type_name(self) -> str:
        return _NAMES.get(self.type, "UNKNOWN")

    def __str__(self) -> str:
        return f"ConfigResource(type={self.type_name}, name='{self.name}')"


# --- AlterConfigs and IncrementalAlterConfigs ---------------------------------------------------------------------


class AlterOperation(enum.IntEnum):
    """What becomes of a setting; values of the last two are elements of a list."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterableConfig(NamedTuple):
    """A change of one setting. Its value may be a secret, so the text does not show it."""

    name: str
    value: str | None
    operation: int = AlterOperation.SET
    """An AlterOperation, or another number that the client sent. Encoded in IncrementalAlterConfigs only."""

    def __repr__(self) -> str:
        return f"AlterableConfig({self.name!r}, operation={self.operation})"


class AlterableResource(NamedTuple):
    type: int
    name: str
    configs: tuple[AlterableConfig, ...]

    @property
    def resource(self) -> ConfigResource:
        return ConfigResource(self.type, self.name)


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest:
    """Replace each configuration as a whole by the settings of the request."""

    resources: tuple[AlterableResource, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigsRequest:
    """Change the settings that are named, and leave the others."""

    resources: tuple[AlterableResource, ...]
    validate_only: bool = False


class AlteredResource(NamedTuple):
    """The result for one resource."""

    error: int
    message: str | None
    type: int
    name: str


@dataclass(frozen=True, slots=True)
class AlterConfigsResponse:
    """The response to either request."""

    resources: tuple[AlteredResource, ...]
    throttle_time_ms: int = 0


# --- DescribeConfigs ----------------------------------------------------------------------------------------------


class DescribableConfigs(NamedTuple):
    """A resource whose configuration is requested. `names`: None for all properties."""

    resource_type: int
    resource_name: str
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class DescribeConfigsRequest:
    resources: tuple[DescribableConfigs, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


class DescribedConfigs(NamedTuple):
    error: int
    error_message: str | None
    resource_type: int
    resource_name: str
    entries: tuple[ConfigEntry, ...]


@dataclass(frozen=True, slots=True)
class DescribeConfigsResponse:
    results: tuple[DescribedConfigs, ...]
    throttle_time_ms: int = 0


# --- all of them --------------------------------------------------------------------------------------------------

ConfigsRequest = AlterConfigsRequest | IncrementalAlterConfigsRequest | DescribeConfigsRequest
ConfigsResponse = AlterConfigsResponse | DescribeConfigsResponse


def configs_error_response(request: ConfigsRequest, error: int, message: str | None = None) -> ConfigsResponse:
    """Return the response with this error for each resource that the request names."""
    match request:
        case AlterConfigsRequest(resources=altered) | IncrementalAlterConfigsRequest(resources=altered):
            return AlterConfigsResponse(tuple(AlteredResource(error, message, *each.resource) for each in altered))
        case DescribeConfigsRequest(resources=described):
            rows = (DescribedConfigs(error, message, row.resource_type, row.resource_name, ()) for row in described)
            return DescribeConfigsResponse(tuple(rows))


def configs_errors(response: ConfigsResponse) -> tuple[int, ...]:
    """Return the error of each row."""
    if isinstance(response, AlterConfigsResponse):
        return tuple(each.error for each in response.resources)
    return tuple(each.error for each in response.results)
