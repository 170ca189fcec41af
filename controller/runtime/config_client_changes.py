"""Properties that limit what clients may change: the window of their quotas, and policies."""

from __future__ import annotations

from typing import Final

from lethe.adapters.config_java_policies import ALTER_POLICY, java_policies
from lethe.adapters.properties import MAX_INT, Property, PropertyKind, Values
from lethe.controller.core.topic_policy import (
    DEFAULT_OF_REQUEST,
    MAX_OF_REQUEST,
    MAX_PARTITIONS,
    MAX_REPLICATION_FACTOR,
    MIN_REPLICATION_FACTOR,
    TOPIC_NAMES,
    TopicPolicy,
)
from lethe.controller.runtime.config_new_topics import MAX_SHORT
from lethe.controller.runtime.config_rules import read_patterns
from lethe.protocol.topic_globs import PROTECTED_TOPICS

_WINDOWS: Final = "controller.quota.window.num"
_WINDOW_S: Final = "controller.quota.window.size.seconds"
JAVA_POLICIES: Final = {
    "create.topic.policy.class.name": f"{TOPIC_NAMES}, {MAX_PARTITIONS} and {MIN_REPLICATION_FACTOR}",
    **ALTER_POLICY,
}


def _limit(name: str, doc: str, unit: str, maximum: int = MAX_INT) -> Property:
    return Property(name, PropertyKind.INTEGER, "0", f"{doc} 0: no limit.", unit=unit, minimum=0, maximum=maximum)


CLIENT_CHANGES: Final = (
    Property(
        _WINDOWS,
        PropertyKind.INTEGER,
        "11",
        "For how many windows a client with a quota `controller_mutation_rate` may save up changes of topics; give the "
        "brokers' own value. The quotas are Kafka's, in ZooKeeper: `kafka-configs --entity-type users|clients`.",
        unit="windows",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        _WINDOW_S,
        PropertyKind.INTEGER,
        "1",
        "How long such a window is; give the brokers' own value.",
        unit="seconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        TOPIC_NAMES,
        PropertyKind.LIST,
        None,
        "Patterns with `*` and `?`, of which the name of each topic that a client creates must match one; others are "
        f"refused with POLICY_VIOLATION. `{PROTECTED_TOPICS}` has those that nobody may delete. This policy and those "
        "below hold for clients' requests to a controller with `listeners`, and not for Kafka's internal topics.",
    ),
    _limit(MAX_PARTITIONS, "How many partitions a topic may have that a client creates or enlarges.", "partitions"),
    _limit(
        MIN_REPLICATION_FACTOR,
        "How many replicas the partitions of a topic need that a client creates, or whose number of replicas it "
        "changes by a reassignment.",
        "replicas",
        MAX_SHORT,
    ),
    _limit(MAX_REPLICATION_FACTOR, "The same, for how many they may have.", "replicas", MAX_SHORT),
    Property(
        MAX_OF_REQUEST,
        PropertyKind.INTEGER,
        str(DEFAULT_OF_REQUEST),
        "How many new partitions one CreateTopics or CreatePartitions request may ask for; a larger one is refused "
        "before it takes memory or time. The default is more than one topic can have. 0: no limit.",
        unit="partitions",
        minimum=0,
        maximum=MAX_INT,
    ),
    *java_policies(JAVA_POLICIES),
)


def read_quota_window_s(values: Values) -> int:
    """Return for how many seconds a client may save up changes of topics."""
    return values.integer(_WINDOWS) * values.integer(_WINDOW_S)


def read_policy(values: Values) -> TopicPolicy:
    """Return the policy for clients' requests. Note problems."""
    least, most = values.integer(MIN_REPLICATION_FACTOR), values.integer(MAX_REPLICATION_FACTOR)
    if 0 < most < least:
        values.wrong(MAX_REPLICATION_FACTOR, f"is below {MIN_REPLICATION_FACTOR}={least}", "write a larger number")
    names = read_patterns(values, TOPIC_NAMES)
    return TopicPolicy(names, values.integer(MAX_PARTITIONS), least, most, values.integer(MAX_OF_REQUEST))
