"""Brokers' properties that apply to new topics where a client's CreateTopics request names no value.

In Kafka the controller is a broker, and its own properties apply to the topics that clients create. So a controller
with `listeners` is given the properties of the brokers.
"""

from __future__ import annotations

from typing import Final

from lethe.adapters.properties import MAX_INT, Property, PropertyKind, Values
from lethe.controller.core.config import NewTopics
from lethe.protocol.kafka.topic_configs import InvalidTopicConfig
from lethe.protocol.kafka.topic_defaults import TOPIC_NAMES, BrokerSetting, ConfigSource, broker_setting_value

_REMOTE_STORAGE: Final = "remote.log.storage.system.enable"
_ELSEWHERE: Final = "unclean.leader.election.enable"
"""It is the controller's as well: declared there, and a wrong value is noted there."""
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
    *(
        Property(
            broker_name,
            PropertyKind.TEXT,
            None,
            f"Value of `{name}` in answers to clients that create a topic without it; give the brokers' own value.",
        )
        for broker_name, name in TOPIC_NAMES.items()
        if broker_name != _ELSEWHERE
    ),
)


def read_new_topics(values: Values) -> NewTopics:
    """Return what new topics get. Note problems."""
    settings: dict[str, BrokerSetting] = {}
    for name in TOPIC_NAMES:
        given = values.setting(name)
        if given is None:
            continue
        try:
            broker_setting_value(name, given.value)
        except InvalidTopicConfig as problem:
            if name == _ELSEWHERE:
                continue
            reason = str(problem).partition(f"{name}: ")[2]
            values.wrong(name, f"is refused by brokers: {reason}", "give the brokers' own value")
            continue
        settings[name] = BrokerSetting(given.value, ConfigSource.FILE)
    return NewTopics(
        values.integer("num.partitions"),
        values.integer("default.replication.factor"),
        settings,
        values.boolean(_REMOTE_STORAGE),
    )
