"""Brokers' properties that stand for settings of topics (`log.retention.hours` for `retention.ms`), as daemons read
them: they count where a topic does not have the setting, and are shown to clients."""

from __future__ import annotations

from typing import Final

from lethe.adapters.properties import Property, PropertyKind, Values
from lethe.protocol.kafka.topic_configs import InvalidTopicConfig
from lethe.protocol.kafka.topic_defaults import TOPIC_NAMES, broker_setting_value

UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
"""It is the controller's as well: declared there, and a wrong value is noted there."""

TOPIC_DEFAULTS: Final = tuple(
    Property(
        broker_name,
        PropertyKind.TEXT,
        None,
        f"Value of `{name}` in answers to clients about a topic without it; give the brokers' own value.",
    )
    for broker_name, name in TOPIC_NAMES.items()
    if broker_name != UNCLEAN_ELECTION
)


def read_topic_defaults(values: Values) -> dict[str, str]:
    """Return those that are given, by name. Note problems."""
    found: dict[str, str] = {}
    for name in TOPIC_NAMES:
        given = values.setting(name)
        if given is None:
            continue
        try:
            broker_setting_value(name, given.value)
        except InvalidTopicConfig as problem:
            if name == UNCLEAN_ELECTION:
                continue
            reason = str(problem).partition(f"{name}: ")[2]
            values.wrong(name, f"is refused by brokers: {reason}", "give the brokers' own value")
            continue
        found[name] = given.value
    return found
