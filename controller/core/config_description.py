"""DescribeConfigs that names the controller: what ZooKeeper has of its configuration, and of others in the request.

    the resource                error
    --------------------------  -------------------------------------------------------------------------------------
    the controller              none: its own settings and those of all brokers; its properties file is not shown
    all brokers                 none: their settings in ZooKeeper
    the controller's log levels none, and there are no loggers of Java
    a topic                     none: all its settings; UNKNOWN_TOPIC_OR_PARTITION without it,
                                INVALID_TOPIC_EXCEPTION for its name
    another broker,             INVALID_REQUEST
    metrics of clients
    of a type that Kafka does   INVALID_REQUEST for all resources
    not describe
    cannot be read              UNKNOWN_SERVER_ERROR: it is not shown as empty
    may not be described by     TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED: it is not read either
    the client

Secrets are not shown, nor are the values of settings that neither Kafka nor Lethe has, as in Kafka. A resource that is
requested several times in the same way has one row: an answer could be far larger than its request otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.controller.core import requests
from lethe.controller.core.context import Context
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_settings import ConfigsToDescribeRead, DescribeRequestedConfigs
from lethe.protocol.client_rows import RowRefused
from lethe.protocol.config_alteration import path_of, stored_config
from lethe.protocol.config_description import described_rows
from lethe.protocol.kafka.admin_configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    configs_error_response,
)
from lethe.protocol.kafka.broker_configs import broker_config_type, holds_secret
from lethe.protocol.kafka.config_entries import ConfigEntry
from lethe.protocol.kafka.config_resources import DESCRIBED, resource_problem
from lethe.protocol.kafka.config_synonyms import ConfigPlaces, ConfigType, described_topic, synonyms_of
from lethe.protocol.kafka.errors import ErrorCode, error_message
from lethe.protocol.kafka.topic_configs import InvalidTopicConfig
from lethe.protocol.own_settings import own_setting_type
from lethe.protocol.security.acls import Operation
from lethe.protocol.security.rights import config_action, error_of
from lethe.protocol.vocabulary import topic_name_problem
from lethe.protocol.zookeeper.operations import GetData, ReadOutcome

_WHAT: Final = "describing the configuration that a client asked for"
_INVALID: Final = ErrorCode.INVALID_REQUEST


def begin(step: StepContext, task: DescribeRequestedConfigs) -> None:
    """Read the configurations in ZooKeeper. As in Kafka, an unknown type refuses the whole request."""
    context = step.context
    request = requests.asked(context, task.key, DescribeConfigsRequest)
    if any(each.resource_type not in DESCRIBED for each in request.resources):
        requests.answer(step, task.key, configs_error_response(request, _INVALID, error_message(_INVALID)))
        return
    named = (ConfigResource(*each[:2]) for each in request.resources if each.resource_type == TOPIC_RESOURCE)
    shown = (each for each in dict.fromkeys(named) if context.cluster.is_shown(each.name))
    topics = tuple(each.name for each in shown if _refusal(context, task.key, each) is None)
    own = path_of(BROKER_RESOURCE, str(context.config.controller_id))
    read = (own, path_of(BROKER_RESOURCE, ""), *(path_of(TOPIC_RESOURCE, name) for name in topics))
    step.read(map(GetData, read), ConfigsToDescribeRead(task.key, topics))


def on_configs_to_describe_read(
    step: StepContext, then: ConfigsToDescribeRead, outcomes: Sequence[ReadOutcome]
) -> None:
    """Answer."""
    request = requests.asked(step.context, then.key, DescribeConfigsRequest)
    own, of_all, *of_topics = outcomes
    read = _Read(
        _settings(str(step.context.config.controller_id), own),
        _settings("", of_all),
        dict(zip(then.topics, of_topics, strict=True)),
    )

    def entries_of(resource: ConfigResource) -> Sequence[ConfigEntry]:
        try:
            return _entries(step.context, then.key, resource, read)
        except RowRefused as problem:
            if problem.error is ErrorCode.UNKNOWN_SERVER_ERROR:
                step.refuse("cluster", _WHAT, str(problem))
            raise

    rows = described_rows(request, entries_of)
    requests.answer(step, then.key, DescribeConfigsResponse(rows))


_Settings = Mapping[str, str] | RowRefused
"""Settings in a znode, or why they are not known."""


class _Read(NamedTuple):
    own: _Settings
    of_all: _Settings
    of_topics: Mapping[str, ReadOutcome]

    def places(self, file: Mapping[str, str] = MappingProxyType({})) -> ConfigPlaces:
        """Return where the controller's settings are given. Raises RowRefused."""
        return ConfigPlaces(_known(self.own), _known(self.of_all), file)


def _settings(broker: str, outcome: ReadOutcome) -> _Settings:
    try:
        return stored_config(path_of(BROKER_RESOURCE, broker), outcome)
    except RowRefused as problem:
        return problem


def _known(settings: _Settings) -> Mapping[str, str]:
    if isinstance(settings, RowRefused):
        raise RowRefused(settings.error, why=str(settings))  # each raise of one exception makes its traceback longer
    return settings


def _entries(context: Context, key: int, resource: ConfigResource, read: _Read) -> Sequence[ConfigEntry]:
    """Return the settings of a resource with their synonyms. Raises RowRefused in the words of Kafka's ConfigHelper."""
    if (refusal := _refusal(context, key, resource)) is not None:
        raise refusal
    if (problem := resource_problem(resource, context.config.controller_id)) is not None:
        raise RowRefused(_INVALID, problem)
    match resource.type, resource.name:
        case kind, name if kind == TOPIC_RESOURCE:
            return _of_topic(context, name, read)
        case kind, "" if kind == BROKER_RESOURCE:
            return _of_brokers(ConfigPlaces({}, _known(read.of_all), {}))
        case kind, _ if kind == BROKER_RESOURCE:
            return _of_brokers(read.places())
        case _:
            return ()


def _refusal(context: Context, key: int, resource: ConfigResource) -> RowRefused | None:
    """Return the answer for a resource whose configuration the client may not see, or None."""
    action = config_action(Operation.DESCRIBE_CONFIGS, *resource)
    if action is None or requests.sender_of(context, key).allows(action):
        return None
    return RowRefused(error_of(action), error_message(error_of(action)))


def _of_topic(context: Context, name: str, read: _Read) -> Sequence[ConfigEntry]:
    if (problem := topic_name_problem(name)) is not None:
        raise RowRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    outcome = read.of_topics.get(name)
    if outcome is None:
        raise RowRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    places = read.places({each: setting.text for each, setting in context.config.new_topics.settings.items()})
    path = path_of(TOPIC_RESOURCE, name)
    try:
        return described_topic(stored_config(path, outcome), places)
    except InvalidTopicConfig as invalid:
        raise RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR, why=f"{path}: {invalid}") from invalid


def _of_brokers(places: ConfigPlaces) -> Sequence[ConfigEntry]:
    return tuple(_entry(name, places) for name in sorted({*places.broker, *places.all_brokers}))


def _entry(name: str, places: ConfigPlaces) -> ConfigEntry:
    value_type = broker_config_type(name) or own_setting_type(name)
    synonyms = synonyms_of(name, places, {})
    if value_type is not None:
        return ConfigEntry(
            name, synonyms[0].value, source=synonyms[0].source, synonyms=synonyms, type=ConfigType[value_type.value]
        )
    hidden = tuple(each._replace(value=None) for each in synonyms)
    secret = ConfigType.PASSWORD if holds_secret(name) else ConfigType.UNKNOWN
    return ConfigEntry(name, None, True, hidden[0].source, is_sensitive=True, synonyms=hidden, type=secret)
