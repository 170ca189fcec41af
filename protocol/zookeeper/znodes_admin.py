"""Requests and notifications through ZooKeeper, and dynamic configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lethe.protocol.vocabulary import BrokerId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import Json, array, dump, integer, malformed, mapping, parse_object, string

LOG_DIR_FAILURE: Final = 1
"""The only event of a log directory notification."""


def _partition(path: str, item: Json) -> tuple[TopicPartition, dict[str, Json]]:
    if not isinstance(item, dict):
        malformed(path, "an item of 'partitions' is not an object")
    topic = string(path, "'topic'", item.get("topic"))
    return TopicPartition(topic, integer(path, "'partition'", item.get("partition"), minimum=0)), item


def _partitions(path: str, data: bytes | None) -> list[tuple[TopicPartition, dict[str, Json]]]:
    listed = array(path, "'partitions'", parse_object(path, data).get("partitions"))
    return [_partition(path, item) for item in listed]


def _distinct(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    return tuple(dict.fromkeys(partition for partition, _ in _partitions(path, data)))


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    listed = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return dump({"version": 1, "partitions": listed})


# --- /admin -------------------------------------------------------------------------------------------------------


def encode_reassignment(targets: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """Return the data of `/admin/reassign_partitions`: the target replicas of each partition."""
    listed = [{"topic": tp.topic, "partition": tp.partition, "replicas": r} for tp, r in targets.items()]
    return dump({"version": 1, "partitions": listed})


def decode_reassignment(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the target replicas of each partition, in the given order; the last entry wins for a repeated partition.

    Repeated brokers and empty lists are accepted, so that one bad entry does not affect the others.
    """
    path = paths.REASSIGN_PARTITIONS
    return {tp: _replicas(path, tp, item.get("replicas")) for tp, item in _partitions(path, data)}


def _replicas(path: str, topic_partition: TopicPartition, value: object) -> tuple[int, ...]:
    where = f"'replicas' of {topic_partition}"
    return tuple(integer(path, f"a broker id in {where}", item) for item in array(path, where, value))


def encode_preferred_replica_election(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the data of `/admin/preferred_replica_election`."""
    return _encode_partitions(partitions)


def decode_preferred_replica_election(data: bytes | None) -> tuple[TopicPartition, ...]:
    """Return the partitions whose preferred replica shall become leader, without repetition."""
    return _distinct(paths.PREFERRED_REPLICA_ELECTION, data)


# --- notifications ------------------------------------------------------------------------------------------------


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the data of one `/isr_change_notification/isr_change_*`."""
    return _encode_partitions(partitions)


def decode_isr_change(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    """Return the partitions whose ISR a leader has changed."""
    return _distinct(path, data)


def encode_log_dir_event(broker: int) -> bytes:
    """Return the data of one `/log_dir_event_notification/log_dir_event_*`."""
    return dump({"version": 1, "broker": broker, "event": LOG_DIR_FAILURE})


def decode_log_dir_event(path: str, data: bytes | None) -> BrokerId:
    """Return the broker that has lost a log directory."""
    return BrokerId(integer(path, "'broker'", parse_object(path, data).get("broker"), minimum=0))


# --- configuration ------------------------------------------------------------------------------------------------


def encode_config(config: Mapping[str, str]) -> bytes:
    """Return the data of `/config/<type>/<entity>`."""
    return dump({"version": 1, "config": dict(config)})


def decode_config(path: str, data: bytes | None) -> dict[str, str]:
    """Return the overrides of one entity; like Kafka, none if the znode is empty or has no `config`."""
    if not data:
        return {}
    config = mapping(path, "'config'", parse_object(path, data).get("config"))
    return {key: string(path, f"config {key[:60]!r}", value) for key, value in config.items()}


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The entity whose configuration has changed: `entity_path` such as `topics/orders` or `users/u/clients/c`."""

    entity_path: str


def encode_config_change(change: ConfigChange) -> bytes:
    """Return the data of one `/config/changes/config_change_*`, in version 2."""
    return dump({"version": 2, "entity_path": change.entity_path})


def decode_config_change(path: str, data: bytes | None) -> ConfigChange:
    """Decode version 1 (separate type and name) or 2."""
    fields = parse_object(path, data)
    if integer(path, "'version'", fields.get("version"), minimum=1, maximum=2) == 2:
        return ConfigChange(string(path, "'entity_path'", fields.get("entity_path")))
    entity_type = string(path, "'entity_type'", fields.get("entity_type"))
    if entity_type not in ("topics", "clients"):
        malformed(path, f"'entity_type' must be topics or clients in version 1, found {entity_type[:40]!r}")
    name = string(path, "'entity_name'", fields.get("entity_name"))
    return ConfigChange(f"{entity_type}/{name}")
