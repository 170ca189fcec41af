"""Names of directories, both ways."""

from __future__ import annotations

import pytest

from lethe.protocol.kafka.directory_names import (
    DirectoryKind,
    deletion_name,
    directory_name,
    parse_directory_name,
    partition_problem,
    stray_name,
    unique_name,
)
from lethe.protocol.vocabulary import TopicPartition

UNIQUE = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    "name,topic,partition",
    [("t-0", "t", 0), ("a.b-c-12", "a.b-c", 12), ("t-delete-3", "t-delete", 3), ("--1", "-", 1)],
)
def test_replicas(name: str, topic: str, partition: int) -> None:
    assert parse_directory_name(name) == (DirectoryKind.REPLICA, TopicPartition(topic, partition))
    assert directory_name(TopicPartition(topic, partition)) == name


@pytest.mark.parametrize(
    "name",
    ["t", "t-", "-1", "t-01", "t-+1", "t--1x", "t-1.tmp", "..", ".-1", "..-1", "t-4294967296", "lost+found", "t-²",
     "t-0.0123-delete", f"t.{UNIQUE}-delete", "a b-0", "t-0/x-0", f"t-2147483648.{UNIQUE}-future",
     "t-2147483648", f"t-2147483648.{UNIQUE}-delete", f"t-2147483648.{UNIQUE}-stray"],
)  # fmt: skip
def test_everything_else_is_unknown(name: str) -> None:
    assert parse_directory_name(name).kind is DirectoryKind.UNKNOWN


@pytest.mark.parametrize(
    "name, kind, partition",
    [
        ("orders-3", DirectoryKind.REPLICA, TopicPartition("orders", 3)),
        ("a.b-c-0", DirectoryKind.REPLICA, TopicPartition("a.b-c", 0)),
        (f"a.b-0.{UNIQUE}-delete", DirectoryKind.DELETED, TopicPartition("a.b", 0)),
        (f"a.b-0.{UNIQUE}-stray", DirectoryKind.STRAY, TopicPartition("a.b", 0)),
        (f"a.b-0.{UNIQUE}-future", DirectoryKind.FUTURE, TopicPartition("a.b", 0)),
        ("lost+found", DirectoryKind.UNKNOWN, None),
        ("orders", DirectoryKind.UNKNOWN, None),
        (f"a b-0.{UNIQUE}-future", DirectoryKind.UNKNOWN, None),
        (f"a-2147483647.{UNIQUE}-future", DirectoryKind.FUTURE, TopicPartition("a", 2**31 - 1)),
        ("a-2147483648", DirectoryKind.UNKNOWN, None),
        (f"a-2147483648.{UNIQUE}-delete", DirectoryKind.UNKNOWN, None),
        (f"a-2147483648.{UNIQUE}-stray", DirectoryKind.UNKNOWN, None),
        (f"a-2147483648.{UNIQUE}-future", DirectoryKind.UNKNOWN, None),
    ],
)
def test_kinds(name: str, kind: DirectoryKind, partition: TopicPartition | None) -> None:
    assert parse_directory_name(name) == (kind, partition)


def test_deleted_and_stray_names() -> None:
    topic_partition = TopicPartition("a.b-c", 7)
    assert deletion_name(topic_partition, UNIQUE) == f"a.b-c-7.{UNIQUE}-delete"
    assert parse_directory_name(deletion_name(topic_partition, UNIQUE)) == (DirectoryKind.DELETED, topic_partition)
    assert parse_directory_name(stray_name(topic_partition, UNIQUE)) == (DirectoryKind.STRAY, topic_partition)


def test_an_overly_long_topic_can_be_renamed() -> None:
    """Kafka's LogManagerTest.testCreateAndDeleteOverlyLongTopic."""
    topic_partition = TopicPartition("x" * 249, 12345)
    assert len(directory_name(topic_partition)) == 255
    name = deletion_name(topic_partition, UNIQUE)
    assert len(name) == 255
    assert parse_directory_name(name).kind is DirectoryKind.DELETED


def test_a_directory_name_longer_than_a_file_system_takes_is_a_problem() -> None:
    assert "255" in (partition_problem(TopicPartition("x" * 249, 123456)) or "")


def test_unique_names_differ_by_seed_and_counter() -> None:
    made = {unique_name(seed, counter) for seed in ("a", "b") for counter in range(100)}
    assert len(made) == 200
    assert all(len(name) == 32 for name in made)
    assert unique_name("a", 1) == unique_name("a", 1)
