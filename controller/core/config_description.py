"""DescribeConfigs that names the controller: what ZooKeeper has of its configuration, and of others in the request.

    the resource                error
    --------------------------  -------------------------------------------------------------------------------------
    the controller              none: its own settings and those of all brokers; its properties file is not shown
    all brokers                 none: their settings in ZooKeeper
    the controller's log levels none, and there are no loggers of Java
    a topic                     none: all its settings; UNKNOWN_TOPIC_OR_PARTITION without it
    another broker, type        INVALID_REQUEST
    cannot be read              UNKNOWN_SERVER_ERROR: it is not shown as empty

Secrets are not shown, nor are the values of settings that neither Kafka nor Lethe has, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lethe.controller.core import config_rules, requests
from lethe.controller.core.config_requests import path_of, stored_config
from lethe.controller.core.context import Context
from lethe.controller.core.own_settings import own_setting_type
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_settings import ConfigsToDescribeRead, DescribeRequestedConfigs
from lethe.controller.core.topic_creation_rules import RowRefused
from lethe.protocol.kafka.admin_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    DescribableConfigs,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
)
from lethe.protocol.kafka.broker_configs import broker_config_type, holds_secret
from lethe.protocol.kafka.config_entries import ConfigEntry, ConfigSynonym
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.topic_configs import InvalidTopicConfig, ValueType
from lethe.protocol.kafka.topic_defaults import ConfigSource, effective_configs
from lethe.protocol.zookeeper.operations import GetData, ReadOutcome

_WHAT: Final = "describing the configuration that a client asked for"
_TYPES: Final = {
    ValueType.BOOLEAN: 1,
    ValueType.STRING: 2,
    ValueType.INT: 3,
    ValueType.LONG: 5,
    ValueType.DOUBLE: 6,
    ValueType.LIST: 7,
}
"""Kafka's numbers."""
_PASSWORD: Final = 9


def begin(step: StepContext, task: DescribeRequestedConfigs) -> None:
    """Read the configurations in ZooKeeper."""
    context = step.context
    request = requests.asked(context, task.key, DescribeConfigsRequest)
    named = (each.resource_name for each in request.resources if each.resource_type == TOPIC_RESOURCE)
    topics = tuple(name for name in dict.fromkeys(named) if name in context.cluster.topics)
    own = path_of(BROKER_RESOURCE, str(context.config.controller_id))
    read = (own, path_of(BROKER_RESOURCE, ""), *(path_of(TOPIC_RESOURCE, name) for name in topics))
    step.read(map(GetData, read), ConfigsToDescribeRead(task.key, topics))


def on_configs_to_describe_read(
    step: StepContext, then: ConfigsToDescribeRead, outcomes: Sequence[ReadOutcome]
) -> None:
    """Answer."""
    request = requests.asked(step.context, then.key, DescribeConfigsRequest)
    own, of_all, *of_topics = outcomes
    read = {
        (BROKER_RESOURCE, str(step.context.config.controller_id)): own,
        (BROKER_RESOURCE, ""): of_all,
        **{(TOPIC_RESOURCE, name): outcome for name, outcome in zip(then.topics, of_topics, strict=True)},
    }
    rows = tuple(_row(step, request, each, read) for each in request.resources)
    requests.answer(step, then.key, DescribeConfigsResponse(rows))


_Read = Mapping[tuple[int, str], ReadOutcome]


def _row(
    step: StepContext, request: DescribeConfigsRequest, resource: DescribableConfigs, read: _Read
) -> DescribedConfigs:
    kind, name = resource.resource_type, resource.resource_name
    try:
        entries = _entries(step.context, request, kind, name, read)
    except RowRefused as problem:
        if problem.error is ErrorCode.UNKNOWN_SERVER_ERROR:
            step.refuse("cluster", _WHAT, str(problem))
        return DescribedConfigs(problem.error, problem.message, kind, name, ())
    shown = tuple(each for each in entries if not resource.names or each.name in resource.names)
    return DescribedConfigs(ErrorCode.NONE, None, kind, name, shown)


def _entries(
    context: Context, request: DescribeConfigsRequest, kind: int, name: str, read: _Read
) -> Sequence[ConfigEntry]:
    if kind == TOPIC_RESOURCE:
        return _of_topic(context, name, read)
    if kind not in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        raise RowRefused(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")
    of_all = _settings(read, "")
    if kind == BROKER_RESOURCE and not name:
        return _of_brokers({}, of_all, with_synonyms=request.include_synonyms)
    config_rules.check_broker(name, context.config.controller_id, what="Broker")
    if kind == BROKER_LOGGER_RESOURCE:
        return ()
    own = _settings(read, str(context.config.controller_id))
    return _of_brokers(own, of_all, with_synonyms=request.include_synonyms)


def _settings(read: _Read, broker: str) -> dict[str, str]:
    return stored_config(path_of(BROKER_RESOURCE, broker), read[BROKER_RESOURCE, broker])


def _of_topic(context: Context, name: str, read: _Read) -> Sequence[ConfigEntry]:
    outcome = read.get((TOPIC_RESOURCE, name))
    if outcome is None:
        raise RowRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    path, tiered = path_of(TOPIC_RESOURCE, name), context.config.new_topics.tiered_storage
    try:
        return effective_configs(stored_config(path, outcome), context.broker_settings, tiered_storage=tiered)
    except InvalidTopicConfig as problem:
        raise RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR, why=f"{path}: {problem}") from problem


def _of_brokers(own: Mapping[str, str], of_all: Mapping[str, str], *, with_synonyms: bool) -> Sequence[ConfigEntry]:
    return tuple(_entry(name, own, of_all, with_synonyms=with_synonyms) for name in sorted({**of_all, **own}))


def _entry(name: str, own: Mapping[str, str], of_all: Mapping[str, str], *, with_synonyms: bool) -> ConfigEntry:
    value_type = broker_config_type(name) or own_setting_type(name)
    is_hidden = value_type is None
    places = ((own, ConfigSource.BROKER), (of_all, ConfigSource.ALL_BROKERS))
    found = [
        ConfigSynonym(name, None if is_hidden else settings[name], source)
        for settings, source in places
        if name in settings
    ]
    kafkas_type = _PASSWORD if holds_secret(name) else 0
    return ConfigEntry(
        name,
        found[0].value,
        read_only=is_hidden,
        source=found[0].source,
        is_sensitive=is_hidden,
        synonyms=tuple(found) if with_synonyms else (),
        type=kafkas_type if value_type is None else _TYPES[value_type],
    )
