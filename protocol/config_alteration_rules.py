"""Which changes of configurations Kafka 3.9.1 refuses to clients, in its order and words.

    the resource                                          error
    ----------------------------------------------------  -----------------------------------------------------------
    is named twice                                        INVALID_REQUEST
    has a setting twice, or one without a value           INVALID_REQUEST
    is another broker, or of an unknown type              INVALID_REQUEST
    is the process's log levels                           INVALID_CONFIG: it has no loggers of Java
    may not be altered by the client                      CLUSTER_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED
    is to have elements of what is no list                INVALID_CONFIG
    has an operation that Kafka does not have             INVALID_REQUEST
    is a topic that does not exist                        UNKNOWN_TOPIC_OR_PARTITION
    is to have a setting of brokers that is not dynamic   INVALID_REQUEST (`broker_configs`)
    is to have a value that is none                       INVALID_REQUEST for brokers, INVALID_CONFIG for topics

Three rules differ from Kafka's. Where Kafka fails by accident and answers UNKNOWN_SERVER_ERROR, the row says what is
wrong: elements of a setting that Kafka does not have, unknown operations on topics (decision 0034). Only the settings
that a request changes are checked: what is stored already stays, where Kafka drops stored settings that it cannot read.
And values of Lethe's own settings that no process can use are refused, which Kafka stores as custom ones. A process
takes its own ones only, for all brokers also others'.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final

from lethe.protocol.client_rows import RowRefused
from lethe.protocol.kafka.admin_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterableResource,
    AlterOperation,
    ConfigResource,
)
from lethe.protocol.kafka.broker_configs import (
    broker_config_default,
    broker_config_type,
    check_broker_config,
    not_dynamic,
)
from lethe.protocol.kafka.config_resources import broker_problem
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.topic_configs import (
    TOPIC_CONFIGS,
    InvalidTopicConfig,
    ValueType,
    checked_topic_configs,
)
from lethe.protocol.own_settings import own_setting_problem, own_setting_type

_INVALID: Final = ErrorCode.INVALID_REQUEST
_NAMES_OF_OPERATIONS: Final = {AlterOperation.APPEND: "append", AlterOperation.SUBTRACT: "subtract"}


# --- before anything is read ----------------------------------------------------------------------------------------


def check_form(resource: AlterableResource, times: int) -> None:
    """Raise RowRefused if the request names the resource several times, or its settings in a wrong way."""
    if times > 1:
        raise RowRefused(_INVALID, "Each resource must appear at most once.")
    if any(times > 1 for times in Counter(config.name for config in resource.configs).values()):
        raise RowRefused(_INVALID, "Error due to duplicate config keys")
    without = [each.name for each in resource.configs if each.value is None and each.operation != AlterOperation.DELETE]
    if without:
        raise RowRefused(_INVALID, f"Null value not supported for : {', '.join(without)}")


def check_broker(name: str, own: int) -> None:
    """Raise RowRefused if a client alters this broker: it is another one."""
    if (problem := broker_problem(name, own, what="Node", or_else=",")) is not None:
        raise RowRefused(_INVALID, problem)


def check_type(resource: AlterableResource, *, incremental: bool) -> None:
    """Raise RowRefused for a type whose configuration is not altered."""
    known = (BROKER_RESOURCE, TOPIC_RESOURCE, CLIENT_METRICS_RESOURCE)
    if resource.type not in known and not (incremental and resource.type == BROKER_LOGGER_RESOURCE):
        raise RowRefused(_INVALID, f"Unknown resource type {resource.type}")


def refuse_log_levels(resource: AlterableResource) -> None:
    """Raise RowRefused: none of these loggers exists. Without a setting, nothing is to be done."""
    for config in resource.configs:
        match config.operation:
            case AlterOperation.SET | AlterOperation.DELETE:
                raise RowRefused(ErrorCode.INVALID_CONFIG, f"Logger {config.name} does not exist!")
            case AlterOperation.APPEND | AlterOperation.SUBTRACT:
                name = AlterOperation(config.operation).name
                raise RowRefused(_INVALID, f"{name} operation is not allowed for the BROKER_LOGGER resource")
            case other:
                words = f"Unknown operation type {other} is not allowed for the BROKER_LOGGER resource"
                raise RowRefused(_INVALID, words)


def unsupported(resource: AlterableResource) -> RowRefused:
    """Return the refusal of a type that has a configuration, which ZooKeeper does not keep."""
    words = f"AlterConfigs is only supported for topics and brokers, but resource type is {resource.resource.type_name}"
    return RowRefused(_INVALID, words)


# --- what the configuration becomes -----------------------------------------------------------------------------------


def replaced(configs: Sequence[AlterableConfig]) -> dict[str, str]:
    """Return the configuration after AlterConfigs."""
    return {each.name: each.value for each in configs if each.value is not None}


def altered_broker(stored: Mapping[str, str], configs: Sequence[AlterableConfig]) -> dict[str, str]:
    """Return a broker's configuration after IncrementalAlterConfigs. Raises RowRefused."""
    return _altered(
        stored, configs, lambda name: broker_config_type(name) or own_setting_type(name), broker_config_default
    )


def altered_topic(stored: Mapping[str, str], configs: Sequence[AlterableConfig]) -> dict[str, str]:
    """Return a topic's configuration after IncrementalAlterConfigs. Raises RowRefused."""

    def type_of(name: str) -> ValueType | None:
        return TOPIC_CONFIGS[name].type if name in TOPIC_CONFIGS else None

    return _altered(stored, configs, type_of, lambda name: TOPIC_CONFIGS[name].default)


def _altered(
    stored: Mapping[str, str],
    configs: Sequence[AlterableConfig],
    type_of: Callable[[str], ValueType | None],
    default_of: Callable[[str], str],
) -> dict[str, str]:
    left = dict(stored)
    for name, value, operation in configs:
        if operation not in list(AlterOperation):
            raise RowRefused(_INVALID, f"Unknown operations type {operation}")
        text = value or ""
        if operation in _NAMES_OF_OPERATIONS:
            text = _changed_list(name, text, operation, left.get(name), type_of(name), default_of)
        if operation == AlterOperation.DELETE:
            left.pop(name, None)
        else:
            left[name] = text
    return left


def _changed_list(
    name: str,
    text: str,
    operation: int,
    before: str | None,
    value_type: ValueType | None,
    default_of: Callable[[str], str],
) -> str:
    """Return the list with these elements more, or without them."""
    if value_type is None:
        raise RowRefused(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if value_type is not ValueType.LIST:
        act = _NAMES_OF_OPERATIONS[AlterOperation(operation)]
        raise RowRefused(ErrorCode.INVALID_CONFIG, f"Config value {act} is not allowed for config key: {name}")
    whole = default_of(name) if before is None else before
    old = whole.split(",") if whole else []
    elements = text.split(",")
    if operation == AlterOperation.APPEND:
        present = frozenset(old)
        return ",".join([*old, *(each for each in elements if each not in present)])
    left, to_remove = [], Counter(elements)
    for each in old:
        if to_remove[each]:
            to_remove[each] -= 1
        else:
            left.append(each)
    return ",".join(left)


# --- which values are accepted ----------------------------------------------------------------------------------------


def check_broker_configs(settings: Mapping[str, str], own: Container[str]) -> None:
    """Raise RowRefused if a client may not give the process, or all brokers, one of these settings. `own`: Lethe's own
    settings that have an effect there."""
    refused = [name for name in settings if broker_config_type(name) is None and name not in own]
    if refused:
        raise RowRefused(_INVALID, not_dynamic(refused))
    for name, text in settings.items():
        if broker_config_type(name) is not None:
            try:
                check_broker_config(name, text)
            except InvalidTopicConfig as problem:
                raise RowRefused(_INVALID, str(problem)) from problem
        elif (problem_of_own := own_setting_problem(name, text)) is not None:
            # A list has what is stored besides what the client appends, and its right is looked at later.
            shown = "" if own_setting_type(name) is ValueType.LIST else f" {text[:60]}"
            raise RowRefused(_INVALID, f"Invalid value{shown} for configuration {name}: {problem_of_own}")


def check_topic_configs(
    topic: str, settings: Mapping[str, str], defaults: Mapping[str, str], *, tiered_storage: bool
) -> None:
    """Raise RowRefused if brokers would not open the logs of a topic with this configuration."""
    try:
        checked_topic_configs(settings, defaults, tiered_storage=tiered_storage)
    except InvalidTopicConfig as problem:
        words = str(problem)
        if words.startswith(_KAFKAS_CONFIG_EXCEPTIONS):
            words = f"Invalid config value for resource {ConfigResource(TOPIC_RESOURCE, topic)}: {words}"
        raise RowRefused(ErrorCode.INVALID_CONFIG, words) from problem


_KAFKAS_CONFIG_EXCEPTIONS: Final = ("Invalid value ", "Tiered Storage ", "Remote log storage ")
"""Kafka names the resource where its own check of a value fails, and not where `LogConfig` finds a contradiction."""
