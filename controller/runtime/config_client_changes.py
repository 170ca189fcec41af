"""Properties that limit what clients may change: the window of their quotas, and policies.

Kafka's policies are Java classes, which this controller cannot run. One that is configured was meant to refuse things,
so a controller that clients can reach does not start without it unless `lethe.policy.java.ignore` says so.
"""

from __future__ import annotations

from typing import Final

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
_JAVA_IGNORED: Final = "lethe.policy.java.ignore"
_JAVA: Final = {
    "create.topic.policy.class.name": f"{TOPIC_NAMES}, {MAX_PARTITIONS} and {MIN_REPLICATION_FACTOR}",
    "alter.config.policy.class.name": "ACLs for AlterConfigs",
}
"""Properties that name a policy's class, and what to use in its place."""


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
    *(
        Property(
            name,
            PropertyKind.TEXT,
            None,
            "The brokers' policy, a Java class, which this controller cannot run: with `listeners` it does not start "
            f"unless `{_JAVA_IGNORED}` is true. In its place: {instead}.",
        )
        for name, instead in _JAVA.items()
    ),
    Property(
        _JAVA_IGNORED,
        PropertyKind.BOOLEAN,
        "false",
        "Whether to start without the policies that " + " and ".join(f"`{name}`" for name in _JAVA) + " name.",
    ),
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


def check_java_policies(values: Values) -> None:
    """Note each policy of Java as a problem, or as a warning if it is to be ignored. `listeners`: clients come."""
    is_ignored = values.boolean(_JAVA_IGNORED)
    for name, instead in _JAVA.items() if values.text("listeners") else ():
        if not values.text(name):
            continue
        if is_ignored:
            ignored = f"{name} is ignored, as {_JAVA_IGNORED} says: this controller does not run it"
            values.warnings.append(f"{values.origin(name)}: {ignored}")
        else:
            remedy = f"use {instead}, remove the line, or set {_JAVA_IGNORED}=true to start without the policy"
            values.wrong(name, "names a Java class, which this controller cannot run", remedy)
