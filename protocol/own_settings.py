"""Lethe's own settings that may be altered in ZooKeeper while a controller or agent runs, and which values it can use.

To Kafka they are custom configurations. `controller.core.configuration` and `broker.runtime.removal_pace` follow them;
`config_alteration_rules` refuses other values to clients. Controllers and agents take each other's for all brokers,
since a client may send these to either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from lethe.protocol.deletion_grace import DELETION_GRACE, parse_grace
from lethe.protocol.kafka.config_values import parse_boolean, parse_thousandths
from lethe.protocol.kafka.topic_configs import ValueType
from lethe.protocol.topic_globs import PROTECTED_TOPICS, parse_globs
from lethe.protocol.zookeeper.znodes import OfflineReplicas

DELETE_TOPIC: Final = "delete.topic.enable"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
OFFLINE_REPLICAS: Final = "lethe.deletion.offline.replicas"
TOPICS_PER_SECOND: Final = "lethe.deletion.topics.per.second"
BYTES_PER_SECOND: Final = "lethe.deletion.bytes.per.second"
FREE_PERCENT: Final = "lethe.trash.free.percent"
REMOVED_FILES_PER_SECOND: Final = "lethe.delete.files.per.second"
REMOVED_BYTES_PER_SECOND: Final = "lethe.delete.bytes.per.second"
_MAX_SHOWN: Final = 60
_MAX_DIGITS: Final = 18


def _boolean(text: str) -> str | None:
    return None if parse_boolean(text) is not None else f"{text[:_MAX_SHOWN]!r} is neither true nor false"


def _patterns(text: str) -> str | None:
    parsed = parse_globs(text)
    return f"{parsed[:_MAX_SHOWN]!r} matches no topic" if isinstance(parsed, str) else None


def _grace(text: str) -> str | None:
    parsed = parse_grace(text)
    if not isinstance(parsed, str):
        return None
    return f"{parsed[:_MAX_SHOWN]!r} is not a pattern and a duration, such as orders.*:24h"


def _offline_replicas(text: str) -> str | None:
    is_known = text.strip().lower() in [each.value for each in OfflineReplicas]
    return None if is_known else f"{text[:_MAX_SHOWN]!r} is neither wait nor owe"


def _rate(text: str) -> str | None:
    is_number = parse_thousandths(text) is not None
    return None if is_number else f"{text[:_MAX_SHOWN]!r} is not a number, such as 20 or 0.5"


def _percent(text: str) -> str | None:
    digits = text.strip()
    if digits.isascii() and digits.isdigit() and len(digits) <= 2:
        return None
    return f"{text[:_MAX_SHOWN]!r} is not a number from 0 to 99"


def _count(text: str) -> str | None:
    digits = text.strip()
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS
    return None if is_number else f"{text[:_MAX_SHOWN]!r} is not a number, such as 1000; 0 sets no limit"


_Setting = tuple[ValueType, Callable[[str], str | None]]
_OF_CONTROLLERS: Final[Mapping[str, _Setting]] = MappingProxyType(
    {
        DELETE_TOPIC: (ValueType.BOOLEAN, _boolean),
        UNCLEAN_ELECTION: (ValueType.BOOLEAN, _boolean),
        PROTECTED_TOPICS: (ValueType.LIST, _patterns),
        DELETION_GRACE: (ValueType.LIST, _grace),
        OFFLINE_REPLICAS: (ValueType.STRING, _offline_replicas),
        TOPICS_PER_SECOND: (ValueType.DOUBLE, _rate),
        BYTES_PER_SECOND: (ValueType.DOUBLE, _rate),
        FREE_PERCENT: (ValueType.INT, _percent),
    }
)
_OF_AGENTS: Final[Mapping[str, _Setting]] = MappingProxyType(
    {REMOVED_FILES_PER_SECOND: (ValueType.LONG, _count), REMOVED_BYTES_PER_SECOND: (ValueType.LONG, _count)}
)
_CHECKS: Final = {**_OF_CONTROLLERS, **_OF_AGENTS}
OF_CONTROLLERS: Final = frozenset(_OF_CONTROLLERS)
OF_AGENTS: Final = frozenset(_OF_AGENTS)


def own_setting_type(name: str) -> ValueType | None:
    """Return the type of one of Lethe's own settings; None for another one."""
    return _CHECKS[name][0] if name in _CHECKS else None


def own_setting_problem(name: str, text: str) -> str | None:
    """Return why no process can use this value of the setting; None if it can. Raises KeyError for others."""
    return _CHECKS[name][1](text)
