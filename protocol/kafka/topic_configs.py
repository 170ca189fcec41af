"""Topic settings of Kafka 3.9.1: types, defaults, the values that brokers accept, and Kafka's words for the others.

Every broker that opens a log of topic T reads `/config/topics/T`. A value that it cannot parse keeps the log from
opening, so names and values are checked before they are written: by Kafka's rules (`LogConfig.validate`) and in its
order, in which the first problem counts.

    retention.ms=1h                 Invalid value 1h for configuration retention.ms: Not a number of type LONG
    retention.m=1                   Unknown topic config name: retention.m
    cleanup.policy= delete,compact  accepted; the value is the list delete, compact

Values are the texts that Kafka makes of them: trimmed, numbers without a plus sign, lists without blanks.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from lethe.protocol.kafka.config_values import parse_boolean

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]+\Z")
_MAX_DIGITS: Final = 1_000
_DOUBLE: Final = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)\Z")
_THROTTLED: Final = re.compile(r"([0-9]+:[0-9]+)?\Z")
_COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)
_LEAST_PLAIN: Final = 1e-3
_ABOVE_PLAIN: Final = 1e7
"""Java writes numbers outside these limits with an exponent."""
_JAVA_BLANKS: Final = "".join(map(chr, range(33)))
"""What Java's `String.trim` removes."""

Value = bool | int | float | str | tuple[str, ...]


class ValueType(enum.Enum):
    """Type of a setting, by Kafka's name for it."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"


class InvalidTopicConfig(ValueError):
    """A topic setting that brokers refuse; the text is Kafka's error message."""


Check = Callable[[str, Value], None]
"""Raises InvalidTopicConfig if the setting with this name must not have this value."""


class TopicConfig(NamedTuple):
    """A setting of topics. `default` is the text of its value where neither topic nor broker sets it."""

    type: ValueType
    default: str
    check: Check


# --- values -----------------------------------------------------------------------------------------------------------


def parse_value(name: str, text: str, value_type: ValueType) -> Value:
    """Return the text's value. Raises InvalidTopicConfig if it has another type."""
    trimmed = text.strip(_JAVA_BLANKS)
    match value_type:
        case ValueType.STRING:
            return trimmed
        case ValueType.LIST:
            return tuple(_COMMA.split(trimmed)) if trimmed else ()
        case ValueType.BOOLEAN:
            if (flag := parse_boolean(trimmed)) is None:
                raise _invalid(name, text, "Expected value to be either true or false")
            return flag
        case ValueType.INT | ValueType.LONG:
            most = INT_MAX if value_type is ValueType.INT else LONG_MAX
            if _INTEGER.match(trimmed) and len(trimmed) <= _MAX_DIGITS and -most - 1 <= int(trimmed) <= most:
                return int(trimmed)
        case ValueType.DOUBLE:
            if _DOUBLE.match(trimmed):
                return float(trimmed.rstrip("fFdD"))
    raise _invalid(name, text, f"Not a number of type {value_type.value}")


def text_of(value: Value) -> str:
    """Return the value's text in Kafka's answers."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return _double_text(value) if isinstance(value, float) else str(value)


def _double_text(number: float) -> str:
    """Return what Java's `Double.toString` makes of the number."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else f"{'-' if number < 0 else ''}Infinity"
    if number == 0 or _LEAST_PLAIN <= abs(number) < _ABOVE_PLAIN:
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    first, *others = map(str, digits)
    return f"{'-' if sign else ''}{first}.{''.join(others) or '0'}E{int(exponent) + len(others)}"


def _invalid(name: str, value: object, reason: str) -> InvalidTopicConfig:
    return InvalidTopicConfig(f"Invalid value {value} for configuration {name}: {reason}")


# --- which values are accepted ----------------------------------------------------------------------------------------


def _any(_name: str, _value: Value) -> None:
    pass


def between(low: int, high: int | None = None) -> Check:
    def check(name: str, value: Value) -> None:
        if not isinstance(value, int | float):
            raise TypeError(f"{name} is no number: {value!r}")
        if value < low:
            raise _invalid(name, text_of(value), f"Value must be at least {low}")
        if high is not None and value > high:
            raise _invalid(name, text_of(value), f"Value must be no more than {high}")

    return check


def _one_of(*words: str) -> Check:
    def check(name: str, value: Value) -> None:
        for word in value if isinstance(value, tuple) else (value,):
            if word not in words:
                raise _invalid(name, word, f"String must be one of: {', '.join(words)}")

    return check


def _gzip_level(name: str, value: Value) -> None:
    if value != -1 and value not in range(1, 10):
        raise _invalid(name, value, "Value must be between 1 and 9 or equal to -1")


def _throttled_replicas(name: str, value: Value) -> None:
    if not isinstance(value, tuple):
        raise TypeError(f"{name} is no list: {value!r}")
    parts = [part.strip(_JAVA_BLANKS) for part in value]
    if "".join(parts) != "*" and not all(_THROTTLED.match(part) for part in parts):
        form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        raise _invalid(
            name,
            f"[{', '.join(value)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: {form}",
        )


_RELEASES: Final = (
    ("0.8.0", 0), ("0.8.1", 0), ("0.8.2", 0), ("0.9.0", 0), ("0.10.0", 2), ("0.10.1", 3), ("0.10.2", 1), ("0.11.0", 3),
    ("1.0", 1), ("1.1", 1), ("2.0", 2), ("2.1", 3), ("2.2", 2), ("2.3", 2), ("2.4", 2), ("2.5", 1), ("2.6", 1),
    ("2.7", 3), ("2.8", 2), ("3.0", 2), ("3.1", 1), ("3.2", 1), ("3.3", 4), ("3.4", 1), ("3.5", 3), ("3.6", 3),
    ("3.7", 5), ("3.8", 1), ("3.9", 1),
)  # fmt: skip
"""Releases, and how many protocol versions (-IV0, -IV1, ...) each has in 3.9.1; 0: the release is the version."""
_UNRELEASED: Final = ("4.0-IV0", "4.0-IV1")
_VERSIONS: Final = frozenset(
    [
        *_UNRELEASED,
        *(name for name, _ in _RELEASES),
        *(f"{name}-IV{n}" for name, count in _RELEASES for n in range(count)),
    ]
)


def _format_version(name: str, value: Value) -> None:
    """Kafka looks at two numbers of a version, at three of one that begins with `0.`, and ignores the rest."""
    text = text_of(value)
    if ".".join(text.split(".")[: 3 if text.startswith("0.") else 2]) not in _VERSIONS:
        raise _invalid(name, text, f"Version {text} is not a valid version")


# --- the settings -----------------------------------------------------------------------------------------------------

_INT, _LONG, _LIST, _BOOLEAN, _STRING = (
    ValueType.INT,
    ValueType.LONG,
    ValueType.LIST,
    ValueType.BOOLEAN,
    ValueType.STRING,
)
_COMPRESSION: Final = _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_CONFIGS: Final[Mapping[str, TopicConfig]] = {
    "segment.bytes": TopicConfig(_INT, "1073741824", between(14)),
    "segment.ms": TopicConfig(_LONG, "604800000", between(1)),
    "segment.jitter.ms": TopicConfig(_LONG, "0", between(0)),
    "segment.index.bytes": TopicConfig(_INT, "10485760", between(4)),
    "flush.messages": TopicConfig(_LONG, str(LONG_MAX), between(1)),
    "flush.ms": TopicConfig(_LONG, str(LONG_MAX), between(0)),
    "retention.bytes": TopicConfig(_LONG, "-1", _any),
    "retention.ms": TopicConfig(_LONG, "604800000", between(-1)),
    "max.message.bytes": TopicConfig(_INT, "1048588", between(0)),
    "index.interval.bytes": TopicConfig(_INT, "4096", between(0)),
    "delete.retention.ms": TopicConfig(_LONG, "86400000", between(0)),
    "min.compaction.lag.ms": TopicConfig(_LONG, "0", between(0)),
    "max.compaction.lag.ms": TopicConfig(_LONG, str(LONG_MAX), between(1)),
    "file.delete.delay.ms": TopicConfig(_LONG, "60000", between(0)),
    "min.cleanable.dirty.ratio": TopicConfig(ValueType.DOUBLE, "0.5", between(0, 1)),
    "cleanup.policy": TopicConfig(_LIST, "delete", _one_of("compact", "delete")),
    "unclean.leader.election.enable": TopicConfig(_BOOLEAN, "false", _any),
    "min.insync.replicas": TopicConfig(_INT, "1", between(1)),
    "compression.type": TopicConfig(_STRING, "producer", _COMPRESSION),
    "compression.gzip.level": TopicConfig(_INT, "-1", _gzip_level),
    "compression.lz4.level": TopicConfig(_INT, "9", between(1, 17)),
    "compression.zstd.level": TopicConfig(_INT, "3", between(-131072, 22)),
    "preallocate": TopicConfig(_BOOLEAN, "false", _any),
    "message.format.version": TopicConfig(_STRING, "3.0-IV1", _format_version),
    "message.timestamp.type": TopicConfig(_STRING, "CreateTime", _one_of("CreateTime", "LogAppendTime")),
    "message.timestamp.difference.max.ms": TopicConfig(_LONG, str(LONG_MAX), between(0)),
    "message.timestamp.before.max.ms": TopicConfig(_LONG, str(LONG_MAX), between(0)),
    "message.timestamp.after.max.ms": TopicConfig(_LONG, str(LONG_MAX), between(0)),
    "leader.replication.throttled.replicas": TopicConfig(_LIST, "", _throttled_replicas),
    "follower.replication.throttled.replicas": TopicConfig(_LIST, "", _throttled_replicas),
    "message.downconversion.enable": TopicConfig(_BOOLEAN, "true", _any),
    "remote.storage.enable": TopicConfig(_BOOLEAN, "false", _any),
    "local.retention.ms": TopicConfig(_LONG, "-2", between(-2)),
    "local.retention.bytes": TopicConfig(_LONG, "-2", between(-2)),
    "remote.log.copy.disable": TopicConfig(_BOOLEAN, "false", _any),
    "remote.log.delete.on.disable": TopicConfig(_BOOLEAN, "false", _any),
}


def topic_config_value(name: str, text: str) -> Value:
    """Return the value of a known setting. Raises InvalidTopicConfig if brokers refuse it."""
    config = TOPIC_CONFIGS[name]
    value = parse_value(name, text, config.type)
    config.check(name, value)
    return value


def checked_topic_configs(
    configs: Mapping[str, str], defaults: Mapping[str, str], *, tiered_storage: bool
) -> dict[str, Value]:
    """Return the values of all settings of a topic with this configuration, in Kafka's order.

    `defaults`: what brokers set instead of Kafka's defaults, by the names of topic settings; valid values.
    `tiered_storage`: brokers have a remote storage. Raises InvalidTopicConfig."""
    for name in configs:
        if name not in TOPIC_CONFIGS:
            raise InvalidTopicConfig(f"Unknown topic config name: {name}")
    values = {
        name: topic_config_value(name, configs.get(name, defaults.get(name, config.default)))
        for name, config in TOPIC_CONFIGS.items()
    }
    _check_together(values, tiered_storage)
    return values


def _check_together(values: Mapping[str, Value], tiered_storage: bool) -> None:
    lags = number(values, "min.compaction.lag.ms"), number(values, "max.compaction.lag.ms")
    if lags[0] > lags[1]:
        raise InvalidTopicConfig(
            f"conflict topic config setting min.compaction.lag.ms ({lags[0]}) > max.compaction.lag.ms ({lags[1]})"
        )
    if values["remote.log.delete.on.disable"] or values["remote.log.copy.disable"]:
        raise InvalidTopicConfig(
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode."
        )
    if not values["remote.storage.enable"]:
        return
    if not tiered_storage:
        raise InvalidTopicConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if "compact" in text_of(values["cleanup.policy"]):
        raise InvalidTopicConfig("Remote log storage is unsupported for the compacted topics")
    _check_local(values, "bytes", is_limited=number(values, "retention.bytes") > -1)
    _check_local(values, "ms", is_limited=number(values, "retention.ms") != -1)


def _check_local(values: Mapping[str, Value], unit: str, *, is_limited: bool) -> None:
    """Refuse to keep more on a broker's own disk than in the remote storage; -2: as much."""
    name, whole = f"local.retention.{unit}", f"retention.{unit}"
    local, total = number(values, name), number(values, whole)
    if not is_limited or local == -2:
        return
    if local == -1:
        raise _invalid(name, local, f"Value must not be -1 as {whole} value is set as {total}.")
    if local > total:
        raise _invalid(name, local, f"Value must not be more than {whole} property value: {total}")


def number(values: Mapping[str, Value], name: str) -> int:
    """Return the value of an integer setting. Raises TypeError if it is none."""
    value = values[name]
    if not isinstance(value, int):
        raise TypeError(f"{name} is no integer: {value!r}")
    return value
