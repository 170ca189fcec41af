"""Codecs of the small text files in Kafka's log directories: exact when writing, strict when reading.

Decoders raise ValueError saying what is wrong; the caller adds the file's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lethe.protocol.counting import counted
from lethe.protocol.vocabulary import TopicId, TopicPartition, topic_id_from_text, topic_id_to_text

META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"
TEMPORARY_SUFFIX: Final = ".tmp"

_NATURAL: Final = re.compile(r"[0-9]{1,19}\Z", re.ASCII)


# --- meta.properties ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The owner of a log directory."""

    broker_id: int | None
    cluster_id: str | None
    others: tuple[tuple[str, str], ...] = ()
    """Entries of newer releases (`directory.id`), which are kept."""


def encode_meta_properties(meta: MetaProperties) -> bytes:
    """Encode version 0, as ZooKeeper-mode brokers write it."""
    lines = ["version=0"]
    if meta.broker_id is not None:
        lines.append(f"broker.id={meta.broker_id}")
    if meta.cluster_id is not None:
        lines.append(f"cluster.id={meta.cluster_id}")
    lines += [f"{name}={value}" for name, value in meta.others]
    return ("\n".join(lines) + "\n").encode()


def decode_meta_properties(properties: Mapping[str, str]) -> MetaProperties:
    """Decode the entries. Raises ValueError for a version other than 0, such as KRaft's."""
    version = properties.get("version", "").strip()
    if version != "0":
        raise ValueError(
            f"version is {version!r} instead of '0': the directory was not made by a ZooKeeper-mode broker"
        )
    broker_id = properties.get("broker.id")
    if broker_id is not None and not _NATURAL.match(broker_id.strip()):
        raise ValueError(f"broker.id is {broker_id!r}")
    known = ("version", "broker.id", "cluster.id")
    return MetaProperties(
        None if broker_id is None else int(broker_id),
        properties.get("cluster.id"),
        tuple((name, value) for name, value in properties.items() if name not in known),
    )


# --- partition.metadata -------------------------------------------------------------------------------------------


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {topic_id_to_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> TopicId:
    """Return the topic id. Raises ValueError."""
    lines = data.decode("utf-8", "replace").strip().splitlines()
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    if len(lines) != 2 or fields.get("version", "").strip() != "0" or "topic_id" not in fields:
        raise ValueError(f"{data[:80]!r} is not version 0 and a topic id")
    topic_id = topic_id_from_text(fields["topic_id"].strip())
    if topic_id.int == 0:
        raise ValueError("the topic id is zero")
    return topic_id


# --- checkpoints --------------------------------------------------------------------------------------------------


def encode_checkpoint(offsets: Iterable[tuple[TopicPartition, int]]) -> bytes:
    """Encode version, number of entries, then `topic partition offset` lines."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets]
    return "\n".join(("0", str(len(lines)), *lines, "")).encode()


def decode_checkpoint(data: bytes) -> dict[TopicPartition, int]:
    """Return the offsets; empty for an empty file. Raises ValueError naming the line."""
    if not data.strip():
        return {}
    lines = data.decode("utf-8", "replace").splitlines()
    if lines[0].strip() != "0":
        raise ValueError(f"line 1 is {lines[0][:40]!r} instead of version 0")
    expected = lines[1].strip() if len(lines) > 1 else ""
    entries = [line for line in lines[2:] if line.strip()]
    if not _NATURAL.match(expected) or int(expected) != len(entries):
        raise ValueError(
            f"line 2 promises {expected[:40]!r} as the number of entries, {counted(len(entries), 'follows', 'follow')}"
        )
    found: dict[TopicPartition, int] = {}
    for number, line in enumerate(entries, 3):
        words = line.split()
        if len(words) != 3 or not _NATURAL.match(words[1]) or not _NATURAL.match(words[2]):
            raise ValueError(f"line {number} is {line[:80]!r} instead of topic, partition and offset")
        found[TopicPartition(words[0], int(words[1]))] = int(words[2])
    return found


def encode_leader_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    """Encode (leader epoch, start offset) pairs."""
    lines = [f"{epoch} {offset}" for epoch, offset in epochs]
    return "\n".join(("0", str(len(lines)), *lines, "")).encode()


# --- segments -----------------------------------------------------------------------------------------------------

RECORDS_PER_SEGMENT: Final = 1000
LOG_SUFFIX: Final = ".log"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, ".index", ".timeindex")


def segment_sizes(fill_bytes: int, segment_bytes: int) -> tuple[int, ...]:
    """Return the sizes of segments for `fill_bytes`, none above `segment_bytes`."""
    whole, rest = divmod(fill_bytes, segment_bytes)
    return (segment_bytes,) * whole + ((rest,) if rest else ())


def segment_name(index: int, suffix: str) -> str:
    """Return 20 digits of the base offset and the suffix, as if each segment held the same number of records."""
    return f"{index * RECORDS_PER_SEGMENT:020d}{suffix}"
