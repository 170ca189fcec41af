"""Brokers' properties that apply to new topics where a client's CreateTopics request names no value.

In Kafka the controller is a broker, and its own properties apply to the topics that clients create. So a controller
with `listeners` is given the properties of the brokers.
"""

from __future__ import annotations

from typing import Final

from lethe.adapters.config_topic_defaults import read_topic_defaults
from lethe.adapters.properties import MAX_INT, Property, PropertyKind, Values
from lethe.controller.core.config import NewTopics
from lethe.protocol.kafka.topic_defaults import BrokerSetting, ConfigSource

_REMOTE_STORAGE: Final = "remote.log.storage.system.enable"
MAX_SHORT: Final = 2**15 - 1

NEW_TOPICS: Final = (
    Property(
        "num.partitions",
        PropertyKind.INTEGER,
        "1",
        "How many partitions a topic gets whose creation names no number; give the brokers' own value.",
        unit="partitions",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "default.replication.factor",
        PropertyKind.INTEGER,
        "1",
        "How many replicas the partitions of such a topic get; give the brokers' own value.",
        unit="replicas",
        minimum=1,
        maximum=MAX_SHORT,
    ),
    Property(
        _REMOTE_STORAGE,
        PropertyKind.BOOLEAN,
        "false",
        "Whether the brokers have a remote storage. If not, a client may create no topic with `remote.storage.enable`.",
    ),
)


def read_new_topics(values: Values) -> NewTopics:
    """Return what new topics get. Note problems."""
    given = read_topic_defaults(values)
    settings = {name: BrokerSetting(text, ConfigSource.FILE) for name, text in given.items()}
    return NewTopics(
        values.integer("num.partitions"),
        values.integer("default.replication.factor"),
        settings,
        values.boolean(_REMOTE_STORAGE),
    )
