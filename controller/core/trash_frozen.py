"""Settings of a topic with which brokers remove nothing of it: how they are recognised, written, and undone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.config_writes import config_operations
from lethe.protocol.zookeeper.operations import Data, Operation, ReadOutcome, failure_words, is_absent

FROZEN: Final = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
"""Settings under which brokers remove nothing."""


def is_frozen(config: Mapping[str, str]) -> bool:
    """Return whether brokers remove nothing under these settings."""
    return FROZEN.items() <= config.items()


def decoded(name: str, outcome: ReadOutcome) -> dict[str, str] | str | None:
    """Return the topic's settings, None if it has no znode with settings, or why they are unknown."""
    if is_absent(outcome):
        return None
    path = paths.config_topic(name)
    if not isinstance(outcome, Data):
        return f"reading {path} failed with {failure_words(outcome)}"
    try:
        return znodes.decode_config(path, outcome.data)
    except znodes.MalformedZnode as malformed:
        return str(malformed)


def frozen_version(name: str, outcome: ReadOutcome) -> int | None:
    """Return the version of these settings; None if retention is not off, or they cannot be understood."""
    config = decoded(name, outcome)
    is_off = isinstance(config, dict) and is_frozen(config)
    return outcome.stat.version if isinstance(outcome, Data) and is_off else None


def frozen_writes(name: str, outcome: ReadOutcome, config: Mapping[str, str] | None) -> tuple[Operation, ...]:
    """Return the writes of these settings with retention off, in place of those that were read."""
    version = outcome.stat.version if isinstance(outcome, Data) else None
    return config_operations(paths.config_topic(name), {**(config or {}), **FROZEN}, version)


def thawed(before: Mapping[str, str] | None, present: Mapping[str, str]) -> dict[str, str]:
    """Return the present settings of a topic in service, with those that are frozen as they were before. Those that
    were changed or deleted since stay so."""
    before = before or {}
    kept = {key: value for key, value in present.items() if FROZEN.get(key) != value}
    frozen = [key for key, value in FROZEN.items() if present.get(key) == value]
    settings = {**{key: before[key] for key in frozen if key in before}, **kept}
    return {key: settings[key] for key in dict.fromkeys((*before, *settings)) if key in settings}
