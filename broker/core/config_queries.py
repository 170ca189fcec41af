"""Answer DescribeConfigs: topics and brokers, from ZooKeeper and from the agent's file, as Kafka 3.9 does.

    the request names                    answer
    a topic of the metadata cache        its settings, the brokers' and Kafka's defaults
    another topic                        UNKNOWN_TOPIC_OR_PARTITION, or INVALID_TOPIC_EXCEPTION for its name
    the agent's own id                   the properties of the agent, and what ZooKeeper has for it
    no id ("")                           what ZooKeeper has for all brokers
    another broker's id                  INVALID_REQUEST
    loggers of the agent                 none; of others INVALID_REQUEST
    a type that brokers do not describe  INVALID_REQUEST for every resource

What could not be read in ZooKeeper is UNKNOWN_SERVER_ERROR, as is a topic's value that brokers refuse: a setting that
was not seen is not a default. Passwords, and settings that are unknown here, are listed without their values. There are
no documentation texts.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from lethe.broker.core.metadata_cache import MetadataCache
from lethe.protocol.client_rows import RowRefused
from lethe.protocol.config_description import described_rows
from lethe.protocol.kafka.admin_configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
)
from lethe.protocol.kafka.broker_configs import broker_config_type
from lethe.protocol.kafka.config_entries import ConfigEntry, ConfigSynonym
from lethe.protocol.kafka.config_resources import DESCRIBED, resource_problem
from lethe.protocol.kafka.config_synonyms import (
    TOPIC_NAME_DEFAULTS,
    ConfigPlaces,
    ConfigType,
    described_topic,
    synonyms_of,
)
from lethe.protocol.kafka.errors import ErrorCode, error_message
from lethe.protocol.kafka.topic_configs import InvalidTopicConfig
from lethe.protocol.kafka.topic_defaults import ConfigSource
from lethe.protocol.own_settings import OF_AGENTS, OF_CONTROLLERS, own_setting_type
from lethe.protocol.vocabulary import BrokerId, topic_name_problem
from lethe.protocol.zookeeper import paths


class BrokerProperty(NamedTuple):
    """A property of the agent; `text` is what its file says of it."""

    name: str
    type: ConfigType
    default: str | None = None
    text: str | None = None


class OwnSettings(NamedTuple):
    """What an agent knows of its settings without ZooKeeper. `file`: also brokers' settings that stand for topics'."""

    broker_id: BrokerId
    properties: tuple[BrokerProperty, ...]

    @property
    def file(self) -> Mapping[str, str]:
        """The texts that the file has."""
        return {each.name: each.text for each in self.properties if each.text is not None}


Stored = Mapping[str, Mapping[str, str] | None]
"""Configurations in ZooKeeper by path; None: it could not be read."""


def needed_paths(cache: MetadataCache, request: DescribeConfigsRequest, broker_id: BrokerId) -> tuple[str, ...]:
    """Return the configurations in ZooKeeper that the answer needs, each once.

    Topics that the cache has not are not among them: a request may name as many as it likes.
    """
    named = (
        paths.config_topic(each.resource_name)
        for each in request.resources
        if each.resource_type == TOPIC_RESOURCE and each.resource_name in cache.topics
    )
    return tuple(dict.fromkeys((*named, paths.config_broker_default(), paths.config_broker(broker_id))))


def answer_describe_configs(
    cache: MetadataCache, request: DescribeConfigsRequest, own: OwnSettings, stored: Stored
) -> DescribeConfigsResponse:
    """One row for each resource; `stored` has all `needed_paths` of the cache as it was before they were read."""
    if any(each.resource_type not in DESCRIBED for each in request.resources):
        error = ErrorCode.INVALID_REQUEST
        rows = (DescribedConfigs(error, error_message(error), *each[:2], ()) for each in request.resources)
        return DescribeConfigsResponse(tuple(rows))
    return DescribeConfigsResponse(described_rows(request, lambda each: _entries(cache, each, own, stored)))


def _entries(
    cache: MetadataCache, resource: ConfigResource, own: OwnSettings, stored: Stored
) -> tuple[ConfigEntry, ...]:
    if (problem := resource_problem(resource, own.broker_id)) is not None:
        raise RowRefused(ErrorCode.INVALID_REQUEST, problem)
    match resource.type:
        case x if x == TOPIC_RESOURCE:
            return _of_topic(cache, resource.name, own, stored)
        case x if x == BROKER_RESOURCE:
            return _of_brokers(resource.name, own, stored)
        case _:
            return ()


def _read(stored: Stored, path: str) -> Mapping[str, str]:
    found = stored[path]
    if found is None:
        raise RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR)
    return found


def _places(own: OwnSettings, stored: Stored) -> ConfigPlaces:
    return ConfigPlaces(
        _read(stored, paths.config_broker(own.broker_id)), _read(stored, paths.config_broker_default()), own.file
    )


# --- topics -------------------------------------------------------------------------------------------------------


def _of_topic(cache: MetadataCache, topic: str, own: OwnSettings, stored: Stored) -> tuple[ConfigEntry, ...]:
    if (problem := topic_name_problem(topic)) is not None:
        raise RowRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if topic not in cache.topics or paths.config_topic(topic) not in stored:
        raise RowRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    try:
        return described_topic(_read(stored, paths.config_topic(topic)), _places(own, stored))
    except InvalidTopicConfig as invalid:
        raise RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR) from invalid


# --- brokers ------------------------------------------------------------------------------------------------------


def _of_brokers(name: str, own: OwnSettings, stored: Stored) -> tuple[ConfigEntry, ...]:
    known = {each.name: each for each in own.properties}
    if not name:
        everywhere = _read(stored, paths.config_broker_default())
        places = ConfigPlaces({}, everywhere, {})
        every = OF_CONTROLLERS | OF_AGENTS
        return tuple(
            _broker_entry(known.get(each) or _unlisted(each), places, {}, every) for each in sorted(everywhere)
        )
    places = _places(own, stored)
    defaults = {**TOPIC_NAME_DEFAULTS, **{p.name: p.default for p in own.properties if p.default is not None}}
    names = sorted({*known, *places.broker, *places.all_brokers})
    return tuple(_broker_entry(known.get(each) or _unlisted(each), places, defaults, OF_AGENTS) for each in names)


def _unlisted(name: str) -> BrokerProperty:
    """Return a setting that only ZooKeeper has."""
    known = broker_config_type(name) or own_setting_type(name)
    return BrokerProperty(name, ConfigType.UNKNOWN if known is None else ConfigType[known.value])


def _broker_entry(
    prop: BrokerProperty, places: ConfigPlaces, defaults: Mapping[str, str], own_settings: Container[str]
) -> ConfigEntry:
    """`own_settings`: those of Lethe's own that clients may alter there."""
    is_secret = prop.type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)
    synonyms = synonyms_of(prop.name, places, defaults)
    value = synonyms[0].value if synonyms else None
    if is_secret:
        value, synonyms = None, tuple(ConfigSynonym(each.name, None, each.source) for each in synonyms)
    return ConfigEntry(
        prop.name,
        value,
        broker_config_type(prop.name) is None and prop.name not in own_settings,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_secret,
        synonyms,
        prop.type,
    )
