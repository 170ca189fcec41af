"""Topic settings of Kafka 3.9 and the values that its brokers accept.

Every broker that opens a log of topic T reads `/config/topics/T`. A value that it cannot parse keeps the log from
opening, so names and values are checked before they are written. Tiered storage settings that a cluster under ZooKeeper
refuses are refused here as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from lethe.protocol.kafka.config_values import parse_boolean

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]+\Z")
_THROTTLED: Final = re.compile(r"([0-9]+:[0-9]+)?\Z")

Rule = Callable[[str], str | None]
"""Return what is wrong with a value, or None."""


def _integer(low: int, high: int) -> Rule:
    def problem(value: str) -> str | None:
        if not _INTEGER.match(value):
            return "is not a whole number"
        if not low <= int(value) <= high:
            return f"is not between {low} and {high}"
        return None

    return problem


def _ratio(value: str) -> str | None:
    try:
        number = float(value)
    except ValueError:
        return "is not a number"
    return None if 0 <= number <= 1 else "is not between 0 and 1"


def _boolean(value: str) -> str | None:
    return "is neither true nor false" if parse_boolean(value) is None else None


def _one_of(*words: str) -> Rule:
    return lambda value: None if value in words else f"is none of {', '.join(words)}"


def _policies(value: str) -> str | None:
    words = [word.strip() for word in value.split(",")] if value.strip() else []
    return None if all(word in ("compact", "delete") for word in words) else "is not a list of compact and delete"


def _throttled_replicas(value: str) -> str | None:
    parts = [part.strip() for part in value.split(",")]
    if "".join(parts) == "*" or all(_THROTTLED.match(part) for part in parts):
        return None
    return "is neither * nor a list like 0:1,1:2 (partition:broker)"


def _format_version(value: str) -> str | None:
    return None if re.match(r"[0-9]+(\.[0-9]+){1,3}(-IV[0-9]+)?\Z", value) else "is not a version of Kafka"


def _only_false(value: str) -> str | None:
    return _boolean(value) or ("is refused under ZooKeeper" if parse_boolean(value) else None)


TOPIC_CONFIGS: Final[Mapping[str, Rule]] = {
    "cleanup.policy": _policies,
    "compression.gzip.level": _integer(-1, 9),
    "compression.lz4.level": _integer(1, 17),
    "compression.type": _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "compression.zstd.level": _integer(-131072, 22),
    "delete.retention.ms": _integer(0, _LONG_MAX),
    "file.delete.delay.ms": _integer(0, _LONG_MAX),
    "flush.messages": _integer(1, _LONG_MAX),
    "flush.ms": _integer(0, _LONG_MAX),
    "follower.replication.throttled.replicas": _throttled_replicas,
    "index.interval.bytes": _integer(0, _INT_MAX),
    "leader.replication.throttled.replicas": _throttled_replicas,
    "local.retention.bytes": _integer(-2, _LONG_MAX),
    "local.retention.ms": _integer(-2, _LONG_MAX),
    "max.compaction.lag.ms": _integer(1, _LONG_MAX),
    "max.message.bytes": _integer(0, _INT_MAX),
    "message.downconversion.enable": _boolean,
    "message.format.version": _format_version,
    "message.timestamp.after.max.ms": _integer(0, _LONG_MAX),
    "message.timestamp.before.max.ms": _integer(0, _LONG_MAX),
    "message.timestamp.difference.max.ms": _integer(0, _LONG_MAX),
    "message.timestamp.type": _one_of("CreateTime", "LogAppendTime"),
    "min.cleanable.dirty.ratio": _ratio,
    "min.compaction.lag.ms": _integer(0, _LONG_MAX),
    "min.insync.replicas": _integer(1, _INT_MAX),
    "preallocate": _boolean,
    "remote.log.copy.disable": _only_false,
    "remote.log.delete.on.disable": _only_false,
    "remote.storage.enable": _boolean,
    "retention.bytes": _integer(-_LONG_MAX - 1, _LONG_MAX),
    "retention.ms": _integer(-1, _LONG_MAX),
    "segment.bytes": _integer(14, _INT_MAX),
    "segment.index.bytes": _integer(4, _INT_MAX),
    "segment.jitter.ms": _integer(0, _LONG_MAX),
    "segment.ms": _integer(1, _LONG_MAX),
    "unclean.leader.election.enable": _boolean,
}


def parse_topic_config(settings: Iterable[str]) -> dict[str, str]:
    """Parse `name=value` texts into a dictionary sorted by name.

    Raises ValueError naming the text if it is malformed or repeats a setting.
    """
    found: dict[str, str] = {}
    for setting in settings:
        name, sign, value = (part.strip() for part in setting.partition("="))
        if not sign or not name or not value:
            raise ValueError(f"topic setting {setting!r} is not of the form name=value")
        if name in found:
            raise ValueError(f"topic setting {name} is given twice: {found[name]!r} and {value!r}")
        found[name] = value
    return dict(sorted(found.items()))


def topic_config_problem(config: Mapping[str, str]) -> str | None:
    """Return why a broker of Kafka 3.9 would refuse these settings, as a message for users; None if it accepts them."""
    for name, value in config.items():
        rule = TOPIC_CONFIGS.get(name)
        if rule is None:
            return f"unknown topic setting {name!r}"
        problem = rule(value)
        if problem is not None:
            return f"topic setting {name}: {value!r} {problem}"
    shortest = int(config.get("min.compaction.lag.ms", "0"))
    longest = int(config.get("max.compaction.lag.ms", str(_LONG_MAX)))
    if shortest > longest:
        return f"min.compaction.lag.ms ({shortest}) is larger than max.compaction.lag.ms ({longest})"
    return None
